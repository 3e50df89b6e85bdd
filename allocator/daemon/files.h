/* allocator/daemon/files.h - what the daemon reads from disk: secrets, the
 * token key, manifests, its helper programs; and the directories that it
 * makes. Any thread. Private to the daemon. */
#ifndef WP_ALLOCATOR_DAEMON_FILES_H
#define WP_ALLOCATOR_DAEMON_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/conf/conf.h"
#include "local/manifest/manifest.h"
#include "pool/base/status.h"
#include "pool/egress/pass.h"
#include "pool/leases/token.h"

enum {
    WP_DAEMON_KEPT_PATH = WP_CONF_TEXT_MAX + sizeof "/pools.d",
};

/* Makes the directory and its parents. */
enum wp_status wp_daemon_make_dir(const char *path, uint32_t mode,
                                  struct wp_err *err);
/* Can every user pass through path's parents? */
enum wp_status wp_daemon_check_passable(const char *path, struct wp_err *err);
/* The token key: from its file, or, when none is named, from the state
 * directory's, which is made if need be (*made); new each time when leases end
 * with the daemon. */
enum wp_status wp_daemon_read_key(const struct wp_conf *conf,
                                  uint8_t out[WP_TOKEN_KEY_LEN], bool *made,
                                  struct wp_err *err);
/* The installation's key of passes for egress proxies (pool/egress/pass.h),
 * made from the token key; the same wherever that is the same. */
enum wp_status wp_daemon_read_egress_key(const struct wp_conf *conf,
                                         uint8_t out[WP_EGRESS_KEY_LEN],
                                         struct wp_err *err);
/* Reads a small secret without the line's end, from a file of root or of the
 * daemon's user that others must not be able to read. what: the setting, for
 * messages. */
enum wp_status wp_daemon_read_secret(const char *what, const char *path,
                                     char *out, size_t cap, struct wp_err *err);
/* A file with 32 random bytes in hexadecimal, for its owner only; made whole or
 * not at all. Several daemons may try at once: the first one's stays, *made
 * says whether it is this one's. */
enum wp_status wp_daemon_make_secret(const char *path, bool *made,
                                     struct wp_err *err);
/* A bearer token, one word of 16 to 256 characters; "" when path is "". what:
 * the setting, for messages. */
enum wp_status wp_daemon_read_token(const char *what, const char *path,
                                    char *out, size_t cap, struct wp_err *err);
/* All manifests of conf, checked, and the pools that CreatePool has kept; those
 * of the latter that do not fit are left out, which the log says. NULL and err.
 */
struct wp_manifest *wp_daemon_read_manifests(const struct wp_conf *conf,
                                             struct wp_err *err);
/* Where those are kept; see kept_pools.h. */
void wp_daemon_kept_dir(const struct wp_conf *conf,
                        char out[WP_DAEMON_KEPT_PATH]);
/* Not WP_OK: another kept pool needs the template that came with this one. */
WP_MUST_CHECK enum wp_status
wp_daemon_check_unneeded(const struct wp_conf *conf,
                         const struct wp_pool_spec *pool, struct wp_err *err);
/* The helper program: named by the setting, or found beside this one; "" when
 * there is none. */
void wp_daemon_find_program(const char *setting, const char *name, char *out,
                            size_t cap);

#endif
