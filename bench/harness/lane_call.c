/* A lane's calls: what is asked, and what the answers are worth. */
#include "bench/harness/lane_parts.h"

#include <string.h>

#include "pool/base/clock.h"

size_t
wp_lane_claim_id(uint32_t tag, uint32_t phase, uint64_t number,
                 char out[WP_LANE_ID_MAX])
{
    static const char digits[] = "0123456789abcdef";
    static const char form[] = "load-00000000-0000-000000000000";
    const size_t len = sizeof form - 1;

    memcpy(out, form, sizeof form);
    for (size_t i = 13; i > 5; i--, tag >>= 4) {
        out[i - 1] = digits[tag & 15];
    }
    for (size_t i = 18; i > 14; i--, phase >>= 4) {
        out[i - 1] = digits[phase & 15];
    }
    for (size_t i = len; i > 19; i--, number >>= 4) {
        out[i - 1] = digits[number & 15];
    }
    return len;
}

struct wp_str
wp_lane_id_of(const struct wp_worker *worker, uint32_t i,
              char out[WP_LANE_ID_MAX])
{
    const struct wp_lane *lane = worker->lane;
    size_t len = wp_lane_claim_id(lane->config.tag, lane->config.phase,
                                  worker->number * lane->batch + i, out);

    return (struct wp_str){out, len};
}

static void
become_idle(struct wp_worker *worker)
{
    struct wp_lane *lane = worker->lane;

    lane->active--;
    lane->idle[lane->n_idle++] = worker;
}

/* A claim and all that follows from it is over. */
static void
finish(struct wp_worker *worker)
{
    struct wp_lane *lane = worker->lane;

    if (lane->plan->pause_ns > 0 && !lane->draining) {
        worker->due_ns = lane->now_ns + lane->plan->pause_ns;
        wp_list_push_back(&lane->pausing, &worker->link);
    } else {
        become_idle(worker);
    }
}

/* Queues the call. False: nobody takes it, and the lane ends it. */
static bool
send_call(struct wp_worker *worker, struct wp_list *list)
{
    struct wp_lane *lane = worker->lane;
    bool sent = lane->carrier->start(worker);

    worker->sent_ns = lane->now_ns;
    lane->under_way++;
    wp_list_push_back(sent ? list : &lane->unsent, &worker->link);
    return sent;
}

static void
count_sent(struct wp_worker *worker)
{
    struct wp_lane *lane = worker->lane;
    uint32_t in_flight = lane->active * lane->batch;

    if (in_flight > lane->tally->in_flight_max) {
        lane->tally->in_flight_max = in_flight;
    }
    if (worker->counted) {
        wp_hist_record(&lane->tally->late, lane->now_ns - worker->due_ns);
    }
}

void
wp_lane_start_release(struct wp_worker *worker)
{
    struct wp_lane *lane = worker->lane;

    worker->releasing = true;
    (void)send_call(worker, &lane->releasing);
}

/* --- What became of a claim. --- */

uint64_t
wp_lane_name_hash(const struct wp_lane *lane, struct wp_str sandbox)
{
    return wp_siphash128(lane->config.key, sandbox.ptr, sandbox.len).low;
}

void
wp_lane_record(struct wp_worker *worker, uint32_t i, unsigned code,
               unsigned served, int64_t done_ns)
{
    struct wp_lane *lane = worker->lane;
    struct wp_tally *tally = lane->tally;
    int64_t latency_ns = done_ns - worker->due_ns;
    struct wp_slice *slice;
    struct wp_record *record;

    if (!worker->counted) {
        return;
    }
    if (done_ns - lane->zero_ns > tally->elapsed_ns) {
        tally->elapsed_ns = done_ns - lane->zero_ns;
    }
    slice = wp_slices_at(&tally->slices, done_ns - lane->zero_ns);
    if (code == 0) {
        tally->granted++;
        tally->served[served & 3]++;
        wp_hist_record(&tally->claim, latency_ns);
        wp_hist_record(&tally->service, done_ns - worker->sent_ns);
        slice->granted++;
        slice->warm += served == 1;
        wp_slice_record(slice, latency_ns);
    } else {
        tally->failed[code]++;
        slice->failed++;
    }
    record = wp_tally_record(tally, lane->plan->kept);
    if (record != NULL) {
        *record = (struct wp_record){
            .due_ns = worker->due_ns - lane->zero_ns,
            .sent_ns = worker->sent_ns - lane->zero_ns,
            .acked_ns =
                worker->acked_ns != 0 ? worker->acked_ns - lane->zero_ns : -1,
            .done_ns = done_ns - lane->zero_ns,
            .released_ns = -1,
            .number = worker->number * lane->batch + i,
            .tenant = lane->plan->tenants > 0
                          ? (uint32_t)(worker->number % lane->plan->tenants)
                          : 0,
            .code = (uint8_t)code,
            .served = (uint8_t)(served & 3),
        };
        if (i == 0) {
            worker->record = (int64_t)(tally->n_records - 1);
        }
    }
}

/* Leases to release: now, later or at the end. */
static void
go_on(struct wp_worker *worker)
{
    struct wp_lane *lane = worker->lane;

    if (worker->n_tokens == 0 || lane->plan->leave) {
        finish(worker);
    } else if (lane->plan->keep &&
               !(lane->draining && wp_list_empty(&lane->claiming))) {
        lane->active--;
        wp_list_push_back(&lane->kept, &worker->link);
    } else if (lane->plan->hold_ns > 0 && !lane->draining) {
        worker->due_ns = lane->now_ns + lane->plan->hold_ns;
        wp_list_push_back(&lane->holding, &worker->link);
    } else {
        wp_lane_start_release(worker);
    }
}

/* False: a call has to be made. */
static bool
claim_ahead(struct wp_worker *worker)
{
    struct wp_lane *lane = worker->lane;

    if (lane->stock == NULL) {
        return false;
    }
    worker->sent_ns = wp_lane_now_ns();
    if (!lane->carrier->take_ahead(worker)) {
        return false;
    }
    if (worker->counted) {
        wp_hist_record(&lane->tally->late, worker->sent_ns - worker->due_ns);
    }
    go_on(worker);
    return true;
}

void
wp_lane_start_claim(struct wp_lane *lane, int64_t due_ns, uint64_t number)
{
    struct wp_worker *worker = lane->idle[--lane->n_idle];

    lane->active++;
    worker->due_ns = due_ns;
    worker->number = number;
    worker->counted = due_ns >= lane->zero_ns;
    worker->releasing = false;
    worker->n_tokens = 0;
    worker->record = -1;
    if (worker->counted) {
        lane->tally->due += lane->batch;
        wp_slices_at(&lane->tally->slices, due_ns - lane->zero_ns)->due +=
            lane->batch;
    }
    worker->acked_ns = 0;
    if (claim_ahead(worker)) {
        return;
    }
    if (send_call(worker, &lane->claiming)) {
        count_sent(worker);
    }
}

static void
release_over(struct wp_worker *worker, unsigned code, int64_t done_ns)
{
    struct wp_lane *lane = worker->lane;
    struct wp_tally *tally = lane->tally;
    bool was_held = true;

    if (code != 0) {
        tally->releases_failed++;
    } else if (!lane->carrier->read_release(worker, &was_held)) {
        tally->bad_answers++;
    } else if (!was_held) {
        tally->lost++;
    }
    if (code == 0 && worker->counted) {
        tally->releases++;
        wp_hist_record(&tally->release, done_ns - worker->sent_ns);
        if (worker->record >= 0) {
            tally->records[worker->record].released_ns =
                done_ns - lane->zero_ns;
        }
    }
    worker->n_tokens--;
    if (worker->n_tokens > 0) {
        wp_lane_start_release(worker);
    } else {
        finish(worker);
    }
}

void
wp_lane_call_over(struct wp_worker *worker, unsigned code)
{
    struct wp_lane *lane = worker->lane;

    lane->under_way--;
    wp_list_remove(&worker->link);
    lane->tally->calls += code != WP_TALLY_NO_ANSWER;
    if (worker->releasing) {
        release_over(worker, code, lane->now_ns);
        return;
    }
    if (code == 0) {
        lane->carrier->read_claim(worker, lane->now_ns);
    } else {
        for (uint32_t i = 0; i < lane->batch; i++) {
            wp_lane_record(worker, i, code, 0, lane->now_ns);
        }
    }
    go_on(worker);
}
