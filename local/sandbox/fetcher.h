/* local/sandbox/fetcher.h - has repositories fetched, by processes without
 * rights.
 *
 * Each fetch is one run of warmpool-fetch, as a user of its own when the daemon
 * is root, behind bubblewrap: of the machine it sees programs, libraries, the
 * resolver's files and authorities, and it can write nothing but its
 * repository's part of the cache. It has the machine's network. Some run at
 * once; the others wait their turn. The cache lies below the state directory;
 * after it has grown, and once an hour, it is brought within its bounds. Loop
 * thread. */
#ifndef WP_LOCAL_SANDBOX_FETCHER_H
#define WP_LOCAL_SANDBOX_FETCHER_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pool/base/status.h"

struct wp_fetcher;
struct wp_fetch;

/* Texts are borrowed for the fetcher's life. */
struct wp_fetcher_config {
    const char *bwrap_path;
    const char *path; /* Of warmpool-fetch. */
    const char *cache_dir;
    const char *seccomp_path; /* NULL: no filter. */
    uint64_t repository_bytes_max;
    uint64_t cache_bytes_max;
    int64_t cache_age_s;
    int64_t timeout_ms; /* Of one fetch, once it runs. */
    bool drop;
    uid_t uid;
    const int *lock_fd; /* Not to be inherited. */
};

/* Makes the cache's directory; one of another user is made anew. NULL and
 * err. */
struct wp_fetcher *wp_fetcher_create(const struct wp_fetcher_config *config,
                                     struct event_base *base,
                                     struct wp_err *err);
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
