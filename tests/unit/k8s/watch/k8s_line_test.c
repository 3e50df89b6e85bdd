/* The line splitter: lines are the same however the bytes were cut, and what it
 * keeps is bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/watch/line.h"
#include "pool/base/rng.h"

struct seen {
    char text[1 << 16]; /* Each line and a '|'. */
    size_t len;
    uint32_t lines;
    uint32_t stop_after; /* 0: never. */
    size_t longest;
};

static bool
see(void *ctx, struct wp_str line)
{
    struct seen *seen = ctx;

    assert_true(seen->len + line.len + 1 <= sizeof seen->text);
    if (line.len > 0) {
        memcpy(seen->text + seen->len, line.ptr, line.len);
    }
    seen->len += line.len;
    seen->text[seen->len++] = '|';
    seen->lines++;
    seen->longest = line.len > seen->longest ? line.len : seen->longest;
    return seen->lines != seen->stop_after;
}

static bool
saw(const struct seen *seen, const char *text)
{
    return seen->len == strlen(text) &&
           memcmp(seen->text, text, seen->len) == 0;
}

/* Goal: lines in one piece, over pieces, empty ones, and an open end. */
static void
cuts(void **state)
{
    static const char *const pieces[] = {"one\ntw", "o", "\n\nthr", "ee\n",
                                         "x"};
    struct seen *seen = calloc(1, sizeof *seen);
    struct wp_line line;

    (void)state;
    assert_non_null(seen);
    wp_line_init(&line, 16);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        assert_int_equal(wp_line_feed(&line, wp_str_from(pieces[i]), see, seen),
                         WP_LINE_OK);
    }
    assert_true(saw(seen, "one|two||three|"));
    /* The open end is forgotten by reset. */
    wp_line_reset(&line);
    assert_int_equal(wp_line_feed(&line, WP_STR("y\n"), see, seen), WP_LINE_OK);
    assert_true(saw(seen, "one|two||three|y|"));
    assert_int_equal(wp_line_feed(&line, (struct wp_str){NULL, 0}, see, seen),
                     WP_LINE_OK);
    wp_line_fini(&line);
    free(seen);
}

/* Goal: the bound holds to the byte, in one piece and over pieces. */
static void
bound(void **state)
{
    struct seen *seen = calloc(1, sizeof *seen);
    struct wp_line line;

    (void)state;
    assert_non_null(seen);
    wp_line_init(&line, 4);
    assert_int_equal(wp_line_feed(&line, WP_STR("1234\n"), see, seen),
                     WP_LINE_OK);
    assert_int_equal(wp_line_feed(&line, WP_STR("12345\n"), see, seen),
                     WP_LINE_TOO_LONG);
    wp_line_reset(&line);
    assert_int_equal(wp_line_feed(&line, WP_STR("12"), see, seen), WP_LINE_OK);
    assert_int_equal(wp_line_feed(&line, WP_STR("34\n"), see, seen),
                     WP_LINE_OK);
    assert_int_equal(wp_line_feed(&line, WP_STR("12"), see, seen), WP_LINE_OK);
    assert_int_equal(wp_line_feed(&line, WP_STR("345\n"), see, seen),
                     WP_LINE_TOO_LONG);
    wp_line_reset(&line);
    /* Without waiting for an end that may never come. */
    assert_int_equal(wp_line_feed(&line, WP_STR("1234"), see, seen),
                     WP_LINE_OK);
    assert_int_equal(wp_line_feed(&line, WP_STR("5"), see, seen),
                     WP_LINE_TOO_LONG);
    assert_true(saw(seen, "1234|1234|"));
    wp_line_fini(&line);
    free(seen);
}

/* Goal: a reader that has had enough gets nothing more. */
static void
stop(void **state)
{
    struct seen *seen = calloc(1, sizeof *seen);
    struct wp_line line;

    (void)state;
    assert_non_null(seen);
    seen->stop_after = 2;
    wp_line_init(&line, 16);
    assert_int_equal(wp_line_feed(&line, WP_STR("a\nb\nc\n"), see, seen),
                     WP_LINE_STOPPED);
    assert_true(saw(seen, "a|b|"));
    wp_line_fini(&line);
    free(seen);
}

/* Goal: the memory of a long line is given back when the line is over. */
static void
memory(void **state)
{
    enum {
        LONG = 1 << 20
    };
    struct seen *seen = calloc(1, sizeof *seen);
    char *text = malloc(LONG);
    struct wp_line line;

    (void)state;
    assert_non_null(seen);
    assert_non_null(text);
    memset(text, 'x', LONG);
    wp_line_init(&line, LONG - 1);
    assert_int_equal(
        wp_line_feed(&line, (struct wp_str){text, LONG / 2}, see, seen),
        WP_LINE_OK);
    assert_true(line.cap <= LONG);
    assert_int_equal(
        wp_line_feed(&line, (struct wp_str){text, LONG / 2}, see, seen),
        WP_LINE_TOO_LONG);
    wp_line_reset(&line);
    assert_null(line.buf);
    wp_line_fini(&line);
    free(text);
    free(seen);
}

static uint32_t fails; /* This realloc from now on fails; 0: none. */

void *__real_realloc(void *ptr, size_t size);
void *__wrap_realloc(void *ptr, size_t size);

void *
__wrap_realloc(void *ptr, size_t size)
{
    return fails != 0 && --fails == 0 ? NULL : __real_realloc(ptr, size);
}

/* Goal: the room is the next power of two, from 4096 bytes, and more than 64
 * KiB are not kept. */
static void
room(void **state)
{
    static const struct {
        size_t len;
        size_t cap;
        size_t kept;
    } rows[] = {
        {1, 4096, 4096},    {4095, 4096, 4096},    {4096, 4096, 4096},
        {4097, 8192, 8192}, {65536, 65536, 65536}, {65537, 131072, 0},
    };
    static char text[65537];
    struct wp_line line;

    (void)state;
    memset(text, 'x', sizeof text);
    wp_line_init(&line, sizeof text);
    assert_int_equal(line.cap, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t first = 0; first <= 1; first++) {
            assert_int_equal(
                wp_line_feed(&line, (struct wp_str){text, first}, NULL, NULL),
                WP_LINE_OK);
            assert_int_equal(
                wp_line_feed(&line,
                             (struct wp_str){text + first, rows[i].len - first},
                             NULL, NULL),
                WP_LINE_OK);
            assert_int_equal(line.len, rows[i].len);
            assert_int_equal(line.cap, rows[i].cap);
            assert_memory_equal(line.buf, text, line.len);
            wp_line_reset(&line);
            assert_int_equal(line.len, 0);
            assert_int_equal(line.cap, rows[i].kept);
            assert_int_equal(line.buf == NULL, rows[i].kept == 0);
            wp_line_fini(&line);
            assert_null(line.buf);
            assert_int_equal(line.cap, 0);
            assert_int_equal(line.len_max, sizeof text);
        }
    }
}

/* Goal: without memory nothing is given, and what is kept stays. */
static void
no_memory(void **state)
{
    static char text[5000];
    struct seen *seen = calloc(1, sizeof *seen);
    struct wp_line line;

    (void)state;
    assert_non_null(seen);
    memset(text, 'x', sizeof text);
    wp_line_init(&line, sizeof text);
    fails = 1;
    assert_int_equal(wp_line_feed(&line, WP_STR("ab"), see, seen),
                     WP_LINE_NO_MEMORY);
    assert_int_equal(line.len, 0);
    assert_int_equal(line.cap, 0);
    assert_int_equal(wp_line_feed(&line, WP_STR("ab"), see, seen), WP_LINE_OK);
    fails = 1;
    assert_int_equal(
        wp_line_feed(&line, (struct wp_str){text, 4095}, see, seen),
        WP_LINE_NO_MEMORY);
    assert_int_equal(fails, 0);
    assert_int_equal(line.len, 2);
    assert_int_equal(line.cap, 4096);
    /* What fits needs no more. */
    fails = 1;
    assert_int_equal(
        wp_line_feed(&line, (struct wp_str){text, 4094}, see, seen),
        WP_LINE_OK);
    text[0] = 'y';
    text[1] = '\n';
    assert_int_equal(wp_line_feed(&line, (struct wp_str){text, 2}, see, seen),
                     WP_LINE_NO_MEMORY);
    assert_int_equal(seen->lines, 0);
    assert_int_equal(wp_line_feed(&line, (struct wp_str){text, 2}, see, seen),
                     WP_LINE_OK);
    assert_int_equal(seen->lines, 1);
    assert_int_equal(seen->longest, 4097);
    wp_line_fini(&line);
    free(seen);
}

/* Goal: random texts, cut at random, give what a plain split gives. */
static void
random_cuts(void **state)
{
    struct seen *seen = calloc(1, sizeof *seen);
    struct wp_rng rng;

    (void)state;
    assert_non_null(seen);
    for (uint64_t seed = 1; seed <= 500; seed++) {
        char text[512];
        char want[513];
        size_t want_len = 0;
        struct wp_line line;

        wp_rng_init(&rng, seed);
        for (size_t i = 0; i < sizeof text; i++) {
            text[i] = "ab\n"[wp_rng_below(&rng, seed % 3 == 0 ? 3 : 20) % 3];
        }
        for (size_t i = 0; i < sizeof text; i++) {
            want[i] = text[i] == '\n' ? '|' : text[i];
            want_len = text[i] == '\n' ? i + 1 : want_len;
        }
        memset(seen, 0, sizeof *seen);
        wp_line_init(&line, sizeof text);
        for (size_t at = 0; at < sizeof text;) {
            size_t n = 1 + wp_rng_below(&rng, 40);

            n = n > sizeof text - at ? sizeof text - at : n;
            assert_int_equal(
                wp_line_feed(&line, (struct wp_str){text + at, n}, see, seen),
                WP_LINE_OK);
            at += n;
        }
        assert_int_equal(seen->len, want_len);
        assert_memory_equal(seen->text, want, want_len);
        assert_int_equal(line.len, sizeof text - want_len);
        wp_line_fini(&line);
    }
    free(seen);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts),        cmocka_unit_test(bound),
        cmocka_unit_test(stop),        cmocka_unit_test(memory),
        cmocka_unit_test(random_cuts), cmocka_unit_test(room),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
