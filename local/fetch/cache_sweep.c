#include "local/fetch/cache_sweep.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "local/fetch/checkout.h"
#include "local/walls/rootfs.h"

enum {
    BLOCK = 512, /* What st_blocks counts. */
    NAME_BYTES = 256,
    EMPTY_S = 3600,
    PATH_BYTES = 2 * NAME_BYTES + 32,
};

/* What is kept or removed as one: an image, or a mirror. */
struct unit {
    char *path; /* Below the cache. */
    int64_t used_s;
    uint64_t bytes;
    bool is_mirror;
};

struct sweep {
    struct unit *units;
    size_t n;
    size_t cap;
    uint64_t bytes;
    bool failed;
};

static uint64_t summed; /* Of nftw, which hands nothing on. */

static int
add_size(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)path;
    (void)type;
    (void)ftw;
    summed += (uint64_t)st->st_blocks * BLOCK;
    return 0;
}

static void
add(struct sweep *sweep, const char *path, bool is_mirror)
{
    struct stat st;
    struct unit unit = {.is_mirror = is_mirror};

    if (lstat(path, &st) != 0) {
        return; /* Gone meanwhile. */
    }
    if (sweep->n == sweep->cap) {
        size_t cap = 2 * sweep->cap + 64;
        struct unit *grown = realloc(sweep->units, cap * sizeof *grown);

        if (grown == NULL) {
            sweep->failed = true;
            return;
        }
        sweep->units = grown;
        sweep->cap = cap;
    }
    summed = (uint64_t)st.st_blocks * BLOCK;
    if (is_mirror) {
        summed = 0;
        (void)nftw(path, add_size, 16, FTW_PHYS);
    }
    unit.path = strdup(path);
    unit.used_s = st.st_mtime;
    unit.bytes = summed;
    if (unit.path == NULL) {
        sweep->failed = true;
        return;
    }
    sweep->bytes += unit.bytes;
    sweep->units[sweep->n++] = unit;
}

static bool
is_image(const char *name)
{
    size_t len = strlen(name);
    size_t end = strlen(WP_CHECKOUT_IMAGE);

    return len > end && strcmp(name + len - end, WP_CHECKOUT_IMAGE) == 0;
}

/* The lock of a repository's folder; -1: somebody is at it. */
static int
try_lock(const char *dir)
{
    char path[PATH_BYTES];
    int fd;

    (void)snprintf(path, sizeof path, "%s/" WP_CHECKOUT_LOCK, dir);
    fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* What a checkout that was cut off has left. */
static void
clean(const char *dir)
{
    char path[PATH_BYTES];
    int lock;
    int top;

    (void)snprintf(path, sizeof path, "%s/" WP_CHECKOUT_DIRTY, dir);
    if (access(path, F_OK) != 0) {
        return;
    }
    lock = try_lock(dir);
    if (lock < 0) {
        return;
    }
    top = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top >= 0 && chdir(dir) == 0) {
        if (wp_checkout_clean()) {
            (void)unlink(WP_CHECKOUT_DIRTY);
        }
        (void)!fchdir(top);
    }
    if (top >= 0) {
        (void)close(top);
    }
    (void)close(lock);
}

/* A repository's folder that nothing is kept in, and nothing has begun in for a
 * while. */
static void
drop_empty(const char *dir)
{
    char path[PATH_BYTES];
    struct stat st;
    int lock;

    if (stat(dir, &st) != 0 || st.st_mtime > time(NULL) - EMPTY_S) {
        return;
    }
    lock = try_lock(dir);
    if (lock < 0) {
        return;
    }
    (void)snprintf(path, sizeof path, "%s/" WP_CHECKOUT_LOCK, dir);
    (void)unlink(path);
    (void)rmdir(dir);
    (void)close(lock);
}

static void
look_at(struct sweep *sweep, const char *name)
{
    char path[PATH_BYTES];
    const struct dirent *entry;
    size_t before = sweep->n;
    DIR *dir;

    clean(name);
    dir = opendir(name);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        bool mirror = strcmp(entry->d_name, WP_CHECKOUT_MIRROR) == 0;

        if (mirror || is_image(entry->d_name)) {
            (void)snprintf(path, sizeof path, "%s/%s", name, entry->d_name);
            add(sweep, path, mirror);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    if (sweep->n == before && !sweep->failed) {
        drop_empty(name);
    }
}

static bool
look(struct sweep *sweep)
{
    DIR *top = opendir(".");
    const struct dirent *entry;

    if (top == NULL) {
        return false;
    }
    while ((entry = readdir(top)) != NULL) {
        struct stat st;

        if (entry->d_name[0] != '.' && lstat(entry->d_name, &st) == 0 &&
            S_ISDIR(st.st_mode)) {
            look_at(sweep, entry->d_name);
        }
    }
    (void)closedir(top);
    return !sweep->failed;
}

static int
older_first(const void *a, const void *b)
{
    const struct unit *x = a;
    const struct unit *y = b;

    return (x->used_s > y->used_s) - (x->used_s < y->used_s);
}

/* An image that is open stays readable. */
static bool
remove_unit(const struct unit *unit)
{
    char dir[NAME_BYTES];
    size_t len = strcspn(unit->path, "/");
    struct wp_err err;
    bool removed;
    int lock;

    if (!unit->is_mirror) {
        return unlink(unit->path) == 0;
    }
    if (!wp_str_copy((struct wp_str){unit->path, len}, dir, sizeof dir)) {
        return false;
    }
    lock = try_lock(dir);
    if (lock < 0) {
        return false;
    }
    removed = wp_dir_remove(unit->path, &err) == WP_OK;
    (void)close(lock);
    return removed;
}

bool
wp_cache_sweep(uint64_t bytes_max, int64_t age_s)
{
    struct sweep sweep = {.units = NULL};
    int64_t now_s = time(NULL);
    bool ok = look(&sweep);

    if (sweep.n > 0) {
        qsort(sweep.units, sweep.n, sizeof *sweep.units, older_first);
    }
    for (size_t i = 0; i < sweep.n; i++) {
        struct unit *unit = &sweep.units[i];

        if ((sweep.bytes > bytes_max || unit->used_s < now_s - age_s) &&
            remove_unit(unit)) {
            sweep.bytes -= unit->bytes;
        }
        free(unit->path);
    }
    free(sweep.units);
    return ok;
}
