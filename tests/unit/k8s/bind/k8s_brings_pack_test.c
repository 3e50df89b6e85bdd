/* What of a claim goes to its Pod, and what its fingerprint is of: that is
 * compared byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/bind/brings.h"
#include "k8s/objects/names.h"
#include "proto/parcel/pack.h"

static struct wp_claim_brings brings;
static uint8_t hashed[4096];
static size_t hashed_len;

/* Instead of the pools'. */
uint64_t
wp_pools_fingerprint(const struct wp_pools *pools, struct wp_str bytes)
{
    assert_null(pools);
    assert_true(bytes.len <= sizeof hashed);
    memcpy(hashed, bytes.ptr, bytes.len);
    hashed_len = bytes.len;
    return 0xab;
}

#define REPOSITORIES                                                           \
    "[{\"url\":\"https://h/a.git\",\"ref\":\"main\",\"directory\":\"src\"},"   \
    "{\"url\":\"https://h/b.git\",\"directory\":\"b\"}]"

/* What follows the parcel in what the fingerprint is of, NULs included. */
#define OF_REPOSITORIES "https://h/a.git\0main\0src\0https://h/b.git\0\0b\0"

static void
each_part_counts(void **state)
{
    static const struct {
        const char *env; /* A variable's value; NULL: none. */
        const char *repositories;
        const char *egress;
        const char *others;
        size_t others_len;
    } rows[] = {
        {NULL, NULL, NULL, "", 0},
        {"1", NULL, NULL, "", 0},
        {NULL, REPOSITORIES, NULL, OF_REPOSITORIES, sizeof OF_REPOSITORIES - 1},
        {"1", REPOSITORIES, NULL, OF_REPOSITORIES, sizeof OF_REPOSITORIES - 1},
        {"1", NULL, "example.com", "example.com", sizeof "example.com"},
        {"22", REPOSITORIES, "example.com", OF_REPOSITORIES "example.com",
         sizeof(OF_REPOSITORIES "example.com")},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        json_t *json =
            json_pack("{s:{s:s, s:s, s:s, s:{s:s*, s:s*}}, s:{}}", "metadata",
                      "namespace", "ns", "name", "c", "uid", "u", "annotations",
                      WP_ANNOTATION_CLAIM_REPOSITORIES, rows[i].repositories,
                      WP_ANNOTATION_CLAIM_EGRESS, rows[i].egress, "spec");
        struct wp_claim_parcel parcel;
        struct wp_object *claim;
        struct wp_err err;
        uint8_t expected[4096];
        size_t size;

        assert_non_null(json);
        if (rows[i].env != NULL) {
            assert_int_equal(
                json_object_set_new(json_object_get(json, "spec"), "env",
                                    json_pack("[{s:s, s:s}]", "name", "A",
                                              "value", rows[i].env)),
                0);
        }
        claim = wp_object_create(WP_KIND_SANDBOX_CLAIM, json, &err);
        assert_non_null(claim);
        assert_int_equal(wp_claim_brings_read(claim, true, &brings, &err),
                         WP_OK);
        size = wp_parcel_size(&brings.binding, WP_STR(""));
        assert_true(size + rows[i].others_len <= sizeof expected);
        assert_int_equal(size > 0, rows[i].env != NULL);
        wp_parcel_fill(&brings.binding, WP_STR(""), expected);
        memcpy(expected + size, rows[i].others, rows[i].others_len);
        wp_claim_brings_pack(&brings, NULL, "ns", &parcel);
        assert_string_equal(parcel.fingerprint, "00000000000000ab");
        assert_int_equal(hashed_len, size + rows[i].others_len);
        assert_memory_equal(hashed, expected, hashed_len);
        /* The parcel alone is sent. */
        assert_int_equal(evbuffer_get_length(parcel.bytes), size);
        if (size > 0) {
            assert_memory_equal(evbuffer_pullup(parcel.bytes, -1), expected,
                                size);
        }
        assert_int_equal(parcel.trees != NULL, rows[i].repositories != NULL);
        wp_bind_trees_drop(parcel.trees);
        evbuffer_free(parcel.bytes);
        wp_object_unref(claim);
        json_decref(json);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
