/* tests/unit/allocator/stores/sqlite/lease_sqlite_damage_test.c - the SQLite store on a file or a log
 * that is damaged, cut short or edited. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/stores/sqlite_rig.h"
#include "tests/support/base/temp_dir.h"

static void
test_damaged_header_is_refused(void **state)
{
    (void)state;
    sqlite_rig_fill(3);
    sqlite_rig_write(sqlite_rig.path, 3, "\xff\xff\xff\xff", 4);
    sqlite_rig_refused_leaves_it(WP_FAILED_PRECONDITION, "header");
}

/* Garbage in each page in turn, and a file that ends too early. */
static void
test_damaged_pages_are_refused(void **state)
{
    unsigned char garbage[4096];
    unsigned char page[4096 + 1];
    struct stat st;

    (void)state;
    sqlite_rig_fill(300);
    memset(garbage, 0xdb, sizeof garbage);
    assert_int_equal(stat(sqlite_rig.path, &st), 0);
    assert_true(st.st_size >= 8 * 4096);
    for (off_t at = 4096; at < st.st_size; at += 4096) {
        int fd = open(sqlite_rig.path, O_RDONLY | O_CLOEXEC);

        assert_int_equal(pread(fd, page, 4096, at), 4096);
        (void)close(fd);
        sqlite_rig_write(sqlite_rig.path, at, garbage, sizeof garbage);
        sqlite_rig_refused_leaves_it(WP_FAILED_PRECONDITION, "damaged");
        sqlite_rig_write(sqlite_rig.path, at, page, 4096);
    }
    sqlite_rig_open();
    sqlite_rig_close();
    assert_int_equal(truncate(sqlite_rig.path, st.st_size - 4096), 0);
    sqlite_rig_refused_leaves_it(WP_FAILED_PRECONDITION, "damaged");
}

/* Well-formed for SQLite, but no record: load says which row, and what it
 * knows of the others is not lost. */
static void
on_load(void *ctx, const struct wp_lease_record *record)
{
    (void)record;
    ++*(int *)ctx;
}

static void
test_edited_rows_are_told(void **state)
{
    static const char *const edits[] = {
        "UPDATE lease SET state = 9 WHERE id = 2",
        "UPDATE lease SET uid = x'00' WHERE id = 2",
        "UPDATE lease SET served = -1 WHERE id = 2",
        "UPDATE lease SET endpoint = hex(zeroblob(60)) WHERE id = 2",
        "UPDATE lease SET state = 2 WHERE id = 2", /* By no claim. */
    };
    struct wp_err err;
    int seen = 0;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(edits); i++) {
        temp_dir_empty(sqlite_rig.dir);
        sqlite_rig_fill(3);
        sqlite_rig_sql(edits[i]);
        sqlite_rig_open();
        assert_int_equal(
            conform_store.ops->load(conform_store.self, on_load, &seen, &err),
            WP_FAILED_PRECONDITION);
        assert_non_null(strstr(err.msg, "row 2 is not a lease record"));
        /* One bad record does not fail the others' commits. */
        assert_int_equal(sqlite_rig_grant(2, "another"), WP_OK);
        if (strstr(edits[i], "uid") == NULL) {
            assert_int_equal(sqlite_rig_grant(1, "third"), WP_UNAVAILABLE);
        }
        sqlite_rig_close();
    }
}

/* The log cut at every length: what is found is a beginning of what was
 * committed, never anything else, and nothing in the file itself is lost. */
static void
test_cut_log_loses_only_its_end(void **state)
{
    static unsigned char log[1 << 18];
    static unsigned char file[1 << 18];
    size_t log_len;
    size_t file_len;
    unsigned most = 0;

    (void)state;
    sqlite_rig_fill(1);
    sqlite_rig_open();
    for (unsigned i = 1; i <= 8; i++) {
        sqlite_rig_offer(i);
    }
    log_len = sqlite_rig_read(sqlite_rig.log_path, log, sizeof log);
    file_len = sqlite_rig_read(sqlite_rig.path, file, sizeof file);
    sqlite_rig_close();
    for (size_t cut = 0; cut <= log_len;
         cut += cut + 509 > log_len && cut < log_len ? log_len - cut : 509) {
        unsigned found = 0;

        temp_dir_empty(sqlite_rig.dir);
        sqlite_rig_write(sqlite_rig.path, 0, file, file_len);
        sqlite_rig_write(sqlite_rig.log_path, 0, log, cut);
        sqlite_rig_open();
        assert_int_equal(sqlite_rig_state(0), WP_RECORD_HELD);
        while (found < 8 && sqlite_rig_state(found + 1) == WP_RECORD_OPEN) {
            found++;
        }
        for (unsigned i = found + 1; i <= 8; i++) {
            assert_int_equal(sqlite_rig_state(i), WP_RECORD_NONE);
        }
        assert_true(found >= most);
        most = found;
        sqlite_rig_close();
    }
    assert_int_equal(most, 8);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_damaged_header_is_refused,
                               sqlite_rig_set_up),
        cmocka_unit_test_setup(test_damaged_pages_are_refused,
                               sqlite_rig_set_up),
        cmocka_unit_test_setup(test_edited_rows_are_told, sqlite_rig_set_up),
        cmocka_unit_test_setup(test_cut_log_loses_only_its_end,
                               sqlite_rig_set_up),
    };

    return cmocka_run_group_tests(tests, sqlite_rig_make, sqlite_rig_remove);
}
