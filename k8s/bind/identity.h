/* k8s/bind/identity.h - the signed identity of a sandbox in a Pod: what it is
 * about, and when the next one is to follow.
 *
 * None is good beyond the end that the lease has now, so one is made anew while
 * the lease may have been renewed; what has not changed is not sent. Loop
 * thread only. */
#ifndef WP_K8S_BIND_IDENTITY_H
#define WP_K8S_BIND_IDENTITY_H

#include "k8s/config.h"
#include "pool/base/compiler.h"

/* Zeroed: its Pod has none that is known here, and one is due. */
struct wp_identity {
    int64_t until_wall_ms; /* Of the one that its Pod has. */
    int64_t due_ns;        /* Monotonic; the next is made then. */
    int64_t offset_ns;     /* Wall minus monotonic time then; 0: not known. */
};

/* What a claim asks for. */
struct wp_identity_wanted {
    struct wp_str audience;
    int64_t ttl_ms; /* 0: the daemon's. */
};

/* One that is to be sent. Wiped by its user. */
struct wp_identity_token {
    char text[WP_IDENTITY_TOKEN_MAX + 1]; /* "": nothing new. */
    int64_t until_wall_ms;
};

/* Not WP_OK: err says in "identity: ..." why there is none. signer NULL: there
 * can be none. */
WP_MUST_CHECK enum wp_status
wp_identity_sign(const struct wp_identity *identity,
                 const struct wp_cluster_identity *signer,
                 const struct wp_claim_info *lease,
                 const struct wp_identity_wanted *wanted,
                 struct wp_identity_token *token, struct wp_err *err);
/* The Pod has that one now, or needs no new one: the next is due after two
 * fifths of what it is good for. */
void wp_identity_given(struct wp_identity *identity, int64_t until_wall_ms,
                       const struct wp_clock *clock);
/* --- The next ones, of all sandboxes --- */

enum {
    /* Under way at once: a new leader owes each sandbox one, and Pods that do
     * not answer hold theirs for seconds. */
    WP_IDENTITY_RENEWALS_MAX = 256,
};

struct wp_identity_renewals {
    const struct wp_clock *clock;
    uint32_t under_way;
    int64_t say_from_ns; /* No line of the log before. */
    uint64_t given_total;
    uint64_t failed_total;
};

/* Is one due, and may it begin? It ends by exactly one of the three below.
 * False: not now; when there are too many, it is due again in a second. */
WP_MUST_CHECK bool
wp_identity_renewal_begin(struct wp_identity_renewals *renewals,
                          struct wp_identity *identity);
/* As wp_identity_given. */
void wp_identity_renewed(struct wp_identity_renewals *renewals,
                         struct wp_identity *identity, int64_t until_wall_ms);
/* It is due again after a fifth of what the Pod's is good for yet, 5 s to
 * 5 min. People hear of it, a line in 10 s at most. */
void wp_identity_not_renewed(struct wp_identity_renewals *renewals,
                             struct wp_identity *identity, const char *ns,
                             const char *sandbox, const char *reason);
/* Nobody needs it any more. */
void wp_identity_renewal_drop(struct wp_identity_renewals *renewals);
/* Nanoseconds until one is due; 0: now. One is when the wall clock was set: to
 * others the Pod's is over then, or not good yet. */
int64_t wp_identity_wait_ns(const struct wp_identity *identity,
                            const struct wp_clock *clock);
/* The same, 5 min at most: nobody tells of a clock that was set. */
int64_t wp_identity_look_ns(const struct wp_identity *identity,
                            const struct wp_clock *clock);

#endif
