/* k8s/objects/kind.h - the kinds this project reads and writes, and their
 * versions.
 *
 * The one place that knows group, version and plural of a kind; when a version
 * comes or goes, this table changes and nothing else. */
#ifndef WP_K8S_OBJECTS_KIND_H
#define WP_K8S_OBJECTS_KIND_H

#include <stdbool.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

/* X(NAME, group, version, Kind, plural) */
#define WP_KIND_TABLE(X)                                                       \
    X(SANDBOX, "agents.x-k8s.io", "v1beta1", "Sandbox", "sandboxes")           \
    /* A Sandbox that shows another one: k8s/controllers/alias/alias.h. */     \
    X(ALIAS, "agents.x-k8s.io", "v1beta1", "Sandbox", "sandboxes")             \
    X(SANDBOX_CLAIM, "extensions.agents.x-k8s.io", "v1beta1", "SandboxClaim",  \
      "sandboxclaims")                                                         \
    X(SANDBOX_TEMPLATE, "extensions.agents.x-k8s.io", "v1beta1",               \
      "SandboxTemplate", "sandboxtemplates")                                   \
    X(SANDBOX_WARM_POOL, "extensions.agents.x-k8s.io", "v1beta1",              \
      "SandboxWarmPool", "sandboxwarmpools")                                   \
    X(POD, "", "v1", "Pod", "pods")                                            \
    X(SERVICE, "", "v1", "Service", "services")                                \
    X(VOLUME_CLAIM, "", "v1", "PersistentVolumeClaim",                         \
      "persistentvolumeclaims")                                                \
    X(NETWORK_POLICY, "networking.k8s.io", "v1", "NetworkPolicy",              \
      "networkpolicies")                                                       \
    X(EVENT, "events.k8s.io", "v1", "Event", "events")                         \
    X(LEASE, "coordination.k8s.io", "v1", "Lease", "leases")                   \
    X(SECRET, "", "v1", "Secret", "secrets")                                   \
    X(CONFIG_MAP, "", "v1", "ConfigMap", "configmaps")                         \
    X(DEFINITION, "apiextensions.k8s.io", "v1", "CustomResourceDefinition",    \
      "customresourcedefinitions")

enum wp_kind {
#define X(name, group, version, kind, plural) WP_KIND_##name,
    WP_KIND_TABLE(X)
#undef X
    WP_KIND_COUNT
};

struct wp_kind_info {
    const char *group; /* "" is the core group. */
    const char *version;
    const char *kind;
    const char *plural;
    const char *api_version; /* "group/version", or "v1". */
};

/* Static storage. Any thread. */
const struct wp_kind_info *wp_kind_info(enum wp_kind kind);

/* Does apiVersion name the kind's group, whatever the version? Owner references
 * are matched so: old ones carry versions that are gone. */
WP_MUST_CHECK bool wp_kind_is_group(enum wp_kind kind,
                                    struct wp_str api_version);

#endif
