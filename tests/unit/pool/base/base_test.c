#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <poll.h>
#include <unistd.h>

#include "pool/base/arena.h"
#include "pool/base/clock.h"
#include "pool/base/fnv.h"
#include "pool/base/list.h"
#include "pool/base/log.h"
#include "pool/base/channel.h"
#include "pool/base/metrics.h"
#include "pool/base/rng.h"
#include "pool/base/siphash.h"
#include "pool/base/status.h"
#include "pool/base/str.h"
#include "tests/support/pool/manual_clock.h"

/* --- status --- */

static void
status_names_and_codes(void **state)
{
    (void)state;
    assert_string_equal(wp_status_name(WP_NOT_FOUND), "NOT_FOUND");
    assert_string_equal(wp_status_text(WP_OK), "ok");
    assert_int_equal(wp_status_grpc_code(WP_RESOURCE_EXHAUSTED), 8);
}

/* Errors are filled, wrapped outward and cut, never overrun. */
static void
errors_are_wrapped_and_cut(void **state)
{
    char big[600];
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_err_set(NULL, WP_ABORTED, "x"), WP_ABORTED);
    assert_int_equal(wp_err_set(&err, WP_NOT_FOUND, "no pool '%s'", "a"),
                     WP_NOT_FOUND);
    assert_int_equal(wp_err_wrap(&err, "claim %d", 7), WP_NOT_FOUND);
    assert_string_equal(err.msg, "claim 7: no pool 'a'");
    assert_int_equal(wp_err_sys(&err, WP_UNAVAILABLE, ENOENT, "open '%s'", "f"),
                     WP_UNAVAILABLE);
    assert_int_equal(err.os_errno, ENOENT);
    assert_string_equal(err.msg, "open 'f': No such file or directory");
    memset(big, 'b', sizeof big);
    big[sizeof big - 1] = '\0';
    (void)wp_err_set(&err, WP_INTERNAL, "%s", big);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    (void)wp_err_wrap(&err, "%s", big);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
    (void)wp_err_sys(&err, WP_INTERNAL, EIO, "%s", big);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
}

/* --- str --- */

static void
copies_only_what_fits(void **state)
{
    char out[4] = "xyz";

    (void)state;
    assert_true(wp_str_copy(WP_STR("abc"), out, sizeof out));
    assert_string_equal(out, "abc");
    assert_false(wp_str_copy(WP_STR("abcd"), out, sizeof out));
    assert_string_equal(out, "");
    assert_false(wp_str_copy(WP_STR("a\0b"), out, sizeof out));
    assert_true(wp_str_copy((struct wp_str){NULL, 0}, out, sizeof out));
    assert_string_equal(out, "");
    assert_true(wp_str_eq(WP_STR(""), (struct wp_str){NULL, 0}));
    assert_true(wp_str_starts_with(WP_STR("unix:/x"), WP_STR("unix:")));
    assert_false(wp_str_starts_with(WP_STR("un"), WP_STR("unix:")));
}

static void
knows_utf8(void **state)
{
    const struct {
        struct wp_str text;
        bool utf8;
        bool printable;
    } cases[] = {
        {WP_STR(""), true, true},
        {WP_STR("plain"), true, true},
        {WP_STR("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"), true, true},
        {WP_STR("\xf4\x8f\xbf\xbf"), true, true},
        {WP_STR("tab\t"), true, false},
        {WP_STR("\x7f"), true, false},
        {WP_STR("nul\0"), false, false},
        {WP_STR("\xc0\x80"), false, false},         /* Overlong NUL. */
        {WP_STR("\xe0\x80\xaf"), false, false},     /* Overlong. */
        {WP_STR("\xed\xa0\x80"), false, false},     /* Surrogate. */
        {WP_STR("\xf4\x90\x80\x80"), false, false}, /* Over U+10FFFF. */
        {WP_STR("\xf8\x88\x80\x80\x80"), false, false},
        {WP_STR("\xe2\x82"), false, false}, /* Cut. */
        {WP_STR("\x80"), false, false},     /* Begins in the middle. */
        {WP_STR("\xc3("), false, false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        assert_int_equal(wp_str_is_utf8(cases[i].text), cases[i].utf8);
        assert_int_equal(wp_str_is_printable(cases[i].text),
                         cases[i].printable);
    }
}

static void
knows_dns_names(void **state)
{
    static const char *const good[] = {"a", "a-b", "a.b-c.d0", "0"};
    static const char *const bad[] = {"",   "-a",  "a-",  "A",    "a..b", ".a",
                                      "a.", "a_b", "a b", "a.-b", "a-.b"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(good); i++) {
        assert_true(wp_str_is_dns_name(wp_str_from(good[i]), 63));
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        assert_false(wp_str_is_dns_name(wp_str_from(bad[i]), 63));
    }
    assert_true(wp_str_is_dns_name(WP_STR("abc"), 3));
    assert_false(wp_str_is_dns_name(WP_STR("abcd"), 3));
}

static void
reads_numbers_whole_or_not_at_all(void **state)
{
    uint64_t u = 1;
    int64_t i = 1;

    (void)state;
    assert_true(wp_str_to_u64(WP_STR("18446744073709551615"), &u));
    assert_true(u == UINT64_MAX);
    assert_false(wp_str_to_u64(WP_STR("18446744073709551616"), &u));
    assert_false(wp_str_to_u64(WP_STR("-1"), &u));
    assert_false(wp_str_to_u64(WP_STR(""), &u));
    assert_false(wp_str_to_u64(WP_STR(" 1"), &u));
    assert_false(wp_str_to_u64(WP_STR("1x"), &u));
    assert_true(wp_str_to_i64(WP_STR("-9223372036854775808"), &i));
    assert_true(i == INT64_MIN);
    assert_true(wp_str_to_i64(WP_STR("9223372036854775807"), &i));
    assert_true(i == INT64_MAX);
    assert_false(wp_str_to_i64(WP_STR("9223372036854775808"), &i));
    assert_false(wp_str_to_i64(WP_STR("-9223372036854775809"), &i));
    assert_false(wp_str_to_i64(WP_STR("-"), &i));
}

static void
codes_hex_both_ways(void **state)
{
    static const uint8_t bytes[] = {0x00, 0x7f, 0x80, 0xff, 0x1a};
    uint8_t back[sizeof bytes];
    char hex[2 * sizeof bytes + 1];

    (void)state;
    wp_hex_encode(bytes, sizeof bytes, hex);
    assert_string_equal(hex, "007f80ff1a");
    assert_true(wp_hex_decode(wp_str_from(hex), back, sizeof back));
    assert_memory_equal(bytes, back, sizeof bytes);
    assert_true(wp_hex_decode(WP_STR("007F80FF1A"), back, sizeof back));
    assert_false(wp_hex_decode(WP_STR("007f80ff1"), back, sizeof back));
    assert_false(wp_hex_decode(WP_STR("007f80ff1a00"), back, sizeof back));
    assert_false(wp_hex_decode(WP_STR("007f80ff1g"), back, sizeof back));
}

static void
compares_secrets(void **state)
{
    (void)state;
    assert_true(wp_bytes_eq_const_time("abcd", "abcd", 4));
    assert_false(wp_bytes_eq_const_time("abcd", "abce", 4));
    assert_false(wp_bytes_eq_const_time("abcd", "Abcd", 4));
    assert_true(wp_bytes_eq_const_time("a", "b", 0));
}

/* --- clock, arena, list --- */

static void
time_saturates_and_prints(void **state)
{
    struct wp_clock_manual manual;
    char text[32];

    (void)state;
    assert_true(wp_time_add(5, 6) == 11);
    assert_true(wp_time_add(5, WP_TIME_NEVER) == WP_TIME_NEVER);
    assert_true(wp_time_add(WP_TIME_NEVER, 0) == WP_TIME_NEVER);
    assert_true(wp_time_add(WP_TIME_NEVER, 1) == WP_TIME_NEVER);
    assert_string_equal(wp_time_format_rfc3339(0, text),
                        "1970-01-01T00:00:00.000Z");
    assert_string_equal(
        wp_time_format_rfc3339(INT64_C(1769903999123) * WP_NS_PER_MS, text),
        "2026-01-31T23:59:59.123Z");
    wp_clock_manual_init(&manual, 10, 1000);
    wp_clock_manual_advance(&manual, 7);
    assert_true(wp_clock_mono_ns(&manual.clock) == 17);
    assert_true(wp_clock_wall_ns(&manual.clock) == 1007);
    assert_true(wp_clock_mono_ns(wp_clock_system()) <=
                wp_clock_mono_ns(wp_clock_system()));
}

/* A clock whose reader is stopped for three seconds when it first looks at the
 * wall. */
static struct wp_clock_manual stopping;

static int64_t
mono_of_stopping(const struct wp_clock *clock)
{
    (void)clock;
    return stopping.now_mono_ns;
}

static int64_t
wall_of_stopping(const struct wp_clock *clock)
{
    static bool was_stopped;

    (void)clock;
    if (!was_stopped) {
        was_stopped = true;
        wp_clock_manual_advance(&stopping, 3 * WP_NS_PER_S);
    }
    return stopping.now_wall_ns;
}

static void
a_stop_between_two_readings_is_no_time(void **state)
{
    const struct wp_clock clock = {mono_of_stopping, wall_of_stopping};

    (void)state;
    wp_clock_manual_init(&stopping, 10, 1000);
    assert_true(wp_clock_wall_offset_ns(&clock) == 990);
    assert_true(wp_clock_wall_offset_ns(&stopping.clock) == 990);
}

static void
arena_gives_aligned_blocks_until_full(void **state)
{
    _Alignas(max_align_t) char memory[128];
    struct wp_arena arena;
    char *first;
    char *second;

    (void)state;
    wp_arena_init(&arena, memory, sizeof memory);
    first = wp_arena_alloc(&arena, 1);
    second = wp_arena_alloc(&arena, 50);
    assert_non_null(first);
    assert_non_null(second);
    assert_int_equal((uintptr_t)second % _Alignof(max_align_t), 0);
    assert_true(second > first && second + 50 <= memory + sizeof memory);
    assert_null(wp_arena_alloc(&arena, sizeof memory));
    assert_null(wp_arena_alloc(&arena, SIZE_MAX));
    assert_non_null(wp_arena_alloc(&arena, 16));
    wp_arena_reset(&arena);
    assert_ptr_equal(wp_arena_alloc(&arena, sizeof memory), memory);
    assert_null(wp_arena_alloc(&arena, 1));
}

static void
backoff_doubles_up_to_the_most(void **state)
{
    struct wp_rng rng;
    bool met[11] = {false};

    (void)state;
    assert_int_equal(wp_backoff_ns(5, 60, 1), 5);
    assert_int_equal(wp_backoff_ns(5, 60, 2), 10);
    assert_int_equal(wp_backoff_ns(5, 60, 4), 40);
    assert_int_equal(wp_backoff_ns(5, 60, 5), 60);
    assert_int_equal(wp_backoff_ns(5, 60, UINT32_MAX), 60);
    assert_int_equal(wp_backoff_ns(1, INT64_MAX, UINT32_MAX), INT64_MAX);
    assert_int_equal(wp_backoff_ns(0, 60, UINT32_MAX), 0);
    assert_int_equal(wp_backoff_ns(7, 5, 1), 5);
    wp_rng_init(&rng, 1);
    for (int i = 0; i < 100; i++) {
        int64_t pause_ns = wp_rng_half(&rng, 10);

        assert_true(pause_ns >= 5 && pause_ns <= 10);
        met[pause_ns] = true;
    }
    assert_true(met[5] && met[10]);
    assert_int_equal(wp_rng_half(&rng, 0), 0);
}

static void
pile_grows_zeroed_and_aligned(void **state)
{
    struct wp_region region = {.blocks = NULL};
    char *small = wp_region_str(&region, WP_STR("abc"));
    char *large = wp_region_alloc(&region, 1 << 20);
    char *more = wp_region_alloc(&region, 1);

    (void)state;
    assert_non_null(small);
    assert_non_null(large);
    assert_non_null(more);
    assert_int_equal((uintptr_t)large % _Alignof(max_align_t), 0);
    assert_true(large[0] == 0 && large[(1 << 20) - 1] == 0);
    memset(large, 1, 1 << 20);
    assert_string_equal(small, "abc");
    assert_int_equal(*more, 0);
    assert_null(wp_region_alloc(&region, SIZE_MAX));
    wp_region_wipe(&region);
    assert_null(region.blocks);
    assert_non_null(wp_region_alloc(&region, 1));
    wp_region_free(&region);
}

static void
list_keeps_order(void **state)
{
    struct wp_list head;
    struct wp_list nodes[3];

    (void)state;
    wp_list_init(&head);
    assert_null(wp_list_pop_front(&head));
    for (int i = 0; i < 3; i++) {
        wp_list_init(&nodes[i]);
        wp_list_push_back(&head, &nodes[i]);
    }
    wp_list_remove(&nodes[1]);
    wp_list_remove(&nodes[1]);
    assert_ptr_equal(wp_list_pop_front(&head), &nodes[0]);
    assert_ptr_equal(wp_list_pop_front(&head), &nodes[2]);
    assert_true(wp_list_empty(&head));
}

/* --- rng, hashes --- */

static void
rng_replays_and_stays_in_bounds(void **state)
{
    struct wp_rng a;
    struct wp_rng b;
    uint32_t seen = 0;

    (void)state;
    wp_rng_init(&a, 42);
    wp_rng_init(&b, 42);
    for (int i = 0; i < 1000; i++) {
        double unit;
        uint64_t n;

        assert_true(wp_rng_next(&a) == wp_rng_next(&b));
        n = wp_rng_below(&a, 7);
        assert_true(n == wp_rng_below(&b, 7) && n < 7);
        seen |= 1u << n;
        unit = wp_rng_unit(&a);
        assert_true(unit >= 0.0 && unit < 1.0);
        (void)wp_rng_unit(&b);
    }
    assert_int_equal(seen, 0x7f);
    wp_rng_init(&b, 43);
    assert_true(wp_rng_next(&a) != wp_rng_next(&b));
    assert_true(wp_rng_below(&a, 1) == 0);
}

/* Vectors from an independent implementation, whose 2-4 variant gives the
 * 128-bit vectors that SipHash's authors publish. Key 00..0f, input 00, 01,
 * ... */
static void
siphash_matches_vectors(void **state)
{
    static const struct {
        size_t len;
        const char *hex;
    } vectors[] = {
        {0, "e77ebcb22788a5befd62db6add303001"},
        {1, "fc6f370460d3eda85e0573cc2b2ff063"},
        {7, "1084b923f2aae0c3a62f2ec80848ab77"},
        {8, "aa12fee1d5e3dab4724f16ab35f9c799"},
        {15, "c17e5505b2bd526c2921cdec1e7e0109"},
        {63, "4c5800e34efe426f079f6b0aa75260ad"},
    };
    const struct wp_hash_key key = {UINT64_C(0x0706050403020100),
                                    UINT64_C(0x0f0e0d0c0b0a0908)};
    uint8_t input[64];

    (void)state;
    for (uint8_t i = 0; i < sizeof input; i++) {
        input[i] = i;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(vectors); i++) {
        struct wp_hash128 got = wp_siphash128(key, input, vectors[i].len);
        char hex[33];

        wp_hex_encode(&got, sizeof got, hex);
        assert_string_equal(hex, vectors[i].hex);
    }
}

/* The published values: records and names of a cluster hold them. */
static void
fnv_matches_vectors(void **state)
{
    (void)state;
    assert_true(wp_fnv_str(WP_FNV_BASIS, WP_STR("")) ==
                UINT64_C(0xcbf29ce484222325));
    assert_true(wp_fnv_str(WP_FNV_BASIS, WP_STR("a")) ==
                UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(wp_fnv_str(WP_FNV_BASIS, WP_STR("foobar")) ==
                UINT64_C(0x85944171f73967e8));
    assert_true(wp_fnv_name(WP_STR("ns"), WP_STR("pool")) ==
                wp_fnv_str(WP_FNV_BASIS, WP_STR("ns/pool")));
    assert_true(wp_fnv32_str(WP_STR("")) == UINT32_C(0x811c9dc5));
    assert_true(wp_fnv32_str(WP_STR("a")) == UINT32_C(0xe40c292c));
    assert_true(wp_fnv32_str(WP_STR("foobar")) == UINT32_C(0xbf9cf968));
}

/* --- log --- */

/* Runs one log line into a pipe and returns it. */
static const char *
logged(enum wp_log_format format, const char *key, const char *value)
{
    static char line[4096];
    int saved = dup(STDERR_FILENO);
    int ends[2];
    ssize_t n;

    assert_int_equal(pipe(ends), 0);
    assert_true(saved >= 0 && dup2(ends[1], STDERR_FILENO) >= 0);
    wp_log_configure(WP_LOG_INFO, format);
    wp_log_debug("not shown", wp_kv_int("n", 1));
    wp_log_info("an event", wp_kv_str(key, value), wp_kv_int("n", -3),
                wp_kv_ms("took", 1234567));
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(ends[1]);
    n = read(ends[0], line, sizeof line - 1);
    assert_true(n > 0);
    line[n] = '\0';
    (void)close(ends[0]);
    (void)close(saved);
    wp_log_configure(WP_LOG_INFO, WP_LOG_TEXT);
    return line;
}

static void
log_escapes_what_would_break_a_line(void **state)
{
    const char *line = logged(WP_LOG_TEXT, "name", "plain");

    (void)state;
    assert_non_null(
        strstr(line, "Z INFO an event name=plain n=-3 took=1.235\n"));
    assert_int_equal(line[strlen(line) - 1], '\n');
    line = logged(WP_LOG_TEXT, "name", "a\nb \"c\" \\ \x01");
    assert_non_null(strstr(line, "name=\"a\\nb \\\"c\\\" \\\\ \\u0001\" n"));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    line = logged(WP_LOG_TEXT, "name", "");
    assert_non_null(strstr(line, "name=\"\" n=-3"));
    /* Anybody's bytes: the line is UTF-8 in both formats. */
    for (int format = WP_LOG_TEXT; format <= WP_LOG_JSON; format++) {
        line = logged((enum wp_log_format)format, "name",
                      "x\xc3\xa9\xff\xe2\x82+\xed\xa0\x80y");
        assert_non_null(strstr(line, "x\xc3\xa9???+???y"));
    }
    line = logged(WP_LOG_JSON, "name", "a\tb");
    assert_non_null(strstr(line, "\"level\":\"info\",\"event\":\"an event\","
                                 "\"name\":\"a\\u0009b\",\"n\":-3,"
                                 "\"took\":1.235}\n"));
}

/* A line that is too long is cut, and still one line. */
static void
log_cuts_long_lines(void **state)
{
    char value[5000];
    const char *line;

    (void)state;
    memset(value, 'v', sizeof value);
    value[sizeof value - 1] = '\0';
    line = logged(WP_LOG_TEXT, "name", value);
    assert_true(strlen(line) <= 2048);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
}

/* --- channel --- */

struct inbox {
    uint64_t got[64];
    size_t count;
};

static void
take(void *ctx, uint64_t a, uint64_t b)
{
    struct inbox *inbox = ctx;

    assert_int_equal(b, a + 1);
    inbox->got[inbox->count++] = a;
}

static bool
readable(const struct wp_channel *channel)
{
    struct pollfd fd = {wp_channel_fd(channel), POLLIN, 0};

    return poll(&fd, 1, 0) == 1;
}

/* In order, bounded, and readable as long as something may be left. */
static void
channel_delivers_in_order(void **state)
{
    struct inbox inbox = {.count = 0};
    struct wp_channel channel;

    (void)state;
    assert_true(wp_channel_init(&channel, 5)); /* Rounded up to 8. */
    assert_false(readable(&channel));
    for (uint64_t i = 0; i < 8; i++) {
        assert_true(wp_channel_send(
            &channel, (struct wp_message){take, &inbox, i, i + 1}));
    }
    assert_false(
        wp_channel_send(&channel, (struct wp_message){take, &inbox, 8, 9}));
    assert_true(readable(&channel));
    assert_int_equal(wp_channel_run(&channel, 3), 3);
    assert_true(readable(&channel));
    assert_int_equal(wp_channel_run(&channel, 100), 5);
    assert_false(readable(&channel));
    assert_int_equal(wp_channel_run(&channel, 100), 0);
    assert_int_equal(inbox.count, 8);
    for (uint64_t i = 0; i < 8; i++) {
        assert_int_equal(inbox.got[i], i);
    }
    assert_true(
        wp_channel_send(&channel, (struct wp_message){take, &inbox, 9, 10}));
    assert_true(readable(&channel));
    wp_channel_fini(&channel);
}

/* The first that waits asks for a wake-up, the others do not. */
static void
linked_channel_wakes_once(void **state)
{
    struct wp_linked_channel channel;
    struct wp_linked_message messages[3];
    struct wp_linked_message *got;

    (void)state;
    wp_linked_init(&channel);
    assert_null(wp_linked_receive(&channel));
    for (int round = 0; round < 2; round++) {
        assert_int_equal(wp_linked_send(&channel, &messages[0]),
                         WP_LINKED_WAKE);
        assert_int_equal(wp_linked_send(&channel, &messages[1]),
                         WP_LINKED_SENT);
        assert_int_equal(wp_linked_send(&channel, &messages[2]),
                         WP_LINKED_SENT);
        got = wp_linked_receive(&channel);
        for (size_t i = 0; i < WP_ARRAY_LEN(messages); i++) {
            assert_ptr_equal(got, &messages[i]);
            got = got->next;
        }
        assert_null(got);
        assert_null(wp_linked_receive(&channel));
    }
}

/* --- metrics --- */

/* Bounds rise, each duration is in the first bucket whose bound is above it. */
static void
histogram_buckets_hold_what_they_say(void **state)
{
    static struct wp_histogram histogram;
    struct wp_histogram_view view;
    int64_t before = 0;

    (void)state;
    for (unsigned i = 0; i < WP_HISTOGRAM_BUCKETS; i++) {
        int64_t bound = wp_histogram_bound_ns(i);

        assert_true(bound > before);
        /* Both the smallest and the greatest duration of the bucket. */
        wp_histogram_record(&histogram, before);
        wp_histogram_record(&histogram, bound == INT64_MAX ? bound : bound - 1);
        wp_histogram_read(&histogram, &view);
        assert_int_equal(view.bucket[i], 2);
        before = bound;
    }
    assert_int_equal(view.count, 2 * WP_HISTOGRAM_BUCKETS);
    assert_true(wp_histogram_bound_ns(WP_HISTOGRAM_BUCKETS - 2) >
                3600 * WP_NS_PER_S);
}

static void
histogram_tells_quantiles(void **state)
{
    static struct wp_histogram histogram;
    struct wp_histogram_view view;

    (void)state;
    wp_histogram_read(&histogram, &view);
    assert_true(wp_histogram_quantile_ns(&view, 0.5) == 0);
    for (int i = 0; i < 90; i++) {
        wp_histogram_record(&histogram, 100 * WP_NS_PER_US);
    }
    for (int i = 0; i < 10; i++) {
        wp_histogram_record(&histogram, 50 * WP_NS_PER_MS);
    }
    wp_histogram_record(&histogram, -5);
    wp_histogram_read(&histogram, &view);
    assert_int_equal(view.count, 101);
    assert_int_equal(view.sum_ns,
                     90 * 100 * WP_NS_PER_US + 10 * 50 * WP_NS_PER_MS);
    assert_true(wp_histogram_quantile_ns(&view, 0.5) > 100 * WP_NS_PER_US);
    assert_true(wp_histogram_quantile_ns(&view, 0.5) <= 128 * WP_NS_PER_US);
    assert_true(wp_histogram_quantile_ns(&view, 0.99) > 50 * WP_NS_PER_MS);
    assert_true(wp_histogram_quantile_ns(&view, 0.99) <= 64 * WP_NS_PER_MS);
    assert_true(wp_histogram_quantile_ns(&view, 0.0) == 1 * WP_NS_PER_US);
}

static void
counter_sums(void **state)
{
    static struct wp_counter counter;

    (void)state;
    wp_counter_add(&counter, 3);
    wp_counter_add(&counter, 4);
    assert_int_equal(wp_counter_read(&counter), 7);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_names_and_codes),
        cmocka_unit_test(errors_are_wrapped_and_cut),
        cmocka_unit_test(copies_only_what_fits),
        cmocka_unit_test(knows_utf8),
        cmocka_unit_test(knows_dns_names),
        cmocka_unit_test(reads_numbers_whole_or_not_at_all),
        cmocka_unit_test(codes_hex_both_ways),
        cmocka_unit_test(compares_secrets),
        cmocka_unit_test(time_saturates_and_prints),
        cmocka_unit_test(a_stop_between_two_readings_is_no_time),
        cmocka_unit_test(arena_gives_aligned_blocks_until_full),
        cmocka_unit_test(backoff_doubles_up_to_the_most),
        cmocka_unit_test(pile_grows_zeroed_and_aligned),
        cmocka_unit_test(list_keeps_order),
        cmocka_unit_test(rng_replays_and_stays_in_bounds),
        cmocka_unit_test(siphash_matches_vectors),
        cmocka_unit_test(fnv_matches_vectors),
        cmocka_unit_test(log_escapes_what_would_break_a_line),
        cmocka_unit_test(log_cuts_long_lines),
        cmocka_unit_test(channel_delivers_in_order),
        cmocka_unit_test(linked_channel_wakes_once),
        cmocka_unit_test(histogram_buckets_hold_what_they_say),
        cmocka_unit_test(histogram_tells_quantiles),
        cmocka_unit_test(counter_sums),
    };

    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
