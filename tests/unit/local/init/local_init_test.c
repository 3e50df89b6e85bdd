/* tests/unit/local/init/local_init_test.c - warmpool-init as a plain process:
 * what it tells the daemon, what it does at the daemon's word, and how it ends.
 * Its program has no walls here (--confines-itself). */
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/parcel/parcel.h"
#include "local/control.h"
#include "tests/support/base/temp_dir.h"

enum {
    PATIENCE_S = 60,
    ARGS_MAX = 24,
};

/* One init, and what the daemon would hold. */
struct rig {
    char dir[64];
    char fifo[80]; /* `cat` of it lasts as long as the rig. */
    int fifo_fd;
    int control;
    int peer; /* init's end of control, while it starts. */
    int outer;
    int rejoin;
    int programs; /* -1: none. */
    struct sockaddr_un rejoin_address;
    int inner; /* The program's port; the test answers there. */
    in_port_t port;
    bool bound; /* Claims may bring something, into dir. */
    pid_t pid;
};

static void
be_patient(int fd)
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

static void
rig_init(struct rig *rig)
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
    be_patient(rig->control);
    rig->outer = listen_unix(SOCK_STREAM, &outer);
    rig->rejoin = listen_unix(SOCK_SEQPACKET, &rig->rejoin_address);
    rig->inner = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(rig->inner, (struct sockaddr *)&v4, sizeof v4), 0);
    assert_int_equal(getsockname(rig->inner, (struct sockaddr *)&v4, &len), 0);
    rig->port = ntohs(v4.sin_port);
    be_patient(rig->inner);
}

static void
pass_on(int fd)
{
    (void)fcntl(fd, F_SETFD, 0);
}

/* Starts it with that program; http: the path that is probed, or NULL. */
static void
rig_start(struct rig *rig, const char *http, const char *program,
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

/* The next message, all of it. */
static void
expect_message(int fd, char what, const char *text)
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

static const char *
rig_path(const struct rig *rig, const char *name)
{
    static char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", rig->dir, name);
    return path;
}

static void
say(int fd, char what)
{
    assert_int_equal(send(fd, &what, 1, MSG_NOSIGNAL), 1);
}

static int
exit_status(const struct rig *rig)
{
    int status;

    assert_int_equal(waitpid(rig->pid, &status, 0), rig->pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void
rig_fini(struct rig *rig)
{
    const int fds[] = {rig->fifo_fd, rig->control, rig->outer, rig->rejoin,
                       rig->inner};

    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        (void)close(fds[i]);
    }
    temp_dir_remove(rig->dir);
}

/* --- Started wrongly --- */

/* What it says on stderr; its status is 2. */
static void
expect_refusal(const char *option, const char *value, const char *text)
{
    char said[256] = "";
    int output[2];
    size_t len = 0;
    ssize_t n;
    int status;
    pid_t pid;

    assert_int_equal(pipe2(output, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)dup2(output[1], 2);
        (void)execl(WP_TEST_INIT, "warmpool-init", option, value, "sh",
                    (char *)NULL);
        _exit(99);
    }
    (void)close(output[1]);
    while (len < sizeof said - 1 &&
           (n = read(output[0], said + len, sizeof said - 1 - len)) > 0) {
        len += (size_t)n;
    }
    (void)close(output[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 2);
    assert_non_null(strstr(said, text));
}

static void
test_arguments(void **state)
{
    (void)state;
    expect_refusal("--listen", "3", "started by warmpoold only");
    expect_refusal("--control", "3", "started by warmpoold only");
    expect_refusal("--control", "x3", "not a number: x3");
    expect_refusal("--procs", "4294967296", "not a number: 4294967296");
    expect_refusal("--conns", "7 ", "not a number: 7 ");
    expect_refusal("--other", "3", "other");
}

static void
test_no_such_program(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig_start(&rig, NULL, "/no/such/program", NULL);
    expect_message(rig.control, WP_CONTROL_HELLO, "");
    expect_message(rig.control, WP_CONTROL_FAIL,
                   "cannot start '/no/such/program': No such file or "
                   "directory");
    assert_int_equal(exit_status(&rig), 1);
    rig_fini(&rig);
}

#define LASTING "exec cat \"$1\""

/* --- The end of the program --- */

static void
expect_end(const char *script, const char *text)
{
    struct rig rig;

    rig_init(&rig);
    rig_start(&rig, NULL, "/bin/sh", script);
    expect_message(rig.control, WP_CONTROL_HELLO, "");
    expect_message(rig.control, WP_CONTROL_EXIT, text);
    assert_int_equal(exit_status(&rig), 0);
    rig_fini(&rig);
}

/* How it ended and what it said last, on one line that can be printed. */
static void
test_last_words(void **state)
{
    char words[256];
    char script[512];
    size_t len = 0;

    (void)state;
    expect_end("exit 0", "exited with status 0");
    expect_end("echo one; printf '\\033 \\t two\\n' >&2; exit 3",
               "exited with status 3: one two");
    expect_end("kill -KILL $$", "killed by SIGKILL");
    /* Of many words the last; the room is 160 bytes, halved when it is full. */
    for (unsigned i = 0; i < 40; i++) {
        len += (size_t)snprintf(words + len, sizeof words - len, "w%03u ", i);
    }
    (void)snprintf(script, sizeof script, "printf '%s'; exit 1", words);
    expect_end(script,
               "exited with status 1: w008 w009 w010 w011 w012 w013 w014 w015 "
               "w016 w017 w018 w019 w020 w021 w022 w023 w024 w025 w026 w027 "
               "w028 w029 w030 w031 w032 w033 w034 w035 w036 w037 w038 w039");
    /* runsc's own failure: only the end, from a whole word on. */
    (void)snprintf(script, sizeof script, "printf '%s'; exit 128", words);
    expect_end(
        script,
        "exited with status 128: w027 w028 w029 w030 w031 w032 w033 w034 "
        "w035 w036 w037 w038 w039");
}

/* --- What a claim brings --- */

/* A parcel of one file, and the fingerprint it goes by. */
static void
send_parcel(int control, const char *fingerprint, const char *path)
{
    const struct wp_parcel_entry entry = {
        .kind = WP_PARCEL_FILE, .number = 0600, .first_len = strlen(path)};
    char ancillary[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = {0};
    char text[32];
    struct iovec iov = {text, (size_t)snprintf(text, sizeof text, "%c%s",
                                               WP_CONTROL_BIND, fingerprint)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = ancillary,
                         .msg_controllen = sizeof ancillary};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
    int fd = memfd_create("parcel", MFD_CLOEXEC);
    uint8_t head[WP_PARCEL_HEAD];

    wp_parcel_put_head(&entry, head);
    assert_int_equal(write(fd, head, sizeof head), sizeof head);
    assert_int_equal(write(fd, path, strlen(path)), strlen(path));
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    assert_int_equal(sendmsg(control, &msg, MSG_NOSIGNAL), iov.iov_len);
    (void)close(fd);
}

/* Once; a repeat is answered without a look at it, another is refused. What is
 * half bound goes at once, by KEEP or not. */
static void
test_bind(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig.bound = true;
    rig_start(&rig, NULL, "/bin/sh", LASTING);
    expect_message(rig.control, WP_CONTROL_HELLO, "");
    say(rig.control, WP_CONTROL_KEEP);
    send_parcel(rig.control, "0123", "brought");
    expect_message(rig.control, WP_CONTROL_BOUND, "");
    assert_int_equal(faccessat(AT_FDCWD, rig_path(&rig, "brought"), F_OK, 0),
                     0);
    send_parcel(rig.control, "0123", "../not/looked/at");
    expect_message(rig.control, WP_CONTROL_BOUND, "");
    send_parcel(rig.control, "4567", "other");
    expect_message(rig.control, WP_CONTROL_UNBOUND, "it has another binding");
    say(rig.control, WP_CONTROL_TERMINATE);
    expect_message(rig.control, WP_CONTROL_EXIT, "killed by SIGTERM");
    assert_int_equal(exit_status(&rig), 0);
    rig_fini(&rig);
}

static void
test_half_bound(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig.bound = true;
    rig_start(&rig, NULL, "/bin/sh", LASTING);
    expect_message(rig.control, WP_CONTROL_HELLO, "");
    say(rig.control, WP_CONTROL_KEEP);
    send_parcel(rig.control, "0123", "../out");
    expect_message(rig.control, WP_CONTROL_UNBOUND,
                   "file '../out': Invalid argument");
    assert_int_equal(exit_status(&rig), 0);
    rig_fini(&rig);
}

/* Nor does it leave where nothing can be bound. */
static void
test_cannot_be_bound(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig_start(&rig, NULL, "/bin/sh", LASTING);
    expect_message(rig.control, WP_CONTROL_HELLO, "");
    send_parcel(rig.control, "0123", "a");
    expect_message(rig.control, WP_CONTROL_UNBOUND,
                   "its runtime class keeps its files");
    say(rig.control, WP_CONTROL_TERMINATE);
    expect_message(rig.control, WP_CONTROL_EXIT, "killed by SIGTERM");
    assert_int_equal(exit_status(&rig), 0);
    rig_fini(&rig);
}

/* --- At the daemon's word --- */

/* The daemon's channel closes: all is over, unless it said otherwise. */
static void
test_ends_with_its_daemon(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    rig_start(&rig, NULL, "/bin/sh", LASTING);
    expect_message(rig.control, WP_CONTROL_HELLO, "");
    assert_int_equal(shutdown(rig.control, SHUT_RDWR), 0);
    assert_int_equal(exit_status(&rig), 0);
    rig_fini(&rig);
}

static void
test_terminate(void **state)
{
    struct rig rig;

    (void)state;
    for (int by_signal = 0; by_signal < 2; by_signal++) {
        rig_init(&rig);
        assert_int_equal(listen(rig.inner, 4), 0);
        rig_start(&rig, NULL, "/bin/sh", LASTING);
        expect_message(rig.control, WP_CONTROL_HELLO, "");
        expect_message(rig.control, WP_CONTROL_OPEN, "");
        if (by_signal != 0) {
            assert_int_equal(kill(rig.pid, SIGTERM), 0);
        } else {
            say(rig.control, WP_CONTROL_TERMINATE);
        }
        expect_message(rig.control, WP_CONTROL_EXIT, "killed by SIGTERM");
        assert_int_equal(exit_status(&rig), 0);
        rig_fini(&rig);
    }
}

/* The next daemon takes the first one's place. */
static void
test_rejoin(void **state)
{
    struct rig rig;
    socklen_t len = sizeof rig.rejoin_address;
    char byte;
    int next[2];

    (void)state;
    rig_init(&rig);
    assert_int_equal(listen(rig.inner, 4), 0);
    rig_start(&rig, NULL, "/bin/sh", LASTING);
    expect_message(rig.control, WP_CONTROL_HELLO, "");
    expect_message(rig.control, WP_CONTROL_OPEN, "");
    say(rig.control, WP_CONTROL_KEEP);
    assert_int_equal(shutdown(rig.control, SHUT_WR), 0);
    assert_int_equal(recv(rig.control, &byte, 1, 0), 0); /* Heard. */
    assert_int_equal(
        getsockname(rig.rejoin, (struct sockaddr *)&rig.rejoin_address, &len),
        0);
    for (int i = 0; i < 2; i++) {
        next[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        be_patient(next[i]);
        assert_int_equal(
            connect(next[i], (struct sockaddr *)&rig.rejoin_address, len), 0);
        say(next[i], WP_CONTROL_PROBE);
        expect_message(next[i], WP_CONTROL_ANSWERS, "");
    }
    /* Of two the later. */
    assert_int_equal(recv(next[0], &byte, 1, 0), 0);
    say(next[1], WP_CONTROL_TERMINATE);
    expect_message(next[1], WP_CONTROL_EXIT, "killed by SIGTERM");
    assert_int_equal(exit_status(&rig), 0);
    for (int i = 0; i < 2; i++) {
        (void)close(next[i]);
    }
    rig_fini(&rig);
}

/* --- Init containers, and a probe that is a program --- */

/* A shell's script as one of them; env NULL: init's own. */
static void
add_program(struct rig *rig, const char *kind, const char *timeout_s,
            const char *script, const char *env)
{
    const char *const texts[] = {kind, "its-name", timeout_s, rig->dir,
                                 "3",  "/bin/sh",  "-c",      script};

    if (rig->programs < 0) {
        rig->programs = memfd_create("programs", MFD_CLOEXEC);
        assert_true(rig->programs >= 0);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_true(write(rig->programs, texts[i], strlen(texts[i]) + 1) > 0);
    }
    if (env != NULL) {
        assert_true(write(rig->programs, "1", 2) == 2);
        assert_true(write(rig->programs, env, strlen(env) + 1) > 0);
    } else {
        assert_true(write(rig->programs, "0", 2) == 2);
    }
}

/* One after the other, in their order, each to its end, and then the command;
 * with a directory and variables of their own. */
static void
test_init_containers(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    add_program(&rig, "init", "0", "sleep 0.2; echo $A >one", "A=first");
    add_program(&rig, "init", "0", "echo $A >>one; pwd >>one", "A=second");
    rig_start(&rig, NULL, "/bin/sh", "tr '\\n' ' ' <\"${1%fifo}one\"; exit 5");
    expect_message(rig.control, WP_CONTROL_HELLO, "");
    {
        char text[160];

        (void)snprintf(text, sizeof text,
                       "exited with status 5: first second %s", rig.dir);
        expect_message(rig.control, WP_CONTROL_EXIT, text);
    }
    assert_int_equal(exit_status(&rig), 0);
    (void)close(rig.programs);
    rig_fini(&rig);
}

static void
test_an_init_container_fails(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    add_program(&rig, "init", "0", "echo no key; exit 4", "A=b");
    rig_start(&rig, NULL, "/bin/sh", "exit 5");
    expect_message(rig.control, WP_CONTROL_HELLO, "");
    expect_message(rig.control, WP_CONTROL_FAIL,
                   "init container 'its-name' exited with status 4: no key");
    assert_int_equal(exit_status(&rig), 1);
    (void)close(rig.programs);
    rig_fini(&rig);
}

/* What makes no sense is refused whole. */
static void
test_broken_programs(void **state)
{
    static const char *const broken[] = {"init", "other", "probe\0a"};

    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct rig rig;

        rig_init(&rig);
        rig.programs = memfd_create("programs", MFD_CLOEXEC);
        assert_true(write(rig.programs, broken[i], strlen(broken[i]) + 1) > 0);
        rig_start(&rig, NULL, "/bin/sh", "exit 5");
        expect_message(rig.control, WP_CONTROL_HELLO, "");
        expect_message(rig.control, WP_CONTROL_FAIL,
                       "programs: Invalid argument");
        assert_int_equal(exit_status(&rig), 1);
        (void)close(rig.programs);
        rig_fini(&rig);
    }
}

/* Its status counts first, then the port; one that hangs is ended. */
static void
test_exec_probe(void **state)
{
    struct rig rig;
    char path[96];
    int fd;

    (void)state;
    rig_init(&rig);
    assert_int_equal(listen(rig.inner, 4), 0);
    add_program(&rig, "probe", "1",
                "test ! -e hang || exec sleep 1000; echo >>asked; test -e good",
                NULL);
    rig_start(&rig, NULL, "/bin/sh", LASTING);
    expect_message(rig.control, WP_CONTROL_HELLO, "");
    (void)snprintf(path, sizeof path, "%s/asked", rig.dir);
    while (access(path, F_OK) != 0) {
        (void)usleep(1000);
    }
    (void)snprintf(path, sizeof path, "%s/good", rig.dir);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    expect_message(rig.control, WP_CONTROL_OPEN, "");
    say(rig.control, WP_CONTROL_PROBE);
    expect_message(rig.control, WP_CONTROL_ANSWERS, "");
    assert_int_equal(unlink(path), 0);
    say(rig.control, WP_CONTROL_PROBE);
    expect_message(rig.control, WP_CONTROL_SILENT, "");
    (void)snprintf(path, sizeof path, "%s/hang", rig.dir);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    say(rig.control, WP_CONTROL_PROBE);
    expect_message(rig.control, WP_CONTROL_SILENT, "");
    say(rig.control, WP_CONTROL_TERMINATE);
    expect_message(rig.control, WP_CONTROL_EXIT, "killed by SIGTERM");
    assert_int_equal(exit_status(&rig), 0);
    (void)close(rig.programs);
    rig_fini(&rig);
}

/* --- Probes --- */

/* The program's answer to the next request; NULL: none, for as long as init
 * waits. */
static void
answer(const struct rig *rig, const char *text)
{
    char request[512];
    int fd = accept(rig->inner, NULL, NULL);
    ssize_t n;

    assert_true(fd >= 0);
    be_patient(fd);
    n = recv(fd, request, sizeof request - 1, 0);
    assert_true(n > 0);
    request[n] = '\0';
    assert_non_null(strstr(request, "GET /healthz HTTP/1.1\r\n"));
    if (text != NULL) {
        assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL),
                         (long)strlen(text));
    } else {
        assert_int_equal(recv(fd, request, sizeof request, 0), 0);
    }
    (void)close(fd);
}

/* It opens when the program answers well, not before; later it tells what is,
 * whenever it is asked. After a failure it tries the other address, ::1, where
 * nobody is. */
static void
test_http_probes(void **state)
{
    struct rig rig;

    (void)state;
    rig_init(&rig);
    assert_int_equal(listen(rig.inner, 4), 0);
    rig_start(&rig, "/healthz", "/bin/sh", LASTING);
    expect_message(rig.control, WP_CONTROL_HELLO, "");
    answer(&rig, "HTTP/1.1 503 Not yet\r\n\r\n");
    answer(&rig, "what?");
    answer(&rig, "HTTP/1.1 200 OK\r\n\r\n");
    expect_message(rig.control, WP_CONTROL_OPEN, "");
    say(rig.control, WP_CONTROL_PROBE);
    answer(&rig, "HTTP/1.1 204 Fine\r\n\r\n");
    expect_message(rig.control, WP_CONTROL_ANSWERS, "");
    say(rig.control, WP_CONTROL_PROBE);
    answer(&rig, "HTTP/1.1 500 No\r\n\r\n");
    expect_message(rig.control, WP_CONTROL_SILENT, "");
    say(rig.control, WP_CONTROL_PROBE); /* Of ::1. */
    expect_message(rig.control, WP_CONTROL_SILENT, "");
    say(rig.control, WP_CONTROL_PROBE);
    answer(&rig, NULL);
    expect_message(rig.control, WP_CONTROL_SILENT, "");
    say(rig.control, WP_CONTROL_PROBE);
    expect_message(rig.control, WP_CONTROL_SILENT, "");
    say(rig.control, WP_CONTROL_PROBE);
    answer(&rig, "HTTP/1.1 200 OK\r\n\r\n");
    expect_message(rig.control, WP_CONTROL_ANSWERS, "");
    say(rig.control, WP_CONTROL_TERMINATE);
    expect_message(rig.control, WP_CONTROL_EXIT, "killed by SIGTERM");
    assert_int_equal(exit_status(&rig), 0);
    rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_no_such_program),
        cmocka_unit_test(test_last_words),
        cmocka_unit_test(test_bind),
        cmocka_unit_test(test_half_bound),
        cmocka_unit_test(test_cannot_be_bound),
        cmocka_unit_test(test_ends_with_its_daemon),
        cmocka_unit_test(test_terminate),
        cmocka_unit_test(test_rejoin),
        cmocka_unit_test(test_init_containers),
        cmocka_unit_test(test_an_init_container_fails),
        cmocka_unit_test(test_broken_programs),
        cmocka_unit_test(test_exec_probe),
        cmocka_unit_test(test_http_probes),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
