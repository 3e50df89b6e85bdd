/* local/manifest/env.c - a container's variables, as the template says them. */
#include <string.h>

#include "local/manifest/build.h"
#include "pool/annotations/quantity.h"

/* A variable that is being read. */
struct reading {
    struct wp_build *b;
    struct wp_variable *variable;
    const struct wp_yaml *node;    /* Of valueFrom. */
    const struct wp_yaml *divisor; /* NULL: none. */
    uint32_t sources;
    bool has_value;
};

static bool
use_name(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct reading *reading = out;
    const char *name;

    if (!wp_decode_text(d, node, 255, &name)) {
        return false;
    }
    reading->variable->name = name;
    return (*name != '\0' && strchr(name, '=') == NULL &&
            wp_str_is_printable(node->text)) ||
           wp_decode_fail(d, node, "the name of a variable was expected");
}

static bool
use_value(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct reading *reading = out;

    reading->has_value = node->kind != WP_YAML_NULL && node->text.len > 0;
    return wp_decode_text(d, node, WP_TEMPLATE_TEXT_MAX,
                          &reading->variable->value);
}

/* --- A key of a ConfigMap or a Secret --- */

static bool
use_object(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct reading *reading = out;

    return wp_decode_text(d, node, 253, &reading->variable->object) &&
           (reading->variable->object[0] != '\0' ||
            wp_decode_fail(d, node, "the name of an object was expected"));
}

static bool
use_key(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct reading *reading = out;

    return wp_decode_text(d, node, WP_CONFIG_KEY_MAX, &reading->variable->key);
}

static bool
use_optional(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct reading *reading = out;

    return wp_decode_bool(d, node, &reading->variable->optional);
}

static bool
use_key_ref(struct wp_decode *d, const struct wp_yaml *node,
            struct reading *reading, enum wp_variable_from from)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("name", use_object),
        WP_REQUIRED("key", use_key),
        WP_USED("optional", use_optional),
    };

    reading->sources++;
    reading->variable->from = from;
    return WP_DECODE_MAP(d, node, fields, reading);
}

static bool
use_config_map_key(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    return use_key_ref(d, node, out, WP_VARIABLE_CONFIG_MAP);
}

static bool
use_secret_key(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    return use_key_ref(d, node, out, WP_VARIABLE_SECRET);
}

/* --- A field of the Pod --- */

/* KEY of "metadata.MAP['KEY']"; ptr is NULL when text is not that. */
static struct wp_str
key_within(struct wp_str text, const char *head)
{
    size_t len = strlen(head);

    if (text.len < len + 2 || memcmp(text.ptr, head, len) != 0 ||
        memcmp(text.ptr + text.len - 2, "']", 2) != 0) {
        return (struct wp_str){NULL, 0};
    }
    return (struct wp_str){text.ptr + len, text.len - len - 2};
}

/* What podTemplate.metadata has under that key; "", as in Kubernetes, when it
 * has none. */
static bool
use_metadata(struct wp_decode *d, struct reading *reading, const char *map,
             struct wp_str key)
{
    const struct wp_yaml *metadata = reading->b->metadata;
    const struct wp_yaml *child =
        metadata != NULL ? wp_yaml_find(metadata, map) : NULL;

    child = child != NULL ? child->first : NULL;
    while (child != NULL && !wp_str_eq(child->key, key)) {
        child = child->next;
    }
    reading->variable->value = "";
    return child == NULL || child->kind == WP_YAML_NULL ||
           wp_decode_text(d, child, WP_TEMPLATE_TEXT_MAX,
                          &reading->variable->value);
}

static bool
use_field_path(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct {
        const char *head;
        const char *map;
    } maps[] = {{"metadata.labels['", "labels"},
                {"metadata.annotations['", "annotations"}};
    struct reading *reading = out;

    if (!wp_decode_is(d, node, WP_YAML_STRING)) {
        return false;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(maps); i++) {
        struct wp_str key = key_within(node->text, maps[i].head);

        if (key.ptr != NULL) {
            return use_metadata(d, reading, maps[i].map, key);
        }
    }
    if (wp_str_is(node->text, "metadata.namespace")) {
        reading->variable->value = reading->b->tmpl->template_namespace;
        return true;
    }
    if (wp_str_is(node->text, "metadata.name") ||
        wp_str_is(node->text, "metadata.uid")) {
        return wp_decode_fail(
            d, node,
            "known only when a sandbox starts: let the program read"
            " %s",
            wp_str_is(node->text, "metadata.name") ? "WARMPOOL_SANDBOX"
                                                   : "WARMPOOL_SANDBOX_UID");
    }
    return wp_decode_fail(d, node,
                          "metadata.namespace, metadata.labels['KEY'] or"
                          " metadata.annotations['KEY'] was expected: give a"
                          " value");
}

static bool
use_field_ref(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("fieldPath", use_field_path),
        WP_PLAIN("apiVersion"),
    };
    struct reading *reading = out;

    reading->sources++;
    reading->variable->from = WP_VARIABLE_FIELD;
    return WP_DECODE_MAP(d, node, fields, reading);
}

/* --- A limit --- */

static bool
use_resource(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const char *const words[] = {"limits.cpu", "limits.memory", NULL};
    struct reading *reading = out;
    size_t index;

    if (!wp_decode_word(d, node, words, &index)) {
        return false;
    }
    reading->variable->key = words[index];
    return true;
}

/* Checked when it is known of which resource it is. */
static bool
use_divisor(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct reading *reading = out;

    (void)d;
    reading->divisor = node;
    return true;
}

/* NULL: one processor, or one byte. */
static bool
read_divisor(struct wp_decode *d, const struct wp_yaml *node,
             struct wp_variable *variable)
{
    bool cpu = strcmp(variable->key, "limits.cpu") == 0;
    bool ok;

    variable->divisor = cpu ? 1000 : 1;
    if (node == NULL) {
        return true;
    }
    ok = wp_yaml_is_scalar(node) &&
         (cpu ? wp_quantity_milli(node->text, &variable->divisor)
              : wp_quantity_whole(node->text, &variable->divisor));
    return (ok && variable->divisor > 0) ||
           wp_decode_fail(d, node,
                          "divisor: a quantity such as 1m or 1Mi was expected");
}

static bool
use_resource_field_ref(struct wp_decode *d, const struct wp_yaml *node,
                       void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("resource", use_resource), WP_USED("divisor", use_divisor),
        WP_PLAIN("containerName"), /* There is one that has limits. */
    };
    struct reading *reading = out;
    struct wp_variable *variable = reading->variable;

    reading->sources++;
    variable->from = WP_VARIABLE_LIMIT;
    return WP_DECODE_MAP(d, node, fields, reading) &&
           read_divisor(d, reading->divisor, variable);
}

/* --- Where it comes from --- */

static bool
use_value_from(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_USED("configMapKeyRef", use_config_map_key),
        WP_USED("secretKeyRef", use_secret_key),
        WP_USED("fieldRef", use_field_ref),
        WP_USED("resourceFieldRef", use_resource_field_ref),
        WP_REFUSED("fileKeyRef", "give the value, or mount the file"),
    };
    struct reading *reading = out;

    reading->node = node;
    return WP_DECODE_MAP(d, node, fields, reading) &&
           (reading->sources == 1 ||
            wp_decode_fail(d, node,
                           "one of configMapKeyRef, secretKeyRef, fieldRef and"
                           " resourceFieldRef was expected"));
}

static bool
add_variable(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("name", use_name),
        WP_USED("value", use_value),
        WP_USED("valueFrom", use_value_from),
    };
    struct wp_build_program *program = ((struct wp_build *)out)->program;
    struct wp_variable *variable = &program->variables[program->variables_len];
    struct reading reading = {.b = out, .variable = variable};

    variable->value = "";
    if (!WP_DECODE_MAP(d, node, fields, &reading)) {
        return false;
    }
    if (reading.has_value && reading.node != NULL) {
        return wp_decode_fail(d, reading.node, "valueFrom: not beside a value");
    }
    variable->place = wp_decode_place(d, node);
    program->variables_len++;
    return variable->place != NULL;
}

bool
wp_build_env(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;
    struct wp_build_program *program = b->program;
    size_t room = wp_decode_count(node, WP_TEMPLATE_ENV_MAX) + 1;

    program->variables =
        wp_decode_reserve(d, node, room * sizeof *program->variables);
    program->env = wp_decode_reserve(d, node, room * sizeof *program->env);
    return program->variables != NULL && program->env != NULL &&
           wp_decode_list(d, node, WP_TEMPLATE_ENV_MAX, add_variable, out);
}
