/* Random steps on one pool, on a clock of the test's own, against a plain model
 * of what the clients know. Argument: a seed; without one, a fixed set of them.
 * A failing run prints its seed and replays exactly. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/base/rng.h"
#include "tests/support/pool/pool_rig.h"

enum {
    CLIENTS = 24,
    SLOTS = 20,
    STEPS = 1500,
};

/* What one client believes. */
enum belief {
    IDLE,
    ASKING,   /* Its claim is pending. */
    HOLDS,    /* Until until_ns, unless it is told otherwise. */
    DISOWNED, /* Its grant was undone before it saw it. */
};

struct client {
    struct wp_rig_claim c;
    enum belief belief;
    int64_t until_ns;
    bool dead; /* Its sandbox was killed. */
};

struct model {
    struct wp_rig rig;
    struct wp_rng rng;
    struct client clients[CLIENTS];
    uint32_t next_id;
    uint32_t target_max; /* Since the last time nothing was warming. */
    uint64_t fences[SLOTS];
    uint32_t generations[SLOTS];
};

static void
see_grant(struct model *m, struct client *client)
{
    const struct wp_grant *g = &client->c.claim.grant;

    /* I1: no other client holds it. */
    for (int i = 0; i < CLIENTS; i++) {
        const struct client *other = &m->clients[i];

        WP_ASSERT(other == client || other->belief != HOLDS ||
                  other->until_ns <= m->rig.clock.now_mono_ns ||
                  !wp_slot_ref_eq(other->c.claim.grant.ref, g->ref));
    }
    /* I5: fences of one sandbox only grow. */
    WP_ASSERT(m->generations[g->ref.index] != g->ref.generation ||
              m->fences[g->ref.index] < g->fence);
    m->generations[g->ref.index] = g->ref.generation;
    m->fences[g->ref.index] = g->fence;
    /* I3: it had an address, so it had answered. */
    WP_ASSERT(g->endpoint[0] != '\0' && g->deadline_ns > 0);
    client->belief = HOLDS;
    client->until_ns = g->deadline_ns;
    client->dead = false;
}

static void
see_answer(struct model *m, struct client *client)
{
    WP_ASSERT(client->c.answers == 1);
    if (client->c.claim.status == WP_OK) {
        see_grant(m, client);
    } else {
        WP_ASSERT(client->c.claim.reason != NULL);
        client->belief = IDLE;
    }
}

static void
ask(struct model *m, struct client *client)
{
    char id[16];
    enum wp_status status;

    (void)snprintf(id, sizeof id, "c%u", m->next_id++);
    wp_rig_claim_init(&client->c, id, wp_rng_below(&m->rng, 2) ? "x" : "y",
                      (int64_t)(1 + wp_rng_below(&m->rng, 20)) * WP_NS_PER_S,
                      (int64_t)wp_rng_below(&m->rng, 3) * WP_NS_PER_S);
    status = wp_rig_claim(&m->rig, &client->c);
    if (status == WP_PENDING) {
        client->belief = ASKING;
    } else {
        see_answer(m, client);
    }
}

static void
leave_or_lose(struct model *m, struct client *client)
{
    bool was_held = false;
    bool expired = client->until_ns <= m->rig.clock.now_mono_ns;
    enum wp_status status;

    switch (wp_rng_below(&m->rng, 4)) {
    case 0:
        status = wp_rig_release(&m->rig, &client->c, &was_held);
        WP_ASSERT(status == WP_UNAVAILABLE ||
                  (status == WP_OK && (was_held || expired)) ||
                  (expired && status == WP_ABORTED));
        client->belief = status == WP_UNAVAILABLE ? HOLDS : IDLE;
        break;
    case 1:
        status = wp_rig_renew(&m->rig, &client->c, 5 * WP_NS_PER_S);
        WP_ASSERT(status == WP_OK || status == WP_UNAVAILABLE || expired ||
                  (client->dead && status == WP_FAILED_PRECONDITION));
        if (status == WP_OK) {
            WP_ASSERT(!expired);
            client->until_ns = m->rig.clock.now_mono_ns + 5 * WP_NS_PER_S;
        }
        break;
    case 2:
        if (!client->dead) {
            client->dead = wp_fake_backend_lose(
                &m->rig.backend, client->c.claim.grant.ref, "killed");
        }
        break;
    default:
        if (expired) {
            client->belief = IDLE;
        }
        break;
    }
}

static void
act(struct model *m, struct client *client)
{
    switch (client->belief) {
    case IDLE:
    case DISOWNED:
        ask(m, client);
        if (client->belief == HOLDS && wp_rng_below(&m->rng, 6) == 0) {
            wp_pools_undo(m->rig.pools, &client->c.claim);
            client->belief = DISOWNED;
        }
        break;
    case ASKING:
        if (wp_rng_below(&m->rng, 3) == 0 &&
            wp_pools_cancel(m->rig.pools, &client->c.claim)) {
            client->belief = IDLE;
        }
        break;
    case HOLDS:
        leave_or_lose(m, client);
        break;
    }
}

static void
disturb(struct model *m)
{
    uint32_t target = (uint32_t)wp_rng_below(&m->rng, 10);

    switch (wp_rng_below(&m->rng, 8)) {
    case 0:
        WP_ASSERT(wp_pools_set_target(m->rig.pools, 0, target, NULL) == WP_OK);
        m->target_max = target > m->target_max ? target : m->target_max;
        break;
    case 1:
        (void)wp_fake_backend_fail(&m->rig.backend, 1, "would not start");
        break;
    case 2:
        m->rig.store_status = wp_rng_below(&m->rng, 2) ? WP_OK : WP_UNAVAILABLE;
        break;
    case 3:
        m->rig.store_status =
            wp_rng_below(&m->rng, 4) ? WP_OK : WP_UNKNOWN_OUTCOME;
        break;
    default:
        wp_clock_manual_advance(
            &m->rig.clock, (int64_t)wp_rng_below(&m->rng, 700) * WP_NS_PER_MS);
        break;
    }
}

static void
check(struct model *m)
{
    struct wp_pool_stats stats = wp_rig_stats(&m->rig);
    struct wp_fake_counts counts = wp_fake_backend_counts(&m->rig.backend);

    for (int i = 0; i < CLIENTS; i++) {
        if (m->clients[i].belief == ASKING && m->clients[i].c.answers > 0) {
            see_answer(m, &m->clients[i]);
        }
    }
    wp_pools_check(m->rig.pools);
    /* I4 */
    WP_ASSERT(stats.created_total == stats.warming + stats.ready +
                                         stats.leased + stats.quarantined +
                                         stats.dying + stats.destroyed_total);
    /* I7, for a pool without cold starts. */
    WP_ASSERT(stats.warming + stats.ready <= m->target_max + CLIENTS);
    WP_ASSERT(counts.warming <= m->target_max);
}

static void
run(uint64_t seed)
{
    static struct model m;

    memset(&m, 0, sizeof m);
    wp_rng_init(&m.rng, seed);
    m.target_max = 6;
    wp_rig_init(&m.rig, SLOTS, 6, NULL);
    for (int i = 0; i < STEPS; i++) {
        act(&m, &m.clients[wp_rng_below(&m.rng, CLIENTS)]);
        if (wp_rng_below(&m.rng, 3) == 0) {
            disturb(&m);
        }
        if (wp_rng_below(&m.rng, 2) == 0) {
            (void)wp_pools_run(m.rig.pools);
        }
        if (wp_rng_below(&m.rng, 2) == 0) {
            (void)wp_fake_backend_turn(&m.rig.backend);
        }
        check(&m);
    }
    for (int i = 0; i < CLIENTS; i++) {
        if (m.clients[i].belief == ASKING) {
            (void)wp_pools_cancel(m.rig.pools, &m.clients[i].c.claim);
        }
    }
    wp_rig_fini(&m.rig);
}

int
main(int argc, char **argv)
{
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t count = argc > 1 ? 1 : 60;

    for (uint64_t seed = first; seed < first + count; seed++) {
        (void)fprintf(stderr, "seed %llu\r", (unsigned long long)seed);
        run(seed);
    }
    (void)printf("%llu seeds of %d steps\n", (unsigned long long)count, STEPS);
    return 0;
}
