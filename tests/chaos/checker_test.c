/* tests/chaos/checker_test.c - the checker finds each kind of breach in a
 * history that was doctored to have it, and nothing in histories that only look
 * odd. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "pool/base/clock.h"
#include "tests/chaos/checker.h"

#define MS WP_NS_PER_MS

enum {
    EVENTS_MAX = 160,
    NOT_FOUND = 5,
};

/* A history under construction. Times in milliseconds. */
struct script {
    struct wp_chaos_event events[EVENTS_MAX];
    size_t n;
};

static struct wp_chaos_event *
add(struct script *script, uint64_t claim, enum wp_chaos_what what)
{
    struct wp_chaos_event *event = &script->events[script->n++];

    assert_true(script->n <= EVENTS_MAX);
    *event = (struct wp_chaos_event){.claim = claim, .what = (uint8_t)what};
    return event;
}

/* A call from start_ms to end_ms, with its answer. */
static struct wp_chaos_event *
call(struct script *script, uint64_t claim, enum wp_chaos_what what,
     int64_t start_ms, int64_t end_ms)
{
    struct wp_chaos_event *event = add(script, claim, what);

    event->edge = WP_CHAOS_START;
    event->at_ns = start_ms * MS;
    event = add(script, claim, what);
    event->edge = WP_CHAOS_END;
    event->started_ns = start_ms * MS;
    event->at_ns = end_ms * MS;
    return event;
}

/* One that told of a lease on sandbox number n until deadline_ms. */
static struct wp_chaos_event *
say(struct script *script, uint64_t claim, enum wp_chaos_what what,
    int64_t start_ms, int64_t end_ms, unsigned n, int64_t deadline_ms)
{
    struct wp_chaos_event *event = call(script, claim, what, start_ms, end_ms);

    event->uid[0] = (uint8_t)n;
    event->fence = 1;
    event->deadline_ns = deadline_ms * MS;
    return event;
}

static void
released(struct script *script, uint64_t claim, int64_t start_ms,
         int64_t end_ms)
{
    call(script, claim, WP_CHAOS_RELEASE, start_ms, end_ms)->flags =
        WP_CHAOS_WAS_HELD;
}

/* Expects n breaches of that kind, and none of others than also (a set of
 * 1 << kind). */
static void
expect(const struct script *script, enum wp_chaos_breach kind, uint64_t n,
       unsigned also)
{
    struct wp_checker *checker = wp_checker_create(NULL);
    struct wp_chaos_report report;

    assert_non_null(checker);
    wp_checker_add(checker, script->events, script->n);
    wp_checker_report(checker, &report);
    wp_checker_destroy(checker);
    for (unsigned i = 0; i < WP_BREACH_COUNT; i++) {
        if (i == kind) {
            assert_int_equal(report.breaches[i], n);
        } else if ((also & 1U << i) == 0) {
            assert_int_equal(report.breaches[i], 0);
        }
    }
}

static void
expect_clean(const struct script *script)
{
    expect(script, WP_BREACH_I1, 0, 0);
}

/* Goal: what a good run looks like, with everything that may rightly happen. */
static void
test_clean(void **state)
{
    struct script script = {.n = 0};

    (void)state;
    (void)say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 1, 5000);
    (void)say(&script, 1, WP_CHAOS_CLAIM, 2, 3, 1, 5000); /* Repeated. */
    (void)say(&script, 1, WP_CHAOS_RENEW, 10, 11, 1, 5010);
    (void)say(&script, 1, WP_CHAOS_GET, 12, 13, 1, 0);
    released(&script, 1, 20, 21);
    /* The second release finds nothing, nor does a late renewal. */
    (void)call(&script, 1, WP_CHAOS_RELEASE, 22, 23);
    call(&script, 1, WP_CHAOS_RENEW, 22, 23)->status = NOT_FOUND;
    (void)add(&script, 1, WP_CHAOS_DONE);
    /* Outstayed, then denied. */
    (void)say(&script, 2, WP_CHAOS_CLAIM, 0, 1, 2, 1000);
    call(&script, 2, WP_CHAOS_RENEW, 1001, 1002)->status = NOT_FOUND;
    /* The same id after its lease has ended: another sandbox. */
    (void)say(&script, 2, WP_CHAOS_CLAIM, 1003, 1004, 3, 2000);
    /* Unknown, refused, out of reach. */
    call(&script, 3, WP_CHAOS_CLAIM, 0, 9)->status = WP_CHAOS_NO_ANSWER;
    call(&script, 3, WP_CHAOS_CLAIM, 9, 10)->status = 14;
    call(&script, 3, WP_CHAOS_CLAIM, 10, 11)->status = 8;
    expect_clean(&script);
}

/* Goal: a denial counts only when the lease was surely live all along. */
static void
test_doubt(void **state)
{
    struct script script = {.n = 0};
    struct wp_chaos_event *start;

    (void)state;
    /* The release has no known end; it may have been done. */
    (void)say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 1, 9000);
    start = add(&script, 1, WP_CHAOS_RELEASE);
    start->edge = WP_CHAOS_START;
    start->at_ns = 5 * MS;
    call(&script, 1, WP_CHAOS_RENEW, 6, 7)->status = NOT_FOUND;
    /* The renewal began before the claim was answered. */
    call(&script, 2, WP_CHAOS_RENEW, 0, 5)->status = NOT_FOUND;
    (void)say(&script, 2, WP_CHAOS_CLAIM, 1, 4, 2, 9000);
    /* It ended too close to the deadline. */
    (void)say(&script, 3, WP_CHAOS_CLAIM, 0, 1, 3, 1000);
    call(&script, 3, WP_CHAOS_RENEW, 900, 990)->status = NOT_FOUND;
    expect_clean(&script);
}

static void
test_i1(void **state)
{
    struct script script = {.n = 0};

    (void)state;
    (void)say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 7, 5000);
    say(&script, 2, WP_CHAOS_CLAIM, 2, 3, 7, 5000)->fence = 2;
    expect(&script, WP_BREACH_I1, 1, 1U << WP_BREACH_I3);
}

/* Goal: also when the other lease was renewed past its first deadline. */
static void
test_i1_renewed(void **state)
{
    struct script script = {.n = 0};

    (void)state;
    (void)say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 7, 1000);
    (void)say(&script, 1, WP_CHAOS_RENEW, 500, 501, 7, 3000);
    say(&script, 2, WP_CHAOS_CLAIM, 2000, 2001, 7, 5000)->fence = 2;
    expect(&script, WP_BREACH_I1, 1, 1U << WP_BREACH_I3);
}

static void
test_i1_marked(void **state)
{
    struct script script = {.n = 0};

    (void)state;
    say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 7, 5000)->flags = WP_CHAOS_MARKED;
    expect(&script, WP_BREACH_I1, 1, 0);
}

static void
test_i2(void **state)
{
    struct script script = {.n = 0};

    (void)state;
    (void)say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 1, 5000);
    (void)say(&script, 1, WP_CHAOS_CLAIM, 2, 3, 2, 5000);
    released(&script, 1, 20, 21);
    expect(&script, WP_BREACH_I2, 1, 0);
}

static void
test_i3(void **state)
{
    struct script script = {.n = 0};

    (void)state;
    (void)say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 7, 5000);
    released(&script, 1, 2, 3);
    say(&script, 2, WP_CHAOS_CLAIM, 4, 5, 7, 5000)->fence = 2;
    expect(&script, WP_BREACH_I3, 1, 0);
}

static void
test_i3_absent(void **state)
{
    struct script script = {.n = 0};

    (void)state;
    say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 7, 5000)->flags = WP_CHAOS_ABSENT;
    expect(&script, WP_BREACH_ABSENT, 1, 0);
}

static void
test_i5(void **state)
{
    struct script script = {.n = 0};

    (void)state;
    say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 7, 5000)->fence = 2;
    released(&script, 1, 2, 3);
    say(&script, 2, WP_CHAOS_CLAIM, 4, 5, 7, 5000)->fence = 2;
    expect(&script, WP_BREACH_I5, 1, 1U << WP_BREACH_I3);

    script.n = 0;
    (void)say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 7, 5000);
    say(&script, 1, WP_CHAOS_RENEW, 2, 3, 7, 5000)->fence = 2;
    expect(&script, WP_BREACH_I5, 1, 0);
}

/* Goal: what a Get does not know is counted, and is no breach. */
static void
test_stale(void **state)
{
    struct wp_checker *checker = wp_checker_create(NULL);
    struct wp_chaos_report report;
    struct script script = {.n = 0};

    (void)state;
    assert_non_null(checker);
    (void)say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 7, 5000);
    call(&script, 1, WP_CHAOS_GET, 2, 3)->status = NOT_FOUND;
    wp_checker_add(checker, script.events, script.n);
    wp_checker_report(checker, &report);
    assert_int_equal(report.stale, 1);
    assert_int_equal(wp_chaos_breaches(&report), 0);
    wp_checker_destroy(checker);
}

/* Goal: a Get that tells of a lease which was taken back is old, no breach; but
 * nobody else may get that sandbox. */
static void
test_told_of_a_past_lease(void **state)
{
    struct script script = {.n = 0};

    (void)state;
    call(&script, 1, WP_CHAOS_CLAIM, 0, 1)->status = WP_CHAOS_NO_ANSWER;
    (void)say(&script, 1, WP_CHAOS_CLAIM, 2, 3, 7, 5000);
    (void)say(&script, 1, WP_CHAOS_GET, 4, 5, 8, 5000);
    released(&script, 1, 6, 7);
    expect_clean(&script);
    say(&script, 2, WP_CHAOS_CLAIM, 8, 9, 8, 5000)->fence = 2;
    expect(&script, WP_BREACH_I3, 1, 0);
}

/* Goal: each way in which an acknowledged lease can turn out forgotten. */
static void
test_lost(void **state)
{
    static const uint8_t denials[] = {NOT_FOUND, 9, 10};
    struct script script;

    (void)state;
    for (size_t i = 0; i < sizeof denials; i++) {
        for (int what = WP_CHAOS_RENEW; what <= WP_CHAOS_RELEASE; what++) {
            script.n = 0;
            (void)say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 7, 5000);
            call(&script, 1, (enum wp_chaos_what)what, 2, 3)->status =
                denials[i];
            expect(&script, WP_BREACH_LOST, 1, 0);
        }
    }
    script.n = 0;
    (void)say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 7, 5000);
    (void)call(&script, 1, WP_CHAOS_RELEASE, 2, 3); /* OK, but not held. */
    expect(&script, WP_BREACH_LOST, 1, 0);
    script.n = 0;
    (void)say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 7, 1000);
    (void)say(&script, 1, WP_CHAOS_RENEW, 500, 501, 7, 3000);
    call(&script, 1, WP_CHAOS_RENEW, 2000, 2001)->status = NOT_FOUND;
    expect(&script, WP_BREACH_LOST, 1, 0);
}

static void
test_status(void **state)
{
    static const uint8_t odd[] = {2, 3, 6, 7, 12, 13, 15, 16};
    struct script script;

    (void)state;
    for (size_t i = 0; i < sizeof odd; i++) {
        script.n = 0;
        call(&script, 1, WP_CHAOS_CLAIM, 0, 1)->status = odd[i];
        expect(&script, WP_BREACH_STATUS, 1, 0);
    }
    script.n = 0;
    call(&script, 1, WP_CHAOS_CLAIM, 0, 1)->status = NOT_FOUND;
    expect(&script, WP_BREACH_STATUS, 1, 0);
}

/* --- What nobody was shown --- */

enum {
    TTL_MS = 9000,
};

/* A claim at replica that knows its lease's length and ends with that status. */
static struct wp_chaos_event *
asked(struct script *script, uint64_t claim, uint8_t replica, int64_t start_ms,
      int64_t end_ms, uint8_t status)
{
    struct wp_chaos_event *event =
        call(script, claim, WP_CHAOS_CLAIM, start_ms, end_ms);

    event[-1].replica = event->replica = replica;
    event[-1].deadline_ns = TTL_MS * MS;
    event->status = status;
    return event;
}

/* Other claims of the history, whose calls that replica answers promptly,
 * several in each second. */
static void
goes_on(struct script *script, uint8_t replica, int64_t from_ms, int64_t to_ms)
{
    for (int64_t ms = from_ms; ms <= to_ms; ms += 400) {
        struct wp_chaos_event *event =
            call(script, 99, WP_CHAOS_GET, ms, ms + 10);

        event[-1].replica = event->replica = replica;
        event->status = NOT_FOUND;
        event = call(script, 99, WP_CHAOS_RENEW, ms + 20, ms + 30);
        event[-1].replica = event->replica = replica;
        event->uid[0] = 99;
        event->fence = 1;
        event->deadline_ns = (ms + 5000) * MS;
    }
}

/* Sandbox n is told at replica, by a Get or a repeated claim, until then. */
static void
found(struct script *script, uint64_t claim, uint8_t replica,
      enum wp_chaos_what what, int64_t start_ms, unsigned n,
      int64_t deadline_ms)
{
    struct wp_chaos_event *event =
        say(script, claim, what, start_ms, start_ms + 1, n, deadline_ms);

    event[-1].replica = event->replica = replica;
    if (what == WP_CHAOS_CLAIM) {
        event[-1].deadline_ns = TTL_MS * MS;
        event->flags = WP_CHAOS_REPLAYED;
    }
}

/* Goal: a lease that a caller who has left never saw is found seven seconds
 * later. */
static void
test_kept(void **state)
{
    struct script script = {.n = 0};

    (void)state;
    (void)asked(&script, 1, 2, 0, 100, WP_CHAOS_NO_ANSWER);
    goes_on(&script, 2, 100, 7000);
    found(&script, 1, 2, WP_CHAOS_CLAIM, 7100, 7, TTL_MS + 50);
    expect(&script, WP_BREACH_KEPT, 1, 0);
    /* Granted when its caller had long left. */
    script.n = 0;
    (void)asked(&script, 1, 2, 0, 100, WP_CHAOS_NO_ANSWER);
    goes_on(&script, 2, 100, 8600);
    found(&script, 1, 2, WP_CHAOS_CLAIM, 8700, 7, TTL_MS + 2000);
    expect(&script, WP_BREACH_KEPT, 1, 0);
    /* Told that it was refused. */
    script.n = 0;
    (void)asked(&script, 1, 2, 0, 100, 14);
    goes_on(&script, 2, 100, 7000);
    found(&script, 1, 2, WP_CHAOS_CLAIM, 7100, 7, TTL_MS + 50);
    expect(&script, WP_BREACH_KEPT, 1, 0);
}

/* Goal: cancelled at one replica, repeated and released at another; the first
 * grants it another sandbox, which stays. */
static void
test_kept_after_release(void **state)
{
    struct script script = {.n = 0};
    struct wp_chaos_event *event;

    (void)state;
    (void)asked(&script, 1, 2, 0, 50, WP_CHAOS_NO_ANSWER);
    event = asked(&script, 1, 3, 51, 52, 0);
    event->uid[0] = 6;
    event->fence = 1;
    event->deadline_ns = (TTL_MS + 52) * MS;
    released(&script, 1, 60, 61);
    script.events[script.n - 1].replica = 3;
    script.events[script.n - 2].replica = 3;
    for (int64_t ms = 60; ms < 7000; ms += 500) {
        goes_on(&script, 2, ms, ms);
        goes_on(&script, 3, ms + 100, ms + 100);
    }
    found(&script, 1, 2, WP_CHAOS_CLAIM, 7100, 7, TTL_MS + 100);
    expect(&script, WP_BREACH_KEPT, 1, 0);
}

/* Goal: what a client cannot hold against anybody. */
static void
test_not_kept(void **state)
{
    struct script script = {.n = 0};
    struct wp_chaos_event *event;

    (void)state;
    /* Not for long. */
    (void)asked(&script, 1, 2, 0, 100, WP_CHAOS_NO_ANSWER);
    goes_on(&script, 2, 100, 5000);
    found(&script, 1, 2, WP_CHAOS_CLAIM, 5500, 7, TTL_MS + 50);
    expect_clean(&script);
    /* It was granted not long ago: the call to it had been on its way. */
    script.n = 0;
    (void)asked(&script, 1, 2, 0, 100, WP_CHAOS_NO_ANSWER);
    goes_on(&script, 2, 100, 7000);
    found(&script, 1, 2, WP_CHAOS_CLAIM, 7100, 7, TTL_MS + 3000);
    expect_clean(&script);
    /* For the call itself, not for the one before. */
    script.n = 0;
    (void)asked(&script, 1, 2, 0, 100, WP_CHAOS_NO_ANSWER);
    goes_on(&script, 2, 100, 7000);
    found(&script, 1, 2, WP_CHAOS_CLAIM, 7100, 7, TTL_MS + 7100);
    expect_clean(&script);
    /* Another caller of that claim waits on, or was killed. */
    script.n = 0;
    (void)asked(&script, 1, 2, 0, 100, WP_CHAOS_NO_ANSWER);
    goes_on(&script, 2, 100, 7000);
    found(&script, 1, 2, WP_CHAOS_CLAIM, 7100, 7, TTL_MS + 50);
    event = add(&script, 1, WP_CHAOS_CLAIM);
    event->edge = WP_CHAOS_START;
    event->replica = 2;
    event->deadline_ns = TTL_MS * MS;
    event->at_ns = 300 * MS;
    expect_clean(&script);
    /* What is told was shown before, and released: the replica has not heard. */
    script.n = 0;
    event = asked(&script, 1, 2, 0, 100, 0);
    event->uid[0] = 7;
    event->fence = 1;
    event->deadline_ns = (TTL_MS + 50) * MS;
    released(&script, 1, 110, 120);
    goes_on(&script, 0, 120, 7000);
    goes_on(&script, 2, 120, 7000);
    found(&script, 1, 2, WP_CHAOS_CLAIM, 7100, 7, TTL_MS + 50);
    expect_clean(&script);
    /* A Get may be late. */
    script.n = 0;
    (void)asked(&script, 1, 2, 0, 100, WP_CHAOS_NO_ANSWER);
    goes_on(&script, 2, 100, 7000);
    found(&script, 1, 2, WP_CHAOS_GET, 7100, 7, TTL_MS + 50);
    expect_clean(&script);
    /* Nobody knows how long it was to be. */
    script.n = 0;
    asked(&script, 1, 2, 0, 100, WP_CHAOS_NO_ANSWER)[-1].deadline_ns = 0;
    goes_on(&script, 2, 100, 7000);
    found(&script, 1, 2, WP_CHAOS_CLAIM, 7100, 7, TTL_MS + 50);
    script.events[script.n - 2].deadline_ns = 0;
    expect_clean(&script);
}

/* Goal: a daemon that stood still, was slow, was not heard for a while, or was
 * only waited at by claims, is not blamed for what it could not see to. */
static void
test_not_kept_while_held_up(void **state)
{
    struct script script = {.n = 0};

    (void)state;
    /* Only another replica answers. */
    (void)asked(&script, 1, 2, 0, 100, WP_CHAOS_NO_ANSWER);
    goes_on(&script, 3, 100, 7000);
    found(&script, 1, 3, WP_CHAOS_CLAIM, 7100, 7, TTL_MS + 50);
    expect_clean(&script);
    /* Silent in the middle, at the start, at the end. */
    for (int64_t from_ms = 100; from_ms < 7000; from_ms += 2300) {
        script.n = 0;
        (void)asked(&script, 1, 2, 0, 100, WP_CHAOS_NO_ANSWER);
        goes_on(&script, 2, 100, from_ms);
        goes_on(&script, 2, from_ms + 1500, 7000);
        found(&script, 1, 2, WP_CHAOS_CLAIM, 7100, 7, TTL_MS + 50);
        expect_clean(&script);
    }
    script.n = 0;
    (void)asked(&script, 1, 2, 0, 100, WP_CHAOS_NO_ANSWER);
    goes_on(&script, 2, 100, 5600);
    found(&script, 1, 2, WP_CHAOS_CLAIM, 7100, 7, TTL_MS + 50);
    expect_clean(&script);
    /* Every answer is slow, or a refusal. */
    for (int slow = 0; slow < 2; slow++) {
        script.n = 0;
        (void)asked(&script, 1, 2, 0, 100, WP_CHAOS_NO_ANSWER);
        goes_on(&script, 2, 100, 7000);
        for (size_t i = 2; i < script.n; i++) {
            if (slow != 0) {
                script.events[i].started_ns -= 300 * MS;
            } else {
                script.events[i].status = 14;
            }
        }
        found(&script, 1, 2, WP_CHAOS_CLAIM, 7100, 7, TTL_MS + 50);
        expect_clean(&script);
    }
}

/* Goal: of two releases of a lease one was the first. */
static void
test_twice(void **state)
{
    struct script script = {.n = 0};

    (void)state;
    (void)say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 7, 5000);
    released(&script, 1, 2, 3);
    released(&script, 1, 4, 5);
    expect(&script, WP_BREACH_TWICE, 1, 0);
    /* The second has another lease, of the same id. */
    script.n = 0;
    (void)say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 7, 1000);
    (void)say(&script, 1, WP_CHAOS_CLAIM, 1100, 1101, 8, 6000);
    released(&script, 1, 1200, 1201);
    released(&script, 1, 1202, 1203);
    expect_clean(&script);
    /* The first had no answer, the second was the first: or the other way. */
    script.n = 0;
    (void)say(&script, 1, WP_CHAOS_CLAIM, 0, 1, 7, 5000);
    call(&script, 1, WP_CHAOS_RELEASE, 2, 3)->status = WP_CHAOS_NO_ANSWER;
    released(&script, 1, 4, 5);
    (void)call(&script, 1, WP_CHAOS_RELEASE, 6, 7);
    expect_clean(&script);
}

static void
ended(struct script *script, int64_t at_ms, unsigned said)
{
    struct wp_chaos_event *event = add(script, 0, WP_CHAOS_ENDED);

    event->at_ns = at_ms * MS;
    event->flags = (uint8_t)said;
}

/* Goal: daemons may leave sandboxes, but the last word on them is true. */
static void
test_behind(void **state)
{
    struct script script = {.n = 0};

    (void)state;
    /* Stopped at once, both sure that the other goes on, and silent. */
    ended(&script, 10, 0);
    ended(&script, 11, 0);
    (void)add(&script, 0, WP_CHAOS_LEFT);
    (void)add(&script, 0, WP_CHAOS_LEFT);
    expect(&script, WP_BREACH_BEHIND, 1, 0);
    /* The last one says what is not so, in whichever order it is told. */
    script.n = 0;
    ended(&script, 11, WP_CHAOS_SAID_NOTHING);
    ended(&script, 10, WP_CHAOS_SAID_WHAT);
    (void)add(&script, 0, WP_CHAOS_LEFT);
    expect(&script, WP_BREACH_BEHIND, 1, 0);
    /* It says what it leaves; or leaves nothing, in so many words or none. */
    script.n = 0;
    ended(&script, 10, WP_CHAOS_SAID_NOTHING);
    ended(&script, 11, WP_CHAOS_SAID_WHAT);
    (void)add(&script, 0, WP_CHAOS_LEFT);
    expect_clean(&script);
    script.n = 0;
    ended(&script, 10, WP_CHAOS_SAID_WHAT);
    ended(&script, 11, WP_CHAOS_SAID_NOTHING);
    expect_clean(&script);
    script.n = 0;
    ended(&script, 10, 0);
    expect_clean(&script);
}

/* Goal: breaches are found across histories, and among very many sandboxes. */
static void
test_two_histories(void **state)
{
    struct wp_checker *checker = wp_checker_create(NULL);
    struct wp_chaos_report report;
    struct script script;

    (void)state;
    assert_non_null(checker);
    for (uint32_t i = 0; i < 70000; i++) {
        struct wp_chaos_event *event;
        uint32_t sandbox = i % 69999; /* The last is the first again. */

        script.n = 0;
        event =
            say(&script, i + 1, WP_CHAOS_CLAIM, i, i + 1, 0, (int64_t)i + 5000);
        memcpy(event->uid, &sandbox, sizeof sandbox);
        event->uid[15] = 1;
        event->fence = i + 1;
        (void)add(&script, i + 1, WP_CHAOS_DONE);
        wp_checker_add(checker, script.events, script.n);
    }
    wp_checker_report(checker, &report);
    assert_int_equal(report.claims, 70000);
    assert_int_equal(report.breaches[WP_BREACH_I3], 1);
    assert_int_equal(wp_chaos_breaches(&report), 1);
    wp_checker_destroy(checker);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_doubt),
        cmocka_unit_test(test_i1),
        cmocka_unit_test(test_i1_renewed),
        cmocka_unit_test(test_i1_marked),
        cmocka_unit_test(test_i2),
        cmocka_unit_test(test_i3),
        cmocka_unit_test(test_i3_absent),
        cmocka_unit_test(test_i5),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_stale),
        cmocka_unit_test(test_told_of_a_past_lease),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_kept_after_release),
        cmocka_unit_test(test_not_kept),
        cmocka_unit_test(test_not_kept_while_held_up),
        cmocka_unit_test(test_twice),
        cmocka_unit_test(test_behind),
        cmocka_unit_test(test_two_histories),
    };

    return cmocka_run_group_tests_name("chaos checker", tests, NULL, NULL);
}
