/* What a record of another replica makes of a sandbox here: in each state that
 * the sandbox may be in, for each state and age of the record, at the keeper
 * and at a follower. Every row compared with golden/records.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/base/golden.h"
#include "tests/support/pool/replica_rig.h"

#define S WP_NS_PER_S

enum here {
    READY,   /* Nobody's. */
    LEASED,  /* By a claim of this replica. */
    LOST,    /* The same, and its sandbox is gone. */
    DOUBTED, /* Its grant got no answer from the store. */
    DYING,   /* Its lease was released, and it is not gone yet. */
    UNKNOWN, /* This replica has not heard of it. */
    HERE_COUNT,
};

static const char *const here_words[HERE_COUNT] = {
    "ready", "leased", "lost", "doubted", "dying", "unknown"};
static const char *const record_words[] = {
    [WP_RECORD_NONE] = "none",   [WP_RECORD_OPEN] = "open",
    [WP_RECORD_HELD] = "held",   [WP_RECORD_LOST] = "lost",
    [WP_RECORD_ENDED] = "ended",
};

static struct replica a;
static struct replica b;

/* Grants, and what the store says of it, is not heard. */
static void
claim_in_vain(struct replica *r)
{
    struct wp_rig_claim c;

    replica_store.ports[r->port].fault = WP_UNKNOWN_OUTCOME;
    assert_int_equal(replica_claim(r, &c, "c1"), WP_UNAVAILABLE);
    replica_store.ports[r->port].fault = WP_OK;
    /* And it is not told what it asks. */
    replica_store.ports[r->port].later = true;
}

/* A record of the only sandbox there is, as the store has it. */
static struct wp_lease_record
begin(struct replica *r, enum here here)
{
    struct wp_rig_claim c;
    struct wp_lease_record record = {.state = WP_RECORD_NONE};

    if (here == DOUBTED) {
        claim_in_vain(r);
    } else if (here != READY && here != UNKNOWN) {
        assert_int_equal(replica_claim(r, &c, "c1"), WP_OK);
        assert_true(replica_stats(r).leased == 1);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(replica_store.records); i++) {
        if (replica_store.records[i].state != WP_RECORD_NONE) {
            record = replica_store.records[i];
            break;
        }
    }
    assert_int_not_equal(record.state, WP_RECORD_NONE);
    replica_store.ports[r->port].later = here != READY && here != LEASED;
    if (here == LOST) {
        struct wp_lease_record lost = record;

        lost.state = WP_RECORD_LOST;
        strcpy(lost.lost_reason, "it was lost");
        wp_pools_on_record(r->pools, &lost);
    } else if (here == DYING) {
        replica_store.ports[r->port].later = false;
        assert_int_equal(replica_change(r, &c, false, NULL), WP_OK);
        replica_store.ports[r->port].later = true;
    } else if (here == UNKNOWN) {
        memset(record.uid, 0x77, sizeof record.uid);
        record.sandbox[strlen(record.sandbox) - 1] ^= 1;
    }
    return record;
}

static size_t
tell_claim(struct replica *r, const char *id, char *out, size_t cap)
{
    struct wp_claim_info info;
    enum wp_status status =
        wp_pools_get(r->pools, WP_STR(""), wp_str_from(id), &info);

    if (status != WP_OK) {
        return (size_t)snprintf(out, cap, "; %s no", id);
    }
    return (size_t)snprintf(
        out, cap, "; %s fence %llu granted %lld until %lld%s%s%s %d", id,
        (unsigned long long)info.fence,
        (long long)(info.granted_wall_ms -
                    replica_clock.now_wall_ns / WP_NS_PER_MS),
        (long long)(info.deadline_wall_ms -
                    replica_clock.now_wall_ns / WP_NS_PER_MS),
        info.lost ? " lost: " : "", info.lost_reason,
        info.waiting ? " waiting" : "", (int)info.served);
}

/* What there is any of. */
static size_t
tell_stats(struct replica *r, char *out, size_t cap)
{
    struct wp_pool_stats s = replica_stats(r);
    const struct {
        const char *word;
        uint64_t n;
    } rows[] = {
        {"ready", s.ready},
        {"leased", s.leased},
        {"doubted", s.quarantined},
        {"dying", s.dying},
        {"warming", s.warming},
        {"lost", s.lost_total},
        {"released", s.released_total},
        {"expired", s.expired_total},
        {"undone", s.undone_total},
        {"retired", s.retired_total},
        {"refused", wp_pools_records_refused(r->pools)},
    };
    size_t len = 0;

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        if (rows[i].n > 0) {
            len +=
                (size_t)snprintf(out + len, cap - len, " %s %llu", rows[i].word,
                                 (unsigned long long)rows[i].n);
        }
    }
    return len;
}

/* One row. */
static size_t
apply(bool keeper, enum here here, enum wp_record_state state, int newer,
      bool of_other, char *out, size_t cap)
{
    struct replica *r = keeper ? &a : &b;
    struct wp_lease_record record;
    size_t len;

    (void)replica_set_up_shared(NULL);
    replica_history_max = 0;
    replica_open(&a, 0, 1, true);
    replica_settle(&a);
    replica_open(&b, 1, 1, false);
    replica_settle_both(&a, &b);
    a.backend.create_status = WP_RESOURCE_EXHAUSTED; /* No others come. */
    record = begin(r, here);
    record.state = state;
    record.fence = (uint64_t)((int64_t)record.fence + newer);
    record.deadline_wall_ms =
        replica_clock.now_wall_ns / WP_NS_PER_MS + 90000 + newer;
    if (state == WP_RECORD_LOST) {
        strcpy(record.lost_reason, "it is gone");
    }
    if (of_other || record.claim_id[0] == '\0') {
        strcpy(record.claim_id, "c2");
        record.tenant[0] = '\0';
        record.granted_wall_ms = replica_clock.now_wall_ns / WP_NS_PER_MS - 7;
    }
    len = (size_t)snprintf(
        out, cap, "%s %s, %s%s %+d:", keeper ? "keeper" : "follower",
        here_words[here], record_words[state], of_other ? " of c2" : "", newer);
    wp_pools_on_record(r->pools, &record);
    len += tell_stats(r, out + len, cap - len);
    len += tell_claim(r, "c1", out + len, cap - len);
    len += tell_claim(r, "c2", out + len, cap - len);
    (void)wp_pools_run(r->pools);
    len += (size_t)snprintf(out + len, cap - len, "; then");
    len += tell_stats(r, out + len, cap - len);
    replica_store.ports[r->port].later = false;
    (void)wp_model_answer(&replica_store, r->port);
    replica_settle(r);
    len += (size_t)snprintf(out + len, cap - len, "; at last");
    len += tell_stats(r, out + len, cap - len);
    out[len++] = '\n';
    out[len] = '\0';
    replica_close(&b);
    replica_close(&a);
    return len;
}

/* Where there was a lease, a record may be older than it. */
static int
oldest_of(enum here here)
{
    return here == LEASED || here == LOST || here == DYING ? -1 : 0;
}

static void
each_row_of_the_table(void **state)
{
    static const enum wp_record_state states[] = {
        WP_RECORD_NONE, WP_RECORD_OPEN, WP_RECORD_HELD, WP_RECORD_LOST,
        WP_RECORD_ENDED};
    static char seen[1 << 17];
    size_t len = 0;

    (void)state;
    for (int keeper = 1; keeper >= 0; keeper--) {
        for (int here = 0; here < HERE_COUNT; here++) {
            for (size_t i = 0; i < WP_ARRAY_LEN(states); i++) {
                for (int newer = oldest_of((enum here)here); newer <= 1;
                     newer++) {
                    for (int other = 0; other <= 1; other++) {
                        len += apply(keeper == 1, (enum here)here, states[i],
                                     newer, other == 1, seen + len,
                                     sizeof seen - len);
                        assert_true(len < sizeof seen - 1000);
                    }
                }
            }
        }
    }
    golden_compare(seen, WP_TEST_GOLDEN);
}

/* A record of a sandbox that nobody has heard of: is it refused? */
static void
expect_refused(const struct wp_lease_record *record, bool refused,
               const char *what)
{
    static uint8_t serial;
    struct wp_lease_record one = *record;
    uint64_t before = wp_pools_records_refused(b.pools);
    uint64_t more;

    memset(one.uid, ++serial, sizeof one.uid);
    (void)snprintf(one.claim_id, sizeof one.claim_id, "of-%u", serial);
    wp_pools_on_record(b.pools, &one);
    more = wp_pools_records_refused(b.pools) - before;
    if (more != (refused ? 1 : 0)) {
        fail_msg("%s: %s", what, refused ? "taken" : "refused");
    }
}

static void
records_that_are_of_no_use_are_counted(void **state)
{
    struct wp_lease_record record;
    struct wp_lease_record one;
    uint32_t taken;

    (void)state;
    (void)replica_set_up_shared(NULL);
    replica_history_max = 0;
    replica_open(&a, 0, 1, true);
    replica_settle(&a);
    replica_open(&b, 1, 1, false);
    replica_settle_both(&a, &b);
    record = begin(&b, READY);
    record.state = WP_RECORD_HELD;
    record.fence = 3;
    record.deadline_wall_ms = WP_WALL_NEVER_MS;
    one = record;
    strcpy(one.pool, "q");
    expect_refused(&one, true, "another pool");
    one.state = WP_RECORD_NONE;
    expect_refused(&one, false, "nothing, of another pool");
    one = record;
    strcpy(one.pool_namespace, "other");
    expect_refused(&one, true, "another namespace");
    one = record;
    one.sandbox[0] ^= 1;
    expect_refused(&one, true, "a name that is not the pool's");
    one = record;
    one.endpoint[0] = '\0';
    expect_refused(&one, true, "held, without an endpoint");
    one.state = WP_RECORD_OPEN;
    expect_refused(&one, true, "open, without an endpoint");
    one.state = WP_RECORD_LOST;
    expect_refused(&one, false, "lost, without an endpoint");
    one.state = WP_RECORD_ENDED;
    expect_refused(&one, false, "ended, without an endpoint");
    /* Until all slots are in use. */
    for (taken = replica_stats(&b).ready + replica_stats(&b).leased +
                 replica_stats(&b).dying;
         taken < SLOTS; taken++) {
        expect_refused(&record, false, "there is a slot");
    }
    assert_int_equal(replica_stats(&b).leased, SLOTS - 2);
    expect_refused(&record, true, "no slot is left");
    expect_refused(&record, true, "no slot is left");
    replica_close(&b);
    replica_close(&a);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_row_of_the_table),
        cmocka_unit_test(records_that_are_of_no_use_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
