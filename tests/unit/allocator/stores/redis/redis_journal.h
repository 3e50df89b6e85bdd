/* tests/unit/allocator/stores/redis/redis_journal.h - what the code under test
 * asks of what lies below it, a line for each call, compared as one text. One
 * thread, one program. */
#ifndef WP_TESTS_UNIT_ALLOCATOR_STORES_REDIS_REDIS_JOURNAL_H
#define WP_TESTS_UNIT_ALLOCATOR_STORES_REDIS_REDIS_JOURNAL_H

#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

struct redisReply;

extern size_t journal_len;

void note(const char *fmt, ...) WP_PRINTF(1, 2);
/* A blank before each, and the end of the line. */
void note_words(const struct wp_str *words, uint32_t n);
void journal_begin(void);
/* What was written since the last look; valid until the next line. */
char *journal_take(void);
/* What a server would have said in these bytes. */
struct redisReply *reply_of(const char *bytes);

#endif
