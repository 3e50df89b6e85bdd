/* tests/unit/allocator/stores/redis/store_rig.h - the Redis store with fakes in
 * place of connections, links, groups and the feed. Each call that the store
 * makes downwards is a line of a journal, with all its arguments, and so is
 * what it logs and tells its sink. The program is linked with the wraps that
 * redis_store_test() of CMakeLists.txt lists. */
#ifndef WP_TESTS_UNIT_ALLOCATOR_STORES_REDIS_STORE_RIG_H
#define WP_TESTS_UNIT_ALLOCATOR_STORES_REDIS_STORE_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "allocator/stores/redis/impl.h"
#include "tests/unit/allocator/stores/redis/journal.h"

enum {
    RIG_ANSWERS_MAX = 64,
};

struct rig {
    struct wp_lease_redis *redis;
    /* Of the next connections. */
    enum wp_status open_status;
    uint16_t port;
    const char *run_id;
    uint32_t n_opened;
    bool no_room; /* No group takes a pool. */
    /* What is asked next is answered so, as Redis says it; "!WHY": not at all.
     */
    const char *answers[RIG_ANSWERS_MAX];
    uint32_t n_answers;
    uint32_t n_answered;
    uint32_t n_replies; /* That nobody has freed. */
    uint32_t n_locked;
    void (*on_ask)(void); /* Called before each answer. */
    /* What the router finds. */
    enum wp_status find_status;
    uint16_t found_port;
    /* Of the links; the last command. */
    enum wp_status send_status;
    uint32_t link;
    void *call;
    uint32_t tag;
    struct wp_redis_group *other; /* Where ASK leads. */
    enum wp_status groups_status;
    bool has_heard;
    bool is_of;
    int64_t now_ns;
    int fails_in; /* The allocation of that number fails, from 1. */
    struct wp_err err;
};

extern struct rig rig;
extern const struct wp_redis_router rig_router;

/* Nothing has happened yet; for setup. */
int rig_begin(void **state);
/* The store is gone, all answers were asked for, and no reply is left. */
int rig_end(void **state);
/* Two pools, "ns/a" and "ns/b", one of several replicas. */
struct wp_lease_redis_config rig_config(void);
/* Notes what came of it. */
void rig_create(const struct wp_lease_redis_config *config);

void rig_note_record(const char *what, const struct wp_lease_record *record);
/* The outcome of a call of the store, with rig.err, which is cleared. */
void rig_note_status(enum wp_status status);
void rig_answer(const char *answer);
/* One that is open already, number 8. */
struct wp_redis_sync *rig_connection(void);
/* What stands for the feed. */
struct wp_redis_feed *rig_feed(void);
/* A pool of the configuration, or one that is not. */
const struct wp_lease_redis_pool *rig_pool(const char *name);

#endif
