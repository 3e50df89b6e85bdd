/* tests/unit/local/sandbox/fetch_process_steps_test.c - what is made for a run
 * of warmpool-fetch, with each step failing in its turn. Nothing of it is made
 * here. */
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/fetch_process.h"
#include "local/sandbox/fetch_walls.h"
#include "local/sandbox/spawn.h"
#include "local/walls/rootfs.h"
#include "pool/base/compiler.h"
#include "proto/checkout/fetch_message.h"
#include "tests/support/local/journal.h"

enum {
    FIRST_FD = 5000,
};

static struct wp_fetch_process process;
static struct wp_fetch_runner runner;
static int lock_fd = 33;
static int next_fd;
static int zero_at; /* Which that is opened is 0; 0: none. */
static bool running;
static int calls;
static int fails_at;      /* The call that fails; 0: none. */
static int error;         /* How. */
static struct stat there; /* Where the cache is to be. */
static bool nothing_there;
static siginfo_t ended;
static int wait_errno;

static bool
fails(void)
{
    if (running && ++calls == fails_at) {
        NOTE("  fails\n");
        errno = error;
        return true;
    }
    return false;
}

static int
open_next(void)
{
    if (fails()) {
        return -1;
    }
    return zero_at > 0 && --zero_at == 0 ? 0 : next_fd++;
}

int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode);
int __wrap_openat(int top, const char *path, int flags, mode_t mode);
int __wrap_mkdirat(int top, const char *path, mode_t mode);
int __wrap_fchown(int fd, uid_t uid, gid_t gid);
int __wrap_chown(const char *path, uid_t uid, gid_t gid);
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_rmdir(const char *path);
int __wrap_socketpair(int domain, int type, int protocol, int pair[2]);
int __real_fcntl(int fd, int command, int what);
int __wrap_fcntl(int fd, int command, int what);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
long __wrap_syscall(long number, int fd, int sig, const void *info, int flags);
int __wrap_lstat(const char *path, struct stat *out);
uid_t __wrap_geteuid(void);

int
__wrap_open(const char *path, int flags, mode_t mode)
{
    if (!running) {
        return __real_open(path, flags, mode);
    }
    NOTE("open %s%s%s%s\n", path,
         (flags & O_DIRECTORY) != 0 ? " directory" : "",
         (flags & O_NOFOLLOW) != 0 ? " no link" : "",
         (flags & O_CLOEXEC) != 0 ? " cloexec" : "");
    return open_next();
}

int
__wrap_openat(int top, const char *path, int flags, mode_t mode)
{
    (void)mode;
    assert_int_equal(flags, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    NOTE("open %s in %d\n", path, top);
    return open_next();
}

int
__wrap_mkdirat(int top, const char *path, mode_t mode)
{
    NOTE("make %s in %d %o\n", path, top, mode);
    if (fails()) {
        return -1;
    }
    errno = EIO; /* As it was. */
    return 0;
}

int
__wrap_fchown(int fd, uid_t uid, gid_t gid)
{
    NOTE("give %d to %u %u\n", fd, uid, gid);
    return fails() ? -1 : 0;
}

int
__wrap_chown(const char *path, uid_t uid, gid_t gid)
{
    NOTE("give %s to %u %u\n", path, uid, gid);
    return fails() ? -1 : 0;
}

int
__wrap_close(int fd)
{
    if (!running) {
        return __real_close(fd);
    }
    NOTE("close %d\n", fd);
    return 0;
}

int
__wrap_rmdir(const char *path)
{
    NOTE("rmdir %s\n", path);
    return -1;
}

int
__wrap_socketpair(int domain, int type, int protocol, int pair[2])
{
    NOTE("socketpair %d %x %d\n", domain, (unsigned)type, protocol);
    pair[0] = open_next();
    pair[1] = pair[0] < 0 ? -1 : next_fd++;
    return pair[0] < 0 ? -1 : 0;
}

int
__wrap_fcntl(int fd, int command, int what)
{
    if (!running) {
        return __real_fcntl(fd, command, what);
    }
    NOTE("fcntl %d %d %d\n", fd, command, what);
    return open_next();
}

int
__wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    assert_int_equal(type, P_PIDFD);
    NOTE("wait for %d %x\n", (int)id, (unsigned)options);
    *info = ended;
    errno = wait_errno;
    return wait_errno != 0 ? -1 : 0;
}

long
__wrap_syscall(long number, int fd, int sig, const void *info, int flags)
{
    assert_int_equal(number, SYS_pidfd_send_signal);
    assert_null(info);
    NOTE("signal %d to %d %d\n", sig, fd, flags);
    return 0;
}

int
__wrap_lstat(const char *path, struct stat *out)
{
    NOTE("look at %s\n", path);
    *out = there;
    return nothing_there ? -1 : 0;
}

uid_t
__wrap_geteuid(void)
{
    return 500;
}

enum wp_status
wp_dir_remove(const char *dir, struct wp_err *err)
{
    NOTE("remove %s\n", dir);
    return fails() ? wp_err_set(err, WP_ABORTED, "no removal") : WP_OK;
}

enum wp_status
wp_dir_make(const char *dir, unsigned mode, struct wp_err *err)
{
    NOTE("make %s %o\n", dir, mode);
    return fails() ? wp_err_set(err, WP_ABORTED, "no directory") : WP_OK;
}

int
wp_spawn_fd(int fd)
{
    return fd;
}

int
wp_fetch_credential_pipe(struct wp_str credential)
{
    NOTE("credential '%.*s'\n", WP_STR_ARG(credential));
    return open_next();
}

void
wp_fetch_args_add(struct wp_fetch_args *args, const char *a, const char *b,
                  const char *c)
{
    args->word[args->n++] = a;
    args->word[args->n++] = b;
    args->word[args->n++] = c;
}

void
wp_fetch_walls(struct wp_fetch_args *args, const char *program,
               const char *cache, int seccomp_fd)
{
    NOTE("walls of %s around %s, filter %d\n", program, cache, seccomp_fd);
    args->word[args->n++] = "walls";
}

enum wp_status
wp_spawn(const struct wp_spawn *spawn, struct wp_spawned *out,
         struct wp_err *err)
{
    NOTE("spawn %s:", spawn->path);
    for (size_t i = 0; spawn->argv[i] != NULL; i++) {
        NOTE(" %s", spawn->argv[i]);
    }
    assert_null(spawn->envp[0]);
    NOTE(", fds");
    for (int i = 0; i < spawn->fds_len; i++) {
        NOTE(" %d", spawn->fds[i]);
    }
    for (int i = spawn->fds_len; i < WP_SPAWN_FDS_MAX; i++) {
        assert_int_equal(spawn->fds[i], -1);
    }
    NOTE(", close %d drop %d %u %u\n", spawn->close_fd, spawn->drop, spawn->uid,
         spawn->gid);
    if (fails()) {
        *out = (struct wp_spawned){-1, -1};
        return wp_err_set(err, WP_ABORTED, "no process");
    }
    *out = (struct wp_spawned){.pid = 4321, .pidfd = next_fd++};
    return WP_OK;
}

/* --- Steps --- */

static void
begin(void)
{
    process = (struct wp_fetch_process){
        .bwrap_path = "/bwrap",
        .path = "/fetch",
        .cache_dir = "/cache/of",
        .seccomp_path = "/filter",
        .drop = true,
        .uid = 1234,
        .lock_fd = &lock_fd,
    };
    next_fd = FIRST_FD;
    calls = fails_at = zero_at = wait_errno = 0;
    error = EDQUOT;
    there = (struct stat){.st_mode = S_IFDIR, .st_uid = 1234};
    nothing_there = false;
}

static void
init(const char *what)
{
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;

    NOTE("--- %s\n", what);
    calls = 0;
    running = true;
    status = wp_fetch_process_init(&process, &runner, &err);
    running = false;
    journal_status("init", status, &err);
    assert_ptr_equal(runner.self, &process);
}

static void
quiet_init(void)
{
    size_t len = journal.len;

    init("");
    journal.len = len;
    journal.text[len] = '\0';
}

static void
start(const char *what, const char *part)
{
    const struct wp_fetch_run run = {
        .part = part,
        .url = "https://url",
        .ref = "main",
        .bytes_max = UINT64_MAX,
        .age_s = INT64_MIN,
        .credential = WP_STR("secret"),
    };
    struct wp_fetch_started out = {.report_fd = 1, .end_fd = 1};
    struct wp_err err = {.status = WP_OK};
    enum wp_status status;

    NOTE("--- %s\n", what);
    calls = 0;
    running = true;
    status = runner.start(runner.self, &run, &out, &err);
    running = false;
    journal_status("start", status, &err);
    NOTE("= report %d end %d\n", out.report_fd, out.end_fd);
}

/* --- Tests --- */

static void
test_the_cache_is_the_fetching_users(void **state)
{
    (void)state;
    journal_begin();
    for (int n = 0; n <= 3; n++) {
        begin();
        there.st_uid = 1;
        fails_at = n;
        init("another one's");
    }
    begin();
    init("its own");
    begin();
    there.st_mode = S_IFLNK;
    init("a link");
    begin();
    nothing_there = true;
    there.st_uid = 1;
    init("nothing");
    begin();
    process.drop = false;
    there.st_uid = 500;
    init("the daemon's");
    begin();
    process.drop = false;
    init("not the daemon's");
    journal_compare("fetch_cache");
}

static void
test_each_step_of_a_run_that_fails_ends_it(void **state)
{
    (void)state;
    journal_begin();
    for (int n = 0; n == 0 || calls >= n - 1; n++) {
        char what[32];

        begin();
        quiet_init();
        fails_at = n;
        (void)snprintf(what, sizeof what, "call %d fails", n);
        start(what, "part");
    }
    begin();
    quiet_init();
    error = EEXIST;
    fails_at = 2;
    start("the part is there", "part");
    for (int i = 1; i <= 9; i++) {
        begin();
        quiet_init();
        zero_at = i;
        start("the first descriptor", "part");
    }
    begin();
    quiet_init();
    zero_at = 3;
    fails_at = 7;
    start("the first descriptor, and then one fails", "part");
    begin();
    process.drop = false;
    process.seccomp_path = NULL;
    quiet_init();
    start("no user, no filter", "part");
    begin();
    quiet_init();
    start("a sweep", NULL);
    journal_compare("fetch_steps");
}

static void
test_a_run_ends(void **state)
{
    (void)state;
    journal_begin();
    begin();
    quiet_init();
    running = true;
    for (int i = 0; i < 4; i++) {
        bool over;

        ended = (siginfo_t){.si_code = CLD_EXITED};
        ended.si_pid = (i & 1) != 0 ? 4321 : 0;
        wait_errno = (i & 2) != 0 ? ECHILD : 0;
        over = runner.has_ended(runner.self, 77);
        NOTE("= pid %d errno %d: %d\n", ended.si_pid, wait_errno != 0, over);
    }
    runner.kill(runner.self, 78);
    runner.wait(runner.self, 79);
    runner.drop(runner.self, "part");
    running = false;
    journal_compare("fetch_ends");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_cache_is_the_fetching_users),
        cmocka_unit_test(test_each_step_of_a_run_that_fails_ends_it),
        cmocka_unit_test(test_a_run_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
