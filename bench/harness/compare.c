#include "bench/harness/compare.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bench/harness/stats.h"
#include "pool/base/assert.h"
#include "pool/base/str.h"

enum {
    VALUES_MAX = 4096,
    BEYOND_MIN = 10, /* Samples beyond a percentile, or it is chance. */
    EXIT_BAD_FILE = 2,
};

/* One figure of a phase, in what it is taken from. */
struct figure {
    const char *title;
    const char *times; /* The object that has it; NULL: the phase itself. */
    const char *name;  /* The whole phase's value. */
    const char *slice; /* The same of a slice; NULL: none. */
    bool less_is_better;
    double beyond; /* The share of samples that are; 0: it is no percentile. */
};

static const struct figure figures[] = {
    {"claim p50", "claim", "p50_ms", "p50_ms", true, 0.5},
    {"claim p99", "claim", "p99_ms", "p99_ms", true, 0.01},
    {"granted a second", NULL, "granted_per_s", "granted", false, 0},
};

struct values {
    double v[VALUES_MAX];
    uint64_t n;
};

static double
number_at(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static double
phase_value(const json_t *phase, const struct figure *figure)
{
    return number_at(
        figure->times != NULL ? json_object_get(phase, figure->times) : phase,
        figure->name);
}

static bool
is_phase(const json_t *phase, const char *name, const char *target)
{
    const char *n = json_string_value(json_object_get(phase, "name"));
    const char *t = json_string_value(json_object_get(phase, "target"));

    return n != NULL && t != NULL && strcmp(n, name) == 0 &&
           (target == NULL || strcmp(t, target) == 0);
}

static void
push(struct values *values, double value)
{
    if (values->n < VALUES_MAX) {
        values->v[values->n++] = value;
    }
}

/* The phase's value in each of its turns. False: they have too few samples. */
static bool
turns_of(const json_t *run, const char *name, const char *target,
         const struct figure *figure, struct values *out)
{
    const json_t *phase;
    double samples = 0;
    size_t i;

    out->n = 0;
    json_array_foreach(json_object_get(run, "phases"), i, phase)
    {
        if (is_phase(phase, name, target)) {
            samples += number_at(json_object_get(phase, "claim"), "count");
            push(out, phase_value(phase, figure));
        }
    }
    return figure->beyond <= 0 || samples * figure->beyond >= BEYOND_MIN;
}

static double
median_of(struct values *values)
{
    wp_stats_sort(values->v, values->n);
    return wp_stats_linear(values->v, values->n, 0.5);
}

/* The values of its slices, but the last, which is not whole. */
static void
slices_of(const json_t *run, const char *name, const char *target,
          const struct figure *figure, struct values *out)
{
    const json_t *phase;
    const json_t *slice;
    size_t i;
    size_t k;

    out->n = 0;
    json_array_foreach(json_object_get(run, "phases"), i, phase)
    {
        const json_t *list = json_object_get(phase, "slices");
        double width_s = number_at(phase, "slice_s");
        bool is_rate = !figure->less_is_better;

        if (!is_phase(phase, name, target)) {
            continue;
        }
        json_array_foreach(list, k, slice)
        {
            double value = number_at(slice, figure->slice);

            if (k + 1 < json_array_size(list) && (value > 0 || is_rate)) {
                push(out, is_rate && width_s > 0 ? value / width_s : value);
            }
        }
    }
}

/* --- In words. --- */

static void
verdict(FILE *out, const struct wp_stats_ratio *r, bool less_is_better)
{
    bool shown = r->low > 1 || r->high < 1;
    bool less = r->ratio < 1;

    if (!shown) {
        (void)fputs("no difference shown", out);
    } else {
        (void)fprintf(out, "B is %s",
                      less == less_is_better ? "better" : "worse");
    }
}

struct side {
    const json_t *run;
    const char *target;
};

static const json_t *
first_phase(const struct side *side, const char *name)
{
    const json_t *phase;
    size_t i;

    json_array_foreach(json_object_get(side->run, "phases"), i, phase)
    {
        if (is_phase(phase, name, side->target)) {
            return phase;
        }
    }
    return NULL;
}

/* What makes a comparison doubtful: one was cut short, or they are of two
 * loads. */
static void
doubts(FILE *out, const struct side *a, const struct side *b, const char *name)
{
    const struct side *sides[] = {a, b};
    const json_t *loads[2];
    const json_t *phase;
    const json_t *value;
    const char *key;
    size_t i;

    for (size_t s = 0; s < 2; s++) {
        bool cut = false;

        loads[s] = json_object_get(first_phase(sides[s], name), "load");
        json_array_foreach(json_object_get(sides[s]->run, "phases"), i, phase)
        {
            cut |= is_phase(phase, name, sides[s]->target) &&
                   json_is_true(json_object_get(phase, "cut"));
        }
        if (cut) {
            (void)fprintf(out, "  Note: %s was cut short.\n",
                          s == 0 ? "A" : "B");
        }
    }
    json_object_foreach((json_t *)(uintptr_t)loads[0], key, value)
    {
        char *of_a = json_dumps(value, JSON_ENCODE_ANY);
        char *of_b =
            json_dumps(json_object_get(loads[1], key), JSON_ENCODE_ANY);

        if (of_a != NULL && of_b != NULL && strcmp(of_a, of_b) != 0) {
            (void)fprintf(out,
                          "  Note: not the same load: %.20s is %.20s in A, "
                          "%.20s in B.\n",
                          key, of_a, of_b);
        }
        free(of_a);
        free(of_b);
    }
}

static void
compare_phase(FILE *out, const struct side *a, const struct side *b,
              const char *name)
{
    struct values *v = calloc(2, sizeof *v);

    WP_ASSERT(v != NULL);
    (void)fprintf(out, "\n%s\n", name);
    doubts(out, a, b, name);
    (void)fprintf(out, "  %-16s%9s%9s%7s%15s  %s\n", "", "A", "B", "B / A",
                  "95 %", "verdict");
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++) {
        const struct figure *figure = &figures[i];
        struct wp_stats_ratio r;
        double value_a;
        double value_b;
        bool enough;
        bool paired;
        bool known;
        char interval[32];

        enough = turns_of(a->run, name, a->target, figure, &v[0]);
        enough = turns_of(b->run, name, b->target, figure, &v[1]) && enough;
        paired = v[0].n == v[1].n && v[0].n >= 3;
        known = paired && wp_stats_ratio_paired(v[0].v, v[1].v, v[0].n, &r);
        value_a = median_of(&v[0]);
        value_b = median_of(&v[1]);
        if (!paired) {
            slices_of(a->run, name, a->target, figure, &v[0]);
            slices_of(b->run, name, b->target, figure, &v[1]);
            known = v[0].n >= 5 && v[1].n >= 5 &&
                    wp_stats_ratio(v[0].v, v[0].n, v[1].v, v[1].n, &r);
            if (known && value_a > 0) {
                /* Slices are coarser: only how much they move counts. */
                double shift = value_b / value_a / r.ratio;

                r = (struct wp_stats_ratio){r.ratio * shift, r.low * shift,
                                            r.high * shift};
            }
        }
        (void)fprintf(out, "  %-16s%9.3g%9.3g", figure->title, value_a,
                      value_b);
        if (!known || !enough) {
            (void)fputs("  too few to say\n", out);
            continue;
        }
        (void)snprintf(interval, sizeof interval, "%.3g to %.3g", r.low,
                       r.high);
        (void)fprintf(out, "%7.3g%15s  ", r.ratio, interval);
        verdict(out, &r, figure->less_is_better);
        (void)fputc('\n', out);
    }
    free(v);
}

/* How many phases both have. */
static size_t
compare_sides(FILE *out, const struct side *a, const struct side *b)
{
    const json_t *phases = json_object_get(a->run, "phases");
    const json_t *phase;
    size_t n = 0;
    size_t i;
    size_t k;

    (void)fputs("\nTimes are in ms. B / A with the interval that it is in with "
                "95 % confidence.\n",
                out);
    json_array_foreach(phases, i, phase)
    {
        const char *name = json_string_value(json_object_get(phase, "name"));
        bool first = is_phase(phase, name, a->target);

        for (k = 0; k < i && first; k++) {
            first = !is_phase(json_array_get(phases, k), name, a->target);
        }
        if (first && first_phase(b, name) != NULL) {
            compare_phase(out, a, b, name);
            n++;
        }
    }
    return n;
}

void
wp_compare_targets(const json_t *run, FILE *out)
{
    const struct side a = {run, "A"};
    const struct side b = {run, "B"};

    (void)compare_sides(out, &a, &b);
}

/* Those of one side only are told, so that nobody misses them. */
static void
tell_missing(const struct side *a, const struct side *b, const char *path)
{
    const json_t *phases = json_object_get(a->run, "phases");
    const json_t *phase;
    size_t i;

    json_array_foreach(phases, i, phase)
    {
        const char *name = json_string_value(json_object_get(phase, "name"));

        if (is_phase(phase, name, a->target) && first_phase(b, name) == NULL &&
            first_phase(a, name) == phase) {
            (void)fprintf(stderr,
                          "warmpool-load: %s has no phase '%.63s': it is not "
                          "compared\n",
                          path, name);
        }
    }
}

/* Which number of a phase is none: its place, or NULL when all are there. */
static const char *
missing_number(const json_t *phase)
{
    const json_t *slice;
    size_t i;

    for (size_t k = 0; k < sizeof figures / sizeof figures[0]; k++) {
        const json_t *of = figures[k].times != NULL
                               ? json_object_get(phase, figures[k].times)
                               : phase;

        if (!json_is_number(json_object_get(of, figures[k].name))) {
            return figures[k].name;
        }
        json_array_foreach(json_object_get(phase, "slices"), i, slice)
        {
            if (!json_is_number(json_object_get(slice, figures[k].slice))) {
                return "slices";
            }
        }
    }
    return !json_is_number(
               json_object_get(json_object_get(phase, "claim"), "count"))
               ? "count"
           : !json_is_number(json_object_get(phase, "slice_s")) ? "slice_s"
                                                                : NULL;
}

json_t *
wp_compare_load(const char *path)
{
    json_error_t error;
    json_t *run = json_load_file(path, 0, &error);
    const json_t *phase;
    const char *missing;
    bool two = false;
    size_t i;

    if (run == NULL) {
        (void)fprintf(stderr, "warmpool-load: %s:%d: %s\n", path, error.line,
                      error.text);
        return NULL;
    }
    if (json_integer_value(json_object_get(run, "schema")) != 1 ||
        json_array_size(json_object_get(run, "phases")) == 0) {
        (void)fprintf(stderr,
                      "warmpool-load: %s: expected what --output json wrote, "
                      "schema 1, with phases\n",
                      path);
        json_decref(run);
        return NULL;
    }
    json_array_foreach(json_object_get(run, "phases"), i, phase)
    {
        if (!json_is_string(json_object_get(phase, "name")) ||
            !json_is_string(json_object_get(phase, "target")) ||
            !json_is_object(json_object_get(phase, "claim"))) {
            (void)fprintf(stderr,
                          "warmpool-load: %s: phases[%zu]: expected name, "
                          "target and claim\n",
                          path, i);
            json_decref(run);
            return NULL;
        }
        missing = missing_number(phase);
        if (missing != NULL) {
            (void)fprintf(stderr,
                          "warmpool-load: %s: phases[%zu]: %s: expected a "
                          "number\n",
                          path, i, missing);
            json_decref(run);
            return NULL;
        }
        two |= strcmp(json_string_value(json_object_get(phase, "target")),
                      "A") != 0;
    }
    if (two) {
        (void)fprintf(stderr,
                      "warmpool-load: %s has two targets: only A is looked "
                      "at\n",
                      path);
    }
    return run;
}

int
wp_compare_main(int argc, char **argv)
{
    struct side a = {NULL, "A"};
    struct side b = {NULL, "A"};
    size_t n;

    if (argc != 3 || argv[1][0] == '-' || argv[2][0] == '-') {
        (void)fputs("Usage: warmpool-load compare A.json B.json\n"
                    "Compares what two runs wrote with --output json: ratios "
                    "of B to A, their\nintervals, and a verdict.\n",
                    argc == 2 && strcmp(argv[1], "--help") == 0 ? stdout
                                                                : stderr);
        return argc == 2 && strcmp(argv[1], "--help") == 0 ? 0 : EXIT_BAD_FILE;
    }
    a.run = wp_compare_load(argv[1]);
    b.run = a.run != NULL ? wp_compare_load(argv[2]) : NULL;
    if (b.run == NULL) {
        json_decref((json_t *)(uintptr_t)a.run);
        return EXIT_BAD_FILE;
    }
    (void)fprintf(stdout, "A: %s\nB: %s\n", argv[1], argv[2]);
    n = compare_sides(stdout, &a, &b);
    (void)fflush(stdout); /* What is missing comes after what is there. */
    tell_missing(&a, &b, argv[2]);
    tell_missing(&b, &a, argv[1]);
    json_decref((json_t *)(uintptr_t)a.run);
    json_decref((json_t *)(uintptr_t)b.run);
    if (n == 0) {
        (void)fputs("warmpool-load: expected two runs of one scenario: they "
                    "have no phase in common\n",
                    stderr);
    }
    return n > 0 ? 0 : EXIT_BAD_FILE;
}
