/* A small file read whole, and the entries of a folder. */
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

    errno = EINTR; /* Of some call before. */
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

/* Goal: what comes in pieces is put together, up to the room there is. */
static void
test_in_pieces(void **state)
{
    static const char *const pieces[] = {"abc", "defg", "h"};

    (void)state;
    for (size_t cap = 1; cap <= 10; cap++) {
        char out[11];
        char path[64];
        int ends[2];
        ssize_t n = cap < 8 ? (ssize_t)cap : 8;

        /* Each write is read by a read of its own. */
        assert_int_equal(pipe2(ends, O_CLOEXEC | O_DIRECT), 0);
        for (size_t i = 0; i < 3; i++) {
            assert_int_equal(write(ends[1], pieces[i], strlen(pieces[i])),
                             strlen(pieces[i]));
        }
        assert_int_equal(close(ends[1]), 0);
        (void)snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
        memset(out, '-', sizeof out);
        assert_int_equal(wp_path_read(path, 0, out, cap, NULL), n);
        assert_memory_equal(out, "abcdefgh", (size_t)n);
        for (size_t i = (size_t)n; i < sizeof out; i++) {
            assert_int_equal(out[i], '-');
        }
        assert_int_equal(close(ends[0]), 0);
    }
}

/* Goal: a process whose standard input is closed reads files like any other. */
static void
test_as_descriptor_0(void **state)
{
    struct place place;
    char out[4];
    FILE *file;
    int saved = dup(STDIN_FILENO);
    ssize_t n;

    (void)state;
    make(&place);
    file = fopen(place.path, "we");
    assert_non_null(file);
    assert_true(fputs("ab", file) >= 0);
    assert_int_equal(fclose(file), 0);
    (void)close(STDIN_FILENO);
    n = wp_path_read(place.path, 0, out, sizeof out, NULL);
    if (saved >= 0) {
        assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
        (void)close(saved);
    }
    assert_int_equal(n, 2);
    drop(&place);
}

static void
test_folder(void **state)
{
    static char names[1024];
    struct place place;
    const struct dirent *entry;
    int before;
    int dir_fd;
    DIR *folder;

    (void)state;
    make(&place);
    (void)snprintf(names, sizeof names, "%s/.hidden", place.dir);
    dir_fd = open(place.dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir_fd >= 0);
    folder = wp_folder_open(dir_fd, ".");
    assert_non_null(folder);
    errno = EINTR; /* Of some call before. */
    assert_null(wp_folder_next(folder));
    assert_int_equal(errno, 0);
    wp_folder_close(folder);

    assert_int_equal(mkdir(place.path, 0755), 0);
    assert_int_equal(mkdir(names, 0755), 0);
    folder = wp_folder_open(dir_fd, ".");
    assert_non_null(folder);
    assert_true((fcntl(dirfd(folder), F_GETFD) & FD_CLOEXEC) != 0);
    names[0] = '\0';
    while ((entry = wp_folder_next(folder)) != NULL) {
        (void)strcat(names, entry->d_name);
    }
    assert_int_equal(errno, 0);
    assert_true(strcmp(names, "file.hidden") == 0 ||
                strcmp(names, ".hiddenfile") == 0);
    errno = ENOSPC;
    wp_folder_close(folder);
    wp_folder_close(NULL);
    assert_int_equal(errno, ENOSPC);

    /* None that is open is lost when it is no folder, or not there. */
    before = dup(dir_fd);
    assert_int_equal(close(before), 0);
    assert_null(wp_folder_open(dir_fd, "none"));
    assert_int_equal(errno, ENOENT);
    assert_int_equal(symlinkat("file", dir_fd, "link"), 0);
    assert_null(wp_folder_open(dir_fd, "link"));
    assert_int_equal(errno, ENOTDIR);
    folder = wp_folder_open(dir_fd, "file");
    assert_non_null(folder);
    /* It is gone: the rest is not the end. */
    assert_int_equal(dup2(dir_fd, dirfd(folder)), dirfd(folder));
    assert_null(wp_folder_next(folder));
    assert_int_equal(errno, EBADF);
    wp_folder_close(folder);
    assert_int_equal(dup(dir_fd), before);
    assert_int_equal(close(before), 0);

    assert_int_equal(unlinkat(dir_fd, "link", 0), 0);
    assert_int_equal(unlinkat(dir_fd, ".hidden", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(dir_fd, "file", AT_REMOVEDIR), 0);
    (void)close(dir_fd);
    drop(&place);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_and_bounded),
        cmocka_unit_test(test_what_is_no_file),
        cmocka_unit_test(test_folder),
        cmocka_unit_test(test_in_pieces),
        cmocka_unit_test(test_as_descriptor_0),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
