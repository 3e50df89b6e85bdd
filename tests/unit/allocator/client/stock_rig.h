/* tests/unit/allocator/client/stock_rig.h - one stock and its client without a
 * thread, a connection or a clock: what they say, call for and become is noted
 * in one text. */
#ifndef WP_TESTS_UNIT_ALLOCATOR_CLIENT_STOCK_RIG_H
#define WP_TESTS_UNIT_ALLOCATOR_CLIENT_STOCK_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/client/stock_impl.h"
#include "tests/support/base/golden.h"

#define GOLDEN(name) WP_TEST_GOLDEN "/" name ".txt"
#define MS(n) ((n)*WP_NS_PER_MS)
#define BEGIN_NS (1000 * WP_NS_PER_S)
#define WALL_MS INT64_C(1700000000000)
#define NOTE(...) golden_add(&seen, __VA_ARGS__)

enum {
    NOT_FOUND = 5, /* gRPC's. */
    TTL_MS = 60000,
};

extern struct golden seen;
extern struct warmpool client;
extern struct warmpool_stock *stock;
extern int64_t now_ns;
extern bool locked; /* The client's lock. */

/* What is answered below. */
extern bool may_send;
extern bool may_start;
extern bool no_memory;
/* Happens while a thread waits; each wait the next; NULL ends it. */
extern void (*const *script)(void);

int set_up(void **state);
int tear_down(void **state);
/* Of 3 leases for TTL_MS. */
struct warmpool_stock *open_stock(const char *pool);

/* When that is, for people. */
const char *at(int64_t ns);
/* Notes all of the stock, its head, or a slot that is not free. */
void show(void);
void show_head(void);
void show_slot(uint32_t i);

void turn(void);
void turn_at(int64_t ns);
void take(void);
/* Nothing is to be taken any more. */
void drain(void);

/* Connected, and the stream is answered. */
void bring_open(void);
/* What the daemon says on the stream. Of numbers that are 0: nothing. */
bool hear(const struct wp_wire_stream_response *response);
void hear_leases(uint64_t first, uint32_t n, int64_t for_ms);
void hear_of(uint64_t taken, uint64_t ended);
void stream_ends(int status, const char *details);

/* As the client's thread does, with what is first in the queue. */
struct wp_job *start_job(void);
void answer(struct wp_job *job, int status);
void answer_renewal(struct wp_job *job, uint8_t token, int64_t deadline_ms);

#endif
