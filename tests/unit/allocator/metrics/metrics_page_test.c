/* The page /metrics of a daemon: each name, type, meaning, label and number; and
 * each reason why a daemon is not ready. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/buffer.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "allocator/metrics/page.h"
#include "allocator/metrics/tenant_metrics.h"
#include "pool/trace/tracer.h"
#include "tests/support/pool/manual_clock.h"
#include "tests/unit/allocator/metrics/numbers.h"

enum {
    FDS_MAX = 600,
    FDS_LOOKED_AT = 1 << 16, /* What was inherited may be above the bound. */
    TENANT_PAGE = 64,
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

/* What the daemon's parts tell; all of it is 0 at first. */
static struct {
    struct wp_pool_stats pools[6];
    uint32_t n_pools;
    struct wp_histogram claim_latency[6];
    struct wp_histogram lead_time[6];
    struct wp_histogram reaction[6];
    struct wp_budget_total budgets[2];
    uint32_t n_budgets;
    bool keeper;
    bool holds_unseen;
    struct wp_tenant_stats tenants[600];
    uint32_t n_tenants;
    uint32_t tenants_at_once;
    struct wp_rpc_duration durations[4];
    uint32_t n_durations;
    bool accepts;
    const char *not_ready;
} tells;

static struct wp_lease_meter meter;
static struct wp_clock_manual manual;
static struct wp_http_metrics metrics;

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
    assert_int_equal(max, TENANT_PAGE);
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

static const char *
tell_not_ready(void *ctx)
{
    assert_ptr_equal(ctx, &tells);
    return tells.not_ready;
}

/* A pool with numbers from first on. */
static struct wp_pool_stats *
add_pool(const char *ns, const char *name, const char *templ, uint32_t first)
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

static void
add_decision(struct wp_pool_stats *s, const char *group, double first)
{
    (void)strcpy(s->spec.scale.budget_group, group);
    s->spec.scale.objective = WP_SCALE_HIT_RATE;
    s->spec.scale.hit_rate = first + 0.5;
    s->scale = (struct wp_scale_decision){
        .number = 3,
        .target_before = 4,
        .target = 5,
        .wanted = (uint32_t)first + 60,
        .reason = WP_SCALE_FORECAST,
        .rate_per_s = first + 61.5,
        .rate_fast_per_s = first + 62.5,
        .rate_slow_per_s = first + 63.5,
        .lead_mean_s = first + 64.5,
        .lead_p99_s = first + 65.5,
        .expected = first + 66.5,
        .spread = first + 67.5,
        .dispersion = first + 68.5,
        .reserved = (uint32_t)first + 69,
        .floor = (uint32_t)first + 70,
        .hit_rate = first + 71.5,
        .idle = first + 72.5,
        .hit_rate_seen = first + 73.5,
        .seen_claims = first + 74.5,
        .hit_rate_best = first + 75.5,
        .makes_per_s = first + 76.5,
        .queue_s = first + 77.5,
    };
}

/* A pool of each sort, and one that is gone between them. */
static void
fill_pools(void)
{
    struct wp_pool_stats *s;

    /* Not scaled: what its scaler once decided is not shown. */
    s = add_pool("blue", "alpha", "bare", 1000);
    add_decision(s, "night", 1000);
    s->scale_changes[WP_SCALE_MIN] = 7;
    add_pool("blue", "gone", "bare", 2000)->gone = true;
    s = add_pool("green", "beta", "rich", 3000);
    add_decision(s, "night", 3000);
    s->scaled = true;
    s->breaker_open = true;
    s->scale_changes[WP_SCALE_FORECAST] = BIG(3080);
    s->scale_changes[WP_SCALE_BETWEEN] = BIG(3081);
    /* Its scaler has not decided yet. */
    s = add_pool("red", "delta", "rich", 5000);
    add_decision(s, "day", 5000);
    s->scaled = true;
    s->scale.number = 0;
    s->scale_changes[WP_SCALE_NOTHING_SEEN] = BIG(5080);
    /* Of beta's template, and apart from it; half of what there is is not known. */
    s = add_pool("green", "gamma", "rich", 4000);
    add_decision(s, "night", 4000);
    s->scaled = true;
    s->draining = true;
    s->spec.scale.objective = WP_SCALE_COST;
    s->scale.reason = WP_SCALE_BUDGET;
    s->scale.hit_rate_seen = NAN;
    s->scale.hit_rate_best = NAN;
    s->scale.makes_per_s = NAN;
    s->budget = UINT32_MAX;
    s = add_pool("green", "epsilon", "bare", 6000);
    add_decision(s, "night", 6000);
    s->scaled = true;
    s->scale.reason = WP_SCALE_HELD;
    tells.keeper = true;
    (void)strcpy(tells.budgets[0].group, "night");
    tells.budgets[0].total = 7000;
    (void)strcpy(tells.budgets[1].group, "day");
    tells.budgets[1].total = 7001;
    tells.n_budgets = 2;
}

static void
fill_tenants(void)
{
    for (uint32_t i = 0; i < 3; i++) {
        struct wp_tenant_stats *t = &tells.tenants[i];
        const uint32_t n = 8000 + 10 * i;

        (void)snprintf(t->tenant, sizeof t->tenant, "tenant-%u", i);
        (void)snprintf(t->pool_namespace, sizeof t->pool_namespace, "ns-%u", i);
        (void)snprintf(t->pool, sizeof t->pool, "pool-%u", i);
        t->quota = (struct wp_quota){i == 1 ? WP_QUOTA_NONE : n, n + 1, n + 2};
        t->leases = n + 3;
        t->waiting = n + 4;
        t->claims_total = BIG(n + 5);
        t->refused_total = BIG(n + 6);
    }
    /* May do nothing. */
    tells.tenants[2].quota.leases_max = 0;
    tells.n_tenants = 3;
    tells.tenants_at_once = 2;
}

static void
fill_durations(void)
{
    static const struct {
        const char *method;
        unsigned code;
    } calls[] = {
        {"warmpool.v1.Allocator/Claim", 0},
        {"warmpool.v1.Allocator/Claim", 14},
        {"warmpool.v1.Allocator/Claim", 2},
        {"warmpool.v1.Admin/Drain", 10},
    };

    for (uint32_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        struct wp_rpc_duration *d = &tells.durations[i];

        d->method = calls[i].method;
        d->code = calls[i].code;
        d->sum_ns = BIG(9000000 * (i + 1));
        numbers_fill(d->bucket, WP_ARRAY_LEN(d->bucket), 9000 + 100 * i);
    }
    tells.n_durations = WP_ARRAY_LEN(calls);
}

static void
fill_store(void)
{
    atomic_init(&meter.commits[WP_LEASE_OFFER][WP_OK], BIG(200));
    atomic_init(&meter.commits[WP_LEASE_GRANT][WP_OK], BIG(201));
    atomic_init(&meter.commits[WP_LEASE_GRANT][WP_TAKEN], BIG(202));
    atomic_init(&meter.commits[WP_LEASE_GET_SNAPSHOT][WP_UNKNOWN_OUTCOME], 1);
    numbers_record(&meter.latency, 210);
    atomic_init(&meter.pending, 220);
    atomic_init(&meter.failed_at_ns, 1);
    atomic_init(&meter.worked_at_ns, 2);
}

static int
set_up(void **state)
{
    static const uint8_t part;

    (void)state;
    memset(&tells, 0, sizeof tells);
    memset(&meter, 0, sizeof meter);
    memset(&metrics, 0, sizeof metrics);
    manual =
        (struct wp_clock_manual){.clock = {manual_mono_ns, manual_wall_ns}};
    meter.clock = &manual.clock;
    tells.accepts = true;
    metrics.backend = "fake";
    metrics.lease_store = "memory";
    metrics.ctx = &tells;
    /* Only their presence matters: they are not looked into. */
    metrics.pools = (struct wp_pools *)(uintptr_t)&part;
    metrics.control = (const struct wp_control *)(const void *)&part;
    metrics.rpc = (const struct wp_rpc_server *)(const void *)&part;
    metrics.http = (const struct wp_gateway *)(const void *)&part;
    metrics.tracer = (const struct wp_tracer *)(const void *)&part;
    metrics.store = &meter;
    metrics.store_more = tell_store;
    metrics.machine = tell_machine;
    metrics.streams = tell_streams;
    atomic_init(&metrics.serving, true);
    return 0;
}

static char *
render(unsigned status, enum wp_view view,
       unsigned (*fn)(void *, enum wp_view, struct evbuffer *, const char **))
{
    struct evbuffer *out = evbuffer_new();
    const char *type = "as it was";
    char *page;

    assert_int_equal(fn(&metrics, view, out, &type), status);
    assert_string_equal(type, fn == wp_http_metrics_page
                                  ? "text/plain; version=0.0.4; charset=utf-8"
                                  : "as it was");
    page = page_take(out);
    evbuffer_free(out);
    return page;
}

/* The number of a family without labels, which is a star from here on. */
static double
cut_number(char *page, const char *name)
{
    char start[64];
    char *at;
    char *end;
    double value;

    (void)snprintf(start, sizeof start, "\n%s ", name);
    at = strstr(page, start);
    assert_non_null(at);
    at += strlen(start);
    value = strtod(at, &end);
    assert_int_equal(*end, '\n');
    *at = '*';
    memmove(at + 1, end, strlen(end) + 1);
    return value;
}

static double
cpu_seconds(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static double
resident_bytes(void)
{
    FILE *file = fopen("/proc/self/status", "re");
    double kib = 0;
    char line[256];

    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            kib = strtod(&line[6], NULL);
        }
    }
    assert_int_equal(fclose(file), 0);
    return kib * 1024;
}

/* The page of everything, where the process's numbers are checked and stars. */
static char *
render_all(void)
{
    const double cpu_before = cpu_seconds();
    char *page = render(200, WP_VIEW_ALL, wp_http_metrics_page);
    double cpu = cut_number(page, "process_cpu_seconds_total");
    double resident = cut_number(page, "process_resident_memory_bytes");
    double fds = 0;

    assert_true(cpu >= cpu_before && cpu <= cpu_seconds());
    /* The kernel counts in batches. */
    assert_true(resident > resident_bytes() / 2);
    assert_true(resident < resident_bytes() * 2);
    for (int fd = 0; fd < FDS_LOOKED_AT; fd++) {
        fds += fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
    }
    assert_true(cut_number(page, "process_open_fds") == fds);
    assert_true(cut_number(page, "process_max_fds") == FDS_MAX);
    return page;
}

static void
test_all_that_a_daemon_counts(void **state)
{
    (void)state;
    fill_pools();
    fill_tenants();
    fill_durations();
    fill_store();
    page_compare(render_all(), "page.txt");
}

static void
test_what_a_tenant_sees(void **state)
{
    (void)state;
    fill_pools();
    fill_tenants();
    page_compare(render(200, WP_VIEW_TENANT, wp_http_metrics_page),
                 "page_tenant.txt");
}

/* No pool, nothing claimed; the lease store fails. */
static void
test_a_daemon_that_has_nothing_to_tell(void **state)
{
    (void)state;
    atomic_init(&meter.failed_at_ns, 1);
    page_compare(render_all(), "page_idle.txt");
}

/* In a cluster upstream's names are the cluster's. */
static void
test_a_daemon_without_those_parts(void **state)
{
    (void)state;
    metrics.control = NULL;
    metrics.rpc = NULL;
    metrics.http = NULL;
    metrics.tracer = NULL;
    metrics.store = NULL;
    metrics.store_more = NULL;
    metrics.machine = NULL;
    metrics.streams = NULL;
    metrics.not_ready = tell_not_ready;
    (void)add_pool("blue", "alpha", "bare", 1000);
    page_compare(render_all(), "page_bare.txt");
}

/* Only who shares a budget, and only where there is one, tells of it. */
static void
test_whose_budgets_are_shown(void **state)
{
    (void)state;
    fill_pools();
    assert_non_null(strstr(render_all(), "warmpool_scale_budget{"));
    tells.keeper = false;
    assert_null(strstr(render_all(), "warmpool_scale_budget "));
    tells.keeper = true;
    tells.n_budgets = 0;
    assert_null(strstr(render_all(), "warmpool_scale_budget "));
}

static void
test_more_tenants_than_a_page_has_room_for(void **state)
{
    static const struct {
        uint32_t at_once;
        uint32_t shown;
        const char *left_out;
    } rows[] = {
        {TENANT_PAGE, WP_TENANT_METRICS_MAX,
         "\nwarmpool_tenants_left_out 88\n"},
        /* What may not fit is not begun. */
        {60, 480, "\nwarmpool_tenants_left_out 120\n"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        uint32_t shown = 0;
        struct evbuffer *out = evbuffer_new();
        const char *page;

        tells.n_tenants = 600;
        tells.tenants_at_once = rows[i].at_once;
        wp_tenant_metrics(out, metrics.pools);
        page = page_take(out);
        /* Of five families, the first is enough. */
        for (const char *at = page;
             (at = strstr(at, "\nwarmpool_tenant_leases{")) != NULL; at++) {
            shown++;
        }
        assert_int_equal(shown, rows[i].shown);
        assert_non_null(strstr(page, rows[i].left_out));
        evbuffer_free(out);
    }
}

static const char *
ready_page(unsigned status)
{
    return render(status, WP_VIEW_ALL, wp_http_ready_page);
}

static void
test_each_reason_not_to_be_ready(void **state)
{
    (void)state;
    assert_string_equal(ready_page(200), "ready\n");
    tells.accepts = false;
    assert_string_equal(ready_page(503),
                        "not ready: no connection can be accepted for want of "
                        "descriptors\n");
    metrics.rpc = NULL;
    assert_string_equal(ready_page(200), "ready\n");
    tells.holds_unseen = true;
    assert_string_equal(ready_page(503),
                        "not ready: which of the sandboxes live that an "
                        "earlier daemon left is being found out\n");
    tells.holds_unseen = false;
    manual.now_mono_ns = WP_NS_PER_S;
    atomic_init(&meter.failed_at_ns, WP_NS_PER_S);
    assert_string_equal(ready_page(503), "not ready: the lease store is out of "
                                         "reach or cannot write\n");
    manual.now_mono_ns += WP_LEASE_METER_DOUBT_NS + 1;
    assert_string_equal(ready_page(200), "ready\n");
    metrics.not_ready = tell_not_ready;
    assert_string_equal(ready_page(200), "ready\n");
    tells.not_ready = "nobody knows";
    assert_string_equal(ready_page(503), "not ready: nobody knows\n");
    tells.not_ready = NULL;
    atomic_store(&metrics.serving, false);
    assert_string_equal(ready_page(503),
                        "not ready: the daemon is starting or draining\n");
}

/* Each pool that cannot serve is told of; a cluster's are not judged. */
static void
test_each_pool_that_is_not_ready(void **state)
{
    struct wp_pool_stats *s;

    (void)state;
    s = add_pool("blue", "alpha", "bare", 1);
    memset(tells.lead_time, 0, sizeof tells.lead_time);
    s->ready = 0;
    assert_string_equal(ready_page(503),
                        "not ready: pool blue/alpha: no sandbox has become "
                        "ready yet (3 being made)\n");
    s->breaker_open = true;
    (void)strcpy(s->last_failure, "no disk");
    assert_string_equal(ready_page(503),
                        "not ready: pool blue/alpha: creation is paused "
                        "because nothing becomes ready (3 being made); last "
                        "failure: no disk\n");
    metrics.not_ready = tell_not_ready;
    assert_string_equal(ready_page(200), "ready\n");
    metrics.not_ready = NULL;
    s->draining = true;
    assert_string_equal(ready_page(200), "ready\n");
    s->draining = false;
    s->ready = 1;
    assert_string_equal(ready_page(200), "ready\n");
    s->ready = 0;
    s->spec.target = 0;
    assert_string_equal(ready_page(200), "ready\n");
    s->spec.target = 1;
    s->breaker_open = false;
    numbers_record(&tells.lead_time[0], 1);
    assert_string_equal(ready_page(200), "ready\n");
}

static void
test_healthy_while_anything_answers(void **state)
{
    (void)state;
    atomic_store(&metrics.serving, false);
    assert_string_equal(render(200, WP_VIEW_TENANT, wp_http_health_page),
                        "ok\n");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_all_that_a_daemon_counts, set_up),
        cmocka_unit_test_setup(test_what_a_tenant_sees, set_up),
        cmocka_unit_test_setup(test_a_daemon_that_has_nothing_to_tell, set_up),
        cmocka_unit_test_setup(test_a_daemon_without_those_parts, set_up),
        cmocka_unit_test_setup(test_whose_budgets_are_shown, set_up),
        cmocka_unit_test_setup(test_more_tenants_than_a_page_has_room_for,
                               set_up),
        cmocka_unit_test_setup(test_each_reason_not_to_be_ready, set_up),
        cmocka_unit_test_setup(test_each_pool_that_is_not_ready, set_up),
        cmocka_unit_test_setup(test_healthy_while_anything_answers, set_up),
    };
    struct rlimit fds;

    if (getrlimit(RLIMIT_NOFILE, &fds) != 0) {
        return 1;
    }
    fds.rlim_cur = FDS_MAX;
    if (setrlimit(RLIMIT_NOFILE, &fds) != 0) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
