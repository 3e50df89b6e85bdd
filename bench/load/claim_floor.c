/* bench/load/claim_floor.c - the least controller that makes SandboxClaims Ready.
 *
 *   claim_floor --kubeconfig FILE --namespace NS
 *
 * In the place of a real one: it gives each SandboxClaim that comes the next
 * warm Sandbox of those that are there when it starts, by the writes that a
 * client waits for and no other. So warmpool-load on it shows what the writes
 * alone take on a machine: the floor of every controller. It makes no Sandbox
 * anew. Prints "ready" when it watches, and serves until SIGTERM. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "bench/harness/claim_objects.h"
#include "bench/load/claim_bare.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "k8s/objects/object.h"
#include "k8s/watch/line.h"
#include "k8s/watch/watch_event.h"
#include "pool/base/assert.h"

struct options {
    const char *kubeconfig;
    const char *ns;
};

struct floor {
    struct options options;
    struct wp_claim_objects client;
    struct wp_bare *bare;
    struct wp_http_stream *watch;
    struct wp_line line;
    bool over;
};

static _Noreturn void
die(const char *what, const char *why)
{
    (void)fprintf(stderr, "claim_floor: %s: %s\n", what, why);
    exit(1);
}

static struct wp_api_target
target_of(const struct floor *floor, enum wp_kind kind)
{
    return (struct wp_api_target){
        .kind = kind, .ns = floor->options.ns, .priority = WP_HTTP_CLAIM};
}

/* --- Claims that come. --- */

static bool
on_line(void *ctx, struct wp_str line)
{
    struct floor *floor = ctx;
    struct wp_watch_event event;
    struct wp_err err;

    if (wp_watch_event_read(&event, line, &err) != WP_OK) {
        die("watch", err.msg);
    }
    if (event.type == WP_WATCH_ERROR) {
        die("watch", event.message);
    }
    if (event.type == WP_WATCH_ADDED &&
        !wp_bare_serve(floor->bare, event.object)) {
        die("claims", "more of them than sandboxes");
    }
    wp_watch_event_fini(&event);
    return true;
}

static bool
on_bytes(void *ctx, struct wp_str bytes)
{
    struct floor *floor = ctx;

    return wp_line_feed(&floor->line, bytes, on_line, floor) == WP_LINE_OK;
}

static void
on_watch_end(void *ctx, const struct wp_http_answer *answer)
{
    struct floor *floor = ctx;

    floor->watch = NULL;
    if (!floor->over) {
        die("the watch ended", answer->error != NULL ? answer->error : "early");
    }
}

/* The list tells from where to watch. */
static void
on_claims(void *ctx, const struct wp_api_result *result)
{
    struct floor *floor = ctx;
    struct wp_api_target target = target_of(floor, WP_KIND_SANDBOX_CLAIM);
    struct wp_api_query query = {.timeout_s = 3600};
    char path[WP_HTTP_PATH_MAX];

    if (result->status != WP_OK) {
        die("list of SandboxClaims", result->message);
    }
    query.resource_version =
        wp_json_text(result->object, "metadata", "resourceVersion", NULL);
    WP_ASSERT(wp_api_watch_path(&target, &query, path));
    floor->watch = wp_http_stream_open(
        floor->client.http,
        &(struct wp_http_stream_config){.path = path,
                                        .on_bytes = on_bytes,
                                        .on_end = on_watch_end,
                                        .ctx = floor});
    WP_ASSERT(floor->watch != NULL);
    (void)puts("ready");
    (void)fflush(stdout);
}

static void
on_sandboxes(void *ctx, const struct wp_api_result *result)
{
    struct floor *floor = ctx;
    struct wp_api_target target = target_of(floor, WP_KIND_SANDBOX_CLAIM);

    if (result->status != WP_OK) {
        die("list of Sandboxes", result->message);
    }
    wp_bare_stock(floor->bare, result->object);
    wp_api_list(floor->client.api, &target, &(struct wp_api_query){.limit = 1},
                on_claims, floor);
}

static void
on_signal(evutil_socket_t number, short what, void *ctx)
{
    struct floor *floor = ctx;

    (void)number;
    (void)what;
    floor->over = true;
    (void)event_base_loopbreak(floor->client.base);
}

static struct options
parse(int argc, char **argv)
{
    static const struct option known[] = {
        {"kubeconfig", required_argument, NULL, 'k'},
        {"namespace", required_argument, NULL, 'n'},
        {NULL, 0, NULL, 0},
    };
    struct options options = {.ns = "default"};
    int option;

    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (option == 'k') {
            options.kubeconfig = optarg;
        } else if (option == 'n') {
            options.ns = optarg;
        } else {
            exit(2);
        }
    }
    if (options.kubeconfig == NULL) {
        die("--kubeconfig", "is needed");
    }
    return options;
}

int
main(int argc, char **argv)
{
    struct floor floor = {.options = parse(argc, argv)};
    struct wp_api_config server = {0};
    struct wp_api_target sandboxes = target_of(&floor, WP_KIND_SANDBOX);
    struct event *term;
    struct wp_plan plan;
    struct wp_err err;

    (void)signal(SIGPIPE, SIG_IGN);
    wp_plan_init(&plan);
    wp_line_init(&floor.line, WP_OBJECT_BYTES_MAX);
    if (wp_api_config_read(&server, floor.options.kubeconfig, NULL, &err) !=
            WP_OK ||
        wp_claim_objects_open(&floor.client, &server, &plan, &err) != WP_OK) {
        die(floor.options.kubeconfig, err.msg);
    }
    floor.bare = wp_bare_create(floor.client.api, floor.options.ns);
    term = evsignal_new(floor.client.base, SIGTERM, on_signal, &floor);
    WP_ASSERT(floor.bare != NULL && term != NULL);
    (void)evsignal_add(term, NULL);
    wp_api_list(floor.client.api, &sandboxes,
                &(struct wp_api_query){.label_selector = WP_LABEL_WARM_POOL},
                on_sandboxes, &floor);
    (void)event_base_dispatch(floor.client.base);
    event_free(term);
    wp_claim_objects_close(&floor.client);
    wp_bare_destroy(floor.bare);
    wp_line_fini(&floor.line);
    wp_api_config_fini(&server);
    return 0;
}
