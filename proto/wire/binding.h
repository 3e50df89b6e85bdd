/* proto/wire/binding.h - private to proto/: the fields of Binding, and the
 * message Bound, which tells of a binding by its names. */
#ifndef WP_PROTO_WIRE_BINDING_H
#define WP_PROTO_WIRE_BINDING_H

#include "proto/wire/wire.h"

/* Bound has the same numbers, but for the command. */
enum wp_binding_field {
    BINDING_ENV = 1,
    BINDING_SECRETS = 2,
    BINDING_FILES = 3,
    BINDING_WORKING_DIR = 4,
    BINDING_COMMAND = 5,
    BINDING_ARCHIVES = 6,
    BINDING_REPOSITORIES = 20,
    BINDING_VOLUMES = 21,
    BINDING_EGRESS = 25,
    BINDING_IDENTITY = 26,
    BINDING_FIELDS, /* Some numbers below it are none of ours. */
};

size_t wp_wire_bound_size(const struct wp_binding *binding);
/* Returns where the next byte goes. */
uint8_t *wp_wire_bound_put(const struct wp_binding *binding, uint8_t *pos);

#endif
