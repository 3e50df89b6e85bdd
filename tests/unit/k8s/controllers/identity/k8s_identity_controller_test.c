/* The identities' controller: what is in the Secret is published, what changes
 * is written by the leader only, and what fails is told once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/controllers/shared.h"
#include "k8s/objects/json.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/timers.h"
#include "tests/support/k8s/api_recorder.h"

#define WARNED(code, message)                                                  \
    "WARN no identities: their keys cannot be kept secret=keys code=" code     \
    " message=" message "\n"

static struct wp_parts parts;
static void *controller;
static struct heard heard;
static char taken[64];   /* The key that was taken last. */
static const char *next; /* That is to be written; NULL: none is. */
static uint32_t told;    /* So often claims were told that keys are there. */

static void
take(void *ctx, json_t *data)
{
    assert_ptr_equal(ctx, &parts);
    (void)snprintf(taken, sizeof taken, "%s", wp_json_text(data, "k", NULL));
}

static json_t *
change(void *ctx)
{
    assert_ptr_equal(ctx, &parts);
    return next != NULL ? json_pack("{s:s}", "k", next) : NULL;
}

static void
on_keys(void *ctx)
{
    assert_ptr_equal(ctx, &told);
    assert_string_not_equal(taken, "");
    told++;
}

static const struct wp_cluster_identity identities = {
    .secret = "keys", .ctx = &parts, .take = take, .change = change};

static int
set_up(void **state)
{
    struct wp_err err;

    (void)state;
    parts = (struct wp_parts){
        .config = {.identities = &identities, .election_ns = "system"},
        .base = event_base_new(),
        .api = wp_recorder_create(),
        .active = true,
        .on_keys = on_keys,
        .on_keys_ctx = &told,
    };
    told = 0;
    taken[0] = '\0';
    next = NULL;
    wp_recorder_serve(parts.api);
    (void)wp_recorder_put(
        parts.api, WP_KIND_SECRET,
        "{\"metadata\":{\"name\":\"keys\",\"namespace\":\"system\"}}");
    controller = wp_identity_controller_ops.create(&parts, &err);
    return controller == NULL;
}

static int
tear_down(void **state)
{
    (void)state;
    assert_int_equal(wp_recorder_planned(parts.api), 0);
    wp_api_destroy(parts.api);
    wp_identity_controller_ops.destroy(controller);
    event_base_free(parts.base);
    return 0;
}

/* One round. Returns what it said. */
static const char *
turn(void)
{
    timers_fire(parts.base, controller);
    heard_begin(&heard);
    (void)wp_recorder_run(parts.api);
    return heard_end(&heard);
}

static double
left_s(void)
{
    return timers_left_s(parts.base, controller);
}

static bool
rests_long(void)
{
    return left_s() > 1.5 && left_s() < 60.5;
}

static bool
rests_shortly(void)
{
    return left_s() >= 0 && left_s() < 1.5;
}

static uint32_t
writes(void)
{
    return wp_recorder_count(parts.api, WP_VERB_WRITES, WP_KIND_COUNT);
}

static void
keys_come_and_are_kept(void **state)
{
    (void)state;
    parts.active = false;
    next = "one";
    assert_string_equal(turn(), "");
    assert_int_equal(writes(), 0);
    assert_true(rests_shortly()); /* The leader is making the first. */
    assert_int_equal(told, 0);
    parts.active = true;
    wp_identity_controller_ops.activate(controller);
    assert_true(left_s() < 0.1);
    assert_string_equal(turn(), "INFO a new key for identities, or an old one "
                                "is gone secret=keys\n");
    assert_string_equal(taken, "one");
    assert_true(rests_long());
    next = NULL;
    assert_string_equal(turn(), "");
    assert_int_equal(writes(), 1);
    assert_int_equal(told, 1);
    assert_true(rests_long());
    /* Whoever leads anew looks at once; but not twice. */
    wp_identity_controller_ops.activate(controller);
    assert_true(left_s() >= 0 && left_s() < 0.1);
    timers_fire(parts.base, controller);
    wp_identity_controller_ops.activate(controller);
    assert_true(left_s() < 0);
    (void)wp_recorder_run(parts.api);
}

/* Another leader was faster: what it made counts. */
static void
a_write_names_what_was_read(void **state)
{
    (void)state;
    next = "ours";
    timers_fire(parts.base, controller);
    assert_true(wp_recorder_step(parts.api));
    (void)wp_recorder_merge(parts.api, WP_KIND_SECRET, "system", "keys",
                            "{\"data\":{\"k\":\"theirs\"}}");
    assert_true(wp_recorder_step(parts.api));
    assert_true(rests_shortly());
    next = NULL;
    assert_string_equal(turn(), "");
    assert_string_equal(taken, "theirs");
    assert_int_equal(told, 1);
}

static void
what_fails_is_told_once(void **state)
{
    static const struct {
        struct wp_recorder_fault fault;
        const char *said; /* "": it passes. */
    } cases[] = {
        {{.verb = WP_VERB_GET, .status = WP_NOT_FOUND},
         WARNED("404", "\"not found\"")},
        {{.verb = WP_VERB_GET, .status = WP_OK}, WARNED("200", "\"\"")},
        {{.verb = WP_VERB_PATCH, .status = WP_PERMISSION_DENIED},
         WARNED("403", "\"permission denied\"")},
        {{.verb = WP_VERB_PATCH, .status = WP_OK}, WARNED("200", "\"\"")},
        {{.verb = WP_VERB_GET, .status = WP_UNAVAILABLE}, ""},
        {{.verb = WP_VERB_PATCH, .status = WP_RESOURCE_EXHAUSTED}, ""},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_recorder_fault fault = cases[i].fault;

        fault.kind = WP_KIND_SECRET;
        next = "one";
        for (int round = 0; round < 2; round++) {
            wp_recorder_plan(parts.api, &fault);
            assert_string_equal(turn(), round == 0 ? cases[i].said : "");
            assert_true(rests_shortly()); /* Claims may wait for it. */
        }
        /* It goes well, and the next failure is news. */
        next = NULL;
        assert_string_equal(turn(), "");
    }
    /* The client goes. */
    wp_recorder_plan(parts.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_GET,
                                                 .kind = WP_KIND_SECRET,
                                                 .status = WP_CANCELLED});
    assert_string_equal(turn(), "");
    assert_true(left_s() < 0);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_come_and_are_kept, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_write_names_what_was_read, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_fails_is_told_once, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
