/* The page /metrics of a daemon: each name, type, meaning, label and number. */
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

#include "allocator/metrics/tenant_metrics.h"
#include "tests/unit/allocator/metrics/numbers.h"
#include "tests/unit/allocator/metrics/tells.h"

enum {
    FDS_MAX = 600,
    FDS_LOOKED_AT = 1 << 16, /* What was inherited may be above the bound. */
};

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
    s = tells_add_pool("blue", "alpha", "bare", 1000);
    add_decision(s, "night", 1000);
    s->scale_changes[WP_SCALE_MIN] = 7;
    tells_add_pool("blue", "gone", "bare", 2000)->gone = true;
    s = tells_add_pool("green", "beta", "rich", 3000);
    add_decision(s, "night", 3000);
    s->scaled = true;
    s->breaker_open = true;
    s->scale_changes[WP_SCALE_FORECAST] = BIG(3080);
    s->scale_changes[WP_SCALE_BETWEEN] = BIG(3081);
    /* Its scaler has not decided yet. */
    s = tells_add_pool("red", "delta", "rich", 5000);
    add_decision(s, "day", 5000);
    s->scaled = true;
    s->scale.number = 0;
    s->scale_changes[WP_SCALE_NOTHING_SEEN] = BIG(5080);
    /* Of beta's template, and apart from it; half of what there is is not known. */
    s = tells_add_pool("green", "gamma", "rich", 4000);
    add_decision(s, "night", 4000);
    s->scaled = true;
    s->draining = true;
    s->spec.scale.objective = WP_SCALE_COST;
    s->scale.reason = WP_SCALE_BUDGET;
    s->scale.hit_rate_seen = NAN;
    s->scale.hit_rate_best = NAN;
    s->scale.makes_per_s = NAN;
    s->budget = UINT32_MAX;
    s = tells_add_pool("green", "epsilon", "bare", 6000);
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
    atomic_init(&tells.meter.commits[WP_LEASE_OFFER][WP_OK], BIG(200));
    atomic_init(&tells.meter.commits[WP_LEASE_GRANT][WP_OK], BIG(201));
    atomic_init(&tells.meter.commits[WP_LEASE_GRANT][WP_TAKEN], BIG(202));
    atomic_init(&tells.meter.commits[WP_LEASE_GET_SNAPSHOT][WP_UNKNOWN_OUTCOME],
                1);
    numbers_record(&tells.meter.latency, 210);
    atomic_init(&tells.meter.pending, 220);
    atomic_init(&tells.meter.failed_at_ns, 1);
    atomic_init(&tells.meter.worked_at_ns, 2);
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
    char *page = tells_render(200, WP_VIEW_ALL, wp_http_metrics_page);
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
    page_compare(tells_render(200, WP_VIEW_TENANT, wp_http_metrics_page),
                 "page_tenant.txt");
}

/* No pool, nothing claimed; the lease store fails. */
static void
test_a_daemon_that_has_nothing_to_tell(void **state)
{
    (void)state;
    atomic_init(&tells.meter.failed_at_ns, 1);
    page_compare(render_all(), "page_idle.txt");
}

/* In a cluster upstream's names are the cluster's. */
static void
test_a_daemon_without_those_parts(void **state)
{
    (void)state;
    tells.metrics.control = NULL;
    tells.metrics.rpc = NULL;
    tells.metrics.http = NULL;
    tells.metrics.tracer = NULL;
    tells.metrics.store = NULL;
    tells.metrics.store_more = NULL;
    tells.metrics.machine = NULL;
    tells.metrics.streams = NULL;
    tells.metrics.not_ready = tells_not_ready;
    (void)tells_add_pool("blue", "alpha", "bare", 1000);
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
        {64, WP_TENANT_METRICS_MAX, "\nwarmpool_tenants_left_out 88\n"},
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
        wp_tenant_metrics(out, tells.metrics.pools);
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_all_that_a_daemon_counts, tells_set_up),
        cmocka_unit_test_setup(test_what_a_tenant_sees, tells_set_up),
        cmocka_unit_test_setup(test_a_daemon_that_has_nothing_to_tell,
                               tells_set_up),
        cmocka_unit_test_setup(test_a_daemon_without_those_parts, tells_set_up),
        cmocka_unit_test_setup(test_whose_budgets_are_shown, tells_set_up),
        cmocka_unit_test_setup(test_more_tenants_than_a_page_has_room_for,
                               tells_set_up),
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
