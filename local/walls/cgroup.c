#include "local/walls/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

enum {
    LINE_MAX_BYTES = 4096,
    CPU_PERIOD_US = 100000,
    CPU_QUOTA_MIN_US = 1000, /* The kernel's floor. */
};

static const struct {
    const char *name;
    unsigned bit;
} controllers[] = {
    {"memory", WP_CGROUP_MEMORY},
    {"pids", WP_CGROUP_PIDS},
    {"cpu", WP_CGROUP_CPU},
};

/* --- Small file helpers --- */

static bool
path_join(char out[WP_CGROUP_PATH_MAX], const char *a, const char *b)
{
    int n = snprintf(out, WP_CGROUP_PATH_MAX, "%s/%s", a, b);

    if (n < 0 || n >= WP_CGROUP_PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    return true;
}

static bool
write_text(const char *dir, const char *file, const char *text)
{
    char path[WP_CGROUP_PATH_MAX];
    size_t len = strlen(text);
    ssize_t n;
    int saved;
    int fd;

    if (!path_join(path, dir, file)) {
        return false;
    }
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    n = write(fd, text, len);
    saved = errno;
    (void)close(fd);
    errno = saved;
    return n == (ssize_t)len;
}

static bool
write_u64(const char *dir, const char *file, uint64_t value)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    return write_text(dir, file, text);
}

static bool
read_text(const char *dir, const char *file, char *out, size_t cap)
{
    char path[WP_CGROUP_PATH_MAX];
    ssize_t n;
    int fd;

    if (!path_join(path, dir, file)) {
        return false;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    n = read(fd, out, cap - 1);
    (void)close(fd);
    out[n > 0 ? n : 0] = '\0';
    return n >= 0;
}

/* Does `word` stand in the list `text`, separated by any of `seps`? */
static bool
has_word(const char *text, const char *word, const char *seps)
{
    size_t len = strlen(word);

    while (*text != '\0') {
        size_t n = strcspn(text, seps);

        if (n == len && memcmp(text, word, len) == 0) {
            return true;
        }
        text += n;
        text += strspn(text, seps);
    }
    return false;
}

/* --- Finding the hierarchies --- */

/* The path of this process in the hierarchy whose controller list holds
 * `controller` ("" for version 2). */
static bool
own_path(const char *self, const char *controller, char *out, size_t cap)
{
    FILE *file = fopen(self, "re");
    char line[LINE_MAX_BYTES];
    bool found = false;

    if (file == NULL) {
        return false;
    }
    while (!found && fgets(line, sizeof line, file) != NULL) {
        char *list = strchr(line, ':');
        char *path = list != NULL ? strchr(list + 1, ':') : NULL;

        if (path == NULL) {
            continue;
        }
        *path++ = '\0';
        list++;
        path[strcspn(path, "\n")] = '\0';
        if (*controller == '\0' ? *list == '\0'
                                : has_word(list, controller, ",")) {
            found = wp_str_copy(wp_str_from(path), out, cap);
        }
    }
    (void)fclose(file);
    return found;
}

/* Where a hierarchy is mounted, and which of its groups that mount shows.
 * A line: id parent major:minor ROOT POINT options - TYPE source SUPER. */
static bool
find_mount(const char *mountinfo, const char *controller, char *point,
           char *root)
{
    FILE *file = fopen(mountinfo, "re");
    char line[LINE_MAX_BYTES];
    bool found = false;

    if (file == NULL) {
        return false;
    }
    while (!found && fgets(line, sizeof line, file) != NULL) {
        char type[32];
        char super[512];
        char *dash = strstr(line, " - ");

        if (dash == NULL ||
            sscanf(dash, " - %31s %*s %511s", type, super) != 2 ||
            sscanf(line, "%*s %*s %*s %255s %255s", root, point) != 2) {
            continue;
        }
        found = *controller == '\0' ? strcmp(type, "cgroup2") == 0
                                    : strcmp(type, "cgroup") == 0 &&
                                          has_word(super, controller, ",");
    }
    (void)fclose(file);
    return found;
}

/* This process's own group as a directory of the machine. */
static bool
own_dir(const char *mountinfo, const char *self, const char *controller,
        char out[WP_CGROUP_PATH_MAX])
{
    char point[256];
    char root[256];
    char path[256];
    const char *below = path;
    int n;

    if (!find_mount(mountinfo, controller, point, root) ||
        !own_path(self, controller, path, sizeof path)) {
        return false;
    }
    if (strcmp(root, "/") != 0) {
        /* The mount shows a part of the tree only (a container). */
        size_t len = strlen(root);

        below = strncmp(path, root, len) == 0 ? path + len : "/";
    }
    n = snprintf(out, WP_CGROUP_PATH_MAX, "%s%s", point,
                 strcmp(below, "/") == 0 ? "" : below);
    return n > 0 && n < WP_CGROUP_PATH_MAX;
}

static bool
make_dir(const char *dir)
{
    return mkdir(dir, 0755) == 0 || errno == EEXIST;
}

static void
open_v1(struct wp_cgroups *groups, const char *mountinfo, const char *self,
        const char *group)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(controllers); i++) {
        struct wp_cgroup_tree *tree = &groups->trees[groups->trees_len];
        char own[WP_CGROUP_PATH_MAX];
        bool same = false;

        if (!own_dir(mountinfo, self, controllers[i].name, own) ||
            !path_join(tree->dir, own, group) || !make_dir(tree->dir)) {
            continue;
        }
        /* Controllers may share one hierarchy. */
        for (uint32_t t = 0; t < groups->trees_len; t++) {
            if (strcmp(groups->trees[t].dir, tree->dir) == 0) {
                groups->trees[t].controllers |= controllers[i].bit;
                same = true;
            }
        }
        groups->controllers |= controllers[i].bit;
        if (!same) {
            tree->controllers = controllers[i].bit;
            groups->trees_len++;
        }
    }
    if (groups->trees_len > 0) {
        groups->kind = WP_CGROUP_V1;
    }
}

/* Version 2 gives controllers to children of a group only while no process is
 * in the group itself (its root excepted): this one moves to a leaf first. Only
 * what was delegated to us is touched. Who starts a daemon anew while sandboxes
 * of the last one live must start it in that leaf, for the same reason. */
static bool
leave_inner_group(const char *own)
{
    char leaf[WP_CGROUP_PATH_MAX];
    char pid[16];

    if (!path_join(leaf, own, WP_CGROUP_LEAF) || !make_dir(leaf)) {
        return false;
    }
    (void)snprintf(pid, sizeof pid, "%d", (int)getpid());
    return write_text(leaf, "cgroup.procs", pid);
}

static unsigned
enable_v2(const char *dir)
{
    char have[256];
    unsigned bits = 0;

    if (!read_text(dir, "cgroup.controllers", have, sizeof have)) {
        return 0;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(controllers); i++) {
        char plus[16];

        (void)snprintf(plus, sizeof plus, "+%s", controllers[i].name);
        if (has_word(have, controllers[i].name, " \n") &&
            write_text(dir, "cgroup.subtree_control", plus)) {
            bits |= controllers[i].bit;
        }
    }
    return bits;
}

static void
open_v2(struct wp_cgroups *groups, const char *mountinfo, const char *self,
        const char *group)
{
    struct wp_cgroup_tree *tree = &groups->trees[0];
    char own[WP_CGROUP_PATH_MAX];
    char have[256];
    char *slash;

    if (!own_dir(mountinfo, self, "", own)) {
        return;
    }
    slash = strrchr(own, '/');
    if (slash != NULL && strcmp(slash + 1, WP_CGROUP_LEAF) == 0) {
        *slash = '\0'; /* Ours is the one above. */
    }
    if (!read_text(own, "cgroup.controllers", have, sizeof have) ||
        !(has_word(have, "memory", " \n") || has_word(have, "pids", " \n")) ||
        !path_join(tree->dir, own, group) || !make_dir(tree->dir)) {
        return;
    }
    if (enable_v2(own) == 0) {
        groups->moved = leave_inner_group(own);
        if (!groups->moved || enable_v2(own) == 0) {
            (void)rmdir(tree->dir);
            return;
        }
    }
    tree->controllers = enable_v2(tree->dir);
    if (tree->controllers == 0) {
        (void)rmdir(tree->dir);
        return;
    }
    groups->trees_len = 1;
    groups->controllers = tree->controllers;
    groups->kind = WP_CGROUP_V2;
}

void
wp_cgroups_open(struct wp_cgroups *groups, const char *mountinfo,
                const char *self, const char *group)
{
    *groups = (struct wp_cgroups){.kind = WP_CGROUP_NONE};
    open_v2(groups, mountinfo, self, group);
    if (groups->kind == WP_CGROUP_NONE) {
        open_v1(groups, mountinfo, self, group);
    }
}

void
wp_cgroups_close(struct wp_cgroups *groups)
{
    for (uint32_t t = 0; t < groups->trees_len; t++) {
        (void)rmdir(groups->trees[t].dir);
    }
    groups->trees_len = 0;
    groups->kind = WP_CGROUP_NONE;
}

/* Is text "<prefix>PID" of a process that does not exist? */
static bool
names_the_dead(const char *text, const char *prefix)
{
    size_t len = strlen(prefix);
    uint64_t pid;

    return strncmp(text, prefix, len) == 0 &&
           wp_str_to_u64(wp_str_from(text + len), &pid) && pid > 0 &&
           pid <= INT32_MAX && kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

void
wp_cgroups_sweep(const struct wp_cgroups *groups, const char *prefix)
{
    for (uint32_t t = 0; t < groups->trees_len; t++) {
        const char *ours = groups->trees[t].dir;
        const char *slash = strrchr(ours, '/');
        char dir[WP_CGROUP_PATH_MAX];
        struct dirent *entry;
        DIR *beside;

        (void)snprintf(dir, sizeof dir, "%.*s", (int)(slash - ours), ours);
        beside = opendir(dir);
        while (beside != NULL && (entry = readdir(beside)) != NULL) {
            if (names_the_dead(entry->d_name, prefix)) {
                (void)unlinkat(dirfd(beside), entry->d_name, AT_REMOVEDIR);
            }
        }
        if (beside != NULL) {
            (void)closedir(beside);
        }
    }
}

/* Sets of trees, an empty line between them. */
static bool
print_trees(FILE *file, const struct wp_cgroups *groups, bool first)
{
    bool ok = groups->trees_len == 0 || first || fputc('\n', file) != EOF;

    for (uint32_t t = 0; t < groups->trees_len && ok; t++) {
        ok = fprintf(file, "%s\n", groups->trees[t].dir) > 0;
    }
    return ok;
}

enum wp_status
wp_cgroups_save(const struct wp_cgroups *groups, const struct wp_cgroups *old,
                uint32_t old_len, const char *path, struct wp_err *err)
{
    char fresh[WP_CGROUP_PATH_MAX + 32];
    FILE *file = NULL;
    bool ok;

    if (snprintf(fresh, sizeof fresh, "%s.new", path) < (int)sizeof fresh) {
        file = fopen(fresh, "we");
    }
    ok = file != NULL && print_trees(file, groups, true);
    for (uint32_t i = 0; i < old_len && ok; i++) {
        ok = print_trees(file, &old[i], false);
    }
    if (file != NULL && fclose(file) != 0) {
        ok = false;
    }
    return ok && rename(fresh, path) == 0
               ? WP_OK
               : wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot write %s",
                            path);
}

static bool
has_tree(const struct wp_cgroups *groups, const char *dir)
{
    for (uint32_t t = 0; t < groups->trees_len; t++) {
        if (strcmp(groups->trees[t].dir, dir) == 0) {
            return true;
        }
    }
    return false;
}

/* What it is, by what the kernel shows in it. */
static void
add_old_tree(struct wp_cgroups *groups, const char *dir)
{
    struct wp_cgroup_tree *tree = &groups->trees[groups->trees_len++];
    char path[WP_CGROUP_PATH_MAX];

    *tree = (struct wp_cgroup_tree){.controllers = 0};
    memcpy(tree->dir, dir, strlen(dir) + 1);
    groups->kind = WP_CGROUP_V1;
    if (path_join(path, dir, "cgroup.subtree_control") &&
        access(path, F_OK) == 0) {
        groups->kind = WP_CGROUP_V2;
        tree->controllers = WP_CGROUP_MEMORY;
    } else if (path_join(path, dir, "memory.oom_control") &&
               access(path, F_OK) == 0) {
        tree->controllers = WP_CGROUP_MEMORY;
    }
    groups->controllers |= tree->controllers;
}

uint32_t
wp_cgroups_load(struct wp_cgroups *groups, uint32_t max, const char *path,
                const char *group, const struct wp_cgroups *now)
{
    FILE *file = fopen(path, "re");
    char line[WP_CGROUP_PATH_MAX];
    uint32_t len = 0;
    bool open = false;

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *slash;

        line[strcspn(line, "\n")] = '\0';
        slash = strrchr(line, '/');
        if (slash == NULL) {
            open = false;
            continue;
        }
        if (line[0] != '/' || strcmp(slash + 1, group) != 0 ||
            strstr(line, "/..") != NULL || has_tree(now, line)) {
            continue;
        }
        if (!open || groups[len - 1].trees_len == WP_CGROUP_TREES_MAX) {
            if (len == max) {
                break;
            }
            groups[len++] = (struct wp_cgroups){.kind = WP_CGROUP_NONE};
            open = true;
        }
        add_old_tree(&groups[len - 1], line);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return len;
}

/* --- One sandbox's group --- */

static bool
apply_memory(enum wp_cgroup_kind kind, const char *dir, uint64_t bytes)
{
    if (kind == WP_CGROUP_V2) {
        /* Absent when the kernel does not account swap. */
        (void)write_text(dir, "memory.swap.max", "0");
        return write_u64(dir, "memory.max", bytes);
    }
    if (!write_u64(dir, "memory.limit_in_bytes", bytes)) {
        return false;
    }
    /* Absent when the kernel does not account swap. */
    (void)write_u64(dir, "memory.memsw.limit_in_bytes", bytes);
    return true;
}

static bool
apply_cpu(enum wp_cgroup_kind kind, const char *dir, uint32_t milli)
{
    uint64_t quota_us = (uint64_t)milli * CPU_PERIOD_US / 1000;

    if (quota_us < CPU_QUOTA_MIN_US) {
        quota_us = CPU_QUOTA_MIN_US;
    }
    if (kind == WP_CGROUP_V2) {
        char text[48];

        (void)snprintf(text, sizeof text, "%" PRIu64 " %d", quota_us,
                       (int)CPU_PERIOD_US);
        return write_text(dir, "cpu.max", text);
    }
    return write_u64(dir, "cpu.cfs_period_us", CPU_PERIOD_US) &&
           write_u64(dir, "cpu.cfs_quota_us", quota_us);
}

static bool
apply_limits(const struct wp_cgroups *groups, uint32_t t, const char *dir,
             const struct wp_cgroup_limits *limits)
{
    unsigned bits = groups->trees[t].controllers;

    if ((bits & WP_CGROUP_MEMORY) != 0 && limits->memory_bytes != 0 &&
        !apply_memory(groups->kind, dir, limits->memory_bytes)) {
        return false;
    }
    if ((bits & WP_CGROUP_PIDS) != 0 && limits->pids_max != 0 &&
        !write_u64(dir, "pids.max", limits->pids_max)) {
        return false;
    }
    return (bits & WP_CGROUP_CPU) == 0 || limits->cpu_milli == 0 ||
           apply_cpu(groups->kind, dir, limits->cpu_milli);
}

enum wp_status
wp_cgroup_make(const struct wp_cgroups *groups, const char *name,
               const struct wp_cgroup_limits *limits, struct wp_err *err)
{
    for (uint32_t t = 0; t < groups->trees_len; t++) {
        char dir[WP_CGROUP_PATH_MAX];

        if (!path_join(dir, groups->trees[t].dir, name) || !make_dir(dir) ||
            !apply_limits(groups, t, dir, limits)) {
            int saved = errno;
            bool gone = wp_cgroup_remove(groups, name);

            (void)gone; /* Empty, so it goes; if not, the sweep retries. */
            return wp_err_sys(err, WP_UNAVAILABLE, saved,
                              "cannot make control group %s/%s",
                              groups->trees[t].dir, name);
        }
    }
    return WP_OK;
}

int
wp_cgroup_open_procs(const struct wp_cgroups *groups, const char *name,
                     int fds[WP_CGROUP_TREES_MAX])
{
    uint32_t t;

    for (t = 0; t < groups->trees_len; t++) {
        char dir[WP_CGROUP_PATH_MAX];
        char path[WP_CGROUP_PATH_MAX];

        fds[t] = -1;
        if (path_join(dir, groups->trees[t].dir, name) &&
            path_join(path, dir, "cgroup.procs")) {
            fds[t] = open(path, O_WRONLY | O_CLOEXEC);
        }
        if (fds[t] < 0) {
            int saved = errno;

            while (t > 0) {
                (void)close(fds[--t]);
            }
            errno = saved;
            return -1;
        }
    }
    return (int)t;
}

bool
wp_cgroup_exists(const struct wp_cgroups *groups, const char *name)
{
    for (uint32_t t = 0; t < groups->trees_len; t++) {
        char dir[WP_CGROUP_PATH_MAX];

        if (path_join(dir, groups->trees[t].dir, name) &&
            access(dir, F_OK) == 0) {
            return true;
        }
    }
    return false;
}

bool
wp_cgroup_remove(const struct wp_cgroups *groups, const char *name)
{
    bool gone = true;

    for (uint32_t t = 0; t < groups->trees_len; t++) {
        char dir[WP_CGROUP_PATH_MAX];

        if (!path_join(dir, groups->trees[t].dir, name) ||
            (rmdir(dir) != 0 && errno != ENOENT)) {
            gone = false;
        }
    }
    if (!gone) {
        errno = EBUSY;
    }
    return gone;
}

void
wp_cgroup_kill(const struct wp_cgroups *groups, const char *name)
{
    for (uint32_t t = 0; t < groups->trees_len; t++) {
        char dir[WP_CGROUP_PATH_MAX];
        char path[WP_CGROUP_PATH_MAX];
        char line[32];
        FILE *file;

        if (!path_join(dir, groups->trees[t].dir, name) ||
            !path_join(path, dir, "cgroup.procs")) {
            continue;
        }
        file = fopen(path, "re");
        if (file == NULL) {
            continue;
        }
        while (fgets(line, sizeof line, file) != NULL) {
            long pid = strtol(line, NULL, 10);

            if (pid > 1) {
                (void)kill((pid_t)pid, SIGKILL);
            }
        }
        (void)fclose(file);
    }
}

void
wp_cgroup_list(const struct wp_cgroups *groups,
               void (*fn)(void *ctx, const char *name), void *ctx)
{
    for (uint32_t t = 0; t < groups->trees_len; t++) {
        DIR *dir = opendir(groups->trees[t].dir);
        struct dirent *entry;

        if (dir == NULL) {
            continue;
        }
        while ((entry = readdir(dir)) != NULL) {
            if (entry->d_name[0] != '.' && entry->d_type == DT_DIR) {
                fn(ctx, entry->d_name);
            }
        }
        (void)closedir(dir);
    }
}

bool
wp_cgroup_oom_killed(const struct wp_cgroups *groups, const char *name)
{
    const char *file =
        groups->kind == WP_CGROUP_V2 ? "memory.events" : "memory.oom_control";

    for (uint32_t t = 0; t < groups->trees_len; t++) {
        char dir[WP_CGROUP_PATH_MAX];
        char text[512];
        const char *at;

        if ((groups->trees[t].controllers & WP_CGROUP_MEMORY) != 0 &&
            path_join(dir, groups->trees[t].dir, name) &&
            read_text(dir, file, text, sizeof text)) {
            at = strstr(text, "oom_kill ");
            return at != NULL && strtoul(at + 9, NULL, 10) > 0;
        }
    }
    return false;
}
