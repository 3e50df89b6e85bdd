/* tests/unit/pool/core/pool_share_test.c - four modest tenants, with and without a
 * fifth that claims fifty times as much as each: how many of their claims are
 * served at once?
 *
 * On a clock of its own and with claims drawn from a seed: the numbers are the
 * same in every run. With an argument it prints them all (bench/README.md). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "pool/base/rng.h"
#include "tests/support/pool/pool_rig.h"

#define S WP_NS_PER_S

enum {
    MODEST = 4,
    GREEDY_TIMES = 50,
    TICK_MS = 20,
    TICKS = 50 * 1800, /* Half an hour. */
    LEAD_S = 8,
    TTL_S = 20,
    SLOTS = 8192,
};

/* Claims of one modest tenant: one in two seconds. Together they have 16
 * sandboxes in the making. */
#define MODEST_PER_TICK (0.5 * TICK_MS / 1000)

struct setting {
    uint32_t target;
    bool greedy;
    bool fair;
    int64_t wait_ns;
    enum wp_cold_start cold;
};

struct result {
    uint64_t modest;
    uint64_t modest_warm;
    uint64_t greedy;
    uint64_t greedy_served;
};

struct asked {
    struct wp_rig_claim claim;
    struct result *result;
    bool greedy;
};

static struct wp_rig rig;

static void
count(struct asked *asked)
{
    const struct wp_claim *claim = &asked->claim.claim;
    bool served = claim->status == WP_OK;

    if (asked->greedy) {
        asked->result->greedy_served += served ? 1 : 0;
    } else {
        asked->result->modest_warm +=
            served && claim->grant.served == WP_SERVED_WARM ? 1 : 0;
    }
    free(asked);
}

static void
count_later(struct wp_claim *claim)
{
    count(claim->ctx);
}

static void
claim(struct result *result, int tenant, int64_t wait_ns, uint64_t number)
{
    struct asked *asked = calloc(1, sizeof *asked);
    char name[8];
    char id[24];

    assert_non_null(asked);
    asked->result = result;
    asked->greedy = tenant == MODEST;
    (void)snprintf(name, sizeof name, "t%d", tenant);
    (void)snprintf(id, sizeof id, "c%llu", (unsigned long long)number);
    wp_rig_claim_init(&asked->claim, id, name, TTL_S * S, wait_ns);
    asked->claim.claim.done = count_later;
    asked->claim.claim.ctx = asked;
    *(asked->greedy ? &result->greedy : &result->modest) += 1;
    if (wp_pools_claim(rig.pools, &asked->claim.claim) != WP_PENDING) {
        count(asked);
    }
}

/* How many claims come in a tick, for a mean of at most 1. */
static int
draw(struct wp_rng *rng, double mean)
{
    double left = 1 - mean + mean * mean / 2;
    double at = (double)(wp_rng_next(rng) >> 11) / (double)(UINT64_C(1) << 53);

    if (at < left) {
        return 0;
    }
    return at < left + mean * (1 - mean + mean * mean / 2) ? 1 : 2;
}

static int
draw_many(struct wp_rng *rng)
{
    int n = 0;

    for (int i = 0; i < 10; i++) {
        n += draw(rng, GREEDY_TIMES * MODEST_PER_TICK / 10);
    }
    return n;
}

static struct result
run(const struct setting *setting)
{
    struct result result = {0};
    struct wp_pool_spec spec;
    struct wp_rng modest;
    struct wp_rng greedy;
    uint64_t number = 0;

    wp_pool_spec_init(&spec);
    spec.create_inflight_max = 4096;
    spec.fair_share = setting->fair;
    spec.cold_start = setting->cold;
    wp_rig_init(&rig, SLOTS, setting->target, &spec);
    rig.backend.ready = WP_FAKE_READY_DELAYED;
    rig.backend.ready_delay_ns = LEAD_S * S;
    wp_rng_init(&modest, 1);
    wp_rng_init(&greedy, 2);
    wp_rig_advance(&rig, 2 * LEAD_S * S);
    for (int tick = 0; tick < TICKS; tick++) {
        wp_rig_advance(&rig, TICK_MS * WP_NS_PER_MS);
        for (int tenant = 0; tenant < MODEST; tenant++) {
            for (int n = draw(&modest, MODEST_PER_TICK); n > 0; n--) {
                claim(&result, tenant, setting->wait_ns, number++);
            }
        }
        for (int n = setting->greedy ? draw_many(&greedy) : 0; n > 0; n--) {
            claim(&result, MODEST, setting->wait_ns, number++);
        }
    }
    wp_rig_advance(&rig, 60 * S); /* Who waits is answered. */
    wp_rig_advance(&rig, 60 * S);
    wp_rig_fini(&rig);
    return result;
}

static double
percent(uint64_t part, uint64_t of)
{
    return of == 0 ? 0 : 100.0 * (double)part / (double)of;
}

/* How many points less of the modest tenants' claims are served at once. */
static double
points_lost(uint32_t target, int64_t wait_ns, enum wp_cold_start cold)
{
    struct setting setting = {target, false, true, wait_ns, cold};
    struct result alone = run(&setting);
    struct result beside;

    setting.greedy = true;
    beside = run(&setting);
    assert_int_equal(beside.modest, alone.modest);
    assert_true(beside.greedy > 48 * beside.modest / MODEST);
    return percent(alone.modest_warm, alone.modest) -
           percent(beside.modest_warm, beside.modest);
}

static void
modest_tenants_do_not_notice(void **state)
{
    (void)state;
    assert_true(points_lost(32, 0, WP_COLD_NEVER) <= 1.0);
    assert_true(points_lost(32, 10 * S, WP_COLD_NEVER) <= 1.0);
    assert_true(points_lost(32, 10 * S, WP_COLD_ALLOWED) <= 1.0);
}

static void
without_shares_they_do(void **state)
{
    const struct setting setting = {32, true, false, 0, WP_COLD_NEVER};
    struct result result = run(&setting);

    (void)state;
    assert_true(percent(result.modest_warm, result.modest) < 50);
}

static void
print_row(const struct setting *setting)
{
    struct result r = run(setting);

    (void)printf(
        "%6u  %-6s %-6s %5lld  %-7s  %6.2f %%  %6.2f %%\n", setting->target,
        setting->greedy ? "yes" : "no", setting->fair ? "yes" : "no",
        (long long)(setting->wait_ns / S),
        setting->cold == WP_COLD_ALLOWED ? "allowed" : "never",
        percent(r.modest_warm, r.modest), percent(r.greedy_served, r.greedy));
}

static void
print_all(void)
{
    static const uint32_t targets[] = {24, 28, 32, 40, 64, 128};

    (void)printf("target  greedy shares  wait  cold     modest    greedy\n");
    for (size_t i = 0; i < WP_ARRAY_LEN(targets); i++) {
        struct setting plain = {targets[i], false, false, 0, WP_COLD_NEVER};
        print_row(&plain);
        for (int kind = 0; kind < 3; kind++) {
            struct setting setting = {
                targets[i], false, true, kind > 0 ? 10 * S : 0,
                kind == 2 ? WP_COLD_ALLOWED : WP_COLD_NEVER};

            print_row(&setting);
            setting.greedy = true;
            print_row(&setting);
            setting.fair = false;
            print_row(&setting);
        }
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modest_tenants_do_not_notice),
        cmocka_unit_test(without_shares_they_do),
    };

    (void)argv;
    if (argc > 1) {
        print_all();
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
