/* libwarmpool: leases ahead. What any thread may do is at the end; all else is
 * the client's thread's.
 *
 *         shown           take               confirmed, or ended
 *   FREE -----> STOCKED ------> TAKEN ------------------------> FREE
 *                 |  ^            (also: too old, then given back)
 *                 v  | renewed
 *              RENEWING
 *
 * A stocked lease's slot is in a queue of indexes; who takes the index owns the
 * lease. So the lease is copied out without a lock, and the slot's state, set
 * afterwards, hands it on. A confirmed lease was no more than told: it is the
 * taker's from the moment of taking. */
#include "allocator/client/internal.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/rng.h"

#define TTL_DEFAULT_MS INT64_C(60000)
#define TTL_MIN_MS INT64_C(2000)
/* Between two looks at what was taken, while something is, and else. */
#define TICK_BUSY_NS WP_NS_PER_MS
#define TICK_IDLE_NS (10 * WP_NS_PER_MS)
#define BUSY_NS (50 * WP_NS_PER_MS)
/* For telling the daemon, when the stock is closed. */
#define CLOSE_NS (2 * WP_NS_PER_S)
#define REOPEN_MIN_NS (20 * WP_NS_PER_MS)
#define REOPEN_MAX_NS (2 * WP_NS_PER_S)
#define CALL_NS (2 * WP_NS_PER_S)
/* The number of a lease whose stream is gone: it is settled by calls. */
#define NUMBER_NONE UINT64_MAX

enum {
    ARENA_SIZE = 512 << 10,
    OUT_SIZE = 16 << 10,
    RENEWS_MAX = 32, /* Under way. */
    RING_MASK = WP_STOCK_SLOTS - 1,
};

_Static_assert((WP_STOCK_SLOTS & RING_MASK) == 0, "a power of two");

enum slot_state {
    SLOT_FREE,
    SLOT_STOCKED,
    SLOT_RENEWING,
    SLOT_TAKEN,
    SLOT_OLD, /* Taken out because too little of it is left. */
};

/* A place in the queue of slots: a bounded queue of many takers, in which each
 * place says whose turn it is. */
struct place {
    _Atomic(uint32_t) turn;
    uint32_t slot;
};

struct slot {
    uint64_t number;
    int64_t renew_ns;           /* Monotonic: renewed from then on. */
    _Atomic(int64_t) useful_ns; /* Until then it may be taken. */
    bool told; /* That it was taken, on this stream; or it is being settled. */
    struct warmpool_lease lease;
};

enum stream_state {
    STREAM_NONE,
    STREAM_OPENING, /* Not answered yet. */
    STREAM_OPEN,
    STREAM_ENDING, /* Ours to end: its last words are on their way. */
};

struct warmpool_stock {
    /* What takers touch. */
    alignas(64) _Atomic(uint32_t) head; /* The next place to take from. */
    alignas(64) struct place places[WP_STOCK_SLOTS];
    _Atomic(uint8_t) states[WP_STOCK_SLOTS]; /* enum slot_state */
    struct slot slots[WP_STOCK_SLOTS];
    _Atomic(bool) usable; /* The daemon can be told. */
    _Atomic(uint32_t) n_stocked;
    _Atomic(int) lacking; /* A code; its text is under the client's lock. */
    char lacking_text[sizeof(((struct warmpool_error *)0)->message)];

    /* Set when opened. */
    struct warmpool *client;
    struct wp_list node; /* Of client->stocks. */
    struct wp_pool_name pool;
    struct warmpool_stock_options options;

    /* Under the client's lock. */
    bool closing;
    bool left;

    /* The client's thread's. */
    uint32_t tail; /* The next place to put into. */
    enum stream_state state;
    bool resumes; /* The daemon may know the stream. */
    bool has_orphans;
    uint32_t n_streams;
    char id[WP_STREAM_ID_MAX + 1];
    int64_t reopen_ns;
    uint32_t failures;
    int64_t busy_until_ns;
    int64_t close_ns; /* 0: not closing. */
    uint32_t n_jobs;  /* Renewals and ends under way. */
    uint32_t n_in;
    struct wp_h2_call call;
    uint8_t out[WP_H2_FRAME_HEAD + OUT_SIZE];
    uint8_t in[WP_STOCK_IN];
    char details[sizeof(((struct warmpool_error *)0)->message)];
    char arena[ARENA_SIZE];
};

struct warmpool_stock *
wp_stock_of(struct wp_list *node)
{
    return WP_CONTAINER_OF(node, struct warmpool_stock, node);
}

/* --- The queue of slots --- */

/* There is room: as many places as slots. */
static void
put(struct warmpool_stock *stock, uint32_t slot)
{
    struct place *place = &stock->places[stock->tail & RING_MASK];

    WP_ASSERT(atomic_load_explicit(&place->turn, memory_order_acquire) ==
              stock->tail);
    place->slot = slot;
    /* Release: with the place goes the slot's lease. */
    atomic_store_explicit(&place->turn, stock->tail + 1, memory_order_release);
    stock->tail++;
    (void)atomic_fetch_add_explicit(&stock->n_stocked, 1, memory_order_relaxed);
}

/* UINT32_MAX: there is none. Any thread. */
static uint32_t
get(struct warmpool_stock *stock)
{
    uint32_t head = atomic_load_explicit(&stock->head, memory_order_relaxed);

    for (;;) {
        struct place *place = &stock->places[head & RING_MASK];
        /* Acquire pairs with the release in put. */
        int32_t ahead =
            (int32_t)(atomic_load_explicit(&place->turn, memory_order_acquire) -
                      (head + 1));
        uint32_t slot;

        if (ahead < 0) {
            return UINT32_MAX;
        }
        if (ahead > 0) { /* Another one has taken it. */
            head = atomic_load_explicit(&stock->head, memory_order_relaxed);
            continue;
        }
        if (!atomic_compare_exchange_weak_explicit(
                &stock->head, &head, head + 1, memory_order_relaxed,
                memory_order_relaxed)) {
            continue;
        }
        slot = place->slot;
        /* Release: the slot's index was read. */
        atomic_store_explicit(&place->turn, head + WP_STOCK_SLOTS,
                              memory_order_release);
        (void)atomic_fetch_sub_explicit(&stock->n_stocked, 1,
                                        memory_order_relaxed);
        return slot;
    }
}

static enum slot_state
state_of(const struct warmpool_stock *stock, uint32_t i)
{
    /* Acquire pairs with the release of who took the slot out. */
    return (enum slot_state)atomic_load_explicit(&stock->states[i],
                                                 memory_order_acquire);
}

static void
set_state(struct warmpool_stock *stock, uint32_t i, enum slot_state state)
{
    atomic_store_explicit(&stock->states[i], (uint8_t)state,
                          memory_order_release);
}

/* UINT32_MAX: there is none. number 0: a free one. */
static uint32_t
find(const struct warmpool_stock *stock, uint64_t number)
{
    for (uint32_t i = 0; i < WP_STOCK_SLOTS; i++) {
        bool is_free = state_of(stock, i) == SLOT_FREE;

        if (number == 0 ? is_free
                        : !is_free && stock->slots[i].number == number) {
            return i;
        }
    }
    return UINT32_MAX;
}

/* --- What is known of a lease --- */

/* The deadline as the other's clock has it, by ours. What is left of it is
 * trusted up to what was asked for. */
static void
set_deadline(struct warmpool_stock *stock, struct slot *slot, int64_t unix_ms)
{
    int64_t ttl_ns = stock->options.ttl_ms * WP_NS_PER_MS;
    int64_t left_ns =
        unix_ms * WP_NS_PER_MS - wp_clock_wall_ns(wp_clock_system());
    int64_t now_ns = wp_client_now_ns();

    left_ns = left_ns < ttl_ns ? left_ns : ttl_ns;
    slot->renew_ns = now_ns + left_ns - ttl_ns / 2;
    atomic_store_explicit(&slot->useful_ns, now_ns + left_ns - ttl_ns / 4,
                          memory_order_relaxed);
}

static void
lose(struct warmpool_stock *stock, uint32_t i)
{
    if (stock->options.lost != NULL) {
        stock->options.lost(stock->options.ctx, stock->slots[i].lease.claim_id);
    }
    set_state(stock, i, SLOT_FREE);
}

static void
note_lease(struct warmpool_stock *stock, const struct wp_wire_lease_ahead *in)
{
    uint32_t i = find(stock, 0);
    struct slot *slot = &stock->slots[i];

    if (i == UINT32_MAX) {
        return; /* It sends more than was asked for: it has them back. */
    }
    slot->number = in->number;
    slot->told = false;
    wp_client_lease(in->claim_id, in->grant, &slot->lease);
    set_deadline(stock, slot, in->grant->deadline_wall_ms);
    set_state(stock, i, SLOT_STOCKED);
    put(stock, i);
}

static void
note_taken(struct warmpool_stock *stock, uint64_t number)
{
    uint32_t i = find(stock, number);

    if (i != UINT32_MAX && state_of(stock, i) == SLOT_TAKEN) {
        set_state(stock, i, SLOT_FREE);
    }
}

static void
note_ended(struct warmpool_stock *stock, uint64_t number)
{
    uint32_t i = find(stock, number);

    if (i == UINT32_MAX) {
        return;
    }
    switch (state_of(stock, i)) {
    case SLOT_TAKEN:
        lose(stock, i);
        break;
    case SLOT_STOCKED:
    case SLOT_RENEWING:
        /* Who comes upon it in the queue finds it too old. */
        atomic_store_explicit(&stock->slots[i].useful_ns, 0,
                              memory_order_relaxed);
        stock->slots[i].renew_ns = WP_TIME_NEVER;
        break;
    case SLOT_OLD:
    case SLOT_FREE:
        break;
    }
}

/* --- Messages --- */

static void
note_lacking(struct warmpool_stock *stock, int code, const char *text)
{
    (void)pthread_mutex_lock(&stock->client->lock);
    (void)snprintf(stock->lacking_text, sizeof stock->lacking_text, "%s", text);
    atomic_store_explicit(&stock->lacking, code, memory_order_relaxed);
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
        note_lacking(stock, wp_status_grpc_code(WP_INTERNAL), err.msg);
        return false;
    }
    if (stock->state == STREAM_OPENING) {
        stock->state = STREAM_OPEN;
        stock->resumes = true;
        stock->failures = 0;
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
        note_lacking(stock, response.lacking_code, response.lacking.ptr);
    } else if (response.n_leases > 0) {
        note_lacking(stock, WARMPOOL_OK, "");
    }
    return true;
}

/* Bytes of messages, each with five before it. */
static bool
stream_received(struct wp_h2_call *call, const uint8_t *bytes, size_t len)
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
        struct slot *slot = &stock->slots[i];
        enum slot_state state = state_of(stock, i);

        if (slot->number == NUMBER_NONE) {
            continue;
        }
        if (state == SLOT_TAKEN && (again || !slot->told) &&
            request->n_took < WP_AHEAD_MAX) {
            s->took[request->n_took++] = slot->number;
            slot->told = true;
        } else if (state == SLOT_OLD && request->n_back < WP_AHEAD_MAX) {
            s->back[request->n_back++] = slot->number;
            set_state(stock, i, SLOT_FREE);
        } else if ((state == SLOT_STOCKED || state == SLOT_RENEWING) && again &&
                   request->open.n_keep < WP_AHEAD_MAX) {
            s->keep[request->open.n_keep++] = slot->number;
        }
    }
}

static void
pack(struct warmpool_stock *stock, const struct saying *s)
{
    size_t len = wp_wire_size_stream_request(&s->request);

    WP_ASSERT(len <= OUT_SIZE);
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
        stock->state = STREAM_ENDING;
        wp_h2_end(stock->client->h2, &stock->call);
    }
}

/* --- Leases by call: renewals, and what a stream that is gone has left --- */

static struct wp_job *
make_job(struct warmpool_stock *stock, enum wp_method_of_client method,
         void (*over)(struct wp_job *job), uint32_t i)
{
    struct wp_job *job = malloc(sizeof *job);

    if (job == NULL) {
        return NULL;
    }
    wp_job_init(job, stock->client, method, CALL_NS);
    job->over = over;
    job->ctx = stock;
    job->number = i;
    stock->n_jobs++;
    return job;
}

/* False: the lease is not held any more, or nothing is known. */
static bool
read_renewal(struct warmpool_stock *stock, const struct wp_job *job)
{
    struct slot *slot = &stock->slots[job->number];
    struct wp_wire_renew_response response;
    struct wp_arena arena;
    struct wp_err err;

    wp_arena_init(&arena, stock->arena, sizeof stock->arena);
    if (job->call.status != WARMPOOL_OK ||
        wp_wire_unpack_renew_response(&arena, job->reply + WP_H2_FRAME_HEAD,
                                      job->call.reply_len, &response,
                                      &err) != WP_OK) {
        return false;
    }
    memcpy(slot->lease.token, response.token, sizeof slot->lease.token);
    slot->lease.deadline_unix_ms = response.deadline_wall_ms;
    set_deadline(stock, slot, response.deadline_wall_ms);
    return true;
}

static void
renewed(struct wp_job *job)
{
    struct warmpool_stock *stock = job->ctx;
    uint32_t i = (uint32_t)job->number;

    stock->n_jobs--;
    /* One that has ended meanwhile keeps being too old. */
    if (state_of(stock, i) == SLOT_RENEWING &&
        stock->slots[i].renew_ns != WP_TIME_NEVER && read_renewal(stock, job)) {
        set_state(stock, i, SLOT_STOCKED);
        put(stock, i);
    } else if (state_of(stock, i) == SLOT_RENEWING) {
        set_state(stock, i, SLOT_OLD);
    }
    free(job);
}

/* Renews what is half over. The oldest come first in the queue; what is not due
 * yet goes to its end. */
static void
renew_due(struct warmpool_stock *stock, int64_t now_ns)
{
    uint32_t n = atomic_load_explicit(&stock->n_stocked, memory_order_relaxed);
    bool due = false;

    for (uint32_t i = 0; i < WP_STOCK_SLOTS && !due; i++) {
        due = state_of(stock, i) == SLOT_STOCKED &&
              stock->slots[i].renew_ns <= now_ns;
    }
    for (; due && n > 0 && stock->n_jobs < RENEWS_MAX; n--) {
        uint32_t i = get(stock);
        struct wp_job *job;

        if (i == UINT32_MAX) {
            return;
        }
        if (stock->slots[i].renew_ns > now_ns ||
            (job = make_job(stock, WP_CALL_RENEW, renewed, i)) == NULL) {
            put(stock, i);
            continue;
        }
        set_state(stock, i, SLOT_RENEWING);
        wp_job_renew(job, stock->slots[i].lease.token, stock->options.ttl_ms);
        wp_job_queue(job);
    }
}

/* It was taken, and the daemon could not be told: is it held? */
static void
asked(struct wp_job *job)
{
    struct warmpool_stock *stock = job->ctx;
    uint32_t i = (uint32_t)job->number;

    stock->n_jobs--;
    if (job->call.status == WARMPOOL_OK) {
        set_state(stock, i, SLOT_FREE);
    } else {
        lose(stock, i);
    }
    free(job);
}

static void
ended(struct wp_job *job)
{
    struct warmpool_stock *stock = job->ctx;

    stock->n_jobs--;
    set_state(stock, (uint32_t)job->number, SLOT_FREE);
    free(job);
}

/* Of a slot whose stream is gone: what was taken is renewed, which says that it
 * is held; the rest is released. */
static void
settle_slot(struct warmpool_stock *stock, uint32_t i, bool taken)
{
    struct slot *slot = &stock->slots[i];
    struct wp_job *job =
        make_job(stock, taken ? WP_CALL_RENEW : WP_CALL_RELEASE,
                 taken ? asked : ended, i);

    if (job == NULL) {
        return; /* The next turn tries again. */
    }
    slot->told = true;
    if (taken) {
        wp_job_renew(job, slot->lease.token, stock->options.ttl_ms);
    } else {
        wp_job_release(job, slot->lease.token);
    }
    wp_job_queue(job);
}

/* Those whose stream is gone. Some are being taken, or renewed, just now: their
 * turn comes. */
static void
settle_orphans(struct warmpool_stock *stock)
{
    bool left = false;

    for (uint32_t i = 0; i < WP_STOCK_SLOTS && stock->has_orphans; i++) {
        enum slot_state state = state_of(stock, i);

        if (state == SLOT_FREE || stock->slots[i].number != NUMBER_NONE) {
            continue;
        }
        left = true;
        if (!stock->slots[i].told &&
            (state == SLOT_TAKEN || state == SLOT_OLD)) {
            settle_slot(stock, i, state == SLOT_TAKEN);
        }
    }
    stock->has_orphans = left;
}

/* The daemon does not know the stream any more, or not for long. */
static void
orphan_all(struct warmpool_stock *stock)
{
    uint32_t i;

    while ((i = get(stock)) != UINT32_MAX) {
        set_state(stock, i, SLOT_OLD);
    }
    for (i = 0; i < WP_STOCK_SLOTS; i++) {
        if (state_of(stock, i) != SLOT_FREE &&
            stock->slots[i].number != NUMBER_NONE) {
            stock->slots[i].number = NUMBER_NONE;
            stock->slots[i].told = false;
            stock->slots[i].renew_ns = WP_TIME_NEVER;
        }
    }
    stock->has_orphans = true;
    stock->resumes = false;
}

/* --- The stream --- */

static void
broken(struct warmpool_stock *stock)
{
    atomic_store_explicit(&stock->usable, false, memory_order_release);
    stock->state = STREAM_NONE;
    stock->n_in = 0;
}

void
wp_stock_cut(struct warmpool_stock *stock)
{
    broken(stock);
    stock->reopen_ns = 0;
}

static void
stream_done(struct wp_h2_call *call)
{
    struct warmpool_stock *stock = call->ctx;
    int64_t now_ns = wp_client_now_ns();
    bool ended_well = stock->state == STREAM_ENDING;

    broken(stock);
    if (ended_well) {
        stock->resumes = false;
        return;
    }
    if (call->status != WP_H2_NO_STATUS) {
        note_lacking(stock,
                     call->status != WARMPOOL_OK ? call->status
                                                 : WARMPOOL_UNAVAILABLE,
                     call->status != WARMPOOL_OK ? stock->details
                                                 : "the daemon ended the "
                                                   "stream");
    }
    if (call->status != WP_H2_NO_STATUS && stock->resumes) {
        orphan_all(stock);
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
    if (!stock->resumes) {
        s.request.n_took = 0;
        s.request.n_back = 0;
    }
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
    stock->call.received = stream_received;
    stock->call.done = stream_done;
    stock->call.ctx = stock;
    stock->call.details = stock->details;
    stock->call.details_cap = sizeof stock->details;
    if (wp_h2_start(client->h2, &stock->call)) {
        stock->state = STREAM_OPENING;
    } else {
        stock->reopen_ns = wp_time_add(wp_client_now_ns(), REOPEN_MIN_NS);
    }
}

int64_t
wp_stock_turn(struct warmpool_stock *stock, int64_t now_ns)
{
    bool closing;

    (void)pthread_mutex_lock(&stock->client->lock);
    closing = stock->closing;
    (void)pthread_mutex_unlock(&stock->client->lock);
    if (closing && stock->close_ns == 0) {
        stock->close_ns = wp_time_add(now_ns, CLOSE_NS);
        atomic_store_explicit(&stock->usable, false, memory_order_release);
    }
    settle_orphans(stock);
    switch (stock->state) {
    case STREAM_NONE:
        if (stock->client->connected && stock->reopen_ns <= now_ns &&
            (!closing || stock->resumes)) {
            open_stream(stock);
        }
        break;
    case STREAM_OPEN:
        tell(stock, now_ns);
        if (!closing) {
            renew_due(stock, now_ns);
        }
        break;
    case STREAM_OPENING:
    case STREAM_ENDING:
        break;
    }
    return now_ns +
           (now_ns < stock->busy_until_ns ? TICK_BUSY_NS : TICK_IDLE_NS);
}

bool
wp_stock_leaves(struct warmpool_stock *stock)
{
    bool idle =
        stock->state == STREAM_NONE && !stock->resumes && !stock->has_orphans;
    bool late = stock->close_ns != 0 && wp_client_now_ns() >= stock->close_ns;

    if (!stock->closing || stock->close_ns == 0 || stock->n_jobs > 0 ||
        (!idle && !late)) {
        return false;
    }
    if (stock->state != STREAM_NONE) {
        wp_h2_cancel(stock->client->h2, &stock->call);
    }
    wp_list_remove(&stock->node);
    stock->left = true;
    return true;
}

/* --- For any thread --- */

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

bool
warmpool_stock_take(struct warmpool_stock *stock, struct warmpool_lease *lease)
{
    int64_t now_ns;
    uint32_t i;

    if (!atomic_load_explicit(&stock->usable, memory_order_acquire)) {
        return false;
    }
    now_ns = wp_client_now_ns();
    while ((i = get(stock)) != UINT32_MAX) {
        struct slot *slot = &stock->slots[i];

        if (atomic_load_explicit(&slot->useful_ns, memory_order_relaxed) >
            now_ns) {
            *lease = slot->lease;
            set_state(stock, i, SLOT_TAKEN);
            return true;
        }
        set_state(stock, i, SLOT_OLD);
    }
    return false;
}

int
warmpool_stock_claim(struct warmpool_stock *stock, int64_t wait_ms,
                     struct warmpool_lease *lease, struct warmpool_error *error)
{
    const struct wp_pool_name *pool = &stock->pool;
    char name[sizeof *pool + 1];

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
