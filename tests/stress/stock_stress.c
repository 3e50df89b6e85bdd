/* libwarmpool's queue of leases to take from: one thread puts, the others take.
 * Each slot that is put is taken exactly once, also when it is put again at
 * once. */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/client/stock_impl.h"
#include "tests/support/base/stress.h"

static struct warmpool_stock *stock;
static atomic_ullong taken[WP_STOCK_SLOTS];
static atomic_ullong all_taken;
static uint64_t put[WP_STOCK_SLOTS]; /* The first thread's. */

static void
put_all(uint64_t total)
{
    for (uint64_t i = 0; i < total; i++) {
        uint32_t slot = (uint32_t)(i % WP_STOCK_SLOTS);

        while (atomic_load(&taken[slot]) != put[slot]) {
            (void)sched_yield();
        }
        wp_stock_put(stock, slot);
        put[slot]++;
    }
}

static void
take_all(uint64_t total)
{
    while (atomic_load(&all_taken) < total) {
        uint32_t slot = wp_stock_get(stock);

        if (slot == UINT32_MAX) {
            (void)sched_yield();
            continue;
        }
        STRESS_CHECK(slot < WP_STOCK_SLOTS);
        (void)atomic_fetch_add(&taken[slot], 1);
        (void)atomic_fetch_add(&all_taken, 1);
    }
}

static void
body(struct stress_thread *self)
{
    uint64_t total = self->stress->ops;

    if (self->number == 0) {
        put_all(total);
    } else {
        take_all(total);
    }
}

int
main(int argc, char **argv)
{
    struct stress stress = stress_args(argc, argv, "stock", 300000);

    stock = aligned_alloc(64, (sizeof *stock + 63) / 64 * 64);
    STRESS_CHECK(stock != NULL && stress.threads > 1);
    memset(stock, 0, sizeof *stock);
    for (uint32_t i = 0; i < WP_STOCK_SLOTS; i++) {
        atomic_init(&stock->places[i].turn, i);
    }
    stress_run(&stress, body);
    for (uint32_t i = 0; i < WP_STOCK_SLOTS; i++) {
        STRESS_CHECK(atomic_load(&taken[i]) == put[i]);
    }
    STRESS_CHECK(atomic_load(&all_taken) == stress.ops);
    STRESS_CHECK(atomic_load(&stock->n_stocked) == 0);
    STRESS_CHECK(wp_stock_get(stock) == UINT32_MAX);
    (void)printf("stock: ok, %llu taken\n", (unsigned long long)stress.ops);
    free(stock);
    return 0;
}
