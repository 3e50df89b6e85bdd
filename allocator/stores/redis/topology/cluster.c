#include "allocator/stores/redis/topology/topology_impl.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

#include "pool/base/clock.h"

enum {
    /* A look at a cluster whose nodes do not answer ends after so many
     * timeouts; the next one goes on. */
    LOOK_TIMEOUTS = 4,
};

static int64_t
now_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

static bool
out_of_time(struct wp_redis_topology *t, int64_t began_ns)
{
    return wp_redis_topology_stopping(t) ||
           now_ns() - began_ns > LOOK_TIMEOUTS * t->config.timeout_ns;
}

/* The value of "name:VALUE" in the lines of text; 0 if there is none. */
static uint64_t
number_after(const char *text, const char *name)
{
    const char *at = strstr(text, name);

    return at != NULL ? strtoull(at + strlen(name), NULL, 10) : 0;
}

struct answer {
    bool whole; /* It takes the cluster for able to serve. */
    uint64_t epoch;
};

static enum wp_status
ask_info(struct wp_redis_sync *sync, struct answer *out, struct wp_err *err)
{
    static const char *const words[] = {"CLUSTER", "INFO"};
    struct redisReply *reply = wp_redis_ask(sync, 2, words, err);
    enum wp_status status = WP_OK;

    if (reply == NULL) {
        return WP_UNAVAILABLE;
    }
    if (reply->type != REDIS_REPLY_STRING) {
        status = wp_err_set(err, WP_UNAVAILABLE, "CLUSTER INFO: no answer");
    } else {
        out->whole = strstr(reply->str, "cluster_state:ok") != NULL;
        out->epoch = number_after(reply->str, "cluster_current_epoch:");
    }
    freeReplyObject(reply);
    return status;
}

/* What server says, in heard. */
static enum wp_status
ask_node(struct wp_redis_topology *t, const struct wp_redis_server *server,
         struct answer *out, struct wp_err *err)
{
    static const char *const words[] = {"CLUSTER", "SLOTS"};
    struct wp_redis_sync *sync;
    struct redisReply *reply;
    enum wp_status status =
        wp_redis_ask_open(t, server, t->url.user, t->url.password, &sync, err);

    if (status != WP_OK) {
        return status;
    }
    status = ask_info(sync, out, err);
    if (status == WP_OK) {
        reply = wp_redis_ask(sync, 2, words, err);
        status = reply == NULL
                     ? WP_UNAVAILABLE
                     : wp_redis_slot_map_read(reply, server, &t->heard, err);
        freeReplyObject(reply);
    }
    wp_redis_sync_close(sync);
    return status == WP_OK
               ? WP_OK
               : wp_err_wrap(err, "redis %s:%u", server->host, server->port);
}

/* Whom to ask, most promising first: whom a MOVED has named, nodes without a
 * doubt, the others, the seeds. */
struct candidates {
    uint32_t n;
    struct wp_redis_server list[1 + WP_REDIS_NODES_MAX + WP_REDIS_SEEDS_MAX];
};

static void
gather(struct wp_redis_topology *t, struct candidates *out)
{
    (void)pthread_mutex_lock(&t->lock);
    out->n = 0;
    if (t->hint.port != 0) {
        out->list[out->n++] = t->hint;
        t->hint.port = 0;
    }
    for (int doubted = 0; doubted < 2; doubted++) {
        for (uint32_t i = 0; i < t->map.n_nodes; i++) {
            if ((t->doubts[i] != 0) == (doubted != 0)) {
                out->list[out->n++] = t->map.nodes[i];
            }
        }
    }
    (void)pthread_mutex_unlock(&t->lock);
    for (uint32_t i = 0; i < t->url.n_seeds; i++) {
        out->list[out->n++] = t->url.seeds[i];
    }
}

/* The best answer of those who can be asked, in found: the first that is whole
 * and as new as any before, else the newest. */
static enum wp_status
ask_all(struct wp_redis_topology *t, const struct candidates *candidates,
        int64_t began_ns, struct wp_err *err)
{
    struct answer best = {.whole = false};
    bool found = false;

    for (uint32_t i = 0; i < candidates->n; i++) {
        struct answer heard = {.whole = false};

        if (i > 0 && out_of_time(t, began_ns)) {
            break;
        }
        if (ask_node(t, &candidates->list[i], &heard, err) != WP_OK) {
            continue;
        }
        if (!found || (heard.whole && !best.whole) ||
            (heard.whole == best.whole && heard.epoch > best.epoch)) {
            t->found = t->heard;
            best = heard;
            found = true;
        }
        if (best.whole && best.epoch >= t->epoch) {
            break;
        }
    }
    if (!found) {
        return WP_UNAVAILABLE;
    }
    t->epoch = best.epoch;
    *err = (struct wp_err){.status = WP_OK};
    return WP_OK;
}

/* Of the nodes that were found; there may be more meanwhile, at the end. */
static bool
is_doubted(struct wp_redis_topology *t, uint32_t i,
           struct wp_redis_server *server)
{
    bool doubted;

    (void)pthread_mutex_lock(&t->lock);
    doubted = t->doubts[i] != 0;
    if (doubted) {
        *server = t->map.nodes[i];
    }
    (void)pthread_mutex_unlock(&t->lock);
    return doubted;
}

static void
verify(struct wp_redis_topology *t, const struct wp_redis_server *server,
       uint64_t doubt, struct wp_err *err)
{
    struct wp_redis_sync *sync;

    if (wp_redis_ask_open(t, server, t->url.user, t->url.password, &sync,
                          err) != WP_OK) {
        return;
    }
    if (wp_redis_ask_role(sync, err) == WP_OK) {
        wp_redis_topology_verified(t, server, doubt);
    }
    wp_redis_sync_close(sync);
}

enum wp_status
wp_redis_topology_look_cluster(struct wp_redis_topology *t, uint64_t doubt,
                               struct wp_err *err)
{
    struct candidates *candidates = malloc(sizeof *candidates);
    int64_t began_ns = now_ns();
    enum wp_status status;
    uint32_t n;

    if (candidates == NULL) {
        return wp_err_set(err, WP_UNAVAILABLE, "no memory to ask redis");
    }
    gather(t, candidates);
    status = ask_all(t, candidates, began_ns, err);
    free(candidates);
    if (status != WP_OK) {
        return status;
    }
    wp_redis_topology_publish(t);
    n = t->found.n_nodes;
    began_ns = now_ns();
    for (uint32_t i = 0; i < n && !out_of_time(t, began_ns); i++, t->turn++) {
        struct wp_redis_server server;

        if (is_doubted(t, t->turn % n, &server)) {
            verify(t, &server, doubt, err);
        }
    }
    return WP_OK;
}
