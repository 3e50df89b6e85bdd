/* k8s/lead/competitor.h - is another controller of the same kinds active here?
 * Upstream's, or another installation of this one.
 *
 * Two controllers of one kind undo each other's work. Upstream's binary is
 * known by its Lease; whether it has the extension controllers as well is read
 * from its Deployment, and taken for granted where that cannot be read. A Lease
 * that a stopped controller left behind looks alive until its time is over, so
 * it is looked at for a while before anything is said. One may be started
 * later: so it is looked for again and again.
 *
 * Another installation is known by the label of its Lease, in any namespace; an
 * account that may not list Leases everywhere sees none. When both serve, the
 * one with the older Lease stays. Loop thread only. */
#ifndef WP_K8S_LEAD_COMPETITOR_H
#define WP_K8S_LEAD_COMPETITOR_H

#include "k8s/api/api.h"

struct event_base;
struct wp_competitor; /* Opaque. */

/* Where upstream's manifests install it. */
#define WP_COMPETITOR_NAMESPACE "agent-sandbox-system"
#define WP_COMPETITOR_LEASE "a3317529.agent-sandbox.x-k8s.io"
#define WP_COMPETITOR_DEPLOYMENT "agent-sandbox-controller"

struct wp_competitor_config {
    struct event_base *base;
    const struct wp_clock *clock;
    struct wp_api *api;
    const char *ns;   /* Looked into beside WP_COMPETITOR_NAMESPACE. */
    const char *name; /* Of our own Lease there. */
    /* What we serve, in the words of scope.h; NULL: other installations
     * are not looked for. */
    const char *scope;
    bool pools;        /* Do we do what its extensions do? */
    bool sandboxes;    /* And what it always does? */
    int64_t wait_ns;   /* 0: 20 s. */
    int64_t period_ns; /* From one look to the next; 0: 30 s. */
};

/* NULL: none is active, or it leaves our kinds alone; so it says after each
 * look. Else a sentence, for people, that says what to do; borrowed. Once. */
typedef void wp_competitor_done(void *ctx, const char *conflict);

/* Looks; done comes later. It may free the search. config's texts are borrowed.
 * NULL when memory lacks. */
struct wp_competitor *
wp_competitor_start(const struct wp_competitor_config *config,
                    wp_competitor_done *done, void *ctx);
/* Looks at the clock now; for tests. */
void wp_competitor_look(struct wp_competitor *competitor);
/* Frees; done is not called any more. NULL is fine. */
void wp_competitor_stop(struct wp_competitor *competitor);

#endif
