/* k8s/objects/json.h - small helpers on jansson's values. */
#ifndef WP_K8S_OBJECTS_JSON_H
#define WP_K8S_OBJECTS_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "pool/base/compiler.h"
#include "pool/base/status.h"
#include "pool/base/str.h"

/* The value under these keys, one below the other; the last argument is NULL.
 * Borrowed; NULL when one of them is missing or no object. */
json_t *wp_json_at(const json_t *json, const char *key, ...)
    __attribute__((sentinel));
/* The text there; "" when there is none, or it is no text. */
const char *wp_json_text(const json_t *json, const char *key, ...)
    __attribute__((sentinel));

/* The first object of the list with that text under key. Borrowed; NULL when
 * there is none, or list is no list. */
json_t *wp_json_find(const json_t *list, const char *key, const char *text);

/* Ends the process: a controller that cannot build a body of a few KiB cannot
 * go on. */
WP_NORETURN void wp_json_no_memory(void);
/* A copy, whole; the process ends when memory lacks. jansson's own json_copy
 * leaves out members then. The deep one shares nothing with json, the other its
 * members. NULL for NULL. New references. */
json_t *wp_json_copy(const json_t *json);
json_t *wp_json_deep_copy(const json_t *json);
/* Sets a text, a number... under key. value is taken; NULL means that memory
 * lacked when it was made, as does no room here. Texts are UTF-8. Returns json,
 * for chains. */
json_t *wp_json_set(json_t *json, const char *key, json_t *value);
json_t *wp_json_set_text(json_t *json, const char *key, const char *value);
/* The object under key, made if there is none. Borrowed. */
json_t *wp_json_object_at(json_t *json, const char *key);
/* A text value or JSON null when text is NULL, for merge patches. */
json_t *wp_json_text_or_null(const char *text);

/* Words for people, which may have been cut within a character: then each byte
 * beyond ASCII becomes '?'. A new reference. */
json_t *wp_json_words(const char *words);

/* RFC 3339 with any fraction and offset, as milliseconds since 1970. False when
 * it is none. */
WP_MUST_CHECK bool wp_json_time(const char *text, int64_t *wall_ms);
/* What is written: metav1.Time has no fraction, MicroTime six digits of it, and
 * RFC3339Nano nine; wp_time_format_utc has them all. */

/* FNV-1a, 64 bits, of the canonical value: keys sorted, numbers by value, what
 * says nothing left out: nulls, empty objects, arrays and texts, and false
 * where it means the same as no word. See k8s/objects/json_hash.c for what that
 * is. */
uint64_t wp_json_hash(const json_t *json);

#endif
