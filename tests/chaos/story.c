#include "tests/chaos/story.h"

#include <string.h>

#include "pool/base/clock.h"

/* A lease that nobody was shown is taken back by then, and a second more for the
 * clients' own clocks and calls. */
#define KEPT_MAX_NS (6 * WP_NS_PER_S)
/* A daemon is not held up while it answers within the one, at least once within
 * the other. */
#define PROMPT_NS (250 * WP_NS_PER_MS)
#define SILENCE_NS WP_NS_PER_S

enum {
    REPLICAS_MAX = 256,
    OK = 0, /* Of gRPC. */
};

/* Does the history show, second by second, that the replica answered promptly?
 * Claims do not count: they may wait for a sandbox. */
static bool
answered_all_along(const struct wp_chaos_history *history, uint8_t replica,
                   int64_t from_ns, int64_t to_ns)
{
    size_t low = 0;
    size_t high = history->n;
    int64_t heard_ns = from_ns;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (history->events[middle].at_ns < from_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (size_t i = low; i < history->n; i++) {
        const struct wp_chaos_event *event = &history->events[i];

        if (event->at_ns > to_ns) {
            break;
        }
        if (event->replica == replica && event->what != WP_CHAOS_CLAIM &&
            event->edge == WP_CHAOS_END && event->status == OK &&
            event->at_ns - event->started_ns < PROMPT_NS) {
            if (event->at_ns - heard_ns > SILENCE_NS) {
                return false;
            }
            heard_ns = event->at_ns;
        }
    }
    return to_ns - heard_ns <= SILENCE_NS;
}

static bool
tells_first(const struct wp_chaos_story *story,
            const struct wp_chaos_event *call)
{
    for (uint32_t i = 0; i < story->n_calls; i++) {
        const struct wp_chaos_event *other = &story->calls[i];

        if (other != call && other->what != WP_CHAOS_RELEASE &&
            wp_chaos_is_answered(other, OK) && other->at_ns <= call->at_ns &&
            memcmp(other->uid, call->uid, WP_UID_LEN) == 0) {
            return false;
        }
    }
    return true;
}

/* When the last caller before this call had gone; INT64_MAX: one may not have,
 * or there was none. */
static int64_t
last_caller_left_ns(const struct wp_chaos_story *story,
                    const struct wp_chaos_event *call)
{
    int64_t left_ns = INT64_MIN;

    for (uint32_t i = 0; i < story->n_calls; i++) {
        const struct wp_chaos_event *other = &story->calls[i];

        if (other == call || other->what != WP_CHAOS_CLAIM) {
            continue;
        }
        if (other->edge != WP_CHAOS_END || other->at_ns > call->started_ns) {
            return INT64_MAX;
        }
        if (other->at_ns > left_ns) {
            left_ns = other->at_ns;
        }
    }
    return left_ns == INT64_MIN ? INT64_MAX : left_ns;
}

/* Could each replica that had been asked see to it all the while? */
static bool
were_free(const struct wp_chaos_history *history,
          const struct wp_chaos_story *story, int64_t from_ns, int64_t to_ns)
{
    bool looked_at[REPLICAS_MAX] = {false};

    for (uint32_t i = 0; i < story->n_calls; i++) {
        const struct wp_chaos_event *call = &story->calls[i];

        if (looked_at[call->replica]) {
            continue;
        }
        looked_at[call->replica] = true;
        if (!answered_all_along(history, call->replica, from_ns, to_ns)) {
            return false;
        }
    }
    return true;
}

/* What a Get says may be late. */
bool
wp_chaos_was_kept(const struct wp_chaos_history *history,
                  const struct wp_chaos_story *story,
                  const struct wp_chaos_event *call)
{
    int64_t since_ns;

    if (call->what != WP_CHAOS_CLAIM || !wp_chaos_is_answered(call, OK) ||
        (call->flags & WP_CHAOS_REPLAYED) == 0 || story->ttl_ns == 0 ||
        !tells_first(story, call)) {
        return false;
    }
    since_ns = last_caller_left_ns(story, call);
    if (since_ns == INT64_MAX) {
        return false;
    }
    if (call->deadline_ns - story->ttl_ns > since_ns) {
        since_ns = call->deadline_ns - story->ttl_ns; /* Granted later. */
    }
    return call->started_ns - since_ns > KEPT_MAX_NS &&
           were_free(history, story, since_ns, call->started_ns);
}
