/* What claims bring is fetched, then each tree is judged: which words come out,
 * and where it stops. Fetching and judging are the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/bind/repositories.h"
#include "k8s/bind/trust.h"
#include "pool/limits.h"

enum {
    TREES_MAX = 4,
};

static struct {
    bool asks;     /* The judge. */
    bool no_cases; /* It lacks memory. */
    bool no_fetcher;
    bool no_judge;
    int fetchers; /* That are there. */
    uint32_t n;
    struct wp_bind_tree trees[TREES_MAX];
    enum wp_status fetched;
    const char *fetched_words;
    enum wp_status verdicts[TREES_MAX];
    const char *words[TREES_MAX];
    /* What came of it. */
    uint32_t judged;
    uint32_t cancelled;
    void (*judge_done)(void *ctx, enum wp_status status, const char *reason);
    void *judge_ctx;
    uint32_t done;
    enum wp_status status;
    char reason[512];
    struct wp_remote_rules rules; /* As they were last asked. */
} world;

/* --- Instead of what fetches and judges --- */

struct wp_fetcher *
wp_fetcher_create(const struct wp_fetcher_config *config,
                  struct event_base *base)
{
    assert_null(base);
    assert_int_equal(config->repository_bytes_max, 11);
    assert_int_equal(config->cache_bytes_max, 12);
    assert_int_equal(config->cache_age_s, 13);
    assert_int_equal(config->timeout_ms, 14);
    if (world.no_fetcher) {
        return NULL;
    }
    world.fetchers++;
    return (struct wp_fetcher *)&world;
}

void
wp_fetcher_destroy(struct wp_fetcher *fetcher)
{
    assert_ptr_equal(fetcher, &world);
    world.fetchers--;
}

enum wp_status
wp_trust_judge_init(struct wp_trust_judge *judge, enum wp_trust_mode mode,
                    const char *files, struct wp_api *api, const char *ns,
                    struct wp_err *err)
{
    assert_int_equal(mode, WP_TRUST_REPORT);
    assert_string_equal(files, "files");
    assert_string_equal(ns, "home");
    judge->mode = mode;
    judge->api = api;
    return world.no_judge ? wp_err_set(err, WP_UNAVAILABLE, "no judge") : WP_OK;
}

bool
wp_trust_judge_asks(const struct wp_trust_judge *judge)
{
    assert_int_equal(judge->mode, WP_TRUST_REPORT);
    return world.asks;
}

struct wp_trust_case *
wp_trust_judge_begin(const struct wp_trust_judge *judge, const char *tenant,
                     const struct wp_bind_tree *tree,
                     void (*done)(void *ctx, enum wp_status status,
                                  const char *reason),
                     void *ctx)
{
    (void)judge;
    assert_string_equal(tenant, "tenant");
    assert_ptr_equal(tree, &world.trees[world.judged]);
    if (world.no_cases) {
        return NULL;
    }
    world.judged++;
    world.judge_done = done;
    world.judge_ctx = ctx;
    return (struct wp_trust_case *)&world;
}

void
wp_trust_judge_cancel(struct wp_trust_case *judged)
{
    world.cancelled += judged != NULL;
}

enum wp_status
wp_bind_trees_check(const struct wp_remote_rules *rules,
                    const struct wp_binding *binding, struct wp_err *err)
{
    (void)err;
    world.rules = *rules;
    return binding->n_repositories < 9 ? WP_OK : WP_FAILED_PRECONDITION;
}

void
wp_bind_trees_fetch(struct wp_bind_trees *trees, struct wp_fetcher *fetcher,
                    void (*done)(void *ctx, enum wp_status status,
                                 const char *reason),
                    void *ctx)
{
    assert_ptr_equal(trees, &world);
    assert_ptr_equal(fetcher, &world);
    done(ctx, world.fetched, world.fetched_words);
}

const struct wp_bind_tree *
wp_bind_trees_at(const struct wp_bind_trees *trees, uint32_t i)
{
    assert_ptr_equal(trees, &world);
    return i < world.n ? &world.trees[i] : NULL;
}

const char *
wp_bind_trees_tenant(const struct wp_bind_trees *trees)
{
    assert_ptr_equal(trees, &world);
    return "tenant";
}

/* --- The test --- */

static void
on_done(void *ctx, enum wp_status status, const char *reason)
{
    assert_ptr_equal(ctx, &world);
    world.done++;
    world.status = status;
    (void)snprintf(world.reason, sizeof world.reason, "%s", reason);
}

static struct wp_repositories *
repositories(const char *socket)
{
    const struct wp_cluster_git git = {
        .remotes = "a.example b.example",
        .remotes_denied = "c.example",
        .fetch_socket = socket,
        .trust = WP_TRUST_REPORT,
        .trust_files = "files",
        .repository_bytes_max = 11,
        .cache_bytes_max = 12,
        .cache_age_s = 13,
        .timeout_ms = 14,
    };
    struct wp_err err;
    struct wp_repositories *made = wp_repositories_create(
        &(struct wp_repositories_config){.git = &git, .ns = "home"}, &err);

    assert_non_null(made);
    return made;
}

static struct wp_fetching *
begin(struct wp_repositories *self)
{
    struct wp_fetching *fetching = wp_fetching_create(
        self, (struct wp_bind_trees *)&world, on_done, &world);

    assert_non_null(fetching);
    wp_fetching_go(fetching);
    return fetching;
}

static void
set_up_trees(uint32_t n)
{
    static const char *const urls[TREES_MAX] = {
        "https://h/a", "https://h/b", "https://h/c",
        "https://h/this-one-is-longer-than-what-is-shown-of-it-in-a-reason"};

    memset(&world, 0, sizeof world);
    world.asks = true;
    world.fetched_words = "";
    world.n = n;
    for (uint32_t i = 0; i < TREES_MAX; i++) {
        world.trees[i].url = urls[i];
        world.words[i] = "";
    }
}

static void
judge_all(void)
{
    for (uint32_t i = 0; world.done == 0; i++) {
        assert_int_equal(world.judged, i + 1);
        world.judge_done(world.judge_ctx, world.verdicts[i], world.words[i]);
    }
}

/* The first warning comes out when nothing is refused; a refusal comes out
 * alone, and ends it. */
static void
each_is_judged_until_one_is_refused(void **state)
{
    static const struct {
        enum wp_status verdicts[TREES_MAX];
        const char *words[TREES_MAX];
        uint32_t judged;
        enum wp_status status;
        const char *reason;
    } rows[] = {
        {{WP_OK}, {"", "", "", ""}, 4, WP_OK, ""},
        {{WP_OK}, {"", "x", "", "y"}, 4, WP_OK, "repository 'https://h/b': x"},
        {{WP_OK},
         {"w", "x", "y", "z"},
         4,
         WP_OK,
         "repository 'https://h/a': w"},
        {{WP_OK},
         {"", "", "", "y"},
         4,
         WP_OK,
         "repository "
         "'https://h/this-one-is-longer-than-what-is-shown-of-it-in-a-r': y"},
        {{WP_OK, WP_FAILED_PRECONDITION},
         {"w", "no", "", ""},
         2,
         WP_FAILED_PRECONDITION,
         "repository 'https://h/b': no"},
        {{WP_CANCELLED}, {"", "", "", ""}, 1, WP_CANCELLED, ""},
    };
    struct wp_repositories *self = repositories("socket");

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        set_up_trees(TREES_MAX);
        memcpy(world.verdicts, rows[i].verdicts, sizeof world.verdicts);
        memcpy(world.words, rows[i].words, sizeof world.words);
        (void)begin(self);
        judge_all();
        assert_int_equal(world.done, 1);
        assert_int_equal(world.judged, rows[i].judged);
        assert_int_equal(world.status, rows[i].status);
        assert_string_equal(world.reason, rows[i].reason);
    }
    wp_repositories_destroy(self);
}

/* A warning that is longer than a reason may be is cut. */
static void
long_words_are_cut(void **state)
{
    char words[300];
    struct wp_repositories *self = repositories("socket");

    (void)state;
    memset(words, 'w', sizeof words - 1);
    words[sizeof words - 1] = '\0';
    set_up_trees(1);
    world.words[0] = words;
    (void)begin(self);
    judge_all();
    assert_int_equal(world.status, WP_OK);
    assert_int_equal(strlen(world.reason), WP_BIND_REASON_MAX);
    assert_int_equal(strncmp(world.reason, "repository 'https://h/a': www", 29),
                     0);
    wp_repositories_destroy(self);
}

static void
nothing_is_judged_of_what_is_not_here(void **state)
{
    struct wp_repositories *self = repositories("socket");

    (void)state;
    set_up_trees(2);
    world.fetched = WP_UNAVAILABLE;
    world.fetched_words = "the remote is away";
    (void)begin(self);
    assert_int_equal(world.done, 1);
    assert_int_equal(world.judged, 0);
    assert_int_equal(world.status, WP_UNAVAILABLE);
    assert_string_equal(world.reason, "the remote is away");
    /* Nor where nothing is to be judged, or nothing was brought. */
    set_up_trees(2);
    world.asks = false;
    (void)begin(self);
    assert_int_equal(world.done, 1);
    assert_int_equal(world.status, WP_OK);
    assert_string_equal(world.reason, "");
    set_up_trees(0);
    (void)begin(self);
    assert_int_equal(world.done, 1);
    assert_int_equal(world.status, WP_OK);
    set_up_trees(1);
    world.no_cases = true;
    (void)begin(self);
    assert_int_equal(world.done, 1);
    assert_int_equal(world.status, WP_RESOURCE_EXHAUSTED);
    assert_string_equal(world.reason, "no memory");
    wp_repositories_destroy(self);
}

/* With the judgement that is under way, if one is. */
static void
cancelled_it_says_nothing(void **state)
{
    struct wp_repositories *self = repositories("socket");

    (void)state;
    set_up_trees(2);
    wp_fetching_cancel(begin(self));
    assert_int_equal(world.cancelled, 1);
    wp_fetching_cancel(wp_fetching_create(self, (struct wp_bind_trees *)&world,
                                          on_done, &world));
    assert_int_equal(world.cancelled, 1);
    wp_fetching_cancel(NULL);
    assert_int_equal(world.done, 0);
    wp_repositories_destroy(self);
}

static void
without_a_socket_none_may_be_brought(void **state)
{
    struct wp_binding binding = {.n_repositories = 1};
    struct wp_repositories *with = repositories("socket");
    struct wp_repositories *without = repositories("");
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_repositories_check(with, &binding, &err), WP_OK);
    assert_int_equal(world.rules.n, 3);
    assert_false(world.rules.rule[0].denies);
    assert_false(world.rules.rule[1].denies);
    assert_true(world.rules.rule[2].denies);
    assert_int_equal(wp_repositories_check(without, &binding, &err),
                     WP_FAILED_PRECONDITION);
    assert_string_equal(err.msg, "binding.repositories: the daemon has no "
                                 "warmpool-fetch (setting fetch_socket)");
    binding.n_repositories = 0;
    assert_int_equal(wp_repositories_check(without, &binding, &err), WP_OK);
    binding.n_repositories = 9; /* The rules refuse it. */
    assert_int_equal(wp_repositories_check(with, &binding, &err),
                     WP_FAILED_PRECONDITION);
    wp_repositories_destroy(with);
    wp_repositories_destroy(without);
}

/* What cannot be read, or had, makes none, and says why. */
static void
what_is_wrong_in_its_settings_is_said(void **state)
{
    static const struct {
        const char *remotes;
        const char *denied;
        bool no_fetcher;
        bool no_judge;
        enum wp_status status;
        const char *says; /* It begins so. */
    } rows[] = {
        {"a.example", "", true, false, WP_RESOURCE_EXHAUSTED, "no memory"},
        {"a.example", "", false, true, WP_UNAVAILABLE, "no judge"},
        {"http://", "", false, false, WP_INVALID_ARGUMENT, ""},
        {"", "http://", false, false, WP_INVALID_ARGUMENT, ""},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        const struct wp_cluster_git git = {.remotes = rows[i].remotes,
                                           .remotes_denied = rows[i].denied,
                                           .fetch_socket = "socket",
                                           .trust = WP_TRUST_REPORT,
                                           .trust_files = "files",
                                           .repository_bytes_max = 11,
                                           .cache_bytes_max = 12,
                                           .cache_age_s = 13,
                                           .timeout_ms = 14};
        struct wp_err err = {.msg = ""};

        world.no_fetcher = rows[i].no_fetcher;
        world.no_judge = rows[i].no_judge;
        world.fetchers = 0;
        assert_null(wp_repositories_create(
            &(struct wp_repositories_config){.git = &git, .ns = "home"}, &err));
        assert_int_equal(err.status, rows[i].status);
        assert_memory_equal(err.msg, rows[i].says, strlen(rows[i].says));
        assert_int_equal(world.fetchers, 0);
    }
    world.no_fetcher = world.no_judge = false;
    wp_repositories_destroy(NULL);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_judged_until_one_is_refused),
        cmocka_unit_test(long_words_are_cut),
        cmocka_unit_test(nothing_is_judged_of_what_is_not_here),
        cmocka_unit_test(cancelled_it_says_nothing),
        cmocka_unit_test(without_a_socket_none_may_be_brought),
        cmocka_unit_test(what_is_wrong_in_its_settings_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
