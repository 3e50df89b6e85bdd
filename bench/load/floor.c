#include "bench/load/floor.h"

#include <errno.h>
#include <signal.h>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/load/procs.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

enum {
    MESSAGE_MAX = 4096
};

/* A connected pair of TCP sockets over the loopback. */
static bool
tcp_pair(int fds[2])
{
    struct sockaddr_in addr = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    bool ok;

    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    fds[1] = -1;
    ok = listener >= 0 && fds[0] >= 0 &&
         bind(listener, (struct sockaddr *)&addr, sizeof(addr)) == 0 &&
         listen(listener, 1) == 0 &&
         getsockname(listener, (struct sockaddr *)&addr, &len) == 0 &&
         connect(fds[0], (struct sockaddr *)&addr, sizeof(addr)) == 0;
    if (ok) {
        fds[1] = accept(listener, NULL, NULL);
        ok = fds[1] >= 0;
    }
    for (int i = 0; ok && i < 2; i++) {
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    if (listener >= 0) {
        close(listener);
    }
    return ok;
}

static bool
transfer(int fd, char *buf, size_t len, bool out)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = out ? send(fd, buf + done, len - done, MSG_NOSIGNAL)
                        : recv(fd, buf + done, len - done, 0);

        if (n <= 0 && !(n < 0 && errno == EINTR)) {
            return false;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Waits in epoll before each message, as any event-driven server does. */
static void
answer(int fd, const struct wp_floor_config *config)
{
    struct epoll_event event = {.events = EPOLLIN};
    char buf[MESSAGE_MAX] = {0};
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    wp_proc_pin(0, config->server_core);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
    while (epoll_wait(epoll_fd, &event, 1, -1) == 1 &&
           transfer(fd, buf, config->message_len, false) &&
           transfer(fd, buf, config->message_len, true)) {
    }
    _exit(0);
}

static bool
ask(int fd, const struct wp_floor_config *config, struct wp_hist *out)
{
    const struct wp_clock *clock = wp_clock_system();
    int64_t start_ns = wp_clock_mono_ns(clock);
    int64_t now = start_ns;
    char buf[MESSAGE_MAX] = {0};

    while (now < start_ns + config->run_ns) {
        int64_t sent_ns = now;

        if (!transfer(fd, buf, config->message_len, true) ||
            !transfer(fd, buf, config->message_len, false)) {
            return false;
        }
        now = wp_clock_mono_ns(clock);
        if (sent_ns > start_ns + config->run_ns / 10) {
            wp_hist_record(out, now - sent_ns);
        }
    }
    return true;
}

enum wp_status
wp_floor_run(const struct wp_floor_config *config, struct wp_hist *out,
             struct wp_err *err)
{
    int fds[2];
    bool ok;
    pid_t child;

    WP_ASSERT(config->message_len > 0 && config->message_len <= MESSAGE_MAX);
    wp_hist_reset(out);
    ok = config->tcp
             ? tcp_pair(fds)
             : socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0;
    if (!ok) {
        return wp_err_sys(err, WP_INTERNAL, errno, "socket pair");
    }
    child = fork();
    if (child == 0) {
        close(fds[0]);
        answer(fds[1], config);
    }
    close(fds[1]);
    wp_proc_pin(0, config->client_core);
    ok = child > 0 && ask(fds[0], config, out);
    close(fds[0]);
    if (child > 0) {
        waitpid(child, NULL, 0);
    }
    return ok ? WP_OK
              : wp_err_set(err, WP_INTERNAL, "the raw-socket child ended");
}
