/* runtime/http/json_text.h - bytes of any kind as JSON strings. */
#ifndef WP_RUNTIME_HTTP_JSON_TEXT_H
#define WP_RUNTIME_HTTP_JSON_TEXT_H

#include <jansson.h>
#include <stddef.h>

#include <event2/buffer.h>

/* A new JSON string; each byte that is no part of well-formed UTF-8 becomes
 * U+FFFD. A NUL stays. NULL on no memory. Any thread. */
json_t *wp_json_text(const char *data, size_t len);
/* The same for a buffer's content, which is left as it is. */
json_t *wp_json_text_buffer(struct evbuffer *buffer);

#endif
