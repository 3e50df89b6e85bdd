#include "local/init/init_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "local/init/egress.h"
#include "local/walls/landlock.h"

enum {
    FILES_SOFT = 1024,
    FILES_HARD = 65536,
};

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
is_command(const struct wp_init *init, const struct wp_program *program)
{
    return program == &init->command;
}

/* Init containers write where the command may not. */
static int
confine(const struct wp_init *init, const struct wp_program *program)
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

WP_NORETURN void
wp_init_run_program(const struct wp_init *init,
                    const struct wp_program *program, int output, int report)
{
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

/* The file of a process that may not be dumped is the superuser's, and so is a
 * child's, up to its exec: it is written from here. */
static void
let_go_first(pid_t pid)
{
    static const char score[] = "500";
    char path[64];
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%d/oom_score_adj", (int)pid);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t n = write(fd, score, sizeof score - 1);

        (void)n;
        (void)close(fd);
    }
}

int
wp_init_await_program(pid_t pid, int report)
{
    int error = 0;

    /* Empty as soon as exec succeeded. */
    if (read(report, &error, sizeof error) != (ssize_t)sizeof error) {
        error = 0;
        let_go_first(pid);
    }
    (void)close(report);
    return error;
}

void
wp_init_start_program(struct wp_init *init, const struct wp_program *program)
{
    struct epoll_event event = {.events = EPOLLIN,
                                .data.ptr = &init->output_watch};
    int output[2];
    int report[2];
    int error;

    if (pipe2(output, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0) {
        wp_init_fail(init, "pipe");
    }
    init->child = fork();
    if (init->child < 0) {
        wp_init_fail(init, "fork");
    }
    if (init->child == 0) {
        wp_init_run_program(init, program, output[1], report[1]);
    }
    (void)close(output[1]);
    (void)close(report[1]);
    error = wp_init_await_program(init->child, report[0]);
    if (error != 0) {
        char what[WP_CONTROL_MAX - 64];

        (void)snprintf(what, sizeof what, "cannot start %s%s'%s'",
                       is_command(init, program) ? "" : program->name,
                       is_command(init, program) ? "" : ": ", program->argv[0]);
        errno = error;
        wp_init_fail(init, what);
    }
    (void)fcntl(output[0], F_SETFL, O_NONBLOCK);
    init->output_fd = output[0];
    if (epoll_ctl(init->epoll_fd, EPOLL_CTL_ADD, output[0], &event) != 0) {
        wp_init_fail(init, "epoll");
    }
}
