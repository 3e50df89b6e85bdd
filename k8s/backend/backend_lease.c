/* k8s/backend/backend_lease.c - sandboxes that gRPC leases hold.
 *
 * A lease is answered at once and written on its sandbox behind: the object
 * leaves its pool, as if a SandboxClaim had adopted it, and says whose it is.
 * When somebody else was faster, the lease is lost, and its holder is told. */
#include <stdlib.h>
#include <string.h>

#include "k8s/backend/backend_impl.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

bool
wp_backend_has_note(const struct wp_object *sandbox, struct wp_lease_note *note)
{
    const char *text = wp_object_annotation(sandbox, WP_ANNOTATION_LEASE);

    return sandbox->controller.kind[0] == '\0' && text != NULL &&
           wp_lease_note_read(text, note);
}

static bool
is_same_lease(const struct wp_lease_note *a, const struct wp_lease_note *b)
{
    return a->fence == b->fence && strcmp(a->claim_id, b->claim_id) == 0 &&
           strcmp(a->tenant, b->tenant) == 0;
}

static bool
says_identity(const struct wp_lease_note *note,
              const struct wp_lease_note *lease)
{
    return strcmp(note->audience, lease->audience) == 0 &&
           note->identity_ttl_ms == lease->identity_ttl_ms &&
           strcmp(note->identity_seal, lease->identity_seal) == 0;
}

/* As long again as it lasts from now on. */
static int64_t
until_of(const struct wp_lease_note *lease, int64_t now_ms)
{
    int64_t left_ms = lease->deadline_wall_ms - now_ms;

    return left_ms <= 0 || lease->deadline_wall_ms >= WP_WALL_NEVER_MS - left_ms
               ? lease->deadline_wall_ms
               : lease->deadline_wall_ms + left_ms;
}

void
wp_backend_set_lease(struct wp_cluster_backend *backend,
                     struct wp_sandbox_ref *entry,
                     const struct wp_lease_note *lease)
{
    const struct wp_object *sandbox = wp_store_find(
        backend->parts->stores[WP_KIND_SANDBOX], entry->ns, entry->name);
    struct wp_lease_note note;

    if (entry->lease == NULL) {
        entry->lease = calloc(1, sizeof *entry->lease);
        WP_ASSERT(entry->lease != NULL);
    }
    *entry->lease = *lease;
    wp_backend_note_identity(entry);
    entry->lease->until_wall_ms =
        until_of(lease, wp_clock_wall_ns(backend->parts->clock) / WP_NS_PER_MS);
    /* Not each renewal is worth a write: the note may have said already that it
     * can last so long. */
    if (sandbox == NULL || !wp_backend_has_note(sandbox, &note) ||
        !is_same_lease(&note, lease)) {
        return;
    }
    if (entry->identity == NULL) {
        memcpy(entry->lease->audience, note.audience, sizeof note.audience);
        entry->lease->identity_ttl_ms = note.identity_ttl_ms;
        memcpy(entry->lease->identity_seal, note.identity_seal,
               sizeof note.identity_seal);
    }
    if (note.until_wall_ms >= lease->deadline_wall_ms &&
        says_identity(&note, entry->lease)) {
        *entry->lease = note;
    }
}

bool
wp_backend_must_adopt(const struct wp_cluster_backend *backend,
                      const struct wp_sandbox_ref *entry,
                      const struct wp_object *sandbox)
{
    const struct wp_lease_note *lease = entry->lease;
    struct wp_lease_note note;

    if (lease == NULL || strcmp(lease->tenant, WP_TENANT_SANDBOX_CLAIMS) == 0) {
        return false; /* Its claim's controller does it. */
    }
    return wp_backend_is_pooled(backend, sandbox) ||
           (wp_backend_has_note(sandbox, &note) &&
            (!is_same_lease(&note, lease) || !says_identity(&note, lease) ||
             note.deadline_wall_ms < lease->deadline_wall_ms));
}

/* The pool's own word, not one of the template. */
static bool
is_safe_to_evict(const struct wp_object *sandbox)
{
    json_t *json = wp_object_json(sandbox);
    bool safe =
        strcmp(wp_json_text(json, "spec", "podTemplate", "metadata",
                            "annotations", WP_ANNOTATION_SAFE_TO_EVICT, NULL),
               "true") == 0;

    json_decref(json);
    return safe;
}

static json_t *
adoption(const struct wp_object *sandbox, const struct wp_lease_note *lease)
{
    char text[WP_LEASE_NOTE_MAX];
    json_t *pod_metadata = json_object();
    json_t *body;

    wp_lease_note_write(lease, text);
    (void)wp_json_set(pod_metadata, "labels",
                      json_pack("{s:n, s:n, s:n}", WP_LABEL_WARM_POOL,
                                WP_LABEL_TEMPLATE_HASH,
                                WP_LABEL_POD_TEMPLATE_HASH));
    if (is_safe_to_evict(sandbox)) {
        (void)wp_json_set(pod_metadata, "annotations",
                          json_pack("{s:n}", WP_ANNOTATION_SAFE_TO_EVICT));
    }
    body = json_pack(
        "{s:{s:s, s:{s:n, s:n, s:n, s:s}, s:[], s:{s:s, s:s}}, s:{s:{s:o}}}",
        "metadata", "resourceVersion", sandbox->resource_version, "labels",
        WP_LABEL_WARM_POOL, WP_LABEL_TEMPLATE_HASH, WP_LABEL_POD_TEMPLATE_HASH,
        WP_LABEL_LAUNCH_TYPE, "warm", "ownerReferences", "annotations",
        WP_ANNOTATION_LEASE, text, WP_ANNOTATION_POD_NAME, sandbox->name,
        "spec", "podTemplate", "metadata", pod_metadata);
    if (body == NULL) {
        wp_json_no_memory();
    }
    return body;
}

static void
reread(void *ctx, const struct wp_api_result *result)
{
    struct wp_backend_job *job = ctx;

    if (result->status == WP_OK && wp_backend_learn(job->backend, result)) {
        wp_backend_done(job, true); /* Whose it is now is looked at. */
    } else if (result->status == WP_NOT_FOUND) {
        wp_backend_unlearn(job->backend, job->ns, job->name);
        wp_backend_done(job, true);
    } else {
        wp_backend_retry(job, result);
    }
}

static void
adopted(void *ctx, const struct wp_api_result *result)
{
    struct wp_backend_job *job = ctx;
    struct wp_cluster_backend *backend = job->backend;
    struct wp_sandbox_ref *entry =
        wp_sandbox_refs_find(backend->refs, job->ns, job->name);

    WP_ASSERT(entry != NULL); /* Entries end in reconciles of their key only. */
    if (result->status == WP_OK) {
        backend->stats.adopted++;
        entry->adopted = true;
        entry->phase = WP_SANDBOX_ADOPTED;
        (void)wp_backend_learn(backend, result);
        wp_backend_done(job, true);
    } else if (result->status == WP_ABORTED || result->status == WP_NOT_FOUND) {
        struct wp_api_target target = wp_backend_target(job, WP_HTTP_NORMAL);

        backend->stats.conflicts += result->status == WP_ABORTED ? 1 : 0;
        wp_api_get(backend->parts->api, &target, reread, job);
    } else {
        if (result->status != WP_CANCELLED) {
            wp_log_warn("a lease cannot be written on its sandbox yet",
                        wp_kv_str("namespace", job->ns),
                        wp_kv_str("name", job->name),
                        wp_kv_str("message", result->message));
        }
        wp_backend_retry(job, result);
    }
}

void
wp_backend_adopt(const struct wp_backend_look *look)
{
    struct wp_backend_job *job = wp_backend_job(look);
    /* A client waits for it when something is to be bound. */
    struct wp_api_target target = wp_backend_target(
        job, look->entry->binding != NULL ? WP_HTTP_CLAIM : WP_HTTP_NORMAL);

    wp_api_patch(look->backend->parts->api, &target,
                 adoption(look->sandbox, look->entry->lease), adopted, job);
}

/* --- Orphans --- */

static void
ended(void *ctx, const struct wp_api_result *result)
{
    struct wp_backend_job *job = ctx;

    if (result->status == WP_OK || result->status == WP_NOT_FOUND) {
        job->backend->stats.orphans += result->status == WP_OK ? 1 : 0;
        wp_backend_done(job, false);
    } else {
        wp_backend_retry(job, result);
    }
}

void
wp_backend_look_at_orphan(const struct wp_backend_look *look,
                          const struct wp_lease_note *note)
{
    struct wp_parts *parts = look->backend->parts;
    const struct wp_object *sandbox = look->sandbox;
    int64_t left_ms =
        note->until_wall_ms - wp_clock_wall_ns(parts->clock) / WP_NS_PER_MS;
    struct wp_api_delete how = {.uid = sandbox->uid,
                                .resource_version = sandbox->resource_version};
    struct wp_api_target target;
    struct wp_claim_info info;
    struct wp_backend_job *job;

    if (wp_pools_get(parts->core.pools, wp_str_from(note->tenant),
                     wp_str_from(note->claim_id), &info) == WP_OK &&
        strcmp(info.sandbox, sandbox->name) == 0) {
        wp_backend_ask(look->backend, sandbox); /* Known, only not here. */
        wp_backend_over(look, 0);
    } else if (note->until_wall_ms >= WP_WALL_NEVER_MS) {
        wp_backend_over(look, 0);
    } else if (left_ms > 0) {
        left_ms = left_ms < WP_TTL_MAX_NS / WP_NS_PER_MS
                      ? left_ms
                      : WP_TTL_MAX_NS / WP_NS_PER_MS;
        wp_backend_over(look, left_ms * WP_NS_PER_MS);
    } else {
        wp_log_info("ending a sandbox whose lease nobody knows",
                    wp_kv_str("namespace", sandbox->ns),
                    wp_kv_str("name", sandbox->name));
        job = wp_backend_job(look);
        target = wp_backend_target(job, WP_HTTP_NORMAL);
        wp_api_delete(parts->api, &target, &how, ended, job);
    }
}
