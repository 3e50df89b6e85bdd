/* Slots of keys, and the answers of a cluster's servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "allocator/stores/redis/topology/topology_impl.h"

/* What Redis itself answers to CLUSTER KEYSLOT. */
static void
test_slots(void **state)
{
    static const struct {
        const char *key;
        uint16_t slot;
    } cases[] = {
        {"", 0},
        {"123456789", 12739},
        {"foo", 12182},
        {"{user1000}.following", 3443},
        {"{user1000}.followers", 3443},
        {"foo{}{bar}", 8363},
        {"foo{{bar}}zap", 4015},
        {"foo{bar}{zap}", 5061},
        {"bar", 5061},
        {"warmpool:{default/agents}", 12805},
        {"default/agents", 12805},
        {"a{b", 13340},
        {"a}b{c}", 7365},
        {"{}", 15257},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(wp_redis_slot(wp_str_from(cases[i].key)),
                         cases[i].slot);
    }
}

static void
test_redirects(void **state)
{
    static const struct {
        const char *text;
        bool ask;
        uint16_t slot;
        const char *host;
        uint16_t port;
    } cases[] = {
        {"MOVED 3999 127.0.0.1:6381", false, 3999, "127.0.0.1", 6381},
        {"ASK 16383 redis-1.example:1", true, 16383, "redis-1.example", 1},
        {"MOVED 0 :6381", false, 0, "", 6381},
        {"MOVED 1 ::1:6381", false, 1, "::1", 6381},
        {"MOVED 1 fe80::1%eth0:65535", false, 1, "fe80::1%eth0", 65535},
        {"ASK 1 [::1]:6381", true, 1, "::1", 6381},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wp_redis_redirect found;

        assert_true(
            wp_redis_redirect_parse(wp_str_from(cases[i].text), &found));
        assert_int_equal(found.ask, cases[i].ask);
        assert_int_equal(found.slot, cases[i].slot);
        assert_string_equal(found.server.host, cases[i].host);
        assert_int_equal(found.server.port, cases[i].port);
        assert_string_equal(found.server.path, "");
    }
}

static void
test_no_redirects(void **state)
{
    static const char *const cases[] = {
        "",
        "MOVED",
        "MOVED ",
        "MOVED 1",
        "MOVED 1 ",
        "MOVED 1 h",
        "MOVED 1 h:",
        "MOVED 1 h:0",
        "MOVED 1 h:65536",
        "MOVED 1 h:-1",
        "MOVED 16384 h:1",
        "MOVED -1 h:1",
        "MOVED x h:1",
        "MOVED 1 ?:1",
        "MOVED 1 h:1 more",
        "MOVED  1 h:1",
        "moved 1 h:1",
        "-MOVED 1 h:1",
        "ASKING 1 h:1",
        "MOVED 1 h\x01:1",
        "READONLY You can't write against a read only replica.",
        "CLUSTERDOWN The cluster is down",
        "TRYAGAIN 1 h:1",
    };
    char text[400];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wp_redis_redirect found;

        if (wp_redis_redirect_parse(wp_str_from(cases[i]), &found)) {
            fail_msg("%s", cases[i]);
        }
    }
    for (int len = 255; len <= 256; len++) {
        struct wp_redis_redirect found;

        (void)snprintf(text, sizeof text, "MOVED 1 %0*d:1", len, 1);
        assert_int_equal(wp_redis_redirect_parse(wp_str_from(text), &found),
                         len <= WP_REDIS_HOST_MAX);
    }
}

static enum wp_status
read_map(const char *wire, struct wp_redis_slot_map *map)
{
    const struct wp_redis_server asked = {.host = "asked", .port = 9};
    redisReader *reader = redisReaderCreate();
    struct wp_err err = {.msg = ""};
    void *reply = NULL;
    enum wp_status status;

    assert_int_equal(redisReaderFeed(reader, wire, strlen(wire)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    status = wp_redis_slot_map_read(reply, &asked, map, &err);
    assert_true((status == WP_OK) == (err.msg[0] == '\0'));
    freeReplyObject(reply);
    redisReaderFree(reader);
    return status;
}

/* Nodes by address, by name with the extras of Redis 7, by nothing (the one
 * that was asked), and one that cannot be reached. */
static void
test_slot_map(void **state)
{
    static struct wp_redis_slot_map map;

    (void)state;
    assert_int_equal(
        read_map("*5\r\n"
                 "*3\r\n:0\r\n:99\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n"
                 "*4\r\n:200\r\n:299\r\n"
                 "*4\r\n$3\r\n::1\r\n:7001\r\n$2\r\nid\r\n*0\r\n"
                 "*2\r\n$1\r\nr\r\n:1\r\n"
                 "*3\r\n:300\r\n:300\r\n*2\r\n$-1\r\n:7002\r\n"
                 "*3\r\n:301\r\n:301\r\n*2\r\n$1\r\n?\r\n:7003\r\n"
                 "*3\r\n:16383\r\n:16383\r\n"
                 "*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n",
                 &map),
        WP_OK);
    assert_int_equal(map.n_nodes, 3);
    assert_int_equal(map.owner[0], 0);
    assert_int_equal(map.owner[99], 0);
    assert_int_equal(map.owner[100], WP_REDIS_NO_NODE);
    assert_int_equal(map.owner[200], 1);
    assert_int_equal(map.owner[300], 2);
    assert_int_equal(map.owner[301], WP_REDIS_NO_NODE);
    assert_int_equal(map.owner[16383], 0);
    for (uint32_t slot = 0; slot < WP_REDIS_SLOTS; slot++) {
        uint16_t expected = slot < 100 || slot == 16383 ? 0
                            : slot >= 200 && slot < 300 ? 1
                            : slot == 300               ? 2
                                                        : WP_REDIS_NO_NODE;

        assert_int_equal(map.owner[slot], expected);
    }
    assert_string_equal(map.nodes[0].host, "127.0.0.1");
    assert_int_equal(map.nodes[0].port, 7000);
    assert_int_equal(map.nodes[1].port, 7001);
    assert_string_equal(map.nodes[1].host, "::1");
    assert_string_equal(map.nodes[2].host, "asked");
    assert_int_equal(map.nodes[2].port, 7002);
}

/* Whom a client cannot reach by what is told has no slots. */
static void
test_who_can_be_reached(void **state)
{
    static const struct {
        const char *node;
        const char *host; /* NULL: nobody. */
        uint16_t port;
    } rows[] = {
        {"*2\r\n$1\r\nh\r\n:1\r\n", "h", 1},
        {"*2\r\n$1\r\nh\r\n:65535\r\n", "h", 65535},
        {"*2\r\n$0\r\n\r\n:7\r\n", "asked", 7},
        {"*2\r\n$-1\r\n:7\r\n", "asked", 7},
        {"*2\r\n$1\r\nh\r\n:0\r\n", NULL, 0},
        {"*2\r\n$1\r\nh\r\n:65536\r\n", NULL, 0},
        {"*2\r\n$1\r\nh\r\n$1\r\n7\r\n", NULL, 0},
        {"*2\r\n$1\r\n?\r\n:7\r\n", NULL, 0},
        {"*2\r\n$1\r\n\x01\r\n:7\r\n", NULL, 0},
        {"*2\r\n+h\r\n:7\r\n", NULL, 0},
        {"*2\r\n:1\r\n:7\r\n", NULL, 0},
        {"*1\r\n$1\r\nh\r\n", NULL, 0},
        {"$1\r\nh\r\n", NULL, 0},
    };
    static struct wp_redis_slot_map map;
    char wire[128];

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)snprintf(wire, sizeof wire, "*1\r\n*3\r\n:3\r\n:3\r\n%s",
                       rows[i].node);
        assert_int_equal(read_map(wire, &map), WP_OK);
        assert_int_equal(map.n_nodes, rows[i].host != NULL);
        assert_int_equal(map.owner[3],
                         rows[i].host != NULL ? 0 : WP_REDIS_NO_NODE);
        if (rows[i].host != NULL) {
            assert_string_equal(map.nodes[0].host, rows[i].host);
            assert_int_equal(map.nodes[0].port, rows[i].port);
            assert_string_equal(map.nodes[0].path, "");
        }
    }
}

static void
test_no_slot_map(void **state)
{
    static struct wp_redis_slot_map map;
    static const char *const cases[] = {
        "*0\r\n",
        "+OK\r\n",
        "$-1\r\n",
        "*1\r\n:1\r\n",
        "*1\r\n*2\r\n:0\r\n:1\r\n",
        "*1\r\n*3\r\n:-1\r\n:1\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n$1\r\n1\r\n*2\r\n$1\r\nh\r\n:1\r\n",
    };
    static char wire[16384];
    int n;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(read_map(cases[i], &map), WP_UNAVAILABLE);
    }
    for (int nodes = WP_REDIS_NODES_MAX; nodes <= WP_REDIS_NODES_MAX + 1;
         nodes++) {
        n = snprintf(wire, sizeof wire, "*%d\r\n", nodes);
        for (int i = 0; i < nodes; i++) {
            n += snprintf(wire + n, sizeof wire - (size_t)n,
                          "*3\r\n:%d\r\n:%d\r\n*2\r\n$1\r\nh\r\n:%d\r\n", i, i,
                          i + 1);
        }
        assert_int_equal(read_map(wire, &map),
                         nodes == WP_REDIS_NODES_MAX ? WP_OK : WP_UNAVAILABLE);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots),
        cmocka_unit_test(test_redirects),
        cmocka_unit_test(test_no_redirects),
        cmocka_unit_test(test_slot_map),
        cmocka_unit_test(test_no_slot_map),
        cmocka_unit_test(test_who_can_be_reached),
    };

    return cmocka_run_group_tests_name("redis_cluster", tests, NULL, NULL);
}
