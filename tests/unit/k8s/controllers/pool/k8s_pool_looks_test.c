/* Each look at a pool, between fakes of the core and of what the backend knows:
 * what it writes, gives up, tells, and when it looks again, compared whole with
 * files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/controllers/pool/controller_impl.h"
#include "k8s/controllers/verdicts.h"
#include "k8s/objects/names.h"
#include "k8s/objects/sandbox_refs.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"
#include "tests/support/k8s/lone_rig.h"

#define OWNER(kind, name, uid)                                                 \
    "'ownerReferences':[{'apiVersion':'extensions.agents.x-k8s.io/v1beta1',"   \
    "'kind':'" kind "','name':'" name "','uid':'" uid "','controller':true}]"
#define OWNED OWNER("SandboxWarmPool", "p", "up")
#define CLAIMED OWNER("SandboxClaim", "c", "uc")
#define GOING ",'deletionTimestamp':'2026-01-01T00:00:00Z'"
#define WARM "'agents.x-k8s.io/launch-type':'warm',"
#define LABELS(launch)                                                         \
    "'labels':{" launch "'agents.x-k8s.io/warm-pool-sandbox':'f50c43ef'},"
#define CREATED(time) ",'creationTimestamp':'" time "'"
#define NEW CREATED("2026-01-01T00:00:00Z")
#define OLD CREATED("2025-12-31T23:59:00Z")
#define SANDBOX_WITH(name, labels, metadata, status)                           \
    "{'metadata':{'namespace':'n','name':'" name "','uid':'u-" name            \
    "','resourceVersion':'4'," labels metadata "},'spec':{}" status "}"
#define SANDBOX(name, metadata, status)                                        \
    SANDBOX_WITH(name, LABELS(WARM), metadata, status)
#define READY                                                                  \
    ",'status':{'conditions':[{'type':'Ready','status':'True','reason':'r'}]}"
#define NO_ROOM                                                                \
    ",'status':{'conditions':[{'type':'PodScheduled','status':'False',"        \
    "'reason':'Unschedulable'}]}"
#define POOL(version, metadata, spec, status)                                  \
    "{'metadata':{'namespace':'n','name':'p','uid':'up','resourceVersion':"    \
    "'" version "','generation':2" metadata "},'spec':{'sandboxTemplateRef':"  \
    "{'name':'t'}" spec "}" status "}"
#define TEMPLATE                                                               \
    "{'metadata':{'namespace':'n','name':'t','uid':'ut','generation':1},"      \
    "'spec':{}}"
#define STATUS(replicas, ready, generation, hash)                              \
    ",'status':{'replicas':" replicas ",'readyReplicas':" ready                \
    ",'observedGeneration':" generation                                        \
    ",'selector':'agents.x-k8s.io/warm-pool-sandbox=" hash "'}"

static struct lone_rig rig;
static struct heard heard;
static void *controller;
static bool core_knows;
static struct wp_pool_stats stats; /* What the core says of the pool. */
static int lease;                  /* Its address is what counts. */

/* --- What lies below --- */

uint32_t __wrap_wp_pools_index(const struct wp_pools *pools,
                               struct wp_str pool_namespace,
                               struct wp_str name);
void __wrap_wp_pools_stats(struct wp_pools *pools, uint32_t pool_index,
                           struct wp_pool_stats *out);
void __wrap_wp_pools_retire(struct wp_pools *pools, struct wp_slot_ref ref,
                            struct wp_str reason);
bool __wrap_wp_sandbox_is_stale(struct wp_staleness *staleness,
                                const struct wp_object *sandbox,
                                const struct wp_object *template_);
struct wp_sandbox_ref *__wrap_wp_sandbox_refs_find(struct wp_sandbox_refs *refs,
                                                   const char *ns,
                                                   const char *name);

uint32_t
__wrap_wp_pools_index(const struct wp_pools *pools,
                      struct wp_str pool_namespace, struct wp_str name)
{
    (void)pools;
    assert_true(wp_str_is(pool_namespace, "n"));
    assert_true(wp_str_is(name, "p"));
    return core_knows ? 7 : UINT32_MAX;
}

void
__wrap_wp_pools_stats(struct wp_pools *pools, uint32_t pool_index,
                      struct wp_pool_stats *out)
{
    (void)pools;
    assert_int_equal(pool_index, 7);
    *out = stats;
}

void
__wrap_wp_pools_retire(struct wp_pools *pools, struct wp_slot_ref ref,
                       struct wp_str reason)
{
    (void)pools;
    journal("  gives up %u: %.*s", ref.index, WP_STR_ARG(reason));
    journal_line();
}

/* What is stale says so. */
bool
__wrap_wp_sandbox_is_stale(struct wp_staleness *staleness,
                           const struct wp_object *sandbox,
                           const struct wp_object *template_)
{
    (void)staleness;
    assert_string_equal(template_->name, "t");
    return strstr(sandbox->name, "stale") != NULL;
}

/* And so does what the backend knows. */
struct wp_sandbox_ref *
__wrap_wp_sandbox_refs_find(struct wp_sandbox_refs *refs, const char *ns,
                            const char *name)
{
    static struct wp_sandbox_ref ref;

    (void)refs;
    assert_string_equal(ns, "n");
    memset(&ref, 0, sizeof ref);
    ref.ref.index = (uint32_t)strlen(name);
    ref.phase = strstr(name, "adopted") != NULL    ? WP_SANDBOX_ADOPTED
                : strstr(name, "deleting") != NULL ? WP_SANDBOX_DELETING
                : strstr(name, "warming") != NULL  ? WP_SANDBOX_WARMING
                                                   : WP_SANDBOX_READY;
    ref.lease = strstr(name, "leased") != NULL
                    ? (struct wp_lease_note *)(void *)&lease
                    : NULL;
    ref.unwanted = strstr(name, "unwanted") != NULL;
    return strstr(name, "unknown") != NULL ? NULL : &ref;
}

/* --- What the test does --- */

static void
begin(void)
{
    struct wp_err err;

    lone_rig_init(&rig);
    rig.parts.verdicts = wp_verdicts_create();
    rig.parts.config.ready_grace_ns = 30 * WP_NS_PER_S;
    core_knows = false;
    memset(&stats, 0, sizeof stats);
    controller = wp_pool_controller_ops.create(&rig.parts, &err);
    assert_non_null(controller);
}

static void
end(void)
{
    wp_pool_controller_ops.destroy(controller);
    wp_verdicts_destroy(rig.parts.verdicts);
    lone_rig_fini(&rig);
}

static void
put(enum wp_kind kind, const char *text)
{
    journal_mute(true);
    lone_put(&rig, kind, text);
    journal_mute(false);
}

static void
look(uint32_t answers)
{
    const char *log;

    heard_begin(&heard);
    lone_look("n", "p");
    for (uint32_t i = 0; i < answers; i++) {
        lone_ends(WP_OK);
    }
    log = heard_end(&heard);
    if (log[0] != '\0') {
        journal("  log %s", log);
        journal_line();
    }
}

/* --- The tests --- */

/* One sandbox at a time; the pool's status is as it would be without it. */
static void
each_sandbox(void **state)
{
    static const struct {
        const char *what;
        const char *text;
        uint32_t writes; /* With those of its status. */
    } rows[] = {
        {"ready", SANDBOX("a", OWNED NEW, READY), 1},
        {"not ready, new", SANDBOX("a", OWNED NEW, ""), 1},
        {"not ready, as old as it may be",
         SANDBOX("a", OWNED CREATED("2025-12-31T23:59:30Z"), ""), 1},
        {"not ready, too old",
         SANDBOX("a", OWNED CREATED("2025-12-31T23:59:29Z"), ""), 1},
        {"too old, for want of room", SANDBOX("a", OWNED OLD, NO_ROOM), 1},
        {"new, without room", SANDBOX("a", OWNED NEW, NO_ROOM), 1},
        {"going", SANDBOX("a", OWNED NEW GOING, READY), 0},
        {"claimed", SANDBOX("a", CLAIMED NEW, READY), 0},
        {"of another pool",
         SANDBOX("a", OWNER("SandboxWarmPool", "p", "other") NEW, READY), 0},
        {"adopted", SANDBOX("adopted", OWNED NEW, READY), 0},
        {"deleting", SANDBOX("deleting", OWNED NEW, READY), 0},
        {"leased", SANDBOX("leased", OWNED NEW, READY), 0},
        {"unwanted", SANDBOX("unwanted", OWNED NEW, READY), 0},
        {"unknown", SANDBOX("unknown", OWNED NEW, READY), 1},
        {"warming", SANDBOX("warming", OWNED NEW, ""), 1},
        {"stale", SANDBOX("stale", OWNED NEW, READY), 1},
        {"launched in no way", SANDBOX_WITH("a", LABELS(""), OWNED NEW, READY),
         2},
        {"launched cold",
         SANDBOX_WITH("a", LABELS("'agents.x-k8s.io/launch-type':'cold',"),
                      OWNED NEW, READY),
         2},
        {"nobody's", SANDBOX("a", "'ownerReferences':[]" NEW, READY), 1},
        {"nobody's, with another owner",
         SANDBOX("a",
                 "'ownerReferences':[{'apiVersion':'v1','kind':'Node','name':"
                 "'x','uid':'y'}]" NEW,
                 READY),
         1},
        {"nobody's, without a list",
         SANDBOX("a", "'creationTimestamp':'2026-01-01T00:00:00Z'", READY), 1},
        {"nobody's, and stale", SANDBOX("stale", "'a':1" NEW, READY), 1},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        journal("# %s", rows[i].what);
        journal_line();
        journal_mute(true);
        begin();
        journal_mute(false);
        put(WP_KIND_SANDBOX_TEMPLATE, TEMPLATE);
        put(WP_KIND_SANDBOX_WARM_POOL,
            POOL("1", "", ",'replicas':1", STATUS("0", "0", "2", "f50c43ef")));
        put(WP_KIND_SANDBOX, rows[i].text);
        look(rows[i].writes);
        journal_mute(true);
        end();
        journal_mute(false);
    }
    journal_compare(WP_TEST_FOLDER "/k8s_pool_looks_sandbox.txt");
}

/* With the strategy Recreate, those of an old template are given up: at once
 * when the template changes, and by each look. */
static void
recreates_what_is_stale(void **state)
{
    static const char pool[] =
        POOL("1", "", ",'replicas':1,'updateStrategy':{'type':'Recreate'}",
             STATUS("0", "0", "2", "f50c43ef"));

    (void)state;
    begin();
    put(WP_KIND_SANDBOX_TEMPLATE, TEMPLATE);
    put(WP_KIND_SANDBOX_WARM_POOL, pool);
    put(WP_KIND_SANDBOX, SANDBOX("fresh", OWNED NEW, READY));
    put(WP_KIND_SANDBOX, SANDBOX("stale", OWNED NEW, READY));
    put(WP_KIND_SANDBOX, SANDBOX("stale1", OWNED NEW, ""));
    put(WP_KIND_SANDBOX, SANDBOX("stale-adopted", OWNED NEW, READY));
    put(WP_KIND_SANDBOX, SANDBOX("stale-claimed", CLAIMED NEW, READY));
    put(WP_KIND_SANDBOX, SANDBOX("stale-and-going", OWNED NEW GOING, READY));
    look(1);
    lone_say("# one that the core does not know yet");
    put(WP_KIND_SANDBOX, SANDBOX("stale-unknown", OWNED NEW, READY));
    look(1);
    lone_say("# the template changes");
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE,
             "{'metadata':{'namespace':'n','name':'t','uid':'ut','generation':2"
             ",'resourceVersion':'2'},'spec':{'podTemplate':{'spec':{"
             "'containers':[{'name':'c','image':'b'}]}}}}");
    lone_say("# another replica leads");
    rig.parts.active = false;
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE,
             "{'metadata':{'namespace':'n','name':'t','uid':'ut','generation':3"
             ",'resourceVersion':'3'},'spec':{'podTemplate':{'spec':{"
             "'containers':[{'name':'c','image':'c'}]}}}}");
    rig.parts.active = true;
    lone_say("# the template goes");
    lone_remove(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE);
    look(1);
    lone_say("# it is replenished only");
    put(WP_KIND_SANDBOX_WARM_POOL,
        POOL("2", "", ",'replicas':1", STATUS("0", "0", "2", "f50c43ef")));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE);
    look(1);
    end();
    journal_compare(WP_TEST_FOLDER "/k8s_pool_looks_stale.txt");
}

/* The status is written when any of its numbers differs. */
static void
each_number_of_the_status(void **state)
{
    static const struct {
        const char *text;
        uint32_t writes;
    } rows[] = {
        {POOL("1", "", ",'replicas':1", ""), 1},
        {POOL("1", "", ",'replicas':1", STATUS("2", "1", "2", "f50c43ef")), 0},
        {POOL("1", "", ",'replicas':1", STATUS("1", "1", "2", "f50c43ef")), 1},
        {POOL("1", "", ",'replicas':1", STATUS("2", "2", "2", "f50c43ef")), 1},
        {POOL("1", "", ",'replicas':1", STATUS("2", "1", "1", "f50c43ef")), 1},
        {POOL("1", "", ",'replicas':1", STATUS("2", "1", "2", "f50c43e")), 1},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        begin();
        put(WP_KIND_SANDBOX_TEMPLATE, TEMPLATE);
        put(WP_KIND_SANDBOX_WARM_POOL, rows[i].text);
        put(WP_KIND_SANDBOX, SANDBOX("a", OWNED NEW, READY));
        put(WP_KIND_SANDBOX, SANDBOX("b", OWNED OLD, ""));
        look(rows[i].writes);
        end();
    }
    journal_compare(WP_TEST_FOLDER "/k8s_pool_looks_status.txt");
}

/* What is in its way is told when it begins, changes and ends. */
static void
what_hinders_it(void **state)
{
    struct wp_object *template_;

    (void)state;
    begin();
    put(WP_KIND_SANDBOX_WARM_POOL,
        POOL("1", "", ",'replicas':2", STATUS("0", "0", "2", "f50c43ef")));
    lone_say("# no template");
    look(0);
    look(0);
    lone_say("# it wants none");
    put(WP_KIND_SANDBOX_WARM_POOL,
        POOL("2", "", ",'replicas':0", STATUS("0", "0", "2", "f50c43ef")));
    look(0);
    lone_say("# the policy wants some");
    core_knows = true;
    stats.scaled = true;
    stats.spec.target = 1;
    look(0);
    lone_say("# it is there");
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE);
    look(0);
    lone_say("# its Pods are refused");
    template_ = wp_object_ref(
        wp_store_find(rig.parts.stores[WP_KIND_SANDBOX_TEMPLATE], "n", "t"));
    assert_true(
        wp_verdicts_set(rig.parts.verdicts, template_, "no such image"));
    look(0);
    assert_true(wp_verdicts_set(rig.parts.verdicts, template_, "no image"));
    look(0);
    look(0);
    lone_say("# refused, and none is wanted");
    stats.spec.target = 0;
    look(0);
    stats.spec.target = 1;
    look(0);
    lone_say("# taken, and what is made fails");
    assert_true(wp_verdicts_set(rig.parts.verdicts, template_, NULL));
    stats.breaker_open = true;
    (void)snprintf(stats.last_failure, sizeof stats.last_failure, "boom");
    look(0);
    (void)snprintf(stats.last_failure, sizeof stats.last_failure, "bang");
    look(0);
    lone_say("# one finds no room, and has its own time");
    stats.spec.ready_within_ns = 59 * WP_NS_PER_S;
    put(WP_KIND_SANDBOX, SANDBOX("a", OWNED OLD, NO_ROOM));
    look(1);
    stats.spec.ready_within_ns = 60 * WP_NS_PER_S;
    look(1);
    lone_say("# all is well, as many as wanted");
    put(WP_KIND_SANDBOX, "{'metadata':{'namespace':'n','name':'a','uid':'u-a',"
                         "'resourceVersion':'5'," LABELS(WARM) OWNED NEW
        "},'spec':{}" READY "}");
    stats.breaker_open = false;
    look(1);
    stats.scaled = false;
    lone_say("# fewer than spec.replicas says");
    put(WP_KIND_SANDBOX_WARM_POOL,
        POOL("3", "", ",'replicas':2", STATUS("1", "1", "2", "f50c43ef")));
    look(0);
    wp_object_unref(template_);
    end();
    journal_compare(WP_TEST_FOLDER "/k8s_pool_looks_hindered.txt");
}

/* What its annotations say, and who has changed its size. */
static void
its_policy_and_hands(void **state)
{
    (void)state;
    begin();
    put(WP_KIND_SANDBOX_TEMPLATE, TEMPLATE);
    lone_say("# an annotation that says nothing");
    put(WP_KIND_SANDBOX_WARM_POOL,
        POOL("1", ",'annotations':{'autoscale.warmpool.io/max':'many'}",
             ",'replicas':0", STATUS("0", "0", "2", "f50c43ef")));
    look(0);
    look(0);
    put(WP_KIND_SANDBOX_WARM_POOL,
        POOL("2", ",'annotations':{'autoscale.warmpool.io/max':'more'}",
             ",'replicas':0", STATUS("0", "0", "2", "f50c43ef")));
    look(0);
    put(WP_KIND_SANDBOX_WARM_POOL,
        POOL("3", "", ",'replicas':0", STATUS("0", "0", "2", "f50c43ef")));
    look(0);
    lone_say("# by hand");
    core_knows = true;
    stats.scaled = true;
    stats.replicas = 9;
    stats.scale.number = 1;
    stats.scale.reason = WP_SCALE_BY_HAND;
    look(0);
    look(0);
    stats.replicas = 8;
    look(0);
    lone_say("# by its policy");
    stats.scale.reason = WP_SCALE_MIN;
    look(0);
    lone_say("# nothing decided yet, not scaled, not known");
    stats.scale.reason = WP_SCALE_BY_HAND;
    stats.scale.number = 0;
    look(0);
    stats.scale.number = 1;
    stats.scaled = false;
    look(0);
    stats.scaled = true;
    core_knows = false;
    look(0);
    lone_say("# it goes, and what was told of it is forgotten");
    core_knows = true;
    stats.breaker_open = true;
    for (int i = 0; i < 2; i++) {
        put(WP_KIND_SANDBOX_WARM_POOL,
            POOL("4", ",'annotations':{'autoscale.warmpool.io/max':'many'}",
                 ",'replicas':0", STATUS("0", "0", "2", "f50c43ef")));
        look(0);
        look(0);
        lone_remove(&rig, WP_KIND_SANDBOX_WARM_POOL, POOL("4", "", "", ""));
    }
    end();
    journal_compare(WP_TEST_FOLDER "/k8s_pool_looks_policy.txt");
}

/* A hundred of its sandboxes are changed by one look; the rest soon after. */
static void
so_many_at_once(void **state)
{
    static const struct {
        const char *what;
        const char *metadata;
    } rows[] = {{"launched in no way", OWNED NEW},
                {"nobody's", "'ownerReferences':[]" NEW}};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        for (int n = 100; n < 102; n++) {
            journal("# %d, %s", n, rows[i].what);
            journal_line();
            journal_mute(true);
            begin();
            lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE);
            lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
                     POOL("1", "", ",'replicas':0",
                          STATUS("0", "0", "2", "f50c43ef")));
            for (int k = 0; k < n; k++) {
                char text[1024];

                (void)snprintf(text, sizeof text,
                               "{'metadata':{'namespace':'n','name':'a%d',"
                               "'uid':'u%d'," LABELS("") "%s},'spec':{}" READY
                                                         "}",
                               k, k, rows[i].metadata);
                lone_put(&rig, WP_KIND_SANDBOX, text);
            }
            heard_begin(&heard);
            lone_look("n", "p");
            (void)heard_end(&heard);
            journal_mute(false);
            journal("  %zu calls", lone_open());
            journal_line();
            journal_mute(true);
            while (lone_open() > 1) {
                lone_ends(WP_OK);
            }
            journal_mute(false);
            lone_ends(WP_OK);
            journal_mute(true);
            end();
            journal_mute(false);
        }
    }
    journal_compare(WP_TEST_FOLDER "/k8s_pool_looks_many.txt");
}

/* Which changes of a template lead to a look: those of what is made from it,
 * and of its tier. */
static void
which_changes_of_a_template_count(void **state)
{
#define TIERED(version, annotations, image)                                    \
    "{'metadata':{'namespace':'n','name':'t','uid':'ut','resourceVersion':"    \
    "'" version "'" annotations                                                \
    "},'spec':{'podTemplate':{'spec':{'containers':["                          \
    "{'name':'c','image':'" image "'}]}}}}"
#define TIER(tier) ",'annotations':{'" WP_TIER_KEY "':'" tier "'}"
    static const struct {
        const char *what;
        const char *text;
    } rows[] = {
        {"it comes", TIERED("1", "", "a")},
        {"a label", TIERED("2", ",'labels':{'a':'b'}", "a")},
        {"another image", TIERED("3", "", "b")},
        {"the installation's tier is said", TIERED("4", TIER("T0"), "b")},
        {"it is said again", TIERED("5", TIER("T0") ",'labels':{}", "b")},
        {"another tier", TIERED("6", TIER("T1"), "b")},
        {"with a label", TIERED("7", TIER("T1") ",'labels':{'a':'b'}", "b")},
        {"with another image", TIERED("8", TIER("T1"), "c")},
        {"none is said", TIERED("9", "", "c")},
    };

    (void)state;
    begin();
    /* Before it and behind it are those that are not meant. */
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{'metadata':{'namespace':'m','name':'p','uid':'um'},'spec':{"
             "'sandboxTemplateRef':{'name':'t'}}}");
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{'metadata':{'namespace':'n','name':'o','uid':'uo'},'spec':{"
             "'sandboxTemplateRef':{'name':'v'}}}");
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL, POOL("1", "", "", ""));
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{'metadata':{'namespace':'n','name':'q','uid':'uq'},'spec':{"
             "'sandboxTemplateRef':{'name':'t'}}}");
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        journal("# %s", rows[i].what);
        journal_line();
        lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, rows[i].text);
    }
    lone_say("# a verdict on it");
    assert_true(wp_verdicts_set(
        rig.parts.verdicts,
        wp_store_find(rig.parts.stores[WP_KIND_SANDBOX_TEMPLATE], "n", "t"),
        "no"));
    lone_say("# a sandbox of nobody's, with the pool's label");
    lone_put(&rig, WP_KIND_SANDBOX, SANDBOX("x", "'a':1" NEW, READY));
    end();
    journal_compare(WP_TEST_FOLDER "/k8s_pool_looks_template.txt");
}

/* Of a pool that is gone, where nobody else ends them. */
static void
what_a_pool_leaves(void **state)
{
    (void)state;
    for (int gc = 0; gc < 2; gc++) {
        journal("# %s a collector of ours", gc != 0 ? "with" : "without");
        journal_line();
        begin();
        rig.parts.config.gc = gc != 0;
        put(WP_KIND_SANDBOX, SANDBOX("a", OWNED, READY));
        put(WP_KIND_SANDBOX, SANDBOX("b-going", OWNED GOING, READY));
        put(WP_KIND_SANDBOX, SANDBOX("c-claimed", CLAIMED, READY));
        put(WP_KIND_SANDBOX, SANDBOX("d-adopted", OWNED, READY));
        put(WP_KIND_SANDBOX, SANDBOX("e-unknown", OWNED, READY));
        put(WP_KIND_SANDBOX,
            SANDBOX("f-known", OWNER("SandboxWarmPool", "q", "uq"), READY));
        put(WP_KIND_SANDBOX_WARM_POOL,
            "{'metadata':{'namespace':'n','name':'q','uid':'uq'},'spec':{}}");
        put(WP_KIND_SANDBOX, SANDBOX("g", "'a':1", READY));
        look(gc != 0 ? 2 : 0);
        lone_say("# one that goes itself");
        put(WP_KIND_SANDBOX_WARM_POOL, POOL("1", GOING, "", ""));
        look(0);
        end();
    }
    journal_compare(WP_TEST_FOLDER "/k8s_pool_looks_left.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sandbox),
        cmocka_unit_test(recreates_what_is_stale),
        cmocka_unit_test(each_number_of_the_status),
        cmocka_unit_test(what_hinders_it),
        cmocka_unit_test(its_policy_and_hands),
        cmocka_unit_test(so_many_at_once),
        cmocka_unit_test(which_changes_of_a_template_count),
        cmocka_unit_test(what_a_pool_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
