/* local/manifest/volume.c - emptyDir volumes and where they are mounted. */
#include <string.h>

#include "local/manifest/build.h"

static bool
use_size_limit(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build_volume *volume = out;

    return wp_build_size(d, node, &volume->size_bytes);
}

static bool
use_medium(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const char *const words[] = {"", "Memory", NULL};
    size_t index;

    (void)out;
    return wp_decode_word(d, node, words, &index);
}

static bool
use_empty_dir(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_USED("sizeLimit", use_size_limit),
        WP_USED("medium", use_medium),
    };

    return WP_DECODE_MAP(d, node, fields, out);
}

static bool
use_volume_name(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build_volume *volume = out;

    return wp_decode_text(d, node, 63, &volume->name) &&
           (wp_str_is_dns_name(node->text, 63) ||
            wp_decode_fail(d, node, "a DNS label was expected"));
}

static bool
add_volume(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("name", use_volume_name),
        WP_REQUIRED("emptyDir", use_empty_dir),
        WP_REFUSED("hostPath",
                   "put the files into the image, a folder below rootfs_dir"),
        WP_REFUSED("secret",
                   "put the values into env, or the files into the image"),
        WP_REFUSED("configMap",
                   "put the values into env, or the files into the image"),
        WP_REFUSED("projected",
                   "put the values into env, or the files into the image"),
        WP_REFUSED("downwardAPI", "put the values into env"),
        WP_REFUSED("persistentVolumeClaim", "use emptyDir"),
        WP_REFUSED("ephemeral", "use emptyDir"),
        WP_REFUSED("csi", "use emptyDir"),
        WP_REFUSED("nfs", "use emptyDir"),
        WP_REFUSED("image", "put the files into the container's image, a "
                            "folder below rootfs_dir"),
        WP_REFUSED("gitRepo",
                   "put the files into the image, a folder below rootfs_dir"),
        WP_REFUSED("iscsi", "use emptyDir"),
        WP_REFUSED("fc", "use emptyDir"),
        WP_REFUSED("rbd", "use emptyDir"),
        WP_REFUSED("cephfs", "use emptyDir"),
        WP_REFUSED("glusterfs", "use emptyDir"),
        WP_REFUSED("flexVolume", "use emptyDir"),
        WP_REFUSED("local", "use emptyDir"),
    };
    struct wp_build *b = out;
    struct wp_build_volume *volume = &b->volumes[b->volumes_len];

    if (!WP_DECODE_MAP(d, node, fields, volume)) {
        return false;
    }
    for (uint32_t i = 0; i < b->volumes_len; i++) {
        if (strcmp(b->volumes[i].name, volume->name) == 0) {
            return wp_decode_fail(d, node, "a second volume named '%s'",
                                  volume->name);
        }
    }
    b->volumes_len++;
    return true;
}

bool
wp_build_volumes(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    return wp_decode_list(d, node, WP_BUILD_VOLUMES_MAX, add_volume, out);
}

/* "/a/b": every part is a name of its own. */
static bool
is_plain_path(const char *path)
{
    if (path[0] != '/') {
        return false;
    }
    while (*path == '/') {
        size_t len = strcspn(++path, "/");

        if (len == 0 || (len == 1 && path[0] == '.') ||
            (len == 2 && path[0] == '.' && path[1] == '.')) {
            return false;
        }
        path += len;
    }
    return true;
}

static bool
use_mount_path(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const char *const taken[] = {"/etc", "/usr",   "/bin", "/sbin",
                                        "/lib", "/lib64", "/opt"};
    /* Nor anything below them. */
    static const char *const closed[] = {"/proc", "/dev", "/sys",
                                         "/opt/warmpool"};
    struct wp_build *b = out;
    struct wp_template_mount *mount = &b->mounts[b->tmpl->mounts_len];
    const char *path;
    bool own = false;

    if (!wp_decode_text(d, node, WP_BUILD_PATH_MAX_BYTES, &path)) {
        return false;
    }
    if (!is_plain_path(path)) {
        return wp_decode_fail(d, node,
                              "an absolute path without '.', '..' or a final"
                              " slash was expected");
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(taken); i++) {
        own |= strcmp(path, taken[i]) == 0;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(closed); i++) {
        size_t len = strlen(closed[i]);

        own |= strncmp(path, closed[i], len) == 0 &&
               (path[len] == '\0' || path[len] == '/');
    }
    if (own) {
        return wp_decode_fail(
            d, node, "%s is the sandbox's own and cannot be mounted over",
            path);
    }
    mount->path = path;
    return true;
}

static bool
use_mount_name(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    return wp_decode_text(d, node, 63, &b->mount_volumes[b->tmpl->mounts_len]);
}

static bool
use_mount_read_only(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    return wp_decode_bool(d, node, &b->mounts[b->tmpl->mounts_len].read_only);
}

static bool
add_mount(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("name", use_mount_name),
        WP_REQUIRED("mountPath", use_mount_path),
        WP_USED("readOnly", use_mount_read_only),
        WP_REFUSED("subPath", "mount the whole volume"),
        WP_REFUSED("subPathExpr", "mount the whole volume"),
        WP_REFUSED("mountPropagation",
                   "leave it out: nothing is mounted later"),
        WP_NOTED("recursiveReadOnly"),
    };
    struct wp_build *b = out;
    uint32_t index = b->tmpl->mounts_len;

    if (!WP_DECODE_MAP(d, node, fields, b)) {
        return false;
    }
    for (uint32_t i = 0; i < index; i++) {
        if (strcmp(b->mounts[i].path, b->mounts[index].path) == 0) {
            return wp_decode_fail(d, node, "a second mount at %s",
                                  b->mounts[index].path);
        }
    }
    b->mount_nodes[index] = node;
    b->tmpl->mounts_len++;
    return true;
}

bool
wp_build_volume_mounts(struct wp_decode *d, const struct wp_yaml *node,
                       void *out)
{
    struct wp_build *b = out;

    b->mounts = wp_decode_reserve(
        d, node, (WP_TEMPLATE_MOUNTS_MAX + 1) * sizeof *b->mounts);
    b->tmpl->mounts = b->mounts;
    return b->mounts != NULL &&
           wp_decode_list(d, node, WP_TEMPLATE_MOUNTS_MAX, add_mount, b);
}

bool
wp_build_resolve_mounts(struct wp_decode *d, struct wp_build *b)
{
    for (uint32_t i = 0; i < b->tmpl->mounts_len; i++) {
        uint32_t v = 0;

        while (v < b->volumes_len &&
               strcmp(b->volumes[v].name, b->mount_volumes[i]) != 0) {
            v++;
        }
        if (v == b->volumes_len) {
            return wp_decode_fail(d, b->mount_nodes[i],
                                  "no volume is named '%s'",
                                  b->mount_volumes[i]);
        }
        if (b->volumes[v].mounted) {
            return wp_decode_fail(d, b->mount_nodes[i],
                                  "volume '%s' is mounted twice, which is not"
                                  " supported on one machine",
                                  b->mount_volumes[i]);
        }
        b->volumes[v].mounted = true;
        b->mounts[i].size_bytes = b->volumes[v].size_bytes;
    }
    return true;
}
