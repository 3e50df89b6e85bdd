/* tests/support/k8s/claim_rig.h - the claim controller with a pool core, stores
 * and a small API server, all on one clock and in one thread.
 *
 * A pool "p" of template "t" in namespace "ns"; sandboxes are ordered by the
 * core, and become Ready when the test says so. */
#ifndef WP_TESTS_SUPPORT_K8S_CLAIM_RIG_H
#define WP_TESTS_SUPPORT_K8S_CLAIM_RIG_H

#include "k8s/controllers/claim/controller.h"
#include "k8s/controllers/shared.h"
#include "pool/base/clock.h"
#include "pool/pool.h"
#include "tests/support/k8s/api_recorder.h"
#include "tests/support/pool/manual_clock.h"

enum {
    WP_CLAIM_RIG_SLOTS = 64,
};

struct wp_claim_rig_order {
    struct wp_slot_ref ref;
    char name[WP_SANDBOX_NAME_MAX + 1];
    bool live;
    bool ready;
    bool dying;
};

struct wp_claim_rig {
    struct wp_clock_manual clock;
    struct wp_parts parts;
    struct wp_api *api;
    struct wp_pools *pools;
    void *controller;
    uint32_t orders_len;
    struct wp_claim_rig_order orders[1024];
    /* What was posted to the cluster's thread; full: nothing more is taken. */
    struct {
        void (*run)(void *arg, uint64_t a, uint64_t b);
        void *arg;
    } messages[64];
    uint32_t messages_len;
    uint32_t target;
    uint32_t processes; /* So far. */
    int64_t lead_ns;    /* Of the sandboxes that start makes. */
    bool channel_full;
    bool pool_known;      /* The core has the pool. */
    bool faults_may_stay; /* Planned ones need not have happened. */
};

/* Filled with defaults before start, which may be told otherwise. */
void wp_claim_rig_init(struct wp_claim_rig *rig);
/* Makes pool, template and controller, target sandboxes Ready; leads. */
void wp_claim_rig_start(struct wp_claim_rig *rig, uint32_t target);
void wp_claim_rig_fini(struct wp_claim_rig *rig);
/* Until nothing more happens at this time. */
void wp_claim_rig_settle(struct wp_claim_rig *rig);
void wp_claim_rig_advance(struct wp_claim_rig *rig, int64_t ns);
/* Makes at most n of the sandboxes that are being made Ready; returns how
 * many. */
uint32_t wp_claim_rig_make_ready(struct wp_claim_rig *rig, uint32_t n);
/* The process dies, and another one takes over: what was not answered is not
 * done, and nothing is known but what the API server has. Calls are counted
 * from zero again. */
void wp_claim_rig_restart(struct wp_claim_rig *rig);

/* Another client makes a claim; spec is merged in; NULL: nothing. */
void wp_claim_rig_claim(struct wp_claim_rig *rig, const char *name,
                        const char *spec);
void wp_claim_rig_unclaim(struct wp_claim_rig *rig, const char *name);
/* What the server has of it: status.sandbox.name, and of Ready. "" when there
 * is none. */
const char *wp_claim_rig_sandbox(struct wp_claim_rig *rig, const char *name);
const char *wp_claim_rig_ready(struct wp_claim_rig *rig, const char *name,
                               const char *field);
/* The Sandbox object of that name; NULL. */
const json_t *wp_claim_rig_object(struct wp_claim_rig *rig, const char *name);
/* The uid of whoever controls the Sandbox; "". */
const char *wp_claim_rig_owner(struct wp_claim_rig *rig, const char *name);
const char *wp_claim_rig_uid(struct wp_claim_rig *rig, const char *claim);
/* Writes of claims (their status when status), and of Sandboxes. */
uint32_t wp_claim_rig_writes(struct wp_claim_rig *rig, enum wp_kind kind,
                             bool status);
uint64_t wp_claim_rig_reconciles(struct wp_claim_rig *rig);
struct wp_pool_stats wp_claim_rig_stats(struct wp_claim_rig *rig);

#endif
