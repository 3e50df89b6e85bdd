#include "allocator/conf/conf.h"

#include <string.h>

#include "pool/base/address.h"
#include "pool/egress/policy.h"
#include "pool/remotes/remote_rules.h"
#include "pool/remotes/trust_record.h"
#include "proto/sockets/network.h"
#include "allocator/conf/budget.h"
#include "allocator/conf/quota.h"
#include "allocator/conf/redis_url.h"
#include "pool/limits.h"

/* Who comes over TCP and proves nothing, as identities names him. */
#define ANONYMOUS "anonymous"

static enum wp_status
check_tls(const struct wp_conf *conf, struct wp_err *err)
{
    if ((conf->tls_cert[0] == '\0') != (conf->tls_key[0] == '\0')) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "settings 'tls_cert' and 'tls_key': expected both "
                          "or none, only '%s' is set",
                          conf->tls_cert[0] != '\0' ? "tls_cert" : "tls_key");
    }
    if (conf->tls_client_ca[0] != '\0' && conf->tls_cert[0] == '\0') {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'tls_client_ca': expected 'tls_cert' and "
                          "'tls_key' beside it");
    }
    return WP_OK;
}

static enum wp_status
check_listeners(const struct wp_conf *conf, struct wp_err *err)
{
    struct wp_address address;

    for (uint32_t i = 0; i < conf->listen.len; i++) {
        struct wp_str text = wp_str_from(conf->listen.items[i]);

        if (wp_address_parse(text, &address, err) != WP_OK) {
            return wp_err_wrap(err, "setting 'listen'");
        }
        if (!address.is_loopback && conf->tls_cert[0] == '\0') {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "setting 'listen': '%.*s' is not loopback, "
                              "which needs TLS: expected 'tls_cert' and "
                              "'tls_key' to be set",
                              WP_STR_ARG(text));
        }
        if (!address.is_loopback && conf->tls_client_ca[0] == '\0') {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "setting 'listen': '%.*s' is not loopback, where "
                              "a client must prove who it is: expected "
                              "'tls_client_ca' to be set",
                              WP_STR_ARG(text));
        }
    }
    for (uint32_t i = 0; i < conf->metrics_listen.len; i++) {
        if (wp_address_parse(wp_str_from(conf->metrics_listen.items[i]),
                             &address, err) != WP_OK) {
            return wp_err_wrap(err, "setting 'metrics_listen'");
        }
    }
    for (uint32_t i = 0; i < conf->http_listen.len; i++) {
        struct wp_str text = wp_str_from(conf->http_listen.items[i]);

        if (conf->http_listen.len == 1 && wp_str_is(text, "none")) {
            continue;
        }
        if (wp_address_parse(text, &address, err) != WP_OK) {
            return wp_err_wrap(err, "setting 'http_listen'");
        }
        if (!address.is_loopback && conf->tls_cert[0] == '\0') {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "setting 'http_listen': '%.*s' is not "
                              "loopback, which needs TLS: expected 'tls_cert' "
                              "and 'tls_key' to be set",
                              WP_STR_ARG(text));
        }
        if (!address.is_loopback &&
            conf->http_require_token == WP_CONF_TOKEN_NEVER) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "setting 'http_require_token': never is for "
                              "loopback only, and 'http_listen' has '%.*s'; "
                              "see 'trusting_listen'",
                              WP_STR_ARG(text));
        }
    }
    return WP_OK;
}

static enum wp_status
check_webhook(const struct wp_conf *conf, struct wp_err *err)
{
    struct wp_address address;

    if (conf->webhook_listen[0] != '\0' &&
        (wp_address_parse(wp_str_from(conf->webhook_listen), &address, err) !=
             WP_OK ||
         address.is_unix)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'webhook_listen': expected host:port, got "
                          "'%s'",
                          conf->webhook_listen);
    }
    if (conf->webhook_url[0] != '\0' &&
        strncmp(conf->webhook_url, "https://", 8) != 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'webhook_url': expected https://, got '%s'",
                          conf->webhook_url);
    }
    return WP_OK;
}

static enum wp_status
check_networks(const char *setting, const struct wp_conf_list *list,
               struct wp_err *err)
{
    struct wp_network network;

    for (uint32_t i = 0; i < list->len; i++) {
        if (wp_network_parse(wp_str_from(list->items[i]), &network, err) !=
            WP_OK) {
            return wp_err_wrap(err, "setting '%s'", setting);
        }
        if (wp_network_is_everything(&network)) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "setting '%s': expected networks that are known, "
                              "got '%.80s', which is everybody",
                              setting, list->items[i]);
        }
    }
    return WP_OK;
}

/* "NAME" or "NAMESPACE/NAME". */
static bool
is_pool(const char *text)
{
    const char *slash = strchr(text, '/');
    struct wp_str ns = {text, slash != NULL ? (size_t)(slash - text) : 0};

    return wp_str_is_dns_name(wp_str_from(slash != NULL ? slash + 1 : text),
                              WP_POOL_NAME_MAX) &&
           (slash == NULL || wp_str_is_dns_name(ns, WP_NAMESPACE_MAX));
}

/* "NAMESPACE/NAME". */
static bool
is_template(const char *text)
{
    const char *slash = strchr(text, '/');
    struct wp_str ns = {text, slash != NULL ? (size_t)(slash - text) : 0};

    return slash != NULL &&
           wp_str_is_dns_name(wp_str_from(slash + 1), WP_TEMPLATE_NAME_MAX) &&
           wp_str_is_dns_name(ns, WP_NAMESPACE_MAX);
}

/* Paths are put behind it. */
static bool
is_base_url(const char *text)
{
    size_t scheme = strncmp(text, "http://", 7) == 0    ? 7
                    : strncmp(text, "https://", 8) == 0 ? 8
                                                        : 0;
    size_t len = strlen(text);

    return scheme > 0 && text[len - 1] != '/' &&
           strcspn(text, " \"<>\\^`{|}?#") == len;
}

static enum wp_status
check_base_url(const char *setting, const char *text, struct wp_err *err)
{
    return text[0] == '\0' || is_base_url(text)
               ? WP_OK
               : wp_err_set(err, WP_INVALID_ARGUMENT,
                            "setting '%s': expected a URL as "
                            "http://host:port, got '%.80s'",
                            setting, text);
}

static enum wp_status
check_sessions(const struct wp_conf *conf, struct wp_err *err)
{
    if (conf->session_pool[0] != '\0' && !is_pool(conf->session_pool)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'session_pool': expected NAME or "
                          "NAMESPACE/NAME of a pool, got '%.80s'",
                          conf->session_pool);
    }
    if (conf->trigger_template[0] != '\0' &&
        !is_template(conf->trigger_template)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'trigger_template': expected NAMESPACE/NAME "
                          "of a template, got '%.80s'",
                          conf->trigger_template);
    }
    return check_base_url("session_url", conf->session_url, err);
}

/* Who shows no credential is believed by its address; somebody must be. */
static enum wp_status
check_trust(const struct wp_conf *conf, struct wp_err *err)
{
    struct wp_address address;

    for (uint32_t i = 0; i < conf->trusting_listen.len; i++) {
        const char *text = conf->trusting_listen.items[i];

        if (wp_address_parse(wp_str_from(text), &address, err) != WP_OK) {
            return wp_err_wrap(err, "setting 'trusting_listen'");
        }
        if (address.is_unix) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "setting 'trusting_listen': expected host:port, "
                              "got '%.80s'",
                              text);
        }
        if (conf->trust_sessions.len == 0 && conf->trust_sandboxes.len == 0) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "setting 'trusting_listen': nobody is trusted on "
                              "'%.80s': expected 'trust_sessions' or "
                              "'trust_sandboxes' beside it",
                              text);
        }
    }
    if (check_networks("trust_sessions", &conf->trust_sessions, err) != WP_OK) {
        return err->status;
    }
    return check_networks("trust_sandboxes", &conf->trust_sandboxes, err);
}

static enum wp_status
check_calls(const struct wp_conf *conf, struct wp_err *err)
{
    if (conf->rpc_waiting_max >= conf->rpc_calls_max) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'rpc_waiting_max': expected less than "
                          "rpc_calls_max (%lld), so that other calls find "
                          "room, got %lld",
                          (long long)conf->rpc_calls_max,
                          (long long)conf->rpc_waiting_max);
    }
    return WP_OK;
}

static enum wp_status
check_budgets(const struct wp_conf *conf, struct wp_err *err)
{
    struct wp_budget_total totals[WP_CONF_BUDGETS_MAX];
    uint32_t n;

    return wp_conf_budgets(conf, totals, &n, err);
}

static enum wp_status
check_quotas(const struct wp_conf *conf, struct wp_err *err)
{
    struct wp_tenant_quota quotas[WP_CONF_QUOTAS_MAX];
    uint32_t n;

    return wp_conf_quotas(conf, quotas, &n, err);
}

bool
wp_conf_listens_unproven(const struct wp_conf *conf)
{
    struct wp_address address;
    struct wp_err err;

    for (uint32_t i = 0; i < conf->listen.len; i++) {
        if (wp_address_parse(wp_str_from(conf->listen.items[i]), &address,
                             &err) == WP_OK &&
            !address.is_unix && conf->tls_client_ca[0] == '\0') {
            return true;
        }
    }
    return false;
}

bool
wp_conf_allows_anonymous(const struct wp_conf *conf)
{
    for (uint32_t i = 0; i < conf->identities.len; i++) {
        if (wp_str_starts_with(wp_str_from(conf->identities.items[i]),
                               WP_STR(ANONYMOUS "="))) {
            return true;
        }
    }
    return conf->tcp_anonymous;
}

/* Exposure without proof: nobody is an admin for coming from this machine. */
static enum wp_status
check_anonymous(const struct wp_conf *conf, struct wp_err *err)
{
    for (uint32_t i = 0; i < conf->identities.len; i++) {
        if (strcmp(conf->identities.items[i], ANONYMOUS "=*admin") == 0) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "setting 'identities': 'anonymous' proves "
                              "nothing and cannot be *admin: expected "
                              "anonymous=TENANT; who has the token of "
                              "access_token_file is an admin");
        }
    }
    if (conf->tcp_anonymous && conf->tls_client_ca[0] != '\0') {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'tcp_anonymous': expected false beside "
                          "'tls_client_ca', which every client over TCP must "
                          "satisfy");
    }
    return WP_OK;
}

static enum wp_status
check_identities(const struct wp_conf *conf, struct wp_err *err)
{
    for (uint32_t i = 0; i < conf->identities.len; i++) {
        const char *text = conf->identities.items[i];
        const char *equals = strrchr(text, '=');

        if (equals == NULL || equals == text || equals[1] == '\0' ||
            strlen(equals + 1) > WP_TENANT_MAX ||
            (equals[1] == '*' && strcmp(equals + 1, "*admin") != 0) ||
            wp_str_starts_with(wp_str_from(equals + 1),
                               WP_STR(WP_TENANT_OWN_PREFIX))) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "setting 'identities': expected NAME=TENANT (at "
                              "most %d bytes, not beginning with '%s') or "
                              "NAME=*admin, got '%.60s'",
                              WP_TENANT_MAX, WP_TENANT_OWN_PREFIX, text);
        }
    }
    for (uint32_t i = 0; i < conf->allowed_uids.len; i++) {
        uint64_t uid;

        if (!wp_str_to_u64(wp_str_from(conf->allowed_uids.items[i]), &uid) ||
            uid >= UINT32_MAX) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "setting 'allowed_uids': expected user ids "
                              "(numbers), got '%.60s'",
                              conf->allowed_uids.items[i]);
        }
    }
    return WP_OK;
}

/* The first of these settings that is set, or NULL. */
static const char *
tls_setting(const struct wp_conf *conf)
{
    return conf->redis_tls_ca[0] != '\0'     ? "redis_tls_ca"
           : conf->redis_tls_cert[0] != '\0' ? "redis_tls_cert"
           : conf->redis_tls_key[0] != '\0'  ? "redis_tls_key"
           : conf->redis_tls_name[0] != '\0' ? "redis_tls_name"
                                             : NULL;
}

static enum wp_status
check_redis_tls(const struct wp_conf *conf, const struct wp_redis_url *url,
                struct wp_err *err)
{
    const char *name = tls_setting(conf);

    if (name != NULL && !url->tls) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting '%s': expected a redis_url that begins with "
                          "rediss, without which there is no TLS",
                          name);
    }
    if ((conf->redis_tls_cert[0] == '\0') != (conf->redis_tls_key[0] == '\0')) {
        return wp_err_set(
            err, WP_INVALID_ARGUMENT,
            "settings 'redis_tls_cert' and 'redis_tls_key': expected both or "
            "none, only '%s' is set",
            conf->redis_tls_cert[0] != '\0' ? "redis_tls_cert"
                                            : "redis_tls_key");
    }
    return WP_OK;
}

/* A password is where other users of the machine cannot read it, and a user has
 * one. */
static enum wp_status
check_redis_login(const struct wp_conf *conf, const struct wp_redis_url *url,
                  struct wp_err *err)
{
    enum wp_conf_source source = conf->origin[WP_SET_redis_url].source;
    bool has_secret =
        url->password[0] != '\0' || url->sentinel_password[0] != '\0';

    if (has_secret && (source == WP_CONF_FLAG || source == WP_CONF_ENV)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'redis_url': expected no password in a flag "
                          "or the environment, which others can read: put it "
                          "into redis_password_file or "
                          "redis_sentinel_password_file");
    }
    if (url->user[0] != '\0' && url->password[0] == '\0' &&
        conf->redis_password_file[0] == '\0') {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'redis_password_file': expected the "
                          "password of the user in redis_url");
    }
    if (url->kind != WP_REDIS_SENTINEL &&
        conf->redis_sentinel_password_file[0] != '\0') {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'redis_sentinel_password_file': expected "
                          "sentinels in redis_url");
    }
    if (url->sentinel_user[0] != '\0' && url->sentinel_password[0] == '\0' &&
        conf->redis_sentinel_password_file[0] == '\0') {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'redis_sentinel_password_file': expected "
                          "the password of sentinel_user in redis_url");
    }
    return WP_OK;
}

static enum wp_status
check_redis(const struct wp_conf *conf, struct wp_err *err)
{
    struct wp_redis_url url;
    enum wp_status status =
        wp_redis_url_parse(wp_str_from(conf->redis_url), &url, err);

    if (status != WP_OK) {
        return wp_err_wrap(err, "setting 'redis_url'");
    }
    status = check_redis_login(conf, &url, err);
    if (status == WP_OK) {
        status = check_redis_tls(conf, &url, err);
    }
    explicit_bzero(&url, sizeof url);
    return status;
}

static enum wp_status
check_stores(const struct wp_conf *conf, struct wp_err *err)
{
    enum wp_status status = check_redis(conf, err);

    if (status != WP_OK) {
        return status;
    }
    if (strpbrk(conf->redis_prefix, "{} ") != NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'redis_prefix': expected 1 to 64 bytes "
                          "without space, '{' and '}', got '%s'",
                          conf->redis_prefix);
    }
    if (conf->lease_store_path[0] != '/') {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'lease_store_path': expected an absolute "
                          "path, got '%.80s'",
                          conf->lease_store_path);
    }
    if (!wp_conf_is_durable(conf) && !wp_conf_is_cluster(conf) &&
        wp_conf_stop_leaves(conf) != WP_CONF_STOP_NOTHING) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'stop_leaves': expected auto or nothing "
                          "with lease_store memory, whose leases end with "
                          "the daemon");
    }
    if (wp_conf_stop_leaves(conf) != WP_CONF_STOP_NOTHING &&
        !wp_conf_outlives(conf)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'sandbox_outlive': expected auto or true "
                          "unless stop_leaves is nothing: what is left "
                          "running must outlive the daemon");
    }
    return WP_OK;
}

/* Names of controllers, and that what a cluster decides is not set. */
static enum wp_status
check_cluster(const struct wp_conf *conf, struct wp_err *err)
{
    for (uint32_t i = 0; i < conf->controllers.len; i++) {
        if (wp_conf_controller(conf->controllers.items[i]) == 0) {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "setting 'controllers': expected names of pool, "
                              "claim, template, sandbox, got '%.60s'",
                              conf->controllers.items[i]);
        }
    }
    if (!wp_conf_is_cluster(conf)) {
        return WP_OK;
    }
    if (conf->manifests.len > 0) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'manifests': expected none with backend "
                          "kubernetes, whose pools and templates are the "
                          "cluster's objects: kubectl apply -f the files");
    }
    if (wp_conf_stop_leaves(conf) != WP_CONF_STOP_ALL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'stop_leaves': expected auto or all with "
                          "backend kubernetes: nothing in the cluster is "
                          "deleted because this daemon ends");
    }
    return WP_OK;
}

/* In a cluster. */
static enum wp_status
check_egress_proxy(const struct wp_conf *conf, struct wp_err *err)
{
    struct wp_host host;
    uint16_t port;
    const char *why;

    if (conf->egress_proxy[0] == '\0') {
        return WP_OK;
    }
    if (!wp_host_port_parse(wp_str_from(conf->egress_proxy), 0, &host, &port,
                            &why)) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'egress_proxy': %s, got '%.80s'", why,
                          conf->egress_proxy);
    }
    return conf->token_key_file[0] != '\0'
               ? WP_OK
               : wp_err_set(err, WP_INVALID_ARGUMENT,
                            "setting 'egress_proxy': expected "
                            "'token_key_file' beside it, from which keys of "
                            "passes are made");
}

static enum wp_status
check_egress(const struct wp_conf *conf, struct wp_err *err)
{
    struct wp_egress_policy policy;

    if (conf->egress_packages[0] != '\0' &&
        wp_egress_preset_parse(wp_str_from(conf->egress_packages), &policy,
                               err) != WP_OK) {
        return wp_err_wrap(err, "setting 'egress_packages'");
    }
    return wp_conf_is_cluster(conf) ? check_egress_proxy(conf, err) : WP_OK;
}

/* In a cluster. */
static enum wp_status
check_fetch_socket(const struct wp_conf *conf, struct wp_err *err)
{
    if (conf->fetch_socket[0] != '\0' && conf->fetch_socket[0] != '/') {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'fetch_socket': expected an absolute path, "
                          "got '%.80s'",
                          conf->fetch_socket);
    }
    return conf->git_remotes[0] == '\0' || conf->fetch_socket[0] != '\0'
               ? WP_OK
               : wp_err_set(err, WP_INVALID_ARGUMENT,
                            "setting 'fetch_socket': expected where "
                            "warmpool-fetch serves, with git_remotes");
}

static enum wp_status
check_git(const struct wp_conf *conf, struct wp_err *err)
{
    struct wp_remote_rules rules = {.n = 0};
    struct wp_trust_record record;

    if (wp_remote_rules_add(&rules, wp_str_from(conf->git_remotes), false,
                            err) != WP_OK) {
        return wp_err_wrap(err, "setting 'git_remotes'");
    }
    if (wp_remote_rules_add(&rules, wp_str_from(conf->git_remotes_denied), true,
                            err) != WP_OK) {
        return wp_err_wrap(err, "setting 'git_remotes_denied'");
    }
    if (wp_trust_files_parse(wp_str_from(conf->git_trust_files), &record,
                             err) != WP_OK) {
        return wp_err_wrap(err, "setting 'git_trust_files'");
    }
    return wp_conf_is_cluster(conf) ? check_fetch_socket(conf, err) : WP_OK;
}

static enum wp_status
check_identity(const struct wp_conf *conf, struct wp_err *err)
{
    const char *issuer = conf->identity_issuer;
    size_t len = strlen(issuer);

    return strpbrk(issuer, "\"\\ \t") == NULL && issuer[len - 1] != '/'
               ? WP_OK
               : wp_err_set(err, WP_INVALID_ARGUMENT,
                            "setting 'identity_issuer': a name or URL without "
                            "spaces and quotes, and without '/' at its end "
                            "expected, got '%.80s'",
                            issuer);
}

uint32_t
wp_conf_controller(const char *name)
{
    static const char *const names[] = {"pool", "claim", "template", "sandbox"};

    for (uint32_t i = 0; i < WP_ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            return 1U << i;
        }
    }
    return 0;
}

/* The daemon's directory at its start is nobody's concern. */
static enum wp_status
check_paths(const struct wp_conf *conf, struct wp_err *err)
{
    const struct {
        const char *setting;
        const char *path;
        bool optional;
    } paths[] = {
        {"state_dir", conf->state_dir, false},
        {"access_token_file", conf->access_token_file, false},
        {"rootfs_dir", conf->rootfs_dir, true},
        {"volumes_dir", conf->volumes_dir, true},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(paths); i++) {
        bool left_out = paths[i].optional && paths[i].path[0] == '\0';

        if (!left_out && paths[i].path[0] != '/') {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "setting '%s': expected an absolute path, got "
                              "'%.80s'",
                              paths[i].setting, paths[i].path);
        }
    }
    return WP_OK;
}

enum wp_status
wp_conf_check(const struct wp_conf *conf, struct wp_err *err)
{
    enum wp_status status = check_cluster(conf, err);

    if (status == WP_OK) {
        status = check_tls(conf, err);
    }
    if (status == WP_OK) {
        status = check_listeners(conf, err);
    }
    if (status == WP_OK) {
        status = check_webhook(conf, err);
    }
    if (status == WP_OK) {
        status = check_trust(conf, err);
    }
    if (status == WP_OK) {
        status = check_base_url("otlp_endpoint", conf->otlp_endpoint, err);
    }
    if (status == WP_OK) {
        status = check_sessions(conf, err);
    }
    if (status == WP_OK) {
        status = check_calls(conf, err);
    }
    if (status == WP_OK) {
        status = check_identities(conf, err);
    }
    if (status == WP_OK) {
        status = check_anonymous(conf, err);
    }
    if (status == WP_OK) {
        status = check_budgets(conf, err);
    }
    if (status == WP_OK) {
        status = check_quotas(conf, err);
    }
    if (status == WP_OK) {
        status = check_egress(conf, err);
    }
    if (status == WP_OK) {
        status = check_git(conf, err);
    }
    if (status == WP_OK) {
        status = check_identity(conf, err);
    }
    if (status == WP_OK && conf->claims_max < conf->slots_max) {
        status =
            wp_err_set(err, WP_INVALID_ARGUMENT,
                       "setting 'claims_max': expected 0 or at least "
                       "slots_max (%lld), got %lld",
                       (long long)conf->slots_max, (long long)conf->claims_max);
    }
    if (status == WP_OK) {
        status = check_paths(conf, err);
    }
    return status == WP_OK ? check_stores(conf, err) : status;
}
