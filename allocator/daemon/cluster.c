#include "allocator/daemon/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/metrics/cluster_metrics.h"
#include "allocator/daemon/files.h"
#include "allocator/daemon/servers.h"
#include "allocator/http/trigger.h"
#include "allocator/webhook/webhook.h"
#include "k8s/cluster/claim_make.h"
#include "k8s/cluster/cluster.h"
#include "pool/base/log.h"
#include "pool/base/rng.h"

/* For what is under way at the end; giving the lease up comes after it. */
#define STOP_NS (2 * WP_NS_PER_S)

#define LABEL_DOMAINS "/etc/sandbox-config/allowed-label-domains"

struct wp_daemon_cluster {
    struct wp_daemon_core *core;
    struct wp_api_config server;
    struct wp_cluster *cluster;
    struct wp_webhook *webhook; /* NULL: nobody has objects converted. */
    bool webhook_runs;
    struct wp_cluster_webhook webhook_config;
    struct wp_cluster_identity identities;
    char identity[96];
    uint8_t sandbox_key[WP_SANDBOX_KEY_LEN];
    uint8_t egress_key[WP_EGRESS_KEY_LEN];
    bool has_sandbox_key;
    bool shared;                   /* Every replica knows the leases. */
    struct wp_daemon_redis *redis; /* NULL: another store. Borrowed. */
    /* Set by the cluster's thread, looked at by control. */
    _Atomic(bool) leads;
    _Atomic(bool) serves; /* Written by control, or before it runs. */
    bool health;          /* What health says of it; control. */
};

/* --- What the cluster calls; its thread --- */

static bool
post(void *ctx, void (*run)(void *arg, uint64_t a, uint64_t b), void *arg,
     uint64_t a, uint64_t b)
{
    struct wp_daemon_cluster *self = ctx;

    return wp_loop_post(self->core->loop, run, arg, a, b);
}

static void
on_leading(void *ctx, bool leads)
{
    struct wp_daemon_cluster *self = ctx;

    atomic_store_explicit(&self->leads, leads, memory_order_release);
    wp_control_wake(self->core->control);
}

static void
on_fatal(void *ctx, const char *reason)
{
    struct wp_daemon_cluster *self = ctx;

    (void)reason; /* It was logged; whoever starts us starts us anew. */
    wp_daemon_fail(self->core);
}

static void
use_certificate(void *ctx, const char *cert, const char *key)
{
    struct wp_daemon_cluster *self = ctx;
    struct wp_err err;

    if (wp_webhook_use(self->webhook, cert, key, &err) != WP_OK) {
        wp_log_error("the webhook's certificate cannot be kept",
                     wp_kv_err(&err));
    }
}

static void
take_keys(void *ctx, json_t *data)
{
    const struct wp_daemon_cluster *self = ctx;

    wp_signer_take(self->core->signer, data);
}

static json_t *
change_keys(void *ctx)
{
    const struct wp_daemon_cluster *self = ctx;

    return wp_signer_change(self->core->signer);
}

static enum wp_status /* NOLINTNEXTLINE(readability-function-size): a port. */
sign(void *ctx, const struct wp_claim_info *lease, struct wp_str audience,
     int64_t ttl_ms, char token[WP_IDENTITY_TOKEN_MAX + 1],
     int64_t *expires_wall_ms, struct wp_err *err)
{
    const struct wp_daemon_cluster *self = ctx;

    return wp_signer_sign(self->core->signer, lease, audience, ttl_ms, token,
                          expires_wall_ms, err);
}

/* --- Control thread --- */

static bool
has_records(void *ctx)
{
    const struct wp_daemon_cluster *self = ctx;

    return wp_daemon_redis_is_read(self->redis);
}

void
wp_daemon_cluster_turn(struct wp_daemon_cluster *self,
                       struct wp_daemon_servers *servers)
{
    bool leads;
    bool health;

    if (self == NULL) {
        return;
    }
    leads = atomic_load_explicit(&self->leads, memory_order_acquire);
    if (leads != wp_daemon_is_keeper(self->core)) {
        wp_pools_set_keeper(self->core->pools, leads);
        atomic_store_explicit(&self->core->keeper, leads, memory_order_release);
        atomic_store_explicit(&self->serves, leads || self->shared,
                              memory_order_release);
    }
    health = (leads || self->shared) && wp_daemon_servers_are_serving(servers);
    if (health != self->health) {
        self->health = health;
        wp_daemon_servers_set_health(servers, health);
    }
}

/* --- Making it --- */

static enum wp_status
read_default(const struct wp_conf *conf, struct wp_api_config *server,
             struct wp_err *err)
{
    /* Before threads start. NOLINTBEGIN(concurrency-mt-unsafe) */
    const char *kubeconfig = getenv("KUBECONFIG");
    const char *home = getenv("HOME");
    bool in_pod = getenv("KUBERNETES_SERVICE_HOST") != NULL;
    /* NOLINTEND(concurrency-mt-unsafe) */
    const char *context =
        conf->kube_context[0] != '\0' ? conf->kube_context : NULL;
    char path[4096];

    if (in_pod && context != NULL) {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "setting 'kube_context': expected 'kubeconfig' "
                          "beside it in a Pod");
    }
    if (in_pod) {
        return wp_api_config_in_cluster(server, NULL, err);
    }
    if (kubeconfig != NULL && kubeconfig[0] != '\0') {
        return wp_api_config_read(server, kubeconfig, context, err);
    }
    (void)snprintf(path, sizeof path, "%s/.kube/config",
                   home != NULL ? home : "");
    return wp_api_config_read(server, path, context, err);
}

static enum wp_status
read_server(const struct wp_conf *conf, struct wp_api_config *server,
            struct wp_err *err)
{
    enum wp_status status =
        conf->kubeconfig[0] != '\0'
            ? wp_api_config_read(
                  server, conf->kubeconfig,
                  conf->kube_context[0] != '\0' ? conf->kube_context : NULL,
                  err)
            : read_default(conf, server, err);

    return status == WP_OK ? WP_OK : wp_err_wrap(err, "setting 'kubeconfig'");
}

/* Unique among replicas, also when a container starts again in its Pod. */
static void
make_identity(struct wp_daemon_cluster *self)
{
    uint8_t random[8];
    char hex[2 * sizeof random + 1];

    wp_random_bytes(random, sizeof random);
    wp_hex_encode(random, sizeof random, hex);
    (void)snprintf(self->identity, sizeof self->identity, "%s_%s",
                   self->core->conf->replica_name, hex);
}

static uint32_t
controllers_of(const struct wp_conf *conf)
{
    uint32_t bits = 0;

    for (uint32_t i = 0; i < conf->controllers.len; i++) {
        bits |= wp_conf_controller(conf->controllers.items[i]);
    }
    return bits;
}

/* Only from a key that all replicas have, and have again after a restart: the
 * Pods outlive them. */
static enum wp_status
read_sandbox_key(struct wp_daemon_cluster *self, struct wp_err *err)
{
    uint8_t key[WP_TOKEN_KEY_LEN];
    bool made;

    if (self->core->conf->token_key_file[0] == '\0') {
        return WP_OK;
    }
    if (wp_daemon_read_key(self->core->conf, key, &made, err) != WP_OK) {
        return err->status;
    }
    wp_token_key_derive(key, "sandbox tokens", self->sandbox_key,
                        sizeof self->sandbox_key);
    explicit_bzero(key, sizeof key);
    self->has_sandbox_key = true;
    return wp_daemon_read_egress_key(self->core->conf, self->egress_key, err);
}

static void
fill_config(struct wp_daemon_cluster *self, struct wp_cluster_config *out)
{
    const struct wp_conf *conf = self->core->conf;

    wp_cluster_config_init(out);
    out->server = &self->server;
    out->controllers = controllers_of(conf);
    out->watch_ns = wp_conf_or_null(conf->watch_namespace);
    out->election_ns = wp_conf_or_null(conf->leader_election_namespace);
    out->election_name = conf->leader_election_name;
    out->identity = self->identity;
    out->election = conf->leader_elect;
    out->cluster_domain = conf->cluster_domain;
    out->sandbox_port = (uint16_t)conf->sandbox_port;
    out->cold_grace_ns = conf->cold_grace;
    out->cold_start = conf->cold_start;
    out->ready_grace_ns = conf->readiness_grace;
    out->watch_silence_ns = conf->watch_silence;
    if (conf->create_inflight_max > 0) {
        out->create_inflight_max = (uint32_t)conf->create_inflight_max;
    }
    out->implicit_pool = (uint32_t)conf->implicit_pool;
    out->implicit_pool_idle_ns = conf->implicit_pool_idle;
    out->implicit_pools_max = (uint32_t)conf->implicit_pools_max;
    out->sandboxes_max = (uint32_t)conf->slots_max;
    out->rebuild_leases = conf->lease_store == WP_CONF_STORE_MEMORY;
    out->qps = (double)conf->kube_api_qps;
    out->burst = (uint32_t)conf->kube_api_burst;
    out->default_tier = (enum wp_tier)conf->default_tier;
    out->claim_events = !conf->disable_claim_events;
    out->observability_annotations =
        !conf->disable_claim_observability_annotations;
    out->warm_pool_eviction = conf->warm_pool_eviction;
    out->gc = conf->garbage_collect;
    out->sandbox_key = self->has_sandbox_key ? self->sandbox_key : NULL;
    out->egress = (struct wp_cluster_egress){
        .proxy = wp_conf_or_null(conf->egress_proxy),
        .key = self->egress_key,
    };
    out->git = (struct wp_cluster_git){
        .remotes = conf->git_remotes,
        .remotes_denied = conf->git_remotes_denied,
        .fetch_socket = conf->fetch_socket,
        .repository_bytes_max = (uint64_t)conf->git_repository_size,
        .cache_bytes_max = (uint64_t)conf->git_cache_size,
        .cache_age_s = conf->git_cache_age / WP_NS_PER_S,
        .timeout_ms = conf->git_timeout / WP_NS_PER_MS,
        .trust = (enum wp_trust_mode)conf->git_trust,
        .trust_files = conf->git_trust_files,
    };
    out->webhook = self->webhook != NULL ? &self->webhook_config : NULL;
    self->identities = (struct wp_cluster_identity){
        .secret = conf->identity_secret,
        .ctx = self,
        .take = take_keys,
        .change = change_keys,
        .sign = sign,
    };
    out->identities = self->core->signer != NULL ? &self->identities : NULL;
    out->tracer = wp_exporter_tracer(self->core->exporter);
    out->allowed_label_domains_file =
        wp_conf_or_null(conf->allowed_label_domains_file);
    if (out->allowed_label_domains_file == NULL &&
        access(LABEL_DOMAINS, R_OK) == 0) {
        out->allowed_label_domains_file = LABEL_DOMAINS;
    }
}

static enum wp_status
create_webhook(struct wp_daemon_cluster *self, struct wp_err *err)
{
    const struct wp_conf *conf = self->core->conf;

    if (conf->webhook_listen[0] == '\0') {
        return WP_OK;
    }
    self->webhook =
        wp_webhook_create(conf->webhook_listen, conf->runtime_dir, err);
    if (self->webhook == NULL) {
        return wp_err_wrap(err, "setting 'webhook_listen'");
    }
    self->webhook_config = (struct wp_cluster_webhook){
        .service = conf->webhook_service,
        .url = wp_conf_or_null(conf->webhook_url),
        .secret = conf->webhook_secret,
        .ctx = self,
        .use = use_certificate,
    };
    return WP_OK;
}

struct wp_daemon_cluster *
wp_daemon_cluster_create(struct wp_daemon_core *core, struct wp_err *err)
{
    struct wp_daemon_cluster *self = calloc(1, sizeof *self);
    struct wp_cluster_config config;

    if (self == NULL) {
        (void)wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        return NULL;
    }
    self->core = core;
    self->shared = core->conf->lease_store == WP_CONF_STORE_REDIS;
    self->health = true; /* As servers begin. */
    atomic_init(&self->serves, self->shared);
    make_identity(self);
    if (read_sandbox_key(self, err) != WP_OK ||
        read_server(core->conf, &self->server, err) != WP_OK ||
        create_webhook(self, err) != WP_OK) {
        wp_daemon_cluster_destroy(self);
        return NULL;
    }
    fill_config(self, &config);
    self->cluster = wp_cluster_create(&config, err);
    if (self->cluster == NULL) {
        (void)wp_err_wrap(err, "the API server's client");
        wp_daemon_cluster_destroy(self);
        return NULL;
    }
    wp_log_info("cluster", wp_kv_str("server", self->server.server),
                wp_kv_str("namespace", self->server.own_namespace),
                wp_kv_str("identity", self->identity));
    return self;
}

struct wp_backend
wp_daemon_cluster_port(struct wp_daemon_cluster *self)
{
    return wp_cluster_backend(self->cluster);
}

enum wp_status
wp_daemon_cluster_start(struct wp_daemon_cluster *self,
                        struct wp_daemon_redis *redis, struct wp_err *err)
{
    const struct wp_cluster_core core = {
        .pools = self->core->pools,
        .ctx = self,
        .post = post,
        .has_records = redis != NULL ? has_records : NULL,
        .on_leading = on_leading,
        .on_fatal = on_fatal,
    };

    self->redis = redis;
    if (self->webhook != NULL) {
        if (wp_webhook_start(self->webhook, err) != WP_OK) {
            return err->status;
        }
        self->webhook_runs = true;
        wp_log_info("listening", wp_kv_str("protocol", "webhook"),
                    wp_kv_str("address", wp_webhook_address(self->webhook)));
    }
    return wp_cluster_start(self->cluster, &core, err);
}

/* --- Questions --- */

const _Atomic(bool) *
wp_daemon_cluster_serves(const struct wp_daemon_cluster *self)
{
    return self != NULL ? &self->serves : NULL;
}

const char *
wp_daemon_cluster_not_ready(const struct wp_daemon_cluster *self)
{
    if (self == NULL) {
        return NULL;
    }
    if (!wp_cluster_synced(self->cluster)) {
        return "not every watch of the cluster has its whole list yet";
    }
    return wp_cluster_refused(self->cluster)
               ? "the API server refuses the leader's Lease to this account"
               : NULL;
}

void
wp_daemon_cluster_locate(const struct wp_daemon_cluster *self,
                         struct wp_claim_info *info)
{
    char endpoint[WP_ENDPOINT_MAX + 1];

    if (self != NULL && wp_cluster_find_sandbox(
                            self->cluster, wp_str_from(info->pool_namespace),
                            wp_str_from(info->sandbox), endpoint)) {
        /* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): info is. */
        memcpy(info->endpoint, endpoint, sizeof endpoint);
    }
}

bool
wp_daemon_cluster_find(const struct wp_daemon_cluster *self, struct wp_str ns,
                       struct wp_str name, struct wp_claim_info *out)
{
    memset(out, 0, sizeof *out);
    if (self == NULL ||
        !wp_cluster_find_sandbox(self->cluster, ns, name, out->endpoint)) {
        return false;
    }
    memcpy(out->tenant, WP_TENANT_SANDBOX_CLAIMS,
           sizeof WP_TENANT_SANDBOX_CLAIMS);
    return wp_str_copy(ns, out->pool_namespace, sizeof out->pool_namespace);
}

void
wp_daemon_cluster_sandbox_token(const struct wp_daemon_cluster *self,
                                const struct wp_claim_info *info,
                                char out[WP_SANDBOX_TOKEN_TEXT + 1])
{
    out[0] = '\0';
    if (self != NULL && self->has_sandbox_key && info->sandbox[0] != '\0') {
        wp_sandbox_token(self->sandbox_key, info->pool_namespace, info->sandbox,
                         out);
    }
}

void
wp_daemon_cluster_metrics(struct wp_daemon_cluster *self, struct evbuffer *out)
{
    if (self != NULL) {
        wp_cluster_metrics(self->cluster, out);
    }
}

/* --- Triggers --- */

struct trigger_claim {
    struct wp_claim_make make;
    struct wp_claim_mark marks[WP_TRIGGER_MARKS_MAX];
    struct wp_trigger_order *order;
};

/* The cluster's thread. */
static void
claim_made(struct wp_claim_make *make)
{
    struct trigger_claim *claim = make->ctx;
    struct wp_trigger_order *order = claim->order;

    order->status = make->status;
    order->retry_after_ns = make->retry_after_ns;
    (void)snprintf(order->reason, sizeof order->reason, "%s", make->reason);
    free(claim);
    order->done(order);
}

bool
wp_daemon_cluster_make_claim(struct wp_daemon_cluster *self,
                             struct wp_trigger_order *order)
{
    const struct wp_trigger *trigger = order->trigger;
    struct trigger_claim *claim = calloc(1, sizeof *claim);
    bool taken;

    if (claim == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < trigger->n_marks; i++) {
        claim->marks[i] = (struct wp_claim_mark){trigger->marks[i].key,
                                                 trigger->marks[i].value};
    }
    claim->order = order;
    claim->make = (struct wp_claim_make){
        .ns = order->ns,
        .name = order->name,
        .template_name = order->template_name,
        .ttl_ns = trigger->ttl_ns,
        .marks = claim->marks,
        .n_marks = trigger->n_marks,
        .traceparent = order->traceparent,
        .done = claim_made,
        .ctx = claim,
    };
    taken = wp_cluster_make_claim(self->cluster, &claim->make);
    if (!taken) {
        free(claim);
    }
    return taken;
}

/* --- Ending it --- */

void
wp_daemon_cluster_quiet(struct wp_daemon_cluster *self)
{
    if (self != NULL) {
        wp_cluster_quiet(self->cluster);
    }
}

void
wp_daemon_cluster_stop(struct wp_daemon_cluster *self)
{
    if (self != NULL) {
        wp_cluster_stop(self->cluster, STOP_NS);
        if (self->webhook_runs) {
            wp_webhook_stop(self->webhook);
        }
    }
}

void
wp_daemon_cluster_destroy(struct wp_daemon_cluster *self)
{
    if (self == NULL) {
        return;
    }
    wp_cluster_destroy(self->cluster);
    wp_webhook_destroy(self->webhook);
    wp_api_config_fini(&self->server);
    explicit_bzero(self->sandbox_key, sizeof self->sandbox_key);
    explicit_bzero(self->egress_key, sizeof self->egress_key);
    free(self);
}
