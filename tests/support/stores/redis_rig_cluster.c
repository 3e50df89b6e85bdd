#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "pool/base/str.h"
#include "tests/support/stores/redis_rig.h"

/* Every node of the cluster agrees that node first + i serves its slots. */
static void
wait_until_whole(struct redis_rig *rig, uint32_t first, uint32_t total)
{
    char known[64];

    (void)snprintf(known, sizeof known, "cluster_known_nodes:%u\r\n", total);
    for (uint32_t i = first; i < first + total; i++) {
        redis_rig_wait_for(rig, i, "CLUSTER INFO", known);
        redis_rig_wait_for(rig, i, "CLUSTER INFO", "cluster_state:ok");
        redis_rig_wait_for(rig, i, "CLUSTER INFO",
                           "cluster_slots_assigned:16384");
    }
}

static void
node_id(struct redis_rig *rig, uint32_t i, char out[64])
{
    (void)snprintf(out, 64, "%s", redis_rig_must(rig, i, "CLUSTER MYID"));
}

static void
make_replica(struct redis_rig *rig, uint32_t replica, uint32_t master)
{
    char id[64];
    int64_t since = 0;
    const char *answer;

    node_id(rig, master, id);
    /* It may not have heard of its master yet. */
    while ((answer = redis_rig_ask(rig, replica, "CLUSTER REPLICATE %s", id)) ==
               NULL ||
           strcmp(answer, "OK") != 0) {
        redis_rig_pause(&since, "a node that knows its master");
    }
    redis_rig_wait_for(rig, replica, "INFO replication",
                       "master_link_status:up");
}

uint32_t
redis_rig_start_cluster(struct redis_rig *rig, uint32_t n, uint32_t n_replicas,
                        int node_timeout_ms)
{
    uint32_t total = n * (1 + n_replicas);
    uint32_t first = rig->n;
    char conf[128];

    (void)snprintf(conf, sizeof conf,
                   "cluster-node-timeout %d\n"
                   "cluster-replica-validity-factor 0\n",
                   node_timeout_ms);
    for (uint32_t i = 0; i < total; i++) {
        (void)redis_rig_start_node(rig, conf);
    }
    for (uint32_t i = 0; i < n; i++) {
        (void)redis_rig_must(rig, first + i, "CLUSTER ADDSLOTSRANGE %d %d",
                             (int)(16384 * i / n),
                             (int)(16384 * (i + 1) / n - 1));
        (void)redis_rig_must(rig, first + i, "CLUSTER SET-CONFIG-EPOCH %d",
                             (int)i + 1);
    }
    for (uint32_t i = 1; i < total; i++) {
        struct redis_rig_server *server = &rig->servers[first + i];

        (void)redis_rig_must(rig, first, "CLUSTER MEET 127.0.0.1 %d %d",
                             server->port, server->bus_port);
    }
    wait_until_whole(rig, first, total);
    for (uint32_t i = n; i < total; i++) {
        make_replica(rig, first + i, first + i % n);
    }
    return first;
}

void
redis_rig_migrate_begin(struct redis_rig *rig, uint16_t slot, uint32_t from,
                        uint32_t to)
{
    char id[64];

    node_id(rig, from, id);
    (void)redis_rig_must(rig, to, "CLUSTER SETSLOT %d IMPORTING %s", slot, id);
    node_id(rig, to, id);
    (void)redis_rig_must(rig, from, "CLUSTER SETSLOT %d MIGRATING %s", slot,
                         id);
}

void
redis_rig_migrate_end(struct redis_rig *rig, uint16_t slot, uint32_t from,
                      uint32_t to)
{
    char id[64];
    char key[512];

    while (redis_rig_must(rig, from, "CLUSTER GETKEYSINSLOT %d 1", slot)[0] !=
           '\0') {
        assert_true(wp_str_copy(wp_str_from(rig->answer), key, sizeof key));
        if (rig->password != NULL) {
            (void)redis_rig_must(rig, from,
                                 "MIGRATE 127.0.0.1 %d %s 0 5000 AUTH %s",
                                 rig->servers[to].port, key, rig->password);
        } else {
            (void)redis_rig_must(rig, from, "MIGRATE 127.0.0.1 %d %s 0 5000",
                                 rig->servers[to].port, key);
        }
    }
    node_id(rig, to, id);
    (void)redis_rig_must(rig, to, "CLUSTER SETSLOT %d NODE %s", slot, id);
    (void)redis_rig_must(rig, from, "CLUSTER SETSLOT %d NODE %s", slot, id);
}
