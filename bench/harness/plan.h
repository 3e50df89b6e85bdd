/* bench/harness/plan.h - what warmpool-load is to do: one table of keys.
 *
 * A key is an option (--rate 500), a line of a scenario file (rate: 500) and a
 * word of a named scenario (rate=500), with one meaning, one check and one
 * sentence of help. Strings are borrowed from whoever said them. One thread. */
#ifndef WP_BENCH_HARNESS_PLAN_H
#define WP_BENCH_HARNESS_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

enum wp_arrivals_kind {
    WP_ARRIVALS_CLOSED,   /* Workers that never pause but for pause_ns. */
    WP_ARRIVALS_CONSTANT, /* Every 1/rate s. */
    WP_ARRIVALS_POISSON,  /* Independent, rate a second in the mean. */
    WP_ARRIVALS_BURST,    /* So many at once, again and again. */
    WP_ARRIVALS_CSV,      /* When a pool's record says. */
};

enum wp_plan_output {
    WP_PLAN_TABLE,
    WP_PLAN_JSON,
    WP_PLAN_JSONL,
    WP_PLAN_CSV,
};

enum {
    WP_PLAN_NAME_MAX = 63, /* Of a namespace, a pool, a phase. */
    WP_PLAN_STEPS_MAX = 32,
    WP_PLAN_CONNECTIONS_MAX = 64, /* Of one thread. */
    WP_PLAN_IN_FLIGHT_MAX = 100000,
    WP_PLAN_BATCH_MAX = 256,
    WP_PLAN_KEPT_DEFAULT = 1000000,
};

struct wp_plan {
    /* The target. */
    const char *address; /* NULL: the daemon's default socket. */
    const char *against; /* A second one, by turns; NULL: none. */
    /* SandboxClaims at an API server, when one of the two is said. */
    const char *kubeconfig;
    bool in_cluster;
    const char *context; /* Of kubeconfig; NULL: its current one. */
    const char *tls_ca;
    const char *tls_cert;
    const char *tls_key;
    const char *tls_name;
    const char *access_token_file;
    char pool_namespace[WP_PLAN_NAME_MAX + 1];
    char pool[WP_PLAN_NAME_MAX + 1];
    const char *tenant;
    bool echo;  /* It is echo_server: nothing is leased nor checked. */
    bool blind; /* Nothing is asked but the load itself. */

    /* The load. */
    char name[WP_PLAN_NAME_MAX + 1]; /* Of this phase. */
    enum wp_arrivals_kind arrivals;
    double rate_per_s;
    double steps[WP_PLAN_STEPS_MAX]; /* Rates, each a phase of its own. */
    uint32_t n_steps;
    bool until_saturated; /* Steps end with the first that is too much. */
    uint32_t burst;
    int64_t every_ns; /* Between bursts. */
    const char *csv;
    double speed; /* Of the record: 2 is twice as fast. */
    int64_t duration_ns;
    uint64_t claims; /* Ends the phase; 0: duration_ns does. */
    int64_t warmup_ns;
    uint32_t concurrency; /* Closed loop: workers. */
    uint32_t in_flight;   /* Open loop: claims under way, held ones too. */
    uint32_t connections; /* All threads together. */
    uint32_t threads;
    int64_t pause_ns;
    int64_t hold_ns; /* From the grant to the release. */
    int64_t wait_ns;
    int64_t ttl_ns; /* 0: the pool's. */
    int64_t timeout_ns;
    uint32_t batch;     /* Claims of one call; 0: Claim, not ClaimBatch. */
    uint32_t ahead;     /* Leases that each thread has ahead; 0: none. */
    uint32_t tenants;   /* Claims by so many in turn; 0: by one. */
    uint32_t pool_size; /* Set before the phase, if has_pool_size. */
    bool has_pool_size;
    bool keep;  /* Nothing is released until the load is over. */
    bool leave; /* Nothing is released at all. */
    bool spin;
    uint64_t seed;
    uint32_t turns; /* How often the phases are run, of each target. */
    pid_t server_pid;

    /* What it has to reach. */
    uint64_t samples_min;
    double granted_min; /* Share of claims. */
    int64_t p99_max_ns; /* 0: any. */
    double growth_max;  /* Of the target's memory, a share; 0: any. */

    /* What it writes. */
    enum wp_plan_output output;
    bool quiet;
    uint64_t kept; /* Records of single claims, at most. */
    const char *hgrm;
    const char *pkb;
    const char *pkb_records;
    const char *summary;
    const char *report;
    const char *scenario;
    bool help;
};

/* What a key takes. */
enum wp_key_type {
    WP_KEY_TEXT,
    WP_KEY_FLAG, /* "true" or "false"; an option without a value. */
    WP_KEY_COUNT,
    WP_KEY_NUMBER,
    WP_KEY_DURATION,
    WP_KEY_SHARE, /* "99%" or 0.99. */
    WP_KEY_RATES, /* "500,1000,2000" */
    WP_KEY_WORD,  /* One of words. */
    WP_KEY_PID,
};

/* Where the help shows it. */
enum wp_key_group {
    WP_KEY_TARGET,
    WP_KEY_LOAD,
    WP_KEY_CHECK,
    WP_KEY_OUTPUT,
    WP_KEY_GROUPS,
};

struct wp_key {
    const char *name;
    const char *alias; /* What users of other tools call it; NULL: none. */
    char letter;
    enum wp_key_type type;
    enum wp_key_group group;
    bool in_files; /* May be in a scenario. */
    size_t offset; /* In struct wp_plan. */
    double min;    /* Durations: seconds. */
    double max;
    const char *const *words; /* Ends with NULL. */
    const char *operand;      /* "N"; NULL for a flag. */
    const char *help;
};

extern const struct wp_key wp_plan_keys[];
extern const size_t wp_plan_n_keys;
extern const char *const wp_arrivals_words[];

void wp_plan_init(struct wp_plan *plan);
/* The key of that name or alias; NULL: none. */
const struct wp_key *wp_plan_key(struct wp_str name);
/* text is terminated and is kept where the key is a text. INVALID_ARGUMENT: err
 * names the key and what was expected; the plan is as it was. */
enum wp_status wp_plan_set(struct wp_plan *plan, const struct wp_key *key,
                           const char *text, struct wp_err *err);
/* Is the load SandboxClaim objects? */
bool wp_plan_has_objects(const struct wp_plan *plan);
/* "NAMESPACE/POOL" or "POOL". */
enum wp_status wp_plan_set_pool(struct wp_plan *plan, const char *text,
                                struct wp_err *err);
/* Does what was said of that key have an effect on the plan, as it has become?
 * INVALID_ARGUMENT: other keys have chosen other arrivals; err says so. */
enum wp_status wp_plan_check_use(const struct wp_plan *plan,
                                 const struct wp_key *key, const char *text,
                                 struct wp_err *err);
/* Do the values go together, and does the process have the descriptors? */
enum wp_status wp_plan_check(const struct wp_plan *plan, struct wp_err *err);

#endif
