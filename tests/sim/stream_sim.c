/* Claim streams that break at any moment: clients that have leases ahead, take
 * them, lose messages both ways, come back in time or too late; sandboxes that
 * die, a store that stands still, refuses or loses its answer, a daemon that is
 * killed and leaves durable leases behind. A seed replays exactly.
 *
 *   stream_sim [--seeds=N] [--from=N] [--seed=N]
 *
 * What must be true: no sandbox is shown twice, whoever asks; what a client
 * took and was told is its own stays held until its deadline; what it has and
 * has not taken is held while the stream lives; and in the end nothing is
 * leased but what somebody took. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "allocator/services/claim_stream.h"
#include "pool/base/rng.h"
#include "tests/support/services/stream_peer.h"

enum {
    PEERS = 3,
    STEPS = 150,
    AHEAD_MAX = 12,
    SHOWN_MAX = 8192,
    ID_LEN = 12,
};

#define TTL_MS INT64_C(20000)

struct sim {
    struct wp_world world;
    struct wp_rng rng;
    uint64_t seed;
    struct wp_stream_peer peers[PEERS];
    bool open[PEERS];
    uint32_t n_streams; /* Ids used. */
    uint32_t n_people;  /* Claims of others. */
    struct wp_fake_call person;
    uint64_t breaks;
    uint64_t resumes;
    uint64_t taken;
    uint64_t restarts;
    /* Every sandbox that anybody was shown. */
    uint32_t n_shown;
    char shown[SHOWN_MAX][WP_SANDBOX_NAME_MAX + 1];
    uint32_t counted[PEERS]; /* Of each peer's leases, those among them. */
};

static bool
chance(struct sim *sim, unsigned percent)
{
    return wp_rng_below(&sim->rng, 100) < percent;
}

static int64_t
wall_ms(const struct sim *sim)
{
    return wp_clock_wall_ns(&sim->world.rig.clock.clock) / WP_NS_PER_MS;
}

/* --- What must be true --- */

static void
show(struct sim *sim, const char *sandbox)
{
    for (uint32_t i = 0; i < sim->n_shown; i++) {
        if (strcmp(sim->shown[i], sandbox) == 0) {
            fail_msg("seed %llu: %s was shown twice",
                     (unsigned long long)sim->seed, sandbox);
        }
    }
    assert_true(sim->n_shown < SHOWN_MAX);
    (void)snprintf(sim->shown[sim->n_shown++], WP_SANDBOX_NAME_MAX + 1, "%s",
                   sandbox);
}

static bool
is_held(struct sim *sim, const struct wp_peer_lease *lease, bool *lost)
{
    struct wp_claim_info info;
    bool held = wp_pools_get(sim->world.rig.pools, WP_STR(""),
                             wp_str_from(lease->claim_id), &info) == WP_OK &&
                strcmp(info.sandbox, lease->sandbox) == 0 &&
                info.fence == lease->fence;

    *lost = held && info.lost;
    return held;
}

static void
check_lease(struct sim *sim, const struct wp_stream_peer *peer,
            const struct wp_peer_lease *lease)
{
    bool lost;

    if (lease->deadline_wall_ms <= wall_ms(sim) ||
        lease->state != WP_PEER_CONFIRMED) {
        return;
    }
    if (!is_held(sim, lease, &lost)) {
        fail_msg("seed %llu: %s of %s was taken and is not held",
                 (unsigned long long)sim->seed, lease->claim_id, peer->id);
    }
}

static void
check(struct sim *sim)
{
    for (uint32_t p = 0; p < PEERS; p++) {
        struct wp_stream_peer *peer = &sim->peers[p];

        for (; sim->counted[p] < peer->n_leases; sim->counted[p]++) {
            show(sim, peer->leases[sim->counted[p]].sandbox);
        }
        for (uint32_t i = 0; i < peer->n_leases; i++) {
            check_lease(sim, peer, &peer->leases[i]);
        }
        assert_true(wp_peer_count(peer, WP_PEER_HAS) <= AHEAD_MAX);
    }
}

/* --- What clients do --- */

static void
settle(struct sim *sim)
{
    for (int i = 0; i < 4; i++) {
        wp_world_settle(&sim->world);
    }
    for (uint32_t p = 0; p < PEERS; p++) {
        sim->open[p] = sim->open[p] && !sim->peers[p].fake.finished;
    }
}

/* The library's way out where it cannot resume: what it took it renews, what it
 * did not it releases; then it opens another stream. */
static void
start_over(struct sim *sim, struct wp_stream_peer *peer)
{
    for (uint32_t i = 0; i < peer->n_leases; i++) {
        struct wp_peer_lease *lease = &peer->leases[i];
        struct wp_lease_change change = {.ttl_ns = TTL_MS * WP_NS_PER_MS};

        memcpy(change.token, lease->token, sizeof change.token);
        if (lease->state == WP_PEER_TOOK) {
            bool renewed =
                wp_pools_renew(sim->world.rig.pools, &change) == WP_OK;

            lease->state = renewed ? WP_PEER_CONFIRMED : WP_PEER_OVER;
            lease->deadline_wall_ms = renewed ? change.deadline_wall_ms : 0;
        } else if (lease->state == WP_PEER_HAS) {
            assert_int_equal(wp_pools_release(sim->world.rig.pools, &change),
                             WP_OK);
            lease->state = WP_PEER_OVER;
        }
    }
    /* Numbers begin anew with the stream: those of the last one are history. */
    for (uint32_t i = 0; i < peer->n_leases; i++) {
        peer->leases[i].number = UINT64_MAX - sim->n_shown - i;
    }
    (void)snprintf(peer->id, sizeof peer->id, "s-%u", sim->n_streams++);
    wp_peer_open(peer, false);
}

static void
open_stream(struct sim *sim, uint32_t p)
{
    struct wp_stream_peer *peer = &sim->peers[p];

    peer->deaf = false;
    if (peer->begun) {
        wp_peer_open(peer, true);
        sim->resumes += !peer->fake.finished;
        if (peer->fake.finished && peer->fake.status == WP_NOT_FOUND) {
            start_over(sim, peer);
        }
    } else {
        wp_peer_open(peer, false);
    }
    sim->open[p] = !peer->fake.finished;
    peer->deaf = chance(sim, 5);
}

static void
break_stream(struct sim *sim, uint32_t p)
{
    wp_fake_call_cancel(&sim->peers[p].fake);
    sim->open[p] = false;
    sim->breaks++;
}

static void
take_some(struct sim *sim, uint32_t p)
{
    struct wp_stream_peer *peer = &sim->peers[p];
    struct wp_peer_lease *lease;

    for (uint64_t n = 1 + wp_rng_below(&sim->rng, 4); n > 0; n--) {
        bool lost = chance(sim, 20);

        lease = wp_peer_first(peer);
        if (lease == NULL || lease->deadline_wall_ms <= wall_ms(sim)) {
            return;
        }
        wp_peer_take(peer, lease, lost);
        sim->taken++;
        if (lost) { /* The way there is gone, and so is what follows. */
            peer->deaf = true;
            break_stream(sim, p);
            return;
        }
    }
}

static void
release_one(struct sim *sim, struct wp_stream_peer *peer)
{
    for (uint32_t i = 0; i < peer->n_leases; i++) {
        struct wp_peer_lease *lease = &peer->leases[i];
        struct wp_lease_change change = {0};

        if (lease->state == WP_PEER_CONFIRMED &&
            lease->deadline_wall_ms > wall_ms(sim)) {
            memcpy(change.token, lease->token, sizeof change.token);
            assert_int_equal(wp_pools_release(sim->world.rig.pools, &change),
                             WP_OK);
            assert_true(change.was_held);
            lease->state = WP_PEER_OVER;
            return;
        }
    }
}

static void
step_client(struct sim *sim, uint32_t p)
{
    struct wp_stream_peer *peer = &sim->peers[p];
    uint64_t number = 0;

    if (!sim->open[p]) {
        if (!sim->world.rig.store_later && chance(sim, 50)) {
            open_stream(sim, p);
        }
        return;
    }
    switch (wp_rng_below(&sim->rng, 10)) {
    case 0:
        break_stream(sim, p);
        break;
    case 1:
        peer->fake.block_sends = !peer->fake.block_sends;
        if (!peer->fake.block_sends) {
            wp_fake_call_unblock(&peer->fake);
        }
        break;
    case 2:
        if (wp_peer_first(peer) != NULL && !peer->deaf) {
            number = wp_peer_first(peer)->number;
            wp_peer_first(peer)->state = WP_PEER_OVER;
            wp_peer_say(peer, NULL, 0, &number, 1);
        }
        break;
    case 3:
        if (!sim->world.rig.store_later) {
            release_one(sim, peer);
        }
        break;
    default:
        take_some(sim, p);
        break;
    }
}

/* --- Faults --- */

static void
answer_store(struct sim *sim)
{
    static const enum wp_status answers[] = {
        WP_OK, WP_OK, WP_OK, WP_UNAVAILABLE, WP_UNKNOWN_OUTCOME};

    (void)wp_rig_store_answer(
        &sim->world.rig,
        answers[wp_rng_below(&sim->rng, WP_ARRAY_LEN(answers))]);
}

/* A sandbox dies that a client has, or is just taking. */
static void
kill_one(struct sim *sim)
{
    struct wp_stream_peer *peer = &sim->peers[wp_rng_below(&sim->rng, PEERS)];
    struct wp_peer_lease *lease = wp_peer_first(peer);
    struct wp_claim_info info;

    if (lease != NULL &&
        wp_pools_get(sim->world.rig.pools, WP_STR(""),
                     wp_str_from(lease->claim_id), &info) == WP_OK) {
        wp_pools_on_lost(sim->world.rig.pools, info.ref, WP_STR("killed"));
    }
}

static void
restart(struct sim *sim)
{
    for (uint32_t p = 0; p < PEERS; p++) {
        sim->peers[p].deaf = true;
        if (sim->peers[p].begun) {
            break_stream(sim, p);
        }
    }
    sim->world.rig.store_later = false;
    (void)wp_rig_store_answer(&sim->world.rig, WP_UNKNOWN_OUTCOME);
    wp_world_restart(&sim->world);
    sim->restarts++;
}

static void
step_person(struct sim *sim)
{
    char id[ID_LEN];

    (void)snprintf(id, sizeof id, "p-%u", sim->n_people++);
    wp_world_claim(&sim->world, wp_world_again(&sim->world, &sim->person), id,
                   "", 0);
    if (sim->person.finished && sim->person.status == WP_OK) {
        const struct wp_wire_claim_response response =
            wp_world_lease(&sim->world, &sim->person);
        struct wp_lease_change change = {0};

        show(sim, response.grant->sandbox);
        memcpy(change.token, response.grant->token, sizeof change.token);
        (void)wp_pools_release(sim->world.rig.pools, &change);
    }
}

static void
step(struct sim *sim)
{
    uint64_t what = wp_rng_below(&sim->rng, 100);

    if (what < 60) {
        step_client(sim, (uint32_t)wp_rng_below(&sim->rng, PEERS));
    } else if (what < 75) {
        wp_clock_manual_advance(&sim->world.rig.clock,
                                (int64_t)wp_rng_below(&sim->rng, 1000) *
                                    WP_NS_PER_MS);
    } else if (what < 78) {
        wp_clock_manual_advance(&sim->world.rig.clock,
                                (int64_t)wp_rng_below(&sim->rng, 8000) *
                                    WP_NS_PER_MS);
    } else if (what < 84) {
        kill_one(sim);
    } else if (what < 88 && !sim->world.rig.store_later) {
        step_person(sim);
    } else if (what < 90 && sim->seed % 2 == 1) {
        restart(sim);
    } else if (what < 93) {
        sim->world.rig.store_later = true;
    }
    if (sim->world.rig.store_later && chance(sim, 40)) {
        sim->world.rig.store_later = false;
        answer_store(sim);
    }
}

/* All streams have ended or are broken for good: what nobody took is released,
 * but for what a killed daemon has left, until its time is over. */
static void
check_end(struct sim *sim)
{
    uint32_t kept = 0;
    uint32_t unsure = 0; /* Told, and the answer was lost. */
    uint32_t held;

    wp_clock_manual_advance(&sim->world.rig.clock, WP_STREAM_GRACE_NS);
    settle(sim);
    for (uint32_t p = 0; p < PEERS; p++) {
        const struct wp_stream_peer *peer = &sim->peers[p];

        for (uint32_t i = 0; i < peer->n_leases; i++) {
            const struct wp_peer_lease *lease = &peer->leases[i];
            bool live = lease->deadline_wall_ms > wall_ms(sim);

            kept += live && lease->state == WP_PEER_CONFIRMED;
            unsure += live && lease->state == WP_PEER_TOOK;
        }
    }
    held = wp_rig_stats(&sim->world.rig).leased;
    if (sim->restarts == 0 && (held < kept || held > kept + unsure)) {
        fail_msg("seed %llu: %u leases are held, %u were taken, %u perhaps",
                 (unsigned long long)sim->seed, held, kept, unsure);
    }
    wp_clock_manual_advance(&sim->world.rig.clock,
                            (TTL_MS + 1000) * WP_NS_PER_MS);
    settle(sim);
    held = wp_rig_stats(&sim->world.rig).leased;
    if (held != 0) {
        fail_msg("seed %llu: %u leases are left", (unsigned long long)sim->seed,
                 held);
    }
}

static void
run_seed(struct sim *sim, uint64_t seed)
{
    memset(sim, 0, sizeof *sim);
    sim->seed = seed;
    wp_rng_init(&sim->rng, seed);
    wp_world_init(&sim->world, 128, 24);
    wp_world_call(&sim->world, &sim->person);
    for (uint32_t p = 0; p < PEERS; p++) {
        char id[ID_LEN];

        (void)snprintf(id, sizeof id, "s-%u", sim->n_streams++);
        wp_peer_init(&sim->peers[p], &sim->world, id,
                     1 + (uint32_t)wp_rng_below(&sim->rng, AHEAD_MAX));
        sim->peers[p].ttl_ms = TTL_MS;
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        step(sim);
        if (!sim->world.rig.store_later) {
            settle(sim);
        }
        check(sim);
    }
    sim->world.rig.store_later = false;
    (void)wp_rig_store_answer(&sim->world.rig, WP_OK);
    for (uint32_t p = 0; p < PEERS; p++) {
        if (sim->open[p]) {
            sim->peers[p].fake.block_sends = false;
            wp_fake_call_unblock(&sim->peers[p].fake);
            wp_fake_call_end(&sim->peers[p].fake);
        }
        sim->open[p] = false;
    }
    settle(sim);
    check(sim);
    check_end(sim);
    for (uint32_t p = 0; p < PEERS; p++) {
        wp_peer_fini(&sim->peers[p]);
    }
    wp_fake_call_fini(&sim->person);
    wp_world_fini(&sim->world);
}

int
main(int argc, char **argv)
{
    static struct sim sim;
    uint64_t from = 1;
    uint64_t n = 300;
    uint64_t shown = 0;
    uint64_t taken = 0;
    uint64_t breaks = 0;
    uint64_t resumes = 0;
    uint64_t restarts = 0;

    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--seeds=", 8) == 0) {
            n = strtoull(argv[i] + 8, NULL, 10);
        } else if (strncmp(argv[i], "--from=", 7) == 0) {
            from = strtoull(argv[i] + 7, NULL, 10);
        } else if (strncmp(argv[i], "--seed=", 7) == 0) {
            from = strtoull(argv[i] + 7, NULL, 10);
            n = 1;
        } else {
            (void)fprintf(stderr, "stream_sim: unknown option '%s'\n", argv[i]);
            return 2;
        }
    }
    for (uint64_t seed = from; seed < from + n; seed++) {
        run_seed(&sim, seed);
        shown += sim.n_shown;
        taken += sim.taken;
        breaks += sim.breaks;
        resumes += sim.resumes;
        restarts += sim.restarts;
    }
    (void)printf("%llu seeds: %llu sandboxes shown, %llu taken, %llu breaks, "
                 "%llu resumed, %llu restarts\n",
                 (unsigned long long)n, (unsigned long long)shown,
                 (unsigned long long)taken, (unsigned long long)breaks,
                 (unsigned long long)resumes, (unsigned long long)restarts);
    return resumes > 0 && restarts > 0 ? 0 : 1;
}
