/* Each look at a template, and each answer to what is asked about its Pods:
 * what is written, told, known and looked at again, compared whole with
 * files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/controllers/template/checker.h"
#include "k8s/controllers/verdicts.h"
#include "k8s/objects/names.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"
#include "tests/support/k8s/lone_rig.h"

#define GOING ",'deletionTimestamp':'2026-01-01T00:00:00Z'"
#define LABEL ",'labels':{'" WP_LABEL_TEMPLATE_REF_HASH "':'f10c3da3'}"
#define TEMPLATE(version, generation, metadata, spec)                          \
    "{'metadata':{'namespace':'n','name':'t','uid':'ut','resourceVersion':"    \
    "'" version "','generation':" generation metadata "},'spec':{" spec "}}"
#define POLICY(metadata, spec)                                                 \
    "{'metadata':{'namespace':'n','name':'t-network-policy','uid':'unp',"      \
    "'resourceVersion':'5'" metadata "},'spec':{" spec "}}"
#define OWNER(kind, name, uid)                                                 \
    ",'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s.io/v1beta1',"  \
    "'kind':'" kind "','name':'" name "','uid':'" uid "','controller':true}]"
#define OWNED OWNER("SandboxTemplate", "t", "ut")
#define POD "'podTemplate':{'spec':{'containers':[{'name':'c','image':'i'}]}}"
#define NONE "'networkPolicyManagement':'Unmanaged'"
#define RULES "'networkPolicy':{'ingress':[{'from':[]}],'egress':[]}"

static struct lone_rig rig;
static struct heard heard;
static void *controller;
static struct wp_template_checker *checker;

static void
hear(void)
{
    heard_begin(&heard);
}

static void
heard_it(void)
{
    const char *log = heard_end(&heard);

    if (log[0] != '\0') {
        journal("  log %s", log);
        journal_line();
    }
}

static void
put(enum wp_kind kind, const char *text)
{
    if (text != NULL) {
        journal_mute(true);
        lone_put(&rig, kind, text);
        journal_mute(false);
    }
}

/* --- The controller --- */

static void
begin(void)
{
    struct wp_err err;

    journal_mute(true);
    lone_rig_init(&rig);
    controller = wp_template_controller_ops.create(&rig.parts, &err);
    assert_non_null(controller);
    journal_mute(false);
}

static void
end(void)
{
    journal_mute(true);
    while (lone_open() > 0) {
        lone_ends(WP_CANCELLED);
    }
    wp_template_controller_ops.destroy(controller);
    lone_rig_fini(&rig);
    journal_mute(false);
}

static void
each_policy(void **state)
{
    static const struct {
        const char *what;
        const char *template_;
        const char *policy;
        bool gc;
    } rows[] = {
        {"none", TEMPLATE("1", "1", LABEL, POD), NULL, false},
        {"none, without a label", TEMPLATE("1", "1", "", POD), NULL, false},
        {"none, with another label",
         TEMPLATE("1", "1",
                  ",'labels':{'" WP_LABEL_TEMPLATE_REF_HASH "':'f10c3da'}",
                  POD),
         NULL, false},
        {"none, with rules of its own",
         TEMPLATE("1", "1", LABEL, POD "," RULES), NULL, false},
        {"none, unmanaged", TEMPLATE("1", "1", LABEL, POD "," NONE), NULL,
         false},
        {"ours, unmanaged", TEMPLATE("1", "1", LABEL, POD "," NONE),
         POLICY(OWNED, ""), false},
        {"ours, which goes, unmanaged", TEMPLATE("1", "1", LABEL, POD "," NONE),
         POLICY(OWNED GOING, ""), false},
        {"another's, unmanaged", TEMPLATE("1", "1", LABEL, POD "," NONE),
         POLICY("", ""), false},
        {"ours, changed", TEMPLATE("1", "1", LABEL, POD "," RULES),
         POLICY(OWNED, "'podSelector':{}"), false},
        {"ours, as it is to be", TEMPLATE("1", "1", LABEL, POD "," RULES),
         POLICY(OWNED, "'podSelector':{'matchLabels':{'" //
                WP_LABEL_TEMPLATE_REF_HASH
                       "':'f10c3da3'}},'policyTypes':['Ingress','Egress'],"
                       "'ingress':[{'from':[]}]"),
         false},
        {"ours, which goes", TEMPLATE("1", "1", LABEL, POD),
         POLICY(OWNED GOING, ""), false},
        {"nobody's", TEMPLATE("1", "1", LABEL, POD), POLICY("", ""), false},
        {"another template's", TEMPLATE("1", "1", LABEL, POD),
         POLICY(OWNER("SandboxTemplate", "t", "before"), ""), false},
        {"a claim's of the name", TEMPLATE("1", "1", "", POD),
         POLICY(OWNER("SandboxClaim", "t", "uc"), ""), false},
        {"a claim's of the name, which goes", TEMPLATE("1", "1", "", POD),
         POLICY(OWNER("SandboxClaim", "t", "uc") GOING, ""), false},
        {"a claim's of another name", TEMPLATE("1", "1", LABEL, POD),
         POLICY(OWNER("SandboxClaim", "c", "uc"), ""), false},
        {"a template that goes", TEMPLATE("1", "1", GOING, POD), NULL, false},
        {"a template that goes, with gc", TEMPLATE("1", "1", GOING, POD),
         POLICY(OWNED, ""), true},
        {"no template", NULL, POLICY(OWNED, ""), false},
        {"no template, with gc", NULL, POLICY(OWNED, ""), true},
        {"no template, with gc, going", NULL, POLICY(OWNED GOING, ""), true},
        {"no template, with gc, nobody's", NULL, POLICY("", ""), true},
        {"no template, no policy, with gc", NULL, NULL, true},
        {"weaker than its tier",
         TEMPLATE("1", "1", LABEL ",'annotations':{'" WP_TIER_KEY "':'T1'}",
                  "'podTemplate':{'spec':{'hostNetwork':true,'containers':[{"
                  "'name':'c','image':'i','securityContext':{"
                  "'privileged':true}}]}}," NONE),
         NULL, false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        begin();
        rig.parts.config.gc = rows[i].gc;
        put(WP_KIND_SANDBOX_TEMPLATE, rows[i].template_);
        put(WP_KIND_NETWORK_POLICY, rows[i].policy);
        journal("# %s", rows[i].what);
        journal_line();
        hear();
        lone_look("n", "t");
        heard_it();
        if (i + 1 == WP_ARRAY_LEN(rows)) {
            lone_say(" again");
            hear();
            lone_look("n", "t");
            heard_it();
        }
        end();
    }
    journal_compare(WP_TEST_FOLDER "/k8s_template_looks_policy.txt");
}

/* The longest name of a template, and one more; and what policies of such names
 * lead to. */
static void
long_names(void **state)
{
    (void)state;
    begin();
    for (int len = 252; len < 256; len++) {
        char name[256];
        char text[1024];

        memset(name, 't', (size_t)len);
        name[len] = '\0';
        (void)snprintf(text, sizeof text,
                       "{'metadata':{'namespace':'n','name':'%s','uid':'u%d'"
                       "},'spec':{" NONE "}}",
                       name, len);
        journal("# %d", len);
        journal_line();
        if (len < 254) {
            put(WP_KIND_SANDBOX_TEMPLATE, text);
        }
        hear();
        lone_look("n", name);
        heard_it();
        while (lone_open() > 0) {
            lone_ends(WP_OK);
        }
        (void)snprintf(text, sizeof text,
                       "{'metadata':{'namespace':'n','name':"
                       "'%s-network-policy','uid':'p%d'},'spec':{}}",
                       name, len);
        lone_put(&rig, WP_KIND_NETWORK_POLICY, text);
    }
    end();
    journal_compare(WP_TEST_FOLDER "/k8s_template_looks_long.txt");
}

/* --- The checker --- */

static void
begin_checker(void)
{
    lone_rig_init(&rig);
    rig.parts.verdicts = wp_verdicts_create();
    assert_non_null(rig.parts.verdicts);
    checker = wp_template_checker_create(&rig.parts);
    assert_non_null(checker);
}

static void
end_checker(void)
{
    wp_template_checker_destroy(checker);
    wp_verdicts_destroy(rig.parts.verdicts);
    lone_rig_fini(&rig);
}

static const struct wp_object *
template_of(void)
{
    return wp_store_find(rig.parts.stores[WP_KIND_SANDBOX_TEMPLATE], "n", "t");
}

static void
knows(void)
{
    const char *words = wp_verdicts_refusal(rig.parts.verdicts, template_of());

    journal("  knows %d, refused: %s",
            wp_verdicts_have(rig.parts.verdicts, template_of()),
            words != NULL ? words : "-");
    journal_line();
}

#define UNKNOWN                                                                \
    "Pod in version \"v1\" cannot be handled as a Pod: strict decoding "       \
    "error: unknown field \"spec.containers[0].imagee\""

enum answer {
    TAKEN,
    LEFT_OUT,
    REFUSED,
    NOT_ALLOWED,
    UNANSWERED,
    CANCELLED,
    LEAVES,
};

static void
answer(enum answer what)
{
    static const struct wp_api_result results[] = {
        [TAKEN] = {.status = WP_OK, .code = 201},
        [LEFT_OUT] = {.status = WP_INVALID_ARGUMENT,
                      .code = 400,
                      .message = UNKNOWN},
        [REFUSED] = {.status = WP_INVALID_ARGUMENT,
                     .code = 400,
                     .message = "Pod in version \"v1\" cannot be handled as a "
                                "Pod: json: cannot unmarshal string"},
        [NOT_ALLOWED] = {.status = WP_PERMISSION_DENIED,
                         .code = 403,
                         .message = "exceeded quota: q"},
        [UNANSWERED] = {.status = WP_UNAVAILABLE, .message = "no luck"},
        [CANCELLED] = {.status = WP_CANCELLED},
        [LEAVES] = {.status = WP_PERMISSION_DENIED,
                    .code = 403,
                    .namespace_leaves = true},
    };

    hear();
    lone_answer(&results[what], NULL);
    heard_it();
}

static void
look_and(enum answer first)
{
    lone_look("n", "t");
    answer(first);
    knows();
}

/* What is known of it before: nothing, that it is taken, or refused. */
static void
each_answer(void **state)
{
    static const char *const befores[] = {"nothing", "taken", "refused"};

    (void)state;
    for (size_t b = 0; b < WP_ARRAY_LEN(befores); b++) {
        for (int what = TAKEN; what <= LEAVES; what++) {
            for (int then = TAKEN; then <= LEAVES; then++) {
                if (what != LEFT_OUT && then != TAKEN) {
                    continue;
                }
                journal("# %s was known; answers %d, %d", befores[b], what,
                        then);
                journal_line();
                journal_mute(true);
                begin_checker();
                lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE,
                         TEMPLATE("1", "1", "", POD));
                if (b > 0) {
                    (void)wp_verdicts_set(rig.parts.verdicts, template_of(),
                                          b == 1 ? NULL : "before");
                }
                lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE,
                         TEMPLATE("2", "2", "", POD));
                lone_look("n", "t");
                journal_mute(false);
                answer((enum answer)what);
                if (what == LEFT_OUT) {
                    answer((enum answer)then);
                }
                knows();
                journal_mute(true);
                end_checker();
                journal_mute(false);
            }
        }
    }
    journal_compare(WP_TEST_FOLDER "/k8s_template_looks_answers.txt");
}

/* One that was refused is asked about again after five minutes, one that was
 * taken never. */
static void
when_it_is_asked_again(void **state)
{
    (void)state;
    begin_checker();
    lone_say("# no template, one that goes");
    lone_look("n", "t");
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("1", "1", GOING, POD));
    lone_look("n", "t");
    lone_say("# refused");
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("2", "1", "", POD));
    wp_template_checker_look(checker, template_of());
    look_and(REFUSED);
    wp_template_checker_look(checker, template_of());
    lone_look("n", "t");
    wp_clock_manual_advance(&rig.clock, 300 * WP_NS_PER_S - 1);
    lone_look("n", "t");
    wp_clock_manual_advance(&rig.clock, 1);
    look_and(REFUSED);
    wp_clock_manual_advance(&rig.clock, 300 * WP_NS_PER_S);
    look_and(TAKEN);
    lone_say("# taken");
    wp_clock_manual_advance(&rig.clock, 3000 * WP_NS_PER_S);
    lone_look("n", "t");
    lone_say("# changed");
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("3", "2", "", POD));
    wp_template_checker_look(checker, template_of());
    lone_look("n", "t");
    answer(LEFT_OUT);
    answer(TAKEN);
    knows();
    lone_say("# forgotten");
    wp_template_checker_forget(checker, template_of());
    knows();
    lone_look("n", "t");
    answer(LEFT_OUT);
    answer(TAKEN);
    lone_say("# refused, forgotten, and refused anew");
    wp_template_checker_forget(checker, template_of());
    look_and(REFUSED);
    wp_template_checker_forget(checker, template_of());
    knows();
    look_and(REFUSED);
    wp_template_checker_pause(checker, false);
    wp_template_checker_pause(checker, true);
    end_checker();
    journal_compare(WP_TEST_FOLDER "/k8s_template_looks_again.txt");
}

/* A template without a Pod is refused unasked. */
static void
no_pod(void **state)
{
    (void)state;
    begin_checker();
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("1", "1", "", ""));
    hear();
    lone_look("n", "t");
    heard_it();
    while (lone_open() > 0) {
        lone_ends(WP_CANCELLED);
    }
    knows();
    end_checker();
    journal_compare(WP_TEST_FOLDER "/k8s_template_looks_no_pod.txt");
}

/* A verdict is of one generation; who listens hears of what changes. */
static void
on_verdict(void *ctx, const struct wp_object *template_)
{
    journal("  %s hears of %s", (const char *)ctx, template_->name);
    journal_line();
}

static void
verdicts_are_told(void **state)
{
    static char first[] = "one";
    static char second[] = "the other";
    static const char *const words[] = {NULL, "a",  "a", "b",
                                        NULL, NULL, "c", "c\xff"};
    struct wp_verdicts *verdicts;

    (void)state;
    lone_rig_init(&rig);
    verdicts = rig.parts.verdicts = wp_verdicts_create();
    assert_non_null(verdicts);
    assert_null(wp_verdicts_refusal(NULL, NULL));
    wp_verdicts_listen(verdicts, on_verdict, first);
    wp_verdicts_listen(verdicts, on_verdict, second);
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("1", "1", "", POD));
    knows();
    for (size_t i = 0; i < WP_ARRAY_LEN(words); i++) {
        journal(" set %s: %d", words[i] != NULL ? words[i] : "none",
                wp_verdicts_set(verdicts, template_of(), words[i]));
        journal_line();
        knows();
    }
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("2", "2", "", POD));
    knows();
    lone_say(" forget");
    wp_verdicts_forget(verdicts, template_of());
    knows();
    lone_say(" forget");
    wp_verdicts_forget(verdicts, template_of());
    wp_verdicts_destroy(verdicts);
    wp_verdicts_destroy(NULL);
    lone_rig_fini(&rig);
    journal_compare(WP_TEST_FOLDER "/k8s_template_looks_verdicts.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_policy), cmocka_unit_test(long_names),
        cmocka_unit_test(each_answer), cmocka_unit_test(when_it_is_asked_again),
        cmocka_unit_test(no_pod),      cmocka_unit_test(verdicts_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
