/* tests/unit/allocator/stores/sqlite/lease_conformance_sqlite_test.c - the SQLite store under the suite
 * of all stores: with all commits done by the committer, and with those done by
 * who flushes. */
#include <stdio.h>
#include <stdlib.h>

#include "allocator/stores/sqlite/store.h"
#include "tests/support/stores/store_conformance.h"
#include "tests/support/base/temp_dir.h"

struct files {
    enum wp_lease_sqlite_sync synchronous;
    char dir[256];
    char path[300];
    struct wp_lease_sqlite *sqlite;
};

static struct wp_lease_store
open_sqlite(void *ctx, bool fresh)
{
    struct files *files = ctx;
    /* The log is copied often, so that it happens in the midst of things. */
    const struct wp_lease_sqlite_config config = {.path = files->path,
                                                  .synchronous =
                                                      files->synchronous,
                                                  .batch_max = 16,
                                                  .checkpoint_pages = 50};
    struct wp_err err = {0};

    if (fresh) {
        temp_dir_empty(files->dir);
    }
    files->sqlite = wp_lease_sqlite_create(&config, &err);
    if (files->sqlite == NULL) {
        (void)fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    return wp_lease_sqlite_store(files->sqlite);
}

static void
close_sqlite(void *ctx)
{
    struct files *files = ctx;

    wp_lease_sqlite_destroy(files->sqlite);
    files->sqlite = NULL;
}

int
main(void)
{
    static struct files files;
    const struct wp_store_factory factory = {.name = "sqlite",
                                             .durable = true,
                                             .ctx = &files,
                                             .open = open_sqlite,
                                             .close = close_sqlite};
    int failed;

    temp_dir_make(files.dir, sizeof files.dir);
    (void)snprintf(files.path, sizeof files.path, "%s/leases.db", files.dir);
    files.synchronous = WP_LEASE_SQLITE_FULL;
    failed = wp_store_conformance_run(&factory);
    files.synchronous = WP_LEASE_SQLITE_NORMAL;
    failed += wp_store_conformance_run(&factory);
    temp_dir_remove(files.dir);
    return failed;
}
