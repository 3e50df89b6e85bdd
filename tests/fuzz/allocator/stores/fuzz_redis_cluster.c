/* Any bytes as what a server of a cluster says: an error that may redirect, or
 * an answer to CLUSTER SLOTS. What is made of it can be used. */
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "allocator/stores/redis/topology/topology_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool truth)
{
    if (!truth) {
        abort();
    }
}

static void
check_map(const struct wp_redis_slot_map *map)
{
    check(map->n_nodes <= WP_REDIS_NODES_MAX);
    for (uint32_t i = 0; i < map->n_nodes; i++) {
        check(map->nodes[i].host[0] != '\0' && map->nodes[i].port != 0);
        check(wp_redis_slot_map_find(map, &map->nodes[i]) == i);
    }
    for (uint32_t slot = 0; slot < WP_REDIS_SLOTS; slot++) {
        check(map->owner[slot] < map->n_nodes ||
              map->owner[slot] == WP_REDIS_NO_NODE);
    }
}

/* hiredis makes room for as much as an array or a text announces. */
static bool
announces_much(const uint8_t *data, size_t size)
{
    size_t digits = 0;

    for (size_t i = 0; i < size && digits < 6; i++) {
        digits = data[i] >= '0' && data[i] <= '9' ? digits + 1 : 0;
    }
    return digits == 6;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct wp_redis_slot_map map;
    const struct wp_redis_server asked = {.host = "asked", .port = 1};
    struct wp_redis_redirect redirect;
    struct wp_str text = {(const char *)data, size};
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    if (wp_redis_redirect_parse(text, &redirect)) {
        check(redirect.slot < WP_REDIS_SLOTS && redirect.server.port != 0);
    }
    if (!announces_much(data, size) &&
        redisReaderFeed(reader, text.ptr, size) == REDIS_OK &&
        redisReaderGetReply(reader, &reply) == REDIS_OK && reply != NULL) {
        if (wp_redis_slot_map_read(reply, &asked, &map, NULL) == WP_OK) {
            check_map(&map);
        }
        freeReplyObject(reply);
    }
    redisReaderFree(reader);
    return 0;
}
