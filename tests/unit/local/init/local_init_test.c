/* tests/unit/local/init/local_init_test.c - warmpool-init as a plain process:
 * what it tells the daemon, what it does at the daemon's word, and how it ends.
 * Its program has no walls here (--confines-itself). */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/parcel/parcel.h"
#include "local/control.h"
#include "proto/sockets/passing.h"
#include "tests/support/local/init_rig.h"

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
    struct init_rig rig;

    (void)state;
    init_rig_init(&rig);
    init_rig_start(&rig, NULL, "/no/such/program", NULL);
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    init_rig_expect(rig.control, WP_CONTROL_FAIL,
                    "cannot start '/no/such/program': No such file or "
                    "directory");
    assert_int_equal(init_rig_exit_status(&rig), 1);
    init_rig_fini(&rig);
}

/* A plain file in place of a socket: nothing would ever come from there, so it
 * ends at once, and says why, while the daemon still waits for it. */
static void
test_what_cannot_be_watched(void **state)
{
    static const char *const whys[] = {"epoll: Operation not permitted",
                                       "bridge: Operation not permitted"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(whys); i++) {
        struct init_rig rig;
        int *socket_fd;

        init_rig_init(&rig);
        socket_fd = i == 0 ? &rig.rejoin : &rig.outer;
        (void)close(*socket_fd);
        *socket_fd = memfd_create("file", MFD_CLOEXEC);
        assert_true(*socket_fd >= 0);
        init_rig_start(&rig, NULL, "/bin/sh", INIT_RIG_LASTING);
        init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
        init_rig_expect(rig.control, WP_CONTROL_FAIL, whys[i]);
        assert_int_equal(init_rig_exit_status(&rig), 1);
        init_rig_fini(&rig);
    }
}

/* --- The end of the program --- */

static void
expect_end(const char *script, const char *text)
{
    struct init_rig rig;

    init_rig_init(&rig);
    init_rig_start(&rig, NULL, "/bin/sh", script);
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    init_rig_expect(rig.control, WP_CONTROL_EXIT, text);
    assert_int_equal(init_rig_exit_status(&rig), 0);
    init_rig_fini(&rig);
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

/* That of a program that goes before its init, out of memory. */
static int
expected_oom_score(void)
{
    FILE *file = fopen("/proc/self/oom_score_adj", "re");
    char text[16] = "";
    int own;

    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    (void)fclose(file);
    own = (int)strtol(text, NULL, 10);
    return own > 500 ? own : 500;
}

/* Few descriptors, no core, a session and input of its own, no signal blocked,
 * and none of init's descriptors. Its score comes as soon as it runs. */
static void
test_what_a_program_starts_with(void **state)
{
    struct rlimit files;
    char text[256];

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    (void)snprintf(
        text, sizeof text,
        "exited with status 0: %llu %llu 0 0 %d /dev/null own "
        "SigBlk: 0000000000000000",
        (unsigned long long)(files.rlim_max < 1024 ? files.rlim_max : 1024),
        (unsigned long long)(files.rlim_max < 65536 ? files.rlim_max : 65536),
        expected_oom_score());
    expect_end("until read score </proc/$$/oom_score_adj && "
               "test $score -ge 500; do :; done; "
               "echo $(ulimit -Sn) $(ulimit -Hn) $(ulimit -Sc) $(ulimit -Hc) "
               "$score $(readlink /proc/self/fd/0); "
               "test $(cut -d' ' -f6 /proc/$$/stat) = $$ && echo own; "
               "grep SigBlk /proc/self/status; "
               "for i in 3 4 5 6 7 8 9 10 11 12; do "
               "test ! -e /proc/$$/fd/$i || echo fd$i; done",
               text);
}

/* --- What a claim brings --- */

/* Hands over a parcel's file, which is closed here. what: PARCEL or BIND. */
static void
send_file(int control, char what, const char *fingerprint, int fd)
{
    char ancillary[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = {0};
    char text[32];
    struct iovec iov = {
        text, (size_t)snprintf(text, sizeof text, "%c%s", what, fingerprint)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = ancillary,
                         .msg_controllen = sizeof ancillary};
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    assert_int_equal(sendmsg(control, &msg, MSG_NOSIGNAL), iov.iov_len);
    (void)close(fd);
}

/* One entry without a value, and the fingerprint it goes by. */
static void
send_entry(int control, char what, const char *fingerprint,
           enum wp_parcel_kind kind, const char *name)
{
    const struct wp_parcel_entry entry = {
        .kind = kind, .number = 0600, .first_len = strlen(name)};
    int fd = memfd_create("parcel", MFD_CLOEXEC);
    uint8_t head[WP_PARCEL_HEAD];

    wp_parcel_put_head(&entry, head);
    assert_int_equal(write(fd, head, sizeof head), sizeof head);
    assert_int_equal(write(fd, name, strlen(name)), strlen(name));
    send_file(control, what, fingerprint, fd);
}

static void
send_parcel(int control, const char *fingerprint, const char *path)
{
    send_entry(control, WP_CONTROL_BIND, fingerprint, WP_PARCEL_FILE, path);
}

static void
put_entry(int fd, enum wp_parcel_kind kind, const char *first,
          const char *second)
{
    const struct wp_parcel_entry entry = {
        .kind = kind, .first_len = strlen(first), .second_len = strlen(second)};
    uint8_t head[WP_PARCEL_HEAD];

    wp_parcel_put_head(&entry, head);
    assert_int_equal(write(fd, head, sizeof head), sizeof head);
    assert_int_equal(write(fd, first, strlen(first)), strlen(first));
    assert_int_equal(write(fd, second, strlen(second)), strlen(second));
}

/* A parcel of a variable, perhaps a folder, and a command's words. */
static void
send_command(int control, const char *dir, const char *const *words)
{
    int fd = memfd_create("parcel", MFD_CLOEXEC);

    put_entry(fd, WP_PARCEL_ENV, "A", "value");
    if (dir != NULL) {
        put_entry(fd, WP_PARCEL_DIR, dir, "");
    }
    for (; *words != NULL; words++) {
        put_entry(fd, WP_PARCEL_WORD, *words, "");
    }
    send_file(control, WP_CONTROL_BIND, "0123456789abcdef", fd);
}

/* The command runs beside the program, where the claim says, with what it
 * brings. */
static void
test_command_that_is_brought(void **state)
{
    static const char *const words[] = {
        "/bin/sh", "-c",
        "pwd >\"$0/part\"; echo $A >>\"$0/part\"; mv \"$0/part\" \"$0/done\"",
        NULL, NULL};
    (void)state;
    for (int own = 0; own < 2; own++) {
        const char *all[5];
        struct init_rig rig;
        char cwd[4096];
        char expected[sizeof cwd + 16];
        char text[sizeof expected] = "";
        const char *done;
        FILE *file;

        init_rig_init(&rig);
        rig.bound = true;
        init_rig_start(&rig, NULL, "/bin/sh", INIT_RIG_LASTING);
        init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
        memcpy(all, words, sizeof all);
        all[3] = rig.dir;
        send_command(rig.control, own != 0 ? "/" : NULL, all);
        init_rig_expect(rig.control, WP_CONTROL_BOUND, "");
        done = init_rig_path(&rig, "done");
        while (access(done, F_OK) != 0) {
            (void)usleep(1000);
        }
        file = fopen(done, "re");
        assert_non_null(file);
        assert_true(fread(text, 1, sizeof text - 1, file) > 0);
        (void)fclose(file);
        (void)snprintf(expected, sizeof expected, "%s\nvalue\n",
                       own != 0 ? "/" : getcwd(cwd, sizeof cwd));
        assert_string_equal(text, expected);
        init_rig_say(rig.control, WP_CONTROL_TERMINATE);
        init_rig_expect(rig.control, WP_CONTROL_EXIT, "killed by SIGTERM");
        assert_int_equal(init_rig_exit_status(&rig), 0);
        (void)unlink(done);
        (void)unlink(init_rig_path(&rig, "env"));
        (void)unlink(init_rig_path(&rig, "cwd"));
        init_rig_fini(&rig);
    }
}

static void
test_command_that_cannot_start(void **state)
{
    static const char *const words[] = {"/nonexistent", "x", NULL};
    struct init_rig rig;

    (void)state;
    init_rig_init(&rig);
    rig.bound = true;
    init_rig_start(&rig, NULL, "/bin/sh", INIT_RIG_LASTING);
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    send_command(rig.control, NULL, words);
    init_rig_expect(rig.control, WP_CONTROL_UNBOUND,
                    "command '/nonexistent': No such file or directory");
    assert_int_equal(init_rig_exit_status(&rig), 0);
    init_rig_fini(&rig);
}

/* Once; a repeat is answered without a look at it, another is refused. What is
 * half bound goes at once, by KEEP or not. */
static void
test_bind(void **state)
{
    struct init_rig rig;

    (void)state;
    init_rig_init(&rig);
    rig.bound = true;
    init_rig_start(&rig, NULL, "/bin/sh", INIT_RIG_LASTING);
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    init_rig_say(rig.control, WP_CONTROL_KEEP);
    send_parcel(rig.control, "0123", "brought");
    init_rig_expect(rig.control, WP_CONTROL_BOUND, "");
    assert_int_equal(
        faccessat(AT_FDCWD, init_rig_path(&rig, "brought"), F_OK, 0), 0);
    send_parcel(rig.control, "0123", "../not/looked/at");
    init_rig_expect(rig.control, WP_CONTROL_BOUND, "");
    send_parcel(rig.control, "4567", "other");
    init_rig_expect(rig.control, WP_CONTROL_UNBOUND, "it has another binding");
    init_rig_say(rig.control, WP_CONTROL_TERMINATE);
    init_rig_expect(rig.control, WP_CONTROL_EXIT, "killed by SIGTERM");
    assert_int_equal(init_rig_exit_status(&rig), 0);
    init_rig_fini(&rig);
}

/* What comes before BIND is taken at once, and BIND tells of it. */
static void
test_parcel_before_bind(void **state)
{
    struct init_rig rig;

    (void)state;
    init_rig_init(&rig);
    rig.bound = true;
    init_rig_start(&rig, NULL, "/bin/sh", INIT_RIG_LASTING);
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    send_entry(rig.control, WP_CONTROL_PARCEL, "0123", WP_PARCEL_FILE, "early");
    for (int i = 0;
         faccessat(AT_FDCWD, init_rig_path(&rig, "early"), F_OK, 0) != 0; i++) {
        assert_true(i < 60000);
        (void)usleep(1000);
    }
    send_parcel(rig.control, "0123", "../not/looked/at");
    init_rig_expect(rig.control, WP_CONTROL_BOUND, "");
    init_rig_say(rig.control, WP_CONTROL_TERMINATE);
    init_rig_expect(rig.control, WP_CONTROL_EXIT, "killed by SIGTERM");
    assert_int_equal(init_rig_exit_status(&rig), 0);
    init_rig_fini(&rig);
}

/* Of what is taken and not bound as it came, nothing stays. */
static void
test_parcel_without_its_bind(void **state)
{
    static const struct {
        enum wp_parcel_kind kind;
        const char *name;
        const char *fingerprint; /* BIND's. */
        const char *why;
    } cases[] = {
        {WP_PARCEL_FILE, "other", "4567", "it took another binding"},
        {WP_PARCEL_FILE, "../out", "0123", "file '../out': Invalid argument"},
        {WP_PARCEL_IDENTITY, "WHO", "0123",
         "identity 'WHO': No such file or directory"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct init_rig rig;

        init_rig_init(&rig);
        rig.bound = true;
        init_rig_start(&rig, NULL, "/bin/sh", INIT_RIG_LASTING);
        init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
        init_rig_say(rig.control, WP_CONTROL_KEEP);
        send_entry(rig.control, WP_CONTROL_PARCEL, "0123", cases[i].kind,
                   cases[i].name);
        send_parcel(rig.control, cases[i].fingerprint, "new");
        init_rig_expect(rig.control, WP_CONTROL_UNBOUND, cases[i].why);
        assert_int_equal(init_rig_exit_status(&rig), 0);
        init_rig_fini(&rig);
    }
}

static void
test_half_bound(void **state)
{
    struct init_rig rig;

    (void)state;
    init_rig_init(&rig);
    rig.bound = true;
    init_rig_start(&rig, NULL, "/bin/sh", INIT_RIG_LASTING);
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    init_rig_say(rig.control, WP_CONTROL_KEEP);
    send_parcel(rig.control, "0123", "../out");
    init_rig_expect(rig.control, WP_CONTROL_UNBOUND,
                    "file '../out': Invalid argument");
    assert_int_equal(init_rig_exit_status(&rig), 0);
    init_rig_fini(&rig);
}

/* Longer than any parcel: it is not read. */
static void
test_too_long_to_be_bound(void **state)
{
    struct init_rig rig;
    int fd = memfd_create("parcel", MFD_CLOEXEC);

    (void)state;
    init_rig_init(&rig);
    rig.bound = true;
    init_rig_start(&rig, NULL, "/bin/sh", INIT_RIG_LASTING);
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    assert_int_equal(ftruncate(fd, WP_PARCEL_MAX + 1), 0);
    send_file(rig.control, WP_CONTROL_BIND, "0123", fd);
    init_rig_expect(rig.control, WP_CONTROL_UNBOUND,
                    "what came cannot be read");
    assert_int_equal(init_rig_exit_status(&rig), 0);
    init_rig_fini(&rig);
}

/* Nor does it leave where nothing can be bound. */
static void
test_cannot_be_bound(void **state)
{
    struct init_rig rig;

    (void)state;
    init_rig_init(&rig);
    init_rig_start(&rig, NULL, "/bin/sh", INIT_RIG_LASTING);
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    send_parcel(rig.control, "0123", "a");
    init_rig_expect(rig.control, WP_CONTROL_UNBOUND,
                    "its runtime class keeps its files");
    init_rig_say(rig.control, WP_CONTROL_TERMINATE);
    init_rig_expect(rig.control, WP_CONTROL_EXIT, "killed by SIGTERM");
    assert_int_equal(init_rig_exit_status(&rig), 0);
    init_rig_fini(&rig);
}

/* --- Whether it is idle --- */

/* What LOOK is answered: for how many milliseconds, and whether the listening
 * socket came along. */
static long
look(int control, const char *enough_ms, bool *passed)
{
    char text[32];
    int fd = -1;
    int n = snprintf(text, sizeof text, "%c%s", WP_CONTROL_LOOK, enough_ms);
    struct pollfd answered = {.fd = control, .events = POLLIN};
    ssize_t len;

    assert_int_equal(send(control, text, (size_t)n, MSG_NOSIGNAL), n);
    assert_int_equal(poll(&answered, 1, 60000), 1);
    len = wp_passing_receive(control, text, sizeof text - 1, &fd);
    assert_true(len > 1);
    text[len] = '\0';
    assert_int_equal(text[0], WP_CONTROL_IDLE);
    *passed = fd >= 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    return strtol(text + 1, NULL, 10);
}

/* It gives its socket away only when it was idle for as long as was asked. Here
 * it takes all the machine for its sandbox, so it is idle now and then only. */
static void
test_look(void **state)
{
    static const struct {
        const char *enough_ms;
        bool gives;
    } cases[] = {{"0", false}, {"100000", false}, {"1", true}};
    struct init_rig rig;
    bool passed;
    long ms;

    (void)state;
    init_rig_init(&rig);
    init_rig_start(&rig, NULL, "/bin/sh", INIT_RIG_LASTING);
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    assert_int_equal(look(rig.control, "1", &passed), 0);
    assert_false(passed); /* The first look knows nothing of before. */
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        int tries = 0;

        do {
            (void)usleep(2000);
            ms = look(rig.control, cases[i].enough_ms, &passed);
            assert_true(passed == (ms >= 1 && cases[i].gives));
            assert_true(++tries < 10000);
        } while (ms < 1);
    }
    init_rig_say(rig.control, WP_CONTROL_TERMINATE);
    init_rig_expect(rig.control, WP_CONTROL_EXIT, "killed by SIGTERM");
    assert_int_equal(init_rig_exit_status(&rig), 0);
    init_rig_fini(&rig);
}

static void
accept_and_close(int listener)
{
    int fd = accept(listener, NULL, NULL);

    assert_true(fd >= 0);
    (void)close(fd);
}

/* Who came while it was idle comes in when it is awake. */
static void
test_awake(void **state)
{
    struct sockaddr_un address;
    socklen_t len = sizeof address;
    struct init_rig rig;
    bool passed = false;
    int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    init_rig_init(&rig);
    assert_int_equal(listen(rig.inner, 4), 0);
    init_rig_start(&rig, NULL, "/bin/sh", INIT_RIG_LASTING);
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    init_rig_expect(rig.control, WP_CONTROL_OPEN, "");
    accept_and_close(rig.inner); /* The probe's. */
    while (!passed) {
        (void)usleep(2000);
        (void)look(rig.control, "1", &passed);
    }
    assert_int_equal(getsockname(rig.outer, (struct sockaddr *)&address, &len),
                     0);
    assert_int_equal(connect(client, (struct sockaddr *)&address, len), 0);
    init_rig_say(rig.control, WP_CONTROL_AWAKE);
    accept_and_close(rig.inner);
    (void)close(client);
    init_rig_say(rig.control, WP_CONTROL_TERMINATE);
    init_rig_expect(rig.control, WP_CONTROL_EXIT, "killed by SIGTERM");
    assert_int_equal(init_rig_exit_status(&rig), 0);
    init_rig_fini(&rig);
}

/* Whole, and in the place of the one before; the longest, too. */
static void
test_identity(void **state)
{
    static const size_t lengths[] = {5, WP_CONTROL_IDENTITY_MAX - 1, 1};
    char message[WP_CONTROL_IDENTITY_MAX];
    char text[WP_CONTROL_IDENTITY_MAX + 1];
    struct init_rig rig;

    (void)state;
    init_rig_init(&rig);
    rig.bound = true;
    init_rig_start(&rig, NULL, "/bin/sh", INIT_RIG_LASTING);
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    for (size_t i = 0; i < WP_ARRAY_LEN(lengths); i++) {
        const char *path = init_rig_path(&rig, "identity");
        size_t len = 0;

        memset(message, 'a' + (int)i, sizeof message);
        message[0] = WP_CONTROL_IDENTITY;
        assert_int_equal(
            send(rig.control, message, lengths[i] + 1, MSG_NOSIGNAL),
            lengths[i] + 1);
        do {
            FILE *file = fopen(path, "re");

            if (file != NULL) {
                len = fread(text, 1, sizeof text, file);
                (void)fclose(file);
            }
        } while (len == 0 || text[0] != 'a' + (int)i);
        assert_int_equal(len, lengths[i]);
        assert_memory_equal(text, message + 1, len);
    }
    init_rig_say(rig.control, WP_CONTROL_TERMINATE);
    init_rig_expect(rig.control, WP_CONTROL_EXIT, "killed by SIGTERM");
    assert_int_equal(init_rig_exit_status(&rig), 0);
    init_rig_fini(&rig);
}

/* --- At the daemon's word --- */

/* The daemon's channel closes: all is over, unless it said otherwise. */
static void
test_ends_with_its_daemon(void **state)
{
    struct init_rig rig;

    (void)state;
    init_rig_init(&rig);
    init_rig_start(&rig, NULL, "/bin/sh", INIT_RIG_LASTING);
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    assert_int_equal(shutdown(rig.control, SHUT_RDWR), 0);
    assert_int_equal(init_rig_exit_status(&rig), 0);
    init_rig_fini(&rig);
}

static void
test_terminate(void **state)
{
    struct init_rig rig;

    (void)state;
    for (int by_signal = 0; by_signal < 2; by_signal++) {
        init_rig_init(&rig);
        assert_int_equal(listen(rig.inner, 4), 0);
        init_rig_start(&rig, NULL, "/bin/sh", INIT_RIG_LASTING);
        init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
        init_rig_expect(rig.control, WP_CONTROL_OPEN, "");
        if (by_signal != 0) {
            assert_int_equal(kill(rig.pid, SIGTERM), 0);
        } else {
            init_rig_say(rig.control, WP_CONTROL_TERMINATE);
        }
        init_rig_expect(rig.control, WP_CONTROL_EXIT, "killed by SIGTERM");
        assert_int_equal(init_rig_exit_status(&rig), 0);
        init_rig_fini(&rig);
    }
}

/* The next daemon takes the first one's place. */
static void
test_rejoin(void **state)
{
    struct init_rig rig;
    socklen_t len = sizeof rig.rejoin_address;
    char byte;
    int next[2];

    (void)state;
    init_rig_init(&rig);
    assert_int_equal(listen(rig.inner, 4), 0);
    init_rig_start(&rig, NULL, "/bin/sh", INIT_RIG_LASTING);
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    init_rig_expect(rig.control, WP_CONTROL_OPEN, "");
    init_rig_say(rig.control, WP_CONTROL_KEEP);
    assert_int_equal(shutdown(rig.control, SHUT_WR), 0);
    assert_int_equal(recv(rig.control, &byte, 1, 0), 0); /* Heard. */
    assert_int_equal(
        getsockname(rig.rejoin, (struct sockaddr *)&rig.rejoin_address, &len),
        0);
    for (int i = 0; i < 2; i++) {
        next[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        init_rig_be_patient(next[i]);
        assert_int_equal(
            connect(next[i], (struct sockaddr *)&rig.rejoin_address, len), 0);
        init_rig_say(next[i], WP_CONTROL_PROBE);
        init_rig_expect(next[i], WP_CONTROL_ANSWERS, "");
    }
    /* Of two the later. */
    assert_int_equal(recv(next[0], &byte, 1, 0), 0);
    init_rig_say(next[1], WP_CONTROL_TERMINATE);
    init_rig_expect(next[1], WP_CONTROL_EXIT, "killed by SIGTERM");
    assert_int_equal(init_rig_exit_status(&rig), 0);
    for (int i = 0; i < 2; i++) {
        (void)close(next[i]);
    }
    init_rig_fini(&rig);
}

/* --- Probes --- */

/* The program's answer to the next request; NULL: none, for as long as init
 * waits. */
static void
answer(const struct init_rig *rig, const char *text)
{
    char request[512];
    int fd = accept(rig->inner, NULL, NULL);
    ssize_t n;

    assert_true(fd >= 0);
    init_rig_be_patient(fd);
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
    struct init_rig rig;

    (void)state;
    init_rig_init(&rig);
    assert_int_equal(listen(rig.inner, 4), 0);
    init_rig_start(&rig, "/healthz", "/bin/sh", INIT_RIG_LASTING);
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    answer(&rig, "HTTP/1.1 503 Not yet\r\n\r\n");
    answer(&rig, "what?");
    answer(&rig, "HTTP/1.1 200 OK\r\n\r\n");
    init_rig_expect(rig.control, WP_CONTROL_OPEN, "");
    init_rig_say(rig.control, WP_CONTROL_PROBE);
    answer(&rig, "HTTP/1.1 204 Fine\r\n\r\n");
    init_rig_expect(rig.control, WP_CONTROL_ANSWERS, "");
    init_rig_say(rig.control, WP_CONTROL_PROBE);
    answer(&rig, "HTTP/1.1 500 No\r\n\r\n");
    init_rig_expect(rig.control, WP_CONTROL_SILENT, "");
    init_rig_say(rig.control, WP_CONTROL_PROBE); /* Of ::1. */
    init_rig_expect(rig.control, WP_CONTROL_SILENT, "");
    init_rig_say(rig.control, WP_CONTROL_PROBE);
    answer(&rig, NULL);
    init_rig_expect(rig.control, WP_CONTROL_SILENT, "");
    init_rig_say(rig.control, WP_CONTROL_PROBE);
    init_rig_expect(rig.control, WP_CONTROL_SILENT, "");
    init_rig_say(rig.control, WP_CONTROL_PROBE);
    answer(&rig, "HTTP/1.1 200 OK\r\n\r\n");
    init_rig_expect(rig.control, WP_CONTROL_ANSWERS, "");
    init_rig_say(rig.control, WP_CONTROL_TERMINATE);
    init_rig_expect(rig.control, WP_CONTROL_EXIT, "killed by SIGTERM");
    assert_int_equal(init_rig_exit_status(&rig), 0);
    init_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_no_such_program),
        cmocka_unit_test(test_what_cannot_be_watched),
        cmocka_unit_test(test_last_words),
        cmocka_unit_test(test_what_a_program_starts_with),
        cmocka_unit_test(test_command_that_is_brought),
        cmocka_unit_test(test_command_that_cannot_start),
        cmocka_unit_test(test_bind),
        cmocka_unit_test(test_parcel_before_bind),
        cmocka_unit_test(test_parcel_without_its_bind),
        cmocka_unit_test(test_half_bound),
        cmocka_unit_test(test_too_long_to_be_bound),
        cmocka_unit_test(test_cannot_be_bound),
        cmocka_unit_test(test_look),
        cmocka_unit_test(test_awake),
        cmocka_unit_test(test_identity),
        cmocka_unit_test(test_ends_with_its_daemon),
        cmocka_unit_test(test_terminate),
        cmocka_unit_test(test_rejoin),
        cmocka_unit_test(test_http_probes),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
