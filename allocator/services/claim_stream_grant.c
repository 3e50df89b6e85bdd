/* ClaimStream: from a lease that is lacking to one that is shown. See
 * claim_stream.h. */
#include <stdio.h>

#include "allocator/services/claim_stream.h"
#include "pool/base/assert.h"
#include "pool/base/extreme.h"

/* After which a stream that lacks leases claims again, unless a change of its
 * pool may help earlier. */
#define RETRY_NS WP_NS_PER_S

/* --- Claims --- */

void
wp_stream_claim_id(const struct wp_claim_stream *stream, uint64_t number,
                   char out[WP_CLAIM_ID_MAX + 1])
{
    (void)snprintf(out, WP_CLAIM_ID_MAX + 1, "%s/%llu", stream->id,
                   (unsigned long long)number);
}

/* The cell is FREE from here on, and so may be the whole stream. Under the
 * lock. */
static void
free_cell(struct wp_stream_cell *cell)
{
    WP_ASSERT(cell->state != WP_CELL_FREE && cell->stream->n_busy > 0);
    cell->state = WP_CELL_FREE;
    cell->stream->n_busy--;
}

/* Says why, and when to claim again. Under the lock. */
static void
refused(struct wp_claim_stream *stream, const struct wp_claim *claim,
        const struct wp_err *why)
{
    const struct wp_clock *clock = stream->services->config.clock;
    int64_t wait_ns = wp_max_i64(claim->retry_after_ns, RETRY_NS);

    stream->starved = claim->quota == WP_QUOTA_NOT;
    stream->retry_ns = wp_time_add(wp_clock_mono_ns(clock), wait_ns);
    if (why->status != stream->lacking.status ||
        strcmp(why->msg, stream->lacking.msg) != 0) {
        stream->lacking = *why;
        stream->lacking_due = true;
    }
}

/* The grant has come too late, or was not sent: the cell is LEAVING. */
static void
take_back(struct wp_stream_cell *cell)
{
    struct wp_claim_stream *stream = cell->stream;

    wp_pools_undo(stream->services->config.pools, &cell->claim);
    (void)pthread_mutex_lock(&stream->lock);
    free_cell(cell);
    (void)pthread_mutex_unlock(&stream->lock);
}

/* The pool has answered the cell's claim. Any thread; the cell may be another
 * lease's when it returns. */
static void
settle(struct wp_stream_cell *cell)
{
    struct wp_claim_stream *stream = cell->stream;
    struct wp_claim *claim = &cell->claim;
    bool late = false;
    struct wp_err why;

    if (claim->status != WP_OK) {
        struct wp_err text;

        (void)wp_err_set(
            &why, claim->status, "%s",
            wp_service_claim_reason(stream->services, claim, &text));
    }
    (void)pthread_mutex_lock(&stream->lock);
    if (claim->status != WP_OK) {
        refused(stream, claim, &why);
        free_cell(cell);
    } else if (claim->replayed) {
        free_cell(cell); /* Somebody has that lease. */
    } else if (stream->state == WP_STREAM_OPEN) {
        cell->state = WP_CELL_GRANTED;
        stream->lacking.status = WP_OK;
        stream->lacking_due = false;
    } else {
        cell->state = WP_CELL_LEAVING;
        late = true;
    }
    (void)pthread_mutex_unlock(&stream->lock);
    if (late) {
        take_back(cell);
    }
}

static void
claim_done(struct wp_claim *claim)
{
    struct wp_stream_cell *cell = claim->ctx;
    struct wp_claim_stream *stream = cell->stream;

    settle(cell);
    wp_stream_work(stream);
}

/* A free cell, with its claim made out; NULL when no lease is lacking, no cell
 * is free or it is too early. Under the lock. */
static struct wp_stream_cell *
next_cell(struct wp_claim_stream *stream)
{
    struct wp_stream_cell *cell = stream->cells;

    if (!wp_stream_lacks(stream) ||
        stream->retry_ns > wp_clock_mono_ns(stream->services->config.clock)) {
        return NULL;
    }
    while (cell->state != WP_CELL_FREE) {
        cell++;
    }
    cell->state = WP_CELL_ASKED;
    stream->n_busy++;
    cell->number = stream->next++;
    wp_stream_claim_id(stream, cell->number, cell->claim_id);
    cell->claim = (struct wp_claim){
        .pool_namespace = wp_str_from(stream->pool_namespace),
        .pool = wp_str_from(stream->pool),
        .claim_id = wp_str_from(cell->claim_id),
        .tenant = wp_str_from(stream->tenant),
        .ttl_ns = stream->ttl_ns,
        .ahead = true,
        .done = claim_done,
        .ctx = cell,
    };
    return cell;
}

/* Until none is lacking, or the pool has none. */
static void
claim_more(struct wp_claim_stream *stream)
{
    struct wp_pools *pools = stream->services->config.pools;

    for (;;) {
        struct wp_stream_cell *cell;

        (void)pthread_mutex_lock(&stream->lock);
        cell = next_cell(stream);
        (void)pthread_mutex_unlock(&stream->lock);
        if (cell == NULL) {
            return;
        }
        if (wp_pools_claim(pools, &cell->claim) != WP_PENDING) {
            settle(cell);
        }
    }
}

void
wp_stream_take_back(struct wp_claim_stream *stream)
{
    for (uint32_t i = 0; i < WP_STREAM_CELLS; i++) {
        struct wp_stream_cell *cell = &stream->cells[i];
        bool mine;

        (void)pthread_mutex_lock(&stream->lock);
        mine =
            cell->state == WP_CELL_GRANTED && stream->state != WP_STREAM_OPEN;
        if (mine) {
            cell->state = WP_CELL_LEAVING;
        }
        (void)pthread_mutex_unlock(&stream->lock);
        if (mine) {
            take_back(cell);
        }
    }
}

/* --- What is sent --- */

/* A response while it is made; it borrows the cells. */
struct message {
    struct wp_wire_stream_response response;
    struct wp_wire_lease_ahead leases[WP_STREAM_CELLS];
    uint64_t taken[WP_STREAM_TOLD_MAX];
    uint64_t ended[WP_STREAM_TOLD_MAX];
};

/* Under the lock. */
static void
fill(const struct wp_claim_stream *stream, struct message *m)
{
    struct wp_wire_stream_response *r = &m->response;

    *r = (struct wp_wire_stream_response){
        .leases = m->leases, .taken = m->taken, .ended = m->ended};
    for (uint32_t i = 0; i < WP_STREAM_CELLS; i++) {
        const struct wp_stream_cell *cell = &stream->cells[i];

        if (cell->state == WP_CELL_GRANTED) {
            m->leases[r->n_leases++] = (struct wp_wire_lease_ahead){
                cell->number, wp_str_from(cell->claim_id), &cell->claim.grant};
        }
    }
    for (uint32_t i = 0; i < stream->n_told; i++) {
        if (stream->told[i].taken) {
            m->taken[r->n_taken++] = stream->told[i].number;
        } else {
            m->ended[r->n_ended++] = stream->told[i].number;
        }
    }
    if (stream->lacking_due) {
        r->lacking_code = wp_status_grpc_code(stream->lacking.status);
        r->lacking = wp_str_from(stream->lacking.msg);
    }
}

/* What was in the message is the client's to know. Under the lock. */
static void
sent(struct wp_claim_stream *stream)
{
    for (uint32_t i = 0; i < WP_STREAM_CELLS; i++) {
        struct wp_stream_cell *cell = &stream->cells[i];

        if (cell->state == WP_CELL_GRANTED) {
            WP_ASSERT(stream->n_shown < WP_AHEAD_MAX);
            stream->shown[stream->n_shown++] =
                (struct wp_stream_shown){cell->number, cell->claim.grant.ref,
                                         cell->claim.grant.deadline_wall_ms};
            free_cell(cell);
        }
    }
    stream->n_told = 0;
    stream->lacking_due = false;
    stream->greets = false;
}

/* True when something was sent. Under the lock. */
static bool
send_owed(struct wp_claim_stream *stream)
{
    struct wp_call *call = stream->call;
    struct message m;
    uint8_t *buf;

    if (stream->state != WP_STREAM_OPEN || stream->blocked) {
        return false;
    }
    fill(stream, &m);
    if (m.response.n_leases + stream->n_told == 0 && !stream->lacking_due &&
        !stream->greets) {
        return false;
    }
    buf = call->ops->reserve(call, wp_wire_size_stream_response(&m.response));
    if (buf == NULL) {
        wp_stream_park(stream, WP_RESOURCE_EXHAUSTED,
                       "no memory for the message");
        return false;
    }
    (void)wp_wire_pack_stream_response(&m.response, buf);
    if (!call->ops->send(call)) {
        stream->blocked = true;
        return false;
    }
    sent(stream);
    return true;
}

void
wp_stream_work(struct wp_claim_stream *stream)
{
    bool again = true;

    while (again) {
        bool open;

        claim_more(stream);
        (void)pthread_mutex_lock(&stream->lock);
        again = send_owed(stream) && wp_stream_lacks(stream);
        open = stream->state == WP_STREAM_OPEN;
        (void)pthread_mutex_unlock(&stream->lock);
        if (!open) {
            wp_stream_take_back(stream);
        }
    }
    wp_stream_keep_time(stream);
}
