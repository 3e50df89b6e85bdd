/* local/sandbox/sandbox.c - the life of one sandbox, on the backend's thread.
 * */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/control.h"
#include "local/sandbox/sandbox_impl.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"

enum {
    REMOVAL_TRIES = 200,
    REMOVAL_FIRST_MS = 1,
    REMOVAL_LAST_MS = 50,
    KILL_AGAIN_MS = 1000,
    MAKE_WAY_MS = 5,
    HELLO_WAIT_MS =
        5000, /* For a sandbox destroyed while it is being set up. */
};

/* --- Small helpers --- */

int64_t
wp_sandbox_now_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

void
wp_sandbox_watch(struct wp_sandbox *sandbox, struct event *event, int fd,
                 short what, event_callback_fn fn)
{
    (void)event_assign(event, sandbox->local->base, fd, what, fn, sandbox);
    (void)event_add(event, NULL);
}

void
wp_sandbox_unwatch(struct event *event, int *fd)
{
    if (*fd >= 0) {
        (void)event_del(event);
        (void)close(*fd);
        *fd = -1;
    }
}

static void
count_state(struct wp_local *local, enum wp_sandbox_state state, int delta)
{
    atomic_uint *counter = state == WP_SANDBOX_QUEUED     ? &local->queued
                           : state == WP_SANDBOX_STARTING ? &local->starting
                           : state == WP_SANDBOX_READY    ? &local->ready
                                                          : &local->dying;

    if (delta > 0) {
        atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
    } else {
        atomic_fetch_sub_explicit(counter, 1, memory_order_relaxed);
    }
}

void
wp_sandbox_set_state(struct wp_sandbox *sandbox, enum wp_sandbox_state state)
{
    count_state(sandbox->local, sandbox->state, -1);
    count_state(sandbox->local, state, 1);
    sandbox->state = state;
}

/* From here on functions call each other in a ring: a start that fails at once
 * gives its turn to the next. in_start, in wp_local_start_queued, ends it after
 * one round. NOLINTBEGIN(misc-no-recursion) */

/* Gives its place among those that start to the next in the queue. */
void
wp_sandbox_end_turn(struct wp_sandbox *sandbox)
{
    if (sandbox->has_turn) {
        sandbox->has_turn = false;
        sandbox->local->turns--;
        wp_local_start_queued(sandbox->local);
    }
}

/* An answer that comes after the end has begun must make nothing ready. */
static void
end_bridge_check(struct wp_sandbox *sandbox)
{
    wp_sandbox_unwatch(&sandbox->bridge_event, &sandbox->bridge_fd);
    (void)evtimer_del(&sandbox->bridge_timer);
}

void
wp_sandbox_lost(struct wp_sandbox *sandbox, const char *reason)
{
    struct wp_local *local = sandbox->local;

    if (sandbox->lost || sandbox->state >= WP_SANDBOX_DYING) {
        return;
    }
    wp_sandbox_thaw(sandbox);
    sandbox->lost = true;
    (void)evtimer_del(&sandbox->timer);
    (void)evtimer_del(&sandbox->identity_timer);
    wp_sandbox_unlook(sandbox);
    end_bridge_check(sandbox);
    wp_sandbox_end_binds(sandbox, WP_UNAVAILABLE, reason);
    if (sandbox->state == WP_SANDBOX_QUEUED) {
        /* Too late to be started. */
        wp_list_remove(&sandbox->node);
        wp_list_push_back(&local->live, &sandbox->node);
    }
    atomic_fetch_add_explicit(&local->lost_total, 1, memory_order_relaxed);
    wp_log_warn("sandbox lost", wp_kv_str("sandbox", sandbox->name),
                wp_kv_str("reason", reason));
    local->events.on_lost(local->events.ctx, sandbox->ref, wp_str_from(reason));
    wp_sandbox_end_turn(sandbox);
}

/* --- The end --- */

static void
finish(struct wp_sandbox *sandbox)
{
    struct wp_local *local = sandbox->local;
    struct wp_slot_ref ref = sandbox->ref;
    bool had_volumes = sandbox->volumes[0] != '\0';

    (void)evtimer_del(&sandbox->timer);
    (void)evtimer_del(&sandbox->bridge_timer);
    wp_list_remove(&sandbox->node);
    count_state(local, sandbox->state, -1);
    if (sandbox->host_user != UINT32_MAX) {
        local->free_users[local->free_users_len++] = sandbox->host_user;
    }
    local->by_index[ref.index] = NULL;
    free(sandbox);
    if (had_volumes) {
        wp_local_volumes_freed(local);
    }
    atomic_fetch_sub_explicit(&local->live_count, 1, memory_order_relaxed);
    local->events.on_destroyed(local->events.ctx, ref);
}

static void
step_removing(struct wp_sandbox *sandbox)
{
    int64_t wait_ms;

    if (wp_sandbox_undo(sandbox)) {
        finish(sandbox);
        return;
    }
    if (++sandbox->removals >= REMOVAL_TRIES) {
        wp_log_error("sandbox not removed, left for the next start",
                     wp_kv_str("sandbox", sandbox->name),
                     wp_kv_str("error", strerror(errno)));
        finish(sandbox);
        return;
    }
    /* The kernel takes the last process out of its group a little after the
     * process is gone; one that escaped the record is killed here. */
    if (sandbox->has_group && sandbox->removals % 8 == 0) {
        wp_cgroup_kill(sandbox->groups, sandbox->name);
    }
    wait_ms = (int64_t)REMOVAL_FIRST_MS
              << (sandbox->removals < 8 ? sandbox->removals : 8);
    wp_sandbox_arm_ms(&sandbox->timer,
                      wait_ms < REMOVAL_LAST_MS ? wait_ms : REMOVAL_LAST_MS);
}

void
wp_sandbox_kill(struct wp_sandbox *sandbox)
{
    wp_sandbox_arm_ms(&sandbox->timer, KILL_AGAIN_MS);
    if (sandbox->inner_fd >= 0) {
        /* Process 1 takes all of its PID namespace with it; bwrap then ends. */
        (void)syscall(SYS_pidfd_send_signal, sandbox->inner_fd, SIGKILL, NULL,
                      0);
    } else if (sandbox->outer_fd >= 0) {
        (void)syscall(SYS_pidfd_send_signal, sandbox->outer_fd, SIGKILL, NULL,
                      0);
    }
}

/* Goes on with the removal once both processes are gone. */
void
wp_sandbox_step_dying(struct wp_sandbox *sandbox)
{
    if (sandbox->state == WP_SANDBOX_DYING && sandbox->outer_fd < 0 &&
        sandbox->inner_fd < 0) {
        wp_sandbox_unwatch(&sandbox->control_event, &sandbox->control_fd);
        wp_sandbox_unwatch(&sandbox->stderr_event, &sandbox->stderr_fd);
        (void)evtimer_del(&sandbox->timer);
        wp_sandbox_set_state(sandbox, WP_SANDBOX_REMOVING);
        step_removing(sandbox);
    }
}

void
wp_sandbox_destroy(struct wp_sandbox *sandbox)
{
    struct wp_local *local = sandbox->local;
    const char terminate = WP_CONTROL_TERMINATE;

    if (sandbox->state >= WP_SANDBOX_DYING) {
        return;
    }
    if (sandbox->state == WP_SANDBOX_QUEUED) {
        wp_sandbox_set_state(sandbox, WP_SANDBOX_REMOVING);
        step_removing(sandbox);
        return;
    }
    wp_sandbox_thaw(sandbox); /* Else it could not end. */
    wp_sandbox_unlook(sandbox);
    (void)evtimer_del(&sandbox->timer);
    end_bridge_check(sandbox);
    wp_sandbox_end_binds(sandbox, WP_UNAVAILABLE, "its lease has ended");
    (void)evtimer_del(&sandbox->identity_timer);
    wp_egress_proxy_leave(local->egress, sandbox->egress_member);
    sandbox->egress_member = NULL;
    wp_sandbox_set_state(sandbox, WP_SANDBOX_DYING);
    if (sandbox->inner_fd < 0 && sandbox->outer_fd >= 0) {
        /* bwrap killed in the middle could leave its child behind: wait for
         * the hello, which comes within milliseconds. */
        sandbox->kill_due = true;
        wp_sandbox_arm_ms(&sandbox->timer, HELLO_WAIT_MS);
    } else if (local->config.stop_grace_ms > 0 && sandbox->inner_fd >= 0 &&
               send(sandbox->control_fd, &terminate, 1, MSG_NOSIGNAL) == 1) {
        wp_sandbox_arm_ms(&sandbox->timer, local->config.stop_grace_ms);
    } else {
        wp_sandbox_kill(sandbox);
    }
    wp_sandbox_end_turn(sandbox);
    wp_sandbox_step_dying(sandbox);
}

/* --- Time --- */

static const char *
late_reason(const struct wp_sandbox *sandbox)
{
    if (sandbox->state == WP_SANDBOX_QUEUED) {
        return "not started in time";
    }
    if (sandbox->opened) {
        return "not healthy in time through its socket";
    }
    return sandbox->tmpl->tmpl->probe == WP_READY_HTTP
               ? "its port gave no healthy answer in time"
               : "its port did not answer in time";
}

static void
on_timer(int fd, short what, void *arg)
{
    struct wp_sandbox *sandbox = arg;
    const char probe = WP_CONTROL_PROBE;

    (void)fd;
    (void)what;
    switch (sandbox->state) {
    case WP_SANDBOX_QUEUED:
    case WP_SANDBOX_STARTING:
        wp_sandbox_lost(sandbox, late_reason(sandbox));
        break;
    case WP_SANDBOX_READY:
        if (sandbox->asked) {
            wp_sandbox_silent(sandbox, "its init does not answer");
            break;
        }
        if (send(sandbox->control_fd, &probe, 1, MSG_NOSIGNAL | MSG_DONTWAIT) ==
            1) {
            sandbox->asked = true;
            wp_sandbox_arm_ms(&sandbox->timer,
                              sandbox->local->config.probe_timeout_ms);
        } else {
            wp_sandbox_silent(sandbox, "its init does not read");
        }
        break;
    case WP_SANDBOX_DYING:
        if (sandbox->kill_due && sandbox->has_group) {
            wp_cgroup_kill(sandbox->groups, sandbox->name);
        }
        wp_sandbox_kill(sandbox);
        break;
    case WP_SANDBOX_REMOVING:
        step_removing(sandbox);
        break;
    default:
        break;
    }
}

/* --- The start --- */

static void
start(struct wp_sandbox *sandbox)
{
    struct wp_local *local = sandbox->local;
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;

    if (local->host.own_uids) {
        /* As many users as sandboxes, so one is always free. */
        WP_ASSERT(local->free_users_len > 0);
        sandbox->host_user = local->free_users[--local->free_users_len];
    }
    status = wp_sandbox_spawn(sandbox, &err);
    wp_sandbox_set_state(sandbox, WP_SANDBOX_STARTING);
    if (status != WP_OK) {
        wp_sandbox_lost(sandbox, err.msg);
        return;
    }
    atomic_fetch_add_explicit(&local->spawned_total, 1, memory_order_relaxed);
    wp_sandbox_watch(sandbox, &sandbox->outer_event, sandbox->outer_fd,
                     EV_READ | EV_PERSIST, wp_sandbox_on_outer_exit);
    wp_sandbox_watch(sandbox, &sandbox->control_event, sandbox->control_fd,
                     EV_READ | EV_PERSIST, wp_sandbox_on_control);
    wp_sandbox_watch(sandbox, &sandbox->stderr_event, sandbox->stderr_fd,
                     EV_READ | EV_PERSIST, wp_sandbox_on_stderr);
}

/* Somebody waits for a bind's answer, and nobody yet for a sandbox that would
 * start now and keep this thread and a core for some milliseconds. Not for
 * longer than a bind without repositories takes, so that binds without end do
 * not starve starts. */
static bool
make_way(struct wp_local *local)
{
    int64_t now_ns;

    if (atomic_load_explicit(&local->binds, memory_order_relaxed) == 0 ||
        wp_list_empty(&local->queue)) {
        return false;
    }
    now_ns = wp_sandbox_now_ns();
    if (local->start_by_ns == 0) {
        struct timeval wait = wp_timeval(MAKE_WAY_MS * WP_NS_PER_MS);

        local->start_by_ns = now_ns + MAKE_WAY_MS * WP_NS_PER_MS;
        (void)evtimer_add(&local->start_timer, &wait);
    }
    return now_ns < local->start_by_ns;
}

void
wp_local_on_start_timer(int fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    wp_local_start_queued(arg);
}

void
wp_local_start_queued(struct wp_local *local)
{
    if (local->in_start || make_way(local)) {
        /* One that failed at once, and the loop below goes on; or later. */
        return;
    }
    local->start_by_ns = 0;
    local->in_start = true;
    while (!wp_list_empty(&local->queue) &&
           local->turns < local->config.spawns_max) {
        struct wp_sandbox *sandbox =
            WP_CONTAINER_OF(local->queue.next, struct wp_sandbox, node);

        wp_list_remove(&sandbox->node);
        wp_list_push_back(&local->live, &sandbox->node);
        sandbox->has_turn = true;
        local->turns++;
        if (local->events.on_started != NULL) {
            local->events.on_started(local->events.ctx, sandbox->ref);
        }
        start(sandbox);
    }
    local->in_start = false;
}
/* NOLINTEND(misc-no-recursion) */

/* Assigned from the start, so that deleting one is always right. */
static void
assign_events(struct wp_sandbox *sandbox)
{
    const struct wp_local *local = sandbox->local;

    (void)event_assign(&sandbox->outer_event, local->base, -1, 0,
                       wp_sandbox_on_outer_exit, sandbox);
    (void)event_assign(&sandbox->inner_event, local->base, -1, 0,
                       wp_sandbox_on_inner_exit, sandbox);
    (void)event_assign(&sandbox->control_event, local->base, -1, 0,
                       wp_sandbox_on_control, sandbox);
    (void)event_assign(&sandbox->stderr_event, local->base, -1, 0,
                       wp_sandbox_on_stderr, sandbox);
    (void)event_assign(&sandbox->bridge_event, local->base, -1, 0,
                       wp_sandbox_on_bridge, sandbox);
    (void)evtimer_assign(&sandbox->timer, local->base, on_timer, sandbox);
    (void)evtimer_assign(&sandbox->bridge_timer, local->base,
                         wp_sandbox_on_bridge_timer, sandbox);
    (void)evtimer_assign(&sandbox->bind_timer, local->base,
                         wp_sandbox_on_bind_timer, sandbox);
    (void)evtimer_assign(&sandbox->identity_timer, local->base,
                         wp_sandbox_on_identity_timer, sandbox);
    (void)evtimer_assign(&sandbox->look_timer, local->base,
                         wp_sandbox_on_look_timer, sandbox);
}

void
wp_sandbox_enqueue(struct wp_sandbox *sandbox)
{
    struct wp_local *local = sandbox->local;
    int64_t spent_ns = wp_sandbox_now_ns() - sandbox->ordered_ns;
    int64_t left_ms = (sandbox->ready_within_ns - spent_ns) / WP_NS_PER_MS;

    assign_events(sandbox);
    wp_list_push_back(&local->queue, &sandbox->node);
    count_state(local, WP_SANDBOX_QUEUED, 1);
    /* Bounded so that a timeval holds it; a month is forever here. */
    if (left_ms > 30LL * 24 * 3600 * 1000) {
        left_ms = 30LL * 24 * 3600 * 1000;
    }
    wp_sandbox_arm_ms(&sandbox->timer, left_ms > 0 ? left_ms : 0);
    wp_local_start_queued(local);
}

void
wp_sandbox_adopt(struct wp_sandbox *sandbox)
{
    struct wp_local *local = sandbox->local;
    uint64_t every = local->config.probe_every_ms;

    assign_events(sandbox);
    wp_list_push_back(&local->live, &sandbox->node);
    sandbox->state = WP_SANDBOX_READY;
    count_state(local, WP_SANDBOX_READY, 1);
    atomic_fetch_add_explicit(&local->live_count, 1, memory_order_relaxed);
    wp_sandbox_watch(sandbox, &sandbox->outer_event, sandbox->outer_fd,
                     EV_READ | EV_PERSIST, wp_sandbox_on_outer_exit);
    wp_sandbox_watch(sandbox, &sandbox->inner_event, sandbox->inner_fd, EV_READ,
                     wp_sandbox_on_inner_exit);
    wp_sandbox_watch(sandbox, &sandbox->control_event, sandbox->control_fd,
                     EV_READ | EV_PERSIST, wp_sandbox_on_control);
    wp_sandbox_next_identity(sandbox);
    if (every > 0) {
        /* Many may come at once: over the whole round, so that they never all
         * answer together. */
        wp_sandbox_arm_ms(&sandbox->timer,
                          (int64_t)wp_rng_below(&local->rng, every));
    }
}

void
wp_sandbox_abandon(struct wp_sandbox *sandbox)
{
    wp_sandbox_unwatch(&sandbox->outer_event, &sandbox->outer_fd);
    wp_sandbox_unwatch(&sandbox->inner_event, &sandbox->inner_fd);
    wp_sandbox_unwatch(&sandbox->control_event, &sandbox->control_fd);
    wp_sandbox_unwatch(&sandbox->stderr_event, &sandbox->stderr_fd);
    wp_sandbox_unwatch(&sandbox->bridge_event, &sandbox->bridge_fd);
    wp_sandbox_end_binds(sandbox, WP_UNAVAILABLE, "the daemon leaves");
    (void)evtimer_del(&sandbox->identity_timer);
    wp_sandbox_unlook(sandbox);
    (void)evtimer_del(&sandbox->timer);
    (void)evtimer_del(&sandbox->bridge_timer);
    wp_list_remove(&sandbox->node);
    free(sandbox);
}
