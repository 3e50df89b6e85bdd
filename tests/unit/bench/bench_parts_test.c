/* tests/unit/bench/bench_parts_test.c - what the figures rest on: the latency
 * histogram, the duplicate finder and the client's own protobuf reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>

#include "bench/load/claim_codec.h"
#include "bench/load/hist.h"

static struct wp_hist hist;

static void
test_hist_small_values_are_exact(void **state)
{
    (void)state;
    wp_hist_reset(&hist);
    assert_int_equal(wp_hist_quantile_ns(&hist, 0.5), 0);
    for (int64_t v = 1; v <= 100; v++) {
        wp_hist_record(&hist, v);
    }
    assert_int_equal(wp_hist_quantile_ns(&hist, 0.0), 1);
    assert_int_equal(wp_hist_quantile_ns(&hist, 0.5), 50);
    assert_int_equal(wp_hist_quantile_ns(&hist, 0.99), 99);
    assert_int_equal(wp_hist_quantile_ns(&hist, 1.0), 100);
}

/* Every power of two and its neighbours come back within 1/128. */
static void
test_hist_error_is_bounded(void **state)
{
    (void)state;
    for (unsigned bit = 7; bit < 40; bit++) {
        for (int64_t d = -1; d <= 1; d++) {
            int64_t value = (INT64_C(1) << bit) + d;
            int64_t got;

            wp_hist_reset(&hist);
            wp_hist_record(&hist, value);
            wp_hist_record(&hist, INT64_C(1) << 39); /* So max cuts nothing. */
            got = wp_hist_quantile_ns(&hist, 0.5);
            if (value <= INT64_C(1) << 39) {
                assert_true(got >= value && got - value <= value / 128);
            }
        }
    }
}

static void
test_hist_edges_and_merge(void **state)
{
    static struct wp_hist other;

    (void)state;
    wp_hist_reset(&hist);
    wp_hist_reset(&other);
    wp_hist_record(&hist, -5);
    wp_hist_record(&other, INT64_MAX);
    wp_hist_merge(&hist, &other);
    assert_int_equal(hist.count, 2);
    assert_int_equal(hist.min_ns, 0);
    assert_int_equal(hist.max_ns, (INT64_C(1) << 40) - 1);
    assert_int_equal(wp_hist_quantile_ns(&hist, 1.0), hist.max_ns);
}

/* Bytes written out by hand from the .proto file. */
static void
test_codec_writes_claim(void **state)
{
    static const uint8_t expect[] = {
        0x0a, 0x06, 0x0a, 0x01, 'n', 0x12, 0x01, 'p', /* pool */
        0x12, 0x02, 'i',  'd',                        /* claim_id */
        0x28, 0xac, 0x02,                             /* wait_ms 300 */
    };
    uint8_t out[WP_CODEC_CLAIM_MAX];
    size_t len =
        wp_codec_write_claim(out, WP_STR("n"), WP_STR("p"), WP_STR("id"), 300);

    (void)state;
    assert_int_equal(len, sizeof(expect));
    assert_memory_equal(out, expect, len);
}

static void
test_codec_reads_claim(void **state)
{
    static const uint8_t reply[] = {
        0x0a, 0x18,                   /* lease */
        0x0a, 0x02, 'i',  'd',        /* claim_id */
        0x1a, 0x03, 's',  'b',  'x',  /* sandbox */
        0x22, 0x01, 'e',              /* endpoint */
        0x2a, 0x03, 0x00, 0xff, 0x01, /* token */
        0x30, 0x96, 0x01,             /* fence 150 */
        0x40, 0x01,                   /* served warm */
        0x48, 0x05,                   /* waited_us */
        0x10, 0x01,                   /* replayed */
    };
    struct wp_codec_lease lease;

    (void)state;
    assert_true(wp_codec_read_claim(reply, sizeof(reply), &lease));
    assert_true(wp_str_is(lease.claim_id, "id"));
    assert_true(wp_str_is(lease.sandbox, "sbx"));
    assert_true(wp_str_is(lease.endpoint, "e"));
    assert_int_equal(lease.token.len, 3);
    assert_int_equal((uint8_t)lease.token.ptr[1], 0xff);
    assert_int_equal(lease.fence, 150);
    assert_int_equal(lease.served, 1);
    assert_true(lease.replayed);
    for (size_t cut = 1; cut < sizeof(reply) - 2; cut++) {
        assert_false(wp_codec_read_claim(reply, cut, &lease));
    }
}

static void
test_codec_release(void **state)
{
    static const uint8_t expect[] = {0x0a, 0x02, 0xab, 0x00};
    static const uint8_t held[] = {0x08, 0x01};
    uint8_t out[WP_CODEC_RELEASE_MAX];
    bool was_held = false;

    (void)state;
    assert_int_equal(wp_codec_write_release(out, (struct wp_str){"\xab\0", 2}),
                     sizeof(expect));
    assert_memory_equal(out, expect, sizeof(expect));
    assert_true(wp_codec_read_release(held, sizeof(held), &was_held));
    assert_true(was_held);
    assert_true(wp_codec_read_release(NULL, 0, &was_held));
    assert_false(was_held);
    assert_false(wp_codec_read_release(held, 1, &was_held));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hist_small_values_are_exact),
        cmocka_unit_test(test_hist_error_is_bounded),
        cmocka_unit_test(test_hist_edges_and_merge),
        cmocka_unit_test(test_codec_writes_claim),
        cmocka_unit_test(test_codec_reads_claim),
        cmocka_unit_test(test_codec_release),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
