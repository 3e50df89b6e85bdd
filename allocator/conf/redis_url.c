#include "allocator/conf/redis_url.h"

#include <arpa/inet.h>
#include <string.h>

static enum wp_status
refuse(struct wp_err *err, const char *expected)
{
    return wp_err_set(err, WP_INVALID_ARGUMENT, "expected %s", expected);
}

static struct wp_str
slice(const char *from, const char *to)
{
    return (struct wp_str){from, (size_t)(to - from)};
}

static struct wp_str
skip(struct wp_str text, size_t n)
{
    return (struct wp_str){text.ptr + n, text.len - n};
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
decode(struct wp_str text, char *out, size_t cap)
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
        if (c == '\0' || n + 1 == cap) {
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
    struct wp_str user;
    bool has_password = wp_str_cut(&login, ':', &user);

    if (has_password ? login.len == 0 : user.len == 0) {
        return refuse(err, "USER, USER:PASSWORD or :PASSWORD before the '@'");
    }
    if (!decode(user, out->user, sizeof out->user) ||
        !decode(login, out->password, sizeof out->password)) {
        return refuse(err, "user and password of at most 255 bytes, with %XX "
                           "only for two hexadecimal digits");
    }
    return WP_OK;
}

static enum wp_status
parse_db(struct wp_str text, int *out, struct wp_err *err)
{
    uint64_t number;

    if (!wp_str_to_u64(text, &number) || number > WP_REDIS_DB_MAX) {
        return refuse(err, "a database number from 0 to 65535");
    }
    *out = (int)number;
    return WP_OK;
}

static enum wp_status
parse_port(struct wp_str text, uint16_t *out, struct wp_err *err)
{
    uint64_t number;

    if (!wp_str_to_u64(text, &number) || number == 0 || number > UINT16_MAX) {
        return refuse(err, "a port from 1 to 65535");
    }
    *out = (uint16_t)number;
    return WP_OK;
}

static bool
is_host_name(struct wp_str host)
{
    for (size_t i = 0; i < host.len; i++) {
        char c = host.ptr[i];
        char lower = (char)(c | 0x20);

        if (!(c >= '0' && c <= '9') && !(lower >= 'a' && lower <= 'z') &&
            c != '.' && c != '-' && c != '_') {
            return false;
        }
    }
    return host.len > 0;
}

/* With or without a zone ("fe80::1%eth0"). */
static bool
is_ipv6(struct wp_str host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr ignored;
    struct wp_str zone = host;
    struct wp_str address;

    return (!wp_str_cut(&zone, '%', &address) || is_host_name(zone)) &&
           wp_str_copy(address, text, sizeof text) &&
           inet_pton(AF_INET6, text, &ignored) == 1;
}

/* HOST, HOST:PORT, [IPV6], [IPV6]:PORT */
static enum wp_status
parse_server(struct wp_str place, uint16_t default_port,
             struct wp_redis_server *out, struct wp_err *err)
{
    struct wp_str host;
    bool has_port;

    memset(out, 0, sizeof *out);
    out->port = default_port;
    if (place.len > 0 && place.ptr[0] == '[') {
        place = skip(place, 1);
        if (!wp_str_cut(&place, ']', &host) || !is_ipv6(host)) {
            return refuse(err, "an IPv6 address in '[' and ']' as host");
        }
        has_port = place.len > 0;
        if (has_port && place.ptr[0] != ':') {
            return refuse(err, "':' and a port, or nothing, behind ']'");
        }
        place = skip(place, has_port ? 1 : 0);
    } else {
        has_port = wp_str_cut(&place, ':', &host);
        if (!is_host_name(host)) {
            return refuse(err, "a host of 1 to 255 letters, digits, '.', '-', "
                               "'_', or an IPv6 address in brackets");
        }
    }
    if (!wp_str_copy(host, out->host, sizeof out->host)) {
        return refuse(err, "a host of 1 to 255 bytes");
    }
    return has_port ? parse_port(place, &out->port, err) : WP_OK;
}

static enum wp_status
parse_seeds(struct wp_str list, uint16_t default_port, struct wp_redis_url *out,
            struct wp_err *err)
{
    bool more = true;

    while (more) {
        struct wp_str place;
        enum wp_status status;

        more = wp_str_cut(&list, ',', &place);
        if (out->n_seeds == WP_REDIS_SEEDS_MAX) {
            return refuse(err, "at most 16 hosts");
        }
        status =
            parse_server(place, default_port, &out->seeds[out->n_seeds++], err);
        if (status != WP_OK) {
            return status;
        }
    }
    out->server = out->seeds[0];
    return WP_OK;
}

/* One parameter that a scheme knows; a text, or the number of the database. */
struct parameter {
    const char *name;
    char *text; /* WP_REDIS_LOGIN_MAX + 1 bytes. NULL: it is db. */
    bool given;
};

static enum wp_status
parse_value(struct wp_str value, struct parameter *to, struct wp_redis_url *out,
            struct wp_err *err)
{
    if (to->given) {
        return refuse(err, "every parameter behind '?' once");
    }
    to->given = true;
    if (to->text == NULL) {
        return parse_db(value, &out->db, err);
    }
    if (value.len == 0 || !decode(value, to->text, WP_REDIS_LOGIN_MAX + 1)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "expected '%s' of 1 to 255 bytes, with %%XX only for "
                          "two hexadecimal digits",
                          to->name);
    }
    return WP_OK;
}

static enum wp_status
parse_query(struct wp_str query, struct parameter *known, size_t n,
            const char *expected, struct wp_redis_url *out, struct wp_err *err)
{
    bool more = true;

    while (more) {
        struct wp_str value;
        struct wp_str name;
        enum wp_status status = WP_INVALID_ARGUMENT;
        size_t i = 0;

        more = wp_str_cut(&query, '&', &value);
        if (!wp_str_cut(&value, '=', &name)) {
            return refuse(err, expected);
        }
        while (i < n && !wp_str_is(name, known[i].name)) {
            i++;
        }
        if (i == n) {
            return refuse(err, expected);
        }
        status = parse_value(value, &known[i], out, err);
        if (status != WP_OK) {
            return status;
        }
    }
    return WP_OK;
}

/* Cuts "[LOGIN@]" off. The last '@' ends it: a password may hold one. */
static enum wp_status
take_login(struct wp_str *rest, struct wp_redis_url *out, struct wp_err *err)
{
    const char *at = rest->len > 0 ? memrchr(rest->ptr, '@', rest->len) : NULL;
    struct wp_str login;

    if (at == NULL) {
        return WP_OK;
    }
    login = slice(rest->ptr, at);
    *rest = skip(*rest, login.len + 1);
    return parse_login(login, out, err);
}

static enum wp_status
parse_single(struct wp_str rest, struct wp_redis_url *out, struct wp_err *err)
{
    struct wp_str place;
    struct wp_str head;
    enum wp_status status;

    if (wp_str_cut(&(struct wp_str){rest.ptr, rest.len}, '?', &head)) {
        return refuse(err,
                      "no '?' in redis:// and rediss://; %3F stands for one");
    }
    status = take_login(&rest, out, err);
    if (status == WP_OK && wp_str_cut(&rest, '/', &place) && rest.len > 0) {
        status = parse_db(rest, &out->db, err);
    }
    if (status != WP_OK) {
        return status;
    }
    return parse_server(place, WP_REDIS_PORT_DEFAULT, &out->server, err);
}

static enum wp_status
parse_unix(struct wp_str rest, struct wp_redis_url *out, struct wp_err *err)
{
    struct parameter known[] = {
        {.name = "db"},
        {.name = "user", .text = out->user},
        {.name = "password", .text = out->password},
    };
    struct wp_str path;
    bool has_query = wp_str_cut(&rest, '?', &path);
    enum wp_status status = WP_OK;

    if (wp_str_starts_with(path, WP_STR("//"))) {
        path = skip(path, 2);
    }
    if (path.len == 0 || path.ptr[0] != '/' ||
        !decode(path, out->server.path, sizeof out->server.path)) {
        return refuse(err, "unix:/path with at most 107 bytes of path");
    }
    if (has_query) {
        status = parse_query(rest, known, WP_ARRAY_LEN(known),
                             "db=N, user=TEXT, password=TEXT, joined by '&', "
                             "behind '?'",
                             out, err);
    }
    return status;
}

static enum wp_status
parse_sentinel(struct wp_str rest, struct wp_redis_url *out, struct wp_err *err)
{
    struct parameter known[] = {
        {.name = "sentinel_user", .text = out->sentinel_user},
        {.name = "sentinel_password", .text = out->sentinel_password},
    };
    struct wp_str query = rest;
    bool has_query = wp_str_cut(&query, '?', &rest);
    struct wp_str hosts;
    struct wp_str master;
    enum wp_status status;

    out->kind = WP_REDIS_SENTINEL;
    status = take_login(&rest, out, err);
    if (status != WP_OK) {
        return status;
    }
    if (!wp_str_cut(&rest, '/', &hosts)) {
        return refuse(err, "'/' and the master's name behind the sentinels");
    }
    if (wp_str_cut(&rest, '/', &master)) {
        status = parse_db(rest, &out->db, err);
    }
    if (status == WP_OK &&
        (master.len == 0 || !decode(master, out->master, sizeof out->master))) {
        return refuse(err, "a master's name of 1 to 63 bytes behind '/'");
    }
    if (status == WP_OK) {
        status = parse_seeds(hosts, WP_SENTINEL_PORT_DEFAULT, out, err);
    }
    if (status == WP_OK && has_query) {
        status = parse_query(query, known, WP_ARRAY_LEN(known),
                             "sentinel_user=TEXT, sentinel_password=TEXT, "
                             "joined by '&', behind '?'",
                             out, err);
    }
    return status;
}

static enum wp_status
parse_cluster(struct wp_str rest, struct wp_redis_url *out, struct wp_err *err)
{
    enum wp_status status;
    struct wp_str hosts;

    out->kind = WP_REDIS_CLUSTER;
    if (wp_str_cut(&(struct wp_str){rest.ptr, rest.len}, '?', &hosts)) {
        return refuse(err, "no '?' in redis+cluster:// and rediss+cluster://; "
                           "%3F stands for one");
    }
    status = take_login(&rest, out, err);
    if (status != WP_OK) {
        return status;
    }
    if (wp_str_cut(&rest, '/', &hosts) && rest.len > 0) {
        return refuse(err, "nothing behind the hosts: a cluster has one "
                           "database");
    }
    return parse_seeds(hosts, WP_REDIS_PORT_DEFAULT, out, err);
}

enum wp_status
wp_redis_url_parse(struct wp_str text, struct wp_redis_url *out,
                   struct wp_err *err)
{
    static const struct {
        const char *prefix;
        bool tls;
        enum wp_status (*parse)(struct wp_str rest, struct wp_redis_url *out,
                                struct wp_err *err);
    } schemes[] = {
        {"redis://", false, parse_single},
        {"rediss://", true, parse_single},
        {"unix:", false, parse_unix},
        {"redis+sentinel://", false, parse_sentinel},
        {"rediss+sentinel://", true, parse_sentinel},
        {"redis+cluster://", false, parse_cluster},
        {"rediss+cluster://", true, parse_cluster},
    };
    enum wp_status status;
    size_t i = 0;

    memset(out, 0, sizeof *out);
    while (i < WP_ARRAY_LEN(schemes) &&
           !wp_str_starts_with(text, wp_str_from(schemes[i].prefix))) {
        i++;
    }
    if (!wp_str_is_printable(text)) {
        status = refuse(err, "printable text");
    } else if (i < WP_ARRAY_LEN(schemes)) {
        out->tls = schemes[i].tls;
        status =
            schemes[i].parse(skip(text, strlen(schemes[i].prefix)), out, err);
    } else {
        status = refuse(err, "redis://HOST, unix:/PATH, "
                             "redis+sentinel://HOST,HOST/MASTER or "
                             "redis+cluster://HOST,HOST, or rediss in place "
                             "of redis for TLS");
    }
    if (status != WP_OK) {
        explicit_bzero(out, sizeof *out);
    }
    return status;
}

static enum wp_status
set_password(char out[WP_REDIS_LOGIN_MAX + 1], struct wp_str password,
             struct wp_err *err)
{
    if (password.len == 0 || password.len > WP_REDIS_LOGIN_MAX ||
        memchr(password.ptr, '\0', password.len) != NULL) {
        return refuse(err, "a password of 1 to 255 bytes without NUL");
    }
    memset(out, 0, WP_REDIS_LOGIN_MAX + 1);
    memcpy(out, password.ptr, password.len);
    return WP_OK;
}

enum wp_status
wp_redis_url_set_password(struct wp_redis_url *url, struct wp_str password,
                          struct wp_err *err)
{
    return set_password(url->password, password, err);
}

enum wp_status
wp_redis_url_set_sentinel_password(struct wp_redis_url *url,
                                   struct wp_str password, struct wp_err *err)
{
    return set_password(url->sentinel_password, password, err);
}

bool
wp_redis_server_eq(const struct wp_redis_server *a,
                   const struct wp_redis_server *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0 &&
           strcmp(a->path, b->path) == 0;
}
