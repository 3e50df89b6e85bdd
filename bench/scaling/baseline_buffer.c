/* bench/scaling/baseline_buffer.c - those that keep some ready beyond what
 * is in use.
 *
 * Most of them size the whole, with what is in use; what is ready and warming
 * then falls with each claim until they look again. */
#include <math.h>
#include <stdlib.h>

#include "pool/base/clock.h"
#include "bench/scaling/baseline_parts.h"

#define AGONES_PERIOD_NS (30 * WP_NS_PER_S)
#define WATERMARK_PERIOD_NS (15 * WP_NS_PER_S)
#define WATERMARK_TOLERANCE 0.1
#define IN_USE_COOLDOWN_NS (300 * WP_NS_PER_S)

struct buffer {
    struct wp_baseline_config config;
    int64_t due_ns;
    uint32_t size; /* Of all, or of the stock: see each. */
    bool sized;
    int64_t claim_ns; /* The last claim. */
    struct wp_baseline_recent recent;
};

static bool
create(const struct wp_baseline_config *config, struct wp_replay_policy *out)
{
    struct buffer *buffer = calloc(1, sizeof(*buffer));

    if (buffer == NULL) {
        return false;
    }
    buffer->config = *config;
    out->self = buffer;
    return true;
}

static uint32_t
agones_target(struct buffer *buffer, const struct wp_replay_view *view,
              double replicas, int64_t *next_ns)
{
    if (wp_baseline_is_due(&buffer->due_ns, AGONES_PERIOD_NS, view->now_ns)) {
        buffer->size = wp_baseline_clamp(&buffer->config, replicas);
    }
    *next_ns = buffer->due_ns;
    return wp_baseline_stock_of_all(buffer->size, view->in_use);
}

static uint32_t
agones_buffer_target(void *self, const struct wp_replay_view *view,
                     int64_t *next_ns)
{
    struct buffer *buffer = self;

    return agones_target(buffer, view, view->in_use + buffer->config.a,
                         next_ns);
}

bool
wp_baseline_create_agones_buffer(const struct wp_baseline_config *config,
                                 struct wp_replay_policy *out)
{
    out->target = agones_buffer_target;
    return create(config, out);
}

/* At least one: the minimum that a percentage must be configured with. */
static uint32_t
agones_percent_target(void *self, const struct wp_replay_view *view,
                      int64_t *next_ns)
{
    struct buffer *buffer = self;
    double all = ceil(view->in_use * 100.0 / (100 - buffer->config.a));

    return agones_target(buffer, view, fmax(all, 1), next_ns);
}

bool
wp_baseline_create_agones_percent(const struct wp_baseline_config *config,
                                  struct wp_replay_policy *out)
{
    out->target = agones_percent_target;
    return create(config, out);
}

static uint32_t
opensandbox_target(void *self, const struct wp_replay_view *view,
                   int64_t *next_ns)
{
    const struct buffer *buffer = self;
    double min = buffer->config.a;
    double max = buffer->config.b;
    double stock = (double)view->ready + view->warming;

    *next_ns = WP_TIME_NEVER;
    if (stock < min || stock > max) {
        stock = floor((min + max) / 2);
    }
    return wp_baseline_clamp(&buffer->config, stock);
}

bool
wp_baseline_create_opensandbox(const struct wp_baseline_config *config,
                               struct wp_replay_policy *out)
{
    out->target = opensandbox_target;
    return create(config, out);
}

/* What lacks to the available ones is added to the replicas, those warming
 * included: with lead times beyond the period it adds them again. */
static uint32_t
watermark_target(void *self, const struct wp_replay_view *view,
                 int64_t *next_ns)
{
    struct buffer *buffer = self;
    double wanted = buffer->config.a;
    double replicas = (double)view->ready + view->warming;

    if (wp_baseline_is_due(&buffer->due_ns, WATERMARK_PERIOD_NS,
                           view->now_ns)) {
        uint32_t to;

        if (fabs(view->ready - wanted) > WATERMARK_TOLERANCE * wanted) {
            replicas += wanted - view->ready;
        }
        to = wp_baseline_clamp(&buffer->config, replicas);
        buffer->size = wp_baseline_recent_max(&buffer->recent, to);
    }
    *next_ns = buffer->due_ns;
    return buffer->size;
}

bool
wp_baseline_create_watermark(const struct wp_baseline_config *config,
                             struct wp_replay_policy *out)
{
    out->target = watermark_target;
    return create(config, out);
}

static void
in_use_on_claims(void *self, int64_t now_ns, uint32_t n, uint32_t missed)
{
    struct buffer *buffer = self;

    (void)n;
    (void)missed;
    buffer->claim_ns = now_ns;
}

static uint32_t
in_use_target(void *self, const struct wp_replay_view *view, int64_t *next_ns)
{
    struct buffer *buffer = self;
    uint32_t all =
        wp_baseline_clamp(&buffer->config, view->in_use + buffer->config.a);
    int64_t until_ns = wp_time_add(buffer->claim_ns, IN_USE_COOLDOWN_NS);

    if (!buffer->sized || all > buffer->size || view->now_ns >= until_ns) {
        buffer->size = all;
        buffer->sized = true;
    }
    *next_ns = view->now_ns < until_ns ? until_ns : WP_TIME_NEVER;
    return wp_baseline_stock_of_all(buffer->size, view->in_use);
}

bool
wp_baseline_create_in_use_plus(const struct wp_baseline_config *config,
                               struct wp_replay_policy *out)
{
    out->target = in_use_target;
    out->on_claims = in_use_on_claims;
    return create(config, out);
}
