#include "k8s/api/url.h"

#include <inttypes.h>
#include <stdio.h>

#include "pool/base/assert.h"

/* What RFC 3986 leaves as it is everywhere. */
static bool
is_unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' ||
           c == '~';
}

static void
append_raw(struct wp_url *url, const char *bytes, size_t len)
{
    if (url->bad || len >= url->cap - url->len) {
        url->bad = true;
        return;
    }
    memcpy(url->out + url->len, bytes, len);
    url->len += len;
    url->out[url->len] = '\0';
}

static void
append_encoded(struct wp_url *url, struct wp_str text)
{
    static const char digits[] = "0123456789ABCDEF";

    for (size_t i = 0; i < text.len && !url->bad; i++) {
        unsigned char c = (unsigned char)text.ptr[i];

        if (is_unreserved(text.ptr[i])) {
            append_raw(url, &text.ptr[i], 1);
        } else {
            char escape[] = {'%', digits[c >> 4], digits[c & 15]};

            append_raw(url, escape, sizeof escape);
        }
    }
}

void
wp_url_begin(struct wp_url *url, char *out, size_t cap)
{
    WP_ASSERT(cap > 0);
    *url = (struct wp_url){.out = out, .cap = cap};
    out[0] = '\0';
}

void
wp_url_segment(struct wp_url *url, struct wp_str segment)
{
    WP_ASSERT(!url->has_query);
    if (segment.len == 0 || wp_str_is(segment, ".") ||
        wp_str_is(segment, "..")) {
        url->bad = true;
        return;
    }
    append_raw(url, "/", 1);
    append_encoded(url, segment);
}

void
wp_url_param(struct wp_url *url, const char *key, struct wp_str value)
{
    append_raw(url, url->has_query ? "&" : "?", 1);
    url->has_query = true;
    append_raw(url, key, strlen(key));
    append_raw(url, "=", 1);
    append_encoded(url, value);
}

void
wp_url_param_u64(struct wp_url *url, const char *key, uint64_t value)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, value);

    wp_url_param(url, key, (struct wp_str){digits, (size_t)len});
}

bool
wp_url_end(struct wp_url *url)
{
    if (url->bad) {
        url->out[0] = '\0';
    }
    return !url->bad;
}
