#include "pool/scale/learn.h"

#include <math.h>
#include <string.h>

enum {
    EXACT = 16, /* Needs below have a bin each. */
    PER_OCTAVE = 8,
    STEPS = 3, /* Of the search, in one call. */
};

/* What a group costs, in shares of what all is. */
static const double GROUP_COST = 0.03;
static const double WORTH_MAX_S = 1e9;
static const double UNIT_MAX = 1e12;

static unsigned
log2_floor(uint32_t n)
{
    return 31U - (unsigned)__builtin_clz(n);
}

unsigned
wp_learn_level(uint32_t need)
{
    unsigned level = need == 0 ? 0 : 1 + log2_floor(need);

    return level < WP_LEARN_LEVELS ? level : WP_LEARN_LEVELS - 1;
}

unsigned
wp_learn_state(bool due, unsigned level)
{
    return (due ? WP_LEARN_LEVELS : 0U) + level;
}

static unsigned
bin_of(uint32_t need)
{
    unsigned octave;
    unsigned bin;

    if (need < EXACT) {
        return need;
    }
    octave = log2_floor(need);
    bin = EXACT + (octave - 4) * PER_OCTAVE +
          ((need >> (octave - 3)) & (PER_OCTAVE - 1));
    return bin < WP_LEARN_BINS ? bin : WP_LEARN_BINS - 1;
}

/* The highest need in a bin: with that stock all of it is served. */
static uint32_t
bin_top(unsigned bin)
{
    unsigned octave;

    if (bin < EXACT) {
        return bin;
    }
    octave = 4 + (bin - EXACT) / PER_OCTAVE;
    return ((PER_OCTAVE + (bin - EXACT) % PER_OCTAVE + 1) << (octave - 3)) - 1;
}

void
wp_learn_init(struct wp_learn *learn)
{
    memset(learn, 0, sizeof *learn);
    learn->unit = 1;
    learn->worth_s = 100;
}

void
wp_learn_claims(struct wp_learn *learn, unsigned state, uint32_t before,
                uint32_t n)
{
    float *claims = learn->claims[state];
    uint64_t last = (uint64_t)before + n;
    uint64_t at = (uint64_t)before + 1;

    /* The i-th of them needs before + i. */
    while (at <= last) {
        unsigned bin = bin_of(at < UINT32_MAX ? (uint32_t)at : UINT32_MAX);
        uint64_t top = bin < WP_LEARN_BINS - 1 ? bin_top(bin) : last;

        top = top < last ? top : last;
        claims[bin] += (float)((double)(top - at + 1) * learn->unit);
        at = top + 1;
    }
}

static void
rescale(struct wp_learn *learn)
{
    float by = (float)(1 / learn->unit);

    for (unsigned s = 0; s < WP_LEARN_STATES; s++) {
        for (unsigned i = 0; i < WP_LEARN_BINS; i++) {
            learn->claims[s][i] *= by;
            learn->seconds[s][i] *= by;
        }
    }
    learn->unit = 1;
}

void
wp_learn_time(struct wp_learn *learn, unsigned state, uint32_t need,
              double dt_s, double half_life_s)
{
    /* No single stretch may outweigh everything learned before. */
    double dt = fmin(dt_s, half_life_s);

    learn->seconds[state][bin_of(need)] += (float)(dt * learn->unit);
    learn->unit *= exp2(dt / half_life_s);
    if (learn->unit > UNIT_MAX) {
        rescale(learn);
    }
}

/* Several states as one. */
struct pooled {
    double claims[WP_LEARN_BINS];
    double seconds[WP_LEARN_BINS];
    double all_claims;
    double all_s;
};

static void
pool_add(struct pooled *pooled, const struct wp_learn *learn, unsigned state)
{
    for (unsigned i = 0; i < WP_LEARN_BINS; i++) {
        pooled->claims[i] += (double)learn->claims[state][i];
        pooled->seconds[i] += (double)learn->seconds[state][i];
        pooled->all_claims += (double)learn->claims[state][i];
        pooled->all_s += (double)learn->seconds[state][i];
    }
}

/* What a choice of stock brings, in faded weights. */
struct choice {
    uint32_t stock;
    double missed;
    double idle_s;
    double cost_s;
};

/* The best stock when a miss is worth worth_s. */
static struct choice
best_of(const struct pooled *pooled, double worth_s)
{
    struct choice best = {.cost_s = INFINITY};
    double missed = pooled->all_claims;
    double idle_s = 0;
    double below_s = 0; /* Time with a need below the bin looked at. */
    uint32_t before = 0;

    for (unsigned i = 0; i < WP_LEARN_BINS && idle_s < best.cost_s; i++) {
        uint32_t top = bin_top(i);

        /* Within a wide bin needs lie in the middle. */
        idle_s += (double)(top - before) *
                  (below_s + (i < EXACT ? 0 : pooled->seconds[i] / 2));
        below_s += pooled->seconds[i];
        missed -= pooled->claims[i];
        before = top;
        if (idle_s + worth_s * missed < best.cost_s) {
            best = (struct choice){top, fmax(missed, 0), idle_s,
                                   idle_s + worth_s * missed};
        }
    }
    return best;
}

/* Splits the states into the groups that cost least, where each group costs
 * something by itself. By the usual recursion: the best split of all states up
 * to one, from the best splits of fewer. */
static void
form_groups(struct wp_learn *learn)
{
    double best[WP_LEARN_STATES + 1] = {0};
    unsigned first[WP_LEARN_STATES + 1] = {0};
    struct pooled all = {.all_s = 0};
    double each_s;

    for (unsigned s = 0; s < WP_LEARN_STATES; s++) {
        pool_add(&all, learn, s);
    }
    each_s = GROUP_COST * best_of(&all, learn->worth_s).cost_s;
    learn->grouped_claims = all.all_claims / learn->unit;
    learn->grouped_s = all.all_s / learn->unit;
    for (unsigned end = 1; end <= WP_LEARN_STATES; end++) {
        struct pooled pooled = {.all_s = 0};

        best[end] = INFINITY;
        /* None of both kinds. */
        for (unsigned from = end;
             from > (end > WP_LEARN_LEVELS ? WP_LEARN_LEVELS : 0U); from--) {
            double cost_s;

            pool_add(&pooled, learn, from - 1);
            cost_s = best[from - 1] + each_s +
                     best_of(&pooled, learn->worth_s).cost_s;
            if (cost_s < best[end]) {
                best[end] = cost_s;
                first[end] = from - 1;
            }
        }
    }
    for (unsigned end = WP_LEARN_STATES; end > 0; end = first[end]) {
        for (unsigned s = first[end]; s < end; s++) {
            learn->group[s] = (uint8_t)first[end];
        }
    }
}

double
wp_learn_seen_s(const struct wp_learn *learn, unsigned state)
{
    double sum = 0;

    for (unsigned i = 0; i < WP_LEARN_BINS; i++) {
        sum += (double)learn->seconds[state][i];
    }
    return sum / learn->unit;
}

double
wp_learn_group_s(const struct wp_learn *learn, unsigned state)
{
    double sum = 0;

    for (unsigned s = 0; s < WP_LEARN_STATES; s++) {
        if (learn->group[s] == learn->group[state]) {
            sum += wp_learn_seen_s(learn, s);
        }
    }
    return sum;
}

/* When there is a fifth more, or a fifth less, to tell groups from. */
static bool
has_changed(double now, double before)
{
    return now > 1.2 * before || now < before / 1.2;
}

/* The stock of all groups when a miss is worth worth_s. True: it is time to
 * form them anew. */
static bool
choose(struct wp_learn *learn, double worth_s)
{
    struct choice sum = {0};
    double claims = 0;
    double seconds = 0;
    uint32_t least[2] = {0, 0};

    for (unsigned s = 0; s < WP_LEARN_STATES;) {
        struct pooled pooled = {.all_s = 0};
        unsigned first = s;
        struct choice best;

        for (; s < WP_LEARN_STATES && learn->group[s] == first; s++) {
            pool_add(&pooled, learn, s);
        }
        best = best_of(&pooled, worth_s);
        claims += pooled.all_claims;
        seconds += pooled.all_s;
        sum.missed += best.missed;
        sum.idle_s += best.idle_s;
        /* What is lowered goes at once, what is raised comes a lead time later:
         * a busier state with less stock would throw away what it needs. */
        for (; first < s; first++) {
            uint32_t *at = &least[first < WP_LEARN_LEVELS];

            *at = best.stock > *at ? best.stock : *at;
            learn->stock[first] = *at;
        }
    }
    learn->missed = claims > 0 ? sum.missed / claims : 0;
    learn->idle = seconds > 0 ? sum.idle_s / seconds : 0;
    return has_changed(claims / learn->unit, learn->grouped_claims) ||
           has_changed(seconds / learn->unit, learn->grouped_s);
}

void
wp_learn_solve_cost(struct wp_learn *learn, double worth_s)
{
    learn->worth_s = worth_s;
    if (choose(learn, worth_s)) {
        form_groups(learn);
    }
}

void
wp_learn_solve(struct wp_learn *learn, double miss)
{
    bool again;

    for (int i = 0; i < STEPS; i++) {
        double off;

        (void)choose(learn, learn->worth_s);
        /* Misses fall about as the inverse of what they are worth. */
        off = log((learn->missed + miss / 16) / miss);
        if (fabs(off) < 0.02) {
            break;
        }
        learn->worth_s =
            fmin(fmax(learn->worth_s * exp(0.7 * off), 1e-3), WORTH_MAX_S);
    }
    again = choose(learn, learn->worth_s);
    /* Where one price serves too few and the next one all, all it is. */
    for (int i = 0; i < STEPS && learn->missed > miss * 1.02; i++) {
        learn->worth_s = fmin(learn->worth_s * 2, WORTH_MAX_S);
        again = choose(learn, learn->worth_s);
    }
    if (again) {
        form_groups(learn);
    }
}
