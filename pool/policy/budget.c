#include "pool/policy/budget.h"

#include <math.h>
#include <string.h>

#include "pool/base/extreme.h"

/* Those that take part, as a heap with the one on top to which one more is
 * worth most. */
struct sharing {
    struct wp_budget_pool *pools;
    uint32_t n;
    uint32_t *heap;
    uint32_t heap_len;
    uint32_t left; /* To be shared. */
};

static bool
name_goes_before(const struct wp_budget_pool *a, const struct wp_budget_pool *b)
{
    size_t len = a->name.len < b->name.len ? a->name.len : b->name.len;
    int order = len > 0 ? memcmp(a->name.ptr, b->name.ptr, len) : 0;

    return order < 0 || (order == 0 && a->name.len < b->name.len);
}

static bool
goes_before(const struct sharing *s, uint32_t a, uint32_t b)
{
    const struct wp_budget_pool *x = &s->pools[s->heap[a]];
    const struct wp_budget_pool *y = &s->pools[s->heap[b]];

    if (x->next < y->next) {
        return false;
    }
    return x->next > y->next || name_goes_before(x, y);
}

static void
sift_down(struct sharing *s, uint32_t at)
{
    for (;;) {
        uint32_t first = at;

        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2; child++) {
            if (child < s->heap_len && goes_before(s, child, first)) {
                first = child;
            }
        }
        if (first == at) {
            return;
        }
        uint32_t moved = s->heap[at];

        s->heap[at] = s->heap[first];
        s->heap[first] = moved;
        at = first;
    }
}

static void
look_ahead(struct wp_budget_pool *pool)
{
    double worth = pool->worth(pool->self, pool->share);

    pool->next = isnan(worth) ? 0 : worth;
}

/* All that want more. */
static void
gather(struct sharing *s)
{
    s->heap_len = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        struct wp_budget_pool *pool = &s->pools[i];

        pool->step = 0;
        if (pool->share < pool->wanted) {
            look_ahead(pool);
            s->heap[s->heap_len++] = i;
        }
    }
    for (uint32_t i = s->heap_len / 2; i-- > 0;) {
        sift_down(s, i);
    }
}

/* Greedily, step at a time; what a pool got last is in its step. */
static void
share_in_steps(struct sharing *s, uint32_t step)
{
    while (s->left > 0 && s->heap_len > 0) {
        struct wp_budget_pool *pool = &s->pools[s->heap[0]];
        uint32_t more = pool->wanted - pool->share;

        more = wp_min_u32(wp_min_u32(more, step), s->left);
        pool->share += more;
        pool->step = more;
        s->left -= more;
        if (pool->share == pool->wanted) {
            s->heap[0] = s->heap[--s->heap_len];
        } else {
            look_ahead(pool);
        }
        sift_down(s, 0);
    }
}

/* Not even enough for what each must have. */
static void
share_mins(struct sharing *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        /* By name: worth alone decides, and none is worth more. */
        s->pools[i].next = 0;
        s->heap[i] = i;
    }
    s->heap_len = s->n;
    for (uint32_t i = s->heap_len / 2; i-- > 0;) {
        sift_down(s, i);
    }
    while (s->heap_len > 0) {
        struct wp_budget_pool *pool = &s->pools[s->heap[0]];

        pool->share = wp_min_u32(pool->min, s->left);
        s->left -= pool->share;
        s->heap[0] = s->heap[--s->heap_len];
        sift_down(s, 0);
    }
}

bool
wp_budget_share(struct wp_budget_pool *pools, uint32_t n, uint32_t total,
                uint32_t *heap) /* NOLINT(readability-non-const-parameter) */
{
    struct sharing s = {pools, n, heap, 0, total};
    uint64_t mins = 0;
    uint64_t wanted = 0;
    uint32_t step = 1;

    for (uint32_t i = 0; i < n; i++) {
        struct wp_budget_pool *pool = &pools[i];

        pool->share = pool->min;
        mins += pool->min;
        wanted += wp_max_u32(pool->wanted, pool->min);
    }
    if (mins > total) {
        share_mins(&s);
        return false;
    }
    if (wanted <= total) {
        for (uint32_t i = 0; i < n; i++) {
            pools[i].share = wp_max_u32(pools[i].wanted, pools[i].min);
        }
        return true;
    }
    s.left = total - (uint32_t)mins;
    while (step < s.left / n) {
        step *= 2;
    }
    for (;; step /= 2) {
        gather(&s);
        share_in_steps(&s, step);
        if (step == 1) {
            return true;
        }
        for (uint32_t i = 0; i < n; i++) {
            pools[i].share -= pools[i].step;
            s.left += pools[i].step;
        }
    }
}
