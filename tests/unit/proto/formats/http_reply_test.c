/* What a handler learns of its request, and each way to answer it: every byte
 * that goes out, and what the connection is afterwards. Compared whole with
 * golden/reply_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <event2/buffer.h>

#include "proto/formats/http_conn.h"
#include "tests/support/base/journal.h"

enum {
    CHUNK = 64 << 10, /* Of a file at once. */
};

#define FAKE(type, name, ...)                                                  \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

static struct wp_http_server server;
static struct wp_http_req *req;
static char bev; /* Stands for the connection. */
static struct evbuffer *out;
static bool told;           /* While the code under test runs. */
static const char *failing; /* A call. */

struct evbuffer *__real_evbuffer_new(void);
int __real_evbuffer_reserve_space(struct evbuffer *buffer, ev_ssize_t size,
                                  struct evbuffer_iovec *spaces, int n);
ssize_t __real_pread(int fd, void *data, size_t len, off_t offset);
int __real_close(int fd);
char *__real_json_dumps(const json_t *json, size_t flags);

static bool
fails(const char *call)
{
    return told && failing != NULL && strcmp(failing, call) == 0;
}

FAKE(struct evbuffer *, bufferevent_get_output, struct bufferevent *of)
{
    assert_ptr_equal(of, &bev);
    return out;
}

FAKE(void, wp_http_set_deadline, struct wp_http_req *of, int64_t in_ns)
{
    assert_ptr_equal(of, req);
    journal("deadline in %lld", (long long)in_ns);
    journal_line();
}

FAKE(struct evbuffer *, evbuffer_new, void)
{
    return fails("evbuffer_new") ? NULL : __real_evbuffer_new();
}

FAKE(int, evbuffer_reserve_space, struct evbuffer *buffer, ev_ssize_t size,
     struct evbuffer_iovec *spaces, int n)
{
    if (fails("evbuffer_reserve_space")) {
        return -1;
    }
    return __real_evbuffer_reserve_space(buffer, size, spaces, n);
}

FAKE(ssize_t, pread, int fd, void *data, size_t len, off_t offset)
{
    if (!told) {
        return __real_pread(fd, data, len, offset);
    }
    journal("read %zu at %lld", len, (long long)offset);
    journal_line();
    if (fails("pread")) {
        errno = EIO;
        return -1;
    }
    return __real_pread(fd, data, len, offset);
}

FAKE(int, close, int fd)
{
    if (told) {
        journal("close");
        journal_line();
    }
    return __real_close(fd);
}

FAKE(char *, json_dumps, const json_t *json, size_t flags)
{
    return fails("json_dumps") ? NULL : __real_json_dumps(json, flags);
}

/* --------------------------------------------------------------- the rig */

static void
ask(const char *method)
{
    req->message = (struct wp_http_message){
        .method = wp_str_from(method),
        .target = WP_STR("/path"),
        .done = true,
    };
    req->phase = WP_HTTP_WAIT;
    req->keep_alive = true;
    req->replied = false;
    req->answer_begun = false;
    req->early = 0;
    req->file_fd = -1;
    req->file_left = 0;
    req->file_offset = 0;
    server.draining = false;
    failing = NULL;
}

static int
begin(void **state)
{
    (void)state;
    server = (struct wp_http_server){.config.app = &server};
    req = calloc(1, sizeof *req + 16);
    out = evbuffer_new();
    assert_true(req != NULL && out != NULL);
    req->server = &server;
    req->bev = (struct bufferevent *)(void *)&bev;
    req->path = strdup("/path");
    req->body = evbuffer_new();
    req->extra = evbuffer_new();
    assert_true(req->path != NULL && req->body != NULL && req->extra != NULL);
    ask("GET");
    journal_drop();
    return 0;
}

static int
end(void **state)
{
    (void)state;
    evbuffer_free(req->body);
    evbuffer_free(req->extra);
    evbuffer_free(out);
    free(req->path);
    free(req);
    return 0;
}

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/reply_%s.txt", name);
    journal_compare(path);
}

/* What went out, and what the connection is now. */
static void
tell(void)
{
    size_t len = evbuffer_get_length(out);

    journal_bytes((const char *)evbuffer_pullup(out, -1), len);
    (void)evbuffer_drain(out, len);
    journal_line();
    journal("= replied %d keep %d phase %d early %d begun %d extra %zu",
            req->replied, req->keep_alive, (int)req->phase, req->early,
            req->answer_begun, evbuffer_get_length(req->extra));
    journal_line();
    assert_int_equal(wp_http_replied(req), req->replied);
}

static void
answer(const char *method, int status, const char *type, const char *body)
{
    ask(method);
    wp_http_reply(req, status, type, body, strlen(body));
    tell();
}

/* A file with those many bytes, each telling where it stands. */
static int
file_of(size_t size)
{
    int fd = memfd_create("file", MFD_CLOEXEC);
    char *bytes = malloc(size + 1);

    assert_true(fd >= 0 && bytes != NULL);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (char)(i % 251);
    }
    assert_int_equal(write(fd, bytes, size), size);
    free(bytes);
    return fd;
}

/* Takes what is out: the head is shown, and the file's bytes are looked at. */
static size_t
take(size_t from, bool head)
{
    size_t len = evbuffer_get_length(out);
    const char *bytes = (const char *)evbuffer_pullup(out, -1);
    size_t at = 0;

    if (head) {
        const char *body = memmem(bytes, len, "\r\n\r\n", 4);

        assert_non_null(body);
        at = (size_t)(body - bytes) + 4;
        journal_bytes(bytes, at);
        journal_line();
    }
    for (size_t i = at; i < len; i++) {
        assert_int_equal(bytes[i], (char)((from + i - at) % 251));
    }
    (void)evbuffer_drain(out, len);
    journal("%zu bytes, file %d left %llu offset %llu keep %d", len - at,
            req->file_fd >= 0, (unsigned long long)req->file_left,
            (unsigned long long)req->file_offset, req->keep_alive);
    journal_line();
    return len - at;
}

/* The file as a whole, or from a byte of it; piece by piece. */
static void
send_file(size_t has, size_t from, size_t promised)
{
    const int fd = file_of(has);
    size_t at = from;
    bool over = false;

    told = true;
    if (from > 0) {
        wp_http_reply_file_part(req, fd, from, promised);
    } else {
        wp_http_reply_file(req, fd, promised);
    }
    at += take(at, true);
    for (size_t i = 0; !over; i++) {
        assert_true(i < has / CHUNK + 2);
        over = wp_http_reply_continue(req);
        assert_int_equal(over,
                         req->file_fd < 0 && evbuffer_get_length(out) == 0);
        if (!over) {
            at += take(at, false);
        }
    }
    told = false;
    tell();
}

/* ----------------------------------------------------------------- tests */

static void
a_request_is_what_came(void **state)
{
    static const struct {
        const char *target;
        const char *query;
    } queries[] = {
        {"/path", ""},
        {"/path?", ""},
        {"/path?a=1", "a=1"},
        {"/path?a=1#f", "a=1"},
        {"/path?#f", ""},
        {"/path#f?a", ""},
        {"/path?a?b&c", "a?b&c"},
        {"/pat", ""},
        {"/path?a", "a"},
    };
    struct wp_http_message *message = wp_http_message(req);
    size_t len = 99;

    (void)state;
    req->roles = 5;
    assert_ptr_equal(message, &req->message);
    assert_ptr_equal(wp_http_app(req), &server);
    assert_ptr_equal(wp_http_peer(req), req->peer);
    assert_int_equal(wp_http_roles(req), 5);
    assert_string_equal(wp_http_method(req), "GET");
    assert_ptr_equal(wp_http_path(req), req->path);
    assert_null(wp_http_user(req));
    wp_http_set_user(req, &len);
    assert_ptr_equal(wp_http_user(req), &len);
    for (size_t i = 0; i < sizeof queries / sizeof(queries[0]); i++) {
        message->target = wp_str_from(queries[i].target);
        assert_true(wp_str_is(wp_http_query(req), queries[i].query));
    }
    /* Nothing behind the target is looked at. */
    message->target = (struct wp_str){"/path?a", 5};
    assert_true(wp_str_is(wp_http_query(req), ""));
    assert_string_equal(wp_http_body(req, &len), "");
    assert_int_equal(len, 0);
    assert_int_equal(evbuffer_add(req->body, "one", 3), 0);
    assert_int_equal(evbuffer_add(req->body, "two", 3), 0);
    assert_memory_equal(wp_http_body(req, &len), "onetwo", 6);
    assert_int_equal(len, 6);
}

static void
a_header_may_be_empty_and_an_upgrade_is_to_one_protocol(void **state)
{
    (void)state;
    req->message.fields[0] =
        (struct wp_http_field){WP_STR("Upgrade"), WP_STR("WebSocket")};
    req->message.fields[1] = (struct wp_http_field){WP_STR("Empty"), {NULL, 0}};
    assert_null(wp_http_header(req, "Upgrade"));
    req->message.upgrade = true;
    assert_false(wp_http_wants_upgrade(req, "websocket"));
    req->message.n_fields = 2;
    assert_string_equal(wp_http_header(req, "upgrade"), "WebSocket");
    assert_string_equal(wp_http_header(req, "Empty"), "");
    assert_null(wp_http_header(req, "Other"));
    assert_true(wp_http_wants_upgrade(req, "websocket"));
    assert_false(wp_http_wants_upgrade(req, "web"));
    req->message.upgrade = false;
    assert_false(wp_http_wants_upgrade(req, "websocket"));
}

static void
an_answer_has_a_head_and_perhaps_a_body(void **state)
{
    static const int statuses[] = {199, 200, 201, 204, 304, 404, 500, 599};

    (void)state;
    for (size_t i = 0; i < sizeof statuses / sizeof(statuses[0]); i++) {
        answer("GET", statuses[i], "text/plain", "body");
    }
    answer("HEAD", 200, "text/plain", "body");
    answer("HEAD", 204, NULL, "body");
    answer("POST", 200, NULL, "");
    wp_http_add_header(req, "X", "1");
    wp_http_add_header(req, "Y-Z", "2: 3");
    answer("GET", 200, "a/b", "x");
    golden("answers");
}

static void
a_connection_stays_when_all_was_read_and_nobody_leaves(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        ask("GET");
        req->message.done = (i & 1) == 0;
        server.draining = (i & 2) != 0;
        req->early = (i & 4) != 0 ? 9 : 0;
        if ((i & 8) != 0) {
            wp_http_set_close(req);
        }
        wp_http_reply(req, 200, NULL, NULL, 0);
        tell();
    }
    golden("connections");
}

static void
a_body_may_be_a_buffer_or_an_error(void **state)
{
    char much[600];
    struct evbuffer *body = evbuffer_new();

    (void)state;
    assert_non_null(body);
    assert_int_equal(evbuffer_add(body, "buffer", 6), 0);
    ask("HEAD");
    wp_http_reply_buffer(req, 200, "a/b", body);
    tell();
    assert_int_equal(evbuffer_get_length(body), 6);
    ask("GET");
    wp_http_reply_buffer(req, 200, "a/b", body);
    tell();
    assert_int_equal(evbuffer_get_length(body), 0);
    evbuffer_free(body);
    ask("GET");
    wp_http_reply_error(req, 422, "no '%s' \"%d\"", "tea", 7);
    tell();
    ask("GET");
    memset(much, 'm', sizeof much - 1);
    much[sizeof much - 1] = '\0';
    wp_http_reply_error(req, 400, "%s", much);
    tell();
    for (int i = 0; i < 2; i++) {
        ask("GET");
        failing = i == 0 ? "evbuffer_new" : "json_dumps";
        told = true;
        wp_http_reply_error(req, 400, "why");
        told = false;
        tell();
    }
    golden("bodies");
}

static void
a_file_goes_out_in_pieces(void **state)
{
    static const size_t sizes[] = {0,         1,         CHUNK - 1,    CHUNK,
                                   CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof(sizes[0]); i++) {
        journal("-- %zu", sizes[i]);
        journal_line();
        ask("GET");
        send_file(sizes[i], 0, sizes[i]);
    }
    journal("-- a part");
    journal_line();
    ask("GET");
    send_file(2 * CHUNK, 10, CHUNK + 5);
    ask("GET");
    send_file(100, 99, 1);
    journal("-- its head");
    journal_line();
    ask("HEAD");
    told = true;
    wp_http_reply_file(req, file_of(10), 10);
    told = false;
    tell();
    assert_int_equal(req->file_fd, -1);
    golden("files");
}

static void
a_file_that_ends_early_ends_the_connection(void **state)
{
    static const char *const calls[] = {"pread", "evbuffer_reserve_space"};

    (void)state;
    ask("GET");
    send_file(CHUNK + 3, 0, CHUNK + 4);
    ask("GET");
    send_file(3, 3, 1);
    for (size_t i = 0; i < sizeof calls / sizeof(calls[0]); i++) {
        ask("GET");
        failing = calls[i];
        send_file(10, 0, 10);
    }
    /* What is queued is not sent yet. */
    ask("GET");
    assert_true(wp_http_reply_continue(req));
    assert_int_equal(evbuffer_add(out, "x", 1), 0);
    assert_false(wp_http_reply_continue(req));
    golden("short_files");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_is_what_came),
        TEST(a_header_may_be_empty_and_an_upgrade_is_to_one_protocol),
        TEST(an_answer_has_a_head_and_perhaps_a_body),
        TEST(a_connection_stays_when_all_was_read_and_nobody_leaves),
        TEST(a_body_may_be_a_buffer_or_an_error),
        TEST(a_file_goes_out_in_pieces),
        TEST(a_file_that_ends_early_ends_the_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
