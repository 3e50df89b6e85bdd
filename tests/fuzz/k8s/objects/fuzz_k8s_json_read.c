/* Any bytes as JSON. What jansson reads is read, to the same values where no
 * managedFields are in it; what is read only here has a number that jansson has
 * no room for, or managedFields; whatever was read can be written and is the
 * same again. */
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/json_read.h"
#include "pool/base/assert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FLAGS = JSON_DECODE_ANY | JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL,
};

static void
check_again(const json_t *json)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);
    json_t *again;

    WP_ASSERT(text != NULL);
    again = wp_json_read(wp_str_from(text), NULL);
    WP_ASSERT(again != NULL && json_equal(again, json));
    json_decref(again);
    free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_str text = {(const char *)data, size};
    /* jansson takes a NUL for the end. */
    bool cut = size > 0 && memchr(data, '\0', size) != NULL;
    bool managed =
        size > 0 && (memmem(data, size, "managedFields", 13) != NULL ||
                     memchr(data, '\\', size) != NULL);
    json_t *ours = wp_json_read(text, NULL);
    json_t *theirs = json_loadb(text.ptr, text.len, FLAGS, NULL);
    json_t *exact =
        json_loadb(text.ptr, text.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);

    WP_ASSERT(theirs == NULL || ours != NULL || cut);
    WP_ASSERT(ours == NULL || theirs != NULL || managed);
    WP_ASSERT(exact == NULL || managed || cut || json_equal(ours, exact));
    if (ours != NULL && !managed) {
        check_again(ours);
    }
    json_decref(exact);
    json_decref(theirs);
    json_decref(ours);
    return 0;
}
