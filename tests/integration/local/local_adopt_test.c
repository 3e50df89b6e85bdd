/* tests/integration/local/local_adopt_test.c - sandboxes that outlive their daemon,
 * killed or told to leave, and are the next one's. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/backend_local.h"
#include "local/walls/cgroup.h"
#include "pool/base/clock.h"
#include "tests/support/local/adopt_rig.h"

/* Where sandbox index answers, for calls while no daemon runs. */
static void
know_endpoint(struct local_rig *rig, uint32_t index)
{
    char name[16];

    local_rig_name(index, name);
    (void)snprintf(rig->slots[index].endpoint, sizeof rig->slots[0].endpoint,
                   "unix:%.60s/sandboxes/%s/port.sock", rig->state_dir, name);
}

static void
expect_nothing_left(const struct local_rig *rig, uint32_t index, int outer,
                    int inner)
{
    assert_false(local_rig_alive(outer));
    assert_false(local_rig_alive(inner));
    assert_false(local_rig_has_dir(rig, index));
    assert_false(adopt_rig_has_group(rig, index));
}

/* What a claim has left in a sandbox is its claim's alone: none of these is as
 * its template says. */
static void
test_what_a_claim_has_made_its_own(void **state)
{
    static const char *const added[] = {"", "narrowed x\n",
                                        "identity 60000 a\n", "volume t/a\n"};
    static struct local_rig rig;
    struct adopt_daemon daemon;

    (void)state;
    adopt_rig_init(&rig);
    daemon = adopt_daemon_start(&rig, "4", "4");
    adopt_daemon_kill(&daemon);
    for (uint32_t i = 0; i < WP_ARRAY_LEN(added); i++) {
        char path[160];
        FILE *file;

        adopt_rig_record_path(&rig, i, path);
        file = fopen(path, "ae");
        assert_non_null(file);
        (void)fputs(added[i], file);
        assert_int_equal(fclose(file), 0);
    }
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, WP_ARRAY_LEN(added));
    for (uint32_t i = 0; i < WP_ARRAY_LEN(added); i++) {
        assert_int_equal(adoption.current[i], i == 0);
    }
    local_rig_fini(&rig);
}

/* After kill -9: wanted ones serve on at the same place through all of it, the
 * rest goes, and the next daemon supervises as if they were its own. */
static void
test_killed(void **state)
{
    static struct local_rig rig;
    static char answer[4096];
    char out[256];
    int outer[6];
    int inner[6];
    int stream;
    struct adopt_daemon daemon;
    struct wp_local_stats stats;

    (void)state;
    adopt_rig_init(&rig);
    daemon = adopt_daemon_start(&rig, "6", "6");
    for (uint32_t i = 0; i < 6; i++) {
        local_rig_pids(&rig, i, &outer[i], &inner[i]);
        know_endpoint(&rig, i);
    }
    stream = local_rig_send(&rig, 0,
                            "POST /execute HTTP/1.1\r\nHost: x\r\n"
                            "Connection: close\r\nContent-Length: 85\r\n"
                            "Content-Type: application/json\r\n\r\n"
                            "{\"command\": \"sh -c 'until test -e"
                            " /workspace/go; do sleep 0.02; done; echo"
                            " through'\"}  ");
    adopt_daemon_kill(&daemon);
    assert_int_equal(kill(inner[1], SIGKILL), 0);
    local_rig_wait_gone(inner[1], PATIENCE_MS);
    adopt_rig_expect_answer(&rig, 0);
    adoption.unwanted = 1U << 2;
    adopt_rig_edit_record(&rig, 3, "ready", "0");
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 3);
    assert_int_equal(rig.sweep.sandboxes, 3);
    assert_int_equal(rig.sweep.failed, 0);
    assert_int_equal(adoption.asked[1] + adoption.asked[3], 0);
    for (uint32_t i = 1; i < 4; i++) {
        expect_nothing_left(&rig, i, outer[i], inner[i]);
    }
    assert_true(adoption.current[0]);
    wp_local_stats(rig.local, &stats);
    assert_int_equal(stats.ready, 3);
    /* Its root is whole, and what was under way goes on. */
    assert_int_equal(local_rig_execute(&rig, 0,
                                       "cat /etc/passwd >/dev/null &&"
                                       " touch /workspace/go && echo whole",
                                       out, sizeof out),
                     0);
    assert_string_equal(out, "whole\n");
    (void)local_rig_receive(stream, answer, sizeof answer);
    assert_non_null(strstr(answer, "through"));
    assert_int_equal(kill(inner[4], SIGKILL), 0);
    local_rig_wait(&rig, 4, RIG_LOST, PATIENCE_MS);
    local_rig_destroy(&rig, 4);
    local_rig_destroy(&rig, 5);
    for (uint32_t i = 4; i < 6; i++) {
        local_rig_wait(&rig, i, RIG_DESTROYED, PATIENCE_MS);
        expect_nothing_left(&rig, i, outer[i], inner[i]);
    }
    assert_int_equal(rig.slots[5].lost, 0);
    assert_int_equal(rig.slots[0].ready + rig.slots[5].ready, 0);
    local_rig_fini(&rig);
    assert_false(local_rig_alive(inner[0]));
}

/* Two daemons after the first one: roots, groups and users are kept for those
 * who need them, and new sandboxes get users of their own. */
static void
test_killed_twice(void **state)
{
    static struct local_rig rig;
    char out[256];
    int outer;
    int inner;
    struct adopt_daemon daemon;

    (void)state;
    adopt_rig_init(&rig);
    daemon = adopt_daemon_start(&rig, "2", "2");
    adopt_daemon_kill(&daemon);
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 2);
    local_rig_create(&rig, 2, PATIENCE_MS);
    local_rig_wait(&rig, 2, RIG_READY, PATIENCE_MS);
    assert_int_equal(wp_local_leave(rig.local, 20 * WP_NS_PER_S), 0);
    wp_local_destroy(rig.local);
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 3);
    local_rig_create(&rig, 3, PATIENCE_MS);
    local_rig_wait(&rig, 3, RIG_READY, PATIENCE_MS);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(
            local_rig_execute(&rig, i, "cat /etc/passwd >/dev/null && echo x",
                              out, sizeof out),
            0);
        assert_string_equal(out, "x\n");
    }
    if (geteuid() == 0) {
        unsigned uids[4];

        for (uint32_t i = 0; i < 4; i++) {
            struct stat st;
            char path[64];

            local_rig_pids(&rig, i, &outer, &inner);
            (void)snprintf(path, sizeof path, "/proc/%d", outer);
            assert_int_equal(stat(path, &st), 0);
            uids[i] = st.st_uid;
            for (uint32_t k = 0; k < i; k++) {
                assert_int_not_equal(uids[k], uids[i]);
            }
        }
    }
    local_rig_fini(&rig);
}

/* The first daemon was in another control group, and so are its sandboxes: they
 * are found there by the second and the third. */
static void
test_other_group(void **state)
{
    static struct local_rig rig;
    const struct wp_cgroup_limits none = {.memory_bytes = 0};
    struct wp_cgroups groups;
    struct wp_err err;
    struct adopt_daemon daemon;
    char name[48];
    int outer[3];
    int inner[3];

    (void)state;
    (void)snprintf(name, sizeof name, "wp-adopt-test-%d", (int)getpid());
    wp_cgroups_open(&groups, "/proc/self/mountinfo", "/proc/self/cgroup", "",
                    name);
    if (groups.kind != WP_CGROUP_V1) {
        print_message("SKIP: no control groups of version 1 here\n");
        wp_cgroups_close(&groups);
        skip();
    }
    assert_int_equal(wp_cgroup_make(&groups, "first", &none, &err), WP_OK);
    adopt_rig_init(&rig);
    daemon = adopt_daemon_start_in(&groups, &rig, "3", "3");
    for (uint32_t i = 0; i < 3; i++) {
        local_rig_pids(&rig, i, &outer[i], &inner[i]);
    }
    adopt_daemon_kill(&daemon);
    adoption.unwanted = 1;
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 2);
    expect_nothing_left(&rig, 0, outer[0], inner[0]);
    assert_true(adopt_rig_has_group(&rig, 1));
    local_rig_destroy(&rig, 1);
    local_rig_wait(&rig, 1, RIG_DESTROYED, PATIENCE_MS);
    expect_nothing_left(&rig, 1, outer[1], inner[1]);
    assert_int_equal(wp_local_leave(rig.local, 20 * WP_NS_PER_S), 0);
    wp_local_destroy(rig.local);
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 1);
    assert_true(adopt_rig_has_group(&rig, 2));
    local_rig_destroy(&rig, 2);
    local_rig_wait(&rig, 2, RIG_DESTROYED, PATIENCE_MS);
    expect_nothing_left(&rig, 2, outer[2], inner[2]);
    local_rig_fini(&rig);
    assert_true(wp_cgroup_remove(&groups, "first"));
    wp_cgroups_close(&groups);
}

/* A daemon that leaves takes what is not ready with it, and reports only that.
 */
static void
test_left(void **state)
{
    static struct local_rig rig;
    struct adopt_daemon daemon;
    int status;

    (void)state;
    adopt_rig_init(&rig);
    daemon = adopt_daemon_start(&rig, "12", "3");
    assert_int_equal(write(daemon.orders, "l", 1), 1);
    status = adopt_daemon_end(&daemon);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    local_rig_start(&rig);
    assert_in_range(rig.sweep.adopted, 3, 12);
    assert_int_equal(rig.sweep.sandboxes, 0);
    assert_int_equal(rig.sweep.cgroups, 0);
    for (uint32_t i = 0; i < 12; i++) {
        assert_int_equal(adoption.asked[i] != 0, local_rig_has_dir(&rig, i));
        if (adoption.asked[i] != 0) {
            adopt_rig_expect_answer(&rig, i);
        }
    }
    local_rig_fini(&rig);
}

/* Without the setting nothing can be left. */
static void
test_nothing_outlives(void **state)
{
    static struct local_rig rig;

    (void)state;
    adopt_rig_init(&rig);
    rig.config.outlive = false;
    local_rig_start(&rig);
    local_rig_create(&rig, 0, PATIENCE_MS);
    local_rig_wait(&rig, 0, RIG_READY, PATIENCE_MS);
    assert_int_equal(wp_local_leave(rig.local, 20 * WP_NS_PER_S), 0);
    assert_int_equal(rig.slots[0].destroyed, 1);
    local_rig_fini(&rig);
}

/* Of a template that says something else by now, or is gone: adopted all the
 * same, and said to be so. */
static void
test_template_changed(void **state)
{
    static struct local_rig rig;
    struct adopt_daemon daemon;

    (void)state;
    adopt_rig_init(&rig);
    daemon = adopt_daemon_start(&rig, "1", "1");
    adopt_daemon_kill(&daemon);
    rig.tmpl.memory_bytes /= 2;
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 1);
    assert_false(adoption.current[0]);
    assert_int_equal(wp_local_leave(rig.local, 20 * WP_NS_PER_S), 0);
    wp_local_destroy(rig.local);
    rig.config.templates_len = 0;
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 1);
    assert_false(adoption.current[0]);
    adopt_rig_expect_answer(&rig, 0);
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    local_rig_fini(&rig);
}

/* The channel to init works again: last words, probes, a gentle end. */
static void
test_supervised(void **state)
{
    static struct local_rig rig;
    static char answer[4096];
    struct adopt_daemon daemon;
    char out[64];
    int outer[3];
    int inner[3];

    (void)state;
    adopt_rig_init(&rig);
    daemon = adopt_daemon_start(&rig, "3", "3");
    adopt_daemon_kill(&daemon);
    rig.config.probe_every_ms = 50;
    rig.config.stop_grace_ms = PATIENCE_MS;
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 3);
    for (uint32_t i = 0; i < 3; i++) {
        local_rig_pids(&rig, i, &outer[i], &inner[i]);
    }
    (void)local_rig_receive(
        local_rig_send(&rig, 0,
                       "POST /execute HTTP/1.1\r\nHost: x\r\n"
                       "Connection: close\r\nContent-Length: 39\r\n"
                       "Content-Type: application/json\r\n\r\n"
                       "{\"command\": \"sh -c 'kill -KILL $PPID'\"}"),
        answer, sizeof answer);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_non_null(strstr(rig.slots[0].reason, "killed by SIGKILL"));
    assert_int_equal(kill(inner[1], SIGSTOP), 0);
    local_rig_wait(&rig, 1, RIG_LOST, PATIENCE_MS);
    assert_string_equal(rig.slots[1].reason,
                        "its init does not answer, 3 times in a row");
    assert_int_equal(kill(inner[1], SIGCONT), 0);
    /* The third answers its probes, and ends on SIGTERM long before its grace
     * is over. */
    assert_int_equal(local_rig_execute(&rig, 2, "echo x", out, sizeof out), 0);
    local_rig_destroy(&rig, 2);
    local_rig_wait(&rig, 2, RIG_DESTROYED, PATIENCE_MS / 2);
    assert_int_equal(rig.slots[2].lost, 0);
    expect_nothing_left(&rig, 2, outer[2], inner[2]);
    local_rig_fini(&rig);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_killed, adopt_rig_clean_up),
        cmocka_unit_test_teardown(test_killed_twice, adopt_rig_clean_up),
        cmocka_unit_test_teardown(test_other_group, adopt_rig_clean_up),
        cmocka_unit_test_teardown(test_left, adopt_rig_clean_up),
        cmocka_unit_test_teardown(test_nothing_outlives, adopt_rig_clean_up),
        cmocka_unit_test_teardown(test_template_changed, adopt_rig_clean_up),
        cmocka_unit_test_teardown(test_what_a_claim_has_made_its_own,
                                  adopt_rig_clean_up),
        cmocka_unit_test_teardown(test_supervised, adopt_rig_clean_up),
    };

    if (argc == 4) {
        return adopt_daemon_main(argv);
    }
    if (!local_rig_begin(argc, argv, NULL)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
