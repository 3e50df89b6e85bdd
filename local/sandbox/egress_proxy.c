#include "local/sandbox/egress_proxy.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/event_struct.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/sockets/passing.h"
#include "local/sandbox/spawn.h"
#include "pool/base/clock.h"
#include "pool/base/list.h"
#include "pool/base/log.h"
#include "pool/egress/channel.h"

enum {
    AGAIN_FIRST_MS = 100,
    AGAIN_LAST_MS = 10000,
    LIVED_WELL_MS = 10000, /* Then the next start is not late. */
    COUNT_TEXT = 24,
};

/* What the process has yet to be told of a member:
 *
 *   join --> UNTOLD --told--> TOLD --leave--> LEAVING --told--> (freed)
 *              |  ^            |                 |
 *              |  '---it died--'                 |
 *              '--leave, or it died--> (freed) <-'
 *
 *   TOLD --narrow--> CHANGED --told--> ASKED --it answers--> TOLD
 *
 * CHANGED and ASKED are left as TOLD is. When the process has died, nothing
 * wider is in force any more. */
enum member_state {
    UNTOLD,
    TOLD,
    CHANGED, /* Told of the wider policy only. */
    ASKED,   /* Told of the narrowed one, and not answered. */
    LEAVING,
};

struct wp_egress_member {
    struct wp_list node; /* In todo, told or asked. */
    enum member_state state;
    int fd;
    void *sandbox; /* For config.answered. */
    char name[WP_SANDBOX_NAME_MAX + 1];
    char policy[WP_EGRESS_TEXT_MAX + 1];
    char by[WP_EGRESS_TEXT_MAX + 1]; /* What narrows it; "": nothing. */
};

struct wp_egress_proxy {
    struct wp_egress_proxy_config config;
    struct event_base *base;
    struct wp_list told;
    struct wp_list asked;
    struct wp_list todo; /* In their order. */
    int pidfd;           /* -1: it does not run. */
    int channel;
    struct event exit_event;
    struct event read_event;
    struct event write_event;
    struct event again_timer;
    int64_t began_ns;
    int64_t again_ms;
};

static void
member_free(struct wp_egress_member *member)
{
    wp_list_remove(&member->node);
    if (member->fd >= 0) {
        (void)close(member->fd);
    }
    free(member);
}

/* --- Telling --- */

/* A NUL and text; returns their length. */
static size_t
put_text(char *at, const char *text)
{
    size_t len = strlen(text);

    at[0] = '\0';
    memcpy(at + 1, text, len);
    return 1 + len;
}

/* False: the channel is full, or broken; then its end is seen elsewhere. */
static bool
tell(const struct wp_egress_proxy *proxy, const struct wp_egress_member *member)
{
    char text[WP_EGRESS_MESSAGE_MAX];
    bool joins = member->state != LEAVING;
    size_t len = 1 + strlen(member->name);

    text[0] = joins ? WP_EGRESS_JOIN : WP_EGRESS_LEAVE;
    memcpy(text + 1, member->name, len - 1);
    if (joins) {
        len += put_text(text + len, member->policy);
        len += put_text(text + len, member->by);
    }
    return wp_passing_send(proxy->channel, text, len, joins ? member->fd : -1,
                           MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

static void
tell_all(struct wp_egress_proxy *proxy)
{
    while (proxy->channel >= 0 && !wp_list_empty(&proxy->todo)) {
        struct wp_egress_member *member =
            WP_CONTAINER_OF(proxy->todo.next, struct wp_egress_member, node);

        /* What is freed has left the list. */
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        if (!tell(proxy, member)) {
            if (errno == EAGAIN) {
                (void)event_add(&proxy->write_event, NULL);
            }
            return;
        }
        if (member->state == LEAVING) {
            member_free(member);
            continue;
        }
        member->state = member->state == CHANGED ? ASKED : TOLD;
        wp_list_remove(&member->node);
        wp_list_push_back(member->state == ASKED ? &proxy->asked : &proxy->told,
                          &member->node);
    }
}

static void
on_writable(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    tell_all(arg);
}

/* What the process answers. Its end is seen elsewhere. */
static void
on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct wp_egress_proxy *proxy = arg;
    char text[1 + WP_SANDBOX_NAME_MAX];
    ssize_t n = recv(fd, text, sizeof text, MSG_DONTWAIT);

    (void)what;
    if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            (void)event_del(&proxy->read_event);
        }
        return;
    }
    WP_LIST_FOREACH (node, &proxy->asked) {
        struct wp_egress_member *member =
            WP_CONTAINER_OF(node, struct wp_egress_member, node);

        if (wp_str_is((struct wp_str){text + 1, (size_t)n - 1}, member->name)) {
            member->state = TOLD;
            wp_list_remove(&member->node);
            wp_list_push_back(&proxy->told, &member->node);
            proxy->config.answered(member->sandbox,
                                   text[0] == WP_EGRESS_NARROWED);
            return;
        }
    }
}

/* --- The process --- */

/* -1, and a line in the log: others can read it, or it is no file. Opened by
 * the daemon, since the proxy's user may not read it. */
static int
open_keys(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        (st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) == 0) {
        return fd;
    }
    wp_log_error("egress keys not used: a file that others cannot read nor "
                 "write was expected",
                 wp_kv_str("egress_keys_file", path));
    if (fd >= 0) {
        (void)close(fd);
    }
    return -1;
}

static void
close_fds(const struct wp_spawn *spawn)
{
    for (int i = 0; i < spawn->fds_len; i++) {
        if (spawn->fds[i] >= 0) {
            (void)close(spawn->fds[i]);
        }
    }
}

/* Theirs to spawn, ours to proxy->channel. */
static bool
make_fds(struct wp_egress_proxy *proxy, struct wp_spawn *spawn)
{
    int pair[2];
    int keys = -1;

    spawn->fds_len = WP_EGRESS_CHANNEL_FD + 1;
    for (int i = 0; i < WP_SPAWN_FDS_MAX; i++) {
        spawn->fds[i] = -1;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                   pair) != 0) {
        return false;
    }
    proxy->channel = pair[0];
    spawn->fds[WP_EGRESS_CHANNEL_FD] = wp_spawn_fd(pair[1]);
    spawn->fds[0] = wp_spawn_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
    spawn->fds[1] = wp_spawn_fd(open("/dev/null", O_RDWR | O_CLOEXEC));
    spawn->fds[2] = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, WP_SPAWN_FD_FLOOR);
    if (proxy->config.keys_file != NULL) {
        keys = open_keys(proxy->config.keys_file);
    }
    if (keys >= 0) {
        spawn->fds[WP_EGRESS_KEYS_FD] = wp_spawn_fd(keys);
        spawn->fds_len++;
    }
    for (int i = 0; i < spawn->fds_len; i++) {
        if (spawn->fds[i] < 0) {
            return false;
        }
    }
    return true;
}

static enum wp_status
spawn_it(struct wp_egress_proxy *proxy, struct wp_err *err)
{
    const struct wp_egress_proxy_config *config = &proxy->config;
    char conns[COUNT_TEXT];
    char bytes[COUNT_TEXT];
    const char *const args[] = {
        "warmpool-egress",    "--channel",
        "--packages",         config->packages,
        "--source-conns-max", conns,
        "--source-bytes-max", bytes,
        "--log-format",       config->log_json ? "json" : "text",
        "--keys-fd",          NULL,
    };
    char *argv[WP_ARRAY_LEN(args)];
    char *const no_env[] = {NULL};
    struct wp_spawn spawn = {
        .path = config->path,
        .argv = argv,
        .envp = no_env,
        .close_fd = *config->lock_fd,
        .drop = config->drop,
        .uid = config->uid,
        .gid = config->uid,
    };
    struct wp_spawned spawned = {.pidfd = -1};
    enum wp_status status;

    (void)snprintf(conns, sizeof conns, "%" PRIu32, config->source_conns_max);
    (void)snprintf(bytes, sizeof bytes, "%" PRIu64, config->source_bytes_max);
    memcpy(argv, args, sizeof args);
    if (!make_fds(proxy, &spawn)) {
        status = wp_err_sys(err, WP_RESOURCE_EXHAUSTED, errno,
                            "no descriptors for the egress proxy");
    } else {
        if (spawn.fds_len <= WP_EGRESS_KEYS_FD) {
            argv[WP_ARRAY_LEN(args) - 2] = NULL; /* No --keys-fd. */
        }
        status = wp_spawn(&spawn, &spawned, err);
    }
    close_fds(&spawn);
    if (status == WP_OK) {
        proxy->pidfd = spawned.pidfd;
        proxy->began_ns = wp_clock_mono_ns(wp_clock_system());
    }
    return status;
}

static void
close_channel(struct wp_egress_proxy *proxy)
{
    if (proxy->channel >= 0) {
        (void)event_del(&proxy->read_event);
        (void)event_del(&proxy->write_event);
        (void)close(proxy->channel);
        proxy->channel = -1;
    }
}

static void
move_all(struct wp_list *from, struct wp_list *to)
{
    struct wp_list *node;

    while ((node = wp_list_pop_front(from)) != NULL) {
        wp_list_push_back(to, node);
    }
}

/* All are to be told anew, but those that have left. */
static void
forget_told(struct wp_egress_proxy *proxy)
{
    struct wp_list *node;

    move_all(&proxy->told, &proxy->todo);
    move_all(&proxy->asked, &proxy->todo);
    node = proxy->todo.next;
    while (node != &proxy->todo) {
        struct wp_egress_member *member =
            WP_CONTAINER_OF(node, struct wp_egress_member, node);

        node = node->next;
        if (member->state == LEAVING) {
            member_free(member);
        } else if (member->state == TOLD) {
            member->state = UNTOLD;
        }
    }
}

/* Who waits for what the dead process would have answered. */
static void
answer_waiting(struct wp_egress_proxy *proxy)
{
    WP_LIST_FOREACH (node, &proxy->todo) {
        struct wp_egress_member *member =
            WP_CONTAINER_OF(node, struct wp_egress_member, node);

        if (member->state != UNTOLD) {
            member->state = UNTOLD;
            proxy->config.answered(member->sandbox, true);
        }
    }
}

static void
start_later(struct wp_egress_proxy *proxy)
{
    struct timeval wait = wp_timeval(proxy->again_ms * WP_NS_PER_MS);

    (void)evtimer_add(&proxy->again_timer, &wait);
    proxy->again_ms = proxy->again_ms * 2 < AGAIN_LAST_MS ? proxy->again_ms * 2
                                                          : AGAIN_LAST_MS;
}

static void
on_exit_seen(evutil_socket_t fd, short what, void *arg)
{
    struct wp_egress_proxy *proxy = arg;
    siginfo_t info = {.si_code = 0};
    int64_t lived_ns = wp_clock_mono_ns(wp_clock_system()) - proxy->began_ns;

    (void)what;
    if (waitid(P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG) != 0 ||
        info.si_pid == 0) {
        return;
    }
    (void)event_del(&proxy->exit_event);
    (void)close(proxy->pidfd);
    proxy->pidfd = -1;
    close_channel(proxy);
    forget_told(proxy);
    answer_waiting(proxy);
    if (lived_ns > LIVED_WELL_MS * WP_NS_PER_MS) {
        proxy->again_ms = AGAIN_FIRST_MS;
    }
    wp_log_warn(
        "egress proxy ended: no sandbox gets out until it is back",
        wp_kv_str("how", info.si_code == CLD_EXITED ? "status" : "signal"),
        wp_kv_int("code", info.si_status),
        wp_kv_int("again_in_ms", proxy->again_ms));
    start_later(proxy);
}

static void
start(struct wp_egress_proxy *proxy)
{
    struct wp_err err = {.msg = ""};

    if (spawn_it(proxy, &err) != WP_OK) {
        close_channel(proxy);
        wp_log_error("egress proxy not started", wp_kv_err(&err));
        start_later(proxy);
        return;
    }
    (void)event_assign(&proxy->exit_event, proxy->base, proxy->pidfd,
                       EV_READ | EV_PERSIST, on_exit_seen, proxy);
    (void)event_add(&proxy->exit_event, NULL);
    (void)event_assign(&proxy->write_event, proxy->base, proxy->channel,
                       EV_WRITE, on_writable, proxy);
    (void)event_assign(&proxy->read_event, proxy->base, proxy->channel,
                       EV_READ | EV_PERSIST, on_readable, proxy);
    (void)event_add(&proxy->read_event, NULL);
    wp_log_info("egress proxy started");
    tell_all(proxy);
}

static void
on_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    start(arg);
}

/* --- Members --- */

struct wp_egress_member *
wp_egress_proxy_join(struct wp_egress_proxy *proxy, void *sandbox,
                     const char *name, const char *policy, const char *by,
                     int fd)
{
    struct wp_egress_member *member = calloc(1, sizeof *member);

    if (member == NULL ||
        !wp_str_copy(wp_str_from(name), member->name, sizeof member->name) ||
        !wp_str_copy(wp_str_from(policy), member->policy,
                     sizeof member->policy) ||
        !wp_str_copy(wp_str_from(by), member->by, sizeof member->by)) {
        (void)close(fd);
        free(member);
        return NULL;
    }
    member->fd = fd;
    member->sandbox = sandbox;
    wp_list_push_back(&proxy->todo, &member->node);
    if (proxy->pidfd >= 0) {
        tell_all(proxy);
    } else if (!evtimer_pending(&proxy->again_timer, NULL)) {
        start(proxy);
    }
    return member;
}

bool
wp_egress_proxy_narrow(struct wp_egress_proxy *proxy,
                       struct wp_egress_member *member, const char *by)
{
    bool same = strcmp(member->by, by) == 0;

    (void)snprintf(member->by, sizeof member->by, "%s", by);
    if (member->state == UNTOLD || (same && member->state == TOLD)) {
        return true;
    }
    if (!same) {
        member->state = CHANGED;
        wp_list_remove(&member->node);
        wp_list_push_back(&proxy->todo, &member->node);
        tell_all(proxy);
    }
    return false;
}

void
wp_egress_proxy_leave(struct wp_egress_proxy *proxy,
                      struct wp_egress_member *member)
{
    if (member == NULL) {
        return;
    }
    if (member->state == UNTOLD) {
        member_free(member);
        return;
    }
    member->state = LEAVING;
    wp_list_remove(&member->node);
    wp_list_push_back(&proxy->todo, &member->node);
    tell_all(proxy);
}

/* --- Its life --- */

struct wp_egress_proxy *
wp_egress_proxy_create(const struct wp_egress_proxy_config *config,
                       struct event_base *base)
{
    struct wp_egress_proxy *proxy = calloc(1, sizeof *proxy);

    if (proxy == NULL) {
        return NULL;
    }
    proxy->config = *config;
    proxy->base = base;
    proxy->pidfd = -1;
    proxy->channel = -1;
    proxy->again_ms = AGAIN_FIRST_MS;
    wp_list_init(&proxy->told);
    wp_list_init(&proxy->asked);
    wp_list_init(&proxy->todo);
    (void)evtimer_assign(&proxy->again_timer, base, on_again, proxy);
    /* Assigned from the start, so that deleting it is always right. */
    (void)event_assign(&proxy->read_event, base, -1, EV_READ, on_readable,
                       proxy);
    (void)event_assign(&proxy->write_event, base, -1, EV_WRITE, on_writable,
                       proxy);
    return proxy;
}

void
wp_egress_proxy_destroy(struct wp_egress_proxy *proxy)
{
    if (proxy == NULL) {
        return;
    }
    (void)evtimer_del(&proxy->again_timer);
    close_channel(proxy);
    if (proxy->pidfd >= 0) {
        siginfo_t info;

        (void)event_del(&proxy->exit_event);
        (void)syscall(SYS_pidfd_send_signal, proxy->pidfd, SIGKILL, NULL, 0);
        (void)waitid(P_PIDFD, (id_t)proxy->pidfd, &info, WEXITED);
        (void)close(proxy->pidfd);
    }
    forget_told(proxy);
    while (!wp_list_empty(&proxy->todo)) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it leaves the list. */
        member_free(
            WP_CONTAINER_OF(proxy->todo.next, struct wp_egress_member, node));
    }
    free(proxy);
}
