/* How many sandboxes there are, by their labels, as they come, change and
 * go. */
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
    json =
        json_pack("{s:s, s:s, s:o, s:{s:[{s:s, s:s, s:s, s:s}]}}", "apiVersion",
                  "agents.x-k8s.io/v1beta1", "kind", "Sandbox", "metadata",
                  metadata, "status", "conditions", "type", "Ready", "status",
                  sandbox->ready, "reason", sandbox->reason,
                  "lastTransitionTime", "2026-01-01T00:00:02Z");
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
    wp_store_put(rig->store, make(rig, sandbox));
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
    struct sandbox one = {"a", NULL, NULL, NULL, "False", "SandboxExpired"};
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
                           "warm", "True",   "DependenciesReady"};
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
    const struct sandbox a = {"a", "t", "SandboxWarmPool", "warm", "True", "r"};
    const struct sandbox b = {"b", "t", "SandboxWarmPool", "warm", "True", "r"};
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
        const struct sandbox one = {name, name, NULL, NULL, "True", "r"};

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
    *(struct wp_sandbox_counts_latency *)ctx = *latency;
}

/* Becoming Ready is counted once, by the one that is to count it. */
static void
latency(void **state)
{
    struct rig *rig = *state;
    struct wp_sandbox_counts_latency seen = {.sum_ms = 0};
    struct sandbox one = {"a", "t", NULL, "cold", "False", "r"};

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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(labels),
        TEST(comings_and_goings),
        TEST(bounded),
        TEST(latency),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
