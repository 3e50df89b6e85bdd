/* What a Sandbox that is gone has left: each look at it, call by call, and what
 * becomes of each answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "k8s/controllers/sandbox/gc.h"
#include "tests/support/base/journal.h"
#include "tests/support/k8s/lone_rig.h"

#define META(name, uid, more)                                                  \
    "{'metadata':{'namespace':'n','name':'" name "','uid':'" uid               \
    "','resourceVersion':'1'" more "}}"
#define OF(name, uid)                                                          \
    ",'ownerReferences':[{'apiVersion':'agents.x-k8s.io/v1beta1',"             \
    "'kind':'Sandbox','name':'" name "','uid':'" uid "','controller':true}]"
#define GOING ",'deletionTimestamp':'2026-01-01T00:00:00Z'"

static struct lone_rig rig;
static struct wp_sandbox_gc *gc;

static void
begin(void)
{
    lone_rig_init(&rig);
    gc = wp_sandbox_gc_create(&rig.parts);
    assert_non_null(gc);
}

static void
end(void)
{
    wp_sandbox_gc_destroy(gc);
    lone_rig_fini(&rig);
}

/* Two Pods, one that goes, a Service and two claims of "gone"; and one child of
 * another Sandbox. */
static void
put_all(void)
{
    lone_put(&rig, WP_KIND_POD, META("a", "ua", OF("gone", "u1")));
    lone_put(&rig, WP_KIND_POD, META("b", "ub", OF("gone", "u1")));
    lone_put(&rig, WP_KIND_POD, META("c", "uc", OF("gone", "u1") GOING));
    lone_put(&rig, WP_KIND_SERVICE, META("d", "ud", OF("gone", "u1")));
    lone_put(&rig, WP_KIND_VOLUME_CLAIM, META("e", "ue", OF("gone", "u1")));
    lone_put(&rig, WP_KIND_VOLUME_CLAIM, META("f", "uf", OF("gone", "u1")));
    lone_put(&rig, WP_KIND_POD, META("x", "ux", OF("other", "u2")));
}

static void
what_leads_to_a_look(void **state)
{
    (void)state;
    begin();
    put_all();
    lone_put(&rig, WP_KIND_POD, META("nobodys", "un", ""));
    lone_put(&rig, WP_KIND_POD,
             META("theirs", "ut",
                  ",'ownerReferences':[{'apiVersion':'v1','kind':'Node',"
                  "'name':'n','uid':'u3','controller':true}]"));
    lone_say("# one is known");
    lone_put(&rig, WP_KIND_SANDBOX, META("s", "u4", ""));
    lone_put(&rig, WP_KIND_POD, META("s", "us", OF("s", "u4")));
    lone_say("# it leads");
    wp_sandbox_gc_activate(gc, true);
    lone_say("# it does not");
    wp_sandbox_gc_activate(gc, false);
    lone_say("# it changes, is replaced by another, goes");
    lone_put(&rig, WP_KIND_SANDBOX,
             "{'metadata':{'namespace':'n','name':'s','uid':'u4',"
             "'resourceVersion':'2'}}");
    lone_put(&rig, WP_KIND_SANDBOX,
             "{'metadata':{'namespace':'n','name':'s','uid':'u5',"
             "'resourceVersion':'3'}}");
    lone_remove(&rig, WP_KIND_SANDBOX, META("s", "u5", ""));
    lone_remove(&rig, WP_KIND_POD, META("s", "us", OF("s", "u4")));
    end();
    journal_compare(WP_TEST_FOLDER "/k8s_sandbox_left_wakes.txt");
}

static void
all_of_it_goes(void **state)
{
    static const enum wp_status deleted[] = {WP_OK, WP_NOT_FOUND, WP_ABORTED,
                                             WP_OK, WP_OK};

    (void)state;
    lone_say("# it is not there");
    begin();
    put_all();
    lone_look("n", "u1");
    lone_say("# it leads");
    wp_sandbox_gc_activate(gc, true);
    lone_look("n", "u1");
    lone_ends(WP_NOT_FOUND);
    for (size_t i = 0; i < WP_ARRAY_LEN(deleted); i++) {
        lone_ends(deleted[i]);
    }
    end();
    lone_say("# another is there, and comes to be known meanwhile");
    begin();
    put_all();
    wp_sandbox_gc_activate(gc, true);
    lone_look("n", "u1");
    lone_answer(&(struct wp_api_result){.status = WP_OK},
                META("gone", "u9", ""));
    lone_put(&rig, WP_KIND_SANDBOX, META("gone", "u1", ""));
    lone_ends(WP_OK);
    end();
    lone_say("# it has no children");
    begin();
    wp_sandbox_gc_activate(gc, true);
    lone_look("n", "u1");
    end();
    lone_say("# it is known");
    begin();
    put_all();
    lone_put(&rig, WP_KIND_SANDBOX, META("gone", "u1", ""));
    wp_sandbox_gc_activate(gc, true);
    lone_look("n", "u1");
    end();
    lone_say("# the lead is lost between two");
    begin();
    put_all();
    wp_sandbox_gc_activate(gc, true);
    lone_look("n", "u1");
    lone_ends(WP_NOT_FOUND);
    wp_sandbox_gc_activate(gc, false);
    lone_ends(WP_OK);
    end();
    journal_compare(WP_TEST_FOLDER "/k8s_sandbox_left_looks.txt");
}

/* What is not sure stays. */
static void
what_each_answer_means(void **state)
{
    static const enum wp_status all[] = {WP_ABORTED, WP_UNAVAILABLE,
                                         WP_CANCELLED, WP_PERMISSION_DENIED,
                                         WP_UNKNOWN_OUTCOME};

    (void)state;
    lone_say("# it is there");
    begin();
    put_all();
    wp_sandbox_gc_activate(gc, true);
    lone_look("n", "u1");
    lone_answer(&(struct wp_api_result){.status = WP_OK},
                META("gone", "u1", ""));
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        journal("# %s", wp_status_name(all[i]));
        journal_line();
        lone_look("n", "u1");
        lone_ends(all[i]);
        lone_look("n", "u1");
        lone_ends(WP_NOT_FOUND);
        lone_ends(all[i]);
        if (all[i] == WP_ABORTED) {
            lone_ends(WP_CANCELLED);
        }
    }
    end();
    journal_compare(WP_TEST_FOLDER "/k8s_sandbox_left_answers.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_leads_to_a_look),
        cmocka_unit_test(all_of_it_goes),
        cmocka_unit_test(what_each_answer_means),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
