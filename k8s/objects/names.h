/* k8s/objects/names.h - labels, annotations and reasons of the agent-sandbox
 * contract.
 *
 * One list, so that a key is spelled once. Also the hash by which its labels
 * name pools, templates and sandboxes. */
#ifndef WP_K8S_OBJECTS_NAMES_H
#define WP_K8S_OBJECTS_NAMES_H

#include "pool/base/str.h"

/* Labels. */
#define WP_LABEL_NAME_HASH "agents.x-k8s.io/sandbox-name-hash"
#define WP_LABEL_WARM_POOL "agents.x-k8s.io/warm-pool-sandbox"
#define WP_LABEL_TEMPLATE_REF_HASH "agents.x-k8s.io/sandbox-template-ref-hash"
#define WP_LABEL_TEMPLATE_HASH "agents.x-k8s.io/sandbox-template-hash"
#define WP_LABEL_POD_TEMPLATE_HASH "agents.x-k8s.io/sandbox-pod-template-hash"
#define WP_LABEL_LAUNCH_TYPE "agents.x-k8s.io/launch-type"
#define WP_LABEL_CREATED_BY "agents.x-k8s.io/created-by"
#define WP_LABEL_CLAIM_UID "agents.x-k8s.io/claim-uid"
#define WP_LABEL_ADOPTABLE "agents.x-k8s.io/adoptable"
/* Of a Sandbox that only shows another one: the uid of its claim. */
#define WP_LABEL_ALIAS "warmpool.dev/alias"
/* Of a SandboxWarmPool that nobody made; see k8s/controllers/implicit. */
#define WP_LABEL_IMPLICIT_POOL "warmpool.dev/implicit-pool"
/* Annotations. */
#define WP_ANNOTATION_SANDBOX_NAME "agents.x-k8s.io/sandbox-name"
#define WP_ANNOTATION_POD_NAME "agents.x-k8s.io/pod-name"
#define WP_ANNOTATION_TEMPLATE_REF "agents.x-k8s.io/sandbox-template-ref"
#define WP_ANNOTATION_PROPAGATED_LABELS "agents.x-k8s.io/propagated-labels"
#define WP_ANNOTATION_PROPAGATED_ANNOTATIONS                                   \
    "agents.x-k8s.io/propagated-annotations"
#define WP_ANNOTATION_FIRST_OBSERVED                                           \
    "agents.x-k8s.io/controller-first-observed-at"
#define WP_ANNOTATION_FIRST_READY "agents.x-k8s.io/claim-first-ready-at"
/* Of a SandboxTemplate: the port that has to serve before a sandbox is Ready.
 */
#define WP_ANNOTATION_SERVING_PORT "warmpool.dev/serving-port"
/* Of a SandboxTemplate: how many sandboxes its implicit pool keeps; "0": it has
 * none. */
#define WP_ANNOTATION_IMPLICIT_POOL "warmpool.dev/implicit-pool"
/* Of a Sandbox: its claim brings something to it. */
#define WP_ANNOTATION_BRINGS "warmpool.dev/brings"
/* Of a SandboxClaim: what it brings besides variables; see
 * k8s/bind/brings_annotations.c. */
#define WP_ANNOTATION_CLAIM_FILES "claim.warmpool.io/files"
#define WP_ANNOTATION_CLAIM_SECRETS "claim.warmpool.io/secrets"
#define WP_ANNOTATION_CLAIM_WORKING_DIR "claim.warmpool.io/working-dir"
#define WP_ANNOTATION_CLAIM_COMMAND "claim.warmpool.io/command"
#define WP_ANNOTATION_CLAIM_REPOSITORIES "claim.warmpool.io/repositories"
#define WP_ANNOTATION_CLAIM_IDENTITY "claim.warmpool.io/identity"
#define WP_ANNOTATION_CLAIM_EGRESS "claim.warmpool.io/egress"
/* Label of a Secret that claims may bring, with this value. */
#define WP_LABEL_CLAIM_SECRET "claim.warmpool.io/secret"
#define WP_CLAIM_SECRET_ALLOWED "allowed"
/* A pool with it serves only claims that name it. */
#define WP_ANNOTATION_TENANT "warmpool.dev/tenant"
#define WP_ANNOTATION_TRACE "opentelemetry.io/trace-context"
#define WP_ANNOTATION_SAFE_TO_EVICT                                            \
    "cluster-autoscaler.kubernetes.io/safe-to-evict"
#define WP_SYSTEM_PREFIX "agents.x-k8s.io/"
#define WP_EXTENSIONS_PREFIX "extensions.agents.x-k8s.io/"

enum {
    WP_NAME_HASH_LEN = 8
};
/* FNV-1a, 32 bits, as 8 lower-case hex digits. */
void wp_name_hash(struct wp_str name, char out[WP_NAME_HASH_LEN + 1]);

/* By what trees of <search.h> are ordered; the first member of what is in them.
 */
struct wp_name_key {
    const char *ns;
    const char *name;
};
int wp_name_key_compare(const void *a, const void *b);

#endif
