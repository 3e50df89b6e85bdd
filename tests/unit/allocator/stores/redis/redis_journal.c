#include "tests/unit/allocator/stores/redis/redis_journal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

static char journal[65536];
size_t journal_len;

void
note(const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(journal + journal_len, sizeof journal - journal_len, fmt,
                  args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof journal - journal_len) {
        abort();
    }
    journal_len += (size_t)n;
}

void
journal_begin(void)
{
    journal[0] = '\0';
    journal_len = 0;
}

/* What was written since the last look; valid until the next line. */
char *
journal_take(void)
{
    journal_len = 0;
    return journal;
}

void
note_words(const struct wp_str *words, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        note(" %.*s", WP_STR_ARG(words[i]));
    }
    note("\n");
}

/* What a server would have said in these bytes. */
struct redisReply *
reply_of(const char *bytes)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    if (reader == NULL ||
        redisReaderFeed(reader, bytes, strlen(bytes)) != REDIS_OK ||
        redisReaderGetReply(reader, &reply) != REDIS_OK || reply == NULL) {
        abort();
    }
    redisReaderFree(reader);
    return reply;
}
