#include "k8s/bind/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/base/assert.h"
#include "pool/egress/pass.h"
#include "pool/egress/policy.h"
#include "proto/parcel/pack.h"

enum {
    /* "http://USER:PASS@HOST:PORT" */
    URL_MAX = 7 + sizeof WP_EGRESS_PASS_USER + WP_EGRESS_PASS_TEXT_MAX + 1 +
              WP_EGRESS_PROXY_MAX,
};

enum wp_status
wp_bind_pass_check(const struct wp_cluster_egress *egress, struct wp_str policy,
                   struct wp_str by, struct wp_err *err)
{
    struct wp_egress_policy out;

    if (egress->proxy == NULL) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "the daemon has no egress_proxy, by which a claim "
                          "could narrow what its sandbox reaches");
    }
    if (policy.len == 0) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "the pool has no policy that could be narrowed: "
                          "the annotation pool.warmpool.io/egress was "
                          "expected");
    }
    return wp_egress_policy_parse_narrowed(policy, by, (struct wp_str){NULL, 0},
                                           &out, err);
}

static void
write_url(const struct wp_cluster_egress *egress,
          const struct wp_bind_pass *pass, char out[URL_MAX + 1])
{
    uint8_t key[WP_EGRESS_KEY_LEN];
    char text[WP_EGRESS_PASS_TEXT_MAX + 1];
    int n;

    wp_egress_key_derive(egress->key, wp_str_from(pass->ns), key);
    wp_egress_pass_write(
        key,
        &(struct wp_egress_pass){.pool_namespace = wp_str_from(pass->ns),
                                 .sandbox = wp_str_from(pass->sandbox),
                                 .address = wp_str_from(pass->ip),
                                 .policy = pass->policy,
                                 .by = pass->by},
        text);
    n = snprintf(out, URL_MAX + 1, "http://" WP_EGRESS_PASS_USER ":%s@%s", text,
                 egress->proxy);
    WP_ASSERT(n > 0 && n <= URL_MAX);
    explicit_bzero(key, sizeof key);
    explicit_bzero(text, sizeof text);
}

bool
wp_bind_pass_add(const struct wp_cluster_egress *egress,
                 const struct wp_bind_pass *pass, struct evbuffer *parcel)
{
    static const char *const names[] = {"HTTP_PROXY", "HTTPS_PROXY",
                                        "http_proxy", "https_proxy"};
    char url[URL_MAX + 1];
    struct wp_binding_env env[WP_ARRAY_LEN(names)];
    const struct wp_binding binding = {.env = env,
                                       .n_env = WP_ARRAY_LEN(names)};
    uint8_t *bytes;
    size_t size;
    bool added;

    if (egress->proxy == NULL || pass->policy.len == 0) {
        return true;
    }
    write_url(egress, pass, url);
    for (size_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        env[i] =
            (struct wp_binding_env){wp_str_from(names[i]), wp_str_from(url)};
    }
    size = wp_parcel_size(&binding, WP_STR(""));
    bytes = malloc(size);
    if (bytes == NULL) {
        return false;
    }
    wp_parcel_fill(&binding, WP_STR(""), bytes);
    added = evbuffer_prepend(parcel, bytes, size) == 0;
    explicit_bzero(bytes, size);
    explicit_bzero(url, sizeof url);
    free(bytes);
    return added;
}
