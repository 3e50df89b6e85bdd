/* k8s/watch/watch_event.h - one line of a watch, taken apart and checked. */
#ifndef WP_K8S_WATCH_WATCH_EVENT_H
#define WP_K8S_WATCH_WATCH_EVENT_H

#include <jansson.h>

#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_VERSION_MAX = 512, /* Of a resourceVersion's text, and its end. */
};

enum wp_watch_event_type {
    WP_WATCH_ADDED,
    WP_WATCH_MODIFIED,
    WP_WATCH_DELETED,
    WP_WATCH_BOOKMARK,
    WP_WATCH_ERROR,
};

/* Texts live as long as root. */
struct wp_watch_event {
    enum wp_watch_event_type type;
    json_t *root;         /* Owned. */
    const json_t *object; /* Within it; an object. */
    const char *version;  /* Not empty, but for ERROR: "". */
    int code;             /* Of ERROR: 410...; else 0. */
    const char *message;  /* The same; else "". */
};

/* INVALID_ARGUMENT and err: it is no JSON object, its type is unknown, it lacks
 * an object or that lacks metadata.resourceVersion, or this is too long. Then
 * there is nothing to release. Any thread. */
WP_MUST_CHECK enum wp_status wp_watch_event_read(struct wp_watch_event *event,
                                                 struct wp_str line,
                                                 struct wp_err *err);
void wp_watch_event_fini(struct wp_watch_event *event);

#endif
