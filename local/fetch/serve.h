/* local/fetch/serve.h - warmpool-fetch as a server, in a container beside the
 * daemon's: runs what it is asked for (proto/checkout/fetch_message.h), each in
 * a process of its own.
 *
 * All of them are one user's, for in a Pod there is no other. So Landlock keeps
 * them apart: a process reads programs, libraries, the resolver's files and
 * authorities, and reads and writes its repository's part of the cache. */
#ifndef WP_LOCAL_FETCH_SERVE_H
#define WP_LOCAL_FETCH_SERVE_H

#include <stdint.h>

/* What a process runs once it is confined, in the folder of its part: its
 * report goes to WP_FETCH_REPORT_FD. Their result is its exit status. */
struct wp_fetch_serve {
    int (*checkout)(const char *url, const char *ref, uint64_t bytes);
    int (*sweep)(uint64_t bytes, int64_t seconds);
};

/* Serves at the Unix socket until SIGTERM or SIGINT; the cache's folder is made
 * if need be. The program's exit status; standard error says why it cannot. */
int wp_fetch_serve(const char *socket_path, const char *cache,
                   const struct wp_fetch_serve *run);

#endif
