/* Pools of templates that claims name and nobody made a pool for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/controllers/implicit/implicit.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "tests/support/k8s/claim_rig.h"

#define IDLE_NS (600 * WP_NS_PER_S)

static struct wp_claim_rig rig;

static void
begin(uint32_t implicit_pool)
{
    wp_claim_rig_init(&rig);
    rig.parts.config.implicit_pool = implicit_pool;
    wp_claim_rig_start(&rig, 1);
}

/* annotation: of the implicit pool; NULL: none. */
static void
put_template(const char *name, const char *annotation)
{
    char text[512];

    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\","
        "\"annotations\":{%s%s%s}},\"spec\":{\"podTemplate\":{"
        "\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":"
        "\"i\"}]}}}}",
        name,
        annotation != NULL ? "\"" WP_ANNOTATION_IMPLICIT_POOL "\":\"" : "",
        annotation != NULL ? annotation : "", annotation != NULL ? "\"" : "");
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_TEMPLATE, text);
    wp_claim_rig_settle(&rig);
}

/* As a claim of v1alpha1 is stored; it has a sandbox afterwards. */
static void
claim(const char *name, const char *templ)
{
    char text[512];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\"},"
                   "\"spec\":{\"warmPoolRef\":{\"name\":\"shadow-pool-%s\"}}}",
                   name, templ);
    (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM, text);
    wp_claim_rig_settle(&rig);
    /* The core of the rig has no pool but its own. */
    wp_claim_rig_advance(&rig, 3 * WP_NS_PER_S);
    assert_string_equal(wp_claim_rig_sandbox(&rig, name), name);
}

static const json_t *
pool_of(const char *templ)
{
    char name[WP_POOL_NAME_MAX + 1];

    wp_implicit_pool_name(templ, name);
    return wp_recorder_object(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", name);
}

static void
it_comes_behind_the_first_claim(void **state)
{
    const json_t *pool;
    const json_t *owner;

    (void)state;
    begin(3);
    put_template("u", NULL);
    assert_null(pool_of("u"));
    claim("a", "u");
    pool = pool_of("u");
    assert_non_null(pool);
    assert_string_equal(wp_json_text(pool, "metadata", "name", NULL),
                        "shadow-pool-u");
    assert_string_equal(
        wp_json_text(pool, "metadata", "labels", WP_LABEL_IMPLICIT_POOL, NULL),
        "true");
    assert_string_equal(
        wp_json_text(pool, "spec", "sandboxTemplateRef", "name", NULL), "u");
    assert_int_equal(
        json_integer_value(wp_json_at(pool, "spec", "replicas", NULL)), 3);
    owner = json_array_get(
        wp_json_at(pool, "metadata", "ownerReferences", NULL), 0);
    assert_string_equal(wp_json_text(owner, "kind", NULL), "SandboxTemplate");
    assert_string_equal(wp_json_text(owner, "name", NULL), "u");
    /* One is enough. */
    claim("b", "u");
    assert_int_equal(
        wp_recorder_count(rig.api, WP_VERB_POST, WP_KIND_SANDBOX_WARM_POOL), 1);
    wp_claim_rig_fini(&rig);
}

static void
it_is_off_unless_asked_for(void **state)
{
    (void)state;
    begin(0);
    put_template("u", NULL);
    put_template("v", "2");
    claim("a", "u");
    claim("b", "v");
    assert_null(pool_of("u"));
    assert_non_null(pool_of("v"));
    wp_claim_rig_fini(&rig);
}

static void
a_template_may_say_no(void **state)
{
    (void)state;
    begin(3);
    put_template("u", "0");
    claim("a", "u");
    assert_null(pool_of("u"));
    wp_claim_rig_fini(&rig);
}

/* Nor does one that names its pool, or wants none. */
static void
other_claims_ask_for_none(void **state)
{
    (void)state;
    begin(3);
    wp_claim_rig_claim(&rig, "a", NULL);
    assert_string_equal(wp_claim_rig_ready(&rig, "a", "status"), "True");
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_CLAIM,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"b\",\"annotations\":{"
        "\"api.agents.x-k8s.io/v1alpha1-sandboxclaim-state\":"
        "\"{\\\"spec\\\":{\\\"sandboxTemplateRef\\\":{\\\"name\\\":\\\"t\\\"},"
        "\\\"warmpool\\\":\\\"none\\\"}}\"}},"
        "\"spec\":{\"warmPoolRef\":{\"name\":\"shadow-pool-t\"}}}");
    wp_claim_rig_settle(&rig);
    assert_string_equal(wp_claim_rig_sandbox(&rig, "b"), "b");
    assert_null(pool_of("t"));
    assert_int_equal(
        wp_recorder_count(rig.api, WP_VERB_POST, WP_KIND_SANDBOX_WARM_POOL), 0);
    wp_claim_rig_fini(&rig);
}

static void
it_goes_when_no_claim_comes(void **state)
{
    (void)state;
    begin(3);
    put_template("u", NULL);
    claim("a", "u");
    wp_claim_rig_advance(&rig, IDLE_NS / 2);
    claim("b", "u");
    wp_claim_rig_advance(&rig, IDLE_NS / 2);
    assert_non_null(pool_of("u"));
    wp_claim_rig_advance(&rig, IDLE_NS / 2);
    assert_null(pool_of("u"));
    /* Its claims go on. */
    assert_string_equal(wp_claim_rig_sandbox(&rig, "a"), "a");
    claim("c", "u");
    assert_non_null(pool_of("u"));
    wp_claim_rig_fini(&rig);
}

static void
it_makes_room_for_a_pool_of_somebodys(void **state)
{
    (void)state;
    begin(3);
    put_template("u", NULL);
    claim("a", "u");
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_WARM_POOL,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"mine\"},\"spec\":{"
        "\"replicas\":1,\"sandboxTemplateRef\":{\"name\":\"u\"}}}");
    wp_claim_rig_settle(&rig);
    assert_null(pool_of("u"));
    wp_claim_rig_fini(&rig);
}

static void
who_ends_it_does_not_get_it_back(void **state)
{
    (void)state;
    begin(3);
    put_template("u", NULL);
    claim("a", "u");
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns",
                       "shadow-pool-u");
    wp_claim_rig_settle(&rig);
    assert_null(pool_of("u"));
    claim("b", "u");
    assert_non_null(pool_of("u"));
    wp_claim_rig_fini(&rig);
}

/* Without its label it is a pool as any other. */
static void
who_takes_it_over_keeps_it(void **state)
{
    (void)state;
    begin(3);
    put_template("u", NULL);
    claim("a", "u");
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_WARM_POOL, "ns", "shadow-pool-u",
        "{\"metadata\":{\"labels\":{\"" WP_LABEL_IMPLICIT_POOL "\":null}}}");
    wp_claim_rig_advance(&rig, 2 * IDLE_NS);
    assert_non_null(pool_of("u"));
    wp_claim_rig_fini(&rig);
}

static void
there_is_a_bound(void **state)
{
    char name[16];

    (void)state;
    begin(1);
    for (int i = 0; i < 6; i++) {
        (void)snprintf(name, sizeof name, "u%d", i);
        put_template(name, NULL);
        claim(name, name);
        assert_int_equal(pool_of(name) != NULL, i < 4);
    }
    wp_claim_rig_fini(&rig);
}

static void
the_next_leader_waits_anew(void **state)
{
    (void)state;
    begin(3);
    put_template("u", NULL);
    claim("a", "u");
    wp_claim_rig_advance(&rig, IDLE_NS / 2);
    wp_claim_rig_restart(&rig);
    wp_claim_rig_advance(&rig, IDLE_NS - WP_NS_PER_S);
    assert_non_null(pool_of("u"));
    wp_claim_rig_advance(&rig, WP_NS_PER_S);
    assert_null(pool_of("u"));
    wp_claim_rig_fini(&rig);
}

static void
a_setting_that_is_off_ends_it(void **state)
{
    (void)state;
    begin(3);
    put_template("u", NULL);
    claim("a", "u");
    rig.parts.config.implicit_pool = 0;
    wp_claim_rig_restart(&rig);
    assert_null(pool_of("u"));
    wp_claim_rig_fini(&rig);
}

static void
a_long_name_is_cut(void **state)
{
    char name[WP_POOL_NAME_MAX + 1];
    char other[WP_POOL_NAME_MAX + 1];

    (void)state;
    wp_implicit_pool_name("123456789-123456789-123456789-123456789-12", name);
    assert_string_equal(
        name, "shadow-pool-123456789-123456789-123456789-123456789-12");
    wp_implicit_pool_name("123456789-123456789-123456789-12.456789-123", name);
    wp_implicit_pool_name("123456789-123456789-123456789-12.456789-124", other);
    assert_int_equal(strlen(name), WP_POOL_NAME_MAX);
    assert_memory_equal(name, "shadow-pool-123456789-123456789-123456789-12--",
                        46);
    assert_string_not_equal(name, other);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_behind_the_first_claim),
        cmocka_unit_test(it_is_off_unless_asked_for),
        cmocka_unit_test(a_template_may_say_no),
        cmocka_unit_test(other_claims_ask_for_none),
        cmocka_unit_test(it_goes_when_no_claim_comes),
        cmocka_unit_test(it_makes_room_for_a_pool_of_somebodys),
        cmocka_unit_test(who_ends_it_does_not_get_it_back),
        cmocka_unit_test(who_takes_it_over_keeps_it),
        cmocka_unit_test(there_is_a_bound),
        cmocka_unit_test(the_next_leader_waits_anew),
        cmocka_unit_test(a_setting_that_is_off_ends_it),
        cmocka_unit_test(a_long_name_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
