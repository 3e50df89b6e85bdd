/* allocator/daemon/parts.h - what daemon*.c share. Private to them. */
#ifndef WP_ALLOCATOR_DAEMON_PARTS_H
#define WP_ALLOCATOR_DAEMON_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "allocator/conf/conf.h"
#include "allocator/threads/control.h"
#include "allocator/daemon/daemon.h"
#include "allocator/metrics/page.h"
#include "allocator/http/server.h"
#include "allocator/stores/meter.h"
#include "allocator/stores/sqlite/store.h"
#include "allocator/threads/loop.h"
#include "allocator/grpc/server.h"
#include "allocator/services/services.h"
#include "allocator/daemon/machine.h"
#include "local/sandbox/backend_local.h"
#include "local/manifest/manifest.h"
#include "pool/leases/token.h"
#include "pool/pool.h"

struct wp_daemon_cluster;
struct wp_daemon_redis;

enum {
    WP_DAEMON_PAGES = 3,
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
    struct wp_machine machine;         /* Or, its self NULL, */
    struct wp_daemon_cluster *cluster; /* this; else NULL. */
    struct wp_loop *control_loop;
    struct wp_loop *http_loop;
    struct wp_control *control;
    struct wp_pools *pools;
    struct wp_services *services;
    struct wp_rpc_server *rpc;
    struct wp_http_server *http;
    struct wp_http_server *http_pages; /* Without the way to sandboxes. */
    /* Before that the backend may be in the making, on another thread. */
    _Atomic(bool) backend_started;

    struct wp_lease_store store;
    struct wp_lease_meter *meter; /* Before it; NULL: memory. Owned. */
    struct wp_lease_sqlite *sqlite;
    struct wp_daemon_redis *redis;
    /* This one makes, destroys and expires sandboxes. Written by the control
     * thread, or before it runs. */
    _Atomic(bool) keeper;
    struct wp_backend port; /* Of the backend; control thread. */
    int backend_lock_fd;    /* For the backend that is made next; or -1. */
    pthread_t follower;     /* Waits for the lock of the state directory. */
    bool follows;
    int stop_fd;          /* Ends that wait. */
    _Atomic(bool) failed; /* It leaves because it cannot go on. */
    bool key_made;        /* No earlier token verifies any more. */
    uint32_t restored;    /* Records that the store had at the start. */
    uint32_t adopted;
    bool leaves_ready; /* At the end, sandboxes that were ready run on. */
    bool succeeded;    /* Leaving: other daemons go on with the sandboxes. */

    struct wp_http_metrics metrics;
    struct wp_http_page pages[WP_DAEMON_PAGES];
    struct wp_service service[2];

    /* Parsed settings that other parts borrow. */
    struct wp_rpc_principal *principals; /* Owned, with their names. */
    size_t n_principals;
    uint32_t *uids; /* Owned. */
    size_t n_uids;
    char admin_token[260];
    char init_path[512];
    char runtime_path[512];

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
/* What only the store in use can tell; ctx is the daemon. Any thread. */
void wp_daemon_store_metrics(void *ctx, struct evbuffer *out);
/* After the last commit. Harmless when nothing was opened. */
void wp_daemon_close_store(struct wp_daemon *daemon);

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

/* Can this machine make sandboxes? */
enum wp_status wp_daemon_probe_backend(struct wp_daemon *daemon,
                                       struct wp_err *err);
#ifdef WP_TEST_TOOLS
enum wp_status wp_daemon_create_synthetic(struct wp_daemon *daemon,
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

enum wp_status wp_daemon_parse_lists(struct wp_daemon *daemon,
                                     struct wp_err *err);
void wp_daemon_local_config(struct wp_daemon *daemon,
                            struct wp_local_config *out);
void wp_daemon_rpc_config(const struct wp_daemon *daemon,
                          struct wp_rpc_config *out);
void wp_daemon_http_config(struct wp_daemon *daemon,
                           struct wp_http_config *out);
/* The same for who serves pages only. */
void wp_daemon_http_pages_config(struct wp_daemon *daemon,
                                 struct wp_http_config *out);

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
/* Targets of the manifests, and what else may change while running. */
void wp_daemon_reload(struct wp_daemon *daemon);

#endif
