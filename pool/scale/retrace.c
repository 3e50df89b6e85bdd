#include "pool/scale/retrace.h"

#include "pool/base/clock.h"

/* More than any pool may have. */
#define ROOM (1U << 30)

struct run {
    const struct wp_retrace *retrace;
    struct wp_scaler *scaler;
    int64_t next_ns; /* Wall, as all times here. */
    uint32_t asked;  /* Moments of retrace->asked_wall_ns so far. */
};

static void
decide(struct run *run, int64_t at_ns)
{
    const struct wp_retrace *retrace = run->retrace;
    const struct wp_scale_view view = {
        .mono_ns = at_ns - retrace->begin_wall_ns,
        .wall_ns = at_ns,
        .replicas = retrace->replicas,
        .room = ROOM,
        .budget = UINT32_MAX,
    };
    int64_t next_ns = WP_TIME_NEVER;
    struct wp_scale_decision decision =
        wp_scaler_decide(run->scaler, &view, &next_ns);

    run->next_ns = next_ns == WP_TIME_NEVER
                       ? WP_TIME_NEVER
                       : wp_time_add(retrace->begin_wall_ns, next_ns);
    if (run->next_ns <= at_ns) {
        run->next_ns = at_ns + WP_SCALE_QUANTUM_NS;
    }
    retrace->decided(retrace->ctx, &decision);
}

/* The next moment at which it was asked without an event. */
static int64_t
next_ask_ns(const struct run *run)
{
    const struct wp_retrace *retrace = run->retrace;
    int64_t asked_ns = run->asked < retrace->n_asked
                           ? retrace->asked_wall_ns[run->asked]
                           : WP_TIME_NEVER;

    return asked_ns < run->next_ns ? asked_ns : run->next_ns;
}

/* What was asked before at_ns. */
static void
decide_until(struct run *run, int64_t at_ns)
{
    const struct wp_retrace *retrace = run->retrace;

    while (next_ask_ns(run) < at_ns) {
        int64_t ask_ns = next_ask_ns(run);

        while (run->asked < retrace->n_asked &&
               retrace->asked_wall_ns[run->asked] <= ask_ns) {
            run->asked++;
        }
        decide(run, ask_ns);
    }
}

static void
tell(struct run *run, const struct wp_history_event *event)
{
    int64_t mono_ns = event->wall_ns - run->retrace->begin_wall_ns;

    switch (event->kind) {
    case WP_HISTORY_CLAIMS:
        if (event->n > 0) {
            wp_scaler_on_claims(run->scaler, mono_ns, event->n, event->missed);
        }
        break;
    case WP_HISTORY_READY:
        wp_scaler_on_ready(run->scaler, mono_ns, event->lead_ns);
        break;
    case WP_HISTORY_GAP:
        break;
    }
}

enum wp_status
wp_retrace_run(const struct wp_retrace *retrace, struct wp_err *err)
{
    struct run run = {.retrace = retrace, .next_ns = retrace->begin_wall_ns};
    struct wp_history_cursor cursor;
    struct wp_history_event event;
    int64_t told_ns = -1;

    run.scaler =
        wp_scaler_create(retrace->miss, retrace->replicas,
                         retrace->prior_lead_ns, 0, retrace->begin_wall_ns);
    if (run.scaler == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "retrace: no memory");
    }
    wp_scaler_set_policy(run.scaler, retrace->policy);
    wp_history_first(retrace->history, &cursor);
    while (wp_history_next(&cursor, &event)) {
        if (told_ns >= 0 && event.wall_ns > told_ns) {
            decide(&run, told_ns);
        }
        decide_until(&run, event.wall_ns);
        tell(&run, &event);
        told_ns = event.wall_ns;
    }
    if (told_ns >= 0) {
        decide(&run, told_ns);
    }
    decide_until(&run, retrace->end_wall_ns);
    wp_scaler_destroy(run.scaler);
    return WP_OK;
}
