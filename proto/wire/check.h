/* proto/wire/check.h - private to proto/: the bound of every field.
 *
 * Each check returns WP_OK, or INVALID_ARGUMENT with an err that names the
 * field and what was expected. Values from outside are never repeated in it,
 * except for numbers. Any thread. */
#ifndef WP_PROTO_WIRE_CHECK_H
#define WP_PROTO_WIRE_CHECK_H

#include "proto/wire/wire.h"

/* UTF-8 without control characters, min to max bytes. */
WP_MUST_CHECK enum wp_status wp_wire_check_text(const char *field,
                                                struct wp_str text, size_t min,
                                                size_t max, struct wp_err *err);
/* A DNS-1123 name of 1 to max characters. */
WP_MUST_CHECK enum wp_status wp_wire_check_name(const char *field,
                                                struct wp_str name, size_t max,
                                                struct wp_err *err);
WP_MUST_CHECK enum wp_status wp_wire_check_range(const char *field,
                                                 int64_t value, int64_t min,
                                                 int64_t max,
                                                 struct wp_err *err);
/* Milliseconds of a reply: 0 to max_ms of them, in nanoseconds. */
int64_t wp_wire_ms_in_ns(int64_t ms, int64_t max_ms);
/* The rule of ttl_ms in every request: 0, or within limits.h. */
WP_MUST_CHECK enum wp_status wp_wire_check_ttl(int64_t ttl_ms,
                                               struct wp_err *err);
/* What a claim and a batch ask for alike. */
WP_MUST_CHECK enum wp_status wp_wire_check_terms(struct wp_str tenant,
                                                 int64_t ttl_ms,
                                                 int64_t wait_ms,
                                                 struct wp_err *err);
/* Exactly WP_TOKEN_LEN bytes, copied to out. */
WP_MUST_CHECK enum wp_status wp_wire_check_token(const uint8_t *bytes,
                                                 size_t len,
                                                 uint8_t out[WP_TOKEN_LEN],
                                                 struct wp_err *err);
/* Printable text into out[cap], terminated. */
WP_MUST_CHECK enum wp_status wp_wire_copy_text(const char *field,
                                               const char *text, char *out,
                                               size_t cap, struct wp_err *err);

#endif
