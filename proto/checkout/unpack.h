/* proto/checkout/unpack.h - a tree image, put into the workspace.
 *
 * Runs in warmpool-init, so inside all of the sandbox's walls. The program of
 * the sandbox runs beside it: no link is followed, and what is there is
 * replaced, never opened. */
#ifndef WP_PROTO_CHECKOUT_UNPACK_H
#define WP_PROTO_CHECKOUT_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"

enum {
    WP_UNPACK_WHY_MAX = 160,
};

/* Puts all of the image below the folder `dir` of the workspace, which is made
 * if need be; "": the workspace itself. False: why says what could not be put;
 * of the rest, some is there. */
WP_MUST_CHECK bool wp_unpack(const char *workspace, const char *dir,
                             const uint8_t *image, size_t len,
                             char why[WP_UNPACK_WHY_MAX]);

#endif
