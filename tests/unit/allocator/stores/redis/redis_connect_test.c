/* tests/unit/allocator/stores/redis/redis_connect_test.c - the connecting
 * thread of a set of links: whom it asks what and in which order, what a link
 * begins with, how long it pauses, what it logs and counts. The test runs it,
 * answers for the servers, and acts while it waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <hiredis/hiredis.h>
#include <sys/epoll.h>

#include "allocator/stores/redis/link/link_impl.h"
#include "allocator/stores/redis/link/sync.h"
#include "pool/base/clock.h"
#include "tests/unit/allocator/stores/redis/journal.h"

#define RUN_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define RUN_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

enum {
    LINKS = 2,
    NO_ANSWER = -1,
    NO_NUMBER = -2,
    EPOLL_FD = 30,
};

struct attempt {
    const char *run_id; /* NULL: the server is out of reach. */
    long long replies[2];
    bool no_memory;
};

static struct wp_redis_links links;
static struct wp_redis_link of_set[LINKS + 1]; /* The last is no link. */
static int64_t clock_ns;
static int n_locked;
static char sync_mark;
static const struct attempt *attempts;
static uint32_t n_opened;
static uint32_t n_asked;
/* What happens during each wait; the last one ends the thread. */
static int (*const *waits)(void);

int __wrap_clock_gettime(clockid_t id, struct timespec *out);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event);
void __wrap_wp_log_emit(enum wp_log_level level, const char *event,
                        const struct wp_kv *kvs);
int64_t __real_wp_backoff_ns(int64_t min_ns, int64_t max_ns, uint32_t failures);
int64_t __wrap_wp_backoff_ns(int64_t min_ns, int64_t max_ns, uint32_t failures);
int64_t __wrap_wp_rng_half(struct wp_rng *rng, int64_t pause_ns);
void __wrap_wp_redis_links_renew(struct wp_redis_links *set);
bool __wrap_wp_link_reader_init(struct wp_redis_link *link);
enum wp_status __wrap_wp_redis_sync_open(const struct wp_redis_config *config,
                                         struct wp_str key,
                                         struct wp_redis_sync **out,
                                         struct wp_redis_server *server,
                                         char *run_id, struct wp_err *err);
struct redisReply *__wrap_wp_redis_sync_call(struct wp_redis_sync *sync,
                                             const struct wp_str *args,
                                             uint32_t n, struct wp_err *err);
struct wp_redis_stream __wrap_wp_redis_sync_take(struct wp_redis_sync *sync);
void __wrap_wp_redis_sync_close(struct wp_redis_sync *sync);

int
__wrap_clock_gettime(clockid_t id, struct timespec *out)
{
    (void)id;
    out->tv_sec = clock_ns / WP_NS_PER_S;
    out->tv_nsec = clock_ns % WP_NS_PER_S;
    return 0;
}

int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    assert_int_equal(n_locked++, 0);
    return __real_pthread_mutex_lock(lock);
}

int
__wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    assert_int_equal(n_locked--, 1);
    return __real_pthread_mutex_unlock(lock);
}

static int
act(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    assert_ptr_equal(cond, &links.down_cond);
    assert_ptr_equal(lock, &links.down_lock);
    assert_int_equal(n_locked, 1);
    return (*waits++)();
}

int
__wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    journal_note("wait, some_down=%d", links.some_down);
    return act(cond, lock);
}

int
__wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                              const struct timespec *until)
{
    journal_note("wait until %lld.%09ld", (long long)until->tv_sec,
                 until->tv_nsec);
    return act(cond, lock);
}

int
__wrap_epoll_ctl(int epoll_fd, int op, int fd, struct epoll_event *event)
{
    const struct wp_redis_link *link = event->data.ptr;

    assert_int_equal(n_locked, 1);
    journal_note("epoll %d add=%d %d events=%d link %d state=%d", epoll_fd,
                 op == EPOLL_CTL_ADD, fd,
                 event->events == (EPOLLIN | EPOLLRDHUP), (int)(link - of_set),
                 link->state);
    return 0;
}

void
__wrap_wp_log_emit(enum wp_log_level level, const char *event,
                   const struct wp_kv *kvs)
{
    journal_log(level, event, kvs);
}

int64_t
__wrap_wp_backoff_ns(int64_t min_ns, int64_t max_ns, uint32_t failures)
{
    journal_note("backoff %lld..%lld after %u", (long long)min_ns,
                 (long long)max_ns, failures);
    return __real_wp_backoff_ns(min_ns, max_ns, failures);
}

int64_t
__wrap_wp_rng_half(struct wp_rng *rng, int64_t pause_ns)
{
    assert_ptr_equal(rng, &links.rng);
    return pause_ns / 4 * 3;
}

void
__wrap_wp_redis_links_renew(struct wp_redis_links *set)
{
    assert_ptr_equal(set, &links);
    journal_note("renew");
}

bool
__wrap_wp_link_reader_init(struct wp_redis_link *link)
{
    journal_note("reader of link %d", (int)(link - of_set));
    return !attempts[n_opened - 1].no_memory;
}

enum wp_status
__wrap_wp_redis_sync_open(const struct wp_redis_config *config,
                          struct wp_str key, struct wp_redis_sync **out,
                          struct wp_redis_server *server, char *run_id,
                          struct wp_err *err)
{
    const struct attempt *attempt = &attempts[n_opened++];

    assert_ptr_equal(config, &links.config);
    assert_int_equal(n_locked, 0);
    n_asked = 0;
    journal_note("open for %.*s", WP_STR_ARG(key));
    if (attempt->run_id == NULL) {
        return wp_err_set(err, WP_UNAVAILABLE, "nobody is there");
    }
    memset(server, 0, sizeof *server);
    memcpy(server->host, "redis.host", sizeof "redis.host");
    server->port = (uint16_t)(7000 + n_opened);
    memcpy(run_id, attempt->run_id, strlen(attempt->run_id) + 1);
    *out = (struct wp_redis_sync *)&sync_mark;
    return WP_OK;
}

struct redisReply *
__wrap_wp_redis_sync_call(struct wp_redis_sync *sync, const struct wp_str *args,
                          uint32_t n, struct wp_err *err)
{
    long long answer = attempts[n_opened - 1].replies[n_asked++];
    redisReply *reply;

    assert_ptr_equal(sync, &sync_mark);
    assert_int_equal(n_locked, 0);
    journal_put("call");
    journal_words(args, n);
    if (answer == NO_ANSWER) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "call %u: gone", n_asked);
        return NULL;
    }
    reply = calloc(1, sizeof *reply);
    assert_non_null(reply);
    reply->type = answer == NO_NUMBER ? REDIS_REPLY_NIL : REDIS_REPLY_INTEGER;
    reply->integer = answer == NO_NUMBER ? 99 : answer;
    return reply;
}

struct wp_redis_stream
__wrap_wp_redis_sync_take(struct wp_redis_sync *sync)
{
    assert_ptr_equal(sync, &sync_mark);
    return (struct wp_redis_stream){.fd = 40 + (int)n_opened};
}

void
__wrap_wp_redis_sync_close(struct wp_redis_sync *sync)
{
    assert_ptr_equal(sync, &sync_mark);
    journal_note("close");
}

static void
on_server(void *ctx, const char *run_id)
{
    assert_ptr_equal(ctx, &attempts);
    journal_note("server %.1s, ids %lld %lld", run_id, of_set[0].client_id,
                 of_set[1].client_id);
}

/* All that a link has on it when it was used before. */
static void
wear(struct wp_redis_link *link)
{
    link->state = WP_LINK_DOWN;
    link->stream.fd = -1;
    link->out_len = 1;
    link->out_sent = 2;
    link->stream_len = 3;
    link->stream_sent = 4;
    link->wants_write = true;
    link->awaited = true;
    link->watched = EPOLLOUT;
    link->n_missed = 5;
    link->n_passed = 6;
    link->batch.n = 7;
    link->renew = true;
}

static void
tell_all(void)
{
    for (uint32_t i = 0; i < LINKS; i++) {
        const struct wp_redis_link *l = &of_set[i];

        journal_note("link %u: state=%d fd=%d to %s:%u id=%lld out %d/%d "
                     "stream %d/%d wants_write=%d awaited=%d in=%d missed=%u "
                     "passed=%u batch=%u renew=%d",
                     i, l->state, l->stream.fd, l->server.host, l->server.port,
                     l->client_id, (int)l->out_sent, (int)l->out_len,
                     (int)l->stream_sent, (int)l->stream_len, l->wants_write,
                     l->awaited, l->watched == EPOLLIN, l->n_missed,
                     l->n_passed, l->batch.n, l->renew);
    }
    journal_note("connects=%d failures=%d breaker=%d logged=%d at %lld "
                 "some_down=%d run %.1s",
                 (int)atomic_load(&links.connects),
                 (int)atomic_load(&links.connect_failures),
                 atomic_load(&links.breaker), links.logged,
                 (long long)links.logged_ns, links.some_down, links.run_id);
}

static void
run(const struct attempt *with, int (*const *during)(void), const char *golden)
{
    attempts = with;
    waits = during;
    assert_null(wp_redis_connector_run(&links));
    assert_int_equal(n_locked, 0);
    assert_int_equal(of_set[LINKS].client_id, 77);
    tell_all();
    journal_compare(golden);
}

static int
setup(void **state)
{
    (void)state;
    memset(&links, 0, sizeof links);
    memset(of_set, 0, sizeof of_set);
    (void)journal_told();
    clock_ns = 100 * WP_NS_PER_S + 900 * WP_NS_PER_MS;
    n_opened = 0;
    n_locked = 0;
    of_set[LINKS].client_id = 77;
    links.links = of_set;
    links.n = LINKS;
    links.epoll_fd = EPOLL_FD;
    links.hooks.ctx = (void *)&attempts;
    links.hooks.on_server = on_server;
    memcpy(links.key, "{pool}:key", 10);
    links.key_len = 10;
    links.config.backoff_min_ns = 200 * WP_NS_PER_MS;
    links.config.backoff_max_ns = 500 * WP_NS_PER_MS;
    atomic_store(&links.breaker, true);
    (void)pthread_mutex_init(&links.down_lock, NULL);
    (void)pthread_cond_init(&links.down_cond, NULL);
    for (uint32_t i = 0; i < LINKS; i++) {
        (void)pthread_mutex_init(&of_set[i].lock, NULL);
        of_set[i].links = &links;
        of_set[i].index = i;
        wear(&of_set[i]);
    }
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < LINKS; i++) {
        (void)pthread_mutex_destroy(&of_set[i].lock);
    }
    (void)pthread_cond_destroy(&links.down_cond);
    (void)pthread_mutex_destroy(&links.down_lock);
    return 0;
}

/* --- what happens while it waits --- */

static int
stop(void)
{
    atomic_store(&links.stop, true);
    return 0;
}

static int
nothing(void)
{
    return 0;
}

static int
time_is_up(void)
{
    return ETIMEDOUT;
}

static int
ten_seconds(void)
{
    clock_ns += 10 * WP_NS_PER_S;
    return ETIMEDOUT;
}

static int
eleven_seconds(void)
{
    clock_ns += 11 * WP_NS_PER_S;
    return ETIMEDOUT;
}

static int
a_nanosecond(void)
{
    clock_ns++;
    return ETIMEDOUT;
}

static int
first_goes_down(void)
{
    tell_all();
    wear(&of_set[0]);
    links.some_down = true;
    atomic_store(&links.breaker, true);
    return 0;
}

static int
second_goes_down(void)
{
    tell_all();
    wear(&of_set[1]);
    links.some_down = true;
    return 0;
}

/* --- tests --- */

static void
test_links_come_up_one_after_the_other_like_new(void **state)
{
    static const struct attempt with[] = {
        {RUN_A, {11}, false}, {RUN_A, {12}, false}, {RUN_A, {1, 13}, false}};
    static int (*const during[])(void) = {nothing, first_goes_down, stop};

    (void)state;
    links.some_down = true; /* The thread looks once more, and then waits. */
    run(with, during, "connect_links");
}

static void
test_another_process_is_told_of_and_kills_nobody(void **state)
{
    static const struct attempt with[] = {{RUN_A, {11}, false},
                                          {RUN_A, {12}, false},
                                          {RUN_B, {7}, false},
                                          {RUN_A, {8}, false}};
    static int (*const during[])(void) = {first_goes_down, second_goes_down,
                                          stop};

    (void)state;
    run(with, during, "connect_another");
}

static void
test_without_the_hook_another_process_makes_links_anew(void **state)
{
    static const struct attempt with[] = {{RUN_A, {11}, false},
                                          {RUN_B, {12}, false}};
    static int (*const during[])(void) = {stop};

    (void)state;
    links.hooks.on_server = NULL;
    run(with, during, "connect_no_hook");
}

/* What is out of reach is logged at once, and again after ten seconds; each
 * step of a connection may be the one that fails. */
static void
test_pauses_grow_and_failures_are_logged_seldom(void **state)
{
    static const struct attempt with[] = {
        {NULL, {0}, false},
        {NULL, {0}, false},
        {NULL, {0}, false},
        {RUN_A, {NO_ANSWER}, false},
        {RUN_A, {21}, true},
        {RUN_A, {NO_ANSWER, 22}, false},
        {RUN_A, {NO_NUMBER, NO_ANSWER}, false},
        {RUN_A, {NO_NUMBER, NO_NUMBER}, false},
        {NULL, {0}, false},
        {RUN_A, {23}, false},
        {RUN_A, {24}, false},
    };
    static int (*const during[])(void) = {
        ten_seconds,    a_nanosecond,    nothing,     eleven_seconds,
        eleven_seconds, ten_seconds,     ten_seconds, ten_seconds,
        time_is_up,     first_goes_down, stop};

    (void)state;
    run(with, during, "connect_pauses");
}

static void
test_a_pause_of_nothing_ends_at_once(void **state)
{
    static const struct attempt with[] = {{NULL, {0}, false}};
    static int (*const during[])(void) = {stop};

    (void)state;
    links.config.backoff_min_ns = 0;
    links.config.backoff_max_ns = 0;
    run(with, during, "connect_no_pause");
}

static void
test_a_set_that_stops_connects_nothing(void **state)
{
    (void)state;
    atomic_store(&links.stop, true);
    run(NULL, NULL, "connect_stopped");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_links_come_up_one_after_the_other_like_new, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_another_process_is_told_of_and_kills_nobody, setup, teardown),
        cmocka_unit_test_setup_teardown(
            test_without_the_hook_another_process_makes_links_anew, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            test_pauses_grow_and_failures_are_logged_seldom, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_pause_of_nothing_ends_at_once,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_set_that_stops_connects_nothing,
                                        setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
