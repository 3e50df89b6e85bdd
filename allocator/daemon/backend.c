#include "allocator/daemon/backend.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/daemon/machine.h"

#include "pool/base/assert.h"
#include "pool/base/log.h"

struct wp_daemon_backend {
    struct wp_daemon_core *core;
    const struct wp_manifest *manifest;
    struct wp_daemon_locks *locks;
    struct wp_lease_store store; /* Whose records want sandboxes. */
    /* Of machine's making, and of which manifest's templates it is made: a
     * follower's thread makes it, the main one reloads. */
    pthread_mutex_t lock;
    struct wp_manifest **kept; /* Later manifests that templates are of. */
    uint32_t kept_len;
    struct wp_machine machine;
    /* Before that it may be in the making, on another thread. */
    _Atomic(bool) started;
    struct wp_backend port; /* Control thread. */
};

/* --- Reports; the backend's thread --- */

static void
on_ready(void *ctx, struct wp_slot_ref ref, struct wp_str endpoint)
{
    struct wp_daemon_backend *self = ctx;

    wp_pools_on_ready(self->core->pools, ref, endpoint);
}

static void
on_started(void *ctx, struct wp_slot_ref ref)
{
    struct wp_daemon_backend *self = ctx;

    wp_pools_on_started(self->core->pools, ref);
}

static void
on_lost(void *ctx, struct wp_slot_ref ref, struct wp_str reason)
{
    struct wp_daemon_backend *self = ctx;

    wp_pools_on_lost(self->core->pools, ref, reason);
}

static void
on_destroyed(void *ctx, struct wp_slot_ref ref)
{
    struct wp_daemon_backend *self = ctx;

    wp_pools_on_destroyed(self->core->pools, ref);
}

static enum wp_status /* NOLINTNEXTLINE(readability-function-size): a port. */
sign(void *ctx, struct wp_str sandbox, struct wp_str audience, int64_t ttl_ms,
     char token[WP_IDENTITY_TOKEN_MAX + 1], int64_t *expires_wall_ms,
     struct wp_err *err)
{
    const struct wp_daemon_backend *self = ctx;
    struct wp_claim_info lease;

    if (wp_pools_find_sandbox(self->core->pools, sandbox, &lease) != WP_OK) {
        return wp_err_set(err, WP_FAILED_PRECONDITION, "it is not leased");
    }
    return wp_signer_sign(self->core->signer, &lease, audience, ttl_ms, token,
                          expires_wall_ms, err);
}

/* Any thread. */
static void
kept(struct wp_lease_change *change)
{
    /* All else says that there is nothing to prolong: the lease has ended, or
     * its pool holds none any more. */
    if (change->status == WP_UNAVAILABLE) {
        /* It is tried again at the next look, while the lease lasts. */
        wp_log_warn("lease of a sandbox in use not prolonged",
                    wp_kv_str("reason", change->reason));
    }
    free(change);
}

static void
on_used(void *ctx, struct wp_slot_ref ref, int64_t ttl_ns)
{
    const struct wp_daemon_backend *self = ctx;
    struct wp_lease_change *change = calloc(1, sizeof *change);

    if (change == NULL) {
        return; /* As above. */
    }
    change->ttl_ns = ttl_ns;
    change->done = kept;
    if (wp_pools_keep(self->core->pools, change, ref) != WP_PENDING) {
        kept(change);
    }
}

/* The thread that starts the backend. */
static bool
adopt(void *ctx, const struct wp_local_found *found, struct wp_slot_ref *ref)
{
    const struct wp_daemon_backend *self = ctx;

    return wp_daemon_adopt(self->core, self->store, found, ref);
}

/* --- Making it --- */

struct wp_daemon_backend *
wp_daemon_backend_create(struct wp_daemon_core *core,
                         const struct wp_manifest *manifest,
                         struct wp_daemon_locks *locks, struct wp_err *err)
{
    struct wp_daemon_backend *self = calloc(1, sizeof *self);

    if (self == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    self->core = core;
    self->manifest = manifest;
    self->locks = locks;
    atomic_init(&self->started, false);
    (void)pthread_mutex_init(&self->lock, NULL);
    return self;
}

enum wp_status
wp_daemon_backend_probe(const struct wp_daemon_backend *self,
                        struct wp_err *err)
{
    return wp_conf_is_local(self->core->conf)
               ? wp_daemon_probe_local(self->core->conf, self->manifest, err)
               : WP_OK;
}

static enum wp_status
open_machine(struct wp_daemon_backend *self, bool untried, struct wp_err *err)
{
#ifdef WP_TEST_TOOLS
    if (wp_conf_is_synthetic(self->core->conf)) {
        return wp_daemon_create_synthetic(self->core->conf, self->locks,
                                          &self->machine, err);
    }
#endif
    return wp_daemon_create_local(self->core->conf, self->manifest, self->locks,
                                  untried, &self->machine, err);
}

enum wp_status
wp_daemon_backend_open(struct wp_daemon_backend *self, bool untried,
                       struct wp_err *err)
{
    enum wp_status status;

    (void)pthread_mutex_lock(&self->lock);
    status = open_machine(self, untried, err);
    (void)pthread_mutex_unlock(&self->lock);
    return status;
}

/* --- Its templates --- */

static bool
takes_templates(const struct wp_daemon_backend *self)
{
    return self->machine.self == NULL ||
           self->machine.ops->add_template != NULL;
}

static void
drop_kept(struct wp_daemon_backend *self)
{
    for (uint32_t i = 0; i < self->kept_len; i++) {
        wp_manifest_destroy(self->kept[i]);
    }
    self->kept_len = 0;
}

static void
keep(struct wp_daemon_backend *self, struct wp_manifest *manifest)
{
    self->kept =
        realloc(self->kept, ((size_t)self->kept_len + 1) * sizeof(void *));
    WP_ASSERT(self->kept != NULL);
    self->kept[self->kept_len++] = manifest;
}

static uint64_t
hash_of(const struct wp_daemon_backend *self, const char *namespace_,
        const char *name)
{
    return self->machine.ops->template_hash(
        self->machine.self, wp_str_from(namespace_), wp_str_from(name));
}

/* Into what makes sandboxes. True: it is used. */
static bool
take_template(struct wp_daemon_backend *self, const struct wp_template *tmpl,
              bool *changed)
{
    const struct wp_machine *machine = &self->machine;
    uint64_t before = hash_of(self, tmpl->template_namespace, tmpl->name);
    struct wp_err err;

    if (before == wp_template_hash(tmpl)) {
        return false;
    }
    if (machine->ops->add_template(machine->self, tmpl, &err) != WP_OK) {
        wp_log_error(before != 0 ? "change of a template refused, sandboxes "
                                   "are made as it was"
                                 : "new template refused",
                     wp_kv_str("namespace", tmpl->template_namespace),
                     wp_kv_str("template", tmpl->name), wp_kv_err(&err));
        return false;
    }
    *changed = before != 0;
    wp_log_info(before != 0 ? "template changed" : "new template",
                wp_kv_str("namespace", tmpl->template_namespace),
                wp_kv_str("template", tmpl->name));
    return true;
}

bool
wp_daemon_backend_reload(struct wp_daemon_backend *self,
                         struct wp_manifest *manifest, bool *changed)
{
    const struct wp_template *templates;
    size_t n = wp_manifest_templates(manifest, &templates);
    bool used = false;

    (void)pthread_mutex_lock(&self->lock);
    if (self->machine.self == NULL) {
        /* Made from it when this one takes over. */
        drop_kept(self);
        self->manifest = manifest;
        used = true;
    }
    for (size_t i = 0;
         i < n && self->machine.self != NULL && takes_templates(self); i++) {
        used |= take_template(self, &templates[i], &changed[i]);
    }
    if (used) {
        keep(self, manifest);
    }
    (void)pthread_mutex_unlock(&self->lock);
    return used;
}

/* The template that comes along, if one does; under the lock. */
static enum wp_status
accept_template(struct wp_daemon_backend *self, struct wp_manifest *manifest,
                bool *is_kept, struct wp_err *err)
{
    const struct wp_template *tmpl;
    uint64_t before;

    if (wp_manifest_templates(manifest, &tmpl) == 0) {
        return WP_OK;
    }
    before = hash_of(self, tmpl->template_namespace, tmpl->name);
    if (before == wp_template_hash(tmpl)) {
        return WP_OK;
    }
    if (before != 0) {
        return wp_err_set(err, WP_ALREADY_EXISTS,
                          "manifest: SandboxTemplate %s: there is another one "
                          "of this name in namespace '%s'; leave it out to "
                          "use that one",
                          tmpl->name, tmpl->template_namespace);
    }
    if (self->machine.ops->add_template(self->machine.self, tmpl, err) !=
        WP_OK) {
        return wp_err_wrap(err, "manifest");
    }
    keep(self, manifest);
    *is_kept = true;
    return WP_OK;
}

static enum wp_status
accept(struct wp_daemon_backend *self, struct wp_manifest *manifest,
       const struct wp_pool_spec *spec, bool *is_kept, struct wp_err *err)
{
    if (!takes_templates(self)) {
        return WP_OK;
    }
    if (accept_template(self, manifest, is_kept, err) != WP_OK) {
        return err->status;
    }
    return hash_of(self, spec->pool_namespace, spec->template_name) != 0
               ? WP_OK
               : wp_err_set(err, WP_FAILED_PRECONDITION,
                            "manifest: SandboxWarmPool %s: "
                            "spec.sandboxTemplateRef.name: the daemon has no "
                            "SandboxTemplate '%s' in namespace '%s'; give it "
                            "along",
                            spec->name, spec->template_name,
                            spec->pool_namespace);
}

enum wp_status
wp_daemon_backend_accept(struct wp_daemon_backend *self,
                         struct wp_manifest *manifest,
                         const struct wp_pool_spec *spec, bool *is_kept,
                         struct wp_err *err)
{
    enum wp_status status;

    (void)pthread_mutex_lock(&self->lock);
    status = self->machine.self == NULL || !wp_daemon_is_keeper(self->core)
                 ? wp_err_set(err, WP_UNAVAILABLE,
                              "this daemon makes no sandboxes now; try again, "
                              "or ask the one that does")
                 : accept(self, manifest, spec, is_kept, err);
    (void)pthread_mutex_unlock(&self->lock);
    return status;
}

bool
wp_daemon_backend_has_template(struct wp_daemon_backend *self,
                               const struct wp_pool_spec *spec)
{
    bool has;

    (void)pthread_mutex_lock(&self->lock);
    has = self->machine.self == NULL || !takes_templates(self) ||
          hash_of(self, spec->pool_namespace, spec->template_name) != 0;
    (void)pthread_mutex_unlock(&self->lock);
    return has;
}

/* --- The port: a follower's backend comes later --- */

static enum wp_status
port_create(void *self, const struct wp_sandbox_order *order,
            struct wp_err *err)
{
    const struct wp_backend *port = &((struct wp_daemon_backend *)self)->port;

    return port->ops->create(port->self, order, err);
}

static enum wp_status
port_destroy(void *self, struct wp_slot_ref ref)
{
    const struct wp_backend *port = &((struct wp_daemon_backend *)self)->port;

    /* Not yet: the core asks again. */
    return port->ops != NULL ? port->ops->destroy(port->self, ref)
                             : WP_RESOURCE_EXHAUSTED;
}

/* By any thread, unlike `port`. NULL ops: its sandboxes are not there yet. */
static struct wp_backend
started_port(const struct wp_daemon_backend *self)
{
    return atomic_load_explicit(&self->started, memory_order_acquire)
               ? self->machine.ops->port(self->machine.self)
               : (struct wp_backend){.ops = NULL};
}

static void
port_leased(void *self, const struct wp_lease_notice *notice)
{
    const struct wp_backend *port = &((struct wp_daemon_backend *)self)->port;

    port->ops->leased(port->self, notice);
}

static enum wp_status
port_bind(void *self, struct wp_bind_op *op)
{
    const struct wp_backend port = started_port(self);

    if (port.ops == NULL) {
        (void)snprintf(op->reason, sizeof op->reason,
                       "binding: the sandboxes are being taken over; try "
                       "again");
        return WP_UNAVAILABLE;
    }
    return port.ops->bind(port.self, op);
}

static const char *
port_unbound(void *self, struct wp_str template_namespace, struct wp_str name)
{
    const struct wp_backend port = started_port(self);

    return port.ops != NULL
               ? port.ops->unbound(port.self, template_namespace, name)
               : NULL;
}

static enum wp_status
port_may_bring(void *self, const struct wp_binding *binding, struct wp_err *err)
{
    const struct wp_backend port = started_port(self);

    if (port.ops == NULL) {
        return wp_err_set(err, WP_UNAVAILABLE,
                          "binding: the sandboxes are being taken over; try "
                          "again");
    }
    return port.ops->may_bring(port.self, binding, err);
}

static enum wp_status
port_narrows(void *self, struct wp_str policy, struct wp_str by,
             struct wp_err *err)
{
    const struct wp_backend port = started_port(self);

    return port.ops != NULL
               ? port.ops->narrows(port.self, policy, by, err)
               : wp_err_set(err, WP_UNAVAILABLE,
                            "the sandboxes are being taken over; try again");
}

static enum wp_status
port_may_sign(void *self, struct wp_err *err)
{
    (void)self;
    (void)err;
    return WP_OK;
}

struct wp_backend
wp_daemon_backend_port(struct wp_daemon_backend *self)
{
    static const struct wp_backend_ops local = {
        .name = "local",
        .create = port_create,
        .destroy = port_destroy,
        .leased = port_leased,
        .bind = port_bind,
        .unbound = port_unbound,
        .may_bring = port_may_bring,
        .narrows = port_narrows,
        .may_sign = port_may_sign,
    };
    uint32_t spawns = (uint32_t)self->core->conf->sandbox_spawns_max;
#ifdef WP_TEST_TOOLS
    static const struct wp_backend_ops synthetic = {
        .name = "synthetic", .create = port_create, .destroy = port_destroy};

    if (wp_conf_is_synthetic(self->core->conf)) {
        return (struct wp_backend){&synthetic, self, spawns};
    }
#endif
    return (struct wp_backend){&local, self, wp_local_spawns(spawns)};
}

/* Control thread, or before it runs. */
static void
set_port(void *ctx)
{
    struct wp_daemon_backend *self = ctx;

    self->port = self->machine.ops->port(self->machine.self);
}

enum wp_status
wp_daemon_backend_start(struct wp_daemon_backend *self,
                        struct wp_lease_store store, uint32_t *adopted,
                        struct wp_err *err)
{
    const struct wp_local_events events = {self,
                                           on_ready,
                                           on_lost,
                                           on_destroyed,
                                           store.ops->durable ? adopt : NULL,
                                           on_started,
                                           sign,
                                           on_used};
    struct wp_local_sweep sweep;
    enum wp_status status;

    self->store = store;
    status = self->machine.ops->start(self->machine.self, &events, &sweep, err);
    if (status != WP_OK) {
        return status;
    }
    atomic_store_explicit(&self->started, true, memory_order_release);
    wp_loop_call(self->core->loop, set_port, self);
    *adopted = sweep.adopted;
    if (sweep.sandboxes + sweep.cgroups + sweep.failed > 0) {
        wp_log_warn("swept what an earlier daemon left",
                    wp_kv_int("sandboxes", sweep.sandboxes),
                    wp_kv_int("killed", sweep.killed),
                    wp_kv_int("cgroups", sweep.cgroups),
                    wp_kv_int("failed", sweep.failed));
    }
    return WP_OK;
}

void
wp_daemon_backend_stats(const struct wp_daemon_backend *self,
                        struct wp_local_stats *out)
{
    memset(out, 0, sizeof *out);
    if (self != NULL &&
        atomic_load_explicit(&self->started, memory_order_acquire)) {
        self->machine.ops->stats(self->machine.self, out);
    }
}

void
wp_daemon_backend_stop(struct wp_daemon_backend *self, bool leave_ready)
{
    if (self != NULL && self->started) {
        self->machine.ops->stop(self->machine.self, leave_ready);
    }
}

void
wp_daemon_backend_destroy(struct wp_daemon_backend *self)
{
    if (self == NULL) {
        return;
    }
    if (self->machine.self != NULL) {
        self->machine.ops->destroy(self->machine.self);
    }
    drop_kept(self);
    free(self->kept);
    (void)pthread_mutex_destroy(&self->lock);
    free(self);
}
