#include "allocator/stores/sqlite/log_vfs.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Some 30 pages; a larger transaction takes more writes. */
    GATHERED_MAX = 128 * 1024,
    /* Before each page of the log. The size of the file after the transaction
     * stands in its second word, which is 0 but in the last frame. */
    FRAME_HEAD = 24,
    SIZE_AT = 4,
    SIZE_LEN = 4,
};

static sqlite3_vfs *real_vfs;
static sqlite3_vfs vfs;

/* Before the real file, in one piece of memory. */
struct log_file {
    sqlite3_file base;
    bool completes; /* What is written now completes a transaction. */
    sqlite3_int64 at;
    int len;
    unsigned char *gathered; /* Owned; from `at` on. */
};

static struct log_file *
log_of(sqlite3_file *file)
{
    return (struct log_file *)(void *)file;
}

static sqlite3_file *
real_of(sqlite3_file *file)
{
    return (sqlite3_file *)(void *)(log_of(file) + 1);
}

/* What fails is dropped: SQLite rolls it back. */
static int
write_gathered(sqlite3_file *file)
{
    struct log_file *log = log_of(file);
    sqlite3_file *real = real_of(file);
    int len = log->len;

    log->len = 0;
    return len > 0 ? real->pMethods->xWrite(real, log->gathered, len, log->at)
                   : SQLITE_OK;
}

static int
log_write(sqlite3_file *file, const void *bytes, int len, sqlite3_int64 at)
{
    static const unsigned char no_size[SIZE_LEN];
    struct log_file *log = log_of(file);
    sqlite3_file *real = real_of(file);
    int rc = SQLITE_OK;

    if (at != log->at + log->len || len > GATHERED_MAX - log->len) {
        rc = write_gathered(file);
    }
    if (rc != SQLITE_OK || len > GATHERED_MAX) {
        return rc != SQLITE_OK ? rc
                               : real->pMethods->xWrite(real, bytes, len, at);
    }
    if (log->len == 0) {
        log->at = at;
    }
    memcpy(log->gathered + log->len, bytes, (size_t)len);
    log->len += len;
    if (len == FRAME_HEAD) {
        log->completes = memcmp((const unsigned char *)bytes + SIZE_AT, no_size,
                                SIZE_LEN) != 0;
        return SQLITE_OK;
    }
    return log->completes ? write_gathered(file) : SQLITE_OK;
}

static int
log_read(sqlite3_file *file, void *bytes, int len, sqlite3_int64 at)
{
    sqlite3_file *real = real_of(file);
    int rc = write_gathered(file);

    return rc == SQLITE_OK ? real->pMethods->xRead(real, bytes, len, at) : rc;
}

static int
log_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    sqlite3_file *real = real_of(file);
    int rc = write_gathered(file);

    return rc == SQLITE_OK ? real->pMethods->xTruncate(real, size) : rc;
}

static int
log_sync(sqlite3_file *file, int flags)
{
    sqlite3_file *real = real_of(file);
    int rc = write_gathered(file);

    return rc == SQLITE_OK ? real->pMethods->xSync(real, flags) : rc;
}

static int
log_size(sqlite3_file *file, sqlite3_int64 *size)
{
    sqlite3_file *real = real_of(file);
    int rc = write_gathered(file);

    return rc == SQLITE_OK ? real->pMethods->xFileSize(real, size) : rc;
}

static int
log_close(sqlite3_file *file)
{
    sqlite3_file *real = real_of(file);
    int written = write_gathered(file);
    int closed = real->pMethods->xClose(real);

    free(log_of(file)->gathered);
    return written != SQLITE_OK ? written : closed;
}

static int
log_lock(sqlite3_file *file, int level)
{
    sqlite3_file *real = real_of(file);

    return real->pMethods->xLock(real, level);
}

static int
log_unlock(sqlite3_file *file, int level)
{
    sqlite3_file *real = real_of(file);

    return real->pMethods->xUnlock(real, level);
}

static int
log_check_lock(sqlite3_file *file, int *reserved)
{
    sqlite3_file *real = real_of(file);

    return real->pMethods->xCheckReservedLock(real, reserved);
}

static int
log_control(sqlite3_file *file, int op, void *arg)
{
    sqlite3_file *real = real_of(file);

    return real->pMethods->xFileControl(real, op, arg);
}

static int
log_sector(sqlite3_file *file)
{
    sqlite3_file *real = real_of(file);

    return real->pMethods->xSectorSize(real);
}

static int
log_traits(sqlite3_file *file)
{
    sqlite3_file *real = real_of(file);

    return real->pMethods->xDeviceCharacteristics(real);
}

static const sqlite3_io_methods log_methods = {
    .iVersion = 1,
    .xClose = log_close,
    .xRead = log_read,
    .xWrite = log_write,
    .xTruncate = log_truncate,
    .xSync = log_sync,
    .xFileSize = log_size,
    .xLock = log_lock,
    .xUnlock = log_unlock,
    .xCheckReservedLock = log_check_lock,
    .xFileControl = log_control,
    .xSectorSize = log_sector,
    .xDeviceCharacteristics = log_traits,
};

/* Files that are no log are the real system's from here on. */
static int
open_file(sqlite3_vfs *self, const char *name, sqlite3_file *file, int flags,
          int *out_flags)
{
    struct log_file *log = log_of(file);
    int rc;

    (void)self;
    if ((flags & SQLITE_OPEN_WAL) == 0) {
        return real_vfs->xOpen(real_vfs, name, file, flags, out_flags);
    }
    memset(log, 0, sizeof *log);
    log->gathered = malloc(GATHERED_MAX);
    if (log->gathered == NULL) {
        return SQLITE_NOMEM;
    }
    rc = real_vfs->xOpen(real_vfs, name, real_of(file), flags, out_flags);
    if (real_of(file)->pMethods != NULL) {
        log->base.pMethods = &log_methods; /* Even if rc is not OK. */
    } else {
        free(log->gathered);
    }
    return rc;
}

const char *
wp_lease_log_vfs(void)
{
    if (real_vfs == NULL) {
        /* Nobody asks how much memory SQLite has; counting it takes a lock for
         * each piece. Refused, without harm, where SQLite is in use already. */
        (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
        real_vfs = sqlite3_vfs_find(NULL);
        if (real_vfs == NULL) {
            return NULL; /* No memory: nor does a file open. */
        }
        vfs = *real_vfs;
        vfs.pNext = NULL;
        vfs.zName = "warmpool-log";
        vfs.szOsFile += (int)sizeof(struct log_file);
        vfs.xOpen = open_file;
        if (sqlite3_vfs_register(&vfs, 0) != SQLITE_OK) {
            real_vfs = NULL;
            return NULL;
        }
    }
    return vfs.zName;
}
