/* Links: what they ask before their use, and who reads the answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <hiredis/hiredis.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "allocator/stores/redis/link/link.h"
#include "pool/base/clock.h"
#include "pool/base/assert.h"

enum {
    PATIENCE_MS = 60000,
    RIGHT = 3,   /* What the server answers to the test's command. */
    ENDED = 100, /* There was no answer. */
};

/* How the server answers the test's command. */
enum way {
    AT_ONCE,
    LATE, /* Once the writer waits no more. */
    NEVER,
    GARBAGE,
    TWICE, /* The second one answers nothing. */
    ODD,   /* With more than any of our commands is answered. */
    CLOSES
};

struct server {
    char dir[32];
    char path[64];
    int fd;
    pthread_t thread;
    _Atomic(int) connection; /* The one that is served. */
    _Atomic(uint32_t) connections;
};

static _Atomic(int64_t) answered = -1;
static _Atomic(uint32_t) n_answered;
static pthread_t answered_by; /* Read after answered or n_answered. */
static _Atomic(int) way;      /* enum way */
static _Atomic(bool) waited;  /* The writer is back. */
static bool first_is_late;    /* Set before the server is started. */

static void
say(int fd, const char *text)
{
    (void)send(fd, text, strlen(text), MSG_NOSIGNAL);
}

/* The first connection's CLIENT ID is answered when something else is asked:
 * with 7. */
static void
answer(int fd, const redisReply *words, bool first, bool *owes)
{
    const char *name = words->element[0]->str;
    const char *what = words->elements > 1 ? words->element[1]->str : "";

    if (*owes) {
        *owes = false;
        say(fd, ":7\r\n");
    }
    if (strcasecmp(name, "INFO") == 0) {
        say(fd, "$18\r\n# Server\r\nrun_id:a\r\n");
    } else if (strcasecmp(name, "CLIENT") == 0 && strcasecmp(what, "ID") == 0) {
        *owes = first;
        if (!first) {
            say(fd, ":9\r\n");
        }
    } else if (strcasecmp(name, "TEST") == 0) {
        static const char *const said[] = {
            [AT_ONCE] = ":3\r\n",
            [LATE] = ":3\r\n",
            [NEVER] = "",
            [GARBAGE] = "?\r\n",
            [TWICE] = ":3\r\n:4\r\n",
            [ODD] = "*2\r\n:3\r\n$-1\r\n",
            [CLOSES] = "",
        };

        while (atomic_load(&way) == LATE && !atomic_load(&waited)) {
            (void)usleep(1000);
        }
        say(fd, said[atomic_load(&way)]);
        if (atomic_load(&way) == CLOSES) {
            (void)shutdown(fd, SHUT_RDWR);
        }
    } else {
        say(fd, "+OK\r\n");
    }
}

static void
serve(int fd, bool first)
{
    redisReader *reader = redisReaderCreate();
    bool owes = false;
    char bytes[4096];
    ssize_t n;

    WP_ASSERT(reader != NULL);
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0) {
        void *words = NULL;

        WP_ASSERT(redisReaderFeed(reader, bytes, (size_t)n) == REDIS_OK);
        while (redisReaderGetReply(reader, &words) == REDIS_OK &&
               words != NULL) {
            answer(fd, words, first, &owes);
            freeReplyObject(words);
        }
    }
    redisReaderFree(reader);
    (void)close(fd);
}

static void *
run(void *arg)
{
    struct server *server = arg;
    int fd;

    while ((fd = accept(server->fd, NULL, NULL)) >= 0) {
        bool first = atomic_fetch_add(&server->connections, 1) == 0;

        atomic_store(&server->connection, fd);
        serve(fd, first && first_is_late);
    }
    return NULL;
}

static void
start(struct server *server)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    memset(server, 0, sizeof *server);
    (void)snprintf(server->dir, sizeof server->dir, "/tmp/wp-link-XXXXXX");
    assert_non_null(mkdtemp(server->dir));
    (void)snprintf(server->path, sizeof server->path, "%s/s", server->dir);
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", server->path);
    server->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(server->fd >= 0);
    assert_int_equal(bind(server->fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(server->fd, 8), 0);
    assert_int_equal(pthread_create(&server->thread, NULL, run, server), 0);
}

static void
stop(struct server *server)
{
    (void)shutdown(server->fd, SHUT_RDWR);
    (void)pthread_join(server->thread, NULL);
    (void)close(server->fd);
    (void)unlink(server->path);
    (void)rmdir(server->dir);
}

static void
on_reply(void *ctx, uint32_t link, void *call, uint32_t tag,
         const struct wp_redis_reply *reply)
{
    (void)ctx;
    (void)link;
    (void)call;
    (void)tag;
    answered_by = pthread_self();
    atomic_store(&answered, reply->kind == WP_REPLY_NUMBER ? reply->number : 0);
    (void)atomic_fetch_add(&n_answered, 1);
}

static void
on_end(void *ctx, void *call, enum wp_status status)
{
    (void)ctx;
    (void)call;
    (void)status;
    answered_by = pthread_self();
    atomic_store(&answered, ENDED);
    (void)atomic_fetch_add(&n_answered, 1);
}

static void
patience(int *waits)
{
    assert_true((*waits)++ < PATIENCE_MS);
    (void)usleep(1000);
}

/* Sends the test's command once the link takes it. */
static void
send_test(struct wp_redis_links *links, bool flush)
{
    const struct wp_str word = WP_STR("TEST");
    int waits = 0;

    while (wp_redis_send(links, 0, &answered, 0, &word, 1, flush) !=
           WP_PENDING) {
        patience(&waits);
    }
}

static void
wait_for(uint32_t n)
{
    int waits = 0;

    while (atomic_load(&n_answered) < n) {
        patience(&waits);
    }
}

/* The answer to a command that its writer waits for if it may. */
static int64_t
ask_and_wait(struct wp_redis_links *links)
{
    uint32_t n = atomic_load(&n_answered);

    atomic_store(&waited, false);
    send_test(links, false);
    wp_redis_flush_and_wait(links, 0);
    atomic_store(&waited, true);
    wait_for(n + 1);
    return atomic_load(&answered);
}

/* Until an answer was read by its writer: on a busy machine some of them come
 * too late for it. */
static void
read_one_here(struct wp_redis_links *links)
{
    int waits = 0;

    while (ask_and_wait(links) != RIGHT ||
           !pthread_equal(answered_by, pthread_self())) {
        patience(&waits);
    }
}

static uint64_t
disconnects(struct wp_redis_links *links)
{
    struct wp_redis_stats stats;

    wp_redis_links_read_stats(links, &stats);
    return stats.disconnects;
}

struct world {
    struct server server;
    struct wp_redis_links *links;
};

static void
begin_within(struct world *world, int64_t timeout_ns)
{
    const struct wp_redis_hooks hooks = {.on_reply = on_reply,
                                         .on_end = on_end};
    struct wp_redis_config config = {.commit_timeout_ns = timeout_ns};
    struct wp_err err;

    atomic_store(&way, AT_ONCE);
    start(&world->server);
    (void)snprintf(config.server.path, sizeof config.server.path, "%s",
                   world->server.path);
    assert_int_equal(wp_redis_links_create(&config, &hooks, WP_STR("key"), 1,
                                           &world->links, &err),
                     WP_OK);
}

static void
begin(struct world *world)
{
    begin_within(world, 300 * WP_NS_PER_MS);
}

static void
end(struct world *world)
{
    wp_redis_links_destroy(world->links);
    stop(&world->server);
}

/* Nobody is there: each call is refused at once, and none of them waits for a
 * connection. */
static void
what_is_not_up_takes_no_call(void **state)
{
    const struct wp_redis_hooks hooks = {.on_reply = on_reply,
                                         .on_end = on_end};
    struct wp_redis_config config = {.commit_timeout_ns = 300000000};
    const struct wp_str word = WP_STR("TEST");
    uint32_t n = atomic_load(&n_answered);
    struct wp_redis_links *links;
    struct wp_redis_stats stats;
    struct wp_err err;

    (void)state;
    (void)snprintf(config.server.path, sizeof config.server.path,
                   "/nowhere/at/all");
    assert_int_equal(
        wp_redis_links_create(&config, &hooks, WP_STR("key"), 1, &links, &err),
        WP_OK);
    for (int i = 0; i < 20; i++) {
        assert_int_equal(
            wp_redis_send(links, 0, &answered, 0, &word, 1, i % 2 == 0),
            WP_UNAVAILABLE);
        (void)usleep(5000);
    }
    wp_redis_links_read_stats(links, &stats);
    assert_int_equal(stats.refused, 20);
    wp_redis_links_destroy(links);
    assert_int_equal(atomic_load(&n_answered), n);
}

static void
an_answer_that_came_too_late_is_nobodys(void **state)
{
    struct world world;
    int waits = 0;
    uint32_t n;

    (void)state;
    first_is_late = true;
    begin(&world);
    do { /* A busy machine may be too slow for some. */
        n = atomic_load(&n_answered);
        send_test(world.links, true);
        wait_for(n + 1);
    } while (atomic_load(&answered) == ENDED && waits++ < PATIENCE_MS);
    assert_int_equal(atomic_load(&answered), RIGHT);
    assert_true(atomic_load(&world.server.connections) >= 2);
    end(&world);
    first_is_late = false;
}

static void
a_writer_that_waits_reads_its_answer_itself(void **state)
{
    struct world world;

    (void)state;
    begin(&world);
    read_one_here(world.links);
    end(&world);
}

static void
the_reading_thread_reads_where_several_are_in_flight(void **state)
{
    struct world world;
    uint32_t n;

    (void)state;
    /* No answer is late, however busy the machine is. */
    begin_within(&world, PATIENCE_MS * WP_NS_PER_MS);
    read_one_here(world.links);
    n = atomic_load(&n_answered);
    send_test(world.links, false);
    send_test(world.links, false);
    wp_redis_flush_and_wait(world.links, 0);
    wait_for(n + 2);
    assert_false(pthread_equal(answered_by, pthread_self()));
    for (int i = 0; i < 8; i++) {
        assert_int_equal(ask_and_wait(world.links), RIGHT);
        assert_false(pthread_equal(answered_by, pthread_self()));
    }
    read_one_here(world.links);
    end(&world);
}

static void
what_does_not_come_in_time_is_left_to_the_reading_thread(void **state)
{
    struct world world;
    int waits = 0;

    (void)state;
    begin(&world);
    do { /* A busy machine may be too slow for some. */
        patience(&waits);
        atomic_store(&way, AT_ONCE);
        read_one_here(world.links);
        atomic_store(&way, LATE);
        (void)ask_and_wait(world.links);
    } while (atomic_load(&answered) == ENDED);
    assert_int_equal(atomic_load(&answered), RIGHT);
    assert_false(pthread_equal(answered_by, pthread_self()));
    atomic_store(&way, AT_ONCE);
    read_one_here(world.links);
    atomic_store(&way, NEVER);
    assert_int_equal(ask_and_wait(world.links), ENDED);
    assert_false(pthread_equal(answered_by, pthread_self()));
    atomic_store(&way, AT_ONCE);
    read_one_here(world.links);
    end(&world);
}

/* Whoever of the two reads it. */
static void
garbage_ends_the_connection(void **state)
{
    struct world world;

    (void)state;
    begin(&world);
    for (int i = 0; i < 20; i++) {
        read_one_here(world.links);
        atomic_store(&way, GARBAGE);
        assert_int_equal(ask_and_wait(world.links), ENDED);
        assert_false(pthread_equal(answered_by, pthread_self()));
        atomic_store(&way, AT_ONCE);
    }
    end(&world);
}

/* Else the answer to nothing would be taken for that to the next command. */
static void
an_answer_to_nothing_ends_the_connection(void **state)
{
    struct world world;
    uint64_t before;
    int waits = 0;
    uint32_t n;

    (void)state;
    begin(&world);
    read_one_here(world.links);
    before = disconnects(world.links);
    n = atomic_load(&n_answered);
    atomic_store(&way, TWICE);
    (void)ask_and_wait(world.links);
    while (disconnects(world.links) == before) {
        patience(&waits);
    }
    assert_int_equal(atomic_load(&n_answered), n + 1);
    atomic_store(&way, AT_ONCE);
    read_one_here(world.links);
    end(&world);
}

/* It is one answer whatever is in it, and the next one is the next command's. */
static void
an_odd_answer_is_no_number(void **state)
{
    struct world world;
    uint64_t before;
    int64_t odd;
    int64_t next;
    int waits = 0;

    (void)state;
    begin(&world);
    read_one_here(world.links);
    do { /* A busy machine may be too slow for some. */
        patience(&waits);
        before = disconnects(world.links);
        atomic_store(&way, ODD);
        odd = ask_and_wait(world.links);
        atomic_store(&way, AT_ONCE);
        next = ask_and_wait(world.links);
    } while (odd == ENDED || next == ENDED);
    assert_int_equal(odd, 0);
    assert_int_equal(next, RIGHT);
    assert_int_equal(disconnects(world.links), before);
    end(&world);
}

static void
an_end_is_heard_while_nothing_is_asked(void **state)
{
    struct world world;
    uint64_t before;
    int waits = 0;

    (void)state;
    begin(&world);
    read_one_here(world.links);
    before = disconnects(world.links);
    (void)shutdown(atomic_load(&world.server.connection), SHUT_WR);
    while (disconnects(world.links) == before) {
        patience(&waits);
    }
    end(&world);
}

static void
every_call_ends_once_however_the_connection_ends(void **state)
{
    struct world world;
    uint32_t first = atomic_load(&n_answered);
    uint32_t n = 0;

    (void)state;
    begin(&world);
    for (int i = 0; i < 2000; i++) {
        int alone = i % 3 != 0;

        atomic_store(&way, i % 40 == 39 ? CLOSES : AT_ONCE);
        send_test(world.links, !alone);
        if (alone) {
            wp_redis_flush_and_wait(world.links, 0);
        }
        n++;
        if (i % 40 == 39) {
            wait_for(first + n);
        }
    }
    wait_for(first + n);
    end(&world);
    assert_int_equal(atomic_load(&n_answered) - first, n);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_up_takes_no_call),
        cmocka_unit_test(an_answer_that_came_too_late_is_nobodys),
        cmocka_unit_test(a_writer_that_waits_reads_its_answer_itself),
        cmocka_unit_test(the_reading_thread_reads_where_several_are_in_flight),
        cmocka_unit_test(
            what_does_not_come_in_time_is_left_to_the_reading_thread),
        cmocka_unit_test(garbage_ends_the_connection),
        cmocka_unit_test(an_answer_to_nothing_ends_the_connection),
        cmocka_unit_test(an_odd_answer_is_no_number),
        cmocka_unit_test(an_end_is_heard_while_nothing_is_asked),
        cmocka_unit_test(every_call_ends_once_however_the_connection_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
