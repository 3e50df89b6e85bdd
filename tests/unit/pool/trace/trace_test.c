/* Traces: what clients say of theirs, and spans on their way out. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/compiler.h"
#include "pool/trace/tracer.h"

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

/* Whatever was in that memory. */
void *
__wrap_aligned_alloc(size_t alignment, size_t size)
{
    void *memory = __real_aligned_alloc(alignment, size);

    if (memory != NULL) {
        memset(memory, 0xa5, size);
    }
    return memory;
}

#define SAMPLED "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static struct wp_trace_context
context_of(const char *text)
{
    struct wp_trace_context context;

    assert_true(wp_trace_context_parse(wp_str_from(text), &context));
    return context;
}

/* --- What clients say --- */

static void
test_traceparents(void **state)
{
    struct wp_trace_context context = context_of(SAMPLED);
    char text[WP_TRACEPARENT_LEN + 1];

    (void)state;
    assert_true(context.sampled);
    assert_int_equal(context.trace_id[0], 0x4b);
    assert_int_equal(context.trace_id[15], 0x36);
    assert_int_equal(context.span_id[7], 0xb7);
    wp_trace_context_format(&context, text);
    assert_string_equal(text, SAMPLED);
    /* Flags that are not known yet, and a version that is not. */
    context = context_of(
        "42-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fe-and-more");
    assert_false(context.sampled);
    wp_trace_context_format(&context, text);
    assert_string_equal(
        text, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
}

static void
test_what_is_none(void **state)
{
    static const char *const texts[] = {
        "",
        "00",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
        "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0A",
        "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
    };
    const struct wp_trace_context none = {.sampled = false};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        struct wp_trace_context context = context_of(SAMPLED);

        assert_false(wp_trace_context_parse(wp_str_from(texts[i]), &context));
        assert_memory_equal(&context, &none, sizeof none);
    }
}

/* Goal: a small hexadecimal digit or a dash, each in its places. */
static void
test_each_place(void **state)
{
    (void)state;
    for (size_t at = 0; at < WP_TRACEPARENT_LEN; at++) {
        for (int c = 0; c <= UINT8_MAX; c++) {
            char text[] = SAMPLED;
            bool digit = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
            struct wp_trace_context context;

            text[at] = (char)c;
            if (wp_trace_context_parse(
                    (struct wp_str){text, WP_TRACEPARENT_LEN}, &context) !=
                (SAMPLED[at] == '-' ? c == '-' : digit)) {
                fail_msg("byte %d at %zu", c, at);
            }
        }
    }
}

/* --- Spans --- */

static void
test_steps_lie_in_their_trace(void **state)
{
    const struct wp_trace_context client = context_of(SAMPLED);
    struct wp_tracer *tracer = wp_tracer_create(4);
    const uint8_t none[WP_SPAN_ID_LEN] = {0};
    uint8_t first[WP_SPAN_ID_LEN];
    struct wp_trace trace;
    struct wp_span out;

    (void)state;
    assert_non_null(tracer);
    memset(&trace, 0, sizeof trace);
    wp_trace_begin(&trace, tracer, &client, 100);
    wp_trace_step(&trace, &(struct wp_span){.name = "a"}, 130);
    wp_trace_step(&trace, &(struct wp_span){.name = "b"}, 170);
    wp_trace_end(&trace, &(struct wp_span){.name = "all"}, 200);
    /* It is none any more. */
    wp_trace_step(&trace, &(struct wp_span){.name = "c"}, 210);
    wp_trace_end(&trace, &(struct wp_span){.name = "d"}, 220);

    assert_true(wp_tracer_take(tracer, &out));
    assert_string_equal(out.name, "a");
    assert_memory_equal(out.trace_id, client.trace_id, WP_TRACE_ID_LEN);
    assert_int_equal(out.begin_ns, 100);
    assert_int_equal(out.end_ns, 130);
    assert_memory_equal(out.parent_id, trace.span_id, WP_SPAN_ID_LEN);
    assert_memory_not_equal(out.parent_id, none, WP_SPAN_ID_LEN);
    assert_memory_not_equal(out.span_id, none, WP_SPAN_ID_LEN);
    memcpy(first, out.span_id, sizeof first);
    assert_true(wp_tracer_take(tracer, &out));
    assert_memory_not_equal(out.span_id, first, WP_SPAN_ID_LEN);
    assert_memory_equal(out.parent_id, trace.span_id, WP_SPAN_ID_LEN);
    assert_int_equal(out.begin_ns, 130);
    assert_int_equal(out.end_ns, 170);
    assert_memory_equal(out.trace_id, client.trace_id, WP_TRACE_ID_LEN);
    assert_memory_not_equal(out.span_id, trace.span_id, WP_SPAN_ID_LEN);
    assert_true(wp_tracer_take(tracer, &out));
    assert_string_equal(out.name, "all");
    assert_memory_equal(out.trace_id, client.trace_id, WP_TRACE_ID_LEN);
    assert_int_equal(out.begin_ns, 100);
    assert_int_equal(out.end_ns, 200);
    assert_memory_equal(out.span_id, trace.span_id, WP_SPAN_ID_LEN);
    assert_memory_equal(out.parent_id, client.span_id, WP_SPAN_ID_LEN);
    assert_false(wp_tracer_take(tracer, &out));
    wp_tracer_destroy(tracer);
}

static void
test_who_is_not_traced(void **state)
{
    struct wp_trace_context client = context_of(SAMPLED);
    struct wp_tracer *tracer = wp_tracer_create(4);
    struct wp_trace trace;
    struct wp_span out;

    (void)state;
    wp_trace_begin(&trace, NULL, &client, 1);
    assert_null(trace.tracer);
    client.sampled = false;
    wp_trace_begin(&trace, tracer, &client, 1);
    assert_null(trace.tracer);
    wp_trace_step(&trace, &(struct wp_span){.name = "a"}, 2);
    wp_trace_end(&trace, &(struct wp_span){.name = "b"}, 3);
    assert_false(wp_tracer_take(tracer, &out));
    wp_tracer_destroy(tracer);
    wp_tracer_destroy(NULL);
}

static void
test_more_than_fits(void **state)
{
    const struct wp_trace_context client = context_of(SAMPLED);
    struct wp_tracer *tracer = wp_tracer_create(4);
    struct wp_trace trace;
    struct wp_span out;

    (void)state;
    wp_trace_begin(&trace, tracer, &client, 0);
    for (int i = 1; i <= 7; i++) {
        wp_trace_step(&trace, &(struct wp_span){.name = "a"}, i);
    }
    for (int i = 1; i <= 4; i++) {
        assert_true(wp_tracer_take(tracer, &out));
        assert_int_equal(out.end_ns, i);
    }
    assert_false(wp_tracer_take(tracer, &out));
    wp_tracer_exported(tracer, 3, true);
    wp_tracer_exported(tracer, 1, false);
    assert_int_equal(wp_tracer_stats(tracer).dropped, 3);
    assert_int_equal(wp_tracer_stats(tracer).exported, 3);
    assert_int_equal(wp_tracer_stats(tracer).failed, 1);
    wp_tracer_destroy(tracer);
}

static void
test_texts_are_cut(void **state)
{
    struct wp_span span;
    char longer[WP_POOL_NAME_MAX + 10];

    (void)state;
    memset(longer, 'x', sizeof longer);
    WP_SPAN_TEXT(span.pool, ((struct wp_str){longer, sizeof longer}));
    assert_int_equal(strlen(span.pool), WP_POOL_NAME_MAX);
    for (size_t len = 0; len <= 5; len++) {
        char out[] = "~~~~~~";

        wp_span_text(out, 4, (struct wp_str){"abcde", len});
        assert_int_equal(strlen(out), len < 4 ? len : 3);
        assert_memory_equal(out, "abc", strlen(out));
        assert_string_equal(out + 4, "~~");
    }
    WP_SPAN_TEXT(span.pool, WP_STR(""));
    assert_string_equal(span.pool, "");
    WP_SPAN_TEXT(span.pool, ((struct wp_str){NULL, 0}));
    assert_string_equal(span.pool, "");
}

/* --- Threads --- */

enum {
    ADDERS = 4,
    EACH = 5000,
};

static void *
add_some(void *ctx)
{
    const struct wp_trace_context client = context_of(SAMPLED);
    struct wp_trace trace;

    wp_trace_begin(&trace, ctx, &client, 0);
    for (int i = 1; i <= EACH; i++) {
        wp_trace_step(&trace, &(struct wp_span){.name = "a"}, i);
    }
    return NULL;
}

static int
by_bytes(const void *a, const void *b)
{
    return memcmp(a, b, WP_SPAN_ID_LEN);
}

/* Goal: every span is taken whole or is counted as dropped, and no id comes
 * twice. */
static void
test_many_at_once(void **state)
{
    static uint8_t ids[ADDERS * EACH][WP_SPAN_ID_LEN];
    struct wp_tracer *tracer = wp_tracer_create(256);
    pthread_t threads[ADDERS];
    struct wp_span out;
    size_t n = 0;

    (void)state;
    for (int i = 0; i < ADDERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, add_some, tracer),
                         0);
    }
    while (n + wp_tracer_stats(tracer).dropped < (size_t)ADDERS * EACH) {
        while (wp_tracer_take(tracer, &out)) {
            assert_int_equal(out.begin_ns + 1, out.end_ns);
            memcpy(ids[n++], out.span_id, WP_SPAN_ID_LEN);
        }
    }
    for (int i = 0; i < ADDERS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    assert_false(wp_tracer_take(tracer, &out));
    qsort(ids, n, WP_SPAN_ID_LEN, by_bytes);
    for (size_t i = 1; i < n; i++) {
        assert_memory_not_equal(ids[i - 1], ids[i], WP_SPAN_ID_LEN);
    }
    wp_tracer_destroy(tracer);
}

static void
test_a_new_tracer_has_counted_nothing(void **state)
{
    struct wp_tracer *tracer = wp_tracer_create(4);
    struct wp_tracer_stats stats;
    struct wp_span span;

    (void)state;
    assert_non_null(tracer);
    stats = wp_tracer_stats(tracer);
    assert_int_equal(stats.exported, 0);
    assert_int_equal(stats.dropped, 0);
    assert_int_equal(stats.failed, 0);
    assert_false(wp_tracer_take(tracer, &span));
    wp_tracer_destroy(tracer);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_new_tracer_has_counted_nothing),
        cmocka_unit_test(test_traceparents),
        cmocka_unit_test(test_what_is_none),
        cmocka_unit_test(test_each_place),
        cmocka_unit_test(test_steps_lie_in_their_trace),
        cmocka_unit_test(test_who_is_not_traced),
        cmocka_unit_test(test_more_than_fits),
        cmocka_unit_test(test_texts_are_cut),
        cmocka_unit_test(test_many_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
