#include "proto/sockets/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

enum {
    IPV4_BITS_AT = 96, /* Of an IPv4 address inside an IPv6 one. */
    BITS = 128,
};

static const uint8_t ipv4_start[12] = {0, 0, 0, 0, 0,    0,
                                       0, 0, 0, 0, 0xFF, 0xFF};

static bool
bits_are(const uint8_t *a, const uint8_t *b, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        unsigned mask = 0x80U >> (i % 8);

        if (((a[i / 8] ^ b[i / 8]) & mask) != 0) {
            return false;
        }
    }
    return true;
}

enum wp_status
wp_network_parse(struct wp_str text, struct wp_network *out, struct wp_err *err)
{
    static const uint8_t zeros[16] = {0};
    const char *slash = text.len > 0 ? memchr(text.ptr, '/', text.len) : NULL;
    struct wp_str host = {text.ptr, slash != NULL ? (size_t)(slash - text.ptr)
                                                  : text.len};
    char name[INET6_ADDRSTRLEN];
    char shown[WP_STR_SHOWN_MAX];
    uint64_t bits = BITS;
    bool good = wp_str_copy(host, name, sizeof name);
    bool v4 = good && strchr(name, ':') == NULL;

    memset(out, 0, sizeof *out);
    if (v4) {
        memcpy(out->address, ipv4_start, sizeof ipv4_start);
        good = inet_pton(AF_INET, name, out->address + sizeof ipv4_start) == 1;
    } else if (good) {
        good = inet_pton(AF_INET6, name, out->address) == 1;
    }
    if (good && slash != NULL) {
        good =
            wp_str_to_u64((struct wp_str){slash + 1, text.len - host.len - 1},
                          &bits) &&
            bits <= (v4 ? BITS - IPV4_BITS_AT : BITS);
        bits += v4 ? IPV4_BITS_AT : 0;
    }
    if (!good) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "expected an address or a network as 10.1.0.0/16 or "
                          "fd00::/8, got '%s'",
                          wp_str_shown(text, shown));
    }
    out->bits = (uint8_t)bits;
    if (!bits_are(out->address, zeros, out->bits, BITS)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "expected no bits behind the prefix of '%s'",
                          wp_str_shown(text, shown));
    }
    return WP_OK;
}

bool
wp_network_is_everything(const struct wp_network *network)
{
    return network->bits == 0 ||
           (network->bits <= IPV4_BITS_AT &&
            bits_are(network->address, ipv4_start, 0, network->bits));
}

bool
wp_network_has(const struct wp_network *network, const struct sockaddr *address)
{
    uint8_t bytes[16];

    if (address->sa_family == AF_INET) {
        struct sockaddr_in in;

        memcpy(&in, address, sizeof in);
        memcpy(bytes, ipv4_start, sizeof ipv4_start);
        memcpy(bytes + sizeof ipv4_start, &in.sin_addr, 4);
    } else if (address->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;

        memcpy(&in6, address, sizeof in6);
        memcpy(bytes, &in6.sin6_addr, sizeof bytes);
    } else {
        return false;
    }
    return bits_are(network->address, bytes, 0, network->bits);
}

bool
wp_network_within(const struct wp_network *inner,
                  const struct wp_network *outer)
{
    return inner->bits >= outer->bits &&
           bits_are(inner->address, outer->address, 0, outer->bits);
}
