/* tests/unit/local/walls/local_cgroup_test.c - finding and using control groups, against
 * directories that look like them. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/walls/cgroup.h"
#include "local/walls/cgroup_files.h"
#include "local/walls/rootfs.h"

struct tree {
    char dir[64];
    char mountinfo[96];
    char self[96];
};

static void
put(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
}

static void
put_in(const char *dir, const char *name, const char *text)
{
    char path[256];

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    put(path, text);
}

static void
expect_in(const char *dir, const char *name, const char *text)
{
    char path[256];
    char got[64] = "";
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    file = fopen(path, "re");
    if (file == NULL) {
        fail_msg("no %s", path);
        return;
    }
    (void)!fgets(got, sizeof got, file);
    (void)fclose(file);
    assert_string_equal(got, text);
}

static void
tree_init(struct tree *tree)
{
    (void)snprintf(tree->dir, sizeof tree->dir, "/tmp/wpcg-XXXXXX");
    assert_non_null(mkdtemp(tree->dir));
    (void)snprintf(tree->mountinfo, sizeof tree->mountinfo, "%s/mountinfo",
                   tree->dir);
    (void)snprintf(tree->self, sizeof tree->self, "%s/self", tree->dir);
}

static void
tree_fini(struct tree *tree)
{
    struct wp_err err;

    assert_int_equal(wp_dir_remove(tree->dir, &err), WP_OK);
}

static void
make_dir(char *out, size_t cap, const char *a, const char *b)
{
    struct wp_err err;

    (void)snprintf(out, cap, "%s/%s", a, b);
    assert_int_equal(wp_dir_make(out, 0755, &err), WP_OK);
}

/* Version 2 with its controllers switched on already: limits are written in its
 * form. What a kernel does when they are not, local_cgroup_v2_test tries. */
static void
test_v2(void **state)
{
    const struct wp_cgroup_limits limits = {
        .memory_bytes = 1 << 20, .cpu_milli = 250, .pids_max = 9};
    struct wp_cgroups groups;
    struct tree tree;
    struct wp_err err;
    char text[256];
    char own[128];
    char group[192];
    char one[224];

    (void)state;
    tree_init(&tree);
    make_dir(own, sizeof own, tree.dir, "user/service");
    (void)snprintf(text, sizeof text,
                   "30 1 0:26 / %s rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
                   tree.dir);
    put(tree.mountinfo, text);
    put(tree.self, "0::/user/service\n");
    put_in(own, "cgroup.controllers", "cpuset cpu io memory pids\n");
    put_in(own, "cgroup.subtree_control", "cpu memory pids\n");
    make_dir(group, sizeof group, own, "wp");
    put_in(group, "cgroup.controllers", "cpu memory pids\n");
    put_in(group, "cgroup.subtree_control", "cpu memory pids\n");
    make_dir(one, sizeof one, group, "one");
    put_in(one, "memory.max", "");
    put_in(one, "memory.swap.max", "");
    put_in(one, "pids.max", "");
    put_in(one, "cpu.max", "");
    put_in(one, "cgroup.procs", "");
    wp_cgroups_open(&groups, tree.mountinfo, tree.self, "", "wp");
    assert_int_equal(groups.kind, WP_CGROUP_V2);
    assert_int_equal(groups.controllers,
                     WP_CGROUP_MEMORY | WP_CGROUP_PIDS | WP_CGROUP_CPU);
    assert_string_equal(groups.trees[0].dir, group);
    assert_false(groups.moved);
    /* Started in its own leaf, it uses the group above, as the one before did
     * that moved there. */
    (void)snprintf(text, sizeof text, "0::/user/service/%s\n", WP_CGROUP_LEAF);
    put(tree.self, text);
    wp_cgroups_open(&groups, tree.mountinfo, tree.self, "", "wp");
    assert_string_equal(groups.trees[0].dir, group);
    assert_int_equal(wp_cgroup_make(&groups, "one", &limits, &err), WP_OK);
    expect_in(one, "memory.max", "1048576");
    expect_in(one, "memory.swap.max", "0");
    expect_in(one, "pids.max", "9");
    expect_in(one, "cpu.max", "25000 100000");
    put_in(one, "memory.events", "low 0\noom 2\noom_kill 1\n");
    assert_int_equal(wp_cgroup_oom_kills(&groups, "one"), 1);
    groups.trees_len = 0;
    assert_int_equal(wp_cgroup_oom_kills(&groups, "one"), 0);
    groups.trees_len = 1;
    put_in(one, "memory.events", "low 0\noom 2\noom_kill 0\n");
    assert_int_equal(wp_cgroup_oom_kills(&groups, "one"), 0);
    /* Kernels before 5.2 cannot. */
    assert_false(wp_cgroups_can_freeze(&groups));
    errno = 0;
    assert_false(wp_cgroup_freeze(&groups, "one", true));
    assert_int_equal(errno, ENOTSUP);
    put_in(group, "cgroup.freeze", "0\n");
    put_in(one, "cgroup.freeze", "");
    assert_true(wp_cgroups_can_freeze(&groups));
    assert_true(wp_cgroup_freeze(&groups, "one", true));
    expect_in(one, "cgroup.freeze", "1");
    assert_true(wp_cgroup_freeze(&groups, "one", false));
    expect_in(one, "cgroup.freeze", "0");
    assert_false(wp_cgroup_freeze(&groups, "two", true));
    tree_fini(&tree);
}

static void
note_name(void *ctx, const char *name)
{
    char *names = ctx;

    (void)snprintf(names + strlen(names), 64 - strlen(names), "%s ", name);
}

/* The least that a kernel takes is given to who has less; and where a group is,
 * and which there are, is told. */
static void
test_v2_groups(void **state)
{
    const struct wp_cgroup_limits limits = {.cpu_milli = 1};
    struct wp_cgroups groups = {.kind = WP_CGROUP_V2,
                                .trees_len = 1,
                                .trees = {{.controllers = WP_CGROUP_CPU}}};
    struct wp_cgroups none = {.kind = WP_CGROUP_NONE};
    struct wp_cgroups old;
    struct tree tree;
    struct wp_err err;
    char names[64] = "";
    char group[192];
    char one[224];
    int fd;

    (void)state;
    tree_init(&tree);
    make_dir(group, sizeof group, tree.dir, "wp");
    make_dir(one, sizeof one, group, "one");
    (void)snprintf(groups.trees[0].dir, sizeof groups.trees[0].dir, "%s",
                   group);
    put_in(one, "cpu.max", "");
    put_in(group, "cgroup.subtree_control", "memory\n");
    assert_int_equal(wp_cgroup_make(&groups, "one", &limits, &err), WP_OK);
    expect_in(one, "cpu.max", "1000 100000");
    fd = wp_cgroup_open_dir(&groups, "one");
    assert_true(fd >= 0);
    assert_int_equal(faccessat(fd, "cpu.max", F_OK, 0), 0);
    (void)close(fd);
    assert_int_equal(wp_cgroup_open_dir(&groups, "two"), -1);
    wp_cgroup_list(&groups, note_name, names);
    assert_string_equal(names, "one ");
    /* A later daemon sees who was killed for want of memory. */
    put_in(one, "memory.events", "oom_kill 3\n");
    assert_int_equal(wp_cgroups_save(&groups, NULL, 0, tree.self, &err), WP_OK);
    assert_int_equal(wp_cgroups_load(&old, 1, tree.self, "wp", &none), 1);
    assert_int_equal(old.kind, WP_CGROUP_V2);
    assert_int_equal(old.controllers, WP_CGROUP_MEMORY);
    assert_int_equal(wp_cgroup_oom_kills(&old, "one"), 3);
    tree_fini(&tree);
}

/* Of a path that is too long there is no part, and of a file as much as there
 * is room for. */
static void
test_files(void **state)
{
    char longest[WP_CGROUP_PATH_MAX - 2];
    char path[WP_CGROUP_PATH_MAX];
    char text[8] = "zzzzzzz";
    struct rlimit limit;
    rlim_t all;
    struct tree tree;

    (void)state;
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_true(wp_cgroup_path(path, longest, "a"));
    assert_int_equal(strlen(path), sizeof path - 1);
    errno = 0;
    assert_false(wp_cgroup_path(path, longest, "ab"));
    assert_int_equal(errno, ENAMETOOLONG);
    tree_init(&tree);
    put_in(tree.dir, "file", "abcdef");
    assert_true(wp_cgroup_get(tree.dir, "file", text, 4));
    assert_memory_equal(text, "abc\0zz", 6);
    put_in(tree.dir, "file", "");
    assert_true(wp_cgroup_get(tree.dir, "file", text, 4));
    assert_string_equal(text, "");
    assert_false(wp_cgroup_get(tree.dir, "none", text, 4));
    errno = 0;
    assert_false(wp_cgroup_put(tree.dir, "none", "1"));
    assert_int_equal(errno, ENOENT);
    /* Nor is a part of what was to be written enough. */
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    all = limit.rlim_cur;
    limit.rlim_cur = 1;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_false(wp_cgroup_put(tree.dir, "file", "12"));
    limit.rlim_cur = all;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_true(wp_cgroup_put(tree.dir, "file", "12"));
    tree_fini(&tree);
}

/* Who is in it is killed. */
static void
check_kill(const struct wp_cgroups *groups, const char *dir)
{
    char text[32];
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        for (;;) {
            (void)pause();
        }
    }
    assert_true(child > 0);
    (void)snprintf(text, sizeof text, "%d\n", (int)child);
    put_in(dir, "cgroup.procs", text);
    wp_cgroup_kill(groups, "one");
    /* At once where the product did it, and else by this. */
    (void)kill(child, SIGTERM);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* A hierarchy a controller, seen from a container whose mount shows a part. */
static void
test_v1(void **state)
{
    const struct wp_cgroup_limits limits = {
        .memory_bytes = 1 << 20, .cpu_milli = 1500, .pids_max = 9};
    struct wp_cgroups groups;
    struct tree tree;
    struct wp_err err;
    char text[1024];
    char memory[192];
    char cpu[192];
    char path[224];
    int fds[WP_CGROUP_TREES_MAX];

    (void)state;
    tree_init(&tree);
    make_dir(memory, sizeof memory, tree.dir, "memory/own/wp/one");
    make_dir(cpu, sizeof cpu, tree.dir, "cpu/wp/one");
    (void)snprintf(
        text, sizeof text,
        "30 1 0:26 / /nonexistent rw - tmpfs tmpfs rw,memory\n"
        "31 1 0:27 / %s/memory rw - cgroup cgroup rw,memory\n"
        "32 1 0:28 /docker/abc %s/cpu rw - cgroup cgroup rw,cpuacct,cpu\n"
        "33 1 0:29 / %s/unified rw - cgroup2 cgroup2 rw\n",
        tree.dir, tree.dir, tree.dir);
    put(tree.mountinfo, text);
    put(tree.self,
        "9:memory:/own\n3:cpuacct,cpu:/docker/abc\n2:pids:/\n0::/\n");
    put_in(memory, "memory.limit_in_bytes", "");
    put_in(memory, "memory.memsw.limit_in_bytes", "");
    put_in(cpu, "cpu.cfs_period_us", "");
    put_in(cpu, "cpu.cfs_quota_us", "");
    wp_cgroups_open(&groups, tree.mountinfo, tree.self, "", "wp");
    assert_int_equal(groups.kind, WP_CGROUP_V1);
    assert_int_equal(groups.controllers, WP_CGROUP_MEMORY | WP_CGROUP_CPU);
    assert_int_equal(groups.trees_len, 2);
    assert_int_equal(wp_cgroup_make(&groups, "one", &limits, &err), WP_OK);
    expect_in(memory, "memory.limit_in_bytes", "1048576");
    expect_in(memory, "memory.memsw.limit_in_bytes", "1048576");
    expect_in(cpu, "cpu.cfs_quota_us", "150000");
    assert_int_equal(wp_cgroup_open_dir(&groups, "one"), -1);
    /* In all of them, or none is left open. */
    put_in(memory, "tasks", "");
    assert_int_equal(wp_cgroup_open_procs(&groups, "one", fds), -1);
    assert_int_equal(errno, ENOENT);
    check_kill(&groups, memory);
    assert_false(wp_cgroups_can_freeze(&groups));
    /* Not empty, so not removed; errno says why. */
    assert_false(wp_cgroup_remove(&groups, "one"));
    assert_int_equal(errno, EBUSY);
    assert_true(wp_cgroup_remove(&groups, "never-made"));
    (void)snprintf(path, sizeof path, "%s/memory.limit_in_bytes", memory);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(wp_cgroup_make(&groups, "one", &limits, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "cannot make control group"));
    /* Nothing of one that was begun. */
    assert_int_equal(wp_cgroup_make(&groups, "two", &limits, &err),
                     WP_UNAVAILABLE);
    assert_false(wp_cgroup_exists(&groups, "two"));
    tree_fini(&tree);
}

/* Controllers of one hierarchy share a group; one that cannot be had keeps
 * nobody from the others, and all is gone at the end. */
static void
test_v1_shared(void **state)
{
    struct wp_cgroups groups;
    struct tree tree;
    char text[512];
    char shared[192];

    (void)state;
    tree_init(&tree);
    make_dir(shared, sizeof shared, tree.dir, "shared");
    (void)snprintf(text, sizeof text,
                   "31 1 0:27 / %s/memory rw - cgroup cgroup rw,memory\n"
                   "32 1 0:28 / %s rw - cgroup cgroup rw,cpu,pids\n",
                   tree.dir, shared);
    put(tree.mountinfo, text);
    put(tree.self, "9:memory:/\n3:cpu,pids:/\n");
    wp_cgroups_open(&groups, tree.mountinfo, tree.self, "", "wp");
    assert_int_equal(groups.kind, WP_CGROUP_V1);
    assert_string_equal(groups.reason, "");
    assert_int_equal(groups.controllers, WP_CGROUP_PIDS | WP_CGROUP_CPU);
    assert_int_equal(groups.trees_len, 1);
    assert_int_equal(groups.trees[0].controllers,
                     WP_CGROUP_PIDS | WP_CGROUP_CPU);
    make_dir(shared, sizeof shared, tree.dir, "shared/wp");
    wp_cgroups_close(&groups);
    assert_int_not_equal(access(shared, F_OK), 0);
    assert_int_equal(groups.kind, WP_CGROUP_NONE);
    assert_int_equal(groups.trees_len, 0);
    tree_fini(&tree);
}

/* One that can freeze, among the others; a later daemon finds it, too. */
static void
test_v1_freezer(void **state)
{
    struct wp_cgroups groups;
    struct wp_cgroups none = {.kind = WP_CGROUP_NONE};
    struct wp_cgroups old;
    struct tree tree;
    struct wp_err err;
    char text[512];
    char own[192];
    char one[224];
    int fds[WP_CGROUP_TREES_MAX];

    (void)state;
    tree_init(&tree);
    make_dir(own, sizeof own, tree.dir, "freezer/wp");
    make_dir(one, sizeof one, tree.dir, "freezer/wp/one");
    (void)snprintf(text, sizeof text,
                   "31 1 0:27 / %s/freezer rw - cgroup cgroup rw,freezer\n",
                   tree.dir);
    put(tree.mountinfo, text);
    put(tree.self, "6:freezer:/\n");
    put_in(own, "freezer.state", "THAWED\n");
    put_in(one, "freezer.state", "");
    put_in(one, "tasks", "");
    wp_cgroups_open(&groups, tree.mountinfo, tree.self, "", "wp");
    assert_int_equal(groups.controllers, WP_CGROUP_FREEZER);
    assert_true(wp_cgroups_can_freeze(&groups));
    assert_true(wp_cgroup_freeze(&groups, "one", true));
    expect_in(one, "freezer.state", "FROZEN");
    /* Who is frozen does not end: it goes on first. */
    wp_cgroup_kill(&groups, "one");
    expect_in(one, "freezer.state", "THAWED");
    /* A thread joins by itself, which is quick. */
    assert_int_equal(wp_cgroup_open_procs(&groups, "one", fds), 1);
    assert_int_equal(write(fds[0], "0", 1), 1);
    (void)close(fds[0]);
    expect_in(one, "tasks", "0");
    assert_int_equal(wp_cgroups_save(&groups, NULL, 0, tree.self, &err), WP_OK);
    assert_int_equal(wp_cgroups_load(&old, 1, tree.self, "wp", &none), 1);
    assert_int_equal(old.controllers, WP_CGROUP_FREEZER);
    assert_true(wp_cgroups_can_freeze(&old));
    tree_fini(&tree);
}

/* What one daemon saved another finds, if it is still elsewhere. */
static void
test_save_and_load(void **state)
{
    struct wp_cgroups now = {.kind = WP_CGROUP_V1, .trees_len = 2};
    struct wp_cgroups old[3];
    char fresh[128];
    struct tree tree;
    struct wp_err err;

    (void)state;
    tree_init(&tree);
    (void)snprintf(now.trees[0].dir, sizeof now.trees[0].dir, "%s/a/wp",
                   tree.dir);
    (void)snprintf(now.trees[1].dir, sizeof now.trees[1].dir, "%s/b/wp",
                   tree.dir);
    assert_int_equal(wp_cgroups_save(&now, NULL, 0, tree.self, &err), WP_OK);
    now.trees_len = 1;
    assert_int_equal(wp_cgroups_load(old, 3, tree.self, "wp", &now), 1);
    assert_int_equal(old[0].trees_len, 1);
    assert_string_equal(old[0].trees[0].dir, now.trees[1].dir);
    put(tree.self, "/etc\nwp\nrel/wp\n/x/../y/wp\n/a/wpx\n");
    assert_int_equal(wp_cgroups_load(old, 3, tree.self, "wp", &now), 0);
    assert_int_equal(wp_cgroups_load(old, 3, "/nonexistent", "wp", &now), 0);
    /* A third daemon finds the groups of both before it, apart. */
    put(tree.self, "/a/wp\n/b/wp\n/c/wp\n\n/d/wp\n\n/e/wp\n");
    assert_int_equal(wp_cgroups_load(old, 2, tree.self, "wp", &now), 2);
    assert_int_equal(old[0].trees_len, 3);
    assert_string_equal(old[1].trees[0].dir, "/d/wp");
    assert_int_equal(wp_cgroups_save(&now, old, 2, tree.self, &err), WP_OK);
    assert_int_equal(wp_cgroups_load(old, 3, tree.self, "wp", &now), 2);
    assert_int_equal(old[0].trees_len, 3);
    assert_string_equal(old[0].trees[2].dir, "/c/wp");
    assert_int_equal(old[1].trees_len, 1);
    assert_string_equal(old[1].trees[0].dir, "/d/wp");
    /* More in one place than there can be. */
    put(tree.self, "/a/wp\n/b/wp\n/c/wp\n/d/wp\n/e/wp\n");
    assert_int_equal(wp_cgroups_load(old, 3, tree.self, "wp", &now), 2);
    assert_int_equal(old[0].trees_len, WP_CGROUP_TREES_MAX);
    assert_int_equal(old[1].trees_len, 1);
    /* Of a full disk the former file is left. */
    (void)snprintf(fresh, sizeof fresh, "%s.new", tree.self);
    assert_int_equal(symlink("/dev/full", fresh), 0);
    assert_int_equal(wp_cgroups_save(&now, old, 2, tree.self, &err),
                     WP_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "No space left"));
    assert_int_equal(wp_cgroups_load(old, 3, tree.self, "wp", &now), 2);
    tree_fini(&tree);
}

/* What a daemon killed while it tried the machine has left; only of the dead. */
static void
test_sweep(void **state)
{
    struct wp_cgroups groups = {.kind = WP_CGROUP_V1, .trees_len = 1};
    struct tree tree;
    char ours[192];
    char dead[192];
    char living[192];
    char other[192];
    char name[32];
    pid_t child = fork();

    (void)state;
    if (child == 0) {
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    tree_init(&tree);
    make_dir(ours, sizeof ours, tree.dir, "try-mine");
    (void)snprintf(name, sizeof name, "try-%d", (int)child);
    make_dir(dead, sizeof dead, tree.dir, name);
    (void)snprintf(name, sizeof name, "try-%d", (int)getpid());
    make_dir(living, sizeof living, tree.dir, name);
    make_dir(other, sizeof other, tree.dir, "other-1");
    (void)snprintf(groups.trees[0].dir, sizeof groups.trees[0].dir, "%s", ours);
    wp_cgroups_sweep(&groups, "try-");
    assert_int_not_equal(access(dead, F_OK), 0);
    assert_int_equal(access(living, F_OK), 0);
    assert_int_equal(access(ours, F_OK), 0);
    assert_int_equal(access(other, F_OK), 0);
    tree_fini(&tree);
}

static void
test_none(void **state)
{
    struct wp_cgroups groups;
    struct wp_err err;
    struct tree tree;
    const struct wp_cgroup_limits limits = {.memory_bytes = 1};
    int fds[WP_CGROUP_TREES_MAX];

    (void)state;
    tree_init(&tree);
    put(tree.mountinfo, "1 0 8:1 / / rw - ext4 /dev/sda rw\nnonsense\n - \n");
    put(tree.self, "0::/\nx\n");
    wp_cgroups_open(&groups, tree.mountinfo, tree.self, "", "wp");
    assert_int_equal(groups.kind, WP_CGROUP_NONE);
    assert_int_equal(wp_cgroup_make(&groups, "one", &limits, &err), WP_OK);
    assert_int_equal(wp_cgroup_open_procs(&groups, "one", fds), 0);
    assert_true(wp_cgroup_remove(&groups, "one"));
    wp_cgroups_open(&groups, "/nonexistent", "/nonexistent", "", "wp");
    assert_int_equal(groups.kind, WP_CGROUP_NONE);
    tree_fini(&tree);
}

static void
expect_not_plain(const struct tree *tree)
{
    struct wp_cgroups groups;

    wp_cgroups_open(&groups, tree->mountinfo, tree->self, "/other.service",
                    "wp");
    assert_int_equal(groups.kind, WP_CGROUP_NONE);
    assert_non_null(strstr(groups.reason, "other processes are in"));
}

/* A group that was given: who is in it makes room, and this process stays where
 * it is. */
static void
test_v2_given(void **state)
{
    struct wp_cgroups groups;
    struct tree tree;
    char text[256];
    char given[128];
    char group[192];
    char leaf[192];

    (void)state;
    tree_init(&tree);
    make_dir(given, sizeof given, tree.dir, "other.service");
    make_dir(leaf, sizeof leaf, given, WP_CGROUP_LEAF);
    (void)snprintf(text, sizeof text,
                   "30 1 0:26 / %s rw - cgroup2 cgroup2 rw\n", tree.dir);
    put(tree.mountinfo, text);
    put(tree.self, "0::/user/service\n");
    put_in(given, "cgroup.type", "domain\n");
    put_in(given, "cgroup.procs", "4711\n");
    put_in(given, "cgroup.controllers", "cpu memory pids\n");
    put_in(given, "cgroup.subtree_control", "cpu memory pids\n");
    put_in(leaf, "cgroup.procs", "");
    make_dir(group, sizeof group, given, "wp");
    put_in(group, "cgroup.controllers", "cpu memory pids\n");
    put_in(group, "cgroup.subtree_control", "cpu memory pids\n");
    wp_cgroups_open(&groups, tree.mountinfo, tree.self, "/other.service", "wp");
    assert_int_equal(groups.kind, WP_CGROUP_V2);
    assert_string_equal(groups.trees[0].dir, group);
    assert_false(groups.moved);
    assert_int_equal(groups.enabled, 0); /* It was on. */
    expect_in(leaf, "cgroup.procs", "4711");
    /* No sandbox could be in one that is not plain. */
    put_in(group, "cgroup.type", "domain invalid\n");
    expect_not_plain(&tree);
    put_in(group, "cgroup.type", "domain\n");
    put_in(given, "cgroup.type", "domain threaded\n");
    expect_not_plain(&tree);
    put_in(given, "cgroup.type", "domain\n");
    /* Who is in it cannot make room. */
    (void)snprintf(text, sizeof text, "%s/cgroup.procs", leaf);
    assert_int_equal(unlink(text), 0);
    wp_cgroups_open(&groups, tree.mountinfo, tree.self, "/other.service", "wp");
    assert_int_equal(groups.kind, WP_CGROUP_NONE);
    assert_non_null(strstr(groups.reason, "cannot move to "));
    assert_int_not_equal(access(leaf, F_OK), 0);
    wp_cgroups_open(&groups, tree.mountinfo, tree.self, "/no.service", "wp");
    assert_int_equal(groups.kind, WP_CGROUP_NONE);
    assert_non_null(strstr(groups.reason, "sandbox_cgroup: "));
    assert_non_null(strstr(groups.reason, "/no.service: No such file"));
    tree_fini(&tree);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v2),         cmocka_unit_test(test_v2_given),
        cmocka_unit_test(test_v2_groups),  cmocka_unit_test(test_files),
        cmocka_unit_test(test_v1),         cmocka_unit_test(test_v1_shared),
        cmocka_unit_test(test_v1_freezer), cmocka_unit_test(test_save_and_load),
        cmocka_unit_test(test_sweep),      cmocka_unit_test(test_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
