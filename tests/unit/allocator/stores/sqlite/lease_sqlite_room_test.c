/* Whether the disk has room for the log's pages: when it is looked at, and from
 * how few bytes on it is short of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/statvfs.h>

#include "allocator/stores/sqlite/impl.h"
#include "pool/base/clock.h"

enum {
    PAGE = 4096,
};

int __wrap_statvfs(const char *path, struct statvfs *out);

static uint64_t blocks; /* Of 512 bytes, that are left. */
static bool fails;
static uint32_t looks;
static struct wp_lease_db db;

int
__wrap_statvfs(const char *path, struct statvfs *out)
{
    assert_string_equal(path, "/the/file");
    looks++;
    memset(out, 0, sizeof *out);
    if (fails) {
        errno = EACCES;
        return -1;
    }
    out->f_bsize = 7; /* Of no meaning here. */
    out->f_frsize = 512;
    out->f_blocks = 1000000;
    out->f_bfree = 500000;
    out->f_bavail = blocks;
    return 0;
}

/* How often the disk is looked at to say so. */
static void
is_short(bool expected, uint32_t after, int64_t now_ns)
{
    looks = 0;
    assert_int_equal(wp_lease_db_is_short(&db, now_ns), expected);
    assert_int_equal(looks, after);
}

static void
begin(uint32_t pages)
{
    static char path[] = "/the/file";

    memset(&db, 0, sizeof db);
    memcpy(db.path, path, sizeof path);
    db.page_bytes = PAGE;
    db.wal_pages = pages;
    fails = false;
}

static void
test_from_how_few_bytes_on(void **state)
{
    (void)state;
    begin(0);
    blocks = 0;
    is_short(false, 0, 5);
    begin(10);
    blocks = 10 * PAGE / 512;
    is_short(false, 1, 5);
    blocks--;
    is_short(true, 1, 5);
    fails = true;
    is_short(false, 1, 5);
}

/* Where it is plenty, a second passes before it is looked at again. */
static void
test_when_it_is_looked_at(void **state)
{
    const uint64_t plenty = 64 * 10 * PAGE / 512;

    (void)state;
    begin(10);
    blocks = plenty;
    is_short(false, 1, 1000);
    is_short(false, 1, 1000); /* Just less than plenty. */
    blocks = plenty + 8 * 64;
    is_short(false, 1, 1000);
    blocks = 0;
    is_short(false, 0, 1000);
    is_short(false, 0, 1000 + WP_NS_PER_S - 1);
    is_short(true, 1, 1000 + WP_NS_PER_S);
    /* What was plenty for few pages is not for more. */
    begin(10);
    blocks = plenty + 8 * 64;
    is_short(false, 1, 1000);
    db.wal_pages = 11;
    blocks = 0;
    is_short(true, 1, 1000);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_from_how_few_bytes_on),
        cmocka_unit_test(test_when_it_is_looked_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
