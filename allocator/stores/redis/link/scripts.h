/* allocator/stores/redis/link/scripts.h - the Lua scripts, embedded by the
 * build.
 *
 * Each is scripts/common.lua and scripts/NAME.lua. */
#ifndef WP_ALLOCATOR_STORES_REDIS_LINK_SCRIPTS_H
#define WP_ALLOCATOR_STORES_REDIS_LINK_SCRIPTS_H

#include "pool/base/str.h"

enum wp_redis_script_id {
    WP_SCRIPT_COMMIT,
    WP_SCRIPT_FETCH,
    WP_SCRIPT_RECOVER,
    WP_SCRIPT_COUNT
};

/* What a script answers when it is not a text: the numbers of common.lua. */
enum wp_redis_result {
    WP_RESULT_OK,
    WP_RESULT_STALE,
    WP_RESULT_NOT_FOUND,
    WP_RESULT_ALREADY_EXISTS,
    WP_RESULT_TAKEN,
    WP_RESULT_ABORTED,
    WP_RESULT_FAILED_PRECONDITION,
    WP_RESULT_PENDING,
    WP_RESULT_CORRUPT,
};

struct wp_redis_script {
    struct wp_str text;
    struct wp_str sha; /* 40 hex digits: what EVALSHA takes. */
};

extern const struct wp_redis_script wp_redis_scripts[WP_SCRIPT_COUNT];

#endif
