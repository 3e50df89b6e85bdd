/* tests/support/http/http_rig.h - the API client and a peer in one event loop. */
#ifndef WP_TESTS_SUPPORT_HTTP_HTTP_RIG_H
#define WP_TESTS_SUPPORT_HTTP_HTTP_RIG_H

#include "k8s/api/api_config.h"
#include "k8s/api/http.h"
#include "tests/support/http/http_peer.h"

enum {
    RIG_ANSWERS = 64,
    RIG_REQUESTS = 512,
};

/* What came back, in the order in which it came. */
struct rig_answer {
    int tag;
    enum wp_status status;
    int code;
    size_t body_len;
    int64_t retry_after_ns;
    char body[256];
    char error[400];
};

struct rig {
    struct event_base *base;
    struct peer *peer;
    struct wp_api_config server;
    struct wp_http_config config;
    struct wp_http *http;
    int64_t timeout_ns; /* Of requests; 0: the client's. */
    char url[64];
    /* What the peer has got. A test answers in on_request; without one all are
     * answered with 200 and their path. */
    void (*on_request)(struct rig *rig, const struct peer_request *request);
    struct peer_request requests[RIG_REQUESTS];
    uint32_t request_count;
    struct rig_answer answers[RIG_ANSWERS];
    uint32_t answer_count; /* May be more than are kept. */
    uint32_t failed_count; /* Of these, not WP_OK with 200. */
};

/* The loop, the peer and the configuration; a test may change rig->config and
 * rig->server before rig_connect. peer: NULL for a plain one. */
void rig_init(struct rig *rig, const struct peer_config *peer);
void rig_connect(struct rig *rig);
void rig_fini(struct rig *rig);

/* A GET of path; or, with a body, method. tag comes back with the answer. */
void rig_get(struct rig *rig, const char *path, enum wp_http_priority priority,
             int tag);
void rig_send(struct rig *rig, const char *method, const char *path,
              const char *body, enum wp_http_priority priority, int tag);
/* Runs the loop until *count is at least wanted; fails the test after 10 s. */
void rig_wait(struct rig *rig, const uint32_t *count, uint32_t wanted);
/* The same until so many connections are open at the peer. */
void rig_wait_open(struct rig *rig, uint32_t wanted);
/* Runs the loop for so long, for what must not happen. */
void rig_pass_ms(struct rig *rig, int ms);

#endif
