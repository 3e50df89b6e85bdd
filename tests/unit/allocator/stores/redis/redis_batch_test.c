/* tests/unit/allocator/stores/redis/redis_batch_test.c - commands that gather:
 * the whole text that a link would send, which calls share a command, and from
 * when on there is no room. The link's socket takes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "allocator/stores/redis/link/link_impl.h"

enum {
    CALLS = 128,
    PENDING_MAX = 100,
};

static int sockets[2]; /* The link's takes nothing: it is full. */
static struct wp_redis_links links;
static struct wp_redis_link *the_link;
static int callers[CALLS];
static uint32_t n_calls;

static int
begin(void **state)
{
    (void)state;
    memset(&links, 0, sizeof links);
    links.n = 1;
    links.calls_max = CALLS;
    links.config.pending_max = PENDING_MAX;
    links.wake_fd = -1; /* Nobody sleeps. */
    links.epoll_fd = -1;
    the_link = aligned_alloc(WP_CACHELINE, sizeof *the_link);
    assert_non_null(the_link);
    memset(the_link, 0, sizeof *the_link);
    links.links = the_link;
    the_link->links = &links;
    the_link->state = WP_LINK_UP;
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
    while (send(sockets[0], callers, sizeof callers, MSG_NOSIGNAL) > 0) {
    }
    while (send(sockets[0], callers, 1, MSG_NOSIGNAL) > 0) {
    }
    the_link->stream.fd = sockets[0];
    (void)pthread_mutex_init(&the_link->lock, NULL);
    the_link->out = malloc(WP_LINK_BUFFER);
    the_link->calls = calloc(CALLS, sizeof *the_link->calls);
    assert_true(wp_link_batch_init(&the_link->batch));
    n_calls = 0;
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wp_link_batch_fini(&the_link->batch);
    (void)pthread_mutex_destroy(&the_link->lock);
    (void)close(sockets[0]);
    (void)close(sockets[1]);
    free(the_link->calls);
    free(the_link->out);
    free(the_link);
    return 0;
}

/* A call with two words as head, one key and one word more. */
static enum wp_status
gather_of(uint64_t id, uint32_t tag, struct wp_str key, struct wp_str rest)
{
    static const struct wp_str head[] = {{"EVALSHA", 7}, {"sha", 3}};
    const struct wp_redis_entry entry = {.id = id,
                                         .head = head,
                                         .keys = &key,
                                         .rest = &rest,
                                         .n_head = 2,
                                         .n_keys = 1,
                                         .n_rest = 1};
    enum wp_status status = wp_redis_gather(
        &links, 0, &callers[n_calls % CALLS], tag, &entry, false);

    n_calls += status == WP_PENDING;
    return status;
}

static void
gather(uint64_t id, uint32_t tag, const char *key, const char *rest)
{
    assert_int_equal(gather_of(id, tag, wp_str_from(key), wp_str_from(rest)),
                     WP_PENDING);
}

static void
would_send(const char *expected)
{
    wp_link_batch_close(the_link);
    assert_int_equal(the_link->out_len, strlen(expected));
    assert_memory_equal(the_link->out, expected, strlen(expected));
    assert_int_equal(the_link->stream_len, strlen(expected));
}

/* Of the call of that number: how many its command answers, which ends so many
 * bytes from the beginning. */
static void
is_call(uint32_t i, uint32_t tag, uint32_t n, uint64_t ends)
{
    const struct wp_link_call *call = &the_link->calls[i];

    assert_ptr_equal(call->call, &callers[i]);
    assert_int_equal(call->tag, tag);
    assert_int_equal(call->n, n);
    assert_int_equal(call->end, ends);
}

#define HEAD "$7\r\nEVALSHA\r\n$3\r\nsha\r\n"

static void
test_calls_share_a_command(void **state)
{
    static const char expected[] =
        "*9\r\n" HEAD "$1\r\n3\r\n"
        "$1\r\na\r\n$2\r\nbb\r\n$0\r\n\r\n"
        "$1\r\nx\r\n$0\r\n\r\n$11\r\nhello world\r\n";

    (void)state;
    gather(5, 6, "a", "x");
    is_call(0, 6, 1, UINT64_MAX); /* It cannot have left. */
    gather(5, 6, "bb", "");
    gather(5, 6, "", "hello world");
    assert_int_equal(the_link->out_len, 0);
    assert_true(wp_link_has_gathered(the_link));
    would_send(expected);
    is_call(0, 6, 3, strlen(expected));
    is_call(1, 6, 1, strlen(expected));
    is_call(2, 6, 1, strlen(expected));
    assert_int_equal(wp_link_in_flight(the_link), 3);
    would_send(expected); /* Nothing more. */
}

/* Another script, another tag, or the same key begins the next command. */
static void
test_which_calls_do_not(void **state)
{
#define ONE(key, rest)                                                         \
    "*5\r\n" HEAD "$1\r\n1\r\n$1\r\n" key "\r\n$1\r\n" rest "\r\n"
    static const char first[] = ONE("a", "1");
    const size_t len = sizeof first - 1;

    (void)state;
    gather(5, 6, "a", "1");
    gather(4, 6, "b", "2");
    gather(4, 7, "c", "3");
    gather(4, 7, "c", "4");
    gather(4, 7, "d", "5");
    gather(4, 7, "c", "6");
    would_send(ONE("a", "1") ONE("b", "2")
                   ONE("c", "3") "*7\r\n" HEAD
                                 "$1\r\n2\r\n$1\r\nc\r\n$1\r\nd\r\n"
                                 "$1\r\n4\r\n$1\r\n5\r\n" ONE("c", "6"));
    is_call(0, 6, 1, len);
    is_call(1, 6, 1, 2 * len);
    is_call(2, 7, 1, 3 * len);
    is_call(3, 7, 2, 4 * len + 14);
    is_call(4, 7, 1, 4 * len + 14);
    is_call(5, 7, 1, 5 * len + 14);
}

static void
test_how_many_share_a_command(void **state)
{
    char key[16];

    (void)state;
    for (int i = 0; i < WP_REDIS_BATCH_MAX; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        gather(1, 1, key, "r");
        assert_int_equal(the_link->batch.n, i + 1);
        assert_int_equal(the_link->out_len, 0);
    }
    gather(1, 1, "more", "r");
    assert_int_equal(the_link->batch.n, 1);
    assert_int_equal(the_link->calls[0].n, WP_REDIS_BATCH_MAX);
    assert_int_equal(the_link->calls[0].end, the_link->out_len);
    assert_int_equal(the_link->calls[WP_REDIS_BATCH_MAX - 1].end,
                     the_link->out_len);
    assert_true(the_link->calls[WP_REDIS_BATCH_MAX].end == UINT64_MAX);
}

/* Each word counts its bytes and 32. */
static void
test_how_long_a_shared_command_is(void **state)
{
    static char text[WP_LINK_BATCH_REST];
    struct wp_str key = {text, WP_LINK_BATCH_KEYS - 32};
    struct wp_str rest = {text, WP_LINK_BATCH_REST - 32};

    (void)state;
    memset(text, 'k', sizeof text);
    gather(1, 1, "a", "1");
    key.len -= (size_t)the_link->batch.keys_len;
    assert_int_equal(gather_of(1, 1, key, WP_STR("2")), WP_PENDING);
    assert_int_equal(the_link->batch.n, 2);
    wp_link_batch_close(the_link);
    gather(1, 1, "b", "3");
    key.len++;
    assert_int_equal(gather_of(1, 1, key, WP_STR("4")), WP_PENDING);
    assert_int_equal(the_link->batch.n, 1);
    wp_link_batch_close(the_link);
    gather(1, 1, "c", "5");
    rest.len -= the_link->batch.rest_len;
    assert_int_equal(gather_of(1, 1, WP_STR("d"), rest), WP_PENDING);
    assert_int_equal(the_link->batch.n, 2);
    wp_link_batch_close(the_link);
    gather(1, 1, "e", "6");
    rest.len++;
    assert_int_equal(gather_of(1, 1, WP_STR("f"), rest), WP_PENDING);
    assert_int_equal(the_link->batch.n, 1);
}

static void
test_what_there_is_no_room_for(void **state)
{
    struct wp_redis_stats stats;
    char key[16];

    (void)state;
    for (int i = 0; i < PENDING_MAX; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        gather(1, 1, key, "r");
    }
    assert_int_equal(gather_of(1, 1, WP_STR("x"), WP_STR("y")), WP_UNAVAILABLE);
    atomic_store(&the_link->head, 1); /* One is answered. */
    gather(1, 1, "x", "y");
    atomic_store(&the_link->head, PENDING_MAX);
    /* The buffer: a frame of 64 bytes, and each word with 32. */
    wp_link_batch_close(the_link);
    the_link->out_len = WP_LINK_BUFFER - (64 + 4 * 32 + 7 + 3 + 1 + 1);
    the_link->out_len++;
    assert_int_equal(gather_of(1, 1, WP_STR("x"), WP_STR("y")), WP_UNAVAILABLE);
    the_link->out_len--;
    gather(1, 1, "x", "y");
    assert_int_equal(gather_of(1, 1, WP_STR("z"), WP_STR("y")), WP_UNAVAILABLE);
    /* What has been sent makes room. */
    the_link->out_sent = 1000;
    gather(1, 1, "z", "y");
    assert_int_equal(the_link->out_sent, 0);
    the_link->renew = true;
    assert_int_equal(gather_of(1, 1, WP_STR("v"), WP_STR("y")), WP_UNAVAILABLE);
    the_link->renew = false;
    the_link->state = WP_LINK_BROKEN;
    assert_int_equal(gather_of(1, 1, WP_STR("v"), WP_STR("y")), WP_UNAVAILABLE);
    wp_redis_links_read_stats(&links, &stats);
    assert_int_equal(stats.full, 3);
    assert_int_equal(stats.refused, 2);
    assert_int_equal(stats.links, 1);
    assert_int_equal(stats.links_up, 0);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_calls_share_a_command),
        TEST(test_which_calls_do_not),
        TEST(test_how_many_share_a_command),
        TEST(test_how_long_a_shared_command_is),
        TEST(test_what_there_is_no_room_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
