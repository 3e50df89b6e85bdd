/* runtime/server/bind_body.h - the body of a binding's request while it comes:
 * trees go to a file without a name in the workspace, the parcel to memory.
 *
 * Nothing is in its place before all of it is there. Loop thread only. */
#ifndef WP_RUNTIME_SERVER_BIND_BODY_H
#define WP_RUNTIME_SERVER_BIND_BODY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "runtime/files/workspace.h"

struct wp_bind_body {
    uint64_t trees_len; /* Of the body, before the parcel. */
    uint64_t got;       /* Of the trees. */
    bool keeps;         /* False: what comes is thrown away, but the parcel. */
    int fd;             /* -1: nothing is kept. */
    int os_errno;       /* Why the trees are not kept; 0: they are. */
    uint8_t *parcel;    /* Wiped at the end. */
    size_t parcel_len;
};

void wp_bind_body_init(struct wp_bind_body *body, uint64_t trees_len,
                       bool keeps);
/* False: the parcel is longer than one may be, or memory lacks. */
WP_MUST_CHECK bool wp_bind_body_feed(struct wp_bind_body *body,
                                     const struct wp_workspace *workspace,
                                     const char *data, size_t len);
/* Has as much come as was said? */
bool wp_bind_body_is_whole(const struct wp_bind_body *body);
/* Puts the trees into the workspace. False: why says what could not be put; of
 * the rest, some is there. names: their folders become its "repositories". */
WP_MUST_CHECK bool wp_bind_body_unpack(struct wp_bind_body *body,
                                       const struct wp_workspace *workspace,
                                       json_t *names, char *why, size_t cap);
/* Never NULL. */
const uint8_t *wp_bind_body_parcel(const struct wp_bind_body *body);
void wp_bind_body_fini(struct wp_bind_body *body);

#endif
