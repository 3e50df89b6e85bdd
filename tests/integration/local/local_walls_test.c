/* tests/integration/local/local_walls_test.c - what real sandboxes cannot see, do or
 * use up, and that common tools work in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/sandbox/backend_local.h"
#include "local/walls/rootfs.h"
#include "tests/support/local/local_rig.h"

static struct wp_host_report host;

static void
test_isolation(void **state)
{
    static struct local_rig rig;
    char command[256];

    (void)state;
    local_rig_init_runtime(&rig);
    rig.config.tmpfs_bytes = 1 << 20;
    rig.tmpl.memory_bytes = 0;
    local_rig_start_one(&rig);
    local_rig_check_inside(&rig, "id -u", "1000");
    local_rig_check_inside(&rig, "hostname", "p-00000000");
    local_rig_check_inside(&rig, "echo $WARMPOOL_SANDBOX_UID",
                           "00000000000000000000000000000000");
    local_rig_check_inside(&rig, "cat /etc/shadow 2>/dev/null || echo hidden",
                           "hidden");
    local_rig_check_inside(
        &rig, "ls /root /home /run | grep -v : | tr -d \"\\n\"", "");
    local_rig_check_inside(&rig, "test -e /sys && echo seen || echo hidden",
                           "hidden");
    (void)snprintf(command, sizeof command,
                   "test -e %s && echo seen || echo hidden", rig.dir);
    local_rig_check_inside(&rig, command, "hidden");
    local_rig_check_inside(&rig, "find / -xdev -type s 2>/dev/null | wc -l",
                           "0");
    /* Process 1, the runtime, and the shell with its helpers: nobody else. */
    local_rig_check_inside(&rig,
                           "n=0; for p in /proc/[0-9]*; do n=$((n+1)); done;"
                           " test $n -le 4 && echo few || echo $n",
                           "few");
    local_rig_check_inside(
        &rig, "touch /usr/x /etc/x /x /dev/x 2>/dev/null; echo $?", "1");
    local_rig_check_inside(
        &rig, "touch /tmp/x /workspace/x /dev/shm/x; echo $?", "0");
    local_rig_check_inside(&rig,
                           "grep CapBnd /proc/self/status | tr -d \"\\t\"",
                           "CapBnd:0000000000000000");
    local_rig_check_inside(&rig,
                           "grep CapEff /proc/self/status | tr -d \"\\t\"",
                           "CapEff:0000000000000000");
    local_rig_check_inside(&rig,
                           "grep NoNewPrivs /proc/self/status | tr -d \"\\t\"",
                           "NoNewPrivs:1");
    local_rig_check_inside(
        &rig, "grep Seccomp: /proc/self/status | tr -d \"\\t\"", "Seccomp:2");
    /* Out of memory it goes before its init. */
    local_rig_check_inside(
        &rig, "test $(cat /proc/self/oom_score_adj) -ge 500 && echo first",
        "first");
    local_rig_check_inside(
        &rig, "unshare -Ur true 2>/dev/null && echo new || echo refused",
        "refused");
    local_rig_check_inside(
        &rig, "kill -9 1 2>/dev/null; test -d /proc/1 && echo alive", "alive");
    local_rig_check_inside(
        &rig, "cat /proc/1/environ 2>/dev/null || echo closed", "closed");
    local_rig_check_inside(&rig, "ls /proc/1/fd 2>/dev/null || echo closed",
                           "closed");
    local_rig_check_inside(
        &rig, "cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d \" \\n\"", "lo");
    local_rig_check_inside(
        &rig,
        "dd if=/dev/zero of=/workspace/big bs=64k count=64 2>/dev/null"
        " || echo full",
        "full");
    local_rig_fini(&rig);
}

/* Nobody outside can read what a template's environment holds. */
static void
test_environment_is_private(void **state)
{
    static const char *const env[] = {"SECRET=swordfish", NULL};
    static struct local_rig rig;

    (void)state;
    local_rig_init_runtime(&rig);
    rig.tmpl.env = env;
    local_rig_start_one(&rig);
    assert_int_equal(local_rig_count_processes("swordfish"), 0);
    local_rig_check_inside(&rig, "echo $SECRET", "swordfish");
    local_rig_fini(&rig);
}

/* All that a manifest may hold at once. */
static void
test_largest_template(void **state)
{
    static const char *argv[WP_TEMPLATE_ARGS_MAX + 1];
    static const char *env[WP_TEMPLATE_ENV_MAX + 1];
    static char names[WP_TEMPLATE_ENV_MAX][32];
    static char paths[WP_TEMPLATE_MOUNTS_MAX][32];
    static struct wp_template_mount mounts[WP_TEMPLATE_MOUNTS_MAX];
    static struct local_rig rig;

    (void)state;
    local_rig_init_runtime(&rig);
    for (int i = 0; i < WP_TEMPLATE_ARGS_MAX; i++) {
        argv[i] = i % 2 == 1 ? "--workspace" : "/workspace";
    }
    argv[0] = "warmpool-runtime";
    argv[WP_TEMPLATE_ARGS_MAX - 3] = "--port";
    argv[WP_TEMPLATE_ARGS_MAX - 2] = "8080";
    argv[WP_TEMPLATE_ARGS_MAX - 1] = "--workspace=/workspace";
    for (int i = 0; i < WP_TEMPLATE_ENV_MAX; i++) {
        (void)snprintf(names[i], sizeof names[i], "NAME%d=%d", i, i);
        env[i] = names[i];
    }
    for (int i = 0; i < WP_TEMPLATE_MOUNTS_MAX; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "/data/%d", i);
        mounts[i] = (struct wp_template_mount){
            .path = paths[i], .size_bytes = 4096, .read_only = i % 2 == 0};
    }
    rig.tmpl.argv = argv;
    rig.tmpl.env = env;
    rig.tmpl.mounts = mounts;
    rig.tmpl.mounts_len = WP_TEMPLATE_MOUNTS_MAX;
    local_rig_start_one(&rig);
    local_rig_check_inside(&rig, "echo $NAME255 $(ls /data | wc -l)", "255 32");
    local_rig_fini(&rig);
}

/* What the kernel tells of the machine to everybody who sees its /proc. */
static void
test_proc_is_masked(void **state)
{
    static struct local_rig rig;

    (void)state;
    local_rig_init_runtime(&rig);
    local_rig_start_one(&rig);
    local_rig_check_inside(
        &rig,
        "cd /proc; cat kcore keys timer_list sched_debug latency_stats"
        " timer_stats interrupts 2>/dev/null | head -c 1 | wc -c",
        "0");
    local_rig_check_inside(
        &rig,
        "ls /proc/acpi /proc/scsi /proc/asound 2>/dev/null | grep -v :", "");
    local_rig_check_inside(
        &rig,
        "for f in $(find /proc/sys /proc/fs /proc/irq /proc/bus"
        " /proc/sysrq-trigger -type f 2>/dev/null); do"
        " test -w $f && echo $f; done | head",
        "");
    local_rig_check_inside(&rig,
                           "test -r /proc/meminfo -a -r /proc/self/status -a"
                           " -r /proc/cpuinfo && echo there",
                           "there");
    local_rig_fini(&rig);
}

/* System calls from a real program: refused as the filter says. */
static void
test_system_calls(void **state)
{
    static struct local_rig rig;

    (void)state;
    local_rig_init_runtime(&rig);
    local_rig_start_one(&rig);
    local_rig_check_inside(
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
    local_rig_check_inside(
        &rig,
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
    local_rig_check_inside(
        &rig,
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
    local_rig_init_runtime(&rig);
    local_rig_start_one(&rig);
    local_rig_check_inside(&rig, "python3 -c \"print(6*7)\"", "42");
    local_rig_check_inside(
        &rig,
        "python3 -c \"import subprocess as s;"
        "print(s.run([chr(116)+chr(114)+chr(117)+chr(101)]).returncode)\"",
        "0");
    local_rig_check_inside(
        &rig,
        "python3 -c \"\n"
        "import asyncio,mmap,multiprocessing,select,signal,socket,sqlite3\n"
        "import tempfile,threading\n"
        "s=socket.create_server((str(),0))\n"
        "t=threading.Thread(target=lambda:s.accept()[0].sendall(bytes(5)))\n"
        "t.start()\n"
        "c=socket.create_connection((socket.gethostbyname(str.join(chr(46),"
        "map(str,(127,0,0,1)))),s.getsockname()[1]))\n"
        "r=[len(c.recv(9,socket.MSG_WAITALL))]\n"
        "t.join()\n"
        "with multiprocessing.Pool(2) as p: r+=p.map(abs,[-1,-2])\n"
        "r.append(asyncio.run(asyncio.sleep(0,3)))\n"
        "f=tempfile.TemporaryFile(); f.truncate(4096)\n"
        "r.append(len(mmap.mmap(f.fileno(),4096)))\n"
        "e=select.epoll(); e.register(s); r.append(len(e.poll(0)))\n"
        "signal.setitimer(signal.ITIMER_REAL,0)\n"
        "print(r)\n"
        "\"",
        "[5, 1, 2, 3, 4096, 0]");
    if (access("/usr/bin/git", X_OK) == 0) {
        local_rig_check_inside(
            &rig,
            "git init -q r && cd r && echo x > f && git add f &&"
            " git -c user.name=a -c user.email=b commit -qm c && cd .. &&"
            " git clone -q r r2 && git -C r2 log --format=%s",
            "c");
    }
    if (access("/usr/bin/curl", X_OK) == 0) {
        local_rig_check_inside(&rig,
                               "curl -s -o /dev/null -w %{http_code}"
                               " http://127.0.0.1:8080/healthz",
                               "200");
    }
    if (access("/usr/bin/gcc", X_OK) == 0) {
        local_rig_check_inside(&rig,
                               "echo \"int main(void){return 7;}\" > a.c &&"
                               " gcc -O2 a.c -o a.out && ./a.out; echo $?",
                               "7");
    }
    if (access("/usr/bin/node", X_OK) == 0) {
        local_rig_check_inside(&rig, "node -e \"console.log(6*7)\"", "42");
        local_rig_check_inside(
            &rig,
            "node -e \"new (require(\\`worker_threads\\`).Worker)("
            "\\`console.log(6*7)\\`,{eval:true})\"",
            "42");
    }
    local_rig_fini(&rig);
}

/* An image from a directory, with one static program and no libraries; and
 * nothing of the machine's own root beside it. */
static void
test_image_directory(void **state)
{
    static const char *const argv[] = {"/app/server", "8080", NULL};
    static const struct wp_template_mount data = {.path = "/data/in",
                                                  .size_bytes = 1 << 20};
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
    local_rig_start_one(&rig);
    (void)local_rig_request(&rig, 0, "x", answer, sizeof answer);
    assert_non_null(strstr(answer, "/app\n"));
    assert_non_null(strstr(answer, "/data\n"));
    assert_non_null(strstr(answer, "/workspace\n"));
    assert_null(strstr(answer, "/usr\n"));
    assert_null(strstr(answer, "/etc\n"));
    local_rig_fini(&rig);
}

static void
test_fork_bomb_is_stopped(void **state)
{
    static struct local_rig rig;

    (void)state;
    local_rig_init_runtime(&rig);
    rig.config.pids_max = 64;
    local_rig_start_one(&rig);
    local_rig_check_inside(&rig,
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
        print_message("SKIP: no memory controller here\n");
        skip();
    }
    local_rig_init_runtime(&rig);
    rig.tmpl.memory_bytes = UINT64_C(64) << 20;
    local_rig_start_one(&rig);
    local_rig_check_inside(
        &rig,
        "python3 -c \"x=bytearray(200<<20);print(len(x))\" 2>/dev/null;"
        " echo status $?",
        "status 137");
    local_rig_check_inside(&rig, "echo still here", "still here");
    assert_int_equal(rig.slots[0].lost, 0);
    local_rig_fini(&rig);
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_isolation),
        cmocka_unit_test(test_environment_is_private),
        cmocka_unit_test(test_largest_template),
        cmocka_unit_test(test_proc_is_masked),
        cmocka_unit_test(test_system_calls),
        cmocka_unit_test(test_tools_work),
        cmocka_unit_test(test_image_directory),
        cmocka_unit_test(test_fork_bomb_is_stopped),
        cmocka_unit_test(test_memory_hog_is_killed),
    };

    if (!local_rig_begin(argc, argv, &host)) {
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
