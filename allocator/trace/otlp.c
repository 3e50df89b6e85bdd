#include "allocator/trace/otlp.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "proto/formats/json_text.h"

enum {
    OTLP_STATUS_ERROR = 2,
};

/* Everything below is NULL, or left out, when memory lacks: dumps then fails or
 * the request lacks an attribute, which harms nobody. */

static void
put(json_t *attributes, const char *key, const char *type, json_t *value)
{
    (void)json_array_append_new(
        attributes, json_pack("{s:s, s:{s:o}}", "key", key, "value", type,
                              value != NULL ? value : json_null()));
}

static void
put_text(json_t *attributes, const char *key, const char *text)
{
    if (text != NULL && text[0] != '\0') {
        put(attributes, key, "stringValue", wp_json_from_text(text));
    }
}

/* 64-bit numbers are texts in protobuf's JSON. */
static json_t *
whole(int64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRId64, value);
    return json_string(text);
}

/* An RPC's name is "package.Service/Method". */
static void
put_rpc(json_t *attributes, const struct wp_span *span)
{
    const char *slash = strchr(span->name, '/');

    put_text(attributes, "rpc.system", "grpc");
    put(attributes, "rpc.service", "stringValue",
        json_stringn(span->name, (size_t)(slash - span->name)));
    put_text(attributes, "rpc.method", slash + 1);
    put(attributes, "rpc.grpc.status_code", "intValue",
        whole(wp_status_grpc_code(span->status)));
}

static json_t *
attributes_of(const struct wp_span *span)
{
    json_t *attributes = json_array();

    if (span->is_rpc) {
        put_rpc(attributes, span);
    }
    put_text(attributes, "warmpool.namespace", span->pool_namespace);
    put_text(attributes, "warmpool.pool", span->pool);
    put_text(attributes, "warmpool.claim", span->claim);
    put_text(attributes, "warmpool.sandbox", span->sandbox);
    put_text(attributes, "warmpool.served", span->served);
    return attributes;
}

static json_t *
hex(const uint8_t *bytes, size_t len)
{
    char text[2 * WP_TRACE_ID_LEN + 1];

    wp_hex_encode(bytes, len, text);
    return json_string(text);
}

static json_t *
span_json(const struct wp_span *span, int64_t offset_ns)
{
    json_t *json = json_pack(
        "{s:o, s:o, s:o, s:s, s:i, s:o, s:o, s:o}", "traceId",
        hex(span->trace_id, WP_TRACE_ID_LEN), "spanId",
        hex(span->span_id, WP_SPAN_ID_LEN), "parentSpanId",
        hex(span->parent_id, WP_SPAN_ID_LEN), "name", span->name, "kind",
        (int)span->kind, "startTimeUnixNano", whole(span->begin_ns + offset_ns),
        "endTimeUnixNano", whole(span->end_ns + offset_ns), "attributes",
        attributes_of(span));

    if (span->status != WP_OK) {
        (void)json_object_set_new(json, "status",
                                  json_pack("{s:i, s:s}", "code",
                                            OTLP_STATUS_ERROR, "message",
                                            wp_status_name(span->status)));
    }
    return json;
}

static json_t *
resource_json(const struct wp_otlp_resource *resource)
{
    json_t *attributes = json_array();

    put_text(attributes, "service.name", "warmpoold");
    put_text(attributes, "service.version", resource->version);
    put_text(attributes, "host.name", resource->host);
    put(attributes, "process.pid", "intValue", whole(resource->pid));
    return json_pack("{s:o}", "attributes", attributes);
}

char *
wp_otlp_request(const struct wp_otlp_resource *resource,
                const struct wp_span *spans, size_t n, int64_t offset_ns)
{
    json_t *list = json_array();
    json_t *request;
    char *text;

    for (size_t i = 0; i < n; i++) {
        (void)json_array_append_new(list, span_json(&spans[i], offset_ns));
    }
    request = json_pack("{s:[{s:o, s:[{s:{s:s}, s:o}]}]}", "resourceSpans",
                        "resource", resource_json(resource), "scopeSpans",
                        "scope", "name", "warmpool", "spans", list);
    text = request != NULL ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    return text;
}
