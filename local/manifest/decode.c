#include "local/manifest/decode.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "pool/base/arena.h"
#include "pool/base/nearest.h"

enum {
    NOTE_MAX = 320,
    KNOWN_MAX = 100, /* Characters of the list of known fields in a message. */
};

size_t
wp_decode_enter(struct wp_decode *d, struct wp_str key)
{
    size_t mark = d->path_len;
    int n = snprintf(d->path + mark, sizeof d->path - mark, "%s%.*s",
                     mark == 0 ? "" : ".", WP_STR_ARG(key));

    if (n > 0 && (size_t)n < sizeof d->path - mark) {
        d->path_len += (size_t)n;
    } else {
        d->path[mark] = '\0'; /* Too long to show; the line still tells. */
    }
    return mark;
}

static size_t
enter_index(struct wp_decode *d, uint32_t index)
{
    size_t mark = d->path_len;
    int n = snprintf(d->path + mark, sizeof d->path - mark, "[%u]", index);

    if (n > 0 && (size_t)n < sizeof d->path - mark) {
        d->path_len += (size_t)n;
    } else {
        d->path[mark] = '\0';
    }
    return mark;
}

void
wp_decode_leave(struct wp_decode *d, size_t mark)
{
    d->path_len = mark;
    d->path[mark] = '\0';
}

static int
print_position(const struct wp_decode *d, const struct wp_yaml *node, char *out,
               size_t cap)
{
    return snprintf(
        out, cap, "%s:%u: %s%s%s%s%s%s", d->file, node != NULL ? node->line : 1,
        d->kind != NULL ? d->kind : "", d->object != NULL ? " " : "",
        d->object != NULL ? d->object : "", d->kind != NULL ? ": " : "",
        d->path, d->path_len > 0 ? ": " : "");
}

bool
wp_decode_fail(struct wp_decode *d, const struct wp_yaml *node, const char *fmt,
               ...)
{
    char position[sizeof d->err->msg];
    char words[sizeof d->err->msg];
    va_list ap;

    (void)print_position(d, node, position, sizeof position);
    va_start(ap, fmt);
    (void)vsnprintf(words, sizeof words, fmt, ap);
    va_end(ap);
    (void)wp_err_set(d->err, WP_INVALID_ARGUMENT, "%s%s", position, words);
    return false;
}

bool
wp_decode_note(struct wp_decode *d, const struct wp_yaml *node,
               const char *words)
{
    char text[NOTE_MAX];
    int n = print_position(d, node, text, sizeof text);

    if (n > 0 && n < (int)sizeof text) {
        (void)snprintf(text + n, sizeof text - (size_t)n, "%s", words);
    }
    return wp_notes_add(d->notes, d->region, text) ||
           wp_decode_fail(d, node, "no memory");
}

const char *
wp_decode_place(struct wp_decode *d, const struct wp_yaml *node)
{
    char text[NOTE_MAX];
    const char *place;

    (void)print_position(d, node, text, sizeof text);
    place = wp_region_str(d->region, wp_str_from(text));
    if (place == NULL) {
        (void)wp_decode_fail(d, node, "no memory");
    }
    return place;
}

uint32_t
wp_decode_count(const struct wp_yaml *node, uint32_t max)
{
    uint32_t n = 0;

    for (const struct wp_yaml *item = node->first; item != NULL && n < max;
         item = item->next) {
        n++;
    }
    return n;
}

void *
wp_decode_reserve(struct wp_decode *d, const struct wp_yaml *node, size_t size)
{
    void *out = wp_region_alloc(d->region, size);

    if (out == NULL) {
        (void)wp_decode_fail(d, node, "no memory");
    }
    return out;
}

static bool
fail_unknown(struct wp_decode *d, const struct wp_yaml *node,
             const struct wp_field *fields, size_t len)
{
    char known[KNOWN_MAX];
    struct wp_nearest nearest;
    size_t used = 0;
    bool cut = false;

    wp_nearest_init(&nearest, node->key);
    /* A slip of the shift key is the likeliest cause. */
    for (size_t i = 0; i < len; i++) {
        if (node->key.len == strlen(fields[i].name) &&
            strncasecmp(node->key.ptr, fields[i].name, node->key.len) == 0) {
            return wp_decode_fail(d, node, "unknown field; '%s' was expected",
                                  fields[i].name);
        }
    }
    known[0] = '\0';
    for (size_t i = 0; i < len && used < sizeof known; i++) {
        int n = snprintf(known + used, sizeof known - used, "%s%s",
                         used > 0 ? ", " : "", fields[i].name);

        if (n < 0 || (size_t)n >= sizeof known - used) {
            (void)snprintf(known + used, sizeof known - used, "...");
            cut = true;
            break;
        }
        used += (size_t)n;
    }
    for (size_t i = 0; cut && i < len; i++) {
        wp_nearest_offer(&nearest, fields[i].name);
    }
    if (nearest.best != NULL) {
        return wp_decode_fail(d, node, "unknown field; did you mean %s?",
                              nearest.best);
    }
    return wp_decode_fail(d, node, "unknown field; expected one of %s", known);
}

static bool
refuse(struct wp_decode *d, const struct wp_yaml *node,
       const struct wp_field *field)
{
    return wp_decode_fail(d, node, "not supported on one machine: %s",
                          field->instead);
}

static bool
decode_field(struct wp_decode *d, const struct wp_yaml *node,
             const struct wp_field *field, void *out)
{
    bool asked = true;

    switch (field->fate) {
    case WP_FIELD_USED:
        return field->use(d, node, out);
    case WP_FIELD_PLAIN:
        return true;
    case WP_FIELD_NOTED:
        return wp_decode_note(d, node, "not enforced on one machine");
    case WP_FIELD_EMPTY_LIST:
        return wp_decode_is(d, node, WP_YAML_LIST) &&
               (node->first == NULL || refuse(d, node, field));
    case WP_FIELD_FALSE:
        return wp_decode_bool(d, node, &asked) &&
               (!asked || refuse(d, node, field));
    case WP_FIELD_REFUSED:
    default:
        return refuse(d, node, field);
    }
}

bool
wp_decode_map(struct wp_decode *d, const struct wp_yaml *node,
              const struct wp_field *fields, size_t len, void *out)
{
    if (!wp_decode_is(d, node, WP_YAML_MAP)) {
        return false;
    }
    for (const struct wp_yaml *child = node->first; child != NULL;
         child = child->next) {
        size_t mark = wp_decode_enter(d, child->key);
        size_t i = 0;

        while (i < len && !wp_str_is(child->key, fields[i].name)) {
            i++;
        }
        if (i == len) {
            return fail_unknown(d, child, fields, len);
        }
        /* Kubernetes reads "field:" with nothing as the field left out. */
        if (child->kind != WP_YAML_NULL &&
            !decode_field(d, child, &fields[i], out)) {
            return false;
        }
        wp_decode_leave(d, mark);
    }
    for (size_t i = 0; i < len; i++) {
        const struct wp_yaml *child = wp_yaml_find(node, fields[i].name);

        if (fields[i].required &&
            (child == NULL || child->kind == WP_YAML_NULL)) {
            (void)wp_decode_enter(d, wp_str_from(fields[i].name));
            return wp_decode_fail(d, node, "missing, but required");
        }
    }
    return true;
}

bool
wp_decode_list(struct wp_decode *d, const struct wp_yaml *node, uint32_t max,
               bool (*each)(struct wp_decode *d, const struct wp_yaml *node,
                            void *out),
               void *out)
{
    uint32_t index = 0;

    if (!wp_decode_is(d, node, WP_YAML_LIST)) {
        return false;
    }
    for (const struct wp_yaml *item = node->first; item != NULL;
         item = item->next) {
        size_t mark = enter_index(d, index++);

        if (index > max) {
            return wp_decode_fail(d, item, "at most %u were expected", max);
        }
        if (!each(d, item, out)) {
            return false;
        }
        wp_decode_leave(d, mark);
    }
    return true;
}

bool
wp_decode_is(struct wp_decode *d, const struct wp_yaml *node,
             enum wp_yaml_kind kind)
{
    if (node->kind == kind) {
        return true;
    }
    if (kind == WP_YAML_STRING && node->kind < WP_YAML_STRING) {
        return wp_decode_fail(d, node,
                              "a string was expected, not %s; put quotes around"
                              " %.40s",
                              wp_yaml_kind_text(node->kind), node->text.ptr);
    }
    return wp_decode_fail(d, node, "%s was expected, not %s",
                          wp_yaml_kind_text(kind),
                          wp_yaml_kind_text(node->kind));
}

bool
wp_decode_text(struct wp_decode *d, const struct wp_yaml *node, size_t max,
               const char **out)
{
    if (!wp_decode_is(d, node, WP_YAML_STRING)) {
        return false;
    }
    if (node->text.len > max) {
        return wp_decode_fail(d, node, "at most %zu bytes were expected", max);
    }
    if (!wp_str_is_utf8(node->text)) {
        return wp_decode_fail(d, node, "UTF-8 text was expected");
    }
    *out = wp_region_str(d->region, node->text);
    return *out != NULL || wp_decode_fail(d, node, "no memory");
}

bool
wp_decode_int(struct wp_decode *d, const struct wp_yaml *node, int64_t min,
              int64_t max, int64_t *out)
{
    if (!wp_decode_is(d, node, WP_YAML_INT)) {
        return false;
    }
    if (!wp_str_to_i64(node->text, out) || *out < min || *out > max) {
        return wp_decode_fail(
            d, node, "a number from %" PRId64 " to %" PRId64 " was expected",
            min, max);
    }
    return true;
}

bool
wp_decode_bool(struct wp_decode *d, const struct wp_yaml *node, bool *out)
{
    if (!wp_decode_is(d, node, WP_YAML_BOOL)) {
        return false;
    }
    *out = strchr("tTyY", node->text.ptr[0]) != NULL ||
           strcasecmp(node->text.ptr, "on") == 0;
    return true;
}

bool
wp_decode_word(struct wp_decode *d, const struct wp_yaml *node,
               const char *const *words, size_t *index)
{
    char known[KNOWN_MAX];
    size_t used = 0;

    if (!wp_decode_is(d, node, WP_YAML_STRING)) {
        return false;
    }
    known[0] = '\0';
    for (size_t i = 0; words[i] != NULL; i++) {
        int n;

        if (wp_str_is(node->text, words[i])) {
            *index = i;
            return true;
        }
        n = snprintf(known + used, sizeof known - used, "%s%s",
                     used > 0 ? ", " : "", words[i]);
        used += n > 0 && (size_t)n < sizeof known - used ? (size_t)n : 0;
    }
    return wp_decode_fail(d, node, "one of %s was expected, not '%.40s'", known,
                          node->text.ptr);
}
