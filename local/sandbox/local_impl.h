/* local/sandbox/local_impl.h - what the files of the local backend share. Not
 * for others.
 *
 * All of struct wp_sandbox, and the fields of struct wp_local below "Loop
 * thread", belong to the backend's thread once a create has been posted. */
#ifndef WP_LOCAL_SANDBOX_LOCAL_IMPL_H
#define WP_LOCAL_SANDBOX_LOCAL_IMPL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/un.h>

#include <event2/event.h>
#include <event2/event_struct.h>
#include <jansson.h>

#include "local/sandbox/backend_local.h"
#include "local/sandbox/egress_proxy.h"
#include "local/sandbox/fetch_process.h"
#include "local/walls/cgroup.h"
#include "local/http_probe.h"
#include "local/sandbox/record.h"
#include "local/volumes/volumes.h"
#include "local/walls/rootfs.h"
#include "pool/base/list.h"
#include "pool/base/rng.h"
#include "local/trust/trust.h"
#include "pool/remotes/remote_rules.h"
#include "proto/loop/loop.h"

enum {
    WP_LOCAL_PATH_MAX = 512,
    WP_LOCAL_STDERR_MAX = 512, /* Of what bubblewrap says when it fails. */
    WP_LOCAL_OLD_GROUPS_MAX = 8,
};

/*      create                spawn            port answers         adopt
 *   ----------> QUEUED ----------> STARTING -------------> READY <---------
 *                 |                    |                     |
 *                 |  destroy           | destroy             | destroy
 *                 v                    v                     v
 *               (gone) <-- REMOVING <------------ DYING <----+
 *                           processes are gone
 * Being lost is no state: it is reported once, and destroy follows from above.
 */
enum wp_sandbox_state {
    WP_SANDBOX_QUEUED,
    WP_SANDBOX_STARTING,
    WP_SANDBOX_READY,
    WP_SANDBOX_DYING,
    WP_SANDBOX_REMOVING,
};

struct wp_local_template {
    struct wp_local_template *next; /* An older one. */
    const struct wp_template *tmpl;
    uint64_t hash; /* Of all that tmpl says. */
    struct wp_root root;
    /* bwrap's options up to at_command, which it reads from a descriptor, for
     * the environment is in them, and every user can read a command line; then
     * that line. What differs between sandboxes is NULL here and named by the
     * indices. */
    char **argv;
    size_t argc;
    size_t at_command;
    size_t at_hostname;
    size_t at_name;
    size_t at_uid;
    size_t at_egress;
    /* What warmpool-init runs beside the command, as it reads it. */
    struct wp_str programs;
    json_t *gvisor; /* Its OCI configuration; NULL: not of that class. */
    struct wp_cgroup_limits limits;
};

struct wp_sandbox {
    struct wp_local *local;
    struct wp_list node; /* In local->queue or local->live. */
    struct wp_slot_ref ref;
    const struct wp_local_template *tmpl; /* NULL: adopted. */
    const struct wp_cgroups *groups;      /* Where its own group is. */
    char name[WP_SANDBOX_NAME_MAX + 1];
    char pool[WP_POOL_NAME_MAX + 1];
    uint8_t uid[WP_UID_LEN];
    char uid_hex[2 * WP_UID_LEN + 1];
    char socket_path[WP_ENDPOINT_MAX + 1];
    char egress[WP_EGRESS_TEXT_MAX + 1];   /* Its policy; "": none. */
    char narrowed[WP_EGRESS_TEXT_MAX + 1]; /* By its claim; "": not. */
    char volumes[WP_VOLUME_KEYS_MAX + 1];  /* Its claim's; "": none. */
    /* It waits until then for a volume that another has; 0: it does not. */
    int64_t volume_until_ns;
    struct wp_egress_member *egress_member; /* NULL: it reaches nothing. */
    int64_t ordered_ns;
    int64_t ready_within_ns;
    enum wp_sandbox_state state;
    bool adopted;  /* Made by an earlier daemon: bwrap is not our child. */
    bool outlives; /* It stays when the daemon leaves. */
    bool lost;     /* on_lost was called. */
    bool reading;  /* What waits in the channel is being read. */
    bool has_dir;
    bool has_group;
    bool opened;   /* warmpool-init has had an answer from the program. */
    bool has_turn; /* Counted in local->turns. */
    bool kill_due; /* Destroyed before init said hello: killed when it does. */
    bool asked;    /* A liveness probe is out. */
    uint64_t oom_kills; /* Told of, or long over: before its last answer. */
    uint32_t failures;
    uint32_t host_user; /* Index into the range of users; UINT32_MAX: none. */
    uint32_t removals;  /* Tries so far. */
    uint32_t bridge_tries;

    pid_t outer_pid; /* bwrap itself, our child. */
    pid_t inner_pid; /* Process 1 of the sandbox; 0 until its hello. */
    uint64_t outer_start;
    uint64_t inner_start;
    int outer_fd; /* pidfds; -1: none, or gone. */
    int inner_fd;
    int control_fd;
    int stderr_fd;
    int bridge_fd; /* Of the readiness check through the bridge. */
    struct event outer_event;
    struct event inner_event;
    struct event control_event;
    struct event stderr_event;
    struct event bridge_event;
    struct event timer; /* Deadline, next probe, grace or retry, by state. */
    struct event bridge_timer;
    struct event bind_timer;
    struct event identity_timer;
    char audience[WP_AUDIENCE_MAX + 1]; /* Of its identity; "": none. */
    int64_t identity_ttl_ms;
    bool identity_unrecorded;   /* The record does not say so yet. */
    int64_t identity_until_ms;  /* Wall; of the one that it has. */
    int64_t identity_due_ns;    /* Monotonic; the next is made then. */
    int64_t identity_offset_ns; /* Wall minus monotonic time by then. */
    /* sandbox_freeze.c */
    struct event look_timer;
    struct event door_event;
    int door_fd; /* Where connections come in while it is frozen; -1. */
    bool frozen;
    bool looking;            /* Its init has been asked. */
    int64_t freeze_after_ms; /* 0: it never is. */
    int64_t lease_ms;     /* By which use prolongs its lease; 0: it does not. */
    int64_t looked_ns;    /* When its init answered last; 0: never. */
    int64_t idle_ms;      /* It had been idle for so long then. */
    struct wp_list binds; /* Asked for by its claim, and not answered. */
    uint64_t bound;       /* The fingerprint of what it has; 0: not known. */
    char stderr_text[WP_LOCAL_STDERR_MAX];
    uint32_t stderr_len;
    char reply[WP_HTTP_STATUS_LINE];
    uint32_t reply_len;
};

struct wp_local {
    struct wp_local_config config;
    struct wp_host_report host;
    char state_dir[WP_LOCAL_PATH_MAX];
    char sandboxes_dir[WP_LOCAL_PATH_MAX];
    char seccomp_path[WP_LOCAL_PATH_MAX + 16];
    char cache_dir[WP_LOCAL_PATH_MAX + 16]; /* Of repositories. */
    struct wp_remote_rules remotes;         /* Which may be brought. */
    struct wp_volumes volumes;
    struct wp_trust trust; /* And which were once. */
    bool gvisor_tried;     /* And it works. */
    int lock_fd;
    char boot_id[WP_BOOT_ID_LEN + 1];
    uint32_t roots; /* Names the directory of this daemon's prepared roots. */
    bool has_roots; /* It is made. */
    struct wp_cgroups cgroups;
    /* Of earlier daemons that ran in other groups. */
    struct wp_cgroups old_cgroups[WP_LOCAL_OLD_GROUPS_MAX];
    uint32_t old_cgroups_len;
    _Atomic(struct wp_local_template *) templates; /* See templates.c. */
    uint32_t templates_made; /* Tries; names their roots. Who adds one. */
    struct wp_local_events events;
    struct wp_loop *loop; /* Its thread and channel. */
    bool started;
    atomic_uint live_count; /* Creates taken and not yet at their end. */
    atomic_uint queued;
    atomic_uint starting;
    atomic_uint ready;
    atomic_uint dying;
    atomic_uint binds; /* Taken and not answered. */
    atomic_uint frozen;
    atomic_ullong frozen_total;
    atomic_ullong spawned_total;
    atomic_ullong lost_total;

    /* Loop thread. */
    struct event_base *base; /* The loop's; NULL before start. */
    struct event stop_timer;
    struct wp_list queue;
    struct wp_list live;
    struct wp_egress_proxy *egress;
    struct wp_fetch_process fetch_process;
    struct wp_fetcher *fetcher; /* NULL: no repositories. */
    uint32_t turns; /* Sandboxes on their way from start to ready. */
    bool in_start;
    struct event start_timer;
    int64_t start_by_ns; /* Starts make way for binds until then; 0: none do. */
    struct wp_sandbox **by_index; /* By ref.index. */
    uint32_t by_index_len;
    uint32_t *free_users; /* A stack of indices. */
    uint32_t free_users_len;
    /* Set before the thread is told to stop. */
    bool leave_ready; /* What is ready is to be left. */
    int64_t stop_by_ns;
    uint32_t leaving; /* Left when the time to stop was over. */
    struct wp_rng rng;
};

/* --- templates.c --- */

/* The newest of that name; NULL. Valid until destroy. Any thread. */
const struct wp_local_template *
wp_local_find_template(const struct wp_local *local,
                       struct wp_str template_namespace, struct wp_str name);
void wp_local_destroy_templates(struct wp_local *local);

/* --- local_prepare.c: before the thread starts. --- */

WP_MUST_CHECK enum wp_status
wp_local_check_config(const struct wp_local_config *config, struct wp_err *err);
/* The state directory, locked, and what is below it. */
WP_MUST_CHECK enum wp_status wp_local_prepare_dirs(struct wp_local *local,
                                                   struct wp_err *err);
/* Removes the prepared roots in which no sandbox can be left. While the thread
 * does not run, and the lock is held. */
void wp_local_remove_roots(struct wp_local *local);
WP_MUST_CHECK enum wp_status
wp_local_prepare_programs(const struct wp_local *local, struct wp_err *err);
WP_MUST_CHECK enum wp_status wp_local_prepare_filter(struct wp_local *local,
                                                     struct wp_err *err);
/* Also later, by who adds a template. out->tmpl is set; what was made when it
 * fails is the caller's to take back. */
WP_MUST_CHECK enum wp_status
wp_local_prepare_template(struct wp_local *local, struct wp_local_template *out,
                          const char *dir, struct wp_err *err);
/* Raises the limit of open files as far as it goes; notes when that is short.
 */
void wp_local_raise_files(struct wp_local *local);

/* --- sandbox_table.c --- */

/* One with nothing made yet; NULL when memory lacks. Not yet known by ref. */
WP_MUST_CHECK struct wp_sandbox *wp_sandbox_make(struct wp_local *local);
/* From here on sandbox is found by its ref, which no other has. */
void wp_sandbox_index(struct wp_sandbox *sandbox);
/* Writes "unix:PATH" of the sandbox `name`; false: too long. */
WP_MUST_CHECK bool wp_local_endpoint(const struct wp_local *local,
                                     struct wp_str name,
                                     char out[WP_ENDPOINT_MAX + 1]);

/* NULL: there is none of that name. */
struct wp_sandbox *wp_sandbox_find(const struct wp_local *local,
                                   struct wp_slot_ref ref);

/* --- sandbox_bind.c --- */

/* As struct wp_backend_ops has them. */
enum wp_status wp_local_bind(void *self, struct wp_bind_op *op);
enum wp_status wp_local_may_bring(void *self, const struct wp_binding *binding,
                                  struct wp_err *err);
const char *wp_local_unbound(void *self, struct wp_str template_namespace,
                             struct wp_str name);
/* As `answered` of struct wp_egress_proxy_config. */
void wp_sandbox_on_narrowed(void *sandbox, bool narrowed);

/* --- sandbox_freeze.c --- */

/* As struct wp_backend_ops has it. */
void wp_local_leased(void *self, const struct wp_lease_notice *notice);

/* --- sandbox_egress.c --- */

/* As struct wp_backend_ops has it. */
enum wp_status wp_local_narrows(void *self, struct wp_str policy,
                                struct wp_str by, struct wp_err *err);

/* --- bwrap_args.c --- */

#define WP_SANDBOX_PATH                                                        \
    WP_ROOT_BIN ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/"   \
                "bin"

/* Of a tmpfs without a size of its own. */
uint64_t wp_local_tmpfs_size(const struct wp_local *local,
                             const struct wp_template *tmpl);
bool wp_template_mounts(const struct wp_template *tmpl, const char *path);

/* Fills argv and the indices of out from its template and root. */
WP_MUST_CHECK enum wp_status wp_bwrap_args_make(const struct wp_local *local,
                                                struct wp_local_template *out,
                                                struct wp_err *err);
/* A descriptor (close-on-exec) from which bwrap reads len options; -1 when
 * memory or descriptors lack. */
int wp_bwrap_options_open(char *const *argv, size_t len);
void wp_bwrap_args_fini(struct wp_local_template *tmpl);

/* --- sandbox.c: the life of one sandbox. Loop thread. --- */

/* Starts queued sandboxes as far as spawns_max allows, and binds do not come
 * first. */
void wp_local_start_queued(struct wp_local *local);
/* As an event's callback. */
void wp_local_on_start_timer(int fd, short what, void *arg);
/* It goes on, if it is frozen. */
void wp_sandbox_thaw(struct wp_sandbox *sandbox);
/* Takes a new sandbox into the queue; its end is reported from then on. */
void wp_sandbox_enqueue(struct wp_sandbox *sandbox);
void wp_sandbox_destroy(struct wp_sandbox *sandbox);
/* Frees it and lets go of what it watches; what runs is not touched. While the
 * thread does not run. */
void wp_sandbox_abandon(struct wp_sandbox *sandbox);
/* Takes one that an earlier daemon made, with its descriptors, as READY. Before
 * the thread runs. */
void wp_sandbox_adopt(struct wp_sandbox *sandbox);

/* --- sandbox_start.c --- */

/* Where its init waits for the next daemon. False when the path is too long. */
WP_MUST_CHECK bool wp_sandbox_control_path(const struct wp_sandbox *sandbox,
                                           struct sockaddr_un *out);

/* Makes directory, sockets, control group and processes. Not WP_OK: what was
 * made is recorded in sandbox, for the removal to undo. */
WP_MUST_CHECK enum wp_status wp_sandbox_spawn(struct wp_sandbox *sandbox,
                                              struct wp_err *err);
/* Writes down what the next daemon needs to end the sandbox, or to adopt it. */
WP_MUST_CHECK enum wp_status wp_sandbox_record(const struct wp_sandbox *sandbox,
                                               bool ready, struct wp_err *err);
/* Adds to that what its claim has made of it. */
WP_MUST_CHECK enum wp_status
wp_sandbox_record_claimed(const struct wp_sandbox *sandbox, struct wp_err *err);
/* Undoes directory and control group; false: a try later is needed. */
WP_MUST_CHECK bool wp_sandbox_undo(struct wp_sandbox *sandbox);

/* --- adopt.c: before the thread starts. --- */

/* What earlier daemons left: wanted sandboxes are adopted, and all else is
 * removed. Not WP_OK: descriptors or memory ran out, and the rest was left. */
WP_MUST_CHECK enum wp_status wp_local_take_over(struct wp_local *local,
                                                struct wp_local_sweep *counts,
                                                struct wp_err *err);

/* --- sweep.c --- */

/* A batch of sandboxes that nobody wants; killed together, then waited for. */
struct wp_sweep;

WP_MUST_CHECK struct wp_sweep *wp_sweep_create(struct wp_local *local,
                                               struct wp_local_sweep *counts);
void wp_sweep_add(struct wp_sweep *sweep, const char *name);
/* Ends the last batch, then removes control groups without a directory. */
void wp_sweep_finish(struct wp_sweep *sweep);

#endif
