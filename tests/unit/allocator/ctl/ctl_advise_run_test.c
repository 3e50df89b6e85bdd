/* The rows of an advice on as many threads as there are processors: each once,
 * whatever fails, and with the share that is done told meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "allocator/ctl/advise_local.h"
#include "pool/base/clock.h"

enum {
    ROWS = WP_ADVICE_ROWS_MAX,
    PATIENCE_S = 60,
};

static char advice;
static long processors;
static int n_created;
static int n_joined;
static _Atomic(int) n_signals;
static int refused_from; /* Threads from this one on are not to be had. */
static int failing_row;  /* -1: none. */
static _Atomic(int) runs[ROWS];
static _Atomic(int) n_runs;
static pthread_t caller;
static _Atomic(bool) caller_ran;

/* For the test of what is told: a row waits until it has been. */
static bool waits;
static _Atomic(int) told_half;
static double last_share;
static int n_told;

uint32_t __wrap_wp_advice_n_rows(const struct wp_advice *of);
uint32_t
__wrap_wp_advice_n_rows(const struct wp_advice *of)
{
    return of == (const struct wp_advice *)&advice ? ROWS : 0;
}

static void
wait_until(const _Atomic(int) *what, int n)
{
    struct timespec pause = {0, 1000000};

    for (int i = 0; i < PATIENCE_S * 1000 && *what < n; i++) {
        (void)nanosleep(&pause, NULL);
    }
}

enum wp_status __wrap_wp_advice_run(struct wp_advice *of, uint32_t i,
                                    bool (*progress)(void *ctx, double share),
                                    void *ctx, struct wp_err *err);
enum wp_status
__wrap_wp_advice_run(struct wp_advice *of, uint32_t i,
                     bool (*progress)(void *ctx, double share), void *ctx,
                     struct wp_err *err)
{
    (void)of;
    runs[i]++;
    n_runs++;
    if (pthread_equal(pthread_self(), caller) != 0) {
        caller_ran = true;
    }
    if (waits) {
        n_runs += progress(ctx, 0.5) ? 0 : 100; /* It always goes on. */
        wait_until(&told_half, (int)i + 1);
    }
    if ((int)i == failing_row) {
        return wp_err_set(err, WP_CANCELLED, "row %u was stopped", i);
    }
    return WP_OK;
}

long __real_sysconf(int name);
long __wrap_sysconf(int name);
long
__wrap_sysconf(int name)
{
    return name == _SC_NPROCESSORS_ONLN ? processors : __real_sysconf(name);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*begin)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*begin)(void *), void *arg);
int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                      void *(*begin)(void *), void *arg)
{
    return ++n_created >= refused_from
               ? EAGAIN
               : __real_pthread_create(thread, attributes, begin, arg);
}

int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result);
int
__wrap_pthread_join(pthread_t thread, void **result)
{
    n_joined++;
    return __real_pthread_join(thread, result);
}

int __real_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int
__wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    n_signals++;
    return __real_pthread_cond_signal(cond);
}

/* The caller's clock stands, close to the end of a second. */
int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int
__wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    assert_int_equal(clock, CLOCK_REALTIME);
    *out = (struct timespec){100, 950000000};
    return 0;
}

/* Until then, which is soon in truth; under the lock. */
int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int
__wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                              const struct timespec *until)
{
    struct timespec soon;

    assert_int_equal(until->tv_sec, 101);
    assert_int_equal(until->tv_nsec, 50000000);
    assert_int_equal(pthread_mutex_trylock(mutex), EBUSY);
    assert_int_equal(__real_clock_gettime(CLOCK_REALTIME, &soon), 0);
    soon.tv_nsec += 5000000;
    soon.tv_sec += soon.tv_nsec / 1000000000;
    soon.tv_nsec %= 1000000000;
    return __real_pthread_cond_timedwait(cond, mutex, &soon);
}

static int
set_up(void **state)
{
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        runs[i] = 0;
    }
    n_runs = 0;
    n_created = 0;
    n_joined = 0;
    n_signals = 0;
    refused_from = 1000;
    failing_row = -1;
    processors = 1;
    caller = pthread_self();
    caller_ran = false;
    waits = false;
    told_half = 0;
    last_share = 0;
    n_told = 0;
    return 0;
}

static enum wp_status
run_all(void (*progress)(void *ctx, double share), struct wp_err *err)
{
    return wp_advise_run_all((struct wp_advice *)&advice, progress, &n_told,
                             err);
}

static void
expect_each_once(void)
{
    for (int i = 0; i < ROWS; i++) {
        assert_int_equal(runs[i], 1);
    }
    assert_int_equal(n_runs, ROWS);
}

static void
test_a_thread_for_each_processor(void **state)
{
    static const struct {
        long processors;
        int threads;
    } rows[] = {{-1, 1},  {0, 1},   {1, 1},   {2, 2},
                {15, 15}, {16, 16}, {17, 16}, {1000, 16}};
    struct wp_err err;

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        (void)set_up(state);
        processors = rows[i].processors;
        assert_int_equal(run_all(NULL, &err), WP_OK);
        assert_int_equal(n_created, rows[i].threads);
        assert_int_equal(n_joined, rows[i].threads);
        assert_int_equal(n_signals, rows[i].threads);
        assert_false(caller_ran);
        expect_each_once();
    }
}

static void
test_threads_that_are_not_to_be_had(void **state)
{
    struct wp_err err;

    processors = 4;
    refused_from = 3;
    assert_int_equal(run_all(NULL, &err), WP_OK);
    assert_int_equal(n_created, 4);
    assert_int_equal(n_joined, 2);
    assert_false(caller_ran);
    expect_each_once();
    (void)set_up(state);
    processors = 4;
    refused_from = 1;
    assert_int_equal(run_all(NULL, &err), WP_OK);
    assert_int_equal(n_created, 4);
    assert_int_equal(n_joined, 0);
    assert_true(caller_ran);
    expect_each_once();
}

static void
test_a_row_that_fails(void **state)
{
    struct wp_err err = {.status = WP_OK};

    (void)state;
    failing_row = 1;
    assert_int_equal(run_all(NULL, &err), WP_CANCELLED);
    assert_int_equal(err.status, WP_CANCELLED);
    assert_string_equal(err.msg, "row 1 was stopped");
    /* Its thread was the only one, and did not go on. */
    assert_int_equal(n_runs, 2);
    assert_int_equal(n_joined, 1);
}

/* Nothing is written into err when all is well. */
static void
test_err_is_left_alone(void **state)
{
    struct wp_err err;

    (void)state;
    (void)wp_err_set(&err, WP_TAKEN, "before");
    assert_int_equal(run_all(NULL, &err), WP_OK);
    assert_int_equal(err.status, WP_TAKEN);
    assert_string_equal(err.msg, "before");
}

/* Half of row i, and all before it. Who is told of the last half is not back
 * before the thread has ended. */
static void
on_share(void *ctx, double share)
{
    assert_ptr_equal(ctx, &n_told);
    assert_true(share >= last_share);
    last_share = share;
    n_told++;
    for (int i = told_half; i < ROWS; i++) {
        if (fabs(share - (i + 0.5) / ROWS) < 1e-9) {
            told_half = i + 1;
            wait_until(&n_signals, i + 1 == ROWS);
        }
    }
}

static void
test_the_share_that_is_done(void **state)
{
    struct wp_err err;

    (void)state;
    waits = true;
    assert_int_equal(run_all(on_share, &err), WP_OK);
    assert_int_equal(told_half, ROWS);
    assert_true(last_share == 1);
    assert_true(n_told >= ROWS);
    expect_each_once();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_thread_for_each_processor, set_up),
        cmocka_unit_test_setup(test_threads_that_are_not_to_be_had, set_up),
        cmocka_unit_test_setup(test_a_row_that_fails, set_up),
        cmocka_unit_test_setup(test_err_is_left_alone, set_up),
        cmocka_unit_test_setup(test_the_share_that_is_done, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
