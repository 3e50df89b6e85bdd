/* tests/unit/allocator/daemon/daemon_redis_test.c - leases in Redis, as the
 * daemon keeps them: how the store is made and followed, and what cannot be.
 * golden/ has each whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/allocator/daemon/redis_fakes.h"

static void
test_the_store_is_made_by_the_settings(void **state)
{
    static const char *const urls[] = {
        "",
        "redis_url: \"redis://ann:word@host:77/3\"\nredis_prefix: mine\n"
        "redis_timeout: 2s\nheartbeat_timeout: 6s\nrpc_threads: 3\n",
        "redis_url: \"unix:/run/redis\"\nrpc_threads: 62\n",
        "redis_url: \"rediss://host\"\nredis_tls_ca: /ca\n"
        "redis_tls_cert: /cert\nredis_tls_key: /key\nredis_tls_name: name\n"
        "rpc_threads: 64\n",
        "redis_url: \"redis+sentinel://s1,s2/master\"\n"
        "redis_password_file: /pass\nredis_sentinel_password_file: /other\n"
        "rpc_threads: 63\n",
        "redis_url: \"rediss+cluster://c1,c2,c3\"\n",
        "backend: kubernetes\n",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(urls); i++) {
        again(urls[i]);
        renew_conf(urls[i]);
        open_all();
        assert_ptr_equal(wp_daemon_redis_store(redis).self, &journal);
        wp_daemon_redis_close(redis);
    }
    redis = NULL;
    finish("settings");
}

static void
note(void)
{
    struct wp_err err;
    enum wp_status status;

    memset(&err, 0, sizeof err);
    status = wp_daemon_redis_note_pools(redis, &err);
    golden_add(&journal, "%s %s\n", wp_status_name(status),
               status != WP_OK ? err.msg : "");
}

static void
test_every_pool_that_may_have_leases_is_read(void **state)
{
    static char text[WP_CONF_TEXT_MAX + 16];

    (void)state;
    name(&specs[2], "b", "one");
    name(&specs[3], "a", "two");
    n_specs = 4;
    for (uint32_t i = 0; i < 3; i++) {
        (void)snprintf(known[i].pool_namespace, sizeof known[i].pool_namespace,
                       "%s", i == 0 ? "a" : "c");
        (void)snprintf(known[i].pool, sizeof known[i].pool, "%s",
                       i == 2 ? "three" : "one");
    }
    n_known = 3;
    open_all();
    wp_daemon_redis_close(redis);
    again("as many as there may be");
    for (uint32_t i = 0; i < WP_POOLS_MAX; i++) {
        (void)snprintf(known[i].pool_namespace, sizeof known[i].pool_namespace,
                       "d");
        (void)snprintf(known[i].pool, sizeof known[i].pool, "p%u", i);
    }
    n_known = WP_POOLS_MAX;
    open_all();
    wp_daemon_redis_close(redis);
    again("none");
    n_specs = 0;
    n_known = 0;
    open_all();
    again("the file cannot be read");
    n_specs = 1;
    known_status = WP_INTERNAL;
    open_all();
    again("the directory's name is as long as it may be");
    known_status = WP_OK;
    memset(text, 'd', sizeof text - 1);
    memcpy(text, "state_dir: /", 12);
    text[11 + WP_CONF_TEXT_MAX] = '\n';
    text[12 + WP_CONF_TEXT_MAX] = '\0';
    set(text);
    open_all();
    note();
    wp_daemon_redis_close(redis);
    again("none in a cluster");
    known_status = WP_OK;
    n_specs = 0;
    renew_conf("backend: kubernetes\n");
    open_all();
    finish("pools");
}

static void
test_what_cannot_be_made_is_said(void **state)
{
    static const char *const all[] = {
        "redis_password_file",
        "redis_sentinel_password_file",
        "tls",
        "recovery",
        "topology",
        "store",
    };
    struct wp_err err;
    int n;

    (void)state;
    renew_conf("redis_url: \"rediss+sentinel://s1/master\"\n"
               "redis_password_file: /p\nredis_sentinel_password_file: /q\n");
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        again(all[i]);
        fails = all[i];
        open_all();
        assert_null(redis);
        golden_add(&journal, "check: %s\n",
                   wp_status_name(wp_daemon_redis_check_login(conf, &err)));
    }
    fails = NULL;
    again("an empty password");
    renew_conf("redis_password_file: /\n");
    open_all();
    renew_conf("redis_sentinel_password_file: /\n"
               "redis_url: \"redis+sentinel://s1/master\"\n");
    open_all();
    again("a wrong address");
    renew_conf("redis_url: \"http://x\"\n");
    open_all();
    golden_add(&journal, "check: %s\n",
               wp_status_name(wp_daemon_redis_check_login(conf, &err)));
    set("lease_store: memory\n");
    assert_int_equal(wp_daemon_redis_check_login(conf, &err), WP_OK);
    renew_conf("");
    for (n = 0; redis == NULL; n++) {
        char title[32];

        (void)snprintf(title, sizeof title, "memory %d", n);
        again(title);
        allocs = n;
        open_all();
    }
    allocs = -1;
    finish("failures");
}

static void
test_followers_wait_for_their_links(void **state)
{
    static const char *const all[] = {"feed", "thread", ""};
    struct wp_err err;

    (void)state;
    core.keeper = true;
    open_all();
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        fails = all[i];
        links_down = 3;
        naps = 0;
        golden_add(&journal, "%s, %u naps\n",
                   wp_status_name(wp_daemon_redis_follow(redis, &err)), naps);
    }
    again("they do not come up");
    fails = NULL;
    links_down = UINT32_MAX;
    naps = 0;
    assert_int_equal(wp_daemon_redis_follow(redis, &err), WP_OK);
    assert_int_equal(naps, 1000);
    again("they are up");
    links_down = 0;
    naps = 0;
    assert_int_equal(wp_daemon_redis_follow(redis, &err), WP_OK);
    assert_int_equal(naps, 0);
    wp_daemon_redis_leave(redis);
    wp_daemon_redis_leave(NULL);
    wp_daemon_redis_quit(redis);
    wp_daemon_redis_quit(NULL);
    wp_daemon_redis_close(NULL);
    finish("follow");
}

static void
test_pools_are_noted_and_keepers_known(void **state)
{
    char host[4] = "?";

    (void)state;
    open_all();
    note();
    n_pools = 0;
    note();
    fails = "file";
    note();
    allocs = 0;
    note();
    allocs = -1;
    for (uint32_t i = 0; i < 3; i++) {
        (void)snprintf(peers[i].host, sizeof peers[i].host, "host-%u", i);
    }
    assert_false(wp_daemon_redis_other_keeper(redis, host, sizeof host));
    assert_int_equal(wp_daemon_redis_keepers(redis), 0);
    core.keeper = true;
    assert_int_equal(wp_daemon_redis_keepers(redis), 1);
    n_peers = 2;
    assert_false(wp_daemon_redis_other_keeper(redis, host, sizeof host));
    assert_string_equal(host, "?");
    peers[2].keeper = true;
    assert_false(wp_daemon_redis_other_keeper(redis, host, sizeof host));
    assert_int_equal(wp_daemon_redis_keepers(redis), 1);
    n_peers = 3;
    assert_true(wp_daemon_redis_other_keeper(redis, host, sizeof host));
    assert_string_equal(host, "hos");
    assert_int_equal(wp_daemon_redis_keepers(redis), 2);
    core.keeper = false;
    peers[0].keeper = true;
    assert_int_equal(wp_daemon_redis_keepers(redis), 2);
    /* There may be more than are told of. */
    n_peers = WP_PEERS_MAX + 1;
    assert_int_equal(wp_daemon_redis_keepers(redis), 2);
    peers[0].keeper = false;
    peers[2].keeper = false;
    assert_int_equal(wp_daemon_redis_keepers(redis), 0);
    assert_false(wp_daemon_redis_other_keeper(redis, host, sizeof host));
    peers[WP_PEERS_MAX - 1].keeper = true;
    assert_int_equal(wp_daemon_redis_keepers(redis), 1);
    assert_true(wp_daemon_redis_other_keeper(redis, host, sizeof host));
    finish("notes");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_store_is_made_by_the_settings),
        TEST(test_every_pool_that_may_have_leases_is_read),
        TEST(test_what_cannot_be_made_is_said),
        TEST(test_followers_wait_for_their_links),
        TEST(test_pools_are_noted_and_keepers_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
