/* tests/unit/allocator/trace/exporter_test.c - how spans are sent: what the
 * collector is told and when, how often a batch is tried, what is counted, and
 * what people are told. The collector, the queue and the clock are the test's;
 * the exporter's thread goes on only when the test says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <curl/curl.h>

#include "allocator/trace/exporter.h"
#include "allocator/trace/otlp.h"
#include "pool/base/log.h"
#include "proto/loop/thread.h"
#include "tests/support/base/golden.h"
#include "tests/support/pool/manual_clock.h"

enum {
    ANSWERS_MAX = 64,
};

struct answer {
    CURLcode error;
    long code;
};

static struct golden journal;
static struct wp_clock_manual manual;
static struct wp_clock_manual wall;
static sem_t waits; /* The exporter's thread has begun to. */
static sem_t step;  /* It may go on. */
static pthread_mutex_t *waits_with;
static int wakes; /* So many waits end for nothing. */
static struct answer answers[ANSWERS_MAX];
static uint32_t n_answers;
static uint32_t n_answered;
static uint32_t n_spans; /* In the queue. */
static uint8_t span;     /* The next one's id. */
static bool no_body;
static int fails_in; /* The step of that number fails, from 1. */
static int thread_error;
static char handle; /* Stands for the queue, and for what curl has. */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
int __wrap_gethostname(char *out, size_t cap);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __real_pthread_condattr_setclock(pthread_condattr_t *attr, clockid_t clock);
int __wrap_pthread_condattr_setclock(pthread_condattr_t *attr, clockid_t clock);
const struct wp_clock *__wrap_wp_clock_system(void);
void __wrap_wp_log_emit(enum wp_log_level level, const char *event,
                        const struct wp_kv *kvs);
struct wp_tracer *__wrap_wp_tracer_create(uint32_t spans_max);
void __wrap_wp_tracer_destroy(struct wp_tracer *tracer);
bool __wrap_wp_tracer_take(struct wp_tracer *tracer, struct wp_span *out);
void __wrap_wp_tracer_exported(struct wp_tracer *tracer, uint64_t n,
                               bool taken);
char *__wrap_wp_otlp_request(const struct wp_otlp_resource *resource,
                             const struct wp_span *spans, size_t n,
                             int64_t offset_ns);
int __real_wp_thread_start(pthread_t *thread, void *(*run)(void *ctx),
                           void *ctx);
int __wrap_wp_thread_start(pthread_t *thread, void *(*run)(void *ctx),
                           void *ctx);
CURLcode __wrap_curl_global_init(long flags);
void __wrap_curl_global_cleanup(void);
CURL *__wrap_curl_easy_init(void);
void __wrap_curl_easy_cleanup(CURL *curl);
CURLcode __wrap_curl_easy_setopt(CURL *curl, CURLoption option, ...);
CURLcode __wrap_curl_easy_perform(CURL *curl);
CURLcode __wrap_curl_easy_getinfo(CURL *curl, CURLINFO info, ...);
const char *__wrap_curl_easy_strerror(CURLcode error);
struct curl_slist *__wrap_curl_slist_append(struct curl_slist *list,
                                            const char *text);
void __wrap_curl_slist_free_all(struct curl_slist *list);

#define NOTE(...) golden_add(&journal, __VA_ARGS__)

static bool
fails_now(void)
{
    return fails_in > 0 && --fails_in == 0;
}

void *
__wrap_malloc(size_t size)
{
    return fails_now() ? NULL : __real_malloc(size);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_calloc(n, size);
}

int
__wrap_gethostname(char *out, size_t cap)
{
    memset(out, 'h', cap);
    return 0;
}

/* --- the thread --- */

/* What happens before and after it waits is seen by the test alone. */
int
__wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                              const struct timespec *until)
{
    int64_t until_ns = until->tv_sec * WP_NS_PER_S + until->tv_nsec;

    (void)cond;
    waits_with = lock;
    NOTE("wait %lld ms\n",
         (long long)((until_ns - manual.now_mono_ns) / WP_NS_PER_MS));
    assert_int_equal(pthread_mutex_trylock(lock), EBUSY);
    (void)pthread_mutex_unlock(lock);
    (void)sem_post(&waits);
    (void)sem_wait(&step);
    (void)pthread_mutex_lock(lock);
    return wakes > 0 && wakes-- > 0 ? 0 : ETIMEDOUT;
}

int
__wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    (void)cond;
    NOTE("signal\n");
    assert_int_equal(pthread_mutex_trylock(waits_with), EBUSY);
    return sem_post(&step);
}

int
__wrap_pthread_condattr_setclock(pthread_condattr_t *attr, clockid_t clock)
{
    NOTE("waits by the monotonic clock: %d\n", clock == CLOCK_MONOTONIC);
    return __real_pthread_condattr_setclock(attr, clock);
}

int
__wrap_wp_thread_start(pthread_t *thread, void *(*run)(void *ctx), void *ctx)
{
    return thread_error != 0 ? thread_error
                             : __real_wp_thread_start(thread, run, ctx);
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    return &manual.clock;
}

void
__wrap_wp_log_emit(enum wp_log_level level, const char *event,
                   const struct wp_kv *kvs)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};

    NOTE("%s %s", names[level], event);
    for (; kvs->key != NULL; kvs++) {
        if (kvs->kind == WP_KV_STR) {
            NOTE(" %s='%.*s'", kvs->key, WP_STR_ARG(kvs->str));
        } else {
            NOTE(" %s=%lld", kvs->key, (long long)kvs->num);
        }
    }
    NOTE("\n");
}

/* --- spans --- */

struct wp_tracer *
__wrap_wp_tracer_create(uint32_t spans_max)
{
    NOTE("queue for %u\n", spans_max);
    return fails_now() ? NULL : (struct wp_tracer *)(void *)&handle;
}

void
__wrap_wp_tracer_destroy(struct wp_tracer *tracer)
{
    NOTE("no queue %d\n", tracer != NULL);
}

bool
__wrap_wp_tracer_take(struct wp_tracer *tracer, struct wp_span *out)
{
    assert_ptr_equal(tracer, &handle);
    if (n_spans == 0) {
        return false;
    }
    n_spans--;
    memset(out, 0, sizeof *out);
    out->span_id[0] = span++;
    return true;
}

void
__wrap_wp_tracer_exported(struct wp_tracer *tracer, uint64_t n, bool taken)
{
    assert_ptr_equal(tracer, &handle);
    NOTE("%u %s\n", (unsigned)n, taken ? "taken" : "failed");
}

char *
__wrap_wp_otlp_request(const struct wp_otlp_resource *resource,
                       const struct wp_span *spans, size_t n, int64_t offset_ns)
{
    char *body = __real_malloc(256);

    assert_int_equal(resource->pid, getpid());
    (void)snprintf(body, 256, "%zu of %s at %zu h, offset %lld, %u to %u", n,
                   resource->version, strlen(resource->host),
                   (long long)offset_ns, spans[0].span_id[0],
                   spans[n - 1].span_id[0]);
    if (no_body) {
        NOTE("no memory for %s\n", body);
        free(body);
        return NULL;
    }
    return body;
}

/* --- the collector --- */

CURLcode
__wrap_curl_global_init(long flags)
{
    NOTE("curl begins %ld\n", flags);
    return CURLE_OK;
}

void
__wrap_curl_global_cleanup(void)
{
    NOTE("curl ends\n");
}

CURL *
__wrap_curl_easy_init(void)
{
    NOTE("handle\n");
    return fails_now() ? NULL : (CURL *)&handle;
}

void
__wrap_curl_easy_cleanup(CURL *curl)
{
    NOTE("no handle %d\n", curl != NULL);
}

static void
note_option(CURLoption option, va_list args)
{
    curl_write_callback callback;

    switch ((int)option) {
    case CURLOPT_URL:
    case CURLOPT_PROTOCOLS_STR:
    case CURLOPT_PROXY:
    case CURLOPT_POSTFIELDS:
        NOTE("option %d '%s'\n", (int)option, va_arg(args, const char *));
        break;
    case CURLOPT_HTTPHEADER:
        NOTE("headers '%s'\n", va_arg(args, struct curl_slist *)->data);
        break;
    case CURLOPT_WRITEFUNCTION:
        callback = va_arg(args, curl_write_callback);
        NOTE("of 6 times 7 it takes %zu\n", callback(NULL, 6, 7, NULL));
        break;
    default:
        NOTE("option %d %ld\n", (int)option, va_arg(args, long));
        break;
    }
}

/* In parentheses: the name is a macro, too. */
CURLcode(__wrap_curl_easy_setopt)(CURL *curl, CURLoption option, ...)
{
    va_list args;

    assert_ptr_equal(curl, &handle);
    va_start(args, option);
    note_option(option, args);
    va_end(args);
    return fails_now() ? CURLE_OUT_OF_MEMORY : CURLE_OK;
}

CURLcode
__wrap_curl_easy_perform(CURL *curl)
{
    assert_ptr_equal(curl, &handle);
    if (n_answered == n_answers) {
        abort();
    }
    NOTE("sent\n");
    return answers[n_answered].error;
}

CURLcode(__wrap_curl_easy_getinfo)(CURL *curl, CURLINFO info, ...)
{
    va_list args;

    assert_ptr_equal(curl, &handle);
    assert_int_equal(info, CURLINFO_RESPONSE_CODE);
    va_start(args, info);
    *va_arg(args, long *) = answers[n_answered++].code;
    va_end(args);
    return CURLE_OK;
}

/* Curl's own words differ from one version to the next. */
const char *
__wrap_curl_easy_strerror(CURLcode error)
{
    return error == CURLE_COULDNT_CONNECT ? "nobody there" : "too slow";
}

struct curl_slist *
__wrap_curl_slist_append(struct curl_slist *list, const char *text)
{
    static struct curl_slist one;
    static char copy[64];

    assert_null(list);
    (void)snprintf(copy, sizeof copy, "%s", text);
    one.data = copy;
    return fails_now() ? NULL : &one;
}

void
__wrap_curl_slist_free_all(struct curl_slist *list)
{
    NOTE("no headers %d\n", list != NULL);
}

/* --- the rig --- */

static int
setup(void **state)
{
    (void)state;
    journal.len = 0;
    journal.text[0] = '\0';
    wp_clock_manual_init(&manual, 1999999 * WP_NS_PER_US, 0);
    wp_clock_manual_init(&wall, 1000, 500 * WP_NS_PER_S);
    wakes = 0;
    n_answers = 0;
    n_answered = 0;
    n_spans = 0;
    span = 1;
    no_body = false;
    fails_in = 0;
    thread_error = 0;
    return sem_init(&waits, 0, 0) == 0 && sem_init(&step, 0, 0) == 0 ? 0 : -1;
}

static int
teardown(void **state)
{
    (void)state;
    return n_answered == n_answers ? 0 : -1;
}

static struct wp_exporter *
create(void)
{
    const struct wp_exporter_config config = {
        .endpoint = "http://host:4318", .version = "1.2", .clock = &wall.clock};
    struct wp_err err = {.status = WP_OK};
    struct wp_exporter *exporter = wp_exporter_create(&config, &err);

    NOTE("created: %d '%s' %s\n", exporter != NULL, err.msg,
         wp_status_name(err.status));
    return exporter;
}

static void
await(void)
{
    (void)sem_wait(&waits);
}

static struct wp_exporter *
start(void)
{
    struct wp_exporter *exporter = create();
    struct wp_err err;

    assert_non_null(exporter);
    assert_ptr_equal(wp_exporter_tracer(exporter), &handle);
    assert_int_equal(wp_exporter_start(exporter, &err), WP_OK);
    await();
    return exporter;
}

static void
is_answered(CURLcode error, long code)
{
    assert_true(n_answers < ANSWERS_MAX);
    answers[n_answers++] = (struct answer){error, code};
}

/* So many spans, and the exporter's thread has done what it does until it
 * waits. */
static void
go_on(uint32_t n, const char *why)
{
    NOTE("# %s\n", why);
    n_spans += n;
    (void)sem_post(&step);
    await();
}

static void
is_golden(const char *name)
{
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/%s.txt", WP_TEST_GOLDEN, name);
    golden_compare(journal.text, path);
}

/* --- tests --- */

static void
test_spans_are_sent_in_batches(void **state)
{
    struct wp_exporter *exporter = start();

    (void)state;
    go_on(0, "none");
    wakes = 1;
    (void)sem_post(&step);
    await();
    is_answered(CURLE_OK, 200);
    go_on(1, "one, after a wait for nothing");
    is_answered(CURLE_OK, 299);
    go_on(WP_EXPORTER_BATCH, "as many as go in one");
    is_answered(CURLE_OK, 204);
    is_answered(CURLE_OK, 202);
    go_on(WP_EXPORTER_BATCH + 1, "one more");
    n_spans = 2;
    is_answered(CURLE_OK, 200);
    NOTE("# what is left at the end\n");
    wp_exporter_destroy(exporter);
    is_golden("exporter_batches");
}

static void
test_how_often_a_batch_is_tried(void **state)
{
    static const long codes[] = {429, 502, 503, 504};
    static const long refusals[] = {199, 300, 400, 428, 430, 500, 501, 505};
    struct wp_exporter *exporter = start();

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(codes); i++) {
        is_answered(CURLE_OK, codes[i]);
        go_on(1, "refused for now");
        is_answered(CURLE_OK, codes[i]);
        go_on(1, "again");
        is_answered(CURLE_OK, i % 2 == 0 ? codes[i] : 200);
        if (i % 2 == 1) {
            is_answered(CURLE_OK, 200);
        } else {
            is_answered(CURLE_OK, 400);
        }
        go_on(0, "and again");
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(refusals); i++) {
        is_answered(CURLE_OK, refusals[i]);
        go_on(2, "refused");
    }
    is_answered(CURLE_COULDNT_CONNECT, 0);
    go_on(3, "nobody there");
    is_answered(CURLE_OPERATION_TIMEDOUT, 200);
    go_on(0, "silent");
    is_answered(CURLE_OK, 200);
    go_on(0, "there");
    no_body = true;
    go_on(2, "no memory");
    no_body = false;
    is_answered(CURLE_OK, 200);
    go_on(1, "memory");
    wp_exporter_destroy(exporter);
    is_golden("exporter_tries");
}

static void
test_the_end_does_not_wait_for_a_collector(void **state)
{
    struct wp_exporter *exporter = start();

    (void)state;
    is_answered(CURLE_COULDNT_CONNECT, 0);
    n_spans = 2 * WP_EXPORTER_BATCH;
    wp_exporter_destroy(exporter);
    NOTE("# while it tries\n");
    exporter = start();
    n_spans = 1;
    is_answered(CURLE_COULDNT_CONNECT, 0);
    go_on(0, "first");
    is_answered(CURLE_COULDNT_CONNECT, 0);
    wp_exporter_destroy(exporter);
    NOTE("# all is taken\n");
    exporter = start();
    n_spans = 2 * WP_EXPORTER_BATCH + 1;
    is_answered(CURLE_OK, 200);
    is_answered(CURLE_OK, 200);
    is_answered(CURLE_OK, 200);
    wp_exporter_destroy(exporter);
    is_golden("exporter_end");
}

/* The clocks' distance is read with each batch, and only a step counts. */
static void
test_one_offset_until_the_clock_is_set(void **state)
{
    static const int64_t steps_ns[] = {
        1, WP_NS_PER_MS - 1, 1, -2 * WP_NS_PER_MS - 1, WP_NS_PER_MS, 1,
    };
    struct wp_exporter *exporter = start();

    (void)state;
    is_answered(CURLE_OK, 200);
    go_on(1, "as it is");
    for (size_t i = 0; i < WP_ARRAY_LEN(steps_ns); i++) {
        wall.now_wall_ns += steps_ns[i];
        is_answered(CURLE_OK, 200);
        go_on(1, "later");
    }
    wp_exporter_destroy(exporter);
    is_golden("exporter_offset");
}

static void
test_an_exporter_without_memory(void **state)
{
    struct wp_exporter *exporter = NULL;
    struct wp_err err;

    (void)state;
    for (int n = 1; exporter == NULL && n < 50; n++) {
        fails_in = n;
        exporter = create();
    }
    fails_in = 0;
    assert_non_null(exporter);
    thread_error = EAGAIN;
    assert_int_equal(wp_exporter_start(exporter, &err), WP_RESOURCE_EXHAUSTED);
    assert_string_equal(err.msg, "no thread for the exporter of traces: "
                                 "Resource temporarily unavailable");
    wp_exporter_destroy(exporter);
    wp_exporter_destroy(NULL);
    assert_null(wp_exporter_tracer(NULL));
    is_golden("exporter_memory");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_spans_are_sent_in_batches),
        TEST(test_how_often_a_batch_is_tried),
        TEST(test_the_end_does_not_wait_for_a_collector),
        TEST(test_one_offset_until_the_clock_is_set),
        TEST(test_an_exporter_without_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
