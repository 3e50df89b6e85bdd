/* bench/harness/report.h - what has been seen, for people and for programs. */
#ifndef WP_BENCH_HARNESS_REPORT_H
#define WP_BENCH_HARNESS_REPORT_H

#include <jansson.h>
#include <stdio.h>

#include "bench/harness/check.h"

/* Three significant digits and a unit, "12.3 ms"; returns out. */
const char *wp_report_time(int64_t ns, char out[16]);

/* 80 columns. */
void wp_report_text(const struct wp_run *run, const struct wp_check *check,
                    FILE *out);
/* The summary; warmpool-load(1) has its schema. NULL when memory lacks. */
json_t *wp_report_json(const struct wp_run *run, const struct wp_check *check);
/* A line for each claim. */
void wp_report_jsonl(const struct wp_run *run, FILE *out);
void wp_report_csv(const struct wp_run *run, FILE *out);

/* Other tools' formats. */
void wp_report_hgrm(const struct wp_run *run, FILE *out);
void wp_report_pkb(const struct wp_run *run, FILE *out);
void wp_report_pkb_records(const struct wp_run *run, FILE *out);
void wp_report_summary(const struct wp_run *run, FILE *out);
/* A page with plots; svg: only the first plot. */
void wp_report_page(const struct wp_run *run, const struct wp_check *check,
                    bool svg, FILE *out);

#endif
