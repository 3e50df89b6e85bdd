/* tests/unit/allocator/stores/sqlite/lease_sqlite_open_test.c - who may open the SQLite store's file,
 * and what is refused in its place and left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/stores/sqlite_rig.h"

static unsigned
mode_of(const char *name)
{
    struct stat st;

    assert_int_equal(stat(name, &st), 0);
    return st.st_mode & 0777;
}

/* Only the owner may read it, whatever the umask; others' permissions on an
 * older file are taken away. Nothing else is left in the directory. */
static void
test_only_the_owner_reads_it(void **state)
{
    mode_t before = umask(0);
    char command[600];

    (void)state;
    sqlite_rig_open();
    sqlite_rig_offer(1);
    assert_int_equal(mode_of(sqlite_rig.path), 0600);
    assert_int_equal(mode_of(sqlite_rig.log_path), 0600);
    sqlite_rig_close();
    assert_int_equal(chmod(sqlite_rig.path, 0644), 0);
    sqlite_rig_open();
    assert_int_equal(mode_of(sqlite_rig.path), 0600);
    sqlite_rig_close();
    (void)umask(before);
    (void)snprintf(command, sizeof command, "test \"$(ls %s)\" = leases.db",
                   sqlite_rig.dir);
    assert_int_equal(system(command), 0);
}

/* A second store is refused while the first lives, in this process and in
 * another; afterwards it may. */
static void
test_second_opener_is_refused(void **state)
{
    int status = 0;
    pid_t child;

    (void)state;
    sqlite_rig_open();
    sqlite_rig_offer(1);
    sqlite_rig_refused(WP_UNAVAILABLE, "in use by another process");
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct wp_err err;

        _exit(sqlite_rig_try_open(&err) == NULL &&
                      err.status == WP_UNAVAILABLE &&
                      strstr(err.msg, "in use by another process") != NULL
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    /* The first is none the worse for it. */
    sqlite_rig_offer(2);
    sqlite_rig_close();
    sqlite_rig_open();
    assert_int_equal(sqlite_rig_state(2), WP_RECORD_OPEN);
    sqlite_rig_close();
}

enum {
    MAKERS = 6
};

/* A child's part: tells the outcome, and keeps what it has until `over`. */
_Noreturn static void
make_with_others(int go, int told, int over)
{
    struct wp_err err;
    char verdict = 'l';
    char byte;

    (void)!read(go, &byte, 1); /* Until the parent closes it. */
    if (sqlite_rig_try_open(&err) != NULL) {
        verdict = 'w';
    } else if (err.status != WP_UNAVAILABLE ||
               strstr(err.msg, "in use") == NULL) {
        (void)fprintf(stderr, "%s\n", err.msg);
        verdict = 'x';
    }
    (void)!write(told, &verdict, 1);
    (void)!read(over, &byte, 1);
    _exit(0);
}

/* Several processes find no file at the same moment: one makes it and has it,
 * the others are told so; nothing else is left behind. */
static void
test_one_of_many_makes_the_file(void **state)
{
    char command[600];
    char verdict;
    int winners = 0;
    int told[2];
    int over[2];
    int go[2];

    (void)state;
    assert_int_equal(pipe(go) + pipe(told) + pipe(over), 0);
    for (int i = 0; i < MAKERS; i++) {
        pid_t child = fork();

        assert_true(child >= 0);
        if (child == 0) {
            (void)close(go[1]);
            (void)close(over[1]);
            make_with_others(go[0], told[1], over[0]);
        }
    }
    (void)close(go[1]);
    for (int i = 0; i < MAKERS; i++) {
        assert_int_equal(read(told[0], &verdict, 1), 1);
        assert_true(verdict == 'w' || verdict == 'l');
        winners += verdict == 'w' ? 1 : 0;
    }
    assert_int_equal(winners, 1);
    (void)close(over[1]);
    for (int i = 0; i < MAKERS; i++) {
        assert_true(wait(NULL) > 0);
    }
    (void)close(go[0]);
    (void)close(told[0]);
    (void)close(told[1]);
    (void)close(over[0]);
    (void)snprintf(command, sizeof command,
                   "test -z \"$(ls %s | grep -v '^leases.db')\"",
                   sqlite_rig.dir);
    assert_int_equal(system(command), 0);
}

/* Root may write any file: it does so as somebody else. */
static void
test_a_file_that_cannot_be_written(void **state)
{
    const unsigned other = geteuid() == 0 ? 65534 : geteuid();

    (void)state;
    sqlite_rig_open();
    sqlite_rig_close();
    assert_int_equal(chmod(sqlite_rig.path, 0400), 0);
    assert_int_equal(chown(sqlite_rig.path, other, (gid_t)-1), 0);
    assert_int_equal(chown(sqlite_rig.dir, other, (gid_t)-1), 0);
    (void)setfsuid(other);
    sqlite_rig_refused(WP_UNAVAILABLE, "cannot be written");
    (void)setfsuid(geteuid());
    assert_int_equal(chown(sqlite_rig.dir, geteuid(), (gid_t)-1), 0);
}

static void
test_foreign_files_are_refused(void **state)
{
    static const char text[] = "These are somebody's notes, not leases. They "
                               "are longer than a database header, which has "
                               "a hundred bytes and begins with its name.";

    (void)state;
    sqlite_rig_write(sqlite_rig.path, 0, text, sizeof text);
    sqlite_rig_refused_leaves_it(WP_FAILED_PRECONDITION, "is not a lease file");
    assert_int_equal(unlink(sqlite_rig.path), 0);
    sqlite_rig_write(sqlite_rig.path, 0, "", 0);
    sqlite_rig_refused_leaves_it(WP_FAILED_PRECONDITION, "is not a lease file");
    assert_int_equal(unlink(sqlite_rig.path), 0);
    sqlite_rig_sql(
        "CREATE TABLE bookmarks (url TEXT); PRAGMA user_version = 1");
    sqlite_rig_refused_leaves_it(WP_FAILED_PRECONDITION, "is not a lease file");
    assert_int_equal(unlink(sqlite_rig.path), 0);
    assert_int_equal(mkdir(sqlite_rig.path, 0700), 0);
    sqlite_rig_refused(WP_FAILED_PRECONDITION, "is not a regular file");
    assert_int_equal(rmdir(sqlite_rig.path), 0);
}

static void
test_log_without_file_is_refused(void **state)
{
    struct stat st;

    (void)state;
    sqlite_rig_fill(1);
    sqlite_rig_open();
    sqlite_rig_offer(5);
    assert_int_equal(unlink(sqlite_rig.path), 0);
    sqlite_rig_close();
    sqlite_rig_write(sqlite_rig.log_path, 0, "x", 1);
    sqlite_rig_refused(WP_FAILED_PRECONDITION, "is missing but its log");
    assert_int_not_equal(stat(sqlite_rig.path, &st), 0);
}

/* In a child that is not root, since root may write everywhere. */
static void
test_unwritable_places_are_refused(void **state)
{
    int status = 0;
    pid_t child;

    (void)state;
    sqlite_rig_fill(1);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct wp_err err;
        bool ok = true;

        if (geteuid() == 0) {
            ok = chmod(sqlite_rig.dir, 0755) == 0 &&
                 chown(sqlite_rig.path, 65534, 65534) == 0 &&
                 setgid(65534) == 0 && setuid(65534) == 0;
        } else {
            ok = chmod(sqlite_rig.dir, 0500) == 0;
        }
        /* The file may be written, but no log can be made beside it. */
        ok = ok && sqlite_rig_try_open(&err) == NULL &&
             err.status == WP_UNAVAILABLE &&
             strstr(err.msg, sqlite_rig.path) != NULL;
        print_message("    refused: %s\n", err.msg);
        (void)snprintf(sqlite_rig.path, sizeof sqlite_rig.path, "%s/other.db",
                       sqlite_rig.dir);
        ok = ok && sqlite_rig_try_open(&err) == NULL &&
             err.status == WP_UNAVAILABLE && err.os_errno == EACCES &&
             strstr(err.msg, sqlite_rig.path) != NULL;
        print_message("    refused: %s\n", err.msg);
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(chmod(sqlite_rig.dir, 0700), 0);
    assert_int_equal(status, 0);
    (void)snprintf(sqlite_rig.path, sizeof sqlite_rig.path,
                   "%s/no/such/leases.db", sqlite_rig.dir);
    sqlite_rig_refused(WP_UNAVAILABLE, "No such file or directory");
    (void)snprintf(sqlite_rig.path, sizeof sqlite_rig.path, "%s/leases.db",
                   sqlite_rig.dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_only_the_owner_reads_it, sqlite_rig_set_up),
        cmocka_unit_test_setup(test_second_opener_is_refused,
                               sqlite_rig_set_up),
        cmocka_unit_test_setup(test_one_of_many_makes_the_file,
                               sqlite_rig_set_up),
        cmocka_unit_test_setup(test_a_file_that_cannot_be_written,
                               sqlite_rig_set_up),
        cmocka_unit_test_setup(test_foreign_files_are_refused,
                               sqlite_rig_set_up),
        cmocka_unit_test_setup(test_log_without_file_is_refused,
                               sqlite_rig_set_up),
        cmocka_unit_test_setup(test_unwritable_places_are_refused,
                               sqlite_rig_set_up),
    };

    return cmocka_run_group_tests(tests, sqlite_rig_make, sqlite_rig_remove);
}
