/* allocator/metrics/daemon_metrics.h - what the daemon's own parts count, as a
 * part of /metrics. Any thread. */
#ifndef WP_ALLOCATOR_METRICS_DAEMON_METRICS_H
#define WP_ALLOCATOR_METRICS_DAEMON_METRICS_H

#include "allocator/metrics/page.h"

/* Memory, the control thread, starts under way. */
void wp_daemon_metrics(struct evbuffer *out, const struct wp_http_metrics *m);
/* The lease store, the servers and the process; what m leaves out is not
 * there. */
void wp_daemon_metrics_parts(struct evbuffer *out,
                             const struct wp_http_metrics *m);

#endif
