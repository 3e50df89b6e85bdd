/* tests/support/base/lock_once.h - the one lock of a part is held while it is
 * needed, and once; memory may lack. Include it in one file, which is linked
 * with --wrap of calloc, pthread_mutex_lock and pthread_mutex_unlock.
 *
 * Include cmocka.h before. */
#ifndef WP_TESTS_SUPPORT_BASE_LOCK_ONCE_H
#define WP_TESTS_SUPPORT_BASE_LOCK_ONCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

static int held;       /* How often it is held. */
static unsigned taken; /* How often it was. */
static bool no_memory;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *
__wrap_calloc(size_t n, size_t size)
{
    return no_memory ? NULL : __real_calloc(n, size);
}

int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    assert_int_equal(held, 0);
    held++;
    taken++;
    return __real_pthread_mutex_lock(lock);
}

int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
int
__wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    assert_int_equal(held, 1);
    held--;
    return __real_pthread_mutex_unlock(lock);
}

#endif
