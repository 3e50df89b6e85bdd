/* proto/formats/base64.h - base64 as files have it. Pure; any thread. */
#ifndef WP_PROTO_FORMATS_BASE64_H
#define WP_PROTO_FORMATS_BASE64_H

#include <stdbool.h>
#include <stddef.h>

#include "pool/base/compiler.h"

/* RFC 4648 with its padding; line ends between are skipped, as files are often
 * folded. out needs 3 bytes for 4 of text, and one more: it is terminated.
 * False: it is no base64; what out has then means nothing. */
WP_MUST_CHECK bool wp_base64_read(const char *text, char *out, size_t *out_len);

#endif
