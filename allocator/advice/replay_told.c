/* allocator/advice/replay_told.c - policies that learn nothing: a constant
 * size, and who knows every claim in advance.
 *
 * The latter has as many ready and warming as claims will come within the
 * horizon. Nobody who does not know the lead times in advance does better with
 * as many misses, as long as nothing bounds how many are made at once. */
#include <stdlib.h>

#include "allocator/advice/replay.h"
#include "pool/base/clock.h"

struct fixed {
    uint32_t size;
};

static uint32_t
fixed_target(void *self, const struct wp_replay_view *view, int64_t *next_ns)
{
    const struct fixed *fixed = self;

    (void)view;
    *next_ns = WP_TIME_NEVER;
    return fixed->size;
}

bool
wp_replay_policy_fixed(uint32_t size, struct wp_replay_policy *out)
{
    struct fixed *fixed = calloc(1, sizeof(*fixed));

    if (fixed == NULL) {
        return false;
    }
    fixed->size = size;
    *out = (struct wp_replay_policy){.name = "fixed",
                                     .self = fixed,
                                     .target = fixed_target,
                                     .destroy = free};
    return true;
}

struct seen {
    int64_t at_ns;
    uint32_t n;
};

struct clairvoyant {
    struct wp_replay_source future;
    int64_t horizon_ns;
    struct seen next; /* The first beyond the horizon. */
    bool ended;
    struct seen *ring; /* Within it, oldest first. */
    uint32_t cap;
    uint32_t from;
    uint32_t n;
    uint64_t expected; /* Claims in the ring. */
};

static void
look_further(struct clairvoyant *clairvoyant)
{
    struct wp_replay_source *future = &clairvoyant->future;

    clairvoyant->ended = !future->next(future->self, &clairvoyant->next.at_ns,
                                       &clairvoyant->next.n);
}

/* Without memory for more the horizon ends there, until some have come. */
static bool
has_room(struct clairvoyant *clairvoyant)
{
    uint32_t cap = 2 * clairvoyant->cap;
    struct seen *ring;

    if (clairvoyant->n < clairvoyant->cap) {
        return true;
    }
    ring = cap > 0 ? malloc(cap * sizeof(*ring)) : NULL;
    if (ring == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < clairvoyant->n; i++) {
        ring[i] = clairvoyant->ring[(clairvoyant->from + i) % clairvoyant->cap];
    }
    free(clairvoyant->ring);
    clairvoyant->ring = ring;
    clairvoyant->cap = cap;
    clairvoyant->from = 0;
    return true;
}

static uint32_t
clairvoyant_target(void *self, const struct wp_replay_view *view,
                   int64_t *next_ns)
{
    struct clairvoyant *it = self;
    int64_t until_ns = wp_time_add(view->now_ns, it->horizon_ns);

    while (it->n > 0 && it->ring[it->from].at_ns <= view->now_ns) {
        it->expected -= it->ring[it->from].n;
        it->from = (it->from + 1) % it->cap;
        it->n--;
    }
    while (!it->ended && it->next.at_ns <= until_ns) {
        if (it->next.at_ns > view->now_ns) {
            if (!has_room(it)) {
                break;
            }
            it->ring[(it->from + it->n++) % it->cap] = it->next;
            it->expected += it->next.n;
        }
        look_further(it);
    }
    *next_ns = it->ended ? WP_TIME_NEVER : it->next.at_ns - it->horizon_ns;
    return it->expected < UINT32_MAX ? (uint32_t)it->expected : UINT32_MAX;
}

static void
destroy(void *self)
{
    struct clairvoyant *clairvoyant = self;

    free(clairvoyant->ring);
    free(clairvoyant);
}

bool
wp_replay_policy_clairvoyant(struct wp_replay_source future, double ahead_s,
                             struct wp_replay_policy *out)
{
    struct clairvoyant *clairvoyant = calloc(1, sizeof(*clairvoyant));

    if (clairvoyant == NULL) {
        return false;
    }
    clairvoyant->future = future;
    clairvoyant->horizon_ns = (int64_t)(ahead_s * (double)WP_NS_PER_S);
    clairvoyant->cap = 64;
    clairvoyant->ring = malloc(clairvoyant->cap * sizeof(*clairvoyant->ring));
    if (clairvoyant->ring == NULL) {
        free(clairvoyant);
        return false;
    }
    look_further(clairvoyant);
    *out = (struct wp_replay_policy){.name = "clairvoyant",
                                     .self = clairvoyant,
                                     .target = clairvoyant_target,
                                     .destroy = destroy};
    return true;
}
