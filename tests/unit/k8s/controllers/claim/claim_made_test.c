/* What is made of a SandboxClaim, whole: its own Sandbox, the patches of a warm
 * one, its status. Each template with each claim, as claim_made.txt has it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/controllers/claim/adopt.h"
#include "k8s/controllers/claim/cold.h"
#include "k8s/controllers/claim/metadata.h"
#include "k8s/controllers/claim/status.h"
#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "tests/support/k8s/story.h"

static FILE *story;

static json_t *
parse(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);

    assert_non_null(json);
    return json;
}

/* metadata: more of it, after a comma; rest: what follows metadata. */
static struct wp_object *
object(enum wp_kind kind, const char *name, const char *metadata,
       const char *rest)
{
    char text[4096];
    struct wp_object *made;
    struct wp_err err;
    json_t *json;

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\","
                   "\"uid\":\"u-%s\",\"resourceVersion\":\"7\","
                   "\"generation\":3%s}%s}",
                   name, name, metadata, rest);
    json = parse(text);
    made = wp_object_create(kind, json, &err);
    if (made == NULL) {
        fail_msg("%s", err.msg);
    }
    json_decref(json);
    return made;
}

struct text {
    const char *what;
    const char *metadata;
    const char *rest;
};

#define POD(metadata, more)                                                    \
    "\"podTemplate\":{\"metadata\":{" metadata "},\"spec\":{"                  \
    "\"initContainers\":[{\"name\":\"init\"}],\"containers\":[{\"name\":"      \
    "\"main\"" more "},{\"name\":\"side\",\"envFrom\":[{\"x\":1}]}]}}"
#define ENV_A ",\"env\":[{\"name\":\"A\",\"value\":\"1\",\"more\":true}]"
#define DATA                                                                   \
    ",\"volumeClaimTemplates\":[{\"metadata\":{\"name\":\"data\"},\"spec\":{"  \
    "\"v\":1}}]"
#define POLICIES(of)                                                           \
    "\"envVarsInjectionPolicy\":\"" of                                         \
    "\",\"volumeClaimTemplatesPolicy\":\"" of "\","
#define TEAM "sandbox.users.io/team"

static const struct text templates[] = {
    {"no Pod", "", ",\"spec\":{\"podTemplate\":{}}"},
    {"plain", "", ",\"spec\":{" POD("", "") "}"},
    {"allowed", "",
     ",\"spec\":{" POLICIES("Allowed")
         POD("\"labels\":{\"" TEAM "\":\"red\"}", ENV_A) DATA "}"},
    {"overrides", "",
     ",\"spec\":{" POLICIES("Overrides")
         POD("\"annotations\":{\"n\":\"1\"}", ENV_A) DATA "}"},
    {"overrides, plain", "",
     ",\"spec\":{" POLICIES("Overrides") POD("", "") "}"},
    {"disallowed", "",
     ",\"spec\":{" POLICIES("Disallowed") POD("", ENV_A) DATA "}"},
    {"a volume twice", "",
     ",\"spec\":{" POLICIES("Overrides")
         POD("", "") ","
                     "\"volumeClaimTemplates"
                     "\":[{\"metadata\":{\"name\":\"x\"}},{\"metadata\":{"
                     "\"name\":\"y\"}},"
                     "{\"metadata\":{\"name\":\"y\"}}]}"},
    {"a volume without a name", "",
     ",\"spec\":{" POLICIES("Overrides") POD(
         "",
         "") ","
             "\"volumeClaimTemplates\":[{\"metadata\":{\"name\":\"x\"}},{}]}"},
};

#define SPEC(more) ",\"spec\":{\"warmPoolRef\":{\"name\":\"p\"}" more "}"
#define VARIABLE(name, value, where)                                           \
    "{\"name\":\"" name "\",\"value\":\"" value "\"" where "}"
#define IN(container) ",\"containerName\":\"" container "\""
#define VOLUME(name) "{\"metadata\":{\"name\":\"" name "\"},\"spec\":{\"v\":2}}"
#define ADDS(labels, annotations)                                              \
    ",\"additionalPodMetadata\":{\"labels\":{" labels                          \
    "},\"annotations\":{" annotations "}}"

static const struct text claims[] = {
    {"asks for nothing", "", SPEC("")},
    {"says who it is",
     ",\"labels\":{\"" WP_LABEL_CREATED_BY
     "\":\"go-client\"},\"annotations\":{\"" WP_ANNOTATION_TRACE
     "\":\"trace\",\"" WP_ANNOTATION_CLAIM_COMMAND "\":\"[]\"}",
     SPEC("")},
    {"a variable", "", SPEC(",\"env\":[" VARIABLE("B", "2", "") "]")},
    {"the template's", "", SPEC(",\"env\":[" VARIABLE("A", "2", "") "]")},
    {"several", "",
     SPEC(",\"env\":[" VARIABLE("B", "2", "") "," VARIABLE(
         "C", "", IN("init")) "," VARIABLE("D", "4", IN("main")) "]")},
    {"one twice", "",
     SPEC(",\"env\":[" VARIABLE("B", "2", "") "," VARIABLE("B", "3", "") "]")},
    {"beside others' variables", "",
     SPEC(",\"env\":[" VARIABLE("B", "2", IN("side")) "]")},
    {"into nobody", "", SPEC(",\"env\":[" VARIABLE("B", "2", IN("no")) "]")},
    {"without a name", "", SPEC(",\"env\":[" VARIABLE("", "2", "") "]")},
    {"without a value", "", SPEC(",\"env\":[{\"name\":\"B\"}]")},
    {"one after a good one", "",
     SPEC(",\"env\":[" VARIABLE("B", "2", "") ",{\"name\":\"C\"}]")},
    {"a volume", "", SPEC(",\"volumeClaimTemplates\":[" VOLUME("more") "]")},
    {"the template's volume", "",
     SPEC(",\"volumeClaimTemplates\":[" VOLUME("more") "," VOLUME("data") "]")},
    {"a volume twice", "",
     SPEC(",\"volumeClaimTemplates\":[" VOLUME("a") "," VOLUME("a") "]")},
    {"a volume without a name", "",
     SPEC(",\"volumeClaimTemplates\":[" VOLUME("a") ",{\"spec\":{}}]")},
    {"its own label", "", SPEC(ADDS("\"" TEAM "\":\"red\"", ""))},
    {"another label", "", SPEC(ADDS("\"" TEAM "\":\"blue\"", "\"n\":\"1\""))},
    {"another annotation", "", SPEC(ADDS("", "\"n\":\"2\",\"m\":\"3\""))},
};

/* --- A Sandbox of its own --- */

static void
cold(void)
{
    for (size_t t = 0; t < WP_ARRAY_LEN(templates); t++) {
        struct wp_object *templ =
            object(WP_KIND_SANDBOX_TEMPLATE, "t", templates[t].metadata,
                   templates[t].rest);

        for (size_t c = 0; c < WP_ARRAY_LEN(claims); c++) {
            struct wp_object *claim = object(
                WP_KIND_SANDBOX_CLAIM, "c", claims[c].metadata, claims[c].rest);
            const char *reason = "untouched";
            struct wp_err err = {.msg = ""};
            json_t *made = wp_cold_sandbox(
                claim, templ, c == 0 ? WP_TIER_T1 : WP_TIER_T0, &reason, &err);

            (void)fprintf(story, "-- %s: %s\n", templates[t].what,
                          claims[c].what);
            if (made != NULL) {
                wp_story_json(story, "made", made);
            } else {
                (void)fprintf(story, "%s, %s: %s\n", reason,
                              wp_status_text(err.status), err.msg);
            }
            json_decref(made);
            wp_object_unref(claim);
        }
        wp_object_unref(templ);
    }
}

/* --- A warm one --- */

#define OWNER                                                                  \
    ",\"ownerReferences\":[{\"apiVersion\":"                                   \
    "\"extensions.agents.x-k8s.io/v1beta1\",\"kind\":\"SandboxWarmPool\","     \
    "\"name\":\"p\",\"uid\":\"pu\",\"controller\":true}]"
#define LABELS(more)                                                           \
    ",\"labels\":{\"" WP_LABEL_WARM_POOL "\":\"1\",\"" WP_LABEL_TEMPLATE_HASH  \
    "\":\"2\",\"" WP_LABEL_POD_TEMPLATE_HASH "\":\"3\",\"mine\":\"4\"" more    \
    "}"
#define OF_POD(metadata)                                                       \
    ",\"spec\":{\"podTemplate\":{\"metadata\":{" metadata "},\"spec\":{}}}"
#define EVICT(text)                                                            \
    "\"annotations\":{\"" WP_ANNOTATION_SAFE_TO_EVICT "\":\"" text             \
    "\",\"old\":\"1\"}"

static const struct {
    const char *name;
    struct text text;
} sandboxes[] = {
    {"s", {"bare", OWNER, ",\"spec\":{}"}},
    {"s",
     {"of a pool",
      OWNER LABELS(",\"" WP_LABEL_TEMPLATE_REF_HASH "\":\"12345678\""),
      OF_POD("\"labels\":{\"of\":\"old\"}," EVICT("true"))}},
    {"s",
     {"of a pool, with a short hash",
      OWNER LABELS(",\"" WP_LABEL_TEMPLATE_REF_HASH
                   "\":\"1234567\",\"" WP_LABEL_LAUNCH_TYPE "\":\"cold\""),
      OF_POD(EVICT("false"))}},
    {"s",
     {"of a pool, with a long hash",
      OWNER LABELS(",\"" WP_LABEL_TEMPLATE_REF_HASH "\":\"123456789\""),
      OF_POD("\"labels\":\"none\"")}},
    {"c",
     {"of the claim's name", "",
      OF_POD("\"labels\":{\"" TEAM "\":\"green\"}")}},
};

static const struct {
    const char *what;
    size_t templ; /* SIZE_MAX: it is not known. */
    size_t claim;
    const char *additional;
    bool brings;
} adoptions[] = {
    {"no template", SIZE_MAX, 0, NULL, false},
    {"no template, brings", SIZE_MAX, 1, NULL, true},
    {"no template, red", SIZE_MAX, 0, "{\"labels\":{\"" TEAM "\":\"red\"}}",
     false},
    {"plain", 1, 0, NULL, false},
    {"plain, brings", 1, 1, "{}", true},
    {"red", 2, 0, NULL, false},
    {"red, red", 2, 1,
     "{\"labels\":{\"" TEAM "\":\"red\"},\"annotations\":{\"x\":\"y\"}}",
     false},
    {"red, blue", 2, 0, "{\"labels\":{\"" TEAM "\":\"blue\"}}", false},
    {"note", 3, 0, "{\"annotations\":{\"n\":\"2\"}}", false},
    {"note, too", 3, 0, "{\"annotations\":{\"n\":\"1\",\"o\":\"2\"}}", false},
};

static void
tell_adoption(const struct wp_adoption *adoption,
              const struct wp_object *sandbox)
{
    struct wp_err err = {.msg = ""};
    json_t *patch = wp_adoption_patch(adoption, sandbox, &err);
    enum wp_status status;

    if (patch != NULL) {
        wp_story_json(story, "adopt", patch);
        json_decref(patch);
    } else {
        (void)fprintf(story, "adopt: %s: %s\n", wp_status_text(err.status),
                      err.msg);
    }
    if (adoption->templ == NULL) {
        return;
    }
    err = (struct wp_err){.msg = ""};
    status = wp_adoption_check(adoption->templ, adoption->additional, &err);
    (void)fprintf(story, "check: %s: %s\n", wp_status_text(status), err.msg);
    err = (struct wp_err){.msg = ""};
    status = wp_adoption_refresh(adoption, sandbox, &patch, &err);
    (void)fprintf(story, "%s: %s: ", wp_status_text(status), err.msg);
    wp_story_json(story, "refresh", patch);
    json_decref(patch);
}

static void
adopted(void)
{
    for (size_t a = 0; a < WP_ARRAY_LEN(adoptions); a++) {
        const struct text *with = &claims[adoptions[a].claim];
        struct wp_object *claim =
            object(WP_KIND_SANDBOX_CLAIM, "c", with->metadata, with->rest);
        json_t *additional = adoptions[a].additional != NULL
                                 ? parse(adoptions[a].additional)
                                 : NULL;
        struct wp_object *templ =
            adoptions[a].templ == SIZE_MAX
                ? NULL
                : object(WP_KIND_SANDBOX_TEMPLATE, "t", "",
                         templates[adoptions[a].templ].rest);
        const struct wp_adoption adoption = {claim, additional, templ,
                                             adoptions[a].brings};

        for (size_t s = 0; s < WP_ARRAY_LEN(sandboxes); s++) {
            struct wp_object *sandbox =
                object(WP_KIND_SANDBOX, sandboxes[s].name,
                       sandboxes[s].text.metadata, sandboxes[s].text.rest);

            (void)fprintf(story, "-- %s: %s\n", adoptions[a].what,
                          sandboxes[s].text.what);
            tell_adoption(&adoption, sandbox);
            wp_object_unref(sandbox);
        }
        json_decref(additional);
        wp_object_unref(templ);
        wp_object_unref(claim);
    }
}

/* Nothing is to be refreshed in what was refreshed. */
static void
adopted_and_refreshed(void)
{
    struct wp_object *claim =
        object(WP_KIND_SANDBOX_CLAIM, "c", claims[1].metadata, claims[1].rest);
    struct wp_object *templ =
        object(WP_KIND_SANDBOX_TEMPLATE, "t", "", templates[2].rest);
    const struct wp_adoption adoption = {claim, NULL, templ, true};
    struct wp_object *sandbox =
        object(WP_KIND_SANDBOX, "s", sandboxes[0].text.metadata,
               sandboxes[0].text.rest);
    json_t *whole = wp_object_json(sandbox);
    struct wp_err err;
    json_t *patch;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(wp_adoption_refresh(&adoption, sandbox, &patch, &err),
                         WP_OK);
        wp_story_json(story, "refresh", patch);
        if (patch != NULL) {
            (void)json_object_update_recursive(whole, patch);
            json_decref(patch);
            wp_object_unref(sandbox);
            sandbox = wp_object_create(WP_KIND_SANDBOX, whole, &err);
            assert_non_null(sandbox);
        }
    }
    json_decref(whole);
    wp_object_unref(sandbox);
    wp_object_unref(templ);
    wp_object_unref(claim);
}

/* --- Metadata --- */

static void
merged(void)
{
    static const char *const have[] = {
        "{}", "{\"labels\":{\"a\":\"1\"}}",
        "{\"labels\":{\"a\":\"1\"},\"annotations\":{\"a\":\"2\"}}"};
    static const char *const adds[] = {
        "{}",
        "{\"labels\":{},\"annotations\":{}}",
        "{\"labels\":{\"a\":\"1\",\"b\":\"2\"}}",
        "{\"annotations\":{\"a\":\"1\"}}",
        "{\"labels\":{\"b\":\"3\"},\"annotations\":{\"a\":\"2\",\"c\":\"4\"}}",
        "{\"labels\":{\"a\":\"2\"},\"annotations\":{\"a\":\"3\"}}",
    };

    for (size_t h = 0; h < WP_ARRAY_LEN(have); h++) {
        for (size_t a = 0; a < WP_ARRAY_LEN(adds); a++) {
            json_t *metadata = parse(have[h]);
            json_t *additional = parse(adds[a]);
            struct wp_err err = {.msg = ""};
            enum wp_status status =
                wp_claim_metadata_merge(metadata, additional, &err);

            (void)fprintf(story, "%s: %s: ", wp_status_text(status), err.msg);
            wp_story_json(story, "merged", metadata);
            json_decref(metadata);
            json_decref(additional);
        }
    }
}

/* --- Its status --- */

#define CONDITION(type, status, reason)                                        \
    "{\"type\":\"" type "\",\"status\":\"" status "\",\"reason\":\"" reason    \
    "\",\"message\":\"m\",\"observedGeneration\":9,\"lastTransitionTime\":"    \
    "\"2026-02-02T00:00:00Z\"}"
#define STATUS(sandbox, conditions)                                            \
    ",\"spec\":{\"warmPoolRef\":{\"name\":\"p\"}},\"status\":{" sandbox        \
    "\"conditions\":[" conditions "]}"

static const char *const claims_before[] = {
    ",\"spec\":{\"warmPoolRef\":{\"name\":\"p\"}}",
    ",\"spec\":{\"warmPoolRef\":{\"name\":\"p\"}},\"status\":{\"conditions\":"
    "null}",
    STATUS("\"sandbox\":{\"name\":\"s\",\"podIPs\":[\"1.1.1.1\"],"
           "\"serviceFQDN\":\"f\"},",
           CONDITION("Ready", "True", "R") "," CONDITION("X", "True", "X")),
    STATUS("\"sandbox\":{\"name\":\"s\",\"podIPs\":[\"1.1.1.1\",\"::1\"]},",
           CONDITION("Finished", "True", "R") "," CONDITION("Ready", "False",
                                                            "R")),
    STATUS("\"sandbox\":{\"name\":\"other\"},", ""),
};

static const char *const sandboxes_now[] = {
    NULL,
    "",
    ",\"status\":{\"podIPs\":[\"1.1.1.1\"],\"serviceFQDN\":\"f\","
    "\"conditions\":[" CONDITION("Ready", "True", "R") "]}",
    ",\"status\":{\"podIPs\":[\"1.1.1.1\",\"::1\"],\"conditions\":[" CONDITION(
        "Ready", "False", "R") "," CONDITION("Finished", "True", "F") "]}",
    ",\"status\":{\"podIPs\":[\"::1\",\"1.1.1.1\"],\"conditions\":["
    "{\"type\":\"Ready\",\"status\":\"Unknown\",\"reason\":\"U\"},"
    "{\"type\":\"Finished\",\"status\":\"False\",\"reason\":\"G\"}]}",
    ",\"status\":{\"conditions\":[" CONDITION("Ready", "False",
                                              "SandboxExpired") "]}",
};

static const struct wp_claim_outcome outcomes[] = {
    {.expired = false},
    {.expired = true},
    {.reason = "Because", .message = "so it is"},
    {.reason = "Because", .message = "so it is", .forget_sandbox = true},
    {.no_service_fqdn = true},
};

static void
told_status(void)
{
    const int64_t now_ns = INT64_C(1767225600) * WP_NS_PER_S;

    for (size_t c = 0; c < WP_ARRAY_LEN(claims_before); c++) {
        struct wp_object *claim =
            object(WP_KIND_SANDBOX_CLAIM, "c", "", claims_before[c]);

        for (size_t s = 0; s < WP_ARRAY_LEN(sandboxes_now); s++) {
            struct wp_object *sandbox =
                sandboxes_now[s] == NULL
                    ? NULL
                    : object(WP_KIND_SANDBOX, "s", "", sandboxes_now[s]);

            for (size_t o = 0; o < WP_ARRAY_LEN(outcomes); o++) {
                struct wp_claim_outcome outcome = outcomes[o];
                json_t *patch;

                outcome.sandbox = sandbox;
                patch = wp_claim_status_patch(claim, &outcome, now_ns);
                (void)fprintf(story, "claim %zu sandbox %zu outcome %zu%s", c,
                              s, o,
                              wp_claim_status_ready(&outcome) ? ", ready" : "");
                wp_story_json(story, ":", patch);
                json_decref(patch);
            }
            wp_object_unref(sandbox);
        }
        wp_object_unref(claim);
    }
}

static void
all_of_it_is_made_as_it_is_told(void **state)
{
    static const struct wp_story_life lives[] = {
        {"cold", cold},
        {"adopted", adopted},
        {"adopted and refreshed", adopted_and_refreshed},
        {"merged", merged},
        {"status", told_status},
    };

    (void)state;
    wp_story_tell(&story, lives, WP_ARRAY_LEN(lives), WP_TEST_STORY);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_is_made_as_it_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
