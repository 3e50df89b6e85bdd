/* Packed archives: what comes out is no longer than allowed, and a tar reader
 * may walk over it. */
#include <stdint.h>
#include <stdlib.h>

#include "allocator/ctl/sandbox/gunzip.h"
#include "pool/base/assert.h"
#include "pool/remotes/tar.h"

enum {
    MAX = 1 << 20,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_region region = {NULL, {NULL, 0, 0}};
    static struct wp_tar_file file;
    const char *why;
    struct wp_str out;
    struct wp_err err;

    if (wp_gunzip((struct wp_str){(const char *)data, size}, MAX, &region, &out,
                  &err) == WP_OK) {
        WP_ASSERT(out.len <= MAX && out.ptr[out.len] == '\0');
        while (wp_tar_next(&out, &file, &why) > 0) {
            WP_ASSERT(file.content.len <= MAX);
        }
    }
    wp_region_free(&region);
    return 0;
}
