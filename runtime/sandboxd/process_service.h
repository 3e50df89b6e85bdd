/* runtime/sandboxd/process_service.h - process.v1.ProcessService: commands over
 * gRPC, as clients of sandboxd know it.
 *
 * A command started by Start lives as long as its stream: who hangs up ends it,
 * with all of its process group. Its number is the service's own, no process
 * id. Commands count against --execs-max; an Execute that finds no room waits
 * its turn among 256, a Start is refused.
 *
 * Back-pressure: a command's pipes are not read while more than 256 KiB wait
 * for the client; WriteStdin is answered once no more than 64 KiB wait for the
 * command. Loop thread only. */
#ifndef WP_RUNTIME_SANDBOXD_PROCESS_SERVICE_H
#define WP_RUNTIME_SANDBOXD_PROCESS_SERVICE_H

#include "runtime/runtime.h"

struct wp_process_service;

/* Listens on an address such as "[::]:9090". NULL with err set. runtime is
 * borrowed until destroy. */
WP_MUST_CHECK struct wp_process_service *
wp_process_service_create(struct wp_runtime *runtime, const char *listen,
                          uint32_t connections_max, struct wp_err *err);
int32_t wp_process_service_port(const struct wp_process_service *service);
/* Takes no more calls; drained() runs from the loop once none is left. */
void wp_process_service_drain(struct wp_process_service *service,
                              void (*drained)(void *arg), void *arg);
/* Ends its commands. Before the table of processes goes. NULL is fine. */
void wp_process_service_destroy(struct wp_process_service *service);

#endif
