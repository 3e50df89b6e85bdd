#include "pool/remotes/remote.h"

#include <stdio.h>
#include <string.h>

#include "pool/egress/reach.h"

static bool
is_path_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || (c != '\0' && strchr("._~+-/", c) != NULL);
}

/* Parts that are names. The first dot of one is allowed: ".github" is a
 * repository. */
static bool
is_path(struct wp_str path)
{
    size_t begun = 0;

    for (size_t i = 0; i <= path.len; i++) {
        if (i < path.len && !is_path_char(path.ptr[i])) {
            return false;
        }
        if (i == path.len || path.ptr[i] == '/') {
            size_t len = i - begun;

            if (len == 0 ||
                (len <= 2 && memcmp(path.ptr + begun, "..", len) == 0)) {
                return false;
            }
            begun = i + 1;
        }
    }
    return true;
}

static bool
take_prefix(struct wp_str *text, struct wp_str prefix)
{
    if (!wp_str_starts_with(*text, prefix)) {
        return false;
    }
    text->ptr += prefix.len;
    text->len -= prefix.len;
    return true;
}

bool
wp_remote_parse(struct wp_str url, struct wp_remote *out, const char **why)
{
    struct wp_str authority = url;
    const char *slash;
    struct wp_str path;

    *out = (struct wp_remote){.tls = false};
    if (url.len == 0 || url.len > WP_REMOTE_URL_MAX) {
        *why = "a URL of 1 to 240 bytes expected";
        return false;
    }
    out->tls = take_prefix(&authority, WP_STR("https://"));
    if (!out->tls && !take_prefix(&authority, WP_STR("http://"))) {
        *why = "a URL that begins with https:// expected";
        return false;
    }
    slash = memchr(authority.ptr, '/', authority.len);
    if (slash == NULL) {
        *why = "https://HOST/PATH expected";
        return false;
    }
    path.ptr = slash + 1;
    path.len = authority.len - (size_t)(slash - authority.ptr) - 1;
    authority.len = (size_t)(slash - authority.ptr);
    if (memchr(authority.ptr, '@', authority.len) != NULL) {
        *why = "a URL without a user or password expected";
        return false;
    }
    while (path.len > 0 && path.ptr[path.len - 1] == '/') {
        path.len--;
    }
    if (!wp_host_port_parse(
            authority, out->tls ? WP_REMOTE_TLS_PORT : WP_REMOTE_PLAIN_PORT,
            &out->host, &out->port, why)) {
        return false;
    }
    if (!is_path(path) || !wp_str_copy(path, out->path, sizeof out->path)) {
        *why = "a path of letters, digits and ._~+- expected, without empty "
               "parts, '.' or '..'";
        return false;
    }
    return true;
}

bool
wp_remote_url(const struct wp_remote *remote, char out[WP_REMOTE_URL_MAX + 1])
{
    bool bracketed = strchr(remote->host.name, ':') != NULL;
    bool usual = remote->port ==
                 (remote->tls ? WP_REMOTE_TLS_PORT : WP_REMOTE_PLAIN_PORT);
    char port[8] = "";
    int n;

    if (!usual) {
        (void)snprintf(port, sizeof port, ":%u", remote->port);
    }
    n = snprintf(out, WP_REMOTE_URL_MAX + 1, "%s://%s%s%s%s/%s",
                 remote->tls ? "https" : "http", bracketed ? "[" : "",
                 remote->host.name, bracketed ? "]" : "", port, remote->path);
    /* Less than none is too many, too. */
    return (size_t)n <= WP_REMOTE_URL_MAX;
}

bool
wp_remote_is_safe(const struct wp_remote *remote)
{
    return remote->tls ||
           (remote->host.is_address &&
            wp_reach_of((const struct sockaddr *)&remote->host.address) ==
                WP_REACH_LOOPBACK);
}

/* What git-check-ref-format refuses, and all that a shell or a file of settings
 * would read as more than a name. */
static bool
is_ref_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._/+-=@#%", c) != NULL);
}

bool
wp_git_ref_is_valid(struct wp_str ref)
{
    size_t begun = 0;

    if (ref.len == 0 || ref.len > WP_GIT_REF_MAX || ref.ptr[0] == '-' ||
        (ref.len == 1 && ref.ptr[0] == '@')) {
        return false;
    }
    for (size_t i = 0; i <= ref.len; i++) {
        if (i < ref.len && !is_ref_char(ref.ptr[i])) {
            return false;
        }
        if (i > 0 && i < ref.len && ref.ptr[i] == '.' &&
            ref.ptr[i - 1] == '.') {
            return false;
        }
        if (i == ref.len || ref.ptr[i] == '/') {
            struct wp_str part = {ref.ptr + begun, i - begun};

            if (part.len == 0 || part.ptr[0] == '.' ||
                part.ptr[part.len - 1] == '.' ||
                (part.len >= 5 &&
                 memcmp(part.ptr + part.len - 5, ".lock", 5) == 0)) {
                return false;
            }
            begun = i + 1;
        }
    }
    return true;
}
