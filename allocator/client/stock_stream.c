/* libwarmpool: a stock's stream, and what is said on it. The client's thread's.
 */
#include "allocator/client/stock_impl.h"

#include <stdio.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/rng.h"

/* Between two looks at what was taken, while something is; for so long after
 * the last; and while something is left that could not be done. */
#define TICK_BUSY_NS WP_NS_PER_MS
#define BUSY_NS (50 * WP_NS_PER_MS)
#define TICK_LEFT_NS (10 * WP_NS_PER_MS)
/* For telling the daemon, when the stock is closed. */
#define CLOSE_NS (2 * WP_NS_PER_S)
#define REOPEN_MIN_NS (20 * WP_NS_PER_MS)
#define REOPEN_MAX_NS (2 * WP_NS_PER_S)

struct warmpool_stock *
wp_stock_of(struct wp_list *node)
{
    return WP_CONTAINER_OF(node, struct warmpool_stock, node);
}

/* What a message says of the slots. */
struct saying {
    uint64_t took[WP_AHEAD_MAX];
    uint64_t back[WP_AHEAD_MAX];
    uint64_t keep[WP_AHEAD_MAX];
    struct wp_wire_stream_request request;
};

/* What the daemon is to hear now. again: also what it has been told, and what
 * is kept. */
static void
gather(struct warmpool_stock *stock, bool again, struct saying *s)
{
    struct wp_wire_stream_request *request = &s->request;

    *request =
        (struct wp_wire_stream_request){.took = s->took, .back = s->back};
    request->open.keep = s->keep;
    for (uint32_t i = 0; i < WP_STOCK_SLOTS; i++) {
        struct wp_stock_slot *slot = &stock->slots[i];
        enum wp_stock_slot_state state = wp_stock_slot_state(stock, i);

        if (slot->number == WP_STOCK_NUMBER_NONE) {
            continue;
        }
        if (state == WP_STOCK_SLOT_TAKEN && (again || !slot->told) &&
            request->n_took < WP_AHEAD_MAX) {
            s->took[request->n_took++] = slot->number;
            slot->told = true;
        } else if (state == WP_STOCK_SLOT_OLD &&
                   request->n_back < WP_AHEAD_MAX) {
            s->back[request->n_back++] = slot->number;
            wp_stock_set_slot_state(stock, i, WP_STOCK_SLOT_FREE);
        } else if ((state == WP_STOCK_SLOT_STOCKED ||
                    state == WP_STOCK_SLOT_RENEWING) &&
                   again && request->open.n_keep < WP_AHEAD_MAX) {
            s->keep[request->open.n_keep++] = slot->number;
        }
    }
}

static void
pack(struct warmpool_stock *stock, const struct saying *s)
{
    size_t len = wp_wire_size_stream_request(&s->request);

    WP_ASSERT(len <= WP_STOCK_OUT);
    stock->call.request_len =
        wp_wire_pack_stream_request(&s->request, stock->out + WP_H2_FRAME_HEAD);
}

/* Says what was taken since the last time. */
static void
tell(struct warmpool_stock *stock, int64_t now_ns)
{
    struct saying s;

    if (!wp_h2_may_send(&stock->call)) {
        return;
    }
    gather(stock, false, &s);
    if (s.request.n_took + s.request.n_back > 0) {
        stock->busy_until_ns = now_ns + BUSY_NS;
        pack(stock, &s);
        wp_h2_send(stock->client->h2, &stock->call);
    } else if (stock->close_ns != 0) {
        stock->state = WP_STOCK_STREAM_ENDING;
        wp_h2_end(stock->client->h2, &stock->call);
    }
}

static void
broken(struct warmpool_stock *stock)
{
    atomic_store_explicit(&stock->usable, false, memory_order_release);
    stock->state = WP_STOCK_STREAM_NONE;
    stock->n_in = 0;
}

void
wp_stock_cut(struct warmpool_stock *stock)
{
    broken(stock);
    stock->reopen_ns = 0;
}

void
wp_stock_unreachable(struct warmpool_stock *stock, const char *why)
{
    wp_stock_set_lacking(stock, WARMPOOL_UNAVAILABLE, why);
}

/* Why the stream has ended, which is not ours to end. */
static void
note_end(struct warmpool_stock *stock, int status)
{
    char text[sizeof stock->details];

    if (status == WARMPOOL_OK) {
        (void)snprintf(text, sizeof text, "the daemon ended the stream");
        status = WARMPOOL_UNAVAILABLE;
    } else if (status == WP_H2_NO_STATUS) {
        (void)snprintf(text, sizeof text,
                       "the daemon ends the stream without an answer%s%.180s",
                       stock->details[0] != '\0' ? ": " : "", stock->details);
        status = WARMPOOL_UNAVAILABLE;
    } else {
        (void)snprintf(text, sizeof text, "%s", stock->details);
    }
    wp_stock_note_lacking(stock, status, text);
}

static void
stream_done(struct wp_h2_call *call)
{
    struct warmpool_stock *stock = call->ctx;
    int64_t now_ns = wp_client_now_ns();
    bool ended_well = stock->state == WP_STOCK_STREAM_ENDING;

    broken(stock);
    if (ended_well) {
        stock->resumes = false;
        return;
    }
    note_end(stock, call->status);
    if (call->status != WP_H2_NO_STATUS && stock->resumes) {
        wp_stock_orphan_all(stock);
    }
    stock->failures++;
    stock->reopen_ns = wp_time_add(
        now_ns, wp_backoff_ns(REOPEN_MIN_NS, REOPEN_MAX_NS, stock->failures));
}

static void
open_stream(struct warmpool_stock *stock)
{
    struct warmpool *client = stock->client;
    struct wp_wire_stream_open *open;
    struct saying s;

    if (!stock->resumes) {
        (void)snprintf(stock->id, sizeof stock->id, "%s-s%u-%llu", client->id,
                       ++stock->n_streams,
                       (unsigned long long)atomic_fetch_add_explicit(
                           &client->n_ids, 1, memory_order_relaxed));
    }
    gather(stock, stock->resumes, &s);
    open = &s.request.open;
    s.request.has_open = true;
    open->pool.pool_namespace = wp_str_from(stock->pool.pool_namespace);
    open->pool.name = wp_str_from(stock->pool.name);
    open->stream_id = wp_str_from(stock->id);
    open->tenant = wp_str_from(client->tenant);
    open->ttl_ms = stock->options.ttl_ms;
    open->ahead = stock->options.ahead;
    open->resume = stock->resumes;
    pack(stock, &s);
    stock->call.method = WP_CALL_STREAM;
    stock->call.request = stock->out;
    stock->call.received = wp_stock_received;
    stock->call.done = stream_done;
    stock->call.ctx = stock;
    stock->call.details = stock->details;
    stock->call.details_cap = sizeof stock->details;
    if (wp_h2_start(client->h2, &stock->call)) {
        stock->state = WP_STOCK_STREAM_OPENING;
    } else {
        stock->reopen_ns = wp_time_add(wp_client_now_ns(), REOPEN_MIN_NS);
    }
}

static bool
has_news(const struct warmpool_stock *stock)
{
    for (uint32_t i = 0; i < WP_STOCK_SLOTS; i++) {
        unsigned state =
            atomic_load_explicit(&stock->states[i], memory_order_seq_cst);

        if (state == WP_STOCK_SLOT_OLD ||
            (state == WP_STOCK_SLOT_TAKEN && !stock->slots[i].told)) {
            return true;
        }
    }
    return false;
}

/* When to look again at what was taken: never, but that who takes wakes this
 * thread. See hand_on in stock.c. */
static int64_t
next_look_ns(struct warmpool_stock *stock, int64_t now_ns)
{
    if (now_ns < stock->busy_until_ns) {
        return now_ns + TICK_BUSY_NS;
    }
    if (stock->close_ns != 0) {
        return now_ns + TICK_LEFT_NS;
    }
    if (stock->state != WP_STOCK_STREAM_OPEN) {
        return WP_TIME_NEVER; /* What was taken is told when it opens. */
    }
    atomic_store_explicit(&stock->dozes, true, memory_order_seq_cst);
    return has_news(stock) ? now_ns + TICK_LEFT_NS : WP_TIME_NEVER;
}

int64_t
wp_stock_turn(struct warmpool_stock *stock, int64_t now_ns)
{
    int64_t next_ns = WP_TIME_NEVER;
    int64_t orphans_ns;
    int64_t look_ns;
    bool closing;

    atomic_store_explicit(&stock->dozes, false, memory_order_seq_cst);
    (void)pthread_mutex_lock(&stock->client->lock);
    closing = stock->closing;
    (void)pthread_mutex_unlock(&stock->client->lock);
    if (closing && stock->close_ns == 0) {
        stock->close_ns = wp_time_add(now_ns, CLOSE_NS);
        atomic_store_explicit(&stock->usable, false, memory_order_release);
    }
    orphans_ns = wp_stock_settle_orphans(stock, now_ns);
    switch (stock->state) {
    case WP_STOCK_STREAM_NONE:
        if (!stock->client->connected || (closing && !stock->resumes)) {
            break;
        }
        if (stock->reopen_ns <= now_ns) {
            open_stream(stock);
        }
        if (stock->state == WP_STOCK_STREAM_NONE) {
            next_ns = stock->reopen_ns;
        }
        break;
    case WP_STOCK_STREAM_OPEN:
        tell(stock, now_ns);
        if (!closing) {
            next_ns = wp_stock_renew_due(stock, now_ns);
            next_ns = next_ns > now_ns ? next_ns : now_ns + TICK_LEFT_NS;
        }
        break;
    case WP_STOCK_STREAM_OPENING:
    case WP_STOCK_STREAM_ENDING:
        break;
    }
    look_ns = next_look_ns(stock, now_ns);
    look_ns = orphans_ns < look_ns ? orphans_ns : look_ns;
    return look_ns < next_ns ? look_ns : next_ns;
}

bool
wp_stock_leaves(struct warmpool_stock *stock)
{
    bool idle = stock->state == WP_STOCK_STREAM_NONE && !stock->resumes &&
                !stock->has_orphans;
    bool late = stock->close_ns != 0 && wp_client_now_ns() >= stock->close_ns;

    if (!stock->closing || stock->close_ns == 0 || stock->n_jobs > 0 ||
        (!idle && !late)) {
        return false;
    }
    if (stock->state != WP_STOCK_STREAM_NONE) {
        wp_h2_cancel(stock->client->h2, &stock->call);
    }
    wp_list_remove(&stock->node);
    stock->left = true;
    return true;
}
