/* tests/unit/allocator/stores/redis/redis_login_test.c - all that a server is
 * asked before a connection is used, word by word, and what is said of a server
 * that answers otherwise. */
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

#include <hiredis/hiredis.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "allocator/stores/redis/link/link.h"
#include "allocator/stores/redis/link/scripts.h"
#include "allocator/stores/redis/link/sync.h"
#include "pool/base/assert.h"
#include "pool/base/clock.h"

#define RUN_ID "0123456789abcdef0123456789abcdef01234567"
#define SCRIPTS "SCRIPT LOAD 0\nSCRIPT LOAD 1\nSCRIPT LOAD 2\n"
#define NAMED "CLIENT SETNAME warmpoold\n"
#define INFO "INFO server\n"

enum {
    PATIENCE_MS = 60000,
    HEARD_MAX = 8192,
};

/* Serves one connection after the other. */
static struct {
    char dir[32];
    char path[64];
    int listener;
    pthread_t thread;
    pthread_mutex_t lock;  /* Guards what follows. */
    char heard[HEARD_MAX]; /* Each command is a line. */
    int connection;
    uint32_t connections;
    /* A command that begins so is answered otherwise: "": with the end of the
     * connection. NULL: none is. */
    const char *odd, *odd_answer;
    const char *run_id;
    long long next_id; /* What CLIENT ID tells; each is 10 more. */
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void
write_down(const redisReply *words)
{
    size_t at = strlen(server.heard);

    for (size_t i = 0; i < words->elements; i++) {
        const char *word = words->element[i]->str;
        char number[8];

        for (unsigned k = 0; k < WP_SCRIPT_COUNT; k++) {
            if (wp_str_is(wp_redis_scripts[k].text, word)) {
                (void)snprintf(number, sizeof number, "%u", k);
                word = number;
            }
        }
        at += (size_t)snprintf(server.heard + at, HEARD_MAX - at, "%s%s", word,
                               i + 1 < words->elements ? " " : "\n");
    }
}

static bool
answer(int fd, const redisReply *words)
{
    char out[256] = "+OK\r\n";
    size_t before = strlen(server.heard);
    const char *line;
    bool go_on = true;

    write_down(words);
    line = server.heard + before;
    if (server.odd != NULL &&
        strncmp(line, server.odd, strlen(server.odd)) == 0) {
        (void)snprintf(out, sizeof out, "%s", server.odd_answer);
        go_on = out[0] != '\0';
    } else if (strncmp(line, "INFO", 4) == 0) {
        (void)snprintf(
            out, sizeof out, "$%zu\r\n# Server\r\nrun_id:%s\r\nx:1\r\n",
            strlen("# Server\r\nrun_id:\r\nx:1") + strlen(server.run_id),
            server.run_id);
    } else if (strncmp(line, "CLIENT ID", 9) == 0) {
        (void)snprintf(out, sizeof out, ":%lld\r\n", server.next_id);
        server.next_id += 10;
    }
    (void)send(fd, out, strlen(out), MSG_NOSIGNAL);
    return go_on;
}

static void
serve(int fd)
{
    redisReader *reader = redisReaderCreate();
    bool go_on = true;
    char bytes[4096];
    ssize_t n;

    WP_ASSERT(reader != NULL);
    while (go_on && (n = recv(fd, bytes, sizeof bytes, 0)) > 0) {
        void *words = NULL;

        WP_ASSERT(redisReaderFeed(reader, bytes, (size_t)n) == REDIS_OK);
        while (go_on && redisReaderGetReply(reader, &words) == REDIS_OK &&
               words != NULL) {
            (void)pthread_mutex_lock(&server.lock);
            go_on = answer(fd, words);
            (void)pthread_mutex_unlock(&server.lock);
            freeReplyObject(words);
        }
    }
    redisReaderFree(reader);
}

static void *
run(void *arg)
{
    int fd;

    (void)arg;
    while ((fd = accept(server.listener, NULL, NULL)) >= 0) {
        (void)pthread_mutex_lock(&server.lock);
        server.connection = fd;
        server.connections++;
        (void)pthread_mutex_unlock(&server.lock);
        serve(fd);
        (void)pthread_mutex_lock(&server.lock);
        server.connection = -1;
        (void)pthread_mutex_unlock(&server.lock);
        (void)close(fd);
    }
    return NULL;
}

static int
begin(void **state)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    (void)state;
    server.heard[0] = '\0';
    server.connection = -1;
    server.connections = 0;
    server.odd = NULL;
    server.run_id = RUN_ID;
    server.next_id = 41;
    (void)snprintf(server.dir, sizeof server.dir, "/tmp/wp-login-XXXXXX");
    assert_non_null(mkdtemp(server.dir));
    (void)snprintf(server.path, sizeof server.path, "%s/s", server.dir);
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", server.path);
    server.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(server.listener >= 0);
    assert_int_equal(bind(server.listener, (struct sockaddr *)&at, sizeof at),
                     0);
    assert_int_equal(listen(server.listener, 8), 0);
    assert_int_equal(pthread_create(&server.thread, NULL, run, NULL), 0);
    return 0;
}

static int
end(void **state)
{
    (void)state;
    (void)shutdown(server.listener, SHUT_RDWR);
    (void)pthread_mutex_lock(&server.lock);
    if (server.connection >= 0) { /* A test has failed. */
        (void)shutdown(server.connection, SHUT_RDWR);
    }
    (void)pthread_mutex_unlock(&server.lock);
    (void)pthread_join(server.thread, NULL);
    (void)close(server.listener);
    (void)unlink(server.path);
    (void)rmdir(server.dir);
    return 0;
}

static void
has_heard(const char *expected)
{
    char heard[HEARD_MAX];

    (void)pthread_mutex_lock(&server.lock);
    memcpy(heard, server.heard, sizeof heard);
    server.heard[0] = '\0';
    (void)pthread_mutex_unlock(&server.lock);
    assert_string_equal(heard, expected);
}

static struct wp_redis_config
config_of(const char *user, const char *password, int db, const char *name)
{
    struct wp_redis_config config = {.user = user,
                                     .password = password,
                                     .db = db,
                                     .client_name = name,
                                     .connect_timeout_ns = 60 * WP_NS_PER_S,
                                     .commit_timeout_ns = 60 * WP_NS_PER_S};

    (void)snprintf(config.server.path, sizeof config.server.path, "%s",
                   server.path);
    return wp_redis_config_complete(&config);
}

/* "": the connection can be used. */
static void
is_opened(const struct wp_redis_config *config, const char *why)
{
    char run_id[WP_REDIS_RUN_ID_MAX + 1] = "none";
    struct wp_redis_server found = {.port = 7};
    struct wp_redis_sync *sync = NULL;
    struct wp_err err = {.msg = ""};
    enum wp_status status =
        wp_redis_sync_open(config, WP_STR("key"), &sync, &found, run_id, &err);

    assert_int_equal(status, why[0] == '\0' ? WP_OK : WP_UNAVAILABLE);
    if (status == WP_OK) { /* err may tell of what does not matter. */
        assert_string_equal(run_id, server.run_id);
        assert_string_equal(found.path, server.path);
        assert_int_equal(found.port, 0);
        assert_false(wp_redis_sync_is_broken(sync));
        wp_redis_sync_close(sync);
    } else {
        assert_string_equal(err.msg, why);
        assert_null(sync);
        assert_int_equal(found.port, 7);
    }
}

static void
test_what_a_server_is_asked(void **state)
{
    static const struct {
        const char *user, *password;
        int db;
        const char *name;
        const char *heard;
    } rows[] = {
        {NULL, NULL, 0, NULL, NAMED SCRIPTS INFO},
        {"", "", -1, "", NAMED SCRIPTS INFO},
        {"", "secret", 1, "", "AUTH secret\nSELECT 1\n" NAMED SCRIPTS INFO},
        {"me", "secret", 12, "pool-1",
         "AUTH me secret\nSELECT 12\nCLIENT SETNAME pool-1\n" SCRIPTS INFO},
        {"me", "", 0, "x", "CLIENT SETNAME x\n" SCRIPTS INFO},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_redis_config config =
            config_of(rows[i].user, rows[i].password, rows[i].db, rows[i].name);

        is_opened(&config, "");
        has_heard(rows[i].heard);
    }
}

static void
test_what_lacks_is_complete(void **state)
{
    const struct wp_redis_config none = {.pending_max = 0};
    const struct wp_redis_config all = {.user = "u",
                                        .password = "p",
                                        .client_name = "n",
                                        .db = 3,
                                        .pending_max = 1,
                                        .connect_timeout_ns = 1,
                                        .commit_timeout_ns = 2,
                                        .backoff_min_ns = 3,
                                        .backoff_max_ns = 4};
    struct wp_redis_config seen = wp_redis_config_complete(&none);

    (void)state;
    assert_string_equal(seen.user, "");
    assert_string_equal(seen.password, "");
    assert_string_equal(seen.client_name, "warmpoold");
    assert_int_equal(seen.pending_max, 4096);
    assert_true(seen.connect_timeout_ns == WP_NS_PER_S);
    assert_true(seen.commit_timeout_ns == WP_NS_PER_S);
    assert_true(seen.backoff_min_ns == 20 * WP_NS_PER_MS);
    assert_true(seen.backoff_max_ns == 2 * WP_NS_PER_S);
    seen = wp_redis_config_complete(&all);
    assert_memory_equal(&seen, &all, sizeof all);
}

static void
test_what_is_said_of_a_server(void **state)
{
    static const struct {
        const char *odd, *answer, *why;
    } rows[] = {
        {"AUTH", "-ERR no\r\n", "redis: AUTH: ERR no"},
        {"AUTH", "", "redis: AUTH: closed by the other side"},
        {"SELECT", "-ERR no\r\n", "redis: SELECT: ERR no"},
        {"SELECT", "", "redis: SELECT: closed by the other side"},
        {"CLIENT SETNAME", "-NOPERM no\r\n", ""},
        {"CLIENT SETNAME", "", "redis: CLIENT: closed by the other side"},
        {"CLIENT SETNAME", "?\r\n",
         "redis: CLIENT: the answer is not what Redis says"},
        {"SCRIPT LOAD 0", "-NOPERM no\r\n", "redis: SCRIPT: NOPERM no"},
        {"SCRIPT LOAD 2", "-NOPERM no\r\n", "redis: SCRIPT: NOPERM no"},
        {"INFO", "-NOPERM no\r\n", "redis: INFO: NOPERM no"},
        {"INFO", "", "redis: INFO: closed by the other side"},
        {"INFO", "+OK\r\n", "redis: INFO: it does not tell its run_id"},
        {"INFO", "$8\r\nrun_id:a\r\n",
         "redis: INFO: it does not tell its run_id"},
        {"INFO", "$12\r\n\r\nrun_id:\r\na\r\n",
         "redis: INFO: it does not tell its run_id"},
    };
    const struct wp_redis_config config = config_of("", "secret", 1, "");

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        (void)pthread_mutex_lock(&server.lock);
        server.odd = rows[i].odd;
        server.odd_answer = rows[i].answer;
        (void)pthread_mutex_unlock(&server.lock);
        is_opened(&config, rows[i].why);
    }
}

static void
test_how_long_a_run_id_is(void **state)
{
    static const char *const told[] = {"a", RUN_ID "x"};
    const struct wp_redis_config config = config_of("", "", 0, "");

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(told); i++) {
        char run_id[WP_REDIS_RUN_ID_MAX + 1];
        struct wp_redis_sync *sync;
        struct wp_err err;

        memset(run_id, '?', sizeof run_id);
        (void)pthread_mutex_lock(&server.lock);
        server.run_id = told[i];
        (void)pthread_mutex_unlock(&server.lock);
        assert_int_equal(wp_redis_sync_open(&config, WP_STR("key"), &sync, NULL,
                                            run_id, &err),
                         WP_OK);
        assert_string_equal(run_id, i == 0 ? "a" : RUN_ID);
        wp_redis_sync_close(sync);
        assert_int_equal(
            wp_redis_sync_open(&config, WP_STR("key"), &sync, NULL, NULL, &err),
            WP_OK);
        wp_redis_sync_close(sync);
    }
}

static void
test_how_a_server_is_called(void **state)
{
    char text[WP_REDIS_HOST_MAX + 16];
    struct wp_redis_config config = config_of("", "", 0, "");
    struct wp_redis_server at = {.host = "redis-1.example", .port = 6379};
    char expected[200];

    (void)state;
    assert_string_equal(wp_redis_server_text(&at, text),
                        "redis-1.example:6379");
    memset(at.host, 'h', WP_REDIS_HOST_MAX);
    at.port = 65535;
    assert_int_equal(strlen(wp_redis_server_text(&at, text)),
                     WP_REDIS_HOST_MAX + 6);
    (void)snprintf(expected, sizeof expected, "unix:%s", server.path);
    assert_string_equal(wp_redis_server_text(&config.server, text), expected);
    (void)snprintf(config.server.path, sizeof config.server.path, "%s/none",
                   server.dir);
    (void)snprintf(expected, sizeof expected,
                   "redis: unix:%s/none: connect: No such file or directory",
                   server.dir);
    is_opened(&config, expected);
}

/* ---------------------------------------------------------- one connection
 * after the other */

static char told[256]; /* By on_server; the connecting thread's until joined. */

static void
on_server(void *ctx, const char *run_id)
{
    size_t at = strlen(told);

    (void)ctx;
    (void)snprintf(told + at, sizeof told - at, "%s ", run_id);
}

static void
on_reply(void *ctx, uint32_t link, void *call, uint32_t tag,
         const struct wp_redis_reply *reply)
{
    (void)ctx;
    (void)link;
    (void)call;
    (void)tag;
    (void)reply;
}

static void
on_end(void *ctx, void *call, enum wp_status status)
{
    (void)ctx;
    (void)call;
    (void)status;
}

/* The connection of that number is up. */
static struct wp_redis_stats
wait_for_connection(struct wp_redis_links *links, uint64_t number)
{
    struct wp_redis_stats stats;
    int waits = 0;

    do {
        assert_true(waits++ < PATIENCE_MS);
        (void)usleep(1000);
        wp_redis_links_read_stats(links, &stats);
    } while (stats.connects < number || stats.links_up == 0);
    return stats;
}

/* The server answers otherwise from now on, and hangs up. */
static void
go_on_otherwise(const char *odd, const char *odd_answer, const char *run_id)
{
    (void)pthread_mutex_lock(&server.lock);
    server.heard[0] = '\0';
    server.odd = odd;
    server.odd_answer = odd_answer;
    server.run_id = run_id;
    (void)shutdown(server.connection, SHUT_RDWR);
    (void)pthread_mutex_unlock(&server.lock);
}

/* What the former connection had under way is over before the next is used;
 * numbers of another process's connections are nobody's. */
static void
test_the_former_connection_is_ended(void **state)
{
    const struct wp_redis_hooks hooks = {
        .on_reply = on_reply, .on_end = on_end, .on_server = on_server};
    const struct wp_redis_config config = config_of("", "", 0, "");
    struct wp_redis_links *links;
    struct wp_redis_stats stats;
    struct wp_err err;

    (void)state;
    told[0] = '\0';
    assert_int_equal(
        wp_redis_links_create(&config, &hooks, WP_STR("key"), 1, &links, &err),
        WP_OK);
    stats = wait_for_connection(links, 1);
    assert_int_equal(stats.links, 1);
    assert_int_equal(stats.disconnects, 0);
    assert_int_equal(stats.connect_failures, 0);
    assert_false(stats.breaker_open);
    has_heard(NAMED SCRIPTS INFO "CLIENT ID\n");
    go_on_otherwise(NULL, NULL, RUN_ID);
    stats = wait_for_connection(links, 2);
    assert_int_equal(stats.disconnects, 1);
    has_heard(NAMED SCRIPTS INFO "CLIENT KILL ID 41\nCLIENT ID\n");
    /* Without the right to, it goes on. */
    go_on_otherwise("CLIENT KILL", "-NOPERM no\r\n", RUN_ID);
    (void)wait_for_connection(links, 3);
    has_heard(NAMED SCRIPTS INFO "CLIENT KILL ID 51\nCLIENT ID\n");
    go_on_otherwise("CLIENT ID", "-NOPERM no\r\n", RUN_ID);
    (void)wait_for_connection(links, 4);
    has_heard(NAMED SCRIPTS INFO "CLIENT KILL ID 61\nCLIENT ID\n");
    go_on_otherwise(NULL, NULL, RUN_ID);
    (void)wait_for_connection(links, 5);
    has_heard(NAMED SCRIPTS INFO "CLIENT ID\n");
    go_on_otherwise(NULL, NULL, "another");
    stats = wait_for_connection(links, 6);
    wp_redis_links_stop(links);
    assert_string_equal(told, RUN_ID " another ");
    assert_int_equal(stats.connect_failures, 0);
    assert_int_equal(stats.timeouts, 0);
    assert_int_equal(stats.unknown, 0);
    wp_redis_links_destroy(links);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_a_server_is_asked, begin,
                                        end),
        cmocka_unit_test(test_what_lacks_is_complete),
        cmocka_unit_test_setup_teardown(test_what_is_said_of_a_server, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_how_long_a_run_id_is, begin, end),
        cmocka_unit_test_setup_teardown(test_how_a_server_is_called, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_the_former_connection_is_ended,
                                        begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
