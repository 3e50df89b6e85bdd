/* tests/fuzz/local/manifest/fuzz_manifest.c - any bytes as a manifest: read or refused, within
 * bounds, and what is read keeps its promises. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "local/manifest/manifest.h"
#include "pool/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_files(const struct wp_template_mount *mount)
{
    WP_ASSERT(mount->kind != WP_MOUNT_FILE || mount->files_len == 1);
    WP_ASSERT(mount->kind != WP_MOUNT_EMPTY || mount->files_len == 0);
    for (uint32_t i = 0; i < mount->files_len; i++) {
        WP_ASSERT(mount->files[i].path[0] != '/');
        WP_ASSERT(strstr(mount->files[i].path, "/../") == NULL);
        WP_ASSERT(mount->files[i].mode <= 0777);
    }
}

static void
check_template(const struct wp_template *tmpl)
{
    WP_ASSERT(tmpl->image != NULL && tmpl->image[0] != '\0');
    WP_ASSERT(tmpl->argv != NULL && tmpl->argv[0] != NULL);
    WP_ASSERT(tmpl->env != NULL && tmpl->port != 0);
    WP_ASSERT(tmpl->probe != WP_READY_HTTP || tmpl->probe_path[0] == '/');
    for (uint32_t i = 0; i < tmpl->mounts_len; i++) {
        WP_ASSERT(tmpl->mounts[i].path[0] == '/');
        WP_ASSERT(strstr(tmpl->mounts[i].path, "/../") == NULL);
        check_files(&tmpl->mounts[i]);
    }
    for (uint32_t i = 0; i < tmpl->inits_len; i++) {
        WP_ASSERT(tmpl->inits[i].argv[0] != NULL);
        WP_ASSERT(tmpl->inits[i].env != NULL);
    }
    for (size_t i = 0; tmpl->env[i] != NULL; i++) {
        WP_ASSERT(strchr(tmpl->env[i], '=') != NULL);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_manifest *manifest = wp_manifest_create();
    const struct wp_template *templates;
    const struct wp_pool_spec *pools;
    struct wp_err err = {.status = WP_OK, .msg = ""};

    if (manifest == NULL) {
        return 0;
    }
    if (wp_manifest_add_bytes(manifest, "fuzz",
                              (struct wp_str){(const char *)data, size},
                              &err) != WP_OK ||
        wp_manifest_check(manifest, &err) != WP_OK) {
        WP_ASSERT(err.status != WP_OK && err.msg[0] != '\0');
    } else {
        size_t n = wp_manifest_templates(manifest, &templates);

        for (size_t i = 0; i < n; i++) {
            check_template(&templates[i]);
        }
        n = wp_manifest_pools(manifest, &pools);
        for (size_t i = 0; i < n; i++) {
            WP_ASSERT(pools[i].target <= WP_TARGET_MAX);
            WP_ASSERT(pools[i].ttl_default_ns <= pools[i].ttl_max_ns);
        }
    }
    wp_manifest_destroy(manifest);
    return 0;
}
