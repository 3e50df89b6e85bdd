/* pool/remotes/names.h - which names and paths a binding may have, whoever
 * writes it: a gRPC claim, or the annotations of a SandboxClaim. Pure; any
 * thread. */
#ifndef WP_POOL_REMOTES_NAMES_H
#define WP_POOL_REMOTES_NAMES_H

#include <stdbool.h>

#include "pool/base/str.h"

enum {
    WP_BOUND_NAME_MAX = 128,
    WP_BOUND_COMPONENT_MAX = 255, /* Bytes of a part of a path. */
};

/* 1 to WP_BOUND_NAME_MAX letters, digits and '_', not a digit first. */
bool wp_bound_name_is_env(struct wp_str name);
/* 1 to WP_BOUND_NAME_MAX letters, digits, '.', '_' and '-', not '.' or '-'
 * first. */
bool wp_bound_name_is_secret(struct wp_str name);
/* The same, of 1 to 63 bytes. */
bool wp_bound_name_is_volume(struct wp_str name);
/* Not empty and without NUL, and no part of it is empty, too long, "." or "..":
 * it leads to something below where it begins. */
bool wp_bound_name_is_path(struct wp_str path);

#endif
