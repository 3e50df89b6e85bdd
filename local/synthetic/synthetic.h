/* local/synthetic/synthetic.h - sandboxes that are files: to measure and
 * to test the allocator itself.
 *
 * NOT A SANDBOX: nothing runs in it, nothing answers at its endpoint, nothing
 * is isolated from anything. It is made in microseconds, so that ten million
 * claims, or ten thousand leases across a restart, can be tried on any machine.
 *
 * A sandbox is the file STATE_DIR/synthetic/UID (32 hexadecimal digits), from
 * its order until it is destroyed: it lives as long as its file exists, which
 * anybody can check. Inside are four lines: namespace, pool, template, name.
 * Its endpoint is "unix:" and that path.
 *
 * It is used as the local backend is (local/sandbox/backend_local.h), whose
 * lock of the state directory, events and adoption it shares. It has one thread
 * of its own; create and destroy only post to it, and reports are made from it.
 * */
#ifndef WP_LOCAL_SYNTHETIC_SYNTHETIC_H
#define WP_LOCAL_SYNTHETIC_SYNTHETIC_H

#include <stdbool.h>
#include <stdint.h>

#include "local/sandbox/backend_local.h"

struct wp_synthetic_config {
    const char *state_dir;  /* Absolute; exists; borrowed for the create. */
    int lock_fd;            /* As in struct wp_local_config; -1: locks it. */
    int64_t ready_ns;       /* From its turn to ready. */
    uint32_t fail_percent;  /* Of the orders: these never become ready. */
    uint32_t sandboxes_max; /* Slot indexes are below this. */
    uint32_t spawns_max;    /* In the making at once; 0: all at once. */
    uint64_t seed;          /* Decides which orders fail. */
};

struct wp_synthetic; /* Opaque. */

/* Takes the lock of the state directory, also when it fails, and makes the
 * sandboxes' directory. NULL and err: it cannot, another daemon has it
 * (FAILED_PRECONDITION), a sandbox's path would be longer than an endpoint may
 * be (INVALID_ARGUMENT), memory lacks. */
WP_MUST_CHECK struct wp_synthetic *
wp_synthetic_create(const struct wp_synthetic_config *config,
                    struct wp_err *err);

/* As wp_local_start. Adopts what events->adopt wants of the sandboxes that are
 * there and removes the others, then starts the thread. Once. */
WP_MUST_CHECK enum wp_status
wp_synthetic_start(struct wp_synthetic *synthetic,
                   const struct wp_local_events *events,
                   struct wp_local_sweep *sweep, struct wp_err *err);

/* Valid until wp_synthetic_stop or _leave. */
struct wp_backend wp_synthetic_port(struct wp_synthetic *synthetic);
/* Any thread. */
void wp_synthetic_stats(const struct wp_synthetic *synthetic,
                        struct wp_local_stats *out);

/* Ends the thread after it has done what was posted, and destroys every
 * sandbox, reporting each end. No create may be in flight. Idempotent. */
void wp_synthetic_stop(struct wp_synthetic *synthetic);
/* The same, but sandboxes that had become ready stay, unreported, for the next
 * daemon to adopt. */
void wp_synthetic_leave(struct wp_synthetic *synthetic);
/* Stopped, or never started. Frees the lock. NULL is fine. */
void wp_synthetic_destroy(struct wp_synthetic *synthetic);

#endif
