/* tests/unit/allocator/daemon/records_test.c - the core, made from the
 * settings, and what it takes up: the records of an earlier daemon and the
 * sandboxes that are found. The core is the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "allocator/conf/budget.h"
#include "allocator/conf/quota.h"
#include "allocator/daemon/backend.h"
#include "allocator/daemon/files.h"
#include "allocator/daemon/pools.h"
#include "allocator/daemon/store.h"
#include "pool/base/rng.h"
#include "pool/leases/token.h"
#include "pool/scale/scaler.h"
#include "tests/unit/allocator/daemon/journal.h"

enum {
    KEY = 0x11,
    HASH_KEY = 0x22,
    RECORDS_MAX = 12,
};

void __wrap__exit(int code);
void __real__exit(int code);
int __wrap_nanosleep(const struct timespec *ts, struct timespec *rest);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_init(pthread_cond_t *cond,
                             const pthread_condattr_t *attr);
int __real_pthread_cond_init(pthread_cond_t *cond,
                             const pthread_condattr_t *attr);
int __wrap_pthread_mutex_init(pthread_mutex_t *lock,
                              const pthread_mutexattr_t *attr);
int __real_pthread_mutex_init(pthread_mutex_t *lock,
                              const pthread_mutexattr_t *attr);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
void __wrap_wp_pool_spec_init(struct wp_pool_spec *spec);
void __real_wp_pool_spec_init(struct wp_pool_spec *spec);
int __wrap_sigpending(sigset_t *set);
enum wp_status __wrap_wp_conf_budgets(const struct wp_conf *of,
                                      struct wp_budget_total *out, uint32_t *n,
                                      struct wp_err *err);
enum wp_status __wrap_wp_conf_quotas(const struct wp_conf *of,
                                     struct wp_tenant_quota *out, uint32_t *n,
                                     struct wp_err *err);
bool __wrap_wp_daemon_is_keeper(const struct wp_daemon_core *of);
enum wp_status __wrap_wp_daemon_read_key(const struct wp_conf *of,
                                         uint8_t out[WP_TOKEN_KEY_LEN],
                                         bool *made, struct wp_err *err);
void __wrap_wp_loop_call(struct wp_loop *loop, void (*call)(void *ctx),
                         void *ctx);
size_t __wrap_wp_manifest_pools(const struct wp_manifest *manifest,
                                const struct wp_pool_spec **out);
enum wp_status __wrap_wp_pools_add(struct wp_pools *of,
                                   const struct wp_pool_spec *spec,
                                   uint32_t *index, struct wp_err *err);
struct wp_pools *__wrap_wp_pools_create(const struct wp_pools_config *config,
                                        struct wp_err *err);
void __wrap_wp_pools_drain(struct wp_pools *of, uint32_t pool_index);
enum wp_status __wrap_wp_pools_find_sandbox(struct wp_pools *of,
                                            struct wp_str sandbox,
                                            struct wp_claim_info *info);
uint32_t __wrap_wp_pools_index(const struct wp_pools *of,
                               struct wp_str pool_namespace,
                               struct wp_str name);
bool __wrap_wp_pools_learned_saved(struct wp_pools *of);
size_t __wrap_wp_pools_memory_bytes(const struct wp_pools *of);
void __wrap_wp_pools_on_record(struct wp_pools *of,
                               const struct wp_lease_record *record);
uint64_t __wrap_wp_pools_records_refused(const struct wp_pools *of);
bool __wrap_wp_pools_seen(struct wp_pools *of, const uint8_t uid[WP_UID_LEN],
                          struct wp_slot_ref *ref);
void __wrap_wp_pools_set_keeper(struct wp_pools *of, bool keeper);
bool __wrap_wp_pools_set_quotas(struct wp_pools *of,
                                const struct wp_tenant_quota *quotas,
                                uint32_t n);
void __wrap_wp_pools_stats(struct wp_pools *of, uint32_t pool_index,
                           struct wp_pool_stats *out);
void __wrap_wp_random_bytes(void *out, size_t len);
void __wrap_wp_scale_decision_format(const struct wp_scale_decision *decision,
                                     char *out, size_t cap);
void __wrap_wp_services_changed(void *ctx, uint32_t pool_index);
void __wrap_wp_token_key_derive(const uint8_t bytes[WP_TOKEN_KEY_LEN],
                                const char *purpose, void *out, size_t len);

static struct wp_conf conf;
static struct wp_daemon_core core;
static struct wp_pools_config given;
static struct wp_pool_spec specs[2];
static size_t n_specs;
static jmp_buf left; /* Where the daemon's end leads, while one is expected. */
static bool may_leave;
static bool is_held; /* The lock of a question to the store. */
static struct wp_lease_op *pending;
static struct wp_lease_record records[RECORDS_MAX];
static uint32_t n_records;
static bool knows_pool; /* The core has each pool that is asked for. */

/* --- The system --- */

void
__wrap__exit(int code)
{
    if (!may_leave) {
        __real__exit(code);
    }
    may_leave = false;
    journal("exit %d", code);
    longjmp(left, 1);
}

int
__wrap_nanosleep(const struct timespec *ts, struct timespec *rest)
{
    assert_null(rest);
    journal("sleep %lld ns",
            (long long)(ts->tv_sec * WP_NS_PER_S + ts->tv_nsec));
    return 0;
}

int
__wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock)
{
    struct wp_lease_op *op = pending;

    (void)cond;
    journal("wait for the answer");
    if (journal_said("for nothing", false) != 0) {
        return 0;
    }
    pending = NULL;
    (void)pthread_mutex_unlock(lock);
    op->done(op, (enum wp_status)journal_said("fetched", WP_OK));
    (void)pthread_mutex_lock(lock);
    return 0;
}

int
__wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    (void)cond;
    assert_true(is_held);
    journal("signal");
    return 0;
}

int
__wrap_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attr)
{
    journal("a condition");
    return __real_pthread_cond_init(cond, attr);
}

int
__wrap_pthread_mutex_init(pthread_mutex_t *lock,
                          const pthread_mutexattr_t *attr)
{
    journal("a lock");
    return __real_pthread_mutex_init(lock, attr);
}

int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    assert_false(is_held);
    is_held = true;
    return __real_pthread_mutex_lock(lock);
}

int
__wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    assert_true(is_held);
    is_held = false;
    return __real_pthread_mutex_unlock(lock);
}

int
__wrap_sigpending(sigset_t *set)
{
    int sig = (int)journal_said("pending", 0);

    (void)sigemptyset(set);
    if (sig > 0) {
        (void)sigaddset(set, sig);
    }
    return sig < 0 ? -1 : 0;
}

static void
wipes(size_t n)
{
    journal("wipe %zu bytes", n);
}

void
__wrap_wp_random_bytes(void *out, size_t len)
{
    memset(out, 0x5a, len);
}

/* --- Settings --- */

enum wp_status
__wrap_wp_daemon_read_key(const struct wp_conf *of,
                          uint8_t out[WP_TOKEN_KEY_LEN], bool *made,
                          struct wp_err *err)
{
    assert_ptr_equal(of, &conf);
    memset(out, KEY, WP_TOKEN_KEY_LEN);
    *made = true;
    journal("read key");
    return journal_status("key", err);
}

enum wp_status
__wrap_wp_conf_budgets(const struct wp_conf *of, struct wp_budget_total *out,
                       uint32_t *n, struct wp_err *err)
{
    assert_ptr_equal(of, &conf);
    (void)snprintf(out[0].group, sizeof out[0].group, "group");
    out[0].total = 31;
    *n = 1;
    return journal_status("budgets", err);
}

enum wp_status
__wrap_wp_conf_quotas(const struct wp_conf *of, struct wp_tenant_quota *out,
                      uint32_t *n, struct wp_err *err)
{
    assert_ptr_equal(of, &conf);
    memset(out, 0, 2 * sizeof *out);
    (void)snprintf(out[1].tenant, sizeof out[1].tenant, "tenant");
    *n = 2;
    return journal_status("quotas", err);
}

void
__wrap_wp_token_key_derive(const uint8_t bytes[WP_TOKEN_KEY_LEN],
                           const char *purpose, void *out, size_t len)
{
    journal("derive %zu bytes for %s from %x %x", len, purpose, bytes[0],
            bytes[WP_TOKEN_KEY_LEN - 1]);
    memset(out, HASH_KEY, len);
}

bool
__wrap_wp_daemon_is_keeper(const struct wp_daemon_core *of)
{
    assert_ptr_equal(of, &core);
    return journal_said("keeper", true) != 0;
}

size_t
__wrap_wp_manifest_pools(const struct wp_manifest *manifest,
                         const struct wp_pool_spec **out)
{
    assert_string_equal(journal_name(manifest), "manifest");
    *out = specs;
    return n_specs;
}

/* --- The core --- */

void
__wrap_wp_loop_call(struct wp_loop *loop, void (*call)(void *ctx), void *ctx)
{
    journal("on %s:", journal_name(loop));
    call(ctx);
}

struct wp_pools *
__wrap_wp_pools_create(const struct wp_pools_config *config, struct wp_err *err)
{
    const uint8_t *hash = (const uint8_t *)&config->hash_key;

    given = *config;
    assert_ptr_equal(config->clock, wp_clock_system());
    assert_ptr_equal(config->wake, wp_daemon_wake);
    journal("pools: %u slots, %u claims, %zu bytes of history, key %x %x, hash "
            "key %x %x, seed %llx, tokens %d",
            config->slots_max, config->claims_max, config->history_bytes_max,
            config->token_key[0], config->token_key[31], hash[0],
            hash[sizeof config->hash_key - 1], (unsigned long long)config->seed,
            !config->no_tokens);
    journal("  of %s, in %s, for %s; %u budgets, %s of %u",
            journal_name(config->backend.self),
            journal_name(config->store.self), journal_name(config->ctx),
            config->n_budgets, config->budgets[0].group,
            config->budgets[0].total);
    return journal_status("create", err) == WP_OK ? journal_thing("pools")
                                                  : NULL;
}

size_t
__wrap_wp_pools_memory_bytes(const struct wp_pools *of)
{
    assert_string_equal(journal_name(of), "pools");
    return 12345;
}

void
__wrap_wp_pools_set_keeper(struct wp_pools *of, bool keeper)
{
    journal("%s keep: %d", journal_name(of), keeper);
}

bool
__wrap_wp_pools_set_quotas(struct wp_pools *of,
                           const struct wp_tenant_quota *quotas, uint32_t n)
{
    journal("%s have %u quotas, the last one %s's", journal_name(of), n,
            quotas[n - 1].tenant);
    return journal_said("quotas set", true) != 0;
}

enum wp_status
__wrap_wp_pools_add(struct wp_pools *of, const struct wp_pool_spec *spec,
                    uint32_t *index, struct wp_err *err)
{
    *index = 4;
    journal("%s add %s/%s of %s, target %u, %u at once", journal_name(of),
            spec->pool_namespace, spec->name, spec->template_name, spec->target,
            spec->create_inflight_max);
    return journal_status("add", err);
}

uint32_t
__wrap_wp_pools_index(const struct wp_pools *of, struct wp_str pool_namespace,
                      struct wp_str name)
{
    int64_t index = journal_said("index", knows_pool ? 3 : -1);

    assert_string_equal(journal_name(of), "pools");
    journal("  index of %.*s/%.*s: %lld", (int)pool_namespace.len,
            pool_namespace.ptr, (int)name.len, name.ptr, (long long)index);
    return index < 0 ? UINT32_MAX : (uint32_t)index;
}

/* What the target is then is nobody's promise. */
void
__wrap_wp_pool_spec_init(struct wp_pool_spec *spec)
{
    __real_wp_pool_spec_init(spec);
    spec->target = 99;
}

void
__wrap_wp_pools_drain(struct wp_pools *of, uint32_t pool_index)
{
    journal("%s drain %u", journal_name(of), pool_index);
}

void
__wrap_wp_pools_on_record(struct wp_pools *of,
                          const struct wp_lease_record *record)
{
    journal("  %s take record %u, state %d", journal_name(of), record->uid[0],
            (int)record->state);
}

uint64_t
__wrap_wp_pools_records_refused(const struct wp_pools *of)
{
    assert_string_equal(journal_name(of), "pools");
    return (uint64_t)journal_said("refused", 0);
}

void
__wrap_wp_pools_stats(struct wp_pools *of, uint32_t pool_index,
                      struct wp_pool_stats *out)
{
    assert_string_equal(journal_name(of), "pools");
    memset(out, 0, sizeof *out);
    (void)snprintf(out->spec.pool_namespace, sizeof out->spec.pool_namespace,
                   "ns%u", pool_index);
    (void)snprintf(out->spec.name, sizeof out->spec.name, "pool%u", pool_index);
    (void)snprintf(out->spec.egress, sizeof out->spec.egress, "policy");
}

enum wp_status
__wrap_wp_pools_find_sandbox(struct wp_pools *of, struct wp_str sandbox,
                             struct wp_claim_info *info)
{
    enum wp_status status =
        (enum wp_status)journal_said("leased", WP_NOT_FOUND);

    assert_string_equal(journal_name(of), "pools");
    memset(info, 0, sizeof *info);
    journal("  is %.*s leased? %s", (int)sandbox.len, sandbox.ptr,
            wp_status_text(status));
    return status;
}

bool
__wrap_wp_pools_seen(struct wp_pools *of, const uint8_t uid[WP_UID_LEN],
                     struct wp_slot_ref *ref)
{
    bool wanted = journal_said("wanted", true) != 0;

    assert_string_equal(journal_name(of), "pools");
    journal("  seen %u: %d", uid[0], wanted);
    *ref = (struct wp_slot_ref){wanted ? 8 : 0, 9};
    return wanted;
}

bool
__wrap_wp_pools_learned_saved(struct wp_pools *of)
{
    assert_string_equal(journal_name(of), "pools");
    return journal_said("saved", true) != 0;
}

void
__wrap_wp_scale_decision_format(const struct wp_scale_decision *decision,
                                char *out, size_t cap)
{
    assert_int_equal(cap, WP_SCALE_TEXT_MAX);
    (void)snprintf(out, cap, "since %u", decision->wanted);
}

void
__wrap_wp_services_changed(void *ctx, uint32_t pool_index)
{
    journal("%s: pool %u has changed", journal_name(ctx), pool_index);
}

/* --- The store --- */

static enum wp_status
load(void *self, void (*each)(void *ctx, const struct wp_lease_record *record),
     void *ctx, struct wp_err *err)
{
    journal("load %s", journal_name(self));
    for (uint32_t i = 0; i < n_records; i++) {
        each(ctx, &records[i]);
    }
    return journal_status("load", err);
}

static enum wp_status
commit(void *self, struct wp_lease_op *op)
{
    enum wp_status status = (enum wp_status)journal_said("commit", WP_OK);

    journal("%s: fetch %d %.*s/%.*s %.*s %u %u: %s", journal_name(self),
            (int)op->kind, (int)op->pool_namespace.len, op->pool_namespace.ptr,
            (int)op->pool.len, op->pool.ptr, (int)op->sandbox.len,
            op->sandbox.ptr, op->uid[0], op->uid[WP_UID_LEN - 1],
            wp_status_text(status));
    assert_false(op->gathered);
    op->found->uid[0] = 77;
    op->found->state = WP_RECORD_HELD;
    pending = op;
    if (status == WP_PENDING && journal_said("at once", false) != 0) {
        op->done(op, (enum wp_status)journal_said("fetched", WP_OK));
    }
    return status;
}

static struct wp_lease_store_ops ops = {.commit = commit, .load = load};

static struct wp_lease_store
store(void)
{
    return (struct wp_lease_store){&ops, journal_thing("store")};
}

/* --- The tests --- */

static int
begin(void **state)
{
    (void)journal_begin(state);
    journal_wipes = wipes;
    memset(&conf, 0, sizeof conf);
    memset(&core, 0, sizeof core);
    memset(records, 0, sizeof records);
    memset(specs, 0, sizeof specs);
    conf.slots_max = 10;
    conf.claims_max = 20;
    conf.history_max = 30;
    core.conf = &conf;
    core.loop = journal_thing("control thread");
    core.pools = journal_thing("pools");
    core.services = journal_thing("services");
    journal_know(&core, "core");
    n_specs = 0;
    n_records = 0;
    knows_pool = true;
    may_leave = false;
    ops.durable = true;
    ops.shared = true;
    return 0;
}

static void
create(void)
{
    struct wp_err err = {.msg = ""};
    bool key_made = false;
    const struct wp_backend backend = {.self = journal_thing("backend")};
    enum wp_status status;

    core.pools = NULL;
    status = wp_daemon_pools_create(&core, journal_thing("manifest"), backend,
                                    store(), &key_made, &err);
    journal("- %s: %s, key made: %d", wp_status_name(status), err.msg,
            key_made);
}

static void
want(const char *ns, const char *pool, const char *tmpl)
{
    struct wp_pool_spec *spec = &specs[n_specs++];

    (void)snprintf(spec->pool_namespace, sizeof spec->pool_namespace, "%s", ns);
    (void)snprintf(spec->name, sizeof spec->name, "%s", pool);
    (void)snprintf(spec->template_name, sizeof spec->template_name, "%s", tmpl);
    spec->target = 6;
    spec->create_inflight_max = 2;
}

static void
test_core_is_made_from_the_settings(void **state)
{
    (void)state;
    create(); /* Without pools. */
    conf.backend = WP_CONF_BACKEND_KUBERNETES;
    create();
    want("blue", "a", "t");
    want("red", "b", "u");
    conf.backend = WP_CONF_BACKEND_LOCAL;
    journal_say("keeper", false);
    create();
    journal_is("pools_create");
}

static void
test_core_that_cannot_be_made_is_refused(void **state)
{
    static const char *const calls[] = {"key", "budgets", "create", "quotas",
                                        "add"};

    (void)state;
    want("blue", "a", "t");
    want("red", "b", "u");
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        journal_say(calls[i], WP_INVALID_ARGUMENT);
        create();
    }
    journal_say("quotas set", false);
    create();
    journal_is("pools_refused");
}

static void
test_core_tells_of_its_pools(void **state)
{
    const struct wp_scale_decision decision = {
        .target_before = 3, .target = 5, .wanted = 7};
    struct wp_budget_total total = {.group = "group", .total = 9};
    struct wp_err err = {.msg = ""};

    (void)state;
    create();
    core.pools = journal_thing("pools");
    journal_empty();
    given.changed(given.ctx, 2);
    given.scaled(given.ctx, 3, &decision);
    (void)wp_err_set(&err, WP_INTERNAL, "why");
    given.unlearned(given.ctx, 4, &err);
    given.budget_trouble(given.ctx, "unknown", NULL, 1);
    given.budget_trouble(given.ctx, "group", &total, 10);
    given.budget_trouble(given.ctx, "group", &total, 9);
    journal("saved: %d", wp_daemon_learned_saved(&core));
    journal_say("saved", false);
    journal("saved: %d", wp_daemon_learned_saved(&core));
    journal_is("pools_tell");
}

static void
record(enum wp_record_state kind, const char *ns, const char *pool)
{
    struct wp_lease_record *one = &records[n_records++];

    one->uid[0] = (uint8_t)n_records;
    one->state = kind;
    (void)snprintf(one->pool_namespace, sizeof one->pool_namespace, "%s", ns);
    (void)snprintf(one->pool, sizeof one->pool, "%s", pool);
}

static void
restore(bool key_made)
{
    struct wp_err err = {.msg = ""};
    uint32_t restored = 99;
    enum wp_status status =
        wp_daemon_restore(&core, store(), key_made, &restored, &err);

    journal("- %s: %s, restored: %u", wp_status_name(status), err.msg,
            restored);
}

static void
test_records_are_taken_up(void **state)
{
    (void)state;
    restore(true); /* None. */
    record(WP_RECORD_OPEN, "blue", "a");
    record(WP_RECORD_OPEN, "blue", "a");
    record(WP_RECORD_OPEN, "blue", "a");
    record(WP_RECORD_HELD, "blue", "a");
    record(WP_RECORD_HELD, "blue", "a");
    record(WP_RECORD_LOST, "blue", "a");
    record(WP_RECORD_ENDED, "blue", "a");
    record((enum wp_record_state)(WP_RECORD_ENDED + 1), "blue", "a");
    record(WP_RECORD_NONE, "blue", "a");
    restore(false);
    restore(true);
    ops.durable = false;
    restore(true);
    journal_is("restore_all");
}

static void
test_pool_of_records_that_is_gone_lives_on(void **state)
{
    (void)state;
    record(WP_RECORD_HELD, "blue", "gone");
    record(WP_RECORD_HELD, "red", "gone");
    knows_pool = false;
    restore(false);
    conf.backend = WP_CONF_BACKEND_KUBERNETES;
    restore(false);
    journal_say("add", WP_RESOURCE_EXHAUSTED);
    restore(false);
    journal_is("restore_gone");
}

static void
test_records_that_are_not_safe_stop_the_start(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        record(WP_RECORD_HELD, "blue", "a");
    }
    restore(false);
    record(WP_RECORD_OPEN, "blue", "b");
    restore(false);
    n_records = 1;
    journal_say("refused", 1);
    restore(false);
    journal_say("load", WP_UNAVAILABLE);
    restore(false);
    journal_is("restore_refused");
}

static const uint8_t uid[WP_UID_LEN] = {5, [WP_UID_LEN - 1] = 6};

static struct wp_local_found
found_one(bool current)
{
    return (struct wp_local_found){.uid = uid,
                                   .pool_namespace = WP_STR("blue"),
                                   .pool = WP_STR("a"),
                                   .name = WP_STR("box"),
                                   .egress = WP_STR("policy"),
                                   .template_current = current};
}

static void
adopt(const struct wp_local_found *found)
{
    struct wp_slot_ref ref = {1, 2};

    may_leave = true;
    if (setjmp(left) == 0) {
        bool adopted = wp_daemon_adopt(&core, store(), found, &ref);

        journal("- adopted: %d as %u %u", adopted, ref.index, ref.generation);
    } else {
        journal("- left");
    }
    may_leave = false;
}

static void
test_found_sandbox_is_taken_up(void **state)
{
    struct wp_local_found found = found_one(true);

    (void)state;
    ops.shared = false;
    adopt(&found);
    journal_say("index", -1);
    adopt(&found);
    journal_say("wanted", false);
    adopt(&found);
    /* Another template or policy: only when it is leased. */
    found = found_one(false);
    adopt(&found);
    journal_say("leased", WP_OK);
    adopt(&found);
    found = found_one(true);
    found.egress = WP_STR("other");
    adopt(&found);
    journal_say("leased", WP_OK);
    journal_say("wanted", false);
    adopt(&found);
    journal_is("adopt_own");
}

static void
test_shared_store_is_asked_what_the_core_does_not_want(void **state)
{
    const struct wp_local_found found = found_one(true);

    (void)state;
    adopt(&found);
    journal_say("wanted", false);
    adopt(&found);
    journal_say("wanted", false);
    journal_say("commit", WP_NOT_FOUND);
    adopt(&found);
    journal_say("wanted", false);
    journal_say("commit", WP_PENDING);
    adopt(&found);
    journal_say("wanted", false);
    journal_say("commit", WP_PENDING);
    journal_say("for nothing", true);
    journal_say("fetched", WP_NOT_FOUND);
    adopt(&found);
    journal_say("wanted", false);
    journal_say("commit", WP_PENDING);
    journal_say("at once", true);
    journal_say("fetched", WP_NOT_FOUND);
    adopt(&found);
    journal_is("adopt_shared");
}

static void
test_store_is_asked_until_it_answers_or_the_daemon_stops(void **state)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, -1, 0};
    const struct wp_local_found found = found_one(true);

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(signals); i++) {
        journal_say("wanted", false);
        journal_say("commit", WP_UNAVAILABLE);
        journal_say("commit", WP_UNAVAILABLE);
        journal_say("pending", 0);
        journal_say("pending", signals[i]);
        adopt(&found);
        journal_forget();
    }
    journal_say("wanted", false);
    journal_say("commit", WP_UNAVAILABLE);
    atomic_store(&core.stopping, true);
    adopt(&found);
    journal_is("adopt_waits");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_core_is_made_from_the_settings, begin),
        cmocka_unit_test_setup(test_core_that_cannot_be_made_is_refused, begin),
        cmocka_unit_test_setup(test_core_tells_of_its_pools, begin),
        cmocka_unit_test_setup(test_records_are_taken_up, begin),
        cmocka_unit_test_setup(test_pool_of_records_that_is_gone_lives_on,
                               begin),
        cmocka_unit_test_setup(test_records_that_are_not_safe_stop_the_start,
                               begin),
        cmocka_unit_test_setup(test_found_sandbox_is_taken_up, begin),
        cmocka_unit_test_setup(
            test_shared_store_is_asked_what_the_core_does_not_want, begin),
        cmocka_unit_test_setup(
            test_store_is_asked_until_it_answers_or_the_daemon_stops, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
