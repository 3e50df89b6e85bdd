/* local/sandbox/sandbox_impl.h - what the files about one sandbox share. Loop
 * thread. */
#ifndef WP_LOCAL_SANDBOX_SANDBOX_IMPL_H
#define WP_LOCAL_SANDBOX_SANDBOX_IMPL_H

#include "local/sandbox/local_impl.h"

int64_t wp_sandbox_now_ns(void);
static inline void
wp_sandbox_arm_ms(struct event *timer, int64_t ms)
{
    struct timeval tv = wp_timeval(ms * WP_NS_PER_MS);

    (void)evtimer_add(timer, &tv);
}
void wp_sandbox_watch(struct wp_sandbox *sandbox, struct event *event, int fd,
                      short what, event_callback_fn fn);
/* Closes *fd, if open, and leaves -1. */
void wp_sandbox_unwatch(struct event *event, int *fd);
void wp_sandbox_set_state(struct wp_sandbox *sandbox,
                          enum wp_sandbox_state state);

/* Reports on_lost, the first time; nothing once it is being destroyed. */
void wp_sandbox_lost(struct wp_sandbox *sandbox, const char *reason);
/* Gives its place among those that start to the next in the queue. */
void wp_sandbox_end_turn(struct wp_sandbox *sandbox);
/* SIGKILL, and again after a while should it not be gone. */
void wp_sandbox_kill(struct wp_sandbox *sandbox);
/* Goes on with a destroy once its processes are gone. May free the sandbox. */
void wp_sandbox_step_dying(struct wp_sandbox *sandbox);

/* --- sandbox_bind.c --- */

/* Answers whoever waits for its being bound; reason unless WP_OK. */
void wp_sandbox_end_binds(struct wp_sandbox *sandbox, enum wp_status status,
                          const char *reason);
void wp_sandbox_on_bind_timer(int fd, short what, void *arg);

/* --- sandbox_egress.c --- */

/* Narrows its policy by `by`, for good. WP_PENDING: wp_sandbox_on_narrowed
 * comes, unless it is destroyed first. Not WP_OK: it may be narrowed all the
 * same. */
WP_MUST_CHECK enum wp_status wp_sandbox_narrow(struct wp_sandbox *sandbox,
                                               const char *by,
                                               struct wp_err *err);

/* --- sandbox_volume.c --- */

/* They are in its workspace from here on; asked for again, too. WP_PENDING:
 * nothing was done, since another sandbox has one of them; err says which.
 * FAILED_PRECONDITION: some may be there. */
WP_MUST_CHECK enum wp_status
wp_sandbox_mount(struct wp_sandbox *sandbox,
                 const struct wp_bind_volumes *volumes, struct wp_err *err);
/* A sandbox that had some is gone: who waits for one looks again. */
void wp_local_volumes_freed(struct wp_local *local);

/* --- sandbox_identity.c --- */

/* Gives it an identity, from here on for as long as it is leased; after a
 * restart of the daemon, too, once wp_sandbox_record_identity was WP_OK. Not
 * WP_OK: it has none. */
WP_MUST_CHECK enum wp_status wp_sandbox_identify(struct wp_sandbox *sandbox,
                                                 const char *audience,
                                                 int64_t ttl_ms,
                                                 struct wp_err *err);
/* Its record says so. Nothing is written that it says already. */
WP_MUST_CHECK enum wp_status
wp_sandbox_record_identity(struct wp_sandbox *sandbox, struct wp_err *err);
/* The next one, if it is to have any, is due now. */
static inline void
wp_sandbox_next_identity(struct wp_sandbox *sandbox)
{
    if (sandbox->audience[0] != '\0') {
        sandbox->identity_due_ns = 0;
        wp_sandbox_arm_ms(&sandbox->identity_timer, 0);
    }
}
void wp_sandbox_on_identity_timer(int fd, short what, void *arg);

/* --- sandbox_freeze.c --- */

/* Its init says for how long it has been idle; takes fd, which is -1 or the
 * socket that its init does not accept from any more. */
void wp_sandbox_on_idle(struct wp_sandbox *sandbox, const char *text, int fd);
/* Nobody looks at it any more. */
void wp_sandbox_unlook(struct wp_sandbox *sandbox);
void wp_sandbox_on_look_timer(int fd, short what, void *arg);

/* --- sandbox_ready.c --- */

/* The program has answered init on its port; now see it from outside. */
void wp_sandbox_bridge_check(struct wp_sandbox *sandbox);
/* Arms the timer for the next liveness probe. */
void wp_sandbox_next_probe(struct wp_sandbox *sandbox);
void wp_sandbox_on_bridge(int fd, short what, void *arg);
void wp_sandbox_on_bridge_timer(int fd, short what, void *arg);

/* --- sandbox_events.c --- */

/* A liveness probe failed. */
void wp_sandbox_silent(struct wp_sandbox *sandbox, const char *how);
void wp_sandbox_on_inner_exit(int fd, short what, void *arg);
void wp_sandbox_on_outer_exit(int fd, short what, void *arg);
void wp_sandbox_on_control(int fd, short what, void *arg);
void wp_sandbox_on_stderr(int fd, short what, void *arg);

#endif
