/* local/volumes/mount_into.h: a folder gets into namespaces that stand for a
 * sandbox, and where it does not, the error says at which step. */
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/volumes/mount_into.h"
#include "local/walls/rootfs.h"
#include "tests/support/base/temp_dir.h"

enum {
    USER = 23456, /* Of the sandbox. */
    OWNER = 1234, /* Of what is in the folder. */
};

static char dir[512];
static char from[600];
static char top[600];

/* A process in namespaces of its own. */
static pid_t box;
static int box_fd = -1;

static int
set_up(void **state)
{
    char file[640];
    FILE *made;

    (void)state;
    temp_dir_make(dir, sizeof dir);
    assert_int_equal(chmod(dir, 0755), 0);
    (void)snprintf(from, sizeof from, "%s/from", dir);
    (void)snprintf(top, sizeof top, "%s/top", dir);
    assert_int_equal(mkdir(from, 0755), 0);
    assert_int_equal(mkdir(top, 0755), 0);
    assert_int_equal(chmod(top, 0777), 0);
    (void)snprintf(file, sizeof file, "%s/file", from);
    made = fopen(file, "we");
    assert_non_null(made);
    (void)fclose(made);
    if (geteuid() == 0) {
        assert_int_equal(chown(file, OWNER, OWNER), 0);
    }
    return 0;
}

static void
box_end(void)
{
    if (box_fd >= 0) {
        (void)kill(box, SIGKILL);
        (void)waitpid(box, NULL, 0);
        (void)close(box_fd);
        box_fd = -1;
    }
}

static int
tear_down(void **state)
{
    struct wp_err err;

    (void)state;
    box_end();
    return wp_dir_remove(dir, &err) == WP_OK ? 0 : -1;
}

/* False: this machine has no namespaces for us. */
static bool
box_begin(uid_t user)
{
    char answer = 'n';
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    box = fork();
    assert_true(box >= 0);
    if (box == 0) {
        if ((user != geteuid() && (setresgid(user, user, user) != 0 ||
                                   setresuid(user, user, user) != 0)) ||
            /* As after an execve: the user may look at it. */
            prctl(PR_SET_DUMPABLE, 1) != 0 ||
            unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
            _exit(1);
        }
        (void)!write(fds[1], "y", 1);
        for (;;) {
            (void)pause();
        }
    }
    (void)close(fds[1]);
    (void)!read(fds[0], &answer, 1);
    (void)close(fds[0]);
    box_fd = (int)syscall(SYS_pidfd_open, box, 0);
    assert_true(box_fd >= 0);
    return answer == 'y';
}

/* As the box sees it. */
static const char *
inside(const char *path)
{
    static char out[768];

    (void)snprintf(out, sizeof out, "/proc/%d/root%s/%s", (int)box, top, path);
    return out;
}

static void
expect_failure(const struct wp_mount_into *mount, const char *words)
{
    struct wp_err err = {.msg = ""};

    assert_int_equal(wp_mount_into(mount, &err), WP_UNAVAILABLE);
    if (strncmp(err.msg, words, strlen(words)) != 0) {
        fail_msg("'%s', and '%s' was expected", err.msg, words);
    }
}

static void
test_a_folder_that_is_not_there(void **state)
{
    char gone[640];
    const struct wp_mount_into mount = {
        .from = gone, .pid = getpid(), .pidfd = -1, .top = top, .path = "a"};
    struct wp_err err;

    (void)state;
    (void)snprintf(gone, sizeof gone, "%s/gone", dir);
    expect_failure(&mount, "cannot open it: No such file or directory");
    assert_int_equal(wp_mount_into_check(&mount, &err), WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "cannot open it: No such file"));
}

static void
test_is_there_with_less_rights(void **state)
{
    struct wp_mount_into mount = {.from = from, .top = top, .path = "a/b"};
    char outside[640];
    struct statvfs vfs;
    struct stat st;
    struct wp_err err = {.msg = ""};

    (void)state;
    if (!box_begin(geteuid())) {
        (void)printf("SKIP: no user namespaces here\n");
        skip();
    }
    mount.pid = box;
    mount.pidfd = box_fd;
    assert_int_equal(wp_mount_into_check(&mount, &err), WP_OK);
    assert_int_not_equal(stat(inside("a"), &st), 0);
    for (int i = 0; i < 2; i++) { /* There already: the same. */
        if (wp_mount_into(&mount, &err) != WP_OK) {
            fail_msg("%s", err.msg);
        }
    }
    assert_int_equal(stat(inside("a/b/file"), &st), 0);
    assert_int_equal(statvfs(inside("a/b"), &vfs), 0);
    assert_true((vfs.f_flag & ST_NOSUID) != 0);
    /* Outside nothing is mounted. */
    (void)snprintf(outside, sizeof outside, "%s/a/b/file", top);
    assert_int_not_equal(stat(outside, &st), 0);
}

static void
test_owners_of_another_user(void **state)
{
    struct wp_mount_into mount = {.from = from,
                                  .top = top,
                                  .path = "a",
                                  .own_user = true,
                                  .user = USER,
                                  .owner = OWNER};
    struct stat st;
    struct wp_err err = {.msg = ""};

    (void)state;
    if (geteuid() != 0 || !box_begin(USER)) {
        (void)printf("SKIP: not root with user namespaces\n");
        skip();
    }
    mount.pid = box;
    mount.pidfd = box_fd;
    if (wp_mount_into(&mount, &err) != WP_OK) {
        if (strstr(err.msg, "a file system that cannot?") != NULL) {
            (void)printf("SKIP: %s\n", err.msg);
            skip();
        }
        fail_msg("%s", err.msg);
    }
    assert_int_equal(stat(inside("a/file"), &st), 0);
    assert_int_equal(st.st_uid, USER);
    assert_int_equal(st.st_gid, USER);
    assert_int_equal(geteuid(), 0);
}

/* Each is told by its step. */
static void
test_a_sandbox_that_cannot_be_entered(void **state)
{
    struct wp_mount_into mount = {.from = from, .top = top, .path = "a"};
    char file[640];
    int dead_fd;

    (void)state;
    if (!box_begin(geteuid())) {
        (void)printf("SKIP: no user namespaces here\n");
        skip();
    }
    mount.pid = box;
    mount.pidfd = box_fd;
    (void)snprintf(file, sizeof file, "%s/file", from);
    mount.top = file;
    expect_failure(&mount,
                   "cannot make its place in the sandbox: Not a directory");
    mount.top = top;
    mount.from = file;
    expect_failure(&mount, "cannot mount it in the sandbox: ");
    mount.from = from;
    /* The number is another process's by now. */
    dead_fd = dup(box_fd);
    assert_true(dead_fd >= 0);
    box_end();
    mount.pidfd = dead_fd;
    expect_failure(&mount, "cannot enter the sandbox: No such file");
    mount.pid = getpid();
    expect_failure(&mount, "cannot enter the sandbox: No such process");
    (void)close(dead_fd);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_folder_that_is_not_there, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_is_there_with_less_rights, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_owners_of_another_user, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_sandbox_that_cannot_be_entered,
                                        set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
