/* k8s/backend/backend_bind.c - what a claim brings, on its way to the server in
 * the Pod.
 *
 *   asked --the lease is on the Sandbox, trees are here--> brought --> answered
 *
 * The lease is written first, and the answer waits for that: a Sandbox that may
 * have taken a part of a binding is in no pool then, whoever leads next. Any
 * thread packs; all else is the cluster's thread's. A sandbox has one binding
 * under way at most: others that come meanwhile are repeats of its claim, and
 * hear the same. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/backend/backend_impl.h"
#include "k8s/bind/bind_call.h"
#include "k8s/bind/pass.h"
#include "k8s/bind/repositories.h"
#include "pool/base/assert.h"
#include "pool/binding.h"
#include "proto/formats/sandbox_token.h"
#include "proto/parcel/pack.h"
#include "proto/parcel/request.h"

enum {
    BINDS_MAX = 256, /* Under way at once, each with its parcel. */
};

#define NOT_HERE                                                               \
    "this daemon does not keep the sandboxes now; try again, or at the one "   \
    "that does"

/* A claim's request, with its parcel. */
struct asked {
    struct wp_cluster_message base; /* First. */
    struct wp_cluster_backend *backend;
    struct wp_bind_op *op;
    struct wp_slot_ref ref;
    int64_t within_ns;
    uint64_t fingerprint;
    char audience[WP_AUDIENCE_MAX + 1]; /* Of its identity; "": none. */
    int64_t identity_ttl_ms;
    char policy[WP_EGRESS_TEXT_MAX + 1]; /* Of its pool. */
    char by[WP_EGRESS_TEXT_MAX + 1];     /* Narrows it. */
    struct wp_bind_trees *trees;         /* Owned; NULL: none. */
    size_t size;
    uint8_t parcel[];
};

/* One sandbox on its way. Its entry in the table owns it. */
struct wp_sandbox_binding {
    struct wp_cluster_backend *backend;
    struct wp_sandbox_ref *entry;
    struct wp_list ops;
    struct evbuffer *parcel;      /* Empty once it was brought. */
    struct wp_bind_trees *trees;  /* NULL: none. */
    struct wp_fetching *fetching; /* NULL: all of them are here. */
    int64_t within_ns;
    struct event *timer;
    struct wp_bind_call *call; /* NULL: the lease is not written yet. */
    char ip[INET6_ADDRSTRLEN]; /* Where it is brought. */
    char fingerprint[WP_BIND_FINGERPRINT_TEXT + 1];
    char policy[WP_EGRESS_TEXT_MAX + 1]; /* For its pass. */
    char by[WP_EGRESS_TEXT_MAX + 1];
};

static void
look_at(struct wp_cluster_backend *backend, const struct wp_sandbox_ref *entry)
{
    wp_work_add(backend->queue, entry->ns, entry->name, false);
}

static void
wipe(struct asked *asked)
{
    wp_bind_trees_drop(asked->trees);
    explicit_bzero(asked, sizeof *asked + asked->size);
    free(asked);
}

static void
wipe_sent(const void *bytes, size_t len, void *asked)
{
    (void)bytes;
    (void)len;
    wipe(asked);
}

static void
answer(struct wp_cluster_backend *backend, struct wp_bind_op *op,
       const struct wp_bind_answer *given)
{
    op->status = given->status;
    memcpy(op->reason, given->reason, sizeof op->reason);
    (void)atomic_fetch_sub_explicit(&backend->binds, 1, memory_order_relaxed);
    op->done(op);
}

static void
answer_all(struct wp_sandbox_ref *entry, const struct wp_bind_answer *given)
{
    struct wp_sandbox_binding *self = entry->binding;
    struct wp_list *node;

    entry->binding = NULL;
    wp_bind_call_cancel(self->call);
    wp_fetching_cancel(self->fetching);
    wp_bind_trees_drop(self->trees);
    event_free(self->timer);
    evbuffer_free(self->parcel);
    while ((node = wp_list_pop_front(&self->ops)) != NULL) {
        answer(self->backend, WP_CONTAINER_OF(node, struct wp_bind_op, node),
               given);
    }
    free(self);
}

void
wp_backend_end_binding(struct wp_sandbox_ref *entry, enum wp_status status,
                       const char *reason)
{
    struct wp_bind_answer given;

    if (entry->binding != NULL) {
        wp_bind_answer_set(&given, status, false, wp_str_from(reason));
        answer_all(entry, &given);
    }
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_sandbox_binding *self = ctx;
    bool brought = self->call != NULL;

    (void)fd;
    (void)what;
    wp_backend_end_binding(self->entry, WP_DEADLINE_EXCEEDED,
                           brought ? "the sandbox did not answer in time"
                                   : "the lease could not be written on the "
                                     "sandbox in time");
}

/* --- To the Pod --- */

static void
on_answer(void *ctx, const struct wp_bind_answer *given)
{
    struct wp_sandbox_binding *self = ctx;
    struct wp_cluster_backend *backend = self->backend;
    struct wp_sandbox_ref *entry = self->entry;

    self->call = NULL; /* It has ended. */
    entry->spoilt = given->lost;
    if (given->status == WP_OK) {
        memcpy(entry->bound_ip, self->ip, sizeof entry->bound_ip);
        wp_backend_identity_given(entry);
    }
    answer_all(entry, given);
    look_at(backend, entry);
}

/* It is good from that address only. */
static bool
add_pass(const struct wp_sandbox_binding *self, const char *ip)
{
    const struct wp_bind_pass pass = {.ns = self->entry->ns,
                                      .sandbox = self->entry->name,
                                      .ip = ip,
                                      .policy = wp_str_from(self->policy),
                                      .by = wp_str_from(self->by)};

    return wp_bind_pass_add(&self->backend->parts->config.egress, &pass,
                            self->parcel);
}

void
wp_backend_bring(struct wp_cluster_backend *backend,
                 struct wp_sandbox_ref *entry, const char *ip)
{
    struct wp_sandbox_binding *self = entry->binding;
    struct wp_identity_token identity;
    char token[WP_SANDBOX_TOKEN_TEXT + 1];
    struct wp_err err;

    if (self->call != NULL || self->fetching != NULL || ip[0] == '\0') {
        return;
    }
    if (wp_backend_sign(entry, &identity, &err) != WP_OK) {
        wp_backend_end_binding(entry, err.status, err.msg);
        return;
    }
    if (!add_pass(self, ip)) {
        wp_backend_end_binding(entry, WP_UNAVAILABLE,
                               "no memory for it; try again");
        return;
    }
    if (self->trees != NULL) {
        (void)evtimer_del(self->timer); /* The call knows what they need. */
    }
    (void)snprintf(self->ip, sizeof self->ip, "%s", ip);
    wp_sandbox_token(backend->parts->config.sandbox_key, entry->ns, entry->name,
                     token);
    self->call = wp_bind_call_start(
        backend->parts->base,
        &(struct wp_bind_request){
            .ip = ip,
            .port = backend->parts->config.sandbox_port,
            .token = token,
            .fingerprint = self->fingerprint,
            .identity = identity.text[0] != '\0' ? identity.text : NULL,
            .parcel = self->parcel,
            .trees = self->trees,
            .within_ns = WP_BIND_MAX_NS,
            .done = on_answer,
            .ctx = self});
    explicit_bzero(token, sizeof token);
    explicit_bzero(&identity, sizeof identity);
    if (self->call == NULL) {
        wp_backend_end_binding(entry, WP_UNAVAILABLE,
                               "the sandbox's server cannot be reached");
    }
}

/* --- The way in --- */

static bool
arm(struct wp_sandbox_binding *self)
{
    struct timeval within = wp_timeval(self->within_ns);

    return evtimer_add(self->timer, &within) == 0;
}

/* Of the trees. Until then the lease may take as long. */
static void
on_fetched(void *ctx, enum wp_status status, const char *reason)
{
    struct wp_sandbox_binding *self = ctx;

    self->fetching = NULL;
    if (status != WP_OK) {
        wp_backend_end_binding(self->entry,
                               status == WP_CANCELLED ? WP_UNAVAILABLE
                                                      : WP_FAILED_PRECONDITION,
                               status == WP_CANCELLED ? NOT_HERE : reason);
        return;
    }
    (void)arm(self);
    look_at(self->backend, self->entry);
}

/* Takes asked's parcel. False: memory lacks, and asked is still there. */
static bool
begin(struct wp_sandbox_ref *entry, struct asked *asked)
{
    struct wp_cluster_backend *backend = asked->backend;
    struct wp_bind_trees *trees = asked->trees;
    struct wp_sandbox_binding *self = calloc(1, sizeof *self);

    if (self == NULL) {
        return false;
    }
    self->backend = backend;
    self->entry = entry;
    self->within_ns = asked->within_ns;
    wp_list_init(&self->ops);
    (void)snprintf(self->fingerprint, sizeof self->fingerprint, "%016" PRIx64,
                   asked->fingerprint);
    memcpy(self->policy, asked->policy, sizeof self->policy);
    memcpy(self->by, asked->by, sizeof self->by);
    self->parcel = evbuffer_new();
    self->timer = evtimer_new(backend->parts->base, on_timer, self);
    asked->trees = NULL; /* They do not live as long as the parcel. */
    if (trees != NULL) {
        self->fetching = wp_fetching_create(backend->parts->repositories, trees,
                                            on_fetched, self);
    }
    if (self->parcel == NULL || self->timer == NULL ||
        !wp_backend_want_identity(backend, entry, asked->audience,
                                  asked->identity_ttl_ms) ||
        (trees != NULL ? self->fetching == NULL : !arm(self)) ||
        evbuffer_add_reference(self->parcel, asked->parcel, asked->size,
                               wipe_sent, asked) != 0) {
        if (self->parcel != NULL) {
            evbuffer_free(self->parcel);
        }
        if (self->timer != NULL) {
            event_free(self->timer);
        }
        wp_fetching_cancel(self->fetching);
        free(self);
        asked->trees = trees;
        return false;
    }
    self->trees = trees;
    entry->binding = self;
    return true;
}

static void
take_bind(struct wp_cluster_message *from)
{
    struct asked *asked = WP_CONTAINER_OF(from, struct asked, base);
    struct wp_cluster_backend *backend = asked->backend;
    struct wp_bind_op *op = asked->op;
    struct wp_sandbox_ref *entry =
        wp_sandbox_refs_find_ref(backend->refs, asked->ref);
    const char *lack = NULL;
    struct wp_bind_answer given;
    bool begun;

    if (!backend->parts->active) {
        lack = NOT_HERE;
    } else if (entry == NULL || entry->lost || entry->unwanted) {
        lack = "the sandbox was lost before it was bound; try again";
    } else if (entry->binding != NULL) {
        wipe(asked); /* A repeat of the claim. */
    } else if (!begin(entry, asked)) {
        lack = "no memory for it; try again";
    }
    if (lack != NULL) {
        wipe(asked);
        wp_bind_answer_set(&given, WP_UNAVAILABLE, false, wp_str_from(lack));
        answer(backend, op, &given);
        return;
    }
    begun = wp_list_empty(&entry->binding->ops);
    wp_list_push_back(&entry->binding->ops, &op->node);
    look_at(backend, entry);
    if (begun && entry->binding->fetching != NULL) {
        wp_fetching_go(entry->binding->fetching); /* It may end within. */
    }
}

static void
end_one(void *ctx, struct wp_sandbox_ref *entry)
{
    (void)ctx;
    wp_backend_end_binding(entry, WP_UNAVAILABLE, NOT_HERE);
    wp_backend_end_identity(entry);
}

void
wp_backend_open_binds(struct wp_cluster_backend *backend, bool open)
{
    /* Relaxed: who comes too late is refused on the cluster's thread. */
    atomic_store_explicit(&backend->binds_open, open, memory_order_relaxed);
    if (!open) {
        wp_sandbox_refs_walk(backend->refs, end_one, backend);
    }
}

/* Nobody waits for an answer any more. */
static void
drop_bind(struct wp_cluster_message *from)
{
    wipe(WP_CONTAINER_OF(from, struct asked, base));
}

static enum wp_status
refuse(struct wp_bind_op *op, enum wp_status status, const char *reason)
{
    (void)snprintf(op->reason, sizeof op->reason, "binding: %s", reason);
    return status;
}

enum wp_status
wp_backend_bind(void *self, struct wp_bind_op *op)
{
    struct wp_cluster_backend *backend = self;
    size_t size = wp_parcel_size(op->binding, WP_STR(""));
    bool fetches = op->binding->n_repositories > 0;
    struct asked *asked = NULL;
    struct wp_bind_trees *trees = NULL;

    if (!atomic_load_explicit(&backend->binds_open, memory_order_relaxed)) {
        return refuse(op, WP_UNAVAILABLE, NOT_HERE);
    }
    if (atomic_fetch_add_explicit(&backend->binds, 1, memory_order_relaxed) <
        BINDS_MAX) {
        asked = malloc(sizeof *asked + size);
        trees = fetches ? wp_bind_trees_make(op->binding, op->tenant) : NULL;
    }
    if (asked == NULL || (fetches && trees == NULL)) {
        free(asked);
        wp_bind_trees_drop(trees);
        (void)atomic_fetch_sub_explicit(&backend->binds, 1,
                                        memory_order_relaxed);
        return refuse(op, WP_RESOURCE_EXHAUSTED,
                      "too many sandboxes are being bound; try again");
    }
    *asked = (struct asked){
        .base = {.run = take_bind, .drop = drop_bind},
        .backend = backend,
        .op = op,
        .ref = op->ref,
        .within_ns = op->within_ns,
        .fingerprint = op->binding->fingerprint,
        .identity_ttl_ms = op->binding->identity_ttl_ms,
        .trees = trees,
        .size = size,
    };
    WP_ASSERT(wp_str_copy(op->binding->audience, asked->audience,
                          sizeof asked->audience) &&
              wp_str_copy(op->policy, asked->policy, sizeof asked->policy) &&
              wp_str_copy(op->binding->egress, asked->by, sizeof asked->by));
    wp_parcel_fill(op->binding, WP_STR(""), asked->parcel);
    wp_cluster_channel_to_cluster(backend->channel, &asked->base);
    return WP_PENDING;
}

enum wp_status
wp_backend_may_bring(void *self, const struct wp_binding *binding,
                     struct wp_err *err)
{
    const struct wp_cluster_backend *backend = self;

    if (binding->n_volumes > 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "binding.volumes: a Pod gets none once it runs; a "
                          "template's volumeClaimTemplates bring storage");
    }
    return wp_repositories_check(backend->parts->repositories, binding, err);
}

enum wp_status
wp_backend_narrows(void *self, struct wp_str policy, struct wp_str by,
                   struct wp_err *err)
{
    const struct wp_cluster_backend *backend = self;

    return wp_bind_pass_check(&backend->parts->config.egress, policy, by, err);
}

bool
wp_backend_passes(void *self)
{
    const struct wp_cluster_backend *backend = self;

    return backend->parts->config.egress.proxy != NULL;
}

const char *
wp_backend_unbound(void *self, struct wp_str template_namespace,
                   struct wp_str template_name)
{
    const struct wp_cluster_backend *backend = self;

    if (backend->parts->config.sandbox_key == NULL) {
        return "the daemon has no token_key_file, by which sandboxes know it";
    }
    return wp_bindable_has(backend->bindable, template_namespace, template_name)
               ? NULL
               : "the template does not say that its program takes bindings "
                 "(" WP_TEMPLATE_BINDING_KEY ": allowed)";
}
