/* local/manifest/security.c - security contexts: what is always so, and what
 * cannot be had. */
#include <string.h>

#include "local/manifest/build.h"

static bool
use_capabilities(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_PLAIN("drop"), /* All are. */
        WP_EMPTY_LIST("add", "leave it out, as no sandbox has capabilities"),
    };

    return WP_DECODE_MAP(d, node, fields, out);
}

static bool
use_seccomp_type(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    (void)out;
    if (!wp_decode_is(d, node, WP_YAML_STRING)) {
        return false;
    }
    return wp_str_is(node->text, "RuntimeDefault") ||
           wp_decode_fail(d, node,
                          "only RuntimeDefault is supported on one machine, not"
                          " '%.40s'",
                          node->text.ptr);
}

static bool
use_seccomp(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("type", use_seccomp_type),
        WP_REFUSED("localhostProfile",
                   "leave it out: one filter holds for every sandbox"),
    };

    return WP_DECODE_MAP(d, node, fields, out);
}

static const struct wp_field container_security_fields[] = {
    /* Always so here, whatever is asked. */
    WP_FALSE("allowPrivilegeEscalation", "leave it out, or say false"),
    WP_PLAIN("runAsNonRoot"),
    WP_PLAIN("readOnlyRootFilesystem"),
    WP_USED("capabilities", use_capabilities),
    WP_USED("seccompProfile", use_seccomp),
    WP_FALSE("privileged", "leave it out, or say false"),
    WP_NOTED("runAsUser"),
    WP_NOTED("runAsGroup"),
    WP_NOTED("appArmorProfile"),
    WP_NOTED("seLinuxOptions"),
    WP_REFUSED("procMount", "leave it out: /proc is the sandbox's own"),
    WP_REFUSED("windowsOptions", "leave it out"),
};

bool
wp_build_container_security(struct wp_decode *d, const struct wp_yaml *node,
                            void *out)
{
    return WP_DECODE_MAP(d, node, container_security_fields, out);
}

bool
wp_build_pod_security(struct wp_decode *d, const struct wp_yaml *node,
                      void *out)
{
    static const struct wp_field fields[] = {
        WP_PLAIN("runAsNonRoot"),
        WP_USED("seccompProfile", use_seccomp),
        WP_NOTED("runAsUser"),
        WP_NOTED("runAsGroup"),
        WP_NOTED("fsGroup"),
        WP_NOTED("fsGroupChangePolicy"),
        WP_NOTED("supplementalGroups"),
        WP_NOTED("supplementalGroupsPolicy"),
        WP_NOTED("appArmorProfile"),
        WP_NOTED("seLinuxOptions"),
        WP_NOTED("seLinuxChangePolicy"),
        WP_REFUSED("sysctls", "leave it out: the kernel is shared"),
        WP_REFUSED("windowsOptions", "leave it out"),
    };

    return WP_DECODE_MAP(d, node, fields, out);
}
