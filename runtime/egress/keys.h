/* runtime/egress/keys.h - secrets that the proxy adds to requests, so that no
 * sandbox has them.
 *
 * A file with one key a line, '#' before comments:
 *
 *   NAME URL FIELD: VALUE
 *   models https://api.example.com/v1 Authorization: Bearer s3cret
 *
 * A sandbox whose policy has key:NAME sends http://127.0.0.1:3128/NAME/PATH,
 * and the proxy asks URL/PATH with that field. What it asks by CONNECT is
 * encrypted from end to end: nothing can be added to it. One thread. */
#ifndef WP_RUNTIME_EGRESS_KEYS_H
#define WP_RUNTIME_EGRESS_KEYS_H

#include "pool/base/status.h"
#include "pool/egress/host.h"

enum {
    WP_EGRESS_KEYS_MAX = 256,
    WP_EGRESS_KEYS_BYTES_MAX = 256 << 10, /* Of the file. */
};

struct wp_egress_key {
    char name[64];
    bool secure; /* https */
    struct wp_host host;
    uint16_t port;
    const char *path;  /* Of the URL, without a '/' at its end. */
    const char *field; /* The secret's name, */
    const char *value; /* and it. */
};

struct wp_egress_keys; /* Opaque. */

/* Reads fd to its end. NULL and err, which names the line, but never shows it.
 */
struct wp_egress_keys *wp_egress_keys_read(int fd, struct wp_err *err);
/* The same from memory. */
struct wp_egress_keys *wp_egress_keys_parse(struct wp_str text,
                                            struct wp_err *err);
/* Overwrites what it frees. NULL is fine. */
void wp_egress_keys_destroy(struct wp_egress_keys *keys);
/* NULL: there is none of that name. keys may be NULL. */
const struct wp_egress_key *
wp_egress_keys_find(const struct wp_egress_keys *keys, struct wp_str name);

#endif
