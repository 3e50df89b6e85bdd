/* pool/core/await_store.c - claims whose id the store knows: they wait until
 * the control thread has asked it (resume.c). */
#include "pool/core/claim_way.h"

/* The store knows the id: the control thread asks it what the answer was. */
enum wp_status
wp_claim_await_store(struct wp_claim *claim)
{
    struct wp_pool *pool = wp_claim_pool(claim);

    (void)pthread_mutex_lock(&pool->wait_lock);
    claim->phase = WP_PHASE_AWAITING_STORE;
    wp_list_push_back(&pool->awaiting_store, &claim->followers);
    (void)pthread_mutex_unlock(&pool->wait_lock);
    wp_pools_touch(pool);
    return WP_PENDING;
}

struct wp_claim *
wp_pools_take_awaiting(struct wp_pool *pool)
{
    struct wp_claim *claim = NULL;
    struct wp_list *node;

    (void)pthread_mutex_lock(&pool->wait_lock);
    node = wp_list_pop_front(&pool->awaiting_store);
    if (node != NULL) {
        claim = WP_CONTAINER_OF(node, struct wp_claim, followers);
        claim->phase = WP_PHASE_BUSY;
    }
    (void)pthread_mutex_unlock(&pool->wait_lock);
    return claim;
}
