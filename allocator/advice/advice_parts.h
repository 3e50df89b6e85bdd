/* allocator/advice/advice_parts.h - the inside of an advice; for advice.c and
 * advice_run.c only. */
#ifndef WP_ALLOCATOR_ADVICE_ADVICE_PARTS_H
#define WP_ALLOCATOR_ADVICE_ADVICE_PARTS_H

#include "allocator/advice/advice.h"
#include "allocator/advice/replay.h"

struct wp_advice {
    struct wp_advice_config config;
    struct wp_advice_facts facts;
    struct wp_replay_lead lead;
    int64_t *leads_ns;
    int64_t begin_ns; /* Since the first event. */
    int64_t end_ns;
    struct wp_advice_row rows[WP_ADVICE_ROWS_MAX];
    uint32_t n_rows;
};

#endif
