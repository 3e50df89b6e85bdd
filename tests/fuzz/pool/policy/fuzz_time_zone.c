/* Any bytes as a zone file: refused, or a zone in which every local time is
 * reached once, whatever its changes. */
#include <stdlib.h>

#include "pool/policy/time_zone.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool truth)
{
    if (!truth) {
        abort();
    }
}

static void
check_at(const struct wp_time_zone *zone, int64_t utc_s)
{
    int64_t local_s = wp_time_zone_to_local_s(zone, utc_s);
    int64_t until_s;

    check(wp_time_zone_to_local_s(zone, utc_s - 1) <= local_s);
    check(wp_time_zone_from_local_s(zone, local_s) <= utc_s);
    check(wp_time_zone_from_local_s(zone, local_s + 1) > utc_s);
    (void)wp_time_zone_offset_s(zone, utc_s, &until_s);
    check(until_s > utc_s);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_time_zone *zone;
    struct wp_err err = {.msg = ""};
    int64_t at_s = -4000000000;

    if (wp_time_zone_parse(WP_STR("any"), data, size, &zone, &err) != WP_OK) {
        check(zone == NULL && err.msg[0] != '\0');
        return 0;
    }
    for (int i = 0; i < 16; i++) {
        check_at(zone, (int64_t)i * 733333333 - 3000000000);
    }
    for (int i = 0; i < 16 && at_s < 8000000000; i++) {
        int64_t until_s;

        (void)wp_time_zone_offset_s(zone, at_s, &until_s);
        at_s = until_s < 8000000000 ? until_s : 8000000000;
        check_at(zone, at_s - 1);
        check_at(zone, at_s);
    }
    wp_time_zone_destroy(zone);
    return 0;
}
