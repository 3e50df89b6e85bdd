/* SandboxClaims in a world where everything happens at any time: writes
 * refused, lost and done unheard, caches that are stale, other writers,
 * thieves, deaths of the process. A seed replays exactly. Whatever happens, no
 * Sandbox has two claims and no claim has two Sandboxes; and once the world is
 * calm every claim has its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "k8s/objects/json.h"
#include "k8s/objects/names.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"
#include "tests/support/k8s/claim_rig.h"

#define S WP_NS_PER_S
#define MS WP_NS_PER_MS

enum {
    CLAIMS = 12,
    STEPS = 120,
    SEEDS = 150,
    STOLEN_MAX = STEPS, /* One a step at most. */
};

static struct wp_claim_rig rig;
static struct wp_rng rng;
static bool held;
static uint64_t seed;
static char stolen[STOLEN_MAX][64]; /* Sandboxes that a thief has. */
static uint32_t stolen_len;

static uint32_t
pick(uint32_t n)
{
    return (uint32_t)(wp_rng_next(&rng) % n);
}

static const json_t *
sandbox_at(uint32_t i)
{
    return wp_recorder_object_at(rig.api, WP_KIND_SANDBOX, i);
}

static const char *
owner_text(const json_t *sandbox, const char *field)
{
    return wp_json_text(
        json_array_get(wp_json_at(sandbox, "metadata", "ownerReferences", NULL),
                       0),
        field, NULL);
}

/* Of what the API server has, which is the only truth. */
static void
check_world(void)
{
    uint32_t claims = wp_recorder_objects(rig.api, WP_KIND_SANDBOX_CLAIM);
    uint32_t sandboxes = wp_recorder_objects(rig.api, WP_KIND_SANDBOX);

    for (uint32_t i = 0; i < claims; i++) {
        const json_t *claim =
            wp_recorder_object_at(rig.api, WP_KIND_SANDBOX_CLAIM, i);
        const char *uid = wp_json_text(claim, "metadata", "uid", NULL);
        const char *name =
            wp_json_text(claim, "status", "sandbox", "name", NULL);
        uint32_t owned = 0;

        for (uint32_t j = 0; j < sandboxes; j++) {
            owned += strcmp(owner_text(sandbox_at(j), "uid"), uid) == 0;
        }
        if (owned > 1) {
            fail_msg("seed %llu: a claim has %u sandboxes",
                     (unsigned long long)seed, owned);
        }
        for (uint32_t j = 0; j < i && name[0] != '\0'; j++) {
            const json_t *other =
                wp_recorder_object_at(rig.api, WP_KIND_SANDBOX_CLAIM, j);

            if (strcmp(wp_json_text(other, "status", "sandbox", "name", NULL),
                       name) == 0) {
                fail_msg("seed %llu: two claims name %s",
                         (unsigned long long)seed, name);
            }
        }
    }
}

/* What a thief has is not taken from it. */
static void
check_thief(void)
{
    for (uint32_t i = 0; i < stolen_len; i++) {
        const json_t *sandbox = wp_claim_rig_object(&rig, stolen[i]);

        if (sandbox != NULL &&
            strcmp(owner_text(sandbox, "uid"), "thief") != 0) {
            fail_msg("seed %llu: %s was taken from a thief",
                     (unsigned long long)seed, stolen[i]);
        }
    }
}

/* --- What may happen --- */

static void
claim_comes(void)
{
    char text[256];

    (void)snprintf(text, sizeof text,
                   "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"c%u\"},"
                   "\"spec\":{\"warmPoolRef\":{\"name\":\"p\"}}}",
                   pick(CLAIMS));
    if (wp_recorder_objects(rig.api, WP_KIND_SANDBOX_CLAIM) < CLAIMS) {
        json_t *json = json_loads(text, 0, NULL);

        if (wp_recorder_object(rig.api, WP_KIND_SANDBOX_CLAIM, "ns",
                               wp_json_text(json, "metadata", "name", NULL)) ==
            NULL) {
            (void)wp_recorder_put(rig.api, WP_KIND_SANDBOX_CLAIM, text);
        }
        json_decref(json);
    }
}

static void
claim_goes(void)
{
    char name[16];

    (void)snprintf(name, sizeof name, "c%u", pick(CLAIMS));
    if (wp_recorder_object(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", name) !=
        NULL) {
        wp_recorder_remove(rig.api, WP_KIND_SANDBOX_CLAIM, "ns", name);
        wp_recorder_collect(rig.api);
    }
}

static void
somebody_writes(void)
{
    enum wp_kind kind = pick(2) == 0 ? WP_KIND_SANDBOX : WP_KIND_SANDBOX_CLAIM;
    uint32_t n = wp_recorder_objects(rig.api, kind);
    char name[64];
    char patch[128];

    if (n > 0) {
        (void)snprintf(
            name, sizeof name, "%s",
            wp_json_text(wp_recorder_object_at(rig.api, kind, pick(n)),
                         "metadata", "name", NULL));
        (void)snprintf(patch, sizeof patch,
                       "{\"metadata\":{\"labels\":{\"x\":\"%u\"}}}", pick(9));
        (void)wp_recorder_merge(rig.api, kind, "ns", name, patch);
    }
}

/* Takes a Sandbox of the pool, or removes any. */
static void
somebody_takes(void)
{
    uint32_t n = wp_recorder_objects(rig.api, WP_KIND_SANDBOX);
    char name[64];

    if (n == 0) {
        return;
    }
    (void)snprintf(name, sizeof name, "%s",
                   wp_json_text(sandbox_at(pick(n)), "metadata", "name", NULL));
    if (pick(2) == 0) {
        wp_recorder_remove(rig.api, WP_KIND_SANDBOX, "ns", name);
    } else if (strcmp(owner_text(wp_recorder_object(rig.api, WP_KIND_SANDBOX,
                                                    "ns", name),
                                 "kind"),
                      "SandboxWarmPool") == 0) {
        (void)wp_recorder_merge(
            rig.api, WP_KIND_SANDBOX, "ns", name,
            "{\"metadata\":{\"labels\":{\"" WP_LABEL_WARM_POOL
            "\":null},\"ownerReferences\":[{\"apiVersion\":"
            "\"extensions.agents.x-k8s.io/v1beta1\",\"kind\":\"SandboxClaim\","
            "\"name\":\"thief\",\"uid\":\"thief\",\"controller\":true}]}}");
        (void)snprintf(stolen[stolen_len++], sizeof stolen[0], "%s", name);
    }
}

static void
call_fails(void)
{
    static const enum wp_status statuses[] = {
        WP_ABORTED, WP_UNKNOWN_OUTCOME, WP_UNAVAILABLE, WP_RESOURCE_EXHAUSTED};
    static const enum wp_verb verbs[] = {WP_VERB_PATCH, WP_VERB_GET,
                                         WP_VERB_POST, WP_VERB_DELETE};
    struct wp_recorder_fault fault = {
        .verb = verbs[pick(4)],
        .kind = pick(2) == 0 ? WP_KIND_SANDBOX : WP_KIND_SANDBOX_CLAIM,
        .status = statuses[pick(4)],
        .times = 1 + pick(3),
    };

    if (fault.verb == WP_VERB_GET && fault.status == WP_ABORTED) {
        fault.status = WP_UNAVAILABLE;
    }
    fault.effect = fault.status == WP_UNKNOWN_OUTCOME && pick(2) == 0;
    wp_recorder_plan(rig.api, &fault);
}

static void
process_dies(void)
{
    uint32_t steps = pick(6);

    for (uint32_t i = 0; i < steps; i++) {
        (void)wp_recorder_step(rig.api);
    }
    wp_claim_rig_restart(&rig);
    held = false;
}

static void
something(void)
{
    switch (pick(14)) {
    case 0:
    case 1:
    case 2:
        claim_comes();
        break;
    case 3:
        claim_goes();
        break;
    case 4:
        somebody_writes();
        break;
    case 5:
        somebody_takes();
        break;
    case 6:
    case 7:
        call_fails();
        break;
    case 8:
        held = !held;
        wp_recorder_hold(rig.api, held);
        break;
    case 9:
        (void)wp_claim_rig_make_ready(&rig, 1 + pick(3));
        break;
    case 10:
        wp_claim_rig_advance(&rig, (int64_t)(1 + pick(3000)) * MS);
        break;
    case 11:
        if (pick(4) == 0) {
            process_dies();
        }
        break;
    case 12: /* Some calls are answered, in the middle of everything. */
        wp_recorder_notify(rig.api);
        (void)event_base_loop(rig.parts.base, EVLOOP_NONBLOCK);
        (void)wp_recorder_step(rig.api);
        break;
    default:
        wp_claim_rig_settle(&rig);
        break;
    }
}

/* Calm: caches are fresh, nothing fails any more than what was planned. */
static void
calm(void)
{
    wp_recorder_hold(rig.api, false);
    held = false;
    for (int i = 0; i < 200; i++) {
        check_thief();
        stolen_len = 0; /* The collector ends what belongs to nobody. */
        wp_recorder_collect(rig.api);
        (void)wp_claim_rig_make_ready(&rig, UINT32_MAX);
        wp_claim_rig_advance(&rig, 1 * S);
        check_world();
    }
}

static void
expect_all_served(void)
{
    uint32_t claims = wp_recorder_objects(rig.api, WP_KIND_SANDBOX_CLAIM);

    for (uint32_t i = 0; i < claims; i++) {
        const json_t *claim =
            wp_recorder_object_at(rig.api, WP_KIND_SANDBOX_CLAIM, i);
        const char *name = wp_json_text(claim, "metadata", "name", NULL);
        const char *sandbox = wp_claim_rig_sandbox(&rig, name);

        if (strcmp(wp_claim_rig_owner(&rig, sandbox),
                   wp_json_text(claim, "metadata", "uid", NULL)) != 0) {
            fail_msg("seed %llu: %s has '%s' of '%s', Ready %s",
                     (unsigned long long)seed, name, sandbox,
                     wp_claim_rig_owner(&rig, sandbox),
                     wp_claim_rig_ready(&rig, name, "reason"));
        }
    }
    /* No lease of the core is left over. */
    if (wp_claim_rig_stats(&rig).leased > claims) {
        fail_msg("seed %llu: %u leases of %u claims", (unsigned long long)seed,
                 wp_claim_rig_stats(&rig).leased, claims);
    }
}

static void
run_seed(void)
{
    wp_rng_init(&rng, seed);
    held = false;
    stolen_len = 0;
    wp_claim_rig_init(&rig);
    rig.faults_may_stay = true;
    wp_claim_rig_start(&rig, 1 + pick(6));
    for (int i = 0; i < STEPS; i++) {
        something();
        check_world();
        check_thief();
    }
    calm();
    expect_all_served();
    wp_claim_rig_fini(&rig);
}

static void
every_claim_ends_with_its_own(void **state)
{
    (void)state;
    wp_log_configure(WP_LOG_ERROR, WP_LOG_TEXT);
    for (seed = 1; seed <= SEEDS; seed++) {
        run_seed();
    }
}

int
main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_claim_ends_with_its_own),
    };

    /* One seed, by hand: claim_chaos_test SEED */
    if (argc == 2) {
        seed = strtoull(argv[1], NULL, 10);
        run_seed();
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
