/* runtime/exec/environment.h - what a command finds in its environment. Any
 * thread, as long as nobody changes this process's own. */
#ifndef WP_RUNTIME_EXEC_ENVIRONMENT_H
#define WP_RUNTIME_EXEC_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

struct wp_environment {
    char **list; /* For exec: ends with NULL. */
    size_t own;  /* The first of them are freed with it, the rest borrowed. */
};

/* Begins with room for count asked variables and those of this process, what
 * the claim brought included. Loop thread. False on no memory. */
WP_MUST_CHECK bool wp_environment_init(struct wp_environment *environment,
                                       size_t count);
/* Adds an asked variable; of two with one name the later counts. False: the
 * name is empty or has a '=', either has a NUL, or there is no memory. At most
 * count times. */
WP_MUST_CHECK bool wp_environment_add(struct wp_environment *environment,
                                      struct wp_str name, struct wp_str value);
/* Adds those of this process that were not asked for. Once, at the end. */
void wp_environment_inherit(struct wp_environment *environment);
/* Fine for one that is zeroed. */
void wp_environment_fini(struct wp_environment *environment);

#endif
