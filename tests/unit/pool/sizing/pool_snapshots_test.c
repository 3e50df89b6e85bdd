/* Whose snapshot is on its way, and when; and the bytes that it begins with.
 * What comes of one that is read: pool_scale_test, pool_history_test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "pool/base/siphash.h"
#include "tests/support/base/journal.h"
#include "tests/support/pool/replica_rig.h"

#define MS WP_NS_PER_MS
#define S WP_NS_PER_S

static struct replica a;
/* The store keeps what it is asked of snapshots until answer(). */
static struct wp_lease_op *asked;
static enum wp_status (*real_commit)(void *self, struct wp_lease_op *op);

static enum wp_status
commit(void *self, struct wp_lease_op *op)
{
    if (op->snapshot == NULL) {
        return real_commit(self, op);
    }
    assert_null(asked); /* One at a time. */
    asked = op;
    journal("%s %.*s", op->kind == WP_LEASE_GET_SNAPSHOT ? "get" : "put",
            WP_STR_ARG(op->pool));
    journal_line();
    return WP_PENDING;
}

/* What is on its way is answered so, and control sees it. */
static void
answer(enum wp_status status)
{
    struct wp_lease_op *op = asked;

    assert_non_null(op);
    asked = NULL;
    op->done(op, status);
    (void)wp_pools_run(a.pools);
}

static void
answer_all(enum wp_status status)
{
    for (int i = 0; i < 100 && asked != NULL; i++) {
        answer(status);
    }
    assert_null(asked);
}

/* Only when control asked to be run. */
static void
sleep_for(int64_t ns)
{
    int64_t until_ns = replica_clock.now_mono_ns + ns;
    int64_t next_ns = wp_pools_run(a.pools);

    while (next_ns <= until_ns) {
        int64_t pause_ns = next_ns - replica_clock.now_mono_ns;

        wp_clock_manual_advance(&replica_clock, pause_ns > 0 ? pause_ns : 0);
        next_ns = wp_pools_run(a.pools);
    }
    wp_clock_manual_advance(&replica_clock,
                            until_ns - replica_clock.now_mono_ns);
}

static void
set(struct wp_scale_policy *policy, const char *key, const char *value)
{
    struct wp_err err;

    assert_int_equal(
        wp_scale_policy_set(policy, wp_str_from(key), wp_str_from(value), &err),
        WP_OK);
}

static void
add_pool(const char *name, const char *objective)
{
    struct wp_pool_spec spec;
    struct wp_err err;

    wp_pool_spec_init(&spec);
    (void)snprintf(spec.name, sizeof spec.name, "%s", name);
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    if (objective != NULL) {
        set(&spec.scale, "objective", objective);
    }
    assert_int_equal(wp_pools_add(a.pools, &spec, NULL, &err), WP_OK);
}

/* One that finds nothing; it is recorded all the same. */
static void
claim(const char *pool)
{
    static uint32_t n;
    struct wp_rig_claim c;
    char id[32];

    (void)snprintf(id, sizeof id, "c%u", n++);
    wp_rig_claim_init(&c, id, "", S, 0);
    c.claim.pool = wp_str_from(pool);
    assert_int_equal(wp_pools_claim(a.pools, &c.claim), WP_RESOURCE_EXHAUSTED);
}

static int
set_up(void **state)
{
    (void)replica_set_up(state);
    real_commit = replica_store.ops.commit;
    replica_store.ops.commit = commit;
    asked = NULL;
    return 0;
}

/* A scaler waits for what was learned, so its pool is asked for before others,
 * though these were there first; the rest goes in turns. */
static void
who_waits_goes_first(void **state)
{
    (void)state;
    replica_open(&a, 0, 0, true);
    add_pool("q", NULL);
    add_pool("s", "99%");
    add_pool("r", NULL);
    add_pool("t", "99%");
    (void)wp_pools_run(a.pools);
    journal_is("get p\n");
    answer_all(WP_NOT_FOUND);
    journal_is("get s\nget t\nget q\nget r\n");
    replica_close(&a);
}

/* Nobody waits for what is saved: with a scaler or without, each has its
 * turn. */
static void
saves_go_in_turns(void **state)
{
    static const char *const names[] = {"p", "q", "s", "t"};

    (void)state;
    replica_open(&a, 0, 0, true);
    add_pool("q", NULL);
    add_pool("s", "99%");
    add_pool("t", "99%");
    (void)wp_pools_run(a.pools);
    answer_all(WP_NOT_FOUND);
    journal_drop();
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
            claim(names[i]);
        }
        (void)wp_pools_run(a.pools);
        journal_is("");
        wp_clock_manual_advance(&replica_clock, 60 * S);
        (void)wp_pools_run(a.pools);
        journal_is("put p\n");
        answer_all(WP_OK);
        journal_is("put q\nput s\nput t\n");
    }
    replica_close(&a);
}

static void
reserve(uint32_t pool_index, const char *id)
{
    int64_t from_ns = replica_clock.now_wall_ns + 600 * S;
    struct wp_err err;

    assert_int_equal(wp_pools_scale_reserve(a.pools, pool_index,
                                            wp_str_from(id), 2, from_ns,
                                            from_ns + S, &err),
                     WP_OK);
    (void)wp_pools_run(a.pools);
}

/* However often there is something new of one pool. */
static void
others_have_their_turn(void **state)
{
    (void)state;
    replica_open(&a, 0, 0, true);
    add_pool("s", "99%");
    add_pool("t", "99%");
    (void)wp_pools_run(a.pools);
    answer_all(WP_NOT_FOUND);
    journal_drop();
    reserve(1, "a");
    journal_is("put s\n");
    reserve(1, "b");
    reserve(2, "c");
    journal_is("");
    answer(WP_OK);
    journal_is("put t\n");
    reserve(2, "d");
    answer(WP_OK);
    journal_is("put s\n");
    answer_all(WP_OK);
    journal_is("put t\n");
    replica_close(&a);
}

/* Only the keeper asks. One that becomes it again asks anew at once: what was
 * on its way is of before. */
static void
only_the_keeper_asks(void **state)
{
    (void)state;
    replica_open(&a, 0, 0, true);
    add_pool("s", "99%");
    (void)wp_pools_run(a.pools);
    journal_is("get p\n");
    wp_pools_set_keeper(a.pools, false);
    (void)wp_pools_run(a.pools);
    answer(WP_UNAVAILABLE);
    sleep_for(S);
    journal_is("");
    wp_pools_set_keeper(a.pools, true);
    (void)wp_pools_run(a.pools);
    journal_is("get p\n");
    wp_pools_set_keeper(a.pools, false);
    (void)wp_pools_run(a.pools);
    wp_pools_set_keeper(a.pools, true);
    (void)wp_pools_run(a.pools);
    answer(WP_UNAVAILABLE);
    journal_is("get s\n");
    answer(WP_NOT_FOUND);
    journal_is("get p\n");
    answer_all(WP_NOT_FOUND);
    replica_close(&a);
}

/* Of a pool that keeps nothing, or takes no more claims, nothing is asked for;
 * of one that has had a scaler it is, so that it goes on from there. */
static void
who_has_nothing_to_keep_does_not_ask(void **state)
{
    struct wp_pool_spec plain;
    struct wp_err err;

    (void)state;
    replica_open(&a, 0, 0, true);
    wp_pools_drain(a.pools, 0);
    sleep_for(S);
    journal_is("");
    replica_close(&a);

    replica_history_max = 0;
    replica_open(&a, 0, 0, false);
    add_pool("s", "99%");
    (void)wp_pools_run(a.pools);
    wp_pool_spec_init(&plain);
    (void)snprintf(plain.name, sizeof plain.name, "s");
    assert_int_equal(wp_pools_update(a.pools, 1, &plain, &err), WP_OK);
    wp_pools_set_keeper(a.pools, true);
    sleep_for(S);
    journal_is("get s\n");
    answer_all(WP_NOT_FOUND);
    sleep_for(S);
    journal_is("");
    replica_close(&a);
}

/* A scaler that is one again takes up what is known, as a new one does. */
static void
an_objective_that_comes_back_asks_again(void **state)
{
    struct wp_pool_spec spec;
    struct wp_pool_spec plain;
    struct wp_err err;

    (void)state;
    set(&replica_policy, "objective", "99%");
    replica_open(&a, 0, 0, true);
    (void)wp_pools_run(a.pools);
    answer_all(WP_NOT_FOUND);
    spec = replica_stats(&a).spec;
    plain = spec;
    wp_scale_policy_init(&plain.scale);
    assert_int_equal(wp_pools_update(a.pools, 0, &plain, &err), WP_OK);
    sleep_for(S);
    journal_is("get p\n");
    assert_int_equal(wp_pools_update(a.pools, 0, &spec, &err), WP_OK);
    sleep_for(S);
    journal_is("get p\n");
    answer_all(WP_NOT_FOUND);
    replica_close(&a);
}

/* Each has a pause of its own before the store is asked again. */
static void
a_store_that_is_away_is_asked_again(void **state)
{
    (void)state;
    replica_open(&a, 0, 0, true);
    add_pool("s", "99%");
    (void)wp_pools_run(a.pools);
    answer(WP_UNAVAILABLE);
    answer(WP_UNAVAILABLE);
    journal_is("get p\nget s\n");
    sleep_for(100 * MS - 1);
    journal_is("");
    sleep_for(1);
    (void)wp_pools_run(a.pools);
    journal_is("get p\n");
    answer_all(WP_NOT_FOUND);
    journal_is("get s\n");
    replica_close(&a);
}

/* What the store did not take is said, and saved a minute later, though nobody
 * comes by meanwhile. */
static void
a_save_that_failed_is_tried_again(void **state)
{
    (void)state;
    replica_open(&a, 0, 0, true);
    (void)wp_pools_run(a.pools);
    answer_all(WP_NOT_FOUND);
    claim("p");
    sleep_for(60 * S);
    journal_is("get p\nput p\n");
    answer(WP_UNAVAILABLE);
    assert_int_equal(replica_unlearned.status, WP_UNAVAILABLE);
    assert_string_equal(replica_unlearned.msg,
                        "the lease store did not take the pool's note");
    sleep_for(60 * S - 1);
    journal_is("");
    sleep_for(1);
    (void)wp_pools_run(a.pools);
    journal_is("put p\n");
    answer(WP_OK);
    sleep_for(300 * S);
    journal_is("");
    replica_close(&a);
}

/* --- The bytes --- */

static void
tell_bytes(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        journal("%02x", bytes[i]);
    }
    journal_line();
}

/* All but the length of what was learned, and the sum, which is the one that
 * the format says. */
static void
tell_head(void)
{
    static uint8_t bytes[WP_SNAPSHOT_MAX];
    size_t len = asked->snapshot->len;
    uint64_t sum = 0;

    assert_in_range(len, 33, sizeof bytes);
    memcpy(bytes, asked->snapshot->bytes, len);
    for (int i = 0; i < 8; i++) {
        sum |= (uint64_t)bytes[16 + i] << 8 * i;
    }
    memset(bytes + 16, 0, 8);
    assert_true(sum ==
                wp_siphash128((struct wp_hash_key){0, 0}, bytes, len).low);
    journal("%.4s ", (const char *)bytes);
    tell_bytes(bytes + 4, 2);
    tell_bytes(bytes + 8, 8);
    tell_bytes(bytes + 24, 8);
}

/* Another version has written what is read, so these do not change; those of
 * the policy do when it gets another key. */
static void
the_head_of_a_snapshot(void **state)
{
    struct wp_err err;

    (void)state;
    set(&replica_policy, "objective", "99%");
    set(&replica_policy, "min", "1");
    set(&replica_policy, "max", "12");
    replica_open(&a, 0, 0x102, true);
    (void)wp_pools_run(a.pools);
    answer_all(WP_NOT_FOUND);
    sleep_for(60 * S);
    tell_head();
    journal_is("get p\n"
               "put p\n"
               "WPN1 0000\n"
               "0201000002010000\n"
               "e0e060e185176832\n");
    answer_all(WP_OK);
    assert_int_equal(wp_pools_set_target(a.pools, 0, 0x201, &err), WP_OK);
    (void)wp_pools_run(a.pools);
    tell_head();
    journal_is("put p\n"
               "WPN1 0100\n"
               "0201000001020000\n"
               "e0e060e185176832\n");
    answer_all(WP_OK);
    wp_pools_remove(a.pools, 0);
    (void)wp_pools_run(a.pools);
    tell_head();
    journal_is("put p\n"
               "WPN1 0101\n"
               "0201000001020000\n"
               "e0e060e185176832\n");
    answer_all(WP_OK);
    replica_close(&a);
}

/* What is declared anew, or after the pool was removed, is no call's word. */
static void
a_declaration_ends_the_hand(void **state)
{
    struct wp_pool_spec spec;
    struct wp_err err;

    (void)state;
    set(&replica_policy, "objective", "99%");
    replica_open(&a, 0, 2, true);
    (void)wp_pools_run(a.pools);
    answer_all(WP_NOT_FOUND);
    assert_int_equal(wp_pools_set_target(a.pools, 0, 7, &err), WP_OK);
    (void)wp_pools_run(a.pools);
    assert_int_equal(asked->snapshot->bytes[4], 1);
    answer_all(WP_OK);
    spec = replica_stats(&a).spec;
    spec.target = 3;
    assert_int_equal(wp_pools_update(a.pools, 0, &spec, &err), WP_OK);
    sleep_for(60 * S);
    assert_int_equal(asked->snapshot->bytes[4], 0);
    assert_int_equal(asked->snapshot->bytes[8], 3);
    assert_int_equal(asked->snapshot->bytes[12], 3);
    answer_all(WP_OK);
    assert_int_equal(wp_pools_set_target(a.pools, 0, 7, &err), WP_OK);
    (void)wp_pools_run(a.pools);
    answer_all(WP_OK);
    wp_pools_remove(a.pools, 0);
    (void)wp_pools_run(a.pools);
    answer_all(WP_OK);
    spec.target = 4;
    assert_int_equal(wp_pools_add(a.pools, &spec, NULL, &err), WP_OK);
    journal_drop();
    (void)wp_pools_run(a.pools);
    journal_is("get p\n");
    answer_all(WP_NOT_FOUND);
    sleep_for(60 * S);
    assert_int_equal(asked->snapshot->bytes[4], 0);
    assert_int_equal(asked->snapshot->bytes[5], 0);
    assert_int_equal(asked->snapshot->bytes[12], 4);
    answer_all(WP_OK);
    journal_is("put p\n");
    replica_close(&a);
}

/* Nothing was declared for a scaler; what one had learned is carried on. */
static void
the_head_without_a_scaler(void **state)
{
    (void)state;
    replica_open(&a, 0, 0, true);
    (void)wp_pools_run(a.pools);
    answer_all(WP_NOT_FOUND);
    claim("p");
    assert_int_equal(wp_pools_set_target(a.pools, 0, 0x102, NULL), WP_OK);
    sleep_for(60 * S);
    tell_head();
    journal_is("get p\n"
               "put p\n"
               "WPN1 0200\n"
               "0000000002010000\n"
               "0000000000000000\n");
    replica_close(&a);
}

static void
put_sum(uint8_t *bytes, size_t len)
{
    uint64_t sum;

    memset(bytes + 16, 0, 8);
    sum = wp_siphash128((struct wp_hash_key){0, 0}, bytes, len).low;
    for (int i = 0; i < 8; i++) {
        bytes[16 + i] = (uint8_t)(sum >> 8 * i);
    }
}

/* A pool declared with 2 starts, and finds that one before was set to that many
 * by SetPool, and removed or not; how many it has then. by_hand: it is set so meanwhile; 0: it is
 * not. */
static uint32_t
found_by_hand(uint32_t saved, bool removed, uint32_t by_hand)
{
    static uint8_t bytes[WP_SNAPSHOT_MAX];
    uint32_t replicas;
    size_t len;

    set(&replica_policy, "objective", "99%");
    replica_open(&a, 0, 2, true);
    (void)wp_pools_run(a.pools);
    answer_all(WP_NOT_FOUND);
    assert_int_equal(wp_pools_set_target(a.pools, 0, 1, NULL), WP_OK);
    (void)wp_pools_run(a.pools);
    len = asked->snapshot->len;
    memcpy(bytes, asked->snapshot->bytes, len);
    answer_all(WP_OK);
    replica_close(&a);
    for (int i = 0; i < 4; i++) {
        bytes[12 + i] = (uint8_t)(saved >> 8 * i);
    }
    bytes[5] = removed;
    put_sum(bytes, len);

    replica_open(&a, 0, 2, true);
    (void)wp_pools_run(a.pools);
    if (by_hand > 0) {
        assert_int_equal(wp_pools_set_target(a.pools, 0, by_hand, NULL), WP_OK);
    }
    memcpy(asked->snapshot->bytes, bytes, len);
    asked->snapshot->len = len;
    answer(WP_OK);
    assert_int_equal(replica_unlearned.status, WP_OK);
    replicas = replica_stats(&a).replicas;
    sleep_for(60 * S);
    /* Who starts next finds it, too. */
    assert_int_equal(asked->snapshot->bytes[4], replicas != 2);
    assert_int_equal(replica_stats(&a).scale.reason == WP_SCALE_BY_HAND,
                     !removed || by_hand > 0);
    answer_all(WP_OK);
    replica_close(&a);
    journal_drop();
    return replicas;
}

/* Not what no call could have said, and not over what was said since. */
static void
the_hand_that_is_found(void **state)
{
    (void)state;
    assert_int_equal(found_by_hand(7, false, 0), 7);
    assert_int_equal(found_by_hand(WP_TARGET_MAX, false, 0), WP_TARGET_MAX);
    assert_int_equal(found_by_hand(WP_TARGET_MAX + 1U, false, 0), 2);
    assert_int_equal(found_by_hand(UINT32_MAX, false, 0), 2);
    assert_int_equal(found_by_hand(7, false, 5), 5);
    assert_int_equal(found_by_hand(7, true, 0), 2);
    assert_int_equal(found_by_hand(7, true, 5), 5);
}

enum {
    CARRIED_LEN = 300,
};

/* What the pool's scaler had learned: so many times that letter. */
static void
answer_carried(char letter, size_t learned)
{
    uint8_t *bytes = asked->snapshot->bytes;
    size_t len = 32 + learned;

    memset(bytes, 0, 32);
    memcpy(bytes, "WPN1\2", 5);
    bytes[6] = (uint8_t)learned;
    bytes[7] = (uint8_t)(learned >> 8);
    memset(bytes + 32, letter, learned);
    put_sum(bytes, len);
    asked->snapshot->len = len;
    answer(WP_OK);
}

static void
expect_carried(char letter)
{
    const uint8_t *bytes = asked->snapshot->bytes;

    assert_int_equal(bytes[4], 2);
    assert_int_equal(bytes[6] | bytes[7] << 8, CARRIED_LEN);
    assert_true(asked->snapshot->len > 32 + CARRIED_LEN);
    for (int i = 0; i < CARRIED_LEN; i++) {
        assert_int_equal(bytes[32 + i], letter);
    }
}

/* Each pool goes on with its own, through however many saves; one that had
 * none has none. */
static void
each_pool_carries_its_own(void **state)
{
    (void)state;
    replica_open(&a, 0, 0, true);
    add_pool("q", NULL);
    add_pool("r", NULL);
    (void)wp_pools_run(a.pools);
    answer_carried('p', CARRIED_LEN);
    answer_carried('q', CARRIED_LEN);
    answer(WP_NOT_FOUND);
    assert_int_equal(replica_unlearned.status, WP_OK);
    for (int round = 0; round < 2; round++) {
        journal_drop();
        claim("p");
        claim("q");
        claim("r");
        sleep_for(60 * S);
        expect_carried('p');
        answer(WP_OK);
        expect_carried('q');
        answer(WP_OK);
        assert_int_equal(asked->snapshot->bytes[6], 0);
        assert_int_equal(asked->snapshot->bytes[7], 0);
        answer(WP_OK);
        journal_is("put p\nput q\nput r\n");
    }
    replica_close(&a);
}

/* While another replica was the keeper that may have become another one, or
 * none. */
static void
what_is_carried_is_the_latest(void **state)
{
    static const size_t lens[] = {CARRIED_LEN, CARRIED_LEN / 2, 0};

    (void)state;
    replica_open(&a, 0, 0, true);
    for (size_t i = 0; i < WP_ARRAY_LEN(lens); i++) {
        (void)wp_pools_run(a.pools);
        answer_carried((char)('a' + i), lens[i]);
        claim("p");
        sleep_for(60 * S);
        assert_int_equal(asked->snapshot->bytes[6] | asked->snapshot->bytes[7]
                                                         << 8,
                         lens[i]);
        assert_true(lens[i] == 0 ||
                    asked->snapshot->bytes[32] == (uint8_t)('a' + i));
        answer(WP_OK);
        wp_pools_set_keeper(a.pools, false);
        (void)wp_pools_run(a.pools);
        wp_pools_set_keeper(a.pools, true);
    }
    journal_is("get p\nput p\nget p\nput p\nget p\nput p\n");
    assert_int_equal(replica_unlearned.status, WP_OK);
    replica_close(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_waits_goes_first, set_up),
        cmocka_unit_test_setup(saves_go_in_turns, set_up),
        cmocka_unit_test_setup(others_have_their_turn, set_up),
        cmocka_unit_test_setup(only_the_keeper_asks, set_up),
        cmocka_unit_test_setup(who_has_nothing_to_keep_does_not_ask, set_up),
        cmocka_unit_test_setup(an_objective_that_comes_back_asks_again, set_up),
        cmocka_unit_test_setup(a_store_that_is_away_is_asked_again, set_up),
        cmocka_unit_test_setup(a_save_that_failed_is_tried_again, set_up),
        cmocka_unit_test_setup(the_head_of_a_snapshot, set_up),
        cmocka_unit_test_setup(a_declaration_ends_the_hand, set_up),
        cmocka_unit_test_setup(the_head_without_a_scaler, set_up),
        cmocka_unit_test_setup(the_hand_that_is_found, set_up),
        cmocka_unit_test_setup(each_pool_carries_its_own, set_up),
        cmocka_unit_test_setup(what_is_carried_is_the_latest, set_up),
    };

    return cmocka_run_group_tests_name("pool_snapshots", tests, NULL, NULL);
}
