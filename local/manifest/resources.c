/* local/manifest/resources.c - limits, and sizes as Kubernetes writes them. */
#include "local/manifest/build.h"
#include "pool/annotations/quantity.h"

static bool
is_quantity(struct wp_decode *d, const struct wp_yaml *node)
{
    return node->kind == WP_YAML_INT || node->kind == WP_YAML_FLOAT ||
           wp_decode_is(d, node, WP_YAML_STRING);
}

static bool
use_cpu(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;
    uint64_t milli;

    if (!is_quantity(d, node)) {
        return false;
    }
    if (!wp_quantity_milli(node->text, &milli) || milli < 1 ||
        milli > 1000 * 1000) {
        return wp_decode_fail(
            d, node,
            "a quantity of CPU such as 500m or 2 was expected,"
            " not '%.40s'",
            node->text.ptr);
    }
    b->tmpl->cpu_milli = (uint32_t)milli;
    return true;
}

bool
wp_build_size(struct wp_decode *d, const struct wp_yaml *node, uint64_t *out)
{
    if (!is_quantity(d, node)) {
        return false;
    }
    return (wp_quantity_whole(node->text, out) && *out >= 4096) ||
           wp_decode_fail(d, node,
                          "a number of bytes such as 256Mi or 1G (at least 4Ki)"
                          " was expected, not '%.40s'",
                          node->text.ptr);
}

static bool
use_memory(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    return wp_build_size(d, node, &b->tmpl->memory_bytes);
}

static bool
use_limits(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_USED("cpu", use_cpu),
        WP_USED("memory", use_memory),
        WP_NOTED("ephemeral-storage"),
    };

    return WP_DECODE_MAP(d, node, fields, out);
}

bool
wp_build_resources(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_USED("limits", use_limits),
        /* What a scheduler needs; there is one machine only. */
        WP_PLAIN("requests"),
        WP_REFUSED("claims", "use cpu and memory"),
    };

    return WP_DECODE_MAP(d, node, fields, out);
}
