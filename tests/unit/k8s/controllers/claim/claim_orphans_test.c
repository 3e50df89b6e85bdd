/* Leases of claims that are gone: they end when the API server has listed all
 * claims without theirs, and not before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/controllers/claim/orphans.h"
#include "k8s/objects/json.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/timers.h"
#include "tests/support/k8s/claim_rig.h"

static struct wp_claim_rig rig;
static struct wp_claim_orphans *orphans;
static struct heard heard;

static void
granted(struct wp_claim *claim)
{
    (void)claim;
}

/* A lease of somebody whose claim this replica does not know. */
static void
lease(const char *tenant, const char *id)
{
    struct wp_claim claim = {
        .pool_namespace = WP_STR("ns"),
        .pool = WP_STR("p"),
        .claim_id = wp_str_from(id),
        .tenant = wp_str_from(tenant),
        .lasting = true,
        .done = granted,
    };

    assert_int_equal(wp_pools_claim(rig.pools, &claim), WP_OK);
}

static int
set_up(void **state)
{
    (void)state;
    wp_claim_rig_init(&rig);
    wp_claim_rig_start(&rig, 50);
    rig.parts.config.watch_ns = "ns";
    orphans = wp_claim_orphans_create(&rig.parts);
    return orphans == NULL;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_claim_orphans_destroy(orphans);
    wp_claim_rig_fini(&rig);
    return 0;
}

static bool
is_leased(const char *id)
{
    struct wp_claim_filter filter = {.tenant = NULL};
    struct wp_claim_info infos[64];
    uint64_t cursor = 0;
    bool found = false;

    (void)wp_pools_run(rig.pools);
    do {
        uint32_t n = wp_pools_list(rig.pools, &filter, &cursor, infos, 64);

        for (uint32_t i = 0; i < n; i++) {
            found = found || strcmp(infos[i].claim_id, id) == 0;
        }
    } while (cursor != 0);
    return found;
}

static struct wp_recorded *
asked(const char *cont)
{
    struct wp_recorded *call =
        wp_recorder_open(rig.api, WP_VERB_LIST, WP_KIND_SANDBOX_CLAIM);

    assert_non_null(call);
    assert_string_equal(call->ns, "ns");
    assert_string_equal(call->cont, cont);
    assert_int_equal(call->limit, 500);
    return call;
}

static void
nothing_is_asked(void)
{
    assert_null(wp_recorder_open(rig.api, WP_VERB_LIST, WP_KIND_SANDBOX_CLAIM));
}

/* A page with the claim of this uid. Returns what was said. */
static const char *
answer(const char *cont, const char *uid, const char *next)
{
    json_t *page = json_pack("{s:{s:s}, s:[{s:{s:s}}]}", "metadata", "continue",
                             next, "items", "metadata", "uid", uid);
    struct wp_recorded *call = asked(cont);

    heard_begin(&heard);
    wp_recorder_answer(call, WP_OK, page);
    json_decref(page);
    return heard_end(&heard);
}

static double
left_s(void)
{
    return timers_left_s(rig.parts.base, orphans);
}

static void
all_claims_are_listed_first(void **state)
{
    const char *said;

    (void)state;
    wp_claim_rig_claim(&rig, "c", NULL);
    wp_claim_orphans_end(orphans);
    nothing_is_asked(); /* The only lease is of a claim that is known. */
    lease(WP_TENANT_SANDBOX_CLAIMS, "gone");
    lease(WP_TENANT_SANDBOX_CLAIMS, "first");
    lease(WP_TENANT_SANDBOX_CLAIMS, "second");
    lease("another", "theirs");
    wp_claim_orphans_end(orphans);
    wp_claim_orphans_end(orphans); /* One list is enough. */
    assert_string_equal(answer("", "first", "x"), "");
    assert_true(is_leased("gone"));
    said = answer("x", "second", "");
    assert_non_null(strstr(said, "INFO claim: the lease of a claim that is "
                                 "gone ends sandbox="));
    assert_ptr_equal(strchr(said, '\n')[1], '\0');
    nothing_is_asked();
    assert_true(left_s() < 0);
    assert_false(is_leased("gone"));
    assert_true(is_leased("first") && is_leased("second"));
    assert_true(is_leased("theirs"));
    assert_true(is_leased(wp_claim_rig_uid(&rig, "c")));
    /* What an earlier list had, a later one need not have. */
    wp_claim_orphans_end(orphans);
    (void)answer("", "second", "");
    assert_false(is_leased("first"));
    assert_true(is_leased("second"));
}

/* More than are listed at once, with the longest of ids. */
static void
many_of_them(void **state)
{
    const char *said;
    uint32_t lines = 0;
    char id[WP_CLAIM_ID_MAX + 1];

    (void)state;
    for (int i = 0; i < 40; i++) {
        (void)snprintf(id, sizeof id, "%0*d", WP_CLAIM_ID_MAX, i);
        lease(WP_TENANT_SANDBOX_CLAIMS, id);
    }
    wp_claim_orphans_end(orphans);
    said = answer("", id, ""); /* The last one is alive. */
    for (; *said != '\0'; said++) {
        lines += *said == '\n';
    }
    assert_int_equal(lines, 39);
    assert_true(is_leased(id));
    id[WP_CLAIM_ID_MAX - 1] = '8';
    assert_false(is_leased(id));
}

/* Its claim came between the two. */
static void
a_claim_that_the_watch_tells_of(void **state)
{
    (void)state;
    lease(WP_TENANT_SANDBOX_CLAIMS, "late");
    wp_claim_orphans_end(orphans);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_CLAIM,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"l\",\"uid\":\"late\"},"
        "\"spec\":{\"warmPoolRef\":{\"name\":\"p\"}}}");
    wp_recorder_notify(rig.api);
    assert_string_equal(answer("", "other", ""), "");
    assert_true(is_leased("late"));
}

static void
a_list_that_fails(void **state)
{
    static char cont[5000];

    (void)state;
    lease(WP_TENANT_SANDBOX_CLAIMS, "gone");
    wp_claim_orphans_end(orphans);
    assert_string_equal(answer("", "gone", "x"), "");
    wp_recorder_answer_full(
        asked("x"),
        &(struct wp_api_result){.status = WP_UNAVAILABLE,
                                .retry_after_ns = 1000 * WP_NS_PER_S});
    assert_true(left_s() > 900 && left_s() <= 1000.5);
    nothing_is_asked();
    /* From the first page on: what the half list had counts no more. */
    timers_fire(rig.parts.base, orphans);
    wp_recorder_answer_full(
        asked(""),
        &(struct wp_api_result){.status = WP_OK, .retry_after_ns = -1});
    assert_true(left_s() > 0 && left_s() < 1.5);
    timers_fire(rig.parts.base, orphans);
    memset(cont, 'c', sizeof cont - 1);
    assert_string_equal(answer("", "gone", cont), "");
    assert_true(left_s() > 0 && left_s() < 1.5);
    assert_true(is_leased("gone"));
    timers_fire(rig.parts.base, orphans);
    assert_string_not_equal(answer("", "other", ""), "");
    assert_false(is_leased("gone"));
}

static void
who_does_not_lead_ends_nothing(void **state)
{
    (void)state;
    lease(WP_TENANT_SANDBOX_CLAIMS, "gone");
    rig.parts.active = false;
    wp_claim_orphans_end(orphans);
    nothing_is_asked();
    rig.parts.active = true;
    wp_claim_orphans_end(orphans);
    rig.parts.active = false;
    assert_string_equal(answer("", "other", ""), "");
    assert_true(is_leased("gone"));
    /* It was to be asked again. */
    rig.parts.active = true;
    wp_claim_orphans_end(orphans);
    wp_recorder_answer(asked(""), WP_UNAVAILABLE, NULL);
    rig.parts.active = false;
    timers_fire(rig.parts.base, orphans);
    nothing_is_asked();
    /* The client goes. */
    rig.parts.active = true;
    wp_claim_orphans_end(orphans);
    wp_recorder_answer(asked(""), WP_CANCELLED, NULL);
    nothing_is_asked();
    assert_true(left_s() < 0);
    assert_true(is_leased("gone"));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_claims_are_listed_first, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(many_of_them, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_claim_that_the_watch_tells_of, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_list_that_fails, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_does_not_lead_ends_nothing, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
