/* k8s/api/url.h - paths with queries, percent-encoded, of bounded length.
 *
 * Begin, add segments, then parameters, end. What does not fit, or cannot be a
 * segment, is found out at the end: nothing is ever cut. Any thread. */
#ifndef WP_K8S_API_URL_H
#define WP_K8S_API_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/str.h"

struct wp_url {
    char *out;
    size_t cap;
    size_t len;
    bool has_query;
    bool bad; /* It did not fit, or a segment was none. */
};

/* out is the caller's and is kept terminated. cap > 0. */
void wp_url_begin(struct wp_url *url, char *out, size_t cap);
/* "/segment". An empty one, "." and ".." would change what the path means and
 * spoil the whole. */
void wp_url_segment(struct wp_url *url, struct wp_str segment);
/* "?key=value" or "&key=value". key is a constant that needs no encoding. */
void wp_url_param(struct wp_url *url, const char *key, struct wp_str value);
void wp_url_param_u64(struct wp_url *url, const char *key, uint64_t value);
/* False, and out is empty, when something was wrong on the way. */
WP_MUST_CHECK bool wp_url_end(struct wp_url *url);

#endif
