/* What only one kind of lease store counts, on /metrics: each name, type,
 * meaning and number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <event2/buffer.h>
#include <string.h>

#include "allocator/daemon/store.h"
#include "tests/unit/allocator/metrics/numbers.h"

void __wrap_wp_lease_sqlite_stats(struct wp_lease_sqlite *sqlite,
                                  struct wp_lease_sqlite_stats *out);
void __wrap_wp_daemon_redis_stats(const struct wp_daemon_redis *redis,
                                  struct wp_lease_redis_stats *out,
                                  uint64_t *feed_refused);
uint32_t __wrap_wp_daemon_redis_keepers(const struct wp_daemon_redis *redis);

static bool breaker_open;

void
__wrap_wp_lease_sqlite_stats(struct wp_lease_sqlite *sqlite,
                             struct wp_lease_sqlite_stats *out)
{
    struct wp_histogram histogram;

    (void)sqlite;
    memset(out, 0, sizeof *out);
    out->commits = BIG(1);
    out->transactions = BIG(2);
    out->failures = BIG(3);
    out->checkpoints = BIG(4);
    out->wakeups = BIG(5);
    out->batch_max = BIG(6);
    out->wal_pages = BIG(7);
    numbers_record(&histogram, 100);
    wp_histogram_read(&histogram, &out->transaction_ns);
    numbers_record(&histogram, 200);
    wp_histogram_read(&histogram, &out->checkpoint_ns);
}

void
__wrap_wp_daemon_redis_stats(const struct wp_daemon_redis *redis,
                             struct wp_lease_redis_stats *out,
                             uint64_t *feed_refused)
{
    (void)redis;
    *out = (struct wp_lease_redis_stats){
        .redis = {.links = 8,
                  .links_up = 9,
                  .breaker_open = breaker_open,
                  .connects = BIG(10),
                  .connect_failures = BIG(11),
                  .disconnects = BIG(12),
                  .timeouts = BIG(13),
                  .refused = BIG(14),
                  .full = BIG(15),
                  .unknown = BIG(16)},
        .servers = 17,
        .servers_ended = BIG(18),
        .commits = BIG(19),
        .errors = BIG(20),
        .noscript = BIG(21),
        .stale = BIG(22),
        .corrupt = BIG(23),
        .records_heard = BIG(24),
        .gaps = BIG(25),
        .syncs = BIG(26),
        .sync_failures = BIG(27),
        .in_doubt = 28,
        .peers = 29,
    };
    *feed_refused = BIG(30);
}

uint32_t
__wrap_wp_daemon_redis_keepers(const struct wp_daemon_redis *redis)
{
    (void)redis;
    return 31;
}

static void
test_sqlite(void **state)
{
    struct evbuffer *out = evbuffer_new();

    (void)state;
    wp_daemon_sqlite_metrics(NULL, out);
    page_compare(page_take(out), "sqlite.txt");
    evbuffer_free(out);
}

static void
test_redis(void **state)
{
    struct evbuffer *out = evbuffer_new();

    (void)state;
    breaker_open = false;
    wp_daemon_redis_metrics(NULL, out);
    page_compare(page_take(out), "redis.txt");
    breaker_open = true;
    wp_daemon_redis_metrics(NULL, out);
    assert_non_null(
        strstr(page_take(out), "\nwarmpool_redis_breaker_open 1\n"));
    evbuffer_free(out);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sqlite),
        cmocka_unit_test(test_redis),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
