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
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "local/bind_parcel.h"
#include "local/init/bind.h"
#include "local/init/bridge.h"
#include "local/init/egress.h"
#include "local/control.h"
#include "local/init/inner_probe.h"
#include "local/init/options.h"
#include "local/init/programs.h"
#include "proto/sockets/descriptors.h"
#include "local/walls/landlock.h"
#include "pool/base/compiler.h"

enum {
    TAIL_BYTES = 160, /* Of the program's output, kept for its obituary. */
    WORDS_BYTES = 64,
    RUNSC_FAILED = 128, /* Its status when it could not run the program. */
    RETRY_FIRST_US = 1000,
    RETRY_LAST_US = 16000,
    RETRY_LAST_EXEC_US = 250000, /* To start a program costs more. */
    PROBE_TIMEOUT_US = 1000000,
    FILES_SOFT = 1024,
    FILES_HARD = 65536,
    FILES_OWN = 64, /* Descriptors for all but the bridge's connections. */
    FINGERPRINT_MAX = 17,
};

struct init {
    struct wp_init_options options;
    int control_fd; /* -1: no daemon is there. */
    int rejoin_fd;  /* Where the next one connects; -1: none will. */
    int egress_fd;  /* Listens for the egress proxy; -1: there is none. */
    int epoll_fd;
    int signal_fd;
    int output_fd;
    bool outlive; /* The daemon said KEEP. */
    bool opened;  /* OPEN was sent. */
    bool asked;   /* The daemon waits for a probe's outcome. */
    int64_t retry_us;
    int64_t wake_us; /* When on_timer is due; INT64_MAX: never. */
    struct wp_programs programs;
    size_t inits_done;
    struct wp_program command;
    pid_t child;       /* The init container that runs, or the command. */
    pid_t probe_child; /* The probe's program; 0: it does not run. */
    char bound[FINGERPRINT_MAX]; /* "": nothing is bound. */
    struct wp_program brought;   /* The command that a claim brings. */
    struct wp_watch control_watch;
    struct wp_watch rejoin_watch;
    struct wp_watch signal_watch;
    struct wp_watch output_watch;
    struct wp_inner_probe probe;
    struct wp_bridge bridge;
    char tail[TAIL_BYTES];
    size_t tail_len;
};

static int64_t
now_us(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void
tell(const struct init *init, char what, const char *text)
{
    char msg[WP_CONTROL_MAX];
    int n = snprintf(msg, sizeof msg, "%c%s", what, text);

    if (n > 0) {
        size_t len = (size_t)n < sizeof msg ? (size_t)n : sizeof msg - 1;

        (void)send(init->control_fd, msg, len, MSG_NOSIGNAL);
    }
}

WP_NORETURN static void
fail(const struct init *init, const char *what)
{
    char text[WP_CONTROL_MAX];

    (void)snprintf(text, sizeof text, "%s: %s", what, strerror(errno));
    tell(init, WP_CONTROL_FAIL, text);
    _exit(1);
}

static void
tell_egress(const struct init *init)
{
    if (init->egress_fd >= 0) {
        wp_init_egress_tell(init->control_fd, init->egress_fd);
    }
}

/* --- The program --- */

static void
limit(int resource, rlim_t soft, rlim_t hard)
{
    struct rlimit old;

    if (getrlimit((__rlimit_resource_t)resource, &old) == 0) {
        struct rlimit new = {
            .rlim_cur = soft < old.rlim_max ? soft : old.rlim_max,
            .rlim_max = hard < old.rlim_max ? hard : old.rlim_max,
        };

        (void)setrlimit((__rlimit_resource_t)resource, &new);
    }
}

static bool
is_command(const struct init *init, const struct wp_program *program)
{
    return program == &init->command;
}

/* Init containers write where the command may not. */
static int
confine(const struct init *init, const struct wp_program *program)
{
    const char *writable[2 * WP_INIT_WRITABLE_MAX];
    size_t len = init->options.writable_len;

    memcpy(writable, init->options.writable, len * sizeof *writable);
    if (!is_command(init, program) && program != &init->programs.probe &&
        program != &init->brought) {
        memcpy(writable + len, init->options.prepared,
               init->options.prepared_len * sizeof *writable);
        len += init->options.prepared_len;
    }
    return wp_landlock_confine(writable, len);
}

/* In the child, up to exec: only what is safe after fork. */
WP_NORETURN static void
run_program(const struct init *init, const struct wp_program *program,
            int output, int report)
{
    static const char score[] = "500";
    sigset_t none;
    int null = open("/dev/null", O_RDONLY);
    int fd;

    (void)setsid();
    limit(RLIMIT_CORE, 0, 0);
    limit(RLIMIT_NOFILE, FILES_SOFT, FILES_HARD);
    if (!init->options.confines_itself) {
        /* Counted inside this user namespace only, so it backs the cgroup's
         * limit up where there is none. */
        limit(RLIMIT_NPROC, init->options.procs_max, init->options.procs_max);
    }
    /* Out of memory: the program goes before its init, who tells of it. */
    fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = write(fd, score, sizeof score - 1);

        (void)n;
        (void)close(fd);
    }
    if (null < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 ||
        dup2(output, 2) < 0) {
        goto broken;
    }
    (void)close(null);
    if (!init->options.confines_itself && confine(init, program) != 0) {
        goto broken;
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    if (program->dir[0] != '\0' && chdir(program->dir) != 0) {
        goto broken;
    }
    if (program->env != NULL) {
        environ = program->env;
    }
    if (init->egress_fd >= 0 && !wp_init_egress_env()) {
        goto broken;
    }
    (void)execvp(program->argv[0], program->argv);
broken:
    fd = errno;
    {
        ssize_t n = write(report, &fd, sizeof fd);

        (void)n;
    }
    _exit(127);
}

static void
start_program(struct init *init, const struct wp_program *program)
{
    struct epoll_event event = {.events = EPOLLIN,
                                .data.ptr = &init->output_watch};
    int output[2];
    int report[2];
    int error = 0;

    if (pipe2(output, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0) {
        fail(init, "pipe");
    }
    init->child = fork();
    if (init->child < 0) {
        fail(init, "fork");
    }
    if (init->child == 0) {
        run_program(init, program, output[1], report[1]);
    }
    (void)close(output[1]);
    (void)close(report[1]);
    /* Empty as soon as exec succeeded. */
    if (read(report[0], &error, sizeof error) == (ssize_t)sizeof error) {
        char what[WP_CONTROL_MAX - 64];

        (void)snprintf(what, sizeof what, "cannot start %s%s'%s'",
                       is_command(init, program) ? "" : program->name,
                       is_command(init, program) ? "" : ": ", program->argv[0]);
        errno = error;
        fail(init, what);
    }
    (void)close(report[0]);
    (void)fcntl(output[0], F_SETFL, O_NONBLOCK);
    init->output_fd = output[0];
    if (epoll_ctl(init->epoll_fd, EPOLL_CTL_ADD, output[0], &event) != 0) {
        fail(init, "epoll");
    }
}

/* The next init container; after the last one the command, which is probed from
 * then on. */
static void
start_next(struct init *init)
{
    if (init->inits_done < init->programs.inits_len) {
        start_program(init, &init->programs.inits[init->inits_done]);
        return;
    }
    start_program(init, &init->command);
    init->wake_us = now_us();
}

/* --- A probe that is a program --- */

static void
end_exec_probe(struct init *init)
{
    if (init->probe_child > 0) {
        (void)kill(-init->probe_child, SIGKILL); /* It has its own session. */
        init->probe_child = 0;
    }
}

static bool
is_probing(const struct init *init)
{
    return init->probe_child > 0 || wp_inner_probe_running(&init->probe);
}

/* A program first, where the template has one; then the port. */
static void
start_probe(struct init *init)
{
    const struct wp_program *program = &init->programs.probe;
    pid_t pid;
    int null;

    if (program->argv == NULL) {
        init->wake_us = now_us() + PROBE_TIMEOUT_US;
        wp_inner_probe_start(&init->probe);
        return;
    }
    init->wake_us = now_us() + (int64_t)program->timeout_s * 1000000;
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    pid = null >= 0 ? fork() : -1;
    if (pid == 0) {
        run_program(init, program, null, null);
    }
    if (null >= 0) {
        (void)close(null);
    }
    if (pid < 0) {
        init->probe.done(&init->probe, false);
        return;
    }
    init->probe_child = pid;
}

static void
exec_probe_ended(struct init *init, int status)
{
    init->probe_child = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        init->wake_us = now_us() + PROBE_TIMEOUT_US;
        wp_inner_probe_start(&init->probe);
    } else {
        init->probe.done(&init->probe, false);
    }
}

/* Keeps the last bytes of what the program prints, as one printable line. */
static void
keep_tail(struct init *init, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = bytes[i];

        if (init->tail_len == sizeof init->tail) {
            memmove(init->tail, init->tail + sizeof init->tail / 2,
                    sizeof init->tail / 2);
            init->tail_len = sizeof init->tail / 2;
        }
        if (c < ' ' || c > '~') {
            c = ' ';
        }
        if (c != ' ' ||
            (init->tail_len > 0 && init->tail[init->tail_len - 1] != ' ')) {
            init->tail[init->tail_len++] = c;
        }
    }
}

static void
drain_output(struct init *init, int rounds)
{
    char bytes[4096];

    while (rounds-- > 0) {
        ssize_t n = read(init->output_fd, bytes, sizeof bytes);

        if (n <= 0) {
            if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
                (void)epoll_ctl(init->epoll_fd, EPOLL_CTL_DEL, init->output_fd,
                                NULL);
            }
            return;
        }
        /* Only the end can matter. */
        if ((size_t)n > TAIL_BYTES) {
            keep_tail(init, bytes + n - TAIL_BYTES, TAIL_BYTES);
        } else {
            keep_tail(init, bytes, (size_t)n);
        }
    }
}

/* Where the last words begin. runsc tells what failed after a long row of what
 * it was doing, and a reason is short. */
static size_t
last_words(const struct init *init, int status)
{
    size_t at;

    if (!init->options.confines_itself || !WIFEXITED(status) ||
        WEXITSTATUS(status) != RUNSC_FAILED || init->tail_len <= WORDS_BYTES) {
        return 0;
    }
    at = init->tail_len - WORDS_BYTES;
    while (at < init->tail_len && init->tail[at - 1] != ' ') {
        at++;
    }
    return at < init->tail_len ? at : init->tail_len - WORDS_BYTES;
}

/* How it ended, with its last words. */
static void
print_end(struct init *init, int status, char text[WP_CONTROL_MAX])
{
    size_t n = strlen(text);

    if (WIFSIGNALED(status)) {
        n += (size_t)snprintf(text + n, WP_CONTROL_MAX - n, "killed by SIG%s",
                              sigabbrev_np(WTERMSIG(status)) != NULL
                                  ? sigabbrev_np(WTERMSIG(status))
                                  : "?");
    } else {
        n += (size_t)snprintf(text + n, WP_CONTROL_MAX - n,
                              "exited with status %d", WEXITSTATUS(status));
    }
    if (init->tail_len > 0 && init->tail[init->tail_len - 1] == ' ') {
        init->tail_len--;
    }
    if (init->tail_len > 0) {
        size_t at = last_words(init, status);

        (void)snprintf(text + n, WP_CONTROL_MAX - n, ": %.*s",
                       (int)(init->tail_len - at), init->tail + at);
    }
}

/* What it has left running goes as well, as a container's would. */
static void
init_container_ended(struct init *init, int status)
{
    const struct wp_program *program = &init->programs.inits[init->inits_done];
    char text[WP_CONTROL_MAX];

    if (getpid() == 1) {
        (void)kill(-1, SIGKILL);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        (void)snprintf(text, sizeof text, "init container '%s' ",
                       program->name);
        print_end(init, status, text);
        tell(init, WP_CONTROL_FAIL, text);
        _exit(1);
    }
    (void)close(init->output_fd); /* And so out of the set. */
    init->tail_len = 0;
    init->inits_done++;
    start_next(init);
}

static void
program_ended(struct init *init, int status)
{
    char text[WP_CONTROL_MAX] = "";

    drain_output(init, 16);
    if (init->inits_done < init->programs.inits_len) {
        init_container_ended(init, status);
        return;
    }
    print_end(init, status, text);
    tell(init, WP_CONTROL_EXIT, text);
    /* Process 1 leaving takes the whole sandbox with it. */
    _exit(0);
}

/* --- What a claim brings --- */

/* Starts it beside the program; its output is thrown away, and on_signal reaps
 * it. 0, or an errno. */
static int
start_brought(struct init *init, const struct wp_bind_command *command)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int report[2];
    int error = 0;
    pid_t pid;

    if (null < 0 || pipe2(report, O_CLOEXEC) != 0) {
        return errno; /* And init leaves. */
    }
    init->brought = (struct wp_program){
        .name = "", .dir = "", .argv = command->argv, .env = command->env};
    pid = fork();
    if (pid == 0) {
        if (command->dir_fd < 0 || fchdir(command->dir_fd) == 0) {
            run_program(init, &init->brought, null, report[1]);
        }
        _exit(127);
    }
    if (pid < 0) {
        error = errno;
    }
    (void)close(report[1]);
    (void)close(null);
    if (pid > 0 &&
        read(report[0], &error, sizeof error) != (ssize_t)sizeof error) {
        error = 0;
    }
    (void)close(report[0]);
    return error;
}

/* False: why says what is not bound. */
static bool
take_parcel(struct init *init, int fd, char why[WP_BIND_WHY_MAX])
{
    struct wp_bind_command command;
    void *parcel = MAP_FAILED;
    struct stat st;
    bool ok;

    if (fstat(fd, &st) == 0 && st.st_size > 0 && st.st_size <= WP_PARCEL_MAX) {
        parcel = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    if (parcel == MAP_FAILED) {
        (void)snprintf(why, WP_BIND_WHY_MAX, "what came cannot be read");
        return false;
    }
    ok = wp_bind_take(init->options.bound_dir, init->options.workspace, parcel,
                      (size_t)st.st_size, &command, why);
    if (ok && command.argv != NULL) {
        int error = start_brought(init, &command);

        ok = error == 0;
        if (!ok) {
            (void)snprintf(why, WP_BIND_WHY_MAX, "command '%.60s': %s",
                           command.argv[0], strerror(error));
        }
    }
    wp_bind_command_fini(&command);
    (void)munmap(parcel, (size_t)st.st_size);
    return ok;
}

static void
on_bind(struct init *init, const char *fingerprint, int fd)
{
    char why[WP_BIND_WHY_MAX];

    if (init->options.bound_dir == NULL) {
        tell(init, WP_CONTROL_UNBOUND, "its runtime class keeps its files");
    } else if (init->bound[0] != '\0') {
        bool same = strcmp(init->bound, fingerprint) == 0;

        tell(init, same ? WP_CONTROL_BOUND : WP_CONTROL_UNBOUND,
             same ? "" : "it has another binding");
    } else if (take_parcel(init, fd, why)) {
        (void)snprintf(init->bound, sizeof init->bound, "%.*s",
                       FINGERPRINT_MAX - 1, fingerprint);
        tell(init, WP_CONTROL_BOUND, "");
    } else {
        tell(init, WP_CONTROL_UNBOUND, why);
        /* Process 1 leaving takes what is half bound with it. */
        _exit(0);
    }
}

/* --- Events --- */

static void
on_signal(struct wp_watch *watch, uint32_t events)
{
    struct init *init = WP_CONTAINER_OF(watch, struct init, signal_watch);
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
            exec_probe_ended(init, status);
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
    drain_output(WP_CONTAINER_OF(watch, struct init, output_watch), 4);
}

/* A message, and the descriptor that came along, or -1. */
static ssize_t
receive(int fd, char *msg, size_t len, int *passed)
{
    char ancillary[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    struct iovec iov = {msg, len};
    struct msghdr header = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = ancillary,
        .msg_controllen = sizeof ancillary,
    };
    ssize_t n = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&header) : NULL;

    *passed = -1;
    if (c != NULL && c->cmsg_level == SOL_SOCKET &&
        c->cmsg_type == SCM_RIGHTS) {
        memcpy(passed, CMSG_DATA(c), sizeof *passed);
    }
    return n;
}

static void
on_control(struct wp_watch *watch, uint32_t events)
{
    struct init *init = WP_CONTAINER_OF(watch, struct init, control_watch);
    char msg[WP_CONTROL_MAX + 1];
    int passed = -1;
    ssize_t n;

    (void)events;
    if (init->control_fd < 0) {
        return; /* Closed by an earlier event of this batch. */
    }
    n = receive(init->control_fd, msg, WP_CONTROL_MAX, &passed);
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
        if (!is_probing(init)) {
            start_probe(init);
        }
    } else if (msg[0] == WP_CONTROL_BIND && passed >= 0) {
        msg[n] = '\0';
        on_bind(init, msg + 1, passed);
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
    struct init *init = WP_CONTAINER_OF(watch, struct init, rejoin_watch);
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
    tell_egress(init);
}

static void
on_probe_done(struct wp_inner_probe *probe, bool answered)
{
    struct init *init = WP_CONTAINER_OF(probe, struct init, probe);
    int64_t last_us =
        init->programs.probe.argv != NULL ? RETRY_LAST_EXEC_US : RETRY_LAST_US;

    init->wake_us = INT64_MAX;
    if (init->opened) {
        if (init->asked) {
            init->asked = false;
            tell(init, answered ? WP_CONTROL_ANSWERS : WP_CONTROL_SILENT, "");
        }
    } else if (answered) {
        init->opened = true;
        tell(init, WP_CONTROL_OPEN, "");
    } else {
        init->wake_us = now_us() + init->retry_us;
        init->retry_us = init->retry_us * 3 / 2;
        if (init->retry_us > last_us) {
            init->retry_us = last_us;
        }
    }
}

static void
on_timer(struct init *init)
{
    init->wake_us = INT64_MAX;
    if (init->probe_child > 0) {
        end_exec_probe(init);
        init->probe.done(&init->probe, false);
    } else if (wp_inner_probe_running(&init->probe)) {
        wp_inner_probe_give_up(&init->probe);
    } else if (!init->opened) {
        start_probe(init);
    }
}

/* --- Start --- */

static void
watch_fd(struct init *init, int fd, struct wp_watch *watch)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};

    if (epoll_ctl(init->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        fail(init, "epoll");
    }
}

/* Kernels before 5.11 count in milliseconds: then rounded up. */
static int
wait_events(const struct init *init, struct epoll_event *events, int max)
{
    struct timespec wait = {0, 0};
    int64_t left_us;
    int n;

    if (init->wake_us == INT64_MAX) {
        return epoll_wait(init->epoll_fd, events, max, -1);
    }
    left_us = init->wake_us - now_us();
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
run_loop(struct init *init)
{
    for (;;) {
        struct epoll_event events[32];
        int n = wait_events(init, events, (int)WP_ARRAY_LEN(events));

        for (int i = 0; i < n; i++) {
            struct wp_watch *watch = events[i].data.ptr;

            watch->on_events(watch, events[i].events);
        }
        if (init->wake_us <= now_us()) {
            on_timer(init);
        }
        wp_bridge_reap(&init->bridge);
    }
}

/* Nothing of init's may reach the program or be reached by it. */
static void
protect(struct init *init)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (prctl(PR_SET_DUMPABLE, 0) != 0) {
        fail(init, "prctl");
    }
    (void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 ||
        dup2(null, 2) < 0) {
        fail(init, "/dev/null");
    }
}

int
main(int argc, char **argv)
{
    static struct init init = {
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
    tell(&init, WP_CONTROL_HELLO, "");
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGCHLD);
    (void)sigaddset(&signals, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &signals, NULL);
    init.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    init.signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    if (init.epoll_fd < 0 || init.signal_fd < 0) {
        fail(&init, "epoll");
    }
    if (init.options.programs_fd >= 0) {
        if (!wp_programs_read(init.options.programs_fd, &init.programs)) {
            errno = EINVAL;
            fail(&init, "programs");
        }
        (void)close(init.options.programs_fd);
    }
    if (init.options.egress_port != 0) {
        init.egress_fd = wp_init_egress_listen(init.options.egress_port);
        if (init.egress_fd < 0) {
            fail(&init, "the socket of its egress proxy");
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
        fail(&init, "bridge");
    }
    wp_inner_probe_init(&init.probe, init.epoll_fd, init.options.port,
                        init.options.probe_path);
    init.probe.done = on_probe_done;
    start_next(&init);
    run_loop(&init);
}
