/* Any archive: each file lies within it, in order and apart from the others,
 * has a path that ends, and permissions only; an error says what was expected. */
#include <stdlib.h>
#include <string.h>

#include "pool/remotes/tar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *begin = (const char *)data;
    const char *free_from = begin;
    struct wp_str rest = {begin, size};
    struct wp_tar_file file;
    const char *why = NULL;
    int found;

    while ((found = wp_tar_next(&rest, &file, &why)) > 0) {
        if (file.content.ptr < free_from ||
            file.content.ptr + file.content.len > begin + size ||
            file.path[0] == '\0' || strlen(file.path) > WP_TAR_PATH_MAX ||
            file.mode > 0777 || rest.ptr + rest.len != begin + size) {
            abort();
        }
        free_from = file.content.ptr + file.content.len;
    }
    if (found < 0 ? why == NULL || why[0] == '\0' : rest.len != 0) {
        abort();
    }
    return 0;
}
