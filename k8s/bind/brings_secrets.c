/* k8s/bind/brings_secrets.c - the values of the Secrets that a SandboxClaim
 * names.
 *
 * Who may make claims may not be allowed to read Secrets. So a Secret says by a
 * label that claims may have it. */
#include <stdlib.h>
#include <string.h>

#include "k8s/bind/brings.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/assert.h"
#include "proto/formats/base64.h"

const char *
wp_claim_brings_lacks(const struct wp_claim_brings *brings)
{
    for (uint32_t i = 0; i < brings->binding.n_secrets; i++) {
        if (brings->refs[i].value == NULL) {
            return brings->refs[i].secret.ptr;
        }
    }
    return NULL;
}

static enum wp_status
take(struct wp_claim_brings *brings, uint32_t at, const json_t *data,
     struct wp_err *err)
{
    struct wp_claim_secret_ref *ref = &brings->refs[at];
    struct wp_binding_secret *secret = &brings->secrets[at];
    const json_t *coded = json_object_get(data, ref->key.ptr);
    size_t len = 0;

    if (!json_is_string(coded)) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "secret '%.*s': Secret \"%s\" has no key \"%s\"",
                          (int)secret->name.len, secret->name.ptr,
                          ref->secret.ptr, ref->key.ptr);
    }
    ref->value = malloc(json_string_length(coded) / 4 * 3 + 4);
    WP_ASSERT(ref->value != NULL);
    ref->value[0] = '\0';
    if (!wp_base64_read(json_string_value(coded), ref->value, &len)) {
        len = WP_BINDING_VALUE_MAX + 1;
    }
    /* Of what is refused, fini wipes as much as may have been decoded. */
    secret->value =
        (struct wp_str){ref->value, json_string_length(coded) / 4 * 3};
    if (len > WP_BINDING_VALUE_MAX ||
        (secret->in_env && memchr(ref->value, '\0', len) != NULL)) {
        return wp_err_set(
            err, WP_FAILED_PRECONDITION,
            "secret '%.*s': key \"%s\" of Secret \"%s\": expected "
            "at most %d bytes%s",
            (int)secret->name.len, secret->name.ptr, ref->key.ptr,
            ref->secret.ptr, WP_BINDING_VALUE_MAX,
            secret->in_env ? " without NUL" : "");
    }
    secret->value.len = len;
    brings->text_bytes += len;
    return WP_OK;
}

enum wp_status
wp_claim_brings_take(struct wp_claim_brings *brings, const char *secret,
                     const json_t *object, struct wp_err *err)
{
    const json_t *data = json_object_get(object, "data");

    if (strcmp(wp_json_text(object, "metadata", "labels", WP_LABEL_CLAIM_SECRET,
                            NULL),
               WP_CLAIM_SECRET_ALLOWED) != 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "Secret \"%s\" is not for claims: it has no "
                          "label " WP_LABEL_CLAIM_SECRET
                          ": " WP_CLAIM_SECRET_ALLOWED,
                          secret);
    }
    for (uint32_t i = 0; i < brings->binding.n_secrets; i++) {
        if (brings->refs[i].value == NULL &&
            strcmp(brings->refs[i].secret.ptr, secret) == 0 &&
            take(brings, i, data, err) != WP_OK) {
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
