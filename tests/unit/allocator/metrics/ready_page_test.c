/* The pages /readyz and /healthz: each reason why a daemon is not ready. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "tests/unit/allocator/metrics/numbers.h"
#include "tests/unit/allocator/metrics/tells.h"

static const char *
ready_page(unsigned status)
{
    return tells_render(status, WP_VIEW_ALL, wp_http_ready_page);
}

static void
test_each_reason_not_to_be_ready(void **state)
{
    (void)state;
    assert_string_equal(ready_page(200), "ready\n");
    tells.accepts = false;
    assert_string_equal(ready_page(503),
                        "not ready: no connection can be accepted for want of "
                        "descriptors\n");
    tells.metrics.rpc = NULL;
    assert_string_equal(ready_page(200), "ready\n");
    tells.holds_unseen = true;
    assert_string_equal(ready_page(503),
                        "not ready: which of the sandboxes live that an "
                        "earlier daemon left is being found out\n");
    tells.holds_unseen = false;
    tells.manual.now_mono_ns = WP_NS_PER_S;
    atomic_init(&tells.meter.failed_at_ns, WP_NS_PER_S);
    assert_string_equal(ready_page(503), "not ready: the lease store is out of "
                                         "reach or cannot write\n");
    tells.manual.now_mono_ns += WP_LEASE_METER_DOUBT_NS + 1;
    assert_string_equal(ready_page(200), "ready\n");
    tells.metrics.not_ready = tells_not_ready;
    assert_string_equal(ready_page(200), "ready\n");
    tells.not_ready = "nobody knows";
    assert_string_equal(ready_page(503), "not ready: nobody knows\n");
    tells.not_ready = NULL;
    atomic_store(&tells.metrics.serving, false);
    assert_string_equal(ready_page(503),
                        "not ready: the daemon is starting or draining\n");
}

/* Each pool that cannot serve is told of; a cluster's are not judged. */
static void
test_each_pool_that_is_not_ready(void **state)
{
    struct wp_pool_stats *s;

    (void)state;
    s = tells_add_pool("blue", "alpha", "bare", 1);
    memset(tells.lead_time, 0, sizeof tells.lead_time);
    s->ready = 0;
    assert_string_equal(ready_page(503),
                        "not ready: pool blue/alpha: no sandbox has become "
                        "ready yet (3 being made)\n");
    s->breaker_open = true;
    (void)strcpy(s->last_failure, "no disk");
    assert_string_equal(ready_page(503),
                        "not ready: pool blue/alpha: creation is paused "
                        "because nothing becomes ready (3 being made); last "
                        "failure: no disk\n");
    tells.metrics.not_ready = tells_not_ready;
    assert_string_equal(ready_page(200), "ready\n");
    tells.metrics.not_ready = NULL;
    s->draining = true;
    assert_string_equal(ready_page(200), "ready\n");
    s->draining = false;
    s->ready = 1;
    assert_string_equal(ready_page(200), "ready\n");
    s->ready = 0;
    s->spec.target = 0;
    assert_string_equal(ready_page(200), "ready\n");
    s->spec.target = 1;
    s->breaker_open = false;
    numbers_record(&tells.lead_time[0], 1);
    assert_string_equal(ready_page(200), "ready\n");
}

static void
test_healthy_while_anything_answers(void **state)
{
    (void)state;
    atomic_store(&tells.metrics.serving, false);
    assert_string_equal(tells_render(200, WP_VIEW_TENANT, wp_http_health_page),
                        "ok\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_each_reason_not_to_be_ready, tells_set_up),
        cmocka_unit_test_setup(test_each_pool_that_is_not_ready, tells_set_up),
        cmocka_unit_test_setup(test_healthy_while_anything_answers,
                               tells_set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
