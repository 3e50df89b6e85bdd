/* tests/unit/pool/core/pool_wait_test.c - claims that find nothing ready: they are
 * refused, or wait for their turn, or have a sandbox made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/table/pools.h"
#include "tests/support/pool/pool_rig.h"

#define S WP_NS_PER_S

static void
empty_pool_refuses_with_a_time_to_retry(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    wp_rig_claim_init(&a, "a", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_RESOURCE_EXHAUSTED);
    assert_true(a.claim.retry_after_ns > 0);
    assert_non_null(a.claim.reason);
    /* Its id is free. */
    wp_rig_claim_init(&a, "a", "", 5 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_RESOURCE_EXHAUSTED);
    assert_int_equal(wp_rig_stats(&rig).refused_total, 2);
    wp_rig_claim_init(&a, "a", "", 0, 0);
    a.claim.pool = WP_STR("other");
    assert_int_equal(wp_rig_claim(&rig, &a), WP_NOT_FOUND);
    wp_rig_fini(&rig);
}

static void
waiting_claims_are_served_in_turn_between_tenants(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c[6];
    /* Two of tenant x first, then one of y: x1 y1 x2. */
    static const char *const tenants[] = {"x", "x", "x", "y", "y", "z"};
    static const int order[] = {0, 3, 5, 1, 4, 2};

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    for (int i = 0; i < 6; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "c%d", i);
        wp_rig_claim_init(&c[i], id, tenants[i], 0, 30 * S);
        assert_int_equal(wp_rig_claim(&rig, &c[i]), WP_PENDING);
    }
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 6, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).warming, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(c[order[i]].answers, 0);
        wp_clock_manual_advance(&rig.clock, S);
        assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 1), 1);
        assert_int_equal(c[order[i]].answers, 1);
        assert_int_equal(c[order[i]].claim.status, WP_OK);
        assert_int_equal(c[order[i]].claim.grant.served, WP_SERVED_COLD);
        assert_int_equal(c[order[i]].claim.grant.waited_ns, (i + 1) * S);
    }
    wp_rig_fini(&rig);
}

static void
queued_when_the_sandbox_was_already_in_the_making(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 1, NULL), WP_OK);
    wp_rig_settle(&rig);
    wp_clock_manual_advance(&rig.clock, S);
    wp_rig_claim_init(&a, "a", "", 0, 30 * S);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_PENDING);
    assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 1), 1);
    assert_int_equal(a.claim.grant.served, WP_SERVED_QUEUED);
    wp_rig_fini(&rig);
}

static void
waiting_times_out_with_an_answer(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim b;

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    wp_rig_claim_init(&a, "a", "", 0, 2 * S);
    wp_rig_claim_init(&b, "b", "", 0, 3 * S);
    assert_int_equal(wp_rig_claim(&rig, &b), WP_PENDING);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_PENDING);
    wp_rig_settle(&rig);
    assert_true(rig.next_run_ns <= rig.clock.now_mono_ns + 2 * S);
    wp_rig_advance(&rig, 2 * S);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.claim.status, WP_RESOURCE_EXHAUSTED);
    assert_int_equal(b.answers, 0);
    assert_true(wp_pools_cancel(rig.pools, &b.claim));
    wp_rig_advance(&rig, 2 * S);
    assert_int_equal(b.answers, 0);
    assert_int_equal(wp_rig_stats(&rig).waiting, 0);
    wp_rig_fini(&rig);
}

static void
cold_start_makes_one_for_each_waiting_claim_and_no_more(void **state)
{
    struct wp_rig rig;
    struct wp_pool_spec spec;
    struct wp_rig_claim c[3];

    (void)state;
    wp_pool_spec_init(&spec);
    spec.cold_start = WP_COLD_ALLOWED;
    wp_rig_init(&rig, 16, 0, &spec);
    for (int i = 0; i < 3; i++) {
        char id[16];

        (void)snprintf(id, sizeof id, "c%d", i);
        wp_rig_claim_init(&c[i], id, "", 0, 30 * S);
        assert_int_equal(wp_rig_claim(&rig, &c[i]), WP_PENDING);
    }
    wp_rig_settle(&rig);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c[i].answers, 1);
        assert_int_equal(c[i].claim.grant.served, WP_SERVED_COLD);
    }
    assert_int_equal(wp_rig_stats(&rig).created_total, 3);
    assert_int_equal(wp_rig_stats(&rig).served_total[WP_SERVED_COLD], 3);
    assert_int_equal(wp_rig_stats(&rig).served_total[WP_SERVED_WARM], 0);
    wp_rig_fini(&rig);
}

static void
repeats_of_a_waiting_claim_share_its_sandbox(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim c[5];

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    for (int i = 0; i < 5; i++) {
        wp_rig_claim_init(&c[i], "same", "", 0, 30 * S);
        assert_int_equal(wp_rig_claim(&rig, &c[i]), WP_PENDING);
    }
    /* The first leaves; one of the others takes its place. */
    assert_true(wp_pools_cancel(rig.pools, &c[0].claim));
    assert_true(wp_pools_cancel(rig.pools, &c[3].claim));
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 2, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(c[0].answers + c[3].answers, 0);
    for (int i = 1; i < 5; i += i == 2 ? 2 : 1) {
        assert_int_equal(c[i].answers, 1);
        assert_int_equal(c[i].claim.status, WP_OK);
        assert_string_equal(c[i].claim.grant.sandbox, c[1].claim.grant.sandbox);
    }
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_rig_fini(&rig);
}

struct claiming {
    struct wp_rig rig;
    struct wp_rig_claim claim;
    enum wp_status status;
    _Atomic(long) thread; /* 0: it has not begun. */
};

static void *
claim_beside(void *arg)
{
    struct claiming *c = arg;

    c->thread = syscall(SYS_gettid);
    c->status = wp_rig_claim(&c->rig, &c->claim);
    return NULL;
}

/* It waits for a lock, since it waits for nothing else. */
static void
wait_until_asleep(const struct claiming *c)
{
    char state = 'R';

    while (state != 'S') {
        char path[64];
        FILE *stat;

        (void)snprintf(path, sizeof path, "/proc/self/task/%ld/stat",
                       (long)c->thread);
        stat = c->thread != 0 ? fopen(path, "re") : NULL;
        if (stat != NULL) {
            (void)!fscanf(stat, "%*d (%*[^)]) %c", &state); // NOLINT
            (void)fclose(stat);
        }
        (void)usleep(1000);
    }
}

/* Between its look at an empty pool and its place in the queue. */
static void
who_left_meanwhile_does_not_wait(void **state)
{
    static struct claiming c;
    struct wp_pool *pool;
    pthread_t thread;

    (void)state;
    wp_rig_init(&c.rig, 16, 0, NULL);
    pool = wp_pools_at(c.rig.pools, 0);
    wp_rig_claim_init(&c.claim, "a", "", 0, 30 * S);
    (void)pthread_mutex_lock(&pool->wait_lock);
    assert_int_equal(pthread_create(&thread, NULL, claim_beside, &c), 0);
    wait_until_asleep(&c);
    /* As wp_pools_cancel says it of one that is under way. */
    c.claim.claim.left = true;
    (void)pthread_mutex_unlock(&pool->wait_lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(c.status, WP_CANCELLED);
    assert_int_equal(wp_rig_stats(&c.rig).waiting, 0);
    wp_rig_fini(&c.rig);
}

/* Not as long as the first: each as long as it asked, and a second at least. */
static void
repeats_wait_no_longer_than_they_asked(void **state)
{
    struct wp_rig rig;
    const struct wp_pool *pool;
    struct wp_rig_claim first;
    struct wp_rig_claim c[3];
    int64_t until_ns; /* They are not looked through before that. */

    (void)state;
    wp_rig_init(&rig, 16, 0, NULL);
    pool = wp_pools_at(rig.pools, 0);
    wp_rig_claim_init(&first, "same", "", 0, 60 * S);
    assert_int_equal(wp_rig_claim(&rig, &first), WP_PENDING);
    for (int i = 0; i < 3; i++) {
        wp_rig_claim_init(&c[i], "same", "", 0, i * 5 * S);
        assert_int_equal(wp_rig_claim(&rig, &c[i]), WP_PENDING);
    }
    wp_rig_settle(&rig);
    until_ns = pool->followers_until_ns;
    wp_rig_advance(&rig, S - 1);
    assert_int_equal(c[0].answers, 0);
    wp_rig_advance(&rig, 1);
    assert_int_equal(c[0].answers, 1);
    assert_int_equal(pool->followers_until_ns, until_ns + 4 * S);
    assert_int_equal(c[0].claim.status, WP_RESOURCE_EXHAUSTED);
    assert_string_equal(c[0].claim.reason,
                        "an earlier request for this claim waits still");
    assert_true(wp_pools_cancel(rig.pools, &c[1].claim));
    assert_int_equal(c[1].claim.status, WP_CANCELLED);
    assert_false(
        wp_pools_cancel(rig.pools, &c[1].claim)); /* It was answered. */
    wp_rig_advance(&rig, 9 * S - 1);
    assert_int_equal(c[1].answers + c[2].answers, 0);
    wp_rig_advance(&rig, 1);
    assert_int_equal(c[2].answers, 1);
    assert_int_equal(pool->followers_until_ns, WP_TIME_NEVER);
    assert_int_equal(first.answers, 0);
    /* It is served, and so is who repeats it in time. */
    wp_rig_claim_init(&c[0], "same", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &c[0]), WP_PENDING);
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 1, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(first.claim.status, WP_OK);
    assert_int_equal(c[0].claim.status, WP_OK);
    assert_true(c[0].claim.replayed);
    wp_rig_fini(&rig);
}

static struct {
    struct wp_rig rig;
    struct wp_rig_claim c[2];
    bool withdrawn;
} together;

static void
withdraw_the_other(struct wp_claim *claim)
{
    (void)claim;
    together.c[0].answers++;
    together.withdrawn =
        wp_pools_cancel(together.rig.pools, &together.c[1].claim);
}

/* Two whose wait ends at once: when the first is told, the other can be
 * withdrawn no more, and is told, too. */
static void
repeats_that_end_together_are_all_told(void **state)
{
    struct wp_rig_claim first;

    (void)state;
    wp_rig_init(&together.rig, 16, 0, NULL);
    wp_rig_claim_init(&first, "same", "", 0, 60 * S);
    assert_int_equal(wp_rig_claim(&together.rig, &first), WP_PENDING);
    for (int i = 0; i < 2; i++) {
        wp_rig_claim_init(&together.c[i], "same", "", 0, 5 * S);
        if (i == 0) {
            together.c[i].claim.done = withdraw_the_other;
        }
        assert_int_equal(wp_rig_claim(&together.rig, &together.c[i]),
                         WP_PENDING);
    }
    wp_rig_settle(&together.rig);
    together.withdrawn = true;
    wp_rig_advance(&together.rig, 5 * S);
    assert_int_equal(together.c[0].answers, 1);
    assert_false(together.withdrawn);
    assert_int_equal(together.c[1].answers, 1);
    assert_true(wp_pools_cancel(together.rig.pools, &first.claim));
    assert_int_equal(first.claim.status, WP_CANCELLED);
    assert_false(wp_pools_cancel(together.rig.pools, &first.claim));
    wp_rig_fini(&together.rig);
}

static void
withdraw_itself(struct wp_claim *claim)
{
    together.c[0].answers++;
    together.withdrawn = wp_pools_cancel(together.rig.pools, claim);
}

/* However a wait ends: who is being told can be withdrawn no more. */
static void
who_is_told_is_not_withdrawn(void **state)
{
    static const enum wp_status told[] = {WP_OK, WP_RESOURCE_EXHAUSTED,
                                          WP_UNAVAILABLE};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(told); i++) {
        struct wp_rig_claim *c = &together.c[0];

        wp_rig_init(&together.rig, 16, 0, NULL);
        wp_rig_claim_init(c, "a", "", 0, 5 * S);
        c->claim.done = withdraw_itself;
        assert_int_equal(wp_rig_claim(&together.rig, c), WP_PENDING);
        together.withdrawn = true;
        if (told[i] == WP_OK) {
            assert_int_equal(
                wp_pools_set_target(together.rig.pools, 0, 1, NULL), WP_OK);
            wp_rig_settle(&together.rig);
        } else if (told[i] == WP_RESOURCE_EXHAUSTED) {
            wp_rig_advance(&together.rig, 5 * S);
        } else {
            wp_pools_drain(together.rig.pools, 0);
            wp_rig_settle(&together.rig);
        }
        assert_int_equal(c->answers, 1);
        assert_int_equal(c->claim.status, told[i]);
        assert_false(together.withdrawn);
        wp_rig_fini(&together.rig);
    }
}

static void
draining_pool_refuses_and_empties(void **state)
{
    struct wp_rig rig;
    struct wp_rig_claim a;
    struct wp_rig_claim w;
    struct wp_rig_claim again;

    (void)state;
    wp_rig_init(&rig, 16, 1, NULL);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    wp_rig_claim_init(&a, "a", "", 0, 0);
    wp_rig_claim_init(&w, "w", "", 0, 30 * S);
    assert_int_equal(wp_rig_claim(&rig, &a), WP_OK);
    assert_int_equal(wp_rig_claim(&rig, &w), WP_PENDING);
    wp_pools_drain(rig.pools, 0);
    wp_rig_settle(&rig);
    assert_int_equal(w.answers, 1);
    assert_int_equal(w.claim.status, WP_UNAVAILABLE);
    wp_rig_claim_init(&again, "a", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &again), WP_OK);
    wp_rig_claim_init(&w, "x", "", 0, 30 * S);
    assert_int_equal(wp_rig_claim(&rig, &w), WP_UNAVAILABLE);
    /* Nor is a claim of no pool withdrawn: it was answered at once. */
    wp_rig_claim_init(&w, "y", "", 0, 30 * S);
    w.claim.pool = WP_STR("none");
    assert_int_equal(wp_rig_claim(&rig, &w), WP_NOT_FOUND);
    assert_false(wp_pools_cancel(rig.pools, &w.claim));
    wp_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_pool_refuses_with_a_time_to_retry),
        cmocka_unit_test(waiting_claims_are_served_in_turn_between_tenants),
        cmocka_unit_test(queued_when_the_sandbox_was_already_in_the_making),
        cmocka_unit_test(waiting_times_out_with_an_answer),
        cmocka_unit_test(
            cold_start_makes_one_for_each_waiting_claim_and_no_more),
        cmocka_unit_test(repeats_of_a_waiting_claim_share_its_sandbox),
        cmocka_unit_test(who_left_meanwhile_does_not_wait),
        cmocka_unit_test(repeats_wait_no_longer_than_they_asked),
        cmocka_unit_test(repeats_that_end_together_are_all_told),
        cmocka_unit_test(who_is_told_is_not_withdrawn),
        cmocka_unit_test(draining_pool_refuses_and_empties),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
