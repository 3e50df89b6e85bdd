#include "local/walls/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "local/walls/cgroup_files.h"
#include "pool/base/compiler.h"
#include "pool/base/str.h"

enum {
    LINE_MAX_BYTES = 4096,
};

static const struct {
    const char *name;
    unsigned bit;
} controllers[] = {
    {"memory", WP_CGROUP_MEMORY},
    {"pids", WP_CGROUP_PIDS},
    {"cpu", WP_CGROUP_CPU},
    {"freezer", WP_CGROUP_FREEZER},
};

/* The first reason is the one that matters: version 2 is tried first. */
static void WP_PRINTF(2, 3)
    explain(struct wp_cgroups *groups, const char *fmt, ...)
{
    va_list ap;

    if (groups->reason[0] == '\0') {
        va_start(ap, fmt);
        (void)vsnprintf(groups->reason, sizeof groups->reason, fmt, ap);
        va_end(ap);
    }
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

/* This process's own group, or the given one, as a directory of the machine. */
static bool
own_dir(const char *mountinfo, const char *self, const char *given,
        const char *controller, char out[WP_CGROUP_PATH_MAX])
{
    char point[256];
    char root[256];
    char path[256];
    const char *below = path;

    if (!find_mount(mountinfo, controller, point, root) ||
        !(given[0] != '\0' ? wp_str_copy(wp_str_from(given), path, sizeof path)
                           : own_path(self, controller, path, sizeof path))) {
        return false;
    }
    if (strcmp(root, "/") != 0) {
        /* The mount shows a part of the tree only (a container). */
        size_t len = strlen(root);

        below = strncmp(path, root, len) == 0 ? path + len : "/";
    }
    (void)snprintf(out, WP_CGROUP_PATH_MAX, "%s%s", point,
                   strcmp(below, "/") == 0 ? "" : below); /* There is room. */
    return true;
}

static void
open_v1(struct wp_cgroups *groups, const char *mountinfo, const char *self,
        const char *group)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(controllers); i++) {
        struct wp_cgroup_tree *tree = &groups->trees[groups->trees_len];
        char own[WP_CGROUP_PATH_MAX];
        bool same = false;

        if (!own_dir(mountinfo, self, "", controllers[i].name, own) ||
            !wp_cgroup_path(tree->dir, own, group)) {
            continue;
        }
        if (!wp_cgroup_dir_make(tree->dir)) {
            explain(groups, "cannot make %s: %s", tree->dir, strerror(errno));
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
        groups->reason[0] = '\0';
    }
}

/* All at once: the kernel switches on all of them or none. */
static bool
enable(const char *dir, unsigned bits)
{
    char text[64] = "";
    size_t used = 0;

    for (size_t i = 0; i < WP_ARRAY_LEN(controllers); i++) {
        if ((bits & controllers[i].bit) != 0) {
            used += (size_t)snprintf(text + used, sizeof text - used, "+%s ",
                                     controllers[i].name);
        }
    }
    return bits == 0 || wp_cgroup_put(dir, "cgroup.subtree_control", text);
}

static void
disable(const char *dir, unsigned bits)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(controllers); i++) {
        char minus[16];

        if ((bits & controllers[i].bit) != 0) {
            (void)snprintf(minus, sizeof minus, "-%s", controllers[i].name);
            (void)wp_cgroup_put(dir, "cgroup.subtree_control", minus);
        }
    }
}

static unsigned
listed(const char *dir, const char *file)
{
    char have[256];
    unsigned bits = 0;

    if (!wp_cgroup_get(dir, file, have, sizeof have)) {
        return 0;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(controllers); i++) {
        if (has_word(have, controllers[i].name, " \n")) {
            bits |= controllers[i].bit;
        }
    }
    return bits;
}

/* Switches on for the children of dir what it has itself. A controller that
 * refuses for a reason of its own (cpu, while processes run in real time) keeps
 * nobody from the others. Returns what is on; errno where that is not all. */
static unsigned
enable_v2(const char *dir)
{
    unsigned want = listed(dir, "cgroup.controllers");
    unsigned fresh = want & ~listed(dir, "cgroup.subtree_control");

    if (!enable(dir, fresh) && errno != EBUSY) {
        int saved = errno;

        for (size_t i = 0; i < WP_ARRAY_LEN(controllers); i++) {
            (void)enable(dir, fresh & controllers[i].bit);
        }
        errno = saved;
    }
    return want & listed(dir, "cgroup.subtree_control");
}

/* Only a plain group takes a sandbox. While processes are in a group, what it
 * switches on makes it the root of a threaded part, and its children
 * invalid. */
static bool
is_plain(const char *dir)
{
    char type[64];

    return !wp_cgroup_get(dir, "cgroup.type", type, sizeof type) ||
           strcmp(type, "domain\n") == 0;
}

static bool
move(pid_t process, const char *dir)
{
    char pid[16];

    (void)snprintf(pid, sizeof pid, "%d", (int)process);
    return wp_cgroup_put(dir, "cgroup.procs", pid);
}

/* All processes of a group that was given to us; one that has ended since is
 * no error. */
static bool
move_all(const char *from, const char *to)
{
    char path[WP_CGROUP_PATH_MAX + sizeof "/cgroup.procs"];
    bool ok = true;
    FILE *file;
    int pid;

    (void)snprintf(path, sizeof path, "%s/cgroup.procs", from);
    file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    while (ok && fscanf(file, "%d", &pid) == 1) { /* NOLINT(cert-err34-c) */
        ok = move((pid_t)pid, to) || errno == ESRCH;
    }
    (void)fclose(file);
    return ok;
}

/* Version 2 gives controllers to children of a group only while no process is
 * in the group itself (its root excepted, which has no type): this one moves to
 * a leaf first. Only what was delegated to us is touched. Who starts a daemon
 * anew while sandboxes of the last one live must start it in that leaf, for the
 * same reason. So with a group that was given to us, and who is in it. */
static bool
leave_inner_group(struct wp_cgroups *groups, const char *own, bool is_given)
{
    char leaf[WP_CGROUP_PATH_MAX];
    char type[64];
    bool fits;

    if (!wp_cgroup_get(own, "cgroup.type", type, sizeof type)) {
        return true;
    }
    fits = wp_cgroup_path(leaf, own, WP_CGROUP_LEAF);
    if (!fits || !wp_cgroup_dir_make(leaf) ||
        !(is_given ? move_all(own, leaf) : move(getpid(), leaf))) {
        explain(groups, "cannot move to %s/" WP_CGROUP_LEAF ": %s", own,
                strerror(errno));
        if (fits) {
            (void)rmdir(leaf);
        }
        return false;
    }
    groups->moved = !is_given;
    return true;
}

/* What was switched on is off again where nobody else needs it, and this
 * process is back where it was. */
static void
undo_v2(struct wp_cgroups *groups, const char *own)
{
    char leaf[WP_CGROUP_PATH_MAX];

    disable(own, groups->enabled);
    groups->enabled = 0;
    if (groups->moved && wp_cgroup_path(leaf, own, WP_CGROUP_LEAF) &&
        move(getpid(), own)) {
        (void)rmdir(leaf);
        groups->moved = false;
    }
}

static bool
switch_on(struct wp_cgroups *groups, const char *own)
{
    struct wp_cgroup_tree *tree = &groups->trees[0];
    unsigned before = listed(own, "cgroup.subtree_control");
    unsigned on = enable_v2(own);
    int error = errno;

    groups->enabled = on & ~before;
    if (on != 0 && is_plain(own) && is_plain(tree->dir)) {
        tree->controllers = enable_v2(tree->dir);
        error = errno;
        if (tree->controllers != 0) {
            return true;
        }
    } else if (on != 0 || error == EBUSY) {
        explain(groups,
                "other processes are in the daemon's own control group %s, so"
                " that none below it can have limits; start the daemon in one"
                " of its own, as systemd-run -p Delegate=yes does",
                own);
        return false;
    }
    explain(groups, "cannot write %s/cgroup.subtree_control: %s", own,
            strerror(error));
    return false;
}

static void
open_v2(struct wp_cgroups *groups, const char *mountinfo, const char *self,
        const char *given, const char *group)
{
    struct wp_cgroup_tree *tree = &groups->trees[0];
    char own[WP_CGROUP_PATH_MAX];
    bool in_leaf;
    char *slash;

    if (!own_dir(mountinfo, self, given, "", own)) {
        return;
    }
    slash = strrchr(own, '/');
    in_leaf = given[0] == '\0' && slash != NULL &&
              strcmp(slash + 1, WP_CGROUP_LEAF) == 0;
    if (in_leaf) {
        *slash = '\0'; /* Ours is the one above. */
    }
    if (given[0] != '\0' && access(own, F_OK) != 0) {
        explain(groups, "sandbox_cgroup: %s: %s", own, strerror(errno));
        return;
    }
    if (listed(own, "cgroup.controllers") == 0 ||
        !wp_cgroup_path(tree->dir, own, group)) {
        return; /* A machine of version 1 may have an empty version 2. */
    }
    if (!wp_cgroup_dir_make(tree->dir)) {
        explain(groups, "cannot make %s: %s", tree->dir, strerror(errno));
        return;
    }
    if ((!in_leaf && !leave_inner_group(groups, own, given[0] != '\0')) ||
        !switch_on(groups, own)) {
        (void)rmdir(tree->dir);
        undo_v2(groups, own);
        return;
    }
    groups->trees_len = 1;
    groups->controllers = tree->controllers;
    groups->kind = WP_CGROUP_V2;
}

void
wp_cgroups_open(struct wp_cgroups *groups, const char *mountinfo,
                const char *self, const char *given, const char *group)
{
    *groups = (struct wp_cgroups){.kind = WP_CGROUP_NONE};
    open_v2(groups, mountinfo, self, given, group);
    if (groups->kind == WP_CGROUP_NONE && given[0] != '\0') {
        explain(groups, "sandbox_cgroup: a control group of version 2 was "
                        "expected");
        return;
    }
    if (groups->kind == WP_CGROUP_NONE) {
        open_v1(groups, mountinfo, self, group);
    }
    if (groups->kind == WP_CGROUP_NONE && groups->reason[0] == '\0') {
        explain(groups, "no file system of control groups that has memory,"
                        " pids or cpu is mounted");
    }
}

void
wp_cgroups_close(struct wp_cgroups *groups)
{
    for (uint32_t t = 0; t < groups->trees_len; t++) {
        char *dir = groups->trees[t].dir;

        if (rmdir(dir) == 0 && groups->kind == WP_CGROUP_V2) {
            *strrchr(dir, '/') = '\0';
            undo_v2(groups, dir);
        }
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
