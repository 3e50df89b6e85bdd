/* local/manifest/decode.h - walks a YAML tree by tables of known fields.
 *
 * A table names every field that Kubernetes has at a place and says what
 * becomes of it here; whatever is in no table is a mistake and is refused. The
 * position (file, object, field path) is kept for messages. */
#ifndef WP_LOCAL_MANIFEST_DECODE_H
#define WP_LOCAL_MANIFEST_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "local/manifest/notes.h"
#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "proto/formats/yaml_tree.h"

enum {
    WP_DECODE_PATH_MAX = 160
};

struct wp_decode {
    const char *file;
    const char *kind;         /* Of the object; NULL until known. */
    const char *object;       /* Its name; NULL until known. */
    struct wp_region *region; /* For what is kept. */
    struct wp_notes *notes;
    struct wp_err *err;
    char path[WP_DECODE_PATH_MAX];
    size_t path_len;
};

enum wp_field_fate {
    WP_FIELD_USED,    /* By its function. */
    WP_FIELD_PLAIN,   /* Holds here whatever it says; accepted in silence. */
    WP_FIELD_NOTED,   /* Accepted; said to be not enforced. */
    WP_FIELD_REFUSED, /* Cannot be had on one machine. */
    /* The same, unless it asks for nothing: an empty list; false. */
    WP_FIELD_EMPTY_LIST,
    WP_FIELD_FALSE,
};

struct wp_field {
    const char *name;
    enum wp_field_fate fate;
    bool required;
    /* For WP_FIELD_USED; false with d->err set. */
    bool (*use)(struct wp_decode *d, const struct wp_yaml *node, void *out);
    /* For what is refused: what to do instead, as the end of a sentence. */
    const char *instead;
};

#define WP_USED(name, use)                                                     \
    {                                                                          \
        name, WP_FIELD_USED, false, use, NULL                                  \
    }
#define WP_REQUIRED(name, use)                                                 \
    {                                                                          \
        name, WP_FIELD_USED, true, use, NULL                                   \
    }
#define WP_PLAIN(name)                                                         \
    {                                                                          \
        name, WP_FIELD_PLAIN, false, NULL, NULL                                \
    }
#define WP_NOTED(name)                                                         \
    {                                                                          \
        name, WP_FIELD_NOTED, false, NULL, NULL                                \
    }
#define WP_REFUSED(name, instead)                                              \
    {                                                                          \
        name, WP_FIELD_REFUSED, false, NULL, instead                           \
    }
#define WP_EMPTY_LIST(name, instead)                                           \
    {                                                                          \
        name, WP_FIELD_EMPTY_LIST, false, NULL, instead                        \
    }
#define WP_FALSE(name, instead)                                                \
    {                                                                          \
        name, WP_FIELD_FALSE, false, NULL, instead                             \
    }

/* Every child of a map goes by the table. */
WP_MUST_CHECK bool wp_decode_map(struct wp_decode *d,
                                 const struct wp_yaml *node,
                                 const struct wp_field *fields, size_t len,
                                 void *out);
#define WP_DECODE_MAP(d, node, fields, out)                                    \
    wp_decode_map(d, node, fields, WP_ARRAY_LEN(fields), out)

/* Calls each(d, item, out) for a list's items, of which there may be max. */
WP_MUST_CHECK bool wp_decode_list(
    struct wp_decode *d, const struct wp_yaml *node, uint32_t max,
    bool (*each)(struct wp_decode *d, const struct wp_yaml *node, void *out),
    void *out);

WP_MUST_CHECK bool wp_decode_is(struct wp_decode *d, const struct wp_yaml *node,
                                enum wp_yaml_kind kind);
/* A string of at most max bytes, kept in the region; node->kind is checked. */
WP_MUST_CHECK bool wp_decode_text(struct wp_decode *d,
                                  const struct wp_yaml *node, size_t max,
                                  const char **out);
WP_MUST_CHECK bool wp_decode_int(struct wp_decode *d,
                                 const struct wp_yaml *node, int64_t min,
                                 int64_t max, int64_t *out);
WP_MUST_CHECK bool wp_decode_bool(struct wp_decode *d,
                                  const struct wp_yaml *node, bool *out);
/* One of the words of a list that ends with NULL. */
WP_MUST_CHECK bool wp_decode_word(struct wp_decode *d,
                                  const struct wp_yaml *node,
                                  const char *const *words, size_t *index);

/* Sets d->err to "file:line: Kind object: path: " and the words; false. */
bool wp_decode_fail(struct wp_decode *d, const struct wp_yaml *node,
                    const char *fmt, ...) WP_PRINTF(3, 4);
/* Adds a note about the node's field, unless it is there already. */
WP_MUST_CHECK bool wp_decode_note(struct wp_decode *d,
                                  const struct wp_yaml *node,
                                  const char *words);

/* "file:line: Kind object: path: ", for a mistake that shows later; in the
 * region. NULL with d->err set. */
WP_MUST_CHECK const char *wp_decode_place(struct wp_decode *d,
                                          const struct wp_yaml *node);
/* How many items a list has, at most max; 0 when it is none. */
uint32_t wp_decode_count(const struct wp_yaml *node, uint32_t max);

/* Zeroed memory in the region; NULL with d->err set. */
void *wp_decode_reserve(struct wp_decode *d, const struct wp_yaml *node,
                        size_t size);

/* The path while a child is looked at; leave with what enter returned. */
size_t wp_decode_enter(struct wp_decode *d, struct wp_str key);
void wp_decode_leave(struct wp_decode *d, size_t mark);

#endif
