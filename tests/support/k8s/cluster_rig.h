/* tests/support/k8s/cluster_rig.h - a pool core on a cluster in memory.
 *
 * The real core, backend and way of pools on api_recorder's small server, all in
 * one thread: what is posted to control waits until wp_cluster_rig_settle. One
 * template "ns/t" and one pool "ns/p" are there. The clock is the machine's,
 * and jumps when the test says so. */
#ifndef WP_TESTS_SUPPORT_K8S_CLUSTER_RIG_H
#define WP_TESTS_SUPPORT_K8S_CLUSTER_RIG_H

#include "k8s/backend/backend.h"
#include "k8s/backend/pool_sync.h"
#include "k8s/objects/sandbox_refs.h"
#include "tests/support/k8s/api_recorder.h"

enum {
    WP_CLUSTER_RIG_SLOTS = 64,
    WP_CLUSTER_RIG_MESSAGES = 256,
};

struct wp_cluster_rig_message {
    void (*run)(void *arg, uint64_t a, uint64_t b);
    void *arg;
    uint64_t a;
    uint64_t b;
};

struct wp_cluster_rig {
    struct wp_clock clock; /* First. */
    int64_t offset_ns;
    struct wp_parts parts;
    struct wp_api *api;
    struct wp_pools *pools;
    struct wp_cluster_backend *backend;
    struct wp_pool_sync *sync;
    struct wp_cluster_rig_message messages[WP_CLUSTER_RIG_MESSAGES];
    uint32_t n_messages;
    bool control_full; /* No message is taken. */
    char names[8][WP_SANDBOX_NAME_MAX + 1];
    uint32_t n_names;
    uint32_t readied; /* How often the backend said that it is ready. */
};

/* replicas of the pool; the store is NULL for the one that keeps nothing. The
 * replica follows: nothing is done yet. */
void wp_cluster_rig_init(struct wp_cluster_rig *rig, int replicas,
                         const struct wp_lease_store *store);
void wp_cluster_rig_fini(struct wp_cluster_rig *rig);
/* It leads, and the core is the keeper once it was told of everything. */
void wp_cluster_rig_lead(struct wp_cluster_rig *rig);
/* The same, but nothing is waited for. */
void wp_cluster_rig_begin_to_lead(struct wp_cluster_rig *rig);
void wp_cluster_rig_follow(struct wp_cluster_rig *rig);
/* A rig that leads, on the store that keeps nothing. */
void wp_cluster_rig_start(struct wp_cluster_rig *rig, int replicas);
/* Until nothing happens any more, but for what waits for time. */
void wp_cluster_rig_settle(struct wp_cluster_rig *rig);
/* One part of that: what is posted to control, a turn of the core, or one of
 * the cluster's thread with all that the server says. */
enum wp_cluster_rig_part {
    WP_CLUSTER_RIG_POSTED,
    WP_CLUSTER_RIG_CORE,
    WP_CLUSTER_RIG_CLUSTER,
    WP_CLUSTER_RIG_PARTS,
};
void wp_cluster_rig_run(struct wp_cluster_rig *rig,
                        enum wp_cluster_rig_part part);
/* Lets time pass, and what is due then happen. */
void wp_cluster_rig_pass(struct wp_cluster_rig *rig, int64_t ns);
/* Sandbox name of "ns" is Ready, at this address; "": it is not. */
void wp_cluster_rig_ready(struct wp_cluster_rig *rig, const char *name,
                          const char *ip);
/* Makes all that have no status ready, and settles. */
void wp_cluster_rig_all_ready(struct wp_cluster_rig *rig);
/* The i-th Sandbox's name; valid until eight others were asked for. */
const char *wp_cluster_rig_name(struct wp_cluster_rig *rig, uint32_t i);
/* How many Sandboxes the server has. */
uint32_t wp_cluster_rig_objects(const struct wp_cluster_rig *rig);
/* Of Sandbox name. Borrowed; "" without it. */
const char *wp_cluster_rig_annotation(const struct wp_cluster_rig *rig,
                                      const char *name, const char *key);
/* Another controller's sandbox of the pool, with upstream's kind of name. */
void wp_cluster_rig_put_foreign(struct wp_cluster_rig *rig, const char *name);
/* What another controller's adoption makes of it. */
void wp_cluster_rig_take_away(struct wp_cluster_rig *rig, const char *name);
/* Fills in a claim of pool "ns/p", which stays the caller's, and claims. */
enum wp_status wp_cluster_rig_claim(struct wp_cluster_rig *rig,
                                    struct wp_claim *claim, const char *id,
                                    const char *tenant);
/* Of pool "ns/p". */
struct wp_pool_stats wp_cluster_rig_stats(struct wp_cluster_rig *rig);
struct wp_cluster_backend_stats
wp_cluster_rig_backend_stats(const struct wp_cluster_rig *rig);

#endif
