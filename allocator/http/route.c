#include "allocator/http/route.h"

#include <strings.h>

#include "pool/base/clock.h"

static const struct wp_str sandboxes = {"/sandboxes/", 11};

static struct wp_str
field_value(const struct wp_http_message *request, const char *name)
{
    const struct wp_http_field *field = wp_http_field(request, name);

    return field != NULL ? field->value : (struct wp_str){NULL, 0};
}

static struct wp_str
bearer_of(const struct wp_http_message *request)
{
    struct wp_str value = field_value(request, "Authorization");

    if (value.len > 7 && value.len <= 7 + WP_BEARER_MAX &&
        strncasecmp(value.ptr, "Bearer ", 7) == 0) {
        return (struct wp_str){value.ptr + 7, value.len - 7};
    }
    return (struct wp_str){NULL, 0};
}

/* Whole seconds, or seconds with a fraction, which is ignored but for rounding
 * up; anything else counts as not given, as in agent-sandbox's router. */
static int64_t
timeout_of(const struct wp_http_message *request)
{
    struct wp_str value = field_value(request, "X-Sandbox-Timeout");
    const char *dot = value.len > 0 ? memchr(value.ptr, '.', value.len) : NULL;
    int64_t seconds;

    if (dot != NULL) {
        value.len = (size_t)(dot - value.ptr);
    }
    if (!wp_str_to_i64(value, &seconds) || seconds < 0 || seconds > 86400) {
        return 0;
    }
    seconds += dot != NULL ? 1 : 0;
    return seconds * WP_NS_PER_S;
}

static bool
read_router_fields(const struct wp_http_message *request,
                   struct wp_http_route *out, const char **why)
{
    struct wp_str port = field_value(request, "X-Sandbox-Port");
    uint64_t number = 0;

    out->sandbox_namespace = field_value(request, "X-Sandbox-Namespace");
    if (out->sandbox_namespace.len > 0 &&
        !wp_str_is_dns_name(out->sandbox_namespace, WP_NAMESPACE_MAX)) {
        *why = "X-Sandbox-Namespace: expected a DNS name of at most 63 "
               "characters";
        return false;
    }
    if (port.len > 0 &&
        (!wp_str_to_u64(port, &number) || number == 0 || number > UINT16_MAX)) {
        *why = "X-Sandbox-Port: expected a number from 1 to 65535";
        return false;
    }
    out->port = (uint16_t)number;
    out->timeout_ns = timeout_of(request);
    return true;
}

static size_t
name_len(struct wp_str text)
{
    size_t n = 0;

    while (n < text.len && text.ptr[n] != '/' && text.ptr[n] != '?') {
        n++;
    }
    return n;
}

bool
wp_http_route(const struct wp_http_message *request, struct wp_http_route *out,
              const char **why)
{
    struct wp_str target = request->target;
    struct wp_str id = field_value(request, "X-Sandbox-ID");
    const char *query = memchr(target.ptr, '?', target.len);

    *out = (struct wp_http_route){.bearer = bearer_of(request)};
    out->path = (struct wp_str){
        target.ptr, query != NULL ? (size_t)(query - target.ptr) : target.len};
    if (wp_str_starts_with(target, sandboxes)) {
        struct wp_str rest = {target.ptr + sandboxes.len,
                              target.len - sandboxes.len};

        out->sandbox = (struct wp_str){rest.ptr, name_len(rest)};
        out->rest = (struct wp_str){rest.ptr + out->sandbox.len,
                                    rest.len - out->sandbox.len};
    } else if (id.len > 0) {
        out->sandbox = id;
        out->rest = target;
    } else {
        return true;
    }
    out->proxy = true;
    if (!wp_str_is_dns_name(out->sandbox, WP_SANDBOX_NAME_MAX)) {
        *why = "the sandbox's name: expected a DNS name of at most 63 "
               "characters";
        return false;
    }
    return read_router_fields(request, out, why);
}
