#include "tests/support/stores/sqlite_rig.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/base/temp_dir.h"

struct sqlite_rig sqlite_rig;

int
sqlite_rig_make(void **state)
{
    static const struct wp_store_factory factory = {.name = "sqlite",
                                                    .durable = true};

    (void)state;
    conform_factory = &factory;
    temp_dir_make(sqlite_rig.dir, sizeof sqlite_rig.dir);
    (void)snprintf(sqlite_rig.path, sizeof sqlite_rig.path, "%s/leases.db",
                   sqlite_rig.dir);
    (void)snprintf(sqlite_rig.log_path, sizeof sqlite_rig.log_path, "%s-wal",
                   sqlite_rig.path);
    return 0;
}

int
sqlite_rig_remove(void **state)
{
    (void)state;
    temp_dir_remove(sqlite_rig.dir);
    return 0;
}

void
sqlite_rig_close(void)
{
    wp_lease_sqlite_destroy(sqlite_rig.store);
    sqlite_rig.store = NULL;
}

struct wp_lease_sqlite *
sqlite_rig_try_open(struct wp_err *err)
{
    const struct wp_lease_sqlite_config config = {.path = sqlite_rig.path,
                                                  .busy_timeout_ms = 50};

    memset(err, 0, sizeof *err);
    return wp_lease_sqlite_create(&config, err);
}

void
sqlite_rig_open(void)
{
    struct wp_err err;

    sqlite_rig.store = sqlite_rig_try_open(&err);
    if (sqlite_rig.store == NULL) {
        fail_msg("%s", err.msg);
    }
    conform_store = wp_lease_sqlite_store(sqlite_rig.store);
}

void
sqlite_rig_refused(enum wp_status status, const char *words)
{
    struct wp_err err;

    assert_null(sqlite_rig_try_open(&err));
    print_message("    refused: %s\n", err.msg);
    assert_int_equal(err.status, status);
    assert_non_null(strstr(err.msg, words));
    assert_non_null(strstr(err.msg, sqlite_rig.path));
}

size_t
sqlite_rig_read(const char *name, unsigned char *out, size_t cap)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    assert_true(fd >= 0);
    n = read(fd, out, cap);
    assert_true(n >= 0 && (size_t)n < cap);
    (void)close(fd);
    return (size_t)n;
}

void
sqlite_rig_write(const char *name, off_t at, const void *bytes, size_t len)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, len, at), (ssize_t)len);
    (void)close(fd);
}

void
sqlite_rig_refused_leaves_it(enum wp_status status, const char *words)
{
    static unsigned char before[1 << 20];
    static unsigned char after[1 << 20];
    size_t len = sqlite_rig_read(sqlite_rig.path, before, sizeof before);

    sqlite_rig_refused(status, words);
    assert_int_equal(sqlite_rig_read(sqlite_rig.path, after, sizeof after),
                     len);
    assert_memory_equal(before, after, len);
}

void
sqlite_rig_sql(const char *sql)
{
    sqlite3 *db = NULL;
    char *message = NULL;

    assert_int_equal(sqlite3_open(sqlite_rig.path, &db), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK) {
        fail_msg("%s: %s", sql, message);
    }
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

void
sqlite_rig_offer(unsigned sandbox)
{
    struct wp_lease_op op = {.kind = WP_LEASE_OFFER,
                             .pool = WP_STR("agents"),
                             .sandbox = WP_STR("agents-x")};

    conform_crowd_uid(&op, sandbox);
    assert_int_equal(conform_commit(&op), WP_OK);
}

enum wp_status
sqlite_rig_grant(unsigned sandbox, const char *claim)
{
    struct wp_lease_op op = {.kind = WP_LEASE_GRANT,
                             .fence = 1,
                             .deadline_wall_ms = 77,
                             .claim_id = wp_str_from(claim)};

    conform_crowd_uid(&op, sandbox);
    return conform_commit(&op);
}

enum wp_record_state
sqlite_rig_state(unsigned sandbox)
{
    struct wp_lease_record record;
    struct wp_lease_op op;

    conform_crowd_uid(&op, sandbox);
    conform_fetch(op.uid, &record);
    return record.state;
}

void
sqlite_rig_fill(unsigned n)
{
    sqlite_rig_open();
    for (unsigned i = 0; i < n; i++) {
        sqlite_rig_offer(i);
    }
    assert_int_equal(sqlite_rig_grant(0, "claim"), WP_OK);
    sqlite_rig_close();
}

int
sqlite_rig_set_up(void **state)
{
    (void)state;
    temp_dir_empty(sqlite_rig.dir);
    return 0;
}
