/* Which templates take what claims bring, as they come, change and go, and as
 * any thread may ask. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/backend/bindable.h"
#include "k8s/objects/view.h"
#include "k8s/watch/store.h"
#include "pool/binding.h"
#include "pool/limits.h"
#include "tests/support/k8s/object_text.h"
#include "tests/support/base/lock_once.h"

static struct wp_store *store;
static struct wp_bindable *bindable;
static unsigned version;
static int
set_up(void **state)
{
    (void)state;
    store = wp_store_create(WP_KIND_SANDBOX_TEMPLATE, NULL);
    assert_non_null(store);
    bindable = wp_bindable_create(store);
    assert_non_null(bindable);
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    wp_store_destroy(store);
    wp_bindable_destroy(bindable);
    assert_int_equal(held, 0);
    return 0;
}

static struct wp_object *
make(const char *ns, const char *name, bool binds)
{
    char text[1024];

    (void)snprintf(
        text, sizeof text,
        "{'metadata':{'namespace':'%s','name':'%s','uid':'u',"
        "'resourceVersion':'%u','annotations':{'" WP_TEMPLATE_BINDING_KEY
        "':'%s'}},'spec':{'podTemplate':{'spec':{}}}}",
        ns, name, ++version, binds ? "allowed" : "none");
    return object_of(WP_KIND_SANDBOX_TEMPLATE, text);
}

static void
put(const char *ns, const char *name, bool binds)
{
    struct wp_object *object = make(ns, name, binds);

    assert_int_equal(wp_template_view(object)->binds, binds);
    wp_store_put(store, object);
}

static void
take(const char *ns, const char *name)
{
    wp_store_remove(store, wp_store_find(store, ns, name));
}

/* Each question takes the lock once, and lets it go. */
static bool
has(const char *ns, const char *name)
{
    unsigned before = taken;
    bool found = wp_bindable_has(bindable, wp_str_from(ns), wp_str_from(name));

    assert_int_equal(taken, before + 1);
    assert_int_equal(held, 0);
    return found;
}

static void
templates_come_change_and_go(void **state)
{
    (void)state;
    assert_false(has("ns", "a"));
    put("ns", "a", true);
    put("ns", "b", false);
    put("team", "b", true);
    assert_true(has("ns", "a"));
    assert_false(has("ns", "b"));
    assert_true(has("team", "b"));
    assert_false(has("team", "a"));
    put("ns", "a", true); /* Another version of it. */
    put("ns", "b", false);
    assert_true(has("ns", "a"));
    assert_false(has("ns", "b"));
    put("ns", "a", false);
    put("ns", "b", true);
    assert_false(has("ns", "a"));
    assert_true(has("ns", "b"));
    put("ns", "a", true);
    assert_true(has("ns", "a"));
    take("ns", "a");
    assert_false(has("ns", "a"));
    assert_true(has("ns", "b"));
    take("ns", "b");
    assert_false(has("ns", "b"));
    assert_true(has("team", "b"));
    put("ns", "a", false);
    take("ns", "a");
    assert_false(has("ns", "a"));
}

/* As long as they may be, and one more. */
static void
names_have_bounds(void **state)
{
    char ns[WP_NAMESPACE_MAX + 2];
    char name[WP_TEMPLATE_NAME_MAX + 2];

    (void)state;
    memset(ns, 'n', sizeof ns - 1);
    memset(name, 't', sizeof name - 1);
    ns[WP_NAMESPACE_MAX] = name[WP_TEMPLATE_NAME_MAX] = '\0';
    put(ns, name, true);
    put(ns, "t", true);
    put("ns", name, true);
    assert_true(has(ns, name));
    assert_true(has(ns, "t"));
    assert_true(has("ns", name));
    ns[WP_NAMESPACE_MAX] = 'n';
    ns[WP_NAMESPACE_MAX + 1] = '\0';
    assert_false(wp_bindable_has(bindable, wp_str_from(ns), WP_STR("t")));
    name[WP_TEMPLATE_NAME_MAX] = 't';
    name[WP_TEMPLATE_NAME_MAX + 1] = '\0';
    assert_false(wp_bindable_has(bindable, WP_STR("ns"), wp_str_from(name)));
}

static void
there_may_be_none(void **state)
{
    struct wp_bindable *none = wp_bindable_create(NULL);

    (void)state;
    assert_non_null(none);
    assert_false(wp_bindable_has(none, WP_STR("ns"), WP_STR("t")));
    wp_bindable_destroy(none);
    wp_bindable_destroy(NULL);
    no_memory = true;
    none = wp_bindable_create(store);
    no_memory = false;
    assert_null(none);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(templates_come_change_and_go),
        TEST(names_have_bounds),
        TEST(there_may_be_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
