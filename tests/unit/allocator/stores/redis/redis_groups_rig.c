#include "tests/unit/allocator/stores/redis/redis_groups_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/support/base/heard.h"
#include "tests/unit/allocator/stores/redis/redis_journal.h"

enum {
    N_LINKS = 3,
};

int __real_clock_gettime(clockid_t which, struct timespec *out);
int __wrap_clock_gettime(clockid_t which, struct timespec *out);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                                  const struct timespec *until);
int __real_pthread_mutex_lock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_lock(pthread_mutex_t *lock);
int __real_pthread_mutex_unlock(pthread_mutex_t *lock);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *lock);
enum wp_status
__wrap_wp_redis_links_create(const struct wp_redis_config *config,
                             const struct wp_redis_hooks *hooks,
                             struct wp_str key, uint32_t n,
                             struct wp_redis_links **out, struct wp_err *err);
enum wp_status
__wrap_wp_redis_links_reopen(struct wp_redis_links *links,
                             const struct wp_redis_server *server,
                             struct wp_err *err);
bool __wrap_wp_redis_links_close(struct wp_redis_links *links);
void __wrap_wp_redis_links_stop(struct wp_redis_links *links);
void __wrap_wp_redis_links_destroy(struct wp_redis_links *links);
bool __wrap_wp_redis_links_are_quiet(struct wp_redis_links *links);
void __wrap_wp_redis_links_lead_to(struct wp_redis_links *links,
                                   const struct wp_redis_server *server);
void __wrap_wp_redis_links_read_stats(struct wp_redis_links *links,
                                      struct wp_redis_stats *out);

struct groups_plan plan;
int64_t clock_ns;
struct wp_lease_redis *redis;
static char sets[SETS_MAX]; /* Of links; that of a group has its number. */
static void *(*thread_run)(void *);
static int locks_held;
static uint32_t n_locks;
static struct heard heard;

static const char *
locked(void)
{
    return locks_held > 0 ? "*" : "";
}

static int
number_of(const struct wp_redis_links *links)
{
    return (int)((const char *)links - sets);
}

int
__wrap_clock_gettime(clockid_t which, struct timespec *out)
{
    if (which != CLOCK_MONOTONIC) {
        return __real_clock_gettime(which, out);
    }
    out->tv_sec = clock_ns / WP_NS_PER_S;
    out->tv_nsec = clock_ns % WP_NS_PER_S;
    return 0;
}

int
__wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                      void *(*run)(void *), void *arg)
{
    (void)attr;
    if (plan.thread_fails != 0) {
        return plan.thread_fails;
    }
    *thread = pthread_self();
    thread_run = run;
    note("thread%s\n", arg == redis ? "" : " of another");
    return 0;
}

int
__wrap_pthread_join(pthread_t thread, void **result)
{
    note("join%s\n",
         thread == pthread_self() && result == NULL ? "" : " another");
    return 0;
}

int
__wrap_pthread_setname_np(pthread_t thread, const char *name)
{
    note("named %s%s\n", name, thread == pthread_self() ? "" : ", another");
    return 0;
}

int
__wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    note("signal%s%s\n", cond == &redis->groups_cond ? "" : " another",
         locked());
    return 0;
}

int
__wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *lock,
                              const struct timespec *until)
{
    int64_t at_ns = until->tv_sec * WP_NS_PER_S + until->tv_nsec;
    bool ours = cond == &redis->groups_cond && lock == &redis->groups_lock;

    note("wait %lld us%s%s\n", (long long)(at_ns - clock_ns) / 1000,
         ours && until->tv_nsec < WP_NS_PER_S ? "" : " for something else",
         locked());
    if (plan.step < plan.n_steps) {
        clock_ns += plan.steps[plan.step].lasts_ns;
        if (plan.steps[plan.step].act != NULL) {
            plan.steps[plan.step].act();
        }
    }
    if (++plan.step >= plan.n_steps) {
        atomic_store(&redis->stop, true);
    }
    return ETIMEDOUT;
}

static bool
is_ours(const pthread_mutex_t *lock)
{
    const char *at = (const char *)lock;

    return redis != NULL && at >= (const char *)redis &&
           at < (const char *)(redis + 1);
}

int
__wrap_pthread_mutex_lock(pthread_mutex_t *lock)
{
    if (is_ours(lock)) {
        n_locks++;
        if (++locks_held != 1) {
            abort();
        }
    }
    return __real_pthread_mutex_lock(lock);
}

int
__wrap_pthread_mutex_unlock(pthread_mutex_t *lock)
{
    if (is_ours(lock) && --locks_held != 0) {
        abort();
    }
    return __real_pthread_mutex_unlock(lock);
}

enum wp_status
__wrap_wp_redis_links_create(const struct wp_redis_config *config,
                             const struct wp_redis_hooks *hooks,
                             struct wp_str key, uint32_t n,
                             struct wp_redis_links **out, struct wp_err *err)
{
    const struct wp_redis_group *group = hooks->ctx;
    union {
        char *at;
        struct wp_redis_links *links;
    } set = {&sets[group->number]};

    note("create %u: %u to %s:%u for \"%.*s\"%s as %s%s\n", group->number, n,
         config->server.host, config->server.port, WP_STR_ARG(key),
         config->router != NULL ? " by router" : "", config->user, locked());
    if (group->redis != redis || group != &redis->groups[group->number] ||
        hooks->on_reply != redis->hooks.on_reply ||
        hooks->on_end != redis->hooks.on_end) {
        abort();
    }
    if (plan.create_fails) {
        return wp_err_set(err, WP_UNAVAILABLE, "no links");
    }
    plan.hooks = *hooks;
    *out = set.links;
    return WP_OK;
}

enum wp_status
__wrap_wp_redis_links_reopen(struct wp_redis_links *links,
                             const struct wp_redis_server *server,
                             struct wp_err *err)
{
    note("reopen %d to %s:%u%s\n", number_of(links), server->host, server->port,
         locked());
    return plan.reopen_fails ? wp_err_set(err, WP_UNAVAILABLE, "no reopening")
                             : WP_OK;
}

bool
__wrap_wp_redis_links_close(struct wp_redis_links *links)
{
    note("close %d%s\n", number_of(links), locked());
    if (plan.closes > 0) {
        plan.closes--;
        return false;
    }
    return true;
}

void
__wrap_wp_redis_links_stop(struct wp_redis_links *links)
{
    note("stop %d\n", number_of(links));
}

void
__wrap_wp_redis_links_destroy(struct wp_redis_links *links)
{
    note("destroy %d\n", number_of(links));
}

bool
__wrap_wp_redis_links_are_quiet(struct wp_redis_links *links)
{
    note("quiet? %d%s\n", number_of(links), locked());
    return !plan.busy;
}

void
__wrap_wp_redis_links_lead_to(struct wp_redis_links *links,
                              const struct wp_redis_server *server)
{
    note("lead %d to %s:%u\n", number_of(links), server->host, server->port);
}

void
__wrap_wp_redis_links_read_stats(struct wp_redis_links *links,
                                 struct wp_redis_stats *out)
{
    *out = plan.stats[number_of(links)];
}

/* --- the rig --- */

static int router_self;

static enum wp_status
find(void *self, struct wp_str key, struct wp_redis_server *out,
     struct wp_err *err)
{
    unsigned pool = POOLS_MAX;

    assert_ptr_equal(self, &router_self);
    assert_int_equal(sscanf(key.ptr, "wp:{ns/p%u}", &pool), 1);
    assert_true(pool < POOLS_MAX && key.ptr[key.len] == '\0');
    if (!plan.silent_finds) {
        note("find %u%s\n", pool, locked());
    }
    if (++plan.finds == plan.stops_at) {
        atomic_store(&redis->stop, true);
    }
    if (plan.ports[pool] == 0) {
        return wp_err_set(err, WP_UNAVAILABLE, "not found");
    }
    *out = (struct wp_redis_server){.host = "h", .port = plan.ports[pool]};
    return WP_OK;
}

static void
doubt(void *self, struct wp_str reply)
{
    assert_ptr_equal(self, &router_self);
    note("doubt \"%.*s\"\n", WP_STR_ARG(reply));
}

static const struct wp_redis_router router = {
    .self = &router_self, .find = find, .doubt = doubt};

static void
on_doubt(void *ctx, const struct wp_lease_redis_pool *pool)
{
    assert_ptr_equal(ctx, &plan);
    note("in doubt: %s%s", pool->pool, locked());
    for (uint32_t i = 0; i < redis->n_groups; i++) {
        if (redis->groups[i].pins > 0) {
            note(", %u pinned to %u", redis->groups[i].pins, i);
        }
    }
    note("\n");
}

static void
on_reply(void *ctx, uint32_t link, void *call, uint32_t tag,
         const struct wp_redis_reply *reply)
{
    (void)ctx;
    (void)link;
    (void)call;
    (void)tag;
    (void)reply;
}

static void
on_end(void *ctx, void *call, enum wp_status status)
{
    (void)ctx;
    (void)call;
    (void)status;
}

void
groups_begin(uint32_t n_pools, bool cluster, bool routed)
{
    static struct wp_lease_redis_pool names[POOLS_MAX];
    struct wp_lease_redis_config config = {
        .pools = names, .n_pools = n_pools, .grows = true};
    struct wp_err err;

    memset(&plan, 0, sizeof plan);
    clock_ns = BEGIN_NS;
    locks_held = 0;
    n_locks = 0;
    for (uint32_t i = 0; i < n_pools; i++) {
        (void)snprintf(names[i].pool_namespace, sizeof names[i].pool_namespace,
                       "ns");
        (void)snprintf(names[i].pool, sizeof names[i].pool, "p%u", i);
    }
    redis = calloc(1, sizeof *redis);
    assert_non_null(redis);
    redis->config = (struct wp_lease_redis_config){
        .redis = {.server = {.host = "first", .port = 9},
                  .cluster = cluster,
                  .router = routed ? &router : NULL,
                  .user = "me"},
        .prefix = "wp",
        .server_idle_ns = 10 * WP_NS_PER_S,
        .sink = {.ctx = &plan, .on_doubt = on_doubt},
    };
    redis->hooks =
        (struct wp_redis_hooks){.on_reply = on_reply, .on_end = on_end};
    redis->n_links = N_LINKS;
    assert_int_equal(wp_redis_pools_init(redis, &config, &err), WP_OK);
    for (uint32_t i = 0; i < n_pools; i++) {
        atomic_store(&redis->pools[i].generation, 100 + i);
    }
    for (uint32_t i = 0; i < SETS_MAX; i++) {
        plan.stats[i].links_up = 1;
    }
    journal_begin();
}

void
groups_begin_running(uint32_t n_pools, bool cluster)
{
    struct wp_err err;

    groups_begin(n_pools, cluster, true);
    assert_int_equal(wp_redis_groups_init(redis, &err), WP_OK);
}

const char *
groups_run(const struct step *steps, uint32_t n)
{
    plan.steps = steps;
    plan.n_steps = n;
    plan.step = 0;
    atomic_store(&redis->stop, false);
    heard_begin(&heard);
    (void)thread_run(redis);
    return heard_end(&heard);
}

void
note_pools(void)
{
    for (uint32_t i = 0; i < wp_redis_pools_len(redis); i++) {
        const struct wp_redis_group *group =
            atomic_load(&redis->pools[i].group);

        note("%sp%u in %d, %llu%s", i == 0 ? "" : "; ", i,
             group == NULL ? -1 : (int)group->number,
             (unsigned long long)atomic_load(&redis->pools[i].generation),
             atomic_load(&redis->pools[i].misplaced) ? " misplaced" : "");
    }
    note("\n");
}

void
note_groups(void)
{
    for (uint32_t i = 0; i < redis->n_groups; i++) {
        const struct wp_redis_group *group = &redis->groups[i];

        note("%u: %s %s:%u, %u pins, used at %lld ms, \"%s\"\n", i,
             group->state == WP_REDIS_GROUP_LIVE     ? "live"
             : group->state == WP_REDIS_GROUP_ENDING ? "ending"
                                                     : "free",
             group->server.host, group->server.port, group->pins,
             (long long)(group->used_ns - BEGIN_NS) / WP_NS_PER_MS,
             group->run_id);
    }
    note("locks %u\n", n_locks);
}

void
groups_end(void)
{
    journal_begin();
    wp_redis_groups_fini(redis);
    assert_true(atomic_load(&redis->stop));
    assert_int_equal(locks_held, 0);
    free(redis->pools);
    free(redis->index);
    free(redis);
    redis = NULL;
}
