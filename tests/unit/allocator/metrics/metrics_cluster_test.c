/* What the Kubernetes side counts, on /metrics: each name, type, meaning, label
 * and number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/buffer.h>
#include <string.h>

#include "allocator/metrics/cluster_metrics.h"
#include "k8s/cluster/cluster_stats.h"
#include "tests/unit/allocator/metrics/numbers.h"

const struct wp_claim_metrics *
__wrap_wp_cluster_claim_metrics(const struct wp_cluster *cluster);
struct wp_sandbox_counts *
__wrap_wp_cluster_counts(const struct wp_cluster *cluster);
void __wrap_wp_cluster_stats(struct wp_cluster *cluster,
                             struct wp_cluster_stats *out);
bool __wrap_wp_cluster_leads(const struct wp_cluster *cluster);
bool __wrap_wp_cluster_synced(const struct wp_cluster *cluster);
void __wrap_wp_sandbox_counts_groups(
    struct wp_sandbox_counts *counts,
    void (*each)(void *ctx, const struct wp_sandbox_counts_group *group),
    void *ctx);
void __wrap_wp_sandbox_counts_latencies(
    struct wp_sandbox_counts *counts,
    void (*each)(void *ctx, const struct wp_sandbox_counts_latency *latency),
    void *ctx);

/* What the cluster tells; all of it is 0 at first. */
static struct {
    struct wp_cluster_stats stats;
    struct wp_claim_metrics claims;
    bool has_claims;
    bool leads;
    bool synced;
    struct wp_sandbox_counts_group groups[4];
    size_t n_groups;
    struct wp_sandbox_counts_latency latencies[2];
    size_t n_latencies;
} tells;

const struct wp_claim_metrics *
__wrap_wp_cluster_claim_metrics(const struct wp_cluster *cluster)
{
    (void)cluster;
    return tells.has_claims ? &tells.claims : NULL;
}

struct wp_sandbox_counts *
__wrap_wp_cluster_counts(const struct wp_cluster *cluster)
{
    (void)cluster;
    return NULL;
}

void
__wrap_wp_cluster_stats(struct wp_cluster *cluster,
                        struct wp_cluster_stats *out)
{
    (void)cluster;
    *out = tells.stats;
}

bool
__wrap_wp_cluster_leads(const struct wp_cluster *cluster)
{
    (void)cluster;
    return tells.leads;
}

bool
__wrap_wp_cluster_synced(const struct wp_cluster *cluster)
{
    (void)cluster;
    return tells.synced;
}

void
__wrap_wp_sandbox_counts_groups(
    struct wp_sandbox_counts *counts,
    void (*each)(void *ctx, const struct wp_sandbox_counts_group *group),
    void *ctx)
{
    (void)counts;
    for (size_t i = 0; i < tells.n_groups; i++) {
        each(ctx, &tells.groups[i]);
    }
}

void
__wrap_wp_sandbox_counts_latencies(
    struct wp_sandbox_counts *counts,
    void (*each)(void *ctx, const struct wp_sandbox_counts_latency *latency),
    void *ctx)
{
    (void)counts;
    for (size_t i = 0; i < tells.n_latencies; i++) {
        each(ctx, &tells.latencies[i]);
    }
}

static void
fill_stats(struct wp_cluster_stats *s)
{
    static const char *const controllers[] = {"pool", "claim", "template"};

    s->events_dropped = BIG(1);
    s->identities_renewed = BIG(2);
    s->identities_failed = BIG(3);
    numbers_fill(s->http.sent, WP_HTTP_PRIORITIES, BIG(10));
    numbers_fill(s->http.refused, WP_HTTP_PRIORITIES, BIG(20));
    numbers_fill(s->http.queued, WP_HTTP_PRIORITIES, BIG(30));
    s->http.throttled = BIG(40);
    s->http.failed = BIG(41);
    s->http.conflicts = BIG(42);
    s->http.inflight = 43;
    s->backend = (struct wp_cluster_backend_stats){
        .known = 50,
        .posted = BIG(51),
        .deleted = BIG(52),
        .adopted = BIG(53),
        .taken = BIG(54),
        .found = BIG(55),
        .orphans = BIG(56),
        .refused = BIG(57),
        .conflicts = BIG(58),
        .queue = {1, 2, 3, 4, 5},
    };
    for (uint32_t kind = 0; kind < WP_KIND_COUNT; kind++) {
        const uint32_t n = 100 + 20 * kind;

        /* Of one that is not watched nothing is shown. */
        s->kinds[kind] = (struct wp_cluster_kind_stats){
            .watched = kind != WP_KIND_SERVICE,
            .synced = kind % 2 == 0,
            .objects = n,
            .bytes = BIG(n + 1),
            .reflector = {.lists = BIG(n + 2),
                          .watches = BIG(n + 3),
                          .probes = BIG(n + 4),
                          .events = BIG(n + 5),
                          .bookmarks = BIG(n + 6),
                          .gone = BIG(n + 7),
                          .stalled = BIG(n + 8),
                          .broken = BIG(n + 9)},
        };
    }
    s->controllers_len = WP_ARRAY_LEN(controllers);
    for (uint32_t i = 0; i < s->controllers_len; i++) {
        const uint32_t n = 500 + 10 * i;

        s->controllers[i] = (struct wp_cluster_controller_stats){
            controllers[i], {n, n + 1, n + 2, BIG(n + 3), BIG(n + 4)}};
    }
}

static void
add_latencies(struct wp_claim_metrics *m, enum wp_claim_latency what,
              const char *templ, enum wp_claim_launch launch, uint64_t first)
{
    struct wp_claim_latencies *l = &m->latencies[m->latencies_len];

    l->what = what;
    (void)strcpy(l->templ, templ);
    l->launch = launch;
    atomic_init(&l->sum_ms, BIG(first));
    for (size_t b = 0; b < WP_ARRAY_LEN(l->bucket); b++) {
        atomic_init(&l->bucket[b], first + b + 1);
    }
    atomic_init(&m->latencies_len, m->latencies_len + 1);
}

static void
fill_claims(struct wp_claim_metrics *m)
{
    struct wp_claim_creations *c = m->creations;

    (void)strcpy(c[0].ns, "blue");
    (void)strcpy(c[0].templ, "bare");
    (void)strcpy(c[0].pool, "alpha");
    c[0].created_by = "go-client";
    c[0].launch = WP_LAUNCH_WARM;
    c[0].ready = true;
    atomic_init(&c[0].count, BIG(600));
    (void)strcpy(c[1].ns, "green");
    (void)strcpy(c[1].templ, "rich");
    (void)strcpy(c[1].pool, "none");
    c[1].created_by = "controller";
    c[1].launch = WP_LAUNCH_COLD;
    c[1].ready = false;
    atomic_init(&c[1].count, BIG(601));
    atomic_init(&m->creations_len, 2);
    add_latencies(m, WP_CLAIM_FROM_WEBHOOK, "bare", WP_LAUNCH_WARM, 700);
    add_latencies(m, WP_CLAIM_FROM_OBSERVED, "bare", WP_LAUNCH_COLD, 720);
    add_latencies(m, WP_CLAIM_FROM_CLIENT, "rich", WP_LAUNCH_WARM, 740);
    add_latencies(m, WP_CLAIM_FROM_OBSERVED, "rich", WP_LAUNCH_WARM, 760);
    numbers_record(&m->startup[WP_LAUNCH_WARM], 800);
    numbers_record(&m->startup[WP_LAUNCH_COLD], 820);
    wp_counter_add(&m->queued, BIG(840));
    wp_counter_add(&m->conflicts, BIG(841));
    wp_counter_add(&m->lost, BIG(842));
    wp_counter_add(&m->writes[WP_CLAIM_WRITE_OBSERVED], BIG(850));
    wp_counter_add(&m->writes[WP_CLAIM_WRITE_SANDBOX], BIG(851));
    wp_counter_add(&m->writes[WP_CLAIM_WRITE_STATUS], BIG(852));
    wp_counter_add(&m->writes[WP_CLAIM_WRITE_ANNOTATIONS], BIG(853));
    wp_counter_add(&m->writes[WP_CLAIM_WRITE_DELETE], BIG(854));
    wp_counter_add(&m->writes[WP_CLAIM_WRITE_ALIAS], BIG(855));
}

/* Of each two conditions some group has one and not the other. */
static void
fill_counts(void)
{
    static const struct wp_sandbox_counts_group groups[] = {
        {.ns = "blue",
         .templ = "bare",
         .owned_by = "SandboxWarmPool",
         .created_by = "controller",
         .ready = true,
         .count = BIG(900)},
        {.ns = "blue",
         .templ = "rich",
         .owned_by = "SandboxClaim",
         .created_by = "go-client",
         .expired = true,
         .count = BIG(901)},
        {.ns = "green",
         .templ = "unknown",
         .owned_by = "None",
         .created_by = "unknown",
         .warm = true,
         .count = BIG(902)},
    };
    static const struct wp_sandbox_counts_latency latencies[] = {
        {.ns = "blue", .templ = "bare", .warm = true, .sum_ms = BIG(910)},
        {.ns = "green", .templ = "rich", .sum_ms = BIG(940)},
    };

    memcpy(tells.groups, groups, sizeof groups);
    tells.n_groups = WP_ARRAY_LEN(groups);
    memcpy(tells.latencies, latencies, sizeof latencies);
    tells.n_latencies = WP_ARRAY_LEN(latencies);
    numbers_fill(tells.latencies[0].bucket,
                 WP_ARRAY_LEN(tells.latencies[0].bucket), 911);
    numbers_fill(tells.latencies[1].bucket,
                 WP_ARRAY_LEN(tells.latencies[1].bucket), 941);
}

static int
set_up(void **state)
{
    (void)state;
    memset(&tells, 0, sizeof tells);
    return 0;
}

static void
compare(const char *name)
{
    struct evbuffer *out = evbuffer_new();

    wp_cluster_metrics(NULL, out);
    page_compare(page_take(out), name);
    evbuffer_free(out);
}

static void
test_all_that_a_cluster_counts(void **state)
{
    (void)state;
    fill_stats(&tells.stats);
    fill_claims(&tells.claims);
    fill_counts();
    tells.has_claims = true;
    compare("cluster.txt");
}

/* Nothing is watched, no claims are served. */
static void
test_a_cluster_that_has_not_begun(void **state)
{
    (void)state;
    compare("cluster_idle.txt");
}

/* Each condition of the replica is told by a line of its own. */
static void
test_what_a_replica_is(void **state)
{
    static const struct {
        bool *condition;
        const char *line;
    } rows[] = {
        {&tells.leads, "\nwarmpool_leader 1\n"},
        {&tells.stats.refused, "\nwarmpool_leader_refused 1\n"},
        {&tells.synced, "\nwarmpool_synced 1\n"},
    };

    (void)state;
    for (size_t holds = 0; holds < WP_ARRAY_LEN(rows); holds++) {
        struct evbuffer *out = evbuffer_new();
        const char *page;

        *rows[holds].condition = true;
        wp_cluster_metrics(NULL, out);
        page = page_take(out);
        for (size_t row = 0; row < WP_ARRAY_LEN(rows); row++) {
            assert_int_equal(strstr(page, rows[row].line) != NULL,
                             row == holds);
        }
        *rows[holds].condition = false;
        evbuffer_free(out);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_all_that_a_cluster_counts, set_up),
        cmocka_unit_test_setup(test_a_cluster_that_has_not_begun, set_up),
        cmocka_unit_test_setup(test_what_a_replica_is, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
