#include "allocator/daemon/cluster.h"
#include "allocator/daemon/parts.h"

#include <stdlib.h>

static enum wp_status
parse_uids(struct wp_daemon *daemon, struct wp_err *err)
{
    const struct wp_conf_list *list = &daemon->conf->allowed_uids;

    daemon->uids = calloc(list->len + 1, sizeof *daemon->uids);
    if (daemon->uids == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    for (uint32_t i = 0; i < list->len; i++) {
        uint64_t uid = 0;

        /* wp_conf_check has seen that it is one. */
        if (wp_str_to_u64(wp_str_from(list->items[i]), &uid)) {
            daemon->uids[daemon->n_uids++] = (uint32_t)uid;
        }
    }
    return WP_OK;
}

/* "NAME=TENANT" or "NAME=*admin"; a name may hold '=' itself. */
static bool
parse_identity(const char *text, struct wp_rpc_principal *out)
{
    const char *equals = strrchr(text, '=');
    char *name;

    if (equals == NULL) {
        return false;
    }
    name = strndup(text, (size_t)(equals - text));
    if (name == NULL) {
        return false;
    }
    out->name = name;
    out->admin = strcmp(equals + 1, "*admin") == 0;
    out->tenant = out->admin ? "" : equals + 1; /* Borrowed from conf. */
    return true;
}

enum wp_status
wp_daemon_parse_lists(struct wp_daemon *daemon, struct wp_err *err)
{
    const struct wp_conf_list *list = &daemon->conf->identities;

    daemon->principals = calloc(list->len + 1, sizeof *daemon->principals);
    if (daemon->principals == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    for (uint32_t i = 0; i < list->len; i++) {
        if (!parse_identity(list->items[i],
                            &daemon->principals[daemon->n_principals])) {
            return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        }
        daemon->n_principals++;
    }
    return parse_uids(daemon, err);
}

static const char *
or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

/* Does an identity name a Unix socket's peer? Then others than the daemon's own
 * user are meant to connect. */
static bool
names_unix_peer(const struct wp_daemon *daemon)
{
    for (size_t i = 0; i < daemon->n_principals; i++) {
        struct wp_str name = wp_str_from(daemon->principals[i].name);

        if (wp_str_starts_with(name, WP_STR("uid:")) ||
            wp_str_starts_with(name, WP_STR("gid:"))) {
            return true;
        }
    }
    return false;
}

void
wp_daemon_rpc_config(const struct wp_daemon *daemon, struct wp_rpc_config *out)
{
    const struct wp_conf *conf = daemon->conf;
    bool others = daemon->n_uids > 0 || names_unix_peer(daemon);

    wp_rpc_config_init(out);
    out->listen = (const char *const *)conf->listen.items;
    out->n_listen = conf->listen.len;
    /* With a list, the peer's credentials decide, not the mode. */
    out->unix_mode = others ? 0666 : 0600;
    out->allow_uids = daemon->uids;
    out->n_allow_uids = daemon->n_uids;
    out->principals = daemon->principals;
    out->n_principals = daemon->n_principals;
    out->tls_cert = or_null(conf->tls_cert);
    out->tls_key = or_null(conf->tls_key);
    out->tls_client_ca = or_null(conf->tls_client_ca);
    out->reflection = conf->reflection;
    out->threads = (uint32_t)conf->rpc_threads;
    out->calls_max = (uint32_t)conf->rpc_calls_max;
    out->connections_max = (uint32_t)conf->rpc_connections_max;
    out->receive_bytes_max = (uint32_t)conf->message_max;
    out->keepalive_ns = conf->keepalive;
    if (daemon->meter != NULL && daemon->meter->ops.flush != NULL) {
        out->wants_flush = wp_lease_meter_wants_flush;
        out->flush = wp_lease_meter_flush;
        out->flush_ctx = daemon->meter;
    }
}

static enum wp_status
find_sandbox(void *ctx, struct wp_str sandbox, struct wp_claim_info *out)
{
    const struct wp_daemon *daemon = ctx;

    return wp_pools_find_sandbox(daemon->pools, sandbox, out);
}

static bool
token_valid(void *ctx, const uint8_t *token, struct wp_str sandbox)
{
    const struct wp_daemon *daemon = ctx;

    return wp_pools_token_valid(daemon->pools, token, sandbox);
}

static void
backend_queue(void *ctx, uint32_t *queued, uint32_t *starting)
{
    const struct wp_daemon *daemon = ctx;
    struct wp_local_stats stats;

    wp_daemon_backend_stats(daemon, &stats);
    *queued = stats.queued;
    *starting = stats.starting;
}

static void
store_metrics(void *ctx, struct evbuffer *out)
{
    const struct wp_daemon *daemon = ctx;

    wp_http_metrics_put(out, "warmpool_keeper", "gauge",
                        "1 when this daemon makes the sandboxes, 0 when it "
                        "shares another one's.",
                        wp_daemon_is_keeper(daemon) ? 1 : 0);
    wp_daemon_cluster_metrics(daemon->cluster, out);
    wp_daemon_store_metrics(daemon, out);
}

static const char *
cluster_not_ready(void *ctx)
{
    const struct wp_daemon *daemon = ctx;

    return wp_daemon_cluster_not_ready(daemon->cluster);
}

void
wp_daemon_http_config(struct wp_daemon *daemon, struct wp_gateway_config *out)
{
    const struct wp_conf *conf = daemon->conf;

    daemon->metrics.pools = daemon->pools;
    daemon->metrics.control = daemon->control;
    daemon->metrics.rpc = daemon->rpc;
    daemon->metrics.backend = daemon->backend.ops->name;
    daemon->metrics.lease_store = daemon->store.ops->name;
    daemon->metrics.store = daemon->meter;
    daemon->metrics.store_more = store_metrics;
    daemon->metrics.keeper = &daemon->keeper;
    daemon->metrics.backend_queue = backend_queue;
    daemon->metrics.not_ready =
        daemon->cluster != NULL ? cluster_not_ready : NULL;
    daemon->metrics.ctx = daemon;
    daemon->pages[0] = (struct wp_http_page){
        "/metrics", false, wp_http_metrics_page, &daemon->metrics};
    daemon->pages[1] =
        (struct wp_http_page){"/healthz", true, wp_http_health_page, NULL};
    daemon->pages[2] = (struct wp_http_page){
        "/readyz", true, wp_http_ready_page, &daemon->metrics};
    *out = (struct wp_gateway_config){
        .loop = daemon->http_loop,
        .listen = (const char *const *)conf->http_listen.items,
        .n_listen = conf->http_listen.len,
        .allowed_uids = daemon->uids,
        .n_allowed_uids = daemon->n_uids,
        .token_rule = (enum wp_http_token_rule)conf->http_require_token,
        .admin_token = daemon->admin_token,
        .connections_max = (uint32_t)conf->http_connections_max,
        .head_timeout_ns = conf->http_head_timeout,
        .idle_timeout_ns = conf->http_idle_timeout,
        .upstream_timeout_ns = conf->http_upstream_timeout,
        .pages = daemon->pages,
        .n_pages = WP_DAEMON_PAGES,
        .find = find_sandbox,
        .token_valid = token_valid,
        .ctx = daemon,
    };
}

static enum wp_status
find_nothing(void *ctx, struct wp_str sandbox, struct wp_claim_info *out)
{
    (void)ctx;
    (void)sandbox;
    (void)out;
    return WP_NOT_FOUND;
}

void
wp_daemon_http_pages_config(struct wp_daemon *daemon,
                            struct wp_gateway_config *out)
{
    wp_daemon_http_config(daemon, out);
    out->listen = (const char *const *)daemon->conf->metrics_listen.items;
    out->n_listen = daemon->conf->metrics_listen.len;
    out->anywhere = true;
    out->token_rule = WP_HTTP_TOKEN_NEVER;
    out->admin_token = "";
    out->find = find_nothing;
}
