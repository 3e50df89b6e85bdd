/* k8s/config.h - what the daemon tells the Kubernetes side, and gives it.
 *
 * Every room of k8s/ may know it; wp_cluster_config_init is in cluster.h. */
#ifndef WP_K8S_CONFIG_H
#define WP_K8S_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/annotations/tier.h"
#include "pool/pool.h"
#include "pool/remotes/trust_mode.h"

struct wp_api_config; /* k8s/api/api_config.h */
struct wp_tracer;     /* pool/trace/tracer.h */

enum wp_controllers {
    WP_CONTROLLER_POOL = 1,
    WP_CONTROLLER_CLAIM = 2,
    WP_CONTROLLER_TEMPLATE = 4,
    WP_CONTROLLER_SANDBOX = 8,
    WP_CONTROLLERS_ALL = 15,
};

/* The tenant of leases that belong to SandboxClaim objects; their claim id is
 * the object's uid. Services refuse tenants that begin with "system:". */
#define WP_TENANT_SANDBOX_CLAIMS "system:sandboxclaims"

/* Where the API server has objects converted, and what it is trusted by. Texts
 * are borrowed until destroy. */
struct wp_cluster_webhook {
    const char *service; /* In election_ns; its port is 443. */
    const char *url;     /* https, instead of the Service; NULL: none. */
    const char *secret;  /* In election_ns: what all replicas show. */
    void *ctx;
    /* Shows this certificate from now on; PEM texts. The cluster's thread. */
    void (*use)(void *ctx, const char *cert, const char *key);
};

/* Signed identities of sandboxes in Pods. Texts are borrowed until destroy; all
 * is called on the cluster's thread. */
struct wp_cluster_identity {
    const char *secret; /* In election_ns: the keys that all replicas have. */
    void *ctx;
    /* These keys are there from now on: the Secret's data, or NULL. */
    void (*take)(void *ctx, json_t *data);
    /* What the leader is to write there: a part of data, with null for what
     * goes; a new reference. NULL: nothing. */
    json_t *(*change)(void *ctx);
    /* A token that tells about whom lease tells, until its deadline at the
     * latest. Not WP_OK: there is none, and err says why. */
    enum wp_status (*sign)(void *ctx, const struct wp_claim_info *lease,
                           struct wp_str audience, int64_t ttl_ms,
                           char token[WP_IDENTITY_TOKEN_MAX + 1],
                           int64_t *expires_wall_ms, struct wp_err *err);
};

/* The egress proxies of namespaces, which ask each sandbox for a pass
 * (pool/egress/pass.h). Borrowed until destroy. */
struct wp_cluster_egress {
    const char *proxy;  /* "HOST:PORT" for sandboxes; NULL: none gets a pass. */
    const uint8_t *key; /* WP_EGRESS_KEY_LEN bytes, of the installation. */
};

/* Repositories that claims may bring. Texts are borrowed until destroy. */
struct wp_cluster_git {
    const char *remotes;        /* As wp_remote_rules_add reads them; "". */
    const char *remotes_denied; /* "" */
    const char *fetch_socket;   /* Of the warmpool-fetch that serves; "". */
    uint64_t repository_bytes_max;
    uint64_t cache_bytes_max;
    int64_t cache_age_s;
    int64_t timeout_ms; /* Of one fetch. */
    enum wp_trust_mode trust;
    const char *trust_files; /* A list of paths. */
};

/* wp_cluster_config_init fills every field with its default. Texts are borrowed
 * until destroy. */
struct wp_cluster_config {
    const struct wp_api_config *server;
    const struct wp_clock *clock;
    uint32_t controllers;       /* Bits of enum wp_controllers. */
    const char *watch_ns;       /* NULL: all namespaces. */
    const char *election_ns;    /* NULL: the server's own_namespace. */
    const char *election_name;  /* "warmpool-controller" */
    const char *identity;       /* Unique among replicas. */
    bool election;              /* True. False: this is the only replica. */
    const char *cluster_domain; /* "cluster.local" */
    uint16_t sandbox_port;      /* 8888: endpoints are POD_IP:this. */
    int64_t cold_grace_ns;      /* 2 s: a claim waits so long for a warm one. */
    bool cold_start; /* True: then it starts cold; else it waits on. */
    int64_t
        ready_grace_ns; /* 5 min: a sandbox not ready by then is replaced. */
    int64_t watch_silence_ns;     /* 90 s: a watch that is silent is ended. */
    uint32_t create_inflight_max; /* 300 in each pool that does not say. */
    /* Of a template that claims name and nobody made a pool for: how many
     * sandboxes it keeps, 0: there is none unless its template says so; how
     * long without such a claim; and how many such pools there may be. */
    uint32_t implicit_pool;
    int64_t implicit_pool_idle_ns; /* 10 min */
    uint32_t implicit_pools_max;   /* 64 */
    uint32_t sandboxes_max;        /* What the backend takes; as slots_max. */
    /* The lease store keeps nothing: leases are rebuilt from the Sandboxes that
     * tell of them, before this replica serves. False. */
    bool rebuild_leases;
    double qps; /* 0: no bound of our own. */
    uint32_t burst;
    enum wp_tier default_tier;      /* Of templates that name none. T0. */
    bool claim_events;              /* True. */
    bool observability_annotations; /* True. */
    bool warm_pool_eviction;        /* True: pool pods are safe to evict. */
    bool gc; /* Ends what a missing garbage collector would leave. False. */
    const char *allowed_label_domains_file;
    /* WP_SANDBOX_KEY_LEN bytes: Pods of pools are told the digests of the
     * tokens made with it. NULL: no token is asked for. */
    const uint8_t *sandbox_key;
    const struct wp_cluster_webhook *webhook;     /* NULL: none. */
    const struct wp_cluster_identity *identities; /* NULL: none. */
    struct wp_cluster_egress egress;
    struct wp_cluster_git git; /* None may be brought. */
    /* Takes spans of SandboxClaims whose annotation asks for them; NULL. */
    struct wp_tracer *tracer;
};

/* What the daemon gives. post: has run(arg, a, b) called on the control thread,
 * false when its channel is full. Any thread. */
struct wp_cluster_core {
    struct wp_pools *pools;
    void *ctx;
    bool (*post)(void *ctx, void (*run)(void *arg, uint64_t a, uint64_t b),
                 void *arg, uint64_t a, uint64_t b);
    /* Does the core know the records of all its pools? NULL: it always does. No
     * sandbox is judged by its records before. Control thread. */
    bool (*has_records)(void *ctx);
    /* This replica leads from now on, or does no more. The cluster's thread;
     * must not block. Leading: the daemon makes pools the keeper's (restored
     * sandboxes have been seen by then). */
    void (*on_leading)(void *ctx, bool leads);
    /* Cannot go on (another controller of the same kinds is active, the API
     * server refuses us): the daemon leaves, with this as the reason. */
    void (*on_fatal)(void *ctx, const char *reason);
};

#endif
