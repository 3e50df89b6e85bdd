/* What a log's file is asked, given what SQLite asks for: the frames of a
 * transaction are one write. The file itself is the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/stores/sqlite/log_vfs.h"
#include "tests/support/base/journal.h"

enum {
    HEAD = 24,
    GATHERED_MAX = 128 * 1024,
};

sqlite3_vfs *__real_sqlite3_vfs_find(const char *name);
sqlite3_vfs *__wrap_sqlite3_vfs_find(const char *name);
int __real_sqlite3_vfs_register(sqlite3_vfs *vfs, int is_default);
int __wrap_sqlite3_vfs_register(sqlite3_vfs *vfs, int is_default);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static struct {
    bool no_vfs;
    bool no_room; /* To register. */
    bool no_memory;
    int rc;       /* What the file's calls answer. */
    bool no_file; /* Opening leaves none. */
} system_;

/* The real one's files. */
struct file {
    sqlite3_file base;
    uint32_t mark;
};

static void
tell(const struct file *file, const char *what)
{
    assert_int_equal(file->mark, 0x1234);
    journal("%s", what);
    journal_line();
}

static struct file *
of(sqlite3_file *file)
{
    return (struct file *)(void *)file;
}

static int
close_it(sqlite3_file *file)
{
    tell(of(file), "close");
    return system_.rc;
}

static int
read_it(sqlite3_file *file, void *bytes, int len, sqlite3_int64 at)
{
    memset(bytes, 'r', (size_t)len);
    journal("read %d at %lld: ", len, (long long)at);
    tell(of(file), "");
    return system_.rc;
}

static int
write_it(sqlite3_file *file, const void *bytes, int len, sqlite3_int64 at)
{
    const unsigned char *b = bytes;

    journal("write %d at %lld: %02x%02x..%02x", len, (long long)at, b[0],
            b[len / 2], b[len - 1]);
    tell(of(file), "");
    return system_.rc;
}

static int
truncate_it(sqlite3_file *file, sqlite3_int64 size)
{
    journal("truncate %lld", (long long)size);
    tell(of(file), "");
    return system_.rc;
}

static int
sync_it(sqlite3_file *file, int flags)
{
    journal("sync %d", flags);
    tell(of(file), "");
    return system_.rc;
}

static int
size_of(sqlite3_file *file, sqlite3_int64 *size)
{
    *size = 77;
    tell(of(file), "size");
    return system_.rc;
}

static int
lock_it(sqlite3_file *file, int level)
{
    journal("lock %d", level);
    tell(of(file), "");
    return 21;
}

static int
unlock_it(sqlite3_file *file, int level)
{
    journal("unlock %d", level);
    tell(of(file), "");
    return 22;
}

static int
check_it(sqlite3_file *file, int *reserved)
{
    *reserved = 5;
    tell(of(file), "check lock");
    return 23;
}

static int
control_it(sqlite3_file *file, int op, void *arg)
{
    *(int *)arg = 6;
    journal("control %d", op);
    tell(of(file), "");
    return 24;
}

static int
sector_of(sqlite3_file *file)
{
    tell(of(file), "sector");
    return 25;
}

static int
traits_of(sqlite3_file *file)
{
    tell(of(file), "traits");
    return 26;
}

static const sqlite3_io_methods methods = {
    .iVersion = 3,
    .xClose = close_it,
    .xRead = read_it,
    .xWrite = write_it,
    .xTruncate = truncate_it,
    .xSync = sync_it,
    .xFileSize = size_of,
    .xLock = lock_it,
    .xUnlock = unlock_it,
    .xCheckReservedLock = check_it,
    .xFileControl = control_it,
    .xSectorSize = sector_of,
    .xDeviceCharacteristics = traits_of,
};

static sqlite3_vfs below;
static sqlite3_vfs *registered;

static int
open_it(sqlite3_vfs *self, const char *name, sqlite3_file *file, int flags,
        int *out_flags)
{
    assert_ptr_equal(self, &below);
    of(file)->base.pMethods = system_.no_file ? NULL : &methods;
    of(file)->mark = 0x1234;
    *out_flags = 9;
    journal("open '%s' %x", name, (unsigned)flags);
    journal_line();
    return system_.rc;
}

sqlite3_vfs *
__wrap_sqlite3_vfs_find(const char *name)
{
    assert_null(name);
    below = (sqlite3_vfs){.iVersion = 3,
                          .szOsFile = sizeof(struct file),
                          .mxPathname = 99,
                          .pNext = &below,
                          .zName = "below",
                          .xOpen = open_it};
    return system_.no_vfs ? NULL : &below;
}

int
__wrap_sqlite3_vfs_register(sqlite3_vfs *vfs, int is_default)
{
    assert_int_equal(is_default, 0);
    registered = vfs;
    return system_.no_room ? SQLITE_NOMEM : SQLITE_OK;
}

void *
__wrap_malloc(size_t size)
{
    void *memory = system_.no_memory ? NULL : __real_malloc(size);

    if (memory != NULL) {
        memset(memory, 0xcc, size);
    }
    return memory;
}

/* --- the log --- */

static sqlite3_file *file; /* Owned. */

static void
is(int rc)
{
    journal("=> %d", rc);
    journal_line();
}

static int
open_log(int flags)
{
    int out_flags = 0;
    int rc;

    assert_string_equal(wp_lease_log_vfs(), "warmpool-log");
    assert_string_equal(registered->zName, "warmpool-log");
    assert_int_equal(registered->mxPathname, 99);
    assert_null(registered->pNext);
    free(file);
    file = __real_malloc((size_t)registered->szOsFile);
    assert_non_null(file);
    memset(file, 0xcc, (size_t)registered->szOsFile);
    file->pMethods = NULL;
    rc = registered->xOpen(registered, "a-wal", file, flags, &out_flags);
    return rc;
}

static int
put(int len, sqlite3_int64 at, unsigned char byte)
{
    static unsigned char bytes[GATHERED_MAX + 1];

    memset(bytes, byte, (size_t)len);
    return file->pMethods->xWrite(file, bytes, len, at);
}

/* The head of a frame; the last one of a transaction has its size. */
static int
put_head(sqlite3_int64 at, unsigned char size)
{
    unsigned char bytes[HEAD];

    memset(bytes, 1, sizeof bytes);
    memset(bytes + 4, 0, 4);
    bytes[7] = size;
    return file->pMethods->xWrite(file, bytes, HEAD, at);
}

static int
set_up(void **state)
{
    (void)state;
    memset(&system_, 0, sizeof system_);
    journal_drop();
    return 0;
}

static void
test_there_is_none_without_memory(void **state)
{
    sqlite3_vfs *once;

    (void)state;
    system_.no_vfs = true;
    assert_null(wp_lease_log_vfs());
    system_.no_vfs = false;
    system_.no_room = true;
    assert_null(wp_lease_log_vfs());
    assert_null(wp_lease_log_vfs());
    system_.no_room = false;
    assert_string_equal(wp_lease_log_vfs(), "warmpool-log");
    assert_int_equal(registered->szOsFile >= (int)sizeof(struct file) + 1, 1);
    once = registered;
    registered = NULL;
    assert_string_equal(wp_lease_log_vfs(), "warmpool-log");
    assert_null(registered); /* Once. */
    registered = once;
}

static void
test_a_transaction_is_one_write(void **state)
{
    (void)state;
    is(open_log(SQLITE_OPEN_WAL | SQLITE_OPEN_READWRITE));
    is(put(32, 0, 0xaa)); /* The log's own head. */
    is(put_head(32, 0));
    is(put(4096, 32 + HEAD, 0xbb));
    is(put_head(32 + HEAD + 4096, 3));
    is(put(4096, 32 + 2 * HEAD + 4096, 0xcc));
    /* The next one goes on from there, or begins anew. */
    is(put_head(8272, 0));
    is(put(100, 8272 + HEAD, 0xdd));
    is(put_head(500, 0));
    is(put(100, 500 + HEAD, 0xee));
    is(put_head(624, 1));
    is(put(100, 624 + HEAD, 0xef));
    journal_compare(WP_TEST_GOLDEN "/log_frames.txt");
    is(file->pMethods->xClose(file));
}

/* As much as there is room for, and one byte more. */
static void
test_what_is_too_long_to_gather(void **state)
{
    (void)state;
    (void)open_log(SQLITE_OPEN_WAL);
    journal_drop();
    is(put_head(0, 0));
    is(put(GATHERED_MAX - HEAD, HEAD, 0x11));
    is(put(1, GATHERED_MAX, 0x22));
    is(put(GATHERED_MAX - 1, GATHERED_MAX + 1, 0x33));
    is(put(1, 2 * GATHERED_MAX, 0x44));
    is(put(GATHERED_MAX, 7, 0x55));
    is(put(GATHERED_MAX + 1, 7, 0x66));
    is(put(3, 100, 0x77));
    is(file->pMethods->xClose(file));
    journal_compare(WP_TEST_GOLDEN "/log_long.txt");
}

/* What was gathered is written before anything else is asked of the file. */
static void
ask_all(int rc)
{
    sqlite3_int64 size = 0;
    unsigned char byte = 0;

    (void)open_log(SQLITE_OPEN_WAL);
    journal_drop();
    for (int i = 0; i < 6; i++) {
        system_.rc = SQLITE_OK;
        (void)put(10, 10 * i, (unsigned char)i);
        system_.rc = rc;
        is(i == 0   ? file->pMethods->xRead(file, &byte, 1, 5)
           : i == 1 ? file->pMethods->xTruncate(file, 6)
           : i == 2 ? file->pMethods->xSync(file, 7)
           : i == 3 ? file->pMethods->xFileSize(file, &size)
           : i == 4 ? put(10, 1000, 0x99) /* Elsewhere. */
                    : file->pMethods->xClose(file));
    }
    journal("%c %d", byte != 0 ? byte : '-', (int)size);
    journal_line();
}

static void
test_what_is_gathered_comes_first(void **state)
{
    (void)state;
    ask_all(SQLITE_OK);
    journal_compare(WP_TEST_GOLDEN "/log_order.txt");
    ask_all(SQLITE_FULL);
    journal_compare(WP_TEST_GOLDEN "/log_order_full.txt");
}

static void
test_all_else_is_the_file_s(void **state)
{
    int value = 0;

    (void)state;
    (void)open_log(SQLITE_OPEN_WAL);
    journal_drop();
    (void)put(10, 0, 1);
    assert_int_equal(file->pMethods->iVersion, 1);
    is(file->pMethods->xLock(file, 3));
    is(file->pMethods->xUnlock(file, 4));
    is(file->pMethods->xCheckReservedLock(file, &value));
    is(value);
    is(file->pMethods->xFileControl(file, 8, &value));
    is(value);
    is(file->pMethods->xSectorSize(file));
    is(file->pMethods->xDeviceCharacteristics(file));
    is(file->pMethods->xClose(file));
    journal_compare(WP_TEST_GOLDEN "/log_else.txt");
}

static void
test_how_files_open(void **state)
{
    (void)state;
    /* One that is no log is the system's. */
    is(open_log(SQLITE_OPEN_MAIN_DB));
    assert_ptr_equal(file->pMethods, &methods);
    system_.no_memory = true;
    is(open_log(SQLITE_OPEN_WAL));
    assert_null(file->pMethods);
    system_.no_memory = false;
    system_.rc = SQLITE_CANTOPEN;
    /* It is closed by who opened it, though it did not open. */
    is(open_log(SQLITE_OPEN_WAL));
    assert_non_null(file->pMethods);
    is(file->pMethods->xClose(file));
    system_.no_file = true;
    is(open_log(SQLITE_OPEN_WAL));
    assert_null(file->pMethods);
    free(file);
    file = NULL;
    journal_compare(WP_TEST_GOLDEN "/log_open.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_there_is_none_without_memory, set_up),
        cmocka_unit_test_setup(test_a_transaction_is_one_write, set_up),
        cmocka_unit_test_setup(test_what_is_too_long_to_gather, set_up),
        cmocka_unit_test_setup(test_what_is_gathered_comes_first, set_up),
        cmocka_unit_test_setup(test_all_else_is_the_file_s, set_up),
        cmocka_unit_test_setup(test_how_files_open, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
