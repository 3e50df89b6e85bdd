/* What replicas tell each other: one change, and several at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "allocator/stores/codec.h"
#include "allocator/stores/redis/message.h"

#define WRITER "0102030405060708"
#define NUMBER "00000000000000000041"

enum {
    MESSAGE_MAX = 4096,
};

static struct wp_lease_record
record_of(uint8_t uid)
{
    struct wp_lease_record record = {.state = WP_RECORD_OPEN,
                                     .fence = uid,
                                     .pool_namespace = "default",
                                     .pool = "agents",
                                     .sandbox = "agents-ab"};

    memset(record.uid, uid, sizeof record.uid);
    return record;
}

static size_t
put_change(char *out, uint8_t uid, bool several)
{
    struct wp_lease_record record = record_of(uid);
    char packed[WP_LEASE_PACKED_MAX];
    int len = (int)wp_lease_pack(&record, packed);
    char hex[2 * WP_UID_LEN + 1];

    wp_hex_encode(record.uid, WP_UID_LEN, hex);
    return (size_t)(several ? snprintf(out, MESSAGE_MAX / 4, "r%s%04d%.*s", hex,
                                       len, len, packed)
                            : snprintf(out, MESSAGE_MAX / 4, "%s%.*s", hex, len,
                                       packed));
}

static void
expect_change(struct wp_redis_changes *changes, uint64_t number, uint8_t uid)
{
    struct wp_lease_record expected = record_of(uid);
    struct wp_lease_record record;
    struct wp_redis_change change;

    assert_true(wp_redis_changes_next(changes, &change));
    assert_int_equal(change.number, number);
    memset(&record, 0, sizeof record);
    assert_true(wp_redis_change_read(&change, &record));
    assert_memory_equal(record.uid, expected.uid, sizeof record.uid);
    assert_int_equal(record.fence, uid);
    assert_string_equal(record.sandbox, "agents-ab");
}

static void
test_one_change(void **state)
{
    char text[MESSAGE_MAX] = "1" WRITER NUMBER;
    size_t len = strlen(text);
    struct wp_redis_changes changes;
    struct wp_redis_change change;

    (void)state;
    len += put_change(text + len, 7, false);
    assert_true(wp_redis_changes_open((struct wp_str){text, len}, &changes));
    assert_int_equal(changes.writer[7], 8);
    expect_change(&changes, 41, 7);
    assert_false(wp_redis_changes_next(&changes, &change));
    assert_int_equal(changes.left.len, 0);
}

static void
test_several_changes(void **state)
{
    char text[MESSAGE_MAX] = "2" WRITER NUMBER;
    size_t len = strlen(text);
    struct wp_redis_changes changes;
    struct wp_redis_change change;

    (void)state;
    for (uint8_t uid = 1; uid <= 3; uid++) {
        len += put_change(text + len, uid, true);
    }
    assert_true(wp_redis_changes_open((struct wp_str){text, len}, &changes));
    for (uint8_t uid = 1; uid <= 3; uid++) {
        expect_change(&changes, 40 + uid, uid);
    }
    assert_false(wp_redis_changes_next(&changes, &change));
    assert_int_equal(changes.left.len, 0);
}

/* What was whole is told; the rest is said to be there. */
static void
test_cut_messages(void **state)
{
    char text[MESSAGE_MAX] = "2" WRITER NUMBER;
    size_t head = strlen(text);
    size_t first = head + put_change(text + head, 1, true);
    size_t len = first + put_change(text + first, 2, true);
    struct wp_redis_changes changes;
    struct wp_redis_change change;

    (void)state;
    for (size_t cut = 0; cut <= head; cut++) {
        assert_false(
            wp_redis_changes_open((struct wp_str){text, cut}, &changes));
    }
    for (size_t cut = first + 1; cut < len; cut++) {
        assert_true(
            wp_redis_changes_open((struct wp_str){text, cut}, &changes));
        expect_change(&changes, 41, 1);
        assert_false(wp_redis_changes_next(&changes, &change));
        assert_true(changes.left.len > 0);
    }
    text[0] = '3';
    assert_false(wp_redis_changes_open((struct wp_str){text, len}, &changes));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_change),
        cmocka_unit_test(test_several_changes),
        cmocka_unit_test(test_cut_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
