/* local/sandbox/backend_local.h - real sandboxes on one machine, as isolated
 * processes.
 *
 * Each sandbox is a bubblewrap container with its own user, mount, pid, net,
 * ipc, uts and cgroup namespaces, a read-only root, no capabilities, a seccomp
 * filter and resource limits. Inside, warmpool-init carries bytes between a
 * Unix socket on the host (the endpoint, "unix:PATH") and the container's port.
 *
 * The backend has one thread of its own with one event loop; the calls of
 * struct wp_backend_ops only post to it. Reports are made from that thread. */
#ifndef WP_LOCAL_SANDBOX_BACKEND_LOCAL_H
#define WP_LOCAL_SANDBOX_BACKEND_LOCAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "local/walls/host_report.h"
#include "local/manifest/manifest.h"
#include "pool/remotes/trust_mode.h"
#include "pool/backend.h"

/* wp_local_config_init fills every field with its default. Text and templates
 * are borrowed until wp_local_destroy. */
struct wp_local_config {
    /* Holds sockets, records and prepared roots; made when missing, locked
     * while in use. Required; absolute; short, since socket paths hold it. */
    const char *state_dir;
    /* `image: NAME` is rootfs_dir/NAME; NULL: only `image: host`. */
    const char *rootfs_dir;
    /* warmpool-runtime, shown inside as /opt/warmpool/bin/warmpool-runtime.
     * NULL: not shown. */
    const char *runtime_path;
    /* warmpool-init. NULL: beside the running program. */
    const char *init_path;
    const char *bwrap_path; /* NULL: bwrap from PATH. */
    const char *runsc_path; /* NULL: runsc from PATH. */
    /* A daemon that is root runs sandbox n as host user uid_first + n; none of
     * them may be in a range of /etc/subuid or /etc/subgid. */
    uint32_t uid_first;        /* 1900000000 */
    uint32_t sandboxes_max;    /* 4096; more creates: RESOURCE_EXHAUSTED. */
    uint32_t spawns_max;       /* 0: two for each core. Starting at once. */
    uint32_t probe_every_ms;   /* 5000; 0: only exits are noticed. */
    uint32_t probe_timeout_ms; /* 2000 */
    uint32_t probe_failures;   /* 3 in a row: reported as lost. */
    uint32_t stop_grace_ms;    /* 0: SIGKILL at once; else SIGTERM first. */
    /* A template whose memory or cpu limit cannot be enforced here is: false,
     * the default, refused; true, run without it. */
    bool best_effort;
    /* The control group below which theirs are made, version 2, from its root:
     * "/system.slice/x.service". "", the default: the daemon's. */
    const char *cgroup;
    /* Of a template without such a limit; where it cannot be enforced, it is
     * not. 0, the default: none. */
    uint64_t memory_default;
    uint32_t cpu_milli_default;
    uint32_t pids_max;        /* 512 processes and threads in a sandbox. */
    uint32_t connections_max; /* 64 through one bridge at once; more wait. */
    /* For emptyDir, /workspace and /tmp without a size of their own, when the
     * template has no memory limit either. 256 MiB. */
    uint64_t tmpfs_bytes;
    /* warmpool-egress. NULL: sandboxes that may reach something are refused. */
    const char *egress_path;
    const char *egress_packages;     /* "": what a policy's `packages` means. */
    const char *egress_keys_file;    /* NULL: no keys. */
    uint32_t egress_connections_max; /* 256 of one sandbox at once. */
    uint64_t egress_bytes_max; /* 0: as much as a sandbox likes, in its life. */
    /* Where volumes are, as local/volumes/volumes.h has them; NULL: claims that
     * bring some are refused. */
    const char *volumes_dir;
    uint32_t volumes_max; /* 64, of one tenant. */
    /* Repositories that claims may bring; rules as pool/remotes/remote_rules.h
     * has them. */
    const char *remotes;        /* "": none. */
    const char *remotes_denied; /* "" */
    /* warmpool-fetch. NULL: claims that bring repositories are refused. */
    const char *fetch_path;
    /* local/trust/trust.h; records lie in the state directory. */
    enum wp_trust_mode trust;      /* OFF */
    const char *trust_files;       /* A list of paths. */
    uint64_t repository_bytes_max; /* 128 MiB, of one in a sandbox. */
    uint64_t cache_bytes_max;      /* 512 MiB of all that were brought. */
    int64_t cache_age_s;           /* A week without use. */
    int64_t fetch_timeout_ms;      /* 60 000 */
    bool log_json;                 /* The proxy's lines are as the daemon's. */
    mode_t socket_mode;            /* 0600 */
    uid_t socket_uid;              /* (uid_t)-1: the daemon's. */
    gid_t socket_gid;              /* (gid_t)-1: the daemon's. */
    /* When the daemon dies by surprise: false, its sandboxes die with it; true,
     * those that had become ready live on and serve, and the next daemon on the
     * state directory adopts or destroys them. */
    bool outlive;
    /* false, the default: create runs a trial sandbox. true: the caller does so
     * later, by wp_local_probe, as who has living sandboxes to take up. */
    bool untried;
    /* A lock from wp_local_lock_wait; wp_local_create takes it, also when it
     * fails. -1, the default: it locks the state directory itself. */
    int lock_fd;
    const struct wp_template *templates;
    size_t templates_len;
};

void wp_local_config_init(struct wp_local_config *config);
/* How many start at once when spawns_max says so. */
uint32_t wp_local_spawns(uint32_t spawns_max);

/* A sandbox of an earlier daemon that had become ready, whose processes live
 * and whose socket is there. Borrowed for the call. */
struct wp_local_found {
    const uint8_t *uid; /* WP_UID_LEN, as ordered; so are the texts. */
    struct wp_str pool_namespace;
    struct wp_str pool;
    struct wp_str template_name;
    struct wp_str name;
    struct wp_str endpoint; /* As on_ready reported it, and still good. */
    struct wp_str egress;   /* The policy that it was made with. */
    /* False: its template is gone, or says something else now. Who holds the
     * sandbox can keep it; a new claim should get a newer one. */
    bool template_current;
};

/* Called from the backend's thread, adopt excepted; must not block. They fit
 * wp_pools_on_*. */
struct wp_local_events {
    void *ctx;
    void (*on_ready)(void *ctx, struct wp_slot_ref ref, struct wp_str endpoint);
    void (*on_lost)(void *ctx, struct wp_slot_ref ref, struct wp_str reason);
    void (*on_destroyed)(void *ctx, struct wp_slot_ref ref);
    /* Is this sandbox still wanted? Called by wp_local_start, from its thread,
     * before anything is reported. True, with *ref set to a name that no other
     * sandbox has: it is supervised under it as if it had been ordered and
     * reported ready here; on_ready does not come again. False: it is destroyed
     * before wp_local_start returns, without a report. NULL: all are. */
    bool (*adopt)(void *ctx, const struct wp_local_found *found,
                  struct wp_slot_ref *ref);
    /* It has its turn and begins to start; NULL: nobody wants to know. */
    void (*on_started)(void *ctx, struct wp_slot_ref ref);
    /* An identity for that sandbox, which is leased; one that was taken over
     * may need its next one at once. Not WP_OK, and err: there is none. */
    enum wp_status (*sign)(void *ctx, struct wp_str sandbox,
                           struct wp_str audience, int64_t ttl_ms,
                           char token[WP_IDENTITY_TOKEN_MAX + 1],
                           int64_t *expires_wall_ms, struct wp_err *err);
    /* A leased sandbox was used since the last look, and its lease is one that
     * use prolongs, by ttl_ns. NULL: nobody wants to know. */
    void (*on_used)(void *ctx, struct wp_slot_ref ref, int64_t ttl_ns);
};

/* What was found, and kept or removed, at start. */
struct wp_local_sweep {
    uint32_t adopted;
    uint32_t sandboxes; /* Directories of an earlier daemon, removed. */
    uint32_t killed;    /* Of them, still alive. */
    uint32_t cgroups;   /* Groups without a directory. */
    uint32_t failed;    /* Could not be removed; the log says why. */
};

struct wp_local; /* Opaque. */

/* Can this machine make sandboxes? Runs one to see. Not WP_OK: it cannot, and
 * err says what is missing; report holds what was found until then. */
WP_MUST_CHECK enum wp_status
wp_local_probe(const struct wp_local_config *config,
               struct wp_host_report *report, struct wp_err *err);

/* Makes the state directory if need be and waits until its lock is free: until
 * the daemon that has it is gone, however it ended. WP_OK: *lock_fd is for
 * wp_local_config.lock_fd, or to be closed, which frees the lock. CANCELLED:
 * stop_fd became readable first (an eventfd, say; -1: nothing ends the wait).
 * Any thread; blocks. */
WP_MUST_CHECK enum wp_status wp_local_lock_wait(const char *state_dir,
                                                int stop_fd, int *lock_fd,
                                                struct wp_err *err);

/* Checks the configuration and every template, takes the lock of the state
 * directory and prepares roots. NULL and err: a template names a missing image,
 * a runtime class that cannot run, another daemon has the directory
 * (FAILED_PRECONDITION), ... */
WP_MUST_CHECK struct wp_local *
wp_local_create(const struct wp_local_config *config, struct wp_err *err);

/* What the machine allows, with the notes to log once. Lives as long as local.
 */
const struct wp_host_report *wp_local_report(const struct wp_local *local);

/* Adds a template, or puts it in the place of the one of its name: for orders
 * from here on. Sandboxes that are there keep the one they were made from. tmpl
 * is borrowed until wp_local_destroy. Refused as by wp_local_create, and then
 * the earlier one stays; RESOURCE_EXHAUSTED: too many were added. Any thread,
 * one at a time; blocks. */
WP_MUST_CHECK enum wp_status
wp_local_add_template(struct wp_local *local, const struct wp_template *tmpl,
                      struct wp_err *err);

/* What a new sandbox of that name would be made from, as wp_template_hash has
 * it; 0: there is no such template. Any thread. */
uint64_t wp_local_template_hash(const struct wp_local *local,
                                struct wp_str template_namespace,
                                struct wp_str name);

/* Adopts or sweeps what an earlier daemon left, then starts the thread. Once.
 * sweep may be NULL. RESOURCE_EXHAUSTED: descriptors or memory do not suffice
 * for adopting what is there; it was left as it is. */
WP_MUST_CHECK enum wp_status
wp_local_start(struct wp_local *local, const struct wp_local_events *events,
               struct wp_local_sweep *sweep, struct wp_err *err);

/* Valid until wp_local_stop. */
struct wp_backend wp_local_backend(struct wp_local *local);

struct wp_local_stats {
    uint32_t queued;   /* Waiting for their turn to start. */
    uint32_t starting; /* Started, not ready. */
    uint32_t ready;
    uint32_t dying;
    uint32_t frozen; /* Of the ready ones. */
    uint64_t frozen_total;
    uint64_t spawned_total;
    uint64_t lost_total;
};
/* Any thread. */
void wp_local_stats(const struct wp_local *local, struct wp_local_stats *out);

/* Destroys every sandbox (reporting each end) and ends the thread. Waits at
 * most timeout_ns for sandboxes to be gone; what is then left, the next start
 * sweeps. No create may be in flight. Idempotent. Returns how many were left.
 */
uint32_t wp_local_stop(struct wp_local *local, int64_t timeout_ns);
/* The same for a planned restart: sandboxes that had become ready are left
 * running, unreported, for the next daemon to adopt; the count is of the
 * others. They must have been started with `outlive`: else it is
 * wp_local_stop. */
uint32_t wp_local_leave(struct wp_local *local, int64_t timeout_ns);
void wp_local_destroy(struct wp_local *local); /* Stopped or never started. */

#endif
