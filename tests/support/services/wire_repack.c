/* tests/support/services/wire_repack.c - unpacks a message and packs it again.
 *
 * wire_repack NAME < bytes > bytes, where NAME is that of proto/wire/wire.h, as in
 * wp_wire_unpack_NAME. Exit code 2 when the message is refused, with the reason
 * on standard error. For tests that compare with other protobuf stacks. */
#include <stdalign.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "proto/wire/wire.h"
#include "proto/wire/health.h"
#include "proto/wire/reflection.h"
#include "proto/wire/status.h"

enum {
    MESSAGE_MAX = 1 << 20,
    REFUSED = 2,
};

static uint8_t input[MESSAGE_MAX];
static uint8_t output[2 * MESSAGE_MAX];
static alignas(max_align_t) char memory[8 * MESSAGE_MAX];

#define MORE(X)                                                                \
    X(health_request, wp_wire_health_request)                                  \
    X(health_response, wp_wire_health_response)                                \
    X(reflection_request, wp_wire_reflection_request)                          \
    X(reflection_response, wp_wire_reflection_response)                        \
    X(status, wp_wire_status)

#define REPACK(name, type)                                                     \
    if (strcmp(argv[1], #name) == 0) {                                         \
        struct type message;                                                   \
                                                                               \
        if (wp_wire_unpack_##name(&arena, input, len, &message, &err) !=       \
                WP_OK ||                                                       \
            wp_wire_size_##name(&message) > sizeof output) {                   \
            (void)fprintf(stderr, "%s\n", err.msg);                            \
            return REFUSED;                                                    \
        }                                                                      \
        len = wp_wire_pack_##name(&message, output);                           \
        return fwrite(output, 1, len, stdout) == len ? 0 : 1;                  \
    }

int
main(int argc, char **argv)
{
    struct wp_err err = {.msg = "the message is too long"};
    struct wp_arena arena;
    size_t len;

    if (argc != 2) {
        (void)fprintf(stderr, "usage: wire_repack NAME < message\n");
        return 1;
    }
    len = fread(input, 1, sizeof input, stdin);
    wp_arena_init(&arena, memory, sizeof memory);
    WP_WIRE_MESSAGES(REPACK)
    MORE(REPACK)
    (void)fprintf(stderr, "wire_repack: no message '%s'\n", argv[1]);
    return 1;
}
