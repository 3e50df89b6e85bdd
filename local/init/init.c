/* local/init/init.c - warmpool-init, process 1 of every sandbox.
 *
 * Runs the template's init containers, one after the other, then starts its
 * command confined, bridges its port to the daemon's Unix socket, probes it,
 * reaps orphans and tells the daemon how it ended.
 * Statically linked, so that it runs in any root filesystem.
 *
 * The command runs as the same user, so init defends itself: it is not dumpable
 * (no ptrace, no /proc/1/mem), it is process 1 (the kernel drops signals it
 * does not handle, SIGKILL included), its descriptors are close-on-exec, and
 * Landlock's scopes keep signals out where the kernel has them. At worst a
 * hostile command fills its own bridge or port and makes its own sandbox count
 * as lost. */
#include "local/init/init_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "local/init/egress.h"
#include "proto/sockets/passing.h"
#include "pool/base/compiler.h"
#include "proto/sockets/descriptors.h"

enum {
    RETRY_FIRST_US = 1000,
    FILES_OWN = 64, /* Descriptors for all but the bridge's connections. */
};

static void
tell_egress(const struct wp_init *init)
{
    if (init->egress_fd >= 0) {
        wp_init_tell_fd(init, WP_CONTROL_EGRESS, "", init->egress_fd);
    }
}

/* The next init container; after the last one the command, which is probed from
 * then on. */
static void
start_next(struct wp_init *init)
{
    if (init->inits_done < init->programs.inits_len) {
        wp_init_start_program(init, &init->programs.inits[init->inits_done]);
        return;
    }
    wp_init_start_program(init, &init->command);
    init->wake_us = wp_init_now_us();
}

/* What it has left running goes as well, as a container's would. */
static void
init_container_ended(struct wp_init *init, int status)
{
    const struct wp_program *program = &init->programs.inits[init->inits_done];
    char text[WP_CONTROL_MAX];

    if (getpid() == 1) {
        (void)kill(-1, SIGKILL);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        (void)snprintf(text, sizeof text, "init container '%s' ",
                       program->name);
        wp_init_print_end(init, status, text);
        wp_init_tell(init, WP_CONTROL_FAIL, text);
        _exit(1);
    }
    (void)close(init->output_fd); /* And so out of the set. */
    init->tail_len = 0;
    init->inits_done++;
    start_next(init);
}

static void
program_ended(struct wp_init *init, int status)
{
    char text[WP_CONTROL_MAX] = "";

    wp_init_drain_output(init, 16);
    if (init->inits_done < init->programs.inits_len) {
        init_container_ended(init, status);
        return;
    }
    wp_init_print_end(init, status, text);
    wp_init_tell(init, WP_CONTROL_EXIT, text);
    /* Process 1 leaving takes the whole sandbox with it. */
    _exit(0);
}

/* --- Events --- */

static void
on_signal(struct wp_watch *watch, uint32_t events)
{
    struct wp_init *init = WP_CONTAINER_OF(watch, struct wp_init, signal_watch);
    struct signalfd_siginfo info;
    int status = 0;
    bool ended = false;
    int ended_status = 0;
    pid_t pid;

    (void)events;
    while (read(init->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGTERM) {
            (void)kill(init->child, SIGTERM);
        }
    }
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == init->child) {
            ended = true;
            ended_status = status;
        } else if (pid == init->probe_child) {
            wp_init_exec_probe_ended(init, status);
        }
    }
    if (ended) {
        program_ended(init, ended_status);
    }
}

static void
on_output(struct wp_watch *watch, uint32_t events)
{
    (void)events;
    wp_init_drain_output(WP_CONTAINER_OF(watch, struct wp_init, output_watch),
                         4);
}

static void
on_control(struct wp_watch *watch, uint32_t events)
{
    struct wp_init *init =
        WP_CONTAINER_OF(watch, struct wp_init, control_watch);
    char msg[WP_CONTROL_IDENTITY_MAX + 1];
    int passed = -1;
    ssize_t n;

    (void)events;
    if (init->control_fd < 0) {
        return; /* Closed by an earlier event of this batch. */
    }
    n = wp_passing_receive(init->control_fd, msg, WP_CONTROL_IDENTITY_MAX,
                           &passed);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        if (!init->outlive) {
            _exit(0);
        }
        (void)close(init->control_fd);
        init->control_fd = -1;
        return;
    }
    if (msg[0] == WP_CONTROL_KEEP) {
        init->outlive = true;
    } else if (msg[0] == WP_CONTROL_TERMINATE) {
        (void)kill(init->child, SIGTERM);
    } else if (msg[0] == WP_CONTROL_PROBE && !init->asked) {
        init->asked = true;
        if (!wp_init_is_probing(init)) {
            wp_init_start_probe(init);
        }
    } else if (msg[0] == WP_CONTROL_BIND && passed >= 0) {
        msg[n] = '\0';
        wp_init_bind(init, msg + 1, passed);
    } else if (msg[0] == WP_CONTROL_PARCEL && passed >= 0) {
        msg[n] = '\0';
        wp_init_take_parcel(init, msg + 1, passed);
    } else if (msg[0] == WP_CONTROL_TREE && passed >= 0) {
        msg[n] = '\0';
        wp_init_take_tree(init, msg + 1, passed);
    } else if (msg[0] == WP_CONTROL_IDENTITY) {
        wp_init_identify(init, msg + 1, (size_t)n - 1);
    } else if (msg[0] == WP_CONTROL_LOOK) {
        msg[n] = '\0';
        wp_init_look(init, msg + 1);
    } else if (msg[0] == WP_CONTROL_AWAKE) {
        wp_bridge_open(&init->bridge);
    }
    if (passed >= 0) {
        (void)close(passed);
    }
}

/* The latest is the daemon: only who may write to the sandbox's directory gets
 * here, and a lock lets only one daemon try. */
static void
on_rejoin(struct wp_watch *watch, uint32_t events)
{
    struct wp_init *init = WP_CONTAINER_OF(watch, struct wp_init, rejoin_watch);
    struct epoll_event event = {.events = EPOLLIN,
                                .data.ptr = &init->control_watch};
    int fd = accept4(init->rejoin_fd, NULL, NULL, SOCK_CLOEXEC);

    (void)events;
    if (fd < 0) {
        return;
    }
    if (epoll_ctl(init->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        (void)close(fd);
        return;
    }
    if (init->control_fd >= 0) {
        (void)close(init->control_fd);
    }
    init->control_fd = fd;
    /* The one before may have been about to freeze the sandbox. */
    wp_bridge_open(&init->bridge);
    tell_egress(init);
}

/* --- Start --- */

static void
watch_fd(struct wp_init *init, int fd, struct wp_watch *watch)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};

    if (epoll_ctl(init->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        wp_init_fail(init, "epoll");
    }
}

/* Kernels before 5.11 count in milliseconds: then rounded up. */
static int
wait_events(const struct wp_init *init, struct epoll_event *events, int max)
{
    struct timespec wait = {0, 0};
    int64_t left_us;
    int n;

    if (init->wake_us == INT64_MAX) {
        return epoll_wait(init->epoll_fd, events, max, -1);
    }
    left_us = init->wake_us - wp_init_now_us();
    if (left_us > 0) {
        wait.tv_sec = left_us / 1000000;
        wait.tv_nsec = left_us % 1000000 * 1000;
    }
    n = epoll_pwait2(init->epoll_fd, events, max, &wait, NULL);
    if (n < 0 && errno == ENOSYS) {
        n = epoll_wait(init->epoll_fd, events, max,
                       left_us > 0 ? (int)(left_us / 1000 + 1) : 0);
    }
    return n;
}

WP_NORETURN static void
run_loop(struct wp_init *init)
{
    for (;;) {
        struct epoll_event events[32];
        int n = wait_events(init, events, (int)WP_ARRAY_LEN(events));

        for (int i = 0; i < n; i++) {
            struct wp_watch *watch = events[i].data.ptr;

            watch->on_events(watch, events[i].events);
        }
        if (init->wake_us <= wp_init_now_us()) {
            wp_init_probe_due(init);
        }
        wp_bridge_reap(&init->bridge);
    }
}

/* Nothing of init's may reach the program or be reached by it. */
static void
protect(struct wp_init *init)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (prctl(PR_SET_DUMPABLE, 0) != 0) {
        wp_init_fail(init, "prctl");
    }
    (void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
        dup2(null, 2) < 0) {
        wp_init_fail(init, "/dev/null");
    }
}

int
main(int argc, char **argv)
{
    static struct wp_init init = {
        .egress_fd = -1,
        .retry_us = RETRY_FIRST_US,
        .wake_us = INT64_MAX,
        .signal_watch = {on_signal},
        .output_watch = {on_output},
        .control_watch = {on_control},
        .rejoin_watch = {on_rejoin},
    };
    sigset_t signals;

    init.command = (struct wp_program){.name = "", .dir = ""};
    init.command.argv = wp_init_options_parse(&init.options, argc, argv);
    init.control_fd = init.options.control_fd;
    init.rejoin_fd = init.options.rejoin_fd;

    protect(&init);
    wp_init_tell(&init, WP_CONTROL_HELLO, "");
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGCHLD);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    init.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    init.signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    if (init.epoll_fd < 0 || init.signal_fd < 0) {
        wp_init_fail(&init, "epoll");
    }
    if (init.options.programs_fd >= 0) {
        if (!wp_programs_read(init.options.programs_fd, &init.programs)) {
            errno = EINVAL;
            wp_init_fail(&init, "programs");
        }
        (void)close(init.options.programs_fd);
    }
    if (init.options.egress_port != 0) {
        init.egress_fd = wp_init_egress_listen(init.options.egress_port);
        if (init.egress_fd < 0) {
            wp_init_fail(&init, "the socket of its egress proxy");
        }
    }
    tell_egress(&init);
    watch_fd(&init, init.signal_fd, &init.signal_watch);
    watch_fd(&init, init.control_fd, &init.control_watch);
    if (init.rejoin_fd >= 0) {
        (void)fcntl(init.rejoin_fd, F_SETFL, O_NONBLOCK);
        watch_fd(&init, init.rejoin_fd, &init.rejoin_watch);
    }
    init.options.conns_max =
        wp_descriptors_fit(init.options.conns_max, 2, FILES_OWN);
    if (!wp_bridge_init(&init.bridge, init.epoll_fd, init.options.listen_fd,
                        init.options.port, init.options.conns_max)) {
        wp_init_fail(&init, "bridge");
    }
    wp_inner_probe_init(&init.probe, init.epoll_fd, init.options.port,
                        init.options.probe_path);
    init.probe.done = wp_init_probe_done;
    start_next(&init);
    run_loop(&init);
}
