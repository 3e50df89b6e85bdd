/* bench/scaling/baseline_parts.h - what the baselines have in common, and
 * how the table in baseline.c makes each. Private to baseline*.c. */
#ifndef WP_BENCH_SCALING_BASELINE_PARTS_H
#define WP_BENCH_SCALING_BASELINE_PARTS_H

#include "pool/base/compiler.h"
#include "bench/scaling/baseline.h"

/* Fills self and target, and what else it needs of out; destroy is free unless
 * it sets its own. False when memory lacks. */
typedef bool (*wp_baseline_create_fn)(const struct wp_baseline_config *config,
                                      struct wp_replay_policy *out);

bool wp_baseline_create_fixed(const struct wp_baseline_config *config,
                              struct wp_replay_policy *out);
bool wp_baseline_create_hpa(const struct wp_baseline_config *config,
                            struct wp_replay_policy *out);
bool wp_baseline_create_keda(const struct wp_baseline_config *config,
                             struct wp_replay_policy *out);
bool wp_baseline_create_agones_buffer(const struct wp_baseline_config *config,
                                      struct wp_replay_policy *out);
bool wp_baseline_create_agones_percent(const struct wp_baseline_config *config,
                                       struct wp_replay_policy *out);
bool wp_baseline_create_opensandbox(const struct wp_baseline_config *config,
                                    struct wp_replay_policy *out);
bool wp_baseline_create_watermark(const struct wp_baseline_config *config,
                                  struct wp_replay_policy *out);
bool wp_baseline_create_in_use_plus(const struct wp_baseline_config *config,
                                    struct wp_replay_policy *out);
bool wp_baseline_create_openwhisk(const struct wp_baseline_config *config,
                                  struct wp_replay_policy *out);
bool wp_baseline_create_kpa(const struct wp_baseline_config *config,
                            struct wp_replay_policy *out);
bool wp_baseline_create_rule(const struct wp_baseline_config *config,
                             struct wp_replay_policy *out);
bool wp_baseline_create_erlang(const struct wp_baseline_config *config,
                               struct wp_replay_policy *out);
bool wp_baseline_create_clairvoyant(const struct wp_baseline_config *config,
                                    struct wp_replay_policy *out);

/* n within the config's min and max. */
uint32_t wp_baseline_clamp(const struct wp_baseline_config *config, double n);
/* A control loop of a fixed period, in phase with its first call: true once a
 * period. *due_ns is 0 before the first call, then when it is true next. */
WP_MUST_CHECK bool wp_baseline_is_due(int64_t *due_ns, int64_t period_ns,
                                      int64_t now_ns);
/* Of so many in all, those in use left out: what is to be ready and warming. */
uint32_t wp_baseline_stock_of_all(uint32_t all, uint32_t in_use);

/* The highest of the recommendations of the last so many periods. */
enum {
    WP_BASELINE_RECENT_MAX = 20,
};
struct wp_baseline_recent {
    uint32_t values[WP_BASELINE_RECENT_MAX];
    uint32_t n;
};
uint32_t wp_baseline_recent_max(struct wp_baseline_recent *recent,
                                uint32_t value);

#endif
