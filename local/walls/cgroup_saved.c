#include "local/walls/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "local/walls/cgroup_files.h"

/* Sets of trees, an empty line between them. */
static bool
print_trees(FILE *file, const struct wp_cgroups *groups, bool first)
{
    bool ok = first || fputc('\n', file) != EOF;

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
    if (wp_cgroup_path(path, dir, "cgroup.subtree_control") &&
        access(path, F_OK) == 0) {
        groups->kind = WP_CGROUP_V2;
        tree->controllers = WP_CGROUP_MEMORY;
    } else if (wp_cgroup_path(path, dir, "memory.oom_control") &&
               access(path, F_OK) == 0) {
        tree->controllers = WP_CGROUP_MEMORY;
    } else if (wp_cgroup_path(path, dir, "freezer.state") &&
               access(path, F_OK) == 0) {
        tree->controllers = WP_CGROUP_FREEZER;
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
