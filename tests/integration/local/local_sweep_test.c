/* tests/integration/local/local_sweep_test.c - what a killed daemon leaves, which
 * the next one sweeps. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pool/base/log.h"
#include "tests/support/local/local_rig.h"

/* Runs as a process of its own: four sandboxes, then waits to be killed. */
static int
child_main(const char *state_dir, bool outlive)
{
    static struct local_rig rig;

    wp_log_configure(WP_LOG_ERROR, WP_LOG_TEXT);
    local_rig_init_runtime(&rig);
    (void)rmdir(rig.dir);
    rig.config.state_dir = state_dir;
    (void)snprintf(rig.state_dir, sizeof rig.state_dir, "%s", state_dir);
    rig.config.outlive = outlive;
    local_rig_start(&rig);
    for (uint32_t i = 0; i < 4; i++) {
        local_rig_create(&rig, i, PATIENCE_MS);
    }
    for (uint32_t i = 0; i < 4; i++) {
        local_rig_wait(&rig, i, RIG_READY, PATIENCE_MS);
    }
    if (write(STDOUT_FILENO, "r", 1) != 1) {
        return 1;
    }
    for (;;) {
        (void)pause();
    }
}

static void
killed_daemon(bool outlive)
{
    static struct local_rig rig;
    int outer[4];
    int inner[4];
    int pipes[2];
    char byte;
    pid_t pid;

    local_rig_init_runtime(&rig);
    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    assert_in_range(pid, 0, 1 << 22);
    if (pid == 0) {
        (void)dup2(pipes[1], STDOUT_FILENO);
        (void)close(pipes[0]);
        (void)close(pipes[1]);
        (void)execl("/proc/self/exe", "child", outlive ? "--outlive" : "--die",
                    rig.state_dir, (char *)NULL);
        _exit(127);
    }
    (void)close(pipes[1]);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    (void)close(pipes[0]);
    for (uint32_t i = 0; i < 4; i++) {
        local_rig_pids(&rig, i, &outer[i], &inner[i]);
        assert_true(local_rig_alive(inner[i]));
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    for (uint32_t i = 0; i < 4; i++) {
        if (outlive) {
            assert_true(local_rig_alive(inner[i]));
        } else {
            local_rig_wait_gone(inner[i], PATIENCE_MS);
            local_rig_wait_gone(outer[i], PATIENCE_MS);
        }
        assert_true(local_rig_has_dir(&rig, i));
    }
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.sandboxes, 4);
    assert_int_equal(rig.sweep.killed, outlive ? 4 : 0);
    assert_int_equal(rig.sweep.failed, 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_false(local_rig_alive(inner[i]));
        assert_false(local_rig_alive(outer[i]));
        assert_false(local_rig_has_dir(&rig, i));
    }
    /* The same names can be used again at once. */
    local_rig_create(&rig, 0, PATIENCE_MS);
    local_rig_wait(&rig, 0, RIG_READY, PATIENCE_MS);
    local_rig_fini(&rig);
}

static void
test_daemon_killed(void **state)
{
    (void)state;
    killed_daemon(false);
}

static void
test_daemon_killed_sandboxes_outlive(void **state)
{
    (void)state;
    killed_daemon(true);
}

/* A record that names a process which is not the recorded one kills nobody. */
static void
test_sweep_spares_reused_pid(void **state)
{
    static struct local_rig rig;
    char path[160];
    FILE *file;
    pid_t bystander = fork();

    (void)state;
    if (bystander == 0) {
        (void)alarm(60);
        for (;;) {
            (void)pause();
        }
    }
    local_rig_init_runtime(&rig);
    (void)snprintf(path, sizeof path, "mkdir -p %s/sandboxes/p-old",
                   rig.state_dir);
    assert_int_equal(system(path), 0);
    (void)snprintf(path, sizeof path, "%s/sandboxes/p-old/record",
                   rig.state_dir);
    file = fopen(path, "we");
    assert_non_null(file);
    (void)fprintf(file, "warmpool 1\nouter %d 1\ninner %d 1\nend\n",
                  (int)bystander, (int)bystander);
    (void)fclose(file);
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.sandboxes, 1);
    assert_int_equal(rig.sweep.killed, 0);
    assert_true(local_rig_alive(bystander));
    assert_int_equal(kill(bystander, SIGKILL), 0);
    assert_int_equal(waitpid(bystander, NULL, 0), bystander);
    local_rig_fini(&rig);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_daemon_killed),
        cmocka_unit_test(test_daemon_killed_sandboxes_outlive),
        cmocka_unit_test(test_sweep_spares_reused_pid),
    };

    if (argc == 3) {
        return child_main(argv[2], strcmp(argv[1], "--outlive") == 0);
    }
    if (!local_rig_begin(argc, argv, NULL)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
