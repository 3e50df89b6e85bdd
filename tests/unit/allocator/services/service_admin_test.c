/* PoolAdmin: what each method answers, and on which thread it does its work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/base/held_locks.h"
#include "tests/support/services/service_world.h"

static struct wp_world world;
static struct wp_fake_call a;
static struct wp_fake_call b;

static int
setup(void **state)
{
    (void)state;
    wp_world_init(&world, 16, 4);
    wp_world_call(&world, &a);
    wp_world_call(&world, &b);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    held_locks_are_free();
    wp_fake_call_fini(&a);
    wp_fake_call_fini(&b);
    wp_world_fini(&world);
    return 0;
}

static void
set_pool(struct wp_fake_call *fake, const char *name, uint32_t target)
{
    const struct wp_wire_set_pool_request request = {
        .pool = {WP_STR("default"), wp_str_from(name)},
        .has_target = true,
        .target = target};

    WP_WORLD_START(&world.admin, fake, "SetPool", set_pool_request, &request);
}

static void
drain(struct wp_fake_call *fake, const char *name, int64_t grace_ms)
{
    const struct wp_wire_drain_request request = {
        .pool = {wp_str_from(name[0] != '\0' ? "default" : ""),
                 wp_str_from(name)},
        .grace_ms = grace_ms};

    WP_WORLD_START(&world.admin, fake, "Drain", drain_request, &request);
}

static void
undrain(struct wp_fake_call *fake, const char *name)
{
    const struct wp_wire_drain_request request = {
        .pool = {WP_STR("default"), wp_str_from(name)}, .undo = true};

    WP_WORLD_START(&world.admin, fake, "Drain", drain_request, &request);
}

static void
test_every_method_needs_the_admin_right(void **state)
{
    (void)state;
    assert_int_equal(world.admin.n_methods, 9);
    for (size_t i = 0; i < world.admin.n_methods; i++) {
        assert_true(world.admin.methods[i].admin_only);
    }
    for (size_t i = 0; i < world.allocator.n_methods; i++) {
        assert_false(world.allocator.methods[i].admin_only);
    }
}

static void
test_list_and_get(void **state)
{
    const struct wp_wire_get_pool_request known = {
        {WP_STR("default"), WP_STR("p")}};
    const struct wp_wire_get_pool_request unknown = {
        {WP_STR("default"), WP_STR("q")}};
    struct wp_wire_pools pools;
    struct wp_pool_stats pool;

    (void)state;
    wp_fake_call_start(&a, &world.admin, "ListPools", NULL, 0);
    wp_world_assert_ended(&a, WP_OK);
    WP_WORLD_REPLY(&world, &a, pools, &pools);
    assert_int_equal(pools.n_pools, 1);
    assert_string_equal(pools.pools[0].spec.name, "p");
    assert_int_equal(pools.pools[0].ready, 4);
    WP_WORLD_START(&world.admin, &b, "GetPool", get_pool_request, &known);
    wp_world_assert_ended(&b, WP_OK);
    WP_WORLD_REPLY(&world, &b, pool, &pool);
    assert_int_equal(pool.spec.target, 4);
    assert_string_equal(pool.spec.template_name, "t");
    WP_WORLD_START(&world.admin, wp_world_again(&world, &b), "GetPool",
                   get_pool_request, &unknown);
    wp_world_assert_ended(&b, WP_NOT_FOUND);
    assert_string_equal(b.message,
                        "pool: 'q' in namespace 'default' does not exist");
    wp_fake_call_start(wp_world_again(&world, &b), &world.admin, "ListPools",
                       (const uint8_t *)"\x0b", 1);
    wp_world_assert_ended(&b, WP_INVALID_ARGUMENT);
}

static void
test_no_memory_for_lists(void **state)
{
    (void)state;
    a.no_memory = true;
    wp_fake_call_start(&a, &world.admin, "ListPools", NULL, 0);
    wp_world_assert_ended(&a, WP_RESOURCE_EXHAUSTED);
    assert_string_equal(a.message, "no memory for the reply");
    /* The page that lists are made on is free again. */
    wp_fake_call_start(&b, &world.admin, "ListPools", NULL, 0);
    wp_world_assert_ended(&b, WP_OK);
}

static void
test_set_pool(void **state)
{
    struct wp_pool_stats pool;

    (void)state;
    set_pool(&a, "p", 7);
    assert_false(a.finished); /* The control thread's work. */
    wp_fake_call_cancel(&a);  /* A client that goes does not stop it. */
    assert_false(a.finished);
    wp_world_settle(&world);
    wp_world_assert_ended(&a, WP_OK);
    WP_WORLD_REPLY(&world, &a, pool, &pool);
    assert_int_equal(pool.spec.target, 7);
    assert_int_equal(world.wakes, 1);
    assert_int_equal(wp_rig_stats(&world.rig).ready, 7);
    set_pool(&b, "p", 2);
    wp_world_settle(&world);
    wp_world_assert_ended(&b, WP_OK);
    assert_int_equal(wp_rig_stats(&world.rig).ready, 2);
    set_pool(wp_world_again(&world, &b), "q", 2);
    wp_world_settle(&world);
    wp_world_assert_ended(&b, WP_NOT_FOUND);
    set_pool(wp_world_again(&world, &b), "p", WP_TARGET_MAX + 1);
    wp_world_assert_ended(&b, WP_INVALID_ARGUMENT);
}

struct change {
    const char *key;
    const char *value;
};

/* target: -1 leaves it as it is. */
static void
change_pool(struct wp_fake_call *fake, const struct change *changes, uint32_t n,
            int64_t target)
{
    struct wp_wire_setting settings[WP_WIRE_AUTOSCALE_MAX];
    const struct wp_wire_set_pool_request request = {
        .pool = {WP_STR("default"), WP_STR("p")},
        .has_target = target >= 0,
        .target = target >= 0 ? (uint32_t)target : 0,
        .autoscale = settings,
        .n_autoscale = n};

    for (uint32_t i = 0; i < n; i++) {
        settings[i] = (struct wp_wire_setting){wp_str_from(changes[i].key),
                                               wp_str_from(changes[i].value)};
    }
    WP_WORLD_START(&world.admin, fake, "SetPool", set_pool_request, &request);
    wp_world_settle(&world);
}

static void
test_set_policy(void **state)
{
    static const struct change sets[] = {
        {"objective", "99.50%"},
        {"min", "2"},
        {"schedule", "0 8 * * mon for 1h at least 3"}};
    static const struct change mistake[] = {{"min", "3"}, {"mam", "9"}};
    static const struct change contradiction[] = {{"max", "1"}};
    static const struct change clears[] = {{"min", ""}, {"schedule", ""}};
    static const struct change plain[] = {{"objective", ""}};
    struct wp_wire_pool_detail pool;
    struct wp_scale_policy policy;
    struct wp_pool_stats stats;

    (void)state;
    change_pool(&a, sets, 3, -1);
    wp_world_assert_ended(&a, WP_OK);
    WP_WORLD_REPLY(&world, &a, pool_detail, &pool);
    assert_int_equal(pool.n_autoscale, 3);
    assert_string_equal(pool.autoscale[0].key.ptr, "objective");
    assert_string_equal(pool.autoscale[0].value.ptr, "99.5%");
    assert_string_equal(pool.autoscale[2].value.ptr,
                        "0 8 * * 1 for 1h at least 3");
    assert_int_equal(pool.stats->replicas, 4);
    policy = wp_rig_stats(&world.rig).spec.scale;
    assert_true(policy.hit_rate == 0.995);
    /* Nothing of what has a mistake. */
    change_pool(wp_world_again(&world, &a), mistake, 2, 7);
    wp_world_assert_ended(&a, WP_INVALID_ARGUMENT);
    assert_string_equal(a.message, "autoscale: mam: unknown key; the nearest "
                                   "known one is max; all of them: "
                                   "warmpool-autoscale(7)");
    change_pool(wp_world_again(&world, &a), contradiction, 1, 7);
    wp_world_assert_ended(&a, WP_INVALID_ARGUMENT);
    assert_string_equal(a.message, "autoscale: max: at least min, which is 2, "
                                   "expected, not 1");
    stats = wp_rig_stats(&world.rig);
    assert_true(wp_scale_policy_eq(&stats.spec.scale, &policy));
    assert_int_equal(stats.replicas, 4);
    change_pool(wp_world_again(&world, &a), clears, 2, -1);
    wp_world_assert_ended(&a, WP_OK);
    WP_WORLD_REPLY(&world, &a, pool_detail, &pool);
    assert_int_equal(pool.n_autoscale, 1);
    change_pool(wp_world_again(&world, &a), plain, 1, 6);
    wp_world_assert_ended(&a, WP_OK);
    assert_int_equal(wp_rig_stats(&world.rig).spec.scale.objective,
                     WP_SCALE_PLAIN);
    assert_int_equal(wp_rig_stats(&world.rig).spec.target, 6);
}

/* The pool's decisions as GetPool shows them. */
static void
get_detail(struct wp_wire_pool_detail *out)
{
    const struct wp_wire_get_pool_request request = {
        {WP_STR("default"), WP_STR("p")}};

    WP_WORLD_START(&world.admin, wp_world_again(&world, &b), "GetPool",
                   get_pool_request, &request);
    wp_world_assert_ended(&b, WP_OK);
    WP_WORLD_REPLY(&world, &b, pool_detail, out);
}

/* The latest comes first, and none twice, whether it was kept or is what holds
 * now. */
static void
test_shows_decisions(void **state)
{
    static const struct change sets[] = {{"objective", "99.50%"}};
    struct wp_scale_decision kept[WP_WIRE_DECISIONS_MAX];
    struct wp_wire_pool_detail pool;
    uint32_t most = 0;

    (void)state;
    get_detail(&pool);
    assert_int_equal(pool.n_decisions, 0);
    change_pool(&a, sets, 1, -1);
    wp_world_assert_ended(&a, WP_OK);
    for (int i = 0; i < 40; i++) {
        struct wp_pool_stats stats;
        uint32_t n;
        uint32_t begin;

        change_pool(wp_world_again(&world, &a), NULL, 0, i % 8 < 4 ? 5 : 2);
        wp_world_advance(&world, WP_NS_PER_S);
        stats = wp_rig_stats(&world.rig);
        n = wp_pools_scale_decisions(world.rig.pools, 0, kept,
                                     WP_WIRE_DECISIONS_MAX);
        get_detail(&pool);
        if (stats.scale.number == 0) {
            assert_int_equal(pool.n_decisions, n);
            continue;
        }
        begin = n > 0 && kept[0].mono_ns >= stats.scale.mono_ns ? 0 : 1;
        assert_int_equal(pool.n_decisions,
                         n + begin < WP_WIRE_DECISIONS_MAX
                             ? n + begin
                             : WP_WIRE_DECISIONS_MAX - (1 - begin));
        assert_int_equal(pool.decisions[0].target, stats.scale.target);
        assert_int_equal(pool.decisions[0].wall_ns, stats.scale.wall_ns);
        for (uint32_t k = begin; k < pool.n_decisions; k++) {
            assert_int_equal(pool.decisions[k].number, kept[k - begin].number);
            assert_int_equal(pool.decisions[k].wall_ns,
                             kept[k - begin].wall_ns);
        }
        most = n > most ? n : most;
    }
    assert_true(most > 1);
}

static void
test_control_thread_is_busy(void **state)
{
    (void)state;
    world.channel_full = true;
    set_pool(&a, "p", 7);
    wp_world_assert_ended(&a, WP_UNAVAILABLE);
    assert_true(a.retry_after_ns > 0);
    drain(&b, "p", 0);
    wp_world_assert_ended(&b, WP_UNAVAILABLE);
    wp_world_settle(&world);
    assert_int_equal(wp_rig_stats(&world.rig).ready, 4);
}

static void
test_drain_one_pool(void **state)
{
    struct wp_wire_drain_response drained;

    (void)state;
    wp_world_claim(&world, &a, "id", "", 0);
    wp_world_assert_ended(&a, WP_OK);
    world.wakes = 0;
    drain(&b, "p", 0);
    wp_world_settle(&world);
    wp_world_assert_ended(&b, WP_OK);
    WP_WORLD_REPLY(&world, &b, drain_response, &drained);
    assert_int_equal(drained.leased, 1);
    assert_int_equal(world.drains, 0);
    assert_int_equal(world.wakes, 1);
    wp_world_claim(&world, wp_world_again(&world, &b), "id-2", "", 0);
    wp_world_assert_ended(&b, WP_UNAVAILABLE);
    assert_int_equal(wp_rig_stats(&world.rig).leased, 1);
    assert_int_equal(wp_rig_stats(&world.rig).ready, 0);
    drain(wp_world_again(&world, &b), "q", 0);
    wp_world_settle(&world);
    wp_world_assert_ended(&b, WP_NOT_FOUND);
}

static void
test_a_drain_is_taken_back(void **state)
{
    (void)state;
    drain(&a, "p", 0);
    wp_world_settle(&world);
    wp_world_assert_ended(&a, WP_OK);
    assert_int_equal(wp_rig_stats(&world.rig).ready, 0);
    /* It would make nothing: so it is not said to have been set. */
    set_pool(wp_world_again(&world, &a), "p", 2);
    wp_world_settle(&world);
    wp_world_assert_ended(&a, WP_FAILED_PRECONDITION);
    assert_non_null(strstr(a.message, "pool: 'p' drains"));
    assert_int_equal(wp_rig_stats(&world.rig).replicas, 4);
    undrain(wp_world_again(&world, &a), "p");
    wp_world_settle(&world);
    wp_world_assert_ended(&a, WP_OK);
    wp_world_settle(&world);
    assert_int_equal(wp_rig_stats(&world.rig).ready, 4);
    wp_world_claim(&world, &b, "id", "", 0);
    wp_world_assert_ended(&b, WP_OK);
    undrain(wp_world_again(&world, &a), "q");
    wp_world_settle(&world);
    wp_world_assert_ended(&a, WP_NOT_FOUND);
    wp_pools_stop(world.rig.pools);
    undrain(wp_world_again(&world, &a), "p");
    wp_world_settle(&world);
    wp_world_assert_ended(&a, WP_FAILED_PRECONDITION);
}

static void
test_drain_the_daemon(void **state)
{
    struct wp_wire_drain_response drained;

    (void)state;
    wp_world_claim(&world, &a, "id", "", 0);
    drain(&b, "", 5000);
    assert_int_equal(world.drains, 0);
    wp_world_settle(&world);
    wp_world_assert_ended(&b, WP_OK);
    WP_WORLD_REPLY(&world, &b, drain_response, &drained);
    assert_int_equal(drained.leased, 1);
    assert_int_equal(world.drains, 1);
    assert_int_equal(world.drain_grace_ns, 5 * WP_NS_PER_S);
}

/* --- Demand that is announced --- */

/* From and until, in ms from now; from 0: now, as the daemon understands it. */
static void
reserve(struct wp_fake_call *fake, const char *id, uint32_t n, int64_t from_ms,
        int64_t until_ms)
{
    int64_t now_ms = world.rig.clock.now_wall_ns / WP_NS_PER_MS;
    const struct wp_wire_reserve_request request = {
        .pool = {WP_STR("default"), WP_STR("p")},
        .id = wp_str_from(id),
        .sandboxes = n,
        .not_before_ms = from_ms == 0 ? 0 : now_ms + from_ms,
        .until_ms = now_ms + until_ms};

    world.wakes = 0;
    WP_WORLD_START(&world.admin, wp_world_again(&world, fake), "Reserve",
                   reserve_request, &request);
    assert_false(fake->finished); /* The control thread's work. */
    wp_world_settle(&world);
}

static void
cancel(struct wp_fake_call *fake, const char *pool, const char *id)
{
    const struct wp_wire_cancel_reservation_request request = {
        .pool = {WP_STR("default"), wp_str_from(pool)}, .id = wp_str_from(id)};

    world.wakes = 0;
    WP_WORLD_START(&world.admin, wp_world_again(&world, fake),
                   "CancelReservation", cancel_reservation_request, &request);
    assert_false(fake->finished);
    wp_world_settle(&world);
}

static void
assert_reserved(const char *id, uint32_t n, int64_t from_ns, int64_t until_ns)
{
    struct wp_scale_reservation kept;

    wp_world_assert_ended(&a, WP_OK);
    assert_int_equal(world.wakes, 1);
    WP_WORLD_REPLY(&world, &a, reservation, &kept);
    assert_string_equal(kept.id, id);
    assert_int_equal(kept.n, n);
    assert_int_equal(kept.left, n);
    assert_int_equal(kept.from_wall_ns, from_ns);
    assert_int_equal(kept.until_wall_ns, until_ns);
}

static void
assert_not_reserved(enum wp_status status, const char *why)
{
    wp_world_assert_ended(&a, status);
    assert_string_equal(a.message, why);
    assert_int_equal(world.wakes, 0);
}

static void
scale_by_itself(void)
{
    static const struct change sets[] = {{"objective", "99%"}};

    change_pool(wp_world_again(&world, &a), sets, 1, -1);
    wp_world_assert_ended(&a, WP_OK);
    /* Whole milliseconds, as a request has them. */
    world.rig.clock.now_wall_ns -= world.rig.clock.now_wall_ns % WP_NS_PER_MS;
}

static void
test_reserves_and_cancels(void **state)
{
    struct wp_wire_pool_detail pool;
    int64_t now_ns;

    (void)state;
    reserve(&a, "early", 3, 0, 60000);
    wp_world_assert_ended(&a, WP_FAILED_PRECONDITION);
    assert_int_equal(world.wakes, 0);
    scale_by_itself();
    now_ns = world.rig.clock.now_wall_ns;
    reserve(&a, "now", 3, 0, 60000);
    assert_reserved("now", 3, now_ns, now_ns + 60 * WP_NS_PER_S);
    reserve(&a, "later", 2, 1000, 61000);
    assert_reserved("later", 2, now_ns + WP_NS_PER_S,
                    now_ns + 61 * WP_NS_PER_S);
    get_detail(&pool);
    assert_int_equal(pool.n_reservations, 2);
    assert_string_equal(pool.reservations[0].id, "now");
    assert_string_equal(pool.reservations[1].id, "later");
    /* A repeat is answered as the first was, though "now" is later. */
    wp_world_advance(&world, WP_NS_PER_S);
    reserve(&a, "now", 3, 0, 59000);
    assert_reserved("now", 3, now_ns, now_ns + 60 * WP_NS_PER_S);
    reserve(&a, "now", 4, 0, 59000);
    assert_not_reserved(WP_ALREADY_EXISTS,
                        "reservation 'now' exists with other numbers: cancel "
                        "it first, or take another id");
    cancel(&a, "p", "now");
    wp_world_assert_ended(&a, WP_OK);
    assert_int_equal(a.reply_len, 0);
    assert_int_equal(world.wakes, 1);
    get_detail(&pool);
    assert_int_equal(pool.n_reservations, 1);
    assert_string_equal(pool.reservations[0].id, "later");
    cancel(&a, "p", "now");
    wp_world_assert_ended(&a, WP_NOT_FOUND);
    assert_int_equal(world.wakes, 0);
    cancel(&a, "q", "later");
    assert_not_reserved(WP_NOT_FOUND,
                        "pool: 'q' in namespace 'default' does not exist");
}

static void
test_bounds_of_a_reservation(void **state)
{
    const int64_t most_ns = WP_WIRE_RESERVE_MAX_MS * WP_NS_PER_MS;
    int64_t now_ns;

    (void)state;
    scale_by_itself();
    now_ns = world.rig.clock.now_wall_ns;
    reserve(&a, "over", 1, 0, 0);
    assert_not_reserved(WP_INVALID_ARGUMENT,
                        "until_unix_ms: later than now expected");
    reserve(&a, "over", 1, -5, 0);
    assert_not_reserved(WP_INVALID_ARGUMENT,
                        "until_unix_ms: later than now expected");
    reserve(&a, "short", 1, 0, 1);
    assert_reserved("short", 1, now_ns, now_ns + WP_NS_PER_MS);
    reserve(&a, "long", 1, 0, WP_WIRE_RESERVE_MAX_MS + 1);
    assert_not_reserved(WP_INVALID_ARGUMENT,
                        "until_unix_ms: within 31 days expected");
    reserve(&a, "long", 1, 0, WP_WIRE_RESERVE_MAX_MS);
    assert_reserved("long", 1, now_ns, now_ns + most_ns);
}

/* --- Pools that come and go: done elsewhere, in the end answered there --- */

static void
end_job(uint32_t index, const struct wp_err *err)
{
    struct wp_pool_job *job = world.job;

    assert_non_null(job);
    world.job = NULL;
    job->done(job, index, err);
}

static void
create_pool(struct wp_fake_call *fake, const char *manifest)
{
    const struct wp_wire_create_pool_request request = {wp_str_from(manifest)};

    WP_WORLD_START(&world.admin, fake, "CreatePool", create_pool_request,
                   &request);
}

static void
delete_pool(struct wp_fake_call *fake, const char *name)
{
    const struct wp_wire_delete_pool_request request = {
        {WP_STR("default"), wp_str_from(name)}};

    WP_WORLD_START(&world.admin, fake, "DeletePool", delete_pool_request,
                   &request);
}

static void
test_pools_come_and_go_elsewhere(void **state)
{
    struct wp_wire_delete_pool_response deleted;
    struct wp_pool_stats pool;
    struct wp_err err;

    (void)state;
    create_pool(&a, "");
    wp_world_assert_ended(&a, WP_INVALID_ARGUMENT);
    create_pool(wp_world_again(&world, &a), "text");
    assert_true(wp_str_is(world.job->manifest, "text"));
    create_pool(&b, "more");
    wp_world_assert_ended(&b, WP_RESOURCE_EXHAUSTED);
    assert_true(b.retry_after_ns > 0);
    end_job(0, NULL);
    wp_world_assert_ended(&a, WP_OK);
    WP_WORLD_REPLY(&world, &a, pool, &pool);
    assert_string_equal(pool.spec.name, "p");
    (void)wp_err_set(&err, WP_ALREADY_EXISTS, "manifest: there is one");
    create_pool(wp_world_again(&world, &a), "text");
    end_job(0, &err);
    wp_world_assert_ended(&a, WP_ALREADY_EXISTS);

    wp_world_claim(&world, wp_world_again(&world, &a), "id", "", 0);
    delete_pool(wp_world_again(&world, &b), "other");
    wp_world_assert_ended(&b, WP_NOT_FOUND);
    delete_pool(wp_world_again(&world, &b), "p");
    assert_null(world.job->manifest.ptr);
    assert_true(wp_str_is(world.job->pool, "p"));
    end_job(0, NULL);
    wp_world_assert_ended(&b, WP_OK);
    WP_WORLD_REPLY(&world, &b, delete_pool_response, &deleted);
    assert_int_equal(deleted.leased, 1);
}

static void
init_config(struct wp_services_config *config)
{
    wp_services_config_init(config);
    config->pools = world.rig.pools;
    config->clock = &world.rig.clock.clock;
    config->post = (bool (*)(void *, struct wp_message))(uintptr_t)1;
    config->wake = (void (*)(void *))(uintptr_t)1;
    config->drain = (void (*)(void *, int64_t))(uintptr_t)1;
}

/* As in a cluster, whose objects they are. */
static void
test_pools_come_and_go_by_others(void **state)
{
    const struct wp_wire_create_pool_request request = {WP_STR("text")};
    struct wp_services_config config;
    struct wp_services *services;
    struct wp_service admin;
    struct wp_err err;

    (void)state;
    init_config(&config);
    config.pools_are_kept = "pool: kubectl makes it";
    services = wp_services_create(&config, &err);
    assert_non_null(services);
    admin = wp_service_admin(services);
    WP_WORLD_START(&admin, &a, "CreatePool", create_pool_request, &request);
    wp_world_assert_ended(&a, WP_FAILED_PRECONDITION);
    assert_string_equal(a.message, "pool: kubectl makes it");
    wp_services_destroy(services);
}

static void
test_bounds_of_the_configuration(void **state)
{
    struct wp_services_config config;
    struct wp_err err;

    (void)state;
    init_config(&config);
    config.batches_max = 65;
    assert_null(wp_services_create(&config, &err));
    assert_string_equal(err.msg, "batches_max: 1 to 64 expected, got 65");
    config.batches_max = 1;
    config.watches_max = 0;
    assert_null(wp_services_create(&config, &err));
    assert_string_equal(err.msg, "watches_max: 1 to 1024 expected, got 0");
    config.watches_max = 1;
    config.watch_interval_ns = -1;
    assert_null(wp_services_create(&config, &err));
    /* As many of each as there can be, and as few. */
    for (int i = 0; i < 2; i++) {
        struct wp_services *services;

        init_config(&config);
        config.batches_max = i == 0 ? 1 : 64;
        config.watches_max = i == 0 ? 1 : 1024;
        config.watch_interval_ns = 0;
        services = wp_services_create(&config, &err);
        assert_non_null(services);
        wp_services_destroy(services);
    }
    config.watches_max = 1025;
    assert_null(wp_services_create(&config, &err));
    assert_string_equal(err.msg, "watches_max: 1 to 1024 expected, got 1025");
    config.watches_max = 1;
    config.batches_max = 0;
    assert_null(wp_services_create(&config, &err));
    assert_string_equal(err.msg, "batches_max: 1 to 64 expected, got 0");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_every_method_needs_the_admin_right),
        TEST(test_list_and_get),
        TEST(test_no_memory_for_lists),
        TEST(test_shows_decisions),
        TEST(test_set_pool),
        TEST(test_set_policy),
        TEST(test_control_thread_is_busy),
        TEST(test_drain_one_pool),
        TEST(test_a_drain_is_taken_back),
        TEST(test_drain_the_daemon),
        TEST(test_reserves_and_cancels),
        TEST(test_bounds_of_a_reservation),
        TEST(test_pools_come_and_go_elsewhere),
        TEST(test_pools_come_and_go_by_others),
        TEST(test_bounds_of_the_configuration),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
