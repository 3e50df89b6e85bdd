/* allocator/daemon/redis_login.h - what the settings say of Redis: where it is,
 * who the daemon is there, and whom it trusts. Private to redis.c and main.c. */
#ifndef WP_ALLOCATOR_DAEMON_REDIS_LOGIN_H
#define WP_ALLOCATOR_DAEMON_REDIS_LOGIN_H

#include "allocator/conf/conf.h"
#include "allocator/conf/redis_url.h"
#include "allocator/stores/redis/link/tls.h"

/* Reads the passwords from their files, and looks at those of TLS. url holds
 * secrets: wipe it, whatever the status. tls borrows conf's texts, and counts
 * when url->tls. Errors name the setting. */
WP_MUST_CHECK enum wp_status wp_daemon_redis_login(const struct wp_conf *conf,
                                                   struct wp_redis_url *url,
                                                   struct wp_redis_tls *tls,
                                                   struct wp_err *err);
/* For --check-config: would that work? Without lease_store redis it does. */
WP_MUST_CHECK enum wp_status
wp_daemon_redis_check_login(const struct wp_conf *conf, struct wp_err *err);

#endif
