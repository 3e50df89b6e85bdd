/* SandboxClaims that ask for an identity while no key signs: they rest, and go
 * on as a key comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/bind/repositories.h"
#include "k8s/controllers/claim/cold.h"
#include "k8s/objects/names.h"
#include "proto/formats/sandbox_token.h"
#include "tests/support/k8s/claim_rig.h"

static struct wp_claim_rig rig;
static uint32_t asked; /* So often for a signature. */

static enum wp_status
sign(void *ctx, const struct wp_claim_info *lease, struct wp_str audience,
     int64_t ttl_ms, char token[WP_IDENTITY_TOKEN_MAX + 1],
     int64_t *expires_wall_ms, struct wp_err *err)
{
    (void)ctx;
    (void)lease;
    (void)ttl_ms;
    (void)expires_wall_ms;
    assert_true(wp_str_is(audience, "a"));
    token[0] = '\0';
    asked++;
    return wp_err_set(err, WP_UNAVAILABLE, "there is no key");
}

static const struct wp_cluster_git git = {
    .remotes = "", .remotes_denied = "", .fetch_socket = "", .trust_files = ""};
static const struct wp_cluster_identity identities = {.secret = "keys",
                                                      .sign = sign};

static void
claim(const char *name, const char *annotations)
{
    char text[512];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\","
                   "\"annotations\":{%s}},"
                   "\"spec\":{\"warmPoolRef\":{\"name\":\"p\"}}}",
                   name, annotations);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM, text);
    wp_claim_rig_settle(&rig);
}

static void
end(void)
{
    struct wp_repositories *repositories = rig.parts.repositories;

    wp_claim_rig_fini(&rig);
    wp_repositories_destroy(repositories);
}

static void
begin(uint32_t target)
{
    static const uint8_t key[WP_SANDBOX_KEY_LEN] = {1};
    struct wp_err err;

    asked = 0;
    wp_claim_rig_init(&rig);
    rig.parts.config.sandbox_key = key;
    rig.parts.config.identities = &identities;
    rig.parts.repositories = wp_repositories_create(
        &(struct wp_repositories_config){
            .git = &git, .base = rig.parts.base, .api = rig.api, .ns = "ns"},
        &err);
    assert_non_null(rig.parts.repositories);
    wp_claim_rig_start(&rig, target);
    (void)wp_recorder_merge(rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t",
                            "{\"metadata\":{\"annotations\":{"
                            "\"template.warmpool.io/binding\":\"allowed\"}}}");
    wp_claim_rig_settle(&rig);
}

/* Its pause has grown to a minute by then. */
static void
goes_on_as_a_key_comes(void **state)
{
    uint64_t reconciles;
    uint32_t before;

    (void)state;
    begin(2);
    claim("plain", "");
    claim("signed", "\"" WP_ANNOTATION_CLAIM_IDENTITY
                    "\":\"{\\\"audience\\\":\\\"a\\\"}\"");
    assert_string_equal(wp_claim_rig_ready(&rig, "plain", "status"), "True");
    assert_string_equal(wp_claim_rig_ready(&rig, "signed", "reason"),
                        WP_REASON_BINDING);
    for (int i = 0; i < 20; i++) {
        wp_claim_rig_advance(&rig, 60 * WP_NS_PER_S);
    }
    before = asked;
    assert_in_range(before, 10, 40);
    wp_claim_rig_advance(&rig, WP_NS_PER_S);
    assert_int_equal(asked, before);
    reconciles = wp_claim_rig_reconciles(&rig);
    rig.parts.on_keys(rig.parts.on_keys_ctx);
    wp_claim_rig_settle(&rig);
    assert_int_equal(asked, before + 1);
    assert_int_equal(wp_claim_rig_reconciles(&rig), reconciles + 1);
    /* Who does not lead leaves it to others. */
    rig.parts.active = false;
    rig.parts.on_keys(rig.parts.on_keys_ctx);
    rig.parts.active = true;
    wp_claim_rig_settle(&rig);
    assert_int_equal(asked, before + 1);
    end();
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_as_a_key_comes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
