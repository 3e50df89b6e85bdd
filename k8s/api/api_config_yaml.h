/* k8s/api/api_config_yaml.h - a kubeconfig's YAML as a tree, within bounds.
 *
 * Private to api_config*.c. Anchors, aliases, tags and merge keys are refused:
 * no kubeconfig needs them, and they are how a small file becomes a large tree.
 * Every text is overwritten when the tree goes, since any may be a secret. */
#ifndef WP_K8S_API_API_CONFIG_YAML_H
#define WP_K8S_API_API_CONFIG_YAML_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_KUBE_YAML_DEPTH_MAX = 16,
    WP_KUBE_YAML_NODES_MAX = 50000,
    WP_KUBE_YAML_KEYS_MAX = 256, /* Of one map. */
};

enum wp_kube_yaml_kind {
    WP_KUBE_YAML_NULL,
    WP_KUBE_YAML_TEXT,
    WP_KUBE_YAML_MAP,
    WP_KUBE_YAML_LIST,
};

/* A value; in a map also its key. */
struct wp_kube_yaml {
    enum wp_kube_yaml_kind kind;
    uint32_t line; /* From 1. */
    char *key;     /* NULL outside of maps. */
    char *text;    /* Of texts; terminated, without NUL within. */
    struct wp_kube_yaml *first;
    struct wp_kube_yaml *next;
    struct wp_kube_yaml *made; /* The one made before it. */
};

struct wp_kube_yaml_doc {
    struct wp_kube_yaml *root; /* NULL: the file is empty. */
    struct wp_kube_yaml *made; /* All of them. */
    uint32_t len;
};

/* INVALID_ARGUMENT with the line and what was expected; doc is to be freed
 * either way. */
WP_MUST_CHECK enum wp_status wp_kube_yaml_read(struct wp_kube_yaml_doc *doc,
                                               struct wp_str bytes,
                                               struct wp_err *err);
void wp_kube_yaml_free(struct wp_kube_yaml_doc *doc);

/* The value under key; NULL when map is no map, or has no such key, or a null
 * there. */
const struct wp_kube_yaml *wp_kube_yaml_at(const struct wp_kube_yaml *map,
                                           const char *key);

#endif
