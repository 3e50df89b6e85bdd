/* proto/parcel/pack.h - what a claim brings, as a parcel. Pure; any thread. */
#ifndef WP_PROTO_PARCEL_PACK_H
#define WP_PROTO_PARCEL_PACK_H

#include <stddef.h>
#include <stdint.h>

#include "pool/binding.h"

/* Of a binding within limits.h: at most WP_PARCEL_MAX; 0: nothing of it is for
 * a parcel. identity: the path of its identity's file in the sandbox, or "": it
 * is in the folder of what is bound, wherever that is. For one without an
 * identity it does not count. */
size_t wp_parcel_size(const struct wp_binding *binding, struct wp_str identity);
/* Writes as many bytes. */
void wp_parcel_fill(const struct wp_binding *binding, struct wp_str identity,
                    uint8_t *at);

#endif
