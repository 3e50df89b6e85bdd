/* The repositories of a binding: which may be brought, what the fetcher is told
 * of each, where they go within each other, and how their fetching ends. The
 * fetcher is the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pool/remotes/remote_rules.h"
#include "proto/checkout/trees.h"
#include "tests/support/base/journal.h"

#define LIT(text)                                                              \
    {                                                                          \
        (text), sizeof(text) - 1                                               \
    }

enum {
    ASKED_MAX = WP_BINDING_REPOSITORIES_MAX,
};

static struct {
    wp_fetch_done *done;
    void *ctx;
} asked[ASKED_MAX];
static uint32_t n_asked;
static uint32_t taken_max; /* Further ones are not taken. */
static struct wp_bind_trees *trees;
static bool drops; /* Once done is said. */

struct wp_fetch *__wrap_wp_fetcher_begin(struct wp_fetcher *fetcher,
                                         const struct wp_fetch_order *order,
                                         wp_fetch_done *done, void *ctx);
void __wrap_wp_fetcher_go(struct wp_fetcher *fetcher);
void __wrap_wp_fetch_cancel(struct wp_fetch *fetch);
void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);

static bool no_memory;

void *
__wrap_calloc(size_t n, size_t size)
{
    return no_memory ? NULL : __real_calloc(n, size);
}

struct wp_fetch *
__wrap_wp_fetcher_begin(struct wp_fetcher *fetcher,
                        const struct wp_fetch_order *order, wp_fetch_done *done,
                        void *ctx)
{
    assert_ptr_equal(fetcher, &n_asked);
    journal("begin(%s '%s' of %s as '%s' '%s')", order->url, order->ref,
            order->tenant, order->user, order->password);
    journal_line();
    if (n_asked == taken_max) {
        return NULL;
    }
    asked[n_asked].done = done;
    asked[n_asked].ctx = ctx;
    return (struct wp_fetch *)(void *)&asked[n_asked++];
}

void
__wrap_wp_fetcher_go(struct wp_fetcher *fetcher)
{
    assert_ptr_equal(fetcher, &n_asked);
    journal("go");
    journal_line();
}

void
__wrap_wp_fetch_cancel(struct wp_fetch *fetch)
{
    for (uint32_t i = 0; i < n_asked; i++) {
        if ((void *)fetch == (void *)&asked[i]) {
            journal("cancel(%u)", i);
            journal_line();
        }
    }
}

static void
on_done(void *ctx, enum wp_status status, const char *reason)
{
    assert_ptr_equal(ctx, &trees);
    journal("done(%d '%s')", (int)status, reason);
    journal_line();
    if (drops) {
        wp_bind_trees_drop(trees);
        trees = NULL;
    }
}

static void
make(const struct wp_binding_repository *repositories, uint32_t n)
{
    const struct wp_binding binding = {.repositories = repositories,
                                       .n_repositories = n};

    n_asked = 0;
    taken_max = ASKED_MAX;
    drops = no_memory = false;
    journal_drop();
    trees = wp_bind_trees_make(&binding, WP_STR("blue"));
    assert_non_null(trees);
}

/* What there is of all. */
static void
show(void)
{
    const struct wp_bind_tree *tree;

    for (uint32_t i = 0; (tree = wp_bind_trees_at(trees, i)) != NULL; i++) {
        journal("%s in '%s' %s %llu:", tree->url, tree->dir,
                tree->fd >= 0 ? "there" : "none",
                (unsigned long long)tree->size);
        for (uint32_t j = 0; j < tree->covers.n; j++) {
            journal(" '%s'", tree->covers.dirs[j]);
        }
        journal_line();
    }
    journal("of %s", wp_bind_trees_tenant(trees));
    journal_line();
}

static const struct wp_binding_repository three[] = {
    {.url = LIT("https://h/a.git"),
     .ref = LIT("main"),
     .user = LIT("ann"),
     .password = LIT("pw")},
    {.url = LIT("https://h/b"), .dir = LIT("b"), .password = LIT("token")},
    {.url = LIT("https://h/c"), .dir = LIT("b/c")},
};

static void
test_each_tree_knows_which_others_go_into_it(void **state)
{
    static const struct wp_binding_repository all[] = {
        {.url = LIT("https://h/0"), .dir = LIT("")},
        {.url = LIT("https://h/1"), .dir = LIT("a")},
        {.url = LIT("https://h/2"), .dir = LIT("ab")},
        {.url = LIT("https://h/3"), .dir = LIT("a/b")},
        {.url = LIT("https://h/4"), .dir = LIT("a")},
        {.url = LIT("https://h/5"), .dir = LIT("a/b/c")},
    };

    (void)state;
    make(all, WP_ARRAY_LEN(all));
    show();
    wp_bind_trees_drop(trees);
    journal_is("https://h/0 in '' none 0: 'a' 'ab' 'a/b' 'a' 'a/b/c'\n"
               "https://h/1 in 'a' none 0: 'b' '' 'b/c'\n"
               "https://h/2 in 'ab' none 0:\n"
               "https://h/3 in 'a/b' none 0: 'c'\n"
               "https://h/4 in 'a' none 0: '' 'b' 'b/c'\n"
               "https://h/5 in 'a/b/c' none 0:\n"
               "of blue\n");
}

static int
image(size_t size)
{
    int fd = memfd_create("image", MFD_CLOEXEC);

    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    return fd;
}

static void
test_all_are_fetched_and_then_it_is_said_once(void **state)
{
    (void)state;
    make(three, 3);
    wp_bind_trees_fetch(trees, (struct wp_fetcher *)(void *)&n_asked, on_done,
                        &trees);
    asked[1].done(asked[1].ctx, WP_OK, image(7), "");
    asked[0].done(asked[0].ctx, WP_OK, image(5), "");
    show();
    asked[2].done(asked[2].ctx, WP_OK, image(0), "");
    show();
    assert_null(wp_bind_trees_at(trees, 3));
    wp_bind_trees_drop(trees);
    wp_bind_trees_drop(NULL);
    journal_is("begin(https://h/a.git 'main' of blue as 'ann' 'pw')\n"
               "begin(https://h/b '' of blue as 'x-access-token' 'token')\n"
               "begin(https://h/c '' of blue as 'x-access-token' '')\n"
               "go\n"
               "https://h/a.git in '' there 5: 'b' 'b/c'\n"
               "https://h/b in 'b' there 7: 'c'\n"
               "https://h/c in 'b/c' none 0:\n"
               "of blue\n"
               "done(0 '')\n"
               "https://h/a.git in '' there 5: 'b' 'b/c'\n"
               "https://h/b in 'b' there 7: 'c'\n"
               "https://h/c in 'b/c' there 0:\n"
               "of blue\n");
}

/* What is under way for the others ends with them. */
static void
test_one_that_cannot_be_had_is_named(void **state)
{
    (void)state;
    make(three, 3);
    drops = true;
    wp_bind_trees_fetch(trees, (struct wp_fetcher *)(void *)&n_asked, on_done,
                        &trees);
    asked[0].done(asked[0].ctx, WP_OK, image(5), "");
    asked[1].done(asked[1].ctx, WP_UNAVAILABLE, -1, "it is \"away\"");
    assert_null(trees);
    journal("%d", (int)WP_UNAVAILABLE);
    journal_line();
    journal_compare(WP_TEST_GOLDEN "/trees_away.txt");
    make(three, 3);
    taken_max = 2;
    wp_bind_trees_fetch(trees, (struct wp_fetcher *)(void *)&n_asked, on_done,
                        &trees);
    /* What opens the remotes was forgotten as it was handed on. */
    taken_max = ASKED_MAX;
    wp_bind_trees_fetch(trees, (struct wp_fetcher *)(void *)&n_asked, on_done,
                        &trees);
    wp_bind_trees_drop(trees);
    journal("%d", (int)WP_RESOURCE_EXHAUSTED);
    journal_line();
    journal_compare(WP_TEST_GOLDEN "/trees_fails.txt");
}

static void
test_no_memory_makes_none(void **state)
{
    const struct wp_binding binding = {.repositories = three,
                                       .n_repositories = 3};

    (void)state;
    no_memory = true;
    assert_null(wp_bind_trees_make(&binding, WP_STR("blue")));
    no_memory = false;
}

static void
check(const struct wp_remote_rules *rules, struct wp_str second)
{
    const struct wp_binding_repository repositories[] = {
        {.url = LIT("https://h/a.git")}, {.url = second}};
    const struct wp_binding binding = {.repositories = repositories,
                                       .n_repositories = 2};
    struct wp_err err = {0};
    enum wp_status status = wp_bind_trees_check(rules, &binding, &err);

    journal("%d %s", (int)status, status != WP_OK ? err.msg : "");
    journal_line();
}

static void
test_a_remote_is_brought_only_where_a_rule_allows_it(void **state)
{
    static struct wp_remote_rules rules;
    struct wp_err err;

    (void)state;
    journal_drop();
    check(&rules, WP_STR("https://h/b"));
    assert_int_equal(
        wp_remote_rules_add(&rules, WP_STR("https://h"), false, &err), WP_OK);
    check(&rules, WP_STR("https://h/b"));
    check(&rules, WP_STR("https://else/b"));
    check(&rules, WP_STR("ftp://h/b"));
    check(&rules, WP_STR(""));
    journal_compare(WP_TEST_GOLDEN "/trees_check.txt");
}

#define TEST(name) cmocka_unit_test(name)

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        TEST(test_each_tree_knows_which_others_go_into_it),
        TEST(test_all_are_fetched_and_then_it_is_said_once),
        TEST(test_one_that_cannot_be_had_is_named),
        TEST(test_no_memory_makes_none),
        TEST(test_a_remote_is_brought_only_where_a_rule_allows_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
