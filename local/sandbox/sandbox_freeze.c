/* local/sandbox/sandbox_freeze.c - is a leased sandbox used? Loop thread.
 *
 *             idle for freeze_after_ms
 *   watched ----------------------------> frozen
 *           <----------------------------
 *             a connection comes, or a binding, or the lease's end
 *
 * Its init says for how long it has been idle. When that is long enough, init
 * has stopped accepting and hands over the listening socket: a connection that
 * comes from then on waits in the backlog, is seen here, and thaws the sandbox.
 * So no connection is frozen half way, and none needs to come through the
 * daemon. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "local/control.h"
#include "local/sandbox/sandbox_impl.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"

enum {
    LOOK_MIN_MS = 100, /* Between two looks. */
    KEEP_MAX_MS = 60000,
    KEEPS = 3, /* Looks in the time that a lease has left. */
};

static void
say(const struct wp_sandbox *sandbox, char what)
{
    /* Who does not read is found silent by the next liveness probe. */
    (void)!send(sandbox->control_fd, &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int64_t
keep_every_ms(const struct wp_sandbox *sandbox)
{
    int64_t ms = sandbox->lease_ms / KEEPS;

    return ms < KEEP_MAX_MS ? ms : KEEP_MAX_MS;
}

static void
arm(struct wp_sandbox *sandbox)
{
    int64_t passed_ms =
        (wp_sandbox_now_ns() - sandbox->looked_ns) / WP_NS_PER_MS;
    int64_t wait_ms = INT64_MAX;

    if (sandbox->freeze_after_ms > 0) {
        wait_ms = sandbox->freeze_after_ms - sandbox->idle_ms - passed_ms;
    }
    if (sandbox->lease_ms > 0 && keep_every_ms(sandbox) - passed_ms < wait_ms) {
        wait_ms = keep_every_ms(sandbox) - passed_ms;
    }
    if (wait_ms < INT64_MAX) {
        wp_sandbox_arm_ms(&sandbox->look_timer,
                          wait_ms > LOOK_MIN_MS ? wait_ms : LOOK_MIN_MS);
    }
}

static bool
is_watched(const struct wp_sandbox *sandbox)
{
    return sandbox->state == WP_SANDBOX_READY && !sandbox->lost &&
           !sandbox->frozen;
}

void
wp_sandbox_on_look_timer(int fd, short what, void *arg)
{
    struct wp_sandbox *sandbox = arg;
    int64_t idle_ms = sandbox->idle_ms +
                      (wp_sandbox_now_ns() - sandbox->looked_ns) / WP_NS_PER_MS;
    bool due = idle_ms >= sandbox->freeze_after_ms && sandbox->looked_ns > 0 &&
               wp_list_empty(&sandbox->binds);
    char text[32];
    int n;

    (void)fd;
    (void)what;
    if (!is_watched(sandbox)) {
        return;
    }
    n = snprintf(text, sizeof text, "%c%lld", WP_CONTROL_LOOK,
                 due ? (long long)sandbox->freeze_after_ms : 0);
    sandbox->looking = send(sandbox->control_fd, text, (size_t)n,
                            MSG_NOSIGNAL | MSG_DONTWAIT) == n;
    if (!sandbox->looking) {
        sandbox->looked_ns = wp_sandbox_now_ns();
        arm(sandbox);
    }
}

/* --- Frozen --- */

static void
on_door(int fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    wp_sandbox_thaw(arg);
}

/* Takes the socket. A probe that is out would find it silent. */
static void
freeze(struct wp_sandbox *sandbox, int door_fd)
{
    struct wp_local *local = sandbox->local;

    sandbox->frozen = wp_cgroup_freeze(sandbox->groups, sandbox->name, true);
    if (!sandbox->frozen) {
        wp_log_warn("sandbox not frozen, and it is not tried again",
                    wp_kv_str("sandbox", sandbox->name),
                    wp_kv_str("error", strerror(errno)));
        (void)close(door_fd);
        sandbox->freeze_after_ms = 0;
        say(sandbox, WP_CONTROL_AWAKE);
        return;
    }
    sandbox->asked = false;
    (void)evtimer_del(&sandbox->timer);
    (void)evtimer_del(&sandbox->identity_timer);
    sandbox->door_fd = door_fd;
    wp_sandbox_watch(sandbox, &sandbox->door_event, door_fd, EV_READ, on_door);
    (void)atomic_fetch_add_explicit(&local->frozen, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&local->frozen_total, 1,
                                    memory_order_relaxed);
    wp_log_debug("sandbox frozen", wp_kv_str("sandbox", sandbox->name),
                 wp_kv_ms("idle", sandbox->idle_ms * WP_NS_PER_MS));
}

void
wp_sandbox_thaw(struct wp_sandbox *sandbox)
{
    struct wp_local *local = sandbox->local;

    if (!sandbox->frozen) {
        return;
    }
    if (!wp_cgroup_freeze(sandbox->groups, sandbox->name, false)) {
        wp_log_error("sandbox not thawed", wp_kv_str("sandbox", sandbox->name),
                     wp_kv_str("error", strerror(errno)));
    }
    say(sandbox, WP_CONTROL_AWAKE);
    sandbox->frozen = false;
    (void)atomic_fetch_sub_explicit(&local->frozen, 1, memory_order_relaxed);
    wp_sandbox_unwatch(&sandbox->door_event, &sandbox->door_fd);
    wp_sandbox_next_probe(sandbox);
    wp_sandbox_next_identity(sandbox);
    sandbox->idle_ms = 0;
    sandbox->looked_ns = wp_sandbox_now_ns();
    arm(sandbox);
    wp_log_debug("sandbox thawed", wp_kv_str("sandbox", sandbox->name));
}

void
wp_sandbox_unlook(struct wp_sandbox *sandbox)
{
    (void)evtimer_del(&sandbox->look_timer);
    wp_sandbox_unwatch(&sandbox->door_event, &sandbox->door_fd);
}

/* --- What init says --- */

void
wp_sandbox_on_idle(struct wp_sandbox *sandbox, const char *text, int fd)
{
    const struct wp_local_events *events = &sandbox->local->events;
    int64_t now_ns = wp_sandbox_now_ns();
    int64_t since_ms = (now_ns - sandbox->looked_ns) / WP_NS_PER_MS;
    bool first = sandbox->looked_ns == 0;
    uint64_t idle_ms;
    bool idle;

    if (!sandbox->looking || !is_watched(sandbox) ||
        !wp_str_to_u64(wp_str_from(text), &idle_ms) || idle_ms > UINT32_MAX) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    sandbox->looking = false;
    sandbox->looked_ns = now_ns;
    sandbox->idle_ms = (int64_t)idle_ms;
    if (sandbox->lease_ms > 0 && !first && sandbox->idle_ms < since_ms &&
        events->on_used != NULL) {
        events->on_used(events->ctx, sandbox->ref,
                        sandbox->lease_ms * WP_NS_PER_MS);
    }
    idle = sandbox->freeze_after_ms > 0 &&
           sandbox->idle_ms >= sandbox->freeze_after_ms &&
           wp_list_empty(&sandbox->binds);
    if (fd >= 0 && idle) {
        freeze(sandbox, fd);
    } else if (fd >= 0) {
        (void)close(fd);
        say(sandbox, WP_CONTROL_AWAKE);
    }
    if (!sandbox->frozen) {
        arm(sandbox);
    }
}

/* --- Leases --- */

static void
run_leased(void *ctx, uint64_t a, uint64_t b)
{
    struct wp_sandbox *sandbox = wp_sandbox_find(ctx, wp_slot_ref_unpack(a));

    if (sandbox == NULL || sandbox->state != WP_SANDBOX_READY ||
        sandbox->lost) {
        return;
    }
    sandbox->freeze_after_ms =
        wp_cgroups_can_freeze(sandbox->groups) && sandbox->has_group
            ? (int64_t)(b >> 32)
            : 0;
    sandbox->lease_ms = (int64_t)(b & UINT32_MAX);
    if (sandbox->frozen || sandbox->looking) {
        return;
    }
    if (sandbox->looked_ns == 0) {
        /* What is counted is counted from here on. */
        wp_sandbox_on_look_timer(-1, 0, sandbox);
    } else {
        arm(sandbox);
    }
}

static uint64_t
bounded(int64_t ms)
{
    return ms < 0 ? 0 : ms < UINT32_MAX ? (uint64_t)ms : UINT32_MAX;
}

void
wp_local_leased(void *self, const struct wp_lease_notice *notice)
{
    struct wp_local *local = self;
    int64_t left_ms = notice->deadline_wall_ms -
                      wp_clock_wall_ns(wp_clock_system()) / WP_NS_PER_MS;
    uint64_t lease_ms = notice->keep ? bounded(left_ms) : 0;
    char name[WP_SANDBOX_NAME_MAX + 1];

    if (!wp_loop_post(
            local->loop, run_leased, local, wp_slot_ref_pack(notice->ref),
            bounded(notice->freeze_after_ns / WP_NS_PER_MS) << 32 | lease_ms)) {
        WP_ASSERT(wp_str_copy(notice->sandbox, name, sizeof name));
        wp_log_warn("too much to do: nobody looks whether this sandbox is "
                    "used until its lease is renewed",
                    wp_kv_str("sandbox", name));
    }
}
