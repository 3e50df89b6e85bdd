/* allocator/stores/redis/topology/topology_impl.h - the parts of a topology.
 *
 * topology.c keeps what is known, for all threads, and runs the thread
 * that looks; how it looks is sentinel.c and
 * cluster.c; slot_map.c reads what a cluster answers. */
#ifndef WP_ALLOCATOR_STORES_REDIS_TOPOLOGY_TOPOLOGY_IMPL_H
#define WP_ALLOCATOR_STORES_REDIS_TOPOLOGY_TOPOLOGY_IMPL_H

#include <pthread.h>

#include "allocator/stores/redis/link/sync.h"
#include "allocator/stores/redis/topology/topology.h"

struct redisReply;

enum {
    WP_REDIS_NO_NODE = UINT16_MAX,
};

/* Who serves which slot. One server, or one master, is node 0, which has every
 * slot. */
struct wp_redis_slot_map {
    uint32_t n_nodes;
    struct wp_redis_server nodes[WP_REDIS_NODES_MAX];
    uint16_t owner[WP_REDIS_SLOTS]; /* Index of the node, or WP_REDIS_NO_NODE.
                                     */
};

void wp_redis_slot_map_clear(struct wp_redis_slot_map *map);
/* The index of server, added if it is new. WP_REDIS_NO_NODE: no room. */
uint16_t wp_redis_slot_map_add(struct wp_redis_slot_map *map,
                               const struct wp_redis_server *server);
uint16_t wp_redis_slot_map_find(const struct wp_redis_slot_map *map,
                                const struct wp_redis_server *server);
/* Reads the answer to CLUSTER SLOTS, which asked has given. Pure. UNAVAILABLE:
 * it is not such an answer, or names more nodes than fit; map is then
 * undefined. */
WP_MUST_CHECK enum wp_status
wp_redis_slot_map_read(const struct redisReply *reply,
                       const struct wp_redis_server *asked,
                       struct wp_redis_slot_map *map, struct wp_err *err);

struct wp_redis_sentinel {
    struct wp_redis_server server;
    char id[WP_REDIS_RUN_ID_MAX + 1]; /* "": it has not told. */
    bool learned;                     /* From another one; else configured. */
};

struct wp_redis_topology {
    struct wp_redis_url url;
    struct wp_redis_topology_config config;
    struct wp_redis_router router;
    pthread_t thread;
    bool thread_runs;
    int wake_fd;

    pthread_mutex_t lock; /* Guards what follows up to `sentinels`. */
    pthread_cond_t known; /* lookup may say something else. */
    bool stop;
    bool look;    /* Somebody wants a look. */
    bool changed; /* on_change is owed. */
    struct wp_redis_slot_map map;
    /* Of each node: the number of its last doubt, 0: none. A look clears only
     * those that came before it began. */
    uint64_t doubts[WP_REDIS_NODES_MAX];
    uint64_t last_doubt;
    struct wp_redis_server hint; /* Whom a MOVED named last; port 0: nobody. */
    struct wp_err err;           /* Of the last look. */
    struct wp_redis_topology_stats stats;

    /* The thread's own. */
    struct wp_redis_sentinel sentinels[WP_REDIS_SEEDS_MAX];
    uint32_t n_sentinels;
    struct wp_redis_sync *events; /* Subscribed to a sentinel, or NULL. */
    struct wp_redis_server events_from;
    uint64_t epoch; /* The highest heard. */
    int64_t looked_ns;
    struct wp_redis_slot_map found;        /* What a look brings. */
    struct wp_redis_slot_map heard;        /* One node's answer. */
    uint32_t turn;                         /* Whom to verify first. */
    struct wp_redis_topology_stats logged; /* As last logged. */
    struct wp_redis_server logged_server;
};

/* A look: asks, and publishes what it finds. When it is OK, err says nothing,
 * or which of the nodes is still in doubt. Thread only. */
enum wp_status wp_redis_topology_look_sentinel(struct wp_redis_topology *t,
                                               uint64_t doubt,
                                               struct wp_err *err);
enum wp_status wp_redis_topology_look_cluster(struct wp_redis_topology *t,
                                              uint64_t doubt,
                                              struct wp_err *err);
/* What can be read from when the sentinel has published something. */
int wp_redis_topology_events_fd(const struct wp_redis_topology *t);
/* Reads what the sentinel has published; true: look. Thread only. */
bool wp_redis_topology_read_events(struct wp_redis_topology *t);
void wp_redis_topology_close_events(struct wp_redis_topology *t);

/* found is what lookup says from now on. Doubts up to `doubt` stay with nodes
 * that had them, unless verified. Thread only. */
void wp_redis_topology_publish(struct wp_redis_topology *t);
/* The node was looked at and is right: its doubts up to `doubt` end. */
void wp_redis_topology_verified(struct wp_redis_topology *t,
                                const struct wp_redis_server *server,
                                uint64_t doubt);
/* No node is named, until it was verified. */
void wp_redis_topology_doubt_all(struct wp_redis_topology *t);
/* Another look is wanted. */
void wp_redis_topology_look_again(struct wp_redis_topology *t);
bool wp_redis_topology_stopping(struct wp_redis_topology *t);

/* --- asking one server; blocks for timeout_ns at most, each --- */

/* Connects and logs in ("" as password: does not). */
WP_MUST_CHECK enum wp_status
wp_redis_ask_open(const struct wp_redis_topology *t,
                  const struct wp_redis_server *server, const char *user,
                  const char *password, struct wp_redis_sync **out,
                  struct wp_err *err);
/* One command of n words. NULL, err says why: no answer, or an error. Free it
 * with freeReplyObject. */
struct redisReply *wp_redis_ask(struct wp_redis_sync *sync, uint32_t n,
                                const char *const *words, struct wp_err *err);
/* The server at the other end says that it is a master. */
WP_MUST_CHECK enum wp_status wp_redis_ask_role(struct wp_redis_sync *sync,
                                               struct wp_err *err);

#endif
