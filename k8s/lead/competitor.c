#include "k8s/lead/competitor.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/lead/election.h"
#include "k8s/lead/scope.h"
#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

#define WAIT_NS (20 * WP_NS_PER_S)
#define AGAIN_NS (1 * WP_NS_PER_S)
#define PERIOD_NS (30 * WP_NS_PER_S)
/* Clocks of machines in one cluster differ by less. */
#define SKEW_MS 60000

enum {
    PLACES = 2,  /* Where upstream's may be. */
    OTHERS = 14, /* Installations of our own kind that are looked at. */
    PAGE = 100,
    DURATION_S = 15, /* Of a lease that does not say. */
};

/* A Lease that it may have. */
struct place {
    char ns[64];
    char name[256];
    bool upstream;
    char version[64]; /* Of the Lease, as seen last. */
    int64_t since_ns; /* Since when it has not changed. */
};

struct wp_competitor {
    struct wp_competitor_config config;
    wp_competitor_done *done;
    void *ctx;
    struct event *timer;
    struct place places[PLACES + OTHERS]; /* Upstream's first. */
    uint32_t places_len;
    uint32_t upstream_len; /* Of these. */
    uint32_t at;           /* The place that is looked at. */
    int64_t until_ns;
    int64_t next_ns;
    struct query *query;
    bool listed; /* The others, in this round. */
    bool logged;
    bool accepted; /* That it is active beside us was said. */
    char holder[128];
    char conflict[1024];
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
    struct timeval tv = wp_timeval(competitor->next_ns - now_of(competitor));

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
static void list_others(struct wp_competitor *competitor);

static int64_t
wait_of(const struct wp_competitor_config *config)
{
    return config->wait_ns != 0 ? config->wait_ns : WAIT_NS;
}

static void
next_place(struct wp_competitor *competitor)
{
    const struct wp_competitor_config *config = &competitor->config;

    if (++competitor->at < competitor->places_len) {
        look_at(competitor);
        return;
    }
    competitor->at = 0;
    competitor->listed = false;
    competitor->next_ns =
        now_of(competitor) +
        (config->period_ns != 0 ? config->period_ns : PERIOD_NS);
    competitor->until_ns = competitor->next_ns + wait_of(config);
    arm(competitor);
    competitor->done(competitor->ctx, NULL); /* May free it. */
}

/* --- What it does --- */

/* What a word of its command line says of the flag, as Go's package flag reads
 * it: 1 that it is on, 0 that it is off, -1 nothing. */
static int
flag_of(const char *word)
{
    static const char name[] = "-extensions";
    static const char *const on[] = {"1", "t", "T", "true", "TRUE", "True"};

    if (word == NULL) {
        return -1;
    }
    word += strncmp(word, "--", 2) == 0 ? 1 : 0;
    if (strncmp(word, name, sizeof name - 1) != 0) {
        return -1;
    }
    word += sizeof name - 1;
    if (word[0] == '\0') {
        return 1;
    }
    if (word[0] != '=') {
        return -1;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(on); i++) {
        if (strcmp(word + 1, on[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

/* The last word on it counts. */
static bool
has_extensions(const json_t *deployment)
{
    json_t *containers =
        wp_json_at(deployment, "spec", "template", "spec", "containers", NULL);
    static const char *const lists[] = {"command", "args"};

    for (size_t i = 0; i < json_array_size(containers); i++) {
        const json_t *container = json_array_get(containers, i);
        int last = -1;

        for (size_t j = 0; j < WP_ARRAY_LEN(lists); j++) {
            const json_t *list = json_object_get(container, lists[j]);

            for (size_t k = 0; k < json_array_size(list); k++) {
                int said = flag_of(json_string_value(json_array_get(list, k)));

                last = said >= 0 ? said : last;
            }
        }
        if (last == 1) {
            return true;
        }
    }
    return false;
}

/* Another installation is alive. */
static void
tell_of_other(struct wp_competitor *competitor)
{
    const struct place *place = &competitor->places[competitor->at];

    (void)snprintf(
        competitor->conflict, sizeof competitor->conflict,
        "another installation of warmpool serves the same kinds: its Lease "
        "is %s in the namespace %s (holder %s); scale one of them to 0, or "
        "set watch_namespace or controllers so that they share nothing",
        place->name, place->ns, competitor->holder);
    competitor->done(competitor->ctx, competitor->conflict); /* May free it. */
}

/* Upstream's is alive. */
static void
judge(struct wp_competitor *competitor, bool extensions, bool certain)
{
    const char *ns = competitor->places[competitor->at].ns;

    if (!competitor->config.sandboxes &&
        !(extensions && competitor->config.pools)) {
        if (!competitor->accepted) {
            wp_log_info(
                competitor->config.pools
                    ? "agent-sandbox-controller is active without "
                      "--extensions: it makes the Pods, this one keeps the "
                      "pools"
                    : "agent-sandbox-controller is active: nothing that it "
                      "serves is served here",
                wp_kv_str("namespace", ns),
                wp_kv_str("holder", competitor->holder));
        }
        competitor->accepted = true;
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
        if (competitor->places[competitor->at].upstream) {
            read_deployment(competitor);
        } else {
            tell_of_other(competitor); /* May free it. */
        }
        return;
    }
    if (result->status == WP_OK && !competitor->logged) {
        competitor->logged = true;
        wp_log_info(
            "waiting for another controller to let go of its Lease",
            wp_kv_str("lease", competitor->places[competitor->at].name),
            wp_kv_str("namespace", competitor->places[competitor->at].ns),
            wp_kv_str("holder", competitor->holder));
    }
    competitor->next_ns = now_of(competitor) + AGAIN_NS;
    arm(competitor);
}

/* --- Other installations --- */

/* Was a made before b? By their uids when at the same second. */
static bool
is_older(const json_t *a, const json_t *b)
{
    int order = strcmp(wp_json_text(a, "metadata", "creationTimestamp", NULL),
                       wp_json_text(b, "metadata", "creationTimestamp", NULL));

    return order != 0 ? order < 0
                      : strcmp(wp_json_text(a, "metadata", "uid", NULL),
                               wp_json_text(b, "metadata", "uid", NULL)) < 0;
}

/* NULL when we do not serve yet. */
static const json_t *
find_own(const struct wp_competitor *competitor, const json_t *items)
{
    const json_t *item;
    size_t i;

    json_array_foreach(items, i, item)
    {
        if (strcmp(wp_json_text(item, "metadata", "namespace", NULL),
                   competitor->config.ns) == 0 &&
            strcmp(wp_json_text(item, "metadata", "name", NULL),
                   competitor->config.name) == 0) {
            return item;
        }
    }
    return NULL;
}

/* A place that was there in the last round keeps what was seen of it. */
static void
add_other(struct wp_competitor *competitor, const struct place *before,
          uint32_t before_len, const json_t *item)
{
    const char *ns = wp_json_text(item, "metadata", "namespace", NULL);
    const char *name = wp_json_text(item, "metadata", "name", NULL);
    struct place *place;

    if (competitor->places_len == WP_ARRAY_LEN(competitor->places)) {
        return; /* One of the others is conflict enough. */
    }
    place = &competitor->places[competitor->places_len];
    memset(place, 0, sizeof *place);
    for (uint32_t i = 0; i < before_len; i++) {
        if (strcmp(before[i].ns, ns) == 0 &&
            strcmp(before[i].name, name) == 0) {
            *place = before[i];
        }
    }
    if (wp_str_copy(wp_str_from(ns), place->ns, sizeof place->ns) &&
        wp_str_copy(wp_str_from(name), place->name, sizeof place->name)) {
        competitor->places_len++;
    }
}

static void
take_others(struct wp_competitor *competitor, const json_t *items)
{
    struct place before[PLACES + OTHERS];
    uint32_t before_len = competitor->places_len;
    const json_t *own = find_own(competitor, items);
    const json_t *item;
    size_t i;

    memcpy(before, competitor->places, sizeof before);
    competitor->places_len = competitor->upstream_len;
    json_array_foreach(items, i, item)
    {
        if (item != own && (own == NULL || is_older(item, own)) &&
            wp_scopes_meet(competitor->config.scope,
                           wp_json_text(item, "metadata", "annotations",
                                        WP_ELECTION_SCOPE, NULL))) {
            add_other(competitor, before, before_len, item);
        }
    }
}

static void
on_others(void *ctx, const struct wp_api_result *result)
{
    struct wp_competitor *competitor = answered(ctx);

    if (competitor == NULL || result->status == WP_CANCELLED) {
        return;
    }
    if (result->status != WP_OK && result->status != WP_PERMISSION_DENIED) {
        competitor->next_ns = now_of(competitor) + AGAIN_NS;
        arm(competitor);
        return;
    }
    if (result->status == WP_OK) {
        take_others(competitor, json_object_get(result->object, "items"));
    }
    competitor->listed = true;
    look_at(competitor);
}

static void
list_others(struct wp_competitor *competitor)
{
    const struct wp_api_target target = {.kind = WP_KIND_LEASE,
                                         .priority = WP_HTTP_CLAIM};
    const struct wp_api_query query = {
        .label_selector = WP_ELECTION_SERVING "=true", .limit = PAGE};

    wp_api_list(competitor->config.api, &target, &query, on_others,
                ask(competitor));
}

static void
look_at(struct wp_competitor *competitor)
{
    const struct wp_api_target target = {
        .kind = WP_KIND_LEASE,
        .ns = competitor->places[competitor->at].ns,
        .name = competitor->places[competitor->at].name,
        .priority = WP_HTTP_CLAIM,
    };

    if (!competitor->listed && competitor->config.scope != NULL) {
        list_others(competitor);
        return;
    }
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

static void
add_upstream(struct wp_competitor *competitor, const char *ns)
{
    struct place *place = &competitor->places[competitor->places_len++];

    place->upstream = true;
    (void)snprintf(place->ns, sizeof place->ns, "%s", ns);
    (void)snprintf(place->name, sizeof place->name, "%s", WP_COMPETITOR_LEASE);
    competitor->upstream_len = competitor->places_len;
}

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
    competitor->until_ns = competitor->next_ns + wait_of(config);
    add_upstream(competitor, WP_COMPETITOR_NAMESPACE);
    if (strcmp(config->ns, WP_COMPETITOR_NAMESPACE) != 0) {
        add_upstream(competitor, config->ns);
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
