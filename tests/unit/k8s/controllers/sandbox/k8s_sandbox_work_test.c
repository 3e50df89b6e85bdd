/* When the sandbox controller looks again at what: its calls, what it learns
 * and what it says to its queue, for each call that goes wrong in each way, are
 * compared whole with k8s_sandbox_work.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/objects/json.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"
#include "tests/support/k8s/sandbox_journal.h"
#include "tests/support/k8s/sandbox_rig.h"

#define NAMED "'annotations':{'agents.x-k8s.io/pod-name':'s'}"
#define ALL "'service':true,'volumeClaimTemplates':[{'metadata':{'name':'d'}}]"

static struct sandbox_rig rig;
static struct heard heard;

/* --- What the test does --- */

static void
say(const char *what)
{
    journal("%s", what);
    journal_line();
}

/* Its events are not what this is about. */
static void
begin(void)
{
    sandbox_rig_init(&rig, false);
    heard_begin(&heard);
}

static void
end(void)
{
    const char *log = heard_end(&heard);

    if (log[0] != '\0') {
        journal("  log %s", log);
        journal_line();
    }
    say("end");
    sandbox_rig_fini(&rig);
}

static void
pass(int64_t ms)
{
    journal(" after %lld ms", (long long)ms);
    journal_line();
    sandbox_rig_pass(&rig, ms);
}

static void
shows(void)
{
    journal("  = %s: %s", sandbox_rig_condition(&rig, "Ready"),
            sandbox_rig_message(&rig, "Ready"));
    journal_line();
}

/* --- The stories --- */

/* From the first look to a Pod that runs. */
static void
brings_up(void)
{
    sandbox_rig_sandbox(&rig, NAMED, ALL);
    shows();
    pass(20);
    pass(3000);
    shows();
    if (sandbox_rig_object(&rig, WP_KIND_POD, "s") != NULL) {
        say(" the Pod runs");
        sandbox_rig_pod_ready(&rig, "s");
    }
    pass(1000);
    pass(10000);
    shows();
}

static void
suspends(void)
{
    say(" suspended");
    sandbox_rig_merge(&rig, WP_KIND_SANDBOX, "s",
                      "{'spec':{'operatingMode':'Suspended'}}");
    pass(1000);
    pass(10000);
    shows();
}

static void
fails(enum wp_verb verb, enum wp_kind kind, enum wp_status status, bool effect)
{
    static const char *const verbs[] = {"GET", "LIST",  "CHECK", "POST",
                                        "PUT", "PATCH", "DELETE"};

    journal("# %s %s is answered %s%s", verbs[verb], wp_kind_info(kind)->kind,
            wp_status_name(status), effect ? ", and done" : "");
    journal_line();
    begin();
    wp_recorder_plan(rig.api, &(struct wp_recorder_fault){.verb = verb,
                                                          .kind = kind,
                                                          .status = status,
                                                          .message = "no luck",
                                                          .effect = effect});
    brings_up();
    suspends();
    end();
}

static void
each_call_fails(void **state)
{
    static const struct {
        enum wp_verb verb;
        enum wp_kind kind;
    } calls[] = {
        {WP_VERB_POST, WP_KIND_VOLUME_CLAIM}, {WP_VERB_POST, WP_KIND_POD},
        {WP_VERB_POST, WP_KIND_SERVICE},      {WP_VERB_PATCH, WP_KIND_SANDBOX},
        {WP_VERB_DELETE, WP_KIND_POD},
    };
    static const struct {
        enum wp_status status;
        bool effect;
    } ends[] = {
        {WP_NOT_FOUND, false},       {WP_ABORTED, false},
        {WP_UNKNOWN_OUTCOME, false}, {WP_UNKNOWN_OUTCOME, true},
        {WP_UNAVAILABLE, false},     {WP_INVALID_ARGUMENT, false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        for (size_t k = 0; k < WP_ARRAY_LEN(ends); k++) {
            fails(calls[i].verb, calls[i].kind, ends[k].status, ends[k].effect);
        }
    }
    journal_compare(WP_TEST_FOLDER "/k8s_sandbox_work_faults.txt");
}

/* What is looked at again by itself: it ends by the clock. */
static void
ends_by_the_clock(void **state)
{
    (void)state;
    say("# ends in ten seconds, with a Pod that never runs");
    begin();
    sandbox_rig_sandbox(&rig, NAMED,
                        ALL ",'shutdownTime':'2026-01-01T00:00:10Z'");
    pass(9998);
    pass(1);
    pass(1);
    pass(1);
    shows();
    end();
    say("# ends at once");
    begin();
    sandbox_rig_sandbox(&rig, "", "'shutdownTime':'2026-01-01T00:00:00Z'");
    pass(1000);
    shows();
    end();
    say("# ends in two hours, and is refused");
    begin();
    wp_recorder_plan(rig.api,
                     &(struct wp_recorder_fault){.verb = WP_VERB_POST,
                                                 .kind = WP_KIND_POD,
                                                 .status = WP_PERMISSION_DENIED,
                                                 .message = "no"});
    sandbox_rig_sandbox(&rig, NAMED, "'shutdownTime':'2026-01-01T02:00:00Z'");
    pass(1000);
    pass(60000);
    pass(3600000);
    pass(3600000);
    shows();
    end();
    say("# ends in a year that nobody will see");
    begin();
    sandbox_rig_sandbox(&rig, NAMED, "'shutdownTime':'9999-12-31T23:59:59Z'");
    end();
    say("# is deleted at its end");
    begin();
    sandbox_rig_sandbox(&rig, NAMED,
                        "'shutdownTime':'2026-01-01T00:00:05Z',"
                        "'shutdownPolicy':'Delete'");
    pass(5000);
    pass(1000);
    end();
    journal_compare(WP_TEST_FOLDER "/k8s_sandbox_work_clock.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_fails),
        cmocka_unit_test(ends_by_the_clock),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
