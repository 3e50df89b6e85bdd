/* The core's backend for a cluster, when what is known of that may be of another
 * one: pools never get more than they are to have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "tests/support/base/heard.h"
#include "tests/support/k8s/cluster_rig.h"

#define KIND WP_KIND_SANDBOX

static struct wp_cluster_rig rig;

/* One is gone, and another one in its place is ordered, but not begun. */
static void
order_in_doubt(void)
{
    wp_cluster_rig_start(&rig, 2);
    wp_cluster_rig_all_ready(&rig);
    wp_cluster_backend_doubt(rig.backend, true);
    wp_recorder_remove(rig.api, KIND, "ns", wp_cluster_rig_name(&rig, 0));
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_objects(&rig), 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).warming, 1);
}

static void
in_doubt_nothing_is_made(void **state)
{
    (void)state;
    order_in_doubt();
    wp_cluster_backend_doubt(rig.backend, false);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
    assert_int_equal(wp_cluster_rig_stats(&rig).warming, 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 0);
    wp_cluster_rig_fini(&rig);
}

/* What a list brought takes the place of what was ordered without it, and
 * nothing is amiss then. */
static void
what_came_in_doubt_counts_before_orders(void **state)
{
    static struct heard heard;
    const char *said;

    (void)state;
    order_in_doubt();
    heard_begin(&heard);
    wp_cluster_rig_put_foreign(&rig, "p-x7k2q");
    wp_cluster_rig_settle(&rig);
    wp_cluster_backend_doubt(rig.backend, false);
    wp_cluster_rig_settle(&rig);
    said = heard_end(&heard);
    assert_null(strstr(said, "WARN"));
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).posted, 2);
    assert_int_equal(wp_cluster_rig_stats(&rig).warming, 1);
    assert_int_equal(wp_cluster_rig_stats(&rig).failed_total, 0);
    wp_cluster_rig_fini(&rig);
}

static void
orders_of_an_earlier_term_come_to_nothing(void **state)
{
    (void)state;
    order_in_doubt();
    wp_cluster_rig_follow(&rig);
    wp_cluster_rig_put_foreign(&rig, "p-x7k2q");
    wp_cluster_backend_doubt(rig.backend, false);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
    wp_cluster_rig_lead(&rig);
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).posted, 2);
    assert_int_equal(wp_cluster_rig_stats(&rig).warming, 1);
    wp_cluster_rig_fini(&rig);
}

/* The core orders for it before it can know of those. */
static void
a_pool_that_comes_back_has_what_it_had(void **state)
{
    json_t *pool;
    char *text;

    (void)state;
    wp_cluster_rig_init(&rig, 2, NULL);
    wp_cluster_rig_put_foreign(&rig, "p-x7k2q");
    wp_cluster_rig_put_foreign(&rig, "p-abcde");
    pool = json_deep_copy(
        wp_recorder_object(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p"));
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "p");
    wp_cluster_rig_lead(&rig);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).found, 0);
    (void)json_object_del(json_object_get(pool, "metadata"), "resourceVersion");
    text = json_dumps(pool, 0);
    assert_non_null(text);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_WARM_POOL, text);
    wp_cluster_rig_settle(&rig);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).posted, 0);
    assert_int_equal(wp_cluster_rig_backend_stats(&rig).found, 2);
    assert_int_equal(wp_cluster_rig_objects(&rig), 2);
    free(text);
    json_decref(pool);
    wp_cluster_rig_fini(&rig);
}

/* What was queued before, and would leave now: sandboxes for pools may not, what
 * a claim waits for may. */
static void
in_doubt_what_was_queued_stays(void **state)
{
    static const struct {
        const char *method;
        const char *path;
        enum wp_http_priority priority;
        bool goes;
    } rows[] = {
        {"POST", "/apis/agents.x-k8s.io/v1beta1/namespaces/ns/sandboxes",
         WP_HTTP_REFILL, false},
        {"POST", "/apis/agents.x-k8s.io/v1beta1/namespaces/ns/sandboxes",
         WP_HTTP_CLAIM, true},
        {"POST", "/api/v1/namespaces/ns/pods", WP_HTTP_REFILL, true},
        {"PATCH", "/apis/agents.x-k8s.io/v1beta1/namespaces/ns/sandboxes/p-1",
         WP_HTTP_REFILL, true},
        {"GET", "/apis/agents.x-k8s.io/v1beta1/namespaces/ns/sandboxes",
         WP_HTTP_REFILL, true},
    };

    (void)state;
    wp_cluster_rig_start(&rig, 1);
    for (int doubtful = 1; doubtful >= 0; doubtful--) {
        wp_cluster_backend_doubt(rig.backend, doubtful != 0);
        wp_cluster_rig_settle(&rig);
        for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
            assert_int_equal(
                wp_cluster_backend_may_send(rig.backend, rows[i].method,
                                            rows[i].path, rows[i].priority),
                rows[i].goes || doubtful == 0);
        }
    }
    wp_cluster_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_doubt_nothing_is_made),
        cmocka_unit_test(in_doubt_what_was_queued_stays),
        cmocka_unit_test(what_came_in_doubt_counts_before_orders),
        cmocka_unit_test(orders_of_an_earlier_term_come_to_nothing),
        cmocka_unit_test(a_pool_that_comes_back_has_what_it_had),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
