/* tests/support/base/temp_dir.h - a directory of the test's own. */
#ifndef WP_TESTS_SUPPORT_BASE_TEMP_DIR_H
#define WP_TESTS_SUPPORT_BASE_TEMP_DIR_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes one under TMPDIR or /tmp; its path into out. Aborts when it cannot. */
static inline void
temp_dir_make(char *out, size_t cap)
{
    const char *base = getenv("TMPDIR");

    (void)snprintf(out, cap, "%s/wp-test-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(out) == NULL) {
        perror(out);
        abort();
    }
}

/* The same in memory where the machine has that, for tests that sync often and
 * are not about the disk. */
static inline void
temp_dir_make_fast(char *out, size_t cap)
{
    (void)snprintf(out, cap, "/dev/shm/wp-test-XXXXXX");
    if (mkdtemp(out) == NULL) {
        temp_dir_make(out, cap);
    }
}

/* Removes what is in it; it must hold plain files only. */
static inline void
temp_dir_empty(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 &&
            strcmp(entry->d_name, "..") != 0) {
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

static inline void
temp_dir_remove(const char *path)
{
    temp_dir_empty(path);
    (void)rmdir(path);
}

#endif
