#include "allocator/stores/redis/topology/topology_impl.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "pool/base/log.h"

enum {
    /* However many want a look: one in so long. */
    LOOK_GAP_MS = 100,
};

static int64_t
now_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

static void
wake(struct wp_redis_topology *t)
{
    uint64_t one = 1;

    /* It fails only when the thread has been woken very often already. */
    (void)!write(t->wake_fd, &one, sizeof one);
}

bool
wp_redis_topology_stopping(struct wp_redis_topology *t)
{
    bool stop;

    (void)pthread_mutex_lock(&t->lock);
    stop = t->stop;
    (void)pthread_mutex_unlock(&t->lock);
    return stop;
}

void
wp_redis_topology_look_again(struct wp_redis_topology *t)
{
    (void)pthread_mutex_lock(&t->lock);
    t->look = true;
    (void)pthread_mutex_unlock(&t->lock);
}

/* lookup says something else from now on. The lock is held. */
static void
changed(struct wp_redis_topology *t)
{
    uint32_t in_doubt = 0;

    for (uint32_t i = 0; i < t->map.n_nodes; i++) {
        in_doubt += t->doubts[i] != 0;
    }
    t->stats.nodes = t->map.n_nodes;
    t->stats.in_doubt = in_doubt;
    t->stats.changes++;
    t->changed = true;
    (void)pthread_cond_broadcast(&t->known);
}

/* found says something else than map. The lock is held. */
static bool
differs(const struct wp_redis_topology *t)
{
    uint16_t before[WP_REDIS_NODES_MAX] = {WP_REDIS_NO_NODE};

    for (uint32_t i = 0; i < t->found.n_nodes; i++) {
        before[i] = wp_redis_slot_map_find(&t->map, &t->found.nodes[i]);
    }
    if (t->url.kind != WP_REDIS_CLUSTER) {
        return t->map.n_nodes == 0 || before[0] == WP_REDIS_NO_NODE;
    }
    for (uint32_t slot = 0; slot < WP_REDIS_SLOTS; slot++) {
        uint16_t owner = t->found.owner[slot];
        uint16_t old = t->map.owner[slot];

        if (old != (owner == WP_REDIS_NO_NODE ? owner : before[owner])) {
            return true;
        }
    }
    return t->map.n_nodes != t->found.n_nodes;
}

void
wp_redis_topology_publish(struct wp_redis_topology *t)
{
    uint64_t doubts[WP_REDIS_NODES_MAX] = {0};

    (void)pthread_mutex_lock(&t->lock);
    if (differs(t)) {
        for (uint32_t i = 0; i < t->found.n_nodes; i++) {
            uint16_t old = wp_redis_slot_map_find(&t->map, &t->found.nodes[i]);

            doubts[i] = old != WP_REDIS_NO_NODE ? t->doubts[old] : 0;
        }
        t->map = t->found;
        memcpy(t->doubts, doubts, sizeof doubts);
        changed(t);
    }
    (void)pthread_mutex_unlock(&t->lock);
}

void
wp_redis_topology_verified(struct wp_redis_topology *t,
                           const struct wp_redis_server *server, uint64_t doubt)
{
    uint16_t i;

    (void)pthread_mutex_lock(&t->lock);
    i = wp_redis_slot_map_find(&t->map, server);
    if (i != WP_REDIS_NO_NODE && t->doubts[i] != 0 && t->doubts[i] <= doubt) {
        t->doubts[i] = 0;
        changed(t);
    }
    (void)pthread_mutex_unlock(&t->lock);
}

/* What people should know, once: not each doubt that was soon dispelled. */
static void
log_outcome(struct wp_redis_topology *t, bool failed_before,
            const struct wp_err *err)
{
    struct wp_redis_topology_stats stats;
    struct wp_redis_server server;
    bool is_cluster = t->url.kind == WP_REDIS_CLUSTER;
    bool news;

    (void)pthread_mutex_lock(&t->lock);
    server = t->map.nodes[0];
    stats = t->stats;
    (void)pthread_mutex_unlock(&t->lock);
    if (err->status != WP_OK) {
        if (!failed_before || t->logged.looks == 0) {
            wp_log_warn("redis cannot be found", wp_kv_err(err));
            t->logged.looks = stats.looks;
        }
        return;
    }
    news = t->logged.looks == 0 || failed_before ||
           !wp_redis_server_eq(&server, &t->logged_server) ||
           (is_cluster && (stats.nodes != t->logged.nodes ||
                           stats.in_doubt != t->logged.in_doubt));
    if (news && is_cluster) {
        wp_log_info("redis cluster", wp_kv_int("nodes", stats.nodes),
                    wp_kv_int("in_doubt", stats.in_doubt),
                    wp_kv_str("why", err->msg));
    } else if (news) {
        wp_log_info("redis master", wp_kv_str("host", server.host),
                    wp_kv_int("port", server.port));
    }
    t->logged = stats;
    t->logged_server = server;
}

static void
look(struct wp_redis_topology *t)
{
    struct wp_err err = {.status = WP_OK, .msg = ""};
    bool failed_before;
    enum wp_status status;
    uint64_t doubt;

    (void)pthread_mutex_lock(&t->lock);
    t->look = false;
    doubt = t->last_doubt;
    failed_before = t->err.status != WP_OK;
    t->stats.looks++;
    (void)pthread_mutex_unlock(&t->lock);
    t->looked_ns = now_ns();
    status = t->url.kind == WP_REDIS_SENTINEL
                 ? wp_redis_topology_look_sentinel(t, doubt, &err)
                 : wp_redis_topology_look_cluster(t, doubt, &err);
    err.status = status;
    (void)pthread_mutex_lock(&t->lock);
    t->err = err;
    (void)pthread_mutex_unlock(&t->lock);
    log_outcome(t, failed_before, &err);
}

/* When the thread looks again by itself. */
static int64_t
next_look_ns(struct wp_redis_topology *t)
{
    int64_t gap_ns = t->config.recheck_ns;

    (void)pthread_mutex_lock(&t->lock);
    if (t->look) {
        gap_ns = LOOK_GAP_MS * WP_NS_PER_MS;
    } else if (t->err.status != WP_OK || t->stats.in_doubt > 0) {
        gap_ns = t->config.poll_ns;
    }
    (void)pthread_mutex_unlock(&t->lock);
    return t->looked_ns == 0 ? 0 : wp_time_add(t->looked_ns, gap_ns);
}

/* Until something is to be done, at most until that time. */
static void
wait_for_work(struct wp_redis_topology *t, int64_t until_ns)
{
    struct pollfd fds[2] = {{.fd = t->wake_fd, .events = POLLIN},
                            {.fd = -1, .events = POLLIN}};
    int64_t left_ns = until_ns - now_ns();
    uint64_t woken;
    int timeout_ms = 0;

    if (left_ns > 0) {
        int64_t ms = left_ns / WP_NS_PER_MS + 1;

        timeout_ms = ms < 60000 ? (int)ms : 60000;
    }
    if (t->events != NULL) {
        fds[1].fd = wp_redis_topology_events_fd(t);
    }
    if (poll(fds, 2, timeout_ms) <= 0) {
        return;
    }
    if (fds[0].revents != 0) {
        (void)!read(t->wake_fd, &woken, sizeof woken);
    }
    if (fds[1].revents != 0 && wp_redis_topology_read_events(t)) {
        wp_redis_topology_look_again(t);
    }
}

static void
notify(struct wp_redis_topology *t)
{
    bool changed;

    (void)pthread_mutex_lock(&t->lock);
    changed = t->changed;
    t->changed = false;
    (void)pthread_mutex_unlock(&t->lock);
    if (changed && t->config.on_change != NULL) {
        t->config.on_change(t->config.ctx);
    }
}

static void *
run(void *arg)
{
    struct wp_redis_topology *t = arg;

    while (!wp_redis_topology_stopping(t)) {
        int64_t next_ns = next_look_ns(t);

        if (now_ns() >= next_ns) {
            look(t);
        }
        notify(t);
        wait_for_work(t, next_look_ns(t));
        notify(t);
    }
    wp_redis_topology_close_events(t);
    return NULL;
}

static int64_t
or_default(int64_t value, int64_t fallback)
{
    return value > 0 ? value : fallback;
}

static enum wp_status
find(void *self, struct wp_str key, struct wp_redis_server *out,
     struct wp_err *err)
{
    struct wp_redis_topology *t = self;

    return wp_redis_topology_wait(t, wp_redis_slot(key), t->config.timeout_ns,
                                  out, err);
}

static void
doubt(void *self, struct wp_str reply)
{
    static const char *const no_master[] = {"READONLY", "MASTERDOWN",
                                            "CLUSTERDOWN"};
    struct wp_redis_topology *t = self;
    struct wp_redis_redirect redirect;

    if (reply.len == 0) {
        wp_redis_topology_failed(t, NULL);
    } else if (wp_redis_redirect_parse(reply, &redirect) && !redirect.ask) {
        wp_redis_topology_moved(t, redirect.slot, &redirect.server);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(no_master); i++) {
        if (wp_str_starts_with(reply, wp_str_from(no_master[i]))) {
            wp_redis_topology_failed(t, NULL);
        }
    }
}

static void
free_topology(struct wp_redis_topology *t)
{
    if (t->wake_fd >= 0) {
        (void)close(t->wake_fd);
    }
    (void)pthread_mutex_destroy(&t->lock);
    (void)pthread_cond_destroy(&t->known);
    explicit_bzero(&t->url, sizeof t->url);
    free(t);
}

static void
begin_with(struct wp_redis_topology *t, const struct wp_redis_url *url,
           const struct wp_redis_topology_config *config)
{
    pthread_condattr_t attr;

    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&t->lock, NULL);
    (void)pthread_cond_init(&t->known, &attr);
    (void)pthread_condattr_destroy(&attr);
    t->url = *url;
    t->config = *config;
    t->config.timeout_ns = or_default(config->timeout_ns, WP_NS_PER_S);
    t->config.poll_ns = or_default(config->poll_ns, WP_NS_PER_S);
    t->config.recheck_ns = or_default(config->recheck_ns, 10 * WP_NS_PER_S);
    t->router =
        (struct wp_redis_router){.self = t, .find = find, .doubt = doubt};
    wp_redis_slot_map_clear(&t->map);
    for (uint32_t i = 0; i < url->n_seeds; i++) {
        t->sentinels[i].server = url->seeds[i];
    }
    t->n_sentinels = url->n_seeds;
    (void)wp_err_set(&t->err, WP_UNAVAILABLE, "nobody has answered yet");
    if (url->kind == WP_REDIS_SINGLE) {
        (void)wp_redis_slot_map_add(&t->map, &url->server);
        t->stats.nodes = 1;
    }
}

enum wp_status
wp_redis_topology_create(const struct wp_redis_url *url,
                         const struct wp_redis_topology_config *config,
                         struct wp_redis_topology **out, struct wp_err *err)
{
    struct wp_redis_topology *t = calloc(1, sizeof *t);
    int failed;

    if (t == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                          "memory for redis's topology");
    }
    begin_with(t, url, config);
    t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->wake_fd < 0) {
        failed = errno;
        free_topology(t);
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, failed, "eventfd");
    }
    if (url->kind != WP_REDIS_SINGLE) {
        failed = pthread_create(&t->thread, NULL, run, t);
        if (failed != 0) {
            free_topology(t);
            return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, failed,
                              "thread of redis's topology");
        }
        (void)pthread_setname_np(t->thread, "redis-topology");
        t->thread_runs = true;
    }
    *out = t;
    return WP_OK;
}

void
wp_redis_topology_destroy(struct wp_redis_topology *t)
{
    if (t == NULL) {
        return;
    }
    if (t->thread_runs) {
        (void)pthread_mutex_lock(&t->lock);
        t->stop = true;
        (void)pthread_mutex_unlock(&t->lock);
        wake(t);
        (void)pthread_join(t->thread, NULL);
    }
    free_topology(t);
}

/* The lock is held. */
static enum wp_status
lookup(const struct wp_redis_topology *t, uint16_t slot,
       struct wp_redis_server *out, struct wp_err *err)
{
    const char *why = t->err.msg;
    uint16_t i = 0;

    if (t->url.kind == WP_REDIS_CLUSTER) {
        i = slot < WP_REDIS_SLOTS ? t->map.owner[slot] : WP_REDIS_NO_NODE;
    }
    if (i < t->map.n_nodes && t->doubts[i] == 0) {
        *out = t->map.nodes[i];
        return WP_OK;
    }
    if (why[0] == '\0') {
        why = i < t->map.n_nodes ? "the server of this key may be gone"
                                 : "no node has this key's slot";
    }
    return wp_err_set(err, WP_UNAVAILABLE, "redis: %s", why);
}

enum wp_status
wp_redis_topology_lookup(struct wp_redis_topology *t, uint16_t slot,
                         struct wp_redis_server *out, struct wp_err *err)
{
    enum wp_status status;

    (void)pthread_mutex_lock(&t->lock);
    status = lookup(t, slot, out, err);
    (void)pthread_mutex_unlock(&t->lock);
    return status;
}

enum wp_status
wp_redis_topology_wait(struct wp_redis_topology *t, uint16_t slot,
                       int64_t limit_ns, struct wp_redis_server *out,
                       struct wp_err *err)
{
    int64_t until_ns = wp_time_add(now_ns(), limit_ns);
    struct timespec until = {.tv_sec = until_ns / WP_NS_PER_S,
                             .tv_nsec = until_ns % WP_NS_PER_S};
    enum wp_status status;
    int waited = 0;

    (void)pthread_mutex_lock(&t->lock);
    while ((status = lookup(t, slot, out, err)) != WP_OK && waited == 0) {
        waited = pthread_cond_timedwait(&t->known, &t->lock, &until);
    }
    (void)pthread_mutex_unlock(&t->lock);
    return status;
}

void
wp_redis_topology_moved(struct wp_redis_topology *t, uint16_t slot,
                        const struct wp_redis_server *server)
{
    uint16_t i = WP_REDIS_NO_NODE;

    if (t->url.kind != WP_REDIS_CLUSTER || slot >= WP_REDIS_SLOTS) {
        return;
    }
    (void)pthread_mutex_lock(&t->lock);
    t->stats.moved++;
    t->look = true;
    if (server->host[0] != '\0' && server->port != 0) {
        t->hint = *server;
        i = wp_redis_slot_map_add(&t->map, server);
    }
    if (i != WP_REDIS_NO_NODE && t->map.owner[slot] != i) {
        t->map.owner[slot] = i;
        changed(t);
    }
    (void)pthread_mutex_unlock(&t->lock);
    wake(t);
}

/* True: one of them is a node. The lock is held. */
static bool
doubt_nodes(struct wp_redis_topology *t, const struct wp_redis_server *server)
{
    bool found = false;
    bool news = false;

    for (uint32_t i = 0; i < t->map.n_nodes; i++) {
        if (server == NULL || wp_redis_server_eq(&t->map.nodes[i], server)) {
            news = news || t->doubts[i] == 0;
            t->doubts[i] = ++t->last_doubt;
            found = true;
        }
    }
    if (news) {
        changed(t);
    }
    return found;
}

void
wp_redis_topology_doubt_all(struct wp_redis_topology *t)
{
    (void)pthread_mutex_lock(&t->lock);
    (void)doubt_nodes(t, NULL);
    (void)pthread_mutex_unlock(&t->lock);
}

void
wp_redis_topology_failed(struct wp_redis_topology *t,
                         const struct wp_redis_server *server)
{
    bool look_again;

    if (t->url.kind == WP_REDIS_SINGLE) {
        return;
    }
    (void)pthread_mutex_lock(&t->lock);
    look_again = doubt_nodes(t, server);
    t->look = t->look || look_again;
    (void)pthread_mutex_unlock(&t->lock);
    if (look_again) {
        wake(t);
    }
}

const struct wp_redis_router *
wp_redis_topology_router(struct wp_redis_topology *t)
{
    return &t->router;
}

void
wp_redis_topology_read_stats(struct wp_redis_topology *t,
                             struct wp_redis_topology_stats *out)
{
    (void)pthread_mutex_lock(&t->lock);
    *out = t->stats;
    (void)pthread_mutex_unlock(&t->lock);
}
