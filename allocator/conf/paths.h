/* allocator/conf/paths.h - where the daemon and its tools meet by default.
 *
 * The runtime directory holds the sockets: the directory systemd gives
 * ($RUNTIME_DIRECTORY), else /run/warmpool for root, else
 * $XDG_RUNTIME_DIR/warmpool, else /run/user/UID/warmpool where a login has made
 * that directory, else /tmp/warmpool-UID. */
#ifndef WP_ALLOCATOR_CONF_PATHS_H
#define WP_ALLOCATOR_CONF_PATHS_H

#include <stddef.h>

#include "pool/base/status.h"

#define WP_GRPC_SOCKET_NAME "warmpoold.sock"
#define WP_HTTP_SOCKET_NAME "warmpoold-http.sock"
#define WP_ACCESS_TOKEN_NAME "access.token"

/* The runtime directory into out[cap]; returns out. Reads the environment: call
 * it before threads start. A path that does not fit is cut and will fail to
 * open, naming itself. */
const char *wp_paths_runtime_dir(char *out, size_t cap);
/* May what is in `dir` be trusted? It, and a link of that name, belongs to this
 * process's user or root, and nobody else can write in it; its own group can.
 * WP_OK as well when it does not exist. PERMISSION_DENIED: somebody else may
 * have put there what we would take for ours. Any thread. */
WP_MUST_CHECK enum wp_status wp_paths_check_dir(const char *dir,
                                                struct wp_err *err);
/* "unix:DIR/warmpoold.sock", what the daemon listens on and warmpoolctl calls
 * when nothing else is said. */
const char *wp_paths_grpc_address(char *out, size_t cap);
/* "unix:DIR/warmpoold-http.sock" */
const char *wp_paths_http_address(char *out, size_t cap);
/* "DIR/access.token", the daemon's own token for TCP, where it has one. */
const char *wp_paths_access_token(char *out, size_t cap);

#endif
