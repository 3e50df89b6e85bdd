/* Which files are taken for secrets: nobody else may own or read them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "allocator/daemon/files.h"

enum {
    POD_GROUP = 65532,
};

static char path[64];

static int
make_file(void **state)
{
    int fd;

    (void)state;
    (void)snprintf(path, sizeof path, "/tmp/warmpool-secret-XXXXXX");
    fd = mkstemp(path);
    if (fd < 0 || write(fd, "hunter2\n", 8) != 8) {
        return -1;
    }
    return close(fd);
}

static int
remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static bool
readable(mode_t mode)
{
    char out[32];
    struct wp_err err;

    if (mode != 0) {
        assert_int_equal(chmod(path, mode), 0);
    }
    if (wp_daemon_read_secret("token_key_file", path, out, sizeof out, &err) !=
        WP_OK) {
        return false;
    }
    return strcmp(out, "hunter2") == 0;
}

static void
own_file(void **state)
{
    (void)state;
    assert_true(readable(0600));
    assert_true(readable(0400));
    assert_false(readable(0644));
    assert_false(readable(0604));
    assert_false(readable(0620));
    /* One of ours that the group may read is a mistake, root's too. */
    assert_false(readable(0640));
}

/* Nothing but the ends of lines: an empty secret, and nothing is written before
 * it. */
static void
only_ends_of_lines(void **state)
{
    char room[8] = "\n";
    struct wp_err err;
    FILE *file = fopen(path, "we");

    (void)state;
    assert_non_null(file);
    assert_true(fputs("\n\r\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(wp_daemon_read_secret("token_key_file", path, room + 1,
                                           sizeof room - 1, &err),
                     WP_OK);
    assert_string_equal(room, "\n");
}

/* As in a Pod: root's file, of the Pod's group, and a user that is not root. */
static void
mounted_secret(void **state)
{
    static const struct {
        mode_t mode;
        bool readable;
    } rows[] = {{0440, true}, {0640, true}, {0444, false}, {0460, false}};

    (void)state;
    if (geteuid() != 0) {
        print_message("SKIP: only root can stand in for the kubelet\n");
        skip();
    }
    assert_int_equal(chown(path, 0, POD_GROUP), 0);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        pid_t child;
        int status;

        assert_int_equal(chmod(path, rows[i].mode), 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (setgid(POD_GROUP) != 0 || setuid(POD_GROUP) != 0) {
                _exit(2);
            }
            _exit(readable(0) == rows[i].readable ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

/* A file of a user who is neither root nor the daemon's is never taken: that
 * one chose what it says. Root could read it all the same. */
static void
file_of_another_user(void **state)
{
    char out[32];
    struct wp_err err;

    (void)state;
    if (geteuid() != 0) {
        print_message("SKIP: only root can give files away\n");
        skip();
    }
    assert_true(readable(0600));
    assert_int_equal(chown(path, POD_GROUP, POD_GROUP), 0);
    assert_int_equal(
        wp_daemon_read_secret("token_key_file", path, out, sizeof out, &err),
        WP_FAILED_PRECONDITION);
    assert_non_null(strstr(err.msg, "setting 'token_key_file'"));
    assert_non_null(strstr(err.msg, "not of user 65532"));
    assert_string_equal(out, "");
    assert_int_equal(chown(path, 0, 0), 0);
    assert_true(readable(0));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(own_file, make_file, remove_file),
        cmocka_unit_test_setup_teardown(only_ends_of_lines, make_file,
                                        remove_file),
        cmocka_unit_test_setup_teardown(mounted_secret, make_file, remove_file),
        cmocka_unit_test_setup_teardown(file_of_another_user, make_file,
                                        remove_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
