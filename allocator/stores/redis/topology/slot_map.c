#include "allocator/stores/redis/topology/topology_impl.h"

#include <hiredis/hiredis.h>

void
wp_redis_slot_map_clear(struct wp_redis_slot_map *map)
{
    map->n_nodes = 0;
    for (uint32_t slot = 0; slot < WP_REDIS_SLOTS; slot++) {
        map->owner[slot] = WP_REDIS_NO_NODE;
    }
}

uint16_t
wp_redis_slot_map_find(const struct wp_redis_slot_map *map,
                       const struct wp_redis_server *server)
{
    for (uint32_t i = 0; i < map->n_nodes; i++) {
        if (wp_redis_server_eq(&map->nodes[i], server)) {
            return (uint16_t)i;
        }
    }
    return WP_REDIS_NO_NODE;
}

uint16_t
wp_redis_slot_map_add(struct wp_redis_slot_map *map,
                      const struct wp_redis_server *server)
{
    uint16_t found = wp_redis_slot_map_find(map, server);

    if (found != WP_REDIS_NO_NODE || map->n_nodes == WP_REDIS_NODES_MAX) {
        return found;
    }
    map->nodes[map->n_nodes] = *server;
    return (uint16_t)map->n_nodes++;
}

/* [HOST, PORT, ...]: no HOST means the one that was asked. False: it cannot be
 * reached by what is told ("?", port 0). */
static bool
read_node(const struct redisReply *reply, const struct wp_redis_server *asked,
          struct wp_redis_server *out)
{
    const struct redisReply *host;
    const struct redisReply *port;
    struct wp_str text;

    memset(out, 0, sizeof *out);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2) {
        return false;
    }
    host = reply->element[0];
    port = reply->element[1];
    if (port->type != REDIS_REPLY_INTEGER || port->integer < 1 ||
        port->integer > UINT16_MAX) {
        return false;
    }
    out->port = (uint16_t)port->integer;
    text = wp_str_from(asked->host);
    if (host->type == REDIS_REPLY_STRING && host->len > 0) {
        text = (struct wp_str){host->str, host->len};
    } else if (host->type != REDIS_REPLY_STRING &&
               host->type != REDIS_REPLY_NIL) {
        return false;
    }
    return !wp_str_is(text, "?") && wp_str_is_printable(text) &&
           wp_str_copy(text, out->host, sizeof out->host);
}

static bool
is_slot(const struct redisReply *reply)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0 &&
           reply->integer < WP_REDIS_SLOTS;
}

enum wp_status
wp_redis_slot_map_read(const struct redisReply *reply,
                       const struct wp_redis_server *asked,
                       struct wp_redis_slot_map *map, struct wp_err *err)
{
    wp_redis_slot_map_clear(map);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0) {
        return wp_err_set(err, WP_UNAVAILABLE,
                          "it knows of no node that serves slots");
    }
    for (size_t i = 0; i < reply->elements; i++) {
        const struct redisReply *range = reply->element[i];
        struct wp_redis_server server;
        uint16_t node = WP_REDIS_NO_NODE;

        if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 ||
            !is_slot(range->element[0]) || !is_slot(range->element[1])) {
            return wp_err_set(err, WP_UNAVAILABLE,
                              "CLUSTER SLOTS: no such answer");
        }
        /* A node that cannot be reached leaves its slots to nobody. */
        if (read_node(range->element[2], asked, &server)) {
            node = wp_redis_slot_map_add(map, &server);
            if (node == WP_REDIS_NO_NODE) {
                return wp_err_set(err, WP_UNAVAILABLE,
                                  "a cluster of at most %d nodes expected",
                                  WP_REDIS_NODES_MAX);
            }
        }
        for (long long slot = range->element[0]->integer;
             slot <= range->element[1]->integer; slot++) {
            map->owner[slot] = node;
        }
    }
    return WP_OK;
}
