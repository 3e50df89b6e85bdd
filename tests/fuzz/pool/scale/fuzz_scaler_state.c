/* What a scaler learned, read back: whatever the bytes are, it is refused or
 * can be worked with. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/scale/scaler.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum {
    INPUT_MAX = 1 << 16,
    HEAD_LEN = 8, /* Magic and version: without them no input gets far. */
};

static void
work(struct wp_scaler *scaler)
{
    struct wp_scale_view view = {.mono_ns = 5 * WP_NS_PER_S,
                                 .wall_ns = 2000 * WP_NS_PER_S,
                                 .replicas = 3,
                                 .room = 100,
                                 .budget = UINT32_MAX};

    for (int i = 0; i < 20; i++) {
        struct wp_scale_decision decision;
        char text[WP_SCALE_TEXT_MAX];
        int64_t next_ns;

        view.mono_ns += WP_NS_PER_S << (i / 2);
        view.wall_ns += WP_NS_PER_S << (i / 2);
        wp_scaler_on_claims(scaler, view.mono_ns, 1U << i, (unsigned)i);
        wp_scaler_on_ready(scaler, view.mono_ns, WP_NS_PER_S << (i / 4));
        decision = wp_scaler_decide(scaler, &view, &next_ns);
        WP_ASSERT(next_ns > view.mono_ns);
        WP_ASSERT(decision.reason == WP_SCALE_BY_HAND ||
                  (decision.target >= 2 && decision.target <= 5000));
        WP_ASSERT(isfinite(decision.expected) && isfinite(decision.spread));
        WP_ASSERT(isfinite(decision.hit_rate) && isfinite(decision.idle));
        wp_scale_decision_format(&decision, text, sizeof text);
    }
}

static void
load(const uint8_t *bytes, size_t len)
{
    struct wp_scaler *scaler = wp_scaler_create(
        WP_MISS_LOST, 3, WP_NS_PER_S, WP_NS_PER_S, 1000 * WP_NS_PER_S);
    struct wp_scale_policy policy;
    struct wp_err err;

    WP_ASSERT(scaler != NULL);
    wp_scale_policy_init(&policy);
    policy.objective = WP_SCALE_HIT_RATE;
    policy.hit_rate = 0.99;
    policy.min = 2;
    policy.max = 5000;
    wp_scaler_set_policy(scaler, &policy);
    if (wp_scaler_load(scaler, WP_NS_PER_S, 1000 * WP_NS_PER_S, bytes, len,
                       &err) == WP_OK) {
        work(scaler);
        WP_ASSERT(wp_scaler_save(scaler, WP_NS_PER_S, WP_NS_PER_S, NULL, 0) >
                  HEAD_LEN);
    }
    wp_scaler_destroy(scaler);
}

/* The head that a scaler of today writes. */
static void
put_head(uint8_t *bytes)
{
    static uint8_t saved[WP_SCALE_STATE_MAX];
    struct wp_scaler *scaler = wp_scaler_create(WP_MISS_LOST, 3, 0, 0, 0);

    WP_ASSERT(scaler != NULL);
    WP_ASSERT(wp_scaler_save(scaler, 0, 0, saved, sizeof saved) > HEAD_LEN);
    memcpy(bytes, saved, HEAD_LEN);
    wp_scaler_destroy(scaler);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static uint8_t bytes[INPUT_MAX];

    if (len > INPUT_MAX) {
        return 0;
    }
    load(data, len);
    if (len >= HEAD_LEN) {
        memcpy(bytes, data, len);
        put_head(bytes);
        load(bytes, len);
    }
    return 0;
}
