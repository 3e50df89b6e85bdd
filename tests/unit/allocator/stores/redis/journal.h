/* tests/unit/allocator/stores/redis/journal.h - what happened, a line each, as
 * one text that is compared whole with a golden file. One thread at a time. */
#ifndef WP_TESTS_UNIT_ALLOCATOR_STORES_REDIS_JOURNAL_H
#define WP_TESTS_UNIT_ALLOCATOR_STORES_REDIS_JOURNAL_H

#include "pool/base/compiler.h"
#include "pool/base/log.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

/* A part of a line. */
void journal_put(const char *fmt, ...) WP_PRINTF(1, 2);
/* A line, or the rest of one. */
void journal_note(const char *fmt, ...) WP_PRINTF(1, 2);
/* A word of a command, behind a blank: the scripts by their names, bytes that
 * nobody can read as numbers. */
void journal_word(struct wp_str word);
/* All of them, and the line ends. */
void journal_words(const struct wp_str *words, uint32_t n);
/* As wp_log_emit. */
void journal_log(enum wp_log_level level, const char *event,
                 const struct wp_kv *kvs);
/* What was noted since the last call; valid until the next one. */
const char *journal_told(void);
/* That is the golden file of this name. */
void journal_compare(const char *name);

#endif
