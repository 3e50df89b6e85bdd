#include "pool/scale/rival.h"

#include <math.h>
#include <stdlib.h>

#include "pool/scale/rival_parts.h"

struct row {
    const char *name;
    const char *cites;
    wp_rival_create_fn create;
};

static const struct row rows[WP_RIVAL_COUNT] = {
    [WP_RIVAL_FIXED] = {"fixed",
                        "agent-sandbox: spec.replicas of a SandboxWarmPool "
                        "without an autoscaler",
                        wp_rival_create_fixed},
};

static const struct row *
row_of(enum wp_rival rival)
{
    return (unsigned)rival < WP_RIVAL_COUNT && rows[rival].create != NULL
               ? &rows[rival]
               : NULL;
}

uint32_t
wp_rival_clamp(const struct wp_rival_config *config, double n)
{
    n = fmax(n, config->min);
    n = fmin(n, config->max);
    return (uint32_t)fmax(n, 0);
}

bool
wp_rival_create(const struct wp_rival_config *config,
                struct wp_replay_policy *out)
{
    const struct row *row = row_of(config->rival);

    if (row == NULL) {
        return false;
    }
    *out = (struct wp_replay_policy){.name = row->name, .destroy = free};
    return row->create(config, out);
}

const char *
wp_rival_name(enum wp_rival rival)
{
    const struct row *row = row_of(rival);

    return row == NULL ? NULL : row->name;
}

const char *
wp_rival_cites(enum wp_rival rival)
{
    const struct row *row = row_of(rival);

    return row == NULL ? NULL : row->cites;
}
