#include "pool/scale/scaler.h"

#include <math.h>
#include <stdlib.h>

#include "pool/base/extreme.h"
#include "pool/scale/scaler_impl.h"

/* Claims after which the memory of hits and misses has halved. */
static const double SEEN_HALF_LIFE = 20000;
/* Gaps after which half of a new mean is believed. */
static const double GAP_SHARE = 1.0 / 16;

struct wp_scaler *
wp_scaler_create(enum wp_miss miss, uint32_t replicas, int64_t prior_lead_ns,
                 int64_t mono_ns, int64_t wall_ns)
{
    struct wp_scaler *scaler = calloc(1, sizeof *scaler);

    if (scaler == NULL) {
        return NULL;
    }
    scaler->miss = miss;
    scaler->prior_lead_ns = prior_lead_ns > 0 ? prior_lead_ns : 0;
    scaler->offset_ns = wp_scaler_floor_ns(mono_ns);
    scaler->wall_ns = wp_scaler_floor_ns(wall_ns);
    scaler->replicas = replicas;
    scaler->replicas_known = true;
    scaler->target = replicas;
    scaler->due_ns = WP_TIME_NEVER;
    scaler->fresh = true;
    scaler->view = (struct wp_scale_view){
        .replicas = replicas, .room = UINT32_MAX, .budget = UINT32_MAX};
    scaler->shown.target = replicas;
    wp_scale_policy_init(&scaler->policy);
    wp_lead_time_init(&scaler->lead);
    wp_windows_init(&scaler->windows, scaler->now_ns,
                    wp_lead_time_mean_s(&scaler->lead, prior_lead_ns));
    wp_need_init(&scaler->need, scaler->now_ns,
                 wp_lead_time_mean_s(&scaler->lead, scaler->prior_lead_ns));
    wp_reservations_init(&scaler->reservations);
    wp_hold_init(&scaler->hold, scaler->policy.down_window_ns);
    /* What the pool had so far stays for a first window. */
    wp_hold_need(&scaler->hold, scaler->now_ns, replicas);
    return scaler;
}

void
wp_scaler_destroy(struct wp_scaler *scaler)
{
    if (scaler != NULL) {
        wp_reservations_fini(&scaler->reservations);
        free(scaler->learn);
        free(scaler->kept);
        free(scaler);
    }
}

void
wp_scaler_set_policy(struct wp_scaler *scaler,
                     const struct wp_scale_policy *policy)
{
    if (wp_scale_policy_eq(&scaler->policy, policy)) {
        return;
    }
    if (policy->down_window_ns != scaler->policy.down_window_ns) {
        wp_hold_set_window(&scaler->hold, scaler->now_ns,
                           policy->down_window_ns);
    }
    /* The first policy finds the replicas the scaler was created with. */
    scaler->replicas_known =
        scaler->policy.objective == WP_SCALE_PLAIN && !scaler->decided;
    scaler->by_hand = false;
    if (policy->objective != scaler->policy.objective ||
        policy->hit_rate > scaler->policy.hit_rate) {
        scaler->theory_slack_log = 0;
    }
    scaler->policy = *policy;
    scaler->fresh = true;
}

const struct wp_scale_policy *
wp_scaler_policy(const struct wp_scaler *scaler)
{
    return &scaler->policy;
}

static void
go_to(struct wp_scaler *scaler, int64_t own_ns)
{
    scaler->wall_ns = wp_time_add(scaler->wall_ns, own_ns - scaler->now_ns);
    scaler->now_ns = own_ns;
}

/* On the scaler's clock, which does not go back. */
static int64_t
own_of(const struct wp_scaler *scaler, int64_t mono_ns)
{
    /* Unsigned: outside numbers must not overflow. */
    uint64_t passed_ns = (uint64_t)wp_scaler_floor_ns(mono_ns) -
                         (uint64_t)scaler->offset_ns - (uint64_t)scaler->now_ns;

    return passed_ns <= (uint64_t)WP_SCALER_PASS_MAX_NS
               ? wp_time_add(scaler->now_ns, (int64_t)passed_ns)
               : scaler->now_ns;
}

int64_t
wp_scaler_mono_ns(const struct wp_scaler *scaler, int64_t own_ns)
{
    if (own_ns == WP_TIME_NEVER ||
        own_ns > INT64_MAX - llabs(scaler->offset_ns)) {
        return WP_TIME_NEVER;
    }
    return own_ns + scaler->offset_ns;
}

void
wp_scaler_go_on(struct wp_scaler *scaler, int64_t mono_ns)
{
    go_to(scaler, own_of(scaler, mono_ns));
}

/* False: it was not far off. */
static bool
follow_wall(struct wp_scaler *scaler, int64_t wall_ns)
{
    int64_t now_ns = wp_scaler_floor_ns(wall_ns);

    /* Neither is negative. */
    if (llabs(now_ns - scaler->wall_ns) < WP_SCALE_WALL_SLACK_NS) {
        return false;
    }
    scaler->wall_ns = now_ns;
    return true;
}

unsigned
wp_scaler_pass(struct wp_scaler *scaler, int64_t mono_ns, int64_t wall_ns)
{
    int64_t own_ns = own_of(scaler, mono_ns);
    /* Whoever asks late has not looked meanwhile (a replica that did not keep
     * the pool): what it would have decided is not made up. */
    bool late = own_ns > wp_time_add(scaler->due_ns, WP_SCALE_LATE_NS);
    bool clock;

    while (!late && scaler->due_ns <= own_ns) {
        if (scaler->due_ns > scaler->now_ns) {
            go_to(scaler, scaler->due_ns);
        }
        wp_scaler_step(scaler);
    }
    go_to(scaler, own_ns);
    if (late) {
        scaler->due_ns = WP_TIME_NEVER;
    }
    clock = follow_wall(scaler, wall_ns);
    scaler->fresh = scaler->fresh || late || clock;
    return (late ? WP_SCALE_PASSED_LATE : 0U) |
           (clock ? WP_SCALE_PASSED_CLOCK : 0U);
}

int64_t
wp_scaler_due_ns(const struct wp_scaler *scaler)
{
    return wp_scaler_mono_ns(scaler, scaler->due_ns);
}

int64_t
wp_scaler_wall_ns(const struct wp_scaler *scaler)
{
    return scaler->wall_ns;
}

/* Who wrote spec.replicas? */
static void
see_replicas(struct wp_scaler *scaler, uint32_t replicas)
{
    if (!scaler->replicas_known) {
        scaler->replicas = replicas;
        scaler->replicas_known = true;
    }
    if (replicas != scaler->replicas) {
        scaler->by_hand = true;
        scaler->replicas = replicas;
    }
}

struct wp_scale_decision
wp_scaler_decide(struct wp_scaler *scaler, const struct wp_scale_view *view,
                 int64_t *next_ns)
{
    bool fresh;

    (void)wp_scaler_pass(scaler, view->mono_ns, view->wall_ns);
    fresh = scaler->fresh || view->replicas != scaler->replicas ||
            !scaler->replicas_known;
    scaler->view = *view;
    if (fresh) {
        see_replicas(scaler, view->replicas);
        wp_scaler_step(scaler);
    } else {
        wp_scaler_show(scaler, false);
    }
    *next_ns = wp_scaler_due_ns(scaler);
    return scaler->shown;
}

/* Of n claims those that nobody announced. Announced demand comes on top of
 * what comes anyway: so many as that would bring are not counted as announced.
 */
static uint32_t
not_announced(struct wp_scaler *scaler, uint32_t n)
{
    double before_s =
        (double)(scaler->now_ns - scaler->background_ns) / WP_NS_PER_S;
    uint32_t usual;
    uint32_t used;

    if (scaler->reservations.n == 0) {
        return n;
    }
    scaler->background +=
        before_s * wp_window_rate(&scaler->windows, WP_WINDOWS / 2);
    usual = scaler->background < n ? (uint32_t)scaler->background : n;
    used = wp_reservations_use(
        &scaler->reservations, scaler->wall_ns,
        (int64_t)(wp_lead_time_mean_s(&scaler->lead, scaler->prior_lead_ns) *
                  WP_NS_PER_S),
        n - usual);
    scaler->background = fmax(scaler->background - (n - used), 0);
    return n - used;
}

static void
see_outcome(struct wp_scaler *scaler, uint32_t n, uint32_t missed)
{
    double keep = exp2(-(double)n / SEEN_HALF_LIFE);

    scaler->claims_seen = scaler->claims_seen * keep + n;
    scaler->missed_seen =
        scaler->missed_seen * keep + (missed < n ? missed : n);
}

static void
see_gap(struct wp_scaler *scaler, uint32_t n)
{
    double gap_s =
        (double)(scaler->now_ns - scaler->last_claim_ns) / WP_NS_PER_S;

    scaler->gap_s = scaler->claims == 0
                        ? gap_s
                        : scaler->gap_s + (gap_s - scaler->gap_s) * GAP_SHARE;
    if (scaler->claims > 0) {
        wp_gaps_add(&scaler->gaps, gap_s, n);
    }
    scaler->last_claim_ns = scaler->now_ns;
}

void
wp_scaler_on_claims(struct wp_scaler *scaler, int64_t mono_ns, uint32_t n,
                    uint32_t missed)
{
    uint32_t counted;

    if (n == 0) {
        return;
    }
    wp_scaler_go_on(scaler, mono_ns);
    counted = not_announced(scaler, n);
    scaler->background_ns = scaler->now_ns;
    wp_windows_add(&scaler->windows, scaler->now_ns, counted);
    wp_scaler_learn_time(scaler);
    wp_scaler_learn_claims(scaler, counted, missed);
    see_outcome(scaler, n, missed);
    see_gap(scaler, n);
    scaler->claims += n;
    scaler->fresh = true;
}

void
wp_scaler_on_ready(struct wp_scaler *scaler, int64_t mono_ns, int64_t lead_ns)
{
    wp_scaler_go_on(scaler, mono_ns);
    scaler->background_ns = scaler->now_ns;
    wp_scaler_learn_time(scaler);
    wp_lead_time_add(&scaler->lead, lead_ns);
    wp_need_set_lead(&scaler->need, scaler->now_ns,
                     wp_lead_time_mean_s(&scaler->lead, 0));
    scaler->due_ns = wp_min_i64(
        scaler->due_ns, wp_time_add(scaler->now_ns, WP_SCALE_QUANTUM_NS));
}

void
wp_scaler_set_at_once(struct wp_scaler *scaler, int64_t mono_ns, uint32_t n)
{
    wp_scaler_go_on(scaler, mono_ns);
    scaler->fresh = scaler->fresh || n != scaler->at_once;
    scaler->at_once = n;
    wp_need_set_at_once(&scaler->need, n);
}

enum wp_status
wp_scaler_reserve(struct wp_scaler *scaler, struct wp_str id, uint32_t n,
                  int64_t from_wall_ns, int64_t until_wall_ns,
                  struct wp_err *err)
{
    struct wp_scale_reservation added = {.n = n,
                                         .left = n,
                                         .from_wall_ns = from_wall_ns,
                                         .until_wall_ns = until_wall_ns};
    enum wp_status status;
    uint32_t before;

    if (id.len == 0 || !wp_str_is_printable(id) ||
        !wp_str_copy(id, added.id, sizeof added.id)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "reservation id: expected 1 to 63 printable "
                          "characters, got %zu bytes",
                          id.len);
    }
    if (n == 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "reservation '%s': n must be at least 1", added.id);
    }
    if (from_wall_ns >= until_wall_ns) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "reservation '%s' ends before it begins", added.id);
    }
    if (until_wall_ns <= scaler->wall_ns) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "reservation '%s' is over already", added.id);
    }
    wp_reservations_expire(&scaler->reservations, scaler->wall_ns);
    before = scaler->reservations.n;
    status = wp_reservations_add(&scaler->reservations, &added, err);
    scaler->fresh = scaler->fresh || scaler->reservations.n != before;
    return status;
}

enum wp_status
wp_scaler_cancel(struct wp_scaler *scaler, struct wp_str id)
{
    enum wp_status status;

    wp_reservations_expire(&scaler->reservations, scaler->wall_ns);
    status = wp_reservations_remove(&scaler->reservations, id);
    scaler->fresh = scaler->fresh || status == WP_OK;
    return status;
}

bool
wp_scaler_reservation(const struct wp_scaler *scaler, uint32_t i,
                      struct wp_scale_reservation *out)
{
    for (uint32_t at = 0; at < scaler->reservations.n; at++) {
        if (scaler->reservations.all[at].until_wall_ns <= scaler->wall_ns) {
            continue;
        }
        if (i == 0) {
            *out = scaler->reservations.all[at];
            return true;
        }
        i--;
    }
    return false;
}

double
wp_scaler_hit_rate_seen(const struct wp_scaler *scaler)
{
    return scaler->claims_seen > 0
               ? 1 - scaler->missed_seen / scaler->claims_seen
               : NAN;
}
