/* pool/core/attention.c - what the control thread does with a slot that
 * somebody marked, or whose time has come. */
#include <stdlib.h>

#include "pool/base/assert.h"
#include "pool/base/mutant.h"
#include "pool/core/control.h"
#include "pool/records/records.h"
#include "pool/sizing/scale.h"
#include "pool/slots/timing_wheel.h"

/* How soon a refused destroy, or what found no request free, is tried again. */
#define RETRY_NS (20 * WP_NS_PER_MS)
/* After which a follower asks the store for what should long be over. */
#define LINGER_NS (10 * WP_NS_PER_S)

struct wp_attention {
    struct wp_timing_wheel wheel; /* When to look at which slot by itself. */
};

bool
wp_attention_create(struct wp_pools *pools)
{
    struct wp_attention *attention =
        wp_pools_reserve(pools, 1, sizeof *attention);

    if (attention == NULL ||
        !wp_timing_wheel_init(&attention->wheel, pools->config.slots_max,
                              wp_pools_now(pools))) {
        free(attention);
        return false;
    }
    pools->memory_bytes += wp_timing_wheel_bytes(pools->config.slots_max);
    pools->attention = attention;
    return true;
}

void
wp_attention_destroy(struct wp_pools *pools)
{
    if (pools->attention != NULL) {
        wp_timing_wheel_fini(&pools->attention->wheel);
        free(pools->attention);
    }
}

/* Counts the leases of a leaving daemon too. */
static bool
is_due(const struct wp_slot *slot, int64_t now_ns)
{
    if (WP_MUTANT(EXPIRED_EARLY)) {
        now_ns += WP_NS_PER_S;
    }
    return atomic_load_explicit(&slot->deadline_ns, memory_order_relaxed) <=
               now_ns ||
           wp_slot_has_work(slot, WP_WORK_UNDO | WP_WORK_STOP);
}

/* Looks at the slot then; at a lease that lasts for ever only when marked. */
static void
wake_at(struct wp_pools *pools, struct wp_slot_ref ref, int64_t deadline_ns)
{
    if (deadline_ns == WP_TIME_NEVER) {
        (void)wp_timing_wheel_remove(&pools->attention->wheel, ref.index);
    } else {
        wp_timing_wheel_insert(&pools->attention->wheel, ref.index,
                               deadline_ns);
    }
}

static void
look_again(struct wp_pools *pools, struct wp_slot_ref ref, int64_t now_ns)
{
    wp_timing_wheel_insert(&pools->attention->wheel, ref.index,
                           now_ns + RETRY_NS);
}

/* What the store did not answer is asked again, later each time. */
static void
ask_again(struct wp_pools *pools, struct wp_slot_ref ref, int64_t now_ns)
{
    wp_timing_wheel_insert(&pools->attention->wheel, ref.index,
                           now_ns + wp_store_pause_ns(pools, now_ns));
}

/* DYING -> FREE. */
static void
free_slot(struct wp_pools *pools, struct wp_slot_ref ref)
{
    wp_pools_free_slot(pools, ref);
    (void)wp_timing_wheel_remove(&pools->attention->wheel, ref.index);
}

/* Nothing of the sandbox is left: so let nothing be left in the store. */
static void
forget_slot(struct wp_pools *pools, struct wp_slot_ref ref, int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    bool leased;

    if (wp_slot_control_change(slot, WP_CONTROL_ON_FORGET)) {
        (void)wp_slot_work_change(slot, WP_WORK_ON_RECORDED_ANEW);
    }
    if (!pools->durable || wp_slot_has_work(slot, WP_WORK_FORGOTTEN)) {
        free_slot(pools, ref);
        return;
    }
    leased = wp_slot_work_change(slot, WP_WORK_ON_TAKE_RELEASE);
    /* By which fence is it held? */
    if (!wp_store_request_send(pools, ref,
                               leased ? WP_LEASE_FETCH : WP_LEASE_FORGET)) {
        if (leased) {
            (void)wp_slot_work_change(slot, WP_WORK_ON_LEASED_GONE);
        }
        look_again(pools, ref, now_ns);
    }
}

/* The keeper destroys it, and the store tells when it is forgotten. Should that
 * have been missed, it is asked. */
static void
linger(struct wp_pools *pools, struct wp_slot_ref ref, int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);

    if (wp_slot_has_work(slot, WP_WORK_FORGOTTEN)) {
        free_slot(pools, ref);
        return;
    }
    if (wp_slot_control_change(slot, WP_CONTROL_ON_LINGER)) {
        /* The first look. */
    } else if (wp_timing_wheel_contains(&pools->attention->wheel, ref.index)) {
        return; /* Marked; its time has not come. */
    } else if (wp_store_request_send(pools, ref, WP_LEASE_FETCH)) {
        (void)wp_slot_control_change(slot, WP_CONTROL_ON_LINGERED);
        return; /* Looked at again when that is back. */
    }
    wp_timing_wheel_insert(&pools->attention->wheel, ref.index,
                           now_ns + LINGER_NS);
}

void
wp_slot_give_up(struct wp_pools *pools, struct wp_slot_ref ref, int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    const struct wp_backend *backend = &pools->config.backend;

    /* Looked at again when that is back, or when its time has come. */
    if (wp_slot_has_work(slot, WP_WORK_REQUESTED | WP_WORK_RETRY)) {
        return;
    }
    if (!wp_pools_is_keeper(pools)) {
        linger(pools, ref, now_ns);
        return;
    }
    /* Acquire: paired with the release in wp_pools_on_destroyed. */
    if (atomic_load_explicit(&slot->gone, memory_order_acquire) ==
        ref.generation) {
        forget_slot(pools, ref, now_ns);
        return;
    }
    if (wp_slot_has_control(slot, WP_CONTROL_DESTROYING)) {
        return;
    }
    if (backend->ops->destroy(backend->self, ref) == WP_OK) {
        (void)wp_slot_control_change(slot, WP_CONTROL_ON_DESTROY);
        (void)wp_timing_wheel_remove(&pools->attention->wheel, ref.index);
    } else {
        look_again(pools, ref, now_ns);
    }
}

/* Sends the request, when the slot's work asks for it (take); once more when
 * none is free (back). False: it does not. */
static bool
send_request(struct wp_pools *pools, struct wp_slot_ref ref,
             enum wp_work_event take, enum wp_work_event back,
             enum wp_lease_op_kind kind, int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);

    if (!wp_slot_work_change(slot, take)) {
        return false;
    }
    if (!wp_store_request_send(pools, ref, kind)) {
        (void)wp_slot_work_change(slot, back);
        look_again(pools, ref, now_ns);
    }
    return true;
}

static void
attend_quarantined(struct wp_pools *pools, struct wp_slot_ref ref,
                   int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    int64_t deadline =
        atomic_load_explicit(&slot->deadline_ns, memory_order_relaxed);

    if (pools->durable) {
        (void)wp_timing_wheel_remove(&pools->attention->wheel, ref.index);
        if (!send_request(pools, ref, WP_WORK_ON_TAKE_WITHDRAW,
                          WP_WORK_ON_UNWANTED, WP_LEASE_WITHDRAW, now_ns) &&
            !wp_store_request_send(pools, ref, WP_LEASE_FETCH)) {
            look_again(pools, ref, now_ns);
        }
        return;
    }
    /* Whoever may hold it holds it no longer than the lease lasts. */
    if (deadline > now_ns && !wp_slot_has_work(slot, WP_WORK_STOP)) {
        wake_at(pools, ref, deadline);
    } else if (wp_slot_move(&pools->slots, ref, WP_SLOT_QUARANTINED,
                            WP_SLOT_DYING)) {
        wp_slot_give_up(pools, ref, now_ns);
    }
}

static void
attend_held(struct wp_pools *pools, struct wp_slot_ref ref, int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);

    if (wp_slot_state(&pools->slots, ref) == WP_SLOT_LOST &&
        send_request(pools, ref, WP_WORK_ON_TAKE_DEAD, WP_WORK_ON_DIED,
                     WP_LEASE_LOSE, now_ns)) {
        return;
    }
    if (!is_due(slot, now_ns)) {
        wake_at(pools, ref,
                atomic_load_explicit(&slot->deadline_ns, memory_order_relaxed) -
                    (WP_MUTANT(EXPIRED_EARLY) ? WP_NS_PER_S : 0));
        return;
    }
    if ((!wp_pools_is_keeper(pools) || pools->leaving) &&
        !wp_slot_has_work(slot, WP_WORK_UNDO | WP_WORK_STOP) &&
        !WP_MUTANT(FOLLOWER_EXPIRES)) {
        /* The keeper ends it; this replica may become the keeper. */
        wp_timing_wheel_insert(&pools->attention->wheel, ref.index,
                               now_ns + WP_NS_PER_S);
        if (pools->shared && !pools->leaving &&
            now_ns - atomic_load_explicit(&slot->deadline_ns,
                                          memory_order_relaxed) >
                LINGER_NS) {
            wp_pools_doubt_lease(pools, ref);
        }
        return;
    }
    /* Looks again in a while: the store may be out of reach. */
    ask_again(pools, ref, now_ns);
    if (wp_pools_end_lease(pools, ref, now_ns) &&
        wp_slot_state(&pools->slots, ref) == WP_SLOT_DYING) {
        wp_slot_give_up(pools, ref, now_ns);
    }
}

static void
attend_ready(struct wp_pools *pools, struct wp_slot_ref ref, int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, ref.index);
    bool heard = wp_slot_has_control(slot, WP_CONTROL_HEARD);

    (void)wp_slot_control_change(slot, WP_CONTROL_ON_READY_AGAIN);
    (void)wp_timing_wheel_remove(&pools->attention->wheel, ref.index);
    if (send_request(pools, ref, WP_WORK_ON_TAKE_OFFER, WP_WORK_ON_ANSWERS,
                     WP_LEASE_OFFER, now_ns)) {
        return;
    }
    /* A claim here had it for a moment, and what another replica did with it
     * was not taken in: the store is asked. */
    if (heard &&
        wp_slot_move(&pools->slots, ref, WP_SLOT_READY, WP_SLOT_QUARANTINED)) {
        attend_quarantined(pools, ref, now_ns);
    }
}

/* A slot that somebody marked, or whose time has come. */
static void
attend_slot(struct wp_pools *pools, uint32_t index, int64_t now_ns)
{
    struct wp_slot *slot = wp_slot_at(&pools->slots, index);
    struct wp_slot_ref ref = wp_slot_ref_at(&pools->slots, index);

    if (wp_slot_has_work(slot, WP_WORK_REQUESTED)) {
        return; /* It is marked again when the request is back. */
    }
    if (wp_slot_has_work(slot, WP_WORK_RETRY)) {
        (void)wp_slot_work_change(slot, WP_WORK_ON_TAKE_RETRY);
        ask_again(pools, ref, now_ns);
        return;
    }
    switch (wp_slot_state(&pools->slots, ref)) {
    case WP_SLOT_LEASED:
        wp_pool_scale_on_leased(wp_pools_of_slot(pools, index), ref);
        wp_pools_report_lease(pools, ref);
        attend_held(pools, ref, now_ns);
        break;
    case WP_SLOT_LOST:
        attend_held(pools, ref, now_ns);
        break;
    case WP_SLOT_QUARANTINED:
        attend_quarantined(pools, ref, now_ns);
        break;
    case WP_SLOT_DYING:
        wp_slot_give_up(pools, ref, now_ns);
        break;
    case WP_SLOT_READY:
        attend_ready(pools, ref, now_ns);
        break;
    case WP_SLOT_FREE:
    case WP_SLOT_WARMING:
    case WP_SLOT_STATE_COUNT:
        (void)wp_timing_wheel_remove(&pools->attention->wheel, index);
        break;
    }
}

bool
wp_attention_marked(struct wp_pools *pools, int64_t now_ns)
{
    /* Acquire: paired with the push in wp_pools_mark. */
    uint32_t index = atomic_exchange_explicit(&pools->marked, WP_SLOT_NONE,
                                              memory_order_seq_cst);
    bool found = index != WP_SLOT_NONE;

    while (index != WP_SLOT_NONE) {
        struct wp_slot *slot = wp_slot_at(&pools->slots, index);
        uint32_t next =
            atomic_load_explicit(&slot->work_next, memory_order_relaxed);

        /* Off the list before it is looked at: what comes now is marked anew.
         * Acquire: sees what was written before the mark. */
        (void)wp_slot_work_change(slot, WP_WORK_ON_UNLIST);
        attend_slot(pools, index, now_ns);
        /* What befalls a slot may concern its pool's refill. */
        atomic_store_explicit(&wp_pools_of_slot(pools, index)->touched, true,
                              memory_order_relaxed);
        index = next;
    }
    return found;
}

struct due {
    struct wp_pools *pools;
    int64_t now_ns;
};

static void
fire(void *ctx, uint32_t index)
{
    struct due *due = ctx;

    attend_slot(due->pools, index, due->now_ns);
}

void
wp_attention_due(struct wp_pools *pools, int64_t now_ns)
{
    struct due due = {pools, now_ns};

    (void)wp_timing_wheel_advance(&pools->attention->wheel, now_ns, fire, &due);
}

int64_t
wp_attention_next_ns(const struct wp_pools *pools)
{
    return wp_timing_wheel_next_ns(&pools->attention->wheel);
}
