/* tests/unit/allocator/services/claim_path_service_test.c - the same as claim_path_test, a layer
 * further out: from the bytes of a ClaimRequest to those of its answer, decoding,
 * pool, token and packing, nothing allocates, locks or enters the kernel.
 *
 * The transport is a fake without memory of its own: what C-core does beside is
 * not ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#include "allocator/services/services.h"
#include "bench/load/claim_codec.h"
#include "bench/micro/pool_rig.h"
#include "pool/base/assert.h"
#include "tests/support/base/call_counts.h"

enum {
    CLAIMS = 1000,
    READY = 1100,
};

/* One call after the other, in static memory. */
struct still_call {
    struct wp_call call;
    alignas(max_align_t) char arena[WP_CALL_ARENA_SIZE];
    uint8_t reply[1024];
    size_t reply_len;
    unsigned finished;
    enum wp_status status;
};

static struct still_call still;

static uint8_t *
reserve(struct wp_call *call, size_t len)
{
    (void)call;
    WP_ASSERT(len <= sizeof(still.reply));
    still.reply_len = len;
    return still.reply;
}

static void
finish(struct wp_call *call, enum wp_status status, const char *message,
       int64_t retry_after_ns)
{
    (void)call;
    (void)message;
    (void)retry_after_ns;
    still.finished++;
    still.status = status;
}

static bool
send_nothing(struct wp_call *call)
{
    (void)call;
    return false;
}

static bool
post_nowhere(void *ctx, struct wp_message message)
{
    (void)ctx;
    (void)message;
    return false;
}

static void
wake_nobody(void *ctx)
{
    (void)ctx;
}

static void
drain_nothing(void *ctx, int64_t grace_ns)
{
    (void)ctx;
    (void)grace_ns;
}

static struct wp_pool_rig rig;
static struct wp_services *services;
static struct wp_service allocator;

static int
setup(void **state)
{
    struct wp_services_config config;
    struct wp_err err;

    (void)state;
    wp_pool_rig_init(&rig, READY, READY * 2, true);
    wp_services_config_init(&config);
    config.pools = rig.pools;
    config.clock = wp_clock_system();
    config.post = post_nowhere;
    config.wake = wake_nobody;
    config.drain = drain_nothing;
    services = wp_services_create(&config, &err);
    assert_non_null(services);
    allocator = wp_service_allocator(services);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    wp_services_destroy(services);
    wp_pool_rig_fini(&rig);
    return 0;
}

static const struct wp_method *
method(const char *path)
{
    for (size_t i = 0; i < allocator.n_methods; i++) {
        if (strcmp(allocator.methods[i].path, path) == 0) {
            return &allocator.methods[i];
        }
    }
    return NULL;
}

static void
start(const struct wp_method *m, const uint8_t *request, size_t len)
{
    static const struct wp_call_ops ops = {reserve, finish, send_nothing};

    memset(&still.call, 0, sizeof(still.call));
    still.call.ops = &ops;
    still.call.deadline_ns =
        wp_clock_mono_ns(wp_clock_system()) + 10 * WP_NS_PER_S;
    still.call.service = allocator.self;
    still.finished = 0;
    wp_arena_init(&still.call.arena, still.arena, sizeof(still.arena));
    m->start(&still.call, request, len);
}

/* Serves the i-th claim; 1 when that was warm. */
static unsigned
serve(const struct wp_method *claim, unsigned i)
{
    uint8_t request[WP_CODEC_CLAIM_MAX];
    struct wp_codec_lease lease;
    char id[32];
    size_t len;

    (void)snprintf(id, sizeof(id), "claim-%u", i);
    len = wp_codec_write_claim(request, WP_STR("default"), WP_STR("bench"),
                               wp_str_from(id), 1000);
    start(claim, request, len);
    return still.finished == 1 && still.status == WP_OK &&
                   wp_codec_read_claim(still.reply, still.reply_len, &lease) &&
                   wp_str_is(lease.claim_id, id) &&
                   lease.served == WP_SERVED_WARM
               ? 1
               : 0;
}

/* But for a tenant's first, which opens its account. */
static void
test_a_claim_from_bytes_to_bytes_touches_nothing(void **state)
{
    const struct wp_method *claim = method("/warmpool.v1.Allocator/Claim");
    unsigned warm;

    (void)state;
    assert_non_null(claim);
    warm = serve(claim, 0);
    wp_call_counts_reset();
    for (unsigned i = 1; i < CLAIMS; i++) {
        warm += serve(claim, i);
    }
    assert_int_equal(wp_call_counts_allocations(), 0);
    assert_int_equal(wp_call_counts_locks(), 0);
    assert_int_equal(wp_call_counts_kernel(), 0);
    assert_int_equal(warm, CLAIMS);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            test_a_claim_from_bytes_to_bytes_touches_nothing, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
