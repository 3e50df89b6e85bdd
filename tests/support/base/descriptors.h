/* tests/support/base/descriptors.h - how many descriptors this process has.
 *
 * Include cmocka.h before. */
#ifndef WP_TESTS_SUPPORT_BASE_DESCRIPTORS_H
#define WP_TESTS_SUPPORT_BASE_DESCRIPTORS_H

#include <dirent.h>
#include <stddef.h>

/* With the one that counts them, and the folder's two other entries: only
 * differences mean something. */
static inline size_t
descriptors_count(void)
{
    DIR *dir = opendir("/proc/self/fd");
    size_t n = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        n++;
    }
    (void)closedir(dir);
    return n;
}

#endif
