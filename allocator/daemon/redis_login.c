#include "allocator/daemon/redis_login.h"

#include <string.h>

#include "allocator/daemon/files.h"

static enum wp_status
read_password(const char *setting, const char *path, struct wp_redis_url *url,
              enum wp_status (*set)(struct wp_redis_url *url,
                                    struct wp_str password, struct wp_err *err),
              struct wp_err *err)
{
    char password[WP_REDIS_LOGIN_MAX + 2];
    enum wp_status status;

    if (path[0] == '\0') {
        return WP_OK;
    }
    status =
        wp_daemon_read_secret(setting, path, password, sizeof password, err);
    if (status == WP_OK) {
        status = set(url, wp_str_from(password), err);
        if (status != WP_OK) {
            (void)wp_err_wrap(err, "setting '%s'", setting);
        }
    }
    explicit_bzero(password, sizeof password);
    return status;
}

enum wp_status
wp_daemon_redis_login(const struct wp_conf *conf, struct wp_redis_url *url,
                      struct wp_redis_tls *tls, struct wp_err *err)
{
    enum wp_status status =
        wp_redis_url_parse(wp_str_from(conf->redis_url), url, err);

    if (status != WP_OK) {
        return wp_err_wrap(err, "setting 'redis_url'");
    }
    *tls = (struct wp_redis_tls){.ca = conf->redis_tls_ca,
                                 .cert = conf->redis_tls_cert,
                                 .key = conf->redis_tls_key,
                                 .name = conf->redis_tls_name};
    status = read_password("redis_password_file", conf->redis_password_file,
                           url, wp_redis_url_set_password, err);
    if (status == WP_OK) {
        status = read_password("redis_sentinel_password_file",
                               conf->redis_sentinel_password_file, url,
                               wp_redis_url_set_sentinel_password, err);
    }
    if (status == WP_OK && url->tls) {
        status = wp_redis_tls_check(tls, err);
    }
    return status;
}

enum wp_status
wp_daemon_redis_check_login(const struct wp_conf *conf, struct wp_err *err)
{
    struct wp_redis_tls tls;
    struct wp_redis_url url;
    enum wp_status status = WP_OK;

    if (conf->lease_store == WP_CONF_STORE_REDIS) {
        status = wp_daemon_redis_login(conf, &url, &tls, err);
        explicit_bzero(&url, sizeof url);
    }
    return status;
}
