/* Which kinds are kept and watched for which controllers, with which settings,
 * and what is done with what their watches say: all of it on parts that are
 * none, as one text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/cluster/cluster_impl.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/heard.h"
#include "tests/support/pool/manual_clock.h"

#define COMPARE(name) compare(WP_TEST_FOLDER "/" name)

static struct golden golden;
static struct heard heard;
static struct wp_cluster cluster;
static struct wp_clock_manual clock_;
static char stores[WP_KIND_COUNT];
static char reflectors[WP_KIND_COUNT];
static struct wp_reflector_config configs[WP_KIND_COUNT];
static const struct wp_cluster_webhook webhook;
static char parts_[4]; /* Addresses: base, API, backend, pools' sync. */
static int fail_at;    /* The part of this number cannot be had; 0: all can. */
static int made;

#define FAKE(type, name, ...)                                                  \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

static const char *
kind_of(const void *part, const char *of)
{
    const char *at = part;

    if (part == NULL) {
        return "none";
    }
    return at >= of && at < of + WP_KIND_COUNT
               ? wp_kind_info((enum wp_kind)(at - of))->kind
               : "what is none";
}

FAKE(struct wp_store *, wp_store_create, enum wp_kind kind, const char *label)
{
    made++;
    golden_add(&golden, " %s by %s;", wp_kind_info(kind)->kind,
               label != NULL ? label : "-");
    return made == fail_at ? NULL : (void *)&stores[kind];
}

FAKE(struct wp_reflector *, wp_reflector_start,
     const struct wp_reflector_config *config)
{
    made++;
    configs[config->kind] = *config;
    assert_ptr_equal(config->base, &parts_[0]);
    assert_ptr_equal(config->api, &parts_[1]);
    assert_ptr_equal(config->clock, &clock_.clock);
    assert_ptr_equal(config->store, &stores[config->kind]);
    assert_ptr_equal(config->ctx, &cluster.watches[config->kind]);
    golden_add(
        &golden, " %s in %s by %s seed %llu silence %lld;",
        wp_kind_info(config->kind)->kind, config->ns != NULL ? config->ns : "-",
        config->label_selector != NULL ? config->label_selector : "-",
        (unsigned long long)config->seed, (long long)config->idle_timeout_ns);
    return made == fail_at ? NULL : (void *)&reflectors[config->kind];
}

FAKE(void, wp_reflector_stop, struct wp_reflector *reflector)
{
    if (reflector != NULL) {
        golden_add(&golden, " stop %s;", kind_of(reflector, reflectors));
    }
}

FAKE(void, wp_reflector_went_back, struct wp_reflector *reflector)
{
    golden_add(&golden, " %s goes back;", kind_of(reflector, reflectors));
}

FAKE(void, wp_cluster_try_activate, struct wp_cluster *self)
{
    assert_ptr_equal(self, &cluster);
    golden_add(&golden, " try;");
}

FAKE(void, wp_cluster_deactivate, struct wp_cluster *self)
{
    assert_ptr_equal(self, &cluster);
    golden_add(&golden, " deactivate;");
}

FAKE(void, wp_pool_sync_start, struct wp_pool_sync *sync)
{
    assert_ptr_equal(sync, &parts_[3]);
    golden_add(&golden, " pools;");
}

FAKE(void, wp_cluster_backend_doubt, struct wp_cluster_backend *backend,
     bool doubtful)
{
    assert_ptr_equal(backend, &parts_[2]);
    golden_add(&golden, " doubt %d;", doubtful);
}

WP_PRINTF(2, 3)
FAKE(void, wp_cluster_give_up, struct wp_cluster *self, const char *fmt, ...)
{
    char text[512];
    va_list args;

    assert_ptr_equal(self, &cluster);
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    golden_add(&golden, " give up: %s;", text);
}

/* --- The rig --- */

static void
compare(const char *path)
{
    golden_compare(golden.text, path);
    golden.len = 0;
    golden.text[0] = '\0';
}

static void
begin(uint32_t controllers, bool hooks, const char *ns)
{
    wp_clock_manual_init(&clock_, 100 * WP_NS_PER_S, 100 * WP_NS_PER_S);
    memset(&cluster, 0, sizeof cluster);
    cluster.parts = (struct wp_parts){
        .config = {.controllers = controllers,
                   .watch_ns = ns,
                   .watch_silence_ns = 77,
                   .webhook = hooks ? &webhook : NULL},
        .base = (void *)&parts_[0],
        .clock = &clock_.clock,
        .api = (void *)&parts_[1],
        .seed = 1000,
    };
    cluster.backend = (void *)&parts_[2];
    cluster.pool_sync = (void *)&parts_[3];
    /* What lies behind the kinds is none. */
    for (size_t i = 0; i < WP_ARRAY_LEN(cluster.ops); i++) {
        cluster.ops[i] = (const void *)(uintptr_t)0x100;
    }
    fail_at = made = 0;
    memset(configs, 0, sizeof configs);
}

/* All stores and watches; false: there was no memory for one. */
static bool
start(void)
{
    struct wp_err err = {.msg = ""};
    enum wp_status status;

    golden_add(&golden, " stores:");
    status = wp_cluster_make_stores(&cluster, &err);
    if (status == WP_OK) {
        golden_add(&golden, "\n    watches:");
        status = wp_cluster_start_watches(&cluster, &err);
    }
    if (status != WP_OK) {
        golden_add(&golden, " %s \"%s\"", wp_status_text(status), err.msg);
    }
    golden_add(&golden, "\n");
    return status == WP_OK;
}

static void
step(const char *what)
{
    golden_add(&golden, "%s:", what);
    heard_begin(&heard);
}

static void
show(void)
{
    const char *logged = heard_end(&heard);

    golden_add(&golden, " synced %d renewed %d\n", atomic_load(&cluster.synced),
               wp_cluster_renewed(&cluster));
    if (logged[0] != '\0') {
        golden_add(&golden, "    log %s", logged);
    }
}

static void
synced(const char *what, enum wp_kind kind)
{
    step(what);
    configs[kind].on_synced(configs[kind].ctx);
    show();
}

/* --- The tests --- */

static void
each_controller_has_what_it_needs(void **state)
{
    static const struct {
        const char *what;
        uint32_t controllers;
        bool hooks;
        const char *ns;
    } rows[] = {
        {"pool", WP_CONTROLLER_POOL, true, NULL},
        {"claim", WP_CONTROLLER_CLAIM, false, "team"},
        {"claim with the webhook", WP_CONTROLLER_CLAIM, true, NULL},
        {"template", WP_CONTROLLER_TEMPLATE, true, NULL},
        {"sandbox", WP_CONTROLLER_SANDBOX, true, NULL},
        {"none", 0, true, NULL},
        {"all",
         WP_CONTROLLER_POOL | WP_CONTROLLER_CLAIM | WP_CONTROLLER_TEMPLATE |
             WP_CONTROLLER_SANDBOX,
         true, "team"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        begin(rows[i].controllers, rows[i].hooks, rows[i].ns);
        golden_add(&golden, "%s:", rows[i].what);
        assert_true(start());
        golden_add(&golden, "    kept:");
        for (int kind = 0; kind < WP_KIND_COUNT; kind++) {
            const struct wp_cluster_watch *watch = &cluster.watches[kind];

            if (cluster.parts.stores[kind] != NULL) {
                golden_add(&golden, " %s",
                           kind_of(cluster.parts.stores[kind], stores));
            }
            if (watch->reflector != NULL) {
                golden_add(&golden, "+");
                assert_ptr_equal(watch->reflector, &reflectors[kind]);
                assert_ptr_equal(watch->cluster, &cluster);
                assert_int_equal(watch->kind, kind);
            }
        }
        golden_add(&golden, "\n    end:");
        wp_cluster_stop_watches(&cluster);
        golden_add(&golden, " again:");
        wp_cluster_stop_watches(&cluster);
        golden_add(&golden, "\n");
    }
    COMPARE("kinds.txt");
}

static void
without_memory_it_does_not_start(void **state)
{
    bool whole = false;

    (void)state;
    for (int n = 1; !whole; n++) {
        begin(WP_CONTROLLER_CLAIM, true, NULL);
        fail_at = n;
        golden_add(&golden, "without %d:", n);
        whole = start();
        golden_add(&golden, "    end:");
        wp_cluster_stop_watches(&cluster);
        golden_add(&golden, "\n");
    }
    COMPARE("kinds_memory.txt");
}

static void
quietly_start(void)
{
    assert_true(start());
    golden.len = 0;
    golden.text[0] = '\0';
}

/* Templates need two kinds. */
static void
every_list_is_waited_for(void **state)
{
    struct wp_cluster_watch *watch;

    (void)state;
    begin(WP_CONTROLLER_TEMPLATE, false, NULL);
    quietly_start();
    watch = &cluster.watches[WP_KIND_SANDBOX_TEMPLATE];
    watch->refused_ns = 5;
    synced("templates", WP_KIND_SANDBOX_TEMPLATE);
    assert_int_equal(watch->refused_ns, 0);
    assert_true(watch->synced);
    synced("templates again", WP_KIND_SANDBOX_TEMPLATE);
    synced("policies", WP_KIND_NETWORK_POLICY);
    synced("policies again", WP_KIND_NETWORK_POLICY);
    begin(WP_CONTROLLER_TEMPLATE, false, NULL);
    assert_true(start());
    cluster.pool_sync = NULL;
    synced("policies first", WP_KIND_NETWORK_POLICY);
    synced("templates, and no pools", WP_KIND_SANDBOX_TEMPLATE);
    COMPARE("kinds_lists.txt");
}

static void
what_went_back_is_listed_anew(void **state)
{
    static const enum wp_kind kinds[] = {
        WP_KIND_SANDBOX, WP_KIND_SANDBOX_TEMPLATE, WP_KIND_SANDBOX_WARM_POOL};

    (void)state;
    begin(WP_CONTROLLER_POOL, false, NULL);
    quietly_start();
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        synced(wp_kind_info(kinds[i])->kind, kinds[i]);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(kinds); i++) {
        step("back");
        configs[kinds[i]].on_went_back(configs[kinds[i]].ctx);
        show();
        for (size_t j = 0; j < WP_ARRAY_LEN(kinds); j++) {
            golden_add(&golden, "    %s renewed %d\n",
                       wp_kind_info(kinds[j])->kind,
                       cluster.watches[kinds[j]].renewed);
        }
        /* What is not watched waits for nothing. */
        assert_true(cluster.watches[WP_KIND_POD].renewed);
        for (size_t j = 0; j < WP_ARRAY_LEN(kinds); j++) {
            synced(wp_kind_info(kinds[j])->kind, kinds[j]);
        }
    }
    COMPARE("kinds_back.txt");
}

/* Of sandboxes or of pools; nobody else's counts. */
static void
doubts_are_told(void **state)
{
    static const struct {
        enum wp_kind kind;
        bool doubtful;
    } rows[] = {
        {WP_KIND_SANDBOX, true},           {WP_KIND_SANDBOX_WARM_POOL, true},
        {WP_KIND_SANDBOX, false},          {WP_KIND_SANDBOX_WARM_POOL, false},
        {WP_KIND_SANDBOX_TEMPLATE, true},  {WP_KIND_SANDBOX_WARM_POOL, true},
        {WP_KIND_SANDBOX_TEMPLATE, false}, {WP_KIND_SANDBOX_WARM_POOL, false},
    };

    (void)state;
    begin(WP_CONTROLLER_POOL, false, NULL);
    quietly_start();
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        step(wp_kind_info(rows[i].kind)->kind);
        configs[rows[i].kind].on_doubt(configs[rows[i].kind].ctx,
                                       rows[i].doubtful);
        show();
        assert_int_equal(cluster.watches[rows[i].kind].doubtful,
                         rows[i].doubtful);
    }
    COMPARE("kinds_doubts.txt");
}

static void
refuse(const char *what, enum wp_kind kind, int code, const char *message)
{
    step(what);
    configs[kind].on_refused(configs[kind].ctx, code, message);
    show();
    golden_add(&golden, "    since %lld code %d said %lld\n",
               (long long)cluster.watches[kind].refused_ns,
               cluster.watches[kind].refused_code,
               (long long)cluster.watches[kind].logged_ns);
}

static void
check(const char *what)
{
    step(what);
    wp_cluster_check_watches(&cluster);
    show();
}

static void
what_is_refused_for_long_is_the_end(void **state)
{
    (void)state;
    for (int in = 0; in < 2; in++) {
        begin(WP_CONTROLLER_SANDBOX, false, in == 0 ? NULL : "team");
        assert_true(start());
        refuse("pods", WP_KIND_POD, 403, "no");
        wp_clock_manual_advance(&clock_, WP_NS_PER_S);
        refuse("sandboxes", WP_KIND_SANDBOX, 404, NULL);
        refuse("services", WP_KIND_SERVICE, 401, "who");
        wp_clock_manual_advance(&clock_, 19 * WP_NS_PER_S - 1);
        check("not yet");
        wp_clock_manual_advance(&clock_, 1);
        check("pods, after 20 seconds");
        wp_clock_manual_advance(&clock_, WP_NS_PER_S);
        check("all of them");
        /* Its code is the last one's. */
        refuse("pods again", WP_KIND_POD, 404, "no");
        check("now it is not known");
        cluster.watches[WP_KIND_POD].synced = true;
        check("but it was served once");
        cluster.watches[WP_KIND_POD].synced = false;
        wp_clock_manual_advance(&clock_, 39 * WP_NS_PER_S - 1);
        refuse("nearly a minute", WP_KIND_POD, 403, "no");
        wp_clock_manual_advance(&clock_, 1);
        refuse("a minute", WP_KIND_POD, 403, "no");
        synced("served", WP_KIND_POD);
        refuse("refused anew", WP_KIND_POD, 403, "no");
    }
    COMPARE("kinds_refused.txt");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_controller_has_what_it_needs),
        cmocka_unit_test(without_memory_it_does_not_start),
        cmocka_unit_test(every_list_is_waited_for),
        cmocka_unit_test(what_went_back_is_listed_anew),
        cmocka_unit_test(doubts_are_told),
        cmocka_unit_test(what_is_refused_for_long_is_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
