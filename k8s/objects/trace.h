/* k8s/objects/trace.h - which trace an object belongs to. Pure. */
#ifndef WP_K8S_OBJECTS_TRACE_H
#define WP_K8S_OBJECTS_TRACE_H

#include "k8s/objects/object.h"
#include "pool/trace/context.h"

/* By its annotation opentelemetry.io/trace-context, which SDKs write: an object
 * of JSON whose "traceparent" is W3C Trace Context's. False, and out is zeroed,
 * when there is none; a malformed one is none. */
bool wp_object_trace(const struct wp_object *object,
                     struct wp_trace_context *out);
#endif
