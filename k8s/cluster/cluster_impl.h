/* k8s/cluster/cluster_impl.h - what cluster*.c share. Private to them. */
#ifndef WP_K8S_CLUSTER_CLUSTER_IMPL_H
#define WP_K8S_CLUSTER_CLUSTER_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "k8s/backend/backend.h"
#include "k8s/bind/identity.h"
#include "k8s/controllers/shared.h"
#include "k8s/cluster/cluster_stats.h"
#include "k8s/cluster/sandbox_routes.h"
#include "k8s/lead/election.h"
#include "k8s/backend/pool_sync.h"
#include "k8s/watch/reflector.h"
#include "k8s/lead/competitor.h"
#include "proto/loop/loop.h"

/* One kind that is watched. */
struct wp_cluster_watch {
    struct wp_cluster *cluster;
    enum wp_kind kind;
    struct wp_reflector *reflector; /* NULL: not watched. */
    bool synced;
    bool doubtful; /* What is known may be of another world. */
    bool renewed;  /* Listed since the server's storage was last restored. */
    int64_t refused_ns; /* Since when it is refused; 0: it is not. */
    int refused_code;
    int64_t logged_ns; /* When that was last logged. */
};

struct wp_cluster {
    struct wp_parts parts;
    struct wp_identity_renewals renewals;
    struct wp_http *http;
    struct wp_cluster_backend *backend;
    struct wp_pool_sync *pool_sync;
    struct wp_sandbox_counts *counts;
    struct wp_sandbox_routes *routes;
    struct wp_cluster_watch watches[WP_KIND_COUNT];
    const struct wp_controller_ops *ops[WP_CLUSTER_CONTROLLERS];
    void *controllers[WP_CLUSTER_CONTROLLERS];
    uint32_t controllers_len;

    /* Who leads: cluster_lead.c. */
    struct wp_election *election; /* NULL: nobody else is there. */
    char scope[128];              /* What other installations are told of it. */
    struct wp_competitor *competitor;
    bool elected;
    bool has_led;
    int64_t refused_logged_ns; /* When it was last said; 0: never. */
    bool activating; /* The competitor is looked for, or the backend begins. */
    bool serving;    /* The core's keeper is this one. */
    bool active;     /* Controllers are. */
    bool quiet;      /* They are not to be any more. */
    bool stopping;
    int64_t stop_within_ns; /* Set before the cluster thread stops. */
    int64_t quiet_by_ns;    /* Until then what is under way may end. */
    bool parting;           /* The lease is being given up. */

    struct wp_loop *loop;
    struct event *tick; /* Each second; each few milliseconds at the end. */
    bool started;
    bool fatal; /* Told once. */
    _Atomic(bool) synced;
    _Atomic(bool) leads;
    _Atomic(bool) refused; /* The lease, and none was ever held. */

    pthread_mutex_t stats_lock; /* guards: stats */
    struct wp_cluster_stats stats;
};

/* Says why the daemon has to end; the first reason counts. */
void wp_cluster_give_up(struct wp_cluster *cluster, const char *fmt, ...)
    WP_PRINTF(2, 3);

/* --- cluster_watch.c --- */

/* The stores of all kinds that the chosen controllers need. */
WP_MUST_CHECK enum wp_status wp_cluster_make_stores(struct wp_cluster *cluster,
                                                    struct wp_err *err);
WP_MUST_CHECK enum wp_status
wp_cluster_start_watches(struct wp_cluster *cluster, struct wp_err *err);
void wp_cluster_stop_watches(struct wp_cluster *cluster);
/* Is everything known of one and the same server, as it is now? */
bool wp_cluster_renewed(const struct wp_cluster *cluster);
/* What is refused for too long is the end, as long as nothing was served. */
void wp_cluster_check_watches(struct wp_cluster *cluster);

/* --- cluster_lead.c --- */

WP_MUST_CHECK enum wp_status
wp_cluster_start_leading(struct wp_cluster *cluster, struct wp_err *err);
/* Says, again and again, that the lease is refused. */
void wp_cluster_check_lease(struct wp_cluster *cluster);
/* Something changed that may let this replica begin. */
void wp_cluster_try_activate(struct wp_cluster *cluster);
/* May this request still go? ctx is the cluster; for the client. */
bool wp_cluster_may_send(void *ctx, const char *method, const char *path,
                         enum wp_http_priority priority);
/* Controllers begin nothing any more. */
void wp_cluster_rest_controllers(struct wp_cluster *cluster);
/* Nothing is begun any more. */
void wp_cluster_deactivate(struct wp_cluster *cluster);
/* After that; done comes at once or later. */
void wp_cluster_give_lease_up(struct wp_cluster *cluster,
                              void (*done)(void *ctx), void *ctx);

/* --- cluster_stats.c --- */

void wp_cluster_note_stats(struct wp_cluster *cluster);

#endif
