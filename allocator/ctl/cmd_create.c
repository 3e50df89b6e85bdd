/* create and delete: pools that come and go by a call. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/ctl/calls.h"
#include "allocator/ctl/commands.h"
#include "allocator/ctl/print.h"
#include "proto/formats/json_text.h"

/* --- The manifest --- */

/* A file's, or standard input's for "-". */
static enum wp_status
read_manifest(struct wp_ctl *ctl, const char *path, struct wp_str *out,
              struct wp_err *err)
{
    const size_t cap = WP_WIRE_MANIFEST_MAX + 1;
    bool is_stdin = strcmp(path, "-") == 0;
    char *text = wp_ctl_alloc(ctl, cap + 1);
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    size_t n;
    bool failed;

    if (file == NULL) {
        return wp_err_sys(err, WP_NOT_FOUND, errno, "--file '%.160s'", path);
    }
    n = fread(text, 1, cap, file);
    failed = ferror(file) != 0;
    if (!is_stdin) {
        (void)fclose(file);
    }
    if (failed || n == cap || memchr(text, '\0', n) != NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--file '%.160s': expected a manifest of at most %d "
                          "bytes",
                          path, (int)WP_WIRE_MANIFEST_MAX);
    }
    *out = (struct wp_str){text, n};
    return WP_OK;
}

/* "KEY=VALUE" as an annotation of the scaling policy. */
static void
annotate(json_t *annotations, const char *setting)
{
    const char *equals = strchr(setting, '=');
    char key[128];

    (void)snprintf(key, sizeof key, "autoscale.warmpool.io/%.*s",
                   (int)(equals - setting), setting);
    (void)json_object_set_new(annotations, key, wp_json_from_text(equals + 1));
}

/* A SandboxWarmPool of what the options say. JSON is YAML, too. */
static enum wp_status
write_manifest(struct wp_ctl *ctl, struct wp_str *out, struct wp_err *err)
{
    const struct wp_ctl_options *options = &ctl->options;
    struct wp_wire_pool_ref pool;
    uint64_t target = 0;
    json_t *annotations;
    json_t *manifest;
    char *text;

    if (options->template_name == NULL ||
        (options->target == NULL && options->n_autoscale == 0)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "expected --template and --target or --autoscale, "
                          "or --file in their place");
    }
    if (options->target != NULL &&
        (!wp_str_to_u64(wp_str_from(options->target), &target) ||
         target > WP_TARGET_MAX)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--target '%.40s': expected how many sandboxes to "
                          "keep ready, 0 to %d",
                          options->target, WP_TARGET_MAX);
    }
    if (wp_ctl_pool_parse(ctl, options->args[0], &pool, err) != WP_OK) {
        return err->status;
    }
    annotations = json_object();
    for (uint32_t i = 0; i < options->n_autoscale; i++) {
        annotate(annotations, options->autoscale[i]);
    }
    manifest = json_pack(
        "{s:s, s:s, s:{s:s, s:s, s:o}, s:{s:I, s:{s:o}}}", "apiVersion",
        "extensions.agents.x-k8s.io/v1beta1", "kind", "SandboxWarmPool",
        "metadata", "name", pool.name.ptr, "namespace",
        pool.pool_namespace.len > 0 ? pool.pool_namespace.ptr : "default",
        "annotations", annotations, "spec", "replicas", (json_int_t)target,
        "sandboxTemplateRef", "name",
        wp_json_from_text(options->template_name));
    text = json_dumps(manifest, JSON_INDENT(1));
    json_decref(manifest);
    if (text == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    out->len = strlen(text);
    out->ptr = memcpy(wp_ctl_alloc(ctl, out->len + 1), text, out->len + 1);
    free(text);
    return WP_OK;
}

static enum wp_status
get_manifest(struct wp_ctl *ctl, struct wp_str *out, struct wp_err *err)
{
    const struct wp_ctl_options *options = &ctl->options;
    bool has_rest = options->n_args > 0 || options->template_name != NULL ||
                    options->target != NULL || options->n_autoscale > 0;

    if (options->file == NULL && options->n_args == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "expected POOL and --template, or --file");
    }
    if (options->file != NULL && has_rest) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--file says all of the pool: expected neither POOL "
                          "nor --template, --target or --autoscale beside it");
    }
    return options->file != NULL ? read_manifest(ctl, options->file, out, err)
                                 : write_manifest(ctl, out, err);
}

/* --- Commands --- */

int
wp_cmd_create(struct wp_ctl *ctl)
{
    struct wp_wire_create_pool_request request;
    struct wp_pool_stats *stats = wp_ctl_alloc(ctl, sizeof *stats);
    struct wp_ctl_call call = {0};

    if (get_manifest(ctl, &request.manifest, &call.err) != WP_OK) {
        return call.err.status == WP_NOT_FOUND ? wp_ctl_fail(ctl, &call.err, 0)
                                               : wp_ctl_usage(ctl, &call.err);
    }
    if (wp_ctl_call_create_pool(ctl, &request, stats, &call) != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    wp_print_pools(ctl, &(struct wp_wire_pools){stats, 1}, true);
    return WP_EXIT_OK;
}

int
wp_cmd_delete(struct wp_ctl *ctl)
{
    struct wp_wire_delete_pool_request request;
    struct wp_wire_delete_pool_response response;
    struct wp_ctl_call call = {0};

    if (wp_ctl_pool_parse(ctl, ctl->options.args[0], &request.pool,
                          &call.err) != WP_OK) {
        return wp_ctl_usage(ctl, &call.err);
    }
    if (wp_ctl_call_delete_pool(ctl, &request, &response, &call) != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    if (ctl->options.output == WP_OUTPUT_JSON) {
        wp_print_json(ctl->out,
                      json_pack("{s:I}", "leased", (json_int_t)response.leased),
                      true);
    } else {
        (void)fprintf(ctl->out, "%s is removed; leases still held: %u\n",
                      ctl->options.args[0], response.leased);
    }
    return WP_EXIT_OK;
}
