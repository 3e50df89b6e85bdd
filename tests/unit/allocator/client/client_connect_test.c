/* Connecting libwarmpool: where to, what it proves itself with and trusts, and
 * what is said when that cannot be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "allocator/client/internal.h"
#include "pool/base/clock.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/temp_dir.h"

#define GOLDEN(name) WP_TEST_GOLDEN "/" name ".txt"
#define NOTE(...) golden_add(&seen, __VA_ARGS__)

static struct golden seen;
static char dir[4096];
static char h2;
static char tls[2];
static int n_tls;

/* What is not to be had; the n-th copy of a text. */
static const char *lacks = "";
static int no_copy;

static bool
lacks_it(const char *what, int error)
{
    errno = error;
    return strcmp(lacks, what) == 0;
}

struct wp_h2 *__wrap_wp_h2_open(const struct wp_h2_config *config,
                                struct wp_err *err);
struct wp_h2 *
__wrap_wp_h2_open(const struct wp_h2_config *config, struct wp_err *err)
{
    struct warmpool *client = config->ctx;

    assert_ptr_equal(config->target, client->address);
    assert_ptr_equal(config->authorization, client->authorization);
    assert_ptr_equal(config->tls, client->tls);
    assert_true(config->on_lost == wp_client_lost);
    NOTE("  open %s x%u, TLS %d, authority %s, timeout %s\n    %s\n",
         config->target, config->connections, config->tls != NULL,
         config->authority != NULL ? config->authority : "-",
         config->timeout != NULL ? config->timeout : "-",
         config->authorization);
    NOTE("    tenant '%s', id %s\n", client->tenant, client->id);
    if (lacks_it("h2", 0)) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "nobody answers");
        return NULL;
    }
    return (struct wp_h2 *)&h2;
}

unsigned __wrap_wp_h2_method_within(struct wp_h2 *of, const char *path,
                                    const char *timeout);
unsigned
__wrap_wp_h2_method_within(struct wp_h2 *of, const char *path,
                           const char *timeout)
{
    static unsigned n;

    assert_ptr_equal(of, &h2);
    NOTE("  method %s within %s\n", path, timeout != NULL ? timeout : "-");
    return n++ % WP_CALL_COUNT;
}

void __wrap_wp_h2_close(struct wp_h2 *of);
void
__wrap_wp_h2_close(struct wp_h2 *of)
{
    NOTE(of != NULL ? "  close\n" : "  nothing to close\n");
}

void __wrap_wp_h2_set_tls(struct wp_h2 *of, const struct wp_h2_tls *to);
void
__wrap_wp_h2_set_tls(struct wp_h2 *of, const struct wp_h2_tls *to)
{
    assert_ptr_equal(of, &h2);
    NOTE("  set TLS %d\n", (int)((const char *)to - tls));
}

struct wp_h2_tls *__wrap_wp_h2_tls_create(const char *ca, const char *cert,
                                          const char *key, const char *name,
                                          struct wp_err *err);
struct wp_h2_tls *
__wrap_wp_h2_tls_create(const char *ca, const char *cert, const char *key,
                        const char *name, struct wp_err *err)
{
    NOTE("  TLS %s %s %s for '%s'\n", ca, cert != NULL ? cert : "-",
         key != NULL ? key : "-", name);
    if (lacks_it("tls", 0)) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT, "tls_ca: it is none");
        return NULL;
    }
    return (struct wp_h2_tls *)&tls[n_tls++ % 2];
}

void __wrap_wp_h2_tls_destroy(struct wp_h2_tls *of);
void
__wrap_wp_h2_tls_destroy(struct wp_h2_tls *of)
{
    if (of != NULL) {
        NOTE("  TLS %d destroyed\n", (int)((const char *)of - tls));
    }
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*begin)(void *), void *arg);
int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                      void *(*begin)(void *), void *arg)
{
    sigset_t now;

    (void)arg;
    *thread = pthread_self();
    assert_null(attributes);
    assert_true(begin == wp_client_serve);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
    assert_int_equal(sigismember(&now, SIGINT), 1);
    assert_int_equal(sigismember(&now, SIGUSR1), 1);
    NOTE("  thread\n");
    return lacks_it("thread", 0) ? EAGAIN : 0;
}

int __wrap_pthread_join(pthread_t thread, void **result);
int
__wrap_pthread_join(pthread_t thread, void **result)
{
    (void)thread;
    assert_null(result);
    NOTE("  join\n");
    return 0;
}

int __real_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags);
int
__wrap_eventfd(unsigned count, int flags)
{
    assert_int_equal(flags, EFD_CLOEXEC | EFD_NONBLOCK);
    return lacks_it("eventfd", EMFILE) ? -1 : __real_eventfd(count, flags);
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *
__wrap_calloc(size_t n, size_t size)
{
    return lacks_it("memory", ENOMEM) ? NULL : __real_calloc(n, size);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *
__wrap_strdup(const char *text)
{
    return no_copy > 0 && --no_copy == 0 ? NULL : __real_strdup(text);
}

void __wrap_wp_random_bytes(void *out, size_t len);
void
__wrap_wp_random_bytes(void *out, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        ((uint8_t *)out)[i] = (uint8_t)(0xf0 + i);
    }
}

static void
put(const char *name, const char *text)
{
    FILE *file = fopen(name, "we");

    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* Returns whether it is connected. */
static bool
connect_to(const struct warmpool_options *options)
{
    struct warmpool_error error = {.code = 0};
    sigset_t before;
    sigset_t after;
    struct warmpool *client;

    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    client = warmpool_connect(options, &error);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    assert_int_equal(sigismember(&after, SIGINT), sigismember(&before, SIGINT));
    if (client != NULL) {
        NOTE("connected %d%s, token may lack %d\n", client->connected,
             client->connected_ns > 0 ? "" : " never",
             client->files.token_may_lack);
        warmpool_disconnect(client);
        NOTE("\n");
        return true;
    }
    NOTE("%d: %s\n\n", error.code, error.message);
    return false;
}

#define T64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct warmpool_options places[] = {
    {.address = "unix:/d.sock"},
    {.address = "unix:/d.sock", .access_token_file = "token", .tenant = "ci"},
    {.address = "unix:/d.sock", .tenant = ""},
    {.address = "127.0.0.1:1", .access_token_file = "token"},
    {.address = "127.0.0.1:1", .access_token_file = "missing"},
    {.address = "127.0.0.1:1", .access_token_file = "short"},
    {.address = "127.0.0.1:1", .access_token_file = "shortest"},
    {.address = "127.0.0.1:1", .access_token_file = "words"},
    {.address = "127.0.0.1:1", .access_token_file = "longest"},
    {.address = "127.0.0.1:1", .access_token_file = "longer"},
    {.address = "127.0.0.1:1", .access_token_file = "endless"},
    {.address = "[::1]:1", .access_token_file = "token"},
    {.address = "h:1"},
    {.address = "10.0.0.1:1"},
    {.address = "unix:relative"},
    {.address = "127.0.0.1:1", .tls_cert = "cert", .tls_key = "key"},
    {.address = "127.0.0.1:1", .tls_name = "name"},
    {.address = "h:1", .tls_ca = "ca", .tls_cert = "cert"},
    {.address = "h:1", .tls_ca = "ca", .tls_key = "key"},
    {.address = "h:1", .tls_ca = "ca"},
    {.address = "h:1", .tls_ca = "ca", .access_token_file = "token"},
    {.address = "h:1", .tls_ca = "ca", .access_token_file = "missing"},
    {.address = "h", .tls_ca = "ca", .tls_name = "name"},
    {.address = "[2001:db8::1]:1", .tls_ca = "ca"},
    {.address = "unix:/d.sock",
     .tls_ca = "ca",
     .tls_cert = "cert",
     .tls_key = "key"},
    {.address = "unix:/d.sock", .tls_ca = "ca", .tls_name = "name"},
    {.address = "unix:/d.sock", .tenant = &T64[1]},
    {.address = "unix:/d.sock", .tenant = T64},
};

static void
test_places(void **state)
{
    char long_address[700];

    (void)state;
    put("token", "0123456789abcdef\r\n");
    put("short", "0123456789abcde\n");
    put("shortest", "0123456789abcdef");
    put("words", "0123456789abcdef x");
    put("longest", T64 T64 T64 T64 "\n");
    put("longer", T64 T64 T64 T64 "0\n");
    put("endless", T64 T64 T64 T64 T64 T64 T64 T64);
    for (size_t i = 0; i < WP_ARRAY_LEN(places); i++) {
        (void)connect_to(&places[i]);
    }
    for (size_t len = 599; len <= 600; len++) {
        memset(long_address, 'h', len);
        long_address[len] = '\0';
        NOTE("%zu bytes\n", len);
        (void)connect_to(&(struct warmpool_options){.address = long_address,
                                                    .tls_ca = "ca"});
    }
    warmpool_disconnect(NULL);
    golden_compare(seen.text, GOLDEN("connect_places"));
}

/* What is not said is the environment's, or the daemon's default. */
static void
test_defaults(void **state)
{
    (void)state;
    assert_int_equal(setenv("RUNTIME_DIRECTORY", "/nowhere", 1), 0);
    (void)connect_to(NULL);
    (void)connect_to(&(struct warmpool_options){.address = "127.0.0.1:1"});
    put("token", "0123456789abcdef");
    assert_int_equal(setenv("WARMPOOL_ACCESS_TOKEN_FILE", "token", 1), 0);
    assert_int_equal(setenv("WARMPOOL_ADDRESS", "127.0.0.1:2", 1), 0);
    assert_int_equal(setenv("WARMPOOL_TENANT", "web", 1), 0);
    (void)connect_to(NULL);
    (void)connect_to(&(struct warmpool_options){
        .address = "127.0.0.1:3", .tenant = "ci", .access_token_file = ""});
    assert_int_equal(setenv("WARMPOOL_ADDRESS", "", 1), 0);
    assert_int_equal(setenv("WARMPOOL_TENANT", "", 1), 0);
    (void)connect_to(NULL);
    golden_compare(seen.text, GOLDEN("connect_defaults"));
}

static void
test_what_lacks(void **state)
{
    static const char *const things[] = {"memory", "eventfd", "tls", "h2",
                                         "thread"};
    const struct warmpool_options options = {.address = "h:1",
                                             .tls_ca = "ca",
                                             .tls_cert = "cert",
                                             .tls_key = "key",
                                             .access_token_file = "token"};

    (void)state;
    put("token", "0123456789abcdef");
    for (size_t i = 0; i < WP_ARRAY_LEN(things); i++) {
        NOTE("no %s\n", things[i]);
        lacks = things[i];
        assert_false(connect_to(&options));
    }
    lacks = "";
    for (int nth = 1; nth <= 4; nth++) {
        no_copy = nth;
        assert_false(connect_to(&options));
    }
    no_copy = 5;
    assert_true(connect_to(&options));
    assert_int_equal(no_copy, 1);
    no_copy = 0;
    golden_compare(seen.text, GOLDEN("connect_lacks"));
}

/* Files are read anew for each connection; what cannot be used stays as it
 * was. */
static void
test_files_that_change(void **state)
{
    static struct warmpool client;
    struct wp_err err;

    (void)state;
    client.h2 = (struct wp_h2 *)&h2;
    assert_true(wp_credentials_keep("token", &client.files.token));
    assert_true(wp_credentials_keep("ca", &client.files.tls_ca));
    put("token", "0123456789abcdef");
    assert_true(wp_credentials_read(&client, &err));
    NOTE("%s\n", client.authorization);
    put("token", "short");
    assert_false(wp_credentials_read(&client, &err));
    NOTE("%s\n%s\n", client.authorization, err.msg);
    assert_int_equal(unlink("token"), 0);
    client.files.token_may_lack = true;
    assert_true(wp_credentials_read(&client, &err));
    NOTE("%s\n", client.authorization);
    put("token", "fedcba9876543210");
    lacks = "tls";
    assert_false(wp_credentials_read(&client, &err));
    lacks = "";
    NOTE("%s\n%s\n", client.authorization, err.msg);
    wp_credentials_free(&client);
    assert_string_equal(client.authorization, "");
    golden_compare(seen.text, GOLDEN("connect_files"));
}

static int
set_up(void **state)
{
    static const char *const names[] = {"WARMPOOL_ADDRESS", "WARMPOOL_TENANT",
                                        "WARMPOOL_ACCESS_TOKEN_FILE"};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        (void)unsetenv(names[i]);
    }
    memset(&seen, 0, sizeof seen);
    n_tls = 0;
    temp_dir_make(dir, sizeof dir);
    return chdir(dir);
}

static int
tear_down(void **state)
{
    (void)state;
    temp_dir_remove(dir);
    return chdir("/");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_defaults, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_lacks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_files_that_change, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
