/* libwarmpool against a daemon, for claim_stream_test.py and by hand.
 *
 *   client_probe ADDRESS POOL check          every function once, and bad input
 *   client_probe ADDRESS POOL soak           threads claim, mostly ahead, and
 *                                            release, whatever happens, until
 *                                            the end of standard input
 *   client_probe ADDRESS POOL pop COUNT      how long taking a lease takes
 *   client_probe ADDRESS POOL broken CA      writes by TLS, after the end of
 *                                            standard input: the other end is
 *                                            gone by then
 *
 * Prints what it has seen and exits with 0, or says what is wrong. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "allocator/client/internal.h"
#include "proto/client/h2_parts.h"

enum {
    AHEAD = 6,
    THREADS = 4,
    SEEN_MAX = 1 << 18,
    NAME_LEN = 64,
    WAIT_S = 60,
    THREADS_MAX = 32, /* Of this process. */
    IDLE_SLEEPS_MAX = 8,
};

#define EXPECT(what)                                                           \
    do {                                                                       \
        if (!(what)) {                                                         \
            (void)fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__,   \
                          #what);                                              \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

static struct warmpool *client;
static const char *pool;
static atomic_uint n_lost;

static int64_t
now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

static void
on_lost(void *ctx, const char *claim_id)
{
    (void)ctx;
    (void)claim_id;
    (void)atomic_fetch_add(&n_lost, 1);
}

static void
rest_ms(long ms)
{
    const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};

    (void)nanosleep(&pause, NULL);
}

static void
wait_for(struct warmpool_stock *stock, unsigned n)
{
    int64_t until_ns = now_ns() + WAIT_S * INT64_C(1000000000);
    struct warmpool_error error;

    while (warmpool_stock_state(stock, &error) < n) {
        if (now_ns() > until_ns) {
            (void)fprintf(stderr, "the stock does not fill: %d %s\n",
                          error.code, error.message);
            exit(1);
        }
        rest_ms(1);
    }
}

/* --- check --- */

static void
check_calls(void)
{
    struct warmpool_lease lease;
    struct warmpool_lease same;
    struct warmpool_error error;
    int64_t deadline_ms;

    EXPECT(warmpool_claim(client, pool, "probe-1", 60000, 30000, &lease,
                          &error) == WARMPOOL_OK);
    EXPECT(strcmp(lease.claim_id, "probe-1") == 0 && lease.endpoint[0] != '\0');
    EXPECT(warmpool_claim(client, pool, "probe-1", 60000, 0, &same, &error) ==
           WARMPOOL_OK);
    EXPECT(strcmp(lease.sandbox, same.sandbox) == 0 &&
           lease.fence == same.fence);
    deadline_ms = lease.deadline_unix_ms;
    EXPECT(warmpool_renew(client, &lease, 120000, &error) == WARMPOOL_OK);
    EXPECT(lease.deadline_unix_ms > deadline_ms);
    EXPECT(warmpool_release(client, &lease, &error) == WARMPOOL_OK);
    EXPECT(warmpool_release(client, &lease, NULL) == WARMPOOL_OK);
    EXPECT(warmpool_renew(client, &lease, 120000, &error) != WARMPOOL_OK);
    EXPECT(error.code != 0 && error.message[0] != '\0');
}

static void
check_bad_input(void)
{
    struct warmpool_stock_options options = {.pool = pool, .ahead = 1000000};
    struct warmpool_options nowhere = {.address = "unix:/nowhere/at.all"};
    struct warmpool_options clear = {.address = "192.0.2.1:1"};
    struct warmpool_lease lease;
    struct warmpool_error error;

    EXPECT(warmpool_stock_open(client, &options, &error) == NULL);
    EXPECT(strstr(error.message, "ahead: 1 to 256") != NULL);
    options = (struct warmpool_stock_options){.pool = "", .ahead = 1};
    EXPECT(warmpool_stock_open(client, &options, &error) == NULL);
    EXPECT(warmpool_claim(client, "no-such-pool", NULL, 0, 0, &lease, &error) ==
           5);
    EXPECT(strstr(error.message, "no-such-pool") != NULL);
    EXPECT(warmpool_claim(client, pool, "", 0, 0, &lease, &error) == 3);
    EXPECT(warmpool_claim(client, pool, NULL, 0, -1, &lease, &error) == 3);
    EXPECT(warmpool_connect(&nowhere, &error) == NULL && error.code == 14);
    EXPECT(warmpool_connect(&clear, &error) == NULL && error.code == 3);
}

static void
check_stock(void)
{
    const struct warmpool_stock_options options = {
        .pool = pool, .ahead = AHEAD, .ttl_ms = 30000, .lost = on_lost};
    struct warmpool_lease leases[2 * AHEAD];
    struct warmpool_error error;
    struct warmpool_stock *stock =
        warmpool_stock_open(client, &options, &error);

    EXPECT(stock != NULL);
    wait_for(stock, AHEAD);
    for (int i = 0; i < AHEAD; i++) {
        EXPECT(warmpool_stock_take(stock, &leases[i]));
    }
    wait_for(stock, AHEAD);
    for (int i = AHEAD; i < 2 * AHEAD; i++) {
        EXPECT(warmpool_stock_claim(stock, 0, &leases[i], &error) ==
               WARMPOOL_OK);
        for (int k = 0; k < i; k++) {
            EXPECT(strcmp(leases[i].sandbox, leases[k].sandbox) != 0);
        }
    }
    warmpool_stock_close(stock);
    for (int i = 0; i < 2 * AHEAD; i++) {
        EXPECT(warmpool_renew(client, &leases[i], 30000, &error) ==
               WARMPOOL_OK);
        EXPECT(warmpool_release(client, &leases[i], &error) == WARMPOOL_OK);
    }
    EXPECT(atomic_load(&n_lost) == 0);
}

/* What was taken leaves its place in the stock once the daemon knows of it:
 * else a stock would run out of places. Released by others, so that only that
 * frees the place. */
static void
check_places(const struct warmpool_options *options)
{
    const struct warmpool_stock_options wanted = {
        .pool = pool, .ahead = 1, .ttl_ms = 30000};
    struct warmpool *other = warmpool_connect(options, NULL);
    struct warmpool_error error;
    struct warmpool_stock *stock = warmpool_stock_open(client, &wanted, &error);

    EXPECT(other != NULL && stock != NULL);
    for (int i = 0; i < WP_STOCK_SLOTS + 10; i++) {
        struct warmpool_lease lease;

        wait_for(stock, 1);
        EXPECT(warmpool_stock_take(stock, &lease));
        EXPECT(warmpool_release(other, &lease, &error) == WARMPOOL_OK);
    }
    warmpool_stock_close(stock);
    warmpool_disconnect(other);
}

/* Nothing is waited for where nothing is under way: not for the time after
 * which a daemon that says nothing is left. Tried again on a busy machine. */
static void
check_close(void)
{
    const struct warmpool_stock_options options = {
        .pool = pool, .ahead = 1, .ttl_ms = 30000, .lost = on_lost};
    int64_t took_ns = INT64_MAX;

    for (int i = 0; i < 5 && took_ns > INT64_C(1000000000); i++) {
        struct warmpool_error error;
        struct warmpool_stock *stock =
            warmpool_stock_open(client, &options, &error);

        EXPECT(stock != NULL);
        wait_for(stock, 1);
        took_ns = now_ns();
        warmpool_stock_close(stock);
        took_ns = now_ns() - took_ns;
    }
    EXPECT(took_ns < INT64_C(1000000000));
}

/* --- An idle client --- */

/* The threads of this process, up to max; how many. */
static size_t
list_threads(int *ids, size_t max)
{
    DIR *dir = opendir("/proc/self/task");
    const struct dirent *entry;
    size_t n = 0;

    EXPECT(dir != NULL);
    while ((entry = readdir(dir)) != NULL && n < max) {
        if (entry->d_name[0] != '.') {
            ids[n++] = (int)strtol(entry->d_name, NULL, 10);
        }
    }
    EXPECT(closedir(dir) == 0);
    return n;
}

/* How often that thread has gone to sleep. */
static long
count_sleeps(int thread)
{
    static const char key[] = "voluntary_ctxt_switches:";
    char text[256];
    long n = -1;
    FILE *file;

    (void)snprintf(text, sizeof text, "/proc/self/task/%d/status", thread);
    file = fopen(text, "re");
    EXPECT(file != NULL);
    while (fgets(text, sizeof text, file) != NULL) {
        if (strncmp(text, key, sizeof key - 1) == 0) {
            n = strtol(text + sizeof key - 1, NULL, 10);
        }
    }
    EXPECT(fclose(file) == 0 && n >= 0);
    return n;
}

/* The thread of a client of which nobody wants anything sleeps; and the first
 * taking after that is told all the same. */
static void
check_idle(const struct warmpool_options *options)
{
    const struct warmpool_stock_options wanted = {
        .pool = pool, .ahead = AHEAD, .ttl_ms = 60000};
    int before[THREADS_MAX];
    int after[THREADS_MAX];
    size_t n_before = list_threads(before, THREADS_MAX);
    struct warmpool *idle = warmpool_connect(options, NULL);
    struct warmpool_stock *stock = warmpool_stock_open(idle, &wanted, NULL);
    size_t n_after = list_threads(after, THREADS_MAX);
    struct warmpool_lease lease;
    int thread = 0;
    long sleeps;

    EXPECT(stock != NULL);
    for (size_t i = 0; i < n_after; i++) {
        size_t k = 0;

        while (k < n_before && before[k] != after[i]) {
            k++;
        }
        thread = k == n_before ? after[i] : thread;
    }
    EXPECT(thread != 0);
    wait_for(stock, AHEAD);
    sleeps = count_sleeps(thread);
    rest_ms(1000);
    EXPECT(count_sleeps(thread) - sleeps <= IDLE_SLEEPS_MAX);
    /* What is taken is made good, so it was told. */
    for (int i = 0; i < 3; i++) {
        EXPECT(warmpool_stock_take(stock, &lease));
        wait_for(stock, AHEAD);
        EXPECT(warmpool_release(idle, &lease, NULL) == WARMPOOL_OK);
        rest_ms(100); /* It dozes again. */
    }
    warmpool_stock_close(stock);
    warmpool_disconnect(idle);
}

/* Do leases that lie in stock for longer than their time stay the same? Not
 * where the machine leaves this process no time for half a second. */
static bool
are_renewed(void)
{
    const struct warmpool_stock_options options = {
        .pool = pool, .ahead = 2, .ttl_ms = 2000, .lost = on_lost};
    struct warmpool_lease lease;
    struct warmpool_error error;
    struct warmpool_stock *stock =
        warmpool_stock_open(client, &options, &error);
    bool same;

    EXPECT(stock != NULL);
    wait_for(stock, 2);
    rest_ms(3500);
    same = warmpool_stock_take(stock, &lease) &&
           (strcmp(strrchr(lease.claim_id, '/'), "/1") == 0 ||
            strcmp(strrchr(lease.claim_id, '/'), "/2") == 0) &&
           warmpool_renew(client, &lease, 30000, &error) == WARMPOOL_OK;
    EXPECT(!same || warmpool_release(client, &lease, &error) == WARMPOOL_OK);
    warmpool_stock_close(stock);
    return same;
}

static void
check_renewal(void)
{
    int64_t until_ns = now_ns() + WAIT_S * INT64_C(1000000000);

    while (!are_renewed()) {
        EXPECT(now_ns() < until_ns);
    }
}

/* A connection has numbers for 2^30 calls. The next one is made on another, and
 * the stock is what it was. */
static void
check_last_number(const struct warmpool_options *options)
{
    const struct warmpool_stock_options wanted = {.pool = pool, .ahead = 2};
    struct warmpool *old = warmpool_connect(options, NULL);
    struct warmpool_stock *stock = warmpool_stock_open(old, &wanted, NULL);
    struct warmpool_lease lease;
    struct warmpool_error error = {0};

    EXPECT(stock != NULL);
    wait_for(stock, 2);
    rest_ms(100); /* Its thread sleeps. */
    EXPECT(nghttp2_session_set_next_stream_id(old->h2->conns[0]->session,
                                              INT32_MAX) == 0);
    for (int i = 0; i < 3; i++) {
        if (warmpool_claim(old, pool, NULL, 0, 0, &lease, &error) != 0) {
            (void)fprintf(stderr, "%d: %s\n", error.code, error.message);
            exit(1);
        }
        EXPECT(warmpool_release(old, &lease, &error) == WARMPOOL_OK);
    }
    warmpool_stock_close(stock);
    warmpool_disconnect(old);
}

/* A signal that is blocked once there is a client waits for who takes it: the
 * client's thread is not ended by it. */
static void
check_signals(void)
{
    const struct timespec limit = {WAIT_S, 0};
    sigset_t set;
    sigset_t before;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGUSR1);
    EXPECT(pthread_sigmask(SIG_BLOCK, &set, &before) == 0);
    EXPECT(kill(getpid(), SIGUSR1) == 0);
    EXPECT(sigtimedwait(&set, NULL, &limit) == SIGUSR1);
    EXPECT(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
}

/* --- soak --- */

static struct {
    pthread_mutex_t lock;
    unsigned n;
    char names[SEEN_MAX][NAME_LEN];
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct warmpool_stock *shared_stock;
static atomic_bool over;
static atomic_uint n_ahead;
static atomic_uint n_called;
static atomic_uint n_failed;

static void
see(const struct warmpool_lease *lease)
{
    (void)pthread_mutex_lock(&seen.lock);
    EXPECT(seen.n < SEEN_MAX);
    (void)snprintf(seen.names[seen.n++], NAME_LEN, "%s", lease->sandbox);
    (void)pthread_mutex_unlock(&seen.lock);
}

static void *
soak(void *ctx)
{
    (void)ctx;
    while (!atomic_load(&over)) {
        struct warmpool_lease lease;

        if (warmpool_stock_take(shared_stock, &lease)) {
            (void)atomic_fetch_add(&n_ahead, 1);
        } else if (warmpool_stock_claim(shared_stock, 100, &lease, NULL) ==
                   WARMPOOL_OK) {
            (void)atomic_fetch_add(&n_called, 1);
        } else {
            (void)atomic_fetch_add(&n_failed, 1);
            rest_ms(5);
            continue;
        }
        see(&lease);
        rest_ms(2);
        (void)warmpool_release(client, &lease, NULL);
    }
    return NULL;
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void
run_soak(void)
{
    const struct warmpool_stock_options options = {
        .pool = pool, .ahead = AHEAD, .ttl_ms = 20000, .lost = on_lost};
    pthread_t threads[THREADS];
    unsigned twice = 0;

    shared_stock = warmpool_stock_open(client, &options, NULL);
    EXPECT(shared_stock != NULL);
    for (int i = 0; i < THREADS; i++) {
        EXPECT(pthread_create(&threads[i], NULL, soak, NULL) == 0);
    }
    while (getchar() != EOF) {
    }
    atomic_store(&over, true);
    for (int i = 0; i < THREADS; i++) {
        EXPECT(pthread_join(threads[i], NULL) == 0);
    }
    warmpool_stock_close(shared_stock);
    qsort(seen.names, seen.n, NAME_LEN, by_name);
    for (unsigned i = 1; i < seen.n; i++) {
        twice += strcmp(seen.names[i - 1], seen.names[i]) == 0;
    }
    (void)printf("ahead %u called %u failed %u lost %u twice %u\n",
                 atomic_load(&n_ahead), atomic_load(&n_called),
                 atomic_load(&n_failed), atomic_load(&n_lost), twice);
    EXPECT(twice == 0);
}

/* --- pop --- */

static int
by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void
run_pop(long count)
{
    const struct warmpool_stock_options options = {
        .pool = pool, .ahead = WARMPOOL_AHEAD_MAX, .ttl_ms = 20000};
    struct warmpool_stock *stock = warmpool_stock_open(client, &options, NULL);
    int64_t *took_ns =
        calloc((size_t)count + WARMPOOL_AHEAD_MAX, sizeof(int64_t));
    static struct warmpool_lease leases[WARMPOOL_AHEAD_MAX];
    int64_t in_bursts_ns = 0;
    long n = 0;

    EXPECT(stock != NULL && took_ns != NULL);
    while (n < count) {
        unsigned have = WARMPOOL_AHEAD_MAX / 2;
        int64_t begin_ns;

        wait_for(stock, have);
        begin_ns = now_ns();
        for (unsigned i = 0; i < have; i++) {
            int64_t before_ns = now_ns();

            EXPECT(warmpool_stock_take(stock, &leases[i]));
            took_ns[n++] = now_ns() - before_ns;
        }
        in_bursts_ns += now_ns() - begin_ns;
        for (unsigned i = 0; i < have; i++) {
            EXPECT(warmpool_release(client, &leases[i], NULL) == WARMPOOL_OK);
        }
    }
    warmpool_stock_close(stock);
    qsort(took_ns, (size_t)n, sizeof *took_ns, by_size);
    (void)printf("pops %ld p50_ns %lld p99_ns %lld max_ns %lld per_s %.0f\n", n,
                 (long long)took_ns[n / 2], (long long)took_ns[n * 99 / 100],
                 (long long)took_ns[n - 1],
                 (double)n * 1e9 / (double)in_bursts_ns);
    free(took_ns);
}

/* --- broken --- */

/* A program that has not heard of SIGPIPE is not ended by a connection. */
static void
run_broken(const char *address, const char *ca)
{
    static const uint8_t bytes[1] = {0};
    struct wp_err err;
    struct wp_h2_tls *tls = wp_h2_tls_create(ca, NULL, NULL, "localhost", &err);
    int fd = wp_h2_connect_target(address, &err);
    void *conn =
        tls != NULL && fd >= 0 ? wp_h2_tls_connect(tls, fd, &err) : NULL;

    EXPECT(conn != NULL);
    (void)puts("connected");
    EXPECT(fflush(stdout) == 0);
    while (getchar() != EOF) {
    }
    while (wp_h2_tls_send(conn, bytes, sizeof bytes) > 0) {
    }
    EXPECT(wp_h2_tls_send(conn, bytes, sizeof bytes) < 0);
    wp_h2_tls_close(conn);
    wp_h2_tls_destroy(tls);
    EXPECT(close(fd) == 0);
}

int
main(int argc, char **argv)
{
    struct warmpool_options options = {0};
    struct warmpool_error error;
    long number = argc > 4 ? strtol(argv[4], NULL, 10) : 1;

    if (argc < 4) {
        (void)fprintf(
            stderr, "client_probe ADDRESS POOL check|soak|pop|broken [MORE]\n");
        return 2;
    }
    if (strcmp(argv[3], "broken") == 0 && argc > 4) {
        run_broken(argv[1], argv[4]);
        return 0;
    }
    options.address = argv[1];
    pool = argv[2];
    client = warmpool_connect(&options, &error);
    if (client == NULL) {
        (void)fprintf(stderr, "%d: %s\n", error.code, error.message);
        return 1;
    }
    if (strcmp(argv[3], "check") == 0) {
        check_calls();
        check_bad_input();
        check_stock();
        check_places(&options);
        check_close();
        check_renewal();
        check_idle(&options);
        check_last_number(&options);
        check_signals(); /* When the client's thread has long been there. */
    } else if (strcmp(argv[3], "soak") == 0) {
        run_soak();
    } else {
        run_pop(number);
    }
    warmpool_disconnect(client);
    return 0;
}
