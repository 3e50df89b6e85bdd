/* tests/unit/allocator/stores/redis/redis_hears_rig.h - a feed by hand, without
 * its thread: what it hears and reads. What lies below it is a plan that writes
 * a journal, as does the sink. A test links the wraps of CMakeLists.txt. */
#ifndef WP_TESTS_UNIT_ALLOCATOR_STORES_REDIS_REDIS_HEARS_RIG_H
#define WP_TESTS_UNIT_ALLOCATOR_STORES_REDIS_REDIS_HEARS_RIG_H

#include "allocator/stores/redis/feed_impl.h"

#define SELF "0123456789abcdef"
#define OTHER "00000000000000a1"

struct hears_plan {
    int poll_result;
    bool woken;
    bool has_come;
    bool take_fails;
    const char *come[8]; /* Replies, until NULL. */
    uint32_t came;
    bool next_fails;
    bool broken;
    bool open_fails;
    /* While a pool is read; NULL: all goes well. */
    enum wp_status (*scan)(const struct wp_redis_scan *scan,
                           struct wp_err *err);
    bool full; /* The receiver; of begins; of ends. */
    bool begin_full;
    bool end_full;
    uint32_t locks; /* Times that the lock of the peers was taken. */
};

extern struct hears_plan plan;
extern int64_t clock_ns;
extern struct wp_lease_redis *redis;
extern struct wp_redis_feed *feed;

/* Pools ns/p and ns/p2 and ns/q, whose generations are 1, 2 and 3. */
void hears_begin(void);
void hears_end(void);
/* Into the journal: pools and counters; the replicas. */
void note_feed(void);
void note_peers(void);
/* Texts are valid until the next one of their kind. */
const char *message_text(const char *channel, const char *payload);
const char *packed_text(const char *pool, uint8_t number);
/* One change, of the record with that number, which is the n-th. */
const char *change_text(const char *writer, unsigned n, const char *pool,
                        uint8_t uid);
struct wp_lease_record record_of(const char *pool, uint8_t number);
/* A message comes. */
void hear(const char *channel, const char *payload);

#endif
