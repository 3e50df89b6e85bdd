/* tests/unit/local/walls/local_confine_test.c - the seccomp filter and the Landlock rules,
 * each put on a child of the test. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/walls/landlock.h"
#include "local/walls/rootfs.h"
#include "local/walls/seccomp_filter.h"
#include "local/sandbox/spawn.h"
#include "pool/base/compiler.h"

/* The child's exit status says which check failed; 0 is all well. */
static void
in_child(int (*fn)(const void *arg), const void *arg)
{
    pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        _exit(fn(arg));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fail_msg("check %d failed in the child (status %x)",
                 WEXITSTATUS(status), (unsigned)status);
    }
}

static struct sock_fprog
load_filter(void)
{
    int fd = memfd_create("filter", MFD_CLOEXEC);
    struct sock_fprog program;
    struct wp_err err;
    off_t len;
    void *bytes;

    assert_int_equal(wp_seccomp_filter_write(fd, &err), WP_OK);
    len = lseek(fd, 0, SEEK_END);
    assert_true(len > 0 && len % (off_t)sizeof(struct sock_filter) == 0);
    bytes = malloc((size_t)len);
    assert_non_null(bytes);
    assert_int_equal(pread(fd, bytes, (size_t)len, 0), len);
    (void)close(fd);
    program.len = (unsigned short)((size_t)len / sizeof(struct sock_filter));
    program.filter = bytes;
    return program;
}

static bool
fails_with(long rc, int error)
{
    return rc == -1 && errno == error;
}

static int
check_filter(const void *arg)
{
    const struct sock_fprog *program = arg;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program) != 0) {
        return 1;
    }
    if (!fails_with(syscall(SYS_unshare, CLONE_NEWUSER), EPERM)) {
        return 2;
    }
    if (!fails_with(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0),
                    EPERM)) {
        return 3;
    }
    if (!fails_with(syscall(SYS_clone, CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0),
                    EPERM)) {
        return 4;
    }
    if (!fails_with(syscall(SYS_clone3, NULL, 0), ENOSYS)) {
        return 5;
    }
    if (!fails_with(syscall(SYS_mount, "a", "/", "tmpfs", 0, NULL), EPERM) ||
        !fails_with(syscall(SYS_bpf, 0, NULL, 0), EPERM) ||
        !fails_with(syscall(SYS_keyctl, 0, 0, 0, 0, 0), EPERM) ||
        !fails_with(syscall(SYS_userfaultfd, 0), EPERM) ||
        !fails_with(syscall(SYS_perf_event_open, NULL, 0, 0, 0, 0), EPERM)) {
        return 6;
    }
    if (!fails_with(syscall(SYS_io_uring_setup, 1, NULL), ENOSYS)) {
        return 7;
    }
    /* On no list: what nobody needs is refused, too. */
#if defined(__x86_64__)
    if (!fails_with(syscall(SYS_vserver), EPERM) ||
        !fails_with(syscall(SYS_sysfs, 3), EPERM)) {
        return 13;
    }
#endif
    if (!fails_with(syscall(SYS_personality, 0x0400000), EPERM) ||
        syscall(SYS_personality, UINT32_MAX) < 0) {
        return 14;
    }
    /* A call that no kernel has had when the list was made. */
    if (!fails_with(syscall(600), ENOSYS) ||
        !fails_with(syscall(453, 0, 0, 0), ENOSYS)) {
        return 8;
    }
    if (!fails_with(socket(AF_VSOCK, SOCK_STREAM, 0), EAFNOSUPPORT) ||
        !fails_with(socket(AF_PACKET, SOCK_RAW, 0), EAFNOSUPPORT) ||
        !fails_with(socket(AF_BLUETOOTH, SOCK_RAW, 0), EAFNOSUPPORT) ||
        !fails_with(socket(AF_ALG, SOCK_SEQPACKET, 0), EAFNOSUPPORT) ||
        !fails_with(socket(AF_NETLINK, SOCK_RAW, 12), EAFNOSUPPORT)) {
        return 9;
    }
    /* The kernel looks at the low half only; so must the filter, or be wider. */
    if (!fails_with(syscall(SYS_socket, INT64_C(0x100000000) | AF_VSOCK,
                            SOCK_STREAM, 0),
                    EAFNOSUPPORT)) {
        return 10;
    }
    if (!fails_with(syscall(SYS_ioctl, 0, INT64_C(0x100000000) | 0x5412, 0),
                    EPERM)) {
        return 11;
    }
    if (socket(AF_INET, SOCK_STREAM, 0) < 0 ||
        socket(AF_INET6, SOCK_DGRAM, 0) < 0 ||
        socket(AF_UNIX, SOCK_STREAM, 0) < 0 ||
        socket(AF_NETLINK, SOCK_RAW, 0) < 0) {
        return 12;
    }
    return 0;
}

static void
test_filter(void **state)
{
    struct sock_fprog program = load_filter();

    (void)state;
    in_child(check_filter, &program);
    free(program.filter);
}

static int
check_landlock(const void *arg)
{
    const char *dir = arg;
    const char *writable[1];
    char path[128];
    char good[96];
    int fd;

    (void)snprintf(good, sizeof good, "%s/good", dir);
    writable[0] = good;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        wp_landlock_confine(writable, 1) != 0) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/good/file", dir);
    fd = open(path, O_CREAT | O_WRONLY, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1) {
        return 2;
    }
    (void)snprintf(path, sizeof path, "%s/bad/file", dir);
    if (open(path, O_CREAT | O_WRONLY, 0600) >= 0 || errno != EACCES) {
        return 3;
    }
    (void)snprintf(path, sizeof path, "%s/bad/there", dir);
    if (open(path, O_WRONLY) >= 0 || open(path, O_RDONLY) < 0 ||
        unlink(path) == 0) {
        return 4;
    }
    if (open("/dev/null", O_WRONLY) < 0) {
        return 5;
    }
    if (wp_landlock_abi() >= 6 && kill(getppid(), 0) == 0) {
        return 6; /* Signals stay inside. */
    }
    return 0;
}

/* What is not named cannot even be read. */
static int
check_landlock_to(const void *arg)
{
    const char *dir = arg;
    const char *readable[1];
    const char *writable[2] = {NULL, "/dev/null"};
    char good[96];
    char bad[96];
    char path[128];
    int fd;

    (void)snprintf(good, sizeof good, "%s/good", dir);
    (void)snprintf(bad, sizeof bad, "%s/bad/there", dir);
    readable[0] = bad;
    writable[0] = good;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        wp_landlock_confine_to(readable, 1, writable, 2) != 0) {
        return 1;
    }
    (void)snprintf(path, sizeof path, "%s/good/file", dir);
    fd = open(path, O_CREAT | O_RDWR, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1) {
        return 2;
    }
    if (open(bad, O_RDONLY) < 0 || open(bad, O_WRONLY) >= 0) {
        return 3;
    }
    (void)snprintf(path, sizeof path, "%s/bad", dir);
    if (open(path, O_RDONLY | O_DIRECTORY) >= 0 ||
        open("/etc/hostname", O_RDONLY) >= 0 || errno != EACCES) {
        return 4;
    }
    return open("/dev/null", O_RDWR) >= 0 ? 0 : 5;
}

/* What is not there is passed over; a rule that cannot be made is not, and then
 * nothing is forbidden. */
static int
check_landlock_rules(const void *arg)
{
    const char *dir = arg;
    const char *const odd[1] = {"/dev/null/x"};
    const char *const gone[1] = {"/nonexistent"};
    int first = dup(STDERR_FILENO);

    (void)close(first);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        wp_landlock_confine(odd, 1) != -1 ||
        wp_landlock_confine_to(odd, 1, NULL, 0) != -1 ||
        wp_landlock_confine_to(NULL, 0, odd, 1) != -1) {
        return 1;
    }
    if (access(dir, R_OK) != 0 || open("/dev/null", O_WRONLY) != first ||
        open(dir, O_RDONLY | O_DIRECTORY) < 0) {
        return 2;
    }
    if (wp_landlock_confine(gone, 1) != 0 ||
        wp_landlock_confine_to(gone, 1, gone, 1) != 0) {
        return 3;
    }
    return open(dir, O_RDONLY | O_DIRECTORY) < 0 && errno == EACCES ? 0 : 4;
}

/* What programs expect to write to is theirs. */
static int
check_landlock_own(const void *arg)
{
    char path[64];
    int fd;

    (void)arg;
    (void)snprintf(path, sizeof path, "/dev/shm/wpll-%d", (int)getpid());
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        wp_landlock_confine(NULL, 0) != 0) {
        return 1;
    }
    fd = open("/proc/self/comm", O_WRONLY | O_TRUNC);
    if (fd < 0 || write(fd, "x", 1) != 1) {
        return 2;
    }
    if (access("/dev/shm", W_OK) == 0) {
        fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (fd < 0 || unlink(path) != 0) {
            return 3;
        }
    }
    return 0;
}

/* Who may gain rights by a program may not be confined. */
static int
check_landlock_refused(const void *arg)
{
    (void)arg;
    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) {
        return 1;
    }
    return wp_landlock_confine(NULL, 0) == -1 && errno == EPERM ? 0 : 2;
}

static void
test_landlock(void **state)
{
    char dir[] = "/tmp/wpll-XXXXXX";
    char path[64];
    struct wp_err err;

    (void)state;
    if (wp_landlock_abi() == 0) {
        print_message("SKIP: the kernel has no Landlock\n");
        skip();
    }
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/good", dir);
    assert_int_equal(wp_dir_make(path, 0755, &err), WP_OK);
    (void)snprintf(path, sizeof path, "%s/bad", dir);
    assert_int_equal(wp_dir_make(path, 0755, &err), WP_OK);
    (void)snprintf(path, sizeof path, "%s/bad/there", dir);
    assert_int_equal(wp_file_copy("/etc/hostname", path, 0666, &err), WP_OK);
    in_child(check_landlock, dir);
    in_child(check_landlock_to, dir);
    in_child(check_landlock_rules, dir);
    in_child(check_landlock_own, NULL);
    in_child(check_landlock_refused, NULL);
    assert_int_equal(wp_dir_remove(dir, &err), WP_OK);
}

/* Started with another user, given descriptors, and nothing else of ours. */
static void
test_spawn(void **state)
{
    char *const argv[] = {
        "sh", "-c",
        "id -u; id -G; ls /proc/self/fd | tr \"\\n\" \" \";"
        " grep NoNewPrivs /proc/self/status; grep SigBlk /proc/self/status",
        NULL};
    char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    struct wp_spawn spawn = {
        .path = "/bin/sh",
        .argv = argv,
        .envp = env,
        .drop = geteuid() == 0,
        .uid = 200042,
        .gid = 200043,
    };
    struct wp_spawned child;
    struct wp_err err;
    char expected[256];
    char text[512];
    size_t used = 0;
    ssize_t n;
    int leaked = open("/dev/null", O_RDONLY); /* Not close-on-exec. */
    int pipes[2];

    (void)state;
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    spawn.fds[0] = wp_spawn_fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    spawn.fds[1] = wp_spawn_fd(pipes[1]);
    spawn.fds[2] = fcntl(spawn.fds[1], F_DUPFD_CLOEXEC, WP_SPAWN_FD_FLOOR);
    spawn.fds_len = 3;
    assert_int_equal(wp_spawn(&spawn, &child, &err), WP_OK);
    for (int i = 0; i < 3; i++) {
        (void)close(spawn.fds[i]);
    }
    while ((n = read(pipes[0], text + used, sizeof text - 1 - used)) > 0) {
        used += (size_t)n;
    }
    text[used] = '\0';
    (void)close(pipes[0]);
    (void)close(leaked);
    assert_int_equal(waitpid(child.pid, NULL, 0), child.pid);
    (void)close(child.pidfd);
    if (spawn.drop) {
        /* 3 is what ls itself opened. */
        (void)snprintf(expected, sizeof expected,
                       "200042\n200043\n0 1 2 3 NoNewPrivs:\t1\n"
                       "SigBlk:\t0000000000000000\n");
        assert_string_equal(text, expected);
    } else {
        assert_non_null(strstr(text, "\n0 1 2 3 NoNewPrivs:\t1\n"));
    }
}

static void
test_spawn_failures(void **state)
{
    char *const argv[] = {"x", NULL};
    char *const env[] = {NULL};
    struct wp_spawn spawn = {
        .path = "/nonexistent/program",
        .argv = argv,
        .envp = env,
    };
    struct wp_spawned child = {1, 1};
    struct wp_err err;

    (void)state;
    assert_int_equal(wp_spawn(&spawn, &child, &err), WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "could not execute: /nonexistent/program"));
    /* Nor is there anything that could be closed again. */
    assert_int_equal(child.pid, -1);
    assert_int_equal(child.pidfd, -1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* Nobody is left. */
    assert_int_equal(errno, ECHILD);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filter),
        cmocka_unit_test(test_landlock),
        cmocka_unit_test(test_spawn),
        cmocka_unit_test(test_spawn_failures),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
