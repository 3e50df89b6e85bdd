/* tests/unit/local/sandbox/fetch_walls_test.c - the walls around warmpool-fetch
 * are all there, whatever the machine's folders are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "local/sandbox/fetch_walls.h"
#include "tests/support/local/journal.h"

static mode_t mode; /* Of the folders; 0: they are not there. */

int __wrap_lstat(const char *path, struct stat *out);

int
__wrap_lstat(const char *path, struct stat *out)
{
    NOTE("look at %s\n", path);
    *out = (struct stat){.st_mode = mode};
    return mode != 0 ? 0 : -1;
}

static void
walls(const char *what, int seccomp_fd)
{
    struct wp_fetch_args args = {.n = 0};

    NOTE("--- %s\n", what);
    wp_fetch_walls(&args, "/the/fetch", "/the/cache", seccomp_fd);
    for (size_t i = 0; i < args.n; i++) {
        NOTE("%s%s", args.word[i][0] == '-' ? "\n" : " ", args.word[i]);
    }
    NOTE("\n= %zu words\n", args.n);
    assert_null(args.word[args.n]);
}

static void
test_walls_are_whole(void **state)
{
    (void)state;
    journal_begin();
    mode = S_IFLNK;
    walls("links", 7);
    mode = S_IFDIR;
    walls("folders, no filter", -1);
    mode = 0;
    walls("none, the first descriptor", 0);
    journal_compare("fetch_walls");
}

static void
test_words_that_have_no_room_are_left_out(void **state)
{
    struct wp_fetch_args args = {.n = 0};

    (void)state;
    for (int i = 0; i < WP_FETCH_ARGS_MAX; i++) {
        wp_fetch_args_add(&args, "a", "b", "c");
    }
    assert_int_equal(args.n, WP_FETCH_ARGS_MAX - 1);
    assert_null(args.word[WP_FETCH_ARGS_MAX - 1]);
    for (size_t i = 0; i < args.n; i++) {
        assert_int_equal(args.word[i][0], "abc"[i % 3]);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_walls_are_whole),
        cmocka_unit_test(test_words_that_have_no_room_are_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
