/* pool/base/address.h - a listener's or a sandbox's address in text.
 *
 * "unix:/path", "127.0.0.1:8080", "[::1]:0", "localhost:8080". Only numeric
 * hosts and "localhost": names are for resolvers, which block. */
#ifndef WP_BASE_ADDRESS_H
#define WP_BASE_ADDRESS_H

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
/* The same for a Unix socket's path, which may be a relative one. */
enum wp_status wp_address_unix(struct wp_str path, struct wp_address *out,
                               struct wp_err *err);
/* The text of a bound socket's address, with its real port; returns out. */
const char *wp_address_format(const struct wp_address *address, char *out,
                              size_t cap);
/* 0: a Unix socket. */
uint16_t wp_address_port(const struct wp_address *address);
/* Replaces the port of a TCP address. */
void wp_address_set_port(struct wp_address *address, uint16_t port);

#endif
