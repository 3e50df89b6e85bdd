#include "bench/harness/claim_objects.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <event2/event.h>

#include "bench/harness/lane.h"
#include "bench/harness/target.h"
#include "bench/load/signals.h"
#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

enum {
    IN_FLIGHT_MAX = 4096, /* As if each claim had a client of its own. */
    PATIENCE = 6,         /* Times the timeout of a call: until all has gone. */
    LOOK_US = 100000,     /* How often whoever waits looks for a signal. */
};

enum wp_status
wp_claim_objects_open(struct wp_claim_objects *objects,
                      const struct wp_api_config *server,
                      const struct wp_plan *plan, struct wp_err *err)
{
    struct event_config *precise = event_config_new();
    struct wp_http_config config;

    *objects = (struct wp_claim_objects){.base = NULL};
    if (precise != NULL) {
        /* Else the loop sleeps for whole milliseconds. */
        (void)event_config_set_flag(precise, EVENT_BASE_FLAG_PRECISE_TIMER);
        objects->base = event_base_new_with_config(precise);
        event_config_free(precise);
    }
    if (objects->base == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no event loop");
    }
    wp_http_config_init(&config);
    config.base = objects->base;
    config.clock = wp_clock_system();
    config.server = server;
    config.user_agent = "warmpool-load";
    config.inflight_max = IN_FLIGHT_MAX;
    config.queue_max =
        plan->in_flight > config.queue_max ? plan->in_flight : config.queue_max;
    config.timeout_ns = plan->timeout_ns + plan->wait_ns;
    if (plan->connections > 0) {
        config.connections_max = plan->connections;
    }
    objects->http = wp_http_create(&config, err);
    if (objects->http == NULL) {
        return err->status;
    }
    objects->api = wp_api_create(objects->http);
    return objects->api != NULL
               ? WP_OK
               : wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
}

void
wp_claim_objects_close(struct wp_claim_objects *objects)
{
    wp_http_destroy(objects->http);
    wp_api_destroy(objects->api);
    if (objects->base != NULL) {
        event_base_free(objects->base);
    }
    *objects = (struct wp_claim_objects){.base = NULL};
}

void
wp_claim_objects_selector(uint32_t tag, char out[WP_CLAIM_OBJECTS_SELECTOR_MAX])
{
    (void)snprintf(out, WP_CLAIM_OBJECTS_SELECTOR_MAX,
                   WP_CLAIM_OBJECTS_LABEL "=%08" PRIx32, tag);
}

/* --- One question, and its answer. --- */

struct answer {
    bool over;
    bool unwanted; /* Nobody waits for it: it frees itself. */
    enum wp_status status;
    json_t *object; /* Owned; NULL when there is none. */
    struct wp_err err;
};

static struct answer *
answer_new(void)
{
    struct answer *answer = calloc(1, sizeof *answer);

    WP_ASSERT(answer != NULL);
    return answer;
}

static void
on_answer(void *ctx, const struct wp_api_result *result)
{
    struct answer *answer = ctx;

    if (answer->unwanted) {
        free(answer);
        return;
    }
    answer->over = true;
    answer->status = result->status;
    if (result->status == WP_OK) {
        answer->object = json_incref(result->object);
    } else {
        (void)wp_err_set(&answer->err, result->status, "the API server: %s",
                         result->message != NULL ? result->message
                                                 : "no answer");
    }
}

static void
on_look(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd; /* Whoever waits looks for a signal. */
    (void)what;
    (void)ctx;
}

/* Until it is there, or a signal: then the status is UNAVAILABLE. Takes the
 * answer; *object is the caller's, and NULL when there is none. */
static enum wp_status
wait_for(struct wp_claim_objects *objects, struct answer *answer,
         json_t **object, struct wp_err *err)
{
    const struct timeval pause = {0, LOOK_US};
    enum wp_status status;

    *object = NULL;
    while (!answer->over) {
        (void)event_base_once(objects->base, -1, EV_TIMEOUT, on_look, NULL,
                              &pause);
        (void)event_base_loop(objects->base, EVLOOP_ONCE);
        if (!answer->over && wp_signals_pending()) {
            answer->unwanted = true;
            return wp_err_set(err, WP_UNAVAILABLE, "a signal came");
        }
    }
    status = answer->status;
    *object = answer->object;
    if (status != WP_OK) {
        *err = answer->err;
    }
    free(answer);
    return status;
}

static struct wp_api_target
target_of(const struct wp_plan *plan, enum wp_kind kind, const char *name)
{
    return (struct wp_api_target){.kind = kind,
                                  .ns = plan->pool_namespace,
                                  .name = name,
                                  .priority = WP_HTTP_NORMAL};
}

/* --- The pool. --- */

static uint32_t
number_at(const json_t *object, const char *section, const char *key)
{
    json_int_t n = json_integer_value(wp_json_at(object, section, key, NULL));

    return n > 0 && n <= UINT32_MAX ? (uint32_t)n : 0;
}

bool
wp_claim_objects_pool(struct wp_claim_objects *objects,
                      const struct wp_plan *plan, struct wp_pool_stats *out,
                      struct wp_err *err)
{
    struct wp_api_target target =
        target_of(plan, WP_KIND_SANDBOX_WARM_POOL, plan->pool);
    struct answer *answer = answer_new();
    enum wp_status status;
    json_t *pool;

    wp_api_get(objects->api, &target, on_answer, answer);
    status = wait_for(objects, answer, &pool, err);
    if (pool == NULL) {
        if (status == WP_NOT_FOUND) {
            (void)wp_err_wrap(err, "SandboxWarmPool %s/%s",
                              plan->pool_namespace, plan->pool);
        }
        return false;
    }
    memset(out, 0, sizeof *out);
    out->spec.target = number_at(pool, "spec", "replicas");
    out->ready = number_at(pool, "status", "readyReplicas");
    json_decref(pool);
    return true;
}

enum wp_status
wp_claim_objects_resize(struct wp_claim_objects *objects,
                        const struct wp_plan *plan, uint32_t size,
                        struct wp_err *err)
{
    struct wp_api_target target =
        target_of(plan, WP_KIND_SANDBOX_WARM_POOL, plan->pool);
    json_t *body = json_pack("{s:{s:I}}", "spec", "replicas", (json_int_t)size);
    struct answer *answer = answer_new();
    enum wp_status status;
    json_t *pool;

    WP_ASSERT(body != NULL);
    wp_api_patch(objects->api, &target, body, on_answer, answer);
    status = wait_for(objects, answer, &pool, err);
    json_decref(pool);
    return status == WP_OK ? WP_OK : wp_err_wrap(err, "pool-size");
}

/* --- What is left. --- */

/* What one walk over a list looks for. */
struct walk {
    struct wp_claim_objects *objects;
    const struct wp_plan *plan;
    struct wp_leftovers *out;
    uint32_t tag;
    uint64_t alive; /* Not yet being deleted. */
    uint64_t there;
};
typedef void walk_each(struct walk *walk, const json_t *object);

/* False when the server does not tell. */
static bool
walk_list(struct walk *walk, enum wp_kind kind, const char *selector,
          walk_each *each)
{
    struct wp_api_target target = target_of(walk->plan, kind, NULL);
    char cont[4096] = "";

    walk->alive = 0;
    walk->there = 0;
    do {
        struct wp_api_query query = {.label_selector = selector,
                                     .cont = cont[0] != '\0' ? cont : NULL,
                                     .limit = WP_CLAIM_OBJECTS_PAGE};
        struct answer *answer = answer_new();
        const json_t *item;
        json_t *list;
        size_t i;

        wp_api_list(walk->objects->api, &target, &query, on_answer, answer);
        if (wait_for(walk->objects, answer, &list, &walk->out->why) != WP_OK) {
            return false;
        }
        json_array_foreach(json_object_get(list, "items"), i, item)
        {
            each(walk, item);
        }
        if (!wp_str_copy(
                wp_str_from(wp_json_text(list, "metadata", "continue", NULL)),
                cont, sizeof cont)) {
            cont[0] = '\0';
        }
        json_decref(list);
    } while (cont[0] != '\0');
    return true;
}

static bool
is_going(const json_t *object)
{
    return wp_json_text(object, "metadata", "deletionTimestamp", NULL)[0] !=
           '\0';
}

static void
end_claim(struct walk *walk, const json_t *claim)
{
    struct wp_api_target target =
        target_of(walk->plan, WP_KIND_SANDBOX_CLAIM,
                  wp_json_text(claim, "metadata", "name", NULL));
    struct answer *answer;
    enum wp_status status;
    json_t *gone;

    walk->there++;
    if (is_going(claim)) {
        return;
    }
    walk->alive++;
    walk->out->found++;
    answer = answer_new();
    wp_api_delete(walk->objects->api, &target, &(struct wp_api_delete){0},
                  on_answer, answer);
    status = wait_for(walk->objects, answer, &gone, &walk->out->why);
    json_decref(gone);
    walk->out->ended += status == WP_OK || status == WP_NOT_FOUND;
}

/* A Sandbox that is still some claim's of ours. */
static void
count_sandbox(struct walk *walk, const json_t *sandbox)
{
    const json_t *owner =
        wp_json_find(wp_json_at(sandbox, "metadata", "ownerReferences", NULL),
                     "kind", "SandboxClaim");
    char form[WP_LANE_ID_MAX];

    (void)wp_lane_claim_id(walk->tag, 0, 0, form);
    if (owner != NULL && strncmp(wp_json_text(owner, "name", NULL), form,
                                 WP_LANE_TAG_LEN) == 0) {
        walk->there++;
        walk->alive += !is_going(sandbox);
    }
}

void
wp_claim_objects_settle(struct wp_claim_objects *objects,
                        const struct wp_plan *plan, uint32_t tag,
                        struct wp_leftovers *out)
{
    const struct timespec pause = {0, 250 * WP_NS_PER_MS};
    int64_t end_ns = wp_lane_now_ns() + PATIENCE * plan->timeout_ns;
    struct walk walk = {objects, plan, out, tag, 0, 0};
    char selector[WP_CLAIM_OBJECTS_SELECTOR_MAX];

    wp_claim_objects_selector(tag, selector);
    for (;;) {
        if (!walk_list(&walk, WP_KIND_SANDBOX_CLAIM, selector, end_claim)) {
            return;
        }
        if (walk.there == 0 || wp_lane_now_ns() >= end_ns) {
            break;
        }
        if (wp_signals_pending()) {
            (void)wp_err_set(&out->why, WP_UNAVAILABLE, "a signal came");
            return;
        }
        (void)nanosleep(&pause, NULL);
    }
    /* The garbage collector and the controllers have to see to these. */
    for (;;) {
        if (!walk_list(&walk, WP_KIND_SANDBOX, NULL, count_sandbox)) {
            return;
        }
        if (walk.alive == 0 || wp_lane_now_ns() >= end_ns) {
            break;
        }
        if (wp_signals_pending()) {
            (void)wp_err_set(&out->why, WP_UNAVAILABLE, "a signal came");
            return;
        }
        (void)nanosleep(&pause, NULL);
    }
    out->sandboxes = walk.alive;
    out->known = true;
}
