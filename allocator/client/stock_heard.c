/* libwarmpool: what the daemon says on a stock's stream. The client's thread's.
 */
#include "allocator/client/stock_impl.h"

#include <stdio.h>
#include <string.h>

/* UINT32_MAX: there is none. number 0: a free one. */
static uint32_t
find(const struct warmpool_stock *stock, uint64_t number)
{
    for (uint32_t i = 0; i < WP_STOCK_SLOTS; i++) {
        bool is_free = wp_stock_slot_state(stock, i) == WP_STOCK_SLOT_FREE;

        if (number == 0 ? is_free
                        : !is_free && stock->slots[i].number == number) {
            return i;
        }
    }
    return UINT32_MAX;
}

static void
note_lease(struct warmpool_stock *stock, const struct wp_wire_lease_ahead *in)
{
    uint32_t i = find(stock, 0);
    struct wp_stock_slot *slot;

    if (i == UINT32_MAX) {
        return; /* It sends more than was asked for: it has them back. */
    }
    slot = &stock->slots[i];
    slot->number = in->number;
    slot->told = false;
    slot->settled = false;
    wp_client_lease(in->claim_id, in->grant, &slot->lease);
    wp_stock_set_deadline(stock, slot, in->grant->deadline_wall_ms);
    wp_stock_set_slot_state(stock, i, WP_STOCK_SLOT_STOCKED);
    wp_stock_put(stock, i);
}

static void
note_taken(struct warmpool_stock *stock, uint64_t number)
{
    uint32_t i = find(stock, number);

    if (i != UINT32_MAX &&
        wp_stock_slot_state(stock, i) == WP_STOCK_SLOT_TAKEN) {
        wp_stock_set_slot_state(stock, i, WP_STOCK_SLOT_FREE);
    }
}

static void
note_ended(struct warmpool_stock *stock, uint64_t number)
{
    uint32_t i = find(stock, number);

    if (i == UINT32_MAX) {
        return;
    }
    switch (wp_stock_slot_state(stock, i)) {
    case WP_STOCK_SLOT_TAKEN:
        wp_stock_lose(stock, i);
        break;
    case WP_STOCK_SLOT_STOCKED:
    case WP_STOCK_SLOT_RENEWING:
        /* Who comes upon it in the queue finds it too old. */
        atomic_store_explicit(&stock->slots[i].useful_ns, 0,
                              memory_order_relaxed);
        stock->slots[i].renew_ns = WP_TIME_NEVER;
        break;
    case WP_STOCK_SLOT_OLD:
    case WP_STOCK_SLOT_FREE:
        break;
    }
}

void
wp_stock_set_lacking(struct warmpool_stock *stock, int code, const char *text)
{
    (void)snprintf(stock->lacking_text, sizeof stock->lacking_text, "%s", text);
    atomic_store_explicit(&stock->lacking, code, memory_order_relaxed);
}

void
wp_stock_note_lacking(struct warmpool_stock *stock, int code, const char *text)
{
    (void)pthread_mutex_lock(&stock->client->lock);
    wp_stock_set_lacking(stock, code, text);
    (void)pthread_mutex_unlock(&stock->client->lock);
}

static bool
read_message(struct warmpool_stock *stock, const uint8_t *bytes, size_t len)
{
    struct wp_wire_stream_response response;
    struct wp_arena arena;
    struct wp_err err;

    wp_arena_init(&arena, stock->arena, sizeof stock->arena);
    if (wp_wire_unpack_stream_response(&arena, bytes, len, &response, &err) !=
        WP_OK) {
        wp_stock_note_lacking(stock, wp_status_grpc_code(WP_INTERNAL), err.msg);
        return false;
    }
    if (stock->state == WP_STOCK_STREAM_OPENING) {
        stock->state = WP_STOCK_STREAM_OPEN;
        stock->resumes = true;
        stock->failures = 0;
        wp_stock_note_lacking(stock, WARMPOOL_OK, "");
        atomic_store_explicit(&stock->usable, true, memory_order_release);
    }
    for (uint32_t i = 0; i < response.n_taken; i++) {
        note_taken(stock, response.taken[i]);
    }
    for (uint32_t i = 0; i < response.n_ended; i++) {
        note_ended(stock, response.ended[i]);
    }
    for (uint32_t i = 0; i < response.n_leases; i++) {
        note_lease(stock, &response.leases[i]);
    }
    if (response.lacking_code != 0) {
        wp_stock_note_lacking(stock, response.lacking_code,
                              response.lacking.ptr);
    } else if (response.n_leases > 0) {
        wp_stock_note_lacking(stock, WARMPOOL_OK, "");
    }
    return true;
}

bool
wp_stock_received(struct wp_h2_call *call, const uint8_t *bytes, size_t len)
{
    struct warmpool_stock *stock = call->ctx;
    size_t at = 0;

    if (len > sizeof stock->in - stock->n_in) {
        return false;
    }
    memcpy(stock->in + stock->n_in, bytes, len);
    stock->n_in += (uint32_t)len;
    while (stock->n_in - at >= WP_H2_FRAME_HEAD) {
        const uint8_t *head = stock->in + at;
        uint32_t size = (uint32_t)head[1] << 24 | (uint32_t)head[2] << 16 |
                        (uint32_t)head[3] << 8 | head[4];

        if (head[0] != 0 || size > sizeof stock->in - WP_H2_FRAME_HEAD) {
            return false;
        }
        if (stock->n_in - at - WP_H2_FRAME_HEAD < size) {
            break;
        }
        if (!read_message(stock, head + WP_H2_FRAME_HEAD, size)) {
            return false;
        }
        at += WP_H2_FRAME_HEAD + size;
    }
    memmove(stock->in, stock->in + at, stock->n_in - at);
    stock->n_in -= (uint32_t)at;
    return true;
}
