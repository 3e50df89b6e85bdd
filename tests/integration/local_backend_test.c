/* tests/integration/local_backend_test.c - real sandboxes: their life, their
 * walls, their limits, and what is left of them. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/backend_local.h"
#include "local/rootfs.h"
#include "pool/base/clock.h"
#include "pool/base/log.h"
#include "tests/support/local_rig.h"

static const char *const runtime[] = {"warmpool-runtime", "--port",     "8080",
                                      "--workspace",      "/workspace", NULL};

static struct wp_host_report host;

/* A generous limit: the machine may be busy. What must be fast is checked apart. */
enum {
    PATIENCE_MS = 120000
};

static void
use_runtime(struct local_rig *rig)
{
    local_rig_init(rig, runtime);
    rig->tmpl.probe = WP_READY_HTTP;
    rig->tmpl.probe_path = "/healthz";
}

static void
start_one(struct local_rig *rig)
{
    local_rig_start(rig);
    local_rig_create(rig, 0, PATIENCE_MS);
    local_rig_wait(rig, 0, RIG_READY_OR_LOST, PATIENCE_MS);
    if (rig->slots[0].lost != 0) {
        fail_msg("lost: %s", rig->slots[0].reason);
    }
}

static bool
sandbox_dir_exists(struct local_rig *rig, uint32_t index)
{
    char path[128];
    char name[16];

    local_rig_name(index, name);
    (void)snprintf(path, sizeof path, "%s/sandboxes/%s", rig->state_dir, name);
    return access(path, F_OK) == 0;
}

/* --- Life --- */

/* Eight become ready, answer, and leave neither process nor directory. */
static void
test_eight_ready_and_gone(void **state)
{
    static struct local_rig rig;
    static char answer[4096];
    int outer[8];
    int inner[8];
    struct wp_local_stats stats;

    (void)state;
    use_runtime(&rig);
    local_rig_start(&rig);
    for (uint32_t i = 0; i < 8; i++) {
        local_rig_create(&rig, i, PATIENCE_MS);
    }
    for (uint32_t i = 0; i < 8; i++) {
        local_rig_wait(&rig, i, RIG_READY, PATIENCE_MS);
        (void)local_rig_request(&rig, i,
                                "GET /healthz HTTP/1.1\r\nHost: x\r\n"
                                "Connection: close\r\n\r\n",
                                answer, sizeof answer);
        assert_non_null(strstr(answer, "HTTP/1.1 200"));
        local_rig_pids(&rig, i, &outer[i], &inner[i]);
        assert_true(local_rig_alive(inner[i]));
    }
    wp_local_stats(rig.local, &stats);
    assert_int_equal(stats.ready, 8);
    for (uint32_t i = 0; i < 8; i++) {
        local_rig_destroy(&rig, i);
        local_rig_destroy(&rig, i); /* Idempotent. */
    }
    for (uint32_t i = 0; i < 8; i++) {
        local_rig_wait(&rig, i, RIG_DESTROYED, PATIENCE_MS);
        assert_false(local_rig_alive(outer[i]));
        assert_false(local_rig_alive(inner[i]));
        assert_false(sandbox_dir_exists(&rig, i));
        assert_int_equal(rig.slots[i].destroyed, 1);
        assert_int_equal(rig.slots[i].ready, 1);
        assert_int_equal(rig.slots[i].lost, 0);
    }
    wp_local_stats(rig.local, &stats);
    assert_int_equal(stats.ready + stats.dying + stats.starting + stats.queued,
                     0);
    local_rig_fini(&rig);
}

/* Destroying at any moment of the start reports one end each. */
static void
test_destroy_while_starting(void **state)
{
    static struct local_rig rig;

    (void)state;
    use_runtime(&rig);
    rig.config.spawns_max = 4;
    local_rig_start(&rig);
    for (uint32_t i = 0; i < 24; i++) {
        local_rig_create(&rig, i, PATIENCE_MS);
        (void)usleep(i * 500);
        local_rig_destroy(&rig, i);
    }
    for (uint32_t i = 0; i < 24; i++) {
        local_rig_wait(&rig, i, RIG_DESTROYED, PATIENCE_MS);
        assert_int_equal(rig.slots[i].destroyed, 1);
        assert_false(sandbox_dir_exists(&rig, i));
    }
    local_rig_fini(&rig);
}

/* The program's end is reported at once, with its status and last words. */
static void
test_exit_is_told(void **state)
{
    static const char *const argv[] = {
        "/bin/sh", "-c", "echo cannot find my keys; exit 3", NULL};
    static struct local_rig rig;

    (void)state;
    local_rig_init(&rig, argv);
    local_rig_start(&rig);
    local_rig_create(&rig, 0, PATIENCE_MS);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_string_equal(rig.slots[0].reason,
                        "exited with status 3: cannot find my keys");
    assert_int_equal(rig.slots[0].ready, 0);
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    local_rig_fini(&rig);
}

static void
test_missing_program_is_told(void **state)
{
    static const char *const argv[] = {"no-such-program", NULL};
    static struct local_rig rig;

    (void)state;
    local_rig_init(&rig, argv);
    local_rig_start(&rig);
    local_rig_create(&rig, 0, PATIENCE_MS);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_string_equal(
        rig.slots[0].reason,
        "cannot start 'no-such-program': No such file or directory");
    local_rig_fini(&rig);
}

/* A program that never listens is lost when its time is over. */
static void
test_never_ready(void **state)
{
    static const char *const argv[] = {"/bin/sleep", "1000", NULL};
    static struct local_rig rig;

    (void)state;
    local_rig_init(&rig, argv);
    local_rig_start(&rig);
    local_rig_create(&rig, 0, 300);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_string_equal(rig.slots[0].reason, "its port did not answer in time");
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    local_rig_fini(&rig);
}

/* SIGKILL from outside, to process 1 or to bwrap, is noticed at once. */
static void
test_killed_is_noticed(void **state)
{
    static struct local_rig rig;
    int outer;
    int inner;

    (void)state;
    use_runtime(&rig);
    local_rig_start(&rig);
    for (uint32_t i = 0; i < 2; i++) {
        local_rig_create(&rig, i, PATIENCE_MS);
        local_rig_wait(&rig, i, RIG_READY, PATIENCE_MS);
        local_rig_pids(&rig, i, &outer, &inner);
        assert_int_equal(kill(i == 0 ? inner : outer, SIGKILL), 0);
        local_rig_wait(&rig, i, RIG_LOST, PATIENCE_MS);
        local_rig_destroy(&rig, i);
        local_rig_wait(&rig, i, RIG_DESTROYED, PATIENCE_MS);
        assert_false(local_rig_alive(outer));
        assert_false(local_rig_alive(inner));
    }
    local_rig_fini(&rig);
}

/* Alive but deaf: found by the liveness probe. */
static void
test_deaf_is_noticed(void **state)
{
    static const char *const argv[] = {
        "/usr/bin/python3", "-c",
        "import socket,time\n"
        "s=socket.socket()\n"
        "s.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\n"
        "s.bind(('127.0.0.1',8080))\n"
        "s.listen()\n"
        "time.sleep(3)\n"
        "s.close()\n"
        "time.sleep(1000)\n",
        NULL};
    static struct local_rig rig;

    (void)state;
    local_rig_init(&rig, argv);
    rig.config.probe_every_ms = 40;
    start_one(&rig);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_string_equal(rig.slots[0].reason,
                        "its port does not answer, 3 times in a row");
    local_rig_fini(&rig);
}

/* A sandbox destroyed while its readiness is looked at: the answer that comes in
 * its grace makes nothing ready again, and its end is reported. */
static void
test_destroy_during_readiness_check(void **state)
{
    static const char *const argv[] = {
        "/usr/bin/python3", "-c",
        "import http.server,signal,time\n"
        "signal.signal(signal.SIGTERM,signal.SIG_IGN)\n"
        "n=0\n"
        "class H(http.server.BaseHTTPRequestHandler):\n"
        "  def do_GET(self):\n"
        "    global n\n"
        "    n+=1\n"
        "    if n==2:\n"
        "      open('/workspace/second','w').close(); time.sleep(2)\n"
        "    self.send_response(200); self.end_headers()\n"
        "http.server.HTTPServer(('127.0.0.1',8080),H).serve_forever()\n",
        NULL};
    static struct local_rig rig;
    struct wp_local_stats stats;
    char path[128];
    int outer = 0;
    int inner = 0;

    (void)state;
    if (geteuid() != 0) {
        print_message("not checked: looking into a sandbox needs root\n");
        return;
    }
    local_rig_init(&rig, argv);
    rig.tmpl.probe = WP_READY_HTTP;
    rig.tmpl.probe_path = "/";
    rig.config.stop_grace_ms = 5000;
    local_rig_start(&rig);
    local_rig_create(&rig, 0, PATIENCE_MS);
    (void)snprintf(path, sizeof path, "%s/sandboxes/p-00000000/record",
                   rig.state_dir);
    for (int i = 0; i < PATIENCE_MS && access(path, F_OK) != 0; i++) {
        (void)usleep(1000);
    }
    local_rig_pids(&rig, 0, &outer, &inner);
    (void)snprintf(path, sizeof path, "/proc/%d/root/workspace/second", inner);
    for (int i = 0; i < PATIENCE_MS && access(path, F_OK) != 0; i++) {
        (void)usleep(1000);
    }
    assert_int_equal(access(path, F_OK), 0);
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    assert_int_equal(rig.slots[0].ready, 0);
    assert_int_equal(rig.slots[0].lost, 0);
    wp_local_stats(rig.local, &stats);
    assert_int_equal(stats.ready, 0);
    local_rig_fini(&rig);
}

/* With a grace the program hears SIGTERM and may end by itself. */
static void
test_grace(void **state)
{
    static const char *const argv[] = {
        "/bin/sh", "-c",
        "trap \"exit 0\" TERM; python3 -m http.server 8080 & wait", NULL};
    static struct local_rig rig;

    (void)state;
    local_rig_init(&rig, argv);
    rig.config.stop_grace_ms = PATIENCE_MS;
    start_one(&rig);
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS / 2);
    local_rig_fini(&rig);
}

/* --- Walls --- */

static void
check_inside(struct local_rig *rig, const char *command, const char *expected)
{
    static char out[64 << 10];

    (void)local_rig_execute(rig, 0, command, out, sizeof out);
    out[strcspn(out, "\n")] = '\0';
    if (strcmp(out, expected) != 0) {
        fail_msg("inside, '%s' printed '%s', not '%s'", command, out, expected);
    }
}

static void
test_isolation(void **state)
{
    static struct local_rig rig;
    char command[256];

    (void)state;
    use_runtime(&rig);
    rig.config.tmpfs_bytes = 1 << 20;
    rig.tmpl.memory_bytes = 0;
    start_one(&rig);
    check_inside(&rig, "id -u", "1000");
    check_inside(&rig, "hostname", "p-00000000");
    check_inside(&rig, "echo $WARMPOOL_SANDBOX_UID",
                 "00000000000000000000000000000000");
    check_inside(&rig, "cat /etc/shadow 2>/dev/null || echo hidden", "hidden");
    check_inside(&rig, "ls /root /home /run | grep -v : | tr -d \"\\n\"", "");
    check_inside(&rig, "test -e /sys && echo seen || echo hidden", "hidden");
    (void)snprintf(command, sizeof command,
                   "test -e %s && echo seen || echo hidden", rig.dir);
    check_inside(&rig, command, "hidden");
    check_inside(&rig, "find / -xdev -type s 2>/dev/null | wc -l", "0");
    /* Process 1, the runtime, and the shell with its helpers: nobody else. */
    check_inside(&rig,
                 "n=0; for p in /proc/[0-9]*; do n=$((n+1)); done;"
                 " test $n -le 4 && echo few || echo $n",
                 "few");
    check_inside(&rig, "touch /usr/x /etc/x /x /dev/x 2>/dev/null; echo $?",
                 "1");
    check_inside(&rig, "touch /tmp/x /workspace/x /dev/shm/x; echo $?", "0");
    check_inside(&rig, "grep CapBnd /proc/self/status | tr -d \"\\t\"",
                 "CapBnd:0000000000000000");
    check_inside(&rig, "grep CapEff /proc/self/status | tr -d \"\\t\"",
                 "CapEff:0000000000000000");
    check_inside(&rig, "grep NoNewPrivs /proc/self/status | tr -d \"\\t\"",
                 "NoNewPrivs:1");
    check_inside(&rig, "grep Seccomp: /proc/self/status | tr -d \"\\t\"",
                 "Seccomp:2");
    check_inside(&rig,
                 "unshare -Ur true 2>/dev/null && echo new || echo refused",
                 "refused");
    check_inside(&rig, "kill -9 1 2>/dev/null; test -d /proc/1 && echo alive",
                 "alive");
    check_inside(&rig, "cat /proc/1/environ 2>/dev/null || echo closed",
                 "closed");
    check_inside(&rig, "ls /proc/1/fd 2>/dev/null || echo closed", "closed");
    check_inside(
        &rig, "cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d \" \\n\"", "lo");
    check_inside(&rig,
                 "dd if=/dev/zero of=/workspace/big bs=64k count=64 2>/dev/null"
                 " || echo full",
                 "full");
    local_rig_fini(&rig);
}

/* System calls from a real program: refused as the filter says. */
static void
test_system_calls(void **state)
{
    static struct local_rig rig;

    (void)state;
    use_runtime(&rig);
    start_one(&rig);
    check_inside(
        &rig,
        "python3 -c \"\n"
        "import socket,errno\n"
        "r=[]\n"
        "for f in (40,17,38,2,10,1):\n"
        "  try:\n"
        "    socket.socket(f,socket.SOCK_STREAM).close(); r.append(0)\n"
        "  except OSError as e: r.append(e.errno)\n"
        "print(r)\n"
        "\"",
        "[97, 97, 97, 0, 0, 0]");
    check_inside(&rig,
                 "python3 -c \"\n"
                 "import ctypes\n"
                 "l=ctypes.CDLL(None,use_errno=True)\n"
                 "r=[]\n"
                 "for n in (425,321,250,165,272,323,435,1000):\n"
                 "  l.syscall(n,0,0,0,0,0,0); r.append(ctypes.get_errno())\n"
                 "print(r)\n"
                 "\"",
#if defined(__x86_64__)
                 /* io_uring_setup, bpf, keyctl, mount, unshare, userfaultfd,
                  * clone3, and one that does not exist yet. */
                 "[38, 1, 1, 1, 1, 1, 38, 38]");
#else
                 "");
#endif
    check_inside(&rig,
                 "python3 -c \"\n"
                 "import socket\n"
                 "s=socket.socket()\n"
                 "s.settimeout(3)\n"
                 "print(s.connect_ex((chr(49)+chr(46)+chr(49)+chr(46)+chr(49)"
                 "+chr(46)+chr(49),80)))\n"
                 "\"",
                 "101");
    local_rig_fini(&rig);
}

/* Common tools work inside. */
static void
test_tools_work(void **state)
{
    static struct local_rig rig;

    (void)state;
    use_runtime(&rig);
    start_one(&rig);
    check_inside(&rig, "python3 -c \"print(6*7)\"", "42");
    check_inside(
        &rig,
        "python3 -c \"import subprocess as s;"
        "print(s.run([chr(116)+chr(114)+chr(117)+chr(101)]).returncode)\"",
        "0");
    if (access("/usr/bin/git", X_OK) == 0) {
        check_inside(&rig, "git init -q r && cd r && git status -s; echo $?",
                     "0");
    }
    if (access("/usr/bin/gcc", X_OK) == 0) {
        check_inside(&rig,
                     "echo \"int main(void){return 7;}\" > a.c &&"
                     " gcc a.c -o a.out && ./a.out; echo $?",
                     "7");
    }
    if (access("/usr/bin/node", X_OK) == 0) {
        check_inside(&rig, "node -e \"console.log(6*7)\"", "42");
    }
    local_rig_fini(&rig);
}

/* An image from a directory, with one static program and no libraries; and
 * nothing of the machine's own root beside it. */
static void
test_image_directory(void **state)
{
    static const char *const argv[] = {"/app/server", "8080", NULL};
    static const struct wp_template_mount data = {"/data/in", 1 << 20, false};
    static struct local_rig rig;
    static char answer[4096];
    struct wp_err err;
    char path[128];

    (void)state;
    local_rig_init(&rig, argv);
    (void)snprintf(path, sizeof path, "%s/img/my/app/app", rig.dir);
    assert_int_equal(wp_dir_make(path, 0755, &err), WP_OK);
    (void)snprintf(path, sizeof path, "%s/img/my/app/app/server", rig.dir);
    assert_int_equal(wp_file_copy(WP_TEST_STATIC_SERVER, path, 0755, &err),
                     WP_OK);
    (void)snprintf(path, sizeof path, "%s/img", rig.dir);
    rig.config.rootfs_dir = path;
    rig.tmpl.image = "my/app";
    rig.tmpl.mounts = &data;
    rig.tmpl.mounts_len = 1;
    start_one(&rig);
    (void)local_rig_request(&rig, 0, "x", answer, sizeof answer);
    assert_non_null(strstr(answer, "/app\n"));
    assert_non_null(strstr(answer, "/data\n"));
    assert_non_null(strstr(answer, "/workspace\n"));
    assert_null(strstr(answer, "/usr\n"));
    assert_null(strstr(answer, "/etc\n"));
    local_rig_fini(&rig);
}

/* A probe that is answered, but not healthily, makes no sandbox ready. */
static void
test_unhealthy(void **state)
{
    static struct local_rig rig;

    (void)state;
    use_runtime(&rig);
    rig.tmpl.probe_path = "/no-such-page";
    local_rig_start(&rig);
    local_rig_create(&rig, 0, 1500);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_string_equal(rig.slots[0].reason,
                        "its port gave no healthy answer in time");
    local_rig_fini(&rig);
}

/* --- Limits --- */

static void
test_fork_bomb_is_stopped(void **state)
{
    static struct local_rig rig;

    (void)state;
    use_runtime(&rig);
    rig.config.pids_max = 64;
    start_one(&rig);
    check_inside(&rig,
                 "python3 -c \"\n"
                 "import os,time,errno\n"
                 "n=0\n"
                 "try:\n"
                 "  while n<1000:\n"
                 "    if os.fork()==0:\n"
                 "      os.close(1); os.close(2); time.sleep(600)\n"
                 "    n+=1\n"
                 "except OSError as e:\n"
                 "  print(e.errno==errno.EAGAIN, 40<n<64)\n"
                 "\" 2>/dev/null",
                 "True True");
    local_rig_fini(&rig);
}

static void
test_memory_hog_is_killed(void **state)
{
    static struct local_rig rig;

    (void)state;
    if (!host.limit_memory) {
        print_message("not checked: no memory controller here\n");
        return;
    }
    use_runtime(&rig);
    rig.tmpl.memory_bytes = UINT64_C(64) << 20;
    start_one(&rig);
    check_inside(
        &rig,
        "python3 -c \"x=bytearray(200<<20);print(len(x))\" 2>/dev/null;"
        " echo status $?",
        "status 137");
    check_inside(&rig, "echo still here", "still here");
    assert_int_equal(rig.slots[0].lost, 0);
    local_rig_fini(&rig);
}

/* --- What is left --- */

/* Runs as a process of its own: four sandboxes, then waits to be killed. */
static int
child_main(const char *state_dir, bool outlive)
{
    static struct local_rig rig;

    use_runtime(&rig);
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

    use_runtime(&rig);
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
        assert_true(sandbox_dir_exists(&rig, i));
    }
    local_rig_start(&rig);
    assert_int_equal(rig.sweep.sandboxes, 4);
    assert_int_equal(rig.sweep.killed, outlive ? 4 : 0);
    assert_int_equal(rig.sweep.failed, 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_false(local_rig_alive(inner[i]));
        assert_false(local_rig_alive(outer[i]));
        assert_false(sandbox_dir_exists(&rig, i));
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
    use_runtime(&rig);
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

/* stop() destroys what lives and reports each end. */
static void
test_stop_with_live_sandboxes(void **state)
{
    static struct local_rig rig;

    (void)state;
    use_runtime(&rig);
    local_rig_start(&rig);
    for (uint32_t i = 0; i < 6; i++) {
        local_rig_create(&rig, i, PATIENCE_MS);
    }
    local_rig_wait(&rig, 0, RIG_READY, PATIENCE_MS);
    assert_int_equal(wp_local_stop(rig.local, 20 * WP_NS_PER_S), 0);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(rig.slots[i].destroyed, 1);
        assert_false(sandbox_dir_exists(&rig, i));
    }
    local_rig_fini(&rig);
}

/* --- Refusals --- */

static void
refused(struct local_rig *rig, const char *words)
{
    struct wp_err err = {.msg = ""};
    struct wp_local *local = wp_local_create(&rig->config, &err);

    assert_null(local);
    if (strstr(err.msg, words) == NULL) {
        fail_msg("'%s' does not say '%s'", err.msg, words);
    }
}

static void
test_second_daemon_is_refused(void **state)
{
    static struct local_rig rig;

    (void)state;
    use_runtime(&rig);
    local_rig_start(&rig);
    refused(&rig, "another daemon uses the state directory");
    local_rig_fini(&rig);
}

static void
test_bwrap_missing(void **state)
{
    static struct local_rig rig;
    struct wp_host_report report;
    struct wp_err err;

    (void)state;
    use_runtime(&rig);
    rig.config.bwrap_path = "/nonexistent/bwrap";
    refused(&rig, "bubblewrap is missing");
    assert_int_equal(wp_local_probe(&rig.config, &report, &err),
                     WP_FAILED_PRECONDITION);
    assert_non_null(strstr(err.msg, "install the package 'bubblewrap'"));
    local_rig_fini(&rig);
}

/* What bwrap says where user namespaces are switched off. */
static void
test_namespaces_forbidden(void **state)
{
    static struct local_rig rig;
    char path[96];
    FILE *file;

    (void)state;
    use_runtime(&rig);
    (void)snprintf(path, sizeof path, "%s/bwrap", rig.dir);
    file = fopen(path, "we");
    assert_non_null(file);
    (void)fputs("#!/bin/sh\n"
                "[ \"$1\" = --version ] && { echo bubblewrap 0.8.0; exit 0; }\n"
                "echo \"bwrap: No permissions to create new namespace, likely"
                " because the kernel does not allow non-privileged user"
                " namespaces.\" >&2\n"
                "exit 1\n",
                file);
    (void)fclose(file);
    assert_int_equal(chmod(path, 0755), 0);
    rig.config.bwrap_path = path;
    refused(&rig, "user namespaces are forbidden on this machine");
    local_rig_fini(&rig);
}

static void
test_bad_images(void **state)
{
    static struct local_rig rig;

    (void)state;
    use_runtime(&rig);
    rig.tmpl.image = "python:3.12";
    refused(&rig, "no rootfs directory is set");
    rig.config.rootfs_dir = rig.dir;
    refused(&rig, "image 'python:3.12' is not a directory in");
    rig.tmpl.image = "../../etc";
    refused(&rig, "is not a name below the rootfs directory");
    local_rig_fini(&rig);
}

static void
test_runtime_classes(void **state)
{
    static struct local_rig rig;

    (void)state;
    use_runtime(&rig);
    rig.tmpl.runtime_class = WP_RUNTIME_GVISOR;
    rig.config.runsc_path = "/nonexistent/runsc";
    refused(&rig,
            "template t: runtimeClassName gvisor: runsc is not installed");
    rig.config.runsc_path = "/bin/true";
    refused(&rig, "template t: runtimeClassName gvisor: a trial sandbox of"
                  " /bin/true did not run");
    local_rig_fini(&rig);
}

static void
test_bad_orders(void **state)
{
    static struct local_rig rig;
    const uint8_t uid[WP_UID_LEN] = {0};
    struct wp_err err;
    struct wp_sandbox_order order = {
        .ref = {0, 1},
        .pool_namespace = WP_STR("default"),
        .template_name = WP_STR("t"),
        .name = WP_STR("../escape"),
        .uid = uid,
        .ready_within_ns = WP_NS_PER_S,
    };

    (void)state;
    use_runtime(&rig);
    rig.config.sandboxes_max = 1;
    local_rig_start(&rig);
    assert_int_equal(rig.backend.ops->create(rig.backend.self, &order, &err),
                     WP_INVALID_ARGUMENT);
    order.name = WP_STR("p-1");
    order.template_name = WP_STR("unknown");
    assert_int_equal(rig.backend.ops->create(rig.backend.self, &order, &err),
                     WP_NOT_FOUND);
    local_rig_create(&rig, 0, PATIENCE_MS);
    order.template_name = WP_STR("t");
    order.ref.index = 1;
    assert_int_equal(rig.backend.ops->create(rig.backend.self, &order, &err),
                     WP_RESOURCE_EXHAUSTED);
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    local_rig_create(&rig, 1, PATIENCE_MS);
    /* Never heard of: no report, no harm. */
    local_rig_destroy(&rig, 7);
    local_rig_wait(&rig, 1, RIG_READY, PATIENCE_MS);
    local_rig_fini(&rig);
}

/* A state directory without room: the order fails with the reason, nothing is
 * left of it, and it works again once there is room. */
static void
test_full_disk(void **state)
{
    static struct local_rig rig;
    char path[128];
    int files = 0;

    (void)state;
    if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) {
        print_message("not checked: mounting needs root\n");
        return;
    }
    use_runtime(&rig);
    assert_int_equal(mkdir(rig.state_dir, 0755), 0);
    assert_int_equal(mount("none", rig.state_dir, "tmpfs", 0,
                           "size=64m,nr_inodes=20000,mode=755"),
                     0);
    local_rig_start(&rig);
    for (;;) {
        int fd;

        (void)snprintf(path, sizeof path, "%s/filler%d", rig.state_dir, files);
        fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0) {
            break;
        }
        (void)close(fd);
        files++;
    }
    assert_int_equal(errno, ENOSPC);
    local_rig_create(&rig, 0, PATIENCE_MS);
    local_rig_wait(&rig, 0, RIG_LOST, PATIENCE_MS);
    assert_non_null(strstr(rig.slots[0].reason, "No space left on device"));
    local_rig_destroy(&rig, 0);
    local_rig_wait(&rig, 0, RIG_DESTROYED, PATIENCE_MS);
    assert_false(sandbox_dir_exists(&rig, 0));
    while (files-- > 0) {
        (void)snprintf(path, sizeof path, "%s/filler%d", rig.state_dir, files);
        (void)unlink(path);
    }
    local_rig_create(&rig, 1, PATIENCE_MS);
    local_rig_wait(&rig, 1, RIG_READY, PATIENCE_MS);
    assert_int_equal(wp_local_stop(rig.local, 20 * WP_NS_PER_S), 0);
    wp_local_destroy(rig.local);
    rig.local = NULL;
    assert_int_equal(umount2(rig.state_dir, MNT_DETACH), 0);
    local_rig_fini(&rig);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eight_ready_and_gone),
        cmocka_unit_test(test_destroy_while_starting),
        cmocka_unit_test(test_exit_is_told),
        cmocka_unit_test(test_missing_program_is_told),
        cmocka_unit_test(test_never_ready),
        cmocka_unit_test(test_killed_is_noticed),
        cmocka_unit_test(test_deaf_is_noticed),
        cmocka_unit_test(test_destroy_during_readiness_check),
        cmocka_unit_test(test_grace),
        cmocka_unit_test(test_isolation),
        cmocka_unit_test(test_system_calls),
        cmocka_unit_test(test_tools_work),
        cmocka_unit_test(test_image_directory),
        cmocka_unit_test(test_unhealthy),
        cmocka_unit_test(test_fork_bomb_is_stopped),
        cmocka_unit_test(test_memory_hog_is_killed),
        cmocka_unit_test(test_daemon_killed),
        cmocka_unit_test(test_daemon_killed_sandboxes_outlive),
        cmocka_unit_test(test_sweep_spares_reused_pid),
        cmocka_unit_test(test_stop_with_live_sandboxes),
        cmocka_unit_test(test_second_daemon_is_refused),
        cmocka_unit_test(test_bwrap_missing),
        cmocka_unit_test(test_namespaces_forbidden),
        cmocka_unit_test(test_bad_images),
        cmocka_unit_test(test_runtime_classes),
        cmocka_unit_test(test_bad_orders),
        cmocka_unit_test(test_full_disk), /* Last: it changes our mounts. */
    };
    struct wp_local_config config;
    struct wp_err err;

    wp_log_configure(WP_LOG_ERROR, WP_LOG_TEXT);
    if (argc == 3) {
        return child_main(argv[2], strcmp(argv[1], "--outlive") == 0);
    }
    wp_local_config_init(&config);
    if (wp_local_probe(&config, &host, &err) != WP_OK) {
        (void)printf("SKIP: %s\n", err.msg);
        return 77;
    }
    if (argc == 2) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
