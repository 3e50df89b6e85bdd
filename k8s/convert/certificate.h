/* k8s/convert/certificate.h - the certificates that the API server trusts the
 * webhook by.
 *
 * Each is its own authority: the CRDs' caBundle holds the certificate itself.
 * Keys are of P-256. Any thread. */
#ifndef WP_K8S_CONVERT_CERTIFICATE_H
#define WP_K8S_CONVERT_CERTIFICATE_H

#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    WP_CERTIFICATE_DAYS = 90,
    WP_CERTIFICATE_PEM_MAX = 4096, /* Of each of the two, with the final NUL. */
    WP_CERTIFICATE_NAMES_MAX = 4,
};

struct wp_certificate {
    char cert[WP_CERTIFICATE_PEM_MAX]; /* "": none. */
    char key[WP_CERTIFICATE_PEM_MAX];  /* Secret. */
};

/* Makes one that is good from an hour before now, for clocks that go slow. Each
 * name is a host's or an address. names: 1 to WP_CERTIFICATE_NAMES_MAX. */
WP_MUST_CHECK enum wp_status wp_certificate_make(struct wp_certificate *out,
                                                 const char *const *names,
                                                 size_t n_names, int64_t now_s,
                                                 struct wp_err *err);
/* Is it a pair that fits, good for all of these names? made_s: when it was
 * made, until_s: until when it is good, in seconds since 1970. */
WP_MUST_CHECK enum wp_status
wp_certificate_check(const struct wp_certificate *pair,
                     const char *const *names, size_t n_names, int64_t *made_s,
                     int64_t *until_s, struct wp_err *err);
/* The pair's memory is cleared. */
void wp_certificate_clear(struct wp_certificate *pair);

/* base64 as in JSON. The encoded text, for the caller to free; NULL when memory
 * lacks. */
WP_MUST_CHECK char *wp_base64_encode(struct wp_str bytes);
/* Into out, terminated. False when it is none, or does not fit. */
WP_MUST_CHECK bool wp_base64_decode(struct wp_str text, char *out, size_t cap);

#endif
