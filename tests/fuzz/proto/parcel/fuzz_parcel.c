/* Any bytes as what a claim brings, put into two folders of their own: taken or
 * refused with a reason, and nothing beside them is touched. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "local/walls/rootfs.h"
#include "proto/parcel/bind.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Nothing but the two, and what stands for all the rest. */
static void
look_beside(const char *dir)
{
    DIR *entries = opendir(dir);
    const struct dirent *entry;

    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, "bound") != 0 &&
            strcmp(entry->d_name, "work") != 0) {
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
    char dir[] = "/tmp/wp-parcel-XXXXXX";
    char bound[sizeof dir + 8];
    char work[sizeof dir + 8];
    char why[WP_BIND_WHY_MAX] = "";
    struct wp_bind_command command;
    struct wp_err err;

    if (mkdtemp(dir) == NULL) {
        abort();
    }
    (void)stpcpy(stpcpy(bound, dir), "/bound");
    (void)stpcpy(stpcpy(work, dir), "/work");
    if (mkdir(bound, 0700) != 0 || mkdir(work, 0700) != 0) {
        abort();
    }
    if (!wp_bind_take(bound, work, data, size, &command, why) &&
        why[0] == '\0') {
        abort();
    }
    wp_bind_command_fini(&command);
    look_beside(dir);
    if (wp_dir_remove(dir, &err) != WP_OK) {
        abort();
    }
    return 0;
}
