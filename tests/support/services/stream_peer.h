/* tests/support/services/stream_peer.h - the client of a ClaimStream on the services'
 * world: what it was told, what it took, and what it says.
 *
 * A message that it takes is read at once, and what it says arrives at once; it
 * says no more than a test has it say. Single-threaded. */
#ifndef WP_TESTS_SUPPORT_SERVICES_STREAM_PEER_H
#define WP_TESTS_SUPPORT_SERVICES_STREAM_PEER_H

#include "tests/support/services/service_world.h"

enum {
    WP_PEER_LEASES_MAX = 4096, /* Ever told of. */
};

enum wp_peer_lease_state {
    WP_PEER_HAS,       /* Not taken. */
    WP_PEER_TOOK,      /* Taken, and not confirmed. */
    WP_PEER_CONFIRMED, /* Its own. */
    WP_PEER_OVER,      /* Ended, or given back. */
};

struct wp_peer_lease {
    enum wp_peer_lease_state state;
    uint64_t number;
    char claim_id[WP_CLAIM_ID_MAX + 1];
    char sandbox[WP_SANDBOX_NAME_MAX + 1];
    uint8_t token[WP_TOKEN_LEN];
    uint64_t fence;
    int64_t deadline_wall_ms;
};

struct wp_stream_peer {
    struct wp_world *world;
    struct wp_fake_call fake;
    char id[WP_STREAM_ID_MAX + 1];
    char tenant[WP_TENANT_MAX + 1];
    int64_t ttl_ms;
    uint32_t ahead;
    bool deaf;  /* What is sent to it is lost. */
    bool begun; /* Its object has been used. */

    uint32_t messages; /* Read. */
    int lacking_code;  /* As last told. */
    char lacking[256];
    uint32_t n_leases;
    struct wp_peer_lease leases[WP_PEER_LEASES_MAX];
};

void wp_peer_init(struct wp_stream_peer *peer, struct wp_world *world,
                  const char *id, uint32_t ahead);
/* Breaks the stream, if it is open. */
void wp_peer_fini(struct wp_stream_peer *peer);
/* Opens it; the last one must have finished. With resume it says what it has
 * and has taken, from begin on. */
void wp_peer_open(struct wp_stream_peer *peer, bool resume);
/* How many of its leases are so. */
uint32_t wp_peer_count(const struct wp_stream_peer *peer,
                       enum wp_peer_lease_state state);
/* The oldest that it has; NULL: it has none. */
struct wp_peer_lease *wp_peer_first(struct wp_stream_peer *peer);
/* Takes it, and says so unless lost. */
void wp_peer_take(struct wp_stream_peer *peer, struct wp_peer_lease *lease,
                  bool lost);
/* Says that it took, and gives back, what these numbers say; false ones too. */
void wp_peer_say(struct wp_stream_peer *peer, const uint64_t *took,
                 uint32_t n_took, const uint64_t *back, uint32_t n_back);

#endif
