/* proto/wire/reflection.h - the messages of grpc.reflection.v1alpha; see
 * proto/wire/wire.h. */
#ifndef WP_PROTO_WIRE_REFLECTION_H
#define WP_PROTO_WIRE_REFLECTION_H

#include "proto/wire/wire.h"

enum {
    WP_WIRE_SYMBOL_MAX = 255, /* Of every string in a request. */
};

/* What is asked; the numbers are those of the message's oneof. */
enum wp_wire_reflection_kind {
    WP_WIRE_REFLECTION_NONE = 0, /* Nothing we know: answer with an error. */
    WP_WIRE_REFLECTION_FILE_BY_NAME = 3,
    WP_WIRE_REFLECTION_FILE_BY_SYMBOL = 4,
    WP_WIRE_REFLECTION_FILE_BY_EXTENSION = 5,
    WP_WIRE_REFLECTION_EXTENSION_NUMBERS = 6,
    WP_WIRE_REFLECTION_LIST_SERVICES = 7,
};

struct wp_wire_reflection_request {
    struct wp_str host;
    enum wp_wire_reflection_kind kind;
    /* The file's, symbol's or type's name; of list_services its text. */
    struct wp_str name;
    int32_t extension_number; /* FILE_BY_EXTENSION only. */
};

enum wp_wire_reflection_answer {
    WP_WIRE_REFLECTION_FILES = 4,
    WP_WIRE_REFLECTION_SERVICES = 6,
    WP_WIRE_REFLECTION_ERROR = 7,
};

struct wp_wire_reflection_response {
    struct wp_str host;
    struct wp_wire_reflection_request original;
    enum wp_wire_reflection_answer kind;
    /* FILES: serialised FileDescriptorProtos, which need not be terminated.
     * SERVICES: full names. */
    const struct wp_str *entries;
    uint32_t n_entries; /* At most WP_WIRE_REFLECTION_ENTRIES_MAX. */
    int error_code;     /* ERROR: a google.rpc.Code. */
    struct wp_str error_message;
};

enum {
    WP_WIRE_REFLECTION_ENTRIES_MAX = 64,
};

WP_WIRE_DECLARE(reflection_request, wp_wire_reflection_request)
WP_WIRE_DECLARE(reflection_response, wp_wire_reflection_response)

#endif
