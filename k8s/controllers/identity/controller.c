/* k8s/controllers/identity/controller.c - the keys that sign identities, the
 * same for all replicas.
 *
 * Every replica reads the Secret and publishes what is in it; the leader signs,
 * makes the next key in time, and removes what is over. A write names the
 * version that was read, so of two leaders at once one reads anew. A key signs
 * only once the server has it. */
#include <event2/event.h>

#include <stdlib.h>

#include "k8s/controllers/shared.h"
#include "k8s/objects/json.h"
#include "pool/base/assert.h"
#include "pool/base/log.h"

#define ROUND_NS (60 * WP_NS_PER_S)
#define AGAIN_NS (1 * WP_NS_PER_S)

struct wp_identity_controller {
    struct wp_parts *parts;
    const struct wp_cluster_identity *config;
    struct event *timer;
    bool complained;
    bool has_keys; /* As of the latest look. */
};

static void
rest(struct wp_identity_controller *self, int64_t ns)
{
    const struct timeval after = wp_timeval(ns);

    WP_ASSERT(event_add(self->timer, &after) == 0);
}

/* It goes on in the next round; people hear of it once. */
static void
fail(struct wp_identity_controller *self, const struct wp_api_result *result)
{
    bool passes = wp_result_passes(result);

    if (result->status == WP_CANCELLED) {
        return; /* The client is going. */
    }
    if (!passes && !self->complained) {
        self->complained = true;
        wp_log_warn("no identities: their keys cannot be kept",
                    wp_kv_str("secret", self->config->secret),
                    wp_kv_int("code", result->code),
                    wp_kv_str("message",
                              result->message != NULL ? result->message : ""));
    }
    /* Claims may wait for what is missing. */
    rest(self, AGAIN_NS);
}

static struct wp_api_target
target_of(const struct wp_identity_controller *self)
{
    return (struct wp_api_target){.kind = WP_KIND_SECRET,
                                  .ns = self->parts->config.election_ns,
                                  .name = self->config->secret,
                                  .priority = WP_HTTP_NORMAL};
}

static void
take(struct wp_identity_controller *self, const json_t *secret)
{
    json_t *data = json_object_get(secret, "data");
    bool had_keys = self->has_keys;

    self->complained = false;
    self->has_keys = json_object_size(data) > 0;
    self->config->take(self->config->ctx, data);
    if (self->has_keys && !had_keys && self->parts->on_keys != NULL) {
        self->parts->on_keys(self->parts->on_keys_ctx);
    }
    /* Whoever has none looks often: the leader is making the first. */
    rest(self, self->has_keys ? ROUND_NS : AGAIN_NS);
}

static void
on_written(void *ctx, const struct wp_api_result *result)
{
    struct wp_identity_controller *self = ctx;

    if (result->status != WP_OK || result->object == NULL) {
        fail(self, result);
        return;
    }
    wp_log_info("a new key for identities, or an old one is gone",
                wp_kv_str("secret", self->config->secret));
    take(self, result->object);
}

static void
write_change(struct wp_identity_controller *self, const json_t *secret,
             json_t *change)
{
    struct wp_api_target target = target_of(self);
    json_t *metadata = json_object();
    json_t *patch;

    (void)wp_json_set_text(
        metadata, "resourceVersion",
        wp_json_text(secret, "metadata", "resourceVersion", NULL));
    patch = wp_json_set(json_object(), "metadata", metadata);
    (void)wp_json_set(patch, "data", change);
    wp_api_patch(self->parts->api, &target, patch, on_written, self);
}

static void
on_read(void *ctx, const struct wp_api_result *result)
{
    struct wp_identity_controller *self = ctx;
    json_t *change = NULL;

    if (result->status != WP_OK || result->object == NULL) {
        fail(self, result);
        return;
    }
    self->config->take(self->config->ctx,
                       json_object_get(result->object, "data"));
    if (self->parts->active) {
        change = self->config->change(self->config->ctx);
    }
    if (change != NULL) {
        write_change(self, result->object, change);
    } else {
        take(self, result->object);
    }
}

static void
on_timer(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_identity_controller *self = ctx;
    struct wp_api_target target = target_of(self);

    (void)fd;
    (void)what;
    wp_api_get(self->parts->api, &target, on_read, self);
}

/* --- Life --- */

/* A new leader looks at once, unless a round is under way. */
static void
identity_activate(void *arg)
{
    struct wp_identity_controller *self = arg;

    if (event_pending(self->timer, EV_TIMEOUT, NULL)) {
        rest(self, 0);
    }
}

static void
identity_deactivate(void *arg)
{
    (void)arg;
}

static void
identity_destroy(void *arg)
{
    struct wp_identity_controller *self = arg;

    event_free(self->timer);
    free(self);
}

static void *
identity_create(struct wp_parts *parts, struct wp_err *err)
{
    struct wp_identity_controller *self = calloc(1, sizeof *self);

    if (self != NULL) {
        self->parts = parts;
        self->config = parts->config.identities;
        self->timer = evtimer_new(parts->base, on_timer, self);
    }
    if (self == NULL || self->timer == NULL) {
        free(self);
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "identities: no memory");
        return NULL;
    }
    rest(self, 0);
    return self;
}

const struct wp_controller_ops wp_identity_controller_ops = {
    .name = "identity",
    .create = identity_create,
    .activate = identity_activate,
    .deactivate = identity_deactivate,
    .destroy = identity_destroy,
};
