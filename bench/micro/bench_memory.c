/* bench/micro/bench_memory.c - what a million sandboxes cost in memory: the resident
 * set when all are ready, and when all are leased.
 *
 *   bench_memory [SLOTS [BYTES_MAX]]
 *
 * Exits 1 when a slot with its lease takes more than BYTES_MAX (512). */
#include <stdio.h>
#include <stdlib.h>

#include <unistd.h>

#include "bench/micro/pool_rig.h"
#include "bench/load/procs.h"
#include "pool/base/assert.h"
#include "pool/base/str.h"

static struct wp_pool_rig rig;
static struct wp_pool_rig_claim claim;

static uint64_t
argument(int argc, char **argv, int i, uint64_t otherwise, uint64_t max)
{
    uint64_t value;

    if (i >= argc) {
        return otherwise;
    }
    if (!wp_str_to_u64(wp_str_from(argv[i]), &value) || value == 0 ||
        value > max) {
        (void)fprintf(stderr, "bench_memory: '%s': expected 1 to %llu\n",
                      argv[i], (unsigned long long)max);
        exit(2);
    }
    return value;
}

static void
row(const char *what, uint64_t bytes, uint64_t slots)
{
    (void)printf("| %s | %.1f | %.0f |\n", what,
                 (double)bytes / (1024.0 * 1024.0),
                 (double)bytes / (double)slots);
}

int
main(int argc, char **argv)
{
    const struct wp_clock *clock = wp_clock_system();
    uint64_t slots = argument(argc, argv, 1, 1000000, WP_TARGET_MAX);
    uint64_t bytes_max = argument(argc, argv, 2, 512, 65536);
    uint64_t before = wp_proc_rss_bytes(getpid());
    uint64_t ready;
    uint64_t leased;
    int64_t start_ns;
    int64_t claiming_ns;

    wp_pool_rig_init(&rig, (uint32_t)slots, (uint32_t)slots, true);
    ready = wp_proc_rss_bytes(getpid()) - before;
    start_ns = wp_clock_mono_ns(clock);
    for (uint64_t i = 0; i < slots; i++) {
        wp_pool_rig_fill(&rig, &claim);
        WP_ASSERT(wp_pools_claim(rig.pools, &claim.claim) == WP_OK);
    }
    claiming_ns = wp_clock_mono_ns(clock) - start_ns;
    (void)wp_pools_run(rig.pools); /* The expiry of each lease is known now. */
    leased = wp_proc_rss_bytes(getpid()) - before;

    (void)printf("| %llu slots | MiB | bytes a slot |\n|---|---|---|\n",
                 (unsigned long long)slots);
    row("reserved addresses", wp_pools_memory_bytes(rig.pools), slots);
    row("resident, all ready", ready, slots);
    row("resident, all leased", leased, slots);
    (void)printf("\nEach claimed once, one after the other: %.0f ns a claim, "
                 "requests and first touch of the pages included.\n",
                 (double)claiming_ns / (double)slots);
    wp_pools_check(rig.pools);
    wp_pool_rig_fini(&rig);
    if (leased > bytes_max * slots) {
        (void)fprintf(stderr, "bench_memory: more than %llu bytes a slot\n",
                      (unsigned long long)bytes_max);
        return 1;
    }
    return 0;
}
