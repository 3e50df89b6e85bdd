/* How many sandboxes there are, by their labels, as they come, change and
 * go. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/cluster/sandbox_counts.h"
#include "tests/support/base/lock_once.h"

struct rig {
    struct wp_store *store;
    struct wp_sandbox_counts *counts;
    bool counts_latency;
    uint64_t version;
};

static int
set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);

    assert_non_null(rig);
    rig->store = wp_store_create(WP_KIND_SANDBOX, NULL);
    rig->counts = wp_sandbox_counts_create(rig->store, &rig->counts_latency);
    rig->counts_latency = true;
    assert_non_null(rig->counts);
    *state = rig;
    return 0;
}

static int
tear_down(void **state)
{
    struct rig *rig = *state;

    wp_store_destroy(rig->store);
    wp_sandbox_counts_destroy(rig->counts);
    free(rig);
    return 0;
}

struct sandbox {
    const char *name;
    const char *templ;  /* NULL: says none. */
    const char *owner;  /* A kind; NULL: none. */
    const char *launch; /* NULL: says none. */
    const char *ready;  /* Status of Ready. */
    const char *reason;
    const char *since; /* NULL: two seconds after its creation. */
};

static struct wp_object *
make(struct rig *rig, const struct sandbox *sandbox)
{
    char version[24];
    json_t *metadata;
    json_t *json;
    struct wp_object *object;
    struct wp_err err;

    (void)snprintf(version, sizeof version, "%llu",
                   (unsigned long long)++rig->version);
    metadata = json_pack("{s:s, s:s, s:s, s:s, s:s, s:{s:s}}", "namespace",
                         "team", "name", sandbox->name, "uid", sandbox->name,
                         "resourceVersion", version, "creationTimestamp",
                         "2026-01-01T00:00:00Z", "labels",
                         "agents.x-k8s.io/created-by", "go-client");
    if (sandbox->templ != NULL) {
        (void)wp_json_set(
            metadata, "annotations",
            json_pack("{s:s}", WP_ANNOTATION_TEMPLATE_REF, sandbox->templ));
    }
    if (sandbox->launch != NULL) {
        (void)wp_json_set_text(wp_json_at(metadata, "labels", NULL),
                               WP_LABEL_LAUNCH_TYPE, sandbox->launch);
    }
    if (sandbox->owner != NULL) {
        (void)wp_json_set(metadata, "ownerReferences",
                          json_pack("[{s:s, s:s, s:s, s:s, s:b}]", "apiVersion",
                                    "extensions.agents.x-k8s.io/v1alpha1",
                                    "kind", sandbox->owner, "name", "o", "uid",
                                    "o-uid", "controller", 1));
    }
    json = json_pack(
        "{s:s, s:s, s:o, s:{s:[{s:s, s:s, s:s, s:s}]}}", "apiVersion",
        "agents.x-k8s.io/v1beta1", "kind", "Sandbox", "metadata", metadata,
        "status", "conditions", "type", "Ready", "status", sandbox->ready,
        "reason", sandbox->reason, "lastTransitionTime",
        sandbox->since != NULL ? sandbox->since : "2026-01-01T00:00:02Z");
    assert_non_null(json);
    object = wp_object_create(WP_KIND_SANDBOX, json, &err);
    if (object == NULL) {
        fail_msg("%s", err.msg);
    }
    json_decref(json);
    return object;
}

static void
put(struct rig *rig, const struct sandbox *sandbox)
{
    unsigned before = taken;

    wp_store_put(rig->store, make(rig, sandbox));
    assert_int_equal(taken, before + 1);
    assert_int_equal(held, 0);
}

struct found {
    struct wp_sandbox_counts_group group;
    uint32_t groups;
    uint64_t total;
};

static void
take_group(void *ctx, const struct wp_sandbox_counts_group *group)
{
    struct found *found = ctx;

    assert_int_equal(held, 1);
    found->group = *group;
    found->groups++;
    found->total += group->count;
}

static struct found
look(struct rig *rig)
{
    struct found found = {.groups = 0};

    wp_sandbox_counts_groups(rig->counts, take_group, &found);
    return found;
}

/* The labels are upstream's, to the letter. */
static void
labels(void **state)
{
    struct rig *rig = *state;
    struct sandbox one = {"a", NULL, NULL, NULL, "False", "SandboxExpired",
                          NULL};
    struct found found;

    put(rig, &one);
    found = look(rig);
    assert_int_equal(found.groups, 1);
    assert_string_equal(found.group.ns, "team");
    assert_string_equal(found.group.templ, "unknown");
    assert_string_equal(found.group.owned_by, "None");
    assert_string_equal(found.group.created_by, "go-client");
    assert_false(found.group.ready);
    assert_true(found.group.expired);
    assert_false(found.group.warm);
    one = (struct sandbox){"a",    "python", "SandboxClaim",
                           "warm", "True",   "DependenciesReady",
                           NULL};
    put(rig, &one);
    found = look(rig);
    assert_int_equal(found.groups, 1); /* The other group is empty. */
    assert_int_equal(found.total, 1);
    assert_string_equal(found.group.templ, "python");
    assert_string_equal(found.group.owned_by, "SandboxClaim");
    assert_true(found.group.ready);
    assert_false(found.group.expired);
    assert_true(found.group.warm);
}

/* What goes is counted no more, and a group that is empty is not shown. */
static void
comings_and_goings(void **state)
{
    struct rig *rig = *state;
    const struct sandbox a = {"a", "t", "SandboxWarmPool", "warm", "True",
                              "r", NULL};
    const struct sandbox b = {"b", "t", "SandboxWarmPool", "warm", "True",
                              "r", NULL};
    struct wp_object *gone;

    put(rig, &a);
    put(rig, &b);
    assert_int_equal(look(rig).groups, 1);
    assert_int_equal(look(rig).total, 2);
    gone = make(rig, &a);
    wp_store_remove(rig->store, gone);
    wp_object_unref(gone);
    assert_int_equal(look(rig).total, 1);
    gone = make(rig, &b);
    wp_store_remove(rig->store, gone);
    wp_object_unref(gone);
    assert_int_equal(look(rig).groups, 0);
}

/* More kinds of labels than there is room for: all are counted. */
static void
bounded(void **state)
{
    struct rig *rig = *state;

    for (int i = 0; i < WP_SANDBOX_COUNTS_GROUPS_MAX + 100; i++) {
        char name[16];
        const struct sandbox one = {name, name, NULL, NULL, "True", "r", NULL};

        (void)snprintf(name, sizeof name, "s%d", i);
        put(rig, &one);
    }
    assert_int_equal(look(rig).groups, WP_SANDBOX_COUNTS_GROUPS_MAX);
    assert_int_equal(look(rig).total, WP_SANDBOX_COUNTS_GROUPS_MAX + 100);
    assert_string_equal(look(rig).group.templ, "other");
}

static void
take_latency(void *ctx, const struct wp_sandbox_counts_latency *latency)
{
    assert_int_equal(held, 1);
    *(struct wp_sandbox_counts_latency *)ctx = *latency;
}

/* Becoming Ready is counted once, by the one that is to count it. */
static void
latency(void **state)
{
    struct rig *rig = *state;
    struct wp_sandbox_counts_latency seen = {.sum_ms = 0};
    struct sandbox one = {"a", "t", NULL, "cold", "False", "r", NULL};

    put(rig, &one);
    one.ready = "True";
    put(rig, &one);
    put(rig, &one);
    wp_sandbox_counts_latencies(rig->counts, take_latency, &seen);
    assert_int_equal(seen.sum_ms, 2000);
    assert_int_equal(seen.bucket[5], 1); /* 1000 to 2500 ms. */
    assert_string_equal(seen.templ, "t");
    rig->counts_latency = false;
    one.ready = "False";
    put(rig, &one);
    one.ready = "True";
    put(rig, &one);
    wp_sandbox_counts_latencies(rig->counts, take_latency, &seen);
    assert_int_equal(seen.sum_ms, 2000);
}

/* A group that is empty gives its place to a new one; the last one, which has
 * the rest, never does. */
static void
the_rest_stays_the_rest(void **state)
{
    struct rig *rig = *state;
    char name[16];
    const struct sandbox one = {name, name, NULL, NULL, "True", "r", NULL};

    for (int i = 0; i < WP_SANDBOX_COUNTS_GROUPS_MAX + 3; i++) {
        (void)snprintf(name, sizeof name, "s%d", i);
        put(rig, &one);
    }
    for (int i = WP_SANDBOX_COUNTS_GROUPS_MAX - 1;
         i < WP_SANDBOX_COUNTS_GROUPS_MAX + 3; i++) {
        struct wp_object *gone;

        assert_string_equal(look(rig).group.templ, "other");
        assert_int_equal(look(rig).group.count,
                         WP_SANDBOX_COUNTS_GROUPS_MAX + 3 - i);
        (void)snprintf(name, sizeof name, "s%d", i);
        gone = make(rig, &one);
        wp_store_remove(rig->store, gone);
        wp_object_unref(gone);
    }
    assert_int_equal(look(rig).groups, WP_SANDBOX_COUNTS_GROUPS_MAX - 1);
    (void)snprintf(name, sizeof name, "late");
    put(rig, &one);
    assert_int_equal(look(rig).groups, WP_SANDBOX_COUNTS_GROUPS_MAX);
    assert_string_equal(look(rig).group.ns, "other");
    assert_string_equal(look(rig).group.templ, "other");
    assert_string_equal(look(rig).group.owned_by, "other");
    assert_string_equal(look(rig).group.created_by, "other");
    assert_false(look(rig).group.ready);
    assert_false(look(rig).group.expired);
    assert_false(look(rig).group.warm);
    assert_int_equal(look(rig).group.count, 1);
}

static void
take_named(void *ctx, const struct wp_sandbox_counts_group *group)
{
    *(bool *)ctx |= strcmp(group->templ, "late") == 0;
}

/* Any of them, once all are taken. */
static void
an_empty_group_makes_room(void **state)
{
    static const int which[] = {0, 1, WP_SANDBOX_COUNTS_GROUPS_MAX / 2,
                                WP_SANDBOX_COUNTS_GROUPS_MAX - 2};
    struct rig *rig = *state;
    char name[16];
    const struct sandbox one = {name, name, NULL, NULL, "True", "r", NULL};

    for (int i = 0; i < WP_SANDBOX_COUNTS_GROUPS_MAX; i++) {
        (void)snprintf(name, sizeof name, "s%d", i);
        put(rig, &one);
    }
    for (size_t i = 0; i < sizeof which / sizeof *which; i++) {
        bool named = false;
        struct wp_object *gone;

        (void)snprintf(name, sizeof name, "s%d", which[i]);
        gone = make(rig, &one);
        wp_store_remove(rig->store, gone);
        wp_object_unref(gone);
        (void)snprintf(name, sizeof name, "late");
        put(rig, &one);
        assert_int_equal(look(rig).groups, WP_SANDBOX_COUNTS_GROUPS_MAX);
        assert_int_equal(look(rig).group.count, 1);
        wp_sandbox_counts_groups(rig->counts, take_named, &named);
        assert_true(named);
        gone = make(rig, &one);
        wp_store_remove(rig->store, gone);
        wp_object_unref(gone);
        (void)snprintf(name, sizeof name, "s%d", which[i]);
        put(rig, &one);
    }
}

/* What differs in one thing is another group. */
static void
each_label_makes_a_group(void **state)
{
    struct rig *rig = *state;
    static const struct sandbox all[] = {
        {"a", "t", NULL, "cold", "False", "r", NULL},
        {"b", "u", NULL, "cold", "False", "r", NULL},
        {"c", "t", "SandboxClaim", "cold", "False", "r", NULL},
        {"d", "t", "SandboxWarmPool", "cold", "False", "r", NULL},
        {"e", "t", NULL, "warm", "False", "r", NULL},
        {"f", "t", NULL, "cold", "True", "r", NULL},
        {"g", "t", NULL, "cold", "False", "SandboxExpired", NULL},
        {"h", NULL, NULL, "cold", "False", "r", NULL},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        put(rig, &all[i]);
        assert_int_equal(look(rig).groups, i + 1);
        assert_int_equal(look(rig).total, i + 1);
        assert_int_equal(look(rig).group.count, 1);
    }
    /* And what says no launch type is as a cold one. */
    put(rig, &(struct sandbox){"i", "t", NULL, NULL, "False", "r", NULL});
    assert_int_equal(look(rig).groups, sizeof all / sizeof *all);
}

struct latencies {
    struct wp_sandbox_counts_latency all[WP_SANDBOX_COUNTS_GROUPS_MAX + 1];
    uint32_t n;
};

static void
take_latencies(void *ctx, const struct wp_sandbox_counts_latency *latency)
{
    struct latencies *latencies = ctx;

    assert_in_range(latencies->n, 0, WP_SANDBOX_COUNTS_GROUPS_MAX);
    latencies->all[latencies->n++] = *latency;
}

/* It was not Ready, and is since then. */
static void
become_ready(struct rig *rig, struct sandbox one, const char *since)
{
    one.since = since;
    one.ready = "False";
    put(rig, &one);
    one.ready = "True";
    put(rig, &one);
}

/* At each bound, and a millisecond above. */
static void
latencies_have_exact_bounds(void **state)
{
    struct rig *rig = *state;
    static struct latencies seen;
    const struct sandbox one = {"a", "t", NULL, "warm", "True", "r", NULL};
    uint64_t sum_ms = 0;

    /* Before its creation, as a clock may have it. */
    become_ready(rig, one, "2025-12-31T23:59:59Z");
    for (size_t i = 0; i < WP_SANDBOX_COUNTS_LATENCY_BUCKETS; i++) {
        for (uint32_t more = 0; more < 2; more++) {
            uint32_t ms = wp_sandbox_counts_bounds_ms[i] + more;
            char since[64];

            (void)snprintf(since, sizeof since, "2026-01-01T00:%02u:%02u.%03uZ",
                           ms / 60000, ms / 1000 % 60, ms % 1000);
            become_ready(rig, one, since);
            sum_ms += ms;
        }
    }
    seen.n = 0;
    wp_sandbox_counts_latencies(rig->counts, take_latencies, &seen);
    assert_int_equal(seen.n, 1);
    assert_string_equal(seen.all[0].ns, "team");
    assert_string_equal(seen.all[0].templ, "t");
    assert_true(seen.all[0].warm);
    assert_int_equal(seen.all[0].sum_ms, sum_ms);
    /* Each has its own bound, and what is above the one before. */
    for (size_t i = 0; i <= WP_SANDBOX_COUNTS_LATENCY_BUCKETS; i++) {
        assert_int_equal(seen.all[0].bucket[i],
                         i == WP_SANDBOX_COUNTS_LATENCY_BUCKETS ? 1 : 2);
    }
}

/* By template and launch; when there is no more room, of all others. */
static void
latencies_are_bounded(void **state)
{
    struct rig *rig = *state;
    static struct latencies seen;
    char name[16];
    const struct sandbox one = {name, name, NULL, "cold", "True", "r", NULL};
    const struct sandbox warm = {"w", "s0", NULL, "warm", "True", "r", NULL};

    for (int i = 0; i < WP_SANDBOX_COUNTS_GROUPS_MAX + 2; i++) {
        (void)snprintf(name, sizeof name, "s%d", i);
        become_ready(rig, one, NULL);
        if (i == 0) {
            become_ready(rig, one, NULL);
            become_ready(rig, warm, NULL);
        }
    }
    seen.n = 0;
    wp_sandbox_counts_latencies(rig->counts, take_latencies, &seen);
    assert_int_equal(seen.n, WP_SANDBOX_COUNTS_GROUPS_MAX);
    for (uint32_t i = 0; i < seen.n; i++) {
        bool last = i == WP_SANDBOX_COUNTS_GROUPS_MAX - 1;
        uint64_t n = i == 0 ? 2 : last ? 4 : 1;

        (void)snprintf(name, sizeof name, "s%u", i < 2 ? 0 : i - 1);
        assert_string_equal(seen.all[i].templ, last ? "other" : name);
        assert_string_equal(seen.all[i].ns, last ? "other" : "team");
        assert_int_equal(seen.all[i].warm, i == 1);
        assert_int_equal(seen.all[i].sum_ms, 2000 * n);
        assert_int_equal(seen.all[i].bucket[5], n);
    }
}

static void
without_memory_there_are_none(void **state)
{
    struct rig *rig = *state;
    struct wp_sandbox_counts *none;

    no_memory = true;
    none = wp_sandbox_counts_create(rig->store, &rig->counts_latency);
    no_memory = false;
    assert_null(none);
    wp_sandbox_counts_destroy(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(labels),
        TEST(comings_and_goings),
        TEST(bounded),
        TEST(latency),
        TEST(the_rest_stays_the_rest),
        TEST(an_empty_group_makes_room),
        TEST(each_label_makes_a_group),
        TEST(latencies_have_exact_bounds),
        TEST(latencies_are_bounded),
        TEST(without_memory_there_are_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
