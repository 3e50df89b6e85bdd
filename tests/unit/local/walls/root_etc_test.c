/* tests/unit/local/walls/root_etc_test.c - what of the machine's own /etc a root
 * shows, and what is written in its place. */
#include <fcntl.h>
#include <fts.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/walls/rootfs.h"
#include "pool/base/compiler.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/temp_dir.h"

static char dir[160];
static char ssl_dir[176];   /* dir/ssl, the machine's; */
static struct wp_root root; /* dir/root is what we make. */
static struct wp_err err;

/* Is /etc/ssl, and all there is in /etc; NULL: as it is. */
static char *host_ssl;

FTS *__real_fts_open(char *const paths[], int options,
                     int (*compare)(const FTSENT **, const FTSENT **));
FTS *__wrap_fts_open(char *const paths[], int options,
                     int (*compare)(const FTSENT **, const FTSENT **));

FTS *
__wrap_fts_open(char *const paths[], int options,
                int (*compare)(const FTSENT **, const FTSENT **))
{
    char *const instead[] = {host_ssl, NULL};

    if (host_ssl == NULL) {
        return __real_fts_open(paths, options, compare);
    }
    return strcmp(paths[0], "/etc/ssl") == 0
               ? __real_fts_open(instead, options, compare)
               : NULL;
}

static int
set_up(void **state)
{
    char path[512];

    (void)state;
    temp_dir_make(dir, sizeof dir);
    (void)snprintf(ssl_dir, sizeof ssl_dir, "%s/ssl", dir);
    (void)snprintf(root.dir, sizeof root.dir, "%s/root", dir);
    (void)snprintf(path, sizeof path, "%s/root%s", dir, ssl_dir);
    return mkdir(ssl_dir, 0755) == 0 && wp_dir_make(path, 0755, &err) == WP_OK
               ? 0
               : -1;
}

static int
tear_down(void **state)
{
    (void)state;
    return wp_dir_remove(dir, &err) == WP_OK ? 0 : -1;
}

/* What not all may read nobody sees, nor what is below it. */
static void
test_what_is_closed(void **state)
{
    static const struct {
        const char *path;
        mode_t mode;
        bool is_folder;
        bool seen;
    } entries[] = {
        {"closed", 0751, true, false},       {"closed/key", 0644, false, false},
        {"closed/below", 0755, true, false}, {"open", 0755, true, true},
        {"open/key", 0640, false, false},    {"open/text", 0644, false, true},
    };
    char path[512];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(entries); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", ssl_dir, entries[i].path);
        if (entries[i].is_folder) {
            assert_int_equal(mkdir(path, 0755), 0);
        } else {
            int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

            assert_true(fd >= 0);
            (void)close(fd);
        }
        assert_int_equal(chmod(path, entries[i].mode), 0);
    }
    host_ssl = ssl_dir;
    assert_int_equal(wp_root_make_etc(&root, &err), WP_OK);
    host_ssl = NULL;
    for (size_t i = 0; i < WP_ARRAY_LEN(entries); i++) {
        (void)snprintf(path, sizeof path, "%s/root%s/%s", dir, ssl_dir,
                       entries[i].path);
        assert_int_equal(access(path, F_OK) == 0, entries[i].seen);
    }
}

/* A file of it is open, and its disk is full. */
static void
test_files_that_have_no_room(void **state)
{
    char path[200];
    size_t before;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/root/etc", dir);
    assert_int_equal(wp_dir_make(path, 0755, &err), WP_OK);
    (void)snprintf(path, sizeof path, "%s/root/etc/passwd", dir);
    assert_int_equal(symlink("/dev/full", path), 0);
    before = descriptors_count();
    assert_int_equal(wp_root_make_etc(&root, &err), WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "/etc/passwd"));
    assert_non_null(strstr(err.msg, "No space left"));
    assert_int_equal(descriptors_count(), before);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_closed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_that_have_no_room, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
