/* k8s/controllers/events.h - records what happened, as events.k8s.io/v1
 * Events.
 *
 * Nobody waits for one: they go with the lowest priority, and those that find
 * the queue full, or are refused, are counted and dropped. The same words about
 * the same object within ten minutes become one series, written at most once a
 * minute. WP_EVENTS_SERIES_MAX of them are remembered; beyond that the one that
 * was heard of least recently is forgotten, and would begin anew. Loop thread
 * only. */
#ifndef WP_K8S_CONTROLLERS_EVENTS_H
#define WP_K8S_CONTROLLERS_EVENTS_H

#include "k8s/api/api.h"
#include "k8s/objects/object.h"

struct event_base;
struct wp_events; /* Opaque. */

enum {
    WP_EVENTS_SERIES_MAX = 1024,
    WP_EVENTS_NOTE_MAX = 1024, /* Bytes of words. */
};

struct wp_events_config {
    struct event_base *base;
    const struct wp_clock *clock;
    struct wp_api *api;
    const char *instance; /* reportingInstance: the replica's name. */
    bool off; /* --disable-claim-events and the like: say nothing. */
};

struct wp_event {
    /* "sandboxclaim-controller", "sandboxwarmpool-controller", ... */
    const char *controller;
    const char *action; /* "Adoption" */
    const char *reason; /* "SandboxAdopted" */
    bool warning;       /* Else Normal. */
};

/* config's texts are borrowed. NULL when memory lacks. */
struct wp_events *wp_events_create(const struct wp_events_config *config);
/* What is under way ends by itself. NULL is fine. */
void wp_events_destroy(struct wp_events *events);
/* The object is borrowed. At most 1 KiB of words; more are cut. */
void wp_events_record(struct wp_events *events, const struct wp_object *about,
                      const struct wp_event *event, const char *fmt, ...)
    WP_PRINTF(4, 5);
uint64_t wp_events_dropped(const struct wp_events *events);

#endif
