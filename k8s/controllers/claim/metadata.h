/* k8s/controllers/claim/metadata.h - what a SandboxClaim may add to its Pod's
 * metadata.
 *
 * Labels need a domain that the cluster's owner has allowed, so that a claim
 * cannot opt into policies meant for others; annotations may have any domain
 * but the system's. Pure; any thread. */
#ifndef WP_K8S_CONTROLLERS_CLAIM_METADATA_H
#define WP_K8S_CONTROLLERS_CLAIM_METADATA_H

#include <jansson.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

/* Where a ConfigMap of the cluster's owner is mounted. */
#define WP_LABEL_DOMAINS_FILE "/etc/sandbox-config/allowed-label-domains"

/* Domains whose labels, and those of their subdomains, are allowed. */
struct wp_label_domains {
    char *text; /* Owned; the names, each terminated, one after the other. */
    uint32_t len;
};

enum {
    WP_LABEL_DOMAINS_MAX = 1024,
    WP_LABEL_DOMAINS_BYTES_MAX = 64 << 10,
};

/* Names separated by commas and ends of lines; none: "sandbox.users.io" alone.
 * Refused, naming the first that is wrong: what is no DNS name, more names or
 * bytes than the bounds above. */
WP_MUST_CHECK enum wp_status
wp_label_domains_parse(struct wp_label_domains *domains, struct wp_str text,
                       struct wp_err *err);
/* The same from a file; one that does not exist is like an empty one. */
WP_MUST_CHECK enum wp_status
wp_label_domains_read(struct wp_label_domains *domains, const char *path,
                      struct wp_err *err);
/* A zeroed one is fine. */
void wp_label_domains_fini(struct wp_label_domains *domains);

/* May a claim ask for this (spec.additionalPodMetadata; NULL: nothing)?
 * INVALID_ARGUMENT names the key and what was expected. */
WP_MUST_CHECK enum wp_status
wp_claim_metadata_check(const struct wp_label_domains *domains,
                        const json_t *additional, struct wp_err *err);
/* Adds it to a Pod's metadata. ALREADY_EXISTS, and metadata unchanged, when a
 * key is there with another value. */
WP_MUST_CHECK enum wp_status wp_claim_metadata_merge(json_t *metadata,
                                                     const json_t *additional,
                                                     struct wp_err *err);

#endif
