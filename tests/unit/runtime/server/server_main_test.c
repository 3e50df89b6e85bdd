/* What warmpool-runtime does from its start to its end, with all its parts
 * replaced: what each is made of, in which order they go, what is listened on,
 * and how it exits. Its main is called by this one. Compared whole with
 * golden/main_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <event2/event.h>

#include "proto/loop/loop.h"
#include "proto/sockets/descriptors.h"
#include "proto/sockets/listen.h"
#include "runtime/mcp/mcp.h"
#include "runtime/runtime.h"
#include "runtime/sandboxd/process_service.h"
#include "runtime/server/bind.h"
#include "runtime/server/confine.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"
#include "tests/support/base/temp_dir.h"

static struct wp_options options; /* What was asked for. */
static enum wp_options_outcome outcome;
static const char *failing; /* A step. */
static unsigned fails_in;   /* 0: none. */
static enum wp_status confined;
static uint32_t fits; /* Descriptors. */
static bool has_workspace;
static int ports; /* Given. */
static char part; /* Stands for each part. */
static void (*drained[2])(void *arg);
static void *drained_arg;
static struct {
    event_callback_fn on;
    void *arg;
    int fd;
} events[8];
static size_t n_events;
static void (*in_loop)(void); /* What happens there. */

int __wrap_main(void);
int __real_main(int argc, char **argv);

enum wp_options_outcome __wrap_wp_options_parse(int argc, char **argv,
                                                struct wp_options *out,
                                                struct wp_err *err);
void __wrap_wp_log_configure(enum wp_log_level level,
                             enum wp_log_format format);
struct event_base *__wrap_wp_loop_base_create(void);
void __wrap_wp_loop_base_destroy(struct event_base *base);
struct wp_process_table *
__wrap_wp_process_table_create(struct event_base *base,
                               const struct wp_process_limits *limits);
void __wrap_wp_process_table_destroy(struct wp_process_table *table);
struct wp_mcp *__wrap_wp_mcp_create(struct wp_runtime *runtime);
void __wrap_wp_mcp_drain(struct wp_mcp *mcp);
void __wrap_wp_mcp_destroy(struct wp_mcp *mcp);
struct wp_http_server *
__wrap_wp_http_server_create(const struct wp_http_server_config *config);
enum wp_status __wrap_wp_http_server_listen(struct wp_http_server *server,
                                            int fd, unsigned roles,
                                            struct wp_err *err);
void __wrap_wp_http_server_drain(struct wp_http_server *server,
                                 void (*done)(void *arg), void *arg);
void __wrap_wp_http_server_destroy(struct wp_http_server *server);
struct wp_process_service *
__wrap_wp_process_service_create(struct wp_runtime *runtime, const char *listen,
                                 uint32_t connections_max, struct wp_err *err);
int32_t
__wrap_wp_process_service_port(const struct wp_process_service *service);
void __wrap_wp_process_service_drain(struct wp_process_service *service,
                                     void (*done)(void *arg), void *arg);
void __wrap_wp_process_service_destroy(struct wp_process_service *service);
enum wp_status __wrap_wp_workspace_init(struct wp_workspace *workspace,
                                        const char *path, struct wp_err *err);
void __wrap_wp_workspace_fini(struct wp_workspace *workspace);
void __wrap_wp_runtime_bind_init(struct wp_runtime *runtime);
enum wp_status __wrap_wp_confine(const char *workspace, const char *readable,
                                 struct wp_err *err);
enum wp_status __wrap_wp_listener_open(struct wp_listener *listener,
                                       const struct wp_address *address,
                                       uint32_t unix_mode, struct wp_err *err);
void __wrap_wp_listener_close(struct wp_listener *listener);
uint32_t __wrap_wp_descriptors_fit(uint32_t asked, uint32_t each,
                                   uint32_t reserve);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd,
                               short what, event_callback_fn on, void *arg);
int __wrap_event_add(struct event *event, const struct timeval *tv);
void __wrap_event_free(struct event *event);
int __wrap_event_base_dispatch(struct event_base *base);
int __wrap_event_base_loopbreak(struct event_base *base);
int __wrap_sigaction(int number, const struct sigaction *act,
                     struct sigaction *old);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_stat(const char *path, struct stat *st);
int __real_stat(const char *path, struct stat *st);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__real_fopen(const char *path, const char *mode);
int __wrap_rename(const char *from, const char *to);
int __real_rename(const char *from, const char *to);

static bool
fails(const char *step)
{
    if (failing == NULL || strcmp(failing, step) != 0 || fails_in == 0 ||
        --fails_in > 0) {
        return false;
    }
    errno = EROFS;
    return true;
}

static bool
told(const char *what)
{
    journal("%s", what);
    journal_line();
    return !fails(what);
}

#define PART(type) ((type *)(void *)&part)

enum wp_options_outcome
__wrap_wp_options_parse(int argc, char **argv, struct wp_options *out,
                        struct wp_err *err)
{
    assert_int_equal(argc, 1);
    assert_string_equal(argv[0], "name");
    *out = options;
    (void)wp_err_set(err, WP_INVALID_ARGUMENT, "--what: it is not known");
    return outcome;
}

void
__wrap_wp_log_configure(enum wp_log_level level, enum wp_log_format format)
{
    journal("log %d %d", (int)level, (int)format);
    journal_line();
}

struct event_base *
__wrap_wp_loop_base_create(void)
{
    return told("loop") ? PART(struct event_base) : NULL;
}

void
__wrap_wp_loop_base_destroy(struct event_base *base)
{
    (void)told(base != NULL ? "destroy loop" : "destroy no loop");
}

struct wp_process_table *
__wrap_wp_process_table_create(struct event_base *base,
                               const struct wp_process_limits *limits)
{
    assert_ptr_equal(base, &part);
    journal("commands %u waiting %u timeout %lld drain %lld",
            limits->running_max, limits->waiting_max,
            (long long)limits->timeout_max_ms, (long long)limits->drain_ms);
    journal_line();
    return fails("commands") ? NULL : PART(struct wp_process_table);
}

void
__wrap_wp_process_table_destroy(struct wp_process_table *table)
{
    (void)told(table != NULL ? "destroy commands" : "destroy no commands");
}

struct wp_mcp *
__wrap_wp_mcp_create(struct wp_runtime *runtime)
{
    assert_ptr_equal(runtime->base, &part);
    return told("mcp") ? PART(struct wp_mcp) : NULL;
}

void
__wrap_wp_mcp_drain(struct wp_mcp *mcp)
{
    assert_ptr_equal(mcp, &part);
    (void)told("drain mcp");
}

void
__wrap_wp_mcp_destroy(struct wp_mcp *mcp)
{
    (void)told(mcp != NULL ? "destroy mcp" : "destroy no mcp");
}

struct wp_http_server *
__wrap_wp_http_server_create(const struct wp_http_server_config *config)
{
    assert_ptr_equal(config->base, &part);
    assert_true(config->route == wp_runtime_route);
    assert_null(config->admit);
    journal(
        "http conns %u fields %u head %lld body %lld idle %lld send %lld",
        config->conns_max, config->fields_max,
        (long long)config->head_timeout_ns, (long long)config->body_timeout_ns,
        (long long)config->idle_timeout_ns, (long long)config->send_timeout_ns);
    journal_line();
    return fails("http") ? NULL : PART(struct wp_http_server);
}

enum wp_status
__wrap_wp_http_server_listen(struct wp_http_server *server, int fd,
                             unsigned roles, struct wp_err *err)
{
    assert_ptr_equal(server, &part);
    journal("serve %d as %u", fd, roles);
    journal_line();
    return fails("serve") ? wp_err_set(err, WP_UNAVAILABLE, "it does not serve")
                          : WP_OK;
}

void
__wrap_wp_http_server_drain(struct wp_http_server *server,
                            void (*done)(void *arg), void *arg)
{
    assert_ptr_equal(server, &part);
    drained[0] = done;
    drained_arg = arg;
    (void)told("drain http");
}

void
__wrap_wp_http_server_destroy(struct wp_http_server *server)
{
    (void)told(server != NULL ? "destroy http" : "destroy no http");
}

struct wp_process_service *
__wrap_wp_process_service_create(struct wp_runtime *runtime, const char *listen,
                                 uint32_t connections_max, struct wp_err *err)
{
    assert_ptr_equal(runtime->base, &part);
    journal("grpc %s conns %u", listen, connections_max);
    journal_line();
    if (fails("grpc")) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "no gRPC");
        return NULL;
    }
    return PART(struct wp_process_service);
}

int32_t
__wrap_wp_process_service_port(const struct wp_process_service *service)
{
    assert_ptr_equal(service, &part);
    return 4711;
}

void
__wrap_wp_process_service_drain(struct wp_process_service *service,
                                void (*done)(void *arg), void *arg)
{
    assert_ptr_equal(service, &part);
    drained[1] = done;
    drained_arg = arg;
    (void)told("drain grpc");
}

void
__wrap_wp_process_service_destroy(struct wp_process_service *service)
{
    (void)told(service != NULL ? "destroy grpc" : "destroy no grpc");
}

enum wp_status
__wrap_wp_workspace_init(struct wp_workspace *workspace, const char *path,
                         struct wp_err *err)
{
    assert_int_equal(workspace->fd, -1);
    journal("workspace %s", path);
    journal_line();
    (void)strcpy(workspace->root, "/root-of-it");
    return fails("workspace") ? wp_err_set(err, WP_NOT_FOUND, "no workspace")
                              : WP_OK;
}

void
__wrap_wp_workspace_fini(struct wp_workspace *workspace)
{
    assert_non_null(workspace);
    (void)told("end workspace");
}

void
__wrap_wp_runtime_bind_init(struct wp_runtime *runtime)
{
    assert_ptr_equal(runtime->base, &part);
    (void)told("find the binding");
}

enum wp_status
__wrap_wp_confine(const char *workspace, const char *readable,
                  struct wp_err *err)
{
    journal("confine to %s, %s", workspace, readable);
    journal_line();
    return confined == WP_OK ? WP_OK : wp_err_set(err, confined, "no walls");
}

enum wp_status
__wrap_wp_listener_open(struct wp_listener *listener,
                        const struct wp_address *address, uint32_t unix_mode,
                        struct wp_err *err)
{
    char text[128];

    journal("listen %s %u", wp_address_format(address, text, sizeof text),
            unix_mode);
    journal_line();
    if (fails("listen")) {
        return wp_err_set(err, WP_UNAVAILABLE, "it is in use");
    }
    listener->fd = 500 + ports++;
    listener->address = *address;
    if (!address->is_unix && wp_address_port(address) == 0) {
        wp_address_set_port(&listener->address, 9999);
    }
    return WP_OK;
}

void
__wrap_wp_listener_close(struct wp_listener *listener)
{
    journal("end socket %d", listener->fd);
    journal_line();
}

uint32_t
__wrap_wp_descriptors_fit(uint32_t asked, uint32_t each, uint32_t reserve)
{
    journal("descriptors for %u of %u beside %u", asked, each, reserve);
    journal_line();
    return asked < fits ? asked : fits;
}

struct event *
__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what,
                 event_callback_fn on, void *arg)
{
    assert_ptr_equal(base, &part);
    journal("event %zu (%d,%x)", n_events, (int)fd, (unsigned)what);
    journal_line();
    if (fails("event")) {
        return NULL;
    }
    events[n_events].on = on;
    events[n_events].arg = arg;
    events[n_events].fd = (int)fd;
    return (struct event *)(void *)&events[n_events++];
}

static int
number_of(const struct event *event)
{
    return (int)(((const char *)event - (const char *)events) /
                 (ptrdiff_t)sizeof(events[0]));
}

int
__wrap_event_add(struct event *event, const struct timeval *tv)
{
    journal("+%d", number_of(event));
    if (tv != NULL) {
        journal(" in %lld.%06ld", (long long)tv->tv_sec, (long)tv->tv_usec);
    }
    journal_line();
    return 0;
}

void
__wrap_event_free(struct event *event)
{
    journal("free event %d", number_of(event));
    journal_line();
}

int
__wrap_event_base_dispatch(struct event_base *base)
{
    assert_ptr_equal(base, &part);
    (void)told("-- runs");
    if (in_loop != NULL) {
        in_loop();
    }
    (void)told("-- has run");
    return 0;
}

int
__wrap_event_base_loopbreak(struct event_base *base)
{
    assert_ptr_equal(base, &part);
    (void)told("break");
    return 0;
}

int
__wrap_sigaction(int number, const struct sigaction *act, struct sigaction *old)
{
    assert_null(old);
    journal("signal %d %s", number,
            act->sa_handler == SIG_IGN ? "ignored" : "?");
    journal_line();
    return 0;
}

int
__wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    assert_null(old);
    journal("%s", how == SIG_SETMASK ? "mask"
                  : how == SIG_BLOCK ? "block"
                                     : "?");
    for (int number = 1; number < NSIG; number++) {
        if (sigismember(set, number) == 1) {
            journal(" %d", number);
        }
    }
    journal_line();
    return 0;
}

int
__wrap_stat(const char *path, struct stat *st)
{
    if (strcmp(path, "/workspace") != 0) {
        return __real_stat(path, st);
    }
    st->st_mode = has_workspace ? S_IFDIR : S_IFREG;
    return fails("stat") ? -1 : 0;
}

FILE *
__wrap_fopen(const char *path, const char *mode)
{
    return fails("fopen") ? NULL : __real_fopen(path, mode);
}

int
__wrap_rename(const char *from, const char *to)
{
    journal("rename %s %s", from, to);
    journal_line();
    return fails("rename") ? -1 : __real_rename(from, to);
}

/* --------------------------------------------------------------- the rig */

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/main_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static void
run_here(void)
{
    char name[] = "name";
    char *argv[] = {name, NULL};
    struct heard heard;
    const char *log;
    int rc;

    n_events = 0;
    ports = 0;
    heard_begin(&heard);
    rc = __real_main(1, argv);
    log = heard_end(&heard);
    journal("= %d, said: %s", rc, log);
    journal_line();
}

/* In a process of its own, as it lives once in one. */
static void
run(void)
{
    char bytes[4096];
    int ends[2];
    int status;
    ssize_t n;
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        journal_drop();
        run_here();
        n = write(ends[1], journal_text(), strlen(journal_text()));
        _exit(n == (ssize_t)strlen(journal_text()) ? 0 : 1);
    }
    assert_int_equal(close(ends[1]), 0);
    while ((n = read(ends[0], bytes, sizeof bytes)) > 0) {
        journal_put(bytes, (size_t)n);
    }
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    /* A fault was for that one. */
    fails_in = 0;
}

static int
begin(void **state)
{
    (void)state;
    options = (struct wp_options){
        .port = 80,
        .mcp_port = WP_OPTIONS_PORT_NONE,
        .rest_port = WP_OPTIONS_PORT_NONE,
        .grpc_port = WP_OPTIONS_PORT_NONE,
        .execs_max = 3,
        .execs_waiting_max = 4,
        .exec_timeout_max_ms = 5,
        .conns_max = 100,
        .grace_ms = 1500,
        .log_level = WP_LOG_INFO,
    };
    outcome = WP_OPTIONS_RUN;
    failing = NULL;
    fails_in = 0;
    confined = WP_OK;
    fits = 1000;
    has_workspace = true;
    in_loop = NULL;
    journal_drop();
    return 0;
}

/* ----------------------------------------------------------------- tests */

static void
options_may_end_it(void **state)
{
    (void)state;
    outcome = WP_OPTIONS_HELP;
    run();
    outcome = WP_OPTIONS_INVALID;
    run();
    golden("options");
}

static void
its_parts_are_made_and_ended_in_order(void **state)
{
    (void)state;
    run();
    golden("parts");
}

static void
all_that_is_asked_for_is_listened_on(void **state)
{
    char dir[256];
    char text[256];
    FILE *file;
    size_t n;

    (void)state;
    temp_dir_make_fast(dir, sizeof dir);
    assert_int_equal(chdir(dir), 0);
    options.port = 0;
    options.mcp_port = 81;
    options.rest_port = 82;
    options.grpc_port = 83;
    options.unix_path = "a/socket";
    options.port_file = "ports";
    options.workspace = "/given";
    options.confine = true;
    options.readable = "/usr";
    fits = 50;
    run();
    file = __real_fopen("ports", "re");
    assert_non_null(file);
    n = fread(text, 1, sizeof text, file);
    journal_bytes(text, n);
    journal_line();
    assert_int_equal(fclose(file), 0);
    say("on an address");
    options.bind = "127.0.0.1";
    run();
    options.bind = "::1";
    run();
    options.bind = "nowhere";
    run();
    options.bind = NULL;
    say("without IPv6");
    failing = "listen";
    fails_in = 1;
    run();
    failing = "grpc";
    fails_in = 1;
    run();
    assert_int_equal(chdir("/"), 0);
    temp_dir_remove(dir);
    golden("listening");
}

static void
what_cannot_be_is_told_and_taken_down(void **state)
{
    static const struct {
        const char *step;
        unsigned nth;
    } steps[] = {{"workspace", 1}, {"loop", 1},  {"commands", 1}, {"mcp", 1},
                 {"http", 1},      {"event", 1}, {"event", 2},    {"event", 3},
                 {"serve", 1},     {"serve", 2}, {"fopen", 1},    {"rename", 1},
                 {"stat", 1}};
    char dir[256];

    (void)state;
    temp_dir_make_fast(dir, sizeof dir);
    assert_int_equal(chdir(dir), 0);
    options.port_file = "ports";
    options.unix_path = "socket";
    for (size_t i = 0; i < sizeof steps / sizeof(steps[0]); i++) {
        journal("-- %s %u", steps[i].step, steps[i].nth);
        journal_line();
        failing = steps[i].step;
        fails_in = steps[i].nth;
        run();
        /* Half a file of ports stays nowhere. */
        assert_int_not_equal(access("ports.new", F_OK), 0);
    }
    golden("failures");
    say("no folder of that name");
    has_workspace = false;
    run();
    say("walls");
    options.confine = true;
    options.readable = "/usr";
    confined = WP_UNIMPLEMENTED;
    run();
    confined = WP_INTERNAL;
    run();
    say("gRPC on an address");
    options.bind = "127.0.0.1";
    options.grpc_port = 1;
    failing = "grpc";
    fails_in = 1;
    run();
    say("neither IPv6 nor IPv4");
    options.port = 0;
    options.bind = NULL;
    failing = "listen";
    fails_in = 1;
    options.mcp_port = 81;
    run();
    assert_int_equal(chdir("/"), 0);
    temp_dir_remove(dir);
    golden("more_failures");
}

static void
happens(size_t i)
{
    journal("event %zu happens", i);
    journal_line();
    events[i].on(events[i].fd, 0, events[i].arg);
}

static void
is_asked_to_stop(void)
{
    happens(1);
    drained[0](drained_arg);
}

static void
is_asked_to_stop_both(void)
{
    happens(2);
    drained[1](drained_arg);
    drained[0](drained_arg);
}

static void
is_asked_twice(void)
{
    happens(1);
    happens(2);
}

static void
is_late(void)
{
    happens(1);
    happens(0);
}

static void
it_stops_when_it_is_asked_to(void **state)
{
    static void (*const stops[])(void) = {is_asked_to_stop,
                                          is_asked_to_stop_both};

    (void)state;
    in_loop = stops[0];
    run();
    golden("stop");
}

static void
it_stops_when_both_servers_have(void **state)
{
    (void)state;
    options.grpc_port = 1;
    in_loop = is_asked_to_stop_both;
    run();
    golden("stop_both");
}

static void
who_asks_twice_does_not_wait(void **state)
{
    (void)state;
    in_loop = is_asked_twice;
    run();
    golden("stop_twice");
}

static void
it_waits_as_long_as_its_grace(void **state)
{
    (void)state;
    in_loop = is_late;
    run();
    golden("stop_late");
}

int
__wrap_main(void)
{
#define ONE(test) cmocka_unit_test_setup(test, begin)
    const struct CMUnitTest tests[] = {
        ONE(options_may_end_it),
        ONE(its_parts_are_made_and_ended_in_order),
        ONE(all_that_is_asked_for_is_listened_on),
        ONE(what_cannot_be_is_told_and_taken_down),
        ONE(it_stops_when_it_is_asked_to),
        ONE(it_stops_when_both_servers_have),
        ONE(who_asks_twice_does_not_wait),
        ONE(it_waits_as_long_as_its_grace),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
