/* Ending a process at a named step. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "k8s/controllers/fault.h"
#include "tests/support/base/heard.h"

static struct heard heard;

/* How a process ends that comes to step "a" three times and to "b" once. */
static int
end_with(const char *setting)
{
    int status = 0;
    pid_t pid = fork();

    assert_int_not_equal(pid, -1);
    if (pid == 0) {
        if (setting == NULL) {
            (void)unsetenv("WARMPOOL_FAULT");
        } else {
            (void)setenv("WARMPOOL_FAULT", setting, 1);
        }
        wp_fault("a");
        wp_fault("a");
        wp_fault("a");
        wp_fault("b");
        _exit(7);
    }
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    if (WIFSTOPPED(status)) {
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        return -SIGSTOP;
    }
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void
ends_where_told(void **state)
{
    (void)state;
    assert_int_equal(end_with(NULL), 7);
    assert_int_equal(end_with(""), 7);
    assert_int_equal(end_with("c:kill"), 7);
    assert_int_equal(end_with("a:kill"), -SIGKILL);
    assert_int_equal(end_with("a:kill:3"), -SIGKILL);
    assert_int_equal(end_with("a:kill:4"), 7);
    assert_int_equal(end_with("c:kill,b:stop"), -SIGSTOP);
    /* What makes no sense is logged and left out. */
    assert_int_equal(end_with("a"), 7);
    assert_int_equal(end_with("a:kill:0,:kill,a:burn"), 7);
}

#define REFUSED(text)                                                          \
    "ERROR WARMPOOL_FAULT: expected STEP:kill or STEP:stop got=" text "\n"

/* What makes no sense is logged, and what is beside it counts; and so is the
 * ninth. */
static void
says_what_makes_no_sense(void **state)
{
    static const struct {
        const char *setting;
        int ends;
        const char *log;
    } rows[] = {
        {"a:kill:0,b:kill", -SIGKILL, REFUSED("a:kill:0")},
        {"a:kill:x,a:kill:-1,:kill,a:burn,a", 7,
         REFUSED("a:kill:x") REFUSED("a:kill:-1") REFUSED(":kill")
             REFUSED("a:burn") REFUSED("a")},
        {"1:kill,2:kill,3:kill,4:kill,5:kill,6:kill,7:kill,a:kill", -SIGKILL,
         ""},
        {"1:kill,2:kill,3:kill,4:kill,5:kill,6:kill,7:kill,8:stop,a:kill", 7,
         REFUSED("a:kill")},
        {"a:stop:2", -SIGSTOP, ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int ends;

        heard_begin(&heard);
        ends = end_with(rows[i].setting);
        assert_string_equal(heard_end(&heard), rows[i].log);
        assert_int_equal(ends, rows[i].ends);
    }
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_where_told),
        cmocka_unit_test(says_what_makes_no_sense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
