/* bench/micro/bench_store.c - what a durable lease costs: the SQLite store
 * under claims, closed loop.
 *
 *   bench_store [SECONDS [SANDBOXES [full|normal [DIR]]]]
 *
 * Each of the claims in flight goes round: GRANT, RELEASE, FORGET, and the
 * OFFER of the sandbox that replaces it; four commits a claim, as in a daemon
 * whose pool stays full. One thread commits and is told of the answers, as a
 * thread that serves calls would be. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "allocator/stores/sqlite/store.h"
#include "bench/load/hist.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/leases/commit_queue.h"

enum {
    IN_FLIGHT_MAX = 256,
    FLOOR_SYNCS = 300,
};

struct claimant {
    struct wp_lease_op op;
    enum wp_status status;
    int64_t start_ns;
    uint32_t sandbox; /* In the ring of ready ones. */
    char claim_id[40];
    char name[40];
    char endpoint[64];
};

static struct wp_commit_queue answers;
static struct claimant claimants[IN_FLIGHT_MAX];
static uint64_t *ready; /* Ring of sandbox numbers. */
static uint32_t ready_cap;
static uint32_t ready_head;
static uint64_t next_sandbox;
static uint64_t next_claim;

static void
on_done(struct wp_lease_op *op, enum wp_status status)
{
    WP_CONTAINER_OF(op, struct claimant, op)->status = status;
    if (!wp_commit_queue_push(&answers, op)) {
        abort();
    }
}

static void
set_uid(struct wp_lease_op *op, uint64_t number)
{
    /* As random as a real one: odd multiplications are one to one. */
    uint64_t words[2] = {number * UINT64_C(0x9e3779b97f4a7c15),
                         number * UINT64_C(0xd6e8feb86659fd93)};

    memcpy(op->uid, words, sizeof op->uid);
}

static void
prepare(struct claimant *claimant, enum wp_lease_op_kind kind)
{
    struct wp_lease_op *op = &claimant->op;

    op->kind = kind;
    op->done = on_done;
    if (kind == WP_LEASE_OFFER) {
        uint64_t number = next_sandbox++;

        ready[claimant->sandbox] = number;
        op->fence = 0;
        set_uid(op, number);
        (void)snprintf(claimant->name, sizeof claimant->name,
                       "quickstart-%08" PRIx64, number);
        (void)snprintf(claimant->endpoint, sizeof claimant->endpoint,
                       "unix:/run/warmpool/sandboxes/%08" PRIx64 "/s.sock",
                       number);
    } else if (kind == WP_LEASE_GRANT) {
        claimant->sandbox = ready_head++ % ready_cap;
        op->fence = 1;
        set_uid(op, ready[claimant->sandbox]);
        (void)snprintf(claimant->claim_id, sizeof claimant->claim_id,
                       "claim-%016" PRIx64,
                       next_claim++ * UINT64_C(0x9e3779b97f4a7c15));
    }
    op->pool_namespace = WP_STR("default");
    op->pool = WP_STR("quickstart");
    op->tenant = WP_STR("uid:1000");
    op->sandbox = wp_str_from(claimant->name);
    op->endpoint = wp_str_from(claimant->endpoint);
    op->claim_id = wp_str_from(claimant->claim_id);
    op->granted_wall_ms = INT64_C(1700000000000);
    op->deadline_wall_ms = INT64_C(1700000600000);
    op->fingerprint = next_claim;
}

static void
submit(struct wp_lease_store store, struct claimant *claimant,
       enum wp_lease_op_kind kind)
{
    prepare(claimant, kind);
    claimant->op.gathered = store.ops->flush != NULL;
    claimant->start_ns = wp_clock_mono_ns(wp_clock_system());
    if (store.ops->commit(store.self, &claimant->op) != WP_PENDING) {
        abort();
    }
}

/* Does here what nobody does, and waits for what somebody has answered. */
static struct wp_lease_op *
take_answers(struct wp_lease_store store)
{
    struct wp_lease_op *list = NULL;
    bool open;

    if (store.ops->flush != NULL) {
        store.ops->flush(store.self);
    }
    open = wp_commit_queue_take(&answers, &list);
    WP_ASSERT(open);
    return list;
}

static void
offer_all(struct wp_lease_store store)
{
    uint32_t offered = 0;
    uint32_t done = 0;

    for (; offered < ready_cap && offered < IN_FLIGHT_MAX; offered++) {
        claimants[offered].sandbox = offered;
        submit(store, &claimants[offered], WP_LEASE_OFFER);
    }
    while (done < ready_cap) {
        struct wp_lease_op *op = take_answers(store);

        while (op != NULL) {
            struct claimant *claimant =
                WP_CONTAINER_OF(op, struct claimant, op);

            op = wp_lease_op_next(op);
            WP_ASSERT(claimant->status == WP_OK);
            done++;
            if (offered < ready_cap) {
                claimant->sandbox = offered++;
                submit(store, claimant, WP_LEASE_OFFER);
            }
        }
    }
}

/* The step after this one in the round of a claim. */
static enum wp_lease_op_kind
after(enum wp_lease_op_kind kind)
{
    switch (kind) {
    case WP_LEASE_GRANT:
        return WP_LEASE_RELEASE;
    case WP_LEASE_RELEASE:
        return WP_LEASE_FORGET;
    case WP_LEASE_FORGET:
        return WP_LEASE_OFFER;
    case WP_LEASE_OFFER:
    case WP_LEASE_RENEW:
    case WP_LEASE_UNDO:
    case WP_LEASE_EXPIRE:
    case WP_LEASE_WITHDRAW:
    case WP_LEASE_LOSE:
    case WP_LEASE_FETCH:
    case WP_LEASE_PUT_SNAPSHOT:
    case WP_LEASE_GET_SNAPSHOT:
        break;
    }
    return WP_LEASE_GRANT;
}

static int64_t
cpu_ns(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * WP_NS_PER_S +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * WP_NS_PER_US;
}

struct result {
    struct wp_hist grant;
    struct wp_hist all;
    uint64_t claims;
    int64_t wall_ns;
    int64_t cpu_ns;
};

static void
run(struct wp_lease_store store, uint32_t in_flight, int64_t duration_ns,
    struct result *result)
{
    int64_t start_ns = wp_clock_mono_ns(wp_clock_system());
    int64_t cpu_start_ns = cpu_ns();
    uint32_t running = in_flight;
    int64_t now_ns = start_ns;

    wp_hist_reset(&result->grant);
    wp_hist_reset(&result->all);
    result->claims = 0;
    for (uint32_t i = 0; i < in_flight; i++) {
        submit(store, &claimants[i], WP_LEASE_GRANT);
    }
    while (running > 0) {
        struct wp_lease_op *op = take_answers(store);

        now_ns = wp_clock_mono_ns(wp_clock_system());
        while (op != NULL) {
            struct claimant *claimant =
                WP_CONTAINER_OF(op, struct claimant, op);
            enum wp_lease_op_kind kind = op->kind;

            op = wp_lease_op_next(op);
            WP_ASSERT(claimant->status == WP_OK);
            wp_hist_record(&result->all, now_ns - claimant->start_ns);
            if (kind == WP_LEASE_GRANT) {
                wp_hist_record(&result->grant, now_ns - claimant->start_ns);
                result->claims++;
            }
            if (kind == WP_LEASE_OFFER && now_ns - start_ns > duration_ns) {
                running--;
            } else {
                submit(store, claimant, after(kind));
            }
        }
    }
    result->wall_ns = now_ns - start_ns;
    result->cpu_ns = cpu_ns() - cpu_start_ns;
}

static void
print_row(uint32_t in_flight, const struct result *result,
          const struct wp_lease_sqlite_stats *before,
          const struct wp_lease_sqlite_stats *stats)
{
    double seconds = (double)result->wall_ns / 1e9;
    uint64_t ops = result->all.count;
    uint64_t transactions = stats->transactions - before->transactions;

    (void)printf(
        "| %u | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.1f | %.2f | %.1f "
        "| %" PRIu64 " |\n",
        in_flight, (double)result->claims / seconds, (double)ops / seconds,
        (double)wp_hist_quantile_ns(&result->grant, 0.5) / 1000,
        (double)wp_hist_quantile_ns(&result->grant, 0.99) / 1000,
        (double)wp_hist_quantile_ns(&result->grant, 0.999) / 1000,
        (double)result->grant.max_ns / 1000, (double)ops / (double)transactions,
        (double)(stats->wakeups - before->wakeups) / (double)transactions,
        (double)result->cpu_ns / 1000 / (double)ops,
        stats->checkpoints - before->checkpoints);
}

static uint64_t
number(int argc, char **argv, int i, uint64_t otherwise, uint64_t max)
{
    uint64_t value = otherwise;

    if (i < argc && (!wp_str_to_u64(wp_str_from(argv[i]), &value) ||
                     value == 0 || value > max)) {
        (void)fprintf(stderr, "bench_store: '%s': expected 1 to %" PRIu64 "\n",
                      argv[i], max);
        exit(2);
    }
    return value;
}

/* The least a durable commit can cost in this directory: 4 KiB appended and
 * synced, by itself. */
static void
print_floor(const char *path)
{
    static const char page[4096];
    static struct wp_hist hist;
    char name[600];
    int fd;

    (void)snprintf(name, sizeof name, "%s.floor", path);
    fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    WP_ASSERT(fd >= 0);
    wp_hist_reset(&hist);
    for (off_t i = 0; i < FLOOR_SYNCS; i++) {
        int64_t start_ns = wp_clock_mono_ns(wp_clock_system());

        WP_ASSERT(pwrite(fd, page, sizeof page, i * (off_t)sizeof page) ==
                  (ssize_t)sizeof page);
        WP_ASSERT(fdatasync(fd) == 0);
        wp_hist_record(&hist, wp_clock_mono_ns(wp_clock_system()) - start_ns);
    }
    (void)close(fd);
    (void)unlink(name);
    (void)printf("Floor: 4 KiB appended and synced, p50 %.0f us, p99 %.0f us, "
                 "max %.0f us.\n\n",
                 (double)wp_hist_quantile_ns(&hist, 0.5) / 1000,
                 (double)wp_hist_quantile_ns(&hist, 0.99) / 1000,
                 (double)hist.max_ns / 1000);
}

static void
measure(struct wp_lease_sqlite *sqlite, int64_t duration_ns)
{
    static const uint32_t depths[] = {1, 16, 64, 256};
    static struct result result;
    struct wp_lease_sqlite_stats before;
    struct wp_lease_sqlite_stats stats;
    struct wp_lease_store store = wp_lease_sqlite_store(sqlite);

    offer_all(store);
    (void)printf("| in flight | claims/s | commits/s | grant p50 us | p99 us | "
                 "p99.9 us | max us | commits a transaction | wake-ups a "
                 "transaction | CPU us a commit | checkpoints |\n"
                 "|---|---|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < WP_ARRAY_LEN(depths); i++) {
        if (depths[i] <= ready_cap) {
            wp_lease_sqlite_stats(sqlite, &before);
            run(store, depths[i], duration_ns, &result);
            wp_lease_sqlite_stats(sqlite, &stats);
            print_row(depths[i], &result, &before, &stats);
        }
    }
    (void)printf(
        "\nCheckpoint p50 %.1f ms, p99 %.1f ms; log %" PRIu64
        " pages at the end.\n",
        (double)wp_histogram_quantile_ns(&stats.checkpoint_ns, 0.5) / 1e6,
        (double)wp_histogram_quantile_ns(&stats.checkpoint_ns, 0.99) / 1e6,
        stats.wal_pages);
}

int
main(int argc, char **argv)
{
    uint64_t seconds = number(argc, argv, 1, 2, 600);
    char dir[] = "/tmp/wp-bench-store-XXXXXX";
    struct wp_lease_sqlite_config config = {0};
    struct wp_lease_sqlite *sqlite;
    struct wp_err err;
    char path[512];

    ready_cap = (uint32_t)number(argc, argv, 2, 1000, 1 << 20);
    ready = calloc(ready_cap, sizeof *ready);
    if (argc > 3 && strcmp(argv[3], "normal") == 0) {
        config.synchronous = WP_LEASE_SQLITE_NORMAL;
    }
    if (ready == NULL || (argc <= 4 && mkdtemp(dir) == NULL)) {
        perror("bench_store");
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/leases.db", argc > 4 ? argv[4] : dir);
    (void)unlink(path);
    config.path = path;
    print_floor(path);
    wp_commit_queue_init(&answers);
    sqlite = wp_lease_sqlite_create(&config, &err);
    if (sqlite == NULL) {
        (void)fprintf(stderr, "bench_store: %s\n", err.msg);
        return 1;
    }
    measure(sqlite, (int64_t)seconds * WP_NS_PER_S);
    wp_lease_sqlite_destroy(sqlite);
    (void)unlink(path);
    if (argc <= 4) {
        (void)rmdir(dir);
    }
    free(ready);
    return 0;
}
