/* What a replica may send while it leads and while it does not, and what is told
 * when it is not allowed to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/cluster/cluster_impl.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/timers.h"
#include "tests/support/k8s/api_recorder.h"
#include "tests/support/pool/manual_clock.h"

#define LEASES "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
#define CLAIMS                                                                 \
    "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/ns/sandboxclaims"
#define SANDBOXES "/apis/agents.x-k8s.io/v1beta1/namespaces/ns/sandboxes"

static struct wp_cluster cluster;
static struct wp_clock_manual clock_;
static struct heard heard;

static void
begin(bool election)
{
    struct wp_err err;

    wp_clock_manual_init(&clock_, 100 * WP_NS_PER_S, 100 * WP_NS_PER_S);
    memset(&cluster, 0, sizeof cluster);
    cluster.parts = (struct wp_parts){
        .config = {.clock = &clock_.clock,
                   .controllers = WP_CONTROLLER_POOL,
                   .election = election,
                   .election_ns = "ns",
                   .election_name = "warmpool",
                   .identity = "me",
                   .sandboxes_max = 8},
        .base = event_base_new(),
        .clock = &clock_.clock,
        .api = wp_recorder_create(),
        .seed = 1,
    };
    wp_recorder_serve(cluster.parts.api);
    assert_int_equal(wp_cluster_make_stores(&cluster, &err), WP_OK);
    cluster.backend = wp_cluster_backend_create(&cluster.parts, &err);
    assert_non_null(cluster.backend);
    assert_int_equal(wp_cluster_start_leading(&cluster, &err), WP_OK);
}

static void
end(void)
{
    wp_election_stop(cluster.election);
    wp_api_destroy(cluster.parts.api);
    wp_cluster_backend_destroy(cluster.backend);
    for (size_t i = 0; i < WP_KIND_COUNT; i++) {
        wp_store_destroy(cluster.parts.stores[i]);
    }
    event_base_free(cluster.parts.base);
}

static void
go_on(void)
{
    timers_fire_all(cluster.parts.base);
    (void)wp_recorder_run(cluster.parts.api);
}

static void
win(void)
{
    for (int i = 0; i < 20 && !cluster.elected; i++) {
        go_on();
        wp_clock_manual_advance(&clock_, WP_NS_PER_S);
    }
    assert_true(cluster.elected);
    assert_true(cluster.has_led);
}

static bool
may(const char *method, const char *path)
{
    return wp_cluster_may_send(&cluster, method, path, WP_HTTP_NORMAL);
}

/* Also one that stood still for so long that another may lead by now. */
static void
who_does_not_lead_reads_and_makes_claims(void **state)
{
    (void)state;
    begin(true);
    for (int i = 0; i < 2; i++) {
        assert_true(may("GET", SANDBOXES));
        assert_true(may("POST", LEASES));
        assert_true(may("PUT", LEASES "/warmpool"));
        assert_true(may("POST", CLAIMS));
        assert_false(may("PATCH", CLAIMS));
        assert_false(may("POST", CLAIMS "/c"));
        assert_false(may("POST", SANDBOXES));
        assert_false(may("PATCH", SANDBOXES "/s"));
        assert_false(may("DELETE", SANDBOXES "/s"));
        if (i == 0) {
            win();
            assert_true(may("POST", SANDBOXES));
            assert_true(may("PATCH", SANDBOXES "/s"));
            assert_true(may("DELETE", SANDBOXES "/s"));
            wp_clock_manual_advance(&clock_, 3600 * WP_NS_PER_S);
        }
    }
    end();
}

static void
without_an_election_all_may_go(void **state)
{
    (void)state;
    begin(false);
    assert_true(cluster.elected);
    assert_true(may("POST", SANDBOXES));
    assert_true(may("DELETE", SANDBOXES "/s"));
    end();
}

/* As k8s/lead/scope.h has it. */
static void
others_are_told_what_it_serves(void **state)
{
    struct wp_err err;

    (void)state;
    begin(true);
    assert_string_equal(cluster.scope, "* pool");
    wp_election_stop(cluster.election);
    cluster.parts.config.watch_ns = "team";
    cluster.parts.config.controllers =
        WP_CONTROLLER_CLAIM | WP_CONTROLLER_TEMPLATE | WP_CONTROLLER_SANDBOX;
    assert_int_equal(wp_cluster_start_leading(&cluster, &err), WP_OK);
    assert_string_equal(cluster.scope, "team claim,template,sandbox");
    end();
}

/* Is it told that the lease is refused? */
static bool
told(void)
{
    heard_begin(&heard);
    wp_cluster_check_lease(&cluster);
    return strstr(heard_end(&heard),
                  "ERROR the API server does not let this account lead") !=
           NULL;
}

static bool
refused(void)
{
    return atomic_load_explicit(&cluster.refused, memory_order_relaxed);
}

static void
a_lease_that_is_refused_is_told_each_minute(void **state)
{
    (void)state;
    begin(true);
    assert_false(told());
    assert_false(refused());
    wp_recorder_plan(cluster.parts.api, &(struct wp_recorder_fault){
                                            .verb = WP_VERB_POST,
                                            .kind = WP_KIND_LEASE,
                                            .status = WP_PERMISSION_DENIED});
    for (int i = 0; i < 20 && wp_recorder_planned(cluster.parts.api) > 0; i++) {
        go_on();
        wp_clock_manual_advance(&clock_, WP_NS_PER_S);
    }
    assert_true(told());
    assert_true(refused());
    wp_clock_manual_advance(&clock_, 60 * WP_NS_PER_S - 1);
    assert_false(told());
    wp_clock_manual_advance(&clock_, 1);
    assert_true(told());
    /* Who has led serves on as it is. */
    cluster.has_led = true;
    assert_false(told());
    assert_false(refused());
    /* Once it is allowed, that is over, and the next time is told at once. */
    win();
    assert_false(told());
    assert_int_equal(cluster.refused_logged_ns, 0);
    end();
}

static uint32_t begun;
static uint32_t ended;

static void
on_leading(void *ctx, bool leads)
{
    assert_ptr_equal(ctx, &cluster);
    begun += leads;
    ended += !leads;
}

/* Its end is told once, and only of what had begun. */
static void
what_served_serves_no_more(void **state)
{
    static const struct {
        bool activating;
        bool serving;
    } cases[] = {{false, false}, {true, false}, {false, true}};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        begin(true);
        win();
        begun = ended = 0;
        cluster.parts.core.ctx = &cluster;
        cluster.parts.core.on_leading = on_leading;
        cluster.parts.active = true;
        cluster.activating = cases[i].activating;
        cluster.serving = cases[i].serving;
        atomic_store_explicit(&cluster.leads, cases[i].serving,
                              memory_order_release);
        for (int times = 0; times < 2; times++) {
            wp_cluster_deactivate(&cluster);
            assert_false(cluster.parts.active);
            assert_false(cluster.activating);
            assert_false(cluster.serving);
            assert_false(cluster.active);
            assert_false(
                atomic_load_explicit(&cluster.leads, memory_order_acquire));
            assert_int_equal(begun, 0);
            assert_int_equal(ended, cases[i].serving ? 1 : 0);
        }
        end();
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_does_not_lead_reads_and_makes_claims),
        cmocka_unit_test(others_are_told_what_it_serves),
        cmocka_unit_test(without_an_election_all_may_go),
        cmocka_unit_test(a_lease_that_is_refused_is_told_each_minute),
        cmocka_unit_test(what_served_serves_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
