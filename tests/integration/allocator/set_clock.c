/* Preloaded into a program under test: a wall clock that is set. It is as many
 * seconds ahead as the file that WP_SET_CLOCK names says; none without one. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <sys/syscall.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *ts);

int
clock_gettime(clockid_t id, struct timespec *ts)
{
    int result = (int)syscall(SYS_clock_gettime, id, ts);
    const char *path = getenv("WP_SET_CLOCK");
    FILE *file =
        id == CLOCK_REALTIME && path != NULL ? fopen(path, "re") : NULL;
    long ahead_s = 0;

    if (file != NULL) {
        if (result == 0 && fscanf(file, "%ld", &ahead_s) == 1) {
            ts->tv_sec += ahead_s;
        }
        (void)fclose(file);
    }
    return result;
}
