#include "bench/scaling/world.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "pool/base/rng.h"

#define DAY 86400.0

enum {
    RECURRENCES = 14,
    RECURRENCES_LEAST = 8,
    LEADS = 3000,
    LEADS_LEAST = 300,
    CLAIMS_MAX = 50000,
};

/* Between low and high, each octave as likely. */
static double
draw(struct wp_rng *rng, double low, double high)
{
    return low * pow(high / low, wp_rng_unit(rng));
}

static bool
one_in_four(struct wp_rng *rng)
{
    return wp_rng_below(rng, 4) == 0;
}

static void
draw_batches(struct wp_rng *rng, struct wp_trace_recipe *recipe)
{
    static const double jitters[] = {0, 0.2, 1};

    recipe->off_s = draw(rng, 60, 7 * DAY);
    recipe->on_s = fmin(draw(rng, 0.5, 120), recipe->off_s / 4);
    recipe->batch = (uint32_t)draw(rng, 2, 500);
    recipe->jitter = jitters[wp_rng_below(rng, 3)];
}

static void
draw_background(struct wp_rng *rng, struct wp_trace_recipe *recipe)
{
    recipe->rate_per_s = draw(rng, 0.01, 100);
    recipe->regular = one_in_four(rng);
    recipe->ratio = one_in_four(rng) ? draw(rng, 0.05, 200) : 1;
}

static double
mean_rate(const struct wp_trace_recipe *recipe)
{
    return recipe->rate_per_s * (1 + recipe->ratio) / 2 +
           (recipe->off_s > 0 ? recipe->batch / recipe->off_s : 0);
}

/* Both, or the batches are lost in the background, or come too seldom for so
 * many claims. */
static void
thin_background(struct wp_trace_recipe *recipe)
{
    double most = CLAIMS_MAX / (RECURRENCES_LEAST * recipe->off_s);

    recipe->ratio = 1;
    recipe->rate_per_s = fmin(fmin(recipe->rate_per_s, recipe->batch / 10.0),
                              most - recipe->batch / recipe->off_s);
}

/* As long as it takes for what recurs, or for some thousand lead times; less
 * where that would be too many claims, but for what is least. */
static void
set_length(struct wp_trace_recipe *recipe, double lead_s, uint32_t claims_max)
{
    double usual_s =
        fmax(fmax(LEADS * lead_s, 3600), RECURRENCES * recipe->off_s);
    double least_s =
        fmax(LEADS_LEAST * lead_s, RECURRENCES_LEAST * recipe->off_s);
    double rate = mean_rate(recipe);

    recipe->length_s = fmin(
        usual_s, fmax(claims_max / rate, fmin(least_s, CLAIMS_MAX / rate)));
    recipe->warm_up_s = recipe->length_s / 4;
    if (recipe->off_s > 0) {
        recipe->warm_up_s = fmin(
            fmax(recipe->warm_up_s, (WP_TRACE_KNOWN_AFTER + 1) * recipe->off_s),
            recipe->length_s / 2);
    }
}

/* From too few to be made for all claims to more than matter. */
static uint32_t
draw_at_once(struct wp_rng *rng, const struct wp_world *world)
{
    double mean =
        mean_rate(&world->recipe) * wp_replay_lead_mean_s(&world->regime.lead);

    return (uint32_t)ceil(mean * draw(rng, 0.8, 30));
}

static void WP_PRINTF(2, 3) say(struct wp_world *world, const char *format, ...)
{
    size_t len = strlen(world->text);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(world->text + len, sizeof world->text - len, format, args);
    va_end(args);
}

static void
describe(struct wp_world *world)
{
    const struct wp_trace_recipe *recipe = &world->recipe;

    say(world, "lead %.3g s", world->regime.lead.median_s);
    if (world->regime.at_once > 0) {
        say(world, ", %u at once", world->regime.at_once);
    }
    if (recipe->rate_per_s > 0) {
        say(world, "; %.3g/s%s", recipe->rate_per_s,
            recipe->regular ? " evenly" : "");
    }
    if (recipe->rate_per_s > 0 && fabs(recipe->ratio - 1) > 1e-9) {
        say(world, " to %.3g/s", recipe->rate_per_s * recipe->ratio);
    }
    if (recipe->off_s > 0) {
        say(world, "; %u in %.3g s%s every %.3g s, jitter %g", recipe->batch,
            recipe->on_s, recipe->steep ? " steeply" : "", recipe->off_s,
            recipe->jitter);
    }
}

struct wp_world
wp_world_draw(unsigned number, uint32_t claims_max)
{
    struct wp_world world = {.recipe = {.name = "drawn",
                                        .title = "Drawn",
                                        .sentence = "drawn",
                                        .kind = WP_TRACE_RECURRING,
                                        .ratio = 1}};
    struct wp_rng rng;
    unsigned kind;

    wp_rng_init(&rng, UINT64_C(0x746f75726e61) + number);
    world.regime = (struct wp_lead_regime){
        .name = "drawn",
        .lead = {.median_s = draw(&rng, 0.3, 45), .sigma = 0.3}};
    kind = (unsigned)wp_rng_below(&rng, 4);
    if (kind != 0) { /* 0: a background alone; 1: batches alone; else both. */
        draw_batches(&rng, &world.recipe);
    }
    if (kind != 1) {
        draw_background(&rng, &world.recipe);
    }
    if (kind > 1) {
        thin_background(&world.recipe);
    }
    world.recipe.steep = kind != 0 && one_in_four(&rng);
    if (one_in_four(&rng)) {
        world.regime.at_once = draw_at_once(&rng, &world);
    }
    set_length(&world.recipe, world.regime.lead.median_s, claims_max);
    (void)snprintf(world.name, sizeof world.name, "%u", number);
    describe(&world);
    return world;
}

struct wp_world
wp_world_named(const struct wp_trace_recipe *recipe)
{
    struct wp_world world = {.recipe = *recipe,
                             .regime = *wp_lead_regime_named("cloud-8s")};

    (void)snprintf(world.name, sizeof world.name, "%s", recipe->name);
    return world;
}
