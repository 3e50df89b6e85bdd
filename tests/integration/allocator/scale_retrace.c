/* The decisions of a pool's snapshot (pool/sizing/snapshot.c), taken again.
 *
 *     scale_retrace SNAPSHOT KEY=VALUE...
 *
 * with the keys of the pool's policy; one decision a line, as JSON with the
 * numbers of `warmpoolctl explain`. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/refill/refill.h"
#include "tests/support/pool/retrace.h"

enum {
    HEAD_LEN = 32,
    SNAPSHOT_MAX = 1 << 20,
};

static void
die(const char *what)
{
    (void)fprintf(stderr, "scale_retrace: %s\n", what);
    exit(2);
}

static void
print_number(const char *name, double value)
{
    if (isfinite(value)) {
        (void)printf(", \"%s\": %.17g", name, value);
    } else {
        (void)printf(", \"%s\": null", name);
    }
}

static void
print_decision(void *ctx, const struct wp_scale_decision *d)
{
    (void)ctx;
    (void)printf("{\"number\": %llu, \"unix_ms\": %lld, \"target_before\": %u, "
                 "\"target\": %u, \"wanted\": %u, \"reason\": \"%s\", "
                 "\"learned\": %s, \"reserved\": %u, \"floor\": %u",
                 (unsigned long long)d->number,
                 (long long)(d->wall_ns / WP_NS_PER_MS), d->target_before,
                 d->target, d->wanted, wp_scale_reason_word(d->reason),
                 d->learned ? "true" : "false", d->reserved, d->floor);
    print_number("rate_per_s", d->rate_per_s);
    print_number("rate_fast_per_s", d->rate_fast_per_s);
    print_number("rate_slow_per_s", d->rate_slow_per_s);
    print_number("lead_mean_s", d->lead_mean_s);
    print_number("lead_p99_s", d->lead_p99_s);
    print_number("expected", d->expected);
    print_number("spread", d->spread);
    print_number("dispersion", d->dispersion);
    print_number("hit_rate", d->hit_rate);
    print_number("idle", d->idle);
    print_number("hit_rate_seen", d->hit_rate_seen);
    print_number("hit_rate_best", d->hit_rate_best);
    (void)printf("}\n");
}

static struct wp_history *
read_history(const char *path)
{
    static unsigned char snapshot[SNAPSHOT_MAX];
    FILE *file = fopen(path, "rb");
    struct wp_history *history = wp_history_create(SNAPSHOT_MAX);
    struct wp_err err;
    size_t len;
    size_t learned;

    if (file == NULL || history == NULL) {
        die("cannot read the note");
    }
    len = fread(snapshot, 1, sizeof snapshot, file);
    (void)fclose(file);
    if (len < HEAD_LEN || memcmp(snapshot, "WPN1", 4) != 0) {
        die("that is no note");
    }
    learned = snapshot[6] | (size_t)snapshot[7] << 8;
    if (learned > len - HEAD_LEN ||
        wp_history_load(history, snapshot + HEAD_LEN + learned,
                        len - HEAD_LEN - learned, &err) != WP_OK) {
        die("the snapshot has no history");
    }
    return history;
}

int
main(int argc, char **argv)
{
    struct wp_scale_policy policy;
    struct wp_retrace retrace = {.policy = &policy,
                                 .miss = WP_MISS_QUEUED,
                                 .prior_lead_ns = WP_REFILL_LEAD_GUESS_NS,
                                 .decided = print_decision};
    struct wp_history *history;
    struct wp_err err;

    if (argc < 2) {
        die("a snapshot expected");
    }
    wp_scale_policy_init(&policy);
    for (int i = 2; i < argc; i++) {
        char *value = strchr(argv[i], '=');

        if (value == NULL) {
            die("KEY=VALUE expected");
        }
        *value++ = '\0';
        if (wp_scale_policy_set(&policy, wp_str_from(argv[i]),
                                wp_str_from(value), &err) != WP_OK) {
            die(err.msg);
        }
    }
    history = read_history(argv[1]);
    retrace.history = history;
    if (wp_retrace_run(&retrace, &err) != WP_OK) {
        die(err.msg);
    }
    wp_history_destroy(history);
    return 0;
}
