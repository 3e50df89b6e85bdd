/* grpc.reflection, v1 and v1alpha: what services there are, and the files that
 * describe them, for grpcurl and its like. The messages of both are the same.
 *
 * The build embeds a serialised FileDescriptorSet. Of protobuf's wire format
 * this file needs two things: to walk over fields, and to read names. A symbol
 * is a path of names, so it is found by going down one name at a time. */
#include "allocator/grpc/internal.h"

#include <stdlib.h>
#include <string.h>

#include "proto/wire/descriptor.h"
#include "proto/wire/reflection.h"

struct wp_rpc_reflection {
    struct wp_rpc_server *server;
    struct wp_service service[WP_RPC_REFLECTION_VERSIONS];
    struct wp_method method[WP_RPC_REFLECTION_VERSIONS];
};

static const struct {
    const char *service;
    const char *method;
} versions[WP_RPC_REFLECTION_VERSIONS] = {
    {"grpc.reflection.v1.ServerReflection",
     "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"},
    {"grpc.reflection.v1alpha.ServerReflection",
     "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"},
};

/* Kinds of descriptor messages, by the fields that hold named parts. */
enum node_kind {
    NODE_FILE,
    NODE_MESSAGE,
    NODE_ENUM,
    NODE_SERVICE,
    NODE_LEAF,
};

/* In which field of a node of kind `parent` parts of kind `child` are. */
static const struct {
    enum node_kind parent;
    uint32_t field;
    enum node_kind child;
} parts[] = {
    {NODE_FILE, 4, NODE_MESSAGE}, {NODE_FILE, 5, NODE_ENUM},
    {NODE_FILE, 6, NODE_SERVICE}, {NODE_FILE, 7, NODE_LEAF},
    {NODE_MESSAGE, 2, NODE_LEAF}, {NODE_MESSAGE, 3, NODE_MESSAGE},
    {NODE_MESSAGE, 4, NODE_ENUM}, {NODE_MESSAGE, 8, NODE_LEAF},
    {NODE_ENUM, 2, NODE_LEAF},    {NODE_SERVICE, 2, NODE_LEAF},
};

struct field {
    uint32_t number;
    struct wp_str bytes; /* Of a length-delimited field; else empty. */
};

static bool
read_varint(struct wp_str *in, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && in->len > 0; shift += 7) {
        uint8_t byte = (uint8_t)in->ptr[0];

        in->ptr++;
        in->len--;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0) {
            return true;
        }
    }
    return false;
}

/* Takes the next field off in. False at the end, or where the bytes are no
 * message. */
static bool
next_field(struct wp_str *in, struct field *out)
{
    uint64_t key;
    uint64_t n = 0;

    if (!read_varint(in, &key)) {
        return false;
    }
    out->number = (uint32_t)(key >> 3);
    out->bytes = (struct wp_str){NULL, 0};
    switch (key & 7) {
    case 0:
        return read_varint(in, &n);
    case 1:
        n = 8;
        break;
    case 2:
        if (!read_varint(in, &n)) {
            return false;
        }
        break;
    case 5:
        n = 4;
        break;
    default:
        return false;
    }
    if (n > in->len) {
        return false;
    }
    if ((key & 7) == 2) {
        out->bytes = (struct wp_str){in->ptr, (size_t)n};
    }
    in->ptr += n;
    in->len -= (size_t)n;
    return true;
}

/* The first length-delimited field of that number; empty when there is none. */
static struct wp_str
field_bytes(struct wp_str message, uint32_t number)
{
    struct field field;

    while (next_field(&message, &field)) {
        if (field.number == number) {
            return field.bytes;
        }
    }
    return (struct wp_str){NULL, 0};
}

/* The part of node named `name`, and its kind through kind. */
static bool
find_part(struct wp_str *node, enum node_kind *kind, struct wp_str name)
{
    struct wp_str rest = *node;
    struct field field;

    while (next_field(&rest, &field)) {
        for (size_t i = 0; i < WP_ARRAY_LEN(parts); i++) {
            if (parts[i].parent == *kind && parts[i].field == field.number &&
                wp_str_eq(field_bytes(field.bytes, 1), name)) {
                *node = field.bytes;
                *kind = parts[i].child;
                return true;
            }
        }
    }
    return false;
}

static bool
file_has_symbol(struct wp_str file, struct wp_str symbol)
{
    struct wp_str package = field_bytes(file, 2);
    enum node_kind kind = NODE_FILE;

    if (package.len > 0) {
        if (!wp_str_starts_with(symbol, package) || symbol.len == package.len ||
            symbol.ptr[package.len] != '.') {
            return false;
        }
        symbol.ptr += package.len + 1;
        symbol.len -= package.len + 1;
    }
    for (;;) {
        const char *dot = memchr(symbol.ptr, '.', symbol.len);
        struct wp_str name = {
            symbol.ptr, dot != NULL ? (size_t)(dot - symbol.ptr) : symbol.len};

        if (name.len == 0 || !find_part(&file, &kind, name)) {
            return false;
        }
        if (dot == NULL) {
            return true;
        }
        symbol.ptr += name.len + 1;
        symbol.len -= name.len + 1;
    }
}

/* The file named `name`, or the one that has that symbol; empty when none. */
static struct wp_str
find_file(struct wp_str name, bool by_symbol)
{
    struct wp_str set = {(const char *)wp_descriptor_set,
                         wp_descriptor_set_len};
    struct field field;

    while (next_field(&set, &field)) {
        if (field.number == 1 &&
            (by_symbol ? file_has_symbol(field.bytes, name)
                       : wp_str_eq(field_bytes(field.bytes, 1), name))) {
            return field.bytes;
        }
    }
    return (struct wp_str){NULL, 0};
}

static void
set_error(struct wp_wire_reflection_response *response, enum wp_status status,
          const char *message)
{
    response->kind = WP_WIRE_REFLECTION_ERROR;
    response->error_code = wp_status_grpc_code(status);
    response->error_message = wp_str_from(message);
}

/* names: room for WP_WIRE_REFLECTION_ENTRIES_MAX. */
static void
answer(const struct wp_rpc_reflection *reflection,
       const struct wp_wire_reflection_request *request, struct wp_str *entries,
       struct wp_wire_reflection_response *response)
{
    const struct wp_rpc_server *server = reflection->server;

    response->host = request->host;
    response->original = *request;
    response->entries = entries;
    switch (request->kind) {
    case WP_WIRE_REFLECTION_LIST_SERVICES:
        response->kind = WP_WIRE_REFLECTION_SERVICES;
        for (uint32_t i = 0;
             i < server->n_services && i < WP_WIRE_REFLECTION_ENTRIES_MAX;
             i++) {
            entries[response->n_entries++] =
                wp_str_from(server->services[i]->name);
        }
        return;
    case WP_WIRE_REFLECTION_FILE_BY_NAME:
    case WP_WIRE_REFLECTION_FILE_BY_SYMBOL:
        entries[0] = find_file(
            request->name, request->kind == WP_WIRE_REFLECTION_FILE_BY_SYMBOL);
        if (entries[0].len == 0) {
            set_error(response, WP_NOT_FOUND, "no such file or symbol");
            return;
        }
        response->kind = WP_WIRE_REFLECTION_FILES;
        response->n_entries = 1;
        return;
    case WP_WIRE_REFLECTION_FILE_BY_EXTENSION:
    case WP_WIRE_REFLECTION_EXTENSION_NUMBERS:
        set_error(response, WP_NOT_FOUND, "there are no extensions");
        return;
    case WP_WIRE_REFLECTION_NONE:
    default:
        set_error(response, WP_UNIMPLEMENTED, "unknown kind of request");
        return;
    }
}

static void
info_start(struct wp_call *call, const uint8_t *request, size_t len)
{
    const struct wp_rpc_reflection *reflection = call->service;
    struct wp_wire_reflection_response response = {.n_entries = 0};
    struct wp_wire_reflection_request decoded;
    struct wp_str entries[WP_WIRE_REFLECTION_ENTRIES_MAX];
    struct wp_err err;
    uint8_t *buf;

    if (wp_wire_unpack_reflection_request(&call->arena, request, len, &decoded,
                                          &err) != WP_OK) {
        call->ops->finish(call, err.status, err.msg, 0);
        return;
    }
    answer(reflection, &decoded, entries, &response);
    buf = call->ops->reserve(call, wp_wire_size_reflection_response(&response));
    if (buf == NULL) {
        call->ops->finish(call, WP_RESOURCE_EXHAUSTED, "memory", 0);
        return;
    }
    (void)wp_wire_pack_reflection_response(&response, buf);
    (void)call->ops->send(call); /* The transport reads the next one after. */
}

struct wp_rpc_reflection *
wp_rpc_reflection_create(struct wp_rpc_server *server)
{
    struct wp_rpc_reflection *reflection = calloc(1, sizeof(*reflection));

    if (reflection == NULL) {
        return NULL;
    }
    reflection->server = server;
    for (int i = 0; i < WP_RPC_REFLECTION_VERSIONS; i++) {
        reflection->method[i] = (struct wp_method){.path = versions[i].method,
                                                   .server_streaming = true,
                                                   .start = info_start};
        reflection->service[i] =
            (struct wp_service){.name = versions[i].service,
                                .methods = &reflection->method[i],
                                .n_methods = 1,
                                .self = reflection};
    }
    return reflection;
}

void
wp_rpc_reflection_destroy(struct wp_rpc_reflection *reflection)
{
    free(reflection);
}

const struct wp_service *
wp_rpc_reflection_service(const struct wp_rpc_reflection *reflection,
                          int version)
{
    return &reflection->service[version];
}
