/* tests/integration/local/local_limits_test.c - limits that templates state, and
 * those that they get. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/backend_local.h"
#include "tests/support/local/local_rig.h"

static struct wp_host_report host;

/* Not root, without anything delegated: no control group can be made. */
enum {
    NOBODY = 65534
};

static int
start_without_groups(struct local_rig *rig)
{
    struct wp_err err = {.msg = ""};
    struct wp_local *local;
    int made;

    if (setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) != 0) {
        return 2;
    }
    rig->config.best_effort = false;
    local = wp_local_create(&rig->config, &err);
    if (local != NULL) {
        wp_local_destroy(local);
        (void)printf("not refused\n");
        return 3;
    }
    if (strstr(err.msg, "template t: limits.memory cannot be enforced here") ==
            NULL ||
        strstr(err.msg, "'sandbox_limits: best_effort'") == NULL) {
        (void)printf("refused with: %s\n", err.msg);
        return 4;
    }
    /* What a template does not state is given where it can be. */
    rig->tmpl.memory_bytes = 0;
    rig->config.memory_default = 1 << 30;
    rig->config.cpu_milli_default = 1000;
    local = wp_local_create(&rig->config, &err);
    made = local != NULL;
    wp_local_destroy(local);
    if (!made) {
        (void)printf("refused with: %s\n", err.msg);
        return 5;
    }
    rig->tmpl.cpu_milli = 500;
    if (wp_local_create(&rig->config, &err) != NULL ||
        strstr(err.msg, "limits.cpu") == NULL) {
        return 6;
    }
    rig->config.best_effort = true;
    local = wp_local_create(&rig->config, &err);
    made = local != NULL;
    wp_local_destroy(local);
    return made ? 0 : 7;
}

static void
test_refused_where_not_enforced(void **state)
{
    static struct local_rig rig;
    int status = -1;
    pid_t pid;

    (void)state;
    if (geteuid() != 0) {
        print_message("SKIP: not root\n");
        return;
    }
    local_rig_init_runtime(&rig);
    assert_int_equal(chown(rig.dir, NOBODY, NOBODY), 0);
    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        int result = start_without_groups(&rig);

        (void)fflush(stdout);
        _exit(result);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    local_rig_fini(&rig);
}

static void
test_default_memory(void **state)
{
    static struct local_rig rig;

    (void)state;
    if (!host.limit_memory) {
        print_message("SKIP: no memory controller here\n");
        return;
    }
    local_rig_init_runtime(&rig);
    rig.tmpl.memory_bytes = 0;
    rig.config.memory_default = UINT64_C(64) << 20;
    local_rig_start_one(&rig);
    local_rig_check_inside(
        &rig,
        "python3 -c \"x=bytearray(200<<20);print(len(x))\" 2>/dev/null;"
        " echo status $?",
        "status 137");
    local_rig_fini(&rig);
}

/* The program ends for another reason, long after one of its children had run
 * out of memory. */
static void
test_old_kill_is_no_reason(void **state)
{
    static const char end[] =
        "POST /execute HTTP/1.1\r\nHost: x\r\nContent-Type: application/json"
        "\r\nContent-Length: 35\r\n\r\n{\"command\":\"sh -c 'kill -9 $PPID'\"}";
    static struct local_rig rig;
    int fd;

    (void)state;
    if (!host.limit_memory) {
        print_message("SKIP: no memory controller here\n");
        return;
    }
    local_rig_init_runtime(&rig);
    rig.tmpl.memory_bytes = UINT64_C(64) << 20;
    rig.config.probe_every_ms = 20;
    rig.config.probe_timeout_ms = PATIENCE_MS;
    local_rig_start_one(&rig);
    local_rig_check_inside(
        &rig,
        "python3 -c \"x=bytearray(200<<20);print(len(x))\" 2>/dev/null;"
        " echo status $?",
        "status 137");
    /* Until probes have come and gone: connections accepted, as the kernel
     * counts them. One is sent when the one before has been answered. */
    local_rig_check_inside(
        &rig,
        "python3 -c \"\n"
        "import time\n"
        "def seen():\n"
        "  with open(__import__(str().join(map(chr,(111,115)))).path.join("
        "chr(47),*[bytes(b).decode() for b in"
        " ((112,114,111,99),(110,101,116),(115,110,109,112))])) as f:\n"
        "    t=[l.split() for l in f if l.startswith(chr(84)+chr(99))]\n"
        "    return int(t[1][6])\n"
        "first=seen()\n"
        "end=time.monotonic()+60\n"
        "while seen()<first+3 and time.monotonic()<end: time.sleep(0.01)\n"
        "print(seen()>=first+3)\n"
        "\"",
        "True");
    fd = local_rig_send(&rig, 0, end);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    (void)close(fd);
    if (strstr(rig.slots[0].reason, "memory") != NULL ||
        strstr(rig.slots[0].reason, "SIGKILL") == NULL) {
        fail_msg("the reason is: %s", rig.slots[0].reason);
    }
    local_rig_fini(&rig);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_where_not_enforced),
        cmocka_unit_test(test_default_memory),
        cmocka_unit_test(test_old_kill_is_no_reason),
    };

    if (!local_rig_begin(argc, argv, &host)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
