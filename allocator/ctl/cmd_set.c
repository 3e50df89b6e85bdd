/* set: a pool's target and its scaling policy. */
#include "allocator/ctl/policy.h"

#include <string.h>

#include "allocator/ctl/calls.h"
#include "allocator/ctl/commands.h"
#include "allocator/ctl/print.h"

enum {
    FIELD = 10, /* Width of the titles. */
};

json_t *
wp_ctl_policy_json(const struct wp_wire_pool_detail *detail)
{
    json_t *policy = json_object();

    for (uint32_t i = 0; i < detail->n_autoscale; i++) {
        (void)json_object_set_new(
            policy, detail->autoscale[i].key.ptr,
            wp_ctl_json_text(detail->autoscale[i].value.ptr));
    }
    return policy;
}

void
wp_ctl_print_policy(FILE *out, int width,
                    const struct wp_wire_pool_detail *detail)
{
    for (uint32_t i = 0; i < detail->n_autoscale; i++) {
        wp_print_field(out, width, i == 0 ? "policy" : "", "%s = %s",
                       detail->autoscale[i].key.ptr,
                       detail->autoscale[i].value.ptr);
    }
}

static void
print_detail(const struct wp_ctl *ctl, const struct wp_wire_pool_detail *detail)
{
    const struct wp_pool_stats *pool = detail->stats;
    uint32_t given = pool->scaled ? pool->replicas : pool->spec.target;

    switch (ctl->options.output) {
    case WP_OUTPUT_JSON:
        wp_print_json(ctl->out,
                      json_pack("{s:o, s:o, s:b, s:I, s:I, s:o}", "namespace",
                                wp_ctl_json_text(pool->spec.pool_namespace),
                                "name", wp_ctl_json_text(pool->spec.name),
                                "scaled", (int)pool->scaled, "target",
                                (json_int_t)pool->spec.target, "replicas",
                                (json_int_t)given, "autoscale",
                                wp_ctl_policy_json(detail)),
                      true);
        break;
    case WP_OUTPUT_NAME:
        wp_print_field(ctl->out, 0, "", "%s/%s", pool->spec.pool_namespace,
                       pool->spec.name);
        break;
    case WP_OUTPUT_TABLE:
        wp_print_field(ctl->out, FIELD, "pool", "%s/%s",
                       pool->spec.pool_namespace, pool->spec.name);
        wp_print_field(ctl->out, FIELD, "target", "%u (%u given)",
                       pool->spec.target, given);
        wp_ctl_print_policy(ctl->out, FIELD, detail);
        break;
    }
}

/* "KEY=VALUE", as it was checked before. */
static struct wp_wire_setting
setting_of(const char *text)
{
    const char *equals = strchr(text, '=');

    return (struct wp_wire_setting){{text, (size_t)(equals - text)},
                                    wp_str_from(equals + 1)};
}

static enum wp_status
read_request(struct wp_ctl *ctl, struct wp_wire_set_pool_request *request,
             struct wp_err *err)
{
    const struct wp_ctl_options *options = &ctl->options;
    struct wp_wire_setting *settings =
        wp_ctl_alloc(ctl, WP_CTL_AUTOSCALE_MAX * sizeof *settings);
    uint64_t target;

    for (uint32_t i = 0; i < options->n_autoscale; i++) {
        struct wp_wire_setting setting = setting_of(options->autoscale[i]);
        char *key = wp_ctl_alloc(ctl, setting.key.len + 1);

        /* What is packed is terminated. */
        memcpy(key, setting.key.ptr, setting.key.len);
        settings[i] = setting;
        settings[i].key.ptr = key;
    }
    request->autoscale = settings;
    request->n_autoscale = options->n_autoscale;
    if (options->target != NULL) {
        if (!wp_str_to_u64(wp_str_from(options->target), &target) ||
            target > WP_TARGET_MAX) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "--target '%.40s': expected how many sandboxes "
                              "to keep ready, 0 to %d",
                              options->target, WP_TARGET_MAX);
        }
        request->has_target = true;
        request->target = (uint32_t)target;
    }
    if (!request->has_target && request->n_autoscale == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "expected --target or --autoscale");
    }
    return wp_ctl_pool_parse(ctl, options->args[0], &request->pool, err);
}

int
wp_cmd_set(struct wp_ctl *ctl)
{
    struct wp_wire_set_pool_request request = {.has_target = false};
    struct wp_wire_pool_detail detail;
    struct wp_ctl_call call = {0};

    if (read_request(ctl, &request, &call.err) != WP_OK) {
        return wp_ctl_usage(ctl, &call.err);
    }
    if (wp_ctl_call_change_pool(ctl, &request, &detail, &call) != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    print_detail(ctl, &detail);
    return WP_EXIT_OK;
}
