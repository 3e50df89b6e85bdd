/* bench/micro/bench_ready_queue.c - one sandbox taken and one put back, by 1, 2 and 4
 * threads on one queue.
 *
 * Ours does more than the baselines in the same time: its pop also moves the
 * slot READY -> LEASED and its push is preceded by the move back, so a figure of
 * ours is two state moves and two queue operations. The baselines only keep
 * numbers. An empty queue counts as a miss and is shown: with fewer threads than
 * sandboxes there must be none. */
#include <stdlib.h>

#include "bench/micro/baseline_mutex_array.h"
#include "bench/micro/baseline_slice.h"
#include "bench/micro/baseline_sorted_list.h"
#include "bench/micro/gbench.h"
#include "pool/base/assert.h"
#include "pool/slots/ready_queue.h"
#include "pool/slots/slot.h"

enum {
    BATCH = 64,
    NODES = 16,
};

static const int threads[] = {1, 2, 4};
static const int64_t sizes[] = {100, 10000, 1000000};
/* A million takes 100 ms and more a pop where pops are O(n). */
static const int64_t sizes_linear[] = {100, 10000, 100000};

/* --- Ours --- */

static struct wp_slots slots;
static struct wp_ready_queue queue;

static void
fill_ours(uint32_t n)
{
    static const uint8_t uid[WP_UID_LEN];

    WP_ASSERT(wp_slots_init(&slots, n, 1));
    wp_ready_queue_init(&queue, &slots, 0);
    for (uint32_t i = 0; i < n; i++) {
        struct wp_slot_ref ref = wp_slots_alloc(&slots, 0, uid, 0);

        WP_ASSERT(
            wp_slot_make_ready(&slots, ref, WP_STR("unix:/run/s/s.sock"), 0));
        wp_ready_queue_push(&queue, ref);
    }
}

static void
bench_ours(struct wp_bench_state *state)
{
    uint64_t misses = 0;

    if (wp_bench_thread(state) == 0) {
        fill_ours((uint32_t)wp_bench_arg(state));
    }
    while (wp_bench_keep(state, BATCH)) {
        for (int i = 0; i < BATCH; i++) {
            struct wp_slot_ref ref = wp_ready_queue_pop(&queue, WP_SLOT_LEASED);

            if (ref.generation == 0) {
                misses++;
                continue;
            }
            WP_ASSERT(wp_slot_reopen(&slots, ref, &(bool){false}));
            wp_ready_queue_push(&queue, ref);
        }
    }
    wp_bench_count(state, "misses", (double)misses, WP_BENCH_COUNTER_PLAIN);
    if (wp_bench_thread(state) == 0) {
        wp_slots_fini(&slots);
    }
}

/* --- Mutex and array --- */

static struct wp_base_array array;

static void
bench_array(struct wp_bench_state *state)
{
    uint64_t misses = 0;

    if (wp_bench_thread(state) == 0) {
        uint32_t n = (uint32_t)wp_bench_arg(state);

        WP_ASSERT(wp_base_array_init(&array, n));
        for (uint32_t i = 0; i < n; i++) {
            WP_ASSERT(wp_base_array_push(&array, i));
        }
    }
    while (wp_bench_keep(state, BATCH)) {
        for (int i = 0; i < BATCH; i++) {
            uint32_t id;

            if (!wp_base_array_pop(&array, &id)) {
                misses++;
                continue;
            }
            WP_ASSERT(wp_base_array_push(&array, id));
        }
    }
    wp_bench_count(state, "misses", (double)misses, WP_BENCH_COUNTER_PLAIN);
    if (wp_bench_thread(state) == 0) {
        wp_base_array_fini(&array);
    }
}

/* --- agent-sandbox: slice, map, mutex --- */

static struct wp_base_slice slice;

static void
fill_slice(uint32_t n)
{
    WP_ASSERT(wp_base_slice_init(&slice, n));
    for (uint32_t i = 0; i < n; i++) {
        wp_base_slice_push(&slice, (struct wp_base_item){i, i % NODES});
    }
}

static void
bench_slice_plain(struct wp_bench_state *state)
{
    uint64_t misses = 0;

    if (wp_bench_thread(state) == 0) {
        fill_slice((uint32_t)wp_bench_arg(state));
    }
    while (wp_bench_keep(state, BATCH)) {
        for (int i = 0; i < BATCH; i++) {
            struct wp_base_item item;

            if (!wp_base_slice_pop(&slice, &item)) {
                misses++;
                continue;
            }
            wp_base_slice_push(&slice, item);
        }
    }
    wp_bench_count(state, "misses", (double)misses, WP_BENCH_COUNTER_PLAIN);
    if (wp_bench_thread(state) == 0) {
        wp_base_slice_fini(&slice);
    }
}

static void
bench_slice_strategy(struct wp_bench_state *state)
{
    uint64_t misses = 0;

    if (wp_bench_thread(state) == 0) {
        fill_slice((uint32_t)wp_bench_arg(state));
    }
    while (wp_bench_keep(state, 1)) {
        struct wp_base_item item;

        if (!wp_base_slice_pop_with(&slice, wp_base_choose_spread, &item)) {
            misses++;
            continue;
        }
        wp_base_slice_push(&slice, item);
    }
    wp_bench_count(state, "misses", (double)misses, WP_BENCH_COUNTER_PLAIN);
    if (wp_bench_thread(state) == 0) {
        wp_base_slice_fini(&slice);
    }
}

/* --- Agones: sorted list with splice --- */

/* One thread, as its loop. What is taken is added to the cache again, so the
 * list shrinks by a hundred at most before it is sorted anew. */
static void
bench_sorted_list(struct wp_bench_state *state)
{
    uint32_t n = (uint32_t)wp_bench_arg(state);
    struct wp_base_list list;
    uint64_t misses = 0;

    WP_ASSERT(wp_base_list_init(&list, n));
    for (uint32_t i = 0; i < n; i++) {
        wp_base_list_add(&list, (struct wp_base_server){i, 0, i % NODES});
    }
    while (wp_bench_keep(state, 1)) {
        struct wp_base_server server;

        if (!wp_base_list_take(&list, 0, &server)) {
            /* Fewer servers than one list serves: sort early, as a new batch
             * does. */
            misses++;
            wp_base_list_refresh(&list);
            continue;
        }
        wp_base_list_add(&list, server);
    }
    wp_bench_count(state, "misses", (double)misses, WP_BENCH_COUNTER_PLAIN);
    wp_base_list_fini(&list);
}

int
main(int argc, char **argv)
{
    const struct wp_bench all[] = {
        {"ready_queue/ours", bench_ours, NULL, sizes, 3, threads, 3, false},
        {"ready_queue/mutex_array", bench_array, NULL, sizes, 3, threads, 3,
         false},
        {"ready_queue/slice_pop", bench_slice_plain, NULL, sizes, 3, threads, 3,
         false},
        {"ready_queue/slice_strategy", bench_slice_strategy, NULL, sizes_linear,
         3, threads, 3, false},
        {"ready_queue/sorted_list", bench_sorted_list, NULL, sizes_linear, 3,
         NULL, 0, false},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        wp_bench_register(&all[i]);
    }
    return wp_bench_run(argc, argv);
}
