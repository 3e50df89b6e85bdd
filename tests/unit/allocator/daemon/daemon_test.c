/* tests/unit/allocator/daemon/daemon_test.c - the order in which the daemon's
 * parts are made, started, stopped and destroyed, what each is given, and what
 * main does meanwhile. Every part is the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <string.h>

#include "allocator/daemon/daemon.h"
#include "pool/base/clock.h"
#include "tests/unit/allocator/daemon/daemon_parts.h"
#include "tests/unit/allocator/daemon/journal.h"

static void
use(int backend, int store)
{
    static char texts[][32] = {"/run/w", "/var/w", "https://issuer",
                               "",       "secret", "http://otlp"};

    memset(&conf, 0, sizeof conf);
    journal_wipes = daemon_wipes;
    conf.backend = backend;
    conf.lease_store = store;
    conf.runtime_dir = texts[0];
    conf.state_dir = texts[1];
    conf.identity_issuer = texts[2];
    conf.identity_ttl = 61;
    conf.identity_key_rotation = 62;
    conf.identity_secret = texts[3];
    conf.otlp_endpoint = texts[3];
    conf.rpc_calls_max = 201;
    is_redis = store == WP_CONF_STORE_REDIS;
    is_durable = store != WP_CONF_STORE_MEMORY;
    if (backend == WP_CONF_BACKEND_KUBERNETES) {
        conf.identity_secret = texts[4];
        conf.otlp_endpoint = texts[5];
    }
}

/* From the first to the last; what failed is told. */
static void
live(void)
{
    struct wp_err err = {.msg = ""};
    struct wp_daemon *daemon = wp_daemon_create(&conf, 1, argv, &err);

    if (daemon == NULL) {
        journal("not created: %s: %s", wp_status_name(err.status), err.msg);
        return;
    }
    journal("- created");
    if (wp_daemon_start(daemon, &err) != WP_OK) {
        journal("not started: %s: %s", wp_status_name(err.status), err.msg);
    } else {
        journal("- started");
        journal("- ended: %d", wp_daemon_run(daemon));
    }
    wp_daemon_destroy(daemon);
    journal("- destroyed");
}

static void
test_local_daemon_without_a_lasting_store(void **state)
{
    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_MEMORY);
    journal_say("geteuid", 0);
    journal_say("key made", true);
    live();
    journal_is("daemon_memory");
}

static void
test_local_daemon_keeps_later_what_it_has_left(void **state)
{
    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_SQLITE);
    conf.rpc_waiting_max = 7;
    journal_say("geteuid", 1000);
    journal_say("has left", true);
    journal_say("leaves ready", true);
    live();
    journal_is("daemon_later");
}

static void
test_local_daemon_with_a_lasting_store_and_nothing_left(void **state)
{
    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_SQLITE);
    live();
    journal_is("daemon_sqlite");
}

static void
test_daemon_that_shares_a_directory_keeps_or_follows(void **state)
{
    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_REDIS);
    live();
    journal_say("follows", true);
    live();
    journal_is("daemon_shared");
}

static void
test_state_directory_may_have_the_longest_name(void **state)
{
    static char longest[WP_CONF_TEXT_MAX + 1];
    struct wp_err err;
    struct wp_daemon *daemon;

    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_MEMORY);
    memset(longest, 'd', sizeof longest - 1);
    conf.state_dir = longest;
    journal_say("geteuid", 1);
    journal_say("backend", WP_UNAVAILABLE);
    daemon = wp_daemon_create(&conf, 1, argv, &err);
    assert_null(daemon);
    journal_without(longest);
    journal_is("daemon_longest");
}

static void
test_daemon_of_a_cluster(void **state)
{
    (void)state;
    use(WP_CONF_BACKEND_KUBERNETES, WP_CONF_STORE_REDIS);
    live();
    conf.lease_store = WP_CONF_STORE_MEMORY;
    is_redis = false;
    conf.identity_secret[0] = '\0';
    live();
    conf.identity_secret[0] = 's';
    journal_is("daemon_cluster");
}

/* The n-th of these calls fails: what is undone after it. */
static void
break_at(const char *call, int n)
{
    journal("### %s, %d", call, n);
    for (int i = 1; i < n; i++) {
        journal_say(call, WP_OK);
    }
    journal_say(call, WP_UNAVAILABLE);
    journal_only_after_errors();
    live();
    journal_forget();
}

static void
test_what_was_made_is_destroyed_when_a_part_fails(void **state)
{
    static const struct {
        const char *call;
        int n;
    } local[] = {{"access_read", 1},  {"make_dir", 1},
                 {"make_dir", 2},     {"check_dir", 1},
                 {"check_dir", 2},    {"check_passable", 1},
                 {"lock_shared", 1},  {"wp_daemon_locks_join", 1},
                 {"access_token", 1}, {"manifests", 1},
                 {"signer", 1},       {"backend", 1},
                 {"backend_open", 1}, {"store", 1},
                 {"loop", 1},         {"loop", 2},
                 {"control", 1},      {"pools", 1},
                 {"restore", 1},      {"services", 1},
                 {"servers", 1}};
    static const char *const cluster[] = {"exporter", "wp_daemon_lock",
                                          "access_token", "cluster"};

    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_REDIS);
    for (size_t i = 0; i < WP_ARRAY_LEN(local); i++) {
        break_at(local[i].call, local[i].n);
    }
    use(WP_CONF_BACKEND_KUBERNETES, WP_CONF_STORE_REDIS);
    for (size_t i = 0; i < WP_ARRAY_LEN(cluster); i++) {
        break_at(cluster[i], 1);
    }
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_REDIS);
    journal_say("follows", true);
    break_at("wp_daemon_backend_probe", 1);
    journal_is("daemon_not_created");
}

static void
test_what_runs_is_stopped_when_a_part_does_not_start(void **state)
{
    static const struct {
        const char *call;
        int n;
    } local[] = {{"wp_daemon_redis_follow", 1},
                 {"keep", 1},
                 {"wp_loop_start", 1},
                 {"wp_loop_start", 2},
                 {"wp_daemon_servers_start", 1}};

    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_REDIS);
    for (size_t i = 0; i < WP_ARRAY_LEN(local); i++) {
        break_at(local[i].call, local[i].n);
    }
    journal_say("follows", true);
    break_at("follow", 1);
    journal_say("has left", true);
    break_at("keep_later", 1);
    use(WP_CONF_BACKEND_KUBERNETES, WP_CONF_STORE_MEMORY);
    break_at("cluster_start", 1);
    break_at("wp_exporter_start", 1);
    journal_is("daemon_not_started");
}

static void
test_turn_runs_all_and_tells_what_is_due_first(void **state)
{
    static const int64_t turns[][3] = {{5, 6, 7}, {6, 5, 7}, {7, 6, 5}};
    struct wp_err err;
    struct wp_daemon *daemon;

    (void)state;
    use(WP_CONF_BACKEND_KUBERNETES, WP_CONF_STORE_REDIS);
    daemon = wp_daemon_create(&conf, 1, argv, &err);
    assert_non_null(daemon);
    journal("- turns");
    for (size_t i = 0; i < WP_ARRAY_LEN(turns); i++) {
        journal_say("redis turn", turns[i][0]);
        journal_say("pools turn", turns[i][1]);
        journal_say("services turn", turns[i][2]);
        journal_say("wants flush", i != 1);
        journal_say("meter", i != 2);
        if (i == 2) {
            journal_forget();
            journal_say("meter", false);
            journal_say("redis turn", 7);
            journal_say("pools turn", 6);
            journal_say("services turn", 5);
        }
        journal("next at %lld", (long long)control.run(control.ctx));
    }
    is_redis = false;
    journal_say("pools turn", WP_TIME_NEVER);
    journal_say("services turn", WP_TIME_NEVER);
    journal("next never: %d", control.run(control.ctx) == WP_TIME_NEVER);
    wp_daemon_destroy(daemon);
    journal_is("daemon_turns");
}

static void
test_message_goes_to_the_control_thread(void **state)
{
    struct wp_err err;
    struct wp_daemon *daemon;
    const struct wp_message message = {
        .run = NULL, .ctx = journal_thing("a call"), .a = 3, .b = 4};

    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_MEMORY);
    daemon = wp_daemon_create(&conf, 1, argv, &err);
    assert_non_null(daemon);
    journal("- messages");
    journal("taken: %d", services.post(services.ctx, message));
    journal_say("posted", false);
    journal("taken: %d", services.post(services.ctx, message));
    wp_daemon_destroy(daemon);
    journal_is("daemon_posts");
}

/* A daemon that runs; only what main does then is looked at. */
static void
run_only(void)
{
    struct wp_err err;
    struct wp_daemon *daemon = wp_daemon_create(&conf, 1, argv, &err);

    assert_non_null(daemon);
    assert_int_equal(wp_daemon_start(daemon, &err), WP_OK);
    journal_empty();
    journal("clean: %d", wp_daemon_run(daemon));
    wp_daemon_destroy(daemon);
}

static void
test_signals_do_what_they_are_for(void **state)
{
    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_REDIS);
    journal_say("signal", SIGUSR1); /* Without a Drain. */
    journal_say("signal", SIGUSR1);
    journal_say("shaped", false);
    journal_say("shaped", true);
    journal_say("signal", SIGHUP);
    journal_say("signal", -1);
    journal_say("signal", SIGINT);
    run_only();
    journal_is("daemon_signals");
    journal_say("signal", SIGUSR1);
    journal_say("drain", true);
    journal_say("grace", 0);
    journal_say("leaves ready", true);
    run_only();
    journal_is("daemon_drain");
    journal_say("signal", SIGHUP); /* It is for the next one. */
    journal_say("signal", SIGUSR1);
    journal_say("drain", true);
    journal_say("grace", 77);
    journal_say("left cleanly", false);
    run_only();
    journal_is("daemon_drain_grace");
}

static void
test_stop_leaves_what_the_setting_says(void **state)
{
    static const int leaves[] = {WP_CONF_STOP_AUTO, WP_CONF_STOP_NOTHING,
                                 WP_CONF_STOP_LEASED, WP_CONF_STOP_ALL};

    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_SQLITE);
    for (size_t i = 0; i < WP_ARRAY_LEN(leaves); i++) {
        conf.stop_leaves = leaves[i];
        run_only();
        journal_is(i == 1 ? "daemon_stop_nothing" : "daemon_stop");
    }
}

static void
test_daemon_that_failed_does_not_end_well(void **state)
{
    (void)state;
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_MEMORY);
    journal_say("fails", true);
    run_only();
    journal_is("daemon_failed");
}

static void
test_names_of_pools_are_noted_where_they_change(void **state)
{
    (void)state;
    /* A follower does not. */
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_REDIS);
    journal_say("follows", true);
    journal_say("signal", SIGHUP);
    run_only();
    journal_is("daemon_notes_follower");
    /* Nor does a cluster's, though it leads. */
    use(WP_CONF_BACKEND_KUBERNETES, WP_CONF_STORE_REDIS);
    journal_say("leads", true);
    journal_say("signal", SIGHUP);
    run_only();
    journal_is("daemon_notes_cluster");
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_SQLITE);
    journal_say("signal", SIGHUP);
    run_only();
    journal_is("daemon_notes_sqlite");
    use(WP_CONF_BACKEND_LOCAL, WP_CONF_STORE_REDIS);
    journal_say("wp_daemon_redis_note_pools", WP_UNAVAILABLE);
    journal_say("signal", SIGHUP);
    run_only();
    journal_is("daemon_notes_failed");
}

static void
test_main_waits_for_five_signals(void **state)
{
    sigset_t set;

    (void)state;
    (void)sigfillset(&set);
    wp_daemon_signals(&set);
    for (int sig = 1; sig < SIGRTMIN; sig++) {
        if (sigismember(&set, sig) == 1) {
            journal("%s", sigabbrev_np(sig));
        }
    }
    journal_is("daemon_signal_set");
}

static void
test_no_memory_and_no_daemon(void **state)
{
    struct wp_err err = {.msg = ""};

    (void)state;
    journal_no_memory(1);
    assert_null(wp_daemon_create(&conf, 1, argv, &err));
    journal("%s: %s", wp_status_name(err.status), err.msg);
    wp_daemon_destroy(NULL);
    journal_is("daemon_no_memory");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_local_daemon_without_a_lasting_store,
                               journal_begin),
        cmocka_unit_test_setup(test_local_daemon_keeps_later_what_it_has_left,
                               journal_begin),
        cmocka_unit_test_setup(
            test_local_daemon_with_a_lasting_store_and_nothing_left,
            journal_begin),
        cmocka_unit_test_setup(
            test_daemon_that_shares_a_directory_keeps_or_follows,
            journal_begin),
        cmocka_unit_test_setup(test_state_directory_may_have_the_longest_name,
                               journal_begin),
        cmocka_unit_test_setup(test_daemon_of_a_cluster, journal_begin),
        cmocka_unit_test_setup(
            test_what_was_made_is_destroyed_when_a_part_fails, journal_begin),
        cmocka_unit_test_setup(
            test_what_runs_is_stopped_when_a_part_does_not_start,
            journal_begin),
        cmocka_unit_test_setup(test_turn_runs_all_and_tells_what_is_due_first,
                               journal_begin),
        cmocka_unit_test_setup(test_message_goes_to_the_control_thread,
                               journal_begin),
        cmocka_unit_test_setup(test_signals_do_what_they_are_for,
                               journal_begin),
        cmocka_unit_test_setup(test_stop_leaves_what_the_setting_says,
                               journal_begin),
        cmocka_unit_test_setup(test_daemon_that_failed_does_not_end_well,
                               journal_begin),
        cmocka_unit_test_setup(test_names_of_pools_are_noted_where_they_change,
                               journal_begin),
        cmocka_unit_test_setup(test_main_waits_for_five_signals, journal_begin),
        cmocka_unit_test_setup(test_no_memory_and_no_daemon, journal_begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
