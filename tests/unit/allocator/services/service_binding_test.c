/* Claim with what its sandbox is to have: the answer comes once it is there, and
 * names it; and no sandbox stays held, or is offered again, when it is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/base/held_locks.h"
#include "tests/support/services/service_world.h"

/* WP_STR for what is initialized before main. */
#define T(literal)                                                             \
    {                                                                          \
        (literal), sizeof(literal) - 1                                         \
    }

static struct wp_world world;
static struct wp_fake_call a;
static struct wp_fake_call b;

static const struct wp_binding_env some_env = {T("A"), T("1")};
static const struct wp_binding_secret some_secret = {T("TOKEN"), T("s3cr3t"),
                                                     true};
static const struct wp_binding with_secret = {
    .env = &some_env, .n_env = 1, .secrets = &some_secret, .n_secrets = 1};
static const struct wp_binding with_env = {.env = &some_env, .n_env = 1};

static int
setup_with(uint32_t slots_max, uint32_t target)
{
    wp_world_init(&world, slots_max, target);
    wp_world_call(&world, &a);
    wp_world_call(&world, &b);
    a.call.who.unread = true;
    b.call.who.unread = true;
    return 0;
}

static int
setup(void **state)
{
    (void)state;
    return setup_with(8, 4);
}

static int
setup_big(void **state)
{
    (void)state;
    return setup_with(128, 64);
}

static int
teardown(void **state)
{
    (void)state;
    held_locks_are_free();
    wp_fake_call_fini(&a);
    wp_fake_call_fini(&b);
    wp_world_fini(&world);
    return 0;
}

static void
claim(struct wp_fake_call *call, const struct wp_binding *binding)
{
    uint8_t bytes[256];
    size_t len = wp_wire_size_binding(binding);
    const struct wp_wire_claim_request request = {
        .pool = {WP_STR("default"), WP_STR("p")},
        .claim_id = WP_STR("id"),
        .binding = {(const char *)bytes, len},
    };

    assert_true(len <= sizeof bytes);
    (void)wp_wire_pack_binding(binding, bytes);
    WP_WORLD_START(&world.allocator, call, "Claim", claim_request, &request);
}

static uint32_t
leased(void)
{
    return wp_rig_stats(&world.rig).leased;
}

static void
test_answered_once_bound(void **state)
{
    struct wp_wire_claim_response answer;

    (void)state;
    claim(&a, &with_secret);
    assert_false(wp_fake_call_finished(&a));
    assert_int_equal(leased(), 1);
    assert_true(wp_fake_backend_bound(&world.rig.backend, WP_OK, ""));
    wp_world_assert_ended(&a, WP_OK);
    WP_WORLD_REPLY(&world, &a, claim_response, &answer);
    assert_non_null(answer.bound);
    assert_int_equal(answer.bound->n_env, 1);
    assert_string_equal(answer.bound->env[0], "A");
    assert_int_equal(answer.bound->n_secrets, 1);
    assert_string_equal(answer.bound->secrets[0], "TOKEN");
    assert_false(answer.bound->started);
    wp_world_settle(&world);
    assert_int_equal(leased(), 1);
}

static void
test_bare_claim_is_not_bound(void **state)
{
    struct wp_wire_claim_response answer;

    (void)state;
    wp_world_claim(&world, &a, "id", "", 0);
    wp_world_assert_ended(&a, WP_OK);
    WP_WORLD_REPLY(&world, &a, claim_response, &answer);
    assert_null(answer.bound);
    assert_int_equal(world.rig.backend.n_binds, 0);
}

static void
test_says_what_was_not_bound(void **state)
{
    (void)state;
    claim(&a, &with_env);
    assert_true(wp_fake_backend_bound(&world.rig.backend,
                                      WP_FAILED_PRECONDITION,
                                      "binding: file 'x': No space"));
    wp_world_assert_ended(&a, WP_FAILED_PRECONDITION);
    assert_string_equal(a.message, "binding: file 'x': No space");
    wp_world_settle(&world);
    assert_int_equal(leased(), 0);
    assert_int_equal(wp_rig_stats(&world.rig).destroyed_total, 1);
}

/* Over plain TCP others may read along; what is no secret goes. */
static void
test_secrets_need_a_private_way(void **state)
{
    (void)state;
    a.call.who.unread = false;
    claim(&a, &with_secret);
    wp_world_assert_ended(&a, WP_FAILED_PRECONDITION);
    assert_string_equal(a.message, "binding.secrets: a connection with TLS, or "
                                   "the Unix socket, expected");
    assert_int_equal(leased(), 0);
    b.call.who.unread = false;
    claim(&b, &with_env);
    assert_true(wp_fake_backend_bound(&world.rig.backend, WP_OK, ""));
    wp_world_assert_ended(&b, WP_OK);
}

static void
test_passwords_need_a_private_way(void **state)
{
    static const struct wp_binding_repository one = {.url = T("https://h/a"),
                                                     .password = T("s3cr3t")};
    const struct wp_binding binding = {.repositories = &one,
                                       .n_repositories = 1};

    (void)state;
    a.call.who.unread = false;
    claim(&a, &binding);
    wp_world_assert_ended(&a, WP_FAILED_PRECONDITION);
    assert_string_equal(a.message,
                        "binding.repositories.password: a connection with TLS, "
                        "or the Unix socket, expected");
    assert_int_equal(leased(), 0);
}

static void
test_refused_before_it_is_granted(void **state)
{
    static const struct wp_binding_env bad = {T("1A"), T("")};
    const struct wp_binding binding = {.env = &bad, .n_env = 1};

    (void)state;
    claim(&a, &binding);
    wp_world_assert_ended(&a, WP_INVALID_ARGUMENT);
    assert_int_equal(strncmp(a.message, "binding.env[0].name:", 20), 0);
    wp_world_again(&world, &a);
    claim(&a, &(struct wp_binding){.fingerprint = 0});
    wp_world_assert_ended(&a, WP_INVALID_ARGUMENT);
    world.rig.backend.unbound = "they say so";
    claim(&b, &with_env);
    wp_world_assert_ended(&b, WP_FAILED_PRECONDITION);
    assert_non_null(strstr(b.message, "cannot be bound: they say so"));
    assert_int_equal(leased(), 0);
    world.rig.backend.unbound = NULL;
}

/* What this backend has not is named; and the first thing that is wrong is
 * what is told, whatever else is asked for. */
static void
test_says_what_is_not_to_be_had(void **state)
{
    static const struct wp_binding_repository one = {.url = T("https://h/a")};
    static const struct wp_binding_env bad = {T("1A"), T("")};
    const struct wp_binding with_repository = {.repositories = &one,
                                               .n_repositories = 1};
    const struct wp_binding wrong = {.env = &bad,
                                     .n_env = 1,
                                     .repositories = &one,
                                     .n_repositories = 1,
                                     .egress = WP_STR("b.test"),
                                     .audience = WP_STR("a")};

    (void)state;
    claim(&a, &with_repository);
    wp_world_assert_ended(&a, WP_FAILED_PRECONDITION);
    assert_int_equal(strncmp(a.message, "binding.repositories: ", 22), 0);
    wp_world_again(&world, &a);
    world.rig.backend.beyond = "b.test";
    claim(&a, &wrong);
    wp_world_assert_ended(&a, WP_INVALID_ARGUMENT);
    assert_int_equal(strncmp(a.message, "binding.env[0].name:", 20), 0);
    world.rig.backend.beyond = NULL;
    assert_int_equal(leased(), 0);
}

static void
test_egress(void **state)
{
    static const struct wp_binding less = {.egress = T("a.test")};
    static const struct wp_binding more = {.egress = T("b.test")};
    struct wp_wire_claim_response answer;

    (void)state;
    world.rig.backend.beyond = "b.test";
    claim(&a, &more);
    wp_world_assert_ended(&a, WP_FAILED_PRECONDITION);
    assert_string_equal(a.message, "binding.egress: 'b.test' is too much");
    assert_int_equal(leased(), 0);
    wp_world_again(&world, &a);
    claim(&a, &less);
    assert_true(wp_fake_backend_bound(&world.rig.backend, WP_OK, ""));
    wp_world_assert_ended(&a, WP_OK);
    WP_WORLD_REPLY(&world, &a, claim_response, &answer);
    assert_string_equal(answer.bound->egress, "a.test");
    /* It is part of the request. */
    world.rig.backend.beyond = NULL;
    claim(&b, &more);
    wp_world_assert_ended(&b, WP_ALREADY_EXISTS);
}

/* Its client goes while the sandbox is bound: that sandbox is nobody's more. */
static void
test_client_goes(void **state)
{
    (void)state;
    claim(&a, &with_env);
    wp_fake_call_cancel(&a);
    assert_false(wp_fake_call_finished(&a));
    assert_true(wp_fake_backend_bound(&world.rig.backend, WP_OK, ""));
    wp_world_assert_ended(&a, WP_CANCELLED);
    wp_world_settle(&world);
    assert_int_equal(leased(), 0);
    assert_int_equal(wp_rig_stats(&world.rig).destroyed_total, 1);
}

/* Both wait for the one sandbox, and hear the same. */
static void
test_repeat_waits_too(void **state)
{
    struct wp_wire_claim_response answer;

    (void)state;
    claim(&a, &with_env);
    claim(&b, &with_env);
    assert_false(wp_fake_call_finished(&b));
    assert_true(wp_fake_backend_bound(&world.rig.backend, WP_OK, ""));
    assert_true(wp_fake_backend_bound(&world.rig.backend, WP_OK, ""));
    wp_world_assert_ended(&a, WP_OK);
    wp_world_assert_ended(&b, WP_OK);
    WP_WORLD_REPLY(&world, &b, claim_response, &answer);
    assert_true(answer.replayed);
    assert_int_equal(answer.bound->n_env, 1);
    assert_int_equal(leased(), 1);
}

static void
test_no_memory_for_the_answer(void **state)
{
    (void)state;
    a.no_memory = true;
    claim(&a, &with_env);
    assert_true(wp_fake_backend_bound(&world.rig.backend, WP_OK, ""));
    wp_world_assert_ended(&a, WP_RESOURCE_EXHAUSTED);
    wp_world_settle(&world);
    assert_int_equal(leased(), 0);
    assert_int_equal(wp_rig_stats(&world.rig).destroyed_total, 1);
}

/* What claims under way bring takes so much memory, and is given back. */
static void
test_memory_is_bounded(void **state)
{
    enum {
        CALLS = 64
    };
    static char content[WP_BINDING_FILES_BYTES_MAX];
    static uint8_t bytes[sizeof content + 64];
    static uint8_t message[sizeof bytes + 64];
    const struct wp_binding_file file = {
        WP_STR("f"), {content, sizeof content}, 0644};
    const struct wp_binding binding = {.files = &file, .n_files = 1};
    struct wp_fake_call *calls = calloc(CALLS, sizeof *calls);
    struct wp_wire_claim_request request = {
        .pool = {WP_STR("default"), WP_STR("p")},
        .claim_id = WP_STR("id"),
        .binding = {(const char *)bytes, wp_wire_size_binding(&binding)},
    };
    uint32_t n = 0;

    (void)state;
    assert_non_null(calls);
    (void)wp_wire_pack_binding(&binding, bytes);
    do {
        char id[8];

        assert_true(n < CALLS);
        (void)snprintf(id, sizeof id, "c%u", n);
        request.claim_id = wp_str_from(id);
        wp_world_call(&world, &calls[n]);
        calls[n].call.who.unread = true;
        wp_fake_call_start(&calls[n], &world.allocator, "Claim", message,
                           wp_wire_pack_claim_request(&request, message));
    } while (!wp_fake_call_finished(&calls[n++]));
    assert_in_range(n, CALLS / 2, CALLS);
    wp_world_assert_ended(&calls[n - 1], WP_RESOURCE_EXHAUSTED);
    assert_string_equal(calls[n - 1].message,
                        "binding: too many claims that bring one are under "
                        "way");
    while (wp_fake_backend_bound(&world.rig.backend, WP_OK, "")) {
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_true(wp_fake_call_finished(&calls[i]));
        wp_fake_call_fini(&calls[i]);
    }
    free(calls);
    request.claim_id = WP_STR("again");
    wp_fake_call_start(&a, &world.allocator, "Claim", message,
                       wp_wire_pack_claim_request(&request, message));
    assert_true(wp_fake_backend_bound(&world.rig.backend, WP_OK, ""));
    wp_world_assert_ended(&a, WP_OK);
}

/* The time that binding takes is a step of its own. */
static void
test_a_bound_claim_is_traced(void **state)
{
    const struct wp_trace_context client = {.sampled = true};
    struct wp_tracer *tracer = wp_tracer_create(8);
    struct wp_span span;

    (void)state;
    assert_non_null(tracer);
    wp_trace_begin(&a.call.trace, tracer, &client,
                   wp_clock_mono_ns(&world.rig.clock.clock));
    claim(&a, &with_env);
    assert_true(wp_tracer_take(tracer, &span));
    assert_string_equal(span.name, "grant");
    assert_true(span.end_ns == span.begin_ns);
    assert_false(wp_tracer_take(tracer, &span));
    wp_clock_manual_advance(&world.rig.clock, 7);
    assert_true(wp_fake_backend_bound(&world.rig.backend, WP_OK, ""));
    wp_world_assert_ended(&a, WP_OK);
    assert_true(wp_tracer_take(tracer, &span));
    assert_string_equal(span.name, "bind");
    assert_true(span.end_ns == span.begin_ns + 7);
    assert_int_equal(span.status, WP_OK);
    assert_false(wp_tracer_take(tracer, &span));
    wp_tracer_destroy(tracer);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_memory_is_bounded, setup_big,
                                        teardown),
        TEST(test_answered_once_bound),
        TEST(test_bare_claim_is_not_bound),
        TEST(test_a_bound_claim_is_traced),
        TEST(test_says_what_was_not_bound),
        TEST(test_secrets_need_a_private_way),
        TEST(test_passwords_need_a_private_way),
        TEST(test_refused_before_it_is_granted),
        TEST(test_says_what_is_not_to_be_had),
        TEST(test_egress),
        TEST(test_client_goes),
        TEST(test_repeat_waits_too),
        TEST(test_no_memory_for_the_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
