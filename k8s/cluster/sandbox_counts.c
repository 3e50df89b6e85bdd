#include "k8s/cluster/sandbox_counts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/controllers/claim/metrics.h"
#include "k8s/objects/names.h"
#include "k8s/objects/view.h"
#include "pool/base/assert.h"

const uint32_t wp_sandbox_counts_bounds_ms[WP_SANDBOX_COUNTS_LATENCY_BUCKETS] =
    {50,    100,   250,   500,    1000,   2500,   5000,
     10000, 30000, 60000, 120000, 240000, 300000, 600000};

struct wp_sandbox_counts {
    const bool *counts_latency;
    pthread_mutex_t lock; /* guards: all below */
    uint32_t groups_len;
    uint32_t latencies_len;
    struct wp_sandbox_counts_group groups[WP_SANDBOX_COUNTS_GROUPS_MAX];
    struct wp_sandbox_counts_latency latencies[WP_SANDBOX_COUNTS_GROUPS_MAX];
};

static const char *
owner_of(const struct wp_object *sandbox)
{
    return wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_CLAIM)
               ? "SandboxClaim"
           : wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_WARM_POOL)
               ? "SandboxWarmPool"
               : "None";
}

static bool
is_warm(const struct wp_object *sandbox)
{
    const char *launch = wp_object_label(sandbox, WP_LABEL_LAUNCH_TYPE);

    return launch != NULL && strcmp(launch, "warm") == 0;
}

static void
name_template(const struct wp_object *sandbox, char *out, size_t cap)
{
    const char *name =
        wp_object_annotation(sandbox, WP_ANNOTATION_TEMPLATE_REF);

    (void)snprintf(out, cap, "%s",
                   name != NULL && name[0] != '\0' ? name : "unknown");
}

static void
describe(const struct wp_object *sandbox, struct wp_sandbox_counts_group *out)
{
    const struct wp_sandbox_view *view = wp_sandbox_view(sandbox);

    *out = (struct wp_sandbox_counts_group){
        .owned_by = owner_of(sandbox),
        .created_by =
            wp_claim_created_by(wp_object_label(sandbox, WP_LABEL_CREATED_BY)),
        .ready = view->ready.status == WP_CONDITION_TRUE,
        .expired = strcmp(view->ready.reason, "SandboxExpired") == 0,
        .warm = is_warm(sandbox),
    };
    (void)snprintf(out->ns, sizeof out->ns, "%s", sandbox->ns);
    name_template(sandbox, out->templ, sizeof out->templ);
}

static bool
same_group(const struct wp_sandbox_counts_group *a,
           const struct wp_sandbox_counts_group *b)
{
    return a->ready == b->ready && a->expired == b->expired &&
           a->warm == b->warm && strcmp(a->ns, b->ns) == 0 &&
           strcmp(a->templ, b->templ) == 0 &&
           strcmp(a->owned_by, b->owned_by) == 0 &&
           strcmp(a->created_by, b->created_by) == 0;
}

/* One that is empty gives its place to a new one; when none is, the last takes
 * all the rest. A sandbox counted there leaves a group that came meanwhile, so
 * nothing goes below 0. Lock held. */
static void
count(struct wp_sandbox_counts *counts, const struct wp_object *sandbox,
      int change)
{
    struct wp_sandbox_counts_group key;
    struct wp_sandbox_counts_group *group = NULL;
    struct wp_sandbox_counts_group *empty = NULL;

    describe(sandbox, &key);
    for (uint32_t i = 0; i < counts->groups_len && group == NULL; i++) {
        if (same_group(&counts->groups[i], &key)) {
            group = &counts->groups[i];
        } else if (counts->groups[i].count == 0 &&
                   i + 1 < WP_SANDBOX_COUNTS_GROUPS_MAX) {
            empty = &counts->groups[i];
        }
    }
    if (group == NULL && change > 0 && empty == NULL &&
        counts->groups_len < WP_SANDBOX_COUNTS_GROUPS_MAX - 1) {
        empty = &counts->groups[counts->groups_len++];
    }
    if (group == NULL && change > 0 && empty != NULL) {
        *empty = key;
        group = empty;
    }
    if (group == NULL) {
        group = &counts->groups[WP_SANDBOX_COUNTS_GROUPS_MAX - 1];
        if (group->owned_by == NULL) {
            *group = (struct wp_sandbox_counts_group){
                "other", "other", "other", "other", false, false, false, 0};
            counts->groups_len = WP_SANDBOX_COUNTS_GROUPS_MAX;
        }
    }
    if (change > 0) {
        group->count++;
    } else if (group->count > 0) {
        group->count--;
    }
}

/* Lock held. */
static void
note_latency(struct wp_sandbox_counts *counts, const struct wp_object *sandbox)
{
    const struct wp_sandbox_view *view = wp_sandbox_view(sandbox);
    int64_t ms = view->ready.transition_wall_ms - sandbox->created_wall_ms;
    struct wp_sandbox_counts_latency key = {.warm = is_warm(sandbox)};
    struct wp_sandbox_counts_latency *latency = NULL;
    size_t bucket = 0;

    (void)snprintf(key.ns, sizeof key.ns, "%s", sandbox->ns);
    name_template(sandbox, key.templ, sizeof key.templ);
    for (uint32_t i = 0; i < counts->latencies_len && latency == NULL; i++) {
        struct wp_sandbox_counts_latency *each = &counts->latencies[i];

        if (each->warm == key.warm && strcmp(each->ns, key.ns) == 0 &&
            strcmp(each->templ, key.templ) == 0) {
            latency = each;
        }
    }
    if (latency == NULL &&
        counts->latencies_len < WP_SANDBOX_COUNTS_GROUPS_MAX) {
        latency = &counts->latencies[counts->latencies_len++];
        *latency = key;
        if (counts->latencies_len == WP_SANDBOX_COUNTS_GROUPS_MAX) {
            memcpy(latency->ns, "other", sizeof "other");
            memcpy(latency->templ, "other", sizeof "other");
        }
    } else if (latency == NULL) {
        latency = &counts->latencies[WP_SANDBOX_COUNTS_GROUPS_MAX - 1];
    }
    ms = ms > 0 ? ms : 0;
    while (bucket < WP_SANDBOX_COUNTS_LATENCY_BUCKETS &&
           ms > wp_sandbox_counts_bounds_ms[bucket]) {
        bucket++;
    }
    latency->bucket[bucket]++;
    latency->sum_ms += (uint64_t)ms;
}

static bool
is_ready(const struct wp_object *sandbox)
{
    return wp_sandbox_view(sandbox)->ready.status == WP_CONDITION_TRUE;
}

static void
on_change(void *ctx, const struct wp_object *before,
          const struct wp_object *after)
{
    struct wp_sandbox_counts *counts = ctx;

    (void)pthread_mutex_lock(&counts->lock);
    if (before != NULL) {
        count(counts, before, -1);
    }
    if (after != NULL) {
        count(counts, after, 1);
    }
    if (before != NULL && after != NULL && !is_ready(before) &&
        is_ready(after) && *counts->counts_latency) {
        note_latency(counts, after);
    }
    (void)pthread_mutex_unlock(&counts->lock);
}

struct wp_sandbox_counts *
wp_sandbox_counts_create(struct wp_store *sandboxes, const bool *counts_latency)
{
    struct wp_sandbox_counts *counts = calloc(1, sizeof *counts);

    if (counts != NULL) {
        counts->counts_latency = counts_latency;
        (void)pthread_mutex_init(&counts->lock, NULL);
        wp_store_listen(sandboxes, on_change, counts);
    }
    return counts;
}

void
wp_sandbox_counts_destroy(struct wp_sandbox_counts *counts)
{
    if (counts != NULL) {
        (void)pthread_mutex_destroy(&counts->lock);
        free(counts);
    }
}

void
wp_sandbox_counts_groups(
    struct wp_sandbox_counts *counts,
    void (*each)(void *ctx, const struct wp_sandbox_counts_group *group),
    void *ctx)
{
    (void)pthread_mutex_lock(&counts->lock);
    for (uint32_t i = 0; i < counts->groups_len; i++) {
        if (counts->groups[i].count > 0) {
            each(ctx, &counts->groups[i]);
        }
    }
    (void)pthread_mutex_unlock(&counts->lock);
}

void
wp_sandbox_counts_latencies(
    struct wp_sandbox_counts *counts,
    void (*each)(void *ctx, const struct wp_sandbox_counts_latency *latency),
    void *ctx)
{
    (void)pthread_mutex_lock(&counts->lock);
    for (uint32_t i = 0; i < counts->latencies_len; i++) {
        each(ctx, &counts->latencies[i]);
    }
    (void)pthread_mutex_unlock(&counts->lock);
}
