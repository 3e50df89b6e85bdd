/* What a SandboxClaim means by what it says: its pool, its template, and the
 * Sandbox that it has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/controllers/claim/reconcile.h"
#include "k8s/convert/convert.h"
#include "k8s/objects/names.h"
#include "tests/support/base/heard.h"

static char pools_[1];
static struct wp_parts parts;
static struct wp_claim_controller self;
static struct wp_claim_entry entry;
static struct wp_claim_reconcile reconcile;
static const char *asked_pool;

/* Of the core, by the pool's name: the digit of "readyN..." says how many, in no
 * order; others are not known. */

uint32_t __wrap_wp_pools_index(const struct wp_pools *pools, struct wp_str ns,
                               struct wp_str name);
uint32_t
__wrap_wp_pools_index(const struct wp_pools *pools, struct wp_str ns,
                      struct wp_str name)
{
    assert_ptr_equal(pools, pools_);
    assert_true(wp_str_eq(ns, WP_STR("ns")));
    return wp_str_starts_with(name, WP_STR("ready"))
               ? (uint32_t)(name.ptr[5] - '0')
               : UINT32_MAX;
}

void __wrap_wp_pools_stats(struct wp_pools *pools, uint32_t index,
                           struct wp_pool_stats *out);
void
__wrap_wp_pools_stats(struct wp_pools *pools, uint32_t index,
                      struct wp_pool_stats *out)
{
    assert_ptr_equal(pools, pools_);
    assert_true(index < 10);
    memset(out, 0, sizeof *out);
    out->ready = index * 7 % 10;
}

const char *__wrap_wp_claim_ask_pool(const struct wp_claim_ask *ask);
const char *
__wrap_wp_claim_ask_pool(const struct wp_claim_ask *ask)
{
    assert_ptr_equal(ask, &asked_pool);
    return asked_pool;
}

/* --- The rig --- */

static struct wp_object *
object(enum wp_kind kind, const char *text)
{
    json_t *json = json_loads(text, 0, NULL);
    struct wp_object *made;
    struct wp_err err;

    assert_non_null(json);
    made = wp_object_create(kind, json, &err);
    assert_non_null(made);
    json_decref(json);
    return made;
}

static int
set_up(void **state)
{
    static const enum wp_kind kinds[] = {
        WP_KIND_SANDBOX, WP_KIND_SANDBOX_WARM_POOL, WP_KIND_SANDBOX_TEMPLATE};

    (void)state;
    memset(&parts, 0, sizeof parts);
    memset(&entry, 0, sizeof entry);
    memset(&reconcile, 0, sizeof reconcile);
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        parts.stores[kinds[i]] = wp_store_create(kinds[i], NULL);
        assert_non_null(parts.stores[kinds[i]]);
    }
    parts.core.pools = (void *)pools_;
    self.parts = &parts;
    reconcile.self = &self;
    reconcile.entry = &entry;
    asked_pool = NULL;
    return 0;
}

static int
tear_down(void **state)
{
    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(parts.stores); i++) {
        wp_store_destroy(parts.stores[i]);
    }
    return 0;
}

static void
put_pool(const char *ns, const char *name, const char *templ, const char *more)
{
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"%s\","
                   "\"uid\":\"u-%s-%s\",\"resourceVersion\":\"1\"%s},\"spec\":"
                   "{\"sandboxTemplateRef\":{\"name\":\"%s\"}}}",
                   ns, name, ns, name, more, templ);
    wp_store_put(parts.stores[WP_KIND_SANDBOX_WARM_POOL],
                 object(WP_KIND_SANDBOX_WARM_POOL, text));
}

/* said: as v1alpha1; NULL: it is none. */
static struct wp_object *
claim_of(const char *pool, const char *said)
{
    json_t *json =
        json_pack("{s:{s:s,s:s,s:s,s:{}},s:{s:{s:s}}}", "metadata", "namespace",
                  "ns", "name", "c", "uid", "cu", "annotations", "spec",
                  "warmPoolRef", "name", pool);
    char *text;
    struct wp_object *made;

    assert_non_null(json);
    if (said != NULL) {
        (void)json_object_set_new(
            json_object_get(json_object_get(json, "metadata"), "annotations"),
            WP_ANNOTATION_ALPHA_CLAIM, json_string(said));
    }
    text = json_dumps(json, 0);
    made = object(WP_KIND_SANDBOX_CLAIM, text);
    free(text);
    json_decref(json);
    return made;
}

/* --- Its template --- */

#define LONG_253                                                               \
    "x123456789x123456789x123456789x123456789x123456789x123456789x123"         \
    "456789x123456789x123456789x123456789x123456789x123456789x1234567"         \
    "89x123456789x123456789x123456789x123456789x123456789x123456789x1"         \
    "23456789x123456789x123456789x123456789x123456789x123456789x12"
#define SAYS(templ, more)                                                      \
    "{\"spec\":{\"sandboxTemplateRef\":{\"name\":\"" templ "\"}" more "}}"

static void
the_template_that_a_claim_names(void **state)
{
    static const struct {
        const char *pool;
        const char *said;
        const char *templ;
        bool names;
        bool any;
    } rows[] = {
        {"p", NULL, "", false, false},
        {"", NULL, "", false, false},
        {"shadow-pool-t", NULL, "t", true, true},
        {"shadow-poolt", NULL, "", false, false},
        {"shadow-pool-" LONG_253, NULL, LONG_253, true, true},
        {"shadow-pool-" LONG_253 "4", NULL, "", false, false},
        {"p", SAYS("t", ""), "t", true, true},
        {"p", SAYS("t", ",\"warmpool\":\"default\""), "t", true, true},
        {"p", SAYS("t", ",\"warmpool\":\"none\""), "t", true, false},
        {"p", SAYS("t", ",\"warmpool\":7"), "t", true, true},
        {"shadow-pool-t", SAYS("u", ",\"warmpool\":\"none\""), "t", true,
         false},
        {"p", SAYS("", ""), "", false, false},
        {"p", SAYS(LONG_253, ""), LONG_253, true, true},
        {"p", SAYS(LONG_253 "4", ""), "", false, false},
        {"p", "{\"spec\":{}}", "", false, false},
        {"p", "{}", "", false, false},
        {"p", "{", "", false, false},
        {"p", "", "", false, false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_object *claim = claim_of(rows[i].pool, rows[i].said);
        char templ[WP_CLAIM_OBJECT_NAME_MAX + 1];

        (void)snprintf(templ, sizeof templ, "before");
        assert_int_equal(wp_claim_names_template(claim, templ), rows[i].names);
        assert_string_equal(templ, rows[i].templ);
        (void)snprintf(templ, sizeof templ, "before");
        assert_int_equal(wp_claim_means_any_pool(claim, templ), rows[i].any);
        assert_string_equal(templ, rows[i].templ);
        wp_object_unref(claim);
    }
}

/* --- Its pool --- */

#define GOING ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\""
#define KEPT ",\"annotations\":{\"" WP_ANNOTATION_TENANT "\":\"x\"}"

/* One of each that it may not have, however they are walked. */
static void
put_what_is_not_to_be_had(void)
{
    put_pool("ns", "ready7-going", "t", GOING);
    put_pool("ns", "ready7-kept", "t", KEPT);
    put_pool("ns", "ready7-other", "u", "");
    put_pool("other", "ready7-there", "t", "");
}

static void
means(const char *pool, const char *said, const char *expected)
{
    struct wp_object *claim = claim_of(pool, said);
    const struct wp_object *found;
    const struct wp_object *templ;
    const char *name;
    char text[1024];

    reconcile.claim = claim;
    entry.ask = asked_pool != NULL ? (void *)&asked_pool : NULL;
    wp_claim_resolve(&reconcile);
    found = wp_claim_reconcile_pool(&reconcile);
    name = wp_claim_reconcile_template_name(&reconcile);
    templ = wp_claim_reconcile_template(&reconcile);
    (void)snprintf(text, sizeof text, "%s %s%s template %s %s", reconcile.pool,
                   found != NULL ? "known" : "unknown",
                   reconcile.by_template ? " by template" : "",
                   name != NULL ? name : "none",
                   templ == NULL ? "unknown" : templ->name);
    assert_string_equal(text, expected);
    if (found != NULL) {
        assert_string_equal(found->name, reconcile.pool);
        assert_string_equal(found->ns, "ns");
    }
    wp_object_unref(claim);
}

static void
put_template(const char *ns)
{
    char text[256];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"t\","
                   "\"uid\":\"tu-%s\",\"resourceVersion\":\"1\"},\"spec\":{}}",
                   ns, ns);
    wp_store_put(parts.stores[WP_KIND_SANDBOX_TEMPLATE],
                 object(WP_KIND_SANDBOX_TEMPLATE, text));
}

static void
a_pool_that_is_named_is_meant(void **state)
{
    (void)state;
    means("p", NULL, "p unknown template none unknown");
    put_what_is_not_to_be_had();
    put_template("other");
    means("p", NULL, "p unknown template none unknown");
    means("ready7-there", NULL, "ready7-there unknown template none unknown");
    means("ready7-kept", NULL, "ready7-kept known template t unknown");
    put_template("ns");
    means("ready7-kept", NULL, "ready7-kept known template t t");
    means("ready7-other", NULL, "ready7-other known template u unknown");
    means(LONG_253, NULL, LONG_253 " unknown template none unknown");
    means(LONG_253 "4", NULL, " unknown template none unknown");
    /* What is asked of the core says nothing of it. */
    asked_pool = "ready7-kept";
    means("p", NULL, "p unknown template none unknown");
}

static void
the_most_ready_pool_of_a_template_is_meant(void **state)
{
    char name[32];

    (void)state;
    put_template("ns");
    put_what_is_not_to_be_had();
    means("shadow-pool-t", NULL, " unknown by template template t t");
    put_pool("ns", "unknown0", "t", "");
    means("shadow-pool-t", NULL, "unknown0 known by template template t t");
    for (int i = 1; i < 20; i++) {
        (void)snprintf(name, sizeof name, "unknown%d", i);
        put_pool("ns", name, "t", "");
        (void)snprintf(name, sizeof name, "ready%d-%d", i % 4, i);
        put_pool("ns", name, "t", "");
    }
    put_pool("ns", "ready4", "t", "");
    for (int i = 20; i < 40; i++) {
        (void)snprintf(name, sizeof name, "ready%d-%d", i % 6 == 4 ? 5 : i % 6,
                       i);
        put_pool("ns", name, "t", "");
    }
    means("shadow-pool-t", NULL, "ready4 known by template template t t");
    means("gone", SAYS("t", ",\"warmpool\":\"gone\""),
          "ready4 known by template template t t");
    /* One that is there is meant, though another has more. */
    means("ready1-1", SAYS("t", ",\"warmpool\":\"ready1-1\""),
          "ready1-1 known by template template t t");
    means("shadow-pool-t", SAYS("t", ",\"warmpool\":\"none\""),
          " unknown by template template t t");
    means("shadow-pool-v", NULL, " unknown by template template v unknown");
}

/* A claim that waits goes on to wait where it does. */
static void
the_pool_that_was_asked_is_meant(void **state)
{
    (void)state;
    put_template("ns");
    put_pool("ns", "ready2", "t", "");
    put_pool("ns", "ready1", "t", "");
    asked_pool = "ready2";
    means("shadow-pool-t", NULL, "ready2 known by template template t t");
    asked_pool = "gone";
    means("shadow-pool-t", NULL, "ready1 known by template template t t");
    asked_pool = "ready2";
    means("ready1", SAYS("t", ""), "ready2 known by template template t t");
    means("ready1", SAYS("t", ",\"warmpool\":\"none\""),
          " unknown by template template t t");
}

/* --- Its Sandbox --- */

static void
put_sandbox(const char *name, const char *kind, const char *owner,
            const char *uid, const char *more)
{
    char text[1024];

    (void)snprintf(
        text, sizeof text,
        "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",\"uid\":\"su-%s\","
        "\"resourceVersion\":\"1\"%s,\"ownerReferences\":[{\"apiVersion\":"
        "\"extensions.agents.x-k8s.io/v1beta1\",\"kind\":\"%s\",\"name\":"
        "\"%s\",\"uid\":\"%s\",\"controller\":true}]},\"spec\":{}}",
        name, name, more, kind, owner, uid);
    wp_store_put(parts.stores[WP_KIND_SANDBOX], object(WP_KIND_SANDBOX, text));
}

/* bound: in its status; metadata: more of it. */
static void
has(const char *uid, const char *pool, const char *bound, const char *metadata,
    const char *expected)
{
    static const char *const holdings[] = {
        [WP_HOLDS_NOTHING] = "nothing", [WP_HOLDS_SANDBOX] = "sandbox",
        [WP_HOLDS_HALF] = "half",       [WP_HOLDS_UNKNOWN] = "unknown",
        [WP_HOLDS_STALE] = "stale",     [WP_HOLDS_FOREIGN] = "foreign"};
    const struct wp_object *sandbox = NULL;
    const char *name = "";
    enum wp_claim_holding holding;
    struct wp_object *claim;
    char text[1024];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c\",\"uid\":"
                   "\"%s\"%s},\"spec\":{\"warmPoolRef\":{\"name\":\"%s\"}},"
                   "\"status\":{\"sandbox\":{\"name\":\"%s\"}}}",
                   uid, metadata, pool, bound);
    claim = object(WP_KIND_SANDBOX_CLAIM, text);
    holding = wp_claim_look_up(&self, claim, &sandbox, &name);
    (void)snprintf(text, sizeof text, "%s: %s, names %s", holdings[holding],
                   sandbox != NULL ? sandbox->name : "none",
                   name[0] != '\0' ? name : "none");
    assert_string_equal(text, expected);
    wp_object_unref(claim);
}

#define RESERVED(name)                                                         \
    ",\"annotations\":{\"" WP_ANNOTATION_SANDBOX_NAME "\":\"" name "\"}"
#define LABELLED(name)                                                         \
    ",\"labels\":{\"" WP_ANNOTATION_SANDBOX_NAME "\":\"" name "\"}"

static void
the_sandbox_that_a_claim_has(void **state)
{
    (void)state;
    put_sandbox("mine", "SandboxClaim", "c", "cu", "");
    put_sandbox("other", "SandboxClaim", "d", "du", "");
    put_sandbox("c", "Job", "c", "ju", "");
    has("cu", "p", "mine", "", "sandbox: mine, names none");
    /* What it controls counts, whatever is named. */
    has("cu", "p", "", "", "sandbox: mine, names none");
    has("cu", "p", "gone", "", "sandbox: mine, names none");
    has("cu", "p", "other", "", "sandbox: mine, names none");
    has("cu", "p", "", RESERVED("gone"), "sandbox: mine, names none");
    has("bu", "p", "gone", "", "unknown: none, names gone");
    has("bu", "p", "gone", RESERVED("other"), "unknown: none, names gone");
    has("bu", "p", "", RESERVED("gone"), "unknown: none, names gone");
    /* Somebody else's; and that of its own name stands in its way. */
    has("bu", "p", "other", "", "foreign: c, names none");
    has("bu", "p", "", "", "foreign: c, names none");
    has("bu", "p", "", RESERVED("other"), "stale: other, names other");
    has("bu", "p", "", LABELLED("other"), "stale: other, names other");
    has("bu", "p", "", RESERVED("") LABELLED("other"),
        "stale: other, names other");
    has("bu", "p", "", RESERVED("gone") LABELLED("other"),
        "unknown: none, names gone");
    has("bu", "p", "", RESERVED("c"), "foreign: c, names c");
}

static void
it_has_nothing(void **state)
{
    (void)state;
    put_sandbox("other", "SandboxClaim", "d", "du", "");
    put_sandbox("job", "Job", "j", "ju", "");
    has("cu", "p", "", "", "nothing: none, names none");
    has("cu", "p", "other", "", "nothing: none, names none");
    has("cu", "p", "", RESERVED("job"), "nothing: none, names job");
}

/* Of several of its own, the first that stays. */
static void
the_first_that_stays_is_its_own(void **state)
{
    (void)state;
    put_sandbox("s1", "SandboxClaim", "c", "cu", GOING);
    put_sandbox("s2", "SandboxClaim", "c", "cu", GOING);
    has("cu", "p", "", "", "sandbox: s1, names none");
    put_sandbox("s3", "SandboxClaim", "c", "cu", "");
    put_sandbox("s4", "SandboxClaim", "c", "cu", "");
    put_sandbox("s5", "SandboxClaim", "c", "cu", GOING);
    has("cu", "p", "", "", "sandbox: s3, names none");
    has("cu", "p", "s1", "", "sandbox: s1, names none");
}

static void
a_sandbox_that_is_reserved_for_it(void **state)
{
    (void)state;
    put_sandbox("warm", "SandboxWarmPool", "q", "qu", "");
    put_sandbox("going", "SandboxWarmPool", "q", "qu", GOING);
    /* The pool is not known: its name has to do. */
    has("cu", "q", "", RESERVED("warm"), "half: warm, names warm");
    has("cu", "p", "", RESERVED("warm"), "stale: warm, names warm");
    has("cu", "q", "", RESERVED("going"), "stale: going, names going");
    has("cu", "shadow-pool-t", "", RESERVED("warm"), "stale: warm, names warm");
    put_pool("ns", "q", "t", "");
    has("cu", "q", "", RESERVED("warm"), "half: warm, names warm");
    has("cu", "p", "", RESERVED("warm"), "stale: warm, names warm");
    has("cu", "q", "", RESERVED("going"), "stale: going, names going");
    has("cu", "shadow-pool-t", "", RESERVED("warm"), "half: warm, names warm");
    has("cu", "shadow-pool-u", "", RESERVED("warm"), "stale: warm, names warm");
    put_sandbox("late", "SandboxClaim", "c", "cu", "");
    has("cu", "p", "", RESERVED("late"), "sandbox: late, names none");
}

/* --- Answers --- */

static void
what_a_status_says_of_a_write(void **state)
{
    static const char *const fates[] = {[WP_FATE_DONE] = "done",
                                        [WP_FATE_LOOK] = "look",
                                        [WP_FATE_REFUSED] = "refused",
                                        [WP_FATE_RETRY] = "retry",
                                        [WP_FATE_STOP] = "stop"};
    char text[1024] = "";

    (void)state;
    for (int status = 0; status < WP_STATUS_COUNT; status++) {
        size_t len = strlen(text);

        (void)snprintf(text + len, sizeof text - len, "%s: %s\n",
                       wp_status_text((enum wp_status)status),
                       fates[wp_claim_fate((enum wp_status)status)]);
    }
    assert_string_equal(text, "ok: done\n"
                              "pending: retry\n"
                              "cancelled: stop\n"
                              "invalid argument: refused\n"
                              "deadline exceeded: retry\n"
                              "not found: look\n"
                              "already exists: look\n"
                              "permission denied: refused\n"
                              "resource exhausted: retry\n"
                              "failed precondition: retry\n"
                              "aborted: look\n"
                              "unimplemented: retry\n"
                              "internal: retry\n"
                              "unavailable: retry\n"
                              "unauthenticated: retry\n"
                              "taken by another: retry\n"
                              "outcome unknown: look\n");
}

/* Of the answer: its object; "none": there is none. */
static void
learns(enum wp_status status, const char *text, const char *version,
       const char *uid, const char *said)
{
    json_t *json = text != NULL ? json_loads(text, 0, NULL) : NULL;
    const struct wp_api_result result = {
        .status = status, .kind = WP_KIND_SANDBOX, .object = json};
    const struct wp_object *learned;
    static struct heard heard;

    heard_begin(&heard);
    learned = wp_claim_learn(&self, &result);
    assert_string_equal(heard_end(&heard), said);
    assert_string_equal(learned != NULL ? learned->resource_version : "none",
                        version);
    assert_string_equal(learned != NULL ? learned->uid : "none", uid);
    wp_object_unref(learned);
    json_decref(json);
}

#define ANSWER(version, uid, more)                                             \
    "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"s\",\"uid\":\"" uid        \
    "\",\"resourceVersion\":\"" version "\"" more "},\"spec\":{}}"

/* The version that the store has; "none". */
static void
knows(const char *version)
{
    const struct wp_object *known =
        wp_store_find(parts.stores[WP_KIND_SANDBOX], "ns", "s");

    assert_string_equal(known != NULL ? known->resource_version : "none",
                        version);
}

static void
the_newest_is_learned_of_an_answer(void **state)
{
    (void)state;
    learns(WP_UNAVAILABLE, ANSWER("5", "u", ""), "none", "none", "");
    learns(WP_OK, NULL, "none", "none", "");
    learns(WP_OK, "{\"metadata\":{}}", "none", "none",
           "WARN claim: an answer makes no sense kind=Sandbox "
           "error=\"Sandbox: metadata.name: expected a name\"\n");
    learns(WP_OK,
           ANSWER("5", "u", ",\"labels\":{\"" WP_LABEL_ALIAS "\":\"x\"}"),
           "none", "none", "");
    knows("none");
    learns(WP_OK, ANSWER("5", "u", ""), "5", "u", "");
    knows("5");
    learns(WP_OK, ANSWER("6", "u", ""), "6", "u", "");
    knows("6");
    /* What is known is newer, or the same. */
    learns(WP_OK, ANSWER("5", "u", ""), "6", "u", "");
    learns(WP_OK, ANSWER("6", "u", ""), "6", "u", "");
    knows("6");
    /* Another one of its name is not it. */
    learns(WP_OK, ANSWER("4", "v", ""), "4", "v", "");
    knows("6");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int
main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_template_that_a_claim_names),
        TEST(a_pool_that_is_named_is_meant),
        TEST(the_most_ready_pool_of_a_template_is_meant),
        TEST(the_pool_that_was_asked_is_meant),
        TEST(the_sandbox_that_a_claim_has),
        TEST(it_has_nothing),
        TEST(the_first_that_stays_is_its_own),
        TEST(a_sandbox_that_is_reserved_for_it),
        TEST(what_a_status_says_of_a_write),
        TEST(the_newest_is_learned_of_an_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
