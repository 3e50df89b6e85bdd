/* tests/integration/local/local_adopt_faults_test.c - daemons that find what they
 * cannot adopt: half-made sandboxes, bad records, no descriptors to spare. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/backend_local.h"
#include "local/sandbox/record.h"
#include "pool/base/clock.h"
#include "tests/support/local/adopt_rig.h"

/* By their records. */
static uint32_t
count_ready(const struct local_rig *rig, uint32_t n)
{
    uint32_t ready = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct wp_record record;
        char dir[160];
        char name[16];

        local_rig_name(i, name);
        (void)snprintf(dir, sizeof dir, "%s/sandboxes/%s", rig->state_dir,
                       name);
        ready += wp_record_read(dir, &record) && record.ready ? 1 : 0;
    }
    return ready;
}

/* Killed in the middle of many starts: what was not ready ends by itself, with
 * no record needed. */
static void
test_killed_while_starting(void **state)
{
    static struct local_rig rig;
    struct adopt_daemon daemon;
    char roots[100];
    int64_t end_ns;
    int bwraps = 0;

    (void)state;
    adopt_rig_init(&rig);
    daemon = adopt_daemon_start(&rig, "24", "1");
    adopt_daemon_kill(&daemon);
    end_ns = wp_clock_mono_ns(wp_clock_system()) + PATIENCE_MS * WP_NS_PER_MS;
    (void)snprintf(roots, sizeof roots, "%s/roots/", rig.state_dir);
    /* What was not told to stay ends without another daemon. One that was on
     * its way to being bwrap becomes it first: it has to hold for a while. */
    for (int held = 0;
         held < 100 && wp_clock_mono_ns(wp_clock_system()) < end_ns; held++) {
        if (local_rig_count_processes(roots) > (int)count_ready(&rig, 24)) {
            held = -1;
        }
        (void)usleep(1000);
    }
    assert_true(local_rig_count_processes(roots) <= (int)count_ready(&rig, 24));
    local_rig_start(&rig);
    assert_in_range(rig.sweep.adopted, 1, 24);
    assert_int_equal(rig.sweep.failed, 0);
    for (int i = 0; i < PATIENCE_MS; i++) {
        /* bwrap is two processes, its own and the one that becomes init. */
        bwraps = local_rig_count_processes(roots);
        if (bwraps == (int)rig.sweep.adopted) {
            break;
        }
        (void)usleep(1000);
    }
    assert_int_equal(bwraps, rig.sweep.adopted);
    for (uint32_t i = 0; i < 24; i++) {
        assert_int_equal(adoption.asked[i] != 0, local_rig_has_dir(&rig, i));
    }
    local_rig_fini(&rig);
}

/* A start without descriptors to spare takes nothing for dead: it fails, and a
 * later one adopts all. */
static void
test_no_descriptors(void **state)
{
    static struct local_rig rig;
    const struct wp_local_events events = {.ctx = &rig,
                                           .adopt = adopt_rig_adopt};
    struct adopt_daemon daemon;
    struct wp_local_sweep sweep;
    struct wp_err err = {.msg = ""};
    struct rlimit before;
    struct rlimit few;
    int lowest;

    (void)state;
    adopt_rig_init(&rig);
    daemon = adopt_daemon_start(&rig, "4", "4");
    adopt_daemon_kill(&daemon);
    rig.local = wp_local_create(&rig.config, &err);
    assert_non_null(rig.local);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_in_range(lowest, 0, 1 << 20);
    (void)close(lowest);
    few = before;
    few.rlim_cur = (rlim_t)lowest + 12;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(wp_local_start(rig.local, &events, &sweep, &err),
                     WP_RESOURCE_EXHAUSTED);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_non_null(strstr(err.msg, "cannot be adopted, and is left"));
    assert_int_equal(sweep.sandboxes, 0);
    wp_local_destroy(rig.local);
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 4);
    adopt_rig_expect_answer(&rig, 3);
    local_rig_fini(&rig);
}

/* Records of another boot, of another sandbox, cut short, or without sense: what
 * they are of is not adopted, and all of it is removed. */
static void
test_bad_records(void **state)
{
    static struct local_rig rig;
    struct adopt_daemon daemon;
    struct stat st;
    char path[200];
    int outer[8];
    int inner[8];

    (void)state;
    adopt_rig_init(&rig);
    daemon = adopt_daemon_start(&rig, "8", "8");
    for (uint32_t i = 0; i < 8; i++) {
        local_rig_pids(&rig, i, &outer[i], &inner[i]);
    }
    adopt_daemon_kill(&daemon);
    adopt_rig_edit_record(&rig, 0, "boot",
                          "00000000-0000-4000-8000-000000000000");
    adopt_rig_edit_record(&rig, 1, "name", "p-00000007");
    adopt_rig_edit_record(&rig, 2, "endpoint", "unix:/elsewhere/port.sock");
    adopt_rig_record_path(&rig, 3, path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 1), 0);
    adopt_rig_record_path(&rig, 4, path);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/sandboxes/p-00000005/port.sock",
                   rig.state_dir);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/sandboxes/p-00000006/control.sock",
                   rig.state_dir);
    assert_int_equal(unlink(path), 0);
    (void)snprintf(path, sizeof path, "%s/sandboxes/a-file", rig.state_dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 1);
    assert_int_equal(rig.sweep.sandboxes, 8);
    assert_int_equal(rig.sweep.failed, 0);
    assert_int_equal(adoption.asked[7], 1);
    adopt_rig_expect_answer(&rig, 7);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(adoption.asked[i], 0);
        assert_false(local_rig_has_dir(&rig, i));
        assert_false(adopt_rig_has_group(&rig, i));
        /* A lie about the boot, or a record that is lost, hides processes where
         * there are no control groups. */
        if (local_rig_alive(inner[i])) {
            assert_true(i == 0 || i == 3 || i == 4);
            assert_int_equal(kill(inner[i], SIGKILL), 0);
            local_rig_wait_gone(inner[i], PATIENCE_MS);
        }
    }
    assert_int_not_equal(access(path, F_OK), 0);
    local_rig_fini(&rig);
}

/* Two sandboxes never have one user: the second to say so goes. */
static void
test_a_user_that_another_has(void **state)
{
    static struct local_rig rig;
    struct adopt_daemon daemon;
    struct wp_record records[2];
    char dir[160];
    char text[16];
    int outer[2];
    int inner[2];

    (void)state;
    adopt_rig_init(&rig);
    daemon = adopt_daemon_start(&rig, "2", "2");
    for (uint32_t i = 0; i < 2; i++) {
        local_rig_pids(&rig, i, &outer[i], &inner[i]);
        (void)snprintf(dir, sizeof dir, "%s/sandboxes/p-0000000%u",
                       rig.state_dir, i);
        assert_true(wp_record_read(dir, &records[i]));
    }
    adopt_daemon_kill(&daemon);
    (void)snprintf(text, sizeof text, "%u", records[0].host_uid);
    adopt_rig_edit_record(&rig, 1, "host_uid", text);
    local_rig_start(&rig);
    if (records[0].host_uid == records[1].host_uid) {
        assert_int_equal(rig.sweep.adopted, 2); /* They have none here. */
    } else {
        assert_int_equal(rig.sweep.adopted, 1);
        assert_int_equal(rig.sweep.sandboxes, 1);
        assert_true(local_rig_alive(inner[0]) != local_rig_alive(inner[1]));
    }
    local_rig_fini(&rig);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_killed_while_starting,
                                  adopt_rig_clean_up),
        cmocka_unit_test_teardown(test_no_descriptors, adopt_rig_clean_up),
        cmocka_unit_test_teardown(test_bad_records, adopt_rig_clean_up),
        cmocka_unit_test_teardown(test_a_user_that_another_has,
                                  adopt_rig_clean_up),
    };

    if (argc == 4) {
        return adopt_daemon_main(argv);
    }
    if (!local_rig_begin(argc, argv, NULL)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
