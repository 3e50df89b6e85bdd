/* tests/support/services/service_world.h - the services on a real pool, without a
 * transport: pool "default/p" of tests/support/pool/pool_rig.h, and calls of
 * tests/support/services/fake_call.h. Single-threaded: the control thread's messages runs in
 * wp_world_settle. */
#ifndef WP_TESTS_SUPPORT_SERVICES_SERVICE_WORLD_H
#define WP_TESTS_SUPPORT_SERVICES_SERVICE_WORLD_H

#include "allocator/services/services.h"
#include "proto/wire/wire.h"
#include "tests/support/services/fake_call.h"
#include "tests/support/pool/pool_rig.h"

enum {
    WP_WORLD_MESSAGES_MAX = 16,
};

struct wp_world {
    struct wp_rig rig;
    struct wp_services *services;
    struct wp_service allocator;
    struct wp_service admin;

    struct wp_message messages[WP_WORLD_MESSAGES_MAX];
    uint32_t n_messages;
    bool channel_full; /* post answers false. */
    uint32_t wakes;
    uint32_t drains;
    int64_t drain_grace_ns;
    struct wp_pool_job *job; /* Handed over to be done; NULL: none. */
    uint32_t changes_seen;
    _Atomic(bool) serves; /* True; what the services are told. */
    int64_t next_run_ns;  /* What wp_services_run asked for. */

    /* The last reply unpacked. */
    struct wp_arena arena;
    char *arena_memory; /* Owned. */
};

void wp_world_init(struct wp_world *world, uint32_t slots_max, uint32_t target);
void wp_world_fini(struct wp_world *world);
/* Other services on the same pools, as a daemon's next process has them whose
 * leases are durable. All calls must have finished, and no commit be kept. */
void wp_world_restart(struct wp_world *world);
/* Runs messages, the pool, the backend and the services until all is quiet. */
void wp_world_settle(struct wp_world *world);
void wp_world_advance(struct wp_world *world, int64_t delta_ns);

/* An initialised call of a client that may do anything. */
void wp_world_call(struct wp_world *world, struct wp_fake_call *fake);
/* The same object for another call. */
struct wp_fake_call *wp_world_again(struct wp_world *world,
                                    struct wp_fake_call *fake);
/* Starts Claim of pool "default/p". */
void wp_world_claim(struct wp_world *world, struct wp_fake_call *fake,
                    const char *id, const char *tenant, int64_t wait_ms);
/* The lease that a Claim which ended with WP_OK has brought. Valid until the
 * next reply is unpacked. */
struct wp_wire_claim_response wp_world_lease(struct wp_world *world,
                                             const struct wp_fake_call *fake);
/* Starts Release with that token. */
void wp_world_release(struct wp_world *world, struct wp_fake_call *fake,
                      const uint8_t *token);

/* Fails the test, with what the call said, unless it has ended so. */
void wp_world_assert_ended(const struct wp_fake_call *fake,
                           enum wp_status status);

/* Unpacks the reply of a call into *out; aborts with the reason when it is not
 * such a message. */
#define WP_WORLD_REPLY(world, fake, name, out)                                 \
    do {                                                                       \
        struct wp_err err_;                                                    \
        wp_arena_reset(&(world)->arena);                                       \
        if (wp_wire_unpack_##name(&(world)->arena, (fake)->reply,              \
                                  (fake)->reply_len, (out), &err_) != WP_OK) { \
            fail_msg("%s: %s", #name, err_.msg);                               \
        }                                                                      \
    } while (0)

/* Starts a method with a request struct. */
#define WP_WORLD_START(service, fake, method, name, request)                   \
    do {                                                                       \
        static uint8_t buf_[WP_WIRE_MESSAGE_MAX];                              \
        size_t len_ = wp_wire_size_##name(request);                            \
        assert_true(len_ <= sizeof buf_);                                      \
        (void)wp_wire_pack_##name(request, buf_);                              \
        wp_fake_call_start(fake, service, method, buf_, len_);                 \
    } while (0)

#endif
