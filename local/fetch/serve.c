#include "local/fetch/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "local/fetch/run.h"
#include "local/walls/landlock.h"
#include "pool/base/assert.h"
#include "pool/base/compiler.h"
#include "proto/checkout/fetch_message.h"
#include "proto/checkout/fetch_report.h"
#include "proto/sockets/passing.h"

enum {
    PEERS_MAX = 32, /* Connections; more wait in the listen queue. */
    ASK_WITHIN_MS = 5000,
};

/*   accepted --message--> running --report, exit--> closed
 *       |                    '- the peer has gone: killed, then closed
 *       '- no message in time: closed                        */
struct peer {
    int fd;            /* -1: there is none. */
    pid_t pid;         /* 0: not running. */
    int64_t ask_by_ms; /* Not running: when it has waited too long. */
    char part[WP_FETCH_PART_MAX + 1]; /* Running; "": a sweep. */
};

struct server {
    int listen_fd;
    int signal_fd;
    int cache_fd;
    sigset_t signals; /* What it began with. */
    struct peer peers[PEERS_MAX];
};

static int64_t
now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void
refuse(int fd, const char *why)
{
    (void)wp_fetch_report(fd, WP_FETCH_FAILED, why, -1);
}

/* --- The process --- */

static bool
confine(const char *part)
{
    static const char *const readable[] = {
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib32",
        "/lib64",
        "/proc",
        "/etc/ssl",
        "/etc/hosts",
        "/etc/ca-certificates",
        "/etc/gai.conf",
        "/etc/resolv.conf",
        "/etc/host.conf",
        "/etc/nsswitch.conf",
        "/etc/ld.so.cache",
        "/dev/urandom",
    };
    const char *const writable[] = {part, "/dev/null"};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           wp_landlock_confine_to(readable, WP_ARRAY_LEN(readable), writable,
                                  WP_ARRAY_LEN(writable)) == 0;
}

/* Descriptors 3 and 4 are what they are to be, and there are no others. */
static bool
place(int connection, int credential)
{
    int high = fcntl(credential, F_DUPFD, WP_FETCH_CREDENTIAL_FD + 1);

    return high >= 0 && dup2(connection, WP_FETCH_REPORT_FD) >= 0 &&
           dup2(high, WP_FETCH_CREDENTIAL_FD) >= 0 &&
           close_range(WP_FETCH_CREDENTIAL_FD + 1, ~0U, 0) == 0;
}

WP_NORETURN static void
become(const struct server *self, const struct wp_fetch_run *run,
       int connection, int credential)
{
    const char *where = ".";
    int status;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)sigprocmask(SIG_SETMASK, &self->signals, NULL);
    if (run->part != NULL) {
        where = run->part;
        if (mkdirat(self->cache_fd, where, 0700) != 0 && errno != EEXIST) {
            refuse(connection, "the cache cannot be written");
            _exit(EXIT_FAILURE);
        }
    }
    if (fchdir(self->cache_fd) != 0 || chdir(where) != 0 || !confine(".") ||
        !place(connection, credential)) {
        refuse(connection, "it cannot be confined");
        _exit(EXIT_FAILURE);
    }
    status = run->part != NULL
                 ? wp_fetch_checkout(run->url, run->ref, run->bytes_max)
                 : wp_fetch_sweep(run->bytes_max, run->age_s);
    _exit(status);
}

/* --- Connections --- */

static void
peer_close(struct peer *peer)
{
    (void)close(peer->fd);
    *peer = (struct peer){.fd = -1};
}

/* Its group has git in it. */
static void
peer_kill(const struct peer *peer)
{
    if (kill(-peer->pid, SIGKILL) != 0) {
        (void)kill(peer->pid, SIGKILL); /* It has no group yet. */
    }
}

static void
peer_ask(struct server *self, struct peer *peer)
{
    char bytes[WP_FETCH_MESSAGE_MAX];
    struct wp_fetch_run run;
    int credential = -1;
    ssize_t n = wp_passing_receive(peer->fd, bytes, sizeof bytes, &credential);

    if (n <= 0 || credential < 0 ||
        !wp_fetch_message_read(bytes, (size_t)n, &run)) {
        if (n > 0) {
            refuse(peer->fd, "what was asked is not understood");
        }
        if (credential >= 0) {
            (void)close(credential);
        }
        peer_close(peer);
        return;
    }
    (void)snprintf(peer->part, sizeof peer->part, "%s",
                   run.part != NULL ? run.part : "");
    peer->pid = fork();
    if (peer->pid == 0) {
        become(self, &run, peer->fd, credential);
    }
    (void)close(credential);
    if (peer->pid < 0) {
        refuse(peer->fd, "no process can be started");
        peer_close(peer);
    }
}

static void
on_peer(struct server *self, struct peer *peer, short what)
{
    char nothing[1];

    if (peer->pid == 0) {
        peer_ask(self, peer);
    } else if ((what & (POLLHUP | POLLERR)) != 0 ||
               recv(peer->fd, nothing, sizeof nothing,
                    MSG_DONTWAIT | MSG_PEEK) >= 0) {
        peer_kill(peer); /* It has gone, or says what nobody asked it. */
    }
}

static void
on_connection(struct server *self)
{
    int fd = accept4(self->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    struct peer *peer = self->peers;

    if (fd < 0) {
        return;
    }
    /* There is a place: a full server does not listen. */
    while (peer->fd >= 0) {
        peer++;
        WP_ASSERT(peer < self->peers + PEERS_MAX);
    }
    *peer = (struct peer){.fd = fd, .ask_by_ms = now_ms() + ASK_WITHIN_MS};
}

/* A part that nothing was put into goes, unless another fills it. */
static void
drop_part(const struct server *self, const struct peer *of)
{
    for (size_t i = 0; i < PEERS_MAX; i++) {
        const struct peer *other = &self->peers[i];

        if (other != of && strcmp(other->part, of->part) == 0) {
            return;
        }
    }
    (void)unlinkat(self->cache_fd, of->part, AT_REMOVEDIR);
}

static void
reap(struct server *self)
{
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
        for (size_t i = 0; i < PEERS_MAX; i++) {
            struct peer *peer = &self->peers[i];

            if (peer->pid == pid) {
                (void)kill(-pid, SIGKILL); /* What is left of its group. */
                if (peer->part[0] != '\0') {
                    drop_part(self, peer);
                }
                peer_close(peer);
            }
        }
    }
}

/* False: it is to end. */
static bool
on_signal(struct server *self)
{
    struct signalfd_siginfo info;

    if (read(self->signal_fd, &info, sizeof info) != sizeof info) {
        return true;
    }
    if (info.ssi_signo != SIGCHLD) {
        return false;
    }
    reap(self);
    return true;
}

/* Closes who says nothing; gives how long to wait for the next of them, -1:
 * there is none. */
static int
look_at_clock(struct server *self)
{
    int64_t now = now_ms();
    int64_t next = -1;

    for (size_t i = 0; i < PEERS_MAX; i++) {
        struct peer *peer = &self->peers[i];

        if (peer->fd < 0 || peer->pid != 0) {
            continue;
        }
        if (peer->ask_by_ms <= now) {
            peer_close(peer);
        } else if (next < 0 || peer->ask_by_ms - now < next) {
            next = peer->ask_by_ms - now;
        }
    }
    return (int)next;
}

static bool
serve_once(struct server *self)
{
    struct pollfd polls[PEERS_MAX + 2];
    int wait = look_at_clock(self);
    bool full = true;

    for (size_t i = 0; i < PEERS_MAX; i++) {
        polls[i] = (struct pollfd){self->peers[i].fd, POLLIN, 0};
        full = full && self->peers[i].fd >= 0;
    }
    polls[PEERS_MAX] = (struct pollfd){self->signal_fd, POLLIN, 0};
    polls[PEERS_MAX + 1] =
        (struct pollfd){full ? -1 : self->listen_fd, POLLIN, 0};
    if (poll(polls, WP_ARRAY_LEN(polls), wait) < 0) {
        return errno == EINTR;
    }
    for (size_t i = 0; i < PEERS_MAX; i++) {
        if (self->peers[i].fd >= 0 && polls[i].revents != 0) {
            on_peer(self, &self->peers[i], polls[i].revents);
        }
    }
    if (polls[PEERS_MAX + 1].revents != 0) {
        on_connection(self);
    }
    return polls[PEERS_MAX].revents == 0 || on_signal(self);
}

/* --- Its life --- */

static int
fail(const char *what, const char *which)
{
    (void)fprintf(stderr, "warmpool-fetch: %s%s: %s\n", what, which,
                  strerror(errno));
    return EXIT_FAILURE;
}

/* -1 with errno. What was there before takes no connections any more. */
static int
listen_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd;

    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    (void)unlink(path);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof address) != 0 ||
        chmod(path, 0660) != 0 || listen(fd, PEERS_MAX) != 0) {
        return -1;
    }
    return fd;
}

static int
open_signals(struct server *self)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    if (sigprocmask(SIG_BLOCK, &set, &self->signals) != 0) {
        return -1;
    }
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int
wp_fetch_serve(const char *socket_path, const char *cache)
{
    static struct server self;

    for (size_t i = 0; i < PEERS_MAX; i++) {
        self.peers[i] = (struct peer){.fd = -1};
    }
    if (wp_landlock_abi() == 0) {
        errno = ENOSYS;
        return fail("Landlock", ", which keeps repositories apart");
    }
    if (access(WP_FETCH_GIT, X_OK) != 0) {
        return fail(WP_FETCH_GIT, "");
    }
    if (mkdir(cache, 0700) != 0 && errno != EEXIST) {
        return fail("the cache ", cache);
    }
    self.cache_fd = open(cache, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (self.cache_fd < 0 || access(cache, W_OK) != 0) {
        return fail("the cache ", cache);
    }
    self.signal_fd = open_signals(&self);
    if (self.signal_fd < 0) {
        return fail("signals", "");
    }
    self.listen_fd = listen_at(socket_path);
    if (self.listen_fd < 0) {
        return fail("the socket ", socket_path);
    }
    while (serve_once(&self)) {
    }
    for (size_t i = 0; i < PEERS_MAX; i++) {
        if (self.peers[i].pid > 0) {
            peer_kill(&self.peers[i]);
        }
    }
    (void)unlink(socket_path);
    return EXIT_SUCCESS;
}
