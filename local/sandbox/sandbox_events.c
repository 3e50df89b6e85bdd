/* local/sandbox/sandbox_events.c - what is heard from a sandbox: its init's
 * words, and the end of its processes. Loop thread. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/control.h"
#include "proto/sockets/passing.h"
#include "local/sandbox/sandbox_impl.h"

/* The inner process's number as we see it; 0 when the message has none. */
static pid_t
sender_of(struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL;
         c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
            struct ucred cred;

            memcpy(&cred, CMSG_DATA(c), sizeof cred);
            return cred.pid;
        }
    }
    return 0;
}

/* Words that wait in the channel explain an end better than the bare end. Not
 * from within itself, which `reading` sees to.
 * NOLINTBEGIN(misc-no-recursion) */
static void
read_waiting(struct wp_sandbox *sandbox)
{
    if (sandbox->reading) {
        return;
    }
    sandbox->reading = true;
    for (int i = 0; i < 8 && sandbox->control_fd >= 0 && !sandbox->lost &&
                    sandbox->state < WP_SANDBOX_DYING;
         i++) {
        wp_sandbox_on_control(sandbox->control_fd, EV_READ, sandbox);
    }
    sandbox->reading = false;
}

void
wp_sandbox_on_inner_exit(int fd, short what, void *arg)
{
    struct wp_sandbox *sandbox = arg;

    (void)fd;
    (void)what;
    wp_sandbox_unwatch(&sandbox->inner_event, &sandbox->inner_fd);
    read_waiting(sandbox);
    wp_sandbox_lost(sandbox, "the sandbox was killed");
    wp_sandbox_step_dying(sandbox);
}

static void
on_hello(struct wp_sandbox *sandbox, pid_t pid)
{
    struct wp_err err;
    struct pollfd channel = {.fd = sandbox->control_fd, .events = POLLRDHUP};

    if (pid <= 0 || sandbox->inner_fd >= 0) {
        return;
    }
    sandbox->inner_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    /* Its end of the channel is still open, so it lives, so the number was not
     * used again before we opened it. */
    if (sandbox->inner_fd < 0 || poll(&channel, 1, 0) != 0) {
        if (sandbox->inner_fd >= 0) {
            (void)close(sandbox->inner_fd);
            sandbox->inner_fd = -1;
        }
        /* Whoever is reading already goes on, and knows the end if no word
         * tells it. */
        if (!sandbox->reading) {
            read_waiting(sandbox);
            wp_sandbox_lost(sandbox, "the sandbox ended while it was set up");
        }
        return;
    }
    sandbox->inner_pid = pid;
    wp_sandbox_watch(sandbox, &sandbox->inner_event, sandbox->inner_fd, EV_READ,
                     wp_sandbox_on_inner_exit);
    if (sandbox->kill_due) {
        wp_sandbox_kill(sandbox);
        return;
    }
    sandbox->inner_start = wp_process_start_time(pid);
    if (wp_sandbox_record(sandbox, false, &err) != WP_OK) {
        /* Unrecorded, a sandbox could be left behind by a killed daemon. */
        wp_sandbox_lost(sandbox, err.msg);
    }
}

void
wp_sandbox_silent(struct wp_sandbox *sandbox, const char *how)
{
    char reason[WP_REASON_MAX + 1];

    sandbox->asked = false;
    if (++sandbox->failures >= sandbox->local->config.probe_failures) {
        (void)snprintf(reason, sizeof reason, "%s, %u times in a row", how,
                       sandbox->failures);
        wp_sandbox_lost(sandbox, reason);
    } else {
        wp_sandbox_next_probe(sandbox);
    }
}

/* Lately: an old kill of some child is not why the program ends now. */
static bool
ran_out_of_memory(const struct wp_sandbox *sandbox)
{
    return wp_cgroup_oom_kills(sandbox->groups, sandbox->name) >
           sandbox->oom_kills;
}

static bool
listens(int fd)
{
    int yes = 0;
    socklen_t len = sizeof yes;

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &yes, &len) == 0 &&
           yes != 0;
}

/* Takes fd: where the sandbox's egress proxy is to accept. The first counts. */
static void
on_egress(struct wp_sandbox *sandbox, int fd)
{
    if (fd < 0 || sandbox->egress[0] == '\0' ||
        sandbox->egress_member != NULL || sandbox->lost ||
        sandbox->state >= WP_SANDBOX_DYING || !listens(fd)) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    sandbox->egress_member =
        wp_egress_proxy_join(sandbox->local->egress, sandbox, sandbox->name,
                             sandbox->egress, sandbox->narrowed, fd);
    if (sandbox->egress_member == NULL) {
        wp_sandbox_lost(sandbox, "no memory for its egress");
    }
}

/* Takes fd, which came along, or is -1. */
static void
on_message(struct wp_sandbox *sandbox, char *text, size_t len,
           struct msghdr *msg, int fd)
{
    if (text[0] == WP_CONTROL_EGRESS) {
        on_egress(sandbox, fd);
        return;
    }
    text[len] = '\0';
    if (text[0] == WP_CONTROL_IDLE) {
        wp_sandbox_on_idle(sandbox, text + 1, fd);
        return;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    switch (text[0]) {
    case WP_CONTROL_HELLO:
        on_hello(sandbox, sender_of(msg));
        break;
    case WP_CONTROL_OPEN:
        if (sandbox->state == WP_SANDBOX_STARTING && !sandbox->opened &&
            !sandbox->lost) {
            sandbox->opened = true;
            wp_sandbox_bridge_check(sandbox);
        }
        break;
    case WP_CONTROL_ANSWERS:
        if (sandbox->asked && sandbox->state == WP_SANDBOX_READY &&
            !sandbox->lost) {
            sandbox->asked = false;
            sandbox->failures = 0;
            sandbox->oom_kills =
                wp_cgroup_oom_kills(sandbox->groups, sandbox->name);
            wp_sandbox_next_probe(sandbox);
        }
        break;
    case WP_CONTROL_SILENT:
        if (sandbox->asked && sandbox->state == WP_SANDBOX_READY &&
            !sandbox->lost) {
            wp_sandbox_silent(sandbox, "its port does not answer");
        }
        break;
    case WP_CONTROL_EXIT:
        if (ran_out_of_memory(sandbox)) {
            char oom[WP_CONTROL_MAX + 32];

            (void)snprintf(oom, sizeof oom, "out of memory: %s", text + 1);
            wp_sandbox_lost(sandbox, oom);
            break;
        }
        wp_sandbox_lost(sandbox, text + 1);
        break;
    case WP_CONTROL_FAIL:
        wp_sandbox_lost(sandbox, text + 1);
        break;
    case WP_CONTROL_BOUND:
        wp_sandbox_end_binds(sandbox, WP_OK, "");
        break;
    case WP_CONTROL_UNBOUND:
        wp_sandbox_end_binds(sandbox, WP_FAILED_PRECONDITION, text + 1);
        wp_sandbox_lost(sandbox, text + 1);
        break;
    default:
        break;
    }
}

void
wp_sandbox_on_control(int fd, short what, void *arg)
{
    struct wp_sandbox *sandbox = arg;
    char text[WP_CONTROL_MAX + 1];
    char ancillary[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int))]
        __attribute__((aligned(8)));
    struct iovec iov = {text, WP_CONTROL_MAX};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = ancillary,
        .msg_controllen = sizeof ancillary,
    };
    ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    int passed;

    (void)what;
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    passed = n >= 0 ? wp_passing_take(&msg) : -1;
    if (n > 0) {
        on_message(sandbox, text, (size_t)n, &msg, passed);
        return;
    }
    if (passed >= 0) {
        (void)close(passed);
    }
    (void)event_del(&sandbox->control_event);
    if (sandbox->inner_fd >= 0) {
        wp_sandbox_lost(sandbox, ran_out_of_memory(sandbox)
                                     ? "out of memory: the sandbox was killed"
                                     : "the sandbox was killed");
    }
    /* Before its hello, bwrap's own end tells more. */
}
/* NOLINTEND(misc-no-recursion) */

void
wp_sandbox_on_stderr(int fd, short what, void *arg)
{
    struct wp_sandbox *sandbox = arg;
    char scrap[256];
    size_t room = sizeof sandbox->stderr_text - 1 - sandbox->stderr_len;
    char *to = room > 0 ? sandbox->stderr_text + sandbox->stderr_len : scrap;
    ssize_t n = read(fd, to, room > 0 ? room : sizeof scrap);

    (void)what;
    if (n > 0) {
        sandbox->stderr_len += room > 0 ? (uint32_t)n : 0;
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        wp_sandbox_unwatch(&sandbox->stderr_event, &sandbox->stderr_fd);
    }
}

void
wp_sandbox_on_outer_exit(int fd, short what, void *arg)
{
    struct wp_sandbox *sandbox = arg;
    siginfo_t info = {.si_code = 0};
    char reason[WP_LOCAL_STDERR_MAX + 64];

    (void)what;
    /* Of another's child one learns that it ended, not how. */
    if (!sandbox->adopted &&
        (waitid(P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG) != 0 ||
         info.si_pid == 0)) {
        return;
    }
    wp_sandbox_unwatch(&sandbox->outer_event, &sandbox->outer_fd);
    while (sandbox->stderr_fd >= 0) {
        uint32_t before = sandbox->stderr_len;

        wp_sandbox_on_stderr(sandbox->stderr_fd, EV_READ, sandbox);
        if (sandbox->stderr_len == before) {
            break;
        }
    }
    read_waiting(sandbox);
    sandbox->stderr_text[strcspn(sandbox->stderr_text, "\n")] = '\0';
    if (sandbox->stderr_text[0] != '\0') {
        (void)snprintf(reason, sizeof reason, "%s", sandbox->stderr_text);
    } else if (sandbox->adopted) {
        (void)snprintf(reason, sizeof reason, "bwrap ended");
    } else if (info.si_code == CLD_EXITED) {
        (void)snprintf(reason, sizeof reason, "bwrap exited with status %d",
                       info.si_status);
    } else {
        (void)snprintf(reason, sizeof reason, "bwrap was killed by signal %d",
                       info.si_status);
    }
    wp_sandbox_lost(sandbox, reason);
    if (sandbox->state == WP_SANDBOX_DYING) {
        wp_sandbox_kill(sandbox);
    }
    wp_sandbox_step_dying(sandbox);
}
