/* tests/chaos/checker.h - judges the histories of a chaos run.
 *
 * It knows nothing of how warmpoold works, only what it promises. Whatever a
 * client cannot know for sure is decided in the daemon's favour: a lease counts
 * as live from the end of the call that was answered with it, until the start of
 * the first call to release it, or a little before its deadline. That a daemon
 * was too slow is said only where the same history shows that it was not held
 * up: other calls to it were answered promptly all the while. */
#ifndef WP_TESTS_CHAOS_CHECKER_H
#define WP_TESTS_CHAOS_CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/chaos/history.h"

/* What can be found. */
enum wp_chaos_breach {
    WP_BREACH_I1,     /* Two live leases on one sandbox. */
    WP_BREACH_I2,     /* Two live leases of one claim. */
    WP_BREACH_I3,     /* A sandbox that was used before. */
    WP_BREACH_ABSENT, /* A live lease without its sandbox. */
    WP_BREACH_I5,     /* A fence that did not grow, or changed. */
    WP_BREACH_LOST,   /* A lease that was acknowledged and live, denied. */
    WP_BREACH_STATUS, /* An answer that no request of the run should get. */
    WP_BREACH_KEPT, /* A lease of nobody, seconds after the last caller left. */
    WP_BREACH_TWICE,  /* One lease, and two releases that were the first. */
    WP_BREACH_BEHIND, /* A sandbox left by daemons that did not say so. */
    WP_BREACH_COUNT
};

/* "I1" and the like. */
const char *wp_chaos_breach_name(enum wp_chaos_breach breach);

struct wp_chaos_report {
    uint64_t breaches[WP_BREACH_COUNT];
    uint64_t events;
    uint64_t claims;
    uint64_t claims_granted; /* Those whose client saw a lease. */
    uint64_t leases;         /* Distinct sandboxes seen. */
    uint64_t calls;
    uint64_t unanswered;
    uint64_t replays; /* A claim that was answered OK again. */
    uint64_t expired; /* Claims whose client outstayed the lease. */
    /* Get knew nothing of a lease that was live: right for a replica that has
     * not heard of it yet, wrong for a daemon that is alone. */
    uint64_t stale;
    uint64_t left; /* Sandboxes that were there when all daemons had gone. */
    uint64_t by_status[17];
};

struct wp_checker; /* Opaque. One thread. */

/* samples: the first few breaches of each kind are told there; may be NULL.
 * NULL when memory lacks. */
struct wp_checker *wp_checker_create(FILE *samples);
void wp_checker_destroy(struct wp_checker *checker); /* NULL is fine. */

/* Goes through one client's history, which is n events in their order. Aborts
 * when memory lacks. */
void wp_checker_add(struct wp_checker *checker,
                    const struct wp_chaos_event *events, size_t n);
/* The outcome over all that were added. */
void wp_checker_report(const struct wp_checker *checker,
                       struct wp_chaos_report *out);
uint64_t wp_chaos_breaches(const struct wp_chaos_report *report);

#endif
