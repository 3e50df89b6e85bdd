#include "bench/scaling/outlook.h"

static void
on_claims(void *self, int64_t now_ns, uint32_t n, uint32_t missed)
{
    struct wp_outlook *outlook = self;

    if (now_ns >= outlook->from_ns) {
        outlook->claims += n;
        outlook->hits += n * wp_replay_policy_ours_outlook(&outlook->ours);
    }
    outlook->ours.on_claims(outlook->ours.self, now_ns, n, missed);
}

static void
on_ready(void *self, int64_t now_ns, int64_t lead_ns)
{
    struct wp_outlook *outlook = self;

    outlook->ours.on_ready(outlook->ours.self, now_ns, lead_ns);
}

static void
on_announced(void *self, int64_t now_ns, int64_t from_ns, int64_t until_ns,
             uint32_t n)
{
    struct wp_outlook *outlook = self;

    outlook->ours.on_announced(outlook->ours.self, now_ns, from_ns, until_ns,
                               n);
}

static uint32_t
target(void *self, const struct wp_replay_view *view, int64_t *next_ns)
{
    struct wp_outlook *outlook = self;

    return outlook->ours.target(outlook->ours.self, view, next_ns);
}

static void
destroy(void *self)
{
    struct wp_outlook *outlook = self;

    outlook->ours.destroy(outlook->ours.self);
}

void
wp_outlook_watch(struct wp_outlook *outlook, struct wp_replay_policy *ours,
                 int64_t from_ns)
{
    *outlook = (struct wp_outlook){.ours = *ours, .from_ns = from_ns};
    *ours = (struct wp_replay_policy){.name = outlook->ours.name,
                                      .self = outlook,
                                      .on_claims = on_claims,
                                      .on_ready = on_ready,
                                      .on_announced = on_announced,
                                      .target = target,
                                      .destroy = destroy};
}

double
wp_outlook_mean(const struct wp_outlook *outlook)
{
    return outlook->claims > 0 ? outlook->hits / outlook->claims : 1;
}
