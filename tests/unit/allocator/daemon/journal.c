#include "tests/unit/allocator/daemon/journal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/base/log.h"
#include "tests/support/base/golden.h"

enum {
    SAID_MAX = 256,
    CALL_MAX = 48,
    THINGS_MAX = 64,
    CALLOC_MAX = 1 << 28,
};

const struct wp_clock *__wrap_wp_clock_system(void);
void __wrap_wp_log_emit(enum wp_log_level level, const char *event,
                        const struct wp_kv *kvs);
void __wrap_explicit_bzero(void *bytes, size_t n);
void __wrap___explicit_bzero_chk(void *bytes, size_t n, size_t room);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strndup(const char *text, size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strndup(const char *text, size_t n);

void (*journal_wipes)(size_t n);

static struct golden lines;
static struct {
    char call[CALL_MAX];
    int64_t answer;
} said[SAID_MAX];
static size_t n_said;
static char places[THINGS_MAX];
static struct {
    const void *place;
    char name[CALL_MAX];
} things[THINGS_MAX];
static size_t n_things;
static size_t n_places;
static size_t forget_from; /* SIZE_MAX: nothing is. */
static int64_t now_ns;
static int64_t tick_ns;
static uint32_t memory_left;
static bool was_full;

int
journal_begin(void **state)
{
    (void)state;
    lines.len = 0;
    lines.text[0] = '\0';
    n_said = 0;
    n_things = 0;
    n_places = 0;
    forget_from = SIZE_MAX;
    journal_wipes = NULL;
    now_ns = 100 * WP_NS_PER_S;
    tick_ns = WP_NS_PER_US;
    memory_left = 0;
    was_full = false;
    return 0;
}

void
journal(const char *fmt, ...)
{
    static char line[16384];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    golden_add(&lines, "%s\n", line);
}

void
journal_empty(void)
{
    lines.len = 0;
    lines.text[0] = '\0';
}

void
journal_without(const char *text)
{
    size_t n = strlen(text);

    for (char *at = lines.text; (at = strstr(at, text)) != NULL;) {
        memmove(at, at + n, strlen(at + n) + 1);
        lines.len -= n;
    }
}

void
journal_is(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%s.txt", WP_TEST_GOLDEN, name);
    golden_compare(lines.text, path);
    journal_empty();
    forget_from = SIZE_MAX;
    assert_int_equal(n_said, 0); /* Each answer was asked for. */
}

void
journal_say(const char *call, int64_t answer)
{
    assert_true(n_said < SAID_MAX && strlen(call) < CALL_MAX);
    (void)snprintf(said[n_said].call, sizeof said->call, "%s", call);
    said[n_said++].answer = answer;
}

void
journal_forget(void)
{
    n_said = 0;
}

int64_t
journal_said(const char *call, int64_t otherwise)
{
    for (size_t i = 0; i < n_said; i++) {
        if (strcmp(said[i].call, call) == 0) {
            int64_t answer = said[i].answer;

            memmove(&said[i], &said[i + 1], (--n_said - i) * sizeof *said);
            return answer;
        }
    }
    return otherwise;
}

enum wp_status
journal_status(const char *call, struct wp_err *err)
{
    enum wp_status status = (enum wp_status)journal_said(call, WP_OK);

    if (status != WP_OK && status != WP_PENDING) {
        if (forget_from != SIZE_MAX) {
            lines.len = forget_from;
        }
        return wp_err_set(err, status, "%s: %s", call, wp_status_text(status));
    }
    return status;
}

void
journal_only_after_errors(void)
{
    forget_from = lines.len;
}

void *
journal_thing(const char *name)
{
    for (size_t i = 0; i < n_things; i++) {
        if (strcmp(things[i].name, name) == 0) {
            return (void *)(uintptr_t)things[i].place;
        }
    }
    assert_true(n_places < THINGS_MAX);
    journal_know(&places[n_places], name);
    return &places[n_places++];
}

/* A place that is used again has its new name only, and the other way round. */
void
journal_know(const void *thing, const char *name)
{
    for (size_t i = 0; i < n_things;) {
        if (things[i].place == thing || strcmp(things[i].name, name) == 0) {
            memmove(&things[i], &things[i + 1],
                    (--n_things - i) * sizeof *things);
        } else {
            i++;
        }
    }
    assert_true(n_things < THINGS_MAX && strlen(name) < CALL_MAX);
    things[n_things].place = thing;
    (void)snprintf(things[n_things++].name, CALL_MAX, "%s", name);
}

const char *
journal_name(const void *thing)
{
    for (size_t i = 0; i < n_things; i++) {
        if (things[i].place == thing) {
            return things[i].name;
        }
    }
    return thing == NULL ? "none" : "?";
}

static int64_t
read_clock(const struct wp_clock *clock)
{
    (void)clock;
    now_ns += tick_ns;
    return now_ns;
}

void
journal_tick(int64_t ns)
{
    tick_ns = ns;
}

void
journal_pass(int64_t ns)
{
    now_ns += ns;
}

int64_t
journal_now(void)
{
    return now_ns;
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    static const struct wp_clock clock = {read_clock, read_clock};

    return &clock;
}

void
__wrap_wp_log_emit(enum wp_log_level level, const char *event,
                   const struct wp_kv *kvs)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};

    golden_add(&lines, "%s: %s", levels[level], event);
    for (; kvs->key != NULL; kvs++) {
        golden_add(&lines, " %s=", kvs->key);
        if (kvs->kind == WP_KV_STR) {
            golden_add(&lines, "'%.*s'", (int)kvs->str.len, kvs->str.ptr);
        } else {
            golden_add(&lines, kvs->kind == WP_KV_MS ? "%lld ns" : "%lld",
                       (long long)kvs->num);
        }
    }
    golden_add(&lines, "\n");
}

/* --- Memory --- */

void
__wrap_explicit_bzero(void *bytes, size_t n)
{
    memset(bytes, 0, n);
    if (journal_wipes != NULL) {
        journal_wipes(n);
    }
}

/* The same where the compiler fortifies. */
void
__wrap___explicit_bzero_chk(void *bytes, size_t n, size_t room)
{
    assert_true(n <= room);
    __wrap_explicit_bzero(bytes, n);
}

void
journal_no_memory(uint32_t n)
{
    memory_left = n;
    was_full = false;
}

bool
journal_was_full(void)
{
    return was_full;
}

static bool
is_full(void)
{
    if (memory_left == 0 || --memory_left > 0) {
        return false;
    }
    was_full = true;
    return true;
}

/* Nothing is no memory either, as C allows, nor is what no test needs. */
void *
__wrap_calloc(size_t n, size_t size)
{
    return is_full() || n == 0 || n > CALLOC_MAX ? NULL
                                                 : __real_calloc(n, size);
}

void *
__wrap_realloc(void *old, size_t size)
{
    return is_full() ? NULL : __real_realloc(old, size);
}

char *
__wrap_strndup(const char *text, size_t n)
{
    return is_full() ? NULL : __real_strndup(text, n);
}
