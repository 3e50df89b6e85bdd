#include "runtime/server/bind_body.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pool/base/os_error.h"
#include "proto/checkout/tree_frame.h"
#include "proto/checkout/unpack.h"
#include "proto/formats/json_text.h"
#include "proto/parcel/parcel.h"

void
wp_bind_body_init(struct wp_bind_body *body, uint64_t trees_len, bool keeps)
{
    *body =
        (struct wp_bind_body){.trees_len = trees_len, .keeps = keeps, .fd = -1};
}

/* A file without a name. -1 with errno. */
static int
open_file(const struct wp_workspace *workspace)
{
    char name[48];
    int fd = openat(workspace->fd, ".", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC,
                    0600);

    if (fd >= 0 || errno == ENOSPC || errno == EACCES) {
        return fd;
    }
    /* Its file system knows no such file. */
    (void)snprintf(name, sizeof name, ".warmpool-trees-%d", (int)getpid());
    fd = openat(workspace->fd, name,
                O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && unlinkat(workspace->fd, name, 0) != 0) {
        int error = errno;

        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int
write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno;
        }
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

static void
keep_tree(struct wp_bind_body *body, const struct wp_workspace *workspace,
          const char *data, size_t len)
{
    if (body->got == 0) {
        body->fd = open_file(workspace);
        body->os_errno = body->fd >= 0 ? 0 : errno;
    }
    if (body->os_errno == 0) {
        body->os_errno = write_all(body->fd, data, len);
    }
}

bool
wp_bind_body_feed(struct wp_bind_body *body,
                  const struct wp_workspace *workspace, const char *data,
                  size_t len)
{
    uint64_t left = body->trees_len - body->got;
    size_t of_trees = len < left ? len : (size_t)left;

    if (of_trees > 0 && body->keeps) {
        keep_tree(body, workspace, data, of_trees);
    }
    body->got += of_trees;
    data += of_trees;
    len -= of_trees;
    if (len == 0) {
        return true;
    }
    if (body->parcel == NULL) {
        body->parcel = malloc(WP_PARCEL_MAX);
    }
    if (body->parcel == NULL || len > WP_PARCEL_MAX - body->parcel_len) {
        return false;
    }
    memcpy(body->parcel + body->parcel_len, data, len);
    body->parcel_len += len;
    return true;
}

bool
wp_bind_body_is_whole(const struct wp_bind_body *body)
{
    return body->got == body->trees_len;
}

static bool
unpack(const struct wp_bind_body *body, const struct wp_workspace *workspace,
       const uint8_t *map, json_t *dirs, char why[WP_UNPACK_WHY_MAX])
{
    struct wp_tree_frames rest = {map, map + body->trees_len};
    struct wp_tree_frame frame;
    char dir[WP_TREE_DIR_MAX + 1];

    while (wp_tree_frame_next(&rest, &frame)) {
        memcpy(dir, frame.dir, frame.dir_len);
        dir[frame.dir_len] = '\0';
        if (!wp_unpack(workspace->root, dir, frame.image, frame.image_len,
                       why)) {
            return false;
        }
        (void)json_array_append_new(dirs, wp_json_from_text(dir));
        /* Its room is free for the next; where that cannot be, for none. */
        (void)fallocate(body->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        frame.image - map, (off_t)frame.image_len);
    }
    if (rest.pos != rest.end) {
        (void)snprintf(why, WP_UNPACK_WHY_MAX, "what came are no trees");
        return false;
    }
    return true;
}

bool
wp_bind_body_unpack(struct wp_bind_body *body,
                    const struct wp_workspace *workspace, json_t *names,
                    char *why, size_t cap)
{
    char reason[WP_UNPACK_WHY_MAX] = "";
    void *map = MAP_FAILED;
    bool ok = false;

    if (body->trees_len == 0) {
        return true;
    }
    if (body->os_errno == 0) {
        map = mmap(NULL, (size_t)body->trees_len, PROT_READ, MAP_SHARED,
                   body->fd, 0);
        body->os_errno = map != MAP_FAILED ? 0 : errno;
    }
    if (body->os_errno != 0) {
        (void)snprintf(why, cap, "repositories in the workspace: %s",
                       wp_os_error(body->os_errno));
    } else {
        json_t *dirs = json_array();

        ok = unpack(body, workspace, map, dirs, reason);
        (void)json_object_set_new(names, "repositories", dirs);
        (void)snprintf(why, cap, "repository: %s", reason);
    }
    if (map != MAP_FAILED) {
        (void)munmap(map, (size_t)body->trees_len);
    }
    return ok;
}

const uint8_t *
wp_bind_body_parcel(const struct wp_bind_body *body)
{
    static const uint8_t nothing[1];

    return body->parcel != NULL ? body->parcel : nothing;
}

void
wp_bind_body_fini(struct wp_bind_body *body)
{
    if (body->fd >= 0) {
        (void)close(body->fd);
    }
    if (body->parcel != NULL) {
        explicit_bzero(body->parcel, body->parcel_len);
        free(body->parcel);
    }
    *body = (struct wp_bind_body){.fd = -1};
}
