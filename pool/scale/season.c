#include "pool/scale/season.h"

#include <math.h>

#include "pool/base/clock.h"

#define HOUR_S 3600.0
#define HOUR_NS (3600 * WP_NS_PER_S)

/* Half of what an hour brought is forgotten after so many weeks; after twice as
 * many without a look all of it. */
static const double HALF_LIFE_WEEKS = 4;
static const int64_t WEEKS_OLD = 8;
/* Less of an hour tells nothing. */
static const double LEAST_S = 900;
static const double LEAST_CLAIMS = 16;
/* A jump is so many times as much at least, and at most counts as this. */
static const double JUMP_MIN = 1.25;
static const double JUMP_MAX = 20;
/* Standard errors: there are 168 hours that may look like one. */
static const double SIGNIFICANT = 3.5;
/* Today is at most so many times as busy as usual. */
static const double TODAY_MAX = 2;

static const int64_t NEAR_MAX_NS = HOUR_NS / 2;

void
wp_season_init(struct wp_season *season)
{
    *season = (struct wp_season){.hour = -1};
}

static unsigned
index_of(int64_t hour)
{
    return (unsigned)(hour % WP_SEASON_HOURS);
}

static int64_t
week_of(int64_t hour)
{
    return hour / WP_SEASON_HOURS;
}

/* c claims came in s seconds of an hour that was seen before. */
static void
compare(struct wp_season *season, unsigned i, double c, double s)
{
    const double keep = exp2(-1 / (HALF_LIFE_WEEKS * WP_SEASON_HOURS));
    double usual = (double)season->claims[i] / (double)season->seconds[i] * s;
    double chance = usual * (1 + s / (double)season->seconds[i]);

    season->differ2 =
        season->differ2 * keep + (c - usual) * (c - usual) - chance;
    season->bring2 = season->bring2 * keep + usual * usual;
}

/* The open hour into the table. */
static void
fold(struct wp_season *season)
{
    unsigned i = index_of(season->hour);
    int64_t week = week_of(season->hour);
    double keep = 0;

    if (season->hour < 0 || season->open_s < LEAST_S) {
        return;
    }
    if (season->weeks[i] > 0) {
        int64_t age = week - season->week[i];

        compare(season, i, season->open_claims, season->open_s);
        keep = exp2(-(double)(age > 0 ? age : 0) / HALF_LIFE_WEEKS);
    }
    season->claims[i] =
        (float)((double)season->claims[i] * keep + season->open_claims);
    season->seconds[i] =
        (float)((double)season->seconds[i] * keep + season->open_s);
    if (season->weeks[i] == 0 ||
        (season->weeks[i] == 1 && week != season->week[i])) {
        season->weeks[i]++;
    }
    season->week[i] = (uint16_t)(week < UINT16_MAX ? week : UINT16_MAX);
}

static void
open_hour(struct wp_season *season, int64_t wall_ns)
{
    int64_t hour = wall_ns / HOUR_NS;

    if (hour == season->hour) {
        return;
    }
    fold(season);
    season->hour = hour;
    season->open_claims = 0;
    season->open_s = 0;
}

void
wp_season_pass(struct wp_season *season, int64_t wall_ns, int64_t dt_ns)
{
    const int64_t week_ns = WP_SEASON_HOURS * HOUR_NS;

    if (wall_ns < 0 || dt_ns < 0 || dt_ns > INT64_MAX - wall_ns - HOUR_NS) {
        return; /* Such clocks tell nothing. */
    }
    if (dt_ns > week_ns) {
        /* One after the other would take forever; the latest week will do. */
        wall_ns += dt_ns - week_ns;
        dt_ns = week_ns;
    }
    while (dt_ns > 0) {
        int64_t left_ns = HOUR_NS - wall_ns % HOUR_NS;
        int64_t part_ns = dt_ns < left_ns ? dt_ns : left_ns;

        open_hour(season, wall_ns);
        season->open_s += (double)part_ns / WP_NS_PER_S;
        wall_ns += part_ns;
        dt_ns -= part_ns;
    }
}

void
wp_season_claims(struct wp_season *season, int64_t wall_ns, uint32_t n)
{
    if (wall_ns >= 0) {
        open_hour(season, wall_ns);
        season->open_claims += n;
    }
}

/* In two weeks, the latest of which is not long past. */
static bool
is_known(const struct wp_season *season, int64_t hour, int64_t now_hour)
{
    unsigned i;
    int64_t age;

    if (hour < 0) {
        return false;
    }
    i = index_of(hour);
    age = week_of(now_hour) - season->week[i];
    return season->weeks[i] >= 2 && age <= WEEKS_OLD && age >= -WEEKS_OLD;
}

/* The hours around one: what they bring, as lines. */
struct line {
    double mean;  /* Claims a second. */
    double slope; /* The same, more at the end of the hour than at its begin. */
};

static double
mean(const struct wp_season *season, int64_t hour)
{
    unsigned i = index_of(hour);

    return (double)season->claims[i] / (double)season->seconds[i];
}

/* The hour is known. */
static struct line
line_of(const struct wp_season *season, int64_t hour, int64_t now_hour)
{
    struct line line = {.mean = mean(season, hour)};
    double in;
    double out;

    if (!is_known(season, hour - 1, now_hour) ||
        !is_known(season, hour + 1, now_hour)) {
        return line;
    }
    in = line.mean - mean(season, hour - 1);
    out = mean(season, hour + 1) - line.mean;
    if (in > 0 && out > 0) {
        line.slope = fmin(in, out);
    } else if (in < 0 && out < 0) {
        line.slope = fmax(in, out);
    }
    return line;
}

double
wp_season_rate(const struct wp_season *season, int64_t wall_ns)
{
    int64_t hour = wall_ns / HOUR_NS;
    struct line line;

    if (wall_ns < 0 || !is_known(season, hour, hour)) {
        return 0;
    }
    line = line_of(season, hour, hour);
    return line.mean +
           line.slope * ((double)(wall_ns % HOUR_NS) / (double)HOUR_NS - 0.5);
}

/* What a window that fades shows now, when all is as usual. */
static double
usual_lately(const struct wp_season *season, int64_t wall_ns)
{
    int64_t hour = wall_ns / HOUR_NS;
    double since_s = (double)(wall_ns % HOUR_NS) / WP_NS_PER_S;
    double keep = exp(-since_s / WP_SEASON_TODAY_S);
    struct line now = line_of(season, hour, hour);
    double begin = now.mean - now.slope / 2;
    double before = begin;

    /* A line, seen through it, comes a time constant late. */
    if (is_known(season, hour - 1, hour)) {
        struct line last = line_of(season, hour - 1, hour);

        before = last.mean + last.slope * (0.5 - WP_SEASON_TODAY_S / HOUR_S);
    }
    return before * keep + begin * (1 - keep) +
           now.slope / HOUR_S * (since_s - WP_SEASON_TODAY_S * (1 - keep));
}

/* What begins with this hour, when that is a jump upwards; else 0. */
static double
jump_at(const struct wp_season *season, int64_t hour, int64_t now_hour)
{
    double c[2];
    double differ2;
    struct line line;
    double from;
    double to;

    for (int i = 0; i < 2; i++) {
        if (!is_known(season, hour - 1 + i, now_hour)) {
            return 0;
        }
        c[i] = (double)season->claims[index_of(hour - 1 + i)];
        if (c[i] < LEAST_CLAIMS) {
            return 0;
        }
    }
    line = line_of(season, hour - 1, now_hour);
    from = line.mean + line.slope / 2;
    line = line_of(season, hour, now_hour);
    to = line.mean - line.slope / 2;
    differ2 =
        season->bring2 > 0 ? fmax(season->differ2, 0) / season->bring2 : 0;
    if (!(to >= JUMP_MIN * from) ||
        log(to / from) <
            SIGNIFICANT * sqrt(1 / c[0] + 1 / c[1] + 2 * differ2)) {
        return 0;
    }
    return fmin(to, JUMP_MAX * from);
}

/* Which jump is near, and when that changes. */
static double
near_jump(const struct wp_season *season, int64_t wall_ns, int64_t ahead_ns,
          int64_t after_ns, int64_t *next_ns)
{
    int64_t hour = wall_ns / HOUR_NS;
    int64_t begin_ns = hour * HOUR_NS;
    double last =
        wall_ns - begin_ns < after_ns ? jump_at(season, hour, hour) : 0;
    double coming = jump_at(season, hour + 1, hour);

    *next_ns = WP_TIME_NEVER;
    if (last > 0) {
        *next_ns = begin_ns + after_ns;
    }
    if (coming > 0 && begin_ns + HOUR_NS - wall_ns > ahead_ns) {
        int64_t ns = begin_ns + HOUR_NS - ahead_ns;

        *next_ns = *next_ns < ns ? *next_ns : ns;
        coming = 0;
    }
    return fmax(last, coming);
}

static int64_t
within(int64_t ns, int64_t most_ns)
{
    return ns < 0 ? 0 : ns < most_ns ? ns : most_ns;
}

struct wp_season_due
wp_season_due(const struct wp_season *season, int64_t wall_ns,
              double lately_per_s, int64_t ahead_ns, int64_t after_ns)
{
    struct wp_season_due due = {.next_wall_ns = WP_TIME_NEVER};
    double jump;
    double usual;

    if (wall_ns < 0 || wall_ns > INT64_MAX - 2 * HOUR_NS ||
        !is_known(season, wall_ns / HOUR_NS, wall_ns / HOUR_NS)) {
        return due;
    }
    due.usual_per_s = wp_season_rate(season, wall_ns);
    jump = near_jump(season, wall_ns, within(ahead_ns, NEAR_MAX_NS),
                     within(after_ns, NEAR_MAX_NS), &due.next_wall_ns);
    if (jump > 0) {
        usual = usual_lately(season, wall_ns);
        due.usual_per_s = jump;
        due.rate_per_s =
            usual > 0 ? jump * fmin(lately_per_s / usual, TODAY_MAX) : 0;
    }
    return due;
}

bool
wp_season_is_sound(const struct wp_season *season)
{
    for (unsigned i = 0; i < WP_SEASON_HOURS; i++) {
        if (season->weeks[i] > 2 ||
            (season->weeks[i] > 0 && !((double)season->seconds[i] >= 1)) ||
            (double)season->claims[i] > 1e18) {
            return false;
        }
    }
    return season->hour >= -1 && season->hour <= INT64_MAX / HOUR_NS &&
           season->open_claims < 1e18 && season->open_s < 1e18 &&
           fabs(season->differ2) < 1e100 && season->bring2 < 1e100;
}
