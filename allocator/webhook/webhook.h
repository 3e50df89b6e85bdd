/* allocator/webhook/webhook.h - where the API server has objects converted:
 * HTTP/2 with TLS, POST /convert.
 *
 * Whoever reaches it may ask: it only turns a request's own objects into its
 * answer. Requests are bounded in size and number; one is worked on at a time,
 * on a thread of its own. */
#ifndef WP_ALLOCATOR_WEBHOOK_WEBHOOK_H
#define WP_ALLOCATOR_WEBHOOK_WEBHOOK_H

#include "pool/base/compiler.h"
#include "pool/base/status.h"

struct wp_webhook; /* Opaque. */

/* Binds the address (host:port; borrowed); nothing is served yet. dir: where
 * the certificate and its key are kept, in files of the daemon's user only.
 * Until wp_webhook_use it shows a certificate that nobody trusts. NULL and err.
 */
WP_MUST_CHECK struct wp_webhook *
wp_webhook_create(const char *listen, const char *dir, struct wp_err *err);
WP_MUST_CHECK enum wp_status wp_webhook_start(struct wp_webhook *self,
                                              struct wp_err *err);
/* What it is bound to. */
const char *wp_webhook_address(const struct wp_webhook *self);
/* Shows this certificate from the next connection on. PEM texts; copied. One
 * thread at a time. */
enum wp_status wp_webhook_use(struct wp_webhook *self, const char *cert,
                              const char *key, struct wp_err *err);
/* Ends its thread. After start. */
void wp_webhook_stop(struct wp_webhook *self);
/* After stop, or instead of start. NULL is fine. */
void wp_webhook_destroy(struct wp_webhook *self);

#endif
