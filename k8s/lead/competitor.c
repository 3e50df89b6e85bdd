#include "k8s/lead/competitor.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

#define WAIT_NS (20 * WP_NS_PER_S)
#define AGAIN_NS (1 * WP_NS_PER_S)
/* Clocks of machines in one cluster differ by less. */
#define SKEW_MS 60000

enum {
    PLACES = 2,
    DURATION_S = 15, /* Of a lease that does not say. */
};

/* A namespace where it may be. */
struct place {
    const char *ns;
    char version[64]; /* Of the Lease, as seen last. */
    int64_t since_ns; /* Since when it has not changed. */
};

struct wp_rival {
    struct wp_rival_config config;
    wp_rival_done *done;
    void *ctx;
    struct event *timer;
    struct place places[PLACES];
    uint32_t places_len;
    uint32_t at; /* The place that is looked at. */
    int64_t until_ns;
    int64_t next_ns;
    struct query *query;
    bool told;
    char holder[128];
    char conflict[512];
};

/* A question under way; nobody waits for it when its rival is gone. */
struct query {
    struct wp_rival *rival;
};

static int64_t
now_of(const struct wp_rival *rival)
{
    return wp_clock_mono_ns(rival->config.clock);
}

static void
arm(struct wp_rival *rival)
{
    int64_t wait_us = (rival->next_ns - now_of(rival)) / WP_NS_PER_US + 1;
    struct timeval tv;

    wait_us = rival->next_ns > now_of(rival) ? wait_us : 0;
    tv.tv_sec = (time_t)(wait_us / 1000000);
    tv.tv_usec = (suseconds_t)(wait_us % 1000000);
    WP_ASSERT(event_add(rival->timer, &tv) == 0);
}

static struct query *
ask(struct wp_rival *rival)
{
    struct query *query = calloc(1, sizeof *query);

    WP_ASSERT(query != NULL && rival->query == NULL);
    query->rival = rival;
    rival->query = query;
    return query;
}

/* The rival that waits for it; NULL: nobody. */
static struct wp_rival *
answered(struct query *query)
{
    struct wp_rival *rival = query->rival;

    free(query);
    if (rival != NULL) {
        rival->query = NULL;
    }
    return rival;
}

static void look_at(struct wp_rival *rival);

static void
next_place(struct wp_rival *rival)
{
    if (++rival->at < rival->places_len) {
        look_at(rival);
    } else {
        rival->done(rival->ctx, NULL); /* May free it. */
    }
}

/* --- What it does --- */

static bool
has_extensions(const json_t *deployment)
{
    json_t *containers =
        wp_json_at(deployment, "spec", "template", "spec", "containers", NULL);
    static const char *const lists[] = {"command", "args"};

    for (size_t i = 0; i < json_array_size(containers); i++) {
        const json_t *container = json_array_get(containers, i);

        for (size_t j = 0; j < WP_ARRAY_LEN(lists); j++) {
            const json_t *list = json_object_get(container, lists[j]);

            for (size_t k = 0; k < json_array_size(list); k++) {
                const char *word = json_string_value(json_array_get(list, k));

                if (word != NULL && (strcmp(word, "--extensions") == 0 ||
                                     strcmp(word, "--extensions=true") == 0 ||
                                     strcmp(word, "-extensions") == 0 ||
                                     strcmp(word, "-extensions=true") == 0)) {
                    return true;
                }
            }
        }
    }
    return false;
}

static void
judge(struct wp_rival *rival, bool extensions, bool certain)
{
    const char *ns = rival->places[rival->at].ns;

    if (!rival->config.sandboxes && !(extensions && rival->config.pools)) {
        wp_log_info("agent-sandbox-controller is active without --extensions: "
                    "it makes the Pods, this one keeps the pools",
                    wp_kv_str("namespace", ns),
                    wp_kv_str("holder", rival->holder));
        next_place(rival);
        return;
    }
    (void)snprintf(
        rival->conflict, sizeof rival->conflict,
        "another controller of the same kinds is active: %s in the namespace "
        "%s renews its Lease (holder %s)%s; scale it to 0%s",
        WP_RIVAL_DEPLOYMENT, ns, rival->holder,
        !certain     ? ", and its Deployment could not be read"
        : extensions ? " and runs with --extensions"
                     : "",
        rival->config.sandboxes ? ", or set controllers to what it does not do"
                                : ", or take --extensions from its arguments");
    rival->done(rival->ctx, rival->conflict); /* May free it. */
}

static void
on_deployment(void *ctx, const struct wp_http_answer *answer)
{
    struct wp_rival *rival = answered(ctx);
    json_t *deployment = NULL;

    if (rival == NULL) {
        return;
    }
    if (answer->status == WP_OK && answer->code == 200) {
        deployment = json_loadb(answer->body.ptr, answer->body.len, 0, NULL);
    }
    judge(rival, deployment == NULL || has_extensions(deployment),
          deployment != NULL);
    json_decref(deployment);
}

static void
read_deployment(struct wp_rival *rival)
{
    char path[256];

    (void)snprintf(path, sizeof path,
                   "/apis/apps/v1/namespaces/%s/deployments/%s",
                   rival->places[rival->at].ns, WP_RIVAL_DEPLOYMENT);
    wp_http_send(wp_api_http(rival->config.api), &(struct wp_http_request){
                                                     .method = "GET",
                                                     .path = path,
                                                     .priority = WP_HTTP_CLAIM,
                                                     .done = on_deployment,
                                                     .ctx = ask(rival),
                                                 });
}

/* --- Is it alive? --- */

/* By its own word and our clock, or because it stands still for too long. */
static bool
is_alive(struct wp_rival *rival, const json_t *lease)
{
    struct place *place = &rival->places[rival->at];
    const char *version =
        wp_json_text(lease, "metadata", "resourceVersion", NULL);
    const json_t *seconds =
        wp_json_at(lease, "spec", "leaseDurationSeconds", NULL);
    json_int_t duration_s =
        json_is_integer(seconds) ? json_integer_value(seconds) : DURATION_S;
    int64_t renewed_ms;
    int64_t now_ms = wp_clock_wall_ns(rival->config.clock) / WP_NS_PER_MS;

    (void)snprintf(rival->holder, sizeof rival->holder, "%s",
                   wp_json_text(lease, "spec", "holderIdentity", NULL));
    if (rival->holder[0] == '\0') {
        return false; /* It was given up. */
    }
    duration_s = duration_s < 1 ? 1 : duration_s > 600 ? 600 : duration_s;
    if (!wp_json_time(wp_json_text(lease, "spec", "renewTime", NULL),
                      &renewed_ms) ||
        now_ms - renewed_ms > duration_s * 1000 + SKEW_MS) {
        return false;
    }
    if (strcmp(version, place->version) != 0) {
        (void)snprintf(place->version, sizeof place->version, "%s", version);
        place->since_ns = now_of(rival);
    }
    return now_of(rival) - place->since_ns < duration_s * WP_NS_PER_S;
}

static void
on_lease(void *ctx, const struct wp_api_result *result)
{
    struct wp_rival *rival = answered(ctx);

    if (rival == NULL || result->status == WP_CANCELLED) {
        return;
    }
    if (result->status == WP_OK ? !is_alive(rival, result->object)
                                : result->status == WP_NOT_FOUND ||
                                      result->status == WP_PERMISSION_DENIED) {
        next_place(rival);
        return;
    }
    if (result->status == WP_OK && now_of(rival) >= rival->until_ns) {
        read_deployment(rival);
        return;
    }
    if (result->status == WP_OK && !rival->told) {
        rival->told = true;
        wp_log_info("waiting for agent-sandbox-controller to let go of its "
                    "Lease",
                    wp_kv_str("namespace", rival->places[rival->at].ns),
                    wp_kv_str("holder", rival->holder));
    }
    rival->next_ns = now_of(rival) + AGAIN_NS;
    arm(rival);
}

static void
look_at(struct wp_rival *rival)
{
    const struct wp_api_target target = {
        .kind = WP_KIND_LEASE,
        .ns = rival->places[rival->at].ns,
        .name = WP_RIVAL_LEASE,
        .priority = WP_HTTP_CLAIM,
    };

    wp_api_get(rival->config.api, &target, on_lease, ask(rival));
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_rival *rival = ctx;

    (void)fd;
    (void)what;
    if (rival->query == NULL && now_of(rival) >= rival->next_ns) {
        look_at(rival);
    } else if (rival->query == NULL) {
        arm(rival);
    }
}

/* --- Outside --- */

struct wp_rival *
wp_rival_start(const struct wp_rival_config *config, wp_rival_done *done,
               void *ctx)
{
    struct wp_rival *rival = calloc(1, sizeof *rival);

    if (rival == NULL) {
        return NULL;
    }
    rival->config = *config;
    rival->done = done;
    rival->ctx = ctx;
    rival->next_ns = now_of(rival);
    rival->until_ns =
        rival->next_ns + (config->wait_ns != 0 ? config->wait_ns : WAIT_NS);
    rival->places[rival->places_len++].ns = WP_RIVAL_NAMESPACE;
    if (strcmp(config->ns, WP_RIVAL_NAMESPACE) != 0) {
        rival->places[rival->places_len++].ns = config->ns;
    }
    rival->timer = evtimer_new(config->base, on_timer, rival);
    if (rival->timer == NULL) {
        free(rival);
        return NULL;
    }
    arm(rival);
    return rival;
}

void
wp_rival_look(struct wp_rival *rival)
{
    if (rival->query == NULL) {
        arm(rival);
    }
}

void
wp_rival_stop(struct wp_rival *rival)
{
    if (rival == NULL) {
        return;
    }
    if (rival->query != NULL) {
        rival->query->rival = NULL;
    }
    event_free(rival->timer);
    free(rival);
}
