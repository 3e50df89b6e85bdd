/* k8s/controllers/webhook/controller.c - keeps the webhook trusted.
 *
 * Every replica reads the Secret and shows what is in it, so any of them may be
 * asked. The leader makes certificates, before they run out, and tells the
 * definitions whom to trust. A round reads the Secret and then, one after the
 * other, the definitions: it writes only what differs, whoever changed it. */
#include <event2/event.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/controllers/shared.h"
#include "k8s/controllers/webhook/definitions.h"
#include "k8s/controllers/webhook/pairs.h"
#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

#define ROUND_NS (60 * WP_NS_PER_S)
#define AGAIN_NS (1 * WP_NS_PER_S)

enum {
    NAME_CAP = 320,
};

struct wp_webhook_controller {
    struct wp_parts *parts;
    const struct wp_cluster_webhook *config;
    const char *ns;
    struct event *timer;
    struct wp_webhook_pairs pairs;
    char names[WP_CERTIFICATE_NAMES_MAX][NAME_CAP];
    char shown[WP_CERTIFICATE_PEM_MAX]; /* The certificate, not its key. */
    json_t *client; /* Of the definitions, this round; NULL. */
    size_t at;      /* The definition that is asked about. */
    bool complained;
};

static int64_t
now_s(const struct wp_webhook_controller *self)
{
    return wp_clock_wall_ns(self->parts->clock) / WP_NS_PER_S;
}

static void
rest(struct wp_webhook_controller *self, int64_t ns)
{
    const struct timeval after = wp_timeval(ns);

    json_decref(self->client);
    self->client = NULL;
    wp_webhook_pairs_clear(&self->pairs);
    WP_ASSERT(event_add(self->timer, &after) == 0);
}

/* It goes on in the next round; people hear of it once. */
static void
fail(struct wp_webhook_controller *self, const char *what,
     const struct wp_api_result *result)
{
    bool passes = wp_result_passes(result);

    if (result->status == WP_CANCELLED) {
        return; /* The client is going. */
    }
    if (!passes && !self->complained) {
        self->complained = true;
        wp_log_warn("clients of v1alpha1 are not served: the webhook cannot be "
                    "kept trusted",
                    wp_kv_str("object", what), wp_kv_int("code", result->code),
                    wp_kv_str("message",
                              result->message != NULL ? result->message : ""));
    }
    rest(self, passes ? AGAIN_NS : ROUND_NS);
}

/* --- The definitions; the leader --- */

static void next_definition(struct wp_webhook_controller *self);

static struct wp_api_target
definition_target(const struct wp_webhook_controller *self)
{
    return (struct wp_api_target){.kind = WP_KIND_DEFINITION,
                                  .name = wp_definition_name(self->at),
                                  .priority = WP_HTTP_NORMAL};
}

static void
definition_written(void *ctx, const struct wp_api_result *result)
{
    struct wp_webhook_controller *self = ctx;

    if (result->status != WP_OK) {
        fail(self, wp_definition_name(self->at), result);
        return;
    }
    wp_log_info("a definition trusts the webhook's certificate",
                wp_kv_str("definition", wp_definition_name(self->at)));
    self->at++;
    next_definition(self);
}

static void
definition_read(void *ctx, const struct wp_api_result *result)
{
    struct wp_webhook_controller *self = ctx;
    struct wp_api_target target = definition_target(self);
    json_t *patch;

    if (result->status != WP_OK || result->object == NULL) {
        fail(self, wp_definition_name(self->at), result);
        return;
    }
    patch = wp_definition_patch(result->object, self->client);
    if (patch == NULL || !self->parts->active) {
        json_decref(patch);
        self->at++;
        next_definition(self);
        return;
    }
    wp_api_patch(self->parts->api, &target, patch, definition_written, self);
}

static void
next_definition(struct wp_webhook_controller *self)
{
    struct wp_api_target target;

    if (!self->parts->active || self->at == WP_DEFINITIONS) {
        self->complained = false;
        rest(self, ROUND_NS);
        return;
    }
    target = definition_target(self);
    wp_api_get(self->parts->api, &target, definition_read, self);
}

/* --- The Secret --- */

static struct wp_api_target
secret_target(const struct wp_webhook_controller *self)
{
    return (struct wp_api_target){.kind = WP_KIND_SECRET,
                                  .ns = self->ns,
                                  .name = self->config->secret,
                                  .priority = WP_HTTP_NORMAL};
}

/* The Secret is as it should be. */
static void
go_by_pairs(struct wp_webhook_controller *self)
{
    const struct wp_certificate *pair =
        wp_webhook_pairs_shown(&self->pairs, now_s(self));

    if (pair == NULL) {
        rest(self, AGAIN_NS); /* The leader makes one. */
        return;
    }
    if (strcmp(pair->cert, self->shown) != 0) {
        (void)snprintf(self->shown, sizeof self->shown, "%s", pair->cert);
        self->config->use(self->config->ctx, pair->cert, pair->key);
    }
    self->client =
        wp_definition_client(self->config->url, self->config->service, self->ns,
                             wp_webhook_pairs_bundle(&self->pairs));
    self->at = 0;
    next_definition(self);
}

static void
secret_written(void *ctx, const struct wp_api_result *result)
{
    struct wp_webhook_controller *self = ctx;

    if (result->status != WP_OK) {
        fail(self, self->config->secret, result);
        return;
    }
    wp_log_info("a new certificate for the webhook",
                wp_kv_str("secret", self->config->secret),
                wp_kv_int("days", WP_CERTIFICATE_DAYS));
    go_by_pairs(self);
}

static void
renew(struct wp_webhook_controller *self, const json_t *secret)
{
    struct wp_api_target target = secret_target(self);
    struct wp_err err;
    json_t *metadata = json_object();
    json_t *patch;

    if (wp_webhook_pairs_renew(&self->pairs, now_s(self), &err) != WP_OK) {
        json_decref(metadata);
        wp_log_error("no certificate for the webhook", wp_kv_err(&err));
        rest(self, ROUND_NS);
        return;
    }
    (void)wp_json_set_text(
        metadata, "resourceVersion",
        wp_json_text(secret, "metadata", "resourceVersion", NULL));
    patch = wp_json_set(json_object(), "metadata", metadata);
    (void)wp_json_set(patch, "data", wp_webhook_pairs_data(&self->pairs));
    wp_api_patch(self->parts->api, &target, patch, secret_written, self);
}

static void
secret_read(void *ctx, const struct wp_api_result *result)
{
    struct wp_webhook_controller *self = ctx;

    if (result->status != WP_OK || result->object == NULL) {
        fail(self, self->config->secret, result);
        return;
    }
    wp_webhook_pairs_read(&self->pairs, result->object, now_s(self));
    if (self->parts->active &&
        wp_webhook_pairs_are_due(&self->pairs, now_s(self))) {
        renew(self, result->object);
    } else {
        go_by_pairs(self);
    }
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_webhook_controller *self = ctx;
    struct wp_api_target target = secret_target(self);

    (void)fd;
    (void)what;
    wp_api_get(self->parts->api, &target, secret_read, self);
}

/* --- Life --- */

/* A new leader looks at once, unless a round is under way. */
static void
webhook_activate(void *arg)
{
    struct wp_webhook_controller *self = arg;

    if (event_pending(self->timer, EV_TIMEOUT, NULL)) {
        rest(self, 0);
    }
}

static void
webhook_deactivate(void *arg)
{
    (void)arg;
}

static void
webhook_destroy(void *arg)
{
    struct wp_webhook_controller *self = arg;

    event_free(self->timer);
    json_decref(self->client);
    wp_webhook_pairs_clear(&self->pairs);
    free(self);
}

/* The host of https://HOST[:PORT]/... */
static void
host_of(const char *url, char out[NAME_CAP])
{
    const char *host = url + strlen("https://");
    bool literal = host[0] == '[';
    size_t len;

    host += literal ? 1 : 0;
    len = strcspn(host, literal ? "]" : ":/");
    (void)snprintf(out, NAME_CAP, "%.*s", (int)len, host);
}

/* What the API server asks for, and what it may be changed to. */
static void
name_it(struct wp_webhook_controller *self)
{
    struct wp_webhook_pairs *pairs = &self->pairs;

    (void)snprintf(self->names[0], NAME_CAP, "%s.%s.svc", self->config->service,
                   self->ns);
    pairs->n_names = 1;
    if (self->config->url != NULL) {
        host_of(self->config->url, self->names[1]);
        pairs->n_names = 2;
    }
    for (size_t i = 0; i < pairs->n_names; i++) {
        pairs->names[i] = self->names[i];
    }
}

static void *
webhook_create(struct wp_parts *parts, struct wp_err *err)
{
    struct wp_webhook_controller *self = calloc(1, sizeof *self);

    if (self == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "webhook: no memory");
        return NULL;
    }
    self->parts = parts;
    self->config = parts->config.webhook;
    self->ns = parts->config.election_ns;
    name_it(self);
    self->timer = evtimer_new(parts->base, on_timer, self);
    if (self->timer == NULL) {
        free(self);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "webhook: no memory");
        return NULL;
    }
    rest(self, 0);
    return self;
}

const struct wp_controller_ops wp_webhook_controller_ops = {
    .name = "webhook",
    .create = webhook_create,
    .activate = webhook_activate,
    .deactivate = webhook_deactivate,
    .destroy = webhook_destroy,
};
