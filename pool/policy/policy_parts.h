/* pool/policy/policy_parts.h - the table of a policy's keys; for policy*.c
 * only. */
#ifndef WP_POOL_POLICY_POLICY_PARTS_H
#define WP_POOL_POLICY_POLICY_PARTS_H

#include "pool/policy/policy.h"

enum {
    WP_POLICY_SHORT_VALUE_MAX = 128, /* With the final NUL; all but
                                      * schedules. */
    WP_POLICY_ROWS = 10,
};

/* The rows that wp_scale_policy_check asks for, by index. */
enum {
    WP_POLICY_OBJECTIVE,
    WP_POLICY_MISS_COST,
    WP_POLICY_TIME_ZONE = 7,
};

_Static_assert(WP_POLICY_ROWS <= 32, "given has a bit for each");

/* Of each key: how its value is read and written. read leaves policy as it was
 * when it fails; its message begins with what was expected. */
struct wp_policy_row {
    const char *key;
    enum wp_status (*read)(struct wp_scale_policy *policy, struct wp_str value,
                           struct wp_err *err);
    void (*write)(const struct wp_scale_policy *policy, char *out, size_t cap);
    void (*clear)(struct wp_scale_policy *policy); /* NULL: as follows. */
    size_t offset; /* What becomes that of wp_policy_defaults; */
    size_t size;   /* so many bytes. */
};

extern const struct wp_policy_row wp_policy_rows[WP_POLICY_ROWS];
extern const struct wp_scale_policy wp_policy_defaults;

#endif
