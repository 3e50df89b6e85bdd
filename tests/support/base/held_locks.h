/* tests/support/base/held_locks.h - a test fails when a thread gives back a lock
 * that it does not hold, or holds one when the test looks. Include it in one
 * file, which is linked with --wrap=pthread_mutex_lock and
 * --wrap=pthread_mutex_unlock.
 *
 * Include cmocka.h before. */
#ifndef WP_TESTS_SUPPORT_BASE_HELD_LOCKS_H
#define WP_TESTS_SUPPORT_BASE_HELD_LOCKS_H

#include <pthread.h>
#include <stddef.h>

enum {
    HELD_LOCKS_MAX = 8,
};

static _Thread_local struct {
    const pthread_mutex_t *lock[HELD_LOCKS_MAX];
    size_t n;
} held_locks;

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);

static inline size_t
held_locks_find(const pthread_mutex_t *lock)
{
    size_t i = 0;

    while (i < held_locks.n && held_locks.lock[i] != lock) {
        i++;
    }
    return i;
}

int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    /* It would wait for itself for ever. */
    assert_int_equal(held_locks_find(lock), held_locks.n);
    assert_true(held_locks.n < HELD_LOCKS_MAX);
    held_locks.lock[held_locks.n++] = lock;
    return __real_pthread_mutex_lock(lock);
}

int
__wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    size_t i = held_locks_find(lock);

    assert_true(i < held_locks.n);
    held_locks.lock[i] = held_locks.lock[--held_locks.n];
    return __real_pthread_mutex_unlock(lock);
}

static inline void
held_locks_are_free(void)
{
    assert_int_equal(held_locks.n, 0);
}

#endif
