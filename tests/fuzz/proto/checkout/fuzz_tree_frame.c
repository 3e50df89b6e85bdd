/* Any bytes as the trees of a binding, put into a folder of their own as the
 * server in a Pod does: taken or refused with a reason, and nothing beside it is
 * touched. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "local/walls/rootfs.h"
#include "pool/base/assert.h"
#include "proto/checkout/tree_frame.h"
#include "proto/checkout/unpack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
look_beside(const char *dir)
{
    DIR *entries = opendir(dir);
    const struct dirent *entry;

    WP_ASSERT(entries != NULL);
    while ((entry = readdir(entries)) != NULL) {
        WP_ASSERT(entry->d_name[0] == '.' ||
                  strcmp(entry->d_name, "work") == 0);
    }
    WP_ASSERT(closedir(entries) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_tree_frames frames = {data, data + size};
    struct wp_tree_frame frame;
    char dir[] = "/tmp/wp-frame-XXXXXX";
    char work[sizeof dir + 8];
    char folder[WP_TREE_DIR_MAX + 1];
    char why[WP_UNPACK_WHY_MAX];
    struct wp_err err;

    WP_ASSERT(mkdtemp(dir) != NULL);
    (void)stpcpy(stpcpy(work, dir), "/work");
    WP_ASSERT(mkdir(work, 0700) == 0);
    while (wp_tree_frame_next(&frames, &frame)) {
        WP_ASSERT(frame.dir_len <= WP_TREE_DIR_MAX &&
                  frame.image + frame.image_len == frames.pos);
        memcpy(folder, frame.dir, frame.dir_len);
        folder[frame.dir_len] = '\0';
        why[0] = '\0';
        WP_ASSERT(wp_unpack(work, folder, frame.image, frame.image_len, why) ||
                  why[0] != '\0');
    }
    look_beside(dir);
    WP_ASSERT(wp_dir_remove(dir, &err) == WP_OK);
    return 0;
}
