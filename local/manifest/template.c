/* local/manifest/template.c - the spec of a SandboxTemplate to struct
 * wp_template.
 *
 * The tables hold every field of the v1beta1 template and of the parts of a Pod
 * below it, so that a valid manifest is read whole and a mistyped one is not.
 */
#include "local/manifest/build.h"

static bool
use_containers(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    return wp_decode_list(d, node, UINT32_MAX, wp_build_container, out) &&
           (b->has_container ||
            wp_decode_fail(d, node, "one container was expected"));
}

static bool
use_runtime_class(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    if (!wp_decode_is(d, node, WP_YAML_STRING)) {
        return false;
    }
    if (!wp_str_is(node->text, "gvisor")) {
        return wp_decode_fail(d, node,
                              "on one machine 'gvisor', or none for bubblewrap,"
                              " was expected, not '%.40s'",
                              node->text.ptr);
    }
    b->tmpl->runtime_class = WP_RUNTIME_GVISOR;
    return true;
}

static bool
use_pod_spec(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("containers", use_containers),
        WP_USED("volumes", wp_build_volumes),
        WP_USED("runtimeClassName", use_runtime_class),
        WP_USED("securityContext", wp_build_pod_security),
        WP_FALSE("hostNetwork",
                 "leave it out, as a sandbox has a network of its own"),
        WP_FALSE("hostPID",
                 "leave it out, as a sandbox has processes of its own"),
        WP_FALSE("hostIPC", "leave it out, as a sandbox has IPC of its own"),
        WP_FALSE("shareProcessNamespace",
                 "leave it out, as a sandbox has one container"),
        WP_USED("initContainers", wp_build_init_containers),
        WP_EMPTY_LIST("ephemeralContainers", "use warmpoolctl exec"),
        WP_EMPTY_LIST("resourceClaims", "use cpu and memory"),
        WP_NOTED("activeDeadlineSeconds"),
        WP_NOTED("affinity"),
        WP_NOTED("automountServiceAccountToken"),
        WP_NOTED("dnsConfig"),
        WP_NOTED("dnsPolicy"),
        WP_NOTED("enableServiceLinks"),
        WP_NOTED("hostAliases"),
        WP_NOTED("hostUsers"),
        WP_NOTED("hostname"),
        WP_NOTED("imagePullSecrets"),
        WP_NOTED("nodeName"),
        WP_NOTED("nodeSelector"),
        WP_NOTED("os"),
        WP_NOTED("overhead"),
        WP_NOTED("preemptionPolicy"),
        WP_NOTED("priority"),
        WP_NOTED("priorityClassName"),
        WP_NOTED("readinessGates"),
        WP_NOTED("resources"),
        WP_NOTED("restartPolicy"),
        WP_NOTED("schedulerName"),
        WP_NOTED("schedulingGates"),
        WP_NOTED("serviceAccount"),
        WP_NOTED("serviceAccountName"),
        WP_NOTED("setHostnameAsFQDN"),
        WP_NOTED("subdomain"),
        WP_NOTED("terminationGracePeriodSeconds"),
        WP_NOTED("tolerations"),
        WP_NOTED("topologySpreadConstraints"),
    };

    return WP_DECODE_MAP(d, node, fields, out);
}

static bool
use_pod_template(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("spec", use_pod_spec),
        WP_PLAIN("metadata"), /* For variables, which may name its labels. */
    };
    struct wp_build *b = out;

    b->metadata = wp_yaml_find(node, "metadata");
    return WP_DECODE_MAP(d, node, fields, out);
}

static const struct wp_field template_fields[] = {
    WP_REQUIRED("podTemplate", use_pod_template),
    WP_EMPTY_LIST("volumeClaimTemplates", "use an emptyDir volume"),
    WP_NOTED("service"),
    WP_NOTED("networkPolicy"),
    WP_NOTED("networkPolicyManagement"),
    WP_NOTED("envVarsInjectionPolicy"),
    WP_NOTED("volumeClaimTemplatesPolicy"),
};

/* Its programs run where warmpool-init does not. */
static bool
check_gvisor(struct wp_decode *d, const struct wp_yaml *spec,
             const struct wp_template *tmpl)
{
    if (tmpl->runtime_class != WP_RUNTIME_GVISOR) {
        return true;
    }
    if (tmpl->inits_len > 0) {
        return wp_decode_fail(d, spec,
                              "podTemplate.spec.initContainers: not supported"
                              " with runtimeClassName gvisor on one machine:"
                              " let the command prepare it first");
    }
    return tmpl->probe != WP_READY_EXEC ||
           wp_decode_fail(d, spec,
                          "podTemplate.spec.containers[0].readinessProbe.exec:"
                          " not supported with runtimeClassName gvisor on one"
                          " machine: use httpGet or tcpSocket");
}

/* In front of the others; a template's stay together. */
static void
add_file_mounts(struct wp_file_mount **waits, struct wp_file_mount *mounts)
{
    struct wp_file_mount **end = &mounts;

    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = *waits;
    *waits = mounts;
}

static void
add_programs(struct wp_program **waits, struct wp_program *programs)
{
    struct wp_program **end = &programs;

    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = *waits;
    *waits = programs;
}

bool
wp_manifest_template(struct wp_decode *d, const struct wp_yaml *spec,
                     struct wp_template *tmpl, struct wp_manifest_waits *waits)
{
    struct wp_build b = {.tmpl = tmpl};
    size_t mark = wp_decode_enter(d, WP_STR("spec"));

    b.program = &b.container;
    b.container.env = wp_decode_reserve(d, spec, sizeof *b.container.env);
    if (b.container.env == NULL ||
        !WP_DECODE_MAP(d, spec, template_fields, &b) ||
        !wp_build_resolve_mounts(d, spec, &b) ||
        !wp_build_resolve_inits(d, spec, &b)) {
        return false;
    }
    if (!wp_build_end_program(d, &b, spec, &b.container, "containers[0]") ||
        !wp_build_resolve_port(d, spec, &b) || !check_gvisor(d, spec, tmpl)) {
        return false;
    }
    tmpl->argv = b.programs->argv;
    tmpl->image = b.container.image;
    tmpl->env = b.container.env;
    tmpl->working_dir = b.container.working_dir;
    add_file_mounts(&waits->file_mounts, b.file_mounts);
    add_programs(&waits->programs, b.programs);
    wp_decode_leave(d, mark);
    return true;
}
