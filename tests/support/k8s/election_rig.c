#include "tests/support/k8s/election_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"

#define STEP_NS (20 * WP_NS_PER_MS)

/* --- The client, as elections see it --- */

static void
send_call(struct wp_api *api, enum election_verb verb,
          const struct wp_api_target *target, json_t *body, wp_api_done *done,
          void *ctx)
{
    struct election_rig *rig = api->rig;

    assert_int_equal(target->kind, WP_KIND_LEASE);
    assert_int_equal(target->priority, WP_HTTP_CLAIM);
    assert_string_equal(target->ns, "home");
    assert_true(rig->calls_len < ELECTION_CALLS_MAX);
    api->sent++;
    rig->calls[rig->calls_len++] =
        (struct election_call){verb, api, body, done, ctx, false};
}

void
wp_api_get(struct wp_api *api, const struct wp_api_target *target,
           wp_api_done *done, void *ctx)
{
    assert_string_equal(target->name, "lead");
    send_call(api, ELECTION_GET, target, NULL, done, ctx);
}

void
wp_api_post(struct wp_api *api, const struct wp_api_target *target,
            json_t *body, wp_api_done *done, void *ctx)
{
    send_call(api, ELECTION_POST, target, body, done, ctx);
}

void
wp_api_put(struct wp_api *api, const struct wp_api_target *target, json_t *body,
           wp_api_done *done, void *ctx)
{
    assert_string_equal(target->name, "lead");
    send_call(api, ELECTION_PUT, target, body, done, ctx);
}

/* --- The server --- */

void
election_rig_stamp(struct election_rig *rig)
{
    char version[24];

    (void)snprintf(version, sizeof version, "%llu",
                   (unsigned long long)++rig->version);
    (void)wp_json_set_text(wp_json_at(rig->lease, "metadata", NULL),
                           "resourceVersion", version);
}

static enum wp_status
serve(struct election_rig *rig, struct election_call *call)
{
    switch (call->verb) {
    case ELECTION_GET:
        return rig->lease != NULL ? WP_OK : WP_NOT_FOUND;
    case ELECTION_POST:
        if (rig->lease != NULL) {
            return WP_ALREADY_EXISTS;
        }
        assert_string_equal(wp_json_text(call->body, "metadata", "name", NULL),
                            "lead");
        break;
    case ELECTION_PUT:
        if (rig->lease == NULL) {
            return WP_NOT_FOUND;
        }
        if (strcmp(
                wp_json_text(call->body, "metadata", "resourceVersion", NULL),
                wp_json_text(rig->lease, "metadata", "resourceVersion",
                             NULL)) != 0) {
            rig->conflicts++;
            return WP_ABORTED;
        }
        break;
    }
    json_decref(rig->lease);
    rig->lease = json_deep_copy(call->body);
    election_rig_stamp(rig);
    return WP_OK;
}

void
election_rig_end_call(struct election_rig *rig, size_t i,
                      enum election_fate fate)
{
    struct election_call call = rig->calls[i];
    enum wp_status status =
        fate == ELECTION_LOST ? WP_UNKNOWN_OUTCOME
        : fate == ELECTION_FORBIDDEN && call.verb != ELECTION_GET
            ? WP_PERMISSION_DENIED
            : serve(rig, &call);
    struct wp_api_result result = {.status = status, .retry_after_ns = -1};

    memmove(&rig->calls[i], &rig->calls[i + 1],
            (rig->calls_len - i - 1) * sizeof rig->calls[0]);
    rig->calls_len--;
    if (fate == ELECTION_ANSWER_LOST) {
        result.status = WP_UNKNOWN_OUTCOME;
    } else if (status == WP_OK) {
        result.object = json_deep_copy(rig->lease);
    }
    json_decref(call.body);
    call.done(call.ctx, &result);
    json_decref(result.object);
}

static enum election_fate
fate_of(struct election_rig *rig, const struct election_call *call)
{
    if (rig->faults > 0 && wp_rng_below(&rig->rng, 100) < rig->faults) {
        return (enum election_fate)wp_rng_below(&rig->rng, 4);
    }
    return call->from->fate;
}

/* Serves what is there; true when it did anything. */
static bool
serve_all(struct election_rig *rig)
{
    bool any = false;
    size_t i = 0;

    while (i < rig->calls_len) {
        struct election_call *call = &rig->calls[i];
        enum election_fate fate =
            call->late ? ELECTION_LATE : fate_of(rig, call);

        if (fate == ELECTION_LATE) {
            call->late = true;
            i++;
        } else {
            election_rig_end_call(rig, i, fate);
            any = true;
        }
    }
    return any;
}

/* --- Time --- */

uint32_t
election_rig_leaders(const struct election_rig *rig)
{
    uint32_t n = 0;

    for (size_t i = 0; i < ELECTION_CONTENDERS; i++) {
        n += rig->all[i].election != NULL &&
             wp_election_leads(rig->all[i].election);
    }
    return n;
}

void
election_rig_settle(struct election_rig *rig)
{
    do {
        for (size_t i = 0; i < ELECTION_CONTENDERS; i++) {
            if (rig->all[i].election != NULL) {
                wp_election_look(rig->all[i].election);
            }
        }
        assert_int_not_equal(event_base_loop(rig->base, EVLOOP_NONBLOCK), -1);
        assert_true(election_rig_leaders(rig) <= 1);
    } while (serve_all(rig));
    assert_true(election_rig_leaders(rig) <= 1);
}

void
election_rig_advance(struct election_rig *rig, int64_t ns)
{
    static const int drift[ELECTION_CONTENDERS] = {100, 95, 105};

    for (int64_t done = 0; done < ns; done += STEP_NS) {
        for (size_t i = 0; i < ELECTION_CONTENDERS; i++) {
            wp_clock_manual_advance(&rig->all[i].clock,
                                    STEP_NS * drift[i] / 100);
        }
        assert_true(election_rig_leaders(rig) <= 1);
        election_rig_settle(rig);
    }
}

/* --- Contenders --- */

static void
on_leading(void *ctx)
{
    struct election_contender *c = ctx;

    assert_false(c->led);
    c->led = true;
    c->begun++;
}

static void
on_following(void *ctx, const char *leader)
{
    struct election_contender *c = ctx;

    assert_true(c->led);
    c->led = false;
    c->ended++;
    (void)snprintf(c->told, sizeof c->told, "%s", leader);
}

void
election_rig_released(void *ctx)
{
    struct election_contender *c = ctx;

    c->released = true;
}

void
election_rig_start(struct election_rig *rig, size_t i)
{
    struct election_contender *c = &rig->all[i];

    *c = (struct election_contender){.api = {.rig = rig}};
    (void)snprintf(c->name, sizeof c->name, "c%zu", i);
    /* Neither the beginning nor the date of one clock says anything of
     * another. */
    wp_clock_manual_init(&c->clock, (int64_t)(i + 1) * 1000 * WP_NS_PER_S,
                         (int64_t)(i * 40000) * WP_NS_PER_S);
    c->election = wp_election_start(&(struct wp_election_config){
        .base = rig->base,
        .clock = &c->clock.clock,
        .api = &c->api,
        .ns = "home",
        .name = "lead",
        .identity = c->name,
        .seed = 11 + i,
        /* The times that these stories are told in. */
        .duration_ns = rig->by_default ? 0 : 4 * WP_NS_PER_S,
        .renew_ns = rig->by_default ? 0 : 1 * WP_NS_PER_S,
        .deadline_ns = rig->by_default ? 0 : 3 * WP_NS_PER_S,
        .on_leading = on_leading,
        .on_following = on_following,
        .ctx = c,
    });
    assert_non_null(c->election);
}

void
election_rig_stop(struct election_rig *rig, size_t i)
{
    wp_election_stop(rig->all[i].election);
    rig->all[i].election = NULL;
}

int
election_rig_setup(void **state)
{
    struct election_rig *rig = calloc(1, sizeof *rig);

    assert_non_null(rig);
    rig->base = event_base_new();
    assert_non_null(rig->base);
    wp_rng_init(&rig->rng, 3);
    *state = rig;
    return 0;
}

int
election_rig_teardown(void **state)
{
    struct election_rig *rig = *state;
    const struct wp_api_result cancelled = {.status = WP_CANCELLED,
                                            .retry_after_ns = -1};

    /* As the client ends its calls: some of nobody's, some of elections that
     * live on. */
    for (size_t i = 0; i < rig->calls_len; i++) {
        json_decref(rig->calls[i].body);
        rig->calls[i].done(rig->calls[i].ctx, &cancelled);
    }
    for (size_t i = 0; i < ELECTION_CONTENDERS; i++) {
        wp_election_stop(rig->all[i].election);
    }
    json_decref(rig->lease);
    event_base_free(rig->base);
    free(rig);
    return 0;
}

const char *
election_rig_holder(const struct election_rig *rig)
{
    return wp_json_text(rig->lease, "spec", "holderIdentity", NULL);
}
