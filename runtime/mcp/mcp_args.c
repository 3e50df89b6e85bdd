#include "runtime/mcp/mcp_args.h"

#include <math.h>
#include <string.h>

/* About 31 years in milliseconds: more is as good as none. */
#define WHOLE_MAX 1e12

static const struct {
    const char *schema;
    const char *expected;
} types[] = {
    [WP_MCP_ARG_STRING] = {"string", "a string without NUL"},
    [WP_MCP_ARG_CONTENT] = {"string", "a string"},
    [WP_MCP_ARG_WHOLE] = {"integer", "a whole number"},
};

json_t *
wp_mcp_args_schema(const struct wp_mcp_arg *args)
{
    json_t *properties = json_object();
    json_t *required = json_array();
    json_t *schema;

    for (const struct wp_mcp_arg *arg = args; arg->name != NULL; arg++) {
        json_object_set_new(properties, arg->name,
                            json_pack("{s:s, s:s}", "type",
                                      types[arg->type].schema, "description",
                                      arg->description));
        if (arg->required) {
            json_array_append_new(required, json_string(arg->name));
        }
    }
    schema = json_pack("{s:s, s:o, s:b}", "type", "object", "properties",
                       properties, "additionalProperties", 0);
    if (json_array_size(required) > 0) {
        json_object_set(schema, "required", required);
    }
    json_decref(required);
    return schema;
}

static const struct wp_mcp_arg *
arg_named(const struct wp_mcp_arg *args, const char *name)
{
    for (const struct wp_mcp_arg *arg = args; arg->name != NULL; arg++) {
        if (strcmp(arg->name, name) == 0) {
            return arg;
        }
    }
    return NULL;
}

static bool
fits(const struct wp_mcp_arg *arg, const json_t *value)
{
    switch (arg->type) {
    case WP_MCP_ARG_STRING:
        return json_is_string(value) &&
               strlen(json_string_value(value)) == json_string_length(value);
    case WP_MCP_ARG_CONTENT:
        return json_is_string(value);
    case WP_MCP_ARG_WHOLE:
        return json_is_integer(value) ||
               (json_is_real(value) &&
                trunc(json_real_value(value)) == json_real_value(value));
    }
    return false;
}

enum wp_status
wp_mcp_args_check(const struct wp_mcp_arg *args, json_t *given,
                  struct wp_err *err)
{
    const char *name;
    json_t *value;

    json_object_foreach(given, name, value)
    {
        const struct wp_mcp_arg *arg = arg_named(args, name);

        if (arg == NULL) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "arguments.%s: no argument of that name is taken",
                              name);
        }
        if (!fits(arg, value)) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "arguments.%s: %s is required", name,
                              types[arg->type].expected);
        }
    }
    for (const struct wp_mcp_arg *arg = args; arg->name != NULL; arg++) {
        if (arg->required && json_object_get(given, arg->name) == NULL) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "arguments.%s: it is missing, %s is required",
                              arg->name, types[arg->type].expected);
        }
    }
    return WP_OK;
}

const char *
wp_mcp_arg_string(const json_t *given, const char *name)
{
    const char *text = json_string_value(json_object_get(given, name));

    return text != NULL ? text : "";
}

int64_t
wp_mcp_arg_whole(const json_t *given, const char *name)
{
    double number = json_number_value(json_object_get(given, name));

    if (number > WHOLE_MAX) {
        return (int64_t)WHOLE_MAX;
    }
    return number < -WHOLE_MAX ? (int64_t)-WHOLE_MAX : (int64_t)number;
}
