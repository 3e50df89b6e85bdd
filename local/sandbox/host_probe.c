#include "local/sandbox/host_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/sandbox/gvisor.h"
#include "local/walls/landlock.h"
#include "local/sandbox/spawn.h"
#include "pool/base/clock.h"
#include "pool/base/str.h"

enum {
    RUN_TIMEOUT_MS = 10000,
    OUTPUT_MAX = 512,
};

void
wp_host_note(struct wp_host_report *report, const char *fmt, ...)
{
    va_list ap;

    if (report->notes_len < WP_HOST_NOTES_MAX) {
        va_start(ap, fmt);
        (void)vsnprintf(report->notes[report->notes_len++], WP_HOST_NOTE_LEN,
                        fmt, ap);
        va_end(ap);
    }
}

static bool
is_program(const char *path)
{
    return access(path, X_OK) == 0;
}

/* The absolute path of `name`: itself when it has a slash, else from PATH. */
static bool
program_find(const char *name, char *out, size_t cap)
{
    const char *path = getenv("PATH");

    if (strchr(name, '/') != NULL) {
        return is_program(name) && wp_str_copy(wp_str_from(name), out, cap);
    }
    if (path == NULL) {
        path = "/usr/local/bin:/usr/bin:/bin";
    }
    while (*path != '\0') {
        size_t len = strcspn(path, ":");

        if (len > 0 &&
            snprintf(out, cap, "%.*s/%s", (int)len, path, name) < (int)cap &&
            is_program(out)) {
            return true;
        }
        path += len;
        path += *path == ':' ? 1 : 0;
    }
    return false;
}

/* Runs argv with its output to text; the exit status, or -1. */
static int
run_program(struct wp_spawn *spawn, char *text, size_t cap)
{
    struct wp_spawned spawned;
    struct wp_err err;
    struct pollfd pfd = {.events = POLLIN};
    siginfo_t info = {.si_code = 0};
    size_t used = 0;
    int pipes[2];
    int64_t until_ns = wp_clock_mono_ns(wp_clock_system()) +
                       (int64_t)RUN_TIMEOUT_MS * WP_NS_PER_MS;

    if (pipe2(pipes, O_CLOEXEC) != 0) {
        (void)snprintf(text, cap, "no descriptors are left");
        return -1;
    }
    pipes[1] = wp_spawn_fd(pipes[1]);
    spawn->fds[0] = wp_spawn_fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    spawn->fds[1] = pipes[1];
    spawn->fds[2] = fcntl(pipes[1], F_DUPFD_CLOEXEC, WP_SPAWN_FD_FLOOR);
    spawn->fds_len = 3;
    if (wp_spawn(spawn, &spawned, &err) != WP_OK) {
        (void)snprintf(text, cap, "%s", err.msg);
    }
    for (int i = 0; i < 3; i++) {
        if (spawn->fds[i] >= 0) {
            (void)close(spawn->fds[i]);
        }
    }
    pfd.fd = pipes[0];
    while (spawned.pid > 0) {
        int64_t left_ms =
            (until_ns - wp_clock_mono_ns(wp_clock_system())) / WP_NS_PER_MS;
        ssize_t n = 0;

        if (left_ms > 0 && poll(&pfd, 1, (int)left_ms) > 0) {
            n = read(pipes[0], text + used, cap - 1 - used);
        }
        if (n <= 0) {
            break;
        }
        used += (size_t)n;
        if (used + 1 == cap) {
            break;
        }
    }
    (void)close(pipes[0]);
    if (spawned.pid < 0) {
        return -1;
    }
    text[used] = '\0';
    pfd.fd = spawned.pidfd;
    if (poll(&pfd, 1, RUN_TIMEOUT_MS) <= 0) {
        (void)kill(spawned.pid, SIGKILL);
    }
    (void)waitid(P_PID, (id_t)spawned.pid, &info, WEXITED);
    (void)close(spawned.pidfd);
    return info.si_code == CLD_EXITED ? info.si_status : -1;
}

/* Who ignores SIGCHLD hears nothing of the end of its children, and that is
 * inherited from whoever started the daemon. */
static void
hear_of_children(void)
{
    const struct sigaction act = {.sa_handler = SIG_DFL};
    struct sigaction now;

    if (sigaction(SIGCHLD, NULL, &now) == 0 &&
        (now.sa_handler == SIG_IGN || (now.sa_flags & SA_NOCLDWAIT) != 0)) {
        (void)sigaction(SIGCHLD, &act, NULL);
    }
}

static bool
have_seccomp(void)
{
    const unsigned action = SECCOMP_RET_ERRNO;

    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

static void
note_limits(const struct wp_cgroups *groups, struct wp_host_report *report)
{
    report->limit_memory = (groups->controllers & WP_CGROUP_MEMORY) != 0;
    report->limit_cpu = (groups->controllers & WP_CGROUP_CPU) != 0;
    report->limit_pids = (groups->controllers & WP_CGROUP_PIDS) != 0;
    if (groups->kind == WP_CGROUP_NONE) {
        wp_host_note(report,
                     "no control group can be made here: %s. Memory and CPU"
                     " limits are not enforced; process counts are, by"
                     " RLIMIT_NPROC",
                     groups->reason);
        return;
    }
    if (!report->limit_memory) {
        wp_host_note(report, "control groups without the memory controller:"
                             " memory limits are not enforced");
    }
    if (!report->limit_cpu) {
        wp_host_note(report, "control groups without the cpu controller: CPU"
                             " limits are not enforced");
    }
    if (!report->limit_pids) {
        wp_host_note(report,
                     "control groups without the pids controller: process"
                     " counts are limited by RLIMIT_NPROC only");
    }
}

static void
note_kernel(struct wp_host_report *report)
{
    report->landlock_abi = wp_landlock_abi();
    report->seccomp = have_seccomp();
    report->own_uids = geteuid() == 0;
    if (report->landlock_abi == 0) {
        wp_host_note(report, "the kernel has no Landlock: files are confined by"
                             " the mount namespace alone");
    } else if (report->landlock_abi < 6) {
        wp_host_note(report,
                     "Landlock version %d has no signal scopes: a sandboxed"
                     " program can send signals to its own init",
                     report->landlock_abi);
    }
    if (!report->seccomp) {
        wp_host_note(report, "the kernel has no seccomp filters: system calls"
                             " are not filtered");
    }
    if (!report->own_uids) {
        wp_host_note(report,
                     "the daemon is not root: all sandboxes run as host user"
                     " %u, kept apart by their namespaces only",
                     (unsigned)geteuid());
        if (getgroups(0, NULL) > 1) {
            wp_host_note(report,
                         "the daemon's extra groups stay with its sandboxes:"
                         " files of /usr that only those groups may read are"
                         " readable inside");
        }
    }
}

enum wp_status
wp_host_look(const struct wp_local_config *config,
             const struct wp_cgroups *groups, struct wp_host_report *report,
             struct wp_err *err)
{
    const char *name =
        config->bwrap_path != NULL ? config->bwrap_path : "bwrap";
    char *argv[] = {"bwrap", "--version", NULL};
    char *env[] = {NULL};
    struct wp_spawn spawn = {.argv = argv, .envp = env};
    int status;

    hear_of_children();
    *report = (struct wp_host_report){.limit_memory = false};
    note_limits(groups, report);
    note_kernel(report);
    report->runsc =
        program_find(config->runsc_path != NULL ? config->runsc_path : "runsc",
                     report->runsc_path, sizeof report->runsc_path);
    if (!program_find(name, report->bwrap_path, sizeof report->bwrap_path)) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "bubblewrap is missing: %s is not a program; install"
                          " the package 'bubblewrap'",
                          name);
    }
    spawn.path = report->bwrap_path;
    status = run_program(&spawn, report->bwrap_version,
                         sizeof report->bwrap_version);
    report->bwrap_version[strcspn(report->bwrap_version, "\n")] = '\0';
    if (status != 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION, "%s does not run: %s",
                          report->bwrap_path,
                          report->bwrap_version[0] != '\0'
                              ? report->bwrap_version
                              : "it ended without a word");
    }
    return WP_OK;
}

enum wp_status
wp_host_try(const struct wp_local_config *config,
            const struct wp_host_report *report, struct wp_err *err)
{
    /* The smallest sandbox with all that real ones need of the kernel. */
    char *argv[] = {"bwrap",   "--unshare-all", "--uid", "1000",      "--gid",
                    "1000",    "--cap-drop",    "ALL",   "--ro-bind", "/",
                    "/",       "--proc",        "/proc", "--dev",     "/dev",
                    "--tmpfs", "/tmp",          "--",    "/bin/true", NULL};
    char *env[] = {NULL};
    char text[OUTPUT_MAX];
    struct wp_spawn spawn = {
        .path = report->bwrap_path,
        .argv = argv,
        .envp = env,
        .drop = report->own_uids,
        .uid = config->uid_first,
        .gid = config->uid_first,
    };
    int status = run_program(&spawn, text, sizeof text);

    if (status == 0) {
        return WP_OK;
    }
    text[strcspn(text, "\n")] = '\0';
    if (strstr(text, "amespace") != NULL || strstr(text, "uid map") != NULL) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "user namespaces are forbidden on this machine; see"
                          " sysctls kernel.unprivileged_userns_clone,"
                          " user.max_user_namespaces and"
                          " kernel.apparmor_restrict_unprivileged_userns (%s)",
                          text);
    }
    return wp_err_set(err, WP_FAILED_PRECONDITION,
                      "a trial sandbox did not run: %s",
                      text[0] != '\0' ? text : "bwrap failed without a word");
}

enum wp_status
wp_host_try_gvisor(const struct wp_local_config *config,
                   const struct wp_host_report *report, struct wp_err *err)
{
    static char word[] = "warmpool-trial";
    char runsc[sizeof report->runsc_path];
    char *argv[] = {"bwrap",
                    WP_GVISOR_BWRAP,
                    "--ro-bind",
                    "/",
                    "/",
                    "--proc",
                    "/proc",
                    "--dev",
                    "/dev",
                    "--tmpfs",
                    "/tmp",
                    "--tmpfs",
                    "/run",
                    "--ro-bind",
                    runsc,
                    "/run/program",
                    "--",
                    "/run/program",
                    WP_GVISOR_RUNSC,
                    "do",
                    "/bin/echo",
                    word,
                    NULL};
    char *env[] = {NULL};
    char text[OUTPUT_MAX];
    struct wp_spawn spawn = {
        .path = report->bwrap_path,
        .argv = argv,
        .envp = env,
        .drop = report->own_uids,
        .uid = config->uid_first,
        .gid = config->uid_first,
    };
    int status;

    memcpy(runsc, report->runsc_path, sizeof runsc);
    status = run_program(&spawn, text, sizeof text);
    /* The word, since a program that is not runsc may end well. */
    if (status == 0 && strstr(text, word) != NULL) {
        return WP_OK;
    }
    text[strcspn(text, "\n")] = '\0';
    return wp_err_set(err, WP_FAILED_PRECONDITION,
                      "a trial sandbox of %s did not run: %s", runsc,
                      text[0] != '\0' ? text : "it ended without a word");
}
