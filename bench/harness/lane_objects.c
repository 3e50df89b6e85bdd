/* A lane's calls as SandboxClaim objects: each is posted, is answered when the
 * one watch of the lane shows it Ready, and is released by a delete. */
#include "bench/harness/lane_parts.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "bench/harness/claim_objects.h"
#include "k8s/objects/json.h"
#include "k8s/objects/object.h"
#include "k8s/watch/line.h"
#include "k8s/watch/watch_event.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

enum {
    SERVED_WARM = 1, /* Of enum wp_served. */
    SERVED_COLD = 3,
    ABORTED = 10, /* Of gRPC's codes. */
    DEADLINE_EXCEEDED = 4,
};

enum watch_state {
    WATCH_NONE,
    WATCH_LISTS,
    WATCH_OPENS, /* The server has not answered yet. */
    WATCH_RUNS,
};

struct objects {
    struct wp_lane *lane;
    struct wp_claim_objects client;
    struct event *wake;
    struct wp_http_stream *watch;
    enum watch_state state;
    struct wp_line line;
    char selector[WP_CLAIM_OBJECTS_SELECTOR_MAX];
    struct wp_err err; /* Of the latest try to watch. */
    bool closing;
    /* Trees of search.h, of workers: whose claim has that number, and who holds
     * the sandbox of that name. */
    void *by_number;
    void *by_name;
    /* What is just being told of. */
    const char *sandbox;
    bool gone;
};

/* What an answer is about: by then the worker may have another claim. */
struct post {
    struct objects *objects;
    uint64_t number;
};

static int
compare_numbers(const void *a, const void *b)
{
    uint64_t x = ((const struct wp_worker *)a)->number;
    uint64_t y = ((const struct wp_worker *)b)->number;

    return (x > y) - (x < y);
}

static int
compare_names(const void *a, const void *b)
{
    uint64_t x = ((const struct wp_worker *)a)->name;
    uint64_t y = ((const struct wp_worker *)b)->name;

    return (x > y) - (x < y);
}

/* NULL: nobody's, any more. */
static struct wp_worker *
worker_of(const struct objects *objects, uint64_t number)
{
    const struct wp_worker key = {.number = number};
    void *node = tfind(&key, &objects->by_number, compare_numbers);

    return node != NULL ? *(struct wp_worker **)node : NULL;
}

static void
forget(struct wp_worker *worker)
{
    struct objects *objects = worker->lane->carried;

    (void)tdelete(worker, &objects->by_number, compare_numbers);
}

static struct wp_api_target
target_of(const struct wp_lane *lane, const char *name)
{
    return (struct wp_api_target){.kind = WP_KIND_SANDBOX_CLAIM,
                                  .ns = lane->plan->pool_namespace,
                                  .name = name,
                                  .priority = WP_HTTP_CLAIM};
}

/* --- What is asked. --- */

static struct post *
post_of(const struct wp_worker *worker)
{
    struct post *post = malloc(sizeof *post);

    WP_ASSERT(post != NULL);
    *post = (struct post){worker->lane->carried, worker->number};
    return post;
}

static void
on_created(void *ctx, const struct wp_api_result *result)
{
    struct post *post = ctx;
    struct wp_lane *lane = post->objects->lane;
    struct wp_worker *worker = worker_of(post->objects, post->number);

    free(post);
    /* Whether it was heard in spite of that, the watch will tell. */
    if (worker == NULL || result->status == WP_UNKNOWN_OUTCOME ||
        result->status == WP_CANCELLED) {
        return;
    }
    lane->now_ns = wp_lane_now_ns();
    if (result->status == WP_OK) {
        worker->acked_ns = lane->now_ns;
        if (worker->record >= 0) { /* The watch was faster. */
            lane->tally->records[worker->record].acked_ns =
                lane->now_ns - lane->zero_ns;
        }
    } else if (worker->n_tokens == 0) {
        forget(worker);
        wp_lane_call_over(worker,
                          (unsigned)wp_status_grpc_code(result->status));
    }
}

static void
create_claim(struct wp_worker *worker)
{
    struct wp_lane *lane = worker->lane;
    struct objects *objects = lane->carried;
    const struct wp_kind_info *kind = wp_kind_info(WP_KIND_SANDBOX_CLAIM);
    struct wp_api_target target = target_of(lane, NULL);
    char name[WP_LANE_ID_MAX];
    json_t *body;

    (void)wp_lane_id_of(worker, 0, name);
    body = json_pack("{s:s, s:s, s:{s:s, s:s, s:{s:s}}, s:{s:{s:s}}}",
                     "apiVersion", kind->api_version, "kind", kind->kind,
                     "metadata", "name", name, "namespace",
                     lane->plan->pool_namespace, "labels",
                     WP_CLAIM_OBJECTS_LABEL, strchr(objects->selector, '=') + 1,
                     "spec", "warmPoolRef", "name", lane->plan->pool);
    WP_ASSERT(body != NULL);
    WP_ASSERT(tsearch(worker, &objects->by_number, compare_numbers) != NULL);
    wp_api_post(objects->client.api, &target, body, on_created,
                post_of(worker));
}

static void
on_deleted(void *ctx, const struct wp_api_result *result)
{
    struct post *post = ctx;
    struct objects *objects = post->objects;
    struct wp_worker *worker = worker_of(objects, post->number);

    free(post);
    if (worker == NULL || result->status == WP_CANCELLED) {
        return;
    }
    objects->lane->now_ns = wp_lane_now_ns();
    objects->gone = result->status == WP_NOT_FOUND;
    forget(worker);
    wp_lane_call_over(
        worker,
        objects->gone ? 0 : (unsigned)wp_status_grpc_code(result->status));
}

static void
delete_claim(struct wp_worker *worker)
{
    struct wp_lane *lane = worker->lane;
    struct objects *objects = lane->carried;
    char name[WP_LANE_ID_MAX];
    struct wp_api_target target;

    (void)wp_lane_id_of(worker, 0, name);
    target = target_of(lane, name);
    target.priority = WP_HTTP_NORMAL;
    wp_api_delete(objects->client.api, &target, &(struct wp_api_delete){0},
                  on_deleted, post_of(worker));
}

static bool
start(struct wp_worker *worker)
{
    struct objects *objects = worker->lane->carried;

    if (!worker->releasing) {
        create_claim(worker);
        return true;
    }
    /* From now on another claim may have its sandbox. */
    (void)tdelete(worker, &objects->by_name, compare_names);
    delete_claim(worker);
    return true;
}

/* A claim that is given up is not left behind. */
static unsigned
cancel(struct wp_worker *worker)
{
    bool heard = worker->acked_ns != 0;

    forget(worker);
    if (!worker->releasing) {
        delete_claim(worker);
    }
    return heard && !worker->releasing ? DEADLINE_EXCEEDED : WP_TALLY_NO_ANSWER;
}

/* --- What the watch tells. --- */

static bool
is_ready(const json_t *claim)
{
    const json_t *ready = wp_json_find(
        wp_json_at(claim, "status", "conditions", NULL), "type", "Ready");

    return strcmp(wp_json_text(ready, "status", NULL), "True") == 0;
}

/* Whose claim of this phase it is; NULL: none that is waited for. */
static struct wp_worker *
waiting_of(const struct objects *objects, const char *name)
{
    const struct wp_lane_config *config = &objects->lane->config;
    char form[WP_LANE_ID_MAX];
    size_t len = wp_lane_claim_id(config->tag, config->phase, 0, form);
    struct wp_worker *worker;
    char *end;
    uint64_t number;

    if (strlen(name) != len ||
        memcmp(name, form, len - WP_LANE_NUMBER_LEN) != 0) {
        return NULL;
    }
    number = strtoull(name + len - WP_LANE_NUMBER_LEN, &end, 16);
    worker = *end == '\0' ? worker_of(objects, number) : NULL;
    return worker != NULL && worker->n_tokens == 0 ? worker : NULL;
}

static void
on_claim(struct objects *objects, const json_t *claim, bool deleted)
{
    struct wp_worker *worker =
        waiting_of(objects, wp_json_text(claim, "metadata", "name", NULL));

    objects->sandbox = wp_json_text(claim, "status", "sandbox", "name", NULL);
    if (worker == NULL) {
        return;
    }
    if (deleted) {
        forget(worker);
        wp_lane_call_over(worker, ABORTED);
    } else if (objects->sandbox[0] != '\0' && is_ready(claim)) {
        wp_lane_call_over(worker, 0);
    }
}

/* A sandbox is one claim's from when that is seen Ready until its delete is
 * asked for. A name may come again after that: names that the API server makes
 * have five letters. */
static void
take_sandbox(struct wp_worker *worker)
{
    struct wp_lane *lane = worker->lane;
    struct objects *objects = lane->carried;
    struct wp_worker **holder;

    worker->name = wp_lane_name_hash(lane, wp_str_from(objects->sandbox));
    if (lane->plan->leave) {
        lane->no_memory |= !wp_tally_name(lane->tally, worker->name);
        forget(worker);
        return;
    }
    holder = tsearch(worker, &objects->by_name, compare_names);
    WP_ASSERT(holder != NULL);
    lane->tally->duplicates += *holder != worker;
}

static void
read_claim(struct wp_worker *worker, int64_t done_ns)
{
    const struct objects *objects = worker->lane->carried;
    char name[WP_LANE_ID_MAX];
    bool cold = wp_str_is(wp_lane_id_of(worker, 0, name), objects->sandbox);

    worker->n_tokens = 1;
    take_sandbox(worker);
    wp_lane_record(worker, 0, 0, cold ? SERVED_COLD : SERVED_WARM, done_ns);
}

static bool
read_release(struct wp_worker *worker, bool *was_held)
{
    const struct objects *objects = worker->lane->carried;

    *was_held = !objects->gone;
    return true;
}

/* --- The watch. --- */

static void watch_lost(struct objects *objects, bool properly, const char *why);

static bool
on_line(void *ctx, struct wp_str line)
{
    struct objects *objects = ctx;
    struct wp_watch_event event;
    bool ended;

    objects->lane->now_ns = wp_lane_now_ns();
    if (wp_watch_event_read(&event, line, &objects->err) != WP_OK) {
        objects->lane->tally->bad_answers++;
        return false;
    }
    ended = event.type == WP_WATCH_ERROR;
    if (!ended && event.type != WP_WATCH_BOOKMARK) {
        on_claim(objects, event.object, event.type == WP_WATCH_DELETED);
    }
    wp_watch_event_fini(&event);
    return !ended;
}

static bool
on_bytes(void *ctx, struct wp_str bytes)
{
    struct objects *objects = ctx;

    objects->state = WATCH_RUNS;
    return wp_line_feed(&objects->line, bytes, on_line, objects) == WP_LINE_OK;
}

static void
on_watch_end(void *ctx, const struct wp_http_answer *answer)
{
    struct objects *objects = ctx;

    objects->watch = NULL;
    watch_lost(objects, answer->status == WP_OK && answer->code == 200,
               answer->error != NULL ? answer->error : "it ended");
}

/* The server ends watches now and then; that is nothing to tell. */
static void
watch_lost(struct objects *objects, bool properly, const char *why)
{
    if (objects->closing) {
        return;
    }
    objects->state = WATCH_NONE;
    (void)wp_err_set(&objects->err, WP_UNAVAILABLE,
                     "the watch of SandboxClaims: %s", why);
    objects->lane->tally->connections_lost += !properly;
    if (objects->lane->dead == 0) {
        wp_lane_lost(objects->lane, 0);
    }
}

static void list_claims(struct objects *objects, const char *cont);

static void
open_watch(struct objects *objects, const char *version)
{
    struct wp_api_target target = target_of(objects->lane, NULL);
    const struct wp_api_query query = {.label_selector = objects->selector,
                                       .resource_version = version,
                                       .timeout_s = 3600};
    char path[WP_HTTP_PATH_MAX];

    wp_line_reset(&objects->line);
    objects->state = WATCH_OPENS;
    if (wp_api_watch_path(&target, &query, path)) {
        objects->watch = wp_http_stream_open(
            objects->client.http,
            &(struct wp_http_stream_config){.path = path,
                                            .on_bytes = on_bytes,
                                            .on_end = on_watch_end,
                                            .ctx = objects});
    }
    WP_ASSERT(objects->watch != NULL);
}

/* Claims may have become Ready while nobody watched. */
static void
on_listed(void *ctx, const struct wp_api_result *result)
{
    struct objects *objects = ctx;
    const char *cont;
    const json_t *item;
    size_t i;

    if (result->status == WP_CANCELLED) {
        return;
    }
    objects->lane->now_ns = wp_lane_now_ns();
    if (result->status != WP_OK) {
        watch_lost(objects, true,
                   result->message != NULL ? result->message : "no answer");
        objects->err.status = result->status;
        return;
    }
    json_array_foreach(json_object_get(result->object, "items"), i, item)
    {
        on_claim(objects, item, false);
    }
    cont = wp_json_text(result->object, "metadata", "continue", NULL);
    if (cont[0] != '\0') {
        list_claims(objects, cont);
    } else {
        open_watch(objects, wp_json_text(result->object, "metadata",
                                         "resourceVersion", NULL));
    }
}

static void
list_claims(struct objects *objects, const char *cont)
{
    struct wp_api_target target = target_of(objects->lane, NULL);
    const struct wp_api_query query = {.label_selector = objects->selector,
                                       .cont = cont,
                                       .limit = WP_CLAIM_OBJECTS_PAGE};

    objects->state = WATCH_LISTS;
    wp_api_list(objects->client.api, &target, &query, on_listed, objects);
}

static bool
is_watching(struct objects *objects)
{
    if (objects->state == WATCH_OPENS &&
        wp_http_stream_answered(objects->watch)) {
        objects->state = WATCH_RUNS;
    }
    return objects->state == WATCH_RUNS;
}

static bool
reopen(struct wp_lane *lane, unsigned conn, struct wp_err *err)
{
    struct objects *objects = lane->carried;

    (void)conn;
    if (objects->state == WATCH_NONE) {
        *err = objects->err;
        list_claims(objects, NULL);
    }
    return is_watching(objects);
}

static void
on_wake(evutil_socket_t fd, short what, void *ctx)
{
    (void)fd;
    (void)what;
    (void)ctx;
}

static enum wp_status
turn(struct wp_lane *lane, int64_t wait_ns, struct wp_err *err)
{
    struct objects *objects = lane->carried;
    const struct timeval wait = {
        (time_t)(wait_ns / WP_NS_PER_S),
        (suseconds_t)(wait_ns % WP_NS_PER_S / WP_NS_PER_US)};

    if (wait_ns > 0) {
        (void)evtimer_add(objects->wake, &wait);
    }
    return event_base_loop(objects->client.base,
                           wait_ns > 0 ? EVLOOP_ONCE
                                       : EVLOOP_ONCE | EVLOOP_NONBLOCK) < 0
               ? wp_err_set(err, WP_INTERNAL, "the event loop failed")
               : WP_OK;
}

/* --- Made and unmade. --- */

static enum wp_status
open_objects(struct wp_lane *lane, struct wp_err *err)
{
    struct objects *objects = calloc(1, sizeof *objects);
    int64_t end_ns =
        wp_lane_now_ns() + lane->plan->timeout_ns + lane->plan->wait_ns;

    lane->carried = objects;
    if (objects == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    objects->lane = lane;
    wp_line_init(&objects->line, WP_OBJECT_BYTES_MAX);
    wp_claim_objects_selector(lane->config.tag, objects->selector);
    if (wp_claim_objects_open(&objects->client, lane->config.server, lane->plan,
                              err) != WP_OK) {
        return err->status;
    }
    objects->wake = evtimer_new(objects->client.base, on_wake, objects);
    if (objects->wake == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    list_claims(objects, NULL);
    while (!is_watching(objects)) {
        if (objects->state == WATCH_NONE) {
            *err = objects->err;
            return err->status;
        }
        if (wp_lane_now_ns() > end_ns) {
            return wp_err_set(err, WP_UNAVAILABLE,
                              "the API server does not answer the watch");
        }
        (void)turn(lane, 20 * WP_NS_PER_MS, err);
    }
    return WP_OK;
}

static void
close_objects(struct wp_lane *lane)
{
    struct objects *objects = lane->carried;

    if (objects == NULL) {
        return;
    }
    objects->closing = true;
    for (uint32_t i = 0; i < lane->n_workers; i++) {
        (void)tdelete(&lane->workers[i], &objects->by_name, compare_names);
        forget(&lane->workers[i]);
    }
    if (objects->wake != NULL) {
        event_free(objects->wake);
    }
    wp_claim_objects_close(&objects->client);
    wp_line_fini(&objects->line);
    free(objects);
}

const struct wp_carrier wp_carrier_objects = {
    .open = open_objects,
    .close = close_objects,
    .start = start,
    .cancel = cancel,
    .turn = turn,
    .reopen = reopen,
    .read_claim = read_claim,
    .read_release = read_release,
};
