/* k8s/backend/backend_work.c - the next step with one Sandbox object.
 *
 *   CREATING  POST, and GET while its outcome is not known
 *   WARMING   on_ready once it is Ready; lost when that takes too long
 *   READY     retired when it is Ready no more
 *   ADOPTED   a claim or a lease has it: only its end counts
 *
 * From each of them, when the core wants it destroyed: DELETE, and on_destroyed
 * when it is gone. Of what another controller has taken the core is told that
 * it is lost, and nothing is deleted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/backend/backend_impl.h"
#include "k8s/objects/owner.h"
#include "k8s/objects/sandbox_build.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

enum {
    /* A pool with this part of its target ready can wait for more. */
    STOCKED_PART = 4,
};

/* Between two lines that say the same of other sandboxes. */
#define SAY_DELAY_PAUSE_NS (10 * WP_NS_PER_S)

static struct wp_pools *
pools_of(const struct wp_cluster_backend *backend)
{
    return backend->parts->core.pools;
}

bool
wp_backend_is_pooled(const struct wp_cluster_backend *backend,
                     const struct wp_object *sandbox)
{
    return wp_owner_is_pool(
        sandbox,
        wp_store_find(backend->parts->stores[WP_KIND_SANDBOX_WARM_POOL],
                      sandbox->ns, sandbox->controller.name));
}

/* --- Jobs --- */

struct wp_backend_job *
wp_backend_job(const struct wp_backend_look *look)
{
    struct wp_backend_job *job = calloc(1, sizeof *job);

    WP_ASSERT(job != NULL);
    job->backend = look->backend;
    job->work = look->work;
    job->ns = look->ns;
    job->name = look->name;
    return job;
}

void
wp_backend_over(const struct wp_backend_look *look, int64_t again_ns)
{
    wp_work_done(look->work, again_ns > 0 ? WP_WORK_AFTER : WP_WORK_OK,
                 again_ns);
}

void
wp_backend_done(struct wp_backend_job *job, bool again)
{
    struct wp_work *work = job->work;

    if (again) {
        wp_backend_wake(job->backend, job->ns, job->name);
    }
    free(job);
    wp_work_done(work, WP_WORK_OK, 0);
}

void
wp_backend_retry(struct wp_backend_job *job, const struct wp_api_result *result)
{
    struct wp_work *work = job->work;

    free(job);
    if (result->status == WP_CANCELLED) {
        wp_work_done(work, WP_WORK_OK, 0);
    } else if (result->retry_after_ns > 0) {
        wp_work_done(work, WP_WORK_AFTER, result->retry_after_ns);
    } else {
        wp_work_done(work, WP_WORK_FAILED, 0);
    }
}

struct wp_api_target
wp_backend_target(const struct wp_backend_job *job,
                  enum wp_http_priority priority)
{
    return (struct wp_api_target){.kind = WP_KIND_SANDBOX,
                                  .ns = job->ns,
                                  .name = job->name,
                                  .priority = priority};
}

bool
wp_backend_learn(struct wp_cluster_backend *backend,
                 const struct wp_api_result *result)
{
    struct wp_err err = {.msg = ""};
    struct wp_object *object =
        result->object != NULL
            ? wp_object_create(WP_KIND_SANDBOX, result->object, &err)
            : NULL;

    if (object == NULL) {
        wp_log_warn("the API server answered with no Sandbox",
                    wp_kv_str("error", err.msg));
        return false;
    }
    wp_store_learn(backend->parts->stores[WP_KIND_SANDBOX], object);
    return true;
}

void
wp_backend_unlearn(struct wp_cluster_backend *backend, const char *ns,
                   const char *name)
{
    struct wp_store *store = backend->parts->stores[WP_KIND_SANDBOX];
    const struct wp_object *sandbox = wp_store_find(store, ns, name);

    if (sandbox != NULL) {
        wp_store_remove(store, sandbox);
    }
}

static bool
has_uid(const struct wp_sandbox_ref *entry, const struct wp_object *sandbox)
{
    uint8_t uid[WP_UID_LEN];

    return wp_sandbox_core_uid(sandbox, uid) &&
           memcmp(uid, entry->uid, sizeof uid) == 0;
}

/* The core is told that it is lost, once. */
static void
lose(struct wp_cluster_backend *backend, struct wp_sandbox_ref *entry,
     const char *reason)
{
    if (!entry->lost) {
        entry->lost = true;
        wp_backend_end_binding(entry, WP_UNAVAILABLE, reason);
        wp_pools_on_lost(pools_of(backend), entry->ref, wp_str_from(reason));
    }
}

/* Nothing of it is left, or nothing that is ours. */
static void
forget(struct wp_cluster_backend *backend, struct wp_sandbox_ref *entry)
{
    struct wp_slot_ref ref = entry->ref;

    wp_backend_end_binding(entry, WP_UNAVAILABLE, "the sandbox is gone");
    wp_backend_end_identity(entry);
    wp_sandbox_refs_remove(backend->refs, entry);
    wp_pools_on_destroyed(pools_of(backend), ref);
}

/* --- Creating --- */

static void
got(void *ctx, const struct wp_api_result *result)
{
    struct wp_backend_job *job = ctx;
    struct wp_cluster_backend *backend = job->backend;
    struct wp_sandbox_ref *entry =
        wp_sandbox_refs_find(backend->refs, job->ns, job->name);

    WP_ASSERT(entry != NULL); /* Entries end in reconciles of their key only. */
    if (result->status == WP_NOT_FOUND) {
        /* It was not made: the same once more, after a pause that grows on. */
        entry->posted = false;
        wp_backend_retry(job, result);
    } else if (result->status == WP_OK && wp_backend_learn(backend, result)) {
        /* Whose it is the store tells now. */
        wp_backend_done(job, true);
    } else {
        wp_backend_retry(job, result);
    }
}

static void
refuse(struct wp_cluster_backend *backend, struct wp_sandbox_ref *entry,
       const struct wp_api_result *result)
{
    backend->stats.refused++;
    if (!result->namespace_leaves) {
        wp_log_warn("the API server refuses a sandbox",
                    wp_kv_str("namespace", entry->ns),
                    wp_kv_str("name", entry->name),
                    wp_kv_str("message", result->message));
    }
    lose(backend, entry, result->message);
}

/* It is tried again, and again: people are told now and then. */
static void
say_delay(struct wp_cluster_backend *backend,
          const struct wp_sandbox_ref *entry,
          const struct wp_api_result *result)
{
    int64_t now_ns = wp_clock_mono_ns(backend->parts->clock);

    if (result->status == WP_CANCELLED || now_ns < backend->say_delay_from_ns) {
        return;
    }
    backend->say_delay_from_ns = wp_time_add(now_ns, SAY_DELAY_PAUSE_NS);
    wp_log_warn(
        "the API server does not make a sandbox; it is asked again",
        wp_kv_str("namespace", entry->ns), wp_kv_str("pool", entry->pool),
        wp_kv_str("name", entry->name), wp_kv_int("code", result->code),
        wp_kv_str("message", result->message != NULL ? result->message : ""));
}

/* The same order would be refused again. */
static bool
is_final(enum wp_status status)
{
    return status == WP_INVALID_ARGUMENT || status == WP_PERMISSION_DENIED ||
           status == WP_NOT_FOUND || status == WP_FAILED_PRECONDITION;
}

static void
posted(void *ctx, const struct wp_api_result *result)
{
    struct wp_backend_job *job = ctx;
    struct wp_cluster_backend *backend = job->backend;
    struct wp_sandbox_ref *entry =
        wp_sandbox_refs_find(backend->refs, job->ns, job->name);

    WP_ASSERT(entry != NULL);
    if (result->status == WP_OK) {
        backend->stats.posted++;
        entry->posted = !wp_backend_learn(backend, result);
        if (!entry->posted) {
            entry->phase = WP_SANDBOX_WARMING;
        }
        wp_backend_done(job, true);
    } else if (result->status == WP_ALREADY_EXISTS) {
        entry->posted = true; /* Ours, perhaps, from an answer that was lost. */
        wp_backend_done(job, true);
    } else if (is_final(result->status)) {
        refuse(backend, entry, result);
        wp_backend_done(job, false);
    } else {
        entry->posted = result->status == WP_UNKNOWN_OUTCOME;
        say_delay(backend, entry, result);
        wp_backend_retry(job, result);
    }
}

/* NULL, and why. A new reference. */
static json_t *
build(struct wp_cluster_backend *backend, const struct wp_sandbox_ref *entry,
      const char **why)
{
    const struct wp_parts *parts = backend->parts;
    const struct wp_object *pool = wp_store_find(
        parts->stores[WP_KIND_SANDBOX_WARM_POOL], entry->ns, entry->pool);
    const struct wp_object *template_ =
        pool == NULL
            ? NULL
            : wp_store_find(parts->stores[WP_KIND_SANDBOX_TEMPLATE], entry->ns,
                            wp_warm_pool_view(pool)->template_name);
    json_t *body;

    *why = pool == NULL ? "its pool is gone" : "there is no such template";
    if (template_ == NULL) {
        return NULL;
    }
    body = wp_sandbox_build(pool, template_, entry->name, entry->uid,
                            &parts->config);
    *why = "spec.podTemplate.spec of the template: an object expected";
    return body;
}

/* A pool that is well stocked has time, claims have not. */
static enum wp_http_priority
create_priority(struct wp_cluster_backend *backend,
                const struct wp_sandbox_ref *entry)
{
    uint32_t index = wp_pools_index(pools_of(backend), wp_str_from(entry->ns),
                                    wp_str_from(entry->pool));
    struct wp_pool_stats stats;

    if (index == UINT32_MAX) {
        return WP_HTTP_REFILL;
    }
    wp_pools_stats(pools_of(backend), index, &stats);
    return stats.waiting == 0 && stats.ready > 0 &&
                   stats.ready >= stats.spec.target / STOCKED_PART
               ? WP_HTTP_SPARE
               : WP_HTTP_REFILL;
}

/* What it was ordered for may be there without it. */
static void
unmake(struct wp_cluster_backend *backend, struct wp_sandbox_ref *entry)
{
    struct wp_slot_ref ref = entry->ref;

    wp_sandbox_refs_remove(backend->refs, entry);
    wp_pools_on_unmade(pools_of(backend), ref);
}

static void
create(const struct wp_backend_look *look)
{
    struct wp_cluster_backend *backend = look->backend;
    struct wp_sandbox_ref *entry = look->entry;
    struct wp_api_target target;
    struct wp_backend_job *job;
    const char *why;
    json_t *body;

    if (entry->posted) {
        job = wp_backend_job(look);
        target = wp_backend_target(job, WP_HTTP_NORMAL);
        wp_api_get(backend->parts->api, &target, got, job);
        return;
    }
    if (entry->unwanted) {
        forget(backend, entry);
    } else if (!entry->lost &&
               wp_clock_mono_ns(backend->parts->clock) >= entry->ready_by_ns) {
        lose(backend, entry, "the API server did not make it");
    } else if (!entry->lost && entry->outdated) {
        unmake(backend, entry);
    } else if (!entry->lost && wp_backend_makes(backend)) {
        body = build(backend, entry, &why);
        if (body != NULL) {
            job = wp_backend_job(look);
            target = wp_backend_target(job, create_priority(backend, entry));
            wp_api_post(backend->parts->api, &target, body, posted, job);
            return;
        }
        lose(backend, entry, why);
    }
    wp_backend_over(look, 0);
}

/* --- Deleting --- */

static void
deleted(void *ctx, const struct wp_api_result *result)
{
    struct wp_backend_job *job = ctx;

    if (result->status == WP_OK) {
        job->backend->stats.deleted++;
        wp_backend_done(job, false); /* The watch tells when it is gone. */
    } else if (result->status == WP_NOT_FOUND) {
        wp_backend_unlearn(job->backend, job->ns, job->name);
        wp_backend_done(job, true);
    } else {
        /* ABORTED: it has changed, or is another one; the watch tells. */
        wp_backend_retry(job, result);
    }
}

/* May be deleted: the pool's, a claim's, or a lease's. */
static bool
is_ours(const struct wp_object *sandbox)
{
    struct wp_lease_note note;

    return wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_WARM_POOL) ||
           wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_CLAIM) ||
           wp_backend_has_note(sandbox, &note);
}

static void
end(const struct wp_backend_look *look)
{
    const struct wp_object *sandbox = look->sandbox;
    struct wp_sandbox_ref *entry = look->entry;
    struct wp_api_delete how = {.uid = sandbox->uid};
    struct wp_api_target target;
    struct wp_backend_job *job;

    if (entry->taken || !is_ours(sandbox)) {
        forget(look->backend, entry);
        /* It may be in a pool again by now, as a new one. */
        wp_backend_wake(look->backend, look->ns, look->name);
    } else if (!sandbox->deleting) {
        /* Idle ones as they are known only: it may just be taken. */
        how.resource_version =
            entry->adopted ? NULL : sandbox->resource_version;
        entry->phase = WP_SANDBOX_DELETING;
        job = wp_backend_job(look);
        target = wp_backend_target(job, WP_HTTP_NORMAL);
        wp_api_delete(look->backend->parts->api, &target, &how, deleted, job);
        return;
    }
    wp_backend_over(look, 0);
}

/* --- Warming, ready, adopted --- */

/* Does the SandboxClaim of this uid have the lease on it, as far as is seen? */
static bool
is_its_claim(struct wp_cluster_backend *backend,
             const struct wp_sandbox_ref *entry, const char *uid)
{
    const struct wp_lease_note *lease = entry->lease;
    struct wp_claim_info info;

    if (lease != NULL) {
        return strcmp(lease->tenant, WP_TENANT_SANDBOX_CLAIMS) == 0 &&
               strcmp(lease->claim_id, uid) == 0;
    }
    /* The core has not told of its lease yet, or has none of before. */
    return entry->adopted ||
           (wp_pools_get(pools_of(backend), WP_STR(WP_TENANT_SANDBOX_CLAIMS),
                         wp_str_from(uid), &info) == WP_OK &&
            wp_slot_ref_eq(info.ref, entry->ref));
}

/* It is in no pool any more: by our doing, or another's? */
static void
look_at_owner(struct wp_cluster_backend *backend, struct wp_sandbox_ref *entry,
              const struct wp_object *sandbox)
{
    struct wp_lease_note note;
    bool ours = wp_backend_has_note(sandbox, &note);

    if (wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_CLAIM)) {
        ours = is_its_claim(backend, entry, sandbox->controller.uid);
    }
    if (ours) {
        entry->adopted = true;
        if (entry->phase != WP_SANDBOX_DELETING) {
            entry->phase = WP_SANDBOX_ADOPTED;
        }
    } else if (!entry->taken) {
        entry->taken = true;
        backend->stats.taken++;
        lose(backend, entry,
             wp_object_controlled_by_kind(sandbox, WP_KIND_SANDBOX_WARM_POOL)
                 ? "it is in its pool no more"
                 : "another controller took it");
    }
}

bool
wp_backend_endpoint(const struct wp_cluster_backend *backend, const char *ip,
                    char out[WP_ENDPOINT_MAX + 1])
{
    bool v6 = strchr(ip, ':') != NULL;
    int len;

    if (ip[0] == '\0') {
        out[0] = '\0';
        return true;
    }
    len =
        snprintf(out, WP_ENDPOINT_MAX + 1, "%s%s%s:%u", v6 ? "[" : "", ip,
                 v6 ? "]" : "", (unsigned)backend->parts->config.sandbox_port);
    return len >= 0 && len <= WP_ENDPOINT_MAX;
}

static void
report_ready(struct wp_cluster_backend *backend, struct wp_sandbox_ref *entry,
             const char *ip)
{
    char endpoint[WP_ENDPOINT_MAX + 1];

    if (!wp_backend_endpoint(backend, ip, endpoint)) {
        lose(backend, entry, "status.podIPs: not an address");
        return;
    }
    entry->phase = WP_SANDBOX_READY;
    wp_pools_on_ready(pools_of(backend), entry->ref, wp_str_from(endpoint));
}

/* It is not Ready: for how long yet? The nanoseconds until it is to be looked
 * at again; 0: nothing is waited for but events. */
static int64_t
wait_for_ready(struct wp_cluster_backend *backend, struct wp_sandbox_ref *entry,
               const struct wp_sandbox_view *view)
{
    int64_t now = wp_clock_mono_ns(backend->parts->clock);
    char reason[WP_REASON_MAX + 1];

    if (entry->held && !view->pod_unschedulable) {
        /* A node has taken it now: its time begins. */
        entry->held = false;
        entry->ready_by_ns = wp_time_add(
            now, wp_backend_ready_within_ns(backend, entry->ns, entry->pool));
    }
    if (now < entry->ready_by_ns) {
        return entry->ready_by_ns - now;
    }
    if (view->pod_unschedulable) {
        /* Another one in its place would find no room either. */
        entry->held = true;
        return 0;
    }
    (void)snprintf(reason, sizeof reason, "not ready in time: %.70s",
                   view->ready.message);
    lose(backend, entry, reason);
    return 0;
}

static int64_t
look_at_readiness(struct wp_cluster_backend *backend,
                  struct wp_sandbox_ref *entry,
                  const struct wp_sandbox_view *view)
{
    bool is_ready =
        view->ready.status == WP_CONDITION_TRUE && view->pod_ip[0] != '\0';

    if (entry->phase == WP_SANDBOX_READY) {
        if (!is_ready) {
            /* Of one that is leased nothing comes of it. */
            wp_pools_retire(pools_of(backend), entry->ref,
                            WP_STR("it is not Ready any more"));
        }
        return 0;
    }
    if (is_ready) {
        report_ready(backend, entry, view->pod_ip);
        return 0;
    }
    return wait_for_ready(backend, entry, view);
}

static void
look_at_known(const struct wp_backend_look *look)
{
    struct wp_cluster_backend *backend = look->backend;
    struct wp_sandbox_ref *entry = look->entry;
    const struct wp_object *sandbox = look->sandbox;
    const struct wp_sandbox_view *view = wp_sandbox_view(sandbox);
    struct wp_lease_note note;
    int64_t again_ns = 0;

    if (!wp_backend_is_pooled(backend, sandbox)) {
        look_at_owner(backend, entry, sandbox);
    }
    if (entry->unwanted) {
        end(look);
        return;
    }
    if (sandbox->deleting) {
        lose(backend, entry, "it is being deleted from outside");
    } else if (view->finished.status == WP_CONDITION_TRUE) {
        lose(backend, entry, view->finished.reason);
    } else if (entry->spoilt) {
        lose(backend, entry, "it did not take what its claim brought");
    } else if (entry->bound_ip[0] != '\0' && view->pod_ip[0] != '\0' &&
               strcmp(entry->bound_ip, view->pod_ip) != 0) {
        lose(backend, entry,
             "its Pod was replaced, and what its claim brought is gone");
    }
    if (!entry->lost && entry->binding != NULL && entry->adopted) {
        wp_backend_bring(backend, entry, view->pod_ip);
    }
    if (!entry->lost && wp_backend_must_adopt(backend, entry, sandbox)) {
        wp_backend_adopt(look);
        return;
    }
    if (!entry->lost && entry->phase != WP_SANDBOX_ADOPTED) {
        again_ns = look_at_readiness(backend, entry, view);
    }
    if (entry->phase == WP_SANDBOX_ADOPTED) {
        again_ns = wp_backend_look_at_identity(
            look, wp_backend_has_note(sandbox, &note) ? &note : NULL);
    }
    wp_backend_over(look, again_ns);
}

void
wp_backend_recheck(struct wp_cluster_backend *backend,
                   struct wp_sandbox_ref *entry)
{
    const struct wp_object *sandbox = wp_store_find(
        backend->parts->stores[WP_KIND_SANDBOX], entry->ns, entry->name);

    if (entry->phase == WP_SANDBOX_CREATING) {
        return;
    }
    if (sandbox == NULL || !has_uid(entry, sandbox)) {
        lose(backend, entry, "it was deleted from outside");
    } else if (!wp_backend_is_pooled(backend, sandbox)) {
        look_at_owner(backend, entry, sandbox);
    } else if (entry->phase == WP_SANDBOX_READY) {
        (void)look_at_readiness(backend, entry, wp_sandbox_view(sandbox));
    }
}

/* --- A reconcile --- */

static void
look_at_unknown(const struct wp_backend_look *look)
{
    const struct wp_object *sandbox = look->sandbox;
    struct wp_lease_note note;

    if (sandbox != NULL && !sandbox->deleting) {
        if (wp_backend_has_note(sandbox, &note)) {
            wp_backend_look_at_orphan(look, &note);
            return;
        }
        if (wp_backend_is_pooled(look->backend, sandbox)) {
            wp_backend_ask(look->backend, sandbox);
        }
    }
    wp_backend_over(look, 0);
}

/* The order is over: the object is there, or one of its name. */
static void
end_creating(const struct wp_backend_look *look)
{
    look->entry->posted = false;
    if (has_uid(look->entry, look->sandbox)) {
        look->entry->phase = WP_SANDBOX_WARMING;
    } else {
        lose(look->backend, look->entry, "its name is another sandbox's");
    }
}

void
wp_backend_reconcile(void *ctx, struct wp_work *work, const char *ns,
                     const char *name)
{
    struct wp_cluster_backend *backend = ctx;
    const struct wp_backend_look look = {
        .backend = backend,
        .work = work,
        .ns = ns,
        .name = name,
        .entry = wp_sandbox_refs_find(backend->refs, ns, name),
        .sandbox =
            wp_store_find(backend->parts->stores[WP_KIND_SANDBOX], ns, name),
    };

    if (!backend->parts->active) {
        wp_backend_over(&look, 0);
        return;
    }
    if (look.entry == NULL) {
        look_at_unknown(&look);
        return;
    }
    if (look.entry->phase == WP_SANDBOX_CREATING) {
        if (look.sandbox == NULL) {
            create(&look);
            return;
        }
        end_creating(&look);
    }
    if (look.sandbox != NULL && has_uid(look.entry, look.sandbox)) {
        look_at_known(&look);
        return;
    }
    lose(backend, look.entry, "it was deleted from outside");
    forget(backend, look.entry);
    if (look.sandbox != NULL) {
        wp_backend_wake(backend, ns, name); /* Another one of its name. */
    }
    wp_backend_over(&look, 0);
}
