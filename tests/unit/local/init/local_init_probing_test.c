/* tests/unit/local/init/local_init_probing_test.c - when warmpool-init probes
 * again, and how it tells whether somebody uses the sandbox. */
#include <dirent.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/local/init/parts.h"

/* --- Probing --- */

/* A half more each time, up to a bound that is higher for a program. */
static void
test_when_it_probes_again(void **state)
{
    static const int64_t port_us[] = {1500, 2250,  3375,  5062,
                                      7593, 11389, 16000, 16000};
    static char *argv[] = {NULL};
    int64_t program_us = 1000;

    (void)state;
    for (int program = 0; program < 2; program++) {
        int daemon;
        struct wp_init *init = make_init(&daemon);

        init->programs.probe.argv = program != 0 ? argv : NULL;
        for (int i = 0; i < 20; i++) {
            int64_t before_us = wp_init_now_us();
            int64_t retry_us = init->retry_us;

            wp_init_probe_done(&init->probe, false);
            assert_true(init->wake_us >= before_us + retry_us);
            assert_true(init->wake_us <= wp_init_now_us() + retry_us);
            if (program == 0) {
                assert_int_equal(init->retry_us, port_us[i < 8 ? i : 7]);
            } else {
                program_us = program_us * 3 / 2;
                program_us = program_us > 250000 ? 250000 : program_us;
                assert_int_equal(init->retry_us, program_us);
            }
            assert_false(init->opened);
        }
        expect_told(daemon, NULL);
        wp_init_probe_done(&init->probe, true);
        assert_true(init->wake_us == INT64_MAX);
        assert_true(init->opened);
        expect_told(daemon, (const char[]){WP_CONTROL_OPEN, '\0'});
        /* Later ones are told when they are asked for, and once. */
        for (int answered = 0; answered < 2; answered++) {
            wp_init_probe_done(&init->probe, answered != 0);
            expect_told(daemon, NULL);
            init->asked = true;
            wp_init_probe_done(&init->probe, answered != 0);
            expect_told(daemon,
                        (const char[]){answered != 0 ? WP_CONTROL_ANSWERS
                                                     : WP_CONTROL_SILENT,
                                       '\0'});
            assert_false(init->asked);
            assert_true(init->wake_us == INT64_MAX);
        }
        end_init(init, daemon);
    }
}

/* A probe's program that is due is killed, with all that it has started. */
static void
test_probe_that_hangs(void **state)
{
    char *argv[] = {(char[]){"/bin/sh"}, (char[]){"-c"},
                    (char[]){"sleep 1000 & wait"}, NULL};
    int daemon;
    struct wp_init *init = make_init(&daemon);
    int64_t before_us = wp_init_now_us();
    int status;
    pid_t pid;

    (void)state;
    init->options.confines_itself = true;
    init->programs.probe = (struct wp_program){
        .name = "", .dir = "", .argv = argv, .timeout_s = 7};
    assert_false(wp_init_is_probing(init));
    wp_init_start_probe(init);
    assert_true(wp_init_is_probing(init));
    assert_true(init->wake_us >= before_us + 7000000);
    assert_true(init->wake_us <= wp_init_now_us() + 7000000);
    pid = init->probe_child;
    assert_true(pid > 0);
    /* It has made its session when it can be killed with it. */
    while (getsid(pid) != pid) {
        (void)usleep(1000);
    }
    wp_init_probe_due(init);
    assert_int_equal(init->probe_child, 0);
    assert_false(wp_init_is_probing(init));
    assert_true(init->wake_us < INT64_MAX); /* When it is tried again. */
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    end_init(init, daemon);
}

/* --- Whether somebody computes --- */

/* Of every process: user and system time, and that of its dead children. */
static uint64_t
count_ticks(void)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    uint64_t sum = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        unsigned long user;
        unsigned long system;
        long child_user;
        long child_system;
        char path[300];
        char text[1024];
        FILE *file;
        const char *at;

        (void)snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        file = entry->d_name[0] >= '1' && entry->d_name[0] <= '9'
                   ? fopen(path, "re")
                   : NULL;
        if (file == NULL) {
            continue;
        }
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        (void)fclose(file);
        at = strrchr(text, ')');
        if (at != NULL &&
            sscanf(at + 1,
                   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %ld "
                   "%ld",
                   &user, &system, &child_user, &child_system) == 4) {
            sum +=
                user + system + (uint64_t)child_user + (uint64_t)child_system;
        }
    }
    (void)closedir(dir);
    return sum;
}

/* Between two counts, unless processes end meanwhile: then again. */
static void
test_all_time_is_counted(void **state)
{
    int daemon;
    struct wp_init *init = make_init(&daemon);
    bool between = false;

    (void)state;
    for (int i = 0; i < 10000 && !between; i++) {
        uint64_t before = count_ticks();
        uint64_t after;
        char message[WP_CONTROL_MAX];

        wp_init_look(init, "0");
        after = count_ticks();
        between = before <= init->idle.ticks && init->idle.ticks <= after;
        assert_true(recv(daemon, message, sizeof message, 0) > 0);
    }
    assert_true(between);
    end_init(init, daemon);
}

/* Idle since the last use: of a connection, of a processor, or at the first
 * look. */
static void
test_how_long_it_was_idle(void **state)
{
    static const struct {
        int64_t looked_us_ago; /* 0: never. */
        uint64_t ticks;        /* Then; above all there are: none since. */
        uint32_t conns;
        bool idle;
    } rows[] = {{0, UINT64_MAX, 0, false},
                {1, UINT64_MAX, 0, true},
                {1, UINT64_MAX, 1, false},
                {1, 0, 0, false},
                /* So long ago that what there is is less than five of 100. */
                {INT64_MAX / 1000, 0, 0, true}};

    (void)state;
    /* So that there are ticks. */
    while (clock() < CLOCKS_PER_SEC / 10) {
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        for (int ended = 0; ended < 2; ended++) {
            int daemon;
            struct wp_init *init = make_init(&daemon);
            int64_t now_us = wp_init_now_us();
            char message[WP_CONTROL_MAX] = "";
            int64_t ago_ms = ended != 0 ? 3000 : 5000;
            int64_t ended_us = now_us - 3000000;
            int64_t most_ms;
            long ms;

            init->idle.active_us = now_us - 5000000;
            init->idle.ticks = rows[i].ticks;
            init->idle.looked_us =
                rows[i].looked_us_ago == 0 ? 0 : now_us - rows[i].looked_us_ago;
            init->bridge.conns = rows[i].conns;
            if (ended != 0) {
                init->bridge.ended_at.tv_sec = ended_us / 1000000;
                init->bridge.ended_at.tv_nsec = ended_us % 1000000 * 1000;
            }
            wp_init_look(init, "0");
            assert_true(recv(daemon, message, sizeof message - 1, 0) > 1);
            assert_int_equal(message[0], WP_CONTROL_IDLE);
            ms = strtol(message + 1, NULL, 10);
            most_ms = (wp_init_now_us() - now_us) / 1000 + ago_ms + 1;
            if (rows[i].idle ? ms < ago_ms || ms > most_ms : ms != 0) {
                fail_msg("row %zu: %ld ms", i, ms);
            }
            assert_true(init->idle.looked_us >= now_us);
            end_init(init, daemon);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_when_it_probes_again),
        cmocka_unit_test(test_probe_that_hangs),
        cmocka_unit_test(test_all_time_is_counted),
        cmocka_unit_test(test_how_long_it_was_idle),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
