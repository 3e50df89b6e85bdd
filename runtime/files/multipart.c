#include "runtime/files/multipart.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Copies a parameter's value, quoted or not, from a header like
 * `form-data; name="a"; filename="b"`. In quotes, \" and \\ are unescaped.
 * False when it is absent or too long. */
static bool
parameter(const char *header, const char *key, char *out, size_t cap)
{
    size_t key_len = strlen(key);
    const char *p = strchr(header, ';');

    while (p != NULL) {
        bool found;
        size_t len = 0;
        bool quoted;

        p += 1 + strspn(p + 1, " \t");
        found = strncasecmp(p, key, key_len) == 0 && p[key_len] == '=';
        p += strcspn(p, "=;");
        if (*p != '=') {
            p = *p == ';' ? p : NULL;
            continue;
        }
        quoted = p[1] == '"';
        p += quoted ? 2 : 1;
        while (*p != '\0' &&
               (quoted ? *p != '"' : strchr("; \t", *p) == NULL)) {
            if (quoted && *p == '\\' && (p[1] == '"' || p[1] == '\\')) {
                p++;
            }
            if (found && len + 1 >= cap) {
                return false;
            }
            if (found) {
                out[len++] = *p;
            }
            p++;
        }
        if (found) {
            out[len] = '\0';
            return true;
        }
        p = strchr(p, ';');
    }
    return false;
}

bool
wp_multipart_init(struct wp_multipart *multipart, const char *content_type,
                  const struct wp_multipart_events *events, void *user)
{
    static const char type[] = "multipart/form-data";
    char boundary[WP_MULTIPART_BOUNDARY_MAX + 1];

    if (content_type == NULL ||
        strncasecmp(content_type, type, sizeof(type) - 1) != 0 ||
        !parameter(content_type, "boundary", boundary, sizeof(boundary)) ||
        boundary[0] == '\0') {
        return false;
    }
    *multipart = (struct wp_multipart){.events = events, .user = user};
    multipart->mark_len = (size_t)snprintf(
        multipart->mark, sizeof(multipart->mark), "\r\n--%s", boundary);
    /* The first mark may stand at the very start, without its line break. */
    multipart->matched = 2;
    return true;
}

static void
bad(struct wp_multipart *multipart, const char *why)
{
    multipart->state = WP_MULTIPART_BAD;
    multipart->error = why;
}

static void
emit(struct wp_multipart *multipart, const char *data, size_t len)
{
    if (multipart->state == WP_MULTIPART_BODY && len > 0) {
        multipart->events->data(multipart->user, data, len);
    }
}

/* Looks for the mark. It begins with the only CR in it, so a failed match can
 * start again at the byte that failed, and nowhere before. */
static size_t
scan(struct wp_multipart *multipart, const char *data, size_t len)
{
    size_t i = 0;

    while (i < len) {
        if (multipart->matched == 0) {
            const char *cr = memchr(data + i, '\r', len - i);
            size_t plain = cr != NULL ? (size_t)(cr - data) - i : len - i;

            emit(multipart, data + i, plain);
            i += plain;
            if (i == len) {
                break;
            }
        }
        if (data[i] == multipart->mark[multipart->matched]) {
            multipart->matched++;
            i++;
            if (multipart->matched == multipart->mark_len) {
                if (multipart->state == WP_MULTIPART_BODY) {
                    multipart->events->end(multipart->user);
                }
                multipart->after_len = 0;
                multipart->state = WP_MULTIPART_MARK;
                break;
            }
        } else {
            emit(multipart, multipart->mark, multipart->matched);
            multipart->matched = 0;
        }
    }
    return i;
}

/* Behind a mark: optional blanks, then a line break or "--". */
static size_t
after_mark(struct wp_multipart *multipart, char c)
{
    if (multipart->after_len == 0 && (c == ' ' || c == '\t')) {
        return 1;
    }
    multipart->after[multipart->after_len++] = c;
    if (multipart->after_len < 2) {
        return 1;
    }
    if (memcmp(multipart->after, "--", 2) == 0) {
        multipart->state = WP_MULTIPART_DONE;
    } else if (memcmp(multipart->after, "\r\n", 2) == 0) {
        multipart->state = WP_MULTIPART_HEAD;
        multipart->head_len = 0;
    } else {
        bad(multipart, "a boundary is not followed by a line break");
    }
    return 1;
}

/* One header line, terminated. Only Content-Disposition matters. */
static bool
disposition(const char *line, char *name, char *filename, bool *has_filename)
{
    static const char key[] = "content-disposition:";

    if (strncasecmp(line, key, sizeof(key) - 1) != 0) {
        return false;
    }
    if (!parameter(line, "name", name, WP_MULTIPART_NAME_MAX)) {
        name[0] = '\0';
    }
    *has_filename =
        parameter(line, "filename", filename, WP_MULTIPART_NAME_MAX);
    return true;
}

static void
head_done(struct wp_multipart *multipart)
{
    char name[WP_MULTIPART_NAME_MAX] = "";
    char filename[WP_MULTIPART_NAME_MAX] = "";
    bool has_filename = false;
    char *line = multipart->head;

    while (*line != '\0') {
        char *end = strstr(line, "\r\n");

        if (end == NULL) {
            break;
        }
        *end = '\0';
        if (disposition(line, name, filename, &has_filename)) {
            break;
        }
        line = end + 2;
    }
    multipart->state = WP_MULTIPART_BODY;
    /* An empty body has its mark's line break right here. */
    multipart->matched = 0;
    multipart->events->part(multipart->user, name,
                            has_filename ? filename : NULL);
}

static size_t
head_byte(struct wp_multipart *multipart, char c)
{
    size_t len = multipart->head_len;

    if (c == '\0' || len + 2 > sizeof(multipart->head)) {
        bad(multipart, "a part's head is malformed or too long");
        return 1;
    }
    multipart->head[len++] = c;
    multipart->head[len] = '\0';
    multipart->head_len = len;
    if ((len == 2 && memcmp(multipart->head, "\r\n", 2) == 0) ||
        (len >= 4 && memcmp(multipart->head + len - 4, "\r\n\r\n", 4) == 0)) {
        head_done(multipart);
    }
    return 1;
}

bool
wp_multipart_feed(struct wp_multipart *multipart, const char *data, size_t len)
{
    size_t i = 0;

    while (i < len) {
        switch (multipart->state) {
        case WP_MULTIPART_PREAMBLE:
        case WP_MULTIPART_BODY:
            i += scan(multipart, data + i, len - i);
            break;
        case WP_MULTIPART_MARK:
            i += after_mark(multipart, data[i]);
            break;
        case WP_MULTIPART_HEAD:
            i += head_byte(multipart, data[i]);
            break;
        case WP_MULTIPART_DONE:
            return true; /* An epilogue means nothing. */
        case WP_MULTIPART_BAD:
            return false;
        }
    }
    return multipart->state != WP_MULTIPART_BAD;
}

bool
wp_multipart_complete(const struct wp_multipart *multipart)
{
    return multipart->state == WP_MULTIPART_DONE;
}
