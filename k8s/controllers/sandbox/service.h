/* k8s/controllers/sandbox/service.h - the headless Service of a Sandbox.
 *
 * Named like the sandbox, it selects the sandbox's Pod by the name hash and
 * lists the ports of its containers and of init containers that keep running.
 * Pure; any thread. */
#ifndef WP_K8S_CONTROLLERS_SANDBOX_SERVICE_H
#define WP_K8S_CONTROLLERS_SANDBOX_SERVICE_H

#include <jansson.h>
#include <stdbool.h>

#include "k8s/objects/object.h"

/* The Service to create. json is the whole sandbox; the caller owns the
 * result. */
json_t *wp_sandbox_service_build(const struct wp_object *sandbox,
                                 const json_t *json, const char *hash);

/* Puts into patch (a merge patch that has metadata) what brings service (whole,
 * as read) to what the sandbox asks for: label, selector, and the ports if
 * asked. False when it is right already. */
bool wp_sandbox_service_drift(const json_t *json, const char *hash,
                              const json_t *service, bool with_ports,
                              json_t *patch);

/* False when it has an address of its own: that cannot be taken from it, so it
 * cannot become headless. */
bool wp_sandbox_service_headless(const json_t *service);

#endif
