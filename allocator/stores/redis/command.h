/* allocator/stores/redis/command.h - a commit as the words of a command for
 * Redis.
 *
 * What changes records is one script, which takes one op or several of a pool:
 * then the head stands once, with all keys behind it, and all the rest behind
 * those. Any thread; pure. */
#ifndef WP_ALLOCATOR_STORES_REDIS_COMMAND_H
#define WP_ALLOCATOR_STORES_REDIS_COMMAND_H

#include "allocator/stores/codec.h"
#include "allocator/stores/redis/impl.h"

enum {
    WP_REDIS_COMMAND_WORDS = 16,
};

/* Words lie in the buffers, in the op, or in the pool. */
struct wp_redis_command {
    struct wp_str args[WP_REDIS_COMMAND_WORDS];
    uint32_t n;
    /* Of a command that may go together with others: its head; after that the
     * number of keys (a word), the keys, and the rest. 0: it goes alone, and
     * nobody needs n_keys. */
    uint32_t n_head;
    uint32_t n_keys;
    char generation[WP_REDIS_GENERATION_LEN + 2];
    char field[WP_REDIS_FIELD_LEN + 1];
    char fence[WP_LEASE_NUMBER_LEN];
    char deadline[WP_LEASE_NUMBER_LEN];
    char claim[1 + WP_LEASE_CLAIM_KEY_MAX];
    char packed[WP_LEASE_PACKED_MAX];
    char note_key[WP_REDIS_KEY_MAX + 8];
    char from[24];
    char to[24];
};

/* whole: with the script's text instead of its name; such a command goes alone,
 * as do FETCH, snapshots, and EXPIRE, whose answer may be a record. writer is
 * the feed's name for this replica, or "". */
void wp_redis_command_make(struct wp_redis_command *c,
                           const struct wp_redis_pool *pool,
                           uint64_t generation, struct wp_str writer,
                           const struct wp_lease_op *op, bool whole);

#endif
