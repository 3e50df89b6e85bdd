/* allocator/http/trigger_signature.h - who sent a webhook.
 *
 * "sha256=" and the HMAC-SHA256 of the body in hexadecimal, by a secret that
 * both sides know, in the header X-Hub-Signature-256: as GitHub signs. */
#ifndef WP_ALLOCATOR_HTTP_TRIGGER_SIGNATURE_H
#define WP_ALLOCATOR_HTTP_TRIGGER_SIGNATURE_H

#include <stdbool.h>

#include "pool/base/str.h"

#define WP_TRIGGER_SIGNATURE_FIELD "X-Hub-Signature-256"

/* Takes the same time wherever they differ. Any thread. */
WP_MUST_CHECK bool wp_trigger_is_signed(struct wp_str secret,
                                        struct wp_str body,
                                        struct wp_str signature);

#endif
