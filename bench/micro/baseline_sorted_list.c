#include "bench/micro/baseline_sorted_list.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"

bool
wp_base_list_init(struct wp_base_list *list, uint32_t cap)
{
    list->cache = calloc(cap, sizeof(*list->cache));
    list->ready = calloc(cap, sizeof(*list->ready));
    list->list = calloc(cap, sizeof(*list->list));
    list->cap = cap;
    list->len = 0;
    list->served = WP_BASE_LIST_REFRESH; /* The first take refreshes. */
    return list->cache != NULL && list->ready != NULL && list->list != NULL;
}

void
wp_base_list_fini(struct wp_base_list *list)
{
    free(list->cache);
    free(list->ready);
    free(list->list);
}

void
wp_base_list_add(struct wp_base_list *list, struct wp_base_server server)
{
    WP_ASSERT(server.id < list->cap);
    list->cache[server.id] = server;
    list->ready[server.id] = true;
}

/* Fullest node first, then the lower id. */
static int
compare(const void *left, const void *right)
{
    const struct wp_base_server *a = left;
    const struct wp_base_server *b = right;

    if (a->node_used != b->node_used) {
        return a->node_used > b->node_used ? -1 : 1;
    }
    return a->id < b->id ? -1 : a->id > b->id;
}

void
wp_base_list_refresh(struct wp_base_list *list)
{
    list->len = 0;
    for (uint32_t id = 0; id < list->cap; id++) {
        if (list->ready[id]) {
            list->list[list->len++] = list->cache[id];
        }
    }
    qsort(list->list, list->len, sizeof(*list->list), compare);
    list->served = 0;
}

bool
wp_base_list_take(struct wp_base_list *list, uint32_t fleet,
                  struct wp_base_server *out)
{
    uint32_t at = 0;

    if (list->served == WP_BASE_LIST_REFRESH) {
        wp_base_list_refresh(list);
    }
    while (at < list->len && list->list[at].fleet != fleet) {
        at++;
    }
    if (at == list->len) {
        return false;
    }
    *out = list->list[at];
    memmove(&list->list[at], &list->list[at + 1],
            (list->len - at - 1) * sizeof(*out));
    list->len--;
    list->ready[out->id] = false;
    list->served++;
    return true;
}
