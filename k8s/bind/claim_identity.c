#include "k8s/bind/claim_identity.h"

#include "k8s/bind/brings.h"
#include "k8s/objects/names.h"

bool
wp_claim_identity_wants(const struct wp_object *claim)
{
    return wp_object_annotation(claim, WP_ANNOTATION_CLAIM_IDENTITY) != NULL;
}

/* False: its names are too long for a token. */
static bool
lease_of(const struct wp_claim_identity *about, struct wp_claim_info *out)
{
    *out = (struct wp_claim_info){.tenant = WP_TENANT_SANDBOX_CLAIMS};
    out->deadline_wall_ms = about->ends_wall_ms < WP_WALL_NEVER_MS
                                ? about->ends_wall_ms
                                : WP_WALL_NEVER_MS;
    return wp_str_copy(wp_str_from(about->claim->name), out->claim_id,
                       sizeof out->claim_id) &&
           wp_str_copy(wp_str_from(about->claim->ns), out->pool_namespace,
                       sizeof out->pool_namespace) &&
           wp_str_copy(wp_str_from(about->pool), out->pool, sizeof out->pool) &&
           wp_str_copy(wp_str_from(about->sandbox), out->sandbox,
                       sizeof out->sandbox);
}

static enum wp_status
sign(const struct wp_claim_identity *about, const struct wp_identity *given,
     const struct wp_cluster_identity *signer, const json_t *identity,
     struct wp_identity_token *token, struct wp_err *err)
{
    struct wp_claim_info lease;
    struct wp_identity_wanted wanted = {.ttl_ms = 0};

    if (wp_claim_brings_read_identity(identity, &wanted.audience,
                                      &wanted.ttl_ms, err) != WP_OK) {
        return wp_err_wrap(err, "identity");
    }
    if (!lease_of(about, &lease)) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "identity: the name of the claim, its pool or its "
                          "Sandbox is too long for one");
    }
    return wp_identity_sign(given, signer, &lease, &wanted, token, err);
}

enum wp_status
wp_claim_identity_sign(const struct wp_claim_identity *about,
                       const struct wp_identity *given,
                       const struct wp_cluster_identity *signer,
                       struct wp_identity_token *token, struct wp_err *err)
{
    const char *text =
        wp_object_annotation(about->claim, WP_ANNOTATION_CLAIM_IDENTITY);
    json_t *identity;
    enum wp_status status;

    *token = (struct wp_identity_token){.text = ""};
    if (text == NULL) {
        return WP_OK;
    }
    identity = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    status = sign(about, given, signer, identity, token, err);
    json_decref(identity);
    return status;
}
