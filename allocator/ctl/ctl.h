/* allocator/ctl/ctl.h - what warmpoolctl's commands share.
 *
 * One thread, one command, then exit: what is allocated here lives until then,
 * and a lack of memory ends the program. */
#ifndef WP_ALLOCATOR_CTL_CTL_H
#define WP_ALLOCATOR_CTL_CTL_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "allocator/ctl/options.h"
#include "pool/base/arena.h"
#include "pool/base/status.h"
#include "pool/base/str.h"
#include "proto/wire/wire.h"

/* Documented in the help: scripts rely on them. */
enum wp_ctl_exit {
    WP_EXIT_OK = 0,
    WP_EXIT_FAILED = 1,
    WP_EXIT_USAGE = 2, /* The command line, or a value the daemon refused. */
    WP_EXIT_NOT_FOUND = 3,
    WP_EXIT_UNAVAILABLE = 4, /* Nobody answers, or not now. */
    WP_EXIT_EXHAUSTED = 5,   /* No sandbox to be had in time, or a time-out. */
    /* exec only; else the command's own. */
    WP_EXIT_TIME_LIMIT = 124,
    WP_EXIT_EXEC_FAILED = 125, /* warmpoolctl or the daemon failed. */
    WP_EXIT_CANNOT_RUN = 126,  /* The command is there but cannot be run. */
    WP_EXIT_NO_COMMAND = 127,
};

struct wp_rpc_client;
struct wp_ctl_command;

struct wp_ctl {
    const struct wp_ctl_command *commands; /* All; the last has no name. */
    const struct wp_ctl_command *command;
    struct wp_ctl_options options;
    struct wp_rpc_client *rpc; /* NULL until the first call. */
    struct wp_arena arena;     /* Requests and replies; never reset. */
    FILE *out;
    FILE *errors;
};

struct wp_ctl_command {
    const char *name;
    const char *operands;       /* "POOL", as in the usage line. */
    const char *summary;        /* One line without a final stop. */
    const char *help;           /* What it does; examples last. */
    const char *const *options; /* Beside the common ones; ends with NULL. */
    int args_min;
    int args_max;
    bool with_rest;                 /* A command to run follows. */
    enum wp_ctl_subject subject;    /* Of the operands. */
    int (*run)(struct wp_ctl *ctl); /* Returns the exit code. */
};

/* Prints what went wrong, as the output format asks, and what can be done about
 * it; returns the exit code that fits. retry_after_ns 0: not known. */
int wp_ctl_fail(const struct wp_ctl *ctl, const struct wp_err *err,
                int64_t retry_after_ns);
/* The same for a mistake in the command line; points to the command's help. */
int wp_ctl_usage(const struct wp_ctl *ctl, const struct wp_err *err);

/* "POOL" or "NAMESPACE/POOL"; checks the names. */
enum wp_status wp_ctl_pool_parse(struct wp_ctl *ctl, const char *text,
                                 struct wp_wire_pool_ref *out,
                                 struct wp_err *err);
/* Room for n bytes, zeroed, until the program ends. */
void *wp_ctl_alloc(struct wp_ctl *ctl, size_t n);

#endif
