/* tests/support/k8s/lone_rig.h - one controller between fakes: its stores are
 * real and filled by the test, its queues and the API server are not there.
 *
 * What it does to its queues, asks of the API server, records and learns goes
 * into the journal. The test begins each reconcile and gives each answer. In
 * texts ' stands for ". */
#ifndef WP_TESTS_SUPPORT_K8S_LONE_RIG_H
#define WP_TESTS_SUPPORT_K8S_LONE_RIG_H

#include "k8s/controllers/shared.h"
#include "tests/support/pool/manual_clock.h"

struct lone_rig {
    struct wp_clock_manual clock; /* At 1000 s; 2026-01-01. */
    struct wp_parts parts;        /* Active; neither loop nor events. */
};

void lone_rig_init(struct lone_rig *rig);
void lone_rig_fini(struct lone_rig *rig);

/* As the watch says: this object is there, or is there no more. The text is the
 * whole object without apiVersion and kind. */
void lone_put(struct lone_rig *rig, enum wp_kind kind, const char *text);
void lone_remove(struct lone_rig *rig, enum wp_kind kind, const char *text);

/* Has the newest queue begin a reconcile of this key. */
void lone_look(const char *ns, const char *name);
/* Answers the oldest call that was not answered; object is a text as above,
 * taken as it is when it has an apiVersion, or NULL. */
void lone_answer(const struct wp_api_result *result, const char *object);
/* The same with nothing but this status. */
void lone_ends(enum wp_status status);
/* How many calls were not answered. */
size_t lone_open(void);

/* A line of its own. */
void lone_say(const char *what);

#endif
