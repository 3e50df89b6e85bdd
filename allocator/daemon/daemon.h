/* allocator/daemon/daemon.h - the parts of warmpoold, put together.
 *
 * Two tables in daemon.c say in which order the parts are made and started;
 * they are stopped and destroyed the same way backwards. All functions are for
 * the main thread, which must have blocked every signal wp_daemon_signals names
 * before it calls create. */
#ifndef WP_ALLOCATOR_DAEMON_DAEMON_H
#define WP_ALLOCATOR_DAEMON_DAEMON_H

#include <signal.h>

#include "allocator/conf/conf.h"
#include "pool/base/status.h"

struct wp_daemon; /* Opaque. */

/* What run waits for; to be blocked in every thread. */
void wp_daemon_signals(sigset_t *set);

/* Checks and binds everything; nothing serves yet. conf is borrowed until
 * destroy; argv is borrowed for reading it again. NULL and err when something
 * is wrong; what had been made is undone. */
struct wp_daemon *wp_daemon_create(const struct wp_conf *conf, int argc,
                                   char *const *argv, struct wp_err *err);
/* Takes up or sweeps what an earlier daemon left, then serves. */
enum wp_status wp_daemon_start(struct wp_daemon *daemon, struct wp_err *err);
/* Serves until a signal or an admin's Drain ends it, drains, and destroys every
 * sandbox but those that the setting stop_leaves leaves to the next start. True
 * when nothing else was left behind. */
bool wp_daemon_run(struct wp_daemon *daemon);
/* In any state. NULL is fine. */
void wp_daemon_destroy(struct wp_daemon *daemon);

#endif
