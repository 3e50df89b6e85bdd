/* local/sandbox/sweep.c - removes what earlier daemons left and nobody wants.
 *
 * In batches: all of a batch are killed, then each is waited for, since dying
 * takes the kernel a while and it can do many at once. */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "local/sandbox/local_impl.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"

enum {
    BATCH = 64,
    DEATH_WAIT_MS = 5000,
    GROUP_TRIES = 1000,
    GROUP_WAIT_MS = 1,
};

struct orphan {
    char name[256]; /* Of a directory, whoever made it. */
    int inner_fd;   /* Killed; -1: there was none. */
    int outer_fd;
};

struct wp_sweep {
    struct wp_local *local;
    struct wp_local_sweep *counts;
    struct orphan orphans[BATCH];
    uint32_t len;
};

struct wp_sweep *
wp_sweep_create(struct wp_local *local, struct wp_local_sweep *counts)
{
    struct wp_sweep *sweep = malloc(sizeof *sweep);

    *counts = (struct wp_local_sweep){.sandboxes = 0};
    if (sweep != NULL) {
        sweep->local = local;
        sweep->counts = counts;
        sweep->len = 0;
    }
    return sweep;
}

/* Exactly the process recorded, not one that has its number now. */
static int
kill_recorded(pid_t pid, uint64_t start)
{
    int fd = wp_process_open(pid, start);

    if (fd >= 0 && syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) != 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static void
await_death(int fd)
{
    struct pollfd pfd = {.fd = fd, .events = POLLIN};

    if (fd >= 0) {
        (void)poll(&pfd, 1, DEATH_WAIT_MS);
        (void)close(fd);
    }
}

static bool
remove_group(const struct wp_cgroups *groups, const char *name)
{
    for (int i = 0; i < GROUP_TRIES; i++) {
        struct timespec wait = {0, GROUP_WAIT_MS * WP_NS_PER_MS};

        if (wp_cgroup_remove(groups, name)) {
            return true;
        }
        /* Whoever is in it: the record may have been lost. */
        wp_cgroup_kill(groups, name);
        (void)nanosleep(&wait, NULL);
    }
    return false;
}

static bool
remove_groups(const struct wp_local *local, const char *name)
{
    bool gone = remove_group(&local->cgroups, name);

    for (uint32_t i = 0; i < local->old_cgroups_len; i++) {
        gone = remove_group(&local->old_cgroups[i], name) && gone;
    }
    return gone;
}

static void
finish_one(struct wp_sweep *sweep, const struct orphan *orphan)
{
    const struct wp_local *local = sweep->local;
    char dir[2 * WP_LOCAL_PATH_MAX];
    struct wp_err err;

    await_death(orphan->inner_fd);
    await_death(orphan->outer_fd);
    if (!remove_groups(local, orphan->name)) {
        wp_log_error("leftover control group not removed",
                     wp_kv_str("sandbox", orphan->name));
        sweep->counts->failed++;
        return;
    }
    (void)snprintf(dir, sizeof dir, "%s/%s", local->sandboxes_dir,
                   orphan->name);
    if (wp_dir_remove(dir, &err) != WP_OK) {
        wp_log_error("leftover sandbox not removed",
                     wp_kv_str("sandbox", orphan->name), wp_kv_err(&err));
        sweep->counts->failed++;
    }
}

static void
finish_batch(struct wp_sweep *sweep)
{
    for (uint32_t i = 0; i < sweep->len; i++) {
        finish_one(sweep, &sweep->orphans[i]);
    }
    sweep->len = 0;
}

void
wp_sweep_add(struct wp_sweep *sweep, const char *name)
{
    const struct wp_local *local = sweep->local;
    struct orphan *orphan = &sweep->orphans[sweep->len++];
    char dir[2 * WP_LOCAL_PATH_MAX];
    struct wp_record record;

    *orphan = (struct orphan){.inner_fd = -1, .outer_fd = -1};
    (void)snprintf(orphan->name, sizeof orphan->name, "%s", name);
    (void)snprintf(dir, sizeof dir, "%s/%s", local->sandboxes_dir, name);
    sweep->counts->sandboxes++;
    /* Of another boot nobody lives, whoever has the numbers now. */
    if (wp_record_read(dir, &record) &&
        (record.boot_id[0] == '\0' ||
         strcmp(record.boot_id, local->boot_id) == 0)) {
        orphan->inner_fd = kill_recorded(record.inner_pid, record.inner_start);
        orphan->outer_fd = kill_recorded(record.outer_pid, record.outer_start);
        sweep->counts->killed +=
            orphan->inner_fd >= 0 || orphan->outer_fd >= 0 ? 1 : 0;
    }
    if (sweep->len == BATCH) {
        finish_batch(sweep);
    }
}

struct group_sweep {
    const struct wp_sweep *sweep;
    const struct wp_cgroups *groups;
};

static void
sweep_group(void *ctx, const char *name)
{
    const struct group_sweep *group = ctx;
    const struct wp_sweep *sweep = group->sweep;
    char dir[2 * WP_LOCAL_PATH_MAX];

    (void)snprintf(dir, sizeof dir, "%s/%s", sweep->local->sandboxes_dir, name);
    if (access(dir, F_OK) == 0) {
        return; /* Adopted. */
    }
    if (remove_group(group->groups, name)) {
        sweep->counts->cgroups++;
    } else {
        sweep->counts->failed++;
    }
}

void
wp_sweep_finish(struct wp_sweep *sweep)
{
    struct wp_local *local = sweep->local;
    struct group_sweep group = {sweep, &local->cgroups};

    finish_batch(sweep);
    wp_cgroup_list(&local->cgroups, sweep_group, &group);
    /* Of a daemon that was started from another group than this one. */
    for (uint32_t i = 0; i < local->old_cgroups_len; i++) {
        group.groups = &local->old_cgroups[i];
        wp_cgroup_list(&local->old_cgroups[i], sweep_group, &group);
    }
    free(sweep);
}
