/* tests/support/pool/replica_rig.h - processes on one durable store, in one
 * test.
 *
 * Each replica is a core with a fake backend; all share replica_store and
 * replica_clock. Single-threaded; what does not hold fails the test. */
#ifndef WP_TESTS_SUPPORT_POOL_REPLICA_RIG_H
#define WP_TESTS_SUPPORT_POOL_REPLICA_RIG_H

#include "pool/pool.h"
#include "tests/support/pool/fake_backend.h"
#include "tests/support/pool/manual_clock.h"
#include "tests/support/stores/model_store.h"
#include "tests/support/pool/pool_rig.h"

enum {
    SLOTS = 16
};

/* One process on the replica_store. The first of them is the keeper. */
struct replica {
    struct wp_model_store *store;
    struct wp_clock_manual *clock;
    uint32_t port;
    struct wp_fake_backend backend;
    struct wp_pools *pools;
};

extern struct wp_model_store replica_store;
extern struct wp_clock_manual replica_clock;

/* For cmocka: a new store and clock; the store alone, or shared. */
int replica_set_up(void **state);
int replica_set_up_shared(void **state);
/* A process starts on the store's records, with one pool of that target. */
void replica_open(struct replica *r, uint32_t port, uint32_t target,
                  bool keeper);
/* The policies of the pools that are opened from now on; set_up makes it plain.
 */
extern struct wp_scale_policy replica_policy;
/* Memory for the record of their claims; 0: none is kept, and no snapshots of
 * pools without an objective. set_up makes it 256 KiB. */
extern size_t replica_history_max;
/* Processes that are opened from now on offer what records say is idle only once
 * it is seen; set_up clears it. */
extern bool replica_holds;
/* How often control of any of them was woken. */
extern uint32_t replica_wakes;
/* What the core said of snapshots that it could not read or write, latest
 * last. */
extern struct wp_err replica_unlearned;
/* It ends, as by kill -9: nothing is said to the store. */
void replica_close(struct replica *r);
/* Turns until nothing more happens, and what others did is heard. */
void replica_settle(struct replica *r);
void replica_settle_both(struct replica *a, struct replica *b);
/* Every sandbox that the records name is found alive, but for the first skip of
 * them. */
void replica_adopt_all(struct replica *r, uint32_t skip);
struct wp_pool_stats replica_stats(struct replica *r);
/* Claims of pool "default/p", for 60 s and without waiting; turns as long as
 * the store is being asked. */
enum wp_status replica_claim(struct replica *r, struct wp_rig_claim *c,
                             const char *id);
/* Renews (by 120 s) or releases by c's token; was_held may be NULL. */
enum wp_status replica_change(struct replica *r, const struct wp_rig_claim *c,
                              bool renew, bool *was_held);
/* Has r tell what it knows (see wp_pools_known_records): how many records of
 * that kind. The store has each of them, the very same unless r retires. */
uint32_t replica_records(struct replica *r, bool retire,
                         enum wp_record_state kind);

#endif
