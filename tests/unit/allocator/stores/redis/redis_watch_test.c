/* tests/unit/allocator/stores/redis/redis_watch_test.c - the thread of a
 * topology: when it looks, how long it waits for what, whom it tells of
 * changes, and what it logs. The test runs it, answers for the looks, and acts
 * while it waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "allocator/stores/redis/topology/topology_impl.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/pool/manual_clock.h"
#include "tests/unit/allocator/stores/redis/journal.h"

enum {
    WAITS_MAX = 16,
};

static struct wp_redis_topology *t;
static int64_t clock_ns;
static void *(*thread_run)(void *ctx);
static void *thread_ctx;
static int fails_in; /* The step of that number fails, from 1. */
/* What happens during each wait; the last one ends the thread. */
static void (*waits[WAITS_MAX])(void);
static uint32_t n_waits;
static uint32_t n_waited;
static short revents[2]; /* Of the next wait. */
static bool events_tell;
static bool interrupted;
/* What looks bring. */
static enum wp_status look_status;
static const char *look_why;
static uint16_t look_ports[4];
static bool look_verifies;
static int n_locked;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
int __real_eventfd(unsigned value, int flags);
int __wrap_eventfd(unsigned value, int flags);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *ctx), void *ctx);
int __wrap_pthread_join(pthread_t thread, void **out);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
const struct wp_clock *__wrap_wp_clock_system(void);
void __wrap_wp_log_emit(enum wp_log_level level, const char *event,
                        const struct wp_kv *kvs);
enum wp_status
__wrap_wp_redis_topology_look_sentinel(struct wp_redis_topology *topology,
                                       uint64_t doubt, struct wp_err *err);
enum wp_status
__wrap_wp_redis_topology_look_cluster(struct wp_redis_topology *topology,
                                      uint64_t doubt, struct wp_err *err);
int
__wrap_wp_redis_topology_events_fd(const struct wp_redis_topology *topology);
bool __wrap_wp_redis_topology_read_events(struct wp_redis_topology *topology);
void __wrap_wp_redis_topology_close_events(struct wp_redis_topology *topology);

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    n_locked++;
    return __real_pthread_mutex_lock(lock);
}

int
__wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    assert_int_equal(n_locked--, 1);
    return __real_pthread_mutex_unlock(lock);
}

static bool
fails_now(void)
{
    return fails_in > 0 && --fails_in == 0;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_calloc(n, size);
}

int
__wrap_eventfd(unsigned value, int flags)
{
    if (fails_now()) {
        errno = EMFILE;
        return -1;
    }
    return __real_eventfd(value, flags);
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                      void *(*run)(void *ctx), void *ctx)
{
    (void)attr;
    memset(thread, 0, sizeof *thread);
    if (fails_now()) {
        return EAGAIN;
    }
    thread_run = run;
    thread_ctx = ctx;
    return 0;
}

int
__wrap_pthread_join(pthread_t thread, void **out)
{
    (void)thread;
    (void)out;
    journal_note("join, stop=%d", t->stop);
    return 0;
}

int
__wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    (void)thread;
    journal_note("thread %s", name);
    return 0;
}

/* Nobody changes anything meanwhile. */
int
__wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                              const struct timespec *until)
{
    assert_ptr_equal(cond, &t->known);
    assert_ptr_equal(lock, &t->lock);
    journal_note("wait for it until %lld.%09ld", (long long)until->tv_sec,
                 until->tv_nsec);
    if (n_waited == n_waits) {
        return ETIMEDOUT;
    }
    (void)pthread_mutex_unlock(lock);
    waits[n_waited++]();
    (void)pthread_mutex_lock(lock);
    return 0;
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    struct pollfd woken = {.fd = fds[0].fd, .events = POLLIN};
    struct timespec no_time = {0, 0};
    int result;

    journal_note("wait at %lld ms: %d, wake %d events %d, for %d ms",
                 (long long)(clock_ns / WP_NS_PER_MS), (int)n,
                 fds[0].fd == t->wake_fd && fds[0].events == POLLIN,
                 fds[1].events == POLLIN ? fds[1].fd : -2, timeout_ms);
    if (n_waited == n_waits) {
        t->stop = true;
        return 0;
    }
    waits[n_waited++]();
    if (interrupted) {
        interrupted = false;
        fds[0].revents = fds[1].revents = POLLIN;
        return -1;
    }
    result = ppoll(&woken, 1, &no_time, NULL);
    if (result > 0) {
        journal_note("woken");
    }
    fds[0].revents = woken.revents;
    fds[1].revents = revents[1];
    result += revents[1] != 0;
    revents[1] = 0;
    return result;
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    static struct wp_clock_manual clock;

    wp_clock_manual_init(&clock, clock_ns, 0);
    return &clock.clock;
}

void
__wrap_wp_log_emit(enum wp_log_level level, const char *event,
                   const struct wp_kv *kvs)
{
    journal_log(level, event, kvs);
}

static enum wp_status
look_at(const char *what, uint64_t doubt, struct wp_err *err)
{
    journal_note("look at %s, doubt %u, look=%d", what, (unsigned)doubt,
                 t->look);
    if (look_status != WP_OK) {
        return wp_err_set(err, look_status, "%s", look_why);
    }
    wp_redis_slot_map_clear(&t->found);
    for (size_t i = 0; i < WP_ARRAY_LEN(look_ports) && look_ports[i] != 0;
         i++) {
        struct wp_redis_server server = {.host = "h", .port = look_ports[i]};

        t->found.owner[i] = wp_redis_slot_map_add(&t->found, &server);
    }
    wp_redis_topology_publish(t);
    for (uint32_t i = 0; look_verifies && i < t->map.n_nodes; i++) {
        wp_redis_topology_verified(t, &t->map.nodes[i], doubt);
    }
    if (look_why != NULL) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "%s", look_why);
    }
    return WP_OK;
}

enum wp_status
__wrap_wp_redis_topology_look_sentinel(struct wp_redis_topology *topology,
                                       uint64_t doubt, struct wp_err *err)
{
    assert_ptr_equal(topology, t);
    return look_at("sentinels", doubt, err);
}

enum wp_status
__wrap_wp_redis_topology_look_cluster(struct wp_redis_topology *topology,
                                      uint64_t doubt, struct wp_err *err)
{
    assert_ptr_equal(topology, t);
    return look_at("cluster", doubt, err);
}

int
__wrap_wp_redis_topology_events_fd(const struct wp_redis_topology *topology)
{
    assert_ptr_equal(topology, t);
    return 77;
}

bool
__wrap_wp_redis_topology_read_events(struct wp_redis_topology *topology)
{
    assert_ptr_equal(topology, t);
    journal_note("read events: %d", events_tell);
    return events_tell;
}

void
__wrap_wp_redis_topology_close_events(struct wp_redis_topology *topology)
{
    assert_ptr_equal(topology, t);
    journal_note("close events");
}

/* --- the rig --- */

static void
on_change(void *ctx)
{
    journal_note("%s: changed", (const char *)ctx);
}

static char ctx[] = "links";

static enum wp_status
create_with(enum wp_redis_kind kind,
            const struct wp_redis_topology_config *config, struct wp_err *err)
{
    static struct wp_redis_url url;

    memset(&url, 0, sizeof url);
    url.kind = kind;
    url.server = (struct wp_redis_server){.host = "one", .port = 9};
    url.n_seeds = 2;
    url.seeds[0] = (struct wp_redis_server){.host = "s", .port = 1};
    url.seeds[1] = (struct wp_redis_server){.host = "s", .port = 2};
    return wp_redis_topology_create(&url, config, &t, err);
}

static void
create(enum wp_redis_kind kind)
{
    const struct wp_redis_topology_config config = {
        .timeout_ns = 30 * WP_NS_PER_MS,
        .poll_ns = 2 * WP_NS_PER_S,
        .recheck_ns = 200 * WP_NS_PER_S,
        .on_change = on_change,
        .ctx = ctx,
    };
    struct wp_err err;

    assert_int_equal(create_with(kind, &config, &err), WP_OK);
}

static int
setup(void **state)
{
    (void)state;
    t = NULL;
    clock_ns = 5 * WP_NS_PER_S;
    fails_in = 0;
    n_waits = 0;
    n_waited = 0;
    revents[1] = 0;
    events_tell = false;
    interrupted = false;
    look_status = WP_OK;
    look_why = NULL;
    memset(look_ports, 0, sizeof look_ports);
    look_ports[0] = 4;
    look_verifies = true;
    thread_run = NULL;
    n_locked = 0;
    return 0;
}

static void
then(void (*what)(void))
{
    assert_true(n_waits < WAITS_MAX);
    waits[n_waits++] = what;
}

static void
run(void)
{
    assert_non_null(thread_run);
    assert_null(thread_run(thread_ctx));
    assert_int_equal(n_waited, n_waits);
    wp_redis_topology_destroy(t);
}

/* --- what happens meanwhile --- */

static void
a_millisecond(void)
{
    clock_ns += WP_NS_PER_MS;
}

static void
a_tenth(void)
{
    clock_ns += 100 * WP_NS_PER_MS;
}

static void
two_seconds(void)
{
    clock_ns += 2 * WP_NS_PER_S;
}

static void
almost_two_seconds(void)
{
    clock_ns += 2 * WP_NS_PER_S - 1;
}

static void
two_hundred_seconds(void)
{
    clock_ns += 200 * WP_NS_PER_S;
}

static void
a_failure(void)
{
    wp_redis_topology_failed(t, NULL);
}

static void
a_move(void)
{
    struct wp_redis_server server = {.host = "h", .port = 8};

    wp_redis_topology_moved(t, 3, &server);
}

static void
an_event(void)
{
    t->events = (struct wp_redis_sync *)(void *)&clock_ns;
    revents[1] = POLLIN;
}

static void
an_event_that_tells(void)
{
    an_event();
    events_tell = true;
}

static void
an_interrupt(void)
{
    interrupted = true;
}

static void
bad_looks(void)
{
    look_status = WP_UNAVAILABLE;
    look_why = "nobody answers";
}

static void
good_looks(void)
{
    look_status = WP_OK;
    look_why = NULL;
    a_failure();
}

static void
looks_that_doubt(void)
{
    look_verifies = false;
    look_why = "one is silent";
    a_failure();
}

static void
another_master(void)
{
    look_ports[0] = 6;
    wp_redis_topology_look_again(t);
}

static void
another_node(void)
{
    look_ports[1] = 7;
    wp_redis_topology_look_again(t);
}

/* --- tests --- */

static void
test_when_it_looks(void **state)
{
    (void)state;
    create(WP_REDIS_SENTINEL);
    then(a_millisecond);
    then(two_hundred_seconds);
    then(a_failure);
    then(a_tenth);
    then(an_event);
    then(an_event_that_tells);
    then(an_interrupt);
    then(a_tenth);
    run();
    journal_compare("watch_looks");
}

static void
test_what_is_unknown_is_looked_at_more_often(void **state)
{
    (void)state;
    create(WP_REDIS_SENTINEL);
    bad_looks();
    then(almost_two_seconds);
    then(a_millisecond);
    then(two_seconds);
    then(good_looks);
    then(two_seconds);
    then(looks_that_doubt);
    then(two_seconds);
    then(two_seconds);
    run();
    journal_compare("watch_unknown");
}

static void
test_what_is_logged_of_a_master(void **state)
{
    (void)state;
    create(WP_REDIS_SENTINEL);
    then(two_hundred_seconds);
    then(another_master);
    then(a_tenth);
    then(a_failure);
    then(a_tenth);
    then(bad_looks);
    then(two_hundred_seconds);
    then(two_seconds);
    then(good_looks);
    then(two_seconds);
    then(another_node);
    then(a_tenth);
    run();
    journal_compare("watch_master");
}

static void
test_what_is_logged_of_a_cluster(void **state)
{
    (void)state;
    create(WP_REDIS_CLUSTER);
    then(two_hundred_seconds);
    then(another_node);
    then(a_tenth);
    then(a_move);
    then(a_tenth);
    then(looks_that_doubt);
    then(a_tenth);
    then(two_seconds);
    then(bad_looks);
    then(two_seconds);
    then(good_looks);
    then(two_seconds);
    run();
    journal_compare("watch_cluster");
}

static void
test_one_server_needs_no_thread(void **state)
{
    const struct wp_redis_topology_config config = {.timeout_ns = -1};
    struct wp_redis_topology_stats stats;
    struct wp_redis_server server;
    struct wp_err err = {.msg = ""};

    (void)state;
    assert_int_equal(create_with(WP_REDIS_SINGLE, &config, &err), WP_OK);
    assert_null(thread_run);
    assert_int_equal(t->config.timeout_ns, WP_NS_PER_S);
    assert_int_equal(t->config.poll_ns, WP_NS_PER_S);
    assert_int_equal(t->config.recheck_ns, 10 * WP_NS_PER_S);
    wp_redis_topology_read_stats(t, &stats);
    assert_int_equal(stats.nodes, 1);
    assert_int_equal(wp_redis_topology_lookup(t, 5, &server, &err), WP_OK);
    assert_string_equal(server.host, "one");
    assert_int_equal(server.port, 9);
    wp_redis_topology_failed(t, NULL);
    wp_redis_topology_moved(t, 5, &server);
    assert_int_equal(wp_redis_topology_lookup(t, 5, &server, &err), WP_OK);
    wp_redis_topology_destroy(t);
    wp_redis_topology_destroy(NULL);
    assert_string_equal(journal_told(), "");
}

static void
test_a_topology_without_means(void **state)
{
    const struct wp_redis_topology_config config = {.poll_ns = 7,
                                                    .recheck_ns = 8};
    static const char *const why[] = {
        "memory for redis's topology", "eventfd: Too many open files",
        "thread of redis's topology: Resource temporarily unavailable"};
    size_t before = descriptors_count();
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(why); i++) {
        err = (struct wp_err){.msg = ""};
        fails_in = (int)i + 1;
        assert_int_equal(create_with(WP_REDIS_CLUSTER, &config, &err),
                         WP_RESOURCE_EXHAUSTED);
        assert_string_equal(err.msg, why[i]);
        assert_int_equal(descriptors_count(), before);
        assert_null(t);
    }
    fails_in = 0;
    assert_int_equal(create_with(WP_REDIS_CLUSTER, &config, &err), WP_OK);
    assert_int_equal(t->config.poll_ns, 7);
    assert_int_equal(t->config.recheck_ns, 8);
    assert_int_equal(t->n_sentinels, 2);
    assert_int_equal(t->sentinels[1].server.port, 2);
    assert_int_equal(t->stats.nodes, 0);
    wp_redis_topology_destroy(t);
    assert_int_equal(descriptors_count(), before);
    assert_string_equal(journal_told(),
                        "thread redis-topology\njoin, stop=1\n");
}

static void
find(const struct wp_redis_router *router)
{
    struct wp_redis_server server = {.port = 0};
    struct wp_err err = {.msg = ""};
    enum wp_status status =
        router->find(router->self, WP_STR("{none}"), &server, &err);

    journal_note("= %s %u '%s'", wp_status_name(status), server.port, err.msg);
}

static void
it_is_found(void)
{
    struct wp_redis_server server = {.host = "h", .port = 8};

    wp_redis_topology_moved(t, wp_redis_slot(WP_STR("none")), &server);
}

/* As links use it. */
static void
test_links_find_and_doubt(void **state)
{
    static const char *const replies[] = {
        "READONLY no", "MASTERDOWN no",   "CLUSTERDOWN no",
        "ERR no",      "MOVED 3 h:6",     "ASK 3 h:7",
        "MOVED 4 :7",  "MOVED 99999 h:7", "",
    };
    const struct wp_redis_router *router;

    (void)state;
    create(WP_REDIS_CLUSTER);
    router = wp_redis_topology_router(t);
    find(router);
    clock_ns = 7 * WP_NS_PER_S - 10 * WP_NS_PER_MS;
    then(a_millisecond);
    then(it_is_found);
    find(router);
    find(router);
    for (size_t i = 0; i < WP_ARRAY_LEN(replies); i++) {
        t->look = false;
        router->doubt(router->self, wp_str_from(replies[i]));
        journal_put("'%s': look=%d doubts=%u moved=%u hint=%u:", replies[i],
                    t->look, (unsigned)t->last_doubt, (unsigned)t->stats.moved,
                    t->hint.port);
        for (uint32_t n = 0; n < t->map.n_nodes; n++) {
            journal_put(" %u", t->map.nodes[n].port);
        }
        journal_put("\n");
    }
    wp_redis_topology_destroy(t);
    journal_compare("watch_router");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_when_it_looks, setup),
        cmocka_unit_test_setup(test_what_is_unknown_is_looked_at_more_often,
                               setup),
        cmocka_unit_test_setup(test_what_is_logged_of_a_master, setup),
        cmocka_unit_test_setup(test_what_is_logged_of_a_cluster, setup),
        cmocka_unit_test_setup(test_one_server_needs_no_thread, setup),
        cmocka_unit_test_setup(test_a_topology_without_means, setup),
        cmocka_unit_test_setup(test_links_find_and_doubt, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
