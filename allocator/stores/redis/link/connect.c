/* The connecting thread of a set of links: one link after the other, with a
 * growing, jittered pause after each failure. The first connection that answers
 * closes the circuit breaker. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <hiredis/hiredis.h>
#include <sys/epoll.h>

#include "allocator/stores/redis/link/link_impl.h"
#include "allocator/stores/redis/link/sync.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"

enum {
    LOG_AGAIN_S = 10,
};

static struct wp_redis_link *
find_down(struct wp_redis_links *links)
{
    for (uint32_t i = 0; i < links->n; i++) {
        struct wp_redis_link *link = &links->links[i];
        bool down;

        (void)pthread_mutex_lock(&link->lock);
        down = link->state == WP_LINK_DOWN;
        (void)pthread_mutex_unlock(&link->lock);
        if (down) {
            return link;
        }
    }
    return NULL;
}

/* The numbers of connections are those of one server process. */
static void
forget_former(struct wp_redis_links *links)
{
    for (uint32_t i = 0; i < links->n; i++) {
        links->links[i].client_id = 0;
    }
}

/* Another process answers than before: what the old one acknowledged may be
 * lost, and links that still lead to it must not be used. */
static void
check_server(struct wp_redis_links *links, const char *run_id)
{
    bool known = links->run_id[0] != '\0';

    if (known && strcmp(links->run_id, run_id) == 0) {
        return;
    }
    memcpy(links->run_id, run_id, sizeof links->run_id);
    forget_former(links);
    if (links->hooks.on_server != NULL) {
        links->hooks.on_server(links->hooks.ctx, run_id);
    }
    if (known) {
        wp_log_warn("another redis process answers than before");
        wp_redis_links_renew(links);
    }
}

static bool
bring_up(struct wp_redis_link *link, struct wp_redis_sync *sync,
         const struct wp_redis_server *server)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP,
                                .data.ptr = link};
    bool ok;

    (void)pthread_mutex_lock(&link->lock);
    ok = wp_link_reader_init(link);
    if (ok) {
        link->stream = wp_redis_sync_take(sync);
        link->server = *server;
        link->out_len = 0;
        link->out_sent = 0;
        link->stream_len = 0;
        link->stream_sent = 0;
        link->wants_write = false;
        link->awaited = false;
        link->watched = EPOLLIN;
        link->n_missed = 0;
        link->n_passed = 0;
        link->batch.n = 0;
        link->renew = false;
        link->state = WP_LINK_UP;
        (void)epoll_ctl(link->links->epoll_fd, EPOLL_CTL_ADD, link->stream.fd,
                        &event);
    } else {
        wp_redis_sync_close(sync);
    }
    (void)pthread_mutex_unlock(&link->lock);
    return ok;
}

/* What a connection that was given up had under way must not take effect after
 * what comes on the next one: the server drops it unread. Without the right to
 * say so the fences protect all but an offer. False: the connection is of no
 * use, since an answer that comes late would be taken for the next one's. */
static bool
kill_former(struct wp_redis_link *link, struct wp_redis_sync *sync,
            struct wp_err *err)
{
    char id[24];
    const struct wp_str ask_id[] = {WP_STR("CLIENT"), WP_STR("ID")};
    const struct wp_str kill[] = {
        WP_STR("CLIENT"), WP_STR("KILL"), WP_STR("ID"), {id, 0}};
    struct wp_str args[WP_ARRAY_LEN(kill)];
    redisReply *reply;

    if (link->client_id != 0) {
        memcpy(args, kill, sizeof args);
        args[3] = (struct wp_str){
            id, (size_t)snprintf(id, sizeof id, "%lld", link->client_id)};
        reply = wp_redis_sync_call(sync, args, WP_ARRAY_LEN(args), err);
        if (reply == NULL) {
            return false;
        }
        freeReplyObject(reply);
    }
    reply = wp_redis_sync_call(sync, ask_id, WP_ARRAY_LEN(ask_id), err);
    if (reply == NULL) {
        return false;
    }
    link->client_id = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    freeReplyObject(reply);
    return true;
}

static bool
connect_link(struct wp_redis_links *links, struct wp_redis_link *link,
             struct wp_err *err)
{
    struct wp_str key = {links->key, links->key_len};
    char run_id[WP_REDIS_RUN_ID_MAX + 1] = "";
    struct wp_redis_server server;
    struct wp_redis_sync *sync;
    char text[WP_REDIS_HOST_MAX + 16];

    if (wp_redis_sync_open(&links->config, key, &sync, &server, run_id, err) !=
        WP_OK) {
        return false;
    }
    check_server(links, run_id);
    if (!kill_former(link, sync, err)) {
        wp_redis_sync_close(sync);
        return false;
    }
    if (!bring_up(link, sync, &server)) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "memory for a connection");
        return false;
    }
    WP_LINK_COUNT(links->connects);
    atomic_store(&links->breaker, false);
    if (links->logged || atomic_load(&links->connects) == 1) {
        links->logged = false;
        wp_log_info("redis connected",
                    wp_kv_str("server", wp_redis_server_text(&server, text)));
    }
    return true;
}

static void
tell_failure(struct wp_redis_links *links, const struct wp_err *err)
{
    int64_t now_ns = wp_link_now_ns();

    WP_LINK_COUNT(links->connect_failures);
    if (!links->logged ||
        now_ns - links->logged_ns > LOG_AGAIN_S * WP_NS_PER_S) {
        links->logged = true;
        links->logged_ns = now_ns;
        wp_log_warn("redis is out of reach", wp_kv_err(err));
    }
}

/* Sleeps until pause_ns are over (negative: without end) or the set stops, or,
 * without end, until a link is down. */
static void
pause_for(struct wp_redis_links *links, int64_t pause_ns)
{
    struct timespec until;
    int rc = 0;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    if (pause_ns > 0) {
        int64_t at_ns = until.tv_sec * WP_NS_PER_S + until.tv_nsec + pause_ns;

        until.tv_sec = at_ns / WP_NS_PER_S;
        until.tv_nsec = at_ns % WP_NS_PER_S;
    }
    (void)pthread_mutex_lock(&links->down_lock);
    while (rc == 0 && !atomic_load(&links->stop)) {
        if (pause_ns >= 0) {
            rc = pthread_cond_timedwait(&links->down_cond, &links->down_lock,
                                        &until);
        } else if (links->some_down) {
            links->some_down = false;
            break;
        } else {
            rc = pthread_cond_wait(&links->down_cond, &links->down_lock);
        }
    }
    (void)pthread_mutex_unlock(&links->down_lock);
}

void *
wp_redis_connector_run(void *arg)
{
    struct wp_redis_links *links = arg;
    uint32_t failures = 0;

    while (!atomic_load(&links->stop)) {
        struct wp_redis_link *link = find_down(links);
        struct wp_err err;

        if (link == NULL) {
            pause_for(links, -1);
        } else if (connect_link(links, link, &err)) {
            failures = 0;
        } else {
            tell_failure(links, &err);
            failures += failures < UINT32_MAX ? 1 : 0;
            pause_for(links,
                      wp_rng_half(&links->rng,
                                  wp_backoff_ns(links->config.backoff_min_ns,
                                                links->config.backoff_max_ns,
                                                failures)));
        }
    }
    return NULL;
}
