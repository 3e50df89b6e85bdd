#include "local/manifest/files.h"

#include <stdlib.h>
#include <string.h>

enum {
    ITEM_PATH_MAX = 255,
    MODE_DEFAULT = 0644,
};

bool
wp_path_is_below(const char *path)
{
    for (;;) {
        size_t len = strcspn(path, "/");

        if (len == 0 || (len == 1 && path[0] == '.') ||
            (len == 2 && path[0] == '.' && path[1] == '.')) {
            return false;
        }
        if (path[len] == '\0') {
            return true;
        }
        path += len + 1;
    }
}

/* --- As the template says it --- */

/* 0400 and 0o400 are octal, 256 is the same: as YAML and JSON have it. */
static bool
use_mode(struct wp_decode *d, const struct wp_yaml *node, uint32_t *out)
{
    const char *text = node->text.ptr;
    char *end = NULL;
    unsigned long value = 0;

    if (!wp_decode_is(d, node, WP_YAML_INT)) {
        return false;
    }
    if (text[0] == '0' && text[1] == 'o') {
        value = strtoul(text + 2, &end, 8);
    } else if (text[0] >= '0' && text[0] <= '9') {
        value = strtoul(text, &end, text[0] == '0' ? 8 : 10);
    }
    if (end == NULL || *end != '\0' || value > 0777) {
        return wp_decode_fail(d, node, "a mode from 0000 to 0777 was expected");
    }
    *out = (uint32_t)value;
    return true;
}

static bool
use_default_mode(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_volume_source *source = out;

    return use_mode(d, node, &source->mode);
}

static bool
use_optional(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_volume_source *source = out;

    return wp_decode_bool(d, node, &source->optional);
}

static bool
use_name(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_volume_source *source = out;

    return wp_decode_text(d, node, 253, &source->name) &&
           (source->name[0] != '\0' ||
            wp_decode_fail(d, node, "the name of an object was expected"));
}

static bool
use_item_key(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_volume_item *item = out;

    return wp_decode_text(d, node, WP_CONFIG_KEY_MAX, &item->key);
}

static bool
use_item_path(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_volume_item *item = out;

    return wp_decode_text(d, node, ITEM_PATH_MAX, &item->path) &&
           (wp_path_is_below(item->path) ||
            wp_decode_fail(d, node,
                           "a relative path without '.' and '..' was"
                           " expected"));
}

static bool
use_item_mode(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_volume_item *item = out;

    item->has_mode = true;
    return use_mode(d, node, &item->mode);
}

static bool
add_item(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("key", use_item_key),
        WP_REQUIRED("path", use_item_path),
        WP_USED("mode", use_item_mode),
    };
    struct wp_volume_source *source = out;
    struct wp_volume_item *item = &source->items[source->items_len];

    if (!WP_DECODE_MAP(d, node, fields, item)) {
        return false;
    }
    for (uint32_t i = 0; i < source->items_len; i++) {
        if (strcmp(source->items[i].path, item->path) == 0) {
            return wp_decode_fail(d, node, "a second item at '%s'", item->path);
        }
    }
    source->items_len++;
    return true;
}

static bool
use_items(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_volume_source *source = out;

    source->chosen = node->first != NULL;
    source->items =
        wp_decode_reserve(d, node,
                          (wp_decode_count(node, WP_TEMPLATE_FILES_MAX) + 1) *
                              sizeof *source->items);
    return source->items != NULL &&
           wp_decode_list(d, node, WP_TEMPLATE_FILES_MAX, add_item, out);
}

bool
wp_volume_config_map(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("name", use_name),
        WP_USED("items", use_items),
        WP_USED("defaultMode", use_default_mode),
        WP_USED("optional", use_optional),
    };
    struct wp_volume_source *source = out;

    source->mode = MODE_DEFAULT;
    return WP_DECODE_MAP(d, node, fields, out);
}

bool
wp_volume_secret(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("secretName", use_name),
        WP_USED("items", use_items),
        WP_USED("defaultMode", use_default_mode),
        WP_USED("optional", use_optional),
    };
    struct wp_volume_source *source = out;

    source->mode = MODE_DEFAULT;
    source->secret = true;
    return WP_DECODE_MAP(d, node, fields, out);
}

/* --- When all is read --- */

/* One mount, while its files are looked for. */
struct look {
    struct wp_file_mount *from;
    const struct wp_config_object *object; /* NULL: it is not there. */
    struct wp_template_file files[WP_TEMPLATE_FILES_MAX];
    uint32_t len;
    uint32_t total; /* Of the template's mounts before it. */
    struct wp_region *region;
    struct wp_err *err;
};

static const char *
kind_text(const struct wp_volume_source *source)
{
    return source->secret ? "Secret" : "ConfigMap";
}

/* The file, if subPath lets it through: one of the volume's paths, or what is
 * below one. */
static bool
add_file(struct look *look, const char *path, const struct wp_str *bytes,
         uint32_t mode)
{
    const char *sub = look->from->sub_path;
    size_t len = sub != NULL ? strlen(sub) : 0;
    bool whole = sub != NULL && strcmp(path, sub) == 0;

    if (sub != NULL && !whole &&
        (strncmp(path, sub, len) != 0 || path[len] != '/')) {
        return true;
    }
    if (look->len == WP_TEMPLATE_FILES_MAX - look->total) {
        (void)wp_err_set(look->err, WP_INVALID_ARGUMENT,
                         "%smore than %d files of ConfigMaps and Secrets in"
                         " one template",
                         look->from->place, (int)WP_TEMPLATE_FILES_MAX);
        return false;
    }
    if (whole) {
        look->from->mount->kind = WP_MOUNT_FILE;
        path = "";
    } else if (sub != NULL) {
        path += len + 1;
    }
    look->files[look->len++] =
        (struct wp_template_file){.path = path, .bytes = *bytes, .mode = mode};
    return true;
}

static bool
add_chosen(struct look *look)
{
    const struct wp_volume_source *source = look->from->source;

    for (uint32_t i = 0; i < source->items_len; i++) {
        const struct wp_volume_item *item = &source->items[i];
        const struct wp_config_entry *entry =
            wp_config_find(look->object, item->key);

        if (entry == NULL && !source->optional) {
            (void)wp_err_set(look->err, WP_INVALID_ARGUMENT,
                             "%s%s '%s' has no key '%.60s'", look->from->place,
                             kind_text(source), source->name, item->key);
            return false;
        }
        if (entry != NULL &&
            !add_file(look, item->path, &entry->bytes,
                      item->has_mode ? item->mode : source->mode)) {
            return false;
        }
    }
    return true;
}

static bool
add_all(struct look *look)
{
    const struct wp_config_entry *entry = look->object->entries;

    while (entry != NULL) {
        if (!add_file(look, entry->key, &entry->bytes,
                      look->from->source->mode)) {
            return false;
        }
        entry = entry->next;
    }
    return true;
}

/* A file cannot be a directory, too. */
static bool
paths_fit(const struct look *look)
{
    for (uint32_t i = 0; i < look->len; i++) {
        const char *path = look->files[i].path;
        size_t len = strlen(path);

        for (uint32_t j = 0; j < look->len; j++) {
            if (strncmp(look->files[j].path, path, len) == 0 &&
                look->files[j].path[len] == '/') {
                (void)wp_err_set(look->err, WP_INVALID_ARGUMENT,
                                 "%s'%s' is a file, and '%s' is below it",
                                 look->from->place, path, look->files[j].path);
                return false;
            }
        }
    }
    return true;
}

static bool
find_files(struct look *look)
{
    const struct wp_volume_source *source = look->from->source;

    if (look->object == NULL) {
        if (source->optional) {
            return true;
        }
        (void)wp_err_set(look->err, WP_INVALID_ARGUMENT,
                         "%sno %s '%s' in namespace '%s': add it to the"
                         " manifests",
                         look->from->place, kind_text(source), source->name,
                         look->from->tmpl->template_namespace);
        return false;
    }
    return (source->chosen ? add_chosen(look) : add_all(look)) &&
           paths_fit(look);
}

static enum wp_status
resolve_one(struct look *look)
{
    struct wp_template_mount *mount = look->from->mount;
    struct wp_template_file *files;

    mount->kind = WP_MOUNT_FILES;
    mount->read_only = true;
    if (!find_files(look)) {
        return look->err->status;
    }
    if (look->from->sub_path != NULL && look->len == 0) {
        if (!look->from->source->optional) {
            return wp_err_set(look->err, WP_INVALID_ARGUMENT,
                              "%ssubPath: the volume has no file '%s'",
                              look->from->place, look->from->sub_path);
        }
        mount->kind = WP_MOUNT_NONE;
    }
    files = wp_region_alloc(look->region, (look->len + 1) * sizeof *files);
    if (files == NULL) {
        return wp_err_set(look->err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    memcpy(files, look->files, look->len * sizeof *files);
    mount->files = files;
    mount->files_len = look->len;
    return WP_OK;
}

enum wp_status
wp_file_mounts_resolve(struct wp_file_mount *mounts,
                       const struct wp_config_object *objects,
                       struct wp_region *region, struct wp_err *err)
{
    const struct wp_template *tmpl = NULL;
    enum wp_status status = WP_OK;
    uint32_t total = 0;

    for (struct wp_file_mount *from = mounts; from != NULL && status == WP_OK;
         from = from->next) {
        const struct wp_config_object *object = objects;
        struct look look = {.from = from, .region = region, .err = err};

        while (object != NULL &&
               (object->secret != from->source->secret ||
                strcmp(object->name, from->source->name) != 0 ||
                strcmp(object->object_namespace,
                       from->tmpl->template_namespace) != 0)) {
            object = object->next;
        }
        /* A template's mounts come one after the other. */
        total = from->tmpl == tmpl ? total : 0;
        tmpl = from->tmpl;
        look.object = object;
        look.total = total;
        status = resolve_one(&look);
        total += look.len;
    }
    return status;
}
