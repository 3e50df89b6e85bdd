/* local/sandbox/sandbox_identity.c - a sandbox's signed identity, and the next
 * one before half of its life is over.
 *
 * No identity outlasts the lease's end, so one is looked at again while the
 * lease may have been renewed; what has not changed is not sent. When the wall
 * clock was set, or the machine has slept, the one that is there is over or not
 * good yet to others, so the next one is made at once. Nobody tells of it. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "local/control.h"
#include "local/sandbox/sandbox_impl.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"

#define LOOK_AGAIN_MIN_NS (1 * WP_NS_PER_S)
#define LOOK_AGAIN_MAX_NS (20 * WP_NS_PER_S)
#define SET_NS (10 * WP_NS_PER_S) /* More than a clock drifts meanwhile. */

_Static_assert(1 + WP_IDENTITY_TOKEN_MAX <= WP_CONTROL_IDENTITY_MAX,
               "an identity is one message");

static int64_t
wall_ms(void)
{
    return wp_clock_wall_ns(wp_clock_system()) / WP_NS_PER_MS;
}

static int64_t
mono_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

static bool
clock_was_set(const struct wp_sandbox *sandbox)
{
    int64_t by_ns = wp_clock_wall_offset_ns(wp_clock_system()) -
                    sandbox->identity_offset_ns;

    return by_ns > SET_NS || by_ns < -SET_NS;
}

static void
look_again(struct wp_sandbox *sandbox)
{
    int64_t ns = sandbox->identity_due_ns - mono_ns();

    ns = ns < LOOK_AGAIN_MAX_NS ? ns : LOOK_AGAIN_MAX_NS;
    wp_sandbox_arm_ms(&sandbox->identity_timer, ns / WP_NS_PER_MS + 1);
}

/* The next one is due after two fifths of what is left. */
static void
plan_next(struct wp_sandbox *sandbox)
{
    int64_t ns =
        (sandbox->identity_until_ms - wall_ms()) * 2 / 5 * WP_NS_PER_MS;

    sandbox->identity_offset_ns = wp_clock_wall_offset_ns(wp_clock_system());
    sandbox->identity_due_ns =
        wp_time_add(mono_ns(), ns > LOOK_AGAIN_MIN_NS ? ns : LOOK_AGAIN_MIN_NS);
    look_again(sandbox);
}

/* WP_OK: it has one that is good for as long as one can be. */
static enum wp_status
give(struct wp_sandbox *sandbox, struct wp_err *err)
{
    const struct wp_local_events *events = &sandbox->local->events;
    char message[1 + WP_IDENTITY_TOKEN_MAX + 1];
    int64_t until_ms = 0;
    enum wp_status status = events->sign(
        events->ctx, wp_str_from(sandbox->name), wp_str_from(sandbox->audience),
        sandbox->identity_ttl_ms, message + 1, &until_ms, err);

    if (status == WP_OK && until_ms != sandbox->identity_until_ms) {
        size_t len = 1 + strlen(message + 1);

        message[0] = WP_CONTROL_IDENTITY;
        if (send(sandbox->control_fd, message, len,
                 MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len) {
            sandbox->identity_until_ms = until_ms;
        } else {
            status = wp_err_set(err, WP_UNAVAILABLE, "its init does not read");
        }
    }
    explicit_bzero(message, sizeof message);
    return status;
}

enum wp_status
wp_sandbox_identify(struct wp_sandbox *sandbox, const char *audience,
                    int64_t ttl_ms, struct wp_err *err)
{
    if (strcmp(sandbox->audience, audience) != 0 ||
        sandbox->identity_ttl_ms != ttl_ms) {
        (void)snprintf(sandbox->audience, sizeof sandbox->audience, "%s",
                       audience);
        sandbox->identity_ttl_ms = ttl_ms;
        sandbox->identity_unrecorded = true;
    }
    if (give(sandbox, err) != WP_OK) {
        return wp_err_wrap(err, "identity");
    }
    plan_next(sandbox);
    return WP_OK;
}

enum wp_status
wp_sandbox_record_identity(struct wp_sandbox *sandbox, struct wp_err *err)
{
    if (sandbox->identity_unrecorded &&
        wp_sandbox_record_claimed(sandbox, err) != WP_OK) {
        return wp_err_wrap(err, "identity");
    }
    sandbox->identity_unrecorded = false;
    return WP_OK;
}

void
wp_sandbox_on_identity_timer(int fd, short what, void *arg)
{
    struct wp_sandbox *sandbox = arg;
    struct wp_err err;

    (void)fd;
    (void)what;
    if (sandbox->state != WP_SANDBOX_READY || sandbox->lost) {
        return;
    }
    if (clock_was_set(sandbox)) {
        sandbox->identity_until_ms = 0; /* As if it had none. */
    } else if (mono_ns() < sandbox->identity_due_ns) {
        look_again(sandbox);
        return;
    }
    if (give(sandbox, &err) != WP_OK) {
        wp_log_warn("identity not renewed, it is tried again",
                    wp_kv_str("sandbox", sandbox->name), wp_kv_err(&err));
    }
    plan_next(sandbox);
}
