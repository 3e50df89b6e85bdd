#include "local/sandbox/fetcher.h"

#include <errno.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local/fetch_report.h"
#include "local/passing.h"
#include "local/sandbox/fetch_walls.h"
#include "local/sandbox/spawn.h"
#include "local/walls/rootfs.h"
#include "pool/base/assert.h"
#include "pool/base/list.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"
#include "pool/base/siphash.h"
#include "pool/limits.h"
#include "pool/remotes/remote.h"
#include "proto/loop/loop.h"

enum {
    RUNNING_MAX = 16,
    PATH_BYTES = 1024,
    PART_BYTES = WP_REMOTE_URL_MAX + 32,
    COUNT_TEXT = 24,
    SECCOMP_FD = WP_FETCH_CREDENTIAL_FD + 1,
    SWEEP_EVERY_MS = 3600 * 1000,
    SWEEP_TIMEOUT_MS = 600 * 1000,
};

/*   begin --> waiting --> running --> it has ended: done
 *                |           |
 *                '- cancel --+--> done is not called */
struct wp_fetch {
    struct wp_list node; /* In waiting or in running. */
    struct wp_fetcher *fetcher;
    wp_fetch_done *done; /* NULL: a sweep, or cancelled. */
    void *ctx;
    bool is_sweep;
    bool timed_out;
    int pidfd;
    int report_fd;
    struct event exit_event;
    struct event timer;
    char url[WP_REMOTE_URL_MAX + 1];
    char ref[WP_GIT_REF_MAX + 1];
    char part[PART_BYTES]; /* Of the cache: a file name. */
    /* User, NUL, password; wiped. */
    char credential[WP_BINDING_USER_MAX + WP_BINDING_PASSWORD_MAX + 2];
    size_t credential_len; /* 0: there is none. */
};

struct wp_fetcher {
    struct wp_fetcher_config config;
    struct wp_hash_key key; /* Names parts of the cache; of this process. */
    struct event_base *base;
    struct wp_list waiting;
    struct wp_list running;
    uint32_t running_len; /* Sweeps not counted. */
    bool sweeping;
    bool sweep_due; /* Again, once it has ended. */
    struct event sweep_timer;
};

static void start_next(struct wp_fetcher *fetcher);
static void sweep_now(struct wp_fetcher *fetcher);

/* --- Its process --- */

/* The repository's part of the cache: its URL as one part of a path, since '!'
 * is in none. What a password opened has parts of its own, whose names only
 * who has the password comes to. */
static void
name_part(struct wp_fetch *fetch, const char *tenant)
{
    const char *host = strstr(fetch->url, "://") + 3;
    bool tls = fetch->url[4] == 's';

    if (fetch->credential_len == 0) {
        (void)snprintf(fetch->part, PART_BYTES, "%s!%s", tls ? "s" : "p", host);
    } else {
        char whole[WP_TENANT_MAX + 1 + sizeof fetch->credential];
        size_t len = strlen(tenant) + 1;

        memcpy(whole, tenant, len);
        memcpy(whole + len, fetch->credential, fetch->credential_len);
        (void)snprintf(fetch->part, PART_BYTES, "%s%016" PRIx64 "!%s",
                       tls ? "s" : "p",
                       wp_siphash128(fetch->fetcher->key, whole,
                                     len + fetch->credential_len)
                           .low,
                       host);
        explicit_bzero(whole, sizeof whole);
    }
    for (char *c = fetch->part; *c != '\0'; c++) {
        if (*c == '/') {
            *c = '!';
        }
    }
}

/* Made if need be; it is the fetching user's. */
static enum wp_status
make_part(const struct wp_fetcher *fetcher, const struct wp_fetch *fetch,
          char out[PATH_BYTES], struct wp_err *err)
{
    const struct wp_fetcher_config *config = &fetcher->config;
    int top = open(config->cache_dir,
                   O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    const char *name = fetch->part;
    int fd = -1;
    bool ok;

    (void)snprintf(out, PATH_BYTES, "%s/%s", config->cache_dir, name);
    ok = top >= 0 && (mkdirat(top, name, 0700) == 0 || errno == EEXIST);
    if (ok) {
        fd = openat(top, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        ok = fd >= 0 &&
             (!config->drop || fchown(fd, config->uid, config->uid) == 0);
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

/* Of a repository that was not to be had; others may come by the thousand. What
 * is not empty stays. */
static void
drop_part(const struct wp_fetch *fetch)
{
    const struct wp_fetcher *fetcher = fetch->fetcher;
    struct wp_list *node;
    char path[PATH_BYTES];

    for (node = fetcher->running.next; node != &fetcher->running;
         node = node->next) {
        const struct wp_fetch *other =
            WP_CONTAINER_OF(node, struct wp_fetch, node);

        if (other != fetch && strcmp(other->part, fetch->part) == 0) {
            return; /* It is about to fill it. */
        }
    }
    (void)snprintf(path, sizeof path, "%s/%s", fetcher->config.cache_dir,
                   fetch->part);
    (void)rmdir(path);
}

/* All of it fits into the pipe, so nobody has to write later. -1: it cannot be
 * made. */
static int
open_credential(const struct wp_fetch *fetch)
{
    int ends[2];
    bool ok;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    ok = fetch->credential_len == 0 ||
         write(ends[1], fetch->credential, fetch->credential_len) ==
             (ssize_t)fetch->credential_len;
    (void)close(ends[1]);
    if (!ok) {
        (void)close(ends[0]);
        return -1;
    }
    return ends[0];
}

static bool
open_fds(const struct wp_fetch *fetch, struct wp_spawn *spawn, int *report)
{
    const char *seccomp = fetch->fetcher->config.seccomp_path;
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
    spawn->fds[WP_FETCH_CREDENTIAL_FD] = wp_spawn_fd(open_credential(fetch));
    spawn->fds_len = WP_FETCH_CREDENTIAL_FD + 1;
    if (seccomp != NULL) {
        spawn->fds[SECCOMP_FD] =
            wp_spawn_fd(open(seccomp, O_RDONLY | O_CLOEXEC));
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
spawn_it(struct wp_fetch *fetch, const struct wp_fetch_args *args,
         struct wp_err *err)
{
    const struct wp_fetcher_config *config = &fetch->fetcher->config;
    char *argv[WP_FETCH_ARGS_MAX];
    char *const no_env[] = {NULL};
    struct wp_spawn spawn = {
        .path = config->bwrap_path,
        .argv = argv,
        .envp = no_env,
        .close_fd = *config->lock_fd,
        .drop = config->drop,
        .uid = config->uid,
        .gid = config->uid,
    };
    struct wp_spawned spawned = {.pidfd = -1};
    enum wp_status status;

    memcpy(argv, args->word, sizeof argv);
    status = open_fds(fetch, &spawn, &fetch->report_fd)
                 ? wp_spawn(&spawn, &spawned, err)
                 : wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno,
                              "no descriptors for a fetch");
    for (int i = 0; i < spawn.fds_len; i++) {
        if (spawn.fds[i] >= 0) {
            (void)close(spawn.fds[i]);
        }
    }
    fetch->pidfd = spawned.pidfd;
    return status;
}

static enum wp_status
run_checkout(struct wp_fetch *fetch, struct wp_err *err)
{
    const struct wp_fetcher_config *config = &fetch->fetcher->config;
    struct wp_fetch_args args = {.n = 0};
    char part[PATH_BYTES];
    char bytes[COUNT_TEXT];
    enum wp_status status = make_part(fetch->fetcher, fetch, part, err);

    if (status != WP_OK) {
        return status;
    }
    (void)snprintf(bytes, sizeof bytes, "%" PRIu64,
                   config->repository_bytes_max);
    wp_fetch_walls(&args, config->path, part,
                   config->seccomp_path != NULL ? SECCOMP_FD : -1);
    wp_fetch_args_add(&args, "--", "/warmpool-fetch", "checkout");
    wp_fetch_args_add(&args, fetch->url, fetch->ref, bytes);
    return spawn_it(fetch, &args, err);
}

static enum wp_status
run_sweep(struct wp_fetch *fetch, struct wp_err *err)
{
    const struct wp_fetcher_config *config = &fetch->fetcher->config;
    struct wp_fetch_args args = {.n = 0};
    char bytes[COUNT_TEXT];
    char age[COUNT_TEXT];

    (void)snprintf(bytes, sizeof bytes, "%" PRIu64, config->cache_bytes_max);
    (void)snprintf(age, sizeof age, "%" PRId64, config->cache_age_s);
    wp_fetch_walls(&args, config->path, config->cache_dir,
                   config->seccomp_path != NULL ? SECCOMP_FD : -1);
    wp_fetch_args_add(&args, "--unshare-net", "--", "/warmpool-fetch");
    wp_fetch_args_add(&args, "sweep", bytes, age);
    return spawn_it(fetch, &args, err);
}

/* --- Its end --- */

static void
fetch_free(struct wp_fetch *fetch)
{
    wp_list_remove(&fetch->node);
    if (fetch->report_fd >= 0) {
        (void)close(fetch->report_fd);
    }
    if (fetch->pidfd >= 0) {
        (void)event_del(&fetch->exit_event);
        (void)evtimer_del(&fetch->timer);
        (void)close(fetch->pidfd);
    }
    explicit_bzero(fetch->credential, sizeof fetch->credential);
    free(fetch);
}

/* What it has reported: text, and a descriptor or -1. */
static bool
read_report(const struct wp_fetch *fetch, char text[WP_FETCH_REPORT_MAX + 1],
            int *fd)
{
    ssize_t n =
        wp_passing_receive(fetch->report_fd, text, WP_FETCH_REPORT_MAX, fd);

    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    return true;
}

/* No memory of the machine's is mapped by whom it is handed to. */
static bool
is_file(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static void
tell(const struct wp_fetch *fetch)
{
    char text[WP_FETCH_REPORT_MAX + 1];
    int fd;
    bool told = read_report(fetch, text, &fd);
    bool has = told && (text[0] == WP_FETCH_KEPT || text[0] == WP_FETCH_MADE) &&
               fd >= 0 && is_file(fd);

    if (has && text[0] == WP_FETCH_MADE) {
        sweep_now(fetch->fetcher);
    }
    if (fetch->done == NULL || !has) {
        if (fd >= 0) {
            (void)close(fd);
        }
        fd = -1;
    }
    if (fetch->done == NULL) {
        return;
    }
    if (has) {
        fetch->done(fetch->ctx, WP_OK, fd, "");
    } else if (fetch->timed_out) {
        fetch->done(fetch->ctx, WP_DEADLINE_EXCEEDED, -1,
                    "it takes too long (setting git_timeout)");
    } else if (told && text[0] == WP_FETCH_FAILED &&
               wp_str_is_printable(wp_str_from(text + 1))) {
        fetch->done(fetch->ctx, WP_FAILED_PRECONDITION, -1, text + 1);
    } else {
        fetch->done(fetch->ctx, WP_UNAVAILABLE, -1,
                    "warmpool-fetch ended without a word");
    }
}

static void
on_exit_seen(evutil_socket_t fd, short what, void *arg)
{
    struct wp_fetch *fetch = arg;
    struct wp_fetcher *fetcher = fetch->fetcher;
    siginfo_t info = {.si_code = 0};

    (void)what;
    if (waitid(P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG) != 0 ||
        info.si_pid == 0) {
        return;
    }
    if (fetch->is_sweep) {
        fetcher->sweeping = false;
        if (info.si_code != CLD_EXITED || info.si_status != 0) {
            wp_log_warn("the cache of repositories was not swept",
                        wp_kv_int("status", info.si_status));
        }
        if (fetcher->sweep_due) {
            sweep_now(fetcher);
        }
    } else {
        fetcher->running_len--;
        drop_part(fetch);
        tell(fetch);
    }
    fetch_free(fetch);
    start_next(fetcher);
}

static void
kill_it(const struct wp_fetch *fetch)
{
    (void)syscall(SYS_pidfd_send_signal, fetch->pidfd, SIGKILL, NULL, 0);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct wp_fetch *fetch = arg;

    (void)fd;
    (void)what;
    fetch->timed_out = true;
    kill_it(fetch);
}

/* --- Turns --- */

/* Its process runs: watch it. */
static void
watch(struct wp_fetch *fetch, int64_t timeout_ms)
{
    struct wp_fetcher *fetcher = fetch->fetcher;
    struct timeval wait = wp_timeval(timeout_ms * WP_NS_PER_MS);

    (void)event_assign(&fetch->exit_event, fetcher->base, fetch->pidfd,
                       EV_READ | EV_PERSIST, on_exit_seen, fetch);
    (void)evtimer_assign(&fetch->timer, fetcher->base, on_timer, fetch);
    (void)event_add(&fetch->exit_event, NULL);
    (void)evtimer_add(&fetch->timer, &wait);
    wp_list_push_back(&fetcher->running, &fetch->node);
}

static void
start_next(struct wp_fetcher *fetcher)
{
    while (fetcher->running_len < RUNNING_MAX &&
           !wp_list_empty(&fetcher->waiting)) {
        struct wp_fetch *fetch = WP_CONTAINER_OF(
            wp_list_pop_front(&fetcher->waiting), struct wp_fetch, node);
        struct wp_err err;

        if (run_checkout(fetch, &err) == WP_OK) {
            fetcher->running_len++;
            watch(fetch, fetcher->config.timeout_ms);
            continue;
        }
        fetch->done(fetch->ctx, err.status, -1, err.msg);
        fetch_free(fetch);
    }
}

static struct wp_fetch *
fetch_make(struct wp_fetcher *fetcher)
{
    struct wp_fetch *fetch = calloc(1, sizeof *fetch);

    if (fetch != NULL) {
        fetch->fetcher = fetcher;
        fetch->pidfd = -1;
        fetch->report_fd = -1;
        wp_list_init(&fetch->node);
    }
    return fetch;
}

static void
sweep_now(struct wp_fetcher *fetcher)
{
    struct wp_fetch *sweep;
    struct wp_err err;

    fetcher->sweep_due = fetcher->sweeping;
    if (fetcher->sweeping) {
        return;
    }
    sweep = fetch_make(fetcher);
    if (sweep == NULL) {
        return; /* In an hour. */
    }
    sweep->is_sweep = true;
    if (run_sweep(sweep, &err) != WP_OK) {
        wp_log_warn("the cache of repositories was not swept", wp_kv_err(&err));
        fetch_free(sweep);
        return;
    }
    fetcher->sweeping = true;
    watch(sweep, SWEEP_TIMEOUT_MS);
}

static void
on_sweep_timer(evutil_socket_t fd, short what, void *arg)
{
    struct wp_fetcher *fetcher = arg;
    struct timeval wait = wp_timeval(SWEEP_EVERY_MS * WP_NS_PER_MS);

    (void)fd;
    (void)what;
    (void)evtimer_add(&fetcher->sweep_timer, &wait);
    sweep_now(fetcher);
}

struct wp_fetch *
wp_fetcher_begin(struct wp_fetcher *fetcher, const struct wp_fetch_order *order,
                 wp_fetch_done *done, void *ctx)
{
    struct wp_fetch *fetch = fetch_make(fetcher);

    if (fetch == NULL) {
        return NULL;
    }
    fetch->done = done;
    fetch->ctx = ctx;
    (void)snprintf(fetch->url, sizeof fetch->url, "%s", order->url);
    (void)snprintf(fetch->ref, sizeof fetch->ref, "%s", order->ref);
    if (order->password[0] != '\0') {
        /* Their bounds leave room. */
        fetch->credential_len =
            (size_t)snprintf(fetch->credential, sizeof fetch->credential,
                             "%s%c%s", order->user, '\0', order->password);
        WP_ASSERT(fetch->credential_len < sizeof fetch->credential);
    }
    name_part(fetch, order->tenant);
    wp_list_push_back(&fetcher->waiting, &fetch->node);
    return fetch;
}

void
wp_fetcher_go(struct wp_fetcher *fetcher)
{
    if (!evtimer_pending(&fetcher->sweep_timer, NULL)) {
        on_sweep_timer(-1, 0, fetcher);
    }
    start_next(fetcher);
}

void
wp_fetch_cancel(struct wp_fetch *fetch)
{
    fetch->done = NULL;
    if (fetch->pidfd >= 0) {
        kill_it(fetch); /* Its end is seen later. */
    } else {
        fetch_free(fetch);
    }
}

/* --- Its life --- */

static enum wp_status
make_cache(const struct wp_fetcher_config *config, struct wp_err *err)
{
    uid_t owner = config->drop ? config->uid : geteuid();
    enum wp_status status = WP_OK;
    struct stat st;

    /* Of another setting sandbox_uid_first: nobody could write there. */
    if (lstat(config->cache_dir, &st) == 0 &&
        (!S_ISDIR(st.st_mode) || st.st_uid != owner)) {
        status = wp_dir_remove(config->cache_dir, err);
    }
    if (status == WP_OK) {
        status = wp_dir_make(config->cache_dir, 0700, err);
    }
    if (status == WP_OK && config->drop &&
        chown(config->cache_dir, config->uid, config->uid) != 0) {
        status = wp_err_sys(err, WP_UNAVAILABLE, errno, "the cache %s",
                            config->cache_dir);
    }
    return status;
}

struct wp_fetcher *
wp_fetcher_create(const struct wp_fetcher_config *config,
                  struct event_base *base, struct wp_err *err)
{
    struct wp_fetcher *fetcher = calloc(1, sizeof *fetcher);

    if (fetcher == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    fetcher->config = *config;
    fetcher->base = base;
    wp_random_bytes(&fetcher->key, sizeof fetcher->key);
    wp_list_init(&fetcher->waiting);
    wp_list_init(&fetcher->running);
    (void)evtimer_assign(&fetcher->sweep_timer, base, on_sweep_timer, fetcher);
    if (make_cache(config, err) != WP_OK) {
        free(fetcher);
        return NULL;
    }
    return fetcher;
}

void
wp_fetcher_destroy(struct wp_fetcher *fetcher)
{
    struct wp_list *node;

    if (fetcher == NULL) {
        return;
    }
    (void)evtimer_del(&fetcher->sweep_timer);
    while ((node = wp_list_pop_front(&fetcher->waiting)) != NULL) {
        fetch_free(WP_CONTAINER_OF(node, struct wp_fetch, node));
    }
    while ((node = wp_list_pop_front(&fetcher->running)) != NULL) {
        struct wp_fetch *fetch = WP_CONTAINER_OF(node, struct wp_fetch, node);
        siginfo_t info;

        kill_it(fetch);
        (void)waitid(P_PIDFD, (id_t)fetch->pidfd, &info, WEXITED);
        fetch_free(fetch);
    }
    free(fetcher);
}
