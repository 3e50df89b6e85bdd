/* The methods of warmpool.v1.PoolAdmin. Questions are answered where they come
 * in; what shapes pools runs on the control thread, and is answered there. */
#include "allocator/services/services.h"

#include <string.h>

#include "allocator/services/services_private.h"
#include "pool/base/assert.h"

/* A policy as texts. */
struct policy_text {
    char text[WP_SCALE_VALUE_MAX + WP_WIRE_AUTOSCALE_MAX * 128];
    struct wp_wire_setting settings[WP_WIRE_AUTOSCALE_MAX];
    uint32_t n;
};

static void
write_policy(const struct wp_scale_policy *policy, struct policy_text *out)
{
    size_t at = 0;

    out->n = 0;
    for (unsigned i = 0; wp_scale_policy_key(i) != NULL; i++) {
        struct wp_str key = wp_str_from(wp_scale_policy_key(i));
        char *value = out->text + at;

        if (wp_scale_policy_get(policy, key, value, sizeof out->text - at)) {
            WP_ASSERT(out->n < WP_WIRE_AUTOSCALE_MAX);
            out->settings[out->n++] =
                (struct wp_wire_setting){key, wp_str_from(value)};
            at += strlen(value) + 1;
        }
    }
}

/* With its policy, what its scaler has decided, and what is announced to it. */
void
wp_service_reply_pool(struct wp_call *call, uint32_t index)
{
    struct wp_pools *pools = wp_services_of(call)->config.pools;
    struct wp_scale_decision decisions[WP_WIRE_DECISIONS_MAX];
    struct wp_scale_reservation reservations[WP_SCALE_RESERVATIONS_MAX];
    struct wp_pool_stats stats;
    struct policy_text policy;
    struct wp_wire_pool_detail detail = {
        .stats = &stats,
        .autoscale = policy.settings,
        .decisions = decisions,
        .reservations = reservations,
    };
    uint8_t *buf;

    wp_pools_stats(pools, index, &stats);
    write_policy(&stats.spec.scale, &policy);
    detail.n_autoscale = policy.n;
    decisions[0] = stats.scale;
    detail.n_decisions = stats.scale.number > 0 ? 1 : 0;
    detail.n_decisions +=
        wp_pools_scale_decisions(pools, index, decisions + detail.n_decisions,
                                 WP_WIRE_DECISIONS_MAX - detail.n_decisions);
    if (detail.n_decisions > 1 &&
        (decisions[1].number > stats.scale.number ||
         decisions[1].mono_ns >= stats.scale.mono_ns)) {
        detail.decisions++; /* The latest is among those that are kept. */
        detail.n_decisions--;
    }
    detail.n_reservations = wp_pools_scale_reservations(
        pools, index, reservations, WP_SCALE_RESERVATIONS_MAX);
    buf = wp_service_reserve(call, wp_wire_size_pool_detail(&detail));
    if (buf != NULL) {
        (void)wp_wire_pack_pool_detail(&detail, buf);
        call->ops->finish(call, WP_OK, NULL, 0);
    }
}

/* Defines name_start: it reads the request into the call's arena, and has
 * name(call, request, err) run on the control thread, which either fills err or
 * returns WP_OK, having answered the call. */
#define DEFINE_START(name)                                                     \
    static void name##_run(void *ctx, uint64_t a, uint64_t b)                  \
    {                                                                          \
        struct wp_call *call = ctx;                                            \
        struct wp_err err;                                                     \
                                                                               \
        (void)a;                                                               \
        (void)b;                                                               \
        if (name(call, call->state, &err) != WP_OK) {                          \
            wp_service_refuse(call, &err);                                     \
        }                                                                      \
    }                                                                          \
    static void name##_start(struct wp_call *call, const uint8_t *bytes,       \
                             size_t len)                                       \
    {                                                                          \
        struct wp_wire_##name##_request *request =                             \
            wp_service_state(call, sizeof *request);                           \
        struct wp_err err;                                                     \
                                                                               \
        if (request == NULL) {                                                 \
            return;                                                            \
        }                                                                      \
        if (wp_wire_unpack_##name##_request(&call->arena, bytes, len, request, \
                                            &err) != WP_OK) {                  \
            wp_service_refuse(call, &err);                                     \
            return;                                                            \
        }                                                                      \
        call->state = request;                                                 \
        wp_service_post(call, name##_run);                                     \
    }

/* --- ListPools, GetPool --- */

static void
list_pools_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_services *services = wp_services_of(call);
    struct wp_wire_list_pools_request request;
    struct wp_wire_pools response = {.pools = services->pools};
    struct wp_err err;
    uint8_t *buf;

    if (wp_wire_unpack_list_pools_request(&call->arena, bytes, len, &request,
                                          &err) != WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    (void)pthread_mutex_lock(&services->page_lock);
    for (uint32_t i = 0; i < wp_pools_count(services->config.pools); i++) {
        struct wp_pool_stats *stats = &services->pools[response.n_pools];

        wp_pools_stats(services->config.pools, i, stats);
        response.n_pools += stats->gone ? 0 : 1;
    }
    buf = call->ops->reserve(call, wp_wire_size_pools(&response));
    if (buf != NULL) {
        (void)wp_wire_pack_pools(&response, buf);
    }
    (void)pthread_mutex_unlock(&services->page_lock);
    call->ops->finish(call, buf != NULL ? WP_OK : WP_RESOURCE_EXHAUSTED,
                      buf != NULL ? NULL : "no memory for the reply", 0);
}

static void
get_pool_start(struct wp_call *call, const uint8_t *bytes, size_t len)
{
    struct wp_wire_get_pool_request request;
    struct wp_err err;
    uint32_t index;

    if (wp_wire_unpack_get_pool_request(&call->arena, bytes, len, &request,
                                        &err) != WP_OK) {
        wp_service_refuse(call, &err);
        return;
    }
    index = wp_service_find_pool(call, &request.pool);
    if (index != UINT32_MAX) {
        wp_service_reply_pool(call, index);
    }
}

/* --- SetPool --- */

static enum wp_status
change_policy(struct wp_scale_policy *policy,
              const struct wp_wire_set_pool_request *request,
              struct wp_err *err)
{
    enum wp_status status = WP_OK;

    for (uint32_t i = 0; status == WP_OK && i < request->n_autoscale; i++) {
        const struct wp_wire_setting *setting = &request->autoscale[i];

        status = setting->value.len == 0
                     ? wp_scale_policy_clear(policy, setting->key, err)
                     : wp_scale_policy_set(policy, setting->key, setting->value,
                                           err);
    }
    if (status == WP_OK) {
        status = wp_scale_policy_check(policy, err);
    }
    return status == WP_OK ? WP_OK : wp_err_wrap(err, "autoscale");
}

/* Both at once, or, with a mistake, neither. */
static enum wp_status
change_pool(struct wp_pools *pools, uint32_t index,
            const struct wp_wire_set_pool_request *request, struct wp_err *err)
{
    struct wp_pool_stats stats;
    enum wp_status status;

    wp_pools_stats(pools, index, &stats);
    if (stats.draining) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "pool: '%s' drains and makes no sandboxes; take "
                          "that back first (warmpoolctl drain --undo)",
                          stats.spec.name);
    }
    if (request->n_autoscale == 0) {
        return wp_pools_set_target(pools, index, request->target, err);
    }
    stats.spec.target = request->has_target ? request->target : stats.replicas;
    status = change_policy(&stats.spec.scale, request, err);
    return status == WP_OK ? wp_pools_update(pools, index, &stats.spec, err)
                           : status;
}

static enum wp_status
set_pool(struct wp_call *call, const struct wp_wire_set_pool_request *request,
         struct wp_err *err)
{
    const struct wp_services_config *config = &wp_services_of(call)->config;
    uint32_t index;
    enum wp_status status;

    if (config->targets_are_kept != NULL) {
        return wp_err_set(err, WP_FAILED_PRECONDITION, "%s",
                          config->targets_are_kept);
    }
    index = wp_service_find_pool(call, &request->pool);
    if (index == UINT32_MAX) {
        return WP_OK;
    }
    status = change_pool(config->pools, index, request, err);
    if (status == WP_OK) {
        config->wake(config->ctx);
        wp_service_reply_pool(call, index);
    }
    return status;
}

DEFINE_START(set_pool)

/* --- Reserve, CancelReservation --- */

static void
reply_reservation(struct wp_call *call,
                  const struct wp_scale_reservation *reservation)
{
    uint8_t *buf =
        wp_service_reserve(call, wp_wire_size_reservation(reservation));

    if (buf != NULL) {
        (void)wp_wire_pack_reservation(reservation, buf);
        call->ops->finish(call, WP_OK, NULL, 0);
    }
}

static bool
find_reservation(struct wp_pools *pools, uint32_t index, struct wp_str id,
                 struct wp_scale_reservation *out)
{
    struct wp_scale_reservation all[WP_SCALE_RESERVATIONS_MAX];
    uint32_t n = wp_pools_scale_reservations(pools, index, all,
                                             WP_SCALE_RESERVATIONS_MAX);

    for (uint32_t i = 0; i < n; i++) {
        if (wp_str_is(id, all[i].id)) {
            *out = all[i];
            return true;
        }
    }
    return false;
}

static enum wp_status
make_reservation(const struct wp_services_config *config, uint32_t index,
                 const struct wp_wire_reserve_request *request,
                 struct wp_scale_reservation *out, struct wp_err *err)
{
    int64_t now_ns = wp_clock_wall_ns(config->clock);
    int64_t from_ns = request->not_before_ms * WP_NS_PER_MS;
    int64_t until_ns = request->until_ms * WP_NS_PER_MS;
    enum wp_status status;

    if (until_ns <= now_ns) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "until_unix_ms: later than now expected");
    }
    if (from_ns == 0) {
        if (until_ns - now_ns > WP_WIRE_RESERVE_MAX_MS * WP_NS_PER_MS) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "until_unix_ms: within 31 days expected");
        }
        /* A repeat means the same "now". */
        from_ns = find_reservation(config->pools, index, request->id, out)
                      ? out->from_wall_ns
                      : now_ns;
    }
    status = wp_pools_scale_reserve(config->pools, index, request->id,
                                    request->sandboxes, from_ns, until_ns, err);
    if (status == WP_OK &&
        !find_reservation(config->pools, index, request->id, out)) {
        return wp_err_set(err, WP_INTERNAL, "the reservation is not there");
    }
    return status;
}

static enum wp_status
reserve(struct wp_call *call, const struct wp_wire_reserve_request *request,
        struct wp_err *err)
{
    const struct wp_services_config *config = &wp_services_of(call)->config;
    uint32_t index = wp_service_find_pool(call, &request->pool);
    struct wp_scale_reservation kept;
    enum wp_status status;

    if (index == UINT32_MAX) {
        return WP_OK;
    }
    status = make_reservation(config, index, request, &kept, err);
    if (status == WP_OK) {
        config->wake(config->ctx);
        reply_reservation(call, &kept);
    }
    return status;
}

DEFINE_START(reserve)

static enum wp_status
cancel_reservation(struct wp_call *call,
                   const struct wp_wire_cancel_reservation_request *request,
                   struct wp_err *err)
{
    const struct wp_services_config *config = &wp_services_of(call)->config;
    uint32_t index = wp_service_find_pool(call, &request->pool);
    enum wp_status status;

    if (index == UINT32_MAX) {
        return WP_OK;
    }
    status = wp_pools_scale_cancel(config->pools, index, request->id, err);
    if (status != WP_OK) {
        return status;
    }
    config->wake(config->ctx);
    /* The answer has no field, and so no bytes. */
    if (wp_service_reserve(call, 0) != NULL) {
        call->ops->finish(call, WP_OK, NULL, 0);
    }
    return WP_OK;
}

DEFINE_START(cancel_reservation)

/* --- Drain --- */

static uint32_t
leased_of(struct wp_pools *pools, uint32_t index)
{
    struct wp_pool_stats stats;

    wp_pools_stats(pools, index, &stats);
    return stats.leased;
}

/* The answer is sent before the daemon is told to leave, since from then on its
 * transport may close; and with it, the request may be gone. */
static enum wp_status
drain(struct wp_call *call, const struct wp_wire_drain_request *state,
      struct wp_err *err)
{
    const struct wp_services_config *config = &wp_services_of(call)->config;
    const struct wp_wire_drain_request request = *state;
    struct wp_wire_drain_response response = {0};
    bool whole = request.pool.name.len == 0;
    uint8_t *buf;

    if (whole) {
        uint32_t n = wp_pools_count(config->pools);

        for (uint32_t i = 0; i < n; i++) {
            response.leased += leased_of(config->pools, i);
        }
    } else {
        uint32_t index = wp_service_find_pool(call, &request.pool);

        if (index == UINT32_MAX) {
            return WP_OK;
        }
        if (!request.undo) {
            wp_pools_drain(config->pools, index);
        } else if (wp_pools_undrain(config->pools, index, err) != WP_OK) {
            return err->status;
        }
        config->wake(config->ctx);
        response.leased = leased_of(config->pools, index);
    }
    buf = wp_service_reserve(call, wp_wire_size_drain_response(&response));
    if (buf != NULL) {
        (void)wp_wire_pack_drain_response(&response, buf);
        call->ops->finish(call, WP_OK, NULL, 0);
    }
    if (whole) {
        config->drain(config->ctx, request.grace_ms * WP_NS_PER_MS);
    }
    return WP_OK;
}

DEFINE_START(drain)

static const struct wp_method admin_methods[] = {
    {.path = "/warmpool.v1.PoolAdmin/ListPools",
     .admin_only = true,
     .start = list_pools_start},
    {.path = "/warmpool.v1.PoolAdmin/GetPool",
     .admin_only = true,
     .start = get_pool_start},
    {.path = "/warmpool.v1.PoolAdmin/SetPool",
     .admin_only = true,
     .start = set_pool_start},
    {.path = "/warmpool.v1.PoolAdmin/CreatePool",
     .admin_only = true,
     .start = wp_service_create_pool_start},
    {.path = "/warmpool.v1.PoolAdmin/DeletePool",
     .admin_only = true,
     .start = wp_service_delete_pool_start},
    {.path = "/warmpool.v1.PoolAdmin/Reserve",
     .admin_only = true,
     .start = reserve_start},
    {.path = "/warmpool.v1.PoolAdmin/CancelReservation",
     .admin_only = true,
     .start = cancel_reservation_start},
    {.path = "/warmpool.v1.PoolAdmin/Advise",
     .server_streaming = true,
     .admin_only = true,
     .start = wp_service_advise_start},
    {.path = "/warmpool.v1.PoolAdmin/Drain",
     .admin_only = true,
     .start = drain_start},
};

struct wp_service
wp_service_admin(struct wp_services *services)
{
    return (struct wp_service){
        .name = "warmpool.v1.PoolAdmin",
        .methods = admin_methods,
        .n_methods = WP_ARRAY_LEN(admin_methods),
        .self = services,
    };
}
