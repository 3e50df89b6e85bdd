/* bench/micro/baseline_mutex_array.h - the simplest ready queue: an array, a lock.
 *
 * Last in, first out. What a lock-free queue has to be worth its trouble
 * against. Any thread. */
#ifndef WP_BENCH_MICRO_BASELINE_MUTEX_ARRAY_H
#define WP_BENCH_MICRO_BASELINE_MUTEX_ARRAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"

struct wp_base_array {
    pthread_mutex_t lock; /* Guards: all below. */
    uint32_t *items;      /* Owned; cap of them. */
    uint32_t cap;
    uint32_t len;
};

/* False when memory lacks. */
WP_MUST_CHECK bool wp_base_array_init(struct wp_base_array *array,
                                      uint32_t cap);
void wp_base_array_fini(struct wp_base_array *array);
/* False when full. */
WP_MUST_CHECK bool wp_base_array_push(struct wp_base_array *array, uint32_t id);
/* False when empty. */
WP_MUST_CHECK bool wp_base_array_pop(struct wp_base_array *array, uint32_t *id);

#endif
