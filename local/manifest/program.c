#include "local/manifest/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "local/manifest/expand.h"

/* One program, while its variables are made. */
struct making {
    const struct wp_program *program;
    const struct wp_config_object *objects;
    struct wp_region *region;
    struct wp_err *err;
    uint32_t env_len;
    const char **open; /* Those of env with nothing of a Secret in them. */
    uint32_t open_len;
};

static const char *
no_memory(struct making *making)
{
    (void)wp_err_set(making->err, WP_RESOURCE_EXHAUSTED, "no memory");
    return NULL;
}

static const char *
refuse(struct making *making, const struct wp_variable *variable,
       const char *what)
{
    (void)wp_err_set(
        making->err, WP_INVALID_ARGUMENT, "%s%s '%s' in namespace '%s' %s",
        variable->place,
        variable->from == WP_VARIABLE_SECRET ? "Secret" : "ConfigMap",
        variable->object, making->program->tmpl->template_namespace, what);
    return NULL;
}

/* NULL with err set; or with err->status WP_OK: it is optional, and not there.
 */
static const char *
look_up(struct making *making, const struct wp_variable *variable)
{
    const struct wp_config_object *object = making->objects;
    const struct wp_config_entry *entry;
    const char *text;

    while (object != NULL &&
           (object->secret != (variable->from == WP_VARIABLE_SECRET) ||
            strcmp(object->name, variable->object) != 0 ||
            strcmp(object->object_namespace,
                   making->program->tmpl->template_namespace) != 0)) {
        object = object->next;
    }
    entry = object != NULL ? wp_config_find(object, variable->key) : NULL;
    if (entry == NULL && variable->optional) {
        return NULL;
    }
    if (object == NULL) {
        return refuse(making, variable,
                      "was expected: add it to the manifests");
    }
    if (entry == NULL) {
        return refuse(making, variable, "has not the key that is named");
    }
    if (entry->bytes.len >= WP_TEMPLATE_TEXT_MAX ||
        (entry->bytes.len > 0 &&
         memchr(entry->bytes.ptr, '\0', entry->bytes.len) != NULL)) {
        return refuse(making, variable,
                      "has a value that is too long for a variable, or has a "
                      "zero byte: mount it");
    }
    text = wp_region_str(making->region, entry->bytes);
    return text != NULL ? text : no_memory(making);
}

/* As Kubernetes rounds it. NULL with err set: there is no such limit. */
static const char *
limit_of(struct making *making, const struct wp_variable *variable)
{
    const struct wp_template *tmpl = making->program->tmpl;
    uint64_t limit = strcmp(variable->key, "limits.cpu") == 0
                         ? tmpl->cpu_milli
                         : tmpl->memory_bytes;
    uint64_t parts;
    char text[24];
    const char *value;

    if (limit == 0) {
        (void)wp_err_set(making->err, WP_INVALID_ARGUMENT,
                         "%svalueFrom.resourceFieldRef: the container has no "
                         "%s: give it one, or give a value",
                         variable->place, variable->key);
        return NULL;
    }
    parts = limit / variable->divisor + (limit % variable->divisor > 0 ? 1 : 0);
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)parts);
    value = wp_region_str(making->region, wp_str_from(text));
    return value != NULL ? value : no_memory(making);
}

/* As look_up. */
static const char *
value_of(struct making *making, const struct wp_variable *variable)
{
    const char *value;

    switch (variable->from) {
    case WP_VARIABLE_FIELD:
        return variable->value;
    case WP_VARIABLE_CONFIG_MAP:
    case WP_VARIABLE_SECRET:
        return look_up(making, variable);
    case WP_VARIABLE_LIMIT:
        return limit_of(making, variable);
    case WP_VARIABLE_VALUE:
        break;
    }
    value = wp_expand(making->region, variable->value, making->program->env,
                      WP_TEMPLATE_TEXT_MAX);
    if (value == NULL) {
        (void)wp_err_set(making->err, WP_INVALID_ARGUMENT,
                         "%sthe value is too long", variable->place);
    }
    return value;
}

/* Does text, which comes to full, name a variable of a Secret? */
static bool
is_secret(const struct making *making, const char *text, const char *full)
{
    const char *open =
        wp_expand(making->region, text, making->open, WP_TEMPLATE_TEXT_MAX);

    return open == NULL || strcmp(open, full) != 0;
}

static bool
add_variable(struct making *making, const struct wp_variable *variable)
{
    const char *value = value_of(making, variable);
    char *text;
    size_t size;

    if (value == NULL) {
        return making->err->status == WP_OK;
    }
    size = strlen(variable->name) + strlen(value) + 2;
    text = wp_region_alloc(making->region, size);
    if (text == NULL) {
        return no_memory(making) != NULL;
    }
    (void)snprintf(text, size, "%s=%s", variable->name, value);
    if (variable->from != WP_VARIABLE_SECRET &&
        !(variable->from == WP_VARIABLE_VALUE &&
          is_secret(making, variable->value, value))) {
        making->open[making->open_len++] = text;
    }
    making->program->env[making->env_len++] = text;
    return true;
}

static bool
expand_argument(struct making *making, const char **argument)
{
    const struct wp_program *program = making->program;
    const char *full = wp_expand(making->region, *argument, program->env,
                                 WP_TEMPLATE_TEXT_MAX);

    if (full == NULL) {
        (void)wp_err_set(making->err, WP_INVALID_ARGUMENT,
                         "%san argument is too long", program->place);
        return false;
    }
    if (is_secret(making, *argument, full)) {
        (void)wp_err_set(making->err, WP_INVALID_ARGUMENT,
                         "%scommand, args: '%.60s' names a variable of a "
                         "Secret, and a command line is for all to see: let "
                         "the program read the variable",
                         program->place, *argument);
        return false;
    }
    *argument = full;
    return true;
}

static enum wp_status
resolve(struct making *making)
{
    const struct wp_program *program = making->program;

    for (uint32_t i = 0; i < program->variables_len; i++) {
        if (!add_variable(making, &program->variables[i])) {
            return making->err->status;
        }
    }
    for (const char **argument = program->argv; *argument != NULL; argument++) {
        if (!expand_argument(making, argument)) {
            return making->err->status;
        }
    }
    return WP_OK;
}

enum wp_status
wp_programs_resolve(struct wp_program *programs,
                    const struct wp_config_object *objects,
                    struct wp_region *region, struct wp_err *err)
{
    enum wp_status status = WP_OK;
    struct wp_err own = {.status = WP_OK};

    for (const struct wp_program *program = programs;
         program != NULL && status == WP_OK; program = program->next) {
        struct making making = {.program = program,
                                .objects = objects,
                                .region = region,
                                .err = &own};

        making.open = calloc(program->variables_len + 1, sizeof *making.open);
        if (making.open == NULL) {
            (void)no_memory(&making);
            status = own.status;
        } else {
            status = resolve(&making);
            free(making.open);
        }
    }
    if (status != WP_OK && err != NULL) {
        *err = own;
    }
    return status;
}
