/* bench/micro/bench_store_redis.c - what a lease in Redis costs: the store under
 * commits, closed loop.
 *
 *   bench_store_redis SOCKET|HOST:PORT [SECONDS [THREADS [replicas|bare]]]
 *
 * Each of the claims in flight goes round: GRANT, RELEASE, FORGET, and the
 * OFFER of the sandbox that replaces it; four commits a claim, as in a daemon
 * whose pool stays full. A thread commits what it was told of, then flushes, as
 * a thread does that drains a completion queue. Three ways to send are
 * compared: a connection for each thread, one connection that all share and
 * send on at once, and one thread that sends for all. Time runs from the commit
 * to done, so without the way back to the thread. Before them the floor: a bare
 * client that sends the same commands one by one and blocks in read(). */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "allocator/stores/redis/command.h"
#include "allocator/stores/redis/link/scripts.h"
#include "bench/load/hist.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"
#include "pool/leases/commit_queue.h"

enum {
    IN_FLIGHT_MAX = 256,
    THREADS_MAX = 8,
};

enum way {
    WAY_OWN,
    WAY_SHARED,
    WAY_COMMITTER,
};

struct worker;

struct claimant {
    struct wp_lease_op op;
    struct worker *worker;
    enum wp_status status;
    int64_t start_ns;
    int64_t took_ns;
    char claim_id[40];
    char sandbox[40];
};

struct worker {
    struct wp_lease_store store;
    enum way way;
    pthread_t thread;
    struct wp_commit_queue answers;
    struct wp_commit_queue *committer; /* NULL: it commits itself. */
    struct claimant claimants[IN_FLIGHT_MAX];
    uint32_t in_flight;
    uint64_t salt;
    uint64_t next;
    int64_t end_ns;
    uint64_t grants;
    uint64_t failed;
    struct wp_hist hist;
};

static int64_t
now_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

static void
on_done(struct wp_lease_op *op, enum wp_status status)
{
    struct claimant *claimant = WP_CONTAINER_OF(op, struct claimant, op);

    claimant->status = status;
    claimant->took_ns = now_ns() - claimant->start_ns;
    if (!wp_commit_queue_push(&claimant->worker->answers, op)) {
        abort();
    }
}

static void
next_op(struct claimant *claimant)
{
    struct wp_lease_op *op = &claimant->op;
    struct worker *worker = claimant->worker;

    if (op->kind == WP_LEASE_OFFER) {
        op->kind = WP_LEASE_GRANT;
        op->fence = 1;
        op->deadline_wall_ms = 1900000000000;
        op->granted_wall_ms = 1800000000000;
        op->fingerprint = worker->next;
    } else if (op->kind == WP_LEASE_GRANT) {
        op->kind = WP_LEASE_RELEASE;
    } else if (op->kind == WP_LEASE_RELEASE) {
        op->kind = WP_LEASE_FORGET;
    } else {
        uint64_t words[2] = {worker->salt, worker->next++};

        op->kind = WP_LEASE_OFFER;
        op->fence = 0;
        memcpy(op->uid, words, sizeof op->uid);
        (void)snprintf(claimant->claim_id, sizeof claimant->claim_id,
                       "claim-%016" PRIx64 "%08" PRIx64, worker->salt,
                       worker->next);
        (void)snprintf(claimant->sandbox, sizeof claimant->sandbox,
                       "quickstart-%08" PRIx64, worker->next);
        op->claim_id = wp_str_from(claimant->claim_id);
        op->sandbox = wp_str_from(claimant->sandbox);
    }
}

static void
submit(struct claimant *claimant)
{
    enum wp_status status;

    claimant->op.link.next = NULL;
    claimant->start_ns = now_ns();
    if (claimant->worker->committer != NULL) {
        if (!wp_commit_queue_push(claimant->worker->committer, &claimant->op)) {
            abort();
        }
        return;
    }
    status = claimant->worker->store.ops->commit(claimant->worker->store.self,
                                                 &claimant->op);
    if (status != WP_PENDING) {
        on_done(&claimant->op, status);
    }
}

static void
init_claimant(struct worker *worker, struct claimant *claimant)
{
    memset(claimant, 0, sizeof *claimant);
    claimant->worker = worker;
    claimant->op = (struct wp_lease_op){
        .kind = WP_LEASE_FORGET,
        .pool_namespace = WP_STR("default"),
        .pool = WP_STR("quickstart"),
        .endpoint = WP_STR("unix:/run/warmpool/sandboxes/01234567/s.sock"),
        .tenant = WP_STR("bench"),
        .done = on_done,
    };
}

static void
start_claimant(struct worker *worker, struct claimant *claimant)
{
    init_claimant(worker, claimant);
    next_op(claimant);
    submit(claimant);
}

static void *
work(void *arg)
{
    struct worker *worker = arg;
    uint32_t busy = worker->in_flight;

    if (worker->way == WAY_OWN) {
        worker->store.ops->flush(worker->store.self);
    }
    for (uint32_t i = 0; i < worker->in_flight; i++) {
        start_claimant(worker, &worker->claimants[i]);
    }
    while (busy > 0) {
        struct wp_lease_op *op;

        if (worker->way == WAY_OWN) {
            worker->store.ops->flush(worker->store.self);
        }
        (void)!wp_commit_queue_take(&worker->answers, &op);
        while (op != NULL) {
            struct claimant *claimant =
                WP_CONTAINER_OF(op, struct claimant, op);

            op = wp_lease_op_next(op);
            worker->failed += claimant->status != WP_OK;
            if (claimant->op.kind == WP_LEASE_GRANT) {
                wp_hist_record(&worker->hist, claimant->took_ns);
                worker->grants++;
            }
            if (claimant->op.kind == WP_LEASE_FORGET &&
                now_ns() >= worker->end_ns) {
                busy--;
                continue;
            }
            next_op(claimant);
            submit(claimant);
        }
    }
    return NULL;
}

static int64_t
cpu_ns(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * WP_NS_PER_S +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * WP_NS_PER_US;
}

static void
ignore(void *ctx, const struct wp_lease_record *record)
{
    (void)ctx;
    (void)record;
}

static struct wp_lease_redis *
open_store(const struct wp_lease_redis_config *config)
{
    struct wp_lease_redis_stats stats;
    struct wp_lease_redis *redis = NULL;
    struct wp_err err;

    if (wp_lease_redis_create(config, &redis, &err) != WP_OK ||
        wp_lease_redis_store(redis).ops->load(redis, ignore, NULL, &err) !=
            WP_OK) {
        (void)fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    do {
        (void)usleep(1000);
        wp_lease_redis_read_stats(redis, &stats);
    } while (stats.redis.links_up < stats.redis.links);
    return redis;
}

/* The thread that sends for all, over a connection of its own. */
struct committer {
    struct wp_lease_store store;
    struct wp_commit_queue ops;
    pthread_t thread;
};

static void *
commit_all(void *arg)
{
    struct committer *committer = arg;
    const struct wp_lease_store *store = &committer->store;
    struct wp_lease_op *op;

    store->ops->flush(store->self);
    while (wp_commit_queue_take(&committer->ops, &op)) {
        while (op != NULL) {
            struct wp_lease_op *next = wp_lease_op_next(op);
            enum wp_status status = store->ops->commit(store->self, op);

            if (status != WP_PENDING) {
                op->done(op, status);
            }
            op = next;
        }
        store->ops->flush(store->self);
    }
    return NULL;
}

static void
start_committer(struct committer *committer, struct wp_lease_redis *redis)
{
    committer->store = wp_lease_redis_store(redis);
    wp_commit_queue_init(&committer->ops);
    if (pthread_create(&committer->thread, NULL, commit_all, committer) != 0) {
        abort();
    }
}

static void
stop_committer(struct committer *committer)
{
    wp_commit_queue_close(&committer->ops);
    (void)pthread_join(committer->thread, NULL);
    wp_commit_queue_fini(&committer->ops);
}

/* One row of the table. */
struct row {
    const char *way;
    uint32_t in_flight;
    uint64_t grants;
    uint64_t failed;
    int64_t took_ns;
    int64_t cpu_ns;
    struct wp_hist hist;
};

static void
print_row(const struct row *row)
{
    double seconds = (double)row->took_ns / 1e9;

    (void)printf(
        "%-15s %4u %8.1f %8.1f %9.0f %9.0f %8.2f %6" PRIu64 "\n", row->way,
        row->in_flight, (double)wp_hist_quantile_ns(&row->hist, 0.5) / 1e3,
        (double)wp_hist_quantile_ns(&row->hist, 0.99) / 1e3,
        (double)row->grants / seconds, (double)row->grants * 4 / seconds,
        (double)row->cpu_ns / 4e3 / (double)row->grants, row->failed);
}

static void
measure(struct wp_lease_redis_config config, enum way way, uint32_t n,
        uint32_t in_flight, int64_t duration_ns)
{
    static const char *const names[] = {"own connection", "shared",
                                        "committer"};
    static struct worker workers[THREADS_MAX];
    static struct committer committer;
    struct wp_lease_redis *redis;
    struct wp_lease_op *left;
    struct row row = {.way = names[way], .in_flight = in_flight};
    int64_t from_ns;
    int64_t cpu;

    redis = open_store(&config);
    if (way == WAY_COMMITTER) {
        start_committer(&committer, redis);
    }
    wp_hist_reset(&row.hist);
    cpu = cpu_ns();
    from_ns = now_ns();
    for (uint32_t i = 0; i < n; i++) {
        struct worker *w = &workers[i];

        memset(w, 0, sizeof *w);
        w->store = wp_lease_redis_store(redis);
        w->way = way;
        w->committer = way == WAY_COMMITTER ? &committer.ops : NULL;
        w->in_flight = in_flight / n > 0 ? in_flight / n : 1;
        w->salt = (uint64_t)from_ns + i;
        w->end_ns = from_ns + duration_ns;
        wp_hist_reset(&w->hist);
        wp_commit_queue_init(&w->answers);
        if (pthread_create(&w->thread, NULL, work, w) != 0) {
            abort();
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        wp_commit_queue_close(&workers[i].answers);
        while (wp_commit_queue_take(&workers[i].answers, &left)) {
        }
        wp_commit_queue_fini(&workers[i].answers);
        wp_hist_merge(&row.hist, &workers[i].hist);
        row.grants += workers[i].grants;
        row.failed += workers[i].failed;
    }
    if (way == WAY_COMMITTER) {
        stop_committer(&committer);
    }
    row.took_ns = now_ns() - from_ns;
    row.cpu_ns = cpu_ns() - cpu;
    print_row(&row);
    wp_lease_redis_destroy(redis);
}

/* The result that Redis answers; the script is there already. */
static bool
send_bare(redisContext *server, const struct wp_lease_redis *redis,
          const struct wp_lease_op *op)
{
    const struct wp_redis_pool *pool = &redis->pools[0];
    const char *words[WP_REDIS_COMMAND_WORDS];
    size_t lengths[WP_REDIS_COMMAND_WORDS];
    struct wp_redis_command c;
    redisReply *reply;
    bool ok;

    wp_redis_command_make(&c, pool, atomic_load(&pool->generation),
                          wp_str_from(redis->writer), op, false);
    for (uint32_t i = 0; i < c.n; i++) {
        words[i] = c.args[i].ptr;
        lengths[i] = c.args[i].len;
    }
    reply = redisCommandArgv(server, (int)c.n, words, lengths);
    ok = reply != NULL && reply->type == REDIS_REPLY_INTEGER &&
         reply->integer == WP_RESULT_OK;
    freeReplyObject(reply);
    return ok;
}

/* One round of a claim, blocking; only the GRANT counts. */
static void
measure_bare(const struct wp_lease_redis_config *config, int64_t duration_ns)
{
    static struct worker worker; /* For its salt. */
    struct row row = {.way = "bare client", .in_flight = 1};
    struct claimant claimant;
    struct wp_lease_redis *redis = open_store(config);
    const struct wp_redis_server *at = &config->redis.server;
    redisContext *server = at->path[0] != '\0'
                               ? redisConnectUnix(at->path)
                               : redisConnect(at->host, at->port);
    int64_t from_ns = now_ns();

    if (server == NULL || server->err != 0) {
        (void)fprintf(stderr, "the bare client cannot connect\n");
        exit(1);
    }
    memset(&worker, 0, sizeof worker);
    worker.salt = (uint64_t)from_ns;
    wp_hist_reset(&row.hist);
    init_claimant(&worker, &claimant);
    while (now_ns() < from_ns + duration_ns ||
           claimant.op.kind != WP_LEASE_FORGET) {
        next_op(&claimant);
        claimant.start_ns = now_ns();
        row.failed += !send_bare(server, redis, &claimant.op);
        if (claimant.op.kind == WP_LEASE_GRANT) {
            wp_hist_record(&row.hist, now_ns() - claimant.start_ns);
            row.grants++;
        }
    }
    row.took_ns = now_ns() - from_ns;
    print_row(&row);
    redisFree(server);
    wp_lease_redis_destroy(redis);
}

static void
set_server(struct wp_redis_server *server, const char *text)
{
    const char *colon = strrchr(text, ':');

    if (text[0] == '/' || colon == NULL) {
        (void)snprintf(server->path, sizeof server->path, "%s", text);
    } else {
        (void)snprintf(server->host, sizeof server->host, "%.*s",
                       (int)(colon - text), text);
        server->port = (uint16_t)strtoul(colon + 1, NULL, 10);
    }
}

int
main(int argc, char **argv)
{
    static const struct wp_lease_redis_pool pool = {"default", "quickstart"};
    static const uint32_t in_flight[] = {1, 16, 64, 256};
    struct wp_lease_redis_config config = {
        .pools = &pool, .n_pools = 1, .threads = THREADS_MAX};
    double seconds = argc > 2 ? strtod(argv[2], NULL) : 2;
    int64_t duration_ns;
    uint32_t n = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 1;
    bool bare; /* With replicas, and only the floor. */

    if (argc < 2 || !(seconds >= 0.1 && seconds <= 600) || n < 1 ||
        n > THREADS_MAX) {
        (void)fprintf(stderr, "usage: bench_store_redis SOCKET|HOST:PORT"
                              " [SECONDS [THREADS [replicas|bare]]]\n");
        return 2;
    }
    duration_ns = (int64_t)(seconds * 1e9);
    wp_log_configure(WP_LOG_WARN, WP_LOG_TEXT);
    config.replicas = argc > 4;
    bare = argc > 4 && strcmp(argv[4], "bare") == 0;
    set_server(&config.redis.server, argv[1]);
    (void)printf("%-15s %4s %8s %8s %9s %9s %8s %6s\n", "way", "n", "p50 us",
                 "p99 us", "claims/s", "commits/s", "cpu us", "failed");
    measure_bare(&config, duration_ns);
    for (size_t i = 0; i < (bare ? 0 : WP_ARRAY_LEN(in_flight)); i++) {
        for (enum way way = WAY_OWN; way <= WAY_COMMITTER; way++) {
            measure(config, way, n, in_flight[i], duration_ns);
        }
    }
    return 0;
}
