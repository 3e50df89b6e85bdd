/* Whose turn it is in the queue of commits, and with which of them: each call by
 * itself, one thread after the other. The semaphore is the test's. What threads
 * do to each other: tests/stress/commit_queue_stress.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "pool/leases/commit_queue.h"

enum {
    OPS = 8,
};

int __wrap_sem_init(sem_t *sem, int shared, unsigned value);
int __wrap_sem_destroy(sem_t *sem);
int __wrap_sem_post(sem_t *sem);
int __wrap_sem_trywait(sem_t *sem);
int __wrap_sem_wait(sem_t *sem);

static struct wp_commit_queue queue;
static struct wp_lease_op ops[OPS];
static struct {
    bool made;
    unsigned posts; /* Nobody has taken. */
    unsigned waits;
    unsigned interrupted;          /* So many waits are, first. */
    struct wp_lease_op *meanwhile; /* What another thread adds in a wait. */
} sem;

int
__wrap_sem_init(sem_t *at, int shared, unsigned value)
{
    assert_ptr_equal(at, &queue.wake);
    assert_false(sem.made);
    assert_int_equal(shared, 0);
    sem.made = true;
    sem.posts = value;
    return 0;
}

int
__wrap_sem_destroy(sem_t *at)
{
    assert_ptr_equal(at, &queue.wake);
    assert_true(sem.made);
    sem.made = false;
    return 0;
}

int
__wrap_sem_post(sem_t *at)
{
    assert_ptr_equal(at, &queue.wake);
    assert_true(sem.made);
    sem.posts++;
    return 0;
}

int
__wrap_sem_trywait(sem_t *at)
{
    assert_ptr_equal(at, &queue.wake);
    assert_true(sem.made);
    if (sem.posts == 0) {
        errno = EAGAIN;
        return -1;
    }
    sem.posts--;
    return 0;
}

int
__wrap_sem_wait(sem_t *at)
{
    assert_ptr_equal(at, &queue.wake);
    assert_true(sem.made);
    sem.waits++;
    if (sem.interrupted > 0) {
        sem.interrupted--;
        errno = EINTR;
        return -1;
    }
    assert_non_null(sem.meanwhile);
    assert_true(wp_commit_queue_push(&queue, sem.meanwhile));
    assert_int_equal(sem.posts, 1);
    sem.posts--;
    return 0;
}

static int
set_up(void **state)
{
    (void)state;
    memset(&sem, 0, sizeof sem);
    memset(ops, 0, sizeof ops);
    /* Whatever was in that memory. */
    memset(&queue, 0xff, sizeof queue);
    wp_commit_queue_init(&queue);
    assert_int_equal(queue.sleeps, 0);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_commit_queue_fini(&queue);
    assert_false(sem.made);
    return 0;
}

/* The ops of that list are those from `first` on, n of them. */
static void
is_list(struct wp_lease_op *list, unsigned first, unsigned n)
{
    for (unsigned i = first; i < first + n; i++) {
        assert_ptr_equal(list, &ops[i]);
        list = wp_lease_op_next(list);
    }
    assert_null(list);
}

static void
test_who_pushes_wakes_the_receiver_once(void **state)
{
    struct wp_lease_op *list = NULL;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        assert_true(wp_commit_queue_push(&queue, &ops[i]));
        assert_int_equal(sem.posts, 1);
    }
    /* It is the receiver's turn. */
    assert_null(wp_commit_queue_try_take(&queue));
    assert_true(wp_commit_queue_take(&queue, &list));
    is_list(list, 0, 3);
    assert_int_equal(queue.sleeps, 0);
    assert_int_equal(sem.posts, 0);
    /* It keeps the turn while there is something. */
    assert_true(wp_commit_queue_push(&queue, &ops[3]));
    assert_true(wp_commit_queue_gather(&queue, &ops[4]));
    assert_int_equal(sem.posts, 0);
    assert_null(wp_commit_queue_try_take(&queue));
    assert_true(wp_commit_queue_take(&queue, &list));
    is_list(list, 3, 2);
    assert_int_equal(queue.sleeps, 0);
    /* Then it sleeps, until somebody pushes. */
    sem.interrupted = 2;
    sem.meanwhile = &ops[5];
    assert_true(wp_commit_queue_take(&queue, &list));
    is_list(list, 5, 1);
    assert_int_equal(queue.sleeps, 1);
    assert_int_equal(sem.waits, 3);
}

static void
test_who_gathers_takes_its_own(void **state)
{
    struct wp_lease_op *list = NULL;

    (void)state;
    assert_null(wp_commit_queue_try_take(&queue));
    assert_true(wp_commit_queue_gather(&queue, &ops[0]));
    assert_true(wp_commit_queue_gather(&queue, &ops[1]));
    assert_int_equal(sem.posts, 0);
    is_list(wp_commit_queue_try_take(&queue), 0, 2);
    /* Another thread does not get the turn, nor wake anybody. */
    assert_true(wp_commit_queue_gather(&queue, &ops[2]));
    assert_true(wp_commit_queue_push(&queue, &ops[3]));
    assert_null(wp_commit_queue_try_take(&queue));
    assert_int_equal(sem.posts, 0);
    is_list(wp_commit_queue_take_more(&queue), 2, 2);
    assert_null(wp_commit_queue_try_take(&queue));
    assert_null(wp_commit_queue_take_more(&queue));
    /* The turn is nobody's again. */
    assert_null(wp_commit_queue_try_take(&queue));
    assert_true(wp_commit_queue_gather(&queue, &ops[4]));
    is_list(wp_commit_queue_try_take(&queue), 4, 1);
    /* Or the receiver's. */
    assert_true(wp_commit_queue_gather(&queue, &ops[5]));
    wp_commit_queue_hand_over(&queue);
    assert_int_equal(sem.posts, 1);
    assert_true(wp_commit_queue_take(&queue, &list));
    is_list(list, 5, 1);
    assert_int_equal(queue.sleeps, 0);
}

/* What was handed over is there though nothing was added. */
static void
test_a_turn_with_nothing(void **state)
{
    struct wp_lease_op *list = &ops[7];

    (void)state;
    assert_true(wp_commit_queue_gather(&queue, &ops[0]));
    is_list(wp_commit_queue_try_take(&queue), 0, 1);
    wp_commit_queue_hand_over(&queue);
    assert_true(wp_commit_queue_take(&queue, &list));
    assert_null(list);
}

static void
test_closed_at_rest(void **state)
{
    struct wp_lease_op *list = &ops[7];

    (void)state;
    wp_commit_queue_close(&queue);
    wp_commit_queue_close(&queue);
    assert_int_equal(sem.posts, 1);
    assert_false(wp_commit_queue_push(&queue, &ops[0]));
    assert_false(wp_commit_queue_gather(&queue, &ops[0]));
    assert_null(wp_commit_queue_try_take(&queue));
    assert_true(wp_commit_queue_take(&queue, &list));
    assert_null(list);
    assert_false(wp_commit_queue_take(&queue, &list));
    assert_null(list);
    assert_false(wp_commit_queue_take(&queue, &list));
    assert_int_equal(queue.sleeps, 0);
}

static void
test_closed_with_something(void **state)
{
    struct wp_lease_op *list = NULL;

    (void)state;
    assert_true(wp_commit_queue_gather(&queue, &ops[0]));
    wp_commit_queue_close(&queue);
    assert_int_equal(sem.posts, 1);
    assert_null(wp_commit_queue_try_take(&queue));
    assert_true(wp_commit_queue_take(&queue, &list));
    is_list(list, 0, 1);
    assert_false(wp_commit_queue_take(&queue, &list));
    assert_null(list);
}

/* While the receiver has the turn, or has been woken for it. */
static void
test_closed_in_the_turn_of_the_receiver(void **state)
{
    struct wp_lease_op *list = NULL;

    (void)state;
    assert_true(wp_commit_queue_push(&queue, &ops[0]));
    wp_commit_queue_close(&queue);
    assert_int_equal(sem.posts, 1);
    assert_true(wp_commit_queue_take(&queue, &list));
    is_list(list, 0, 1);
    assert_false(wp_commit_queue_take(&queue, &list));
    assert_int_equal(sem.posts, 0);
}

/* While another has it, which then leaves it to the receiver. */
static void
test_closed_in_the_turn_of_another(void **state)
{
    struct wp_lease_op *list = NULL;

    (void)state;
    assert_true(wp_commit_queue_gather(&queue, &ops[0]));
    is_list(wp_commit_queue_try_take(&queue), 0, 1);
    assert_true(wp_commit_queue_gather(&queue, &ops[1]));
    wp_commit_queue_close(&queue);
    assert_int_equal(sem.posts, 0);
    is_list(wp_commit_queue_take_more(&queue), 1, 1);
    assert_int_equal(sem.posts, 0);
    assert_null(wp_commit_queue_take_more(&queue));
    assert_int_equal(sem.posts, 1);
    assert_true(wp_commit_queue_take(&queue, &list));
    assert_null(list);
    assert_false(wp_commit_queue_take(&queue, &list));
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_who_pushes_wakes_the_receiver_once),
        TEST(test_who_gathers_takes_its_own),
        TEST(test_a_turn_with_nothing),
        TEST(test_closed_at_rest),
        TEST(test_closed_with_something),
        TEST(test_closed_in_the_turn_of_the_receiver),
        TEST(test_closed_in_the_turn_of_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
