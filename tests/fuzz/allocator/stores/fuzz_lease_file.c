/* tests/fuzz/allocator/stores/fuzz_lease_file.c - a lease file, and the log beside it, with any
 * bytes changed: it is refused, or what it holds is told and can be worked on.
 * Never does a record come out that breaks its own bounds.
 *
 * The input is a list of changes: one byte to which of the two (its last bit),
 * four of the place, one of the length, and as many new bytes. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/stores/sqlite/db.h"
#include "pool/base/assert.h"
#include "tests/support/base/temp_dir.h"

enum {
    RECORDS = 12,
    CHANGE_HEAD = 6,
    IMAGE_MAX = 1 << 18,
};

struct image {
    uint8_t bytes[IMAGE_MAX];
    size_t len;
};

static char dir[128];
static char path[160];
static char log_path[170];
static struct image file;
static struct image log_file;

static struct wp_lease_db *
open_db(void)
{
    const struct wp_lease_sqlite_config config = {
        .path = path, .busy_timeout_ms = 1, .synchronous = 1};
    struct wp_err err;

    return wp_lease_db_open(&config, &err);
}

static enum wp_status
apply(struct wp_lease_db *db, enum wp_lease_op_kind kind, uint8_t number,
      struct wp_lease_record *found)
{
    struct wp_lease_op op = {.kind = kind,
                             .uid = {number},
                             .fence = kind == WP_LEASE_OFFER ? 0 : 1,
                             .deadline_wall_ms = 1,
                             .sandbox = WP_STR("agents-x"),
                             .found = found};
    struct wp_lease_op *ops[] = {&op};
    struct wp_err err = {0};
    enum wp_status status;
    char id[8];

    (void)snprintf(id, sizeof id, "c%u", number);
    op.claim_id = kind == WP_LEASE_FETCH ? WP_STR("") : wp_str_from(id);
    (void)wp_lease_db_apply(db, ops, 1, &status, &err);
    return status;
}

static void
take_image(const char *name, struct image *image)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    WP_ASSERT(fd >= 0);
    n = read(fd, image->bytes, sizeof image->bytes);
    WP_ASSERT(n > 0 && n < (ssize_t)sizeof image->bytes);
    image->len = (size_t)n;
    (void)close(fd);
}

static void
put_image(const char *name, const struct image *image)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    WP_ASSERT(fd >= 0);
    WP_ASSERT(write(fd, image->bytes, image->len) == (ssize_t)image->len);
    (void)close(fd);
}

static void
remove_dir(void)
{
    temp_dir_remove(dir);
}

/* Made once: some records in the file, some only in the log. */
static void
make_images(void)
{
    struct wp_lease_db *db;
    struct wp_err err;

    temp_dir_make_fast(dir, sizeof dir);
    (void)atexit(remove_dir);
    (void)snprintf(path, sizeof path, "%s/leases.db", dir);
    (void)snprintf(log_path, sizeof log_path, "%s-wal", path);
    db = open_db();
    WP_ASSERT(db != NULL);
    for (uint8_t i = 0; i < RECORDS; i++) {
        WP_ASSERT(apply(db, WP_LEASE_OFFER, i, NULL) == WP_OK);
        if (i == RECORDS / 2) {
            WP_ASSERT(wp_lease_db_checkpoint(db, false, &err) == WP_OK);
        }
        if (i % 2 == 0) {
            WP_ASSERT(apply(db, WP_LEASE_GRANT, i, NULL) == WP_OK);
        }
    }
    take_image(path, &file);
    take_image(log_path, &log_file);
    wp_lease_db_close(db);
}

static void
check_record(void *ctx, const struct wp_lease_record *record)
{
    (void)ctx;
    WP_ASSERT(record->state >= WP_RECORD_OPEN &&
              record->state <= WP_RECORD_ENDED);
    WP_ASSERT(strnlen(record->sandbox, sizeof record->sandbox) <=
              WP_SANDBOX_NAME_MAX);
    WP_ASSERT(strnlen(record->endpoint, sizeof record->endpoint) <=
              WP_ENDPOINT_MAX);
    WP_ASSERT(strnlen(record->claim_id, sizeof record->claim_id) <=
              WP_CLAIM_ID_MAX);
}

static void
change(struct image *image, uint32_t at, const uint8_t *bytes, size_t len)
{
    at %= (uint32_t)image->len;
    if (len > image->len - at) {
        len = image->len - at;
    }
    memcpy(image->bytes + at, bytes, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct image changed[2];
    struct wp_lease_record found;
    struct wp_lease_db *db;
    struct wp_err err;

    if (dir[0] == '\0') {
        make_images();
    }
    changed[0] = file;
    changed[1] = log_file;
    while (size > CHANGE_HEAD) {
        uint32_t at = (uint32_t)data[1] | (uint32_t)data[2] << 8 |
                      (uint32_t)data[3] << 16 | (uint32_t)data[4] << 24;
        size_t len = data[5];

        len = len < size - CHANGE_HEAD ? len : size - CHANGE_HEAD;
        change(&changed[data[0] & 1], at, data + CHANGE_HEAD, len);
        data += CHANGE_HEAD + len;
        size -= CHANGE_HEAD + len;
    }
    put_image(path, &changed[0]);
    put_image(log_path, &changed[1]);
    db = open_db();
    if (db == NULL) {
        return 0;
    }
    (void)wp_lease_db_load(db, check_record, NULL, &err);
    for (uint8_t i = 0; i < RECORDS; i += 3) {
        (void)apply(db, WP_LEASE_GRANT, i, NULL);
        if (apply(db, WP_LEASE_FETCH, i, &found) == WP_OK) {
            check_record(NULL, &found);
        }
        (void)apply(db, WP_LEASE_FORGET, i, NULL);
    }
    wp_lease_db_close(db);
    return 0;
}
