/* local/init/run.c alone, call by call: what a program is given before it runs,
 * and what its parent makes of it. Nothing is forked, run or limited; the
 * descriptors are numbers. The journals are in golden/. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/init/egress.h"
#include "local/init/init_impl.h"
#include "local/walls/landlock.h"
#include "tests/support/base/journal.h"

#define LINE(...) (journal(__VA_ARGS__), journal_line())

enum {
    NULL_FD = 5,
    SCORE = 6,
    OUT_READ = 10, /* The first pipe; and its other end. */
    REPORT_READ = 12,
    EPOLL = 20,
    EGRESS = 22,
    CHILD = 100,
};

static struct {
    bool on;
    pid_t fork; /* What it gives. */
    int report; /* What the child reports; 0: nothing. */
    ssize_t reported;
    rlim_t most; /* Of each limit. */
    int pipes;
    int null_fd;
    const char *fails;
    int nth;
    int error;
    jmp_buf out;
} rig;

int __wrap_pipe2(int fds[2], int flags);
pid_t __wrap_fork(void);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
pid_t __wrap_setsid(void);
int __wrap_getrlimit(__rlimit_resource_t what, struct rlimit *out);
int __wrap_setrlimit(__rlimit_resource_t what, const struct rlimit *in);
int __wrap_dup2(int from, int to);
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_chdir(const char *path);
int __wrap_execvp(const char *file, char *const argv[]);
ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __real_read(int fd, void *out, size_t cap);
ssize_t __wrap_read(int fd, void *out, size_t cap);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __real_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...);
WP_NORETURN void __real__exit(int status);
WP_NORETURN void __wrap__exit(int status);

static bool
fails(const char *call)
{
    bool now =
        rig.fails != NULL && strcmp(rig.fails, call) == 0 && --rig.nth == 0;

    errno = now ? rig.error : errno;
    return now;
}

int
__wrap_pipe2(int fds[2], int flags)
{
    LINE("pipe%s", flags == O_CLOEXEC ? "" : " ?");
    if (fails("pipe")) {
        return -1;
    }
    fds[0] = OUT_READ + 2 * rig.pipes++;
    fds[1] = fds[0] + 1;
    return 0;
}

pid_t
__wrap_fork(void)
{
    LINE("fork");
    return fails("fork") ? -1 : rig.fork;
}

int
__wrap_open(const char *path, int flags, ...)
{
    if (!rig.on) {
        va_list ap;
        int mode;

        va_start(ap, flags);
        mode = (flags & O_CREAT) != 0 ? va_arg(ap, int) : 0;
        va_end(ap);
        return __real_open(path, flags, mode);
    }
    if (strcmp(path, "/dev/null") == 0) {
        LINE("open %s%s", path, flags == O_RDONLY ? "" : " ?");
        return fails("null") ? -1 : rig.null_fd;
    }
    LINE("open %s%s", path, flags == (O_WRONLY | O_CLOEXEC) ? "" : " ?");
    return fails("score") ? -1 : rig.null_fd == 0 ? 0 : SCORE;
}

pid_t
__wrap_setsid(void)
{
    LINE("setsid");
    return 1;
}

int
__wrap_getrlimit(__rlimit_resource_t what, struct rlimit *out)
{
    (void)what;
    *out = (struct rlimit){.rlim_cur = 1, .rlim_max = rig.most};
    return fails("getrlimit") ? -1 : 0;
}

int
__wrap_setrlimit(__rlimit_resource_t what, const struct rlimit *in)
{
    LINE("limit %s %llu %llu",
         what == RLIMIT_CORE     ? "core"
         : what == RLIMIT_NOFILE ? "files"
         : what == RLIMIT_NPROC  ? "processes"
                                 : "?",
         (unsigned long long)in->rlim_cur, (unsigned long long)in->rlim_max);
    return 0;
}

int
__wrap_dup2(int from, int to)
{
    LINE("dup2 %d %d", from, to);
    return fails("dup2") ? -1 : to;
}

int
__wrap_close(int fd)
{
    if (!rig.on) {
        return __real_close(fd);
    }
    LINE("close %d", fd);
    return 0;
}

int
__wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t none;

    (void)sigemptyset(&none);
    LINE("signals%s", how == SIG_SETMASK && old == NULL &&
                              sigismember(set, SIGTERM) == 0 &&
                              sigismember(set, SIGCHLD) == 0
                          ? ""
                          : " ?");
    return 0;
}

int
__wrap_chdir(const char *path)
{
    LINE("chdir %s", path);
    return fails("chdir") ? -1 : 0;
}

int
__wrap_execvp(const char *file, char *const argv[])
{
    LINE("run %s with %s, A=%s", file, argv[1], getenv("A"));
    errno = ENOEXEC;
    return -1;
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t len)
{
    int error;

    if (!rig.on) {
        return __real_write(fd, bytes, len);
    }
    if (fd == SCORE || fd == 0) {
        LINE("write %d, %zu bytes '%.*s'", fd, len, (int)len,
             (const char *)bytes);
    } else {
        assert_int_equal(len, sizeof error);
        memcpy(&error, bytes, sizeof error);
        LINE("report %d: %s", fd, strerror(error));
    }
    return (ssize_t)len;
}

ssize_t
__wrap_read(int fd, void *out, size_t cap)
{
    if (!rig.on) {
        return __real_read(fd, out, cap);
    }
    LINE("read %d %zu: %zd", fd, cap, rig.reported);
    memcpy(out, &rig.report, sizeof rig.report);
    return rig.reported;
}

int
__wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
    LINE("watch %d%s", fd,
         epoll == EPOLL && what == EPOLL_CTL_ADD && event->events == EPOLLIN
             ? ""
             : " ?");
    return fails("watch") ? -1 : 0;
}

int
__wrap_fcntl(int fd, int what, ...)
{
    va_list ap;
    int value;

    va_start(ap, what);
    value = va_arg(ap, int);
    va_end(ap);
    if (!rig.on) {
        return __real_fcntl(fd, what, value);
    }
    LINE("fcntl %d%s", fd,
         what == F_SETFL && value == O_NONBLOCK ? " no wait" : " ?");
    return 0;
}

void
__wrap__exit(int status)
{
    if (!rig.on) {
        __real__exit(status);
    }
    LINE("exit %d", status);
    longjmp(rig.out, 1);
}

/* --- The other parts --- */

void
wp_init_fail(const struct wp_init *init, const char *what)
{
    LINE("fail %d: %s, %s", init->control_fd, what, strerror(errno));
    longjmp(rig.out, 1);
}

bool
wp_init_egress_env(void)
{
    LINE("egress");
    return !fails("egress");
}

int
wp_landlock_confine(const char *const *paths, size_t len)
{
    journal("confine");
    for (size_t i = 0; i < len; i++) {
        journal(" %s", paths[i]);
    }
    journal_line();
    return fails("confine") ? -1 : 0;
}

/* --- --- */

static struct wp_init init;
static char *words[] = {(char[]){"server"}, (char[]){"-x"}, NULL};
static char *variables[] = {(char[]){"A=given"}, NULL};
static char *own[] = {(char[]){"A=own"}, NULL};

static void
begin(const char *what)
{
    memset(&rig, 0, sizeof rig);
    rig.fork = CHILD;
    rig.most = RLIM_INFINITY;
    rig.null_fd = NULL_FD;
    init = (struct wp_init){
        .control_fd = 9,
        .egress_fd = -1,
        .epoll_fd = EPOLL,
        .output_fd = -7,
        .options = {.procs_max = 77,
                    .writable = {"/work", "/tmp"},
                    .writable_len = 2,
                    .prepared = {"/data", "/more"},
                    .prepared_len = 2},
        .command = {.name = "", .dir = "", .argv = words},
        .brought = {.name = "", .dir = "/srv", .argv = words},
    };
    init.programs.probe =
        (struct wp_program){.name = "probe", .dir = "", .argv = words};
    init.programs.inits[0] = (struct wp_program){
        .name = "first", .dir = "/first", .argv = words, .env = variables};
    LINE("--- %s", what);
}

/* In the child. */
static void
run(const struct wp_program *program)
{
    char **before = environ;

    environ = own;
    rig.on = true;
    errno = EBADMSG;
    if (setjmp(rig.out) == 0) {
        wp_init_run_program(&init, program, 30, 31);
    }
    rig.on = false;
    environ = before;
}

/* In the parent; or in both, when the fork gives 0. */
static void
start(const struct wp_program *program)
{
    char **before = environ;

    environ = own;
    rig.on = true;
    errno = EBADMSG;
    if (setjmp(rig.out) == 0) {
        wp_init_start_program(&init, program);
    }
    rig.on = false;
    environ = before;
    LINE("= child %d, output %d", (int)init.child, init.output_fd);
}

static void
gives_what_it_is_to_have(void **state)
{
    static const struct {
        const char *call;
        int nth;
    } calls[] = {{"null", 1},    {"dup2", 1},  {"dup2", 2},  {"dup2", 3},
                 {"confine", 1}, {"chdir", 1}, {"egress", 1}};

    (void)state;
    begin("the command");
    run(&init.command);
    begin("the probe");
    run(&init.programs.probe);
    begin("what was brought");
    run(&init.brought);
    begin("an init container");
    init.egress_fd = EGRESS;
    run(&init.programs.inits[0]);
    begin("the descriptor 0 is the socket of egress");
    init.egress_fd = 0;
    run(&init.command);
    begin("it confines itself");
    init.options.confines_itself = true;
    run(&init.programs.inits[0]);
    begin("a closed standard input");
    rig.null_fd = 0;
    run(&init.command);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        begin(calls[i].call);
        init.egress_fd = EGRESS;
        rig.fails = calls[i].call;
        rig.nth = calls[i].nth;
        rig.error = ENOMEM;
        run(&init.programs.inits[0]);
    }
    for (int nth = 1; nth <= 3; nth++) {
        begin("a limit that is not known");
        rig.fails = "getrlimit";
        rig.nth = nth;
        run(&init.command);
    }
    for (rlim_t most = 1; most <= 262144; most *= 64) {
        begin("limits that are lower");
        rig.most = most;
        run(&init.command);
    }
    for (int more = -1; more <= 1; more++) {
        begin("limits about as they are to be");
        rig.most = (rlim_t)(77 + more);
        run(&init.command);
    }
    journal_compare(WP_TEST_GOLDEN "/run_child.txt");
}

static void
watches_what_it_started(void **state)
{
    static const struct {
        const char *call;
        int nth;
    } calls[] = {
        {"pipe", 1}, {"pipe", 2}, {"fork", 1}, {"watch", 1}, {"score", 1}};
    static char longest[400];
    static const ssize_t parts[] = {0, -1, 1, sizeof(int)};

    (void)state;
    begin("the command");
    start(&init.command);
    begin("its child");
    rig.fork = 0;
    start(&init.command);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        begin(calls[i].call);
        rig.fails = calls[i].call;
        rig.nth = calls[i].nth;
        rig.error = ENOMEM;
        start(&init.programs.inits[0]);
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        begin("it reports");
        rig.report = ENOENT;
        rig.reported = parts[i];
        start(&init.command);
        begin("an init container reports");
        rig.report = ENOENT;
        rig.reported = parts[i];
        start(&init.programs.inits[0]);
    }
    begin("any descriptor");
    rig.null_fd = 0;
    start(&init.command);
    begin("a long name");
    memset(longest, 'n', sizeof longest - 1);
    rig.report = ENOENT;
    rig.reported = sizeof(int);
    init.command.argv = (char *[]){longest, NULL};
    start(&init.command);
    journal_compare(WP_TEST_GOLDEN "/run_parent.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_what_it_is_to_have),
        cmocka_unit_test(watches_what_it_started),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
