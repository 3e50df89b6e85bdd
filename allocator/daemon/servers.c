#include "allocator/daemon/servers.h"

#include <stdlib.h>
#include <string.h>

#include "allocator/http/gateway.h"
#include "allocator/metrics/page.h"
#include "allocator/metrics/prometheus.h"
#include "pool/base/address.h"
#include "pool/base/log.h"
#include "proto/sockets/descriptors.h"

enum {
    PAGES = 5,
};

struct wp_daemon_servers {
    struct wp_daemon_served from;
    struct wp_service service[2]; /* What gRPC serves. */
    struct wp_rpc_server *rpc;
    struct wp_sessions *sessions;
    struct wp_triggers *triggers;
    struct wp_gateway *http;
    struct wp_gateway *pages_only; /* Without the way to sandboxes. */
    struct wp_http_metrics metrics;
    struct wp_http_page pages[PAGES]; /* The gateways borrow them. */
    size_t n_pages;
    uint32_t fd_asked; /* For all connections that the settings allow. */
    uint32_t fd_room;  /* Of these, what the limit on open files allows. */
};

/* --- What the servers ask; their threads --- */

static enum wp_status
find_sandbox(void *ctx, struct wp_str ns, struct wp_str sandbox,
             struct wp_claim_info *out)
{
    const struct wp_daemon_servers *self = ctx;

    if (wp_pools_find_sandbox(self->from.core->pools, sandbox, out) == WP_OK) {
        wp_daemon_cluster_locate(self->from.cluster, out);
        return WP_OK;
    }
    /* As agent-sandbox's router has it, where no namespace is said. */
    return wp_daemon_cluster_find(self->from.cluster,
                                  ns.len > 0 ? ns : WP_STR("default"), sandbox,
                                  out)
               ? WP_OK
               : WP_NOT_FOUND;
}

static bool
token_valid(void *ctx, const uint8_t *token, struct wp_str sandbox)
{
    const struct wp_daemon_servers *self = ctx;

    return wp_pools_token_valid(self->from.core->pools, token, sandbox);
}

static void
machine_numbers(void *ctx, struct wp_machine_numbers *out)
{
    const struct wp_daemon_servers *self = ctx;
    struct wp_local_stats stats;

    wp_daemon_backend_stats(self->from.backend, &stats);
    *out = (struct wp_machine_numbers){
        .queued = stats.queued,
        .starting = stats.starting,
        .frozen = stats.frozen,
        .frozen_total = stats.frozen_total,
    };
}

static void
streams(void *ctx, uint32_t *open, uint32_t *broken, uint32_t *ahead)
{
    const struct wp_daemon_servers *self = ctx;
    struct wp_stream_stats stats;

    wp_services_stream_stats(self->from.services, &stats);
    *open = stats.open;
    *broken = stats.broken;
    *ahead = stats.ahead;
}

static void
store_metrics(void *ctx, struct evbuffer *out)
{
    const struct wp_daemon_servers *self = ctx;

    wp_prom_put(out, "warmpool_keeper",
                "1 when this daemon makes the sandboxes, 0 when it "
                "shares another one's.",
                wp_daemon_is_keeper(self->from.core) ? 1 : 0);
    wp_daemon_cluster_metrics(self->from.cluster, out);
    wp_daemon_store_metrics(self->from.store, out);
}

static uint32_t
count_keepers(void *ctx)
{
    const struct wp_daemon_servers *self = ctx;

    return wp_daemon_redis_keepers(wp_daemon_store_redis(self->from.store));
}

static const char *
cluster_not_ready(void *ctx)
{
    const struct wp_daemon_servers *self = ctx;

    return wp_daemon_cluster_not_ready(self->from.cluster);
}

static void
sandbox_token(void *ctx, const struct wp_claim_info *info,
              char out[WP_SANDBOX_TOKEN_TEXT + 1])
{
    const struct wp_daemon_servers *self = ctx;

    wp_daemon_cluster_sandbox_token(self->from.cluster, info, out);
}

static enum wp_status
find_nothing(void *ctx, struct wp_str ns, struct wp_str sandbox,
             struct wp_claim_info *out)
{
    (void)ctx;
    (void)ns;
    (void)sandbox;
    (void)out;
    return WP_NOT_FOUND;
}

/* --- Making them --- */

/* With a list, the peer's credentials decide, not the mode. */
static uint32_t
unix_mode(const struct wp_daemon_access *access)
{
    return wp_daemon_access_names_others(access) ? 0666 : 0600;
}

static struct wp_access
rules_of(const struct wp_daemon_access *access)
{
    return (struct wp_access){
        .allow_uids = access->uids,
        .n_allow_uids = access->n_uids,
        .principals = access->principals,
        .n_principals = access->n_principals,
    };
}

/* How many of http_listen there are. */
static uint32_t
own_listeners(const struct wp_conf *conf)
{
    bool none = conf->http_listen.len == 1 &&
                strcmp(conf->http_listen.items[0], "none") == 0;

    return none ? 0 : conf->http_listen.len;
}

static bool
has_http(const struct wp_conf *conf)
{
    return own_listeners(conf) > 0 || conf->trusting_listen.len > 0;
}

/* --- Descriptors, divided between the listeners --- */

enum {
    FD_RESERVE = 512, /* Everybody else's descriptors. */
    SPARES = 256,     /* For probes, of each HTTP server. */
    SPARES_LEAST = 32,
    HTTP_LEAST = 4, /* Connections. */
};

/* Descriptors of as many connections as the settings ask for. */
static uint32_t
asked(const struct wp_conf *conf, uint32_t *http, uint32_t *pages)
{
    uint32_t connections = (uint32_t)conf->http_connections_max;
    uint32_t sockets = wp_gateway_sockets(connections, SPARES);

    *http = has_http(conf) ? sockets + connections : 0;
    *pages = conf->metrics_listen.len > 0 ? sockets : 0;
    return (uint32_t)conf->rpc_connections_max + *http + *pages;
}

/* The same part of everything that the limit on open files allows. So nobody
 * takes the descriptors of another listener, or of the daemon itself. */
static void
divide_descriptors(struct wp_daemon_servers *self)
{
    const struct wp_conf *conf = self->from.core->conf;
    uint32_t http;
    uint32_t pages;

    self->fd_asked = asked(conf, &http, &pages);
    self->fd_room = wp_descriptors_fit(self->fd_asked, 1, FD_RESERVE);
    if (self->fd_room < self->fd_asked) {
        wp_log_warn("fewer connections than the settings allow: the limit on "
                    "open files is lower",
                    wp_kv_int("descriptors_wanted",
                              (int64_t)self->fd_asked + FD_RESERVE),
                    wp_kv_int("part_percent",
                              (int64_t)self->fd_room * 100 / self->fd_asked));
    }
}

/* That part of n, rounded up, and not below least where n is not. */
static uint32_t
part_of(const struct wp_daemon_servers *self, int64_t n, uint32_t least)
{
    uint64_t part =
        ((uint64_t)n * self->fd_room + self->fd_asked - 1) / self->fd_asked;

    if (part < least) {
        part = (uint64_t)n < least ? (uint64_t)n : least;
    }
    return (uint32_t)part;
}

static enum wp_status
create_rpc(struct wp_daemon_servers *self, struct wp_err *err)
{
    const struct wp_service *services[] = {&self->service[0],
                                           &self->service[1]};
    const struct wp_conf *conf = self->from.core->conf;
    const struct wp_daemon_access *access = self->from.access;
    struct wp_lease_meter *meter = wp_daemon_store_meter(self->from.store);
    struct wp_rpc_config config;

    self->service[0] = wp_service_allocator(self->from.services);
    self->service[1] = wp_service_admin(self->from.services);
    wp_rpc_config_init(&config);
    config.listen = (const char *const *)conf->listen.items;
    config.n_listen = conf->listen.len;
    config.unix_mode = unix_mode(access);
    config.access = rules_of(access);
    config.access_token = access->access_token;
    config.anonymous = conf->tcp_anonymous;
    config.tls_cert = wp_conf_or_null(conf->tls_cert);
    config.tls_key = wp_conf_or_null(conf->tls_key);
    config.tls_client_ca = wp_conf_or_null(conf->tls_client_ca);
    config.tracer = wp_exporter_tracer(self->from.core->exporter);
    config.reflection = conf->reflection;
    config.threads = (uint32_t)conf->rpc_threads;
    config.calls_max = (uint32_t)conf->rpc_calls_max;
    config.connections_max = part_of(self, conf->rpc_connections_max, 1);
    config.peer_connections_max =
        part_of(self, conf->rpc_peer_connections_max, 0);
    config.receive_bytes_max = (uint32_t)conf->message_max;
    config.keepalive_ns = conf->keepalive;
    if (meter != NULL && meter->ops.flush != NULL) {
        config.wants_flush = wp_lease_meter_wants_flush;
        config.flush = wp_lease_meter_flush;
        config.flush_ctx = meter;
    }
    config.written = wp_control_wake_late;
    config.written_ctx = self->from.core->control;
    config.spin_ns = conf->rpc_spin;
    self->rpc = wp_rpc_server_create(&config, services, 2, err);
    return self->rpc != NULL ? WP_OK : err->status;
}

static unsigned
jwks_page(void *ctx, enum wp_view view, struct evbuffer *body,
          const char **content_type)
{
    char text[WP_SIGNER_JWKS_MAX];
    size_t len = wp_signer_jwks(ctx, text);

    (void)view;
    *content_type = "application/jwk-set+json";
    (void)evbuffer_add(body, text, len);
    return 200;
}

static unsigned
openid_page(void *ctx, enum wp_view view, struct evbuffer *body,
            const char **content_type)
{
    char text[WP_SIGNER_OPENID_MAX];
    size_t len = wp_signer_openid(ctx, text);

    (void)view;
    if (len == 0) {
        (void)evbuffer_add_printf(body, "the setting identity_issuer is no "
                                        "https:// URL\n");
        return 404;
    }
    *content_type = "application/json";
    (void)evbuffer_add(body, text, len);
    return 200;
}

static void
fill_pages(struct wp_daemon_servers *self)
{
    const struct wp_daemon_served *from = &self->from;

    self->metrics.pools = from->core->pools;
    self->metrics.control = from->core->control;
    self->metrics.tracer = wp_exporter_tracer(from->core->exporter);
    self->metrics.rpc = self->rpc;
    self->metrics.backend = from->backend_name;
    self->metrics.lease_store = wp_daemon_store_port(from->store).ops->name;
    self->metrics.store = wp_daemon_store_meter(from->store);
    self->metrics.store_more = store_metrics;
    self->metrics.keeper = &from->core->keeper;
    self->metrics.keepers =
        wp_daemon_store_redis(from->store) != NULL ? count_keepers : NULL;
    self->metrics.machine = machine_numbers;
    self->metrics.streams = streams;
    self->metrics.not_ready = from->cluster != NULL ? cluster_not_ready : NULL;
    self->metrics.ctx = self;
    self->pages[0] = (struct wp_http_page){
        "/metrics", false, wp_http_metrics_page, &self->metrics};
    self->pages[1] =
        (struct wp_http_page){"/healthz", true, wp_http_health_page, NULL};
    self->pages[2] = (struct wp_http_page){"/readyz", true, wp_http_ready_page,
                                           &self->metrics};
    self->n_pages = 3;
    if (from->core->signer != NULL) {
        self->pages[self->n_pages++] = (struct wp_http_page){
            "/.well-known/jwks.json", true, jwks_page, from->core->signer};
        self->pages[self->n_pages++] =
            (struct wp_http_page){"/.well-known/openid-configuration", true,
                                  openid_page, from->core->signer};
    }
}

static struct wp_gateway_config
gateway_config(struct wp_daemon_servers *self)
{
    const struct wp_conf *conf = self->from.core->conf;

    return (struct wp_gateway_config){
        .loop = self->from.http_loop,
        .listen = (const char *const *)conf->http_listen.items,
        .n_listen = own_listeners(conf),
        .unix_mode = unix_mode(self->from.access),
        .access = rules_of(self->from.access),
        .token_rule = (enum wp_http_token_rule)conf->http_require_token,
        .admin_token = self->from.access->admin_token,
        .connections_max =
            part_of(self, conf->http_connections_max, HTTP_LEAST),
        .peer_connections_max =
            part_of(self, conf->http_peer_connections_max, 0),
        .spares_max = part_of(self, SPARES, SPARES_LEAST),
        .head_timeout_ns = conf->http_head_timeout,
        .idle_timeout_ns = conf->http_idle_timeout,
        .upstream_timeout_ns = conf->http_upstream_timeout,
        .tls_cert = wp_conf_or_null(conf->tls_cert),
        .tls_key = wp_conf_or_null(conf->tls_key),
        .tls_client_ca = wp_conf_or_null(conf->tls_client_ca),
        .pages = self->pages,
        .n_pages = self->n_pages,
        .find = find_sandbox,
        .token_valid = token_valid,
        .sandbox_token = sandbox_token,
        .ctx = self,
    };
}

static enum wp_status
create_sessions(struct wp_daemon_servers *self, struct wp_err *err)
{
    const struct wp_conf *conf = self->from.core->conf;
    const struct wp_sessions_config config = {
        .loop = self->from.http_loop,
        .pools = self->from.core->pools,
        .pool = conf->session_pool,
        .ttl_ns = conf->session_ttl,
        .wait_ns = conf->session_wait,
        .calls_max = (uint32_t)conf->http_connections_max,
        .url = conf->session_url,
        .direct = wp_conf_is_cluster(conf),
        .path = "/mcp",
        .serves = wp_daemon_cluster_serves(self->from.cluster),
        .sandbox_token = self->from.cluster != NULL ? sandbox_token : NULL,
        .ctx = self,
    };

    self->sessions = wp_sessions_create(&config, err);
    return self->sessions != NULL ? WP_OK : err->status;
}

static bool
make_claim(void *ctx, struct wp_trigger_order *order)
{
    const struct wp_daemon_servers *self = ctx;

    return wp_daemon_cluster_make_claim(self->from.cluster, order);
}

static enum wp_status
create_triggers(struct wp_daemon_servers *self, struct wp_err *err)
{
    const struct wp_conf *conf = self->from.core->conf;
    const struct wp_triggers_config config = {
        .loop = self->from.http_loop,
        .pools = self->from.core->pools,
        .template_name = conf->trigger_template,
        .secret = self->from.access->trigger_secret,
        .wait_ns = conf->session_wait,
        .calls_max = (uint32_t)conf->http_connections_max,
        .make = self->from.cluster != NULL ? make_claim : NULL,
        .ctx = self,
    };

    self->triggers = wp_triggers_create(&config, err);
    return self->triggers != NULL ? WP_OK : err->status;
}

static enum wp_status
create_pages_only(struct wp_daemon_servers *self, struct wp_err *err)
{
    const struct wp_conf *conf = self->from.core->conf;
    struct wp_gateway_config config = gateway_config(self);

    if (conf->metrics_listen.len == 0) {
        return WP_OK;
    }
    config.listen = (const char *const *)conf->metrics_listen.items;
    config.n_listen = conf->metrics_listen.len;
    config.anywhere = true;
    config.token_rule = WP_HTTP_TOKEN_NEVER;
    config.admin_token = "";
    config.find = find_nothing;
    self->pages_only = wp_gateway_create(&config, err);
    return self->pages_only != NULL
               ? WP_OK
               : wp_err_wrap(err, "setting 'metrics_listen'");
}

static struct wp_http_trust
trust_of(const struct wp_conf_list *networks)
{
    return (struct wp_http_trust){(const char *const *)networks->items,
                                  networks->len};
}

static enum wp_status
create_http(struct wp_daemon_servers *self, struct wp_err *err)
{
    const struct wp_conf *conf = self->from.core->conf;
    struct wp_gateway_config config = gateway_config(self);

    if (!has_http(conf)) {
        return WP_OK;
    }
    if (create_sessions(self, err) != WP_OK ||
        create_triggers(self, err) != WP_OK) {
        return err->status;
    }
    config.sessions = self->sessions;
    config.triggers = self->triggers;
    config.trusting_listen = (const char *const *)conf->trusting_listen.items;
    config.n_trusting_listen = conf->trusting_listen.len;
    config.trust[WP_HTTP_TRUST_SESSIONS] = trust_of(&conf->trust_sessions);
    config.trust[WP_HTTP_TRUST_SANDBOXES] = trust_of(&conf->trust_sandboxes);
    self->http = wp_gateway_create(&config, err);
    self->metrics.http = self->http;
    return self->http != NULL ? WP_OK : err->status;
}

struct wp_daemon_servers *
wp_daemon_servers_create(const struct wp_daemon_served *served,
                         struct wp_err *err)
{
    struct wp_daemon_servers *self = calloc(1, sizeof *self);
    enum wp_status status;

    if (self == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    self->from = *served;
    atomic_init(&self->metrics.serving, false);
    divide_descriptors(self);
    status = create_rpc(self, err);
    fill_pages(self);
    if (status == WP_OK) {
        status = create_pages_only(self, err);
    }
    if (status == WP_OK) {
        status = create_http(self, err);
    }
    if (status != WP_OK) {
        wp_daemon_servers_stop(self);
        wp_daemon_servers_destroy(self);
        return NULL;
    }
    return self;
}

static void
log_addresses(const struct wp_daemon_servers *self)
{
    const struct wp_conf *conf = self->from.core->conf;

    for (uint32_t i = 0; i < conf->listen.len; i++) {
        wp_log_info("listening", wp_kv_str("protocol", "grpc"),
                    wp_kv_str("address", wp_rpc_server_address(self->rpc, i)));
    }
    for (uint32_t i = 0; self->http != NULL &&
                         i < own_listeners(conf) + conf->trusting_listen.len;
         i++) {
        wp_log_info("listening", wp_kv_str("protocol", "http"),
                    wp_kv_str("address", wp_gateway_address(self->http, i)));
    }
    for (uint32_t i = 0; i < conf->metrics_listen.len; i++) {
        wp_log_info(
            "listening", wp_kv_str("protocol", "metrics"),
            wp_kv_str("address", wp_gateway_address(self->pages_only, i)));
    }
}

static bool
serves_http_on_tcp(const struct wp_conf *conf)
{
    struct wp_address address;
    struct wp_err err;

    for (uint32_t i = 0; i < conf->http_listen.len; i++) {
        if (wp_address_parse(wp_str_from(conf->http_listen.items[i]), &address,
                             &err) == WP_OK &&
            !address.is_unix) {
            return true;
        }
    }
    return false;
}

/* What this daemon lets anybody on its machine do. */
static void
warn_of_exposure(const struct wp_daemon_servers *self)
{
    const struct wp_conf *conf = self->from.core->conf;

    if (wp_conf_listens_unproven(conf) && wp_conf_allows_anonymous(conf)) {
        wp_log_warn("anybody who reaches gRPC's TCP address is served, without "
                    "proof of who it is",
                    wp_kv_str("setting", conf->tcp_anonymous ? "tcp_anonymous"
                                                             : "identities"));
    }
    if (conf->trust_sessions.len > 0 || conf->trust_sandboxes.len > 0) {
        wp_log_warn("clients are served by their address, without proof of who "
                    "they are: a network policy has to keep others from using "
                    "it",
                    wp_kv_str("setting", conf->trust_sessions.len > 0
                                             ? "trust_sessions"
                                             : "trust_sandboxes"));
    }
    if (conf->http_require_token == WP_CONF_TOKEN_NEVER &&
        serves_http_on_tcp(conf)) {
        wp_log_warn("anybody who reaches HTTP's TCP address can use every "
                    "sandbox, without a token",
                    wp_kv_str("setting", "http_require_token"));
    }
}

/* --- Life --- */

enum wp_status
wp_daemon_servers_start(struct wp_daemon_servers *self, struct wp_err *err)
{
    enum wp_status status = wp_rpc_server_start(self->rpc, err);

    if (status == WP_OK) {
        warn_of_exposure(self);
        log_addresses(self);
        atomic_store_explicit(&self->metrics.serving, true,
                              memory_order_release);
    }
    return status;
}

bool
wp_daemon_servers_are_serving(const struct wp_daemon_servers *self)
{
    return atomic_load_explicit(&self->metrics.serving, memory_order_acquire);
}

void
wp_daemon_servers_set_health(struct wp_daemon_servers *self, bool serving)
{
    wp_rpc_server_set_serving(self->rpc, serving);
}

void
wp_daemon_servers_refuse(struct wp_daemon_servers *self)
{
    atomic_store_explicit(&self->metrics.serving, false, memory_order_release);
    wp_rpc_server_set_serving(self->rpc, false);
}

uint32_t
wp_daemon_servers_calls(const struct wp_daemon_servers *self)
{
    struct wp_rpc_stats stats;

    wp_rpc_server_stats(self->rpc, &stats);
    return stats.calls_in_flight;
}

void
wp_daemon_servers_drain(struct wp_daemon_servers *self, int64_t for_ns)
{
    (void)wp_rpc_server_drain(self->rpc, for_ns);
}

void
wp_daemon_servers_stop(struct wp_daemon_servers *self)
{
    if (self != NULL) {
        wp_rpc_server_stop(self->rpc);
        wp_gateway_destroy(self->http);
        wp_gateway_destroy(self->pages_only);
        wp_sessions_destroy(self->sessions);
        self->sessions = NULL;
        wp_triggers_destroy(self->triggers);
        self->triggers = NULL;
    }
}

void
wp_daemon_servers_destroy(struct wp_daemon_servers *self)
{
    free(self);
}
