/* pool/scale/rival_parts.h - one row for each rival, made in rival_*.c. Private
 * to rival*.c. */
#ifndef WP_POOL_SCALE_RIVAL_PARTS_H
#define WP_POOL_SCALE_RIVAL_PARTS_H

#include "pool/scale/rival.h"

/* Fills self and target, and what else it needs of out; destroy is free unless
 * it sets its own. False when memory lacks. */
typedef bool (*wp_rival_create_fn)(const struct wp_rival_config *config,
                                   struct wp_replay_policy *out);

bool wp_rival_create_fixed(const struct wp_rival_config *config,
                           struct wp_replay_policy *out);

/* n within the config's min and max. */
uint32_t wp_rival_clamp(const struct wp_rival_config *config, double n);

#endif
