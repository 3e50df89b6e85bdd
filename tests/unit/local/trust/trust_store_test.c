/* local/trust/store.h: a record is there whole, or it is said why it is not; and
 * what is then judged by it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/trust/store.h"
#include "local/trust/trust.h"
#include "local/walls/rootfs.h"
#include "proto/checkout/tree_image.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/temp_dir.h"

#define URL "https://h/r"

static char dir[512];
static char folder[600];
static struct wp_trust_store store;
static struct wp_err err;

static int
set_up(void **state)
{
    (void)state;
    temp_dir_make_fast(dir, sizeof dir);
    (void)snprintf(folder, sizeof folder, "%s/trust", dir);
    assert_int_equal(wp_trust_store_open(&store, folder, &err), WP_OK);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_trust_store_close(&store);
    assert_int_equal(store.dir_fd, -1);
    wp_trust_store_close(&store);
    return wp_dir_remove(dir, &err) == WP_OK ? 0 : -1;
}

static struct wp_trust_record
record_of(const char *tenant, const char *url)
{
    struct wp_trust_record record = {.n = 0};

    (void)snprintf(record.tenant, sizeof record.tenant, "%s", tenant);
    (void)snprintf(record.url, sizeof record.url, "%s", url);
    return record;
}

/* Where it is kept. */
static const char *
file_of(const char *tenant, const char *url)
{
    static char name[WP_TRUST_NAME_LEN + 1];

    wp_trust_record_name(tenant, url, name);
    return name;
}

static enum wp_status
save(const char *tenant, const char *url)
{
    struct wp_trust_record record = record_of(tenant, url);

    assert_int_equal(wp_trust_files_parse(WP_STR("a, b"), &record, &err),
                     WP_OK);
    record.files[0].state = WP_TRUST_FILE;
    memset(record.files[0].hash, 7, sizeof record.files[0].hash);
    return wp_trust_store_save(&store, &record, &err);
}

static void
is_read_as_it_was_written(void **state)
{
    struct wp_trust_record record = record_of("t", URL);

    (void)state;
    assert_int_equal(wp_trust_store_load(&store, &record, &err), WP_NOT_FOUND);
    assert_int_equal(save("t", URL), WP_OK);
    assert_int_not_equal(faccessat(store.dir_fd, "new", F_OK, 0), 0);
    assert_int_equal(wp_trust_store_load(&store, &record, &err), WP_OK);
    assert_int_equal(record.n, 2);
    assert_string_equal(record.files[0].path, "a");
    assert_int_equal(record.files[0].state, WP_TRUST_FILE);
    assert_int_equal(record.files[0].hash[31], 7);
    assert_int_equal(record.files[1].state, WP_TRUST_ABSENT);
}

static void
is_no_record(const char *tenant, const char *url)
{
    struct wp_trust_record record = record_of(tenant, url);

    assert_int_equal(wp_trust_store_load(&store, &record, &err),
                     WP_FAILED_PRECONDITION);
    assert_non_null(strstr(err.msg, file_of(tenant, url)));
    assert_non_null(strstr(err.msg, "is damaged"));
}

/* What is another's, or nobody's, counts for nobody. */
static void
is_damaged(void **state)
{
    char from[WP_TRUST_NAME_LEN + 1];
    int fd;

    (void)state;
    assert_int_equal(save("t", URL), WP_OK);
    (void)snprintf(from, sizeof from, "%s", file_of("t", URL));
    assert_int_equal(
        linkat(store.dir_fd, from, store.dir_fd, file_of("u", URL), 0), 0);
    is_no_record("u", URL);
    assert_int_equal(
        linkat(store.dir_fd, from, store.dir_fd, file_of("t", URL "2"), 0), 0);
    is_no_record("t", URL "2");
    fd = openat(store.dir_fd, file_of("v", URL), O_CREAT | O_WRONLY | O_CLOEXEC,
                0600);
    assert_true(fd >= 0);
    (void)close(fd);
    is_no_record("v", URL);
    /* A pipe that nobody writes into is not waited for. */
    assert_int_equal(mkfifoat(store.dir_fd, file_of("w", URL), 0600), 0);
    is_no_record("w", URL);
}

static void
cannot_be_read_or_written(void **state)
{
    struct wp_trust_record record = record_of("t", URL);

    (void)state;
    assert_int_equal(mkdirat(store.dir_fd, file_of("t", URL), 0700), 0);
    assert_int_equal(wp_trust_store_load(&store, &record, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "Is a directory"));
    assert_int_equal(save("t", URL), WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, file_of("t", URL)));
    assert_non_null(strstr(err.msg, "Is a directory"));
    assert_int_not_equal(faccessat(store.dir_fd, "new", F_OK, 0), 0);
    assert_int_equal(faccessat(store.dir_fd, file_of("t", URL), F_OK, 0), 0);
    /* Nobody else says where it is written to. */
    assert_int_equal(symlinkat("../elsewhere", store.dir_fd, "new"), 0);
    assert_int_equal(save("u", URL), WP_UNAVAILABLE);
    assert_int_not_equal(faccessat(store.dir_fd, "../elsewhere", F_OK, 0), 0);
    assert_int_equal(save("u", URL), WP_OK);
}

static struct {
    const char *call; /* It is changed, */
    int nth;          /* when it is made for the n-th time. */
    int error;        /* 0: it does a part only. */
} broken;

ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __real_read(int fd, void *out, size_t cap);
ssize_t __wrap_read(int fd, void *out, size_t cap);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_renameat(int from, const char *old, int to, const char *fresh);
int __wrap_renameat(int from, const char *old, int to, const char *fresh);
DIR *__real_fdopendir(int fd);
DIR *__wrap_fdopendir(int fd);
struct dirent *__real_readdir(DIR *from);
struct dirent *__wrap_readdir(DIR *from);

static bool
breaks(const char *call)
{
    bool now = broken.call != NULL && strcmp(broken.call, call) == 0 &&
               --broken.nth == 0;

    errno = now ? broken.error : errno;
    return now;
}

ssize_t
__wrap_write(int fd, const void *bytes, size_t len)
{
    if (breaks("write")) {
        return broken.error != 0 ? -1 : __real_write(fd, bytes, len / 2);
    }
    return __real_write(fd, bytes, len);
}

ssize_t
__wrap_read(int fd, void *out, size_t cap)
{
    if (breaks("read")) {
        return broken.error != 0 ? -1 : __real_read(fd, out, 3);
    }
    return __real_read(fd, out, cap);
}

int
__wrap_fsync(int fd)
{
    return breaks("fsync") ? -1 : __real_fsync(fd);
}

int
__wrap_renameat(int from, const char *old, int to, const char *fresh)
{
    return breaks("renameat") ? -1 : __real_renameat(from, old, to, fresh);
}

DIR *
__wrap_fdopendir(int fd)
{
    return breaks("fdopendir") ? NULL : __real_fdopendir(fd);
}

struct dirent *
__wrap_readdir(DIR *from)
{
    return breaks("readdir") ? NULL : __real_readdir(from);
}

/* A folder that cannot be counted is no full one. */
static void
what_cannot_be_counted_is_told(void **state)
{
    static const char *const calls[] = {"fdopendir", "readdir"};
    size_t before;

    (void)state;
    before = descriptors_count();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        broken.call = calls[i];
        broken.nth = 1;
        broken.error = EMFILE;
        assert_int_equal(save("t", URL), WP_UNAVAILABLE);
        broken.call = NULL;
        assert_non_null(strstr(err.msg, "counting the records"));
        assert_non_null(strstr(err.msg, "Too many open files"));
        assert_int_equal(descriptors_count(), before);
    }
    assert_int_equal(save("t", URL), WP_OK);
    /* One that is there is written anew without a count. */
    broken.call = "fdopendir";
    broken.nth = 1;
    assert_int_equal(save("t", URL), WP_OK);
    broken.call = NULL;
}

/* A failing call is told, and leaves what was; a new record is not there. */
static void
is_whole_or_as_it_was(void **state)
{
    static const struct {
        const char *call;
        int nth;
    } calls[] = {{"write", 1}, {"fsync", 1}, {"renameat", 1}, {"fsync", 2}};

    (void)state;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct wp_trust_record record = record_of("t", URL);

        broken.call = calls[i].call;
        broken.nth = calls[i].nth;
        broken.error = ENOSPC;
        assert_int_equal(save("t", URL), WP_UNAVAILABLE);
        assert_non_null(strstr(err.msg, "No space left"));
        assert_non_null(strstr(err.msg, file_of("t", URL)));
        assert_int_not_equal(faccessat(store.dir_fd, "new", F_OK, 0), 0);
        assert_int_equal(wp_trust_store_load(&store, &record, &err),
                         WP_NOT_FOUND);
    }
    assert_int_equal(save("t", URL), WP_OK);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct wp_trust_record record = record_of("t", URL);

        broken.nth = calls[i].nth;
        broken.call = calls[i].call;
        assert_int_equal(save("t", URL), WP_UNAVAILABLE);
        assert_int_equal(wp_trust_store_load(&store, &record, &err), WP_OK);
        assert_int_equal(record.n, 2);
    }
    broken.call = NULL;
}

/* Interrupted, or a part only: it goes on where it was. */
static void
goes_on_after_a_part(void **state)
{
    static const char *const calls[] = {"write", "read"};
    static const int errors[] = {0, EINTR};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct wp_trust_record record = record_of("t", URL);

        broken.call = calls[i / 2];
        broken.nth = 1;
        broken.error = errors[i % 2];
        assert_int_equal(save("t", URL), WP_OK);
        assert_int_equal(wp_trust_store_load(&store, &record, &err), WP_OK);
        assert_int_equal(record.n, 2);
        assert_string_equal(record.files[1].path, "b");
        assert_int_equal(record.files[0].hash[31], 7);
    }
    for (int nth = 1; nth <= 2; nth++) {
        struct wp_trust_record record = record_of("t", URL);

        broken.call = "read";
        broken.nth = nth;
        broken.error = EIO;
        assert_int_equal(wp_trust_store_load(&store, &record, &err),
                         WP_UNAVAILABLE);
        assert_non_null(strstr(err.msg, "Input/output error"));
    }
    broken.call = NULL;
}

/* Those there are may still be written anew. */
static void
as_many_as_there_may_be(void **state)
{
    (void)state;
    assert_int_equal(save("t", URL), WP_OK);
    for (int i = 2; i < WP_TRUST_RECORDS_MAX; i++) {
        char name[WP_TRUST_NAME_LEN + 1];
        int fd;

        (void)snprintf(name, sizeof name, "%0*d", WP_TRUST_NAME_LEN, i);
        fd = openat(store.dir_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        (void)close(fd);
    }
    assert_int_equal(save("u", URL), WP_OK);
    assert_int_equal(save("v", URL), WP_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.msg, "16384 in all"));
    assert_int_equal(save("t", URL), WP_OK);
}

static void
expect_no_folder(const char *path, const char *words)
{
    struct wp_trust_store other = {.dir_fd = 7};

    assert_int_equal(wp_trust_store_open(&other, path, &err), WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, path));
    assert_non_null(strstr(err.msg, words));
    assert_int_equal(other.dir_fd, -1);
}

static void
no_folder_for_it(void **state)
{
    char path[640];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/none/trust", dir);
    expect_no_folder(path, "No such file");
    (void)snprintf(path, sizeof path, "%s/link", dir);
    assert_int_equal(symlink("trust", path), 0);
    expect_no_folder(path, "Not a directory");
}

static void
is_judged_by_its_mode(void **state)
{
    struct wp_trust trust;
    struct wp_bind_tree tree = {.url = URL, .dir = ""};

    (void)state;
    assert_int_equal(
        wp_trust_init(&trust, WP_TRUST_ENFORCE, "/a", folder, &err),
        WP_INVALID_ARGUMENT);
    wp_trust_fini(&trust);
    assert_int_equal(wp_trust_init(&trust, WP_TRUST_ENFORCE, "a", folder, &err),
                     WP_OK);
    tree.fd = memfd_create("no image", MFD_CLOEXEC);
    assert_true(tree.fd >= 0);
    assert_int_equal(write(tree.fd, "x", 1), 1);
    assert_int_equal(wp_trust_check(&trust, "t", &tree, &err),
                     WP_FAILED_PRECONDITION);
    assert_non_null(strstr(err.msg, "cannot be looked at"));
    trust.mode = WP_TRUST_REPORT;
    assert_int_equal(wp_trust_check(&trust, "t", &tree, &err), WP_OK);
    assert_int_not_equal(
        faccessat(trust.store.dir_fd, file_of("t", URL), F_OK, 0), 0);
    wp_trust_fini(&trust);
    /* Nothing is looked at, and nothing kept. */
    assert_int_equal(wp_trust_init(&trust, WP_TRUST_OFF, "/a", "/none", &err),
                     WP_OK);
    assert_int_equal(wp_trust_check(&trust, "t", &tree, &err), WP_OK);
    wp_trust_fini(&trust);
    (void)close(tree.fd);
}

/* An image of one file. */
static int
image_of(const char *path, const char *content)
{
    uint8_t head[WP_TREE_HEAD];
    const struct wp_tree_entry entry = {
        .kind = WP_TREE_FILE,
        .mode = 0644,
        .path_len = (uint32_t)strlen(path),
        .content_len = (uint32_t)strlen(content),
    };
    int fd = memfd_create("image", MFD_CLOEXEC);

    wp_tree_put_head(&entry, head);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, head, sizeof head), sizeof head);
    assert_int_equal(write(fd, path, entry.path_len), entry.path_len);
    assert_int_equal(write(fd, content, entry.content_len), entry.content_len);
    return fd;
}

/* A repository in a folder that the list leads into. */
static void
is_judged_where_it_is(void **state)
{
    struct wp_trust trust;
    struct wp_bind_tree tree = {.url = URL, .dir = ".claude"};

    (void)state;
    assert_int_equal(
        wp_trust_init(&trust, WP_TRUST_ENFORCE, ".claude/s", folder, &err),
        WP_OK);
    tree.fd = image_of("s", "one");
    assert_int_equal(wp_trust_check(&trust, "t", &tree, &err), WP_OK);
    (void)close(tree.fd);
    tree.fd = image_of("s", "two");
    assert_int_equal(wp_trust_check(&trust, "t", &tree, &err),
                     WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg, "not as first trusted: s CHANGED");
    (void)close(tree.fd);
    wp_trust_fini(&trust);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(is_read_as_it_was_written), TEST(is_damaged),
        TEST(cannot_be_read_or_written), TEST(as_many_as_there_may_be),
        TEST(no_folder_for_it),          TEST(is_judged_by_its_mode),
        TEST(is_judged_where_it_is),     TEST(is_whole_or_as_it_was),
        TEST(goes_on_after_a_part),      TEST(what_cannot_be_counted_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
