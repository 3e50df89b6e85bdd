/* A small file read whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/file.h"
#include "tests/support/base/temp_dir.h"

struct place {
    char dir[200];
    char path[220];
};

static void
make(struct place *place)
{
    temp_dir_make(place->dir, sizeof place->dir);
    (void)snprintf(place->path, sizeof place->path, "%s/file", place->dir);
}

static void
drop(const struct place *place)
{
    (void)unlink(place->path);
    assert_int_equal(rmdir(place->dir), 0);
}

static void
test_whole_and_bounded(void **state)
{
    struct place place;
    struct stat st;
    char out[16];
    FILE *file;

    (void)state;
    make(&place);
    file = fopen(place.path, "we");
    assert_non_null(file);
    assert_true(fputs("0123456789", file) >= 0);
    assert_int_equal(fclose(file), 0);

    assert_int_equal(wp_path_read(place.path, 0, out, sizeof out, &st), 10);
    assert_memory_equal(out, "0123456789", 10);
    assert_int_equal(st.st_size, 10);

    memset(out, '-', sizeof out);
    assert_int_equal(wp_path_read(place.path, 0, out, 4, NULL), 4);
    assert_memory_equal(out, "0123-", 5);
    drop(&place);
}

static void
test_what_is_no_file(void **state)
{
    struct place place;
    struct stat st;
    char out[16];

    (void)state;
    make(&place);
    st.st_mode = S_IFREG;
    assert_int_equal(wp_path_read(place.path, 0, out, sizeof out, &st), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(st.st_mode, 0);

    assert_int_equal(wp_path_read(place.dir, 0, out, sizeof out, &st), -1);
    assert_int_equal(errno, EISDIR);
    assert_true(S_ISDIR(st.st_mode));

    /* Nobody writes into the pipe, and nobody waits for one. */
    assert_int_equal(mkfifo(place.path, 0600), 0);
    assert_int_equal(wp_path_read(place.path, O_NONBLOCK, out, sizeof out, &st),
                     0);
    assert_true(S_ISFIFO(st.st_mode));
    drop(&place);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_and_bounded),
        cmocka_unit_test(test_what_is_no_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
