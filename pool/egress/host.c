#include "pool/egress/host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>

enum {
    LABEL_MAX = 63,
};

static char
lower(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (char)(c + ('a' - 'A'));
    }
    return c;
}

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool
is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_';
}

static bool
is_label(struct wp_str label)
{
    if (label.len == 0 || label.len > LABEL_MAX || !is_alnum(label.ptr[0]) ||
        !is_alnum(label.ptr[label.len - 1])) {
        return false;
    }
    for (size_t i = 0; i < label.len; i++) {
        if (!is_alnum(label.ptr[i]) && label.ptr[i] != '-') {
            return false;
        }
    }
    return true;
}

/* Resolvers take a host whose last label is a number for an address. */
static bool
ends_in_number(const char *name)
{
    const char *dot = strrchr(name, '.');
    const char *last = dot != NULL ? dot + 1 : name;

    if (last[0] == '0' && last[1] == 'x') {
        return strspn(last + 2, "0123456789abcdef") == strlen(last + 2);
    }
    return strspn(last, "0123456789") == strlen(last);
}

static bool
set_v4(struct wp_host *out, struct in_addr address)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = address};

    out->is_address = true;
    memcpy(&out->address, &in, sizeof in);
    /* Nothing of a longer spelling stays: equal hosts are equal bytes. */
    memset(out->name, 0, sizeof out->name);
    return inet_ntop(AF_INET, &address, out->name, sizeof out->name) != NULL;
}

static bool
parse_v6(struct wp_str text, struct wp_host *out)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    char name[INET6_ADDRSTRLEN];

    if (!wp_str_copy(text, name, sizeof name) ||
        inet_pton(AF_INET6, name, &in6.sin6_addr) != 1) {
        return false;
    }
    if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
        struct in_addr v4;

        memcpy(&v4, in6.sin6_addr.s6_addr + 12, sizeof v4);
        return set_v4(out, v4);
    }
    out->is_address = true;
    memcpy(&out->address, &in6, sizeof in6);
    return inet_ntop(AF_INET6, &in6.sin6_addr, out->name, sizeof out->name) !=
           NULL;
}

static bool
are_labels(const char *name)
{
    const char *at = name;

    for (;;) {
        size_t len = strcspn(at, ".");

        if (!is_label((struct wp_str){at, len})) {
            return false;
        }
        if (at[len] == '\0') {
            return true;
        }
        at += len + 1;
    }
}

bool
wp_host_parse(struct wp_str text, struct wp_host *out, const char **why)
{
    struct in_addr v4;

    memset(out, 0, sizeof *out);
    if (text.len > 2 && text.ptr[0] == '[' && text.ptr[text.len - 1] == ']') {
        *why = "an IPv6 address was expected in the brackets";
        return parse_v6((struct wp_str){text.ptr + 1, text.len - 2}, out);
    }
    *why = "a host was expected: labels of letters, digits and hyphens, "
           "international ones as xn--..., or an address";
    if (text.len > 0 && text.ptr[text.len - 1] == '.') {
        text.len--;
    }
    if (!wp_str_copy(text, out->name, sizeof out->name)) {
        return false;
    }
    for (char *c = out->name; *c != '\0'; c++) {
        *c = lower(*c);
    }
    if (!are_labels(out->name)) {
        return false;
    }
    if (!ends_in_number(out->name)) {
        return true;
    }
    *why = "the host ends in a number but is no IPv4 address";
    return inet_aton(out->name, &v4) == 1 && set_v4(out, v4);
}

static bool
parse_port(struct wp_str text, uint16_t *port)
{
    uint64_t value;

    if (text.len > 5 || !wp_str_to_u64(text, &value) || value == 0 ||
        value > UINT16_MAX) {
        return false;
    }
    *port = (uint16_t)value;
    return true;
}

bool
wp_host_port_parse(struct wp_str text, uint16_t default_port,
                   struct wp_host *out, uint16_t *port, const char **why)
{
    size_t at = text.len;

    while (at > 0 && is_digit(text.ptr[at - 1])) {
        at--;
    }
    if (at == 0 || text.ptr[at - 1] != ':') {
        *why = "a port was expected behind the host";
        *port = default_port;
        return default_port != 0 && wp_host_parse(text, out, why);
    }
    *why = "a port from 1 to 65535 was expected behind the host";
    return parse_port((struct wp_str){text.ptr + at, text.len - at}, port) &&
           wp_host_parse((struct wp_str){text.ptr, at - 1}, out, why);
}
