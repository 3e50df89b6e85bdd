/* tests/unit/pool/core/pool_bind_test.c - between a claim's grant and its answer
 * the sandbox takes what the claim brings: all of it, or the lease ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "pool/table/pools.h"
#include "tests/support/pool/replica_rig.h"

#define S WP_NS_PER_S

/* A claim that brings something, and its answer. */
struct bound_claim {
    struct wp_rig_claim c;
    struct wp_binding binding;
    struct wp_bind bind;
    uint32_t answers;
};

static struct wp_rig rig;

static int
set_up(void **state)
{
    (void)state;
    wp_rig_init(&rig, 16, 2, NULL);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_rig_fini(&rig);
    return 0;
}

static void
on_bound(struct wp_bind *bind)
{
    struct bound_claim *b = bind->ctx;

    b->answers++;
}

static enum wp_status
claim(struct bound_claim *b, const char *id, const char *bytes)
{
    memset(b, 0, sizeof *b);
    wp_rig_claim_init(&b->c, id, "", 60 * S, 0);
    b->binding.fingerprint =
        wp_pools_fingerprint(rig.pools, wp_str_from(bytes));
    b->c.claim.binding = b->binding.fingerprint;
    b->bind.claim = &b->c.claim;
    b->bind.binding = &b->binding;
    b->bind.done = on_bound;
    b->bind.ctx = b;
    return wp_rig_claim(&rig, &b->c);
}

static void
test_bound_then_answered(void **state)
{
    struct bound_claim b;

    (void)state;
    assert_int_equal(claim(&b, "a", "x"), WP_OK);
    assert_int_equal(wp_pools_bind(rig.pools, &b.bind), WP_PENDING);
    assert_int_equal(b.answers, 0);
    assert_true(wp_slot_ref_eq(rig.backend.binds[0]->ref, b.c.claim.grant.ref));
    assert_true(wp_fake_backend_bound(&rig.backend, WP_OK, ""));
    assert_int_equal(b.answers, 1);
    assert_int_equal(b.c.claim.status, WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 0);
}

/* What the pool has everybody bring is no part of the claim. */
static void
test_bound_without_a_binding_of_its_own(void **state)
{
    struct bound_claim b;

    (void)state;
    memset(&b, 0, sizeof b);
    wp_rig_claim_init(&b.c, "a", "", 60 * S, 0);
    b.binding.fingerprint = 7;
    b.bind = (struct wp_bind){.claim = &b.c.claim,
                              .binding = &b.binding,
                              .done = on_bound,
                              .ctx = &b};
    assert_int_equal(wp_rig_claim(&rig, &b.c), WP_OK);
    assert_int_equal(b.c.claim.binding, 0);
    assert_int_equal(wp_pools_bind(rig.pools, &b.bind), WP_PENDING);
    assert_true(wp_fake_backend_bound(&rig.backend, WP_OK, ""));
    assert_int_equal(b.answers, 1);
    assert_int_equal(b.c.claim.status, WP_OK);
}

/* A proxy that passes packages on has to know each sandbox of a pool with a
 * policy: its claims bring something always. */
static void
test_who_must_bind(void **state)
{
    struct wp_pool_stats stats = wp_rig_stats(&rig);

    (void)state;
    for (int i = 0; i < 8; i++) {
        bool policy = (i & 1) != 0;

        (void)snprintf(stats.spec.egress, sizeof stats.spec.egress, "%s",
                       policy ? "none" : "");
        assert_int_equal(wp_pools_update(rig.pools, 0, &stats.spec, NULL),
                         WP_OK);
        rig.backend.passes = (i & 2) != 0;
        rig.backend.unbound = (i & 4) != 0 ? "it is old" : NULL;
        assert_int_equal(
            wp_pools_must_bind(rig.pools, WP_STR("default"), WP_STR("p")),
            i == 3);
        assert_false(
            wp_pools_must_bind(rig.pools, WP_STR("default"), WP_STR("q")));
    }
}

/* What is on the stack below the caller is no end of a text. */
__attribute__((noinline)) static void
scribble(void)
{
    volatile char bytes[8192];

    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 'x';
    }
}

/* Both questions are of the pool's whole template name, however long. */
static void
test_asked_about_the_whole_name(void **state)
{
    struct wp_pool_stats stats = wp_rig_stats(&rig);
    char expected[WP_TEMPLATE_NAME_MAX + 100];
    struct wp_err err;

    (void)state;
    for (size_t len = WP_TEMPLATE_NAME_MAX - 1; len <= WP_TEMPLATE_NAME_MAX;
         len++) {
        memset(stats.spec.template_name, '\0', sizeof stats.spec.template_name);
        memset(stats.spec.template_name, 't', len);
        (void)snprintf(stats.spec.egress, sizeof stats.spec.egress, "none");
        assert_int_equal(wp_pools_update(rig.pools, 0, &stats.spec, NULL),
                         WP_OK);
        rig.backend.passes = true;
        rig.backend.unbound = NULL;
        scribble();
        assert_true(
            wp_pools_must_bind(rig.pools, WP_STR("default"), WP_STR("p")));
        assert_string_equal(rig.backend.unbound_of, stats.spec.template_name);
        rig.backend.unbound_of[0] = '\0';
        rig.backend.unbound = "it is old";
        scribble();
        assert_int_equal(
            wp_pools_may_bind(rig.pools, WP_STR("default"), WP_STR("p"), &err),
            WP_FAILED_PRECONDITION);
        assert_string_equal(rig.backend.unbound_of, stats.spec.template_name);
        (void)snprintf(expected, sizeof expected,
                       "binding: sandboxes of template '%s' cannot be bound: "
                       "it is old",
                       stats.spec.template_name);
        assert_string_equal(err.msg, expected);
    }
}

/* The backend is told all that it must bring, and whose policy holds. */
static void
test_told_whole(void **state)
{
    struct wp_pool_stats stats = wp_rig_stats(&rig);
    const struct wp_bind_op *op;
    struct bound_claim b;

    (void)state;
    memset(stats.spec.egress, 'a', WP_EGRESS_TEXT_MAX);
    assert_int_equal(wp_pools_update(rig.pools, 0, &stats.spec, NULL), WP_OK);
    memset(&b, 0, sizeof b);
    wp_rig_claim_init(&b.c, "a", "team-a", 60 * S, 0);
    b.binding.fingerprint = 9;
    b.c.claim.binding = 9;
    b.bind = (struct wp_bind){.claim = &b.c.claim,
                              .binding = &b.binding,
                              .done = on_bound,
                              .ctx = &b};
    assert_int_equal(wp_rig_claim(&rig, &b.c), WP_OK);
    assert_false(b.c.claim.bound);
    scribble();
    assert_int_equal(wp_pools_bind(rig.pools, &b.bind), WP_PENDING);
    assert_string_equal(rig.backend.bind_policy, stats.spec.egress);
    op = rig.backend.binds[0];
    assert_ptr_equal(op, &b.bind.op);
    assert_ptr_equal(op->binding, &b.binding);
    assert_true(wp_str_is(op->tenant, "team-a"));
    assert_true(wp_slot_ref_eq(op->ref, b.c.claim.grant.ref));
    assert_int_equal(op->within_ns, WP_BIND_MAX_NS);
    assert_int_equal(op->policy.len, WP_EGRESS_TEXT_MAX);
    assert_true(b.c.claim.bound);
    assert_true(wp_fake_backend_bound(&rig.backend, WP_OK, ""));
    assert_int_equal(wp_rig_stats(&rig).bound_total, 1);
    assert_int_equal(wp_rig_stats(&rig).unbound_total, 0);
}

/* Whether a claim may reach less is asked of the pool's own policy. */
static void
test_narrows_the_pool_s_policy(void **state)
{
    struct wp_pool_stats stats = wp_rig_stats(&rig);
    struct wp_err err;

    (void)state;
    memset(stats.spec.egress, 'b', WP_EGRESS_TEXT_MAX);
    assert_int_equal(wp_pools_update(rig.pools, 0, &stats.spec, NULL), WP_OK);
    rig.backend.beyond = "all";
    scribble();
    assert_int_equal(wp_pools_may_narrow(rig.pools, WP_STR("default"),
                                         WP_STR("p"), WP_STR("none"), &err),
                     WP_OK);
    assert_string_equal(rig.backend.narrowed, stats.spec.egress);
    assert_int_equal(wp_pools_may_narrow(rig.pools, WP_STR("default"),
                                         WP_STR("p"), WP_STR("all"), &err),
                     WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg, "binding.egress: 'all' is too much");
}

static enum wp_status
sign_unless(void *self, struct wp_err *err)
{
    return self == &rig.backend && rig.backend.beyond == NULL
               ? WP_OK
               : wp_err_set(err, WP_FAILED_PRECONDITION, "nobody signs");
}

/* What a backend cannot do at all, no claim brings: it is said whose sandboxes
 * those are. */
static void
test_a_backend_may_lack_it(void **state)
{
    static struct wp_backend_ops ops; /* Used at the end, too. */
    struct wp_err err;

    (void)state;
    ops = *rig.pools->config.backend.ops;
    rig.pools->config.backend.ops = &ops;
    ops.name = "plain";
    ops.narrows = NULL;
    ops.may_sign = NULL;
    assert_int_equal(wp_pools_may_sign(rig.pools, &err),
                     WP_FAILED_PRECONDITION);
    assert_string_equal(
        err.msg, "binding.identity: sandboxes of the backend 'plain' get none");
    assert_int_equal(wp_pools_may_narrow(rig.pools, WP_STR("default"),
                                         WP_STR("p"), WP_STR("none"), &err),
                     WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg,
                        "binding.egress: no claim can narrow what sandboxes of "
                        "the backend 'plain' reach");
    /* The claim finds out itself that there is no such pool. */
    assert_int_equal(wp_pools_may_narrow(rig.pools, WP_STR("default"),
                                         WP_STR("q"), WP_STR("none"), &err),
                     WP_OK);
    ops.may_sign = sign_unless;
    assert_int_equal(wp_pools_may_sign(rig.pools, &err), WP_OK);
    rig.backend.beyond = "all";
    assert_int_equal(wp_pools_may_sign(rig.pools, &err),
                     WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg, "binding.identity: nobody signs");
}

/* The claim says what was not bound, its id is free at once, and the sandbox is
 * destroyed, never offered again. */
static void
test_not_bound(void **state)
{
    struct bound_claim b;
    struct bound_claim again;

    (void)state;
    assert_int_equal(claim(&b, "a", "x"), WP_OK);
    assert_int_equal(wp_pools_bind(rig.pools, &b.bind), WP_PENDING);
    assert_true(wp_fake_backend_bound(&rig.backend, WP_FAILED_PRECONDITION,
                                      "binding: file 'a': no room"));
    assert_int_equal(b.c.claim.status, WP_FAILED_PRECONDITION);
    assert_string_equal(b.c.claim.reason, "binding: file 'a': no room");
    assert_int_equal(claim(&again, "a", "x"), WP_OK);
    assert_false(again.c.claim.replayed);
    assert_string_not_equal(again.c.claim.grant.sandbox,
                            b.c.claim.grant.sandbox);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 1);
    assert_int_equal(wp_rig_stats(&rig).undone_total, 0);
}

static void
test_refused_at_once(void **state)
{
    struct bound_claim b;

    (void)state;
    rig.backend.bind_status = WP_RESOURCE_EXHAUSTED;
    assert_int_equal(claim(&b, "a", "x"), WP_OK);
    assert_int_equal(wp_pools_bind(rig.pools, &b.bind), WP_RESOURCE_EXHAUSTED);
    assert_int_equal(b.c.claim.status, WP_RESOURCE_EXHAUSTED);
    assert_string_equal(b.c.claim.reason, "as it was told");
    assert_int_equal(b.answers, 0);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 1);
}

/* Its client went while it was bound: nobody else gets the sandbox. */
static void
test_undone_is_destroyed(void **state)
{
    struct bound_claim b;

    (void)state;
    assert_int_equal(claim(&b, "a", "x"), WP_OK);
    assert_int_equal(wp_pools_bind(rig.pools, &b.bind), WP_PENDING);
    assert_true(wp_fake_backend_bound(&rig.backend, WP_OK, ""));
    wp_pools_undo(rig.pools, &b.c.claim);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 1);
    assert_int_equal(wp_rig_stats(&rig).ready, 2);
}

/* Before it was tried to be bound it is as good as new. */
static void
test_undone_before_is_offered(void **state)
{
    struct bound_claim b;

    (void)state;
    assert_int_equal(claim(&b, "a", "x"), WP_OK);
    wp_pools_undo(rig.pools, &b.c.claim);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 0);
}

static void
test_part_of_the_request(void **state)
{
    struct bound_claim b;
    struct bound_claim same;
    struct bound_claim other;
    struct wp_rig_claim bare;

    (void)state;
    assert_int_equal(claim(&b, "a", "x"), WP_OK);
    assert_int_equal(claim(&same, "a", "x"), WP_OK);
    assert_true(same.c.claim.replayed);
    assert_int_equal(claim(&other, "a", "y"), WP_ALREADY_EXISTS);
    assert_non_null(strstr(other.c.claim.reason, "binding"));
    wp_rig_claim_init(&bare, "a", "", 60 * S, 0);
    assert_int_equal(wp_rig_claim(&rig, &bare), WP_ALREADY_EXISTS);
}

/* The first answer may have been heard, and the sandbox be in use. */
static void
test_a_repeat_ends_nothing(void **state)
{
    struct bound_claim b;
    struct bound_claim again;

    (void)state;
    assert_int_equal(claim(&b, "a", "x"), WP_OK);
    assert_int_equal(wp_pools_bind(rig.pools, &b.bind), WP_PENDING);
    assert_true(wp_fake_backend_bound(&rig.backend, WP_OK, ""));
    assert_int_equal(claim(&again, "a", "x"), WP_OK);
    assert_int_equal(wp_pools_bind(rig.pools, &again.bind), WP_PENDING);
    assert_true(wp_fake_backend_bound(&rig.backend, WP_DEADLINE_EXCEEDED,
                                      "binding: no answer in time"));
    assert_int_equal(again.c.claim.status, WP_DEADLINE_EXCEEDED);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).bound_total, 1);
    assert_int_equal(wp_rig_stats(&rig).unbound_total, 1);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 0);
}

/* The first is refused, the second's is under way: it is not told of a lease
 * that ends. */
static void
test_a_repeat_of_what_ends(void **state)
{
    struct bound_claim b;
    struct bound_claim again;

    (void)state;
    assert_int_equal(claim(&b, "a", "x"), WP_OK);
    assert_int_equal(claim(&again, "a", "x"), WP_OK);
    assert_int_equal(wp_pools_bind(rig.pools, &again.bind), WP_PENDING);
    rig.backend.bind_status = WP_RESOURCE_EXHAUSTED;
    assert_int_equal(wp_pools_bind(rig.pools, &b.bind), WP_RESOURCE_EXHAUSTED);
    assert_true(wp_fake_backend_bound(&rig.backend, WP_OK, ""));
    assert_int_equal(again.c.claim.status, WP_UNAVAILABLE);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 1);
}

/* The other way round: who was told keeps it. */
static void
test_a_repeat_that_was_told(void **state)
{
    struct bound_claim b;
    struct bound_claim again;

    (void)state;
    assert_int_equal(claim(&b, "a", "x"), WP_OK);
    assert_int_equal(claim(&again, "a", "x"), WP_OK);
    assert_int_equal(wp_pools_bind(rig.pools, &again.bind), WP_PENDING);
    assert_true(wp_fake_backend_bound(&rig.backend, WP_OK, ""));
    rig.backend.bind_status = WP_RESOURCE_EXHAUSTED;
    assert_int_equal(wp_pools_bind(rig.pools, &b.bind), WP_RESOURCE_EXHAUSTED);
    assert_int_equal(again.c.claim.status, WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(wp_rig_stats(&rig).leased, 1);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 0);
}

/* The sandbox dies first: the lease is ended all the same. */
static void
test_lost_meanwhile(void **state)
{
    struct bound_claim b;

    (void)state;
    assert_int_equal(claim(&b, "a", "x"), WP_OK);
    assert_int_equal(wp_pools_bind(rig.pools, &b.bind), WP_PENDING);
    assert_true(
        wp_fake_backend_lose(&rig.backend, b.c.claim.grant.ref, "it died"));
    wp_rig_settle(&rig);
    assert_true(wp_fake_backend_bound(&rig.backend, WP_UNAVAILABLE, "lost"));
    wp_rig_settle(&rig);
    assert_int_equal(b.c.claim.status, WP_UNAVAILABLE);
    assert_int_equal(wp_rig_stats(&rig).leased, 0);
    assert_int_equal(wp_rig_stats(&rig).destroyed_total, 1);
}

static void
test_what_can_be_bound(void **state)
{
    struct wp_err err;

    (void)state;
    assert_int_equal(
        wp_pools_may_bind(rig.pools, WP_STR("default"), WP_STR("p"), &err),
        WP_OK);
    /* The claim will say so. */
    assert_int_equal(
        wp_pools_may_bind(rig.pools, WP_STR("default"), WP_STR("none"), &err),
        WP_OK);
    rig.backend.unbound = "they have no files";
    assert_int_equal(
        wp_pools_may_bind(rig.pools, WP_STR("default"), WP_STR("p"), &err),
        WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg, "binding: sandboxes of template 't' cannot be "
                                 "bound: they have no files");
    wp_pools_set_keeper(rig.pools, false);
    assert_int_equal(
        wp_pools_may_bind(rig.pools, WP_STR("default"), WP_STR("p"), &err),
        WP_UNAVAILABLE);
    wp_pools_set_keeper(rig.pools, true);
}

/* Of a backend that has none to give. */
static void
test_no_repositories(void **state)
{
    const struct wp_binding_repository one = {
        .url = WP_STR("https://example.org/a")};
    struct wp_binding binding = {.repositories = &one};
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_pools_may_bring(rig.pools, &binding, &err), WP_OK);
    binding.n_repositories = 1;
    assert_int_equal(wp_pools_may_bring(rig.pools, &binding, &err),
                     WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg, "binding.repositories: sandboxes of the "
                                 "backend 'fake' get none");
}

static void
test_fingerprints(void **state)
{
    uint64_t one = wp_pools_fingerprint(rig.pools, WP_STR("one"));

    (void)state;
    assert_int_not_equal(one, 0);
    assert_int_equal(wp_pools_fingerprint(rig.pools, WP_STR("one")), one);
    assert_int_not_equal(wp_pools_fingerprint(rig.pools, WP_STR("two")), one);
    assert_int_not_equal(wp_pools_fingerprint(rig.pools, WP_STR("")), 0);
}

/* A process that dies between the two: the next one binds the sandbox for who
 * repeats the claim. */
static void
test_a_repeat_at_the_next_process(void **state)
{
    struct replica first;
    struct replica next;
    struct bound_claim b = {.answers = 0};
    struct bound_claim again = {.answers = 0};

    (void)state;
    replica_open(&first, 0, 2, true);
    replica_settle(&first);
    wp_rig_claim_init(&b.c, "a", "", 60 * S, 0);
    b.c.claim.binding = 7;
    assert_int_equal(wp_pools_claim(first.pools, &b.c.claim), WP_OK);
    replica_close(&first);
    replica_open(&next, 0, 2, true);
    replica_adopt_all(&next, 0);
    replica_settle(&next);
    wp_rig_claim_init(&again.c, "a", "", 60 * S, 0);
    assert_int_equal(wp_pools_claim(next.pools, &again.c.claim),
                     WP_ALREADY_EXISTS);
    again.c.claim.binding = 7;
    assert_int_equal(wp_pools_claim(next.pools, &again.c.claim), WP_OK);
    assert_true(again.c.claim.replayed);
    again.binding.fingerprint = 7;
    again.bind = (struct wp_bind){.claim = &again.c.claim,
                                  .binding = &again.binding,
                                  .done = on_bound,
                                  .ctx = &again};
    assert_int_equal(wp_pools_bind(next.pools, &again.bind), WP_PENDING);
    assert_true(wp_fake_backend_bound(&next.backend, WP_OK, ""));
    assert_int_equal(again.answers, 1);
    replica_close(&next);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_asked_about_the_whole_name),
        TEST(test_told_whole),
        TEST(test_bound_then_answered),
        TEST(test_bound_without_a_binding_of_its_own),
        TEST(test_narrows_the_pool_s_policy),
        TEST(test_a_backend_may_lack_it),
        TEST(test_who_must_bind),
        TEST(test_not_bound),
        TEST(test_refused_at_once),
        TEST(test_undone_is_destroyed),
        TEST(test_undone_before_is_offered),
        TEST(test_part_of_the_request),
        TEST(test_a_repeat_ends_nothing),
        TEST(test_a_repeat_of_what_ends),
        TEST(test_a_repeat_that_was_told),
        TEST(test_lost_meanwhile),
        TEST(test_what_can_be_bound),
        TEST(test_no_repositories),
        TEST(test_fingerprints),
        cmocka_unit_test_setup(test_a_repeat_at_the_next_process,
                               replica_set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
