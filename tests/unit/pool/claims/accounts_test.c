/* Accounts: found again, counted up and down, held to quotas, used anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/clock.h"
#include "pool/base/fnv.h"
#include "pool/claims/accounts.h"
#include "tests/support/base/asked_memory.h"

#define S WP_NS_PER_S

enum {
    CLAIMS = 64,
};

static const struct wp_quota no_quota = {WP_QUOTA_NONE, WP_QUOTA_NONE,
                                         WP_QUOTA_NONE};
static struct wp_accounts accounts;

static int
setup(void **state)
{
    (void)state;
    assert_true(
        wp_accounts_init(&accounts, CLAIMS, (struct wp_hash_key){1, 2}));
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    wp_accounts_fini(&accounts);
    assert_int_equal(asked_bytes(), 0);
    return 0;
}

/* The memory plan says what they take: for each claim one, to a bound. All is
 * given back, also when memory lacks. */
static void
memory_is_as_planned(void **state)
{
    static const struct {
        uint32_t claims, accounts;
    } sizes[] = {{1, 64},
                 {64, 64},
                 {65, 128},
                 {WP_ACCOUNTS_MAX, WP_ACCOUNTS_MAX},
                 {WP_ACCOUNTS_MAX + 1, WP_ACCOUNTS_MAX}};
    const struct wp_hash_key key = {1, 2};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_true(wp_accounts_init(&accounts, sizes[i].claims, key));
        assert_int_equal(accounts.mask + 1, sizes[i].accounts);
        assert_int_equal(asked_bytes(), wp_accounts_bytes(&accounts));
        wp_accounts_fini(&accounts);
        assert_int_equal(asked_bytes(), 0);
    }
    for (int piece = 1; piece <= 3; piece++) {
        asked.refuse = piece;
        assert_false(wp_accounts_init(&accounts, CLAIMS, key));
        assert_int_equal(asked.refuse, 0);
        assert_int_equal(asked_bytes(), 0);
        wp_accounts_fini(&accounts); /* Again does no harm. */
    }
}

static struct wp_counted
take(uint32_t pool, const char *tenant, int64_t now_ns)
{
    return wp_accounts_take(&accounts, pool, wp_str_from(tenant), now_ns);
}

static enum wp_account_verdict
check(struct wp_counted counted, int64_t now_ns)
{
    int64_t retry_ns;

    return wp_accounts_check(&accounts, counted, now_ns, &retry_ns);
}

/* The tenant's numbers in the pool; all 0 when there are none. */
static struct wp_tenant_stats
stats_of(uint32_t pool, const char *name)
{
    struct wp_str tenant = wp_str_from(name);
    struct wp_tenant_stats out = {0};
    uint32_t cursor = 0;
    uint32_t at;

    (void)wp_accounts_list(&accounts,
                           &(struct wp_account_filter){pool, &tenant}, &cursor,
                           &out, &at, 1);
    return out;
}

static void
an_account_is_of_one_tenant_in_one_pool(void **state)
{
    struct wp_counted a = take(3, "a", 1);
    struct wp_counted again = take(3, "a", 1);
    struct wp_counted b = take(3, "b", 1);
    struct wp_counted elsewhere = take(4, "a", 1);

    (void)state;
    assert_int_equal(a.live, 1);
    assert_int_equal(again.live, 2);
    assert_int_equal(again.account, a.account);
    assert_int_equal(b.live, 1);
    assert_int_not_equal(b.account, a.account);
    assert_int_equal(elsewhere.live, 1);
    assert_int_not_equal(elsewhere.account, a.account);
    assert_int_equal(stats_of(3, "a").leases, 2);
    wp_accounts_give(&accounts, a.account);
    assert_int_equal(stats_of(3, "a").leases, 1);
    wp_accounts_give(&accounts, a.account);
    assert_int_equal(stats_of(3, "a").leases, 0);
    assert_int_equal(stats_of(3, "a").claims_total, 2);
    wp_accounts_give(&accounts, b.account);
    wp_accounts_give(&accounts, elsewhere.account);
}

static void
names_that_begin_alike_are_two(void **state)
{
    struct wp_counted none = take(0, "", 1);
    struct wp_counted one = take(0, "a", 1);
    struct wp_counted two = take(0, "aa", 1);

    (void)state;
    assert_int_equal(none.live + one.live + two.live, 3);
    wp_accounts_give(&accounts, none.account);
    wp_accounts_give(&accounts, one.account);
    wp_accounts_give(&accounts, two.account);
}

static void
a_quota_holds_exactly(void **state)
{
    const struct wp_quota quota = {3, WP_QUOTA_NONE, WP_QUOTA_NONE};
    struct wp_counted held[4];

    (void)state;
    wp_accounts_set_pool(&accounts, 1, 77, &quota);
    for (int i = 0; i < 4; i++) {
        held[i] = take(1, "t", 1);
    }
    assert_int_equal(check(held[2], 1), WP_ACCOUNT_OK);
    assert_int_equal(check(held[3], 1), WP_ACCOUNT_LEASES);
    wp_accounts_give(&accounts, held[3].account);
    assert_int_equal(stats_of(1, "t").refused_total, 1);
    /* Another pool's tenants have none. */
    held[3] = take(2, "t", 1);
    held[3].live = 100;
    assert_int_equal(check(held[3], 1), WP_ACCOUNT_OK);
    /* A larger one holds at once, 0 is none. */
    held[3] = take(1, "t", 1);
    assert_int_equal(check(held[3], 1), WP_ACCOUNT_LEASES);
    wp_accounts_set_pool(&accounts, 1, 77, &(struct wp_quota){4, 0, 0});
    assert_int_equal(check(held[3], 1), WP_ACCOUNT_OK);
    wp_accounts_set_pool(&accounts, 1, 77, &(struct wp_quota){0, 0, 0});
    assert_int_equal(stats_of(1, "t").quota.leases_max, WP_QUOTA_NONE);
}

static void
what_is_said_of_a_tenant_goes_before_its_pool(void **state)
{
    uint64_t pool = wp_fnv_name(WP_STR("ns"), WP_STR("p"));
    const struct wp_tenant_quota named[] = {
        {.tenant = "ci", .quota = {5, WP_QUOTA_NONE, 0}},
        {.tenant = "ci",
         .pool_namespace = "ns",
         .pool = "p",
         .quota = {7, WP_QUOTA_NONE, WP_QUOTA_NONE}},
    };

    (void)state;
    wp_accounts_set_pool(&accounts, 1, pool, &(struct wp_quota){2, 3, 60});
    wp_accounts_set_pool(&accounts, 2, 99, &(struct wp_quota){2, 3, 60});
    (void)take(1, "ci", 1);
    assert_true(wp_accounts_set_named(&accounts, named, 2));
    (void)take(1, "other", 1);
    (void)take(2, "ci", 1);
    assert_int_equal(stats_of(1, "other").quota.leases_max, 2);
    assert_int_equal(stats_of(1, "other").quota.claims_per_minute, 60);
    assert_int_equal(stats_of(1, "ci").quota.leases_max, 7);
    assert_int_equal(stats_of(2, "ci").quota.leases_max, 5);
    assert_int_equal(stats_of(1, "ci").quota.waiters_max, 3);
    assert_int_equal(stats_of(1, "ci").quota.claims_per_minute, WP_QUOTA_NONE);
    assert_true(wp_accounts_set_named(&accounts, NULL, 0));
    assert_int_equal(stats_of(1, "ci").quota.leases_max, 2);
    assert_int_equal(asked_bytes(), wp_accounts_bytes(&accounts));
    /* Where memory lacks they stay as they are. */
    assert_true(wp_accounts_set_named(&accounts, named, 2));
    asked.refuse = 1;
    assert_false(wp_accounts_set_named(&accounts, named, 1));
    assert_int_equal(stats_of(1, "ci").quota.leases_max, 7);
}

static void
the_rate_lets_ten_seconds_worth_through_at_once(void **state)
{
    struct wp_counted t;
    int64_t now = 1000 * S;
    int64_t retry_ns;
    int served = 0;

    (void)state;
    wp_accounts_set_pool(&accounts, 1, 1, &(struct wp_quota){0, 0, 120});
    for (int i = 0; i < 100; i++) {
        t = take(1, "t", now);
        served += check(t, now) == WP_ACCOUNT_OK ? 1 : 0;
        wp_accounts_give(&accounts, t.account);
    }
    assert_int_equal(served, 20);
    t = take(1, "t", now);
    assert_int_equal(wp_accounts_check(&accounts, t, now, &retry_ns),
                     WP_ACCOUNT_RATE);
    assert_int_equal(retry_ns, S / 2);
    assert_int_equal(check(t, now + retry_ns - 1), WP_ACCOUNT_RATE);
    now += retry_ns;
    assert_int_equal(wp_accounts_check(&accounts, t, now, &retry_ns),
                     WP_ACCOUNT_OK);
    assert_int_equal(retry_ns, 0);
    /* Who has too many leases is told of no time, and pays nothing. */
    t.live = UINT32_MAX;
    wp_accounts_set_pool(&accounts, 1, 1, &(struct wp_quota){1, 0, 120});
    retry_ns = 1;
    assert_int_equal(wp_accounts_check(&accounts, t, now, &retry_ns),
                     WP_ACCOUNT_LEASES);
    assert_int_equal(retry_ns, 0);
    t.live = 1;
    now += S / 2;
    assert_int_equal(check(t, now), WP_ACCOUNT_OK);
    /* Over a long time it is the rate. */
    served = 0;
    for (int i = 0; i < 6000; i++) {
        now += S / 10;
        served += check(t, now) == WP_ACCOUNT_OK ? 1 : 0;
    }
    assert_in_range(served, 1199, 1201);
    /* So few a minute that ten seconds hold none: one at a time. */
    wp_accounts_set_pool(&accounts, 2, 2, &(struct wp_quota){0, 0, 2});
    t = take(2, "t", now);
    assert_int_equal(check(t, now), WP_ACCOUNT_OK);
    assert_int_equal(check(t, now + 30 * S - 1), WP_ACCOUNT_RATE);
    assert_int_equal(check(t, now + 30 * S), WP_ACCOUNT_OK);
}

static void
accounts_without_claims_become_others(void **state)
{
    char name[16];

    (void)state;
    for (int i = 0; i < 5000; i++) {
        struct wp_counted t;

        (void)snprintf(name, sizeof name, "t%d", i);
        t = take(0, name, i + 1);
        assert_int_not_equal(t.account, WP_ACCOUNT_OTHERS);
        assert_int_equal(t.live, 1);
        assert_int_equal(stats_of(0, name).claims_total, 1);
        wp_accounts_give(&accounts, t.account);
    }
    /* Whoever is replaced is not active any more. */
    assert_true(wp_accounts_active(&accounts, 0) <= accounts.n_used);
}

/* A tenant has half of the places to choose from: it takes one that is unused, or
 * that is among the older half. Who held the place before is told by the
 * generation, which is never 0. */
static void
the_place_left_alone_longest_is_taken(void **state)
{
    char name[16];

    (void)state;
    for (int i = 0; i < 500; i++) {
        uint64_t words[CLAIMS];
        int64_t last_ns[CLAIMS];
        struct wp_counted t;
        uint32_t older = 0;

        for (uint32_t k = 0; k < CLAIMS; k++) {
            if (i == 400 && accounts.account[k].word != 0) {
                accounts.account[k].word = (uint64_t)UINT32_MAX << 32;
            }
            words[k] = accounts.account[k].word;
            last_ns[k] = accounts.account[k].last_ns;
        }
        (void)snprintf(name, sizeof name, "t%d", i);
        t = take(0, name, i + 1);
        for (uint32_t k = 1; k < CLAIMS; k++) {
            older += words[k] != 0 && last_ns[k] < last_ns[t.account];
        }
        assert_true(older < CLAIMS / 2);
        assert_int_equal(accounts.account[t.account].word >> 32,
                         words[t.account] >> 32 == UINT32_MAX
                             ? 1
                             : (words[t.account] >> 32) + 1);
        wp_accounts_give(&accounts, t.account);
    }
    assert_true(accounts.account[1].word >> 32 != UINT32_MAX);
}

static void
who_finds_no_account_shares_one(void **state)
{
    const struct wp_account *others = &accounts.account[WP_ACCOUNT_OTHERS];
    uint32_t account[200];
    uint32_t shared = 0;
    char name[16];

    (void)state;
    for (uint32_t i = 0; i < 200; i++) {
        struct wp_counted t;

        (void)snprintf(name, sizeof name, "t%u", i);
        t = take(0, name, 1);
        account[i] = t.account;
        if (t.account == WP_ACCOUNT_OTHERS) {
            shared++;
            assert_int_equal(t.live, shared);
            t.live = UINT32_MAX - 1;
            assert_int_equal(check(t, 1), WP_ACCOUNT_OK);
            assert_int_equal(others->waiters_max, WP_QUOTA_NONE);
        }
    }
    assert_true(shared >= 200 - 64);
    /* It is no tenant, and no pool's: active is who has its own. */
    assert_int_equal(wp_accounts_active(&accounts, 0), 200 - shared);
    wp_accounts_set_pool(&accounts, 0, 1, &(struct wp_quota){1, 1, 1});
    assert_true(wp_accounts_set_named(&accounts, NULL, 0));
    assert_int_equal(others->leases_max, WP_QUOTA_NONE);
    assert_int_equal(others->waiters_max, WP_QUOTA_NONE);
    assert_int_equal(others->per_minute, WP_QUOTA_NONE);
    assert_int_equal(stats_of(0, "").leases, 0);
    for (uint32_t i = 0; i < 200; i++) {
        wp_accounts_give(&accounts, account[i]);
    }
    assert_int_equal(wp_account_live(others), 0);
    /* And now there is room again. */
    assert_int_not_equal(take(0, "new", 2).account, WP_ACCOUNT_OTHERS);
}

static void
a_tenant_is_active_for_a_minute(void **state)
{
    (void)state;
    wp_accounts_set_pool(&accounts, 6, 6, &no_quota);
    (void)take(6, "restored", 0);
    assert_int_equal(wp_accounts_active(&accounts, 6), 0);
    (void)take(6, "a", 10 * S);
    (void)take(6, "a", 11 * S);
    (void)take(6, "b", 40 * S);
    assert_int_equal(wp_accounts_active(&accounts, 6), 2);
    wp_accounts_sweep(&accounts, 71 * S);
    assert_int_equal(wp_accounts_active(&accounts, 6), 2);
    wp_accounts_sweep(&accounts, 71 * S + 1);
    assert_int_equal(wp_accounts_active(&accounts, 6), 1);
    assert_false(stats_of(6, "a").active);
    (void)take(6, "a", 72 * S);
    assert_int_equal(wp_accounts_active(&accounts, 6), 2);
}

static struct wp_account *
claims_of(const char *tenant, uint32_t n, int64_t now_ns)
{
    struct wp_counted counted = {0};

    for (uint32_t i = 0; i < n; i++) {
        counted = take(2, tenant, now_ns);
        wp_accounts_give(&accounts, counted.account);
    }
    return &accounts.account[counted.account];
}

/* The times in microseconds. */
static void
check_share(const struct wp_account_share *share, bool beyond, uint32_t leave,
            int64_t gap_us, int64_t ahead_us)
{
    assert_int_equal(atomic_load(&share->beyond), beyond);
    assert_int_equal(atomic_load(&share->leave), leave);
    assert_int_equal(atomic_load(&share->gap_ns) / 1000, gap_us);
    assert_int_equal(atomic_load(&share->ahead_ns) / 1000, ahead_us);
}

static void
find_shares(bool kept, int64_t now_ns)
{
    wp_accounts_set_stock(&accounts, 2, kept, 60, 10 * S);
    wp_accounts_find_shares(&accounts, now_ns);
}

/* Goal: a share follows what its tenant needs, up and down again, and is gone
 * with the rule. */
static void
a_share_follows_what_its_tenant_needs(void **state)
{
    const struct wp_account_share *newcomer = &accounts.pool[2].newcomer;
    struct wp_account *modest;
    struct wp_account *greedy;

    (void)state;
    wp_accounts_set_pool(&accounts, 2, 2, &no_quota);
    find_shares(true, 100 * S);
    modest = claims_of("modest", 1, 100 * S);
    greedy = claims_of("greedy", 200, 100 * S);
    check_share(&modest->share, false, 0, 0, 0);
    check_share(&greedy->share, false, 0, 0, 0);
    /* 60 are made in the time in which 1 and 200 were claimed. */
    find_shares(true, 110 * S);
    check_share(&modest->share, false, 7, 169354, 9830645);
    check_share(newcomer, false, 7, 169354, 9830645);
    check_share(&greedy->share, true, 5, 181422, 9818577);
    assert_int_equal(atomic_load(&greedy->share_ns),
                     110 * S + atomic_load(&greedy->share.ahead_ns));
    (void)claims_of("greedy", 200, 111 * S);
    find_shares(true, 120 * S);
    assert_true(atomic_load(&greedy->share.beyond));
    /* What it had saved up is not begun anew. */
    assert_true(atomic_load(&greedy->share_ns) < 120 * S);
    /* For minutes it claims no more than it may: both have one half. */
    for (int64_t t = 130; t <= 600; t += 10) {
        (void)claims_of("modest", 1, t * S);
        (void)claims_of("greedy", 1, t * S);
        find_shares(true, t * S);
    }
    check_share(&modest->share, false, 7, 333333, 9666666);
    check_share(&greedy->share, false, 7, 333333, 9666666);
    /* Rounded up, as 0 would be no bound. */
    assert_int_equal(atomic_load(&greedy->share.gap_ns), 333333334);
    (void)claims_of("greedy", 2000, 610 * S);
    find_shares(true, 610 * S);
    assert_true(atomic_load(&greedy->share.beyond));
    assert_int_equal(atomic_load(&greedy->share_ns),
                     610 * S + atomic_load(&greedy->share.ahead_ns));
    find_shares(false, 611 * S);
    assert_false(atomic_load(&greedy->share.beyond));
    assert_int_equal(atomic_load(&greedy->share.gap_ns), 0);
    assert_int_equal(atomic_load(&modest->share.gap_ns), 0);
    assert_int_equal(atomic_load(&newcomer->gap_ns), 0);
}

/* Listed is who claimed lately or holds something, so many at a time. */
static void
listed_in_parts(void **state)
{
    const struct wp_account_filter all = {UINT32_MAX, NULL};
    const struct wp_account_filter one_pool = {6, NULL};
    struct wp_tenant_stats out[4];
    uint32_t pools[4] = {99, 99, 99, 99};
    struct wp_counted gone;
    uint32_t cursor = 0;

    (void)state;
    (void)take(6, "restored", 0);
    gone = take(6, "gone", 0);
    wp_accounts_give(&accounts, gone.account);
    (void)take(6, "a", 10 * S);
    (void)take(7, "b", 10 * S);
    memset(out, 0x5a, sizeof out);
    assert_int_equal(wp_accounts_list(&accounts, &all, &cursor, out, pools, 2),
                     2);
    assert_string_equal(out[0].tenant, "restored");
    assert_int_equal(out[0].leases, 1);
    assert_false(out[0].active);
    assert_string_equal(out[1].tenant, "a");
    assert_true(out[1].active);
    assert_int_equal(pools[0], 6);
    assert_int_equal(pools[1], 6);
    assert_int_equal(pools[2], 99);
    assert_int_equal(out[2].tenant[0], 0x5a);
    assert_true(cursor > 0);
    assert_int_equal(wp_accounts_list(&accounts, &all, &cursor, out, pools, 2),
                     1);
    assert_string_equal(out[0].tenant, "b");
    assert_int_equal(pools[0], 7);
    assert_int_equal(cursor, 0);
    assert_int_equal(
        wp_accounts_list(&accounts, &one_pool, &cursor, out, pools, 4), 2);
    assert_int_equal(cursor, 0);
}

/* Who waits holds a claim, and no lease. The two numbers are not read at once. */
static void
who_waits_has_no_lease(void **state)
{
    struct wp_account *account;

    (void)state;
    (void)take(1, "t", 1);
    (void)take(1, "t", 1);
    account = &accounts.account[take(1, "t", 1).account];
    for (uint32_t waiting = 0; waiting < 5; waiting++) {
        atomic_store(&account->waiting, waiting);
        assert_int_equal(stats_of(1, "t").waiting, waiting);
        assert_int_equal(stats_of(1, "t").leases,
                         waiting < 3 ? 3 - waiting : 0);
    }
}

/* Nothing of the tenant before is left when another one has its account. */
static void
another_tenant_begins_anew(void **state)
{
    const struct wp_account_share *newcomer = &accounts.pool[2].newcomer;
    const struct wp_account *greedy;
    struct wp_counted t;
    char name[16];

    (void)state;
    wp_accounts_set_pool(&accounts, 2, 2, &(struct wp_quota){300, 0, 60});
    find_shares(true, 100 * S);
    (void)claims_of("modest", 1, 100 * S);
    greedy = claims_of("greedy", 200, 100 * S);
    find_shares(true, 110 * S);
    t = take(2, "greedy", 110 * S);
    assert_int_equal(check(t, 110 * S), WP_ACCOUNT_OK);
    t.live = 301;
    assert_int_equal(check(t, 110 * S), WP_ACCOUNT_LEASES);
    assert_int_equal(check(t, 110 * S), WP_ACCOUNT_LEASES);
    wp_accounts_give(&accounts, t.account);
    assert_true(atomic_load(&greedy->share.beyond));
    assert_true(greedy->rate > 0 && greedy->known > 0 && greedy->refused == 2);
    for (int i = 0; i < 100000; i++) {
        (void)snprintf(name, sizeof name, "t%d", i);
        t = take(2, name, 111 * S);
        wp_accounts_give(&accounts, t.account);
        if (&accounts.account[t.account] == greedy) {
            break;
        }
    }
    assert_string_equal(greedy->tenant, name);
    check_share(&greedy->share, false, newcomer->leave, newcomer->gap_ns / 1000,
                newcomer->ahead_ns / 1000);
    assert_int_equal(wp_account_live(greedy), 0);
    assert_int_equal(greedy->last_ns, 111 * S);
    assert_int_equal(greedy->rate_ns, 0);
    assert_int_equal(greedy->share_ns, 0);
    assert_int_equal(greedy->claims, 1);
    assert_int_equal(greedy->waiting, 0);
    assert_true(greedy->active);
    assert_int_equal(greedy->leases_max, 300);
    assert_int_equal(greedy->per_minute, 60);
    assert_int_equal(greedy->refused, 0);
    assert_int_equal(greedy->pool_index, 2);
    assert_int_equal(greedy->claims_seen, 0);
    assert_true(greedy->rate == 0 && greedy->known == 0);
    /* The same of a claim that is known from elsewhere. All stay. */
    atomic_store(&accounts.account[t.account].share.gap_ns, 1);
    for (int i = 0; i < 1000 && strcmp(greedy->tenant, name) == 0; i++) {
        char other[16];

        (void)snprintf(other, sizeof other, "u%d", i);
        (void)take(2, other, 0);
    }
    assert_string_not_equal(greedy->tenant, name);
    assert_int_equal(greedy->last_ns, 0);
    assert_int_equal(greedy->share.gap_ns, 0);
    assert_int_equal(greedy->claims, 0);
    assert_false(greedy->active);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        cmocka_unit_test(memory_is_as_planned),
        TEST(an_account_is_of_one_tenant_in_one_pool),
        TEST(names_that_begin_alike_are_two),
        TEST(a_quota_holds_exactly),
        TEST(what_is_said_of_a_tenant_goes_before_its_pool),
        TEST(the_rate_lets_ten_seconds_worth_through_at_once),
        TEST(accounts_without_claims_become_others),
        TEST(the_place_left_alone_longest_is_taken),
        TEST(who_finds_no_account_shares_one),
        TEST(a_tenant_is_active_for_a_minute),
        TEST(a_share_follows_what_its_tenant_needs),
        TEST(listed_in_parts),
        TEST(who_waits_has_no_lease),
        TEST(another_tenant_begins_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
