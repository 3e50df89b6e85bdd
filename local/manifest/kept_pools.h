/* local/manifest/kept_pools.h - pools that came by a call, kept for the next
 * start.
 *
 * Each is a manifest, word for word as it came: a SandboxWarmPool, with its
 * SandboxTemplate or without, in the file "NAMESPACE_NAME.yaml" of one
 * directory. Daemons that share a state directory share the files. One thread
 * at a time; all block. */
#ifndef WP_LOCAL_MANIFEST_KEPT_POOLS_H
#define WP_LOCAL_MANIFEST_KEPT_POOLS_H

#include <stdbool.h>

#include "local/manifest/manifest.h"

/* Joins all that are kept in dir to manifest, whose own pools count more. One
 * that cannot be joined is left out, and refused is called with its file's
 * name; so is a file that is no such manifest, and a directory that this user
 * may not read. What cannot be read for another reason is an error: then not
 * all may have been joined. No directory: nothing is kept. except: a pool that
 * is passed over; NULL. */
enum wp_status wp_kept_pools_join(const char *dir, struct wp_manifest *manifest,
                                  const struct wp_pool_spec *except,
                                  void (*refused)(void *ctx, const char *file,
                                                  const struct wp_err *err),
                                  void *ctx, struct wp_err *err);
/* Is the pool kept there? */
bool wp_kept_pools_has(const char *dir, const struct wp_pool_spec *pool);
/* Keeps it, in place of an earlier one of its name, whole or not at all; makes
 * the directory. For root and the daemon's user only: templates may hold
 * secrets in variables. */
WP_MUST_CHECK enum wp_status
wp_kept_pools_write(const char *dir, const struct wp_pool_spec *pool,
                    struct wp_str text, struct wp_err *err);
/* What is not kept is no error. */
WP_MUST_CHECK enum wp_status
wp_kept_pools_remove(const char *dir, const struct wp_pool_spec *pool,
                     struct wp_err *err);

#endif
