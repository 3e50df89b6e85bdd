/* tests/unit/allocator/daemon/daemon_files_test.c - what the daemon reads from
 * disk and makes there: each refusal with its words, each bound, each path that
 * is looked at. golden/ has each whole. The file system and the manifests are
 * fakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/daemon/files.h"
#include "local/manifest/kept_pools.h"
#include "pool/base/file.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/heard.h"

#define WRAP(result, name, ...)                                                \
    result __wrap_##name(__VA_ARGS__);                                         \
    result __wrap_##name(__VA_ARGS__)
#define MANIFEST ((struct wp_manifest *)(void *)&journal)

enum {
    SPECS = 3,
};

static struct golden journal;
static struct heard heard;
static struct wp_conf *conf;
static bool faked; /* Else the system's own calls are made. */
static uid_t euid;
/* Of mkdir, by path: what fails. */
static const char *fails;
static int fails_with;
/* Of stat, by path. */
static const char *closed;  /* Others cannot pass. */
static const char *missing; /* Is not there. */
static const char *plain;   /* Is no directory. */
/* Of the file that is read. */
static const char *bytes;
static struct stat file;
/* Of the programs that there are. */
static const char *program;
static const char *self_path;
/* Of the manifests. */
static struct wp_pool_spec specs[SPECS];
static size_t n_specs;
static const char *refused[3]; /* Files of pools that do not fit. */
static const char *needs;      /* One that does not, without the pool. */

static bool
is(const char *path, const char *one)
{
    return one != NULL && strcmp(path, one) == 0;
}

WRAP(int, mkdir, const char *path, mode_t mode)
{
    golden_add(&journal, "mkdir %s %o\n", path, mode);
    if (is(path, fails)) {
        errno = fails_with;
        return -1;
    }
    return 0;
}

/* The name depends on how the product is compiled. */
int __real_stat(const char *path, struct stat *out);
WRAP(int, stat, const char *path, struct stat *out)
{
    if (!faked) {
        return __real_stat(path, out);
    }
    golden_add(&journal, "stat %s\n", path);
    memset(out, 0, sizeof *out);
    if (is(path, missing)) {
        errno = ENOENT;
        return -1;
    }
    out->st_mode = (is(path, plain) ? S_IFREG : S_IFDIR) |
                   (is(path, closed) ? 0776 : 0001);
    return 0;
}

WRAP(int, stat64, const char *path, struct stat *out)
{
    return __wrap_stat(path, out);
}

WRAP(uid_t, geteuid, void)
{
    return euid;
}

WRAP(ssize_t, wp_path_read, const char *path, int flags, void *out, size_t cap,
     struct stat *st)
{
    size_t len = bytes != NULL ? strlen(bytes) : 0;

    golden_add(&journal, "read %s%s, at most %zu\n", path,
               flags == O_NONBLOCK ? ", without waiting" : "", cap);
    memset(out, 'x', cap);
    *st = file;
    if (bytes == NULL) {
        errno = ENOENT;
        return -1;
    }
    len = len < cap ? len : cap;
    memcpy(out, bytes, len);
    return (ssize_t)len;
}

WRAP(ssize_t, readlink, const char *path, char *out, size_t cap)
{
    golden_add(&journal, "readlink %s, %zu\n", path, cap);
    if (self_path == NULL) {
        errno = ENOENT;
        return -1;
    }
    memcpy(out, self_path, strlen(self_path));
    return (ssize_t)strlen(self_path);
}

WRAP(int, access, const char *path, int mode)
{
    golden_add(&journal, "access %s %d\n", path, mode);
    return is(path, program) ? 0 : -1;
}

static bool
may(const char *what, struct wp_err *err)
{
    if (!is(what, fails)) {
        return true;
    }
    (void)wp_err_set(err, WP_INTERNAL, "no %s today", what);
    return false;
}

WRAP(struct wp_manifest *, wp_manifest_create, void)
{
    return is("memory", fails) ? NULL : MANIFEST;
}

WRAP(void, wp_manifest_destroy, struct wp_manifest *manifest)
{
    assert_ptr_equal(manifest, MANIFEST);
    golden_add(&journal, "manifest destroyed\n");
}

WRAP(void, wp_manifest_set_inflight_max, struct wp_manifest *manifest,
     uint32_t n)
{
    assert_ptr_equal(manifest, MANIFEST);
    golden_add(&journal, "inflight max %u\n", n);
}

WRAP(enum wp_status, wp_manifest_add_file, struct wp_manifest *manifest,
     const char *path, struct wp_err *err)
{
    assert_ptr_equal(manifest, MANIFEST);
    golden_add(&journal, "add %s\n", path);
    return may(path, err) ? WP_OK : err->status;
}

WRAP(enum wp_status, wp_manifest_check, struct wp_manifest *manifest,
     struct wp_err *err)
{
    assert_ptr_equal(manifest, MANIFEST);
    golden_add(&journal, "check\n");
    return may("check", err) ? WP_OK : err->status;
}

WRAP(size_t, wp_manifest_pools, const struct wp_manifest *manifest,
     const struct wp_pool_spec **out)
{
    assert_ptr_equal(manifest, MANIFEST);
    *out = specs;
    return n_specs;
}

WRAP(enum wp_status, wp_kept_pools_join, const char *dir,
     struct wp_manifest *manifest, const struct wp_pool_spec *except,
     void (*left_out)(void *ctx, const char *name, const struct wp_err *err),
     void *ctx, struct wp_err *err)
{
    struct wp_err why;

    assert_ptr_equal(manifest, MANIFEST);
    golden_add(&journal, "join %s but for %s\n", dir,
               except != NULL ? except->name : "none");
    (void)wp_err_set(&why, WP_NOT_FOUND, "it has no template");
    for (size_t i = 0; i < WP_ARRAY_LEN(refused) && refused[i] != NULL; i++) {
        left_out(ctx, refused[i], &why);
    }
    if (except != NULL && needs != NULL) {
        left_out(ctx, needs, &why);
    }
    return may(except != NULL ? "second" : "join", err) ? WP_OK : err->status;
}

static void
set(const char *text)
{
    struct wp_err err;

    if (wp_conf_read_text(conf, wp_str_from(text), "test", &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
}

static int
begin(void **state)
{
    (void)state;
    faked = false;
    journal.len = 0;
    journal.text[0] = '\0';
    conf = wp_conf_create();
    assert_non_null(conf);
    set("state_dir: /state\n");
    euid = 1000;
    fails = NULL;
    closed = NULL;
    missing = NULL;
    plain = NULL;
    bytes = "hunter2";
    memset(&file, 0, sizeof file);
    file.st_mode = S_IFREG | 0600;
    file.st_uid = 1000;
    program = NULL;
    self_path = "/usr/sbin/warmpoold";
    memset(specs, 0, sizeof specs);
    n_specs = 0;
    memset(refused, 0, sizeof refused);
    needs = NULL;
    faked = true;
    return 0;
}

static int
end(void **state)
{
    (void)state;
    faked = false;
    wp_conf_destroy(conf);
    return 0;
}

static void
finish(const char *name)
{
    char path[512];

    faked = false;
    (void)snprintf(path, sizeof path, "%s/files_%s.txt", WP_TEST_GOLDEN, name);
    golden_compare(journal.text, path);
}

static void
say(enum wp_status status, const struct wp_err *err)
{
    golden_add(&journal, "%s%s%s\n", wp_status_name(status),
               status != WP_OK ? ": " : "", status != WP_OK ? err->msg : "");
}

static void
make(const char *path)
{
    struct wp_err err;

    say(wp_daemon_make_dir(path, 0711, &err), &err);
}

static void
pass(const char *path)
{
    struct wp_err err;

    say(wp_daemon_check_passable(path, &err), &err);
}

static void
test_directories_are_made(void **state)
{
    static char path[WP_CONF_TEXT_MAX + 2];
    struct wp_err err;

    (void)state;
    make("/a/b/c");
    make("a");
    make("/");
    fails = "/a/b";
    fails_with = EACCES;
    make("/a/b/c");
    fails = "/a/b/c";
    make("/a/b/c");
    fails_with = EEXIST;
    make("/a/b/c");
    plain = "/a/b/c";
    make("/a/b/c");
    plain = NULL;
    missing = "/a/b/c";
    make("/a/b/c");
    fails = NULL;
    missing = NULL;
    golden_add(&journal, "# who may pass\n");
    pass("/a/b/c");
    closed = "/a/b/c";
    pass("/a/b/c");
    closed = "/a/b";
    pass("/a/b/c");
    closed = "/a";
    pass("/a/b/c");
    missing = "/a";
    pass("/a/b/c");
    golden_add(&journal, "# as long as it may be\n");
    memset(path, 'p', sizeof path - 1);
    assert_int_equal(wp_daemon_make_dir(path, 0700, &err), WP_INVALID_ARGUMENT);
    say(err.status, &err);
    assert_int_equal(wp_daemon_check_passable(path, &err), WP_INVALID_ARGUMENT);
    say(err.status, &err);
    path[WP_CONF_TEXT_MAX] = '\0';
    assert_int_equal(wp_daemon_make_dir(path, 0700, &err), WP_OK);
    assert_int_equal(wp_daemon_check_passable(path, &err), WP_OK);
    finish("dirs");
}

static void
read_secret(size_t cap)
{
    char text[64];
    char *out = text + 1;
    struct wp_err err;
    enum wp_status status;

    memset(text, 'y', sizeof text);
    text[0] = '\n'; /* Nobody else's line is ended. */
    status = wp_daemon_read_secret("key_file", "/key", out, cap, &err);
    say(status, &err);
    assert_int_equal(text[0], '\n');
    if (status == WP_OK) {
        golden_add(&journal, "'%s'\n", out);
        return;
    }
    /* Nothing of it is left. */
    for (size_t i = 0; i < cap && file.st_mode != 0; i++) {
        assert_int_equal(out[i], 0);
    }
}

static void
test_a_secret_is_its_owners_alone(void **state)
{
    static const mode_t modes[] = {0600, 0400, 0640, 0620, 0610,
                                   0650, 0604, 0602, 0601, 0040};
    static const uid_t owners[] = {1000, 0, 1001};
    static const uid_t daemons[] = {1000, 0};

    (void)state;
    for (size_t d = 0; d < WP_ARRAY_LEN(daemons); d++) {
        euid = daemons[d];
        for (size_t o = 0; o < WP_ARRAY_LEN(owners); o++) {
            file.st_uid = owners[o];
            for (size_t m = 0; m < WP_ARRAY_LEN(modes); m++) {
                golden_add(&journal, "daemon %u, file %u %o: ", euid, owners[o],
                           modes[m]);
                file.st_mode = S_IFREG | modes[m];
                read_secret(20);
            }
        }
    }
    finish("owners");
}

static void
test_a_secret_is_a_line(void **state)
{
    static const char *const texts[] = {"hunter2\n", "hunter2\r\n\n", "\n", "",
                                        "hun\nter",  "123456789"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        bytes = texts[i];
        read_secret(9);
    }
    golden_add(&journal, "# what is no file\n");
    bytes = "hunter2";
    file.st_mode = S_IFDIR | 0700;
    read_secret(9);
    file.st_uid = 1001;
    read_secret(9);
    file.st_uid = 1000;
    bytes = NULL;
    read_secret(9);
    file.st_mode = S_IFREG | 0600;
    read_secret(9);
    file.st_mode = 0;
    read_secret(9);
    finish("secrets");
}

static void
test_a_token_is_one_word(void **state)
{
    static char text[300];
    static const char *const words[] = {
        "0123456789abcdef",     "0123456789abcde",    "0123456789 abcdef",
        "0123456789\tabcdef",   "0123456789\nabcdef", "0123456789\rabcdef",
        "0123456789\001abcdef", "0123456789abcdef\n"};
    char out[280];
    struct wp_err err;
    enum wp_status status;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(words) + 2; i++) {
        bytes = words[i < WP_ARRAY_LEN(words) ? i : 0];
        if (i >= WP_ARRAY_LEN(words)) {
            memset(text, 't', sizeof text);
            text[256 + i - WP_ARRAY_LEN(words)] = '\0';
            bytes = text;
        }
        memset(out, 'y', sizeof out);
        status =
            wp_daemon_read_token("token_file", "/token", out, sizeof out, &err);
        say(status, &err);
        golden_add(&journal, "'%s'\n", out);
    }
    out[0] = 'y';
    assert_int_equal(
        wp_daemon_read_token("token_file", "", out, sizeof out, &err), WP_OK);
    assert_string_equal(out, "");
    bytes = NULL;
    file.st_mode = 0;
    out[0] = 'y';
    status =
        wp_daemon_read_token("token_file", "/token", out, sizeof out, &err);
    say(status, &err);
    golden_add(&journal, "'%.1s'\n", out);
    finish("tokens");
}

static void
read_all(void)
{
    struct wp_manifest *manifest;
    struct wp_err err;

    memset(&err, 0, sizeof err);
    heard_begin(&heard);
    manifest = wp_daemon_read_manifests(conf, &err);
    golden_add(&journal, "%s", heard_end(&heard));
    say(manifest != NULL ? WP_OK : err.status, &err);
}

static void
test_manifests_are_read_whole(void **state)
{
    char dir[WP_DAEMON_KEPT_PATH];

    (void)state;
    set("manifests: [/m/1, /m/2]\ncreate_inflight_max: 9\nslots_max: 10\n");
    specs[0].target = 3;
    specs[1].target = 3;
    specs[2].target = 4;
    n_specs = 3;
    wp_daemon_kept_dir(conf, dir);
    assert_string_equal(dir, "/state/pools.d");
    read_all();
    fails = "/m/1";
    read_all();
    fails = "/m/2";
    read_all();
    fails = "check";
    read_all();
    fails = "join";
    read_all();
    fails = "memory";
    read_all();
    fails = NULL;
    refused[0] = "a_b.yaml";
    read_all();
    refused[0] = NULL;
    specs[1].target = 4;
    read_all();
    specs[0].target = UINT32_MAX;
    specs[1].target = UINT32_MAX;
    read_all();
    golden_add(&journal, "# in a cluster\n");
    specs[0].target = 1;
    specs[1].target = 1;
    set("backend: kubernetes\n");
    read_all();
    finish("manifests");
}

static void
check_unneeded(void)
{
    struct wp_pool_spec pool = {.name = "mine"};
    struct wp_err err;

    memset(&err, 0, sizeof err);
    say(wp_daemon_check_unneeded(conf, &pool, &err), &err);
}

static void
test_a_template_in_use_is_kept(void **state)
{
    (void)state;
    set("manifests: [/m/1]\n");
    check_unneeded();
    refused[0] = "old.yaml";
    check_unneeded();
    needs = "user.yaml";
    check_unneeded();
    refused[0] = NULL;
    check_unneeded();
    needs = NULL;
    fails = "join";
    check_unneeded();
    fails = "second";
    check_unneeded();
    fails = "check";
    check_unneeded();
    fails = "memory";
    check_unneeded();
    finish("unneeded");
}

static void
find(const char *setting)
{
    char out[64];

    memset(out, 'y', sizeof out);
    wp_daemon_find_program(setting, "helper", out, sizeof out);
    golden_add(&journal, "'%s'\n", out);
}

static void
test_programs_are_found_beside_this_one(void **state)
{
    static const char *const all[] = {
        "/usr/sbin/helper", "/usr/sbin/../bin/helper",
        "/usr/sbin/../libexec/warmpool/helper", "/usr/sbin/../local/helper",
        "/usr/sbin/../runtime/helper"};

    (void)state;
    find("/my/own");
    find("");
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        program = all[i];
        find("");
    }
    program = "helper";
    self_path = NULL;
    find("");
    self_path = "warmpoold";
    find("");
    finish("programs");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_directories_are_made),
        TEST(test_a_secret_is_its_owners_alone),
        TEST(test_a_secret_is_a_line),
        TEST(test_a_token_is_one_word),
        TEST(test_manifests_are_read_whole),
        TEST(test_a_template_in_use_is_kept),
        TEST(test_programs_are_found_beside_this_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
