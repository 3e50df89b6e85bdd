/* local/sandbox/sandbox_identity.c - a sandbox's signed identity, and the next
 * one before half of its life is over.
 *
 * No identity outlasts the lease's end, so one is looked at again while the
 * lease may have been renewed; what has not changed is not sent. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "local/control.h"
#include "local/sandbox/sandbox_impl.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"

enum {
    LOOK_AGAIN_MIN_MS = 1000,
};

_Static_assert(1 + WP_IDENTITY_TOKEN_MAX <= WP_CONTROL_IDENTITY_MAX,
               "an identity is one message");

static int64_t
wall_ms(void)
{
    return wp_clock_wall_ns(wp_clock_system()) / WP_NS_PER_MS;
}

/* After two fifths of what is left. */
static void
look_again(struct wp_sandbox *sandbox)
{
    int64_t ms = (sandbox->identity_until_ms - wall_ms()) * 2 / 5;

    wp_sandbox_arm_ms(&sandbox->identity_timer,
                      ms > LOOK_AGAIN_MIN_MS ? ms : LOOK_AGAIN_MIN_MS);
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

    if (status == WP_OK && until_ms > sandbox->identity_until_ms) {
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
    look_again(sandbox);
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
    if (give(sandbox, &err) != WP_OK) {
        wp_log_warn("identity not renewed, it is tried again",
                    wp_kv_str("sandbox", sandbox->name), wp_kv_err(&err));
    }
    look_again(sandbox);
}
