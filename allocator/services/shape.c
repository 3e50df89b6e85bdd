/* CreatePool and DeletePool: they read and write files, so that whoever may
 * block does what they ask for, and ends the call. */
#include <stdalign.h>
#include <stdlib.h>

#include "allocator/services/services_private.h"
#include "proto/wire/wire.h"

/* When to try again while another one is under way. */
#define RETRY_NS (100 * WP_NS_PER_MS)

struct shape {
    struct wp_pool_job job; /* First. */
    struct wp_call *call;
    alignas(max_align_t) char arena[WP_WIRE_ARENA_BATCH]; /* The request's. */
};

/* Answers with OK and the pool, by reply; or with what err says. */
static void
end(struct wp_pool_job *job, uint32_t index, const struct wp_err *err,
    void (*reply)(struct wp_call *call, uint32_t index))
{
    struct shape *shape = WP_CONTAINER_OF(job, struct shape, job);
    struct wp_call *call = shape->call;

    free(shape);
    if (err != NULL) {
        wp_service_refuse(call, err);
    } else {
        reply(call, index);
    }
}

/* NULL after having finished the call. */
static struct shape *
begin(struct wp_call *call, struct wp_arena *arena)
{
    const struct wp_services_config *config = &wp_services_of(call)->config;
    struct shape *shape;

    if (config->pools_are_kept != NULL) {
        call->ops->finish(call, WP_FAILED_PRECONDITION, config->pools_are_kept,
                          0);
        return NULL;
    }
    shape = malloc(sizeof *shape);
    if (shape == NULL) {
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED,
                          "no memory for the request", 0);
        return NULL;
    }
    shape->job = (struct wp_pool_job){.done = NULL};
    shape->call = call;
    wp_arena_init(arena, shape->arena, sizeof shape->arena);
    return shape;
}

static void
submit(struct shape *shape,
       void (*done)(struct wp_pool_job *job, uint32_t index,
                    const struct wp_err *err))
{
    struct wp_call *call = shape->call;
    const struct wp_services_config *config = &wp_services_of(call)->config;
    enum wp_status status;
    struct wp_err err;

    shape->job.done = done;
    status = config->shape(config->ctx, &shape->job, &err);
    if (status != WP_OK) {
        free(shape);
        call->ops->finish(call, status, err.msg,
                          status == WP_RESOURCE_EXHAUSTED ? RETRY_NS : 0);
    }
}

/* read: from the request into the job; false after having finished the call. */
static void
start(struct wp_call *call, const uint8_t *bytes, size_t len,
      bool (*read)(struct wp_call *call, struct wp_arena *arena,
                   const uint8_t *bytes, size_t len, struct wp_pool_job *job),
      void (*done)(struct wp_pool_job *job, uint32_t index,
                   const struct wp_err *err))
{
    struct wp_arena arena;
    struct shape *shape = begin(call, &arena);

    if (shape == NULL) {
        return;
    }
    if (read(call, &arena, bytes, len, &shape->job)) {
        submit(shape, done);
    } else {
        free(shape);
    }
}

/* --- CreatePool --- */

static bool
read_create(struct wp_call *call, struct wp_arena *arena, const uint8_t *bytes,
            size_t len, struct wp_pool_job *job)
{
    struct wp_wire_create_pool_request request;
    struct wp_err err;

    if (wp_wire_unpack_create_pool_request(arena, bytes, len, &request, &err) !=
        WP_OK) {
        wp_service_refuse(call, &err);
        return false;
    }
    job->manifest = request.manifest;
    return true;
}

static void
created(struct wp_pool_job *job, uint32_t index, const struct wp_err *err)
{
    end(job, index, err, wp_service_reply_pool);
}

void
wp_service_create_pool_start(struct wp_call *call, const uint8_t *bytes,
                             size_t len)
{
    start(call, bytes, len, read_create, created);
}

/* --- DeletePool --- */

static bool
read_delete(struct wp_call *call, struct wp_arena *arena, const uint8_t *bytes,
            size_t len, struct wp_pool_job *job)
{
    struct wp_wire_delete_pool_request request;
    struct wp_err err;

    if (wp_wire_unpack_delete_pool_request(arena, bytes, len, &request, &err) !=
        WP_OK) {
        wp_service_refuse(call, &err);
        return false;
    }
    if (wp_service_find_pool(call, &request.pool) == UINT32_MAX) {
        return false;
    }
    job->pool_namespace = request.pool.pool_namespace;
    job->pool = request.pool.name;
    return true;
}

static void
reply_leased(struct wp_call *call, uint32_t index)
{
    struct wp_wire_delete_pool_response response;
    struct wp_pool_stats stats;
    uint8_t *buf;

    wp_pools_stats(wp_services_of(call)->config.pools, index, &stats);
    response.leased = stats.leased;
    buf =
        wp_service_reserve(call, wp_wire_size_delete_pool_response(&response));
    if (buf != NULL) {
        (void)wp_wire_pack_delete_pool_response(&response, buf);
        call->ops->finish(call, WP_OK, NULL, 0);
    }
}

static void
deleted(struct wp_pool_job *job, uint32_t index, const struct wp_err *err)
{
    end(job, index, err, reply_leased);
}

void
wp_service_delete_pool_start(struct wp_call *call, const uint8_t *bytes,
                             size_t len)
{
    start(call, bytes, len, read_delete, deleted);
}
