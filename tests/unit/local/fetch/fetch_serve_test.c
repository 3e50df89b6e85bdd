/* local/fetch/serve.c and run.c, call by call: whom a server listens to, what it
 * starts for each, and when it ends what. Each child is real and ends before its
 * number is given away; the rest of the system is the test's own: descriptors
 * are numbers, and time is counted. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/fetch/cache_sweep.h"
#include "local/fetch/checkout.h"
#include "local/fetch/credential.h"
#include "local/fetch/run.h"
#include "local/fetch/serve.h"
#include "proto/checkout/fetch_message.h"
#include "proto/checkout/fetch_report.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/heard.h"

enum {
    FDS = 1000,
    CACHE = FDS,
    SIGNALS,
    LISTENER,
    FIRST_PEER = FDS + 10,
    CREDENTIAL = FDS + 100,
    FIRST_PID = 5000,
    PEERS_MAX = 32,
    ROUNDS_MAX = 64,
    EVENTS_MAX = 3,
};

/* What one poll says, and what is there when it is looked at. */
struct round {
    int64_t passes_ms; /* While it waits. */
    int error;
    struct {
        int fd;
        short what;
    } events[EVENTS_MAX];
    int accepted; /* 0: nobody. */
    const char *message;
    size_t message_len; /* 0: none; the message is closed, or an error. */
    int message_answer;
    bool credential;
    int peeked; /* As recv answers. */
    int signo;  /* 0: there is none. */
    pid_t ended[2];
};

struct rig {
    bool on;
    int calls;
    int fail_at;
    int error; /* Of the call that fails. */
    int64_t now_ms;
    struct round rounds[ROUNDS_MAX];
    size_t rounds_len;
    size_t at;
    size_t ended_at;
    pid_t next_pid;
    bool fork_fails;
    bool no_group; /* Nobody has one yet. */
    int landlock;
    bool unsent;
    int config_fd;
    bool checkout_made;
    bool checkout_fails;
    bool sweep_fails;
    struct golden seen;
};

/* Shared with children, once the tests begin. */
static struct rig unshared;
static struct rig *rig = &unshared;
static pid_t parent;
/* That descriptor is 0, as where nobody has a standard input; 0: none is. The
 * journals are the same. */
static int zero;

static void note(const char *fmt, ...) WP_PRINTF(1, 2);

static void
note(const char *fmt, ...)
{
    char text[2048];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    golden_add(&rig->seen, "%s\n", text);
}

static bool
fails(const char *what)
{
    if (!rig->on || ++rig->calls != rig->fail_at) {
        return false;
    }
    note("%s fails", what);
    errno = rig->error;
    return true;
}

static int
or_zero(int fd)
{
    return fd == zero ? 0 : fd;
}

/* As it is noted. */
static int
named(int fd)
{
    return fd == 0 && zero != 0 ? zero : fd;
}

static const struct round *
now(void)
{
    assert_true(rig->at > 0);
    return &rig->rounds[rig->at - 1];
}

/* --- What lies below --- */

int __wrap_wp_landlock_abi(void);
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_signalfd(int fd, const sigset_t *set, int flags);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_chmod(const char *path, mode_t mode);
int __wrap_listen(int fd, int backlog);
int __wrap_unlink(const char *path);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
ssize_t __real_read(int fd, void *out, size_t cap);
ssize_t __wrap_read(int fd, void *out, size_t cap);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);
ssize_t __wrap_recv(int fd, void *out, size_t cap, int flags);
ssize_t __wrap_wp_passing_receive(int fd, void *bytes, size_t cap, int *passed);
ssize_t __wrap_wp_passing_send(int fd, const void *bytes, size_t len,
                               int passed, int flags);
pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
int __wrap_kill(pid_t pid, int sig);
int __wrap_unlinkat(int fd, const char *path, int flags);
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_setpgid(pid_t pid, pid_t group);
int __wrap_prctl(int what, ...);
int __wrap_mkdirat(int fd, const char *path, mode_t mode);
int __wrap_fchdir(int fd);
int __wrap_chdir(const char *path);
int __wrap_wp_landlock_confine_to(const char *const *readable,
                                  size_t readable_len,
                                  const char *const *writable,
                                  size_t writable_len);
int __real_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...);
int __real_dup2(int fd, int to);
int __wrap_dup2(int fd, int to);
int __wrap_close_range(unsigned first, unsigned last, int flags);
int __wrap_wp_credential_open(int fd);
bool __wrap_wp_checkout(struct wp_checkout *checkout);
bool __wrap_wp_cache_sweep(uint64_t bytes_max, int64_t age_s);

int
__wrap_wp_landlock_abi(void)
{
    return rig->landlock;
}

int
__wrap_access(const char *path, int mode)
{
    if (!rig->on) {
        return __real_access(path, mode);
    }
    note("access %s %s", path, mode == X_OK ? "x" : mode == W_OK ? "w" : "?");
    return fails("access") ? -1 : 0;
}

int
__wrap_mkdir(const char *path, mode_t mode)
{
    note("mkdir %s %03o", path, (unsigned)mode);
    return fails("mkdir") ? -1 : 0;
}

int
__wrap_open(const char *path, int flags, ...)
{
    if (!rig->on) {
        return __real_open(path, flags, 0600);
    }
    note("open %s%s", path,
         flags == (O_RDONLY | O_DIRECTORY | O_CLOEXEC) ? "" : " otherwise");
    return fails("open") ? -1 : or_zero(CACHE);
}

static const char *
signals_text(const sigset_t *set)
{
    static const int all[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGPIPE};
    static char text[64];
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        if (sigismember(set, all[i]) == 1) {
            len += (size_t)snprintf(text + len, sizeof text - len, " %s",
                                    sigabbrev_np(all[i]));
        }
    }
    return text;
}

int
__wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    note("sigprocmask%s%s",
         how == SIG_BLOCK     ? " block"
         : how == SIG_SETMASK ? " set"
                              : " ?",
         signals_text(set));
    if (old != NULL) {
        (void)sigemptyset(old);
        (void)sigaddset(old, SIGHUP);
    }
    return fails("sigprocmask") ? -1 : 0;
}

int
__wrap_signalfd(int fd, const sigset_t *set, int flags)
{
    note("signalfd %d%s%s", fd, signals_text(set),
         flags == (SFD_CLOEXEC | SFD_NONBLOCK) ? "" : " otherwise");
    return fails("signalfd") ? -1 : or_zero(SIGNALS);
}

int
__wrap_socket(int domain, int type, int protocol)
{
    note("socket%s",
         domain == AF_UNIX && protocol == 0 &&
                 type == (SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC)
             ? ""
             : " otherwise");
    return fails("socket") ? -1 : or_zero(LISTENER);
}

int
__wrap_bind(int fd, const struct sockaddr *address, socklen_t len)
{
    const struct sockaddr_un *at = (const void *)address;

    assert_int_equal(named(fd), LISTENER);
    assert_int_equal(len, sizeof *at);
    assert_int_equal(at->sun_family, AF_UNIX);
    note("bind %s", at->sun_path);
    return fails("bind") ? -1 : 0;
}

int
__wrap_chmod(const char *path, mode_t mode)
{
    note("chmod %s %03o", path, (unsigned)mode);
    return fails("chmod") ? -1 : 0;
}

int
__wrap_listen(int fd, int backlog)
{
    note("listen %d, %d", named(fd), backlog);
    return fails("listen") ? -1 : 0;
}

int
__wrap_unlink(const char *path)
{
    note("unlink %s", path);
    errno = ENOENT;
    return -1;
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    const struct round *round;
    int ready = 0;

    if (getpid() != parent) {
        _exit(97); /* A child that serves. */
    }
    golden_add(&rig->seen, "poll, %d ms:", timeout_ms);
    for (nfds_t i = 0; i < n; i++) {
        if (fds[i].fd >= 0) {
            golden_add(&rig->seen, " %d%s", named(fds[i].fd),
                       fds[i].events == POLLIN ? "" : "?");
        }
        fds[i].revents = 0;
    }
    golden_add(&rig->seen, "\n");
    assert_true(rig->at < rig->rounds_len);
    round = &rig->rounds[rig->at++];
    rig->ended_at = 0;
    rig->now_ms += round->passes_ms;
    if (round->error != 0) {
        errno = round->error;
        return -1;
    }
    for (nfds_t i = 0; i < n; i++) {
        for (size_t k = 0; k < EVENTS_MAX; k++) {
            if (fds[i].fd >= 0 && named(fds[i].fd) == round->events[k].fd) {
                fds[i].revents = round->events[k].what;
                ready++;
            }
        }
    }
    return ready;
}

ssize_t
__wrap_read(int fd, void *out, size_t cap)
{
    struct signalfd_siginfo info = {.ssi_signo = 0};

    if (named(fd) < FDS) {
        return __real_read(fd, out, cap);
    }
    assert_int_equal(named(fd), SIGNALS);
    assert_int_equal(cap, sizeof info);
    info.ssi_signo = (uint32_t)now()->signo;
    note("signal %u", info.ssi_signo);
    if (info.ssi_signo == 0) {
        errno = EAGAIN;
        return -1;
    }
    memcpy(out, &info, sizeof info);
    return sizeof info;
}

int
__wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    int got = now()->accepted;

    assert_null(address);
    assert_null(len);
    note("accept %d%s: %d", named(fd),
         flags == SOCK_CLOEXEC ? "" : " otherwise", got);
    errno = EAGAIN;
    return got != 0 ? or_zero(got) : -1;
}

ssize_t
__wrap_recv(int fd, void *out, size_t cap, int flags)
{
    int peeked = now()->peeked;

    (void)out;
    note("recv %d, %zu%s: %d", named(fd), cap,
         flags == (MSG_DONTWAIT | MSG_PEEK) ? "" : " otherwise", peeked);
    errno = EAGAIN;
    return peeked;
}

ssize_t
__wrap_wp_passing_receive(int fd, void *bytes, size_t cap, int *passed)
{
    const struct round *round = now();

    note("receive %d, %zu: %zu%s", named(fd), cap, round->message_len,
         round->credential ? " and a credential" : "");
    memcpy(bytes, round->message, round->message_len);
    *passed = round->credential ? or_zero(CREDENTIAL) : -1;
    return round->message_len > 0 ? (ssize_t)round->message_len
                                  : round->message_answer;
}

ssize_t
__wrap_wp_passing_send(int fd, const void *bytes, size_t len, int passed,
                       int flags)
{
    note("report to %d%s: '%.*s' (%zu), %d", named(fd),
         flags == (MSG_NOSIGNAL | MSG_DONTWAIT) ? "" : " otherwise", (int)len,
         (const char *)bytes, len, passed);
    return rig->unsent ? -1 : (ssize_t)len;
}

pid_t
__wrap_fork(void)
{
    int status = 0;
    pid_t pid;

    if (rig->fork_fails) {
        note("no fork");
        errno = EAGAIN;
        return -1;
    }
    note("fork {");
    pid = __real_fork();
    if (pid == 0) {
        return 0;
    }
    assert_int_equal(__real_waitpid(pid, &status, 0), pid);
    note("} %s %d: %d", WIFEXITED(status) ? "exit" : "signal",
         WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status),
         (int)rig->next_pid);
    return rig->next_pid++;
}

pid_t
__wrap_waitpid(pid_t pid, int *status, int options)
{
    pid_t ended = rig->ended_at < 2 ? now()->ended[rig->ended_at++] : 0;

    assert_null(status);
    note("waitpid %d%s: %d", (int)pid, options == WNOHANG ? "" : " otherwise",
         (int)ended);
    return ended;
}

int
__wrap_kill(pid_t pid, int sig)
{
    note("kill %d%s", (int)pid, sig == SIGKILL ? "" : " otherwise");
    return pid < 0 && rig->no_group ? -1 : 0;
}

int
__wrap_unlinkat(int fd, const char *path, int flags)
{
    note("unlinkat %d %s%s", named(fd), path,
         flags == AT_REMOVEDIR ? "" : " otherwise");
    return 0;
}

int
__wrap_close(int fd)
{
    if (named(fd) < FDS) {
        return __real_close(fd);
    }
    note("close %d", named(fd));
    return 0;
}

int
__wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    assert_int_equal(clock, CLOCK_MONOTONIC);
    out->tv_sec = rig->now_ms / 1000;
    out->tv_nsec = rig->now_ms % 1000 * 1000000 + 999999;
    return 0;
}

/* --- Of the child --- */

int
__wrap_setpgid(pid_t pid, pid_t group)
{
    /* Else the test itself would end here, and well. */
    if (getpid() == parent) {
        abort();
    }
    note("  setpgid %d %d", (int)pid, (int)group);
    return 0;
}

int
__wrap_prctl(int what, ...)
{
    va_list ap;
    unsigned long value;

    va_start(ap, what);
    value = va_arg(ap, unsigned); /* The other half is not looked at. */
    va_end(ap);
    note("  prctl %s %lu",
         what == PR_SET_PDEATHSIG      ? "death signal"
         : what == PR_SET_NO_NEW_PRIVS ? "no new privileges"
                                       : "?",
         value);
    return what == PR_SET_NO_NEW_PRIVS && fails("prctl") ? -1 : 0;
}

int
__wrap_mkdirat(int fd, const char *path, mode_t mode)
{
    note("  mkdirat %d %s %03o", named(fd), path, (unsigned)mode);
    return fails("mkdirat") ? -1 : 0;
}

int
__wrap_fchdir(int fd)
{
    note("  fchdir %d", named(fd));
    return fails("fchdir") ? -1 : 0;
}

int
__wrap_chdir(const char *path)
{
    note("  chdir %s", path);
    return fails("chdir") ? -1 : 0;
}

int
__wrap_wp_landlock_confine_to(const char *const *readable, size_t readable_len,
                              const char *const *writable, size_t writable_len)
{
    golden_add(&rig->seen, "  confine to");
    for (size_t i = 0; i < readable_len; i++) {
        golden_add(&rig->seen, " %s", readable[i]);
    }
    golden_add(&rig->seen, ", write");
    for (size_t i = 0; i < writable_len; i++) {
        golden_add(&rig->seen, " %s", writable[i]);
    }
    golden_add(&rig->seen, "\n");
    return fails("Landlock") ? -1 : 0;
}

int
__wrap_fcntl(int fd, int what, ...)
{
    va_list ap;
    int value;

    va_start(ap, what);
    if (what == F_SETLKW) { /* Of what counts the lines that are executed. */
        struct flock *lock = va_arg(ap, struct flock *);

        va_end(ap);
        return __real_fcntl(fd, what, lock);
    }
    value = va_arg(ap, int);
    va_end(ap);
    if (!rig->on) {
        return __real_fcntl(fd, what, value);
    }
    note("  fcntl %d %s %d", named(fd), what == F_DUPFD ? "dup" : "?", value);
    return fails("fcntl") ? -1 : CREDENTIAL + 1;
}

int
__wrap_dup2(int fd, int to)
{
    if (!rig->on || named(fd) < FDS) {
        return __real_dup2(fd, to);
    }
    note("  dup2 %d to %d", named(fd), to);
    return fails("dup2") ? -1 : to;
}

int
__wrap_close_range(unsigned first, unsigned last, int flags)
{
    note("  close %u to %x, %d", first, last, flags);
    return fails("close_range") ? -1 : 0;
}

int
__wrap_wp_credential_open(int fd)
{
    note("  credential of %d", fd);
    return rig->config_fd;
}

bool
__wrap_wp_checkout(struct wp_checkout *checkout)
{
    note("  checkout %s of %s, %" PRIu64 " bytes, config %d", checkout->ref,
         checkout->url, checkout->bytes_max, checkout->config_fd);
    checkout->fd = CREDENTIAL + 2;
    checkout->made = rig->checkout_made;
    memset(checkout->commit, 'c', WP_COMMIT_LEN);
    memset(checkout->why, 'w', sizeof checkout->why - 1);
    return !rig->checkout_fails;
}

bool
__wrap_wp_cache_sweep(uint64_t bytes_max, int64_t age_s)
{
    note("  sweep to %" PRIu64 " bytes, %" PRId64 " s", bytes_max, age_s);
    return !rig->sweep_fails;
}

/* --- The test's side --- */

static char checkout_words[WP_FETCH_MESSAGE_MAX];
static size_t checkout_len;
static char other_words[WP_FETCH_MESSAGE_MAX];
static size_t other_len;
static char sweep_words[WP_FETCH_MESSAGE_MAX];
static size_t sweep_len;

static int
set_up(void **state)
{
    const struct wp_fetch_run checkout = {.part = "part",
                                          .url = "https://host/repo",
                                          .ref = "refs/heads/main",
                                          .bytes_max = 123456};
    struct wp_fetch_run other = checkout;
    const struct wp_fetch_run sweep = {.bytes_max = 4096, .age_s = 77};

    (void)state;
    memset(rig, 0, sizeof *rig);
    rig->error = EIO;
    rig->landlock = 1;
    rig->next_pid = FIRST_PID;
    rig->now_ms = 70000;
    other.part = "other";
    checkout_len = wp_fetch_message_write(&checkout, checkout_words);
    other_len = wp_fetch_message_write(&other, other_words);
    sweep_len = wp_fetch_message_write(&sweep, sweep_words);
    return 0;
}

static struct round *
next(void)
{
    struct round *round = &rig->rounds[rig->rounds_len++];

    assert_true(rig->rounds_len <= ROUNDS_MAX);
    *round = (struct round){.message = "", .peeked = -1};
    return round;
}

static struct round *
event(int fd, short what)
{
    struct round *round = next();

    round->events[0].fd = fd;
    round->events[0].what = what;
    return round;
}

static void
connects(int fd)
{
    event(LISTENER, POLLIN)->accepted = fd;
}

static struct round *
asks(int fd, const char *words, size_t len)
{
    struct round *round = event(fd, POLLIN);

    round->message = words;
    round->message_len = len;
    round->credential = true;
    return round;
}

static void
ends(pid_t a, pid_t b)
{
    struct round *round = event(SIGNALS, POLLIN);

    round->signo = SIGCHLD;
    round->ended[0] = a;
    round->ended[1] = b;
}

/* It serves until the rounds are over. */
static void
serve_at(const char *path)
{
    struct heard heard;
    const char *words;
    int rc;

    event(SIGNALS, POLLIN)->signo = SIGTERM;
    rig->at = 0;
    rig->calls = 0;
    heard_begin(&heard);
    rig->on = true;
    rc = wp_fetch_serve(path, "/cache");
    rig->on = false;
    words = heard_end(&heard);
    note("=> %d%s%s", rc, words[0] != '\0' ? ", " : "", words);
    rig->rounds_len = 0;
}

static void
serve(void)
{
    serve_at("/run/fetch.sock");
}

static void
a_run_is_started_for_each_that_asks(void **state)
{
    (void)state;
    connects(FIRST_PEER);
    asks(FIRST_PEER, checkout_words, checkout_len);
    connects(FIRST_PEER + 1);
    asks(FIRST_PEER + 1, sweep_words, sweep_len);
    ends(FIRST_PID + 1, FIRST_PID);
    connects(FIRST_PEER + 2);
    asks(FIRST_PEER + 2, checkout_words, checkout_len);
    serve();
    golden_compare(rig->seen.text, WP_TEST_GOLDEN "/serve_runs.txt");
}

static void
what_is_not_understood_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct round *round;

        note("--- %d", i);
        connects(FIRST_PEER);
        round = asks(FIRST_PEER, i == 4 ? "?" : checkout_words,
                     i < 2    ? 0
                     : i == 4 ? 1
                              : checkout_len);
        round->message_answer = i == 0 ? 0 : -1;
        round->credential = i != 2;
        rig->fork_fails = i == 3;
        serve();
    }
    golden_compare(rig->seen.text, WP_TEST_GOLDEN "/serve_refusals.txt");
}

static void
who_leaves_takes_the_run_along(void **state)
{
    static const struct {
        short what;
        int peeked;
    } rows[] = {{POLLIN, -1},  {POLLIN, 0},   {POLLIN, 1},
                {POLLHUP, -1}, {POLLERR, -1}, {POLLIN | POLLHUP, -1}};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        note("--- %zu", i);
        connects(FIRST_PEER);
        asks(FIRST_PEER, sweep_words, sweep_len);
        event(FIRST_PEER, rows[i].what)->peeked = rows[i].peeked;
        ends(rig->next_pid, 0);
        rig->no_group = i == 2;
        serve();
        rig->no_group = false;
    }
    golden_compare(rig->seen.text, WP_TEST_GOLDEN "/serve_leaves.txt");
}

static void
who_says_nothing_is_closed_in_time(void **state)
{
    (void)state;
    connects(FIRST_PEER);
    next()->passes_ms = 1000;
    connects(FIRST_PEER + 1);
    next()->passes_ms = 3999;
    next()->passes_ms = 1;
    /* The second runs now, and may take its time. */
    asks(FIRST_PEER + 1, sweep_words, sweep_len);
    next()->passes_ms = 50000;
    connects(FIRST_PEER + 2);
    next()->passes_ms = 5001;
    serve();
    golden_compare(rig->seen.text, WP_TEST_GOLDEN "/serve_clock.txt");
}

static void
a_full_server_lets_others_wait(void **state)
{
    (void)state;
    for (int i = 0; i < PEERS_MAX; i++) {
        connects(FIRST_PEER + i);
    }
    next()->passes_ms = 4000;
    asks(FIRST_PEER + PEERS_MAX - 1, sweep_words, sweep_len);
    ends(FIRST_PID, 0);
    connects(FIRST_PEER + PEERS_MAX);
    serve();
    golden_compare(rig->seen.text, WP_TEST_GOLDEN "/serve_full.txt");
}

static void
a_part_goes_when_nobody_else_fills_it(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        connects(FIRST_PEER + i);
    }
    asks(FIRST_PEER, checkout_words, checkout_len);
    asks(FIRST_PEER + 1, other_words, other_len);
    asks(FIRST_PEER + 2, checkout_words, checkout_len);
    ends(FIRST_PID, 0);
    ends(FIRST_PID + 1, 12345);
    ends(FIRST_PID + 2, 0);
    serve();
    golden_compare(rig->seen.text, WP_TEST_GOLDEN "/serve_parts.txt");
}

static void
odd_rounds_change_nothing(void **state)
{
    (void)state;
    next()->error = EINTR;
    connects(0); /* It has gone already. */
    event(SIGNALS, POLLIN)->signo = 0;
    /* All at once. */
    connects(FIRST_PEER);
    {
        struct round *round = asks(FIRST_PEER, sweep_words, sweep_len);

        round->events[1].fd = LISTENER;
        round->events[1].what = POLLIN;
        round->accepted = FIRST_PEER + 1;
        round->events[2].fd = SIGNALS;
        round->events[2].what = POLLIN;
        round->signo = SIGCHLD;
        round->ended[0] = FIRST_PID;
    }
    serve();
    note("--- no poll");
    next()->error = ENOMEM;
    serve();
    note("--- interrupted");
    event(SIGNALS, POLLIN)->signo = SIGINT;
    serve();
    golden_compare(rig->seen.text, WP_TEST_GOLDEN "/serve_odd.txt");
}

/* Each call in turn, until one serves. */
static void
what_cannot_be_served_is_told(void **state)
{
    char path[sizeof(struct sockaddr_un)];
    size_t longest = sizeof((struct sockaddr_un *)0)->sun_path;

    (void)state;
    for (rig->error = EIO; rig->error != 0;
         rig->error = rig->error == EIO ? EEXIST : 0) {
        rig->fail_at = 0;
        do {
            rig->fail_at++;
            note("--- %d", rig->fail_at);
            serve();
        } while (rig->calls >= rig->fail_at);
    }
    note("--- no Landlock");
    rig->landlock = 0;
    serve();
    rig->landlock = 1;
    memset(path, 'p', sizeof path);
    for (size_t len = longest - 1; len <= longest; len++) {
        note("--- a path of %zu", len);
        path[len] = '\0';
        serve_at(path);
        path[len] = 'p';
    }
    golden_compare(rig->seen.text, WP_TEST_GOLDEN "/serve_not.txt");
}

/* Of the child, each call in turn; at last all go through. */
static void
what_cannot_be_confined_does_not_run(void **state)
{
    const int first = 11; /* Behind the calls of the server's own. */

    (void)state;
    for (int i = 0; i < 2; i++) {
        rig->fail_at = first;
        rig->error = i == 0 ? EIO : EEXIST;
        do {
            note("--- %d", rig->fail_at - first + 1);
            connects(FIRST_PEER);
            asks(FIRST_PEER, checkout_words, checkout_len);
            serve();
            rig->fail_at++;
        } while (rig->calls >= rig->fail_at - 1);
    }
    golden_compare(rig->seen.text, WP_TEST_GOLDEN "/serve_confined.txt");
}

/* --- One run --- */

static void
what_a_run_came_to_is_reported(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++) {
        rig->config_fd = i == 0 ? -1 : i == 1 ? 0 : 9;
        rig->checkout_made = i == 2;
        rig->checkout_fails = i == 3;
        rig->unsent = i == 4;
        note("=> %d", wp_fetch_checkout("https://host/repo", "ref", 5));
    }
    for (int i = 0; i < 3; i++) {
        rig->sweep_fails = i == 1;
        rig->unsent = i == 2;
        note("=> %d", wp_fetch_sweep(6, 7));
    }
    golden_compare(rig->seen.text, WP_TEST_GOLDEN "/serve_reports.txt");
}

static void
a_report_has_a_longest_text(void **state)
{
    static char text[WP_FETCH_REPORT_MAX + 1];

    (void)state;
    for (size_t len = WP_FETCH_REPORT_MAX - 3; len < WP_FETCH_REPORT_MAX + 1;
         len++) {
        char want[32];

        memset(text, 't', len);
        text[len] = '\0';
        rig->seen.len = 0;
        assert_true(wp_fetch_report(5, 'F', text, 6));
        (void)snprintf(want, sizeof want, "' (%zu), 6\n",
                       len + 1 < WP_FETCH_REPORT_MAX ? len + 1
                                                     : WP_FETCH_REPORT_MAX - 1);
        assert_non_null(strstr(rig->seen.text, want));
    }
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(a_run_is_started_for_each_that_asks),
        TEST(what_is_not_understood_is_refused),
        TEST(who_leaves_takes_the_run_along),
        TEST(who_says_nothing_is_closed_in_time),
        TEST(a_full_server_lets_others_wait),
        TEST(a_part_goes_when_nobody_else_fills_it),
        TEST(odd_rounds_change_nothing),
        TEST(what_cannot_be_served_is_told),
        TEST(what_cannot_be_confined_does_not_run),
        TEST(what_a_run_came_to_is_reported),
        TEST(a_report_has_a_longest_text),
    };

    static const int zeros[] = {CACHE, SIGNALS, LISTENER, FIRST_PEER,
                                CREDENTIAL};
    int failed;

    parent = getpid();
    rig = mmap(NULL, sizeof *rig, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (rig == MAP_FAILED) {
        abort();
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < WP_ARRAY_LEN(zeros); i++) {
        zero = zeros[i];
        failed += cmocka_run_group_tests(tests, NULL, NULL);
    }
    return failed;
}
