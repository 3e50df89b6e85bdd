/* local/sandbox/fetch_process.c: the cache's directory, and what is started for
 * a run; a script stands for bubblewrap. */
#include <errno.h>
#include <fcntl.h>
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/fetch_process.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/temp_dir.h"

enum {
    PATH_BYTES = 800,
    OTHER_USER = 54321,
    PATIENCE_MS = 60000,
};

/* One cache, not made yet, in a folder of its own. */
struct rig {
    char dir[512];
    char cache[PATH_BYTES];
    char bwrap[PATH_BYTES];
    char seccomp[PATH_BYTES];
    int lock_fd;
    struct wp_fetch_process process;
    struct wp_fetch_runner runner;
};

static void
rig_init(struct rig *rig)
{
    temp_dir_make(rig->dir, sizeof rig->dir);
    (void)snprintf(rig->cache, sizeof rig->cache, "%s/cache", rig->dir);
    (void)snprintf(rig->bwrap, sizeof rig->bwrap, "%s/bwrap", rig->dir);
    (void)snprintf(rig->seccomp, sizeof rig->seccomp, "%s/filter", rig->dir);
    rig->lock_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(rig->lock_fd >= 0);
    rig->process = (struct wp_fetch_process){
        .bwrap_path = rig->bwrap,
        .path = "/the/fetch",
        .cache_dir = rig->cache,
        .lock_fd = &rig->lock_fd,
    };
}

static void
rig_fini(struct rig *rig)
{
    char command[PATH_BYTES + 16];

    (void)close(rig->lock_fd);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", rig->dir);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

static void
write_file(const char *path, const char *text, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
}

static const char *
in_cache(const struct rig *rig, const char *name)
{
    static char path[PATH_BYTES + 32];

    (void)snprintf(path, sizeof path, "%s/%s", rig->cache, name);
    return path;
}

static void
begin(struct rig *rig)
{
    struct wp_err err;

    assert_int_equal(wp_fetch_process_init(&rig->process, &rig->runner, &err),
                     WP_OK);
}

/* Whose it is, and that nobody else gets in. */
static void
expect_folder(const char *path, uid_t owner)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(st.st_uid, owner);
}

/* --- The cache's directory --- */

static void
makes_the_cache_for_its_user_only(void **state)
{
    mode_t before = umask(0);
    struct rig rig;

    (void)state;
    rig_init(&rig);
    begin(&rig);
    expect_folder(rig.cache, geteuid());
    /* What is in it stays for the next daemon. */
    write_file(in_cache(&rig, "kept"), "x", 0600);
    begin(&rig);
    assert_int_equal(access(in_cache(&rig, "kept"), F_OK), 0);
    (void)umask(before);
    rig_fini(&rig);
}

static void
replaces_what_is_no_directory(void **state)
{
    struct rig rig;

    (void)state;
    for (int link = 0; link < 2; link++) {
        rig_init(&rig);
        if (link != 0) {
            assert_int_equal(symlink(rig.dir, rig.cache), 0);
        } else {
            write_file(rig.cache, "x", 0600);
        }
        begin(&rig);
        expect_folder(rig.cache, geteuid());
        assert_int_equal(access(rig.dir, F_OK), 0);
        rig_fini(&rig);
    }
}

static void
replaces_the_directory_of_another_user(void **state)
{
    struct rig rig;

    (void)state;
    if (geteuid() != 0) {
        print_message("SKIP: not root\n");
        skip();
    }
    rig_init(&rig);
    begin(&rig);
    write_file(in_cache(&rig, "old"), "x", 0600);
    rig.process.drop = true;
    rig.process.uid = OTHER_USER;
    begin(&rig);
    expect_folder(rig.cache, OTHER_USER);
    assert_int_equal(access(in_cache(&rig, "old"), F_OK), -1);
    /* Back again, as after a change of the daemon's user. */
    write_file(in_cache(&rig, "old"), "x", 0600);
    rig.process.drop = false;
    begin(&rig);
    expect_folder(rig.cache, geteuid());
    assert_int_equal(access(in_cache(&rig, "old"), F_OK), -1);
    rig_fini(&rig);
}

static void
tells_why_there_is_no_cache(void **state)
{
    struct rig rig;
    struct wp_err err;

    (void)state;
    rig_init(&rig);
    rig.process.cache_dir = "/proc/version"; /* Nobody removes that. */
    assert_int_equal(wp_fetch_process_init(&rig.process, &rig.runner, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "cannot remove"));
    write_file(rig.cache, "x", 0600);
    rig.process.cache_dir = in_cache(&rig, "below");
    assert_int_equal(wp_fetch_process_init(&rig.process, &rig.runner, &err),
                     WP_UNAVAILABLE);
    assert_int_equal(err.os_errno, ENOTDIR);
    assert_non_null(strstr(err.msg, "cannot make directory"));
    rig_fini(&rig);
}

/* Without the right to give files away. */
static void
tells_that_the_cache_cannot_be_given_away(void **state)
{
    uid_t self = geteuid();
    uid_t plain = self == 0 ? OTHER_USER : self;
    struct rig rig;
    struct wp_err err;
    enum wp_status status;

    (void)state;
    rig_init(&rig);
    assert_int_equal(chown(rig.dir, plain, (gid_t)-1), 0);
    /* By its name there: what is above may be closed to that user. */
    assert_int_equal(chdir(rig.dir), 0);
    rig.process.cache_dir = "cache";
    rig.process.drop = true;
    rig.process.uid = OTHER_USER + 1;
    assert_int_equal(seteuid(plain), 0);
    status = wp_fetch_process_init(&rig.process, &rig.runner, &err);
    assert_int_equal(seteuid(self), 0);
    assert_int_equal(status, WP_UNAVAILABLE);
    assert_int_equal(err.os_errno, EPERM);
    assert_non_null(strstr(err.msg, "the cache cache"));
    assert_int_equal(chdir("/"), 0);
    rig_fini(&rig);
}

/* --- A run --- */

static const struct wp_fetch_run checkout = {
    .part = "part",
    .url = "https://host/repo",
    .ref = "refs/heads/main",
    .bytes_max = UINT64_C(18446744073709551615),
    .credential = {"user\0password", 13},
};
static const struct wp_fetch_run sweep = {
    .bytes_max = 4096, .age_s = 77, .credential = {"", 0}};

static void
start(const struct rig *rig, const struct wp_fetch_run *run,
      struct wp_fetch_started *out)
{
    struct wp_err err;

    assert_int_equal(rig->runner.start(rig->runner.self, run, out, &err),
                     WP_OK);
    assert_true(out->report_fd >= 0);
    assert_true(out->end_fd >= 0);
}

/* It must not be started: status, and why. All descriptors that are left are
 * told. */
static void
expect_refusal(const struct rig *rig, const struct wp_fetch_run *run,
               enum wp_status status, const char *why)
{
    struct wp_fetch_started started = {-1, -1};
    struct wp_err err;

    assert_int_equal(rig->runner.start(rig->runner.self, run, &started, &err),
                     status);
    assert_non_null(strstr(err.msg, why));
    assert_int_equal(started.end_fd, -1);
    if (started.report_fd >= 0) {
        assert_int_equal(close(started.report_fd), 0);
    }
}

/* The next thing that it says. */
static void
expect_said(const struct wp_fetch_started *started, const char *want)
{
    static char said[16384];
    struct pollfd ready = {.fd = started->report_fd, .events = POLLIN};
    ssize_t n;

    assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
    n = recv(started->report_fd, said, sizeof said - 1, 0);
    assert_true(n > 0);
    said[n] = '\0';
    if (strstr(said, want) == NULL) {
        fail_msg("'%s' is not in '%s'", want, said);
    }
}

static void
finish(const struct rig *rig, const struct wp_fetch_started *started)
{
    struct pollfd ended = {.fd = started->end_fd, .events = POLLIN};

    assert_int_equal(poll(&ended, 1, PATIENCE_MS), 1);
    assert_true(rig->runner.has_ended(rig->runner.self, started->end_fd));
    (void)close(started->end_fd);
    (void)close(started->report_fd);
}

static void
runs_a_checkout_in_its_part(void **state)
{
    char want[2 * PATH_BYTES];
    struct wp_fetch_started started;
    struct rig rig;

    (void)state;
    rig_init(&rig);
    write_file(rig.bwrap,
               "#!/bin/sh\n"
               "echo \"$*\" >&3\n"
               "tr '\\0' '!' <&4 >&3\n"
               "echo \"${WP_LEAKS-nothing}\" >&3\n"
               "test ! -e /proc/self/fd/5 && echo no filter >&3\n",
               0700);
    begin(&rig);
    assert_int_equal(setenv("WP_LEAKS", "it does", 1), 0);
    start(&rig, &checkout, &started);
    assert_int_equal(unsetenv("WP_LEAKS"), 0);
    expect_folder(in_cache(&rig, "part"), geteuid());
    (void)snprintf(want, sizeof want,
                   "--ro-bind /the/fetch /warmpool-fetch --bind %s/part /cache"
                   " --remount-ro / --chdir /cache -- /warmpool-fetch checkout"
                   " https://host/repo refs/heads/main 18446744073709551615\n",
                   rig.cache);
    expect_said(&started, want);
    expect_said(&started, "user!password");
    expect_said(&started, "nothing");
    expect_said(&started, "no filter");
    finish(&rig, &started);
    rig_fini(&rig);
}

static void
sweeps_the_whole_cache_without_a_network(void **state)
{
    char want[2 * PATH_BYTES];
    struct wp_fetch_started started;
    struct rig rig;

    (void)state;
    rig_init(&rig);
    write_file(rig.bwrap,
               "#!/bin/sh\necho \"$*\" >&3\ncat <&4 >&3\ncat <&5 >&3\n", 0700);
    write_file(rig.seccomp, "the filter", 0600);
    rig.process.seccomp_path = rig.seccomp;
    begin(&rig);
    start(&rig, &sweep, &started);
    (void)snprintf(want, sizeof want,
                   "--bind %s /cache --remount-ro / --chdir /cache --seccomp 5"
                   " --unshare-net -- /warmpool-fetch sweep 4096 77\n",
                   rig.cache);
    expect_said(&started, want);
    expect_said(&started, "the filter");
    finish(&rig, &started);
    rig_fini(&rig);
}

static void
a_run_has_the_fetching_users_rights(void **state)
{
    siginfo_t info = {.si_uid = 0};
    struct wp_fetch_started started;
    struct rig rig;

    (void)state;
    if (geteuid() != 0) {
        print_message("SKIP: not root\n");
        skip();
    }
    rig_init(&rig);
    rig.process.bwrap_path = "/bin/true"; /* That user can get there. */
    rig.process.drop = true;
    rig.process.uid = OTHER_USER;
    begin(&rig);
    start(&rig, &checkout, &started);
    expect_folder(in_cache(&rig, "part"), OTHER_USER);
    assert_int_equal(
        waitid(P_PIDFD, (id_t)started.end_fd, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(info.si_uid, OTHER_USER);
    finish(&rig, &started);
    rig_fini(&rig);
}

static void
a_run_is_killed_and_waited_for(void **state)
{
    struct wp_fetch_started started;
    struct rig rig;
    siginfo_t info;

    (void)state;
    rig_init(&rig);
    write_file(rig.bwrap, "#!/bin/sh\nexec cat <&3\n", 0700);
    begin(&rig);
    start(&rig, &sweep, &started);
    assert_false(rig.runner.has_ended(rig.runner.self, started.end_fd));
    rig.runner.kill(rig.runner.self, started.end_fd);
    rig.runner.wait(rig.runner.self, started.end_fd);
    /* Nothing is left to wait for. */
    assert_int_equal(waitid(P_PIDFD, (id_t)started.end_fd, &info, WEXITED), -1);
    assert_int_equal(errno, ECHILD);
    (void)close(started.end_fd);
    (void)close(started.report_fd);
    rig_fini(&rig);
}

static void
drops_only_an_empty_part(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    begin(&rig);
    assert_int_equal(mkdir(in_cache(&rig, "empty"), 0700), 0);
    assert_int_equal(mkdir(in_cache(&rig, "full"), 0700), 0);
    write_file(in_cache(&rig, "full/x"), "x", 0600);
    rig.runner.drop(rig.runner.self, "empty");
    rig.runner.drop(rig.runner.self, "full");
    assert_int_equal(access(in_cache(&rig, "empty"), F_OK), -1);
    assert_int_equal(access(in_cache(&rig, "full/x"), F_OK), 0);
    rig_fini(&rig);
}

/* --- One that does not start --- */

static void
tells_why_a_part_cannot_be_used(void **state)
{
    struct wp_fetch_run run = checkout;
    struct rig rig;

    (void)state;
    rig_init(&rig);
    write_file(rig.bwrap, "#!/bin/sh\n", 0700);
    begin(&rig);
    write_file(in_cache(&rig, "file"), "x", 0600);
    run.part = "file";
    expect_refusal(&rig, &run, WP_UNAVAILABLE, "the cache ");
    /* Not even to a folder of the cache. */
    assert_int_equal(mkdir(in_cache(&rig, "other"), 0700), 0);
    assert_int_equal(symlink("other", in_cache(&rig, "link")), 0);
    run.part = "link";
    expect_refusal(&rig, &run, WP_UNAVAILABLE, "the cache ");
    rig.process.cache_dir = in_cache(&rig, "gone");
    expect_refusal(&rig, &checkout, WP_UNAVAILABLE, "the cache ");
    rig_fini(&rig);
}

static void
what_cannot_start_leaves_no_descriptor(void **state)
{
    struct rig rig;
    size_t before;

    (void)state;
    rig_init(&rig);
    begin(&rig);
    before = descriptors_count();
    expect_refusal(&rig, &sweep, WP_UNAVAILABLE, "could not execute");
    assert_int_equal(descriptors_count(), before);
    rig.process.bwrap_path = "/bin/true";
    rig.process.seccomp_path = rig.seccomp; /* There is none. */
    expect_refusal(&rig, &sweep, WP_RESOURCE_EXHAUSTED,
                   "no descriptors for a fetch");
    assert_int_equal(descriptors_count(), before);
    rig_fini(&rig);
}

/* However many there are left. */
static void
lives_through_a_lack_of_descriptors(void **state)
{
    struct wp_fetch_started started;
    struct rlimit old;
    struct rig rig;
    struct wp_err err;
    enum wp_status status = WP_RESOURCE_EXHAUSTED;
    size_t before;
    unsigned failed = 0;

    (void)state;
    rig_init(&rig);
    rig.process.bwrap_path = "/bin/true";
    begin(&rig);
    before = descriptors_count();
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    for (rlim_t limit = 0; status != WP_OK; limit++) {
        struct rlimit low = {.rlim_cur = limit, .rlim_max = old.rlim_max};

        assert_true(limit < old.rlim_cur);
        started = (struct wp_fetch_started){-1, -1};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
        status = rig.runner.start(rig.runner.self, &sweep, &started, &err);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
        if (status != WP_OK) {
            failed++;
            assert_int_equal(status, WP_RESOURCE_EXHAUSTED);
            assert_int_equal(started.end_fd, -1);
            if (started.report_fd >= 0) {
                assert_int_equal(close(started.report_fd), 0);
            }
            assert_int_equal(descriptors_count(), before);
        }
    }
    assert_true(failed > 8);
    finish(&rig, &started);
    assert_int_equal(descriptors_count(), before);
    rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_the_cache_for_its_user_only),
        cmocka_unit_test(replaces_what_is_no_directory),
        cmocka_unit_test(replaces_the_directory_of_another_user),
        cmocka_unit_test(tells_why_there_is_no_cache),
        cmocka_unit_test(tells_that_the_cache_cannot_be_given_away),
        cmocka_unit_test(runs_a_checkout_in_its_part),
        cmocka_unit_test(sweeps_the_whole_cache_without_a_network),
        cmocka_unit_test(a_run_has_the_fetching_users_rights),
        cmocka_unit_test(a_run_is_killed_and_waited_for),
        cmocka_unit_test(drops_only_an_empty_part),
        cmocka_unit_test(tells_why_a_part_cannot_be_used),
        cmocka_unit_test(what_cannot_start_leaves_no_descriptor),
        cmocka_unit_test(lives_through_a_lack_of_descriptors),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
