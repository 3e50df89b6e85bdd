/* allocator/advice/advice.h - what a change of a pool's setting would do: its
 * claims, replayed through candidates.
 *
 * The candidates are the rows of a table: today's setting, our controller with
 * several objectives, fixed sizes, and what somebody could do who knew every
 * claim in advance. Each row is one replay (replay.h) of the same claims with
 * lead times drawn from those that were measured.
 *
 * Pure and deterministic by its seed. The rows may be run in any order, and
 * different rows on different threads at once. */
#ifndef WP_ALLOCATOR_ADVICE_ADVICE_H
#define WP_ALLOCATOR_ADVICE_ADVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/status.h"
#include "pool/history/history.h"
#include "pool/policy/policy.h"
#include "allocator/advice/replay.h"

enum {
    WP_ADVICE_OBJECTIVES_MAX = 8,
    WP_ADVICE_ROWS_MAX = 40,
    WP_ADVICE_LINES_MAX = 12,
    WP_ADVICE_LINE_MAX = 320,
    WP_ADVICE_NAME_MAX = 48,
    WP_ADVICE_SETTING_MAX = 128,
};

enum wp_advice_kind {
    WP_ADVICE_TODAY,
    WP_ADVICE_OURS,
    WP_ADVICE_FIXED,
    WP_ADVICE_CLAIRVOYANT,
    WP_ADVICE_OTHER, /* Of another version: shown, not compared with. */
    WP_ADVICE_KIND_COUNT,
};

struct wp_advice_config {
    /* Borrowed until the advice is destroyed; must not change. */
    const struct wp_history *history;
    /* Today's setting: without an objective it is `replicas`. */
    bool has_today;
    struct wp_scale_policy policy;
    uint32_t replicas;
    enum wp_miss miss;
    bool cold_start;  /* Without an objective, too, claims that wait order. */
    int64_t lead_ns;  /* Of every order; 0: as the history measured them. */
    uint32_t at_once; /* Made at once; 0: as many as are ordered. */
    double objectives[WP_ADVICE_OBJECTIVES_MAX]; /* 0.5 .. 0.99999 */
    uint32_t n_objectives; /* 0: 95, 99, 99.5, 99.9, 99.99 %. */
    uint64_t seed;
};

/* What the advice rests on. */
struct wp_advice_facts {
    int64_t from_wall_ns;
    int64_t until_wall_ns;
    int64_t known_ns;  /* Between them, without gaps. */
    int64_t run_up_ns; /* Of that, at the beginning, not counted. */
    uint64_t claims;
    uint64_t dropped; /* Claims that the history had no room for. */
    uint32_t n_gaps;
    uint32_t n_leads; /* Measured. */
    double lead_mean_s;
    double lead_p99_s;
    uint32_t at_once; /* As configured. */
    /* How often a lead time and more asked for more than the fixed size that
     * serves 99 %: times that are apart from each other. */
    uint32_t peaks;
};

struct wp_advice_row {
    enum wp_advice_kind kind;
    char name[WP_ADVICE_NAME_MAX];
    /* How to get it: "objective=99.9% max=64", "replicas=40", ... */
    char setting[WP_ADVICE_SETTING_MAX];
    double objective; /* Of ours; 0 for others. */
    uint32_t size;    /* Of a fixed one; 0 for others. */
    bool done;
    struct wp_replay_result result;
    double hit_low;  /* Of the hit rate, 95 %: misses come in clumps, so from */
    double hit_high; /* the spread between twentieths of the time. */
};

struct wp_advice; /* Opaque. */

/* INVALID_ARGUMENT: the history has no claims, or fewer than ten, or no lead
 * time is known and none is given; RESOURCE_EXHAUSTED. */
enum wp_status wp_advice_create(const struct wp_advice_config *config,
                                struct wp_advice **out, struct wp_err *err);
void wp_advice_destroy(struct wp_advice *advice);
const struct wp_advice_facts *wp_advice_facts(const struct wp_advice *advice);
uint32_t wp_advice_n_rows(const struct wp_advice *advice);
const struct wp_advice_row *wp_advice_row(const struct wp_advice *advice,
                                          uint32_t i);

/* Replays row i. progress as in replay.h, with the share of this row; may be
 * NULL. CANCELLED: it said stop. */
enum wp_status wp_advice_run(struct wp_advice *advice, uint32_t i,
                             bool (*progress)(void *ctx, double share),
                             void *ctx, struct wp_err *err);

/* What follows from the rows that are done, in sentences: first the
 * recommendation, then what makes it doubtful. */
struct wp_advice_words {
    char lines[WP_ADVICE_LINES_MAX][WP_ADVICE_LINE_MAX];
    uint32_t n_lines;
    int recommended; /* The row, or -1: none. */
};
void wp_advice_conclude(const struct wp_advice_facts *facts,
                        const struct wp_advice_row *rows, uint32_t n_rows,
                        struct wp_advice_words *out);

/* The trade-off as SVG (plot.h); freed by the caller. NULL when memory
 * lacks. */
char *wp_advice_svg(const char *pool, const struct wp_advice_facts *facts,
                    const struct wp_advice_row *rows, uint32_t n_rows,
                    size_t *len);

/* Sandboxes made for each claim; 0 without claims. */
double wp_advice_made_per_claim(const struct wp_advice_row *row);

/* "99.9 %", with as many digits as tell it from 100 %. */
void wp_advice_share_format(double share, char *out, size_t cap);

#endif
