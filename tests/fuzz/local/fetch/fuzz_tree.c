/* Any bytes as a tree image, put into a folder of its own: taken or refused
 * with a reason, and nothing beside it is touched. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/checkout/unpack.h"
#include "local/walls/rootfs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
look_beside(const char *dir)
{
    DIR *entries = opendir(dir);
    const struct dirent *entry;

    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, "work") != 0) {
            abort();
        }
    }
    if (entries == NULL || closedir(entries) != 0) {
        abort();
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[] = "/tmp/wp-tree-XXXXXX";
    char work[sizeof dir + 8];
    char why[WP_UNPACK_WHY_MAX] = "";
    struct wp_err err;

    if (mkdtemp(dir) == NULL) {
        abort();
    }
    (void)stpcpy(stpcpy(work, dir), "/work");
    if (mkdir(work, 0700) != 0) {
        abort();
    }
    if (!wp_unpack(work, size % 2 == 0 ? "" : "a/b", data, size, why) &&
        why[0] == '\0') {
        abort();
    }
    look_beside(dir);
    if (wp_dir_remove(dir, &err) != WP_OK) {
        abort();
    }
    return 0;
}
