/* tests/unit/allocator/daemon/reload_test.c - what becomes of pools when the
 * manifests say something else, and of pools that are made and removed by
 * calls: what is asked of the core and of the backend, what is kept in files,
 * and what is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "allocator/daemon/files.h"
#include "allocator/daemon/leave.h"
#include "allocator/daemon/pools.h"
#include "local/manifest/kept_pools.h"
#include "tests/unit/allocator/daemon/journal.h"

enum {
    SPECS_MAX = 6,
    POOLS_MAX = 5,
};

int __wrap_kill(pid_t pid, int sig);
void __wrap_wp_conf_destroy(struct wp_conf *of);
struct wp_conf *__wrap_wp_conf_create(void);
enum wp_status __wrap_wp_conf_load(struct wp_conf *of, int argc,
                                   char *const *argv, char *const *environ,
                                   enum wp_conf_action *action,
                                   struct wp_err *err);
void __wrap_wp_control_wake(void *ctx);
enum wp_status __wrap_wp_daemon_backend_accept(struct wp_daemon_backend *self,
                                               struct wp_manifest *manifest,
                                               const struct wp_pool_spec *spec,
                                               bool *is_kept,
                                               struct wp_err *err);
bool __wrap_wp_daemon_backend_has_template(struct wp_daemon_backend *self,
                                           const struct wp_pool_spec *spec);
bool __wrap_wp_daemon_backend_reload(struct wp_daemon_backend *self,
                                     struct wp_manifest *manifest,
                                     bool *changed);
enum wp_status __wrap_wp_daemon_check_unneeded(const struct wp_conf *of,
                                               const struct wp_pool_spec *pool,
                                               struct wp_err *err);
void __wrap_wp_daemon_kept_dir(const struct wp_conf *of,
                               char out[WP_DAEMON_KEPT_PATH]);
struct wp_manifest *__wrap_wp_daemon_read_manifests(const struct wp_conf *of,
                                                    struct wp_err *err);
enum wp_status __wrap_wp_daemon_set_quotas(struct wp_pools *of,
                                           const struct wp_conf *from,
                                           struct wp_err *err);
bool __wrap_wp_kept_pools_has(const char *dir, const struct wp_pool_spec *pool);
enum wp_status __wrap_wp_kept_pools_remove(const char *dir,
                                           const struct wp_pool_spec *pool,
                                           struct wp_err *err);
enum wp_status __wrap_wp_kept_pools_write(const char *dir,
                                          const struct wp_pool_spec *pool,
                                          struct wp_str text,
                                          struct wp_err *err);
void __wrap_wp_loop_call(struct wp_loop *loop, void (*call)(void *ctx),
                         void *ctx);
enum wp_status __wrap_wp_manifest_add_bytes(struct wp_manifest *manifest,
                                            const char *from,
                                            struct wp_str bytes,
                                            struct wp_err *err);
struct wp_manifest *__wrap_wp_manifest_create(void);
void __wrap_wp_manifest_destroy(struct wp_manifest *manifest);
size_t __wrap_wp_manifest_pools(const struct wp_manifest *manifest,
                                const struct wp_pool_spec **out);
enum wp_status __wrap_wp_manifest_resolve(struct wp_manifest *manifest,
                                          struct wp_err *err);
void __wrap_wp_manifest_set_inflight_max(struct wp_manifest *manifest,
                                         uint32_t n);
size_t __wrap_wp_manifest_templates(const struct wp_manifest *manifest,
                                    const struct wp_template **out);
enum wp_status __wrap_wp_pools_add(struct wp_pools *of,
                                   const struct wp_pool_spec *spec,
                                   uint32_t *index, struct wp_err *err);
uint32_t __wrap_wp_pools_count(const struct wp_pools *of);
uint32_t __wrap_wp_pools_index(const struct wp_pools *of,
                               struct wp_str pool_namespace,
                               struct wp_str name);
void __wrap_wp_pools_remove(struct wp_pools *of, uint32_t pool_index);
void __wrap_wp_pools_retire_idle(struct wp_pools *of, uint32_t pool_index,
                                 struct wp_str why);
void __wrap_wp_pools_stats(struct wp_pools *of, uint32_t pool_index,
                           struct wp_pool_stats *out);
enum wp_status __wrap_wp_pools_update(struct wp_pools *of, uint32_t pool_index,
                                      const struct wp_pool_spec *spec,
                                      struct wp_err *err);

static struct wp_conf conf;   /* As at the start. */
static struct wp_conf reread; /* As it is read now. */
static struct wp_daemon_core core;
static struct wp_daemon_backend *backend;
static char *argv[] = {(char *)"warmpoold", (char *)"--x", NULL};

/* What the manifest has, and whether its template is another than before and
 * can be used. */
static struct {
    struct wp_pool_spec specs[SPECS_MAX];
    bool usable[SPECS_MAX];
    size_t n_specs;
    struct wp_template templates[SPECS_MAX];
    bool changed[SPECS_MAX];
    size_t n_templates;
} manifest;

/* What the core has. */
static struct wp_pool_stats pools[POOLS_MAX];
static uint32_t n_pools;

int
__wrap_kill(pid_t pid, int sig)
{
    assert_int_equal(pid, getpid());
    journal("kill with %s", sigabbrev_np(sig));
    return 0;
}

/* --- Settings and manifests --- */

struct wp_conf *
__wrap_wp_conf_create(void)
{
    return journal_said("conf", true) != 0 ? &reread : NULL;
}

void
__wrap_wp_conf_destroy(struct wp_conf *of)
{
    journal("destroy settings %s", of == &reread ? "read now" : "?");
}

enum wp_status
__wrap_wp_conf_load(struct wp_conf *of, int argc, char *const *args,
                    char *const *environ, enum wp_conf_action *action,
                    struct wp_err *err)
{
    assert_ptr_equal(of, &reread);
    assert_ptr_equal(args, argv);
    assert_non_null(environ);
    *action = WP_CONF_RUN;
    journal("load settings from %d arguments", argc);
    return journal_status("load", err);
}

struct wp_manifest *
__wrap_wp_daemon_read_manifests(const struct wp_conf *of, struct wp_err *err)
{
    assert_ptr_equal(of, &reread);
    journal("read manifests");
    return journal_status("read", err) == WP_OK ? journal_thing("manifest")
                                                : NULL;
}

enum wp_status
__wrap_wp_daemon_set_quotas(struct wp_pools *of, const struct wp_conf *from,
                            struct wp_err *err)
{
    assert_ptr_equal(of, core.pools);
    assert_ptr_equal(from, &reread);
    journal("  set quotas");
    return journal_status("quotas", err);
}

struct wp_manifest *
__wrap_wp_manifest_create(void)
{
    return journal_said("create", true) != 0 ? journal_thing("one of a call")
                                             : NULL;
}

void
__wrap_wp_manifest_destroy(struct wp_manifest *of)
{
    journal("destroy %s", journal_name(of));
}

void
__wrap_wp_manifest_set_inflight_max(struct wp_manifest *of, uint32_t n)
{
    journal("%s: at most %u at once", journal_name(of), n);
}

enum wp_status
__wrap_wp_manifest_add_bytes(struct wp_manifest *of, const char *from,
                             struct wp_str bytes, struct wp_err *err)
{
    journal("%s: add '%.*s' from %s", journal_name(of), (int)bytes.len,
            bytes.ptr, from);
    return journal_status("add bytes", err);
}

enum wp_status
__wrap_wp_manifest_resolve(struct wp_manifest *of, struct wp_err *err)
{
    journal("%s: resolve", journal_name(of));
    return journal_status("resolve", err);
}

size_t
__wrap_wp_manifest_pools(const struct wp_manifest *of,
                         const struct wp_pool_spec **out)
{
    assert_string_not_equal(journal_name(of), "none");
    *out = manifest.specs;
    return manifest.n_specs;
}

size_t
__wrap_wp_manifest_templates(const struct wp_manifest *of,
                             const struct wp_template **out)
{
    assert_string_not_equal(journal_name(of), "none");
    *out = manifest.templates;
    return manifest.n_templates;
}

static void
fill_spec(struct wp_pool_spec *spec, const char *ns, const char *name,
          const char *tmpl)
{
    memset(spec, 0, sizeof *spec);
    wp_pool_spec_init(spec);
    (void)snprintf(spec->pool_namespace, sizeof spec->pool_namespace, "%s", ns);
    (void)snprintf(spec->name, sizeof spec->name, "%s", name);
    (void)snprintf(spec->template_name, sizeof spec->template_name, "%s", tmpl);
    spec->target = 3;
}

/* --- The backend and the files --- */

bool
__wrap_wp_daemon_backend_reload(struct wp_daemon_backend *self,
                                struct wp_manifest *of, bool *changed)
{
    bool kept = journal_said("kept", true) != 0;

    journal("reload %s with %s, kept: %d", journal_name(self), journal_name(of),
            kept);
    for (size_t i = 0; i < manifest.n_templates; i++) {
        assert_false(changed[i]);
        changed[i] = manifest.changed[i];
    }
    return kept;
}

bool
__wrap_wp_daemon_backend_has_template(struct wp_daemon_backend *self,
                                      const struct wp_pool_spec *spec)
{
    assert_ptr_equal(self, backend);
    assert_true(spec < manifest.specs + manifest.n_specs);
    return manifest.usable[spec - manifest.specs];
}

enum wp_status
__wrap_wp_daemon_backend_accept(struct wp_daemon_backend *self,
                                struct wp_manifest *of,
                                const struct wp_pool_spec *spec, bool *is_kept,
                                struct wp_err *err)
{
    assert_false(*is_kept);
    *is_kept = journal_said("is kept", false) != 0;
    journal("%s accepts %s, %s: %d", journal_name(self), journal_name(of),
            spec->name, *is_kept);
    return journal_status("accept", err);
}

void
__wrap_wp_daemon_kept_dir(const struct wp_conf *of,
                          char out[WP_DAEMON_KEPT_PATH])
{
    assert_ptr_equal(of, &conf);
    (void)snprintf(out, WP_DAEMON_KEPT_PATH, "/kept");
}

enum wp_status
__wrap_wp_daemon_check_unneeded(const struct wp_conf *of,
                                const struct wp_pool_spec *pool,
                                struct wp_err *err)
{
    struct wp_pool_spec same;

    assert_ptr_equal(of, &conf);
    fill_spec(&same, "blue", "a", "");
    same.target = pool->target;
    assert_int_equal(pool->target, 0);
    assert_memory_equal(pool->egress, same.egress, sizeof same.egress);
    assert_true(wp_scale_policy_eq(&pool->scale, &same.scale));
    journal("is %s/%s unneeded?", pool->pool_namespace, pool->name);
    return journal_status("unneeded", err);
}

bool
__wrap_wp_kept_pools_has(const char *dir, const struct wp_pool_spec *pool)
{
    journal("has %s %s/%s?", dir, pool->pool_namespace, pool->name);
    return journal_said("has", true) != 0;
}

enum wp_status
__wrap_wp_kept_pools_remove(const char *dir, const struct wp_pool_spec *pool,
                            struct wp_err *err)
{
    journal("remove %s/%s from %s", pool->pool_namespace, pool->name, dir);
    return journal_status("remove", err);
}

enum wp_status
__wrap_wp_kept_pools_write(const char *dir, const struct wp_pool_spec *pool,
                           struct wp_str text, struct wp_err *err)
{
    journal("write %s/%s to %s: '%.*s'", pool->pool_namespace, pool->name, dir,
            (int)text.len, text.ptr);
    return journal_status("write", err);
}

/* --- The core --- */

void
__wrap_wp_loop_call(struct wp_loop *loop, void (*call)(void *ctx), void *ctx)
{
    journal("on %s:", journal_name(loop));
    call(ctx);
}

void
__wrap_wp_control_wake(void *ctx)
{
    journal("  wake %s", journal_name(ctx));
}

static void
tell_spec(const char *what, const struct wp_pool_spec *s)
{
    journal("  %s %s/%s of %s: target %u, waiters %u %u, leases %u, claims %u, "
            "fair %d, at once %u, ttl %lld %lld, hold %lld, freeze %lld, wait "
            "%lld, ready %lld, cold %d, env %d, egress '%s', min %u",
            what, s->pool_namespace, s->name, s->template_name, s->target,
            s->waiters_max, s->tenant_waiters_max, s->tenant_leases_max,
            s->tenant_claims_per_minute, s->fair_share, s->create_inflight_max,
            (long long)s->ttl_default_ns, (long long)s->ttl_max_ns,
            (long long)s->hold_max_ns, (long long)s->freeze_after_ns,
            (long long)s->wait_max_ns, (long long)s->ready_within_ns,
            (int)s->cold_start, s->bind_env, s->egress, s->scale.min);
}

enum wp_status
__wrap_wp_pools_add(struct wp_pools *of, const struct wp_pool_spec *spec,
                    uint32_t *index, struct wp_err *err)
{
    assert_ptr_equal(of, core.pools);
    tell_spec("add", spec);
    if (index != NULL) {
        *index = 9;
    }
    return journal_status("pools add", err);
}

enum wp_status
__wrap_wp_pools_update(struct wp_pools *of, uint32_t pool_index,
                       const struct wp_pool_spec *spec, struct wp_err *err)
{
    assert_ptr_equal(of, core.pools);
    journal("  pool %u:", pool_index);
    tell_spec("update", spec);
    return journal_status("update", err);
}

uint32_t
__wrap_wp_pools_count(const struct wp_pools *of)
{
    assert_ptr_equal(of, core.pools);
    return n_pools;
}

uint32_t
__wrap_wp_pools_index(const struct wp_pools *of, struct wp_str pool_namespace,
                      struct wp_str name)
{
    assert_ptr_equal(of, core.pools);
    for (uint32_t i = 0; i < n_pools; i++) {
        if (!pools[i].removed &&
            wp_str_is(pool_namespace, pools[i].spec.pool_namespace) &&
            wp_str_is(name, pools[i].spec.name)) {
            return i;
        }
    }
    return UINT32_MAX;
}

void
__wrap_wp_pools_remove(struct wp_pools *of, uint32_t pool_index)
{
    assert_ptr_equal(of, core.pools);
    journal("  remove pool %u", pool_index);
}

void
__wrap_wp_pools_retire_idle(struct wp_pools *of, uint32_t pool_index,
                            struct wp_str why)
{
    assert_ptr_equal(of, core.pools);
    journal("  retire idle ones of %u: %.*s", pool_index, (int)why.len,
            why.ptr);
}

void
__wrap_wp_pools_stats(struct wp_pools *of, uint32_t pool_index,
                      struct wp_pool_stats *out)
{
    assert_ptr_equal(of, core.pools);
    assert_true(pool_index < n_pools);
    *out = pools[pool_index];
}

/* --- The tests --- */

static int
begin(void **state)
{
    (void)journal_begin(state);
    memset(&conf, 0, sizeof conf);
    memset(&manifest, 0, sizeof manifest);
    memset(pools, 0, sizeof pools);
    memset(&core, 0, sizeof core);
    n_pools = 0;
    conf.slots_max = 100;
    conf.create_inflight_max = 6;
    core.conf = &conf;
    core.loop = journal_thing("control thread");
    core.control = journal_thing("control");
    core.pools = journal_thing("pools");
    backend = journal_thing("backend");
    return 0;
}

/* The manifest has it. */
static struct wp_pool_spec *
wants(const char *ns, const char *name, const char *tmpl)
{
    struct wp_pool_spec *spec = &manifest.specs[manifest.n_specs];

    manifest.usable[manifest.n_specs++] = true;
    fill_spec(spec, ns, name, tmpl);
    return spec;
}

static void
wants_template(const char *ns, const char *name, bool changed)
{
    struct wp_template *tmpl = &manifest.templates[manifest.n_templates];

    manifest.changed[manifest.n_templates++] = changed;
    (void)snprintf(tmpl->template_namespace, sizeof tmpl->template_namespace,
                   "%s", ns);
    (void)snprintf(tmpl->name, sizeof tmpl->name, "%s", name);
}

/* The core has it. */
static struct wp_pool_stats *
has(const char *ns, const char *name, const char *tmpl)
{
    struct wp_pool_stats *stats = &pools[n_pools++];

    fill_spec(&stats->spec, ns, name, tmpl);
    stats->replicas = 3;
    return stats;
}

static void
reload(void)
{
    wp_daemon_reload(&core, backend, 2, argv);
}

static void
test_pools_come_and_go(void **state)
{
    (void)state;
    /* Names that differ in one part only. */
    (void)has("blue", "a", "t");
    (void)has("blue", "b", "t");
    (void)has("red", "a", "t");
    has("red", "gone", "t")->removed = true;
    (void)wants("blue", "b", "t");
    (void)wants("red", "b", "t");
    (void)wants("red", "gone", "u");
    (void)wants("blue", "a", "t"); /* It had been there. */
    manifest.n_specs--;
    journal_say("kept", false);
    reload();
    journal_is("reload_come_and_go");
}

static void
test_new_pool_needs_a_usable_template_and_room(void **state)
{
    (void)state;
    (void)wants("blue", "a", "t");
    (void)wants("blue", "b", "u");
    manifest.usable[0] = false;
    journal_say("pools add", WP_RESOURCE_EXHAUSTED);
    reload();
    journal_is("reload_refused");
}

/* Each field of a pool in its turn; false: there are no more. */
static bool
change(struct wp_pool_spec *s, size_t field)
{
    const char egress[] = "more";
    int64_t *const times[] = {&s->ttl_default_ns, &s->ttl_max_ns,
                              &s->hold_max_ns,    &s->freeze_after_ns,
                              &s->wait_max_ns,    &s->ready_within_ns};
    uint32_t *const numbers[] = {&s->waiters_max,
                                 &s->tenant_waiters_max,
                                 &s->tenant_leases_max,
                                 &s->tenant_claims_per_minute,
                                 &s->create_inflight_max,
                                 &s->scale.min,
                                 &s->target};
    bool *const flags[] = {&s->fair_share, &s->bind_env};

    if (field < WP_ARRAY_LEN(times)) {
        *times[field] += 1;
        return true;
    }
    field -= WP_ARRAY_LEN(times);
    if (field < WP_ARRAY_LEN(numbers)) {
        *numbers[field] += 1;
        return true;
    }
    field -= WP_ARRAY_LEN(numbers);
    if (field < WP_ARRAY_LEN(flags)) {
        *flags[field] = !*flags[field];
        return true;
    }
    switch (field - WP_ARRAY_LEN(flags)) {
    case 0:
        s->cold_start = (enum wp_cold_start)(s->cold_start == 0);
        return true;
    case 1:
        memcpy(s->egress, egress, sizeof egress);
        return true;
    case 2:
        (void)snprintf(s->template_name, sizeof s->template_name, "other");
        return true;
    default:
        return false;
    }
}

static void
test_any_field_that_differs_is_a_change(void **state)
{
    bool more = true;

    (void)state;
    (void)has("blue", "a", "t");
    for (size_t field = 0; more; field++) {
        manifest.n_specs = 0;
        more = change(wants("blue", "a", "t"), field);
        reload();
    }
    journal_is("reload_fields");
}

static void
test_target_that_a_scaler_or_a_hand_has_set_stays(void **state)
{
    struct wp_pool_stats *stats;
    struct wp_pool_spec *spec;

    (void)state;
    /* Scaled: what counts is the target as it was given. */
    stats = has("blue", "a", "t");
    stats->scaled = true;
    stats->spec.target = 17;
    (void)wants("blue", "a", "t");
    reload();
    journal_is("reload_scaled_same");
    /* Something else changes. */
    manifest.specs[0].waiters_max = 77;
    reload();
    journal_is("reload_scaled_other");
    /* The given one changes. */
    manifest.specs[0].target = 17;
    reload();
    journal_is("reload_scaled_target");
    /* Not scaled: a hand has set it, and the manifest says it again. */
    (void)begin(state);
    stats = has("blue", "a", "t");
    stats->spec.target = 17;
    spec = wants("blue", "a", "t");
    spec->target = 17;
    reload();
    journal_is("reload_hand_same");
    spec->target = 3;
    reload();
    journal_is("reload_hand_target");
    /* What holds is another one than what was given. */
    stats->replicas = 5;
    spec->target = 17;
    spec->waiters_max = 77;
    reload();
    journal_is("reload_hand_other");
}

static void
test_idle_ones_of_a_former_template_retire(void **state)
{
    (void)state;
    (void)has("blue", "a", "t");
    (void)has("red", "a", "t");
    (void)has("red", "b", "u");
    (void)has("red", "c", "v");
    (void)wants("blue", "a", "t");
    (void)wants("red", "a", "t");
    (void)wants("red", "b", "u");
    wants("red", "c", "v")->waiters_max = 77;
    wants_template("red", "t", true);
    wants_template("blue", "t", false);
    wants_template("blue", "u", true);
    wants_template("red", "v", true);
    wants_template("red", "u", true); /* It had been there. */
    manifest.n_templates--;
    reload();
    journal_is("reload_retires");
}

static void
test_refused_change_retires_nothing(void **state)
{
    (void)state;
    (void)has("blue", "a", "t");
    (void)has("blue", "b", "t");
    wants("blue", "a", "t")->waiters_max = 77;
    wants("blue", "b", "u")->waiters_max = 77;
    wants_template("blue", "t", true);
    manifest.usable[1] = false;
    journal_say("update", WP_INVALID_ARGUMENT);
    reload();
    journal_is("reload_change_refused");
}

static void
test_mistake_leaves_all_as_it_is(void **state)
{
    (void)state;
    (void)has("blue", "a", "t");
    journal_say("conf", false);
    reload();
    journal_say("load", WP_INVALID_ARGUMENT);
    reload();
    journal_say("read", WP_INVALID_ARGUMENT);
    reload();
    journal_is("reload_mistake");
}

static void
test_cluster_reloads_quotas_only(void **state)
{
    (void)state;
    (void)has("blue", "a", "t");
    backend = NULL;
    reload();
    journal_say("quotas", WP_RESOURCE_EXHAUSTED);
    reload();
    journal_is("reload_cluster");
}

/* --- Calls --- */

static void
done(struct wp_pool_job *job, uint32_t index, const struct wp_err *err)
{
    journal("done %s %u: %s%s%s", journal_name(job), err == NULL ? index : 0,
            err == NULL ? "ok" : wp_status_name(err->status),
            err == NULL ? "" : ": ", err == NULL ? "" : err->msg);
}

static void
shape(struct wp_pool_job *job)
{
    struct wp_err err = {.msg = ""};
    enum wp_status status = wp_daemon_shape(&core, job, &err);

    journal("asked %s: %s: %s", journal_name(job), wp_status_name(status),
            err.msg);
}

static void
run_shape(void)
{
    journal("changed: %d", wp_daemon_shape_run(&core, backend));
}

static struct wp_pool_job create_job = {.manifest = {"kind: text", 10},
                                        .done = done};
static struct wp_pool_job delete_job = {
    .pool_namespace = {"blue!", 4}, .pool = {"a!", 1}, .done = done};

static int
begin_calls(void **state)
{
    (void)begin(state);
    journal_know(&create_job, "create");
    journal_know(&delete_job, "delete");
    return 0;
}

static void
test_one_job_at_a_time(void **state)
{
    (void)state;
    run_shape();
    (void)wants("blue", "a", "t");
    shape(&create_job);
    shape(&delete_job);
    run_shape();
    run_shape();
    shape(&create_job);
    wp_daemon_shape_close(&core);
    wp_daemon_shape_close(&core);
    shape(&create_job);
    run_shape();
    journal_is("shape_jobs");
    /* With none to refuse. */
    core.pool_job = NULL;
    wp_daemon_shape_close(&core);
    shape(&create_job);
    journal_is("shape_closed");
}

static void
create(void)
{
    shape(&create_job);
    run_shape();
}

static void
test_call_makes_a_pool(void **state)
{
    (void)state;
    (void)wants("blue", "a", "t");
    wants_template("blue", "t", true);
    journal_say("is kept", true);
    create();
    journal_is("shape_create");
}

static void
test_pool_that_cannot_be_made_is_not_kept(void **state)
{
    static const char *const calls[] = {"add bytes", "resolve", "accept",
                                        "write", "pools add"};

    (void)state;
    (void)wants("blue", "a", "t");
    journal_say("create", false);
    create();
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        journal_say(calls[i], WP_UNAVAILABLE);
        create();
    }
    journal_say("pools add", WP_UNAVAILABLE);
    journal_say("remove", WP_UNAVAILABLE);
    journal_say("is kept", true);
    create();
    journal_is("shape_create_fails");
}

static void
test_call_makes_one_pool_of_its_own_template(void **state)
{
    (void)state;
    create(); /* None. */
    (void)wants("blue", "a", "t");
    wants_template("blue", "u", true);
    create();
    manifest.n_templates = 0;
    wants_template("red", "t", true);
    create();
    manifest.n_templates = 0;
    wants_template("blue", "t", true);
    wants_template("blue", "t", true);
    create();
    manifest.n_templates = 1;
    (void)has("blue", "b", "t");
    (void)has("red", "a", "t");
    create();
    (void)has("blue", "a", "t");
    create();
    (void)wants("blue", "c", "t");
    create();
    journal_is("shape_of_what");
}

static void
test_pools_together_fit_the_slots(void **state)
{
    (void)state;
    wants("blue", "a", "t")->target = 10;
    has("blue", "b", "t")->spec.target = 40;
    has("blue", "c", "t")->spec.target = 50;
    pools[has("blue", "d", "t") - pools].removed = true;
    create();
    pools[1].spec.target = 51;
    create();
    pools[1].spec.target = UINT32_MAX; /* Nor does it overflow. */
    create();
    journal_is("shape_slots");
}

static void
test_call_removes_a_pool(void **state)
{
    (void)state;
    (void)has("red", "a", "t");
    shape(&delete_job);
    run_shape(); /* It is not there. */
    (void)has("blue", "a", "t");
    journal_say("has", false);
    shape(&delete_job);
    run_shape();
    journal_say("unneeded", WP_FAILED_PRECONDITION);
    shape(&delete_job);
    run_shape();
    journal_say("remove", WP_UNAVAILABLE);
    shape(&delete_job);
    run_shape();
    shape(&delete_job);
    run_shape();
    journal_is("shape_delete");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_pools_come_and_go, begin),
        cmocka_unit_test_setup(test_new_pool_needs_a_usable_template_and_room,
                               begin),
        cmocka_unit_test_setup(test_any_field_that_differs_is_a_change, begin),
        cmocka_unit_test_setup(
            test_target_that_a_scaler_or_a_hand_has_set_stays, begin),
        cmocka_unit_test_setup(test_idle_ones_of_a_former_template_retire,
                               begin),
        cmocka_unit_test_setup(test_refused_change_retires_nothing, begin),
        cmocka_unit_test_setup(test_mistake_leaves_all_as_it_is, begin),
        cmocka_unit_test_setup(test_cluster_reloads_quotas_only, begin),
        cmocka_unit_test_setup(test_one_job_at_a_time, begin_calls),
        cmocka_unit_test_setup(test_call_makes_a_pool, begin_calls),
        cmocka_unit_test_setup(test_pool_that_cannot_be_made_is_not_kept,
                               begin_calls),
        cmocka_unit_test_setup(test_call_makes_one_pool_of_its_own_template,
                               begin_calls),
        cmocka_unit_test_setup(test_pools_together_fit_the_slots, begin_calls),
        cmocka_unit_test_setup(test_call_removes_a_pool, begin_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
