/* Any bytes as a scenario's file, or, when the first byte is odd, as the record
 * of a pool. What is accepted is within its bounds; what is not says where. */
#include <stdlib.h>
#include <string.h>

#include "bench/harness/arrivals.h"
#include "bench/harness/scenario.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool truth)
{
    if (!truth) {
        abort();
    }
}

static void
read_scenario(struct wp_str text)
{
    static struct wp_plan phases[4];
    struct wp_phases list = {.plans = phases, .max = 4};
    struct wp_err err = {.msg = ""};
    struct wp_plan base;

    wp_plan_init(&base);
    if (wp_scenario_parse(&base, "f", text, &list, &err) == WP_OK) {
        check(list.n >= 1 && list.n <= 4);
        for (uint32_t i = 0; i < list.n; i++) {
            check(phases[i].n_steps <= WP_PLAN_STEPS_MAX);
            check(phases[i].duration_ns > 0);
            check(phases[i].threads >= 1 && phases[i].threads <= 64);
            check(phases[i].batch <= WP_PLAN_BATCH_MAX);
        }
    } else {
        check(err.msg[0] == 'f');
    }
    wp_region_free(&list.region);
}

static void
read_record(struct wp_str text)
{
    struct wp_arrival_times times;
    struct wp_err err = {.msg = ""};

    if (text.len > 4096) { /* A count is up to 32 bits: keep it short. */
        return;
    }
    if (wp_arrival_times_parse(text, 1, &times, &err) == WP_OK) {
        check(times.n > 0 && times.at_ns[0] == 0);
        for (uint64_t i = 1; i < times.n; i++) {
            check(times.at_ns[i - 1] <= times.at_ns[i]);
        }
        wp_arrival_times_fini(&times);
    } else {
        check(strncmp(err.msg, "csv", 3) == 0);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_str text;

    if (size < 1 || size > WP_SCENARIO_FILE_MAX) {
        return 0;
    }
    text = (struct wp_str){(const char *)data + 1, size - 1};
    if (data[0] % 2 == 0) {
        read_scenario(text);
    } else {
        read_record(text);
    }
    return 0;
}
