/* The cache of repositories, kept within its bounds. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/fetch/cache_sweep.h"
#include "local/walls/rootfs.h"
#include "tests/support/base/temp_dir.h"

enum {
    BYTES = 64 << 10,
};

static char dir[256];

/* What the sweep meets. */
static struct {
    bool on;
    int calls;
    int fail_at;
    time_t now; /* 0: the machine's. */
} rig;

static bool
fails(void)
{
    return rig.on && ++rig.calls == rig.fail_at;
}

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
DIR *__real_opendir(const char *path);
DIR *__wrap_opendir(const char *path);
time_t __real_time(time_t *out);
time_t __wrap_time(time_t *out);

void *
__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

char *
__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

DIR *
__wrap_opendir(const char *path)
{
    return fails() ? NULL : __real_opendir(path);
}

time_t
__wrap_time(time_t *out)
{
    return rig.on && rig.now != 0 ? rig.now : __real_time(out);
}

/* Of that age. */
static void
make_file(const char *path, int64_t age_s)
{
    static const char zeros[BYTES];
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                      {.tv_sec = time(NULL) - age_s}};
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, zeros, BYTES), BYTES);
    assert_int_equal(fsync(fd), 0); /* So that it has its blocks. */
    assert_int_equal(futimens(fd, times), 0);
    (void)close(fd);
}

static void
set_age(const char *path, int64_t age_s)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT},
                                      {.tv_sec = time(NULL) - age_s}};

    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static bool
is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* Two images and a mirror, each older than the one before it. */
static int
set_up(void **state)
{
    (void)state;
    memset(&rig, 0, sizeof rig);
    temp_dir_make(dir, sizeof dir);
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(mkdir("a", 0700), 0);
    assert_int_equal(mkdir("b", 0700), 0);
    assert_int_equal(mkdir("b/mirror.git", 0700), 0);
    make_file("a/1.image", 10);
    make_file("b/2.image", 100);
    make_file("b/mirror.git/pack", 0);
    set_age("b/mirror.git", 1000);
    return 0;
}

static int
tear_down(void **state)
{
    struct wp_err err;

    (void)state;
    assert_int_equal(chdir("/"), 0);
    return wp_dir_remove(dir, &err) == WP_OK ? 0 : -1;
}

static void
test_within_bounds(void **state)
{
    (void)state;
    assert_true(wp_cache_sweep(UINT64_C(1) << 40, 100000));
    assert_true(is_there("a/1.image") && is_there("b/2.image") &&
                is_there("b/mirror.git/pack"));
}

static void
test_least_recently_used_first(void **state)
{
    (void)state;
    assert_true(wp_cache_sweep(2 * BYTES + BYTES / 2, 100000));
    assert_true(is_there("a/1.image") && is_there("b/2.image"));
    assert_false(is_there("b/mirror.git"));
    assert_true(wp_cache_sweep(BYTES + BYTES / 2, 100000));
    assert_true(is_there("a/1.image"));
    assert_false(is_there("b/2.image"));
    assert_true(wp_cache_sweep(0, 100000));
    assert_false(is_there("a/1.image"));
}

static void
test_by_age(void **state)
{
    (void)state;
    assert_true(wp_cache_sweep(UINT64_C(1) << 40, 50));
    assert_true(is_there("a/1.image"));
    assert_false(is_there("b/2.image"));
    assert_false(is_there("b/mirror.git"));
}

static void
test_in_use(void **state)
{
    int lock = open("b/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    (void)state;
    assert_true(lock >= 0);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    make_file("b/dirty", 0);
    assert_true(wp_cache_sweep(0, 100000));
    assert_false(is_there("b/2.image"));
    assert_true(is_there("b/mirror.git/pack"));
    /* Whoever made one was cut off. */
    (void)close(lock);
    assert_true(wp_cache_sweep(UINT64_C(1) << 40, 100000));
    assert_false(is_there("b/mirror.git"));
    assert_false(is_there("b/dirty"));
    assert_true(is_there("a")); /* We are where we were. */
}

/* Neither a link nor what is hidden is a repository's. */
static void
test_what_is_no_repository(void **state)
{
    (void)state;
    assert_int_equal(mkdir(".c", 0700), 0);
    make_file(".c/1.image", 100000);
    assert_int_equal(symlink(".c", "link"), 0);
    make_file("file", 100000);
    assert_true(wp_cache_sweep(0, 50000));
    assert_false(is_there("a/1.image"));
    assert_true(is_there(".c/1.image") && is_there("link") && is_there("file"));
}

static uint64_t
bytes_of(const char *path)
{
    struct stat st;

    assert_int_equal(lstat(path, &st), 0);
    return (uint64_t)st.st_blocks * 512;
}

/* As much as there may be is not too much; what is no image counts nothing. */
static void
test_exactly_full(void **state)
{
    uint64_t bytes = bytes_of("a/1.image") + bytes_of("b/2.image") +
                     bytes_of("b/mirror.git") + bytes_of("b/mirror.git/pack");

    (void)state;
    make_file("a/.image", 100000);
    make_file("a/other", 100000);
    assert_true(wp_cache_sweep(bytes, 50000));
    assert_true(is_there("b/mirror.git/pack"));
    assert_true(wp_cache_sweep(bytes - 1, 50000));
    assert_false(is_there("b/mirror.git"));
    assert_true(is_there("a/1.image") && is_there("b/2.image"));
    assert_true(is_there("a/.image") && is_there("a/other"));
}

static void
test_empty_folders(void **state)
{
    (void)state;
    assert_int_equal(mkdir("c", 0700), 0);
    assert_int_equal(mkdir("d", 0700), 0);
    set_age("d", 7200);
    assert_true(wp_cache_sweep(UINT64_C(1) << 40, 100000));
    assert_true(is_there("c") && is_there("a") && is_there("b"));
    assert_false(is_there("d"));
}

/* It is told, and nothing is removed; no folder is taken for an empty one. One
 * that cannot be opened is passed over. */
static void
test_lack_of_memory(void **state)
{
    int told = 0;

    (void)state;
    do {
        rig.calls = 0;
        rig.fail_at++;
        rig.on = true;
        told += wp_cache_sweep(UINT64_C(1) << 40, 1000000) ? 0 : 1;
        rig.on = false;
        assert_true(is_there("a/1.image") && is_there("b/2.image") &&
                    is_there("b/mirror.git/pack"));
    } while (rig.calls >= rig.fail_at);
    /* The folder of all, the list, and three names; not the two folders. */
    assert_int_equal(rig.fail_at - 1, 7);
    assert_int_equal(told, 5);
}

/* A folder of which not all is known is not dropped as an empty one. */
static void
test_lack_of_memory_drops_nothing(void **state)
{
    (void)state;
    assert_int_equal(close(open("a/lock", O_WRONLY | O_CREAT, 0600)), 0);
    set_age("a", 100000);
    assert_int_equal(unlink("b/2.image"), 0);
    assert_int_equal(rename("b/mirror.git", "a/mirror.git"), 0);
    assert_int_equal(rmdir("b"), 0);
    set_age("a", 100000);
    rig.fail_at = 3; /* The list. */
    rig.on = true;
    assert_false(wp_cache_sweep(UINT64_C(1) << 40, 1000000));
    rig.on = false;
    assert_true(is_there("a/lock"));
}

/* What could not be removed takes its room, so others must go. */
static void
test_a_mirror_in_use_takes_its_room(void **state)
{
    int lock = open("b/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    (void)state;
    assert_true(lock >= 0);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    assert_true(wp_cache_sweep(2 * BYTES + BYTES / 2, 100000));
    assert_true(is_there("b/mirror.git/pack") && is_there("a/1.image"));
    assert_false(is_there("b/2.image"));
    assert_int_equal(close(lock), 0);
}

/* To the second. */
static void
test_ages_have_an_end(void **state)
{
    struct stat st;

    (void)state;
    assert_int_equal(stat("b/2.image", &st), 0);
    rig.on = true;
    rig.now = st.st_mtime + 500;
    assert_true(wp_cache_sweep(UINT64_C(1) << 40, 500));
    assert_true(is_there("b/2.image"));
    rig.now++;
    assert_true(wp_cache_sweep(UINT64_C(1) << 40, 500));
    assert_false(is_there("b/2.image"));
    assert_int_equal(mkdir("c", 0700), 0);
    assert_int_equal(stat("c", &st), 0);
    rig.now = st.st_mtime + 3599;
    assert_true(wp_cache_sweep(UINT64_C(1) << 40, 100000));
    assert_true(is_there("c"));
    rig.now++;
    assert_true(wp_cache_sweep(UINT64_C(1) << 40, 100000));
    assert_false(is_there("c"));
}

/* More than a list has room for at first. */
static void
test_many_images(void **state)
{
    char name[32];

    (void)state;
    for (int i = 0; i < 200; i++) {
        int fd;

        (void)snprintf(name, sizeof name, "a/%d.image", 1000 + i);
        fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(close(fd), 0);
        set_age(name, i < 100 ? 5000 : 10);
    }
    assert_true(wp_cache_sweep(UINT64_C(1) << 40, 3000));
    for (int i = 0; i < 200; i++) {
        (void)snprintf(name, sizeof name, "a/%d.image", 1000 + i);
        assert_int_equal(is_there(name), i >= 100);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_within_bounds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_least_recently_used_first, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_by_age, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_in_use, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_no_repository, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_exactly_full, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_empty_folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lack_of_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lack_of_memory_drops_nothing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_mirror_in_use_takes_its_room,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ages_have_an_end, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_many_images, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
