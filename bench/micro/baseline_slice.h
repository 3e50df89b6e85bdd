/* bench/micro/baseline_slice.h - the ready queue of agent-sandbox, by its description.
 *
 * A slice of keys and a map under one mutex, one per pool. Pop takes the oldest,
 * O(1) amortised. Pushing a known key searches for it, O(n). Removing one moves
 * all behind it, O(n). A pop with a strategy copies the whole queue, lets the
 * strategy choose from the copy without the lock, and removes what was chosen.
 *
 * It flatters the original in two ways: keys are small numbers instead of
 * strings, and the map is an array indexed by them. Any thread. */
#ifndef WP_BENCH_MICRO_BASELINE_SLICE_H
#define WP_BENCH_MICRO_BASELINE_SLICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"

enum {
    WP_BASE_NODES_MAX = 256
};

struct wp_base_item {
    uint32_t id;   /* Less than the capacity. */
    uint32_t node; /* Where it runs; less than WP_BASE_NODES_MAX. */
};

struct wp_base_slice {
    pthread_mutex_t lock;       /* Guards: all below. */
    struct wp_base_item *items; /* Owned; 2 * cap, so that heads may creep. */
    bool *known;                /* Owned; by id. */
    uint32_t cap;
    uint32_t head; /* items[head .. head + len) are queued, oldest first. */
    uint32_t len;
};

/* Chooses from n items, oldest first; returns the position. Called without the
 * lock. n > 0. */
typedef uint32_t (*wp_base_strategy)(const struct wp_base_item *items,
                                     uint32_t n);

/* False when memory lacks. Ids are 0 .. cap - 1. */
WP_MUST_CHECK bool wp_base_slice_init(struct wp_base_slice *slice,
                                      uint32_t cap);
void wp_base_slice_fini(struct wp_base_slice *slice);
/* Appends; a known id stays where it is and gets the new node. */
void wp_base_slice_push(struct wp_base_slice *slice, struct wp_base_item item);
/* The oldest; false when empty. */
WP_MUST_CHECK bool wp_base_slice_pop(struct wp_base_slice *slice,
                                     struct wp_base_item *out);
/* What the strategy chooses, which is asked again when its choice has gone
 * meanwhile; false when empty or memory lacks. */
WP_MUST_CHECK bool wp_base_slice_pop_with(struct wp_base_slice *slice,
                                          wp_base_strategy choose,
                                          struct wp_base_item *out);
/* False when it is not queued. */
bool wp_base_slice_remove(struct wp_base_slice *slice, uint32_t id);

/* The strategy of agent-sandbox: the oldest item of the node with the most items
 * in the queue; the lowest such node when several have as many. */
uint32_t wp_base_choose_spread(const struct wp_base_item *items, uint32_t n);

#endif
