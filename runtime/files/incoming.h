/* runtime/files/incoming.h - a file that is being written, and appears whole.
 *
 * The bytes go to a file beside the target, which takes the target's name when
 * all of it is there. So a full disk, a lost client or a bad body leaves the
 * old file, or none, never half a new one. Loop thread only. */
#ifndef WP_RUNTIME_FILES_INCOMING_H
#define WP_RUNTIME_FILES_INCOMING_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/files/workspace.h"

struct wp_incoming {
    char path[WP_WORKSPACE_PATH_MAX]; /* The target's. */
    char name[256];                   /* Its last component. */
    char temp[64];                    /* "" when there is nothing to remove. */
    int dir;                          /* -1, or the folder of both files. */
    int fd;                           /* -1, or the file being written. */
    uint64_t written;
};

/* To be called before anything else. */
void wp_incoming_init(struct wp_incoming *incoming);
/* Begins the file incoming->path (0644, less the umask), with missing folders
 * above it. 0 or an errno: EISDIR for a folder; those of
 * wp_workspace_open_parent. */
WP_MUST_CHECK int wp_incoming_open(struct wp_incoming *incoming,
                                   const struct wp_workspace *workspace);
/* 0 or an errno. */
WP_MUST_CHECK int wp_incoming_write(struct wp_incoming *incoming,
                                    const char *data, size_t len);
/* Gives the file its name. 0 or an errno; the file is closed in any case, and
 * after an error it is wp_incoming_discard that removes it. */
WP_MUST_CHECK int wp_incoming_commit(struct wp_incoming *incoming);
/* Removes what was written, if it has no name yet. Any number of times. */
void wp_incoming_discard(struct wp_incoming *incoming);

#endif
