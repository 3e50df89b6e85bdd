/* k8s/controllers/claim/ask.h - a SandboxClaim's request to the pool core.
 *
 * The core answers at once, or later from a thread of its own: then by a linked
 * channel, which cannot be full. A post wakes the cluster's thread for it;
 * should that be refused, a timer finds the answer. Cluster thread only. */
#ifndef WP_K8S_CONTROLLERS_CLAIM_ASK_H
#define WP_K8S_CONTROLLERS_CLAIM_ASK_H

#include "k8s/controllers/shared.h"
#include "pool/claim.h"

struct wp_claim_asks; /* Opaque. */
struct wp_claim_ask;  /* Opaque. */

/* on_answer: the claim of this namespace and name, which was pending, has its
 * answer. NULL when memory lacks. parts is borrowed. */
struct wp_claim_asks *wp_claim_asks_create(
    struct wp_parts *parts,
    void (*on_answer)(void *ctx, const char *ns, const char *name), void *ctx);
/* Withdraws what is pending; the core's other threads must still run. Asks that
 * are held by the caller are freed. NULL is fine. */
void wp_claim_asks_destroy(struct wp_claim_asks *asks);

/* Asks for a warm sandbox of this pool for the claim, waiting so long for one.
 * The claim's uid is the id: asked again, it gets what it has. Never NULL. */
struct wp_claim_ask *wp_claim_ask_begin(struct wp_claim_asks *asks,
                                        const struct wp_object *claim,
                                        const char *pool, int64_t wait_ns);
/* PENDING, or how it was answered. */
enum wp_status wp_claim_ask_status(const struct wp_claim_ask *ask);
/* The answer, when it is not pending. Valid until the ask ends. */
const struct wp_claim *wp_claim_ask_answer(const struct wp_claim_ask *ask);
/* The name of the pool that was asked. */
const char *wp_claim_ask_pool(const struct wp_claim_ask *ask);

/* Each ends the ask; it is freed, at once or once it is answered.
 *   keep   the sandbox is the claim's: the lease stands
 *   drop   withdrawn, or what was granted is given back unused
 *   lose   what was granted has gone, or is somebody else's: the lease ends */
void wp_claim_ask_keep(struct wp_claim_ask *ask);
void wp_claim_ask_drop(struct wp_claim_ask *ask);
void wp_claim_ask_lose(struct wp_claim_ask *ask, const char *reason);

#endif
