/* What settings are to one another: what they must not contradict, what follows
 * from others, and what does nothing here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "allocator/conf/budget.h"
#include "allocator/conf/conf.h"
#include "allocator/conf/quota.h"
#include "allocator/conf/value.h"

static int
setup(void **state)
{
    *state = wp_conf_create();
    return *state == NULL;
}

static int
teardown(void **state)
{
    wp_conf_destroy(*state);
    return 0;
}

static enum wp_status
read_text(struct wp_conf *conf, const char *text, struct wp_err *err)
{
    return wp_conf_read_text(conf, wp_str_from(text), "f.yaml", err);
}

static void
assert_check(const char *text, const char *message)
{
    struct wp_conf *conf = wp_conf_create();
    struct wp_err err = {.msg = ""};

    assert_non_null(conf);
    assert_int_equal(read_text(conf, text, &err), WP_OK);
    assert_int_equal(wp_conf_resolve(conf, &err), WP_OK);
    assert_int_not_equal(wp_conf_check(conf, &err), WP_OK);
    assert_string_equal(err.msg, message);
    wp_conf_destroy(conf);
}

/* In a file; flag, or NULL: an argument of the daemon beside it. */
static enum wp_status
check(const char *text, const char *flag, struct wp_err *err)
{
    struct wp_conf *conf = wp_conf_create();
    char *argument = strdup(flag != NULL ? flag : "");
    char *const argv[] = {"warmpoold", argument, NULL};
    enum wp_conf_action action;
    enum wp_status status;

    assert_non_null(conf);
    assert_non_null(argument);
    status = read_text(conf, text, err);
    if (status == WP_OK && flag != NULL) {
        status = wp_conf_read_args(conf, 2, argv, &action, err);
    }
    if (status == WP_OK) {
        status = wp_conf_resolve(conf, err);
    }
    if (status == WP_OK) {
        status = wp_conf_check(conf, err);
    }
    free(argument);
    wp_conf_destroy(conf);
    return status;
}

/* What stands right beside what is refused is taken. */
static void
test_takes_what_is_at_the_bounds(void **state)
{
#define T63 "t23456789012345678901234567890123456789012345678901234567890123"
    static const char *const good[] = {
        "listen: '[::1]:80'\n",
        "{listen: '0.0.0.0:7443', tls_cert: /c, tls_key: /k, "
        "tls_client_ca: /a}\n",
        "http_listen: none\n",
        "http_listen: [127.0.0.1:80, '[::1]:80', 'unix:/x']\n",
        "{http_listen: '0.0.0.0:80', tls_cert: /c, tls_key: /k}\n",
        "{http_listen: 127.0.0.1:80, http_require_token: never}\n",
        "metrics_listen: 0.0.0.0:80\n",
        "webhook_listen: 0.0.0.0:80\nwebhook_url: https://x\n",
        "session_pool: p\n",
        "session_pool: n/p\n",
        "trigger_template: n/t\n",
        "session_url: http://h\n",
        "session_url: https://h:1/x\n",
        "otlp_endpoint: http://h:4318\n",
        "{trusting_listen: 10.0.0.1:80, trust_sessions: 10.0.0.0/8}\n",
        "{trusting_listen: 10.0.0.1:80, trust_sandboxes: 10.0.0.0/8}\n",
        "{rpc_calls_max: 100, rpc_waiting_max: 99}\n",
        "identities: [a=*admin, b=t, c=" T63 ", 'd=e=t', anonymous=t]\n",
        "tcp_anonymous: true\n",
        "{tls_client_ca: /a, tls_cert: /c, tls_key: /k}\n",
        "allowed_uids: [0, 4294967294]\n",
        "autoscale_budgets: [a=16777216, b=0]\n",
        "tenant_quotas: [ci leases=16777216 waiting=0]\n",
        "backend: kubernetes\negress_proxy: 'x:80'\ntoken_key_file: /k\n",
        "backend: kubernetes\ngit_remotes: h/x\nfetch_socket: /s\n",
        "backend: kubernetes\nfetch_socket: /s\n",
        "backend: kubernetes\nstop_leaves: all\n",
        "backend: kubernetes\ncontrollers: [sandbox, template, claim, "
        "pool]\n",
        "egress_proxy: x\n",
        "fetch_socket: x\n",
        "identity_issuer: i\n",
        "identity_issuer: https://h/p\n",
        "slots_max: 7\nclaims_max: 7\n",
        "state_dir: /s\naccess_token_file: /t\nrootfs_dir: /r\n"
        "volumes_dir: /v\n",
        "redis_url: redis://u:p@h\n",
        "redis_url: redis://u@h\nredis_password_file: /p\n",
        "redis_url: redis+sentinel://h/m?sentinel_password=p\n",
        "redis_url: redis+sentinel://h/m?sentinel_user=u&sentinel_password=p"
        "\n",
        "redis_url: redis+sentinel://h/m?sentinel_user=u\n"
        "redis_sentinel_password_file: /p\n",
        "redis_url: rediss://h\nredis_tls_ca: /c\nredis_tls_cert: /c\n"
        "redis_tls_key: /k\nredis_tls_name: n\n",
        "lease_store: memory\nstop_leaves: nothing\n"
        "sandbox_outlive: false\n",
        "stop_leaves: leased\nsandbox_outlive: true\n",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(good); i++) {
        struct wp_err err = {.msg = ""};

        if (check(good[i], NULL, &err) != WP_OK) {
            fail_msg("%s: %s", good[i], err.msg);
        }
    }
    assert_check("identities: [c=" T63 "4]\n",
                 "setting 'identities': expected NAME=TENANT (at most 63 "
                 "bytes, not beginning with 'system:') or NAME=*admin, got "
                 "'c=t23456789012345678901234567890123456789012345678901234567"
                 "8'");
#undef T63
}

/* Each refused, with the setting's name first. */
static void
test_refuses_what_is_beyond_the_bounds(void **state)
{
    static const struct {
        const char *text;
        const char *says;
    } rows[] = {
        {"http_listen: [none, none]\n", "'http_listen': address 'none'"},
        {"{http_listen: '0.0.0.0:80', tls_cert: /c, tls_key: /k, "
         "http_require_token: never}\n",
         "'http_require_token': never is for loopback only"},
        {"tls_key: /k\n", "only 'tls_key' is set"},
        {"session_pool: /p\n", "'session_pool'"},
        {"session_pool: n/\n", "'session_pool'"},
        {"session_pool: N/p\n", "'session_pool'"},
        {"session_pool: P\n", "'session_pool'"},
        {"trigger_template: /t\n", "'trigger_template'"},
        {"trigger_template: n/\n", "'trigger_template'"},
        {"trigger_template: n/T\n", "'trigger_template'"},
        {"session_url: 'http://'\n", "'session_url'"},
        {"session_url: 'https://'\n", "'session_url'"},
        {"session_url: 'http://h/'\n", "'session_url'"},
        {"session_url: 'http://h?x'\n", "'session_url'"},
        {"otlp_endpoint: h:4318\n", "'otlp_endpoint'"},
        {"trusting_listen: 10.0.0.1:80\n",
         "'trusting_listen': nobody is trusted on '10.0.0.1:80'"},
        {"trust_sessions: 0.0.0.0/0\n",
         "'trust_sessions': expected networks that are known, got "
         "'0.0.0.0/0', which is everybody"},
        {"trust_sandboxes: x\n", "'trust_sandboxes': "},
        {"identities: [anonymous=*admin]\n",
         "'identities': 'anonymous' proves nothing and cannot be *admin"},
        {"identities: [a=*other]\n", "'identities'"},
        {"identities: [a=]\n", "'identities'"},
        {"identities: [=t]\n", "'identities'"},
        {"{tcp_anonymous: true, tls_client_ca: /a, tls_cert: /c, "
         "tls_key: /k}\n",
         "'tcp_anonymous': expected false beside 'tls_client_ca'"},
        {"identity_issuer: https://h/\n", "'identity_issuer': a name or URL"},
        {"identity_issuer: a b\n", "'identity_issuer': a name or URL"},
        {"identity_issuer: 'a\"b'\n", "'identity_issuer': a name or URL"},
        {"access_token_file: t\n", "'access_token_file'"},
        {"redis_prefix: 'a b'\n", "'redis_prefix'"},
        {"redis_prefix: 'a}'\n", "'redis_prefix'"},
        {"redis_tls_cert: /c\n", "'redis_tls_cert': expected a redis_url"},
        {"redis_tls_key: /c\n", "'redis_tls_key': expected a redis_url"},
        {"redis_tls_name: x\n", "'redis_tls_name': expected a redis_url"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_err err = {.msg = ""};

        assert_int_equal(check(rows[i].text, NULL, &err), WP_INVALID_ARGUMENT);
        if (strncmp(err.msg, "setting", 7) != 0 ||
            strstr(err.msg, rows[i].says) == NULL) {
            fail_msg("%s: %s", rows[i].text, err.msg);
        }
    }
}

/* A flag and the environment are seen by other users. */
static void
test_a_password_stands_in_files_only(void **state)
{
    static const char *const flags[] = {
        "--redis-url=redis://u:p@h",
        "--redis-url=redis+sentinel://h/m?sentinel_password=p",
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(flags); i++) {
        struct wp_err err = {.msg = ""};

        assert_int_equal(check("", flags[i], &err), WP_INVALID_ARGUMENT);
        assert_string_equal(err.msg,
                            "setting 'redis_url': expected no password in a "
                            "flag or the environment, which others can read: "
                            "put it into redis_password_file or "
                            "redis_sentinel_password_file");
    }
    assert_int_equal(
        check("", "--redis-url=redis://h", &(struct wp_err){.msg = ""}), WP_OK);
}

/* A number of its own for each, as sets of them have. */
static void
test_names_of_controllers(void **state)
{
    (void)state;
    assert_int_equal(wp_conf_controller("pool"), 1);
    assert_int_equal(wp_conf_controller("claim"), 2);
    assert_int_equal(wp_conf_controller("template"), 4);
    assert_int_equal(wp_conf_controller("sandbox"), 8);
    assert_int_equal(wp_conf_controller("pods"), 0);
    assert_int_equal(wp_conf_controller(""), 0);
}

/* Who comes over TCP without a certificate, and may. */
static void
test_who_proves_nothing(void **state)
{
    static const struct {
        const char *text;
        bool unproven;
        bool anonymous;
    } rows[] = {
        {"listen: unix:/x\n", false, false},
        {"listen: [unix:/x, 127.0.0.1:80]\n", true, false},
        {"{listen: 127.0.0.1:80, tls_client_ca: /a}\n", false, false},
        {"{listen: 127.0.0.1:80, tcp_anonymous: true}\n", true, true},
        {"{listen: unix:/x, identities: [a=t, anonymous=t]}\n", false, true},
        {"{listen: unix:/x, identities: [anonymou=t]}\n", false, false},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(rows); i++) {
        struct wp_conf *conf = wp_conf_create();
        struct wp_err err;

        assert_non_null(conf);
        assert_int_equal(read_text(conf, rows[i].text, &err), WP_OK);
        assert_int_equal(wp_conf_listens_unproven(conf), rows[i].unproven);
        assert_int_equal(wp_conf_allows_anonymous(conf), rows[i].anonymous);
        wp_conf_destroy(conf);
    }
}

static void
test_budgets(void **state)
{
    struct wp_budget_total totals[WP_CONF_BUDGETS_MAX];
    struct wp_conf *conf = *state;
    struct wp_err err;
    uint32_t n = 0;

    assert_int_equal(
        read_text(conf, "autoscale_budgets: [a=5, b-c=16777216, d=0]\n", &err),
        WP_OK);
    assert_int_equal(wp_conf_budgets(conf, totals, &n, &err), WP_OK);
    assert_int_equal(n, 3);
    assert_string_equal(totals[0].group, "a");
    assert_int_equal(totals[0].total, 5);
    assert_string_equal(totals[1].group, "b-c");
    assert_int_equal(totals[1].total, 16777216);
    assert_string_equal(totals[2].group, "d");
    assert_int_equal(totals[2].total, 0);
}

static void
test_checks_across_settings(void **state)
{
    (void)state;
    assert_check("tls_cert: /c\n",
                 "settings 'tls_cert' and 'tls_key': expected both or none, "
                 "only 'tls_cert' is set");
    assert_check("tls_client_ca: /c\n",
                 "setting 'tls_client_ca': expected 'tls_cert' and 'tls_key' "
                 "beside it");
    assert_check("listen: 0.0.0.0:7443\n",
                 "setting 'listen': '0.0.0.0:7443' is not loopback, which "
                 "needs TLS: expected 'tls_cert' and 'tls_key' to be set");
    assert_check("listen: nonsense\n",
                 "setting 'listen': address 'nonsense': expected unix:/path, "
                 "127.0.0.1:PORT or [::1]:PORT");
    assert_check("{listen: '0.0.0.0:7443', tls_cert: /c, tls_key: /k}\n",
                 "setting 'listen': '0.0.0.0:7443' is not loopback, where a "
                 "client must prove who it is: expected 'tls_client_ca' to be "
                 "set");
    assert_check("http_listen: '[::]:80'\n",
                 "setting 'http_listen': '[::]:80' is not loopback, which "
                 "needs TLS: expected 'tls_cert' and 'tls_key' to be set");
    assert_check("backend: kubernetes\nmanifests: [a.yaml]\n",
                 "setting 'manifests': expected none with backend kubernetes, "
                 "whose pools and templates are the cluster's objects: kubectl "
                 "apply -f the files");
    assert_check("backend: kubernetes\nstop_leaves: nothing\n",
                 "setting 'stop_leaves': expected auto or all with backend "
                 "kubernetes: nothing in the cluster is deleted because this "
                 "daemon ends");
    assert_check("controllers: pool,pod\n",
                 "setting 'controllers': expected names of pool, claim, "
                 "template, sandbox, got 'pod'");
    assert_check("identities: [a=system:sandboxclaims]\n",
                 "setting 'identities': expected NAME=TENANT (at most 63 "
                 "bytes, not beginning with 'system:') or NAME=*admin, got "
                 "'a=system:sandboxclaims'");
    assert_check("autoscale_budgets: [a=1, b]\n",
                 "setting 'autoscale_budgets': expected GROUP=TOTAL (a DNS "
                 "name, a whole number up to 16777216), got 'b'");
    assert_check("autoscale_budgets: [a=1, A=1]\n",
                 "setting 'autoscale_budgets': expected GROUP=TOTAL (a DNS "
                 "name, a whole number up to 16777216), got 'A=1'");
    assert_check("autoscale_budgets: [a=16777217]\n",
                 "setting 'autoscale_budgets': expected GROUP=TOTAL (a DNS "
                 "name, a whole number up to 16777216), got 'a=16777217'");
    assert_check("autoscale_budgets: a=1,a=2\n",
                 "setting 'autoscale_budgets': expected each group once, got "
                 "'a' twice");
    assert_check("claims_max: 5\n",
                 "setting 'claims_max': expected 0 or at least slots_max "
                 "(4096), got 5");
    assert_check("{rpc_calls_max: 100, rpc_waiting_max: 100}\n",
                 "setting 'rpc_waiting_max': expected less than rpc_calls_max "
                 "(100), so that other calls find room, got 100");
    assert_check("identities: [nobody]\n",
                 "setting 'identities': expected NAME=TENANT (at most 63 "
                 "bytes, not beginning with 'system:') or NAME=*admin, got "
                 "'nobody'");
    assert_check("allowed_uids: [me]\n",
                 "setting 'allowed_uids': expected user ids (numbers), got "
                 "'me'");
}

static void
test_checks_of_quotas(void **state)
{
    (void)state;
#define QUOTA                                                                  \
    "setting 'tenant_quotas': expected TENANT or TENANT@NAMESPACE/POOL, then " \
    "some of leases=N, waiting=N and claims-per-minute=N, each once, got "
    assert_check("tenant_quotas: [ci]\n", QUOTA "'ci'");
    assert_check("tenant_quotas: [leases=1]\n", QUOTA "'leases=1'");
    assert_check("tenant_quotas: [ci leases=x]\n", QUOTA "'ci leases=x'");
    assert_check("tenant_quotas: [ci leases=1 leases=2]\n",
                 QUOTA "'ci leases=1 leases=2'");
    assert_check("tenant_quotas: [ci leases=16777217]\n",
                 QUOTA "'ci leases=16777217'");
    assert_check("tenant_quotas: ['me@No/p leases=1']\n",
                 QUOTA "'me@No/p leases=1'");
    assert_check("tenant_quotas: ['me@ns/ leases=1']\n",
                 QUOTA "'me@ns/ leases=1'");
    assert_check("tenant_quotas: ['@ns/p leases=1']\n",
                 QUOTA "'@ns/p leases=1'");
    assert_check("tenant_quotas: [ci leases=1, ci waiting=2]\n",
                 "setting 'tenant_quotas': expected each tenant once for a "
                 "pool, got 'ci' twice");
#undef QUOTA
}

static void
test_checks_of_addresses(void **state)
{
    (void)state;
#define ADDRESS "address 'x': expected unix:/path, 127.0.0.1:PORT or [::1]:PORT"
    assert_check("http_listen: [x]\n", "setting 'http_listen': " ADDRESS);
    assert_check("metrics_listen: [x]\n", "setting 'metrics_listen': " ADDRESS);
    assert_check("trusting_listen: [x]\n",
                 "setting 'trusting_listen': " ADDRESS);
#undef ADDRESS
    assert_check("trusting_listen: ['unix:/x']\n",
                 "setting 'trusting_listen': expected host:port, got "
                 "'unix:/x'");
    assert_check("webhook_listen: x\n",
                 "setting 'webhook_listen': expected host:port, got 'x'");
    assert_check("webhook_listen: 'unix:/x'\n",
                 "setting 'webhook_listen': expected host:port, got "
                 "'unix:/x'");
    assert_check("webhook_url: http://x\n",
                 "setting 'webhook_url': expected https://, got 'http://x'");
    assert_check("session_url: ftp://x\n",
                 "setting 'session_url': expected a URL as http://host:port, "
                 "got 'ftp://x'");
    assert_check("session_pool: a/b/c\n",
                 "setting 'session_pool': expected NAME or NAMESPACE/NAME of a "
                 "pool, got 'a/b/c'");
    assert_check("trigger_template: t\n",
                 "setting 'trigger_template': expected NAMESPACE/NAME of a "
                 "template, got 't'");
    assert_check("allowed_uids: ['4294967295']\n",
                 "setting 'allowed_uids': expected user ids (numbers), got "
                 "'4294967295'");
}

static void
test_checks_of_remotes(void **state)
{
    (void)state;
    assert_check("egress_packages: 'https://x'\n",
                 "setting 'egress_packages': 'https://x': expected a name, "
                 "*.NAME, an address or a network, perhaps with :PORT");
    assert_check("backend: kubernetes\negress_proxy: x\n",
                 "setting 'egress_proxy': a port was expected behind the host, "
                 "got 'x'");
    assert_check("backend: kubernetes\negress_proxy: 'x:80'\n",
                 "setting 'egress_proxy': expected 'token_key_file' beside it, "
                 "from which keys of passes are made");
#define REMOTE                                                                 \
    "':::': HOST[:PORT][/PATH] expected: a port from 1 to 65535 was expected " \
    "behind the host"
    assert_check("git_remotes: ':::'\n", "setting 'git_remotes': " REMOTE);
    assert_check("git_remotes_denied: ':::'\n",
                 "setting 'git_remotes_denied': " REMOTE);
#undef REMOTE
    assert_check("git_trust_files: '/x'\n",
                 "setting 'git_trust_files': '/x': expected up to 16 different "
                 "paths below a repository between commas, each of at most 255 "
                 "bytes without empty parts, '.' and '..'");
    assert_check("backend: kubernetes\nfetch_socket: x\n",
                 "setting 'fetch_socket': expected an absolute path, got 'x'");
    assert_check("backend: kubernetes\ngit_remotes: h/x\n",
                 "setting 'fetch_socket': expected where warmpool-fetch "
                 "serves, with git_remotes");
}

/* A tenant's name may have spaces, and an @ of its own. */
static void
test_subjects_of_quotas(void **state)
{
    static const struct {
        const char *tenant;
        const char *pool_namespace;
        const char *pool;
        struct wp_quota quota;
    } rows[] = {
        {"ci", "default", "p", {3, WP_QUOTA_NONE, WP_QUOTA_NONE}},
        {"ci", "", "", {4, 5, 6}},
        {"ci", "other", "p", {WP_QUOTA_NONE, 0, WP_QUOTA_NONE}},
        {"me@home", "", "", {1, WP_QUOTA_NONE, WP_QUOTA_NONE}},
        {"me@home", "default", "p", {2, WP_QUOTA_NONE, WP_QUOTA_NONE}},
        {"all of us", "default", "p", {WP_QUOTA_NONE, WP_QUOTA_NONE, 7}},
    };
    static struct wp_tenant_quota quotas[WP_CONF_QUOTAS_MAX];
    struct wp_conf *conf = *state;
    struct wp_err err;
    uint32_t n = 0;

    assert_int_equal(
        read_text(conf,
                  "tenant_quotas: [ci@default/p leases=3, ci leases=4 "
                  "waiting=5 claims-per-minute=6, ci@other/p waiting=0, "
                  "me@home leases=1, me@home@default/p leases=2, all of us "
                  "@default/p claims-per-minute=7]\n",
                  &err),
        WP_OK);
    assert_int_equal(wp_conf_quotas(conf, quotas, &n, &err), WP_OK);
    assert_int_equal(n, WP_ARRAY_LEN(rows));
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(quotas[i].tenant, rows[i].tenant);
        assert_string_equal(quotas[i].pool_namespace, rows[i].pool_namespace);
        assert_string_equal(quotas[i].pool, rows[i].pool);
        assert_memory_equal(&quotas[i].quota, &rows[i].quota,
                            sizeof rows[i].quota);
    }
    assert_check("tenant_quotas: [ci@default/p leases=3, ci leases=4, "
                 "ci@default/p leases=5]\n",
                 "setting 'tenant_quotas': expected each tenant once for a "
                 "pool, got 'ci' twice");
}

static void
test_paths(void **state)
{
    (void)state;
    assert_check("state_dir: here\n", "setting 'state_dir': expected an "
                                      "absolute path, got 'here'");
    assert_check("rootfs_dir: images\n", "setting 'rootfs_dir': expected an "
                                         "absolute path, got 'images'");
    assert_check("volumes_dir: ./v\n", "setting 'volumes_dir': expected an "
                                       "absolute path, got './v'");
}

static void
test_checks_of_stores(void **state)
{
    (void)state;
    assert_check("redis_url: http://me:sesame@h\n",
                 "setting 'redis_url': expected redis://HOST, "
                 "unix:/PATH, redis+sentinel://HOST,HOST/MASTER or "
                 "redis+cluster://HOST,HOST, or rediss in place of redis for "
                 "TLS");
    assert_check("redis_tls_ca: /ca.pem\n",
                 "setting 'redis_tls_ca': expected a redis_url that begins "
                 "with rediss, without which there is no TLS");
    assert_check("redis_url: redis://h\nredis_tls_name: x\n",
                 "setting 'redis_tls_name': expected a redis_url that begins "
                 "with rediss, without which there is no TLS");
    assert_check("redis_url: rediss://h\nredis_tls_key: /k\n",
                 "settings 'redis_tls_cert' and 'redis_tls_key': expected both "
                 "or none, only 'redis_tls_key' is set");
    assert_check("redis_url: rediss+cluster://h\nredis_tls_cert: /c\n",
                 "settings 'redis_tls_cert' and 'redis_tls_key': expected both "
                 "or none, only 'redis_tls_cert' is set");
    assert_check("redis_url: redis://sesame@h\n",
                 "setting 'redis_password_file': expected the password of the "
                 "user in redis_url");
    assert_check("redis_sentinel_password_file: /p\n",
                 "setting 'redis_sentinel_password_file': expected sentinels "
                 "in redis_url");
    assert_check("redis_url: redis+sentinel://h/m?sentinel_user=u\n",
                 "setting 'redis_sentinel_password_file': expected the "
                 "password of sentinel_user in redis_url");
    assert_check("redis_prefix: a{b\n",
                 "setting 'redis_prefix': expected 1 to 64 bytes without "
                 "space, '{' and '}', got 'a{b'");
    assert_check("lease_store_path: leases.db\n",
                 "setting 'lease_store_path': expected an absolute path, got "
                 "'leases.db'");
    assert_check("lease_store: memory\nstop_leaves: leased\n",
                 "setting 'stop_leaves': expected auto or nothing with "
                 "lease_store memory, whose leases end with the daemon");
    assert_check("stop_leaves: leased\nsandbox_outlive: false\n",
                 "setting 'sandbox_outlive': expected auto or true unless "
                 "stop_leaves is nothing: what is left running must outlive "
                 "the daemon");
}

/* What a stop leaves follows from the store, unless it is said. */
static void
test_what_outlives(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err;

    assert_true(wp_conf_outlives(conf));
    assert_int_equal(wp_conf_stop_leaves(conf), WP_CONF_STOP_LEASED);
    assert_int_equal(read_text(conf, "lease_store: memory\n", &err), WP_OK);
    assert_false(wp_conf_outlives(conf));
    assert_int_equal(wp_conf_stop_leaves(conf), WP_CONF_STOP_NOTHING);
    assert_int_equal(read_text(conf,
                               "lease_store: redis\nsandbox_outlive: false\n"
                               "stop_leaves: all\n",
                               &err),
                     WP_OK);
    assert_false(wp_conf_outlives(conf));
    assert_int_equal(wp_conf_stop_leaves(conf), WP_CONF_STOP_ALL);
}

/* Of the other backend, and only what somebody said. */
static void
test_settings_of_the_other_backend(void **state)
{
    static const struct {
        const char *text;
        size_t n;
        const char *names;
    } cases[] = {
        {"backend: local\nrootfs_dir: /r\nsandbox_pids_max: 9\n", 0, ""},
        {"cold_grace: 2s\nreadiness_grace: 7s\nslots_max: 9\n", 2,
         "cold_grace, readiness_grace"},
        {"backend: kubernetes\ncold_grace: 2s\n", 0, ""},
        {"backend: kubernetes\nsandbox_pids_max: 9\nrootfs_dir: /r\n", 2,
         "rootfs_dir, sandbox_pids_max"},
    };

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        struct wp_conf *conf = wp_conf_create();
        struct wp_err err;
        char names[64];

        assert_non_null(conf);
        assert_int_equal(read_text(conf, cases[i].text, &err), WP_OK);
        assert_int_equal(wp_conf_idle(conf, names, sizeof names), cases[i].n);
        assert_string_equal(names, cases[i].names);
        if (cases[i].n == 2) {
            /* Exactly enough room. */
            assert_int_equal(
                wp_conf_idle(conf, names, strlen(cases[i].names) + 1), 2);
            assert_string_equal(names, cases[i].names);
            /* Names stay whole. */
            assert_int_equal(wp_conf_idle(conf, names, strlen(cases[i].names)),
                             2);
            assert_int_equal(strlen(names), strcspn(cases[i].names, ","));
            assert_int_equal(wp_conf_idle(conf, names, 1), 2);
            assert_string_equal(names, "");
        }
        wp_conf_destroy(conf);
    }
}

/* A shorter name does not take the place of one that had no room. */
static void
test_settings_that_have_no_room(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err;
    char names[32];

    assert_int_equal(read_text(conf,
                               "backend: kubernetes\nsandbox_pids_max: 9\n"
                               "volumes_dir: /v\nrootfs_dir: /r\n",
                               &err),
                     WP_OK);
    assert_int_equal(wp_conf_idle(conf, names, sizeof names), 3);
    assert_string_equal(names, "rootfs_dir, sandbox_pids_max");
    assert_int_equal(wp_conf_idle(conf, names, 27), 3);
    assert_string_equal(names, "rootfs_dir");
}

/* What is given anew takes the place of what was there; what comes from a source
 * that counts less does not. */
static void
test_a_list_given_again(void **state)
{
    const struct wp_str two[] = {WP_STR("a:1"), WP_STR("b:2")};
    const struct wp_str one[] = {WP_STR("c:3")};
    const struct wp_conf_origin flag = {WP_CONF_FLAG, 0};
    const struct wp_conf_origin file = {WP_CONF_FILE, 1};
    enum wp_setting_id id = wp_setting_find(WP_STR("http_listen"));
    struct wp_conf *conf = *state;
    struct wp_err err;

    assert_int_equal(wp_conf_set(conf, id, two, 2, flag, &err), WP_OK);
    assert_int_equal(conf->http_listen.len, 2);
    assert_int_equal(wp_conf_set(conf, id, one, 1, flag, &err), WP_OK);
    assert_int_equal(conf->http_listen.len, 1);
    assert_string_equal(conf->http_listen.items[0], "c:3");
    assert_int_equal(wp_conf_set(conf, id, two, 2, file, &err), WP_OK);
    assert_int_equal(conf->http_listen.len, 1);
    assert_string_equal(conf->http_listen.items[0], "c:3");
    assert_int_equal(conf->origin[id].source, WP_CONF_FLAG);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_what_is_at_the_bounds),
        cmocka_unit_test(test_refuses_what_is_beyond_the_bounds),
        cmocka_unit_test(test_a_password_stands_in_files_only),
        cmocka_unit_test(test_names_of_controllers),
        cmocka_unit_test(test_who_proves_nothing),
        cmocka_unit_test_setup_teardown(test_budgets, setup, teardown),
        cmocka_unit_test(test_checks_across_settings),
        cmocka_unit_test(test_checks_of_quotas),
        cmocka_unit_test(test_checks_of_addresses),
        cmocka_unit_test(test_checks_of_remotes),
        cmocka_unit_test_setup_teardown(test_subjects_of_quotas, setup,
                                        teardown),
        cmocka_unit_test(test_paths),
        cmocka_unit_test_setup_teardown(test_a_list_given_again, setup,
                                        teardown),
        cmocka_unit_test(test_checks_of_stores),
        cmocka_unit_test_setup_teardown(test_what_outlives, setup, teardown),
        cmocka_unit_test(test_settings_of_the_other_backend),
        cmocka_unit_test_setup_teardown(test_settings_that_have_no_room, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
