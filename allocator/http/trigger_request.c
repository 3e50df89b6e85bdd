#include "allocator/http/trigger_request.h"

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "pool/base/clock.h"

enum {
    TTL_HOURS = 2, /* Unless it says. */
    HOURS_MAX = (int)(WP_TTL_MAX_NS / (3600 * WP_NS_PER_S)),
    NUMBER_MAX = INT32_MAX,
    BAD_TYPE = 400,
    BAD_FIELD = 422,
};

/* What a type of trigger says, in the order in which it is told. */
struct field {
    const char *key;  /* Of the body. */
    const char *mark; /* Of the claim. */
    /* Where it is missing, empty or 0: NULL: it is needed; "": left out. */
    const char *otherwise;
    bool is_number;
};

static const struct type {
    const char *name;
    const char *prefix; /* Of the claim's name. */
    const char *named;  /* The key whose value is the rest of it. */
    struct field fields[WP_TRIGGER_MARKS_MAX];
} types[] = {
    {"cron",
     "cron-",
     "skill",
     {{"skill", "trigger-skill", NULL, false},
      {"schedule", "trigger-schedule", "manual", false}}},
    {"webhook",
     "gh-",
     "repo",
     {{"event", "trigger-event", NULL, false},
      {"repo", "trigger-repo", NULL, false},
      {"branch", "trigger-branch", "main", false},
      {"pr_number", "trigger-pr", "", true}}},
    {"alert",
     "alert-",
     "alert",
     {{"alert", "trigger-alert", NULL, false},
      {"cluster", "trigger-cluster", "unknown", false},
      {"severity", "trigger-severity", "warning", false}}},
};

static int
refuse(int status, char why[WP_TRIGGER_WHY_MAX], const char *key,
       const char *expected)
{
    (void)snprintf(why, WP_TRIGGER_WHY_MAX, "%s: expected %s", key, expected);
    return status;
}

/* A missing one and null are alike: "". */
static bool
read_text(const json_t *body, const char *key,
          char out[WP_TRIGGER_VALUE_MAX + 1])
{
    const json_t *value = json_object_get(body, key);
    struct wp_str text = {json_string_value(value), json_string_length(value)};

    out[0] = '\0';
    return value == NULL || json_is_null(value) ||
           (json_is_string(value) && wp_str_is_printable(text) &&
            wp_str_copy(text, out, WP_TRIGGER_VALUE_MAX + 1));
}

static bool
read_number(const json_t *body, const char *key, int64_t min, int64_t max,
            int64_t otherwise, int64_t *out)
{
    const json_t *value = json_object_get(body, key);

    *out = otherwise;
    if (value == NULL || json_is_null(value)) {
        return true;
    }
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= min && *out <= max;
}

static int
read_field(const json_t *body, const struct field *field,
           struct wp_trigger *out, char why[WP_TRIGGER_WHY_MAX])
{
    struct wp_trigger_mark *mark = &out->marks[out->n_marks];
    int64_t number = 0;

    if (field->is_number) {
        if (!read_number(body, field->key, 0, NUMBER_MAX, 0, &number)) {
            return refuse(BAD_FIELD, why, field->key,
                          "a whole number from 0 to 2147483647");
        }
        (void)snprintf(mark->value, sizeof mark->value, "%lld",
                       (long long)number);
        if (number == 0) {
            return 0;
        }
    } else if (!read_text(body, field->key, mark->value)) {
        return refuse(BAD_FIELD, why, field->key,
                      "printable text of at most 255 bytes");
    }
    if (mark->value[0] == '\0' && field->otherwise == NULL) {
        return refuse(BAD_FIELD, why, field->key,
                      "a text, since this type needs it");
    }
    if (mark->value[0] == '\0') {
        (void)snprintf(mark->value, sizeof mark->value, "%s", field->otherwise);
    }
    mark->key = field->mark;
    out->n_marks++;
    return 0;
}

static char
label_char(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c - 'A' + 'a');
    }
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
        return c;
    }
    return '-';
}

static void
make_stem(const struct type *type, struct wp_trigger *out)
{
    size_t len = strlen(type->prefix);
    const char *rest = "";

    for (uint32_t i = 0; i < out->n_marks; i++) {
        /* "trigger-" and the key. */
        if (strcmp(strchr(out->marks[i].key, '-') + 1, type->named) == 0) {
            rest = out->marks[i].value;
        }
    }
    memcpy(out->stem, type->prefix, len);
    for (; *rest != '\0' && len < WP_TRIGGER_STEM_MAX; rest++) {
        out->stem[len++] = label_char(*rest);
    }
    out->stem[len] = '\0';
}

static int
read_common(const json_t *body, struct wp_trigger *out,
            char why[WP_TRIGGER_WHY_MAX])
{
    char ns[WP_TRIGGER_VALUE_MAX + 1];
    int64_t hours;

    if (!read_text(body, "namespace", ns) ||
        (ns[0] != '\0' &&
         !wp_str_is_dns_name(wp_str_from(ns), WP_NAMESPACE_MAX))) {
        return refuse(BAD_FIELD, why, "namespace",
                      "a DNS name of at most 63 characters");
    }
    if (!read_number(body, "ttl_hours", 1, HOURS_MAX, TTL_HOURS, &hours)) {
        return refuse(BAD_FIELD, why, "ttl_hours",
                      "a whole number from 1 to 720");
    }
    out->ttl_ns = hours * 3600 * WP_NS_PER_S;
    return wp_str_copy(wp_str_from(ns), out->ns, sizeof out->ns) ? 0
                                                                 : BAD_FIELD;
}

static int
read_typed(const json_t *body, const struct type *type, struct wp_trigger *out,
           char why[WP_TRIGGER_WHY_MAX])
{
    int status = 0;

    out->is_webhook = strcmp(type->name, "webhook") == 0;
    out->marks[0].key = "trigger-type";
    (void)snprintf(out->marks[0].value, sizeof out->marks[0].value, "%s",
                   type->name);
    out->n_marks = 1;
    for (size_t i = 0;
         i < WP_TRIGGER_MARKS_MAX && type->fields[i].key != NULL && status == 0;
         i++) {
        status = read_field(body, &type->fields[i], out, why);
    }
    if (status != 0) {
        return status;
    }
    make_stem(type, out);
    return read_common(body, out, why);
}

int
wp_trigger_read(struct wp_str body, struct wp_trigger *out,
                char why[WP_TRIGGER_WHY_MAX])
{
    json_t *object =
        json_loadb(body.ptr, body.len, JSON_REJECT_DUPLICATES, NULL);
    const struct type *type = NULL;
    char name[WP_TRIGGER_VALUE_MAX + 1] = "";
    int status;

    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < WP_ARRAY_LEN(types) && json_is_object(object) &&
                       read_text(object, "type", name);
         i++) {
        if (strcmp(name, types[i].name) == 0) {
            type = &types[i];
        }
    }
    if (!json_is_object(object)) {
        status = refuse(BAD_FIELD, why, "the body", "a JSON object");
    } else if (type != NULL) {
        status = read_typed(object, type, out, why);
    } else {
        status = refuse(name[0] != '\0' ? BAD_TYPE : BAD_FIELD, why, "type",
                        "cron, webhook or alert");
    }
    json_decref(object);
    return status;
}
