#include <errno.h>
#include <unistd.h>

#include "local/walls/cgroup.h"
#include "local/walls/cgroup_files.h"

/* The tree that can, and the file of a group in it; NULL: none can. */
static const struct wp_cgroup_tree *
freezer(const struct wp_cgroups *groups, const char **file)
{
    char path[WP_CGROUP_PATH_MAX];

    *file = groups->kind == WP_CGROUP_V2 ? "cgroup.freeze" : "freezer.state";
    for (uint32_t t = 0; t < groups->trees_len; t++) {
        const struct wp_cgroup_tree *tree = &groups->trees[t];

        /* Kernels before 5.2 have version 2 without it. */
        if (groups->kind == WP_CGROUP_V2
                ? wp_cgroup_path(path, tree->dir, *file) &&
                      access(path, W_OK) == 0
                : (tree->controllers & WP_CGROUP_FREEZER) != 0) {
            return tree;
        }
    }
    return NULL;
}

bool
wp_cgroups_can_freeze(const struct wp_cgroups *groups)
{
    const char *file;

    return freezer(groups, &file) != NULL;
}

bool
wp_cgroup_freeze(const struct wp_cgroups *groups, const char *name, bool frozen)
{
    const char *file;
    const struct wp_cgroup_tree *tree = freezer(groups, &file);
    char dir[WP_CGROUP_PATH_MAX];
    const char *word = groups->kind == WP_CGROUP_V2 ? (frozen ? "1" : "0")
                       : frozen                     ? "FROZEN"
                                                    : "THAWED";

    if (tree == NULL) {
        errno = ENOTSUP;
        return false;
    }
    return wp_cgroup_path(dir, tree->dir, name) &&
           wp_cgroup_put(dir, file, word);
}
