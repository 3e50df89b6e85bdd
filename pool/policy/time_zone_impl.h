/* pool/policy/time_zone_impl.h - what the files of the zone reader share. */
#ifndef WP_POOL_POLICY_TIME_ZONE_IMPL_H
#define WP_POOL_POLICY_TIME_ZONE_IMPL_H

#include <stdbool.h>

#include "pool/policy/time_zone.h"

enum {
    /* RFC 8536 has offsets of 25 and 26 hours as the widest. */
    WP_ZONE_OFFSET_MAX_S = 26 * 3600,
    WP_ZONE_YEAR_CHANGES = 2,
};

/* When a year's clocks change: as a rule's part between commas has it. */
struct wp_zone_date {
    enum {
        WP_ZONE_DAY,      /* Day 0 .. 365, leap days counted. */
        WP_ZONE_JULIAN,   /* Day 1 .. 365, 29 February never counted. */
        WP_ZONE_MONTH_DAY /* The week-th weekday of a month; 5: the last. */
    } form;
    int day;
    int month;
    int week;
    int weekday;
    int32_t time_s; /* Of local time until then; -167 h .. 167 h. */
};

struct wp_zone_rule {
    int32_t standard_s;
    int32_t summer_s; /* With has_summer. */
    bool has_summer;
    struct wp_zone_date begins; /* Of summer time. */
    struct wp_zone_date ends;
};

struct wp_zone_change {
    int64_t at_s;
    int32_t offset_s; /* From then on. */
};

struct wp_time_zone {
    char name[WP_TIME_ZONE_NAME_MAX + 1];
    int32_t first_s; /* Before the first change. */
    bool has_rule;   /* After the last one; else it holds for ever. */
    struct wp_zone_rule rule;
    uint32_t n_changes;
    struct wp_zone_change changes[]; /* Ascending. */
};

/* A footer without its newlines, "CET-1CEST,M3.5.0,M10.5.0/3". False: it is
 * none. */
WP_MUST_CHECK bool wp_zone_rule_parse(struct wp_str text,
                                      struct wp_zone_rule *out);
/* The offset that the rule has at utc_s, and until when, which is later. */
int32_t wp_zone_rule_offset_s(const struct wp_zone_rule *rule, int64_t utc_s,
                              int64_t *until_s);

#endif
