#include "local/manifest/notes.h"

#include <string.h>

bool
wp_notes_add(struct wp_notes *notes, struct wp_region *region, const char *text)
{
    static const char more[] = "further notes are left out";
    size_t len = notes->len;

    for (size_t i = 0; i < len; i++) {
        if (strcmp(notes->texts[i], text) == 0) {
            return true;
        }
    }
    if (len >= WP_NOTES_MAX - 1) {
        notes->texts[WP_NOTES_MAX - 1] = more;
        notes->len = WP_NOTES_MAX;
        return true;
    }
    notes->texts[len] = wp_region_str(region, wp_str_from(text));
    if (notes->texts[len] == NULL) {
        return false;
    }
    notes->len++;
    return true;
}
