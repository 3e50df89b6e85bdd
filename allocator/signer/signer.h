/* allocator/signer/signer.h - a signed word for whom a sandbox is.
 *
 * A JSON Web Token, ES256: iss, sub ("TENANT/CLAIM/NAMESPACE/POOL/SANDBOX",
 * with '/' and '%' of the first two as %2F and %25), aud, iat, exp, jti, and
 * the parts of sub again in the object "warmpool". Any thread. */
#ifndef WP_ALLOCATOR_SIGNER_SIGNER_H
#define WP_ALLOCATOR_SIGNER_SIGNER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/clock.h"
#include "pool/base/status.h"
#include "pool/claim.h"

enum {
    WP_SIGNER_JWKS_MAX = 2048,
    WP_SIGNER_OPENID_MAX = 1024,
};

struct wp_signer; /* Opaque. */

/* Borrowed until destroy, but for dir. */
struct wp_signer_config {
    const char *dir; /* Of its keys. NULL: they are given. */
    const char *issuer;
    int64_t ttl_ns;      /* Where the claim asks for none, and at most. */
    int64_t key_turn_ns; /* How long a key signs. */
    const struct wp_clock *clock;
};

/* NULL and err. */
struct wp_signer *wp_signer_create(const struct wp_signer_config *config,
                                   struct wp_err *err);
/* NULL is fine. */
void wp_signer_destroy(struct wp_signer *signer);

/* About whom lease tells, until the lease's deadline at the latest. ttl_ms 0:
 * the setting's. FAILED_PRECONDITION: that is over. */
enum wp_status wp_signer_sign(struct wp_signer *signer,
                              const struct wp_claim_info *lease,
                              struct wp_str audience, int64_t ttl_ms,
                              char token[WP_IDENTITY_TOKEN_MAX + 1],
                              int64_t *expires_wall_ms, struct wp_err *err);

/* Its keys, when they are given: wp_signer_keys_take and wp_signer_keys_change
 * (allocator/signer/keys.h). */
void wp_signer_take(struct wp_signer *signer, json_t *data);
json_t *wp_signer_change(struct wp_signer *signer);

/* The set of keys, as verifiers ask for it; its length. */
size_t wp_signer_jwks(struct wp_signer *signer, char out[WP_SIGNER_JWKS_MAX]);
/* What OpenID Connect's discovery tells; 0: the issuer is no https:// URL. */
size_t wp_signer_openid(const struct wp_signer *signer,
                        char out[WP_SIGNER_OPENID_MAX]);

#endif
