/* What is asked of the core for a claim, on a core that is none: each call that
 * is made of it is a line of the journal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/controllers/claim/ask.h"
#include "tests/support/base/journal.h"
#include "tests/support/base/timers.h"

static char pools[1];
static struct wp_parts parts;
static struct wp_claim_asks *asks;
static struct wp_object claim;
static struct wp_claim *latest; /* That the core was asked for. */

/* What the core and the channel to the cluster's thread answer. */
static enum wp_status claims;
static bool cancels;
static bool posts;
static struct {
    void (*run)(void *arg, uint64_t a, uint64_t b);
    void *arg;
} posted;
/* Is answered while somebody waits for it. */
static struct wp_claim *late;

/* --- Fakes of what lies below --- */

#define FAKE(type, name, ...)                                                  \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

FAKE(enum wp_status, wp_pools_claim, struct wp_pools *of, struct wp_claim *it)
{
    assert_ptr_equal(of, pools);
    assert_non_null(it->done);
    journal("claim %.*s/%.*s for %.*s %.*s waits %lld%s",
            (int)it->pool_namespace.len, it->pool_namespace.ptr,
            (int)it->pool.len, it->pool.ptr, (int)it->tenant.len,
            it->tenant.ptr, (int)it->claim_id.len, it->claim_id.ptr,
            (long long)it->wait_ns, it->lasting ? " lasting" : "");
    journal_line();
    latest = it;
    it->status = claims;
    it->grant.ref = (struct wp_slot_ref){.index = 7, .generation = 8};
    return claims;
}

FAKE(bool, wp_pools_cancel, struct wp_pools *of, struct wp_claim *it)
{
    assert_ptr_equal(of, pools);
    journal("cancel %.*s", (int)it->claim_id.len, it->claim_id.ptr);
    journal_line();
    late = cancels ? NULL : it;
    return cancels;
}

FAKE(void, wp_pools_undo, struct wp_pools *of, const struct wp_claim *it)
{
    assert_ptr_equal(of, pools);
    journal("undo %.*s", (int)it->claim_id.len, it->claim_id.ptr);
    journal_line();
}

FAKE(void, wp_pools_end, struct wp_pools *of, struct wp_slot_ref ref)
{
    assert_ptr_equal(of, pools);
    journal("end %u.%u", ref.index, ref.generation);
    journal_line();
}

FAKE(void, wp_pools_on_lost, struct wp_pools *of, struct wp_slot_ref ref,
     struct wp_str reason)
{
    assert_ptr_equal(of, pools);
    journal("lost %u.%u %.*s", ref.index, ref.generation, (int)reason.len,
            reason.ptr);
    journal_line();
}

FAKE(int, sched_yield, void)
{
    struct wp_claim *it = late;

    late = NULL;
    if (it != NULL) {
        it->status = WP_OK;
        it->done(it);
    }
    return 0;
}

/* What is asked and not freed again. */
static const void *live[16];

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void __real_free(void *at);
void __wrap_free(void *at);

static void
replace(const void *at, const void *by)
{
    size_t i = 0;

    while (i < WP_ARRAY_LEN(live) && live[i] != at) {
        i++;
    }
    if (i < WP_ARRAY_LEN(live)) {
        live[i] = by;
    } else {
        assert_null(by);
    }
}

void *
__wrap_calloc(size_t n, size_t size)
{
    void *at = __real_calloc(n, size);

    replace(NULL, at);
    return at;
}

void
__wrap_free(void *at)
{
    if (at != NULL) {
        replace(at, NULL);
    }
    __real_free(at);
}

static bool
post(void *self, void (*run)(void *arg, uint64_t a, uint64_t b), void *arg,
     uint64_t a, uint64_t b)
{
    assert_ptr_equal(self, &parts);
    assert_true(a == 0 && b == 0);
    journal("post %d", posts);
    journal_line();
    posted.run = run;
    posted.arg = arg;
    return posts;
}

static void
on_answer(void *ctx, const char *ns, const char *name)
{
    assert_ptr_equal(ctx, &asks);
    journal("answer of %s/%s", ns, name);
    journal_line();
}

/* --- The rig --- */

static int
set_up(void **state)
{
    (void)state;
    memset(&parts, 0, sizeof parts);
    parts.base = event_base_new();
    parts.core.pools = (void *)pools;
    parts.post = post;
    parts.self = &parts;
    claim = (struct wp_object){
        .kind = WP_KIND_SANDBOX_CLAIM, .ns = "team", .name = "c", .uid = "u"};
    claims = WP_PENDING;
    cancels = posts = true;
    late = latest = NULL;
    posted.run = NULL;
    journal_drop();
    asks = wp_claim_asks_create(&parts, on_answer, &asks);
    return parts.base == NULL || asks == NULL;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_claim_asks_destroy(asks);
    event_base_free(parts.base);
    for (size_t i = 0; i < WP_ARRAY_LEN(live); i++) {
        if (live[i] != NULL) {
            print_error("something is not freed\n");
            return 1;
        }
    }
    return 0;
}

static struct wp_claim_ask *
ask(void)
{
    return wp_claim_ask_begin(asks, &claim, "p", 5);
}

/* The core answers, on whatever thread. */
static void
answer(struct wp_claim *it, enum wp_status status)
{
    it->status = status;
    it->done(it);
}

static void
run_posted(void)
{
    assert_non_null(posted.run);
    posted.run(posted.arg, 0, 0);
    posted.run = NULL;
}

static double
sweeps_in_s(void)
{
    return timers_left_s(parts.base, asks);
}

#define ASKED "claim team/p for system:sandboxclaims u waits 5 lasting\n"

/* --- Answers --- */

static void
an_answer_at_once_is_there(void **state)
{
    struct wp_claim_ask *made;

    (void)state;
    claims = WP_OK;
    made = ask();
    assert_int_equal(wp_claim_ask_status(made), WP_OK);
    assert_ptr_equal(wp_claim_ask_answer(made), latest);
    assert_string_equal(wp_claim_ask_pool(made), "p");
    assert_true(sweeps_in_s() < 0);
    wp_claim_ask_keep(made);
    journal_is(ASKED);
    claims = WP_RESOURCE_EXHAUSTED;
    made = ask();
    assert_int_equal(wp_claim_ask_status(made), WP_RESOURCE_EXHAUSTED);
    wp_claim_ask_drop(made);
    journal_is(ASKED);
    /* Nothing is awaited, so nothing is swept. */
    assert_true(sweeps_in_s() < 0);
}

static void
a_later_answer_is_told(void **state)
{
    struct wp_claim_ask *first;
    struct wp_claim_ask *second;
    struct wp_claim *of_first;

    (void)state;
    first = ask();
    of_first = latest;
    assert_true(sweeps_in_s() >= 0 && sweeps_in_s() < 0.2);
    claim.name = "d";
    claim.uid = "v";
    second = ask();
    journal_is(ASKED
               "claim team/p for system:sandboxclaims v waits 5 lasting\n");
    answer(of_first, WP_UNAVAILABLE);
    journal_is("post 1\n");
    /* Not before it is seen on this thread. */
    assert_int_equal(wp_claim_ask_status(first), WP_PENDING);
    answer(latest, WP_OK);
    journal_is("");
    run_posted();
    journal_is("answer of team/c\nanswer of team/d\n");
    assert_int_equal(wp_claim_ask_status(first), WP_UNAVAILABLE);
    assert_int_equal(wp_claim_ask_status(second), WP_OK);
    wp_claim_ask_drop(first);
    journal_is("");
    wp_claim_ask_keep(second);
    journal_is("");
    /* The sweep finds nothing, and is the last. */
    timers_fire(parts.base, asks);
    assert_true(sweeps_in_s() < 0);
}

/* The channel to this thread is full. */
static void
the_sweep_finds_what_nobody_could_tell(void **state)
{
    struct wp_claim_ask *first;
    struct wp_claim_ask *second;
    struct wp_claim *of_first;

    (void)state;
    posts = false;
    first = ask();
    of_first = latest;
    second = ask();
    answer(of_first, WP_OK);
    journal_is(ASKED ASKED "post 0\n");
    timers_fire(parts.base, asks);
    journal_is("answer of team/c\n");
    wp_claim_ask_keep(first);
    assert_true(sweeps_in_s() >= 0 && sweeps_in_s() < 0.2);
    wp_claim_ask_drop(second);
    journal_is("cancel u\n");
    timers_fire(parts.base, asks);
    assert_true(sweeps_in_s() < 0);
}

/* --- Ends --- */

static void
what_is_dropped_goes_back(void **state)
{
    static const struct {
        enum wp_status status;
        bool replayed;
        const char *said;
    } rows[] = {
        {WP_OK, false, "undo u\n"},
        {WP_OK, true, "end 7.8\n"},
        {WP_NOT_FOUND, false, ""},
        {WP_NOT_FOUND, true, ""},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_claim_ask *made;

        claims = rows[i].status;
        made = ask();
        latest->replayed = rows[i].replayed;
        journal_drop();
        wp_claim_ask_drop(made);
        journal_is(rows[i].said);
        /* The same of one that is answered once it could not be withdrawn. */
        claims = WP_PENDING;
        cancels = false;
        made = ask();
        latest->replayed = rows[i].replayed;
        wp_claim_ask_drop(made);
        journal_is(ASKED "cancel u\n");
        answer(latest, rows[i].status);
        journal_is("post 1\n");
        run_posted();
        journal_is(rows[i].said);
        timers_fire(parts.base, asks);
        assert_true(sweeps_in_s() < 0);
    }
}

static void
what_is_lost_is_told_with_its_reason(void **state)
{
    struct wp_claim_ask *made;

    (void)state;
    claims = WP_OK;
    made = ask();
    journal_drop();
    wp_claim_ask_lose(made, "it fell");
    journal_is("lost 7.8 it fell\nend 7.8\n");
}

/* Nobody is told any more; what is being answered is waited for. */
static void
all_ends_with_whoever_asked(void **state)
{
    struct wp_claim_ask *made;

    (void)state;
    (void)ask();
    (void)ask();
    claims = WP_OK;
    made = ask();
    assert_int_equal(wp_claim_ask_status(made), WP_OK);
    journal_drop();
    wp_claim_asks_destroy(asks);
    journal_is("cancel u\ncancel u\n");
    asks = wp_claim_asks_create(&parts, on_answer, &asks);
    claims = WP_PENDING;
    (void)ask();
    cancels = false;
    journal_drop();
    wp_claim_asks_destroy(asks);
    journal_is("cancel u\npost 1\nundo u\n");
    asks = wp_claim_asks_create(&parts, NULL, NULL);
    (void)ask();
    answer(latest, WP_OK);
    cancels = true;
    run_posted();
    journal_is(ASKED "post 1\n");
    wp_claim_asks_destroy(asks);
    wp_claim_asks_destroy(NULL);
    asks = NULL;
    journal_is("");
}

/* --- Names --- */

/* n letters. */
static const char *
long_text(size_t n)
{
    static char texts[8][512];
    static unsigned next;
    char *text = texts[next++ % 8];

    memset(text, 'x', n);
    text[n] = '\0';
    return text;
}

static void
the_core_is_asked_for_what_it_can_have(void **state)
{
    const struct {
        const char *uid;
        const char *ns;
        const char *pool;
        bool asked;
    } rows[] = {
        {"u", "n", "p", true},
        {"", "n", "p", false},
        {"u", "", "p", false},
        {"u", "n", "", false},
        {long_text(WP_CLAIM_ID_MAX), "n", "p", true},
        {long_text(WP_CLAIM_ID_MAX + 1), "n", "p", false},
        {"u", long_text(WP_NAMESPACE_MAX), "p", true},
        {"u", long_text(WP_NAMESPACE_MAX + 1), "p", false},
        {"u", "n", long_text(WP_POOL_NAME_MAX), true},
        {"u", "n", long_text(WP_POOL_NAME_MAX + 1), false},
        {"u", "n", long_text(254), false},
    };

    (void)state;
    claims = WP_ABORTED;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        char said[1024];
        struct wp_claim_ask *made;

        claim.uid = rows[i].uid;
        claim.ns = rows[i].ns;
        made = wp_claim_ask_begin(asks, &claim, rows[i].pool, -1);
        (void)snprintf(
            said, sizeof said,
            "claim %s/%s for system:sandboxclaims %s waits -1 lasting\n",
            rows[i].ns, rows[i].pool, rows[i].uid);
        journal_is(rows[i].asked ? said : "");
        assert_int_equal(wp_claim_ask_status(made),
                         rows[i].asked ? WP_ABORTED : WP_NOT_FOUND);
        assert_int_equal(wp_claim_ask_answer(made)->status,
                         wp_claim_ask_status(made));
        assert_string_equal(wp_claim_ask_pool(made),
                            i == 10 ? "" : rows[i].pool);
        wp_claim_ask_drop(made);
        journal_is("");
    }
    assert_true(sweeps_in_s() < 0);
}

static void
the_longest_name_is_told(void **state)
{
    char said[512];

    (void)state;
    for (size_t n = 253; n < 255; n++) {
        struct wp_claim_ask *made;

        claims = WP_PENDING;
        claim.name = long_text(n);
        made = ask();
        answer(latest, WP_OK);
        journal_drop();
        run_posted();
        (void)snprintf(said, sizeof said, "answer of team/%s\n",
                       n == 253 ? claim.name : "");
        journal_is(said);
        wp_claim_ask_keep(made);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_answer_at_once_is_there),
        TEST(a_later_answer_is_told),
        TEST(the_sweep_finds_what_nobody_could_tell),
        TEST(what_is_dropped_goes_back),
        TEST(what_is_lost_is_told_with_its_reason),
        TEST(all_ends_with_whoever_asked),
        TEST(the_core_is_asked_for_what_it_can_have),
        TEST(the_longest_name_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
