#include "allocator/stores/redis/topology/topology_impl.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

#include "pool/base/log.h"

/* The value of a field in an answer of names and values, or NULL. */
static const char *
field_of(const struct redisReply *reply, const char *name)
{
    for (size_t i = 0;
         reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
        const struct redisReply *key = reply->element[i];
        const struct redisReply *value = reply->element[i + 1];

        if (key->type == REDIS_REPLY_STRING &&
            value->type == REDIS_REPLY_STRING && strcmp(key->str, name) == 0) {
            return value->str;
        }
    }
    return NULL;
}

/* out: all zeros. */
static bool
read_server(const char *host, const char *port, struct wp_redis_server *out)
{
    uint64_t number;

    if (host == NULL || host[0] == '\0' || port == NULL ||
        !wp_str_to_u64(wp_str_from(port), &number) || number == 0 ||
        number > UINT16_MAX || !wp_str_is_printable(wp_str_from(host)) ||
        !wp_str_copy(wp_str_from(host), out->host, sizeof out->host)) {
        return false;
    }
    out->port = (uint16_t)number;
    return true;
}

struct answer {
    uint64_t epoch;
    uint64_t n_sentinels; /* With itself. */
    struct wp_redis_server master;
};

static enum wp_status
ask_epoch(struct wp_redis_sync *sync, const char *master, struct answer *out,
          struct wp_err *err)
{
    const char *const words[] = {"SENTINEL", "MASTER", master};
    struct redisReply *reply = wp_redis_ask(sync, 3, words, err);
    const char *others;
    const char *epoch;

    if (reply == NULL) {
        return WP_UNAVAILABLE;
    }
    epoch = field_of(reply, "config-epoch");
    others = field_of(reply, "num-other-sentinels");
    out->epoch = epoch != NULL ? strtoull(epoch, NULL, 10) : 0;
    out->n_sentinels = 1 + (others != NULL ? strtoull(others, NULL, 10) : 0);
    freeReplyObject(reply);
    return WP_OK;
}

static enum wp_status
ask_master(struct wp_redis_sync *sync, const char *master, struct answer *out,
           struct wp_err *err)
{
    const char *const words[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", master};
    struct redisReply *reply = wp_redis_ask(sync, 3, words, err);
    enum wp_status status = WP_OK;

    if (reply == NULL) {
        return WP_UNAVAILABLE;
    }
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        !read_server(reply->element[0]->str, reply->element[1]->str,
                     &out->master)) {
        status = wp_err_set(err, WP_UNAVAILABLE, "it names no such master");
    }
    freeReplyObject(reply);
    return status;
}

/* NULL, and what is too long: it has not told. */
static void
set_id(char id[WP_REDIS_RUN_ID_MAX + 1], const char *text)
{
    if (text == NULL ||
        !wp_str_copy(wp_str_from(text), id, WP_REDIS_RUN_ID_MAX + 1)) {
        id[0] = '\0';
    }
}

static void
ask_id(struct wp_redis_sync *sync, char id[WP_REDIS_RUN_ID_MAX + 1])
{
    static const char *const words[] = {"SENTINEL", "MYID"};
    struct redisReply *reply = wp_redis_ask(sync, 2, words, NULL);

    /* Before Redis 6.2 it does not tell. */
    set_id(id, reply != NULL && reply->type == REDIS_REPLY_STRING ? reply->str
                                                                  : NULL);
    freeReplyObject(reply);
}

/* Its epoch first: when it learns of a failover in between, the new master has
 * an epoch that is too old, which the next look mends; never the other way. */
static enum wp_status
ask_sentinel(struct wp_redis_topology *t, struct wp_redis_sentinel *sentinel,
             struct wp_redis_sync **sync, struct answer *out,
             struct wp_err *err)
{
    const struct wp_redis_server *server = &sentinel->server;
    enum wp_status status = wp_redis_ask_open(
        t, server, t->url.sentinel_user, t->url.sentinel_password, sync, err);

    if (status != WP_OK) {
        return wp_err_wrap(err, "sentinel");
    }
    status = ask_epoch(*sync, t->url.master, out, err);
    if (status == WP_OK) {
        status = ask_master(*sync, t->url.master, out, err);
    }
    if (status != WP_OK) {
        wp_redis_sync_close(*sync);
        return wp_err_wrap(err, "sentinel %s:%u", server->host, server->port);
    }
    ask_id(*sync, sentinel->id);
    return WP_OK;
}

static enum wp_status
verify(struct wp_redis_topology *t, const struct wp_redis_server *master,
       struct wp_err *err)
{
    struct wp_redis_sync *sync;
    enum wp_status status =
        wp_redis_ask_open(t, master, t->url.user, t->url.password, &sync, err);

    if (status != WP_OK) {
        return status;
    }
    status = wp_redis_ask_role(sync, err);
    wp_redis_sync_close(sync);
    return status == WP_OK
               ? WP_OK
               : wp_err_wrap(err, "redis %s:%u", master->host, master->port);
}

static bool
is_known(const struct wp_redis_topology *t,
         const struct wp_redis_server *server, const char *id)
{
    for (uint32_t i = 0; i < t->n_sentinels; i++) {
        const struct wp_redis_sentinel *s = &t->sentinels[i];

        if (wp_redis_server_eq(&s->server, server) ||
            (id != NULL && id[0] != '\0' && strcmp(s->id, id) == 0)) {
            return true;
        }
    }
    return false;
}

/* Puts who answered first, and has, beside the configured ones, those that it
 * knows. */
static void
learn(struct wp_redis_topology *t, uint32_t front, struct wp_redis_sync *sync)
{
    const char *const words[] = {"SENTINEL", "SENTINELS", t->url.master};
    struct wp_redis_sentinel first = t->sentinels[front];
    struct redisReply *reply = wp_redis_ask(sync, 3, words, NULL);
    uint32_t n = 1;

    for (uint32_t i = front; i > 0; i--) {
        t->sentinels[i] = t->sentinels[i - 1];
    }
    t->sentinels[0] = first;
    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY) {
        freeReplyObject(reply);
        return;
    }
    for (uint32_t i = 1; i < t->n_sentinels; i++) {
        if (!t->sentinels[i].learned) {
            t->sentinels[n++] = t->sentinels[i];
        }
    }
    t->n_sentinels = n;
    for (size_t i = 0;
         i < reply->elements && t->n_sentinels < WP_REDIS_SEEDS_MAX; i++) {
        const char *id = field_of(reply->element[i], "runid");
        struct wp_redis_sentinel one = {.learned = true};

        if (!read_server(field_of(reply->element[i], "ip"),
                         field_of(reply->element[i], "port"), &one.server) ||
            is_known(t, &one.server, id)) {
            continue;
        }
        set_id(one.id, id);
        t->sentinels[t->n_sentinels++] = one;
    }
    freeReplyObject(reply);
}

int
wp_redis_topology_events_fd(const struct wp_redis_topology *t)
{
    return wp_redis_sync_fd(t->events);
}

void
wp_redis_topology_close_events(struct wp_redis_topology *t)
{
    if (t->events != NULL) {
        wp_redis_sync_close(t->events);
        t->events = NULL;
    }
}

/* To be told of a failover at once; without it, the next look finds it. True:
 * from now on, so one that came since the sentinel was asked was missed. */
static bool
follow(struct wp_redis_topology *t, const struct wp_redis_server *sentinel)
{
    static const char *const words[] = {"SUBSCRIBE", "+switch-master"};
    struct redisReply *reply;

    if (t->events != NULL && wp_redis_server_eq(&t->events_from, sentinel)) {
        return false;
    }
    wp_redis_topology_close_events(t);
    if (wp_redis_ask_open(t, sentinel, t->url.sentinel_user,
                          t->url.sentinel_password, &t->events,
                          NULL) != WP_OK) {
        return false;
    }
    t->events_from = *sentinel;
    reply = wp_redis_ask(t->events, 2, words, NULL);
    if (reply == NULL) {
        wp_redis_topology_close_events(t);
    }
    freeReplyObject(reply);
    return t->events != NULL;
}

/* "NAME OLD-HOST OLD-PORT NEW-HOST NEW-PORT" */
static bool
is_about(const struct redisReply *reply, const char *master)
{
    size_t len = strlen(master);
    const struct redisReply *text;

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3) {
        return false;
    }
    text = reply->element[2];
    return text->type == REDIS_REPLY_STRING &&
           strncmp(text->str, master, len) == 0 && text->str[len] == ' ';
}

bool
wp_redis_topology_read_events(struct wp_redis_topology *t)
{
    struct redisReply *reply = NULL;
    bool look = false;

    if (!wp_redis_sync_take_in(t->events)) {
        wp_redis_topology_close_events(t);
        return true;
    }
    while (wp_redis_sync_next(t->events, &reply) && reply != NULL) {
        look = look || is_about(reply, t->url.master);
        freeReplyObject(reply);
    }
    if (wp_redis_sync_is_broken(t->events)) {
        wp_redis_topology_close_events(t);
        look = true;
    }
    return look;
}

static void
accept_master(struct wp_redis_topology *t, const struct answer *answer,
              uint64_t doubt, struct wp_err *err)
{
    *err = (struct wp_err){.status = WP_OK};
    t->epoch = answer->epoch;
    wp_redis_slot_map_clear(&t->found);
    (void)wp_redis_slot_map_add(&t->found, &answer->master);
    wp_redis_topology_publish(t);
    wp_redis_topology_verified(t, &answer->master, doubt);
}

enum wp_status
wp_redis_topology_look_sentinel(struct wp_redis_topology *t, uint64_t doubt,
                                struct wp_err *err)
{
    struct answer older = {.epoch = 0};
    uint64_t n_older = 0;
    bool newer = false;

    for (uint32_t i = 0; i < t->n_sentinels && !wp_redis_topology_stopping(t);
         i++) {
        struct answer answer = {.epoch = 0};
        struct wp_redis_sync *sync;

        if (ask_sentinel(t, &t->sentinels[i], &sync, &answer, err) != WP_OK) {
            continue;
        }
        if (answer.epoch < t->epoch) {
            n_older++;
            (void)wp_err_set(err, WP_UNAVAILABLE,
                             "sentinel %s:%u knows only of an older failover",
                             t->sentinels[i].server.host,
                             t->sentinels[i].server.port);
            if (n_older == 1 || answer.epoch > older.epoch) {
                older = answer;
            }
        } else if (verify(t, &answer.master, err) == WP_OK) {
            accept_master(t, &answer, doubt, err);
            learn(t, i, sync);
            wp_redis_sync_close(sync);
            if (follow(t, &t->sentinels[0].server)) {
                wp_redis_topology_look_again(t);
            }
            return WP_OK;
        } else {
            newer = true;
        }
        wp_redis_sync_close(sync);
    }
    /* As after all of them were set up anew. */
    if (!newer && n_older > 0 && n_older > older.n_sentinels / 2 &&
        verify(t, &older.master, err) == WP_OK) {
        wp_log_warn("sentinels count failovers from lower again",
                    wp_kv_str("master", t->url.master));
        accept_master(t, &older, doubt, err);
        return WP_OK;
    }
    if (newer) {
        wp_redis_topology_doubt_all(t);
    }
    return WP_UNAVAILABLE;
}
