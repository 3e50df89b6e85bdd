/* tests/support/stores/redis_rig.h - real Redis servers under test.
 *
 * Each has a folder of its own below the rig's, a loopback port that the kernel
 * chose and a Unix socket, and dies with the test. What fails fails the test,
 * with the end of that server's log. One thread: the one that runs the test. */
#ifndef WP_TESTS_SUPPORT_STORES_REDIS_RIG_H
#define WP_TESTS_SUPPORT_STORES_REDIS_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "allocator/stores/redis/link/tls.h"

enum {
    REDIS_RIG_MAX = 16,
    REDIS_RIG_WAIT_MS = 60000,
    REDIS_RIG_ANSWER_MAX = 65536,
};

enum redis_rig_kind {
    REDIS_RIG_PLAIN,
    REDIS_RIG_NODE, /* Of a cluster. */
    REDIS_RIG_SENTINEL,
};

struct redis_rig_server {
    enum redis_rig_kind kind;
    pid_t pid; /* 0: not running. */
    uint16_t port;
    uint16_t bus_port;
    char dir[96];
    char socket[107];
};

struct redis_rig {
    char dir[64];
    uint32_t n;
    struct redis_rig_server servers[REDIS_RIG_MAX];
    bool tls; /* redis_rig_use_tls */
    struct wp_redis_tls trust;
    char ca[80];
    char cert[80];
    char key[80];
    const char *password; /* Set after init: of every server but sentinels. */
    char answer[REDIS_RIG_ANSWER_MAX]; /* Of the last ask. */
};

/* False, having said "SKIP: ...": there is no redis-server here. */
bool redis_rig_available(void);
/* A new folder, no servers. */
void redis_rig_init(struct redis_rig *rig);
/* Servers that are started from now on speak TLS on their ports, and ask for a
 * client's certificate; trust is what a client needs. Their certificate is for
 * 127.0.0.1 and redis.test. */
void redis_rig_use_tls(struct redis_rig *rig);
/* Makes NAME.pem, a certificate for subject_alt_names ("IP:127.0.0.1"), and
 * NAME.key in the rig's folder, by the authority ca.pem there; or, with NULL as
 * names, an authority. */
void redis_rig_certify(struct redis_rig *rig, const char *name,
                       const char *subject_alt_names);
/* Kills what runs, by its process id, and removes the folder. */
void redis_rig_fini(struct redis_rig *rig);

/* Starts a server that keeps nothing on its disk, but for what the lines of
 * conf (may be NULL) add; waits until it answers. Its number. */
uint32_t redis_rig_start(struct redis_rig *rig, const char *conf);
/* The same, a replica of server master, once it is in step. */
uint32_t redis_rig_start_replica(struct redis_rig *rig, uint32_t master);
/* A sentinel for server master, under this name: it takes it for dead after
 * down_after_ms, when quorum of them do. */
uint32_t redis_rig_start_sentinel(struct redis_rig *rig, uint32_t master,
                                  const char *name, int quorum,
                                  int down_after_ms);
/* Waits until each sentinel knows all others and n_replicas replicas. */
void redis_rig_wait_sentinels(struct redis_rig *rig, const char *name,
                              uint32_t n_sentinels, uint32_t n_replicas);
/* A node of a cluster that it is not part of yet. */
uint32_t redis_rig_start_node(struct redis_rig *rig, const char *conf);
/* n nodes that share the slots evenly, each with n_replicas replicas; node i's
 * are n + i, 2 * n + i... of those started here. Number of the first; returns
 * when every node takes the cluster for whole. */
uint32_t redis_rig_start_cluster(struct redis_rig *rig, uint32_t n,
                                 uint32_t n_replicas, int node_timeout_ms);
/* Gives slot, with its keys, from one node to another. begin: the slot is
 * MIGRATING and IMPORTING, nothing has moved; end: all has. */
void redis_rig_migrate_begin(struct redis_rig *rig, uint16_t slot,
                             uint32_t from, uint32_t to);
void redis_rig_migrate_end(struct redis_rig *rig, uint16_t slot, uint32_t from,
                           uint32_t to);

/* Sends a signal; SIGKILL also waits for the end. */
void redis_rig_kill(struct redis_rig *rig, uint32_t i, int signal);
/* Starts it again, on the same port and folder. */
void redis_rig_restart(struct redis_rig *rig, uint32_t i);

/* One command, made as hiredis does it ("SET %s %d"); the answer as text, one
 * element a line, also in rig->answer: "-..." for an error, "" for nil. NULL:
 * the server does not answer. */
const char *redis_rig_ask(struct redis_rig *rig, uint32_t i, const char *format,
                          ...);
/* The same; fails the test when there is no answer, or an error. */
const char *redis_rig_must(struct redis_rig *rig, uint32_t i,
                           const char *format, ...);
/* "master" or "slave"; "" when it does not answer. */
const char *redis_rig_role(struct redis_rig *rig, uint32_t i);
/* Asks (without arguments) until the answer holds text. */
void redis_rig_wait_for(struct redis_rig *rig, uint32_t i, const char *command,
                        const char *text);

/* Waits a little, between looks at a condition; fails the test when it has
 * looked for REDIS_RIG_WAIT_MS. *since is 0 at first. */
void redis_rig_pause(int64_t *since, const char *what);

#endif
