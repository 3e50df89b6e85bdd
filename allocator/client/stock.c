/* libwarmpool: leases ahead, for any thread. */
#include "allocator/client/stock_impl.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TTL_DEFAULT_MS INT64_C(60000)
#define TTL_MIN_MS INT64_C(2000)

struct warmpool_stock *
warmpool_stock_open(struct warmpool *client,
                    const struct warmpool_stock_options *options,
                    struct warmpool_error *error)
{
    struct warmpool_stock *stock;
    struct wp_pool_name pool;
    int64_t ttl_ms = options->ttl_ms != 0 ? options->ttl_ms : TTL_DEFAULT_MS;

    if (!wp_client_pool(options->pool, &pool, error)) {
        return NULL;
    }
    if (options->ahead < 1 || options->ahead > WARMPOOL_AHEAD_MAX ||
        ttl_ms < TTL_MIN_MS || ttl_ms > WP_TTL_MAX_NS / WP_NS_PER_MS) {
        wp_client_error(error, wp_status_grpc_code(WP_INVALID_ARGUMENT),
                        "ahead: 1 to 256 expected; ttl_ms: 0, or 2000 to "
                        "2592000000");
        return NULL;
    }
    stock = aligned_alloc(alignof(struct warmpool_stock), sizeof *stock);
    if (stock == NULL) {
        wp_client_error(error, WARMPOOL_RESOURCE_EXHAUSTED, "out of memory");
        return NULL;
    }
    memset(stock, 0, sizeof *stock);
    for (uint32_t i = 0; i < WP_STOCK_SLOTS; i++) {
        atomic_init(&stock->places[i].turn, i);
    }
    stock->client = client;
    stock->pool = pool;
    stock->options = *options;
    stock->options.pool = NULL;
    stock->options.ttl_ms = ttl_ms;
    (void)pthread_mutex_lock(&client->lock);
    wp_list_push_back(&client->stocks, &stock->node);
    (void)pthread_mutex_unlock(&client->lock);
    wp_client_wake(client);
    return stock;
}

void
warmpool_stock_close(struct warmpool_stock *stock)
{
    struct warmpool *client;

    if (stock == NULL) {
        return;
    }
    client = stock->client;
    (void)pthread_mutex_lock(&client->lock);
    stock->closing = true;
    wp_client_wake(client);
    while (!stock->left) {
        (void)pthread_cond_wait(&client->stock_left, &client->lock);
    }
    (void)pthread_mutex_unlock(&client->lock);
    free(stock);
}

/* One that has left is in no list of the client's any more. */
void
wp_stock_close_all(struct warmpool *client)
{
    struct warmpool_stock *all = NULL;

    (void)pthread_mutex_lock(&client->lock);
    for (struct wp_list *node = client->stocks.next; node != &client->stocks;
         node = node->next) {
        struct warmpool_stock *stock = wp_stock_of(node);

        stock->closing = true;
        stock->next_closed = all;
        all = stock;
    }
    (void)pthread_mutex_unlock(&client->lock);
    wp_client_wake(client);
    while (all != NULL) {
        struct warmpool_stock *next = all->next_closed;

        warmpool_stock_close(all);
        all = next;
    }
}

/* The client's thread is to tell the daemon of it. It dozes when nothing was
 * taken for a while, and is woken by the first who does. Both sides are
 * sequentially consistent: either the thread finds this slot before it rests,
 * or its doze is seen here. */
static void
hand_on(struct warmpool_stock *stock, uint32_t i,
        enum wp_stock_slot_state state)
{
    atomic_store_explicit(&stock->states[i], (uint8_t)state,
                          memory_order_seq_cst);
    if (atomic_load_explicit(&stock->dozes, memory_order_seq_cst) &&
        atomic_exchange_explicit(&stock->dozes, false, memory_order_seq_cst)) {
        wp_client_wake(stock->client);
    }
}

bool
warmpool_stock_take(struct warmpool_stock *stock, struct warmpool_lease *lease)
{
    int64_t now_ns;
    uint32_t i;

    if (!atomic_load_explicit(&stock->usable, memory_order_acquire)) {
        return false;
    }
    now_ns = wp_client_now_ns();
    while ((i = wp_stock_get(stock)) != UINT32_MAX) {
        struct wp_stock_slot *slot = &stock->slots[i];

        if (atomic_load_explicit(&slot->useful_ns, memory_order_relaxed) >
            now_ns) {
            *lease = slot->lease;
            hand_on(stock, i, WP_STOCK_SLOT_TAKEN);
            return true;
        }
        hand_on(stock, i, WP_STOCK_SLOT_OLD);
    }
    return false;
}

int
warmpool_stock_claim(struct warmpool_stock *stock, int64_t wait_ms,
                     struct warmpool_lease *lease, struct warmpool_error *error)
{
    const struct wp_pool_name *pool = &stock->pool;
    char name[sizeof *pool]; /* A slash in place of the first's end. */

    if (warmpool_stock_take(stock, lease)) {
        wp_client_error(error, WARMPOOL_OK, "");
        return WARMPOOL_OK;
    }
    (void)snprintf(name, sizeof name, "%s%s%s", pool->pool_namespace,
                   pool->pool_namespace[0] != '\0' ? "/" : "", pool->name);
    return warmpool_claim(stock->client, name, NULL, stock->options.ttl_ms,
                          wait_ms, lease, error);
}

unsigned
warmpool_stock_state(const struct warmpool_stock *stock,
                     struct warmpool_error *error)
{
    (void)pthread_mutex_lock(&stock->client->lock);
    wp_client_error(error,
                    atomic_load_explicit(&stock->lacking, memory_order_relaxed),
                    stock->lacking_text);
    (void)pthread_mutex_unlock(&stock->client->lock);
    return atomic_load_explicit(&stock->n_stocked, memory_order_relaxed);
}
