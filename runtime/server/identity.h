/* runtime/server/identity.h - the signed identity of this sandbox, as the
 * daemon brings it (proto/parcel/request.h). Loop thread only. */
#ifndef WP_RUNTIME_SERVER_IDENTITY_H
#define WP_RUNTIME_SERVER_IDENTITY_H

#include "pool/base/compiler.h"
#include "runtime/runtime.h"

extern const struct wp_http_ops wp_identity_ops;

/* Puts what the request has into its file. True also when it has none. False:
 * why says what is wrong. The folder of what is bound is there. */
WP_MUST_CHECK bool wp_runtime_identity_take(struct wp_http_req *req, char *why,
                                            size_t cap);
/* Says in the answer that it was taken, if there was one. */
void wp_runtime_identity_confirm(struct wp_http_req *req);

#endif
