#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "local/local_impl.h"
#include "pool/base/log.h"

enum {
    DEATH_WAIT_MS = 5000,
    GROUP_TRIES = 100,
    GROUP_WAIT_MS = 10,
};

/* Kills exactly the process recorded, not one that has its number now. True
 * when it was still there. */
static bool
kill_recorded(pid_t pid, uint64_t start)
{
    struct pollfd pfd = {.events = POLLIN};
    bool killed = false;

    if (pid <= 1 || start == 0) {
        return false;
    }
    pfd.fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pfd.fd < 0) {
        return false;
    }
    /* Read after the open: the descriptor stays with whom we look at. Readable
     * at once: dead, and only not reaped. */
    if (wp_process_start_time(pid) == start && poll(&pfd, 1, 0) == 0) {
        killed = syscall(SYS_pidfd_send_signal, pfd.fd, SIGKILL, NULL, 0) == 0;
        if (killed) {
            (void)poll(&pfd, 1, DEATH_WAIT_MS);
        }
    }
    (void)close(pfd.fd);
    return killed;
}

static bool
remove_group(const struct wp_cgroups *groups, const char *name)
{
    for (int i = 0; i < GROUP_TRIES; i++) {
        struct timespec wait = {0, GROUP_WAIT_MS * 1000000L};

        if (wp_cgroup_remove(groups, name)) {
            return true;
        }
        /* Whoever is in it: the record may have been lost. */
        wp_cgroup_kill(groups, name);
        (void)nanosleep(&wait, NULL);
    }
    return false;
}

static void
sweep_one(struct wp_local *local, const char *name,
          struct wp_local_sweep *sweep)
{
    char dir[WP_LOCAL_PATH_MAX];
    struct wp_record record;
    struct wp_err err;

    if (snprintf(dir, sizeof dir, "%s/%s", local->sandboxes_dir, name) >=
        (int)sizeof dir) {
        sweep->failed++;
        return;
    }
    sweep->sandboxes++;
    if (wp_record_read(dir, &record)) {
        bool inner = kill_recorded(record.inner_pid, record.inner_start);
        bool outer = kill_recorded(record.outer_pid, record.outer_start);

        sweep->killed += inner || outer ? 1 : 0;
    }
    if (!remove_group(&local->cgroups, name)) {
        wp_log_error("leftover control group not removed",
                     wp_kv_str("sandbox", name));
        sweep->failed++;
        return;
    }
    if (wp_dir_remove(dir, &err) != WP_OK) {
        wp_log_error("leftover sandbox not removed", wp_kv_str("sandbox", name),
                     wp_kv_err(&err));
        sweep->failed++;
    }
}

struct group_sweep {
    const struct wp_cgroups *groups;
    struct wp_local_sweep *sweep;
};

static void
sweep_group(void *ctx, const char *name)
{
    struct group_sweep *group = ctx;

    if (remove_group(group->groups, name)) {
        group->sweep->cgroups++;
    } else {
        group->sweep->failed++;
    }
}

void
wp_local_sweep_run(struct wp_local *local, struct wp_local_sweep *sweep)
{
    struct group_sweep group = {&local->cgroups, sweep};
    struct group_sweep old = {&local->old_cgroups, sweep};
    struct dirent *entry;
    DIR *dir = opendir(local->sandboxes_dir);

    *sweep = (struct wp_local_sweep){.sandboxes = 0};
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            sweep_one(local, entry->d_name, sweep);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    wp_cgroup_list(&local->cgroups, sweep_group, &group);
    /* Of a daemon that was started from another group than this one. */
    wp_cgroup_list(&local->old_cgroups, sweep_group, &old);
    wp_cgroups_close(&local->old_cgroups);
    if (sweep->sandboxes + sweep->cgroups > 0) {
        wp_log_info("swept what an earlier daemon left",
                    wp_kv_int("sandboxes", sweep->sandboxes),
                    wp_kv_int("killed", sweep->killed),
                    wp_kv_int("cgroups", sweep->cgroups),
                    wp_kv_int("failed", sweep->failed));
    }
}
