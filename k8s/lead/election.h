/* k8s/lead/election.h - one replica leads, by a Lease object.
 *
 * The holder writes renewTime every renew period; who sees the object unchanged
 * for the lease's duration, by its own clock, takes it, with resourceVersion as
 * precondition. A holder that cannot renew in time stops leading before anybody
 * else may begin: its time counts from before the write was sent, the others'
 * from after they saw it, and is shorter. Wall clocks are written for people
 * and never compared. On release the holder is emptied, so that a planned
 * change of leaders takes a moment only.
 *
 * Standbys read the object twice in a renew period, instead of watching it: the
 * renewals alone would send as much, a watch that stands still would have to be
 * noticed within the lease's duration, and these reads are what proves that the
 * object has not changed.
 *
 * Whoever deletes the Lease under a leader takes its protection away from
 * replicas that start within that second and have never seen it; those that
 * have wait its time out. Loop thread only. */
#ifndef WP_K8S_LEAD_ELECTION_H
#define WP_K8S_LEAD_ELECTION_H

#include "k8s/api/api.h"

/* A Lease whose holder serves has this label, "true". */
#define WP_ELECTION_SERVING "warmpool.dev/serving"
#define WP_ELECTION_SCOPE "warmpool.dev/scope"

struct event_base;
struct wp_election; /* Opaque. */

struct wp_election_config {
    struct event_base *base;
    const struct wp_clock *clock;
    struct wp_api *api;
    const char *ns;
    const char *name;     /* Of the Lease. */
    const char *identity; /* Unique among replicas. */
    const char *scope;    /* What the leader serves, for other installations:
                           * an annotation of the Lease; NULL: nothing. */
    uint64_t seed;
    int64_t
        duration_ns;  /* 0: 3 s. Takeover after a crash: this and a little. */
    int64_t renew_ns; /* 0: 0.75 s. */
    int64_t deadline_ns; /* 0: 2.25 s without a renewal: it leads no more. */
    void (*on_leading)(void *ctx);
    /* Leadership is lost, or was given up: nothing may be written any more.
     * leader: who has it now; "": nobody is known. */
    void (*on_following)(void *ctx, const char *leader);
    void *ctx;
};

/* Begins at once; callbacks never come from within a call. NULL when memory
 * lacks. */
struct wp_election *wp_election_start(const struct wp_election_config *config);
/* By the clock as it is now, even when the loop is late. */
bool wp_election_leads(const struct wp_election *election);
/* Monotonic; until then no other replica leads. 0 when this one does not. */
int64_t wp_election_valid_until_ns(const struct wp_election *election);
/* The API server does not let this account have the lease (403), so that it can
 * never lead; until a call of the lease goes well. */
bool wp_election_refused(const struct wp_election *election);
/* The holder serves, or does no more: a label of the Lease says so from its
 * next renewal on. Not before, and not of the holder before. */
void wp_election_serving(struct wp_election *election, bool serving);
/* Looks at the clock now: after a machine has slept, and in tests. */
void wp_election_look(struct wp_election *election);
/* Gives it up when it has it; released is called when that has been written or
 * has failed (at most 2 s), and the election is stopped then. Once. It may be
 * freed from within released. */
void wp_election_release(struct wp_election *election,
                         void (*released)(void *ctx), void *ctx);
/* Frees; what is under way ends by itself. Not from within on_leading and
 * on_following. NULL is fine. */
void wp_election_stop(struct wp_election *election);

#endif
