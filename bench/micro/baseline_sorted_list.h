/* bench/micro/baseline_sorted_list.h - the allocator of Agones, by its description.
 *
 * A cache of ready servers; one loop drains requests in batches. At the start of
 * a batch, and again after each 100 requests, it takes a fresh list of the cache
 * and sorts it: fullest node first ("packed"), then by name. Each request walks
 * the list to the first server it matches and splices it out, O(n).
 *
 * Not measured: the pause of 500 ms between batches, and the update of the
 * server's object. One thread, as the loop of the original. */
#ifndef WP_BENCH_MICRO_BASELINE_SORTED_LIST_H
#define WP_BENCH_MICRO_BASELINE_SORTED_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"

enum {
    WP_BASE_LIST_REFRESH = 100, /* Requests served from one sorted list. */
};

struct wp_base_server {
    uint32_t id;        /* Less than the capacity. */
    uint32_t fleet;     /* What a request selects by. */
    uint32_t node_used; /* Allocated servers on its node. */
};

struct wp_base_list {
    struct wp_base_server *cache; /* Owned; ready when its bit is set. */
    bool *ready;                  /* Owned; by id. */
    struct wp_base_server *list;  /* Owned; the sorted copy, len of them. */
    uint32_t cap;
    uint32_t len;
    uint32_t served; /* From this list. */
};

/* False when memory lacks. Ids are 0 .. cap - 1. */
WP_MUST_CHECK bool wp_base_list_init(struct wp_base_list *list, uint32_t cap);
void wp_base_list_fini(struct wp_base_list *list);
/* Into the cache; the list learns of it at its next refresh. */
void wp_base_list_add(struct wp_base_list *list, struct wp_base_server server);
/* Copies and sorts the cache. */
void wp_base_list_refresh(struct wp_base_list *list);
/* The first server of that fleet; refreshes the list when it has served its
 * number. False when the list has none. */
WP_MUST_CHECK bool wp_base_list_take(struct wp_base_list *list, uint32_t fleet,
                                     struct wp_base_server *out);

#endif
