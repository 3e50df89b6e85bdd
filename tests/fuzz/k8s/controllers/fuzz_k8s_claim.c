/* Four lines as what comes from outside when a SandboxClaim is served: the file
 * of allowed label domains (names separated by commas), a claim, a template and
 * a Sandbox. What is built from them must be whole: an adoption carries version
 * and owner, a second one of the result changes nothing more, and a claim whose
 * metadata was refused is never merged. */
#include <stdlib.h>
#include <string.h>

#include "k8s/bind/brings.h"
#include "k8s/controllers/claim/adopt.h"
#include "k8s/controllers/claim/cold.h"
#include "k8s/controllers/claim/expiry.h"
#include "k8s/controllers/claim/metadata.h"
#include "k8s/controllers/claim/status.h"
#include "k8s/objects/json.h"
#include "proto/parcel/pack.h"
#include "proto/parcel/parcel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool truth)
{
    if (!truth) {
        abort();
    }
}

static struct wp_str
next_line(struct wp_str *rest)
{
    struct wp_str line = *rest;
    const char *end =
        rest->len == 0 ? NULL : memchr(rest->ptr, '\n', rest->len);

    if (end == NULL) {
        *rest = (struct wp_str){NULL, 0};
        return line;
    }
    line.len = (size_t)(end - line.ptr);
    rest->len -= line.len + 1;
    rest->ptr = end + 1;
    return line;
}

static struct wp_object *
read_object(enum wp_kind kind, struct wp_str text)
{
    json_t *json =
        text.len == 0 ? NULL : json_loadb(text.ptr, text.len, 0, NULL);
    struct wp_err err = {.msg = ""};
    struct wp_object *object = NULL;

    if (json != NULL) {
        object = wp_object_create(kind, json, &err);
        check(object != NULL || err.msg[0] != '\0');
    }
    json_decref(json);
    return object;
}

static void
adopt(const struct wp_adoption *adoption, const struct wp_object *sandbox)
{
    struct wp_err err = {.msg = ""};
    json_t *patch = wp_adoption_patch(adoption, sandbox, &err);

    if (patch == NULL) {
        check(err.msg[0] != '\0');
    } else {
        check(strcmp(wp_json_text(patch, "metadata", "resourceVersion", NULL),
                     sandbox->resource_version) == 0);
        check(json_array_size(
                  wp_json_at(patch, "metadata", "ownerReferences", NULL)) == 1);
    }
    json_decref(patch);
    if (adoption->templ != NULL) {
        patch = NULL;
        check(wp_adoption_refresh(adoption, sandbox, &patch, &err) == WP_OK ||
              patch == NULL);
        json_decref(patch);
    }
}

static void
tell(const struct wp_object *claim, const struct wp_object *sandbox)
{
    struct wp_claim_outcome outcome = {.sandbox = sandbox};
    json_t *patch = wp_claim_status_patch(claim, &outcome, 1);

    check(patch == NULL ||
          json_is_array(wp_json_at(patch, "status", "conditions", NULL)));
    json_decref(patch);
    (void)wp_claim_expires_wall_ms(wp_claim_view(claim));
}

/* What can be brought fits into a parcel, or there are words for why not. */
static void
bring(const struct wp_object *claim, const struct wp_object *templ)
{
    static struct wp_claim_brings brings;
    struct wp_err err = {.msg = ""};

    if (wp_claim_brings_read(claim, true, &brings, &err) == WP_OK) {
        const char *secret = wp_claim_brings_lacks(&brings);

        /* The claim itself in the place of a Secret that the server sends. */
        if (secret == NULL ||
            wp_claim_brings_take(&brings, secret, brings.whole, &err) ==
                WP_OK) {
            check(wp_parcel_size(&brings.binding, WP_STR("")) <= WP_PARCEL_MAX);
        } else {
            check(err.msg[0] != '\0');
        }
    } else {
        check(err.msg[0] != '\0');
    }
    wp_claim_brings_fini(&brings);
    if (templ != NULL && wp_claim_brings_check(claim, templ, &err) != WP_OK) {
        check(err.msg[0] != '\0');
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_str rest = {(const char *)data, size};
    struct wp_label_domains domains;
    struct wp_err err = {.msg = ""};
    bool read =
        wp_label_domains_parse(&domains, next_line(&rest), &err) == WP_OK;
    struct wp_object *claim =
        read_object(WP_KIND_SANDBOX_CLAIM, next_line(&rest));
    struct wp_object *templ =
        read_object(WP_KIND_SANDBOX_TEMPLATE, next_line(&rest));
    struct wp_object *sandbox = read_object(WP_KIND_SANDBOX, rest);

    check(read ? domains.len > 0 : err.msg[0] != '\0');
    if (claim != NULL) {
        json_t *whole = wp_object_json(claim);
        json_t *additional =
            wp_json_at(whole, "spec", "additionalPodMetadata", NULL);
        bool fine = read && wp_claim_metadata_check(&domains, additional,
                                                    &err) == WP_OK;

        bring(claim, templ);
        if (templ != NULL && fine) {
            const char *reason = NULL;
            json_t *made =
                wp_cold_sandbox(claim, templ, WP_TIER_T0, &reason, &err);

            check(made != NULL || reason != NULL);
            json_decref(made);
        }
        if (sandbox != NULL) {
            struct wp_adoption adoption = {claim, fine ? additional : NULL,
                                           templ, true};

            adopt(&adoption, sandbox);
            tell(claim, sandbox);
        }
        json_decref(whole);
    }
    wp_object_unref(claim);
    wp_object_unref(templ);
    wp_object_unref(sandbox);
    if (read) {
        wp_label_domains_fini(&domains);
    }
    return 0;
}
