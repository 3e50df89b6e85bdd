/* k8s/events.h - tells people what happened, as events.k8s.io/v1 Events.
 *
 * Nobody waits for one: they go with the lowest priority, and those that find
 * the queue full are counted and dropped. The same words about the same object
 * within ten minutes become one series, written at most once a minute. Loop
 * thread only. */
#ifndef WP_K8S_EVENTS_H
#define WP_K8S_EVENTS_H

#include "k8s/api.h"
#include "k8s/object.h"

struct event_base;
struct wp_events; /* Opaque. */

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

struct wp_events *wp_events_create(const struct wp_events_config *config);
void wp_events_destroy(struct wp_events *events); /* NULL is fine. */
/* The object is borrowed. At most 1 KiB of words; more are cut. */
void wp_events_tell(struct wp_events *events, const struct wp_object *about,
                    const struct wp_event *event, const char *fmt, ...)
    WP_PRINTF(4, 5);
uint64_t wp_events_dropped(const struct wp_events *events);

#endif
