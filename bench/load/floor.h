/* bench/load/floor.h - what a round trip over a socket costs without any protocol.
 *
 * A child answers each message with one of the same length; the parent waits
 * for it and sends the next. Nothing that speaks over sockets can be faster, so
 * it is printed beside every latency. */
#ifndef WP_BENCH_LOAD_FLOOR_H
#define WP_BENCH_LOAD_FLOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/load/hist.h"
#include "pool/base/compiler.h"
#include "pool/base/status.h"

struct wp_floor_config {
    bool tcp;           /* Else a Unix socket. */
    size_t message_len; /* At most 4096. */
    int server_core;    /* Or WP_PROC_ANY_CORE. */
    int client_core;
    int64_t run_ns;
};

/* Leaves the caller pinned to client_core. */
WP_MUST_CHECK enum wp_status wp_floor_run(const struct wp_floor_config *config,
                                          struct wp_hist *out,
                                          struct wp_err *err);

#endif
