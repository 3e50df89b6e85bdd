#include "local/init/programs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The texts that are left. */
struct cursor {
    char *at;
    const char *end; /* One past the last one's terminator. */
};

static char *
take(struct cursor *cursor)
{
    char *text = cursor->at;

    if (text >= cursor->end) {
        return NULL;
    }
    cursor->at += strlen(text) + 1;
    return text;
}

static bool
take_number(struct cursor *cursor, size_t max, size_t *out)
{
    const char *text = take(cursor);
    unsigned long value;
    char *end;

    if (text == NULL || text[0] < '0' || text[0] > '9') {
        return false;
    }
    value = strtoul(text, &end, 10);
    *out = value;
    return *end == '\0' && value <= max;
}

/* A count and so many texts; NULL: there are not as many. */
static char **
take_texts(struct cursor *cursor, size_t *len)
{
    char **texts;

    /* Each takes a byte at least. */
    if (!take_number(cursor, (size_t)(cursor->end - cursor->at), len)) {
        return NULL;
    }
    texts = calloc(*len + 1, sizeof *texts);
    for (size_t i = 0; texts != NULL && i < *len; i++) {
        texts[i] = take(cursor);
        if (texts[i] == NULL) {
            free(texts);
            return NULL;
        }
    }
    return texts;
}

static bool
take_program(struct cursor *cursor, struct wp_programs *out)
{
    const char *kind = take(cursor);
    struct wp_program *program = &out->probe;
    size_t timeout_s;
    size_t len;

    if (kind != NULL && strcmp(kind, WP_PROGRAM_INIT) == 0) {
        if (out->inits_len == WP_CONTROL_INITS_MAX) {
            return false;
        }
        program = &out->inits[out->inits_len++];
    } else if (kind == NULL || strcmp(kind, WP_PROGRAM_PROBE) != 0 ||
               program->argv != NULL) {
        return false;
    }
    program->name = take(cursor);
    if (!take_number(cursor, INT32_MAX, &timeout_s)) {
        return false;
    }
    program->timeout_s = (uint32_t)timeout_s;
    program->dir = take(cursor);
    program->argv = take_texts(cursor, &len);
    if (program->argv == NULL || len == 0) {
        return false;
    }
    program->env = take_texts(cursor, &len);
    if (len == 0) {
        free(program->env);
        program->env = NULL;
        return kind[0] == WP_PROGRAM_PROBE[0];
    }
    return program->env != NULL;
}

/* The whole of it, terminated once more; NULL: too much, or no memory. */
static char *
read_all(int fd, size_t *len)
{
    off_t size = lseek(fd, 0, SEEK_END);
    char *bytes;

    if (size <= 0 || size > WP_PROGRAMS_BYTES_MAX) {
        return NULL;
    }
    bytes = malloc((size_t)size + 1);
    *len = 0;
    while (bytes != NULL && *len < (size_t)size) {
        ssize_t n = pread(fd, bytes + *len, (size_t)size - *len, (off_t)*len);

        if (n <= 0) {
            free(bytes);
            return NULL;
        }
        *len += (size_t)n;
    }
    if (bytes != NULL) {
        bytes[*len] = '\0';
    }
    return bytes;
}

bool
wp_programs_read(int fd, struct wp_programs *out)
{
    size_t len = 0;
    char *bytes = read_all(fd, &len);
    struct cursor cursor = {bytes, bytes + len};

    *out = (struct wp_programs){.inits_len = 0};
    if (bytes == NULL || bytes[len - 1] != '\0') {
        return false;
    }
    while (cursor.at < cursor.end) {
        if (!take_program(&cursor, out)) {
            return false;
        }
    }
    return true;
}
