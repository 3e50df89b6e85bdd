/* pool/scale/scaler_state.c - what was learned, as bytes and back.
 *
 *   magic u32, version u32, wall clock i64, fields, what was learned,
 *   reservations
 *
 * All little-endian; doubles by their bits. One walk over the fields serves
 * both directions, so that they cannot disagree. What is read goes into a copy
 * that is looked through before it counts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/siphash.h"
#include "pool/scale/scaler.h"
#include "pool/scale/scaler_impl.h"

enum {
    MAGIC = 0x53617057, /* "WpaS" */
    VERSION = 9,
    VERSION_BEFORE = 8, /* Read, too: it ends in a sum of its own. */
    SUM_BEFORE = 8,
    CELLS = WP_LEARN_STATES * WP_LEARN_BINS,
};

#define HEAD(version) ((uint64_t)(version) << 32 | MAGIC)

/* The same in all versions: it tells whether a size that was set by hand still
 * counts. No secret. */
static const struct wp_hash_key print_key = {0x7761726d706f6f6c, MAGIC};

static const double LEAD_MAX_S = 1e8; /* Three years. */

/* Writes when out is there, or only counts; reads when in is there. */
struct codec {
    uint8_t *out;
    const uint8_t *in;
    size_t len; /* Of in. */
    size_t at;
    bool bad; /* Read beyond the end. */
};

static void
code_bytes(struct codec *codec, uint8_t *bytes, size_t n)
{
    if (codec->in != NULL) {
        if (codec->len - codec->at < n) {
            codec->bad = true;
            memset(bytes, 0, n);
            return;
        }
        memcpy(bytes, codec->in + codec->at, n);
    } else if (codec->out != NULL) {
        memcpy(codec->out + codec->at, bytes, n);
    }
    codec->at += n;
}

/* The lowest n bytes of *value. */
static void
code_uint(struct codec *codec, uint64_t *value, unsigned n)
{
    uint8_t bytes[8];

    for (unsigned i = 0; i < n; i++) {
        bytes[i] = (uint8_t)(*value >> (8 * i));
    }
    code_bytes(codec, bytes, n);
    *value = 0;
    for (unsigned i = 0; i < n; i++) {
        *value |= (uint64_t)bytes[i] << (8 * i);
    }
}

static void
code_u64(struct codec *codec, uint64_t *value)
{
    code_uint(codec, value, 8);
}

static void
code_i64(struct codec *codec, int64_t *value)
{
    uint64_t bits = (uint64_t)*value;

    code_u64(codec, &bits);
    *value = (int64_t)bits;
}

static void
code_u32(struct codec *codec, uint32_t *value)
{
    uint64_t bits = *value;

    code_uint(codec, &bits, 4);
    *value = (uint32_t)bits;
}

static void
code_bool(struct codec *codec, bool *value)
{
    uint64_t bits = *value ? 1 : 0;

    code_uint(codec, &bits, 1);
    codec->bad = codec->bad || bits > 1;
    *value = bits == 1;
}

/* Everything that is learned is a number of 0 or more. */
static void
code_double(struct codec *codec, double *value)
{
    uint64_t bits;

    memcpy(&bits, value, sizeof bits);
    code_u64(codec, &bits);
    memcpy(value, &bits, sizeof bits);
    codec->bad = codec->bad || !(*value >= 0) || !isfinite(*value);
}

static void
code_signed(struct codec *codec, double *value)
{
    double magnitude = fabs(*value);
    bool negative = *value < 0;

    code_double(codec, &magnitude);
    code_bool(codec, &negative);
    *value = negative ? -magnitude : magnitude;
}

static void
code_doubles(struct codec *codec, double *values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        code_double(codec, &values[i]);
    }
}

static void
code_states(struct codec *codec, uint8_t *states, size_t n)
{
    code_bytes(codec, states, n);
    for (size_t i = 0; i < n; i++) {
        codec->bad = codec->bad || states[i] >= WP_LEARN_STATES;
        states[i] %= WP_LEARN_STATES;
    }
}

static void
code_bursts(struct codec *codec, struct wp_bursts *bursts)
{
    code_u32(codec, &bursts->n);
    codec->bad = codec->bad || bursts->n > WP_BURSTS;
    for (uint32_t i = 0; i < bursts->n && !codec->bad; i++) {
        code_i64(codec, &bursts->of[i].began_ns);
        code_u32(codec, &bursts->of[i].needed);
        code_double(codec, &bursts->of[i].missed);
    }
    code_i64(codec, &bursts->latest_ns);
}

static void
code_learned(struct codec *codec, struct wp_scaler *scaler)
{
    code_doubles(codec, scaler->windows.count, WP_WINDOWS);
    code_doubles(codec, scaler->windows.seen, WP_WINDOWS);
    code_i64(codec, &scaler->windows.at_ns);

    code_doubles(codec, scaler->lead.weight, WP_LEAD_BINS);
    code_double(codec, &scaler->lead.sum_s);
    code_double(codec, &scaler->lead.total);
    code_double(codec, &scaler->lead.unit);
    code_u64(codec, &scaler->lead.measured);
    code_double(codec, &scaler->lead.long_sum_s);
    code_double(codec, &scaler->lead.long_sum_s2);
    code_double(codec, &scaler->lead.long_total);

    code_i64(codec, &scaler->need.slot_ns);
    code_u32(codec, &scaler->need.n_slots);
    code_i64(codec, &scaler->need.slot);
    for (unsigned i = 0; i < WP_NEED_SLOTS; i++) {
        code_u32(codec, &scaler->need.count[i]);
        code_u32(codec, &scaler->need.plan[i]);
    }
    code_bytes(codec, scaler->need.most, sizeof scaler->need.most);
    code_states(codec, scaler->need.state, sizeof scaler->need.state);

    code_double(codec, &scaler->trial.claims);
    code_double(codec, &scaler->trial.missed);
    code_double(codec, &scaler->trial.episodes);
    code_double(codec, &scaler->trial.since_s);
    code_double(codec, &scaler->trial.apart_s);
    code_bursts(codec, &scaler->bursts);
    code_bool(codec, &scaler->need.due);
    code_u32(codec, &scaler->theory_stock);
    code_i64(codec, &scaler->solve_at_ns);
    code_signed(codec, &scaler->slack_log);
    code_double(codec, &scaler->slack_allowed);
    code_signed(codec, &scaler->theory_slack_log);
}

static unsigned
count_cells(const struct wp_learn *learn)
{
    unsigned n = 0;

    for (unsigned i = 0; i < CELLS; i++) {
        n += (&learn->claims[0][0])[i] > 0 || (&learn->seconds[0][0])[i] > 0;
    }
    return n;
}

static void
code_float(struct codec *codec, float *value)
{
    uint32_t bits;

    memcpy(&bits, value, sizeof bits);
    code_u32(codec, &bits);
    memcpy(value, &bits, sizeof bits);
    if (!(*value >= 0) || !(*value < 1e30F)) {
        codec->bad = true;
        *value = 0;
    }
}

/* The cell at *i, which is written: the next one that is not empty. */
static void
code_cell(struct codec *codec, struct wp_learn *learn, uint64_t *i)
{
    float *claims = &learn->claims[0][0];
    float *seconds = &learn->seconds[0][0];

    while (codec->in == NULL && !(claims[*i] > 0) && !(seconds[*i] > 0)) {
        (*i)++;
    }
    code_uint(codec, i, 2);
    if (codec->bad || *i >= CELLS) {
        codec->bad = true;
        return;
    }
    code_float(codec, &claims[*i]);
    code_float(codec, &seconds[*i]);
    (*i)++;
}

/* Only cells that hold anything: a few hundred of the 3584. */
static void
code_table(struct codec *codec, struct wp_learn *learn)
{
    uint32_t n = codec->in == NULL ? count_cells(learn) : 0;
    uint64_t at = 0;

    code_double(codec, &learn->unit);
    code_double(codec, &learn->worth_s);
    code_double(codec, &learn->grouped_claims);
    code_double(codec, &learn->grouped_s);
    code_double(codec, &learn->missed);
    code_double(codec, &learn->idle);
    code_states(codec, learn->group, WP_LEARN_STATES);
    for (unsigned i = 0; i < WP_LEARN_STATES; i++) {
        code_u32(codec, &learn->stock[i]);
    }
    code_u32(codec, &n);
    for (uint32_t i = 0; i < n && !codec->bad; i++) {
        code_cell(codec, learn, &at);
    }
}

/* What was learned, if anything was. Owned by who reads. */
static void
code_learn(struct codec *codec, struct wp_learn **learn)
{
    bool there = *learn != NULL;

    code_bool(codec, &there);
    if (codec->in != NULL) {
        *learn = there && !codec->bad ? malloc(sizeof **learn) : NULL;
        if (*learn != NULL) {
            wp_learn_init(*learn);
        } else if (there) {
            codec->bad = true;
        }
    }
    if (*learn != NULL) {
        code_table(codec, *learn);
    }
}

static void
code_decided(struct codec *codec, struct wp_scaler *scaler)
{
    uint32_t reason = scaler->reason;

    for (unsigned i = 0; i < WP_HOLD_PARTS; i++) {
        code_u32(codec, &scaler->hold.needed[i]);
    }
    code_i64(codec, &scaler->hold.part);
    code_i64(codec, &scaler->hold.part_ns);
    code_i64(codec, &scaler->hold.step_ends_ns);
    code_u32(codec, &scaler->hold.least);
    code_u32(codec, &scaler->target);
    code_bool(codec, &scaler->decided);
    code_bool(codec, &scaler->trial.failed);
    code_u64(codec, &scaler->decisions);
    code_u32(codec, &reason);
    codec->bad = codec->bad || reason >= WP_SCALE_REASON_COUNT;
    scaler->reason = (enum wp_scale_reason)reason;
}

/* policy: a print of the one that was in force. */
static void
code_fields(struct codec *codec, struct wp_scaler *scaler, uint64_t *policy)
{
    code_i64(codec, &scaler->now_ns);
    code_u64(codec, policy);
    code_u32(codec, &scaler->replicas);
    code_bool(codec, &scaler->replicas_known);
    code_bool(codec, &scaler->by_hand);
    code_double(codec, &scaler->background);
    code_u64(codec, &scaler->claims);
    code_double(codec, &scaler->claims_seen);
    code_double(codec, &scaler->missed_seen);
    code_double(codec, &scaler->gap_s);
    code_i64(codec, &scaler->last_claim_ns);
    code_double(codec, &scaler->gaps.n);
    code_double(codec, &scaler->gaps.sum_s);
    code_double(codec, &scaler->gaps.squares_s2);
    code_learned(codec, scaler);
    code_decided(codec, scaler);
    code_u32(codec, &scaler->reservations.n);
}

static void
code_reservation(struct codec *codec, struct wp_scale_reservation *one)
{
    code_bytes(codec, (uint8_t *)one->id, sizeof one->id);
    code_u32(codec, &one->n);
    code_u32(codec, &one->left);
    code_i64(codec, &one->from_wall_ns);
    code_i64(codec, &one->until_wall_ns);
}

uint64_t
wp_scaler_policy_print(const struct wp_scale_policy *policy)
{
    uint64_t print = 0;
    const char *key;

    for (unsigned i = 0; (key = wp_scale_policy_key(i)) != NULL; i++) {
        char value[WP_SCALE_VALUE_MAX];

        print = print * 31 + 1;
        if (wp_scale_policy_get(policy, wp_str_from(key), value,
                                sizeof value)) {
            print ^= wp_siphash128(print_key, value, strlen(value)).low;
        }
    }
    return print;
}

size_t
wp_scaler_save(const struct wp_scaler *scaler, int64_t mono_ns, int64_t wall_ns,
               void *out, size_t cap)
{
    struct wp_scaler copy = *scaler;
    uint64_t head = HEAD(VERSION);
    uint64_t print = wp_scaler_policy_print(&scaler->policy);
    struct codec codec = {.at = 0};

    wp_scaler_go_on(&copy, mono_ns);
    /* Once to count, once to write. */
    for (int pass = 0; pass < 2; pass++) {
        codec.at = 0;
        code_u64(&codec, &head);
        code_i64(&codec, &wall_ns);
        code_fields(&codec, &copy, &print);
        code_learn(&codec, &copy.learn);
        for (uint32_t i = 0; i < copy.reservations.n; i++) {
            struct wp_scale_reservation one = copy.reservations.all[i];

            code_reservation(&codec, &one);
        }
        if (out == NULL || codec.at > cap) {
            break;
        }
        codec.out = out;
    }
    return codec.at;
}

/* No mean is larger than what is measured can be. */
static bool
lead_is_sound(const struct wp_lead_time *lead)
{
    double sum = 0;

    for (unsigned i = 0; i < WP_LEAD_BINS; i++) {
        sum += lead->weight[i];
    }
    return lead->unit >= 1 && lead->unit < 1e110 && lead->total < 1e120 &&
           lead->long_total < 1e20 && lead->sum_s <= LEAD_MAX_S * lead->total &&
           lead->long_sum_s <= LEAD_MAX_S * lead->long_total &&
           lead->long_sum_s2 <= LEAD_MAX_S * LEAD_MAX_S * lead->long_total &&
           (lead->measured == 0 ||
            (lead->long_total >= 1e-6 && lead->total > 0 &&
             fabs(sum - lead->total) <= 1e-6 * lead->total));
}

static bool
windows_are_sound(const struct wp_windows *windows, int64_t now_ns)
{
    for (unsigned i = 0; i < WP_WINDOWS; i++) {
        if (windows->count[i] > 1e18 || windows->seen[i] > 1) {
            return false;
        }
    }
    return windows->at_ns >= 0 && windows->at_ns <= now_ns;
}

static bool
need_is_sound(const struct wp_need *need, int64_t now_ns)
{
    for (unsigned i = 0; i < WP_NEED_SLOTS; i++) {
        if (need->most[i] >= WP_LEARN_LEVELS) {
            return false;
        }
    }
    return need->slot_ns >= WP_SCALE_QUANTUM_NS &&
           need->slot_ns < INT64_MAX / 2 && need->n_slots >= 1 &&
           need->n_slots < WP_NEED_SLOTS / 2 && need->slot >= 0 &&
           need->slot <= now_ns / need->slot_ns;
}

static bool
hold_is_sound(const struct wp_hold *hold, int64_t now_ns)
{
    return hold->part_ns >= 0 && hold->part >= 0 && hold->step_ends_ns >= 0 &&
           hold->part <= (hold->part_ns > 0 ? now_ns / hold->part_ns : 0);
}

static bool
trial_is_sound(const struct wp_trial *trial)
{
    return trial->claims < 1e18 && trial->missed <= trial->claims * (1 + 1e-9);
}

/* Each group is named by its first state, and they follow each other. */
static bool
learn_is_sound(const struct wp_learn *learn)
{
    for (unsigned s = 0; s < WP_LEARN_STATES; s++) {
        if (learn->group[s] != s &&
            (s == 0 || learn->group[s] != learn->group[s - 1])) {
            return false;
        }
    }
    return learn->unit >= 1 && learn->unit < 1e15 && learn->worth_s >= 1e-3 &&
           learn->worth_s <= 1e12;
}

static bool
is_sound(const struct wp_scaler *scaler)
{
    int64_t now_ns = scaler->now_ns;

    return now_ns >= 0 && now_ns <= WP_SCALER_PASS_MAX_NS &&
           scaler->last_claim_ns >= 0 && scaler->last_claim_ns <= now_ns &&
           scaler->background < 1e18 && scaler->claims_seen < 1e18 &&
           scaler->missed_seen <= scaler->claims_seen &&
           scaler->solve_at_ns >= 0 && fabs(scaler->slack_log) < 100 &&
           fabs(scaler->theory_slack_log) < 100 &&
           trial_is_sound(&scaler->trial) &&
           wp_bursts_are_sound(&scaler->bursts, now_ns) &&
           windows_are_sound(&scaler->windows, now_ns) &&
           lead_is_sound(&scaler->lead) &&
           need_is_sound(&scaler->need, now_ns) &&
           hold_is_sound(&scaler->hold, now_ns) &&
           scaler->reservations.n <= WP_SCALE_RESERVATIONS_MAX;
}

/* Takes the n reservations that follow; false: damaged, or no memory. */
static bool
read_reservations(struct codec *codec, uint32_t n,
                  struct wp_reservations *reservations)
{
    wp_reservations_init(reservations);
    for (uint32_t i = 0; i < n; i++) {
        struct wp_scale_reservation one = {.n = 0};

        code_reservation(codec, &one);
        if (codec->bad || one.id[0] == '\0' ||
            memchr(one.id, '\0', sizeof one.id) == NULL || one.left > one.n ||
            one.from_wall_ns >= one.until_wall_ns ||
            wp_reservations_add(reservations, &one, NULL) != WP_OK) {
            wp_reservations_fini(reservations);
            return false;
        }
    }
    return true;
}

/* The time that nobody looked: what claims came is not known. Rates are
 * believed as before, but as if less of them had been seen. */
static void
fade(struct wp_scaler *scaler, int64_t away_ns)
{
    if (away_ns == 0) {
        return;
    }
    scaler->now_ns += away_ns;
    scaler->last_claim_ns += away_ns;
    wp_windows_skip(&scaler->windows, scaler->now_ns);
    wp_need_add(&scaler->need, scaler->now_ns, 0);
    /* Nor what was needed. */
    wp_hold_need(&scaler->hold, scaler->now_ns, scaler->target);
}

static int64_t
away(int64_t saved_wall_ns, int64_t wall_ns)
{
    const int64_t most_ns = 365 * 24 * 3600 * WP_NS_PER_S;

    if (saved_wall_ns < 0 || wall_ns <= saved_wall_ns) {
        return 0; /* At once; or a clock that was set back meanwhile. */
    }
    return wall_ns - saved_wall_ns < most_ns ? wall_ns - saved_wall_ns
                                             : most_ns;
}

/* Puts what was read in the place of what is. */
static void
take(struct wp_scaler *scaler, const struct wp_scaler *read, uint64_t print,
     int64_t mono_ns, int64_t away_ns)
{
    struct wp_scaler old = *scaler;

    *scaler = *read;
    scaler->miss = old.miss;
    scaler->due_ns = WP_TIME_NEVER;
    scaler->fresh = true;
    scaler->view = old.view;
    scaler->shown.target = scaler->target;
    wp_reservations_fini(&old.reservations);
    free(old.learn);
    fade(scaler, away_ns);
    scaler->background_ns = scaler->now_ns;
    scaler->other = scaler->reason;
    scaler->other_since_ns = scaler->now_ns;
    scaler->offset_ns = wp_scaler_floor_ns(mono_ns) - scaler->now_ns;
    if (print != wp_scaler_policy_print(&scaler->policy)) {
        /* Another policy: whoever set it took the pool back. */
        scaler->replicas = old.replicas;
        scaler->replicas_known = old.replicas_known;
        scaler->by_hand = false;
        wp_hold_set_window(&scaler->hold, scaler->now_ns,
                           scaler->policy.down_window_ns);
    }
}

enum wp_status
wp_scaler_load(struct wp_scaler *scaler, int64_t mono_ns, int64_t wall_ns,
               const void *bytes, size_t len, struct wp_err *err)
{
    struct wp_scaler read = *scaler;
    struct codec codec = {.in = bytes, .len = len};
    struct wp_reservations reservations;
    uint64_t head = 0;
    uint64_t print = 0;
    int64_t saved_wall_ns = 0;

    code_u64(&codec, &head);
    if (head == HEAD(VERSION_BEFORE) && len >= sizeof head + SUM_BEFORE) {
        codec.len -= SUM_BEFORE;
    } else if (head != HEAD(VERSION)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "scaler state: none, or of another version");
    }
    code_i64(&codec, &saved_wall_ns);
    wp_reservations_init(&reservations);
    read.learn = NULL;
    code_fields(&codec, &read, &print);
    code_learn(&codec, &read.learn);
    if (codec.bad || !is_sound(&read) ||
        (read.learn != NULL && !learn_is_sound(read.learn)) ||
        !read_reservations(&codec, read.reservations.n, &reservations) ||
        codec.at != codec.len) {
        free(read.learn);
        wp_reservations_fini(&reservations);
        return wp_err_set(err, WP_INVALID_ARGUMENT, "scaler state: damaged");
    }
    read.reservations = reservations;
    read.wall_ns = wp_scaler_floor_ns(wall_ns);
    take(scaler, &read, print, mono_ns,
         wp_scaler_floor_ns(away(saved_wall_ns, wall_ns)));
    return WP_OK;
}
