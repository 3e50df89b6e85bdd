/* Any bytes as the setting redis_url: refused with a message, or something that
 * can be connected to and that is the same again when it was printed and read
 * (its passwords apart). */
#include <stdlib.h>
#include <string.h>

#include "allocator/conf/redis_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(bool truth)
{
    if (!truth) {
        abort();
    }
}

static bool
same(const struct wp_redis_url *a, const struct wp_redis_url *b)
{
    return a->kind == b->kind && a->tls == b->tls && a->n_seeds == b->n_seeds &&
           a->db == b->db && memcmp(a->seeds, b->seeds, sizeof a->seeds) == 0 &&
           memcmp(&a->server, &b->server, sizeof a->server) == 0 &&
           strcmp(a->master, b->master) == 0 && strcmp(a->user, b->user) == 0 &&
           strcmp(a->sentinel_user, b->sentinel_user) == 0;
}

static void
check_server(const struct wp_redis_server *server)
{
    bool tcp = server->host[0] != '\0' && server->port != 0;
    bool local = server->path[0] == '/';

    check(tcp != local);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wp_redis_url url;
    struct wp_redis_url again;
    struct wp_err err = {.msg = ""};
    struct wp_str text = {(const char *)data, size};
    char printed[WP_REDIS_URL_TEXT_MAX];

    if (wp_redis_url_parse(text, &url, &err) != WP_OK) {
        check(err.msg[0] != '\0');
        return 0;
    }
    check_server(&url.server);
    check(url.db >= 0 && url.db <= WP_REDIS_DB_MAX);
    check((url.kind == WP_REDIS_SINGLE) == (url.n_seeds == 0));
    check((url.kind == WP_REDIS_SENTINEL) == (url.master[0] != '\0'));
    for (uint32_t i = 0; i < url.n_seeds; i++) {
        check_server(&url.seeds[i]);
    }
    wp_redis_url_text(&url, printed);
    if (strlen(printed) < sizeof printed - 1) {
        check(wp_redis_url_parse(wp_str_from(printed), &again, &err) == WP_OK);
        check(same(&url, &again));
    }
    return 0;
}
