/* proto/checkout/fetch_message.h - what a warmpool-fetch that serves is asked,
 * on a SOCK_SEQPACKET socket: a connection for each run, and on it one message.
 *
 * The run's report comes on the same connection (fetch_report.h), which then
 * ends. Who closes it first ends the run. The credential does not stand in the
 * message: a pipe comes along that has it. Any thread. */
#ifndef WP_PROTO_CHECKOUT_FETCH_MESSAGE_H
#define WP_PROTO_CHECKOUT_FETCH_MESSAGE_H

#include <stddef.h>

#include "pool/base/compiler.h"
#include "proto/checkout/fetcher.h"

enum {
    WP_FETCH_MESSAGE_MAX = 2048,
    WP_FETCH_PART_MAX = 255, /* Bytes of a part's name. */
};

/* Its length. Without the credential. */
size_t wp_fetch_message_write(const struct wp_fetch_run *run,
                              char out[WP_FETCH_MESSAGE_MAX]);
/* False: it is no such message. The run's texts point into bytes. A part is the
 * name of one file. */
WP_MUST_CHECK bool wp_fetch_message_read(const char *bytes, size_t len,
                                         struct wp_fetch_run *out);

/* The end to be read of a pipe that has the credential, or nothing. All of it
 * fits, so nobody has to write later. -1 with errno. */
WP_MUST_CHECK int wp_fetch_credential_pipe(struct wp_str credential);

#endif
