/* Annotations of pools: each sets its field and no other, within its bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pool/annotations/annotations.h"
#include "pool/annotations/tier.h"
#include "pool/base/compiler.h"

#define OURS "pool.warmpool.io/"

static enum wp_status
set(struct wp_pool_spec *spec, const char *key, const char *value,
    struct wp_err *err)
{
    err->msg[0] = '\0';
    return wp_pool_annotation_set(spec, wp_str_from(key), wp_str_from(value),
                                  err);
}

/* *spec is `was` but for the bytes of one field. */
static void
check_only(const struct wp_pool_spec *spec, const struct wp_pool_spec *was,
           size_t offset, const void *value, size_t size)
{
    struct wp_pool_spec expected;

    memcpy(&expected, was, sizeof expected);
    memcpy((char *)&expected + offset, value, size);
    assert_memory_equal(spec, &expected, sizeof expected);
}

#define FIELD(field) offsetof(struct wp_pool_spec, field)

#define DURATIONS "a duration from "
#define NOT_A_TIME                                                             \
    "a duration such as 500ms, 30s, 5m, 2h or 7d was expected, not '5'"

static void
test_times(void **state)
{
    static const struct {
        const char *key;
        size_t offset;
        const char *least; /* NULL: 0, with nothing below it. */
        int64_t least_ns;
        const char *below;
        const char *most;
        int64_t most_ns;
        const char *above;
        const char *range;
    } rows[] = {
        {OURS "ttl-default", FIELD(ttl_default_ns), "1s", 1 * WP_NS_PER_S,
         "999ms", "30d", 2592000 * WP_NS_PER_S, "2592000001ms",
         "1000ms to 2592000s"},
        {OURS "ttl-max", FIELD(ttl_max_ns), "1s", 1 * WP_NS_PER_S, "999ms",
         "30d", 2592000 * WP_NS_PER_S, "2592000001ms", "1000ms to 2592000s"},
        {OURS "hold-max", FIELD(hold_max_ns), "1s", 1 * WP_NS_PER_S, "999ms",
         "30d", 2592000 * WP_NS_PER_S, "2592000001ms", "1000ms to 2592000s"},
        {OURS "freeze-after", FIELD(freeze_after_ns), "100ms",
         100 * WP_NS_PER_MS, "99ms", "30d", 2592000 * WP_NS_PER_S,
         "2592000001ms", "100ms to 2592000s"},
        {OURS "wait-max", FIELD(wait_max_ns), NULL, 0, NULL, "10m",
         600 * WP_NS_PER_S, "600001ms", "0ms to 600s"},
        {OURS "ready-within", FIELD(ready_within_ns), "10ms", 10 * WP_NS_PER_MS,
         "9ms", "1h", 3600 * WP_NS_PER_S, "3600001ms", "10ms to 3600s"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_pool_spec was;
        struct wp_pool_spec spec;
        struct wp_err err;
        char text[sizeof err.msg];

        memset(&was, 0x5A, sizeof was);
        memcpy(&spec, &was, sizeof spec);
        for (int above = 0; above < 2; above++) {
            const char *bad = above != 0 ? rows[i].above : rows[i].below;

            if (bad == NULL) {
                continue;
            }
            assert_int_equal(set(&spec, rows[i].key, bad, &err),
                             WP_INVALID_ARGUMENT);
            (void)snprintf(text, sizeof text,
                           "%s: " DURATIONS "%s was expected, not '%s'",
                           rows[i].key, rows[i].range, bad);
            assert_string_equal(err.msg, text);
        }
        assert_int_equal(set(&spec, rows[i].key, "5", &err),
                         WP_INVALID_ARGUMENT);
        (void)snprintf(text, sizeof text, "%s: " NOT_A_TIME, rows[i].key);
        assert_string_equal(err.msg, text);
        assert_memory_equal(&spec, &was, sizeof spec);
        assert_int_equal(set(&spec, rows[i].key,
                             rows[i].least != NULL ? rows[i].least : "0", &err),
                         WP_OK);
        check_only(&spec, &was, rows[i].offset, &rows[i].least_ns,
                   sizeof rows[i].least_ns);
        assert_int_equal(set(&spec, rows[i].key, rows[i].most, &err), WP_OK);
        check_only(&spec, &was, rows[i].offset, &rows[i].most_ns,
                   sizeof rows[i].most_ns);
    }
}

static void
test_counts(void **state)
{
    static const struct {
        const char *key;
        size_t offset;
        uint32_t least;
        uint32_t most;
    } rows[] = {
        {OURS "waiters-max", FIELD(waiters_max), 0, 16777216},
        {OURS "tenant-waiters-max", FIELD(tenant_waiters_max), 0, 16777216},
        {OURS "tenant-leases-max", FIELD(tenant_leases_max), 0, 16777216},
        {OURS "tenant-claims-per-minute", FIELD(tenant_claims_per_minute), 0,
         60000000},
        {OURS "create-inflight-max", FIELD(create_inflight_max), 1, 16777216},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_pool_spec was;
        struct wp_pool_spec spec;
        struct wp_err err;
        char value[4][16] = {"", "-1", "", "1.0"};
        char text[sizeof err.msg];

        memset(&was, 0x5A, sizeof was);
        memcpy(&spec, &was, sizeof spec);
        (void)snprintf(value[0], sizeof value[0], "%u", rows[i].most + 1);
        (void)snprintf(value[2], sizeof value[2], "%d", (int)rows[i].least - 1);
        for (size_t k = 0; k < WP_ARRAY_LEN(value); k++) {
            assert_int_equal(set(&spec, rows[i].key, value[k], &err),
                             WP_INVALID_ARGUMENT);
            (void)snprintf(text, sizeof text,
                           "%s: a whole number from %u to %u was expected, "
                           "not '%s'",
                           rows[i].key, rows[i].least, rows[i].most, value[k]);
            assert_string_equal(err.msg, text);
        }
        assert_memory_equal(&spec, &was, sizeof spec);
        (void)snprintf(value[0], sizeof value[0], "%u", rows[i].least);
        (void)snprintf(value[1], sizeof value[1], "%u", rows[i].most);
        assert_int_equal(set(&spec, rows[i].key, value[0], &err), WP_OK);
        check_only(&spec, &was, rows[i].offset, &rows[i].least,
                   sizeof rows[i].least);
        assert_int_equal(set(&spec, rows[i].key, value[1], &err), WP_OK);
        check_only(&spec, &was, rows[i].offset, &rows[i].most,
                   sizeof rows[i].most);
    }
}

static void
test_choices(void **state)
{
    static const struct {
        const char *key;
        size_t offset;
    } yes[] = {
        {OURS "fair-share", FIELD(fair_share)},
        {OURS "bind-env", FIELD(bind_env)},
    };
    struct wp_pool_spec was;
    struct wp_pool_spec spec;
    struct wp_err err;

    (void)state;
    memset(&was, 0, sizeof was);
    memcpy(&spec, &was, sizeof spec);
    for (size_t i = 0; i < WP_ARRAY_LEN(yes); i++) {
        char text[sizeof err.msg];

        assert_int_equal(set(&spec, yes[i].key, "true", &err), WP_OK);
        check_only(&spec, &was, yes[i].offset, &(bool){true}, sizeof(bool));
        assert_int_equal(set(&spec, yes[i].key, "yes", &err),
                         WP_INVALID_ARGUMENT);
        (void)snprintf(text, sizeof text,
                       "%s: one of true, false was expected, not 'yes'",
                       yes[i].key);
        assert_string_equal(err.msg, text);
        check_only(&spec, &was, yes[i].offset, &(bool){true}, sizeof(bool));
        assert_int_equal(set(&spec, yes[i].key, "false", &err), WP_OK);
        assert_memory_equal(&spec, &was, sizeof spec);
    }
    assert_int_equal(set(&spec, OURS "cold-start", "always", &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, OURS "cold-start: one of never, allowed was "
                                      "expected, not 'always'");
    assert_memory_equal(&spec, &was, sizeof spec);
    assert_int_equal(set(&spec, OURS "cold-start", "never", &err), WP_OK);
    was.cold_start_said = true;
    check_only(&spec, &was, FIELD(cold_start),
               &(enum wp_cold_start){WP_COLD_NEVER}, sizeof was.cold_start);
    spec.cold_start_said = false;
    assert_int_equal(set(&spec, OURS "cold-start", "allowed", &err), WP_OK);
    check_only(&spec, &was, FIELD(cold_start),
               &(enum wp_cold_start){WP_COLD_ALLOWED}, sizeof was.cold_start);
}

static void
test_egress(void **state)
{
    struct wp_pool_spec spec;
    struct wp_err err;
    char text[WP_EGRESS_TEXT_MAX + 2];

    (void)state;
    memset(&spec, 0, sizeof spec);
    assert_int_equal(set(&spec, OURS "egress", "packages a.test", &err), WP_OK);
    assert_string_equal(spec.egress, "packages a.test");
    assert_int_equal(set(&spec, OURS "egress", "a.test b/c", &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg,
                        OURS "egress: 'b/c': expected a name, *.NAME, an "
                             "address or a network, perhaps with :PORT, or "
                             "packages, or key:NAME");
    assert_string_equal(spec.egress, "packages a.test");
    /* As a pool without it has it. */
    assert_int_equal(set(&spec, OURS "egress", "none", &err), WP_OK);
    assert_string_equal(spec.egress, "");
    /* The longest text, and one that is longer by a byte. */
    memset(text, ' ', sizeof text);
    memcpy(text, "a.test", 6);
    memcpy(text + WP_EGRESS_TEXT_MAX - 6, "b.test", 7);
    assert_int_equal(set(&spec, OURS "egress", text, &err), WP_OK);
    assert_string_equal(spec.egress, text);
    memcpy(text + WP_EGRESS_TEXT_MAX - 6, " b.test", 8);
    assert_int_equal(set(&spec, OURS "egress", text, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg,
                        OURS "egress: at most 1023 characters were expected");
}

/* Goal: a key that is of no group is nobody's; one that is nearly of ours is a
 * mistake, never silently nothing. */
static void
test_groups(void **state)
{
    static const struct {
        const char *key;
        const char *says; /* NULL: it is not ours; "": it is taken. */
    } rows[] = {
        {"note", NULL},
        {"", NULL},
        {"example.org/ttl-max", NULL},
        {"template.example.io/ttl-max", NULL},
        {"kubernetes.io/ttl-max", NULL},
        {OURS "ttl-max", ""},
        {"autoscale.warmpool.io/min", ""},
        {OURS, OURS ": unknown annotation; warmpoold(8) lists them"},
        {OURS "ttl-maks",
         OURS "ttl-maks: unknown annotation; did you mean " OURS "ttl-max?"},
        {OURS "something-else",
         OURS "something-else: unknown annotation; warmpoold(8) lists them"},
        {"pool.warmpol.io/ttl-max",
         "pool.warmpol.io/ttl-max: unknown group of annotations; did you "
         "mean pool.warmpool.io/?"},
        {"pol.warmpol.io/ttl-max",
         "pol.warmpol.io/ttl-max: unknown group of annotations; did you mean "
         "pool.warmpool.io/?"},
        {"autoscaler.warmpool.io/min",
         "autoscaler.warmpool.io/min: unknown group of annotations; did you "
         "mean autoscale.warmpool.io/?"},
        /* Three letters are too many, if none of them is in its name. */
        {"pol.warpol.io/ttl-max", NULL},
        {"thepool.warmpool.io/ttl-max",
         "thepool.warmpool.io/ttl-max: unknown group of annotations; did you "
         "mean pool.warmpool.io/?"},
        {"xxxxxxx.warmpool.io/ttl-max", NULL},
        {"autoscale.warmpool.io/mim",
         "annotations of autoscale.warmpool.io/: mim: unknown key; the nearest "
         "known one is min; all of them: warmpool-autoscale(7)"},
    };
    struct wp_pool_spec was;

    (void)state;
    memset(&was, 0, sizeof was);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_pool_spec spec;
        struct wp_err err;
        bool taken = rows[i].says == NULL || rows[i].says[0] == '\0';

        memcpy(&spec, &was, sizeof spec);
        assert_int_equal(wp_pool_annotation_is_ours(wp_str_from(rows[i].key)),
                         rows[i].says != NULL);
        assert_int_equal(set(&spec, rows[i].key,
                             strstr(rows[i].key, "ttl") != NULL ? "5s" : "5",
                             &err),
                         taken ? WP_OK : WP_INVALID_ARGUMENT);
        assert_string_equal(err.msg, taken ? "" : rows[i].says);
        assert_int_equal(memcmp(&spec, &was, sizeof spec) != 0,
                         taken && rows[i].says != NULL);
    }
}

static void
test_agreement(void **state)
{
    struct wp_pool_spec spec;
    struct wp_err err;

    (void)state;
    memset(&spec, 0, sizeof spec);
    wp_scale_policy_init(&spec.scale);
    spec.ttl_max_ns = 60 * WP_NS_PER_S;
    spec.ttl_default_ns = 61 * WP_NS_PER_S;
    assert_int_equal(wp_pool_annotations_check(&spec, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, OURS
                        "ttl-default: at most the longest lease, which "
                        "is 60 s (" OURS "ttl-max), was expected, not 61 s");
    spec.ttl_default_ns = spec.ttl_max_ns;
    spec.waiters_max = 10;
    spec.tenant_waiters_max = 11;
    assert_int_equal(wp_pool_annotations_check(&spec, &err), WP_OK);
    assert_int_equal(spec.tenant_waiters_max, 10);
    assert_int_equal(spec.waiters_max, 10);
    spec.tenant_waiters_max = 9;
    assert_int_equal(wp_pool_annotations_check(&spec, &err), WP_OK);
    assert_int_equal(spec.tenant_waiters_max, 9);
}

/* Goal: a pool whose new annotations are wrong keeps the old ones, under its
 * own name, template and target. */
static void
test_kept(void **state)
{
    struct wp_pool_spec spec;
    struct wp_pool_spec held;
    struct wp_pool_spec expected;

    (void)state;
    memset(&held, 0x11, sizeof held);
    memset(&spec, 0x22, sizeof spec);
    memcpy(&expected, &held, sizeof expected);
    memset(expected.pool_namespace, 0x22, sizeof expected.pool_namespace);
    memset(expected.name, 0x22, sizeof expected.name);
    memset(expected.template_name, 0x22, sizeof expected.template_name);
    expected.target = UINT32_C(0x22222222);
    wp_pool_annotations_keep(&spec, &held);
    assert_memory_equal(&spec, &expected, sizeof spec);
}

/* Goal: each tier has its one name. */
static void
test_tiers(void **state)
{
    static const char *const names[WP_TIERS] = {"T0", "T1", "T2", "T3", "T4"};
    static const char *const others[] = {"", "T", "T5", "t1", "T11", "1"};
    enum wp_tier tier;

    (void)state;
    for (int i = 0; i < WP_TIERS; i++) {
        assert_true(wp_tier_parse(wp_str_from(names[i]), &tier));
        assert_int_equal(tier, i);
        assert_string_equal(wp_tier_info(tier)->name, names[i]);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(others); i++) {
        assert_false(wp_tier_parse(wp_str_from(others[i]), &tier));
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),   cmocka_unit_test(test_counts),
        cmocka_unit_test(test_choices), cmocka_unit_test(test_egress),
        cmocka_unit_test(test_groups),  cmocka_unit_test(test_agreement),
        cmocka_unit_test(test_kept),    cmocka_unit_test(test_tiers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
