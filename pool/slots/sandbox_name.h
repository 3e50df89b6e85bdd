/* pool/slots/sandbox_name.h - names of sandboxes: "<pool>-<8 characters>".
 *
 * The suffix looks random, as Kubernetes' generated names do, but carries the
 * slot's index and 14 bits of its generation under a keyed permutation. So a
 * name leads to its slot in O(1) without a table of names, two live sandboxes
 * never share one, and a restarted daemon (another key) does not repeat them.
 * It is not a secret: the lease token is what authorises. */
#ifndef WP_POOL_SLOTS_SANDBOX_NAME_H
#define WP_POOL_SLOTS_SANDBOX_NAME_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/siphash.h"
#include "pool/base/str.h"
#include "pool/limits.h"
#include "pool/slot_ref.h"

/* Any thread. pool has at most WP_POOL_NAME_MAX bytes. */
void wp_sandbox_name_make(struct wp_hash_key key, struct wp_str pool,
                          struct wp_slot_ref ref,
                          char out[WP_SANDBOX_NAME_MAX + 1]);

/* The slot index in a name; false when the suffix cannot be one of ours. The
 * caller still compares the slot's name with the one given. Any thread. */
WP_MUST_CHECK bool wp_sandbox_name_index(struct wp_hash_key key,
                                         struct wp_str name, uint32_t *index);

#endif
