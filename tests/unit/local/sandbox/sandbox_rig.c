#include "tests/unit/local/sandbox/sandbox_rig.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool/base/clock.h"
#include "pool/base/log.h"
#include "proto/loop/loop.h"

struct rig rig;
int rig_zero;

void
rig_note(const char *fmt, ...)
{
    char text[4096];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    golden_add(&rig.seen, "%s\n", text);
}

void
rig_piece(struct rig_piece piece)
{
    if (rig.pieces_at == rig.pieces_len) {
        rig.pieces_at = 0;
        rig.pieces_len = 0;
    }
    assert_true(rig.pieces_len < RIG_PIECES);
    rig.pieces[rig.pieces_len++] = piece;
}

void
rig_compare(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/%s.txt", name);
    golden_compare(rig.seen.text, path);
}

static const char *
fd_name(int fd)
{
    static const char *const names[] = {"control", "inner",     "outer",
                                        "stderr",  "bridge",    "door",
                                        "passed",  "passed too"};

    fd = fd == 0 && rig_zero != 0 ? rig_zero : fd;
    return fd < 0                          ? "none"
           : fd >= FD_FIRST && fd < FD_END ? names[fd - FD_FIRST]
                                           : "another";
}

static const char *
event_name(const struct event *event)
{
    const struct wp_sandbox *sandbox = &rig.sandbox;
    const struct {
        const struct event *event;
        const char *name;
    } rows[] = {
        {&sandbox->outer_event, "outer"},
        {&sandbox->inner_event, "inner"},
        {&sandbox->control_event, "control"},
        {&sandbox->stderr_event, "stderr"},
        {&sandbox->bridge_event, "bridge"},
        {&sandbox->door_event, "door"},
        {&sandbox->timer, "timer"},
        {&sandbox->bridge_timer, "bridge timer"},
        {&sandbox->bind_timer, "bind timer"},
        {&sandbox->identity_timer, "identity timer"},
        {&sandbox->look_timer, "look timer"},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        if (event == rows[i].event) {
            return rows[i].name;
        }
    }
    return "another";
}

/* --- The loop --- */

int __wrap_event_add(struct event *event, const struct timeval *tv);
int __wrap_event_del(struct event *event);
void __wrap_wp_sandbox_watch(struct wp_sandbox *sandbox, struct event *event,
                             int fd, short what, event_callback_fn fn);
void __wrap_wp_sandbox_unwatch(struct event *event, int *fd);
bool __wrap_wp_loop_post(struct wp_loop *loop,
                         void (*run)(void *ctx, uint64_t a, uint64_t b),
                         void *ctx, uint64_t a, uint64_t b);

int
__wrap_event_add(struct event *event, const struct timeval *tv)
{
    rig_note("arm %s in %" PRId64 " us", event_name(event),
             (int64_t)tv->tv_sec * 1000000 + tv->tv_usec);
    return 0;
}

int
__wrap_event_del(struct event *event)
{
    rig_note("disarm %s", event_name(event));
    return 0;
}

void
__wrap_wp_sandbox_watch(struct wp_sandbox *sandbox, struct event *event, int fd,
                        short what, event_callback_fn fn)
{
    assert_ptr_equal(sandbox, &rig.sandbox);
    rig_note("watch %s of %s%s%s: %s", event_name(event), fd_name(fd),
             (what & EV_READ) != 0 ? ", read" : "",
             (what & EV_PERSIST) != 0 ? ", persist" : "",
             fn == wp_sandbox_on_inner_exit ? "inner exit"
             : fn == wp_sandbox_on_bridge   ? "bridge"
                                            : "its own");
    if (event == &sandbox->door_event) {
        /* Somebody knocks at once, and later. */
        (void)event_assign(event, NULL, fd, what, fn, sandbox);
    }
}

void
__wrap_wp_sandbox_unwatch(struct event *event, int *fd)
{
    if (*fd >= 0) {
        rig_note("unwatch %s of %s", event_name(event), fd_name(*fd));
        *fd = -1;
    }
}

bool
__wrap_wp_loop_post(struct wp_loop *loop,
                    void (*run)(void *ctx, uint64_t a, uint64_t b), void *ctx,
                    uint64_t a, uint64_t b)
{
    assert_ptr_equal(loop, rig.local.loop);
    rig_note("post %" PRIx64 ", %" PRIu64 " and %" PRIu64 "%s", a, b >> 32,
             b & UINT32_MAX, rig.post_full ? ": full" : "");
    if (!rig.post_full) {
        run(ctx, a, b);
    }
    return !rig.post_full;
}

/* --- Other files about the sandbox --- */

void __wrap_wp_sandbox_lost(struct wp_sandbox *sandbox, const char *reason);
void __wrap_wp_sandbox_kill(struct wp_sandbox *sandbox);
void __wrap_wp_sandbox_step_dying(struct wp_sandbox *sandbox);
void __wrap_wp_sandbox_end_binds(struct wp_sandbox *sandbox,
                                 enum wp_status status, const char *reason);
void __wrap_wp_sandbox_end_turn(struct wp_sandbox *sandbox);
void __wrap_wp_sandbox_set_state(struct wp_sandbox *sandbox,
                                 enum wp_sandbox_state state);
enum wp_status __wrap_wp_sandbox_record(const struct wp_sandbox *sandbox,
                                        bool ready, struct wp_err *err);
enum wp_status
__wrap_wp_sandbox_record_claimed(const struct wp_sandbox *sandbox,
                                 struct wp_err *err);
struct wp_sandbox *__wrap_wp_sandbox_find(const struct wp_local *local,
                                          struct wp_slot_ref ref);
void __wrap_wp_sandbox_next_probe(struct wp_sandbox *sandbox);
void __wrap_wp_sandbox_bridge_check(struct wp_sandbox *sandbox);
void __wrap_wp_sandbox_on_idle(struct wp_sandbox *sandbox, const char *text,
                               int fd);
uint64_t __wrap_wp_process_start_time(pid_t pid);
struct wp_egress_member *
__wrap_wp_egress_proxy_join(struct wp_egress_proxy *proxy, void *sandbox,
                            const char *name, const char *policy,
                            const char *by, int fd);
bool __wrap_wp_cgroup_freeze(const struct wp_cgroups *groups, const char *name,
                             bool frozen);
bool __wrap_wp_cgroups_can_freeze(const struct wp_cgroups *groups);
uint64_t __wrap_wp_cgroup_oom_kills(const struct wp_cgroups *groups,
                                    const char *name);

void
__wrap_wp_sandbox_lost(struct wp_sandbox *sandbox, const char *reason)
{
    rig_note("lost%s: %s", sandbox->lost ? " already" : "", reason);
    sandbox->lost = true;
}

void
__wrap_wp_sandbox_kill(struct wp_sandbox *sandbox)
{
    assert_ptr_equal(sandbox, &rig.sandbox);
    rig_note("kill");
}

void
__wrap_wp_sandbox_step_dying(struct wp_sandbox *sandbox)
{
    assert_ptr_equal(sandbox, &rig.sandbox);
    rig_note("step dying");
}

void
__wrap_wp_sandbox_end_binds(struct wp_sandbox *sandbox, enum wp_status status,
                            const char *reason)
{
    assert_ptr_equal(sandbox, &rig.sandbox);
    rig_note("end binds: %s '%s'", wp_status_name(status), reason);
}

void
__wrap_wp_sandbox_end_turn(struct wp_sandbox *sandbox)
{
    assert_ptr_equal(sandbox, &rig.sandbox);
    rig_note("end turn");
}

void
__wrap_wp_sandbox_set_state(struct wp_sandbox *sandbox,
                            enum wp_sandbox_state state)
{
    rig_note("state %d", (int)state);
    sandbox->state = state;
}

enum wp_status
__wrap_wp_sandbox_record(const struct wp_sandbox *sandbox, bool ready,
                         struct wp_err *err)
{
    assert_ptr_equal(sandbox, &rig.sandbox);
    rig_note("record, %s", ready ? "ready" : "not ready");
    return rig.record_answer == WP_OK
               ? WP_OK
               : wp_err_set(err, rig.record_answer, "no record");
}

enum wp_status
__wrap_wp_sandbox_record_claimed(const struct wp_sandbox *sandbox,
                                 struct wp_err *err)
{
    assert_ptr_equal(sandbox, &rig.sandbox);
    rig_note("record what is claimed");
    return rig.record_answer == WP_OK
               ? WP_OK
               : wp_err_set(err, rig.record_answer, "no record");
}

struct wp_sandbox *
__wrap_wp_sandbox_find(const struct wp_local *local, struct wp_slot_ref ref)
{
    assert_ptr_equal(local, &rig.local);
    rig_note("find %u of %u", ref.index, ref.generation);
    return rig.gone ? NULL : &rig.sandbox;
}

void
__wrap_wp_sandbox_next_probe(struct wp_sandbox *sandbox)
{
    assert_ptr_equal(sandbox, &rig.sandbox);
    rig_note("next probe");
}

void
__wrap_wp_sandbox_bridge_check(struct wp_sandbox *sandbox)
{
    assert_ptr_equal(sandbox, &rig.sandbox);
    rig_note("bridge check");
}

void
__wrap_wp_sandbox_on_idle(struct wp_sandbox *sandbox, const char *text, int fd)
{
    assert_ptr_equal(sandbox, &rig.sandbox);
    rig_note("idle '%s', %s", text, fd_name(fd));
}

uint64_t
__wrap_wp_process_start_time(pid_t pid)
{
    return (uint64_t)pid + 70000;
}

struct wp_egress_member *
__wrap_wp_egress_proxy_join(struct wp_egress_proxy *proxy, void *sandbox,
                            const char *name, const char *policy,
                            const char *by, int fd)
{
    assert_ptr_equal(proxy, rig.local.egress);
    assert_ptr_equal(sandbox, &rig.sandbox);
    rig_note("join '%s' '%s' '%s' at %s", name, policy, by, fd_name(fd));
    return rig.member_lacks ? NULL : (struct wp_egress_member *)&rig.groups;
}

bool
__wrap_wp_cgroup_freeze(const struct wp_cgroups *groups, const char *name,
                        bool frozen)
{
    assert_ptr_equal(groups, &rig.groups);
    rig_note("%s '%s'%s", frozen ? "freeze" : "thaw", name,
             rig.freezes ? "" : ": no");
    errno = EBUSY;
    return rig.freezes;
}

bool
__wrap_wp_cgroups_can_freeze(const struct wp_cgroups *groups)
{
    assert_ptr_equal(groups, &rig.groups);
    return rig.can_freeze;
}

uint64_t
__wrap_wp_cgroup_oom_kills(const struct wp_cgroups *groups, const char *name)
{
    assert_ptr_equal(groups, &rig.groups);
    assert_string_equal(name, rig.sandbox.name);
    return rig.oom_kills;
}

/* --- The system --- */

const struct wp_clock *__wrap_wp_clock_system(void);
void __wrap_wp_log_emit(enum wp_log_level level, const char *event,
                        const struct wp_kv *kvs);
int __real_close(int fd);
int __wrap_close(int fd);
ssize_t __wrap_send(int fd, const void *bytes, size_t len, int flags);
ssize_t __wrap_recv(int fd, void *out, size_t cap, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __real_read(int fd, void *out, size_t cap);
ssize_t __wrap_read(int fd, void *out, size_t cap);
int __wrap_socket(int domain, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t len);
int __wrap_getsockopt(int fd, int level, int name, void *out, socklen_t *len);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
long __wrap_syscall(long number, ...);
void __wrap_explicit_bzero(void *bytes, size_t len);
/* What an optimizing build makes of it. */
void __wrap___explicit_bzero_chk(void *bytes, size_t len, size_t cap);

static int64_t
mono_ns(const struct wp_clock *clock)
{
    (void)clock;
    return rig.now_ns;
}

static int64_t
wall_ns(const struct wp_clock *clock)
{
    (void)clock;
    return rig.wall_ns;
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    static const struct wp_clock clock = {mono_ns, wall_ns};

    return &clock;
}

void
__wrap_wp_log_emit(enum wp_log_level level, const char *event,
                   const struct wp_kv *kvs)
{
    static const char *const levels[] = {"debug", "info", "warn", "error"};

    golden_add(&rig.seen, "log %s: %s", levels[level], event);
    for (; kvs->key != NULL; kvs++) {
        if (kvs->kind == WP_KV_STR) {
            golden_add(&rig.seen, ", %s '%.*s'", kvs->key, (int)kvs->str.len,
                       kvs->str.ptr);
        } else {
            golden_add(&rig.seen, ", %s %" PRId64, kvs->key, kvs->num);
        }
    }
    golden_add(&rig.seen, "\n");
}

static bool
is_real(int fd)
{
    return fd < FD_FIRST && (fd != 0 || rig_zero == 0);
}

int
__wrap_close(int fd)
{
    if (is_real(fd)) {
        return __real_close(fd);
    }
    rig_note("close %s", fd_name(fd));
    return 0;
}

static const char *
flags_text(int flags)
{
    static char text[64];

    (void)snprintf(text, sizeof text, "%s%s%s",
                   (flags & MSG_NOSIGNAL) != 0 ? " nosignal" : "",
                   (flags & MSG_DONTWAIT) != 0 ? " dontwait" : "",
                   (flags & MSG_CMSG_CLOEXEC) != 0 ? " cloexec" : "");
    return text;
}

ssize_t
__wrap_send(int fd, const void *bytes, size_t len, int flags)
{
    rig_note("send %s%s: '%.*s'", fd_name(fd), flags_text(flags), (int)len,
             (const char *)bytes);
    if (rig.send_answer != INT_MAX) {
        errno = EAGAIN;
        return rig.send_answer;
    }
    return (ssize_t)len;
}

/* NULL: there is nothing, or an error, which errno says. */
static const struct rig_piece *
next_piece(void)
{
    const struct rig_piece *piece;

    if (rig.pieces_at == rig.pieces_len) {
        errno = EAGAIN;
        return NULL;
    }
    piece = &rig.pieces[rig.pieces_at++];
    /* Where all is well, it is as some call before has left it. */
    errno = piece->error != 0 ? piece->error : EAGAIN;
    return piece->error != 0 ? NULL : piece;
}

static ssize_t
take(const char *how, int fd, void *out, size_t cap, const char *flags)
{
    const struct rig_piece *piece = next_piece();
    size_t len = piece == NULL ? 0 : piece->len < cap ? piece->len : cap;

    golden_add(&rig.seen, "%s %s, %zu bytes%s: ", how, fd_name(fd), cap, flags);
    if (piece == NULL) {
        int error = errno;

        golden_add(&rig.seen, "%s\n", strerror(error));
        errno = error;
        return -1;
    }
    golden_add(&rig.seen, "%zu\n", len);
    memcpy(out, piece->bytes, len);
    return (ssize_t)len;
}

ssize_t
__wrap_recv(int fd, void *out, size_t cap, int flags)
{
    return take("recv", fd, out, cap, flags_text(flags));
}

ssize_t
__wrap_read(int fd, void *out, size_t cap)
{
    return is_real(fd) ? __real_read(fd, out, cap)
                       : take("read", fd, out, cap, "");
}

static void
put_cmsg(struct msghdr *msg, int level, int type, const void *bytes, size_t len)
{
    struct cmsghdr *to =
        (struct cmsghdr *)((char *)msg->msg_control + msg->msg_controllen);

    to->cmsg_level = level;
    to->cmsg_type = type;
    to->cmsg_len = CMSG_LEN(len);
    memcpy(CMSG_DATA(to), bytes, len);
    msg->msg_controllen += CMSG_SPACE(len);
}

ssize_t
__wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
    const struct rig_piece *piece;
    const int fds[] = {RIG_PASSED, RIG_PASSED_TOO};
    struct ucred cred = {.uid = 1, .gid = 2};
    bool fds_due;
    ssize_t n;

    assert_int_equal(msg->msg_iovlen, 1);
    assert_int_equal(msg->msg_controllen,
                     CMSG_SPACE(sizeof cred) + CMSG_SPACE(sizeof(int)));
    n = take("recvmsg", fd, msg->msg_iov->iov_base, msg->msg_iov->iov_len,
             flags_text(flags));
    if (n < 0) {
        return n;
    }
    piece = &rig.pieces[rig.pieces_at - 1];
    cred.pid = piece->pid;
    fds_due = piece->fds > 0;
    msg->msg_controllen = 0;
    if (fds_due && piece->fds_first) {
        put_cmsg(msg, SOL_SOCKET, SCM_RIGHTS, fds,
                 (size_t)piece->fds * sizeof fds[0]);
        fds_due = false;
    }
    if (piece->pid != 0) {
        put_cmsg(msg, SOL_SOCKET, SCM_CREDENTIALS, &cred, sizeof cred);
    }
    if (fds_due) {
        put_cmsg(msg, SOL_SOCKET, SCM_RIGHTS, fds,
                 (size_t)piece->fds * sizeof fds[0]);
    }
    return n;
}

int
__wrap_socket(int domain, int type, int protocol)
{
    rig_note("socket %s%s%s%s %d", domain == AF_UNIX ? "unix" : "?",
             (type & 0xf) == SOCK_STREAM ? " stream" : " ?",
             (type & SOCK_CLOEXEC) != 0 ? " cloexec" : "",
             (type & SOCK_NONBLOCK) != 0 ? " nonblock" : "", protocol);
    return rig.socket_answer;
}

int
__wrap_connect(int fd, const struct sockaddr *address, socklen_t len)
{
    const struct sockaddr_un *to = (const void *)address;

    assert_int_equal(len, sizeof *to);
    rig_note("connect %s to '%s'%s", fd_name(fd), to->sun_path,
             to->sun_family == AF_UNIX ? "" : "?");
    return rig.connect_answer;
}

int
__wrap_getsockopt(int fd, int level, int name, void *out, socklen_t *len)
{
    assert_int_equal(*len, sizeof rig.listens);
    rig_note("getsockopt %s%s", fd_name(fd),
             level == SOL_SOCKET && name == SO_ACCEPTCONN ? "" : " ?");
    memcpy(out, &rig.listens, sizeof rig.listens);
    return rig.listens < 0 ? -1 : 0;
}

int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
    assert_int_equal(n, 1);
    rig_note("poll %s, %s, %d ms: %d", fd_name(fds[0].fd),
             fds[0].events == POLLRDHUP ? "rdhup" : "?", timeout_ms,
             rig.poll_answer);
    return rig.poll_answer;
}

int
__wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    rig_note("waitid %s%s%s%s", fd_name((int)id), type == P_PIDFD ? "" : " ?",
             (options & WEXITED) != 0 ? " exited" : "",
             (options & WNOHANG) != 0 ? " nohang" : "");
    *info = rig.info;
    return rig.waitid_answer;
}

long
__wrap_syscall(long number, ...)
{
    va_list ap;
    pid_t pid;
    unsigned flags;

    va_start(ap, number);
    pid = va_arg(ap, pid_t);
    flags = va_arg(ap, unsigned);
    va_end(ap);
    rig_note("%s %d, %u: %s",
             number == SYS_pidfd_open ? "pidfd_open" : "another call", (int)pid,
             flags, fd_name(rig.pidfd_answer));
    return rig.pidfd_answer;
}

void
__wrap_explicit_bzero(void *bytes, size_t len)
{
    rig_note("wipe %zu bytes", len);
    memset(bytes, 0, len);
}

void
__wrap___explicit_bzero_chk(void *bytes, size_t len, size_t cap)
{
    assert_true(len <= cap);
    __wrap_explicit_bzero(bytes, len);
}

/* --- The sandbox --- */

static void
on_ready(void *ctx, struct wp_slot_ref ref, struct wp_str endpoint)
{
    assert_ptr_equal(ctx, &rig);
    rig_note("ready: %u of %u at '%.*s'", ref.index, ref.generation,
             (int)endpoint.len, endpoint.ptr);
}

static void
on_used(void *ctx, struct wp_slot_ref ref, int64_t ttl_ns)
{
    assert_ptr_equal(ctx, &rig);
    rig_note("used: %u of %u, %" PRId64, ref.index, ref.generation, ttl_ns);
}

static enum wp_status
sign(void *ctx, struct wp_str sandbox, struct wp_str audience, int64_t ttl_ms,
     char token[WP_IDENTITY_TOKEN_MAX + 1], int64_t *expires_wall_ms,
     struct wp_err *err)
{
    assert_ptr_equal(ctx, &rig);
    rig_note("sign '%.*s' for '%.*s', %" PRId64, (int)sandbox.len, sandbox.ptr,
             (int)audience.len, audience.ptr, ttl_ms);
    if (rig.sign_answer != WP_OK) {
        return wp_err_set(err, rig.sign_answer, "no key");
    }
    (void)snprintf(token, WP_IDENTITY_TOKEN_MAX + 1, "%s", rig.token);
    *expires_wall_ms = rig.sign_until_ms;
    return WP_OK;
}

void
rig_reset(enum wp_sandbox_state state)
{
    struct wp_sandbox *sandbox = &rig.sandbox;
    struct golden seen = rig.seen;

    memset(&rig, 0, sizeof rig);
    rig.seen = seen;
    wp_log_configure(WP_LOG_DEBUG, WP_LOG_TEXT);
    rig.now_ns = 5000 * WP_NS_PER_S;
    rig.wall_ns = 1800000000 * WP_NS_PER_S;
    rig.send_answer = INT_MAX;
    rig.socket_answer = RIG_BRIDGE;
    rig.pidfd_answer = RIG_INNER;
    rig.listens = 1;
    rig.can_freeze = true;
    rig.freezes = true;
    rig.token = "token";
    rig.lt.tmpl = &rig.tmpl;
    rig.local.config.probe_failures = 3;
    rig.local.loop = (struct wp_loop *)&rig.tmpl;
    rig.local.egress = (struct wp_egress_proxy *)&rig.lt;
    rig.local.events = (struct wp_local_events){
        .ctx = &rig, .on_ready = on_ready, .on_used = on_used, .sign = sign};
    sandbox->local = &rig.local;
    sandbox->tmpl = &rig.lt;
    sandbox->groups = &rig.groups;
    sandbox->state = state;
    sandbox->ref = (struct wp_slot_ref){.index = 7, .generation = 3};
    sandbox->has_group = true;
    sandbox->control_fd = RIG_CONTROL;
    sandbox->inner_fd = RIG_INNER;
    sandbox->outer_fd = RIG_OUTER;
    sandbox->stderr_fd = RIG_STDERR;
    sandbox->bridge_fd = -1;
    sandbox->door_fd = -1;
    (void)snprintf(sandbox->name, sizeof sandbox->name, "pool-x1");
    (void)snprintf(sandbox->socket_path, sizeof sandbox->socket_path,
                   "/s/pool-x1/sock");
    wp_list_init(&sandbox->binds);
}

void
rig_dump(void)
{
    const struct wp_sandbox *s = &rig.sandbox;

    rig_note("  state %d%s%s%s%s%s%s%s%s; failures %u, oom %" PRIu64
             ", tries %u, reply %u, inner %d %" PRIu64 ", fds%s%s%s%s%s%s%s",
             (int)s->state, s->lost ? " lost" : "", s->opened ? " opened" : "",
             s->asked ? " asked" : "", s->reading ? " reading" : "",
             s->frozen ? " frozen" : "", s->looking ? " looking" : "",
             s->outlives ? " outlives" : "", s->kill_due ? " kill_due" : "",
             s->failures, s->oom_kills, s->bridge_tries, s->reply_len,
             (int)s->inner_pid, s->inner_start,
             s->control_fd >= 0 ? " control" : "",
             s->inner_fd >= 0 ? " inner" : "", s->outer_fd >= 0 ? " outer" : "",
             s->stderr_fd >= 0 ? " stderr" : "",
             s->bridge_fd >= 0 ? " bridge" : "", s->door_fd >= 0 ? " door" : "",
             s->egress_member != NULL ? " egress" : "");
    if (s->stderr_len > 0) {
        rig_note("  stderr %u '%s'", s->stderr_len, s->stderr_text);
    }
    if (s->freeze_after_ms != 0 || s->lease_ms != 0 || s->looked_ns != 0) {
        rig_note("  freeze after %" PRId64 ", lease %" PRId64
                 ", looked %" PRId64 ", idle %" PRId64 ", frozen %u of %llu",
                 s->freeze_after_ms, s->lease_ms, s->looked_ns, s->idle_ms,
                 atomic_load(&rig.local.frozen),
                 atomic_load(&rig.local.frozen_total));
    }
    if (s->audience[0] != '\0') {
        rig_note("  identity for '%s', %" PRId64 "%s, until %" PRId64
                 ", due %" PRId64 ", offset %" PRId64,
                 s->audience, s->identity_ttl_ms,
                 s->identity_unrecorded ? ", unrecorded" : "",
                 s->identity_until_ms, s->identity_due_ns,
                 s->identity_offset_ns);
    }
}
