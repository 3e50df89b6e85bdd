/* Endless answers: bytes as they come, and every way in which they end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/assert.h"
#include "tests/support/http/http_rig.h"
#include "tests/support/base/temp_dir.h"

static struct rig rig;

struct watcher {
    struct wp_http_stream *stream;
    uint32_t byte_count;
    uint32_t end_count;
    enum wp_status status;
    int code;
    char bytes[256];
    char body[64];
    char error[64];
    void (*reaction)(struct watcher *watcher);
    struct watcher *other;
    bool stop;
};

static bool
on_bytes(void *ctx, struct wp_str bytes)
{
    struct watcher *watcher = ctx;

    if (watcher->byte_count + bytes.len < sizeof watcher->bytes) {
        memcpy(watcher->bytes + watcher->byte_count, bytes.ptr, bytes.len);
    }
    watcher->byte_count += (uint32_t)bytes.len;
    if (watcher->reaction != NULL) {
        watcher->reaction(watcher);
    }
    return !watcher->stop;
}

static void
on_end(void *ctx, const struct wp_http_answer *answer)
{
    struct watcher *watcher = ctx;

    watcher->end_count++;
    watcher->status = answer->status;
    watcher->code = answer->code;
    (void)snprintf(watcher->body, sizeof watcher->body, "%.*s",
                   WP_STR_ARG(answer->body));
    (void)snprintf(watcher->error, sizeof watcher->error, "%s", answer->error);
}

static void
watch(struct watcher *watcher, const char *path, int64_t idle_ms)
{
    struct wp_http_stream_config config = {.path = path,
                                           .idle_timeout_ns =
                                               idle_ms * WP_NS_PER_MS,
                                           .on_bytes = on_bytes,
                                           .on_end = on_end,
                                           .ctx = watcher};

    watcher->stream = wp_http_stream_open(rig.http, &config);
    assert_non_null(watcher->stream);
}

#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

static void
begin(struct rig *r, const struct peer_request *request)
{
    (void)r;
    if (strncmp(request->path, "/watch", 6) == 0) {
        peer_write(request, CHUNKED "3\r\none\r\n");
    } else {
        peer_reply(request, 200, NULL, "");
    }
}

/* Bytes arrive as they are written, and the server's end is a good one. */
static void
bytes_and_end(void **state)
{
    struct watcher watcher = {0};

    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = begin;
    rig_connect(&rig);
    watch(&watcher, "/watch?x=1", 5000);
    rig_wait(&rig, &watcher.byte_count, 3);
    peer_write(&rig.requests[0], "4\r\ntwo!\r\n");
    rig_wait(&rig, &watcher.byte_count, 7);
    assert_memory_equal(watcher.bytes, "onetwo!", 7);
    assert_int_equal(watcher.end_count, 0);
    peer_write(&rig.requests[0], "0\r\n\r\n");
    rig_wait(&rig, &watcher.end_count, 1);
    assert_int_equal(watcher.status, WP_OK);
    assert_int_equal(watcher.code, 200);
    rig_wait_open(&rig, 0);
    assert_int_equal(watcher.end_count, 1);
    rig_fini(&rig);
}

/* Neither requests nor other streams share a stream's connection. */
static void
own_connections(void **state)
{
    struct watcher watchers[3] = {{0}};

    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = begin;
    rig_connect(&rig);
    for (size_t i = 0; i < 3; i++) {
        watch(&watchers[i], "/watch", 0);
    }
    for (size_t i = 0; i < 3; i++) {
        rig_wait(&rig, &watchers[i].byte_count, 3);
    }
    rig_get(&rig, "/g", WP_HTTP_NORMAL, 1);
    rig_wait(&rig, &rig.answer_count, 1);
    assert_int_equal(peer_accepted(rig.peer), 4);
    for (size_t i = 0; i < 3; i++) {
        wp_http_stream_close(watchers[i].stream);
    }
    rig_wait_open(&rig, 1);
    assert_int_equal(watchers[0].end_count, 0);
    rig_fini(&rig);
}

/* Silence ends it; bytes put that off. */
static void
idle(void **state)
{
    struct watcher watcher = {0};
    int64_t start;

    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = begin;
    rig_connect(&rig);
    watch(&watcher, "/watch", 1500);
    rig_wait(&rig, &watcher.byte_count, 3);
    rig_pass_ms(&rig, 200);
    /* Before the byte: how long after it this process goes on is anybody's
     * guess. */
    start = wp_clock_mono_ns(wp_clock_system());
    peer_write(&rig.requests[0], "1\r\nx\r\n");
    rig_wait(&rig, &watcher.byte_count, 4);
    rig_wait(&rig, &watcher.end_count, 1);
    assert_int_equal(watcher.status, WP_DEADLINE_EXCEEDED);
    assert_true(wp_clock_mono_ns(wp_clock_system()) - start >=
                1490 * WP_NS_PER_MS);
    rig_wait_open(&rig, 0);
    rig_fini(&rig);
}

static void
never(struct rig *r, const struct peer_request *request)
{
    (void)r;
    (void)request;
}

/* The server takes the request and says nothing at all. */
static void
idle_from_the_start(void **state)
{
    struct watcher watcher = {0};

    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = never;
    rig_connect(&rig);
    watch(&watcher, "/watch", 50);
    rig_wait(&rig, &watcher.end_count, 1);
    assert_int_equal(watcher.status, WP_DEADLINE_EXCEEDED);
    rig_fini(&rig);
}

/* A cut is told from an end. */
static void
cut(void **state)
{
    struct watcher watcher = {0};

    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = begin;
    rig_connect(&rig);
    watch(&watcher, "/watch", 5000);
    rig_wait(&rig, &watcher.byte_count, 3);
    peer_write(&rig.requests[0], "8\r\nhal");
    peer_cut(&rig.requests[0]);
    rig_wait(&rig, &watcher.end_count, 1);
    assert_int_equal(watcher.status, WP_UNAVAILABLE);
    assert_memory_equal(watcher.bytes, "onehal", 6);
    rig_fini(&rig);
}

static void
gone(struct rig *r, const struct peer_request *request)
{
    (void)r;
    peer_reply(request, 410, NULL, "too old");
}

/* A refusal's words come with its end, not as bytes of the stream. */
static void
refusal(void **state)
{
    struct watcher watcher = {0};

    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = gone;
    rig_connect(&rig);
    watch(&watcher, "/watch", 5000);
    rig_wait(&rig, &watcher.end_count, 1);
    assert_int_equal(watcher.status, WP_OK);
    assert_int_equal(watcher.code, 410);
    assert_string_equal(watcher.body, "too old");
    assert_int_equal(watcher.byte_count, 0);
    rig_fini(&rig);
}

static void
stop_it(struct watcher *watcher)
{
    watcher->stop = true;
}

static void
stopped_by_owner(void **state)
{
    struct watcher watcher = {.reaction = stop_it};

    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = begin;
    rig_connect(&rig);
    watch(&watcher, "/watch", 5000);
    rig_wait(&rig, &watcher.end_count, 1);
    assert_int_equal(watcher.status, WP_CANCELLED);
    assert_string_equal(watcher.error, "ended by its owner");
    assert_int_equal(watcher.byte_count, 3);
    rig_fini(&rig);
}

/* What an owner does when it hears of an event: it sends requests, opens
 * streams and closes others, all from within. */
static void
do_much(struct watcher *watcher)
{
    watcher->reaction = NULL;
    rig_get(&rig, "/a", WP_HTTP_CLAIM, 1);
    rig_get(&rig, "/b", WP_HTTP_REFILL, 2);
    wp_http_stream_close(watcher->other->stream);
    watch(watcher->other, "/watch/again", 0);
}

static void
requests_from_within(void **state)
{
    struct watcher other = {0};
    struct watcher watcher = {0};

    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = begin;
    rig_connect(&rig);
    watch(&other, "/watch", 0);
    rig_wait(&rig, &other.byte_count, 3);
    watcher.other = &other;
    watcher.reaction = do_much;
    watch(&watcher, "/watch", 0);
    rig_wait(&rig, &rig.answer_count, 2);
    rig_wait(&rig, &other.byte_count, 6);
    assert_int_equal(other.end_count, 0);
    assert_int_equal(rig.failed_count, 0);
    wp_http_stream_close(other.stream);
    rig_fini(&rig);
    assert_int_equal(other.end_count, 0);
    assert_int_equal(watcher.end_count, 1);
}

/* Under way, not begun, and closed a moment ago. */
static void
destroy_under_way(void **state)
{
    struct watcher watchers[3] = {{0}};

    (void)state;
    rig_init(&rig, NULL);
    rig.on_request = begin;
    rig_connect(&rig);
    watch(&watchers[0], "/watch", 1000);
    watch(&watchers[1], "/watch", 1000);
    rig_wait(&rig, &watchers[1].byte_count, 3);
    watch(&watchers[2], "/watch", 1000);
    wp_http_stream_close(watchers[1].stream);
    rig_fini(&rig);
    assert_int_equal(watchers[0].end_count, 1);
    assert_int_equal(watchers[0].status, WP_CANCELLED);
    assert_int_equal(watchers[1].end_count, 0);
    assert_int_equal(watchers[2].end_count, 1);
    assert_int_equal(watchers[2].status, WP_CANCELLED);
}

static void
nobody_listens(void **state)
{
    struct watcher watcher = {0};

    (void)state;
    rig_init(&rig, NULL);
    peer_stop(rig.peer);
    rig.peer = NULL;
    rig_connect(&rig);
    watch(&watcher, "/watch", 5000);
    rig_wait(&rig, &watcher.end_count, 1);
    assert_int_equal(watcher.status, WP_UNAVAILABLE);
    rig_fini(&rig);
}

static char token_path[128];

static void
write_token(const char *text)
{
    FILE *file = fopen(token_path, "w");

    WP_ASSERT(file != NULL && fputs(text, file) >= 0);
    WP_ASSERT(fclose(file) == 0);
}

static void
need_new_token(struct rig *r, const struct peer_request *request)
{
    if (strcmp(request->authorization, "Bearer new") == 0) {
        begin(r, request);
        return;
    }
    write_token("new");
    peer_reply(request, 401, NULL, "no");
}

static void
token_rotates(void **state)
{
    struct watcher watcher = {0};
    char dir[64];

    (void)state;
    temp_dir_make_fast(dir, sizeof dir);
    (void)snprintf(token_path, sizeof token_path, "%s/token", dir);
    write_token("old");
    rig_init(&rig, NULL);
    rig.server.token_file = token_path;
    rig.on_request = need_new_token;
    rig_connect(&rig);
    watch(&watcher, "/watch", 5000);
    rig_wait(&rig, &watcher.byte_count, 3);
    assert_memory_equal(watcher.bytes, "one", 3);
    assert_int_equal(watcher.end_count, 0);
    rig_fini(&rig);
    temp_dir_remove(dir);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_and_end),
        cmocka_unit_test(own_connections),
        cmocka_unit_test(idle),
        cmocka_unit_test(idle_from_the_start),
        cmocka_unit_test(cut),
        cmocka_unit_test(refusal),
        cmocka_unit_test(stopped_by_owner),
        cmocka_unit_test(requests_from_within),
        cmocka_unit_test(destroy_under_way),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(token_rotates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
