/* Which slot an object is, and what is written on a leased one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/lease_annotation.h"
#include "k8s/objects/sandbox_refs.h"
#include "tests/support/k8s/k8s_text.h"

static struct wp_sandbox_ref
entry_of(uint32_t index, uint32_t generation, const char *name)
{
    struct wp_sandbox_ref entry = {.ref = {index, generation}, .ns = "ns"};

    (void)snprintf(entry.name, sizeof entry.name, "%s", name);
    return entry;
}

static void
found_by_name_and_by_slot(void **state)
{
    struct wp_sandbox_refs *refs = wp_sandbox_refs_create(4);
    struct wp_sandbox_ref entry = entry_of(1, 7, "a");
    struct wp_sandbox_ref *kept = wp_sandbox_refs_add(refs, &entry);

    (void)state;
    assert_non_null(kept);
    assert_ptr_equal(wp_sandbox_refs_find(refs, "ns", "a"), kept);
    assert_null(wp_sandbox_refs_find(refs, "ns2", "a"));
    assert_null(wp_sandbox_refs_find(refs, "ns", "b"));
    assert_ptr_equal(wp_sandbox_refs_find_ref(refs, (struct wp_slot_ref){1, 7}),
                     kept);
    assert_null(wp_sandbox_refs_find_ref(refs, (struct wp_slot_ref){1, 6}));
    assert_null(wp_sandbox_refs_find_ref(refs, (struct wp_slot_ref){9, 7}));
    /* Neither the name nor the slot twice, nor a slot beyond. */
    entry = entry_of(2, 1, "a");
    assert_null(wp_sandbox_refs_add(refs, &entry));
    entry = entry_of(1, 8, "b");
    assert_null(wp_sandbox_refs_add(refs, &entry));
    entry = entry_of(4, 1, "c");
    assert_null(wp_sandbox_refs_add(refs, &entry));
    assert_int_equal(wp_sandbox_refs_count(refs), 1);
    wp_sandbox_refs_remove(refs, kept);
    assert_null(wp_sandbox_refs_find(refs, "ns", "a"));
    entry = entry_of(1, 8, "a");
    assert_non_null(wp_sandbox_refs_add(refs, &entry));
    wp_sandbox_refs_destroy(refs);
}

static void
many_come_and_go(void **state)
{
    enum {
        MANY = 500
    };
    struct wp_sandbox_refs *refs = wp_sandbox_refs_create(MANY);
    char name[16];

    (void)state;
    for (uint32_t round = 1; round < 4; round++) {
        for (uint32_t i = 0; i < MANY; i++) {
            struct wp_sandbox_ref entry;

            (void)snprintf(name, sizeof name, "p-%u", i * round);
            entry = entry_of(i, round, name);
            assert_non_null(wp_sandbox_refs_add(refs, &entry));
        }
        for (uint32_t i = 0; i < MANY; i++) {
            struct wp_sandbox_ref *entry;

            (void)snprintf(name, sizeof name, "p-%u", i * round);
            entry = wp_sandbox_refs_find(refs, "ns", name);
            assert_non_null(entry);
            assert_int_equal(entry->ref.index, i);
            wp_sandbox_refs_remove(refs, entry);
        }
        assert_int_equal(wp_sandbox_refs_count(refs), 0);
    }
    wp_sandbox_refs_destroy(refs);
}

static bool
uid_of(const char *uid, const char *annotation, uint8_t out[WP_UID_LEN])
{
    char text[512];
    struct wp_object *object;
    bool ok;

    (void)snprintf(text, sizeof text,
                   "{'metadata':{'name':'a','namespace':'ns','uid':'%s',"
                   "'annotations':{'x':'y'%s%s%s}}}",
                   uid, annotation != NULL ? ",'" WP_ANNOTATION_UID "':'" : "",
                   annotation != NULL ? annotation : "",
                   annotation != NULL ? "'" : "");
    object = wp_test_object(WP_KIND_SANDBOX, text);
    ok = wp_sandbox_core_uid(object, out);
    wp_object_unref(object);
    return ok;
}

static void
the_core_knows_it_by_annotation_or_uid(void **state)
{
    static const uint8_t uuid[WP_UID_LEN] = {0x12, 0x3e, 0x45, 0x67, 0xe8, 0x9b,
                                             0x12, 0xd3, 0xa4, 0x56, 0x42, 0x66,
                                             0x14, 0x17, 0x40, 0x00};
    static const uint8_t ours[WP_UID_LEN] = {0x00, 0x11, 0x22, 0x33, 0x44, 0x55,
                                             0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb,
                                             0xcc, 0xdd, 0xee, 0xff};
    uint8_t out[WP_UID_LEN];

    (void)state;
    assert_true(uid_of("123e4567-e89b-12d3-a456-426614174000", NULL, out));
    assert_memory_equal(out, uuid, sizeof uuid);
    assert_true(uid_of("u", "00112233445566778899aabbccddeeff", out));
    assert_memory_equal(out, ours, sizeof ours);
    assert_true(uid_of("123e4567-e89b-12d3-a456-426614174000",
                       "0011223344556677", out));
    assert_memory_equal(out, uuid, sizeof uuid);
    assert_false(uid_of("u", "0011", out));
    assert_false(uid_of("u", "00112233445566778899aabbccddeefg", out));
    assert_false(uid_of("u", "00112233445566778899aabbccddeeff0", out));
    assert_false(uid_of("123e4567e89b12d3a456426614174000", NULL, out));
    assert_false(uid_of("123e4567-e89b-12d3-a456-42661417400", NULL, out));
    assert_false(uid_of("123e4567-e89b-12d3-a456-4266141740000", NULL, out));
}

static void
a_note_is_read_as_it_was_written(void **state)
{
    struct wp_lease_note note = {.fence = 7,
                                 .deadline_wall_ms = INT64_C(1767225600000),
                                 .until_wall_ms = INT64_C(1767225700000),
                                 .granted_wall_ms = INT64_C(1767225500000),
                                 .fingerprint = UINT64_MAX - 1,
                                 .served = 2};
    struct wp_lease_note again;
    char text[WP_LEASE_NOTE_MAX];

    (void)state;
    memset(note.claim_id, '"', WP_CLAIM_ID_MAX);
    memset(note.tenant, '\x01', WP_TENANT_MAX);
    memset(note.pool, '\x02', WP_POOL_NAME_MAX);
    memset(note.audience, '\x03', WP_AUDIENCE_MAX);
    note.identity_ttl_ms = INT64_MAX;
    memset(note.identity_seal, 'f', WP_LEASE_NOTE_SEAL);
    wp_lease_note_write(&note, text);
    assert_true(wp_lease_note_read(text, &again));
    assert_memory_equal(&note, &again, sizeof note);
    (void)snprintf(note.claim_id, sizeof note.claim_id, "job-1");
    note.tenant[0] = '\0';
    (void)snprintf(note.pool, sizeof note.pool, "p");
    (void)snprintf(note.audience, sizeof note.audience, "api");
    note.identity_ttl_ms = 60000;
    (void)snprintf(note.identity_seal, sizeof note.identity_seal, "ab");
    wp_lease_note_write(&note, text);
    assert_string_equal(text, "{\"claimId\":\"job-1\",\"tenant\":\"\","
                              "\"fence\":7,\"deadline\":1767225600000,"
                              "\"until\":1767225700000,"
                              "\"granted\":1767225500000,\"pool\":\"p\","
                              "\"request\":\"fffffffffffffffe\","
                              "\"served\":2,\"audience\":\"api\","
                              "\"identityTtl\":60000,"
                              "\"identitySeal\":\"ab\"}");
    /* By a version that wrote less. */
    assert_true(wp_lease_note_read("{\"claimId\":\"a\",\"tenant\":\"\","
                                   "\"fence\":7,\"deadline\":9}",
                                   &again));
    assert_int_equal(again.until_wall_ms, 9);
    assert_string_equal(again.pool, "");
    assert_string_equal(again.audience, "");
}

static void
what_is_no_note_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"claimId\":\"a\",\"tenant\":\"\",\"fence\":1}",
        "{\"claimId\":\"\",\"tenant\":\"\",\"fence\":1,\"deadline\":1}",
        "{\"claimId\":1,\"tenant\":\"\",\"fence\":1,\"deadline\":1}",
        "{\"claimId\":\"a\",\"tenant\":\"\",\"fence\":-1,\"deadline\":1}",
        "{\"claimId\":\"a\",\"tenant\":\"\",\"fence\":1.5,\"deadline\":1}",
        "{\"claimId\":\"a\",\"tenant\":\"\",\"fence\":1,\"deadline\":-1}",
        "{\"claimId\":\"a\",\"tenant\":\"\",\"fence\":1,\"deadline\":1",
        "{\"claimId\":\"a\\u0000\",\"tenant\":\"\",\"fence\":1,\"deadline\":1}",
        ("{\"claimId\":\"a\",\"claimId\":\"b\",\"tenant\":\"\",\"fence\":1,"
         "\"deadline\":1}"),
    };
    char longer[4 * WP_LEASE_NOTE_MAX];
    struct wp_lease_note note;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(texts); i++) {
        assert_false(wp_lease_note_read(texts[i], &note));
    }
    memset(longer, ' ', sizeof longer);
    memcpy(longer, texts[2], 2);
    longer[sizeof longer - 1] = '\0';
    assert_false(wp_lease_note_read(longer, &note));
    assert_true(wp_lease_note_read("{\"claimId\":\"a\",\"tenant\":\"\","
                                   "\"fence\":1,\"deadline\":1,\"more\":[]}",
                                   &note));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_by_name_and_by_slot),
        cmocka_unit_test(many_come_and_go),
        cmocka_unit_test(the_core_knows_it_by_annotation_or_uid),
        cmocka_unit_test(a_note_is_read_as_it_was_written),
        cmocka_unit_test(what_is_no_note_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
