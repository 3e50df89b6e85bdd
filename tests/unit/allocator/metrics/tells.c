#include "tests/unit/allocator/metrics/tells.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/buffer.h>
#include <string.h>

#include "pool/trace/tracer.h"
#include "tests/unit/allocator/metrics/numbers.h"

enum {
    TENANTS_AT_ONCE = 64, /* The page asks for so many. */
};

uint32_t __wrap_wp_pools_count(const struct wp_pools *pools);
void __wrap_wp_pools_stats(struct wp_pools *pools, uint32_t pool_index,
                           struct wp_pool_stats *out);
uint64_t __wrap_wp_pools_memory_bytes(const struct wp_pools *pools);
const struct wp_histogram *
__wrap_wp_pools_claim_latency(const struct wp_pools *pools,
                              uint32_t pool_index);
const struct wp_histogram *
__wrap_wp_pools_lead_time(const struct wp_pools *pools, uint32_t pool_index);
const struct wp_histogram *
__wrap_wp_pools_scale_reaction(struct wp_pools *pools, uint32_t pool_index);
bool __wrap_wp_pools_is_keeper(const struct wp_pools *pools);
const struct wp_budget_total *
__wrap_wp_pools_budget(const struct wp_pools *pools, uint32_t i);
uint32_t __wrap_wp_pools_tenants(struct wp_pools *pools, uint32_t pool_index,
                                 const struct wp_str *tenant, uint32_t *cursor,
                                 struct wp_tenant_stats *out, uint32_t max);
bool __wrap_wp_pools_holds_unseen(const struct wp_pools *pools);
struct wp_control_stats
__wrap_wp_control_stats(const struct wp_control *control);
bool __wrap_wp_rpc_server_duration(const struct wp_rpc_server *server,
                                   uint32_t *cursor,
                                   struct wp_rpc_duration *out);
void __wrap_wp_rpc_server_served(const struct wp_rpc_server *server,
                                 unsigned served, struct wp_rpc_duration *out);
void __wrap_wp_rpc_server_stats(const struct wp_rpc_server *server,
                                struct wp_rpc_stats *out);
bool __wrap_wp_rpc_server_accepts(const struct wp_rpc_server *server);
struct wp_gateway_stats
__wrap_wp_gateway_stats(const struct wp_gateway *gateway);
struct wp_tracer_stats __wrap_wp_tracer_stats(const struct wp_tracer *tracer);

struct tells tells;

uint32_t
__wrap_wp_pools_count(const struct wp_pools *pools)
{
    (void)pools;
    return tells.n_pools;
}

void
__wrap_wp_pools_stats(struct wp_pools *pools, uint32_t pool_index,
                      struct wp_pool_stats *out)
{
    (void)pools;
    *out = tells.pools[pool_index];
    out->index = pool_index;
}

uint64_t
__wrap_wp_pools_memory_bytes(const struct wp_pools *pools)
{
    (void)pools;
    return BIG(1);
}

const struct wp_histogram *
__wrap_wp_pools_claim_latency(const struct wp_pools *pools, uint32_t pool_index)
{
    (void)pools;
    return &tells.claim_latency[pool_index];
}

const struct wp_histogram *
__wrap_wp_pools_lead_time(const struct wp_pools *pools, uint32_t pool_index)
{
    (void)pools;
    return &tells.lead_time[pool_index];
}

const struct wp_histogram *
__wrap_wp_pools_scale_reaction(struct wp_pools *pools, uint32_t pool_index)
{
    (void)pools;
    return tells.pools[pool_index].scaled ? &tells.reaction[pool_index] : NULL;
}

bool
__wrap_wp_pools_is_keeper(const struct wp_pools *pools)
{
    (void)pools;
    return tells.keeper;
}

const struct wp_budget_total *
__wrap_wp_pools_budget(const struct wp_pools *pools, uint32_t i)
{
    (void)pools;
    return i < tells.n_budgets ? &tells.budgets[i] : NULL;
}

uint32_t
__wrap_wp_pools_tenants(struct wp_pools *pools, uint32_t pool_index,
                        const struct wp_str *tenant, uint32_t *cursor,
                        struct wp_tenant_stats *out, uint32_t max)
{
    uint32_t n = tells.n_tenants - *cursor;

    (void)pools;
    assert_int_equal(pool_index, UINT32_MAX);
    assert_null(tenant);
    assert_int_equal(max, TENANTS_AT_ONCE);
    n = n < tells.tenants_at_once ? n : tells.tenants_at_once;
    memcpy(out, &tells.tenants[*cursor], n * sizeof *out);
    *cursor = *cursor + n < tells.n_tenants ? *cursor + n : 0;
    return n;
}

bool
__wrap_wp_pools_holds_unseen(const struct wp_pools *pools)
{
    (void)pools;
    return tells.holds_unseen;
}

struct wp_control_stats
__wrap_wp_control_stats(const struct wp_control *control)
{
    (void)control;
    return (struct wp_control_stats){.turns = BIG(2), .writes = BIG(3)};
}

bool
__wrap_wp_rpc_server_duration(const struct wp_rpc_server *server,
                              uint32_t *cursor, struct wp_rpc_duration *out)
{
    (void)server;
    if (*cursor == tells.n_durations) {
        return false;
    }
    *out = tells.durations[(*cursor)++];
    return true;
}

void
__wrap_wp_rpc_server_served(const struct wp_rpc_server *server, unsigned served,
                            struct wp_rpc_duration *out)
{
    (void)server;
    memset(out, 0, sizeof *out);
    out->sum_ns = BIG(300000 * served);
    numbers_fill(out->bucket, WP_ARRAY_LEN(out->bucket), 300 + 30 * served);
}

void
__wrap_wp_rpc_server_stats(const struct wp_rpc_server *server,
                           struct wp_rpc_stats *out)
{
    (void)server;
    *out = (struct wp_rpc_stats){
        .calls_started = BIG(10),
        .calls_cancelled = BIG(11),
        .calls_refused = BIG(12),
        .calls_unknown = BIG(13),
        .peers_accepted = BIG(14),
        .peers_refused = BIG(15),
        .peers_slowed = BIG(16),
        .peers_cut = BIG(17),
        .tls_reloads = BIG(18),
        .calls_in_flight = 19,
    };
}

bool
__wrap_wp_rpc_server_accepts(const struct wp_rpc_server *server)
{
    (void)server;
    return tells.accepts;
}

struct wp_gateway_stats
__wrap_wp_gateway_stats(const struct wp_gateway *gateway)
{
    (void)gateway;
    return (struct wp_gateway_stats){
        .connections_total = BIG(20),
        .connections_refused = BIG(21),
        .requests_total = BIG(22),
        .proxied_total = BIG(23),
        .upstream_failed_total = BIG(24),
        .connections = 25,
    };
}

struct wp_tracer_stats
__wrap_wp_tracer_stats(const struct wp_tracer *tracer)
{
    (void)tracer;
    return (struct wp_tracer_stats){
        .exported = BIG(26), .dropped = BIG(27), .failed = BIG(28)};
}

static void
tell_machine(void *ctx, struct wp_machine_numbers *out)
{
    assert_ptr_equal(ctx, &tells);
    *out = (struct wp_machine_numbers){
        .queued = 30, .starting = 31, .frozen = 32, .frozen_total = BIG(33)};
}

static void
tell_streams(void *ctx, uint32_t *open, uint32_t *broken, uint32_t *ahead)
{
    assert_ptr_equal(ctx, &tells);
    *open = 34;
    *broken = 35;
    *ahead = 36;
}

static void
tell_store(void *ctx, struct evbuffer *out)
{
    assert_ptr_equal(ctx, &tells);
    (void)evbuffer_add_printf(out, "# What the store tells.\n");
}

const char *
tells_not_ready(void *ctx)
{
    assert_ptr_equal(ctx, &tells);
    return tells.not_ready;
}

struct wp_pool_stats *
tells_add_pool(const char *ns, const char *name, const char *templ,
               uint32_t first)
{
    struct wp_pool_stats *s = &tells.pools[tells.n_pools];

    (void)strcpy(s->spec.pool_namespace, ns);
    (void)strcpy(s->spec.name, name);
    (void)strcpy(s->spec.template_name, templ);
    s->spec.target = first;
    s->replicas = first + 1;
    s->warming = first + 2;
    s->ready = first + 3;
    s->leased = first + 4;
    s->quarantined = first + 5;
    s->dying = first + 6;
    s->waiting = first + 7;
    s->created_total = BIG(first + 8);
    s->destroyed_total = BIG(first + 9);
    s->failed_total = BIG(first + 10);
    s->retired_total = BIG(first + 11);
    s->lost_total = BIG(first + 12);
    numbers_fill(s->served_total, WP_ARRAY_LEN(s->served_total),
                 BIG(first + 13));
    s->refused_total = BIG(first + 17);
    s->released_total = BIG(first + 18);
    s->expired_total = BIG(first + 19);
    s->undone_total = BIG(first + 20);
    s->bound_total = BIG(first + 21);
    s->unbound_total = BIG(first + 22);
    s->missed_total = BIG(first + 23);
    s->leads_lost = BIG(first + 24);
    s->budget = first + 25;
    numbers_record(&tells.claim_latency[tells.n_pools], first + 30);
    numbers_record(&tells.lead_time[tells.n_pools], first + 40);
    numbers_record(&tells.reaction[tells.n_pools], first + 50);
    tells.n_pools++;
    return s;
}

int
tells_set_up(void **state)
{
    static const uint8_t part;

    (void)state;
    memset(&tells, 0, sizeof tells);
    tells.manual =
        (struct wp_clock_manual){.clock = {manual_mono_ns, manual_wall_ns}};
    tells.meter.clock = &tells.manual.clock;
    tells.accepts = true;
    tells.metrics.backend = "fake";
    tells.metrics.lease_store = "memory";
    tells.metrics.ctx = &tells;
    /* Only their presence matters: they are not looked into. */
    tells.metrics.pools = (struct wp_pools *)(uintptr_t)&part;
    tells.metrics.control = (const struct wp_control *)(const void *)&part;
    tells.metrics.rpc = (const struct wp_rpc_server *)(const void *)&part;
    tells.metrics.http = (const struct wp_gateway *)(const void *)&part;
    tells.metrics.tracer = (const struct wp_tracer *)(const void *)&part;
    tells.metrics.store = &tells.meter;
    tells.metrics.store_more = tell_store;
    tells.metrics.machine = tell_machine;
    tells.metrics.streams = tell_streams;
    atomic_init(&tells.metrics.serving, true);
    return 0;
}

char *
tells_render(unsigned status, enum wp_view view,
             unsigned (*fn)(void *, enum wp_view, struct evbuffer *,
                            const char **))
{
    struct evbuffer *out = evbuffer_new();
    const char *type = "as it was";
    char *page;

    assert_int_equal(fn(&tells.metrics, view, out, &type), status);
    assert_string_equal(type, fn == wp_http_metrics_page
                                  ? "text/plain; version=0.0.4; charset=utf-8"
                                  : "as it was");
    page = page_take(out);
    evbuffer_free(out);
    return page;
}
