#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/str.h"
#include "pool/leases/token.h"

void __real_explicit_bzero(void *memory, size_t size);
void __wrap_explicit_bzero(void *memory, size_t size);

static size_t wiped_bytes; /* At once, the latest. */
static unsigned wipes;

void
__wrap_explicit_bzero(void *memory, size_t size)
{
    wiped_bytes = size;
    wipes++;
    __real_explicit_bzero(memory, size);
}

/* The same, of a build that checks the bounds of buffers. */
void __wrap___explicit_bzero_chk(void *memory, size_t size, size_t room);

void
__wrap___explicit_bzero_chk(void *memory, size_t size, size_t room)
{
    assert_true(size <= room);
    __wrap_explicit_bzero(memory, size);
}

static const uint8_t key_bytes[WP_TOKEN_KEY_LEN] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
    16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

static const struct wp_token_fields fields = {
    .ref = {0x01020304, 0x05060708},
    .fence = UINT64_C(0x1112131415161718),
    .expiry_wall_ms = INT64_C(0x0122232425262728),
    .uid = "ABCDEFGHIJKLMNO",
    .claim_hash = UINT64_C(0x3132333435363738),
};

static struct wp_token_key key;
static uint8_t token[WP_TOKEN_LEN];

static int
setup(void **state)
{
    (void)state;
    wp_token_key_init(&key, 9, key_bytes);
    wp_lease_token_sign(&key, &fields, token);
    return 0;
}

/* Byte for byte what an independent implementation computes:
 *   python3 -c 'import hmac,struct
 *   p=struct.pack("<BBHIIQQ16sQ",1,9,0,0x01020304,0x05060708,
 *     0x1112131415161718,0x0122232425262728,b"ABCDEFGHIJKLMNO\0",
 *     0x3132333435363738)
 *   print((p+hmac.new(bytes(range(32)),p,"sha256").digest()[:16]).hex())' */
static void
matches_an_independent_signer(void **state)
{
    char hex[2 * WP_TOKEN_LEN + 1];

    (void)state;
    wp_hex_encode(token, sizeof token, hex);
    assert_string_equal(
        hex, "010900000403020108070605181716151413121128272625242322014142"
             "434445464748494a4b4c4d4e4f0038373635343332312917ab"
             "be4009e1639239e3582a060b2b");
}

static void
verifies_what_it_signed(void **state)
{
    struct wp_token_fields out;

    (void)state;
    assert_true(wp_lease_token_verify(&key, token, &out));
    assert_true(wp_slot_ref_eq(out.ref, fields.ref));
    assert_int_equal(out.fence, fields.fence);
    assert_int_equal(out.expiry_wall_ms, fields.expiry_wall_ms);
    assert_memory_equal(out.uid, fields.uid, WP_UID_LEN);
    assert_int_equal(out.claim_hash, fields.claim_hash);
}

/* Every field, whatever was where the token is made. */
static void
tells_every_field(void **state)
{
    struct wp_token_fields told = fields;
    struct wp_token_fields out;
    uint8_t bytes[2][WP_TOKEN_LEN];

    (void)state;
    told.pool_tag = 0xbeef;
    for (int i = 0; i < 2; i++) {
        memset(bytes[i], i == 0 ? 0x00 : 0xff, sizeof bytes[i]);
        memset(&out, 0x5a, sizeof out);
        wp_lease_token_sign(&key, &told, bytes[i]);
        assert_true(wp_lease_token_verify(&key, bytes[i], &out));
        assert_int_equal(out.pool_tag, 0xbeef);
        assert_true(wp_slot_ref_eq(out.ref, told.ref));
        assert_int_equal(out.fence, told.fence);
        assert_int_equal(out.expiry_wall_ms, told.expiry_wall_ms);
        assert_memory_equal(out.uid, told.uid, WP_UID_LEN);
        assert_int_equal(out.claim_hash, told.claim_hash);
    }
    assert_memory_equal(bytes[0], bytes[1], WP_TOKEN_LEN);
}

/* Any single flipped bit is found, and nothing is written out. */
static void
refuses_every_flipped_bit(void **state)
{
    struct wp_token_fields out;
    struct wp_token_fields untouched;

    (void)state;
    memset(&out, 0x5a, sizeof out);
    memset(&untouched, 0x5a, sizeof untouched);
    for (unsigned bit = 0; bit < 8 * WP_TOKEN_LEN; bit++) {
        token[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(wp_lease_token_verify(&key, token, &out));
        token[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_memory_equal(&out, &untouched, sizeof out);
    assert_true(wp_lease_token_verify(&key, token, &out));
}

/* Neither another key of the same id, nor the same key under another id. */
static void
refuses_other_keys(void **state)
{
    uint8_t bytes[WP_TOKEN_KEY_LEN];
    struct wp_token_key other;
    struct wp_token_fields out;

    (void)state;
    memcpy(bytes, key_bytes, sizeof bytes);
    bytes[31] ^= 1;
    wp_token_key_init(&other, 9, bytes);
    assert_false(wp_lease_token_verify(&other, token, &out));
    wp_token_key_init(&other, 8, key_bytes);
    assert_false(wp_lease_token_verify(&other, token, &out));
}

/* Signing does not change the key: the same fields give the same token. */
static void
signs_repeatably(void **state)
{
    uint8_t again[WP_TOKEN_LEN];

    (void)state;
    for (int i = 0; i < 3; i++) {
        wp_lease_token_sign(&key, &fields, again);
        assert_memory_equal(again, token, sizeof token);
    }
}

/* Byte for byte what an independent implementation computes, and no more:
 *   python3 -c 'import hmac
 *   print(hmac.new(bytes(range(32)),b"a","sha256").digest()[:16].hex())'
 * What it was made from is wiped from the stack. */
static void
derives_what_others_derive_and_wipes(void **state)
{
    uint8_t out[17];
    char hex[2 * 16 + 1];

    (void)state;
    memset(out, 0x5a, sizeof out);
    wipes = 0;
    wp_token_key_derive(key_bytes, "a", out, 16);
    wp_hex_encode(out, 16, hex);
    assert_string_equal(hex, "5167dd15d18166a9dd6caa3522f7026f");
    assert_int_equal(out[16], 0x5a);
    assert_int_equal(wipes, 1);
    /* All of the states of two hashes. */
    assert_in_range(wiped_bytes, 4 * WP_TOKEN_KEY_LEN, WP_TOKEN_KEY_STATE);
}

/* Each purpose has a secret of its own, the same each time. */
static void
derives_a_secret_for_each_purpose(void **state)
{
    uint8_t a[16];
    uint8_t again[16];
    uint8_t b[16];
    uint8_t other[WP_TOKEN_KEY_LEN];

    (void)state;
    memcpy(other, key_bytes, sizeof other);
    other[31] ^= 1;
    wp_token_key_derive(key_bytes, "a", a, sizeof a);
    wp_token_key_derive(key_bytes, "a", again, sizeof again);
    assert_memory_equal(a, again, sizeof a);
    wp_token_key_derive(key_bytes, "b", b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
    wp_token_key_derive(other, "a", b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a);
    assert_memory_not_equal(a, key_bytes, sizeof a);
}

static void
fini_wipes_the_key(void **state)
{
    static const struct wp_token_key wiped;
    struct wp_token_key secret;

    (void)state;
    wp_token_key_init(&secret, 1, key_bytes);
    assert_memory_not_equal(&secret, &wiped, sizeof secret);
    wp_token_key_fini(&secret);
    assert_memory_equal(&secret, &wiped, sizeof secret);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(matches_an_independent_signer, setup),
        cmocka_unit_test_setup(verifies_what_it_signed, setup),
        cmocka_unit_test_setup(tells_every_field, setup),
        cmocka_unit_test_setup(refuses_every_flipped_bit, setup),
        cmocka_unit_test_setup(refuses_other_keys, setup),
        cmocka_unit_test_setup(signs_repeatably, setup),
        cmocka_unit_test(derives_what_others_derive_and_wipes),
        cmocka_unit_test(derives_a_secret_for_each_purpose),
        cmocka_unit_test(fini_wipes_the_key),
    };

    return cmocka_run_group_tests_name("lease_token", tests, NULL, NULL);
}
