/* tests/unit/allocator/daemon/cluster_test.c - what the daemon gives the
 * cluster's side from its settings, and what it does when that calls or is
 * asked. The cluster is the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "allocator/daemon/cluster.h"
#include "allocator/daemon/core.h"
#include "allocator/daemon/files.h"
#include "allocator/daemon/servers.h"
#include "allocator/http/trigger.h"
#include "allocator/metrics/cluster_metrics.h"
#include "allocator/webhook/webhook.h"
#include "k8s/cluster/claim_make.h"
#include "k8s/cluster/cluster.h"
#include "tests/unit/allocator/daemon/journal.h"

enum {
    KEY = 0x11,
    SANDBOX_KEY = 0x22,
    EGRESS_KEY = 0x33,
};

TOLD(wp_cluster_quiet, struct wp_cluster)
TOLD(wp_control_wake, void)
TOLD(wp_webhook_stop, struct wp_webhook)
TOLD(wp_daemon_fail, struct wp_daemon_core)
TOLD(wp_cluster_destroy, struct wp_cluster)
TOLD(wp_webhook_destroy, struct wp_webhook)
int __wrap_access(const char *path, int mode);
int __real_access(const char *path, int mode);
char *__wrap_getenv(const char *variable);
char *__real_getenv(const char *variable);
void __wrap_wp_api_config_fini(struct wp_api_config *config);
enum wp_status __wrap_wp_api_config_in_cluster(struct wp_api_config *config,
                                               const char *root,
                                               struct wp_err *err);
enum wp_status __wrap_wp_api_config_read(struct wp_api_config *config,
                                         const char *path, const char *context,
                                         struct wp_err *err);
struct wp_backend __wrap_wp_cluster_backend(struct wp_cluster *of);
struct wp_cluster *
__wrap_wp_cluster_create(const struct wp_cluster_config *config,
                         struct wp_err *err);
bool __wrap_wp_cluster_find_sandbox(const struct wp_cluster *of,
                                    struct wp_str ns, struct wp_str name,
                                    char out[WP_ENDPOINT_MAX + 1]);
bool __wrap_wp_cluster_make_claim(struct wp_cluster *of,
                                  struct wp_claim_make *make);
void __wrap_wp_cluster_metrics(const struct wp_cluster *of,
                               struct evbuffer *out);
bool __wrap_wp_cluster_refused(const struct wp_cluster *of);
enum wp_status __wrap_wp_cluster_start(struct wp_cluster *of,
                                       const struct wp_cluster_core *with,
                                       struct wp_err *err);
void __wrap_wp_cluster_stop(struct wp_cluster *of, int64_t timeout_ns);
bool __wrap_wp_cluster_synced(const struct wp_cluster *of);
enum wp_status __wrap_wp_daemon_read_egress_key(const struct wp_conf *of,
                                                uint8_t out[WP_EGRESS_KEY_LEN],
                                                struct wp_err *err);
enum wp_status __wrap_wp_daemon_read_key(const struct wp_conf *of,
                                         uint8_t out[WP_TOKEN_KEY_LEN],
                                         bool *made, struct wp_err *err);
bool __wrap_wp_daemon_redis_is_read(struct wp_daemon_redis *redis);
bool __wrap_wp_daemon_servers_are_serving(const struct wp_daemon_servers *of);
void __wrap_wp_daemon_servers_set_health(struct wp_daemon_servers *of,
                                         bool serving);
struct wp_tracer *__wrap_wp_exporter_tracer(struct wp_exporter *exporter);
bool __wrap_wp_loop_post(struct wp_loop *loop,
                         void (*run)(void *ctx, uint64_t a, uint64_t b),
                         void *ctx, uint64_t a, uint64_t b);
void __wrap_wp_pools_set_keeper(struct wp_pools *pools, bool keeper);
void __wrap_wp_random_bytes(void *out, size_t len);
void __wrap_wp_sandbox_token(const uint8_t key[WP_SANDBOX_KEY_LEN],
                             const char *ns, const char *name,
                             char out[WP_SANDBOX_TOKEN_TEXT + 1]);
json_t *__wrap_wp_signer_change(struct wp_signer *signer);
enum wp_status __wrap_wp_signer_sign(struct wp_signer *signer,
                                     const struct wp_claim_info *lease,
                                     struct wp_str audience, int64_t ttl_ms,
                                     char token[WP_IDENTITY_TOKEN_MAX + 1],
                                     int64_t *expires_wall_ms,
                                     struct wp_err *err);
void __wrap_wp_signer_take(struct wp_signer *signer, json_t *data);
void __wrap_wp_token_key_derive(const uint8_t bytes[WP_TOKEN_KEY_LEN],
                                const char *purpose, void *out, size_t len);
const char *__wrap_wp_webhook_address(const struct wp_webhook *self);
struct wp_webhook *__wrap_wp_webhook_create(const char *listen, const char *dir,
                                            struct wp_err *err);
enum wp_status __wrap_wp_webhook_start(struct wp_webhook *self,
                                       struct wp_err *err);
enum wp_status __wrap_wp_webhook_use(struct wp_webhook *self, const char *cert,
                                     const char *key, struct wp_err *err);

/* Of the variables that are looked at; NULL: it is not set. */
static struct {
    char *kubeconfig;
    char *home;
    char *host;
} env;
static struct wp_conf *conf;
static struct wp_daemon_core core;
static struct wp_daemon_cluster *cluster;
/* What the cluster was given. */
static struct wp_cluster_webhook webhook;
static struct wp_cluster_identity identities;
static struct wp_cluster_core given;

static const char *
text(const char *value)
{
    return value != NULL ? value : "NULL";
}

static const char *
key_name(const uint8_t *key, size_t n)
{
    for (size_t i = 1; key != NULL && i < n; i++) {
        assert_int_equal(key[i], key[0]);
    }
    return key == NULL             ? "none"
           : key[0] == KEY         ? "key"
           : key[0] == SANDBOX_KEY ? "sandbox key"
           : key[0] == EGRESS_KEY  ? "egress key"
           : key[0] == 0           ? "zeros"
                                   : "?";
}

/* --- The system --- */

int
__wrap_access(const char *path, int mode)
{
    bool there;

    if (mode != R_OK) { /* Of what counts the lines that are executed. */
        return __real_access(path, mode);
    }
    there = journal_said("there", false) != 0;
    journal("is there %s? %d", path, there);
    return there ? 0 : -1;
}

char *
__wrap_getenv(const char *variable)
{
    return strcmp(variable, "KUBECONFIG") == 0 ? env.kubeconfig
           : strcmp(variable, "HOME") == 0     ? env.home
           : strcmp(variable, "KUBERNETES_SERVICE_HOST") == 0
               ? env.host
               : __real_getenv(variable);
}

void
__wrap_wp_random_bytes(void *out, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        ((uint8_t *)out)[i] = (uint8_t)(0xa0 + i);
    }
}

static void
wipes(size_t n)
{
    if (n == WP_SANDBOX_KEY_LEN) { /* Not a setting. */
        journal("a key is wiped");
    }
}

/* --- Keys --- */

enum wp_status
__wrap_wp_daemon_read_key(const struct wp_conf *of,
                          uint8_t out[WP_TOKEN_KEY_LEN], bool *made,
                          struct wp_err *err)
{
    assert_ptr_equal(of, conf);
    memset(out, KEY, WP_TOKEN_KEY_LEN);
    *made = false;
    journal("read key");
    return journal_status("read key", err);
}

enum wp_status
__wrap_wp_daemon_read_egress_key(const struct wp_conf *of,
                                 uint8_t out[WP_EGRESS_KEY_LEN],
                                 struct wp_err *err)
{
    assert_ptr_equal(of, conf);
    memset(out, EGRESS_KEY, WP_EGRESS_KEY_LEN);
    journal("read egress key");
    return journal_status("read egress key", err);
}

void
__wrap_wp_token_key_derive(const uint8_t bytes[WP_TOKEN_KEY_LEN],
                           const char *purpose, void *out, size_t len)
{
    journal("derive for %s from %s, %zu bytes", purpose,
            key_name(bytes, WP_TOKEN_KEY_LEN), len);
    memset(out, SANDBOX_KEY, len);
}

void
__wrap_wp_sandbox_token(const uint8_t key[WP_SANDBOX_KEY_LEN], const char *ns,
                        const char *name, char out[WP_SANDBOX_TOKEN_TEXT + 1])
{
    (void)snprintf(out, WP_SANDBOX_TOKEN_TEXT + 1, "%s of %s/%s",
                   key_name(key, WP_SANDBOX_KEY_LEN), ns, name);
}

/* --- The API server's address, the webhook --- */

static enum wp_status
server_read(struct wp_api_config *config, struct wp_err *err)
{
    static char server[] = "https://api";
    static char own[] = "own";
    enum wp_status status = journal_status("server", err);

    if (status == WP_OK) {
        config->server = server;
        config->own_namespace = own;
    }
    return status;
}

enum wp_status
__wrap_wp_api_config_read(struct wp_api_config *config, const char *path,
                          const char *context, struct wp_err *err)
{
    journal("read %s, context %s", path, text(context));
    return server_read(config, err);
}

enum wp_status
__wrap_wp_api_config_in_cluster(struct wp_api_config *config, const char *root,
                                struct wp_err *err)
{
    journal("in the cluster, root %s", text(root));
    return server_read(config, err);
}

void
__wrap_wp_api_config_fini(struct wp_api_config *config)
{
    journal("server %s is forgotten", text(config->server));
}

struct wp_webhook *
__wrap_wp_webhook_create(const char *listen, const char *dir,
                         struct wp_err *err)
{
    journal("webhook at %s, %s", listen, dir);
    return journal_status("webhook", err) == WP_OK ? journal_thing("webhook")
                                                   : NULL;
}

enum wp_status
__wrap_wp_webhook_start(struct wp_webhook *self, struct wp_err *err)
{
    journal("start %s", journal_name(self));
    return journal_status("webhook start", err);
}

const char *
__wrap_wp_webhook_address(const struct wp_webhook *self)
{
    assert_string_equal(journal_name(self), "webhook");
    return "1.2.3.4:5";
}

enum wp_status
__wrap_wp_webhook_use(struct wp_webhook *self, const char *cert,
                      const char *key, struct wp_err *err)
{
    journal("%s uses %s, %s", journal_name(self), cert, key);
    return journal_status("use", err);
}

/* --- The cluster --- */

static void
tell_config(const struct wp_cluster_config *c)
{
    journal("  server %s, controllers %u, watch %s, election %s %s %d, %s",
            c->server->server, c->controllers, text(c->watch_ns),
            text(c->election_ns), c->election_name, c->election, c->identity);
    journal("  domain %s, port %u, cold %d after %lld, ready %lld, silence "
            "%lld, at once %u",
            c->cluster_domain, c->sandbox_port, c->cold_start,
            (long long)c->cold_grace_ns, (long long)c->ready_grace_ns,
            (long long)c->watch_silence_ns, c->create_inflight_max);
    journal("  implicit %u, idle %lld, at most %u; sandboxes %u, rebuild %d",
            c->implicit_pool, (long long)c->implicit_pool_idle_ns,
            c->implicit_pools_max, c->sandboxes_max, c->rebuild_leases);
    journal("  %g a second, burst %u, tier %d, events %d, annotations %d, "
            "eviction %d, gc %d, domains %s",
            c->qps, c->burst, (int)c->default_tier, c->claim_events,
            c->observability_annotations, c->warm_pool_eviction, c->gc,
            text(c->allowed_label_domains_file));
    journal("  %s; egress %s, %s; tracer %s",
            key_name(c->sandbox_key, WP_SANDBOX_KEY_LEN), text(c->egress.proxy),
            key_name(c->egress.key, WP_EGRESS_KEY_LEN),
            journal_name(c->tracer));
    journal("  git '%s' '%s' '%s', %llu bytes, cache %llu bytes %lld s, %lld "
            "ms, trust %d '%s'",
            c->git.remotes, c->git.remotes_denied, c->git.fetch_socket,
            (unsigned long long)c->git.repository_bytes_max,
            (unsigned long long)c->git.cache_bytes_max,
            (long long)c->git.cache_age_s, (long long)c->git.timeout_ms,
            (int)c->git.trust, c->git.trust_files);
    if (c->webhook != NULL) {
        webhook = *c->webhook;
        journal("  webhook %s, %s, %s", webhook.service, text(webhook.url),
                webhook.secret);
    }
    if (c->identities != NULL) {
        identities = *c->identities;
        journal("  identities in %s", identities.secret);
    }
}

struct wp_cluster *
__wrap_wp_cluster_create(const struct wp_cluster_config *config,
                         struct wp_err *err)
{
    assert_ptr_equal(config->clock, wp_clock_system());
    journal("create cluster:");
    tell_config(config);
    return journal_status("cluster", err) == WP_OK ? journal_thing("cluster")
                                                   : NULL;
}

struct wp_backend
__wrap_wp_cluster_backend(struct wp_cluster *of)
{
    return (struct wp_backend){.self = of, .at_once = 17};
}

enum wp_status
__wrap_wp_cluster_start(struct wp_cluster *of,
                        const struct wp_cluster_core *with, struct wp_err *err)
{
    given = *with;
    journal("start %s with %s, records are %s", journal_name(of),
            journal_name(with->pools),
            with->has_records != NULL ? "asked for" : "there");
    return journal_status("cluster start", err);
}

void
__wrap_wp_cluster_stop(struct wp_cluster *of, int64_t timeout_ns)
{
    journal("stop %s within %lld", journal_name(of), (long long)timeout_ns);
}

bool
__wrap_wp_cluster_synced(const struct wp_cluster *of)
{
    assert_string_equal(journal_name(of), "cluster");
    return journal_said("synced", true) != 0;
}

bool
__wrap_wp_cluster_refused(const struct wp_cluster *of)
{
    assert_string_equal(journal_name(of), "cluster");
    return journal_said("refused", false) != 0;
}

bool
__wrap_wp_cluster_find_sandbox(const struct wp_cluster *of, struct wp_str ns,
                               struct wp_str name,
                               char out[WP_ENDPOINT_MAX + 1])
{
    bool found = journal_said("found", true) != 0;

    assert_string_equal(journal_name(of), "cluster");
    journal("find %.*s/%.*s: %d", (int)ns.len, ns.ptr, (int)name.len, name.ptr,
            found);
    (void)snprintf(out, WP_ENDPOINT_MAX + 1, "10.0.0.1:8888");
    if (journal_said("longest", false) != 0) {
        memset(out, '1', WP_ENDPOINT_MAX);
        out[WP_ENDPOINT_MAX] = '\0';
    }
    return found;
}

void
__wrap_wp_cluster_metrics(const struct wp_cluster *of, struct evbuffer *out)
{
    journal("metrics of %s into %s", journal_name(of), journal_name(out));
}

bool
__wrap_wp_cluster_make_claim(struct wp_cluster *of, struct wp_claim_make *make)
{
    bool taken = journal_said("taken", true) != 0;

    journal("%s: make claim %s/%s of %s, ttl %lld, trace %s: %d",
            journal_name(of), make->ns, make->name, make->template_name,
            (long long)make->ttl_ns, make->traceparent, taken);
    for (uint32_t i = 0; i < make->n_marks; i++) {
        journal("  %s: %s", make->marks[i].key, make->marks[i].value);
    }
    if (taken) {
        make->status = WP_NOT_FOUND;
        make->retry_after_ns = 5;
        (void)snprintf(make->reason, sizeof make->reason, "%0*d", 255, 0);
        make->done(make);
    }
    return taken;
}

/* --- The rest of the daemon --- */

bool
__wrap_wp_daemon_redis_is_read(struct wp_daemon_redis *redis)
{
    journal("is %s read?", journal_name(redis));
    return journal_said("is read", true) != 0;
}

bool
__wrap_wp_daemon_servers_are_serving(const struct wp_daemon_servers *of)
{
    assert_string_equal(journal_name(of), "servers");
    return journal_said("serving", true) != 0;
}

void
__wrap_wp_daemon_servers_set_health(struct wp_daemon_servers *of, bool serving)
{
    journal("health of %s: %d", journal_name(of), serving);
}

struct wp_tracer *
__wrap_wp_exporter_tracer(struct wp_exporter *exporter)
{
    return exporter != NULL ? journal_thing("tracer") : NULL;
}

bool
__wrap_wp_loop_post(struct wp_loop *loop,
                    void (*run)(void *ctx, uint64_t a, uint64_t b), void *ctx,
                    uint64_t a, uint64_t b)
{
    assert_null(run);
    journal("post to %s: %s %llu %llu", journal_name(loop), journal_name(ctx),
            (unsigned long long)a, (unsigned long long)b);
    return journal_said("posted", true) != 0;
}

void
__wrap_wp_pools_set_keeper(struct wp_pools *pools, bool keeper)
{
    journal("%s keep: %d", journal_name(pools), keeper);
}

json_t *
__wrap_wp_signer_change(struct wp_signer *signer)
{
    journal("%s changes keys", journal_name(signer));
    return journal_thing("keys to write");
}

void
__wrap_wp_signer_take(struct wp_signer *signer, json_t *data)
{
    journal("%s takes %s", journal_name(signer), journal_name(data));
}

enum wp_status
__wrap_wp_signer_sign(struct wp_signer *signer,
                      const struct wp_claim_info *lease, struct wp_str audience,
                      int64_t ttl_ms, char token[WP_IDENTITY_TOKEN_MAX + 1],
                      int64_t *expires_wall_ms, struct wp_err *err)
{
    journal("%s signs for %s, audience %.*s, ttl %lld", journal_name(signer),
            lease->claim_id, (int)audience.len, audience.ptr,
            (long long)ttl_ms);
    (void)snprintf(token, 8, "token");
    *expires_wall_ms = 99;
    return journal_status("sign", err);
}

/* --- The tests --- */

static void
set(const char *yaml)
{
    struct wp_err err = {.msg = ""};

    if (wp_conf_read_text(conf, wp_str_from(yaml), "test", &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
}

static int
begin(void **state)
{
    static char home[] = "/home/me";

    (void)journal_begin(state);
    journal_wipes = wipes;
    env.kubeconfig = NULL;
    env.home = home;
    env.host = NULL;
    cluster = NULL;
    conf = wp_conf_create();
    if (conf == NULL) {
        return -1;
    }
    set("backend: kubernetes\nreplica_name: me\nlease_store: memory\n"
        "runtime_dir: /run/w\n");
    memset(&core, 0, sizeof core);
    core.conf = conf;
    core.loop = journal_thing("control thread");
    core.control = journal_thing("control");
    core.pools = journal_thing("pools");
    journal_know(&core, "core");
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
create(void)
{
    struct wp_err err = {.msg = ""};

    cluster = wp_daemon_cluster_create(&core, &err);
    if (cluster == NULL) {
        journal("not created: %s: %s", wp_status_name(err.status), err.msg);
    }
}

static void
start(void)
{
    struct wp_err err = {.msg = ""};

    if (wp_daemon_cluster_start(cluster,
                                conf->lease_store == WP_CONF_STORE_REDIS
                                    ? journal_thing("redis")
                                    : NULL,
                                &err) != WP_OK) {
        journal("not started: %s: %s", wp_status_name(err.status), err.msg);
    }
}

static void
test_settings_reach_the_cluster(void **state)
{
    (void)state;
    create();
    wp_daemon_cluster_destroy(cluster);
    journal_is("cluster_defaults");
    set("controllers: [sandbox, claim]\nwatch_namespace: watched\n"
        "leader_election_namespace: elects\nleader_election_name: lock\n"
        "leader_elect: false\ncluster_domain: domain\nsandbox_port: 65535\n"
        "cold_grace: 3s\ncold_start: false\nreadiness_grace: 4s\n"
        "watch_silence: 50s\ncreate_inflight_max: 1\nimplicit_pool: 7\n"
        "implicit_pool_idle: 8s\nimplicit_pools_max: 9\nslots_max: 10\n");
    set("kube_api_qps: 11\nkube_api_burst: 12\ndefault_tier: T3\n"
        "disable_claim_events: true\n"
        "disable_claim_observability_annotations: true\n"
        "warm_pool_eviction: false\ngarbage_collect: true\n"
        "allowed_label_domains_file: /domains\negress_proxy: proxy:1\n"
        "token_key_file: /key\nlease_store: redis\n");
    set("git_remotes: 'https://x/*'\ngit_remotes_denied: 'https://x/y'\n"
        "fetch_socket: /fetch\ngit_repository_size: 4096\n"
        "git_cache_size: 5000\ngit_cache_age: 90s\ngit_timeout: 7s\n"
        "git_trust: enforce\ngit_trust_files: a,b\nwebhook_listen: 'h:1'\n"
        "webhook_service: service\nwebhook_url: 'https://u'\n"
        "webhook_secret: hooked\nidentity_secret: identity\n");
    core.exporter = journal_thing("exporter");
    core.signer = journal_thing("signer");
    create();
    wp_daemon_cluster_destroy(cluster);
    journal_is("cluster_settings");
}

static void
test_label_domains_are_where_upstream_has_them(void **state)
{
    (void)state;
    set("lease_store: sqlite\n");
    journal_say("there", true);
    create();
    wp_daemon_cluster_destroy(cluster);
    journal_is("cluster_label_domains");
}

static void
try_server(void)
{
    create();
    wp_daemon_cluster_destroy(cluster);
    cluster = NULL;
    journal("---");
}

static void
test_server_is_where_it_is_said(void **state)
{
    static char config[] = "/my/config";
    static char empty[] = "";
    static char host[] = "10.0.0.1";

    (void)state;
    /* Only what is read, and from where: all fails after it. */
    for (int i = 0; i < 10; i++) {
        journal_say("server", i == 9 ? WP_INVALID_ARGUMENT : WP_NOT_FOUND);
    }
    try_server(); /* ~/.kube/config */
    env.home = NULL;
    try_server();
    env.kubeconfig = empty;
    try_server();
    env.kubeconfig = config;
    try_server();
    set("kube_context: ctx\n");
    try_server();
    env.kubeconfig = NULL;
    try_server();
    env.kubeconfig = config;
    env.host = host;
    try_server(); /* A context, in a Pod. */
    set("kubeconfig: /said\n");
    try_server();
    set("kube_context: ''\n");
    try_server();
    set("kubeconfig: ''\n");
    try_server();
    env.kubeconfig = NULL;
    try_server();
    journal_is("cluster_server");
}

static void
test_what_was_made_is_destroyed_when_a_part_fails(void **state)
{
    static const char *const calls[] = {"read key", "read egress key", "server",
                                        "webhook", "cluster"};

    (void)state;
    set("token_key_file: /key\nwebhook_listen: 'h:1'\n");
    for (size_t i = 0; i < WP_ARRAY_LEN(calls); i++) {
        journal_say(calls[i], WP_UNAVAILABLE);
        create();
        assert_null(cluster);
    }
    journal_no_memory(1);
    create();
    journal_is("cluster_fails");
}

static void
test_cluster_is_started_and_stopped_with_its_webhook(void **state)
{
    (void)state;
    create();
    start();
    journal("port: %s, %u at once",
            journal_name(wp_daemon_cluster_port(cluster).self),
            wp_daemon_cluster_port(cluster).at_once);
    wp_daemon_cluster_quiet(cluster);
    wp_daemon_cluster_stop(cluster);
    wp_daemon_cluster_destroy(cluster);
    set("webhook_listen: 'h:1'\nlease_store: redis\n");
    create();
    start();
    wp_daemon_cluster_stop(cluster);
    wp_daemon_cluster_destroy(cluster);
    create();
    journal_say("webhook start", WP_UNAVAILABLE);
    start();
    wp_daemon_cluster_stop(cluster);
    wp_daemon_cluster_destroy(cluster);
    create();
    journal_say("cluster start", WP_UNAVAILABLE);
    start();
    wp_daemon_cluster_stop(cluster);
    wp_daemon_cluster_destroy(cluster);
    journal_is("cluster_start");
}

static void
test_cluster_calls_the_daemon(void **state)
{
    struct wp_claim_info lease = {.claim_id = "claim"};
    char token[WP_IDENTITY_TOKEN_MAX + 1];
    int64_t expires = 0;
    struct wp_err err = {.msg = ""};

    (void)state;
    set("webhook_listen: 'h:1'\nlease_store: redis\n");
    core.signer = journal_thing("signer");
    create();
    start();
    journal_empty();
    journal("posted: %d",
            given.post(given.ctx, NULL, journal_thing("call"), 3, 4));
    journal_say("posted", false);
    journal("posted: %d",
            given.post(given.ctx, NULL, journal_thing("call"), 5, 6));
    journal("has records: %d", given.has_records(given.ctx));
    journal_say("is read", false);
    journal("has records: %d", given.has_records(given.ctx));
    given.on_fatal(given.ctx, "why");
    webhook.use(webhook.ctx, "cert", "key");
    journal_say("use", WP_INVALID_ARGUMENT);
    webhook.use(webhook.ctx, "cert", "key");
    identities.take(identities.ctx, journal_thing("data"));
    journal("%s", journal_name(identities.change(identities.ctx)));
    journal("signed: %d %s %lld",
            identities.sign(identities.ctx, &lease, WP_STR("them"), 7, token,
                            &expires, &err),
            token, (long long)expires);
    journal_say("sign", WP_NOT_FOUND);
    journal(
        "signed: %s %s",
        wp_status_name(identities.sign(identities.ctx, &lease, WP_STR("them"),
                                       7, token, &expires, &err)),
        err.msg);
    journal_is("cluster_calls");
    wp_daemon_cluster_destroy(cluster);
}

static void
turn(bool serving)
{
    const _Atomic(bool) *serves = wp_daemon_cluster_serves(cluster);

    journal_say("serving", serving);
    wp_daemon_cluster_turn(cluster, journal_thing("servers"));
    journal_forget();
    journal("- turn: keeper %d, serves %d", core.keeper, *serves);
}

static void
lead(bool leads)
{
    given.on_leading(given.ctx, leads);
    journal("- leads: %d, serves %d", leads,
            *wp_daemon_cluster_serves(cluster));
}

static void
test_leader_keeps_and_serves(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        set(shared == 0 ? "lease_store: memory\n" : "lease_store: redis\n");
        atomic_store(&core.keeper, false);
        create();
        start();
        journal_empty();
        journal("- serves %d", *wp_daemon_cluster_serves(cluster));
        turn(true);
        turn(true);
        turn(false);
        lead(true);
        turn(false);
        turn(true);
        turn(true);
        turn(false);
        lead(false);
        turn(true);
        turn(false);
        journal_is(shared == 0 ? "cluster_leads" : "cluster_leads_shared");
        wp_daemon_cluster_destroy(cluster);
        journal_empty();
    }
}

static void
test_what_the_cluster_waits_for_is_said(void **state)
{
    (void)state;
    create();
    journal_empty();
    journal_say("synced", false);
    journal("%s", text(wp_daemon_cluster_not_ready(cluster)));
    journal_say("refused", true);
    journal("%s", text(wp_daemon_cluster_not_ready(cluster)));
    journal("%s", text(wp_daemon_cluster_not_ready(cluster)));
    wp_daemon_cluster_metrics(cluster, journal_thing("page"));
    journal_is("cluster_not_ready");
    wp_daemon_cluster_destroy(cluster);
}

static void
tell_info(const struct wp_claim_info *info)
{
    journal("%s/%s of %s at %s, id '%s'", info->pool_namespace, info->sandbox,
            info->tenant, info->endpoint, info->claim_id);
}

static void
test_sandboxes_are_found_in_the_cluster(void **state)
{
    struct wp_claim_info info = {.pool_namespace = "blue",
                                 .sandbox = "box",
                                 .tenant = "t",
                                 .endpoint = "before:1",
                                 .claim_id = "id"};
    char long_name[WP_NAMESPACE_MAX + 2];

    (void)state;
    create();
    journal_empty();
    journal_say("found", false);
    wp_daemon_cluster_locate(cluster, &info);
    tell_info(&info);
    wp_daemon_cluster_locate(cluster, &info);
    tell_info(&info);
    journal_say("longest", true);
    memset(info.endpoint, 'x', sizeof info.endpoint);
    wp_daemon_cluster_locate(cluster, &info);
    tell_info(&info);
    journal_say("found", false);
    journal("found: %d", wp_daemon_cluster_find(cluster, WP_STR("red"),
                                                WP_STR("box"), &info));
    tell_info(&info);
    (void)snprintf(info.claim_id, sizeof info.claim_id, "old");
    journal("found: %d", wp_daemon_cluster_find(cluster, WP_STR("red"),
                                                WP_STR("box"), &info));
    tell_info(&info);
    memset(long_name, 'n', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    journal("found: %d", wp_daemon_cluster_find(cluster, wp_str_from(long_name),
                                                WP_STR("box"), &info));
    long_name[sizeof long_name - 2] = '\0';
    journal("found: %d", wp_daemon_cluster_find(cluster, wp_str_from(long_name),
                                                WP_STR("box"), &info));
    journal_is("cluster_find");
    wp_daemon_cluster_destroy(cluster);
}

static void
test_sandbox_has_a_token_where_there_is_a_key(void **state)
{
    struct wp_claim_info info = {.pool_namespace = "blue", .sandbox = "box"};
    char token[WP_SANDBOX_TOKEN_TEXT + 1] = "x";

    (void)state;
    create();
    journal_empty();
    wp_daemon_cluster_sandbox_token(cluster, &info, token);
    wp_daemon_cluster_destroy(cluster);
    set("token_key_file: /key\n");
    create();
    journal_empty();
    journal("without: '%s'", token);
    wp_daemon_cluster_sandbox_token(cluster, &info, token);
    journal("with: '%s'", token);
    info.sandbox[0] = '\0';
    wp_daemon_cluster_sandbox_token(cluster, &info, token);
    journal("of none: '%s'", token);
    journal_is("cluster_token");
    wp_daemon_cluster_destroy(cluster);
}

static void
made(struct wp_trigger_order *order)
{
    journal("made: %s, again after %lld, reason of %zu",
            wp_status_name(order->status), (long long)order->retry_after_ns,
            strlen(order->reason));
}

static void
test_trigger_makes_a_claim(void **state)
{
    const struct wp_trigger trigger = {
        .marks = {{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", "4"}, {"e", "5"}},
        .n_marks = 5,
        .ttl_ns = 77,
    };
    struct wp_trigger_order order = {.ns = "blue",
                                     .name = "claim",
                                     .template_name = "t",
                                     .trigger = &trigger,
                                     .traceparent = "trace",
                                     .done = made};

    (void)state;
    create();
    journal_empty();
    journal("taken: %d", wp_daemon_cluster_make_claim(cluster, &order));
    journal_say("taken", false);
    journal("taken: %d", wp_daemon_cluster_make_claim(cluster, &order));
    journal_no_memory(1);
    journal("taken: %d", wp_daemon_cluster_make_claim(cluster, &order));
    journal_no_memory(0);
    journal_is("cluster_trigger");
    wp_daemon_cluster_destroy(cluster);
}

static void
test_without_a_cluster_there_is_nothing(void **state)
{
    struct wp_claim_info info = {
        .pool_namespace = "blue", .sandbox = "box", .endpoint = "before:1"};
    char token[WP_SANDBOX_TOKEN_TEXT + 1] = "x";

    (void)state;
    wp_daemon_cluster_turn(NULL, NULL);
    wp_daemon_cluster_quiet(NULL);
    wp_daemon_cluster_stop(NULL);
    wp_daemon_cluster_destroy(NULL);
    wp_daemon_cluster_metrics(NULL, NULL);
    wp_daemon_cluster_locate(NULL, &info);
    assert_string_equal(info.endpoint, "before:1");
    assert_null(wp_daemon_cluster_serves(NULL));
    assert_null(wp_daemon_cluster_not_ready(NULL));
    wp_daemon_cluster_sandbox_token(NULL, &info, token);
    assert_string_equal(token, "");
    assert_false(
        wp_daemon_cluster_find(NULL, WP_STR("blue"), WP_STR("box"), &info));
    journal("nothing");
    journal_is("cluster_none");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_settings_reach_the_cluster, begin,
                                        end),
        cmocka_unit_test_setup_teardown(
            test_label_domains_are_where_upstream_has_them, begin, end),
        cmocka_unit_test_setup_teardown(test_server_is_where_it_is_said, begin,
                                        end),
        cmocka_unit_test_setup_teardown(
            test_what_was_made_is_destroyed_when_a_part_fails, begin, end),
        cmocka_unit_test_setup_teardown(
            test_cluster_is_started_and_stopped_with_its_webhook, begin, end),
        cmocka_unit_test_setup_teardown(test_cluster_calls_the_daemon, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_leader_keeps_and_serves, begin,
                                        end),
        cmocka_unit_test_setup_teardown(test_what_the_cluster_waits_for_is_said,
                                        begin, end),
        cmocka_unit_test_setup_teardown(test_sandboxes_are_found_in_the_cluster,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            test_sandbox_has_a_token_where_there_is_a_key, begin, end),
        cmocka_unit_test_setup_teardown(test_trigger_makes_a_claim, begin, end),
        cmocka_unit_test_setup_teardown(test_without_a_cluster_there_is_nothing,
                                        begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
