/* bench/micro/bench_wire.c - bytes to structs and back, for the four messages of a
 * Claim and a Release, with names as long as real ones. */
#include <stdio.h>

#include "bench/micro/gbench.h"
#include "pool/base/assert.h"
#include "proto/wire/wire.h"

enum {
    BATCH = 64,
};

static uint8_t bytes[1024];
static _Alignas(16) char arena_memory[WP_WIRE_ARENA_MIN];

static const struct wp_wire_claim_request claim_request = {
    .pool = {{"default", 7}, {"python-agents", 13}},
    .claim_id = {"5e1c9c54-8d0f-4d3a-9a57-0c2f3f7f6f11", 36},
    .wait_ms = 5000,
};

static void
fill_grant(struct wp_grant *grant)
{
    *grant = (struct wp_grant){
        .fence = 7,
        .deadline_wall_ms = 1767225600000,
        .served = WP_SERVED_WARM,
    };
    (void)snprintf(grant->pool_namespace, sizeof(grant->pool_namespace),
                   "default");
    (void)snprintf(grant->pool, sizeof(grant->pool), "python-agents");
    (void)snprintf(grant->sandbox, sizeof(grant->sandbox),
                   "python-agents-x7k2m9qp");
    (void)snprintf(grant->endpoint, sizeof(grant->endpoint),
                   "unix:/run/warmpool/sandboxes/python-agents-x7k2m9qp/s");
    for (int i = 0; i < WP_TOKEN_LEN; i++) {
        grant->token[i] = (uint8_t)(i * 37 + 1);
    }
}

static void
show_length(struct wp_bench_state *state, size_t len)
{
    wp_bench_count(state, "bytes", (double)len, WP_BENCH_COUNTER_PLAIN);
}

static void
bench_unpack_claim(struct wp_bench_state *state)
{
    size_t len = wp_wire_pack_claim_request(&claim_request, bytes);
    struct wp_wire_claim_request out;
    struct wp_arena arena;
    struct wp_err err;

    wp_arena_init(&arena, arena_memory, sizeof(arena_memory));
    while (wp_bench_keep(state, BATCH)) {
        for (int i = 0; i < BATCH; i++) {
            wp_arena_reset(&arena);
            WP_ASSERT(wp_wire_unpack_claim_request(&arena, bytes, len, &out,
                                                   &err) == WP_OK);
            wp_bench_use(out.claim_id.len);
        }
    }
    show_length(state, len);
}

static void
bench_pack_claim(struct wp_bench_state *state)
{
    struct wp_grant grant;
    struct wp_wire_claim_response response = {
        .claim_id = claim_request.claim_id, .grant = &grant};
    size_t len = 0;

    fill_grant(&grant);
    while (wp_bench_keep(state, BATCH)) {
        for (int i = 0; i < BATCH; i++) {
            WP_ASSERT(wp_wire_size_claim_response(&response) <= sizeof(bytes));
            len = wp_wire_pack_claim_response(&response, bytes);
            wp_bench_use(bytes[len - 1]);
        }
    }
    show_length(state, len);
}

static void
bench_unpack_release(struct wp_bench_state *state)
{
    struct wp_wire_release_request request = {{1}};
    size_t len = wp_wire_pack_release_request(&request, bytes);
    struct wp_arena arena;
    struct wp_err err;

    wp_arena_init(&arena, arena_memory, sizeof(arena_memory));
    while (wp_bench_keep(state, BATCH)) {
        for (int i = 0; i < BATCH; i++) {
            wp_arena_reset(&arena);
            WP_ASSERT(wp_wire_unpack_release_request(&arena, bytes, len,
                                                     &request, &err) == WP_OK);
            wp_bench_use(request.token[0]);
        }
    }
    show_length(state, len);
}

static void
bench_pack_release(struct wp_bench_state *state)
{
    const struct wp_wire_release_response response = {true};
    size_t len = 0;

    while (wp_bench_keep(state, BATCH)) {
        for (int i = 0; i < BATCH; i++) {
            WP_ASSERT(wp_wire_size_release_response(&response) <=
                      sizeof(bytes));
            len = wp_wire_pack_release_response(&response, bytes);
            wp_bench_use(bytes[0]);
        }
    }
    show_length(state, len);
}

int
main(int argc, char **argv)
{
    const struct wp_bench all[] = {
        {"wire/unpack_claim_request", bench_unpack_claim, NULL, NULL, 0, NULL,
         0, false},
        {"wire/pack_claim_response", bench_pack_claim, NULL, NULL, 0, NULL, 0,
         false},
        {"wire/unpack_release_request", bench_unpack_release, NULL, NULL, 0,
         NULL, 0, false},
        {"wire/pack_release_response", bench_pack_release, NULL, NULL, 0, NULL,
         0, false},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        wp_bench_register(&all[i]);
    }
    return wp_bench_run(argc, argv);
}
