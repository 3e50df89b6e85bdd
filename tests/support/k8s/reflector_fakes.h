/* tests/support/k8s/reflector_fakes.h - what lies below a reflector: each call
 * writes a line into the journal, and the test gives the answers. It takes the
 * place of the API client; the test wraps calloc, realloc, event_new, event_add,
 * event_del, event_free and wp_rng_below. */
#ifndef WP_TESTS_SUPPORT_K8S_REFLECTOR_FAKES_H
#define WP_TESTS_SUPPORT_K8S_REFLECTOR_FAKES_H

#include "k8s/watch/reflector.h"
#include "tests/support/pool/manual_clock.h"

struct reflector_fakes {
    struct event_base *base;
    struct wp_clock_manual clock;
    struct wp_store *store;
    struct wp_reflector *reflector;
    struct wp_reflector_config config;
    struct event *timer;
    /* The list under way, and the stream. */
    wp_api_done *done;
    void *ctx;
    struct wp_http_stream_config stream;
    bool streaming;
    bool answered;
    bool draws_most;   /* Of what may be drawn; else nothing. */
    bool no_path;      /* A watch has none. */
    bool no_stream;    /* None can be opened. */
    uint32_t memory;   /* This allocation from now on fails; 0: none. */
    uint32_t realloc_; /* The same. */
};

extern struct reflector_fakes world;

#endif
