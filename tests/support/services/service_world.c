#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/services/service_world.h"

#include "pool/base/assert.h"

enum {
    ARENA_SIZE = 4 << 20,
};

static bool
post(void *ctx, struct wp_message message)
{
    struct wp_world *world = ctx;

    if (world->channel_full || world->n_messages == WP_WORLD_MESSAGES_MAX) {
        return false;
    }
    world->messages[world->n_messages++] = message;
    return true;
}

static void
wake(void *ctx)
{
    ((struct wp_world *)ctx)->wakes++;
}

static void
drain(void *ctx, int64_t grace_ns)
{
    struct wp_world *world = ctx;

    world->drains++;
    world->drain_grace_ns = grace_ns;
}

static enum wp_status
shape(void *ctx, struct wp_pool_job *job, struct wp_err *err)
{
    struct wp_world *world = ctx;

    if (world->job != NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "one is under way");
    }
    world->job = job;
    return WP_OK;
}

static void
start_services(struct wp_world *world)
{
    struct wp_services_config config;
    struct wp_err err;

    wp_services_config_init(&config);
    config.serves = &world->serves;
    config.pools = world->rig.pools;
    config.clock = &world->rig.clock.clock;
    config.post = post;
    config.wake = wake;
    config.drain = drain;
    config.shape = shape;
    config.pools_are_kept = NULL;
    config.ctx = world;
    config.waiting_max = 2;
    config.batches_max = 2;
    config.watches_max = 2;
    world->services = wp_services_create(&config, &err);
    WP_ASSERT(world->services != NULL);
    world->allocator = wp_service_allocator(world->services);
    world->admin = wp_service_admin(world->services);
}

void
wp_world_init(struct wp_world *world, uint32_t slots_max, uint32_t target)
{
    memset(world, 0, sizeof *world);
    wp_rig_init(&world->rig, slots_max, target, NULL);
    atomic_init(&world->serves, true);
    start_services(world);
    world->arena_memory = malloc(ARENA_SIZE);
    WP_ASSERT(world->arena_memory != NULL);
    wp_arena_init(&world->arena, world->arena_memory, ARENA_SIZE);
    wp_world_settle(world);
}

void
wp_world_restart(struct wp_world *world)
{
    wp_services_stop(world->services);
    wp_services_destroy(world->services);
    start_services(world);
}

void
wp_world_fini(struct wp_world *world)
{
    wp_services_stop(world->services);
    wp_world_settle(world);
    wp_services_destroy(world->services);
    wp_rig_fini(&world->rig);
    free(world->arena_memory);
}

void
wp_world_settle(struct wp_world *world)
{
    struct wp_rig *rig = &world->rig;

    for (uint32_t i = 0; i < world->n_messages; i++) {
        const struct wp_message *message = &world->messages[i];

        message->run(message->ctx, message->a, message->b);
    }
    world->n_messages = 0;
    wp_rig_settle(rig);
    if (world->changes_seen != rig->changes) {
        world->changes_seen = rig->changes;
        wp_services_changed(world->services, 0);
    }
    world->next_run_ns = wp_services_run(world->services);
}

void
wp_world_advance(struct wp_world *world, int64_t delta_ns)
{
    wp_clock_manual_advance(&world->rig.clock, delta_ns);
    wp_world_settle(world);
}

void
wp_world_call(struct wp_world *world, struct wp_fake_call *fake)
{
    wp_fake_call_init(fake);
    fake->call.deadline_ns = world->rig.clock.now_mono_ns + 3600 * WP_NS_PER_S;
}

struct wp_fake_call *
wp_world_again(struct wp_world *world, struct wp_fake_call *fake)
{
    wp_fake_call_fini(fake);
    wp_world_call(world, fake);
    return fake;
}

void
wp_world_assert_ended(const struct wp_fake_call *fake, enum wp_status status)
{
    if (!fake->finished || fake->status != status) {
        fail_msg("%s expected, got %s: %s", wp_status_name(status),
                 fake->finished ? wp_status_name(fake->status) : "nothing",
                 fake->message);
    }
}

void
wp_world_claim(struct wp_world *world, struct wp_fake_call *fake,
               const char *id, const char *tenant, int64_t wait_ms)
{
    const struct wp_wire_claim_request request = {
        .pool = {WP_STR("default"), WP_STR("p")},
        .claim_id = wp_str_from(id),
        .tenant = wp_str_from(tenant),
        .wait_ms = wait_ms,
    };

    WP_WORLD_START(&world->allocator, fake, "Claim", claim_request, &request);
}

struct wp_wire_claim_response
wp_world_lease(struct wp_world *world, const struct wp_fake_call *fake)
{
    struct wp_wire_claim_response response;

    if (!fake->finished || fake->status != WP_OK) {
        fail_msg("a lease expected, got %s: %s", wp_status_name(fake->status),
                 fake->message);
    }
    WP_WORLD_REPLY(world, fake, claim_response, &response);
    return response;
}

void
wp_world_release(struct wp_world *world, struct wp_fake_call *fake,
                 const uint8_t *token)
{
    struct wp_wire_release_request request;

    memcpy(request.token, token, sizeof request.token);
    WP_WORLD_START(&world->allocator, fake, "Release", release_request,
                   &request);
}
