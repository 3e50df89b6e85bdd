#include "bench/load/claim_bare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/api/api.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

struct wp_bare {
    struct wp_api *api;
    const char *ns;
    json_t *list;
    size_t next;
};

/* One claim on its way. */
struct way {
    struct wp_bare *bare;
    char *claim;
    const char *sandbox; /* Lives in the list. */
    uint32_t awaited;
    bool failed;
};

struct wp_bare *
wp_bare_create(struct wp_api *api, const char *ns)
{
    struct wp_bare *bare = calloc(1, sizeof *bare);

    if (bare != NULL) {
        bare->api = api;
        bare->ns = ns;
    }
    return bare;
}

void
wp_bare_destroy(struct wp_bare *bare)
{
    if (bare != NULL) {
        json_decref(bare->list);
        free(bare);
    }
}

void
wp_bare_stock(struct wp_bare *bare, json_t *list)
{
    json_decref(bare->list);
    bare->list = json_incref(list);
    bare->next = 0;
}

static void
way_free(struct way *way)
{
    free(way->claim);
    free(way);
}

static void
note(struct way *way, const char *what, const struct wp_api_result *result)
{
    if (result->status != WP_OK) {
        way->failed = true;
        (void)fprintf(stderr, "%s: %d %s\n", what, result->code,
                      result->message != NULL ? result->message : "");
    }
}

static void
on_status(void *ctx, const struct wp_api_result *result)
{
    note(ctx, "status", result);
    way_free(ctx);
}

static void
tell(struct way *way)
{
    struct wp_api_target target = {.kind = WP_KIND_SANDBOX_CLAIM,
                                   .ns = way->bare->ns,
                                   .name = way->claim,
                                   .subresource = "status",
                                   .priority = WP_HTTP_CLAIM};
    char now[32];
    json_t *body;

    (void)wp_time_format_utc(wp_clock_wall_ns(wp_clock_system()), 0, now);
    body =
        json_pack("{s:{s:{s:s, s:[s]}, s:[{s:s, s:s, s:s, s:s, s:i, s:s}]}}",
                  "status", "sandbox", "name", way->sandbox, "podIPs",
                  "10.0.0.1", "conditions", "type", "Ready", "status", "True",
                  "reason", "DependenciesReady", "message", "Pod is Ready",
                  "observedGeneration", 1, "lastTransitionTime", now);
    WP_ASSERT(body != NULL);
    wp_api_patch(way->bare->api, &target, body, on_status, way);
}

static void
arrive(struct way *way)
{
    if (--way->awaited > 0) {
        return;
    }
    if (way->failed) {
        way_free(way);
    } else {
        tell(way);
    }
}

static void
on_adopted(void *ctx, const struct wp_api_result *result)
{
    note(ctx, "sandbox", result);
    arrive(ctx);
}

static void
on_annotated(void *ctx, const struct wp_api_result *result)
{
    note(ctx, "annotation", result);
    arrive(ctx);
}

static void
adopt(struct way *way, const json_t *sandbox, const char *uid)
{
    const char *version =
        wp_json_text(sandbox, "metadata", "resourceVersion", NULL);
    struct wp_api_target target = {.kind = WP_KIND_SANDBOX,
                                   .ns = way->bare->ns,
                                   .name = way->sandbox,
                                   .priority = WP_HTTP_CLAIM};
    json_t *owner =
        json_pack("{s:s, s:s, s:s, s:s, s:b, s:b}", "apiVersion",
                  wp_kind_info(WP_KIND_SANDBOX_CLAIM)->api_version, "kind",
                  wp_kind_info(WP_KIND_SANDBOX_CLAIM)->kind, "name", way->claim,
                  "uid", uid, "controller", 1, "blockOwnerDeletion", 1);
    json_t *body = json_pack(
        "{s:{s:s, s:[o], s:{s:n, s:s, s:s}}}", "metadata", "resourceVersion",
        version, "ownerReferences", owner, "labels", WP_LABEL_WARM_POOL,
        WP_LABEL_LAUNCH_TYPE, "warm", WP_LABEL_CLAIM_UID, uid);

    WP_ASSERT(body != NULL);
    wp_api_patch(way->bare->api, &target, body, on_adopted, way);
}

static void
annotate(struct way *way)
{
    struct wp_api_target target = {.kind = WP_KIND_SANDBOX_CLAIM,
                                   .ns = way->bare->ns,
                                   .name = way->claim,
                                   .priority = WP_HTTP_CLAIM};
    char now[40];
    json_t *body;

    (void)wp_time_format_utc(wp_clock_wall_ns(wp_clock_system()), 9, now);
    body = json_pack("{s:{s:{s:s}}}", "metadata", "annotations",
                     WP_ANNOTATION_FIRST_OBSERVED, now);
    WP_ASSERT(body != NULL);
    wp_api_patch(way->bare->api, &target, body, on_annotated, way);
}

bool
wp_bare_serve(struct wp_bare *bare, const json_t *claim)
{
    const json_t *sandbox =
        json_array_get(json_object_get(bare->list, "items"), bare->next);
    struct way *way;

    if (sandbox == NULL) {
        return false;
    }
    bare->next++;
    way = calloc(1, sizeof *way);
    WP_ASSERT(way != NULL);
    way->bare = bare;
    way->claim = strdup(wp_json_text(claim, "metadata", "name", NULL));
    way->sandbox = wp_json_text(sandbox, "metadata", "name", NULL);
    way->awaited = 2;
    WP_ASSERT(way->claim != NULL);
    adopt(way, sandbox, wp_json_text(claim, "metadata", "uid", NULL));
    annotate(way);
    return true;
}
