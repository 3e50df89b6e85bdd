/* Links to a server that is slow to say what they ask before their use. */
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

#include "allocator/redis_link.h"
#include "pool/base/assert.h"

enum {
    PATIENCE_MS = 60000,
    RIGHT = 3,   /* What the server answers to the test's command. */
    ENDED = 100, /* There was no answer. */
};

struct server {
    char dir[32];
    char path[64];
    int fd;
    pthread_t thread;
    _Atomic(uint32_t) connections;
};

static _Atomic(int64_t) answered = -1;

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
        say(fd, ":3\r\n");
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
        serve(fd, atomic_fetch_add(&server->connections, 1) == 0);
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
    atomic_store(&answered, reply->kind == WP_REPLY_NUMBER ? reply->number : 0);
}

static void
on_end(void *ctx, void *call, enum wp_status status)
{
    (void)ctx;
    (void)call;
    (void)status;
    atomic_store(&answered, ENDED);
}

/* What the server answers to the test's command; a busy machine may be too slow
 * for some of them. */
static int64_t
ask(struct wp_redis_links *links)
{
    const struct wp_str word = WP_STR("TEST");
    int waits = 0;

    do {
        atomic_store(&answered, -1);
        while (wp_redis_send(links, 0, &answered, 0, &word, 1, true) !=
                   WP_PENDING &&
               waits++ < PATIENCE_MS) {
            (void)usleep(1000);
        }
        while (atomic_load(&answered) == -1 && waits++ < PATIENCE_MS) {
            (void)usleep(1000);
        }
    } while (atomic_load(&answered) == ENDED && waits < PATIENCE_MS);
    return atomic_load(&answered);
}

static void
an_answer_that_came_too_late_is_nobodys(void **state)
{
    const struct wp_redis_hooks hooks = {.on_reply = on_reply,
                                         .on_end = on_end};
    struct wp_redis_config config = {.commit_timeout_ns = 300000000};
    struct wp_redis_links *links = NULL;
    struct server server;
    struct wp_err err;

    (void)state;
    start(&server);
    (void)snprintf(config.server.path, sizeof config.server.path, "%s",
                   server.path);
    assert_int_equal(
        wp_redis_links_create(&config, &hooks, WP_STR("key"), 1, &links, &err),
        WP_OK);
    assert_int_equal(ask(links), RIGHT);
    assert_true(atomic_load(&server.connections) >= 2);
    wp_redis_links_destroy(links);
    stop(&server);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_that_came_too_late_is_nobodys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
