/* k8s/bind/brings.h - what a SandboxClaim brings for its sandbox: the variables
 * of spec.env, and what its annotations name. Pure. */
#ifndef WP_K8S_BIND_BRINGS_H
#define WP_K8S_BIND_BRINGS_H

#include <event2/buffer.h>
#include <jansson.h>

#include "k8s/objects/object.h"
#include "pool/base/status.h"
#include "pool/binding.h"
#include "pool/pool.h"
#include "proto/checkout/trees.h"
#include "proto/parcel/request.h"

enum {
    WP_CLAIM_BRINGS_TEXTS = 6, /* Annotations. */
};

/* Where the value of a secret, or a repository's password, is. */
struct wp_claim_secret_ref {
    /* The Secret's name, in the claim's namespace; empty: there is no value. */
    struct wp_str secret;
    struct wp_str key;
    char *value; /* Owned; NULL: not read yet. Wiped at the end. */
    size_t cap;  /* Bytes of value. */
};

/* Large: for the heap, or static. */
struct wp_claim_brings {
    struct wp_binding binding; /* Its fingerprint is the caller's to set. */
    struct wp_binding_env env[WP_BINDING_ENV_MAX];
    struct wp_binding_secret secrets[WP_BINDING_SECRETS_MAX];
    struct wp_claim_secret_ref refs[WP_BINDING_SECRETS_MAX]; /* Of secrets. */
    struct wp_binding_file files[WP_BINDING_FILES_MAX];
    struct wp_binding_repository repositories[WP_BINDING_REPOSITORIES_MAX];
    struct wp_claim_secret_ref logins[WP_BINDING_REPOSITORIES_MAX];
    struct wp_str command[WP_BINDING_ARGS_MAX];

    size_t text_bytes; /* Of names, values and words so far. */
    size_t file_bytes;
    json_t *whole; /* What the texts lie in. Owned, as all that follows. */
    json_t *texts[WP_CLAIM_BRINGS_TEXTS];
    uint32_t n_texts;
    char *contents[WP_BINDING_FILES_MAX]; /* Of files in base64. */
    uint32_t n_contents;
};

/* Has it annotations that bring something? */
bool wp_claim_brings_more(const struct wp_object *claim);
/* Do two versions of it have the same ones? */
bool wp_claim_brings_same(const struct wp_object *before,
                          const struct wp_object *after);

/* Reads the annotations, and with_env spec.env. INVALID_ARGUMENT, and err says
 * what was expected, in words for people that hold no content. Secrets have no
 * values yet. Ended by fini in either case. */
WP_MUST_CHECK enum wp_status wp_claim_brings_read(const struct wp_object *claim,
                                                  bool with_env,
                                                  struct wp_claim_brings *out,
                                                  struct wp_err *err);
void wp_claim_brings_fini(struct wp_claim_brings *brings);

/* The Secret that has to be read next; NULL: all values are there. Valid until
 * fini. */
const char *wp_claim_brings_lacks(struct wp_claim_brings *brings);
/* Takes the values that this Secret has, as the API server sent it.
 * FAILED_PRECONDITION: it is not for claims, lacks a key, or has a value that
 * cannot be brought; err names it. */
WP_MUST_CHECK enum wp_status
wp_claim_brings_take(struct wp_claim_brings *brings, const char *secret,
                     const json_t *object, struct wp_err *err);

/* Is it the program of the Pod's first container that each variable is for?
 * That is the one which takes what claims bring. err says which is not. */
WP_MUST_CHECK enum wp_status
wp_claim_brings_check(const struct wp_object *claim,
                      const struct wp_object *templ, struct wp_err *err);

/* What goes to the Pod. */
struct wp_claim_parcel {
    struct evbuffer *bytes; /* Its bytes are wiped once nobody needs them. */
    struct wp_bind_trees *trees; /* To be fetched; NULL: none. */
    char fingerprint[WP_BIND_FINGERPRINT_TEXT + 1];
};

/* brings_pack.c: what was read, once no value lacks; brings is ended by it. out
 * is the caller's, as is what it has. */
void wp_claim_brings_pack(struct wp_claim_brings *brings,
                          const struct wp_pools *pools, const char *ns,
                          struct wp_claim_parcel *out);

/* brings_secrets.c, for brings.c: no value is there any more. */
void wp_claim_brings_wipe(struct wp_claim_brings *brings);
/* brings_repositories.c, for brings_annotations.c. */
WP_MUST_CHECK enum wp_status wp_claim_brings_read_repositories(
    const json_t *list, struct wp_claim_brings *out, struct wp_err *err);
/* brings_annotations.c, for claim_identity.c: the texts lie in identity. */
WP_MUST_CHECK enum wp_status
wp_claim_brings_read_identity(const json_t *identity, struct wp_str *audience,
                              int64_t *ttl_ms, struct wp_err *err);
/* Does it name a Secret? */
bool wp_claim_brings_is_name(const json_t *value);
/* brings_annotations.c, for brings.c. */
WP_MUST_CHECK enum wp_status
wp_claim_brings_read_annotations(const struct wp_object *claim,
                                 struct wp_claim_brings *out,
                                 struct wp_err *err);

#endif
