/* Sandboxes that only show another one: what of a claim and its Sandbox leads
 * to a look, what each look writes, and what becomes of each answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/controllers/alias/alias.h"
#include "k8s/convert/convert.h"
#include "tests/support/base/journal.h"
#include "tests/support/k8s/lone_rig.h"

#define META(name, version, more)                                              \
    "{'metadata':{'namespace':'n','name':'" name "','uid':'u-" name            \
    "','resourceVersion':'" version "','generation':1" more "}"
#define ALPHA ",'annotations':{'" WP_ANNOTATION_ALPHA_CLAIM "':'{}'}"
#define SESSION ",'labels':{'kagent.dev/session-id':'1'}"
#define GOING ",'deletionTimestamp':'2026-01-01T00:00:00Z'"
#define SHOWS(sandbox) ",'status':{'sandbox':{'name':'" sandbox "'}}}"
#define OF_UID(uid)                                                            \
    ",'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s.io/v1beta1',"  \
    "'kind':'SandboxClaim','name':'c','uid':'" uid "','controller':true}]"
#define OF_C OF_UID("u-c")
#define SERVED ",'spec':{'service':true}"
#define ALIAS(uid) ",'labels':{'warmpool.dev/alias':'" uid "'}"

static struct lone_rig rig;
static struct wp_counter writes;
static struct wp_claim_aliases *aliases;

static void
begin(void)
{
    lone_rig_init(&rig);
    aliases = wp_claim_aliases_create(&rig.parts, &writes);
    assert_non_null(aliases);
}

static void
end(void)
{
    wp_claim_aliases_destroy(aliases);
    lone_rig_fini(&rig);
}

static void
what_leads_to_a_look(void **state)
{
    (void)state;
    begin();
    lone_put(&rig, WP_KIND_SANDBOX_CLAIM, META("plain", "1", "") "}");
    lone_put(&rig, WP_KIND_SANDBOX_CLAIM, META("c", "1", ALPHA) "}");
    lone_say("# nothing that shows has changed");
    lone_put(&rig, WP_KIND_SANDBOX_CLAIM, META("c", "2", ALPHA) "}");
    lone_say("# it has a Sandbox");
    lone_put(&rig, WP_KIND_SANDBOX_CLAIM, META("c", "3", ALPHA) SHOWS("s"));
    lone_put(&rig, WP_KIND_SANDBOX_CLAIM, META("d", "1", SESSION) SHOWS("x"));
    lone_say("# Sandboxes of theirs and of others");
    lone_put(&rig, WP_KIND_SANDBOX, META("s", "1", OF_C) "}");
    lone_put(&rig, WP_KIND_SANDBOX, META("s", "2", OF_C) "}");
    lone_put(&rig, WP_KIND_SANDBOX, META("alone", "1", "") "}");
    lone_put(&rig, WP_KIND_SANDBOX,
             META("p", "1",
                  ",'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s."
                  "io/v1beta1','kind':'SandboxWarmPool','name':'c','uid':'u-c'"
                  ",'controller':true}]") "}");
    lone_put(&rig, WP_KIND_SANDBOX,
             META("g", "1",
                  ",'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s."
                  "io/v1beta1','kind':'SandboxClaim','name':'gone','uid':'u'"
                  ",'controller':true}]") "}");
    lone_put(&rig, WP_KIND_SANDBOX,
             META("q", "1",
                  ",'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s."
                  "io/v1beta1','kind':'SandboxClaim','name':'plain','uid':'u-"
                  "plain','controller':true}]") "}");
    lone_say("# aliases");
    lone_put(&rig, WP_KIND_ALIAS, META("c", "1", ALIAS("u-c")) "}");
    lone_put(&rig, WP_KIND_ALIAS, META("old", "1", ALIAS("u-old")) "}");
    lone_say("# all of them");
    wp_claim_aliases_activate(aliases);
    wp_claim_aliases_deactivate(aliases);
    lone_say("# the claim goes, and all else");
    lone_put(&rig, WP_KIND_SANDBOX_CLAIM,
             META("c", "4", ALPHA GOING) SHOWS("s"));
    lone_put(&rig, WP_KIND_SANDBOX_CLAIM,
             META("c", "5", ALPHA GOING) SHOWS("s"));
    lone_remove(&rig, WP_KIND_SANDBOX, META("s", "2", OF_C) "}");
    lone_remove(&rig, WP_KIND_ALIAS, META("c", "1", ALIAS("u-c")) "}");
    lone_remove(&rig, WP_KIND_SANDBOX_CLAIM,
                META("c", "5", ALPHA GOING) SHOWS("s"));
    lone_say("# another replica leads");
    rig.parts.active = false;
    lone_put(&rig, WP_KIND_SANDBOX_CLAIM, META("c", "6", ALPHA) SHOWS("s"));
    lone_put(&rig, WP_KIND_SANDBOX, META("s", "3", OF_C) "}");
    lone_put(&rig, WP_KIND_ALIAS, META("c", "2", ALIAS("u-c")) "}");
    end();
    journal_compare(WP_TEST_FOLDER "/k8s_alias_wakes.txt");
}

/* --- One look --- */

struct look {
    const char *what;
    const char *claim;   /* NULL: none. */
    const char *sandbox; /* The same. */
    const char *alias;
    bool passive; /* Another replica leads. */
};

#define STATUS                                                                 \
    ",'status':{'conditions':[{'type':'Ready','status':'True','reason':'r',"   \
    "'message':'','lastTransitionTime':'2026-01-01T00:00:00Z'}],"              \
    "'podIPs':['1.2.3.4'],'nodeName':'node','service':'s',"                    \
    "'serviceFQDN':'s.n.svc','other':1}}"

static const char claim_of_s[] = META("c", "1", ALPHA) SHOWS("s");
static const char sandbox_s[] = META("s", "1", OF_C) SERVED STATUS;
static const char alias_c[] = META("c", "1", ALIAS("u-c")) "}";

static const struct look looks[] = {
    {"nothing is there", NULL, NULL, NULL, false},
    {"a claim that asks for none", META("c", "1", "") SHOWS("s"), sandbox_s,
     NULL, false},
    {"a claim without a Sandbox", META("c", "1", ALPHA) "}", sandbox_s, NULL,
     false},
    {"a claim whose Sandbox is not there", claim_of_s, NULL, NULL, false},
    {"a claim that goes", META("c", "1", ALPHA GOING) SHOWS("s"), sandbox_s,
     NULL, false},
    {"a Sandbox that goes", claim_of_s, META("s", "1", OF_C GOING) SERVED "}",
     NULL, false},
    {"a Sandbox of another claim", claim_of_s,
     META("s", "1", OF_UID("other")) SERVED "}", NULL, false},
    {"a Sandbox of nobody", claim_of_s, META("s", "1", "") SERVED "}", NULL,
     false},
    {"a Sandbox that does not say whether it has a Service", claim_of_s,
     META("s", "1", OF_C) "}", NULL, false},
    {"a Sandbox without a Service", META("c", "1", SESSION) SHOWS("s"),
     META("s", "1", OF_C) ",'spec':{'service':false}}", NULL, false},
    {"one of the claim's own name without a Service",
     META("c", "1", ALPHA) SHOWS("c"), META("c", "1", OF_C) "}", NULL, false},
    {"one of the claim's own name", META("c", "1", ALPHA) SHOWS("c"),
     META("c", "1", OF_C) SERVED "}", NULL, false},
    {"one of the claim's own name, with an alias",
     META("c", "1", ALPHA) SHOWS("c"), META("c", "1", OF_C) SERVED "}", alias_c,
     false},
    {"a Sandbox of another name", claim_of_s, sandbox_s, NULL, false},
    {"a Sandbox with a Pod of another name", claim_of_s,
     META("s", "1", OF_C ",'annotations':{'agents.x-k8s.io/pod-name':'pod'}")
         SERVED STATUS,
     NULL, false},
    {"an alias that says nothing yet", claim_of_s, sandbox_s, alias_c, false},
    {"an alias that says it", claim_of_s, sandbox_s,
     META("c", "1", ALIAS("u-c")) STATUS, false},
    {"an alias that says too much", claim_of_s,
     META("s", "1", OF_C) SERVED ",'status':{'nodeName':'there','phase':1}}",
     META("c", "1", ALIAS("u-c")) STATUS, false},
    {"an alias that says what nobody copies", claim_of_s,
     META("s", "1", OF_C) SERVED "}",
     META("c", "1", ALIAS("u-c")) ",'status':{'other':1}}", false},
    {"an alias of another claim of the name", claim_of_s, sandbox_s,
     META("c", "7", ALIAS("u-before")) "}", false},
    {"an alias without a claim", NULL, NULL, alias_c, false},
    {"an alias without a Sandbox", claim_of_s, NULL, alias_c, false},
    {"an alias without a label", claim_of_s, sandbox_s, META("c", "1", "") "}",
     false},
    {"an alias that goes", NULL, NULL, META("c", "1", ALIAS("u-c") GOING) "}",
     false},
    {"another replica leads", claim_of_s, sandbox_s, NULL, true},
};

static void
put(enum wp_kind kind, const char *text)
{
    if (text != NULL) {
        lone_put(&rig, kind, text);
    }
}

/* What the row says is there; nobody hears of how it came. */
static void
prepare(const struct look *row)
{
    journal_mute(true);
    begin();
    rig.parts.active = !row->passive;
    put(WP_KIND_SANDBOX_CLAIM, row->claim);
    put(WP_KIND_SANDBOX, row->sandbox);
    put(WP_KIND_ALIAS, row->alias);
    journal_mute(false);
    journal("# %s", row->what);
    journal_line();
}

/* Every call is counted, and is one at most. */
static void
what_each_look_writes(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(looks); i++) {
        const char *said = journal_text() + strlen(journal_text());
        uint64_t before = wp_counter_read(&writes);
        bool called;

        prepare(&looks[i]);
        lone_look("n", "c");
        called = strstr(said, " priority ") != NULL;
        assert_int_equal(wp_counter_read(&writes) - before, called ? 1 : 0);
        journal_mute(true);
        if (called) {
            lone_ends(WP_CANCELLED);
        }
        end();
        journal_mute(false);
    }
    journal_compare(WP_TEST_FOLDER "/k8s_alias_looks.txt");
}

/* --- Its answers --- */

static const struct answer {
    const char *what;
    struct wp_api_result result;
    const char *object;
} answers[] = {
    {"done", {.status = WP_OK, .retry_after_ns = -1}, NULL},
    {"done, with what is there now",
     {.status = WP_OK, .retry_after_ns = -1},
     META("c", "20", ALIAS("u-c")) STATUS},
    {"done, with something that is no alias",
     {.status = WP_OK, .retry_after_ns = -1},
     META("c", "20", "") STATUS},
    {"done, with something that makes no sense",
     {.status = WP_OK, .retry_after_ns = -1},
     "{}"},
    {"gone", {.status = WP_NOT_FOUND, .retry_after_ns = -1}, NULL},
    {"the client ends", {.status = WP_CANCELLED, .retry_after_ns = -1}, NULL},
    {"its namespace goes",
     {.status = WP_PERMISSION_DENIED,
      .retry_after_ns = 5,
      .namespace_leaves = true},
     NULL},
    {"refused, with an object",
     {.status = WP_PERMISSION_DENIED, .retry_after_ns = -1},
     META("c", "20", ALIAS("u-c")) STATUS},
    {"it is too much",
     {.status = WP_RESOURCE_EXHAUSTED, .retry_after_ns = 7},
     NULL},
    {"it is too much now",
     {.status = WP_RESOURCE_EXHAUSTED, .retry_after_ns = 0},
     NULL},
    {"it is too much for a nanosecond",
     {.status = WP_RESOURCE_EXHAUSTED, .retry_after_ns = 1},
     NULL},
    {"changed meanwhile", {.status = WP_ABORTED, .retry_after_ns = -1}, NULL},
};

/* Of a call that makes one, one that asks for a Service (of a Sandbox: it need
 * have no label), one that tells, and one that removes. */
static void
what_becomes_of_each_answer(void **state)
{
    static const struct look calls[] = {
        {"it is made", claim_of_s, sandbox_s, NULL, false},
        {"a Service is asked for", META("c", "1", ALPHA) SHOWS("c"),
         META("c", "1", OF_C) "}", NULL, false},
        {"it is told", claim_of_s, sandbox_s, alias_c, false},
        {"it is removed", NULL, NULL, alias_c, false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        for (size_t k = 0; k < WP_ARRAY_LEN(answers); k++) {
            prepare(&calls[i]);
            journal_mute(true);
            lone_look("n", "c");
            journal_mute(false);
            journal(" %s", answers[k].what);
            journal_line();
            lone_answer(&answers[k].result, answers[k].object);
            for (size_t n = 0; n < 2; n++) {
                enum wp_kind kind = n == 0 ? WP_KIND_ALIAS : WP_KIND_SANDBOX;
                const struct wp_object *object =
                    wp_store_find(rig.parts.stores[kind], "n", "c");

                journal("  %s: %s", n == 0 ? "alias" : "sandbox",
                        object != NULL ? object->resource_version : "none");
                journal_line();
            }
            journal_mute(true);
            end();
            journal_mute(false);
        }
    }
    journal_compare(WP_TEST_FOLDER "/k8s_alias_answers.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_leads_to_a_look),
        cmocka_unit_test(what_each_look_writes),
        cmocka_unit_test(what_becomes_of_each_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
