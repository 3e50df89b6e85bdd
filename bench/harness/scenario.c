#include "bench/harness/scenario.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pool/base/file.h"
#include "pool/base/nearest.h"
#include "proto/formats/yaml_tree.h"

const struct wp_scenario wp_scenarios[] = {
    {"serial",
     "one claim after the other, each released at once",
     {"serial concurrency=1 claims=2000 warmup=200ms"}},
    {"rested",
     "one claim at a time, after rests of 1 ms, 20 ms and 1 s",
     {"rest-1ms concurrency=1 pause=1ms claims=1000",
      "rest-20ms concurrency=1 pause=20ms claims=200",
      "rest-1s concurrency=1 pause=1s claims=10"}},
    {"ladder",
     "twice the rate, step by step, until the target does not keep up",
     {"ladder steps=250,500,1000,2000,4000,8000,16000,32000,64000,128000 "
      "until-saturated=true duration=3s warmup=200ms connections=4 "
      "min-granted=0"}},
    {"burst-300",
     "300 claims at once, held until all is over",
     {"burst-300 burst=300 claims=300 keep=true wait=60s"}},
    {"burst-3600",
     "3600 claims at once, held until all is over",
     {"burst-3600 burst=3600 claims=3600 keep=true wait=60s "
      "max-in-flight=3600"}},
    {"batch-100",
     "100 sandboxes in one call, again and again",
     {"batch-100 concurrency=1 batch=100 claims=5000 wait=60s"}},
    {"ahead",
     "50 claims a second, out of 32 leases that were granted ahead",
     {"ahead rate=50 arrivals=poisson ahead=32 duration=10s warmup=1s"}},
    {"sizes",
     "serial claims from pools of 10, 100 and 1000 (needs the admin right)",
     {"size-10 pool-size=10 concurrency=1 claims=1000",
      "size-100 pool-size=100 concurrency=1 claims=1000",
      "size-1000 pool-size=1000 concurrency=1 claims=1000"}},
    {"churn",
     "a steady state: 50 claims a second, each held for 2 s",
     {"churn rate=50 arrivals=poisson hold=2s duration=60s"}},
    {"empty-storm",
     "200 claims a second that do not wait, on a pool of none (admin)",
     {"empty-storm pool-size=0 rate=200 wait=0 duration=5s min-granted=0 "
      "min-samples=0"}},
    {"tenants",
     "200 claims a second by 50 tenants in turn",
     {"tenants rate=200 tenants=50 duration=10s"}},
    {"soak",
     "an hour of 20 claims a second, each held for 5 s",
     {"soak rate=20 arrivals=poisson hold=5s duration=1h warmup=1m "
      "max-growth=1% wait=60s"}},
    {"stress-burst",
     "agent-sandbox's claims-warm: 300 claims at once",
     {"claims-warm burst=300 claims=300 hold=2s wait=60s"}},
    {"stress-sustained",
     "agent-sandbox's claims-warm-sustained: 45 a second, held for 2 s",
     {"claims-warm-sustained rate=45 arrivals=poisson hold=2s duration=60s "
      "wait=60s"}},
    {NULL, NULL, {NULL}},
};

static enum wp_status
set_name(struct wp_plan *plan, struct wp_str name, struct wp_err *err)
{
    if (!wp_str_is_dns_name(name, WP_PLAN_NAME_MAX) ||
        !wp_str_copy(name, plan->name, sizeof plan->name)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "name '%.*s': expected lower-case letters, digits "
                          "and '-'",
                          name.len < 64 ? (int)name.len : 64, name.ptr);
    }
    return WP_OK;
}

/* One phase of a named scenario. */
static enum wp_status
set_words(struct wp_plan *plan, const char *words, struct wp_region *region,
          struct wp_err *err)
{
    char *copy = wp_region_str(region, wp_str_from(words));
    char *save = NULL;
    char *word = copy != NULL ? strtok_r(copy, " ", &save) : NULL;
    enum wp_status status =
        word != NULL ? set_name(plan, wp_str_from(word), err)
                     : wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");

    while (status == WP_OK && (word = strtok_r(NULL, " ", &save)) != NULL) {
        char *equals = strchr(word, '=');
        struct wp_str name = {word, equals != NULL ? (size_t)(equals - word)
                                                   : strlen(word)};
        const struct wp_key *key = wp_plan_key(name);

        status = key == NULL || equals == NULL
                     ? wp_err_set(err, WP_INTERNAL, "scenario word %s", word)
                     : wp_plan_set(plan, key, equals + 1, err);
    }
    return status;
}

/* --- Files. --- */

static enum wp_status
unknown_key(struct wp_str name, struct wp_err *err)
{
    struct wp_nearest nearest;
    char shown[WP_STR_SHOWN_MAX];

    wp_nearest_init(&nearest, name);
    for (size_t i = 0; i < wp_plan_n_keys; i++) {
        if (wp_plan_keys[i].in_files) {
            wp_nearest_offer(&nearest, wp_plan_keys[i].name);
        }
    }
    return wp_err_set(err, WP_INVALID_ARGUMENT, "no key '%s'%s%s",
                      wp_str_shown(name, shown),
                      nearest.best != NULL ? "; did you mean " : "",
                      nearest.best != NULL ? nearest.best : "");
}

/* "file:line: " before what is wrong there. */
static enum wp_status
at_line(const char *file, const struct wp_yaml *node, struct wp_err *err)
{
    return wp_err_wrap(err, "%.100s:%u", file, node->line);
}

/* A list of rates may be written as one. */
static enum wp_status
list_text(const struct wp_yaml *list, char *out, size_t cap, struct wp_err *err)
{
    size_t len = 0;

    out[0] = '\0';
    for (const struct wp_yaml *item = list->first; item != NULL;
         item = item->next) {
        int n = wp_yaml_is_scalar(item)
                    ? snprintf(out + len, cap - len, "%s%s", len > 0 ? "," : "",
                               item->text.ptr)
                    : -1;

        if (n < 0 || (size_t)n >= cap - len) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "expected a short list of numbers");
        }
        len += (size_t)n;
    }
    return WP_OK;
}

static enum wp_status
set_entry(struct wp_plan *plan, const struct wp_yaml *node,
          struct wp_region *region, struct wp_err *err)
{
    const struct wp_key *key = wp_plan_key(node->key);
    const char *text = node->text.ptr;
    char list[512];

    if (wp_str_is(node->key, "name")) {
        return wp_yaml_is_scalar(node)
                   ? set_name(plan, node->text, err)
                   : wp_err_set(err, WP_INVALID_ARGUMENT,
                                "name: expected one value, found %s",
                                wp_yaml_kind_text(node->kind));
    }
    if (key == NULL || !key->in_files) {
        return unknown_key(node->key, err);
    }
    if (key->type == WP_KEY_RATES && node->kind == WP_YAML_LIST) {
        if (list_text(node, list, sizeof list, err) != WP_OK) {
            return wp_err_wrap(err, "%s", key->name);
        }
        text = list;
    } else if (!wp_yaml_is_scalar(node)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%s: expected one value, found %s", key->name,
                          wp_yaml_kind_text(node->kind));
    }
    text = wp_region_str(region, wp_str_from(text));
    if (text == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    return wp_plan_set(plan, key, text, err);
}

/* The same key by its other name: only one of them would count. */
static enum wp_status
check_twice(const struct wp_yaml *map, const struct wp_yaml *node,
            struct wp_err *err)
{
    const struct wp_key *key = wp_plan_key(node->key);

    for (const struct wp_yaml *other = map->first; other != node;
         other = other->next) {
        if (key != NULL && wp_plan_key(other->key) == key) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "%s: it is there twice (first in line %u)",
                              key->name, other->line);
        }
    }
    return WP_OK;
}

static enum wp_status
set_map(struct wp_plan *plan, const char *file, const struct wp_yaml *map,
        bool is_root, struct wp_region *region, struct wp_err *err)
{
    for (const struct wp_yaml *node = map->first; node != NULL;
         node = node->next) {
        if (is_root && wp_str_is(node->key, "phases")) {
            continue;
        }
        if (check_twice(map, node, err) != WP_OK ||
            set_entry(plan, node, region, err) != WP_OK) {
            return at_line(file, node, err);
        }
    }
    return WP_OK;
}

/* Each key of the map counts in one of the phases at least. In which order keys
 * are makes no difference: of two that exclude each other one is refused. */
static enum wp_status
check_uses(const char *file, const struct wp_yaml *map,
           const struct wp_plan *plans, uint32_t n, struct wp_err *err)
{
    for (const struct wp_yaml *node = map->first; node != NULL;
         node = node->next) {
        const struct wp_key *key = wp_plan_key(node->key);
        const char *text = node->text.ptr;
        uint32_t i = 0;

        while (key != NULL && i < n &&
               wp_plan_check_use(&plans[i], key, text, err) != WP_OK) {
            i++;
        }
        if (key != NULL && i == n) {
            return at_line(file, node, err);
        }
    }
    return WP_OK;
}

/* Options choose other arrivals than the file: its keys are then of no use, and
 * are there all the same. */
static bool
has_arrivals(const struct wp_plan *plan)
{
    return plan->arrivals != WP_ARRIVALS_CLOSED || plan->rate_per_s > 0 ||
           plan->n_steps > 0 || plan->burst > 0 || plan->csv != NULL;
}

static bool
has_name(const struct wp_plan *phases, uint32_t n, const char *name)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(phases[i].name, name) == 0) {
            return true;
        }
    }
    return false;
}

static enum wp_status
check_name(const struct wp_phases *phases, struct wp_err *err)
{
    const char *name = phases->plans[phases->n - 1].name;

    return has_name(phases->plans, phases->n - 1, name)
               ? wp_err_set(err, WP_INVALID_ARGUMENT,
                            "name '%s': another phase has it", name)
               : WP_OK;
}

enum wp_status
wp_scenario_parse(const struct wp_plan *base, const char *file,
                  struct wp_str text, struct wp_phases *out, struct wp_err *err)
{
    const struct wp_yaml_rules rules = {.file = file,
                                        .documents_max = 1,
                                        .depth_max = 4,
                                        .nodes_max = 2000,
                                        .keys_max = 64};
    struct wp_yaml *root = NULL;
    const struct wp_yaml *list;
    struct wp_plan common = *base;
    enum wp_status status =
        wp_yaml_read_one(&rules, text, &out->region, &root, err);

    out->n = 0;
    if (status != WP_OK) {
        return status;
    }
    if (root == NULL || root->kind != WP_YAML_MAP) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "%.100s: expected a map of keys, such as rate: 100",
                          file);
    }
    status = set_map(&common, file, root, true, &out->region, err);
    list = wp_yaml_find(root, "phases");
    if (status != WP_OK || list == NULL) {
        out->plans[0] = common;
        out->n = 1;
        return status != WP_OK || has_arrivals(base)
                   ? status
                   : check_uses(file, root, out->plans, 1, err);
    }
    if (list->kind != WP_YAML_LIST || list->first == NULL) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "phases: expected a list of maps");
        return at_line(file, list, err);
    }
    for (const struct wp_yaml *item = list->first; item != NULL;
         item = item->next) {
        struct wp_plan *plan = &out->plans[out->n];

        if (item->kind != WP_YAML_MAP || out->n == out->max) {
            (void)wp_err_set(
                err, WP_INVALID_ARGUMENT,
                "phases: expected at most %u maps, found %s", out->max,
                item->kind == WP_YAML_MAP ? "more"
                                          : wp_yaml_kind_text(item->kind));
            return at_line(file, item, err);
        }
        out->n++;
        *plan = common;
        (void)snprintf(plan->name, sizeof plan->name, "phase-%u", out->n);
        status = set_map(plan, file, item, false, &out->region, err);
        if (status == WP_OK && check_name(out, err) != WP_OK) {
            status = at_line(file, item, err);
        }
        if (status == WP_OK && !has_arrivals(base)) {
            status = check_uses(file, item, plan, 1, err);
        }
        if (status != WP_OK) {
            return status;
        }
    }
    return has_arrivals(base) ? WP_OK
                              : check_uses(file, root, out->plans, out->n, err);
}

static enum wp_status
read_file(const struct wp_plan *base, struct wp_phases *out, struct wp_err *err)
{
    static char text[WP_SCENARIO_FILE_MAX + 1];
    ssize_t len =
        wp_path_read(base->scenario, 0, text, WP_SCENARIO_FILE_MAX + 1, NULL);

    if (len < 0) {
        return wp_err_sys(err, WP_INVALID_ARGUMENT, errno, "scenario %.120s",
                          base->scenario);
    }
    if (len > WP_SCENARIO_FILE_MAX) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "scenario %.120s: expected a file of at most 64 KiB",
                          base->scenario);
    }
    return wp_scenario_parse(base, base->scenario,
                             (struct wp_str){text, (size_t)len}, out, err);
}

/* --- Put together. --- */

static enum wp_status
unknown_scenario(const char *name, struct wp_err *err)
{
    struct wp_nearest nearest;
    char shown[WP_STR_SHOWN_MAX];

    wp_nearest_init(&nearest, wp_str_from(name));
    for (const struct wp_scenario *s = wp_scenarios; s->name != NULL; s++) {
        wp_nearest_offer(&nearest, s->name);
    }
    return wp_err_set(err, WP_INVALID_ARGUMENT,
                      "scenario '%s': no such name%s%s; warmpool-load "
                      "scenarios lists them, a file's name has a '/' or a '.'",
                      wp_str_shown(wp_str_from(name), shown),
                      nearest.best != NULL ? ", did you mean " : "",
                      nearest.best != NULL ? nearest.best : "");
}

static enum wp_status
scenario_of(const struct wp_plan *base, struct wp_phases *out,
            struct wp_err *err)
{
    if (base->scenario == NULL) {
        out->plans[0] = *base;
        out->n = 1;
        return WP_OK;
    }
    for (const struct wp_scenario *s = wp_scenarios; s->name != NULL; s++) {
        if (strcmp(base->scenario, s->name) != 0) {
            continue;
        }
        for (out->n = 0;
             out->n < WP_SCENARIO_PHASES_MAX && s->phases[out->n] != NULL;
             out->n++) {
            out->plans[out->n] = *base;
            if (set_words(&out->plans[out->n], s->phases[out->n], &out->region,
                          err) != WP_OK) {
                return err->status;
            }
        }
        return WP_OK;
    }
    if (strpbrk(base->scenario, "/.") == NULL) {
        return unknown_scenario(base->scenario, err);
    }
    return read_file(base, out, err);
}

/* A rate may come again: rate-100, then rate-100-2. Phases of one name are
 * turns of one phase. */
static void
name_step(struct wp_plan *phases, uint32_t at)
{
    struct wp_plan *step = &phases[at];

    (void)snprintf(step->name, sizeof step->name, "rate-%.10g",
                   step->rate_per_s);
    for (uint32_t n = 2; has_name(phases, at, step->name); n++) {
        (void)snprintf(step->name, sizeof step->name, "rate-%.10g-%u",
                       step->rate_per_s, n);
    }
}

/* A phase with steps becomes one for each. */
static enum wp_status
spread_steps(struct wp_plan *phases, uint32_t max, uint32_t *n,
             struct wp_err *err)
{
    for (uint32_t i = 0; i < *n; i++) {
        struct wp_plan whole = phases[i];

        if (whole.n_steps == 0) {
            continue;
        }
        if (*n - 1 + whole.n_steps > max) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "steps: more than %u phases in all", max);
        }
        memmove(&phases[i + whole.n_steps], &phases[i + 1],
                (*n - i - 1) * sizeof *phases);
        for (uint32_t k = 0; k < whole.n_steps; k++) {
            phases[i + k] = whole;
            phases[i + k].n_steps = 0;
            phases[i + k].rate_per_s = whole.steps[k];
            name_step(phases, i + k);
        }
        *n += whole.n_steps - 1;
        i += whole.n_steps - 1;
    }
    return WP_OK;
}

/* An option that no phase heeds was meant otherwise. */
static enum wp_status
check_overrides(const struct wp_plan_word *overrides, size_t n_overrides,
                const struct wp_phases *phases, struct wp_err *err)
{
    for (size_t k = 0; k < n_overrides; k++) {
        uint32_t i = 0;

        while (i < phases->n &&
               wp_plan_check_use(&phases->plans[i], overrides[k].key,
                                 overrides[k].value, err) != WP_OK) {
            i++;
        }
        if (i == phases->n) {
            return err->status;
        }
    }
    return WP_OK;
}

/* Some keys are of the whole run, and are taken from its first phase. */
static enum wp_status
check_whole(const struct wp_phases *phases, struct wp_err *err)
{
    const struct wp_plan *first = &phases->plans[0];

    for (uint32_t i = 1; i < phases->n; i++) {
        bool is_turns = phases->plans[i].turns != first->turns;

        if (is_turns || phases->plans[i].leave != first->leave) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "%s: expected the same in all phases",
                              is_turns ? "turns" : "leave");
        }
    }
    return WP_OK;
}

enum wp_status
wp_scenario_phases(const struct wp_plan *base,
                   const struct wp_plan_word *overrides, size_t n_overrides,
                   struct wp_phases *out, struct wp_err *err)
{
    enum wp_status status = scenario_of(base, out, err);

    for (uint32_t i = 0; status == WP_OK && i < out->n; i++) {
        struct wp_plan *plan = &out->plans[i];

        for (size_t k = 0; status == WP_OK && k < n_overrides; k++) {
            status =
                wp_plan_set(plan, overrides[k].key, overrides[k].value, err);
        }
        if (status == WP_OK && plan->name[0] == '\0') {
            (void)snprintf(plan->name, sizeof plan->name, "%s",
                           wp_arrivals_words[plan->arrivals]);
        }
        if (status == WP_OK && wp_plan_check(plan, err) != WP_OK) {
            status = out->n > 1 ? wp_err_wrap(err, "phase %s", plan->name)
                                : err->status;
        }
    }
    if (status == WP_OK) {
        status = check_overrides(overrides, n_overrides, out, err);
    }
    if (status == WP_OK) {
        status = check_whole(out, err);
    }
    return status == WP_OK ? spread_steps(out->plans, out->max, &out->n, err)
                           : status;
}
