/* bench/harness/scenario.h - loads that have a name, and those from files. */
#ifndef WP_BENCH_HARNESS_SCENARIO_H
#define WP_BENCH_HARNESS_SCENARIO_H

#include "bench/harness/plan.h"
#include "pool/base/arena.h"

enum {
    WP_SCENARIO_PHASES_MAX = 8,
    WP_SCENARIO_FILE_MAX = 1 << 16,
};

struct wp_scenario {
    const char *name;
    const char *summary; /* One line. */
    /* Each "KEY=VALUE KEY=VALUE ...", with the phase's name first. */
    const char *phases[WP_SCENARIO_PHASES_MAX];
};

/* All that there are; the last has no name. */
extern const struct wp_scenario wp_scenarios[];

/* The phases of a plan: of its scenario, if it has one, over base; then what
 * the command line said (overrides: n pairs of key and value) over each; then
 * one for each of its steps. INVALID_ARGUMENT: err names the
 * word, or the file's line. */
struct wp_plan_word {
    const struct wp_key *key;
    const char *value;
};
struct wp_phases {
    struct wp_plan *plans; /* Room for max; n of them are. */
    uint32_t max;
    uint32_t n;
    struct wp_region region; /* Zeroed at first; for the owner to free. */
};
enum wp_status wp_scenario_phases(const struct wp_plan *base,
                                  const struct wp_plan_word *overrides,
                                  size_t n_overrides, struct wp_phases *out,
                                  struct wp_err *err);
/* The same of a file's bytes alone, without overrides and steps. */
enum wp_status wp_scenario_parse(const struct wp_plan *base, const char *file,
                                 struct wp_str text, struct wp_phases *out,
                                 struct wp_err *err);

#endif
