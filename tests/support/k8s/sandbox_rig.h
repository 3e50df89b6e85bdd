/* tests/support/k8s/sandbox_rig.h - the sandbox controller on a recorder's small
 * server, on clocks that move when told.
 *
 * The rig plays users and kubelets; the controller is the only other client, so
 * every recorded call is its. In texts ' stands for ". */
#ifndef WP_TESTS_SUPPORT_K8S_SANDBOX_RIG_H
#define WP_TESTS_SUPPORT_K8S_SANDBOX_RIG_H

#include "k8s/controllers/shared.h"
#include "tests/support/k8s/api_recorder.h"
#include "tests/support/pool/manual_clock.h"

struct event_base;

struct sandbox_rig {
    struct event_base *base;
    struct wp_clock_manual clock;
    struct wp_parts parts;
    struct wp_api *api;
    void *controller;
    uint32_t seen; /* Writes counted so far. */
};

/* Active from the start. gc: it plays the garbage collector as well. */
void sandbox_rig_init(struct sandbox_rig *rig, bool gc);
void sandbox_rig_fini(struct sandbox_rig *rig);

/* Until nothing is left to do now. */
void sandbox_rig_settle(struct sandbox_rig *rig);
/* Lets time pass, and what is due then happen. */
void sandbox_rig_pass(struct sandbox_rig *rig, int64_t ms);

/* A Sandbox "s" in namespace "n" with this metadata and spec beside its names
 * (each "", or more members). */
void sandbox_rig_sandbox(struct sandbox_rig *rig, const char *metadata,
                         const char *spec);
/* Any object, made or replaced. */
void sandbox_rig_put(struct sandbox_rig *rig, enum wp_kind kind,
                     const char *text);
/* Merges a patch into it. */
void sandbox_rig_merge(struct sandbox_rig *rig, enum wp_kind kind,
                       const char *name, const char *patch);
/* What a kubelet says once the Pod runs. */
void sandbox_rig_pod_ready(struct sandbox_rig *rig, const char *name);

/* Writes since it was last asked, as "POST Pod s, PATCH Sandbox/status s". */
const char *sandbox_rig_writes(struct sandbox_rig *rig);
/* "True DependenciesReady", of sandbox "s"; "" without that condition. */
const char *sandbox_rig_condition(struct sandbox_rig *rig, const char *type);
/* The words of that condition; "" without it. */
const char *sandbox_rig_message(struct sandbox_rig *rig, const char *type);
/* Its object; NULL when there is none. Borrowed. */
const json_t *sandbox_rig_object(const struct sandbox_rig *rig,
                                 enum wp_kind kind, const char *name);

#endif
