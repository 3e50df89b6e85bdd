/* pool/core/control.h - the control thread's turn, shared by run.c, attention.c
 * and turn.c. Control thread only, all of it. */
#ifndef WP_POOL_CORE_CONTROL_H
#define WP_POOL_CORE_CONTROL_H

#include "pool/table/pools.h"

/* --- attention.c --- */

/* False: no memory. */
WP_MUST_CHECK bool wp_attention_create(struct wp_pools *pools);
void wp_attention_destroy(struct wp_pools *pools);
/* Looks at the slots that were marked; true when there were any. */
bool wp_attention_marked(struct wp_pools *pools, int64_t now_ns);
/* Looks at those whose time has come. */
void wp_attention_due(struct wp_pools *pools, int64_t now_ns);
/* When the next one's does. */
int64_t wp_attention_next_ns(const struct wp_pools *pools);
/* Has a DYING sandbox destroyed; frees the slot once nothing is left of it. */
void wp_slot_give_up(struct wp_pools *pools, struct wp_slot_ref ref,
                     int64_t now_ns);

/* --- turn.c --- */

/* False: no memory. */
WP_MUST_CHECK bool wp_pool_turns_create(struct wp_pool *pool);
void wp_pool_turns_destroy(struct wp_pool *pool);
/* The pool's turn, when it is due or was asked for (*worked); returns when its
 * next one is due at the latest. */
int64_t wp_pool_turn(struct wp_pool *pool, int64_t now_ns, bool *worked);

/* --- report_lease.c --- */

/* False: no memory. */
WP_MUST_CHECK bool wp_reported_leases_create(struct wp_pools *pools);
/* The backend has to be told of all again. Control thread. */
void wp_reported_leases_forget(struct wp_pools *pools);
/* Tells the backend of the lease that the slot has, unless it was told of this
 * one, or does not ask. Control thread. */
void wp_pools_report_lease(struct wp_pools *pools, struct wp_slot_ref ref);

/* --- shape.c --- */

/* Frees every pool there was. At the end. */
void wp_pools_free_all(struct wp_pools *pools);

#endif
