/* k8s/bind/brings_secrets.c - the values of the Secrets that a SandboxClaim
 * names.
 *
 * Who may make claims may not be allowed to read Secrets. So a Secret says by a
 * label that claims may have it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/bind/brings.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/assert.h"
#include "pool/remotes/repository.h"
#include "proto/formats/base64.h"

/* The i-th place of a value, of secrets first; NULL: there are no more. */
static struct wp_claim_secret_ref *
ref_at(struct wp_claim_brings *brings, uint32_t i)
{
    const struct wp_binding *binding = &brings->binding;

    if (i < binding->n_secrets) {
        return &brings->refs[i];
    }
    i -= binding->n_secrets;
    return i < binding->n_repositories ? &brings->logins[i] : NULL;
}

static bool
lacks(const struct wp_claim_secret_ref *ref)
{
    return ref->secret.len > 0 && ref->value == NULL;
}

const char *
wp_claim_brings_lacks(struct wp_claim_brings *brings)
{
    const struct wp_claim_secret_ref *ref;

    for (uint32_t i = 0; (ref = ref_at(brings, i)) != NULL; i++) {
        if (lacks(ref)) {
            return ref->secret.ptr;
        }
    }
    return NULL;
}

void
wp_claim_brings_wipe(struct wp_claim_brings *brings)
{
    struct wp_claim_secret_ref *ref;

    for (uint32_t i = 0; (ref = ref_at(brings, i)) != NULL; i++) {
        if (ref->value != NULL) {
            explicit_bzero(ref->value, ref->cap);
            free(ref->value);
            ref->value = NULL;
        }
    }
}

/* Decodes the value. what: whose it is, for err. */
static enum wp_status
decode(struct wp_claim_secret_ref *ref, const json_t *data, const char *what,
       struct wp_str *out, struct wp_err *err)
{
    const json_t *coded = json_object_get(data, ref->key.ptr);
    size_t len = 0;

    if (!json_is_string(coded)) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "%s: Secret \"%s\" has no key \"%s\"", what,
                          ref->secret.ptr, ref->key.ptr);
    }
    ref->cap = json_string_length(coded) / 4 * 3 + 4;
    ref->value = calloc(1, ref->cap);
    WP_ASSERT(ref->value != NULL);
    if (!wp_base64_read(json_string_value(coded), ref->value, &len) ||
        len > WP_BINDING_VALUE_MAX) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "%s: key \"%s\" of Secret \"%s\": expected at most "
                          "%d bytes",
                          what, ref->key.ptr, ref->secret.ptr,
                          WP_BINDING_VALUE_MAX);
    }
    *out = (struct wp_str){ref->value, len};
    return WP_OK;
}

static enum wp_status
take_secret(struct wp_claim_brings *brings, uint32_t at, const json_t *data,
            struct wp_err *err)
{
    struct wp_claim_secret_ref *ref = &brings->refs[at];
    struct wp_binding_secret *secret = &brings->secrets[at];
    char what[WP_BINDING_NAME_MAX + 16];

    (void)snprintf(what, sizeof what, "secret '%.*s'", (int)secret->name.len,
                   secret->name.ptr);
    if (decode(ref, data, what, &secret->value, err) != WP_OK) {
        return err->status;
    }
    brings->text_bytes += secret->value.len;
    return !secret->in_env ||
                   memchr(ref->value, '\0', secret->value.len) == NULL
               ? WP_OK
               : wp_err_set(err, WP_FAILED_PRECONDITION,
                            "%s: key \"%s\" of Secret \"%s\": expected at "
                            "most %d bytes without NUL",
                            what, ref->key.ptr, ref->secret.ptr,
                            WP_BINDING_VALUE_MAX);
}

static enum wp_status
take_login(struct wp_claim_brings *brings, uint32_t at, const json_t *data,
           struct wp_err *err)
{
    struct wp_binding_repository *repository = &brings->repositories[at];
    char what[32];

    (void)snprintf(what, sizeof what, "repositories[%u]", at);
    if (decode(&brings->logins[at], data, what, &repository->password, err) !=
        WP_OK) {
        return err->status;
    }
    return repository->password.len > 0 &&
                   wp_repository_check_login(repository, what, err) == WP_OK
               ? WP_OK
               : wp_err_set(err, WP_FAILED_PRECONDITION,
                            "%s: key \"%s\" of Secret \"%s\": expected a "
                            "password of 1 to %d bytes without control "
                            "characters",
                            what, brings->logins[at].key.ptr,
                            brings->logins[at].secret.ptr,
                            WP_BINDING_PASSWORD_MAX);
}

enum wp_status
wp_claim_brings_take(struct wp_claim_brings *brings, const char *secret,
                     const json_t *object, struct wp_err *err)
{
    const json_t *data = json_object_get(object, "data");
    const struct wp_claim_secret_ref *ref;
    uint32_t n = brings->binding.n_secrets;

    if (strcmp(wp_json_text(object, "metadata", "labels", WP_LABEL_CLAIM_SECRET,
                            NULL),
               WP_CLAIM_SECRET_ALLOWED) != 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "Secret \"%s\" is not for claims: it has no "
                          "label " WP_LABEL_CLAIM_SECRET
                          ": " WP_CLAIM_SECRET_ALLOWED,
                          secret);
    }
    for (uint32_t i = 0; (ref = ref_at(brings, i)) != NULL; i++) {
        if (lacks(ref) && strcmp(ref->secret.ptr, secret) == 0 &&
            (i < n ? take_secret(brings, i, data, err)
                   : take_login(brings, i - n, data, err)) != WP_OK) {
            return err->status;
        }
    }
    return brings->text_bytes <= WP_BINDING_TEXT_MAX
               ? WP_OK
               : wp_err_set(err, WP_FAILED_PRECONDITION,
                            "secrets: expected at most %d bytes of names, "
                            "values and words in all, got %zu",
                            WP_BINDING_TEXT_MAX, brings->text_bytes);
}
