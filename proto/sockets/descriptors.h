/* proto/sockets/descriptors.h - as many descriptors as the settings ask for. */
#ifndef WP_PROTO_SOCKETS_DESCRIPTORS_H
#define WP_PROTO_SOCKETS_DESCRIPTORS_H

#include <stdint.h>

/* Raises this process' limit of descriptors so that `each` for each of `asked`
 * connections and `others` fit, as far as the hard limit goes. How many
 * connections there may be: asked, or as many as fit; never 0. */
uint32_t wp_descriptors_fit(uint32_t asked, uint32_t each, uint32_t others);

#endif
