/* local/manifest/yaml_tree.h - one YAML document as a tree, within bounds.
 *
 * Anchors, aliases and tags are refused: Kubernetes manifests do not need them,
 * and they are how a small file becomes a large tree. */
#ifndef WP_LOCAL_MANIFEST_YAML_TREE_H
#define WP_LOCAL_MANIFEST_YAML_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "local/manifest/arena.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_YAML_DEPTH_MAX = 32,
    WP_YAML_NODES_MAX = 100000, /* Of one document. */
    WP_YAML_KEYS_MAX = 1024,    /* Of one map. */
};

enum wp_yaml_kind {
    WP_YAML_NULL,
    WP_YAML_BOOL,
    WP_YAML_INT,
    WP_YAML_FLOAT,
    WP_YAML_STRING,
    WP_YAML_MAP,
    WP_YAML_LIST,
};

/* A value; in a map also its key. */
struct wp_yaml {
    enum wp_yaml_kind kind;
    uint32_t line; /* From 1. */
    struct wp_str key;
    struct wp_str text;    /* Of scalars; terminated. */
    struct wp_yaml *first; /* Of maps and lists. */
    struct wp_yaml *next;
};

struct wp_yaml_reader; /* Over one file. */

/* bytes are borrowed until close. NULL when memory lacks. name is for messages.
 */
struct wp_yaml_reader *wp_yaml_open(const char *name, struct wp_str bytes);
/* The next document into *root (NULL for an empty one), its memory in pile.
 * NOT_FOUND without err: there are no more. */
WP_MUST_CHECK enum wp_status wp_yaml_next(struct wp_yaml_reader *reader,
                                          struct wp_pile *pile,
                                          struct wp_yaml **root,
                                          struct wp_err *err);
void wp_yaml_close(struct wp_yaml_reader *reader);

/* "a map", "a string", ...: for messages. */
const char *wp_yaml_kind_text(enum wp_yaml_kind kind);

#endif
