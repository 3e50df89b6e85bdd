#include "proto/wire/reflection.h"

#include "proto/wire/check.h"
#include "proto/wire/decode.h"
#include "proto/wire/encode.h"

#include "grpc/reflection/v1alpha/reflection.pb-c.h"

typedef Grpc__Reflection__V1alpha__ServerReflectionRequest Request;
typedef Grpc__Reflection__V1alpha__ServerReflectionResponse Response;
typedef Grpc__Reflection__V1alpha__ExtensionRequest Extension;

/* --- ServerReflectionRequest --- */

static enum wp_status
request_in(const Request *pb, struct wp_wire_reflection_request *out,
           struct wp_err *err)
{
    enum wp_status status;

    *out = (struct wp_wire_reflection_request){
        .host = wp_str_from(pb->host),
        .kind = (enum wp_wire_reflection_kind)pb->message_request_case,
    };
    switch (out->kind) {
    case WP_WIRE_REFLECTION_FILE_BY_NAME:
        out->name = wp_str_from(pb->file_by_filename);
        break;
    case WP_WIRE_REFLECTION_FILE_BY_SYMBOL:
        out->name = wp_str_from(pb->file_containing_symbol);
        break;
    case WP_WIRE_REFLECTION_FILE_BY_EXTENSION:
        out->name = wp_str_from(pb->file_containing_extension->containing_type);
        out->extension_number = pb->file_containing_extension->extension_number;
        break;
    case WP_WIRE_REFLECTION_EXTENSION_NUMBERS:
        out->name = wp_str_from(pb->all_extension_numbers_of_type);
        break;
    case WP_WIRE_REFLECTION_LIST_SERVICES:
        out->name = wp_str_from(pb->list_services);
        break;
    case WP_WIRE_REFLECTION_NONE:
    default:
        out->kind = WP_WIRE_REFLECTION_NONE;
        break;
    }
    status = wp_wire_check_text("host", out->host, 0, WP_WIRE_SYMBOL_MAX, err);
    if (status == WP_OK) {
        status = wp_wire_check_text("message_request", out->name, 0,
                                    WP_WIRE_SYMBOL_MAX, err);
    }
    return status;
}

WP_WIRE_DEFINE_UNPACK(reflection_request, wp_wire_reflection_request, Request,
                      grpc__reflection__v1alpha__server_reflection_request,
                      request_in)

struct request {
    Request request;
    Extension extension;
};

static void
fill_reflection_request(const struct wp_wire_reflection_request *in,
                        struct request *pb)
{
    /* A member of a oneof is on the wire even when empty, but protobuf-c leaves
     * it out when it points at its own empty string. */
    static const char empty[] = "";
    char *name =
        wp_wire_borrow(in->name.len > 0 ? wp_wire_borrow_str(in->name) : empty);

    grpc__reflection__v1alpha__server_reflection_request__init(&pb->request);
    pb->request.host = wp_wire_borrow_str(in->host);
    pb->request.message_request_case = (unsigned)in->kind;
    switch (in->kind) {
    case WP_WIRE_REFLECTION_NONE:
        break;
    case WP_WIRE_REFLECTION_FILE_BY_NAME:
        pb->request.file_by_filename = name;
        break;
    case WP_WIRE_REFLECTION_FILE_BY_SYMBOL:
        pb->request.file_containing_symbol = name;
        break;
    case WP_WIRE_REFLECTION_FILE_BY_EXTENSION:
        grpc__reflection__v1alpha__extension_request__init(&pb->extension);
        pb->extension.containing_type = name;
        pb->extension.extension_number = in->extension_number;
        pb->request.file_containing_extension = &pb->extension;
        break;
    case WP_WIRE_REFLECTION_EXTENSION_NUMBERS:
        pb->request.all_extension_numbers_of_type = name;
        break;
    case WP_WIRE_REFLECTION_LIST_SERVICES:
        pb->request.list_services = name;
        break;
    }
}

WP_WIRE_DEFINE_PACK(reflection_request, wp_wire_reflection_request,
                    struct request, fill_reflection_request)

/* --- ServerReflectionResponse --- */

static enum wp_status
files_in(struct wp_arena *arena,
         const Grpc__Reflection__V1alpha__FileDescriptorResponse *pb,
         struct wp_wire_reflection_response *out, struct wp_err *err)
{
    size_t n = pb->n_file_descriptor_proto;
    struct wp_str *entries = wp_arena_alloc(arena, n * sizeof *entries);

    if (n > WP_WIRE_REFLECTION_ENTRIES_MAX || entries == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "file_descriptor_proto: at most %d expected, got %zu",
                          WP_WIRE_REFLECTION_ENTRIES_MAX, n);
    }
    for (size_t i = 0; i < n; i++) {
        entries[i] = (struct wp_str){
            (const char *)pb->file_descriptor_proto[i].data,
            pb->file_descriptor_proto[i].len,
        };
    }
    out->entries = entries;
    out->n_entries = (uint32_t)n;
    return WP_OK;
}

static enum wp_status
services_in(struct wp_arena *arena,
            const Grpc__Reflection__V1alpha__ListServiceResponse *pb,
            struct wp_wire_reflection_response *out, struct wp_err *err)
{
    size_t n = pb->n_service;
    struct wp_str *entries = wp_arena_alloc(arena, n * sizeof *entries);

    if (n > WP_WIRE_REFLECTION_ENTRIES_MAX || entries == NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "service: at most %d expected, got %zu",
                          WP_WIRE_REFLECTION_ENTRIES_MAX, n);
    }
    for (size_t i = 0; i < n; i++) {
        enum wp_status status;

        entries[i] = wp_str_from(pb->service[i]->name);
        status = wp_wire_check_text("service.name", entries[i], 0,
                                    WP_WIRE_SYMBOL_MAX, err);
        if (status != WP_OK) {
            return status;
        }
    }
    out->entries = entries;
    out->n_entries = (uint32_t)n;
    return WP_OK;
}

enum wp_status
wp_wire_unpack_reflection_response(struct wp_arena *arena, const uint8_t *bytes,
                                   size_t len,
                                   struct wp_wire_reflection_response *out,
                                   struct wp_err *err)
{
    const Response *pb = wp_wire_decode(
        arena,
        &grpc__reflection__v1alpha__server_reflection_response__descriptor,
        bytes, len, err);
    enum wp_status status;
    int kind;

    if (pb == NULL) {
        return WP_INVALID_ARGUMENT;
    }
    *out = (struct wp_wire_reflection_response){
        .host = wp_str_from(pb->valid_host)};
    status =
        wp_wire_check_text("valid_host", out->host, 0, WP_WIRE_SYMBOL_MAX, err);
    if (status == WP_OK && pb->original_request != NULL) {
        status = request_in(pb->original_request, &out->original, err);
    }
    if (status != WP_OK) {
        return status;
    }
    kind = (int)pb->message_response_case;
    if (kind == WP_WIRE_REFLECTION_FILES) {
        out->kind = WP_WIRE_REFLECTION_FILES;
        return files_in(arena, pb->file_descriptor_response, out, err);
    }
    if (kind == WP_WIRE_REFLECTION_SERVICES) {
        out->kind = WP_WIRE_REFLECTION_SERVICES;
        return services_in(arena, pb->list_services_response, out, err);
    }
    if (kind == WP_WIRE_REFLECTION_ERROR) {
        out->kind = WP_WIRE_REFLECTION_ERROR;
        out->error_code = pb->error_response->error_code;
        out->error_message = wp_str_from(pb->error_response->error_message);
        return wp_wire_check_text("error_message", out->error_message, 0, 1024,
                                  err);
    }
    return wp_err_set(err, WP_INVALID_ARGUMENT,
                      "message_response: files, services or an error expected");
}

struct response {
    Response response;
    struct request original;
    Grpc__Reflection__V1alpha__FileDescriptorResponse files;
    ProtobufCBinaryData file[WP_WIRE_REFLECTION_ENTRIES_MAX];
    Grpc__Reflection__V1alpha__ListServiceResponse services;
    Grpc__Reflection__V1alpha__ServiceResponse
        service[WP_WIRE_REFLECTION_ENTRIES_MAX];
    Grpc__Reflection__V1alpha__ServiceResponse
        *service_at[WP_WIRE_REFLECTION_ENTRIES_MAX];
    Grpc__Reflection__V1alpha__ErrorResponse error;
};

static void
fill_answer(const struct wp_wire_reflection_response *in, struct response *pb)
{
    WP_ASSERT(in->n_entries <= WP_WIRE_REFLECTION_ENTRIES_MAX);
    switch (in->kind) {
    case WP_WIRE_REFLECTION_FILES:
        grpc__reflection__v1alpha__file_descriptor_response__init(&pb->files);
        for (uint32_t i = 0; i < in->n_entries; i++) {
            pb->file[i] =
                wp_wire_borrow_bytes(in->entries[i].ptr, in->entries[i].len);
        }
        pb->files.n_file_descriptor_proto = in->n_entries;
        pb->files.file_descriptor_proto = pb->file;
        pb->response.file_descriptor_response = &pb->files;
        break;
    case WP_WIRE_REFLECTION_SERVICES:
        grpc__reflection__v1alpha__list_service_response__init(&pb->services);
        for (uint32_t i = 0; i < in->n_entries; i++) {
            grpc__reflection__v1alpha__service_response__init(&pb->service[i]);
            pb->service[i].name = wp_wire_borrow_str(in->entries[i]);
            pb->service_at[i] = &pb->service[i];
        }
        pb->services.n_service = in->n_entries;
        pb->services.service = pb->service_at;
        pb->response.list_services_response = &pb->services;
        break;
    case WP_WIRE_REFLECTION_ERROR:
        grpc__reflection__v1alpha__error_response__init(&pb->error);
        pb->error.error_code = in->error_code;
        pb->error.error_message = wp_wire_borrow_str(in->error_message);
        pb->response.error_response = &pb->error;
        break;
    }
}

static void
fill_reflection_response(const struct wp_wire_reflection_response *in,
                         struct response *pb)
{
    grpc__reflection__v1alpha__server_reflection_response__init(&pb->response);
    pb->response.valid_host = wp_wire_borrow_str(in->host);
    fill_reflection_request(&in->original, &pb->original);
    pb->response.original_request = &pb->original.request;
    pb->response.message_response_case = (unsigned)in->kind;
    fill_answer(in, pb);
}

WP_WIRE_DEFINE_PACK(reflection_response, wp_wire_reflection_response,
                    struct response, fill_reflection_response)
