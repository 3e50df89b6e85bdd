/* For scale_schedule_oracle.py: reads "zone|seconds|schedule" lines and answers
 * each with "next holds changes", times in seconds since 1970. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/clock.h"
#include "pool/policy/schedule.h"

static int
answer(char *line)
{
    char *rest = line;
    const char *zone_name = strsep(&rest, "|");
    const char *at = strsep(&rest, "|");
    const struct wp_time_zone *zone;
    struct wp_schedule schedule;
    struct wp_err err = {.msg = "three parts expected"};
    int64_t at_s;
    int64_t changes_ns;
    bool holds;

    if (rest == NULL || !wp_str_to_i64(wp_str_from(at), &at_s) ||
        wp_time_zone_find(wp_str_from(zone_name), &zone, &err) != WP_OK ||
        wp_schedule_parse(wp_str_from(rest), zone, 1000, &schedule, &err) !=
            WP_OK) {
        (void)fprintf(stderr, "%s\n", err.msg);
        return EXIT_FAILURE;
    }
    holds = wp_schedule_holds(&schedule, at_s * WP_NS_PER_S, &changes_ns);
    (void)printf(
        "%lld %d %lld\n",
        (long long)(wp_schedule_next_ns(&schedule, at_s * WP_NS_PER_S) /
                    WP_NS_PER_S),
        holds, (long long)(changes_ns / WP_NS_PER_S));
    return EXIT_SUCCESS;
}

int
main(void)
{
    char line[1024];

    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (answer(line) != EXIT_SUCCESS) {
            return EXIT_FAILURE;
        }
    }
    return EXIT_SUCCESS;
}
