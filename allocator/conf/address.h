/* allocator/conf/address.h - a listener's or a sandbox's address in text.
 *
 * "unix:/path", "127.0.0.1:8080", "[::1]:0", "localhost:8080". Only numeric
 * hosts and "localhost": names are for resolvers, which block. */
#ifndef WP_ALLOCATOR_CONF_ADDRESS_H
#define WP_ALLOCATOR_CONF_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "pool/base/status.h"
#include "pool/base/str.h"

struct wp_address {
    struct sockaddr_storage sa;
    socklen_t len;
    bool is_unix;
    bool is_loopback; /* Unix sockets too. */
};

/* err says what was expected of text. */
enum wp_status wp_address_parse(struct wp_str text, struct wp_address *out,
                                struct wp_err *err);
/* The text of a bound socket's address, with its real port; returns out. */
const char *wp_address_format(const struct wp_address *address, char *out,
                              size_t cap);
/* Replaces the port of a TCP address. */
void wp_address_set_port(struct wp_address *address, uint16_t port);

#endif
