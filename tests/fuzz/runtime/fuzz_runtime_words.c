/* Command lines: words stay inside what was allocated, and quoting each of
 * them again gives the same words. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "runtime/exec/shell_words.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Puts 'word' with its own quotes escaped at out; returns the length. */
static size_t
quote(const char *word, char *out)
{
    size_t len = 0;

    out[len++] = '\'';
    for (; *word != '\0'; word++) {
        if (*word == '\'') {
            memcpy(out + len, "'\\''", 4);
            len += 4;
        } else {
            out[len++] = *word;
        }
    }
    out[len++] = '\'';
    out[len++] = ' ';
    return len;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_shell_words words;
    struct wp_shell_words again;
    struct wp_err err;
    size_t len = 0;
    char *line;

    if (wp_shell_words_split((struct wp_str){(const char *)data, size}, &words,
                             &err) != WP_OK) {
        return 0;
    }
    line = malloc(5 * size + 3 * words.count + 1);
    WP_ASSERT(line != NULL);
    for (size_t i = 0; i < words.count; i++) {
        len += quote(words.argv[i], line + len);
    }
    WP_ASSERT(wp_shell_words_split((struct wp_str){line, len}, &again, &err) ==
              WP_OK);
    WP_ASSERT(again.count == words.count);
    for (size_t i = 0; i < words.count; i++) {
        WP_ASSERT(strcmp(words.argv[i], again.argv[i]) == 0);
    }
    free(line);
    wp_shell_words_free(&words);
    wp_shell_words_free(&again);
    return 0;
}
