#include "bench/micro/baseline_mutex_array.h"

#include <stdlib.h>

bool
wp_base_array_init(struct wp_base_array *array, uint32_t cap)
{
    array->items = calloc(cap, sizeof(*array->items));
    array->cap = cap;
    array->len = 0;
    pthread_mutex_init(&array->lock, NULL);
    return array->items != NULL;
}

void
wp_base_array_fini(struct wp_base_array *array)
{
    free(array->items);
    pthread_mutex_destroy(&array->lock);
}

bool
wp_base_array_push(struct wp_base_array *array, uint32_t id)
{
    bool room;

    pthread_mutex_lock(&array->lock);
    room = array->len < array->cap;
    if (room) {
        array->items[array->len++] = id;
    }
    pthread_mutex_unlock(&array->lock);
    return room;
}

bool
wp_base_array_pop(struct wp_base_array *array, uint32_t *id)
{
    bool some;

    pthread_mutex_lock(&array->lock);
    some = array->len > 0;
    if (some) {
        *id = array->items[--array->len];
    }
    pthread_mutex_unlock(&array->lock);
    return some;
}
