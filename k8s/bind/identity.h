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
                 const struct wp_claim_info *lease, struct wp_str audience,
                 int64_t ttl_ms, struct wp_identity_token *token,
                 struct wp_err *err);
/* The Pod has that one now, or needs no new one: the next is due after two
 * fifths of what it is good for. */
void wp_identity_given(struct wp_identity *identity, int64_t until_wall_ms,
                       const struct wp_clock *clock);
/* That did not work: it is due again after a fifth of what it is good for yet,
 * 5 s to 5 min. */
void wp_identity_failed(struct wp_identity *identity,
                        const struct wp_clock *clock);
/* Nanoseconds until one is due; 0: now. */
int64_t wp_identity_wait_ns(const struct wp_identity *identity,
                            const struct wp_clock *clock);

#endif
