/* Any text as the annotation of a leased sandbox. What is taken is written again
 * as something that is read as the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/lease_annotation.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_lease_note note;
    struct wp_lease_note again;
    char written[WP_LEASE_NOTE_MAX];
    char *text = malloc(size + 1);

    if (text == NULL) {
        abort();
    }
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    if (wp_lease_note_read(text, &note)) {
        wp_lease_note_write(&note, written);
        if (!wp_lease_note_read(written, &again) ||
            memcmp(&note, &again, sizeof note) != 0) {
            abort();
        }
    }
    free(text);
    return 0;
}
