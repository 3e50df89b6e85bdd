/* k8s/controllers/claim/reconcile.h - one look at one SandboxClaim, step by
 * step.
 *
 * Private to this room. A reconcile begins when the queue hands out a key,
 * makes calls one after the other (each step's callback goes on with the next),
 * and ends exactly once, by wp_claim_reconcile_end. At most one reconcile of a
 * key runs. What is asked of the core outlives the reconcile: a claim that
 * waits holds no worker.
 *
 * The layers, each of which calls only what is below it:
 *
 *   driver   reconcile.c      deleted, expired, malformed? then one of
 *   steps    bound.c          it has a Sandbox: metadata, status
 *            warm.c           ask the core; adopt what it grants
 *            bring.c          what it brings reaches the Sandbox
 *            create.c         make one
 *            end.c            its time is over
 *   shared   missing.c        its pool or template is not known
 *            status_write.c   one status patch; it ends most reconciles
 *            annotations.c    the annotations that go with it
 *            holding.c, sandbox_write.c
 *            endings.c        Sandboxes that claims leave behind
 *   ground   resolve.c        which pool and template it means
 *            step.c           the reconcile, its objects, its end
 *
 * A step that another one is to follow names it (wp_claim_reconcile_go); only
 * the driver's table knows the function. */
#ifndef WP_K8S_CONTROLLERS_CLAIM_RECONCILE_H
#define WP_K8S_CONTROLLERS_CLAIM_RECONCILE_H

#include "k8s/controllers/claim/adopt.h"
#include "k8s/controllers/alias/alias.h"
#include "k8s/controllers/claim/cache.h"
#include "k8s/controllers/claim/controller.h"
#include "k8s/controllers/claim/metadata.h"
#include "k8s/controllers/claim/status.h"
#include "k8s/controllers/implicit/implicit.h"
#include "k8s/controllers/shared.h"

enum {
    WP_CLAIM_OBJECT_NAME_MAX = 253, /* As Kubernetes has it. */
};

struct wp_claim_controller {
    struct wp_parts *parts;
    struct wp_work_queue *queue;
    struct wp_claim_asks *asks;
    struct wp_claim_orphans *orphans;
    struct wp_claim_endings *endings;
    struct wp_claim_aliases *aliases; /* NULL: none are kept. */
    struct wp_implicit_pools *implicit;
    struct wp_list bringing; /* bring.c: under way. */
    struct wp_claim_cache *cache;
    struct wp_label_domains domains;
    struct wp_claim_metrics metrics;
    /* Learned from an answer: older CRDs lack status.sandbox.serviceFQDN. To
     * write it again and again would cost a call of each reconcile. */
    bool no_service_fqdn;
};

enum wp_claim_step {
    WP_CLAIM_WAIT,  /* None: a call is under way, or the reconcile has ended. */
    WP_CLAIM_AGAIN, /* Looks at everything anew, WP_CLAIM_ROUNDS_MAX times. */
    WP_CLAIM_EXPIRE,
    WP_CLAIM_BOUND,   /* Goes on with a Sandbox that is the claim's. */
    WP_CLAIM_CONFIRM, /* Asks the API server for reconcile->named. */
    WP_CLAIM_FORGET,  /* Removes the annotation that names a Sandbox which it
                         can never have. */
    WP_CLAIM_WARM,
    WP_CLAIM_ADOPT, /* Completes an adoption of the reconcile's Sandbox. */
    WP_CLAIM_CREATE,
    WP_CLAIM_STEP_COUNT,
};

struct wp_claim_reconcile {
    struct wp_claim_controller *self;
    /* The driver's, by enum wp_claim_step; static storage. */
    void (*const *steps)(struct wp_claim_reconcile *reconcile);
    struct wp_work *work;
    struct wp_claim_entry *entry;
    const struct wp_object *claim;   /* A reference. */
    const struct wp_object *sandbox; /* A reference; NULL: none yet. */
    const char *named; /* By the claim; borrowed from it. Of CONFIRM. */
    /* What it means; see resolve.c. pool "": a Sandbox of its own. */
    char pool[WP_CLAIM_OBJECT_NAME_MAX + 1];
    char templ[WP_CLAIM_OBJECT_NAME_MAX + 1];
    bool by_template;   /* Not by a pool alone: templ is what it names. */
    json_t *additional; /* spec.additionalPodMetadata; owned; NULL. */
    /* Runs when nothing is awaited any more. */
    void (*next)(struct wp_claim_reconcile *reconcile);
    uint32_t awaited;
    uint32_t rounds; /* Writes that met another's, and their like. */
    struct wp_claim_outcome outcome;
    /* The claim's generation that the outcome was decided on. */
    int64_t decided_on;
    bool newly_expired;  /* Its status has not said so before. */
    bool status_written; /* So the API server had that generation, too. */
    /* How it is to end once its status is written. */
    enum wp_work_outcome ends;
    int64_t after_ns; /* WP_TIME_NEVER: no need to look again. */
    /* Of the template whose metadata the Sandbox gets by that call. */
    uint64_t template_mark;
    /* The call that is under way, once it is back. */
    enum wp_status answered;
    int answered_code; /* 0: there was no answer. */
    struct wp_err err;
};

enum {
    WP_CLAIM_ROUNDS_MAX = 8,
};

/* --- resolve.c --- */

/* Decides on reconcile->pool, templ and by_template. */
void wp_claim_resolve(struct wp_claim_reconcile *reconcile);
/* Does it name a template (out), perhaps beside a pool? */
WP_MUST_CHECK bool
wp_claim_names_template(const struct wp_object *claim,
                        char templ[WP_CLAIM_OBJECT_NAME_MAX + 1]);
/* The same; and any pool of it will do. */
WP_MUST_CHECK bool
wp_claim_means_any_pool(const struct wp_object *claim,
                        char templ[WP_CLAIM_OBJECT_NAME_MAX + 1]);
/* Is a sandbox of this pool one that it may have? */
bool wp_claim_may_have_pool(const struct wp_object *claim,
                            const struct wp_object *pool);
/* The claim's pool and its template; NULL when they are not known. */
const struct wp_object *
wp_claim_reconcile_pool(const struct wp_claim_reconcile *reconcile);
const struct wp_object *
wp_claim_reconcile_template(const struct wp_claim_reconcile *reconcile);
/* Of its pool, or that it names; NULL: it names a pool that is not known. */
const char *
wp_claim_reconcile_template_name(const struct wp_claim_reconcile *reconcile);

/* --- step.c --- */

/* What a write's status says of it. */
enum wp_claim_fate {
    WP_FATE_DONE,
    WP_FATE_LOOK,    /* It met another's, or may have been done: read. */
    WP_FATE_REFUSED, /* Not this way, ever. */
    WP_FATE_RETRY,   /* It was certainly not done. */
    WP_FATE_STOP,    /* The client is going. */
};
enum wp_claim_fate wp_claim_fate(enum wp_status status);

/* Frees it. */
void wp_claim_reconcile_end(struct wp_claim_reconcile *reconcile,
                            enum wp_work_outcome outcome, int64_t after_ns);
/* A call failed for now: again after a growing pause, or when told to. */
void wp_claim_reconcile_retry(struct wp_claim_reconcile *reconcile,
                              const struct wp_api_result *result);
/* On with that step. The reconcile may be gone afterwards. */
void wp_claim_reconcile_go(struct wp_claim_reconcile *reconcile,
                           enum wp_claim_step step);
/* One thing that was awaited is there. */
void wp_claim_reconcile_arrive(struct wp_claim_reconcile *reconcile);
/* May it write? If not, the reconcile has ended. */
WP_MUST_CHECK bool
wp_claim_reconcile_may_write(struct wp_claim_reconcile *reconcile);
/* The entry of a claim that this replica sees for the first time. */
struct wp_claim_entry *wp_claim_first_seen(struct wp_claim_controller *self,
                                           const struct wp_object *claim);
/* What has come to an end now, in the client's trace of the claim. */
void wp_claim_reconcile_traced(struct wp_claim_reconcile *reconcile,
                               const char *what, enum wp_status status);
/* The claim is Ready, which ends its trace. */
void wp_claim_reconcile_trace_ends(struct wp_claim_reconcile *reconcile);
/* The newest that is known of the claim; false when it is gone or is going, and
 * the reconcile has ended. */
WP_MUST_CHECK bool
wp_claim_reconcile_refresh(struct wp_claim_reconcile *reconcile);
/* Is the outcome decided on the claim as it is known now? If not, the reconcile
 * looks at everything anew. */
WP_MUST_CHECK bool
wp_claim_reconcile_holds(struct wp_claim_reconcile *reconcile);
/* Sets the reconcile's Sandbox; takes a reference. */
void wp_claim_reconcile_set_sandbox(struct wp_claim_reconcile *reconcile,
                                    const struct wp_object *sandbox);
/* The object that a call answered with, put into its store. The newest that is
 * known of it, as a reference; NULL when there was none, or it made no sense.
 */
const struct wp_object *wp_claim_learn(struct wp_claim_controller *self,
                                       const struct wp_api_result *result);
/* A wp_api_done of a reconcile that an object has stopped: looks at everything
 * anew with what was read of it; ends when it is gone. */
void wp_claim_reconcile_reread(void *ctx, const struct wp_api_result *result);
int64_t wp_claim_reconcile_wall_ns(const struct wp_claim_reconcile *reconcile);

/* --- holding.c --- */

enum wp_claim_holding {
    WP_HOLDS_NOTHING,
    WP_HOLDS_SANDBOX, /* It is the claim's own. */
    WP_HOLDS_HALF,    /* Reserved for it by annotation; still the pool's. */
    WP_HOLDS_UNKNOWN, /* It names one that is not known here. */
    WP_HOLDS_STALE,   /* It names one that it can never have. */
    WP_HOLDS_FOREIGN, /* Its own name is taken by somebody else's Sandbox. */
};
/* By status, by annotation, by owner, and by the claim's own name. name: what
 * the claim names, for UNKNOWN and STALE; borrowed from it. */
enum wp_claim_holding wp_claim_look_up(const struct wp_claim_controller *self,
                                       const struct wp_object *claim,
                                       const struct wp_object **sandbox,
                                       const char **name);
/* The name that an unfinished adoption has left at the claim; "": none. */
const char *wp_claim_reserved_name(const struct wp_object *claim);

/* --- sandbox_write.c --- */

/* A wp_api_done of a Sandbox's write: keeps the answer in the reconcile, and
 * the Sandbox in its store. */
void wp_claim_reconcile_keep_answer(void *ctx,
                                    const struct wp_api_result *result);
/* Changes with whatever a Sandbox has of its template's metadata; 0 when the
 * template is not known (NULL). */
uint64_t wp_claim_template_mark(const struct wp_object *templ);
/* A write is to bring the Sandbox's metadata up to claim and template (NULL: it
 * is not known); and it was done, so nothing is left until one of them changes.
 */
void wp_claim_reconcile_brings(struct wp_claim_reconcile *reconcile,
                               const struct wp_object *templ);
void wp_claim_reconcile_brought(struct wp_claim_reconcile *reconcile);
/* Another Sandbox has come into being for the claim: counted. */
void wp_claim_count_created(struct wp_claim_reconcile *reconcile,
                            enum wp_claim_launch launch);

/* --- annotations.c --- */

/* Writes the first-observed annotation unless it is there or is off. The
 * reconcile awaits it when joins. */
void wp_claim_annotations_observed(struct wp_claim_reconcile *reconcile,
                                   bool joins);
/* The same beside the adoption of the reconcile's Sandbox, which awaits it.
 * With it goes what would follow Ready, which saves a write: the Sandbox's
 * name, and the time of being Ready, which is one write ahead of its status
 * then. */
void wp_claim_annotations_adopting(struct wp_claim_reconcile *reconcile);
/* The claim did not become Ready by that adoption: the time is written anew
 * when it does. */
void wp_claim_annotations_too_early(struct wp_claim_reconcile *reconcile);
/* Writes the annotations that follow Ready, unless they are there. Nobody waits
 * for it. */
void wp_claim_annotations_ready(struct wp_claim_reconcile *reconcile);

/* --- status_write.c --- */

/* Writes outcome into the status if it is not there, then ends the
 * reconcile. */
void wp_claim_status_write(struct wp_claim_reconcile *reconcile);
/* The same, with Ready False for this reason (literals or the reconcile's own
 * err): ends as given. */
void wp_claim_reconcile_say(struct wp_claim_reconcile *reconcile,
                            const char *reason, const char *message,
                            enum wp_work_outcome ends, int64_t after_ns);
/* The same of a claim that is not served now: what was asked of the core for it
 * is given up, so that others have it. */
void wp_claim_reconcile_refuse(struct wp_claim_reconcile *reconcile,
                               const char *reason, const char *message,
                               enum wp_work_outcome ends, int64_t after_ns);
/* The same, after what: instead of ending, then the reconcile goes on with
 * it. */
void
wp_claim_status_write_then(struct wp_claim_reconcile *reconcile,
                           void (*then)(struct wp_claim_reconcile *reconcile));

/* Ends it until the claim is to be looked at again: after_ns, or when its time
 * is over, or when its Sandbox is to get its next identity. */
void wp_claim_reconcile_rest(struct wp_claim_reconcile *reconcile);

/* --- bring.c --- */

/* Its variables do not make it start cold: they are brought to a warm Sandbox,
 * as its pool's annotation says. */
bool wp_claim_brings_env(const struct wp_claim_reconcile *reconcile);
/* Its Sandbox gets a pass for the egress proxy, as its pool has a policy. */
bool wp_claim_brings_pass(const struct wp_claim_reconcile *reconcile);
/* One of them, or its annotations bring something. */
bool wp_claim_brings(const struct wp_claim_reconcile *reconcile);
/* Of such a claim: could that be done? False: the claim says why not, and the
 * reconcile has ended. */
WP_MUST_CHECK bool wp_claim_may_bring(struct wp_claim_reconcile *reconcile,
                                      const struct wp_object *templ);
/* The reconcile's Sandbox is the claim's: brings what is to be there and is
 * not, then writes the outcome into the status. */
void wp_claim_bring(struct wp_claim_reconcile *reconcile);
/* Nanoseconds until its Sandbox is to get its next identity; WP_TIME_NEVER: it
 * gets none. */
int64_t wp_claim_identity_due_ns(const struct wp_claim_reconcile *reconcile);
/* Ends what is under way, with its reconciles. */
void wp_claim_bring_none(struct wp_claim_controller *self);

/* --- missing.c --- */

/* It is not known here: asks the API server, which may know better, and writes
 * that into the claim's status only then. */
void wp_claim_reconcile_miss(struct wp_claim_reconcile *reconcile,
                             enum wp_kind kind, const char *name);

/* --- bound.c, warm.c, create.c, end.c: the steps --- */

void wp_claim_bound(struct wp_claim_reconcile *reconcile);
void wp_claim_confirm(struct wp_claim_reconcile *reconcile);
void wp_claim_forget_reference(struct wp_claim_reconcile *reconcile);
void wp_claim_warm(struct wp_claim_reconcile *reconcile);
void wp_claim_adopt(struct wp_claim_reconcile *reconcile);
void wp_claim_create(struct wp_claim_reconcile *reconcile);
void wp_claim_expire(struct wp_claim_reconcile *reconcile);

/* --- reconcile.c --- */

void wp_claim_reconcile_begin(struct wp_claim_controller *self,
                              struct wp_work *work, const char *ns,
                              const char *name);

#endif
