/* What the instruction files of a checkout are, told from its image; and the
 * records of it on a disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/checkout/tree_image.h"
#include "proto/checkout/trust_look.h"
#include "proto/checkout/unpack.h"
#include "local/trust/trust.h"
#include "pool/base/rng.h"

static uint8_t image[4096];
static size_t image_len;
static struct wp_trust_covers covers; /* None, but where a test says so. */
static struct wp_err err;

static void
add(enum wp_tree_kind kind, const char *path, const char *content)
{
    const struct wp_tree_entry entry = {
        .kind = kind,
        .mode = 0644,
        .path_len = (uint32_t)strlen(path),
        .content_len = (uint32_t)strlen(content),
    };

    wp_tree_put_head(&entry, image + image_len);
    image_len += WP_TREE_HEAD;
    memcpy(image + image_len, path, entry.path_len);
    image_len += entry.path_len;
    memcpy(image + image_len, content, entry.content_len);
    image_len += entry.content_len;
}

static struct wp_trust_record
look(const char *list)
{
    struct wp_trust_record record = {.n = 0};

    assert_int_equal(wp_trust_files_parse(wp_str_from(list), &record, &err),
                     WP_OK);
    assert_true(wp_trust_look(image, image_len, &covers, &record));
    return record;
}

static void
files_and_folders(void **state)
{
    /* SHA-256 of "abc". */
    static const uint8_t abc[] = {
        0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
        0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
        0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    struct wp_trust_record record;

    (void)state;
    image_len = 0;
    add(WP_TREE_FOLDER, "d", "");
    add(WP_TREE_FILE, "d/f", "abc");
    add(WP_TREE_FILE, "dd", "x");
    record = look("d/f, d, dd, d/g, dd/x");
    assert_int_equal(record.files[0].state, WP_TRUST_FILE);
    assert_memory_equal(record.files[0].hash, abc, sizeof abc);
    assert_int_equal(record.files[1].state, WP_TRUST_ABSENT);
    assert_int_equal(record.files[2].state, WP_TRUST_FILE);
    assert_int_equal(record.files[3].state, WP_TRUST_ABSENT);
    assert_int_equal(record.files[4].state, WP_TRUST_ABSENT);
    image[image_len - 4] = 0xff;
    assert_false(wp_trust_look(image, image_len - 1, &covers, &record));
}

static void
links(void **state)
{
    static const struct {
        const char *path;
        enum wp_trust_state state;
    } cases[] = {
        {"same", WP_TRUST_FILE},     {"d/up", WP_TRUST_FILE},
        {"via/f", WP_TRUST_FILE},    {"twice", WP_TRUST_FILE},
        {"abs", WP_TRUST_ASTRAY},    {"out", WP_TRUST_ASTRAY},
        {"loop", WP_TRUST_ASTRAY},   {"nowhere", WP_TRUST_ASTRAY},
        {"folder", WP_TRUST_ASTRAY}, {"via/none", WP_TRUST_ASTRAY},
        {"back", WP_TRUST_FILE},     {"gone", WP_TRUST_ASTRAY},
        {"past", WP_TRUST_ASTRAY},   {"end", WP_TRUST_ASTRAY},
        {"above", WP_TRUST_ASTRAY},
    };

    (void)state;
    image_len = 0;
    add(WP_TREE_FOLDER, "d", "");
    add(WP_TREE_FILE, "d/f", "abc");
    add(WP_TREE_FILE, "f", "abc");
    add(WP_TREE_LINK, "same", "f");
    add(WP_TREE_LINK, "d/up", "../f");
    add(WP_TREE_LINK, "via", "./d");
    add(WP_TREE_LINK, "twice", "via/../d/up");
    add(WP_TREE_LINK, "abs", "/f");
    add(WP_TREE_LINK, "out", "../f");
    add(WP_TREE_LINK, "loop", "loop");
    add(WP_TREE_LINK, "nowhere", "g");
    add(WP_TREE_LINK, "folder", "d");
    /* What is above a link's folder is not what is above the link. */
    add(WP_TREE_FOLDER, "e", "");
    add(WP_TREE_FILE, "e/f", "other");
    add(WP_TREE_LINK, "e/to", "../d");
    add(WP_TREE_LINK, "back", "e/to/../f");
    add(WP_TREE_LINK, "gone", "none/../f");
    add(WP_TREE_LINK, "past", "f/../f");
    add(WP_TREE_LINK, "end", "f/.");
    add(WP_TREE_LINK, "above", "e/to/../../f");
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_trust_record record = look(cases[i].path);
        struct wp_trust_record direct = look("f");

        if (record.files[0].state != cases[i].state) {
            fail_msg("%s: %d", cases[i].path, (int)record.files[0].state);
        }
        if (cases[i].state == WP_TRUST_FILE) {
            assert_memory_equal(record.files[0].hash, direct.files[0].hash,
                                WP_TRUST_HASH_LEN);
        }
    }
}

/* What a link leads to is there, and another repository's file as well. */
static void
links_into_another_repository(void **state)
{
    static const struct {
        const char *path;
        enum wp_trust_state state;
    } cases[] = {
        {"d/f", WP_TRUST_FILE},     {"in", WP_TRUST_ASTRAY},
        {"via/f", WP_TRUST_ASTRAY}, {"beside", WP_TRUST_FILE},
        {"to", WP_TRUST_ASTRAY},    {"e", WP_TRUST_FILE},
    };

    (void)state;
    image_len = 0;
    add(WP_TREE_FOLDER, "d", "");
    add(WP_TREE_FILE, "d/f", "abc");
    add(WP_TREE_FOLDER, "dd", "");
    add(WP_TREE_FILE, "dd/f", "abc");
    add(WP_TREE_FILE, "e", "abc");
    add(WP_TREE_LINK, "in", "d/f");
    add(WP_TREE_LINK, "via", "d");
    add(WP_TREE_LINK, "beside", "dd/f");
    add(WP_TREE_LINK, "to", "d/../e");
    covers = (struct wp_trust_covers){.n = 1, .dirs = {"d"}};
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_trust_record record = look(cases[i].path);

        if (record.files[0].state != cases[i].state) {
            fail_msg("%s: %d", cases[i].path, (int)record.files[0].state);
        }
    }
    covers = (struct wp_trust_covers){.n = 0};
}

/* Of "", "a/" or "b/a/", and so on. */
static void
add_some(struct wp_rng *rng, const char *folder, int depth)
{
    static const char *const targets[] = {
        "a",     "b",       "c",    "a/b",     "b/../a", "c/../b",
        "../a",  "..",      ".",    "b/",      "a/.",    "../c/b",
        "./c/a", "../../b", "b//a", "c/../..", "/a/b",   "a/../b/../c/../a"};

    for (const char *name = "abc"; *name != '\0'; name++) {
        char path[32];

        (void)snprintf(path, sizeof path, "%s%c", folder, *name);
        switch (wp_rng_below(rng, 4)) {
        case 0:
            add(WP_TREE_FILE, path, path);
            break;
        case 1:
            add(WP_TREE_LINK, path,
                targets[wp_rng_below(rng, WP_ARRAY_LEN(targets))]);
            break;
        case 2:
            if (depth < 3) {
                add(WP_TREE_FOLDER, path, "");
                (void)strcat(path, "/");
                add_some(rng, path, depth + 1);
            }
            break;
        default:
            break; /* Nothing is there. */
        }
    }
}

/* What a program finds there; "": no file within the folder. */
static void
read_there(int folder, const char *path, char out[32])
{
    const struct open_how how = {.flags = O_RDONLY | O_CLOEXEC,
                                 .resolve = RESOLVE_BENEATH};
    int fd = (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
    bool known = fd >= 0 || (errno != ENOSYS && errno != EPERM);
    ssize_t n = fd >= 0 ? read(fd, out, 31) : -1;

    assert_true(known);
    out[n > 0 ? n : 0] = '\0';
    if (fd >= 0) {
        assert_int_equal(close(fd), 0);
    }
}

static void
links_lead_where_programs_are_led(void **state)
{
    static const char *const paths[] = {"a", "b", "c", "a/b", "b/a", "c/c/a"};
    char top[] = "/tmp/wp-trust-XXXXXX";
    char command[64];
    char why[WP_UNPACK_WHY_MAX];
    struct wp_rng rng;
    int files = 0;
    int fd;

    (void)state;
    assert_non_null(mkdtemp(top));
    fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (uint64_t seed = 0; seed < 2000; seed++) {
        char folder[24];
        int in;

        wp_rng_init(&rng, seed);
        image_len = 0;
        add_some(&rng, "", 0);
        (void)snprintf(folder, sizeof folder, "%u", (unsigned)seed);
        assert_true(wp_unpack(top, folder, image, image_len, why));
        in = openat(fd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (size_t i = 0; i < WP_ARRAY_LEN(paths); i++) {
            struct wp_trust_record record = look(paths[i]);
            struct wp_trust_record direct = {.n = 0};
            char content[32];

            read_there(in, paths[i], content);
            if ((record.files[0].state == WP_TRUST_FILE) !=
                (content[0] != '\0')) {
                fail_msg("seed %u, %s: '%s'", (unsigned)seed, paths[i],
                         content);
            }
            if (content[0] != '\0') {
                /* The content is the file's own path. */
                direct = look(content);
                assert_int_equal(direct.files[0].state, WP_TRUST_FILE);
                assert_memory_equal(direct.files[0].hash, record.files[0].hash,
                                    WP_TRUST_HASH_LEN);
                files += strcmp(content, paths[i]) != 0;
            }
        }
        assert_int_equal(close(in), 0);
    }
    assert_true(files > 100); /* By a link. */
    assert_int_equal(close(fd), 0);
    (void)snprintf(command, sizeof command, "rm -r %s", top);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

/* --- On a disk --- */

static int
image_fd(const char *content)
{
    int fd = memfd_create("image", MFD_CLOEXEC);

    image_len = 0;
    add(WP_TREE_FILE, "CLAUDE.md", content);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, image, image_len), image_len);
    return fd;
}

static enum wp_status
check(struct wp_trust *trust, const char *tenant, const char *content)
{
    int fd = image_fd(content);
    enum wp_status status;

    err.msg[0] = '\0';
    status = wp_trust_check(
        trust, tenant,
        &(struct wp_bind_tree){.fd = fd, .url = "https://h/r", .dir = ""},
        &err);
    assert_int_equal(close(fd), 0);
    return status;
}

static void
what_was_first_seen(void **state)
{
    char dir[] = "/tmp/wp-trust-XXXXXX";
    char folder[sizeof dir + 8];
    char path[sizeof folder + WP_TRUST_NAME_LEN + 2];
    char name[WP_TRUST_NAME_LEN + 1];
    struct wp_trust trust;
    struct stat st;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(folder, sizeof folder, "%s/trust", dir);
    assert_int_equal(
        wp_trust_init(&trust, WP_TRUST_ENFORCE, "CLAUDE.md", folder, &err),
        WP_OK);
    assert_int_equal(check(&trust, "t", "one"), WP_OK);
    assert_int_equal(check(&trust, "t", "two"), WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg, "not as first trusted: CLAUDE.md CHANGED");
    assert_int_equal(check(&trust, "", "two"), WP_OK);
    wp_trust_fini(&trust);
    /* Another process finds it, and what it knows besides is added. */
    assert_int_equal(wp_trust_init(&trust, WP_TRUST_ENFORCE, "CLAUDE.md, more",
                                   folder, &err),
                     WP_OK);
    assert_int_equal(check(&trust, "t", "one"), WP_OK);
    assert_int_equal(check(&trust, "t", "two"), WP_FAILED_PRECONDITION);
    wp_trust_record_name("t", "https://h/r", name);
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(check(&trust, "t", "two"), WP_OK);
    /* What is reported only stays as it was recorded. */
    trust.mode = WP_TRUST_REPORT;
    assert_int_equal(check(&trust, "t", "one"), WP_OK);
    trust.mode = WP_TRUST_ENFORCE;
    assert_int_equal(check(&trust, "t", "one"), WP_FAILED_PRECONDITION);
    assert_int_equal(check(&trust, "t", "two"), WP_OK);
    /* One tenant's many leave room for others. */
    for (int i = 0; i < WP_TRUST_TENANT_RECORDS_MAX; i++) {
        char url[32];
        int fd;

        (void)snprintf(url, sizeof url, "https://h/%d", i);
        wp_trust_record_name("many", url, name);
        fd = openat(trust.store.dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC,
                    0600);
        assert_true(fd >= 0);
        assert_int_equal(close(fd), 0);
    }
    assert_int_equal(check(&trust, "many", "one"), WP_FAILED_PRECONDITION);
    assert_non_null(strstr(err.msg, "1024 repositories of one tenant"));
    assert_int_equal(check(&trust, "third", "one"), WP_OK);
    /* A disk that takes nothing: the folder is another's work. */
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/new", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(check(&trust, "t", "one"), WP_FAILED_PRECONDITION);
    assert_non_null(strstr(err.msg, "Is a directory"));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(check(&trust, "t", "one"), WP_OK);
    wp_trust_fini(&trust);
    (void)snprintf(path, sizeof path, "rm -r %s", dir);
    assert_int_equal(system(path), 0); /* NOLINT(cert-env33-c) */
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_and_folders),
        cmocka_unit_test(links),
        cmocka_unit_test(links_into_another_repository),
        cmocka_unit_test(links_lead_where_programs_are_led),
        cmocka_unit_test(what_was_first_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
