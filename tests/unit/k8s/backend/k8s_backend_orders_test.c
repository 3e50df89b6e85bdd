/* The core's backend for a cluster, on a small server in memory: what it orders
 * for a pool, and the pools that it hears of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "tests/support/base/heard.h"
#include "tests/support/k8s/cluster_rig.h"

#define KIND WP_KIND_SANDBOX

static struct wp_cluster_rig rig;

/* --- Orders --- */

static void
a_pool_is_filled_and_its_sandboxes_become_ready(void **state)
{
    struct wp_claim held;

    (void)state;
    wp_cluster_rig_start(&rig, 3);
    assert_int_equal(wp_cluster_rig_objects(&rig), 3);
    assert_int_equal(wp_cluster_rig_stats(&rig).warming, 3);
    assert_int_equal(
        strlen(wp_cluster_rig_annotation(&rig, wp_cluster_rig_name(&rig, 0),
                                         WP_ANNOTATION_UID)),
        2 * WP_UID_LEN);
    assert_int_equal(wp_recorder_last(rig.api, WP_VERB_POST, KIND)->priority,
                     WP_HTTP_REFILL);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 3);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "a", "t"), WP_OK);
    assert_string_equal(held.grant.endpoint, "10.0.0.7:8888");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_objects(&rig), 4);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).posted, 4);
    wp_cluster_rig_fini(&rig);
}

static void
an_address_of_version_6_is_in_brackets(void **state)
{
    struct wp_claim held;

    (void)state;
    wp_cluster_rig_start(&rig, 1);
    wp_cluster_rig_ready(&rig, wp_cluster_rig_name(&rig, 0), "fd00::7");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_claim(&rig, &held, "a", "t"), WP_OK);
    assert_string_equal(held.grant.endpoint, "[fd00::7]:8888");
    wp_cluster_rig_fini(&rig);
}

static void
a_lost_answer_makes_no_second_sandbox(void **state)
{
    (void)state;
    wp_cluster_rig_init(&rig, 2, NULL);
    /* One was made all the same, and the watch is late; one was not. */
    wp_recorder_hold(rig.api, true);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = KIND,
                                                 .status = WP_UNKNOWN_OUTCOME,
                                                 .effect = true});
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = KIND,
                                                 .status = WP_UNKNOWN_OUTCOME});
    wp_cluster_rig_lead(&rig);
    for (int i = 0;
         i < 100000 && (wp_cluster_rig_objects(&rig) < 2 ||
                        wp_recorder_count(rig.api, WP_VERB_GET, KIND) < 2);
         i++) {
        wp_cluster_rig_settle(&rig);
    }
    wp_recorder_hold(rig.api, false);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
    assert_int_equal(wp_recorder_planned(rig.api), 0);
    wp_cluster_rig_all_ready(&rig);
    assert_int_equal(wp_cluster_rig_stats(&rig).ready, 2);
    assert_int_equal(wp_cluster_rig_stats(&rig).created_total, 2);
    wp_cluster_rig_fini(&rig);
}

#define DELAYED                                                                \
    "WARN the API server does not make a sandbox; it is asked again "          \
    "namespace=ns pool=p name="

static void
what_is_not_made_for_now_is_made_later(void **state)
{
    static struct heard heard;
    const char *told;

    (void)state;
    wp_cluster_rig_init(&rig, 2, NULL);
    heard_begin(&heard);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = KIND,
                                                 .times = 3,
                                                 .status = WP_UNAVAILABLE});
    wp_recorder_plan(rig.api, &(struct wp_recorder_fault){
                                  .verb = WP_VERB_POST,
                                  .kind = KIND,
                                  .status = WP_RESOURCE_EXHAUSTED,
                                  .retry_after_ns = 5 * WP_NS_PER_MS});
    wp_cluster_rig_lead(&rig);
    for (int i = 0; i < 100000 && wp_cluster_rig_objects(&rig) < 2; i++) {
        wp_cluster_rig_settle(&rig);
    }
    told = strstr(heard_end(&heard), DELAYED);
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
    assert_int_equal(wp_cluster_rig_stats(&rig).created_total, 2);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 0);
    /* People hear of it once, for a while. */
    assert_non_null(told);
    assert_null(strstr(told + 1, DELAYED));
    /* None was made, so none is looked for. */
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_GET, KIND), 0);
    wp_cluster_rig_fini(&rig);
}

/* Ours, from an answer that was lost. */
static void
one_that_exists_already_is_looked_at(void **state)
{
    (void)state;
    wp_cluster_rig_init(&rig, 1, NULL);
    wp_recorder_hold(rig.api, true);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = KIND,
                                                 .status = WP_ALREADY_EXISTS,
                                                 .effect = true});
    wp_cluster_rig_lead(&rig);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_POST, KIND), 1);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_GET, KIND), 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).warming, 1);
    wp_recorder_hold(rig.api, false);
    wp_cluster_rig_fini(&rig);
}

static void
one_of_another_with_its_name_is_left_alone(void **state)
{
    const struct wp_recorded *call = NULL;
    char name[WP_SANDBOX_NAME_MAX + 1];
    char text[256];

    (void)state;
    wp_cluster_rig_init(&rig, 1, NULL);
    wp_cluster_rig_begin_to_lead(&rig);
    for (int i = 0; i < 1000 && call == NULL; i++) {
        wp_cluster_rig_run(&rig, WP_CLUSTER_RIG_POSTED);
        wp_cluster_rig_run(&rig, WP_CLUSTER_RIG_CORE);
        (void)event_base_loop(rig.parts.base, EVLOOP_NONBLOCK);
        call = wp_recorder_open(rig.api, WP_VERB_POST, KIND);
        if (call == NULL) {
            (void)wp_recorder_run(rig.api);
        }
    }
    assert_non_null(call);
    (void)snprintf(name, sizeof name, "%s",
                   wp_json_text(call->body, "metadata", "name", NULL));
    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\"}}",
                   name);
    (void)wp_recorder_put(rig.api, KIND, text);
    wp_cluster_rig_settle(&rig);
    assert_string_equal(wp_cluster_rig_stats(&rig).last_failure,
                        "its name is another sandbox's");
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).warming, 1);
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_DELETE, KIND), 0);
    wp_cluster_rig_fini(&rig);
}

/* The same order would be refused again: it fails, and there is a next one. */
static void
what_is_refused_for_good_is_not_asked_for_again(void **state)
{
    static const enum wp_status statuses[] = {
        WP_INVALID_ARGUMENT, WP_PERMISSION_DENIED, WP_NOT_FOUND,
        WP_FAILED_PRECONDITION};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(statuses); i++) {
        wp_cluster_rig_init(&rig, 1, NULL);
        wp_recorder_plan(rig.api,
                         &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                     .kind = KIND,
                                                     .status = statuses[i]});
        wp_cluster_rig_lead(&rig);
        assert_int_equal(wp_cluster_rig_backend_stats(&rig).refused, 1);
        assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 1);
        assert_int_equal(wp_cluster_rig_objects(&rig), 1);
        wp_cluster_rig_fini(&rig);
    }
}

/* Claims have none. */
static void
a_pool_that_is_stocked_by_a_quarter_has_time(void **state)
{
    (void)state;
    for (uint32_t ready = 1; ready <= 2; ready++) {
        wp_cluster_rig_start(&rig, 8);
        for (uint32_t i = 0; i < ready; i++) {
            wp_cluster_rig_ready(&rig, wp_cluster_rig_name(&rig, i),
                                 "10.0.0.7");
        }
        wp_cluster_rig_settle(&rig);
        wp_recorder_remove(rig.api, KIND, "ns", wp_cluster_rig_name(&rig, 7));
        wp_cluster_rig_settle(&rig);
        assert_int_equal(wp_cluster_rig_stats(&rig).ready, ready);
        assert_int_equal(wp_recorder_count(rig.api, WP_VERB_POST, KIND), 9);
        assert_int_equal(
            wp_recorder_last(rig.api, WP_VERB_POST, KIND)->priority,
            ready < 2 ? WP_HTTP_REFILL : WP_HTTP_SPARE);
        wp_cluster_rig_fini(&rig);
    }
}

static void
a_refusal_is_a_failure_with_the_servers_words(void **state)
{
    (void)state;
    wp_cluster_rig_init(&rig, 1, NULL);
    wp_recorder_plan(
        rig.api, &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                             .kind = KIND,
                                             .times = 100,
                                             .status = WP_PERMISSION_DENIED});
    wp_cluster_rig_lead(&rig);
    /* Then the core's breaker lets one through at a time. */
    assert_true(wp_cluster_rig_stats(&rig).breaker_open);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 5);
    assert_int_equal(wp_recorder_count(rig.api, WP_VERB_POST, KIND), 5);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).refused, 5);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).known, 0);
    assert_int_equal(wp_cluster_rig_stats(&rig).dying, 0);
    assert_true(wp_cluster_rig_stats(&rig).last_failure[0] != '\0');
    wp_cluster_rig_fini(&rig);
}

static void
orders_beyond_what_fits_are_refused_for_now(void **state)
{
    struct wp_backend port;
    uint8_t uid[WP_UID_LEN] = {1};
    struct wp_sandbox_order order = {
        .pool_namespace = WP_STR("ns"), .pool = WP_STR("p"), .uid = uid};
    enum wp_status status = WP_OK;
    uint32_t n = 0;
    struct wp_err err;

    (void)state;
    wp_cluster_rig_init(&rig, 0, NULL);
    port = wp_cluster_backend_port(rig.backend);
    while (status == WP_OK && n < 1000) {
        char name[16];

        (void)snprintf(name, sizeof name, "p-%u", n);
        order.name = wp_str_from(name);
        order.ref = (struct wp_slot_ref){n, 1};
        status = port.ops->create(port.self, &order, &err);
        n += status == WP_OK ? 1 : 0;
    }
    assert_int_equal(status, WP_RESOURCE_EXHAUSTED);
    assert_int_equal(n, WP_CLUSTER_RIG_SLOTS);
    assert_int_equal(port.ops->destroy(port.self, order.ref),
                     WP_RESOURCE_EXHAUSTED);
    wp_cluster_rig_fini(&rig);
}

/* --- Pools --- */

static void
a_pool_follows_its_object(void **state)
{
    (void)state;
    wp_cluster_rig_start(&rig, 1);
    assert_int_equal(wp_cluster_rig_objects(&rig), 1);
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p",
                            "{\"spec\":{\"replicas\":3}}");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_objects(&rig), 3);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p");
    wp_cluster_rig_settle(&rig);
    assert_true(wp_cluster_rig_stats(&rig).removed);
    assert_int_equal(wp_cluster_rig_stats(&rig).warming, 0);
    wp_cluster_rig_fini(&rig);
}

static void
without_its_template_nothing_is_made(void **state)
{
    (void)state;
    wp_cluster_rig_init(&rig, 2, NULL);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t");
    wp_cluster_rig_lead(&rig);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_objects(&rig), 0);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 0);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_TEMPLATE,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"t\"},\"spec\":"
        "{\"podTemplate\":{\"spec\":{\"containers\":[]}}}}");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
    wp_cluster_rig_fini(&rig);
}

static void
a_pool_of_a_name_that_is_too_long_is_left_out(void **state)
{
    (void)state;
    wp_cluster_rig_start(&rig, 1);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_WARM_POOL,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":"
        "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"},"
        "\"spec\":{\"replicas\":1,\"sandboxTemplateRef\":{\"name\":\"t\"}}}");
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_pools_count(rig.pools), 1);
    assert_int_equal(wp_cluster_rig_objects(&rig), 1);
    wp_cluster_rig_fini(&rig);
}

/* The server fails with each POST: the pauses grow, through the GET that sees
 * whether it was done. */
static void
orders_that_fail_are_not_repeated_at_full_speed(void **state)
{
    enum {
        JUMPS = 100,
        POSTS_MAX = 20
    };

    (void)state;
    wp_cluster_rig_init(&rig, 1, NULL);
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = KIND,
                                                 .times = POSTS_MAX,
                                                 .status = WP_UNKNOWN_OUTCOME,
                                                 .code = 500});
    wp_cluster_rig_lead(&rig);
    for (int i = 0; i < JUMPS; i++) {
        wp_cluster_rig_pass(&rig, WP_NS_PER_S);
    }
    assert_in_range(wp_recorder_count(rig.api, WP_VERB_POST, KIND), 2,
                    POSTS_MAX);
    assert_true(wp_recorder_planned(rig.api) > 0);
    for (int i = 0; i < 100 && wp_cluster_rig_objects(&rig) == 0; i++) {
        wp_cluster_rig_pass(&rig, 120 * WP_NS_PER_S);
    }
    assert_int_equal(wp_cluster_rig_objects(&rig), 1);
    wp_cluster_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_is_filled_and_its_sandboxes_become_ready),
        cmocka_unit_test(an_address_of_version_6_is_in_brackets),
        cmocka_unit_test(a_lost_answer_makes_no_second_sandbox),
        cmocka_unit_test(what_is_not_made_for_now_is_made_later),
        cmocka_unit_test(one_that_exists_already_is_looked_at),
        cmocka_unit_test(one_of_another_with_its_name_is_left_alone),
        cmocka_unit_test(what_is_refused_for_good_is_not_asked_for_again),
        cmocka_unit_test(a_pool_that_is_stocked_by_a_quarter_has_time),
        cmocka_unit_test(a_refusal_is_a_failure_with_the_servers_words),
        cmocka_unit_test(orders_beyond_what_fits_are_refused_for_now),
        cmocka_unit_test(a_pool_follows_its_object),
        cmocka_unit_test(without_its_template_nothing_is_made),
        cmocka_unit_test(a_pool_of_a_name_that_is_too_long_is_left_out),
        cmocka_unit_test(orders_that_fail_are_not_repeated_at_full_speed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
