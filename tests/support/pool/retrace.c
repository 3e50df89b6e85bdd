#include "tests/support/pool/retrace.h"

#include <stdio.h>
#include <stdlib.h>

#include "pool/base/clock.h"

/* More than any pool may have. */
#define ROOM (1U << 30)

struct run {
    const struct wp_retrace *retrace;
    struct wp_scaler *scaler; /* Owned; NULL before the first beginning. */
    uint64_t told;            /* Number of the latest decision told. */
    uint32_t replicas;
    uint32_t reserved; /* So far; names the next reservation. */
    int64_t now_ns;
    int64_t wall_off_ns; /* The wall is so far ahead of the history's time. */
    /* Where the clock that only goes on was left behind: time was not. */
    int64_t gap_ns;
    int64_t skipped_ns;
    bool in_gap;
    /* What was known at the last gap, as it was saved. */
    uint8_t *saved; /* Owned. */
    size_t saved_len;
};

static void
tell(struct run *run)
{
    struct wp_scale_decision decision;

    if (wp_scaler_kept(run->scaler, 0, &decision) &&
        decision.number != run->told) {
        run->told = decision.number;
        run->retrace->decided(run->retrace->ctx, &decision);
    }
}

static void
pass(struct run *run, int64_t now_ns)
{
    (void)wp_scaler_pass(run->scaler, now_ns, now_ns + run->wall_off_ns);
    tell(run);
}

/* What the scaler did by itself until then. */
static void
pass_until(struct run *run, int64_t now_ns)
{
    while (wp_scaler_due_ns(run->scaler) <= now_ns) {
        pass(run, wp_scaler_due_ns(run->scaler));
    }
    pass(run, now_ns);
}

static void
decide(struct run *run)
{
    const struct wp_scale_view view = {
        .mono_ns = run->now_ns,
        .wall_ns = run->now_ns + run->wall_off_ns,
        .replicas = run->replicas,
        .room = ROOM,
        .budget = UINT32_MAX,
    };
    int64_t next_ns;

    (void)wp_scaler_decide(run->scaler, &view, &next_ns);
    tell(run);
}

static enum wp_status
begin(struct run *run, const struct wp_history_event *event, struct wp_err *err)
{
    const struct wp_retrace *retrace = run->retrace;

    wp_scaler_destroy(run->scaler);
    run->told = 0;
    run->replicas = event->n;
    run->wall_off_ns = event->clock_ns - run->now_ns;
    run->scaler =
        wp_scaler_create(retrace->miss, event->n, retrace->prior_lead_ns,
                         run->now_ns, event->clock_ns);
    return run->scaler != NULL
               ? WP_OK
               : wp_err_set(err, WP_RESOURCE_EXHAUSTED, "retrace: no memory");
}

static enum wp_status
set_policy(struct run *run, const struct wp_history_event *event,
           struct wp_err *err)
{
    const struct wp_scale_policy *policy = run->retrace->policy;
    struct wp_scale_policy plain;

    if (event->n != (uint32_t)wp_scaler_policy_print(policy)) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "retrace: the pool had another policy than this one");
    }
    /* Said again it takes the pool back from who scales it by hand. */
    wp_scale_policy_init(&plain);
    wp_scaler_set_policy(run->scaler, &plain);
    wp_scaler_set_policy(run->scaler, policy);
    return WP_OK;
}

/* What comes next may begin with what is known now. */
static enum wp_status
save(struct run *run, struct wp_err *err)
{
    if (run->saved == NULL) {
        run->saved = malloc(WP_SCALE_STATE_MAX);
    }
    if (run->saved == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "retrace: no memory");
    }
    run->saved_len =
        wp_scaler_save(run->scaler, run->now_ns, wp_scaler_wall_ns(run->scaler),
                       run->saved, WP_SCALE_STATE_MAX);
    return WP_OK;
}

static enum wp_status
restore(struct run *run, const struct wp_history_event *event,
        struct wp_err *err)
{
    if (event->n != 0 || run->saved_len == 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "retrace: what the scaler took over is not in the "
                          "record");
    }
    return wp_scaler_load(run->scaler, run->now_ns,
                          wp_scaler_wall_ns(run->scaler), run->saved,
                          run->saved_len, err);
}

static enum wp_status
reserve(struct run *run, const struct wp_history_event *event,
        struct wp_err *err)
{
    char id[16];
    int len = snprintf(id, sizeof id, "r%u", run->reserved++);

    return wp_scaler_reserve(run->scaler, (struct wp_str){id, (size_t)len},
                             event->n, event->from_ns, event->until_ns, err);
}

static enum wp_status
cancel(struct run *run, const struct wp_history_event *event,
       struct wp_err *err)
{
    struct wp_scale_reservation reservation;

    if (!wp_scaler_reservation(run->scaler, event->n, &reservation) ||
        wp_scaler_cancel(run->scaler, wp_str_from(reservation.id)) != WP_OK) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "retrace: a reservation that is cancelled is not in "
                          "the record");
    }
    return WP_OK;
}

/* One event, at run->now_ns. */
static enum wp_status
take(struct run *run, const struct wp_history_event *event, struct wp_err *err)
{
    switch (event->kind) {
    case WP_HISTORY_CLAIMS:
        if (event->n > 0) {
            wp_scaler_on_claims(run->scaler, run->now_ns, event->n,
                                event->missed);
            decide(run);
        }
        return WP_OK;
    case WP_HISTORY_READY:
        wp_scaler_on_ready(run->scaler, run->now_ns, event->lead_ns);
        return WP_OK;
    case WP_HISTORY_POLICY:
        return set_policy(run, event, err);
    case WP_HISTORY_REPLICAS:
        run->replicas = event->n;
        return WP_OK;
    case WP_HISTORY_AT_ONCE:
        wp_scaler_set_at_once(run->scaler, run->now_ns, event->n);
        return WP_OK;
    case WP_HISTORY_CLOCK:
        run->wall_off_ns = event->clock_ns - run->now_ns;
        pass(run, run->now_ns);
        return WP_OK;
    case WP_HISTORY_RESTORED:
        return restore(run, event, err);
    case WP_HISTORY_RESERVED:
        return reserve(run, event, err);
    case WP_HISTORY_CANCELLED:
        return cancel(run, event, err);
    case WP_HISTORY_STEP:
        decide(run);
        return WP_OK;
    case WP_HISTORY_GAP:
    case WP_HISTORY_BEGIN:
    case WP_HISTORY_UNSEEN:
    case WP_HISTORY_KIND_COUNT:
        break;
    }
    return WP_OK;
}

/* What comes behind a gap tells what it was: a daemon that begins takes over
 * what was known at the gap; else the history leaps because the wall did, and
 * the other clock went on. */
static enum wp_status
end_gap(struct run *run, const struct wp_history_event *event,
        struct wp_err *err)
{
    run->in_gap = false;
    if (event->kind != WP_HISTORY_BEGIN) {
        run->skipped_ns += event->wall_ns - run->gap_ns;
        return WP_OK;
    }
    if (run->scaler == NULL) {
        return WP_OK;
    }
    run->now_ns = run->gap_ns - run->skipped_ns;
    pass_until(run, run->now_ns);
    return save(run, err);
}

/* Any event but a gap. */
static enum wp_status
see(struct run *run, const struct wp_history_event *event, struct wp_err *err)
{
    enum wp_status status = run->in_gap ? end_gap(run, event, err) : WP_OK;

    run->now_ns = event->wall_ns - run->skipped_ns;
    if (status != WP_OK) {
        return status;
    }
    if (event->kind == WP_HISTORY_BEGIN) {
        return begin(run, event, err);
    }
    if (run->scaler == NULL) {
        return WP_OK;
    }
    if (event->kind == WP_HISTORY_UNSEEN) {
        pass_until(run, run->now_ns - event->n * WP_SCALE_QUANTUM_NS);
        pass(run, run->now_ns);
        return WP_OK;
    }
    pass_until(run, run->now_ns);
    return take(run, event, err);
}

enum wp_status
wp_retrace_run(const struct wp_retrace *retrace, struct wp_err *err)
{
    struct run run = {.retrace = retrace};
    struct wp_history_cursor cursor;
    struct wp_history_event event;
    enum wp_status status = WP_OK;

    wp_history_first(retrace->history, &cursor);
    while (status == WP_OK && wp_history_next(&cursor, &event)) {
        if (event.kind == WP_HISTORY_GAP) {
            run.in_gap = true;
            run.gap_ns = event.wall_ns;
        } else {
            status = see(&run, &event, err);
        }
    }
    if (status == WP_OK && run.scaler == NULL) {
        status = wp_err_set(err, WP_FAILED_PRECONDITION,
                            "retrace: the record has no beginning any more");
    }
    if (status == WP_OK && retrace->end_ns > run.now_ns) {
        pass_until(&run, retrace->end_ns);
    }
    wp_scaler_destroy(run.scaler);
    free(run.saved);
    return status;
}
