#include <string.h>

#include "local/manifest/manifest.h"
#include "pool/base/fnv.h"

enum {
    /* What sandboxes have beside their templates: raised when that changes, so
     * that a newer daemon replaces idle ones that lack it. */
    LAYOUT = 2,
};

static uint64_t
hash_u64(uint64_t hash, uint64_t value)
{
    return wp_fnv(hash, &value, sizeof value);
}

static uint64_t
hash_text(uint64_t hash, const char *text)
{
    return text != NULL ? wp_fnv(hash, text, strlen(text) + 1)
                        : hash_u64(hash, UINT64_MAX);
}

static uint64_t
hash_texts(uint64_t hash, const char *const *texts)
{
    size_t i;

    for (i = 0; texts[i] != NULL; i++) {
        hash = hash_text(hash, texts[i]);
    }
    return hash_u64(hash, i);
}

static uint64_t
hash_files(uint64_t hash, const struct wp_template_mount *mount)
{
    if (mount->kind == WP_MOUNT_EMPTY && !mount->prepared) {
        return hash;
    }
    hash = hash_u64(hash, mount->kind);
    hash = hash_u64(hash, mount->prepared);
    for (uint32_t i = 0; i < mount->files_len; i++) {
        const struct wp_template_file *file = &mount->files[i];

        hash = hash_text(hash, file->path);
        hash = hash_u64(hash, file->mode);
        hash = hash_u64(hash, file->bytes.len);
        hash = wp_fnv(hash, file->bytes.ptr, file->bytes.len);
    }
    return hash;
}

uint64_t
wp_template_hash(const struct wp_template *tmpl)
{
    uint64_t hash = hash_u64(WP_FNV_BASIS, LAYOUT);

    hash = hash_text(hash, tmpl->image);
    hash = hash_texts(hash, tmpl->argv);
    hash = hash_texts(hash, tmpl->env);
    hash = hash_text(hash, tmpl->working_dir);
    hash = hash_text(hash, tmpl->probe_path);
    for (uint32_t i = 0; i < tmpl->mounts_len; i++) {
        hash = hash_text(hash, tmpl->mounts[i].path);
        hash = hash_u64(hash, tmpl->mounts[i].size_bytes);
        hash = hash_u64(hash, tmpl->mounts[i].read_only);
        hash = hash_files(hash, &tmpl->mounts[i]);
    }
    for (uint32_t i = 0; i < tmpl->inits_len; i++) {
        hash = hash_text(hash, tmpl->inits[i].name);
        hash = hash_texts(hash, tmpl->inits[i].argv);
        hash = hash_texts(hash, tmpl->inits[i].env);
        hash = hash_text(hash, tmpl->inits[i].working_dir);
    }
    if (tmpl->probe == WP_READY_EXEC) {
        hash = hash_texts(hash, tmpl->probe_argv);
        hash = hash_u64(hash, tmpl->probe_timeout_s);
    }
    hash = hash_u64(hash, tmpl->cpu_milli);
    hash = hash_u64(hash, tmpl->memory_bytes);
    hash = hash_u64(hash, tmpl->port);
    hash = hash_u64(hash, tmpl->probe);
    hash = tmpl->unbound ? hash_u64(hash, 1) : hash;
    return hash_u64(hash, tmpl->runtime_class);
}
