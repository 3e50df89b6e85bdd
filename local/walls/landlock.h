/* local/walls/landlock.h - the kernel's own file confinement, for the sandboxed
 * program.
 *
 * A second wall behind the mount namespace: reading and executing everywhere
 * the mounts show, writing only below the paths given. On new enough kernels it
 * also keeps the program from signalling or tracing processes outside its
 * domain, which is warmpool-init. */
#ifndef WP_LOCAL_WALLS_LANDLOCK_H
#define WP_LOCAL_WALLS_LANDLOCK_H

#include <stddef.h>

/* The kernel's Landlock version; 0 when it has none or it is switched off. */
int wp_landlock_abi(void);

/* Confines the calling thread and what it starts. no_new_privs must be set.
 * Paths that do not exist are passed over. Returns 0, or -1 with errno;
 * allocates nothing, so it may run between fork and exec. */
int wp_landlock_confine(const char *const *writable, size_t writable_len);

/* The same, where no mounts hide the rest of the machine: reading and executing
 * below the paths of the first list only, reading and writing below those of
 * the second. Without Landlock -1, with ENOSYS. */
int wp_landlock_confine_to(const char *const *readable, size_t readable_len,
                           const char *const *writable, size_t writable_len);

#endif
