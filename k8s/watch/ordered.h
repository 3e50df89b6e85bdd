/* k8s/watch/ordered.h - objects in the order of a key, for the indexes of a
 * store.
 *
 * By key, then namespace, then name, so all objects of one key lie together and
 * are walked by name. Kept in blocks of some hundred entries: a look-up is a
 * binary search, an insertion moves at most one block's entries; per object and
 * index 16 bytes are paid, a third of a tree's node. Loop thread only. */
#ifndef WP_K8S_WATCH_ORDERED_H
#define WP_K8S_WATCH_ORDERED_H

#include <stddef.h>
#include <stdint.h>

#include "k8s/objects/object.h"

struct wp_ordered_block;

struct wp_ordered {
    struct wp_ordered_block **blocks; /* None is empty. */
    uint32_t blocks_len;
    uint32_t blocks_cap;
    uint32_t count;
};

struct wp_ordered_at {
    uint32_t block;
    uint32_t entry;
};

/* A zeroed one is empty. Frees what is its own, not the objects. */
void wp_ordered_fini(struct wp_ordered *set);

/* key must live as long as the object: it is part of it, or static. There must
 * be none of the same key, namespace and name. Aborts when memory lacks. */
void wp_ordered_insert(struct wp_ordered *set, const char *key,
                       const struct wp_object *object);
/* It must be there. */
void wp_ordered_remove(struct wp_ordered *set, const char *key,
                       const struct wp_object *object);
/* The first that is not before (key, ns, name). */
struct wp_ordered_at wp_ordered_seek(const struct wp_ordered *set,
                                     const char *key, const char *ns,
                                     const char *name);
/* NULL behind the last one. *key, unless NULL, is set to its key. */
const struct wp_object *wp_ordered_get(const struct wp_ordered *set,
                                       struct wp_ordered_at at,
                                       const char **key);
struct wp_ordered_at wp_ordered_next(const struct wp_ordered *set,
                                     struct wp_ordered_at at);
/* Where the walk goes on when what was at `at` has been removed. */
struct wp_ordered_at wp_ordered_settle(const struct wp_ordered *set,
                                       struct wp_ordered_at at);
/* What it takes itself. */
size_t wp_ordered_bytes(const struct wp_ordered *set);

#endif
