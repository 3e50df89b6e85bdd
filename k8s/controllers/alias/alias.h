/* k8s/controllers/alias/alias.h - Sandboxes named as their claims.
 *
 * Clients of v1alpha1 read the Sandbox of their claim's own name. A warm one
 * has its pool's name, so there is another object beside it, which only shows
 * what the real one says. It has no Pod: its mode is Suspended, and a label
 * keeps it out of the store that everything else knows Sandboxes from. It
 * follows its claim and its Sandbox, and goes with either. Loop thread only. */
#ifndef WP_K8S_CONTROLLERS_ALIAS_ALIAS_H
#define WP_K8S_CONTROLLERS_ALIAS_ALIAS_H

#include "k8s/controllers/shared.h"
#include "pool/base/metrics.h"

struct wp_claim_aliases; /* Opaque. */

/* Listens to the stores of claims, Sandboxes and aliases. Paused. NULL when
 * memory lacks. parts is borrowed, and so is writes, which counts them. */
struct wp_claim_aliases *wp_claim_aliases_create(struct wp_parts *parts,
                                                 struct wp_counter *writes);
/* NULL is fine. */
void wp_claim_aliases_destroy(struct wp_claim_aliases *aliases);
/* Looks at every claim and alias there is. */
void wp_claim_aliases_activate(struct wp_claim_aliases *aliases);
void wp_claim_aliases_deactivate(struct wp_claim_aliases *aliases);

#endif
