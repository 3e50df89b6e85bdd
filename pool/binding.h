/* pool/binding.h - what a claim brings for the sandbox that it gets.
 *
 * Only a granted sandbox is bound, once, and it is destroyed at the end of its
 * lease: nothing of a binding reaches another claim. A binding names itself by
 * its fingerprint, which is keyed: a record with it tells nothing of what was
 * bound. */
#ifndef WP_POOL_BINDING_H
#define WP_POOL_BINDING_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/list.h"
#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/limits.h"
#include "pool/slot_ref.h"

/* The annotation of a SandboxTemplate that says whether the program of its
 * sandboxes takes bindings: "allowed" or "none". Without it sandboxes on one
 * machine do, since warmpool-init is theirs, and those in a cluster do not. */
#define WP_TEMPLATE_BINDING_KEY "template.warmpool.io/binding"

/* Who has a password and names no user. */
#define WP_REPOSITORY_USER "x-access-token"

struct wp_claim;

struct wp_binding_env {
    struct wp_str name;
    struct wp_str value;
};

struct wp_binding_secret {
    struct wp_str name;
    struct wp_str value; /* Any bytes; without NUL when in_env. */
    bool in_env;         /* A variable as well as a file. */
};

struct wp_binding_file {
    struct wp_str path; /* Below the workspace; without ".." */
    struct wp_str content;
    uint32_t mode; /* 0001 to 0777. */
};

struct wp_binding_archive {
    struct wp_str dir; /* Below the workspace; empty: the workspace. */
    struct wp_str content;
};

struct wp_binding_repository {
    struct wp_str url;      /* As pool/remotes/remote.h reads it. */
    struct wp_str ref;      /* Empty: the remote's HEAD. */
    struct wp_str dir;      /* Below the workspace; empty: the workspace. */
    struct wp_str password; /* Of its remote; empty: none. */
    struct wp_str user;     /* With it; empty: WP_REPOSITORY_USER. */
};

struct wp_binding_volume {
    struct wp_str name; /* Among those of its tenant. */
    struct wp_str dir;  /* Below the workspace; empty: its name. */
};

/* Checked against limits.h. Nothing in it is terminated; all is borrowed. */
struct wp_binding {
    uint64_t fingerprint; /* Not 0. */
    const struct wp_binding_env *env;
    uint32_t n_env;
    const struct wp_binding_secret *secrets;
    uint32_t n_secrets;
    const struct wp_binding_file *files;
    uint32_t n_files;
    /* On the way to the daemon only: there their files are among `files`. */
    const struct wp_binding_archive *archives;
    uint32_t n_archives;
    /* There before the files are. */
    const struct wp_binding_repository *repositories;
    uint32_t n_repositories;
    /* There before all else is. */
    const struct wp_binding_volume *volumes;
    uint32_t n_volumes;
    struct wp_str working_dir;    /* Empty: the workspace. */
    const struct wp_str *command; /* To be started once all else is there. */
    uint32_t n_command;
    struct wp_str egress;    /* Narrows the pool's policy; empty: it stays. */
    struct wp_str audience;  /* Of a signed identity; empty: it gets none. */
    int64_t identity_ttl_ms; /* 0: the daemon's. */
};

/* What the backend is asked to bind. */
struct wp_bind_op {
    /* Request. */
    const struct wp_binding *binding; /* Borrowed for the call only. */
    struct wp_str tenant;             /* Whose claim it is; borrowed as well. */
    /* What its pool lets sandboxes reach, now; empty: it has no policy. The
     * same. */
    struct wp_str policy;
    struct wp_slot_ref ref;
    int64_t within_ns; /* DEADLINE_EXCEEDED after this. */
    void (*done)(struct wp_bind_op *op);

    /* Answer. */
    enum wp_status status;
    char reason[WP_BIND_REASON_MAX + 1]; /* Unless WP_OK: what was not bound. */

    /* Private to the backend. */
    struct wp_list node;
    void *owner;
    uint64_t fingerprint;
    int fd;
    void *trees;
    void *volumes;
    char egress[WP_EGRESS_TEXT_MAX + 1];
    char audience[WP_AUDIENCE_MAX + 1];
    int64_t identity_ttl_ms;
};

/* A granted claim on its way to its answer. The caller owns it, and keeps it
 * until it is answered. */
struct wp_bind {
    /* Request. */
    struct wp_claim *claim; /* Answered with WP_OK. */
    const struct wp_binding *binding;
    void (*done)(struct wp_bind *bind);
    void *ctx; /* The caller's. */

    /* Private to pool/. */
    struct wp_bind_op op;
};

#endif
