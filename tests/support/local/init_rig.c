#include "tests/support/local/init_rig.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/control.h"
#include "tests/support/base/temp_dir.h"

enum {
    PATIENCE_S = 60,
    ARGS_MAX = 24,
};

void
init_rig_be_patient(int fd)
{
    const struct timeval limit = {.tv_sec = PATIENCE_S};

    assert_int_equal(
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
}

/* An abstract name, chosen by the kernel. */
static int
listen_unix(int type, struct sockaddr_un *address)
{
    socklen_t len = sizeof(sa_family_t);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    assert_int_equal(bind(fd, (struct sockaddr *)address, len), 0);
    assert_int_equal(listen(fd, 4), 0);
    return fd;
}

void
init_rig_init(struct init_rig *rig)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_un outer;
    socklen_t len = sizeof v4;
    int pair[2];

    memset(rig, 0, sizeof *rig);
    rig->programs = -1;
    temp_dir_make(rig->dir, sizeof rig->dir);
    (void)snprintf(rig->fifo, sizeof rig->fifo, "%s/fifo", rig->dir);
    assert_int_equal(mkfifo(rig->fifo, 0600), 0);
    rig->fifo_fd = open(rig->fifo, O_RDWR | O_CLOEXEC);
    assert_true(rig->fifo_fd >= 0);
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    rig->control = pair[0];
    rig->peer = pair[1];
    init_rig_be_patient(rig->control);
    rig->outer = listen_unix(SOCK_STREAM, &outer);
    rig->rejoin = listen_unix(SOCK_SEQPACKET, &rig->rejoin_address);
    rig->inner = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(rig->inner, (struct sockaddr *)&v4, sizeof v4), 0);
    assert_int_equal(getsockname(rig->inner, (struct sockaddr *)&v4, &len), 0);
    rig->port = ntohs(v4.sin_port);
    init_rig_be_patient(rig->inner);
}

static void
pass_on(int fd)
{
    (void)fcntl(fd, F_SETFD, 0);
}

void
init_rig_start(struct init_rig *rig, const char *http, const char *program,
               const char *script)
{
    char numbers[5][12];
    char *argv[ARGS_MAX] = {"warmpool-init",    "--listen", numbers[0],
                            "--control",        numbers[1], "--rejoin",
                            numbers[2],         "--port",   numbers[3],
                            "--confines-itself"};
    size_t n = 10;

    (void)snprintf(numbers[0], sizeof numbers[0], "%d", rig->outer);
    (void)snprintf(numbers[1], sizeof numbers[1], "%d", rig->peer);
    (void)snprintf(numbers[2], sizeof numbers[2], "%d", rig->rejoin);
    (void)snprintf(numbers[3], sizeof numbers[3], "%u", rig->port);
    if (rig->programs >= 0) {
        (void)snprintf(numbers[4], sizeof numbers[4], "%d", rig->programs);
        argv[n++] = "--programs";
        argv[n++] = numbers[4];
    }
    if (rig->bound) {
        argv[n++] = "--bound";
        argv[n++] = rig->dir;
        argv[n++] = "--workspace";
        argv[n++] = rig->dir;
    }
    if (http != NULL) {
        argv[n++] = "--http";
        argv[n++] = (char *)(uintptr_t)http;
    }
    argv[n++] = "--";
    argv[n++] = (char *)(uintptr_t)program;
    if (script != NULL) {
        argv[n++] = "-c";
        argv[n++] = (char *)(uintptr_t)script;
        argv[n++] = "sh";
        argv[n++] = rig->fifo;
    }
    rig->pid = fork();
    assert_true(rig->pid >= 0);
    if (rig->pid == 0) {
        pass_on(rig->outer);
        pass_on(rig->peer);
        pass_on(rig->rejoin);
        if (rig->programs >= 0) {
            pass_on(rig->programs);
        }
        (void)execv(WP_TEST_INIT, argv);
        _exit(99);
    }
    (void)close(rig->peer);
}

void
init_rig_expect(int fd, char what, const char *text)
{
    char message[WP_CONTROL_MAX + 1];
    ssize_t n = recv(fd, message, WP_CONTROL_MAX, 0);

    assert_true(n > 0);
    message[n] = '\0';
    assert_int_equal(message[0], what);
    if (text != NULL) {
        assert_string_equal(message + 1, text);
    }
}

const char *
init_rig_path(const struct init_rig *rig, const char *name)
{
    static char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", rig->dir, name);
    return path;
}

void
init_rig_say(int fd, char what)
{
    assert_int_equal(send(fd, &what, 1, MSG_NOSIGNAL), 1);
}

int
init_rig_exit_status(const struct init_rig *rig)
{
    int status;
    pid_t ended = 0;

    for (int i = 0; i < 1000 * PATIENCE_S && ended == 0; i++) {
        ended = waitpid(rig->pid, &status, WNOHANG);
        (void)usleep(ended == 0 ? 1000 : 0);
    }
    if (ended == 0) {
        (void)kill(rig->pid, SIGKILL);
        fail_msg("init does not end");
    }
    assert_int_equal(ended, rig->pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

void
init_rig_fini(struct init_rig *rig)
{
    const int fds[] = {rig->fifo_fd, rig->control, rig->outer, rig->rejoin,
                       rig->inner};

    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        (void)close(fds[i]);
    }
    temp_dir_remove(rig->dir);
}
