/* k8s/api/token.h - a bearer token, from a file that rotates or fixed.
 *
 * The file is looked at once a second at most while requests are made, and read
 * when it has changed, when the last reading is a minute old, and when the
 * server refused what was in it. What cannot be read later leaves the old value
 * in use. Values never reach logs and are overwritten when they are freed. Loop
 * thread only. */
#ifndef WP_K8S_API_TOKEN_H
#define WP_K8S_API_TOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/clock.h"
#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_TOKEN_MAX = 16 << 10,
};

/* Counted, because requests under way keep the one they were sent with. */
struct wp_token_value {
    uint32_t refs;
    size_t size;
    char header[]; /* "Authorization: Bearer ..." */
};
void wp_token_value_release(struct wp_token_value *value); /* NULL is fine. */

struct wp_token; /* Opaque. */

/* At most one of file and fixed; both are borrowed until destroy; neither:
 * requests carry no token. NULL and err: the file cannot be read, or there is
 * no token in it. */
struct wp_token *wp_token_create(const char *file, const char *fixed,
                                 const struct wp_clock *clock,
                                 struct wp_err *err);
void wp_token_destroy(struct wp_token *token); /* NULL is fine. */

/* What a request is to carry now; the caller releases it. NULL: nothing. */
struct wp_token_value *wp_token_take(struct wp_token *token);
/* The server has refused used (NULL: there was none): reads the file again.
 * True: there is another value now, and the request deserves one more try. */
WP_MUST_CHECK bool wp_token_refused(struct wp_token *token,
                                    const struct wp_token_value *used);

/* The token in the bytes of a file: white space around it left out. False when
 * there is none, or it has what no header may carry. Any thread. */
WP_MUST_CHECK bool wp_token_trim(struct wp_str bytes, struct wp_str *out);

#endif
