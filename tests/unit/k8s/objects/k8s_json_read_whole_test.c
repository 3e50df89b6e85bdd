/* What is made of each text and of each beginning of it, and the words with
 * which a text is refused, are compared whole with k8s_json_read_whole.txt;
 * whatever stands behind a text's end changes nothing, and memory may lack
 * anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "k8s/objects/json_read.h"
#include "tests/support/base/golden.h"

static uint32_t memory; /* This allocation from now on fails; 0: none. */
static uint32_t memory_jansson;

static bool reading;
static uint32_t live; /* Of what the reader has allocated. */

enum {
    FENCE = 16, /* Before and behind what is given. */
};

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void __real_free(void *ptr);
void __wrap_free(void *ptr);
void *__real_realloc(void *ptr, size_t size);
void *__wrap_realloc(void *ptr, size_t size);

/* Nothing may be written behind it. */
void *
__wrap_malloc(size_t size)
{
    unsigned char *given;

    if (!reading) {
        return __real_malloc(size);
    }
    if (memory != 0 && --memory == 0) {
        return NULL;
    }
    given = __real_malloc(FENCE + size + FENCE);
    assert_non_null(given);
    memcpy(given, &size, sizeof size);
    memset(given + FENCE + size, 0xa5, FENCE);
    live++;
    return given + FENCE;
}

static size_t
given_size(const unsigned char *given)
{
    size_t size;

    memcpy(&size, given - FENCE, sizeof size);
    for (int i = 0; i < FENCE; i++) {
        assert_int_equal(given[size + (size_t)i], 0xa5);
    }
    return size;
}

void
__wrap_free(void *ptr)
{
    if (!reading) {
        __real_free(ptr);
    } else if (ptr != NULL) {
        (void)given_size(ptr);
        live--;
        __real_free((unsigned char *)ptr - FENCE);
    }
}

void *
__wrap_realloc(void *ptr, size_t size)
{
    unsigned char *grown;

    if (!reading) {
        return __real_realloc(ptr, size);
    }
    grown = __wrap_malloc(size);
    if (grown != NULL && ptr != NULL) {
        size_t before = given_size(ptr);

        memcpy(grown, ptr, before < size ? before : size);
        __wrap_free(ptr);
    }
    return grown;
}

static void *
jansson_malloc(size_t size)
{
    return memory_jansson != 0 && --memory_jansson == 0 ? NULL
                                                        : __real_malloc(size);
}

static json_t *
read_watched(struct wp_str text, struct wp_err *err)
{
    json_t *json;

    reading = true;
    json = wp_json_read(text, err);
    reading = false;
    assert_int_equal(live, 0);
    return json;
}

static const char *const texts[] = {
    "",
    " ",
    "\"a\\\"b\\u20acc\\ud83d\\ude00\"",
    "\"\xe2\x82\xac\\n\\t\\b\\f\\r\\/\\\\\"",
    "{\"metadata\":{\"managedFields\":[{\"f\\\"\":\"\\\\\"},[[]]],\"n\":1},"
    "\"b\":[true,false,null,-1.50e+3,12,0.5E-2]}",
    "{\"\xe2\x82\xac\":{},\"\\u0061\":[]}",
    "[12345678901234567890123456789012345678901234567890123456789012,"
    "123456789012345678901234567890123456789012345678901234567890123,"
    "1234567890123456789012345678901234567890123456789012345678901234]",
    "\t\r\n 1 \t\r\n",
    "[0 , {\"a\" : 1 } ]",
    "{\"a\" 1}",
    "{\"a\":1 \"b\"}",
    "[1 2]",
    "{a}",
    "{\"\xff\":1}",
    "[\"\xff\"]",
    "\"\x1f\"",
    "\" \"",
    "\"\x7f\"",
    "\"\\x\"",
    "\"\\ud800\\u0041\"",
    "\"\\udc00\"",
    "\"\\udfff\"",
    "\"\\ud7ff\\ue000\"",
    "\"\\n\xff\"",
    "{\"\\n\xff\":1}",
    "\"\\ud800a\\u0041\"",
    "\"\\ud800\\n\"",
    "1e999",
    "-1e999",
    "-01",
    "00",
    "1.e1",
    "{} x",
    "{}{",
    "nul ",
    "[:]",
    "{\"metadata\":{\"managedFields\":[\"",
    "{\"metadata\":{\"managedFields\":[1,{]} ,\"a\":2}}",
    "{\"metadata\":{\"managedFields\" : [\"]\"] , \"a\":2}}",
};

/* The value, or why there is none; to be freed. */
static char *
made_of(struct wp_str text)
{
    struct wp_err err = {.msg = ""};
    json_t *json = read_watched(text, &err);
    char *shown;

    if (json != NULL) {
        shown =
            json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY |
                                 JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15));
        json_decref(json);
    } else {
        assert_int_equal(
            asprintf(&shown, "%s: %s", wp_status_name(err.status), err.msg) > 0,
            1);
    }
    assert_non_null(shown);
    return shown;
}

/* The same where nothing behind its end can be read. */
static char *
made_at_the_end(const char *text, size_t len)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *room = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *shown;

    assert_true(room != MAP_FAILED);
    assert_int_equal(mprotect(room + page, page, PROT_NONE), 0);
    memcpy(room + page - len, text, len);
    shown = made_of((struct wp_str){room + page - len, len});
    assert_int_equal(munmap(room, 2 * page), 0);
    return shown;
}

/* The same, whatever follows. */
static char *
made_of_any(const char *text, size_t len)
{
    static const char follows[] = "\0\"-5.eE+ }],:[{\\u0nl\n";
    char room[1024];
    char *first = made_at_the_end(text, len);

    assert_true(len + 32 <= sizeof room);
    memcpy(room, text, len);
    for (size_t i = 0; i < sizeof follows - 1; i++) {
        char *other;

        memset(room + len, follows[i], 32);
        other = made_of((struct wp_str){room, len});
        assert_string_equal(other, first);
        free(other);
    }
    return first;
}

static void
each_text_and_each_beginning(void **state)
{
    static struct golden golden;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        size_t len = strlen(texts[i]);
        char *before = NULL;

        golden_add(&golden, "# text %zu\n", i);
        /* Of long numbers each digit is as good as the next. */
        for (size_t cut = len > 150 ? len - 66 : 0; cut <= len; cut++) {
            char *made = made_of_any(texts[i], cut);

            if (before == NULL || strcmp(before, made) != 0 || cut == len) {
                golden_add(&golden, "%zu%s %s\n", cut,
                           cut == len ? ", all" : "", made);
            }
            free(before);
            before = made;
        }
        free(before);
    }
    golden_compare(golden.text, WP_TEST_WHOLE);
}

/* Both read the same, or neither does. */
static void
same_as_jansson(const char *text)
{
    json_t *ours = read_watched(wp_str_from(text), NULL);
    json_t *theirs = json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

    if (ours == NULL ? theirs != NULL : !json_equal(ours, theirs)) {
        fail_msg("%s is read otherwise", text);
    }
    json_decref(ours);
    json_decref(theirs);
}

/* Each code unit alone, and pairs of those at the ends of their ranges. */
static void
every_escape(void **state)
{
    static const unsigned ends[] = {0,      1,      0x41,   0x7f,   0x80,
                                    0x7ff,  0x800,  0xd7ff, 0xd800, 0xd801,
                                    0xdbfe, 0xdbff, 0xdc00, 0xdc01, 0xdffe,
                                    0xdfff, 0xe000, 0xe001, 0xfffe, 0xffff};
    static const char hex[] = "0123456789abcdefABCDEF";
    char text[32];

    (void)state;
    for (unsigned unit = 0; unit <= 0xffff; unit++) {
        (void)snprintf(text, sizeof text, "\"\\u%04x\"", unit);
        same_as_jansson(text);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(ends); i++) {
        for (size_t j = 0; j < WP_ARRAY_LEN(ends); j++) {
            (void)snprintf(text, sizeof text, "\"\\u%04X\\u%04x\"", ends[i],
                           ends[j]);
            same_as_jansson(text);
        }
    }
    for (int c = 1; c < 256; c++) {
        for (int at = 0; at < 4; at++) {
            (void)strcpy(text, "\"\\u1234\"");
            text[3 + at] = (char)c;
            if (strchr(hex, c) != NULL) {
                same_as_jansson(text);
            } else {
                assert_null(read_watched(wp_str_from(text), NULL));
            }
        }
        (void)snprintf(text, sizeof text, "\"\\%c1234\"", c);
        same_as_jansson(text);
        (void)snprintf(text, sizeof text, "\"%c\"", c);
        same_as_jansson(text);
        (void)snprintf(text, sizeof text, "[1%c]", c);
        same_as_jansson(text);
    }
}

/* Of an object, of one in an event and of one in a list: nowhere else. */
static void
how_deep_metadata_lie(void **state)
{
    (void)state;
    for (int depth = 0; depth < 6; depth++) {
        static const char inner[] =
            "{\"metadata\":{\"managedFields\":[1],\"a\":2}}";
        char text[256] = "";
        json_t *json;
        json_t *at;

        for (int i = 0; i < depth; i++) {
            (void)strcat(text, "{\"in\":");
        }
        (void)strcat(text, inner);
        for (int i = 0; i < depth; i++) {
            (void)strcat(text, "}");
        }
        json = read_watched(wp_str_from(text), NULL);
        at = json;
        for (int i = 0; i < depth; i++) {
            at = json_object_get(at, "in");
        }
        at = json_object_get(at, "metadata");
        assert_int_equal(json_object_get(at, "managedFields") == NULL,
                         depth < 3);
        assert_int_equal(json_integer_value(json_object_get(at, "a")), 2);
        json_decref(json);
    }
}

/* Its number is too long for the stack. */
static const char rich[] =
    "{\"a\\n\":[\"b\\t\",\"c\",1.5],\"d\":{\"e\":true,\"\xe2\x82\xac\":"
    "\"\xe2\x82\xac\\n\"},\"f\":"
    "1234567890123456789012345678901234567890123456789012345678901234}";

/* Whichever allocation fails, the text is refused, and all that was made of it
 * goes. */
static void
no_memory_anywhere(void **state)
{
    static const char *const expected[] = {
        "RESOURCE_EXHAUSTED: no JSON: no memory near byte 6",
        "RESOURCE_EXHAUSTED: no JSON: no memory near byte 13",
        "RESOURCE_EXHAUSTED: no JSON: no memory near byte 50",
        "RESOURCE_EXHAUSTED: no JSON: no memory near byte 56",
    };

    (void)state;
    for (uint32_t n = 0; n <= WP_ARRAY_LEN(expected); n++) {
        char *made;

        memory = n + 1;
        made = made_of(WP_STR(rich));
        if (n < WP_ARRAY_LEN(expected)) {
            assert_int_equal(memory, 0);
            assert_string_equal(made, expected[n]);
        } else {
            assert_int_equal(memory, 1);
            memory = 0;
            assert_int_equal(made[0], '{');
        }
        free(made);
    }
}

/* A key without memory is none, whatever stands behind it. */
static void
no_memory_for_a_key(void **state)
{
    char *made;

    (void)state;
    memory = 1;
    made = made_of(WP_STR("{\"a\\n\" 1}"));
    assert_int_equal(memory, 0);
    assert_string_equal(made,
                        "RESOURCE_EXHAUSTED: no JSON: no memory near byte 6");
    free(made);
}

/* The same of jansson's, which does not say why it could not take a text or a
 * key. */
static void
no_memory_for_values(void **state)
{
    uint32_t n = 0;
    struct wp_err err;
    json_t *json;

    (void)state;
    json_set_alloc_funcs(jansson_malloc, __real_free);
    for (;; n++) {
        err = (struct wp_err){.msg = ""};
        memory_jansson = n + 1;
        json = read_watched(WP_STR(rich), &err);
        if (memory_jansson != 0) {
            break;
        }
        assert_null(json);
        assert_true(err.status == WP_RESOURCE_EXHAUSTED
                        ? strstr(err.msg, "no JSON: no memory near") != NULL
                        : err.status == WP_INVALID_ARGUMENT &&
                              strstr(err.msg, "UTF-8") != NULL);
    }
    memory_jansson = 0;
    assert_non_null(json);
    json_decref(json);
    json_set_alloc_funcs(__real_malloc, __real_free);
    assert_in_range(n, 10, 100);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_text_and_each_beginning),
        cmocka_unit_test(every_escape),
        cmocka_unit_test(how_deep_metadata_lie),
        cmocka_unit_test(no_memory_anywhere),
        cmocka_unit_test(no_memory_for_a_key),
        cmocka_unit_test(no_memory_for_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
