/* The queue of keys: once each, never two reconciles of one key, pauses that
 * grow, and an order. On a clock that moves when told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <event2/event.h>

#include "k8s/watch/work_queue.h"
#include "pool/base/rng.h"
#include "tests/support/pool/manual_clock.h"

enum {
    SEEN_MAX = 4096
};

struct rig {
    struct event_base *base;
    struct wp_clock_manual clock;
    struct wp_work_queue *queue;
    /* What was begun, in order; its work until done. */
    char seen[SEEN_MAX][16];
    struct wp_work *under_way[SEEN_MAX];
    size_t seen_len;
    bool ends_at_once;
    enum wp_work_outcome outcome;
    int64_t after_ns;
};

static void
reconcile(void *ctx, struct wp_work *work, const char *ns, const char *name)
{
    struct rig *rig = ctx;

    assert_true(rig->seen_len < SEEN_MAX);
    (void)snprintf(rig->seen[rig->seen_len], sizeof rig->seen[0], "%s/%s", ns,
                   name);
    rig->under_way[rig->seen_len] = work;
    rig->seen_len++;
    if (rig->ends_at_once) {
        wp_work_done(work, rig->outcome, rig->after_ns);
    }
}

static void
rig_init(struct rig *rig, uint32_t workers)
{
    memset(rig, 0, sizeof *rig);
    rig->base = event_base_new();
    assert_non_null(rig->base);
    wp_clock_manual_init(&rig->clock, WP_NS_PER_S, WP_NS_PER_S);
    rig->queue = wp_work_queue_create(&(struct wp_work_queue_config){
        .base = rig->base,
        .clock = &rig->clock.clock,
        .workers_max = workers,
        .seed = 7,
        .reconcile = reconcile,
        .ctx = rig,
    });
    assert_non_null(rig->queue);
}

/* Runs what may run now. */
static void
turn(struct rig *rig)
{
    struct wp_work_queue_stats before;
    struct wp_work_queue_stats after;

    wp_work_pause(rig->queue, false); /* Looks at the clock again. */
    do {
        wp_work_queue_stats(rig->queue, &before);
        assert_int_not_equal(event_base_loop(rig->base, EVLOOP_NONBLOCK), -1);
        wp_work_queue_stats(rig->queue, &after);
    } while (after.begun != before.begun || after.delayed != before.delayed);
}

static void
advance(struct rig *rig, int64_t ns)
{
    wp_clock_manual_advance(&rig->clock, ns);
    turn(rig);
}

static void
end(struct rig *rig, size_t i, enum wp_work_outcome outcome)
{
    wp_work_done(rig->under_way[i], outcome, 0);
    rig->under_way[i] = NULL;
}

static void
rig_fini(struct rig *rig)
{
    wp_work_queue_destroy(rig->queue);
    event_base_free(rig->base);
}

/* A key is in it once, and nothing runs from within add. */
static void
once(void **state)
{
    static struct rig rig;

    (void)state;
    rig_init(&rig, 4);
    wp_work_add(rig.queue, "ns", "a", false);
    wp_work_add(rig.queue, "ns", "a", false);
    wp_work_add(rig.queue, "n", "sa", false); /* Another key. */
    assert_int_equal(rig.seen_len, 0);
    turn(&rig);
    assert_int_equal(rig.seen_len, 2);
    assert_string_equal(rig.seen[0], "ns/a");
    assert_string_equal(rig.seen[1], "n/sa");
    end(&rig, 0, WP_WORK_OK);
    end(&rig, 1, WP_WORK_OK);
    turn(&rig);
    assert_int_equal(rig.seen_len, 2);
    rig_fini(&rig);
}

/* What is added while it is worked on is worked on again, afterwards. */
static void
again(void **state)
{
    static struct rig rig;

    (void)state;
    rig_init(&rig, 4);
    wp_work_add(rig.queue, "ns", "a", false);
    turn(&rig);
    wp_work_add(rig.queue, "ns", "a", false);
    wp_work_add(rig.queue, "ns", "a", true);
    turn(&rig);
    assert_int_equal(rig.seen_len, 1);
    end(&rig, 0, WP_WORK_OK);
    turn(&rig);
    assert_int_equal(rig.seen_len, 2); /* At once: something is new. */
    end(&rig, 1, WP_WORK_OK);
    turn(&rig);
    assert_int_equal(rig.seen_len, 2);
    rig_fini(&rig);
}

/* What fails and has itself added meanwhile is no exception from the pauses;
 * but what may be news waits for a second at most. */
static void
again_and_failed(void **state)
{
    static struct rig rig;

    (void)state;
    rig_init(&rig, 1);
    wp_work_add(rig.queue, "ns", "a", false);
    turn(&rig);
    for (uint32_t i = 0; i < 20; i++) {
        wp_work_add(rig.queue, "ns", "a", false);
        end(&rig, i, WP_WORK_FAILED);
        turn(&rig);
        assert_int_equal(rig.seen_len, i + 1);
        advance(&rig, WP_NS_PER_S);
        assert_int_equal(rig.seen_len, i + 2);
    }
    end(&rig, 20, WP_WORK_OK);
    rig_fini(&rig);
}

/* Those added with first go ahead, also when they waited behind others. */
static void
order(void **state)
{
    static struct rig rig;

    (void)state;
    rig_init(&rig, 1);
    rig.ends_at_once = true;
    wp_work_add(rig.queue, "ns", "a", false);
    wp_work_add(rig.queue, "ns", "b", false);
    wp_work_add(rig.queue, "ns", "c", true);
    wp_work_add(rig.queue, "ns", "b", true);
    wp_work_add(rig.queue, "ns", "c", false); /* Stays ahead. */
    turn(&rig);
    assert_int_equal(rig.seen_len, 3);
    assert_string_equal(rig.seen[0], "ns/c");
    assert_string_equal(rig.seen[1], "ns/b");
    assert_string_equal(rig.seen[2], "ns/a");
    rig_fini(&rig);
}

static void
add_last(struct rig *rig, char letter, unsigned n)
{
    char name[16];

    for (unsigned i = 0; i < n; i++) {
        (void)snprintf(name, sizeof name, "%c%u", letter, i);
        wp_work_add_last(rig->queue, "ns", name);
    }
}

/* However many are last, they leave workers to the others, which go first; one
 * that is added otherwise has its better place. */
static void
last(void **state)
{
    static struct rig rig;

    (void)state;
    rig_init(&rig, 16); /* An eighth of them is 2. */
    add_last(&rig, 'l', 100);
    wp_work_add(rig.queue, "ns", "a", false);
    turn(&rig);
    assert_int_equal(rig.seen_len, 3);
    assert_string_equal(rig.seen[0], "ns/a");
    assert_false(wp_work_is_last(rig.under_way[0]));
    assert_string_equal(rig.seen[1], "ns/l0");
    assert_true(wp_work_is_last(rig.under_way[1]));
    assert_string_equal(rig.seen[2], "ns/l1");
    wp_work_add(rig.queue, "ns", "l50", false);
    wp_work_add(rig.queue, "ns", "l60", true);
    wp_work_add_last(rig.queue, "ns", "l60"); /* Stays ahead. */
    turn(&rig);
    assert_int_equal(rig.seen_len, 5);
    assert_string_equal(rig.seen[3], "ns/l60");
    assert_string_equal(rig.seen[4], "ns/l50");
    assert_false(wp_work_is_last(rig.under_way[4]));
    /* Only the end of one of the last lets another one begin. */
    end(&rig, 0, WP_WORK_OK);
    turn(&rig);
    assert_int_equal(rig.seen_len, 5);
    end(&rig, 1, WP_WORK_OK);
    turn(&rig);
    assert_int_equal(rig.seen_len, 6);
    assert_string_equal(rig.seen[5], "ns/l2");
    for (size_t i = 2; i < 6; i++) {
        end(&rig, i, WP_WORK_OK);
    }
    rig.ends_at_once = true;
    turn(&rig);
    assert_int_equal(rig.seen_len, 101); /* Each once. */
    rig_fini(&rig);
}

/* What waits behind all others asks for itself again; what has failed there is
 * tried again there; what a delay was set for keeps its place of then. */
static void
last_again(void **state)
{
    static struct rig rig;
    struct wp_work_queue_stats stats;

    (void)state;
    rig_init(&rig, 2); /* One of them for the last. */
    wp_work_add(rig.queue, "ns", "a", false);
    turn(&rig);
    wp_work_add_last(rig.queue, "ns", "a");
    end(&rig, 0, WP_WORK_OK);
    turn(&rig);
    assert_int_equal(rig.seen_len, 2);
    assert_true(wp_work_is_last(rig.under_way[1]));
    wp_work_add_last(rig.queue, "ns", "b");
    turn(&rig);
    assert_int_equal(rig.seen_len, 2); /* Its worker is taken. */
    end(&rig, 1, WP_WORK_FAILED);
    turn(&rig);
    assert_int_equal(rig.seen_len, 3);
    assert_string_equal(rig.seen[2], "ns/b");
    advance(&rig, WP_NS_PER_S);
    assert_int_equal(rig.seen_len, 3); /* "a" is due, and last. */
    wp_work_queue_stats(rig.queue, &stats);
    assert_int_equal(stats.waiting, 1);
    wp_work_add_after(rig.queue, "ns", "a", WP_NS_PER_S);
    advance(&rig, WP_NS_PER_S);
    assert_int_equal(rig.seen_len, 4);
    assert_string_equal(rig.seen[3], "ns/a");
    assert_false(wp_work_is_last(rig.under_way[3]));
    /* Added with a better place while it runs. */
    wp_work_add_last(rig.queue, "ns", "a");
    wp_work_add(rig.queue, "ns", "a", false);
    wp_work_add_last(rig.queue, "ns", "a");
    end(&rig, 3, WP_WORK_OK);
    turn(&rig);
    assert_int_equal(rig.seen_len, 5);
    assert_false(wp_work_is_last(rig.under_way[4]));
    end(&rig, 2, WP_WORK_OK);
    end(&rig, 4, WP_WORK_OK);
    rig_fini(&rig);
}

/* Never more under way than there are workers. */
static void
workers(void **state)
{
    static struct rig rig;
    struct wp_work_queue_stats stats;

    (void)state;
    rig_init(&rig, 2);
    wp_work_add(rig.queue, "ns", "a", false);
    wp_work_add(rig.queue, "ns", "b", false);
    wp_work_add(rig.queue, "ns", "c", false);
    turn(&rig);
    assert_int_equal(rig.seen_len, 2);
    wp_work_queue_stats(rig.queue, &stats);
    assert_int_equal(stats.running, 2);
    assert_int_equal(stats.waiting, 1);
    end(&rig, 0, WP_WORK_OK);
    turn(&rig);
    assert_int_equal(rig.seen_len, 3);
    end(&rig, 1, WP_WORK_OK);
    end(&rig, 2, WP_WORK_OK);
    rig_fini(&rig);
}

/* Each failure doubles the pause, up to the longest; a success ends that. */
static void
pauses_grow(void **state)
{
    static struct rig rig;
    int64_t pause_ns = 5 * WP_NS_PER_MS;

    (void)state;
    rig_init(&rig, 1);
    rig.ends_at_once = true;
    rig.outcome = WP_WORK_FAILED;
    wp_work_add(rig.queue, "ns", "a", false);
    turn(&rig);
    for (size_t i = 1; i < 40; i++) {
        assert_int_equal(rig.seen_len, i);
        advance(&rig, pause_ns / 2 - 1);
        assert_int_equal(rig.seen_len, i); /* Half of it is certain. */
        advance(&rig, pause_ns / 2 + 1);
        pause_ns *= 2;
        if (pause_ns > 60 * WP_NS_PER_S) {
            pause_ns = 60 * WP_NS_PER_S;
        }
    }
    assert_int_equal(rig.seen_len, 40);
    rig.outcome = WP_WORK_OK;
    advance(&rig, pause_ns);
    rig.outcome = WP_WORK_FAILED;
    wp_work_add(rig.queue, "ns", "a", false);
    turn(&rig);
    assert_int_equal(rig.seen_len, 42);
    advance(&rig, 5 * WP_NS_PER_MS);
    assert_int_equal(rig.seen_len, 43); /* From the beginning. */
    rig_fini(&rig);
}

/* The earlier of two times stays; add ends what was set. */
static void
delays(void **state)
{
    static struct rig rig;

    (void)state;
    rig_init(&rig, 4);
    rig.ends_at_once = true;
    wp_work_add_after(rig.queue, "ns", "a", 20 * WP_NS_PER_S);
    wp_work_add_after(rig.queue, "ns", "a", 10 * WP_NS_PER_S);
    wp_work_add_after(rig.queue, "ns", "a", 30 * WP_NS_PER_S);
    wp_work_add_after(rig.queue, "ns", "b", 15 * WP_NS_PER_S);
    advance(&rig, 10 * WP_NS_PER_S - 1);
    assert_int_equal(rig.seen_len, 0);
    advance(&rig, 1);
    assert_int_equal(rig.seen_len, 1);
    assert_string_equal(rig.seen[0], "ns/a");
    wp_work_add(rig.queue, "ns", "b", false);
    turn(&rig);
    assert_int_equal(rig.seen_len, 2);
    advance(&rig, 60 * WP_NS_PER_S);
    assert_int_equal(rig.seen_len, 2);
    rig_fini(&rig);
}

/* A reconcile that asks for a later look gets it, and may ask for it before it
 * ends. */
static void
after(void **state)
{
    static struct rig rig;

    (void)state;
    rig_init(&rig, 4);
    wp_work_add(rig.queue, "ns", "a", false);
    turn(&rig);
    wp_work_add_after(rig.queue, "ns", "a", WP_NS_PER_S);
    end(&rig, 0, WP_WORK_OK);
    advance(&rig, WP_NS_PER_S);
    assert_int_equal(rig.seen_len, 2);
    wp_work_done(rig.under_way[1], WP_WORK_AFTER, 2 * WP_NS_PER_S);
    advance(&rig, 2 * WP_NS_PER_S - 1);
    assert_int_equal(rig.seen_len, 2);
    advance(&rig, 1);
    assert_int_equal(rig.seen_len, 3);
    end(&rig, 2, WP_WORK_OK);
    rig_fini(&rig);
}

/* The object is gone: neither its delay nor its failures are remembered. */
static void
forget(void **state)
{
    static struct rig rig;
    struct wp_work_queue_stats stats;

    (void)state;
    rig_init(&rig, 4);
    rig.ends_at_once = true;
    rig.outcome = WP_WORK_FAILED;
    wp_work_add(rig.queue, "ns", "a", false);
    turn(&rig);
    wp_work_forget(rig.queue, "ns", "a");
    wp_work_forget(rig.queue, "ns", "unknown");
    wp_work_queue_stats(rig.queue, &stats);
    assert_int_equal(stats.delayed, 0);
    advance(&rig, 60 * WP_NS_PER_S);
    assert_int_equal(rig.seen_len, 1);
    assert_int_equal(stats.failed, 1);
    rig_fini(&rig);
}

/* Whichever of many is forgotten or moved to an earlier time, each of the others
 * comes at its own time. */
static void
many_delays(void **state)
{
    enum {
        KEYS = 40
    };
    static struct rig rig;

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        int64_t due_s[KEYS]; /* 0: none. */
        struct wp_rng rng;

        wp_rng_init(&rng, seed);
        rig_init(&rig, KEYS);
        rig.ends_at_once = true;
        for (int i = 0; i < KEYS; i++) {
            char name[16];

            (void)snprintf(name, sizeof name, "%d", i);
            due_s[i] = 1 + (int64_t)wp_rng_below(&rng, 30);
            wp_work_add_after(rig.queue, "ns", name, due_s[i] * WP_NS_PER_S);
        }
        for (int n = 0; n < KEYS / 2; n++) {
            int i = (int)wp_rng_below(&rng, KEYS);
            char name[16];

            (void)snprintf(name, sizeof name, "%d", i);
            if (wp_rng_below(&rng, 3) > 0) {
                wp_work_forget(rig.queue, "ns", name);
                due_s[i] = 0;
            } else if (due_s[i] > 1) {
                due_s[i] = 1 + (int64_t)wp_rng_below(&rng, 5) % due_s[i];
                wp_work_add_after(rig.queue, "ns", name,
                                  due_s[i] * WP_NS_PER_S);
            }
        }
        for (int64_t now_s = 1; now_s <= 30; now_s++) {
            bool seen[KEYS] = {false};
            size_t from = rig.seen_len;

            advance(&rig, WP_NS_PER_S);
            for (size_t k = from; k < rig.seen_len; k++) {
                seen[atoi(rig.seen[k] + 3)] = true;
            }
            for (int i = 0; i < KEYS; i++) {
                if (seen[i] != (due_s[i] == now_s)) {
                    fail_msg("seed %d: %d at %d s", (int)seed, i, (int)now_s);
                }
            }
        }
        rig_fini(&rig);
    }
}

/* Paused, nothing begins; what came meanwhile begins afterwards. */
static void
pause_and_go_on(void **state)
{
    static struct rig rig;

    (void)state;
    rig_init(&rig, 4);
    rig.ends_at_once = true;
    wp_work_pause(rig.queue, true);
    wp_work_add(rig.queue, "ns", "a", false);
    wp_work_add_after(rig.queue, "ns", "b", WP_NS_PER_S);
    wp_clock_manual_advance(&rig.clock, WP_NS_PER_S);
    assert_int_not_equal(event_base_loop(rig.base, EVLOOP_NONBLOCK), -1);
    assert_int_equal(rig.seen_len, 0);
    turn(&rig);
    assert_int_equal(rig.seen_len, 2);
    rig_fini(&rig);
}

/* The real timer wakes the loop, without anybody calling the queue. */
static void
wakes_by_itself(void **state)
{
    static struct rig rig;

    (void)state;
    rig_init(&rig, 1);
    rig.ends_at_once = true;
    wp_work_queue_destroy(rig.queue);
    rig.queue = wp_work_queue_create(&(struct wp_work_queue_config){
        .base = rig.base,
        .clock = wp_clock_system(),
        .workers_max = 1,
        .reconcile = reconcile,
        .ctx = &rig,
    });
    assert_non_null(rig.queue);
    wp_work_add_after(rig.queue, "ns", "b", 500 * WP_NS_PER_MS);
    wp_work_add_after(rig.queue, "ns", "a", WP_NS_PER_MS);
    while (rig.seen_len < 2) {
        assert_int_equal(event_base_loop(rig.base, EVLOOP_ONCE), 0);
    }
    assert_string_equal(rig.seen[0], "ns/a");
    assert_string_equal(rig.seen[1], "ns/b");
    rig_fini(&rig);
}

/* What a key's life must look like, in a few words. */
struct model {
    bool waits;
    bool runs;
    bool again;
    int64_t due_ns; /* -1: none. */
};

enum {
    KEYS = 40,
    STEPS = 20000
};

struct walk {
    struct rig *rig;
    struct model keys[KEYS];
    struct wp_work *works[KEYS];
};

static void
walk_reconcile(void *ctx, struct wp_work *work, const char *ns,
               const char *name)
{
    struct walk *walk = ctx;
    unsigned key = 0;

    assert_string_equal(ns, "ns");
    assert_int_equal(sscanf(name, "k%u", &key), 1);
    assert_true(key < KEYS);
    /* Due ones enter in the turn that begins them. */
    if (!walk->keys[key].waits) {
        assert_true(walk->keys[key].due_ns >= 0 &&
                    walk->keys[key].due_ns <= walk->rig->clock.now_mono_ns);
        walk->keys[key].due_ns = -1;
    }
    assert_false(walk->keys[key].runs);
    walk->keys[key].waits = false;
    walk->keys[key].runs = true;
    walk->works[key] = work;
}

static void
walk_step(struct walk *walk, struct wp_rng *rng)
{
    struct rig *rig = walk->rig;
    unsigned key = (unsigned)wp_rng_below(rng, KEYS);
    struct model *model = &walk->keys[key];
    int64_t wait_ns =
        (int64_t)wp_rng_below(rng, wp_rng_below(rng, 2) == 0 ? 50 : 1000);
    char name[8];

    (void)snprintf(name, sizeof name, "k%u", key);
    switch (wp_rng_below(rng, 7)) {
    case 6:
        wp_work_add_last(rig->queue, "ns", name);
        *(model->runs ? &model->again : &model->waits) = true;
        break;
    case 0:
        wp_work_add(rig->queue, "ns", name, wp_rng_below(rng, 2) == 0);
        model->due_ns = -1;
        *(model->runs ? &model->again : &model->waits) = true;
        break;
    case 1:
        wp_work_add_after(rig->queue, "ns", name, wait_ns);
        if (model->due_ns < 0 ||
            rig->clock.now_mono_ns + wait_ns < model->due_ns) {
            model->due_ns = rig->clock.now_mono_ns + wait_ns;
        }
        break;
    case 2:
        wp_work_forget(rig->queue, "ns", name);
        model->due_ns = -1;
        break;
    case 3:
    case 4:
        if (model->runs) {
            model->runs = false;
            model->waits = model->again;
            if (!model->again &&
                (model->due_ns < 0 ||
                 rig->clock.now_mono_ns + wait_ns < model->due_ns)) {
                model->due_ns = rig->clock.now_mono_ns + wait_ns;
            }
            model->again = false;
            wp_work_done(walk->works[key], WP_WORK_AFTER, wait_ns);
        }
        break;
    default:
        for (unsigned i = 0; i < KEYS; i++) {
            struct model *each = &walk->keys[i];

            /* A delay that ends while it runs asks for another round. */
            if (each->due_ns >= 0 && each->runs &&
                each->due_ns <= rig->clock.now_mono_ns + wait_ns) {
                each->due_ns = -1;
                each->again = true;
            } else if (each->due_ns >= 0 && each->waits &&
                       each->due_ns <= rig->clock.now_mono_ns + wait_ns) {
                each->due_ns = -1;
            }
        }
        advance(rig, wait_ns);
        for (unsigned i = 0; i < KEYS; i++) {
            assert_true(walk->keys[i].due_ns < 0 ||
                        walk->keys[i].due_ns > rig->clock.now_mono_ns);
        }
        break;
    }
}

/* Random steps against the model: each key that should wait waits or runs, no
 * key is lost and none runs twice. */
static void
random_walk(void **state)
{
    static struct rig rig;
    static struct walk walk;
    struct wp_rng rng;

    (void)state;
    rig_init(&rig, KEYS);
    wp_work_queue_destroy(rig.queue);
    walk.rig = &rig;
    for (size_t i = 0; i < KEYS; i++) {
        walk.keys[i].due_ns = -1;
    }
    rig.queue = wp_work_queue_create(&(struct wp_work_queue_config){
        .base = rig.base,
        .clock = &rig.clock.clock,
        .workers_max = KEYS,
        .last_max = KEYS,
        .reconcile = walk_reconcile,
        .ctx = &walk,
    });
    assert_non_null(rig.queue);
    wp_rng_init(&rng, 42);
    for (size_t step = 0; step < STEPS; step++) {
        struct wp_work_queue_stats stats;
        uint32_t running = 0;
        uint32_t waiting = 0;
        uint32_t delayed = 0;

        walk_step(&walk, &rng);
        wp_work_queue_stats(rig.queue, &stats);
        for (size_t i = 0; i < KEYS; i++) {
            running += walk.keys[i].runs;
            waiting += walk.keys[i].waits;
            delayed += walk.keys[i].due_ns >= 0;
        }
        assert_int_equal(stats.running, running);
        assert_int_equal(stats.waiting, waiting);
        assert_int_equal(stats.delayed, delayed);
    }
    for (size_t i = 0; i < KEYS; i++) {
        if (walk.keys[i].runs) {
            wp_work_done(walk.works[i], WP_WORK_OK, 0);
        }
    }
    rig_fini(&rig);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(once),
        cmocka_unit_test(again),
        cmocka_unit_test(again_and_failed),
        cmocka_unit_test(order),
        cmocka_unit_test(last),
        cmocka_unit_test(last_again),
        cmocka_unit_test(workers),
        cmocka_unit_test(pauses_grow),
        cmocka_unit_test(delays),
        cmocka_unit_test(after),
        cmocka_unit_test(forget),
        cmocka_unit_test(many_delays),
        cmocka_unit_test(pause_and_go_on),
        cmocka_unit_test(wakes_by_itself),
        cmocka_unit_test(random_walk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
