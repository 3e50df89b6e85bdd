/* allocator/conf/paths.h - where the daemon and its tools meet by default.
 *
 * The runtime directory holds the sockets: the directory systemd gives
 * ($RUNTIME_DIRECTORY), else /run/warmpool for root, else
 * $XDG_RUNTIME_DIR/warmpool, else /tmp/warmpool-UID. */
#ifndef WP_ALLOCATOR_CONF_PATHS_H
#define WP_ALLOCATOR_CONF_PATHS_H

#include <stddef.h>

#define WP_GRPC_SOCKET_NAME "warmpoold.sock"
#define WP_HTTP_SOCKET_NAME "warmpoold-http.sock"

/* The runtime directory into out[cap]; returns out. Reads the environment: call
 * it before threads start. A path that does not fit is cut and will fail to
 * open, naming itself. */
const char *wp_paths_runtime_dir(char *out, size_t cap);
/* "unix:DIR/warmpoold.sock", what the daemon listens on and warmpoolctl calls
 * when nothing else is said. */
const char *wp_paths_grpc_address(char *out, size_t cap);
/* "unix:DIR/warmpoold-http.sock" */
const char *wp_paths_http_address(char *out, size_t cap);

#endif
