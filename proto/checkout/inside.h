/* proto/checkout/inside.h - paths below a directory that somebody else filled:
 * no link in it leads out of it. */
#ifndef WP_PROTO_CHECKOUT_INSIDE_H
#define WP_PROTO_CHECKOUT_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum wp_inside_links {
    WP_INSIDE_FOLLOW,   /* As a process would whose root `top` is. */
    WP_INSIDE_STAY,     /* Followed while they stay below: else EXDEV. */
    WP_INSIDE_NO_LINKS, /* ELOOP or ENOTDIR where one is. */
};

/* Opens a directory below the directory `top` (O_PATH, close-on-exec). -1 with
 * errno. */
int wp_inside_open(int top, const char *path, enum wp_inside_links links);

/* Where a directory is on this machine; false: longer than cap, or gone. */
bool wp_inside_path(int fd, char *out, size_t cap);

/* mkdir -p below `top`, following no link. False with errno: ENOTDIR where a
 * part is something else than a directory, EINVAL for "." and "..". */
bool wp_inside_make(int top, const char *path, mode_t mode);

#endif
