/* tests/support/stores/model_store.h - a durable lease store in memory, for
 * tests.
 *
 * Records change by wp_lease_rules_apply and outlive the pools that use them.
 * Several pools may share one store: each has a port of its own, and is told of
 * what the others changed when the test says so. Single-threaded. */
#ifndef WP_TESTS_SUPPORT_STORES_MODEL_STORE_H
#define WP_TESTS_SUPPORT_STORES_MODEL_STORE_H

#include "pool/lease_store.h"
#include "pool/pool.h"

enum {
    WP_MODEL_RECORDS = 64,
    WP_MODEL_PORTS = 3,
    WP_MODEL_FEED = 4096,
};

struct wp_model_port {
    struct wp_model_store *store;
    bool used; /* Somebody asked for it, and hears of changes. */
    /* What the next commits answer instead of being carried out, when not
     * WP_OK; with `although` they are carried out all the same. */
    enum wp_status fault;
    bool although;
    bool later;                     /* Keep commits until wp_model_answer. */
    struct wp_linked_message *kept; /* Latest first. */
    uint32_t commits;
    struct wp_lease_record feed[WP_MODEL_FEED]; /* Others' changes. */
    uint32_t n_feed;
};

struct wp_model_store {
    struct wp_lease_store_ops ops;
    struct wp_lease_record records[WP_MODEL_RECORDS];
    struct wp_model_port ports[WP_MODEL_PORTS];
    uint8_t snapshot[WP_SNAPSHOT_MAX]; /* Of the one pool that tests have. */
    size_t snapshot_len;               /* 0: there is none. */
    uint32_t snapshots;                /* How often it was written. */
};

void wp_model_init(struct wp_model_store *store, bool shared);
struct wp_lease_store wp_model_port(struct wp_model_store *store, uint32_t i);
/* Carries out and answers what port i kept, in order; returns how many. */
uint32_t wp_model_answer(struct wp_model_store *store, uint32_t i);
/* Tells pools every record: a start. */
void wp_model_load(const struct wp_model_store *store, struct wp_pools *pools);
/* Tells pools what other ports changed since; returns how many records. */
uint32_t wp_model_feed(struct wp_model_store *store, uint32_t i,
                       struct wp_pools *pools);
/* The record that claim_id (of the default tenant) leads to, or NULL. */
const struct wp_lease_record *
wp_model_claimed(const struct wp_model_store *store, const char *claim_id);
/* How many records are in the state. */
uint32_t wp_model_count(const struct wp_model_store *store,
                        enum wp_record_state state);

#endif
