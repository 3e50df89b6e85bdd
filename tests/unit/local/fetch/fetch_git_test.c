/* local/fetch/git.c: what git is started with, call by call, and what is made of
 * what it says. The child is real; what it would execute is the test's own. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/fetch/git.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/golden.h"

enum {
    TAIL_BYTES = 4096, /* Of what is kept of its errors. */
    CALLS_OF_CHILD = 6,
};

/* What the program does. */
struct act {
    bool tells; /* All that it was started with. */
    bool stays; /* Until it is killed. */
    int status;
    int signal;
    const char *out;
    const char *err;
    size_t err_len;
};

static struct {
    bool on;
    pid_t parent;
    int fail_at; /* Which call of the child's fails; 0: none. */
    int calls;
    int pipe_fails; /* The same of pipes. */
    int pipes_made;
    int pipes[2][2];
    bool fork_fails;
    int poll_errors;   /* To come. */
    int poll_errno;    /* Of those. */
    int polls;         /* So far. */
    int poll_error_at; /* They come from then on. */
    bool cut;          /* The last one failed. */
    int wait_errors;   /* EINTR, to come. */
    size_t read_max;   /* Bytes; 0: all that there are. */
    size_t enough;     /* Bytes of output are too many; 0: never. */
    struct act act;
} rig;
static struct golden seen;
static struct golden said; /* By the program. */

static void note(const char *fmt, ...) WP_PRINTF(1, 2);

static void
note(const char *fmt, ...)
{
    char text[256];
    va_list ap;

    if (!rig.on) {
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    golden_add(&seen, "%s\n", text);
}

static bool
child_fails(void)
{
    if (!rig.on || ++rig.calls != rig.fail_at) {
        return false;
    }
    errno = EIO;
    return true;
}

static const char *
name_of(int fd)
{
    static char name[16];

    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 2; j++) {
            if (rig.pipes[i][j] == fd) {
                (void)snprintf(name, sizeof name, "%s's %s",
                               i == 0 ? "out" : "err", j == 0 ? "end" : "top");
                return name;
            }
        }
    }
    (void)snprintf(name, sizeof name, "%s", fd >= 0 ? "null" : "none");
    return name;
}

/* --- What lies below --- */

int __real_pipe2(int fds[2], int flags);
int __wrap_pipe2(int fds[2], int flags);
pid_t __real_fork(void);
pid_t __wrap_fork(void);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_setrlimit(int what, const struct rlimit *limit);
int __real_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...);
int __real_dup2(int fd, int to);
int __wrap_dup2(int fd, int to);
int __real_chdir(const char *path);
int __wrap_chdir(const char *path);
int __wrap_execve(const char *path, char *const argv[], char *const envp[]);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
ssize_t __real_read(int fd, void *out, size_t cap);
ssize_t __wrap_read(int fd, void *out, size_t cap);
pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
int __real_kill(pid_t pid, int sig);
int __wrap_kill(pid_t pid, int sig);

int
__wrap_pipe2(int fds[2], int flags)
{
    note("pipe2 %s", flags == O_CLOEXEC ? "cloexec" : "?");
    if (rig.on && ++rig.pipes_made == rig.pipe_fails) {
        errno = EMFILE;
        return -1;
    }
    if (__real_pipe2(fds, flags) != 0) {
        return -1;
    }
    if (rig.on) {
        memcpy(rig.pipes[rig.pipes_made - 1], fds, 2 * sizeof fds[0]);
    }
    return 0;
}

pid_t
__wrap_fork(void)
{
    pid_t pid;

    note("fork");
    if (rig.fork_fails) {
        errno = EAGAIN;
        return -1;
    }
    pid = __real_fork();
    if (pid == 0) {
        memset(&seen, 0, sizeof seen);
    }
    return pid;
}

int
__wrap_open(const char *path, int flags, ...)
{
    int fd = child_fails() ? -1 : __real_open(path, flags, 0);

    note("open %s%s", path,
         flags == (O_RDONLY | O_CLOEXEC) ? ", r cloexec" : ", otherwise");
    return fd;
}

int
__wrap_setrlimit(int what, const struct rlimit *limit)
{
    note("setrlimit %s %" PRIu64 " of %" PRIu64,
         what == RLIMIT_FSIZE  ? "FSIZE"
         : what == RLIMIT_AS   ? "AS"
         : what == RLIMIT_DATA ? "DATA"
         : what == RLIMIT_CORE ? "CORE"
                               : "?",
         (uint64_t)limit->rlim_cur, (uint64_t)limit->rlim_max);
    return 0;
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
    note("fcntl %d %s %d", fd, what == F_SETFD ? "setfd" : "?", value);
    return 0;
}

int
__wrap_dup2(int fd, int to)
{
    note("dup2 %s to %d", name_of(fd), to);
    return child_fails() ? -1 : __real_dup2(fd, to);
}

int
__wrap_chdir(const char *path)
{
    note("chdir %s", path);
    return child_fails() ? -1 : __real_chdir(path);
}

static void
put(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);

        if (n <= 0) {
            _exit(99);
        }
        bytes += n;
        len -= (size_t)n;
    }
}

int
__wrap_execve(const char *path, char *const argv[], char *const envp[])
{
    /* Else the test itself would end here, and well. */
    if (getpid() == rig.parent) {
        abort();
    }
    if (child_fails()) {
        return -1;
    }
    if (rig.act.tells) {
        put(1, seen.text, seen.len);
        (void)dprintf(1, "execve %s\n", path);
        for (size_t i = 0; argv[i] != NULL; i++) {
            (void)dprintf(1, "  '%s'\n", argv[i]);
        }
        for (size_t i = 0; envp[i] != NULL; i++) {
            (void)dprintf(1, "  %s\n", envp[i]);
        }
    }
    put(2, rig.act.err, rig.act.err_len);
    put(1, rig.act.out, strlen(rig.act.out));
    while (rig.act.stays) {
        (void)pause();
    }
    if (rig.act.signal != 0) {
        (void)signal(rig.act.signal, SIG_DFL);
        (void)raise(rig.act.signal);
    }
    _exit(rig.act.status);
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    if (rig.on && ++rig.polls > rig.poll_error_at && rig.poll_errors > 0) {
        rig.poll_errors--;
        note("poll is cut short");
        errno = rig.poll_errno;
        rig.cut = true;
        return -1;
    }
    rig.cut = false;
    return __real_poll(fds, n, timeout_ms);
}

ssize_t
__wrap_read(int fd, void *out, size_t cap)
{
    if (rig.cut) {
        note("read without a poll");
    }
    return __real_read(
        fd, out,
        rig.on && rig.read_max > 0 && rig.read_max < cap ? rig.read_max : cap);
}

pid_t
__wrap_waitpid(pid_t pid, int *status, int options)
{
    note("waitpid %d", options);
    if (rig.on && rig.wait_errors > 0) {
        rig.wait_errors--;
        errno = EINTR;
        return -1;
    }
    return __real_waitpid(pid, status, options);
}

int
__wrap_kill(pid_t pid, int sig)
{
    note("kill %s", sig == SIGKILL ? "KILL" : "?");
    return __real_kill(pid, sig);
}

/* --- The test's side --- */

static int
set_up(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    memset(&seen, 0, sizeof seen);
    memset(&said, 0, sizeof said);
    rig.parent = getpid();
    rig.act.out = "";
    rig.act.err = "";
    return 0;
}

static bool
hear(void *ctx, const char *bytes, size_t len)
{
    assert_ptr_equal(ctx, &rig);
    golden_add(&said, "%.*s", (int)len, bytes);
    return rig.enough == 0 || said.len < rig.enough;
}

static const char *const words[] = {"status", "--short", "", NULL};

/* Runs it; what was done, what it said and what came of it. */
static void
run_with(struct wp_git *git, const char *const args[])
{
    size_t before = descriptors_count();
    bool ok;

    rig.calls = 0;
    rig.pipes_made = 0;
    rig.polls = 0;
    said.len = 0;
    git->status = 77;
    (void)snprintf(git->error, sizeof git->error, "of an earlier one");
    rig.on = true;
    ok = wp_git_run(git, args);
    rig.on = false;
    golden_add(&seen, "%.*s%s, status %d, '%s'\n", (int)said.len, said.text,
               ok ? "done" : "failed", git->status, git->error);
    assert_int_equal(descriptors_count(), before);
}

static void
run(void)
{
    struct wp_git git = {.protocol = "https",
                         .dir = "/",
                         .file_max = 1000,
                         .output = hear,
                         .ctx = &rig};

    run_with(&git, words);
}

static void
compare(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/%s.txt", name);
    golden_compare(seen.text, path);
}

static void
git_is_started_with_ours_only(void **state)
{
    struct wp_git git = {.protocol = "https",
                         .dir = "/proc",
                         .config_fd = 7,
                         .file_max = 123456,
                         .output = hear,
                         .ctx = &rig};

    (void)state;
    rig.act.tells = true;
    run_with(&git, words);
    git.protocol = "file";
    git.dir = "/";
    git.config_fd = 0;
    run_with(&git, words);
    compare("git_start");
}

/* Those beyond are none. */
static void
arguments_have_a_largest_number(void **state)
{
    const char *args[WP_GIT_ARGS_MAX + 2];
    struct wp_git git = {
        .protocol = "https", .dir = "/", .output = hear, .ctx = &rig};
    char texts[WP_GIT_ARGS_MAX + 1][12];

    (void)state;
    for (int i = 0; i <= WP_GIT_ARGS_MAX; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "%d", i + 1);
        args[i] = texts[i];
    }
    args[WP_GIT_ARGS_MAX + 1] = NULL;
    rig.act.tells = true;
    run_with(&git, args);
    assert_non_null(strstr(seen.text, "  'git'\n  '1'\n  '2'\n"));
    assert_non_null(strstr(seen.text, "  '22'\n  '23'\n  PATH="));
}

static void
what_git_says_decides(void **state)
{
    static const struct {
        const char *err;
        int status;
        int signal;
    } rows[] = {
        {"", 0, 0},
        {"fatal: it went well\n", 0, 0},
        {"", 1, 0},
        {"hint: none\nfatal: no such thing\nhint: try\n", 128, 0},
        {"\n", 255, 0},
        {"", 0, SIGTERM},
        {"error: out of memory\n", 0, SIGTERM},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        rig.act.out = "words\n";
        rig.act.err = rows[i].err;
        rig.act.err_len = strlen(rows[i].err);
        rig.act.status = rows[i].status;
        rig.act.signal = rows[i].signal;
        run();
    }
    compare("git_says");
}

static void
output_that_nobody_wants_is_thrown_away(void **state)
{
    struct wp_git git = {.protocol = "https", .dir = "/"};

    (void)state;
    rig.act.out = "words\n";
    run_with(&git, words);
    assert_string_equal(seen.text, "pipe2 cloexec\npipe2 cloexec\nfork\n"
                                   "waitpid 0\ndone, status 0, ''\n");
}

static void
who_prints_too_much_is_ended(void **state)
{
    (void)state;
    rig.act.out = "words";
    rig.act.stays = true;
    rig.enough = 5;
    run();
    assert_string_equal(
        seen.text,
        "pipe2 cloexec\npipe2 cloexec\nfork\nkill KILL\nwaitpid 0\n"
        "wordsfailed, status -1, 'git printed more than was expected'\n");
}

/* The last of its errors are kept, in whatever pieces they come. */
static void
a_long_story_loses_its_beginning(void **state)
{
    static const size_t pieces[] = {0, 1, 700, TAIL_BYTES, TAIL_BYTES + 1};
    static char story[2 * TAIL_BYTES + 2];
    char want[32];

    (void)state;
    rig.act.err = story;
    rig.act.status = 1;
    for (size_t i = 0; i < WP_ARRAY_LEN(pieces); i++) {
        rig.read_max = pieces[i];
        for (size_t more = 0; more < 2; more++) {
            for (size_t twice = 1; twice <= 2; twice++) {
                size_t len = twice * TAIL_BYTES;
                size_t at = len - TAIL_BYTES;

                /* Lines of nothing, and at the end one that is not heeded. */
                memset(story, '\n', sizeof story);
                memcpy(story + at, "fatal: it", 9);
                memcpy(story + len - 2, "x\n", 2);
                rig.act.err_len = len + more;
                seen.len = 0;
                run();
                (void)snprintf(want, sizeof want, ", status 1, '%s'\n",
                               more == 0 ? "it" : "x");
                assert_non_null(strstr(seen.text, want));
            }
        }
    }
}

static void
each_call_of_the_child_may_fail(void **state)
{
    (void)state;
    for (rig.fail_at = 1; rig.fail_at <= CALLS_OF_CHILD + 1; rig.fail_at++) {
        golden_add(&seen, "call %d: ", rig.fail_at);
        run();
    }
    compare("git_child_failures");
}

static void
what_cannot_be_started_is_told(void **state)
{
    (void)state;
    for (rig.pipe_fails = 1; rig.pipe_fails <= 2; rig.pipe_fails++) {
        run();
    }
    rig.pipe_fails = 0;
    rig.fork_fails = true;
    run();
    assert_string_equal(seen.text,
                        "pipe2 cloexec\n"
                        "failed, status -1, 'no descriptors for git'\n"
                        "pipe2 cloexec\npipe2 cloexec\n"
                        "failed, status -1, 'no descriptors for git'\n"
                        "pipe2 cloexec\npipe2 cloexec\nfork\n"
                        "failed, status -1, 'git cannot be started'\n");
}

static void
signals_change_nothing(void **state)
{
    (void)state;
    rig.act.out = "words\n";
    rig.act.err = "fatal: no\n";
    rig.act.err_len = 10;
    rig.act.status = 3;
    rig.poll_errors = 2;
    rig.poll_errno = EINTR;
    rig.poll_error_at = 1; /* What the one before it said is not so any more. */
    rig.wait_errors = 2;
    run();
    assert_string_equal(seen.text, "pipe2 cloexec\npipe2 cloexec\nfork\n"
                                   "poll is cut short\npoll is cut short\n"
                                   "waitpid 0\nwaitpid 0\nwaitpid 0\n"
                                   "words\nfailed, status 3, 'no'\n");
}

static void
who_cannot_be_heard_is_ended(void **state)
{
    (void)state;
    rig.act.stays = true;
    rig.poll_errors = 1;
    rig.poll_errno = ENOMEM;
    run();
    assert_string_equal(
        seen.text, "pipe2 cloexec\npipe2 cloexec\nfork\npoll is cut short\n"
                   "kill KILL\nwaitpid 0\n"
                   "failed, status -1, 'git printed more than was expected'\n");
}

/* As where nobody has a standard input. */
static void
the_first_descriptor_is_one_like_others(void **state)
{
    int kept = dup(STDIN_FILENO);

    (void)state;
    assert_true(kept > STDERR_FILENO);
    assert_int_equal(close(STDIN_FILENO), 0);
    rig.act.out = "words\n";
    rig.act.err = "fatal: no\n";
    rig.act.err_len = 10;
    rig.act.status = 3;
    run();
    assert_int_equal(__real_dup2(kept, STDIN_FILENO), STDIN_FILENO);
    assert_int_equal(close(kept), 0);
    assert_string_equal(seen.text, "pipe2 cloexec\npipe2 cloexec\nfork\n"
                                   "waitpid 0\n"
                                   "words\nfailed, status 3, 'no'\n");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(git_is_started_with_ours_only),
        TEST(arguments_have_a_largest_number),
        TEST(what_git_says_decides),
        TEST(output_that_nobody_wants_is_thrown_away),
        TEST(who_prints_too_much_is_ended),
        TEST(a_long_story_loses_its_beginning),
        TEST(each_call_of_the_child_may_fail),
        TEST(what_cannot_be_started_is_told),
        TEST(signals_change_nothing),
        TEST(who_cannot_be_heard_is_ended),
        TEST(the_first_descriptor_is_one_like_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
