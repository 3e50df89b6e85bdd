#include "bench/harness/help.h"

#include <stdbool.h>
#include <string.h>

#include "bench/harness/plan.h"
#include "bench/harness/scenario.h"

enum {
    INDENT = 8,
    RULE = 79,
};

void
wp_help_usage(FILE *out)
{
    (void)fputs("Usage: warmpool-load [NAMESPACE/]POOL [options]\n"
                "       warmpool-load compare A.json B.json\n"
                "       warmpool-load ladders OUT.svg A.json [B.json ...]\n"
                "       warmpool-load scenarios\n",
                out);
}

static void
wrap(FILE *out, const char *text)
{
    size_t column = INDENT;

    (void)fprintf(out, "%*s", INDENT, "");
    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        bool first = column == INDENT;

        if (!first && column + 1 + len > RULE) {
            (void)fprintf(out, "\n%*s", INDENT, "");
            column = INDENT;
            first = true;
        }
        (void)fprintf(out, "%s%.*s", first ? "" : " ", (int)len, text);
        column += len + !first;
        text += len + (text[len] == ' ');
    }
    (void)fputc('\n', out);
}

static void
print_key(FILE *out, const struct wp_key *key)
{
    (void)fputs("  ", out);
    if (key->letter != '\0') {
        (void)fprintf(out, "-%c, ", key->letter);
    }
    (void)fprintf(out, "--%s", key->name);
    if (key->alias != NULL) {
        (void)fprintf(out, ", --%s", key->alias);
    }
    (void)fprintf(out, "%s%s\n", key->operand != NULL ? " " : "",
                  key->operand != NULL ? key->operand : "");
    wrap(out, key->help);
}

void
wp_help_all(FILE *out)
{
    static const char *const titles[WP_KEY_GROUPS] = {"Target", "Load", "Check",
                                                      "Output"};

    (void)fputs("warmpool-load claims sandboxes of a pool at a rate or with a "
                "number of workers,\nreleases them, and shows how long it "
                "took, from when each claim was due.\n\n",
                out);
    wp_help_usage(out);
    (void)fputs(
        "\n  warmpool-load quickstart                       one claim at a "
        "time, for 10 s\n"
        "  warmpool-load quickstart -r 100 -d 30s         100 claims a second\n"
        "  warmpool-load quickstart -s ladder             until it is too "
        "much\n"
        "  warmpool-load quickstart -a A --against B      two targets by "
        "turns\n"
        "  warmpool-load ns/pool -k ~/.kube/config -r 2   SandboxClaims of a "
        "cluster\n",
        out);
    for (int group = 0; group < WP_KEY_GROUPS; group++) {
        (void)fprintf(out, "\n%s:\n", titles[group]);
        for (size_t i = 0; i < wp_plan_n_keys; i++) {
            if ((int)wp_plan_keys[i].group == group) {
                print_key(out, &wp_plan_keys[i]);
            }
        }
    }
    (void)fputs(
        "\nA TIME is a whole number and us, ms, s, m, h or d.\n"
        "\nExit codes: 0 done and all checks passed, 1 a check failed or the "
        "run broke\noff, 2 wrong usage, 3 no such pool, 4 nobody answers, "
        "128 + N cut by signal N.\n"
        "\nwarmpool-load(1) has the formats of all outputs.\n",
        out);
}

void
wp_help_scenarios(FILE *out)
{
    for (const struct wp_scenario *s = wp_scenarios; s->name != NULL; s++) {
        (void)fprintf(out, "%s\n", s->name);
        wrap(out, s->summary);
    }
}
