/* allocator/redis_url.h - where a Redis server is, as people write it.
 *
 *   redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]   [::1] for IPv6 in brackets
 *   unix:/path
 *
 * USER and PASSWORD may hold %XX for what would mean something else. What is
 * wrong is told without the text itself, since that may hold a password. */
#ifndef WP_ALLOCATOR_REDIS_URL_H
#define WP_ALLOCATOR_REDIS_URL_H

#include "allocator/redis_link.h"

enum {
    WP_REDIS_LOGIN_MAX = 255, /* Of a user's name; of a password. */
    WP_REDIS_DB_MAX = 65535,
    WP_REDIS_PORT_DEFAULT = 6379,
};

/* Holds a secret: wipe it. */
struct wp_redis_url {
    struct wp_redis_server server;
    char user[WP_REDIS_LOGIN_MAX + 1]; /* "": the default user. */
    char password[WP_REDIS_LOGIN_MAX + 1];
    int db;
};

/* *out is undefined, and holds no secret, when the status is not WP_OK. Pure.
 */
WP_MUST_CHECK enum wp_status wp_redis_url_parse(struct wp_str text,
                                                struct wp_redis_url *out,
                                                struct wp_err *err);

#endif
