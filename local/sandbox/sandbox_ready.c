/* local/sandbox/sandbox_ready.c - readiness, seen as clients will come: through
 * the socket on the host and the bridge inside. Loop thread. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "local/control.h"
#include "local/sandbox/sandbox_impl.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"

enum {
    BRIDGE_RETRY_FIRST_MS = 1,
    BRIDGE_RETRY_LAST_MS = 100,
};

void
wp_sandbox_next_probe(struct wp_sandbox *sandbox)
{
    struct wp_local *local = sandbox->local;
    uint64_t every = local->config.probe_every_ms;

    if (every > 0) {
        /* Spread by a quarter either way, so that probes do not march. */
        every = every * 3 / 4 + wp_rng_below(&local->rng, every / 2 + 1);
        wp_sandbox_arm_ms(&sandbox->timer, (int64_t)every);
    }
}

/* From here on it lives without a daemon: the record says so before anybody is
 * told that it is there. */
static bool
keep(struct wp_sandbox *sandbox)
{
    const char word = WP_CONTROL_KEEP;
    struct wp_err err;

    if (wp_sandbox_record(sandbox, true, &err) != WP_OK) {
        wp_sandbox_lost(sandbox, err.msg);
        return false;
    }
    if (send(sandbox->control_fd, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) {
        wp_sandbox_lost(sandbox, "its init does not read");
        return false;
    }
    sandbox->outlives = true;
    return true;
}

static void
become_ready(struct wp_sandbox *sandbox)
{
    struct wp_local *local = sandbox->local;
    char endpoint[WP_ENDPOINT_MAX + 8];

    if (local->config.outlive && !keep(sandbox)) {
        return;
    }
    wp_sandbox_unwatch(&sandbox->bridge_event, &sandbox->bridge_fd);
    wp_sandbox_unwatch(&sandbox->stderr_event, &sandbox->stderr_fd);
    (void)evtimer_del(&sandbox->timer);
    wp_sandbox_set_state(sandbox, WP_SANDBOX_READY);
    wp_sandbox_next_probe(sandbox);
    (void)snprintf(endpoint, sizeof endpoint, "unix:%s", sandbox->socket_path);
    wp_log_debug("sandbox ready", wp_kv_str("sandbox", sandbox->name),
                 wp_kv_ms("after", wp_sandbox_now_ns() - sandbox->ordered_ns));
    local->events.on_ready(local->events.ctx, sandbox->ref,
                           wp_str_from(endpoint));
    wp_sandbox_end_turn(sandbox);
}

static void
bridge_retry(struct wp_sandbox *sandbox)
{
    uint32_t tries = sandbox->bridge_tries++;
    int64_t wait_ms = (int64_t)BRIDGE_RETRY_FIRST_MS << (tries < 7 ? tries : 7);

    wp_sandbox_unwatch(&sandbox->bridge_event, &sandbox->bridge_fd);
    wp_sandbox_arm_ms(&sandbox->bridge_timer, wait_ms < BRIDGE_RETRY_LAST_MS
                                                  ? wait_ms
                                                  : BRIDGE_RETRY_LAST_MS);
}

void
wp_sandbox_on_bridge(int fd, short what, void *arg)
{
    struct wp_sandbox *sandbox = arg;
    ssize_t n = recv(fd, sandbox->reply + sandbox->reply_len,
                     sizeof sandbox->reply - sandbox->reply_len, MSG_DONTWAIT);
    int status;

    (void)what;
    WP_ASSERT(sandbox->state == WP_SANDBOX_STARTING && !sandbox->lost);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        bridge_retry(sandbox);
        return;
    }
    sandbox->reply_len += (uint32_t)n;
    status = wp_http_probe_status(sandbox->reply, sandbox->reply_len);
    if (status == 0) {
        return;
    }
    if (wp_http_probe_healthy(status)) {
        become_ready(sandbox);
    } else {
        bridge_retry(sandbox);
    }
}

/* The program has answered init on its port; now see it from outside. */
void
wp_sandbox_bridge_check(struct wp_sandbox *sandbox)
{
    const struct wp_template *tmpl = sandbox->tmpl->tmpl;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char request[WP_HTTP_PROBE_MAX];
    size_t len = 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    memcpy(address.sun_path, sandbox->socket_path,
           strlen(sandbox->socket_path));
    if (tmpl->probe == WP_READY_HTTP) {
        len = wp_http_probe_request(tmpl->probe_path, request, sizeof request);
    }
    if (fd < 0 ||
        connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        (len > 0 && send(fd, request, len, MSG_NOSIGNAL) != (ssize_t)len)) {
        if (fd >= 0) {
            (void)close(fd);
        }
        bridge_retry(sandbox);
        return;
    }
    sandbox->bridge_fd = fd;
    sandbox->reply_len = 0;
    if (len == 0) {
        /* The socket takes connections and init has had one on the port. */
        become_ready(sandbox);
        return;
    }
    wp_sandbox_watch(sandbox, &sandbox->bridge_event, fd, EV_READ | EV_PERSIST,
                     wp_sandbox_on_bridge);
}

void
wp_sandbox_on_bridge_timer(int fd, short what, void *arg)
{
    struct wp_sandbox *sandbox = arg;

    (void)fd;
    (void)what;
    if (sandbox->state == WP_SANDBOX_STARTING && !sandbox->lost) {
        wp_sandbox_bridge_check(sandbox);
    }
}
