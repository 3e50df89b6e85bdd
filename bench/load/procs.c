#include "bench/load/procs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "pool/base/str.h"

enum {
    STOP_MS = 5000
};

static void
exec_child(const char *const *argv, int out_fd)
{
    /* execv takes mutable strings for history's sake; it changes none. */
    union {
        const char *const *from;
        char *const *to;
    } args = {argv};

    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(out_fd, STDOUT_FILENO);
    execv(args.to[0], args.to);
    _exit(127);
}

/* Reads the child's lines until "ready"; the pipe is closed at the end. */
static bool
await_ready(struct wp_proc *proc, int fd)
{
    FILE *out = fdopen(fd, "r");
    char line[256];
    bool ready = false;

    if (out == NULL) {
        close(fd);
        return false;
    }
    while (!ready && fgets(line, sizeof(line), out) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "tcp ", 4) == 0 &&
            !wp_str_copy(wp_str_from(line + 4), proc->tcp_target,
                         sizeof(proc->tcp_target))) {
            break;
        }
        ready = strcmp(line, "ready") == 0;
    }
    (void)fclose(out);
    return ready;
}

enum wp_status
wp_proc_start(struct wp_proc *proc, const char *const *argv,
              const char *unix_path, struct wp_err *err)
{
    int fds[2];

    memset(proc, 0, sizeof(*proc));
    if (pipe2(fds, O_CLOEXEC) != 0) {
        return wp_err_sys(err, WP_INTERNAL, errno, "pipe");
    }
    proc->pid = fork();
    if (proc->pid == 0) {
        exec_child(argv, fds[1]);
    }
    close(fds[1]);
    if (proc->pid < 0) {
        proc->pid = 0;
        close(fds[0]);
        return wp_err_sys(err, WP_INTERNAL, errno, "fork");
    }
    (void)snprintf(proc->unix_target, sizeof(proc->unix_target), "unix:%s",
                   unix_path);
    if (!await_ready(proc, fds[0])) {
        wp_proc_stop(proc);
        return wp_err_set(err, WP_UNAVAILABLE, "%s ended before it was ready",
                          argv[0]);
    }
    return WP_OK;
}

bool
wp_proc_stop(struct wp_proc *proc)
{
    const struct timespec tick = {0, 10 * 1000 * 1000};
    int status = -1;

    if (proc->pid == 0) {
        return true;
    }
    kill(proc->pid, SIGTERM);
    for (int ms = 0; ms < STOP_MS; ms += 10) {
        if (waitpid(proc->pid, &status, WNOHANG) == proc->pid) {
            proc->pid = 0;
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
        nanosleep(&tick, NULL);
    }
    kill(proc->pid, SIGKILL);
    waitpid(proc->pid, &status, 0);
    proc->pid = 0;
    return false;
}

int
wp_proc_cores(void)
{
    return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

bool
wp_proc_pin(pid_t pid, int core)
{
    char path[64];
    cpu_set_t set;
    struct dirent *entry;
    DIR *dir;
    bool ok = true;

    CPU_ZERO(&set);
    for (int i = 0; i < wp_proc_cores(); i++) {
        if (core == WP_PROC_ANY_CORE || core == i) {
            CPU_SET((size_t)i, &set);
        }
    }
    (void)snprintf(path, sizeof(path), "/proc/%d/task",
                   (int)(pid == 0 ? getpid() : pid));
    dir = opendir(path);
    if (dir == NULL) {
        return false;
    }
    while ((entry = readdir(dir)) != NULL) {
        uint64_t tid;

        if (wp_str_to_u64(wp_str_from(entry->d_name), &tid)) {
            ok = sched_setaffinity((pid_t)tid, sizeof(set), &set) == 0 && ok;
        }
    }
    closedir(dir);
    return ok;
}

unsigned long long
wp_proc_rss_bytes(pid_t pid)
{
    char path[64];
    char line[256];
    unsigned long long kib = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kib = strtoull(line + 6, NULL, 10);
        }
    }
    (void)fclose(file);
    return kib * 1024;
}

static void
cpu_model(char *out, size_t cap)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];

    (void)snprintf(out, cap, "unknown processor");
    if (file == NULL) {
        return;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        const char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            line[strcspn(line, "\n")] = '\0';
            (void)snprintf(out, cap, "%s", colon + 2);
            break;
        }
    }
    (void)fclose(file);
}

void
wp_proc_machine(char *out, size_t cap)
{
    struct utsname uts;
    char model[128];
    double load[1] = {0};

    cpu_model(model, sizeof(model));
    uname(&uts);
    if (getloadavg(load, 1) != 1) {
        load[0] = -1;
    }
    (void)snprintf(out, cap, "%s, %d cores, Linux %s, load %.2f", model,
                   wp_proc_cores(), uts.release, load[0]);
}
