/* pool/scale/season.h - what each hour of the week usually brings, and which
 * full hours bring much more at once.
 *
 * Claims, and the time in which they would have been seen, by hour of the week:
 * 168 of them, in UTC, counted from Thursday as the epoch does. Old weeks fade.
 * Time that nobody looked is not told, so it is no hour without claims.
 *
 * Between the hours the rate is taken for a line through each, as steep as its
 * flatter neighbour allows. So a rise over hours goes on from hour to hour, and
 * a step at a full hour stays a step there. One in the middle of an hour passes
 * for a smaller one at its begin.
 *
 * A jump counts when both hours were seen in two weeks, lately, and when
 * neither chance nor what the same hours differed by from week to week explains
 * it: that is measured, over all hours.
 *
 * Some 2 kB; deterministic; no call costs more than a week's hours. One
 * owner. */
#ifndef WP_POOL_SCALE_SEASON_H
#define WP_POOL_SCALE_SEASON_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WP_SEASON_HOURS = 7 * 24,
};

/* The time constant of the window that today is measured by. */
#define WP_SEASON_TODAY_S 1024.0

struct wp_season {
    float claims[WP_SEASON_HOURS]; /* Faded, as are seconds. */
    float seconds[WP_SEASON_HOURS];
    uint16_t week[WP_SEASON_HOURS]; /* The latest it was seen in, from 1970. */
    uint8_t weeks[WP_SEASON_HOURS]; /* It was seen in; 2: or in more. */
    /* The hour that is open, not in the table yet. */
    int64_t hour; /* Since the epoch; -1: none. */
    double open_claims;
    double open_s;
    /* How much hours differ from what they usually bring, beyond chance: a sum
     * of squares, against the sum of squares of what they bring. */
    double differ2;
    double bring2;
};

void wp_season_init(struct wp_season *season);
/* dt_ns passed from wall_ns on (0 or more), and somebody looked. */
void wp_season_pass(struct wp_season *season, int64_t wall_ns, int64_t dt_ns);
/* n claims came now. */
void wp_season_claims(struct wp_season *season, int64_t wall_ns, uint32_t n);
/* Claims a second at this moment of the week; 0: no history. */
double wp_season_rate(const struct wp_season *season, int64_t wall_ns);

struct wp_season_due {
    double usual_per_s;   /* Now, or right after the jump; 0: no history. */
    double rate_per_s;    /* usual_per_s as days like today have it, while a
                           * jump is near; else 0. */
    int64_t next_wall_ns; /* When it is near, or no more; WP_TIME_NEVER. */
};
/* Is a jump upwards nearer than ahead_ns, or was one less than after_ns ago?
 * Both at most half an hour. lately_per_s: what came, over a window that fades
 * with WP_SEASON_TODAY_S. */
struct wp_season_due wp_season_due(const struct wp_season *season,
                                   int64_t wall_ns, double lately_per_s,
                                   int64_t ahead_ns, int64_t after_ns);
/* Can it have become like this? For one that was read. */
bool wp_season_is_sound(const struct wp_season *season);

#endif
