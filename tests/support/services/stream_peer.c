#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/services/stream_peer.h"

#include "pool/base/assert.h"

static struct wp_peer_lease *
find(struct wp_stream_peer *peer, uint64_t number)
{
    for (uint32_t i = 0; i < peer->n_leases; i++) {
        if (peer->leases[i].number == number) {
            return &peer->leases[i];
        }
    }
    return NULL;
}

static void
note_lease(struct wp_stream_peer *peer, const struct wp_wire_lease_ahead *in)
{
    struct wp_peer_lease *lease = &peer->leases[peer->n_leases++];

    assert_true(peer->n_leases < WP_PEER_LEASES_MAX);
    assert_null(find(peer, in->number));
    for (uint32_t i = 0; i + 1 < peer->n_leases; i++) {
        if (strcmp(peer->leases[i].sandbox, in->grant->sandbox) == 0) {
            fail_msg("sandbox %s was shown twice", in->grant->sandbox);
        }
    }
    *lease =
        (struct wp_peer_lease){.state = WP_PEER_HAS,
                               .number = in->number,
                               .fence = in->grant->fence,
                               .deadline_wall_ms = in->grant->deadline_wall_ms};
    (void)snprintf(lease->claim_id, sizeof lease->claim_id, "%s",
                   in->claim_id.ptr);
    (void)snprintf(lease->sandbox, sizeof lease->sandbox, "%s",
                   in->grant->sandbox);
    memcpy(lease->token, in->grant->token, sizeof lease->token);
}

static void
read_message(struct wp_fake_call *fake)
{
    struct wp_stream_peer *peer = fake->ctx;
    struct wp_wire_stream_response response;

    if (peer->deaf) {
        return;
    }
    peer->messages++;
    WP_WORLD_REPLY(peer->world, fake, stream_response, &response);
    for (uint32_t i = 0; i < response.n_leases; i++) {
        note_lease(peer, &response.leases[i]);
    }
    for (uint32_t i = 0; i < response.n_taken; i++) {
        struct wp_peer_lease *lease = find(peer, response.taken[i]);

        assert_non_null(lease);
        lease->state = WP_PEER_CONFIRMED;
    }
    for (uint32_t i = 0; i < response.n_ended; i++) {
        struct wp_peer_lease *lease = find(peer, response.ended[i]);

        assert_non_null(lease);
        lease->state = WP_PEER_OVER;
    }
    if (response.lacking_code != 0 || response.lacking.len > 0) {
        peer->lacking_code = response.lacking_code;
        (void)snprintf(peer->lacking, sizeof peer->lacking, "%s",
                       response.lacking.ptr);
    }
}

void
wp_peer_init(struct wp_stream_peer *peer, struct wp_world *world,
             const char *id, uint32_t ahead)
{
    memset(peer, 0, sizeof *peer);
    peer->world = world;
    peer->ahead = ahead;
    (void)snprintf(peer->id, sizeof peer->id, "%s", id);
    wp_world_call(world, &peer->fake);
}

void
wp_peer_fini(struct wp_stream_peer *peer)
{
    wp_fake_call_cancel(&peer->fake);
    wp_fake_call_fini(&peer->fake);
}

void
wp_peer_open(struct wp_stream_peer *peer, bool resume)
{
    uint64_t keep[WP_AHEAD_MAX];
    uint64_t took[WP_AHEAD_MAX];
    struct wp_wire_stream_request request = {
        .has_open = true,
        .open = {.pool = {WP_STR("default"), WP_STR("p")},
                 .stream_id = wp_str_from(peer->id),
                 .tenant = wp_str_from(peer->tenant),
                 .ttl_ms = peer->ttl_ms,
                 .ahead = peer->ahead,
                 .resume = resume,
                 .keep = keep},
        .took = took,
    };

    for (uint32_t i = 0; resume && i < peer->n_leases; i++) {
        const struct wp_peer_lease *lease = &peer->leases[i];

        if (lease->state == WP_PEER_HAS) {
            keep[request.open.n_keep++] = lease->number;
        } else if (lease->state == WP_PEER_TOOK) {
            took[request.n_took++] = lease->number;
        }
        assert_true(request.open.n_keep < WP_AHEAD_MAX &&
                    request.n_took < WP_AHEAD_MAX);
    }
    if (peer->begun) {
        (void)wp_world_again(peer->world, &peer->fake);
    }
    peer->begun = true;
    peer->fake.sent = read_message;
    peer->fake.ctx = peer;
    WP_WORLD_START(&peer->world->allocator, &peer->fake, "ClaimStream",
                   stream_request, &request);
}

uint32_t
wp_peer_count(const struct wp_stream_peer *peer, enum wp_peer_lease_state state)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < peer->n_leases; i++) {
        n += peer->leases[i].state == state;
    }
    return n;
}

struct wp_peer_lease *
wp_peer_first(struct wp_stream_peer *peer)
{
    for (uint32_t i = 0; i < peer->n_leases; i++) {
        if (peer->leases[i].state == WP_PEER_HAS) {
            return &peer->leases[i];
        }
    }
    return NULL;
}

void
wp_peer_take(struct wp_stream_peer *peer, struct wp_peer_lease *lease,
             bool lost)
{
    WP_ASSERT(lease->state == WP_PEER_HAS);
    lease->state = WP_PEER_TOOK;
    if (!lost) {
        wp_peer_say(peer, &lease->number, 1, NULL, 0);
    }
}

void
wp_peer_say(struct wp_stream_peer *peer, const uint64_t *took, uint32_t n_took,
            const uint64_t *back, uint32_t n_back)
{
    static uint8_t buf[WP_WIRE_MESSAGE_MAX];
    const struct wp_wire_stream_request request = {
        .took = took, .n_took = n_took, .back = back, .n_back = n_back};

    wp_fake_call_receive(&peer->fake, buf,
                         wp_wire_pack_stream_request(&request, buf));
}
