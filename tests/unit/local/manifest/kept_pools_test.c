/* Pools that came by a call, as files: joined to the manifests at the next
 * start, whose own pools and templates count more. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/manifest/kept_pools.h"

#define TEMPLATE(name, port)                                                   \
    "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"                         \
    "kind: SandboxTemplate\n"                                                  \
    "metadata: {name: " name "}\n"                                             \
    "spec: {podTemplate: {spec: {containers: [{name: c, image: host, "         \
    "command: [server], ports: [{containerPort: " port "}]}]}}}\n"
#define POOL(name, tmpl)                                                       \
    "---\n"                                                                    \
    "apiVersion: extensions.agents.x-k8s.io/v1beta1\n"                         \
    "kind: SandboxWarmPool\n"                                                  \
    "metadata: {name: " name "}\n"                                             \
    "spec: {replicas: 1, sandboxTemplateRef: {name: " tmpl "}}\n"

static char root[] = "/tmp/wp-kept-XXXXXX";
static char dir[64];
static char refused[512]; /* File: reason, each on a line. */

static void
note_refused(void *ctx, const char *file, const struct wp_err *err)
{
    size_t at = strlen(refused);

    (void)ctx;
    (void)snprintf(refused + at, sizeof refused - at, "%s: %s\n", file,
                   err->msg);
}

static struct wp_manifest *
read_text(const char *text)
{
    struct wp_manifest *manifest = wp_manifest_create();
    struct wp_err err;

    assert_non_null(manifest);
    if (wp_manifest_add_bytes(manifest, "m", wp_str_from(text), &err) !=
        WP_OK) {
        fail_msg("%s", err.msg);
    }
    return manifest;
}

static const struct wp_pool_spec *
named(const char *name)
{
    static struct wp_pool_spec spec;

    wp_pool_spec_init(&spec);
    (void)snprintf(spec.pool_namespace, sizeof spec.pool_namespace, "default");
    (void)snprintf(spec.name, sizeof spec.name, "%s", name);
    return &spec;
}

static void
keep(const char *name, const char *text)
{
    struct wp_err err;

    if (wp_kept_pools_write(dir, named(name), wp_str_from(text), &err) !=
        WP_OK) {
        fail_msg("%s", err.msg);
    }
}

/* Pools of the manifest once what is kept was joined, "a b ". */
static const char *
joined(const char *text, const struct wp_pool_spec *except)
{
    static char names[256];
    struct wp_manifest *manifest = read_text(text);
    const struct wp_pool_spec *pools;
    struct wp_err err;
    size_t n;

    refused[0] = '\0';
    names[0] = '\0';
    if (wp_kept_pools_join(dir, manifest, except, note_refused, NULL, &err) !=
        WP_OK) {
        fail_msg("%s", err.msg);
    }
    n = wp_manifest_pools(manifest, &pools);
    for (size_t i = 0; i < n; i++) {
        size_t at = strlen(names);

        (void)snprintf(names + at, sizeof names - at, "%s ", pools[i].name);
    }
    assert_int_equal(wp_manifest_check(manifest, &err), WP_OK);
    wp_manifest_destroy(manifest);
    return names;
}

static int
setup(void **state)
{
    (void)state;
    memcpy(root + sizeof root - 7, "XXXXXX", 6);
    assert_non_null(mkdtemp(root));
    (void)snprintf(dir, sizeof dir, "%s/pools.d", root);
    return 0;
}

static int
teardown(void **state)
{
    static const char *const names[] = {"a", "b", "c"};
    struct wp_err err;
    char path[96];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        assert_int_equal(wp_kept_pools_remove(dir, named(names[i]), &err),
                         WP_OK);
    }
    (void)snprintf(path, sizeof path, "%s/readme", dir);
    (void)unlink(path);
    (void)rmdir(dir);
    assert_int_equal(rmdir(root), 0);
    return 0;
}

static void
test_what_is_kept_is_joined(void **state)
{
    char path[96];
    struct stat st;

    (void)state;
    assert_string_equal(joined(TEMPLATE("t", "80") POOL("m", "t"), NULL), "m ");
    keep("b", TEMPLATE("u", "81") POOL("b", "u"));
    /* Needs what comes later, by its file's name. */
    keep("a", POOL("a", "u"));
    keep("c", POOL("c", "t"));
    assert_string_equal(joined(TEMPLATE("t", "80") POOL("m", "t"), NULL),
                        "m b c a ");
    assert_string_equal(refused, "");
    assert_true(wp_kept_pools_has(dir, named("a")));
    assert_false(wp_kept_pools_has(dir, named("m")));
    /* Variables of a template may be secrets. */
    (void)snprintf(path, sizeof path, "%s/default_b.yaml", dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void
test_a_later_one_replaces_it(void **state)
{
    (void)state;
    keep("a", "nonsense: [");
    keep("a", TEMPLATE("t", "80") POOL("a", "t"));
    assert_string_equal(joined(TEMPLATE("t", "80"), NULL), "a ");
    assert_string_equal(refused, "");
}

static size_t
entries_of(const char *path)
{
    DIR *open = opendir(path);
    size_t n = 0;

    assert_non_null(open);
    while (readdir(open) != NULL) {
        n++;
    }
    (void)closedir(open);
    return n;
}

/* Goal: what cannot be kept leaves nothing, neither a file nor a descriptor. */
static void
test_a_failed_one_leaves_nothing(void **state)
{
    struct wp_err err;
    char path[96];
    size_t descriptors;
    size_t files;

    (void)state;
    keep("b", TEMPLATE("t", "81") POOL("b", "t"));
    (void)snprintf(path, sizeof path, "%s/default_a.yaml", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/default_a.yaml/in-its-way", dir);
    assert_int_equal(mkdir(path, 0700), 0);
    files = entries_of(dir);
    descriptors = entries_of("/proc/self/fd");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            wp_kept_pools_write(dir, named("a"), WP_STR("x"), &err),
            WP_UNAVAILABLE);
        keep("b", TEMPLATE("t", "81") POOL("b", "t"));
    }
    assert_int_equal(entries_of(dir), files);
    assert_int_equal(entries_of("/proc/self/fd"), descriptors);
    assert_int_equal(rmdir(path), 0);
    (void)snprintf(path, sizeof path, "%s/default_a.yaml", dir);
    assert_int_equal(rmdir(path), 0);
}

static void
test_the_manifests_count_more(void **state)
{
    (void)state;
    keep("a", POOL("a", "t"));
    keep("b", TEMPLATE("t", "81") POOL("b", "t"));
    keep("c", POOL("c", "t"));
    assert_string_equal(joined(TEMPLATE("t", "80") POOL("a", "t"), NULL),
                        "a c ");
    assert_non_null(strstr(refused, "default_a.yaml: SandboxWarmPool a: there "
                                    "is one of this name"));
    assert_non_null(strstr(refused, "default_b.yaml: SandboxTemplate t: there "
                                    "is another one of this name"));
}

/* One file that is damaged, or no pool's, keeps no other from being read. */
static void
test_what_does_not_fit_is_left_out(void **state)
{
    char path[96];
    FILE *file;

    (void)state;
    keep("a", "nonsense: [");
    keep("b", POOL("b", "gone"));
    keep("c", POOL("c", "t"));
    (void)snprintf(path, sizeof path, "%s/readme", dir);
    file = fopen(path, "we");
    assert_non_null(file);
    (void)fclose(file);
    assert_string_equal(joined(TEMPLATE("t", "80"), NULL), "c ");
    assert_non_null(strstr(refused, "default_a.yaml: "));
    assert_non_null(strstr(refused, "no SandboxTemplate 'gone'"));
    assert_null(strstr(refused, "readme"));
}

/* Names that no pool's file has. */
static void
test_hidden_files_are_none(void **state)
{
    char path[96];
    FILE *file;

    (void)state;
    keep("c", POOL("c", "t"));
    (void)snprintf(path, sizeof path, "%s/.a.yaml", dir);
    file = fopen(path, "we");
    assert_non_null(file);
    (void)fputs("nonsense: [", file);
    (void)fclose(file);
    assert_string_equal(joined(TEMPLATE("t", "80"), NULL), "c ");
    assert_string_equal(refused, "");
    assert_int_equal(unlink(path), 0);
}

/* The next time it may be there: nobody goes on without it. */
static void
test_a_file_that_cannot_be_read(void **state)
{
    struct wp_manifest *manifest = read_text(TEMPLATE("t", "80"));
    struct wp_err err;
    char path[96];

    (void)state;
    keep("a", POOL("a", "gone"));
    (void)snprintf(path, sizeof path, "%s/default_b.yaml", dir);
    assert_int_equal(symlink("gone", path), 0);
    refused[0] = '\0';
    assert_int_equal(
        wp_kept_pools_join(dir, manifest, NULL, note_refused, NULL, &err),
        WP_UNAVAILABLE);
    assert_int_equal(err.status, WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "default_b.yaml"));
    assert_string_equal(refused, "");
    wp_manifest_destroy(manifest);
}

/* Who looks at settings only, and may not see what is kept, is told. */
static void
test_a_folder_that_cannot_be_read(void **state)
{
    struct wp_manifest *manifest = read_text(TEMPLATE("t", "80"));
    struct wp_err err;
    uid_t user = geteuid();
    enum wp_status status;
    FILE *file;

    (void)state;
    keep("a", POOL("a", "t"));
    refused[0] = '\0';
    assert_int_equal(chmod(dir, 0), 0);
    assert_int_equal(seteuid(user == 0 ? 65534 : user), 0);
    status = wp_kept_pools_join(dir, manifest, NULL, note_refused, NULL, &err);
    assert_int_equal(seteuid(user), 0);
    assert_int_equal(chmod(dir, 0700), 0);
    assert_int_equal(status, WP_OK);
    assert_non_null(strstr(refused, "pools.d: cannot read"));
    assert_int_equal(wp_kept_pools_remove(dir, named("a"), &err), WP_OK);
    assert_int_equal(rmdir(dir), 0);
    file = fopen(dir, "we");
    assert_non_null(file);
    (void)fclose(file);
    refused[0] = '\0';
    assert_int_equal(
        wp_kept_pools_join(dir, manifest, NULL, note_refused, NULL, &err),
        WP_FAILED_PRECONDITION);
    assert_non_null(strstr(err.msg, "cannot read"));
    assert_string_equal(refused, "");
    assert_int_equal(wp_kept_pools_remove(dir, named("a"), &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "cannot remove the pool from"));
    assert_int_equal(unlink(dir), 0);
    wp_manifest_destroy(manifest);
}

static void
test_one_is_passed_over(void **state)
{
    (void)state;
    keep("a", TEMPLATE("u", "80") POOL("a", "u"));
    keep("b", POOL("b", "u"));
    assert_string_equal(joined(TEMPLATE("t", "80"), named("a")), "");
    assert_non_null(strstr(refused, "default_b.yaml: "));
    assert_string_equal(joined(TEMPLATE("t", "80"), named("b")), "a ");
    assert_string_equal(refused, "");
}

/* Its place is a file: said, and nothing is half there. */
static void
test_it_cannot_be_kept(void **state)
{
    struct wp_err err;
    FILE *file = fopen(dir, "we");

    (void)state;
    assert_non_null(file);
    (void)fclose(file);
    assert_int_equal(wp_kept_pools_write(dir, named("a"), WP_STR("text"), &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "cannot keep the pool in"));
    assert_int_equal(unlink(dir), 0);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_kept_is_joined),
        TEST(test_a_later_one_replaces_it),
        TEST(test_a_failed_one_leaves_nothing),
        TEST(test_the_manifests_count_more),
        TEST(test_what_does_not_fit_is_left_out),
        TEST(test_hidden_files_are_none),
        TEST(test_a_file_that_cannot_be_read),
        TEST(test_a_folder_that_cannot_be_read),
        TEST(test_one_is_passed_over),
        TEST(test_it_cannot_be_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
