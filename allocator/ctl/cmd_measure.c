/* measure: claims and releases one after the other, and shows how long each
 * took from here: the time of client, socket and daemon together. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "allocator/ctl/calls.h"
#include "allocator/ctl/commands.h"
#include "allocator/ctl/print.h"
#include "pool/base/clock.h"
#include "pool/base/rng.h"

enum {
    CLAIMS_DEFAULT = 200,
    WARM_UP = 3, /* Connecting, and first use of everything: not counted. */
};

struct run {
    struct wp_wire_pool_ref pool;
    uint8_t tag[6]; /* In the claim ids, so that runs do not meet. */
    uint32_t wanted;
    uint32_t done;
    uint32_t served[4]; /* By enum wp_served. */
    uint32_t duplicates;
    int64_t *claim_ns; /* One for each claim. */
    int64_t *release_ns;
    /* All that were given, to find one given twice. */
    char (*sandboxes)[WP_SANDBOX_NAME_MAX + 1];
    uint32_t n_sandboxes;
};

static int
compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* Nearest rank of sorted values. */
static int64_t
quantile(const int64_t *sorted, uint32_t n, uint32_t per_mille)
{
    uint32_t rank = (n * per_mille + 999) / 1000;

    return sorted[rank > 0 ? rank - 1 : 0];
}

static int64_t
mean(const int64_t *values, uint32_t n)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += values[i];
    }
    return n > 0 ? sum / n : 0;
}

/* One claim and its release; counted unless it is for warming up. */
static enum wp_status
one(struct wp_ctl *ctl, struct run *run, uint32_t number, bool counted,
    struct wp_ctl_call *call)
{
    const struct wp_clock *clock = wp_clock_system();
    struct wp_wire_claim_response response;
    struct wp_wire_release_request release;
    struct wp_wire_release_response released;
    char hex[2 * sizeof run->tag + 1];
    char id[64];
    struct wp_wire_claim_request request = {
        .pool = run->pool,
        .tenant = wp_str_from(ctl->options.tenant),
        .wait_ms = ctl->options.wait_ns / WP_NS_PER_MS,
    };
    int64_t start;
    int64_t granted;

    wp_hex_encode(run->tag, sizeof run->tag, hex);
    (void)snprintf(id, sizeof id, "measure-%s-%u", hex, number);
    request.claim_id = wp_str_from(id);
    call->wait_ns = ctl->options.wait_ns;
    start = wp_clock_mono_ns(clock);
    if (wp_ctl_call_claim(ctl, &request, &response, call) != WP_OK) {
        return call->err.status;
    }
    granted = wp_clock_mono_ns(clock);
    memcpy(run->sandboxes[run->n_sandboxes++], response.grant->sandbox,
           sizeof *run->sandboxes);
    memcpy(release.token, response.grant->token, sizeof release.token);
    call->wait_ns = 0;
    if (wp_ctl_call_release(ctl, &release, &released, call) != WP_OK) {
        return call->err.status;
    }
    if (counted) {
        run->claim_ns[run->done] = granted - start;
        run->release_ns[run->done] = wp_clock_mono_ns(clock) - granted;
        run->served[response.grant->served]++;
        run->done++;
    }
    return WP_OK;
}

static int
compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* A sandbox is used once: no name may come twice. */
static void
count_duplicates(struct run *run)
{
    qsort(run->sandboxes, run->n_sandboxes, sizeof *run->sandboxes,
          compare_names);
    for (uint32_t i = 1; i < run->n_sandboxes; i++) {
        run->duplicates +=
            strcmp(run->sandboxes[i - 1], run->sandboxes[i]) == 0 ? 1 : 0;
    }
}

static void
pause_for(int64_t ns)
{
    struct timespec ts = {(time_t)(ns / WP_NS_PER_S), (long)(ns % WP_NS_PER_S)};

    (void)nanosleep(&ts, NULL);
}

static enum wp_status
measure(struct wp_ctl *ctl, struct run *run, struct wp_ctl_call *call)
{
    for (uint32_t i = 0; i < run->wanted + WARM_UP; i++) {
        /* Nothing of the last turn is needed: the arena holds one at a time. */
        size_t used = ctl->arena.used;
        enum wp_status status = one(ctl, run, i, i >= WARM_UP, call);

        ctl->arena.used = used;
        if (status != WP_OK) {
            return status;
        }
        if (ctl->options.pause_ns > 0) {
            pause_for(ctl->options.pause_ns);
        }
    }
    return WP_OK;
}

static void
print_json(const struct wp_ctl *ctl, const struct run *run)
{
    const int64_t *c = run->claim_ns;
    const int64_t *r = run->release_ns;
    uint32_t n = run->done;

    wp_print_json(
        ctl->out,
        json_pack("{s:i, s:{s:f, s:f, s:f, s:f, s:f}, s:{s:f, s:f},"
                  " s:i, s:i, s:i, s:i}",
                  "claims", (int)n, "claim_us", "min", (double)c[0] / 1e3,
                  "p50", (double)quantile(c, n, 500) / 1e3, "p99",
                  (double)quantile(c, n, 990) / 1e3, "max",
                  (double)c[n - 1] / 1e3, "mean", (double)mean(c, n) / 1e3,
                  "release_us", "p50", (double)quantile(r, n, 500) / 1e3, "p99",
                  (double)quantile(r, n, 990) / 1e3, "warm",
                  (int)run->served[WP_SERVED_WARM], "queued",
                  (int)run->served[WP_SERVED_QUEUED], "cold",
                  (int)run->served[WP_SERVED_COLD], "duplicates",
                  (int)run->duplicates),
        true);
}

static void
print_table(const struct wp_ctl *ctl, const struct run *run)
{
    static const char *const titles[] = {"",    "CLAIMS", "P50",       "P90",
                                         "P99", "MAX",    "PER SECOND"};
    const struct {
        const char *name;
        const int64_t *ns;
    } rows[] = {{"claim", run->claim_ns}, {"release", run->release_ns}};
    uint32_t n = run->done;
    struct wp_table table;
    char text[32];

    wp_table_init(&table, titles, 7, 0x7e);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        wp_table_add(&table, "%s", rows[i].name);
        wp_table_add(&table, "%u", n);
        wp_table_add(&table, "%s",
                     wp_print_duration(quantile(rows[i].ns, n, 500), text));
        wp_table_add(&table, "%s",
                     wp_print_duration(quantile(rows[i].ns, n, 900), text));
        wp_table_add(&table, "%s",
                     wp_print_duration(quantile(rows[i].ns, n, 990), text));
        wp_table_add(&table, "%s", wp_print_duration(rows[i].ns[n - 1], text));
        wp_table_add(&table, "%.0f", 1e9 / (double)mean(rows[i].ns, n));
    }
    wp_table_print(&table, ctl->out);
    (void)fprintf(ctl->out, "%.1f %% warm, %u queued, %u cold, %u duplicates\n",
                  100.0 * run->served[WP_SERVED_WARM] / n,
                  run->served[WP_SERVED_QUEUED], run->served[WP_SERVED_COLD],
                  run->duplicates);
    wp_table_fini(&table);
}

int
wp_cmd_measure(struct wp_ctl *ctl)
{
    struct run run = {.wanted = ctl->options.claims != 0 ? ctl->options.claims
                                                         : CLAIMS_DEFAULT};
    struct wp_ctl_call call = {.wait_ns = 0};

    if (wp_ctl_pool_parse(ctl, ctl->options.args[0], &run.pool, &call.err) !=
        WP_OK) {
        return wp_ctl_usage(ctl, &call.err);
    }
    if (ctl->options.wait_ns == 0) {
        ctl->options.wait_ns = 10 * WP_NS_PER_S;
    }
    wp_random_bytes(run.tag, sizeof run.tag);
    run.claim_ns = wp_ctl_alloc(ctl, run.wanted * sizeof *run.claim_ns);
    run.release_ns = wp_ctl_alloc(ctl, run.wanted * sizeof *run.release_ns);
    run.sandboxes =
        wp_ctl_alloc(ctl, (run.wanted + WARM_UP) * sizeof *run.sandboxes);
    if (measure(ctl, &run, &call) != WP_OK) {
        return wp_ctl_fail(ctl, &call.err, call.retry_after_ns);
    }
    count_duplicates(&run);
    qsort(run.claim_ns, run.done, sizeof *run.claim_ns, compare);
    qsort(run.release_ns, run.done, sizeof *run.release_ns, compare);
    if (ctl->options.output == WP_OUTPUT_JSON) {
        print_json(ctl, &run);
    } else {
        print_table(ctl, &run);
    }
    return run.duplicates == 0 ? WP_EXIT_OK : WP_EXIT_FAILED;
}
