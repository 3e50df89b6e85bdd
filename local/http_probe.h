/* local/http_probe.h - the words of a health request; no I/O. */
#ifndef WP_LOCAL_HTTP_PROBE_H
#define WP_LOCAL_HTTP_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/base/compiler.h"

enum {
    WP_HTTP_PROBE_MAX = 1200, /* A request with the longest path. */
    WP_HTTP_PROBE_PATH_MAX = 1024,
    WP_HTTP_STATUS_LINE = 12, /* "HTTP/1.1 200": all that is looked at. */
};

/* Writes "GET path ..." and returns its length; 0 when it does not fit. */
WP_MUST_CHECK size_t wp_http_probe_request(const char *path, char *out,
                                           size_t cap);
/* The status of a reply that starts with these bytes; -1 when it is no HTTP/1
 * reply; 0 when more bytes are needed. */
WP_MUST_CHECK int wp_http_probe_status(const char *bytes, size_t len);
/* Kubernetes' rule: 200 to 399 is healthy. */
static inline bool
wp_http_probe_healthy(int status)
{
    return status >= 200 && status <= 399;
}

#endif
