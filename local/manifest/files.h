/* local/manifest/files.h - volumes whose files come from a ConfigMap or a
 * Secret.
 *
 * A template may come before the object that it names, so a mount gets its
 * files when all manifests are read. */
#ifndef WP_LOCAL_MANIFEST_FILES_H
#define WP_LOCAL_MANIFEST_FILES_H

#include "local/manifest/config_object.h"
#include "local/manifest/manifest.h"

/* spec.volumes[].configMap.items[] */
struct wp_volume_item {
    const char *key;
    const char *path;
    uint32_t mode;
    bool has_mode; /* Else the volume's. */
};

/* What a volume is made from; as the template says it. */
struct wp_volume_source {
    bool secret;
    const char *name;
    uint32_t mode;
    bool optional;
    bool chosen; /* Only these items; else every key. */
    struct wp_volume_item *items;
    uint32_t items_len;
};

/* A mount that waits for its files. In the manifest's region. */
struct wp_file_mount {
    struct wp_file_mount *next;
    const struct wp_volume_source *source;
    const char *sub_path; /* NULL: all of the volume. */
    const struct wp_template *tmpl;
    struct wp_template_mount *mount;
    const char *place; /* "file:line: SandboxTemplate name: field: " */
};

/* "a/b": every part is a name of its own. */
WP_MUST_CHECK bool wp_path_is_below(const char *path);

/* Readers of fields; out is a struct wp_volume_source, empty at first. */
bool wp_volume_config_map(struct wp_decode *d, const struct wp_yaml *node,
                          void *out);
bool wp_volume_secret(struct wp_decode *d, const struct wp_yaml *node,
                      void *out);

/* Gives every mount of the list its files; objects are all there are. */
WP_MUST_CHECK enum wp_status
wp_file_mounts_resolve(struct wp_file_mount *mounts,
                       const struct wp_config_object *objects,
                       struct wp_region *region, struct wp_err *err);

#endif
