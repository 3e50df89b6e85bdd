/* k8s/controllers/sandbox/status.h - what a Sandbox's status has to say, and
 * how soon.
 *
 * Pure: from what was seen of its Pod and Service to conditions and fields. Any
 * thread. */
#ifndef WP_K8S_CONTROLLERS_SANDBOX_STATUS_H
#define WP_K8S_CONTROLLERS_SANDBOX_STATUS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "k8s/objects/object.h"

/* What is known of the Service. */
enum wp_sandbox_service {
    WP_SERVICE_NONE,    /* The status names none. */
    WP_SERVICE_THERE,   /* It is named like the sandbox. */
    WP_SERVICE_UNKNOWN, /* The status keeps what it says. */
};

/* Borrowed. */
struct wp_sandbox_facts {
    const struct wp_object *sandbox;
    const char *hash;
    const struct wp_object *pod; /* NULL: there is none, or it is not known. */
    bool pod_unknown;            /* pod is NULL because something failed. */
    uint32_t pods;               /* Controlled by the sandbox. */
    enum wp_sandbox_service service;
    const char *error; /* "": nothing failed. */
    const char *cluster_domain;
};

/* status is the sandbox's own and becomes what it has to be. Conditions tell
 * the generation that they are of, except those of a pool's sandbox. */
void wp_sandbox_status_apply(json_t *status,
                             const struct wp_sandbox_facts *facts,
                             int64_t wall_ns);

/* shutdownTime has come: Ready says so. Finished stays. */
void wp_sandbox_status_expire(json_t *status, int64_t generation,
                              int64_t wall_ns);
/* What it had is gone: only conditions stay. */
void wp_sandbox_status_strip(json_t *status);

/* The merge patch {"status": ...} from before to after; NULL when they are the
 * same. The caller owns it. */
json_t *wp_sandbox_status_patch(const json_t *before, const json_t *after);

/* Nobody is helped by each step of a Pod's start being written: what matters is
 * Ready, and everything that ends waiting or says what is wrong. */
enum wp_status_urgency {
    WP_STATUS_SAME,
    /* Of no interest by itself: a node's name before the Pod is ready, an
     * observedGeneration where none was told. */
    WP_STATUS_IDLE,
    /* Nothing but observedGeneration differs. `kubectl wait` looks at it, so it
     * has to come, but other changes may well come first. */
    WP_STATUS_LAZY,
    WP_STATUS_SOON, /* A step on the way to Ready; another one may follow. */
    WP_STATUS_NOW,
};
enum wp_status_urgency wp_sandbox_status_urgency(const json_t *before,
                                                 const json_t *after);

#endif
