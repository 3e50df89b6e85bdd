/* tests/unit/allocator/daemon/daemon_servers_test.c - what the daemon's servers
 * are made with, what they ask of its parts, and in which order they end.
 * golden/ has each whole. The servers and the parts are fakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/daemon/servers.h"
#include "allocator/grpc/server.h"
#include "allocator/http/gateway.h"
#include "allocator/metrics/page.h"
#include "allocator/signer/signer.h"
#include "tests/support/base/golden.h"
#include "tests/support/base/heard.h"

#define WRAP(result, name, ...)                                                \
    result __wrap_##name(__VA_ARGS__);                                         \
    result __wrap_##name(__VA_ARGS__)

/* Objects of others, of which only the addresses count here. */
#define THING(type, i) ((type *)(void *)&things[i])
static const char *const names[] = {
    "pools",    "control",  "exporter", "tracer",     "meter",     "rpc",
    "sessions", "triggers", "http",     "pages only", "cluster",   "redis",
    "signer",   "services", "backend",  "store",      "http loop",
};
static char things[WP_ARRAY_LEN(names)];
enum {
    POOLS,
    CONTROL,
    EXPORTER,
    TRACER,
    METER,
    RPC,
    SESSIONS,
    TRIGGERS,
    HTTP,
    PAGES_ONLY,
    CLUSTER,
    REDIS,
    SIGNER,
    SERVICES,
    BACKEND,
    STORE,
    HTTP_LOOP,
};

static struct golden journal;
static struct wp_conf *conf;
static struct wp_daemon_core core;
static struct wp_daemon_access access_rules;
static struct wp_daemon_served served;
static struct wp_daemon_servers *servers;
static struct wp_lease_meter *meter;
static struct wp_daemon_redis *redis;
static struct wp_principal principals[2];
static uint32_t uids[3];
static bool names_others;
static _Atomic(bool) serves;
static uint32_t fd_room;  /* 0: as many as are asked for. */
static const char *fails; /* Which of them cannot be made. */
static bool is_found;
static bool is_issuer;
/* What they were made with. */
static struct wp_gateway_config gateway;
static struct wp_sessions_config sessions_config;
static struct wp_triggers_config triggers_config;
static struct wp_rpc_config rpc_config;

static const char *
name_of(const void *thing)
{
    const char *at = thing;

    return at == NULL                                    ? "none"
           : at == (void *)&core                         ? "core"
           : at < things || at >= things + sizeof things ? "something"
                                                         : names[at - things];
}

static void
say_list(const char *what, const char *const *items, size_t n)
{
    golden_add(&journal, "  %s:", what);
    for (size_t i = 0; i < n; i++) {
        golden_add(&journal, " %s", items[i]);
    }
    golden_add(&journal, "\n");
}

static void
say_access(const struct wp_access *access)
{
    golden_add(&journal, "  access: uids");
    for (size_t i = 0; i < access->n_allow_uids; i++) {
        golden_add(&journal, " %u", access->allow_uids[i]);
    }
    golden_add(&journal, "; gids %zu; principals", access->n_allow_gids);
    for (size_t i = 0; i < access->n_principals; i++) {
        golden_add(&journal, " %s", access->principals[i].name);
    }
    golden_add(&journal, "\n");
}

static bool
may(const char *what, struct wp_err *err)
{
    if (fails == NULL || strcmp(fails, what) != 0) {
        return true;
    }
    (void)wp_err_set(err, WP_UNAVAILABLE, "no %s today", what);
    return false;
}

/* --- Servers --- */

WRAP(struct wp_rpc_server *, wp_rpc_server_create,
     const struct wp_rpc_config *config, const struct wp_service *const *all,
     size_t n, struct wp_err *err)
{
    rpc_config = *config;
    golden_add(&journal, "gRPC of");
    for (size_t i = 0; i < n; i++) {
        golden_add(&journal, " %s", all[i]->name);
    }
    golden_add(&journal, "\n");
    say_list("listen", config->listen, config->n_listen);
    say_access(&config->access);
    golden_add(&journal,
               "  unix mode %o, access token '%s', anonymous %d\n"
               "  tls %s %s %s\n"
               "  flush %s of %s, written %s of %s, tracer %s\n"
               "  reflection %d, spin %lld, threads %u, calls %u, "
               "connections %u, of a peer %u\n"
               "  receive %u, keepalive %lld\n",
               config->unix_mode, config->access_token, config->anonymous,
               config->tls_cert != NULL ? config->tls_cert : "none",
               config->tls_key != NULL ? config->tls_key : "none",
               config->tls_client_ca != NULL ? config->tls_client_ca : "none",
               config->wants_flush == NULL ? "none"
               : config->wants_flush == wp_lease_meter_wants_flush &&
                       config->flush == wp_lease_meter_flush
                   ? "meter"
                   : "something",
               config->flush_ctx == meter
                   ? name_of(meter != NULL ? &things[METER] : NULL)
                   : "something",
               config->written == wp_control_wake_late ? "wake late"
                                                       : "something",
               name_of(config->written_ctx), name_of(config->tracer),
               config->reflection, (long long)config->spin_ns, config->threads,
               config->calls_max, config->connections_max,
               config->peer_connections_max, config->receive_bytes_max,
               (long long)config->keepalive_ns);
    return may("gRPC", err) ? THING(struct wp_rpc_server, RPC) : NULL;
}

WRAP(enum wp_status, wp_rpc_server_start, struct wp_rpc_server *server,
     struct wp_err *err)
{
    golden_add(&journal, "%s starts\n", name_of(server));
    return may("start", err) ? WP_OK : err->status;
}

WRAP(const char *, wp_rpc_server_address, const struct wp_rpc_server *server,
     size_t i)
{
    static char text[32];

    (void)snprintf(text, sizeof text, "%s-%zu", name_of(server), i);
    return text;
}

WRAP(void, wp_rpc_server_set_serving, struct wp_rpc_server *server, bool on)
{
    golden_add(&journal, "%s serves: %d\n", name_of(server), on);
}

WRAP(void, wp_rpc_server_stats, const struct wp_rpc_server *server,
     struct wp_rpc_stats *out)
{
    golden_add(&journal, "stats of %s\n", name_of(server));
    memset(out, 1, sizeof *out);
    out->calls_in_flight = 17;
}

WRAP(bool, wp_rpc_server_drain, struct wp_rpc_server *server, int64_t for_ns)
{
    golden_add(&journal, "%s drains for %lld\n", name_of(server),
               (long long)for_ns);
    return false;
}

WRAP(void, wp_rpc_server_stop, struct wp_rpc_server *server)
{
    golden_add(&journal, "%s stops\n", name_of(server));
}

static void
say_trust(const char *what, const struct wp_http_trust *trust)
{
    say_list(what, trust->networks, trust->n_networks);
}

WRAP(struct wp_gateway *, wp_gateway_create,
     const struct wp_gateway_config *config, struct wp_err *err)
{
    bool only = config->token_rule == WP_HTTP_TOKEN_NEVER && config->anywhere;

    if (!only) {
        gateway = *config;
    }
    golden_add(&journal, "gateway on %s\n", name_of(config->loop));
    say_list("listen", config->listen, config->n_listen);
    say_list("trusting", config->trusting_listen, config->n_trusting_listen);
    say_trust("sessions trust", &config->trust[WP_HTTP_TRUST_SESSIONS]);
    say_trust("sandboxes trust", &config->trust[WP_HTTP_TRUST_SANDBOXES]);
    say_access(&config->access);
    golden_add(&journal,
               "  unix mode %o, anywhere %d, rule %d, token '%s'\n"
               "  tls %s %s %s\n"
               "  connections %u, of a peer %u, spares %u\n"
               "  head %lld, idle %lld, upstream %lld\n"
               "  %s, %s\n",
               config->unix_mode, config->anywhere, (int)config->token_rule,
               config->admin_token,
               config->tls_cert != NULL ? config->tls_cert : "none",
               config->tls_key != NULL ? config->tls_key : "none",
               config->tls_client_ca != NULL ? config->tls_client_ca : "none",
               config->connections_max, config->peer_connections_max,
               config->spares_max, (long long)config->head_timeout_ns,
               (long long)config->idle_timeout_ns,
               (long long)config->upstream_timeout_ns,
               name_of(config->sessions), name_of(config->triggers));
    for (size_t i = 0; i < config->n_pages; i++) {
        const struct wp_http_page *page = &config->pages[i];

        golden_add(&journal, "  page %s%s: %s\n", page->path,
                   page->open ? ", open" : "",
                   page->render == wp_http_metrics_page  ? "metrics"
                   : page->render == wp_http_health_page ? "health"
                   : page->render == wp_http_ready_page  ? "ready"
                                                         : "its own");
    }
    if (only) {
        struct wp_claim_info info;

        assert_int_equal(
            config->find(config->ctx, WP_STR("a"), WP_STR("b"), &info),
            WP_NOT_FOUND);
    }
    if (!may(only ? "pages" : "gateway", err)) {
        return NULL;
    }
    return THING(struct wp_gateway, only ? PAGES_ONLY : HTTP);
}

WRAP(const char *, wp_gateway_address, const struct wp_gateway *of, size_t i)
{
    static char text[32];

    (void)snprintf(text, sizeof text, "%s-%zu", name_of(of), i);
    return text;
}

WRAP(void, wp_gateway_destroy, struct wp_gateway *of)
{
    golden_add(&journal, "%s destroyed\n", name_of(of));
}

WRAP(struct wp_sessions *, wp_sessions_create,
     const struct wp_sessions_config *config, struct wp_err *err)
{
    sessions_config = *config;
    golden_add(&journal,
               "sessions on %s of %s: pool '%s', ttl %lld, wait %lld, "
               "calls %u, url '%s', direct %d, path '%s', serves %s\n",
               name_of(config->loop), name_of(config->pools), config->pool,
               (long long)config->ttl_ns, (long long)config->wait_ns,
               config->calls_max, config->url, config->direct, config->path,
               config->serves == &serves ? "as the cluster says" : "always");
    return may("sessions", err) ? THING(struct wp_sessions, SESSIONS) : NULL;
}

WRAP(void, wp_sessions_destroy, struct wp_sessions *sessions)
{
    golden_add(&journal, "%s destroyed\n", name_of(sessions));
}

WRAP(struct wp_triggers *, wp_triggers_create,
     const struct wp_triggers_config *config, struct wp_err *err)
{
    triggers_config = *config;
    golden_add(&journal,
               "triggers on %s of %s: template '%s', secret '%s', wait %lld, "
               "calls %u\n",
               name_of(config->loop), name_of(config->pools),
               config->template_name, config->secret,
               (long long)config->wait_ns, config->calls_max);
    return may("triggers", err) ? THING(struct wp_triggers, TRIGGERS) : NULL;
}

WRAP(void, wp_triggers_destroy, struct wp_triggers *triggers)
{
    golden_add(&journal, "%s destroyed\n", name_of(triggers));
}

/* --- The daemon's parts --- */

WRAP(struct wp_service, wp_service_allocator, struct wp_services *services)
{
    assert_ptr_equal(services, &things[SERVICES]);
    return (struct wp_service){.name = "allocator"};
}

WRAP(struct wp_service, wp_service_admin, struct wp_services *services)
{
    assert_ptr_equal(services, &things[SERVICES]);
    return (struct wp_service){.name = "admin"};
}

WRAP(struct wp_tracer *, wp_exporter_tracer, struct wp_exporter *exporter)
{
    assert_ptr_equal(exporter, &things[EXPORTER]);
    return THING(struct wp_tracer, TRACER);
}

WRAP(struct wp_lease_meter *, wp_daemon_store_meter,
     const struct wp_daemon_store *store)
{
    assert_ptr_equal(store, &things[STORE]);
    return meter;
}

WRAP(struct wp_lease_store, wp_daemon_store_port,
     const struct wp_daemon_store *store)
{
    static const struct wp_lease_store_ops ops = {.name = "the store's"};

    assert_ptr_equal(store, &things[STORE]);
    return (struct wp_lease_store){.ops = &ops};
}

WRAP(struct wp_daemon_redis *, wp_daemon_store_redis,
     const struct wp_daemon_store *store)
{
    assert_ptr_equal(store, &things[STORE]);
    return redis;
}

WRAP(uint32_t, wp_daemon_redis_keepers, const struct wp_daemon_redis *of)
{
    golden_add(&journal, "keepers of %s\n", name_of(of));
    return 2;
}

WRAP(void, wp_daemon_store_metrics, const struct wp_daemon_store *store,
     struct evbuffer *out)
{
    (void)evbuffer_add_printf(out, "numbers of %s\n", name_of(store));
}

WRAP(void, wp_daemon_cluster_metrics, struct wp_daemon_cluster *cluster,
     struct evbuffer *out)
{
    (void)evbuffer_add_printf(out, "numbers of %s\n", name_of(cluster));
}

WRAP(const _Atomic(bool) *, wp_daemon_cluster_serves,
     const struct wp_daemon_cluster *cluster)
{
    return cluster != NULL ? &serves : NULL;
}

WRAP(const char *, wp_daemon_cluster_not_ready,
     const struct wp_daemon_cluster *cluster)
{
    golden_add(&journal, "is %s ready?\n", name_of(cluster));
    return "not yet";
}

WRAP(void, wp_daemon_cluster_locate, const struct wp_daemon_cluster *cluster,
     struct wp_claim_info *info)
{
    golden_add(&journal, "%s locates %s\n", name_of(cluster), info->sandbox);
}

WRAP(bool, wp_daemon_cluster_find, const struct wp_daemon_cluster *cluster,
     struct wp_str ns, struct wp_str name, struct wp_claim_info *out)
{
    golden_add(&journal, "%s finds %.*s/%.*s: %d\n", name_of(cluster),
               (int)ns.len, ns.ptr, (int)name.len, name.ptr, is_found);
    (void)snprintf(out->sandbox, sizeof out->sandbox, "found");
    return is_found;
}

WRAP(void, wp_daemon_cluster_sandbox_token,
     const struct wp_daemon_cluster *cluster, const struct wp_claim_info *info,
     char out[WP_SANDBOX_TOKEN_TEXT + 1])
{
    golden_add(&journal, "token of %s by %s\n", info->sandbox,
               name_of(cluster));
    (void)snprintf(out, WP_SANDBOX_TOKEN_TEXT + 1, "token");
}

WRAP(bool, wp_daemon_cluster_make_claim, struct wp_daemon_cluster *cluster,
     struct wp_trigger_order *order)
{
    golden_add(&journal, "%s makes %s\n", name_of(cluster), order->name);
    return true;
}

WRAP(enum wp_status, wp_pools_find_sandbox, struct wp_pools *pools,
     struct wp_str sandbox, struct wp_claim_info *out)
{
    golden_add(&journal, "%s find %.*s\n", name_of(pools), (int)sandbox.len,
               sandbox.ptr);
    if (!wp_str_eq(sandbox, WP_STR("leased"))) {
        return WP_NOT_FOUND;
    }
    (void)snprintf(out->sandbox, sizeof out->sandbox, "leased");
    return WP_OK;
}

WRAP(bool, wp_pools_token_valid, struct wp_pools *pools, const uint8_t *token,
     struct wp_str sandbox)
{
    golden_add(&journal, "%s try token %d of %.*s\n", name_of(pools), token[0],
               (int)sandbox.len, sandbox.ptr);
    return token[0] == 1;
}

WRAP(void, wp_daemon_backend_stats, const struct wp_daemon_backend *backend,
     struct wp_local_stats *out)
{
    assert_ptr_equal(backend, &things[BACKEND]);
    *out = (struct wp_local_stats){.queued = 1,
                                   .starting = 2,
                                   .ready = 3,
                                   .dying = 4,
                                   .frozen = 5,
                                   .frozen_total = 6,
                                   .spawned_total = 7,
                                   .lost_total = 8};
}

WRAP(void, wp_services_stream_stats, struct wp_services *services,
     struct wp_stream_stats *out)
{
    assert_ptr_equal(services, &things[SERVICES]);
    *out = (struct wp_stream_stats){.open = 9, .broken = 10, .ahead = 11};
}

WRAP(size_t, wp_signer_jwks, struct wp_signer *signer,
     char out[WP_SIGNER_JWKS_MAX])
{
    assert_ptr_equal(signer, &things[SIGNER]);
    memcpy(out, "{keys}", 6);
    return 6;
}

WRAP(size_t, wp_signer_openid, const struct wp_signer *signer,
     char out[WP_SIGNER_OPENID_MAX])
{
    assert_ptr_equal(signer, &things[SIGNER]);
    memcpy(out, "{openid}", 8);
    return is_issuer ? 8 : 0;
}

WRAP(bool, wp_daemon_access_names_others, const struct wp_daemon_access *access)
{
    assert_ptr_equal(access, &access_rules);
    return names_others;
}

WRAP(uint32_t, wp_descriptors_fit, uint32_t asked, uint32_t each,
     uint32_t others)
{
    golden_add(&journal, "descriptors: %u of %u each, and %u\n", asked, each,
               others);
    return fd_room != 0 ? fd_room : asked;
}

WRAP(uint32_t, wp_gateway_sockets, uint32_t connections, uint32_t spares)
{
    return 2 * connections + spares;
}

static bool no_memory;

void *__real_calloc(size_t n, size_t size);
WRAP(void *, calloc, size_t n, size_t size)
{
    return no_memory ? NULL : __real_calloc(n, size);
}

/* --- The tests --- */

static int
begin(void **state)
{
    static const char *const who[] = {"uid:5", "gid:6"};

    (void)state;
    journal.len = 0;
    journal.text[0] = '\0';
    conf = wp_conf_create();
    assert_non_null(conf);
    memset(&core, 0, sizeof core);
    core.conf = conf;
    core.pools = THING(struct wp_pools, POOLS);
    core.control = THING(struct wp_control, CONTROL);
    core.exporter = THING(struct wp_exporter, EXPORTER);
    core.services = THING(struct wp_services, SERVICES);
    for (size_t i = 0; i < WP_ARRAY_LEN(who); i++) {
        principals[i].name = who[i];
    }
    for (uint32_t i = 0; i < WP_ARRAY_LEN(uids); i++) {
        uids[i] = 100 + i;
    }
    memset(&access_rules, 0, sizeof access_rules);
    (void)snprintf(access_rules.admin_token, sizeof access_rules.admin_token,
                   "the admin's");
    (void)snprintf(access_rules.access_token, sizeof access_rules.access_token,
                   "the caller's");
    (void)snprintf(access_rules.trigger_secret,
                   sizeof access_rules.trigger_secret, "the hook's");
    served = (struct wp_daemon_served){
        .core = &core,
        .access = &access_rules,
        .backend = THING(struct wp_daemon_backend, BACKEND),
        .backend_name = "the machine",
        .store = THING(struct wp_daemon_store, STORE),
        .services = THING(struct wp_services, SERVICES),
        .http_loop = THING(struct wp_loop, HTTP_LOOP),
    };
    meter = NULL;
    redis = NULL;
    fd_room = 0;
    fails = NULL;
    names_others = false;
    is_found = false;
    is_issuer = false;
    return 0;
}

static int
end(void **state)
{
    (void)state;
    wp_conf_destroy(conf);
    return 0;
}

static void
set(const char *text)
{
    struct wp_err err;

    if (wp_conf_read_text(conf, wp_str_from(text), "test", &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
}

#define ALL                                                                    \
    "listen: [\"unix:/run/a\", \"127.0.0.1:1\"]\n"                             \
    "tls_cert: /cert\ntls_key: /key\ntls_client_ca: /ca\n"                     \
    "tcp_anonymous: true\nreflection: false\nrpc_threads: 3\n"                 \
    "rpc_calls_max: 501\nrpc_connections_max: 502\n"                           \
    "rpc_peer_connections_max: 503\nmessage_max: 8192\nkeepalive: 7s\n"        \
    "rpc_spin: 6us\n"                                                          \
    "http_listen: [\"unix:/run/b\", \"127.0.0.1:2\"]\n"                        \
    "trusting_listen: [\"10.0.0.1:3\"]\n"                                      \
    "metrics_listen: [\"0.0.0.0:4\", \"0.0.0.0:5\"]\n"                         \
    "trust_sessions: [\"10.1.0.0/16\"]\n"                                      \
    "trust_sandboxes: [\"10.2.0.0/16\", \"10.3.0.0/16\"]\n"                    \
    "http_require_token: always\nhttp_connections_max: 601\n"                  \
    "http_peer_connections_max: 602\nhttp_head_timeout: 3s\n"                  \
    "http_idle_timeout: 4s\nhttp_upstream_timeout: 5s\n"                       \
    "session_pool: a/b\nsession_ttl: 8s\nsession_wait: 9s\n"                   \
    "session_url: \"https://x\"\ntrigger_template: c/d\n"

static void
create(void)
{
    struct heard heard;
    struct wp_err err;
    const char *text;

    memset(&err, 0, sizeof err);
    heard_begin(&heard);
    servers = wp_daemon_servers_create(&served, &err);
    text = heard_end(&heard);
    golden_add(&journal, "%s%s\n", text,
               servers != NULL ? "created" : "not created");
    if (servers == NULL) {
        golden_add(&journal, "%s: %s\n", wp_status_name(err.status), err.msg);
    }
}

static void
start(void)
{
    struct heard heard;
    struct wp_err err;
    enum wp_status status;

    heard_begin(&heard);
    status = wp_daemon_servers_start(servers, &err);
    golden_add(&journal, "%s%s, serving %d\n", heard_end(&heard),
               wp_status_name(status), wp_daemon_servers_are_serving(servers));
}

static void
finish(const char *name)
{
    char path[512];

    wp_daemon_servers_stop(servers);
    wp_daemon_servers_destroy(servers);
    (void)snprintf(path, sizeof path, "%s/servers_%s.txt", WP_TEST_GOLDEN,
                   name);
    golden_compare(journal.text, path);
}

static void
ask_page(const char *path)
{
    for (size_t i = 0; i < gateway.n_pages; i++) {
        if (strcmp(gateway.pages[i].path, path) == 0) {
            struct evbuffer *body = evbuffer_new();
            const char *type = "no type";
            unsigned status = gateway.pages[i].render(gateway.pages[i].ctx,
                                                      WP_VIEW_ALL, body, &type);

            golden_add(&journal, "%s: %u %s '%.*s'\n", path, status, type,
                       (int)evbuffer_get_length(body),
                       (const char *)evbuffer_pullup(body, -1));
            evbuffer_free(body);
        }
    }
}

static void
ask_metrics(void)
{
    const struct wp_http_metrics *from = gateway.pages[0].ctx;
    struct evbuffer *body = evbuffer_new();
    struct wp_machine_numbers numbers;
    uint32_t n[3];

    assert_ptr_equal(gateway.pages[2].ctx, from);
    assert_null(gateway.pages[1].ctx);
    golden_add(&journal,
               "numbers: %s, %s, %s, %s, '%s', '%s', %s, %s, keeper %d\n",
               name_of(from->pools), name_of(from->control), name_of(from->rpc),
               name_of(from->http), from->backend, from->lease_store,
               from->store != NULL ? "a meter" : "no meter",
               name_of(from->tracer), from->keeper == &core.keeper);
    from->store_more(from->ctx, body);
    golden_add(&journal, "%.*s", (int)evbuffer_get_length(body),
               (const char *)evbuffer_pullup(body, -1));
    evbuffer_free(body);
    from->machine(from->ctx, &numbers);
    from->streams(from->ctx, &n[0], &n[1], &n[2]);
    golden_add(&journal, "queued %u starting %u frozen %u %llu\n",
               numbers.queued, numbers.starting, numbers.frozen,
               (unsigned long long)numbers.frozen_total);
    golden_add(&journal, "open %u broken %u ahead %u\n", n[0], n[1], n[2]);
    golden_add(&journal, "keepers %d\n",
               from->keepers != NULL ? (int)from->keepers(from->ctx) : -1);
    golden_add(&journal, "not ready: %s\n",
               from->not_ready != NULL ? from->not_ready(from->ctx)
                                       : "unasked");
}

static void
find(struct wp_str ns, struct wp_str name)
{
    struct wp_claim_info info;
    enum wp_status status;

    memset(&info, 0, sizeof info);
    status = gateway.find(gateway.ctx, ns, name, &info);
    golden_add(&journal, "%s %s\n", wp_status_name(status), info.sandbox);
}

static void
ask_all(void)
{
    struct wp_claim_info info = {.sandbox = "box"};
    struct wp_trigger_order order = {.name = "claim"};
    char token[WP_SANDBOX_TOKEN_TEXT + 1] = "";
    const uint8_t tokens[] = {1, 2};

    find(WP_STR("ns"), WP_STR("leased"));
    find(WP_STR("ns"), WP_STR("other"));
    find(WP_STR(""), WP_STR("other"));
    is_found = true;
    find(WP_STR("ns"), WP_STR("other"));
    assert_true(gateway.token_valid(gateway.ctx, tokens, WP_STR("box")));
    assert_false(gateway.token_valid(gateway.ctx, tokens + 1, WP_STR("box")));
    gateway.sandbox_token(gateway.ctx, &info, token);
    if (sessions_config.sandbox_token != NULL) {
        sessions_config.sandbox_token(sessions_config.ctx, &info, token);
    } else {
        golden_add(&journal, "sessions know no token\n");
    }
    assert_string_equal(token, "token");
    if (triggers_config.make != NULL) {
        assert_true(triggers_config.make(triggers_config.ctx, &order));
    } else {
        golden_add(&journal, "triggers claim\n");
    }
    ask_metrics();
    ask_page("/.well-known/jwks.json");
    ask_page("/.well-known/openid-configuration");
    is_issuer = true;
    ask_page("/.well-known/openid-configuration");
}

static void
test_a_cluster_is_served_with_all(void **state)
{
    static struct wp_lease_meter a_meter;

    (void)state;
    set(ALL "backend: kubernetes\n");
    served.cluster = THING(struct wp_daemon_cluster, CLUSTER);
    core.signer = THING(struct wp_signer, SIGNER);
    core.keeper = true;
    redis = THING(struct wp_daemon_redis, REDIS);
    a_meter.ops.flush = (void (*)(void *))(void (*)(void))wp_lease_meter_flush;
    meter = &a_meter;
    names_others = true;
    access_rules.principals = principals;
    access_rules.n_principals = 2;
    access_rules.uids = uids;
    access_rules.n_uids = 3;
    create();
    start();
    ask_all();
    wp_daemon_servers_set_health(servers, true);
    wp_daemon_servers_set_health(servers, false);
    assert_int_equal(wp_daemon_servers_calls(servers), 17);
    wp_daemon_servers_drain(servers, 1234);
    wp_daemon_servers_refuse(servers);
    assert_false(wp_daemon_servers_are_serving(servers));
    wp_daemon_servers_stop(servers);
    golden_add(&journal, "once more\n");
    finish("cluster");
}

static void
test_a_machine_is_served_with_little(void **state)
{
    static struct wp_lease_meter a_meter;

    (void)state;
    set("listen: [\"unix:/run/a\"]\nhttp_listen: [\"unix:/run/b\"]\n");
    access_rules.admin_token[0] = '\0';
    meter = &a_meter;
    create();
    start();
    ask_all();
    finish("machine");
}

static void
test_http_may_be_left_out(void **state)
{
    static const char *const http[] = {
        "http_listen: [none]\n",
        "http_listen: [none]\nmetrics_listen: [\"0.0.0.0:4\"]\n",
        "http_listen: [none]\ntrusting_listen: [\"10.0.0.1:3\"]\n",
        "http_listen: [none, \"127.0.0.1:2\"]\n",
        "http_listen: []\n",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(http); i++) {
        golden_add(&journal, "# %s", http[i]);
        wp_conf_destroy(conf);
        conf = wp_conf_create();
        core.conf = conf;
        set("listen: [\"unix:/run/a\"]\n");
        set(http[i]);
        create();
        start();
        if (i + 1 < WP_ARRAY_LEN(http)) {
            wp_daemon_servers_stop(servers);
            wp_daemon_servers_destroy(servers);
        }
    }
    finish("left_out");
}

static void
test_few_descriptors_are_divided(void **state)
{
    static const uint32_t rooms[] = {1, 100, 1000, 3000, 6000};
    static const char *const sizes[] = {
        "",
        "http_connections_max: 3\nhttp_peer_connections_max: 0\n"
        "rpc_peer_connections_max: 0\nrpc_connections_max: 1\n",
        "http_connections_max: 4\nmetrics_listen: [\"0.0.0.0:4\"]\n",
    };

    (void)state;
    for (size_t s = 0; s < WP_ARRAY_LEN(sizes); s++) {
        for (size_t i = 0; i < WP_ARRAY_LEN(rooms); i++) {
            golden_add(&journal, "# room of %u\n%s", rooms[i], sizes[s]);
            wp_conf_destroy(conf);
            conf = wp_conf_create();
            core.conf = conf;
            set("listen: [\"unix:/run/a\"]\nhttp_listen: [\"unix:/run/b\"]\n");
            set(sizes[s]);
            fd_room = rooms[i];
            create();
            wp_daemon_servers_stop(servers);
            wp_daemon_servers_destroy(servers);
        }
    }
    set("rpc_connections_max: 10\n");
    fd_room = 0;
    create();
    finish("descriptors");
}

static void
test_what_cannot_be_made_ends_the_rest(void **state)
{
    static const char *const all[] = {"gRPC",     "pages",   "sessions",
                                      "triggers", "gateway", "start"};

    (void)state;
    set(ALL);
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        golden_add(&journal, "# no %s\n", all[i]);
        fails = all[i];
        create();
    }
    start();
    no_memory = true;
    {
        struct wp_err err;

        assert_null(wp_daemon_servers_create(&served, &err));
        golden_add(&journal, "%s: %s\n", wp_status_name(err.status), err.msg);
    }
    no_memory = false;
    wp_daemon_servers_stop(NULL);
    wp_daemon_servers_destroy(NULL);
    finish("failures");
}

static void
test_what_is_open_to_anybody_is_said(void **state)
{
    static const char *const open[] = {
        "listen: [\"127.0.0.1:1\"]\n",
        "listen: [\"127.0.0.1:1\"]\ntcp_anonymous: true\n",
        "listen: [\"127.0.0.1:1\"]\nidentities: [\"anonymous=blue\"]\n",
        "listen: [\"unix:/run/a\"]\ntcp_anonymous: true\n",
        "trust_sessions: [\"10.1.0.0/16\"]\n",
        "trust_sandboxes: [\"10.1.0.0/16\"]\n",
        "trust_sessions: [\"10.1.0.0/16\"]\n"
        "trust_sandboxes: [\"10.1.0.0/16\"]\n",
        "http_require_token: never\nhttp_listen: [\"unix:/run/b\"]\n",
        "http_require_token: never\n"
        "http_listen: [\"unix:/run/b\", \"127.0.0.1:2\"]\n",
        "http_require_token: always\nhttp_listen: [\"127.0.0.1:2\"]\n",
        "http_require_token: never\nhttp_listen: [none]\n",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(open); i++) {
        golden_add(&journal, "# %s", open[i]);
        wp_conf_destroy(conf);
        conf = wp_conf_create();
        core.conf = conf;
        set(open[i]);
        create();
        start();
        if (i + 1 < WP_ARRAY_LEN(open)) {
            wp_daemon_servers_stop(servers);
            wp_daemon_servers_destroy(servers);
        }
    }
    finish("exposure");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_a_cluster_is_served_with_all),
        TEST(test_a_machine_is_served_with_little),
        TEST(test_http_may_be_left_out),
        TEST(test_few_descriptors_are_divided),
        TEST(test_what_cannot_be_made_ends_the_rest),
        TEST(test_what_is_open_to_anybody_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
