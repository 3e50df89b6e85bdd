/* pools, scale, watch and drain. */
#include <unistd.h>

#include "allocator/ctl/calls.h"
#include "allocator/ctl/commands.h"
#include "allocator/ctl/print.h"
#include "proto/formats/json_text.h"

static const char *
pool_state(const struct wp_pool_stats *pool)
{
    if (pool->draining) {
        return "draining";
    }
    if (pool->breaker_open) {
        return "failing";
    }
    if (pool->ready >= pool->spec.target) {
        return "full";
    }
    return pool->warming > 0 ? "filling" : "short";
}

static json_t *
pool_json(const struct wp_pool_stats *pool)
{
    json_t *numbers = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "target",
        (json_int_t)pool->spec.target, "ready", (json_int_t)pool->ready,
        "warming", (json_int_t)pool->warming, "leased",
        (json_int_t)pool->leased, "quarantined", (json_int_t)pool->quarantined,
        "dying", (json_int_t)pool->dying, "waiting", (json_int_t)pool->waiting);
    json_t *totals = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "created",
        (json_int_t)pool->created_total, "destroyed",
        (json_int_t)pool->destroyed_total, "failed",
        (json_int_t)pool->failed_total, "lost", (json_int_t)pool->lost_total,
        "served_warm", (json_int_t)pool->served_total[WP_SERVED_WARM],
        "served_queued", (json_int_t)pool->served_total[WP_SERVED_QUEUED],
        "served_cold", (json_int_t)pool->served_total[WP_SERVED_COLD],
        "refused", (json_int_t)pool->refused_total, "released",
        (json_int_t)pool->released_total, "expired",
        (json_int_t)pool->expired_total);

    return json_pack(
        "{s:o, s:o, s:o, s:s, s:o, s:o, s:b, s:b, s:b, s:o, s:s, s:I, s:I}",
        "namespace", wp_json_from_text(pool->spec.pool_namespace), "name",
        wp_json_from_text(pool->spec.name), "template",
        wp_json_from_text(pool->spec.template_name), "state", pool_state(pool),
        "sandboxes", numbers, "totals", totals, "draining", (int)pool->draining,
        "partial", (int)pool->partial, "breaker_open", (int)pool->breaker_open,
        "last_failure", wp_json_from_text(pool->last_failure), "cold_start",
        pool->spec.cold_start == WP_COLD_ALLOWED ? "allowed" : "never",
        "ttl_default_ms",
        (json_int_t)(pool->spec.ttl_default_ns / WP_NS_PER_MS), "ttl_max_ms",
        (json_int_t)(pool->spec.ttl_max_ns / WP_NS_PER_MS));
}

static void
print_table(FILE *out, const struct wp_wire_pools *pools)
{
    static const char *const titles[] = {
        "POOL",    "TEMPLATE", "STATE",   "TARGET",  "READY",
        "WARMING", "LEASED",   "WAITING", "CLAIMED", "WARM %"};
    struct wp_table table;

    wp_table_init(&table, titles, WP_ARRAY_LEN(titles), 0x3f8);
    for (uint32_t i = 0; i < pools->n_pools; i++) {
        const struct wp_pool_stats *pool = &pools->pools[i];
        uint64_t warm = pool->served_total[WP_SERVED_WARM];
        uint64_t served = warm + pool->served_total[WP_SERVED_QUEUED] +
                          pool->served_total[WP_SERVED_COLD];

        wp_table_add(&table, "%s/%s", pool->spec.pool_namespace,
                     pool->spec.name);
        wp_table_add(&table, "%s", pool->spec.template_name);
        wp_table_add(&table, "%s", pool_state(pool));
        wp_table_add(&table, "%u", pool->spec.target);
        wp_table_add(&table, "%u", pool->ready);
        wp_table_add(&table, "%u", pool->warming);
        if (pool->partial) {
            for (int column = 0; column < 4; column++) {
                wp_table_add(&table, "-"); /* Not for this caller. */
            }
            continue;
        }
        wp_table_add(&table, "%u", pool->leased);
        wp_table_add(&table, "%u", pool->waiting);
        wp_table_add(&table, "%llu", (unsigned long long)served);
        if (served > 0) {
            wp_table_add(&table, "%.1f", 100.0 * (double)warm / (double)served);
        } else {
            wp_table_add(&table, "-");
        }
    }
    wp_table_print(&table, out);
    wp_table_fini(&table);
    for (uint32_t i = 0; i < pools->n_pools; i++) {
        const struct wp_pool_stats *pool = &pools->pools[i];

        if (pool->breaker_open && pool->last_failure[0] != '\0') {
            wp_print_field(out, 0, "", "%s/%s makes no sandboxes now: %s",
                           pool->spec.pool_namespace, pool->spec.name,
                           pool->last_failure);
        }
    }
}

void
wp_print_pools(const struct wp_ctl *ctl, const struct wp_wire_pools *pools,
               bool pretty)
{
    json_t *array;

    switch (ctl->options.output) {
    case WP_OUTPUT_TABLE:
        print_table(ctl->out, pools);
        break;
    case WP_OUTPUT_NAME:
        for (uint32_t i = 0; i < pools->n_pools; i++) {
            (void)fprintf(ctl->out, "%s/%s\n",
                          pools->pools[i].spec.pool_namespace,
                          pools->pools[i].spec.name);
        }
        break;
    case WP_OUTPUT_JSON:
        array = json_array();
        for (uint32_t i = 0; i < pools->n_pools; i++) {
            (void)json_array_append_new(array, pool_json(&pools->pools[i]));
        }
        wp_print_json(ctl->out, json_pack("{s:o}", "pools", array), pretty);
        break;
    }
}

/* The operand POOL, or an unset reference when there is none. */
static enum wp_status
pool_operand(struct wp_ctl *ctl, struct wp_wire_pool_ref *out,
             struct wp_err *err)
{
    *out = (struct wp_wire_pool_ref){{NULL, 0}, {NULL, 0}};
    if (ctl->options.n_args == 0) {
        return WP_OK;
    }
    return wp_ctl_pool_parse(ctl, ctl->options.args[0], out, err);
}

int
wp_cmd_pools(struct wp_ctl *ctl)
{
    struct wp_wire_list_pools_request all = {0};
    struct wp_wire_get_pool_request one;
    struct wp_pool_stats *stats = wp_ctl_alloc(ctl, sizeof *stats);
    struct wp_wire_pools pools = {stats, 1};
    struct wp_ctl_call call = {0};
    enum wp_status status;

    if (pool_operand(ctl, &one.pool, &call.err) != WP_OK) {
        return wp_ctl_usage(ctl, &call.err);
    }
    status = ctl->options.n_args == 0
                 ? wp_ctl_call_list_pools(ctl, &all, &pools, &call)
                 : wp_ctl_call_get_pool(ctl, &one, stats, &call);
    if (status != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    wp_print_pools(ctl, &pools, true);
    return WP_EXIT_OK;
}

int
wp_cmd_scale(struct wp_ctl *ctl)
{
    struct wp_wire_set_pool_request request = {.has_target = true};
    struct wp_pool_stats *stats = wp_ctl_alloc(ctl, sizeof *stats);
    struct wp_ctl_call call = {0};
    uint64_t target;

    if (pool_operand(ctl, &request.pool, &call.err) != WP_OK) {
        return wp_ctl_usage(ctl, &call.err);
    }
    if (!wp_str_to_u64(wp_str_from(ctl->options.args[1]), &target) ||
        target > WP_TARGET_MAX) {
        (void)wp_err_set(&call.err, WP_INVALID_ARGUMENT,
                         "'%.40s': expected how many sandboxes to keep ready, "
                         "0 to %d",
                         ctl->options.args[1], WP_TARGET_MAX);
        return wp_ctl_usage(ctl, &call.err);
    }
    request.target = (uint32_t)target;
    if (wp_ctl_call_set_pool(ctl, &request, stats, &call) != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    wp_print_pools(ctl, &(struct wp_wire_pools){stats, 1}, true);
    return WP_EXIT_OK;
}

static bool
watch_pools(void *ctx, const struct wp_wire_pools *pools)
{
    const struct wp_ctl *ctl = ctx;

    if (ctl->options.output == WP_OUTPUT_TABLE && isatty(fileno(ctl->out))) {
        /* Home, and clear what is below. */
        (void)fputs("\033[H\033[J", ctl->out);
    }
    wp_print_pools(ctl, pools, false);
    /* The reader of a pipe has gone: so does the watch. */
    return fflush(ctl->out) == 0;
}

int
wp_cmd_watch(struct wp_ctl *ctl)
{
    struct wp_wire_watch_pools_request request;
    struct wp_ctl_call call = {0};

    if (pool_operand(ctl, &request.pool, &call.err) != WP_OK) {
        return wp_ctl_usage(ctl, &call.err);
    }
    if (wp_ctl_call_watch_pools(ctl, &request, watch_pools, ctl, &call) !=
        WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    return WP_EXIT_OK;
}

int
wp_cmd_drain(struct wp_ctl *ctl)
{
    struct wp_wire_drain_request request = {.grace_ms = ctl->options.grace_ns /
                                                        WP_NS_PER_MS};
    struct wp_wire_drain_response response;
    struct wp_ctl_call call = {0};

    if (pool_operand(ctl, &request.pool, &call.err) != WP_OK) {
        return wp_ctl_usage(ctl, &call.err);
    }
    request.undo = ctl->options.undo;
    if (request.undo && ctl->options.n_args == 0) {
        (void)wp_err_set(&call.err, WP_INVALID_ARGUMENT,
                         "--undo goes with a POOL: a daemon that leaves is "
                         "not held up");
        return wp_ctl_usage(ctl, &call.err);
    }
    if (ctl->options.n_args > 0) {
        request.grace_ms = 0; /* A pool's leases live on in any case. */
    }
    if (wp_ctl_call_drain(ctl, &request, &response, &call) != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    if (ctl->options.output == WP_OUTPUT_JSON) {
        wp_print_json(ctl->out,
                      json_pack("{s:I}", "leased", (json_int_t)response.leased),
                      true);
    } else {
        (void)fprintf(
            ctl->out, "%s %s; leases still held: %u\n",
            ctl->options.n_args > 0 ? ctl->options.args[0] : "the daemon",
            request.undo ? "takes claims again" : "takes no new claims",
            response.leased);
    }
    return WP_EXIT_OK;
}
