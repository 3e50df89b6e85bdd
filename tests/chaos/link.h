/* tests/chaos/link.h - a chaos client's connections to the replicas.
 *
 * Each call is written down when it starts and when it ends, however it ends:
 * answered, given up after its time-out, or with its connection. A connection
 * that was lost is made again. One thread. */
#ifndef WP_TESTS_CHAOS_LINK_H
#define WP_TESTS_CHAOS_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/client/h2_client.h"
#include "pool/base/arena.h"
#include "pool/base/list.h"
#include "proto/wire/wire.h"
#include "tests/chaos/history.h"

enum {
    WP_LINK_REPLICAS_MAX = 8
};

struct wp_link;

/* What a call is for, and what came of it. */
struct wp_link_call {
    enum wp_chaos_what what;
    uint8_t replica;
    uint64_t claim;
    int64_t started_ns;
    uint8_t status; /* As in struct wp_chaos_event. */
    /* When status is 0: of CLAIM, RENEW and GET; valid during done. */
    const struct wp_grant *grant;
    const uint8_t *token; /* CLAIM, RENEW */
    int64_t deadline_ns;  /* The same. */
    bool replayed;        /* CLAIM */
    bool was_held;        /* RELEASE */
};

/* The owner fills in flags that only it can know and the sandbox of a Renew; the
 * event is written after it returns. */
typedef void (*wp_link_done)(void *owner, const struct wp_link_call *call,
                             struct wp_chaos_event *event);

struct wp_link_config {
    const char *const *targets; /* Borrowed; n_targets of them. */
    unsigned n_targets;
    int history_fd;
    wp_link_done done;
};

/* Aborts when memory lacks. */
struct wp_link *wp_link_create(const struct wp_link_config *config);
void wp_link_destroy(struct wp_link *link);

/* A replica that is connected, at random from r, not `other` if it can be
 * helped; -1 when there is none. */
int wp_link_choose(struct wp_link *link, uint64_t r, int other);

/* Start a call of owner. done is called within a later wp_link_turn. */
void wp_link_claim(struct wp_link *link, void *owner, int replica,
                   uint64_t claim, const struct wp_wire_claim_request *request,
                   int64_t timeout_ns);
void wp_link_renew(struct wp_link *link, void *owner, int replica,
                   uint64_t claim, const struct wp_wire_renew_request *request,
                   int64_t timeout_ns);
void wp_link_release(struct wp_link *link, void *owner, int replica,
                     uint64_t claim,
                     const struct wp_wire_release_request *request,
                     int64_t timeout_ns);
void wp_link_get(struct wp_link *link, void *owner, int replica, uint64_t claim,
                 const struct wp_wire_get_claim_request *request,
                 int64_t timeout_ns);
/* No call of the claim follows. */
void wp_link_claim_over(struct wp_link *link, uint64_t claim);

/* Drops the connection to a replica, with all calls on it. */
void wp_link_cut(struct wp_link *link, int replica);

/* Sends, and handles what came, until until_ns at the latest. */
void wp_link_turn(struct wp_link *link, int64_t until_ns);

#endif
