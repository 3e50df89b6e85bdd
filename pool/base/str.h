/* pool/base/str.h - bounded string slices and the checks outside text needs. */
#ifndef WP_BASE_STR_H
#define WP_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pool/base/compiler.h"

/* Borrowed bytes, not necessarily terminated. ptr may be NULL when len is 0. */
struct wp_str {
    const char *ptr;
    size_t len;
};

#define WP_STR(literal) ((struct wp_str){(literal), sizeof(literal) - 1})
/* printf("%.*s", WP_STR_ARG(s)) */
#define WP_STR_ARG(s) (int)(s).len, ((s).ptr != NULL ? (s).ptr : "")

static inline struct wp_str
wp_str_from(const char *text)
{
    return (struct wp_str){text, text != NULL ? strlen(text) : 0};
}

static inline bool
wp_str_eq(struct wp_str a, struct wp_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool
wp_str_is(struct wp_str a, const char *text)
{
    return wp_str_eq(a, wp_str_from(text));
}

bool wp_str_starts_with(struct wp_str s, struct wp_str prefix);
/* Without the blanks around it: spaces, tabs and line ends. */
struct wp_str wp_str_trim(struct wp_str s);
/* Cuts *rest at its first mark: *head is what is before (all, when there is
 * none), *rest what is behind. False when there is none. */
bool wp_str_cut(struct wp_str *rest, char mark, struct wp_str *head);
/* Takes the next word, which blanks end, off *rest. False: there is none. */
bool wp_str_word(struct wp_str *rest, struct wp_str *word);

/* Copies s into out[cap] and terminates it; false (and out empty) when it does
 * not fit or holds a NUL. */
WP_MUST_CHECK bool wp_str_copy(struct wp_str s, char *out, size_t cap);

/* Well-formed UTF-8 (RFC 3629: no overlong forms, no surrogates) without NUL.
 */
WP_MUST_CHECK bool wp_str_is_utf8(struct wp_str s);
/* The same, and no control characters (C0, DEL). */
WP_MUST_CHECK bool wp_str_is_printable(struct wp_str s);
/* Bytes of the well-formed character that s begins with; 0: it begins with
 * none. */
WP_MUST_CHECK size_t wp_str_char_len(struct wp_str s);
/* Copies as many whole characters of s as out[cap] has room for, and terminates
 * it. What wp_str_is_printable does not let through becomes '?', byte by byte:
 * so out may be a text of protobuf or JSON, or stand in a log. Returns out. */
char *wp_str_make_printable(struct wp_str s, char *out, size_t cap);
/* A DNS-1123 subdomain of 1..max_len characters, as Kubernetes names are. */
WP_MUST_CHECK bool wp_str_is_dns_name(struct wp_str s, size_t max_len);

enum {
    WP_STR_SHOWN_MAX = 64, /* With the final NUL. */
};
/* Outside text for a message: its beginning, with "..." if there is more; what
 * is not printable ASCII shows as "?". Returns out. */
char *wp_str_shown(struct wp_str s, char out[WP_STR_SHOWN_MAX]);

/* Whole decimal numbers only: no sign for u64, no space, no overflow. */
WP_MUST_CHECK bool wp_str_to_u64(struct wp_str s, uint64_t *out);
WP_MUST_CHECK bool wp_str_to_i64(struct wp_str s, int64_t *out);

/* Compares in time that depends on len only; for tokens and secrets. */
WP_MUST_CHECK bool wp_bytes_eq_const_time(const void *a, const void *b,
                                          size_t len);

/* Lower-case hexadecimal. out needs 2 * len + 1 bytes. */
void wp_hex_encode(const void *bytes, size_t len, char *out);
/* Exactly 2 * out_len hex digits; false otherwise. */
WP_MUST_CHECK bool wp_hex_decode(struct wp_str hex, void *out, size_t out_len);

#endif
