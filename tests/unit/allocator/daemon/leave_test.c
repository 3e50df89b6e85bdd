/* tests/unit/allocator/daemon/leave_test.c - how the daemon leaves: what it
 * asks of its parts and in which order, how long it waits for what, and what it
 * says of what is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "allocator/daemon/leave.h"
#include "allocator/daemon/pools.h"
#include "pool/base/clock.h"
#include "tests/unit/allocator/daemon/journal.h"

enum {
    POOLS = 2,
};

int __wrap_sigtimedwait(const sigset_t *set, siginfo_t *info,
                        const struct timespec *ts);
void __wrap_wp_control_wake(void *ctx);
void __wrap_wp_daemon_cluster_quiet(struct wp_daemon_cluster *self);
struct wp_daemon_follower *
__wrap_wp_daemon_follow(const struct wp_daemon_keeping *keeping,
                        struct wp_err *err);
bool __wrap_wp_daemon_is_keeper(const struct wp_daemon_core *of);
bool __wrap_wp_daemon_learned_saved(struct wp_daemon_core *of);
uint32_t __wrap_wp_daemon_locks_others(const struct wp_daemon_locks *of);
void __wrap_wp_daemon_locks_quit(const struct wp_daemon_locks *of);
void __wrap_wp_daemon_notify(const char *state);
void __wrap_wp_daemon_redis_leave(struct wp_daemon_redis *redis);
void __wrap_wp_daemon_refuse_claims(void *ctx);
uint32_t
__wrap_wp_daemon_servers_calls(const struct wp_daemon_servers *servers);
void __wrap_wp_daemon_servers_drain(struct wp_daemon_servers *servers,
                                    int64_t for_ns);
void __wrap_wp_daemon_servers_refuse(struct wp_daemon_servers *servers);
void __wrap_wp_daemon_unfollow(struct wp_daemon_follower **of);
void __wrap_wp_loop_call(struct wp_loop *loop, void (*call)(void *ctx),
                         void *ctx);
uint32_t __wrap_wp_pools_count(const struct wp_pools *pools);
void __wrap_wp_pools_leave(struct wp_pools *pools, bool idle_too);
bool __wrap_wp_pools_quiet(const struct wp_pools *pools);
void __wrap_wp_pools_stats(struct wp_pools *pools, uint32_t pool_index,
                           struct wp_pool_stats *out);
void __wrap_wp_pools_stop(struct wp_pools *pools);
void __wrap_wp_services_end_streams(struct wp_services *services);
void __wrap_wp_services_stop(struct wp_services *services);

static struct wp_conf conf;
static struct wp_daemon_core core;
static struct wp_daemon_locks locks;
static struct wp_daemon_follower *follower;
static struct wp_daemon_leaving leaving;

/* What is so until it changes; journal_say goes before. */
static struct {
    bool keeper;
    bool saved;
    bool quiet;
    uint32_t others;
    uint32_t calls;
    struct wp_pool_stats stats[POOLS];
} now;

/* What changes while it waits the n-th time; 0: nothing. */
static uint32_t waits;
static void (*changes)(uint32_t n);

int
__wrap_sigtimedwait(const sigset_t *set, siginfo_t *info,
                    const struct timespec *ts)
{
    int64_t ns = ts->tv_sec * WP_NS_PER_S + ts->tv_nsec;
    int sig = (int)journal_said("signal", 0);

    assert_null(info);
    for (int i = 1; i < SIGRTMIN; i++) {
        if ((sigismember(set, i) == 1) != (i == SIGTERM || i == SIGINT)) {
            journal("wrong signal %d", i);
        }
    }
    journal("wait %lld ms%s", (long long)(ns / WP_NS_PER_MS),
            sig > 0   ? ": a signal"
            : sig < 0 ? ": interrupted"
                      : "");
    waits++;
    journal_pass(journal_said("time passes", sig == 0 ? ns : 0));
    if (changes != NULL) {
        changes(waits);
    }
    errno = sig < 0 ? EINTR : EAGAIN;
    return sig > 0 ? sig : -1;
}

/* --- Parts --- */

void
__wrap_wp_control_wake(void *ctx)
{
    journal("  wake %s", journal_name(ctx));
}

void
__wrap_wp_daemon_cluster_quiet(struct wp_daemon_cluster *self)
{
    journal("quiet cluster %s", journal_name(self));
}

struct wp_daemon_follower *
__wrap_wp_daemon_follow(const struct wp_daemon_keeping *keeping,
                        struct wp_err *err)
{
    assert_ptr_equal(keeping, &leaving.keeping);
    journal("follow");
    return journal_status("follow", err) == WP_OK
               ? journal_thing("a new follower")
               : NULL;
}

void
__wrap_wp_daemon_unfollow(struct wp_daemon_follower **of)
{
    journal("unfollow %s", journal_name(*of));
    *of = NULL;
}

bool
__wrap_wp_daemon_is_keeper(const struct wp_daemon_core *of)
{
    assert_ptr_equal(of, &core);
    return journal_said("keeper", now.keeper) != 0;
}

bool
__wrap_wp_daemon_learned_saved(struct wp_daemon_core *of)
{
    bool saved = journal_said("saved", now.saved) != 0;

    assert_ptr_equal(of, &core);
    journal("learned is saved: %d", saved);
    return saved;
}

uint32_t
__wrap_wp_daemon_locks_others(const struct wp_daemon_locks *of)
{
    uint32_t others = (uint32_t)journal_said("others", now.others);

    assert_ptr_equal(of, &locks);
    journal("others: %u", others);
    return others;
}

void
__wrap_wp_daemon_locks_quit(const struct wp_daemon_locks *of)
{
    assert_ptr_equal(of, &locks);
    journal("quit");
}

void
__wrap_wp_daemon_notify(const char *state)
{
    journal("notify %s", state);
}

void
__wrap_wp_daemon_redis_leave(struct wp_daemon_redis *redis)
{
    journal("leave redis %s", journal_name(redis));
}

void
__wrap_wp_daemon_refuse_claims(void *ctx)
{
    assert_ptr_equal(ctx, &core);
    journal("  refuse claims");
}

uint32_t
__wrap_wp_daemon_servers_calls(const struct wp_daemon_servers *servers)
{
    uint32_t calls = (uint32_t)journal_said("calls", now.calls);

    journal("calls of %s: %u", journal_name(servers), calls);
    return calls;
}

void
__wrap_wp_daemon_servers_drain(struct wp_daemon_servers *servers,
                               int64_t for_ns)
{
    journal("drain %s for %lld ms", journal_name(servers),
            (long long)(for_ns / WP_NS_PER_MS));
}

void
__wrap_wp_daemon_servers_refuse(struct wp_daemon_servers *servers)
{
    journal("%s refuse", journal_name(servers));
}

void
__wrap_wp_loop_call(struct wp_loop *loop, void (*call)(void *ctx), void *ctx)
{
    journal("on %s:", journal_name(loop));
    call(ctx);
}

uint32_t
__wrap_wp_pools_count(const struct wp_pools *pools)
{
    assert_ptr_equal(pools, core.pools);
    return POOLS;
}

void
__wrap_wp_pools_leave(struct wp_pools *pools, bool idle_too)
{
    journal("  %s leave, idle ones too: %d", journal_name(pools), idle_too);
}

bool
__wrap_wp_pools_quiet(const struct wp_pools *pools)
{
    bool quiet = journal_said("quiet", now.quiet) != 0;

    journal("  %s quiet: %d", journal_name(pools), quiet);
    return quiet;
}

void
__wrap_wp_pools_stats(struct wp_pools *pools, uint32_t pool_index,
                      struct wp_pool_stats *out)
{
    assert_ptr_equal(pools, core.pools);
    assert_in_range(pool_index, 0, POOLS - 1);
    *out = now.stats[pool_index];
}

void
__wrap_wp_pools_stop(struct wp_pools *pools)
{
    journal("  stop %s", journal_name(pools));
}

void
__wrap_wp_services_end_streams(struct wp_services *services)
{
    journal("  end streams of %s", journal_name(services));
}

void
__wrap_wp_services_stop(struct wp_services *services)
{
    journal("  stop %s", journal_name(services));
}

/* --- The tests --- */

static int
begin(void **state)
{
    (void)journal_begin(state);
    journal_tick(0);
    memset(&conf, 0, sizeof conf);
    memset(&now, 0, sizeof now);
    conf.drain_grace = 100 * WP_NS_PER_MS;
    conf.stop_leaves = WP_CONF_STOP_LEASED;
    core = (struct wp_daemon_core){
        .conf = &conf,
        .loop = journal_thing("control thread"),
        .control = journal_thing("control"),
        .pools = journal_thing("pools"),
        .services = journal_thing("services"),
    };
    leaving = (struct wp_daemon_leaving){
        .core = &core,
        .servers = journal_thing("servers"),
        .keeping = {.core = &core, .locks = &locks},
        .follower = &follower,
    };
    follower = NULL;
    now.keeper = true;
    now.saved = true;
    now.quiet = true;
    waits = 0;
    changes = NULL;
    return 0;
}

static void
leave(bool ends, int64_t grace_ns)
{
    bool leaves_ready = !ends;
    int64_t begun_ns = journal_now();
    bool clean = wp_daemon_leave(&leaving, ends, grace_ns, &leaves_ready);

    journal("- clean: %d, leaves ready ones: %d, succeeded: %d, %lld ms", clean,
            leaves_ready, leaving.succeeded,
            (long long)((journal_now() - begun_ns) / WP_NS_PER_MS));
}

static void
share(void)
{
    leaving.redis = journal_thing("redis");
    follower = journal_thing("the follower");
    now.keeper = false;
}

static void
test_all_ends(void **state)
{
    (void)state;
    leave(true, 0);
    journal_is("leave_ends");
}

static void
test_leased_ones_run_on(void **state)
{
    (void)state;
    leave(false, 0);
    journal_is("leave_leased");
}

static void
calls_end(uint32_t n)
{
    now.calls = n < 3 ? 1 : 0;
}

static void
test_calls_get_their_grace(void **state)
{
    (void)state;
    now.calls = 1;
    changes = calls_end;
    leave(true, 0);
    journal_is("leave_calls");
    /* They never end. */
    changes = NULL;
    now.calls = 2;
    leave(true, 0);
    journal_is("leave_calls_late");
    /* The grace is over to the nanosecond. */
    journal_say("time passes", conf.drain_grace - 1);
    journal_say("time passes", 1);
    leave(true, 0);
    journal_is("leave_calls_exact");
}

static void
test_signal_hurries_calls_and_answers(void **state)
{
    (void)state;
    now.calls = 1;
    journal_say("signal", 0);
    journal_say("signal", -1);
    journal_say("signal", SIGTERM);
    leave(true, 0);
    journal_is("leave_hurry_calls");
    now.calls = 0;
    journal_say("signal", SIGINT);
    leave(true, 0);
    journal_is("leave_hurry_answers");
}

static void
leases_end(uint32_t n)
{
    now.stats[1].leased = n < 2 ? 1 : 0;
}

static void
test_drain_waits_for_leases(void **state)
{
    (void)state;
    now.stats[1].leased = 1;
    changes = leases_end;
    leave(true, 50 * WP_NS_PER_MS);
    journal_is("leave_drain");
    now.stats[0].leased = 3;
    changes = NULL;
    leave(true, 50 * WP_NS_PER_MS);
    journal_is("leave_drain_late");
    journal_say("signal", SIGTERM);
    leave(true, 50 * WP_NS_PER_MS);
    journal_is("leave_drain_hurry");
    /* The least there is. */
    journal_say("time passes", 1);
    leave(true, 1);
    journal_is("leave_drain_least");
    /* Forever is not too long. */
    changes = leases_end;
    waits = 0;
    now.stats[0].leased = 0;
    now.stats[1].leased = 1;
    leave(true, INT64_MAX);
    journal_is("leave_drain_forever");
}

static void
test_what_scalers_learned_is_waited_for(void **state)
{
    (void)state;
    journal_say("saved", false);
    journal_say("saved", false);
    journal_say("saved", true);
    leave(true, 0);
    journal_is("leave_learned");
    /* Two seconds at most. */
    now.saved = false;
    journal_say("time passes", 0); /* The answers'. */
    journal_say("time passes", 2 * WP_NS_PER_S - 1);
    journal_say("time passes", 1);
    leave(true, 0);
    journal_is("leave_learned_late");
    journal_say("time passes", 0);
    journal_say("time passes", 2 * WP_NS_PER_S);
    leave(false, 0);
    journal_is("leave_learned_leased");
}

static void
test_sandboxes_get_fifteen_seconds_to_end(void **state)
{
    (void)state;
    now.quiet = false;
    journal_say("time passes", 0);
    journal_say("time passes", 15 * WP_NS_PER_S - 1);
    journal_say("time passes", 1);
    leave(true, 0);
    journal_is("leave_end_late");
    journal_say("time passes", 0);
    journal_say("signal", 0);
    journal_say("signal", SIGTERM);
    leave(true, 0);
    journal_is("leave_end_hurry");
    journal_say("time passes", 0);
    journal_say("quiet", false);
    journal_say("quiet", true);
    leave(true, 0);
    journal_is("leave_end_soon");
}

/* What else the two seconds have to fit in. */
static void
test_learned_takes_nothing_from_what_is_over(void **state)
{
    (void)state;
    share();
    leaving.redis = journal_thing("redis");
    now.keeper = false;
    now.saved = false;
    /* It waits for the keeper until a second is left. */
    journal_say("time passes", 0);
    journal_say("time passes", 14 * WP_NS_PER_S);
    journal_say("signal", 0);
    journal_say("signal", 0);
    journal_say("signal", SIGTERM);
    journal_say("time passes", 0);
    journal_say("time passes", WP_NS_PER_S - 1);
    journal_say("time passes", 1);
    leave(false, 0);
    journal_is("leave_learned_rest");
}

/* Which sandboxes are waited for, and what is said of those that stay. */
static void
test_idle_ones_that_do_not_stay_are_waited_for(void **state)
{
    static const struct {
        const char *golden;
        int stop_leaves;
        struct wp_pool_stats stats;
    } rows[] = {
        {"leave_rest_ready", WP_CONF_STOP_LEASED, {.ready = 1}},
        {"leave_rest_warming", WP_CONF_STOP_LEASED, {.warming = 1}},
        {"leave_rest_quarantined", WP_CONF_STOP_LEASED, {.quarantined = 1}},
        {"leave_rest_ready", WP_CONF_STOP_LEASED, {.ready = 1, .warming = 1}},
        {"leave_rest_ready",
         WP_CONF_STOP_LEASED,
         {.ready = 1, .quarantined = 1}},
        {"leave_rest_warming",
         WP_CONF_STOP_LEASED,
         {.warming = 1, .quarantined = 1}},
        {"leave_rest_dying", WP_CONF_STOP_LEASED, {.dying = 1}},
        {"leave_rest_leased", WP_CONF_STOP_LEASED, {.leased = 2}},
        {"leave_all_ready", WP_CONF_STOP_ALL, {.ready = 1, .leased = 2}},
        {"leave_all_warming", WP_CONF_STOP_ALL, {.warming = 1}},
        {"leave_all_quarantined", WP_CONF_STOP_ALL, {.quarantined = 1}},
        {"leave_all_dying", WP_CONF_STOP_ALL, {.dying = 1}},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        for (uint32_t j = 0; j < POOLS; j++) {
            (void)begin(state);
            conf.stop_leaves = rows[i].stop_leaves;
            now.stats[j] = rows[i].stats;
            now.stats[j].served_total[1] = 7;
            journal_say("time passes", 0);
            journal_say("time passes", 15 * WP_NS_PER_S - 1);
            journal_say("time passes", 1);
            leave(false, 0);
            journal_forget();
            journal_is(rows[i].golden);
        }
    }
    /* Both count. */
    (void)begin(state);
    now.stats[0] = (struct wp_pool_stats){.leased = 3, .ready = 5};
    now.stats[1] = (struct wp_pool_stats){.leased = 4, .ready = 6};
    conf.stop_leaves = WP_CONF_STOP_ALL;
    leave(false, 0);
    journal_is("leave_sums");
}

static void
test_who_does_not_keep_waits_for_no_sandbox(void **state)
{
    (void)state;
    now.keeper = false;
    now.stats[0] = (struct wp_pool_stats){.dying = 1, .ready = 2, .leased = 3};
    leave(false, 0);
    journal_is("leave_not_keeper");
}

static void
test_cluster_keeps_what_is_there(void **state)
{
    (void)state;
    leaving.cluster = journal_thing("cluster");
    now.stats[0] = (struct wp_pool_stats){.ready = 2, .leased = 3};
    leave(false, 0);
    journal_is("leave_cluster");
    /* Though an admin drains it, or it follows, or shares leases. */
    leave(true, 5);
    journal_is("leave_cluster_drained");
    leaving.redis = journal_thing("redis");
    now.keeper = false;
    leave(true, 5);
    journal_is("leave_cluster_shared");
}

static void
test_others_go_on(void **state)
{
    (void)state;
    share();
    now.others = 1;
    now.stats[1] = (struct wp_pool_stats){.ready = 2, .leased = 3};
    leave(true, 5);
    journal_is("leave_others");
    /* The keeper does not end what is theirs now. */
    now.keeper = true;
    leave(true, 5);
    journal_is("leave_others_keeper");
}

static void
test_last_follower_takes_over_to_end_what_is_left(void **state)
{
    (void)state;
    share();
    /* The keeper goes while it is waited for. */
    for (int i = 0; i < 5; i++) {
        journal_say("keeper", false);
    }
    now.keeper = true;
    now.stats[1].leased = 1;
    leave(true, 30 * WP_NS_PER_MS);
    journal_is("leave_takes_over");
}

static void
becomes_keeper(uint32_t n)
{
    now.keeper = n >= 4;
}

static void
another_comes(uint32_t n)
{
    now.others = n >= 4 ? 1 : 0;
}

static void
fails(uint32_t n)
{
    atomic_store(&core.failed, n >= 4);
}

static void
test_follower_waits_for_the_keeper(void **state)
{
    (void)state;
    share();
    changes = becomes_keeper;
    leave(true, 30 * WP_NS_PER_MS);
    journal_is("leave_waits");

    (void)begin(state);
    share();
    changes = becomes_keeper;
    leave(false, 30 * WP_NS_PER_MS);
    journal_is("leave_waits_leased");

    (void)begin(state);
    share();
    changes = another_comes;
    leave(true, 30 * WP_NS_PER_MS);
    journal_is("leave_waits_another");

    (void)begin(state);
    share();
    changes = fails;
    leave(true, 30 * WP_NS_PER_MS);
    journal_is("leave_waits_fails");
}

static void
test_follower_waits_for_fifteen_seconds(void **state)
{
    (void)state;
    share();
    journal_say("time passes", 0);
    journal_say("time passes", 15 * WP_NS_PER_S - 1);
    journal_say("time passes", 1);
    leave(true, 30 * WP_NS_PER_MS);
    journal_is("leave_waits_late");
    /* It has followed no more. */
    journal_say("follow", WP_UNAVAILABLE);
    leave(true, 30 * WP_NS_PER_MS);
    journal_is("leave_waits_not");
    /* It follows anew, and is hurried. */
    journal_say("signal", 0);
    journal_say("signal", SIGTERM);
    leave(true, 30 * WP_NS_PER_MS);
    journal_is("leave_waits_hurried");
}

static void
test_others_that_leave_meanwhile_are_seen(void **state)
{
    (void)state;
    /* They were there at first. */
    share();
    now.keeper = true;
    now.stats[0].leased = 1;
    journal_say("others", 1);
    leave(true, 30 * WP_NS_PER_MS);
    journal_is("leave_others_gone");
    /* They come meanwhile. */
    share();
    now.keeper = true;
    journal_say("others", 0);
    journal_say("others", 1);
    journal_say("others", 1);
    leave(true, 30 * WP_NS_PER_MS);
    journal_is("leave_others_came");
    journal_say("others", 1);
    journal_say("others", 0);
    journal_say("others", 1);
    leave(true, 30 * WP_NS_PER_MS);
    journal_is("leave_others_came_late");
}

static void
test_one_that_failed_does_not_take_over(void **state)
{
    (void)state;
    share();
    atomic_store(&core.failed, true);
    now.stats[0].leased = 1;
    leave(true, 30 * WP_NS_PER_MS);
    journal_is("leave_failed");
}

/* A second signal hurries what takes over, too. */
static void
test_hurry_lasts(void **state)
{
    (void)state;
    share();
    now.keeper = false;
    changes = becomes_keeper;
    now.stats[0].leased = 1;
    journal_say("signal", SIGTERM); /* The answers'. */
    leave(true, 300 * WP_NS_PER_MS);
    journal_is("leave_hurry_lasts");
}

/* Who follows anew, since the others have gone meanwhile, and was hurried. */
static void
test_hurry_leaves_no_grace_to_leases(void **state)
{
    static const char *const goldens[] = {
        "leave_hurry_before", "leave_hurry_meanwhile", "leave_no_hurry"};

    for (int i = 0; i < 3; i++) {
        (void)begin(state);
        share();
        journal_say("others", 1);
        changes = becomes_keeper;
        now.stats[0].leased = 1;
        if (i == 1) {
            waits = 2; /* The signal comes with the keeper's end. */
            journal_say("signal", 0);
        }
        if (i < 2) {
            journal_say("signal", SIGTERM);
        }
        leave(true, 300 * WP_NS_PER_MS);
        journal_is(goldens[i]);
    }
}

static void
leases_last(uint32_t n)
{
    now.keeper = true;
    now.stats[0].leased = n < 100 ? 1 : 0;
}

/* What leases take, who came late to end them, is not taken from the rest. */
static void
test_leases_take_nothing_from_the_rest(void **state)
{
    (void)state;
    share();
    now.keeper = true;
    now.quiet = false;
    journal_say("others", 1);
    changes = leases_last;
    now.stats[0].leased = 1;
    journal_say("time passes", 0); /* The answers'. */
    journal_say("time passes", 3 * WP_NS_PER_S);
    waits = 97;
    journal_say("time passes", WP_NS_PER_S);
    journal_say("time passes", 15 * WP_NS_PER_S - 1);
    journal_say("time passes", 1);
    leave(true, 10 * WP_NS_PER_S);
    journal_is("leave_late_grace");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_all_ends, begin),
        cmocka_unit_test_setup(test_leased_ones_run_on, begin),
        cmocka_unit_test_setup(test_calls_get_their_grace, begin),
        cmocka_unit_test_setup(test_signal_hurries_calls_and_answers, begin),
        cmocka_unit_test_setup(test_drain_waits_for_leases, begin),
        cmocka_unit_test_setup(test_what_scalers_learned_is_waited_for, begin),
        cmocka_unit_test_setup(test_sandboxes_get_fifteen_seconds_to_end,
                               begin),
        cmocka_unit_test_setup(test_learned_takes_nothing_from_what_is_over,
                               begin),
        cmocka_unit_test_setup(test_idle_ones_that_do_not_stay_are_waited_for,
                               begin),
        cmocka_unit_test_setup(test_who_does_not_keep_waits_for_no_sandbox,
                               begin),
        cmocka_unit_test_setup(test_cluster_keeps_what_is_there, begin),
        cmocka_unit_test_setup(test_others_go_on, begin),
        cmocka_unit_test_setup(
            test_last_follower_takes_over_to_end_what_is_left, begin),
        cmocka_unit_test_setup(test_follower_waits_for_the_keeper, begin),
        cmocka_unit_test_setup(test_follower_waits_for_fifteen_seconds, begin),
        cmocka_unit_test_setup(test_others_that_leave_meanwhile_are_seen,
                               begin),
        cmocka_unit_test_setup(test_one_that_failed_does_not_take_over, begin),
        cmocka_unit_test_setup(test_hurry_lasts, begin),
        cmocka_unit_test_setup(test_leases_take_nothing_from_the_rest, begin),
        cmocka_unit_test_setup(test_hurry_leaves_no_grace_to_leases, begin),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
