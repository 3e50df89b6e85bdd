/* k8s/backend/backend_impl.h - what the backend_*.c files share; private to
 * them.
 *
 * backend.c        the port, the pools' comings, create and destroy
 * backend_ask.c    objects that the core is asked about
 * backend_count.c  all of them at once: when this replica begins to lead
 * backend_work.c   the next step with one Sandbox object
 * backend_lease.c  sandboxes that gRPC leases hold
 * backend_bind.c   what their claims bring
 * backend_identity.c  whose they say they are */
#ifndef WP_K8S_BACKEND_BACKEND_IMPL_H
#define WP_K8S_BACKEND_BACKEND_IMPL_H

#include <stdatomic.h>

#include "k8s/backend/backend.h"
#include "k8s/backend/bindable.h"
#include "k8s/backend/channel.h"
#include "k8s/backend/fresh_list.h"
#include "k8s/bind/identity.h"
#include "k8s/objects/lease_annotation.h"
#include "k8s/objects/sandbox_refs.h"

struct wp_cluster_backend {
    struct wp_parts *parts;
    struct wp_sandbox_refs *refs; /* Owned. */
    struct wp_work_queue *queue;
    struct wp_cluster_channel *channel;
    struct wp_fresh_list *fresh; /* Before a leader counts what there is. */
    struct wp_cluster_message *sweeping; /* Waits for that; owned; NULL. */
    uint32_t messages_max;               /* Orders and ends that may wait. */
    uint32_t epoch;            /* Counts activations and their ends. */
    uint32_t count_nr;         /* The newest count of what there is. */
    bool counting;             /* It is under way: nothing is made. */
    struct event *records;     /* Owned; the core is asked for them again. */
    uint32_t records_asked;    /* How often, since it began to lead. */
    bool doubtful;             /* Nor now. */
    int64_t say_delay_from_ns; /* The next line on orders that take long. */
    void (*ready)(void *ctx);
    void *ready_ctx;
    struct wp_bindable *bindable; /* Owned. */
    _Atomic(uint32_t) binds;      /* Asked for and not answered. */
    _Atomic(bool) binds_open;     /* This replica leads. */
    struct wp_cluster_backend_stats stats;
};

/* What the core asks for, or is asked. */
struct wp_backend_message {
    struct wp_cluster_message base; /* First. */
    struct wp_cluster_backend *backend;
    struct wp_slot_ref ref;
    uint8_t uid[WP_UID_LEN];
    char ns[WP_NAMESPACE_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
    char name[WP_SANDBOX_NAME_MAX + 1];
    struct wp_lease_note note;      /* leased; ask, when there is a record. */
    struct wp_lease_record *record; /* ask: to be rebuilt; NULL. Owned. */
    uint32_t epoch;                 /* swept, records */
    uint32_t count_nr;              /* swept, counted */
    bool pooled;                    /* ask: it may be new to the core. */
    bool is_new;                    /* Its answer: it was. */
    bool has_records;               /* records' answer */
    bool is_ending; /* The same: the slot that it had is not free yet. */
};

/* One reconcile. */
struct wp_backend_look {
    struct wp_cluster_backend *backend;
    struct wp_work *work;
    const char *ns; /* As long as work. */
    const char *name;
    struct wp_sandbox_ref *entry;    /* NULL: it has no slot here. */
    const struct wp_object *sandbox; /* NULL: there is none. */
};

/* One reconcile that waits for an answer of the API server. */
struct wp_backend_job {
    struct wp_cluster_backend *backend;
    struct wp_work *work;
    const char *ns; /* As long as work. */
    const char *name;
};

/* --- backend.c --- */

/* Owned by the caller, to be sent; run on the other thread. NULL when memory
 * lacks. */
struct wp_backend_message *
wp_backend_message(struct wp_cluster_backend *backend,
                   void (*run)(struct wp_cluster_message *));
/* Frees a message that is not sent, or has been taken. */
void wp_backend_message_drop(struct wp_cluster_message *from);
/* Has the object looked at. */
void wp_backend_wake(struct wp_cluster_backend *backend, const char *ns,
                     const char *name);

/* --- backend_ask.c --- */

/* An object of no entry, which the core has a slot for: answer has its ref, uid
 * and names, and whether it is in its pool. */
void wp_backend_add_found(struct wp_cluster_backend *backend,
                          const struct wp_backend_message *answer);

/* Asks the core for the slot of an object that has none here. */
void wp_backend_ask(struct wp_cluster_backend *backend,
                    const struct wp_object *sandbox);

/* --- backend_count.c --- */

/* Are orders begun? Not in doubt, nor before the core knows of what there is.
 */
bool wp_backend_makes(const struct wp_cluster_backend *backend);
/* Has the core told of pooled sandboxes that have no slot here; until it knows
 * them no order is begun. While this replica leads. */
void wp_backend_count(struct wp_cluster_backend *backend);
/* What waits for a list before the core gives up what it misses is over. */
/* Of backend->records. */
void wp_backend_on_records(int fd, short what, void *backend);
void wp_backend_drop_sweep(struct wp_cluster_backend *backend);

/* --- backend_work.c --- */

void wp_backend_reconcile(void *ctx, struct wp_work *work, const char *ns,
                          const char *name);
struct wp_backend_job *wp_backend_job(const struct wp_backend_look *look);
/* The reconcile ends without a call: again after so long, or, 0, when something
 * happens. */
void wp_backend_over(const struct wp_backend_look *look, int64_t again_ns);
/* Ends the job, and the reconcile: again is for when more is to be done at
 * once. */
void wp_backend_done(struct wp_backend_job *job, bool again);
/* The same: after a pause, as long as the server said or a growing one. */
void wp_backend_retry(struct wp_backend_job *job,
                      const struct wp_api_result *result);
/* What a call was answered with goes into the store. False when it is no
 * Sandbox. */
bool wp_backend_learn(struct wp_cluster_backend *backend,
                      const struct wp_api_result *result);
/* The server says that it is not there: neither has the store it. */
void wp_backend_unlearn(struct wp_cluster_backend *backend, const char *ns,
                        const char *name);
struct wp_api_target wp_backend_target(const struct wp_backend_job *job,
                                       enum wp_http_priority priority);
/* It is in its pool: no claim, no lease and nobody else has taken it, and the
 * pool is not another one of the same name by now. */
bool wp_backend_is_pooled(const struct wp_cluster_backend *backend,
                          const struct wp_object *sandbox);
/* This replica leads again: what became of the sandbox meanwhile is told to the
 * core before that offers it to anybody. */
void wp_backend_recheck(struct wp_cluster_backend *backend,
                        struct wp_sandbox_ref *entry);

/* How long a sandbox of the pool may take to become ready: what the core has of
 * the pool, else the setting. */
int64_t wp_backend_ready_within_ns(const struct wp_cluster_backend *backend,
                                   const char *ns, const char *pool);
/* Where the sandbox with this address serves; "" for "". False when it is no
 * address. */
WP_MUST_CHECK bool wp_backend_endpoint(const struct wp_cluster_backend *backend,
                                       const char *ip,
                                       char out[WP_ENDPOINT_MAX + 1]);

/* --- backend_lease.c --- */

/* It is to be taken out of its pool for the lease that it has, or says another
 * one, or one that ends much earlier. */
bool wp_backend_must_adopt(const struct wp_cluster_backend *backend,
                           const struct wp_sandbox_ref *entry,
                           const struct wp_object *sandbox);
/* The core has told of this lease on it. */
void wp_backend_set_lease(struct wp_cluster_backend *backend,
                          struct wp_sandbox_ref *entry,
                          const struct wp_lease_note *lease);
void wp_backend_adopt(const struct wp_backend_look *look);
/* It is nobody's, and says which lease has it. */
bool wp_backend_has_note(const struct wp_object *sandbox,
                         struct wp_lease_note *note);
/* It says so, and has no slot here: ends it when that lease must be over. */
void wp_backend_look_at_orphan(const struct wp_backend_look *look,
                               const struct wp_lease_note *note);

/* --- backend_bind.c --- */

/* The port's; any thread. */
enum wp_status wp_backend_bind(void *self, struct wp_bind_op *op);
enum wp_status wp_backend_may_bring(void *self,
                                    const struct wp_binding *binding,
                                    struct wp_err *err);
enum wp_status wp_backend_narrows(void *self, struct wp_str policy,
                                  struct wp_str by, struct wp_err *err);
bool wp_backend_passes(void *self);
const char *wp_backend_unbound(void *self, struct wp_str template_namespace,
                               struct wp_str template_name);
/* The lease is on the Sandbox, whose Pod has that address ("": not known): what
 * waits for that is brought. */
void wp_backend_bring(struct wp_cluster_backend *backend,
                      struct wp_sandbox_ref *entry, const char *ip);
/* Whoever waits for its being bound is told so. */
void wp_backend_end_binding(struct wp_sandbox_ref *entry, enum wp_status status,
                            const char *reason);
/* This replica begins to lead, or does no more. */
void wp_backend_open_binds(struct wp_cluster_backend *backend, bool open);

/* --- backend_identity.c --- */

/* The port's; any thread. */
enum wp_status wp_backend_may_sign(void *self, struct wp_err *err);
/* Its identity is to be for this audience; "": it gets none. False: memory
 * lacks. */
WP_MUST_CHECK bool wp_backend_want_identity(struct wp_cluster_backend *backend,
                                            struct wp_sandbox_ref *entry,
                                            const char *audience,
                                            int64_t ttl_ms);
/* Its lease, which has just come, says so as well. */
void wp_backend_note_identity(struct wp_sandbox_ref *entry);
/* The one that goes with what is bound; text "": none. UNAVAILABLE and the
 * like, and err: there is none now. */
WP_MUST_CHECK enum wp_status wp_backend_sign(const struct wp_sandbox_ref *entry,
                                             struct wp_identity_token *token,
                                             struct wp_err *err);
/* Its Pod has it. */
void wp_backend_identity_given(const struct wp_sandbox_ref *entry);
/* Gives it the next one when that is due. note: of its lease, as it is written;
 * NULL: it has none. Nanoseconds until it is due; 0: none is waited for. */
int64_t wp_backend_look_at_identity(const struct wp_backend_look *look,
                                    const struct wp_lease_note *note);
/* It gets no more. */
void wp_backend_end_identity(struct wp_sandbox_ref *entry);

#endif
