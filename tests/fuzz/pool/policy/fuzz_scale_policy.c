/* Any bytes as lines of "key=value": what is taken is shown again so that it
 * means the same, and its schedules answer for any time. */
#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/policy/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool truth)
{
    if (!truth) {
        abort();
    }
}

static void
set_line(struct wp_scale_policy *policy, struct wp_str line)
{
    const char *equals = line.len > 0 ? memchr(line.ptr, '=', line.len) : NULL;
    struct wp_scale_policy before = *policy;
    struct wp_err err = {.status = WP_OK, .msg = ""};
    struct wp_str key = line;
    struct wp_str value = {NULL, 0};

    if (equals != NULL) {
        key.len = (size_t)(equals - line.ptr);
        value = (struct wp_str){equals + 1, line.len - key.len - 1};
    }
    if (wp_scale_policy_set(policy, key, value, &err) != WP_OK) {
        check(err.status == WP_INVALID_ARGUMENT && err.msg[0] != '\0');
        check(wp_str_is_utf8(wp_str_from(err.msg)));
        check(wp_scale_policy_eq(policy, &before));
    }
}

static void
check_shown(const struct wp_scale_policy *policy)
{
    static char value[WP_SCALE_VALUE_MAX];
    struct wp_scale_policy again;

    wp_scale_policy_init(&again);
    for (unsigned i = 0; wp_scale_policy_key(i) != NULL; i++) {
        struct wp_str key = wp_str_from(wp_scale_policy_key(i));

        if (wp_scale_policy_get(policy, key, value, sizeof value)) {
            check(wp_scale_policy_set(&again, key, wp_str_from(value), NULL) ==
                  WP_OK);
        }
    }
    check(wp_scale_policy_eq(policy, &again));
    check(wp_scale_policy_check(policy, NULL) ==
          wp_scale_policy_check(&again, NULL));
}

static void
check_floors(struct wp_scale_policy *policy, uint64_t seed)
{
    for (int i = 0; i < 8; i++) {
        int64_t wall_ns =
            (int64_t)(seed = seed * UINT64_C(6364136223846793005) +
                             UINT64_C(1442695040888963407));
        struct wp_scale_policy fresh;
        int64_t changes_ns;
        int64_t fresh_ns;
        uint32_t floor;

        wall_ns /= i % 2 == 0 ? 1 : 8;
        fresh = *policy;
        for (uint32_t j = 0; j < fresh.n_floors; j++) {
            wp_schedule_forget(&fresh.floors[j]);
        }
        floor = wp_scale_policy_floor(policy, wall_ns, &changes_ns);
        check(floor == wp_scale_policy_floor(&fresh, wall_ns, &fresh_ns));
        check(changes_ns > wall_ns || changes_ns == WP_TIME_NEVER ||
              wall_ns > INT64_MAX - 40 * 24 * 3600 * WP_NS_PER_S);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_scale_policy policy;
    const char *at = (const char *)data;
    size_t left = size;

    wp_scale_policy_init(&policy);
    while (left > 0) {
        const char *end = memchr(at, '\n', left);
        size_t len = end != NULL ? (size_t)(end - at) : left;

        set_line(&policy, (struct wp_str){at, len});
        len += end != NULL ? 1 : 0;
        at += len;
        left -= len;
    }
    check_shown(&policy);
    check_floors(&policy, size > 0 ? (uint64_t)data[size - 1] * size : 1);
    return 0;
}
