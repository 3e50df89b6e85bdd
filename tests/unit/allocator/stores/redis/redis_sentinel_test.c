/* Sentinels that are wrong: they name what is no master, or what was one before
 * the last failover. Servers of the test's own answer as told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "allocator/stores/redis/topology/topology.h"
#include "pool/base/clock.h"

enum {
    CONNECTIONS_MAX = 16,
    WAIT_S = 120,
};

/* Answers as a sentinel and as a server. */
struct fake {
    pthread_t thread;
    int listener;
    uint16_t port;
    char id; /* Its run id is this, many times. */
    _Atomic(bool) stop;
    _Atomic(bool) master;
    _Atomic(int) epoch;
    _Atomic(uint16_t) names; /* Port of the master that it knows of. */
    _Atomic(uint16_t) then;  /* The same once it is followed; 0: as before. */
    _Atomic(int) follower;   /* Socket of who follows; -1: nobody. */
    struct pollfd fds[1 + CONNECTIONS_MAX];
    redisReader *readers[1 + CONNECTIONS_MAX];
};

static void
answer(struct fake *fake, int fd, const redisReply *command)
{
    bool sentinel = strcmp(command->element[0]->str, "SENTINEL") == 0;
    const char *verb = command->element[sentinel ? 1 : 0]->str;
    char out[256];
    char number[16];
    int n;

    if (strcmp(verb, "ROLE") == 0) {
        n = snprintf(out, sizeof out, "*1\r\n$6\r\n%s\r\n",
                     fake->master ? "master" : "slaves");
    } else if (strcmp(verb, "MASTER") == 0) {
        n = snprintf(out, sizeof out,
                     "*4\r\n$12\r\nconfig-epoch\r\n$1\r\n%d\r\n"
                     "$19\r\nnum-other-sentinels\r\n$1\r\n1\r\n",
                     fake->epoch);
    } else if (strcmp(verb, "GET-MASTER-ADDR-BY-NAME") == 0) {
        int digits = snprintf(number, sizeof number, "%u", fake->names);

        n = snprintf(out, sizeof out, "*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n",
                     digits, number);
    } else if (strcmp(verb, "MYID") == 0) {
        n = snprintf(out, sizeof out, "$3\r\n%c%c%c\r\n", fake->id, fake->id,
                     fake->id);
    } else if (strcmp(verb, "SUBSCRIBE") == 0) {
        fake->names = fake->then != 0 ? fake->then : fake->names;
        fake->follower = fd;
        n = snprintf(out, sizeof out,
                     "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    } else {
        n = snprintf(out, sizeof out, "*0\r\n");
    }
    (void)send(fd, out, (size_t)n, MSG_NOSIGNAL);
}

static void
hang_up(struct fake *fake, int i)
{
    (void)close(fake->fds[i].fd);
    redisReaderFree(fake->readers[i]);
    fake->fds[i].fd = -1;
}

static void
serve(struct fake *fake, int i)
{
    char bytes[1024];
    void *reply = NULL;
    ssize_t n = recv(fake->fds[i].fd, bytes, sizeof bytes, 0);

    if (n <= 0) {
        hang_up(fake, i);
        return;
    }
    (void)redisReaderFeed(fake->readers[i], bytes, (size_t)n);
    while (redisReaderGetReply(fake->readers[i], &reply) == REDIS_OK &&
           reply != NULL) {
        answer(fake, fake->fds[i].fd, reply);
        freeReplyObject(reply);
        reply = NULL;
    }
}

static void
welcome(struct fake *fake)
{
    int fd = accept(fake->listener, NULL, NULL);

    for (int i = 1; i <= CONNECTIONS_MAX; i++) {
        if (fake->fds[i].fd < 0) {
            fake->fds[i].fd = fd;
            fake->readers[i] = redisReaderCreate();
            return;
        }
    }
    (void)close(fd);
}

static void *
run(void *arg)
{
    struct fake *fake = arg;

    while (!fake->stop) {
        (void)poll(fake->fds, 1 + CONNECTIONS_MAX, 20);
        if (fake->fds[0].revents != 0) {
            welcome(fake);
        }
        for (int i = 1; i <= CONNECTIONS_MAX; i++) {
            if (fake->fds[i].fd >= 0 && fake->fds[i].revents != 0) {
                serve(fake, i);
            }
        }
    }
    for (int i = 1; i <= CONNECTIONS_MAX; i++) {
        if (fake->fds[i].fd >= 0) {
            hang_up(fake, i);
        }
    }
    return NULL;
}

static void
start(struct fake *fake, char id)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;

    memset(fake, 0, sizeof *fake);
    fake->id = id;
    fake->follower = -1;
    fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fake->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(fake->listener, 64), 0);
    assert_int_equal(
        getsockname(fake->listener, (struct sockaddr *)&address, &len), 0);
    fake->port = ntohs(address.sin_port);
    for (int i = 0; i <= CONNECTIONS_MAX; i++) {
        fake->fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    }
    fake->fds[0].fd = fake->listener;
    assert_int_equal(pthread_create(&fake->thread, NULL, run, fake), 0);
}

static void
finish(struct fake *fake)
{
    fake->stop = true;
    assert_int_equal(pthread_join(fake->thread, NULL), 0);
    (void)close(fake->listener);
}

/* Says that this master has moved, to who follows. */
static void
tell(const struct fake *fake, const char *master)
{
    char out[128];
    int n = snprintf(out, sizeof out,
                     "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n"
                     "$%zu\r\n%s old 1 new 2\r\n",
                     strlen(master) + strlen(" old 1 new 2"), master);

    assert_int_equal(send(fake->follower, out, (size_t)n, MSG_NOSIGNAL), n);
}

static struct wp_redis_topology *
follow_with(const struct fake *first, const struct fake *second,
            const struct wp_redis_topology_config *config)
{
    struct wp_redis_topology *topology;
    struct wp_redis_url url;
    char text[128];

    (void)snprintf(text, sizeof text,
                   "redis+sentinel://127.0.0.1:%u,127.0.0.1:%u/m", first->port,
                   second->port);
    assert_int_equal(wp_redis_url_parse(wp_str_from(text), &url, NULL), WP_OK);
    assert_int_equal(wp_redis_topology_create(&url, config, &topology, NULL),
                     WP_OK);
    return topology;
}

static struct wp_redis_topology *
follow(const struct fake *first, const struct fake *second)
{
    const struct wp_redis_topology_config config = {.poll_ns =
                                                        20 * WP_NS_PER_MS};

    return follow_with(first, second, &config);
}

/* 0: none is named. */
static uint16_t
named(struct wp_redis_topology *topology)
{
    struct wp_redis_server server = {.port = 0};

    return wp_redis_topology_lookup(topology, 0, &server, NULL) == WP_OK
               ? server.port
               : 0;
}

static void
wait_named(struct wp_redis_topology *topology, uint16_t port)
{
    int64_t until = wp_clock_mono_ns(wp_clock_system()) + WAIT_S * WP_NS_PER_S;

    while (named(topology) != port) {
        assert_true(wp_clock_mono_ns(wp_clock_system()) < until);
        (void)usleep(1000);
    }
}

static uint64_t
looks(struct wp_redis_topology *topology)
{
    struct wp_redis_topology_stats stats;

    wp_redis_topology_read_stats(topology, &stats);
    return stats.looks;
}

static void
wait_looks(struct wp_redis_topology *topology, uint64_t n)
{
    int64_t until = wp_clock_mono_ns(wp_clock_system()) + WAIT_S * WP_NS_PER_S;
    uint64_t first = looks(topology);

    while (looks(topology) < first + n) {
        assert_true(wp_clock_mono_ns(wp_clock_system()) < until);
        (void)usleep(1000);
    }
}

/* What is named must say itself that it is a master. */
static void
test_role(void **state)
{
    static struct fake sentinel;
    static struct fake server;
    struct wp_redis_topology *topology;
    struct wp_redis_server ignored;
    struct wp_err err = {.msg = ""};

    (void)state;
    start(&sentinel, 's');
    start(&server, 'm');
    sentinel.names = server.port;
    topology = follow(&sentinel, &sentinel);
    wait_looks(topology, 3);
    assert_int_equal(wp_redis_topology_lookup(topology, 0, &ignored, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "no master"));
    server.master = true;
    wait_named(topology, server.port);
    /* It ceases to be one, and somebody noticed. */
    server.master = false;
    wp_redis_topology_failed(topology, NULL);
    wait_looks(topology, 3);
    assert_int_equal(named(topology), 0);
    wp_redis_topology_destroy(topology);
    finish(&sentinel);
    finish(&server);
}

/* A sentinel that has missed a failover names the old master, which is back and
 * believes in itself: it is not used while another sentinel knows better; but
 * when all of them say so, they were set up anew. */
static void
test_older_epoch(void **state)
{
    static struct fake first;
    static struct fake second;
    static struct fake before;
    static struct fake after;
    struct wp_redis_topology *topology;

    (void)state;
    start(&first, '1');
    start(&second, '2');
    start(&before, 'b');
    start(&after, 'a');
    before.master = true;
    after.master = true;
    first.names = after.port;
    first.epoch = 5;
    second.names = before.port;
    second.epoch = 4;
    topology = follow(&first, &second);
    wait_named(topology, after.port);
    /* The one that is asked first is now the one that has forgotten. */
    first.names = before.port;
    first.epoch = 4;
    second.names = after.port;
    second.epoch = 5;
    for (int i = 0; i < 5; i++) {
        wp_redis_topology_failed(topology, NULL);
        wait_looks(topology, 1);
        assert_int_not_equal(named(topology), before.port);
    }
    wait_named(topology, after.port);
    second.names = before.port;
    second.epoch = 4;
    wp_redis_topology_failed(topology, NULL);
    wait_named(topology, before.port);
    wp_redis_topology_destroy(topology);
    finish(&first);
    finish(&second);
    finish(&before);
    finish(&after);
}

/* Nobody waits for the next look: not for a failover that came between the
 * sentinel's answer and its being followed, nor for one that it tells. */
static void
test_is_told(void **state)
{
    static struct fake sentinel;
    static struct fake before;
    static struct fake after;
    const struct wp_redis_topology_config never = {
        .poll_ns = 10 * WAIT_S * WP_NS_PER_S,
        .recheck_ns = 10 * WAIT_S * WP_NS_PER_S};
    struct wp_redis_topology *topology;

    (void)state;
    start(&sentinel, 's');
    start(&before, 'b');
    start(&after, 'a');
    before.master = true;
    after.master = true;
    sentinel.names = before.port;
    sentinel.then = after.port;
    topology = follow_with(&sentinel, &sentinel, &never);
    wait_named(topology, after.port);
    sentinel.names = before.port;
    tell(&sentinel, "mm");
    tell(&sentinel, "n");
    (void)usleep(50 * 1000);
    assert_int_equal(looks(topology), 2);
    tell(&sentinel, "m");
    wait_named(topology, before.port);
    wp_redis_topology_destroy(topology);
    finish(&sentinel);
    finish(&before);
    finish(&after);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_role),
        cmocka_unit_test(test_older_epoch),
        cmocka_unit_test(test_is_told),
    };

    return cmocka_run_group_tests_name("redis_sentinel", tests, NULL, NULL);
}
