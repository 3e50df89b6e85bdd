#include "allocator/conf/redis_url.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A text that grows in a fixed buffer, and is cut at its end. */
struct writer {
    char *out;
    size_t len;
};

static void WP_PRINTF(2, 3) put(struct writer *w, const char *fmt, ...)
{
    size_t room = WP_REDIS_URL_TEXT_MAX - w->len;
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(w->out + w->len, room, fmt, args);
    va_end(args);
    w->len += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

static bool
is_plain(char c)
{
    char lower = (char)(c | 0x20);

    return (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'z') ||
           c == '.' || c == '-' || c == '_';
}

/* Every byte that means something in a URL, or is not ASCII, as %XX. */
static void
put_encoded(struct writer *w, const char *text, const char *more)
{
    for (; *text != '\0'; text++) {
        if (is_plain(*text) || strchr(more, *text) != NULL) {
            put(w, "%c", *text);
        } else {
            put(w, "%%%02X", (unsigned char)*text);
        }
    }
}

static void
put_server(struct writer *w, const struct wp_redis_server *server)
{
    bool ipv6 = strchr(server->host, ':') != NULL;

    put(w, ipv6 ? "[%s]:%u" : "%s:%u", server->host, server->port);
}

static void
put_unix(struct writer *w, const struct wp_redis_url *url)
{
    put(w, "unix://");
    put_encoded(w, url->server.path, "/");
    put(w, "?db=%d", url->db);
    if (url->user[0] != '\0') {
        put(w, "&user=");
        put_encoded(w, url->user, "");
    }
    if (url->password[0] != '\0') {
        put(w, "&password=***");
    }
}

const char *
wp_redis_url_text(const struct wp_redis_url *url,
                  /* Filled. NOLINTNEXTLINE(readability-non-const-parameter) */
                  char out[WP_REDIS_URL_TEXT_MAX])
{
    static const char *const schemes[] = {
        [WP_REDIS_SINGLE] = "://",
        [WP_REDIS_SENTINEL] = "+sentinel://",
        [WP_REDIS_CLUSTER] = "+cluster://",
    };
    struct writer w = {.out = out};

    if (url->server.path[0] != '\0') {
        put_unix(&w, url);
        return out;
    }
    put(&w, "%s%s", url->tls ? "rediss" : "redis", schemes[url->kind]);
    put_encoded(&w, url->user, "");
    if (url->password[0] != '\0') {
        put(&w, ":***");
    }
    if (url->user[0] != '\0' || url->password[0] != '\0') {
        put(&w, "@");
    }
    put_server(&w, &url->server);
    for (uint32_t i = 1; i < url->n_seeds; i++) {
        put(&w, ",");
        put_server(&w, &url->seeds[i]);
    }
    if (url->kind == WP_REDIS_SENTINEL) {
        put(&w, "/");
        put_encoded(&w, url->master, "");
    }
    if (url->kind != WP_REDIS_CLUSTER) {
        put(&w, "/%d", url->db);
    }
    if (url->sentinel_password[0] != '\0') {
        put(&w, "?sentinel_password=***");
    }
    if (url->sentinel_user[0] != '\0') {
        put(&w, url->sentinel_password[0] != '\0' ? "&" : "?");
        put(&w, "sentinel_user=");
        put_encoded(&w, url->sentinel_user, "");
    }
    return out;
}
