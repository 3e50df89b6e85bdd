/* local/init/egress.h - a sandbox's way out: the socket on loopback from which
 * the egress proxy outside accepts itself. So no byte passes through init, and
 * who speaks is known by the socket. */
#ifndef WP_LOCAL_INIT_EGRESS_H
#define WP_LOCAL_INIT_EGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Listens there; before the program begins, which might take the port. -1 with
 * errno. */
int wp_init_egress_listen(uint16_t port);
/* Tells the variables by which programs find the proxy; those that the template
 * sets stay. For a child between fork and exec, of a process with one thread:
 * it allocates. False when memory lacks. */
bool wp_init_egress_env(void);
/* Has somebody a connection to the proxy at that port? */
bool wp_init_egress_in_use(uint16_t port);

#endif
