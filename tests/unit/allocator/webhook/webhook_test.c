/* tests/unit/allocator/webhook/webhook_test.c - where the API server has
 * objects converted: which requests are answered and how, what a long list
 * costs, its certificate's files, and its life. The HTTP/2 server, conversion
 * and the making of certificates are the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "allocator/webhook/webhook.h"
#include "k8s/convert/certificate.h"
#include "k8s/convert/review.h"
#include "pool/base/log.h"
#include "proto/h2/h2.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/pool/manual_clock.h"

enum {
    OBJECT_SIZE = 4096,
};

static struct golden journal;
static struct wp_h2_handler handler; /* As the server got it. */
static _Alignas(max_align_t) char object[OBJECT_SIZE]; /* A stream. */
static char handle; /* Stands for the server, and for a connection. */
static struct wp_h2_stream *opened;
static enum wp_peer_verdict verdict;
static const char *answer; /* NULL: the review makes no sense. */
static size_t asked_len;
static int fails_in;    /* The step of that number fails, from 1. */
static int write_error; /* Of a write that fails; 0: it takes so much. */
static size_t taken;
static bool no_room; /* For what grows. */
static enum wp_status start_status;
/* Where the test is meanwhile: long paths would not fit into errors. */
static const char dir[] = ".";
static char home[4096];
static char before[4096];

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *bytes, size_t len);
ssize_t __wrap_write(int fd, const void *bytes, size_t len);
int __real_close(int fd);
int __wrap_close(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
const struct wp_clock *__wrap_wp_clock_system(void);
void __wrap_wp_log_emit(enum wp_log_level level, const char *event,
                        const struct wp_kv *kvs);
enum wp_status __wrap_wp_certificate_make(struct wp_certificate *out,
                                          const char *const *names,
                                          size_t n_names, int64_t now_s,
                                          struct wp_err *err);
void __wrap_wp_certificate_clear(struct wp_certificate *pair);
char *__wrap_wp_review_answer(struct wp_str body, size_t *len,
                              struct wp_err *err);
struct wp_h2_server *
__wrap_wp_h2_server_create(const struct wp_h2_config *config,
                           const struct wp_h2_handler *with,
                           struct wp_err *err);
enum wp_status __wrap_wp_h2_server_start(struct wp_h2_server *server,
                                         struct wp_err *err);
const char *__wrap_wp_h2_server_address(const struct wp_h2_server *server,
                                        size_t i);
void __wrap_wp_h2_server_leave(struct wp_h2_server *server);
void __wrap_wp_h2_server_hang_up(struct wp_h2_server *server);
void __wrap_wp_h2_server_stop(struct wp_h2_server *server);
void __wrap_wp_h2_server_destroy(struct wp_h2_server *server);
void __wrap_wp_h2_conn_refuse(struct wp_h2_conn *conn, int32_t id,
                              const struct wp_h2_field *fields,
                              size_t n_fields);
struct wp_h2_stream *__wrap_wp_h2_stream_open(struct wp_h2_conn *conn,
                                              int32_t id);
enum wp_peer_verdict __wrap_wp_h2_stream_count(struct wp_h2_stream *stream);
void __wrap_wp_h2_stream_turn_away(struct wp_h2_stream *stream);
void __wrap_wp_h2_stream_free(struct wp_h2_stream *stream);
void __wrap_wp_h2_stream_send(struct wp_h2_stream *stream, const uint8_t *bytes,
                              size_t len);
void __wrap_wp_h2_stream_end(struct wp_h2_stream *stream);
void __wrap_wp_h2_stream_reset(struct wp_h2_stream *stream);

#define NOTE(...) golden_add(&journal, __VA_ARGS__)

static bool
fails_now(void)
{
    return fails_in > 0 && --fails_in == 0;
}

/* --- the system --- */

void *
__wrap_calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __real_calloc(n, size);
}

void *
__wrap_realloc(void *old, size_t size)
{
    NOTE("grow to %zu\n", size);
    return no_room ? NULL : __real_realloc(old, size);
}

/* golden.c reads by stdio, whose calls are the C library's own. */
int
__wrap_open(const char *path, int flags, ...)
{
    va_list args;
    unsigned mode;

    va_start(args, flags);
    mode = va_arg(args, unsigned);
    va_end(args);
    NOTE("open %s exclusive=%d no link=%d kept from children=%d mode=%o\n",
         strrchr(path, '/'), (flags & O_EXCL) != 0, (flags & O_NOFOLLOW) != 0,
         (flags & O_CLOEXEC) != 0, mode);
    if (fails_now()) {
        errno = EACCES;
        return -1;
    }
    return __real_open(path, flags, mode);
}

/* A full disk takes a part, which is no error. */
ssize_t
__wrap_write(int fd, const void *bytes, size_t len)
{
    if (fails_now()) {
        errno = write_error;
        return write_error != 0 ? -1 : __real_write(fd, bytes, taken);
    }
    return __real_write(fd, bytes, len);
}

int
__wrap_close(int fd)
{
    int result = __real_close(fd);

    if (fails_now()) {
        errno = EIO;
        return -1;
    }
    return result;
}

int
__wrap_rename(const char *from, const char *to)
{
    NOTE("rename %s to %s\n", strrchr(from, '/'), strrchr(to, '/'));
    if (fails_now()) {
        errno = EROFS;
        return -1;
    }
    return __real_rename(from, to);
}

const struct wp_clock *
__wrap_wp_clock_system(void)
{
    static struct wp_clock_manual clock;

    wp_clock_manual_init(&clock, 7, 1234 * WP_NS_PER_S + 999999999);
    return &clock.clock;
}

void
__wrap_wp_log_emit(enum wp_log_level level, const char *event,
                   const struct wp_kv *kvs)
{
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};

    NOTE("%s %s", names[level], event);
    for (; kvs->key != NULL; kvs++) {
        if (kvs->kind == WP_KV_STR) {
            NOTE(" %s='%.*s'", kvs->key, WP_STR_ARG(kvs->str));
        } else {
            NOTE(" %s=%lld", kvs->key, (long long)kvs->num);
        }
    }
    NOTE("\n");
}

/* --- what it is made of --- */

enum wp_status
__wrap_wp_certificate_make(struct wp_certificate *out, const char *const *names,
                           size_t n_names, int64_t now_s, struct wp_err *err)
{
    NOTE("certificate for %zu name %s at %lld\n", n_names, names[0],
         (long long)now_s);
    memset(out, 0, sizeof *out);
    if (fails_now()) {
        return wp_err_set(err, WP_INTERNAL, "no certificate");
    }
    (void)strcpy(out->cert, "nobody's certificate");
    (void)strcpy(out->key, "nobody's key");
    return WP_OK;
}

void
__wrap_wp_certificate_clear(struct wp_certificate *pair)
{
    NOTE("clear %s\n", pair->key);
}

char *
__wrap_wp_review_answer(struct wp_str body, size_t *len, struct wp_err *err)
{
    char *text;

    asked_len = body.len;
    NOTE("review %zu bytes: %.*s\n", body.len,
         (int)(body.len < 20 ? body.len : 20), body.len > 0 ? body.ptr : "");
    if (answer == NULL) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT, "no review");
        return NULL;
    }
    *len = strlen(answer);
    text = strdup(answer);
    assert_non_null(text);
    return text;
}

/* --- the server --- */

static const char *
file_name(const char *path)
{
    assert_memory_equal(path, dir, strlen(dir));
    return path + strlen(dir);
}

struct wp_h2_server *
__wrap_wp_h2_server_create(const struct wp_h2_config *config,
                           const struct wp_h2_handler *with, struct wp_err *err)
{
    NOTE("server at %s (%zu), mode %o, cert %s key %s ca %d anywhere %d tls"
         " %d\n",
         config->listen[0], config->n_listen, config->unix_mode,
         file_name(config->tls_cert), file_name(config->tls_key),
         config->tls_client_ca != NULL, config->clear_text_anywhere,
         config->tls == &wp_h2_tls_by_openssl);
    NOTE("threads=%u streams=%u calls=%u of peer %u connections=%u of peer %u"
         " streams of each %u metadata %u\n",
         config->threads, config->streams_per_thread, config->calls_max,
         config->peer_calls_max, config->connections_max,
         config->peer_connections_max, config->streams_per_connection_max,
         config->metadata_bytes_max);
    NOTE("keepalive %lld %lld age %lld silent %lld spin %lld base %d\n",
         (long long)config->keepalive_ns,
         (long long)config->keepalive_timeout_ns,
         (long long)config->connection_age_max_ns, (long long)config->silent_ns,
         (long long)config->spin_ns, config->base != NULL);
    handler = *with;
    memset(object, 0xff, sizeof object);
    handler.init(handler.ctx, (struct wp_h2_stream *)(void *)object);
    NOTE("handler: peer of %zu, flush %d %d, head", with->peer_size,
         with->wants_flush != NULL, with->flush != NULL);
    for (size_t i = 0; i < with->n_head; i++) {
        NOTE(" %.*s=%.*s", WP_STR_ARG(with->head[i].name),
             WP_STR_ARG(with->head[i].value));
    }
    NOTE("\n");
    assert_in_range(with->stream_size, sizeof(struct wp_h2_stream),
                    OBJECT_SIZE);
    if (fails_now()) {
        (void)wp_err_set(err, WP_UNAVAILABLE, "no address");
        return NULL;
    }
    return (struct wp_h2_server *)(void *)&handle;
}

enum wp_status
__wrap_wp_h2_server_start(struct wp_h2_server *server, struct wp_err *err)
{
    assert_ptr_equal(server, &handle);
    NOTE("start\n");
    return start_status == WP_OK ? WP_OK
                                 : wp_err_set(err, start_status, "not now");
}

const char *
__wrap_wp_h2_server_address(const struct wp_h2_server *server, size_t i)
{
    assert_ptr_equal(server, &handle);
    assert_int_equal(i, 0);
    return "here:1";
}

void
__wrap_wp_h2_server_leave(struct wp_h2_server *server)
{
    assert_ptr_equal(server, &handle);
    NOTE("leave\n");
}

void
__wrap_wp_h2_server_hang_up(struct wp_h2_server *server)
{
    assert_ptr_equal(server, &handle);
    NOTE("hang up\n");
}

void
__wrap_wp_h2_server_stop(struct wp_h2_server *server)
{
    assert_ptr_equal(server, &handle);
    NOTE("stop\n");
}

void
__wrap_wp_h2_server_destroy(struct wp_h2_server *server)
{
    NOTE("no server %d\n", server != NULL);
}

void
__wrap_wp_h2_conn_refuse(struct wp_h2_conn *conn, int32_t id,
                         const struct wp_h2_field *fields, size_t n_fields)
{
    assert_ptr_equal(conn, &handle);
    NOTE("refuse %d:", (int)id);
    for (size_t i = 0; i < n_fields; i++) {
        NOTE(" %.*s=%.*s", WP_STR_ARG(fields[i].name),
             WP_STR_ARG(fields[i].value));
    }
    NOTE("\n");
}

struct wp_h2_stream *
__wrap_wp_h2_stream_open(struct wp_h2_conn *conn, int32_t id)
{
    assert_ptr_equal(conn, &handle);
    NOTE("open stream %d\n", (int)id);
    return opened;
}

enum wp_peer_verdict
__wrap_wp_h2_stream_count(struct wp_h2_stream *stream)
{
    assert_ptr_equal(stream, object);
    NOTE("count\n");
    return verdict;
}

void
__wrap_wp_h2_stream_turn_away(struct wp_h2_stream *stream)
{
    assert_ptr_equal(stream, object);
    NOTE("turn away\n");
}

void
__wrap_wp_h2_stream_free(struct wp_h2_stream *stream)
{
    assert_ptr_equal(stream, object);
    NOTE("free stream\n");
}

void
__wrap_wp_h2_stream_send(struct wp_h2_stream *stream, const uint8_t *bytes,
                         size_t len)
{
    assert_ptr_equal(stream, object);
    NOTE("send %zu: %.*s\n", len, (int)len, (const char *)bytes);
}

void
__wrap_wp_h2_stream_end(struct wp_h2_stream *stream)
{
    assert_ptr_equal(stream, object);
    NOTE("end\n");
}

void
__wrap_wp_h2_stream_reset(struct wp_h2_stream *stream)
{
    assert_ptr_equal(stream, object);
    NOTE("reset\n");
}

/* --- the rig --- */

static int
setup(void **state)
{
    (void)state;
    journal.len = 0;
    journal.text[0] = '\0';
    opened = (struct wp_h2_stream *)(void *)object;
    verdict = WP_PEER_ADMITTED;
    answer = "converted";
    fails_in = 0;
    write_error = 0;
    taken = 5;
    no_room = false;
    start_status = WP_OK;
    temp_dir_make(home, sizeof home);
    return getcwd(before, sizeof before) != NULL ? chdir(home) : -1;
}

static int
teardown(void **state)
{
    (void)state;
    /* Nothing is left of it. */
    return chdir(before) == 0 ? rmdir(home) : -1;
}

static void
is_golden(const char *name)
{
    char path[4096];

    (void)snprintf(path, sizeof path, "%s/%s.txt", WP_TEST_GOLDEN, name);
    golden_compare(journal.text, path);
}

/* What the directory has in the file; "-": there is none. */
static void
note_file(const char *name)
{
    char path[sizeof dir + 32];
    char text[256] = "";
    struct stat st;
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, "re");
    if (file == NULL) {
        NOTE("%s -\n", name);
        return;
    }
    assert_int_equal(fstat(fileno(file), &st), 0);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    NOTE("%s %o: %s\n", name, st.st_mode & 07777, text);
}

static void
note_files(void)
{
    note_file("webhook.key");
    note_file("webhook.crt");
    note_file("webhook.key.new");
    note_file("webhook.crt.new");
}

static struct wp_webhook *
create(void)
{
    struct wp_err err = {.status = WP_OK};
    struct wp_webhook *webhook = wp_webhook_create("host:9", dir, &err);

    NOTE("created: %d '%s' %s\n", webhook != NULL, err.msg,
         wp_status_name(err.status));
    return webhook;
}

/* --- tests --- */

static void
test_its_life(void **state)
{
    struct wp_webhook *webhook = create();
    struct wp_err err = {.msg = ""};

    (void)state;
    assert_non_null(webhook);
    note_files();
    assert_string_equal(wp_webhook_address(webhook), "here:1");
    start_status = WP_UNAVAILABLE;
    assert_int_equal(wp_webhook_start(webhook, &err), WP_UNAVAILABLE);
    assert_string_equal(err.msg, "not now");
    start_status = WP_OK;
    assert_int_equal(wp_webhook_start(webhook, &err), WP_OK);
    NOTE("# another certificate\n");
    assert_int_equal(wp_webhook_use(webhook, "cert", "key", &err), WP_OK);
    note_files();
    wp_webhook_stop(webhook);
    wp_webhook_destroy(webhook);
    note_files();
    wp_webhook_destroy(NULL);
    is_golden("webhook_life");
}

static void
test_what_fails_leaves_nothing(void **state)
{
    struct wp_webhook *webhook = NULL;

    (void)state;
    for (int n = 1; webhook == NULL && n < 50; n++) {
        fails_in = n;
        NOTE("# step %d fails\n", n);
        webhook = create();
        if (webhook == NULL) {
            note_files();
        }
    }
    fails_in = 0;
    wp_webhook_destroy(webhook);
    is_golden("webhook_fails");
}

/* Each file is the old one or the new one, whole. */
static void
test_a_certificate_that_cannot_be_kept(void **state)
{
    struct wp_webhook *webhook = create();
    enum wp_status status = WP_INTERNAL;

    (void)state;
    for (int n = 1; status != WP_OK && n < 50; n++) {
        struct wp_err err = {.msg = ""};

        fails_in = n;
        NOTE("# step %d fails\n", n);
        status = wp_webhook_use(webhook, "new certificate", "new key", &err);
        NOTE("= %s %s\n", wp_status_name(status),
             err.msg[0] != '\0' ? file_name(err.msg) : "");
        note_files();
    }
    fails_in = 0;
    wp_webhook_destroy(webhook);
    is_golden("webhook_use");
}

static void
test_a_file_that_is_not_taken_whole(void **state)
{
    static const struct {
        int error;
        size_t taken;
    } cases[] = {{0, 0}, {0, 1}, {0, 2}, {EDQUOT, 0}};
    struct wp_webhook *webhook = create();

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_err err = {.msg = ""};

        write_error = cases[i].error;
        taken = cases[i].taken;
        fails_in = 2;
        assert_int_equal(wp_webhook_use(webhook, "cert", "key", &err),
                         WP_INTERNAL);
        NOTE("%s\n", file_name(err.msg));
        note_files();
    }
    wp_webhook_destroy(webhook);
    is_golden("webhook_part");
}

/* What somebody put in the new file's place is not written through. */
static void
test_a_link_is_not_followed(void **state)
{
    struct wp_webhook *webhook = create();
    char path[sizeof dir + 32];
    struct wp_err err;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/webhook.key.new", dir);
    assert_int_equal(symlink("/nowhere/at/all", path), 0);
    assert_int_equal(wp_webhook_use(webhook, "cert", "key", &err), WP_OK);
    note_files();
    wp_webhook_destroy(webhook);
    is_golden("webhook_link");
}

static void
test_how_long_a_directory_may_be(void **state)
{
    static char path[4096 + 1];
    struct wp_err err = {.msg = ""};
    size_t longest = 4096 - sizeof "/webhook.key";

    (void)state;
    memset(path, 'd', sizeof path - 1);
    path[longest + 1] = '\0';
    assert_null(wp_webhook_create("host:9", path, &err));
    assert_int_equal(err.status, WP_INVALID_ARGUMENT);
    path[longest] = '\0';
    assert_null(wp_webhook_create("host:9", path, &err));
    assert_int_equal(err.status, WP_INTERNAL);
}

static void
head(const char *method, const char *path, bool too_long)
{
    char scratch[WP_H2_REQUEST_SIZE] = {0};

    NOTE("# %s %s\n", method, path);
    handler.header(handler.ctx, scratch, WP_STR(":method"),
                   wp_str_from(method));
    handler.header(handler.ctx, scratch, WP_STR(":path"), wp_str_from(path));
    handler.header(handler.ctx, scratch, WP_STR("other"), WP_STR("POST"));
    handler.header(handler.ctx, scratch, WP_STR("path"), WP_STR("/x"));
    handler.request(handler.ctx, (struct wp_h2_conn *)(void *)&handle, 7,
                    scratch, too_long);
}

static void
test_which_requests_are_taken(void **state)
{
    struct wp_webhook *webhook = create();
    struct wp_h2_origin origin = {.tls = NULL};

    (void)state;
    assert_false(handler.admit(handler.ctx, &origin, NULL));
    origin.tls = &origin;
    assert_true(handler.admit(handler.ctx, &origin, NULL));
    head("POST", "/convert", false);
    head("POST", "/convert?timeout=30s", false);
    head("POST", "/convert?", false);
    head("POST", "/convert", true);
    head("GET", "/convert", false);
    head("POST", "/converts", false);
    head("POST", "/conver", false);
    head("POST", "/convert/", false);
    head("POST", "", false);
    head("GET", "/", false);
    head("post", "/convert", false);
    verdict = WP_PEER_ADMITTED + 1;
    head("POST", "/convert", false);
    opened = NULL;
    head("POST", "/convert", false);
    wp_webhook_destroy(webhook);
    is_golden("webhook_requests");
}

static void
data(const char *bytes, size_t len)
{
    handler.data(opened, (const uint8_t *)bytes, len);
}

static void
test_a_body_is_answered(void **state)
{
    static char many[70000];
    struct wp_h2_field fields[WP_H2_FIELDS_MAX];
    struct wp_webhook *webhook = create();

    (void)state;
    memset(object, 0x5a, sizeof object);
    handler.init(handler.ctx, opened);
    NOTE("# it ends at once\n");
    handler.closed(opened);
    NOTE("# in two parts\n");
    data("one, ", 5);
    data("two", 3);
    handler.ended(opened);
    assert_int_equal(handler.trailers(opened, fields), 1);
    NOTE("trailer %.*s=%.*s\n", WP_STR_ARG(fields[0].name),
         WP_STR_ARG(fields[0].value));
    handler.sent(opened);
    handler.turn(handler.ctx, NULL, true);
    handler.message(handler.ctx, NULL);
    handler.closed(opened);
    NOTE("# none\n");
    handler.ended(opened);
    handler.closed(opened);
    NOTE("# a senseless one, behind another one\n");
    answer = NULL;
    data("x", 1);
    handler.ended(opened);
    handler.closed(opened);
    answer = "fine";
    NOTE("# just what there is room for, and more\n");
    data(many, 16384);
    data(many, 1);
    data(many, 16383);
    data(many, 32769);
    handler.ended(opened);
    handler.closed(opened);
    NOTE("# much at once\n");
    data(many, sizeof many);
    data(many, 61072);
    data(many, 1);
    handler.ended(opened);
    handler.closed(opened);
    NOTE("# it ends early\n");
    data("early", 5);
    handler.closed(opened);
    NOTE("# no memory\n");
    no_room = true;
    data("x", 1);
    handler.closed(opened);
    no_room = false;
    data("y", 1);
    handler.ended(opened);
    handler.closed(opened);
    wp_webhook_destroy(webhook);
    is_golden("webhook_body");
}

static void
test_how_long_a_body_may_be(void **state)
{
    static char part[1 << 20];
    struct wp_webhook *webhook = create();

    (void)state;
    handler.init(handler.ctx, opened);
    for (int i = 0; i < 32; i++) {
        data(part, sizeof part);
    }
    NOTE("# one byte more\n");
    data(part, 1);
    NOTE("# without it\n");
    handler.ended(opened);
    assert_int_equal(asked_len, WP_REVIEW_BYTES_MAX);
    handler.closed(opened);
    wp_webhook_destroy(webhook);
    is_golden("webhook_long");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_its_life),
        TEST(test_what_fails_leaves_nothing),
        TEST(test_a_certificate_that_cannot_be_kept),
        TEST(test_a_file_that_is_not_taken_whole),
        TEST(test_a_link_is_not_followed),
        TEST(test_how_long_a_directory_may_be),
        TEST(test_which_requests_are_taken),
        TEST(test_a_body_is_answered),
        TEST(test_how_long_a_body_may_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
