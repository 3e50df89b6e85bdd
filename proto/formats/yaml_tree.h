/* proto/formats/yaml_tree.h - one YAML document as a tree, within bounds.
 *
 * Anchors, aliases, tags and merge keys are refused: what we read does not need
 * them, and they are how a small file becomes a large tree. */
#ifndef WP_PROTO_FORMATS_YAML_TREE_H
#define WP_PROTO_FORMATS_YAML_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/arena.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_YAML_DEPTH_MAX = 32
};

/* What a reader allows. */
struct wp_yaml_rules {
    /* For messages, as "file:line: ". NULL: "line N: ", and no message quotes
     * anything of the file, since it holds secrets. */
    const char *file;
    uint32_t documents_max;
    uint32_t depth_max; /* Up to WP_YAML_DEPTH_MAX. */
    uint32_t nodes_max; /* Of one document. */
    uint32_t keys_max;  /* Of one map. */
    bool repeats;       /* A key may be in its map twice; the reader checks. */
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
    uint32_t line; /* From 1; in a map, its key's. */
    struct wp_str key;
    struct wp_str text;    /* Of scalars; terminated, without NUL within. */
    struct wp_yaml *first; /* Of maps and lists. */
    struct wp_yaml *next;
};

struct wp_yaml_reader; /* Over one file. */

/* rules and bytes are borrowed until close. NULL when memory lacks. */
struct wp_yaml_reader *wp_yaml_open(const struct wp_yaml_rules *rules,
                                    struct wp_str bytes);
/* The next document into *root (NULL for an empty one), its memory in region.
 * NOT_FOUND without err: there are no more. */
WP_MUST_CHECK enum wp_status wp_yaml_next(struct wp_yaml_reader *reader,
                                          struct wp_region *region,
                                          struct wp_yaml **root,
                                          struct wp_err *err);
void wp_yaml_close(struct wp_yaml_reader *reader);
/* A whole file that is to hold one document; *root is NULL when it holds none.
 */
WP_MUST_CHECK enum wp_status wp_yaml_read_one(const struct wp_yaml_rules *rules,
                                              struct wp_str bytes,
                                              struct wp_region *region,
                                              struct wp_yaml **root,
                                              struct wp_err *err);

/* The value under key, which may be a null; NULL when map has none, or is no
 * map. */
const struct wp_yaml *wp_yaml_find(const struct wp_yaml *map, const char *key);
/* No map, list or null. */
bool wp_yaml_is_scalar(const struct wp_yaml *node);

/* "a map", "a string", ...: for messages. */
const char *wp_yaml_kind_text(enum wp_yaml_kind kind);

#endif
