/* SandboxClaims and the end of the process: wherever it is killed, the next one
 * finishes what was begun. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "tests/support/k8s/claim_rig.h"

#define S WP_NS_PER_S
#define MS WP_NS_PER_MS

static struct wp_claim_rig rig;

static const char *
annotation(const char *claim, const char *key)
{
    return wp_json_text(
        wp_recorder_object(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", claim),
        "metadata", "annotations", key, NULL);
}

/* How many Sandboxes does the claim control? */
static uint32_t
owned_by(const char *claim)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < wp_recorder_objects(rig.api, WP_KIND_SANDBOX);
         i++) {
        const json_t *object =
            wp_recorder_object_at(rig.api, WP_KIND_SANDBOX, i);

        n += strcmp(wp_json_text(
                        json_array_get(wp_json_at(object, "metadata",
                                                  "ownerReferences", NULL),
                                       0),
                        "uid", NULL),
                    wp_claim_rig_uid(&rig, claim)) == 0;
    }
    return n;
}

static void
expect_served(const char *claim)
{
    const char *sandbox = wp_claim_rig_sandbox(&rig, claim);

    assert_string_equal(wp_claim_rig_ready(&rig, claim, "status"), "True");
    assert_string_equal(wp_claim_rig_owner(&rig, sandbox),
                        wp_claim_rig_uid(&rig, claim));
    assert_int_equal(owned_by(claim), 1);
    assert_string_equal(annotation(claim, WP_ANNOTATION_SANDBOX_NAME), sandbox);
    assert_string_not_equal(annotation(claim, WP_ANNOTATION_FIRST_READY), "");
    assert_string_not_equal(annotation(claim, WP_ANNOTATION_FIRST_OBSERVED),
                            "");
}

static void
put_claim(const char *name)
{
    char text[256];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\"},"
                   "\"spec\":{\"warmPoolRef\":{\"name\":\"p\"}}}",
                   name);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM, text);
    wp_recorder_notify(rig.api);
    assert_int_equal(event_base_loop(rig.parts.base, EVLOOP_NONBLOCK), 0);
}

/* Killed after each of the writes of a warm claim. */
static void
killed_at_every_step(void **state)
{
    (void)state;
    for (int steps = 0; steps < 6; steps++) {
        wp_claim_rig_init(&rig);
        wp_claim_rig_start(&rig, 3);
        put_claim("c");
        for (int i = 0; i < steps; i++) {
            (void)wp_recorder_step(rig.api);
        }
        wp_claim_rig_restart(&rig);
        expect_served("c");
        wp_claim_rig_advance(&rig, 10 * S);
        expect_served("c");
        wp_claim_rig_claim(&rig, "d", NULL);
        expect_served("d");
        wp_claim_rig_fini(&rig);
    }
}

/* The same of a cold start: one Sandbox is made, whatever happens. */
static void
killed_at_every_step_of_a_cold_start(void **state)
{
    (void)state;
    for (int steps = 0; steps < 5; steps++) {
        wp_claim_rig_init(&rig);
        wp_claim_rig_start(&rig, 0);
        put_claim("c");
        for (int i = 0; i < steps; i++) {
            (void)wp_recorder_step(rig.api);
        }
        wp_claim_rig_restart(&rig);
        assert_string_equal(wp_claim_rig_sandbox(&rig, "c"), "c");
        assert_int_equal(owned_by("c"), 1);
        assert_int_equal(wp_recorder_objects(rig.api, WP_KIND_SANDBOX), 1);
        assert_string_equal(wp_claim_rig_ready(&rig, "c", "reason"),
                            "SandboxNotReady");
        wp_claim_rig_fini(&rig);
    }
}

/* A claim that is served already costs the next process nothing. */
static void
served_claims_are_left_alone(void **state)
{
    (void)state;
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, 3);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "b", NULL);
    wp_claim_rig_restart(&rig);
    expect_served("a");
    expect_served("b");
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_ANY, WP_KIND_COUNT), 0);
    wp_claim_rig_fini(&rig);
}

static void
waiting_claim_waits_on(void **state)
{
    (void)state;
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, 1);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "b", NULL);
    wp_claim_rig_restart(&rig);
    assert_string_equal(wp_claim_rig_sandbox(&rig, "b"), "");
    assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
    expect_served("b");
    expect_served("a");
    wp_claim_rig_fini(&rig);
}

/* What upstream's controller left between its second and its third write: the
 * claim names a Sandbox that is still the pool's. */
static void
reserved_by_annotation(void **state)
{
    char text[512];
    char name[64];

    (void)state;
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, 3);
    (void)snprintf(name, sizeof name, "%s", rig.orders[1].name);
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\","
                   "\"annotations\":{\"" WP_ANNOTATION_SANDBOX_NAME
                   "\":\"%s\"}},"
                   "\"spec\":{\"warmPoolRef\":{\"name\":\"p\"}}}",
                   name);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM, text);
    wp_claim_rig_settle(&rig);
    expect_served("c");
    assert_string_equal(wp_claim_rig_sandbox(&rig, "c"), name);
    /* The core still believes that it is to be had: nobody else gets it. */
    wp_claim_rig_claim(&rig, "d", NULL);
    wp_claim_rig_claim(&rig, "e", NULL);
    wp_claim_rig_advance(&rig, 100 * MS);
    expect_served("c");
    expect_served("d");
    expect_served("e");
    wp_claim_rig_fini(&rig);
}

/* The annotation names what is gone, or another claim's: it is removed, and the
 * claim gets what it can have. */
static void
reserved_in_vain(void **state)
{
    char text[512];
    char other[64];

    (void)state;
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, 4);
    wp_claim_rig_claim(&rig, "a", NULL);
    (void)snprintf(other, sizeof other, "%s", wp_claim_rig_sandbox(&rig, "a"));
    for (int i = 0; i < 2; i++) {
        const char *claim = i == 0 ? "gone" : "others";

        (void)snprintf(text, sizeof text,
                       "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\","
                       "\"annotations\":{\"" WP_ANNOTATION_SANDBOX_NAME
                       "\":\"%s\"}},"
                       "\"spec\":{\"warmPoolRef\":{\"name\":\"p\"}}}",
                       claim, i == 0 ? "p-nothing" : other);
        (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM, text);
        wp_claim_rig_settle(&rig);
        expect_served(claim);
    }
    expect_served("a");
    wp_claim_rig_fini(&rig);
}

/* The claim went while nobody led: its lease does not outlive that. */
static void
lease_of_a_claim_that_is_gone(void **state)
{
    (void)state;
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, 1);
    wp_claim_rig_claim(&rig, "c", NULL);
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 1);
    rig.parts.active = false;
    wp_claim_controller_ops.deactivate(rig.controller);
    wp_claim_rig_unclaim(&rig, "c");
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 1);
    rig.parts.active = true;
    wp_claim_controller_ops.activate(rig.controller);
    wp_claim_rig_settle(&rig);
    assert_int_equal(wp_claim_rig_stats(&rig).leased, 0);
    wp_claim_rig_fini(&rig);
}

/* While it does not lead nothing is written; afterwards all is made up for. */
static void
standby_writes_nothing(void **state)
{
    uint32_t calls;

    (void)state;
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, 2);
    wp_claim_rig_claim(&rig, "a", NULL);
    rig.parts.active = false;
    wp_claim_controller_ops.deactivate(rig.controller);
    calls = wp_recorder_calls(rig.api);
    wp_claim_rig_claim(&rig, "b", NULL);
    wp_claim_rig_advance(&rig, 10 * S);
    assert_int_equal(wp_recorder_calls(rig.api), calls);
    rig.parts.active = true;
    wp_claim_controller_ops.activate(rig.controller);
    wp_claim_rig_settle(&rig);
    expect_served("b");
    wp_claim_rig_fini(&rig);
}

/* A leader that lost its office in the middle of an adoption had it go through:
 * the next one, which had looked before that, ends what is one too many. */
static void
second_sandbox_is_ended(void **state)
{
    char text[2048];

    (void)state;
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, 2);
    wp_claim_rig_claim(&rig, "c", NULL);
    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a-second\",\"labels\":{"
        "\"" WP_LABEL_CLAIM_UID "\":\"%s\"},\"ownerReferences\":[{"
        "\"apiVersion\":\"extensions.agents.x-k8s.io/v1beta1\",\"kind\":"
        "\"SandboxClaim\",\"name\":\"c\",\"uid\":\"%s\",\"controller\":true}]},"
        "\"spec\":{}}",
        wp_claim_rig_uid(&rig, "c"), wp_claim_rig_uid(&rig, "c"));
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX, text);
    wp_claim_rig_settle(&rig);
    assert_null(wp_claim_rig_object(&rig, "a-second"));
    expect_served("c");
    wp_claim_rig_fini(&rig);
}

/* A claim that the watch has not told of holds its lease through a change of
 * leaders; one that is gone does not. */
static void
lease_of_a_claim_that_is_not_heard_of(void **state)
{
    static struct wp_claim granted;

    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        wp_claim_rig_init(&rig);
        wp_claim_rig_start(&rig, 1);
        rig.parts.active = false;
        wp_claim_controller_ops.deactivate(rig.controller);
        /* The leader before has made it, and the core has heard of that. */
        wp_recorder_hold(rig.api, true);
        put_claim("c");
        granted = (struct wp_claim){
            .pool_namespace = WP_STR("ns"),
            .pool = WP_STR("p"),
            .claim_id = wp_str_from(wp_claim_rig_uid(&rig, "c")),
            .tenant = WP_STR(WP_TENANT_SANDBOX_CLAIMS),
            .lasting = true,
        };
        assert_int_equal(wp_pools_claim(rig.pools, &granted), WP_OK);
        if (gone == 1) {
            wp_recorder_remove(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "c");
        }
        rig.parts.active = true;
        wp_claim_controller_ops.activate(rig.controller);
        wp_claim_rig_settle(&rig);
        assert_int_equal(wp_claim_rig_stats(&rig).leased, 1 - gone);
        wp_recorder_hold(rig.api, false);
        wp_claim_rig_settle(&rig);
        if (gone == 0) {
            assert_string_equal(wp_claim_rig_sandbox(&rig, "c"),
                                granted.grant.sandbox);
        }
        assert_int_equal(
            wp_recorder_count(rig.api, WP_VERB_LIST, WP_KIND_SANDBOX_CLAIM), 1);
        wp_claim_rig_fini(&rig);
    }
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_every_step),
        cmocka_unit_test(killed_at_every_step_of_a_cold_start),
        cmocka_unit_test(served_claims_are_left_alone),
        cmocka_unit_test(waiting_claim_waits_on),
        cmocka_unit_test(reserved_by_annotation),
        cmocka_unit_test(reserved_in_vain),
        cmocka_unit_test(lease_of_a_claim_that_is_gone),
        cmocka_unit_test(standby_writes_nothing),
        cmocka_unit_test(second_sandbox_is_ended),
        cmocka_unit_test(lease_of_a_claim_that_is_not_heard_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
