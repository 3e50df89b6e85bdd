#include "k8s/controllers/fault.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/log.h"
#include "pool/base/str.h"

enum {
    POINTS_MAX = 8,
};

struct point {
    struct wp_str name;
    int signal;
    _Atomic(uint64_t) passes_left; /* 0: it has happened. */
};

static struct point points[POINTS_MAX];
static uint32_t points_len;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool
read_point(struct wp_str text, struct point *point)
{
    struct wp_str action;
    uint64_t passes = 1;

    (void)wp_str_cut(&text, ':', &point->name);
    (void)wp_str_cut(&text, ':', &action);
    if (text.len > 0 && (!wp_str_to_u64(text, &passes) || passes == 0)) {
        return false;
    }
    point->signal = wp_str_is(action, "stop") ? SIGSTOP : SIGKILL;
    atomic_init(&point->passes_left, passes);
    return point->name.len > 0 &&
           (wp_str_is(action, "kill") || wp_str_is(action, "stop"));
}

static void
read_points(void)
{
    struct wp_str rest = wp_str_from(getenv("WARMPOOL_FAULT"));

    while (rest.len > 0) {
        struct wp_str text;

        (void)wp_str_cut(&rest, ',', &text);
        if (points_len == POINTS_MAX ||
            !read_point(text, &points[points_len])) {
            wp_log_error("WARMPOOL_FAULT: expected STEP:kill or STEP:stop",
                         wp_kv_slice("got", text));
            continue;
        }
        points_len++;
    }
}

static void
reach(struct point *point)
{
    uint64_t left = atomic_load(&point->passes_left);

    while (left > 0) {
        if (atomic_compare_exchange_weak(&point->passes_left, &left,
                                         left - 1)) {
            if (left == 1) {
                (void)raise(point->signal);
            }
            return;
        }
    }
}

void
wp_fault(const char *name)
{
    (void)pthread_once(&once, read_points);
    for (uint32_t i = 0; i < points_len; i++) {
        if (wp_str_is(points[i].name, name)) {
            reach(&points[i]);
        }
    }
}
