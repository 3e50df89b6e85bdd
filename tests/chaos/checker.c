#include "tests/chaos/checker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"
#include "pool/base/str.h"
#include "tests/chaos/story.h"

/* A deadline goes over the wire in whole milliseconds of the wall clock, and
 * the wall clock may be adjusted by a little. */
#define MARGIN_NS (50 * WP_NS_PER_MS)

enum {
    OPEN_BITS = 20,  /* Claims from the oldest that is not done on. */
    CALLS_MAX = 256, /* Of one claim. */
    LEASES_MAX = 32, /* Of one claim. */
    SAMPLES_MAX = 5, /* Of one kind of breach. */
    OK = 0,          /* Codes of gRPC. */
    NOT_FOUND = 5,
    FAILED_PRECONDITION = 9,
    ABORTED = 10,
};

/* A lease as its client knows it. */
struct lease {
    uint8_t uid[WP_UID_LEN];
    uint64_t claim; /* 0: a free cell. */
    uint64_t fence;
    int64_t from_ns;
    int64_t to_ns; /* Surely live until then. */
    bool granted;  /* Not only a Get told of it: that may be a past one. */
};

struct wp_checker {
    FILE *samples;
    struct wp_chaos_report report;
    struct wp_chaos_story *open; /* 1 << OPEN_BITS, by the claim's number. */
    uint64_t n_open;
    struct lease *leases; /* Of all clients, probed from the uid. */
    uint64_t mask;
    uint64_t count;
    struct wp_chaos_history history;  /* That is being read. */
    struct wp_chaos_event last_ended; /* The daemon that ended last. */
    bool said_what;                   /* Some daemon has. */
};

const char *
wp_chaos_breach_name(enum wp_chaos_breach breach)
{
    static const char *const names[WP_BREACH_COUNT] = {
        "I1 two live leases on one sandbox",
        "I2 two live leases of one claim",
        "I3 a used sandbox granted again",
        "I3 a live lease without its sandbox",
        "I5 a fence that did not grow",
        "an acknowledged lease was lost",
        "an answer nobody should get",
        "a lease that nobody was shown, kept",
        "one lease released twice",
        "sandboxes left behind without a word",
    };

    return names[breach];
}

static void
print_call(FILE *out, const struct wp_chaos_event *call)
{
    static const char *const names[] = {"?", "Claim", "Renew", "Release",
                                        "Get"};
    char uid[2 * WP_UID_LEN + 1];

    wp_hex_encode(call->uid, WP_UID_LEN, uid);
    (void)fprintf(out,
                  "%s at replica %u, %" PRId64 " to %" PRId64
                  " ns, status %u, sandbox %s, fence %" PRIu64
                  ", deadline %" PRId64 ", flags %u%s\n",
                  names[call->what <= WP_CHAOS_GET ? call->what : 0],
                  call->replica, call->started_ns, call->at_ns, call->status,
                  uid, call->fence, call->deadline_ns, call->flags,
                  call->edge == WP_CHAOS_START ? ", never ended" : "");
}

/* Of a claim that is being read; a client numbers its claims one after the
 * other. */
static struct wp_chaos_story *
story_of(const struct wp_checker *checker, uint64_t claim)
{
    return &checker->open[claim & ((UINT64_C(1) << OPEN_BITS) - 1)];
}

/* A sample of each kind, with all that its claim went through. */
static void
tell(struct wp_checker *checker, enum wp_chaos_breach breach, uint64_t claim,
     const struct wp_chaos_event *event)
{
    const struct wp_chaos_story *story = story_of(checker, claim);

    if (checker->report.breaches[breach]++ >= SAMPLES_MAX ||
        checker->samples == NULL) {
        return;
    }
    (void)fprintf(checker->samples, "%s: claim %" PRIx64 ": ",
                  wp_chaos_breach_name(breach), claim);
    print_call(checker->samples, event);
    for (uint32_t i = 0; story->claim == claim && i < story->n_calls; i++) {
        (void)fputs("    ", checker->samples);
        print_call(checker->samples, &story->calls[i]);
    }
}

/* --- Leases of all clients --- */

static struct lease *
find_lease(const struct wp_checker *checker, const uint8_t *uid)
{
    uint64_t hash;

    /* A uid is random. */
    memcpy(&hash, uid, sizeof hash);
    for (uint64_t i = hash & checker->mask;; i = (i + 1) & checker->mask) {
        struct lease *cell = &checker->leases[i];

        if (cell->claim == 0 || memcmp(cell->uid, uid, WP_UID_LEN) == 0) {
            return cell;
        }
    }
}

static void
grow_leases(struct wp_checker *checker)
{
    struct lease *old = checker->leases;
    uint64_t old_len = checker->mask + 1;

    checker->mask = 2 * old_len - 1;
    checker->leases = calloc(2 * old_len, sizeof *old);
    WP_ASSERT(checker->leases != NULL);
    for (uint64_t i = 0; i < old_len; i++) {
        if (old[i].claim != 0) {
            *find_lease(checker, old[i].uid) = old[i];
        }
    }
    free(old);
}

static bool
overlap(const struct lease *a, const struct lease *b)
{
    int64_t from_ns = a->from_ns > b->from_ns ? a->from_ns : b->from_ns;
    int64_t to_ns = a->to_ns < b->to_ns ? a->to_ns : b->to_ns;

    return from_ns < to_ns;
}

/* Compares a lease with all others seen of its sandbox. */
static void
add_lease(struct wp_checker *checker, const struct lease *lease)
{
    struct lease *other = find_lease(checker, lease->uid);
    struct wp_chaos_event where = {.what = WP_CHAOS_CLAIM,
                                   .started_ns = lease->from_ns,
                                   .at_ns = lease->to_ns,
                                   .fence = lease->fence};
    bool later;

    if (other->claim == 0) {
        *other = *lease;
        if (++checker->count > checker->mask / 2) {
            grow_leases(checker);
        }
        return;
    }
    memcpy(where.uid, lease->uid, WP_UID_LEN);
    tell(checker, WP_BREACH_I3, lease->claim, &where);
    if (overlap(lease, other)) {
        tell(checker, WP_BREACH_I1, lease->claim, &where);
    }
    later = lease->from_ns > other->from_ns;
    if (later ? lease->fence <= other->fence : lease->fence >= other->fence) {
        tell(checker, WP_BREACH_I5, lease->claim, &where);
    }
    if (later) {
        *other = *lease;
    }
}

/* --- One claim --- */

/* Of all leases of the claim that any answer has shown. */
struct known {
    struct lease leases[LEASES_MAX];
    uint32_t n;
    int64_t released_ns; /* When the first release started. */
};

static struct lease *
find_known(struct known *known, const struct wp_chaos_event *call)
{
    for (uint32_t i = 0; i < known->n; i++) {
        if (memcmp(known->leases[i].uid, call->uid, WP_UID_LEN) == 0) {
            return &known->leases[i];
        }
    }
    return NULL;
}

/* An answered Claim, Renew or Get tells a lease. */
static void
learn(struct wp_checker *checker, struct known *known,
      const struct wp_chaos_event *call, uint64_t claim)
{
    struct lease *lease = find_known(known, call);
    int64_t to_ns = call->deadline_ns - MARGIN_NS;

    if (lease == NULL) {
        WP_ASSERT(known->n < LEASES_MAX);
        lease = &known->leases[known->n++];
        *lease = (struct lease){.claim = claim,
                                .fence = call->fence,
                                .from_ns = call->at_ns,
                                .to_ns = to_ns};
        memcpy(lease->uid, call->uid, WP_UID_LEN);
    } else {
        checker->report.replays += call->what == WP_CHAOS_CLAIM;
        if (lease->fence != call->fence) {
            tell(checker, WP_BREACH_I5, claim, call);
        }
    }
    lease->granted |= call->what != WP_CHAOS_GET;
    /* Renewals are for as long as the claim was, so deadlines only grow. */
    if (call->what != WP_CHAOS_GET && to_ns > lease->to_ns) {
        lease->to_ns = to_ns;
    }
    if (call->at_ns < lease->from_ns) {
        lease->from_ns = call->at_ns;
    }
}

/* Was some lease of the claim, as the calls before this one had told it, surely
 * live during all of this call? */
static bool
was_live(const struct wp_chaos_story *story, const struct wp_chaos_event *call)
{
    bool live = false;

    for (uint32_t i = 0; i < story->n_calls; i++) {
        const struct wp_chaos_event *other = &story->calls[i];
        int64_t started_ns =
            other->edge == WP_CHAOS_END ? other->started_ns : other->at_ns;

        if (other == call) {
            continue;
        }
        if (other->what == WP_CHAOS_RELEASE && started_ns < call->at_ns) {
            return false;
        }
        if ((other->what == WP_CHAOS_CLAIM || other->what == WP_CHAOS_RENEW) &&
            wp_chaos_is_answered(other, OK) &&
            other->at_ns < call->started_ns &&
            other->deadline_ns - MARGIN_NS > call->at_ns) {
            live = true;
        }
    }
    return live;
}

static bool
is_denial(const struct wp_chaos_event *call)
{
    switch (call->what) {
    case WP_CHAOS_RELEASE:
        return wp_chaos_is_answered(call, NOT_FOUND) ||
               wp_chaos_is_answered(call, ABORTED) ||
               wp_chaos_is_answered(call, FAILED_PRECONDITION) ||
               (wp_chaos_is_answered(call, OK) &&
                (call->flags & WP_CHAOS_WAS_HELD) == 0);
    case WP_CHAOS_RENEW:
    case WP_CHAOS_GET:
        return wp_chaos_is_answered(call, NOT_FOUND) ||
               wp_chaos_is_answered(call, ABORTED) ||
               wp_chaos_is_answered(call, FAILED_PRECONDITION);
    default:
        return false;
    }
}

/* Statuses that some call of the run may rightly get. */
static bool
is_expected(const struct wp_chaos_event *call)
{
    switch (call->status) {
    case OK:
    case 1:  /* CANCELLED: the daemon leaves. */
    case 4:  /* DEADLINE_EXCEEDED */
    case 8:  /* RESOURCE_EXHAUSTED */
    case 14: /* UNAVAILABLE */
    case WP_CHAOS_NO_ANSWER:
        return true;
    case NOT_FOUND:
    case FAILED_PRECONDITION:
    case ABORTED: /* Of leases that are over; is_denial looks closer. */
        return call->what != WP_CHAOS_CLAIM;
    default:
        return false;
    }
}

static void
judge_call(struct wp_checker *checker, const struct wp_chaos_story *story,
           const struct wp_chaos_event *call)
{
    if (call->edge != WP_CHAOS_END) {
        return;
    }
    checker->report.calls++;
    if (call->status <= 16) {
        checker->report.by_status[call->status]++;
    } else {
        checker->report.unanswered++;
    }
    if (!is_expected(call)) {
        tell(checker, WP_BREACH_STATUS, story->claim, call);
    }
    if (is_denial(call) && was_live(story, call)) {
        if (call->what == WP_CHAOS_GET) {
            checker->report.stale++;
        } else {
            tell(checker, WP_BREACH_LOST, story->claim, call);
        }
    }
    if (wp_chaos_was_kept(&checker->history, story, call)) {
        tell(checker, WP_BREACH_KEPT, story->claim, call);
    }
    if ((call->flags & WP_CHAOS_ABSENT) != 0) {
        tell(checker, WP_BREACH_ABSENT, story->claim, call);
    }
    if ((call->flags & WP_CHAOS_MARKED) != 0) {
        tell(checker, WP_BREACH_I1, story->claim, call);
    }
}

static void
judge_leases(struct wp_checker *checker, struct known *known)
{
    struct wp_chaos_event where = {.what = WP_CHAOS_CLAIM};

    for (uint32_t i = 0; i < known->n; i++) {
        struct lease *lease = &known->leases[i];

        if (known->released_ns < lease->to_ns) {
            lease->to_ns = known->released_ns;
        } else if (known->released_ns != INT64_MAX) {
            checker->report.expired++;
        }
        for (uint32_t j = 0; j < i; j++) {
            if (!overlap(lease, &known->leases[j])) {
                continue;
            }
            if (!lease->granted || !known->leases[j].granted) {
                /* Taken back before anybody was shown it: the replica that was
                 * asked had not heard of that. */
                checker->report.stale++;
            } else {
                memcpy(where.uid, lease->uid, WP_UID_LEN);
                where.started_ns = lease->from_ns;
                where.at_ns = lease->to_ns;
                where.fence = lease->fence;
                tell(checker, WP_BREACH_I2, lease->claim, &where);
            }
        }
        add_lease(checker, lease);
    }
}

static void
judge(struct wp_checker *checker, const struct wp_chaos_story *story)
{
    struct known known = {.released_ns = INT64_MAX};
    const struct wp_chaos_event *last_first = NULL;
    uint32_t firsts = 0;

    for (uint32_t i = 0; i < story->n_calls; i++) {
        const struct wp_chaos_event *call = &story->calls[i];
        int64_t started_ns =
            call->edge == WP_CHAOS_END ? call->started_ns : call->at_ns;

        judge_call(checker, story, call);
        if (call->what == WP_CHAOS_RELEASE) {
            if (wp_chaos_is_answered(call, OK) &&
                (call->flags & WP_CHAOS_WAS_HELD) != 0) {
                firsts++;
                last_first = call;
            }
            if (started_ns < known.released_ns) {
                known.released_ns = started_ns;
            }
        } else if (wp_chaos_is_answered(call, OK)) {
            learn(checker, &known, call, story->claim);
        }
    }
    /* Whoever releases has been told of the lease. */
    if (firsts > known.n) {
        tell(checker, WP_BREACH_TWICE, story->claim, last_first);
    }
    judge_leases(checker, &known);
    checker->report.claims++;
    checker->report.claims_granted += known.n > 0;
    checker->report.leases += known.n;
}

/* --- Reading --- */

static struct wp_chaos_story *
find_story(struct wp_checker *checker, uint64_t claim)
{
    struct wp_chaos_story *story = story_of(checker, claim);

    if (!story->used) {
        story->used = true;
        checker->n_open++;
        story->claim = claim;
        story->n_calls = 0;
        story->ttl_ns = 0;
    }
    WP_ASSERT(story->claim == claim);
    return story;
}

/* An end takes the place of its start. */
static void
note(struct wp_chaos_story *story, const struct wp_chaos_event *event)
{
    if (event->edge == WP_CHAOS_START && event->what == WP_CHAOS_CLAIM) {
        story->ttl_ns = event->deadline_ns;
    }
    if (event->edge == WP_CHAOS_END) {
        for (uint32_t i = story->n_calls; i > 0; i--) {
            struct wp_chaos_event *start = &story->calls[i - 1];

            if (start->edge == WP_CHAOS_START && start->what == event->what &&
                start->replica == event->replica &&
                start->at_ns == event->started_ns) {
                *start = *event;
                return;
            }
        }
    }
    if (story->n_calls == story->cap) {
        story->cap = story->cap == 0 ? 16 : 2 * story->cap;
        WP_ASSERT(story->cap <= CALLS_MAX);
        story->calls = realloc(story->calls, story->cap * sizeof *story->calls);
        WP_ASSERT(story->calls != NULL);
    }
    story->calls[story->n_calls++] = *event;
}

/* Of the end of the run. */
static void
note_end(struct wp_checker *checker, const struct wp_chaos_event *event)
{
    if (event->what == WP_CHAOS_LEFT) {
        checker->report.left++;
        return;
    }
    checker->said_what |= (event->flags & WP_CHAOS_SAID_WHAT) != 0;
    if (event->at_ns >= checker->last_ended.at_ns) {
        checker->last_ended = *event;
    }
}

/* What the last one leaves, it says; or one of those before it has. */
static bool
left_without_a_word(const struct wp_checker *checker)
{
    return checker->report.left > 0 &&
           ((checker->last_ended.flags & WP_CHAOS_SAID_NOTHING) != 0 ||
            !checker->said_what);
}

void
wp_checker_add(struct wp_checker *checker, const struct wp_chaos_event *events,
               size_t n)
{
    checker->history = (struct wp_chaos_history){events, n};
    for (size_t i = 0; i < n; i++) {
        struct wp_chaos_story *story;

        checker->report.events++;
        if (events[i].what > WP_CHAOS_DONE) {
            note_end(checker, &events[i]);
            continue;
        }
        story = find_story(checker, events[i].claim);
        if (events[i].what == WP_CHAOS_DONE) {
            judge(checker, story);
            story->used = false;
            checker->n_open--;
        } else {
            note(story, &events[i]);
        }
    }
    for (size_t i = 0; checker->n_open > 0; i++) {
        if (checker->open[i].used) { /* Its client was killed. */
            judge(checker, &checker->open[i]);
            checker->open[i].used = false;
            checker->n_open--;
        }
    }
}

struct wp_checker *
wp_checker_create(FILE *samples)
{
    struct wp_checker *checker = calloc(1, sizeof *checker);

    if (checker == NULL) {
        return NULL;
    }
    checker->samples = samples;
    checker->mask = (1 << 16) - 1;
    checker->open = calloc((size_t)1 << OPEN_BITS, sizeof *checker->open);
    checker->leases = calloc(checker->mask + 1, sizeof *checker->leases);
    if (checker->open == NULL || checker->leases == NULL) {
        wp_checker_destroy(checker);
        return NULL;
    }
    return checker;
}

void
wp_checker_destroy(struct wp_checker *checker)
{
    if (checker == NULL) {
        return;
    }
    for (size_t i = 0; checker->open != NULL && i < (size_t)1 << OPEN_BITS;
         i++) {
        free(checker->open[i].calls);
    }
    free(checker->open);
    free(checker->leases);
    free(checker);
}

void
wp_checker_report(const struct wp_checker *checker, struct wp_chaos_report *out)
{
    *out = checker->report;
    out->breaches[WP_BREACH_BEHIND] = left_without_a_word(checker);
}

uint64_t
wp_chaos_breaches(const struct wp_chaos_report *report)
{
    uint64_t n = 0;

    for (size_t i = 0; i < WP_BREACH_COUNT; i++) {
        n += report->breaches[i];
    }
    return n;
}
