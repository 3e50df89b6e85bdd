/* tests/unit/allocator/daemon/daemon_parts.h - the parts that daemon.c puts
 * together, each a fake that only tells the journal of itself. */
#ifndef WP_TESTS_UNIT_ALLOCATOR_DAEMON_DAEMON_PARTS_H
#define WP_TESTS_UNIT_ALLOCATOR_DAEMON_DAEMON_PARTS_H

#include "allocator/conf/conf.h"
#include "allocator/services/services.h"
#include "allocator/threads/control.h"

/* What the daemon under test is made from. */
extern struct wp_conf conf;
extern char *argv[2];
extern bool is_redis;   /* Its store is. */
extern bool is_durable; /* The same. */

/* What it has given to these parts. */
extern struct wp_control_config control;
extern struct wp_services_config services;

/* Tells of what is wiped: at the end, the whole daemon. */
void daemon_wipes(size_t n);

#endif
