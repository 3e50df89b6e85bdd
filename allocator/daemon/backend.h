/* allocator/daemon/backend.h - what makes sandboxes on this machine, whichever
 * it is. A follower's is made when it takes over; its port exists from the
 * beginning. Private to the daemon. */
#ifndef WP_ALLOCATOR_DAEMON_BACKEND_H
#define WP_ALLOCATOR_DAEMON_BACKEND_H

#include "allocator/daemon/core.h"
#include "allocator/daemon/locks.h"
#include "local/manifest/manifest.h"
#include "local/sandbox/backend_local.h"
#include "pool/backend.h"
#include "pool/lease_store.h"

struct wp_daemon_backend; /* Opaque. */

/* All is borrowed. NULL and err. */
struct wp_daemon_backend *
wp_daemon_backend_create(struct wp_daemon_core *core,
                         const struct wp_manifest *manifest,
                         struct wp_daemon_locks *locks, struct wp_err *err);
/* Sees whether this machine can make sandboxes, for one that opens later: open
 * looks itself, and that takes longer than all else it does. */
enum wp_status wp_daemon_backend_probe(const struct wp_daemon_backend *self,
                                       struct wp_err *err);
/* Makes what makes them; takes the backend's lock over from locks. Once.
 * untried: whether it can make any is probed later. */
enum wp_status wp_daemon_backend_open(struct wp_daemon_backend *self,
                                      bool untried, struct wp_err *err);
/* The manifest's templates are what sandboxes are made from, from here on:
 * changed[i] says that the i-th was something else before. One that is refused
 * is said in the log; then the earlier one stays, if there is one. True: the
 * manifest belongs to the backend now, which needs it until destroy. Main
 * thread; blocks. */
bool wp_daemon_backend_reload(struct wp_daemon_backend *self,
                              struct wp_manifest *manifest, bool *changed);
/* The same for a pool that is added, with its template or without: OK when its
 * sandboxes can be made. ALREADY_EXISTS: the template is another one here;
 * FAILED_PRECONDITION: there is none; UNAVAILABLE: this daemon makes no
 * sandboxes now. *is_kept: the manifest belongs to the backend. Main thread;
 * blocks. */
enum wp_status wp_daemon_backend_accept(struct wp_daemon_backend *self,
                                        struct wp_manifest *manifest,
                                        const struct wp_pool_spec *spec,
                                        bool *is_kept, struct wp_err *err);
/* Can sandboxes of this pool be made? Main thread; blocks. */
bool wp_daemon_backend_has_template(struct wp_daemon_backend *self,
                                    const struct wp_pool_spec *spec);
/* The port for the core; what is behind it may come later. */
struct wp_backend wp_daemon_backend_port(struct wp_daemon_backend *self);
/* Takes up of an earlier daemon's sandboxes what the records of store want
 * (*adopted of them), and sweeps the rest. After open; any thread but
 * control's. */
enum wp_status wp_daemon_backend_start(struct wp_daemon_backend *self,
                                       struct wp_lease_store store,
                                       uint32_t *adopted, struct wp_err *err);
/* Zeros before it was started, and for NULL. Any thread. */
void wp_daemon_backend_stats(const struct wp_daemon_backend *self,
                             struct wp_local_stats *out);
/* Destroys every sandbox, or (leave_ready) those that were not ready yet;
 * harmless when it was not started. NULL is fine. */
void wp_daemon_backend_stop(struct wp_daemon_backend *self, bool leave_ready);
/* NULL is fine. */
void wp_daemon_backend_destroy(struct wp_daemon_backend *self);

/* --- adopt.c --- */

/* Does a record want the sandbox that was found? Then its slot's name is in
 * *ref. Asks a shared store, for as long as it takes, about one that the core
 * does not want; a signal that ends the daemon ends the process there. Any
 * thread but control's. */
bool wp_daemon_adopt(struct wp_daemon_core *core, struct wp_lease_store store,
                     const struct wp_local_found *found,
                     struct wp_slot_ref *ref);

#endif
