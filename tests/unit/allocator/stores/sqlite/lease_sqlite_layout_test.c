/* tests/unit/allocator/stores/sqlite/lease_sqlite_layout_test.c - the SQLite store on files of other
 * layouts: newer ones are refused, older ones brought up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <sqlite3.h>

#include "tests/support/stores/sqlite_rig.h"

static void
test_newer_layout_is_refused(void **state)
{
    (void)state;
    sqlite_rig_fill(3);
    sqlite_rig_sql("PRAGMA user_version = 99");
    sqlite_rig_refused_leaves_it(
        WP_FAILED_PRECONDITION, "layout version 99, this program knows 1 to 4");
}

/* The layout of version 1 as it was, written out: no index from claims to
 * records. It is brought up with all its records, once. */
static void
test_first_layout_is_brought_up(void **state)
{
    (void)state;
    sqlite_rig_sql(
        "CREATE TABLE lease (id INTEGER PRIMARY KEY, uid BLOB NOT NULL "
        "UNIQUE, state INTEGER NOT NULL, fence INTEGER NOT NULL, "
        "deadline_wall_ms INTEGER NOT NULL, granted_wall_ms INTEGER NOT "
        "NULL, fingerprint INTEGER NOT NULL, served INTEGER NOT NULL, "
        "pool_namespace TEXT NOT NULL, pool TEXT NOT NULL, sandbox TEXT "
        "NOT NULL, endpoint TEXT NOT NULL, claim_id TEXT NOT NULL, tenant "
        "TEXT NOT NULL, lost_reason TEXT NOT NULL) STRICT;"
        "PRAGMA application_id = 0x57504c53; PRAGMA user_version = 1;"
        "INSERT INTO lease VALUES (1, "
        "x'c0010000000000000000000000000000', 2, 41, 1000, 500, -7, 1, "
        "'default', 'agents', 'agents-1', 'unix:/x', 'old', 't', ''),"
        "(2, x'c0020000000000000000000000000000', 1, 0, 0, 0, 0, 0, "
        "'default', 'agents', 'agents-2', 'unix:/y', '', '', '')");
    for (int i = 0; i < 2; i++) {
        struct wp_lease_record record;

        sqlite_rig_open();
        assert_int_equal(
            conform_fetch_claim(WP_STR("old"), WP_STR("t"), &record), WP_OK);
        assert_int_equal(record.state, WP_RECORD_HELD);
        assert_int_equal(record.fence, 41);
        assert_int_equal(record.fingerprint, UINT64_MAX - 6);
        assert_string_equal(record.sandbox, "agents-1");
        assert_int_equal(sqlite_rig_state(2), WP_RECORD_OPEN);
        sqlite_rig_close();
    }
}

/* The layouts before had indexes, which made that impossible. */
static void
test_two_records_of_one_are_refused(void **state)
{
    (void)state;
    sqlite_rig_fill(3);
    sqlite_rig_sql("UPDATE lease SET state = 2, claim_id = 'one', tenant = 't'"
                   " WHERE id IN (1, 3)");
    sqlite_rig_refused_leaves_it(WP_FAILED_PRECONDITION,
                                 "row 3 is a second record");
    sqlite_rig_sql("UPDATE lease SET tenant = 'u' WHERE id = 3");
    sqlite_rig_open();
    sqlite_rig_close();
    sqlite_rig_sql("UPDATE lease SET uid = (SELECT uid FROM lease WHERE id = "
                   "1) WHERE id = 2");
    sqlite_rig_refused_leaves_it(WP_FAILED_PRECONDITION,
                                 "row 2 is a second record");
}

/* A file that cannot be brought up stays as it is. */
static void
test_failed_bringing_up_changes_nothing(void **state)
{
    (void)state;
    sqlite_rig_fill(3);
    sqlite_rig_sql("DROP TABLE note; UPDATE lease SET state = 2, claim_id = "
                   "'twice'; PRAGMA user_version = 1");
    sqlite_rig_refused(WP_UNAVAILABLE, "from layout version 1 to 4");
    sqlite_rig_sql("UPDATE lease SET claim_id = 'claim-' || id");
    sqlite_rig_open();
    assert_int_equal(sqlite_rig_state(2), WP_RECORD_HELD);
    sqlite_rig_close();
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_newer_layout_is_refused, sqlite_rig_set_up),
        cmocka_unit_test_setup(test_first_layout_is_brought_up,
                               sqlite_rig_set_up),
        cmocka_unit_test_setup(test_two_records_of_one_are_refused,
                               sqlite_rig_set_up),
        cmocka_unit_test_setup(test_failed_bringing_up_changes_nothing,
                               sqlite_rig_set_up),
    };

    return cmocka_run_group_tests(tests, sqlite_rig_make, sqlite_rig_remove);
}
