/* allocator/advice/replay_ours.c - the daemon's own scaler as a policy to
 * replay. */
#include <stdio.h>
#include <stdlib.h>

#include "allocator/advice/replay.h"
#include "pool/scale/scaler.h"

/* More than any pool may have: nothing but the policy bounds it. */
#define ROOM (1U << 30)

struct ours {
    struct wp_scaler *scaler;
    uint32_t replicas;
    int64_t start_wall_ns;
    uint32_t announced; /* So far; names the next one. */
    double outlook;     /* The latest decision's. */
};

static void
on_claims(void *self, int64_t now_ns, uint32_t n, uint32_t missed)
{
    struct ours *ours = self;

    wp_scaler_on_claims(ours->scaler, now_ns, n, missed);
}

static void
on_ready(void *self, int64_t now_ns, int64_t lead_ns)
{
    struct ours *ours = self;

    wp_scaler_on_ready(ours->scaler, now_ns, lead_ns);
}

/* What cannot be reserved is claimed all the same. */
static void
on_announced(void *self, int64_t now_ns, int64_t from_ns, int64_t until_ns,
             uint32_t n)
{
    struct ours *ours = self;
    struct wp_err err;
    char id[16];
    int len = snprintf(id, sizeof(id), "r%u", ours->announced++);

    (void)now_ns;
    (void)wp_scaler_reserve(ours->scaler, (struct wp_str){id, (size_t)len}, n,
                            ours->start_wall_ns + from_ns,
                            ours->start_wall_ns + until_ns, &err);
}

static uint32_t
target(void *self, const struct wp_replay_view *view, int64_t *next_ns)
{
    struct ours *ours = self;
    const struct wp_scale_view seen = {
        .mono_ns = view->now_ns,
        .wall_ns = ours->start_wall_ns + view->now_ns,
        .replicas = ours->replicas,
        .ready = view->ready,
        .warming = view->warming,
        .room = ROOM,
        .budget = UINT32_MAX,
        .stuck = view->stuck,
    };

    const struct wp_scale_decision decision =
        wp_scaler_decide(ours->scaler, &seen, next_ns);

    ours->outlook = decision.hit_rate;
    return decision.target;
}

static void
destroy(void *self)
{
    struct ours *ours = self;

    wp_scaler_destroy(ours->scaler);
    free(ours);
}

bool
wp_replay_policy_ours(const struct wp_scale_policy *policy, enum wp_miss miss,
                      uint32_t replicas, int64_t prior_lead_ns,
                      int64_t start_wall_ns, struct wp_replay_policy *out)
{
    struct ours *ours = calloc(1, sizeof(*ours));

    if (ours == NULL) {
        return false;
    }
    ours->scaler =
        wp_scaler_create(miss, replicas, prior_lead_ns, 0, start_wall_ns);
    if (ours->scaler == NULL) {
        free(ours);
        return false;
    }
    wp_scaler_set_policy(ours->scaler, policy);
    ours->replicas = replicas;
    ours->start_wall_ns = start_wall_ns;
    *out = (struct wp_replay_policy){
        .name = "warmpool",
        .self = ours,
        .on_claims = on_claims,
        .on_ready = on_ready,
        .on_announced = on_announced,
        .target = target,
        .destroy = destroy,
    };
    return true;
}

void
wp_replay_policy_ours_at_once(const struct wp_replay_policy *ours, uint32_t n)
{
    const struct ours *self = ours->self;

    wp_scaler_set_at_once(self->scaler, 0, n);
}

double
wp_replay_policy_ours_outlook(const struct wp_replay_policy *ours)
{
    const struct ours *self = ours->self;

    return self->outlook;
}
