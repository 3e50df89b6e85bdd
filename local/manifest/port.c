/* local/manifest/port.c - ports and the readiness probe. */
#include <string.h>

#include "local/http_probe.h"
#include "local/manifest/build.h"

enum {
    TIMEOUT_MAX_S = 3600,
};

static bool
use_port_number(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build_port *port = out;
    int64_t value;

    if (!wp_decode_int(d, node, 1, 65535, &value)) {
        return false;
    }
    port->number = (uint16_t)value;
    return true;
}

static bool
use_port_name(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build_port *port = out;

    return wp_decode_text(d, node, 63, &port->name);
}

static bool
use_protocol(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const char *const words[] = {"TCP", NULL};
    size_t index;

    (void)out;
    return wp_decode_word(d, node, words, &index);
}

static bool
add_port(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("containerPort", use_port_number),
        WP_USED("name", use_port_name),
        WP_USED("protocol", use_protocol),
        WP_REFUSED("hostPort", "clients reach the port by the daemon's proxy"),
        WP_REFUSED("hostIP", "clients reach the port by the daemon's proxy"),
    };
    struct wp_build *b = out;
    struct wp_build_port *port = &b->ports[b->ports_len];

    port->name = "";
    if (!WP_DECODE_MAP(d, node, fields, port)) {
        return false;
    }
    if (b->ports_len++ > 0) {
        return wp_decode_note(d, node,
                              "claims reach the first port only, on one"
                              " machine");
    }
    return true;
}

bool
wp_build_ports(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    return wp_decode_list(d, node, WP_BUILD_PORTS_MAX, add_port, out);
}

static bool
keep_probe_port(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    (void)d;
    b->probe_port = node;
    return true;
}

static bool
use_probe_path(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;

    if (!wp_decode_text(d, node, WP_HTTP_PROBE_PATH_MAX,
                        &b->tmpl->probe_path)) {
        return false;
    }
    return (node->text.ptr[0] == '/' && wp_str_is_printable(node->text) &&
            strchr(node->text.ptr, ' ') == NULL) ||
           wp_decode_fail(d, node,
                          "a path that starts with / and has no spaces was"
                          " expected");
}

static bool
use_scheme(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const char *const words[] = {"HTTP", NULL};
    size_t index;

    (void)out;
    return wp_decode_word(d, node, words, &index);
}

static bool
use_http_get(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_USED("path", use_probe_path), WP_REQUIRED("port", keep_probe_port),
        WP_USED("scheme", use_scheme),   WP_NOTED("host"),
        WP_NOTED("httpHeaders"),
    };
    struct wp_build *b = out;

    b->tmpl->probe = WP_READY_HTTP;
    b->tmpl->probe_path = "/";
    return WP_DECODE_MAP(d, node, fields, b);
}

static bool
use_tcp_socket(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("port", keep_probe_port),
        WP_NOTED("host"),
    };
    struct wp_build *b = out;

    b->tmpl->probe = WP_READY_TCP;
    return WP_DECODE_MAP(d, node, fields, b);
}

static bool
use_exec_command(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;
    const char **argv;
    uint32_t len;

    if (!wp_build_texts(d, node, &argv, &len)) {
        return false;
    }
    b->tmpl->probe_argv = argv;
    return (len > 0 && argv[0][0] != '\0') ||
           wp_decode_fail(d, node, "a program was expected");
}

static bool
use_exec(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    static const struct wp_field fields[] = {
        WP_REQUIRED("command", use_exec_command),
    };
    struct wp_build *b = out;

    b->tmpl->probe = WP_READY_EXEC;
    return WP_DECODE_MAP(d, node, fields, b);
}

static bool
use_timeout(struct wp_decode *d, const struct wp_yaml *node, void *out)
{
    struct wp_build *b = out;
    int64_t value;

    if (!wp_decode_int(d, node, 1, TIMEOUT_MAX_S, &value)) {
        return false;
    }
    b->tmpl->probe_timeout_s = (uint32_t)value;
    return true;
}

bool
wp_build_readiness_probe(struct wp_decode *d, const struct wp_yaml *node,
                         void *out)
{
    static const struct wp_field fields[] = {
        WP_USED("httpGet", use_http_get),
        WP_USED("tcpSocket", use_tcp_socket),
        WP_USED("exec", use_exec),
        WP_REFUSED("grpc", "use tcpSocket with the same port"),
        /* Readiness is looked for from the first millisecond on. */
        WP_PLAIN("initialDelaySeconds"),
        WP_PLAIN("periodSeconds"),
        WP_PLAIN("successThreshold"),
        WP_PLAIN("failureThreshold"),
        WP_USED("timeoutSeconds", use_timeout), /* Of exec. */
        WP_PLAIN("terminationGracePeriodSeconds"),
    };
    struct wp_build *b = out;

    b->tmpl->probe_timeout_s = 1;
    if (!WP_DECODE_MAP(d, node, fields, b)) {
        return false;
    }
    if ((b->probe_port != NULL) == (b->tmpl->probe_argv != NULL)) {
        return wp_decode_fail(d, node, "%s was expected",
                              b->probe_port != NULL
                                  ? "one kind of probe"
                                  : "httpGet, tcpSocket or exec");
    }
    return true;
}

/* The probe's port by number or name; it must be the one that claims reach. */
bool
wp_build_resolve_port(struct wp_decode *d, const struct wp_yaml *spec,
                      struct wp_build *b)
{
    const struct wp_yaml *node = b->probe_port;
    int64_t value = 0;

    if (b->ports_len > 0) {
        b->tmpl->port = b->ports[0].number;
    }
    if (node == NULL) {
        return b->ports_len > 0 ||
               wp_decode_fail(d, spec,
                              "podTemplate.spec.containers[0].ports: one"
                              " containerPort was expected: a sandbox is ready"
                              " when its port answers");
    }
    (void)wp_decode_enter(d, WP_STR("podTemplate.spec.containers[0]"
                                    ".readinessProbe"));
    if (node->kind == WP_YAML_STRING) {
        for (uint32_t i = 0; i < b->ports_len; i++) {
            if (wp_str_is(node->text, b->ports[i].name)) {
                value = b->ports[i].number;
            }
        }
        if (value == 0) {
            return wp_decode_fail(d, node, "no port is named '%.40s'",
                                  node->text.ptr);
        }
    } else if (!wp_decode_int(d, node, 1, 65535, &value)) {
        return false;
    }
    if (b->ports_len > 0 && value != b->tmpl->port) {
        return wp_decode_fail(d, node,
                              "the first containerPort (%u) was expected on one"
                              " machine",
                              b->tmpl->port);
    }
    b->tmpl->port = (uint16_t)value;
    return true;
}
