/* k8s/lead/scope.h - what an installation serves, in words that its Lease tells
 * others: "NAMESPACE CONTROLLER,CONTROLLER", or "*" for all namespaces. Any
 * thread. */
#ifndef WP_K8S_LEAD_SCOPE_H
#define WP_K8S_LEAD_SCOPE_H

#include <stdbool.h>

/* Do both serve the same kind in one namespace? What theirs does not say is all
 * of it. */
bool wp_scopes_meet(const char *ours, const char *theirs);

#endif
