#include "local/manifest/expand.h"

#include <stdlib.h>
#include <string.h>

static const char *
find(const char *const *env, const char *name, size_t len)
{
    const char *value = NULL;

    for (size_t i = 0; env != NULL && env[i] != NULL; i++) {
        if (strncmp(env[i], name, len) == 0 && env[i][len] == '=') {
            value = env[i] + len + 1;
        }
    }
    return value;
}

const char *
wp_expand(struct wp_region *region, const char *text, const char *const *env,
          size_t max)
{
    const char *out = NULL;
    size_t used = 0;
    char *buffer;

    if (strchr(text, '$') == NULL) {
        return text;
    }
    buffer = malloc(max);
    if (buffer == NULL) {
        return NULL;
    }
    while (*text != '\0') {
        const char *piece = text;
        size_t len = 1;
        size_t step = 1;
        const char *close =
            text[0] == '$' && text[1] == '(' ? strchr(text + 2, ')') : NULL;

        if (text[0] == '$' && text[1] == '$') {
            step = 2;
        } else if (close != NULL) {
            const char *value = find(env, text + 2, (size_t)(close - text - 2));

            step = (size_t)(close - text) + 1;
            piece = value != NULL ? value : text;
            len = value != NULL ? strlen(value) : step;
        }
        if (len > max - used) {
            goto done;
        }
        memcpy(buffer + used, piece, len);
        used += len;
        text += step;
    }
    out = wp_region_str(region, (struct wp_str){buffer, used});
done:
    free(buffer);
    return out;
}
