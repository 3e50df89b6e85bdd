/* Whole lives of SandboxClaims: each call, what is left in the API server, and
 * what is counted, as claim_story.txt has it. */
#include "tests/unit/k8s/controllers/claim/claim_lives.h"

static void
warm(void)
{
    begin(2);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_CLAIM,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"a\",\"labels\":{"
        "\"" WP_LABEL_CREATED_BY "\":\"python-client\"},\"annotations\":{"
        "\"" WP_ANNOTATION_TRACE "\":\"00-4bf9-01\"}},\"spec\":{"
        "\"warmPoolRef\":{\"name\":\"p\"},\"additionalPodMetadata\":{"
        "\"labels\":{\"sandbox.users.io/team\":\"red\"},\"annotations\":{"
        "\"example.com/x\":\"y\"}}}}");
    wp_claim_rig_settle(&rig);
    wp_claim_rig_claim(&rig, "b", NULL);
    tell_calls("two claims");
    merge(WP_KIND_SANDBOX, wp_claim_rig_sandbox(&rig, "a"),
          READY("False", "DependenciesNotReady", "2026-01-01T00:00:09Z"));
    tell_calls("the sandbox of one is not ready");
    merge(WP_KIND_SANDBOX_CLAIM, "b",
          "{\"metadata\":{\"labels\":{\"" WP_LABEL_CREATED_BY
          "\":\"go-client\"}}}");
    tell_calls("the other one has a creator");
    merge(WP_KIND_SANDBOX_TEMPLATE, "t",
          "{\"spec\":{\"podTemplate\":{\"metadata\":{\"labels\":{"
          "\"of\":null,\"tier\":\"two\"}}}}}");
    tell_calls("the template has other labels");
    merge(WP_KIND_SANDBOX_TEMPLATE, "t",
          "{\"spec\":{\"podTemplate\":{\"spec\":{\"nodeName\":\"n\"}}}}");
    tell_end();
}

static void
cold(void)
{
    begin(0);
    wp_claim_rig_claim(
        &rig, "a",
        "\"additionalPodMetadata\":{\"labels\":{\"sandbox.users.io/team\":"
        "\"red\"}}");
    tell_calls("a claim of a pool of none");
    wp_claim_rig_advance(&rig, 1250 * MS);
    merge(WP_KIND_SANDBOX, "a",
          READY("True", "DependenciesReady", "2026-01-01T00:00:05Z"));
    tell_calls("its sandbox is ready");
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "ns", "a");
    pass(2 * S, 20);
    tell_end();
}

static void
waiting(void)
{
    begin(1);
    wp_claim_rig_claim(&rig, "a", NULL);
    wp_claim_rig_claim(&rig, "b", NULL);
    wp_claim_rig_claim(&rig, "c", NULL);
    pass(1999 * MS, 10);
    tell_calls("until the grace is over");
    assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
    tell_calls("one more is ready");
    pass(1 * S, 10);
    tell_end();
}

static void
conflicts(void)
{
    begin(2);
    plan(WP_VERB_PATCH, WP_KIND_SANDBOX, NULL, WP_ABORTED, 12);
    wp_claim_rig_claim(&rig, "a", NULL);
    tell_calls("each adoption meets another's write");
    pass(2 * S, 20);
    tell_calls("later");
    plan(WP_VERB_PATCH, WP_KIND_SANDBOX_CLAIM, "status", WP_ABORTED, 12);
    wp_claim_rig_claim(&rig, "b", NULL);
    tell_calls("each status does");
    pass(20 * S, 40);
    tell_end();
}

/* Each answer to each write of a claim, warm and cold. */
static void
answers(void)
{
    static const enum wp_status statuses[] = {
        WP_NOT_FOUND,        WP_ALREADY_EXISTS,     WP_PERMISSION_DENIED,
        WP_INVALID_ARGUMENT, WP_RESOURCE_EXHAUSTED, WP_UNAVAILABLE,
        WP_UNKNOWN_OUTCOME,  WP_FAILED_PRECONDITION};
    static const struct {
        uint32_t target;
        enum wp_verb verb;
        enum wp_kind kind;
        const char *subresource;
    } writes[] = {
        {1, WP_VERB_PATCH, WP_KIND_SANDBOX, NULL},
        {0, WP_VERB_POST, WP_KIND_SANDBOX, NULL},
        {1, WP_VERB_PATCH, WP_KIND_SANDBOX_CLAIM, "status"},
        {1, WP_VERB_PATCH, WP_KIND_SANDBOX_CLAIM, ""},
    };

    for (size_t w = 0; w < WP_ARRAY_LEN(writes); w++) {
        for (size_t s = 0; s < WP_ARRAY_LEN(statuses); s++) {
            begin_silent(writes[w].target);
            (void)fprintf(story, "== answer %s to a write of %s\n",
                          wp_status_text(statuses[s]),
                          wp_kind_info(writes[w].kind)->kind);
            plan(writes[w].verb, writes[w].kind, writes[w].subresource,
                 statuses[s], 2);
            wp_claim_rig_claim(&rig, "a", NULL);
            tell_calls("a claim");
            tell_ready("a");
            pass(10 * S, 40);
            tell_calls("at the end");
            tell_ready("a");
            rig.faults_may_stay = true;
            end();
        }
    }
}

static void
refused(void)
{
    begin(0);
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_TEMPLATE,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"t\"},\"spec\":{"
        "\"envVarsInjectionPolicy\":\"Allowed\",\"podTemplate\":{\"spec\":{"
        "\"containers\":[{\"name\":\"main\",\"env\":[{\"name\":\"A\","
        "\"value\":\"1\"}]}]}}}}");
    wp_claim_rig_claim(&rig, "env-clash",
                       "\"env\":[{\"name\":\"A\",\"value\":\"2\"}]");
    wp_claim_rig_claim(
        &rig, "volumes",
        "\"volumeClaimTemplates\":[{\"metadata\":{\"name\":\"x\"}}]");
    wp_claim_rig_claim(&rig, "label",
                       "\"additionalPodMetadata\":{\"labels\":{\"x\":\"y\"}}");
    tell_calls("claims that ask for too much");
    merge(WP_KIND_SANDBOX_TEMPLATE, "t",
          "{\"spec\":{\"envVarsInjectionPolicy\":null}}");
    wp_claim_rig_claim(&rig, "env",
                       "\"env\":[{\"name\":\"B\",\"value\":\"2\"}]");
    tell_calls("no variables at all");
    claim_template("missing", "nowhere");
    put_pool("q", "nowhere", "");
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_CLAIM,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"no-template\"},"
        "\"spec\":{\"warmPoolRef\":{\"name\":\"q\"}}}");
    (void)wp_recorder_put(
        rig.api, WP_KIND_SANDBOX_CLAIM,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"no-pool\"},"
        "\"spec\":{\"warmPoolRef\":{\"name\":\"none\"}}}");
    wp_claim_rig_settle(&rig);
    tell_calls("pools and templates that are not there");
    pass(120 * S, 60);
    tell_end();
}

#define UNTIL(policy)                                                          \
    "\"lifecycle\":{\"shutdownTime\":\"2026-01-01T00:01:00Z\","                \
    "\"shutdownPolicy\":\"" policy "\"}"

static void
expiry(void)
{
    static const char *const specs[] = {UNTIL("Delete"), UNTIL("Retain"),
                                        UNTIL("DeleteForeground")};

    for (size_t i = 0; i < WP_ARRAY_LEN(specs); i++) {
        begin(1);
        (void)wp_recorder_put(
            rig.api, WP_KIND_SANDBOX,
            "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"taken\"},"
            "\"spec\":{}}");
        wp_claim_rig_claim(&rig, "a", specs[i]);
        wp_claim_rig_claim(&rig, "taken", specs[i]);
        pass(59 * S, 59);
        wp_claim_rig_claim(&rig, "waits", specs[i]);
        tell_calls("before their time is over");
        plan(WP_VERB_DELETE, WP_KIND_COUNT, NULL, WP_UNAVAILABLE, 1);
        wp_claim_rig_advance(&rig, 1 * S);
        tell_calls("when it is");
        pass(10 * S, 40);
        tell_end();
    }
}

static void
by_template(void)
{
    char name[32];

    told = 0;
    wp_claim_rig_init(&rig);
    put_pool("early", "t", "");
    wp_claim_rig_start(&rig, 2);
    /* However they are walked, one of each comes before the pool. */
    for (int i = 0; i < 8; i++) {
        (void)snprintf(name, sizeof name, "leaves%d", i);
        put_pool(name, "t", ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"");
        (void)snprintf(name, sizeof name, "zero%d", i);
        put_pool(name, "t", "");
    }
    put_pool("else", "u", "");
    put_pool("tenants", "t",
             ",\"annotations\":{\"" WP_ANNOTATION_TENANT "\":\"x\"}");
    wp_claim_rig_settle(&rig);
    claim_template("a", "t");
    tell_calls("of the pool that has some");
    claim_template("b", "t");
    claim_template("c", "t");
    pass(3 * S, 30);
    tell_end();
}

static void
restart(void)
{
    begin(2);
    wp_claim_rig_claim(&rig, "a", NULL);
    merge(WP_KIND_SANDBOX_TEMPLATE, "t",
          "{\"spec\":{\"podTemplate\":{\"metadata\":{\"labels\":{"
          "\"tier\":\"two\"}}}}}");
    wp_claim_rig_restart(&rig);
    told = 0;
    wp_claim_rig_settle(&rig);
    tell_calls("another process");
    wp_claim_rig_unclaim(&rig, "a");
    pass(1 * S, 10);
    tell_end();
}

static void
no_collector(void)
{
    told = 0;
    wp_claim_rig_init(&rig);
    rig.parts.config.gc = true;
    wp_claim_rig_start(&rig, 1);
    wp_claim_rig_claim(&rig, "a", NULL);
    tell_calls("a claim");
    plan(WP_VERB_DELETE, WP_KIND_SANDBOX, NULL, WP_UNAVAILABLE, 2);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", "a");
    pass(5 * S, 20);
    tell_end();
}

/* --- Which Sandbox it has --- */

/* Several are its own: the first by name that is not going. */
static void
owned(void)
{
    static const struct {
        const char *claim;
        const char *more[3];
    } rows[] = {
        {"some-go", {GOING, "", ""}},
        {"later-go", {"", GOING, ""}},
        {"last-stays", {GOING, GOING, ""}},
        {"all-go", {GOING, GOING, GOING}},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        char text[128];

        begin_silent(0);
        (void)snprintf(text, sizeof text, "\"name\":\"%s\",\"uid\":\"u-of-it\"",
                       rows[i].claim);
        for (size_t k = 0; k < WP_ARRAY_LEN(rows[i].more); k++) {
            char name[8];

            (void)snprintf(name, sizeof name, "s%zu", k);
            put_sandbox(name, rows[i].more[k], "SandboxClaim", rows[i].claim,
                        "u-of-it");
        }
        wp_claim_rig_settle(&rig);
        put_claim(text);
        tell_calls(rows[i].claim);
        tell_ready(rows[i].claim);
        pass(5 * S, 10);
        tell_end();
    }
}

/* It has the name of one already, whoever has that one. */
static void
reserved(void)
{
    static const struct {
        const char *claim;
        const char *more;
        const char *kind;
        const char *owner;
    } rows[] = {
        {"of-its-pool", "", "SandboxWarmPool", "p"},
        {"of-its-pool-going", GOING, "SandboxWarmPool", "p"},
        {"of-another-pool", "", "SandboxWarmPool", "q"},
        {"of-another-claim", "", "SandboxClaim", "other"},
        {"of-something-else", "", "Job", "j"},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        char text[256];

        begin_silent(0);
        put_pool("q", "t", "");
        put_sandbox("named", rows[i].more, rows[i].kind, rows[i].owner, "ou");
        wp_claim_rig_settle(&rig);
        (void)snprintf(text, sizeof text,
                       "\"name\":\"%s\",\"annotations\":{"
                       "\"" WP_ANNOTATION_SANDBOX_NAME "\":\"named\"}",
                       rows[i].claim);
        put_claim(text);
        tell_calls(rows[i].claim);
        tell_ready(rows[i].claim);
        pass(5 * S, 10);
        rig.faults_may_stay = true;
        tell_end();
    }
}

/* What a bound Sandbox has lost is written again. */
static void
refreshed(void)
{
    begin_silent(1);
    wp_claim_rig_claim(&rig, "warm", NULL);
    wp_claim_rig_claim(&rig, "warm-too", NULL);
    pass(3 * S, 30);
    tell_calls("a warm one and a cold one");
    for (int i = 0; i < 2; i++) {
        const char *claim = i == 0 ? "warm" : "warm-too";

        merge(WP_KIND_SANDBOX, wp_claim_rig_sandbox(&rig, claim),
              "{\"metadata\":{\"labels\":{\"" WP_LABEL_LAUNCH_TYPE
              "\":null}}}");
    }
    tell_calls("they do not tell how they came");
    wp_recorder_hold(rig.api, true);
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t",
        "{\"spec\":{\"podTemplate\":{\"metadata\":{\"labels\":{"
        "\"tier\":\"two\"}}}}}");
    (void)wp_recorder_merge(
        rig.api, WP_KIND_SANDBOX, "ns", wp_claim_rig_sandbox(&rig, "warm"),
        READY("False", "DependenciesNotReady", "2026-01-01T00:00:09Z"));
    wp_recorder_hold(rig.api, false);
    wp_claim_rig_settle(&rig);
    tell_calls("other labels, and one is not ready: that is told first");
    tell_end();
}

/* Its template goes while sandboxes are ready. */
static void
no_template(void)
{
    begin_silent(1);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t");
    wp_claim_rig_settle(&rig);
    wp_claim_rig_claim(&rig, "a", NULL);
    pass(5 * S, 20);
    tell_end();
}

/* The same for one that has the name of a Sandbox which tells of no template. */
static void
no_template_at_all(void)
{
    begin_silent(0);
    wp_recorder_remove(rig.api, WP_KIND_SANDBOX_TEMPLATE, "ns", "t");
    put_sandbox("named", "", "SandboxWarmPool", "p", "ou");
    wp_claim_rig_settle(&rig);
    put_claim("\"name\":\"a\",\"annotations\":{\"" WP_ANNOTATION_SANDBOX_NAME
              "\":\"named\"}");
    pass(5 * S, 20);
    tell_end();
}

/* What was not made, after all, is made no more once a warm one is ready. */
static void
lost_post_and_a_warm_one(void)
{
    begin_silent(1);
    wp_claim_rig_claim(&rig, "a", NULL);
    plan(WP_VERB_POST, WP_KIND_SANDBOX, NULL, WP_UNKNOWN_OUTCOME, 1);
    wp_claim_rig_claim(&rig, "b", NULL);
    told = wp_recorder_calls(rig.api);
    pass(2 * S, 4);
    tell_calls("a cold one, perhaps");
    assert_int_equal(wp_claim_rig_make_ready(&rig, 1), 1);
    pass(5 * S, 20);
    tell_end();
}

/* The POST was answered by nobody: done or not. */
static void
lost_posts(void)
{
    for (int effect = 0; effect < 2; effect++) {
        begin_silent(0);
        wp_recorder_plan(rig.api, &(struct wp_recorder_fault){
                                      .verb = WP_VERB_POST,
                                      .kind = WP_KIND_SANDBOX,
                                      .status = WP_UNKNOWN_OUTCOME,
                                      .effect = effect == 1,
                                  });
        wp_recorder_hold(rig.api, true);
        wp_claim_rig_claim(&rig, "a", NULL);
        wp_recorder_hold(rig.api, false);
        wp_claim_rig_settle(&rig);
        tell_calls(effect == 1 ? "it was made" : "it was not");
        pass(5 * S, 20);
        tell_calls("later");
        wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "ns", "a");
        pass(10 * S, 40);
        tell_end();
    }
}

static void
claims_live_as_they_are_told(void **state)
{
    static const struct wp_story_life lives[] = {
        {"warm", warm},
        {"cold", cold},
        {"waiting", waiting},
        {"conflicts", conflicts},
        {"answers", answers},
        {"refused", refused},
        {"expiry", expiry},
        {"by template", by_template},
        {"restart", restart},
        {"no collector", no_collector},
        {"owned", owned},
        {"reserved", reserved},
        {"refreshed", refreshed},
        {"no template", no_template},
        {"no template at all", no_template_at_all},
        {"lost posts", lost_posts},
        {"lost post and a warm one", lost_post_and_a_warm_one},
    };

    (void)state;
    wp_story_tell(&story, lives, WP_ARRAY_LEN(lives), WP_TEST_STORY);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(claims_live_as_they_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
