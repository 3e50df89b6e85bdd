/* Instruction files of a checkout: how far their ways may lead, a file's image
 * that cannot be had, and the names of records. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/checkout/tree_image.h"
#include "proto/checkout/trust_look.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/journal.h"

static uint8_t image[1 << 18];
static size_t image_len;
static struct wp_trust_covers covers;
static const char *failing; /* A function. */
static unsigned fails_in;
static size_t send_max; /* 0: all of it. */
static int mapped;

int __wrap_fstat(int fd, struct stat *st);
int __real_fstat(int fd, struct stat *st);
int __wrap_memfd_create(const char *name, unsigned flags);
int __real_memfd_create(const char *name, unsigned flags);
ssize_t __wrap_sendfile(int to, int from, off_t *at, size_t len);
ssize_t __real_sendfile(int to, int from, off_t *at, size_t len);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd,
                  off_t from);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd,
                  off_t from);
int __wrap_munmap(void *at, size_t len);
int __real_munmap(void *at, size_t len);

static bool
fails(const char *function)
{
    if (failing == NULL || strcmp(failing, function) != 0 || fails_in == 0 ||
        --fails_in != 0) {
        return false;
    }
    errno = EMFILE;
    return true;
}

int
__wrap_fstat(int fd, struct stat *st)
{
    return fails("fstat") ? -1 : __real_fstat(fd, st);
}

int
__wrap_memfd_create(const char *name, unsigned flags)
{
    assert_string_equal(name, "warmpool-trust");
    assert_int_equal(flags, MFD_CLOEXEC);
    return fails("memfd_create") ? -1 : __real_memfd_create(name, flags);
}

ssize_t
__wrap_sendfile(int to, int from, off_t *at, size_t len)
{
    if (fails("sendfile")) {
        return -1;
    }
    if (fails("shortened")) {
        return 0;
    }
    return __real_sendfile(to, from, at,
                           send_max > 0 && len > send_max ? send_max : len);
}

void *
__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t from)
{
    void *map;

    assert_int_equal(prot, PROT_READ);
    assert_int_equal(flags, MAP_PRIVATE);
    map = fails("mmap") ? MAP_FAILED
                        : __real_mmap(at, len, prot, flags, fd, from);
    mapped += map != MAP_FAILED ? (int)len : 0;
    return map;
}

int
__wrap_munmap(void *at, size_t len)
{
    mapped -= (int)len;
    return __real_munmap(at, len);
}

/* --------------------------------------------------------------- the rig */

static int
begin(void **state)
{
    (void)state;
    image_len = 0;
    memset(&covers, 0, sizeof covers);
    failing = NULL;
    send_max = 0;
    mapped = 0;
    journal_drop();
    return 0;
}

static void
add_bytes(enum wp_tree_kind kind, const char *path, const char *content,
          size_t len)
{
    const struct wp_tree_entry entry = {
        .kind = kind,
        .mode = 0644,
        .path_len = (uint32_t)strlen(path),
        .content_len = (uint32_t)len,
    };

    assert_true(image_len + WP_TREE_HEAD + entry.path_len + len <=
                sizeof image);
    wp_tree_put_head(&entry, image + image_len);
    image_len += WP_TREE_HEAD;
    memcpy(image + image_len, path, entry.path_len);
    image_len += entry.path_len;
    memcpy(image + image_len, content, len);
    image_len += len;
}

static void
add(enum wp_tree_kind kind, const char *path, const char *content)
{
    add_bytes(kind, path, content, strlen(content));
}

static enum wp_trust_state
state_of(const char *path)
{
    struct wp_trust_record record = {.n = 1};

    (void)snprintf(record.files[0].path, sizeof record.files[0].path, "%s",
                   path);
    memset(record.files[0].hash, 0xee, sizeof record.files[0].hash);
    assert_true(wp_trust_look(image, image_len, &covers, &record));
    return record.files[0].state;
}

/* ----------------------------------------------------------------- tests */

static void
test_links_may_be_followed_so_often(void **state)
{
    (void)state;
    /* l0 is the file; each link leads to the one before it. */
    add(WP_TREE_FILE, "l0", "x");
    for (int i = 1; i < 100; i++) {
        char name[16];
        char to[16];

        (void)snprintf(name, sizeof name, "l%d", i);
        (void)snprintf(to, sizeof to, "l%d", i - 1);
        add(WP_TREE_LINK, name, to);
    }
    for (int i = 0; i < 100; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "l%d", i);
        journal("%d", (int)state_of(name));
    }
    journal_line();
    journal_compare(WP_TEST_GOLDEN "/trust_links.txt");
}

/* The longest way that a link leads, alone and with what is behind it. */
static void
test_ways_are_bounded(void **state)
{
    static char way[5000];

    (void)state;
    for (size_t len = 4090; len <= 4098; len++) {
        static const char *const rests[] = {"", "/f", "/g/f"};

        journal("%zu:", len);
        for (size_t r = 0; r < WP_ARRAY_LEN(rests); r++) {
            char path[16];

            image_len = 0;
            for (size_t i = 0; i < len; i++) {
                way[i] = i % 2 == 0 ? '.' : '/';
            }
            way[len - 1] = 'd';
            way[len - 2] = '/';
            way[len - 3] = '.';
            if (len % 2 == 0) {
                way[len - 4] = '/';
            }
            add(r == 0 ? WP_TREE_FILE : WP_TREE_FOLDER, "d", "");
            add(WP_TREE_FOLDER, "d/g", "");
            add(WP_TREE_FILE, "d/f", "x");
            add(WP_TREE_FILE, "d/g/f", "x");
            add_bytes(WP_TREE_LINK, "l", way, len);
            (void)snprintf(path, sizeof path, "l%s", rests[r]);
            journal(" %d", (int)state_of(path));
        }
        journal_line();
    }
    journal_compare(WP_TEST_GOLDEN "/trust_ways.txt");
}

static void
test_what_leaves_the_tree_is_astray(void **state)
{
    static const struct {
        const char *path;
        enum wp_trust_state state;
    } cases[] = {
        {"a/f", WP_TRUST_FILE},         {"up", WP_TRUST_ASTRAY},
        {"a/up", WP_TRUST_FILE},        {"a/out", WP_TRUST_ASTRAY},
        {"a/b/out", WP_TRUST_ASTRAY},   {"a/b/in", WP_TRUST_FILE},
        {"empty", WP_TRUST_ASTRAY},     {"a/b", WP_TRUST_ABSENT},
        {"a/f/x", WP_TRUST_ABSENT},     {"none", WP_TRUST_ABSENT},
        {"slash", WP_TRUST_ASTRAY},     {"../f", WP_TRUST_ASTRAY},
        {"a/../../f", WP_TRUST_ASTRAY},
    };

    (void)state;
    add(WP_TREE_FOLDER, "a", "");
    add(WP_TREE_FOLDER, "a/b", "");
    add(WP_TREE_FILE, "a/f", "x");
    add(WP_TREE_FILE, "f", "x");
    add(WP_TREE_LINK, "up", "../f");
    add(WP_TREE_LINK, "a/up", "../f");
    add(WP_TREE_LINK, "a/out", "../../f");
    add(WP_TREE_LINK, "a/b/out", "../../../a/f");
    add(WP_TREE_LINK, "a/b/in", "../../a/./f");
    add(WP_TREE_LINK, "empty", "");
    add(WP_TREE_LINK, "slash", "f/");
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        if (state_of(cases[i].path) != cases[i].state) {
            fail_msg("%s: %d", cases[i].path, (int)state_of(cases[i].path));
        }
    }
}

static void
test_a_file_that_cannot_be_read_is_not_whole(void **state)
{
    static const char *const calls[] = {"fstat",     "memfd_create", "sendfile",
                                        "shortened", "mmap",         "none"};
    int fd = __real_memfd_create("image", MFD_CLOEXEC);

    (void)state;
    add(WP_TREE_FILE, "f", "content");
    assert_true(fd >= 0);
    assert_int_equal(write(fd, image, image_len), image_len);
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        for (unsigned nth = 1; nth <= 3; nth++) {
            struct wp_trust_record record = {.n = 1, .files[0].path = "f"};
            size_t before = descriptors_count();

            assert_int_equal(lseek(fd, 3, SEEK_SET), 3);
            failing = calls[i];
            fails_in = nth;
            send_max = 5;
            journal("%s %u: %d", calls[i], nth,
                    wp_trust_look_fd(fd, &covers, &record));
            journal(" %d", (int)record.files[0].state);
            journal_line();
            assert_int_equal(mapped, 0);
            assert_int_equal(descriptors_count(), before);
        }
    }
    /* What is no tree, and nothing at all. */
    for (int i = 0; i < 2; i++) {
        struct wp_trust_record record = {.n = 1, .files[0].path = "f"};

        failing = NULL;
        assert_int_equal(ftruncate(fd, i == 0 ? 7 : 0), 0);
        journal("%d", wp_trust_look_fd(fd, &covers, &record));
        journal(" %d", (int)record.files[0].state);
        journal_line();
        assert_int_equal(mapped, 0);
    }
    (void)close(fd);
    journal_compare(WP_TEST_GOLDEN "/trust_read.txt");
}

/* They are on disks: they stay as they are. */
static void
test_records_have_their_names(void **state)
{
    char name[WP_TRUST_NAME_LEN + 1];

    (void)state;
    wp_trust_record_name("t", "https://h/r", name);
    assert_string_equal(name, "3776096e10a9e1d1d317be274ae3578d");
    wp_trust_record_name("", "", name);
    assert_string_equal(name, "6e340b9cffb37a989ca544e6bb780a2c");
    wp_trust_record_name("tenant", "", name);
    assert_string_equal(name, "27ef642eb8bcb9080449bbc642cc0bf7");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup(test, begin)
    const struct CMUnitTest tests[] = {
        ONE(test_links_may_be_followed_so_often),
        ONE(test_ways_are_bounded),
        ONE(test_what_leaves_the_tree_is_astray),
        ONE(test_a_file_that_cannot_be_read_is_not_whole),
        ONE(test_records_have_their_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
