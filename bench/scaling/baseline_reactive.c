/* bench/scaling/baseline_reactive.c - Knative's and OpenWhisk's ways. */
#include <math.h>
#include <stdlib.h>

#include "pool/base/clock.h"
#include "bench/scaling/baseline_parts.h"

#define KPA_TICK_NS (2 * WP_NS_PER_S)
#define KPA_STABLE_NS (60 * WP_NS_PER_S)
#define KPA_PANIC_THRESHOLD 2.0
#define KPA_UP_MAX 1000.0
#define KPA_DOWN_MAX 2.0
#define OPENWHISK_PERIOD_NS (60 * WP_NS_PER_S)

enum {
    KPA_STABLE_TICKS = 30,
    KPA_PANIC_TICKS = 3,
    OPENWHISK_MINUTES = 64,
};

struct kpa {
    struct wp_baseline_config config;
    int64_t due_ns;
    int64_t seen_ns;
    double concurrency;             /* In use and waiting, since seen_ns. */
    double busy_ns;                 /* Its integral since the last tick. */
    double ticks[KPA_STABLE_TICKS]; /* Means of the last ones. */
    uint32_t n_ticks;
    uint64_t missed[KPA_PANIC_TICKS]; /* In all, by the last ticks. */
    bool panics;
    int64_t panic_ns;
    double panic_pods;
    uint32_t pods;
};

static double
mean_of_last(const struct kpa *kpa, uint32_t n)
{
    double sum = 0;

    n = n < kpa->n_ticks ? n : kpa->n_ticks;
    for (uint32_t i = 1; i <= n; i++) {
        sum += kpa->ticks[(kpa->n_ticks - i) % KPA_STABLE_TICKS];
    }
    return n == 0 ? 0 : sum / n;
}

/* A claim that missed within the panic window is a request that waits, not one
 * of the pods. */
static void
kpa_tick(struct kpa *kpa, const struct wp_replay_view *view)
{
    uint64_t missed =
        view->missed - kpa->missed[kpa->n_ticks % KPA_PANIC_TICKS];
    double pods = fmax(1, (double)view->in_use + view->ready - (double)missed);
    double utilisation = kpa->config.a / 100;
    double up = ceil(KPA_UP_MAX * pods);
    double down = floor(pods / KPA_DOWN_MAX);
    double stable;
    double panic;

    kpa->missed[kpa->n_ticks % KPA_PANIC_TICKS] = view->missed;
    kpa->ticks[kpa->n_ticks++ % KPA_STABLE_TICKS] =
        kpa->busy_ns / (double)KPA_TICK_NS;
    kpa->busy_ns = 0;
    stable = ceil(mean_of_last(kpa, KPA_STABLE_TICKS) / utilisation);
    panic = ceil(mean_of_last(kpa, KPA_PANIC_TICKS) / utilisation);
    if (panic / pods >= KPA_PANIC_THRESHOLD) {
        kpa->panics = true;
        kpa->panic_ns = view->now_ns;
    } else if (kpa->panics && view->now_ns - kpa->panic_ns > KPA_STABLE_NS) {
        kpa->panics = false;
        kpa->panic_pods = 0;
    }
    stable = fmin(fmax(stable, down), up);
    if (kpa->panics) {
        stable = fmax(stable, fmin(fmax(panic, down), up));
        kpa->panic_pods = fmax(kpa->panic_pods, stable);
        stable = kpa->panic_pods;
    }
    kpa->pods = wp_baseline_clamp(&kpa->config, stable);
}

static uint32_t
kpa_target(void *self, const struct wp_replay_view *view, int64_t *next_ns)
{
    struct kpa *kpa = self;

    kpa->busy_ns += kpa->concurrency * (double)(view->now_ns - kpa->seen_ns);
    kpa->concurrency = (double)view->in_use + view->waiting;
    kpa->seen_ns = view->now_ns;
    if (wp_baseline_is_due(&kpa->due_ns, KPA_TICK_NS, view->now_ns)) {
        kpa_tick(kpa, view);
    }
    *next_ns = kpa->due_ns;
    return wp_baseline_stock_of_all(kpa->pods, view->in_use);
}

bool
wp_baseline_create_kpa(const struct wp_baseline_config *config,
                       struct wp_replay_policy *out)
{
    struct kpa *kpa = calloc(1, sizeof(*kpa));

    if (kpa == NULL) {
        return false;
    }
    kpa->config = *config;
    out->self = kpa;
    out->target = kpa_target;
    return true;
}

struct openwhisk {
    struct wp_baseline_config config;
    int64_t due_ns;
    uint32_t size;
    uint64_t missed;                   /* By the end of the last minute. */
    uint64_t removed;                  /* Those given up as unused. */
    uint64_t ready[OPENWHISK_MINUTES]; /* became_ready, minute by minute. */
    uint32_t minutes;
};

/* Those that became ready longer than the time to live ago, and were neither
 * taken nor removed since: the oldest are taken first. */
static uint64_t
unused(const struct openwhisk *openwhisk, const struct wp_replay_view *view)
{
    double ttl_s = openwhisk->config.b;
    uint32_t ago = (uint32_t)ceil(ttl_s * (double)WP_NS_PER_S /
                                  (double)OPENWHISK_PERIOD_NS);
    uint64_t gone = view->claims - view->missed + openwhisk->removed;
    uint64_t old;

    if (ago >= OPENWHISK_MINUTES || ago > openwhisk->minutes) {
        return 0;
    }
    old = openwhisk->ready[(openwhisk->minutes - ago) % OPENWHISK_MINUTES];
    return old > gone ? old - gone : 0;
}

static uint32_t
openwhisk_target(void *self, const struct wp_replay_view *view,
                 int64_t *next_ns)
{
    struct openwhisk *openwhisk = self;

    if (wp_baseline_is_due(&openwhisk->due_ns, OPENWHISK_PERIOD_NS,
                           view->now_ns)) {
        double cold = (double)(view->missed - openwhisk->missed);
        double old = (double)unused(openwhisk, view);
        double kept = fmax(openwhisk->size - old, openwhisk->config.min);

        openwhisk->removed += (uint64_t)fmax(openwhisk->size - kept, 0);
        /* Set, not added: cold starts do not add up over the minutes. */
        openwhisk->size = wp_baseline_clamp(
            &openwhisk->config, fmax(kept, floor(cold * openwhisk->config.a)));
        openwhisk->missed = view->missed;
        openwhisk->ready[openwhisk->minutes++ % OPENWHISK_MINUTES] =
            view->became_ready;
    }
    *next_ns = openwhisk->due_ns;
    return openwhisk->size;
}

bool
wp_baseline_create_openwhisk(const struct wp_baseline_config *config,
                             struct wp_replay_policy *out)
{
    struct openwhisk *openwhisk = calloc(1, sizeof(*openwhisk));

    if (openwhisk == NULL) {
        return false;
    }
    openwhisk->config = *config;
    openwhisk->size = config->min;
    out->self = openwhisk;
    out->target = openwhisk_target;
    return true;
}
