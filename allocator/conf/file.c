/* The configuration file: one YAML mapping from setting names to values. Much
 * of YAML is refused on purpose: what is not a flat list of settings is a
 * mistake. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "allocator/conf/conf.h"
#include "allocator/conf/value.h"
#include "pool/base/file.h"
#include "proto/formats/yaml_tree.h"

struct reader {
    struct wp_conf *conf;
    const char *file;
    bool seen[WP_SETTINGS];
    struct wp_err *err;
};

static enum wp_status
fail(struct reader *r, const struct wp_yaml *at, const char *what)
{
    return wp_err_set(r->err, WP_INVALID_ARGUMENT, "%s:%" PRIu32 ": %s",
                      r->file, at->line, what);
}

static enum wp_status
fail_setting(struct reader *r, const struct wp_yaml *at, const char *what)
{
    return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                      "%s:%" PRIu32 ": setting '%s'%s", r->file, at->line,
                      wp_setting_get(wp_setting_find(at->key))->name, what);
}

/* An empty value and what YAML takes for a null are texts here. */
static bool
is_text(const struct wp_yaml *node)
{
    return node->kind == WP_YAML_NULL || wp_yaml_is_scalar(node);
}

static enum wp_status
read_name(struct reader *r, const struct wp_yaml *node, enum wp_setting_id *id)
{
    struct wp_str name = node->key;
    const char *near;

    *id = wp_setting_find(name);
    if (*id == WP_SETTINGS) {
        near = wp_setting_nearest(name);
        return wp_err_set(r->err, WP_INVALID_ARGUMENT,
                          "%s:%" PRIu32 ": unknown setting '%.*s'%s%s%s",
                          r->file, node->line,
                          name.len < 40 ? (int)name.len : 40, name.ptr,
                          near != NULL ? "; did you mean '" : "",
                          near != NULL ? near : "", near != NULL ? "'?" : "");
    }
    if (*id == WP_SET_config) {
        return fail_setting(r, node, " is only a flag");
    }
    if (r->seen[*id]) {
        return fail_setting(r, node, " is given twice");
    }
    r->seen[*id] = true;
    return WP_OK;
}

static enum wp_status
read_list(struct reader *r, const struct wp_yaml *list, enum wp_setting_id id,
          struct wp_conf_origin origin)
{
    struct wp_str items[WP_CONF_LIST_MAX];
    uint32_t n = 0;

    if (wp_setting_get(id)->type != WP_SETTING_LIST) {
        return fail_setting(r, list, ": expected one value, got a list");
    }
    for (const struct wp_yaml *item = list->first; item != NULL;
         item = item->next) {
        if (!is_text(item)) {
            return fail(r, item,
                        "expected a text, a number or a list of texts");
        }
        if (n == WP_CONF_LIST_MAX) {
            return fail(r, item, "too many items in this list");
        }
        items[n++] = item->text;
    }
    return wp_conf_set(r->conf, id, items, n, origin, r->err) == WP_OK
               ? WP_OK
               : wp_err_wrap(r->err, "%s:%" PRIu32, r->file, list->line);
}

static enum wp_status
read_value(struct reader *r, const struct wp_yaml *node, enum wp_setting_id id)
{
    struct wp_conf_origin origin = {WP_CONF_FILE, node->line};

    if (node->kind == WP_YAML_LIST) {
        return read_list(r, node, id, origin);
    }
    if (!is_text(node)) {
        return fail_setting(r, node,
                            ": expected a text, a number or a list of texts");
    }
    return wp_conf_set_text(r->conf, id, node->text, origin, r->err) == WP_OK
               ? WP_OK
               : wp_err_wrap(r->err, "%s:%" PRIu32, r->file, node->line);
}

static enum wp_status
read_root(struct reader *r, const struct wp_yaml *root)
{
    enum wp_status status = WP_OK;

    if (root == NULL || (is_text(root) && root->text.len == 0)) {
        return WP_OK; /* An empty file says nothing, which is fine. */
    }
    if (root->kind != WP_YAML_MAP) {
        return fail(r, root, "expected settings, each as 'name: value'");
    }
    for (const struct wp_yaml *node = root->first;
         node != NULL && status == WP_OK; node = node->next) {
        enum wp_setting_id id = WP_SETTINGS;

        status = read_name(r, node, &id);
        if (status == WP_OK) {
            status = read_value(r, node, id);
        }
    }
    return status;
}

enum wp_status
wp_conf_read_text(struct wp_conf *conf, struct wp_str text, const char *file,
                  struct wp_err *err)
{
    const struct wp_yaml_rules rules = {
        .file = file,
        .documents_max = 1,
        .depth_max = 32,
        .nodes_max = 100000,
        .keys_max = 1024,
        .repeats = true, /* One setting may have two spellings. */
    };
    struct reader r = {.conf = conf, .file = file, .err = err};
    struct wp_region region = {.blocks = NULL};
    struct wp_yaml *root;
    enum wp_status status;

    if (text.len > WP_CONF_FILE_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: a configuration file has at most %d bytes", file,
                          WP_CONF_FILE_MAX);
    }
    status = wp_yaml_read_one(&rules, text, &region, &root, err);
    if (status == WP_OK) {
        status = read_root(&r, root);
    }
    wp_region_free(&region);
    return status;
}

enum wp_status
wp_conf_read_file(struct wp_conf *conf, const char *path, struct wp_err *err)
{
    char *text = malloc(WP_CONF_FILE_MAX + 1);
    struct stat st;
    ssize_t len;
    enum wp_status status;

    if (text == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    len = wp_path_read(path, 0, text, WP_CONF_FILE_MAX + 1, &st);
    if (len < 0) {
        status =
            wp_err_sys(err, st.st_mode == 0 ? WP_NOT_FOUND : WP_UNAVAILABLE,
                       errno, "configuration file '%.120s'", path);
    } else {
        status = wp_conf_read_text(conf, (struct wp_str){text, (size_t)len},
                                   path, err);
    }
    free(text);
    return status;
}
