#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "local/egress_env.h"
#include "local/sandbox/extras.h"
#include "local/sandbox/gvisor.h"
#include "local/sandbox/spawn.h"
#include "pool/base/assert.h"

enum {
    BACKLOG = 128,
    REJOIN_BACKLOG = 16, /* Daemons that came and went while init was busy. */
    /* As bwrap_args.c names them. */
    AT_LISTEN = 3,
    AT_CONTROL = 4,
    AT_INPUT = 5,
    AT_OPTIONS = 6,
    AT_REJOIN = 7,
};

/* False when the path is too long. */
static bool
sandbox_dir(const struct wp_sandbox *sandbox, char out[WP_LOCAL_PATH_MAX])
{
    return snprintf(out, WP_LOCAL_PATH_MAX, "%s/%s",
                    sandbox->local->sandboxes_dir,
                    sandbox->name) < WP_LOCAL_PATH_MAX;
}

bool
wp_sandbox_control_path(const struct wp_sandbox *sandbox,
                        struct sockaddr_un *out)
{
    int n;

    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    n = snprintf(out->sun_path, sizeof out->sun_path, "%s/%s/control.sock",
                 sandbox->local->sandboxes_dir, sandbox->name);
    return n > 0 && n < (int)sizeof out->sun_path;
}

static enum wp_status
make_dir(struct wp_sandbox *sandbox, struct wp_err *err)
{
    char dir[WP_LOCAL_PATH_MAX];

    if (!sandbox_dir(sandbox, dir)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "state path is too long");
    }
    /* Names are unique: what is there already is another sandbox's. */
    if (mkdir(dir, 0711) != 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot make %s", dir);
    }
    sandbox->has_dir = true;
    if (chmod(dir, 0711) != 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot prepare %s", dir);
    }
    return WP_OK;
}

/* The endpoint: bound outside, accepted on inside. */
static enum wp_status
make_socket(struct wp_sandbox *sandbox, int *out, struct wp_err *err)
{
    const struct wp_local_config *config = &sandbox->local->config;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = wp_spawn_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));

    WP_ASSERT(strlen(sandbox->socket_path) < sizeof address.sun_path);
    memcpy(address.sun_path, sandbox->socket_path,
           strlen(sandbox->socket_path) + 1);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        chmod(sandbox->socket_path, config->socket_mode) != 0 ||
        ((config->socket_uid != (uid_t)-1 || config->socket_gid != (gid_t)-1) &&
         chown(sandbox->socket_path, config->socket_uid, config->socket_gid) !=
             0) ||
        listen(fd, BACKLOG) != 0) {
        enum wp_status status =
            wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot make socket %s",
                       sandbox->socket_path);

        if (fd >= 0) {
            (void)close(fd);
        }
        return status;
    }
    *out = fd;
    return WP_OK;
}

/* Where the next daemon finds init: nobody else may connect. */
static enum wp_status
make_rejoin(struct wp_sandbox *sandbox, int *out, struct wp_err *err)
{
    struct sockaddr_un address;

    if (!wp_sandbox_control_path(sandbox, &address)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "state path is too long");
    }
    *out = wp_spawn_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (*out < 0 ||
        bind(*out, (struct sockaddr *)&address, sizeof address) != 0 ||
        chmod(address.sun_path, 0600) != 0 ||
        listen(*out, REJOIN_BACKLOG) != 0) {
        return wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot make socket %s",
                          address.sun_path);
    }
    return WP_OK;
}

/* Ours to sandbox->control_fd and stderr_fd, theirs to the array. */
static enum wp_status
make_pipes(struct wp_sandbox *sandbox, int *control, int *errors,
           struct wp_err *err)
{
    int pair[2];
    int pipes[2];
    int one = 1;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno, "no descriptors");
    }
    sandbox->control_fd = pair[0];
    *control = wp_spawn_fd(pair[1]);
    if (pipe2(pipes, O_CLOEXEC) != 0) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno, "no descriptors");
    }
    sandbox->stderr_fd = pipes[0];
    *errors = wp_spawn_fd(pipes[1]);
    /* With credentials, since the hello names the inner process. Only our ends
     * must not block: theirs is init's own choice. */
    if (*control < 0 || *errors < 0 ||
        fcntl(pair[0], F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(pipes[0], F_SETFL, O_NONBLOCK) != 0 ||
        setsockopt(pair[0], SOL_SOCKET, SO_PASSCRED, &one, sizeof one) != 0) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno, "no descriptors");
    }
    return WP_OK;
}

static enum wp_status
make_group(struct wp_sandbox *sandbox, struct wp_spawn *spawn,
           struct wp_err *err)
{
    const struct wp_cgroups *groups = sandbox->groups;
    enum wp_status status;
    int n;

    if (groups->kind == WP_CGROUP_NONE) {
        return WP_OK;
    }
    status = wp_cgroup_make(groups, sandbox->name, &sandbox->tmpl->limits, err);
    if (status != WP_OK) {
        return status;
    }
    sandbox->has_group = true;
    n = wp_cgroup_open_procs(groups, sandbox->name, spawn->procs_fds);
    if (n < 0) {
        return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno,
                          "cannot open the control group of %s", sandbox->name);
    }
    spawn->procs_len = n;
    spawn->group_fd = wp_cgroup_open_dir(groups, sandbox->name);
    return WP_OK;
}

static enum wp_status
open_inputs(struct wp_sandbox *sandbox, struct wp_spawn *spawn,
            struct wp_err *err)
{
    const struct wp_local *local = sandbox->local;
    int *fds = spawn->fds;
    enum wp_status status = make_socket(sandbox, &fds[AT_LISTEN], err);

    if (status == WP_OK) {
        status =
            make_pipes(sandbox, &fds[AT_CONTROL], &fds[STDERR_FILENO], err);
    }
    if (status != WP_OK) {
        return status;
    }
    fds[0] = wp_spawn_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
    fds[1] =
        fds[0] < 0 ? -1 : fcntl(fds[0], F_DUPFD_CLOEXEC, WP_SPAWN_FD_FLOOR);
    /* Opened anew for each, since bwrap reads it from the current offset. */
    fds[AT_INPUT] =
        wp_spawn_fd(sandbox->tmpl->gvisor != NULL
                        ? wp_gvisor_config_open(sandbox->tmpl, sandbox->name,
                                                sandbox->uid_hex,
                                                sandbox->egress[0] != '\0')
                        : open(local->seccomp_path, O_RDONLY | O_CLOEXEC));
    spawn->fds_len = AT_OPTIONS + 1;
    if (local->config.outlive) {
        status = make_rejoin(sandbox, &fds[AT_REJOIN], err);
        if (status != WP_OK) {
            return status;
        }
        spawn->fds_len = AT_REJOIN + 1;
    }
    return wp_extras_open(local, sandbox->tmpl, fds, &spawn->fds_len)
               ? WP_OK
               : wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno,
                            "no descriptors or memory for its files");
}

static enum wp_status
check_inputs(const struct wp_spawn *spawn, struct wp_err *err)
{
    for (int i = 0; i < spawn->fds_len; i++) {
        if (spawn->fds[i] < 0) {
            return wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno,
                              "no descriptors");
        }
    }
    return WP_OK;
}

static enum wp_status
run(struct wp_sandbox *sandbox, struct wp_spawn *spawn, struct wp_err *err)
{
    const struct wp_local *local = sandbox->local;
    const struct wp_local_template *tmpl = sandbox->tmpl;
    char *const no_env[] = {NULL};
    char **argv = malloc((tmpl->argc + 1) * sizeof *argv);
    char egress[8];
    struct wp_spawned spawned;
    enum wp_status status;

    if (argv == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    memcpy(argv, tmpl->argv, tmpl->argc * sizeof *argv);
    argv[tmpl->argc] = NULL;
    argv[tmpl->at_hostname] = sandbox->name;
    argv[tmpl->at_name] = sandbox->name;
    argv[tmpl->at_uid] = sandbox->uid_hex;
    (void)snprintf(egress, sizeof egress, "%d",
                   sandbox->egress[0] != '\0' ? WP_EGRESS_PROXY_PORT : 0);
    argv[tmpl->at_egress] = egress;
    spawn->fds[AT_OPTIONS] =
        wp_spawn_fd(wp_bwrap_options_open(argv, tmpl->at_command));
    status = check_inputs(spawn, err);
    if (status != WP_OK) {
        free(argv);
        return status;
    }
    spawn->path = local->host.bwrap_path;
    spawn->argv = argv + tmpl->at_command;
    spawn->envp = no_env;
    spawn->drop = local->host.own_uids;
    spawn->uid = local->config.uid_first + sandbox->host_user;
    spawn->gid = spawn->uid;
    status = wp_spawn(spawn, &spawned, err);
    free(argv);
    if (status == WP_OK) {
        sandbox->outer_pid = spawned.pid;
        sandbox->outer_start = wp_process_start_time(spawned.pid);
        sandbox->outer_fd = spawned.pidfd;
    }
    return status;
}

enum wp_status
wp_sandbox_spawn(struct wp_sandbox *sandbox, struct wp_err *err)
{
    struct wp_spawn spawn = {.close_fd = sandbox->local->lock_fd};
    enum wp_status status;

    for (int i = 0; i < WP_SPAWN_FDS_MAX; i++) {
        spawn.fds[i] = -1;
    }
    status = make_dir(sandbox, err);
    if (status == WP_OK) {
        status = open_inputs(sandbox, &spawn, err);
    }
    if (status == WP_OK) {
        status = make_group(sandbox, &spawn, err);
    }
    if (status == WP_OK) {
        status = run(sandbox, &spawn, err);
    }
    for (int i = 0; i < WP_SPAWN_FDS_MAX; i++) {
        if (spawn.fds[i] >= 0) {
            (void)close(spawn.fds[i]);
        }
    }
    for (int i = 0; i < spawn.procs_len; i++) {
        (void)close(spawn.procs_fds[i]);
    }
    if (spawn.group_fd > 0) {
        (void)close(spawn.group_fd);
    }
    return status;
}

enum wp_status
wp_sandbox_record(const struct wp_sandbox *sandbox, bool ready,
                  struct wp_err *err)
{
    const struct wp_local *local = sandbox->local;
    const struct wp_template *tmpl = sandbox->tmpl->tmpl;
    char dir[WP_LOCAL_PATH_MAX];
    struct wp_record record = {
        .version = WP_RECORD_VERSION,
        .outer_pid = sandbox->outer_pid,
        .outer_start = sandbox->outer_start,
        .inner_pid = sandbox->inner_pid,
        .inner_start = sandbox->inner_start,
        .template_hash = sandbox->tmpl->hash,
        .host_uid = local->host.own_uids
                        ? local->config.uid_first + sandbox->host_user
                        : UINT32_MAX,
        .roots = local->roots,
        .ready = ready,
    };

    memcpy(record.boot_id, local->boot_id, sizeof record.boot_id);
    memcpy(record.uid, sandbox->uid, sizeof record.uid);
    memcpy(record.pool_namespace, tmpl->template_namespace,
           sizeof record.pool_namespace);
    memcpy(record.pool, sandbox->pool, sizeof record.pool);
    memcpy(record.template_name, tmpl->name, sizeof record.template_name);
    memcpy(record.name, sandbox->name, sizeof record.name);
    memcpy(record.egress, sandbox->egress, sizeof record.egress);
    if (!sandbox_dir(sandbox, dir) ||
        !wp_local_endpoint(local, wp_str_from(sandbox->name),
                           record.endpoint)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT, "state path is too long");
    }
    return wp_record_write(dir, &record, err);
}

enum wp_status
wp_sandbox_record_claimed(const struct wp_sandbox *sandbox, struct wp_err *err)
{
    char dir[WP_LOCAL_PATH_MAX];
    struct wp_record claimed = {
        .identity_ttl_ms = (uint64_t)sandbox->identity_ttl_ms,
    };

    memcpy(claimed.narrowed, sandbox->narrowed, sizeof claimed.narrowed);
    memcpy(claimed.audience, sandbox->audience, sizeof claimed.audience);
    memcpy(claimed.volumes, sandbox->volumes, sizeof claimed.volumes);
    return sandbox_dir(sandbox, dir)
               ? wp_record_add_claimed(dir, &claimed, err)
               : wp_err_set(err, WP_INVALID_ARGUMENT, "state path is too long");
}

bool
wp_sandbox_undo(struct wp_sandbox *sandbox)
{
    char dir[WP_LOCAL_PATH_MAX];
    char path[WP_LOCAL_PATH_MAX + 16];
    struct sockaddr_un control;

    if (sandbox->has_group) {
        if (!wp_cgroup_remove(sandbox->groups, sandbox->name)) {
            return false;
        }
        sandbox->has_group = false;
    }
    if (sandbox->has_dir && sandbox_dir(sandbox, dir)) {
        (void)unlink(sandbox->socket_path);
        if (wp_sandbox_control_path(sandbox, &control)) {
            (void)unlink(control.sun_path);
        }
        (void)snprintf(path, sizeof path, "%s/record", dir);
        (void)unlink(path);
        if (rmdir(dir) != 0 && errno != ENOENT) {
            return false;
        }
        sandbox->has_dir = false;
    }
    return true;
}
