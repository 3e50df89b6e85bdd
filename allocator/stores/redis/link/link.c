#include "allocator/stores/redis/link/link.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "allocator/stores/redis/link/link_impl.h"
#include "allocator/stores/redis/link/sync.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

enum {
    /* Calls that nobody waits for, after several were under way at a time. */
    PASSED_BUSY = 8,
};

int64_t
wp_link_now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * WP_NS_PER_S + now.tv_nsec;
}

/* --- the stream of bytes; the link's lock is held --- */

void
wp_link_break(struct wp_redis_link *link)
{
    if (link->state == WP_LINK_UP) {
        link->state = WP_LINK_BROKEN;
        /* The reading thread sees the end of the stream. */
        (void)shutdown(link->stream.fd, SHUT_RDWR);
    }
}

void
wp_link_watch(struct wp_redis_link *link, uint32_t events)
{
    struct epoll_event event = {.events = EPOLLRDHUP | events,
                                .data.ptr = link};

    if (link->watched != events) {
        link->watched = events;
        (void)epoll_ctl(link->links->epoll_fd, EPOLL_CTL_MOD, link->stream.fd,
                        &event);
    }
}

bool
wp_link_send(struct wp_redis_link *link)
{
    wp_link_batch_close(link);
    while (link->out_sent < link->out_len) {
        ssize_t n =
            wp_redis_stream_send(&link->stream, link->out + link->out_sent,
                                 link->out_len - link->out_sent);

        if (n == WP_REDIS_AGAIN) {
            link->wants_write = true;
            wp_link_watch(link, EPOLLIN | EPOLLOUT);
            return true;
        }
        if (n == WP_REDIS_OVER) {
            wp_link_break(link);
            return false;
        }
        link->out_sent += (size_t)n;
        link->stream_sent += (uint64_t)n;
    }
    link->out_sent = 0;
    link->out_len = 0;
    link->wants_write = false;
    wp_link_watch(link, link->awaited ? 0 : EPOLLIN);
    return true;
}

size_t
wp_link_put_number(char *out, size_t number)
{
    char digits[24];
    size_t n = 0;

    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    for (size_t i = 0; i < n; i++) {
        out[i] = digits[n - 1 - i];
    }
    return n;
}

char *
wp_link_put_count(char *out, char kind, size_t count)
{
    *out++ = kind;
    out += wp_link_put_number(out, count);
    *out++ = '\r';
    *out++ = '\n';
    return out;
}

char *
wp_link_put_words(char *out, const struct wp_str *words, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        out = wp_link_put_count(out, '$', words[i].len);
        if (words[i].len > 0) {
            memcpy(out, words[i].ptr, words[i].len);
            out += words[i].len;
        }
        *out++ = '\r';
        *out++ = '\n';
    }
    return out;
}

bool
wp_link_make_room(struct wp_redis_link *link, size_t need)
{
    if (need > WP_LINK_BUFFER - link->out_len && link->out_sent > 0) {
        link->out_len -= link->out_sent;
        memmove(link->out, link->out + link->out_sent, link->out_len);
        link->out_sent = 0;
    }
    return need <= WP_LINK_BUFFER - link->out_len;
}

/* --- writers --- */

static void
wake(struct wp_redis_links *links)
{
    const uint64_t one = 1;
    ssize_t n = write(links->wake_fd, &one, sizeof one);

    (void)n; /* Full: it is awake already. */
}

/* After a call was pushed, without the lock: the reading thread looks at it. */
static void
rouse(struct wp_redis_links *links)
{
    if (atomic_load(&links->asleep)) {
        wake(links);
    }
}

bool
wp_link_takes_calls(struct wp_redis_link *link)
{
    struct wp_redis_links *links = link->links;
    /* Pairs with the release in the reading thread: the entry is free. */
    uint32_t head = atomic_load_explicit(&link->head, memory_order_acquire);

    if (link->state != WP_LINK_UP || link->renew ||
        atomic_load_explicit(&links->breaker, memory_order_relaxed)) {
        WP_LINK_COUNT(links->refused);
        return false;
    }
    if (atomic_load_explicit(&link->tail, memory_order_relaxed) - head >=
        links->config.pending_max) {
        WP_LINK_COUNT(links->full);
        return false;
    }
    return true;
}

void
wp_link_push_call(struct wp_redis_link *link, void *call, uint32_t tag,
                  uint64_t end)
{
    uint32_t tail = atomic_load_explicit(&link->tail, memory_order_relaxed);

    link->calls[tail & (link->links->calls_max - 1)] = (struct wp_link_call){
        .call = call,
        .end = end,
        .at_ns = wp_link_now_ns(),
        .tag = tag,
        .n = 1,
    };
    /* Publishes the entry. Sequentially consistent against `asleep`: the
     * reading thread says that it sleeps and then looks at the tails; either
     * it sees this call or we see it asleep. */
    atomic_store(&link->tail, tail + 1);
}

static enum wp_status
append_call(struct wp_redis_link *link, void *call, uint32_t tag,
            const struct wp_str *args, uint32_t n)
{
    char *start;
    char *end;

    if (!wp_link_takes_calls(link)) {
        return WP_UNAVAILABLE;
    }
    wp_link_batch_close(link);
    if (!wp_link_make_room(link, 32 + wp_link_words_len(args, n))) {
        WP_LINK_COUNT(link->links->full);
        return WP_UNAVAILABLE;
    }
    start = link->out + link->out_len;
    end = wp_link_put_words(wp_link_put_count(start, '*', n), args, n);
    link->out_len += (size_t)(end - start);
    link->stream_len += (uint64_t)(end - start);
    wp_link_push_call(link, call, tag, link->stream_len);
    return WP_PENDING;
}

enum wp_status
wp_link_appended(struct wp_redis_link *link, enum wp_status status, bool flush)
{
    if (status == WP_PENDING && (flush || link->out_len > WP_LINK_BUFFER / 2)) {
        (void)wp_link_send(link);
    }
    (void)pthread_mutex_unlock(&link->lock);
    if (status == WP_PENDING) {
        rouse(link->links);
    }
    return status;
}

enum wp_status /* NOLINTNEXTLINE(readability-function-size): parameters. */
wp_redis_send(struct wp_redis_links *links, uint32_t index, void *call,
              uint32_t tag, const struct wp_str *args, uint32_t n, bool flush)
{
    struct wp_redis_link *link = &links->links[index];

    WP_ASSERT(index < links->n && n <= WP_REDIS_ARGS_MAX);
    (void)pthread_mutex_lock(&link->lock);
    return wp_link_appended(link, append_call(link, call, tag, args, n), flush);
}

enum wp_status
wp_redis_send_asking(struct wp_redis_links *links, uint32_t index, void *call,
                     uint32_t tag, const struct wp_str *args, uint32_t n)
{
    struct wp_redis_link *link = &links->links[index];
    const struct wp_str asking = WP_STR("ASKING");
    enum wp_status status;

    WP_ASSERT(index < links->n && n <= WP_REDIS_ARGS_MAX);
    (void)pthread_mutex_lock(&link->lock);
    /* ASKING alone, should there be no room for what follows, does nothing. */
    status = append_call(link, NULL, 0, &asking, 1);
    if (status == WP_PENDING) {
        status = append_call(link, call, tag, args, n);
        (void)wp_link_send(link);
    }
    (void)pthread_mutex_unlock(&link->lock);
    rouse(links);
    return status;
}

void
wp_redis_flush(struct wp_redis_links *links, uint32_t index)
{
    struct wp_redis_link *link = &links->links[index];

    (void)pthread_mutex_lock(&link->lock);
    if (link->state == WP_LINK_UP && wp_link_has_gathered(link) &&
        !link->wants_write) {
        (void)wp_link_send(link);
    }
    (void)pthread_mutex_unlock(&link->lock);
}

/* The link's lock is held. Is what is gathered one call, and all that will be
 * owed? Then `reading` is held after it. Where several calls were under way at
 * a time the reading thread is awake, and who waits keeps others waiting. */
static bool
may_await(struct wp_redis_link *link)
{
    if (wp_link_in_flight(link) != 1) {
        link->n_passed =
            link->n_passed > PASSED_BUSY ? link->n_passed : PASSED_BUSY;
        return false;
    }
    if (link->n_passed > 0) {
        link->n_passed--;
        return false;
    }
    return pthread_mutex_trylock(&link->reading) == 0;
}

void
wp_redis_flush_and_wait(struct wp_redis_links *links, uint32_t index)
{
    struct wp_redis_link *link = &links->links[index];
    bool waits = false;

    (void)pthread_mutex_lock(&link->lock);
    if (link->state == WP_LINK_UP && wp_link_has_gathered(link) &&
        !link->wants_write) {
        waits = may_await(link);
        link->awaited = waits;
        (void)wp_link_send(link);
    }
    (void)pthread_mutex_unlock(&link->lock);
    if (waits) {
        wp_link_await(link);
        (void)pthread_mutex_unlock(&link->reading);
    }
}

void
wp_redis_links_renew(struct wp_redis_links *links)
{
    atomic_store(&links->renew, true);
    wake(links);
}

void
wp_redis_links_lead_to(struct wp_redis_links *links,
                       const struct wp_redis_server *server)
{
    bool any = false;

    for (uint32_t i = 0; i < links->n; i++) {
        struct wp_redis_link *link = &links->links[i];

        (void)pthread_mutex_lock(&link->lock);
        if (link->state == WP_LINK_UP && !link->renew &&
            !wp_redis_server_eq(&link->server, server)) {
            link->renew = true;
            any = true;
        }
        (void)pthread_mutex_unlock(&link->lock);
    }
    if (any) {
        atomic_store(&links->check, true);
        wake(links);
    }
}

/* --- the set --- */

static bool
link_init(struct wp_redis_links *links, uint32_t index)
{
    struct wp_redis_link *link = &links->links[index];

    link->links = links;
    link->index = index;
    link->stream.fd = -1;
    (void)pthread_mutex_init(&link->lock, NULL);
    (void)pthread_mutex_init(&link->reading, NULL);
    link->out = malloc(WP_LINK_BUFFER);
    link->calls = calloc(links->calls_max, sizeof link->calls[0]);
    return wp_link_batch_init(&link->batch) && link->out != NULL &&
           link->calls != NULL;
}

static bool
links_init(struct wp_redis_links *links, uint32_t n)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    pthread_condattr_t attr;
    bool ok;

    links->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    links->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)pthread_mutex_init(&links->down_lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&links->down_cond, &attr);
    (void)pthread_condattr_destroy(&attr);
    links->some_down = true;
    links->links = aligned_alloc(WP_CACHELINE, n * sizeof links->links[0]);
    if (links->links == NULL || links->epoll_fd < 0 || links->wake_fd < 0) {
        return false;
    }
    memset(links->links, 0, n * sizeof links->links[0]);
    ok = epoll_ctl(links->epoll_fd, EPOLL_CTL_ADD, links->wake_fd, &event) == 0;
    for (; links->n < n && ok; links->n++) {
        ok = link_init(links, links->n);
    }
    return ok;
}

static bool
links_start(struct wp_redis_links *links)
{
    links->reader_runs =
        pthread_create(&links->reader, NULL, wp_redis_reader_run, links) == 0;
    links->connector_runs = links->reader_runs &&
                            pthread_create(&links->connector, NULL,
                                           wp_redis_connector_run, links) == 0;
    if (links->reader_runs) {
        (void)pthread_setname_np(links->reader, "redis-read");
    }
    if (links->connector_runs) {
        (void)pthread_setname_np(links->connector, "redis-connect");
    }
    return links->connector_runs;
}

enum wp_status
wp_redis_links_create(const struct wp_redis_config *config,
                      const struct wp_redis_hooks *hooks, struct wp_str key,
                      uint32_t n, struct wp_redis_links **out,
                      struct wp_err *err)
{
    struct wp_redis_links *links = calloc(1, sizeof *links);
    uint64_t seed;

    WP_ASSERT(n > 0 && n <= WP_REDIS_LINKS_MAX);
    if (links == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for redis");
    }
    links->config = wp_redis_config_complete(config);
    links->hooks = *hooks;
    WP_ASSERT(key.len <= sizeof links->key);
    memcpy(links->key, key.ptr, key.len);
    links->key_len = key.len;
    links->calls_max = 1;
    while (links->calls_max < links->config.pending_max) {
        links->calls_max *= 2;
    }
    wp_random_bytes(&seed, sizeof seed);
    wp_rng_init(&links->rng, seed);
    if (!links_init(links, n) || !links_start(links)) {
        wp_redis_links_destroy(links);
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno,
                          "memory, descriptors and threads for %u connections"
                          " to redis",
                          n);
    }
    *out = links;
    return WP_OK;
}

void
wp_redis_links_stop(struct wp_redis_links *links)
{
    atomic_store(&links->stop, true);
    if (links->connector_runs) {
        (void)pthread_mutex_lock(&links->down_lock);
        (void)pthread_cond_signal(&links->down_cond);
        (void)pthread_mutex_unlock(&links->down_lock);
        (void)pthread_join(links->connector, NULL);
        links->connector_runs = false;
    }
    if (links->reader_runs) {
        wake(links);
        (void)pthread_join(links->reader, NULL);
        links->reader_runs = false;
    }
}

/* True once the thread has ended; *runs says whether there is one to join. */
static bool
has_ended(pthread_t thread, bool *runs)
{
    *runs = *runs && pthread_tryjoin_np(thread, NULL) != 0;
    return !*runs;
}

bool
wp_redis_links_close(struct wp_redis_links *links)
{
    atomic_store(&links->stop, true);
    (void)pthread_mutex_lock(&links->down_lock);
    (void)pthread_cond_signal(&links->down_cond);
    (void)pthread_mutex_unlock(&links->down_lock);
    wake(links);
    if (!has_ended(links->connector, &links->connector_runs) ||
        !has_ended(links->reader, &links->reader_runs)) {
        return false;
    }
    for (uint32_t i = 0; i < links->n; i++) {
        struct wp_redis_link *link = &links->links[i];

        (void)pthread_mutex_lock(&link->reading);
        wp_link_close(link);
        (void)pthread_mutex_unlock(&link->reading);
    }
    return true;
}

enum wp_status
wp_redis_links_reopen(struct wp_redis_links *links,
                      const struct wp_redis_server *server, struct wp_err *err)
{
    WP_ASSERT(!links->reader_runs && !links->connector_runs);
    links->config.server = *server;
    links->run_id[0] = '\0';
    links->logged = false;
    links->lost_logged_ns = 0;
    links->some_down = true;
    for (uint32_t i = 0; i < links->n; i++) {
        links->links[i].client_id = 0; /* Of another server. */
    }
    atomic_store(&links->breaker, false);
    atomic_store(&links->renew, false);
    atomic_store(&links->check, false);
    atomic_store(&links->asleep, false);
    atomic_store(&links->stop, false);
    if (!links_start(links)) {
        wp_redis_links_stop(links);
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno,
                          "threads for connections to redis");
    }
    return WP_OK;
}

bool
wp_redis_links_are_quiet(struct wp_redis_links *links)
{
    for (uint32_t i = 0; i < links->n; i++) {
        if (wp_link_in_flight(&links->links[i]) > 0) {
            return false;
        }
    }
    return true;
}

void
wp_redis_links_destroy(struct wp_redis_links *links)
{
    if (links == NULL) {
        return;
    }
    wp_redis_links_stop(links);
    for (uint32_t i = 0; i < links->n; i++) {
        struct wp_redis_link *link = &links->links[i];

        if (link->calls != NULL) {
            wp_link_end_calls(link);
        }
        wp_redis_stream_close(&link->stream);
        wp_link_reader_fini(link);
        wp_link_batch_fini(&link->batch);
        free(link->out);
        free(link->calls);
        (void)pthread_mutex_destroy(&link->reading);
        (void)pthread_mutex_destroy(&link->lock);
    }
    if (links->epoll_fd >= 0) {
        (void)close(links->epoll_fd);
    }
    if (links->wake_fd >= 0) {
        (void)close(links->wake_fd);
    }
    (void)pthread_mutex_destroy(&links->down_lock);
    (void)pthread_cond_destroy(&links->down_cond);
    free(links->links);
    free(links);
}

void
wp_redis_links_read_stats(struct wp_redis_links *links,
                          struct wp_redis_stats *out)
{
    memset(out, 0, sizeof *out);
    out->links = links->n;
    for (uint32_t i = 0; i < links->n; i++) {
        struct wp_redis_link *link = &links->links[i];

        (void)pthread_mutex_lock(&link->lock);
        out->links_up += link->state == WP_LINK_UP;
        (void)pthread_mutex_unlock(&link->lock);
    }
    out->breaker_open = atomic_load(&links->breaker);
    out->connects = atomic_load(&links->connects);
    out->connect_failures = atomic_load(&links->connect_failures);
    out->disconnects = atomic_load(&links->disconnects);
    out->timeouts = atomic_load(&links->timeouts);
    out->refused = atomic_load(&links->refused);
    out->full = atomic_load(&links->full);
    out->unknown = atomic_load(&links->unknown);
}
