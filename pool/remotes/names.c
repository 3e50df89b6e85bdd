#include "pool/remotes/names.h"

#include <string.h>

#include "pool/limits.h"

static bool
is_word_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_';
}

bool
wp_bound_name_is_env(struct wp_str name)
{
    if (name.len == 0 || name.len > WP_BOUND_NAME_MAX ||
        (name.ptr[0] >= '0' && name.ptr[0] <= '9')) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        if (!is_word_char(name.ptr[i])) {
            return false;
        }
    }
    return true;
}

bool
wp_bound_name_is_secret(struct wp_str name)
{
    if (name.len == 0 || name.len > WP_BOUND_NAME_MAX || name.ptr[0] == '.' ||
        name.ptr[0] == '-') {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        if (!is_word_char(name.ptr[i]) && name.ptr[i] != '.' &&
            name.ptr[i] != '-') {
            return false;
        }
    }
    return true;
}

bool
wp_bound_name_is_volume(struct wp_str name)
{
    return name.len <= WP_VOLUME_NAME_MAX && wp_bound_name_is_secret(name);
}

bool
wp_bound_name_is_path(struct wp_str path)
{
    size_t at = 0;

    if (path.len == 0 || memchr(path.ptr, '\0', path.len) != NULL) {
        return false;
    }
    while (at <= path.len) {
        const char *part = path.ptr + at;
        const char *slash = memchr(part, '/', path.len - at);
        size_t len = slash != NULL ? (size_t)(slash - part) : path.len - at;

        if (len == 0 || len > WP_BOUND_COMPONENT_MAX ||
            (len == 1 && part[0] == '.') ||
            (len == 2 && part[0] == '.' && part[1] == '.')) {
            return false;
        }
        at += len + 1;
    }
    return true;
}
