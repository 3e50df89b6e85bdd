/* proto/wire/binding.h - private to proto/: the message Bound, which tells of a
 * binding by its names. */
#ifndef WP_PROTO_WIRE_BINDING_H
#define WP_PROTO_WIRE_BINDING_H

#include "proto/wire/wire.h"

size_t wp_wire_bound_size(const struct wp_binding *binding);
/* Returns where the next byte goes. */
uint8_t *wp_wire_bound_put(const struct wp_binding *binding, uint8_t *pos);

#endif
