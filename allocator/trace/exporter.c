#include "allocator/trace/exporter.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/trace/otlp.h"
#include "pool/base/log.h"
#include "proto/loop/thread.h"

#define PATH "/v1/traces"
/* Between two looks at the queue: what comes in that time must fit into it. */
#define PAUSE_NS (200 * WP_NS_PER_MS)
#define RETRY_NS WP_NS_PER_S
/* Two readings of the same clocks differ by less. */
#define OFFSET_SLACK_NS WP_NS_PER_MS
#define SEND_MS 5000L
#define LAST_SEND_MS 2000L

enum {
    QUEUE_MAX = 4096, /* Some 2 MB: 20 000 spans a second. */
};

struct wp_exporter {
    struct wp_exporter_config config;
    struct wp_tracer *tracer;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* Of stopping. */
    pthread_cond_t stops;
    bool stopping;

    /* The thread's. */
    CURL *curl;
    struct curl_slist *headers;
    char *url;
    char host[64];
    int64_t offset_ns; /* Wall minus monotonic time; 0: not read yet. */
    bool ends;         /* No pause any more. */
    bool failing;      /* It has been said. */
    size_t n;          /* Of the batch. */
    struct wp_span batch[WP_EXPORTER_BATCH];
};

/* --- The collector --- */

static size_t /* NOLINTNEXTLINE(readability-non-const-parameter): curl's. */
ignore_answer(char *bytes, size_t size, size_t count, void *ctx)
{
    (void)bytes;
    (void)ctx;
    return size * count;
}

static bool
prepare(struct wp_exporter *self)
{
    size_t room = strlen(self->config.endpoint) + sizeof PATH;
    CURL *curl = curl_easy_init();

    self->curl = curl;
    self->url = malloc(room);
    self->headers = curl_slist_append(NULL, "Content-Type: application/json");
    if (curl == NULL || self->url == NULL || self->headers == NULL) {
        return false;
    }
    (void)snprintf(self->url, room, "%s" PATH, self->config.endpoint);
    return curl_easy_setopt(curl, CURLOPT_URL, self->url) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https") ==
               CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           /* Whatever the environment says about proxies. */
           curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_HTTPHEADER, self->headers) ==
               CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, ignore_answer) ==
               CURLE_OK;
}

static void
say(struct wp_exporter *self, const char *why, long code)
{
    if (why == NULL && self->failing) {
        wp_log_info("the collector takes traces again",
                    wp_kv_str("endpoint", self->config.endpoint));
    } else if (why != NULL && !self->failing) {
        wp_log_warn("the collector does not take traces; they are dropped",
                    wp_kv_str("endpoint", self->config.endpoint),
                    wp_kv_str("reason", why), wp_kv_int("http_status", code));
    }
    self->failing = why != NULL;
}

/* OTLP's own list of answers that may be repeated. */
static bool
may_repeat(CURLcode error, long code)
{
    return error != CURLE_OK || code == 429 || code == 502 || code == 503 ||
           code == 504;
}

/* False: the batch may be sent again. */
static bool
send_once(struct wp_exporter *self, const char *body, long within_ms)
{
    long code = 0;
    CURLcode error;

    (void)curl_easy_setopt(self->curl, CURLOPT_POSTFIELDS, body);
    (void)curl_easy_setopt(self->curl, CURLOPT_TIMEOUT_MS, within_ms);
    error = curl_easy_perform(self->curl);
    (void)curl_easy_getinfo(self->curl, CURLINFO_RESPONSE_CODE, &code);
    if (error == CURLE_OK && code / 100 == 2) {
        say(self, NULL, code);
        wp_tracer_exported(self->tracer, self->n, true);
        self->n = 0;
        return true;
    }
    say(self,
        error != CURLE_OK ? curl_easy_strerror(error)
                          : "it answered with an error",
        code);
    return !may_repeat(error, code);
}

/* --- The thread --- */

/* Until it is to end, at most. */
static void
rest(struct wp_exporter *self, int64_t pause_ns)
{
    int64_t until_ns = wp_clock_mono_ns(wp_clock_system()) + pause_ns;
    struct timespec until = {until_ns / WP_NS_PER_S, until_ns % WP_NS_PER_S};
    int error = 0;

    (void)pthread_mutex_lock(&self->lock);
    while (!self->stopping && error == 0) {
        error = pthread_cond_timedwait(&self->stops, &self->lock, &until);
    }
    self->ends = self->stopping;
    (void)pthread_mutex_unlock(&self->lock);
}

/* The parts of a trace may be in several batches, and a step begins when the
 * one before ends: so all are told by one offset, until the clock is set. */
static int64_t
offset_ns(struct wp_exporter *self)
{
    int64_t now_ns = wp_clock_wall_offset_ns(self->config.clock);

    if (llabs(now_ns - self->offset_ns) > OFFSET_SLACK_NS) {
        self->offset_ns = now_ns;
    }
    return self->offset_ns;
}

/* Afterwards the batch is empty. False: the collector did not take it. */
static bool
send_batch(struct wp_exporter *self)
{
    const struct wp_otlp_resource resource = {self->config.version, self->host,
                                              getpid()};
    char *body =
        wp_otlp_request(&resource, self->batch, self->n, offset_ns(self));
    bool over = body == NULL;
    bool taken;

    for (int tries = 1; !over; tries++) {
        over = send_once(self, body, self->ends ? LAST_SEND_MS : SEND_MS) ||
               tries == WP_EXPORTER_TRIES || self->ends;
        if (!over) {
            rest(self, RETRY_NS);
        }
    }
    free(body);
    taken = self->n == 0;
    wp_tracer_exported(self->tracer, self->n, false);
    self->n = 0;
    return taken;
}

/* All that waits; at the end no more once the collector has failed. */
static void
send_waiting(struct wp_exporter *self)
{
    bool taken = true;

    while (taken || !self->ends) {
        while (self->n < WP_EXPORTER_BATCH &&
               wp_tracer_take(self->tracer, &self->batch[self->n])) {
            self->n++;
        }
        if (self->n == 0) {
            return;
        }
        taken = send_batch(self);
    }
}

static void *
exporter_main(void *ctx)
{
    struct wp_exporter *self = ctx;

    while (!self->ends) {
        rest(self, PAUSE_NS);
        send_waiting(self);
    }
    return NULL;
}

/* --- Its life --- */

struct wp_exporter *
wp_exporter_create(const struct wp_exporter_config *config, struct wp_err *err)
{
    struct wp_exporter *self = calloc(1, sizeof *self);
    pthread_condattr_t attr;

    if (self == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                         "no memory for the exporter of traces");
        return NULL;
    }
    self->config = *config;
    (void)gethostname(self->host, sizeof self->host - 1);
    (void)pthread_mutex_init(&self->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&self->stops, &attr);
    (void)pthread_condattr_destroy(&attr);
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
    self->tracer = wp_tracer_create(QUEUE_MAX);
    if (self->tracer == NULL || !prepare(self)) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED,
                         "no memory for the exporter of traces");
        wp_exporter_destroy(self);
        return NULL;
    }
    return self;
}

struct wp_tracer *
wp_exporter_tracer(struct wp_exporter *exporter)
{
    return exporter != NULL ? exporter->tracer : NULL;
}

enum wp_status
wp_exporter_start(struct wp_exporter *exporter, struct wp_err *err)
{
    int error = wp_thread_start(&exporter->thread, exporter_main, exporter);

    if (error != 0) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, error,
                          "no thread for the exporter of traces");
    }
    exporter->started = true;
    return WP_OK;
}

static void
end_thread(struct wp_exporter *self)
{
    (void)pthread_mutex_lock(&self->lock);
    self->stopping = true;
    (void)pthread_cond_signal(&self->stops);
    (void)pthread_mutex_unlock(&self->lock);
    (void)pthread_join(self->thread, NULL);
}

void
wp_exporter_destroy(struct wp_exporter *exporter)
{
    if (exporter == NULL) {
        return;
    }
    if (exporter->started) {
        end_thread(exporter);
    }
    curl_slist_free_all(exporter->headers);
    curl_easy_cleanup(exporter->curl);
    curl_global_cleanup();
    free(exporter->url);
    wp_tracer_destroy(exporter->tracer);
    (void)pthread_cond_destroy(&exporter->stops);
    (void)pthread_mutex_destroy(&exporter->lock);
    free(exporter);
}
