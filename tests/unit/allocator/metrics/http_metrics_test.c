/* The pages of the daemon, on a pool with a fake backend. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>

#include "allocator/metrics/page.h"
#include "allocator/metrics/prometheus.h"
#include "tests/support/pool/pool_rig.h"

static char page[1 << 16];

static unsigned
render_for(enum wp_view view,
           unsigned (*fn)(void *, enum wp_view, struct evbuffer *,
                          const char **),
           void *ctx)
{
    struct evbuffer *body = evbuffer_new();
    const char *type = "";
    unsigned status = fn(ctx, view, body, &type);
    ev_ssize_t n = evbuffer_remove(body, page, sizeof page - 1);

    page[n > 0 ? n : 0] = '\0';
    evbuffer_free(body);
    return status;
}

static unsigned
render(unsigned (*fn)(void *, enum wp_view, struct evbuffer *, const char **),
       void *ctx)
{
    return render_for(WP_VIEW_ALL, fn, ctx);
}

static void
assert_has(const char *part)
{
    if (strstr(page, part) == NULL) {
        fail_msg("expected \"%s\" in \"%.2000s\"", part, page);
    }
}

static void
metrics_init(struct wp_http_metrics *m, struct wp_rig *rig)
{
    memset(m, 0, sizeof *m);
    m->pools = rig->pools;
    m->backend = "fake";
    m->lease_store = "memory";
    atomic_init(&m->serving, true);
}

static void
test_ready_page(void **state)
{
    struct wp_http_metrics m;
    struct wp_rig rig;
    struct wp_rig_claim c;

    (void)state;
    wp_rig_init(&rig, 8, 0, NULL);
    metrics_init(&m, &rig);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 2, NULL), WP_OK);
    wp_rig_settle(&rig);
    /* Being made for the first time: claims would only wait. */
    assert_int_equal(render(wp_http_ready_page, &m), 503);
    assert_string_equal(page, "not ready: pool default/p: no sandbox has "
                              "become ready yet (2 being made)\n");
    assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 1), 1);
    assert_int_equal(render(wp_http_ready_page, &m), 200);
    assert_string_equal(page, "ready\n");
    /* Empty from demand, but known to work. */
    wp_rig_claim_init(&c, "c1", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &c), WP_OK);
    assert_int_equal(wp_rig_stats(&rig).ready, 0);
    assert_int_equal(render(wp_http_ready_page, &m), 200);
    /* Draining or starting. */
    atomic_store(&m.serving, false);
    assert_int_equal(render(wp_http_ready_page, &m), 503);
    assert_has("starting or draining");
    rig.backend.ready = WP_FAKE_READY_NEXT_TURN;
    assert_int_equal(wp_rig_release(&rig, &c, NULL), WP_OK);
    (void)wp_fake_backend_make_ready(&rig.backend, 8);
    wp_rig_settle(&rig);
    wp_rig_fini(&rig);
}

static void
test_not_ready_when_the_breaker_is_open(void **state)
{
    struct wp_http_metrics m;
    struct wp_rig rig;

    (void)state;
    wp_rig_init(&rig, 8, 0, NULL);
    metrics_init(&m, &rig);
    rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 2, NULL), WP_OK);
    for (int i = 0; i < 50 && !wp_rig_stats(&rig).breaker_open; i++) {
        wp_rig_settle(&rig);
        (void)wp_fake_backend_fail(&rig.backend, 8, "no \"disk\"\nleft");
        wp_rig_advance(&rig, WP_NS_PER_S);
    }
    assert_true(wp_rig_stats(&rig).breaker_open);
    assert_int_equal(render(wp_http_ready_page, &m), 503);
    assert_has("creation is paused because nothing becomes ready");
    assert_has("last failure: no \"disk\"");
    assert_int_equal(render(wp_http_metrics_page, &m), 200);
    assert_has("\nwarmpool_breaker_open{namespace=\"default\",pool=\"p\"} 1\n");
    rig.backend.ready = WP_FAKE_READY_NEXT_TURN;
    (void)wp_fake_backend_make_ready(&rig.backend, 8);
    wp_rig_advance(&rig, 600 * WP_NS_PER_S);
    wp_rig_fini(&rig);
}

static void
test_empty_pool_is_ready(void **state)
{
    struct wp_http_metrics m;
    struct wp_rig rig;

    (void)state;
    wp_rig_init(&rig, 8, 0, NULL);
    metrics_init(&m, &rig);
    wp_rig_settle(&rig);
    assert_int_equal(render(wp_http_ready_page, &m), 200);
    wp_rig_fini(&rig);
}

static uint32_t keepers;

static uint32_t
count_keepers(void *ctx)
{
    (void)ctx;
    return keepers;
}

/* What another daemon makes is judged by whether that one is heard. */
static void
test_followers_need_a_keeper(void **state)
{
    struct wp_http_metrics m;
    _Atomic(bool) keeper;
    struct wp_rig rig;

    (void)state;
    wp_rig_init(&rig, 8, 0, NULL);
    metrics_init(&m, &rig);
    atomic_init(&keeper, false);
    m.keeper = &keeper;
    m.keepers = count_keepers;
    rig.backend.ready = WP_FAKE_READY_TOLD;
    assert_int_equal(wp_pools_set_target(rig.pools, 0, 2, NULL), WP_OK);
    wp_rig_settle(&rig);
    keepers = 1;
    assert_int_equal(render(wp_http_ready_page, &m), 200);
    keepers = 0;
    assert_int_equal(render(wp_http_ready_page, &m), 503);
    assert_string_equal(page, "not ready: pool default/p: no sandbox is ready, "
                              "and no daemon that makes them is heard "
                              "(2 being made)\n");
    /* What is ready can be claimed, whoever is heard. */
    assert_int_equal(wp_fake_backend_make_ready(&rig.backend, 2), 2);
    assert_int_equal(render(wp_http_ready_page, &m), 200);
    wp_rig_fini(&rig);
}

static void
test_metrics_page(void **state)
{
    struct wp_http_metrics m;
    struct wp_rig rig;
    struct wp_rig_claim c;

    (void)state;
    wp_rig_init(&rig, 8, 2, NULL);
    metrics_init(&m, &rig);
    wp_rig_settle(&rig);
    wp_rig_claim_init(&c, "c1", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &c), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(render(wp_http_metrics_page, &m), 200);
    assert_has("# TYPE warmpool_sandboxes gauge\n");
    assert_has("warmpool_sandboxes{namespace=\"default\",pool=\"p\","
               "state=\"leased\"} 1\n");
    assert_has("warmpool_sandboxes{namespace=\"default\",pool=\"p\","
               "state=\"ready\"} 2\n");
    assert_has("warmpool_claims_total{namespace=\"default\",pool=\"p\","
               "served=\"warm\"} 1\n");
    assert_has("warmpool_sandboxes_created_total{namespace=\"default\","
               "pool=\"p\"} 3\n");
    assert_has("warmpool_claim_wait_seconds_count{namespace=\"default\","
               "pool=\"p\"} 1\n");
    assert_has("agent_sandboxes{namespace=\"default\","
               "ready_condition=\"true\",expired=\"false\","
               "launch_type=\"warm\",sandbox_template=\"t\","
               "owned_by=\"SandboxClaim\",created_by=\"warmpool\"} 1\n");
    assert_has("agent_sandbox_warmpool_size{namespace=\"default\","
               "warmpool_name=\"p\",sandbox_template=\"t\","
               "sandbox_status=\"ready\"} 2\n");
    assert_int_equal(wp_rig_release(&rig, &c, NULL), WP_OK);
    wp_rig_settle(&rig);
    wp_rig_fini(&rig);
}

/* A tenant sees whether a claim would be served, and not how others use the
 * pools, nor how the daemon fares. */
static void
test_tenants_see_no_others(void **state)
{
    static const char *const seen[] = {
        "warmpool_build_info",   "warmpool_sandboxes",
        "warmpool_pool_target",  "warmpool_pool_draining",
        "warmpool_breaker_open", "agent_sandbox_warmpool_size",
    };
    struct wp_http_metrics m;
    struct wp_rig rig;
    struct wp_rig_claim c;
    uint32_t families = 0;

    (void)state;
    wp_rig_init(&rig, 8, 2, NULL);
    metrics_init(&m, &rig);
    wp_rig_settle(&rig);
    wp_rig_claim_init(&c, "c1", "", 0, 0);
    assert_int_equal(wp_rig_claim(&rig, &c), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(render_for(WP_VIEW_TENANT, wp_http_metrics_page, &m), 200);
    assert_has("warmpool_sandboxes{namespace=\"default\",pool=\"p\","
               "state=\"ready\"} 2\n");
    assert_null(strstr(page, "state=\"leased\""));
    for (size_t i = 0; i < WP_ARRAY_LEN(seen); i++) {
        char line[64];

        (void)snprintf(line, sizeof line, "# TYPE %s ", seen[i]);
        assert_has(line);
    }
    for (const char *p = page; (p = strstr(p, "# TYPE ")) != NULL; p++) {
        families++;
    }
    assert_int_equal(families, WP_ARRAY_LEN(seen));
    assert_int_equal(wp_rig_release(&rig, &c, NULL), WP_OK);
    wp_rig_settle(&rig);
    wp_rig_fini(&rig);
}

/* Two pools of one template make one series of agent_sandboxes, not the same
 * one twice. */
static void
test_pools_of_one_template(void **state)
{
    struct wp_http_metrics m;
    struct wp_rig rig;
    struct wp_pool_spec spec;
    struct wp_err err;
    uint32_t index;
    const char *first;

    (void)state;
    wp_rig_init(&rig, 8, 2, NULL);
    metrics_init(&m, &rig);
    spec = wp_rig_stats(&rig).spec;
    (void)strcpy(spec.name, "q");
    spec.target = 3;
    assert_int_equal(wp_pools_add(rig.pools, &spec, &index, &err), WP_OK);
    wp_rig_settle(&rig);
    assert_int_equal(render(wp_http_metrics_page, &m), 200);
    first = strstr(page, "owned_by=\"SandboxWarmPool\"");
    assert_non_null(first);
    assert_has("owned_by=\"SandboxWarmPool\",created_by=\"warmpool\"} 5\n");
    /* Ready and not ready: two lines, however many pools. */
    first = strstr(first + 1, "owned_by=\"SandboxWarmPool\"");
    assert_non_null(first);
    assert_null(strstr(first + 1, "owned_by=\"SandboxWarmPool\""));
    wp_rig_fini(&rig);
}

static unsigned
render_escaped(void *ctx, enum wp_view view, struct evbuffer *body,
               const char **type)
{
    struct wp_prom_label label = {"l", "a\"b\\c\nd"};

    (void)ctx;
    (void)view;
    (void)type;
    wp_prom_family(body, "x", "gauge", "Help.");
    wp_prom_sample(body, "x", &label, 1, 0.5);
    wp_prom_sample(body, "x", NULL, 0, 18446744073709551615.0);
    return 200;
}

static unsigned
render_kinds(void *ctx, enum wp_view view, struct evbuffer *body,
             const char **type)
{
    static const char *const names[] = {"_total", "total", "x_total",
                                        "x_totals", "x"};

    (void)ctx;
    (void)view;
    (void)type;
    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        wp_prom_put(body, names[i], "Help.", (double)i);
    }
    return 200;
}

/* What ends with _total is counted; all else goes up and down. */
static void
test_kinds(void **state)
{
    (void)state;
    (void)render(render_kinds, NULL);
    assert_string_equal(
        page, "# HELP _total Help.\n# TYPE _total counter\n_total 0\n"
              "# HELP total Help.\n# TYPE total gauge\ntotal 1\n"
              "# HELP x_total Help.\n# TYPE x_total counter\nx_total 2\n"
              "# HELP x_totals Help.\n# TYPE x_totals gauge\nx_totals 3\n"
              "# HELP x Help.\n# TYPE x gauge\nx 4\n");
}

static void
test_escaping(void **state)
{
    (void)state;
    (void)render(render_escaped, NULL);
    assert_string_equal(page, "# HELP x Help.\n# TYPE x gauge\n"
                              "x{l=\"a\\\"b\\\\c\\nd\"} 0.5\n"
                              "x 1.8446744073709552e+19\n");
}

static unsigned
render_histogram(void *ctx, enum wp_view view, struct evbuffer *body,
                 const char **type)
{
    (void)view;
    (void)type;
    wp_prom_histogram(body, "h", NULL, 0, ctx);
    return 200;
}

/* Buckets are cumulative, their bounds exact, and none is lost at the ends. */
static void
test_histogram(void **state)
{
    static struct wp_histogram histogram;
    struct wp_histogram_view view;

    (void)state;
    wp_histogram_record(&histogram, 1000);               /* Below the first. */
    wp_histogram_record(&histogram, 63 * 1000);          /* In the first. */
    wp_histogram_record(&histogram, 65 * 1000);          /* In the second. */
    wp_histogram_record(&histogram, 3600 * WP_NS_PER_S); /* Beyond. */
    wp_histogram_read(&histogram, &view);
    (void)render(render_histogram, &view);
    assert_has("h_bucket{le=\"6.4e-05\"} 2\n");
    assert_has("h_bucket{le=\"0.000128\"} 3\n");
    assert_has("h_bucket{le=\"134.217728\"} 3\n");
    assert_has("h_bucket{le=\"+Inf\"} 4\n");
    assert_has("\nh_sum 3600.00013\n");
    assert_has("\nh_count 4\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ready_page),
        cmocka_unit_test(test_not_ready_when_the_breaker_is_open),
        cmocka_unit_test(test_empty_pool_is_ready),
        cmocka_unit_test(test_followers_need_a_keeper),
        cmocka_unit_test(test_metrics_page),
        cmocka_unit_test(test_tenants_see_no_others),
        cmocka_unit_test(test_pools_of_one_template),
        cmocka_unit_test(test_escaping),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_histogram),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
