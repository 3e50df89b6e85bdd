/* allocator/daemon/core.h - what the parts of the daemon share: the settings,
 * the control thread and the pools that it owns, and whether this daemon makes
 * sandboxes. Each part borrows it. daemon.c fills it in, a field when it makes
 * what the field names; nothing else but the flags changes after that.
 * Private to the daemon. */
#ifndef WP_ALLOCATOR_DAEMON_CORE_H
#define WP_ALLOCATOR_DAEMON_CORE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "allocator/conf/conf.h"
#include "allocator/signer/signer.h"
#include "allocator/threads/control.h"
#include "allocator/services/services.h"
#include "allocator/trace/exporter.h"
#include "proto/loop/loop.h"
#include "pool/pool.h"

struct wp_daemon_core {
    const struct wp_conf *conf;
    struct wp_loop *loop; /* The control thread's. */
    struct wp_control *control;
    struct wp_pools *pools;
    struct wp_services *services; /* Told of changes of pools. */
    struct wp_signer *signer;     /* NULL: no sandbox has an identity. */
    struct wp_exporter *exporter; /* Of traces. NULL: none are made. */
    /* This one makes, destroys and expires sandboxes. Written by the control
     * thread, or before it runs. */
    _Atomic(bool) keeper;
    _Atomic(bool) failed;   /* It leaves because it cannot go on. */
    _Atomic(bool) stopping; /* Main waits for the thread that takes over. */
    /* The grace an admin's Drain gave leases, -1 while nobody has asked.
     * Written on the control thread (release) before it signals main
     * (acquire). */
    _Atomic(int64_t) drain_grace_ns;
    /* The pool that main is to make or remove; NULL: none. See reload.c. */
    _Atomic(struct wp_pool_job *) pool_job;
};

/* Any thread. */
bool wp_daemon_is_keeper(const struct wp_daemon_core *core);
/* The daemon cannot go on: it leaves, as after SIGTERM, and its exit says that
 * it failed. Any thread. */
void wp_daemon_fail(struct wp_daemon_core *core);
/* The control thread takes a turn. ctx is the core; any thread. */
void wp_daemon_wake(void *ctx);
/* Drains every pool. ctx is the core; control thread. */
void wp_daemon_refuse_claims(void *ctx);

#endif
