/* tests/unit/allocator/advice/replay_story_test.c - replays of a few claims,
 * whole: all that the policy is shown, at each moment, and the whole result. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/advice/replay.h"
#include "allocator/advice/replay_parts.h"
#include "pool/base/clock.h"
#include "pool/base/compiler.h"
#include "pool/history/history.h"
#include "pool/scale/scaler.h"
#include "tests/support/base/journal.h"

#define MS WP_NS_PER_MS
#define S WP_NS_PER_S

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

static unsigned
    fails_at; /* The n-th that is asked for from here on; 0: none. */

static bool
fails(void)
{
    return fails_at > 0 && --fails_at == 0;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *
__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *
__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

static bool no_scaler;

#define THE_SCALER ((struct wp_scaler *)(void *)&no_scaler)
#define WRAP_SCALER(type, name, ...)                                           \
    type __wrap_wp_scaler_##name(__VA_ARGS__);                                 \
    type __wrap_wp_scaler_##name(__VA_ARGS__)

/* --- the claims --- */

struct moment {
    int64_t ms;
    uint32_t n;
};

struct told {
    int64_t announced_ms;
    int64_t from_ms;
    int64_t until_ms;
    uint32_t n;
};

struct story {
    const struct moment *moments;
    uint32_t n_moments;
    uint32_t at;
    const struct told *told;
    uint32_t n_told;
};

static bool
next_moment(void *self, int64_t *mono_ns, uint32_t *n)
{
    struct story *story = self;

    if (story->at == story->n_moments) {
        return false;
    }
    *mono_ns = story->moments[story->at].ms * MS;
    *n = story->moments[story->at++].n;
    return true;
}

static bool
next_told(void *self, uint32_t i, int64_t *announced_ns, int64_t *from_ns,
          int64_t *until_ns, uint32_t *n)
{
    const struct story *story = self;

    if (i >= story->n_told) {
        return false;
    }
    *announced_ns = story->told[i].announced_ms * MS;
    *from_ns = story->told[i].from_ms * MS;
    *until_ns = story->told[i].until_ms * MS;
    *n = story->told[i].n;
    return true;
}

/* --- the policy, which goes through a list of targets --- */

struct listed {
    const uint32_t *targets;
    uint32_t n;
    uint32_t at;
    int64_t again_ns; /* 0: never; below: at once. */
    bool quiet;
};

static void
on_claims(void *self, int64_t now_ns, uint32_t n, uint32_t missed)
{
    if (!((const struct listed *)self)->quiet) {
        journal("  %lld: %u claims, %u missed", (long long)(now_ns / MS), n,
                missed);
        journal_line();
    }
}

static void
on_ready(void *self, int64_t now_ns, int64_t lead_ns)
{
    if (!((const struct listed *)self)->quiet) {
        journal("  %lld: ready after %lld", (long long)(now_ns / MS),
                (long long)(lead_ns / MS));
        journal_line();
    }
}

static void
on_announced(void *self, int64_t now_ns, int64_t from_ns, int64_t until_ns,
             uint32_t n)
{
    (void)self;
    journal("  %lld: %u announced from %lld to %lld", (long long)(now_ns / MS),
            n, (long long)(from_ns / MS), (long long)(until_ns / MS));
    journal_line();
}

static uint32_t
target(void *self, const struct wp_replay_view *view, int64_t *next_ns)
{
    struct listed *listed = self;
    uint32_t to = listed->targets[listed->at];

    if (!listed->quiet) {
        journal("  %lld us: %u ready %u warming %u used %u wait, %llu claims "
                "%llu missed %llu became ready%s: %u",
                (long long)(view->now_ns / WP_NS_PER_US), view->ready,
                view->warming, view->in_use, view->waiting,
                (unsigned long long)view->claims,
                (unsigned long long)view->missed,
                (unsigned long long)view->became_ready,
                view->stuck ? " stuck" : "", to);
        journal_line();
    }
    if (listed->again_ns != 0) {
        *next_ns = view->now_ns + listed->again_ns;
    }
    listed->at += listed->at + 1 < listed->n ? 1 : 0;
    return to;
}

static bool
on_progress(void *ctx, double share)
{
    int *left = ctx;

    journal("  progress %.4f", share);
    journal_line();
    return *left < 0 || (*left)-- > 0;
}

static void
journal_result(const struct wp_replay_result *r)
{
    journal("  = %llu claims %llu hits %.6g idle %.6g %.6g warming %.6g",
            (unsigned long long)r->claims, (unsigned long long)r->hits,
            r->hit_rate, r->idle_mean, r->idle_s, r->warming_s);
    journal_line();
    journal("    waits %.6g %.6g %.6g created %llu failed %llu unused %llu "
            "stock %u over %u changes %llu%s",
            r->wait_p50_s, r->wait_p99_s, r->wait_p999_s,
            (unsigned long long)r->created, (unsigned long long)r->failed,
            (unsigned long long)r->unused, r->stock_max, r->over_target_max,
            (unsigned long long)r->target_changes,
            r->stopped ? " stopped" : "");
    journal_line();
}

static struct wp_replay_config
config_of(struct story *story, int64_t begin_ms, int64_t end_ms)
{
    return (struct wp_replay_config){
        .source = {.next = next_moment,
                   .announced = story->n_told > 0 ? next_told : NULL,
                   .self = story},
        .lead = {.median_s = 1},
        .miss = WP_MISS_LOST,
        .begin_ns = begin_ms * MS,
        .end_ns = end_ms * MS,
        .inflight_max = UINT32_MAX,
        .ceiling = UINT32_MAX,
        .seed = 1,
    };
}

static void
replay(const char *what, const struct wp_replay_config *config,
       struct listed *listed)
{
    struct wp_replay_policy policy = {.name = "listed",
                                      .self = listed,
                                      .on_claims = on_claims,
                                      .on_ready = on_ready,
                                      .on_announced = on_announced,
                                      .target = target};
    struct wp_replay_result result = {.claims = 99};
    struct wp_err err = {.msg = ""};
    enum wp_status status;

    journal("%s", what);
    journal_line();
    ((struct story *)config->source.self)->at = 0;
    listed->at = 0;
    status = wp_replay_run(config, &policy, &result, &err);
    if (status != WP_OK) {
        journal("  %s %s", wp_status_name(status), err.msg);
        journal_line();
        return;
    }
    journal_result(&result);
}

static const struct moment few[] = {{2000, 1}, {2500, 0}, {3000, 3},
                                    {3000, 1}, {3200, 1}, {7000, 2}};
static const uint32_t two[] = {2};
static const uint32_t up_and_down[] = {0, 3, 3, 1, 1, 5};

static void
test_claims_that_are_lost_or_wait(void **state)
{
    struct story story = {.moments = few, .n_moments = WP_ARRAY_LEN(few)};
    struct listed listed = {.targets = two, .n = 1};
    struct wp_replay_config config = config_of(&story, 0, 10000);

    (void)state;
    replay("lost", &config, &listed);
    config.begin_ns = 3000 * MS;
    replay("lost, of which the first does not count", &config, &listed);
    config.miss = WP_MISS_QUEUED;
    replay("queued", &config, &listed);
    config.waiting_orders_none = true;
    replay("queued, and nothing is ordered for them", &config, &listed);
    config.inflight_max = 1;
    replay("one at a time", &config, &listed);
    config.inflight_max = 0;
    replay("none at a time", &config, &listed);
    config = config_of(&story, 2000, 9000);
    listed = (struct listed){
        .targets = up_and_down, .n = WP_ARRAY_LEN(up_and_down), .again_ns = S};
    replay("targets change", &config, &listed);
    listed.again_ns = -1;
    config.end_ns = 2003 * MS;
    replay("asked at once again", &config, &listed);
    config.begin_ns = config.end_ns = 3000 * MS;
    listed.again_ns = 0;
    replay("it ends where it begins", &config, &listed);
    config.begin_ns = config.end_ns = 1000 * MS;
    replay("it ends before the first claim", &config, &listed);
    config.end_ns = 1500 * MS;
    replay("no claim counts", &config, &listed);
    journal_compare(WP_TEST_GOLDEN "/replay_claims.txt");
}

static void
test_backends(void **state)
{
    static const int64_t measured[] = {500 * MS, 1500 * MS, 4000 * MS};
    struct story story = {.moments = few, .n_moments = WP_ARRAY_LEN(few)};
    struct listed listed = {.targets = two, .n = 1};
    struct wp_replay_config config = config_of(&story, 1000, 12000);

    (void)state;
    config.hold_median_s = 1.5;
    replay("they are used for a while", &config, &listed);
    config.miss = WP_MISS_QUEUED;
    config.hold_sigma = 0.7;
    replay("for a while or another", &config, &listed);
    config.ceiling = 3;
    config.ceiling_from_ns = 2500 * MS;
    config.ceiling_until_ns = 6000 * MS;
    replay("a ceiling", &config, &listed);
    config = config_of(&story, 0, 12000);
    config.creates_per_s_max = 0.8;
    replay("a bound on the rate", &config, &listed);
    config = config_of(&story, 0, 12000);
    config.lead.slow_share = 0.4;
    config.lead.slow_extra_s = 2;
    config.lead.sigma = 0.3;
    config.seed = 5;
    replay("slow ones", &config, &listed);
    config.lead.fail_share = 0.4;
    replay("failures", &config, &listed);
    config.begin_ns = 5000 * MS;
    replay("failures of which the first do not count", &config, &listed);
    config = config_of(&story, 0, 12000);
    config.hold_median_s = 10;
    config.ceiling = 2;
    config.ceiling_from_ns = 3000 * MS;
    config.ceiling_until_ns = 7270 * MS; /* When it tries again. */
    replay("a ceiling from one claim until another", &config, &listed);
    config = config_of(&story, 0, 12000);
    config.lead = (struct wp_replay_lead){.median_s = 1, .fail_share = 1};
    replay("nothing but failures", &config, &listed);
    config.lead =
        (struct wp_replay_lead){.measured_ns = measured, .n_measured = 3};
    config.miss = WP_MISS_QUEUED;
    replay("measured ones", &config, &listed);
    journal_compare(WP_TEST_GOLDEN "/replay_backends.txt");
}

static void
test_announcements(void **state)
{
    static const struct told told[] = {
        {3000, 6000, 7000, 1}, {500, 1000, 2000, 2},  {3000, 3000, 3000, 3},
        {2999, 4000, 5000, 4}, {9000, 9500, 9999, 5}, {20000, 20001, 20002, 6}};
    static struct told many[200];
    struct story story = {.moments = few,
                          .n_moments = WP_ARRAY_LEN(few),
                          .told = told,
                          .n_told = WP_ARRAY_LEN(told)};
    struct listed listed = {.targets = two, .n = 1};
    struct wp_replay_config config = config_of(&story, 2000, 10000);

    (void)state;
    replay("announcements", &config, &listed);
    config.begin_ns = 0;
    replay("they begin after it does", &config, &listed);
    for (uint32_t i = 0; i < WP_ARRAY_LEN(many); i++) {
        many[i] = (struct told){1000 + (i * 7) % 3, i, i, i};
    }
    story.told = many;
    story.n_told = WP_ARRAY_LEN(many);
    listed.quiet = true;
    config.end_ns = 1100 * MS;
    replay("many, as they were told", &config, &listed);
    journal_compare(WP_TEST_GOLDEN "/replay_announced.txt");
}

static void
test_progress(void **state)
{
    struct story story = {.moments = few, .n_moments = WP_ARRAY_LEN(few)};
    struct listed listed = {
        .targets = two, .n = 1, .again_ns = 10 * MS, .quiet = true};
    struct wp_replay_config config = config_of(&story, 1500, 5500);
    int left = -1;

    (void)state;
    config.progress = on_progress;
    config.ctx = &left;
    replay("asked each hundredth and more", &config, &listed);
    listed.again_ns = S;
    replay("asked each second", &config, &listed);
    left = 3;
    replay("stopped", &config, &listed);
    config.begin_ns = 4000 * MS;
    left = 1;
    replay("stopped before it counts", &config, &listed);
    journal_compare(WP_TEST_GOLDEN "/replay_progress.txt");
}

/* More than one ring holds, in two bursts, so that the ring goes round. */
static void
test_many_wait(void **state)
{
    static struct moment many[300];
    struct story story = {.moments = many, .n_moments = WP_ARRAY_LEN(many)};
    static const uint32_t targets[] = {0};
    struct listed listed = {.targets = targets, .n = 1, .quiet = true};
    struct wp_replay_config config = config_of(&story, 0, 200000);

    (void)state;
    for (uint32_t i = 0; i < WP_ARRAY_LEN(many); i++) {
        many[i] = (struct moment){1000 + 10 * (int64_t)i, i % 5};
    }
    config.miss = WP_MISS_QUEUED;
    config.inflight_max = 100;
    config.hold_median_s = 1;
    replay("many wait", &config, &listed);
    config.begin_ns = 2500 * MS;
    config.inflight_max = 7;
    replay("for long", &config, &listed);
    config.end_ns = 4000 * MS;
    replay("at the end, too", &config, &listed);
    journal_compare(WP_TEST_GOLDEN "/replay_waits.txt");
}

static void
test_what_cannot_be_replayed(void **state)
{
    static const struct {
        size_t offset;
        double values[4]; /* Good, good, bad, bad; */
    } rows[] = {
#define ROW(field) offsetof(struct wp_replay_config, field)
        {ROW(lead.median_s), {0, 1, -1e-9, NAN}},
        {ROW(lead.sigma), {0, 1, -1e-9, NAN}},
        {ROW(lead.slow_extra_s), {0, 1, -1e-9, NAN}},
        {ROW(lead.slow_share), {0, 1, -1e-9, 1.001}},
        {ROW(lead.fail_share), {0, 1, -1e-9, 1.001}},
        {ROW(hold_median_s), {0, 1, -1e-9, NAN}},
        {ROW(hold_sigma), {0, 1, -1e-9, NAN}},
        {ROW(creates_per_s_max), {0, 1, -1e-9, NAN}},
    };
    struct story story = {.moments = few, .n_moments = WP_ARRAY_LEN(few)};
    struct listed listed = {.targets = two, .n = 1, .quiet = true};
    struct wp_replay_config config = config_of(&story, 2000, 1999);

    (void)state;
    replay("it ends before it begins", &config, &listed);
    config.begin_ns = 0;
    config.end_ns = WP_TIME_NEVER;
    replay("it never ends", &config, &listed);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        for (size_t k = 0; k < 4; k++) {
            char what[32];

            config = config_of(&story, 0, 5000);
            memcpy((char *)&config + rows[i].offset, &rows[i].values[k],
                   sizeof(double));
            (void)snprintf(what, sizeof what, "%zu: %g", i, rows[i].values[k]);
            replay(k == 3 && isnan(rows[i].values[k]) ? "no number" : what,
                   &config, &listed);
        }
    }
    journal_compare(WP_TEST_GOLDEN "/replay_refused.txt");
}

/* Whatever cannot be had, it is said, and nothing is left behind. */
static void
test_memory_lacks(void **state)
{
    static struct moment many[40];
    static struct told told[70];
    struct story story = {.moments = many,
                          .n_moments = WP_ARRAY_LEN(many),
                          .told = told,
                          .n_told = WP_ARRAY_LEN(told)};
    struct listed listed = {.targets = two, .n = 1, .quiet = true};
    struct wp_replay_config config = config_of(&story, 0, 60000);
    struct wp_replay_policy policy = {
        .name = "listed", .self = &listed, .target = target};
    struct wp_replay_result result;
    enum wp_status status;
    unsigned n = 0;

    (void)state;
    for (uint32_t i = 0; i < WP_ARRAY_LEN(many); i++) {
        many[i] = (struct moment){1000 + 10 * (int64_t)i, 20};
    }
    config.miss = WP_MISS_QUEUED;
    config.hold_median_s = 10;
    do {
        struct wp_err err = {.msg = ""};

        story.at = 0;
        fails_at = ++n;
        status = wp_replay_run(&config, &policy, &result, &err);
        if (status != WP_OK) {
            assert_int_equal(status, WP_RESOURCE_EXHAUSTED);
            assert_string_equal(err.msg, "replay: no memory");
        }
    } while (status != WP_OK);
    assert_in_range(n, 10, 100);
    fails_at = 0;
    journal_result(&result);
    journal_compare(WP_TEST_GOLDEN "/replay_memory.txt");
}

/* The policies that learn nothing. */
static uint32_t
ask(struct wp_replay_policy *policy, int64_t now_ms, int64_t *next_ms)
{
    const struct wp_replay_view view = {.now_ns = now_ms * MS};
    int64_t next_ns = -1;
    uint32_t to = policy->target(policy->self, &view, &next_ns);

    *next_ms = next_ns == WP_TIME_NEVER ? -1 : next_ns / MS;
    return to;
}

static void
test_who_knows_every_claim(void **state)
{
    static struct moment many[100];
    static const struct moment crowds[] = {{1, UINT32_MAX}, {2, UINT32_MAX}};
    static const int64_t at_ms[] = {0,    999,  1000, 1990, 1999,
                                    2000, 2500, 2990, 4000};
    struct story story = {.moments = many, .n_moments = WP_ARRAY_LEN(many)};
    struct wp_replay_source future = {.next = next_moment, .self = &story};
    struct wp_replay_policy policy;
    int64_t next_ms;

    (void)state;
    for (uint32_t i = 0; i < WP_ARRAY_LEN(many); i++) {
        many[i] = (struct moment){2000 + 10 * (int64_t)i, 1 + i % 2};
    }
    for (unsigned lacks = 0; lacks <= 3; lacks++) {
        story.at = 0;
        fails_at = lacks;
        if (!wp_replay_policy_clairvoyant(future, 1, &policy)) {
            journal("%u: no memory", lacks);
            journal_line();
            continue;
        }
        /* With 3 it lacks for the longer ring, until there is more. */
        journal("%u: %s", lacks, policy.name);
        assert_null(policy.on_claims);
        assert_null(policy.on_ready);
        assert_null(policy.on_announced);
        for (size_t i = 0; i < WP_ARRAY_LEN(at_ms); i++) {
            uint32_t to = ask(&policy, at_ms[i], &next_ms);

            journal(" %lld: %u, %lld;", (long long)at_ms[i], to,
                    (long long)next_ms);
        }
        journal_line();
        policy.destroy(policy.self);
    }
    story = (struct story){.moments = crowds, .n_moments = 2};
    fails_at = 0;
    assert_true(wp_replay_policy_clairvoyant(future, 1, &policy));
    journal("crowds: %u", ask(&policy, 0, &next_ms));
    journal(" %u", ask(&policy, 1, &next_ms));
    journal(" %u", ask(&policy, 2, &next_ms));
    journal_line();
    policy.destroy(policy.self);
    fails_at = 1;
    assert_false(wp_replay_policy_fixed(7, &policy));
    assert_true(wp_replay_policy_fixed(7, &policy));
    journal("%s: %u", policy.name, ask(&policy, 0, &next_ms));
    journal(" %lld", (long long)next_ms);
    policy.destroy(policy.self);
    journal_compare(WP_TEST_GOLDEN "/replay_told.txt");
}

/* --- Ours, between fakes of the scaler --- */

WRAP_SCALER(struct wp_scaler *, create, enum wp_miss miss, uint32_t replicas,
            int64_t prior_lead_ns, int64_t mono_ns, int64_t wall_ns)
{
    journal("create %d %u %lld %lld %lld", miss, replicas,
            (long long)prior_lead_ns, (long long)mono_ns, (long long)wall_ns);
    journal_line();
    return no_scaler ? NULL : THE_SCALER;
}

WRAP_SCALER(void, destroy, struct wp_scaler *scaler)
{
    assert_ptr_equal(scaler, THE_SCALER);
    journal("destroy");
    journal_line();
}

WRAP_SCALER(void, set_policy, struct wp_scaler *scaler,
            const struct wp_scale_policy *policy)
{
    assert_ptr_equal(scaler, THE_SCALER);
    journal("policy %g", policy->hit_rate);
    journal_line();
}

WRAP_SCALER(void, on_claims, struct wp_scaler *scaler, int64_t mono_ns,
            uint32_t n, uint32_t missed)
{
    assert_ptr_equal(scaler, THE_SCALER);
    journal("claims at %lld: %u %u", (long long)mono_ns, n, missed);
    journal_line();
}

WRAP_SCALER(void, on_ready, struct wp_scaler *scaler, int64_t mono_ns,
            int64_t lead_ns)
{
    assert_ptr_equal(scaler, THE_SCALER);
    journal("ready at %lld: %lld", (long long)mono_ns, (long long)lead_ns);
    journal_line();
}

WRAP_SCALER(void, set_at_once, struct wp_scaler *scaler, int64_t mono_ns,
            uint32_t n)
{
    assert_ptr_equal(scaler, THE_SCALER);
    journal("at once at %lld: %u", (long long)mono_ns, n);
    journal_line();
}

WRAP_SCALER(enum wp_status, reserve, struct wp_scaler *scaler, struct wp_str id,
            uint32_t n, int64_t from_wall_ns, int64_t until_wall_ns,
            struct wp_err *err)
{
    assert_ptr_equal(scaler, THE_SCALER);
    journal("reserve %.*s: %u from %lld until %lld", (int)id.len, id.ptr, n,
            (long long)from_wall_ns, (long long)until_wall_ns);
    journal_line();
    return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "too many");
}

WRAP_SCALER(struct wp_scale_decision, decide, struct wp_scaler *scaler,
            const struct wp_scale_view *view, int64_t *next_ns)
{
    assert_ptr_equal(scaler, THE_SCALER);
    journal("decide at %lld, wall %lld: %u, %u ready %u warming, room %u "
            "budget %u%s, %u %g %g",
            (long long)view->mono_ns, (long long)view->wall_ns, view->replicas,
            view->ready, view->warming, view->room, view->budget,
            view->stuck ? " stuck" : "", view->backend_at_once, view->others,
            view->queue_s);
    journal_line();
    *next_ns = 123;
    return (struct wp_scale_decision){.target = 17, .hit_rate = 0.75};
}

static void
test_ours_is_the_scaler(void **state)
{
    const struct wp_scale_policy scale = {.hit_rate = 0.98};
    const struct wp_replay_view views[] = {
        {.now_ns = 50, .ready = 3, .warming = 4, .in_use = 5, .waiting = 6},
        {.now_ns = 60, .ready = 7, .warming = 8, .stuck = true}};
    struct wp_replay_policy policy;

    (void)state;
    fails_at = 1;
    assert_false(
        wp_replay_policy_ours(&scale, WP_MISS_LOST, 9, 11, 1000, &policy));
    no_scaler = true;
    assert_false(
        wp_replay_policy_ours(&scale, WP_MISS_LOST, 9, 11, 1000, &policy));
    no_scaler = false;
    assert_true(
        wp_replay_policy_ours(&scale, WP_MISS_QUEUED, 9, 11, 1000, &policy));
    journal("%s", policy.name);
    journal_line();
    wp_replay_policy_ours_at_once(&policy, 33);
    policy.on_claims(policy.self, 41, 42, 43);
    policy.on_ready(policy.self, 44, 45);
    policy.on_announced(policy.self, 46, 47, 48, 49);
    policy.on_announced(policy.self, 46, 147, 148, 149);
    assert_true(wp_replay_policy_ours_outlook(&policy) == 0);
    for (size_t i = 0; i < WP_ARRAY_LEN(views); i++) {
        int64_t next_ns = 0;

        assert_int_equal(policy.target(policy.self, &views[i], &next_ns), 17);
        assert_int_equal(next_ns, 123);
    }
    assert_true(wp_replay_policy_ours_outlook(&policy) == 0.75);
    policy.destroy(policy.self);
    journal_compare(WP_TEST_GOLDEN "/replay_ours.txt");
}

/* --- Claims of a history --- */

static void
add(struct wp_history *history, enum wp_history_kind kind, int64_t s,
    uint32_t n)
{
    wp_history_add(history, s * S,
                   &(struct wp_history_event){
                       .kind = kind, .wall_ns = s * S, .n = n, .lead_ns = S});
}

static void
journal_source(const struct wp_history *history)
{
    struct wp_replay_source source;
    int64_t mono_ns;
    uint32_t n;

    assert_true(wp_replay_source_history(history, &source));
    assert_null(source.announced);
    while (source.next(source.self, &mono_ns, &n)) {
        journal("%lld ms: %u; ", (long long)(mono_ns / MS), n);
    }
    assert_false(source.next(source.self, &mono_ns, &n));
    wp_replay_source_history_end(&source);
    assert_null(source.self);
    assert_null(source.next);
    journal_line();
}

/* By the time since its first event, without the gaps. */
static void
test_claims_of_a_history(void **state)
{
    struct wp_history *history = wp_history_create(1 << 20);
    struct wp_replay_source source;

    (void)state;
    journal_source(history);
    add(history, WP_HISTORY_READY, 1000, 0);
    journal_source(history);
    add(history, WP_HISTORY_CLAIMS, 1005, 2);
    add(history, WP_HISTORY_READY, 1006, 0);
    add(history, WP_HISTORY_GAP, 1008, 0);
    add(history, WP_HISTORY_CLAIMS, 1020, 1);
    add(history, WP_HISTORY_CLAIMS, 1021, 0);
    add(history, WP_HISTORY_GAP, 1030, 0);
    add(history, WP_HISTORY_READY, 1034, 0);
    add(history, WP_HISTORY_CLAIMS, 1040, 3);
    add(history, WP_HISTORY_GAP, 1050, 0);
    journal_source(history);
    fails_at = 1;
    assert_false(wp_replay_source_history(history, &source));
    wp_history_destroy(history);
    journal_compare(WP_TEST_GOLDEN "/replay_history.txt");
}

/* --- What is due --- */

/* What is due together comes in an order that nothing but the calls decide. */
static void
test_the_order_of_what_is_due(void **state)
{
    static const int64_t at[] = {5, 3, 5, 3, 9, 5, 3, 1, 5, 3,
                                 1, 9, 9, 5, 3, 1, 5, 5, 3, 5};
    struct wp_replay_heap heap = {0};

    (void)state;
    for (int64_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < WP_ARRAY_LEN(at); i++) {
            assert_true(wp_replay_heap_push(&heap, at[i] + round,
                                            round * 100 + (int64_t)i));
        }
        for (size_t i = 0; i < 12; i++) {
            struct wp_replay_due due = wp_replay_heap_pop(&heap);

            journal("%lld:%lld ", (long long)due.at_ns, (long long)due.what);
        }
        journal_line();
    }
    while (heap.n > 0) {
        struct wp_replay_due due = wp_replay_heap_pop(&heap);

        journal("%lld:%lld ", (long long)due.at_ns, (long long)due.what);
    }
    wp_replay_heap_fini(&heap);
    journal_compare(WP_TEST_GOLDEN "/replay_due.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claims_that_are_lost_or_wait),
        cmocka_unit_test(test_backends),
        cmocka_unit_test(test_announcements),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_many_wait),
        cmocka_unit_test(test_what_cannot_be_replayed),
        cmocka_unit_test(test_memory_lacks),
        cmocka_unit_test(test_who_knows_every_claim),
        cmocka_unit_test(test_ours_is_the_scaler),
        cmocka_unit_test(test_claims_of_a_history),
        cmocka_unit_test(test_the_order_of_what_is_due),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
