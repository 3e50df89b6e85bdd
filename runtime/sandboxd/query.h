/* runtime/sandboxd/query.h - what a request says beside its path. Pure; any
 * thread. */
#ifndef WP_RUNTIME_SANDBOXD_QUERY_H
#define WP_RUNTIME_SANDBOXD_QUERY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

/* The value of the first parameter of that name, as it stands ("" for one
 * without '='). False when there is none. */
WP_MUST_CHECK bool wp_query_find(struct wp_str query, const char *name,
                                 struct wp_str *value);
/* 1, t, T, true, True, TRUE, 0, f, F, false, False, FALSE. False: none of
 * them. */
WP_MUST_CHECK bool wp_query_bool(struct wp_str value, bool *out);
/* '0' and three octal digits. False: something else. */
WP_MUST_CHECK bool wp_query_mode(struct wp_str value, mode_t *out);

enum wp_byte_range {
    WP_RANGE_WHOLE, /* None, several, or no range of bytes: all is sent. */
    WP_RANGE_PART,
    WP_RANGE_BEYOND, /* It begins behind the end: 416. */
};

/* Of a Range field's value and a file of size bytes. *from and *len are set for
 * WP_RANGE_PART, of which len is at least 1 and nothing lies behind the end. */
enum wp_byte_range wp_byte_range_read(struct wp_str value, uint64_t size,
                                      uint64_t *from, uint64_t *len);

#endif
