/* local/walls/cgroup_files.h - small files of control groups, for the files of
 * cgroup.h. */
#ifndef WP_LOCAL_WALLS_CGROUP_FILES_H
#define WP_LOCAL_WALLS_CGROUP_FILES_H

#include <stdbool.h>
#include <stddef.h>

#include "local/walls/cgroup.h"

/* "a/b"; false with errno ENAMETOOLONG. */
bool wp_cgroup_path(char out[WP_CGROUP_PATH_MAX], const char *a, const char *b);
/* Writes text to dir/file, which is there; false with errno. */
bool wp_cgroup_put(const char *dir, const char *file, const char *text);
/* Reads at most cap - 1 bytes of dir/file; false with errno. */
bool wp_cgroup_get(const char *dir, const char *file, char *out, size_t cap);
/* Makes a group, unless it is there; false with errno. */
bool wp_cgroup_dir_make(const char *dir);

#endif
