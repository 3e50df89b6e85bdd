/* The loop thread, and when the core gets its turns on it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

#include "allocator/threads/control.h"
#include "proto/loop/loop.h"

struct fixture {
    struct wp_loop *loop;
    struct wp_control *control;
    _Atomic(int64_t) next_ns; /* What turns name until it has passed. */
    _Atomic(uint64_t) work;   /* Added to by wakers, seen by turns. */
    _Atomic(uint64_t) seen;
    _Atomic(int64_t) last_turn_ns;
};

static int64_t
now_ns(void)
{
    return wp_clock_mono_ns(wp_clock_system());
}

static int64_t
run_turn(void *ctx)
{
    struct fixture *f = ctx;

    wp_loop_assert_role(f->loop);
    f->seen = f->work;
    f->last_turn_ns = now_ns();
    return f->next_ns > f->last_turn_ns ? f->next_ns : WP_TIME_NEVER;
}

static int
setup(void **state)
{
    static struct fixture f;
    struct wp_err err;

    f = (struct fixture){.next_ns = WP_TIME_NEVER};
    f.loop = wp_loop_create("test", 64, &err);
    assert_non_null(f.loop);
    f.control = wp_control_create(
        &(struct wp_control_config){f.loop, wp_clock_system(), run_turn, &f},
        &err);
    assert_non_null(f.control);
    assert_int_equal(wp_loop_start(f.loop, &err), WP_OK);
    *state = &f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    wp_loop_stop(f->loop);
    wp_control_destroy(f->control);
    wp_loop_destroy(f->loop);
    return 0;
}

static void
sleep_ns(int64_t ns)
{
    struct timespec ts = {ns / WP_NS_PER_S, ns % WP_NS_PER_S};

    (void)nanosleep(&ts, NULL);
}

/* Polls until cond or a minute has passed. */
#define AWAIT(cond)                                                            \
    do {                                                                       \
        int64_t until_ns = now_ns() + 60 * WP_NS_PER_S;                        \
        while (!(cond) && now_ns() < until_ns) {                               \
            sleep_ns(WP_NS_PER_MS / 5);                                        \
        }                                                                      \
        assert_true(cond);                                                     \
    } while (0)

static void
nothing(void *ctx)
{
    (void)ctx;
}

/* Waits for so many turns, and until the last of them is over. */
static void
await_turns(const struct fixture *f, uint64_t turns)
{
    AWAIT(wp_control_stats(f->control).turns >= turns);
    wp_loop_call(f->loop, nothing, NULL);
}

static void
test_wake_runs_a_turn_then_sleeps(void **state)
{
    struct fixture *f = *state;

    f->work = 1;
    wp_control_wake(f->control);
    AWAIT(f->seen == 1);
    /* The turn, and the look that found nothing. */
    await_turns(f, 2);
    assert_int_equal(wp_control_stats(f->control).writes, 1);
    f->work = 2;
    wp_control_wake(f->control);
    AWAIT(f->seen == 2);
    assert_int_equal(wp_control_stats(f->control).writes, 2);
    await_turns(f, 4);
    sleep_ns(10 * WP_CONTROL_POLL_NS);
    /* No more than that: it sleeps. */
    assert_int_equal(wp_control_stats(f->control).turns, 4);
}

/* A steady stream of wakes costs next to no eventfd writes, however seldom
 * either thread gets a processor, and each is acted on. */
static void
test_load_is_coalesced(void **state)
{
    enum {
        BURSTS = 100,
        BURST = 100
    };
    struct fixture *f = *state;
    struct wp_control_stats stats;

    for (int i = 0; i < BURSTS; i++) {
        for (int j = 0; j < BURST; j++) {
            f->work++;
            wp_control_wake(f->control);
        }
        AWAIT(f->seen == f->work);
    }
    stats = wp_control_stats(f->control);
    print_message("%d wakes, %llu writes, %llu turns\n", BURSTS * BURST,
                  (unsigned long long)stats.writes,
                  (unsigned long long)stats.turns);
    assert_true(stats.writes <= BURSTS * BURST / 10);
}

static void
test_named_time_is_kept(void **state)
{
    struct fixture *f = *state;
    int64_t due_ns = now_ns() + 60 * WP_NS_PER_MS;

    f->next_ns = due_ns;
    wp_control_wake(f->control);
    AWAIT(f->last_turn_ns >= due_ns);
    assert_int_equal(wp_control_stats(f->control).writes, 1);
}

static void *
wake_often(void *ctx)
{
    struct fixture *f = ctx;

    for (int i = 0; i < 20000; i++) {
        f->work++;
        wp_control_wake(f->control);
        if (i % 1000 == 0) {
            sleep_ns(3 * WP_NS_PER_MS); /* Lets it fall asleep now and then. */
        }
    }
    return NULL;
}

/* No wake is lost, whatever the interleaving. */
static void
test_no_wake_is_lost(void **state)
{
    struct fixture *f = *state;
    pthread_t threads[3];

    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, wake_often, f), 0);
    }
    for (int i = 0; i < 3; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    AWAIT(f->seen == 60000);
}

/* Wakes as a thread does whose answers go first. */
static void *
wake_late(void *ctx)
{
    struct fixture *f = ctx;

    wp_control_wake_late(f->control);
    for (uint64_t i = 1; i <= 3; i++) {
        f->work = i;
        wp_control_wake(f->control);
        wp_control_wake(f->control);
        assert_int_equal(wp_control_stats(f->control).writes, i - 1);
        assert_int_equal(f->seen, i - 1);
        wp_control_wake_late(f->control);
        assert_int_equal(wp_control_stats(f->control).writes, i);
        wp_control_wake_late(f->control); /* It owes nothing. */
        AWAIT(f->seen == i);
        await_turns(f, 2 * i); /* It sleeps again. */
    }
    assert_int_equal(wp_control_stats(f->control).writes, 3);
    return NULL;
}

/* A thread that wakes late writes nothing until it says that it has time; then
 * the turn sees what it did before. */
static void
test_late_wakes_are_put_off(void **state)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, wake_late, *state), 0);
    (void)pthread_join(thread, NULL);
}

static void
add(void *ctx, uint64_t a, uint64_t b)
{
    *(uint64_t *)ctx += a + b;
}

static void
add_nothing(void *ctx)
{
    add(ctx, 0, 0);
}

static void
test_loop_posts_and_calls(void **state)
{
    struct fixture *f = *state;
    uint64_t sum = 0;

    assert_true(wp_loop_post(f->loop, add, &sum, 2, 3));
    wp_loop_call(f->loop, add_nothing, &sum);
    assert_int_equal(sum, 5);
}

static void
block(void *ctx, uint64_t a, uint64_t b)
{
    (void)a;
    (void)b;
    while (sem_wait(ctx) != 0) {
    }
}

/* A full channel refuses, and takes messages again when it has been emptied. */
static void
test_channel_is_bounded(void **state)
{
    struct fixture *f = *state;
    uint64_t sum = 0;
    int taken = 0;
    sem_t gate;

    (void)sem_init(&gate, 0, 0);
    assert_true(wp_loop_post(f->loop, block, &gate, 0, 0));
    while (wp_loop_post(f->loop, add, &sum, 1, 0)) {
        taken++;
        assert_true(taken <= 64);
    }
    assert_true(taken >= 63);
    (void)sem_post(&gate);
    wp_loop_call(f->loop, add_nothing, &sum);
    assert_int_equal(sum, taken);
    (void)sem_destroy(&gate);
}

/* What was posted before stop is run by it. */
static void
test_stop_runs_what_was_posted(void **state)
{
    struct fixture *f = *state;
    uint64_t sum = 0;

    for (int i = 0; i < 20; i++) {
        assert_true(wp_loop_post(f->loop, add, &sum, 1, 0));
    }
    wp_loop_stop(f->loop);
    assert_int_equal(sum, 20);
    wp_loop_call(f->loop, add_nothing, &sum); /* Stopped: runs here. */
    assert_int_equal(sum, 20);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_wake_runs_a_turn_then_sleeps),
        TEST(test_load_is_coalesced),
        TEST(test_named_time_is_kept),
        TEST(test_no_wake_is_lost),
        TEST(test_late_wakes_are_put_off),
        TEST(test_loop_posts_and_calls),
        TEST(test_channel_is_bounded),
        TEST(test_stop_runs_what_was_posted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
