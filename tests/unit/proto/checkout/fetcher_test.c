/* Repositories that are fetched, by a runner of the test's own: each run, what
 * it is given, the clocks that are set for it and what is told of its end are
 * compared whole with golden/fetcher_*.txt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/base/clock.h"
#include "pool/limits.h"
#include "pool/remotes/remote.h"
#include "proto/checkout/fetch_report.h"
#include "proto/checkout/fetcher.h"
#include "proto/sockets/passing.h"
#include "tests/support/base/descriptors.h"
#include "tests/support/base/heard.h"
#include "tests/support/base/journal.h"

enum {
    RUNS_MAX = 40,
    BYTES_MAX = 1000,
};

static struct event_base *base;
static struct wp_fetcher *fetcher;
static size_t open_before;

/* Each run that was started: its ends on this side. */
static struct {
    int report;
    int end;
    int end_fd; /* As the fetcher has it. */
    bool over;
} runs[RUNS_MAX];
static size_t n_runs;
static enum wp_status refuses; /* WP_OK: runs start. */
static bool no_memory;
static struct event *timers[RUNS_MAX]; /* In the order of their setting. */
static size_t n_timers;

void __wrap_wp_random_bytes(void *out, size_t len);
void *__wrap_calloc(size_t n, size_t size);
void *__real_calloc(size_t n, size_t size);
int __wrap_event_add(struct event *event, const struct timeval *tv);
int __real_event_add(struct event *event, const struct timeval *tv);

/* Parts of the cache are named alike each time. */
void
__wrap_wp_random_bytes(void *out, size_t len)
{
    memset(out, 7, len);
}

void *
__wrap_calloc(size_t n, size_t size)
{
    return no_memory ? NULL : __real_calloc(n, size);
}

int
__wrap_event_add(struct event *event, const struct timeval *tv)
{
    if (tv != NULL) {
        journal("timer %zu in %ld.%06ld s", n_timers, (long)tv->tv_sec,
                (long)tv->tv_usec);
        journal_line();
        assert_true(n_timers < RUNS_MAX);
        timers[n_timers++] = event;
    }
    return __real_event_add(event, tv);
}

/* -------------------------------------------------------------- the runner */

static size_t
run_of(int end_fd)
{
    for (size_t i = n_runs; i-- > 0;) {
        if (runs[i].end_fd == end_fd) {
            return i;
        }
    }
    fail_msg("no run has descriptor %d", end_fd);
    return 0;
}

static enum wp_status
on_start(void *self, const struct wp_fetch_run *run,
         struct wp_fetch_started *out, struct wp_err *err)
{
    int report[2];
    int end[2];

    assert_ptr_equal(self, &runs);
    journal("run %zu: part %s url %s ref %s bytes %llu age %lld credential ",
            n_runs, run->part != NULL ? run->part : "-",
            run->url != NULL ? run->url : "-",
            run->ref != NULL ? run->ref : "-",
            (unsigned long long)run->bytes_max, (long long)run->age_s);
    journal_bytes(run->credential.ptr, run->credential.len);
    journal_line();
    if (refuses != WP_OK) {
        return wp_err_set(err, refuses, "it cannot run");
    }
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, report), 0);
    assert_int_equal(pipe2(end, O_CLOEXEC), 0);
    assert_true(n_runs < RUNS_MAX);
    runs[n_runs].report = report[1];
    runs[n_runs].end = end[1];
    runs[n_runs].end_fd = end[0];
    runs[n_runs].over = false;
    n_runs++;
    *out = (struct wp_fetch_started){report[0], end[0]};
    return WP_OK;
}

static bool
on_has_ended(void *self, int end_fd)
{
    size_t i = run_of(end_fd);

    assert_ptr_equal(self, &runs);
    journal("run %zu has ended: %d", i, runs[i].over);
    journal_line();
    if (!runs[i].over) {
        char byte;

        assert_int_equal(read(end_fd, &byte, 1), 1);
    }
    return runs[i].over;
}

static void
on_kill(void *self, int end_fd)
{
    assert_ptr_equal(self, &runs);
    journal("kill %zu", run_of(end_fd));
    journal_line();
}

static void
on_wait(void *self, int end_fd)
{
    assert_ptr_equal(self, &runs);
    journal("wait for %zu", run_of(end_fd));
    journal_line();
}

static void
on_drop(void *self, const char *part)
{
    assert_ptr_equal(self, &runs);
    journal("drop %s", part);
    journal_line();
}

/* Closes this side, if that is not done. */
static void
let_go(size_t i)
{
    if (runs[i].report >= 0) {
        assert_int_equal(close(runs[i].report), 0);
        assert_int_equal(close(runs[i].end), 0);
        runs[i].report = -1;
    }
}

static void
turn(void)
{
    struct heard heard;
    const char *log;

    heard_begin(&heard);
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    log = heard_end(&heard);
    if (*log != '\0') {
        journal("log: %s", log);
        journal_line();
    }
}

/* A run has reported that, with that descriptor (-1: none), and has ended. */
static void
ends(size_t i, const char *report, int passed)
{
    if (report != NULL) {
        assert_true(wp_passing_send(runs[i].report, report, strlen(report),
                                    passed, MSG_NOSIGNAL) > 0);
    }
    if (passed >= 0) {
        assert_int_equal(close(passed), 0);
    }
    runs[i].over = true;
    let_go(i);
    turn();
}

static int
file_of(off_t size)
{
    int fd = memfd_create("tree", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    return fd;
}

/* --------------------------------------------------------------- fetching */

static void
on_done(void *ctx, enum wp_status status, int fd, const char *reason)
{
    journal("%s is done: %d %s", (const char *)ctx, (int)status, reason);
    if (fd >= 0) {
        journal(", with %lld bytes", (long long)lseek(fd, 0, SEEK_END));
        assert_int_equal(close(fd), 0);
    }
    journal_line();
}

static struct wp_fetch *
fetch_by(const char *name, const char *url, const char *tenant,
         const char *user, const char *password)
{
    const struct wp_fetch_order order = {.url = url,
                                         .ref = "main",
                                         .tenant = tenant,
                                         .user = user,
                                         .password = password};

    return wp_fetcher_begin(fetcher, &order, on_done, (void *)(uintptr_t)name);
}

static struct wp_fetch *
fetch(const char *name, const char *url)
{
    return fetch_by(name, url, "", "", "");
}

static void
go(void)
{
    struct heard heard;
    const char *log;

    heard_begin(&heard);
    wp_fetcher_go(fetcher);
    log = heard_end(&heard);
    if (*log != '\0') {
        journal("log: %s", log);
        journal_line();
    }
}

/* The first sweep is over: only fetches run. */
static void
settled(void)
{
    go();
    ends(0, "S", -1);
    journal_drop();
}

static void
golden(const char *name)
{
    char path[512];

    (void)snprintf(path, sizeof path, WP_TEST_GOLDEN "/fetcher_%s.txt", name);
    journal_compare(path);
}

static void
say(const char *what)
{
    journal("-- %s", what);
    journal_line();
}

static int
begin_with(bool all)
{
    const struct wp_fetcher_config config = {
        .runner = {.start = on_start,
                   .has_ended = on_has_ended,
                   .kill = on_kill,
                   .wait = all ? on_wait : NULL,
                   .drop = all ? on_drop : NULL,
                   .self = &runs},
        .repository_bytes_max = BYTES_MAX,
        .cache_bytes_max = 5000,
        .cache_age_s = 77,
        .timeout_ms = 1500,
    };

    n_runs = 0;
    n_timers = 0;
    refuses = WP_OK;
    base = event_base_new();
    assert_non_null(base);
    open_before = descriptors_count();
    fetcher = wp_fetcher_create(&config, base);
    assert_non_null(fetcher);
    journal_drop();
    return 0;
}

static int
begin(void **state)
{
    (void)state;
    return begin_with(true);
}

static int
begin_bare(void **state)
{
    (void)state;
    return begin_with(false);
}

static int
end(void **state)
{
    (void)state;
    wp_fetcher_destroy(fetcher);
    journal_drop();
    for (size_t i = 0; i < n_runs; i++) {
        let_go(i);
    }
    assert_int_equal(descriptors_count(), open_before);
    event_base_free(base);
    return 0;
}

/* ----------------------------------------------------------------- tests */

static void
a_run_is_told_what_to_fetch(void **state)
{
    (void)state;
    assert_non_null(fetch("plain", "https://host/a/b.git"));
    assert_non_null(fetch("clear", "http://host:80/a"));
    assert_non_null(
        fetch_by("secret", "https://host/a", "tenant", "user", "password"));
    assert_non_null(fetch_by("other tenant", "https://host/a", "tenan", "user",
                             "password"));
    assert_non_null(
        fetch_by("other user", "https://host/a", "tenant", "", "password"));
    assert_non_null(
        fetch_by("no password", "http://host/a", "tenant", "user", ""));
    assert_non_null(fetch_by("clear secret", "http://host/a", "tenant", "user",
                             "password"));
    say("go");
    go();
    say("again");
    go();
    say("no more");
    wp_fetcher_destroy(fetcher);
    fetcher = NULL;
    golden("runs");
}

static void
texts_may_be_as_long_as_they_are_bounded(void **state)
{
    static char url[WP_REMOTE_URL_MAX + 1];
    static char tenant[WP_TENANT_MAX + 1];
    static char user[WP_BINDING_USER_MAX + 1];
    static char password[WP_BINDING_PASSWORD_MAX + 1];

    (void)state;
    settled();
    memset(url, 'u', sizeof url - 1);
    memcpy(url, "https://", 8);
    memset(tenant, 't', sizeof tenant - 1);
    memset(user, 'n', sizeof user - 1);
    memset(password, 'p', sizeof password - 1);
    assert_non_null(fetch_by("long", url, tenant, user, password));
    go();
    golden("longest");
}

static void
what_was_reported_is_told(void **state)
{
    int pipe_ends[2];

    (void)state;
    settled();
    for (int i = 0; i < 9; i++) {
        static const char *const urls[] = {
            "https://h/0", "https://h/1", "https://h/2",
            "https://h/3", "https://h/4", "https://h/5",
            "https://h/6", "https://h/7", "https://h/8"};

        assert_non_null(fetch(urls[i], urls[i]));
    }
    go();
    say("kept");
    ends(1, "Kcommit", file_of(BYTES_MAX));
    say("made, so the cache is swept");
    ends(2, "Mcommit", file_of(1));
    say("too large");
    ends(3, "Kcommit", file_of(BYTES_MAX + 1));
    say("too large, and the cache is to be swept again");
    ends(4, "Mcommit", file_of(BYTES_MAX + 1));
    say("failed");
    ends(5, "Fno such repository", -1);
    say("failed, with what is no text");
    ends(6, "F\x1b[2J", -1);
    say("nothing");
    ends(7, NULL, -1);
    say("without its file");
    ends(8, "Kcommit", -1);
    say("with what is no file");
    assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
    assert_int_equal(close(pipe_ends[1]), 0);
    ends(9, "Kcommit", pipe_ends[0]);
    say("the sweep ends, and the next");
    ends(10, "S", -1);
    ends(11, "S", -1);
    golden("reports");
}

static void
another_letter_is_no_report(void **state)
{
    (void)state;
    settled();
    assert_non_null(fetch("S", "https://h/1"));
    assert_non_null(fetch("F", "https://h/2"));
    go();
    ends(1, "S", file_of(1));
    ends(2, "Fwith a file", file_of(1));
    golden("letters");
}

static void
an_event_without_an_end_is_waited_over(void **state)
{
    (void)state;
    settled();
    assert_non_null(fetch("one", "https://h/1"));
    go();
    assert_int_equal(write(runs[1].end, "x", 1), 1);
    turn();
    say("now");
    ends(1, "Fover", -1);
    golden("early");
}

static void
what_takes_too_long_is_killed(void **state)
{
    (void)state;
    settled();
    assert_non_null(fetch("one", "https://h/1"));
    assert_non_null(fetch("two", "https://h/2"));
    go();
    event_active(timers[n_timers - 2], EV_TIMEOUT, 0);
    event_active(timers[n_timers - 1], EV_TIMEOUT, 0);
    turn();
    say("ended");
    ends(1, NULL, -1);
    say("done all the same");
    ends(2, "Kcommit", file_of(1));
    golden("late");
}

static void
sixteen_run_at_once(void **state)
{
    static const char url[] = "https://h/";

    (void)state;
    settled();
    for (int i = 0; i < 18; i++) {
        assert_non_null(fetch("one", url));
    }
    go();
    say("one ends");
    ends(1, "Fx", -1);
    say("another");
    ends(2, "Fx", -1);
    say("none waits");
    ends(3, "Fx", -1);
    golden("sixteen");
}

static void
a_part_goes_with_the_last_that_failed(void **state)
{
    (void)state;
    settled();
    assert_non_null(fetch("one", "https://h/same"));
    assert_non_null(fetch("two", "https://h/same"));
    assert_non_null(fetch("three", "https://h/other"));
    go();
    ends(1, "Fx", -1);
    ends(2, "Fx", -1);
    golden("parts");
}

static void
who_cancels_hears_nothing(void **state)
{
    struct wp_fetch *running;
    struct wp_fetch *waiting;

    (void)state;
    settled();
    running = fetch("running", "https://h/1");
    go();
    waiting = fetch("waiting", "https://h/2");
    wp_fetch_cancel(waiting);
    wp_fetch_cancel(running);
    go();
    say("its end");
    ends(1, "Mcommit", file_of(1));
    golden("cancelled");
}

static void
the_cache_is_swept_each_hour(void **state)
{
    (void)state;
    go();
    say("an hour is over, and the sweep is not");
    event_active(timers[0], EV_TIMEOUT, 0);
    turn();
    say("it ends");
    ends(0, "S", -1);
    say("another hour");
    event_active(timers[0], EV_TIMEOUT, 0);
    turn();
    say("it takes too long");
    event_active(timers[3], EV_TIMEOUT, 0);
    turn();
    ends(1, NULL, -1);
    say("it says something else");
    ends(2, "Fx", file_of(1));
    say("it cannot run");
    refuses = WP_UNAVAILABLE;
    event_active(timers[0], EV_TIMEOUT, 0);
    turn();
    refuses = WP_OK;
    say("no memory");
    no_memory = true;
    event_active(timers[0], EV_TIMEOUT, 0);
    turn();
    no_memory = false;
    say("an hour later");
    event_active(timers[0], EV_TIMEOUT, 0);
    turn();
    golden("sweeps");
}

static void
what_cannot_run_is_done_at_once(void **state)
{
    const struct wp_fetcher_config config = {.timeout_ms = 1};

    (void)state;
    settled();
    assert_non_null(fetch("one", "https://h/1"));
    assert_non_null(fetch("two", "https://h/2"));
    refuses = WP_RESOURCE_EXHAUSTED;
    go();
    no_memory = true;
    assert_null(fetch("three", "https://h/3"));
    assert_null(wp_fetcher_create(&config, base));
    no_memory = false;
    wp_fetcher_destroy(NULL);
    golden("refused");
}

static void
it_ends_with_what_waits_and_runs(void **state)
{
    (void)state;
    settled();
    assert_non_null(fetch("running", "https://h/1"));
    go();
    assert_non_null(fetch("waiting", "https://h/2"));
    wp_fetcher_destroy(fetcher);
    fetcher = NULL;
    golden("end");
}

static void
a_runner_need_not_wait_nor_drop(void **state)
{
    (void)state;
    settled();
    assert_non_null(fetch("one", "https://h/1"));
    assert_non_null(fetch("two", "https://h/2"));
    go();
    ends(1, "Fx", -1);
    wp_fetcher_destroy(fetcher);
    fetcher = NULL;
    golden("bare");
}

int
main(void)
{
#define ONE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        ONE(a_run_is_told_what_to_fetch),
        ONE(texts_may_be_as_long_as_they_are_bounded),
        ONE(what_was_reported_is_told),
        ONE(another_letter_is_no_report),
        ONE(an_event_without_an_end_is_waited_over),
        ONE(what_takes_too_long_is_killed),
        ONE(sixteen_run_at_once),
        ONE(a_part_goes_with_the_last_that_failed),
        ONE(who_cancels_hears_nothing),
        ONE(the_cache_is_swept_each_hour),
        ONE(what_cannot_run_is_done_at_once),
        ONE(it_ends_with_what_waits_and_runs),
        cmocka_unit_test_setup_teardown(a_runner_need_not_wait_nor_drop,
                                        begin_bare, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
