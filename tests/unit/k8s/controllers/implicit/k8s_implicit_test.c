/* Pools that nobody made: what leads to a look at which template, what each
 * look writes, records and forgets, and how many there may be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/controllers/implicit/implicit.h"
#include "k8s/objects/names.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"
#include "tests/support/k8s/lone_rig.h"

#define IDLE_NS (600 * WP_NS_PER_S)

#define META_IN(ns, name, version, generation, more)                           \
    "'metadata':{'namespace':'" ns "','name':'" name "','uid':'u-" name        \
    "','resourceVersion':'" version "','generation':" generation more "}"
#define META(name, version, more) META_IN("n", name, version, "1", more)
#define SAYS(n) ",'annotations':{'" WP_ANNOTATION_IMPLICIT_POOL "':'" n "'}"
#define GOING ",'deletionTimestamp':'2026-01-01T00:00:00Z'"
#define OWN ",'labels':{'" WP_LABEL_IMPLICIT_POOL "':'true'}"
#define OF(templ) ",'spec':{'sandboxTemplateRef':{'name':'" templ "'}}"
#define TEMPLATE(name, more) "{" META(name, "1", more) ",'spec':{}}"
#define SHADOW(name, more)                                                     \
    "{" META("shadow-pool-" name, "1", OWN more) OF(name) "}"

static struct lone_rig rig;
static struct heard heard;
static struct wp_implicit_pools *pools;

static void
begin(uint32_t size, uint32_t max)
{
    lone_rig_init(&rig);
    rig.parts.config.implicit_pool = size;
    rig.parts.config.implicit_pools_max = max;
    rig.parts.config.implicit_pool_idle_ns = IDLE_NS;
    pools = wp_implicit_pools_create(&rig.parts);
    assert_non_null(pools);
}

static void
end(void)
{
    wp_implicit_pools_destroy(pools);
    lone_rig_fini(&rig);
}

static void
pass(int64_t ns)
{
    journal(" after %lld ns", (long long)ns);
    journal_line();
    wp_clock_manual_advance(&rig.clock, ns);
}

static void
use(const char *ns, const char *templ)
{
    const char *log;

    journal(" a claim of %s/%s", ns, templ);
    journal_line();
    heard_begin(&heard);
    wp_implicit_pools_use(pools, ns, templ);
    log = heard_end(&heard);
    if (log[0] != '\0') {
        journal("  log %s", log);
        journal_line();
    }
}

/* --- The tests --- */

/* Which claims lead to a look: of what the setting or the template allows, the
 * first one, while nobody made a pool of the template. */
static void
what_a_claim_leads_to(void **state)
{
    (void)state;
    lone_say("# the setting allows none");
    begin(0, 4);
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("t", ""));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("zero", SAYS("0")));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("one", SAYS("1")));
    use("n", "t");
    use("n", "zero");
    use("n", "one");
    use("n", "one");
    use("n", "unknown");
    end();
    lone_say("# the setting allows two");
    begin(2, 4);
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("t", ""));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("zero", SAYS("0")));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("going", GOING));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("had", ""));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("theirs", ""));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("shadowed", ""));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("leaving", ""));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE,
             "{" META_IN("m", "t", "1", "1", "") ",'spec':{}}");
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{" META("p", "1", "") OF("had") "}");
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{" META_IN("m", "q", "1", "1", "") OF("t") "}");
    lone_put(
        &rig, WP_KIND_SANDBOX_WARM_POOL,
        "{" META("r", "1", ",'annotations':{'" WP_ANNOTATION_TENANT "':'x'}")
            OF("theirs") "}");
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL, SHADOW("shadowed", ""));
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{" META("s", "1", GOING) OF("leaving") "}");
    use("n", "t");
    use("n", "zero");
    use("n", "going");
    use("n", "had");
    use("m", "t");
    use("n", "theirs");
    use("n", "shadowed");
    use("n", "leaving");
    use("n", "t");
    end();
    lone_say("# a pool of its name that has another template, or no label");
    begin(2, 4);
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("t", ""));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("v", ""));
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{" META("shadow-pool-t", "1", OWN) OF("v") "}");
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{" META("shadow-pool-t", "2", "") OF("t") "}");
    use("n", "v");
    use("n", "t");
    end();
    journal_compare(WP_TEST_FOLDER "/k8s_implicit_uses.txt");
}

/* How many there may be; what is said of the others, and how often. */
static void
there_are_so_many(void **state)
{
    (void)state;
    begin(1, 2);
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("a", ""));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("b", ""));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("c", ""));
    use("n", "a");
    use("n", "b");
    use("n", "c");
    use("n", "c");
    pass(60 * WP_NS_PER_S - 1);
    use("n", "c");
    pass(1);
    use("n", "c");
    pass(60 * WP_NS_PER_S - 1);
    use("n", "c");
    use("n", "a");
    lone_say("# one of a name that is had in another namespace");
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE,
             "{" META_IN("m", "a", "1", "1", "") ",'spec':{}}");
    use("m", "a");
    lone_look("m", "a");
    lone_say("# one is forgotten: there is room");
    pass(IDLE_NS - 1);
    lone_look("n", "b");
    use("n", "c");
    use("n", "b");
    end();
    lone_say("# none may be");
    begin(1, 0);
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("a", ""));
    use("n", "a");
    end();
    journal_compare(WP_TEST_FOLDER "/k8s_implicit_full.txt");
}

/* A pool is made, kept as long as claims come, and ended. */
static void
what_each_look_writes(void **state)
{
    (void)state;
    lone_say("# it is made");
    begin(3, 4);
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("t", ""));
    use("n", "t");
    lone_look("n", "t");
    lone_answer(&(struct wp_api_result){.status = WP_OK, .retry_after_ns = -1},
                SHADOW("t", ""));
    lone_say("# it is there");
    pass(1);
    lone_look("n", "t");
    pass(IDLE_NS - 2);
    lone_look("n", "t");
    use("n", "t");
    pass(1);
    lone_look("n", "t");
    lone_say("# nothing came for long enough");
    pass(IDLE_NS - 2);
    lone_look("n", "t");
    pass(1);
    lone_look("n", "t");
    lone_ends(WP_OK);
    lone_look("n", "t");
    lone_ends(WP_OK);
    lone_say("# it goes, so nothing is done");
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{" META("shadow-pool-t", "2", OWN GOING) OF("t") "}");
    lone_look("n", "t");
    lone_say("# it is gone, and made anew by the next claim");
    lone_remove(&rig, WP_KIND_SANDBOX_WARM_POOL, SHADOW("t", ""));
    lone_look("n", "t");
    use("n", "t");
    lone_look("n", "t");
    lone_ends(WP_UNAVAILABLE);
    end();
    lone_say("# somebody made another pool");
    begin(3, 4);
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("t", SAYS("5")));
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL, SHADOW("t", ""));
    use("n", "t");
    lone_look("n", "t");
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{" META("p", "1", "") OF("t") "}");
    lone_look("n", "t");
    lone_ends(WP_OK);
    lone_say("# what has not its label stays");
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{" META("shadow-pool-t", "2", "") OF("t") "}");
    lone_look("n", "t");
    lone_say("# another replica leads");
    rig.parts.active = false;
    lone_look("n", "t");
    end();
    lone_say("# the template is gone, and says how many");
    begin(0, 4);
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("t", SAYS("1000")));
    use("n", "t");
    lone_look("n", "t");
    lone_ends(WP_OK);
    lone_remove(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("t", ""));
    lone_look("n", "t");
    end();
    lone_say("# the template's name is too long for a pool");
    begin(1, 1);
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE,
             TEMPLATE("ttttttttttttttttttttttttttttttttttttttttttt", ""));
    use("n", "ttttttttttttttttttttttttttttttttttttttttttt");
    lone_look("n", "ttttttttttttttttttttttttttttttttttttttttttt");
    lone_answer(
        &(struct wp_api_result){.status = WP_OK, .retry_after_ns = -1},
        "{" META("shadow-pool-ttttttttttttttttttttttttttttttttt-aa513053", "1",
                 OWN) OF("ttttttttttttttttttttttttttttttttttttttttttt") "}");
    pass(IDLE_NS);
    lone_look("n", "ttttttttttttttttttttttttttttttttttttttttttt");
    lone_ends(WP_OK);
    end();
    journal_compare(WP_TEST_FOLDER "/k8s_implicit_looks.txt");
}

/* Changes of pools and templates lead to a look where a claim has named it. */
static void
what_a_change_leads_to(void **state)
{
    (void)state;
    begin(1, 4);
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("t", ""));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("v", ""));
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{" META("q", "1", "") OF("v") "}");
    use("n", "t");
    lone_say("# its own pool comes, has a new status, and is changed");
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL, SHADOW("t", ""));
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{" META("shadow-pool-t", "2", OWN) OF("t") "}");
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{" META_IN("n", "shadow-pool-t", "3", "2", OWN) OF("t") "}");
    lone_say("# another one comes and goes");
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{" META("p", "1", "") OF("t") "}");
    lone_remove(&rig, WP_KIND_SANDBOX_WARM_POOL,
                "{" META("p", "1", "") OF("t") "}");
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{" META_IN("m", "p", "1", "1", "") OF("t") "}");
    lone_say("# the template changes, is allowed none, is changed, goes");
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE,
             "{" META("t", "2", SAYS("4")) ",'spec':{}}");
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE,
             "{" META("t", "3", SAYS("0")) ",'spec':{}}");
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE,
             "{" META("t", "4", "") ",'spec':{}}");
    lone_remove(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("t", ""));
    lone_remove(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("v", ""));
    lone_say("# its own pool is ended by somebody: it is forgotten");
    lone_remove(&rig, WP_KIND_SANDBOX_WARM_POOL, SHADOW("t", ""));
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL, SHADOW("t", ""));
    lone_say("# another replica leads");
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("t", ""));
    use("n", "t");
    rig.parts.active = false;
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{" META_IN("n", "shadow-pool-t", "4", "3", OWN) OF("t") "}");
    lone_remove(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("t", ""));
    lone_remove(&rig, WP_KIND_SANDBOX_WARM_POOL, SHADOW("t", ""));
    rig.parts.active = true;
    lone_look("n", "t");
    end();
    journal_compare(WP_TEST_FOLDER "/k8s_implicit_wakes.txt");
}

/* All that there are begin anew; beyond the bound they are ended. */
static void
what_a_new_leader_looks_at(void **state)
{
    (void)state;
    begin(1, 2);
    wp_implicit_pools_pause(pools, true);
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("a", ""));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("b", ""));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("c", ""));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("x", ""));
    lone_put(&rig, WP_KIND_SANDBOX_TEMPLATE, TEMPLATE("y", ""));
    use("n", "x");
    use("n", "y");
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL, SHADOW("a", ""));
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL, SHADOW("b", ""));
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL, SHADOW("c", ""));
    lone_put(&rig, WP_KIND_SANDBOX_WARM_POOL,
             "{" META("p", "1", "") OF("x") "}");
    wp_implicit_pools_look(pools);
    wp_implicit_pools_pause(pools, false);
    lone_look("n", "a");
    lone_look("n", "b");
    lone_look("n", "c");
    lone_ends(WP_OK);
    lone_look("n", "x");
    lone_look("n", "y");
    end();
    journal_compare(WP_TEST_FOLDER "/k8s_implicit_leads.txt");
}

/* Of every length, cut where it is too long, and never with ".-" in it. */
static void
how_they_are_named(void **state)
{
    (void)state;
    for (size_t len = WP_POOL_NAME_MAX - 14; len < WP_POOL_NAME_MAX + 2;
         len++) {
        char templ[WP_POOL_NAME_MAX + 2];
        char name[WP_POOL_NAME_MAX + 1];

        memset(templ, 't', len);
        templ[len] = '\0';
        wp_implicit_pool_name(templ, name);
        journal("%zu: %zu %s", len, strlen(name), name);
        journal_line();
        for (size_t i = 0; i < len; i++) {
            templ[i] = i % 2 == 0 ? 'a' : '.';
        }
        wp_implicit_pool_name(templ, name);
        journal("  %zu %s", strlen(name), name);
        journal_line();
        for (size_t i = 0; i < len; i++) {
            templ[i] = i % 2 == 1 ? 'a' : '.';
        }
        wp_implicit_pool_name(templ, name);
        journal("  %zu %s", strlen(name), name);
        journal_line();
    }
    journal_compare(WP_TEST_FOLDER "/k8s_implicit_names.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_claim_leads_to),
        cmocka_unit_test(there_are_so_many),
        cmocka_unit_test(what_each_look_writes),
        cmocka_unit_test(what_a_change_leads_to),
        cmocka_unit_test(what_a_new_leader_looks_at),
        cmocka_unit_test(how_they_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
