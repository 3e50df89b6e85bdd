#include "runtime/exec/shell_words.h"

#include <stdlib.h>

enum mode {
    BETWEEN,
    PLAIN,
    SINGLE,
    DOUBLE,
};

/* Characters go to `next`; a word that begins is noted in argv. */
struct splitter {
    enum mode mode;
    char *next;
    char **argv;
    size_t count;
};

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void
word_begin(struct splitter *split)
{
    if (split->mode == BETWEEN) {
        split->argv[split->count++] = split->next;
        split->mode = PLAIN;
    }
}

static void
word_end(struct splitter *split)
{
    if (split->mode == PLAIN) {
        *split->next++ = '\0';
        split->mode = BETWEEN;
    }
}

/* Takes the character at line[i]; returns how many it used, 0 when a
 * backslash ends the line. */
static size_t
outside_quotes(struct splitter *split, struct wp_str line, size_t i)
{
    char c = line.ptr[i];

    if (is_blank(c)) {
        word_end(split);
        return 1;
    }
    word_begin(split);
    if (c == '\'') {
        split->mode = SINGLE;
    } else if (c == '"') {
        split->mode = DOUBLE;
    } else if (c == '\\') {
        if (i + 1 == line.len) {
            return 0;
        }
        *split->next++ = line.ptr[i + 1];
        return 2;
    } else {
        *split->next++ = c;
    }
    return 1;
}

static size_t
inside_quotes(struct splitter *split, struct wp_str line, size_t i)
{
    char c = line.ptr[i];
    char next = '\0';

    if (i + 1 < line.len) {
        next = line.ptr[i + 1];
    }
    if ((split->mode == SINGLE && c == '\'') ||
        (split->mode == DOUBLE && c == '"')) {
        split->mode = PLAIN;
    } else if (c == '\\' && split->mode == DOUBLE &&
               (next == '"' || next == '\\')) {
        *split->next++ = next;
        return 2;
    } else {
        *split->next++ = c;
    }
    return 1;
}

enum wp_status
wp_shell_words_split(struct wp_str line, struct wp_shell_words *out,
                     struct wp_err *err)
{
    /* Every word needs one character of the line, or two quotes; and each is
     * followed by a blank but the last. */
    size_t words_max = line.len / 2 + 2;
    struct splitter split = {.mode = BETWEEN};

    *out = (struct wp_shell_words){NULL, 0};
    if (line.len > 0 && memchr(line.ptr, '\0', line.len) != NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "NUL in the command");
    }
    split.argv = malloc(words_max * sizeof(char *) + line.len + 1);
    if (split.argv == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
    }
    split.next = (char *)(split.argv + words_max);
    for (size_t i = 0; i < line.len;) {
        size_t used = split.mode == SINGLE || split.mode == DOUBLE
                          ? inside_quotes(&split, line, i)
                          : outside_quotes(&split, line, i);

        if (used == 0) {
            free(split.argv);
            return wp_err_set(err, WP_INVALID_ARGUMENT, "No escaped character");
        }
        i += used;
    }
    if (split.mode == SINGLE || split.mode == DOUBLE) {
        free(split.argv);
        return wp_err_set(err, WP_INVALID_ARGUMENT, "No closing quotation");
    }
    word_end(&split);
    split.argv[split.count] = NULL;
    *out = (struct wp_shell_words){split.argv, split.count};
    return WP_OK;
}

void
wp_shell_words_free(struct wp_shell_words *words)
{
    free(words->argv);
    *words = (struct wp_shell_words){NULL, 0};
}
