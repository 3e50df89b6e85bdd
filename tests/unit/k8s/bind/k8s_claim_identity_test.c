/* The identity that a SandboxClaim asks for: what the signer is told of it, what
 * it answers, and why there may be none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/bind/claim_identity.h"
#include "k8s/objects/names.h"
#include "tests/support/k8s/object_text.h"

static struct {
    enum wp_status status;
    int64_t until_wall_ms;
    uint32_t asked;
    struct wp_claim_info lease;
    char audience[64];
    int64_t ttl_ms;
} signer_;

static enum wp_status
sign(void *ctx, const struct wp_claim_info *lease, struct wp_str audience,
     int64_t ttl_ms, char token[WP_IDENTITY_TOKEN_MAX + 1],
     int64_t *expires_wall_ms, struct wp_err *err)
{
    assert_ptr_equal(ctx, &signer_);
    signer_.asked++;
    signer_.lease = *lease;
    assert_true(
        wp_str_copy(audience, signer_.audience, sizeof signer_.audience));
    signer_.ttl_ms = ttl_ms;
    if (signer_.status != WP_OK) {
        return wp_err_set(err, signer_.status, "no key");
    }
    (void)snprintf(token, WP_IDENTITY_TOKEN_MAX + 1, "a token");
    *expires_wall_ms = signer_.until_wall_ms;
    return WP_OK;
}

static const struct wp_cluster_identity signer = {.ctx = &signer_,
                                                  .sign = sign};

/* name: of the claim; identity: its annotation; NULL: it has none. */
static struct wp_object *
make(const char *name, const char *identity)
{
    char text[1024];

    (void)snprintf(
        text, sizeof text,
        "{'metadata':{'namespace':'ns','name':'%s','uid':'u',"
        "'annotations':{%s%s%s}},'spec':{}}",
        name, identity != NULL ? "'" WP_ANNOTATION_CLAIM_IDENTITY "':'" : "",
        identity != NULL ? identity : "", identity != NULL ? "'" : "");
    return object_of(WP_KIND_SANDBOX_CLAIM, text);
}

#define ASKED "{\\\"audience\\\":\\\"a\\\",\\\"ttl\\\":\\\"2m\\\"}"

static void
the_signer_is_told_of_the_claim(void **state)
{
    static const int64_t ends[] = {0, 77, WP_WALL_NEVER_MS - 1,
                                   WP_WALL_NEVER_MS, INT64_MAX};
    const struct wp_identity given = {.until_wall_ms = 500};
    struct wp_object *claim = make("c", ASKED);

    (void)state;
    assert_true(wp_claim_identity_wants(claim));
    for (size_t i = 0; i < WP_ARRAY_LEN(ends); i++) {
        const struct wp_claim_identity about = {claim, "p", "s", ends[i]};
        struct wp_claim_info lease = {
            .claim_id = "c",
            .tenant = WP_TENANT_SANDBOX_CLAIMS,
            .pool_namespace = "ns",
            .pool = "p",
            .sandbox = "s",
            .deadline_wall_ms =
                ends[i] < WP_WALL_NEVER_MS ? ends[i] : WP_WALL_NEVER_MS};
        struct wp_identity_token token;
        struct wp_err err = {.msg = ""};

        signer_.status = WP_OK;
        signer_.asked = 0;
        signer_.until_wall_ms = 501;
        memset(&token, 0xa5, sizeof token);
        assert_int_equal(
            wp_claim_identity_sign(&about, &given, &signer, &token, &err),
            WP_OK);
        assert_string_equal(token.text, "a token");
        assert_int_equal(token.until_wall_ms, 501);
        assert_int_equal(signer_.asked, 1);
        assert_string_equal(signer_.audience, "a");
        assert_int_equal(signer_.ttl_ms, 120000);
        assert_string_equal(signer_.lease.claim_id, lease.claim_id);
        assert_string_equal(signer_.lease.tenant, lease.tenant);
        assert_string_equal(signer_.lease.pool_namespace, lease.pool_namespace);
        assert_string_equal(signer_.lease.pool, lease.pool);
        assert_string_equal(signer_.lease.sandbox, lease.sandbox);
        assert_string_equal(signer_.lease.endpoint, "");
        assert_string_equal(signer_.lease.lost_reason, "");
        assert_int_equal(signer_.lease.deadline_wall_ms,
                         lease.deadline_wall_ms);
        assert_int_equal(signer_.lease.fence, 0);
        assert_int_equal(signer_.lease.granted_wall_ms, 0);
        assert_false(signer_.lease.waiting);
        assert_false(signer_.lease.lost);
        /* The one that the Pod has is as good: nothing new. */
        signer_.until_wall_ms = 500;
        assert_int_equal(
            wp_claim_identity_sign(&about, &given, &signer, &token, &err),
            WP_OK);
        assert_string_equal(token.text, "");
        assert_int_equal(token.until_wall_ms, 500);
    }
    wp_object_unref(claim);
}

static void
who_asks_for_none_gets_none(void **state)
{
    struct wp_object *claim = make("c", NULL);
    const struct wp_claim_identity about = {claim, "p", "s", INT64_MAX};
    const struct wp_identity given = {.until_wall_ms = 0};
    struct wp_identity_token token;
    struct wp_err err;

    (void)state;
    signer_.asked = 0;
    assert_false(wp_claim_identity_wants(claim));
    memset(&token, 0xa5, sizeof token);
    assert_int_equal(
        wp_claim_identity_sign(&about, &given, &signer, &token, &err), WP_OK);
    assert_string_equal(token.text, "");
    assert_int_equal(token.until_wall_ms, 0);
    assert_int_equal(signer_.asked, 0);
    wp_object_unref(claim);
}

/* So many letters; valid until the next call but one. */
static const char *
letters(size_t len)
{
    static char texts[2][256];
    static unsigned n;
    char *text = texts[n++ % 2];

    memset(text, 'a', len);
    text[len] = '\0';
    return text;
}

static void
why_there_is_none_is_said(void **state)
{
    static const char too_long[] =
        "identity: the name of the claim, its pool or its Sandbox is too long "
        "for one";
    const struct {
        const char *name;
        const char *pool;
        const char *sandbox;
        const char *identity;
        bool no_signer;
        enum wp_status signs;
        enum wp_status status;
        const char *says; /* It begins so. */
    } rows[] = {
        {"c", "p", "s", ASKED, true, WP_OK, WP_FAILED_PRECONDITION,
         "identity: the daemon has no identity_secret"},
        {"c", "p", "s", ASKED, false, WP_UNAVAILABLE, WP_UNAVAILABLE,
         "identity: no key"},
        {"c", "p", "s", "{", false, WP_OK, WP_INVALID_ARGUMENT, "identity: "},
        {"c", "p", "s",
         "{\\\"audience\\\":\\\"a\\\",\\\"audience\\\":\\\"b\\\"}", false,
         WP_OK, WP_INVALID_ARGUMENT, "identity: "},
        {letters(WP_CLAIM_ID_MAX + 1), "p", "s", ASKED, false, WP_OK,
         WP_FAILED_PRECONDITION, too_long},
    };
    const struct wp_identity given = {.until_wall_ms = 0};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_object *claim = make(rows[i].name, rows[i].identity);
        const struct wp_claim_identity about = {claim, rows[i].pool,
                                                rows[i].sandbox, INT64_MAX};
        struct wp_identity_token token;
        struct wp_err err = {.msg = ""};

        signer_.asked = 0;
        signer_.status = rows[i].signs;
        assert_int_equal(wp_claim_identity_sign(
                             &about, &given, rows[i].no_signer ? NULL : &signer,
                             &token, &err),
                         rows[i].status);
        assert_int_equal(err.status, rows[i].status);
        assert_memory_equal(err.msg, rows[i].says, strlen(rows[i].says));
        assert_string_equal(token.text, "");
        assert_int_equal(signer_.asked, rows[i].signs == WP_OK ? 0 : 1);
        wp_object_unref(claim);
    }
}

/* As long as they may be, and one more, of each. */
static void
names_have_bounds(void **state)
{
    static const size_t max[] = {WP_CLAIM_ID_MAX, WP_POOL_NAME_MAX,
                                 WP_SANDBOX_NAME_MAX};
    const struct wp_identity given = {.until_wall_ms = 0};

    (void)state;
    for (size_t i = 0; i < 2 * WP_ARRAY_LEN(max); i++) {
        const char *name = letters(max[i / 2] + i % 2);
        struct wp_object *claim = make(i / 2 == 0 ? name : "c", ASKED);
        const struct wp_claim_identity about = {
            claim, i / 2 == 1 ? name : "", i / 2 == 2 ? name : "s", INT64_MAX};
        struct wp_identity_token token;
        struct wp_err err = {.msg = ""};

        signer_.status = WP_OK;
        signer_.until_wall_ms = 1;
        assert_int_equal(
            wp_claim_identity_sign(&about, &given, &signer, &token, &err),
            i % 2 == 0 ? WP_OK : WP_FAILED_PRECONDITION);
        assert_string_equal(token.text, i % 2 == 0 ? "a token" : "");
        wp_object_unref(claim);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_signer_is_told_of_the_claim),
        cmocka_unit_test(who_asks_for_none_gets_none),
        cmocka_unit_test(why_there_is_none_is_said),
        cmocka_unit_test(names_have_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
