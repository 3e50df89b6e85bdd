/* local/init/idle.c - whether anybody uses the sandbox.
 *
 * Somebody does while a connection to its port or to its egress proxy is open,
 * or while it computes. What a liveness probe asks of the program counts for
 * nothing. Looked at only when the daemon asks, which is seldom. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "local/init/egress.h"
#include "local/init/init_impl.h"

enum {
    /* Of a processor, in hundredths: less is what programs take that wait. */
    COMPUTES_PERCENT = 5,
    STAT_UTIME = 14, /* Of /proc/PID/stat, and the three behind it. */
    STAT_CSTIME = 17,
};

/* User and system time of a process and of its children that it waited for. */
static uint64_t
ticks_of(const char *pid)
{
    char path[32];
    char text[512];
    uint64_t sum = 0;
    FILE *file;
    char *at;

    (void)snprintf(path, sizeof path, "/proc/%.10s/stat", pid);
    file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    at = strrchr(text, ')'); /* The name may hold anything. */
    for (int field = 3; at != NULL && field <= STAT_CSTIME; field++) {
        at = strchr(at + 1, ' ');
        if (at != NULL && field >= STAT_UTIME) {
            sum += strtoull(at + 1, NULL, 10);
        }
    }
    return sum;
}

/* Of all processes here, init's own children included, that have ended, too. */
static uint64_t
ticks_of_all(void)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    uint64_t sum = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (isdigit((unsigned char)entry->d_name[0])) {
            sum += ticks_of(entry->d_name);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    return sum;
}

/* Since the last look. */
static bool
computed(struct wp_idle *idle, int64_t now_us)
{
    uint64_t before = idle->ticks;
    int64_t passed_us = now_us - idle->looked_us;
    bool first = idle->looked_us == 0;
    uint64_t us;

    idle->ticks = ticks_of_all();
    idle->looked_us = now_us;
    if (first || idle->ticks <= before) {
        return first;
    }
    us = (idle->ticks - before) * 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
    return us * 100 > (uint64_t)passed_us * COMPUTES_PERCENT;
}

void
wp_init_look(struct wp_init *init, const char *text)
{
    struct wp_idle *idle = &init->idle;
    const struct timespec *ended = &init->bridge.ended_at;
    int64_t ended_us = (int64_t)ended->tv_sec * 1000000 + ended->tv_nsec / 1000;
    int64_t enough_ms = strtoll(text, NULL, 10);
    int64_t now_us = wp_init_now_us();
    bool computes = computed(idle, now_us);
    int64_t idle_ms;
    char words[24];

    if (computes || init->bridge.conns > 0 ||
        (init->egress_fd >= 0 &&
         wp_init_egress_in_use(init->options.egress_port))) {
        idle->active_us = now_us;
    } else if (ended_us > idle->active_us) {
        idle->active_us = ended_us;
    }
    idle_ms = (now_us - idle->active_us) / 1000;
    (void)snprintf(words, sizeof words, "%lld", (long long)idle_ms);
    if (enough_ms > 0 && idle_ms >= enough_ms) {
        wp_bridge_close(&init->bridge);
        wp_init_tell_fd(init, WP_CONTROL_IDLE, words, init->bridge.listen_fd);
    } else {
        wp_init_tell(init, WP_CONTROL_IDLE, words);
    }
}
