/* The repositories of a binding: which may be brought, how they are asked for,
 * and the bytes that a sandbox in a cluster is sent. Compared whole with
 * golden/trees_*.txt. */
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/compiler.h"
#include "proto/checkout/trees.h"
#include "proto/checkout/trees_body.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/journal.h"

/* Of what is static. */
#define LITERAL(text)                                                          \
    {                                                                          \
        (text), sizeof(text) - 1                                               \
    }

enum {
    FETCHES = 8,
};

static struct {
    wp_fetch_done *done;
    void *ctx;
} fetches[FETCHES];
static size_t n_fetches;
static unsigned begin_fails_in; /* 0: none does. */
static bool no_memory;
static bool no_stat;
static int pread_errno; /* 0: it reads. */
static char fetcher;    /* Stands for one. */

struct wp_fetch *__wrap_wp_fetcher_begin(struct wp_fetcher *at,
                                         const struct wp_fetch_order *order,
                                         wp_fetch_done *done, void *ctx);
void __wrap_wp_fetcher_go(struct wp_fetcher *at);
void __wrap_wp_fetch_cancel(struct wp_fetch *fetch);
void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
int __wrap_fstat(int fd, struct stat *st);
int __real_fstat(int fd, struct stat *st);
ssize_t __wrap_pread(int fd, void *out, size_t len, off_t at);
ssize_t __real_pread(int fd, void *out, size_t len, off_t at);

struct wp_fetch *
__wrap_wp_fetcher_begin(struct wp_fetcher *at,
                        const struct wp_fetch_order *order, wp_fetch_done *done,
                        void *ctx)
{
    assert_ptr_equal(at, &fetcher);
    journal("fetch %s [%s] for [%s] by [%s] with [%s]", order->url, order->ref,
            order->tenant, order->user, order->password);
    journal_line();
    if (begin_fails_in > 0 && --begin_fails_in == 0) {
        return NULL;
    }
    assert_true(n_fetches < FETCHES);
    fetches[n_fetches].done = done;
    fetches[n_fetches].ctx = ctx;
    return (struct wp_fetch *)(void *)&fetches[n_fetches++];
}

void
__wrap_wp_fetcher_go(struct wp_fetcher *at)
{
    assert_ptr_equal(at, &fetcher);
    journal("go");
    journal_line();
}

void
__wrap_wp_fetch_cancel(struct wp_fetch *fetch)
{
    journal("cancel %zu",
            (size_t)((const char *)fetch - (const char *)fetches) /
                sizeof(fetches[0]));
    journal_line();
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return no_memory ? NULL : __real_calloc(n, size);
}

int
__wrap_fstat(int fd, struct stat *st)
{
    return no_stat ? -1 : __real_fstat(fd, st);
}

ssize_t
__wrap_pread(int fd, void *out, size_t len, off_t at)
{
    if (pread_errno != 0) {
        errno = pread_errno;
        return -1;
    }
    return __real_pread(fd, out, len, at);
}

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/trees_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static int
begin(void **state)
{
    (void)state;
    n_fetches = 0;
    begin_fails_in = 0;
    no_memory = no_stat = false;
    pread_errno = 0;
    journal_drop();
    return 0;
}

static struct wp_bind_trees *
make(const struct wp_binding_repository *repositories, uint32_t n)
{
    const struct wp_binding binding = {.repositories = repositories,
                                       .n_repositories = n};

    return wp_bind_trees_make(&binding, WP_STR("tenant"));
}

static int
file_of(const char *text)
{
    int fd = memfd_create("tree", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    return fd;
}

static void
on_done(void *ctx, enum wp_status status, const char *reason)
{
    assert_ptr_equal(ctx, &fetcher);
    journal("done: %d %s", (int)status, reason);
    journal_line();
}

static void
fetch(struct wp_bind_trees *trees)
{
    wp_bind_trees_fetch(trees, (struct wp_fetcher *)(void *)&fetcher, on_done,
                        &fetcher);
}

static void
fetched(size_t i, enum wp_status status, int fd, const char *reason)
{
    fetches[i].done(fetches[i].ctx, status, fd, reason);
}

static void
show(const struct wp_bind_trees *trees)
{
    const struct wp_bind_tree *tree;

    for (uint32_t i = 0; (tree = wp_bind_trees_at(trees, i)) != NULL; i++) {
        journal("%u: %s, %llu bytes of %s in [%s] covers", i,
                tree->fd >= 0 ? "there" : "not there",
                (unsigned long long)tree->size, tree->url, tree->dir);
        for (uint32_t k = 0; k < tree->covers.n; k++) {
            journal(" [%s]", tree->covers.dirs[k]);
        }
        journal_line();
    }
    journal("of %s", wp_bind_trees_tenant(trees));
    journal_line();
}

/* ----------------------------------------------------------------- tests */

static void
check(const struct wp_remote_rules *rules, const char *url)
{
    const struct wp_binding_repository repositories[] = {
        {.url = WP_STR("https://good.test/a")},
        {.url = wp_str_from(url)},
    };
    const struct wp_binding binding = {.repositories = repositories,
                                       .n_repositories = 2};
    struct wp_err err = {0};
    enum wp_status status = wp_bind_trees_check(rules, &binding, &err);

    journal("%d %s", (int)status, status != WP_OK ? err.msg : "");
    journal_line();
}

static void
only_what_the_settings_allow_is_brought(void **state)
{
    struct wp_remote_rules rules = {.n = 0};
    const struct wp_binding nothing = {.n_repositories = 0};
    char url[300];
    struct wp_err err;

    (void)state;
    check(&rules, "https://good.test/b");
    assert_int_equal(wp_bind_trees_check(&rules, &nothing, &err), WP_OK);
    assert_int_equal(
        wp_remote_rules_add(&rules, WP_STR("https://good.test"), false, &err),
        WP_OK);
    check(&rules, "https://good.test/b");
    check(&rules, "https://bad.test/b");
    check(&rules, "no url");
    (void)snprintf(url, sizeof url, "https://bad.test/%0100d", 1);
    check(&rules, url);
    /* In full it is longer: of 127.1 there are two digits more. */
    (void)snprintf(url, sizeof url, "https://127.1/%0225d", 1);
    check(&rules, url);
    golden("rules");
}

static void
folders_within_each_other_are_covered(void **state)
{
    static const struct wp_binding_repository repositories[] = {
        {.url = LITERAL("https://h/1"), .dir = LITERAL("")},
        {.url = LITERAL("https://h/2"), .dir = LITERAL("a")},
        {.url = LITERAL("https://h/3"), .dir = LITERAL("a/b")},
        {.url = LITERAL("https://h/4"), .dir = LITERAL("ab")},
        {.url = LITERAL("https://h/5"), .dir = LITERAL("a/b/c")},
        {.url = LITERAL("https://h/6"), .dir = LITERAL("a")},
    };
    struct wp_bind_trees *trees =
        make(repositories, WP_ARRAY_LEN(repositories));

    (void)state;
    assert_non_null(trees);
    show(trees);
    wp_bind_trees_drop(trees);
    wp_bind_trees_drop(NULL);
    no_memory = true;
    assert_null(make(repositories, 1));
    no_memory = false;
    golden("covers");
}

static const struct wp_binding_repository three[] = {
    {.url = LITERAL("https://One.test:443/a"),
     .ref = LITERAL("main"),
     .dir = LITERAL("src")},
    {.url = LITERAL("https://two.test/b"), .password = LITERAL("secret")},
    {.url = LITERAL("https://three.test/c"),
     .dir = LITERAL("src/c"),
     .password = LITERAL("word"),
     .user = LITERAL("me")},
};

static void
all_are_fetched(void **state)
{
    const size_t before = descriptors_count();
    struct wp_bind_trees *trees = make(three, 3);

    (void)state;
    assert_non_null(trees);
    fetch(trees);
    fetched(1, WP_OK, file_of("second"), "");
    no_stat = true;
    fetched(0, WP_OK, file_of("first"), "");
    no_stat = false;
    show(trees);
    fetched(2, WP_OK, file_of("the third"), "");
    show(trees);
    wp_bind_trees_drop(trees);
    assert_int_equal(descriptors_count(), before);
    golden("fetched");
}

static void
one_that_cannot_be_had_is_named(void **state)
{
    const size_t before = descriptors_count();
    struct wp_bind_trees *trees = make(three, 3);
    char reason[300];

    (void)state;
    assert_non_null(trees);
    fetch(trees);
    fetched(0, WP_OK, file_of("first"), "");
    fetched(1, WP_UNAVAILABLE, -1, "no such repository");
    memset(reason, 'r', sizeof reason - 1);
    reason[sizeof reason - 1] = '\0';
    fetched(2, WP_FAILED_PRECONDITION, -1, reason);
    wp_bind_trees_drop(trees);
    assert_int_equal(descriptors_count(), before);
    say("dropped while two are under way");
    n_fetches = 0;
    trees = make(three, 3);
    assert_non_null(trees);
    fetch(trees);
    fetched(1, WP_OK, file_of("second"), "");
    wp_bind_trees_drop(trees);
    assert_int_equal(descriptors_count(), before);
    for (unsigned nth = 1; nth <= 3; nth++) {
        say("no memory");
        n_fetches = 0;
        begin_fails_in = nth;
        trees = make(three, 3);
        assert_non_null(trees);
        fetch(trees);
        wp_bind_trees_drop(trees);
    }
    golden("failed");
}

static void
they_are_sent_one_behind_the_other(void **state)
{
    (void)state;
    for (size_t cap = 1; cap < 40; cap += 6) {
        struct wp_bind_trees *trees = make(three, 3);
        struct wp_trees_body body = {.trees = trees};
        char all[256];
        size_t len = 0;
        ssize_t n;

        n_fetches = 0;
        assert_non_null(trees);
        journal_mute(true);
        fetch(trees);
        fetched(0, WP_OK, file_of("first"), "");
        fetched(1, WP_OK, file_of(""), "");
        fetched(2, WP_OK, file_of("the third"), "");
        journal_mute(false);
        assert_int_equal(wp_trees_body_read(&body, all, 0), 0);
        while ((n = wp_trees_body_read(&body, all + len, cap)) > 0) {
            journal(" %zd", n);
            len += (size_t)n;
        }
        assert_int_equal(n, 0);
        journal(" of %llu: ", (unsigned long long)wp_trees_body_size(trees));
        journal_bytes(all, len);
        journal_line();
        wp_bind_trees_drop(trees);
    }
    golden("body");
}

static void
one_that_has_become_shorter_is_told(void **state)
{
    struct wp_bind_trees *trees = make(three, 1);
    struct wp_trees_body body = {.trees = trees};
    int fd = file_of("first");
    char bytes[64];

    (void)state;
    assert_non_null(trees);
    fetch(trees);
    fetched(0, WP_OK, fd, "");
    assert_int_equal(wp_trees_body_read(&body, bytes, sizeof bytes), 15);
    pread_errno = EISDIR;
    assert_int_equal(wp_trees_body_read(&body, bytes, sizeof bytes), -1);
    assert_int_equal(errno, EISDIR);
    pread_errno = 0;
    assert_int_equal(ftruncate(fd, 2), 0);
    assert_int_equal(wp_trees_body_read(&body, bytes, sizeof bytes), 2);
    assert_memory_equal(bytes, "fi", 2);
    assert_int_equal(wp_trees_body_read(&body, bytes, sizeof bytes), -1);
    assert_int_equal(errno, EIO);
    wp_bind_trees_drop(trees);
}

/* There is room for the longest of each, and the tenant is whole. */
static void
the_longest_of_each_is_taken(void **state)
{
    static char ref[WP_GIT_REF_MAX];
    static char dir[WP_BINDING_PATH_MAX];
    static char user[WP_BINDING_USER_MAX];
    static char password[WP_BINDING_PASSWORD_MAX];
    static char tenant[WP_TENANT_MAX + 1];
    const struct wp_binding_repository one = {
        .url = WP_STR("https://git.example/a"),
        .ref = {memset(ref, 'r', sizeof ref), sizeof ref},
        .dir = {memset(dir, 'd', sizeof dir), sizeof dir},
        .user = {memset(user, 'u', sizeof user), sizeof user},
        .password = {memset(password, 'p', sizeof password), sizeof password},
    };
    const struct wp_binding binding = {.repositories = &one,
                                       .n_repositories = 1};
    struct wp_bind_trees *trees;

    (void)state;
    memset(tenant, 't', WP_TENANT_MAX);
    trees = wp_bind_trees_make(&binding, wp_str_from(tenant));
    assert_non_null(trees);
    assert_string_equal(wp_bind_trees_tenant(trees), tenant);
    wp_bind_trees_drop(trees);
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup(test, begin)
    const struct CMUnitTest tests[] = {
        ONE(only_what_the_settings_allow_is_brought),
        ONE(folders_within_each_other_are_covered),
        ONE(the_longest_of_each_is_taken),
        ONE(all_are_fetched),
        ONE(one_that_cannot_be_had_is_named),
        ONE(they_are_sent_one_behind_the_other),
        ONE(one_that_has_become_shorter_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
