/* tests/support/base/checked_locks.c - for programs that wp_check_locks() names:
 * whoever locks a mutex that nobody has made, or unlocks one that it does not
 * hold, is told, and the test fails. The system lets either pass, until two
 * threads meet there. So is who chooses a clock in attributes that were not made. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLACES = 1 << 16,
    LOOKS = 64, /* So many from where it is looked for first. */
};

int __real_pthread_mutex_init(pthread_mutex_t *mutex,
                              const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex,
                              const pthread_mutexattr_t *attr);
int __real_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_condattr_init(pthread_condattr_t *attr);
int __wrap_pthread_condattr_init(pthread_condattr_t *attr);
int __real_pthread_condattr_setclock(pthread_condattr_t *attr, clockid_t clock);
int __wrap_pthread_condattr_setclock(pthread_condattr_t *attr, clockid_t clock);

/* What the linker says the program's own variables are: a mutex there may be one
 * that is made before main. */
extern char __data_start[];
extern char _end[];

/* The mutexes that were made; 0: none. */
static _Atomic(uintptr_t) made[PLACES];

static _Noreturn void
tell(const char *what, int error)
{
    (void)fprintf(stderr, "checked_locks: %s: %s\n", what, strerror(error));
    abort();
}

static size_t
place_of(uintptr_t mutex, size_t look)
{
    return (mutex / 8 * UINT64_C(0x9e3779b97f4a7c15) >> 32) % (PLACES - LOOKS) +
           look;
}

/* Replaces `from`, among where the mutex may be, by `to`. */
static bool
replace(uintptr_t mutex, uintptr_t from, uintptr_t to)
{
    for (size_t i = 0; i < LOOKS; i++) {
        uintptr_t was = from;

        if (atomic_compare_exchange_strong(&made[place_of(mutex, i)], &was,
                                           to)) {
            return true;
        }
    }
    return false;
}

static bool
is_made(uintptr_t mutex)
{
    if (mutex >= (uintptr_t)__data_start && mutex < (uintptr_t)_end) {
        return true;
    }
    for (size_t i = 0; i < LOOKS; i++) {
        if (atomic_load(&made[place_of(mutex, i)]) == mutex) {
            return true;
        }
    }
    return false;
}

int
__wrap_pthread_mutex_init(pthread_mutex_t *mutex,
                          const pthread_mutexattr_t *attr)
{
    pthread_mutexattr_t checked;
    int rc;

    if (attr != NULL) {
        tell("a mutex of another kind", 0);
    }
    (void)pthread_mutexattr_init(&checked);
    (void)pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
    rc = __real_pthread_mutex_init(mutex, &checked);
    (void)pthread_mutexattr_destroy(&checked);
    /* One whose memory was given back without its end may be there still. */
    if (!is_made((uintptr_t)mutex) &&
        !replace((uintptr_t)mutex, 0, (uintptr_t)mutex)) {
        tell("more mutexes than there is room for", 0);
    }
    return rc;
}

int
__wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    (void)replace((uintptr_t)mutex, (uintptr_t)mutex, 0);
    return __real_pthread_mutex_destroy(mutex);
}

int
__wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    int rc = __real_pthread_mutex_lock(mutex);

    if (rc != 0) {
        tell("lock", rc);
    }
    if (!is_made((uintptr_t)mutex)) {
        tell("lock of what was not made", 0);
    }
    return rc;
}

int
__wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    int rc = __real_pthread_mutex_unlock(mutex);

    if (rc != 0) {
        tell("unlock", rc);
    }
    return rc;
}

/* The attributes that this thread made last. */
static _Thread_local const pthread_condattr_t *attributes;

int
__wrap_pthread_condattr_init(pthread_condattr_t *attr)
{
    attributes = attr;
    return __real_pthread_condattr_init(attr);
}

int
__wrap_pthread_condattr_setclock(pthread_condattr_t *attr, clockid_t clock)
{
    if (attributes != attr) {
        tell("a clock of attributes that were not made", 0);
    }
    attributes = NULL;
    return __real_pthread_condattr_setclock(attr, clock);
}
