/* local/sandbox/adopt.c - sandboxes that outlived their daemon.
 *
 * What supervises a sandbox is held by descriptors: a pidfd for each of its two
 * processes, and a channel to its init. None of these needs kinship, so the
 * next daemon opens them again, and is then as good a supervisor as the first,
 * but for one thing: how bwrap ended is told to its parent only. The record
 * says which processes; their start times say that they are still the same.
 * That init lives is seen from its taking a connection; whether the program
 * answers is left to the liveness probes, which begin at once, so that a
 * thousand sandboxes are adopted in the time of a few thousand system calls.
 * Runs in wp_local_start, before the thread. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "local/sandbox/local_impl.h"
#include "pool/base/assert.h"
#include "pool/base/file.h"
#include "pool/base/log.h"

enum {
    SCHEME_LEN = sizeof "unix:" - 1,
};

enum outcome {
    ADOPTED,
    ORPHAN,  /* Dead, broken or not wanted: to be removed. */
    UNKNOWN, /* What it is cannot be found out: to be left alone. */
};

struct adoption {
    struct wp_local *local;
    bool *users_taken; /* sandboxes_max of them. */
    uint32_t *roots;   /* In use; roots_len of them. */
    uint32_t roots_len;
    uint32_t roots_cap;
};

/* --- One sandbox --- */

/* The endpoint is compared, since whoever holds the sandbox was told it: below
 * another path (a state directory that was moved) it is of no use. */
static bool
can_be_adopted(const struct wp_local *local, const char *name,
               const struct wp_record *record)
{
    char endpoint[WP_ENDPOINT_MAX + 1];
    struct stat st;

    return record->version == WP_RECORD_VERSION && record->ready &&
           record->boot_id[0] != '\0' &&
           strcmp(record->boot_id, local->boot_id) == 0 &&
           strcmp(record->name, name) == 0 &&
           wp_local_endpoint(local, wp_str_from(name), endpoint) &&
           strcmp(record->endpoint, endpoint) == 0 &&
           lstat(endpoint + SCHEME_LEN, &st) == 0 && S_ISSOCK(st.st_mode);
}

static bool
connect_init(struct wp_sandbox *sandbox)
{
    struct sockaddr_un address;

    if (!wp_sandbox_control_path(sandbox, &address)) {
        errno = ENAMETOOLONG;
        return false;
    }
    sandbox->control_fd =
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return sandbox->control_fd >= 0 &&
           connect(sandbox->control_fd, (struct sockaddr *)&address,
                   sizeof address) == 0;
}

/* A sandbox has a user of its own, unless the daemon was not root. False: it is
 * another one's. */
static bool
reserve_user(const struct adoption *adoption, const struct wp_record *record,
             uint32_t *user)
{
    const struct wp_local *local = adoption->local;
    uint32_t first = local->config.uid_first;

    *user = UINT32_MAX;
    if (!local->host.own_uids || record->host_uid < first ||
        record->host_uid - first >= local->config.sandboxes_max) {
        return true;
    }
    *user = record->host_uid - first;
    return !adoption->users_taken[*user];
}

static void
find_group(struct wp_sandbox *sandbox)
{
    const struct wp_local *local = sandbox->local;

    sandbox->has_group = wp_cgroup_exists(&local->cgroups, sandbox->name);
    for (uint32_t i = 0; i < local->old_cgroups_len && !sandbox->has_group;
         i++) {
        if (wp_cgroup_exists(&local->old_cgroups[i], sandbox->name)) {
            sandbox->groups = &local->old_cgroups[i];
            sandbox->has_group = true;
        }
    }
}

static bool
is_wanted(const struct wp_local *local, const struct wp_record *record,
          struct wp_slot_ref *ref)
{
    const struct wp_local_template *tmpl =
        wp_local_find_template(local, wp_str_from(record->pool_namespace),
                               wp_str_from(record->template_name));
    const struct wp_local_found found = {
        .uid = record->uid,
        .pool_namespace = wp_str_from(record->pool_namespace),
        .pool = wp_str_from(record->pool),
        .template_name = wp_str_from(record->template_name),
        .name = wp_str_from(record->name),
        .endpoint = wp_str_from(record->endpoint),
        .egress = wp_str_from(record->egress),
        /* What a claim has made its own is for no other claim. */
        .template_current =
            tmpl != NULL && tmpl->hash == record->template_hash &&
            record->narrowed[0] == '\0' && record->audience[0] == '\0' &&
            record->volumes[0] == '\0',
    };

    return local->events.adopt(local->events.ctx, &found, ref);
}

static void
discard(struct wp_sandbox *sandbox)
{
    const int fds[] = {sandbox->outer_fd, sandbox->inner_fd,
                       sandbox->control_fd};

    for (size_t i = 0; i < WP_ARRAY_LEN(fds); i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
    free(sandbox);
}

/* Before it is asked for: once it is wanted, nothing may stand in the way. */
static bool
make_room(struct adoption *adoption)
{
    uint32_t cap = adoption->roots_cap * 2 + 8;
    uint32_t *grown;

    if (adoption->roots_len < adoption->roots_cap) {
        return true;
    }
    grown = realloc(adoption->roots, cap * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    adoption->roots = grown;
    adoption->roots_cap = cap;
    return true;
}

static void
keep_roots(struct adoption *adoption, uint32_t roots)
{
    for (uint32_t i = 0; i < adoption->roots_len; i++) {
        if (adoption->roots[i] == roots) {
            return;
        }
    }
    adoption->roots[adoption->roots_len++] = roots;
}

/* Why a step failed, by errno: a daemon that lacks something must not take that
 * for the sandbox's end. */
static enum outcome
judge(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM ||
                   error == ENOBUFS
               ? UNKNOWN
               : ORPHAN;
}

static enum outcome
give_up(struct wp_sandbox *sandbox)
{
    int error = errno;

    discard(sandbox);
    errno = error;
    return judge(error);
}

/* errno says why, when it is UNKNOWN. */
static enum outcome
try_adopt(struct adoption *adoption, const char *name)
{
    struct wp_local *local = adoption->local;
    struct wp_sandbox *sandbox;
    struct wp_record record;
    char dir[WP_LOCAL_PATH_MAX];

    if (snprintf(dir, sizeof dir, "%s/%s", local->sandboxes_dir, name) >=
        (int)sizeof dir) {
        return ORPHAN;
    }
    if (!wp_record_read(dir, &record)) {
        return judge(errno);
    }
    if (!can_be_adopted(local, name, &record)) {
        return ORPHAN;
    }
    sandbox = wp_sandbox_make(local);
    if (sandbox == NULL || !make_room(adoption)) {
        free(sandbox);
        errno = ENOMEM;
        return UNKNOWN;
    }
    memcpy(sandbox->name, record.name, sizeof sandbox->name);
    sandbox->inner_fd = wp_process_open(record.inner_pid, record.inner_start);
    if (sandbox->inner_fd < 0) {
        return give_up(sandbox);
    }
    sandbox->outer_fd = wp_process_open(record.outer_pid, record.outer_start);
    if (sandbox->outer_fd < 0 || !connect_init(sandbox)) {
        return give_up(sandbox);
    }
    if (!reserve_user(adoption, &record, &sandbox->host_user) ||
        !is_wanted(local, &record, &sandbox->ref)) {
        discard(sandbox);
        return ORPHAN;
    }
    keep_roots(adoption, record.roots);
    if (sandbox->host_user != UINT32_MAX) {
        adoption->users_taken[sandbox->host_user] = true;
    }
    memcpy(sandbox->pool, record.pool, sizeof sandbox->pool);
    memcpy(sandbox->uid, record.uid, sizeof sandbox->uid);
    memcpy(sandbox->egress, record.egress, sizeof sandbox->egress);
    memcpy(sandbox->narrowed, record.narrowed, sizeof sandbox->narrowed);
    memcpy(sandbox->audience, record.audience, sizeof sandbox->audience);
    memcpy(sandbox->volumes, record.volumes, sizeof sandbox->volumes);
    sandbox->identity_ttl_ms = (int64_t)record.identity_ttl_ms;
    wp_hex_encode(record.uid, WP_UID_LEN, sandbox->uid_hex);
    memcpy(sandbox->socket_path, record.endpoint + SCHEME_LEN,
           sizeof record.endpoint - SCHEME_LEN);
    sandbox->outer_pid = record.outer_pid;
    sandbox->inner_pid = record.inner_pid;
    sandbox->adopted = true;
    sandbox->outlives = true;
    sandbox->has_dir = true;
    sandbox->ordered_ns = wp_clock_mono_ns(wp_clock_system());
    find_group(sandbox);
    /* It may be frozen; nobody would see what comes to its socket. */
    (void)!wp_cgroup_freeze(sandbox->groups, sandbox->name, false);
    wp_sandbox_index(sandbox);
    wp_sandbox_adopt(sandbox);
    return ADOPTED;
}

/* --- All --- */

/* The users that no adopted sandbox has, the first on top. */
static void
free_other_users(struct adoption *adoption)
{
    struct wp_local *local = adoption->local;

    local->free_users_len = 0;
    for (uint32_t i = local->config.sandboxes_max; i > 0; i--) {
        if (!adoption->users_taken[i - 1]) {
            local->free_users[local->free_users_len++] = i - 1;
        }
    }
}

/* Prepared roots that no living sandbox has. */
static void
remove_roots(const struct adoption *adoption)
{
    const struct wp_local *local = adoption->local;
    char path[2 * WP_LOCAL_PATH_MAX];
    const struct dirent *entry;
    struct wp_err err;
    DIR *dir;

    (void)snprintf(path, sizeof path, "%s/roots", local->state_dir);
    dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        bool used = entry->d_name[0] == '.';
        uint64_t number;

        if (wp_str_to_u64(wp_str_from(entry->d_name), &number)) {
            used |= number == local->roots;
            for (uint32_t i = 0; i < adoption->roots_len && !used; i++) {
                used = number == adoption->roots[i];
            }
        }
        (void)snprintf(path, sizeof path, "%s/roots/%s", local->state_dir,
                       entry->d_name);
        if (!used && wp_dir_remove(path, &err) != WP_OK) {
            wp_log_error("old roots not removed", wp_kv_err(&err));
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

/* Of those that no adopted sandbox is in. The others keep their places: the
 * sandboxes point at them. */
static void
close_old_groups(struct wp_local *local)
{
    for (uint32_t i = 0; i < local->old_cgroups_len; i++) {
        bool used = false;

        for (struct wp_list *node = local->live.next;
             node != &local->live && !used; node = node->next) {
            used = WP_CONTAINER_OF(node, struct wp_sandbox, node)->groups ==
                   &local->old_cgroups[i];
        }
        if (!used) {
            wp_cgroups_close(&local->old_cgroups[i]);
        }
    }
}

/* Adopts or sweeps all there is, up to the first that it cannot judge. */
static enum wp_status
take_all(struct adoption *adoption, struct wp_sweep *sweep, uint32_t *adopted,
         struct wp_err *err)
{
    const struct wp_local *local = adoption->local;
    DIR *dir = opendir(local->sandboxes_dir);
    const struct dirent *entry;
    enum wp_status status = WP_OK;

    while (dir != NULL && status == WP_OK &&
           (entry = wp_folder_next(dir)) != NULL) {
        enum outcome outcome = ORPHAN;

        if (entry->d_name[0] == '.') {
            continue;
        }
        if (local->events.adopt != NULL) {
            outcome = try_adopt(adoption, entry->d_name);
        }
        if (outcome == ADOPTED) {
            ++*adopted;
        } else if (outcome == ORPHAN) {
            wp_sweep_add(sweep, entry->d_name);
        } else {
            status = wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno,
                                "sandbox %.63s cannot be adopted, and is left",
                                entry->d_name);
        }
    }
    if (status == WP_OK && errno != 0) {
        status = wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot read %s",
                            local->sandboxes_dir);
    }
    wp_folder_close(dir);
    return status;
}

enum wp_status
wp_local_take_over(struct wp_local *local, struct wp_local_sweep *counts,
                   struct wp_err *err)
{
    struct adoption adoption = {
        .local = local,
        .users_taken = calloc(local->config.sandboxes_max, sizeof(bool)),
    };
    int64_t began_ns = wp_clock_mono_ns(wp_clock_system());
    struct wp_sweep *sweep = wp_sweep_create(local, counts);
    enum wp_status status;

    if (adoption.users_taken == NULL || sweep == NULL) {
        free(adoption.users_taken);
        free(sweep);
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    status = take_all(&adoption, sweep, &counts->adopted, err);
    wp_sweep_finish(sweep);
    if (status == WP_OK) {
        free_other_users(&adoption);
        remove_roots(&adoption);
        close_old_groups(local);
    }
    free(adoption.users_taken);
    free(adoption.roots);
    if (counts->adopted + counts->sandboxes + counts->cgroups > 0) {
        wp_log_info(
            "took over what an earlier daemon left",
            wp_kv_int("adopted", counts->adopted),
            wp_kv_int("swept", counts->sandboxes),
            wp_kv_int("killed", counts->killed),
            wp_kv_int("cgroups", counts->cgroups),
            wp_kv_int("failed", counts->failed),
            wp_kv_ms("in", wp_clock_mono_ns(wp_clock_system()) - began_ns));
    }
    return status;
}
