/* bench/scaling/trace_azure.h - reads the public traces of Azure Functions.
 *
 * 2019: a file a day, a row for each function: HashOwner, HashApp,
 * HashFunction, Trigger, and the calls in each minute, 1 to 1440. Within its
 * minute a call is put at random, from a seed: a Poisson process that is known
 * to have had so many.
 *
 * 2021: a row for each call: app, func, end_timestamp, duration, in seconds. A
 * call is a claim when it begins. Rows are in no order by their beginnings.
 *
 * Bad rows are refused by line and field, and nothing of the trace is to be
 * used then. Text comes in pieces of any size. */
#ifndef WP_BENCH_SCALING_TRACE_AZURE_H
#define WP_BENCH_SCALING_TRACE_AZURE_H

#include "bench/scaling/trace.h"
#include "pool/base/rng.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_AZURE_LINE_MAX = 1 << 16,
    WP_AZURE_MINUTES = 1440,
    WP_AZURE_PER_MINUTE_MAX = 10000000,
    WP_AZURE_CLAIMS_MAX = 50000000, /* Of a trace; more are refused. */
    WP_AZURE_DAYS_MAX = 366,
};

enum wp_azure_format {
    WP_AZURE_2019,
    WP_AZURE_2021,
};

struct wp_azure_reader {
    enum wp_azure_format format;
    struct wp_trace *trace; /* Begun without an end; finish it after all. */
    struct wp_str app;      /* Only of this app; empty: of all. Borrowed. */
    struct wp_rng rng;
    uint32_t day;        /* 2019: of the file, from 0. */
    uint32_t minutes;    /* 2019: columns that the header has. */
    uint64_t claims_max; /* WP_AZURE_CLAIMS_MAX, or what a test sets. */
    uint64_t line;       /* The one being read, from 1. */
    uint64_t rows;       /* That were of the app. */
    uint64_t left_out;   /* 2021: begun before the trace did. */
    size_t n_pending;
    char pending[WP_AZURE_LINE_MAX];
};

/* The trace: initialised with WP_TIME_NEVER as its end. */
void wp_azure_reader_init(struct wp_azure_reader *reader,
                          enum wp_azure_format format, struct wp_str app,
                          uint64_t seed, struct wp_trace *trace);
/* INVALID_ARGUMENT: "line 3, field 7 (minute 3): ..."; RESOURCE_EXHAUSTED: too
 * many claims, or no memory. An empty text ends a file; then, for 2019, the
 * next day's may follow. */
enum wp_status wp_azure_reader_feed(struct wp_azure_reader *reader,
                                    struct wp_str text, struct wp_err *err);
/* Reads a file whole, and sets the trace's end: after the last minute or
 * claim. Finishes the trace. NOT_FOUND: there is no such file. */
enum wp_status wp_azure_load(const char *path, enum wp_azure_format format,
                             struct wp_str app, uint64_t seed,
                             struct wp_trace *trace, struct wp_err *err);

#endif
