#include "local/sandbox/fetch_process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/sandbox/fetch_walls.h"
#include "local/sandbox/spawn.h"
#include "local/walls/rootfs.h"
#include "proto/checkout/fetch_message.h"
#include "proto/checkout/fetch_report.h"

enum {
    PATH_BYTES = 1024,
    COUNT_TEXT = 24,
    SECCOMP_FD = WP_FETCH_CREDENTIAL_FD + 1,
};

/* Made if need be; it is the fetching user's. */
static enum wp_status
make_part(const struct wp_fetch_process *self, const char *name,
          char out[PATH_BYTES], struct wp_err *err)
{
    int top =
        open(self->cache_dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int fd = -1;
    bool ok;

    (void)snprintf(out, PATH_BYTES, "%s/%s", self->cache_dir, name);
    ok = top >= 0 && (mkdirat(top, name, 0700) == 0 || errno == EEXIST);
    if (ok) {
        fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        ok = fd >= 0 && (!self->drop || fchown(fd, self->uid, self->uid) == 0);
    }
    if (!ok) {
        (void)wp_err_sys(err, WP_UNAVAILABLE, errno, "the cache %s", out);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (top >= 0) {
        (void)close(top);
    }
    return ok ? WP_OK : WP_UNAVAILABLE;
}

static void
drop(void *ctx, const char *part)
{
    const struct wp_fetch_process *self = ctx;
    char path[PATH_BYTES];

    (void)snprintf(path, sizeof path, "%s/%s", self->cache_dir, part);
    (void)rmdir(path); /* Unless there is something in it. */
}

static bool
open_fds(const struct wp_fetch_process *self, struct wp_str credential,
         struct wp_spawn *spawn, int *report)
{
    int pair[2];

    for (int i = 0; i < WP_SPAWN_FDS_MAX; i++) {
        spawn->fds[i] = -1;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        return false;
    }
    *report = pair[0];
    spawn->fds[WP_FETCH_REPORT_FD] = wp_spawn_fd(pair[1]);
    spawn->fds[0] = wp_spawn_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
    spawn->fds[1] = wp_spawn_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
    spawn->fds[2] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, WP_SPAWN_FD_FLOOR);
    spawn->fds[WP_FETCH_CREDENTIAL_FD] =
        wp_spawn_fd(wp_fetch_credential_pipe(credential));
    spawn->fds_len = WP_FETCH_CREDENTIAL_FD + 1;
    if (self->seccomp_path != NULL) {
        spawn->fds[SECCOMP_FD] =
            wp_spawn_fd(open(self->seccomp_path, O_RDONLY | O_CLOEXEC));
        spawn->fds_len = SECCOMP_FD + 1;
    }
    for (int i = 0; i < spawn->fds_len; i++) {
        if (spawn->fds[i] < 0) {
            return false;
        }
    }
    return true;
}

static enum wp_status
spawn_it(const struct wp_fetch_process *self, struct wp_str credential,
         const struct wp_fetch_args *args, struct wp_fetch_started *out,
         struct wp_err *err)
{
    char *argv[WP_FETCH_ARGS_MAX];
    char *const no_env[] = {NULL};
    struct wp_spawn spawn = {
        .path = self->bwrap_path,
        .argv = argv,
        .envp = no_env,
        .close_fd = *self->lock_fd,
        .drop = self->drop,
        .uid = self->uid,
        .gid = self->uid,
    };
    struct wp_spawned spawned = {.pidfd = -1};
    enum wp_status status;

    memcpy(argv, args->word, sizeof argv);
    *out = (struct wp_fetch_started){-1, -1};
    status = open_fds(self, credential, &spawn, &out->report_fd)
                 ? wp_spawn(&spawn, &spawned, err)
                 : wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno,
                              "no descriptors for a fetch");
    for (int i = 0; i < spawn.fds_len; i++) {
        if (spawn.fds[i] >= 0) {
            (void)close(spawn.fds[i]);
        }
    }
    out->end_fd = spawned.pidfd;
    return status;
}

static enum wp_status
start(void *ctx, const struct wp_fetch_run *run, struct wp_fetch_started *out,
      struct wp_err *err)
{
    const struct wp_fetch_process *self = ctx;
    struct wp_fetch_args args = {.n = 0};
    const char *cache = self->cache_dir;
    char part[PATH_BYTES];
    char bytes[COUNT_TEXT];
    char age[COUNT_TEXT];

    (void)snprintf(bytes, sizeof bytes, "%" PRIu64, run->bytes_max);
    (void)snprintf(age, sizeof age, "%" PRId64, run->age_s);
    if (run->part != NULL) {
        if (make_part(self, run->part, part, err) != WP_OK) {
            return err->status;
        }
        cache = part;
    }
    wp_fetch_walls(&args, self->path, cache,
                   self->seccomp_path != NULL ? SECCOMP_FD : -1);
    if (run->part != NULL) {
        wp_fetch_args_add(&args, "--", "/warmpool-fetch", "checkout");
        wp_fetch_args_add(&args, run->url, run->ref, bytes);
    } else {
        wp_fetch_args_add(&args, "--unshare-net", "--", "/warmpool-fetch");
        wp_fetch_args_add(&args, "sweep", bytes, age);
    }
    return spawn_it(self, run->credential, &args, out, err);
}

static bool
has_ended(void *ctx, int pidfd)
{
    siginfo_t info = {.si_code = 0};

    (void)ctx;
    return waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG) == 0 &&
           info.si_pid != 0;
}

static void
kill_it(void *ctx, int pidfd)
{
    (void)ctx;
    (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
}

static void
wait_for(void *ctx, int pidfd)
{
    siginfo_t info;

    (void)ctx;
    (void)waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED);
}

enum wp_status
wp_fetch_process_init(struct wp_fetch_process *self,
                      struct wp_fetch_runner *out, struct wp_err *err)
{
    uid_t owner = self->drop ? self->uid : geteuid();
    enum wp_status status = WP_OK;
    struct stat st;

    *out = (struct wp_fetch_runner){
        .start = start,
        .has_ended = has_ended,
        .kill = kill_it,
        .wait = wait_for,
        .drop = drop,
        .self = self,
    };
    /* Of another setting sandbox_uid_first: nobody could write there. */
    if (lstat(self->cache_dir, &st) == 0 &&
        (!S_ISDIR(st.st_mode) || st.st_uid != owner)) {
        status = wp_dir_remove(self->cache_dir, err);
    }
    if (status == WP_OK) {
        status = wp_dir_make(self->cache_dir, 0700, err);
    }
    if (status == WP_OK && self->drop &&
        chown(self->cache_dir, self->uid, self->uid) != 0) {
        status = wp_err_sys(err, WP_UNAVAILABLE, errno, "the cache %s",
                            self->cache_dir);
    }
    return status;
}
