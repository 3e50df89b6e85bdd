/* local/fetch/git.h - runs git, with an environment of ours only.
 *
 * What it could read of a user's or the machine's configuration is switched
 * off; it asks nobody, runs no hook, follows no redirect and speaks no protocol
 * but the one that it is given. Who started this process ends it, and git with
 * it, when it takes too long. One thread. */
#ifndef WP_LOCAL_FETCH_GIT_H
#define WP_LOCAL_FETCH_GIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"

enum {
    WP_GIT_ERROR_MAX = 160,
    WP_GIT_ARGS_MAX = 24,
};

struct wp_git {
    const char *protocol; /* "https", "http" or "file". */
    const char *dir;      /* Where it runs. */
    int config_fd;        /* Of more configuration; 0: there is none. */
    uint64_t file_max;    /* Bytes of one file that it writes. */
    /* What it prints, piece by piece; false: that is enough, and it is ended.
     * NULL: thrown away. */
    bool (*output)(void *ctx, const char *bytes, size_t len);
    void *ctx;
    /* After wp_git_run. */
    int status;                   /* Of its exit; -1: it was ended. */
    char error[WP_GIT_ERROR_MAX]; /* What it said last, printable. */
};

/* Runs "git ARGS" (ended by NULL). False: git->error says why not, or why its
 * status is not 0. */
WP_MUST_CHECK bool wp_git_run(struct wp_git *git, const char *const args[]);
/* The line of what git printed to standard error that tells most. */
void wp_git_error_line(const char *text, size_t len,
                       char out[WP_GIT_ERROR_MAX]);

#endif
