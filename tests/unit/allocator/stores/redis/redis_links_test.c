/* tests/unit/allocator/stores/redis/redis_links_test.c - a set of links by the
 * test's clock and with the test at the other end: what is sent and answered,
 * when a link is given up, and what is said of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hiredis/hiredis.h>
#include <sys/socket.h>
#include <unistd.h>

#include "allocator/stores/redis/link/link_impl.h"
#include "allocator/stores/redis/link/sync.h"
#include "pool/base/clock.h"
#include "tests/support/base/heard.h"

enum {
    PATIENCE_MS = 60000,
    ATTEMPTS_MAX = 16,
    REPLIES_MAX = 64,
};

int __real_clock_gettime(clockid_t which, struct timespec *out);
int __wrap_clock_gettime(clockid_t which, struct timespec *out);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until);
enum wp_status __wrap_wp_redis_sync_open(const struct wp_redis_config *config,
                                         struct wp_str key,
                                         struct wp_redis_sync **out,
                                         struct wp_redis_server *server,
                                         char run_id[WP_REDIS_RUN_ID_MAX + 1],
                                         struct wp_err *err);
struct redisReply *__wrap_wp_redis_sync_call(struct wp_redis_sync *sync,
                                             const struct wp_str *args,
                                             uint32_t n, struct wp_err *err);
struct wp_redis_stream __wrap_wp_redis_sync_take(struct wp_redis_sync *sync);

static _Atomic(int64_t) clock_ns;

/* Of each attempt to connect. The connecting thread's but for what is atomic. */
static struct {
    int64_t at_ns[ATTEMPTS_MAX]; /* Set by the test; 0: there are no more. */
    bool fails[ATTEMPTS_MAX];
    int64_t pauses_ns[ATTEMPTS_MAX];
    _Atomic(uint32_t) n_pauses;
    _Atomic(uint32_t) n;
    int ours;            /* What was just connected, until it is taken. */
    _Atomic(int) theirs; /* Its other end, the test's. */
    int former;          /* The one before it. */
} attempts;

static const struct wp_redis_server first_server = {.host = "h", .port = 1};

struct answer {
    uint32_t link;
    void *call;
    uint32_t tag;
    int kind;
    int64_t number;
    char text[WP_REDIS_REPLY_MAX + 1];
    int status; /* Of what ended without an answer. */
};

static struct answer answers[REPLIES_MAX];
static _Atomic(uint32_t) n_answers;

static int64_t
nanoseconds(const struct timespec *at)
{
    return at->tv_sec * WP_NS_PER_S + at->tv_nsec;
}

int
__wrap_clock_gettime(clockid_t which, struct timespec *out)
{
    if (which != CLOCK_MONOTONIC && which != CLOCK_MONOTONIC_COARSE) {
        return __real_clock_gettime(which, out);
    }
    out->tv_sec = clock_ns / WP_NS_PER_S;
    out->tv_nsec = clock_ns % WP_NS_PER_S;
    return 0;
}

/* The pause is over when the next attempt is to be made. */
int
__wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                              const struct timespec *until)
{
    uint32_t next = attempts.n;

    attempts.pauses_ns[attempts.n_pauses] = nanoseconds(until) - clock_ns;
    (void)atomic_fetch_add(&attempts.n_pauses, 1);
    if (next >= ATTEMPTS_MAX || attempts.at_ns[next] == 0) {
        return pthread_cond_wait(cond, lock);
    }
    clock_ns = attempts.at_ns[next];
    return ETIMEDOUT;
}

enum wp_status
__wrap_wp_redis_sync_open(const struct wp_redis_config *config,
                          struct wp_str key, struct wp_redis_sync **out,
                          struct wp_redis_server *server,
                          char run_id[WP_REDIS_RUN_ID_MAX + 1],
                          struct wp_err *err)
{
    uint32_t i = atomic_fetch_add(&attempts.n, 1);
    int ends[2];

    if (i < ATTEMPTS_MAX && attempts.fails[i]) {
        return wp_err_set(err, WP_UNAVAILABLE, "no %u %.*s", i,
                          WP_STR_ARG(key));
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        abort();
    }
    attempts.ours = ends[0];
    attempts.former = attempts.theirs;
    attempts.theirs = ends[1];
    *out = NULL;
    *server = config->server;
    memcpy(run_id, "run", 4);
    return WP_OK;
}

struct redisReply *
__wrap_wp_redis_sync_call(struct wp_redis_sync *sync, const struct wp_str *args,
                          uint32_t n, struct wp_err *err)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    (void)sync;
    (void)args;
    (void)n;
    (void)err;
    if (redisReaderFeed(reader, ":7\r\n", 4) != REDIS_OK ||
        redisReaderGetReply(reader, &reply) != REDIS_OK) {
        abort();
    }
    redisReaderFree(reader);
    return reply;
}

struct wp_redis_stream
__wrap_wp_redis_sync_take(struct wp_redis_sync *sync)
{
    (void)sync;
    return (struct wp_redis_stream){.fd = attempts.ours};
}

static void
on_reply(void *ctx, uint32_t link, void *call, uint32_t tag,
         const struct wp_redis_reply *reply)
{
    struct answer *answer = &answers[n_answers];
    bool is_text =
        reply->kind == WP_REPLY_TEXT || reply->kind == WP_REPLY_ERROR;

    (void)ctx;
    *answer = (struct answer){
        .link = link, .call = call, .tag = tag, .kind = (int)reply->kind};
    answer->number = reply->kind == WP_REPLY_NUMBER ? reply->number : 0;
    if (is_text) {
        memcpy(answer->text, reply->text.ptr, reply->text.len);
    }
    (void)atomic_fetch_add(&n_answers, 1);
}

static void
on_end(void *ctx, void *call, enum wp_status status)
{
    (void)ctx;
    answers[n_answers] =
        (struct answer){.call = call, .kind = -1, .status = (int)status};
    (void)atomic_fetch_add(&n_answers, 1);
}

static int
setup(void **state)
{
    (void)state;
    memset(&attempts, 0, sizeof attempts);
    memset(answers, 0, sizeof answers);
    n_answers = 0;
    clock_ns = 500 * WP_NS_PER_MS;
    return 0;
}

#define AWAIT(condition)                                                       \
    do {                                                                       \
        for (int waits = 0; !(condition); waits++) {                           \
            assert_true(waits < PATIENCE_MS);                                  \
            (void)usleep(1000);                                                \
        }                                                                      \
    } while (0)

static struct wp_redis_links *
create(uint32_t n)
{
    const struct wp_redis_hooks hooks = {.on_reply = on_reply,
                                         .on_end = on_end};
    const struct wp_redis_config config = {
        .server = first_server,
        .pending_max = 5,
        .commit_timeout_ns = 3 * WP_NS_PER_S,
        .backoff_min_ns = 100 * WP_NS_PER_MS,
        .backoff_max_ns = WP_NS_PER_S,
    };
    struct wp_redis_links *links;
    struct wp_err err;

    assert_int_equal(
        wp_redis_links_create(&config, &hooks, WP_STR("key"), n, &links, &err),
        WP_OK);
    return links;
}

static struct wp_redis_stats
stats_of(struct wp_redis_links *links)
{
    struct wp_redis_stats stats;

    wp_redis_links_read_stats(links, &stats);
    return stats;
}

static void
assert_stats(struct wp_redis_links *links, const struct wp_redis_stats *wanted)
{
    struct wp_redis_stats is = stats_of(links);

    assert_int_equal(is.links, wanted->links);
    assert_int_equal(is.links_up, wanted->links_up);
    assert_int_equal(is.breaker_open, wanted->breaker_open);
    assert_int_equal(is.connects, wanted->connects);
    assert_int_equal(is.connect_failures, wanted->connect_failures);
    assert_int_equal(is.disconnects, wanted->disconnects);
    assert_int_equal(is.timeouts, wanted->timeouts);
    assert_int_equal(is.refused, wanted->refused);
    assert_int_equal(is.full, wanted->full);
    assert_int_equal(is.unknown, wanted->unknown);
}

/* The reading thread has looked at the time of every link. */
static void
look(struct wp_redis_links *links)
{
    const uint64_t one = 1;

    for (int i = 0; i < 2; i++) {
        atomic_store(&links->check, true);
        assert_int_equal(write(links->wake_fd, &one, sizeof one), sizeof one);
        AWAIT(!atomic_load(&links->check));
    }
}

/* The connection of that number is up, from 1, and the reading thread
 * counts its ticks from now; the test's end of it. */
static int
theirs(struct wp_redis_links *links, uint64_t number)
{
    AWAIT(stats_of(links).connects >= number &&
          stats_of(links).links_up == links->n);
    look(links);
    return attempts.theirs;
}

static void
is_sent(int fd, const char *expected)
{
    size_t len = strlen(expected);
    char got[512] = "";

    assert_int_equal(recv(fd, got, len, MSG_WAITALL), len);
    assert_string_equal(got, expected);
    assert_int_equal(recv(fd, got, 1, MSG_DONTWAIT), -1);
}

static void
say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static int calls[8];

static enum wp_status
send_word(struct wp_redis_links *links, unsigned i, bool flush)
{
    const struct wp_str word = WP_STR("GO");

    return wp_redis_send(links, 0, &calls[i], i, &word, 1, flush);
}

static void
assert_answer(uint32_t i, const struct answer *wanted)
{
    const struct answer *is = &answers[i];

    AWAIT(n_answers > i);
    assert_int_equal(is->link, wanted->link);
    assert_ptr_equal(is->call, wanted->call);
    assert_int_equal(is->tag, wanted->tag);
    assert_int_equal(is->kind, wanted->kind);
    assert_int_equal(is->number, wanted->number);
    assert_string_equal(is->text, wanted->text);
    assert_int_equal(is->status, wanted->status);
}

static void
test_when_it_is_tried_again_and_said(void **state)
{
    static const int64_t after_ns[] = {
        0,
        5 * WP_NS_PER_S,
        10 * WP_NS_PER_S,
        10 * WP_NS_PER_S + 1, /* Said again. */
        20 * WP_NS_PER_S + 1,
        20 * WP_NS_PER_S + 2, /* And again. */
        21 * WP_NS_PER_S,     /* One link is up. */
        21 * WP_NS_PER_S,     /* The other is not: that is news. */
        22 * WP_NS_PER_S,
    };
    static const int64_t most_ms[] = {100, 200, 400, 800, 1000, 1000, 100};
    struct wp_redis_links *links;
    struct heard heard;
    int first;
    int last;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(after_ns); i++) {
        attempts.at_ns[i] = clock_ns + after_ns[i];
        attempts.fails[i] = i < 6 || i == 7;
    }
    heard_begin(&heard);
    links = create(2);
    last = theirs(links, 2);
    first = attempts.former;
    (void)close(last); /* Made again, and nothing to tell of that. */
    last = theirs(links, 3);
    wp_redis_links_stop(links);
    assert_string_equal(
        heard_end(&heard),
        "WARN redis is out of reach error=\"no 0 key\"\n"
        "WARN redis is out of reach error=\"no 3 key\"\n"
        "WARN redis is out of reach error=\"no 5 key\"\n"
        "INFO redis connected server=h:1\n"
        "WARN redis is out of reach error=\"no 7 key\"\n"
        "INFO redis connected server=h:1\n"
        "WARN redis connection lost why=\"closed by the other side\""
        " connections=2\n");
    assert_int_equal(attempts.n_pauses, WP_ARRAY_LEN(most_ms));
    for (size_t i = 0; i < WP_ARRAY_LEN(most_ms); i++) {
        assert_in_range(attempts.pauses_ns[i], most_ms[i] * WP_NS_PER_MS / 2,
                        most_ms[i] * WP_NS_PER_MS);
    }
    assert_stats(links, &(struct wp_redis_stats){.links = 2,
                                                 .links_up = 2,
                                                 .connects = 3,
                                                 .connect_failures = 7,
                                                 .disconnects = 1});
    wp_redis_links_destroy(links);
    (void)close(first);
    (void)close(last);
}

static void
test_lost_connections_are_told_of_once_a_second(void **state)
{
    static const int64_t after_ns[] = {0, WP_NS_PER_S, WP_NS_PER_S + 1};
    struct wp_redis_links *links;
    int64_t begin_ns = clock_ns;
    struct heard heard;
    int end;

    (void)state;
    heard_begin(&heard);
    links = create(1);
    end = theirs(links, 1);
    for (size_t i = 0; i < WP_ARRAY_LEN(after_ns); i++) {
        clock_ns = begin_ns + after_ns[i];
        if (i == 0) {
            say(end, "?\r\n");
        }
        AWAIT(i > 0 || stats_of(links).disconnects > 0);
        (void)close(end);
        end = theirs(links, i + 2);
    }
    wp_redis_links_stop(links);
    assert_string_equal(
        heard_end(&heard),
        "INFO redis connected server=h:1\n"
        "WARN redis connection lost why=\"the answer is not what Redis says\""
        " connections=1\n"
        "WARN redis connection lost why=\"closed by the other side\""
        " connections=1\n");
    wp_redis_links_destroy(links);
    (void)close(end);
}

static void
test_what_is_sent_and_answered(void **state)
{
    const struct wp_str words[] = {
        WP_STR("TEN-LETTER"), {NULL, 0}, WP_STR("x")};
    static char texts[2][WP_REDIS_REPLY_MAX + 32];
    struct wp_redis_links *links = create(1);
    int end = theirs(links, 1);

    (void)state;
    assert_int_equal(wp_redis_send(links, 0, &calls[0], 70, words, 3, false),
                     WP_PENDING);
    assert_false(wp_redis_links_are_quiet(links));
    assert_int_equal(wp_redis_send_asking(links, 0, &calls[1], 71, words, 1),
                     WP_PENDING);
    is_sent(end, "*3\r\n$10\r\nTEN-LETTER\r\n$0\r\n\r\n$1\r\nx\r\n"
                 "*1\r\n$6\r\nASKING\r\n*1\r\n$10\r\nTEN-LETTER\r\n");
    say(end, ":-5\r\n+OK\r\n$3\r\nabc\r\n");
    assert_answer(
        0, &(struct answer){0, &calls[0], 70, WP_REPLY_NUMBER, -5, "", 0});
    assert_answer(
        1, &(struct answer){0, &calls[1], 71, WP_REPLY_TEXT, 0, "abc", 0});
    AWAIT(wp_redis_links_are_quiet(links));

    /* As many as are allowed, more often than the ring has entries. */
    for (uint32_t round = 0; round < 4; round++) {
        for (unsigned i = 0; i < 5; i++) {
            assert_int_equal(send_word(links, i, false), WP_PENDING);
        }
        assert_int_equal(send_word(links, 5, true), WP_UNAVAILABLE);
        assert_int_equal(stats_of(links).full, round + 1);
        assert_int_equal(recv(end, texts[0], 1, MSG_DONTWAIT), -1);
        wp_redis_flush(links, 0);
        is_sent(end, "*1\r\n$2\r\nGO\r\n*1\r\n$2\r\nGO\r\n*1\r\n$2\r\nGO\r\n"
                     "*1\r\n$2\r\nGO\r\n*1\r\n$2\r\nGO\r\n");
        say(end, ":1\r\n-ERR no\r\n+FINE\r\n$-1\r\n*2\r\n:3\r\n$1\r\nz\r\n");
        for (uint32_t i = 0; i < 5; i++) {
            static const int kinds[] = {WP_REPLY_NUMBER, WP_REPLY_ERROR,
                                        WP_REPLY_OTHER, WP_REPLY_OTHER,
                                        WP_REPLY_OTHER};

            struct answer wanted = {0, &calls[i], i, kinds[i], i == 0, "", 0};

            (void)strcpy(wanted.text, i == 1 ? "ERR no" : "");
            assert_answer(2 + round * 5 + i, &wanted);
        }
        AWAIT(wp_redis_links_are_quiet(links));
    }

    /* What is too long is cut. */
    for (size_t i = 0; i < 2; i++) {
        size_t len = WP_REDIS_REPLY_MAX + i;
        size_t at = (size_t)snprintf(texts[i], 16, "$%zu\r\n", len);
        struct answer wanted = {0, &calls[i], 0, WP_REPLY_TEXT, 0, "", 0};

        memset(texts[i] + at, 'a', len);
        memcpy(texts[i] + at + len, "\r\n", 3);
        memset(wanted.text, 'a', WP_REDIS_REPLY_MAX);
        wanted.tag = (uint32_t)i;
        assert_int_equal(send_word(links, (unsigned)i, true), WP_PENDING);
        is_sent(end, "*1\r\n$2\r\nGO\r\n");
        say(end, texts[i]);
        assert_answer(22 + (uint32_t)i, &wanted);
    }
    assert_stats(links,
                 &(struct wp_redis_stats){
                     .links = 1, .links_up = 1, .connects = 1, .full = 4});
    wp_redis_links_destroy(links);
    (void)close(end);
}

static void
test_what_is_not_answered_in_time(void **state)
{
    struct wp_redis_links *links;
    struct heard heard;
    int end;

    (void)state;
    attempts.fails[1] = true;
    heard_begin(&heard);
    links = create(1);
    end = theirs(links, 1);
    assert_int_equal(send_word(links, 3, true), WP_PENDING);
    clock_ns += 3 * WP_NS_PER_S;
    look(links);
    assert_int_equal(n_answers, 0);
    assert_int_equal(stats_of(links).timeouts, 0);
    clock_ns += 1;
    look(links);
    assert_answer(
        0, &(struct answer){0, &calls[3], 0, -1, 0, "", WP_UNKNOWN_OUTCOME});
    AWAIT(attempts.n_pauses == 1);
    assert_int_equal(send_word(links, 3, true), WP_UNAVAILABLE);
    assert_stats(links, &(struct wp_redis_stats){.links = 1,
                                                 .breaker_open = true,
                                                 .connects = 1,
                                                 .connect_failures = 1,
                                                 .disconnects = 1,
                                                 .timeouts = 1,
                                                 .refused = 1,
                                                 .unknown = 1});
    wp_redis_links_stop(links);
    assert_string_equal(heard_end(&heard),
                        "INFO redis connected server=h:1\n"
                        "WARN redis connection lost why=\"no answer in time\""
                        " connections=1\n"
                        "WARN redis is out of reach error=\"no 1 key\"\n");
    wp_redis_links_destroy(links);
    (void)close(end);
}

/* What is under way is answered first, and nothing more is taken meanwhile. */
static void
test_links_that_lead_elsewhere(void **state)
{
    struct wp_redis_server other = {.host = "h", .port = 2};
    struct wp_redis_links *links;
    struct heard heard;
    int end;

    (void)state;
    heard_begin(&heard);
    links = create(1);
    end = theirs(links, 1);
    wp_redis_links_lead_to(links, &first_server); /* It does. */
    assert_false(atomic_load(&links->check));
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(send_word(links, i, true), WP_PENDING);
        if (i == 0) {
            wp_redis_links_renew(links);
        } else {
            wp_redis_links_lead_to(links, &other);
        }
        AWAIT(!atomic_load(&links->renew));
        look(links);
        assert_int_equal(stats_of(links).disconnects, i);
        assert_int_equal(send_word(links, 7, true), WP_UNAVAILABLE);
        say(end, ":4\r\n");
        assert_answer(
            i, &(struct answer){0, &calls[i], i, WP_REPLY_NUMBER, 4, "", 0});
        AWAIT(wp_redis_links_are_quiet(links));
        clock_ns += 50 * WP_NS_PER_MS; /* It is looked at so often. */
        AWAIT(stats_of(links).disconnects == i + 1);
        (void)close(end);
        end = theirs(links, i + 2);
        clock_ns += 2 * WP_NS_PER_S;
    }
    assert_int_equal(send_word(links, 6, true), WP_PENDING);
    is_sent(end, "*1\r\n$2\r\nGO\r\n");
    assert_stats(links, &(struct wp_redis_stats){.links = 1,
                                                 .links_up = 1,
                                                 .connects = 3,
                                                 .disconnects = 2,
                                                 .refused = 2});
    wp_redis_links_stop(links);
    assert_string_equal(heard_end(&heard),
                        "INFO redis connected server=h:1\n"
                        "WARN redis connection lost why=\"the server is"
                        " looked for again\" connections=1\n"
                        "WARN redis connection lost why=\"the server is"
                        " looked for again\" connections=1\n");
    wp_redis_links_destroy(links);
    (void)close(end);
}

/* The answer is there before it is waited for, so who waits reads it. */
static void
test_a_writer_that_reads_garbage_says_why(void **state)
{
    struct wp_redis_links *links;
    struct heard heard;
    int end;

    (void)state;
    heard_begin(&heard);
    links = create(1);
    end = theirs(links, 1);
    /* Nothing is heard of what comes while it may be the writer's. */
    (void)pthread_mutex_lock(&links->links[0].lock);
    wp_link_watch(&links->links[0], 0);
    (void)pthread_mutex_unlock(&links->links[0].lock);
    assert_int_equal(send_word(links, 2, false), WP_PENDING);
    say(end, "?\r\n");
    wp_redis_flush_and_wait(links, 0);
    assert_answer(
        0, &(struct answer){0, &calls[2], 0, -1, 0, "", WP_UNKNOWN_OUTCOME});
    (void)close(end);
    end = theirs(links, 2);
    wp_redis_links_stop(links);
    assert_string_equal(
        heard_end(&heard),
        "INFO redis connected server=h:1\n"
        "WARN redis connection lost why=\"the answer is not what Redis says\""
        " connections=1\n");
    wp_redis_links_destroy(links);
    (void)close(end);
}

/* What has left may have been done; what has not, was not. */
static void
test_calls_end_with_the_set(void **state)
{
    struct wp_redis_links *links = create(1);
    int end = theirs(links, 1);

    (void)state;
    assert_int_equal(send_word(links, 0, true), WP_PENDING);
    assert_int_equal(send_word(links, 1, false), WP_PENDING);
    is_sent(end, "*1\r\n$2\r\nGO\r\n");
    clock_ns += 50 * WP_NS_PER_MS; /* Nobody flushed it. */
    is_sent(end, "*1\r\n$2\r\nGO\r\n");
    wp_redis_links_stop(links);
    assert_int_equal(send_word(links, 2, false), WP_PENDING);
    wp_redis_links_destroy(links);
    assert_int_equal(n_answers, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_answer(
            i, &(struct answer){0, &calls[i], 0, -1, 0, "",
                                i < 2 ? WP_UNKNOWN_OUTCOME : WP_UNAVAILABLE});
    }
    (void)close(end);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_when_it_is_tried_again_and_said, setup),
        cmocka_unit_test_setup(test_lost_connections_are_told_of_once_a_second,
                               setup),
        cmocka_unit_test_setup(test_what_is_sent_and_answered, setup),
        cmocka_unit_test_setup(test_what_is_not_answered_in_time, setup),
        cmocka_unit_test_setup(test_links_that_lead_elsewhere, setup),
        cmocka_unit_test_setup(test_a_writer_that_reads_garbage_says_why,
                               setup),
        cmocka_unit_test_setup(test_calls_end_with_the_set, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
