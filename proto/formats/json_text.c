#include "proto/formats/json_text.h"

#include <stdlib.h>
#include <string.h>

/* Up to three bytes for one. */
static json_t *
mend(const char *data, size_t len)
{
    static const char replacement[3] = {'\xEF', '\xBF', '\xBD'};
    char *out = malloc(3 * len + 1);
    size_t used = 0;
    json_t *text;

    if (out == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < len;) {
        size_t n = (unsigned char)data[i] < 0x80
                       ? 1
                       : wp_str_char_len((struct wp_str){data + i, len - i});

        if (n == 0) {
            memcpy(out + used, replacement, sizeof(replacement));
            used += sizeof(replacement);
            i++;
        } else {
            memcpy(out + used, data + i, n);
            used += n;
            i += n;
        }
    }
    text = json_stringn_nocheck(out, used);
    free(out);
    return text;
}

json_t *
wp_json_from_str(struct wp_str bytes)
{
    json_t *text =
        bytes.len > 0 ? json_stringn(bytes.ptr, bytes.len) : json_string("");

    return text != NULL ? text : mend(bytes.ptr, bytes.len);
}

json_t *
wp_json_from_text(const char *text)
{
    return wp_json_from_str(wp_str_from(text));
}
