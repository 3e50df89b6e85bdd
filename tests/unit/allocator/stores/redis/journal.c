#include "tests/unit/allocator/stores/redis/journal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "allocator/stores/redis/link/scripts.h"
#include "tests/support/base/golden.h"

enum {
    JOURNAL_SIZE = 1 << 18,
};

static char journals[2][JOURNAL_SIZE];
static int journal;
static size_t journal_len;

static void WP_PRINTF(1, 0) put_args(const char *fmt, va_list args)
{
    size_t room = JOURNAL_SIZE - journal_len;
    int n = vsnprintf(journals[journal] + journal_len, room, fmt, args);

    if (n < 0 || (size_t)n >= room) {
        abort();
    }
    journal_len += (size_t)n;
}

void
journal_put(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    put_args(fmt, args);
    va_end(args);
}

void
journal_note(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    put_args(fmt, args);
    va_end(args);
    journal_put("\n");
}

void
journal_word(struct wp_str word)
{
    static const char *const names[] = {"commit", "fetch", "recover"};

    for (uint32_t i = 0; i < WP_SCRIPT_COUNT; i++) {
        if (wp_str_eq(word, wp_redis_scripts[i].sha)) {
            journal_put(" @%s", names[i]);
            return;
        }
        if (wp_str_eq(word, wp_redis_scripts[i].text)) {
            journal_put(" @%s.lua", names[i]);
            return;
        }
    }
    journal_put(word.len == 0 ? " ''" : " ");
    for (size_t i = 0; i < word.len; i++) {
        unsigned byte = (unsigned char)word.ptr[i];

        if (byte > ' ' && byte < 0x7f) {
            journal_put("%c", (int)byte);
        } else {
            journal_put("\\x%02x", byte);
        }
    }
}

void
journal_words(const struct wp_str *words, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        journal_word(words[i]);
    }
    journal_put("\n");
}

void
journal_log(enum wp_log_level level, const char *event, const struct wp_kv *kvs)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};

    journal_put("%s %s", names[level], event);
    for (; kvs->key != NULL; kvs++) {
        if (kvs->kind == WP_KV_STR) {
            journal_put(" %s='%.*s'", kvs->key, WP_STR_ARG(kvs->str));
        } else {
            journal_put(" %s=%lld", kvs->key, (long long)kvs->num);
        }
    }
    journal_put("\n");
}

const char *
journal_told(void)
{
    const char *told = journals[journal];

    journal = !journal;
    journal_len = 0;
    journals[journal][0] = '\0';
    return told;
}

void
journal_compare(const char *name)
{
    char path[512];

    assert_in_range(
        snprintf(path, sizeof path, "%s/%s.txt", WP_TEST_GOLDEN, name), 1,
        sizeof path - 1);
    golden_compare(journal_told(), path);
}
