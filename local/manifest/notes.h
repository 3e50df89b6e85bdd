/* local/manifest/notes.h - what a manifest asks for that is not enforced, in
 * words for people. */
#ifndef WP_LOCAL_MANIFEST_NOTES_H
#define WP_LOCAL_MANIFEST_NOTES_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/base/arena.h"

enum {
    WP_NOTES_MAX = 1024
};

struct wp_notes {
    const char **texts; /* WP_NOTES_MAX of them; the owner's. */
    size_t len;
};

/* A copy in region. A text that is there already is not added again; the last
 * place says that more were left out. False when memory lacks. */
WP_MUST_CHECK bool wp_notes_add(struct wp_notes *notes,
                                struct wp_region *region, const char *text);

#endif
