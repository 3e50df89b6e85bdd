/* local/walls/cgroup.h - resource limits of sandboxes through control groups.
 *
 * Version 2 where this process may make groups below its own, else the version
 * 1 hierarchies memory, pids, cpu and freezer, else none. Groups are made below
 * the group that this process is in, so limits set on the daemon hold for the
 * sum; or below another one that was given to it. */
#ifndef WP_LOCAL_WALLS_CGROUP_H
#define WP_LOCAL_WALLS_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "local/walls/host_report.h"
#include "pool/base/status.h"

enum {
    WP_CGROUP_PATH_MAX = 512,
    WP_CGROUP_TREES_MAX = 4, /* Version 1 has one for each controller. */
    WP_CGROUP_REASON_MAX = 400,
};

/* Where the daemon itself is, below the group that was given to it. A service
 * manager may start it there right away. */
#define WP_CGROUP_LEAF "warmpoold.self"

enum {
    WP_CGROUP_MEMORY = 1 << 0,
    WP_CGROUP_PIDS = 1 << 1,
    WP_CGROUP_CPU = 1 << 2,
    WP_CGROUP_FREEZER =
        1 << 3, /* Version 2 has none, and freezes all the same. */
};

/* One hierarchy, and our group in it below which each sandbox has its own. */
struct wp_cgroup_tree {
    unsigned controllers; /* WP_CGROUP_* that work here. */
    char dir[WP_CGROUP_PATH_MAX];
};

struct wp_cgroups {
    enum wp_cgroup_kind kind;
    unsigned controllers; /* Of all trees. */
    bool moved; /* This process had to leave for WP_CGROUP_LEAF by itself. */
    /* Version 2: what we switched on for the children of the group above. */
    unsigned enabled;
    /* Why kind is WP_CGROUP_NONE, or "". */
    char reason[WP_CGROUP_REASON_MAX];
    uint32_t trees_len;
    struct wp_cgroup_tree trees[WP_CGROUP_TREES_MAX];
};

struct wp_cgroup_limits {
    uint64_t memory_bytes; /* 0: none. */
    uint32_t cpu_milli;    /* 0: none. */
    uint32_t pids_max;     /* 0: none. */
};

/* Finds what can be used, and makes `group` (a file name) in it. Never fails:
 * kind is then WP_CGROUP_NONE, reason says why, and all is as it was. With
 * version 2 this process may move to WP_CGROUP_LEAF; or, when `given` names
 * another group ("/system.slice/x.service"; "": none), the processes in that
 * one move to its WP_CGROUP_LEAF. mountinfo and self are /proc/self/mountinfo
 * and /proc/self/cgroup; tests give others. */
void wp_cgroups_open(struct wp_cgroups *groups, const char *mountinfo,
                     const char *self, const char *given, const char *group);
/* Removes our own group again, when empty; then undoes with version 2 the rest
 * of what wp_cgroups_open did, too. */
void wp_cgroups_close(struct wp_cgroups *groups);
/* Removes the groups "<prefix>PID" beside ours whose process is gone: what a
 * daemon that was killed while it looked at the machine has left. */
void wp_cgroups_sweep(const struct wp_cgroups *groups, const char *prefix);

/* Replaces the file `path`, which says where our groups are and where those of
 * earlier daemons are that are still needed, for a later daemon that may be
 * started in another group. */
WP_MUST_CHECK enum wp_status wp_cgroups_save(const struct wp_cgroups *groups,
                                             const struct wp_cgroups *old,
                                             uint32_t old_len, const char *path,
                                             struct wp_err *err);
/* Reads that file into groups, one for each place, at most max; without what
 * `now` has itself. Returns how many. Only names ending in /`group` are taken,
 * so that a damaged file harms nobody. */
WP_MUST_CHECK uint32_t wp_cgroups_load(struct wp_cgroups *groups, uint32_t max,
                                       const char *path, const char *group,
                                       const struct wp_cgroups *now);

/* Makes the group `name` with its limits. Limits whose controller does not work
 * here are passed over. Undone when it fails. */
WP_MUST_CHECK enum wp_status
wp_cgroup_make(const struct wp_cgroups *groups, const char *name,
               const struct wp_cgroup_limits *limits, struct wp_err *err);
/* Opens for writing into fds (cloexec) what a child that has one thread writes
 * "0" to, in each tree, to join `name`. Returns how many, or -1 with errno. */
int wp_cgroup_open_procs(const struct wp_cgroups *groups, const char *name,
                         int fds[WP_CGROUP_TREES_MAX]);
/* A descriptor (close-on-exec) of the directory of `name`, for wp_clone_into;
 * -1 with version 1, and when it cannot be opened. */
int wp_cgroup_open_dir(const struct wp_cgroups *groups, const char *name);
bool wp_cgroup_exists(const struct wp_cgroups *groups, const char *name);
/* False with errno EBUSY while a process is left in it. A group that is not
 * there is a group removed. */
WP_MUST_CHECK bool wp_cgroup_remove(const struct wp_cgroups *groups,
                                    const char *name);
/* SIGKILL to every process in it, frozen or not; at once where the kernel can
 * (version 2 from 5.14 on), else to those that are there while it looks. */
void wp_cgroup_kill(const struct wp_cgroups *groups, const char *name);
/* Can processes be made to stand still? */
bool wp_cgroups_can_freeze(const struct wp_cgroups *groups);
/* Makes all processes of the group stand still, or go on; what is so already
 * stays. It takes the kernel a moment. Version 1 lets no process that stands
 * still end. False, with errno: it cannot be done here. */
WP_MUST_CHECK bool wp_cgroup_freeze(const struct wp_cgroups *groups,
                                    const char *name, bool frozen);
/* Calls fn for the name of each group below ours. */
void wp_cgroup_list(const struct wp_cgroups *groups,
                    void (*fn)(void *ctx, const char *name), void *ctx);
/* How many of its processes were killed for want of memory; 0 where the kernel
 * does not count them. */
uint64_t wp_cgroup_oom_kills(const struct wp_cgroups *groups, const char *name);

#endif
