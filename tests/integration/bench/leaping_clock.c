/* Preloaded into a program under test: a wall clock that leaps. Half a second after
 * the first look it is set an hour forward, and half a second later two back. */
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include <sys/syscall.h>
#include <unistd.h>

static int64_t
mono_ms(void)
{
    struct timespec ts = {0, 0};

    (void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int clock_gettime(clockid_t id, struct timespec *ts);

int
clock_gettime(clockid_t id, struct timespec *ts)
{
    static _Atomic(int64_t) first_ms;
    int64_t none = 0;
    int result = (int)syscall(SYS_clock_gettime, id, ts);
    int64_t age_ms;

    if (id != CLOCK_REALTIME || result != 0) {
        return result;
    }
    (void)atomic_compare_exchange_strong(&first_ms, &none, mono_ms());
    age_ms = mono_ms() - atomic_load(&first_ms);
    ts->tv_sec += age_ms < 500 ? 0 : age_ms < 1000 ? 3600 : -3600;
    return 0;
}
