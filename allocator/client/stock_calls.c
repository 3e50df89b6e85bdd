/* libwarmpool: a stock's leases by call. Renewals, and what a stream that is
 * gone has left. The client's thread's. */
#include "allocator/client/stock_impl.h"

#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"

#define CALL_NS (2 * WP_NS_PER_S)
/* After an answer that says nothing; and while a slot is in other hands. */
#define ASK_AGAIN_NS (200 * WP_NS_PER_MS)
#define LOOK_AGAIN_NS (10 * WP_NS_PER_MS)

enum {
    RENEWS_MAX = 32, /* Under way. */
};

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

/* Neither held nor not: whoever said so, or nobody, did not know. */
static bool
says_nothing(int status)
{
    return status == WARMPOOL_UNAVAILABLE ||
           status == WARMPOOL_DEADLINE_EXCEEDED ||
           status == WARMPOOL_RESOURCE_EXHAUSTED;
}

/* False: the lease is not held any more, or nothing is known. */
static bool
read_renewal(struct warmpool_stock *stock, const struct wp_job *job)
{
    struct wp_stock_slot *slot = &stock->slots[job->number];
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
    wp_stock_set_left(stock, slot, job->until_ns - CALL_NS,
                      stock->options.ttl_ms * WP_NS_PER_MS);
    return true;
}

/* One that has ended meanwhile keeps being too old. */
static bool
is_kept(struct warmpool_stock *stock, const struct wp_job *job)
{
    struct wp_stock_slot *slot = &stock->slots[job->number];
    int64_t now_ns = wp_client_now_ns();

    if (slot->renew_ns == WP_TIME_NEVER) {
        return false;
    }
    if (says_nothing(job->call.status) &&
        now_ns < atomic_load_explicit(&slot->useful_ns, memory_order_relaxed)) {
        slot->renew_ns = wp_time_add(now_ns, ASK_AGAIN_NS);
        return true;
    }
    return read_renewal(stock, job);
}

static void
renewed(struct wp_job *job)
{
    struct warmpool_stock *stock = job->ctx;
    uint32_t i = (uint32_t)job->number;

    stock->n_jobs--;
    if (wp_stock_slot_state(stock, i) == WP_STOCK_SLOT_RENEWING) {
        bool kept = is_kept(stock, job);

        wp_stock_set_slot_state(
            stock, i, kept ? WP_STOCK_SLOT_STOCKED : WP_STOCK_SLOT_OLD);
        if (kept) {
            wp_stock_put(stock, i);
        }
    }
    free(job);
}

static int64_t
next_renewal_ns(const struct warmpool_stock *stock)
{
    int64_t next_ns = WP_TIME_NEVER;

    for (uint32_t i = 0; i < WP_STOCK_SLOTS; i++) {
        if (wp_stock_slot_state(stock, i) == WP_STOCK_SLOT_STOCKED &&
            stock->slots[i].renew_ns < next_ns) {
            next_ns = stock->slots[i].renew_ns;
        }
    }
    return next_ns;
}

/* The oldest come first in the queue; what is not due yet goes to its end. */
int64_t
wp_stock_renew_due(struct warmpool_stock *stock, int64_t now_ns)
{
    uint32_t n = atomic_load_explicit(&stock->n_stocked, memory_order_relaxed);
    int64_t next_ns = next_renewal_ns(stock);

    if (next_ns > now_ns) {
        return next_ns;
    }
    for (; n > 0 && stock->n_jobs < RENEWS_MAX; n--) {
        uint32_t i = wp_stock_get(stock);
        struct wp_job *job;

        if (i == UINT32_MAX) {
            break;
        }
        if (stock->slots[i].renew_ns > now_ns ||
            (job = make_job(stock, WP_CALL_RENEW, renewed, i)) == NULL) {
            wp_stock_put(stock, i);
            continue;
        }
        wp_stock_set_slot_state(stock, i, WP_STOCK_SLOT_RENEWING);
        wp_job_renew(job, stock->slots[i].lease.token, stock->options.ttl_ms);
        wp_job_queue(job);
    }
    /* The end of one under way makes room for another, and is heard. */
    return stock->n_jobs < RENEWS_MAX ? next_renewal_ns(stock) : WP_TIME_NEVER;
}

static int64_t
end_ns(const struct warmpool_stock *stock, uint32_t i)
{
    return wp_time_add(
        atomic_load_explicit(&stock->slots[i].useful_ns, memory_order_relaxed),
        stock->options.ttl_ms * WP_NS_PER_MS / 4);
}

/* It was taken, and the daemon could not be told: is it held? */
static void
asked(struct wp_job *job)
{
    struct warmpool_stock *stock = job->ctx;
    uint32_t i = (uint32_t)job->number;
    int64_t now_ns = wp_client_now_ns();

    stock->n_jobs--;
    if (job->call.status == WARMPOOL_OK) {
        wp_stock_set_slot_state(stock, i, WP_STOCK_SLOT_FREE);
    } else if (says_nothing(job->call.status) && now_ns < end_ns(stock, i)) {
        stock->slots[i].told = false;
        stock->slots[i].ask_ns = wp_time_add(now_ns, ASK_AGAIN_NS);
    } else {
        wp_stock_lose(stock, i);
    }
    free(job);
}

static void
ended(struct wp_job *job)
{
    struct warmpool_stock *stock = job->ctx;

    stock->n_jobs--;
    wp_stock_set_slot_state(stock, (uint32_t)job->number, WP_STOCK_SLOT_FREE);
    free(job);
}

/* Of a slot whose stream is gone: what was taken is renewed, which says that it
 * is held; the rest is released. */
static void
call_for(struct warmpool_stock *stock, uint32_t i, bool taken)
{
    struct wp_stock_slot *slot = &stock->slots[i];
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

/* When to look at the slot again, which is not FREE. Some are being taken, or
 * renewed, just now: their turn comes. What cannot be asked is over with its
 * lease. */
static int64_t
settle_slot(struct warmpool_stock *stock, uint32_t i, int64_t now_ns)
{
    enum wp_stock_slot_state state = wp_stock_slot_state(stock, i);
    bool taken = state == WP_STOCK_SLOT_TAKEN;
    int64_t ask_ns = stock->slots[i].ask_ns;

    if (stock->slots[i].told) {
        return WP_TIME_NEVER; /* The answer comes. */
    }
    if (taken && stock->slots[i].settled) {
        wp_stock_set_slot_state(stock, i, WP_STOCK_SLOT_FREE);
        return WP_TIME_NEVER;
    }
    /* What a holder asks for is not to be made less by a renewal of ours. */
    if (taken ? wp_job_pends(stock->client, WP_CALL_RENEW,
                             stock->slots[i].lease.token)
              : state != WP_STOCK_SLOT_OLD) {
        return wp_time_add(now_ns, LOOK_AGAIN_NS);
    }
    if (stock->client->connected && ask_ns <= now_ns) {
        call_for(stock, i, taken);
        return wp_time_add(now_ns, LOOK_AGAIN_NS);
    }
    if (now_ns < end_ns(stock, i)) {
        return stock->client->connected ? ask_ns : end_ns(stock, i);
    }
    if (taken) {
        wp_stock_lose(stock, i);
    } else {
        wp_stock_set_slot_state(stock, i, WP_STOCK_SLOT_FREE);
    }
    return WP_TIME_NEVER;
}

int64_t
wp_stock_settle_orphans(struct warmpool_stock *stock, int64_t now_ns)
{
    int64_t next_ns = WP_TIME_NEVER;
    bool left = false;

    for (uint32_t i = 0; i < WP_STOCK_SLOTS && stock->has_orphans; i++) {
        if (wp_stock_slot_state(stock, i) != WP_STOCK_SLOT_FREE &&
            stock->slots[i].number == WP_STOCK_NUMBER_NONE) {
            int64_t at_ns = settle_slot(stock, i, now_ns);

            next_ns = at_ns < next_ns ? at_ns : next_ns;
            left = true;
        }
    }
    stock->has_orphans = left;
    return next_ns;
}

void
wp_stock_settled(struct warmpool_stock *stock,
                 const uint8_t token[WP_TOKEN_LEN])
{
    for (uint32_t i = 0; i < WP_STOCK_SLOTS; i++) {
        struct wp_stock_slot *slot = &stock->slots[i];

        if (wp_stock_slot_state(stock, i) == WP_STOCK_SLOT_TAKEN &&
            memcmp(slot->lease.token, token, WP_TOKEN_LEN) == 0) {
            slot->settled = true;
        }
    }
}

void
wp_stock_orphan_all(struct warmpool_stock *stock)
{
    uint32_t i;

    while ((i = wp_stock_get(stock)) != UINT32_MAX) {
        wp_stock_set_slot_state(stock, i, WP_STOCK_SLOT_OLD);
    }
    for (i = 0; i < WP_STOCK_SLOTS; i++) {
        if (wp_stock_slot_state(stock, i) != WP_STOCK_SLOT_FREE &&
            stock->slots[i].number != WP_STOCK_NUMBER_NONE) {
            stock->slots[i].number = WP_STOCK_NUMBER_NONE;
            stock->slots[i].told = false;
            stock->slots[i].renew_ns = WP_TIME_NEVER;
            stock->slots[i].ask_ns = 0;
        }
    }
    stock->has_orphans = true;
    stock->resumes = false;
}
