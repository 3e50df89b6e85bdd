#include "bench/load/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/load/claim_codec.h"
#include "proto/client/h2_client.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

enum {
    CLAIM_ID_LEN = 36, /* As long as a UUID. */
    TOKEN_LEN = 68,    /* What echo_server's client sends in place of one. */
    DRAIN_MS = 2000,   /* How long the calls in flight may take at the end. */
};

struct worker {
    struct wp_h2_call call;
    struct load *load;
    int64_t from_ns; /* When the call was due or started. */
    bool claiming;
    char claim_id[CLAIM_ID_LEN + 1];
    uint8_t request[WP_H2_FRAME_HEAD + WP_H2_MESSAGE_MAX];
    uint8_t reply[WP_H2_FRAME_HEAD + WP_H2_MESSAGE_MAX];
};

struct load {
    const struct wp_load_config *config;
    struct wp_load_result *result;
    struct wp_h2 *h2;
    struct worker *workers;
    struct worker **idle; /* Open loop: who waits for a claim to be due. */
    unsigned n_idle;
    unsigned busy;
    unsigned claim_method;
    unsigned release_method;
    uint64_t claims_started;
    uint64_t claims_before; /* Of them, in the warm-up. */
    uint32_t run_id;        /* Makes the claim ids of two runs differ. */
    bool counting;
    bool stopping;
    int64_t counted_from_ns;
    int64_t server_cpu_ns; /* At the start of the counted part. */
    int64_t client_cpu_ns;
};

static int64_t
clock_read_ns(clockid_t id)
{
    struct timespec ts;

    if (clock_gettime(id, &ts) != 0) {
        return 0;
    }
    return (int64_t)ts.tv_sec * WP_NS_PER_S + ts.tv_nsec;
}

static int64_t
now_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

static int64_t
cpu_ns_of(pid_t pid)
{
    clockid_t id;

    if (pid == 0 || clock_getcpuclockid(pid, &id) != 0) {
        return 0;
    }
    return clock_read_ns(id);
}

/* "xxxxxxxx-bench-nnnnnnnnnnnnnnnnnnnnn": unique in this run and among runs. */
static void
next_claim_id(struct load *load, char *out)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t n = load->claims_started;

    memcpy(out, "00000000-bench-000000000000000000000", CLAIM_ID_LEN);
    for (unsigned i = 0; i < 8; i++) {
        out[i] = digits[load->run_id >> (4 * i) & 15];
    }
    for (unsigned i = CLAIM_ID_LEN - 1; n > 0; i--, n >>= 4) {
        out[i] = digits[n & 15];
    }
    out[CLAIM_ID_LEN] = '\0';
}

static void
start_claim(struct worker *worker, int64_t from_ns)
{
    struct load *load = worker->load;

    next_claim_id(load, worker->claim_id);
    load->claims_started++;
    load->busy++;
    worker->claiming = true;
    worker->from_ns = from_ns;
    worker->call.method = load->claim_method;
    worker->call.request_len = wp_codec_write_claim(
        worker->call.request + WP_H2_FRAME_HEAD,
        wp_str_from(load->config->pool_namespace),
        wp_str_from(load->config->pool),
        (struct wp_str){worker->claim_id, CLAIM_ID_LEN}, load->config->wait_ms);
    load->result->claim_request_len = worker->call.request_len;
    WP_ASSERT(wp_h2_start(load->h2, &worker->call));
}

static void
start_release(struct worker *worker, struct wp_str token)
{
    struct load *load = worker->load;

    load->busy++;
    worker->claiming = false;
    worker->from_ns = now_ns();
    worker->call.method = load->release_method;
    worker->call.request_len =
        wp_codec_write_release(worker->call.request + WP_H2_FRAME_HEAD, token);
    load->result->release_request_len = worker->call.request_len;
    WP_ASSERT(wp_h2_start(load->h2, &worker->call));
}

static bool
may_claim(const struct load *load)
{
    uint64_t counted = load->claims_started - load->claims_before;

    if (load->stopping) {
        return false;
    }
    return !load->counting || load->config->claims_max == 0 ||
           counted < load->config->claims_max;
}

/* The worker has nothing under way: what next? */
static void
next(struct worker *worker)
{
    struct load *load = worker->load;

    if (load->config->rate_per_s > 0 || load->config->pause_ns > 0) {
        load->idle[load->n_idle++] = worker;
    } else if (may_claim(load)) {
        start_claim(worker, now_ns());
    }
}

static void
count_failure(struct load *load, int status)
{
    if (load->counting) {
        load->result->failed++;
        load->result
            ->failed_by_code[status >= 0 && status <= 16 ? status : 2]++;
    }
}

/* Checks a granted claim; false when the answer is not one. */
static bool
check_grant(struct worker *worker, struct wp_codec_lease *lease)
{
    struct load *load = worker->load;
    struct wp_load_result *result = load->result;

    if (!wp_codec_read_claim(worker->call.reply + WP_H2_FRAME_HEAD,
                             worker->call.reply_len, lease) ||
        !wp_str_eq(lease->claim_id,
                   (struct wp_str){worker->claim_id, CLAIM_ID_LEN}) ||
        lease->fence == 0 || lease->replayed) {
        result->bad_answers++;
        return false;
    }
    if (load->config->seen != NULL &&
        !wp_seen_add(load->config->seen, lease->sandbox)) {
        result->duplicates++; /* Warm-up included: it is never allowed. */
    }
    if (load->counting) {
        result->warm += lease->served == 1;
        result->queued += lease->served == 2;
        result->cold += lease->served == 3;
    }
    return true;
}

static void
claim_done(struct worker *worker, int64_t latency_ns)
{
    static const char no_token[TOKEN_LEN];
    struct load *load = worker->load;
    struct wp_codec_lease lease = {
        .token = {no_token, sizeof(no_token)},
    };

    load->result->claim_reply_len = worker->call.reply_len;
    if (load->config->echo) {
        load->result->warm += load->counting;
    } else if (!check_grant(worker, &lease)) {
        next(worker);
        return;
    }
    if (load->counting) {
        wp_hist_record(&load->result->claim, latency_ns);
    }
    if (load->config->keep) {
        next(worker);
    } else {
        start_release(worker, lease.token);
    }
}

static void
release_done(struct worker *worker, int64_t latency_ns)
{
    struct load *load = worker->load;
    bool was_held = false;

    load->result->release_reply_len = worker->call.reply_len;
    if (!load->config->echo &&
        (!wp_codec_read_release(worker->call.reply + WP_H2_FRAME_HEAD,
                                worker->call.reply_len, &was_held) ||
         !was_held)) {
        load->result->bad_answers++;
    }
    if (load->counting) {
        wp_hist_record(&load->result->release, latency_ns);
    }
    next(worker);
}

static void
call_done(struct wp_h2_call *call)
{
    struct worker *worker = call->ctx;
    struct load *load = worker->load;
    int64_t latency_ns = now_ns() - worker->from_ns;

    load->busy--;
    if (call->status != 0) {
        count_failure(load, call->status);
        next(worker);
    } else if (worker->claiming) {
        claim_done(worker, latency_ns);
    } else {
        release_done(worker, latency_ns);
    }
}

/* --- Phases. --- */

static void
start_counting(struct load *load)
{
    load->counting = true;
    load->claims_before = load->claims_started;
    load->server_cpu_ns = cpu_ns_of(load->config->server);
    load->client_cpu_ns = clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
    load->counted_from_ns = now_ns();
}

static void
stop_counting(struct load *load)
{
    if (load->counting) {
        load->result->elapsed_ns = now_ns() - load->counted_from_ns;
        load->result->server_cpu_ns =
            cpu_ns_of(load->config->server) - load->server_cpu_ns;
        load->result->client_cpu_ns =
            clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - load->client_cpu_ns;
        load->counting = false;
    }
    load->stopping = true;
}

static enum wp_status
run_closed(struct load *load, int64_t end_ns, struct wp_err *err)
{
    for (unsigned i = 0; i < load->config->workers && may_claim(load); i++) {
        start_claim(&load->workers[i], now_ns());
    }
    while (load->busy > 0 && now_ns() < end_ns) {
        enum wp_status status = wp_h2_turn(
            load->h2, load->config->spin ? 0 : 100 * WP_NS_PER_MS, err);

        if (status != WP_OK) {
            return status;
        }
    }
    return WP_OK;
}

/* The same, but receive itself may wait: one system call less a round trip. */
static enum wp_status
run_serial(struct load *load, int64_t end_ns, struct wp_err *err)
{
    start_claim(&load->workers[0], now_ns());
    while (load->busy > 0 && now_ns() < end_ns) {
        enum wp_status status = wp_h2_turn(load->h2, WP_TIME_NEVER, err);

        if (status != WP_OK) {
            return status;
        }
    }
    return WP_OK;
}

/* Claims start when they are due and a worker is free; when none is, they start
 * late and their latency says so. */
static enum wp_status
run_timed(struct load *load, int64_t interval_ns, int64_t end_ns,
          struct wp_err *err)
{
    int64_t due_ns = now_ns();

    for (unsigned i = 0; i < load->config->workers; i++) {
        load->idle[load->n_idle++] = &load->workers[i];
    }
    for (;;) {
        int64_t now = now_ns();
        int64_t wait_ns;
        enum wp_status status;

        if (now >= end_ns || (!may_claim(load) && load->busy == 0)) {
            return WP_OK;
        }
        while (due_ns <= now && load->n_idle > 0 && may_claim(load)) {
            /* A pause begins when the claim before has ended; a rate goes on. */
            bool pausing = load->config->pause_ns > 0;

            start_claim(load->idle[--load->n_idle], pausing ? now : due_ns);
            due_ns = pausing ? WP_TIME_NEVER : due_ns + interval_ns;
        }
        if (load->config->pause_ns > 0 && load->busy == 0 &&
            due_ns == WP_TIME_NEVER) {
            due_ns = now + interval_ns;
        }
        wait_ns = due_ns - now;
        if (wait_ns < 0 || load->n_idle == 0) {
            wait_ns = WP_NS_PER_MS; /* Only an answer can help. */
        } else if (wait_ns > 100 * WP_NS_PER_MS) {
            wait_ns = 100 * WP_NS_PER_MS;
        } else if (wait_ns < 60 * WP_NS_PER_US) {
            wait_ns = 0; /* Shorter than waking up takes: look again. */
        }
        status = wp_h2_turn(load->h2, wait_ns, err);
        if (status != WP_OK) {
            return status;
        }
    }
}

static enum wp_status
run_until(struct load *load, int64_t end_ns, struct wp_err *err)
{
    const struct wp_load_config *config = load->config;

    if (config->pause_ns > 0) {
        return run_timed(load, config->pause_ns, end_ns, err);
    }
    if (config->rate_per_s > 0) {
        return run_timed(load, (int64_t)(1e9 / config->rate_per_s), end_ns,
                         err);
    }
    return config->workers == 1 ? run_serial(load, end_ns, err)
                                : run_closed(load, end_ns, err);
}

/* Lets what is in flight end: claims are released, nothing new begins. */
static enum wp_status
drain(struct load *load, struct wp_err *err)
{
    int64_t give_up_ns = now_ns() + DRAIN_MS * WP_NS_PER_MS;

    stop_counting(load);
    while (load->busy > 0) {
        enum wp_status status = wp_h2_turn(load->h2, 10 * WP_NS_PER_MS, err);

        if (status != WP_OK) {
            return status;
        }
        if (now_ns() > give_up_ns) {
            return wp_err_set(err, WP_DEADLINE_EXCEEDED,
                              "%u calls were not answered in %d ms", load->busy,
                              DRAIN_MS);
        }
    }
    load->stopping = false;
    load->n_idle = 0;
    return WP_OK;
}

static enum wp_status
run_phases(struct load *load, struct wp_err *err)
{
    const struct wp_load_config *config = load->config;
    enum wp_status status;

    if (config->warmup_ns > 0) {
        status = run_until(load, now_ns() + config->warmup_ns, err);
        if (status == WP_OK) {
            status = drain(load, err);
        }
        if (status != WP_OK) {
            return status;
        }
    }
    start_counting(load);
    status = run_until(load,
                       config->claims_max > 0
                           ? WP_TIME_NEVER
                           : load->counted_from_ns + config->run_ns,
                       err);
    if (status != WP_OK) {
        stop_counting(load);
        return status;
    }
    return drain(load, err);
}

enum wp_status
wp_load_run(const struct wp_load_config *config, struct wp_load_result *out,
            struct wp_err *err)
{
    struct load load = {.config = config, .result = out};
    enum wp_status status = WP_RESOURCE_EXHAUSTED;

    WP_ASSERT(config->workers > 0 && config->workers <= WP_LOAD_WORKERS_MAX);
    WP_ASSERT(config->pause_ns == 0 || config->workers == 1);
    memset(out, 0, sizeof(*out));
    wp_hist_reset(&out->claim);
    wp_hist_reset(&out->release);
    load.run_id = (uint32_t)(now_ns() / WP_NS_PER_US) ^ (uint32_t)getpid();
    load.workers = calloc(config->workers, sizeof(*load.workers));
    load.idle = calloc(config->workers, sizeof(*load.idle));
    if (load.workers == NULL || load.idle == NULL) {
        wp_err_set(err, status, "no memory for %u workers", config->workers);
        goto out;
    }
    load.h2 = wp_h2_connect(config->target, config->connections, err);
    if (load.h2 == NULL) {
        status = err->status;
        goto out;
    }
    load.claim_method =
        wp_h2_method(load.h2, config->echo ? "/warmpool.bench.Echo/Claim"
                                           : "/warmpool.v1.Allocator/Claim");
    load.release_method =
        wp_h2_method(load.h2, config->echo ? "/warmpool.bench.Echo/Release"
                                           : "/warmpool.v1.Allocator/Release");
    for (unsigned i = 0; i < config->workers; i++) {
        load.workers[i].load = &load;
        load.workers[i].call.ctx = &load.workers[i];
        load.workers[i].call.done = call_done;
        load.workers[i].call.request = load.workers[i].request;
        load.workers[i].call.reply = load.workers[i].reply;
        load.workers[i].call.reply_cap = sizeof(load.workers[i].reply);
    }
    status = run_phases(&load, err);
out:
    wp_h2_close(load.h2);
    free(load.idle);
    free(load.workers);
    return status;
}

uint64_t
wp_load_calls(const struct wp_load_result *result)
{
    return result->claim.count + result->release.count;
}

double
wp_load_calls_per_s(const struct wp_load_result *result)
{
    return result->elapsed_ns == 0 ? 0.0
                                   : (double)wp_load_calls(result) * 1e9 /
                                         (double)result->elapsed_ns;
}
