/* warmpool-init with init containers, and with a probe that is a program. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/control.h"
#include "tests/support/local/init_rig.h"

/* A shell's script as one of them; env NULL: init's own. */
static void
add_program(struct init_rig *rig, const char *kind, const char *timeout_s,
            const char *script, const char *env)
{
    const char *const texts[] = {kind, "its-name", timeout_s, rig->dir,
                                 "3",  "/bin/sh",  "-c",      script};

    if (rig->programs < 0) {
        rig->programs = memfd_create("programs", MFD_CLOEXEC);
        assert_true(rig->programs >= 0);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_true(write(rig->programs, texts[i], strlen(texts[i]) + 1) > 0);
    }
    if (env != NULL) {
        assert_true(write(rig->programs, "1", 2) == 2);
        assert_true(write(rig->programs, env, strlen(env) + 1) > 0);
    } else {
        assert_true(write(rig->programs, "0", 2) == 2);
    }
}

/* One after the other, in their order, each to its end, and then the command;
 * with a directory and variables of their own. */
static void
test_init_containers(void **state)
{
    struct init_rig rig;

    (void)state;
    init_rig_init(&rig);
    add_program(&rig, "init", "0", "sleep 0.2; echo $A >one", "A=first");
    add_program(&rig, "init", "0", "echo $A >>one; pwd >>one", "A=second");
    init_rig_start(&rig, NULL, "/bin/sh",
                   "tr '\\n' ' ' <\"${1%fifo}one\"; exit 5");
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    {
        char text[160];

        (void)snprintf(text, sizeof text,
                       "exited with status 5: first second %s", rig.dir);
        init_rig_expect(rig.control, WP_CONTROL_EXIT, text);
    }
    assert_int_equal(init_rig_exit_status(&rig), 0);
    (void)close(rig.programs);
    init_rig_fini(&rig);
}

static void
test_an_init_container_fails(void **state)
{
    struct init_rig rig;

    (void)state;
    init_rig_init(&rig);
    add_program(&rig, "init", "0", "echo no key; exit 4", "A=b");
    init_rig_start(&rig, NULL, "/bin/sh", "exit 5");
    init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
    init_rig_expect(rig.control, WP_CONTROL_FAIL,
                    "init container 'its-name' exited with status 4: no key");
    assert_int_equal(init_rig_exit_status(&rig), 1);
    (void)close(rig.programs);
    init_rig_fini(&rig);
}

/* Its folder is not there, or its program: named, with the reason. */
static void
test_an_init_container_cannot_start(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        const char *text;
    } rows[] = {
#define ROW(dir, program, text)                                                \
    {"init\0its-name\0000\0" dir "\0001\0" program "\0001\0A=b",               \
     sizeof("init\0its-name\0000\0" dir "\0001\0" program "\0001\0A=b"), text}
        ROW("/nonexistent", "/bin/sh",
            "cannot start its-name: '/bin/sh': No such file or directory"),
        ROW("/", "/nonexistent",
            "cannot start its-name: '/nonexistent': No such file or directory"),
        ROW("", "/dev", "cannot start its-name: '/dev': Permission denied"),
#undef ROW
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct init_rig rig;

        init_rig_init(&rig);
        rig.programs = memfd_create("programs", MFD_CLOEXEC);
        assert_int_equal(write(rig.programs, rows[i].bytes, rows[i].len),
                         rows[i].len);
        init_rig_start(&rig, NULL, "/bin/sh", "exit 5");
        init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
        init_rig_expect(rig.control, WP_CONTROL_FAIL, rows[i].text);
        assert_int_equal(init_rig_exit_status(&rig), 1);
        (void)close(rig.programs);
        init_rig_fini(&rig);
    }
}

/* What makes no sense is refused whole. */
static void
test_broken_programs(void **state)
{
    static const char *const broken[] = {"init", "other", "probe\0a"};

    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct init_rig rig;

        init_rig_init(&rig);
        rig.programs = memfd_create("programs", MFD_CLOEXEC);
        assert_true(write(rig.programs, broken[i], strlen(broken[i]) + 1) > 0);
        init_rig_start(&rig, NULL, "/bin/sh", "exit 5");
        init_rig_expect(rig.control, WP_CONTROL_HELLO, "");
        init_rig_expect(rig.control, WP_CONTROL_FAIL,
                        "programs: Invalid argument");
        assert_int_equal(init_rig_exit_status(&rig), 1);
        (void)close(rig.programs);
        init_rig_fini(&rig);
    }
}

static void
put(const struct init_rig *rig, const char *name)
{
    int fd =
        open(init_rig_path(rig, name), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    (void)close(fd);
}

/* Starts with that probe, on a port that answers. */
static void
start_probed(struct init_rig *rig, const char *timeout_s, const char *script)
{
    init_rig_init(rig);
    assert_int_equal(listen(rig->inner, 4), 0);
    add_program(rig, "probe", timeout_s, script, NULL);
    init_rig_start(rig, NULL, "/bin/sh", INIT_RIG_LASTING);
    init_rig_expect(rig->control, WP_CONTROL_HELLO, "");
}

static void
end_probed(struct init_rig *rig)
{
    init_rig_say(rig->control, WP_CONTROL_TERMINATE);
    init_rig_expect(rig->control, WP_CONTROL_EXIT, "killed by SIGTERM");
    assert_int_equal(init_rig_exit_status(rig), 0);
    (void)close(rig->programs);
    init_rig_fini(rig);
}

/* Its status counts first, then the port. It has more time than a busy machine
 * may take. */
static void
test_exec_probe(void **state)
{
    struct init_rig rig;

    (void)state;
    start_probed(&rig, "60", "echo >>asked; test -e good");
    while (access(init_rig_path(&rig, "asked"), F_OK) != 0) {
        (void)usleep(1000);
    }
    put(&rig, "good");
    init_rig_expect(rig.control, WP_CONTROL_OPEN, "");
    init_rig_say(rig.control, WP_CONTROL_PROBE);
    init_rig_expect(rig.control, WP_CONTROL_ANSWERS, "");
    assert_int_equal(unlink(init_rig_path(&rig, "good")), 0);
    init_rig_say(rig.control, WP_CONTROL_PROBE);
    init_rig_expect(rig.control, WP_CONTROL_SILENT, "");
    end_probed(&rig);
}

/* It is ended; before, one that came too late is tried again. */
static void
test_exec_probe_that_hangs(void **state)
{
    struct init_rig rig;

    (void)state;
    start_probed(&rig, "1", "test ! -e hang || exec sleep 1000");
    init_rig_expect(rig.control, WP_CONTROL_OPEN, "");
    put(&rig, "hang");
    init_rig_say(rig.control, WP_CONTROL_PROBE);
    init_rig_expect(rig.control, WP_CONTROL_SILENT, "");
    end_probed(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init_containers),
        cmocka_unit_test(test_an_init_container_fails),
        cmocka_unit_test(test_an_init_container_cannot_start),
        cmocka_unit_test(test_broken_programs),
        cmocka_unit_test(test_exec_probe),
        cmocka_unit_test(test_exec_probe_that_hangs),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
