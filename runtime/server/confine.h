/* runtime/server/confine.h - gives up rights this process will not need. */
#ifndef WP_RUNTIME_SERVER_CONFINE_H
#define WP_RUNTIME_SERVER_CONFINE_H

#include "pool/base/compiler.h"
#include "pool/base/status.h"

/* Landlock: from here on this process, and all it starts, may write only below
 * `workspace`, /tmp, /var/tmp, /dev/shm, and to the usual devices; and read and
 * execute only there and below what readable names, absolute paths with ':'
 * between them (NULL: everywhere it could before). Sets no_new_privs. Cannot be
 * undone. INVALID_ARGUMENT for another path. UNIMPLEMENTED when the kernel has
 * no Landlock; the process is then as free as before. Before threads start. */
WP_MUST_CHECK enum wp_status
wp_confine(const char *workspace, const char *readable, struct wp_err *err);

#endif
