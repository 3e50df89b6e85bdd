/* runtime/exec/shell_words.h - splits a command line as a POSIX shell would see
 * its words, without any expansion: what Python's shlex.split does. */
#ifndef WP_RUNTIME_EXEC_SHELL_WORDS_H
#define WP_RUNTIME_EXEC_SHELL_WORDS_H

#include <stddef.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

/* An argv that ends with NULL; one allocation. */
struct wp_shell_words {
    char **argv;
    size_t count;
};

/* Rules: blanks (space, tab, CR, LF) separate words; '...' is literal; in
 * "..." a backslash escapes only '"' and '\'; elsewhere it escapes any
 * character; quotes alone make an empty word. Variables, globs, pipes and
 * comments mean nothing. Errors, INVALID_ARGUMENT: a quote without its end, a
 * backslash at the end, a NUL. An empty line gives no words, and is no error.
 * Any thread. */
WP_MUST_CHECK enum wp_status wp_shell_words_split(struct wp_str line,
                                                  struct wp_shell_words *out,
                                                  struct wp_err *err);
/* Releases what a successful split gave. */
void wp_shell_words_free(struct wp_shell_words *words);

#endif
