/* tests/unit/allocator/daemon/daemon_backend_test.c - what makes sandboxes, as
 * the daemon has it: what is asked of the machine before and after it was
 * started, which templates it is given, and what the core is told of its
 * reports. golden/ has each whole. The machine and the core are fakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/daemon/backend.h"
#include "allocator/daemon/machine.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/heard.h"

#define WRAP(result, name, ...)                                                \
    result __wrap_##name(__VA_ARGS__);                                         \
    result __wrap_##name(__VA_ARGS__)
/* What is logged goes into the journal as well. */
#define LOGGED(...)                                                            \
    do {                                                                       \
        heard_begin(&heard);                                                   \
        __VA_ARGS__;                                                           \
        golden_add(&journal, "%s", heard_end(&heard));                         \
    } while (0)

enum {
    TEMPLATES = 3,
};

/* A manifest is what it says. */
struct manifest {
    const char *name;
    struct wp_template templates[TEMPLATES];
    size_t n;
};

static struct golden journal;
static struct heard heard;
static struct wp_conf *conf;
static struct wp_daemon_core core;
static struct wp_daemon_locks locks;
static struct wp_daemon_backend *backend;
static struct manifest first;
static struct manifest later;
/* Of the machine: the templates that it has, by name. */
static char had[8][WP_TEMPLATE_NAME_MAX + 1];
static uint64_t had_hash[8];
static uint32_t n_had;
static const char *fails;
static struct wp_local_events events;
static struct wp_local_sweep sweep_seen;
static bool durable;
static enum wp_status keep_status;
static struct wp_lease_change *kept;
static bool no_memory;
static pthread_mutex_t *lock;
static bool is_locked;

static bool
may(const char *what, struct wp_err *err)
{
    if (fails == NULL || strcmp(fails, what) != 0) {
        return true;
    }
    (void)wp_err_set(err, WP_UNAVAILABLE, "no %s today", what);
    return false;
}

/* --- The machine --- */

static enum wp_status
machine_create(void *self, const struct wp_sandbox_order *order,
               struct wp_err *err)
{
    (void)err;
    assert_ptr_equal(self, had);
    golden_add(&journal, "machine creates %u.%u\n", order->ref.index,
               order->ref.generation);
    return WP_PENDING;
}

static enum wp_status
machine_destroy(void *self, struct wp_slot_ref ref)
{
    assert_ptr_equal(self, had);
    golden_add(&journal, "machine destroys %u.%u\n", ref.index, ref.generation);
    return WP_ABORTED;
}

static void
machine_leased(void *self, const struct wp_lease_notice *notice)
{
    assert_ptr_equal(self, had);
    assert_ptr_equal(notice, &core);
    golden_add(&journal, "machine hears of a lease\n");
}

static enum wp_status
machine_bind(void *self, struct wp_bind_op *op)
{
    assert_ptr_equal(self, had);
    golden_add(&journal, "machine binds '%s'\n", op->reason);
    return WP_PENDING;
}

static const char *
machine_unbound(void *self, struct wp_str ns, struct wp_str name)
{
    assert_ptr_equal(self, had);
    golden_add(&journal, "is %.*s/%.*s unbound?\n", (int)ns.len, ns.ptr,
               (int)name.len, name.ptr);
    return "it is";
}

static enum wp_status
machine_may_bring(void *self, const struct wp_binding *binding,
                  struct wp_err *err)
{
    assert_ptr_equal(self, had);
    assert_ptr_equal(binding, &core);
    return wp_err_set(err, WP_PERMISSION_DENIED, "nothing may be brought");
}

static enum wp_status
machine_narrows(void *self, struct wp_str policy, struct wp_str by,
                struct wp_err *err)
{
    assert_ptr_equal(self, had);
    golden_add(&journal, "narrow %.*s by %.*s\n", (int)policy.len, policy.ptr,
               (int)by.len, by.ptr);
    return wp_err_set(err, WP_INVALID_ARGUMENT, "it is no policy");
}

static struct wp_backend
ops_port(void *self)
{
    static const struct wp_backend_ops ops = {
        .name = "the machine's",
        .create = machine_create,
        .destroy = machine_destroy,
        .leased = machine_leased,
        .bind = machine_bind,
        .unbound = machine_unbound,
        .may_bring = machine_may_bring,
        .narrows = machine_narrows,
    };

    return (struct wp_backend){.ops = &ops, .self = self};
}

static enum wp_status
ops_start(void *self, const struct wp_local_events *of,
          struct wp_local_sweep *sweep, struct wp_err *err)
{
    assert_ptr_equal(self, had);
    events = *of;
    *sweep = sweep_seen;
    golden_add(&journal, "machine starts, adopts %d\n", of->adopt != NULL);
    return may("start", err) ? WP_OK : err->status;
}

static void
ops_stats(const void *self, struct wp_local_stats *out)
{
    assert_ptr_equal(self, had);
    out->ready = 5;
}

static enum wp_status
ops_add_template(void *self, const struct wp_template *tmpl, struct wp_err *err)
{
    uint32_t i = 0;

    assert_true(is_locked);
    assert_ptr_equal(self, had);
    golden_add(&journal, "machine takes template %s of %s\n", tmpl->name,
               tmpl->template_namespace);
    if (!may("template", err)) {
        return err->status;
    }
    while (i < n_had && strcmp(had[i], tmpl->name) != 0) {
        i++;
    }
    (void)snprintf(had[i], sizeof had[i], "%s", tmpl->name);
    had_hash[i] = tmpl->memory_bytes;
    n_had = i == n_had ? n_had + 1 : n_had;
    return WP_OK;
}

static uint64_t
ops_template_hash(const void *self, struct wp_str ns, struct wp_str name)
{
    assert_true(is_locked);
    assert_ptr_equal(self, had);
    for (uint32_t i = 0; i < n_had; i++) {
        if (wp_str_is(name, had[i]) && wp_str_is(ns, "ns")) {
            return had_hash[i];
        }
    }
    return 0;
}

static void
ops_stop(void *self, bool leave_ready)
{
    assert_ptr_equal(self, had);
    golden_add(&journal, "machine stops, leaves what is ready: %d\n",
               leave_ready);
}

static void
ops_destroy(void *self)
{
    assert_ptr_equal(self, had);
    golden_add(&journal, "machine destroyed\n");
}

static const struct wp_machine_ops local_ops = {
    .name = "local",
    .start = ops_start,
    .port = ops_port,
    .stats = ops_stats,
    .add_template = ops_add_template,
    .template_hash = ops_template_hash,
    .stop = ops_stop,
    .destroy = ops_destroy,
};

static const struct wp_machine_ops plain_ops = {
    .name = "synthetic",
    .start = ops_start,
    .port = ops_port,
    .stats = ops_stats,
    .stop = ops_stop,
    .destroy = ops_destroy,
};

static const char *
name_of(const struct wp_manifest *manifest)
{
    return ((const struct manifest *)(const void *)manifest)->name;
}

WRAP(enum wp_status, wp_daemon_create_local, const struct wp_conf *of,
     const struct wp_manifest *manifest, struct wp_daemon_locks *with,
     bool untried, struct wp_machine *out, struct wp_err *err)
{
    assert_ptr_equal(of, conf);
    assert_ptr_equal(with, &locks);
    assert_true(is_locked);
    golden_add(&journal, "local machine of %s, untried %d\n", name_of(manifest),
               untried);
    if (!may("machine", err)) {
        return err->status;
    }
    out->ops = &local_ops;
    out->self = had;
    return WP_OK;
}

WRAP(enum wp_status, wp_daemon_create_synthetic, const struct wp_conf *of,
     struct wp_daemon_locks *with, struct wp_machine *out, struct wp_err *err)
{
    assert_ptr_equal(of, conf);
    assert_ptr_equal(with, &locks);
    assert_true(is_locked);
    golden_add(&journal, "synthetic machine\n");
    if (!may("machine", err)) {
        return err->status;
    }
    out->ops = &plain_ops;
    out->self = had;
    return WP_OK;
}

WRAP(enum wp_status, wp_daemon_probe_local, const struct wp_conf *of,
     const struct wp_manifest *manifest, struct wp_err *err)
{
    assert_ptr_equal(of, conf);
    golden_add(&journal, "probe with %s\n", name_of(manifest));
    return may("probe", err) ? WP_OK : err->status;
}

WRAP(uint32_t, wp_local_spawns, uint32_t spawns_max)
{
    return spawns_max + 100;
}

WRAP(size_t, wp_manifest_templates, const struct wp_manifest *manifest,
     const struct wp_template **out)
{
    const struct manifest *of = (const void *)manifest;

    *out = of->templates;
    return of->n;
}

WRAP(void, wp_manifest_destroy, struct wp_manifest *manifest)
{
    golden_add(&journal, "%s destroyed\n", name_of(manifest));
}

WRAP(uint64_t, wp_template_hash, const struct wp_template *tmpl)
{
    return tmpl->memory_bytes;
}

/* --- The core --- */

WRAP(void, wp_pools_on_ready, struct wp_pools *pools, struct wp_slot_ref ref,
     struct wp_str endpoint)
{
    assert_ptr_equal(pools, &core);
    golden_add(&journal, "%u.%u is ready at %.*s\n", ref.index, ref.generation,
               (int)endpoint.len, endpoint.ptr);
}

WRAP(void, wp_pools_on_started, struct wp_pools *pools, struct wp_slot_ref ref)
{
    assert_ptr_equal(pools, &core);
    golden_add(&journal, "%u.%u is started\n", ref.index, ref.generation);
}

WRAP(void, wp_pools_on_lost, struct wp_pools *pools, struct wp_slot_ref ref,
     struct wp_str reason)
{
    assert_ptr_equal(pools, &core);
    golden_add(&journal, "%u.%u is lost: %.*s\n", ref.index, ref.generation,
               (int)reason.len, reason.ptr);
}

WRAP(void, wp_pools_on_destroyed, struct wp_pools *pools,
     struct wp_slot_ref ref)
{
    assert_ptr_equal(pools, &core);
    golden_add(&journal, "%u.%u is destroyed\n", ref.index, ref.generation);
}

WRAP(enum wp_status, wp_pools_find_sandbox, struct wp_pools *pools,
     struct wp_str sandbox, struct wp_claim_info *out)
{
    assert_ptr_equal(pools, &core);
    (void)snprintf(out->sandbox, sizeof out->sandbox, "%.*s", (int)sandbox.len,
                   sandbox.ptr);
    return wp_str_is(sandbox, "leased") ? WP_OK : WP_NOT_FOUND;
}

WRAP(enum wp_status, wp_signer_sign, struct wp_signer *signer,
     const struct wp_claim_info *lease, struct wp_str audience, int64_t ttl_ms,
     char token[WP_IDENTITY_TOKEN_MAX + 1], int64_t *expires_wall_ms,
     struct wp_err *err)
{
    assert_ptr_equal(signer, &core);
    golden_add(&journal, "sign for %s to %.*s, %lld ms\n", lease->sandbox,
               (int)audience.len, audience.ptr, (long long)ttl_ms);
    (void)snprintf(token, 8, "token");
    *expires_wall_ms = 77;
    return may("signature", err) ? WP_OK : err->status;
}

WRAP(enum wp_status, wp_pools_keep, struct wp_pools *pools,
     struct wp_lease_change *change, struct wp_slot_ref ref)
{
    assert_ptr_equal(pools, &core);
    golden_add(&journal, "keep %u.%u for %lld, hold %d -> %s\n", ref.index,
               ref.generation, (long long)change->ttl_ns, change->hold,
               wp_status_name(keep_status));
    change->status = keep_status;
    change->reason = "the store is away";
    kept = change;
    return keep_status;
}

WRAP(bool, wp_daemon_adopt, struct wp_daemon_core *of,
     struct wp_lease_store store, const struct wp_local_found *found,
     struct wp_slot_ref *ref)
{
    assert_ptr_equal(of, &core);
    assert_ptr_equal(store.self, &later);
    golden_add(&journal, "adopt %.*s\n", (int)found->name.len, found->name.ptr);
    *ref = (struct wp_slot_ref){8, 9};
    return true;
}

WRAP(void, wp_loop_call, struct wp_loop *loop, void (*run)(void *ctx),
     void *ctx)
{
    assert_ptr_equal(loop, &core);
    golden_add(&journal, "on the control thread\n");
    run(ctx);
}

/* The one lock of the backend. */
WRAP(int, pthread_mutex_init, pthread_mutex_t *mutex,
     const pthread_mutexattr_t *attr)
{
    assert_null(attr);
    lock = mutex;
    return 0;
}

WRAP(int, pthread_mutex_lock, pthread_mutex_t *mutex)
{
    assert_ptr_equal(mutex, lock);
    assert_false(is_locked);
    is_locked = true;
    return 0;
}

WRAP(int, pthread_mutex_unlock, pthread_mutex_t *mutex)
{
    assert_ptr_equal(mutex, lock);
    assert_true(is_locked);
    is_locked = false;
    return 0;
}

WRAP(int, pthread_mutex_destroy, pthread_mutex_t *mutex)
{
    assert_ptr_equal(mutex, lock);
    assert_false(is_locked);
    lock = NULL;
    return 0;
}

void *__real_calloc(size_t n, size_t size);
WRAP(void *, calloc, size_t n, size_t size)
{
    return no_memory ? NULL : __real_calloc(n, size);
}

/* --- The tests --- */

static void
set(const char *text)
{
    struct wp_err err;

    if (wp_conf_read_text(conf, wp_str_from(text), "test", &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
}

/* hash 0: there is no such template. */
static void
put_template(struct manifest *manifest, const char *name, uint64_t hash)
{
    struct wp_template *tmpl = &manifest->templates[manifest->n++];

    memset(tmpl, 0, sizeof *tmpl);
    (void)snprintf(tmpl->template_namespace, sizeof tmpl->template_namespace,
                   "ns");
    (void)snprintf(tmpl->name, sizeof tmpl->name, "%s", name);
    tmpl->memory_bytes = hash;
}

static int
begin(void **state)
{
    (void)state;
    journal.len = 0;
    journal.text[0] = '\0';
    no_memory = false;
    conf = wp_conf_create();
    assert_non_null(conf);
    set("sandbox_spawns_max: 7\n");
    memset(&core, 0, sizeof core);
    core.conf = conf;
    core.pools = (struct wp_pools *)(void *)&core;
    core.signer = (struct wp_signer *)(void *)&core;
    core.loop = (struct wp_loop *)(void *)&core;
    memset(&first, 0, sizeof first);
    memset(&later, 0, sizeof later);
    first.name = "the first manifest";
    later.name = "a later manifest";
    n_had = 0;
    fails = NULL;
    memset(&sweep_seen, 0, sizeof sweep_seen);
    durable = true;
    keep_status = WP_PENDING;
    kept = NULL;
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wp_conf_destroy(conf);
    return 0;
}

static struct wp_manifest *
as_manifest(struct manifest *of)
{
    return (struct wp_manifest *)(void *)of;
}

static void
create(void)
{
    struct wp_err err;

    backend =
        wp_daemon_backend_create(&core, as_manifest(&first), &locks, &err);
    assert_non_null(backend);
}

static void
open_it(bool untried)
{
    struct wp_err err;
    enum wp_status status;

    memset(&err, 0, sizeof err);
    status = wp_daemon_backend_open(backend, untried, &err);
    golden_add(&journal, "open: %s %s\n", wp_status_name(status), err.msg);
}

static void
start(void)
{
    static const struct wp_lease_store_ops stays = {.durable = true};
    static const struct wp_lease_store_ops goes = {.durable = false};
    struct wp_lease_store store = {.ops = durable ? &stays : &goes,
                                   .self = &later};
    uint32_t adopted = 99;
    struct wp_err err;
    enum wp_status status;

    memset(&err, 0, sizeof err);
    LOGGED(status = wp_daemon_backend_start(backend, store, &adopted, &err));
    golden_add(&journal, "started: %s %s, %u adopted\n", wp_status_name(status),
               err.msg, adopted);
}

static void
finish(const char *name)
{
    char path[512];

    wp_daemon_backend_destroy(backend);
    (void)snprintf(path, sizeof path, "%s/backend_%s.txt", WP_TEST_GOLDEN,
                   name);
    golden_compare(journal.text, path);
}

static void
again(const char *title)
{
    golden_add(&journal, "# %s\n", title);
}

static void
use_port(void)
{
    struct wp_backend port = wp_daemon_backend_port(backend);
    struct wp_bind_op op;
    struct wp_err err;
    const char *text;

    golden_add(&journal, "port '%s', %u at once, foreign %d, passes %d\n",
               port.ops->name, port.at_once, port.ops->foreign,
               port.ops->passes != NULL);
    golden_add(&journal, "destroy: %s\n",
               wp_status_name(
                   port.ops->destroy(port.self, (struct wp_slot_ref){1, 2})));
    if (port.ops->bind == NULL) {
        golden_add(&journal, "it binds nothing\n");
        assert_null(port.ops->leased);
        assert_null(port.ops->unbound);
        assert_null(port.ops->may_bring);
        assert_null(port.ops->narrows);
        assert_null(port.ops->may_sign);
        return;
    }
    memset(&op, 0, sizeof op);
    golden_add(&journal, "bind: %s",
               wp_status_name(port.ops->bind(port.self, &op)));
    golden_add(&journal, " '%s'\n", op.reason);
    text = port.ops->unbound(port.self, WP_STR("ns"), WP_STR("t"));
    golden_add(&journal, "unbound: %s\n", text != NULL ? text : "no");
    golden_add(
        &journal, "may bring: %s",
        wp_status_name(port.ops->may_bring(
            port.self, (const struct wp_binding *)(const void *)&core, &err)));
    golden_add(&journal, " %s\n", err.msg);
    golden_add(&journal, "narrows: %s",
               wp_status_name(port.ops->narrows(port.self, WP_STR("all"),
                                                WP_STR("some"), &err)));
    golden_add(&journal, " %s\n", err.msg);
    golden_add(&journal, "may sign: %s\n",
               wp_status_name(port.ops->may_sign(port.self, &err)));
}

static void
show_stats(void)
{
    struct wp_local_stats stats;

    memset(&stats, 1, sizeof stats);
    wp_daemon_backend_stats(backend, &stats);
    golden_add(&journal, "ready %u, queued %u\n", stats.ready, stats.queued);
}

static void
test_the_port_is_there_before_the_machine(void **state)
{
    struct wp_sandbox_order order = {.ref = {3, 4}};
    struct wp_local_stats stats;
    struct wp_backend port;
    struct wp_err err;

    (void)state;
    create();
    use_port();
    show_stats();
    wp_daemon_backend_stop(backend, true);
    open_it(true);
    use_port();
    show_stats();
    wp_daemon_backend_stop(backend, true);
    again("started");
    start();
    use_port();
    show_stats();
    port = wp_daemon_backend_port(backend);
    golden_add(&journal, "create: %s\n",
               wp_status_name(port.ops->create(port.self, &order, &err)));
    port.ops->leased(port.self,
                     (const struct wp_lease_notice *)(const void *)&core);
    wp_daemon_backend_stop(backend, true);
    wp_daemon_backend_stop(backend, false);
    wp_daemon_backend_stop(NULL, false);
    wp_daemon_backend_destroy(NULL);
    memset(&stats, 1, sizeof stats);
    wp_daemon_backend_stats(NULL, &stats);
    assert_int_equal(stats.ready, 0);
    finish("port");
}

static void
test_what_an_earlier_daemon_left_is_said(void **state)
{
    uint32_t *const numbers[] = {&sweep_seen.sandboxes, &sweep_seen.cgroups,
                                 &sweep_seen.failed, &sweep_seen.killed,
                                 &sweep_seen.adopted};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(numbers); i++) {
        create();
        open_it(false);
        memset(&sweep_seen, 0, sizeof sweep_seen);
        *numbers[i] = (uint32_t)i + 1;
        durable = i % 2 == 0;
        start();
        wp_daemon_backend_destroy(backend);
    }
    create();
    open_it(false);
    sweep_seen = (struct wp_local_sweep){.sandboxes = 1, .cgroups = 1};
    start();
    wp_daemon_backend_destroy(backend);
    create();
    open_it(false);
    sweep_seen = (struct wp_local_sweep){.cgroups = 1, .failed = 1};
    start();
    wp_daemon_backend_destroy(backend);
    again("it does not start");
    create();
    open_it(false);
    fails = "start";
    start();
    use_port();
    finish("left");
}

static void
test_its_reports_reach_the_core(void **state)
{
    const struct wp_slot_ref ref = {5, 6};
    char token[WP_IDENTITY_TOKEN_MAX + 1] = "";
    struct wp_local_found found = {.name = WP_STR("box")};
    struct wp_slot_ref out;
    int64_t expires = 0;
    struct wp_err err;

    (void)state;
    create();
    open_it(false);
    start();
    events.on_started(events.ctx, ref);
    events.on_ready(events.ctx, ref, WP_STR("unix:/x"));
    events.on_lost(events.ctx, ref, WP_STR("it left"));
    events.on_destroyed(events.ctx, ref);
    assert_true(events.adopt(events.ctx, &found, &out));
    assert_int_equal(out.index, 8);
    again("identities");
    golden_add(
        &journal, "%s\n",
        wp_status_name(events.sign(events.ctx, WP_STR("leased"), WP_STR("who"),
                                   12, token, &expires, &err)));
    assert_string_equal(token, "token");
    assert_int_equal(expires, 77);
    fails = "signature";
    golden_add(
        &journal, "%s",
        wp_status_name(events.sign(events.ctx, WP_STR("leased"), WP_STR("who"),
                                   0, token, &expires, &err)));
    golden_add(&journal, " %s\n", err.msg);
    golden_add(
        &journal, "%s",
        wp_status_name(events.sign(events.ctx, WP_STR("other"), WP_STR("who"),
                                   0, token, &expires, &err)));
    golden_add(&journal, " %s\n", err.msg);
    again("use prolongs leases");
    LOGGED(events.on_used(events.ctx, ref, 123));
    assert_non_null(kept);
    kept->status = WP_UNAVAILABLE;
    LOGGED(kept->done(kept));
    LOGGED(events.on_used(events.ctx, ref, 124));
    kept->status = WP_OK;
    LOGGED(kept->done(kept));
    keep_status = WP_UNAVAILABLE;
    LOGGED(events.on_used(events.ctx, ref, 125));
    keep_status = WP_NOT_FOUND;
    LOGGED(events.on_used(events.ctx, ref, 126));
    no_memory = true;
    LOGGED(events.on_used(events.ctx, ref, 127));
    assert_null(
        wp_daemon_backend_create(&core, as_manifest(&first), &locks, &err));
    no_memory = false;
    golden_add(&journal, "%s: %s\n", wp_status_name(err.status), err.msg);
    finish("reports");
}

static void
choose_machine(const char *settings)
{
    struct wp_err err;

    again(settings);
    set(settings);
    create();
    memset(&err, 0, sizeof err);
    golden_add(&journal, "probe: %s\n",
               wp_status_name(wp_daemon_backend_probe(backend, &err)));
    fails = "probe";
    golden_add(&journal, "probe: %s",
               wp_status_name(wp_daemon_backend_probe(backend, &err)));
    golden_add(&journal, " %s\n", err.msg);
    fails = "machine";
    open_it(true);
    fails = NULL;
    open_it(false);
    start();
    use_port();
}

static void
test_the_local_machine_is_chosen(void **state)
{
    (void)state;
    choose_machine("");
    wp_daemon_backend_destroy(backend);
    choose_machine("backend: kubernetes\n");
    finish("machine");
}

static void
reload(struct manifest *manifest)
{
    bool changed[TEMPLATES] = {false};
    bool used;

    golden_add(&journal, "reload %s\n", manifest->name);
    LOGGED(used = wp_daemon_backend_reload(backend, as_manifest(manifest),
                                           changed));
    golden_add(&journal, "used %d, changed %d %d %d\n", used, changed[0],
               changed[1], changed[2]);
}

static void
accept(struct manifest *manifest, const char *ns, const char *tmpl)
{
    struct wp_pool_spec spec;
    bool is_kept = false;
    struct wp_err err;
    enum wp_status status;

    memset(&spec, 0, sizeof spec);
    memset(&err, 0, sizeof err);
    (void)snprintf(spec.pool_namespace, sizeof spec.pool_namespace, "%s", ns);
    (void)snprintf(spec.name, sizeof spec.name, "pool");
    (void)snprintf(spec.template_name, sizeof spec.template_name, "%s", tmpl);
    status = wp_daemon_backend_accept(backend, as_manifest(manifest), &spec,
                                      &is_kept, &err);
    golden_add(&journal, "accept %s/%s by %s: %s, kept %d %s\n", ns, tmpl,
               manifest->name, wp_status_name(status), is_kept, err.msg);
    golden_add(&journal, "has it: %d\n",
               wp_daemon_backend_has_template(backend, &spec));
}

static void
test_templates_change_while_it_runs(void **state)
{
    struct manifest third = {.name = "a third manifest"};

    (void)state;
    put_template(&later, "a", 1);
    put_template(&later, "b", 2);
    put_template(&third, "a", 1);
    put_template(&third, "b", 3);
    put_template(&third, "c", 4);
    create();
    again("before there is a machine");
    reload(&later);
    reload(&third);
    accept(&later, "ns", "a");
    open_it(false);
    again("it has none");
    reload(&later);
    reload(&later);
    reload(&third);
    again("one is refused");
    fails = "template";
    third.templates[1].memory_bytes = 33;
    put_template(&first, "d", 5);
    reload(&third);
    reload(&first);
    fails = NULL;
    reload(&first);
    finish("reload");
}

static void
test_a_pool_brings_its_template(void **state)
{
    struct manifest bare = {.name = "a bare manifest"};

    (void)state;
    put_template(&later, "a", 1);
    put_template(&first, "a", 2);
    create();
    core.keeper = true;
    accept(&later, "ns", "a");
    open_it(false);
    core.keeper = false;
    accept(&later, "ns", "a");
    core.keeper = true;
    accept(&bare, "ns", "a");
    fails = "template";
    accept(&later, "ns", "a");
    fails = NULL;
    accept(&later, "ns", "a");
    accept(&later, "ns", "a");
    accept(&bare, "ns", "a");
    accept(&bare, "other", "a");
    accept(&first, "ns", "a");
    put_template(&bare, "b", 9);
    accept(&bare, "ns", "a");
    finish("accept");
}

#ifdef WP_TEST_TOOLS
static void
test_a_synthetic_machine_needs_no_templates(void **state)
{
    (void)state;
    put_template(&later, "a", 1);
    core.keeper = true;
    choose_machine("synthetic: true\n");
    accept(&later, "ns", "a");
    reload(&later);
    wp_daemon_backend_destroy(backend);
    choose_machine("backend: kubernetes\n");
    finish("synthetic");
}
#endif

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_the_port_is_there_before_the_machine),
        TEST(test_what_an_earlier_daemon_left_is_said),
        TEST(test_its_reports_reach_the_core),
        TEST(test_the_local_machine_is_chosen),
        TEST(test_templates_change_while_it_runs),
        TEST(test_a_pool_brings_its_template),
#ifdef WP_TEST_TOOLS
        TEST(test_a_synthetic_machine_needs_no_templates),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
