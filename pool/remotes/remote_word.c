#include "pool/remotes/remote_word.h"

#include <string.h>

bool
wp_remote_word_parse(const char *word, struct wp_remote_word *out,
                     const char **why)
{
    const char *host = strstr(word, "://");
    const char *path = host != NULL ? strchr(host + 3, '/') : NULL;
    const char *at = path;

    *out = (struct wp_remote_word){.url = {NULL, 0}};
    if (path == NULL) {
        *why = "URL[@REF][:DIR] expected, with a URL as https://HOST/PATH";
        return false;
    }
    at += strcspn(at, "@:");
    out->url = (struct wp_str){word, (size_t)(at - word)};
    if (*at == '@') {
        out->ref = (struct wp_str){at + 1, strcspn(at + 1, ":")};
        at += out->ref.len + 1;
        if (out->ref.len == 0) {
            *why = "a branch, a tag or a commit expected behind '@'";
            return false;
        }
    }
    if (*at == ':') {
        out->dir = wp_str_from(at + 1);
        if (out->dir.len == 0) {
            *why = "a folder expected behind ':'";
            return false;
        }
        if (wp_str_is(out->dir, ".")) {
            out->dir.len = 0;
        }
    }
    return true;
}
