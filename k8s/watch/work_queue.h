/* k8s/watch/work_queue.h - which objects a controller has yet to look at.
 *
 * A key (namespace and name) is in it at most once; one that is added while it
 * is being worked on is worked on again afterwards; so at most one reconcile of
 * a key runs. Reconciles are asynchronous: reconcile begins one, and
 * wp_work_done ends it, at once or later. Loop thread only. */
#ifndef WP_K8S_WATCH_WORK_QUEUE_H
#define WP_K8S_WATCH_WORK_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/clock.h"
#include "pool/base/compiler.h"

struct event_base;
struct wp_work_queue; /* Opaque. */
struct wp_work;       /* One key that is being worked on. */

struct wp_work_queue_config {
    struct event_base *base;
    const struct wp_clock *clock;
    uint32_t workers_max;   /* Reconciles under way at once. */
    uint32_t last_max;      /* Of these, added last; 0: an eighth. */
    uint64_t seed;          /* Of the jitter. */
    int64_t backoff_min_ns; /* 0: 5 ms; doubles per failure. */
    int64_t backoff_max_ns; /* 0: 60 s */
    /* ns and name are valid until wp_work_done. */
    void (*reconcile)(void *ctx, struct wp_work *work, const char *ns,
                      const char *name);
    void *ctx;
};

/* NULL when memory lacks. */
struct wp_work_queue *
wp_work_queue_create(const struct wp_work_queue_config *config);
/* Reconciles that are under way must have ended. NULL is fine. */
void wp_work_queue_destroy(struct wp_work_queue *queue);

/* As soon as a worker is free; ahead of those added with first false when first
 * is true (a claim that nobody has served yet). A delay that was set ends. */
void wp_work_add(struct wp_work_queue *queue, const char *ns, const char *name,
                 bool first);
/* When nothing else waits, and never with more than last_max workers: what may
 * come by the thousand and must not be in anybody's way. A key that waits, or
 * is added otherwise, keeps its better place; a delay that was set stays. After
 * a failure it is last again. */
void wp_work_add_last(struct wp_work_queue *queue, const char *ns,
                      const char *name);
/* Was this reconcile begun as one of the last? */
bool wp_work_is_last(const struct wp_work *work);
/* At the earliest after delay; an earlier time that is set stays. */
void wp_work_add_after(struct wp_work_queue *queue, const char *ns,
                       const char *name, int64_t delay_ns);
/* The object is gone: forgets its failures and what is set. */
void wp_work_forget(struct wp_work_queue *queue, const char *ns,
                    const char *name);
/* Ends a reconcile. */
enum wp_work_outcome {
    WP_WORK_OK,     /* Failures are forgotten. */
    WP_WORK_FAILED, /* Again after a growing pause; of a second at most when it
                     * was added meanwhile. */
    WP_WORK_AFTER,  /* Again after after_ns; failures are forgotten. */
};
void wp_work_done(struct wp_work *work, enum wp_work_outcome outcome,
                  int64_t after_ns);
/* Stops beginning reconciles (leadership was lost), or goes on. */
void wp_work_pause(struct wp_work_queue *queue, bool paused);

struct wp_work_queue_stats {
    uint32_t waiting;
    uint32_t delayed;
    uint32_t running;
    uint64_t begun;
    uint64_t failed;
};
void wp_work_queue_stats(const struct wp_work_queue *queue,
                         struct wp_work_queue_stats *out);

#endif
