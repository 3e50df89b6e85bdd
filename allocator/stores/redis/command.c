#include "allocator/stores/redis/command.h"

#include <stdio.h>

#include "allocator/stores/redis/link/scripts.h"
#include "pool/base/assert.h"

/* Of a snapshot whose pool is gone, seconds: 90 days. It is written again once
 * a minute where there is news. */
#define NOTE_KEPT_S WP_STR("7776000")

/* What the script calls each kind; see the head of commit.lua. */
static const char kind_letters[] = {
    [WP_LEASE_OFFER] = 'o',    [WP_LEASE_GRANT] = 'g', [WP_LEASE_RENEW] = 'n',
    [WP_LEASE_RELEASE] = 'r',  [WP_LEASE_UNDO] = 'u',  [WP_LEASE_EXPIRE] = 'e',
    [WP_LEASE_WITHDRAW] = 'w', [WP_LEASE_LOSE] = 'l',  [WP_LEASE_FORGET] = 'f',
};

static void
add(struct wp_redis_command *c, const char *bytes, size_t len)
{
    WP_ASSERT(c->n < WP_ARRAY_LEN(c->args));
    c->args[c->n++] = (struct wp_str){bytes, len};
}

static void
add_text(struct wp_redis_command *c, struct wp_str text)
{
    add(c, text.ptr, text.len);
}

static void
add_claim_field(struct wp_redis_command *c, const struct wp_lease_op *op)
{
    c->claim[0] = 'c';
    add(c, c->claim,
        1 + wp_lease_pack_claim_key(op->tenant, op->claim_id, c->claim + 1));
}

static void
add_fence(struct wp_redis_command *c, const struct wp_lease_op *op)
{
    wp_lease_pack_number(op->fence, c->fence);
    add(c, c->fence, sizeof c->fence);
}

static void
add_deadline(struct wp_redis_command *c, const struct wp_lease_op *op)
{
    wp_lease_pack_number((uint64_t)op->deadline_wall_ms, c->deadline);
    add(c, c->deadline, sizeof c->deadline);
}

static void
add_script(struct wp_redis_command *c, const struct wp_redis_pool *pool,
           enum wp_redis_script_id script, bool whole)
{
    add_text(c, whole ? WP_STR("EVAL") : WP_STR("EVALSHA"));
    add_text(c, whole ? wp_redis_scripts[script].text
                      : wp_redis_scripts[script].sha);
    add_text(c, WP_STR("1"));
    add(c, pool->key, pool->key_len);
    add(c, c->generation, WP_REDIS_GENERATION_LEN + 1);
}

static void
add_change(struct wp_redis_command *c, const struct wp_lease_op *op)
{
    bool granted = op->kind == WP_LEASE_GRANT;

    c->n_keys = granted ? 2 : 1;
    add_text(c, granted ? WP_STR("2") : WP_STR("1"));
    add(c, c->field, WP_REDIS_FIELD_LEN);
    if (granted) {
        add_claim_field(c, op);
    }
    add(c, &kind_letters[op->kind], 1);
    switch (op->kind) {
    case WP_LEASE_OFFER:
        add(c, c->packed, wp_lease_pack_offer(op, c->packed));
        break;
    case WP_LEASE_GRANT:
        add_fence(c, op);
        add_deadline(c, op);
        add(c, c->packed, wp_lease_pack_claim(op, c->packed));
        break;
    case WP_LEASE_RENEW:
    case WP_LEASE_RELEASE:
    case WP_LEASE_UNDO:
    case WP_LEASE_EXPIRE:
        add_fence(c, op);
        add_deadline(c, op);
        break;
    case WP_LEASE_LOSE:
        add_fence(c, op);
        add(c, c->packed, wp_lease_pack_reason(op->reason, c->packed));
        break;
    case WP_LEASE_WITHDRAW:
    case WP_LEASE_FORGET:
    case WP_LEASE_FETCH: /* No changes. */
    case WP_LEASE_PUT_SNAPSHOT:
    case WP_LEASE_GET_SNAPSHOT:
        break;
    }
}

/* A snapshot is a text of its own beside the pool's hash, in the same slot: no
 * script, no generation. What replies bring is short, so it is read in pieces;
 * who writes between two of them damages what is read, which its checksum
 * shows. */
static void
make_snapshot_command(struct wp_redis_command *c,
                      const struct wp_redis_pool *pool,
                      const struct wp_lease_op *op)
{
    struct wp_str key = {c->note_key,
                         (size_t)snprintf(c->note_key, sizeof c->note_key,
                                          "%s:note", pool->key)};
    size_t at = op->snapshot->len;

    if (op->kind == WP_LEASE_PUT_SNAPSHOT) {
        add_text(c, WP_STR("SET"));
        add_text(c, key);
        add(c, (const char *)op->snapshot->bytes, op->snapshot->len);
        add_text(c, WP_STR("EX"));
        add_text(c, NOTE_KEPT_S);
        return;
    }
    add_text(c, WP_STR("GETRANGE"));
    add_text(c, key);
    add(c, c->from, (size_t)snprintf(c->from, sizeof c->from, "%zu", at));
    add(c, c->to,
        (size_t)snprintf(c->to, sizeof c->to, "%zu",
                         at + WP_REDIS_REPLY_MAX - 1));
}

void
wp_redis_command_make(struct wp_redis_command *c,
                      const struct wp_redis_pool *pool, uint64_t generation,
                      struct wp_str writer, const struct wp_lease_op *op,
                      bool whole)
{
    c->n = 0;
    c->n_head = 0;
    if (op->kind == WP_LEASE_PUT_SNAPSHOT ||
        op->kind == WP_LEASE_GET_SNAPSHOT) {
        make_snapshot_command(c, pool, op);
        return;
    }
    wp_redis_generation_make('o', generation, c->generation);
    wp_redis_field_make(op->uid, c->field);
    if (op->kind == WP_LEASE_FETCH) {
        add_script(c, pool, WP_SCRIPT_FETCH, whole);
        if (op->claim_id.len > 0) {
            add_claim_field(c, op);
        } else {
            add(c, c->field, WP_REDIS_FIELD_LEN);
        }
        return;
    }
    add_script(c, pool, WP_SCRIPT_COMMIT, whole);
    add_text(c, writer);
    c->n_head = whole || op->kind == WP_LEASE_EXPIRE ? 0 : c->n;
    add_change(c, op);
}
