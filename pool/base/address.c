#include "pool/base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/un.h>

enum wp_status
wp_address_unix(struct wp_str path, struct wp_address *out, struct wp_err *err)
{
    struct sockaddr_un *un = (void *)&out->sa;

    memset(out, 0, sizeof *out);
    if (!wp_str_copy(path, un->sun_path, sizeof un->sun_path)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "address 'unix:%.40s...': a socket's path has at "
                          "most %zu bytes",
                          path.ptr, sizeof un->sun_path - 1);
    }
    un->sun_family = AF_UNIX;
    out->len =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.len + 1);
    out->is_unix = true;
    out->is_loopback = true;
    return WP_OK;
}

static bool
parse_ipv6(struct wp_str host, uint16_t port, struct wp_address *out)
{
    struct sockaddr_in6 *in6 = (void *)&out->sa;
    char text[INET6_ADDRSTRLEN];

    if (!wp_str_copy(host, text, sizeof text) ||
        inet_pton(AF_INET6, text, &in6->sin6_addr) != 1) {
        return false;
    }
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    out->len = sizeof *in6;
    out->is_loopback = IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
    return true;
}

static bool
parse_ipv4(struct wp_str host, uint16_t port, struct wp_address *out)
{
    struct sockaddr_in *in = (void *)&out->sa;
    char text[INET_ADDRSTRLEN];

    if (wp_str_is(host, "localhost")) {
        host = WP_STR("127.0.0.1");
    }
    if (!wp_str_copy(host, text, sizeof text) ||
        inet_pton(AF_INET, text, &in->sin_addr) != 1) {
        return false;
    }
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    out->len = sizeof *in;
    out->is_loopback = (ntohl(in->sin_addr.s_addr) >> 24) == 127;
    return true;
}

enum wp_status
wp_address_parse(struct wp_str text, struct wp_address *out, struct wp_err *err)
{
    const struct wp_str prefix = WP_STR("unix:");
    const char *colon = NULL;
    struct wp_str host;
    uint64_t port = 0;
    bool ok = false;

    memset(out, 0, sizeof *out);
    if (wp_str_starts_with(text, prefix)) {
        struct wp_str path = {text.ptr + prefix.len, text.len - prefix.len};

        if (path.len == 0 || path.ptr[0] != '/') {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "address 'unix:%.*s': expected an absolute path "
                              "after 'unix:'",
                              WP_STR_ARG(path));
        }
        return wp_address_unix(path, out, err);
    }
    if (text.len > 0) {
        colon = memrchr(text.ptr, ':', text.len);
    }
    if (colon != NULL) {
        host = (struct wp_str){text.ptr, (size_t)(colon - text.ptr)};
        ok = wp_str_to_u64((struct wp_str){colon + 1, text.len - host.len - 1},
                           &port) &&
             port <= UINT16_MAX;
    }
    if (ok && host.len > 2 && host.ptr[0] == '[' &&
        host.ptr[host.len - 1] == ']') {
        ok = parse_ipv6((struct wp_str){host.ptr + 1, host.len - 2},
                        (uint16_t)port, out);
    } else if (ok) {
        ok = parse_ipv4(host, (uint16_t)port, out);
    }
    return ok ? WP_OK
              : wp_err_set(err, WP_INVALID_ARGUMENT,
                           "address '%.*s': expected unix:/path, "
                           "127.0.0.1:PORT or [::1]:PORT",
                           text.len < 100 ? (int)text.len : 100,
                           text.ptr != NULL ? text.ptr : "");
}

const char *
wp_address_format(const struct wp_address *address, char *out, size_t cap)
{
    const struct sockaddr_un *un = (const void *)&address->sa;
    const struct sockaddr_in *in = (const void *)&address->sa;
    const struct sockaddr_in6 *in6 = (const void *)&address->sa;
    char host[INET6_ADDRSTRLEN] = "?";

    if (address->is_unix) {
        (void)snprintf(out, cap, "unix:%s", un->sun_path);
    } else if (address->sa.ss_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        (void)snprintf(out, cap, "[%s]:%u", host, wp_address_port(address));
    } else {
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        (void)snprintf(out, cap, "%s:%u", host, wp_address_port(address));
    }
    return out;
}

uint16_t
wp_address_port(const struct wp_address *address)
{
    const struct sockaddr_in *in = (const void *)&address->sa;
    const struct sockaddr_in6 *in6 = (const void *)&address->sa;

    if (address->sa.ss_family == AF_INET6) {
        return ntohs(in6->sin6_port);
    }
    return address->is_unix ? 0 : ntohs(in->sin_port);
}

void
wp_address_set_port(struct wp_address *address, uint16_t port)
{
    if (address->sa.ss_family == AF_INET) {
        ((struct sockaddr_in *)(void *)&address->sa)->sin_port = htons(port);
    } else if (address->sa.ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)(void *)&address->sa)->sin6_port = htons(port);
    }
}
