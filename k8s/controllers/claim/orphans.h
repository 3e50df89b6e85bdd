/* k8s/controllers/claim/orphans.h - the core's leases of SandboxClaims that are
 * gone.
 *
 * What a new leader's cache does not know may well be alive: claims of which
 * its watch has not told yet. So the API server is asked for all claims before
 * any lease ends. Private to this room. Loop thread only. */
#ifndef WP_K8S_CONTROLLERS_CLAIM_ORPHANS_H
#define WP_K8S_CONTROLLERS_CLAIM_ORPHANS_H

#include "k8s/controllers/shared.h"

struct wp_claim_orphans; /* Opaque. */

/* NULL when memory lacks. */
struct wp_claim_orphans *wp_claim_orphans_create(struct wp_parts *parts);
/* After the API client has ended all calls. NULL is fine. */
void wp_claim_orphans_destroy(struct wp_claim_orphans *orphans);
/* This replica leads from now on: looks once through all leases, and asks the
 * API server when some are of claims that are not known. A list that fails is
 * asked for again, until this replica leads no more. */
void wp_claim_orphans_end(struct wp_claim_orphans *orphans);

#endif
