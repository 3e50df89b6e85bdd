#include "bench/micro/baseline_slice.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"

bool
wp_base_slice_init(struct wp_base_slice *slice, uint32_t cap)
{
    slice->items = calloc((size_t)cap * 2, sizeof(*slice->items));
    slice->known = calloc(cap, sizeof(*slice->known));
    slice->cap = cap;
    slice->head = 0;
    slice->len = 0;
    pthread_mutex_init(&slice->lock, NULL);
    return slice->items != NULL && slice->known != NULL;
}

void
wp_base_slice_fini(struct wp_base_slice *slice)
{
    free(slice->items);
    free(slice->known);
    pthread_mutex_destroy(&slice->lock);
}

/* Position of id counted from head, or len. Caller holds the lock. */
static uint32_t
find(const struct wp_base_slice *slice, uint32_t id)
{
    uint32_t i = 0;

    if (!slice->known[id]) {
        return slice->len;
    }
    while (i < slice->len && slice->items[slice->head + i].id != id) {
        i++;
    }
    return i;
}

/* Closes the gap at position at. Caller holds the lock. */
static void
remove_at(struct wp_base_slice *slice, uint32_t at)
{
    struct wp_base_item *item = &slice->items[slice->head + at];

    slice->known[item->id] = false;
    memmove(item, item + 1, (slice->len - at - 1) * sizeof(*item));
    slice->len--;
}

void
wp_base_slice_push(struct wp_base_slice *slice, struct wp_base_item item)
{
    uint32_t at;

    WP_ASSERT(item.id < slice->cap && item.node < WP_BASE_NODES_MAX);
    pthread_mutex_lock(&slice->lock);
    at = find(slice, item.id);
    if (at < slice->len) {
        slice->items[slice->head + at].node = item.node;
    } else {
        /* At the end of the room the queue moves back to its start, as a
         * growing slice is copied. */
        if (slice->head + slice->len == slice->cap * 2) {
            memmove(slice->items, slice->items + slice->head,
                    slice->len * sizeof(item));
            slice->head = 0;
        }
        slice->items[slice->head + slice->len++] = item;
        slice->known[item.id] = true;
    }
    pthread_mutex_unlock(&slice->lock);
}

bool
wp_base_slice_pop(struct wp_base_slice *slice, struct wp_base_item *out)
{
    bool some;

    pthread_mutex_lock(&slice->lock);
    some = slice->len > 0;
    if (some) {
        *out = slice->items[slice->head++];
        slice->len--;
        slice->known[out->id] = false;
    }
    pthread_mutex_unlock(&slice->lock);
    return some;
}

bool
wp_base_slice_pop_with(struct wp_base_slice *slice, wp_base_strategy choose,
                       struct wp_base_item *out)
{
    for (;;) {
        struct wp_base_item *copy;
        uint32_t n;
        uint32_t at;
        bool found;

        pthread_mutex_lock(&slice->lock);
        n = slice->len;
        copy = n > 0 ? malloc(n * sizeof(*copy)) : NULL;
        if (copy != NULL) {
            memcpy(copy, slice->items + slice->head, n * sizeof(*copy));
        }
        pthread_mutex_unlock(&slice->lock);
        if (copy == NULL) {
            return false;
        }
        *out = copy[choose(copy, n)];
        free(copy);

        pthread_mutex_lock(&slice->lock);
        at = find(slice, out->id);
        found = at < slice->len;
        if (found) {
            remove_at(slice, at);
        }
        pthread_mutex_unlock(&slice->lock);
        if (found) {
            return true;
        }
    }
}

bool
wp_base_slice_remove(struct wp_base_slice *slice, uint32_t id)
{
    uint32_t at;
    bool found;

    pthread_mutex_lock(&slice->lock);
    at = find(slice, id);
    found = at < slice->len;
    if (found) {
        remove_at(slice, at);
    }
    pthread_mutex_unlock(&slice->lock);
    return found;
}

uint32_t
wp_base_choose_spread(const struct wp_base_item *items, uint32_t n)
{
    uint32_t count[WP_BASE_NODES_MAX] = {0};
    uint32_t best = 0;
    uint32_t at = 0;

    for (uint32_t i = 0; i < n; i++) {
        count[items[i].node]++;
    }
    for (uint32_t node = 1; node < WP_BASE_NODES_MAX; node++) {
        if (count[node] > count[best]) {
            best = node;
        }
    }
    while (items[at].node != best) {
        at++;
    }
    return at;
}
