/* proto/wire/parts.h - private to proto/: what several messages
 * hold. */
#ifndef WP_PROTO_WIRE_PARTS_H
#define WP_PROTO_WIRE_PARTS_H

#include "proto/wire/wire.h"

#include "proto/wire/read.h"

#include "warmpool/v1/allocator.pb-c.h"

/* The fields of a PoolRef, unchecked; those already in pool stay when they are
 * not given. False when it is malformed. */
WP_MUST_CHECK bool wp_wire_read_pool(const struct wp_wire_field *message,
                                     struct wp_wire_pool_ref *pool);
/* Ends a text that wp_wire_read_next found in a copy by wp_wire_copy, once all
 * of the copy was read: what stands at its end is the next field's tag, or the
 * byte after the copy. */
void wp_wire_terminate(struct wp_str *text);
/* A PoolRef that must be there; an empty namespace becomes "default". */
WP_MUST_CHECK enum wp_status wp_wire_check_pool(bool given,
                                                struct wp_wire_pool_ref *pool,
                                                struct wp_err *err);
/* The same from a generated struct, or NULL when there is none. */
WP_MUST_CHECK enum wp_status wp_wire_pool_in(const Warmpool__V1__PoolRef *pb,
                                             struct wp_wire_pool_ref *out,
                                             struct wp_err *err);
/* A PoolRef that may be unset or empty. */
WP_MUST_CHECK enum wp_status
wp_wire_pool_in_optional(const Warmpool__V1__PoolRef *pb,
                         struct wp_wire_pool_ref *out, struct wp_err *err);
void wp_wire_pool_out(const struct wp_wire_pool_ref *pool,
                      Warmpool__V1__PoolRef *pb);
/* A reply's PoolRef into terminated buffers. */
WP_MUST_CHECK enum wp_status
wp_wire_pool_copy(const Warmpool__V1__PoolRef *pb,
                  char pool_namespace[WP_NAMESPACE_MAX + 1],
                  char name[WP_POOL_NAME_MAX + 1], struct wp_err *err);

/* 0 for a number this build does not know. */
enum wp_served wp_wire_served_in(Warmpool__V1__Served served);
Warmpool__V1__Served wp_wire_served_out(enum wp_served served);

#endif
