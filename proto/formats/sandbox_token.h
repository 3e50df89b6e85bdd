/* proto/formats/sandbox_token.h - the token of one sandbox's own server.
 *
 * A daemon makes it from a key and the sandbox's name whenever it calls the
 * sandbox; it is stored nowhere. The sandbox is given the token's digest, which
 * opens nothing: it may stand in a Pod's environment, which others can read.
 * Pure; any thread. */
#ifndef WP_PROTO_FORMATS_SANDBOX_TOKEN_H
#define WP_PROTO_FORMATS_SANDBOX_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/base/str.h"

/* The field of a request that has the token. */
#define WP_SANDBOX_TOKEN_FIELD "X-Warmpool-Token"
/* Where warmpool-runtime finds the digest. */
#define WP_SANDBOX_TOKEN_ENV "WARMPOOL_RUNTIME_TOKEN_DIGEST"

enum {
    WP_SANDBOX_KEY_LEN = 32,
    WP_SANDBOX_TOKEN_TEXT = 64, /* Hexadecimal digits, of a digest as well. */
};

/* The token of the sandbox of that name; terminated. */
void wp_sandbox_token(const uint8_t key[WP_SANDBOX_KEY_LEN], const char *ns,
                      const char *name, char out[WP_SANDBOX_TOKEN_TEXT + 1]);
/* Shows that whoever has the key wrote text; no sandbox's token is the same.
 * Terminated. */
void wp_sandbox_seal(const uint8_t key[WP_SANDBOX_KEY_LEN], struct wp_str text,
                     char out[WP_SANDBOX_TOKEN_TEXT + 1]);
/* Is it the seal of text? Takes as long for a wrong one. */
bool wp_sandbox_seal_fits(const uint8_t key[WP_SANDBOX_KEY_LEN],
                          struct wp_str text, const char *seal);
/* The SHA-256 of a token's text; terminated. */
void wp_sandbox_token_digest(struct wp_str token,
                             char out[WP_SANDBOX_TOKEN_TEXT + 1]);
/* Is it the token of that digest? Takes as long for a wrong one. */
bool wp_sandbox_token_fits(struct wp_str token, const char *digest);

#endif
