/* What warmpool-egress does from its start to its end, with all its parts
 * replaced: what each option comes to, which words are refused and how, in
 * which order its parts are made and ended, and how it exits. Its main is
 * called by this one. Compared whole with golden/egress_main_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/base/log.h"
#include "pool/egress/channel.h"
#include "pool/egress/pass.h"
#include "proto/loop/loop.h"
#include "proto/sockets/descriptors.h"
#include "proto/sockets/listen.h"
#include "runtime/egress/members.h"
#include "tests/support/base/journal.h"
#include "tests/support/base/temp_dir.h"

static const char *failing; /* A step. */
static unsigned fails_in;   /* 0: none. */
static uint32_t fits;       /* Descriptors. */
static bool stops;          /* While it runs. */
static int opened = -1;     /* The file of secrets. */
static struct {             /* Stand for each part. */
    char base;
    char resolver;
    char keys;
    char tls;
    char egress;
    char members;
} parts;
static struct {
    event_callback_fn on;
    void *arg;
} events[4];
static size_t n_events;

#define PART(type, name) ((struct type *)(void *)&parts.name)
/* Declares what the linker puts in place of name. */
#define FAKE(type, name, ...)                                                  \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

int __wrap_main(void);
int __real_main(int argc, char **argv);
int __real_open(const char *path, int flags, ...);
int __real_fstat(int fd, struct stat *st);
int __real_close(int fd);
ssize_t __real_read(int fd, void *out, size_t cap);

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

static void
ends(const void *what, const void *expected, const char *name)
{
    journal("end %s%s", what == NULL ? "no " : "", name);
    journal_line();
    assert_true(what == NULL || what == expected);
}

/* ----------------------------------------------------------------- fakes */

FAKE(void, wp_log_configure, enum wp_log_level level, enum wp_log_format format)
{
    journal("log %d %d", (int)level, (int)format);
    journal_line();
}

FAKE(struct event_base *, wp_loop_base_create, void)
{
    return told("loop") ? PART(event_base, base) : NULL;
}

FAKE(void, wp_loop_base_destroy, struct event_base *base)
{
    ends(base, &parts.base, "loop");
}

FAKE(uint32_t, wp_descriptors_fit, uint32_t asked, uint32_t each,
     uint32_t reserve)
{
    journal("descriptors for %u of %u beside %u", asked, each, reserve);
    journal_line();
    return asked < fits ? asked : fits;
}

FAKE(struct event *, event_new, struct event_base *base, evutil_socket_t fd,
     short what, event_callback_fn on, void *arg)
{
    assert_ptr_equal(base, &parts.base);
    journal("event %zu (%d,%x)", n_events, (int)fd, (unsigned)what);
    journal_line();
    if (fails("event")) {
        return NULL;
    }
    events[n_events].on = on;
    events[n_events].arg = arg;
    return (struct event *)(void *)&events[n_events++];
}

static int
number_of(const struct event *event)
{
    return (int)(((const char *)event - (const char *)events) /
                 (ptrdiff_t)sizeof(events[0]));
}

FAKE(int, event_add, struct event *event, const struct timeval *tv)
{
    journal("add event %d%s", number_of(event), tv != NULL ? " in time" : "");
    journal_line();
    return fails("add") ? -1 : 0;
}

FAKE(void, event_free, struct event *event)
{
    journal("free event %d", number_of(event));
    journal_line();
}

FAKE(int, event_base_dispatch, struct event_base *base)
{
    assert_ptr_equal(base, &parts.base);
    (void)told("runs");
    for (size_t i = 0; stops && i < n_events; i++) {
        events[i].on(-1, EV_SIGNAL, events[i].arg);
    }
    return 0;
}

FAKE(int, event_base_loopbreak, struct event_base *base)
{
    assert_ptr_equal(base, &parts.base);
    (void)told("break");
    return 0;
}

FAKE(struct wp_resolver *, wp_resolver_create, struct event_base *base,
     const char *servers, struct wp_err *err)
{
    assert_ptr_equal(base, &parts.base);
    journal("resolver of %s", servers != NULL ? servers : "the system");
    journal_line();
    if (fails("resolver")) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT, "no name server");
        return NULL;
    }
    return PART(wp_resolver, resolver);
}

FAKE(void, wp_resolver_destroy, struct wp_resolver *resolver)
{
    ends(resolver, &parts.resolver, "resolver");
}

static const char *
name_of(int fd)
{
    return fd == opened ? "the file" : fd == WP_EGRESS_KEYS_FD ? "4" : "?";
}

FAKE(struct wp_egress_keys *, wp_egress_keys_read, int fd, struct wp_err *err)
{
    journal("keys of %s", name_of(fd));
    journal_line();
    if (fails("keys")) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT, "line 1: no key");
        return NULL;
    }
    return PART(wp_egress_keys, keys);
}

FAKE(void, wp_egress_keys_destroy, struct wp_egress_keys *keys)
{
    ends(keys, &parts.keys, "keys");
}

FAKE(struct wp_upstream_tls *, wp_upstream_tls_create, const char *ca,
     struct wp_err *err)
{
    journal("TLS of %s", ca != NULL ? ca : "the system");
    journal_line();
    if (fails("tls")) {
        (void)wp_err_set(err, WP_FAILED_PRECONDITION, "no authorities");
        return NULL;
    }
    return PART(wp_upstream_tls, tls);
}

FAKE(void, wp_upstream_tls_destroy, struct wp_upstream_tls *tls)
{
    ends(tls, &parts.tls, "TLS");
}

FAKE(struct wp_egress *, wp_egress_create,
     const struct wp_egress_config *config)
{
    assert_ptr_equal(config->base, &parts.base);
    assert_ptr_equal(config->resolver, &parts.resolver);
    assert_true(config->keys == NULL ||
                config->keys == PART(wp_egress_keys, keys));
    assert_true(config->tls == NULL ||
                config->tls == PART(wp_upstream_tls, tls));
    journal("egress%s%s packages '%.*s' conns %u source %u bytes %llu",
            config->keys != NULL ? " with keys" : "",
            config->tls != NULL ? " with TLS" : "",
            WP_STR_ARG(config->packages), config->conns_max,
            config->source_conns_max,
            (unsigned long long)config->source_bytes_max);
    journal(" idle %lld answer %lld silence %lld connect %lld",
            (long long)config->idle_timeout_ns,
            (long long)config->answer_timeout_ns,
            (long long)config->silence_timeout_ns,
            (long long)config->connect_timeout_ns);
    for (size_t i = 0; config->pass_key != NULL && i < WP_EGRESS_KEY_LEN; i++) {
        journal("%s%02x", i == 0 ? " pass " : "", config->pass_key[i]);
    }
    journal_line();
    return fails("egress") ? NULL : PART(wp_egress, egress);
}

FAKE(void, wp_egress_destroy, struct wp_egress *egress)
{
    ends(egress, &parts.egress, "egress");
}

FAKE(enum wp_status, wp_egress_join, struct wp_egress *egress,
     struct wp_str name, struct wp_str policy, struct wp_str by, int fd,
     struct wp_err *err)
{
    assert_ptr_equal(egress, &parts.egress);
    journal("join '%.*s' '%.*s' '%.*s' %d", WP_STR_ARG(name),
            WP_STR_ARG(policy), WP_STR_ARG(by), fd);
    journal_line();
    return fails("join") ? wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no room")
                         : WP_OK;
}

FAKE(struct wp_egress_members *, wp_egress_members_create,
     struct event_base *base, struct wp_egress *egress, int fd)
{
    assert_ptr_equal(base, &parts.base);
    assert_ptr_equal(egress, &parts.egress);
    journal("members of %d", fd);
    journal_line();
    return fails("members") ? NULL : PART(wp_egress_members, members);
}

FAKE(void, wp_egress_members_destroy, struct wp_egress_members *members)
{
    ends(members, &parts.members, "members");
}

FAKE(enum wp_status, wp_listener_open, struct wp_listener *listener,
     const struct wp_address *address, uint32_t unix_mode, struct wp_err *err)
{
    char text[128];

    journal("listen %s mode %o over %d",
            wp_address_format(address, text, sizeof text), unix_mode,
            listener->fd);
    journal_line();
    if (fails("listen")) {
        return wp_err_set(err, WP_UNAVAILABLE, "it is in use");
    }
    listener->fd = 500;
    listener->address = *address;
    if (!address->is_unix && wp_address_port(address) == 0) {
        wp_address_set_port(&listener->address, 9999);
    }
    return WP_OK;
}

FAKE(void, wp_listener_close, struct wp_listener *listener)
{
    journal("end socket %d", listener->fd);
    journal_line();
}

FAKE(int, sigaction, int number, const struct sigaction *act,
     struct sigaction *old)
{
    assert_null(old);
    journal("signal %d %s", number,
            act->sa_handler == SIG_IGN ? "ignored" : "?");
    journal_line();
    return 0;
}

FAKE(int, prctl, int what, unsigned long value, ...)
{
    journal("prctl %d %lu", what, value & 0xffffffffU);
    journal_line();
    return 0;
}

FAKE(int, getrlimit, int what, struct rlimit *out)
{
    journal("limit %d?", what);
    journal_line();
    *out = (struct rlimit){10, 20};
    return fails("getrlimit") ? -1 : 0;
}

FAKE(int, setrlimit, int what, const struct rlimit *limit)
{
    journal("limit %d is %llu of %llu", what,
            (unsigned long long)limit->rlim_cur,
            (unsigned long long)limit->rlim_max);
    journal_line();
    return 0;
}

/* Only the test's own files are without a folder in their names. */
FAKE(int, open, const char *path, int flags, ...)
{
    va_list ap;
    int mode;

    if (strchr(path, '/') != NULL) {
        va_start(ap, flags);
        mode = (flags & O_CREAT) != 0 ? va_arg(ap, int) : 0;
        va_end(ap);
        return __real_open(path, flags, mode);
    }
    journal("open %s%s", path,
            flags == (O_RDONLY | O_CLOEXEC | O_NONBLOCK) ? "" : " differently");
    journal_line();
    opened = __real_open(path, flags);
    return opened;
}

FAKE(int, fstat, int fd, struct stat *st)
{
    return fd == opened && fails("fstat") ? -1 : __real_fstat(fd, st);
}

FAKE(ssize_t, read, int fd, void *out, size_t cap)
{
    if (fd != opened) {
        return __real_read(fd, out, cap);
    }
    journal("read %zu", cap);
    journal_line();
    return fails("read") ? -1 : __real_read(fd, out, cap);
}

FAKE(int, close, int fd)
{
    journal("close %s", name_of(fd));
    journal_line();
    if (fd != opened) {
        return 0;
    }
    opened = -1;
    return __real_close(fd);
}

FAKE(void, explicit_bzero, void *at, size_t len)
{
    memset(at, 0, len);
    journal("wipe %zu", len);
    journal_line();
}

FAKE(void, __explicit_bzero_chk, void *at, size_t len, size_t room)
{
    assert_true(len <= room);
    __wrap_explicit_bzero(at, len);
}

/* --------------------------------------------------------------- the rig */

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/egress_main_%s.txt",
                   name);
    journal_compare(path);
}

/* Each line of what was said; a line of the log without its time, and the
 * version without its number. */
static void
tell_said(int fd)
{
    static const char version[] = "warmpool-egress " WP_VERSION;
    static char text[16384];
    ssize_t len = pread(fd, text, sizeof text - 1, 0);
    char *rest = NULL;

    assert_true(len >= 0);
    text[len] = '\0';
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        if (line[0] >= '0' && line[0] <= '9' && strchr(line, ' ') != NULL) {
            line = strchr(line, ' ') + 1;
        }
        journal("> %s",
                strcmp(line, version) == 0 ? "warmpool-egress VERSION" : line);
        journal_line();
    }
}

static void
run_here(int argc, char **argv)
{
    int out = memfd_create("out", MFD_CLOEXEC);
    int errors = memfd_create("errors", MFD_CLOEXEC);
    int rc;

    assert_true(out >= 0 && errors >= 0);
    assert_true(dup2(out, STDOUT_FILENO) >= 0);
    assert_true(dup2(errors, STDERR_FILENO) >= 0);
    rc = __real_main(argc, argv);
    assert_int_equal(fflush(stdout), 0);
    journal("= %d%s", rc, opened >= 0 ? ", with a file left open" : "");
    journal_line();
    tell_said(out);
    tell_said(errors);
}

/* In a process of its own, as it lives once in one. args: words, each ended by
 * a '\n', but for the last. */
static void
run(const char *args)
{
    char name[] = "egress";
    char *argv[32] = {name};
    char bytes[4096];
    int pipe_ends[2];
    int argc = 1;
    char *words;
    char *rest = NULL;
    int status;
    ssize_t n;
    pid_t pid;

    words = strdup(args);
    assert_non_null(words);
    for (char *word = strtok_r(words, "\n", &rest); word != NULL && argc < 31;
         word = strtok_r(NULL, "\n", &rest)) {
        argv[argc++] = word;
    }
    journal("-- %s", args);
    journal_line();
    assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
    (void)fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        journal_drop();
        run_here(argc, argv);
        n = write(pipe_ends[1], journal_text(), strlen(journal_text()));
        _exit(n == (ssize_t)strlen(journal_text()) ? 0 : 1);
    }
    free(words);
    assert_int_equal(__real_close(pipe_ends[1]), 0);
    while ((n = __real_read(pipe_ends[0], bytes, sizeof bytes)) > 0) {
        journal_put(bytes, (size_t)n);
    }
    assert_int_equal(__real_close(pipe_ends[0]), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    /* A fault was for that one. */
    fails_in = 0;
}

#define LISTEN "--listen\n127.0.0.1:0\n--policy\nopen\n"

static int
begin(void **state)
{
    (void)state;
    failing = NULL;
    fails_in = 0;
    fits = UINT32_MAX;
    stops = false;
    journal_drop();
    return 0;
}

static void
write_file(const char *name, const char *text, mode_t mode)
{
    FILE *file = fopen(name, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(name, mode), 0);
}

/* ----------------------------------------------------------------- tests */

static void
it_says_what_it_is_and_how_it_is_used(void **state)
{
    (void)state;
    run("--help");
    run("--version");
    run("--help\n--conns-max\n0");
    golden("words");
}

static void
each_option_comes_to_what_it_says(void **state)
{
    static const char *const options[] = {
        "--packages\npypi.org packages.example.com:8080",
        "--name-servers\n192.0.2.1:53,192.0.2.2",
        "--ca\nauthorities.pem",
        "--conns-max\n1",
        "--conns-max\n1048576",
        "--source-conns-max\n1",
        "--source-conns-max\n1048576",
        "--source-bytes-max\n0",
        "--source-bytes-max\n18446744073709551615",
        "--connect-timeout\n10ms",
        "--connect-timeout\n24h",
        "--idle-timeout\n10ms",
        "--idle-timeout\n24h",
        "--silence-timeout\n10ms",
        "--silence-timeout\n24h",
        "--log-format\njson",
        "--log-format\ntext",
        "--log-format\njson\n--log-format\ntext",
    };
    char args[256];

    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof(options[0]); i++) {
        (void)snprintf(args, sizeof args, LISTEN "%s", options[i]);
        run(args);
    }
    golden("options");
}

static void
what_is_no_use_of_it_is_refused_with_a_reason(void **state)
{
    static const char *const options[] = {
        "--conns-max\n0",
        "--conns-max\n1048577",
        "--conns-max\nmany",
        "--source-conns-max\n0",
        "--source-conns-max\n1048577",
        "--source-bytes-max\n-1",
        "--source-bytes-max\n18446744073709551616",
        "--connect-timeout\n9ms",
        "--connect-timeout\n86401s",
        "--idle-timeout\n9ms",
        "--idle-timeout\n86401s",
        "--silence-timeout\n9ms",
        "--silence-timeout\n86401s",
        "--silence-timeout\nlong",
        "--log-format\nxml",
        "--packages\n*",
        "--policy\nno/name",
        "--policy\npackages\n--packages\n*",
        "--unknown",
        "--listen",
        "word",
        "--\nword\nanother",
    };
    char args[256];

    (void)state;
    for (size_t i = 0; i < sizeof options / sizeof(options[0]); i++) {
        (void)snprintf(args, sizeof args, LISTEN "%s", options[i]);
        run(args);
    }
    run("");
    run("--listen\n127.0.0.1:0");
    run("--policy\nopen");
    run("--passes\nfile\n--policy\nopen");
    run("--passes\nfile\n--channel");
    golden("refused");
}

static void
its_parts_are_made_and_ended_in_order(void **state)
{
    (void)state;
    run(LISTEN);
    stops = true;
    run(LISTEN);
    run("--channel");
    run("--channel\n--policy\nnone");
    run("--channel\n--keys-fd\n--ca\nauthorities.pem");
    run("--channel\n" LISTEN);
    fits = 7;
    run("--listen\nunix:/a/socket\n--policy\nexample.com\n--conns-max\n8");
    golden("parts");
}

static void
what_cannot_be_is_told_and_taken_down(void **state)
{
    static const struct {
        const char *step;
        unsigned nth;
    } steps[] = {{"loop", 1},   {"event", 1}, {"event", 2},
                 {"add", 1},    {"add", 2},   {"resolver", 1},
                 {"keys", 1},   {"tls", 1},   {"egress", 1},
                 {"listen", 1}, {"join", 1},  {"getrlimit", 1}};

    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof(steps[0]); i++) {
        journal("-- %s %u", steps[i].step, steps[i].nth);
        journal_line();
        failing = steps[i].step;
        fails_in = steps[i].nth;
        run("--keys-fd\n" LISTEN);
    }
    failing = "egress";
    fails_in = 1;
    run("--channel");
    failing = "members";
    fails_in = 1;
    run("--channel\n" LISTEN);
    run("--listen\nnowhere\n--policy\nopen");
    golden("failures");
}

#define HALF "00112233445566778899aabbccddeeff"
#define KEY HALF "FFEEDDCCBBAA99887766554433221100"

static void
a_key_for_passes_is_so_many_digits(void **state)
{
    static const char *const texts[] = {
        KEY,
        KEY "\n",
        KEY "\n\n",
        KEY "0",
        KEY "0\n",
        "\n" KEY,
        HALF,
        "",
        "\n",
        HALF "\n",
        KEY "\r\n",
        HALF HALF "\n",
        "x" HALF "0112233445566778899aabbccddeeff",
        HALF "00112233445566778899aabbccddee\n",
        HALF "00112233445566778899aabbccddeex",
    };

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof(texts[0]); i++) {
        journal("-- %s", texts[i]);
        journal_line();
        write_file("secret", texts[i], 0600);
        run(LISTEN "--passes\nsecret");
    }
    failing = "read";
    fails_in = 1;
    run(LISTEN "--passes\nsecret");
    assert_int_equal(unlink("secret"), 0);
    golden("passes");
}

static void
secrets_that_others_read_or_write_are_not_taken(void **state)
{
    static const mode_t modes[] = {0600, 0400, 0640, 0610, 0660, 0620,
                                   0604, 0602, 0601, 0646, 0666};

    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof(modes[0]); i++) {
        journal("-- mode %o", (unsigned)modes[i]);
        journal_line();
        write_file("secret", KEY, modes[i]);
        run(LISTEN "--keys\nsecret");
        run(LISTEN "--passes\nsecret");
        assert_int_equal(unlink("secret"), 0);
    }
    write_file("secret", KEY, 0600);
    run(LISTEN "--keys\nsecret\n--passes\nsecret");
    run("--channel\n--keys\nsecret\n--keys-fd");
    failing = "keys";
    fails_in = 1;
    run(LISTEN "--keys\nsecret");
    failing = "fstat";
    fails_in = 1;
    run(LISTEN "--keys\nsecret");
    fails_in = 1;
    run(LISTEN "--passes\nsecret");
    assert_int_equal(unlink("secret"), 0);
    run(LISTEN "--keys\nsecret");
    run(LISTEN "--passes\nsecret");
    golden("secrets");
}

int
__wrap_main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(it_says_what_it_is_and_how_it_is_used, begin),
        cmocka_unit_test_setup(each_option_comes_to_what_it_says, begin),
        cmocka_unit_test_setup(what_is_no_use_of_it_is_refused_with_a_reason,
                               begin),
        cmocka_unit_test_setup(its_parts_are_made_and_ended_in_order, begin),
        cmocka_unit_test_setup(what_cannot_be_is_told_and_taken_down, begin),
        cmocka_unit_test_setup(a_key_for_passes_is_so_many_digits, begin),
        cmocka_unit_test_setup(secrets_that_others_read_or_write_are_not_taken,
                               begin),
    };
    char dir[256];
    int failed;

    temp_dir_make_fast(dir, sizeof dir);
    if (chdir(dir) != 0) {
        return EXIT_FAILURE;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    temp_dir_remove(dir);
    return failed;
}
