/* What an identity says, and whose key signs it when. That the signature is one
 * to others is for tests/integration/allocator/identity_test.py. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>
#include <openssl/ec.h>
#include <openssl/pem.h>

#include "allocator/signer/signer.h"
#include "pool/base/compiler.h"
#include "tests/support/base/temp_dir.h"
#include "tests/support/pool/manual_clock.h"

#define HOUR_NS (3600 * WP_NS_PER_S)
#define START_S INT64_C(1700000000)

static char dir[512];
static struct wp_clock_manual wall;
static struct wp_signer *signer;
static struct wp_claim_info lease;
static char token[WP_IDENTITY_TOKEN_MAX + 1];
static int64_t expires_ms;
static struct wp_err err;

static struct wp_signer *
open_signer(void)
{
    const struct wp_signer_config config = {
        .dir = dir,
        .issuer = "https://sandboxes.test",
        .ttl_ns = HOUR_NS,
        .key_turn_ns = 10 * HOUR_NS,
        .clock = &wall.clock,
    };
    struct wp_signer *opened = wp_signer_create(&config, &err);

    if (opened == NULL) {
        fail_msg("%s", err.msg);
    }
    return opened;
}

static int
set_up(void **state)
{
    (void)state;
    temp_dir_make(dir, sizeof dir);
    wp_clock_manual_init(&wall, 0, START_S * WP_NS_PER_S);
    lease = (struct wp_claim_info){.claim_id = "job/7",
                                   .tenant = "a%b",
                                   .pool_namespace = "team",
                                   .pool = "agents",
                                   .sandbox = "agents-0a1b2c3d",
                                   .deadline_wall_ms = WP_WALL_NEVER_MS};
    signer = open_signer();
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_signer_destroy(signer);
    temp_dir_remove(dir);
    return 0;
}

static enum wp_status
sign(int64_t ttl_ms)
{
    return wp_signer_sign(signer, &lease, WP_STR("https://api.test"), ttl_ms,
                          token, &expires_ms, &err);
}

/* Part `index` of the token, as JSON. */
static json_t *
part(int index)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char text[WP_IDENTITY_TOKEN_MAX];
    const char *at = token;
    size_t len = 0;
    uint32_t bits = 0;
    int have = 0;
    json_t *json;

    for (int i = 0; i < index; i++) {
        at = strchr(at, '.') + 1;
    }
    for (; *at != '.' && *at != '\0'; at++) {
        const char *digit = strchr(digits, *at);

        assert_non_null(digit);
        bits = bits << 6 | (uint32_t)(digit - digits);
        have += 6;
        if (have >= 8) {
            have -= 8;
            text[len++] = (char)(bits >> have);
        }
    }
    json = json_loadb(text, len, 0, NULL);
    assert_non_null(json);
    return json;
}

static const char *
text_of(const json_t *json, const char *key)
{
    return json_string_value(json_object_get(json, key));
}

static void
test_what_it_says(void **state)
{
    json_t *head;
    json_t *claims;
    const json_t *names;

    (void)state;
    assert_int_equal(sign(0), WP_OK);
    head = part(0);
    claims = part(1);
    names = json_object_get(claims, "warmpool");
    assert_string_equal(text_of(head, "alg"), "ES256");
    assert_string_equal(text_of(claims, "iss"), "https://sandboxes.test");
    assert_string_equal(text_of(claims, "aud"), "https://api.test");
    assert_string_equal(text_of(claims, "sub"),
                        "a%25b/job%2F7/team/agents/agents-0a1b2c3d");
    assert_string_equal(text_of(names, "tenant"), "a%b");
    assert_string_equal(text_of(names, "claim"), "job/7");
    assert_string_equal(text_of(names, "namespace"), "team");
    assert_string_equal(text_of(names, "pool"), "agents");
    assert_string_equal(text_of(names, "sandbox"), "agents-0a1b2c3d");
    assert_int_equal(strlen(text_of(claims, "jti")), 32);
    assert_int_equal(json_integer_value(json_object_get(claims, "iat")),
                     START_S);
    assert_int_equal(json_integer_value(json_object_get(claims, "exp")),
                     START_S + 3600);
    assert_int_equal(expires_ms, (START_S + 3600) * 1000);
    json_decref(head);
    json_decref(claims);
}

static void
test_how_long(void **state)
{
    (void)state;
    assert_int_equal(sign(60000), WP_OK);
    assert_int_equal(expires_ms, (START_S + 60) * 1000);
    assert_int_equal(sign(1), WP_FAILED_PRECONDITION);
    assert_int_equal(sign(999), WP_FAILED_PRECONDITION);
    assert_int_equal(sign(1000), WP_OK);
    assert_int_equal(expires_ms, (START_S + 1) * 1000);
    assert_int_equal(sign(3599000), WP_OK);
    assert_int_equal(expires_ms, (START_S + 3599) * 1000);
    assert_int_equal(sign(3601000), WP_OK);
    assert_int_equal(expires_ms, (START_S + 3600) * 1000);
    assert_int_equal(sign(-1), WP_OK);
    assert_int_equal(expires_ms, (START_S + 3600) * 1000);
    assert_int_equal(sign(2 * 3600 * 1000), WP_OK); /* More than the most. */
    assert_int_equal(expires_ms, (START_S + 3600) * 1000);
    lease.deadline_wall_ms = START_S * 1000 + 9999;
    assert_int_equal(sign(60000), WP_OK);
    assert_int_equal(expires_ms, (START_S + 9) * 1000);
    lease.deadline_wall_ms = START_S * 1000 + 1000;
    assert_int_equal(sign(60000), WP_OK);
    assert_int_equal(expires_ms, (START_S + 1) * 1000);
    lease.deadline_wall_ms = START_S * 1000 + 999;
    assert_int_equal(sign(60000), WP_FAILED_PRECONDITION);
    lease.deadline_wall_ms = START_S * 1000 - 5000;
    assert_int_equal(sign(0), WP_FAILED_PRECONDITION);
}

/* The longest names there are, with every byte one that is escaped. */
static void
test_the_longest(void **state)
{
    char audience[WP_AUDIENCE_MAX];

    (void)state;
    memset(audience, '"', sizeof audience);
    memset(lease.tenant, '%', WP_TENANT_MAX);
    memset(lease.claim_id, '"', WP_CLAIM_ID_MAX);
    memset(lease.pool_namespace, 'n', WP_NAMESPACE_MAX);
    memset(lease.pool, 'p', WP_POOL_NAME_MAX);
    memset(lease.sandbox, 's', WP_SANDBOX_NAME_MAX);
    assert_int_equal(wp_signer_sign(signer, &lease,
                                    (struct wp_str){audience, sizeof audience},
                                    0, token, &expires_ms, &err),
                     WP_OK);
    assert_in_range(strlen(token), 1, WP_IDENTITY_TOKEN_MAX);
    json_decref(part(1));
    memset(lease.claim_id, '/', WP_CLAIM_ID_MAX);
    assert_int_equal(sign(0), WP_OK);
    json_decref(part(1));
}

/* The signature, of two numbers, is that of the key to what stands before
 * it. */
static void
is_signed_by(EVP_PKEY *pair)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const char *at = strrchr(token, '.');
    size_t len = (size_t)(at - token);
    uint8_t raw[66];
    size_t n = 0;
    uint32_t bits = 0;
    uint8_t *der = NULL;
    ECDSA_SIG *numbers = ECDSA_SIG_new();
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    int der_len;

    assert_int_equal(strlen(at + 1), 86);
    for (int i = 1; i <= 86; i++) {
        const char *digit = strchr(digits, at[i]);

        assert_non_null(digit);
        bits = bits << 6 | (uint32_t)(digit - digits);
        if (i % 4 != 1) {
            raw[n++] = (uint8_t)(bits >> (6 - (i - 1) % 4 * 2));
        }
    }
    assert_int_equal(n, 64);
    assert_int_equal(ECDSA_SIG_set0(numbers, BN_bin2bn(raw, 32, NULL),
                                    BN_bin2bn(raw + 32, 32, NULL)),
                     1);
    der_len = i2d_ECDSA_SIG(numbers, &der);
    assert_int_equal(EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, pair),
                     1);
    assert_int_equal(EVP_DigestVerify(ctx, der, (size_t)der_len,
                                      (const uint8_t *)token, len),
                     1);
    OPENSSL_free(der);
    ECDSA_SIG_free(numbers);
    EVP_MD_CTX_free(ctx);
}

/* The id of the key that signs now. */
static void
signing_key(char out[64])
{
    json_t *head;

    assert_int_equal(sign(0), WP_OK);
    head = part(0);
    assert_true(wp_str_copy(wp_str_from(text_of(head, "kid")), out, 64));
    json_decref(head);
}

/* Is it published? *n: how many are. */
static bool
is_published(struct wp_signer *by, const char *id, size_t *n)
{
    char text[WP_SIGNER_JWKS_MAX];
    json_t *set = json_loadb(text, wp_signer_jwks(by, text), 0, NULL);
    const json_t *keys = json_object_get(set, "keys");
    bool found = false;

    *n = json_array_size(keys);
    for (size_t i = 0; i < *n; i++) {
        const json_t *key = json_array_get(keys, i);

        assert_string_equal(text_of(key, "crv"), "P-256");
        assert_int_equal(strlen(text_of(key, "x")), 43);
        found = found || strcmp(text_of(key, "kid"), id) == 0;
    }
    json_decref(set);
    return found;
}

static void
test_keys_take_turns(void **state)
{
    char first[64];
    char second[64];
    char now[64];
    size_t n;

    (void)state;
    signing_key(first);
    assert_true(is_published(signer, first, &n));
    assert_int_equal(n, 1);
    wp_clock_manual_advance(&wall, 9 * HOUR_NS - WP_NS_PER_S);
    signing_key(now);
    assert_true(is_published(signer, first, &n));
    assert_int_equal(n, 1);
    /* An hour before its turn the next one is published. */
    wp_clock_manual_advance(&wall, WP_NS_PER_S);
    signing_key(now);
    assert_string_equal(now, first);
    assert_true(is_published(signer, first, &n));
    assert_int_equal(n, 2);
    wp_clock_manual_advance(&wall, HOUR_NS);
    signing_key(second);
    assert_string_not_equal(second, first);
    assert_true(is_published(signer, first, &n));
    /* What the first has signed is good for an hour more. */
    wp_clock_manual_advance(&wall, HOUR_NS);
    signing_key(now);
    assert_string_equal(now, second);
    assert_true(is_published(signer, first, &n));
    wp_clock_manual_advance(&wall, WP_NS_PER_S);
    signing_key(now);
    assert_false(is_published(signer, first, &n));
    assert_true(is_published(signer, second, &n));
}

/* A key that was made while the clock was a year ahead signs until there is
 * another, and does not keep the turns waiting. */
static void
test_a_clock_that_was_wrong(void **state)
{
    char wrong[64];
    char right[64];
    char now[64];
    size_t n;

    (void)state;
    wp_clock_manual_advance(&wall, 365 * 24 * HOUR_NS);
    signing_key(wrong);
    wp_clock_manual_advance(&wall, 3 * HOUR_NS);
    signing_key(wrong);
    assert_true(is_published(signer, wrong, &n));
    assert_int_equal(n, 1);
    wp_clock_manual_init(&wall, 0, START_S * WP_NS_PER_S);
    signing_key(now);
    assert_string_equal(now, wrong);
    assert_true(is_published(signer, wrong, &n));
    assert_int_equal(n, 2);
    wp_clock_manual_advance(&wall, HOUR_NS);
    signing_key(right);
    assert_string_not_equal(right, wrong);
    assert_true(is_published(signer, right, &n));
    assert_int_equal(n, 2);
    wp_clock_manual_advance(&wall, 8 * HOUR_NS);
    signing_key(now);
    assert_string_equal(now, right);
    wp_clock_manual_advance(&wall, HOUR_NS);
    signing_key(now);
    assert_string_not_equal(now, right);
    assert_string_not_equal(now, wrong);
}

/* They outlive the process, and others that share the folder publish them. */
static void
test_keys_are_kept(void **state)
{
    char first[64];
    char now[64];
    struct wp_signer *other = open_signer();
    size_t n;

    (void)state;
    signing_key(first);
    assert_true(is_published(other, first, &n));
    assert_int_equal(n, 1);
    wp_signer_destroy(signer);
    signer = open_signer();
    signing_key(now);
    assert_string_equal(now, first);
    wp_clock_manual_advance(&wall, 9 * HOUR_NS);
    signing_key(now);
    assert_true(is_published(other, first, &n));
    assert_int_equal(n, 2);
    wp_signer_destroy(other);
}

static void
only_key(char out[640])
{
    DIR *folder = opendir(dir);
    const struct dirent *entry;
    int n = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] != '.') {
            (void)snprintf(out, 640, "%.512s/%.60s", dir, entry->d_name);
            n++;
        }
    }
    (void)closedir(folder);
    assert_int_equal(n, 1);
}

/* The whole token, and the whole page by which others know the key. */
static void
test_who_signs_it(void **state)
{
    char text[WP_SIGNER_JWKS_MAX];
    char expected[WP_SIGNER_JWKS_MAX];
    char path[640];
    json_t *head;
    json_t *set;
    const json_t *key;
    FILE *file;
    EVP_PKEY *pair;
    size_t len;

    (void)state;
    only_key(path);
    file = fopen(path, "r");
    assert_non_null(file);
    pair = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    assert_non_null(pair);
    assert_int_equal(fclose(file), 0);
    for (int i = 0; i < 20; i++) { /* Numbers of all lengths. */
        assert_int_equal(sign(0), WP_OK);
        is_signed_by(pair);
    }
    head = part(0);
    assert_string_equal(text_of(head, "typ"), "JWT");
    assert_int_equal(json_object_size(head), 3);
    len = wp_signer_jwks(signer, text);
    assert_int_equal(strlen(text), len);
    set = json_loadb(text, len, 0, NULL);
    key = json_array_get(json_object_get(set, "keys"), 0);
    (void)snprintf(
        expected, sizeof expected,
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"use\":\"sig\","
        "\"alg\":\"ES256\",\"kid\":\"%s\",\"x\":\"%s\",\"y\":"
        "\"%s\"}]}\n",
        text_of(head, "kid"), text_of(key, "x"), text_of(key, "y"));
    assert_string_equal(text, expected);
    json_decref(head);
    json_decref(set);
    EVP_PKEY_free(pair);
}

/* How often files of the folder were opened since; in a new folder. */
static int
opened_since(int watch)
{
    union {
        char bytes[4096];
        struct inotify_event event;
    } buffer;
    ssize_t len;
    int n = 0;

    while ((len = read(watch, buffer.bytes, sizeof buffer)) > 0) {
        const char *at = buffer.bytes;

        while (at < buffer.bytes + len) {
            const struct inotify_event *event = (const void *)at;

            n += (event->mask & IN_ISDIR) == 0;
            at += sizeof *event + event->len;
        }
    }
    return n;
}

/* The folder is young: it is looked at for each token. A file is only read
 * when it is another one. */
static void
test_a_file_is_read_once(void **state)
{
    char path[640];
    char fresh[660];
    char first[64];
    char now[64];
    EVP_PKEY *pair = EVP_EC_gen("P-256");
    FILE *file;
    int watch = inotify_init1(IN_NONBLOCK);
    size_t n;

    (void)state;
    signing_key(first);
    only_key(path);
    assert_true(inotify_add_watch(watch, dir, IN_OPEN) >= 0);
    for (int i = 0; i < 10; i++) {
        signing_key(now);
        assert_string_equal(now, first);
    }
    assert_int_equal(opened_since(watch), 0);
    (void)snprintf(fresh, sizeof fresh, "%s.new", path);
    file = fopen(fresh, "w");
    assert_non_null(file);
    assert_int_equal(fchmod(fileno(file), 0600), 0);
    assert_int_equal(
        PEM_write_PrivateKey(file, pair, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(rename(fresh, path), 0);
    (void)opened_since(watch);
    signing_key(now);
    assert_string_not_equal(now, first);
    assert_false(is_published(signer, first, &n));
    assert_int_equal(n, 1);
    assert_int_equal(opened_since(watch), 1);
    EVP_PKEY_free(pair);
    (void)close(watch);
}

/* What others can read, or is no key, is not used; nor is it in the way. */
static void
test_bad_files(void **state)
{
    char path[640];
    char before[64];
    char now[64];
    struct stat st;
    size_t n;

    (void)state;
    signing_key(before);
    only_key(path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(chmod(path, 0640), 0);
    wp_signer_destroy(signer);
    signer = open_signer();
    signing_key(now);
    assert_string_not_equal(now, before);
    assert_false(is_published(signer, before, &n));
    assert_int_equal(n, 1);
    assert_int_equal(unlink(path), 0);
    only_key(path);
    assert_int_equal(truncate(path, 20), 0);
    wp_signer_destroy(signer);
    signer = open_signer();
    signing_key(before);
    assert_string_not_equal(now, before);
}

/* A key that cannot be written whole is none, and leaves nothing in the way of
 * the next one. */
static void
test_no_room_for_a_key(void **state)
{
    const struct wp_signer_config config = {
        .dir = dir, .ttl_ns = HOUR_NS, .clock = &wall.clock};
    char path[640];
    struct rlimit old;
    struct rlimit small;
    struct wp_signer *opened;

    (void)state;
    only_key(path);
    assert_int_equal(unlink(path), 0);
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){.rlim_cur = 10, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    opened = wp_signer_create(&config, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_null(opened);
    assert_non_null(strstr(err.msg, "cannot make a key of identities in "));
    assert_int_equal(rmdir(dir), 0); /* It is empty. */
    assert_int_equal(mkdir(dir, 0700), 0);
    wp_signer_destroy(signer);
    signer = open_signer();
    only_key(path);
}

static void
test_nothing_is_no_signer(void **state)
{
    (void)state;
    wp_signer_destroy(NULL);
}

static void
test_discovery(void **state)
{
    char text[WP_SIGNER_OPENID_MAX];
    size_t len = wp_signer_openid(signer, text);

    (void)state;
    assert_int_equal(len, strlen(text));
    assert_string_equal(
        text, "{\"issuer\":\"https://sandboxes.test\",\"jwks_uri\":"
              "\"https://sandboxes.test/.well-known/jwks.json\","
              "\"response_types_supported\":[\"id_token\"],"
              "\"subject_types_supported\":[\"public\"],"
              "\"id_token_signing_alg_values_supported\":[\"ES256\"]}\n");
}

/* --- Keys of a Secret --- */

static struct wp_signer *
open_shared(void)
{
    const struct wp_signer_config config = {
        .issuer = "https://sandboxes.test",
        .ttl_ns = HOUR_NS,
        .key_turn_ns = 10 * HOUR_NS,
        .clock = &wall.clock,
    };
    struct wp_signer *opened = wp_signer_create(&config, &err);

    assert_non_null(opened);
    return opened;
}

/* As the API server merges a patch; how many entries it has then. */
static size_t
merge(json_t *secret, json_t *change)
{
    const char *name;
    json_t *value;

    assert_non_null(change);
    json_object_foreach(change, name, value)
    {
        if (json_is_null(value)) {
            assert_int_equal(json_object_del(secret, name), 0);
        } else {
            (void)json_object_set(secret, name, value);
        }
    }
    json_decref(change);
    return json_object_size(secret);
}

/* Nothing signs before the Secret has it; then all can publish it. */
static void
test_keys_of_a_secret(void **state)
{
    struct wp_signer *follower = open_shared();
    json_t *secret = json_object();
    json_t *change;
    char first[64];
    char now[64];
    size_t n;

    (void)state;
    wp_signer_destroy(signer);
    signer = open_shared();
    assert_int_equal(sign(0), WP_UNAVAILABLE);
    wp_signer_take(signer, NULL);
    change = wp_signer_change(signer);
    assert_int_equal(sign(0), WP_UNAVAILABLE);
    assert_int_equal(merge(secret, change), 1);
    wp_signer_take(signer, secret);
    wp_signer_take(follower, secret);
    signing_key(first);
    assert_true(is_published(follower, first, &n));
    assert_null(wp_signer_change(signer));
    /* The next one is there an hour before it signs, */
    wp_clock_manual_advance(&wall, 9 * HOUR_NS);
    assert_int_equal(merge(secret, wp_signer_change(signer)), 2);
    wp_signer_take(signer, secret);
    wp_signer_take(follower, secret);
    signing_key(now);
    assert_string_equal(now, first);
    wp_clock_manual_advance(&wall, HOUR_NS);
    signing_key(now);
    assert_string_not_equal(now, first);
    assert_true(is_published(follower, now, &n));
    assert_null(wp_signer_change(signer));
    /* and the first goes when nothing that it has signed is good. */
    wp_clock_manual_advance(&wall, HOUR_NS + WP_NS_PER_S);
    assert_int_equal(merge(secret, wp_signer_change(signer)), 1);
    wp_signer_take(signer, secret);
    assert_false(is_published(signer, first, &n));
    assert_int_equal(n, 1);
    json_decref(secret);
    wp_signer_destroy(follower);
}

static void
test_bad_entries(void **state)
{
    static const char *const values[] = {"", "%", "bm9uZQ==", "eA"};
    json_t *secret = json_object();
    char name[64];
    size_t n;

    (void)state;
    wp_signer_destroy(signer);
    signer = open_shared();
    for (size_t i = 0; i < WP_ARRAY_LEN(values); i++) {
        (void)snprintf(name, sizeof name, "%012zu-00000000.pem", i);
        (void)json_object_set_new(secret, name, json_string(values[i]));
    }
    (void)json_object_set_new(secret, "000000000009-00000000.pem", json_true());
    (void)json_object_set_new(secret, "other", json_string("eA=="));
    wp_signer_take(signer, secret);
    assert_false(is_published(signer, "", &n));
    assert_int_equal(n, 0);
    assert_int_equal(merge(secret, wp_signer_change(signer)), 7);
    wp_signer_take(signer, secret);
    assert_int_equal(sign(0), WP_OK);
    json_decref(secret);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_what_it_says),     TEST(test_how_long),
        TEST(test_who_signs_it),     TEST(test_the_longest),
        TEST(test_keys_take_turns),  TEST(test_a_clock_that_was_wrong),
        TEST(test_keys_are_kept),    TEST(test_a_file_is_read_once),
        TEST(test_bad_files),        TEST(test_no_room_for_a_key),
        TEST(test_discovery),        TEST(test_nothing_is_no_signer),
        TEST(test_keys_of_a_secret), TEST(test_bad_entries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
