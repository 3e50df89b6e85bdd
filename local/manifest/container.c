/* local/manifest/container.c - the one container, and what any container runs:
 * command, environment. */
#include <stdio.h>
#include <string.h>

#include "local/manifest/expand.h"
#include "local/manifest/build.h"

/* --- command, args, env --- */

bool
wp_build_image(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    return wp_decode_text(d, node, WP_BUILD_IMAGE_MAX, &b->program->image) &&
           (*b->program->image != '\0' ||
            wp_decode_fail(d, node, "the name of an image was expected"));
}

/* A list that is being read. */
struct texts {
    const char **texts;
    uint32_t len;
};

static bool
add_text(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct texts *texts = out;

    return wp_decode_text(d, node, WP_TEMPLATE_TEXT_MAX,
                          &texts->texts[texts->len++]);
}

bool
wp_build_texts(struct wp_decode *d, const struct wp_yaml *node,
               const char ***out, uint32_t *len)
{
    struct texts texts = {.len = 0};

    texts.texts =
        wp_decode_reserve(d, node,
                          (wp_decode_count(node, WP_TEMPLATE_ARGS_MAX) + 1) *
                              sizeof *texts.texts);
    if (texts.texts == NULL ||
        !wp_decode_list(d, node, WP_TEMPLATE_ARGS_MAX, add_text, &texts)) {
        return false;
    }
    *out = texts.texts;
    *len = texts.len;
    return true;
}

bool
wp_build_command(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    return wp_build_texts(d, node, &b->program->command,
                          &b->program->command_len);
}

bool
wp_build_args(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    return wp_build_texts(d, node, &b->program->args, &b->program->args_len);
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
        WP_REFUSED("valueFrom",
                   "give a value, or mount the ConfigMap or Secret"),
    };
    struct wp_build_program *program = ((struct wp_build *)out)->program;
    struct env_entry entry = {NULL, ""};
    const char *value;
    char *text;
    size_t size;

    if (!WP_DECODE_MAP(d, node, fields, &entry)) {
        return false;
    }
    /* As in Kubernetes, a value may name the variables before it. */
    value =
        wp_expand(d->region, entry.value, program->env, WP_TEMPLATE_TEXT_MAX);
    if (value == NULL) {
        return wp_decode_fail(d, node, "the value is too long");
    }
    size = strlen(entry.name) + strlen(value) + 2;
    text = wp_decode_reserve(d, node, size);
    if (text == NULL) {
        return false;
    }
    (void)snprintf(text, size, "%s=%s", entry.name, value);
    program->env[program->env_len++] = text;
    return true;
}

bool
wp_build_env(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    b->program->env =
        wp_decode_reserve(d, node,
                          (wp_decode_count(node, WP_TEMPLATE_ENV_MAX) + 1) *
                              sizeof *b->program->env);
    return b->program->env != NULL &&
           wp_decode_list(d, node, WP_TEMPLATE_ENV_MAX, add_env, out);
}

bool
wp_build_working_dir(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    return wp_decode_text(d, node, WP_BUILD_PATH_MAX_BYTES,
                          &b->program->working_dir) &&
           (b->program->working_dir[0] == '/' ||
            wp_decode_fail(d, node, "an absolute path was expected"));
}

/* --- The container --- */

bool
wp_build_container(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_PLAIN("name"),
        WP_REQUIRED("image", wp_build_image),
        WP_REQUIRED("command", wp_build_command),
        WP_USED("args", wp_build_args),
        WP_USED("env", wp_build_env),
        WP_USED("workingDir", wp_build_working_dir),
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
        WP_REFUSED("envFrom", "name the variables in env, with their values, or"
                              " mount the ConfigMap or Secret"),
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
    b->program = &b->container;
    return WP_DECODE_MAP(d, node, fields, b);
}

const char **
wp_build_resolve_argv(struct wp_decode *d, const struct wp_yaml *spec,
                      const struct wp_build_program *program, const char *where)
{
    uint32_t total = program->command_len + program->args_len;
    const char **argv = wp_decode_reserve(d, spec, (total + 1) * sizeof *argv);

    if (argv == NULL) {
        return NULL;
    }
    if (program->command_len == 0 || program->command[0][0] == '\0') {
        (void)wp_decode_fail(d, spec,
                             "podTemplate.spec.%s.command: a program"
                             " was expected: an image has no entry point on one"
                             " machine",
                             where);
        return NULL;
    }
    for (uint32_t i = 0; i < total; i++) {
        const char *raw = i < program->command_len
                              ? program->command[i]
                              : program->args[i - program->command_len];

        argv[i] = wp_expand(d->region, raw, program->env, WP_TEMPLATE_TEXT_MAX);
        if (argv[i] == NULL) {
            (void)wp_decode_fail(d, spec, "an argument is too long");
            return NULL;
        }
    }
    return argv;
}
