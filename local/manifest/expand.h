/* local/manifest/expand.h - $(NAME) in commands and values, as Kubernetes
 * replaces it. */
#ifndef WP_LOCAL_MANIFEST_EXPAND_H
#define WP_LOCAL_MANIFEST_EXPAND_H

#include <stddef.h>

#include "pool/base/arena.h"
#include "pool/base/compiler.h"

/* text with each $(NAME) replaced by the value from env ("NAME=value", the last
 * one wins, NULL ends it); an unknown name stays as it stands; $$ is one $. In
 * region, or text itself when nothing is replaced. NULL: longer than max, or no
 * memory. */
WP_MUST_CHECK const char *wp_expand(struct wp_region *region, const char *text,
                                    const char *const *env, size_t max);

#endif
