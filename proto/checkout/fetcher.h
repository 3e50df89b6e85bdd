/* proto/checkout/fetcher.h - has repositories fetched, each by one run of
 * warmpool-fetch.
 *
 * Who runs it is the daemon's affair: behind bubblewrap on this machine
 * (local/sandbox/fetch_process.h), or in a container of its own
 * (proto/checkout/fetch_socket.h). Some run at once; the others wait their
 * turn. A run keeps what it fetched in a part of a cache: after that has grown,
 * and once an hour, it is brought within its bounds. Loop thread. */
#ifndef WP_PROTO_CHECKOUT_FETCHER_H
#define WP_PROTO_CHECKOUT_FETCHER_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/base/status.h"
#include "pool/base/str.h"

struct wp_fetcher;
struct wp_fetch;

/* A checkout, or a sweep of the cache. Borrowed for the call. */
struct wp_fetch_run {
    const char *part; /* Of the cache, a file name; NULL: a sweep. */
    const char *url;  /* As wp_remote_url writes it. */
    const char *ref;
    uint64_t bytes_max; /* Of the checkout, or of the cache. */
    int64_t age_s;      /* Of what a sweep keeps. */
    /* User, NUL and password for the remote; empty: none. */
    struct wp_str credential;
};

struct wp_fetch_started {
    int report_fd; /* Has the report (proto/checkout/fetch_report.h). */
    int end_fd;    /* Can be read when it may have ended. */
};

struct wp_fetch_runner {
    /* The descriptors are the caller's. Not WP_OK: err says why not. */
    enum wp_status (*start)(void *self, const struct wp_fetch_run *run,
                            struct wp_fetch_started *out, struct wp_err *err);
    bool (*has_ended)(void *self, int end_fd);
    void (*kill)(void *self, int end_fd);
    /* Optional: waits for the end of what was killed. */
    void (*wait)(void *self, int end_fd);
    /* Optional: removes a part that nothing was put into. */
    void (*drop)(void *self, const char *part);
    void *self;
};

struct wp_fetcher_config {
    struct wp_fetch_runner runner; /* self is borrowed until destroy. */
    uint64_t repository_bytes_max;
    uint64_t cache_bytes_max;
    int64_t cache_age_s;
    int64_t timeout_ms; /* Of one fetch, once it runs. */
};

/* NULL: memory lacks. */
struct wp_fetcher *wp_fetcher_create(const struct wp_fetcher_config *config,
                                     struct event_base *base);
/* Kills what runs. Nothing is reported. NULL is fine. */
void wp_fetcher_destroy(struct wp_fetcher *fetcher);

/* The outcome, once; never within wp_fetcher_begin. WP_OK: fd is of a tree
 * image, to be read, and the callee's. Else reason says what was not to be
 * had. */
typedef void wp_fetch_done(void *ctx, enum wp_status status, int fd,
                           const char *reason);

/* What to fetch. Copied. */
struct wp_fetch_order {
    const char *url; /* As wp_remote_url writes it. */
    const char *ref;
    /* For the remote; password "": none is sent. What it opens is kept in a
     * part of the cache that only this tenant with this password gets. */
    const char *tenant;
    const char *user;
    const char *password;
};

/* Queues it; wp_fetcher_go is to follow. NULL: memory lacks. */
struct wp_fetch *wp_fetcher_begin(struct wp_fetcher *fetcher,
                                  const struct wp_fetch_order *order,
                                  wp_fetch_done *done, void *ctx);
/* Starts what may start now; what cannot is done at once. */
void wp_fetcher_go(struct wp_fetcher *fetcher);
/* Before done was called: it will not be. */
void wp_fetch_cancel(struct wp_fetch *fetch);

#endif
