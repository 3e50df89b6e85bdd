#include "allocator/daemon/cluster.h"
#include "allocator/daemon/parts.h"

#include <stdlib.h>

enum {
    PAGES = 3,
};

/* Parsed settings and pages that the servers borrow. */
struct wp_daemon_access {
    struct wp_rpc_principal *principals; /* Owned, with their names. */
    size_t n_principals;
    uint32_t *uids; /* Owned. */
    size_t n_uids;
    char admin_token[260];
    struct wp_http_page pages[PAGES];
};

static enum wp_status
parse_uids(struct wp_daemon *daemon, struct wp_err *err)
{
    const struct wp_conf_list *list = &daemon->conf->allowed_uids;

    daemon->access->uids = calloc(list->len + 1, sizeof *daemon->access->uids);
    if (daemon->access->uids == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    for (uint32_t i = 0; i < list->len; i++) {
        uint64_t uid = 0;

        /* wp_conf_check has seen that it is one. */
        if (wp_str_to_u64(wp_str_from(list->items[i]), &uid)) {
            daemon->access->uids[daemon->access->n_uids++] = (uint32_t)uid;
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

static enum wp_status
parse_lists(struct wp_daemon *daemon, struct wp_err *err)
{
    const struct wp_conf_list *list = &daemon->conf->identities;

    daemon->access->principals =
        calloc(list->len + 1, sizeof *daemon->access->principals);
    if (daemon->access->principals == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    for (uint32_t i = 0; i < list->len; i++) {
        if (!parse_identity(
                list->items[i],
                &daemon->access->principals[daemon->access->n_principals])) {
            return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        }
        daemon->access->n_principals++;
    }
    return parse_uids(daemon, err);
}

enum wp_status
wp_daemon_read_access(struct wp_daemon *daemon, struct wp_err *err)
{
    enum wp_status status;

    daemon->access = calloc(1, sizeof *daemon->access);
    if (daemon->access == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    status = parse_lists(daemon, err);
    return status == WP_OK
               ? wp_daemon_read_token(daemon->conf->http_token_file,
                                      daemon->access->admin_token,
                                      sizeof daemon->access->admin_token, err)
               : status;
}

void
wp_daemon_forget_access(struct wp_daemon *daemon)
{
    struct wp_daemon_access *access = daemon->access;

    if (access == NULL) {
        return;
    }
    for (size_t i = 0; i < access->n_principals; i++) {
        free((void *)(uintptr_t)access->principals[i].name);
    }
    free(access->principals);
    free(access->uids);
    explicit_bzero(access, sizeof *access);
    free(access);
    daemon->access = NULL;
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
    for (size_t i = 0; i < daemon->access->n_principals; i++) {
        struct wp_str name = wp_str_from(daemon->access->principals[i].name);

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
    struct wp_lease_meter *meter = wp_daemon_store_meter(daemon);
    bool others = daemon->access->n_uids > 0 || names_unix_peer(daemon);

    wp_rpc_config_init(out);
    out->listen = (const char *const *)conf->listen.items;
    out->n_listen = conf->listen.len;
    /* With a list, the peer's credentials decide, not the mode. */
    out->unix_mode = others ? 0666 : 0600;
    out->allow_uids = daemon->access->uids;
    out->n_allow_uids = daemon->access->n_uids;
    out->principals = daemon->access->principals;
    out->n_principals = daemon->access->n_principals;
    out->tls_cert = or_null(conf->tls_cert);
    out->tls_key = or_null(conf->tls_key);
    out->tls_client_ca = or_null(conf->tls_client_ca);
    out->reflection = conf->reflection;
    out->threads = (uint32_t)conf->rpc_threads;
    out->calls_max = (uint32_t)conf->rpc_calls_max;
    out->connections_max = (uint32_t)conf->rpc_connections_max;
    out->receive_bytes_max = (uint32_t)conf->message_max;
    out->keepalive_ns = conf->keepalive;
    if (meter != NULL && meter->ops.flush != NULL) {
        out->wants_flush = wp_lease_meter_wants_flush;
        out->flush = wp_lease_meter_flush;
        out->flush_ctx = meter;
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
    daemon->metrics.store = wp_daemon_store_meter(daemon);
    daemon->metrics.store_more = store_metrics;
    daemon->metrics.keeper = &daemon->keeper;
    daemon->metrics.backend_queue = backend_queue;
    daemon->metrics.not_ready =
        daemon->cluster != NULL ? cluster_not_ready : NULL;
    daemon->metrics.ctx = daemon;
    daemon->access->pages[0] = (struct wp_http_page){
        "/metrics", false, wp_http_metrics_page, &daemon->metrics};
    daemon->access->pages[1] =
        (struct wp_http_page){"/healthz", true, wp_http_health_page, NULL};
    daemon->access->pages[2] = (struct wp_http_page){
        "/readyz", true, wp_http_ready_page, &daemon->metrics};
    *out = (struct wp_gateway_config){
        .loop = daemon->http_loop,
        .listen = (const char *const *)conf->http_listen.items,
        .n_listen = conf->http_listen.len,
        .allowed_uids = daemon->access->uids,
        .n_allowed_uids = daemon->access->n_uids,
        .token_rule = (enum wp_http_token_rule)conf->http_require_token,
        .admin_token = daemon->access->admin_token,
        .connections_max = (uint32_t)conf->http_connections_max,
        .head_timeout_ns = conf->http_head_timeout,
        .idle_timeout_ns = conf->http_idle_timeout,
        .upstream_timeout_ns = conf->http_upstream_timeout,
        .pages = daemon->access->pages,
        .n_pages = PAGES,
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
