/* Any directories and links as an image: nothing is made or shown beyond it.
 *
 * A line of the input is "d PATH", a directory of the image; "l PATH TARGET", a
 * link in it, where a target "@..." begins with the directory outside; or
 * "m PATH", where a volume is mounted. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/checkout/inside.h"
#include "local/walls/rootfs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    INPUT_MAX = 4096,
    LINES_MAX = 64,
    MOUNTS_MAX = 8,
};

static char base[64];
static char image[96];
static char outside[96];
static char made[96];

static void
must(bool ok)
{
    if (!ok) {
        abort();
    }
}

static void
clean(void)
{
    struct wp_err err;

    must(wp_dir_remove(base, &err) == WP_OK);
}

static void
begin(void)
{
    if (base[0] == '\0') {
        (void)snprintf(base, sizeof base, "%s/wpfuzz-XXXXXX",
                       access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        must(mkdtemp(base) != NULL);
        (void)atexit(clean);
        (void)snprintf(image, sizeof image, "%s/image", base);
        (void)snprintf(outside, sizeof outside, "%s/outside", base);
        (void)snprintf(made, sizeof made, "%s/root", base);
    }
    must(mkdir(image, 0755) == 0 && mkdir(outside, 0755) == 0);
}

/* As its maker would, who has no more than the image. */
static void
put_link(int top, char *path, const char *target)
{
    char to[INPUT_MAX + sizeof outside];
    char *slash = strrchr(path, '/');
    const char *parent = ".";
    int fd;

    if (slash != NULL) {
        *slash = '\0';
        parent = *path != '\0' ? path : ".";
        path = slash + 1;
    }
    (void)snprintf(to, sizeof to, "%s%s", *target == '@' ? outside : "",
                   target + (*target == '@'));
    fd = wp_inside_open(top, parent, WP_INSIDE_FOLLOW);
    if (fd >= 0) {
        (void)!symlinkat(to, fd, path);
        (void)close(fd);
    }
}

/* What the manifest's reader lets through. */
static bool
is_mount_path(const char *path)
{
    size_t len = strlen(path);

    return path[0] == '/' && len > 1 && len < 256 && path[len - 1] != '/' &&
           strstr(path, "//") == NULL && strstr(path, "/.") == NULL;
}

static uint32_t
build(int top, char *text, struct wp_template_mount *mounts)
{
    uint32_t mounts_len = 0;
    char *save = NULL;
    int lines = 0;

    for (char *line = strtok_r(text, "\n", &save);
         line != NULL && lines < LINES_MAX;
         line = strtok_r(NULL, "\n", &save), lines++) {
        char *space;

        if (line[0] == '\0' || line[1] != ' ') {
            continue;
        }
        switch (line[0]) {
        case 'd':
            (void)wp_inside_make(top, line + 2, 0755);
            break;
        case 'l':
            space = strchr(line + 2, ' ');
            if (space != NULL) {
                *space = '\0';
                put_link(top, line + 2, space + 1);
            }
            break;
        case 'm':
        case 'f': /* A file there. */
            if (mounts_len < MOUNTS_MAX && is_mount_path(line + 2)) {
                mounts[mounts_len++] = (struct wp_template_mount){
                    .kind = line[0] == 'f' ? WP_MOUNT_FILE : WP_MOUNT_EMPTY,
                    .path = line + 2,
                    .size_bytes = 4096};
            }
            break;
        default:
            break;
        }
    }
    return mounts_len;
}

static void
check(const struct wp_root *root)
{
    size_t len = strlen(image);

    for (size_t i = 0; i < root->binds_len; i++) {
        char real[4096];

        must(realpath(root->binds[i].from, real) != NULL);
        must(strncmp(real, image, len) == 0 && real[len] == '/');
        must(root->binds[i].to[0] == '/');
    }
    must(rmdir(outside) == 0); /* So nothing was made in it. */
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_template_mount mounts[MOUNTS_MAX];
    struct wp_template tmpl = {.name = "t", .mounts = mounts};
    static struct wp_root root;
    char text[INPUT_MAX + 1];
    struct wp_err err;
    int top;

    if (size > INPUT_MAX) {
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    begin();
    top = open(image, O_PATH | O_DIRECTORY | O_CLOEXEC);
    must(top >= 0);
    tmpl.mounts_len = build(top, text, mounts);
    (void)close(top);
    (void)!wp_root_make(&root, made, image, &tmpl, &err);
    check(&root);
    wp_root_fini(&root);
    must(wp_dir_remove(image, &err) == WP_OK);
    must(wp_dir_remove(made, &err) == WP_OK);
    return 0;
}
