/* The rig itself: servers that fail over and share slots as its users need. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/stores/redis_rig.h"

static void
test_restart(void **state)
{
    struct redis_rig rig;
    uint32_t i;

    (void)state;
    redis_rig_init(&rig);
    rig.password = "sesame";
    i = redis_rig_start(&rig, "appendonly yes\nappendfsync always\n");
    (void)redis_rig_must(&rig, i, "SET a %s", "b c");
    redis_rig_kill(&rig, i, SIGKILL);
    assert_null(redis_rig_ask(&rig, i, "GET a"));
    redis_rig_restart(&rig, i);
    assert_string_equal(redis_rig_must(&rig, i, "GET a"), "b c");
    redis_rig_fini(&rig);
}

static void
test_failover(void **state)
{
    struct redis_rig rig;
    uint32_t master;
    uint32_t replica;

    (void)state;
    redis_rig_init(&rig);
    master = redis_rig_start(&rig, NULL);
    replica = redis_rig_start_replica(&rig, master);
    for (int i = 0; i < 3; i++) {
        (void)redis_rig_start_sentinel(&rig, master, "m", 2, 500);
    }
    redis_rig_wait_sentinels(&rig, "m", 3, 1);
    assert_string_equal(redis_rig_role(&rig, replica), "slave");
    redis_rig_kill(&rig, master, SIGKILL);
    redis_rig_wait_for(&rig, replica, "ROLE", "master");
    redis_rig_restart(&rig, master);
    redis_rig_wait_for(&rig, master, "ROLE", "slave");
    redis_rig_fini(&rig);
}

static void
test_cluster(void **state)
{
    struct redis_rig rig;
    uint32_t first;
    char expected[64];

    (void)state;
    redis_rig_init(&rig);
    first = redis_rig_start_cluster(&rig, 3, 1, 1000);
    /* 12182 is foo's. */
    (void)redis_rig_must(&rig, first + 2, "SET foo bar");
    redis_rig_migrate_begin(&rig, 12182, first + 2, first);
    (void)snprintf(expected, sizeof expected, "-ASK 12182 127.0.0.1:%u",
                   rig.servers[first].port);
    assert_string_equal(redis_rig_must(&rig, first + 2, "GET foo"), "bar");
    assert_string_equal(redis_rig_ask(&rig, first + 2, "GET {foo}2"), expected);
    redis_rig_migrate_end(&rig, 12182, first + 2, first);
    (void)snprintf(expected, sizeof expected, "-MOVED 12182 127.0.0.1:%u",
                   rig.servers[first].port);
    assert_string_equal(redis_rig_ask(&rig, first + 2, "GET foo"), expected);
    assert_string_equal(redis_rig_must(&rig, first, "GET foo"), "bar");

    redis_rig_kill(&rig, first + 1, SIGKILL);
    redis_rig_wait_for(&rig, first + 4, "ROLE", "master");
    redis_rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_failover),
        cmocka_unit_test(test_cluster),
    };

    if (!redis_rig_available()) {
        return 77;
    }
    return cmocka_run_group_tests_name("redis_rig", tests, NULL, NULL);
}
