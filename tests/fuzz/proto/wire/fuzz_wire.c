/* Any bytes, as any message: the first byte picks which. What is accepted is
 * within the bounds of its struct, and packing it and unpacking that gives the
 * same bytes again. */
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "pool/base/assert.h"
#include "proto/wire/wire.h"
#include "proto/wire/health.h"
#include "proto/wire/reflection.h"
#include "proto/wire/status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    ARENA_SIZE = 1 << 20,
};

static alignas(max_align_t) char first_memory[ARENA_SIZE];
static alignas(max_align_t) char second_memory[ARENA_SIZE];

/* Unpack, pack, unpack, pack: both packed forms are equal. The buffers are of
 * the exact size, so that the sanitizers see one byte too far. */
#define WP_FUZZ_ROUND(name, type)                                              \
    static void round_##name(const uint8_t *data, size_t size)                 \
    {                                                                          \
        struct wp_arena first;                                                 \
        struct wp_arena second;                                                \
        struct type in;                                                        \
        struct type again;                                                     \
        struct wp_err err;                                                     \
        uint8_t *packed;                                                       \
        uint8_t *repacked;                                                     \
        size_t len;                                                            \
                                                                               \
        wp_arena_init(&first, first_memory, sizeof first_memory);              \
        wp_arena_init(&second, second_memory, sizeof second_memory);           \
        err.msg[0] = '\0';                                                     \
        if (wp_wire_unpack_##name(&first, data, size, &in, &err) != WP_OK) {   \
            WP_ASSERT(err.status == WP_INVALID_ARGUMENT);                      \
            WP_ASSERT(err.msg[0] != '\0');                                     \
            WP_ASSERT(wp_str_is_printable(wp_str_from(err.msg)));              \
            return;                                                            \
        }                                                                      \
        len = wp_wire_size_##name(&in);                                        \
        packed = malloc(len > 0 ? len : 1);                                    \
        repacked = malloc(len > 0 ? len : 1);                                  \
        WP_ASSERT(packed != NULL && repacked != NULL);                         \
        WP_ASSERT(wp_wire_pack_##name(&in, packed) == len);                    \
        WP_ASSERT(wp_wire_unpack_##name(&second, packed, len, &again, &err) == \
                  WP_OK);                                                      \
        WP_ASSERT(wp_wire_size_##name(&again) == len);                         \
        WP_ASSERT(wp_wire_pack_##name(&again, repacked) == len);               \
        WP_ASSERT(len == 0 || memcmp(packed, repacked, len) == 0);             \
        free(packed);                                                          \
        free(repacked);                                                        \
    }

#define WP_FUZZ_MORE(X)                                                        \
    X(health_request, wp_wire_health_request)                                  \
    X(health_response, wp_wire_health_response)                                \
    X(reflection_request, wp_wire_reflection_request)                          \
    X(reflection_response, wp_wire_reflection_response)                        \
    X(status, wp_wire_status)                                                  \
    X(binding, wp_binding)

WP_WIRE_MESSAGES(WP_FUZZ_ROUND)
WP_FUZZ_MORE(WP_FUZZ_ROUND)

static void (*const rounds[])(const uint8_t *data, size_t size) = {
#define X(name, type) round_##name,
    WP_WIRE_MESSAGES(X) WP_FUZZ_MORE(X)
#undef X
};

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0) {
        rounds[data[0] % WP_ARRAY_LEN(rounds)](data + 1, size - 1);
    }
    return 0;
}
