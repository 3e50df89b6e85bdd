/* What gzip has packed: whole, cut at every byte, damaged at every byte, and
 * too large. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "allocator/ctl/sandbox/gunzip.h"

enum {
    PACKED_MAX = 4096,
    LINES = 300,
};

static char text[16 * LINES];

/* As the program gzip writes it. Returns the packed length. */
static size_t
pack(const char *bytes, size_t len, unsigned char *out)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes,
                  .avail_in = (uInt)len,
                  .next_out = out,
                  .avail_out = PACKED_MAX};

    assert_int_equal(deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, 15 + 16,
                                  8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&z), Z_OK);
    return PACKED_MAX - z.avail_out;
}

static size_t
pack_text(unsigned char *out)
{
    size_t len = 0;

    for (int i = 0; i < LINES; i++) {
        len += (size_t)sprintf(text + len, "line %d\n", i * i);
    }
    return pack(text, len, out);
}

static bool
unpacks(const unsigned char *packed, size_t len, uint64_t max,
        const char *expected, struct wp_err *err)
{
    struct wp_region region = {NULL, {NULL, 0, 0}};
    struct wp_str out = {NULL, 0};
    bool ok = wp_gunzip((struct wp_str){(const char *)packed, len}, max,
                        &region, &out, err) == WP_OK;

    if (ok) {
        assert_true(wp_str_is(out, expected));
    } else {
        assert_int_equal(err->status, WP_INVALID_ARGUMENT);
    }
    wp_region_free(&region);
    return ok;
}

static void
whole(void **state)
{
    unsigned char packed[2 * PACKED_MAX];
    size_t len = pack_text(packed);
    struct wp_err err;

    (void)state;
    assert_true(wp_gunzip_is((struct wp_str){(const char *)packed, len}));
    assert_true(wp_gunzip_is(WP_STR("\x1f\x8b")));
    assert_false(wp_gunzip_is((struct wp_str){"\x1f\x8b", 1}));
    assert_false(wp_gunzip_is(WP_STR("PK\x03\x04")));
    assert_true(unpacks(packed, len, strlen(text), text, &err));
    /* Of nothing, and one behind the other. */
    len = pack("", 0, packed);
    assert_true(unpacks(packed, len, 0, "", &err));
    len += pack("ab", 2, packed + len);
    len += pack("", 0, packed + len);
    len += pack("c", 1, packed + len);
    assert_true(unpacks(packed, len, 3, "abc", &err));
}

static void
too_large(void **state)
{
    unsigned char packed[PACKED_MAX];
    size_t len = pack_text(packed);
    struct wp_err err;

    (void)state;
    assert_false(unpacks(packed, len, strlen(text) - 1, text, &err));
    assert_string_equal(err.msg, "it is too large when it is unpacked");
}

static void
cut_and_damaged(void **state)
{
    unsigned char packed[PACKED_MAX];
    size_t len = pack_text(packed);
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < len; i++) {
        assert_false(unpacks(packed, i, UINT32_MAX, text, &err));
        assert_string_equal(err.msg, "it ends before it is complete");
    }
    /* The head has bytes that do not count. */
    for (size_t i = 10; i < len; i++) {
        packed[i] ^= 0x10;
        assert_false(unpacks(packed, len, UINT32_MAX, text, &err));
        packed[i] ^= 0x10;
    }
    packed[len] = 'x';
    assert_false(unpacks(packed, len + 1, UINT32_MAX, text, &err));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),
        cmocka_unit_test(too_large),
        cmocka_unit_test(cut_and_damaged),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
