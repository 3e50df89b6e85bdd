/* One leader at most, whatever the network does: contenders with clocks of
 * their own against a server that keeps one Lease object, as API servers do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/election.h"
#include "k8s/json.h"
#include "pool/base/rng.h"

enum {
    CONTENDERS = 3,
    CALLS_MAX = 64,
};

#define STEP_NS (20 * WP_NS_PER_MS)

enum verb {
    VERB_GET,
    VERB_POST,
    VERB_PUT,
};

/* What becomes of a call. */
enum fate {
    FATE_SERVED,
    FATE_ANSWER_LOST, /* Done, but the client is told it is not known. */
    FATE_LOST,        /* Not done, and the same. */
    FATE_LATE,        /* Nothing, until the test delivers it. */
    FATE_FORBIDDEN,   /* Writes are refused to this account. */
};

struct call {
    enum verb verb;
    struct wp_api *from;
    json_t *body;
    wp_api_done *done;
    void *ctx;
    bool late;
};

/* One contender's way to the server. */
struct wp_api {
    struct world *world;
    enum fate fate; /* Of what it sends. */
    uint32_t sent;
};

struct contender {
    struct wp_api api;
    struct wp_clock_manual clock;
    struct wp_election *election;
    char name[8];
    uint32_t begun; /* on_leading calls. */
    uint32_t ended;
    bool led; /* By the callbacks. */
    bool released;
    char told[32]; /* The leader that on_following named. */
};

struct world {
    bool by_default; /* Contenders have the times that are built in. */
    struct event_base *base;
    json_t *lease; /* NULL: not there. */
    uint64_t version;
    struct call calls[CALLS_MAX];
    size_t calls_len;
    struct contender all[CONTENDERS];
    struct wp_rng rng;
    uint32_t faults; /* Percent of calls that go wrong, by chance. */
    uint32_t conflicts;
};

/* --- The client, as elections see it --- */

static void
send_call(struct wp_api *api, enum verb verb,
          const struct wp_api_target *target, json_t *body, wp_api_done *done,
          void *ctx)
{
    struct world *world = api->world;

    assert_int_equal(target->kind, WP_KIND_LEASE);
    assert_int_equal(target->priority, WP_HTTP_CLAIM);
    assert_string_equal(target->ns, "home");
    assert_true(world->calls_len < CALLS_MAX);
    api->sent++;
    world->calls[world->calls_len++] =
        (struct call){verb, api, body, done, ctx, false};
}

void
wp_api_get(struct wp_api *api, const struct wp_api_target *target,
           wp_api_done *done, void *ctx)
{
    assert_string_equal(target->name, "lead");
    send_call(api, VERB_GET, target, NULL, done, ctx);
}

void
wp_api_post(struct wp_api *api, const struct wp_api_target *target,
            json_t *body, wp_api_done *done, void *ctx)
{
    send_call(api, VERB_POST, target, body, done, ctx);
}

void
wp_api_put(struct wp_api *api, const struct wp_api_target *target, json_t *body,
           wp_api_done *done, void *ctx)
{
    assert_string_equal(target->name, "lead");
    send_call(api, VERB_PUT, target, body, done, ctx);
}

/* --- The server --- */

static void
stamp(struct world *world)
{
    char version[24];

    (void)snprintf(version, sizeof version, "%llu",
                   (unsigned long long)++world->version);
    (void)wp_json_set_text(wp_json_at(world->lease, "metadata", NULL),
                           "resourceVersion", version);
}

static enum wp_status
serve(struct world *world, struct call *call)
{
    switch (call->verb) {
    case VERB_GET:
        return world->lease != NULL ? WP_OK : WP_NOT_FOUND;
    case VERB_POST:
        if (world->lease != NULL) {
            return WP_ALREADY_EXISTS;
        }
        assert_string_equal(wp_json_text(call->body, "metadata", "name", NULL),
                            "lead");
        break;
    case VERB_PUT:
        if (world->lease == NULL) {
            return WP_NOT_FOUND;
        }
        if (strcmp(
                wp_json_text(call->body, "metadata", "resourceVersion", NULL),
                wp_json_text(world->lease, "metadata", "resourceVersion",
                             NULL)) != 0) {
            world->conflicts++;
            return WP_ABORTED;
        }
        break;
    }
    json_decref(world->lease);
    world->lease = json_deep_copy(call->body);
    stamp(world);
    return WP_OK;
}

static void
end_call(struct world *world, size_t i, enum fate fate)
{
    struct call call = world->calls[i];
    enum wp_status status = fate == FATE_LOST ? WP_UNKNOWN_OUTCOME
                            : fate == FATE_FORBIDDEN && call.verb != VERB_GET
                                ? WP_PERMISSION_DENIED
                                : serve(world, &call);
    struct wp_api_result result = {.status = status, .retry_after_ns = -1};

    memmove(&world->calls[i], &world->calls[i + 1],
            (world->calls_len - i - 1) * sizeof world->calls[0]);
    world->calls_len--;
    if (fate == FATE_ANSWER_LOST) {
        result.status = WP_UNKNOWN_OUTCOME;
    } else if (status == WP_OK) {
        result.object = json_deep_copy(world->lease);
    }
    json_decref(call.body);
    call.done(call.ctx, &result);
    json_decref(result.object);
}

static enum fate
fate_of(struct world *world, const struct call *call)
{
    if (world->faults > 0 && wp_rng_below(&world->rng, 100) < world->faults) {
        return (enum fate)wp_rng_below(&world->rng, 4);
    }
    return call->from->fate;
}

/* Serves what is there; true when it did anything. */
static bool
serve_all(struct world *world)
{
    bool any = false;
    size_t i = 0;

    while (i < world->calls_len) {
        struct call *call = &world->calls[i];
        enum fate fate = call->late ? FATE_LATE : fate_of(world, call);

        if (fate == FATE_LATE) {
            call->late = true;
            i++;
        } else {
            end_call(world, i, fate);
            any = true;
        }
    }
    return any;
}

/* --- Time --- */

static uint32_t
leaders(const struct world *world)
{
    uint32_t n = 0;

    for (size_t i = 0; i < CONTENDERS; i++) {
        n += world->all[i].election != NULL &&
             wp_election_leads(world->all[i].election);
    }
    return n;
}

static void
settle(struct world *world)
{
    do {
        for (size_t i = 0; i < CONTENDERS; i++) {
            if (world->all[i].election != NULL) {
                wp_election_look(world->all[i].election);
            }
        }
        assert_int_not_equal(event_base_loop(world->base, EVLOOP_NONBLOCK), -1);
        assert_true(leaders(world) <= 1);
    } while (serve_all(world));
    assert_true(leaders(world) <= 1);
}

/* Each clock goes on by its own; one of them may be late or early by a
 * twentieth. */
static void
advance(struct world *world, int64_t ns)
{
    static const int drift[CONTENDERS] = {100, 95, 105};

    for (int64_t done = 0; done < ns; done += STEP_NS) {
        for (size_t i = 0; i < CONTENDERS; i++) {
            wp_clock_manual_advance(&world->all[i].clock,
                                    STEP_NS * drift[i] / 100);
        }
        assert_true(leaders(world) <= 1);
        settle(world);
    }
}

/* --- Contenders --- */

static void
on_leading(void *ctx)
{
    struct contender *c = ctx;

    assert_false(c->led);
    c->led = true;
    c->begun++;
}

static void
on_following(void *ctx, const char *leader)
{
    struct contender *c = ctx;

    assert_true(c->led);
    c->led = false;
    c->ended++;
    (void)snprintf(c->told, sizeof c->told, "%s", leader);
}

static void
on_released(void *ctx)
{
    struct contender *c = ctx;

    c->released = true;
}

static void
start(struct world *world, size_t i)
{
    struct contender *c = &world->all[i];

    *c = (struct contender){.api = {.world = world}};
    (void)snprintf(c->name, sizeof c->name, "c%zu", i);
    /* Neither the beginning nor the date of one clock says anything of
     * another. */
    wp_clock_manual_init(&c->clock, (int64_t)(i + 1) * 1000 * WP_NS_PER_S,
                         (int64_t)(i * 40000) * WP_NS_PER_S);
    c->election = wp_election_start(&(struct wp_election_config){
        .base = world->base,
        .clock = &c->clock.clock,
        .api = &c->api,
        .ns = "home",
        .name = "lead",
        .identity = c->name,
        .seed = 11 + i,
        /* The times that these stories are told in. */
        .duration_ns = world->by_default ? 0 : 4 * WP_NS_PER_S,
        .renew_ns = world->by_default ? 0 : 1 * WP_NS_PER_S,
        .deadline_ns = world->by_default ? 0 : 3 * WP_NS_PER_S,
        .on_leading = on_leading,
        .on_following = on_following,
        .ctx = c,
    });
    assert_non_null(c->election);
}

static void
stop(struct world *world, size_t i)
{
    wp_election_stop(world->all[i].election);
    world->all[i].election = NULL;
}

static int
set_up(void **state)
{
    struct world *world = calloc(1, sizeof *world);

    assert_non_null(world);
    world->base = event_base_new();
    assert_non_null(world->base);
    wp_rng_init(&world->rng, 3);
    *state = world;
    return 0;
}

static int
tear_down(void **state)
{
    struct world *world = *state;
    const struct wp_api_result cancelled = {.status = WP_CANCELLED,
                                            .retry_after_ns = -1};

    /* As the client ends its calls: some of nobody's, some of elections that
     * live on. */
    for (size_t i = 0; i < world->calls_len; i++) {
        json_decref(world->calls[i].body);
        world->calls[i].done(world->calls[i].ctx, &cancelled);
    }
    for (size_t i = 0; i < CONTENDERS; i++) {
        wp_election_stop(world->all[i].election);
    }
    json_decref(world->lease);
    event_base_free(world->base);
    free(world);
    return 0;
}

static const char *
holder(const struct world *world)
{
    return wp_json_text(world->lease, "spec", "holderIdentity", NULL);
}

/* --- Tests --- */

/* As deployed: nobody may be without a leader for five seconds. */
static void
by_default(void **state)
{
    struct world *world = *state;

    world->by_default = true;
    start(world, 0);
    settle(world);
    assert_int_equal(json_integer_value(wp_json_at(
                         world->lease, "spec", "leaseDurationSeconds", NULL)),
                     3);
    advance(world, 60 * WP_NS_PER_S);
    assert_int_equal(world->all[0].begun, 1);
    assert_int_equal(world->all[0].ended, 0);
}

/* The first one makes the Lease and leads at once; it renews for good. */
static void
first(void **state)
{
    struct world *world = *state;

    start(world, 0);
    settle(world);
    assert_true(world->all[0].led);
    assert_true(wp_election_valid_until_ns(world->all[0].election) >
                world->all[0].clock.now_mono_ns);
    assert_int_equal(json_integer_value(wp_json_at(
                         world->lease, "spec", "leaseDurationSeconds", NULL)),
                     4);
    advance(world, 60 * WP_NS_PER_S);
    assert_int_equal(world->all[0].begun, 1);
    assert_int_equal(world->all[0].ended, 0);
    assert_int_equal(json_integer_value(wp_json_at(world->lease, "spec",
                                                   "leaseTransitions", NULL)),
                     0);
    /* One write a second, no reads. */
    assert_in_range(world->all[0].api.sent, 58, 64);
}

/* A leader that is gone is followed within the lease's time and a little, and
 * not before. */
static void
crash(void **state)
{
    struct world *world = *state;

    start(world, 0);
    settle(world);
    start(world, 1);
    advance(world, 10 * WP_NS_PER_S);
    assert_int_equal(world->all[1].begun, 0);
    stop(world, 0);
    advance(world, 2500 * WP_NS_PER_MS);
    assert_int_equal(world->all[1].begun, 0);
    advance(world, 2500 * WP_NS_PER_MS);
    assert_true(world->all[1].led);
    assert_int_equal(json_integer_value(wp_json_at(world->lease, "spec",
                                                   "leaseTransitions", NULL)),
                     1);
}

/* A planned change takes a moment only. */
static void
release(void **state)
{
    struct world *world = *state;

    start(world, 0);
    settle(world);
    start(world, 1);
    advance(world, 2 * WP_NS_PER_S);
    wp_election_release(world->all[0].election, on_released, &world->all[0]);
    assert_false(world->all[0].led);
    assert_false(world->all[0].released);
    settle(world);
    assert_true(world->all[0].released);
    assert_string_equal(holder(world), "");
    advance(world, 800 * WP_NS_PER_MS);
    assert_true(world->all[1].led);
    assert_string_equal(holder(world), "c1");
}

/* A standby has nothing to give up, and says so without waiting. */
static void
release_of_standby(void **state)
{
    struct world *world = *state;

    start(world, 0);
    settle(world);
    start(world, 1);
    settle(world);
    wp_election_release(world->all[1].election, on_released, &world->all[1]);
    settle(world);
    assert_true(world->all[1].released);
    assert_string_equal(holder(world), "c0");
}

/* Giving it up does not wait for a server that does not answer. */
static void
release_unanswered(void **state)
{
    struct world *world = *state;

    start(world, 0);
    settle(world);
    world->all[0].api.fate = FATE_LATE;
    wp_election_release(world->all[0].election, on_released, &world->all[0]);
    advance(world, 1900 * WP_NS_PER_MS);
    assert_false(world->all[0].released);
    advance(world, 200 * WP_NS_PER_MS);
    assert_true(world->all[0].released);
}

/* A renewal whose answer is lost was done nevertheless: it goes on. */
static void
answer_lost(void **state)
{
    struct world *world = *state;

    start(world, 0);
    settle(world);
    world->all[0].api.fate = FATE_ANSWER_LOST;
    advance(world, 1200 * WP_NS_PER_MS);
    world->all[0].api.fate = FATE_SERVED;
    advance(world, 10 * WP_NS_PER_S);
    assert_int_equal(world->all[0].begun, 1);
    assert_int_equal(world->all[0].ended, 0);
    assert_int_equal(json_integer_value(wp_json_at(world->lease, "spec",
                                                   "leaseTransitions", NULL)),
                     0);
}

/* One renewal that nobody answers is made good before leadership ends. */
static void
renewal_lost(void **state)
{
    struct world *world = *state;

    start(world, 0);
    settle(world);
    for (int i = 0; i < 5; i++) {
        world->all[0].api.fate = FATE_LATE;
        advance(world, 1100 * WP_NS_PER_MS);
        world->all[0].api.fate = FATE_SERVED;
        advance(world, 3 * WP_NS_PER_S);
    }
    assert_int_equal(world->all[0].begun, 1);
    assert_int_equal(world->all[0].ended, 0);
}

/* The write that takes it, its answer lost: the next read says whose it is. */
static void
taking_lost(void **state)
{
    struct world *world = *state;

    start(world, 0);
    world->all[0].api.fate = FATE_ANSWER_LOST;
    settle(world);
    assert_false(world->all[0].led);
    world->all[0].api.fate = FATE_SERVED;
    advance(world, WP_NS_PER_S);
    assert_true(world->all[0].led);
}

/* A leader that hears nothing stops by itself, before anybody else begins; the
 * checks in advance see to the order. */
static void
cut_off(void **state)
{
    struct world *world = *state;

    start(world, 1); /* The slowest clock leads. */
    settle(world);
    start(world, 2); /* The fastest one waits. */
    advance(world, 5 * WP_NS_PER_S);
    world->all[1].api.fate = FATE_LATE;
    advance(world, 2 * WP_NS_PER_S);
    assert_true(world->all[1].led);
    advance(world, 1500 * WP_NS_PER_MS);
    assert_false(world->all[1].led);
    assert_string_equal(world->all[1].told, "");
    advance(world, 2 * WP_NS_PER_S);
    assert_true(world->all[2].led);
    /* What it had sent comes late, and changes nothing. */
    world->all[1].api.fate = FATE_SERVED;
    for (size_t i = 0; i < world->calls_len; i++) {
        world->calls[i].late = false;
    }
    advance(world, 10 * WP_NS_PER_S);
    assert_true(world->all[2].led);
    assert_int_equal(world->all[2].ended, 0);
    assert_int_equal(world->all[1].begun, 1);
}

/* The loop was late: leads says no by the clock, before any timer ran. */
static void
late_loop(void **state)
{
    struct world *world = *state;

    start(world, 0);
    settle(world);
    wp_clock_manual_advance(&world->all[0].clock, 3 * WP_NS_PER_S);
    assert_false(wp_election_leads(world->all[0].election));
}

/* An account that may only read the Lease: it says so once it is its turn, and
 * leads as soon as it may. */
static void
forbidden(void **state)
{
    struct world *world = *state;

    start(world, 0);
    settle(world);
    start(world, 1);
    world->all[1].api.fate = FATE_FORBIDDEN;
    advance(world, 3 * WP_NS_PER_S);
    assert_false(wp_election_refused(world->all[1].election));
    wp_election_stop(world->all[0].election);
    world->all[0].election = NULL;
    advance(world, 6 * WP_NS_PER_S);
    assert_false(world->all[1].led);
    assert_true(wp_election_refused(world->all[1].election));
    world->all[1].api.fate = FATE_SERVED;
    advance(world, 3 * WP_NS_PER_S);
    assert_true(world->all[1].led);
    assert_false(wp_election_refused(world->all[1].election));
}

/* Somebody wrote the object beside us: a conflict is read, and renewed. */
static void
touched(void **state)
{
    struct world *world = *state;

    start(world, 0);
    settle(world);
    for (int i = 0; i < 10; i++) {
        (void)wp_json_set(wp_json_at(world->lease, "metadata", NULL), "labels",
                          json_pack("{s:i}", "touched", i));
        stamp(world);
        advance(world, 1500 * WP_NS_PER_MS);
    }
    assert_true(world->conflicts > 5);
    assert_int_equal(world->all[0].begun, 1);
    assert_true(world->all[0].led);
    /* And what it had written stays. */
    assert_int_equal(json_integer_value(wp_json_at(world->lease, "metadata",
                                                   "labels", "touched", NULL)),
                     9);
}

/* Taken by force: it ends with the first answer that says so. */
static void
taken(void **state)
{
    struct world *world = *state;

    start(world, 0);
    settle(world);
    (void)wp_json_set_text(wp_json_at(world->lease, "spec", NULL),
                           "holderIdentity", "force");
    stamp(world);
    advance(world, 1200 * WP_NS_PER_MS);
    assert_false(world->all[0].led);
    assert_string_equal(world->all[0].told, "force");
    advance(world, 6 * WP_NS_PER_S); /* That one never renews. */
    assert_true(world->all[0].led);
}

/* A deleted Lease: the leader stops; a standby that has seen it waits its time
 * out, so whoever is first there is alone. */
static void
deleted(void **state)
{
    struct world *world = *state;

    start(world, 0);
    settle(world);
    start(world, 1);
    advance(world, 3 * WP_NS_PER_S);
    world->all[0].api.fate = FATE_LATE; /* It does not even hear of it. */
    json_decref(world->lease);
    world->lease = NULL;
    advance(world, 2500 * WP_NS_PER_MS);
    assert_int_equal(world->all[1].begun, 0);
    advance(world, 3 * WP_NS_PER_S);
    assert_true(world->all[1].led);

    json_decref(world->lease);
    world->lease = NULL;
    advance(world, 1500 * WP_NS_PER_MS);
    assert_true(world->all[1].led); /* It made a new one. */
    assert_int_equal(world->all[1].begun, 2);
}

/* Whoever claims it for a day is not believed beyond ten minutes. */
static void
long_claim(void **state)
{
    struct world *world = *state;

    world->lease =
        json_pack("{s:{s:s}, s:{s:s, s:i}}", "metadata", "name", "lead", "spec",
                  "holderIdentity", "old", "leaseDurationSeconds", 86400);
    assert_non_null(world->lease);
    stamp(world);
    start(world, 0);
    advance(world, 590 * WP_NS_PER_S);
    assert_false(world->all[0].led);
    advance(world, 15 * WP_NS_PER_S);
    assert_true(world->all[0].led);
}

/* Calls lost, late and answered twice over, contenders that come and go: never
 * two leaders (advance checks), and one in the end. */
static void
storm(void **state)
{
    struct world *world = *state;

    for (size_t i = 0; i < CONTENDERS; i++) {
        start(world, i);
    }
    for (int round = 0; round < 400; round++) {
        size_t i = (size_t)wp_rng_below(&world->rng, CONTENDERS);

        world->faults = round % 40 < 30 ? 25 : 0;
        if (wp_rng_below(&world->rng, 10) == 0) {
            stop(world, i);
            advance(world, WP_NS_PER_S);
            start(world, i);
        }
        world->all[i].api.fate =
            wp_rng_below(&world->rng, 6) == 0 ? FATE_LATE : FATE_SERVED;
        if (wp_rng_below(&world->rng, 3) == 0) {
            for (size_t j = 0; j < world->calls_len; j++) {
                world->calls[j].late = false; /* They come after all. */
            }
        }
        if (world->calls_len > CALLS_MAX / 2) {
            end_call(world, 0, FATE_SERVED);
        }
        advance(world, 700 * WP_NS_PER_MS);
    }
    world->faults = 0;
    for (size_t i = 0; i < CONTENDERS; i++) {
        world->all[i].api.fate = FATE_SERVED;
    }
    advance(world, 10 * WP_NS_PER_S);
    assert_int_equal(leaders(world), 1);
    assert_true(world->conflicts > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(by_default),
        TEST(first),
        TEST(crash),
        TEST(release),
        TEST(release_of_standby),
        TEST(release_unanswered),
        TEST(answer_lost),
        TEST(renewal_lost),
        TEST(taking_lost),
        TEST(cut_off),
        TEST(late_loop),
        TEST(forbidden),
        TEST(touched),
        TEST(taken),
        TEST(deleted),
        TEST(long_claim),
        TEST(storm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
