#include "local/manifest/config_object.h"

#include <string.h>

#include "proto/formats/base64.h"

/* What is collected of one object. */
struct reading {
    struct wp_config_object *object;
    struct wp_config_entry **end;
    size_t bytes;
    bool base64;   /* Of the values that are read now. */
    bool replaces; /* They take the place of those of the same key. */
};

bool
wp_config_is_kind(struct wp_str kind)
{
    return wp_str_is(kind, "ConfigMap") || wp_str_is(kind, "Secret");
}

const struct wp_config_entry *
wp_config_find(const struct wp_config_object *object, const char *key)
{
    const struct wp_config_entry *entry = object->entries;

    while (entry != NULL && strcmp(entry->key, key) != 0) {
        entry = entry->next;
    }
    return entry;
}

/* As Kubernetes has it: such a key is a file's name as it stands. */
static bool
is_key(struct wp_str key)
{
    if (key.len == 0 || key.len > WP_CONFIG_KEY_MAX || wp_str_is(key, ".") ||
        wp_str_starts_with(key, WP_STR(".."))) {
        return false;
    }
    for (size_t i = 0; i < key.len; i++) {
        char c = key.ptr[i];

        if ((c < 'a' || c > 'z') && (c < 'A' || c > 'Z') &&
            (c < '0' || c > '9') && c != '-' && c != '_' && c != '.') {
            return false;
        }
    }
    return true;
}

static bool
read_value(struct wp_decode *d, const struct wp_yaml *node,
           const struct reading *reading, struct wp_str *out)
{
    char *bytes;

    if (node->kind != WP_YAML_STRING && node->kind != WP_YAML_NULL) {
        /* Its words would show the value. */
        return wp_decode_fail(d, node, "a string was expected, in quotes");
    }
    if (!reading->base64) {
        bytes = wp_region_str(d->region, node->text);
        *out = (struct wp_str){bytes, node->text.len};
        return bytes != NULL || wp_decode_fail(d, node, "no memory");
    }
    bytes = wp_decode_reserve(d, node, node->text.len + 4);
    if (bytes == NULL) {
        return false;
    }
    out->ptr = bytes;
    return node->text.len == 0 ||
           wp_base64_read(node->text.ptr, bytes, &out->len) ||
           wp_decode_fail(d, node, "base64 was expected");
}

static bool
add_entry(struct wp_decode *d, const struct wp_yaml *node,
          struct reading *reading)
{
    struct wp_config_entry *entry = reading->object->entries;
    struct wp_str value = {NULL, 0};
    const char *key;

    if (!is_key(node->key)) {
        return wp_decode_fail(d, node,
                              "a key of letters, digits, '-', '_' and '.' was"
                              " expected, at most %d of them",
                              (int)WP_CONFIG_KEY_MAX);
    }
    if (!read_value(d, node, reading, &value)) {
        return false;
    }
    key = wp_region_str(d->region, node->key);
    if (key == NULL) {
        return wp_decode_fail(d, node, "no memory");
    }
    while (entry != NULL && strcmp(entry->key, key) != 0) {
        entry = entry->next;
    }
    if (entry != NULL && !reading->replaces) {
        return wp_decode_fail(d, node, "the key is in data, too");
    }
    reading->bytes += value.len;
    if (reading->bytes > WP_CONFIG_BYTES_MAX) {
        return wp_decode_fail(d, node, "at most %d bytes in all were expected",
                              (int)WP_CONFIG_BYTES_MAX);
    }
    if (entry == NULL) {
        entry = wp_decode_reserve(d, node, sizeof *entry);
        if (entry == NULL) {
            return false;
        }
        *reading->end = entry;
        reading->end = &entry->next;
    }
    entry->key = key;
    entry->bytes = value;
    return true;
}

static bool
add_entries(struct wp_decode *d, const struct wp_yaml *node,
            struct reading *reading)
{
    if (!wp_decode_is(d, node, WP_YAML_MAP)) {
        return false;
    }
    for (const struct wp_yaml *child = node->first; child != NULL;
         child = child->next) {
        size_t mark = wp_decode_enter(d, child->key);

        if (!add_entry(d, child, reading)) {
            return false;
        }
        wp_decode_leave(d, mark);
    }
    return true;
}

/* Read later, in their order, since one takes the other's place. */
static const struct wp_field map_fields[] = {
    WP_PLAIN("apiVersion"), WP_PLAIN("kind"),       WP_PLAIN("metadata"),
    WP_PLAIN("data"),       WP_PLAIN("binaryData"), WP_PLAIN("immutable"),
};
static const struct wp_field secret_fields[] = {
    WP_PLAIN("apiVersion"), WP_PLAIN("kind"),       WP_PLAIN("metadata"),
    WP_PLAIN("data"),       WP_PLAIN("stringData"), WP_PLAIN("immutable"),
    WP_PLAIN("type"),
};

bool
wp_config_object_read(struct wp_decode *d, const struct wp_yaml *root,
                      struct wp_config_object *object)
{
    static const struct {
        const char *field;
        bool secret;
        bool base64;
    } maps[] = {{"data", false, false},
                {"binaryData", false, true},
                {"data", true, true},
                {"stringData", true, false}};
    struct reading reading = {.object = object, .end = &object->entries};

    if (!(object->secret ? WP_DECODE_MAP(d, root, secret_fields, NULL)
                         : WP_DECODE_MAP(d, root, map_fields, NULL))) {
        return false;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(maps); i++) {
        const struct wp_yaml *node = wp_yaml_find(root, maps[i].field);
        size_t mark;

        if (maps[i].secret != object->secret || node == NULL ||
            node->kind == WP_YAML_NULL) {
            continue;
        }
        mark = wp_decode_enter(d, node->key);
        reading.base64 = maps[i].base64;
        reading.replaces = object->secret && !maps[i].base64;
        if (!add_entries(d, node, &reading)) {
            return false;
        }
        wp_decode_leave(d, mark);
    }
    return true;
}
