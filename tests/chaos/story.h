/* tests/chaos/story.h - what the checker has read of one claim, and whether a lease
 * of it was kept for nobody. Of checker.c. */
#ifndef WP_TESTS_CHAOS_STORY_H
#define WP_TESTS_CHAOS_STORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/chaos/history.h"

/* A claim whose history is being read. */
struct wp_chaos_story {
    uint64_t claim;
    struct wp_chaos_event *calls; /* Ends, and starts without one. */
    uint32_t n_calls;
    uint32_t cap;
    int64_t ttl_ns; /* As it was asked for; 0: not known. */
    bool used;
};

/* One client's, in the order of time. */
struct wp_chaos_history {
    const struct wp_chaos_event *events;
    size_t n;
};

static inline bool
wp_chaos_is_answered(const struct wp_chaos_event *call, uint8_t status)
{
    return call->edge == WP_CHAOS_END && call->status == status;
}

/* Is the claim answered with a lease that no other answer told of, granted to a
 * caller who had left, or left before the answer, and was that there for too
 * long? False where the history does not show that the replicas were free. */
bool wp_chaos_was_kept(const struct wp_chaos_history *history,
                       const struct wp_chaos_story *story,
                       const struct wp_chaos_event *call);

#endif
