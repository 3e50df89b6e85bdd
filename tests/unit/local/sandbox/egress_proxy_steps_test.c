/* tests/unit/local/sandbox/egress_proxy_steps_test.c - the process that lets
 * sandboxes out: with what it is started, what it is told and when, and what
 * becomes of that when it ends. It is not there: this test is all it talks
 * to. */
#include <errno.h>
#include <event2/event.h>
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
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/egress_proxy.h"
#include "local/sandbox/spawn.h"
#include "pool/base/clock.h"
#include "pool/base/compiler.h"
#include "pool/egress/channel.h"
#include "proto/sockets/passing.h"
#include "tests/support/local/journal.h"

enum {
    FIRST_FD = 5000,
};

static struct wp_egress_proxy *proxy;
static struct wp_egress_proxy_config config;
static struct event_base *const base = (struct event_base *)(uintptr_t)64;
static int lock_fd = 33;
static int next_fd;
static int zero_at; /* Which that is opened is 0; 0: none. */
static bool running;
static int calls;
static int fails_at; /* The call that fails; 0: none. */
static int send_errno;
static bool waits; /* The timer for the next start. */
static mode_t keys_mode;
static bool stays_low; /* Nothing is moved from descriptor 0. */
static int wait_errno;
static siginfo_t ended;
static char heard[128]; /* What it says; read_errno: it says nothing. */
static ssize_t heard_len;
static int read_errno;
static int64_t now_ns;

/* In the order in which they are assigned at first. */
static struct {
    struct event *event;
    event_callback_fn fn;
    const char *name;
} events[] = {{NULL, NULL, "again"},
              {NULL, NULL, "read"},
              {NULL, NULL, "write"},
              {NULL, NULL, "exit"}};

static bool
fails(void)
{
    if (running && ++calls == fails_at) {
        NOTE("  fails\n");
        errno = EDQUOT;
        return true;
    }
    return false;
}

static int
take_fd(void)
{
    return zero_at > 0 && --zero_at == 0 ? 0 : next_fd++;
}

static int
open_next(void)
{
    return fails() ? -1 : take_fd();
}

int __wrap_event_assign(struct event *event, struct event_base *on, int fd,
                        short what, event_callback_fn fn, void *arg);
int __wrap_event_add(struct event *event, const struct timeval *wait);
int __wrap_event_del(struct event *event);
int __wrap_event_pending(const struct event *event, short what,
                         struct timeval *due);
int __wrap_socketpair(int domain, int type, int protocol, int pair[2]);
int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode);
int __real_fstat(int fd, struct stat *out);
int __wrap_fstat(int fd, struct stat *out);
int __real_fcntl(int fd, int command, int what);
int __wrap_fcntl(int fd, int command, int what);
int __real_close(int fd);
int __wrap_close(int fd);
ssize_t __wrap_recv(int fd, void *out, size_t cap, int flags);
int __wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options);
long __wrap_syscall(long number, int fd, int sig, const void *info, int flags);
const struct wp_clock *__wrap_wp_clock_system(void);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

static const char *
name_of(const struct event *event)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(events); i++) {
        if (events[i].event == event) {
            return events[i].name;
        }
    }
    return "?";
}

int
__wrap_event_assign(struct event *event, struct event_base *on, int fd,
                    short what, event_callback_fn fn, void *arg)
{
    size_t i = 0;

    assert_ptr_equal(on, base);
    assert_non_null(arg);
    while (i < WP_ARRAY_LEN(events) - 1 && events[i].event != NULL &&
           events[i].event != event) {
        i++;
    }
    assert_true(events[i].fn == NULL || events[i].fn == fn);
    events[i].event = event;
    events[i].fn = fn;
    NOTE("assign %s %d %d\n", events[i].name, fd, what);
    return 0;
}

int
__wrap_event_add(struct event *event, const struct timeval *wait)
{
    NOTE("add %s", name_of(event));
    if (wait != NULL) {
        NOTE(" %lld.%06ld", (long long)wait->tv_sec, (long)wait->tv_usec);
        waits = true;
    }
    NOTE("\n");
    return 0;
}

int
__wrap_event_del(struct event *event)
{
    NOTE("del %s\n", name_of(event));
    return 0;
}

int
__wrap_event_pending(const struct event *event, short what, struct timeval *due)
{
    assert_ptr_equal(event, events[0].event);
    assert_int_equal(what, EV_TIMEOUT);
    assert_null(due);
    return waits ? what : 0;
}

int
__wrap_socketpair(int domain, int type, int protocol, int pair[2])
{
    NOTE("socketpair %d %x %d\n", domain, (unsigned)type, protocol);
    pair[0] = open_next();
    pair[1] = pair[0] < 0 ? -1 : next_fd++;
    return pair[0] < 0 ? -1 : 0;
}

int
__wrap_open(const char *path, int flags, mode_t mode)
{
    if (!running) {
        return __real_open(path, flags, mode);
    }
    NOTE("open %s %x\n", path, (unsigned)flags);
    return open_next();
}

int
__wrap_fstat(int fd, struct stat *out)
{
    if (!running) {
        return __real_fstat(fd, out);
    }
    NOTE("look at %d\n", fd);
    *out = (struct stat){.st_mode = keys_mode};
    return fails() ? -1 : 0;
}

int
__wrap_fcntl(int fd, int command, int what)
{
    if (!running) {
        return __real_fcntl(fd, command, what);
    }
    NOTE("fcntl %d %d %d\n", fd, command, what);
    return open_next();
}

int
__wrap_close(int fd)
{
    if (!running) {
        return __real_close(fd);
    }
    NOTE("close %d\n", fd);
    return 0;
}

ssize_t
__wrap_recv(int fd, void *out, size_t cap, int flags)
{
    NOTE("receive %d %zu flags %x\n", fd, cap, (unsigned)flags);
    if (read_errno != 0) {
        errno = read_errno;
        return -1;
    }
    assert_true((size_t)heard_len <= cap);
    memcpy(out, heard, (size_t)heard_len);
    return heard_len;
}

int
__wrap_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    assert_int_equal(type, P_PIDFD);
    NOTE("wait for %d %x\n", (int)id, (unsigned)options);
    *info = ended;
    errno = wait_errno;
    return wait_errno != 0 ? -1 : 0;
}

long
__wrap_syscall(long number, int fd, int sig, const void *info, int flags)
{
    assert_int_equal(number, SYS_pidfd_send_signal);
    assert_null(info);
    NOTE("signal %d to %d %d\n", sig, fd, flags);
    return 0;
}

static int64_t
test_now_ns(const struct wp_clock *clock)
{
    (void)clock;
    return now_ns;
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    static const struct wp_clock clock = {test_now_ns, test_now_ns};

    return &clock;
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

int
wp_spawn_fd(int fd)
{
    if (fd == 0 && stays_low) {
        (void)__wrap_close(fd);
        errno = EMFILE;
        return -1;
    }
    return fd == 0 ? next_fd++ : fd; /* Never a low one. */
}

enum wp_status
wp_spawn(const struct wp_spawn *spawn, struct wp_spawned *out,
         struct wp_err *err)
{
    NOTE("spawn %s:", spawn->path);
    for (size_t i = 0; spawn->argv[i] != NULL; i++) {
        NOTE(" %s", spawn->argv[i]);
    }
    assert_null(spawn->envp[0]);
    NOTE(", fds");
    for (int i = 0; i < spawn->fds_len; i++) {
        NOTE(" %d", spawn->fds[i]);
    }
    NOTE(", close %d drop %d %u %u\n", spawn->close_fd, spawn->drop, spawn->uid,
         spawn->gid);
    if (fails()) {
        *out = (struct wp_spawned){-1, -1};
        return wp_err_set(err, WP_ABORTED, "no process");
    }
    *out = (struct wp_spawned){.pid = 4321, .pidfd = take_fd()};
    return WP_OK;
}

ssize_t
wp_passing_send(int fd, const void *bytes, size_t len, int passed, int flags)
{
    const char *text = bytes;

    NOTE("tell %d '", fd);
    for (size_t i = 0; i < len; i++) {
        NOTE("%c", text[i] == '\0' ? '|' : text[i]);
    }
    NOTE("' with %d flags %x\n", passed, (unsigned)flags);
    errno = send_errno;
    return send_errno != 0 ? -1 : (ssize_t)len;
}

static void
answered(void *sandbox, bool narrowed)
{
    NOTE("answered %s %d\n", (const char *)sandbox, narrowed);
}

/* --- Steps --- */

static char names[][2] = {"a", "b", "c"};

static void
begin(void)
{
    config = (struct wp_egress_proxy_config){
        .path = "/the/egress",
        .packages = "pypi",
        .source_conns_max = UINT32_MAX,
        .source_bytes_max = UINT64_MAX,
        .drop = true,
        .uid = 1234,
        .lock_fd = &lock_fd,
        .answered = answered,
    };
    for (size_t i = 0; i < WP_ARRAY_LEN(events); i++) {
        events[i].event = NULL;
        events[i].fn = NULL;
    }
    next_fd = FIRST_FD;
    calls = fails_at = send_errno = zero_at = wait_errno = read_errno = 0;
    waits = false;
    keys_mode = S_IFREG | 0640;
    stays_low = false;
    ended = (siginfo_t){.si_code = CLD_EXITED};
    ended.si_pid = 4321;
    ended.si_status = 3;
    now_ns = 1000 * WP_NS_PER_S;
}

static void
create(void)
{
    running = true;
    proxy = wp_egress_proxy_create(&config, base);
    running = false;
    assert_non_null(proxy);
}

static void
destroy(void)
{
    NOTE("--- the end\n");
    running = true;
    wp_egress_proxy_destroy(proxy);
    running = false;
    proxy = NULL;
}

#define STEP(what, call)                                                       \
    do {                                                                       \
        NOTE("--- %s\n", what);                                                \
        running = true;                                                        \
        call;                                                                  \
        running = false;                                                       \
    } while (0)

static struct wp_egress_member *
join(int i, const char *by)
{
    struct wp_egress_member *member = NULL;

    STEP("join", member = wp_egress_proxy_join(proxy, names[i], names[i],
                                               "policy", by, 70 + i));
    NOTE("= member %d\n", member != NULL);
    return member;
}

static void
narrow(struct wp_egress_member *member, const char *by)
{
    bool at_once = false;

    STEP("narrow", at_once = wp_egress_proxy_narrow(proxy, member, by));
    NOTE("= at once %d\n", at_once);
}

static void
leave(struct wp_egress_member *member)
{
    STEP("leave", wp_egress_proxy_leave(proxy, member));
}

static void
fire(size_t i)
{
    NOTE("--- %s\n", events[i].name);
    if (i == 0) {
        waits = false;
    }
    running = true;
    events[i].fn(500, 0, proxy);
    running = false;
}

static void
says(char letter, const char *name)
{
    heard_len = snprintf(heard, sizeof heard, "%c%s", letter, name);
    fire(1);
}

/* --- Tests --- */

static void
test_it_begins_with_the_first_member(void **state)
{
    (void)state;
    journal_begin();
    for (int n = 0; n < 4; n++) {
        begin();
        config.keys_file = n == 1 || n == 2 ? "/keys" : NULL;
        config.log_json = n == 1;
        zero_at = n == 2 ? 1 : n == 3 ? 5 : 0;
        create();
        (void)join(0, "");
        (void)join(1, "less");
        leave(NULL);
        destroy();
    }
    begin();
    create();
    destroy();
    wp_egress_proxy_destroy(NULL);
    journal_compare("proxy_begins");
}

static void
test_what_fails_is_tried_later(void **state)
{
    static const mode_t modes[] = {S_IFREG | 0600, S_IFREG | 0644,
                                   S_IFREG | 0602, S_IFREG | 0620,
                                   S_IFDIR | 0600};

    (void)state;
    journal_begin();
    for (int n = 1; n <= 8; n++) {
        begin();
        config.keys_file = "/keys";
        create();
        calls = 0;
        fails_at = n;
        NOTE("--- call %d fails\n", n);
        JOURNAL_RUN((void)join(0, ""));
        (void)join(1, "");
        JOURNAL_RUN(fire(0));
        destroy();
    }
    for (int i = 0; i < 3; i++) {
        begin();
        config.keys_file = "/keys";
        keys_mode = i != 1 ? S_IFREG | 0600 : S_IFDIR;
        zero_at = 5;
        stays_low = i == 2;
        create();
        NOTE("--- keys are the first descriptor%s\n",
             stays_low ? ", and stay that" : "");
        JOURNAL_RUN((void)join(0, ""));
        destroy();
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(modes); i++) {
        begin();
        config.keys_file = "/keys";
        keys_mode = modes[i];
        create();
        NOTE("--- keys %o\n", modes[i]);
        JOURNAL_RUN((void)join(0, ""));
        destroy();
    }
    begin();
    running = true;
    calls = 0;
    fails_at = 1;
    assert_null(wp_egress_proxy_create(&config, base));
    running = false;
    journal_compare("proxy_fails");
}

static void
test_a_channel_that_is_full_is_waited_for(void **state)
{
    struct wp_egress_member *a;
    struct wp_egress_member *b;

    (void)state;
    journal_begin();
    begin();
    create();
    send_errno = EAGAIN;
    a = join(0, "");
    b = join(1, "");
    narrow(a, "less");
    leave(b);
    send_errno = EPIPE;
    fire(2);
    send_errno = 0;
    fire(2);
    leave(a);
    send_errno = EAGAIN;
    b = join(2, "");
    STEP("the first descriptor",
         a = wp_egress_proxy_join(proxy, names[0], "a", "p", "", 0));
    leave(a);
    destroy();
    journal_compare("proxy_full");
}

static void
test_who_is_narrowed_is_told(void **state)
{
    struct wp_egress_member *a;
    struct wp_egress_member *b;
    struct wp_egress_member *c;

    (void)state;
    journal_begin();
    begin();
    create();
    a = join(0, "");
    b = join(1, "");
    c = join(2, "all");
    narrow(a, "less");
    narrow(a, "less");
    narrow(b, "less");
    narrow(c, "all");
    says(WP_EGRESS_NARROWED, "x");
    says(WP_EGRESS_NARROWED, "c");
    says(WP_EGRESS_NARROWED, "b");
    says('?', "a");
    says(WP_EGRESS_NARROWED, "a");
    narrow(a, "less");
    narrow(b, "least");
    leave(b);
    heard_len = 0;
    fire(1);
    read_errno = EAGAIN;
    fire(1);
    read_errno = EINTR;
    fire(1);
    read_errno = ECONNRESET;
    fire(1);
    destroy();
    journal_compare("proxy_narrowed");
}

static void
test_it_comes_back(void **state)
{
    struct wp_egress_member *a;
    struct wp_egress_member *b;
    struct wp_egress_member *c;

    (void)state;
    journal_begin();
    begin();
    create();
    a = join(0, "");
    b = join(1, "");
    c = join(2, "");
    narrow(a, "less");
    send_errno = EAGAIN;
    narrow(b, "less");
    leave(c);
    ended.si_pid = 0;
    NOTE("--- it lives\n");
    fire(3);
    ended.si_pid = 4321;
    wait_errno = ECHILD;
    NOTE("--- nobody knows\n");
    fire(3);
    wait_errno = 0;
    send_errno = 0;
    now_ns += 10000 * WP_NS_PER_MS;
    JOURNAL_RUN(fire(3));
    c = join(2, "");
    leave(c);
    JOURNAL_RUN(fire(0));
    for (int i = 0; i < 9; i++) {
        ended.si_code = CLD_KILLED;
        /* Just not long enough to start at once again. */
        now_ns += i == 3 ? 10000 * WP_NS_PER_MS : 0;
        JOURNAL_RUN(fire(3));
        JOURNAL_RUN(fire(0));
    }
    now_ns += 10000 * WP_NS_PER_MS + 1;
    JOURNAL_RUN(fire(3));
    leave(a);
    leave(b);
    destroy();
    journal_compare("proxy_again");
}

static void
test_texts_that_have_no_room_are_refused(void **state)
{
    char text[WP_EGRESS_TEXT_MAX + 2];
    char name[WP_SANDBOX_NAME_MAX + 2];

    (void)state;
    memset(text, 'x', sizeof text);
    memset(name, 'n', sizeof name);
    text[sizeof text - 1] = name[sizeof name - 1] = '\0';
    journal_begin();
    begin();
    create();
    STEP("name",
         assert_null(wp_egress_proxy_join(proxy, names[0], name, "p", "", 71)));
    STEP("policy",
         assert_null(wp_egress_proxy_join(proxy, names[0], "n", text, "", 72)));
    STEP("by", assert_null(
                   wp_egress_proxy_join(proxy, names[0], "n", "p", text, 73)));
    text[sizeof text - 2] = name[sizeof name - 2] = '\0';
    STEP("just", assert_non_null(wp_egress_proxy_join(proxy, names[0], name,
                                                      text, text, 74)));
    destroy();
    journal_compare("proxy_texts");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_begins_with_the_first_member),
        cmocka_unit_test(test_what_fails_is_tried_later),
        cmocka_unit_test(test_a_channel_that_is_full_is_waited_for),
        cmocka_unit_test(test_who_is_narrowed_is_told),
        cmocka_unit_test(test_it_comes_back),
        cmocka_unit_test(test_texts_that_have_no_room_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
