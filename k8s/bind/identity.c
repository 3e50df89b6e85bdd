#include "k8s/bind/identity.h"

#include "pool/base/assert.h"
#include "pool/base/log.h"
#include "proto/parcel/request.h"

_Static_assert((int)WP_IDENTITY_TOKEN_MAX <= (int)WP_IDENTITY_TEXT_MAX,
               "an identity is one field");

#define LOOK_AGAIN_MIN_NS (1 * WP_NS_PER_S)
#define FAILED_MIN_NS (5 * WP_NS_PER_S)
#define FAILED_MAX_NS (300 * WP_NS_PER_S)
#define LOOK_AGAIN_MAX_NS (300 * WP_NS_PER_S)
#define SET_NS (10 * WP_NS_PER_S) /* More than a clock drifts meanwhile. */
#define CROWDED_NS (1 * WP_NS_PER_S)
#define SAY_PAUSE_NS (10 * WP_NS_PER_S)

enum wp_status
wp_identity_sign(const struct wp_identity *identity,
                 const struct wp_cluster_identity *signer,
                 const struct wp_claim_info *lease,
                 const struct wp_identity_wanted *wanted,
                 struct wp_identity_token *token, struct wp_err *err)
{
    enum wp_status status =
        signer == NULL
            ? wp_err_set(err, WP_FAILED_PRECONDITION,
                         "the daemon has no identity_secret")
            : signer->sign(signer->ctx, lease, wanted->audience, wanted->ttl_ms,
                           token->text, &token->until_wall_ms, err);

    if (status != WP_OK) {
        return wp_err_wrap(err, "identity");
    }
    if (token->until_wall_ms == identity->until_wall_ms) {
        token->text[0] = '\0';
    }
    return WP_OK;
}

void
wp_identity_given(struct wp_identity *identity, int64_t until_wall_ms,
                  const struct wp_clock *clock)
{
    int64_t left_ms = until_wall_ms - wp_clock_wall_ns(clock) / WP_NS_PER_MS;
    int64_t wait_ns = left_ms * 2 / 5 * WP_NS_PER_MS;

    identity->until_wall_ms = until_wall_ms;
    identity->offset_ns = wp_clock_wall_offset_ns(clock);
    identity->due_ns =
        wp_time_add(wp_clock_mono_ns(clock),
                    wait_ns > LOOK_AGAIN_MIN_NS ? wait_ns : LOOK_AGAIN_MIN_NS);
}

static bool
clock_was_set(const struct wp_identity *identity, const struct wp_clock *clock)
{
    int64_t by_ns = wp_clock_wall_offset_ns(clock) - identity->offset_ns;

    return identity->offset_ns != 0 && (by_ns > SET_NS || by_ns < -SET_NS);
}

int64_t
wp_identity_wait_ns(const struct wp_identity *identity,
                    const struct wp_clock *clock)
{
    int64_t now_ns = wp_clock_mono_ns(clock);

    return identity->due_ns > now_ns && !clock_was_set(identity, clock)
               ? identity->due_ns - now_ns
               : 0;
}

int64_t
wp_identity_look_ns(const struct wp_identity *identity,
                    const struct wp_clock *clock)
{
    int64_t wait_ns = wp_identity_wait_ns(identity, clock);

    return wait_ns < LOOK_AGAIN_MAX_NS ? wait_ns : LOOK_AGAIN_MAX_NS;
}

/* --- The next ones --- */

bool
wp_identity_renewal_begin(struct wp_identity_renewals *renewals,
                          struct wp_identity *identity)
{
    if (wp_identity_wait_ns(identity, renewals->clock) > 0) {
        return false;
    }
    if (clock_was_set(identity, renewals->clock)) {
        /* As if none was given: a new one is sent, whenever it ends. */
        *identity = (struct wp_identity){.due_ns = 0};
    }
    if (renewals->under_way == WP_IDENTITY_RENEWALS_MAX) {
        identity->due_ns =
            wp_time_add(wp_clock_mono_ns(renewals->clock), CROWDED_NS);
        return false;
    }
    renewals->under_way++;
    return true;
}

void
wp_identity_renewal_drop(struct wp_identity_renewals *renewals)
{
    WP_ASSERT(renewals->under_way > 0);
    renewals->under_way--;
}

void
wp_identity_renewed(struct wp_identity_renewals *renewals,
                    struct wp_identity *identity, int64_t until_wall_ms)
{
    wp_identity_renewal_drop(renewals);
    renewals->given_total++;
    wp_identity_given(identity, until_wall_ms, renewals->clock);
}

static int64_t
pause_ns(const struct wp_identity *identity, const struct wp_clock *clock)
{
    int64_t left_ms =
        identity->until_wall_ms - wp_clock_wall_ns(clock) / WP_NS_PER_MS;

    if (left_ms >= FAILED_MAX_NS / WP_NS_PER_MS * 5) {
        return FAILED_MAX_NS;
    }
    return left_ms > FAILED_MIN_NS / WP_NS_PER_MS * 5
               ? left_ms / 5 * WP_NS_PER_MS
               : FAILED_MIN_NS;
}

void
wp_identity_not_renewed(struct wp_identity_renewals *renewals,
                        struct wp_identity *identity, const char *ns,
                        const char *sandbox, const char *reason)
{
    int64_t now_ns = wp_clock_mono_ns(renewals->clock);

    wp_identity_renewal_drop(renewals);
    renewals->failed_total++;
    identity->due_ns = wp_time_add(now_ns, pause_ns(identity, renewals->clock));
    if (now_ns >= renewals->say_from_ns) {
        renewals->say_from_ns = wp_time_add(now_ns, SAY_PAUSE_NS);
        wp_log_warn("an identity was not renewed; it is tried again",
                    wp_kv_str("namespace", ns), wp_kv_str("sandbox", sandbox),
                    wp_kv_str("reason", reason),
                    wp_kv_int("failed_total", (int64_t)renewals->failed_total));
    }
}
