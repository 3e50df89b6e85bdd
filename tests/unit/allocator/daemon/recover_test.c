/* tests/unit/allocator/daemon/recover_test.c - what a replica does, step by
 * step, about a pool that Redis may have forgotten. The thread is the test's
 * own; whenever it waits the test's next step is done. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "allocator/daemon/recover.h"
#include "pool/base/clock.h"
#include "tests/unit/allocator/daemon/journal.h"

enum {
    POOLS = 3,
    NO_POOL = -1,
};

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_join(pthread_t thread, void **out);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __wrap_pthread_condattr_init(pthread_condattr_t *attr);
int __real_pthread_condattr_init(pthread_condattr_t *attr);
int __wrap_pthread_mutex_init(pthread_mutex_t *lock,
                              const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_cond_init(pthread_cond_t *cond,
                             const pthread_condattr_t *attr);
int __real_pthread_mutex_init(pthread_mutex_t *lock,
                              const pthread_mutexattr_t *attr);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __real_pthread_cond_init(pthread_cond_t *cond,
                             const pthread_condattr_t *attr);
void __wrap_wp_loop_call(struct wp_loop *loop, void (*call)(void *ctx),
                         void *ctx);
void __wrap_wp_control_wake(struct wp_control *control);
bool __wrap_wp_daemon_is_keeper(const struct wp_daemon_core *core);
uint32_t __wrap_wp_pools_index_of_records(const struct wp_pools *pools,
                                          struct wp_str pool_namespace,
                                          struct wp_str name);
uint32_t __wrap_wp_pools_known_records(struct wp_pools *pools,
                                       uint32_t pool_index, bool retire_idle,
                                       uint32_t *cursor,
                                       struct wp_lease_record *out,
                                       uint32_t max);
bool __wrap_wp_pools_knows(struct wp_pools *pools,
                           const uint8_t uid[WP_UID_LEN]);
uint32_t __wrap_wp_lease_redis_peers(struct wp_lease_redis *redis,
                                     struct wp_lease_redis_peer *peers,
                                     uint32_t max);
enum wp_status __wrap_wp_lease_redis_read_pool(
    struct wp_lease_redis *redis, const struct wp_lease_redis_pool *name,
    void (*each)(void *ctx, const struct wp_lease_record *record), void *ctx,
    struct wp_err *err);
enum wp_status
__wrap_wp_lease_redis_begin_recovery(struct wp_lease_redis *redis,
                                     const struct wp_lease_redis_pool *name,
                                     struct wp_err *err);
enum wp_status
__wrap_wp_lease_redis_assert_record(struct wp_lease_redis *redis,
                                    const struct wp_lease_record *record,
                                    struct wp_err *err);
enum wp_status
__wrap_wp_lease_redis_assert_last(struct wp_lease_redis *redis,
                                  const struct wp_lease_record *record,
                                  struct wp_err *err);
enum wp_status
__wrap_wp_lease_redis_end_assert(struct wp_lease_redis *redis,
                                 const struct wp_lease_redis_pool *name,
                                 struct wp_err *err);
enum wp_status __wrap_wp_lease_redis_has_ended(
    struct wp_lease_redis *redis, const struct wp_lease_redis_pool *name,
    const uint8_t replica_id[WP_REPLICA_ID_LEN], struct wp_err *err);
enum wp_status
__wrap_wp_lease_redis_open_generation(struct wp_lease_redis *redis,
                                      const struct wp_lease_redis_pool *name,
                                      const struct wp_lease_redis_peer *peers,
                                      uint32_t n_peers, struct wp_err *err);

/* The two last ones differ from the first in one of the names. */
static const struct wp_lease_redis_pool pools[POOLS + 1] = {
    {"blue", "a"}, {"blue", "b"}, {"red", "a"}, {"red", "new"}};

typedef void (*step)(void);

static struct wp_recovery *recovery;
static struct wp_daemon_core core;
static char things[4]; /* What the core is made of; only their places. */
static void *(*thread_run)(void *);
static void *thread_arg;
static const step *next;
static bool is_held; /* The lock, of which there is one. */
static uint32_t inits;

/* --- The thread --- */

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                      void *(*run)(void *), void *arg)
{
    int error = (int)journal_said("create", 0);

    assert_null(attr);
    memset(thread, 0, sizeof *thread);
    thread_run = run;
    thread_arg = arg;
    return error;
}

int
__wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    (void)thread;
    journal("thread %s", name);
    return 0;
}

int
__wrap_pthread_join(pthread_t thread, void **out)
{
    (void)thread;
    assert_null(out);
    journal("join");
    return 0;
}

int
__wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    (void)cond;
    assert_true(is_held);
    journal("signal");
    return 0;
}

int
__wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
    clockid_t id;

    assert_int_equal(pthread_condattr_getclock(attr, &id), 0);
    assert_int_equal(id, CLOCK_MONOTONIC);
    inits++;
    return __real_pthread_cond_init(cond, attr);
}

int
__wrap_pthread_condattr_init(pthread_condattr_t *attr)
{
    inits++;
    return __real_pthread_condattr_init(attr);
}

int
__wrap_pthread_mutex_init(pthread_mutex_t *lock,
                          const pthread_mutexattr_t *attr)
{
    inits++;
    return __real_pthread_mutex_init(lock, attr);
}

int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    assert_false(is_held);
    is_held = true;
    return __real_pthread_mutex_lock(lock);
}

int
__wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    assert_true(is_held);
    is_held = false;
    return __real_pthread_mutex_unlock(lock);
}

static void
step_on(pthread_mutex_t *lock)
{
    (void)pthread_mutex_unlock(lock);
    if (*next == NULL) {
        wp_recovery_stop(recovery);
    } else {
        (*next++)();
    }
    (void)pthread_mutex_lock(lock);
}

int
__wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    (void)cond;
    journal("wait");
    step_on(lock);
    return 0;
}

int
__wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                              const struct timespec *until)
{
    int64_t until_ns = until->tv_sec * WP_NS_PER_S + until->tv_nsec;

    (void)cond;
    assert_true(until->tv_nsec >= 0 && until->tv_nsec < WP_NS_PER_S);
    journal("wait %lld ns", (long long)(until_ns - journal_now()));
    journal_pass(until_ns - journal_now());
    step_on(lock);
    return 0;
}

/* --- The core --- */

void
__wrap_wp_loop_call(struct wp_loop *loop, void (*call)(void *ctx), void *ctx)
{
    assert_ptr_equal(loop, core.loop);
    journal("control thread:");
    call(ctx);
}

void
__wrap_wp_control_wake(struct wp_control *control)
{
    assert_ptr_equal(control, core.control);
    journal("control wakes");
}

bool
__wrap_wp_daemon_is_keeper(const struct wp_daemon_core *of)
{
    assert_ptr_equal(of, &core);
    return journal_said("keeper", false) != 0;
}

static void
catch_up(void *ctx)
{
    assert_ptr_equal(ctx, things);
    journal("  catch up");
}

uint32_t
__wrap_wp_pools_index_of_records(const struct wp_pools *of,
                                 struct wp_str pool_namespace,
                                 struct wp_str name)
{
    int64_t index = journal_said("index", 7);

    assert_ptr_equal(of, core.pools);
    journal("  index of %.*s/%.*s: %lld", (int)pool_namespace.len,
            pool_namespace.ptr, (int)name.len, name.ptr, (long long)index);
    return index == NO_POOL ? UINT32_MAX : (uint32_t)index;
}

static void
fill_record(struct wp_lease_record *record, uint32_t n)
{
    memset(record, 0, sizeof *record);
    record->uid[0] = (uint8_t)n;
    record->state = WP_RECORD_HELD;
    record->fence = n + 1000;
    (void)snprintf(record->claim_id, sizeof record->claim_id, "claim-%u", n);
}

uint32_t
__wrap_wp_pools_known_records(struct wp_pools *of, uint32_t pool_index,
                              bool retire_idle, uint32_t *cursor,
                              struct wp_lease_record *out, uint32_t max)
{
    uint32_t n = (uint32_t)journal_said("known", 0);

    assert_ptr_equal(of, core.pools);
    journal("  known of %u from %u, at most %u%s: %u", pool_index, *cursor, max,
            retire_idle ? ", idle ones retire" : "", n);
    for (uint32_t i = 0; i < n; i++) {
        fill_record(&out[i], *cursor + i);
    }
    *cursor = (uint32_t)journal_said("cursor", 0);
    return n;
}

bool
__wrap_wp_pools_knows(struct wp_pools *of, const uint8_t uid[WP_UID_LEN])
{
    assert_ptr_equal(of, core.pools);
    return uid[0] % 2 == 0;
}

/* --- Redis --- */

static struct wp_lease_redis *
redis_of(void)
{
    return (struct wp_lease_redis *)(void *)&things[3];
}

uint32_t
__wrap_wp_lease_redis_peers(struct wp_lease_redis *redis,
                            struct wp_lease_redis_peer *peers, uint32_t max)
{
    uint32_t n = (uint32_t)journal_said("peers", 0);
    uint32_t keeper = (uint32_t)journal_said("peer that keeps", UINT32_MAX);

    assert_ptr_equal(redis, redis_of());
    journal("peers, at most %u: %u", max, n);
    memset(peers, 0xff, max * sizeof *peers); /* Nobody looks there. */
    for (uint32_t i = 0; i < n && i < max; i++) {
        memset(&peers[i], 0, sizeof peers[i]);
        peers[i].replica_id[7] = (uint8_t)(i + 1);
        peers[i].keeper = i == keeper;
    }
    return n;
}

enum wp_status
__wrap_wp_lease_redis_read_pool(
    struct wp_lease_redis *redis, const struct wp_lease_redis_pool *name,
    void (*each)(void *ctx, const struct wp_lease_record *record), void *ctx,
    struct wp_err *err)
{
    uint32_t n = (uint32_t)journal_said("had", 0);
    struct wp_lease_record record;

    assert_ptr_equal(redis, redis_of());
    journal("read %s/%s: %u", name->pool_namespace, name->pool, n);
    for (uint32_t i = 0; i < n; i++) {
        fill_record(&record, i);
        each(ctx, &record);
    }
    return journal_status("read", err);
}

static enum wp_status
told(const char *what, const struct wp_lease_redis_pool *name,
     struct wp_err *err)
{
    enum wp_status status = journal_status(what, err);

    assert_true(name >= pools && name < pools + POOLS + 1);
    journal("%s %s/%s: %s", what, name->pool_namespace, name->pool,
            wp_status_text(status));
    return status;
}

enum wp_status
__wrap_wp_lease_redis_begin_recovery(struct wp_lease_redis *redis,
                                     const struct wp_lease_redis_pool *name,
                                     struct wp_err *err)
{
    assert_ptr_equal(redis, redis_of());
    return told("begin", name, err);
}

static enum wp_status
told_record(const char *what, const struct wp_lease_record *record,
            struct wp_err *err)
{
    enum wp_status status = journal_status(what, err);

    journal("%s %u %llu %s %s: %s", what, record->uid[0],
            (unsigned long long)record->fence, record->claim_id,
            record->state == WP_RECORD_ENDED  ? "ended"
            : record->state == WP_RECORD_HELD ? "held"
                                              : "?",
            wp_status_text(status));
    if (journal_said("stop now", false) != 0) {
        wp_recovery_stop(recovery);
    }
    return status;
}

enum wp_status
__wrap_wp_lease_redis_assert_record(struct wp_lease_redis *redis,
                                    const struct wp_lease_record *record,
                                    struct wp_err *err)
{
    assert_ptr_equal(redis, redis_of());
    return told_record("assert", record, err);
}

enum wp_status
__wrap_wp_lease_redis_assert_last(struct wp_lease_redis *redis,
                                  const struct wp_lease_record *record,
                                  struct wp_err *err)
{
    assert_ptr_equal(redis, redis_of());
    return told_record("last", record, err);
}

enum wp_status
__wrap_wp_lease_redis_end_assert(struct wp_lease_redis *redis,
                                 const struct wp_lease_redis_pool *name,
                                 struct wp_err *err)
{
    assert_ptr_equal(redis, redis_of());
    return told("end", name, err);
}

enum wp_status
__wrap_wp_lease_redis_has_ended(struct wp_lease_redis *redis,
                                const struct wp_lease_redis_pool *name,
                                const uint8_t replica_id[WP_REPLICA_ID_LEN],
                                struct wp_err *err)
{
    assert_ptr_equal(redis, redis_of());
    journal("of replica %u:", replica_id[7]);
    return told("has ended", name, err);
}

enum wp_status
__wrap_wp_lease_redis_open_generation(struct wp_lease_redis *redis,
                                      const struct wp_lease_redis_pool *name,
                                      const struct wp_lease_redis_peer *peers,
                                      uint32_t n_peers, struct wp_err *err)
{
    enum wp_status status;

    assert_ptr_equal(redis, redis_of());
    status = told("open", name, err);
    journal("  with %u peers, the last one is %u", n_peers,
            n_peers > 0 ? peers[n_peers - 1].replica_id[7] : 0);
    if (journal_said("one left now", false) != 0) {
        wp_recovery_one_left(recovery);
    }
    return status;
}

/* --- The tests --- */

static int
begin(void **state)
{
    core.loop = (struct wp_loop *)(void *)&things[0];
    core.control = (struct wp_control *)(void *)&things[1];
    core.pools = (struct wp_pools *)(void *)&things[2];
    return journal_begin(state);
}

/* Does the steps, one at each wait, and then stops. */
static void
play(const step *steps)
{
    struct wp_err err;

    inits = 0;
    recovery = wp_recovery_create(&core, catch_up, things, pools, POOLS, &err);
    assert_non_null(recovery);
    assert_int_equal(inits, 3);
    assert_int_equal(wp_recovery_start(recovery, redis_of(), &err), WP_OK);
    next = steps;
    assert_null(thread_run(thread_arg));
    assert_null(*next);
    wp_recovery_stop(recovery); /* It runs no more. */
    wp_recovery_destroy(recovery);
}

static void
doubt_first(void)
{
    journal("- doubt of blue/a");
    wp_recovery_doubt(recovery, &pools[0]);
}

static void
doubt_second(void)
{
    journal("- doubt of blue/b");
    wp_recovery_doubt(recovery, &pools[1]);
}

static void
doubt_third(void)
{
    journal("- doubt of red/a");
    wp_recovery_doubt(recovery, &pools[2]);
}

static void
doubt_new(void)
{
    journal("- doubt of red/new");
    wp_recovery_doubt(recovery, &pools[3]);
}

static void
grow(void)
{
    journal("- one more pool");
    wp_recovery_grow(recovery, POOLS + 1);
}

static void
one_left(void)
{
    journal("- a replica has left");
    wp_recovery_one_left(recovery);
}

static void
nothing(void)
{
    journal("- nothing happens");
}

/* With the two waits before and after it. */
static void
five_seconds_in_all(void)
{
    journal("- 5 seconds are over");
    journal_pass(5 * WP_NS_PER_S - 100 * WP_NS_PER_MS);
}

static void
test_pool_in_doubt_is_restored_and_opened(void **state)
{
    const step steps[] = {doubt_first, doubt_second, doubt_third, nothing,
                          NULL};

    (void)state;
    journal_say("known", 2);
    journal_say("peers", 2);
    /* Of the second one the core has nothing. */
    journal_say("index", NO_POOL);
    /* The third one takes three chunks. */
    journal_say("known", 64);
    journal_say("cursor", 64);
    journal_say("known", 0);
    journal_say("cursor", 99);
    journal_say("known", 1);
    play(steps);
    journal_is("recover_whole");
}

static void
test_pool_that_goes_meanwhile_is_done(void **state)
{
    const step steps[] = {doubt_first, nothing, NULL};

    (void)state;
    journal_say("known", 2);
    journal_say("cursor", 5);
    journal_say("index", 3);
    journal_say("index", NO_POOL);
    play(steps);
    journal_is("recover_pool_goes");
}

static void
test_each_pool_is_restored_before_any_is_waited_for(void **state)
{
    const step steps[] = {doubt_first, doubt_third, nothing, nothing, NULL};

    (void)state;
    journal_say("open", WP_PENDING);
    journal_say("open", WP_PENDING);
    journal_say("open", WP_PENDING);
    journal_say("open", WP_OK);
    journal_say("peers", 63);
    journal_say("peers", 64);
    journal_say("peers", 65);
    play(steps);
    journal_is("recover_pending");
}

static void
test_what_fails_is_begun_again(void **state)
{
    const step steps[] = {doubt_first, nothing, nothing, nothing, nothing,
                          nothing,     nothing, nothing, NULL};

    (void)state;
    journal_say("begin", WP_UNAVAILABLE);
    /* Where Redis knows more, it goes on; the second record fails. */
    journal_say("known", 2);
    journal_say("assert", WP_ABORTED);
    journal_say("assert", WP_UNAVAILABLE);
    /* In the first of two chunks. */
    journal_say("known", 1);
    journal_say("cursor", 1);
    journal_say("assert", WP_FAILED_PRECONDITION);
    journal_say("end", WP_FAILED_PRECONDITION);
    journal_say("open", WP_FAILED_PRECONDITION);
    journal_say("open", WP_UNAVAILABLE);
    journal_say("open", WP_PENDING);
    play(steps);
    journal_is("recover_fails");
}

static void
test_doubt_meanwhile_begins_again(void **state)
{
    const step steps[] = {doubt_first, doubt_first, nothing, NULL};

    (void)state;
    journal_say("open", WP_PENDING);
    journal_say("open", WP_PENDING);
    play(steps);
    journal_is("recover_doubt_again");
}

static void
test_keeper_ends_what_it_does_not_know(void **state)
{
    const step steps[] = {doubt_first, nothing, nothing, nothing, NULL};

    (void)state;
    journal_say("keeper", true);
    journal_say("known", 1);
    journal_say("had", 6);
    journal_say("assert", WP_OK); /* The known one. */
    journal_say("assert", WP_ABORTED);
    journal_say("assert", WP_ALREADY_EXISTS);
    journal_say("assert", WP_UNAVAILABLE);
    /* It cannot be read. */
    journal_say("read", WP_OK);
    journal_say("keeper", true);
    journal_say("had", 1);
    journal_say("read", WP_UNAVAILABLE);
    /* Nothing but known ones. */
    journal_say("keeper", true);
    journal_say("had", 1);
    play(steps);
    journal_is("recover_keeper");
}

static void
test_keeper_takes_any_number_of_records(void **state)
{
    const step steps[] = {doubt_first, NULL};

    (void)state;
    journal_say("keeper", true);
    journal_say("had", 129);
    play(steps);
    journal_is("recover_many");
}

static void
test_keeper_tells_refused_ones_again_after_what_has_ended(void **state)
{
    const step steps[] = {doubt_first, nothing, NULL};

    (void)state;
    journal_say("keeper", true);
    journal_say("known", 3);
    journal_say("assert", WP_OK);
    journal_say("assert", WP_ALREADY_EXISTS);
    journal_say("assert", WP_OK);
    journal_say("had", 2);
    journal_say("known", 3);
    journal_say("last", WP_OK);
    journal_say("last", WP_ALREADY_EXISTS);
    journal_say("last", WP_UNAVAILABLE);
    /* Nothing is refused now. */
    journal_say("known", 1);
    journal_say("keeper", true);
    play(steps);
    journal_is("recover_refused_keeper");
}

static void
test_keeper_that_has_told_again_is_done(void **state)
{
    const step steps[] = {doubt_first, nothing, NULL};

    (void)state;
    journal_say("keeper", true);
    journal_say("known", 1);
    journal_say("assert", WP_ALREADY_EXISTS);
    journal_say("known", 1);
    play(steps);
    journal_is("recover_refused_done");
}

static void
test_pool_that_is_not_there_yet_is_not_in_doubt(void **state)
{
    const step steps[] = {doubt_new, grow, doubt_first, nothing, NULL};

    (void)state;
    play(steps);
    journal_is("recover_not_yet");
}

static void
test_follower_tells_refused_ones_again_after_the_keeper(void **state)
{
    const step steps[] = {doubt_first, nothing, nothing, nothing, NULL};

    (void)state;
    journal_say("known", 1);
    journal_say("assert", WP_ALREADY_EXISTS);
    /* The second of three peers is the keeper. */
    for (int i = 0; i < 3; i++) {
        journal_say("peers", 3);
        journal_say("peer that keeps", 1);
    }
    journal_say("has ended", WP_PENDING);
    journal_say("has ended", WP_FAILED_PRECONDITION);
    /* So it begins again, with another one. */
    journal_say("known", 1);
    journal_say("assert", WP_ALREADY_EXISTS);
    journal_say("has ended", WP_OK);
    journal_say("known", 1);
    journal_say("end", WP_UNAVAILABLE);
    play(steps);
    journal_is("recover_refused_follower");
}

static void
test_without_a_keeper_refused_ones_wait_five_seconds(void **state)
{
    const step steps[] = {
        doubt_first, five_seconds_in_all, nothing, nothing, nothing, NULL};

    (void)state;
    journal_tick(0);
    journal_say("known", 1);
    journal_say("assert", WP_ALREADY_EXISTS);
    journal_say("peers", 70); /* None of them is one. */
    journal_say("known", 1);
    play(steps);
    journal_is("recover_no_keeper");
}

static void
test_last_peer_that_is_told_of_may_be_the_keeper(void **state)
{
    const step steps[] = {doubt_first, NULL};

    (void)state;
    journal_say("known", 1);
    journal_say("assert", WP_ALREADY_EXISTS);
    journal_say("peers", 64);
    journal_say("peer that keeps", 63);
    journal_say("has ended", WP_PENDING);
    play(steps);
    journal_is("recover_last_peer");
}

static void
test_follower_that_took_over_ends_what_it_does_not_know(void **state)
{
    const step steps[] = {doubt_first, nothing, nothing, NULL};

    (void)state;
    journal_say("keeper", false);
    journal_say("known", 1);
    journal_say("assert", WP_ALREADY_EXISTS);
    journal_say("keeper", false);
    journal_say("keeper", true);
    journal_say("keeper", true);
    journal_say("had", 2);
    journal_say("assert", WP_UNAVAILABLE);
    /* Again from the start. */
    journal_say("known", 1);
    journal_say("keeper", false);
    journal_say("assert", WP_ALREADY_EXISTS);
    journal_say("keeper", true);
    journal_say("keeper", true);
    journal_say("had", 2);
    journal_say("known", 1);
    play(steps);
    journal_is("recover_took_over");
}

static void
test_idle_ones_retire_once_after_a_replica_has_gone(void **state)
{
    const step steps[] = {one_left,    doubt_first, doubt_first, grow,
                          doubt_new,   one_left,    doubt_new,   doubt_second,
                          doubt_first, nothing,     NULL};

    (void)state;
    journal_say("open", WP_OK);
    journal_say("open", WP_OK);
    journal_say("open", WP_OK);
    journal_say("open", WP_OK);
    play(steps);
    journal_is("recover_left");
}

static void
test_replica_that_goes_meanwhile_is_restored_for(void **state)
{
    const step steps[] = {doubt_first, nothing, doubt_first, NULL};

    (void)state;
    journal_say("open", WP_PENDING);
    journal_say("one left now", true);
    play(steps);
    journal_is("recover_left_meanwhile");
}

static void
test_stop_ends_it_between_any_two_questions(void **state)
{
    const step both[] = {doubt_first, NULL};

    (void)state;
    journal_say("known", 3);
    journal_say("stop now", false);
    journal_say("stop now", true);
    play(both);
    journal_say("known", 1);
    journal_say("keeper", true);
    journal_say("had", 4);
    journal_say("stop now", false);
    journal_say("stop now", true);
    play(both);
    journal_say("known", 1);
    journal_say("keeper", true);
    journal_say("assert", WP_ALREADY_EXISTS);
    journal_say("known", 2);
    journal_say("stop now", false);
    journal_say("stop now", true);
    play(both);
    journal_is("recover_stops");
}

static void
stop_and_doubt(void)
{
    journal("- stop, with doubt of all");
    wp_recovery_doubt(recovery, &pools[0]);
    wp_recovery_doubt(recovery, &pools[1]);
    wp_recovery_stop(recovery);
}

static void
test_stop_goes_before_doubt(void **state)
{
    const step calm[] = {stop_and_doubt, NULL};
    const step busy[] = {doubt_first, stop_and_doubt, NULL};

    (void)state;
    play(calm);
    journal_say("open", WP_PENDING);
    play(busy);
    journal_is("recover_stop_first");
}

/* Both pools are in doubt; the thread stops in the first one. */
static void
test_stop_leaves_the_other_pools(void **state)
{
    struct wp_err err;
    const step none[] = {NULL};

    (void)state;
    recovery = wp_recovery_create(&core, catch_up, things, pools, POOLS, &err);
    assert_non_null(recovery);
    doubt_second(); /* Before it is started. */
    doubt_first();
    doubt_third();
    assert_int_equal(wp_recovery_start(recovery, redis_of(), &err), WP_OK);
    journal_say("known", 0);
    journal_say("known", 2);
    journal_say("stop now", true);
    next = none;
    assert_null(thread_run(thread_arg));
    wp_recovery_destroy(recovery);
    journal_is("recover_stop_leaves");
}

static void
test_no_memory_is_tried_again(void **state)
{
    const step steps[] = {doubt_first, nothing, nothing, nothing, NULL};
    struct wp_err err;

    (void)state;
    for (uint32_t n = 1;; n++) {
        recovery =
            wp_recovery_create(&core, catch_up, things, pools, POOLS, &err);
        assert_non_null(recovery);
        assert_int_equal(wp_recovery_start(recovery, redis_of(), &err), WP_OK);
        for (int i = 0; i < 3; i++) {
            journal_say("keeper", true);
            journal_say("had", 65);
        }
        journal("- allocation %u fails", n);
        journal_no_memory(n);
        next = steps;
        assert_null(thread_run(thread_arg));
        wp_recovery_destroy(recovery);
        if (!journal_was_full()) {
            break;
        }
        journal_forget();
    }
    journal_no_memory(0);
    journal_forget();
    journal_is("recover_memory");
}

static void
test_no_memory_or_thread_to_begin_with(void **state)
{
    struct wp_err err = {.msg = ""};

    (void)state;
    for (uint32_t n = 1; n < 3; n++) {
        journal_no_memory(n);
        assert_null(
            wp_recovery_create(&core, catch_up, things, pools, POOLS, &err));
        journal("%s: %s", wp_status_name(err.status), err.msg);
        err = (struct wp_err){.msg = ""};
    }
    journal_no_memory(0);
    recovery = wp_recovery_create(&core, catch_up, things, pools, POOLS, &err);
    assert_non_null(recovery);
    journal_say("create", 11);
    journal("%s",
            wp_status_name(wp_recovery_start(recovery, redis_of(), &err)));
    journal("%s: %s", wp_status_name(err.status), err.msg);
    wp_recovery_stop(recovery);
    wp_recovery_destroy(recovery);
    wp_recovery_stop(NULL);
    wp_recovery_destroy(NULL);
    journal_is("recover_create");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_pool_in_doubt_is_restored_and_opened,
                               begin),
        cmocka_unit_test_setup(test_pool_that_goes_meanwhile_is_done, begin),
        cmocka_unit_test_setup(
            test_each_pool_is_restored_before_any_is_waited_for, begin),
        cmocka_unit_test_setup(test_what_fails_is_begun_again, begin),
        cmocka_unit_test_setup(test_doubt_meanwhile_begins_again, begin),
        cmocka_unit_test_setup(test_keeper_ends_what_it_does_not_know, begin),
        cmocka_unit_test_setup(test_keeper_takes_any_number_of_records, begin),
        cmocka_unit_test_setup(
            test_keeper_tells_refused_ones_again_after_what_has_ended, begin),
        cmocka_unit_test_setup(test_keeper_that_has_told_again_is_done, begin),
        cmocka_unit_test_setup(test_pool_that_is_not_there_yet_is_not_in_doubt,
                               begin),
        cmocka_unit_test_setup(
            test_follower_tells_refused_ones_again_after_the_keeper, begin),
        cmocka_unit_test_setup(
            test_without_a_keeper_refused_ones_wait_five_seconds, begin),
        cmocka_unit_test_setup(test_last_peer_that_is_told_of_may_be_the_keeper,
                               begin),
        cmocka_unit_test_setup(
            test_follower_that_took_over_ends_what_it_does_not_know, begin),
        cmocka_unit_test_setup(
            test_idle_ones_retire_once_after_a_replica_has_gone, begin),
        cmocka_unit_test_setup(test_replica_that_goes_meanwhile_is_restored_for,
                               begin),
        cmocka_unit_test_setup(test_stop_ends_it_between_any_two_questions,
                               begin),
        cmocka_unit_test_setup(test_stop_goes_before_doubt, begin),
        cmocka_unit_test_setup(test_stop_leaves_the_other_pools, begin),
        cmocka_unit_test_setup(test_no_memory_is_tried_again, begin),
        cmocka_unit_test_setup(test_no_memory_or_thread_to_begin_with, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
