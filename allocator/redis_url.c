#include "allocator/redis_url.h"

#include <string.h>

static enum wp_status
refuse(struct wp_err *err, const char *expected)
{
    return wp_err_set(err, WP_INVALID_ARGUMENT, "expected %s", expected);
}

static const char *
find(struct wp_str text, char c)
{
    return text.len > 0 ? memchr(text.ptr, c, text.len) : NULL;
}

/* Cuts text at c: what is before goes to *head, what is behind stays. False,
 * and nothing is changed, when there is none. */
static bool
cut(struct wp_str *text, char c, struct wp_str *head)
{
    const char *at = find(*text, c);

    if (at == NULL) {
        return false;
    }
    *head = (struct wp_str){text->ptr, (size_t)(at - text->ptr)};
    *text = (struct wp_str){at + 1, text->len - head->len - 1};
    return true;
}

static int
hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Replaces %XX. False when a '%' has no two digits behind it, for NUL, and for
 * what does not fit. */
static bool
decode(struct wp_str text, char out[WP_REDIS_LOGIN_MAX + 1])
{
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];

        if (c == '%') {
            int high = i + 2 < text.len ? hex_digit(text.ptr[i + 1]) : -1;
            int low = i + 2 < text.len ? hex_digit(text.ptr[i + 2]) : -1;

            if (high < 0 || low < 0) {
                return false;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (c == '\0' || n == WP_REDIS_LOGIN_MAX) {
            return false;
        }
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

static enum wp_status
parse_login(struct wp_str login, struct wp_redis_url *out, struct wp_err *err)
{
    struct wp_str user = {login.ptr, 0};

    if (!cut(&login, ':', &user)) {
        return refuse(err, "USER:PASSWORD or :PASSWORD before the '@'");
    }
    if (!decode(user, out->user) || !decode(login, out->password)) {
        return refuse(err, "user and password of at most 255 bytes, with %XX "
                           "only for two hexadecimal digits");
    }
    return WP_OK;
}

static enum wp_status
parse_number(struct wp_str text, uint64_t max, const char *what, int *out,
             struct wp_err *err)
{
    uint64_t number;

    if (!wp_str_to_u64(text, &number) || number > max) {
        return refuse(err, what);
    }
    *out = (int)number;
    return WP_OK;
}

static enum wp_status
parse_host(struct wp_str place, struct wp_redis_url *out, struct wp_err *err)
{
    struct wp_str host = place;
    struct wp_str port = {place.ptr, 0};
    bool has_port;
    int number = WP_REDIS_PORT_DEFAULT;
    enum wp_status status = WP_OK;

    if (place.len > 0 && place.ptr[0] == '[') {
        place = (struct wp_str){place.ptr + 1, place.len - 1};
        if (!cut(&place, ']', &host)) {
            return refuse(err, "']' after '['");
        }
        if (place.len > 0 && place.ptr[0] != ':') {
            return refuse(err, "':' and a port after ']'");
        }
        has_port = place.len > 0;
        port = (struct wp_str){place.ptr + (has_port ? 1 : 0),
                               place.len - (has_port ? 1 : 0)};
    } else {
        port = place;
        has_port = cut(&port, ':', &host);
    }
    if (has_port) {
        status = parse_number(port, UINT16_MAX, "a port from 1 to 65535",
                              &number, err);
    }
    if (status == WP_OK && number == 0) {
        return refuse(err, "a port from 1 to 65535");
    }
    if (status == WP_OK &&
        (host.len == 0 || find(host, ' ') != NULL ||
         !wp_str_copy(host, out->server.host, sizeof out->server.host))) {
        return refuse(err, "a host of 1 to 255 bytes");
    }
    out->server.port = (uint16_t)number;
    return status;
}

static enum wp_status
parse_tcp(struct wp_str rest, struct wp_redis_url *out, struct wp_err *err)
{
    struct wp_str login = {rest.ptr, 0};
    struct wp_str place = rest;
    enum wp_status status = WP_OK;

    /* The last '@': a password may hold one. */
    for (struct wp_str more = rest, head; cut(&more, '@', &head);) {
        login = (struct wp_str){rest.ptr, (size_t)(more.ptr - rest.ptr) - 1};
        place = more;
    }
    if (place.ptr != rest.ptr) {
        status = parse_login(login, out, err);
    }
    rest = place;
    if (status == WP_OK && cut(&rest, '/', &place) && rest.len > 0) {
        status = parse_number(rest, WP_REDIS_DB_MAX,
                              "a database number after '/'", &out->db, err);
    }
    return status == WP_OK ? parse_host(place, out, err) : status;
}

static enum wp_status
parse_unix(struct wp_str path, struct wp_redis_url *out, struct wp_err *err)
{
    if (path.len == 0 || path.ptr[0] != '/' ||
        !wp_str_copy(path, out->server.path, sizeof out->server.path)) {
        return refuse(err, "unix:/path with at most 107 bytes of path");
    }
    return WP_OK;
}

enum wp_status
wp_redis_url_parse(struct wp_str text, struct wp_redis_url *out,
                   struct wp_err *err)
{
    const struct wp_str unix_scheme = WP_STR("unix:");
    const struct wp_str tcp_scheme = WP_STR("redis://");
    enum wp_status status;

    memset(out, 0, sizeof *out);
    if (!wp_str_is_printable(text)) {
        status = refuse(err, "printable text");
    } else if (wp_str_starts_with(text, tcp_scheme)) {
        status = parse_tcp((struct wp_str){text.ptr + tcp_scheme.len,
                                           text.len - tcp_scheme.len},
                           out, err);
    } else if (wp_str_starts_with(text, unix_scheme)) {
        status = parse_unix((struct wp_str){text.ptr + unix_scheme.len,
                                            text.len - unix_scheme.len},
                            out, err);
    } else if (wp_str_starts_with(text, WP_STR("rediss://"))) {
        status = refuse(err, "redis://: TLS to Redis is not built in; let "
                             "a tunnel speak it");
    } else {
        status = refuse(err, "redis://[[USER]:PASSWORD@]HOST[:PORT][/DB] or "
                             "unix:/path");
    }
    if (status != WP_OK) {
        explicit_bzero(out, sizeof *out);
    }
    return status;
}
