#include "allocator/conf/value.h"

#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/duration.h"
#include "pool/base/nearest.h"

static const struct wp_setting table[WP_SETTINGS] = {
#define WP_GROUP(title)
#define WP_SETTING(kind, id, def, choices_or_unit, low, high, on_hup, text)    \
    {.name = #id,                                                              \
     .default_text = (def),                                                    \
     .choices = (choices_or_unit),                                             \
     .help = (text),                                                           \
     .min = (low),                                                             \
     .max = (high),                                                            \
     .offset = offsetof(struct wp_conf, id),                                   \
     .type = WP_SETTING_##kind,                                                \
     .reload = (on_hup)},
#include "allocator/conf/settings.def"
#undef WP_SETTING
#undef WP_GROUP
};

const struct wp_setting *
wp_setting_get(enum wp_setting_id id)
{
    WP_ASSERT((unsigned)id < WP_SETTINGS);
    return &table[id];
}

/* Largest last: formatting looks for the largest that divides. */
static const struct wp_unit duration_units[] = {
    {"ns", 1},
    {"us", WP_NS_PER_US},
    {"ms", WP_NS_PER_MS},
    {"s", WP_NS_PER_S},
    {"m", INT64_C(60) * WP_NS_PER_S},
    {"h", INT64_C(3600) * WP_NS_PER_S},
    {"d", INT64_C(24) * 3600 * WP_NS_PER_S},
};
static const struct wp_unit size_units[] = {
    {"", 1},
    {"KiB", INT64_C(1) << 10},
    {"MiB", INT64_C(1) << 20},
    {"GiB", INT64_C(1) << 30},
};

bool
wp_conf_duration_parse(struct wp_str text, int64_t *out_ns)
{
    return wp_unit_parse(text, duration_units, WP_ARRAY_LEN(duration_units),
                         out_ns);
}

const char *
wp_conf_duration_format(int64_t duration_ns, char out[32])
{
    return wp_unit_format(duration_ns, duration_units,
                          WP_ARRAY_LEN(duration_units), out);
}

bool
wp_conf_size_parse(struct wp_str text, int64_t *out_bytes)
{
    return wp_unit_parse(text, size_units, WP_ARRAY_LEN(size_units), out_bytes);
}

const char *
wp_conf_size_format(int64_t bytes, char out[32])
{
    return wp_unit_format(bytes, size_units, WP_ARRAY_LEN(size_units), out);
}

/* Flags are written with either. */
static char
underscored(char c)
{
    if (c == '-') {
        c = '_';
    }
    return c;
}

static bool
same_name(struct wp_str given, const char *name)
{
    size_t i = 0;

    for (; i < given.len && name[i] != '\0'; i++) {
        char c = underscored(given.ptr[i]);

        if (c != name[i]) {
            return false;
        }
    }
    return i == given.len && name[i] == '\0';
}

enum wp_setting_id
wp_setting_find(struct wp_str name)
{
    for (unsigned i = 0; i < WP_SETTINGS; i++) {
        if (same_name(name, table[i].name)) {
            return (enum wp_setting_id)i;
        }
    }
    return WP_SETTINGS;
}

const char *
wp_setting_nearest(struct wp_str name)
{
    const char *nearest = NULL;
    size_t best = 4; /* Further off is no misspelling. */
    char typed[WP_NEAREST_WORD_MAX];

    for (size_t i = 0; i < name.len && i < sizeof typed; i++) {
        typed[i] = underscored(name.ptr[i]);
    }
    for (unsigned i = 0; name.len <= sizeof typed && i < WP_SETTINGS; i++) {
        size_t d = wp_word_distance((struct wp_str){typed, name.len},
                                    wp_str_from(table[i].name));

        if (d < best) {
            best = d;
            nearest = table[i].name;
        }
    }
    return nearest;
}

static const char *
expected_number(const struct wp_setting *s, char *out, size_t cap)
{
    char low[32];
    char high[32];
    bool bounded = s->max != INT64_MAX;

    switch (s->type) {
    case WP_SETTING_DURATION:
        (void)snprintf(out, cap,
                       "a duration from %s to %s, such as 500ms, "
                       "30s or 5m",
                       wp_conf_duration_format(s->min, low),
                       wp_conf_duration_format(s->max, high));
        break;
    case WP_SETTING_SIZE:
        (void)snprintf(out, cap,
                       "a size from %s to %s, such as 65536 or "
                       "64KiB",
                       wp_conf_size_format(s->min, low),
                       wp_conf_size_format(s->max, high));
        break;
    case WP_SETTING_STRING:
    case WP_SETTING_SECRET:
    case WP_SETTING_BOOL:
    case WP_SETTING_INT:
    case WP_SETTING_LIST:
    case WP_SETTING_ENUM:
    default:
        WP_ASSERT(bounded);
        (void)snprintf(out, cap, "a whole number from %lld to %lld",
                       (long long)s->min, (long long)s->max);
        break;
    }
    return out;
}

const char *
wp_setting_expected(const struct wp_setting *s, char *out, size_t cap)
{
    char least[32] = "at most";

    /* Of bytes, or of a list's texts. */
    if (s->min > 0) {
        (void)snprintf(least, sizeof least, "%lld to", (long long)s->min);
    }
    switch (s->type) {
    case WP_SETTING_STRING:
    case WP_SETTING_SECRET:
        (void)snprintf(out, cap, "a text of %s %lld bytes", least,
                       (long long)s->max);
        break;
    case WP_SETTING_BOOL:
        (void)snprintf(out, cap, "true or false");
        break;
    case WP_SETTING_LIST:
        (void)snprintf(out, cap, "a list of %s %lld texts", least,
                       (long long)s->max);
        break;
    case WP_SETTING_ENUM:
        (void)snprintf(out, cap, "one of %s", s->choices);
        break;
    case WP_SETTING_INT:
    case WP_SETTING_DURATION:
    case WP_SETTING_SIZE:
    default:
        return expected_number(s, out, cap);
    }
    return out;
}

static bool
parse_bool(struct wp_str text, bool *out)
{
    *out = wp_str_is(text, "true") || wp_str_is(text, "yes") ||
           wp_str_is(text, "on");
    return *out || wp_str_is(text, "false") || wp_str_is(text, "no") ||
           wp_str_is(text, "off");
}

static bool
parse_choice(const char *choices, struct wp_str text, int *out)
{
    struct wp_str rest = wp_str_from(choices);

    for (int i = 0; rest.len > 0; i++) {
        const char *bar = memchr(rest.ptr, '|', rest.len);
        size_t len = bar != NULL ? (size_t)(bar - rest.ptr) : rest.len;

        if (wp_str_eq(text, (struct wp_str){rest.ptr, len})) {
            *out = i;
            return true;
        }
        rest.ptr += bar != NULL ? len + 1 : len;
        rest.len -= bar != NULL ? len + 1 : len;
    }
    return false;
}

union value {
    bool truth;
    int choice;
    int64_t number;
};

static bool
parse_number(const struct wp_setting *s, struct wp_str text, int64_t *out)
{
    bool ok = s->type == WP_SETTING_INT ? wp_str_to_i64(text, out)
              : s->type == WP_SETTING_DURATION
                  ? wp_conf_duration_parse(text, out)
                  : wp_conf_size_parse(text, out);

    return ok && *out >= s->min && *out <= s->max;
}

/* Is text a good value (or list item) of s? What is not text goes to out. */
static bool
parse_value(const struct wp_setting *s, struct wp_str text, union value *out)
{
    switch (s->type) {
    case WP_SETTING_STRING:
    case WP_SETTING_SECRET:
        return text.len >= (size_t)s->min && text.len <= (size_t)s->max &&
               wp_str_is_printable(text);
    case WP_SETTING_LIST:
        return text.len > 0 && text.len <= WP_CONF_TEXT_MAX &&
               wp_str_is_printable(text);
    case WP_SETTING_BOOL:
        return parse_bool(text, &out->truth);
    case WP_SETTING_ENUM:
        return parse_choice(s->choices, text, &out->choice);
    case WP_SETTING_INT:
    case WP_SETTING_DURATION:
    case WP_SETTING_SIZE:
    default:
        return parse_number(s, text, &out->number);
    }
}

static enum wp_status
refuse(const struct wp_setting *s, struct wp_str text, struct wp_err *err)
{
    char expected[120];
    char shown[44];
    size_t n = 0;

    if (s->type == WP_SETTING_SECRET) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "setting '%s': expected %s",
                          s->name,
                          wp_setting_expected(s, expected, sizeof expected));
    }
    /* Only what is safe to print, and not much of it. */
    for (; n < text.len && n < sizeof shown - 4; n++) {
        unsigned char c = (unsigned char)text.ptr[n];

        shown[n] = (char)(c < ' ' || c > '~' ? '?' : c);
    }
    (void)snprintf(shown + n, sizeof shown - n, "%s",
                   n < text.len ? "..." : "");
    return wp_err_set(err, WP_INVALID_ARGUMENT,
                      "setting '%s': expected %s, got '%s'", s->name,
                      wp_setting_expected(s, expected, sizeof expected), shown);
}

/* Frees a text that may be a secret. */
static void
forget(char *text)
{
    if (text != NULL) {
        explicit_bzero(text, strlen(text));
        free(text);
    }
}

static void
list_free(struct wp_conf_list *list)
{
    for (uint32_t i = 0; i < list->len; i++) {
        free(list->items[i]);
    }
    free(list->items);
    *list = (struct wp_conf_list){NULL, 0};
}

/* Adds copies of items to list; the list stays as it was when memory lacks. */
static bool
list_append(struct wp_conf_list *list, const struct wp_str *items, uint32_t n)
{
    char **grown = realloc(list->items, (list->len + n) * sizeof *grown);

    if (grown == NULL) {
        return list->len + n == 0;
    }
    list->items = grown;
    for (uint32_t i = 0; i < n; i++) {
        grown[list->len] = strndup(items[i].ptr, items[i].len);
        if (grown[list->len] == NULL) {
            return false;
        }
        list->len++;
    }
    return true;
}

static void *
field_of(struct wp_conf *conf, const struct wp_setting *s)
{
    return (char *)conf + s->offset;
}

static bool
store(struct wp_conf *conf, const struct wp_setting *s,
      const struct wp_str *items, uint32_t n, union value value)
{
    void *field = field_of(conf, s);
    char *copy;

    switch (s->type) {
    case WP_SETTING_STRING:
    case WP_SETTING_SECRET:
        copy = strndup(items[0].len > 0 ? items[0].ptr : "", items[0].len);
        if (copy == NULL) {
            return false;
        }
        forget(*(char **)field);
        *(char **)field = copy;
        break;
    case WP_SETTING_LIST:
        return n == 0 || list_append(field, items, n);
    case WP_SETTING_BOOL:
        *(bool *)field = value.truth;
        break;
    case WP_SETTING_ENUM:
        *(int *)field = value.choice;
        break;
    case WP_SETTING_INT:
    case WP_SETTING_DURATION:
    case WP_SETTING_SIZE:
    default:
        *(int64_t *)field = value.number;
        break;
    }
    return true;
}

/* A value as somebody gave it. */
struct given {
    const struct wp_str *items;
    uint32_t n;
    bool append; /* To what the same source gave before. */
    struct wp_conf_origin origin;
};

static enum wp_status
set(struct wp_conf *conf, enum wp_setting_id id, const struct given *given,
    struct wp_err *err)
{
    const struct wp_setting *s = wp_setting_get(id);
    bool is_list = s->type == WP_SETTING_LIST;
    union value value = {.number = 0};
    uint32_t have = 0;

    WP_ASSERT(is_list || given->n == 1);
    for (uint32_t i = 0; i < given->n; i++) {
        if (!parse_value(s, given->items[i], &value)) {
            return refuse(s, given->items[i], err);
        }
    }
    if (is_list && given->append &&
        conf->origin[id].source == given->origin.source) {
        have = ((struct wp_conf_list *)field_of(conf, s))->len;
    }
    if (is_list && have + given->n > (uint64_t)s->max) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting '%s': expected at most %lld items, got %u",
                          s->name, (long long)s->max, have + given->n);
    }
    if (is_list && have + given->n < (uint64_t)s->min) {
        return refuse(s, WP_STR(""), err);
    }
    if (given->origin.source < conf->origin[id].source) {
        return WP_OK;
    }
    if (is_list && have == 0) {
        list_free(field_of(conf, s));
    }
    conf->origin[id] = given->origin;
    return store(conf, s, given->items, given->n, value)
               ? WP_OK
               : wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
}

enum wp_status
wp_conf_set(struct wp_conf *conf, enum wp_setting_id id,
            const struct wp_str *items, uint32_t n,
            struct wp_conf_origin origin, struct wp_err *err)
{
    const struct given given = {items, n, false, origin};

    return set(conf, id, &given, err);
}

/* Cuts text at commas into items, without the spaces around. An empty text is
 * an empty list. */
static uint32_t
split(struct wp_str text, struct wp_str *items, uint32_t max)
{
    uint32_t n = 0;

    while (text.len > 0 && n < max) {
        struct wp_str item;

        (void)wp_str_cut(&text, ',', &item);
        items[n++] = wp_str_trim(item);
    }
    return n;
}

enum wp_status
wp_conf_set_text(struct wp_conf *conf, enum wp_setting_id id,
                 struct wp_str text, struct wp_conf_origin origin,
                 struct wp_err *err)
{
    /* One more than any list may have, so that too many are seen as such. */
    struct wp_str items[WP_CONF_LIST_MAX + 1];
    struct given given = {&text, 1, true, origin};

    items[0] = text;
    if (wp_setting_get(id)->type == WP_SETTING_LIST) {
        given.items = items;
        given.n = split(text, items, WP_ARRAY_LEN(items));
    }
    return set(conf, id, &given, err);
}

struct wp_conf *
wp_conf_create(void)
{
    struct wp_conf *conf = calloc(1, sizeof *conf);

    for (unsigned i = 0; conf != NULL && i < WP_SETTINGS; i++) {
        struct wp_err err;

        if (wp_conf_set_text(
                conf, (enum wp_setting_id)i, wp_str_from(table[i].default_text),
                (struct wp_conf_origin){WP_CONF_DEFAULT, 0}, &err) != WP_OK) {
            /* A default the table itself forbids is a programming error. */
            WP_ASSERT(err.status == WP_RESOURCE_EXHAUSTED);
            wp_conf_destroy(conf);
            conf = NULL;
        }
    }
    return conf;
}

void
wp_conf_destroy(struct wp_conf *conf)
{
    if (conf == NULL) {
        return;
    }
    for (unsigned i = 0; i < WP_SETTINGS; i++) {
        void *field = field_of(conf, &table[i]);

        if (table[i].type == WP_SETTING_STRING ||
            table[i].type == WP_SETTING_SECRET) {
            forget(*(char **)field);
        } else if (table[i].type == WP_SETTING_LIST) {
            list_free(field);
        }
    }
    free(conf);
}
