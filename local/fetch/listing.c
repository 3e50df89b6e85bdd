#include "local/fetch/listing.h"

#include <string.h>

enum {
    SIZE_FIELD = 4, /* MODE TYPE ID SIZE<tab>PATH */
};

#define SUM_MAX (UINT64_C(1) << 62)

/* The next line, without its end; false: there is none. */
static bool
next_line(struct wp_str *rest, struct wp_str *line)
{
    const char *end;

    if (rest->len == 0) {
        return false;
    }
    end = memchr(rest->ptr, '\n', rest->len);
    line->ptr = rest->ptr;
    line->len = end != NULL ? (size_t)(end - rest->ptr) : rest->len;
    rest->ptr += line->len + (end != NULL ? 1 : 0);
    rest->len -= line->len + (end != NULL ? 1 : 0);
    return true;
}

static bool
is_commit(struct wp_str text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) {
            return false;
        }
    }
    return text.len == WP_COMMIT_LEN;
}

bool
wp_listing_commit(struct wp_str listing, const char *ref,
                  char out[WP_COMMIT_LEN + 1])
{
    struct wp_str line;
    struct wp_str first;

    while (next_line(&listing, &line)) {
        if (wp_str_cut(&line, '\t', &first) && wp_str_is(line, ref) &&
            is_commit(first)) {
            return wp_str_copy(first, out, WP_COMMIT_LEN + 1);
        }
    }
    return false;
}

bool
wp_listing_head(struct wp_str listing, char out[WP_REF_NAME_MAX + 1])
{
    const struct wp_str mark = WP_STR("ref: ");
    struct wp_str line;
    struct wp_str first;

    while (next_line(&listing, &line)) {
        if (wp_str_cut(&line, '\t', &first) && wp_str_is(line, "HEAD") &&
            wp_str_starts_with(first, mark)) {
            first.ptr += mark.len;
            first.len -= mark.len;
            return wp_str_copy(first, out, WP_REF_NAME_MAX + 1);
        }
    }
    return false;
}

/* A character before the path. */
static bool
add_char(struct wp_listing_sum *sum, char c)
{
    if (c == '\t') {
        if (sum->field != SIZE_FIELD || sum->size > SUM_MAX - sum->bytes) {
            return false;
        }
        sum->bytes += sum->size;
        sum->files++;
        sum->in_path = true;
        return true;
    }
    if (c == ' ') {
        sum->in_field = false;
        return sum->field < SIZE_FIELD;
    }
    if (!sum->in_field) {
        sum->in_field = true;
        sum->field++;
        sum->size = 0;
    }
    if (sum->field < SIZE_FIELD || c == '-') {
        return c > ' '; /* '-': a folder, or a submodule, which is one. */
    }
    if (c < '0' || c > '9' || sum->size > SUM_MAX / 10 - 1) {
        return false;
    }
    sum->size = sum->size * 10 + (uint64_t)(c - '0');
    return true;
}

bool
wp_listing_add(struct wp_listing_sum *sum, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!sum->in_path) {
            if (!add_char(sum, bytes[i])) {
                return false;
            }
        } else if (bytes[i] == '\0') {
            sum->in_path = false;
            sum->in_field = false;
            sum->field = 0;
        }
    }
    return true;
}
