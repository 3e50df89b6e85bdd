/* tests/unit/pool/core/one_pool.h - a rig with one pool of this test's own, "p",
 * whose sandboxes become ready as they are told to. */
#ifndef WP_TESTS_UNIT_POOL_CORE_ONE_POOL_H
#define WP_TESTS_UNIT_POOL_CORE_ONE_POOL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/pool/pool_rig.h"

#define S WP_NS_PER_S

static struct wp_rig rig;

static void
start(uint32_t target, uint32_t at_once, enum wp_fake_ready ready)
{
    struct wp_pool_spec spec;

    wp_pool_spec_init(&spec);
    spec.create_inflight_max = at_once;
    wp_rig_init(&rig, 32, 0, &spec);
    rig.backend.ready = ready;
    (void)snprintf(spec.name, sizeof spec.name, "p");
    (void)snprintf(spec.template_name, sizeof spec.template_name, "t");
    spec.target = target;
    assert_int_equal(wp_pools_update(rig.pools, 0, &spec, NULL), WP_OK);
    wp_rig_settle(&rig);
}

static enum wp_status
claim(struct wp_rig_claim *c, const char *id, int64_t wait_ns)
{
    wp_rig_claim_init(c, id, "team-a", 30 * S, wait_ns);
    return wp_rig_claim(&rig, c);
}

#endif
