/* k8s/convert/review.h - the API server's question to a conversion webhook,
 * and the answer.
 *
 * A ConversionReview of apiextensions.k8s.io/v1 holds any number of objects:
 * all of a list, at its most. Pure; any thread. */
#ifndef WP_K8S_CONVERT_REVIEW_H
#define WP_K8S_CONVERT_REVIEW_H

#include <stddef.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

enum {
    /* Lists come whole: some 10 000 claims. */
    WP_REVIEW_BYTES_MAX = 32 << 20,
};

/* The answer to a request's body, for the caller to free; its length in len. An
 * object that cannot be converted makes the answer a failure with the reason,
 * for all of them. NULL and err: the body is no ConversionReview of v1 with a
 * request, is longer than that, or memory lacks. */
WP_MUST_CHECK char *wp_review_answer(struct wp_str body, size_t *len,
                                     struct wp_err *err);

#endif
