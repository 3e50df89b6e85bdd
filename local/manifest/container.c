/* local/manifest/container.c - the one container, and what any container runs.
 */
#include "local/manifest/build.h"

/* --- command, args --- */

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
    return WP_DECODE_MAP(d, node, fields, b);
}

bool
wp_build_end_program(struct wp_decode *d, struct wp_build *b,
                     const struct wp_yaml *node,
                     const struct wp_build_program *from, const char *where)
{
    uint32_t total = from->command_len + from->args_len;
    const char **argv = wp_decode_reserve(d, node, (total + 1) * sizeof *argv);
    struct wp_program *program = wp_decode_reserve(d, node, sizeof *program);

    if (argv == NULL || program == NULL) {
        return false;
    }
    if (from->command_len == 0 || from->command[0][0] == '\0') {
        return wp_decode_fail(d, node,
                              "podTemplate.spec.%s.command: a program"
                              " was expected: an image has no entry point on"
                              " one machine",
                              where);
    }
    for (uint32_t i = 0; i < total; i++) {
        argv[i] = i < from->command_len ? from->command[i]
                                        : from->args[i - from->command_len];
    }
    *program = (struct wp_program){
        .next = b->programs,
        .tmpl = b->tmpl,
        .variables = from->variables,
        .variables_len = from->variables_len,
        .env = from->env,
        .argv = argv,
        .place = wp_decode_place(d, node),
    };
    b->programs = program;
    return program->place != NULL;
}
