/* The HTTP/2 server as a whole and its serving threads, with all that they call
 * replaced (h2_worker_rig.h). What is called, and in which order, is compared
 * whole with golden/worker_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/base/journal.h"
#include "tests/unit/proto/h2/h2_worker_rig.h"

/* --------------------------------------------------------------- the rig */

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/worker_%s.txt", name);
    journal_compare(path);
}

static enum wp_status
create(struct wp_err *err)
{
    memset(err, 0, sizeof *err);
    rig.n_fds = rig.n_bases = rig.n_threads = 0;
    rig.n_events = 0;
    rig.server = wp_h2_server_create(&rig.config, &rig.handler, err);
    if (rig.server != NULL) {
        assert_ptr_equal(rig.server->clock, wp_clock_system());
        rig.server->clock = &rig.hands.clock;
        assert_true(
            worker_rig_is_behind(&rig.server->workers[rig.config.threads]));
        assert_memory_equal(&rig.server->config, &rig.config,
                            sizeof rig.config);
        assert_memory_equal(&rig.server->handler, &rig.handler,
                            sizeof rig.handler);
    }
    journal(" = %s %s", rig.server != NULL ? "made" : "none", err->msg);
    journal_line();
    return rig.server != NULL ? WP_OK : err->status;
}

static void
created(uint32_t n)
{
    struct wp_err err;

    rig.config.threads = n;
    journal_mute(true);
    assert_int_equal(create(&err), WP_OK);
    journal_mute(false);
}

static void
start(enum wp_status expected)
{
    struct wp_err err = {0};

    assert_int_equal(wp_h2_server_start(rig.server, &err), expected);
    journal(" = %s", err.msg);
    journal_line();
}

static void
stop(void)
{
    wp_h2_server_stop(rig.server);
    journal(" here %d", worker_rig_here());
    journal_line();
}

static void
destroy(void)
{
    wp_h2_server_destroy(rig.server);
    rig.server = NULL;
    journal_line();
}

static void
add_step(uint32_t done, int64_t ns, bool wants, long preemptions)
{
    assert_true(rig.n_steps < RIG_STEPS_MAX);
    rig.steps[rig.n_steps++] =
        (struct worker_step){done, ns, wants, preemptions};
}

/* What one thread does with these steps, which are then gone. */
static void
runs(struct wp_h2_worker *worker)
{
    rig.step_at = 0;
    assert_null(rig.threads[worker->number].run(worker));
    worker->ending = false;
    rig.n_steps = rig.step_at = 0;
    journal(" = spin %lld skipped %u of %u preempted %ld looked %lld",
            (long long)worker->spin_ns, worker->spins_skipped,
            worker->spins_to_skip, worker->preempted,
            (long long)worker->looked_ns);
    journal_line();
}

/* ----------------------------------------------------------------- tests */

static void
its_parts_begin_and_end_in_order(void **state)
{
    struct wp_err err;

    (void)state;
    assert_int_equal(create(&err), WP_OK);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(wp_h2_worker_number(&rig.server->workers[i]), i);
        assert_ptr_equal(wp_h2_worker_base(&rig.server->workers[i]),
                         &rig.bases[i]);
    }
    start(WP_OK);
    stop();
    destroy();
    say("with TLS");
    rig.config.tls_cert = "a certificate";
    rig.config.threads = 1;
    assert_int_equal(create(&err), WP_OK);
    destroy();
    say("in the loop of another");
    rig.config.base = (struct event_base *)(void *)&rig.bases[0];
    rig.handler.wants_flush = NULL;
    rig.handler.flush = NULL;
    assert_int_equal(create(&err), WP_OK);
    start(WP_OK);
    journal("here %d", worker_rig_here());
    journal_line();
    stop();
    destroy();
    wp_h2_server_destroy(NULL);
    golden("life");
}

static void
what_cannot_be_made_is_taken_down(void **state)
{
    static const char *const calls[] = {
        "calloc", "aligned_alloc", "sessions", "eventfd", "base",
        "assign", "add",           "streams",  "tls",     "door",
    };

    (void)state;
    rig.config.tls_cert = "a certificate";
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        enum wp_status status = WP_INTERNAL;

        for (unsigned nth = 1; status != WP_OK; nth++) {
            struct wp_err err;

            journal("-- %s %u", calls[i], nth);
            journal_line();
            worker_rig_fail(calls[i], nth);
            status = create(&err);
            journal("= %d", (int)status);
            destroy();
        }
    }
    golden("failures");
}

static void
a_thread_that_did_not_start_ends_all_the_same(void **state)
{
    static const char *const calls[] = {"thread", "thread", "open-door"};
    static const unsigned nth[] = {1, 2, 1};
    struct wp_err err;

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        assert_int_equal(create(&err), WP_OK);
        worker_rig_fail(calls[i], nth[i]);
        start(i < 2 ? WP_RESOURCE_EXHAUSTED : WP_UNAVAILABLE);
        stop();
        destroy();
    }
    golden("not_started");
}

static void
what_is_known_of_it_is_told(void **state)
{
    struct wp_h2_stats stats;

    (void)state;
    rig.config.tls_cert = "a certificate";
    created(2);
    for (uint32_t i = 0; i < 2; i++) {
        rig.server->workers[i].slowed = 10 + i;
        rig.server->workers[i].cut = 20 + 2 * i;
    }
    memset(&stats, 0xff, sizeof stats);
    wp_h2_server_stats(rig.server, &stats);
    assert_int_equal(stats.accepted, 5);
    assert_int_equal(stats.refused, 6);
    assert_int_equal(stats.tls_reloads, 7);
    assert_int_equal(stats.slowed, 21);
    assert_int_equal(stats.cut, 42);
    rig.server->tls = NULL;
    wp_h2_server_stats(rig.server, &stats);
    assert_int_equal(stats.tls_reloads, 0);
    (void)snprintf(rig.server->address[3], sizeof rig.server->address[3],
                   "there");
    assert_string_equal(wp_h2_server_address(rig.server, 3), "there");
    assert_string_equal(wp_h2_server_address(rig.server, 2), "");
    assert_true(wp_h2_server_accepts(rig.server));
    rig.server->starved = true;
    assert_false(wp_h2_server_accepts(rig.server));
    assert_true(wp_h2_server_is_empty(rig.server));
    rig.server->n_conns = 1;
    assert_false(wp_h2_server_is_empty(rig.server));
}

/* The signal that ends who makes one with this config, or 0. */
static int
signal_of(void)
{
    struct wp_err err;
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)fclose(stderr);
        _exit(wp_h2_server_create(&rig.config, &rig.handler, &err) == NULL);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void
the_loop_of_another_is_for_one_thread_that_gathers_nothing(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct wp_h2_handler gathers = rig.handler;

        rig.config.base = (struct event_base *)(void *)&rig.bases[0];
        rig.config.threads = 1 + (i & 1);
        rig.handler.wants_flush = (i & 2) == 0 ? NULL : gathers.wants_flush;
        assert_int_equal(signal_of(), i == 0 ? 0 : SIGABRT);
        rig.config.base = NULL;
        assert_int_equal(signal_of(), 0);
        rig.handler = gathers;
    }
}

static void
hand(uint32_t thread, int i)
{
    wp_h2_worker_hand(&rig.server->workers[thread], rig.conns[i]);
    assert_ptr_equal(rig.conns[i]->worker, &rig.server->workers[thread]);
    journal(" handed(%d, %u there)", i, rig.server->workers[thread].n_conns);
}

/* What was handed, then what was sent, then the orders, then all is written:
 * however often it is woken for it. */
static void
a_thread_takes_what_it_is_given(void **state)
{
    (void)state;
    created(2);
    hand(1, 2);
    hand(1, 0);
    hand(0, 1);
    wp_h2_worker_send(&rig.server->workers[1], &rig.conns[3]->handed);
    journal_line();
    worker_rig_wake(&rig.server->workers[1]);
    journal_line();
    worker_rig_wake(&rig.server->workers[1]);
    journal_line();
    wp_h2_worker_send(&rig.server->workers[1], &rig.conns[3]->handed);
    wp_h2_worker_send(&rig.server->workers[1], &rig.conns[2]->handed);
    wp_h2_worker_send(&rig.server->workers[1], &rig.conns[0]->handed);
    worker_rig_wake(&rig.server->workers[1]);
    journal_line();
    say("all are to leave, also who comes then");
    wp_h2_server_leave(rig.server);
    journal_line();
    worker_rig_wake(&rig.server->workers[1]);
    journal_line();
    hand(1, 3);
    worker_rig_wake(&rig.server->workers[1]);
    journal_line();
    say("all are hung up");
    wp_h2_server_hang_up(rig.server);
    journal_line();
    worker_rig_wake(&rig.server->workers[1]);
    journal_line();
    journal("%u left, ending %d %d", rig.server->workers[1].n_conns,
            rig.server->workers[1].ending, rig.server->workers[0].ending);
    journal_line();
    worker_rig_wake(&rig.server->workers[0]);
    journal_line();
    say("a wake-up that a signal interrupts");
    worker_rig_fail("write", 1);
    wp_h2_worker_order(&rig.server->workers[0], WP_H2_ORDER_HANG_UP);
    journal_line();
    say("one that is not needed");
    worker_rig_fail("write for good", 1);
    wp_h2_worker_order(&rig.server->workers[0], WP_H2_ORDER_HANG_UP);
    journal_line();
    golden("given");
}

static void
it_settles_until_nothing_is_to_be_written(void **state)
{
    (void)state;
    created(1);
    for (int i = 0; i < RIG_CONNS; i++) {
        hand(0, i);
    }
    worker_rig_wake(&rig.server->workers[0]);
    journal_line();
    say("two are to write");
    worker_rig_dirty(rig.conns[1]);
    worker_rig_dirty(rig.conns[3]);
    wp_h2_worker_settle(&rig.server->workers[0]);
    journal_line();
    say("streams are told of what was sent, twice");
    rig.told = 2;
    wp_h2_worker_settle(&rig.server->workers[0]);
    journal_line();
    say("its turn makes one write");
    rig.touches = &rig.server->workers[0];
    rig.told = 1;
    wp_h2_worker_settle(&rig.server->workers[0]);
    journal_line();
    say("the dead are freed");
    wp_h2_conn_close(rig.conns[2]);
    wp_h2_conn_close(rig.conns[0]);
    wp_h2_worker_settle(&rig.server->workers[0]);
    journal(" %u events", rig.server->workers[0].events);
    journal_line();
    golden("settles");
}

static void
at_its_end_all_are_hung_up(void **state)
{
    (void)state;
    created(2);
    start(WP_OK);
    hand(0, 0);
    hand(0, 1);
    hand(1, 2);
    journal_line();
    stop();
    say("in the loop of another");
    destroy();
    rig.config.base = (struct event_base *)(void *)&rig.bases[0];
    rig.handler.wants_flush = NULL;
    created(1);
    start(WP_OK);
    hand(0, 3);
    stop();
    golden("end");
}

/* What is gathered is flushed when nothing else is to be done at once, or when
 * one thing was, after nothing. */
static void
what_is_gathered_is_flushed(void **state)
{
    struct wp_h2_worker *worker;

    (void)state;
    created(1);
    start(WP_OK);
    worker = &rig.server->workers[0];
    for (uint32_t n = 0; n < 3; n++) {
        journal("%u events, then wanted:", n);
        add_step(n, 1, true, 0);
        runs(worker);
        for (uint32_t later = 0; later < 3; later++) {
            rig.wanted = true;
            journal("wanted before %u events:", later);
            add_step(later, 1, true, 0);
            add_step(0, 1, false, 0);
            runs(worker);
        }
        rig.wanted = false;
        journal("%u events, not wanted:", n);
        add_step(n, 1, false, 0);
        runs(worker);
    }
    destroy();
    say("a handler that gathers nothing");
    rig.handler.wants_flush = NULL;
    rig.handler.flush = NULL;
    created(1);
    start(WP_OK);
    worker = &rig.server->workers[0];
    rig.wanted = true;
    add_step(1, 1, true, 0);
    runs(worker);
    golden("flush");
}

static void
it_looks_for_work_before_it_sleeps(void **state)
{
    struct wp_h2_worker *worker;

    (void)state;
    created(1);
    start(WP_OK);
    worker = &rig.server->workers[0];
    say("only with a processor more than threads");
    rig.n_cpus = 1;
    runs(worker);
    rig.n_cpus = 2;
    worker_rig_fail("affinity", 1);
    runs(worker);
    say("there is some");
    rig.hands.now_mono_ns = 1000;
    add_step(0, 99, false, 0);
    add_step(1, 0, false, 0);
    add_step(1, 100, false, 0);
    add_step(2, 100, false, 0);
    runs(worker);
    say("it is wanted that it does not");
    rig.wanted = true;
    add_step(1, 0, false, 0);
    runs(worker);
    say("the spin is over, and there is none: the next are left out");
    for (int i = 0; i < 8; i++) {
        worker->spins_skipped = worker->spins_to_skip;
        add_step(0, 99, false, 0);
        add_step(0, 1, false, 0);
        add_step(1, 0, false, 0);
        runs(worker);
    }
    say("one that is left out");
    worker->spins_skipped = 3;
    worker->spins_to_skip = 5;
    add_step(1, 0, false, 0);
    add_step(1, 0, false, 0);
    add_step(1, 0, false, 0);
    runs(worker);
    say("one event, and a flush is wanted");
    worker->spins_skipped = worker->spins_to_skip = 0;
    add_step(1, 0, true, 0);
    add_step(2, 0, true, 0);
    add_step(0, 0, true, 0);
    runs(worker);
    golden("spin");
}

/* Once in two milliseconds is what any kernel does. */
static void
who_shares_its_processor_looks_seldom(void **state)
{
    static const struct {
        long preemptions;
        int64_t ns;
    } cases[] = {
        {0, 1},
        {1, 2 * WP_NS_PER_MS},
        {1, 2 * WP_NS_PER_MS - 1},
        {2, 4 * WP_NS_PER_MS},
        {3, 4 * WP_NS_PER_MS},
        {7, 20 * WP_NS_PER_MS},
    };
    struct wp_h2_worker *worker;

    (void)state;
    created(2);
    start(WP_OK);
    rig.n_cpus = 3;
    worker = &rig.server->workers[1];
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        worker->spins_skipped = worker->spins_to_skip = 0;
        rig.preempted = 50;
        worker->preempted = 50;
        worker->looked_ns = rig.hands.now_mono_ns;
        add_step(1, cases[i].ns, false, cases[i].preemptions);
        /* It ends in a spin, or in its sleep when that is left out. */
        runs(worker);
    }
    say("nobody says");
    worker->spins_skipped = worker->spins_to_skip = 0;
    worker_rig_fail("rusage", 1);
    add_step(1, WP_NS_PER_S, false, 0);
    runs(worker);
    golden("preempted");
}

int
main(void)
{
#define ONE(test)                                                              \
    cmocka_unit_test_setup_teardown(test, worker_rig_begin, worker_rig_end)
    const struct CMUnitTest tests[] = {
        ONE(its_parts_begin_and_end_in_order),
        ONE(what_cannot_be_made_is_taken_down),
        ONE(a_thread_that_did_not_start_ends_all_the_same),
        ONE(what_is_known_of_it_is_told),
        ONE(the_loop_of_another_is_for_one_thread_that_gathers_nothing),
        ONE(a_thread_takes_what_it_is_given),
        ONE(it_settles_until_nothing_is_to_be_written),
        ONE(at_its_end_all_are_hung_up),
        ONE(what_is_gathered_is_flushed),
        ONE(it_looks_for_work_before_it_sleeps),
        ONE(who_shares_its_processor_looks_seldom),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
