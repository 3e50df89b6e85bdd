/* The counting store: it changes nothing but what it counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "allocator/stores/meter.h"
#include "tests/support/pool/manual_clock.h"

/* A store that answers as it is told, at once or when it is asked to. */
static struct {
    enum wp_status answer;
    struct wp_lease_op *held; /* While the answer is WP_PENDING. */
    uint32_t flushes;
    uint32_t loads;
} fake;

static enum wp_status
fake_commit(void *self, struct wp_lease_op *op)
{
    assert_ptr_equal(self, &fake);
    fake.held = op;
    return fake.answer;
}

static void
fake_flush(void *self)
{
    assert_ptr_equal(self, &fake);
    fake.flushes++;
}

static enum wp_status
fake_load(void *self,
          void (*each)(void *ctx, const struct wp_lease_record *record),
          void *ctx, struct wp_err *err)
{
    const struct wp_lease_record record = {.fence = 7};

    assert_ptr_equal(self, &fake);
    fake.loads++;
    each(ctx, &record);
    return wp_err_set(err, WP_UNAVAILABLE, "said so");
}

static const struct wp_lease_store_ops fake_ops = {
    .name = "fake",
    .durable = true,
    .shared = true,
    .commit = fake_commit,
    .flush = fake_flush,
    .load = fake_load,
};

static struct wp_lease_meter meter;
static enum wp_status told;
static struct wp_lease_op *told_op;

static void
on_done(struct wp_lease_op *op, enum wp_status status)
{
    told = status;
    told_op = op;
}

static int
setup(void **state)
{
    (void)state;
    told = WP_OK;
    told_op = NULL;
    wp_lease_meter_init(&meter, (struct wp_lease_store){&fake_ops, &fake},
                        wp_clock_system());
    wp_lease_meter_flush(&meter); /* What another test left unflushed. */
    memset(&fake, 0, sizeof fake);
    return 0;
}

static uint64_t
counted(enum wp_lease_op_kind kind, enum wp_status status)
{
    return atomic_load(&meter.commits[kind][status]);
}

static enum wp_status
commit(struct wp_lease_op *op)
{
    struct wp_lease_store store = wp_lease_meter_store(&meter);

    return store.ops->commit(store.self, op);
}

static void
shows_the_store_behind(void **state)
{
    struct wp_lease_store store = wp_lease_meter_store(&meter);

    (void)state;
    assert_string_equal(store.ops->name, "fake");
    assert_true(store.ops->durable);
    assert_true(store.ops->shared);
}

static void
counts_answers_given_at_once(void **state)
{
    struct wp_lease_op op = {.kind = WP_LEASE_GRANT, .done = on_done};
    struct wp_histogram_view view;

    (void)state;
    fake.answer = WP_TAKEN;
    assert_int_equal(commit(&op), WP_TAKEN);
    assert_ptr_equal(op.done, on_done);
    assert_null(told_op);
    assert_int_equal(counted(WP_LEASE_GRANT, WP_TAKEN), 1);
    assert_int_equal(counted(WP_LEASE_GRANT, WP_PENDING), 0);
    assert_int_equal(atomic_load(&meter.pending), 0);
    wp_histogram_read(&meter.latency, &view);
    assert_int_equal(view.count, 1);
}

static void
counts_answers_given_later(void **state)
{
    struct wp_lease_op op = {.kind = WP_LEASE_RENEW, .done = on_done};

    (void)state;
    fake.answer = WP_PENDING;
    assert_int_equal(commit(&op), WP_PENDING);
    assert_int_equal(atomic_load(&meter.pending), 1);
    assert_null(told_op);
    fake.held->done(fake.held, WP_ABORTED);
    assert_ptr_equal(told_op, &op);
    assert_int_equal(told, WP_ABORTED);
    assert_ptr_equal(op.done, on_done);
    assert_int_equal(counted(WP_LEASE_RENEW, WP_ABORTED), 1);
    assert_int_equal(atomic_load(&meter.pending), 0);
}

static void
knows_whether_the_store_works(void **state)
{
    struct wp_lease_op op = {.kind = WP_LEASE_GRANT, .done = on_done};

    (void)state;
    assert_true(wp_lease_meter_works(&meter));
    fake.answer = WP_UNAVAILABLE;
    (void)commit(&op);
    assert_false(wp_lease_meter_works(&meter));
    assert_false(wp_lease_meter_may_work(&meter));
    fake.answer = WP_NOT_FOUND;
    (void)commit(&op);
    assert_false(wp_lease_meter_works(&meter));
    fake.answer = WP_OK;
    (void)commit(&op);
    assert_true(wp_lease_meter_works(&meter));
    assert_true(wp_lease_meter_may_work(&meter));
    fake.answer = WP_UNKNOWN_OUTCOME;
    (void)commit(&op);
    assert_false(wp_lease_meter_works(&meter));
}

static void
flushes_when_something_was_committed(void **state)
{
    struct wp_lease_op op = {.kind = WP_LEASE_GRANT, .done = on_done};

    (void)state;
    assert_false(wp_lease_meter_wants_flush(&meter));
    (void)commit(&op);
    assert_true(wp_lease_meter_wants_flush(&meter));
    wp_lease_meter_flush(&meter);
    assert_int_equal(fake.flushes, 1);
    assert_false(wp_lease_meter_wants_flush(&meter));
}

/* Only a thread that says so, or asks whether to flush, lets its ops wait. */
static void
gathers_for_threads_that_flush(void **state)
{
    struct wp_lease_op op = {.kind = WP_LEASE_GRANT, .done = on_done};

    (void)state;
    wp_lease_meter_gather(false);
    (void)commit(&op);
    assert_false(op.gathered);
    wp_lease_meter_gather(true);
    (void)commit(&op);
    assert_true(op.gathered);
    wp_lease_meter_gather(false);
    (void)commit(&op);
    assert_false(op.gathered);
    (void)wp_lease_meter_wants_flush(&meter);
    (void)commit(&op);
    assert_true(op.gathered);
}

static void
a_store_without_flush_never_wants_one(void **state)
{
    struct wp_lease_store_ops ops = fake_ops;
    struct wp_lease_op op = {.kind = WP_LEASE_GRANT, .done = on_done};

    (void)state;
    ops.flush = NULL;
    wp_lease_meter_init(&meter, (struct wp_lease_store){&ops, &fake},
                        wp_clock_system());
    (void)commit(&op);
    assert_false(wp_lease_meter_wants_flush(&meter));
    assert_false(op.gathered);
    assert_null(wp_lease_meter_store(&meter).ops->flush);
    wp_lease_meter_flush(&meter);
    assert_int_equal(fake.flushes, 0);
}

static void
take(void *ctx, const struct wp_lease_record *record)
{
    *(uint64_t *)ctx = record->fence;
}

static void
loads_through(void **state)
{
    struct wp_lease_store store = wp_lease_meter_store(&meter);
    struct wp_err err = {.msg = ""};
    uint64_t fence = 0;

    (void)state;
    assert_int_equal(store.ops->load(store.self, take, &fence, &err),
                     WP_UNAVAILABLE);
    assert_string_equal(err.msg, "said so");
    assert_int_equal(fence, 7);
}

/* Each kind of op, each answer, at once and later: what is counted of it, and
 * what it says of the store. */
static void
counts_every_kind_and_answer(void **state)
{
    struct wp_clock_manual clock;

    (void)state;
    wp_clock_manual_init(&clock, WP_NS_PER_S, 0);
    for (int i = 0; i < 2 * WP_LEASE_OP_KINDS * WP_STATUS_COUNT; i++) {
        enum wp_status status = (enum wp_status)(i / 2 % WP_STATUS_COUNT);
        enum wp_lease_op_kind kind =
            (enum wp_lease_op_kind)(i / 2 / WP_STATUS_COUNT);
        struct wp_lease_op op = {.kind = kind, .done = on_done};
        bool failed = status == WP_UNAVAILABLE || status == WP_UNKNOWN_OUTCOME;
        bool snapshot =
            kind == WP_LEASE_PUT_SNAPSHOT || kind == WP_LEASE_GET_SNAPSHOT;
        bool timed = !snapshot && kind != WP_LEASE_FETCH;
        bool wrote = timed || kind == WP_LEASE_PUT_SNAPSHOT;
        int64_t begun_ns = clock.now_mono_ns;
        int64_t took_ns = 3 * WP_NS_PER_MS;
        struct wp_histogram_view view;

        if (status == WP_PENDING) {
            continue;
        }
        (void)setup(NULL);
        wp_lease_meter_init(&meter, (struct wp_lease_store){&fake_ops, &fake},
                            &clock.clock);
        fake.answer = i % 2 == 0 ? status : WP_PENDING;
        assert_int_equal(commit(&op), fake.answer);
        took_ns = i % 2 == 0 ? 0 : took_ns;
        wp_clock_manual_advance(&clock, took_ns);
        if (i % 2 != 0) {
            fake.held->done(fake.held, status);
        }
        for (int k = 0; k < WP_LEASE_OP_KINDS * WP_STATUS_COUNT; k++) {
            assert_int_equal(
                counted((enum wp_lease_op_kind)(k / WP_STATUS_COUNT),
                        (enum wp_status)(k % WP_STATUS_COUNT)),
                k == i / 2 ? 1 : 0);
        }
        wp_histogram_read(&meter.latency, &view);
        assert_int_equal(view.count, timed ? 1 : 0);
        assert_int_equal(view.sum_ns, timed ? took_ns : 0);
        assert_int_equal(atomic_load(&meter.failed_at_ns),
                         failed ? begun_ns + took_ns : 0);
        assert_int_equal(atomic_load(&meter.worked_at_ns),
                         status == WP_OK && wrote ? begun_ns + took_ns : 0);
        assert_int_equal(atomic_load(&meter.pending), 0);
    }
}

static void
doubts_for_a_while(void **state)
{
    struct wp_lease_op op = {.kind = WP_LEASE_GRANT, .done = on_done};
    struct wp_clock_manual clock;

    (void)state;
    wp_clock_manual_init(&clock, WP_NS_PER_S, 0);
    wp_lease_meter_init(&meter, (struct wp_lease_store){&fake_ops, &fake},
                        &clock.clock);
    fake.answer = WP_UNAVAILABLE;
    (void)commit(&op);
    wp_clock_manual_advance(&clock, WP_LEASE_METER_DOUBT_NS);
    assert_false(wp_lease_meter_may_work(&meter));
    wp_clock_manual_advance(&clock, 1);
    assert_true(wp_lease_meter_may_work(&meter));
    assert_false(wp_lease_meter_works(&meter));
}

static void
names_every_kind(void **state)
{
    static const char *const names[] = {
        "offer", "grant",  "renew",        "release",
        "undo",  "expire", "withdraw",     "lose",
        "fetch", "forget", "put_snapshot", "get_snapshot"};
    uint64_t seen = 0;

    (void)state;
    assert_int_equal(WP_ARRAY_LEN(names), WP_LEASE_OP_KINDS);
    for (int kind = 0; kind < WP_LEASE_OP_KINDS; kind++) {
        for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
            if (strcmp(wp_lease_op_name((enum wp_lease_op_kind)kind),
                       names[i]) == 0) {
                seen |= UINT64_C(1) << i;
            }
        }
    }
    assert_int_equal(seen, (UINT64_C(1) << WP_LEASE_OP_KINDS) - 1);
    assert_string_equal(wp_lease_op_name(WP_LEASE_OFFER), "offer");
    assert_string_equal(wp_lease_op_name(WP_LEASE_FORGET), "forget");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(shows_the_store_behind, setup),
        cmocka_unit_test_setup(counts_answers_given_at_once, setup),
        cmocka_unit_test_setup(counts_answers_given_later, setup),
        cmocka_unit_test_setup(knows_whether_the_store_works, setup),
        cmocka_unit_test_setup(flushes_when_something_was_committed, setup),
        cmocka_unit_test_setup(gathers_for_threads_that_flush, setup),
        cmocka_unit_test_setup(a_store_without_flush_never_wants_one, setup),
        cmocka_unit_test_setup(loads_through, setup),
        cmocka_unit_test(counts_every_kind_and_answer),
        cmocka_unit_test_setup(doubts_for_a_while, setup),
        cmocka_unit_test(names_every_kind),
    };

    return cmocka_run_group_tests_name("lease_meter", tests, NULL, NULL);
}
