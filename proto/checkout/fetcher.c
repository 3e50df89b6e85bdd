#include "proto/checkout/fetcher.h"

#include <event2/event_struct.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/list.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"
#include "pool/base/siphash.h"
#include "pool/limits.h"
#include "pool/remotes/remote.h"
#include "proto/checkout/fetch_report.h"
#include "proto/sockets/passing.h"

enum {
    RUNNING_MAX = 16,
    PART_BYTES = WP_REMOTE_URL_MAX + 32,
    SWEEP_EVERY_MS = 3600 * 1000,
    SWEEP_TIMEOUT_MS = 600 * 1000,
};

/*   begin --> waiting --> running --> it has ended: done
 *                |           |
 *                '- cancel --+--> done is not called */
struct wp_fetch {
    struct wp_list node; /* In waiting or in running. */
    struct wp_fetcher *fetcher;
    wp_fetch_done *done; /* NULL: a sweep, or cancelled. */
    void *ctx;
    bool is_sweep;
    bool timed_out;
    struct wp_fetch_started started;
    struct event end_event;
    struct event timer;
    char url[WP_REMOTE_URL_MAX + 1];
    char ref[WP_GIT_REF_MAX + 1];
    char part[PART_BYTES]; /* Of the cache: a file name. */
    /* User, NUL, password; wiped. */
    char credential[WP_BINDING_USER_MAX + WP_BINDING_PASSWORD_MAX + 2];
    size_t credential_len; /* 0: there is none. */
};

struct wp_fetcher {
    struct wp_fetcher_config config;
    struct wp_hash_key key; /* Names parts of the cache; of this process. */
    struct event_base *base;
    struct wp_list waiting;
    struct wp_list running;
    uint32_t running_len; /* Sweeps not counted. */
    bool sweeping;
    bool sweep_due; /* Again, once it has ended. */
    struct event sweep_timer;
};

static void start_next(struct wp_fetcher *fetcher);
static void sweep_now(struct wp_fetcher *fetcher);

/* --- One run --- */

/* The repository's part of the cache: its URL as one part of a path, since '!'
 * is in none. What a password opened has parts of its own, whose names only
 * who has the password comes to. */
static void
name_part(struct wp_fetch *fetch, const char *tenant)
{
    const char *host = strstr(fetch->url, "://") + 3;
    bool tls = fetch->url[4] == 's';

    if (fetch->credential_len == 0) {
        (void)snprintf(fetch->part, PART_BYTES, "%s!%s", tls ? "s" : "p", host);
    } else {
        char whole[WP_TENANT_MAX + 1 + sizeof fetch->credential];
        size_t len = strlen(tenant) + 1;

        memcpy(whole, tenant, len);
        memcpy(whole + len, fetch->credential, fetch->credential_len);
        (void)snprintf(fetch->part, PART_BYTES, "%s%016" PRIx64 "!%s",
                       tls ? "s" : "p",
                       wp_siphash128(fetch->fetcher->key, whole,
                                     len + fetch->credential_len)
                           .low,
                       host);
        explicit_bzero(whole, sizeof whole);
    }
    for (char *c = fetch->part; *c != '\0'; c++) {
        if (*c == '/') {
            *c = '!';
        }
    }
}

/* A repository that was not to be had leaves no part of the cache: others may
 * come by the thousand. Unless another fetch is about to fill it. */
static void
drop_part(const struct wp_fetch *fetch)
{
    const struct wp_fetcher *fetcher = fetch->fetcher;
    const struct wp_fetch_runner *runner = &fetcher->config.runner;
    struct wp_list *node;

    for (node = fetcher->running.next; node != &fetcher->running;
         node = node->next) {
        const struct wp_fetch *other =
            WP_CONTAINER_OF(node, struct wp_fetch, node);

        if (other != fetch && strcmp(other->part, fetch->part) == 0) {
            return;
        }
    }
    if (runner->drop != NULL) {
        runner->drop(runner->self, fetch->part);
    }
}

static enum wp_status
run_checkout(struct wp_fetch *fetch, struct wp_err *err)
{
    const struct wp_fetcher_config *config = &fetch->fetcher->config;
    const struct wp_fetch_run run = {
        .part = fetch->part,
        .url = fetch->url,
        .ref = fetch->ref,
        .bytes_max = config->repository_bytes_max,
        .credential = {fetch->credential, fetch->credential_len},
    };

    return config->runner.start(config->runner.self, &run, &fetch->started,
                                err);
}

static enum wp_status
run_sweep(struct wp_fetch *fetch, struct wp_err *err)
{
    const struct wp_fetcher_config *config = &fetch->fetcher->config;
    const struct wp_fetch_run run = {
        .bytes_max = config->cache_bytes_max,
        .age_s = config->cache_age_s,
        .credential = WP_STR(""),
    };

    return config->runner.start(config->runner.self, &run, &fetch->started,
                                err);
}

/* --- Its end --- */

static void
fetch_free(struct wp_fetch *fetch)
{
    wp_list_remove(&fetch->node);
    if (fetch->started.end_fd >= 0) {
        (void)event_del(&fetch->end_event);
        (void)evtimer_del(&fetch->timer);
        (void)close(fetch->started.end_fd);
    }
    if (fetch->started.report_fd >= 0) {
        (void)close(fetch->started.report_fd);
    }
    explicit_bzero(fetch->credential, sizeof fetch->credential);
    free(fetch);
}

/* What it has reported: text, and a descriptor or -1. */
static bool
read_report(const struct wp_fetch *fetch, char text[WP_FETCH_REPORT_MAX + 1],
            int *fd)
{
    ssize_t n = wp_passing_receive(fetch->started.report_fd, text,
                                   WP_FETCH_REPORT_MAX, fd);

    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    return true;
}

/* No memory of the machine's is mapped by whom it is handed to. */
static bool
is_file(int fd, uint64_t *size)
{
    struct stat st;
    bool ok = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);

    *size = ok ? (uint64_t)st.st_size : 0;
    return ok;
}

static void
tell(const struct wp_fetch *fetch)
{
    char text[WP_FETCH_REPORT_MAX + 1];
    int fd;
    uint64_t size = 0;
    bool told = read_report(fetch, text, &fd);
    bool has = told && (text[0] == WP_FETCH_KEPT || text[0] == WP_FETCH_MADE) &&
               fd >= 0 && is_file(fd, &size);
    bool fits = size <= fetch->fetcher->config.repository_bytes_max;

    if (has && text[0] == WP_FETCH_MADE) {
        sweep_now(fetch->fetcher);
    }
    if (fetch->done == NULL || !has || !fits) {
        if (fd >= 0) {
            (void)close(fd);
        }
        fd = -1;
    }
    if (fetch->done == NULL) {
        return;
    }
    if (has && !fits) {
        fetch->done(fetch->ctx, WP_FAILED_PRECONDITION, -1,
                    "it is larger than the setting git_repository_size says");
    } else if (has) {
        fetch->done(fetch->ctx, WP_OK, fd, "");
    } else if (fetch->timed_out) {
        fetch->done(fetch->ctx, WP_DEADLINE_EXCEEDED, -1,
                    "it takes too long (setting git_timeout)");
    } else if (told && text[0] == WP_FETCH_FAILED &&
               wp_str_is_printable(wp_str_from(text + 1))) {
        fetch->done(fetch->ctx, WP_FAILED_PRECONDITION, -1, text + 1);
    } else {
        fetch->done(fetch->ctx, WP_UNAVAILABLE, -1,
                    "warmpool-fetch ended without a word");
    }
}

static void
tell_sweep(const struct wp_fetch *fetch)
{
    char text[WP_FETCH_REPORT_MAX + 1];
    int fd = -1;
    bool told = read_report(fetch, text, &fd);

    if (fd >= 0) {
        (void)close(fd);
    }
    if (!told || text[0] != WP_FETCH_SWEPT) {
        wp_log_warn("the cache of repositories was not swept");
    }
}

static void
on_end_seen(evutil_socket_t fd, short what, void *arg)
{
    struct wp_fetch *fetch = arg;
    struct wp_fetcher *fetcher = fetch->fetcher;
    const struct wp_fetch_runner *runner = &fetcher->config.runner;

    (void)what;
    if (!runner->has_ended(runner->self, fd)) {
        return;
    }
    if (fetch->is_sweep) {
        fetcher->sweeping = false;
        tell_sweep(fetch);
        if (fetcher->sweep_due) {
            sweep_now(fetcher);
        }
    } else {
        fetcher->running_len--;
        drop_part(fetch);
        tell(fetch);
    }
    fetch_free(fetch);
    start_next(fetcher);
}

static void
kill_it(const struct wp_fetch *fetch)
{
    const struct wp_fetch_runner *runner = &fetch->fetcher->config.runner;

    runner->kill(runner->self, fetch->started.end_fd);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct wp_fetch *fetch = arg;

    (void)fd;
    (void)what;
    fetch->timed_out = true;
    kill_it(fetch);
}

/* --- Turns --- */

/* It runs: watch it. */
static void
watch(struct wp_fetch *fetch, int64_t timeout_ms)
{
    struct wp_fetcher *fetcher = fetch->fetcher;
    struct timeval wait = wp_timeval(timeout_ms * WP_NS_PER_MS);

    (void)event_assign(&fetch->end_event, fetcher->base, fetch->started.end_fd,
                       EV_READ | EV_PERSIST, on_end_seen, fetch);
    (void)evtimer_assign(&fetch->timer, fetcher->base, on_timer, fetch);
    (void)event_add(&fetch->end_event, NULL);
    (void)evtimer_add(&fetch->timer, &wait);
    wp_list_push_back(&fetcher->running, &fetch->node);
}

static void
start_next(struct wp_fetcher *fetcher)
{
    while (fetcher->running_len < RUNNING_MAX &&
           !wp_list_empty(&fetcher->waiting)) {
        struct wp_fetch *fetch = WP_CONTAINER_OF(
            wp_list_pop_front(&fetcher->waiting), struct wp_fetch, node);
        struct wp_err err;

        if (run_checkout(fetch, &err) == WP_OK) {
            fetcher->running_len++;
            watch(fetch, fetcher->config.timeout_ms);
            continue;
        }
        fetch->done(fetch->ctx, err.status, -1, err.msg);
        fetch_free(fetch);
    }
}

static struct wp_fetch *
fetch_make(struct wp_fetcher *fetcher)
{
    struct wp_fetch *fetch = calloc(1, sizeof *fetch);

    if (fetch != NULL) {
        fetch->fetcher = fetcher;
        fetch->started = (struct wp_fetch_started){-1, -1};
        wp_list_init(&fetch->node);
    }
    return fetch;
}

static void
sweep_now(struct wp_fetcher *fetcher)
{
    struct wp_fetch *sweep;
    struct wp_err err;

    fetcher->sweep_due = fetcher->sweeping;
    if (fetcher->sweeping) {
        return;
    }
    sweep = fetch_make(fetcher);
    if (sweep == NULL) {
        return; /* In an hour. */
    }
    sweep->is_sweep = true;
    if (run_sweep(sweep, &err) != WP_OK) {
        wp_log_warn("the cache of repositories was not swept", wp_kv_err(&err));
        fetch_free(sweep);
        return;
    }
    fetcher->sweeping = true;
    watch(sweep, SWEEP_TIMEOUT_MS);
}

static void
on_sweep_timer(evutil_socket_t fd, short what, void *arg)
{
    struct wp_fetcher *fetcher = arg;
    struct timeval wait = wp_timeval(SWEEP_EVERY_MS * WP_NS_PER_MS);

    (void)fd;
    (void)what;
    (void)evtimer_add(&fetcher->sweep_timer, &wait);
    sweep_now(fetcher);
}

struct wp_fetch *
wp_fetcher_begin(struct wp_fetcher *fetcher, const struct wp_fetch_order *order,
                 wp_fetch_done *done, void *ctx)
{
    struct wp_fetch *fetch = fetch_make(fetcher);

    if (fetch == NULL) {
        return NULL;
    }
    fetch->done = done;
    fetch->ctx = ctx;
    (void)snprintf(fetch->url, sizeof fetch->url, "%s", order->url);
    (void)snprintf(fetch->ref, sizeof fetch->ref, "%s", order->ref);
    if (order->password[0] != '\0') {
        /* Their bounds leave room. */
        fetch->credential_len =
            (size_t)snprintf(fetch->credential, sizeof fetch->credential,
                             "%s%c%s", order->user, '\0', order->password);
        WP_ASSERT(fetch->credential_len < sizeof fetch->credential);
    }
    name_part(fetch, order->tenant);
    wp_list_push_back(&fetcher->waiting, &fetch->node);
    return fetch;
}

void
wp_fetcher_go(struct wp_fetcher *fetcher)
{
    if (!evtimer_pending(&fetcher->sweep_timer, NULL)) {
        on_sweep_timer(-1, 0, fetcher);
    }
    start_next(fetcher);
}

void
wp_fetch_cancel(struct wp_fetch *fetch)
{
    fetch->done = NULL;
    if (fetch->started.end_fd >= 0) {
        kill_it(fetch); /* Its end is seen later. */
    } else {
        fetch_free(fetch);
    }
}

/* --- Its life --- */

struct wp_fetcher *
wp_fetcher_create(const struct wp_fetcher_config *config,
                  struct event_base *base)
{
    struct wp_fetcher *fetcher = calloc(1, sizeof *fetcher);

    if (fetcher == NULL) {
        return NULL;
    }
    fetcher->config = *config;
    fetcher->base = base;
    wp_random_bytes(&fetcher->key, sizeof fetcher->key);
    wp_list_init(&fetcher->waiting);
    wp_list_init(&fetcher->running);
    (void)evtimer_assign(&fetcher->sweep_timer, base, on_sweep_timer, fetcher);
    return fetcher;
}

void
wp_fetcher_destroy(struct wp_fetcher *fetcher)
{
    struct wp_list *node;

    if (fetcher == NULL) {
        return;
    }
    (void)evtimer_del(&fetcher->sweep_timer);
    while ((node = wp_list_pop_front(&fetcher->waiting)) != NULL) {
        fetch_free(WP_CONTAINER_OF(node, struct wp_fetch, node));
    }
    while ((node = wp_list_pop_front(&fetcher->running)) != NULL) {
        struct wp_fetch *fetch = WP_CONTAINER_OF(node, struct wp_fetch, node);

        kill_it(fetch);
        if (fetcher->config.runner.wait != NULL) {
            fetcher->config.runner.wait(fetcher->config.runner.self,
                                        fetch->started.end_fd);
        }
        fetch_free(fetch);
    }
    free(fetcher);
}
