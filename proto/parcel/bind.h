/* proto/parcel/bind.h - what a claim brings, put where the sandbox's programs
 * find it.
 *
 * Runs in warmpool-init, or in a cluster in warmpool-runtime, so inside all of
 * the sandbox's walls: a path leads nowhere but to the sandbox's own files.
 * Below the workspace no link is followed, and what is there is replaced, never
 * opened. Below `dir`, which is in memory:
 *
 *   env             NAME=VALUE of every variable, each ended by a NUL
 *   cwd             where commands run that name no folder; absent: anywhere
 *   secrets/NAME    mode 0400
 *   identity        mode 0400; replaced as a whole
 */
#ifndef WP_PROTO_PARCEL_BIND_H
#define WP_PROTO_PARCEL_BIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"

enum {
    WP_BIND_WHY_MAX = 160,
};

/* What is left to do at the end: to see that the identity has come, and to
 * start a command. */
struct wp_bind_command {
    char **argv; /* NULL: nothing; else ends with NULL. */
    char **env;  /* The same; this process's own, and what was brought. */
    int dir_fd;  /* -1: the workspace. */
    const char *identity; /* "NAME=PATH" of its variable; NULL: none is due. */
    char *text;           /* What these point into. */
    size_t text_len;
};

/* Puts the identity into its file in dir, in the place of the one before:
 * whoever reads it finds one of the two. False with errno. */
WP_MUST_CHECK bool wp_bind_identity(const char *dir, const char *token,
                                    size_t len);

/* Takes all of the len bytes of a parcel. False: why says what was not taken;
 * of what was, some is there. command is to be ended in either case. */
WP_MUST_CHECK bool wp_bind_take(const char *dir, const char *workspace,
                                const uint8_t *parcel, size_t len,
                                struct wp_bind_command *command,
                                char why[WP_BIND_WHY_MAX]);
/* Is the identity there that what was taken names? False: why says so. */
WP_MUST_CHECK bool wp_bind_is_identified(const char *dir,
                                         const struct wp_bind_command *command,
                                         char why[WP_BIND_WHY_MAX]);
/* Wipes what was secret. */
void wp_bind_command_fini(struct wp_bind_command *command);

#endif
