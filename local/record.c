#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "local/local_impl.h"

enum {
    /* Of /proc/PID/stat, counted after the name in parentheses, from 3. */
    STAT_START_TIME = 22,
    RECORD_MAX = 256,
};

uint64_t
wp_process_start_time(pid_t pid)
{
    char path[32];
    char text[1024];
    char *at;
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (n <= 0) {
        return 0;
    }
    text[n] = '\0';
    /* The name may hold anything, parentheses too: fields start after the last.
     */
    at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < STAT_START_TIME; field++) {
        at = strchr(at + 1, ' ');
    }
    return at != NULL ? strtoull(at + 1, NULL, 10) : 0;
}

static bool
record_path(const char *dir, char out[WP_LOCAL_PATH_MAX])
{
    return snprintf(out, WP_LOCAL_PATH_MAX, "%s/record", dir) <
           WP_LOCAL_PATH_MAX;
}

/* Written beside and renamed: whoever finds a record, after a kill too, finds a
 * whole one. */
enum wp_status
wp_record_write(const char *dir, const struct wp_record *record,
                struct wp_err *err)
{
    char path[WP_LOCAL_PATH_MAX];
    char fresh[WP_LOCAL_PATH_MAX + 4];
    char text[RECORD_MAX];
    ssize_t n = -1;
    int len = snprintf(text, sizeof text,
                       "warmpool 1\nouter %d %" PRIu64 "\ninner %d %" PRIu64
                       "\nend\n",
                       (int)record->outer_pid, record->outer_start,
                       (int)record->inner_pid, record->inner_start);
    int saved = ENAMETOOLONG;
    int fd = -1;

    if (record_path(dir, path)) {
        (void)snprintf(fresh, sizeof fresh, "%s.new", path);
        fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        saved = errno;
    }
    if (fd >= 0) {
        n = write(fd, text, (size_t)len);
        saved = n >= 0 ? ENOSPC : errno;
        (void)close(fd);
    }
    if (n == len) {
        if (rename(fresh, path) == 0) {
            return WP_OK;
        }
        saved = errno;
    }
    return wp_err_sys(err, WP_UNAVAILABLE, saved, "cannot write %s/record",
                      dir);
}

bool
wp_record_read(const char *dir, struct wp_record *record)
{
    char path[WP_LOCAL_PATH_MAX];
    char end[8] = "";
    int outer;
    int inner;
    FILE *file;
    int n = 0;

    if (!record_path(dir, path) || (file = fopen(path, "re")) == NULL) {
        return false;
    }
    /* What it cannot tell, a number too large, names no process.
     * NOLINTNEXTLINE(cert-err34-c) */
    n = fscanf(file, "warmpool 1 outer %d %" SCNu64 " inner %d %" SCNu64 " %7s",
               &outer, &record->outer_start, &inner, &record->inner_start, end);
    (void)fclose(file);
    /* A record cut short (full disk, power) names nobody. */
    if (n != 5 || strcmp(end, "end") != 0) {
        return false;
    }
    record->outer_pid = outer;
    record->inner_pid = inner;
    return true;
}
