/* Advice without a daemon: who waits for it is told now and then how far it is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "allocator/ctl/advise_local.h"
#include "pool/base/clock.h"

enum {
    CLAIMS = 20000,
    EACH_MS = 250,
    TOLD_EACH_MS = 100, /* As the header says. */
};

static struct {
    uint32_t n;
    double share;
} told;

static void
progress(void *ctx, double share)
{
    assert_ptr_equal(ctx, &told);
    assert_true(share >= told.share && share <= 1);
    told.share = share;
    told.n++;
}

static struct wp_history *
even_claims(void)
{
    const int64_t begun_ns = INT64_C(1780000000) * WP_NS_PER_S;
    struct wp_history *history = wp_history_create(16 << 20);

    assert_non_null(history);
    for (int64_t i = 0; i < CLAIMS; i++) {
        int64_t at_ns = begun_ns + i * EACH_MS * WP_NS_PER_MS;
        struct wp_history_event event = {
            .kind = WP_HISTORY_CLAIMS, .wall_ns = at_ns, .n = 1};

        wp_history_add(history, at_ns, &event);
        event = (struct wp_history_event){.kind = WP_HISTORY_READY,
                                          .wall_ns = at_ns,
                                          .lead_ns = 3 * WP_NS_PER_S};
        wp_history_add(history, at_ns, &event);
    }
    return history;
}

static void
test_progress_is_told_now_and_then(void **state)
{
    struct wp_history *history = even_claims();
    struct wp_advice_config config = {.history = history, .seed = 1};
    struct wp_advice *advice = NULL;
    struct wp_err err;
    int64_t begun_ns;
    int64_t took_ms;

    (void)state;
    wp_scale_policy_init(&config.policy);
    assert_int_equal(wp_advice_create(&config, &advice, &err), WP_OK);
    begun_ns = wp_clock_mono_ns(wp_clock_system());
    assert_int_equal(wp_advise_run_all(advice, progress, &told, &err), WP_OK);
    took_ms = (wp_clock_mono_ns(wp_clock_system()) - begun_ns) / WP_NS_PER_MS;
    /* And once more whenever a thread has ended. */
    assert_in_range(told.n, 1, took_ms / TOLD_EACH_MS + 100);
    assert_true(told.share > 0);
    wp_advice_destroy(advice);
    wp_history_destroy(history);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress_is_told_now_and_then),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
