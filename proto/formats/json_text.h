/* proto/formats/json_text.h - bytes of any kind as JSON strings. */
#ifndef WP_PROTO_FORMATS_JSON_TEXT_H
#define WP_PROTO_FORMATS_JSON_TEXT_H

#include <jansson.h>

#include "pool/base/str.h"

/* A new JSON string; each byte that is no part of well-formed UTF-8 becomes
 * U+FFFD. A NUL stays. NULL on no memory. Any thread. */
json_t *wp_json_from_str(struct wp_str bytes);
/* text is terminated. */
json_t *wp_json_from_text(const char *text);

#endif
