/* Small tools at their borders: exact numbers, whole texts. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool/base/address.h"
#include "pool/base/arena.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/compiler.h"
#include "pool/base/metrics.h"
#include "pool/base/os_error.h"
#include "pool/base/rng.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

/* --- Errors --- */

static void
names_each_status(void **state)
{
    static const struct {
        const char *name;
        const char *text;
        int code;
    } rows[] = {
        [WP_OK] = {"OK", "ok", 0},
        [WP_PENDING] = {"PENDING", "pending", 2},
        [WP_CANCELLED] = {"CANCELLED", "cancelled", 1},
        [WP_INVALID_ARGUMENT] = {"INVALID_ARGUMENT", "invalid argument", 3},
        [WP_DEADLINE_EXCEEDED] = {"DEADLINE_EXCEEDED", "deadline exceeded", 4},
        [WP_NOT_FOUND] = {"NOT_FOUND", "not found", 5},
        [WP_ALREADY_EXISTS] = {"ALREADY_EXISTS", "already exists", 6},
        [WP_PERMISSION_DENIED] = {"PERMISSION_DENIED", "permission denied", 7},
        [WP_RESOURCE_EXHAUSTED] = {"RESOURCE_EXHAUSTED", "resource exhausted",
                                   8},
        [WP_FAILED_PRECONDITION] = {"FAILED_PRECONDITION",
                                    "failed precondition", 9},
        [WP_ABORTED] = {"ABORTED", "aborted", 10},
        [WP_UNIMPLEMENTED] = {"UNIMPLEMENTED", "unimplemented", 12},
        [WP_INTERNAL] = {"INTERNAL", "internal", 13},
        [WP_UNAVAILABLE] = {"UNAVAILABLE", "unavailable", 14},
        [WP_UNAUTHENTICATED] = {"UNAUTHENTICATED", "unauthenticated", 16},
        [WP_TAKEN] = {"TAKEN", "taken by another", 10},
        [WP_UNKNOWN_OUTCOME] = {"UNKNOWN_OUTCOME", "outcome unknown", 14},
    };

    (void)state;
    assert_int_equal(WP_ARRAY_LEN(rows), WP_STATUS_COUNT);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_string_equal(wp_status_name((enum wp_status)i), rows[i].name);
        assert_string_equal(wp_status_text((enum wp_status)i), rows[i].text);
        assert_int_equal(wp_status_grpc_code((enum wp_status)i), rows[i].code);
    }
}

/* Goal: an error has all its fields whatever was in it before. */
static void
errors_are_whole(void **state)
{
    struct wp_err err;

    (void)state;
    memset(&err, 0x55, sizeof err);
    assert_int_equal(wp_err_sys(&err, WP_UNAVAILABLE, EACCES, "open '%s'", "f"),
                     WP_UNAVAILABLE);
    assert_int_equal(err.status, WP_UNAVAILABLE);
    assert_int_equal(err.os_errno, EACCES);
    assert_string_equal(err.msg, "open 'f': Permission denied");
    assert_int_equal(wp_err_wrap(&err, "it %d", 1), WP_UNAVAILABLE);
    assert_int_equal(err.os_errno, EACCES);
    assert_string_equal(err.msg, "it 1: open 'f': Permission denied");
    assert_int_equal(wp_err_set(&err, WP_ABORTED, "%d", 5), WP_ABORTED);
    assert_int_equal(err.status, WP_ABORTED);
    assert_int_equal(err.os_errno, 0);
    assert_string_equal(err.msg, "5");
    assert_int_equal(wp_err_wrap(NULL, "x"), WP_INTERNAL);
    assert_int_equal(wp_err_sys(NULL, WP_ABORTED, EIO, "x"), WP_ABORTED);
}

static void
errors_of_the_system_read_in_a_sentence(void **state)
{
    (void)state;
    assert_string_equal(wp_os_error(ENOENT), "no such file or directory");
    assert_string_equal(wp_os_error(EACCES), "permission denied");
    /* Abbreviations keep their capitals. */
    assert_string_equal(wp_os_error(ESRMNT), "srmount error");
    assert_string_equal(wp_os_error(EDOTDOT), "RFS specific error");
    assert_string_equal(wp_os_error(ENOTTY), "inappropriate ioctl for device");
    assert_string_equal(wp_os_error(99999), "errno 99999");
}

/* --- Addresses --- */

static void
addresses_round(void **state)
{
    static const struct {
        const char *text;
        const char *back;
        uint16_t port;
        bool loopback;
        bool is_unix;
    } rows[] = {
        {"127.0.0.1:0", "127.0.0.1:0", 0, true, false},
        {"127.255.255.255:65535", "127.255.255.255:65535", 65535, true, false},
        {"128.0.0.0:1", "128.0.0.0:1", 1, false, false},
        {"126.255.255.255:1", "126.255.255.255:1", 1, false, false},
        {"localhost:80", "127.0.0.1:80", 80, true, false},
        {"[::1]:443", "[::1]:443", 443, true, false},
        {"[::2]:443", "[::2]:443", 443, false, false},
        {"[::]:65535", "[::]:65535", 65535, false, false},
        {"unix:/", "unix:/", 0, true, true},
        {"unix:/a:1", "unix:/a:1", 0, true, true},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_address address;
        struct wp_err err;
        char out[128];
        bool ipv6 = rows[i].text[0] == '[';

        memset(&address, 0x55, sizeof address);
        assert_int_equal(
            wp_address_parse(wp_str_from(rows[i].text), &address, &err), WP_OK);
        assert_string_equal(wp_address_format(&address, out, sizeof out),
                            rows[i].back);
        assert_int_equal(wp_address_port(&address), rows[i].port);
        assert_int_equal(address.is_loopback, rows[i].loopback);
        assert_int_equal(address.is_unix, rows[i].is_unix);
        assert_int_equal(address.sa.ss_family, rows[i].is_unix ? AF_UNIX
                                               : ipv6          ? AF_INET6
                                                               : AF_INET);
        assert_int_equal(address.len,
                         rows[i].is_unix
                             ? offsetof(struct sockaddr_un, sun_path) +
                                   strlen(rows[i].text) - strlen("unix:") + 1
                         : ipv6 ? sizeof(struct sockaddr_in6)
                                : sizeof(struct sockaddr_in));
        wp_address_set_port(&address, 4321);
        assert_int_equal(wp_address_port(&address), rows[i].is_unix ? 0 : 4321);
        if (rows[i].is_unix) {
            assert_string_equal(wp_address_format(&address, out, sizeof out),
                                rows[i].back);
        }
    }
}

static void
addresses_are_refused_in_words(void **state)
{
    static const char *const bad[] = {
        "",        "127.0.0.1",    "127.0.0.1:",    "127.0.0.1:65536",
        ":80",     "127.0.0.1:-1", "::1:80",        "[::1]",
        "[]:80",   "[:80",         "[127.0.0.1]:1", "[::1:80",
        "a.b:80",  "localhos:80",  "127.1:80",      "unixx:/a",
        "[::1]x:", "[::1%lo]:80",  "[::1] :80",     "unix",
    };
    struct wp_address address;
    struct wp_err err;
    char path[sizeof((struct sockaddr_un *)0)->sun_path + 8] = "unix:/";
    const size_t longest =
        strlen("unix:") + sizeof((struct sockaddr_un *)0)->sun_path - 1;
    char says[256];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        assert_int_equal(wp_address_parse(wp_str_from(bad[i]), &address, &err),
                         WP_INVALID_ARGUMENT);
        (void)snprintf(says, sizeof says,
                       "address '%s': expected unix:/path, 127.0.0.1:PORT or "
                       "[::1]:PORT",
                       bad[i]);
        assert_string_equal(err.msg, says);
    }
    assert_int_equal(wp_address_parse(WP_STR("unix:a"), &address, &err),
                     WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "address 'unix:a': expected an absolute path "
                                 "after 'unix:'");
    memset(path + 6, 'p', sizeof path - 6);
    assert_int_equal(
        wp_address_parse((struct wp_str){path, longest}, &address, &err),
        WP_OK);
    assert_int_equal(address.len,
                     offsetof(struct sockaddr_un, sun_path) +
                         sizeof((struct sockaddr_un *)0)->sun_path);
    assert_int_equal(
        wp_address_parse((struct wp_str){path, longest + 1}, &address, &err),
        WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg,
                        "address 'unix:/ppppppppppppppppppppppppppppppppppppppp"
                        "...': a socket's path has at most 107 bytes");
}

/* --- Random numbers: recorded seeds replay for ever --- */

static void
rng_has_its_numbers(void **state)
{
    static const uint64_t numbers[] = {
        UINT64_C(0x15780b2e0c2ec716), UINT64_C(0x6104d9866d113a7e),
        UINT64_C(0xae17533239e499a1), UINT64_C(0xecb8ad4703b360a1),
        UINT64_C(0xfde6dc7fe2ec5e64), UINT64_C(0xc50da53101795238),
    };
    struct wp_rng rng;

    (void)state;
    wp_rng_init(&rng, 42);
    for (size_t i = 0; i < WP_ARRAY_LEN(numbers); i++) {
        assert_int_equal(wp_rng_next(&rng), numbers[i]);
    }
    wp_rng_init(&rng, 42);
    assert_int_equal(wp_rng_below(&rng, UINT64_MAX), numbers[0]);
    assert_int_equal(wp_rng_below(&rng, 1000), numbers[1] % 1000);
    assert_true(wp_rng_unit(&rng) ==
                (double)(numbers[2] >> 11) / (double)(UINT64_C(1) << 53));
}

static void
backoff_has_its_steps(void **state)
{
    static const int64_t steps[] = {3, 3, 6, 12, 24, 48, 48};
    struct wp_rng rng;

    (void)state;
    for (uint32_t failures = 0; failures < WP_ARRAY_LEN(steps); failures++) {
        assert_int_equal(wp_backoff_ns(3, 48, failures), steps[failures]);
        assert_int_equal(wp_backoff_ns(3, 47, failures),
                         steps[failures] < 47 ? steps[failures] : 47);
    }
    assert_int_equal(wp_backoff_ns(48, 48, 9), 48);
    /* Half a pause is drawn, with both its ends. */
    wp_rng_init(&rng, 7);
    for (int64_t pause_ns = 0; pause_ns < 6; pause_ns++) {
        bool seen[6] = {false};

        for (int i = 0; i < 200; i++) {
            int64_t ns = wp_rng_half(&rng, pause_ns);

            assert_true(ns >= pause_ns / 2 && ns <= pause_ns);
            seen[ns] = true;
        }
        for (int64_t ns = pause_ns / 2; ns <= pause_ns / 2 * 2; ns++) {
            assert_true(seen[ns]);
        }
    }
}

/* --- Assertions --- */

/* What a process says that fails in this way; how long it is. */
static size_t
said_by_failing(const char *expr, char *out, size_t cap)
{
    int ends[2];
    size_t len = 0;
    ssize_t n;
    int how;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct rlimit no_core = {0, 0};

        (void)setrlimit(RLIMIT_CORE, &no_core);
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(ends[1], STDERR_FILENO);
        wp_assert_failed(expr, "some.c", 12, "some_name");
    }
    (void)close(ends[1]);
    while ((n = read(ends[0], out + len, cap - len)) > 0) {
        len += (size_t)n;
    }
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT);
    return len;
}

/* Goal: what failed is said, cut where it is too long, before the end. */
static void
failed_assertions_are_told(void **state)
{
    static const char begin[] = "assertion failed: ";
    static const char end[] = " at some.c:12 (some_name)\n";
    const size_t room = 512 - (sizeof begin - 1) - (sizeof end - 1);
    char expr[600];
    char said[1024];

    (void)state;
    assert_int_equal(said_by_failing("a == b", said, sizeof said),
                     sizeof begin - 1 + 6 + sizeof end - 1);
    assert_memory_equal(said,
                        "assertion failed: a == b at some.c:12 "
                        "(some_name)\n",
                        sizeof begin - 1 + 6 + sizeof end - 1);
    /* One that just fits, and one that does not. */
    for (size_t more = 0; more < 2; more++) {
        memset(expr, 'x', sizeof expr);
        expr[room - 1 + more] = '\0';
        assert_int_equal(said_by_failing(expr, said, sizeof said), 511);
        assert_int_equal(said[510], more == 0 ? '\n' : ')');
    }
}

/* --- Metrics --- */

/* What lies behind the first of each is not the first's. */
struct metrics {
    struct wp_counter counters[2];
    struct wp_histogram histograms[2];
};

static void *
count(void *arg)
{
    struct metrics *metrics = arg;

    wp_counter_add(&metrics->counters[0], 1);
    wp_counter_add(&metrics->counters[1], 100);
    wp_histogram_record(&metrics->histograms[0], 3 * WP_NS_PER_US);
    wp_histogram_record(&metrics->histograms[1], 9 * WP_NS_PER_US);
    return NULL;
}

/* Goal: so many threads as there are shards have one each, and a reader sums
 * all of them and nothing else. */
static void
threads_share_no_shard(void **state)
{
    static struct metrics metrics;
    struct wp_histogram_view view;

    (void)state;
    for (unsigned i = 1; i <= WP_METRIC_SHARDS; i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, count, &metrics), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(wp_counter_read(&metrics.counters[0]), i);
        wp_histogram_read(&metrics.histograms[0], &view);
        assert_int_equal(view.count, i);
    }
    for (unsigned i = 0; i < WP_METRIC_SHARDS; i++) {
        assert_int_equal(metrics.counters[0].shard[i].value, 1);
        assert_int_equal(metrics.histograms[0].shard[i].bucket[3], 1);
    }
    assert_int_equal(view.bucket[3], WP_METRIC_SHARDS);
    assert_int_equal(view.sum_ns, WP_METRIC_SHARDS * 3 * WP_NS_PER_US);
}

/* Goal: a quantile is the bound of the bucket in which that part of all is
 * reached, to the one. */
static void
quantiles_are_exact(void **state)
{
    struct wp_histogram_view view;

    (void)state;
    memset(&view, 0, sizeof view);
    view.bucket[3] = 1;
    view.bucket[7] = 2;
    view.bucket[WP_HISTOGRAM_BUCKETS - 1] = 1;
    view.count = 4;
    assert_int_equal(wp_histogram_quantile_ns(&view, 0.0), 4 * WP_NS_PER_US);
    assert_int_equal(wp_histogram_quantile_ns(&view, 0.25), 4 * WP_NS_PER_US);
    assert_int_equal(wp_histogram_quantile_ns(&view, 0.26),
                     wp_histogram_bound_ns(7));
    assert_int_equal(wp_histogram_quantile_ns(&view, 0.75),
                     wp_histogram_bound_ns(7));
    assert_int_equal(wp_histogram_quantile_ns(&view, 0.76), INT64_MAX);
    assert_int_equal(wp_histogram_quantile_ns(&view, 1.0), INT64_MAX);
    /* What is in no bucket is longer than all that is. */
    view.count = 5;
    assert_int_equal(wp_histogram_quantile_ns(&view, 1.0), INT64_MAX);
    assert_int_equal(wp_histogram_quantile_ns(&view, 0.6),
                     wp_histogram_bound_ns(7));
}

static void
buckets_have_their_bounds(void **state)
{
    static const int64_t us[] = {1,  2,  3,  4,  5,  6,  7,  8,  10, 12,
                                 14, 16, 20, 24, 28, 32, 40, 48, 56, 64};

    (void)state;
    for (unsigned i = 0; i < WP_ARRAY_LEN(us); i++) {
        assert_int_equal(wp_histogram_bound_ns(i), us[i] * WP_NS_PER_US);
    }
    assert_int_equal(wp_histogram_bound_ns(WP_HISTOGRAM_BUCKETS - 1),
                     INT64_MAX);
}

/* --- Times --- */

static void
times_have_their_digits(void **state)
{
    const int64_t ns = INT64_C(1769903999123456789);
    char text[32];

    (void)state;
    assert_string_equal(wp_time_format_utc(ns, 0, text),
                        "2026-01-31T23:59:59Z");
    assert_string_equal(wp_time_format_utc(ns, 1, text),
                        "2026-01-31T23:59:59.1Z");
    assert_string_equal(wp_time_format_utc(ns, 6, text),
                        "2026-01-31T23:59:59.123456Z");
    assert_string_equal(wp_time_format_utc(ns, 9, text),
                        "2026-01-31T23:59:59.123456789Z");
    assert_string_equal(wp_time_format_utc(-1, 9, text),
                        "1969-12-31T23:59:59.999999999Z");
    assert_string_equal(wp_time_format_rfc3339(-1, text), "never");
    assert_string_equal(wp_time_format_rfc3339(5 * WP_NS_PER_MS, text),
                        "1970-01-01T00:00:00.005Z");
}

/* Goal: the clock is the system's, to the nanosecond. */
static void
clock_is_the_systems(void **state)
{
    const struct wp_clock *clock = wp_clock_system();

    (void)state;
    for (int i = 0; i < 100; i++) {
        struct timespec before;
        struct timespec after;
        int64_t ns;

        assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &before), 0);
        ns = wp_clock_mono_ns(clock);
        assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &after), 0);
        assert_true(ns >= before.tv_sec * WP_NS_PER_S + before.tv_nsec);
        assert_true(ns <= after.tv_sec * WP_NS_PER_S + after.tv_nsec);
    }
}

/* --- Memory --- */

/* Goal: a piece is given to the last byte, and one more is refused. */
static void
arena_gives_its_last_byte(void **state)
{
    _Alignas(max_align_t) char memory[64];
    struct wp_arena arena;

    (void)state;
    wp_arena_init(&arena, memory, sizeof memory);
    assert_ptr_equal(wp_arena_alloc(&arena, 1), memory);
    /* 15 of the rest are lost to alignment. */
    assert_null(wp_arena_alloc(&arena, 49));
    assert_int_equal(arena.used, 1);
    assert_ptr_equal(wp_arena_alloc(&arena, 48), memory + 16);
    assert_int_equal(arena.used, 64);
    assert_null(wp_arena_alloc(&arena, 1));
    assert_non_null(wp_arena_alloc(&arena, 0));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_each_status),
        cmocka_unit_test(errors_are_whole),
        cmocka_unit_test(errors_of_the_system_read_in_a_sentence),
        cmocka_unit_test(addresses_round),
        cmocka_unit_test(addresses_are_refused_in_words),
        cmocka_unit_test(rng_has_its_numbers),
        cmocka_unit_test(backoff_has_its_steps),
        cmocka_unit_test(failed_assertions_are_told),
        cmocka_unit_test(threads_share_no_shard),
        cmocka_unit_test(quantiles_are_exact),
        cmocka_unit_test(buckets_have_their_bounds),
        cmocka_unit_test(times_have_their_digits),
        cmocka_unit_test(clock_is_the_systems),
        cmocka_unit_test(arena_gives_its_last_byte),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
