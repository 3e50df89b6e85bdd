/* allocator/ctl/advise_local.h - advice without a daemon: a file of claim
 * times, and replays on as many threads as there are processors. */
#ifndef WP_ALLOCATOR_CTL_ADVISE_LOCAL_H
#define WP_ALLOCATOR_CTL_ADVISE_LOCAL_H

#include <stdbool.h>

#include "pool/base/status.h"
#include "allocator/advice/advice.h"
#include "pool/history/history.h"

/* The claims of a CSV (pool/history/history.h); "-" is standard input. For the
 * caller to destroy; NULL and err when it cannot be read: err names the file
 * and the line. */
struct wp_history *wp_advise_read_csv(const char *path, struct wp_err *err);

/* Runs all rows; calls progress with the share that is done every 100 ms or so
 * and at the end, on the caller's thread. progress may be NULL. */
enum wp_status wp_advise_run_all(struct wp_advice *advice,
                                 void (*progress)(void *ctx, double share),
                                 void *ctx, struct wp_err *err);

#endif
