/* k8s/objects/view.h - what of each kind is looked at often, parsed once.
 *
 * Filled by k8s/objects/object.c from a checked object. Texts live as long as
 * the object and are "" where absent; times are milliseconds since 1970, 0
 * where absent; -1 marks an absent number. */
#ifndef WP_K8S_OBJECTS_VIEW_H
#define WP_K8S_OBJECTS_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "k8s/objects/object.h"
#include "pool/annotations/tier.h"

enum wp_condition_status {
    WP_CONDITION_ABSENT,
    WP_CONDITION_TRUE,
    WP_CONDITION_FALSE,
    WP_CONDITION_UNKNOWN,
};

struct wp_condition {
    enum wp_condition_status status;
    const char *reason;
    const char *message;
    int64_t observed_generation;
    int64_t transition_wall_ms;
    const char *transition; /* As it stood, for forwarding it unchanged. */
};

enum wp_shutdown_policy {
    WP_SHUTDOWN_RETAIN,
    WP_SHUTDOWN_DELETE,
    WP_SHUTDOWN_DELETE_FOREGROUND,
};

struct wp_sandbox_view {
    struct wp_condition ready;
    struct wp_condition finished;
    struct wp_condition suspended;
    const char *pod_ip;         /* The first of status.podIPs. */
    const char *const *pod_ips; /* Ends with NULL. */
    const char *service_fqdn;   /* "": no Service. */
    const char *node_name;
    int64_t shutdown_wall_ms;
    enum wp_shutdown_policy shutdown_policy;
    bool wants_suspended;   /* spec.operatingMode: Suspended */
    bool pod_unschedulable; /* PodScheduled is False, Unschedulable. */
    int service;            /* -1 absent, 0, 1 */
};

struct wp_claim_view {
    const char *pool;    /* spec.warmPoolRef.name */
    const char *sandbox; /* status.sandbox.name */
    const char *const *pod_ips;
    const char *service_fqdn;
    struct wp_condition ready;
    struct wp_condition finished;
    bool has_lifecycle;
    int64_t shutdown_wall_ms;
    int64_t ttl_after_finished_s; /* -1: none. */
    enum wp_shutdown_policy shutdown_policy;
    bool has_env;
    bool has_volume_claims;
    bool has_pod_metadata; /* additionalPodMetadata with anything in it. */
};

enum wp_update_strategy {
    WP_UPDATE_ON_REPLENISH,
    WP_UPDATE_RECREATE,
};

struct wp_warm_pool_view {
    const char *template_name;
    int64_t replicas; /* Defaults to 1. */
    enum wp_update_strategy update_strategy;
    int64_t status_replicas; /* -1: absent. */
    int64_t status_ready_replicas;
    int64_t status_observed_generation;
    const char *status_selector;
};

enum wp_injection_policy {
    WP_INJECTION_DISALLOWED,
    WP_INJECTION_ALLOWED,
    WP_INJECTION_OVERRIDES,
};

struct wp_template_view {
    bool managed; /* networkPolicyManagement; defaults to true. */
    bool has_network_policy;
    enum wp_injection_policy env_policy;
    enum wp_injection_policy volume_policy;
    bool has_tier;
    enum wp_tier tier; /* Of WP_TIER_KEY, when it has one. */
    /* Of what sandboxes are made from; see wp_blueprint_hash; after the secure
     * defaults, and what each tier fills. */
    uint64_t blueprint_hashes[WP_TIERS];
    uint16_t serving_port; /* Of the annotation of that name; 0: none. */
    int32_t implicit_pool; /* The same; -1: it does not say. */
    bool binds;            /* Its program takes what claims bring. */
    /* Of the labels and annotations of its Pods. */
    uint64_t pod_metadata_hash;
};

enum wp_pod_phase {
    WP_POD_PENDING,
    WP_POD_RUNNING,
    WP_POD_SUCCEEDED,
    WP_POD_FAILED,
    WP_POD_UNKNOWN,
};

struct wp_pod_view {
    enum wp_pod_phase phase;
    struct wp_condition ready;
    struct wp_condition scheduled;
    const char *pod_ip;
    const char *const *pod_ips;
    const char *node_name;
};

/* NULL unless the object is of that kind. */
const struct wp_sandbox_view *wp_sandbox_view(const struct wp_object *object);
const struct wp_claim_view *wp_claim_view(const struct wp_object *object);
const struct wp_warm_pool_view *
wp_warm_pool_view(const struct wp_object *object);
const struct wp_template_view *wp_template_view(const struct wp_object *object);
const struct wp_pod_view *wp_pod_view(const struct wp_object *object);

/* The template's tier, or the installation's where it names none. */
enum wp_tier wp_template_tier(const struct wp_template_view *view,
                              enum wp_tier installed);
/* Are its Pods given public resolvers? So where the default network policy is
 * in force, unless the egress proxy is to be found by its name. */
bool wp_template_has_public_dns(const struct wp_template_view *view,
                                enum wp_tier tier);
/* What every Pod made from a template gets unless it says otherwise: no service
 * account token; with public_dns (managed, and no rules of its own) resolvers
 * that know nothing of the cluster. Changes pod_spec, an object. */
void wp_pod_secure_defaults(json_t *pod_spec, bool public_dns);
/* A Pod is Ready only when this port takes connections: a readiness probe of
 * the first container, unless it has one. 0: nothing. Changes pod_spec alone,
 * not what is below it. */
void wp_pod_wait_for_port(json_t *pod_spec, uint16_t port);
/* FNV-1a of the canonical JSON of what the sandbox of this spec is made from:
 * the pod's spec, names and specs of volume claims, service. Equal: the same
 * sandbox. NULL is as an empty one. */
uint64_t wp_blueprint_hash(const json_t *spec);

#endif
