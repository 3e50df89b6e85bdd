/* What the core is told of SandboxWarmPools, as they and their templates come,
 * change and go: each call of it, with all that the pool is to be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/backend/backend.h"
#include "k8s/backend/channel.h"
#include "k8s/backend/pool_sync.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/heard.h"
#include "tests/support/k8s/object_text.h"

static struct golden golden;
static struct heard heard;
static struct wp_parts parts;
static struct wp_pool_sync *sync_;
static char parts_[3]; /* Addresses: pools, backend, channel. */
static struct wp_cluster_message *sent[8];
static uint32_t n_sent;
static uint32_t index_;
static struct wp_pool_stats stats;
static enum wp_status status_;
static bool no_channel;
static bool no_memory;

#define FAKE(type, name, ...)                                                  \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

void *__real_calloc(size_t n, size_t size);
FAKE(void *, calloc, size_t n, size_t size)
{
    return no_memory ? NULL : __real_calloc(n, size);
}

FAKE(struct wp_cluster_channel *, wp_cluster_channel_create,
     const struct wp_parts *of)
{
    assert_ptr_equal(of, &parts);
    return no_channel ? NULL : (void *)&parts_[2];
}

FAKE(void, wp_cluster_channel_destroy, struct wp_cluster_channel *channel)
{
    assert_ptr_equal(channel, &parts_[2]);
    golden_add(&golden, " channel ends");
}

FAKE(void, wp_cluster_channel_to_control, struct wp_cluster_channel *channel,
     struct wp_cluster_message *message)
{
    assert_ptr_equal(channel, &parts_[2]);
    sent[n_sent++ % WP_ARRAY_LEN(sent)] = message;
}

FAKE(uint32_t, wp_pools_index, const struct wp_pools *pools, struct wp_str ns,
     struct wp_str name)
{
    assert_ptr_equal(pools, &parts_[0]);
    golden_add(&golden, " index(%.*s/%.*s)", (int)ns.len, ns.ptr, (int)name.len,
               name.ptr);
    return index_;
}

FAKE(void, wp_pools_stats, struct wp_pools *pools, uint32_t of,
     struct wp_pool_stats *out)
{
    assert_ptr_equal(pools, &parts_[0]);
    assert_int_equal(of, index_);
    golden_add(&golden, " stats");
    *out = stats;
}

/* All of it, but what a new spec has anyway. */
static void
show_spec(const struct wp_pool_spec *spec)
{
    struct wp_pool_spec plain;

    golden_add(&golden,
               "\n    %s/%s from \"%s\" target %u waiters %u %u inflight %u "
               "ready within %lld wait %lld cold %d %d egress \"%s\"",
               spec->pool_namespace, spec->name, spec->template_name,
               spec->target, spec->waiters_max, spec->tenant_waiters_max,
               spec->create_inflight_max, (long long)spec->ready_within_ns,
               (long long)spec->wait_max_ns, spec->cold_start,
               spec->cold_start_said, spec->egress);
    wp_pool_spec_init(&plain);
    golden_add(&golden, " else as a new one: %d",
               spec->tenant_leases_max == plain.tenant_leases_max &&
                   spec->tenant_claims_per_minute ==
                       plain.tenant_claims_per_minute &&
                   spec->fair_share == plain.fair_share &&
                   spec->ttl_default_ns == plain.ttl_default_ns &&
                   spec->ttl_max_ns == plain.ttl_max_ns &&
                   spec->hold_max_ns == plain.hold_max_ns &&
                   spec->freeze_after_ns == plain.freeze_after_ns &&
                   spec->bind_env == plain.bind_env);
}

FAKE(enum wp_status, wp_pools_add, struct wp_pools *pools,
     const struct wp_pool_spec *spec, uint32_t *out, struct wp_err *err)
{
    assert_ptr_equal(pools, &parts_[0]);
    assert_null(out);
    golden_add(&golden, " add");
    show_spec(spec);
    return status_ == WP_OK ? WP_OK : wp_err_set(err, status_, "no room");
}

FAKE(enum wp_status, wp_pools_update, struct wp_pools *pools, uint32_t of,
     const struct wp_pool_spec *spec, struct wp_err *err)
{
    assert_ptr_equal(pools, &parts_[0]);
    assert_int_equal(of, index_);
    golden_add(&golden, " update");
    show_spec(spec);
    return status_ == WP_OK ? WP_OK : wp_err_set(err, status_, "no room");
}

FAKE(void, wp_pools_remove, struct wp_pools *pools, uint32_t of)
{
    assert_ptr_equal(pools, &parts_[0]);
    golden_add(&golden, " remove(%u)", of);
}

FAKE(void, wp_cluster_backend_pool_added, struct wp_cluster_backend *backend,
     const char *uid)
{
    assert_ptr_equal(backend, &parts_[1]);
    golden_add(&golden, " added(%s)", uid);
}

/* --- The rig --- */

static void
begin(void)
{
    struct wp_err err;

    memset(&parts, 0, sizeof parts);
    parts.config.create_inflight_max = 30;
    parts.config.ready_grace_ns = 300 * WP_NS_PER_S;
    parts.core.pools = (void *)&parts_[0];
    parts.stores[WP_KIND_SANDBOX_TEMPLATE] =
        wp_store_create(WP_KIND_SANDBOX_TEMPLATE, NULL);
    parts.stores[WP_KIND_SANDBOX_WARM_POOL] =
        wp_store_create(WP_KIND_SANDBOX_WARM_POOL, NULL);
    n_sent = 0;
    index_ = 4;
    memset(&stats, 0, sizeof stats);
    wp_pool_spec_init(&stats.spec);
    status_ = WP_OK;
    sync_ = wp_pool_sync_create(&parts, (void *)&parts_[1], &err);
    assert_non_null(sync_);
}

static void
end(void)
{
    for (uint32_t i = 0; i < n_sent; i++) {
        sent[i]->drop(sent[i]);
    }
    golden_add(&golden, "the end:");
    wp_pool_sync_destroy(sync_);
    golden_add(&golden, "\n");
    wp_store_destroy(parts.stores[WP_KIND_SANDBOX_TEMPLATE]);
    wp_store_destroy(parts.stores[WP_KIND_SANDBOX_WARM_POOL]);
}

static void
step(const char *what)
{
    golden_add(&golden, "%s:", what);
    heard_begin(&heard);
}

/* Runs what was sent, and ends the step. */
static void
show(void)
{
    const char *logged;

    for (uint32_t i = 0; i < n_sent; i++) {
        golden_add(&golden, " ;");
        sent[i]->run(sent[i]);
    }
    n_sent = 0;
    logged = heard_end(&heard);
    golden_add(&golden, "\n");
    if (logged[0] != '\0') {
        golden_add(&golden, "    log %s", logged);
    }
}

static const char *
pool_text(const char *name, const char *uid, const char *annotations,
          const char *spec)
{
    static char text[2048];
    static unsigned version;

    assert_true(snprintf(text, sizeof text,
                         "{'metadata':{'namespace':'ns','name':'%s','uid':'%s',"
                         "'resourceVersion':'%u','annotations':{%s}},"
                         "'spec':{%s}}",
                         name, uid, ++version, annotations,
                         spec) < (int)sizeof text);
    return text;
}

static void
put(enum wp_kind kind, const char *text)
{
    wp_store_put(parts.stores[kind], object_of(kind, text));
}

static void
put_pool(const char *what, const char *uid, const char *annotations,
         const char *spec)
{
    step(what);
    put(WP_KIND_SANDBOX_WARM_POOL, pool_text("p", uid, annotations, spec));
    show();
}

static void
remove_from(const char *what, enum wp_kind kind, const char *name)
{
    step(what);
    wp_store_remove(parts.stores[kind],
                    wp_store_find(parts.stores[kind], "ns", name));
    show();
}

static void
put_template(const char *what, const char *ns, const char *version)
{
    char text[256];

    (void)snprintf(text, sizeof text,
                   "{'metadata':{'namespace':'%s','name':'t','uid':'t-uid',"
                   "'resourceVersion':'%s'},'spec':{'podTemplate':{'spec':{}}}"
                   "}",
                   ns, version);
    step(what);
    put(WP_KIND_SANDBOX_TEMPLATE, text);
    show();
}

static void
start(const char *what)
{
    step(what);
    wp_pool_sync_start(sync_);
    show();
}

static void
compare(const char *path)
{
    golden_compare(golden.text, path);
    golden.len = 0;
    golden.text[0] = '\0';
}
#define COMPARE(name) compare(WP_TEST_FOLDER "/" name)

#define WITHIN(text) "'pool.warmpool.io/ready-within':'" text "'"
#define SPEC(replicas)                                                         \
    "'replicas':" replicas ",'sandboxTemplateRef':{'name':'t'}"

/* --- Pools --- */

static void
a_pool_comes_changes_and_goes(void **state)
{
    (void)state;
    begin();
    put_pool("before the start", "u1", "", SPEC("3"));
    put_template("a template before the start", "ns", "1");
    remove_from("gone before the start", WP_KIND_SANDBOX_WARM_POOL, "p");
    put_pool("once more", "u1", "", SPEC("3"));
    index_ = UINT32_MAX;
    start("the start");
    index_ = 4;
    put_pool("the same", "u1", "", SPEC("3"));
    put_pool("a note on it", "u1", "'of':'others'", SPEC("3"));
    put_pool("more of it", "u1", "", SPEC("4"));
    put_pool("of another template", "u1", "",
             "'replicas':4,'sandboxTemplateRef':{'name':'v'}");
    put_pool("with a policy", "u1", WITHIN("40s"), SPEC("4"));
    put_pool("with another policy", "u1", WITHIN("50s"), SPEC("4"));
    put_pool("another one", "u2", "", SPEC("4"));
    remove_from("it goes", WP_KIND_SANDBOX_WARM_POOL, "p");
    index_ = UINT32_MAX;
    put_pool("a new one", "u3", "", SPEC("1"));
    remove_from("it goes, and was not known", WP_KIND_SANDBOX_WARM_POOL, "p");
    end();
    COMPARE("pool_life.txt");
}

static void
its_size_has_bounds(void **state)
{
    static const char *const sizes[] = {SPEC("0"),
                                        SPEC("1"),
                                        SPEC("1048575"),
                                        SPEC("1048576"),
                                        SPEC("1048577"),
                                        SPEC("2147483647"),
                                        "'sandboxTemplateRef':{'name':'t'}"};

    (void)state;
    begin();
    put_template("its template", "ns", "1");
    start("the start");
    for (size_t i = 0; i < WP_ARRAY_LEN(sizes); i++) {
        put_pool(sizes[i], i % 2 == 0 ? "u1" : "u2", "", sizes[i]);
    }
    end();
    COMPARE("pool_sizes.txt");
}

static void
what_a_pool_may_make_follows_its_template(void **state)
{
    (void)state;
    begin();
    start("the start");
    put_pool("without its template", "u1", "", SPEC("3"));
    step("another pool");
    put(WP_KIND_SANDBOX_WARM_POOL,
        pool_text("q", "u9", "", "'sandboxTemplateRef':{'name':'v'}"));
    show();
    step("a third pool");
    put(WP_KIND_SANDBOX_WARM_POOL, pool_text("r", "u8", "", SPEC("2")));
    show();
    put_template("one of another namespace", "other", "1");
    put_template("it comes", "ns", "1");
    put_template("it changes", "ns", "2");
    remove_from("it goes", WP_KIND_SANDBOX_TEMPLATE, "t");
    end();
    COMPARE("pool_templates.txt");
}

static void
a_mistake_in_its_policy_keeps_the_last(void **state)
{
    (void)state;
    begin();
    start("the start");
    put_template("its template", "ns", "1");
    stats.spec.ready_within_ns = 40 * WP_NS_PER_S;
    stats.spec.waiters_max = 17;
    stats.spec.create_inflight_max = 7;
    stats.spec.target = 99;
    put_pool("a mistake", "u1", WITHIN("often"), SPEC("3"));
    stats.spec.create_inflight_max = 0;
    put_pool("it made none", "u1", WITHIN("seldom"), SPEC("3"));
    remove_from("its template goes", WP_KIND_SANDBOX_TEMPLATE, "t");
    stats.spec.create_inflight_max = 7;
    put_pool("it may make none", "u1", WITHIN("never"), SPEC("3"));
    index_ = UINT32_MAX;
    put_pool("a new one with a mistake", "u2", WITHIN("often"), SPEC("3"));
    put_pool("a new one that may say so", "u2", WITHIN("45s"), SPEC("3"));
    end();
    COMPARE("pool_mistakes.txt");
}

static void
what_the_core_refuses_is_said(void **state)
{
    (void)state;
    begin();
    start("the start");
    status_ = WP_RESOURCE_EXHAUSTED;
    put_pool("an update", "u1", "", SPEC("3"));
    index_ = UINT32_MAX;
    put_pool("a new one", "u2", "", SPEC("3"));
    end();
    COMPARE("pool_refused.txt");
}

/* --- Names --- */

static void
names_have_bounds(void **state)
{
    static const struct {
        const char *what;
        size_t name;
        size_t uid;
        size_t template_name;
    } rows[] = {
        {"longest", WP_POOL_NAME_MAX, 63, WP_TEMPLATE_NAME_MAX},
        {"name too long", WP_POOL_NAME_MAX + 1, 1, 1},
        {"uid too long", 1, 64, 1},
        {"template too long", 1, 1, WP_TEMPLATE_NAME_MAX + 1},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        char name[128] = "";
        char uid[128] = "";
        char template_name[128] = "";
        char spec[256];

        memset(name, 'n', rows[i].name);
        memset(uid, 'u', rows[i].uid);
        memset(template_name, 't', rows[i].template_name);
        (void)snprintf(spec, sizeof spec, "'sandboxTemplateRef':{'name':'%s'}",
                       template_name);
        begin();
        index_ = UINT32_MAX;
        start("the start");
        step(rows[i].what);
        put(WP_KIND_SANDBOX_WARM_POOL, pool_text(name, uid, "", spec));
        show();
        index_ = 4;
        remove_from("it goes", WP_KIND_SANDBOX_WARM_POOL, name);
        end();
    }
    COMPARE("pool_names.txt");
}

static void
a_core_without_a_backend_is_told_as_well(void **state)
{
    struct wp_err err;

    (void)state;
    begin();
    golden_add(&golden, "another:");
    wp_pool_sync_destroy(sync_);
    golden_add(&golden, "\n");
    wp_store_destroy(parts.stores[WP_KIND_SANDBOX_WARM_POOL]);
    wp_store_destroy(parts.stores[WP_KIND_SANDBOX_TEMPLATE]);
    parts.stores[WP_KIND_SANDBOX_TEMPLATE] =
        wp_store_create(WP_KIND_SANDBOX_TEMPLATE, NULL);
    parts.stores[WP_KIND_SANDBOX_WARM_POOL] =
        wp_store_create(WP_KIND_SANDBOX_WARM_POOL, NULL);
    sync_ = wp_pool_sync_create(&parts, NULL, &err);
    assert_non_null(sync_);
    index_ = UINT32_MAX;
    start("the start");
    put_pool("a new one", "u1", "", SPEC("3"));
    step("dropped");
    put(WP_KIND_SANDBOX_WARM_POOL, pool_text("q", "u2", "", SPEC("3")));
    (void)heard_end(&heard);
    end();
    wp_pool_sync_destroy(NULL);
    COMPARE("pool_alone.txt");
}

static void
without_memory_there_is_none(void **state)
{
    struct wp_err err;

    (void)state;
    no_memory = true;
    assert_null(wp_pool_sync_create(&parts, NULL, &err));
    no_memory = false;
    assert_int_equal(err.status, WP_RESOURCE_EXHAUSTED);
    assert_string_equal(err.msg, "out of memory");
    memset(&err, 0, sizeof err);
    no_channel = true;
    assert_null(wp_pool_sync_create(&parts, NULL, &err));
    no_channel = false;
    assert_int_equal(err.status, WP_RESOURCE_EXHAUSTED);
    assert_string_equal(err.msg, "out of memory");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pool_comes_changes_and_goes),
        cmocka_unit_test(its_size_has_bounds),
        cmocka_unit_test(what_a_pool_may_make_follows_its_template),
        cmocka_unit_test(a_mistake_in_its_policy_keeps_the_last),
        cmocka_unit_test(what_the_core_refuses_is_said),
        cmocka_unit_test(names_have_bounds),
        cmocka_unit_test(a_core_without_a_backend_is_told_as_well),
        cmocka_unit_test(without_memory_there_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
