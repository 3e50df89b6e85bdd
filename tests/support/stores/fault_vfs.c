#include "tests/support/stores/fault_vfs.h"

#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/base/assert.h"

struct fault_file {
    sqlite3_file base;
    const char *path; /* SQLite's, as long as the file is open; or NULL. */
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs fault_vfs;
static char shadow_from[256];
static char shadow_to[256];

/* Guards: what follows. A store may copy its log while the test arms. */
static pthread_mutex_t plan_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    unsigned kinds;
    int countdown;
    int code;
    bool sticky;
    bool torn;
    bool fired;
} plan;
static sqlite3_int64 room = -1;

void
fault_vfs_arm(unsigned kinds, int after, int code, bool sticky, bool torn)
{
    (void)pthread_mutex_lock(&plan_lock);
    plan.kinds = kinds;
    plan.countdown = after;
    plan.code = code;
    plan.sticky = sticky;
    plan.torn = torn;
    plan.fired = false;
    (void)pthread_mutex_unlock(&plan_lock);
}

bool
fault_vfs_disarm(void)
{
    bool fired;

    (void)pthread_mutex_lock(&plan_lock);
    fired = plan.fired;
    plan.kinds = 0;
    plan.fired = false;
    (void)pthread_mutex_unlock(&plan_lock);
    return fired;
}

void
fault_vfs_shadow(const char *from, const char *to)
{
    (void)snprintf(shadow_from, sizeof shadow_from, "%s", from);
    (void)snprintf(shadow_to, sizeof shadow_to, "%s", to);
}

void
fault_vfs_room(long long bytes)
{
    (void)pthread_mutex_lock(&plan_lock);
    room = bytes;
    (void)pthread_mutex_unlock(&plan_lock);
}

/* The file is about to change its size by this much; false when the disk has no
 * room for that. */
static bool
take_room(sqlite3_int64 bytes)
{
    bool fits;

    (void)pthread_mutex_lock(&plan_lock);
    fits = room < 0 || bytes <= room;
    if (room >= 0 && fits) {
        room -= bytes;
    }
    (void)pthread_mutex_unlock(&plan_lock);
    return fits;
}

/* The code that this call must fail with, or SQLITE_OK. */
static int
due(enum fault_kind kind, bool *torn)
{
    int code = SQLITE_OK;

    (void)pthread_mutex_lock(&plan_lock);
    if ((plan.kinds & kind) != 0 &&
        ((plan.sticky && plan.fired) || plan.countdown-- == 0)) {
        plan.fired = true;
        code = plan.code;
        *torn = plan.torn;
    }
    (void)pthread_mutex_unlock(&plan_lock);
    return code;
}

static sqlite3_file *
real_of(sqlite3_file *file)
{
    return (sqlite3_file *)(void *)((struct fault_file *)(void *)file + 1);
}

/* False when files of path's directory are not kept. */
static bool
shadow_name(const char *path, const char *mark, char *out, size_t cap)
{
    size_t len = strlen(shadow_from);

    if (path == NULL || len == 0 || strncmp(path, shadow_from, len) != 0 ||
        path[len] != '/') {
        return false;
    }
    (void)snprintf(out, cap, "%s/%s%s", shadow_to, mark, path + len + 1);
    return true;
}

/* Through SQLite's own descriptor: another one would drop its locks. */
static void
keep_shadow(sqlite3_file *real, const char *path)
{
    char growing[512];
    char name[512];
    char page[4096];
    sqlite3_int64 size = 0;
    int fd;

    if (!shadow_name(path, "", name, sizeof name) ||
        !shadow_name(path, ".", growing, sizeof growing)) {
        return;
    }
    fd = open(growing, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    WP_ASSERT(fd >= 0);
    WP_ASSERT(real->pMethods->xFileSize(real, &size) == SQLITE_OK);
    for (sqlite3_int64 at = 0; at < size; at += (int)sizeof page) {
        int len =
            size - at < (int)sizeof page ? (int)(size - at) : (int)sizeof page;

        WP_ASSERT(real->pMethods->xRead(real, page, len, at) == SQLITE_OK);
        WP_ASSERT(write(fd, page, (size_t)len) == len);
    }
    (void)close(fd);
    WP_ASSERT(rename(growing, name) == 0);
}

static int
file_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int
file_read(sqlite3_file *file, void *out, int len, sqlite3_int64 at)
{
    return real_of(file)->pMethods->xRead(real_of(file), out, len, at);
}

static int
file_write(sqlite3_file *file, const void *bytes, int len, sqlite3_int64 at)
{
    sqlite3_file *real = real_of(file);
    bool torn = false;
    int code = due(FAULT_WRITE, &torn);
    sqlite3_int64 size = 0;

    WP_ASSERT(real->pMethods->xFileSize(real, &size) == SQLITE_OK);
    if (code == SQLITE_OK && at + len > size && !take_room(at + len - size)) {
        code = SQLITE_FULL;
    }
    if (code == SQLITE_OK) {
        return real->pMethods->xWrite(real, bytes, len, at);
    }
    if (torn) {
        (void)real->pMethods->xWrite(real, bytes, len / 2, at);
    }
    return code;
}

static int
file_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    sqlite3_file *real = real_of(file);
    sqlite3_int64 before = 0;
    int rc;

    WP_ASSERT(real->pMethods->xFileSize(real, &before) == SQLITE_OK);
    rc = real->pMethods->xTruncate(real, size);
    if (rc == SQLITE_OK && size < before) {
        (void)take_room(size - before);
    }
    return rc;
}

static int
file_sync(sqlite3_file *file, int flags)
{
    sqlite3_file *real = real_of(file);
    const char *path = ((struct fault_file *)(void *)file)->path;
    bool torn;
    int rc = due(FAULT_SYNC, &torn);

    if (rc == SQLITE_OK) {
        rc = real->pMethods->xSync(real, flags);
    }
    if (rc == SQLITE_OK) {
        keep_shadow(real, path);
    }
    return rc;
}

static int
file_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int
file_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int
file_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int
file_check_reserved(sqlite3_file *file, int *out)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out);
}

static int
file_control(sqlite3_file *file, int op, void *arg)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), op, arg);
}

static int
file_sector_size(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int
file_characteristics(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

/* Version 1: no shared memory and no mapping, which an exclusive connection
 * does without. */
static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = file_close,
    .xRead = file_read,
    .xWrite = file_write,
    .xTruncate = file_truncate,
    .xSync = file_sync,
    .xFileSize = file_size,
    .xLock = file_lock,
    .xUnlock = file_unlock,
    .xCheckReservedLock = file_check_reserved,
    .xFileControl = file_control,
    .xSectorSize = file_sector_size,
    .xDeviceCharacteristics = file_characteristics,
};

static int
vfs_open(sqlite3_vfs *vfs, sqlite3_filename name, sqlite3_file *file, int flags,
         int *out_flags)
{
    struct fault_file *fault = (struct fault_file *)(void *)file;
    int rc;

    (void)vfs;
    fault->path = name;
    fault->base.pMethods = NULL;
    rc = real_vfs->xOpen(real_vfs, name, real_of(file), flags, out_flags);
    if (real_of(file)->pMethods != NULL) {
        fault->base.pMethods = &methods;
    }
    return rc;
}

static int
vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_dir)
{
    char copy[512];

    (void)vfs;
    if (shadow_name(name, "", copy, sizeof copy)) {
        (void)unlink(copy);
    }
    return real_vfs->xDelete(real_vfs, name, sync_dir);
}

void
fault_vfs_install(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    WP_ASSERT(real_vfs != NULL && fault_vfs.zName == NULL);
    fault_vfs = *real_vfs;
    fault_vfs.zName = "fault";
    fault_vfs.szOsFile += (int)sizeof(struct fault_file);
    fault_vfs.xOpen = vfs_open;
    fault_vfs.xDelete = vfs_delete;
    fault_vfs.pNext = NULL;
    WP_ASSERT(sqlite3_vfs_register(&fault_vfs, 1) == SQLITE_OK);
}
