/* allocator/conf/upstream.h - flags of agent-sandbox's controller.
 *
 * Whoever puts warmpoold in its place keeps the arguments of its Deployment.
 * What means something here becomes a setting; what does not is accepted, and
 * told of with the setting to look at instead. */
#ifndef WP_ALLOCATOR_CONF_UPSTREAM_H
#define WP_ALLOCATOR_CONF_UPSTREAM_H

#include "allocator/conf/conf.h"

struct wp_upstream_flag; /* Opaque; static storage. */

/* NULL: it is none of theirs, or is written and read just as a setting of ours.
 * name is without its dashes. */
const struct wp_upstream_flag *wp_upstream_find(struct wp_str name);
/* Does it stand alone, without a value behind it? */
bool wp_upstream_is_bool(const struct wp_upstream_flag *flag);
/* err is without the flag's name. */
WP_MUST_CHECK enum wp_status
wp_upstream_set(struct wp_conf *conf, const struct wp_upstream_flag *flag,
                struct wp_str value, struct wp_err *err);

#endif
