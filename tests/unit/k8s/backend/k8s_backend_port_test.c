/* What the core asks of the cluster's backend and is told by it, and what a
 * replica does that begins to lead, all of it compared with a text. */
#include "tests/unit/k8s/backend/world.h"

#define COMPARE(name) compare(WP_TEST_FOLDER "/" name)

static const uint8_t uid[WP_UID_LEN] = {[6] = 0x40, [8] = 0x80, [15] = 1};

static struct wp_backend
port(void)
{
    return wp_cluster_backend_port(backend);
}

/* So many characters; valid until the next call but three. */
static struct wp_str
longest(size_t len)
{
    static char texts[4][256];
    static unsigned n;
    char *text = texts[n++ % WP_ARRAY_LEN(texts)];

    memset(text, 'a', len);
    return (struct wp_str){text, len};
}

/* --- Orders and ends --- */

static struct wp_sandbox_order
order_of(const char *name)
{
    return (struct wp_sandbox_order){.ref = REF,
                                     .pool_namespace = WP_STR("ns"),
                                     .pool = WP_STR("p"),
                                     .name = wp_str_from(name),
                                     .uid = uid};
}

static void
order(const char *what, const struct wp_sandbox_order *of)
{
    struct wp_err err = {.msg = ""};
    enum wp_status status;

    step(what);
    status = port().ops->create(port().self, of, &err);
    golden_add(&golden, " = %s \"%s\"", wp_status_text(status), err.msg);
    run_cluster();
    show("s");
}

static void
an_order_becomes_an_entry(void **state)
{
    struct wp_sandbox_order of = order_of("s");

    (void)state;
    begin();
    assert_string_equal(port().ops->name, "kubernetes");
    assert_true(port().ops->foreign);
    order("an order", &of);
    of.ref.index = 6;
    order("of the same name", &of);
    of = order_of("other");
    order("of the same slot", &of);
    of.ref = (struct wp_slot_ref){7, 1};
    core.index = UINT32_MAX;
    order("of a pool that is not known", &of);
    of = order_of("last");
    of.ref.index = 8;
    order("of a slot beyond all", &of);
    end();
    COMPARE("orders.txt");
}

static void
names_are_as_long_as_they_may_be(void **state)
{
    static const struct {
        const char *what;
        size_t ns;
        size_t pool;
        size_t name;
    } rows[] = {
        {"longest", WP_NAMESPACE_MAX, WP_POOL_NAME_MAX, WP_SANDBOX_NAME_MAX},
        {"namespace", WP_NAMESPACE_MAX + 1, 1, 1},
        {"pool", 1, WP_POOL_NAME_MAX + 1, 1},
        {"name", 1, 1, WP_SANDBOX_NAME_MAX + 1},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_sandbox_order of = order_of("s");

        begin();
        of.pool_namespace = longest(rows[i].ns);
        of.pool = longest(rows[i].pool);
        of.name = longest(rows[i].name);
        order(rows[i].what, &of);
        end();
    }
    COMPARE("order_names.txt");
}

static void
destroy(const char *what, struct wp_slot_ref ref)
{
    enum wp_status status;

    step(what);
    status = port().ops->destroy(port().self, ref);
    golden_add(&golden, " = %s", wp_status_text(status));
    run_cluster();
    show("s");
}

static void
an_end_is_wanted_of_what_is_there(void **state)
{
    (void)state;
    begin();
    add_entry("s", 1, WP_SANDBOX_READY)->binding = (void *)&parts_[1];
    destroy("another slot", (struct wp_slot_ref){4, 3});
    destroy("an earlier one", (struct wp_slot_ref){5, 2});
    destroy("its own", REF);
    end();
    COMPARE("ends.txt");
}

/* At the bound, and one below; and without memory. */
static void
what_waits_is_bounded(void **state)
{
    struct wp_sandbox_order of = order_of("s");

    (void)state;
    begin();
    waiting = parts.config.sandboxes_max;
    order("an order too many", &of);
    destroy("an end too many", REF);
    waiting--;
    order("one more order", &of);
    destroy("one more end", REF);
    waiting = 0;
    fail_at = made + 1;
    order("no memory for an order", &of);
    fail_at = made + 1;
    destroy("no memory for an end", REF);
    end();
    COMPARE("bounds.txt");
}

/* --- Leases --- */

static const struct wp_lease_notice notice = {.ref = {5, 3},
                                              .uid = uid,
                                              .pool_namespace = {"ns", 2},
                                              .pool = {"p", 1},
                                              .sandbox = {"s", 1},
                                              .claim_id = {"job", 3},
                                              .tenant = {"team", 4},
                                              .fence = 7,
                                              .deadline_wall_ms =
                                                  WALL_MS + 60000,
                                              .granted_wall_ms = WALL_MS - 5,
                                              .fingerprint = 0xabc,
                                              .served = 2};

static void
lease(const char *what, const struct wp_lease_notice *of)
{
    step(what);
    port().ops->leased(port().self, of);
    run_cluster();
    show("s");
}

#define ALL_OF_IT                                                              \
    ",\\\"request\\\":\\\"0000000000000abc\\\",\\\"served\\\":2"               \
    ",\\\"until\\\":2000070000,\\\"granted\\\":1,\\\"pool\\\":\\\"q\\\","      \
    "\\\"audience\\\":\\\"aud\\\",\\\"identityTtl\\\":5,"                      \
    "\\\"identitySeal\\\":"                                                    \
    "\\\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\\\""

static void
a_lease_is_kept_until_it_is_written(void **state)
{
    static const struct {
        const char *what;
        const char *meta; /* Of the Sandbox; NULL: there is none. */
        int64_t deadline_wall_ms;
        uint64_t fence;
        const char *tenant;
        const char *claim_id;
        bool identity;
    } rows[] = {
        {"no Sandbox", NULL, WALL_MS + 60000, 7, "team", "job", false},
        {"with an identity", NULL, WALL_MS + 60000, 7, "team", "job", true},
        {"just over", NULL, WALL_MS, 7, "team", "job", false},
        {"over", NULL, WALL_MS - 1, 7, "team", "job", false},
        {"a last millisecond", NULL, WALL_MS + 1, 7, "team", "job", false},
        {"without an end", NULL, WP_WALL_NEVER_MS, 7, "team", "job", false},
        {"as long as may be", NULL, (WP_WALL_NEVER_MS + WALL_MS) / 2, 7, "team",
         "job", false},
        {"a millisecond less", NULL, (WP_WALL_NEVER_MS + WALL_MS) / 2 - 1, 7,
         "team", "job", false},
        {"in its pool", POOLED, WALL_MS + 60000, 7, "team", "job", false},
        {"noted", NOTED(ALL_OF_IT), WALL_MS + 60000, 7, "team", "job", false},
        {"noted for longer", NOTED(ALL_OF_IT), WALL_MS + 70000, 7, "team",
         "job", false},
        {"noted for less", NOTED(ALL_OF_IT), WALL_MS + 70001, 7, "team", "job",
         false},
        {"of another fence", NOTED(ALL_OF_IT), WALL_MS + 60000, 8, "team",
         "job", false},
        {"of another tenant", NOTED(ALL_OF_IT), WALL_MS + 60000, 7, "teams",
         "job", false},
        {"of another claim", NOTED(ALL_OF_IT), WALL_MS + 60000, 7, "team",
         "jobs", false},
        {"of another identity", NOTED(ALL_OF_IT), WALL_MS + 60000, 7, "team",
         "job", true},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_lease_notice of = notice;
        struct wp_sandbox_ref *entry;

        begin();
        if (rows[i].meta != NULL) {
            put_sandbox("s", "01", rows[i].meta, READY);
        }
        entry = add_entry("s", 1, WP_SANDBOX_READY);
        entry->identity = rows[i].identity ? (void *)&parts_[2] : NULL;
        of.deadline_wall_ms = rows[i].deadline_wall_ms;
        of.fence = rows[i].fence;
        of.tenant = wp_str_from(rows[i].tenant);
        of.claim_id = wp_str_from(rows[i].claim_id);
        lease(rows[i].what, &of);
        if (rows[i].meta != NULL) {
            golden_add(
                &golden, "    to be written: %d\n",
                wp_backend_must_adopt(
                    backend, entry,
                    wp_store_find(parts.stores[WP_KIND_SANDBOX], "ns", "s")));
        }
        /* The next one is written over it. */
        of.fence++;
        lease("and a later one", &of);
        end();
    }
    COMPARE("leases.txt");
}

static void
a_lease_that_does_not_fit_is_left(void **state)
{
    static const size_t max[] = {WP_NAMESPACE_MAX, WP_POOL_NAME_MAX,
                                 WP_SANDBOX_NAME_MAX, WP_CLAIM_ID_MAX,
                                 WP_TENANT_MAX};

    (void)state;
    for (size_t i = 0; i <= WP_ARRAY_LEN(max); i++) {
        struct wp_lease_notice of = notice;
        struct wp_str *texts[] = {&of.pool_namespace, &of.pool, &of.sandbox,
                                  &of.claim_id, &of.tenant};

        begin();
        if (i < WP_ARRAY_LEN(max)) {
            *texts[i] = longest(max[i]);
            lease("longest", &of);
            *texts[i] = longest(max[i] + 1);
            lease("too long", &of);
        } else {
            fail_at = made + 1;
            lease("no memory", &of);
        }
        end();
    }
    COMPARE("lease_texts.txt");
}

/* The core has read of a lease on a Sandbox that has no entry here. */
static void
a_lease_that_comes_late_finds_its_sandbox(void **state)
{
    static const struct {
        const char *what;
        const char *uid;
        const char *meta; /* NULL: there is none. */
        bool follows;
        bool doubtful;
    } rows[] = {
        {"in its pool", "01", POOLED, false, false},
        {"out of its pool", "01", NOTED(""), false, false},
        {"gone", NULL, NULL, false, false},
        {"another one", "02", POOLED, false, false},
        {"going", "01", POOLED ",'deletionTimestamp':'2026-01-01T00:00:00Z'",
         false, false},
        {"without a uid", "zz", POOLED, false, false},
        {"not led", "01", POOLED, true, false},
        {"in doubt", "01", POOLED, false, true},
        {"gone, not led", NULL, NULL, true, false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        begin();
        if (rows[i].meta != NULL) {
            put_sandbox("s", rows[i].uid, rows[i].meta, READY);
        }
        parts.active = !rows[i].follows;
        backend->doubtful = rows[i].doubtful;
        lease(rows[i].what, &notice);
        end();
    }
    COMPARE("leases_late.txt");
}

/* --- Orphans --- */

static void
a_lease_that_nobody_knows_ends_when_it_says(void **state)
{
    static const struct {
        const char *what;
        const char *meta;
        int64_t now_wall_ms;
        enum wp_status get;
        const char *sandbox;
    } rows[] = {
        {"known", NOTED(""), WALL_MS, WP_OK, "s"},
        {"known of another", NOTED(""), WALL_MS, WP_OK, "t"},
        {"a last millisecond", NOTED(""), WALL_MS + 59999, WP_NOT_FOUND, "s"},
        {"over", NOTED(""), WALL_MS + 60000, WP_NOT_FOUND, "s"},
        {"long over", NOTED(""), WALL_MS + 600000, WP_NOT_FOUND, "s"},
        {"for a month", NOTED(",\\\"until\\\":4592000000"), WALL_MS,
         WP_NOT_FOUND, "s"},
        {"for longer", NOTED(",\\\"until\\\":4592000001"), WALL_MS,
         WP_NOT_FOUND, "s"},
        {"nearly for ever", NOTED(",\\\"until\\\":253402300798999"), WALL_MS,
         WP_NOT_FOUND, "s"},
        {"for ever", NOTED(",\\\"until\\\":253402300799000"), WALL_MS,
         WP_NOT_FOUND, "s"},
        {"going", NOTED("") ",'deletionTimestamp':'2026-01-01T00:00:00Z'",
         WALL_MS + 600000, WP_NOT_FOUND, "s"},
        {"of a claim", CLAIMED "," NOTED(""), WALL_MS + 600000, WP_NOT_FOUND,
         "s"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        begin();
        put_sandbox("s", "01", rows[i].meta, READY);
        clock_.now_wall_ns = rows[i].now_wall_ms * WP_NS_PER_MS;
        core.get = rows[i].get;
        (void)snprintf(core.info.sandbox, sizeof core.info.sandbox, "%s",
                       rows[i].sandbox);
        step(rows[i].what);
        look("s");
        show("s");
        end();
    }
    COMPARE("orphans.txt");
}

/* --- Whom the core knows --- */

enum {
    KNOWS = 1,
    ENDS = 2,
    SEEN = 4,
    FOUND = 8,
    NO_POOL = 16,
};

static void
ask(const char *what, const char *name, int says)
{
    core.knows = (says & KNOWS) != 0;
    core.ends = (says & ENDS) != 0;
    core.seen = (says & SEEN) != 0;
    core.found = (says & FOUND) != 0;
    core.index = (says & NO_POOL) != 0 ? UINT32_MAX : 0;
    step(what);
    wp_backend_ask(backend,
                   wp_store_find(parts.stores[WP_KIND_SANDBOX], "ns", name));
    run_control();
    run_cluster();
    show(name);
}

static void
the_core_is_asked_for_its_slot(void **state)
{
    static const struct {
        const char *what;
        const char *meta;
        const char *status;
        int says;
        int64_t later_ns;
    } rows[] = {
        {"seen, ready", POOLED, READY, SEEN, 0},
        {"seen, not ready", POOLED, "", SEEN, 0},
        {"new, ready", POOLED, READY, FOUND, 0},
        {"new, not ready", POOLED, "", FOUND, 0},
        {"new, old", POOLED, "", FOUND, 40 * S - 1},
        {"new, too old", POOLED, "", FOUND, 40 * S},
        {"new, much too old", POOLED, "", FOUND, 400 * S},
        {"not known", POOLED, READY, 0, 0},
        {"ending", POOLED, READY, ENDS | SEEN | FOUND, 0},
        {"of no pool", POOLED, READY, NO_POOL, 0},
        {"noted, seen", NOTED(""), READY, SEEN, 0},
        {"noted, would be found", NOTED(""), READY, FOUND, 0},
        {"noted, ending", NOTED(""), READY, ENDS | SEEN, 0},
        {"claimed", CLAIMED, READY, SEEN, 0},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        begin();
        put_sandbox("s", "01", rows[i].meta, rows[i].status);
        clock_.now_wall_ns += rows[i].later_ns;
        ask(rows[i].what, "s", rows[i].says);
        ask("again", "s", rows[i].says);
        end();
    }
    COMPARE("asks.txt");
}

/* It goes while the core is asked; or its slot is another's here. */
static void
what_changes_meanwhile_is_seen(void **state)
{
    (void)state;
    for (int pooled = 0; pooled < 2; pooled++) {
        const struct wp_object *sandbox;

        begin();
        put_sandbox("s", "01", pooled == 1 ? POOLED : NOTED(""), READY);
        core.seen = true;
        sandbox = wp_store_find(parts.stores[WP_KIND_SANDBOX], "ns", "s");
        step("it has gone");
        wp_backend_ask(backend, sandbox);
        run_control();
        wp_store_remove(parts.stores[WP_KIND_SANDBOX], sandbox);
        run_cluster();
        show("s");
        end();
    }
    begin();
    (void)add_entry("t", 2, WP_SANDBOX_READY);
    put_sandbox("s", "01", POOLED, READY);
    ask("no place", "s", SEEN);
    end();
    COMPARE("asks_late.txt");
}

static void
what_does_not_fit_the_core_cannot_know(void **state)
{
    static const struct {
        const char *what;
        size_t name;
        const char *meta;
    } rows[] = {
        {"longest", WP_SANDBOX_NAME_MAX, POOLED},
        {"too long", WP_SANDBOX_NAME_MAX + 1, POOLED},
        {"no uid", 1, POOLED ",'annotations':{'" WP_ANNOTATION_UID "':'x'}"},
        {"its own uid", 1,
         POOLED ",'annotations':{'" WP_ANNOTATION_UID
                "':'000102030405060708090a0b0c0d0e0f'}"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        char name[WP_SANDBOX_NAME_MAX + 2] = "";

        begin();
        memset(name, 'a', rows[i].name);
        put_sandbox(name, strcmp(rows[i].what, "no uid") == 0 ? "zz" : "01",
                    rows[i].meta, READY);
        ask(rows[i].what, name, FOUND);
        end();
    }
    COMPARE("asks_fit.txt");
}

static void
a_lease_is_rebuilt_from_its_sandbox(void **state)
{
    static const struct {
        const char *what;
        bool rebuilds;
        const char *meta;
        const char *status;
        int says;
    } rows[] = {
        {"all of it", true, NOTED(ALL_OF_IT), READY, SEEN},
        {"known already", true, NOTED(ALL_OF_IT), READY, SEEN | KNOWS},
        {"without address", true, NOTED(ALL_OF_IT), "", SEEN},
        {"no address", true, NOTED(ALL_OF_IT),
         STATUS(
             "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'",
             ""),
         SEEN},
        {"the store keeps them", false, NOTED(ALL_OF_IT), READY, SEEN},
        {"of an older version", true, NOTED(""), READY, SEEN},
        {"in its pool", true, POOLED, READY, SEEN},
        {"going", true,
         NOTED(ALL_OF_IT) ",'deletionTimestamp':'2026-01-01T00:00:00Z'", READY,
         SEEN},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        begin();
        parts.config.rebuild_leases = rows[i].rebuilds;
        put_sandbox("s", "01", rows[i].meta, rows[i].status);
        ask(rows[i].what, "s", rows[i].says);
        end();
    }
    COMPARE("rebuilt.txt");
}

/* --- What the stores tell --- */

static void
changes_of_sandboxes_are_looked_at(void **state)
{
    static const char *const metas[] = {POOLED, NOTED(""), CLAIMED, ""};

    (void)state;
    for (size_t i = 0; i < 4 * WP_ARRAY_LEN(metas); i++) {
        const char *meta = metas[i / 4];
        bool known = i % 2 == 1;

        begin();
        parts.active = i % 4 < 2;
        if (known) {
            (void)add_entry("s", 1, WP_SANDBOX_READY);
        }
        step(meta[0] != '\0' ? meta : "of nobody");
        golden_add(&golden, "%s%s:", known ? " known" : "",
                   parts.active ? "" : " not led");
        put_sandbox("s", "01", meta, READY);
        golden_add(&golden, "; gone:");
        wp_store_remove(
            parts.stores[WP_KIND_SANDBOX],
            wp_store_find(parts.stores[WP_KIND_SANDBOX], "ns", "s"));
        show("s");
        end();
    }
    COMPARE("changes.txt");
}

static void
pool(const char *what, const char *text)
{
    step(what);
    put(WP_KIND_SANDBOX_WARM_POOL, text);
    show("s");
}

static void
a_pool_that_is_another_has_its_sandboxes_looked_at(void **state)
{
    (void)state;
    for (int active = 0; active < 2; active++) {
        begin();
        put_sandbox("s", "01", POOLED, READY);
        put_sandbox("t", "02", POOLED, READY);
        put_sandbox("u", "03", POOLED, READY);
        put_sandbox("other", "04",
                    OWNER("SandboxWarmPool", "q",
                          "q-uid") ",'labels':{'" WP_LABEL_WARM_POOL "':'x'}",
                    READY);
        (void)add_entry("s", 1, WP_SANDBOX_READY);
        (void)wp_sandbox_refs_add(
            backend->refs,
            &(struct wp_sandbox_ref){.ref = {6, 1}, .ns = "ns", .name = "u"});
        (void)wp_sandbox_refs_add(
            backend->refs, &(struct wp_sandbox_ref){
                               .ref = {7, 1}, .ns = "ns", .name = "other"});
        parts.active = active == 1;
        pool("it comes", POOL("p-uid"));
        pool("it changes", "{'metadata':{'namespace':'ns','name':'p','uid':"
                           "'p-uid','resourceVersion':'2'},'spec':{}}");
        pool("it is another", "{'metadata':{'namespace':'ns','name':'p','uid':"
                              "'r-uid','resourceVersion':'3'},'spec':{}}");
        step("it goes");
        wp_store_remove(
            parts.stores[WP_KIND_SANDBOX_WARM_POOL],
            wp_store_find(parts.stores[WP_KIND_SANDBOX_WARM_POOL], "ns", "p"));
        show("s");
        end();
    }
    COMPARE("pools.txt");
}

static void
add_pool(const char *what, const char *pool_uid)
{
    step(what);
    wp_cluster_backend_pool_added(backend, pool_uid);
    run_cluster();
    golden_add(&golden, " then");
    run_control();
    run_cluster();
    show("s");
}

static void
a_pool_that_came_has_its_sandboxes_counted(void **state)
{
    char text[WP_SANDBOX_NAME_MAX + 2];

    (void)state;
    begin();
    memset(text, 'u', sizeof text);
    text[sizeof text - 2] = '\0';
    add_pool("none, of the longest uid", text);
    text[sizeof text - 2] = 'u';
    text[sizeof text - 1] = '\0';
    add_pool("none, of one that is none", text);
    put_sandbox("s", "01", POOLED ",'deletionTimestamp':'2026-01-01T00:00:00Z'",
                READY);
    add_pool("of one that goes", "p-uid");
    put_sandbox("t", "02", POOLED, READY);
    add_pool("of two", "p-uid");
    add_pool("of another pool", "q-uid");
    parts.active = false;
    add_pool("not led", "p-uid");
    end();
    COMPARE("pools_added.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_order_becomes_an_entry),
        cmocka_unit_test(names_are_as_long_as_they_may_be),
        cmocka_unit_test(an_end_is_wanted_of_what_is_there),
        cmocka_unit_test(what_waits_is_bounded),
        cmocka_unit_test(a_lease_is_kept_until_it_is_written),
        cmocka_unit_test(a_lease_that_does_not_fit_is_left),
        cmocka_unit_test(a_lease_that_comes_late_finds_its_sandbox),
        cmocka_unit_test(a_lease_that_nobody_knows_ends_when_it_says),
        cmocka_unit_test(the_core_is_asked_for_its_slot),
        cmocka_unit_test(what_changes_meanwhile_is_seen),
        cmocka_unit_test(what_does_not_fit_the_core_cannot_know),
        cmocka_unit_test(a_lease_is_rebuilt_from_its_sandbox),
        cmocka_unit_test(changes_of_sandboxes_are_looked_at),
        cmocka_unit_test(a_pool_that_is_another_has_its_sandboxes_looked_at),
        cmocka_unit_test(a_pool_that_came_has_its_sandboxes_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
