#include "local/walls/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "local/walls/cgroup_files.h"

enum {
    CPU_PERIOD_US = 100000,
    CPU_QUOTA_MIN_US = 1000, /* The kernel's floor. */
};

static bool
write_u64(const char *dir, const char *file, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    return wp_cgroup_put(dir, file, text);
}

static bool
apply_memory(enum wp_cgroup_kind kind, const char *dir, uint64_t bytes)
{
    if (kind == WP_CGROUP_V2) {
        /* Absent when the kernel does not account swap. */
        (void)wp_cgroup_put(dir, "memory.swap.max", "0");
        return write_u64(dir, "memory.max", bytes);
    }
    if (!write_u64(dir, "memory.limit_in_bytes", bytes)) {
        return false;
    }
    /* Absent when the kernel does not account swap. */
    (void)write_u64(dir, "memory.memsw.limit_in_bytes", bytes);
    return true;
}

static bool
apply_cpu(enum wp_cgroup_kind kind, const char *dir, uint32_t milli)
{
    uint64_t quota_us = (uint64_t)milli * CPU_PERIOD_US / 1000;

    if (quota_us < CPU_QUOTA_MIN_US) {
        quota_us = CPU_QUOTA_MIN_US;
    }
    if (kind == WP_CGROUP_V2) {
        char text[48];

        (void)snprintf(text, sizeof text, "%" PRIu64 " %d", quota_us,
                       (int)CPU_PERIOD_US);
        return wp_cgroup_put(dir, "cpu.max", text);
    }
    return write_u64(dir, "cpu.cfs_period_us", CPU_PERIOD_US) &&
           write_u64(dir, "cpu.cfs_quota_us", quota_us);
}

static bool
apply_limits(const struct wp_cgroups *groups, uint32_t t, const char *dir,
             const struct wp_cgroup_limits *limits)
{
    unsigned bits = groups->trees[t].controllers;

    if ((bits & WP_CGROUP_MEMORY) != 0 && limits->memory_bytes != 0 &&
        !apply_memory(groups->kind, dir, limits->memory_bytes)) {
        return false;
    }
    if ((bits & WP_CGROUP_PIDS) != 0 && limits->pids_max != 0 &&
        !write_u64(dir, "pids.max", limits->pids_max)) {
        return false;
    }
    return (bits & WP_CGROUP_CPU) == 0 || limits->cpu_milli == 0 ||
           apply_cpu(groups->kind, dir, limits->cpu_milli);
}

enum wp_status
wp_cgroup_make(const struct wp_cgroups *groups, const char *name,
               const struct wp_cgroup_limits *limits, struct wp_err *err)
{
    for (uint32_t t = 0; t < groups->trees_len; t++) {
        char dir[WP_CGROUP_PATH_MAX];

        if (!wp_cgroup_path(dir, groups->trees[t].dir, name) ||
            !wp_cgroup_dir_make(dir) || !apply_limits(groups, t, dir, limits)) {
            int saved = errno;
            bool gone = wp_cgroup_remove(groups, name);

            (void)gone; /* Empty, so it goes; if not, the sweep retries. */
            return wp_err_sys(err, WP_UNAVAILABLE, saved,
                              "cannot make control group %s/%s",
                              groups->trees[t].dir, name);
        }
    }
    return WP_OK;
}

int
wp_cgroup_open_procs(const struct wp_cgroups *groups, const char *name,
                     int fds[WP_CGROUP_TREES_MAX])
{
    /* Who moves its own single thread needs no lock of the whole machine, for
     * which the kernel waits 10 to 100 ms. Version 2 moves whole processes
     * only. */
    const char *file = groups->kind == WP_CGROUP_V1 ? "tasks" : "cgroup.procs";
    uint32_t t;

    for (t = 0; t < groups->trees_len; t++) {
        char dir[WP_CGROUP_PATH_MAX];
        char path[WP_CGROUP_PATH_MAX];

        fds[t] = -1;
        if (wp_cgroup_path(dir, groups->trees[t].dir, name) &&
            wp_cgroup_path(path, dir, file)) {
            fds[t] = open(path, O_WRONLY | O_CLOEXEC);
        }
        if (fds[t] < 0) {
            int saved = errno;

            while (t > 0) {
                (void)close(fds[--t]);
            }
            errno = saved;
            return -1;
        }
    }
    return (int)t;
}

int
wp_cgroup_open_dir(const struct wp_cgroups *groups, const char *name)
{
    char dir[WP_CGROUP_PATH_MAX];

    return groups->kind == WP_CGROUP_V2 &&
                   wp_cgroup_path(dir, groups->trees[0].dir, name)
               ? open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC)
               : -1;
}

bool
wp_cgroup_exists(const struct wp_cgroups *groups, const char *name)
{
    for (uint32_t t = 0; t < groups->trees_len; t++) {
        char dir[WP_CGROUP_PATH_MAX];

        if (wp_cgroup_path(dir, groups->trees[t].dir, name) &&
            access(dir, F_OK) == 0) {
            return true;
        }
    }
    return false;
}

bool
wp_cgroup_remove(const struct wp_cgroups *groups, const char *name)
{
    bool gone = true;

    for (uint32_t t = 0; t < groups->trees_len; t++) {
        char dir[WP_CGROUP_PATH_MAX];

        if (!wp_cgroup_path(dir, groups->trees[t].dir, name) ||
            (rmdir(dir) != 0 && errno != ENOENT)) {
            gone = false;
        }
    }
    if (!gone) {
        errno = EBUSY;
    }
    return gone;
}

void
wp_cgroup_kill(const struct wp_cgroups *groups, const char *name)
{
    for (uint32_t t = 0; t < groups->trees_len; t++) {
        char dir[WP_CGROUP_PATH_MAX];
        char path[WP_CGROUP_PATH_MAX];
        char line[32];
        FILE *file;

        if (!wp_cgroup_path(dir, groups->trees[t].dir, name) ||
            !wp_cgroup_path(path, dir, "cgroup.procs") ||
            wp_cgroup_put(dir, "cgroup.kill", "1")) {
            continue;
        }
        /* Version 1, or a kernel before 5.14. */
        file = fopen(path, "re");
        if (file == NULL) {
            continue;
        }
        while (fgets(line, sizeof line, file) != NULL) {
            long pid = strtol(line, NULL, 10);

            if (pid > 1) {
                (void)kill((pid_t)pid, SIGKILL);
            }
        }
        (void)fclose(file);
    }
    (void)!wp_cgroup_freeze(groups, name, false);
}

void
wp_cgroup_list(const struct wp_cgroups *groups,
               void (*fn)(void *ctx, const char *name), void *ctx)
{
    for (uint32_t t = 0; t < groups->trees_len; t++) {
        DIR *dir = opendir(groups->trees[t].dir);
        struct dirent *entry;

        if (dir == NULL) {
            continue;
        }
        while ((entry = readdir(dir)) != NULL) {
            if (entry->d_name[0] != '.' && entry->d_type == DT_DIR) {
                fn(ctx, entry->d_name);
            }
        }
        (void)closedir(dir);
    }
}

uint64_t
wp_cgroup_oom_kills(const struct wp_cgroups *groups, const char *name)
{
    const char *file =
        groups->kind == WP_CGROUP_V2 ? "memory.events" : "memory.oom_control";

    for (uint32_t t = 0; t < groups->trees_len; t++) {
        char dir[WP_CGROUP_PATH_MAX];
        char text[512];
        const char *at;

        if ((groups->trees[t].controllers & WP_CGROUP_MEMORY) != 0 &&
            wp_cgroup_path(dir, groups->trees[t].dir, name) &&
            wp_cgroup_get(dir, file, text, sizeof text)) {
            at = strstr(text, "oom_kill ");
            return at != NULL ? strtoull(at + 9, NULL, 10) : 0;
        }
    }
    return 0;
}
