#include "tests/support/base/call_counts.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <sys/mman.h>
#include <unistd.h>

static _Atomic(uint64_t) allocations;
static _Atomic(uint64_t) locks;
static _Atomic(uint64_t) kernel_calls;

static void
count(_Atomic(uint64_t) *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

/* WRAP(counter, type, name, (parameters), (arguments)) */
#define WRAP(counter, type, name, params, args)                                \
    type __real_##name params;                                                 \
    type __wrap_##name params;                                                 \
    type __wrap_##name params                                                  \
    {                                                                          \
        count(&(counter));                                                     \
        return __real_##name args;                                             \
    }

WRAP(allocations, void *, malloc, (size_t n), (n))
WRAP(allocations, void *, calloc, (size_t n, size_t m), (n, m))
WRAP(allocations, void *, realloc, (void *p, size_t n), (p, n))
WRAP(allocations, void *, aligned_alloc, (size_t a, size_t n), (a, n))
WRAP(allocations, int, posix_memalign, (void **p, size_t a, size_t n),
     (p, a, n))
WRAP(allocations, void *, mmap,
     (void *p, size_t n, int prot, int flags, int fd, off_t off),
     (p, n, prot, flags, fd, off))
WRAP(locks, int, pthread_mutex_lock, (pthread_mutex_t * m), (m))
WRAP(locks, int, pthread_mutex_trylock, (pthread_mutex_t * m), (m))
WRAP(locks, int, pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l))
WRAP(locks, int, pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l))
WRAP(locks, int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m),
     (c, m))
WRAP(locks, int, pthread_cond_signal, (pthread_cond_t * c), (c))
WRAP(locks, int, pthread_cond_broadcast, (pthread_cond_t * c), (c))
WRAP(kernel_calls, ssize_t, write, (int fd, const void *p, size_t n),
     (fd, p, n))
WRAP(kernel_calls, ssize_t, read, (int fd, void *p, size_t n), (fd, p, n))

void __real_free(void *p);
void __wrap_free(void *p);
void
__wrap_free(void *p)
{
    count(&allocations);
    __real_free(p);
}

void
wp_call_counts_reset(void)
{
    atomic_store_explicit(&allocations, 0, memory_order_relaxed);
    atomic_store_explicit(&locks, 0, memory_order_relaxed);
    atomic_store_explicit(&kernel_calls, 0, memory_order_relaxed);
}

uint64_t
wp_call_counts_allocations(void)
{
    return atomic_load_explicit(&allocations, memory_order_relaxed);
}

uint64_t
wp_call_counts_locks(void)
{
    return atomic_load_explicit(&locks, memory_order_relaxed);
}

uint64_t
wp_call_counts_kernel(void)
{
    return atomic_load_explicit(&kernel_calls, memory_order_relaxed);
}
