/* A channel of messages of the caller's own kind; the others are in
 * base_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "pool/base/channel.h"

enum {
    ROUNDS = 200000
};

enum kind {
    RECORD,
    BEGIN,
    END,
};

struct message {
    enum kind kind;
    char text[75]; /* So that no size is a round one. */
    unsigned char number[sizeof(uint64_t)];
};

static struct {
    uint64_t taken;
    uint64_t expected; /* Number of the next message. */
    enum kind kind;
} seen;

static void
make(struct wp_channel *channel, uint32_t messages_max)
{
    assert_true(
        wp_channel_init_sized(channel, messages_max, sizeof(struct message)));
    seen.taken = 0;
    seen.expected = 0;
}

static bool
push(struct wp_channel *channel, enum kind kind, uint64_t number)
{
    struct message message = {.kind = kind, .text = "text"};

    memcpy(message.number, &number, sizeof number);
    return wp_channel_send_sized(channel, &message);
}

/* How many there were, of at most max. */
static uint32_t
run(struct wp_channel *channel, uint32_t max)
{
    struct message message;
    uint64_t number;
    uint32_t n;

    for (n = 0; n < max && wp_channel_receive(channel, &message); n++) {
        memcpy(&number, message.number, sizeof number);
        assert_int_equal(number, seen.expected);
        assert_string_equal(message.text, "text");
        seen.expected++;
        seen.taken++;
        seen.kind = message.kind;
    }
    return n;
}

static void
full_is_refused_and_order_is_kept(void **state)
{
    struct wp_channel channel;
    uint64_t next = 0;

    (void)state;
    make(&channel, 3); /* 4 */
    for (int round = 0; round < 10; round++) {
        while (push(&channel, RECORD, next)) {
            next++;
        }
        assert_int_equal(next, 4 * (round + 1));
        assert_int_equal(run(&channel, 3), 3);
        assert_int_equal(seen.taken, next - 1);
        assert_int_equal(run(&channel, 3), 1);
        assert_int_equal(seen.taken, next);
    }
    assert_int_equal(next, 40);
    wp_channel_fini(&channel);
}

/* Goal: a message takes its own bytes and a number beside them, up to where the
 * next number may lie. */
static void
cells_are_no_larger_than_they_must_be(void **state)
{
    static const struct {
        size_t size;
        size_t cell_size;
    } rows[] = {
        {1, 16}, {7, 16}, {8, 16}, {9, 24}, {16, 24}, {17, 32},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct wp_channel channel;
        unsigned char sent[17];
        unsigned char got[18];

        assert_true(wp_channel_init_sized(&channel, 2, rows[i].size));
        assert_int_equal(channel.cell_size, rows[i].cell_size);
        for (unsigned char k = 0; k < 2; k++) {
            memset(sent, 'a' + k, sizeof sent);
            assert_true(wp_channel_send_sized(&channel, sent));
        }
        assert_false(wp_channel_send_sized(&channel, sent));
        for (unsigned char k = 0; k < 2; k++) {
            memset(sent, 'a' + k, sizeof sent);
            memset(got, '.', sizeof got);
            assert_true(wp_channel_receive(&channel, got));
            assert_memory_equal(got, sent, rows[i].size);
            assert_int_equal(got[rows[i].size], '.');
        }
        wp_channel_fini(&channel);
    }
}

static void
kinds_are_kept(void **state)
{
    static const enum kind kinds[] = {BEGIN, RECORD, END};
    struct wp_channel channel;

    (void)state;
    make(&channel, 16);
    for (uint64_t i = 0; i < 3; i++) {
        assert_true(push(&channel, kinds[i], i));
    }
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(run(&channel, 1), 1);
        assert_int_equal(seen.kind, kinds[i]);
    }
    assert_int_equal(run(&channel, 1), 0);
    wp_channel_fini(&channel);
}

static void *
push_all(void *arg)
{
    for (uint64_t i = 0; i < ROUNDS;) {
        if (push(arg, RECORD, i)) {
            i++;
        } else {
            sched_yield();
        }
    }
    return NULL;
}

static void
another_thread_pushes(void **state)
{
    struct wp_channel channel;
    pthread_t thread;

    (void)state;
    make(&channel, 64);
    assert_int_equal(pthread_create(&thread, NULL, push_all, &channel), 0);
    while (seen.taken < ROUNDS) {
        if (run(&channel, 100) < 100) {
            sched_yield();
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(run(&channel, 100), 0);
    wp_channel_fini(&channel);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_is_refused_and_order_is_kept),
        cmocka_unit_test(cells_are_no_larger_than_they_must_be),
        cmocka_unit_test(kinds_are_kept),
        cmocka_unit_test(another_thread_pushes),
    };

    return cmocka_run_group_tests_name("channel", tests, NULL, NULL);
}
