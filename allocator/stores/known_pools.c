#include "allocator/stores/known_pools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/base/file.h"

static bool
parse_line(struct wp_str line, struct wp_known_pool *pool)
{
    const char *slash = line.len > 0 ? memchr(line.ptr, '/', line.len) : NULL;
    struct wp_str ns;
    struct wp_str name;

    if (slash == NULL) {
        return false;
    }
    ns = (struct wp_str){line.ptr, (size_t)(slash - line.ptr)};
    name = (struct wp_str){slash + 1, line.len - ns.len - 1};
    return wp_str_is_dns_name(ns, WP_NAMESPACE_MAX) &&
           wp_str_is_dns_name(name, WP_POOL_NAME_MAX) &&
           wp_str_copy(ns, pool->pool_namespace, sizeof pool->pool_namespace) &&
           wp_str_copy(name, pool->pool, sizeof pool->pool);
}

static bool
is_known(const struct wp_known_pool *pools, uint32_t n,
         const struct wp_known_pool *pool)
{
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(pools[i].pool, pool->pool) == 0 &&
            strcmp(pools[i].pool_namespace, pool->pool_namespace) == 0) {
            return true;
        }
    }
    return false;
}

bool
wp_known_pools_parse(struct wp_str text, struct wp_known_pool *pools,
                     uint32_t max, uint32_t *n)
{
    *n = 0;
    while (text.len > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        struct wp_str line = {text.ptr, end != NULL ? (size_t)(end - text.ptr)
                                                    : text.len};
        struct wp_known_pool pool;

        if (!parse_line(line, &pool)) {
            return false;
        }
        if (!is_known(pools, *n, &pool)) {
            if (*n == max) {
                return false;
            }
            pools[(*n)++] = pool;
        }
        text.ptr += line.len + (end != NULL ? 1 : 0);
        text.len -= line.len + (end != NULL ? 1 : 0);
    }
    return true;
}

enum wp_status
wp_known_pools_read(const char *path, struct wp_known_pool *pools, uint32_t max,
                    uint32_t *n, struct wp_err *err)
{
    char *text = malloc(WP_KNOWN_POOLS_FILE_MAX);
    ssize_t len;
    bool ok;

    *n = 0;
    if (text == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    len = wp_path_read(path, 0, text, WP_KNOWN_POOLS_FILE_MAX, NULL);
    if (len < 0) {
        enum wp_status status =
            errno == ENOENT ? WP_OK
                            : wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                                         "cannot read '%.160s'", path);

        free(text);
        return status;
    }
    ok =
        len < WP_KNOWN_POOLS_FILE_MAX &&
        wp_known_pools_parse((struct wp_str){text, (size_t)len}, pools, max, n);
    free(text);
    return ok ? WP_OK
              : wp_err_set(err, WP_FAILED_PRECONDITION,
                           "'%.160s': expected NAMESPACE/POOL on each line",
                           path);
}

enum wp_status
wp_known_pools_write(const char *path, const struct wp_known_pool *pools,
                     uint32_t n, struct wp_err *err)
{
    char part[4096];
    FILE *file;
    bool ok = true;

    (void)snprintf(part, sizeof part, "%.4000s.%d", path, (int)getpid());
    file = fopen(part, "we");
    if (file == NULL) {
        return wp_err_sys(err, WP_FAILED_PRECONDITION, errno,
                          "cannot make '%.160s'", part);
    }
    for (uint32_t i = 0; i < n; i++) {
        ok = fprintf(file, "%s/%s\n", pools[i].pool_namespace, pools[i].pool) >
                 0 &&
             ok;
    }
    ok = fflush(file) == 0 && fsync(fileno(file)) == 0 && ok;
    ok = fclose(file) == 0 && ok;
    if (!ok || rename(part, path) != 0) {
        (void)wp_err_sys(err, WP_UNAVAILABLE, errno, "cannot write '%.160s'",
                         path);
        (void)unlink(part);
        return WP_UNAVAILABLE;
    }
    return WP_OK;
}
