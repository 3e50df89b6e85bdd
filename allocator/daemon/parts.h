/* allocator/daemon/parts.h - what daemon*.c share. Private to them. */
#ifndef WP_ALLOCATOR_DAEMON_PARTS_H
#define WP_ALLOCATOR_DAEMON_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "allocator/conf/conf.h"
#include "allocator/threads/control.h"
#include "allocator/daemon/daemon.h"
#include "allocator/metrics/page.h"
#include "allocator/http/gateway.h"
#include "allocator/stores/meter.h"
#include "allocator/threads/loop.h"
#include "allocator/grpc/server.h"
#include "allocator/services/services.h"
#include "allocator/daemon/machine.h"
#include "local/sandbox/backend_local.h"
#include "local/manifest/manifest.h"
#include "pool/leases/token.h"
#include "pool/pool.h"

/* Each is private to the file that makes it. */
struct wp_daemon_access;   /* config.c */
struct wp_daemon_backend;  /* backend.c */
struct wp_daemon_cluster;  /* cluster.c */
struct wp_daemon_follower; /* keeper.c */
struct wp_daemon_redis;    /* redis.c */
struct wp_daemon_store;    /* store.c */

enum {
    /* Posts that may wait for a loop: SetPool, Drain and the like. */
    WP_DAEMON_MESSAGES = 1024,
};

struct wp_daemon {
    const struct wp_conf *conf;
    int argc;
    char *const *argv;
    int lock_fd; /* The pid file, locked. */
    char lock_path[512];

    struct wp_manifest *manifest;
    struct wp_daemon_backend *maker;   /* Of sandboxes: this, or */
    struct wp_daemon_cluster *cluster; /* this; else NULL. */
    struct wp_loop *control_loop;
    struct wp_loop *http_loop;
    struct wp_control *control;
    struct wp_pools *pools;
    struct wp_services *services;
    struct wp_rpc_server *rpc;
    struct wp_gateway *http;
    struct wp_gateway *http_pages; /* Without the way to sandboxes. */

    struct wp_lease_store store;
    struct wp_daemon_store *keeping;
    struct wp_daemon_redis *redis;
    /* This one makes, destroys and expires sandboxes. Written by the control
     * thread, or before it runs. */
    _Atomic(bool) keeper;
    struct wp_backend backend; /* The core's: this port, or the cluster's. */
    int backend_lock_fd;       /* For the backend that is made next; or -1. */
    struct wp_daemon_follower *follower; /* NULL: it waits for no lock. */
    _Atomic(bool) failed; /* It leaves because it cannot go on. */
    bool key_made;        /* No earlier token verifies any more. */
    uint32_t restored;    /* Records that the store had at the start. */
    uint32_t adopted;
    bool leaves_ready; /* At the end, sandboxes that were ready run on. */
    bool succeeded;    /* Leaving: other daemons go on with the sandboxes. */

    struct wp_http_metrics metrics;
    struct wp_service service[2];

    struct wp_daemon_access *access;

    /* The grace an admin's Drain gave leases, -1 while nobody has asked.
     * Written on the control thread (release) before it signals main
     * (acquire). */
    _Atomic(int64_t) drain_grace_ns;
};

/* --- files.c: what is read from disk. --- */

/* Makes the directory and its parents. */
enum wp_status wp_daemon_make_dir(const char *path, uint32_t mode,
                                  struct wp_err *err);
/* Can every user pass through path's parents? */
enum wp_status wp_daemon_check_passable(const char *path, struct wp_err *err);
/* Creates and locks the pid file of the state directory. */
enum wp_status wp_daemon_lock(struct wp_daemon *daemon, struct wp_err *err);
/* The same, and the backend's lock, where several daemons share a store: when
 * another one has either of them, this one is not the keeper, and has none. */
enum wp_status wp_daemon_lock_shared(struct wp_daemon *daemon,
                                     struct wp_err *err);
/* The token key: from its file, or, when none is named, from the state
 * directory's, which is made if need be (*made); new each time when leases end
 * with the daemon. */
enum wp_status wp_daemon_read_key(const struct wp_conf *conf,
                                  uint8_t out[WP_TOKEN_KEY_LEN], bool *made,
                                  struct wp_err *err);
/* Reads a small secret without the line's end, from a file that others must
 * not be able to read. what: the setting, for messages. */
enum wp_status wp_daemon_read_secret(const char *what, const char *path,
                                     char *out, size_t cap, struct wp_err *err);
/* The admin's bearer token; "" when path is "". */
enum wp_status wp_daemon_read_token(const char *path, char *out, size_t cap,
                                    struct wp_err *err);
/* All manifests of conf, checked. NULL and err. */
struct wp_manifest *wp_daemon_read_manifests(const struct wp_conf *conf,
                                             struct wp_err *err);
/* The helper program: named by the setting, or found beside this one; "" when
 * there is none. */
void wp_daemon_find_program(const char *setting, const char *name, char *out,
                            size_t cap);

/* --- store.c: what keeps leases. --- */

/* Opens the store that the settings choose. */
enum wp_status wp_daemon_open_store(struct wp_daemon *daemon,
                                    struct wp_err *err);
/* Tells the core of every record. Before anything else uses it. */
enum wp_status wp_daemon_restore(struct wp_daemon *daemon, struct wp_err *err);
/* What only the store in use can tell. Any thread. */
void wp_daemon_store_metrics(const struct wp_daemon *daemon,
                             struct evbuffer *out);
/* What commits go through; NULL: the store is memory. After it was opened. */
struct wp_lease_meter *wp_daemon_store_meter(const struct wp_daemon *daemon);
/* After the last commit. Harmless when nothing was opened. */
void wp_daemon_close_store(struct wp_daemon *daemon);
/* After that, once nobody flushes any more. */
void wp_daemon_destroy_store(struct wp_daemon *daemon);

/* --- keeper.c: which daemon makes sandboxes. --- */

/* Any thread. */
bool wp_daemon_is_keeper(const struct wp_daemon *daemon);
/* The backend has started: what the records name and is not there is lost, and
 * this daemon makes sandboxes from now on. */
void wp_daemon_keep(struct wp_daemon *daemon);
/* Before that, when sandboxes of the records are missing: is another keeper
 * alive, whose they are? Then ALREADY_EXISTS. */
enum wp_status wp_daemon_check_alone(struct wp_daemon *daemon, uint32_t missing,
                                     struct wp_err *err);
/* Starts the thread that waits until this daemon can be the keeper. */
enum wp_status wp_daemon_await_lock(struct wp_daemon *daemon,
                                    struct wp_err *err);
/* Ends it; harmless when there is none. Main thread. */
void wp_daemon_stop_waiting(struct wp_daemon *daemon);

/* --- backend.c: what makes sandboxes, whichever it is. --- */

/* Can this machine make sandboxes? The first of these calls. */
enum wp_status wp_daemon_probe_backend(struct wp_daemon *daemon,
                                       struct wp_err *err);
#ifdef WP_TEST_TOOLS
enum wp_status wp_daemon_create_synthetic(struct wp_daemon *daemon,
                                          struct wp_machine *out,
                                          struct wp_err *err);
#endif
enum wp_status wp_daemon_create_backend(struct wp_daemon *daemon,
                                        struct wp_err *err);
/* The port for the core: the backend behind it may come later. */
struct wp_backend wp_daemon_backend(struct wp_daemon *daemon);
/* Takes up of an earlier daemon's sandboxes what the records want, and sweeps
 * the rest. Any thread but control's. */
enum wp_status wp_daemon_start_backend(struct wp_daemon *daemon,
                                       struct wp_err *err);
void wp_daemon_backend_stats(const struct wp_daemon *daemon,
                             struct wp_local_stats *out);
/* Destroys every sandbox, or those that were not ready yet (leaves_ready);
 * harmless when it was not started. */
void wp_daemon_stop_backend(struct wp_daemon *daemon);
/* Harmless when it was not created. */
void wp_daemon_destroy_backend(struct wp_daemon *daemon);

/* --- config.c: settings to the parts' configurations. --- */

/* Who may do what, from the settings and the files that they name. */
enum wp_status wp_daemon_read_access(struct wp_daemon *daemon,
                                     struct wp_err *err);
/* After the servers, which borrow from it. Harmless when nothing was read. */
void wp_daemon_forget_access(struct wp_daemon *daemon);
void wp_daemon_rpc_config(const struct wp_daemon *daemon,
                          struct wp_rpc_config *out);
void wp_daemon_http_config(struct wp_daemon *daemon,
                           struct wp_gateway_config *out);
/* The same for who serves pages only. */
void wp_daemon_http_pages_config(struct wp_daemon *daemon,
                                 struct wp_gateway_config *out);

/* --- scale.c: what the core says of its scalers; ctx is the daemon,
 * control thread. --- */

void wp_daemon_pool_scaled(void *ctx, uint32_t pool_index,
                           const struct wp_scale_decision *decision);
void wp_daemon_pool_unlearned(void *ctx, uint32_t pool_index,
                              const struct wp_err *err);
void wp_daemon_budget_trouble(void *ctx, const char *group,
                              const struct wp_budget_total *total,
                              uint64_t mins);
/* What they have learned is in the lease store, as far as it takes it soon.
 * After wp_pools_stop or wp_pools_leave; any thread but control's. */
bool wp_daemon_learned_saved(struct wp_daemon *daemon);

/* --- run.c --- */

/* Tells systemd, when it listens. */
void wp_daemon_notify(const char *state);
/* Drains every pool. ctx is the daemon; control thread. */
void wp_daemon_refuse_claims(void *ctx, uint64_t a, uint64_t b);

#endif
