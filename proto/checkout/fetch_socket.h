/* proto/checkout/fetch_socket.h - asks a warmpool-fetch that serves, as one in
 * a container beside the daemon does. Loop thread. */
#ifndef WP_PROTO_CHECKOUT_FETCH_SOCKET_H
#define WP_PROTO_CHECKOUT_FETCH_SOCKET_H

#include "proto/checkout/fetcher.h"

/* Runs by way of the Unix socket at that path, which is borrowed as long as
 * there are fetchers with it. It need not be there yet. */
struct wp_fetch_runner wp_fetch_socket_runner(const char *path);

#endif
