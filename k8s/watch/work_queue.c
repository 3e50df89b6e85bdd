#include "k8s/watch/work_queue.h"

#include <event2/event.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/objects/names.h"
#include "pool/base/assert.h"
#include "pool/base/list.h"
#include "pool/base/rng.h"

enum {
    /* Reconciles begun in one go before sockets get their turn. */
    BEGIN_BATCH = 256,
    NOT_DELAYED = -1,
    LAST_PART = 8, /* Of the workers; by default. */
};

#define BACKOFF_MIN_NS (5 * WP_NS_PER_MS)
#define BACKOFF_MAX_NS (60 * WP_NS_PER_S)
/* Of a key that was added while it was worked on, and failed. */
#define AGAIN_PAUSE_MAX_NS WP_NS_PER_S

/* The higher one goes first. */
enum rank {
    LAST,
    USUAL,
    FIRST,
    RANKS
};

/* A key that waits, is being worked on, has a delay set, or has failed. */
struct wp_work {
    struct wp_name_key key; /* First. */
    struct wp_work_queue *queue;
    struct wp_list node; /* In its rank's list; else alone. */
    int64_t due_ns;
    int heap_pos; /* NOT_DELAYED: no delay is set. */
    uint32_t failures;
    enum rank rank;         /* As it waits or runs. */
    enum rank again_rank;   /* As it will, when it has run. */
    enum rank delayed_rank; /* When its delay ends. */
    bool running;
    bool again;  /* Added while running. */
    char text[]; /* What the key points at. */
};

struct wp_work_queue {
    struct wp_work_queue_config config;
    struct wp_rng rng;
    struct event *turn;
    struct wp_list ready[RANKS];
    void *works;           /* A tree by key. */
    struct wp_work **heap; /* By due_ns; the earliest at 0. */
    uint32_t heap_len;
    uint32_t heap_cap;
    uint32_t waiting;
    uint32_t running;
    uint32_t running_last; /* Of these. */
    bool paused;
    uint64_t begun;
    uint64_t failed;
};

/* A controller that has no memory for a key's name cannot go on. */
static void *
must(void *memory)
{
    WP_ASSERT(memory != NULL);
    return memory;
}

/* --- The delayed ones: a binary heap --- */

static void
heap_set(struct wp_work_queue *queue, uint32_t pos, struct wp_work *work)
{
    queue->heap[pos] = work;
    work->heap_pos = (int)pos;
}

static void
heap_up(struct wp_work_queue *queue, uint32_t pos, struct wp_work *work)
{
    while (pos > 0 && queue->heap[(pos - 1) / 2]->due_ns > work->due_ns) {
        heap_set(queue, pos, queue->heap[(pos - 1) / 2]);
        pos = (pos - 1) / 2;
    }
    heap_set(queue, pos, work);
}

static void
heap_down(struct wp_work_queue *queue, uint32_t pos, struct wp_work *work)
{
    for (;;) {
        uint32_t child = 2 * pos + 1;

        if (child + 1 < queue->heap_len &&
            queue->heap[child + 1]->due_ns < queue->heap[child]->due_ns) {
            child++;
        }
        if (child >= queue->heap_len ||
            queue->heap[child]->due_ns >= work->due_ns) {
            break;
        }
        heap_set(queue, pos, queue->heap[child]);
        pos = child;
    }
    heap_set(queue, pos, work);
}

static void
undelay(struct wp_work *work)
{
    struct wp_work_queue *queue = work->queue;
    struct wp_work *last;
    uint32_t pos;

    if (work->heap_pos == NOT_DELAYED) {
        return;
    }
    pos = (uint32_t)work->heap_pos;
    work->heap_pos = NOT_DELAYED;
    last = queue->heap[--queue->heap_len];
    if (last == work) {
        return;
    }
    heap_down(queue, pos, last);
    heap_up(queue, (uint32_t)last->heap_pos, last); /* If it did not go down. */
}

/* An earlier time that is set stays, and so does a higher rank. */
static void
delay(struct wp_work *work, int64_t due_ns, enum rank rank)
{
    struct wp_work_queue *queue = work->queue;

    if (work->heap_pos == NOT_DELAYED || rank > work->delayed_rank) {
        work->delayed_rank = rank;
    }
    if (work->heap_pos != NOT_DELAYED) {
        if (due_ns < work->due_ns) {
            work->due_ns = due_ns;
            heap_up(queue, (uint32_t)work->heap_pos, work);
        }
        return;
    }
    if (queue->heap_len == queue->heap_cap) {
        queue->heap_cap = queue->heap_cap == 0 ? 64 : 2 * queue->heap_cap;
        queue->heap = must(realloc(queue->heap, (size_t)queue->heap_cap *
                                                    sizeof(struct wp_work *)));
    }
    work->due_ns = due_ns;
    heap_up(queue, queue->heap_len++, work);
}

/* --- The keys --- */

static struct wp_work *
find(const struct wp_work_queue *queue, const char *ns, const char *name)
{
    const struct wp_name_key key = {ns, name};
    struct wp_work **found = tfind(&key, &queue->works, wp_name_key_compare);

    return found != NULL ? *found : NULL;
}

static struct wp_work *
find_or_add(struct wp_work_queue *queue, const char *ns, const char *name)
{
    struct wp_work *work = find(queue, ns, name);
    size_t ns_size = strlen(ns) + 1;
    size_t name_size = strlen(name) + 1;

    if (work != NULL) {
        return work;
    }
    work = must(calloc(1, sizeof *work + ns_size + name_size));
    work->queue = queue;
    work->heap_pos = NOT_DELAYED;
    work->key.ns = memcpy(work->text, ns, ns_size);
    work->key.name = memcpy(work->text + ns_size, name, name_size);
    wp_list_init(&work->node);
    (void)must(tsearch(work, &queue->works, wp_name_key_compare));
    return work;
}

/* Frees it when nothing is to be remembered of it any more. */
static void
drop_if_idle(struct wp_work *work)
{
    if (work->running || work->heap_pos != NOT_DELAYED || work->failures > 0 ||
        !wp_list_empty(&work->node)) {
        return;
    }
    (void)tdelete(work, &work->queue->works, wp_name_key_compare);
    free(work);
}

/* --- Turns --- */

/* The list whose turn it is; NULL: none may begin. */
static struct wp_list *
list_in_turn(struct wp_work_queue *queue)
{
    if (queue->running >= queue->config.workers_max) {
        return NULL;
    }
    for (int rank = FIRST; rank > LAST; rank--) {
        if (!wp_list_empty(&queue->ready[rank])) {
            return &queue->ready[rank];
        }
    }
    return !wp_list_empty(&queue->ready[LAST]) &&
                   queue->running_last < queue->config.last_max
               ? &queue->ready[LAST]
               : NULL;
}

static bool
may_begin(struct wp_work_queue *queue)
{
    return list_in_turn(queue) != NULL;
}

/* A turn is never run from within a call of the queue's users: reconcile must
 * not meet a store in the middle of a change. */
static void
arm(struct wp_work_queue *queue)
{
    int64_t wait_ns = 0;
    struct timeval tv;

    if (queue->paused || (!may_begin(queue) && queue->heap_len == 0)) {
        (void)event_del(queue->turn);
        return;
    }
    if (!may_begin(queue)) {
        wait_ns =
            queue->heap[0]->due_ns - wp_clock_mono_ns(queue->config.clock);
    }
    tv = wp_timeval(wait_ns);
    WP_ASSERT(event_add(queue->turn, &tv) == 0);
}

static void
make_ready(struct wp_work *work, enum rank rank)
{
    struct wp_work_queue *queue = work->queue;

    if (work->running) {
        if (!work->again || rank > work->again_rank) {
            work->again_rank = rank;
        }
        work->again = true;
        return;
    }
    if (!wp_list_empty(&work->node)) {
        if (work->rank >= rank) {
            return;
        }
        wp_list_remove(&work->node);
        queue->waiting--;
    }
    work->rank = rank;
    wp_list_push_back(&queue->ready[rank], &work->node);
    queue->waiting++;
}

static void
begin_next(struct wp_work_queue *queue)
{
    struct wp_list *node = wp_list_pop_front(list_in_turn(queue));
    struct wp_work *work = WP_CONTAINER_OF(node, struct wp_work, node);

    queue->waiting--;
    work->running = true;
    queue->running++;
    queue->running_last += work->rank == LAST;
    queue->begun++;
    queue->config.reconcile(queue->config.ctx, work, work->key.ns,
                            work->key.name);
}

static void
on_turn(evutil_socket_t fd, short what, void *ctx)
{
    struct wp_work_queue *queue = ctx;
    int64_t now_ns = wp_clock_mono_ns(queue->config.clock);

    (void)fd;
    (void)what;
    if (queue->paused) {
        return;
    }
    while (queue->heap_len > 0 && queue->heap[0]->due_ns <= now_ns) {
        struct wp_work *work = queue->heap[0];

        undelay(work);
        make_ready(work, work->delayed_rank);
    }
    for (uint32_t i = 0; i < BEGIN_BATCH && may_begin(queue); i++) {
        if (queue->paused) {
            break; /* A reconcile may have paused it. */
        }
        begin_next(queue);
    }
    arm(queue);
}

/* --- Outside --- */

struct wp_work_queue *
wp_work_queue_create(const struct wp_work_queue_config *config)
{
    struct wp_work_queue *queue = calloc(1, sizeof *queue);

    WP_ASSERT(config->workers_max > 0 && config->reconcile != NULL);
    if (queue == NULL) {
        return NULL;
    }
    queue->config = *config;
    if (queue->config.backoff_min_ns == 0) {
        queue->config.backoff_min_ns = BACKOFF_MIN_NS;
    }
    if (queue->config.backoff_max_ns == 0) {
        queue->config.backoff_max_ns = BACKOFF_MAX_NS;
    }
    if (queue->config.last_max == 0) {
        queue->config.last_max = (config->workers_max - 1) / LAST_PART + 1;
    }
    for (int rank = 0; rank < RANKS; rank++) {
        wp_list_init(&queue->ready[rank]);
    }
    wp_rng_init(&queue->rng, config->seed);
    queue->turn = evtimer_new(config->base, on_turn, queue);
    if (queue->turn == NULL) {
        free(queue);
        return NULL;
    }
    return queue;
}

void
wp_work_queue_destroy(struct wp_work_queue *queue)
{
    if (queue == NULL) {
        return;
    }
    WP_ASSERT(queue->running == 0);
    tdestroy(queue->works, free);
    event_free(queue->turn);
    free(queue->heap);
    free(queue);
}

void
wp_work_add(struct wp_work_queue *queue, const char *ns, const char *name,
            bool first)
{
    struct wp_work *work = find_or_add(queue, ns, name);

    undelay(work);
    make_ready(work, first ? FIRST : USUAL);
    arm(queue);
}

void
wp_work_add_last(struct wp_work_queue *queue, const char *ns, const char *name)
{
    make_ready(find_or_add(queue, ns, name), LAST);
    arm(queue);
}

bool
wp_work_is_last(const struct wp_work *work)
{
    return work->rank == LAST;
}

void
wp_work_add_after(struct wp_work_queue *queue, const char *ns, const char *name,
                  int64_t delay_ns)
{
    delay(find_or_add(queue, ns, name),
          wp_time_add(wp_clock_mono_ns(queue->config.clock),
                      delay_ns > 0 ? delay_ns : 0),
          USUAL);
    arm(queue);
}

void
wp_work_forget(struct wp_work_queue *queue, const char *ns, const char *name)
{
    struct wp_work *work = find(queue, ns, name);

    if (work != NULL) {
        undelay(work);
        work->failures = 0;
        drop_if_idle(work);
        arm(queue);
    }
}

static int64_t
backoff(struct wp_work_queue *queue, uint32_t failures)
{
    const struct wp_work_queue_config *config = &queue->config;

    return wp_rng_half(&queue->rng,
                       wp_backoff_ns(config->backoff_min_ns,
                                     config->backoff_max_ns, failures));
}

void
wp_work_done(struct wp_work *work, enum wp_work_outcome outcome,
             int64_t after_ns)
{
    struct wp_work_queue *queue = work->queue;
    int64_t now_ns = wp_clock_mono_ns(queue->config.clock);

    WP_ASSERT(work->running);
    work->running = false;
    queue->running--;
    queue->running_last -= work->rank == LAST;
    if (outcome == WP_WORK_FAILED) {
        queue->failed++;
        work->failures += work->failures < UINT32_MAX ? 1 : 0;
    } else {
        work->failures = 0;
    }
    if (work->again && outcome == WP_WORK_FAILED) {
        /* It may have been added for what it wrote before it failed. */
        int64_t pause_ns = backoff(queue, work->failures);

        work->again = false;
        delay(work,
              wp_time_add(now_ns, pause_ns < AGAIN_PAUSE_MAX_NS
                                      ? pause_ns
                                      : AGAIN_PAUSE_MAX_NS),
              work->again_rank);
    } else if (work->again) {
        work->again = false;
        make_ready(work, work->again_rank);
    } else if (outcome == WP_WORK_FAILED) {
        delay(work, wp_time_add(now_ns, backoff(queue, work->failures)),
              work->rank == LAST ? LAST : USUAL);
    } else if (outcome == WP_WORK_AFTER) {
        delay(work, wp_time_add(now_ns, after_ns > 0 ? after_ns : 0), USUAL);
    } else {
        drop_if_idle(work);
    }
    arm(queue);
}

void
wp_work_pause(struct wp_work_queue *queue, bool paused)
{
    queue->paused = paused;
    arm(queue);
}

void
wp_work_queue_stats(const struct wp_work_queue *queue,
                    struct wp_work_queue_stats *out)
{
    *out = (struct wp_work_queue_stats){
        .waiting = queue->waiting,
        .delayed = queue->heap_len,
        .running = queue->running,
        .begun = queue->begun,
        .failed = queue->failed,
    };
}
