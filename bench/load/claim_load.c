/* bench/load/claim_load.c - SandboxClaim objects made on a cluster, timed until Ready.
 *
 *   claim_load --kubeconfig FILE --namespace NS --pool POOL [options]
 *     --count N          claims in all (100)
 *     --in-flight N      closed loop: so many at once (1)
 *     --rate R           open loop instead: R claims a second, each timed from
 *                        when it was due
 *     --keep             delete the claims at the end, not as they become Ready
 *     --leave            delete none
 *     --prefix TEXT      of the claims' names ("load")
 *     --settle-ms N      after a Ready claim, before its delete (0)
 *     --timeout-s N      of the whole run (120)
 *     --bare             be the controller, too: make the writes that a client
 *                        waits for with sandboxes that are there, and no other
 *
 * A claim's time is from its create request, before it is written to the
 * socket, to the arrival of the watch event that shows Ready=True and a sandbox
 * name. One thread, the project's own API client. Prints one JSON object:
 * quantiles in ms, claims a second, how many were served cold (their sandbox has
 * the claim's own name), and duplicates: sandbox names that came twice. Exits
 * with 1 when one did, or a claim failed. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "bench/load/claim_bare.h"
#include "bench/load/hist.h"
#include "bench/load/seen.h"
#include "k8s/api/api.h"
#include "k8s/api/api_config.h"
#include "k8s/objects/json.h"
#include "k8s/watch/line.h"
#include "k8s/objects/names.h"
#include "k8s/objects/object.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

enum state {
    STATE_NEW,
    STATE_SENT,
    STATE_READY,
    STATE_FAILED,
};

struct claim {
    int64_t due_ns;
    enum state state;
};

struct options {
    const char *kubeconfig;
    const char *ns;
    const char *pool;
    const char *prefix;
    uint32_t count;
    uint32_t in_flight;
    double rate;
    uint32_t settle_ms;
    uint32_t timeout_s;
    bool keep;
    bool leave;
    bool bare;
};

struct load {
    struct options options;
    struct event_base *base;
    struct wp_http *http;
    struct wp_api *api;
    struct wp_http_stream *watch;
    struct wp_bare *bare; /* NULL: somebody else is the controller. */
    struct wp_line line;
    struct claim *claims; /* Owned; count of them. */
    struct event *ticker; /* Open loop: when the next claim is due. */
    struct event *deadline;
    struct wp_hist hist;
    struct wp_seen seen;
    uint32_t sent;
    uint32_t ready;
    uint32_t failed;
    uint32_t cold;
    uint32_t duplicates;
    uint32_t deleting;
    int64_t begun_ns;
    int64_t ended_ns;
    bool over;
};

struct deletion {
    struct load *load;
    struct event *timer;
    uint32_t index;
};

static int64_t
now_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

static _Noreturn void
die(const char *what, const char *why)
{
    (void)fprintf(stderr, "claim_load: %s: %s\n", what, why);
    exit(2);
}

static struct wp_api_target
target_of(const struct load *load, const char *name)
{
    return (struct wp_api_target){
        .kind = WP_KIND_SANDBOX_CLAIM,
        .ns = load->options.ns,
        .name = name,
        .priority = WP_HTTP_CLAIM,
    };
}

static void
name_of(const struct load *load, uint32_t index, char out[64])
{
    (void)snprintf(out, 64, "%.50s-%06u", load->options.prefix, index);
}

static void send_next(struct load *load);

/* --- Deletes --- */

static void
finish_when_done(struct load *load)
{
    if (load->ready + load->failed == load->options.count &&
        load->deleting == 0) {
        (void)event_base_loopbreak(load->base);
    }
}

static void
on_deleted(void *ctx, const struct wp_api_result *result)
{
    struct load *load = ctx;

    if (result->status != WP_OK && result->status != WP_NOT_FOUND &&
        result->status != WP_CANCELLED) {
        (void)fprintf(stderr, "delete: %s\n", result->message);
    }
    load->deleting--;
    finish_when_done(load);
}

static void
delete_claim(struct load *load, uint32_t index)
{
    char name[64];
    struct wp_api_target target;

    name_of(load, index, name);
    target = target_of(load, name);
    target.priority = WP_HTTP_NORMAL;
    wp_api_delete(load->api, &target, &(struct wp_api_delete){0}, on_deleted,
                  load);
}

static void
on_settled(evutil_socket_t fd, short what, void *ctx)
{
    struct deletion *deletion = ctx;

    (void)fd;
    (void)what;
    delete_claim(deletion->load, deletion->index);
    event_free(deletion->timer);
    free(deletion);
}

static void
delete_later(struct load *load, uint32_t index)
{
    uint32_t ms = load->options.settle_ms;
    struct timeval wait = {ms / 1000, (suseconds_t)(ms % 1000) * 1000};
    struct deletion *deletion;

    load->deleting++;
    if (ms == 0) {
        delete_claim(load, index);
        return;
    }
    deletion = malloc(sizeof *deletion);
    WP_ASSERT(deletion != NULL);
    *deletion = (struct deletion){.load = load, .index = index};
    deletion->timer = evtimer_new(load->base, on_settled, deletion);
    WP_ASSERT(deletion->timer != NULL);
    (void)evtimer_add(deletion->timer, &wait);
}

/* --- What the watch tells --- */

static void
claim_over(struct load *load, uint32_t index, enum state state)
{
    load->claims[index].state = state;
    load->ended_ns = now_ns();
    if (state == STATE_FAILED) {
        load->failed++;
    } else {
        load->ready++;
    }
    if (load->options.rate == 0) {
        send_next(load);
    }
    if (!load->options.keep) {
        delete_later(load, index);
    }
    finish_when_done(load);
}

static bool
is_ready(const json_t *claim)
{
    const json_t *conditions = wp_json_at(claim, "status", "conditions", NULL);
    size_t i;
    json_t *condition;

    json_array_foreach(conditions, i, condition)
    {
        if (strcmp(wp_json_text(condition, "type", NULL), "Ready") == 0) {
            return strcmp(wp_json_text(condition, "status", NULL), "True") == 0;
        }
    }
    return false;
}

/* One of ours that was not Ready yet. */
static bool
is_on_its_way(const struct load *load, const char *name, uint64_t *index)
{
    size_t prefix = strlen(load->options.prefix);

    return strncmp(name, load->options.prefix, prefix) == 0 &&
           name[prefix] == '-' &&
           wp_str_to_u64(wp_str_from(name + prefix + 1), index) &&
           *index < load->options.count &&
           load->claims[*index].state == STATE_SENT;
}

/* Claims that have come are served by this program. */
static void
on_new_claim(struct load *load, const json_t *claim)
{
    const char *name = wp_json_text(claim, "metadata", "name", NULL);
    uint64_t index;

    if (is_on_its_way(load, name, &index) &&
        !wp_bare_serve(load->bare, claim)) {
        die("--bare", "more claims than sandboxes");
    }
}

static void
on_claim(struct load *load, const json_t *claim, int64_t arrived_ns)
{
    const char *sandbox =
        wp_json_text(claim, "status", "sandbox", "name", NULL);
    const char *name = wp_json_text(claim, "metadata", "name", NULL);
    uint64_t index;

    if (!is_on_its_way(load, name, &index) || sandbox[0] == '\0' ||
        !is_ready(claim)) {
        return;
    }
    wp_hist_record(&load->hist, arrived_ns - load->claims[index].due_ns);
    if (strcmp(sandbox, name) == 0) {
        load->cold++;
    }
    if (!wp_seen_add(&load->seen, wp_str_from(sandbox))) {
        load->duplicates++;
        (void)fprintf(stderr, "DUPLICATE: %s\n", sandbox);
    }
    claim_over(load, (uint32_t)index, STATE_READY);
}

static bool
on_line(void *ctx, struct wp_str line)
{
    struct load *load = ctx;
    int64_t arrived_ns = now_ns();
    json_t *event = json_loadb(line.ptr, line.len, 0, NULL);
    const char *type = wp_json_text(event, "type", NULL);

    if (load->bare != NULL && strcmp(type, "ADDED") == 0) {
        on_new_claim(load, json_object_get(event, "object"));
    } else if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0) {
        on_claim(load, json_object_get(event, "object"), arrived_ns);
    } else if (strcmp(type, "ERROR") == 0) {
        die("watch", wp_json_text(event, "object", "message", NULL));
    }
    json_decref(event);
    return true;
}

static bool
on_bytes(void *ctx, struct wp_str bytes)
{
    struct load *load = ctx;

    return wp_line_feed(&load->line, bytes, on_line, load) == WP_LINE_OK;
}

static void
on_watch_end(void *ctx, const struct wp_http_answer *answer)
{
    struct load *load = ctx;

    load->watch = NULL;
    if (!load->over && answer->status != WP_CANCELLED) {
        die("the watch ended", answer->error != NULL ? answer->error : "early");
    }
}

/* --- Claims --- */

struct created {
    struct load *load;
    uint32_t index;
};

static void
on_created(void *ctx, const struct wp_api_result *result)
{
    struct created *created = ctx;
    struct load *load = created->load;
    uint32_t index = created->index;

    free(created);
    if (result->status == WP_OK || result->status == WP_CANCELLED) {
        return;
    }
    (void)fprintf(stderr, "create: %d %s\n", result->code, result->message);
    if (load->claims[index].state == STATE_SENT) {
        claim_over(load, index, STATE_FAILED);
    }
}

static void
send_claim(struct load *load, uint32_t index, int64_t due_ns)
{
    struct created *created = malloc(sizeof *created);
    char name[64];
    struct wp_api_target target;
    json_t *body;

    WP_ASSERT(created != NULL);
    *created = (struct created){load, index};
    name_of(load, index, name);
    target = target_of(load, NULL);
    body = json_pack("{s:s, s:s, s:{s:s, s:s}, s:{s:{s:s}}}", "apiVersion",
                     wp_kind_info(WP_KIND_SANDBOX_CLAIM)->api_version, "kind",
                     wp_kind_info(WP_KIND_SANDBOX_CLAIM)->kind, "metadata",
                     "name", name, "namespace", load->options.ns, "spec",
                     "warmPoolRef", "name", load->options.pool);
    WP_ASSERT(body != NULL);
    load->claims[index] = (struct claim){due_ns, STATE_SENT};
    wp_api_post(load->api, &target, body, on_created, created);
}

static void
send_next(struct load *load)
{
    if (load->sent < load->options.count) {
        send_claim(load, load->sent++, now_ns());
    }
}

/* Sends what is due, and sleeps until the next is. */
static void
on_tick(evutil_socket_t fd, short what, void *ctx)
{
    struct load *load = ctx;
    int64_t now = now_ns();
    int64_t due = now;

    (void)fd;
    (void)what;
    while (load->sent < load->options.count) {
        due = load->begun_ns +
              (int64_t)((double)load->sent * 1e9 / load->options.rate);
        if (due > now) {
            break;
        }
        send_claim(load, load->sent++, due);
    }
    if (load->sent < load->options.count) {
        int64_t wait_us = due > now ? (due - now) / WP_NS_PER_US : 0;
        struct timeval wait = {wait_us / 1000000,
                               (suseconds_t)(wait_us % 1000000)};

        (void)evtimer_add(load->ticker, &wait);
    }
}

static void
on_deadline(evutil_socket_t fd, short what, void *ctx)
{
    struct load *load = ctx;

    (void)fd;
    (void)what;
    for (uint32_t i = 0; i < load->sent; i++) {
        load->failed += load->claims[i].state == STATE_SENT;
    }
    (void)fprintf(stderr, "claim_load: out of time\n");
    (void)event_base_loopbreak(load->base);
}

static void
begin(struct load *load)
{
    load->begun_ns = now_ns();
    if (load->options.rate > 0) {
        on_tick(-1, 0, load);
        return;
    }
    for (uint32_t i = 0; i < load->options.in_flight; i++) {
        send_next(load);
    }
}

static void list_claims(struct load *load);

static void
on_sandboxes(void *ctx, const struct wp_api_result *result)
{
    struct load *load = ctx;

    if (result->status != WP_OK) {
        die("list of Sandboxes", result->message);
    }
    wp_bare_stock(load->bare, result->object);
    list_claims(load);
}

/* The list tells from where to watch. */
static void
on_listed(void *ctx, const struct wp_api_result *result)
{
    struct load *load = ctx;
    struct wp_api_target target = target_of(load, NULL);
    char path[WP_HTTP_PATH_MAX];
    struct wp_api_query query = {.timeout_s = 3600};

    if (result->status != WP_OK) {
        die("list of SandboxClaims", result->message);
    }
    query.resource_version =
        wp_json_text(result->object, "metadata", "resourceVersion", NULL);
    if (!wp_api_watch_path(&target, &query, path)) {
        die("watch", "the path is too long");
    }
    load->watch = wp_http_stream_open(
        load->http, &(struct wp_http_stream_config){.path = path,
                                                    .on_bytes = on_bytes,
                                                    .on_end = on_watch_end,
                                                    .ctx = load});
    WP_ASSERT(load->watch != NULL);
    begin(load);
}

static void
list_claims(struct load *load)
{
    struct wp_api_target all = target_of(load, NULL);

    wp_api_list(load->api, &all, &(struct wp_api_query){.limit = 1}, on_listed,
                load);
}

static void
list_sandboxes(struct load *load)
{
    struct wp_api_target all = target_of(load, NULL);

    all.kind = WP_KIND_SANDBOX;
    wp_api_list(load->api, &all,
                &(struct wp_api_query){.label_selector = WP_LABEL_WARM_POOL},
                on_sandboxes, load);
}

/* --- The report --- */

static double
ms(int64_t ns)
{
    return (double)ns / 1e6;
}

static void
report(const struct load *load)
{
    const struct wp_hist *hist = &load->hist;
    double seconds =
        load->ready == 0 ? 0 : (double)(load->ended_ns - load->begun_ns) / 1e9;

    (void)printf(
        "{\"claims\": %u, \"ready\": %u, \"failed\": %u, \"cold\": %u, "
        "\"duplicates\": %u, \"seconds\": %.3f, \"per_second\": %.1f, "
        "\"min_ms\": %.2f, \"p50_ms\": %.2f, \"p90_ms\": %.2f, "
        "\"p99_ms\": %.2f, \"p999_ms\": %.2f, \"max_ms\": %.2f}\n",
        load->options.count, load->ready, load->failed, load->cold,
        load->duplicates, seconds, load->ready / seconds, ms(hist->min_ns),
        ms(wp_hist_quantile_ns(hist, 0.5)), ms(wp_hist_quantile_ns(hist, 0.9)),
        ms(wp_hist_quantile_ns(hist, 0.99)),
        ms(wp_hist_quantile_ns(hist, 0.999)), ms(hist->max_ns));
}

static void
delete_kept(struct load *load)
{
    for (uint32_t i = 0; i < load->sent; i++) {
        load->deleting++;
        delete_claim(load, i);
    }
    if (load->deleting > 0) {
        (void)event_base_dispatch(load->base);
    }
}

/* --- Options --- */

static double
number(const char *name, const char *text, double min)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end != '\0' || value < min) {
        die(name, "a number is expected");
    }
    return value;
}

static void
parse(int argc, char **argv, struct options *options)
{
    static const struct option table[] = {
        {"kubeconfig", required_argument, NULL, 'k'},
        {"namespace", required_argument, NULL, 'n'},
        {"pool", required_argument, NULL, 'p'},
        {"prefix", required_argument, NULL, 'x'},
        {"count", required_argument, NULL, 'c'},
        {"in-flight", required_argument, NULL, 'f'},
        {"rate", required_argument, NULL, 'r'},
        {"settle-ms", required_argument, NULL, 's'},
        {"timeout-s", required_argument, NULL, 't'},
        {"keep", no_argument, NULL, 'K'},
        {"leave", no_argument, NULL, 'L'},
        {"bare", no_argument, NULL, 'b'},
        {NULL, 0, NULL, 0},
    };
    int c;

    *options = (struct options){.ns = "default",
                                .prefix = "load",
                                .count = 100,
                                .in_flight = 1,
                                .timeout_s = 120};
    while ((c = getopt_long(argc, argv, "", table, NULL)) != -1) {
        switch (c) {
        case 'k':
            options->kubeconfig = optarg;
            break;
        case 'n':
            options->ns = optarg;
            break;
        case 'p':
            options->pool = optarg;
            break;
        case 'x':
            options->prefix = optarg;
            break;
        case 'c':
            options->count = (uint32_t)number("--count", optarg, 1);
            break;
        case 'f':
            options->in_flight = (uint32_t)number("--in-flight", optarg, 1);
            break;
        case 'r':
            options->rate = number("--rate", optarg, 0.001);
            break;
        case 's':
            options->settle_ms = (uint32_t)number("--settle-ms", optarg, 0);
            break;
        case 't':
            options->timeout_s = (uint32_t)number("--timeout-s", optarg, 1);
            break;
        case 'K':
            options->keep = true;
            break;
        case 'L':
            options->keep = true;
            options->leave = true;
            break;
        case 'b':
            options->bare = true;
            break;
        default:
            exit(2);
        }
    }
    if (options->kubeconfig == NULL || options->pool == NULL) {
        die("--kubeconfig and --pool", "are needed");
    }
}

static void
set_up(struct load *load, const struct wp_api_config *server)
{
    const struct timeval limit = {.tv_sec = load->options.timeout_s};
    struct wp_http_config config;
    struct wp_err err;

    load->base = event_base_new();
    load->claims = calloc(load->options.count, sizeof *load->claims);
    WP_ASSERT(load->base != NULL && load->claims != NULL);
    WP_ASSERT(wp_seen_init(&load->seen, 16));
    wp_hist_reset(&load->hist);
    wp_line_init(&load->line, WP_OBJECT_BYTES_MAX);
    wp_http_config_init(&config);
    config.base = load->base;
    config.clock = wp_clock_system();
    config.server = server;
    config.user_agent = "warmpool-claim-load";
    config.timeout_ns = 60 * WP_NS_PER_S;
    load->http = wp_http_create(&config, &err);
    if (load->http == NULL) {
        die("client", err.msg);
    }
    load->api = wp_api_create(load->http);
    if (load->options.bare) {
        load->bare = wp_bare_create(load->api, load->options.ns);
        WP_ASSERT(load->bare != NULL);
    }
    load->ticker = evtimer_new(load->base, on_tick, load);
    load->deadline = evtimer_new(load->base, on_deadline, load);
    WP_ASSERT(load->api != NULL && load->ticker != NULL &&
              load->deadline != NULL);
    (void)evtimer_add(load->deadline, &limit);
}

int
main(int argc, char **argv)
{
    struct load load = {0};
    struct wp_api_config server = {0};
    struct wp_err err;
    bool good;

    parse(argc, argv, &load.options);
    if (wp_api_config_read(&server, load.options.kubeconfig, NULL, &err) !=
        WP_OK) {
        die(load.options.kubeconfig, err.msg);
    }
    set_up(&load, &server);
    if (load.bare != NULL) {
        list_sandboxes(&load);
    } else {
        list_claims(&load);
    }
    (void)event_base_dispatch(load.base);
    load.over = true;
    report(&load);
    good = load.failed == 0 && load.duplicates == 0 &&
           load.ready == load.options.count;
    (void)evtimer_del(load.deadline);
    if (load.options.keep && !load.options.leave) {
        delete_kept(&load);
    }
    wp_http_destroy(load.http);
    wp_bare_destroy(load.bare);
    wp_api_destroy(load.api);
    event_free(load.ticker);
    event_free(load.deadline);
    event_base_free(load.base);
    wp_line_fini(&load.line);
    wp_seen_fini(&load.seen);
    free(load.claims);
    wp_api_config_fini(&server);
    return good ? 0 : 1;
}
