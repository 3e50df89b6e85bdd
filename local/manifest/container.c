/* local/manifest/container.c - the one container: command, environment, limits.
 */
#include <stdio.h>
#include <string.h>

#include "local/manifest/expand.h"
#include "local/manifest/build.h"

/* --- command, args, env --- */

static bool
use_image(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    return wp_decode_text(d, node, WP_BUILD_IMAGE_MAX, &b->tmpl->image) &&
           (*b->tmpl->image != '\0' ||
            wp_decode_fail(d, node, "the name of an image was expected"));
}

static bool
add_command(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    return wp_decode_text(d, node, WP_TEMPLATE_TEXT_MAX,
                          &b->command[b->command_len++]);
}

static bool
use_command(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    b->command = wp_decode_reserve(
        d, node, (WP_TEMPLATE_ARGS_MAX + 1) * sizeof *b->command);
    return b->command != NULL &&
           wp_decode_list(d, node, WP_TEMPLATE_ARGS_MAX, add_command, b);
}

static bool
add_arg(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    return wp_decode_text(d, node, WP_TEMPLATE_TEXT_MAX,
                          &b->args[b->args_len++]);
}

static bool
use_args(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    b->args = wp_decode_reserve(d, node,
                                (WP_TEMPLATE_ARGS_MAX + 1) * sizeof *b->args);
    return b->args != NULL &&
           wp_decode_list(d, node, WP_TEMPLATE_ARGS_MAX, add_arg, b);
}

struct env_entry {
    const char *name;
    const char *value;
};

static bool
use_env_name(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct env_entry *entry = out;

    if (!wp_decode_text(d, node, 255, &entry->name)) {
        return false;
    }
    return (*entry->name != '\0' && strchr(entry->name, '=') == NULL &&
            wp_str_is_printable(node->text)) ||
           wp_decode_fail(d, node, "the name of a variable was expected");
}

static bool
use_env_value(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct env_entry *entry = out;

    return wp_decode_text(d, node, WP_TEMPLATE_TEXT_MAX, &entry->value);
}

static bool
add_env(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("name", use_env_name),
        WP_USED("value", use_env_value),
        WP_REFUSED("valueFrom", "give a value"),
    };
    struct wp_build *b = out;
    struct env_entry entry = {NULL, ""};
    const char *value;
    char *text;
    size_t size;

    if (!WP_DECODE_MAP(d, node, fields, &entry)) {
        return false;
    }
    /* As in Kubernetes, a value may name the variables before it. */
    value = wp_expand(d->region, entry.value, b->env, WP_TEMPLATE_TEXT_MAX);
    if (value == NULL) {
        return wp_decode_fail(d, node, "the value is too long");
    }
    size = strlen(entry.name) + strlen(value) + 2;
    text = wp_decode_reserve(d, node, size);
    if (text == NULL) {
        return false;
    }
    (void)snprintf(text, size, "%s=%s", entry.name, value);
    b->env[b->env_len++] = text;
    return true;
}

static bool
use_env(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    return wp_decode_list(d, node, WP_TEMPLATE_ENV_MAX, add_env, out);
}

static bool
use_working_dir(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    return wp_decode_text(d, node, WP_BUILD_PATH_MAX_BYTES,
                          &b->tmpl->working_dir) &&
           (b->tmpl->working_dir[0] == '/' ||
            wp_decode_fail(d, node, "an absolute path was expected"));
}

/* --- The container --- */

bool
wp_build_container(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_PLAIN("name"),
        WP_REQUIRED("image", use_image),
        WP_REQUIRED("command", use_command),
        WP_USED("args", use_args),
        WP_USED("env", use_env),
        WP_USED("workingDir", use_working_dir),
        WP_USED("ports", wp_build_ports),
        WP_USED("readinessProbe", wp_build_readiness_probe),
        WP_USED("resources", wp_build_resources),
        WP_USED("volumeMounts", wp_build_volume_mounts),
        WP_USED("securityContext", wp_build_container_security),
        WP_NOTED("imagePullPolicy"),
        WP_NOTED("livenessProbe"),
        WP_NOTED("startupProbe"),
        WP_NOTED("lifecycle"),
        WP_NOTED("resizePolicy"),
        WP_NOTED("restartPolicy"),
        WP_NOTED("stdin"),
        WP_NOTED("stdinOnce"),
        WP_NOTED("tty"),
        WP_NOTED("terminationMessagePath"),
        WP_NOTED("terminationMessagePolicy"),
        WP_REFUSED("envFrom", "name the variables in env, with their values"),
        WP_REFUSED("volumeDevices", "use an emptyDir volume"),
    };
    struct wp_build *b = out;

    if (b->has_container) {
        return wp_decode_fail(d, node,
                              "more than one container is not supported on one"
                              " machine: let this one's command start what it"
                              " needs beside it");
    }
    b->has_container = true;
    return WP_DECODE_MAP(d, node, fields, b);
}

bool
wp_build_resolve_argv(struct wp_decode *d, const struct wp_yaml *spec,
                      struct wp_build *b)
{
    uint32_t total = b->command_len + b->args_len;
    const char **argv = wp_decode_reserve(d, spec, (total + 1) * sizeof *argv);

    if (argv == NULL) {
        return false;
    }
    if (b->command_len == 0 || b->command[0][0] == '\0') {
        return wp_decode_fail(
            d, spec,
            "podTemplate.spec.containers[0].command: a program"
            " was expected: an image has no entry point on one"
            " machine");
    }
    for (uint32_t i = 0; i < total; i++) {
        const char *raw =
            i < b->command_len ? b->command[i] : b->args[i - b->command_len];

        argv[i] = wp_expand(d->region, raw, b->env, WP_TEMPLATE_TEXT_MAX);
        if (argv[i] == NULL) {
            return wp_decode_fail(d, spec, "an argument is too long");
        }
    }
    b->tmpl->argv = argv;
    b->tmpl->env = b->env;
    return true;
}
