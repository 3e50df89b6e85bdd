/* local/walls/host_report.h - what this machine lets a sandbox have. */
#ifndef WP_LOCAL_WALLS_HOST_REPORT_H
#define WP_LOCAL_WALLS_HOST_REPORT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WP_HOST_NOTES_MAX = 16,
    WP_HOST_NOTE_LEN = 640,
};

enum wp_cgroup_kind {
    WP_CGROUP_NONE,
    WP_CGROUP_V1,
    WP_CGROUP_V2,
};

struct wp_host_report {
    char bwrap_path[256];
    char bwrap_version[64];
    bool limit_memory;
    bool limit_cpu;
    bool limit_pids;
    bool own_uids;    /* Each sandbox has a host user of its own. */
    int landlock_abi; /* 0: the kernel has none. */
    bool seccomp;
    bool runsc; /* Installed; runsc_path is where. */
    char runsc_path[256];
    /* Sentences on what cannot be enforced here; for the log, once. */
    uint32_t notes_len;
    char notes[WP_HOST_NOTES_MAX][WP_HOST_NOTE_LEN];
};

#endif
