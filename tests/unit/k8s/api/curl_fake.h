/* tests/unit/k8s/api/curl_fake.h - libcurl's multi interface and the events of
 * libevent, for the HTTP client: each call writes a line into the journal, and
 * the test says what becomes of it. Nothing is sent and nothing waits. The test
 * wraps what is here (see the CMakeLists.txt of k8s_http_steps_test). */
#ifndef WP_TESTS_UNIT_K8S_API_CURL_FAKE_H
#define WP_TESTS_UNIT_K8S_API_CURL_FAKE_H

#include <curl/curl.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    FAKE_EASIES = 128,
    FAKE_MULTIS = 8,
    FAKE_EVENTS = 64,
};

/* Handles have the numbers in which they were made. */
struct fake_easy {
    CURL *curl; /* NULL: gone. */
    int multi;  /* -1: none. */
    char url[256];
    char method[16];
    const char *fields;
    char *error;
    void *private_;
    void *write_ctx;
    void *before_ctx;
    curl_write_callback write;
    curl_prereq_callback before;
    curl_sockopt_callback socket_made;
    /* What curl_easy_getinfo tells. */
    long code;
    long sent;
    long version;
    curl_off_t retry_after_s;
};

struct fake_multi {
    bool alive;
    curl_socket_callback socket;
    void *socket_ctx;
    curl_multi_timer_callback timer;
    void *timer_ctx;
    CURLMsg ended[FAKE_EASIES];
    int ended_len;
};

struct fake_event {
    struct event *event; /* NULL: gone. */
    evutil_socket_t fd;
    event_callback_fn run;
    void *ctx;
};

struct curl_fake {
    struct fake_easy easies[FAKE_EASIES];
    int easies_len;
    struct fake_multi multis[FAKE_MULTIS];
    int multis_len;
    struct fake_event events[FAKE_EVENTS];
    int events_len;
    bool kicked;
    bool shows_options;     /* Each option that is set is a line. */
    bool token_changes;     /* After a 401. */
    uint32_t fails;         /* What may fail does from now on; 0: never. */
    uint32_t adds_fail;     /* The same of event_add. */
    const char *unreadable; /* This file cannot be read. */
    void (*within)(void);   /* Called by curl_multi_socket_action. */
};

extern struct curl_fake fake;

/* Its callback is called, if it was made and is not gone. */
void fake_fire(int event, short what);
/* What was kicked runs, until nothing is kicked. */
void fake_turn(void);
/* The transfer of a handle ends, with what getinfo tells. */
void fake_end(int easy, CURLcode result);
/* Bytes come; what on_write returns. */
size_t fake_bytes(int easy, const char *bytes, size_t len);

#endif
