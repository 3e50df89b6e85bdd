/* local/manifest/volume.c - volumes and where they are mounted. */
#include <stdarg.h>
#include <stdio.h>
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

    struct wp_build_volume *volume = out;

    volume->empty = true;
    return WP_DECODE_MAP(d, node, fields, out);
}

/* One that gets its files from an object. */
static bool
use_source(struct wp_decode *d, const struct wp_yaml *node,
           struct wp_build_volume *volume,
           bool (*read)(struct wp_decode *d, const struct wp_yaml *node,
                        void *out))
{
    if (volume->source != NULL) {
        return wp_decode_fail(d, node, "one kind of volume was expected");
    }
    volume->source = wp_decode_reserve(d, node, sizeof *volume->source);
    return volume->source != NULL && read(d, node, volume->source);
}

static bool
use_config_map(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    return use_source(d, node, out, wp_volume_config_map);
}

static bool
use_secret(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    return use_source(d, node, out, wp_volume_secret);
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
        WP_USED("emptyDir", use_empty_dir),
        WP_USED("configMap", use_config_map),
        WP_USED("secret", use_secret),
        WP_REFUSED("hostPath",
                   "put the files into the image, a folder below rootfs_dir"),
        WP_REFUSED("projected", "mount each ConfigMap or Secret by a volume of"
                                " its own"),
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
    if (volume->empty == (volume->source != NULL)) {
        return wp_decode_fail(d, node, "%s was expected",
                              volume->empty ? "one kind of volume"
                                            : "emptyDir, configMap or secret");
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

static bool
use_mount_path(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const char *const taken[] = {"/etc", "/usr",   "/bin", "/sbin",
                                        "/lib", "/lib64", "/opt"};
    /* Nor anything below them. */
    static const char *const closed[] = {"/proc", "/dev", "/sys",
                                         "/opt/warmpool"};
    struct wp_build_mount *mount = out;
    const char *path;
    bool own = false;

    if (!wp_decode_text(d, node, WP_BUILD_PATH_MAX_BYTES, &path)) {
        return false;
    }
    if (path[0] != '/' || !wp_path_is_below(path + 1)) {
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
    struct wp_build_mount *mount = out;

    return wp_decode_text(d, node, 63, &mount->volume);
}

static bool
use_mount_read_only(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build_mount *mount = out;

    return wp_decode_bool(d, node, &mount->read_only);
}

static bool
use_sub_path(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build_mount *mount = out;

    if (!wp_decode_text(d, node, WP_BUILD_PATH_MAX_BYTES, &mount->sub_path)) {
        return false;
    }
    if (mount->sub_path[0] == '\0') {
        mount->sub_path = NULL; /* As if it were left out. */
        return true;
    }
    return wp_path_is_below(mount->sub_path) ||
           wp_decode_fail(d, node,
                          "a relative path without '.' and '..' was expected");
}

static bool
add_mount(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("name", use_mount_name),
        WP_REQUIRED("mountPath", use_mount_path),
        WP_USED("readOnly", use_mount_read_only),
        WP_USED("subPath", use_sub_path),
        WP_REFUSED("subPathExpr", "use subPath"),
        WP_REFUSED("mountPropagation",
                   "leave it out: nothing is mounted later"),
        WP_NOTED("recursiveReadOnly"),
    };
    struct wp_build *b = out;
    struct wp_build_mount *mount = &b->mounts[b->mounts_len];

    if (b->mounts_len == WP_BUILD_MOUNTS_MAX) {
        return wp_decode_fail(d, node, "at most %d in all were expected",
                              (int)WP_BUILD_MOUNTS_MAX);
    }
    *mount = (struct wp_build_mount){.node = node, .of = b->program};
    if (!WP_DECODE_MAP(d, node, fields, mount)) {
        return false;
    }
    for (uint32_t i = 0; i < b->mounts_len; i++) {
        if (b->mounts[i].of == b->program &&
            strcmp(b->mounts[i].path, mount->path) == 0) {
            return wp_decode_fail(d, node, "a second mount at %s", mount->path);
        }
    }
    mount->place = wp_decode_place(d, node);
    b->mounts_len++;
    return mount->place != NULL;
}

bool
wp_build_volume_mounts(struct wp_decode *d, const struct wp_yaml *node,
                       void *out)
{
    return wp_decode_list(d, node, WP_TEMPLATE_MOUNTS_MAX, add_mount, out);
}

/* --- When all fields are read --- */

/* Where the sandbox has its mounts, and of which volumes. */
struct placing {
    struct wp_decode *d;
    struct wp_build *b;
    struct wp_template_mount *mounts;
    const struct wp_build_volume *volumes[WP_TEMPLATE_MOUNTS_MAX];
    const char *sub_paths[WP_TEMPLATE_MOUNTS_MAX];
};

/* Of a mount that was read before. */
WP_PRINTF(3, 4)
static bool
refuse(struct placing *p, const struct wp_build_mount *from, const char *fmt,
       ...)
{
    char words[sizeof p->d->err->msg];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    (void)wp_err_set(p->d->err, WP_INVALID_ARGUMENT, "%s%s", from->place,
                     words);
    return false;
}

static const struct wp_build_volume *
find_volume(const struct wp_build *b, const char *name)
{
    for (uint32_t i = 0; i < b->volumes_len; i++) {
        if (strcmp(b->volumes[i].name, name) == 0) {
            return &b->volumes[i];
        }
    }
    return NULL;
}

static bool
same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

/* It gets its files when all manifests are read. */
static bool
expect_files(struct placing *p, const struct wp_build_mount *from,
             struct wp_template_mount *mount,
             const struct wp_build_volume *volume)
{
    struct wp_file_mount *waits =
        wp_decode_reserve(p->d, from->node, sizeof *waits);

    if (waits == NULL) {
        return false;
    }
    *waits = (struct wp_file_mount){
        .next = p->b->file_mounts,
        .source = volume->source,
        .sub_path = from->sub_path,
        .tmpl = p->b->tmpl,
        .mount = mount,
        .place = from->place,
    };
    p->b->file_mounts = waits;
    return true;
}

static bool
add_place(struct placing *p, const struct wp_build_mount *from,
          const struct wp_build_volume *volume)
{
    uint32_t at = p->b->tmpl->mounts_len;
    struct wp_template_mount *mount = &p->mounts[at];
    bool own = from->of == &p->b->container;

    if (at == WP_TEMPLATE_MOUNTS_MAX) {
        return refuse(p, from, "at most %d mounts in one sandbox were expected",
                      (int)WP_TEMPLATE_MOUNTS_MAX);
    }
    for (uint32_t i = 0; volume->empty && i < at; i++) {
        if (p->volumes[i] == volume) {
            return refuse(
                p, from,
                "volume '%s' is mounted at %s already, and an emptyDir has one"
                " place on one machine: name that",
                volume->name, p->mounts[i].path);
        }
    }
    p->volumes[at] = volume;
    p->sub_paths[at] = from->sub_path;
    *mount = (struct wp_template_mount){
        .path = from->path,
        .size_bytes = volume->size_bytes,
        /* What only an init container asks for is not the container's. */
        .read_only = from->read_only || !own,
        .prepared = !own && volume->empty && !from->read_only,
    };
    p->b->tmpl->mounts_len++;
    return volume->empty || expect_files(p, from, mount, volume);
}

/* The container's come first; those of init containers are the same places. */
static bool
place_mount(struct placing *p, const struct wp_build_mount *from)
{
    const struct wp_build_volume *volume = find_volume(p->b, from->volume);

    if (volume == NULL) {
        return refuse(p, from, "no volume is named '%s'", from->volume);
    }
    if (volume->empty && from->sub_path != NULL) {
        return refuse(p, from,
                      "subPath of an emptyDir is not supported on one"
                      " machine: mount the whole volume");
    }
    for (uint32_t i = 0; i < p->b->tmpl->mounts_len; i++) {
        if (strcmp(p->mounts[i].path, from->path) != 0) {
            continue;
        }
        p->mounts[i].prepared |= volume->empty && !from->read_only;
        return (p->volumes[i] == volume &&
                same_text(p->sub_paths[i], from->sub_path)) ||
               refuse(p, from,
                      "another volume is mounted at %s, and on one"
                      " machine all containers see the same files",
                      from->path);
    }
    return add_place(p, from, volume);
}

bool
wp_build_resolve_mounts(struct wp_decode *d, const struct wp_yaml *spec,
                        struct wp_build *b)
{
    uint32_t max = b->mounts_len < WP_TEMPLATE_MOUNTS_MAX
                       ? b->mounts_len
                       : WP_TEMPLATE_MOUNTS_MAX;
    struct placing p = {
        .d = d,
        .b = b,
        .mounts = wp_decode_reserve(d, spec, (max + 1) * sizeof *p.mounts),
    };

    if (p.mounts == NULL) {
        return false;
    }
    b->tmpl->mounts = p.mounts;
    for (uint32_t own = 0; own < 2; own++) {
        for (uint32_t i = 0; i < b->mounts_len; i++) {
            if ((b->mounts[i].of == &b->container) == (own == 0) &&
                !place_mount(&p, &b->mounts[i])) {
                return false;
            }
        }
    }
    return true;
}
