/* What a SandboxClaim brings, packed for its Pod. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/bind/brings.h"
#include "pool/base/assert.h"
#include "proto/parcel/pack.h"

static void
wipe_sent(const void *bytes, size_t len, void *owned)
{
    (void)bytes;
    explicit_bzero(owned, len);
    free(owned);
}

static size_t
put(uint8_t *at, size_t n, struct wp_str text)
{
    if (at != NULL) {
        if (text.len > 0) {
            memcpy(at + n, text.ptr, text.len);
        }
        at[n + text.len] = '\0';
    }
    return n + text.len + 1;
}

/* Parts of a binding that no parcel has. What is fetched counts by its name,
 * since it is not here yet, and without a password, which may change. */
static size_t
put_others(const struct wp_binding *binding, uint8_t *at)
{
    size_t n = 0;

    for (uint32_t i = 0; i < binding->n_repositories; i++) {
        const struct wp_binding_repository *it = &binding->repositories[i];

        n = put(at, n, it->url);
        n = put(at, n, it->ref);
        n = put(at, n, it->dir);
    }
    return binding->egress.len > 0 ? put(at, n, binding->egress) : n;
}

void
wp_claim_brings_pack(struct wp_claim_brings *brings,
                     const struct wp_pools *pools, const char *ns,
                     struct wp_claim_parcel *out)
{
    const struct wp_binding *binding = &brings->binding;
    size_t size = wp_parcel_size(binding, WP_STR(""));
    size_t others = put_others(binding, NULL);
    uint8_t *bytes = malloc(size + others + 1);

    out->bytes = evbuffer_new();
    out->trees = NULL;
    WP_ASSERT(bytes != NULL && out->bytes != NULL);
    wp_parcel_fill(binding, WP_STR(""), bytes);
    (void)put_others(binding, bytes + size);
    (void)snprintf(
        out->fingerprint, sizeof out->fingerprint, "%016" PRIx64,
        wp_pools_fingerprint(
            pools, (struct wp_str){(const char *)bytes, size + others}));
    if (size == 0) {
        free(bytes);
    } else {
        WP_ASSERT(evbuffer_add_reference(out->bytes, bytes, size, wipe_sent,
                                         bytes) == 0);
    }
    if (binding->n_repositories > 0) {
        out->trees = wp_bind_trees_make(binding, wp_str_from(ns));
        WP_ASSERT(out->trees != NULL);
    }
    wp_claim_brings_fini(brings);
}
