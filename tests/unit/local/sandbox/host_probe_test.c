/* local/sandbox/host_probe.c: what is looked at on the machine, which programs
 * are tried and how, and what the report and the errors say. Nothing real is
 * asked or started: descriptors are numbers, and time is the test's. The
 * journals are in golden/. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/host_probe.h"
#include "local/sandbox/spawn.h"
#include "pool/base/clock.h"
#include "tests/support/base/golden.h"

enum {
    FDS = 1000, /* From here on they are the test's. */
    PIPE_END = FDS,
    PIPE_TOP,
    NULL_FD,
    PIDFD,
    MOVED = 100, /* Added by each move. */
    PROGRAMS_MAX = 4,
    PIECES_MAX = 4,
};

static struct {
    bool on;
    const char *path;                   /* Of programs; NULL: it is not set. */
    const char *programs[PROGRAMS_MAX]; /* Those that are there. */
    bool pipe_fails;
    bool null_fails;
    enum wp_status spawn_status;
    const char *pieces[PIECES_MAX]; /* Of what it prints; NULL: its end. */
    size_t pieces_at;
    int silent_at; /* That poll hears nothing; 0: none. */
    int polls;
    int code;
    int status;
    int64_t now_ns;
    int64_t tick_ns; /* Passes with each look at the clock. */
    bool no_seccomp;
    int landlock;
    uid_t user;
    int groups;
    int sigaction_answer;
    struct sigaction children;
} rig;
static struct golden seen;
static struct wp_host_report report;
static struct wp_local_config config;
static struct wp_cgroups groups;

static void note(const char *fmt, ...) WP_PRINTF(1, 2);

static void
note(const char *fmt, ...)
{
    char text[2048];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    golden_add(&seen, "%s\n", text);
}

/* --- What lies below --- */

char *__real_getenv(const char *name);
char *__wrap_getenv(const char *name);
int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
int __real_pipe2(int fds[2], int flags);
int __wrap_pipe2(int fds[2], int flags);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...);
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_wp_spawn_fd(int fd);
enum wp_status __wrap_wp_spawn(const struct wp_spawn *spawn,
                               struct wp_spawned *out, struct wp_err *err);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
ssize_t __real_read(int fd, void *out, size_t cap);
ssize_t __wrap_read(int fd, void *out, size_t cap);
int __wrap_kill(pid_t pid, int sig);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
int __real_sigaction(int sig, const struct sigaction *act,
                     struct sigaction *old);
int __wrap_sigaction(int sig, const struct sigaction *act,
                     struct sigaction *old);
long __wrap_syscall(long number, ...);
uid_t __wrap_geteuid(void);
int __wrap_getgroups(int n, gid_t *out);
int __wrap_wp_landlock_abi(void);
const struct wp_clock *__wrap_wp_clock_system(void);

char *
__wrap_getenv(const char *name)
{
    return rig.on && strcmp(name, "PATH") == 0 ? (char *)(uintptr_t)rig.path
                                               : __real_getenv(name);
}

int
__wrap_access(const char *path, int mode)
{
    if (!rig.on) {
        return __real_access(path, mode);
    }
    note("access '%.300s'%s", path, mode == X_OK ? "" : " ?");
    for (size_t i = 0; i < PROGRAMS_MAX; i++) {
        if (rig.programs[i] != NULL && strcmp(path, rig.programs[i]) == 0) {
            return 0;
        }
    }
    return -1;
}

int
__wrap_pipe2(int fds[2], int flags)
{
    if (!rig.on) {
        return __real_pipe2(fds, flags);
    }
    note("pipe2%s%s", flags == O_CLOEXEC ? " cloexec" : " ?",
         rig.pipe_fails ? ": no" : "");
    if (rig.pipe_fails) {
        errno = EMFILE;
        return -1;
    }
    fds[0] = PIPE_END;
    fds[1] = PIPE_TOP;
    return 0;
}

int
__wrap_open(const char *path, int flags, ...)
{
    if (!rig.on) {
        mode_t mode;
        va_list ap;

        va_start(ap, flags);
        mode = va_arg(ap, mode_t);
        va_end(ap);
        return __real_open(path, flags, mode);
    }
    note("open %s%s", path, flags == (O_RDONLY | O_CLOEXEC) ? "" : " ?");
    return rig.null_fails ? -1 : NULL_FD;
}

int
__wrap_fcntl(int fd, int what, ...)
{
    va_list ap;
    int least;

    va_start(ap, what);
    least = va_arg(ap, int);
    va_end(ap);
    if (!rig.on) {
        return __real_fcntl(fd, what, least);
    }
    note("fcntl %d%s, %d", fd, what == F_DUPFD_CLOEXEC ? " dupfd" : " ?",
         least);
    return fd + MOVED;
}

int
__wrap_close(int fd)
{
    if (fd < FDS) {
        return __real_close(fd);
    }
    note("close %d", fd);
    return 0;
}

int
__wrap_wp_spawn_fd(int fd)
{
    return fd < 0 ? -1 : fd + MOVED;
}

enum wp_status
__wrap_wp_spawn(const struct wp_spawn *spawn, struct wp_spawned *out,
                struct wp_err *err)
{
    note("spawn %s%s, user %u %u, fds %d %d %d of %d, groups %d %d, close %d",
         spawn->path, spawn->drop ? ", drop" : "", spawn->uid, spawn->gid,
         spawn->fds[0], spawn->fds[1], spawn->fds[2], spawn->fds_len,
         spawn->procs_len, spawn->group_fd, spawn->close_fd);
    for (size_t i = 0; spawn->argv[i] != NULL; i++) {
        note("  %s", spawn->argv[i]);
    }
    for (size_t i = 0; spawn->envp[i] != NULL; i++) {
        note("  env %s", spawn->envp[i]);
    }
    *out = (struct wp_spawned){-1, -1};
    if (rig.spawn_status != WP_OK) {
        return wp_err_set(err, rig.spawn_status, "it cannot be started");
    }
    *out = (struct wp_spawned){77, PIDFD};
    return WP_OK;
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    bool silent = ++rig.polls == rig.silent_at;

    assert_int_equal(n, 1);
    note("poll %d%s, %d ms%s", fds[0].fd, fds[0].events == POLLIN ? "" : " ?",
         timeout_ms, silent ? ": nothing" : "");
    return silent ? 0 : 1;
}

ssize_t
__wrap_read(int fd, void *out, size_t cap)
{
    const char *piece;
    size_t len;

    if (fd < FDS) {
        return __real_read(fd, out, cap);
    }
    piece = rig.pieces[rig.pieces_at];
    len = piece == NULL ? 0 : strlen(piece) < cap ? strlen(piece) : cap;
    note("read %d, %zu bytes: %zu", fd, cap, len);
    if (piece != NULL) {
        rig.pieces_at++;
        memcpy(out, piece, len);
    }
    return (ssize_t)len;
}

int
__wrap_kill(pid_t pid, int sig)
{
    note("kill %d%s", (int)pid, sig == SIGKILL ? "" : " ?");
    return 0;
}

int
__wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    note("waitid %u%s", (unsigned)id,
         type == P_PID && options == WEXITED ? "" : " ?");
    info->si_code = rig.code;
    info->si_status = rig.status;
    return 0;
}

int
__wrap_sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
    if (!rig.on) {
        return __real_sigaction(sig, act, old);
    }
    note("sigaction%s%s", sig == SIGCHLD ? "" : " ?",
         act == NULL                  ? ""
         : act->sa_handler == SIG_DFL ? ", default"
                                      : ", ?");
    if (old != NULL) {
        *old = rig.children;
    }
    return rig.sigaction_answer;
}

long
__wrap_syscall(long number, ...)
{
    va_list ap;
    unsigned op;
    unsigned flags;
    const unsigned *action;

    va_start(ap, number);
    op = va_arg(ap, unsigned);
    flags = va_arg(ap, unsigned);
    action = va_arg(ap, const unsigned *);
    va_end(ap);
    note("%s %u: %x",
         number == SYS_seccomp && op == SECCOMP_GET_ACTION_AVAIL
             ? "is there an action"
             : "?",
         flags, *action);
    return rig.no_seccomp ? -1 : 0;
}

uid_t
__wrap_geteuid(void)
{
    return rig.user;
}

int
__wrap_getgroups(int n, gid_t *out)
{
    assert_int_equal(n, 0);
    assert_null(out);
    return rig.groups;
}

int
__wrap_wp_landlock_abi(void)
{
    return rig.landlock;
}

static int64_t
mono_ns(const struct wp_clock *clock)
{
    (void)clock;
    rig.now_ns += rig.tick_ns;
    return rig.now_ns;
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    static const struct wp_clock clock = {mono_ns, mono_ns};

    return &clock;
}

/* --- The test's side --- */

static void
reset(const char *what)
{
    golden_add(&seen, "--- %s\n", what);
    memset(&rig, 0, sizeof rig);
    memset(&config, 0, sizeof config);
    memset(&groups, 0, sizeof groups);
    rig.path = "/bin";
    rig.programs[0] = "/bin/bwrap";
    rig.pieces[0] = "bubblewrap 0.8.0\n";
    rig.code = CLD_EXITED;
    rig.landlock = 6;
    rig.children.sa_handler = SIG_DFL;
    groups.kind = WP_CGROUP_V2;
    groups.controllers = WP_CGROUP_MEMORY | WP_CGROUP_PIDS | WP_CGROUP_CPU;
    config.uid_first = 5000;
}

static int
set_up(void **state)
{
    (void)state;
    seen.len = 0;
    return 0;
}

static void
compare(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/%s.txt", name);
    golden_compare(seen.text, path);
}

static void
told(enum wp_status status, const struct wp_err *err)
{
    rig.on = false;
    note("=> %s '%s'", wp_status_name(status), status == WP_OK ? "" : err->msg);
}

static void
look(void)
{
    struct wp_err err;
    enum wp_status status;

    memset(&report, 'x', sizeof report); /* Of an earlier one. */
    rig.on = true;
    status = wp_host_look(&config, &groups, &report, &err);
    told(status, &err);
    note("bwrap '%s' '%s', limits%s%s%s, %s, landlock %d, seccomp %d, runsc "
         "%d '%s'",
         report.bwrap_path, report.bwrap_version,
         report.limit_memory ? " memory" : "", report.limit_cpu ? " cpu" : "",
         report.limit_pids ? " pids" : "",
         report.own_uids ? "own users" : "one user", report.landlock_abi,
         (int)report.seccomp, (int)report.runsc, report.runsc_path);
    for (uint32_t i = 0; i < report.notes_len; i++) {
        note("  note: %s", report.notes[i]);
    }
}

static void
what_the_machine_allows_is_reported(void **state)
{
    static const unsigned lacks[] = {WP_CGROUP_MEMORY, WP_CGROUP_PIDS,
                                     WP_CGROUP_CPU};

    (void)state;
    reset("all there is");
    rig.programs[1] = "/bin/runsc";
    look();
    for (size_t i = 0; i < WP_ARRAY_LEN(lacks); i++) {
        reset("no controller");
        groups.controllers &= ~lacks[i];
        look();
    }
    reset("nothing");
    groups.kind = WP_CGROUP_NONE;
    groups.controllers = 0;
    (void)snprintf(groups.reason, sizeof groups.reason, "%s", "no mount");
    rig.landlock = 0;
    rig.no_seccomp = true;
    rig.user = 1000;
    rig.groups = 2;
    look();
    reset("one group, and no signal scopes");
    rig.user = 4294967294;
    rig.groups = 1;
    rig.landlock = 5;
    look();
    compare("probe/report");
}

static void
programs_are_found_by_path_or_name(void **state)
{
    static char longest[256 + 2];

    (void)state;
    reset("none");
    rig.programs[0] = NULL;
    look();
    reset("by their paths");
    config.bwrap_path = "/opt/bwrap";
    config.runsc_path = "/opt/runsc";
    rig.programs[0] = "/opt/bwrap";
    rig.programs[1] = "/opt/runsc";
    look();
    reset("paths where nothing is");
    config.bwrap_path = "/opt/bwrap";
    config.runsc_path = "/opt/runsc";
    look();
    reset("by other names");
    config.bwrap_path = "wrap";
    config.runsc_path = "run";
    rig.programs[0] = "/b/wrap";
    rig.programs[1] = "/a/run";
    rig.path = ":/a::/b:/c:";
    look();
    reset("no PATH");
    rig.path = NULL;
    rig.programs[0] = "/usr/bin/bwrap";
    look();
    reset("an empty PATH");
    rig.path = "";
    look();
    for (size_t len = sizeof report.bwrap_path - 1;
         len <= sizeof report.bwrap_path; len++) {
        reset("a long path");
        memset(longest, 'p', len);
        longest[0] = '/';
        longest[len] = '\0';
        config.bwrap_path = longest;
        rig.programs[0] = longest;
        look();
    }
    compare("probe/programs");
}

/* The folder is as long as leaves room for the name, and one more. */
static void
a_path_that_has_no_room_is_passed_over(void **state)
{
    static char folder[256];
    static char program[300];

    (void)state;
    for (size_t len = sizeof report.bwrap_path - 7;
         len <= sizeof report.bwrap_path - 6; len++) {
        reset("a long folder");
        memset(folder, 'f', len);
        folder[0] = '/';
        folder[len] = '\0';
        (void)snprintf(program, sizeof program, "%s/bwrap", folder);
        rig.path = folder;
        rig.programs[0] = program;
        /* What of it has room is there, too. */
        rig.programs[1] = program;
        look();
    }
    compare("probe/room");
}

static void
who_ignores_its_children_hears_of_them_again(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        reset("children");
        rig.children.sa_handler = i == 1 || i == 3 ? SIG_IGN : SIG_DFL;
        rig.children.sa_flags = i == 2 ? SA_NOCLDWAIT | SA_RESTART : SA_RESTART;
        rig.sigaction_answer = i == 3 ? -1 : 0;
        look();
    }
    compare("probe/children");
}

static void
a_program_is_heard_to_its_end(void **state)
{
    static char longest[65];

    (void)state;
    reset("in pieces");
    rig.pieces[0] = "bubble";
    rig.pieces[1] = "wrap 1\nmore\n";
    rig.tick_ns = 1500 * WP_NS_PER_MS;
    look();
    reset("without a line's end");
    rig.pieces[0] = "1";
    look();
    memset(longest, 'v', sizeof longest - 1);
    for (size_t len = 62; len <= 64; len++) {
        reset("as much as has room");
        longest[len] = '\0';
        rig.pieces[0] = longest;
        rig.pieces[1] = "!";
        look();
        longest[len] = 'v';
    }
    reset("it says nothing for too long");
    rig.silent_at = 2;
    look();
    reset("it does not end");
    rig.silent_at = 3;
    rig.code = CLD_KILLED;
    rig.status = SIGKILL;
    look();
    reset("time is over");
    rig.tick_ns = 10000 * WP_NS_PER_MS;
    look();
    reset("a moment is left");
    rig.tick_ns = 10000 * WP_NS_PER_MS - 1;
    look();
    rig.tick_ns = 9999 * WP_NS_PER_MS;
    look();
    reset("a bad status");
    rig.status = 3;
    look();
    reset("not a word");
    rig.pieces[0] = NULL;
    rig.status = 3;
    look();
    reset("killed with status 0");
    rig.code = CLD_KILLED;
    look();
    reset("no pipe");
    rig.pipe_fails = true;
    look();
    reset("no null");
    rig.null_fails = true;
    look();
    reset("not started");
    rig.spawn_status = WP_UNAVAILABLE;
    look();
    compare("probe/runs");
}

static void
notes_have_a_largest_number_and_length(void **state)
{
    static char longest[WP_HOST_NOTE_LEN + 1];

    (void)state;
    memset(&report, 0, sizeof report);
    memset(longest, 'n', sizeof longest - 1);
    for (unsigned i = 1; i <= WP_HOST_NOTES_MAX + 2; i++) {
        wp_host_note(&report, "%s", longest);
        assert_int_equal(report.notes_len,
                         i < WP_HOST_NOTES_MAX ? i : WP_HOST_NOTES_MAX);
    }
    assert_int_equal(strlen(report.notes[WP_HOST_NOTES_MAX - 1]),
                     WP_HOST_NOTE_LEN - 1);
}

/* --- Trials --- */

static void try_it(enum wp_status (*trial)(const struct wp_local_config *config,
                                           const struct wp_host_report *report,
                                           struct wp_err *err))
{
    struct wp_err err;
    enum wp_status status;

    memset(&report, 0, sizeof report);
    (void)snprintf(report.bwrap_path, sizeof report.bwrap_path, "/bin/bwrap");
    (void)snprintf(report.runsc_path, sizeof report.runsc_path, "/bin/runsc");
    report.own_uids = rig.user == 0;
    rig.on = true;
    status = trial(&config, &report, &err);
    told(status, &err);
}

static void
a_trial_says_what_is_in_the_way(void **state)
{
    static char longest[600];
    static const struct {
        const char *says;
        int status;
    } rows[] = {
        {"", 0},
        {"warning: x\n", 0},
        {"bwrap: Creating new namespace failed\nmore\n", 1},
        {"bwrap: No permissions to create new Namespace", 1},
        {"bwrap: setting up uid map: Permission denied\n", 1},
        {"bwrap: Can't mount proc\nmore\n", 1},
        {"", 1},
        {"\nnamespace", 1},
        {longest, 1},
    };

    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        reset("a trial");
        rig.user = i == 0 ? 0 : 1000;
        rig.pieces[0] = rows[i].says;
        rig.status = rows[i].status;
        try_it(wp_host_try);
    }
    reset("not started");
    rig.spawn_status = WP_UNAVAILABLE;
    try_it(wp_host_try);
    reset("no descriptors");
    rig.pipe_fails = true;
    try_it(wp_host_try);
    compare("probe/trials");
}

static void
gvisor_must_say_its_word(void **state)
{
    static const struct {
        const char *says;
        int status;
    } rows[] = {
        {"warmpool-trial\n", 0},
        {"some warmpool-trial more", 0},
        {"", 0},
        {"warmpool-tria\n", 0},
        {"warmpool-trial\nfailed\n", 1},
        {"runsc: no ptrace\nmore\n", 128},
        {"", 1},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        reset("a trial");
        rig.user = i == 0 ? 0 : 1000;
        rig.pieces[0] = rows[i].says;
        rig.status = rows[i].status;
        try_it(wp_host_try_gvisor);
    }
    compare("probe/gvisor");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(what_the_machine_allows_is_reported),
        TEST(programs_are_found_by_path_or_name),
        TEST(a_path_that_has_no_room_is_passed_over),
        TEST(who_ignores_its_children_hears_of_them_again),
        TEST(a_program_is_heard_to_its_end),
        TEST(notes_have_a_largest_number_and_length),
        TEST(a_trial_says_what_is_in_the_way),
        TEST(gvisor_must_say_its_word),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
