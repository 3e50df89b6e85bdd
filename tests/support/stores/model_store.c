#include "tests/support/stores/model_store.h"

#include <string.h>

#include "pool/base/assert.h"
#include "pool/leases/rules.h"

static struct wp_lease_record *
by_uid(struct wp_model_store *store, const uint8_t *uid)
{
    for (size_t i = 0; i < WP_MODEL_RECORDS; i++) {
        struct wp_lease_record *record = &store->records[i];

        if (record->state != WP_RECORD_NONE &&
            memcmp(record->uid, uid, WP_UID_LEN) == 0) {
            return record;
        }
    }
    return NULL;
}

static struct wp_lease_record *
by_claim(struct wp_model_store *store, struct wp_str tenant, struct wp_str id)
{
    for (size_t i = 0; i < WP_MODEL_RECORDS; i++) {
        struct wp_lease_record *record = &store->records[i];

        if (wp_record_is_claimed(record->state) &&
            wp_str_is(id, record->claim_id) &&
            wp_str_is(tenant, record->tenant)) {
            return record;
        }
    }
    return NULL;
}

static struct wp_lease_record *
empty(struct wp_model_store *store)
{
    for (size_t i = 0; i < WP_MODEL_RECORDS; i++) {
        if (store->records[i].state == WP_RECORD_NONE) {
            memset(&store->records[i], 0, sizeof store->records[i]);
            return &store->records[i];
        }
    }
    WP_ASSERT(false);
    return NULL;
}

static void
tell_others(struct wp_model_store *store, const struct wp_model_port *from,
            const struct wp_lease_record *record)
{
    for (size_t i = 0; store->ops.shared && i < WP_MODEL_PORTS; i++) {
        struct wp_model_port *port = &store->ports[i];

        if (port != from && port->used) {
            WP_ASSERT(port->n_feed < WP_MODEL_FEED);
            port->feed[port->n_feed++] = *record;
        }
    }
}

static enum wp_status
carry_out_snapshot(struct wp_model_store *store, const struct wp_lease_op *op)
{
    if (op->kind == WP_LEASE_PUT_SNAPSHOT) {
        WP_ASSERT(op->snapshot->len <= sizeof store->snapshot);
        memcpy(store->snapshot, op->snapshot->bytes, op->snapshot->len);
        store->snapshot_len = op->snapshot->len;
        store->snapshots++;
        return WP_OK;
    }
    if (store->snapshot_len == 0 || store->snapshot_len > op->snapshot->cap) {
        return WP_NOT_FOUND;
    }
    memcpy(op->snapshot->bytes, store->snapshot, store->snapshot_len);
    op->snapshot->len = store->snapshot_len;
    return WP_OK;
}

static enum wp_status
carry_out(struct wp_model_port *port, struct wp_lease_op *op)
{
    struct wp_model_store *store = port->store;
    struct wp_lease_record *claimed =
        op->claim_id.len > 0 ? by_claim(store, op->tenant, op->claim_id) : NULL;
    struct wp_lease_record *record =
        op->kind == WP_LEASE_FETCH && op->claim_id.len > 0
            ? claimed
            : by_uid(store, op->uid);
    struct wp_lease_record before;
    struct wp_lease_record none = {.state = WP_RECORD_NONE};
    enum wp_status status;

    if (op->kind == WP_LEASE_PUT_SNAPSHOT ||
        op->kind == WP_LEASE_GET_SNAPSHOT) {
        return carry_out_snapshot(store, op);
    }
    if (record == NULL) {
        record = op->kind == WP_LEASE_OFFER ? empty(store) : &none;
    }
    before = *record;
    status = wp_lease_rules_apply(op, claimed, record);
    if (op->found != NULL) {
        *op->found = *record;
    }
    if (memcmp(&before, record, sizeof before) != 0) {
        tell_others(store, port, record);
    }
    return status;
}

static enum wp_status
outcome(struct wp_model_port *port, struct wp_lease_op *op)
{
    enum wp_status status = port->fault;

    if (status == WP_OK) {
        return carry_out(port, op);
    }
    if (port->although) {
        (void)carry_out(port, op);
    }
    return status;
}

static enum wp_status
commit(void *self, struct wp_lease_op *op)
{
    struct wp_model_port *port = self;

    port->commits++;
    /* Stores keep the records of each pool by themselves. */
    WP_ASSERT(op->pool.len > 0 && op->pool_namespace.len > 0);
    if (!port->later) {
        return outcome(port, op);
    }
    op->link.next = port->kept;
    port->kept = &op->link;
    return WP_PENDING;
}

void
wp_model_init(struct wp_model_store *store, bool shared)
{
    memset(store, 0, sizeof *store);
    store->ops = (struct wp_lease_store_ops){
        .name = "model", .durable = true, .shared = shared, .commit = commit};
    for (size_t i = 0; i < WP_MODEL_PORTS; i++) {
        store->ports[i].store = store;
    }
}

struct wp_lease_store
wp_model_port(struct wp_model_store *store, uint32_t i)
{
    store->ports[i].used = true;
    return (struct wp_lease_store){&store->ops, &store->ports[i]};
}

uint32_t
wp_model_answer(struct wp_model_store *store, uint32_t i)
{
    struct wp_model_port *port = &store->ports[i];
    struct wp_linked_message *oldest = NULL;
    uint32_t count = 0;

    while (port->kept != NULL) {
        struct wp_linked_message *link = port->kept;

        port->kept = link->next;
        link->next = oldest;
        oldest = link;
    }
    while (oldest != NULL) {
        struct wp_lease_op *op = wp_lease_op_of(oldest);

        oldest = oldest->next;
        op->done(op, outcome(port, op));
        count++;
    }
    return count;
}

void
wp_model_load(const struct wp_model_store *store, struct wp_pools *pools)
{
    for (size_t i = 0; i < WP_MODEL_RECORDS; i++) {
        if (store->records[i].state != WP_RECORD_NONE) {
            wp_pools_on_record(pools, &store->records[i]);
        }
    }
}

uint32_t
wp_model_feed(struct wp_model_store *store, uint32_t i, struct wp_pools *pools)
{
    struct wp_model_port *port = &store->ports[i];
    uint32_t count = port->n_feed;

    for (uint32_t k = 0; k < count; k++) {
        wp_pools_on_record(pools, &port->feed[k]);
    }
    port->n_feed = 0;
    return count;
}

const struct wp_lease_record *
wp_model_claimed(const struct wp_model_store *store, const char *claim_id)
{
    for (size_t i = 0; i < WP_MODEL_RECORDS; i++) {
        const struct wp_lease_record *record = &store->records[i];

        if (wp_record_is_claimed(record->state) &&
            strcmp(record->claim_id, claim_id) == 0) {
            return record;
        }
    }
    return NULL;
}

uint32_t
wp_model_count(const struct wp_model_store *store, enum wp_record_state state)
{
    uint32_t count = 0;

    for (size_t i = 0; i < WP_MODEL_RECORDS; i++) {
        count += store->records[i].state == state ? 1 : 0;
    }
    return count;
}
