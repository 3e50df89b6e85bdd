/* The library leaves const out of what it only reads, unless asked. */
#define ZLIB_CONST

#include "allocator/ctl/sandbox/gunzip.h"

#include <limits.h>
#include <string.h>
#include <zlib.h>

enum {
    WINDOW_OF_GZIP = 15 + 16, /* The largest window, and gzip's head. */
    SCRATCH = 65536,
};

/* Where what is unpacked goes; to NULL: only its size is wanted. */
struct unpacking {
    z_stream z;
    char *to;
    uint64_t size; /* Of what was unpacked so far. */
    uint64_t max;
};

static uInt
some(uint64_t n)
{
    return n < UINT_MAX ? (uInt)n : UINT_MAX;
}

/* One call of inflate. */
static int
unpack_some(struct unpacking *self, struct wp_str *rest)
{
    unsigned char scratch[SCRATCH];
    uInt room = self->to == NULL ? SCRATCH : some(self->max - self->size);
    uInt given = some(rest->len);
    int rc;

    self->z.next_in = (const unsigned char *)rest->ptr;
    self->z.avail_in = given;
    self->z.next_out =
        self->to == NULL ? scratch : (unsigned char *)self->to + self->size;
    self->z.avail_out = room;
    rc = inflate(&self->z, Z_NO_FLUSH);
    self->size += room - self->z.avail_out;
    rest->ptr += given - self->z.avail_in;
    rest->len -= given - self->z.avail_in;
    return rc;
}

/* NULL, or what is wrong. */
static const char *
unpack(struct unpacking *self, struct wp_str packed)
{
    int rc = inflateInit2(&self->z, WINDOW_OF_GZIP);
    const char *wrong = rc == Z_OK ? NULL : "no memory to unpack it";

    while (wrong == NULL && (packed.len > 0 || rc != Z_STREAM_END)) {
        if (rc == Z_STREAM_END && inflateReset(&self->z) != Z_OK) {
            wrong = "no memory to unpack it";
            break;
        }
        rc = unpack_some(self, &packed);
        if (self->size > self->max) {
            wrong = "it is too large when it is unpacked";
        } else if (rc != Z_OK && rc != Z_STREAM_END) {
            wrong = packed.len == 0 ? "it ends before it is complete"
                                    : "it is damaged";
        }
    }
    (void)inflateEnd(&self->z);
    return wrong;
}

bool
wp_gunzip_is(struct wp_str packed)
{
    return packed.len >= 2 && memcmp(packed.ptr, "\x1f\x8b", 2) == 0;
}

enum wp_status
wp_gunzip(struct wp_str packed, uint64_t max, struct wp_region *region,
          struct wp_str *out, struct wp_err *err)
{
    struct unpacking sizing = {.max = max};
    const char *wrong = unpack(&sizing, packed);
    struct unpacking filling = {.max = sizing.size};

    if (wrong == NULL) {
        filling.to = wp_region_alloc(region, sizing.size + 1);
        wrong =
            filling.to == NULL ? "no memory for it" : unpack(&filling, packed);
    }
    if (wrong != NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "%s", wrong);
    }
    *out = (struct wp_str){filling.to, filling.size};
    return WP_OK;
}
