/* tests/integration/local/local_cgroup_v2_test.c - control groups of version 2
 * as a kernel has them: Debian's user-mode Linux, with this program as its
 * process 1. Outside, the program boots it and reads the verdict. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/walls/cgroup.h"
#include "local/walls/clone_into.h"
#include "local/walls/rootfs.h"
#include "pool/base/clock.h"

#define KERNEL "/usr/bin/linux.uml"
#define BOOTED "version 2 tests begin"
#define VERDICT "version 2 tests failed: "
#define TOP "/tmp/cg"
#define SERVICE TOP "/service"
#define LEAF SERVICE "/" WP_CGROUP_LEAF

enum {
    BOOT_TIMEOUT_MS = 240000,
    OUTPUT_MAX = 1 << 20,
    EATEN_BYTES = 64 << 20,
};

/* --- Inside --- */

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            (void)printf("line %d: %s (errno %d)\n", __LINE__, #condition,     \
                         errno);                                               \
            (void)fflush(stdout);                                              \
            _exit(1);                                                          \
        }                                                                      \
    } while (0)

static void
put(const char *dir, const char *file, const char *text)
{
    char path[256];
    int fd;

    (void)snprintf(path, sizeof path, "%s/%s", dir, file);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    (void)close(fd);
}

static const char *
get(const char *dir, const char *file)
{
    static char text[4096];
    char path[256];
    ssize_t n;
    int fd;

    (void)snprintf(path, sizeof path, "%s/%s", dir, file);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    n = read(fd, text, sizeof text - 1);
    CHECK(n >= 0);
    (void)close(fd);
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static bool
has(const char *dir, const char *file, const char *text)
{
    const char *got = get(dir, file);

    if (strcmp(got, text) != 0) {
        (void)printf("%s/%s is '%s', not '%s'\n", dir, file, got, text);
        return false;
    }
    return true;
}

static bool
is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static void
open_groups(struct wp_cgroups *groups)
{
    wp_cgroups_open(groups, "/proc/self/mountinfo", "/proc/self/cgroup", "",
                    "wp");
}

/* Runs fn as a daemon that a service manager started in SERVICE, to which it
 * gave `controllers`. */
static void
as_service(const char *controllers, void (*fn)(void))
{
    int status = -1;
    pid_t pid;

    assert_int_equal(mkdir(SERVICE, 0755), 0);
    pid = fork();
    if (pid == 0) {
        put(TOP, "cgroup.subtree_control", controllers);
        put(SERVICE, "cgroup.procs", "0");
        fn();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    /* What fn left is gone with it; groups go from the leaves up. */
    (void)rmdir(SERVICE "/wp/one");
    (void)rmdir(SERVICE "/wp");
    (void)rmdir(LEAF);
    assert_int_equal(rmdir(SERVICE), 0);
    pid = fork();
    if (pid == 0) {
        put(TOP, "cgroup.subtree_control", "-memory -pids -cpu");
        _exit(0);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(status, 0);
}

/* A process in the group `dir` that waits to be killed. */
static pid_t
settle(const char *dir)
{
    int ready[2];
    char byte;
    pid_t pid;

    CHECK(pipe(ready) == 0);
    pid = fork();
    if (pid == 0) {
        put(dir, "cgroup.procs", "0");
        CHECK(write(ready[1], "x", 1) == 1);
        for (;;) {
            (void)pause();
        }
    }
    CHECK(pid > 0 && read(ready[0], &byte, 1) == 1);
    (void)close(ready[0]);
    (void)close(ready[1]);
    return pid;
}

static void
end(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    CHECK(waitpid(pid, NULL, 0) == pid);
}

/* A group whose last process has just died can be busy for a moment. */
static void
remove_one(const struct wp_cgroups *groups)
{
    while (!wp_cgroup_remove(groups, "one")) {
        CHECK(errno == EBUSY);
        (void)usleep(1000);
    }
}

/* What the kernel says when it comes to it. */
static void
await(const char *dir, const char *file, const char *word)
{
    char path[256];
    char text[256];
    size_t n;

    (void)snprintf(path, sizeof path, "%s/%s", dir, file);
    do {
        FILE *from = fopen(path, "re");

        CHECK(from != NULL);
        n = fread(text, 1, sizeof text - 1, from);
        text[n] = '\0';
        (void)fclose(from);
        (void)usleep(1000);
    } while (strstr(text, word) == NULL);
}

/* How a process of the group "one" ends that wants more than it may have. */
static int
eat(const struct wp_cgroups *groups)
{
    int fds[WP_CGROUP_TREES_MAX];
    int status = 0;
    pid_t pid;

    CHECK(wp_cgroup_open_procs(groups, "one", fds) == 1);
    pid = fork();
    if (pid == 0) {
        char *bytes = mmap(NULL, EATEN_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        CHECK(write(fds[0], "0", 1) == 1);
        CHECK(bytes != MAP_FAILED);
        for (size_t i = 0; i < EATEN_BYTES; i += 4096) {
            bytes[i] = 1;
        }
        _exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    (void)close(fds[0]);
    return status;
}

static char born_in[256];

/* In the parent's memory. */
static void
tell_group(void *arg)
{
    int fd = open("/proc/self/cgroup", O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, born_in, sizeof born_in - 1);

    _exit(n > 0 ? *(const int *)arg : 1);
}

/* A child begins in its group, without having joined it. */
static void
born(const struct wp_cgroups *groups)
{
    static char stack[64 << 10] __attribute__((aligned(16)));
    int dir = wp_cgroup_open_dir(groups, "one");
    int code = 42;
    int pidfd = -1;
    int status = 0;
    pid_t pid;

    CHECK(dir >= 0);
    pid = wp_clone_into(dir, tell_group, &code, stack, sizeof stack, &pidfd);
    CHECK(pid > 0 && pidfd >= 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
    CHECK(strcmp(born_in, "0::/service/wp/one\n") == 0);
    (void)close(pidfd);
    (void)close(dir);
    CHECK(wp_cgroup_open_dir(groups, "two") < 0);
    /* What is no group is refused, and no child is there. */
    dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(wp_clone_into(dir, tell_group, &code, stack, sizeof stack, &pidfd) ==
          -1);
    CHECK(errno == EBADF && waitpid(-1, NULL, WNOHANG) == -1);
    (void)close(dir);
}

static void
alone(void)
{
    const struct wp_cgroup_limits limits = {
        .memory_bytes = 8 << 20, .cpu_milli = 500, .pids_max = 2};
    struct wp_cgroups groups;
    struct wp_err err;
    pid_t pid;

    open_groups(&groups);
    CHECK(groups.kind == WP_CGROUP_V2 && groups.moved);
    CHECK(groups.controllers ==
          (WP_CGROUP_MEMORY | WP_CGROUP_PIDS | WP_CGROUP_CPU));
    CHECK(has(SERVICE, "cgroup.type", "domain"));
    CHECK(has(SERVICE "/wp", "cgroup.type", "domain"));
    CHECK(wp_cgroup_make(&groups, "one", &limits, &err) == WP_OK);
    CHECK(has(SERVICE "/wp/one", "memory.max", "8388608"));
    CHECK(has(SERVICE "/wp/one", "cpu.max", "50000 100000"));
    CHECK(wp_cgroup_oom_kills(&groups, "one") == 0);
    CHECK(WTERMSIG(eat(&groups)) == SIGKILL);
    CHECK(wp_cgroup_oom_kills(&groups, "one") == 1);
    born(&groups);
    pid = settle(SERVICE "/wp/one");
    CHECK(has(SERVICE "/wp/one", "pids.current", "1"));
    CHECK(wp_cgroups_can_freeze(&groups));
    CHECK(wp_cgroup_freeze(&groups, "one", true));
    await(SERVICE "/wp/one", "cgroup.events", "frozen 1");
    CHECK(wp_cgroup_freeze(&groups, "one", false));
    await(SERVICE "/wp/one", "cgroup.events", "frozen 0");
    /* A frozen one ends, too. */
    CHECK(wp_cgroup_freeze(&groups, "one", true));
    wp_cgroup_kill(&groups, "one");
    CHECK(waitpid(pid, NULL, 0) == pid);
    remove_one(&groups);
    /* All as it was found. */
    wp_cgroups_close(&groups);
    CHECK(!is_there(SERVICE "/wp") && !is_there(LEAF));
    CHECK(has(SERVICE, "cgroup.subtree_control", ""));
    CHECK(groups.enabled == 0 && !groups.moved);
}

static void
test_alone(void **state)
{
    (void)state;
    as_service("+memory +pids +cpu", alone);
}

/* The shell that started the daemon by hand is in the same group. */
static void
beside_a_shell(void)
{
    struct wp_cgroups groups;
    pid_t shell = settle(SERVICE);

    open_groups(&groups);
    CHECK(groups.kind == WP_CGROUP_NONE);
    CHECK(strstr(groups.reason, "other processes") != NULL);
    CHECK(strstr(groups.reason, "/service") != NULL);
    CHECK(has(SERVICE, "cgroup.subtree_control", ""));
    CHECK(has(SERVICE, "cgroup.type", "domain"));
    CHECK(!is_there(SERVICE "/wp") && !is_there(LEAF));
    CHECK(has("/proc/self", "cgroup", "0::/service"));
    end(shell);
    /* Nothing stands in the way of the next one. */
    open_groups(&groups);
    CHECK(groups.kind == WP_CGROUP_V2 && groups.trees_len == 1);
    wp_cgroups_close(&groups);
}

static void
test_beside_a_shell(void **state)
{
    (void)state;
    as_service("+memory +pids +cpu", beside_a_shell);
    as_service("+pids +cpu", beside_a_shell);
}

static void
without_memory(void)
{
    const struct wp_cgroup_limits limits = {.memory_bytes = 8 << 20,
                                            .pids_max = 2};
    struct wp_cgroups groups;
    struct wp_err err;

    open_groups(&groups);
    CHECK(groups.kind == WP_CGROUP_V2);
    CHECK(groups.controllers == (WP_CGROUP_PIDS | WP_CGROUP_CPU));
    CHECK(has(SERVICE "/wp", "cgroup.type", "domain"));
    CHECK(wp_cgroup_make(&groups, "one", &limits, &err) == WP_OK);
    CHECK(has(SERVICE "/wp/one", "pids.max", "2"));
    end(settle(SERVICE "/wp/one"));
    remove_one(&groups);
}

static void
test_without_memory(void **state)
{
    (void)state;
    as_service("+pids +cpu", without_memory);
}

/* A daemon is killed, and its sandboxes live on; the next one begins in the
 * leaf, the only place where it can. */
static void
after_another(void)
{
    const struct wp_cgroup_limits limits = {.pids_max = 9};
    struct wp_cgroups first;
    struct wp_cgroups next;
    struct wp_err err;
    pid_t sandbox;

    open_groups(&first);
    CHECK(wp_cgroup_make(&first, "one", &limits, &err) == WP_OK);
    sandbox = settle(SERVICE "/wp/one");
    open_groups(&next);
    CHECK(next.kind == WP_CGROUP_V2 && !next.moved);
    CHECK(strcmp(next.trees[0].dir, first.trees[0].dir) == 0);
    CHECK(next.controllers == first.controllers);
    CHECK(wp_cgroup_exists(&next, "one"));
    /* It leaves before the sandbox does, whose limits stay. */
    wp_cgroups_close(&next);
    CHECK(has(SERVICE "/wp/one", "pids.max", "9"));
    end(sandbox);
    remove_one(&first);
}

static void
test_after_another(void **state)
{
    (void)state;
    as_service("+memory +pids +cpu", after_another);
}

static void
test_in_the_root(void **state)
{
    struct wp_cgroups groups;

    (void)state;
    open_groups(&groups); /* This process, which is in the root. */
    assert_int_equal(groups.kind, WP_CGROUP_V2);
    assert_false(groups.moved);
    wp_cgroups_close(&groups);
    assert_int_equal(access(TOP "/wp", F_OK), -1);
}

static void
not_ours(void)
{
    struct wp_cgroups groups;

    CHECK(setresuid(1000, 1000, 1000) == 0);
    open_groups(&groups);
    CHECK(groups.kind == WP_CGROUP_NONE);
    CHECK(strstr(groups.reason, "Permission denied") != NULL);
}

static void
test_not_ours(void **state)
{
    (void)state;
    as_service("+memory +pids +cpu", not_ours);
}

static int
run_inside(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_beside_a_shell),
        cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_after_another),
        cmocka_unit_test(test_in_the_root),
        cmocka_unit_test(test_not_ours),
    };

    /* cmocka's own words go to stderr. */
    (void)dup2(STDOUT_FILENO, STDERR_FILENO);
    (void)puts(BOOTED);
    (void)fflush(stdout);
    if (mount("proc", "/proc", "proc", 0, NULL) != 0 ||
        mount("tmp", "/tmp", "tmpfs", 0, NULL) != 0 || mkdir(TOP, 0755) != 0 ||
        mount("cg", TOP, "cgroup2", 0, NULL) != 0) {
        (void)printf("cannot mount: %s\n", strerror(errno));
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* --- Outside --- */

/* Reads all that the machine says, until it is off; it is killed when it takes
 * too long. */
static void
listen_to(int fd, pid_t group, char *text)
{
    int64_t until_ns = wp_clock_mono_ns(wp_clock_system()) +
                       (int64_t)BOOT_TIMEOUT_MS * WP_NS_PER_MS;
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    size_t used = 0;

    for (;;) {
        int64_t left_ms =
            (until_ns - wp_clock_mono_ns(wp_clock_system())) / WP_NS_PER_MS;
        ssize_t n;

        if (left_ms <= 0 || poll(&pfd, 1, (int)left_ms) <= 0) {
            break;
        }
        n = read(fd, text + used, OUTPUT_MAX - 1 - used);
        if (n <= 0) {
            break;
        }
        used += (size_t)n;
    }
    text[used] = '\0';
    (void)kill(-group, SIGKILL);
}

/* Boots the machine on this one's files, read-only, with `self` as its first
 * program. */
static pid_t
boot(const char *self, const char *dir, int out)
{
    pid_t pid = fork();

    if (pid == 0) {
        char init[512];
        char uml_dir[128];
        int null = open("/dev/null", O_RDONLY);

        (void)snprintf(init, sizeof init, "init=%s", self);
        (void)snprintf(uml_dir, sizeof uml_dir, "uml_dir=%s", dir);
        (void)setsid();
        (void)dup2(null, STDIN_FILENO);
        (void)dup2(out, STDOUT_FILENO);
        (void)dup2(out, STDERR_FILENO);
        (void)setenv("TMPDIR", dir, 1);
        (void)execl(KERNEL, KERNEL, "rootfstype=hostfs", "rootflags=/", "ro",
                    init, "mem=192M", "con=null", "con0=null,fd:1", "panic=-1",
                    "loglevel=3", uml_dir, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static int
run_outside(void)
{
    char dir[] = "/tmp/wp-uml-XXXXXX";
    char self[400];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    char *text = malloc(OUTPUT_MAX);
    const char *verdict;
    struct wp_err err;
    int pipes[2];
    int result = 1;
    pid_t pid;

    if (access(KERNEL, X_OK) != 0) {
        (void)puts("SKIP: " KERNEL " is not there (Debian's package"
                   " user-mode-linux)");
        free(text);
        return 77;
    }
    if (n <= 0 || text == NULL || mkdtemp(dir) == NULL ||
        pipe2(pipes, O_CLOEXEC) != 0) {
        perror("cannot prepare");
        free(text);
        return 1;
    }
    self[n] = '\0';
    pid = boot(self, dir, pipes[1]);
    (void)close(pipes[1]);
    listen_to(pipes[0], pid, text);
    (void)close(pipes[0]);
    (void)waitpid(pid, NULL, 0);
    (void)!wp_dir_remove(dir, &err);
    (void)fputs(text, stdout);
    verdict = strstr(text, VERDICT);
    if (verdict != NULL) {
        result = strtol(verdict + strlen(VERDICT), NULL, 10) == 0 ? 0 : 1;
    } else if (strstr(text, BOOTED) == NULL) {
        (void)puts("SKIP: user-mode Linux does not boot on this machine");
        result = 77;
    }
    free(text);
    return result;
}

int
main(void)
{
    if (getpid() == 1) {
        (void)printf("\n" VERDICT "%d\n", run_inside());
        (void)fflush(stdout);
        (void)reboot(RB_POWER_OFF);
        return 1;
    }
    return run_outside();
}
