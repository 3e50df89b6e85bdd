#include "pool/leases/rules.h"

#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/mutant.h"

/* Text is within its limit: it was checked when it came in. */
static void
copy_text(char *out, size_t cap, struct wp_str text)
{
    WP_ASSERT(text.len < cap);
    if (text.len > 0) {
        memcpy(out, text.ptr, text.len);
    }
    out[text.len] = '\0';
}

#define COPY_TEXT(field, text) copy_text(field, sizeof(field), text)

static void
set_sandbox(const struct wp_lease_op *op, struct wp_lease_record *record)
{
    memset(record, 0, sizeof *record);
    memcpy(record->uid, op->uid, sizeof record->uid);
    COPY_TEXT(record->pool_namespace, op->pool_namespace);
    COPY_TEXT(record->pool, op->pool);
    COPY_TEXT(record->sandbox, op->sandbox);
    COPY_TEXT(record->endpoint, op->endpoint);
    record->fence = op->fence;
    record->state = WP_RECORD_OPEN;
}

static void
set_claim(const struct wp_lease_op *op, struct wp_lease_record *record)
{
    COPY_TEXT(record->claim_id, op->claim_id);
    COPY_TEXT(record->tenant, op->tenant);
    record->fence = op->fence;
    record->deadline_wall_ms = op->deadline_wall_ms;
    record->granted_wall_ms = op->granted_wall_ms;
    record->fingerprint = op->fingerprint;
    record->served = op->served;
    record->state = WP_RECORD_HELD;
}

static void
clear_claim(struct wp_lease_record *record, enum wp_record_state state)
{
    memset(record->claim_id, 0, sizeof record->claim_id);
    memset(record->tenant, 0, sizeof record->tenant);
    memset(record->lost_reason, 0, sizeof record->lost_reason);
    record->deadline_wall_ms = 0;
    record->granted_wall_ms = 0;
    record->fingerprint = 0;
    record->served = 0;
    record->state = state;
}

static enum wp_status
grant(const struct wp_lease_op *op, const struct wp_lease_record *claimed,
      struct wp_lease_record *record)
{
    if (claimed != NULL) {
        return WP_ALREADY_EXISTS;
    }
    switch (record->state) {
    case WP_RECORD_OPEN:
        if (op->fence <= record->fence && !WP_MUTANT(NO_FENCE_CHECK)) {
            return WP_ABORTED;
        }
        set_claim(op, record);
        return WP_OK;
    case WP_RECORD_HELD:
        if (WP_MUTANT(NO_FENCE_CHECK)) {
            set_claim(op, record);
            return WP_OK;
        }
        return WP_TAKEN;
    case WP_RECORD_LOST:
    case WP_RECORD_ENDED:
        return WP_TAKEN;
    case WP_RECORD_NONE:
        break;
    }
    return WP_NOT_FOUND;
}

/* RENEW, RELEASE, UNDO, EXPIRE and LOSE of a record that a claim holds, by the
 * same fence. */
static enum wp_status
change_held(const struct wp_lease_op *op, struct wp_lease_record *record)
{
    bool lost = record->state == WP_RECORD_LOST;

    if (op->kind == WP_LEASE_RENEW) {
        if (lost) {
            return WP_FAILED_PRECONDITION;
        }
        if (op->deadline_wall_ms > record->deadline_wall_ms) {
            record->deadline_wall_ms = op->deadline_wall_ms;
        }
    } else if (op->kind == WP_LEASE_LOSE) {
        if (!lost) {
            COPY_TEXT(record->lost_reason, op->reason);
            record->state = WP_RECORD_LOST;
        }
    } else if (op->kind != WP_LEASE_RELEASE &&
               record->deadline_wall_ms != op->deadline_wall_ms &&
               !WP_MUTANT(EXPIRE_THOUGH_RENEWED)) {
        return WP_ABORTED;
    } else if (op->kind == WP_LEASE_UNDO && !lost) {
        clear_claim(record, WP_RECORD_OPEN);
    } else {
        clear_claim(record, WP_RECORD_ENDED);
    }
    return WP_OK;
}

static enum wp_status
change_lease(const struct wp_lease_op *op, struct wp_lease_record *record)
{
    if (wp_record_is_claimed(record->state)) {
        if (op->fence != record->fence && !WP_MUTANT(NO_FENCE_CHECK)) {
            return op->fence < record->fence ? WP_ABORTED : WP_NOT_FOUND;
        }
        return change_held(op, record);
    }
    if (op->kind == WP_LEASE_UNDO && record->state == WP_RECORD_OPEN &&
        op->fence == record->fence) {
        return WP_OK;
    }
    return WP_NOT_FOUND;
}

static enum wp_status
offer(const struct wp_lease_op *op, struct wp_lease_record *record)
{
    if (record->state == WP_RECORD_NONE) {
        set_sandbox(op, record);
        return WP_OK;
    }
    if (WP_MUTANT(USED_ADOPTED) && record->state == WP_RECORD_ENDED) {
        record->state = WP_RECORD_OPEN;
    }
    return record->state == WP_RECORD_OPEN ? WP_OK : WP_TAKEN;
}

static enum wp_status
withdraw(struct wp_lease_record *record)
{
    if (record->state == WP_RECORD_NONE) {
        return WP_NOT_FOUND;
    }
    if (wp_record_is_claimed(record->state)) {
        return WP_TAKEN;
    }
    record->state = WP_RECORD_ENDED;
    return WP_OK;
}

enum wp_status
wp_lease_rules_apply(const struct wp_lease_op *op,
                     const struct wp_lease_record *claimed,
                     struct wp_lease_record *record)
{
    switch (op->kind) {
    case WP_LEASE_OFFER:
        return offer(op, record);
    case WP_LEASE_GRANT:
        return grant(op, claimed, record);
    case WP_LEASE_RENEW:
    case WP_LEASE_RELEASE:
    case WP_LEASE_UNDO:
    case WP_LEASE_EXPIRE:
    case WP_LEASE_LOSE:
        return change_lease(op, record);
    case WP_LEASE_WITHDRAW:
        return withdraw(record);
    case WP_LEASE_FETCH:
        return record->state == WP_RECORD_NONE ? WP_NOT_FOUND : WP_OK;
    case WP_LEASE_FORGET:
        break;
    case WP_LEASE_PUT_SNAPSHOT:
    case WP_LEASE_GET_SNAPSHOT:
        WP_ASSERT(false); /* They concern no record. */
    }
    if (wp_record_is_claimed(record->state)) {
        return WP_TAKEN;
    }
    record->state = WP_RECORD_NONE;
    return WP_OK;
}
