/* What a pool tells: people, clients, the store and its own thread; each field
 * and the exact number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "pool/history/history.h"
#include "pool/lease_store.h"
#include "pool/refill/refill.h"
#include "pool/table/pools.h"
#include "tests/unit/pool/core/one_pool.h"

/* --- The store --- */

static void
check_op(const struct wp_lease_op *op, enum wp_lease_op_kind kind,
         const struct wp_rig_claim *c)
{
    static const uint8_t zeros[WP_UID_LEN];

    assert_non_null(op);
    assert_int_equal(op->kind, kind);
    assert_memory_not_equal(op->uid, zeros, sizeof zeros);
    assert_int_equal(op->fence, c->claim.grant.fence);
    assert_true(wp_str_is(op->pool_namespace, "default"));
    assert_true(wp_str_is(op->pool, "p"));
    assert_true(wp_str_is(op->sandbox, c->claim.grant.sandbox));
    assert_true(wp_str_is(op->claim_id, c->id));
    assert_true(wp_str_is(op->tenant, c->tenant));
}

/* Goal: a record says all that another daemon must know of the lease. */
static void
the_store_is_told_of_each_change_whole(void **state)
{
    struct wp_rig_claim c;
    const struct wp_lease_op *op;
    int64_t wall_ms;

    (void)state;
    start(1, 1, WP_FAKE_READY_NEXT_TURN);
    rig.store_later = true;
    wall_ms = rig.clock.now_wall_ns / WP_NS_PER_MS;
    assert_int_equal(claim(&c, "one", 0), WP_PENDING);
    op = wp_lease_op_of(rig.store_ops);
    check_op(op, WP_LEASE_GRANT, &c);
    assert_true(op->sandbox.len > 0 && op->fence > 0);
    assert_true(wp_str_is(op->endpoint, c.claim.grant.endpoint));
    assert_true(wp_str_starts_with(op->endpoint, WP_STR("unix:/fake/")));
    assert_int_equal(op->granted_wall_ms, wall_ms);
    assert_int_equal(op->deadline_wall_ms, wall_ms + 30 * 1000);
    assert_int_equal(wp_rig_store_answer(&rig, WP_OK), 1);
    assert_int_equal(c.claim.status, WP_OK);
    assert_int_equal(c.claim.grant.deadline_wall_ms, wall_ms + 30 * 1000);
    assert_int_equal(c.claim.grant.served, WP_SERVED_WARM);
    wp_rig_settle(&rig);

    /* It runs out. */
    wp_clock_manual_advance(&rig.clock, 31 * S);
    (void)wp_pools_run(rig.pools);
    assert_int_equal(rig.store_kept, 1);
    op = wp_lease_op_of(rig.store_ops);
    check_op(op, WP_LEASE_EXPIRE, &c);
    assert_int_equal(op->deadline_wall_ms, wall_ms + 30 * 1000);
    assert_int_equal(wp_rig_store_answer(&rig, WP_OK), 1);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).expired_total, 1);
    rig.store_later = false;
    wp_rig_fini(&rig);
}

/* --- Numbers --- */

static void
check_stats(const struct wp_pool_stats *expected)
{
    const struct wp_pool_stats stats = wp_rig_stats(&rig);
    const struct wp_pool_stats *is = &stats;

    assert_int_equal(is->index, expected->index);
    assert_int_equal(is->replicas, expected->replicas);
    assert_int_equal(is->warming, expected->warming);
    assert_int_equal(is->ready, expected->ready);
    assert_int_equal(is->leased, expected->leased);
    assert_int_equal(is->quarantined, expected->quarantined);
    assert_int_equal(is->dying, expected->dying);
    assert_int_equal(is->waiting, expected->waiting);
    assert_int_equal(is->created_total, expected->created_total);
    assert_int_equal(is->destroyed_total, expected->destroyed_total);
    assert_int_equal(is->failed_total, expected->failed_total);
    assert_int_equal(is->retired_total, expected->retired_total);
    assert_int_equal(is->lost_total, expected->lost_total);
    assert_memory_equal(is->served_total, expected->served_total,
                        sizeof is->served_total);
    assert_int_equal(is->refused_total, expected->refused_total);
    assert_int_equal(is->released_total, expected->released_total);
    assert_int_equal(is->expired_total, expected->expired_total);
    assert_int_equal(is->undone_total, expected->undone_total);
    assert_int_equal(is->bound_total, expected->bound_total);
    assert_int_equal(is->unbound_total, expected->unbound_total);
    assert_int_equal(is->missed_total, expected->missed_total);
    assert_int_equal(is->draining, expected->draining);
    assert_int_equal(is->removed, expected->removed);
    assert_int_equal(is->gone, expected->gone);
    assert_int_equal(is->breaker_open, expected->breaker_open);
    assert_string_equal(is->last_failure, expected->last_failure);
    assert_string_equal(is->last_retired, expected->last_retired);
}

/* Goal: each event is counted where it belongs, once, and nowhere else. */
static void
each_event_has_its_number(void **state)
{
    struct wp_pool_stats all = {.spec = {.target = 3}, .replicas = 3};
    struct wp_rig_claim c[6];
    struct wp_slot_ref ref;
    char long_reason[WP_REASON_MAX + 20];

    (void)state;
    start(3, 8, WP_FAKE_READY_NEXT_TURN);
    all.ready = 3;
    all.created_total = 3;
    check_stats(&all);

    /* Three are claimed; one more is made while a fourth waits. */
    rig.backend.ready = WP_FAKE_READY_TOLD;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(claim(&c[i], (char[]){(char)('a' + i), '\0'}, 0),
                         WP_OK);
    }
    assert_int_equal(claim(&c[3], "d", 0), WP_RESOURCE_EXHAUSTED);
    assert_int_equal(claim(&c[4], "e", 10 * S), WP_PENDING);
    wp_rig_settle(&rig);
    all.ready = 0;
    all.leased = 3;
    all.warming = 3;
    all.waiting = 1;
    all.created_total = 6;
    all.served_total[WP_SERVED_WARM] = 3;
    all.refused_total = 1;
    all.missed_total = 2;
    check_stats(&all);

    /* One never becomes ready: another is made. */
    assert_int_equal(wp_fake_backend_fail(&rig.backend, 1, "no\x01 luck"), 1);
    wp_rig_advance(&rig, 5 * S);
    all.failed_total = 1;
    all.destroyed_total = 1;
    all.created_total = 7;
    (void)snprintf(all.last_failure, sizeof all.last_failure, "no? luck");
    check_stats(&all);

    assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 3), 3);
    wp_rig_settle(&rig);
    all.waiting = 0;
    all.leased = 4;
    all.ready = 2;
    all.warming = 1;
    all.created_total = 8;
    all.served_total[WP_SERVED_COLD] = 1;
    check_stats(&all);

    /* One that is held dies, and says so at length; it stays held. */
    memset(long_reason, 'r', sizeof long_reason - 1);
    long_reason[sizeof long_reason - 1] = '\0';
    ref = wp_fake_backend_find(&rig.backend,
                               wp_str_from(c[0].claim.grant.sandbox));
    assert_true(wp_fake_backend_lose(&rig.backend, ref, long_reason));
    wp_rig_settle(&rig);
    all.lost_total = 1;
    memset(all.last_failure, 'r', WP_REASON_MAX);
    all.last_failure[WP_REASON_MAX] = '\0';
    check_stats(&all);

    /* An end of each kind. */
    assert_int_equal(wp_rig_release(&rig, &c[0], NULL), WP_OK);
    assert_int_equal(wp_rig_release(&rig, &c[1], NULL), WP_OK);
    wp_pools_undo(rig.pools, &c[2].claim);
    wp_rig_settle(&rig);
    all.released_total = 2;
    all.undone_total = 1;
    all.leased = 1;
    all.ready = 3;
    all.destroyed_total += 2;
    check_stats(&all);
    wp_rig_advance(&rig, 31 * S);
    all.expired_total = 1;
    all.leased = 0;
    all.destroyed_total++;
    check_stats(&all);
    wp_rig_fini(&rig);
}

/* Goal: an idle one that dies, or is not wanted, leaves its reason. */
static void
reasons_are_kept_apart(void **state)
{
    struct wp_pool_stats stats;
    struct wp_rig_claim c;

    (void)state;
    start(2, 8, WP_FAKE_READY_NEXT_TURN);
    assert_int_equal(claim(&c, "a", 0), WP_OK);
    wp_pools_undo(rig.pools, &c.claim);
    wp_rig_settle(&rig);
    assert_true(wp_fake_backend_lose(
        &rig.backend,
        wp_fake_backend_find(&rig.backend, wp_str_from(c.claim.grant.sandbox)),
        "it\ndied"));
    wp_rig_advance(&rig, 5 * S);
    stats = wp_rig_stats(&rig);
    assert_int_equal(stats.lost_total, 1);
    assert_int_equal(stats.failed_total, 0);
    assert_int_equal(stats.retired_total, 0);
    assert_int_equal(stats.ready, 2);
    assert_string_equal(stats.last_failure, "it?died");
    assert_string_equal(stats.last_retired, "");
    wp_pools_retire_idle(rig.pools, 0, WP_STR("a new\ttemplate"));
    wp_rig_settle(&rig);
    stats = wp_rig_stats(&rig);
    assert_int_equal(stats.lost_total, 1);
    assert_int_equal(stats.retired_total, 2);
    assert_int_equal(stats.ready, 2);
    assert_int_equal(stats.created_total, 5);
    assert_int_equal(stats.destroyed_total, 3);
    assert_string_equal(stats.last_failure, "it?died");
    assert_string_equal(stats.last_retired, "a new?template");
    wp_rig_fini(&rig);
}

/* Goal: a backend that has no room is no failure; one that cannot is. */
static void
refused_orders_are_told_apart(void **state)
{
    struct wp_pool_stats stats;

    (void)state;
    start(0, 8, WP_FAKE_READY_NEXT_TURN);
    rig.backend.create_status = WP_RESOURCE_EXHAUSTED;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 1, NULL), WP_OK);
    wp_rig_settle(&rig);
    stats = wp_rig_stats(&rig);
    assert_true(wp_fake_backend_counts(&rig.backend).creates_refused > 0);
    assert_int_equal(stats.failed_total, 0);
    assert_string_equal(stats.last_failure, "");
    assert_int_equal(stats.warming, 0);
    rig.backend.create_status = WP_UNAVAILABLE;
    wp_rig_advance(&rig, 60 * S);
    stats = wp_rig_stats(&rig);
    assert_true(stats.failed_total > 0);
    assert_string_equal(stats.last_failure,
                        "the fake backend was told to refuse");
    assert_int_equal(stats.created_total, stats.destroyed_total);
    rig.backend.create_status = WP_OK;
    wp_rig_advance(&rig, 600 * S);
    assert_int_equal(wp_rig_stats(&rig).ready, 1);
    wp_rig_fini(&rig);
}

/* The oldest that is warming. */
static struct wp_slot_ref
warming(void)
{
    for (uint32_t i = 0; i < wp_slots_used_max(&rig.pools->slots); i++) {
        struct wp_slot_ref ref = wp_slot_ref_at(&rig.pools->slots, i);

        if (wp_slot_state(&rig.pools->slots, ref) == WP_SLOT_WARMING) {
            return ref;
        }
    }
    return WP_SLOT_REF_NONE;
}

/* What is recorded for the scaler: that these took so long, and no others. */
static void
check_recorded_leads(const int64_t *leads_ns, uint32_t n)
{
    struct wp_history *history = wp_pools_history(rig.pools, 0);
    struct wp_history_cursor cursor;
    struct wp_history_event event;
    uint32_t at = 0;

    assert_non_null(history);
    wp_history_first(history, &cursor);
    while (wp_history_next(&cursor, &event)) {
        if (event.kind == WP_HISTORY_READY) {
            assert_true(at < n);
            assert_int_equal(event.lead_ns,
                             wp_history_lead_round(leads_ns[at]));
            at++;
        }
    }
    assert_int_equal(at, n);
    wp_history_destroy(history);
}

/* Goal: the time before it was begun with is not the time that it took. */
static void
queueing_is_told_from_making(void **state)
{
    static const int64_t leads_ns[] = {4 * S, 10 * S};
    struct wp_histogram_view view;
    struct wp_rig_claim c;
    struct wp_pool_outlook out;

    (void)state;
    start(1, 1, WP_FAKE_READY_TOLD);
    wp_rig_advance(&rig, 16 * S);
    wp_pools_on_started(rig.pools, warming());
    wp_rig_advance(&rig, 4 * S);
    assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 1), 1);
    wp_rig_settle(&rig);
    wp_histogram_read(wp_pools_lead_time(rig.pools, 0), &view);
    assert_int_equal(view.count, 1);
    assert_int_equal(view.sum_ns, 4 * S);
    assert_int_equal(atomic_load(&wp_pools_at(rig.pools, 0)->queue_mean_ns),
                     1 * S);
    assert_true(wp_pools_outlook(rig.pools, 0, &out));
    assert_int_equal(out.lead_ns, 20 * S);

    /* One that is begun with when it is ordered, as far as anybody said. */
    assert_int_equal(claim(&c, "a", 0), WP_OK);
    wp_rig_settle(&rig);
    wp_rig_advance(&rig, 10 * S);
    assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 1), 1);
    wp_rig_settle(&rig);
    wp_histogram_read(wp_pools_lead_time(rig.pools, 0), &view);
    assert_int_equal(view.count, 2);
    assert_int_equal(view.sum_ns, 14 * S);
    assert_int_equal(atomic_load(&wp_pools_at(rig.pools, 0)->queue_mean_ns),
                     1 * S - 1 * S / 16);
    assert_true(wp_pools_outlook(rig.pools, 0, &out));
    assert_int_equal(out.lead_ns, 18 * S);
    check_recorded_leads(leads_ns, 2);
    wp_rig_fini(&rig);
}

/* Goal: only one that dies soon after it was ready speaks against making more,
 * and what a program says of its end is fit to be shown. */
static void
a_death_is_young_for_so_long(void **state)
{
    struct wp_pool *pool;
    struct wp_rig_claim c;
    struct wp_claim_info info;

    (void)state;
    start(3, 3, WP_FAKE_READY_NEXT_TURN);
    pool = wp_pools_at(rig.pools, 0);
    assert_int_equal(wp_rig_stats(&rig).ready, 3);
    assert_int_equal(claim(&c, "a", 0), WP_OK);
    for (uint32_t i = 0; i < 3; i++) {
        struct wp_slot_ref ref = wp_slot_ref_at(&rig.pools->slots, i);
        struct wp_slot_info slot;

        assert_true(wp_slot_read(&rig.pools->slots, ref, &slot));
        if (slot.state == WP_SLOT_LEASED) {
            wp_pools_on_lost(rig.pools, ref, WP_STR("its \x1b end"));
            continue;
        }
        rig.clock.now_mono_ns = slot.ready_ns + WP_REFILL_YOUNG_NS;
        rig.clock.now_mono_ns -= atomic_load(&pool->died_young) == 0 ? 1 : 0;
        wp_pools_on_lost(rig.pools, ref, WP_STR("gone"));
        assert_int_equal(atomic_load(&pool->died_young), 1);
    }
    assert_int_equal(
        wp_pools_get(rig.pools, WP_STR("team-a"), WP_STR("a"), &info), WP_OK);
    assert_true(info.lost);
    assert_string_equal(info.lost_reason, "its ? end");
    wp_rig_settle(&rig);
    wp_rig_fini(&rig);
}

/* Goal: an endpoint that nobody could keep is no sandbox. */
static void
endpoints_have_a_length(void **state)
{
    char endpoint[WP_ENDPOINT_MAX + 1];
    struct wp_backend backend;
    struct wp_rig_claim c;

    (void)state;
    start(1, 1, WP_FAKE_READY_NEVER);
    memset(endpoint, 'e', sizeof endpoint);
    for (int i = 0; i < 2; i++) {
        wp_pools_on_ready(
            rig.pools, warming(),
            (struct wp_str){endpoint, i == 0 ? 0 : sizeof endpoint});
        assert_int_equal(wp_rig_stats(&rig).failed_total, i + 1);
        assert_string_equal(wp_rig_stats(&rig).last_failure,
                            "its endpoint is too long");
        wp_rig_advance(&rig, 30 * S);
    }
    wp_pools_on_ready(rig.pools, warming(),
                      (struct wp_str){endpoint, WP_ENDPOINT_MAX});
    assert_int_equal(wp_rig_stats(&rig).failed_total, 2);
    assert_int_equal(wp_rig_stats(&rig).ready, 1);
    assert_int_equal(claim(&c, "a", 0), WP_OK);
    endpoint[WP_ENDPOINT_MAX] = '\0';
    assert_string_equal(c.claim.grant.endpoint, endpoint);
    /* It vanishes. */
    backend = wp_fake_backend_port(&rig.backend);
    assert_int_equal(backend.ops->destroy(backend.self, c.claim.grant.ref),
                     WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).lost_total, 1);
    assert_string_equal(wp_rig_stats(&rig).last_failure,
                        "it was destroyed from outside");
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    wp_rig_fini(&rig);
}

static void
what_could_not_be_destroyed_is_tried_again(void **state)
{
    struct wp_rig_claim c;

    (void)state;
    start(1, 1, WP_FAKE_READY_NEXT_TURN);
    assert_int_equal(claim(&c, "a", 0), WP_OK);
    rig.backend.destroy_status = WP_UNAVAILABLE;
    assert_int_equal(wp_rig_release(&rig, &c, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).dying, 1);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 0);
    assert_int_equal(wp_fake_backend_counts(&rig.backend).destroys_refused, 1);
    wp_rig_advance(&rig, 19 * WP_NS_PER_MS);
    assert_int_equal(wp_fake_backend_counts(&rig.backend).destroys_refused, 1);
    wp_rig_advance(&rig, 3 * WP_NS_PER_MS);
    assert_int_equal(wp_fake_backend_counts(&rig.backend).destroys_refused, 2);
    wp_rig_advance(&rig, 19 * WP_NS_PER_MS);
    assert_int_equal(wp_fake_backend_counts(&rig.backend).destroys_refused, 2);
    rig.backend.destroy_status = WP_OK;
    assert_true(rig.next_run_ns < WP_TIME_NEVER);
    wp_rig_advance(&rig, 60 * S);
    assert_int_equal(wp_rig_stats(&rig).dying, 0);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 1);
    assert_int_equal(wp_fake_backend_counts(&rig.backend).destroys, 1);
    wp_rig_fini(&rig);
}

/* --- How long a claim would wait --- */

static int64_t
wait_of(void)
{
    struct wp_pool_outlook out;

    assert_true(wp_pools_outlook(rig.pools, 0, &out));
    assert_int_equal(out.lead_ns, 10 * S);
    return out.wait_ns;
}

/* Goal: who comes is told when the sandbox that it will get should be ready. */
static void
an_outlook_counts_whoever_is_before(void **state)
{
    static struct wp_rig_claim c[8];
    struct wp_pool_outlook out;

    (void)state;
    start(4, 3, WP_FAKE_READY_TOLD);
    assert_false(wp_pools_outlook(rig.pools, 0, &out));
    assert_int_equal(out.lead_ns, 0);
    wp_rig_advance(&rig, 10 * S);
    assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 3), 3);
    wp_rig_settle(&rig);
    wp_rig_advance(&rig, 10 * S);
    assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 1), 1);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).ready, 4);
    assert_int_equal(wait_of(), 0);

    /* Ordered in the seconds 0, 1 and 4; the one between is taken for one of
     * second 2. */
    assert_int_equal(claim(&c[0], "a", 0), WP_OK);
    wp_rig_settle(&rig);
    wp_rig_advance(&rig, 1 * S);
    assert_int_equal(claim(&c[1], "b", 0), WP_OK);
    wp_rig_settle(&rig);
    wp_rig_advance(&rig, 3 * S);
    assert_int_equal(claim(&c[2], "c", 0), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).warming, 3);
    assert_int_equal(wait_of(), 0);
    assert_int_equal(claim(&c[3], "d", 0), WP_OK);
    wp_rig_advance(&rig, 1 * S);
    assert_int_equal(wp_rig_stats(&rig).warming, 3);
    assert_int_equal(wait_of(), 5 * S);
    assert_int_equal(claim(&c[4], "e", 30 * S), WP_PENDING);
    assert_int_equal(wait_of(), 7 * S);
    assert_int_equal(claim(&c[5], "f", 30 * S), WP_PENDING);
    assert_int_equal(wait_of(), 9 * S);
    assert_int_equal(claim(&c[6], "g", 30 * S), WP_PENDING);
    assert_int_equal(wait_of(), 10 * S);
    assert_int_equal(claim(&c[7], "h", 30 * S), WP_PENDING);
    assert_int_equal(wait_of(), 20 * S);
    for (int i = 5; i < 8; i++) {
        assert_true(wp_pools_cancel(rig.pools, &c[i].claim));
    }
    wp_rig_advance(&rig, 6 * S);
    assert_int_equal(wait_of(), 1 * S);
    /* Later than expected is at any moment. */
    wp_rig_advance(&rig, 2 * S);
    assert_int_equal(wait_of(), 0);
    wp_rig_fini(&rig);
}

static void
target(uint32_t n)
{
    assert_int_equal(wp_pools_set_target(rig.pools, 0, n, NULL), WP_OK);
    wp_rig_settle(&rig);
}

/* The wait of whoever comes next is that of one ordered so long ago. */
static void
check_since(int64_t since_ns)
{
    struct wp_pool_outlook out;

    assert_true(wp_pools_outlook(rig.pools, 0, &out));
    assert_true(out.lead_ns > since_ns);
    assert_int_equal(out.wait_ns, out.lead_ns - since_ns);
}

/* Goal: what became ready was the oldest that was ordered. */
static void
an_outlook_forgets_what_became_ready(void **state)
{
    struct wp_rig_claim c[5];

    (void)state;
    start(1, 8, WP_FAKE_READY_TOLD);
    wp_rig_advance(&rig, 20 * S);
    assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 1), 1);
    wp_rig_settle(&rig);
    assert_int_equal(claim(&c[0], "a", 0), WP_OK);
    wp_rig_settle(&rig);
    /* Ordered: one in second 0, two in second 1, one in second 3. */
    wp_rig_advance(&rig, 1 * S);
    target(3);
    wp_rig_advance(&rig, 2 * S);
    target(4);
    assert_int_equal(wp_rig_stats(&rig).warming, 4);
    check_since(3 * S);
    target(0);
    for (int i = 1; i <= 4; i++) {
        static const int64_t since_s[] = {0, 2, 2, 1};

        assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 1), 1);
        assert_int_equal(claim(&c[i], (char[]){(char)('a' + i), '\0'}, 0),
                         WP_OK);
        wp_rig_settle(&rig);
        assert_int_equal(wp_rig_stats(&rig).warming, 4 - i);
        if (i < 4) {
            check_since(since_s[i] * S);
        }
        if (i == 2) {
            wp_rig_advance(&rig, 1 * S);
            check_since(3 * S);
        }
    }
    wp_rig_fini(&rig);
}

/* Goal: of orders that the backend took in part, those that it took count. */
static void
an_order_in_part_is_known_by_its_time(void **state)
{
    struct wp_rig_claim c;

    (void)state;
    start(1, 8, WP_FAKE_READY_TOLD);
    wp_rig_advance(&rig, 600 * S);
    assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 1), 1);
    wp_rig_settle(&rig);
    rig.backend.create_status = WP_RESOURCE_EXHAUSTED;
    rig.backend.creates_first = 2;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 3, NULL), WP_OK);
    assert_int_equal(claim(&c, "a", 0), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).warming, 1);
    assert_int_equal(wp_fake_backend_counts(&rig.backend).creates, 2);
    assert_true(wp_fake_backend_counts(&rig.backend).creates_refused > 0);
    wp_rig_advance(&rig, 90 * S);
    check_since(90 * S);
    rig.backend.create_status = WP_OK;
    wp_rig_advance(&rig, 10 * S);
    wp_rig_advance(&rig, 60 * S);
    assert_int_equal(wp_rig_stats(&rig).warming, 3);
    check_since(160 * S);
    wp_rig_fini(&rig);
}

/* --- The control thread --- */

/* Goal: whatever leaves work for the control thread wakes it, once. */
static void
each_event_wakes_control(void **state)
{
    struct wp_rig_claim c[2];
    struct wp_slot_ref ref;
    uint32_t wakes;

    (void)state;
    start(2, 8, WP_FAKE_READY_NEXT_TURN);
    wakes = rig.wakes;
    assert_int_equal(claim(&c[0], "a", 0), WP_OK);
    assert_int_equal(rig.wakes, ++wakes);
    assert_int_equal(claim(&c[1], "b", 0), WP_OK);
    assert_int_equal(rig.wakes, wakes);
    wp_rig_settle(&rig);
    wakes = rig.wakes;
    assert_int_equal(wp_rig_release(&rig, &c[0], NULL), WP_OK);
    assert_int_equal(rig.wakes, wakes + 1);
    wp_rig_settle(&rig);
    wakes = rig.wakes;
    ref = wp_fake_backend_find(&rig.backend,
                               wp_str_from(c[1].claim.grant.sandbox));
    assert_true(wp_fake_backend_lose(&rig.backend, ref, "x"));
    assert_int_equal(rig.wakes, wakes + 1);
    wp_rig_settle(&rig);
    wakes = rig.wakes;
    wp_pools_end(rig.pools, ref);
    assert_int_equal(rig.wakes, wakes + 1);
    /* One that waited leaves room for another. */
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 0, NULL), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(claim(&c[0], "c", 10 * S), WP_PENDING);
    wp_rig_settle(&rig);
    wakes = rig.wakes;
    assert_true(wp_pools_cancel(rig.pools, &c[0].claim));
    assert_int_equal(rig.wakes, wakes + 1);
    wp_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_store_is_told_of_each_change_whole),
        cmocka_unit_test(each_event_has_its_number),
        cmocka_unit_test(reasons_are_kept_apart),
        cmocka_unit_test(refused_orders_are_told_apart),
        cmocka_unit_test(queueing_is_told_from_making),
        cmocka_unit_test(a_death_is_young_for_so_long),
        cmocka_unit_test(endpoints_have_a_length),
        cmocka_unit_test(what_could_not_be_destroyed_is_tried_again),
        cmocka_unit_test(an_outlook_counts_whoever_is_before),
        cmocka_unit_test(an_outlook_forgets_what_became_ready),
        cmocka_unit_test(an_order_in_part_is_known_by_its_time),
        cmocka_unit_test(each_event_wakes_control),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
