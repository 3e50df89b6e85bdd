#include "pool/slots/timing_wheel.h"

#include <stdlib.h>

#include "pool/base/assert.h"

/* A thing sits at the level of the highest group of six bits in which its tick
 * differs from wheel->tick, in the place that group names. So all the things of
 * a level come before those of the level above, the first place in use of the
 * lowest level in use is the earliest, and the wheel's tick may move to
 * anywhere before that place without any thing having to move. */
enum {
    PLACES = 1 << WP_WHEEL_LEVEL_BITS,
    HEADS = WP_WHEEL_LEVELS * PLACES,
    DUE = HEADS, /* One more head: the place being fired or moved down. */
};

#define OUT UINT32_MAX /* The `next` of what is not in the wheel. */

/* The first tick whose start is not before the deadline: firing then is never
 * early. */
static int64_t
tick_of(int64_t deadline_ns)
{
    return deadline_ns / WP_WHEEL_TICK_NS +
           (deadline_ns % WP_WHEEL_TICK_NS != 0 ? 1 : 0);
}

static void
list_clear(struct wp_timing_wheel *wheel, uint32_t node)
{
    wheel->nodes[node].next = node;
    wheel->nodes[node].prev = node;
}

static void
list_push_back(struct wp_timing_wheel *wheel, uint32_t head, uint32_t node)
{
    uint32_t last = wheel->nodes[head].prev;

    wheel->nodes[node].prev = last;
    wheel->nodes[node].next = head;
    wheel->nodes[last].next = node;
    wheel->nodes[head].prev = node;
}

/* Takes node out of its list and marks the list's place unused when it was the
 * last one there. */
static void
list_remove(struct wp_timing_wheel *wheel, uint32_t node)
{
    uint32_t next = wheel->nodes[node].next;
    uint32_t prev = wheel->nodes[node].prev;

    wheel->nodes[prev].next = next;
    wheel->nodes[next].prev = prev;
    wheel->nodes[node].next = OUT;
    if (next == prev && next >= wheel->n && next - wheel->n < HEADS) {
        uint32_t place = next - wheel->n;

        wheel->places[place / PLACES] &= ~(UINT64_C(1) << place % PLACES);
    }
}

/* Puts index where its tick belongs, seen from wheel->tick. */
static void
place(struct wp_timing_wheel *wheel, uint32_t index)
{
    int64_t tick = wheel->nodes[index].tick;
    uint64_t differs = (uint64_t)tick ^ (uint64_t)wheel->tick;
    unsigned level =
        (63U - (unsigned)__builtin_clzll(differs | 1)) / WP_WHEEL_LEVEL_BITS;
    unsigned at = (unsigned)(tick >> (level * WP_WHEEL_LEVEL_BITS)) % PLACES;
    wheel->places[level] |= UINT64_C(1) << at;
    list_push_back(wheel, wheel->n + level * PLACES + at, index);
}

bool
wp_timing_wheel_init(struct wp_timing_wheel *wheel, uint32_t n, int64_t now_ns)
{
    *wheel =
        (struct wp_timing_wheel){.n = n, .tick = now_ns / WP_WHEEL_TICK_NS};
    wheel->tick_min = wheel->tick;
    WP_ASSERT(now_ns >= 0 && n < OUT - DUE - 1);
    wheel->nodes = malloc(wp_timing_wheel_bytes(n));
    if (wheel->nodes == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        wheel->nodes[i] = (struct wp_timing_node){0, OUT, OUT};
    }
    for (uint32_t i = n; i <= n + DUE; i++) {
        list_clear(wheel, i);
    }
    return true;
}

void
wp_timing_wheel_fini(struct wp_timing_wheel *wheel)
{
    free(wheel->nodes);
    wheel->nodes = NULL;
}

size_t
wp_timing_wheel_bytes(uint32_t n)
{
    return ((size_t)n + DUE + 1) * sizeof(struct wp_timing_node);
}

void
wp_timing_wheel_insert(struct wp_timing_wheel *wheel, uint32_t index,
                       int64_t deadline_ns)
{
    int64_t tick = tick_of(deadline_ns);

    WP_ASSERT(index < wheel->n && deadline_ns >= 0);
    (void)wp_timing_wheel_remove(wheel, index);
    wheel->nodes[index].tick = tick < wheel->tick_min ? wheel->tick_min : tick;
    place(wheel, index);
}

bool
wp_timing_wheel_remove(struct wp_timing_wheel *wheel, uint32_t index)
{
    WP_ASSERT(index < wheel->n);
    if (wheel->nodes[index].next == OUT) {
        return false;
    }
    list_remove(wheel, index);
    return true;
}

bool
wp_timing_wheel_contains(const struct wp_timing_wheel *wheel, uint32_t index)
{
    WP_ASSERT(index < wheel->n);
    return wheel->nodes[index].next != OUT;
}

/* The earliest place in use; false when there is none. */
static bool
earliest(const struct wp_timing_wheel *wheel, unsigned *level, unsigned *at)
{
    for (unsigned l = 0; l < WP_WHEEL_LEVELS; l++) {
        if (wheel->places[l] != 0) {
            *level = l;
            *at = (unsigned)__builtin_ctzll(wheel->places[l]);
            return true;
        }
    }
    return false;
}

/* The first tick of a place. */
static int64_t
place_tick(const struct wp_timing_wheel *wheel, unsigned level, unsigned at)
{
    unsigned shift = level * WP_WHEEL_LEVEL_BITS;
    int64_t above = wheel->tick >> (shift + WP_WHEEL_LEVEL_BITS);

    return (above << (shift + WP_WHEEL_LEVEL_BITS)) | (int64_t)at << shift;
}

/* Moves all of a place to the DUE list: what is inserted meanwhile does not mix
 * with it, and what is removed meanwhile leaves it as it would any list. */
static void
take_place(struct wp_timing_wheel *wheel, unsigned level, unsigned at)
{
    uint32_t head = wheel->n + level * PLACES + at;
    uint32_t due = wheel->n + DUE;
    uint32_t first = wheel->nodes[head].next;
    uint32_t last = wheel->nodes[head].prev;

    wheel->nodes[due].next = first;
    wheel->nodes[due].prev = last;
    wheel->nodes[first].prev = due;
    wheel->nodes[last].next = due;
    list_clear(wheel, head);
    wheel->places[level] &= ~(UINT64_C(1) << at);
}

uint32_t
wp_timing_wheel_advance(struct wp_timing_wheel *wheel, int64_t now_ns,
                        wp_timing_fire_fn *fire, void *ctx)
{
    int64_t now = now_ns / WP_WHEEL_TICK_NS;
    uint32_t due = wheel->n + DUE;
    uint32_t fired = 0;
    unsigned level;
    unsigned at;

    if (now < wheel->tick) {
        now = wheel->tick;
    }
    /* What a callback inserts waits for the next call, so that this one
     * ends. */
    wheel->tick_min = now + 1;
    while (earliest(wheel, &level, &at) &&
           place_tick(wheel, level, at) <= now) {
        wheel->tick = place_tick(wheel, level, at);
        take_place(wheel, level, at);
        while (wheel->nodes[due].next != due) {
            uint32_t index = wheel->nodes[due].next;

            list_remove(wheel, index);
            if (level > 0) {
                place(wheel, index);
            } else {
                fired++;
                fire(ctx, index);
            }
        }
    }
    wheel->tick = now;
    wheel->tick_min = now;
    return fired;
}

int64_t
wp_timing_wheel_next_ns(const struct wp_timing_wheel *wheel)
{
    unsigned level;
    unsigned at;
    int64_t tick;

    if (!earliest(wheel, &level, &at)) {
        return WP_TIME_NEVER;
    }
    tick = place_tick(wheel, level, at);
    return tick > WP_TIME_NEVER / WP_WHEEL_TICK_NS ? WP_TIME_NEVER
                                                   : tick * WP_WHEEL_TICK_NS;
}
