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

struct wp_competitor {
    struct wp_competitor_config config;
    wp_competitor_done *done;
    void *ctx;
    struct event *timer;
    struct place places[PLACES];
    uint32_t places_len;
    uint32_t at; /* The place that is looked at. */
    int64_t until_ns;
    int64_t next_ns;
    struct query *query;
    bool logged;
    char holder[128];
    char conflict[512];
};

/* A question under way; nobody waits for it when its competitor is gone. */
struct query {
    struct wp_competitor *competitor;
};

static int64_t
now_of(const struct wp_competitor *competitor)
{
    return wp_clock_mono_ns(competitor->config.clock);
}

static void
arm(struct wp_competitor *competitor)
{
    int64_t wait_us =
        (competitor->next_ns - now_of(competitor)) / WP_NS_PER_US + 1;
    struct timeval tv;

    wait_us = competitor->next_ns > now_of(competitor) ? wait_us : 0;
    tv.tv_sec = (time_t)(wait_us / 1000000);
    tv.tv_usec = (suseconds_t)(wait_us % 1000000);
    WP_ASSERT(event_add(competitor->timer, &tv) == 0);
}

static struct query *
ask(struct wp_competitor *competitor)
{
    struct query *query = calloc(1, sizeof *query);

    WP_ASSERT(query != NULL && competitor->query == NULL);
    query->competitor = competitor;
    competitor->query = query;
    return query;
}

/* The competitor that waits for it; NULL: nobody. */
static struct wp_competitor *
answered(struct query *query)
{
    struct wp_competitor *competitor = query->competitor;

    free(query);
    if (competitor != NULL) {
        competitor->query = NULL;
    }
    return competitor;
}

static void look_at(struct wp_competitor *competitor);

static void
next_place(struct wp_competitor *competitor)
{
    if (++competitor->at < competitor->places_len) {
        look_at(competitor);
    } else {
        competitor->done(competitor->ctx, NULL); /* May free it. */
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
judge(struct wp_competitor *competitor, bool extensions, bool certain)
{
    const char *ns = competitor->places[competitor->at].ns;

    if (!competitor->config.sandboxes &&
        !(extensions && competitor->config.pools)) {
        wp_log_info("agent-sandbox-controller is active without --extensions: "
                    "it makes the Pods, this one keeps the pools",
                    wp_kv_str("namespace", ns),
                    wp_kv_str("holder", competitor->holder));
        next_place(competitor);
        return;
    }
    (void)snprintf(
        competitor->conflict, sizeof competitor->conflict,
        "another controller of the same kinds is active: %s in the namespace "
        "%s renews its Lease (holder %s)%s; scale it to 0%s",
        WP_COMPETITOR_DEPLOYMENT, ns, competitor->holder,
        !certain     ? ", and its Deployment could not be read"
        : extensions ? " and runs with --extensions"
                     : "",
        competitor->config.sandboxes
            ? ", or set controllers to what it does not do"
            : ", or take --extensions from its arguments");
    competitor->done(competitor->ctx, competitor->conflict); /* May free it. */
}

static void
on_deployment(void *ctx, const struct wp_http_answer *answer)
{
    struct wp_competitor *competitor = answered(ctx);
    json_t *deployment = NULL;

    if (competitor == NULL) {
        return;
    }
    if (answer->status == WP_OK && answer->code == 200) {
        deployment = json_loadb(answer->body.ptr, answer->body.len, 0, NULL);
    }
    judge(competitor, deployment == NULL || has_extensions(deployment),
          deployment != NULL);
    json_decref(deployment);
}

static void
read_deployment(struct wp_competitor *competitor)
{
    char path[256];

    (void)snprintf(
        path, sizeof path, "/apis/apps/v1/namespaces/%s/deployments/%s",
        competitor->places[competitor->at].ns, WP_COMPETITOR_DEPLOYMENT);
    wp_http_send(wp_api_http(competitor->config.api),
                 &(struct wp_http_request){
                     .method = "GET",
                     .path = path,
                     .priority = WP_HTTP_CLAIM,
                     .done = on_deployment,
                     .ctx = ask(competitor),
                 });
}

/* --- Is it alive? --- */

/* By its own word and our clock, or because it stands still for too long. */
static bool
is_alive(struct wp_competitor *competitor, const json_t *lease)
{
    struct place *place = &competitor->places[competitor->at];
    const char *version =
        wp_json_text(lease, "metadata", "resourceVersion", NULL);
    const json_t *seconds =
        wp_json_at(lease, "spec", "leaseDurationSeconds", NULL);
    json_int_t duration_s =
        json_is_integer(seconds) ? json_integer_value(seconds) : DURATION_S;
    int64_t renewed_ms;
    int64_t now_ms = wp_clock_wall_ns(competitor->config.clock) / WP_NS_PER_MS;

    (void)snprintf(competitor->holder, sizeof competitor->holder, "%s",
                   wp_json_text(lease, "spec", "holderIdentity", NULL));
    if (competitor->holder[0] == '\0') {
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
        place->since_ns = now_of(competitor);
    }
    return now_of(competitor) - place->since_ns < duration_s * WP_NS_PER_S;
}

static void
on_lease(void *ctx, const struct wp_api_result *result)
{
    struct wp_competitor *competitor = answered(ctx);

    if (competitor == NULL || result->status == WP_CANCELLED) {
        return;
    }
    if (result->status == WP_OK ? !is_alive(competitor, result->object)
                                : result->status == WP_NOT_FOUND ||
                                      result->status == WP_PERMISSION_DENIED) {
        next_place(competitor);
        return;
    }
    if (result->status == WP_OK && now_of(competitor) >= competitor->until_ns) {
        read_deployment(competitor);
        return;
    }
    if (result->status == WP_OK && !competitor->logged) {
        competitor->logged = true;
        wp_log_info(
            "waiting for agent-sandbox-controller to let go of its "
            "Lease",
            wp_kv_str("namespace", competitor->places[competitor->at].ns),
            wp_kv_str("holder", competitor->holder));
    }
    competitor->next_ns = now_of(competitor) + AGAIN_NS;
    arm(competitor);
}

static void
look_at(struct wp_competitor *competitor)
{
    const struct wp_api_target target = {
        .kind = WP_KIND_LEASE,
        .ns = competitor->places[competitor->at].ns,
        .name = WP_COMPETITOR_LEASE,
        .priority = WP_HTTP_CLAIM,
    };

    wp_api_get(competitor->config.api, &target, on_lease, ask(competitor));
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_competitor *competitor = ctx;

    (void)fd;
    (void)what;
    if (competitor->query == NULL &&
        now_of(competitor) >= competitor->next_ns) {
        look_at(competitor);
    } else if (competitor->query == NULL) {
        arm(competitor);
    }
}

/* --- Outside --- */

struct wp_competitor *
wp_competitor_start(const struct wp_competitor_config *config,
                    wp_competitor_done *done, void *ctx)
{
    struct wp_competitor *competitor = calloc(1, sizeof *competitor);

    if (competitor == NULL) {
        return NULL;
    }
    competitor->config = *config;
    competitor->done = done;
    competitor->ctx = ctx;
    competitor->next_ns = now_of(competitor);
    competitor->until_ns = competitor->next_ns +
                           (config->wait_ns != 0 ? config->wait_ns : WAIT_NS);
    competitor->places[competitor->places_len++].ns = WP_COMPETITOR_NAMESPACE;
    if (strcmp(config->ns, WP_COMPETITOR_NAMESPACE) != 0) {
        competitor->places[competitor->places_len++].ns = config->ns;
    }
    competitor->timer = evtimer_new(config->base, on_timer, competitor);
    if (competitor->timer == NULL) {
        free(competitor);
        return NULL;
    }
    arm(competitor);
    return competitor;
}

void
wp_competitor_look(struct wp_competitor *competitor)
{
    if (competitor->query == NULL) {
        arm(competitor);
    }
}

void
wp_competitor_stop(struct wp_competitor *competitor)
{
    if (competitor == NULL) {
        return;
    }
    if (competitor->query != NULL) {
        competitor->query->competitor = NULL;
    }
    event_free(competitor->timer);
    free(competitor);
}
