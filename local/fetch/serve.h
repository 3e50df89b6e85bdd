/* local/fetch/serve.h - warmpool-fetch as a server, in a container beside the
 * daemon's: runs what it is asked for (proto/checkout/fetch_message.h), each in
 * a process of its own.
 *
 * All of them are one user's, for in a Pod there is no other. So Landlock keeps
 * them apart: a process reads programs, libraries, the resolver's files and
 * authorities, and reads and writes its repository's part of the cache. */
#ifndef WP_LOCAL_FETCH_SERVE_H
#define WP_LOCAL_FETCH_SERVE_H

/* Serves at the Unix socket until SIGTERM or SIGINT; the cache's folder is made
 * if need be. The program's exit status; standard error says why it cannot. */
int wp_fetch_serve(const char *socket_path, const char *cache);

#endif
