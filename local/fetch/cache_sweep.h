/* local/fetch/cache_sweep.h - keeps the cache of repositories within its
 * bounds. The current folder is the cache; a folder in it is one repository's
 * (local/fetch/checkout.h). One thread. */
#ifndef WP_LOCAL_FETCH_CACHE_SWEEP_H
#define WP_LOCAL_FETCH_CACHE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"

/* Removes what was not used for age_s seconds, and then what was used longest
 * ago, until the rest takes at most bytes_max. A mirror in use stays. False: it
 * could not look, or lacks memory. */
WP_MUST_CHECK bool wp_cache_sweep(uint64_t bytes_max, int64_t age_s);

#endif
