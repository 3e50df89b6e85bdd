/* allocator/trace/exporter.h - takes spans to a collector of OpenTelemetry.
 *
 * One thread of its own sends them by OTLP over HTTP, in JSON, several times a
 * second, at most WP_EXPORTER_BATCH in a request. A collector that does not
 * take them harms nobody but the traces: a batch is tried WP_EXPORTER_TRIES
 * times, then counted as failed and dropped, and what comes meanwhile waits in
 * the tracer's queue or is dropped there. The log says when that begins and
 * when it is over. */
#ifndef WP_ALLOCATOR_TRACE_EXPORTER_H
#define WP_ALLOCATOR_TRACE_EXPORTER_H

#include "pool/base/clock.h"
#include "pool/base/status.h"
#include "pool/trace/tracer.h"

enum {
    WP_EXPORTER_BATCH = 512,
    WP_EXPORTER_TRIES = 3,
};

struct wp_exporter; /* Opaque. */

struct wp_exporter_config {
    const char *endpoint; /* "http://host:4318"; /v1/traces is put behind it. */
    const char *version;  /* Of this program. Both borrowed until destroy. */
    const struct wp_clock *clock;
};

/* All functions are for main. NULL and err when memory lacks. That the
 * collector answers is not asked. */
WP_MUST_CHECK struct wp_exporter *
wp_exporter_create(const struct wp_exporter_config *config, struct wp_err *err);
/* Takes the spans; until destroy. NULL when exporter is. */
struct wp_tracer *wp_exporter_tracer(struct wp_exporter *exporter);
/* Starts the thread. Once. */
WP_MUST_CHECK enum wp_status wp_exporter_start(struct wp_exporter *exporter,
                                               struct wp_err *err);
/* After all who may add spans have stopped. Tries once more, for two seconds at
 * most, to send what is left. NULL is fine. */
void wp_exporter_destroy(struct wp_exporter *exporter);

#endif
