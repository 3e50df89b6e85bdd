/* k8s/backend/backend_identity.c - identities of sandboxes that gRPC leases
 * hold: the first with what is bound, each next one by a request of its own.
 *
 * What they are about is a part of the lease's annotation, so the next leader
 * goes on. It gives a new one at once: what the Pod has it does not know. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/backend/backend_impl.h"
#include "k8s/bind/bind_call.h"
#include "k8s/bind/identity.h"
#include "pool/base/assert.h"
#include "proto/formats/sandbox_token.h"

#define NOT_LEASED_NS (1 * WP_NS_PER_S)

enum {
    SEALED_MAX = WP_NAMESPACE_MAX + WP_SANDBOX_NAME_MAX + WP_TENANT_MAX +
                 WP_CLAIM_ID_MAX + WP_AUDIENCE_MAX + 64,
};

/* Its entry in the table owns it. */
struct wp_sandbox_identity {
    struct wp_cluster_backend *backend;
    struct wp_sandbox_ref *entry;
    char audience[WP_AUDIENCE_MAX + 1];
    int64_t ttl_ms; /* 0: the daemon's. */
    struct wp_identity given;
    struct wp_bind_call *call; /* NULL: none is on its way by itself. */
    int64_t sent_until_wall_ms;
};

static struct wp_identity_renewals *
renewals_of(const struct wp_sandbox_identity *self)
{
    return self->backend->parts->renewals;
}

void
wp_backend_end_identity(struct wp_sandbox_ref *entry)
{
    if (entry->identity != NULL) {
        if (entry->identity->call != NULL) {
            wp_bind_call_cancel(entry->identity->call);
            wp_identity_renewal_drop(renewals_of(entry->identity));
        }
        free(entry->identity);
        entry->identity = NULL;
    }
}

bool
wp_backend_want_identity(struct wp_cluster_backend *backend,
                         struct wp_sandbox_ref *entry, const char *audience,
                         int64_t ttl_ms)
{
    struct wp_sandbox_identity *self;

    wp_backend_end_identity(entry);
    if (audience[0] == '\0') {
        return true;
    }
    self = calloc(1, sizeof *self);
    if (self == NULL) {
        return false;
    }
    self->backend = backend;
    self->entry = entry;
    self->ttl_ms = ttl_ms;
    (void)snprintf(self->audience, sizeof self->audience, "%s", audience);
    entry->identity = self;
    wp_backend_note_identity(entry);
    return true;
}

/* What the seal of a lease's note is of: texts without line ends. */
static struct wp_str
sealed(const struct wp_sandbox_ref *entry, const struct wp_lease_note *note,
       char out[SEALED_MAX])
{
    int n = snprintf(out, SEALED_MAX,
                     "%s\n%s\n%s\n%s\n%" PRIu64 "\n%" PRId64 "\n%s", entry->ns,
                     entry->name, note->tenant, note->claim_id, note->fence,
                     note->identity_ttl_ms, note->audience);

    WP_ASSERT(n > 0 && n < SEALED_MAX);
    return (struct wp_str){out, (size_t)n};
}

void
wp_backend_note_identity(struct wp_sandbox_ref *entry)
{
    struct wp_lease_note *lease = entry->lease;
    char text[SEALED_MAX];

    if (lease != NULL && entry->identity != NULL) {
        memcpy(lease->audience, entry->identity->audience,
               sizeof lease->audience);
        lease->identity_ttl_ms = entry->identity->ttl_ms;
        wp_sandbox_seal(entry->identity->backend->parts->config.sandbox_key,
                        sealed(entry, lease, text), lease->identity_seal);
    }
}

/* Does the note tell of an identity, by a daemon's own hand? Who may change
 * Sandboxes must not choose for whom another's are. */
static bool
is_sealed(const struct wp_cluster_backend *backend,
          const struct wp_sandbox_ref *entry, const struct wp_lease_note *note)
{
    char text[SEALED_MAX];

    return note != NULL && note->audience[0] != '\0' &&
           wp_sandbox_seal_fits(backend->parts->config.sandbox_key,
                                sealed(entry, note, text), note->identity_seal);
}

/* The core knows of it: not after its end, nor before a new leader was told. */
static bool
find_lease(const struct wp_sandbox_identity *self, struct wp_claim_info *out)
{
    return wp_pools_find_sandbox(self->backend->parts->core.pools,
                                 wp_str_from(self->entry->name),
                                 out) == WP_OK &&
           wp_slot_ref_eq(out->ref, self->entry->ref);
}

enum wp_status
wp_backend_sign(const struct wp_sandbox_ref *entry,
                struct wp_identity_token *token, struct wp_err *err)
{
    struct wp_sandbox_identity *self = entry->identity;
    struct wp_claim_info lease;
    enum wp_status status;

    token->text[0] = '\0';
    if (self == NULL) {
        return WP_OK;
    }
    if (!find_lease(self, &lease)) {
        return wp_err_set(err, WP_UNAVAILABLE, "identity: it is not leased");
    }
    status = wp_identity_sign(
        &self->given, self->backend->parts->config.identities, &lease,
        &(struct wp_identity_wanted){wp_str_from(self->audience), self->ttl_ms},
        token, err);
    self->sent_until_wall_ms = token->until_wall_ms;
    return status;
}

void
wp_backend_identity_given(const struct wp_sandbox_ref *entry)
{
    struct wp_sandbox_identity *self = entry->identity;

    if (self != NULL) {
        wp_identity_given(&self->given, self->sent_until_wall_ms,
                          self->backend->parts->clock);
    }
}

/* --- Anew --- */

static void
fail(struct wp_sandbox_identity *self, const char *reason)
{
    wp_identity_not_renewed(renewals_of(self), &self->given, self->entry->ns,
                            self->entry->name, reason);
}

static void
on_answer(void *ctx, const struct wp_bind_answer *answer)
{
    struct wp_sandbox_identity *self = ctx;

    self->call = NULL; /* It has ended. */
    if (answer->status == WP_OK) {
        wp_identity_renewed(renewals_of(self), &self->given,
                            self->sent_until_wall_ms);
    } else {
        fail(self, answer->reason);
    }
    wp_work_add(self->backend->queue, self->entry->ns, self->entry->name,
                false);
}

static void
renew(struct wp_sandbox_identity *self, const char *ip)
{
    const struct wp_parts *parts = self->backend->parts;
    struct wp_identity_token identity;
    char token[WP_SANDBOX_TOKEN_TEXT + 1];
    struct wp_err err;

    if (wp_backend_sign(self->entry, &identity, &err) != WP_OK) {
        fail(self, err.msg);
    } else if (identity.text[0] == '\0') {
        wp_identity_renewed(renewals_of(self), &self->given,
                            self->sent_until_wall_ms);
    } else {
        wp_sandbox_token(parts->config.sandbox_key, self->entry->ns,
                         self->entry->name, token);
        self->call = wp_bind_call_start(
            parts->base,
            &(struct wp_bind_request){.ip = ip,
                                      .port = parts->config.sandbox_port,
                                      .token = token,
                                      .identity = identity.text,
                                      .within_ns = WP_BIND_MAX_NS,
                                      .done = on_answer,
                                      .ctx = self});
        explicit_bzero(token, sizeof token);
        if (self->call == NULL) {
            fail(self, "the sandbox's server cannot be reached");
        }
    }
    explicit_bzero(&identity, sizeof identity);
}

int64_t
wp_backend_look_at_identity(const struct wp_backend_look *look,
                            const struct wp_lease_note *note)
{
    struct wp_cluster_backend *backend = look->backend;
    struct wp_sandbox_ref *entry = look->entry;
    const char *ip = wp_sandbox_view(look->sandbox)->pod_ip;
    struct wp_claim_info lease;

    if (entry->lost || entry->phase != WP_SANDBOX_ADOPTED ||
        entry->binding != NULL || backend->parts->config.sandbox_key == NULL) {
        return 0;
    }
    if (entry->identity == NULL &&
        (!is_sealed(backend, entry, note) ||
         !wp_backend_want_identity(backend, entry, note->audience,
                                   note->identity_ttl_ms) ||
         entry->identity == NULL)) {
        return 0;
    }
    if (entry->identity->call != NULL || ip[0] == '\0') {
        return 0;
    }
    if (wp_identity_wait_ns(&entry->identity->given, backend->parts->clock) ==
            0 &&
        !find_lease(entry->identity, &lease)) {
        return NOT_LEASED_NS;
    }
    if (wp_identity_renewal_begin(renewals_of(entry->identity),
                                  &entry->identity->given)) {
        renew(entry->identity, ip);
    }
    return wp_identity_look_ns(&entry->identity->given, backend->parts->clock);
}

enum wp_status
wp_backend_may_sign(void *self, struct wp_err *err)
{
    const struct wp_cluster_backend *backend = self;

    return backend->parts->config.identities != NULL
               ? WP_OK
               : wp_err_set(err, WP_FAILED_PRECONDITION,
                            "the daemon has no identity_secret");
}
