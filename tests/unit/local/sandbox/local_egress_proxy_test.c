/* tests/unit/local/sandbox/local_egress_proxy_test.c - the daemon's side of the
 * egress proxy, against a proxy that acts by a script: what it is told, in
 * which order and how often, and who hears of its answers and of its end.
 *
 * The proxy is this program again. Its `packages` names a folder, in which it
 * finds its script (once; then it only listens) and writes what it hears. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/egress_proxy.h"
#include "local/sandbox/spawn.h"
#include "pool/base/compiler.h"
#include "pool/base/log.h"
#include "pool/egress/channel.h"
#include "proto/sockets/passing.h"
#include "tests/support/base/temp_dir.h"

/* --- The proxy --- */

static const char *folder;

static const char *
place(const char *name)
{
    static char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void
note(const char *text)
{
    int fd =
        open(place("heard"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

    (void)!write(fd, text, strlen(text));
    (void)close(fd);
}

/* Notes the next message, and keeps its name; false: there is none. */
static bool
hear(char name[WP_SANDBOX_NAME_MAX + 1])
{
    char text[WP_EGRESS_MESSAGE_MAX + 1];
    char line[WP_EGRESS_MESSAGE_MAX + 16];
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    struct iovec iov = {text, sizeof text - 1};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control,
        .msg_controllen = sizeof control,
    };
    struct pollfd more = {.fd = WP_EGRESS_CHANNEL_FD, .events = POLLIN};
    struct stat st = {.st_mode = 0};
    ssize_t n;
    int passed;

    (void)poll(&more, 1, -1);
    n = recvmsg(WP_EGRESS_CHANNEL_FD, &msg, 0);
    if (n <= 0) {
        return false;
    }
    passed = wp_passing_take(&msg);
    text[n] = '\0';
    (void)snprintf(name, WP_SANDBOX_NAME_MAX + 1, "%.*s", WP_SANDBOX_NAME_MAX,
                   text + 1);
    for (ssize_t i = 0; i < n; i++) {
        text[i] = text[i] == '\0' ? ' ' : text[i];
    }
    if (passed >= 0) {
        (void)fstat(passed, &st);
        (void)close(passed);
    }
    (void)snprintf(line, sizeof line, "%s%s\n", text,
                   S_ISSOCK(st.st_mode) ? "|socket" : "");
    note(line);
    return true;
}

static void
say(char letter, const char *name)
{
    char text[2 + WP_SANDBOX_NAME_MAX];
    int n = snprintf(text, sizeof text, "%c%s", letter, name);

    (void)send(WP_EGRESS_CHANNEL_FD, text, (size_t)n, MSG_NOSIGNAL);
}

/*   r  hears one        N, R  answers for the last name
 *   u  answers for a name that nobody has
 *   h  waits for the file "go"    x  ends with status 3 */
static void
act(char letter, char *name)
{
    struct pollfd gone = {.fd = WP_EGRESS_CHANNEL_FD, .events = 0};

    switch (letter) {
    case 'r':
        (void)hear(name);
        break;
    case 'N':
    case 'R':
        say(letter, name);
        break;
    case 'u':
        say('N', "nobody");
        break;
    case 'h':
        while (access(place("go"), F_OK) != 0 && poll(&gone, 1, 1) == 0) {
        }
        break;
    default:
        _exit(3);
    }
}

static void
be_proxy(int argc, char **argv)
{
    char script[64] = "";
    char name[WP_SANDBOX_NAME_MAX + 1] = "";
    char words[512] = "";
    FILE *file;

    folder = argv[3];
    file = fopen(place("script"), "re");
    if (file != NULL) {
        (void)!fgets(script, sizeof script, file);
        (void)fclose(file);
        if (script[0] != 'x') { /* That one is for each. */
            (void)unlink(place("script"));
        }
    }
    for (int i = 4; i < argc; i++) {
        (void)snprintf(words + strlen(words), sizeof words - strlen(words),
                       " %s", argv[i]);
    }
    (void)snprintf(words + strlen(words), sizeof words - strlen(words), "%s\n",
                   fcntl(WP_EGRESS_KEYS_FD, F_GETFD) >= 0 ? " keys" : "");
    note(words);
    for (const char *at = script; *at != '\0'; at++) {
        act(*at, name);
    }
    while (hear(name)) {
    }
    _exit(0);
}

/* --- The daemon --- */

struct answers {
    int narrowed;
    int refused;
};

static struct event_base *base;
static struct wp_egress_proxy *proxy;
static struct wp_egress_proxy_config config;
static char dir[64];
static char self[256];
static int lock_fd = -1;

#define STARTED " --source-conns-max 7 --source-bytes-max 9 --log-format text\n"

static void
answered(void *sandbox, bool narrowed)
{
    struct answers *answers = sandbox;

    answers->narrowed += narrowed;
    answers->refused += !narrowed;
}

static void
put_file(const char *name, const char *text, mode_t mode)
{
    int fd = open(place(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (long)strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    (void)close(fd);
}

static int
begin(void **state)
{
    (void)state;
    temp_dir_make(dir, sizeof dir);
    folder = dir;
    config = (struct wp_egress_proxy_config){
        .path = self,
        .packages = dir,
        .source_conns_max = 7,
        .source_bytes_max = 9,
        .lock_fd = &lock_fd,
        .answered = answered,
    };
    base = event_base_new();
    assert_non_null(base);
    proxy = wp_egress_proxy_create(&config, base);
    assert_non_null(proxy);
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wp_egress_proxy_destroy(proxy);
    event_base_free(base);
    temp_dir_remove(dir);
    return 0;
}

/* With other settings. */
static void
again(void)
{
    wp_egress_proxy_destroy(proxy);
    (void)unlink(place("heard"));
    proxy = wp_egress_proxy_create(&config, base);
    assert_non_null(proxy);
}

static void
turn(void)
{
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    (void)usleep(500);
}

static size_t
read_file(const char *name, char *out, size_t cap)
{
    FILE *file = fopen(place(name), "re");
    size_t n = file != NULL ? fread(out, 1, cap - 1, file) : 0;

    out[n] = '\0';
    if (file != NULL) {
        (void)fclose(file);
    }
    return n;
}

/* Goes on until the proxy has heard this, all in all. */
static void
expect(const char *text)
{
    static char heard[1 << 20];

    for (int i = 0; i < 120000; i++) {
        (void)read_file("heard", heard, sizeof heard);
        if (strlen(heard) >= strlen(text)) {
            break;
        }
        turn();
    }
    assert_string_equal(heard, text);
}

static void
await(const int *count, int value)
{
    for (int i = 0; i < 120000 && *count < value; i++) {
        turn();
    }
    assert_int_equal(*count, value);
}

static struct wp_egress_member *
join(const char *name, struct answers *answers)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct wp_egress_member *member =
        wp_egress_proxy_join(proxy, answers, name, "p.example", "", fd);

    assert_non_null(member);
    return member;
}

/* --- Tests --- */

static void
test_members_come_and_go(void **state)
{
    struct wp_egress_member *a = join("a", NULL);
    struct wp_egress_member *b = join("b", NULL);

    (void)state;
    expect(STARTED "Ja p.example |socket\nJb p.example |socket\n");
    wp_egress_proxy_leave(proxy, a);
    wp_egress_proxy_leave(proxy, NULL);
    (void)join("c", NULL);
    wp_egress_proxy_leave(proxy, b);
    expect(STARTED "Ja p.example |socket\nJb p.example |socket\nLa\n"
                   "Jc p.example |socket\nLb\n");
    config.log_json = true;
    again();
    (void)join("a", NULL);
    expect(" --source-conns-max 7 --source-bytes-max 9 --log-format json\n"
           "Ja p.example |socket\n");
}

static void
test_texts_that_no_message_holds(void **state)
{
    static char longest[WP_EGRESS_TEXT_MAX + 2];
    const struct {
        const char *name;
        const char *policy;
        const char *by;
    } rows[] = {{longest, "", ""}, {"a", longest, ""}, {"a", "", longest}};

    (void)state;
    memset(longest, 'a', sizeof longest - 1);
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_null(wp_egress_proxy_join(proxy, NULL, rows[i].name,
                                         rows[i].policy, rows[i].by, fd));
        assert_int_equal(fcntl(fd, F_GETFD), -1);
    }
    assert_int_equal(access(place("heard"), F_OK), -1);
    longest[WP_EGRESS_TEXT_MAX] = '\0';
    assert_non_null(
        wp_egress_proxy_join(proxy, NULL, "a", longest, longest,
                             socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)));
}

static void
test_narrowed(void **state)
{
    struct answers of_a = {0, 0};
    struct answers of_b = {0, 0};
    struct wp_egress_member *a;
    struct wp_egress_member *b;

    (void)state;
    put_file("script", "rrruNrR", 0600);
    a = join("a", &of_a);
    b = join("b", &of_b);
    expect(STARTED "Ja p.example |socket\nJb p.example |socket\n");
    assert_true(wp_egress_proxy_narrow(proxy, a, ""));
    assert_false(wp_egress_proxy_narrow(proxy, a, "n.example"));
    assert_false(wp_egress_proxy_narrow(proxy, a, "n.example")); /* As yet. */
    await(&of_a.narrowed, 1);
    assert_true(wp_egress_proxy_narrow(proxy, a, "n.example"));
    assert_false(wp_egress_proxy_narrow(proxy, b, "n.example"));
    await(&of_b.refused, 1);
    expect(STARTED "Ja p.example |socket\nJb p.example |socket\n"
                   "Ja p.example n.example|socket\n"
                   "Jb p.example n.example|socket\n");
    assert_int_equal(of_a.narrowed + of_a.refused, 1);
    assert_int_equal(of_b.narrowed + of_b.refused, 1);
}

/* Nothing wider is in force when it has died; the next one hears of all that
 * are there, and nothing of those that have left. */
static void
test_it_dies(void **state)
{
    struct answers of[3] = {{0, 0}};
    struct wp_egress_member *a;
    struct wp_egress_member *b;
    struct wp_egress_member *c;

    (void)state;
    put_file("script", "rrrrhx", 0600);
    a = join("a", &of[0]);
    b = join("b", &of[1]);
    c = join("c", &of[2]);
    assert_false(wp_egress_proxy_narrow(proxy, b, "n.example"));
    expect(STARTED "Ja p.example |socket\nJb p.example |socket\n"
                   "Jc p.example |socket\nJb p.example n.example|socket\n");
    wp_egress_proxy_leave(proxy, a); /* Told, and never heard. */
    put_file("go", "", 0600);
    await(&of[1].narrowed, 1);
    /* It does not run: what it does not know can be said at once. */
    assert_true(wp_egress_proxy_narrow(proxy, c, "m.example"));
    expect(STARTED
           "Ja p.example |socket\nJb p.example |socket\n"
           "Jc p.example |socket\nJb p.example n.example|socket\n" STARTED
           "Jc p.example m.example|socket\n"
           "Jb p.example n.example|socket\n");
    assert_int_equal(of[1].narrowed, 1);
    for (size_t i = 0; i < WP_ARRAY_LEN(of); i++) {
        assert_int_equal(of[i].refused, 0);
        assert_int_equal(of[i].narrowed, i == 1);
    }
}

static int
append(char *out, const char *letter, int first, int end)
{
    int n = 0;

    for (int i = first; i < end; i++) {
        n += sprintf(out + n,
                     letter[0] == 'J' ? "Jm%d p.example |socket\n" : "Lm%d\n",
                     i);
    }
    return n;
}

/* While nobody reads, what is to be told waits, in its order; who leaves before
 * is never told of. */
static void
test_it_does_not_read(void **state)
{
    enum {
        MEMBERS = 600
    };
    static struct wp_egress_member *members[MEMBERS];
    static char wanted[1 << 16];
    static char heard[1 << 16];
    int told = -2; /* The last two are no matter. */
    int n;

    (void)state;
    put_file("script", "h", 0600);
    for (int i = 0; i < MEMBERS; i++) {
        char name[16];

        (void)sprintf(name, "m%d", i);
        members[i] = join(name, NULL);
        turn();
    }
    for (int i = 0; i < MEMBERS - 1; i++) {
        wp_egress_proxy_leave(proxy, members[i]);
    }
    (void)join("z", NULL);
    put_file("go", "", 0600);
    for (int i = 0; i < 120000 && strstr(heard, "Jz") == NULL; i++) {
        turn();
        (void)read_file("heard", heard, sizeof heard);
    }
    for (const char *at = heard; (at = strstr(at, "J")) != NULL; at++) {
        told++;
    }
    assert_in_range(told, 1, MEMBERS - 2);
    n = sprintf(wanted, STARTED);
    n += append(wanted + n, "J", 0, told);
    n += append(wanted + n, "J", MEMBERS - 1, MEMBERS);
    n += append(wanted + n, "L", 0, told);
    (void)sprintf(wanted + n, "Jz p.example |socket\n");
    expect(wanted);
}

/* --- What it needs to start --- */

/* What is said on standard error until logged is closed. */
static int
begin_log(void)
{
    int saved = dup(STDERR_FILENO);
    int fd = open(place("log"),
                  O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);

    assert_true(saved >= 0 && fd >= 0);
    assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
    (void)close(fd);
    return saved;
}

static void
end_log(int saved, char *out, size_t cap)
{
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    (void)close(saved);
    (void)read_file("log", out, cap);
}

static int
count_text(const char *text, const char *part)
{
    int n = 0;

    while ((text = strstr(text, part)) != NULL) {
        text += strlen(part);
        n++;
    }
    return n;
}

/* Looked for again, later each time. */
static void
test_it_is_not_there(void **state)
{
    char path[128];
    char said[4096];
    int log;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/proxy", dir);
    config.path = path;
    again();
    log = begin_log();
    (void)join("a", NULL);
    (void)join("b", NULL); /* No second start for it. */
    end_log(log, said, sizeof said);
    assert_int_equal(count_text(said, "egress proxy not started"), 1);
    assert_non_null(strstr(said, "the new process could not execute: "));
    assert_non_null(strstr(said, "/proxy: No such file or directory"));
    assert_int_equal(symlink(self, path), 0);
    expect(STARTED "Ja p.example |socket\nJb p.example |socket\n");
}

static void
test_the_next_start_is_later(void **state)
{
    char said[8192] = "";
    int log = begin_log();

    (void)state;
    put_file("script", "x", 0600);
    (void)join("a", NULL);
    for (int i = 0; i < 120000 && count_text(said, "again_in_ms") < 3; i++) {
        turn();
        (void)read_file("log", said, sizeof said);
    }
    end_log(log, said, sizeof said);
    for (int i = 0; i < 3; i++) {
        char words[128];

        (void)sprintf(words,
                      "until it is back how=status code=3"
                      " again_in_ms=%d\n",
                      100 << i);
        if (strstr(said, words) == NULL) {
            fail_msg("'%s' does not say '%s'", said, words);
        }
    }
}

/* Only a file that others can neither read nor write has keys. */
static void
test_its_keys(void **state)
{
    static const struct {
        mode_t mode;
        bool good;
    } rows[] = {{0600, true},  {0640, true},  {0604, false},
                {0602, false}, {0620, false}, {0, false}};
    char path[128];
    char said[4096];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/keys", dir);
    config.keys_file = path;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        int log;

        if (rows[i].mode != 0) {
            put_file("keys", "k", rows[i].mode);
        } else {
            (void)unlink(path);
            assert_int_equal(mkfifo(path, 0600), 0);
        }
        again();
        log = begin_log();
        (void)join("a", NULL);
        end_log(log, said, sizeof said);
        assert_int_equal(count_text(said, "egress keys not used: a file that "
                                          "others cannot read nor write was"
                                          " expected"),
                         !rows[i].good);
        expect(rows[i].good ? " --source-conns-max 7 --source-bytes-max 9"
                              " --log-format text --keys-fd keys\n"
                              "Ja p.example |socket\n"
                            : STARTED "Ja p.example |socket\n");
    }
    config.keys_file = "/nonexistent";
    again();
    (void)join("a", NULL);
    expect(STARTED "Ja p.example |socket\n");
}

/* It starts once there are enough. What was opened for it meanwhile is closed,
 * or this test would not pass. */
static void
test_too_few_descriptors(void **state)
{
    struct rlimit before;
    struct rlimit few;
    char said[4096] = "";
    int failed = 0;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = before;
    for (few.rlim_cur = WP_SPAWN_FD_FLOOR; access(place("heard"), F_OK) != 0;
         few.rlim_cur++) {
        int log;

        again();
        log = begin_log();
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        (void)join("a", NULL);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        end_log(log, said, sizeof said);
        if (said[0] == '\0') {
            break;
        }
        assert_int_equal(count_text(said, "egress proxy not started"), 1);
        failed++;
    }
    assert_in_range(failed, 3, 20);
    expect(STARTED "Ja p.example |socket\n");
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_members_come_and_go, begin, end),
        cmocka_unit_test_setup_teardown(test_texts_that_no_message_holds, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_narrowed, begin, end),
        cmocka_unit_test_setup_teardown(test_it_dies, begin, end),
        cmocka_unit_test_setup_teardown(test_it_does_not_read, begin, end),
        cmocka_unit_test_setup_teardown(test_it_is_not_there, begin, end),
        cmocka_unit_test_setup_teardown(test_the_next_start_is_later, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_its_keys, begin, end),
        cmocka_unit_test_setup_teardown(test_too_few_descriptors, begin, end),
    };
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    if (argc > 3 && strcmp(argv[1], "--channel") == 0) {
        be_proxy(argc, argv);
    }
    self[n > 0 ? n : 0] = '\0';
    wp_log_configure(WP_LOG_WARN, WP_LOG_TEXT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
