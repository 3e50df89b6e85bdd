/* allocator/conf/redis_url.h - where Redis is, as people write it.
 *
 *   redis://[LOGIN@]HOST[:PORT][/DB]                    one server
 *   unix:/PATH[?db=N&user=U&password=P]                 one server, by socket
 *   redis+sentinel://[LOGIN@]HOST[:PORT][,...]/MASTER[/DB]
 *         [?sentinel_user=U&sentinel_password=P]        the sentinels to ask
 *   redis+cluster://[LOGIN@]HOST[:PORT][,...]           some of its nodes
 *
 * rediss in place of redis: with TLS, to sentinels as well. LOGIN is
 * [USER]:PASSWORD, or USER, whose password comes from elsewhere. An IPv6
 * address stands in brackets; unix:///PATH is unix:/PATH. %XX stands for a byte
 * in logins, paths, MASTER and values: '?' has to be written so, '@' only
 * behind a '?'. What is wrong is told by naming the part, without the text
 * itself: that may hold a password. */
#ifndef WP_ALLOCATOR_CONF_REDIS_URL_H
#define WP_ALLOCATOR_CONF_REDIS_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_REDIS_HOST_MAX = 255,
    WP_REDIS_PATH_MAX = 107,
    WP_REDIS_LOGIN_MAX = 255, /* Of a user's name; of a password. */
    WP_REDIS_DB_MAX = 65535,
    WP_REDIS_PORT_DEFAULT = 6379,
    WP_SENTINEL_PORT_DEFAULT = 26379,
    WP_REDIS_SEEDS_MAX = 16,
    WP_REDIS_MASTER_MAX = 63,
    WP_REDIS_URL_TEXT_MAX = 512,
};

/* A Unix socket when path is not "". */
struct wp_redis_server {
    char host[WP_REDIS_HOST_MAX + 1];
    uint16_t port;
    char path[WP_REDIS_PATH_MAX + 1];
};

/* By name: is it the same address? Any thread. */
bool wp_redis_server_eq(const struct wp_redis_server *a,
                        const struct wp_redis_server *b);

enum wp_redis_kind {
    WP_REDIS_SINGLE,
    WP_REDIS_SENTINEL,
    WP_REDIS_CLUSTER,
};

/* Holds secrets: wipe it. */
struct wp_redis_url {
    enum wp_redis_kind kind;
    bool tls;
    struct wp_redis_server server; /* SINGLE: it. Else the first seed. */
    struct wp_redis_server seeds[WP_REDIS_SEEDS_MAX]; /* Not for SINGLE. */
    uint32_t n_seeds;
    char master[WP_REDIS_MASTER_MAX + 1]; /* SENTINEL: its name there. */
    char user[WP_REDIS_LOGIN_MAX + 1];    /* "": the default user. */
    char password[WP_REDIS_LOGIN_MAX + 1];
    char sentinel_user[WP_REDIS_LOGIN_MAX + 1];
    char sentinel_password[WP_REDIS_LOGIN_MAX + 1];
    int db; /* CLUSTER: 0. */
};

/* *out is undefined, and holds no secret, when the status is not WP_OK. Pure.
 */
WP_MUST_CHECK enum wp_status wp_redis_url_parse(struct wp_str text,
                                                struct wp_redis_url *out,
                                                struct wp_err *err);

/* Takes the place of the password in url, as for one that lies in a file: any
 * bytes but NUL, 1 to 255 of them. Else INVALID_ARGUMENT, url unchanged. */
WP_MUST_CHECK enum wp_status wp_redis_url_set_password(struct wp_redis_url *url,
                                                       struct wp_str password,
                                                       struct wp_err *err);

/* The same of the sentinels' password. */
WP_MUST_CHECK enum wp_status
wp_redis_url_set_sentinel_password(struct wp_redis_url *url,
                                   struct wp_str password, struct wp_err *err);

/* url for logs and people: as it would be written, with "***" for passwords;
 * what does not fit is cut. Returns out. */
const char *wp_redis_url_text(const struct wp_redis_url *url,
                              char out[WP_REDIS_URL_TEXT_MAX]);

#endif
