#include "bench/harness/plan.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <sys/resource.h>

#include "pool/base/clock.h"
#include "pool/base/duration.h"
#include "pool/limits.h"

#define AT(field) offsetof(struct wp_plan, field)
#define TEXT(name, alias, letter, group, field, operand, help)                 \
    {                                                                          \
        name, alias, letter, WP_KEY_TEXT, group, false, AT(field), 0, 0, NULL, \
            operand, help                                                      \
    }
#define FLAG(name, letter, group, in_files, field, help)                       \
    {                                                                          \
        name, NULL, letter, WP_KEY_FLAG, group, in_files, AT(field), 0, 0,     \
            NULL, NULL, help                                                   \
    }
#define LOAD(name, alias, letter, type, field, min, max, operand, help)        \
    {                                                                          \
        name, alias, letter, type, WP_KEY_LOAD, true, AT(field), min, max,     \
            NULL, operand, help                                                \
    }

const char *const wp_arrivals_words[] = {"closed", "constant", "poisson",
                                         "burst",  "csv",      NULL};
static const char *const output_words[] = {"table", "json", "jsonl", "csv",
                                           NULL};

const struct wp_key wp_plan_keys[] = {
    TEXT("address", NULL, 'a', WP_KEY_TARGET, address, "ADDR",
         "Where the target serves gRPC: unix:/path or host:port. Default: "
         "$WARMPOOL_ADDRESS, else the daemon's default socket."),
    TEXT("against", NULL, 0, WP_KEY_TARGET, against, "ADDR",
         "A second target: both get the same load by turns, and are compared. "
         "With --kubeconfig: another context of it, or a file (its name has a "
         "'/')."),
    TEXT("kubeconfig", NULL, 'k', WP_KEY_TARGET, kubeconfig, "FILE",
         "Create SandboxClaim objects at this API server, instead of calling "
         "gRPC."),
    TEXT("context", NULL, 0, WP_KEY_TARGET, context, "NAME",
         "The context of --kubeconfig. Default: its current one."),
    FLAG("in-cluster", 0, WP_KEY_TARGET, false, in_cluster,
         "The same from within a Pod, by its service account."),
    TEXT("tls-ca", "cacert", 0, WP_KEY_TARGET, tls_ca, "FILE",
         "Use TLS; authorities (PEM) that sign the target's certificate."),
    TEXT("tls-cert", "cert", 0, WP_KEY_TARGET, tls_cert, "FILE",
         "This client's certificate chain (PEM)."),
    TEXT("tls-key", "key", 0, WP_KEY_TARGET, tls_key, "FILE",
         "The key of --tls-cert (PEM)."),
    TEXT("tls-name", "cname", 0, WP_KEY_TARGET, tls_name, "NAME",
         "The name in the target's certificate, when it is not the host's."),
    TEXT("access-token-file", NULL, 0, WP_KEY_TARGET, access_token_file, "FILE",
         "File with the daemon's access token, sent with calls over TCP."),
    TEXT("tenant", NULL, 0, WP_KEY_TARGET, tenant, "NAME",
         "Whose claims they are, where the daemon does not know it."),
    FLAG("echo", 0, WP_KEY_TARGET, false, echo,
         "The target is the bare echo server: it leases nothing."),
    FLAG("blind", 0, WP_KEY_TARGET, false, blind,
         "Ask the target for nothing but the load: its stock is not seen, and "
         "leases that are left are not looked for."),
    {"server-pid", NULL, 0, WP_KEY_PID, WP_KEY_TARGET, false, AT(server_pid), 1,
     4194304, NULL, "PID",
     "Whose processor time is taken. Default: that of a Unix socket's other "
     "end."},

    TEXT("scenario", NULL, 's', WP_KEY_LOAD, scenario, "NAME|FILE",
         "A named load (warmpool-load scenarios lists them) or a YAML file of "
         "these keys; options win over it."),
    {"arrivals", "executor", 0, WP_KEY_WORD, WP_KEY_LOAD, true, AT(arrivals), 0,
     0, wp_arrivals_words, "KIND",
     "closed (workers that wait for their answers), or open: constant, "
     "poisson, burst, csv. Default: constant with --rate, else closed."},
    LOAD("rate", "rps", 'r', WP_KEY_NUMBER, rate_per_s, 0.001, 10e6, "N",
         "Open loop: claims due per second, whatever the target does."),
    LOAD("steps", "stages", 0, WP_KEY_RATES, steps, 0.001, 10e6, "N,N,...",
         "Open loop: these rates, each for --duration, one after the other."),
    LOAD("until-saturated", NULL, 0, WP_KEY_FLAG, until_saturated, 0, 0, NULL,
         "End --steps with the first rate that is not reached to 95 %."),
    LOAD("burst", NULL, 0, WP_KEY_COUNT, burst, 1, 100000, "N",
         "Open loop: N claims at once."),
    LOAD("every", NULL, 0, WP_KEY_DURATION, every_ns, 0.001, 86400, "TIME",
         "Time from one burst to the next. Default: 10s."),
    {"csv", NULL, 0, WP_KEY_TEXT, WP_KEY_LOAD, true, AT(csv), 0, 0, NULL,
     "FILE",
     "Open loop: claims when this record of a pool says, a TIME or TIME,COUNT "
     "a line; - is standard input. Times are kept to 10 ms. It ends with the "
     "record, or after --claims."},
    LOAD("speed", NULL, 0, WP_KEY_NUMBER, speed, 0.001, 1000, "X",
         "Replay --csv X times as fast. Default: 1."),
    LOAD("duration", NULL, 'd', WP_KEY_DURATION, duration_ns, 0.001, 604800,
         "TIME", "How long, after the warm-up. Default: 10s."),
    LOAD("claims", "total", 'n', WP_KEY_COUNT, claims, 1, 1e9, "N",
         "End after N claims instead (k6: iterations)."),
    LOAD("warmup", NULL, 0, WP_KEY_DURATION, warmup_ns, 0, 3600, "TIME",
         "Load before it that is not counted. Default: none."),
    LOAD("concurrency", "vus", 'c', WP_KEY_COUNT, concurrency, 1,
         WP_PLAN_IN_FLIGHT_MAX, "N",
         "Closed loop: workers, each with one call at a time. Default: 1."),
    LOAD("max-in-flight", "max-vus", 0, WP_KEY_COUNT, in_flight, 1,
         WP_PLAN_IN_FLIGHT_MAX, "N",
         "Open loop: claims under way or held at most; more start late, and "
         "are timed from when they were due. Default: 10000."),
    LOAD("connections", NULL, 0, WP_KEY_COUNT, connections, 1, 4096, "N",
         "Connections to the target. Default: 1 for each thread."),
    LOAD("threads", "cpus", 0, WP_KEY_COUNT, threads, 1, 64, "N",
         "Threads that send and receive. Default: 1."),
    LOAD("pause", NULL, 0, WP_KEY_DURATION, pause_ns, 0, 3600, "TIME",
         "Closed loop: rest of a worker between two claims."),
    LOAD("hold", "claim-dwell", 0, WP_KEY_DURATION, hold_ns, 0, 86400, "TIME",
         "How long a sandbox is kept before it is released."),
    LOAD("wait", NULL, 'w', WP_KEY_DURATION, wait_ns, 0, 600, "TIME",
         "Asked for in each claim: how long to wait for a sandbox. Default: "
         "5s; 0 takes only what is ready."),
    LOAD("ttl", NULL, 0, WP_KEY_DURATION, ttl_ns, 1, 2592000, "TIME",
         "How long a lease lasts that nobody releases. Default: the pool's."),
    LOAD("timeout", NULL, 0, WP_KEY_DURATION, timeout_ns, 0.001, 3600, "TIME",
         "How long a call may take besides --wait; questions about the pool "
         "have 2s at least. Default: 10s."),
    LOAD("batch", NULL, 0, WP_KEY_COUNT, batch, 1, WP_PLAN_BATCH_MAX, "N",
         "Claim N sandboxes in one call (ClaimBatch)."),
    LOAD("ahead", NULL, 0, WP_KEY_COUNT, ahead, 1, 256, "N",
         "Have N leases granted ahead of need for each thread (ClaimStream): a "
         "claim takes one of them, or is made as ever when there is none."),
    LOAD("tenants", NULL, 0, WP_KEY_COUNT, tenants, 1, 10000, "N",
         "Claim for N tenants in turn, load-0 and on; the daemon must let "
         "this caller name them."),
    LOAD("pool-size", NULL, 0, WP_KEY_COUNT, pool_size, 0, 1048576, "N",
         "Give the pool this target and wait until it is ready before the "
         "load; put back afterwards. Needs the admin right."),
    LOAD("keep", NULL, 0, WP_KEY_FLAG, keep, 0, 0, NULL,
         "Release nothing until the load is over."),
    LOAD("leave", NULL, 0, WP_KEY_FLAG, leave, 0, 0, NULL,
         "Release nothing at all: the target keeps what was granted."),
    FLAG("spin", 0, WP_KEY_LOAD, true, spin,
         "Look for answers without ever sleeping: a whole core for each "
         "thread, but no wake-up in the figures."),
    {"seed", NULL, 0, WP_KEY_COUNT, WP_KEY_LOAD, true, AT(seed), 0, 1e15, NULL,
     "N", "Of poisson arrivals; the same seed, the same times. Default: 1."},
    {"turns", NULL, 0, WP_KEY_COUNT, WP_KEY_LOAD, true, AT(turns), 1, 1000,
     NULL, "N",
     "Run all of it N times; by turns with --against. Default: 1; with "
     "--against 5."},

    {"min-samples", NULL, 0, WP_KEY_COUNT, WP_KEY_CHECK, true, AT(samples_min),
     0, 1e9, NULL, "N",
     "Fail with fewer claims granted in a phase. Default: 10."},
    {"min-granted", NULL, 0, WP_KEY_SHARE, WP_KEY_CHECK, true, AT(granted_min),
     0, 1, NULL, "SHARE",
     "Fail when fewer of the claims were granted. Default: 99%."},
    {"max-p99", NULL, 0, WP_KEY_DURATION, WP_KEY_CHECK, true, AT(p99_max_ns),
     0.000001, 3600, NULL, "TIME",
     "Fail when a claim's p99 is longer (k6: a threshold)."},
    {"max-growth", NULL, 0, WP_KEY_SHARE, WP_KEY_CHECK, true, AT(growth_max), 0,
     1, NULL, "SHARE",
     "Fail when the target's memory grows by more, from the first to the last "
     "tenth of a phase, or its descriptors do."},

    {"output", "format", 'o', WP_KEY_WORD, WP_KEY_OUTPUT, false, AT(output), 0,
     0, output_words, "FORMAT",
     "table (for people), json (the summary), jsonl or csv (each claim). "
     "Default: table."},
    TEXT("report", NULL, 0, WP_KEY_OUTPUT, report, "FILE",
         "A page with plots, of one file: .html; or .svg, its first plot."),
    TEXT("hgrm", NULL, 0, WP_KEY_OUTPUT, hgrm, "FILE",
         "Percentiles of the claims' latency as HdrHistogram's plotter reads "
         "them, in milliseconds."),
    TEXT("pkb", NULL, 0, WP_KEY_OUTPUT, pkb, "FILE",
         "PerfKitBenchmarker's samples, one JSON object a line."),
    TEXT("pkb-records", NULL, 0, WP_KEY_OUTPUT, pkb_records, "FILE",
         "What PerfKitBenchmarker's agent_sandbox_metrics reads: a record for "
         "each claim."),
    TEXT("summary", NULL, 0, WP_KEY_OUTPUT, summary, "FILE",
         "agent-sandbox's summary.json."),
    {"keep-records", NULL, 0, WP_KEY_COUNT, WP_KEY_OUTPUT, false, AT(kept), 0,
     50e6, NULL, "N",
     "Records of single claims to keep, of a thread and phase (56 bytes "
     "each). Default: 1000000."},
    FLAG("quiet", 'q', WP_KEY_OUTPUT, false, quiet,
         "No progress on standard error."),
    FLAG("help", 'h', WP_KEY_OUTPUT, false, help, "Explain all this."),
};
const size_t wp_plan_n_keys = WP_ARRAY_LEN(wp_plan_keys);

void
wp_plan_init(struct wp_plan *plan)
{
    *plan = (struct wp_plan){
        .pool_namespace = "default",
        .every_ns = 10 * WP_NS_PER_S,
        .speed = 1,
        .duration_ns = 10 * WP_NS_PER_S,
        .concurrency = 1,
        .in_flight = 10000,
        .threads = 1,
        .wait_ns = 5 * WP_NS_PER_S,
        .timeout_ns = 10 * WP_NS_PER_S,
        .seed = 1,
        .samples_min = 10,
        .granted_min = 0.99,
        .kept = WP_PLAN_KEPT_DEFAULT,
    };
}

const struct wp_key *
wp_plan_key(struct wp_str name)
{
    for (size_t i = 0; i < wp_plan_n_keys; i++) {
        if (wp_str_is(name, wp_plan_keys[i].name) ||
            (wp_plan_keys[i].alias != NULL &&
             wp_str_is(name, wp_plan_keys[i].alias))) {
            return &wp_plan_keys[i];
        }
    }
    return NULL;
}

static enum wp_status
refuse(const struct wp_key *key, const char *text, const char *expected,
       struct wp_err *err)
{
    char shown[WP_STR_SHOWN_MAX];

    return wp_err_set(err, WP_INVALID_ARGUMENT, "%s '%s': expected %s",
                      key->name, wp_str_shown(wp_str_from(text), shown),
                      expected);
}

static bool
read_number(const char *text, size_t len, double *out)
{
    char copy[64];
    char *end;

    /* strtod takes more than people mean: spaces, hexadecimal, "inf". */
    if (len == 0 || len >= sizeof copy ||
        strspn(text, "0123456789.eE+-") < len) {
        return false;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    errno = 0;
    *out = strtod(copy, &end);
    return errno == 0 && *end == '\0' && isfinite(*out);
}

static enum wp_status
set_number(const struct wp_key *key, const char *text, double *out,
           struct wp_err *err)
{
    char expected[96];
    size_t len = strlen(text);
    double value = 0;
    bool ok;

    if (key->type == WP_KEY_SHARE) {
        bool percent = len > 0 && text[len - 1] == '%';

        ok = read_number(text, percent ? len - 1 : len, &value);
        value = ok && percent ? value / 100 : value;
    } else {
        ok = read_number(text, len, &value);
    }
    if (ok && value >= key->min && value <= key->max &&
        (key->type != WP_KEY_COUNT || value == floor(value))) {
        *out = value;
        return WP_OK;
    }
    (void)snprintf(expected, sizeof expected, "%s from %.10g to %.10g%s",
                   key->type == WP_KEY_COUNT ? "a whole number" : "a number",
                   key->min, key->max,
                   key->type == WP_KEY_SHARE ? ", or a percentage such as 99%"
                                             : "");
    return refuse(key, text, expected, err);
}

static enum wp_status
set_duration(const struct wp_key *key, const char *text, int64_t *out,
             struct wp_err *err)
{
    char expected[128];
    struct wp_str all = wp_str_from(text);
    int64_t ns;

    /* Finer than the product's settings: limits of single calls. */
    if (all.len > 2 && memcmp(text + all.len - 2, "us", 2) == 0) {
        uint64_t us;

        if (!wp_str_to_u64((struct wp_str){text, all.len - 2}, &us) ||
            us > INT64_MAX / WP_NS_PER_US) {
            us = UINT64_MAX;
        }
        ns = us == UINT64_MAX ? -1 : (int64_t)us * WP_NS_PER_US;
    } else if (!wp_duration_parse(all, &ns)) {
        ns = -1;
    }
    if (ns >= 0 && (double)ns >= key->min * 1e9 &&
        (double)ns <= key->max * 1e9) {
        *out = ns;
        return WP_OK;
    }
    (void)snprintf(
        expected, sizeof expected,
        "a time from %.10g to %.10g seconds, such as 20us, 500ms, 30s, 5m",
        key->min, key->max);
    return refuse(key, text, expected, err);
}

static enum wp_status
set_rates(const struct wp_key *key, const char *text, struct wp_plan *plan,
          struct wp_err *err)
{
    double rates[WP_PLAN_STEPS_MAX];
    uint32_t n = 0;

    for (const char *at = text;;) {
        size_t len = strcspn(at, ",");

        if (n == WP_PLAN_STEPS_MAX || !read_number(at, len, &rates[n]) ||
            rates[n] < key->min || rates[n] > key->max) {
            return refuse(key, text,
                          "1 to 32 rates with commas between, such as "
                          "500,1000,2000",
                          err);
        }
        n++;
        if (at[len] == '\0') {
            break;
        }
        at += len + 1;
    }
    memcpy(plan->steps, rates, n * sizeof rates[0]);
    plan->n_steps = n;
    return WP_OK;
}

static enum wp_status
set_word(const struct wp_key *key, const char *text, int *out,
         struct wp_err *err)
{
    char expected[96] = "one of";

    for (int i = 0; key->words[i] != NULL; i++) {
        size_t len = strlen(expected);

        if (strcmp(text, key->words[i]) == 0) {
            *out = i;
            return WP_OK;
        }
        (void)snprintf(expected + len, sizeof expected - len, "%s %s",
                       i > 0 ? "," : "", key->words[i]);
    }
    return refuse(key, text, expected, err);
}

/* Counts are kept in fields of two widths. */
static void
put_count(const struct wp_key *key, struct wp_plan *plan, double value)
{
    void *field = (char *)plan + key->offset;

    if (key->offset == AT(claims) || key->offset == AT(samples_min) ||
        key->offset == AT(kept) || key->offset == AT(seed)) {
        *(uint64_t *)field = (uint64_t)value;
    } else {
        *(uint32_t *)field = (uint32_t)value;
    }
    plan->has_pool_size |= key->offset == AT(pool_size);
}

/* Kinds are chosen by what was said of them. */
static void
choose_arrivals(const struct wp_key *key, struct wp_plan *plan)
{
    if (key->offset == AT(rate_per_s) || key->offset == AT(steps)) {
        plan->arrivals = plan->arrivals == WP_ARRIVALS_POISSON
                             ? WP_ARRIVALS_POISSON
                             : WP_ARRIVALS_CONSTANT;
    } else if (key->offset == AT(burst)) {
        plan->arrivals = WP_ARRIVALS_BURST;
    } else if (key->offset == AT(csv)) {
        plan->arrivals = WP_ARRIVALS_CSV;
    }
}

enum wp_status
wp_plan_set(struct wp_plan *plan, const struct wp_key *key, const char *text,
            struct wp_err *err)
{
    void *field = (char *)plan + key->offset;
    enum wp_status status = WP_OK;
    double number = 0;
    int word = 0;

    switch (key->type) {
    case WP_KEY_TEXT:
        if (text[0] == '\0') {
            return refuse(key, text, key->operand, err);
        }
        *(const char **)field = text;
        break;
    case WP_KEY_FLAG:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
            return refuse(key, text, "true or false", err);
        }
        *(bool *)field = text[0] == 't';
        break;
    case WP_KEY_DURATION:
        status = set_duration(key, text, field, err);
        break;
    case WP_KEY_RATES:
        status = set_rates(key, text, plan, err);
        break;
    case WP_KEY_WORD:
        status = set_word(key, text, &word, err);
        if (status == WP_OK && key->offset == AT(output)) {
            plan->output = (enum wp_plan_output)word;
        } else if (status == WP_OK) {
            plan->arrivals = (enum wp_arrivals_kind)word;
        }
        break;
    case WP_KEY_COUNT:
    case WP_KEY_NUMBER:
    case WP_KEY_SHARE:
    case WP_KEY_PID:
        status = set_number(key, text, &number, err);
        if (status != WP_OK) {
            break;
        }
        if (key->type == WP_KEY_COUNT) {
            put_count(key, plan, number);
        } else if (key->type == WP_KEY_PID) {
            plan->server_pid = (pid_t)number;
        } else {
            *(double *)field = number;
        }
        break;
    }
    if (status == WP_OK) {
        choose_arrivals(key, plan);
    }
    return status;
}

enum wp_status
wp_plan_set_pool(struct wp_plan *plan, const char *text, struct wp_err *err)
{
    const char *slash = strchr(text, '/');
    struct wp_str space = {text, slash != NULL ? (size_t)(slash - text) : 0};
    struct wp_str name = wp_str_from(slash != NULL ? slash + 1 : text);
    char shown[WP_STR_SHOWN_MAX];

    if (!wp_str_is_dns_name(name, WP_PLAN_NAME_MAX) ||
        (slash != NULL && !wp_str_is_dns_name(space, WP_PLAN_NAME_MAX))) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "pool '%s': expected POOL or NAMESPACE/POOL, in "
                          "lower-case letters, digits and '-'",
                          wp_str_shown(wp_str_from(text), shown));
    }
    if (slash == NULL) {
        space = WP_STR("default");
    }
    return wp_str_copy(space, plan->pool_namespace,
                       sizeof plan->pool_namespace) &&
                   wp_str_copy(name, plan->pool, sizeof plan->pool)
               ? WP_OK
               : WP_INVALID_ARGUMENT;
}

enum wp_status
wp_plan_check_use(const struct wp_plan *plan, const struct wp_key *key,
                  const char *text, struct wp_err *err)
{
    enum {
        CLOSED = 1 << WP_ARRIVALS_CLOSED,
        RATES = 1 << WP_ARRIVALS_CONSTANT | 1 << WP_ARRIVALS_POISSON,
        BURST = 1 << WP_ARRIVALS_BURST,
        CSV = 1 << WP_ARRIVALS_CSV,
    };
    static const struct {
        size_t offset;
        unsigned kinds;
        const char *names;
    } uses[] = {
        {AT(concurrency), CLOSED, "closed"},
        {AT(rate_per_s), RATES, "constant or poisson"},
        {AT(steps), RATES, "constant or poisson"},
        {AT(burst), BURST, "burst"},
        {AT(every_ns), BURST, "burst"},
        {AT(csv), CSV, "csv"},
        {AT(speed), CSV, "csv"},
        {AT(duration_ns), ~(unsigned)CSV, "closed, constant, poisson or burst"},
    };
    const char *kind = wp_arrivals_words[plan->arrivals];

    if (key->offset == AT(arrivals) && strcmp(text, kind) != 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "arrivals '%.20s': another key makes them %s", text,
                          kind);
    }
    if (key->offset == AT(rate_per_s) && plan->n_steps > 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "rate: expected no steps beside it");
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(uses); i++) {
        if (key->offset == uses[i].offset &&
            (uses[i].kinds >> plan->arrivals & 1) == 0) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "%s: expected %s arrivals, but these are %s",
                              key->name, uses[i].names, kind);
        }
    }
    return WP_OK;
}

/* Every connection is a descriptor. So is what a thread waits with, and leases
 * ahead take more of each. A few are for files and the program. */
static enum wp_status
check_descriptors(const struct wp_plan *plan, struct wp_err *err)
{
    enum {
        OTHERS = 32,
        OF_THREAD = 1,
        OF_STOCK = 3,
    };
    uint32_t connections =
        plan->connections > 0 ? plan->connections : plan->threads;
    rlim_t of_thread = plan->ahead > 0 ? OF_THREAD + OF_STOCK : OF_THREAD;
    rlim_t wanted = connections + plan->threads * of_thread + OTHERS;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && wanted > limit.rlim_cur) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "connections %u, threads %u: this process may have "
                          "%llu descriptors (ulimit -n), of which %d are for "
                          "other things; take fewer connections: each carries "
                          "many calls",
                          connections, plan->threads,
                          (unsigned long long)limit.rlim_cur, OTHERS);
    }
    return WP_OK;
}

bool
wp_plan_has_objects(const struct wp_plan *plan)
{
    return plan->kubeconfig != NULL || plan->in_cluster;
}

enum wp_status
wp_plan_check(const struct wp_plan *plan, struct wp_err *err)
{
    bool open = plan->arrivals == WP_ARRIVALS_CONSTANT ||
                plan->arrivals == WP_ARRIVALS_POISSON;
    bool objects = wp_plan_has_objects(plan);
    const struct {
        bool broken;
        const char *sentence;
    } rules[] = {
        {open && plan->rate_per_s <= 0 && plan->n_steps == 0,
         "rate: constant and poisson arrivals need one (or steps)"},
        {plan->arrivals == WP_ARRIVALS_BURST && plan->burst == 0,
         "burst: burst arrivals need a number of claims"},
        {plan->arrivals == WP_ARRIVALS_CSV && plan->csv == NULL,
         "csv: csv arrivals need a file"},
        {plan->arrivals != WP_ARRIVALS_CLOSED && plan->pause_ns > 0,
         "pause: only closed arrivals pause; a rate goes on"},
        {plan->wait_ns % WP_NS_PER_MS != 0 || plan->ttl_ns % WP_NS_PER_MS != 0,
         "wait, ttl: expected whole milliseconds, as claims have them"},
        {plan->batch > 0 && plan->hold_ns > 0,
         "hold: a batch is released at once"},
        {plan->ahead > 0 &&
             (plan->batch > 0 || plan->tenants > 0 || plan->echo),
         "ahead: not with batches, several tenants or an echo"},
        {plan->echo && (plan->batch > 0 || plan->has_pool_size),
         "echo: an echo has no pool to resize and no batches"},
        {plan->blind && plan->has_pool_size,
         "blind: the pool's size can then not be set"},
        {!plan->echo && plan->pool[0] == '\0',
         "POOL: which pool? warmpoolctl pools lists them"},
        {plan->kubeconfig != NULL && plan->in_cluster,
         "in-cluster: not together with kubeconfig"},
        {plan->context != NULL && plan->kubeconfig == NULL,
         "context: of which kubeconfig?"},
        {objects && (plan->address != NULL || plan->echo),
         "kubeconfig: SandboxClaims have no address, and are no echo"},
        {objects && (plan->batch > 0 || plan->tenants > 0 || plan->ttl_ns > 0 ||
                     plan->ahead > 0),
         "kubeconfig: SandboxClaims have no batch, tenants, ttl and ahead"},
        {objects && plan->threads > 1,
         "threads: one is enough for SandboxClaims"},
        {plan->in_cluster && plan->against != NULL,
         "against: needs --kubeconfig"},
        {plan->batch > 0 && plan->claims % plan->batch != 0,
         "claims: expected whole batches"},
        {plan->keep && plan->claims > (uint64_t)plan->in_flight *
                                          (plan->batch > 0 ? plan->batch : 1),
         "max-in-flight: keep holds all claims at one time; expected as many"},
        {plan->leave && (plan->keep || plan->hold_ns > 0),
         "leave: what is never released is neither kept nor held"},
        {plan->connections > 0 && plan->threads > plan->connections,
         "threads: more of them than connections"},
        {!open && plan->n_steps > 0,
         "steps: only constant and poisson arrivals have rates"},
        {plan->connections > plan->threads * WP_PLAN_CONNECTIONS_MAX,
         "connections: at most 64 for each thread"},
        {plan->arrivals == WP_ARRIVALS_CLOSED &&
             plan->concurrency < plan->threads,
         "threads: more of them than workers (concurrency)"},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(rules); i++) {
        if (rules[i].broken) {
            return wp_err_set(err, WP_INVALID_ARGUMENT, "%s",
                              rules[i].sentence);
        }
    }
    return check_descriptors(plan, err);
}
