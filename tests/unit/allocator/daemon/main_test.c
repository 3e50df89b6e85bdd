/* tests/unit/allocator/daemon/main_test.c - what warmpoold does with its
 * arguments: what it prints, what it asks of the daemon, and how it exits. Its
 * main is called by this one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "allocator/daemon/daemon.h"
#include "allocator/daemon/files.h"
#include "allocator/daemon/redis.h"
#include "pool/base/log.h"
#include "tests/unit/allocator/daemon/journal.h"

enum {
    KEY = 0x11,
    DERIVED = 0x2f,
    NOTES = 2,
};

TOLD(wp_daemon_destroy, struct wp_daemon)
TOLD(wp_conf_destroy, struct wp_conf)
TOLD(wp_manifest_destroy, struct wp_manifest)

int __wrap_main(void);
int __real_main(int argc, char **argv);
int __wrap_fflush(FILE *file);
int __real_fflush(FILE *file);
int __wrap_puts(const char *text);
int __real_puts(const char *text);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
__sighandler_t __wrap_signal(int sig, __sighandler_t handler);
struct wp_conf *__wrap_wp_conf_create(void);
void __wrap_wp_conf_help(FILE *out);
void __wrap_wp_conf_help_settings(FILE *out);
size_t __wrap_wp_conf_idle(const struct wp_conf *of, char *out, size_t cap);
enum wp_status __wrap_wp_conf_load(struct wp_conf *of, int argc,
                                   char *const *argv, char *const *environ,
                                   enum wp_conf_action *action,
                                   struct wp_err *err);
void __wrap_wp_conf_print(const struct wp_conf *of, FILE *out);
const char *__wrap_wp_conf_upstream_idle(const struct wp_conf *of, size_t i,
                                         const char **instead);
struct wp_daemon *__wrap_wp_daemon_create(const struct wp_conf *of, int argc,
                                          char *const *argv,
                                          struct wp_err *err);
enum wp_status __wrap_wp_daemon_read_egress_key(const struct wp_conf *of,
                                                uint8_t out[WP_EGRESS_KEY_LEN],
                                                struct wp_err *err);
struct wp_manifest *__wrap_wp_daemon_read_manifests(const struct wp_conf *of,
                                                    struct wp_err *err);
enum wp_status __wrap_wp_daemon_redis_check_login(const struct wp_conf *of,
                                                  struct wp_err *err);
bool __wrap_wp_daemon_run(struct wp_daemon *daemon);
enum wp_status __wrap_wp_daemon_start(struct wp_daemon *daemon,
                                      struct wp_err *err);
void __wrap_wp_egress_key_derive(const uint8_t installation[WP_EGRESS_KEY_LEN],
                                 struct wp_str ns,
                                 uint8_t out[WP_EGRESS_KEY_LEN]);
void __wrap_wp_log_configure(enum wp_log_level min_level,
                             enum wp_log_format format);
const char *__wrap_wp_manifest_note(const struct wp_manifest *of, size_t index);
size_t __wrap_wp_manifest_notes_count(const struct wp_manifest *of);
size_t __wrap_wp_manifest_pools(const struct wp_manifest *of,
                                const struct wp_pool_spec **out);

static struct wp_conf conf;
static enum wp_conf_action action;
static size_t n_idle;  /* Settings that do nothing. */
static size_t n_flags; /* Flags that do nothing. */
static size_t n_notes; /* Of the manifests. */
static size_t n_pools;
static bool is_told; /* Of what concerns the program, now. */

/* --- The system --- */

int
__wrap_fflush(FILE *file)
{
    (void)__real_fflush(file);
    return is_told && journal_said("flush", true) == 0 ? EOF : 0;
}

/* Any number that is not negative means success. */
int
__wrap_puts(const char *text)
{
    return __real_puts(text) < 0 ? EOF : (int)journal_said("puts", 0);
}

int
__wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    if (!is_told) {
        return 0;
    }
    assert_int_equal(how, SIG_BLOCK);
    assert_null(old);
    for (int sig = 1; sig < SIGRTMIN; sig++) {
        if (sigismember(set, sig) == 1) {
            journal("block SIG%s", sigabbrev_np(sig));
        }
    }
    return 0;
}

__sighandler_t
__wrap_signal(int sig, __sighandler_t handler)
{
    if (is_told) {
        assert_ptr_equal((void *)(uintptr_t)handler,
                         (void *)(uintptr_t)SIG_IGN);
        journal("ignore SIG%s", sigabbrev_np(sig));
    }
    return SIG_DFL;
}

static void
wipes(size_t n)
{
    journal("wipe %zu bytes", n);
}

/* --- Settings --- */

struct wp_conf *
__wrap_wp_conf_create(void)
{
    return journal_said("conf", true) != 0 ? &conf : NULL;
}

enum wp_status
__wrap_wp_conf_load(struct wp_conf *of, int argc, char *const *argv,
                    char *const *environ, enum wp_conf_action *what,
                    struct wp_err *err)
{
    assert_ptr_equal(of, &conf);
    assert_non_null(environ);
    assert_int_equal(*what, WP_CONF_RUN);
    *what = action;
    journal("load %d arguments, the first is %s", argc, argv[0]);
    return journal_status("load", err);
}

void
__wrap_wp_conf_help(FILE *out)
{
    (void)fprintf(out, "the help\n");
}

void
__wrap_wp_conf_help_settings(FILE *out)
{
    (void)fprintf(out, "the help of settings\n");
}

void
__wrap_wp_conf_print(const struct wp_conf *of, FILE *out)
{
    assert_ptr_equal(of, &conf);
    (void)fprintf(out, "the settings\n");
}

size_t
__wrap_wp_conf_idle(const struct wp_conf *of, char *out, size_t cap)
{
    assert_ptr_equal(of, &conf);
    assert_int_equal(cap, 1024);
    (void)snprintf(out, cap, "one, another");
    return n_idle;
}

const char *
__wrap_wp_conf_upstream_idle(const struct wp_conf *of, size_t i,
                             const char **instead)
{
    static const char *const flags[] = {"first", "second"};

    assert_ptr_equal(of, &conf);
    *instead = i == 0 ? "look here" : "look there";
    return i < n_flags ? flags[i] : NULL;
}

enum wp_status
__wrap_wp_daemon_read_egress_key(const struct wp_conf *of,
                                 uint8_t out[WP_EGRESS_KEY_LEN],
                                 struct wp_err *err)
{
    assert_ptr_equal(of, &conf);
    memset(out, KEY, WP_EGRESS_KEY_LEN);
    return journal_status("key", err);
}

void
__wrap_wp_egress_key_derive(const uint8_t installation[WP_EGRESS_KEY_LEN],
                            struct wp_str ns, uint8_t out[WP_EGRESS_KEY_LEN])
{
    journal("derive for %.*s from %x %x", (int)ns.len, ns.ptr, installation[0],
            installation[WP_EGRESS_KEY_LEN - 1]);
    memset(out, DERIVED, WP_EGRESS_KEY_LEN);
}

void
__wrap_wp_log_configure(enum wp_log_level min_level, enum wp_log_format format)
{
    journal("log from %d on, as %d", (int)min_level, (int)format);
}

/* --- Manifests --- */

struct wp_manifest *
__wrap_wp_daemon_read_manifests(const struct wp_conf *of, struct wp_err *err)
{
    assert_ptr_equal(of, &conf);
    return journal_status("manifests", err) == WP_OK ? journal_thing("manifest")
                                                     : NULL;
}

enum wp_status
__wrap_wp_daemon_redis_check_login(const struct wp_conf *of, struct wp_err *err)
{
    assert_ptr_equal(of, &conf);
    journal("check login");
    return journal_status("login", err);
}

size_t
__wrap_wp_manifest_pools(const struct wp_manifest *of,
                         const struct wp_pool_spec **out)
{
    static const struct wp_pool_spec specs[] = {
        {.pool_namespace = "blue",
         .name = "a",
         .template_name = "t",
         .target = 4294967295},
        {.pool_namespace = "red", .name = "b", .template_name = "u"}};

    assert_string_equal(journal_name(of), "manifest");
    *out = specs;
    return n_pools;
}

size_t
__wrap_wp_manifest_notes_count(const struct wp_manifest *of)
{
    assert_string_equal(journal_name(of), "manifest");
    return n_notes;
}

const char *
__wrap_wp_manifest_note(const struct wp_manifest *of, size_t index)
{
    static const char *const notes[NOTES] = {"one thing", "another thing"};

    assert_string_equal(journal_name(of), "manifest");
    return notes[index];
}

/* --- The daemon --- */

struct wp_daemon *
__wrap_wp_daemon_create(const struct wp_conf *of, int argc, char *const *argv,
                        struct wp_err *err)
{
    assert_ptr_equal(of, &conf);
    journal("create with %d arguments, the first is %s", argc, argv[0]);
    return journal_status("create", err) == WP_OK ? journal_thing("daemon")
                                                  : NULL;
}

enum wp_status
__wrap_wp_daemon_start(struct wp_daemon *daemon, struct wp_err *err)
{
    journal("start %s", journal_name(daemon));
    return journal_status("start", err);
}

bool
__wrap_wp_daemon_run(struct wp_daemon *daemon)
{
    journal("run %s", journal_name(daemon));
    return journal_said("clean", true) != 0;
}

/* --- The tests --- */

static int
begin(void **state)
{
    (void)journal_begin(state);
    journal_wipes = wipes;
    memset(&conf, 0, sizeof conf);
    journal_know(&conf, "settings");
    action = WP_CONF_RUN;
    n_idle = 0;
    n_flags = 0;
    n_notes = 0;
    n_pools = 0;
    return 0;
}

/* What was written to fd since it was turned to file. */
static void
tell_written(const char *where, int fd, int saved, int file)
{
    static char text[4096];
    ssize_t n = pread(file, text, sizeof text - 1, 0);

    assert_true(n >= 0);
    text[n] = '\0';
    assert_int_equal(dup2(saved, fd), fd);
    assert_int_equal(close(saved), 0);
    assert_int_equal(close(file), 0);
    if (n > 0) {
        journal("%s: %s", where, text);
    }
}

static void
run(void)
{
    static char *argv[] = {(char *)"warmpoold", (char *)"--flag", NULL};
    int saved[2];
    int files[2];
    int code;

    (void)__real_fflush(stdout);
    (void)__real_fflush(stderr);
    for (int i = 0; i < 2; i++) {
        saved[i] = dup(i + 1);
        files[i] = memfd_create("written", MFD_CLOEXEC);
        assert_true(saved[i] >= 0 && files[i] >= 0);
        assert_int_equal(dup2(files[i], i + 1), i + 1);
    }
    is_told = true;
    code = __real_main(2, argv);
    is_told = false;
    (void)__real_fflush(stdout);
    tell_written("stderr", STDERR_FILENO, saved[1], files[1]);
    tell_written("stdout", STDOUT_FILENO, saved[0], files[0]);
    journal("- exit %d", code);
}

static void
test_settings_that_are_wrong_are_said(void **state)
{
    (void)state;
    journal_say("conf", false);
    run();
    journal_say("load", WP_INVALID_ARGUMENT);
    run();
    journal_say("load", WP_UNAVAILABLE);
    run();
    journal_is("main_settings");
}

static void
test_what_is_asked_for_is_printed(void **state)
{
    static const enum wp_conf_action actions[] = {
        WP_CONF_HELP, WP_CONF_HELP_SETTINGS, WP_CONF_VERSION};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(actions); i++) {
        action = actions[i];
        run();
    }
    journal_without(" with test tools");
    journal_without(WP_VERSION);
    journal_is("main_prints");
}

static void
test_check_says_what_a_start_would_say(void **state)
{
    (void)state;
    action = WP_CONF_CHECK;
    run();
    n_idle = 1;
    n_flags = 2;
    n_notes = NOTES;
    n_pools = 2;
    run();
    journal_say("manifests", WP_INVALID_ARGUMENT);
    run();
    journal_say("login", WP_INVALID_ARGUMENT);
    run();
    journal_is("main_check");
}

static void
test_key_of_a_namespace_is_printed(void **state)
{
    char longest[WP_NAMESPACE_MAX + 2];

    (void)state;
    action = WP_CONF_EGRESS_KEY;
    conf.egress_key_of = "blue";
    run();
    journal_say("key", WP_PERMISSION_DENIED);
    run();
    journal_say("flush", false);
    run();
    journal_say("puts", EOF);
    run();
    conf.egress_key_of = "Blue";
    run();
    memset(longest, 'n', sizeof longest);
    longest[WP_NAMESPACE_MAX] = '\0';
    conf.egress_key_of = longest;
    run();
    longest[WP_NAMESPACE_MAX] = 'n';
    longest[WP_NAMESPACE_MAX + 1] = '\0';
    run();
    journal_is("main_egress_key");
}

static void
test_daemon_runs_to_its_end(void **state)
{
    (void)state;
    conf.log_level = WP_LOG_WARN;
    conf.log_format = WP_LOG_JSON;
    run();
    conf.log_level = WP_LOG_DEBUG;
    conf.log_format = WP_LOG_TEXT;
    journal_say("clean", false);
    run();
    journal_without(WP_VERSION);
    journal_is("main_runs");
}

static void
test_what_does_nothing_is_logged(void **state)
{
    (void)state;
    n_idle = 1;
    n_flags = 2;
    run();
    conf.backend = WP_CONF_BACKEND_KUBERNETES;
    n_flags = 0;
    run();
    journal_without(WP_VERSION);
    journal_is("main_idle");
}

static void
test_daemon_that_cannot_start_says_why(void **state)
{
    (void)state;
    journal_say("create", WP_INVALID_ARGUMENT);
    run();
    journal_say("create", WP_UNAVAILABLE);
    run();
    journal_say("start", WP_INVALID_ARGUMENT);
    run();
    journal_without(WP_VERSION);
    journal_is("main_cannot_start");
}

int
__wrap_main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_settings_that_are_wrong_are_said, begin),
        cmocka_unit_test_setup(test_what_is_asked_for_is_printed, begin),
        cmocka_unit_test_setup(test_check_says_what_a_start_would_say, begin),
        cmocka_unit_test_setup(test_key_of_a_namespace_is_printed, begin),
        cmocka_unit_test_setup(test_daemon_runs_to_its_end, begin),
        cmocka_unit_test_setup(test_what_does_nothing_is_logged, begin),
        cmocka_unit_test_setup(test_daemon_that_cannot_start_says_why, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
