/* A day of sandboxes and claims, at one replica and at two of them: all that the
 * store and the backend are asked on the way, in order, and all that is known of
 * each sandbox after each step. Then the same day where any one of these calls
 * fails, or finds no request free: what clients are told, and that in the end
 * nothing is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "pool/base/siphash.h"
#include "pool/records/records.h"
#include "pool/table/pools.h"
#include "tests/support/base/journal.h"
#include "tests/support/pool/replica_rig.h"

enum {
    CALLS_MAX = 400,
    TARGET = 3,
};

#define S WP_NS_PER_S
#define MONO0 (1000 * S)

struct wp_backend __real_wp_fake_backend_foreign_port(struct wp_fake_backend *);
struct wp_backend
__wrap_wp_fake_backend_foreign_port(struct wp_fake_backend *fake);
struct wp_store_request *__real_wp_store_request_take(struct wp_pools *pools);
struct wp_store_request *__wrap_wp_store_request_take(struct wp_pools *pools);
bool __real_wp_store_request_send(struct wp_pools *pools,
                                  struct wp_slot_ref ref,
                                  enum wp_lease_op_kind kind);
bool __wrap_wp_store_request_send(struct wp_pools *pools,
                                  struct wp_slot_ref ref,
                                  enum wp_lease_op_kind kind);

static const char *const op_words[] = {
    [WP_LEASE_OFFER] = "offer",
    [WP_LEASE_GRANT] = "grant",
    [WP_LEASE_RENEW] = "renew",
    [WP_LEASE_RELEASE] = "release",
    [WP_LEASE_UNDO] = "undo",
    [WP_LEASE_EXPIRE] = "expire",
    [WP_LEASE_WITHDRAW] = "withdraw",
    [WP_LEASE_LOSE] = "lose",
    [WP_LEASE_FETCH] = "fetch",
    [WP_LEASE_FORGET] = "forget",
    [WP_LEASE_PUT_SNAPSHOT] = "put snapshot",
    [WP_LEASE_GET_SNAPSHOT] = "get snapshot",
};

#define WP_SLOT_STATE(NAME, name, meaning) [WP_SLOT_##NAME] = #name,
#define WP_SLOT_EDGE(FROM, TO, reason)
static const char *const state_words[] = {
#include "pool/slots/slot_states.def"
};
#undef WP_SLOT_STATE
#undef WP_SLOT_EDGE

/* What fails. */
enum target {
    NOTHING,
    A_COMMIT,
    A_TAKE,
    A_SEND,
};

static struct {
    enum target target;
    int countdown;
    enum wp_status status; /* What that commit answers; */
    bool although;         /* it was carried out all the same. */
    bool renewals;         /* Only those count. */
    bool failed;
    bool quiet; /* Only what fails, and answers, are written down. */
    bool later; /* The store answers when it is asked to. */
} calls;

static enum wp_status (*real_commit)(void *self, struct wp_lease_op *op);

static bool
is_the_one(enum target target)
{
    bool is = calls.target == target && calls.countdown-- == 0;

    calls.failed = calls.failed || is;
    return is;
}

static void
tell_op(const struct wp_model_port *port, const struct wp_lease_op *op)
{
    journal("%c %s s%u.%u fence %llu",
            port == &replica_store.ports[0] ? 'a' : 'b', op_words[op->kind],
            op->ref.index, op->ref.generation, (unsigned long long)op->fence);
    journal(" until %lld from %lld served %u '%.*s' '%.*s' '%.*s'",
            (long long)op->deadline_wall_ms, (long long)op->granted_wall_ms,
            op->served, WP_STR_ARG(op->claim_id), WP_STR_ARG(op->tenant),
            WP_STR_ARG(op->reason));
    if (op->snapshot != NULL) {
        struct wp_hash128 hash = wp_siphash128(
            (struct wp_hash_key){0, 0}, op->snapshot->bytes, op->snapshot->len);

        journal(" %zu %08x", op->snapshot->len, (unsigned)hash.low);
    }
    journal("%s", op->gathered ? " gathered" : "");
}

static enum wp_status
commit(void *self, struct wp_lease_op *op)
{
    const struct wp_model_port *port = self;
    bool fails =
        (!calls.renewals || op->kind == WP_LEASE_RENEW) && is_the_one(A_COMMIT);
    enum wp_status status;

    if (fails) {
        status = calls.status;
        if (calls.although) {
            bool later = replica_store.ports[0].later;

            /* Now, and nobody hears the answer. */
            replica_store.ports[0].later = false;
            replica_store.ports[1].later = false;
            (void)real_commit(self, op);
            replica_store.ports[0].later = later;
            replica_store.ports[1].later = later;
        }
    } else {
        status = real_commit(self, op);
    }
    if (fails) {
        journal("%c %s s%u FAILS; ",
                port == &replica_store.ports[0] ? 'a' : 'b', op_words[op->kind],
                op->ref.index);
    } else if (!calls.quiet) {
        tell_op(port, op);
        journal(" => %s", wp_status_name(status));
        journal_line();
    }
    return status;
}

struct wp_store_request *
__wrap_wp_store_request_take(struct wp_pools *pools)
{
    if (is_the_one(A_TAKE)) {
        journal("none is free; ");
        return NULL;
    }
    return __real_wp_store_request_take(pools);
}

bool
__wrap_wp_store_request_send(struct wp_pools *pools, struct wp_slot_ref ref,
                             enum wp_lease_op_kind kind)
{
    if (is_the_one(A_SEND)) {
        journal("none is free to %s s%u; ", op_words[kind], ref.index);
        return false;
    }
    return __real_wp_store_request_send(pools, ref, kind);
}

/* --- the backend --- */

static struct wp_backend_ops ops;
static struct wp_backend_ops real_ops;

static enum wp_status
create(void *self, const struct wp_sandbox_order *order, struct wp_err *err)
{
    enum wp_status status = real_ops.create(self, order, err);

    if (!calls.quiet) {
        journal("create s%u.%u => %s", order->ref.index, order->ref.generation,
                wp_status_name(status));
        journal_line();
    }
    return status;
}

static enum wp_status
destroy(void *self, struct wp_slot_ref ref)
{
    enum wp_status status = real_ops.destroy(self, ref);

    if (!calls.quiet) {
        journal("destroy s%u.%u => %s", ref.index, ref.generation,
                wp_status_name(status));
        journal_line();
    }
    return status;
}

static void
leased(void *self, const struct wp_lease_notice *notice)
{
    if (!calls.quiet) {
        journal("leased s%u.%u '%.*s' fence %llu until %lld", notice->ref.index,
                notice->ref.generation, WP_STR_ARG(notice->claim_id),
                (unsigned long long)notice->fence,
                (long long)notice->deadline_wall_ms);
        journal_line();
    }
    real_ops.leased(self, notice);
}

struct wp_backend
__wrap_wp_fake_backend_foreign_port(struct wp_fake_backend *fake)
{
    struct wp_backend port = __real_wp_fake_backend_foreign_port(fake);

    real_ops = *port.ops;
    ops = real_ops;
    ops.create = create;
    ops.destroy = destroy;
    ops.leased = leased;
    port.ops = &ops;
    return port;
}

/* --- what is known --- */

static struct replica a;
static struct replica b;
static bool two;

static void
tell_slots(const char *name, struct replica *r)
{
    for (uint32_t i = 0; i < wp_slots_used_max(&r->pools->slots); i++) {
        const struct wp_slot *slot = wp_slot_at(&r->pools->slots, i);
        struct wp_slot_ref ref = wp_slot_ref_at(&r->pools->slots, i);
        enum wp_slot_state state = wp_slot_state(&r->pools->slots, ref);

        if (state == WP_SLOT_FREE) {
            continue;
        }
        journal(
            "  %s s%u.%u %s fence %llu until %lld work %x control %x", name, i,
            ref.generation, state_words[state], (unsigned long long)slot->fence,
            (long long)slot->deadline_wall_ms, slot->work, slot->control_bits);
        if (state == WP_SLOT_LEASED || state == WP_SLOT_LOST) {
            journal(" in %lld",
                    (long long)(slot->deadline_ns - replica_clock.now_mono_ns));
        }
        journal_line();
    }
}

static void
tell_stats(const char *name, struct replica *r)
{
    struct wp_pool_stats s = replica_stats(r);

    const struct {
        const char *word;
        uint64_t n;
    } rows[] = {
        {"warming", s.warming},
        {"ready", s.ready},
        {"leased", s.leased},
        {"doubted", s.quarantined},
        {"dying", s.dying},
        {"waiting", s.waiting},
        {"created", s.created_total},
        {"destroyed", s.destroyed_total},
        {"failed", s.failed_total},
        {"lost", s.lost_total},
        {"retired", s.retired_total},
        {"served warm", s.served_total[1]},
        {"waited", s.served_total[2]},
        {"cold", s.served_total[3]},
        {"refused", s.refused_total},
        {"released", s.released_total},
        {"expired", s.expired_total},
        {"undone", s.undone_total},
        {"missed", s.missed_total},
        {"open breakers", s.breaker_open},
    };

    journal("  %s:", name);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        if (rows[i].n > 0) {
            journal(" %s %llu", rows[i].word, (unsigned long long)rows[i].n);
        }
    }
    journal(" '%s' '%s'", s.last_failure, s.last_retired);
    journal_line();
}

/* Where only failures are told of, all answers of a day are one line. */
static void
end_of_answer(void)
{
    if (calls.quiet) {
        journal("; ");
    } else {
        journal_line();
    }
}

static void
tell_all(void)
{
    if (!calls.quiet) {
        tell_slots("a", &a);
        tell_stats("a", &a);
        if (two) {
            tell_slots("b", &b);
            tell_stats("b", &b);
        }
    }
}

/* One turn, and in how many milliseconds the next one is asked for. */
static void
turn(const char *name, struct replica *r)
{
    int64_t next_ns = wp_pools_run(r->pools);

    if (calls.quiet) {
        return;
    }
    if (next_ns == WP_TIME_NEVER) {
        journal("turn of %s", name);
    } else {
        journal("turn of %s, next in %lld us", name,
                (long long)((next_ns - replica_clock.now_mono_ns) / 1000));
    }
    journal_line();
}

/* All that is to happen within three seconds. */
static void
settle(void)
{
    turn("a", &a);
    if (two) {
        turn("b", &b);
    }
    for (int i = 0; i < 4; i++) {
        uint32_t answers;

        do {
            replica_settle(&a);
            if (two) {
                replica_settle(&b);
            }
            answers = wp_model_answer(&replica_store, 0) +
                      wp_model_answer(&replica_store, 1);
        } while (answers > 0);
        wp_clock_manual_advance(&replica_clock, i < 3 ? S : 0);
    }
    tell_all();
}

static struct wp_rig_claim claims[10];

static void
tell_claim(const char *id, enum wp_status status, const struct wp_rig_claim *c)
{
    const struct wp_grant *grant = &c->claim.grant;

    journal("claim %s: %s", id, wp_status_name(status));
    if (status == WP_OK) {
        journal(" s%u.%u%s", grant->ref.index, grant->ref.generation,
                c->claim.replayed ? " again" : "");
        if (!calls.quiet) {
            journal(" fence %llu until %lld served %d waited %lld '%s'",
                    (unsigned long long)grant->fence,
                    (long long)grant->deadline_wall_ms, (int)grant->served,
                    (long long)grant->waited_ns, grant->endpoint);
        }
    } else {
        journal(" '%.12s' %lld", c->claim.reason,
                (long long)c->claim.retry_after_ns);
    }
    end_of_answer();
}

static void
claim(struct replica *r, unsigned i, const char *id)
{
    struct wp_rig_claim *c = &claims[i];
    enum wp_status status;

    wp_rig_claim_init(c, id, "te", 60 * S, 0);
    memset(&c->claim.grant, 0x55, sizeof c->claim.grant);
    status = wp_pools_claim(r->pools, &c->claim);
    for (int k = 0; k < 20 && status == WP_PENDING && c->answers == 0; k++) {
        turn(r == &a ? "a" : "b", r);
        (void)wp_model_answer(&replica_store, r->port);
    }
    if (status == WP_PENDING) {
        status = c->answers > 0 ? c->claim.status : WP_PENDING;
    }
    tell_claim(id, status, c);
    if (status == WP_PENDING) {
        journal("withdrawn: %d", wp_pools_cancel(r->pools, &c->claim));
        end_of_answer();
    }
}

static void
on_changed(struct wp_lease_change *change)
{
    *(bool *)change->ctx = true;
}

static void
change(struct replica *r, unsigned i, bool renew)
{
    struct wp_lease_change request;
    enum wp_status status;
    bool done = false;

    memset(&request, 0, sizeof request);
    memcpy(request.token, claims[i].claim.grant.token, sizeof request.token);
    request.done = on_changed;
    request.ctx = &done;
    request.ttl_ns = renew ? 120 * S : 0;
    status = renew ? wp_pools_renew(r->pools, &request)
                   : wp_pools_release(r->pools, &request);
    for (int k = 0; k < 40 && status == WP_PENDING && !done; k++) {
        (void)wp_pools_run(r->pools);
        (void)wp_model_answer(&replica_store, r->port);
    }
    journal("%s %s: %s%s", renew ? "renew" : "release", claims[i].id,
            wp_status_name(status == WP_PENDING ? request.status : status),
            request.was_held ? " held" : "");
    if (!calls.quiet) {
        journal(" until %lld", (long long)request.deadline_wall_ms);
    }
    end_of_answer();
    assert_true(status != WP_PENDING || done);
}

/* The first sandbox here that is idle. */
static struct wp_slot_ref
idle_one(struct replica *r)
{
    for (uint32_t i = 0; i < wp_slots_used_max(&r->pools->slots); i++) {
        struct wp_slot_ref ref = wp_slot_ref_at(&r->pools->slots, i);

        if (wp_slot_state(&r->pools->slots, ref) == WP_SLOT_READY) {
            return ref;
        }
    }
    return WP_SLOT_REF_NONE;
}

static bool
was_granted(unsigned i)
{
    return claims[i].claim.status == WP_OK &&
           claims[i].claim.grant.ref.generation != 0;
}

/* --- the day --- */

static void
claim_and_change(struct replica *other)
{
    claim(&a, 1, "c1");
    claim(&a, 2, "c1");
    claim(other, 3, "c2");
    claim(other, 4, "c1");
    settle();
    change(&a, 1, true);
    change(&a, 3, false);
    change(&a, 3, false);
    settle();
    change(other, 1, true);
    settle();
}

static void
die(struct replica *other)
{
    struct wp_slot_ref idle = idle_one(&a);

    claim(&a, 5, "c5");
    claim(other, 6, "c6");
    if (was_granted(5)) {
        (void)wp_fake_backend_lose(&a.backend, claims[5].claim.grant.ref,
                                   "it died");
    }
    settle();
    change(&a, 5, true);
    change(&a, 5, false);
    settle();
    if (idle.generation != 0) {
        (void)wp_fake_backend_lose(&a.backend, idle_one(&a), "idle");
    }
    settle();
}

static void
end(void)
{
    claim(&a, 7, "c7");
    if (was_granted(7)) {
        wp_pools_undo(a.pools, &claims[7].claim);
    }
    settle();
    claim(&a, 8, "c8");
    if (was_granted(8)) {
        wp_pools_end(a.pools, claims[8].claim.grant.ref);
    }
    settle();
    wp_pools_retire(a.pools, idle_one(&a), WP_STR("it is old"));
    settle();
    assert_int_equal(wp_pools_set_target(a.pools, 0, 1, NULL), WP_OK);
    settle();
}

/* Who asks for a claim that is over hears when it ended. */
static void
tell_expired(struct replica *r)
{
    static const char *const ids[] = {"c1", "c2", "c5", "c6", "c9"};

    for (size_t i = 0; i < WP_ARRAY_LEN(ids); i++) {
        struct wp_claim_info info;

        journal("%s: %s, expired %lld", ids[i],
                wp_status_name(wp_pools_get(r->pools, WP_STR("te"),
                                            wp_str_from(ids[i]), &info)),
                (long long)wp_pools_expired_wall_ms(r->pools, WP_STR("te"),
                                                    wp_str_from(ids[i])));
        end_of_answer();
    }
}

/* A process that is killed; of its sandboxes one is gone. */
static void
restart(void)
{
    claim(&a, 9, "c9");
    replica_close(&a);
    replica_open(&a, 0, TARGET, true);
    replica_store.ports[0].later = calls.later;
    replica_adopt_all(&a, 1);
    settle();
    claim(&a, 0, "c1");
    claim(&a, 9, "c9");
    settle();
    wp_clock_manual_advance(&replica_clock, 200 * S);
    settle();
    tell_expired(&a);
}

static void
stop(void)
{
    int turns = 0;

    if (two) {
        replica_close(&b);
        two = false;
    }
    wp_pools_stop(a.pools);
    settle();
    while (!wp_pools_quiet(a.pools)) {
        assert_true(turns++ < 100);
        settle();
    }
    tell_stats("a", &a);
    for (size_t i = 0; i < WP_MODEL_RECORDS; i++) {
        const struct wp_lease_record *r = &replica_store.records[i];

        if (r->state != WP_RECORD_NONE) {
            journal("left: %d '%s'", (int)r->state, r->claim_id);
            journal_line();
        }
    }
    replica_close(&a);
}

static void
spend_a_day(bool shared)
{
    (void)replica_set_up(NULL);
    memset(claims, 0, sizeof claims);
    replica_store.ops.shared = shared;
    real_commit = replica_store.ops.commit;
    replica_store.ops.commit = commit;
    two = shared;
    replica_open(&a, 0, TARGET, true);
    replica_store.ports[0].later = calls.later;
    if (shared) {
        replica_open(&b, 1, TARGET, false);
        replica_store.ports[1].later = calls.later;
    }
    settle();
    claim_and_change(shared ? &b : &a);
    die(shared ? &b : &a);
    end();
    restart();
    stop();
}

static void
compare(const char *name, bool shared, bool later)
{
    char path[1000];

    (void)snprintf(path, sizeof path, "%s/asked/%s%s%s.txt", WP_TEST_GOLDEN,
                   name, shared ? "_two" : "", later ? "_later" : "");
    journal_compare(path);
}

static int
set_up(void **state)
{
    (void)state;
    memset(&calls, 0, sizeof calls);
    return 0;
}

static void
test_all_that_is_asked(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        calls.later = (i & 2) != 0;
        spend_a_day((i & 1) != 0);
        compare("day", (i & 1) != 0, calls.later);
    }
}

static void
each_fails_once(const char *name, enum target target)
{
    for (int i = 0; i < 2; i++) {
        calls.target = target;
        calls.quiet = true;
        calls.failed = true;
        for (int n = 0; calls.failed; n++) {
            assert_true(n < CALLS_MAX);
            journal("%d: ", n);
            calls.countdown = n;
            calls.failed = false;
            spend_a_day(i == 1);
        }
        compare(name, i == 1, false);
    }
}

static void
test_no_request_is_free(void **state)
{
    (void)state;
    each_fails_once("take", A_TAKE);
    each_fails_once("send", A_SEND);
}

static void
test_the_store_is_away(void **state)
{
    (void)state;
    calls.status = WP_UNAVAILABLE;
    each_fails_once("unavailable", A_COMMIT);
}

static void
test_its_answer_is_lost(void **state)
{
    (void)state;
    calls.status = WP_UNKNOWN_OUTCOME;
    each_fails_once("unknown", A_COMMIT);
    calls.although = true;
    each_fails_once("unknown_done", A_COMMIT);
}

/* A repeat, or its holder, renews what has just changed: it is asked again. */
static void
test_a_renewal_comes_too_late(void **state)
{
    (void)state;
    calls.renewals = true;
    calls.status = WP_NOT_FOUND;
    each_fails_once("renew_not_found", A_COMMIT);
    calls.status = WP_ABORTED;
    each_fails_once("renew_aborted", A_COMMIT);
    calls.status = WP_FAILED_PRECONDITION;
    each_fails_once("renew_lost", A_COMMIT);
    calls.status = WP_TAKEN;
    each_fails_once("renew_taken", A_COMMIT);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_all_that_is_asked, set_up),
        cmocka_unit_test_setup(test_no_request_is_free, set_up),
        cmocka_unit_test_setup(test_the_store_is_away, set_up),
        cmocka_unit_test_setup(test_its_answer_is_lost, set_up),
        cmocka_unit_test_setup(test_a_renewal_comes_too_late, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
