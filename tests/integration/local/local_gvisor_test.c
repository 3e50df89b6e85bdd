/* tests/integration/local/local_gvisor_test.c - sandboxes of `runtimeClassName:
 * gvisor`: they run behind gVisor's kernel, walled in, and leave nothing. */
#include <dirent.h>
#include <errno.h>
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

#include "local/sandbox/backend_local.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"
#include "tests/support/local/local_rig.h"

static struct wp_host_report host;

enum {
    TREE_MAX = 512,
};

struct tree {
    int pids[TREE_MAX];
    size_t len;
};

static void
use_runtime(struct local_rig *rig)
{
    local_rig_init_runtime(rig);
    rig->tmpl.runtime_class = WP_RUNTIME_GVISOR;
}

static int
parent_of(int pid)
{
    char path[32];
    char text[512];
    const char *at;
    int parent = 0;
    FILE *file;
    size_t n;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    n = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[n] = '\0';
    at = strrchr(text, ')');
    if (at == NULL || sscanf(at, ") %*c %d", &parent) != 1) {
        return 0;
    }
    return parent;
}

static bool
holds(const struct tree *tree, int pid)
{
    for (size_t i = 0; i < tree->len; i++) {
        if (tree->pids[i] == pid) {
            return true;
        }
    }
    return false;
}

/* A process and all below it, as the machine sees them. */
static void
find_tree(int root, struct tree *tree)
{
    size_t before;

    tree->pids[0] = root;
    tree->len = 1;
    do {
        struct dirent *entry;
        DIR *dir = opendir("/proc");

        assert_non_null(dir);
        before = tree->len;
        while ((entry = readdir(dir)) != NULL && tree->len < TREE_MAX) {
            int pid = atoi(entry->d_name);

            if (pid > 1 && !holds(tree, pid) && holds(tree, parent_of(pid))) {
                tree->pids[tree->len++] = pid;
            }
        }
        (void)closedir(dir);
    } while (tree->len > before);
    assert_in_range(tree->len, 5, TREE_MAX - 1);
}

/* To the machine, all of it runs as a sandbox's user, never as root. */
static void
check_users(const struct tree *tree, uint32_t first)
{
    for (size_t i = 0; i < tree->len; i++) {
        char path[32];
        FILE *file;
        char line[128] = "";
        unsigned uid = 0;

        (void)snprintf(path, sizeof path, "/proc/%d/status", tree->pids[i]);
        file = fopen(path, "re");
        if (file == NULL) {
            continue; /* Ended meanwhile. */
        }
        while (fgets(line, sizeof line, file) != NULL &&
               sscanf(line, "Uid: %u", &uid) != 1) {
        }
        (void)fclose(file);
        assert_int_not_equal(uid, 0);
        assert_true(geteuid() != 0 || uid >= first);
    }
}

static void
wait_tree_gone(const struct tree *tree)
{
    for (size_t i = 0; i < tree->len; i++) {
        local_rig_wait_gone(tree->pids[i], PATIENCE_MS);
    }
}

/* Inside it is gVisor's kernel, with the same walls as without it. */
static void
test_inside(void **state)
{
    static const struct wp_template_mount mounts[] = {
        {.path = "/data", .size_bytes = 1 << 20},
        {.path = "/fixed", .size_bytes = 1 << 20, .read_only = true},
    };
    static const char *const env[] = {"COLOUR=\"blue\"", "LANG=C", NULL};
    static struct local_rig rig;
    char secret[128];
    char command[256];
    FILE *file;

    (void)state;
    use_runtime(&rig);
    rig.tmpl.mounts = mounts;
    rig.tmpl.mounts_len = 2;
    rig.tmpl.env = env;
    (void)snprintf(secret, sizeof secret, "%s/secret", rig.dir);
    file = fopen(secret, "we");
    assert_non_null(file);
    (void)fclose(file);
    local_rig_start_one(&rig);
    local_rig_check_inside(&rig, "dmesg | grep -c \"Starting gVisor\"", "1");
    local_rig_check_inside(&rig, "cut -d\" \" -f1-3 /proc/version",
                           "Linux version 4.4.0");
    local_rig_check_inside(&rig, "id -u; id -g", "1000");
    local_rig_check_inside(&rig, "grep CapBnd /proc/self/status",
                           "CapBnd:\t0000000000000000");
    local_rig_check_inside(&rig, "hostname", "p-00000000");
    local_rig_check_inside(&rig, "echo $WARMPOOL_SANDBOX $WARMPOOL_SANDBOX_UID",
                           "p-00000000 00000000000000000000000000000000");
    local_rig_check_inside(&rig, "echo $COLOUR $LANG; pwd", "\"blue\" C");
    local_rig_check_inside(&rig, "pwd", "/workspace");
    /* Nothing but its own places can be written. */
    local_rig_check_inside(&rig, "(echo x >/x) 2>/dev/null || echo no", "no");
    local_rig_check_inside(&rig, "(echo x >/usr/x) 2>/dev/null || echo no",
                           "no");
    local_rig_check_inside(
        &rig, "(echo x >/opt/warmpool/bin/x) 2>/dev/null || echo no", "no");
    local_rig_check_inside(&rig, "(echo x >/fixed/x) 2>/dev/null || echo no",
                           "no");
    local_rig_check_inside(&rig, "grep -c \" / .* ro[, ]\" /proc/mounts", "1");
    local_rig_check_inside(
        &rig,
        "for d in /tmp /workspace /data /dev/shm; do echo x >$d/x &&"
        " cat $d/x; done | tr -d \"\\n\"",
        "xxxx");
    local_rig_check_inside(
        &rig, "head -c 3000000 /dev/zero >/data/big 2>/dev/null || echo full",
        "full");
    /* Neither the machine's files nor the wall's. */
    (void)snprintf(command, sizeof command,
                   "for p in %s /rootfs /bundle /runsc /etc/shadow; do"
                   " test -e $p && echo $p; done; echo none",
                   secret);
    local_rig_check_inside(&rig, command, "none");
    local_rig_check_inside(
        &rig, "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d \" \\n\"", "lo");
    local_rig_check_inside(
        &rig,
        "python3 -c \"import socket;s=socket.socket();"
        "s.settimeout(3);print(s.connect_ex((\\\"192.0.2.1\\\",80)))\"",
        "101");
    local_rig_fini(&rig);
}

/* Four become ready side by side, and nothing of gVisor's is left of them. */
static void
test_four_ready_and_gone(void **state)
{
    static struct local_rig rig;
    static struct tree trees[4];
    static char answer[4096];
    int outer;
    int inner;

    (void)state;
    use_runtime(&rig);
    local_rig_start(&rig);
    for (uint32_t i = 0; i < 4; i++) {
        local_rig_create(&rig, i, PATIENCE_MS);
    }
    for (uint32_t i = 0; i < 4; i++) {
        local_rig_wait(&rig, i, RIG_READY_OR_LOST, PATIENCE_MS);
        assert_string_equal(rig.slots[i].reason, "");
        (void)local_rig_request(&rig, i,
                                "GET /healthz HTTP/1.1\r\nHost: x\r\n"
                                "Connection: close\r\n\r\n",
                                answer, sizeof answer);
        assert_non_null(strstr(answer, "HTTP/1.1 200"));
        local_rig_pids(&rig, i, &outer, &inner);
        find_tree(outer, &trees[i]);
        assert_true(holds(&trees[i], inner));
        check_users(&trees[i], rig.config.uid_first);
    }
    for (uint32_t i = 0; i < 4; i++) {
        local_rig_destroy(&rig, i);
    }
    for (uint32_t i = 0; i < 4; i++) {
        local_rig_wait(&rig, i, RIG_DESTROYED, PATIENCE_MS);
        assert_int_equal(rig.slots[i].lost, 0);
        wait_tree_gone(&trees[i]);
    }
    local_rig_fini(&rig);
}

static void
expect_lost(const char *const *argv, const char *reason)
{
    static struct local_rig rig;

    local_rig_init(&rig, argv);
    rig.tmpl.runtime_class = WP_RUNTIME_GVISOR;
    local_rig_start(&rig);
    local_rig_create(&rig, 0, PATIENCE_MS);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    if (strstr(rig.slots[0].reason, reason) == NULL) {
        fail_msg("'%s' was expected in '%s'", reason, rig.slots[0].reason);
    }
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    local_rig_fini(&rig);
}

static void
test_end_is_told(void **state)
{
    static const char *const ends[] = {"/bin/sh", "-c", "echo farewell; exit 3",
                                       NULL};
    static const char *const missing[] = {"/nonexistent/program", NULL};

    (void)state;
    expect_lost(ends, "exited with status 3: farewell");
    expect_lost(missing, "/nonexistent/program");
}

/* SIGTERM reaches the program inside, which then has its time. */
static void
test_grace(void **state)
{
    static const char *const argv[] = {
        "/bin/sh", "-c",
        "trap \"exit 0\" TERM; python3 -m http.server 8080 & wait", NULL};
    static struct local_rig rig;
    int64_t before;

    (void)state;
    local_rig_init(&rig, argv);
    rig.tmpl.runtime_class = WP_RUNTIME_GVISOR;
    rig.config.stop_grace_ms = 40000;
    local_rig_start_one(&rig);
    before = wp_clock_mono_ns(wp_clock_system());
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, 30000);
    assert_true(wp_clock_mono_ns(wp_clock_system()) - before <
                30 * WP_NS_PER_S);
    local_rig_fini(&rig);
}

/* What it takes beyond its memory limit ends it, and it alone. */
static void
test_memory_limit(void **state)
{
    static const char *const argv[] = {
        "/usr/bin/python3", "-c",
        "x = bytearray(400 << 20)\nimport time\ntime.sleep(600)", NULL};

    (void)state;
    if (!host.limit_memory) {
        print_message("SKIP: no memory controller here\n");
        skip();
    }
    expect_lost(argv, "out of memory");
}

/* Runs as a process of its own: two sandboxes, then waits to be killed. */
static int
child_main(const char *state_dir)
{
    static struct local_rig rig;

    wp_log_configure(WP_LOG_ERROR, WP_LOG_TEXT);
    use_runtime(&rig);
    (void)rmdir(rig.dir);
    rig.config.state_dir = state_dir;
    rig.config.outlive = true;
    local_rig_start(&rig);
    for (uint32_t i = 0; i < 2; i++) {
        local_rig_create(&rig, i, PATIENCE_MS);
        local_rig_wait(&rig, i, RIG_READY, PATIENCE_MS);
    }
    if (write(STDOUT_FILENO, "r", 1) != 1) {
        return 1;
    }
    for (;;) {
        (void)pause();
    }
}

/* Makes two sandboxes in a daemon of its own and kills it with SIGKILL. */
static void
leave_two(struct local_rig *rig, struct tree trees[2])
{
    int inner;
    int outer;
    int pipes[2];
    char byte;
    pid_t pid;

    use_runtime(rig);
    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    assert_in_range(pid, 0, 1 << 22);
    if (pid == 0) {
        (void)dup2(pipes[1], STDOUT_FILENO);
        (void)close(pipes[0]);
        (void)close(pipes[1]);
        (void)execl("/proc/self/exe", "child", "--child", rig->state_dir,
                    (char *)NULL);
        _exit(127);
    }
    (void)close(pipes[1]);
    assert_int_equal(read(pipes[0], &byte, 1), 1);
    (void)close(pipes[0]);
    for (uint32_t i = 0; i < 2; i++) {
        local_rig_pids(rig, i, &outer, &inner);
        find_tree(outer, &trees[i]);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* After kill -9 of the daemon, the next one sweeps all of them. */
static void
test_sweep(void **state)
{
    static struct local_rig rig;
    static struct tree trees[2];

    (void)state;
    leave_two(&rig, trees);
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.sandboxes, 2);
    assert_int_equal(rig.sweep.failed, 0);
    for (uint32_t i = 0; i < 2; i++) {
        wait_tree_gone(&trees[i]);
    }
    local_rig_fini(&rig);
}

static bool
adopt(void *ctx, const struct wp_local_found *found, struct wp_slot_ref *ref)
{
    struct local_rig *rig = ctx;

    ref->index = found->uid[0];
    ref->generation = 1;
    (void)snprintf(rig->slots[ref->index].endpoint,
                   sizeof rig->slots[0].endpoint, "%.*s",
                   WP_STR_ARG(found->endpoint));
    return true;
}

/* Or adopts them: they serve on, their end is noticed, nothing is left. */
static void
test_adopt(void **state)
{
    static struct local_rig rig;
    static struct tree trees[2];

    (void)state;
    leave_two(&rig, trees);
    rig.adopt = adopt;
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.adopted, 2);
    local_rig_check_inside(&rig, "wc -l </etc/passwd; hostname", "3");
    assert_int_equal(kill(trees[1].pids[0], SIGKILL), 0);
    local_rig_wait(&rig, 1, RIG_LOST, PATIENCE_MS);
    for (uint32_t i = 0; i < 2; i++) {
        local_rig_destroy(&rig, i);
        local_rig_wait(&rig, i, RIG_DESTROYED, PATIENCE_MS);
        wait_tree_gone(&trees[i]);
    }
    assert_int_equal(rig.slots[0].lost, 0);
    local_rig_fini(&rig);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inside),
        cmocka_unit_test(test_four_ready_and_gone),
        cmocka_unit_test(test_end_is_told),
        cmocka_unit_test(test_grace),
        cmocka_unit_test(test_memory_limit),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_adopt),
    };

    if (argc == 3) {
        return child_main(argv[2]);
    }
    if (!local_rig_begin(argc, argv, &host)) {
        return 77;
    }
    if (!host.runsc) {
        (void)printf("SKIP: the package runsc is not installed\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
