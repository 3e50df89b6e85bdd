/* local/fetch/run.h - one run of warmpool-fetch, in the folder of its part of
 * the cache, and what it reports (proto/checkout/fetch_report.h). */
#ifndef WP_LOCAL_FETCH_RUN_H
#define WP_LOCAL_FETCH_RUN_H

#include <stdbool.h>
#include <stdint.h>

/* One message; passed: comes along, -1: none. Does not wait. False: it cannot
 * be sent. */
bool wp_fetch_report(int fd, char what, const char *text, int passed);

/* Both report to WP_FETCH_REPORT_FD; a checkout reads its password from
 * WP_FETCH_CREDENTIAL_FD. The exit status of their process. */
int wp_fetch_checkout(const char *url, const char *ref, uint64_t bytes_max);
int wp_fetch_sweep(uint64_t bytes_max, int64_t age_s);

#endif
