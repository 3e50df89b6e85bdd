/* local/init/init.c alone, call by call: its start, each of its events, and one
 * program after the other. All that it calls is the test's own, and so are its
 * descriptors, children and clock: nothing is killed or ended. Its main is
 * called by this one. The journals are in golden/. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/init/egress.h"
#include "local/init/init_impl.h"
#include "proto/sockets/descriptors.h"
#include "proto/sockets/passing.h"
#include "tests/support/base/journal.h"

#define LINE(...) (journal(__VA_ARGS__), journal_line())

enum {
    CONTROL = 10,
    REJOIN = 11,
    PROGRAMS = 12,
    LISTEN = 13,
    JOINED = 14,
    EPOLL = 20,
    SIGNAL = 21,
    EGRESS = 22,
    OUTPUT = 30, /* Of the first program; then on. */
    CHILD = 100, /* The same. */
    PROBE_CHILD = 200,
    FDS = 64,
    MANY = 16,
    STATUS_3 = 3 << 8,
};

struct message {
    const char *text; /* NULL: the descriptor's end. */
    int passed;       /* 0: none; below: the descriptor 0. */
    int error;        /* Then that; below: what errno was. */
};

struct child {
    pid_t pid;
    int status;
};

static struct {
    bool on;
    struct wp_init *init;
    struct wp_init pristine;
    struct wp_init_options options;
    int inits;
    int null_fd;
    pid_t pid;
    int64_t now_us;
    int64_t wake_us;          /* From the next probe on. */
    const char *events[MANY]; /* A letter is who has something. */
    int events_at;
    struct wp_watch *watches[FDS];
    struct message messages[MANY];
    int messages_at;
    struct child children[MANY];
    int children_at;
    int signals[MANY];
    int signals_at;
    const char *fails;
    int nth;
    int error;
    jmp_buf out;
} rig;

int __wrap_main(void);
int __real_main(int argc, char **argv);
int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event);
int __wrap_epoll_wait(int epoll, struct epoll_event *out, int max, int ms);
int __wrap_epoll_pwait2(int epoll, struct epoll_event *out, int max,
                        const struct timespec *wait, const sigset_t *mask);
int __wrap_signalfd(int fd, const sigset_t *set, int flags);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_prctl(int what, ...);
int __wrap_close_range(unsigned first, unsigned last, int flags);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_dup2(int from, int to);
int __real_close(int fd);
int __wrap_close(int fd);
ssize_t __real_read(int fd, void *out, size_t cap);
ssize_t __wrap_read(int fd, void *out, size_t cap);
int __wrap_kill(pid_t pid, int sig);
pid_t __wrap_waitpid(pid_t pid, int *status, int flags);
pid_t __wrap_getpid(void);
int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags);
int __real_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...);
int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
WP_NORETURN void __real__exit(int status);
WP_NORETURN void __wrap__exit(int status);

static bool
fails(const char *call)
{
    bool now =
        rig.fails != NULL && strcmp(rig.fails, call) == 0 && --rig.nth == 0;

    errno = now ? rig.error : errno;
    return now;
}

/* --- Who has something --- */

int
__wrap_epoll_create1(int flags)
{
    LINE("epoll%s", flags == EPOLL_CLOEXEC ? "" : " ?");
    return fails("epoll") ? -1 : EPOLL;
}

int
__wrap_epoll_ctl(int epoll, int what, int fd, struct epoll_event *event)
{
    LINE("watch %d%s", fd,
         epoll == EPOLL && what == EPOLL_CTL_ADD && event->events == EPOLLIN
             ? ""
             : " ?");
    if (fails("watch")) {
        return -1;
    }
    rig.watches[fd] = event->data.ptr;
    return 0;
}

/* The next turn; none is left: out of main. */
static int
turn(struct epoll_event *out, int max)
{
    const char *who = rig.events[rig.events_at++];
    int n = 0;

    assert_int_equal(max, 32);
    errno = ENOSYS; /* What was: it says nothing of a wait that went well. */
    if (who == NULL) {
        longjmp(rig.out, 1);
    }
    for (; who[n] != '\0'; n++) {
        int fd = who[n] == 'S'   ? SIGNAL
                 : who[n] == 'C' ? CONTROL
                 : who[n] == 'J' ? JOINED
                 : who[n] == 'R' ? REJOIN
                                 : OUTPUT;

        assert_non_null(rig.watches[fd]);
        out[n] = (struct epoll_event){.events = EPOLLIN,
                                      .data.ptr = rig.watches[fd]};
    }
    return n;
}

int
__wrap_epoll_wait(int epoll, struct epoll_event *out, int max, int ms)
{
    LINE("wait %d ms%s", ms, epoll == EPOLL ? "" : " ?");
    return turn(out, max);
}

int
__wrap_epoll_pwait2(int epoll, struct epoll_event *out, int max,
                    const struct timespec *wait, const sigset_t *mask)
{
    LINE("wait %ld s %ld ns%s", (long)wait->tv_sec, wait->tv_nsec,
         epoll == EPOLL && mask == NULL ? "" : " ?");
    return fails("pwait2") ? -1 : turn(out, max);
}

/* --- The machine --- */

static void
tell_set(const sigset_t *set)
{
    for (int sig = 1; sig < 32; sig++) {
        if (sigismember(set, sig) == 1) {
            journal(" %d", sig);
        }
    }
    journal_line();
}

int
__wrap_signalfd(int fd, const sigset_t *set, int flags)
{
    journal("signals%s",
            fd == -1 && flags == (SFD_NONBLOCK | SFD_CLOEXEC) ? "" : " ?");
    tell_set(set);
    return fails("signals") ? -1 : SIGNAL;
}

int
__wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    journal("block%s", how == SIG_BLOCK && old == NULL ? "" : " ?");
    tell_set(set);
    return 0;
}

int
__wrap_prctl(int what, ...)
{
    va_list ap;
    int value;

    va_start(ap, what);
    value = va_arg(ap, int);
    va_end(ap);
    LINE("prctl %s %d", what == PR_SET_DUMPABLE ? "dumpable" : "?", value);
    return fails("prctl") ? -1 : 0;
}

int
__wrap_close_range(unsigned first, unsigned last, int flags)
{
    LINE("close_range %u %x %d", first, last, flags);
    return 0;
}

int
__wrap_open(const char *path, int flags, ...)
{
    if (!rig.on) {
        va_list ap;
        int mode;

        va_start(ap, flags);
        mode = (flags & O_CREAT) != 0 ? va_arg(ap, int) : 0;
        va_end(ap);
        return __real_open(path, flags, mode);
    }
    LINE("open %s%s", path, flags == (O_RDWR | O_CLOEXEC) ? "" : " ?");
    return fails("open") ? -1 : rig.null_fd;
}

int
__wrap_dup2(int from, int to)
{
    LINE("dup2 %d %d", from, to);
    return fails("dup2") ? -1 : to;
}

int
__wrap_close(int fd)
{
    if (!rig.on) {
        return __real_close(fd);
    }
    LINE("close %d", fd);
    return 0;
}

ssize_t
__wrap_read(int fd, void *out, size_t cap)
{
    struct signalfd_siginfo info = {.ssi_signo =
                                        (uint32_t)rig.signals[rig.signals_at]};

    if (!rig.on) {
        return __real_read(fd, out, cap);
    }
    LINE("read %d: %u", fd, info.ssi_signo);
    if (info.ssi_signo == 0) {
        errno = EAGAIN;
        return -1;
    }
    rig.signals_at++;
    assert_int_equal(cap, sizeof info);
    memcpy(out, &info, sizeof info);
    return sizeof info;
}

int
__wrap_kill(pid_t pid, int sig)
{
    LINE("kill %d %d", (int)pid, sig);
    return 0;
}

pid_t
__wrap_waitpid(pid_t pid, int *status, int flags)
{
    const struct child *child = &rig.children[rig.children_at];

    LINE("waitpid %d%s: %d", (int)pid, flags == WNOHANG ? "" : " ?",
         (int)child->pid);
    rig.children_at += rig.children_at < MANY - 1;
    if (child->pid != 0) {
        *status = child->status;
    }
    return child->pid;
}

pid_t
__wrap_getpid(void)
{
    return rig.pid;
}

int
__wrap_accept4(int fd, struct sockaddr *address, socklen_t *len, int flags)
{
    LINE("accept %d%s", fd,
         address == NULL && len == NULL && flags == SOCK_CLOEXEC ? "" : " ?");
    return fails("accept") ? -1 : JOINED;
}

int
__wrap_fcntl(int fd, int what, ...)
{
    va_list ap;
    int value;

    va_start(ap, what);
    value = va_arg(ap, int);
    va_end(ap);
    if (!rig.on) {
        return __real_fcntl(fd, what, value);
    }
    LINE("fcntl %d%s", fd,
         what == F_SETFL && value == O_NONBLOCK ? " no wait" : " ?");
    return 0;
}

int
__wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    if (!rig.on) {
        return __real_clock_gettime(clock, out);
    }
    out->tv_sec = rig.now_us / 1000000;
    out->tv_nsec = rig.now_us % 1000000 * 1000;
    return 0;
}

void
__wrap__exit(int status)
{
    if (!rig.on) {
        __real__exit(status);
    }
    LINE("exit %d", status);
    longjmp(rig.out, 1);
}

/* --- The other parts --- */

char **
wp_init_options_parse(struct wp_init_options *options, int argc, char **argv)
{
    struct wp_init *init = WP_CONTAINER_OF(options, struct wp_init, options);

    LINE("options %d %s, command '%s' in '%s'", argc, argv[0],
         init->command.name, init->command.dir);
    if (rig.init == NULL) {
        rig.init = init;
        rig.pristine = *init;
    }
    *init = rig.pristine; /* Each test is its first start. */
    *options = rig.options;
    LINE("  egress %d, retry %lld, wake %lld", init->egress_fd,
         (long long)init->retry_us, (long long)init->wake_us);
    return argv + 1;
}

void
wp_init_tell(const struct wp_init *init, char what, const char *text)
{
    LINE("tell %d: %c '%s'", init->control_fd, what, text);
}

void
wp_init_tell_fd(const struct wp_init *init, char what, const char *text, int fd)
{
    LINE("tell %d: %c '%s' with %d", init->control_fd, what, text, fd);
}

void
wp_init_fail(const struct wp_init *init, const char *what)
{
    LINE("fail %d: %s, %s", init->control_fd, what, strerror(errno));
    longjmp(rig.out, 1);
}

void
wp_init_start_program(struct wp_init *init, const struct wp_program *program)
{
    int at = (int)init->inits_done;

    LINE("start '%s' %s, tail %zu, wake %lld", program->name, program->argv[0],
         init->tail_len, (long long)init->wake_us);
    init->child = CHILD + at;
    init->output_fd = OUTPUT + at;
    init->tail_len = 9;
    rig.watches[OUTPUT] = &init->output_watch;
}

void
wp_init_drain_output(struct wp_init *init, int rounds)
{
    LINE("drain %d %d", init->output_fd, rounds);
}

void
wp_init_print_end(struct wp_init *init, int status, char text[WP_CONTROL_MAX])
{
    size_t len = strlen(text);

    (void)snprintf(text + len, WP_CONTROL_MAX - len, "ended %x, tail %zu",
                   (unsigned)status, init->tail_len);
}

bool
wp_init_is_probing(const struct wp_init *init)
{
    return init->probe_child != 0;
}

void
wp_init_start_probe(struct wp_init *init)
{
    LINE("probe, asked %d", init->asked);
}

void
wp_init_probe_done(struct wp_inner_probe *probe, bool answered)
{
    (void)probe;
    (void)answered;
}

void
wp_init_exec_probe_ended(struct wp_init *init, int status)
{
    LINE("probe ended %x", (unsigned)status);
    init->probe_child = 0;
}

void
wp_init_probe_due(struct wp_init *init)
{
    LINE("probe due");
    init->wake_us = rig.wake_us;
}

void
wp_init_look(struct wp_init *init, const char *text)
{
    LINE("look '%s'%s", text, init == rig.init ? "" : " ?");
}

void
wp_init_take_parcel(struct wp_init *init, const char *fingerprint, int fd)
{
    LINE("parcel '%s' %d%s", fingerprint, fd, init == rig.init ? "" : " ?");
}

void
wp_init_bind(struct wp_init *init, const char *fingerprint, int fd)
{
    LINE("bind '%s' %d%s", fingerprint, fd, init == rig.init ? "" : " ?");
}

void
wp_init_take_tree(struct wp_init *init, const char *text, int fd)
{
    LINE("tree '%s' %d%s", text, fd, init == rig.init ? "" : " ?");
}

void
wp_init_identify(const struct wp_init *init, const char *token, size_t len)
{
    LINE("identity '%.*s' %zu%s", (int)(len < 40 ? len : 40), token, len,
         init == rig.init ? "" : " ?");
}

bool
wp_bridge_init(struct wp_bridge *bridge, int epoll_fd, int listen_fd,
               uint16_t port, uint32_t conns_max)
{
    LINE("bridge %d %d %u %u%s", epoll_fd, listen_fd, port, conns_max,
         bridge == &rig.init->bridge ? "" : " ?");
    return !fails("bridge");
}

void
wp_bridge_open(struct wp_bridge *bridge)
{
    LINE("bridge opens%s", bridge == &rig.init->bridge ? "" : " ?");
}

void
wp_bridge_reap(struct wp_bridge *bridge)
{
    LINE("reap%s", bridge == &rig.init->bridge ? "" : " ?");
}

void
wp_inner_probe_init(struct wp_inner_probe *probe, int epoll_fd, uint16_t port,
                    const char *path)
{
    LINE("probing %d %u %s%s", epoll_fd, port, path,
         probe == &rig.init->probe ? "" : " ?");
}

bool
wp_programs_read(int fd, struct wp_programs *out)
{
    static char *argv[][2] = {{"first", NULL}, {"second", NULL}};

    LINE("programs of %d", fd);
    for (int i = 0; i < rig.inits; i++) {
        out->inits[i].name = i == 0 ? "one" : "two";
        out->inits[i].argv = argv[i];
    }
    out->inits_len = (size_t)rig.inits;
    return !fails("programs");
}

int
wp_init_egress_listen(uint16_t port)
{
    LINE("egress at %u", port);
    return fails("egress") ? -1 : EGRESS;
}

uint32_t
wp_descriptors_fit(uint32_t asked, uint32_t each, uint32_t others)
{
    LINE("descriptors %u %u %u", asked, each, others);
    return asked - 1;
}

ssize_t
wp_passing_receive(int fd, void *bytes, size_t cap, int *passed)
{
    const struct message *message = &rig.messages[rig.messages_at++];
    size_t len = message->text != NULL ? strlen(message->text) : 0;

    LINE("receive %d %zu: %.40s %zu", fd, cap,
         message->text != NULL ? message->text : "end", len);
    memset(bytes, 'x', cap); /* What was before. */
    memcpy(bytes, message->text != NULL ? message->text : "", len);
    *passed = message->passed > 0   ? message->passed
              : message->passed < 0 ? 0
                                    : -1;
    errno = abs(message->error);
    return message->error > 0 ? -1 : (ssize_t)len;
}

/* --- --- */

static void
begin(const char *what)
{
    struct wp_init *init = rig.init;
    struct wp_init pristine = rig.pristine;

    memset(&rig, 0, sizeof rig);
    rig.init = init;
    rig.pristine = pristine;
    rig.pid = 7;
    rig.null_fd = 5;
    rig.now_us = 5000000;
    rig.wake_us = INT64_MAX;
    rig.options = (struct wp_init_options){
        .listen_fd = LISTEN,
        .control_fd = CONTROL,
        .rejoin_fd = -1,
        .programs_fd = -1,
        .port = 8080,
        .probe_path = "/healthz",
        .conns_max = 65,
    };
    LINE("--- %s", what);
}

static void
run(void)
{
    char *argv[] = {(char[]){"init"}, (char[]){"command"}, NULL};

    rig.on = true;
    errno = EBADMSG;
    if (setjmp(rig.out) == 0) {
        (void)__real_main(2, argv);
    }
    rig.on = false;
    LINE("= child %d, done %zu, control %d%s%s, output %d, tail %zu, wake %lld",
         (int)rig.init->child, rig.init->inits_done, rig.init->control_fd,
         rig.init->outlive ? ", outlives" : "",
         rig.init->asked ? ", asked" : "", rig.init->output_fd,
         rig.init->tail_len, (long long)rig.init->wake_us);
}

static void
begin_all(const char *what)
{
    begin(what);
    rig.options.rejoin_fd = REJOIN;
    rig.options.programs_fd = PROGRAMS;
    rig.options.egress_port = 1080;
}

static void
starts_what_it_is_told(void **state)
{
    static const struct {
        const char *call;
        int nth;
    } calls[] = {
        {"open", 1},   {"prctl", 1}, {"dup2", 1},    {"dup2", 2},
        {"dup2", 3},   {"epoll", 1}, {"signals", 1}, {"programs", 1},
        {"egress", 1}, {"watch", 1}, {"watch", 2},   {"watch", 3},
        {"bridge", 1},
    };

    (void)state;
    begin("the least");
    run();
    begin("descriptors may be any");
    rig.null_fd = 0;
    rig.options.rejoin_fd = 0;
    rig.options.programs_fd = 0;
    run();
    begin_all("all");
    run();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        begin_all(calls[i].call);
        rig.fails = calls[i].call;
        rig.nth = calls[i].nth;
        rig.error = ENOMEM;
        run();
    }
    journal_compare(WP_TEST_GOLDEN "/init_start.txt");
}

static void
waits_as_long_as_it_may(void **state)
{
    static const int64_t waits_us[] = {-1,   0,    1,       999,
                                       1000, 1001, 1999999, 3000000};

    (void)state;
    for (size_t i = 0; i < sizeof waits_us / sizeof *waits_us; i++) {
        for (int old = 0; old < 2; old++) {
            begin(old ? "an older kernel" : "a probe is due");
            rig.wake_us = rig.now_us + waits_us[i];
            rig.events[0] = "";
            rig.events[1] = "O";
            if (old) {
                rig.fails = "pwait2";
                rig.nth = 2;
                rig.error = ENOSYS;
            }
            run();
        }
    }
    begin("interrupted");
    rig.wake_us = rig.now_us + 1;
    rig.events[0] = "";
    rig.events[1] = "";
    rig.fails = "pwait2";
    rig.nth = 2;
    rig.error = EINTR;
    run();
    journal_compare(WP_TEST_GOLDEN "/init_waits.txt");
}

static void
runs_one_after_the_other(void **state)
{
    static const struct {
        const char *what;
        pid_t pid;
        struct child children[MANY];
    } cases[] = {
        {"both end well, then the command",
         1,
         {{CHILD, 0}, {0, 0}, {CHILD + 1, 0}, {0, 0}, {CHILD + 2, STATUS_3}}},
        {"the same, not as process 1", 7, {{CHILD, 0}, {0, 0}, {CHILD + 1, 0}}},
        {"one fails", 1, {{CHILD, STATUS_3}}},
        {"one is killed", 7, {{CHILD, SIGKILL}}},
        {"the other fails", 7, {{CHILD, 0}, {0, 0}, {CHILD + 1, STATUS_3}}},
        {"others end", 7, {{5, 0}, {6, STATUS_3}, {CHILD + 1, 0}}},
        {"others end as well", 7, {{5, STATUS_3}, {CHILD, 0}, {6, STATUS_3}}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_all(cases[i].what);
        rig.inits = 2;
        rig.pid = cases[i].pid;
        memcpy(rig.children, cases[i].children, sizeof rig.children);
        for (int at = 0; at < 3; at++) {
            rig.events[at] = "S";
        }
        run();
    }
    begin("probes end");
    rig.events[0] = "C";
    rig.messages[0] = (struct message){"P", 0, 0};
    rig.events[1] = "S";
    rig.children[0] = (struct child){PROBE_CHILD, STATUS_3};
    rig.pristine.probe_child = PROBE_CHILD;
    run();
    rig.pristine.probe_child = 0;
    begin("signals");
    rig.events[0] = "S";
    rig.signals[0] = SIGCHLD;
    rig.signals[1] = SIGTERM;
    rig.signals[2] = SIGTERM;
    run();
    journal_compare(WP_TEST_GOLDEN "/init_programs.txt");
}

static void
does_what_its_daemon_says(void **state)
{
    static const struct message messages[] = {
        {"B01", -1, 0},    {"A45", -1, 0},        {"R8 /p", -1, 0},
        {"?", -1, 0},      {NULL, 0, -EAGAIN},    {"K", 0, -EINTR},
        {"K", 0, 0},       {"T", 0, 0},           {"P", 0, 0},
        {"B0123", 40, 0},  {"B0123", 0, 0},       {"A4567", 41, 0},
        {"A4567", 0, 0},   {"R89 /place", 42, 0}, {"R89 /place", 0, 0},
        {"Itoken", 0, 0},  {"Itoken", 43, 0},     {"I", 0, 0},
        {"L250", 0, 0},    {"L", 0, 0},           {"W", 0, 0},
        {"?", 44, 0},      {"?", 0, 0},           {NULL, 0, 0},
        {NULL, 0, EAGAIN}, {NULL, 0, EINTR},      {NULL, 0, ECONNRESET},
    };
    static char longest[WP_CONTROL_IDENTITY_MAX + 1];

    (void)state;
    memset(longest, 'y', sizeof longest - 1);
    for (size_t i = 0; i < sizeof messages / sizeof *messages; i++) {
        begin(messages[i].text != NULL ? messages[i].text : "its end");
        rig.events[0] = "C";
        rig.messages[0] = messages[i];
        run();
    }
    for (int i = 0; i < 5; i++) {
        begin("the longest");
        longest[0] = "BARLI"[i];
        rig.events[0] = "C";
        rig.messages[0] = (struct message){longest, 40, 0};
        run();
    }
    begin("asks twice");
    rig.events[0] = "CC";
    rig.messages[0] = rig.messages[1] = (struct message){"P", 0, 0};
    run();
    begin("goes, and comes again");
    rig.options.rejoin_fd = REJOIN;
    rig.options.egress_port = 1080;
    rig.messages[0] = (struct message){"K", 0, 0};
    rig.events[0] = "C";
    rig.events[1] = "CCO";
    rig.events[2] = "R";
    rig.events[3] = "J";
    rig.messages[2] = (struct message){"W", 0, 0};
    run();
    begin("another comes meanwhile");
    rig.options.rejoin_fd = REJOIN;
    rig.events[0] = "R";
    run();
    begin("another cannot be taken");
    rig.options.rejoin_fd = REJOIN;
    rig.events[0] = "R";
    rig.fails = "accept";
    rig.nth = 1;
    rig.error = EMFILE;
    run();
    begin("another cannot be watched");
    rig.options.rejoin_fd = REJOIN;
    rig.events[0] = "R";
    rig.fails = "watch";
    rig.nth = 4;
    rig.error = ENOMEM;
    run();
    journal_compare(WP_TEST_GOLDEN "/init_says.txt");
}

int
__wrap_main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_what_it_is_told),
        cmocka_unit_test(waits_as_long_as_it_may),
        cmocka_unit_test(runs_one_after_the_other),
        cmocka_unit_test(does_what_its_daemon_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
