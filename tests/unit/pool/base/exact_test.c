/* Small tools at their borders: each byte, each length, whole texts. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

#include "pool/base/address.h"
#include "pool/base/arena.h"
#include "pool/base/clock.h"
#include "pool/base/compiler.h"
#include "pool/base/metrics.h"
#include "pool/base/nearest.h"
#include "pool/base/os_error.h"
#include "pool/base/rng.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

/* --- Characters --- */

static bool
is_of(int c, const char *set)
{
    return c != 0 && strchr(set, c) != NULL;
}

/* Goal: what a character may be for is known of each byte. */
static void
knows_each_byte(void **state)
{
    static const char lower[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    static const char hex[] = "0123456789abcdefABCDEF";

    (void)state;
    for (int c = 0; c < 256; c++) {
        char one[] = {(char)c};
        char inner[] = {'a', (char)c, 'a'};
        char pair[] = {'1', (char)c};
        char shown[WP_STR_SHOWN_MAX];
        char expected[] = {'a', (char)c, 'a', '\0'};
        struct wp_str word;
        struct wp_str rest = {inner, sizeof inner};
        uint8_t byte = 0;
        uint64_t number = 0;
        bool blank = is_of(c, " \t\r\n");
        bool ascii = c > 0 && c < 128;

        assert_int_equal(wp_str_is_dns_name((struct wp_str){one, 1}, 9),
                         is_of(c, lower));
        assert_int_equal(wp_str_is_dns_name((struct wp_str){inner, 3}, 9),
                         is_of(c, lower) || is_of(c, ".-"));
        assert_int_equal(wp_hex_decode((struct wp_str){pair, 2}, &byte, 1),
                         is_of(c, hex));
        if (is_of(c, hex)) {
            const char *at = strchr(hex, c);
            int value = (int)(at - hex);

            assert_int_equal(byte, 16 + (value < 16 ? value : value - 6));
        }
        pair[1] = pair[0];
        pair[0] = (char)c;
        assert_int_equal(wp_hex_decode((struct wp_str){pair, 2}, &byte, 1),
                         is_of(c, hex));
        assert_int_equal(wp_str_to_u64((struct wp_str){pair, 2}, &number),
                         is_of(c, "0123456789"));
        if (is_of(c, "0123456789")) {
            assert_int_equal(number, 10 * (c - '0') + 1);
        }
        assert_int_equal(wp_str_trim((struct wp_str){one, 1}).len,
                         blank ? 0 : 1);
        assert_true(wp_str_word(&rest, &word));
        assert_int_equal(word.len, blank ? 1 : 3);
        assert_int_equal(wp_str_is_utf8((struct wp_str){one, 1}), ascii);
        assert_int_equal(wp_str_is_printable((struct wp_str){one, 1}),
                         ascii && c >= ' ' && c != 0x7F);
        assert_int_equal(wp_str_char_len((struct wp_str){one, 1}), ascii);
        expected[1] = (char)(c >= ' ' && c <= '~' ? c : '?');
        assert_string_equal(wp_str_shown((struct wp_str){inner, 3}, shown),
                            expected);
    }
}

/* Is it one of the characters that RFC 3629 has, but for NUL? From its code
 * point, not from ranges of bytes. */
static bool
is_character(const unsigned char *p, size_t len)
{
    static const uint32_t least[] = {0, 1, 0x80, 0x800, 0x10000};
    static const unsigned char mark[] = {0, 0, 0xC0, 0xE0, 0xF0};
    uint32_t code;

    if (len == 1) {
        return p[0] > 0 && p[0] < 0x80;
    }
    if (p[0] < mark[len] || p[0] >= mark[len] + (0x80 >> len)) {
        return false;
    }
    code = p[0] - mark[len];
    for (size_t i = 1; i < len; i++) {
        if (p[i] < 0x80 || p[i] > 0xBF) {
            return false;
        }
        code = code << 6 | (p[i] - 0x80u);
    }
    return code >= least[len] && code <= 0x10FFFF &&
           (code < 0xD800 || code > 0xDFFF);
}

/* How long the first one is; 0: there is none. */
static size_t
first_character(const unsigned char *p, size_t len)
{
    for (size_t n = 1; n <= len && n <= 4; n++) {
        if (is_character(p, n)) {
            return n;
        }
    }
    return 0;
}

static bool
is_text(const unsigned char *p, size_t len)
{
    while (len > 0) {
        size_t n = first_character(p, len);

        if (n == 0) {
            return false;
        }
        p += n;
        len -= n;
    }
    return true;
}

/* Goal: each first byte is judged with each second one, and with a last one
 * from both sides of what may follow. */
static void
knows_each_sequence(void **state)
{
    static const unsigned char last[] = {0x7F, 0x80, 0xBF, 0xC0};

    (void)state;
    for (unsigned first = 0x80; first < 256; first++) {
        for (unsigned second = 0; second < 256; second++) {
            for (size_t len = 2; len <= 4; len++) {
                for (size_t k = 0; k < WP_ARRAY_LEN(last); k++) {
                    unsigned char p[4] = {(unsigned char)first,
                                          (unsigned char)second, 0x80, 0x80};
                    struct wp_str text = {(const char *)p, len};

                    p[len - 1] = len > 2 ? last[k] : p[1];
                    assert_int_equal(wp_str_is_utf8(text), is_text(p, len));
                    assert_int_equal(wp_str_char_len(text),
                                     first_character(p, len));
                }
            }
        }
    }
}

/* Goal: a text for a message is whole up to 63 bytes, and then ends in dots. */
static void
shows_what_fits(void **state)
{
    char text[WP_STR_SHOWN_MAX + 1];
    char shown[WP_STR_SHOWN_MAX];

    (void)state;
    memset(text, 'x', sizeof text);
    for (size_t len = 0; len <= sizeof text; len++) {
        char expected[WP_STR_SHOWN_MAX];

        memset(expected, 'x', sizeof expected);
        if (len < sizeof expected) {
            expected[len] = '\0';
        } else {
            memcpy(expected + sizeof expected - 4, "...", 4);
        }
        assert_ptr_equal(wp_str_shown((struct wp_str){text, len}, shown),
                         shown);
        assert_string_equal(shown, expected);
    }
    assert_string_equal(wp_str_shown((struct wp_str){NULL, 0}, shown), "");
}

static void
trims_both_ends(void **state)
{
    struct wp_str rest = WP_STR(" \t a b\r\nc  ");
    struct wp_str word;

    (void)state;
    assert_true(wp_str_is(wp_str_trim(rest), "a b\r\nc"));
    assert_true(wp_str_is(wp_str_trim(WP_STR(" \n ")), ""));
    assert_true(wp_str_word(&rest, &word) && wp_str_is(word, "a"));
    assert_true(wp_str_word(&rest, &word) && wp_str_is(word, "b"));
    assert_true(wp_str_word(&rest, &word) && wp_str_is(word, "c"));
    assert_false(wp_str_word(&rest, &word));
    assert_int_equal(word.len, 0);
}

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

/* --- Durations in metrics --- */

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

/* --- Words that were nearly right --- */

static void
words_have_their_distance(void **state)
{
    static const struct {
        const char *a;
        const char *b;
        size_t distance;
    } rows[] = {
        {"", "", 0},
        {"a", "", 1},
        {"", "abc", 3},
        {"abc", "abc", 0},
        {"abc", "abd", 1},
        {"abc", "acb", 1},
        {"bac", "abc", 1},
        {"abcd", "badc", 2},
        {"abc", "ab", 1},
        {"ab", "ba", 1},
        {"kitten", "sitting", 3},
        {"abc", "cab", 2},
        {"abc", "xyz", 3},
        {"aab", "aba", 1},
        {"abab", "baba", 2},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        assert_int_equal(
            wp_word_distance(wp_str_from(rows[i].a), wp_str_from(rows[i].b)),
            rows[i].distance);
        assert_int_equal(
            wp_word_distance(wp_str_from(rows[i].b), wp_str_from(rows[i].a)),
            rows[i].distance);
    }
}

/* Goal: a word is near with a third of its letters wrong, or when it goes on
 * where the typed one ends; of two that are as near, the first is meant. */
static void
words_are_near_to_a_bound(void **state)
{
    static const struct {
        const char *typed;
        const char *first;
        const char *second;
        const char *best; /* NULL: none. */
        size_t distance;
    } rows[] = {
        {"", "a", "b", NULL, 0},
        {"x", "a", "b", "a", 1},
        {"xy", "ab", "xb", "xb", 1},
        {"abcxyf", "abcdef", "none", "abcdef", 2},
        {"abxyzf", "abcdef", "none", NULL, 0},
        {"ab", "abcdefghi", "none", "abcdefghi", 3},
        {"a", "abcdefghi", "none", NULL, 0},
        {"ab", "abcdefghi", "abcd", "abcd", 1},
        {"abcd", "abce", "abcf", "abce", 1},
        {"abcd", "abxf", "abcf", "abcf", 1},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_nearest nearest;

        wp_nearest_init(&nearest, wp_str_from(rows[i].typed));
        wp_nearest_offer(&nearest, rows[i].first);
        wp_nearest_offer(&nearest, rows[i].second);
        if (rows[i].best == NULL) {
            assert_null(nearest.best);
            continue;
        }
        assert_non_null(nearest.best);
        assert_string_equal(nearest.best, rows[i].best);
        assert_int_equal(nearest.distance, rows[i].distance);
    }
}

static void
long_words_are_not_compared(void **state)
{
    char word[WP_NEAREST_WORD_MAX + 2];
    struct wp_nearest nearest;

    (void)state;
    memset(word, 'w', sizeof word);
    word[WP_NEAREST_WORD_MAX] = '\0';
    wp_nearest_init(&nearest, wp_str_from(word));
    wp_nearest_offer(&nearest, word);
    assert_ptr_equal(nearest.best, word);
    assert_int_equal(nearest.distance, 0);
    word[WP_NEAREST_WORD_MAX] = 'w';
    word[WP_NEAREST_WORD_MAX + 1] = '\0';
    nearest.best = NULL;
    wp_nearest_offer(&nearest, word);
    assert_null(nearest.best);
    wp_nearest_init(&nearest, wp_str_from(word));
    wp_nearest_offer(&nearest, word + 1);
    assert_null(nearest.best);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(knows_each_byte),
        cmocka_unit_test(knows_each_sequence),
        cmocka_unit_test(shows_what_fits),
        cmocka_unit_test(trims_both_ends),
        cmocka_unit_test(names_each_status),
        cmocka_unit_test(errors_are_whole),
        cmocka_unit_test(errors_of_the_system_read_in_a_sentence),
        cmocka_unit_test(addresses_round),
        cmocka_unit_test(addresses_are_refused_in_words),
        cmocka_unit_test(rng_has_its_numbers),
        cmocka_unit_test(quantiles_are_exact),
        cmocka_unit_test(buckets_have_their_bounds),
        cmocka_unit_test(times_have_their_digits),
        cmocka_unit_test(arena_gives_its_last_byte),
        cmocka_unit_test(words_have_their_distance),
        cmocka_unit_test(words_are_near_to_a_bound),
        cmocka_unit_test(long_words_are_not_compared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
