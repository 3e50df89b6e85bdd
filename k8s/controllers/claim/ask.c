#include "k8s/controllers/claim/ask.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "k8s/controllers/claim/states.h"
#include "pool/base/assert.h"
#include "pool/base/channel.h"
#include "pool/base/list.h"

enum {
    NAME_MAX_LEN = 253,
    SWEEP_MS = 100,
};

struct wp_claim_ask {
    struct wp_claim claim;
    struct wp_claim_asks *asks;
    struct wp_list node; /* In asks->live. */
    struct wp_linked_message answer;
    enum wp_claim_state state; /* An ASK. */
    char uid[WP_CLAIM_ID_MAX + 1];
    char ns[WP_NAMESPACE_MAX + 1];
    char pool[NAME_MAX_LEN + 1];
    char name[NAME_MAX_LEN + 1];
};

struct wp_claim_asks {
    struct wp_parts *parts;
    void (*on_answer)(void *ctx, const char *ns, const char *name);
    void *ctx;
    struct event *sweep;
    struct wp_list live;
    uint32_t pending;
    struct wp_linked_channel answers; /* Of the core's threads. */
};

static void
free_ask(struct wp_claim_ask *ask)
{
    wp_list_remove(&ask->node);
    free(ask);
}

/* What was granted goes back to the pool, unused; where it cannot, because a
 * repeat has been shown it, the lease ends. */
static void
give_back(struct wp_claim_ask *ask)
{
    struct wp_pools *pools = ask->asks->parts->core.pools;

    if (ask->claim.status != WP_OK) {
        return;
    }
    if (ask->claim.replayed) {
        wp_pools_end(pools, ask->claim.grant.ref);
    } else {
        wp_pools_undo(pools, &ask->claim);
    }
}

static void
drain(struct wp_claim_asks *asks)
{
    struct wp_linked_message *answer = wp_linked_receive(&asks->answers);

    while (answer != NULL) {
        struct wp_claim_ask *ask =
            WP_CONTAINER_OF(answer, struct wp_claim_ask, answer);

        answer = answer->next;
        asks->pending--;
        if (ask->state == WP_ASK_ORPHANED) {
            give_back(ask);
            free_ask(ask);
            continue;
        }
        wp_claim_state_move(&ask->state, WP_ASK_ANSWERED);
        if (asks->on_answer != NULL) {
            asks->on_answer(asks->ctx, ask->ns, ask->name);
        }
    }
}

static void
run_drain(void *arg, uint64_t a, uint64_t b)
{
    (void)a;
    (void)b;
    drain(arg);
}

/* From the core, on any thread. Nothing of the ask may be touched once it is
 * sent. */
static void
ask_done(struct wp_claim *claim)
{
    struct wp_claim_ask *ask =
        WP_CONTAINER_OF(claim, struct wp_claim_ask, claim);
    struct wp_claim_asks *asks = ask->asks;
    struct wp_parts *parts = asks->parts;

    if (wp_linked_send(&asks->answers, &ask->answer) == WP_LINKED_WAKE) {
        /* Full: the sweep finds it. */
        bool posted = parts->post(parts->self, run_drain, asks, 0, 0);

        (void)posted;
    }
}

static void
arm_sweep(struct wp_claim_asks *asks)
{
    static const struct timeval period = {0, SWEEP_MS * 1000};

    if (asks->pending > 0 && !evtimer_pending(asks->sweep, NULL)) {
        (void)evtimer_add(asks->sweep, &period);
    }
}

static void
sweep(evutil_socket_t fd, short what, void *arg)
{
    struct wp_claim_asks *asks = arg;

    (void)fd;
    (void)what;
    drain(asks);
    arm_sweep(asks);
}

struct wp_claim_asks *
wp_claim_asks_create(struct wp_parts *parts,
                     void (*on_answer)(void *ctx, const char *ns,
                                       const char *name),
                     void *ctx)
{
    struct wp_claim_asks *asks = calloc(1, sizeof *asks);

    if (asks == NULL) {
        return NULL;
    }
    asks->sweep = evtimer_new(parts->base, sweep, asks);
    if (asks->sweep == NULL) {
        free(asks);
        return NULL;
    }
    asks->parts = parts;
    asks->on_answer = on_answer;
    asks->ctx = ctx;
    wp_list_init(&asks->live);
    wp_linked_init(&asks->answers);
    return asks;
}

void
wp_claim_asks_destroy(struct wp_claim_asks *asks)
{
    struct wp_list *node;

    if (asks == NULL) {
        return;
    }
    asks->on_answer = NULL;
    for (node = asks->live.next; node != &asks->live;) {
        struct wp_claim_ask *ask =
            WP_CONTAINER_OF(node, struct wp_claim_ask, node);

        node = node->next;
        if (ask->state == WP_ASK_PENDING) {
            wp_claim_ask_drop(ask);
        } else if (ask->state == WP_ASK_ANSWERED) {
            free_ask(ask);
        }
    }
    /* What could not be withdrawn is being answered this moment. */
    while (asks->pending > 0) {
        drain(asks);
        (void)sched_yield();
    }
    event_free(asks->sweep);
    free(asks);
}

static void
copy_text(const char *text, char *out, size_t cap)
{
    /* Kubernetes bounds them; what it would not let through names nothing. */
    (void)!wp_str_copy(wp_str_from(text), out, cap);
}

/* Can the core have a pool or a claim of these names? */
static bool
fits_core(const struct wp_claim_ask *ask)
{
    size_t pool = strlen(ask->pool);

    return ask->uid[0] != '\0' && ask->ns[0] != '\0' && pool > 0 &&
           pool <= WP_POOL_NAME_MAX;
}

struct wp_claim_ask *
wp_claim_ask_begin(struct wp_claim_asks *asks, const struct wp_object *claim,
                   const char *pool, int64_t wait_ns)
{
    struct wp_claim_ask *ask = calloc(1, sizeof *ask);

    WP_ASSERT(ask != NULL);
    ask->asks = asks;
    ask->state = WP_ASK_NEW;
    copy_text(claim->uid, ask->uid, sizeof ask->uid);
    copy_text(claim->ns, ask->ns, sizeof ask->ns);
    copy_text(claim->name, ask->name, sizeof ask->name);
    copy_text(pool, ask->pool, sizeof ask->pool);
    ask->claim.pool_namespace = wp_str_from(ask->ns);
    ask->claim.pool = wp_str_from(ask->pool);
    ask->claim.claim_id = wp_str_from(ask->uid);
    ask->claim.tenant = WP_STR(WP_TENANT_SANDBOX_CLAIMS);
    ask->claim.wait_ns = wait_ns;
    ask->claim.lasting = true;
    ask->claim.done = ask_done;
    wp_list_push_back(&asks->live, &ask->node);
    if (!fits_core(ask)) {
        ask->claim.status = WP_NOT_FOUND;
        wp_claim_state_move(&ask->state, WP_ASK_ANSWERED);
        return ask;
    }
    /* Before it can be answered. */
    wp_claim_state_move(&ask->state, WP_ASK_PENDING);
    asks->pending++;
    if (wp_pools_claim(asks->parts->core.pools, &ask->claim) != WP_PENDING) {
        wp_claim_state_move(&ask->state, WP_ASK_ANSWERED);
        asks->pending--;
    }
    arm_sweep(asks);
    return ask;
}

enum wp_status
wp_claim_ask_status(const struct wp_claim_ask *ask)
{
    return ask->state == WP_ASK_PENDING ? WP_PENDING : ask->claim.status;
}

const struct wp_claim *
wp_claim_ask_answer(const struct wp_claim_ask *ask)
{
    WP_ASSERT(ask->state == WP_ASK_ANSWERED);
    return &ask->claim;
}

const char *
wp_claim_ask_pool(const struct wp_claim_ask *ask)
{
    return ask->pool;
}

void
wp_claim_ask_keep(struct wp_claim_ask *ask)
{
    WP_ASSERT(ask->state == WP_ASK_ANSWERED && ask->claim.status == WP_OK);
    free_ask(ask);
}

void
wp_claim_ask_drop(struct wp_claim_ask *ask)
{
    struct wp_claim_asks *asks = ask->asks;

    if (ask->state == WP_ASK_ANSWERED) {
        give_back(ask);
        free_ask(ask);
    } else if (wp_pools_cancel(asks->parts->core.pools, &ask->claim)) {
        asks->pending--;
        free_ask(ask);
    } else {
        wp_claim_state_move(&ask->state, WP_ASK_ORPHANED);
    }
}

void
wp_claim_ask_lose(struct wp_claim_ask *ask, const char *reason)
{
    struct wp_pools *pools = ask->asks->parts->core.pools;

    WP_ASSERT(ask->state == WP_ASK_ANSWERED && ask->claim.status == WP_OK);
    wp_pools_on_lost(pools, ask->claim.grant.ref, wp_str_from(reason));
    wp_pools_end(pools, ask->claim.grant.ref);
    free_ask(ask);
}
