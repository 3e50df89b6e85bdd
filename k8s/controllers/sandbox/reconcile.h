/* k8s/controllers/sandbox/reconcile.h - one look at one Sandbox.
 *
 * A reconcile goes through steps; each decides by what is known now, makes at
 * most one call at a time, and is entered again with what the call answered. A
 * sandbox that runs: volume claims, Pod, the annotation that names the Pod,
 * Service, status. One whose shutdownTime has come: status, Pods, Service, then
 * itself or the rest of its status. Private to the sandbox controller. Loop
 * thread only. */
#ifndef WP_K8S_CONTROLLERS_SANDBOX_RECONCILE_H
#define WP_K8S_CONTROLLERS_SANDBOX_RECONCILE_H

#include "k8s/objects/names.h"
#include "k8s/controllers/sandbox/controller.h"

enum wp_sandbox_step_end {
    WP_STEP_NEXT, /* Done with this one. */
    WP_STEP_WAIT, /* A call is under way; it enters the step again. */
    WP_STEP_STOP, /* The reconcile ends here. */
};

struct wp_sandbox_reconcile;
typedef enum wp_sandbox_step_end
wp_sandbox_step(struct wp_sandbox_reconcile *reconcile);

enum {
    WP_SANDBOX_RECONCILE_NAME_MAX = 253,
    WP_SANDBOX_RECONCILE_SAID_MAX = 511,
    WP_SANDBOX_RECONCILE_ERROR_MAX = 1023,
};

struct wp_sandbox_reconcile {
    struct wp_sandbox_controller *controller;
    struct wp_work *work;
    const struct wp_object *sandbox; /* A reference. */
    json_t *json;                    /* The whole of it. */
    char hash[WP_NAME_HASH_LEN + 1];
    const struct wp_sandbox_steps *steps;
    uint32_t step;
    uint32_t calls;  /* Made so far. */
    uint32_t unsure; /* Of these, writes that may have been done. */
    /* The API server has answered with the sandbox as it is. */
    bool confirmed;

    /* Of the step at hand; cleared before the next one. */
    const struct wp_object *got; /* What a call answered; a reference. */
    json_t *got_json;
    enum wp_kind kind; /* What the call under way is about. */
    char name[WP_SANDBOX_RECONCILE_NAME_MAX + 1];
    bool written; /* A write of it has succeeded. */
    bool missing; /* A read has found nothing. */
    bool lost; /* A write was not confirmed; the read that follows decides. */
    char said[WP_SANDBOX_RECONCILE_SAID_MAX + 1]; /* By the server, of that. */
    bool failed; /* The step gives up; reconcile->error says why. */
    uint32_t index;

    /* What was found. */
    const struct wp_object *pod; /* A reference. */
    bool pod_unknown;
    uint32_t pods; /* Controlled by the sandbox. */
    enum wp_sandbox_service service;
    char error[WP_SANDBOX_RECONCILE_ERROR_MAX +
               1];    /* "": nothing for a condition. */
    bool retry;       /* The reconcile could not be finished. */
    int64_t pause_ns; /* With retry: what the server asked for; -1. */
    int64_t wait_ns;  /* The status may wait so long; -1. */
    int64_t look_ns;  /* What no event tells of is looked at by then; -1. */
};

/* Takes over work. */
void wp_sandbox_reconcile_begin(struct wp_sandbox_controller *controller,
                                struct wp_work *work,
                                const struct wp_object *sandbox);

/* For steps. Each returns what the step has to return, and enters it again with
 * `got` (a read, a write) or `missing` set. A final refusal is put into error
 * and fails the step; anything else that goes wrong ends the reconcile, to be
 * tried again. body is taken. */
enum wp_sandbox_step_end
wp_sandbox_reconcile_get(struct wp_sandbox_reconcile *reconcile,
                         enum wp_kind kind, const char *name);
enum wp_sandbox_step_end
wp_sandbox_reconcile_post(struct wp_sandbox_reconcile *reconcile,
                          enum wp_kind kind, const char *name, json_t *body);
enum wp_sandbox_step_end
wp_sandbox_reconcile_patch(struct wp_sandbox_reconcile *reconcile,
                           const struct wp_object *object,
                           enum wp_http_priority priority, json_t *body);
/* Of the sandbox itself, or its status; it is `got` no more but
 * reconcile->sandbox. The reconcile ends when it is gone. */
enum wp_sandbox_step_end wp_sandbox_reconcile_patch_sandbox(
    struct wp_sandbox_reconcile *reconcile, const char *subresource,
    enum wp_http_priority priority, json_t *body);
/* Reads the sandbox itself, once: the step is entered again with confirmed set.
 * The reconcile ends when it is gone, or when its time is not over any more. */
enum wp_sandbox_step_end
wp_sandbox_reconcile_confirm(struct wp_sandbox_reconcile *reconcile);
/* Also done when it is gone already. The sandbox itself goes only in the
 * version that is known. */
enum wp_sandbox_step_end
wp_sandbox_reconcile_delete(struct wp_sandbox_reconcile *reconcile,
                            const struct wp_object *object);
/* Fails the step with these words. */
enum wp_sandbox_step_end
wp_sandbox_reconcile_refuse(struct wp_sandbox_reconcile *reconcile,
                            const char *fmt, ...) WP_PRINTF(2, 3);

/* The object of that name: what a call has answered, or what the store has;
 * NULL. */
const struct wp_object *
wp_sandbox_reconcile_find(const struct wp_sandbox_reconcile *reconcile,
                          enum wp_kind kind, const char *name);
/* Forgets what was got and written, to go on with another object. */
void wp_sandbox_reconcile_forget(struct wp_sandbox_reconcile *reconcile);

struct wp_store *
wp_sandbox_reconcile_store(const struct wp_sandbox_reconcile *reconcile,
                           enum wp_kind kind);

wp_sandbox_step wp_sandbox_step_volumes;
wp_sandbox_step wp_sandbox_step_pod;
wp_sandbox_step wp_sandbox_step_pod_name;
wp_sandbox_step wp_sandbox_step_service;
wp_sandbox_step wp_sandbox_step_status;
wp_sandbox_step wp_sandbox_step_mark_expired;
wp_sandbox_step wp_sandbox_step_end_pods;
wp_sandbox_step wp_sandbox_step_end_service;
wp_sandbox_step wp_sandbox_step_end_sandbox;

#endif
