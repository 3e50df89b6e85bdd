/* local/manifest/init_container.c - what runs to its end before the container.
 *
 * On one machine it runs in the container's sandbox, one after the other: so it
 * has the container's image, and sees its files where the container does. */
#include <stdio.h>
#include <string.h>

#include "local/manifest/build.h"

enum {
    WHERE_MAX = 40,
};

#define TO_ITS_END "leave it out: an init container runs to its end"

static bool
use_name(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    return wp_decode_text(d, node, 63, &b->program->name) &&
           (wp_str_is_dns_name(node->text, 63) ||
            wp_decode_fail(d, node, "a DNS label was expected"));
}

static bool
use_restart_policy(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const char *const words[] = {"Never", "OnFailure", "Always", NULL};
    size_t index;

    (void)out;
    return wp_decode_word(d, node, words, &index) &&
           (index < 2 ||
            wp_decode_fail(d, node,
                           "a sidecar is not supported on one machine: let the"
                           " container's command start it"));
}

static bool
add_init(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("name", use_name),
        WP_REQUIRED("image", wp_build_image),
        WP_REQUIRED("command", wp_build_command),
        WP_USED("args", wp_build_args),
        WP_USED("env", wp_build_env),
        WP_USED("workingDir", wp_build_working_dir),
        WP_USED("volumeMounts", wp_build_volume_mounts),
        WP_USED("securityContext", wp_build_container_security),
        WP_USED("restartPolicy", use_restart_policy),
        WP_PLAIN("ports"),
        WP_NOTED("resources"),
        WP_NOTED("imagePullPolicy"),
        WP_NOTED("resizePolicy"),
        WP_NOTED("stdin"),
        WP_NOTED("stdinOnce"),
        WP_NOTED("tty"),
        WP_NOTED("terminationMessagePath"),
        WP_NOTED("terminationMessagePolicy"),
        WP_REFUSED("lifecycle", TO_ITS_END),
        WP_REFUSED("livenessProbe", TO_ITS_END),
        WP_REFUSED("readinessProbe", TO_ITS_END),
        WP_REFUSED("startupProbe", TO_ITS_END),
        WP_REFUSED("envFrom", "name the variables in env, with their values, or"
                              " mount the ConfigMap or Secret"),
        WP_REFUSED("volumeDevices", "use an emptyDir volume"),
    };
    struct wp_build *b = out;
    struct wp_build_program *program = &b->inits[b->inits_len];
    bool read;

    *program = (struct wp_build_program){
        .node = node, .env = wp_decode_reserve(d, node, sizeof *program->env)};
    if (program->env == NULL) {
        return false;
    }
    b->program = program;
    read = WP_DECODE_MAP(d, node, fields, b);
    b->program = &b->container;
    for (uint32_t i = 0; read && i < b->inits_len; i++) {
        if (strcmp(b->inits[i].name, program->name) == 0) {
            return wp_decode_fail(d, node, "a second init container '%s'",
                                  program->name);
        }
    }
    b->inits_len++;
    return read;
}

bool
wp_build_init_containers(struct wp_decode *d, const struct wp_yaml *node,
                         void *out)
{
    return wp_decode_list(d, node, WP_TEMPLATE_INITS_MAX, add_init, out);
}

bool
wp_build_resolve_inits(struct wp_decode *d, const struct wp_yaml *spec,
                       struct wp_build *b)
{
    struct wp_template_init *inits =
        wp_decode_reserve(d, spec, (b->inits_len + 1) * sizeof *inits);

    if (inits == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < b->inits_len; i++) {
        const struct wp_build_program *program = &b->inits[i];
        char where[WHERE_MAX];

        (void)snprintf(where, sizeof where, "initContainers[%u]", i);
        if (strcmp(program->image, b->container.image) != 0) {
            return wp_decode_fail(
                d, program->node,
                "podTemplate.spec.%s.image: the container's image '%.60s' was"
                " expected: on one machine an init container runs in the"
                " container's sandbox",
                where, b->container.image);
        }
        if (!wp_build_end_program(d, b, program->node, program, where)) {
            return false;
        }
        inits[i] = (struct wp_template_init){
            .name = program->name,
            .argv = b->programs->argv,
            .env = program->env,
            .working_dir = program->working_dir,
        };
    }
    b->tmpl->inits = inits;
    b->tmpl->inits_len = b->inits_len;
    return true;
}
