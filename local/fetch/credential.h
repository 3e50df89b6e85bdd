/* local/fetch/credential.h - user and password for a remote, on their way to
 * git.
 *
 * They come by a descriptor and leave by one, so that they are in no command
 * line, no environment and no file. One thread. */
#ifndef WP_LOCAL_FETCH_CREDENTIAL_H
#define WP_LOCAL_FETCH_CREDENTIAL_H

#include "pool/base/compiler.h"

/* Reads them from fd to its end (proto/checkout/fetch_report.h). A descriptor
 * of a file in memory that git reads as its configuration, and then sends them
 * with each request; 0 when there are none, -1 when they cannot be had. */
WP_MUST_CHECK int wp_credential_open(int fd);

#endif
