/* The settings: every source, every type, every message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <unistd.h>

#include "allocator/conf/conf.h"
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
assert_refused(const char *text, const char *message)
{
    struct wp_conf *conf = wp_conf_create();
    struct wp_err err = {.msg = ""};

    assert_non_null(conf);
    assert_int_not_equal(read_text(conf, text, &err), WP_OK);
    assert_string_equal(err.msg, message);
    wp_conf_destroy(conf);
}

/* Every default of the table passes its own check, and what depends on the
 * environment is filled in. */
static void
test_defaults(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err = {.msg = ""};

    assert_int_equal(conf->slots_max, 4096);
    assert_int_equal(conf->message_max, 2 << 20);
    assert_int_equal(conf->drain_grace, 10 * WP_NS_PER_S);
    assert_int_equal(wp_conf_resolve(conf, &err), WP_OK);
    assert_int_equal(wp_conf_check(conf, &err), WP_OK);
    assert_int_equal(conf->listen.len, 1);
    assert_int_equal(conf->claims_max, 8192);
}

static void
test_file_sets_each_type(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err;

    assert_int_equal(read_text(conf,
                               "# comment\n"
                               "log_level: warn\n"
                               "slots_max: 12\n"
                               "keepalive: 5m\n"
                               "message_max: 1MiB\n"
                               "reflection: no\n"
                               "tls_cert: '/a b'\n"
                               "manifests: [a.yaml, \"b,c.yaml\"]\n"
                               "listen: unix:/x , 127.0.0.1:0\n",
                               &err),
                     WP_OK);
    assert_int_equal(conf->log_level, 2);
    assert_int_equal(conf->slots_max, 12);
    assert_int_equal(conf->keepalive, 300 * WP_NS_PER_S);
    assert_int_equal(conf->message_max, 1 << 20);
    assert_false(conf->reflection);
    assert_string_equal(conf->tls_cert, "/a b");
    assert_int_equal(conf->manifests.len, 2);
    assert_string_equal(conf->manifests.items[1], "b,c.yaml");
    assert_int_equal(conf->listen.len, 2);
    assert_string_equal(conf->listen.items[1], "127.0.0.1:0");
    assert_int_equal(conf->origin[WP_SET_slots_max].line, 3);
}

static void
test_file_refusals(void **state)
{
    (void)state;
    assert_refused("slots_max: 0\n",
                   "f.yaml:1: setting 'slots_max': expected a whole number "
                   "from 1 to 16777216, got '0'");
    assert_refused("\nkeepalive: 30\n",
                   "f.yaml:2: setting 'keepalive': expected a duration from "
                   "1s to 1h, such as 500ms, 30s or 5m, got '30'");
    assert_refused("message_max: 1GiB\n",
                   "f.yaml:1: setting 'message_max': expected a size from "
                   "4KiB to 4MiB, such as 65536 or 64KiB, got '1GiB'");
    assert_refused("log_level: loud\n",
                   "f.yaml:1: setting 'log_level': expected one of "
                   "debug|info|warn|error, got 'loud'");
    assert_refused("reflection: maybe\n",
                   "f.yaml:1: setting 'reflection': expected true or false, "
                   "got 'maybe'");
    assert_refused("log_levle: info\n",
                   "f.yaml:1: unknown setting 'log_levle'; did you mean "
                   "'log_level'?");
    assert_refused("frobnicate: 1\n", "f.yaml:1: unknown setting 'frobnicate'");
    assert_refused("keepalive: 9s\nkeepalive: 9s\n",
                   "f.yaml:2: setting 'keepalive' is given twice");
    assert_refused("keepalive: [9s]\n",
                   "f.yaml:1: setting 'keepalive': expected one value, got a "
                   "list");
    assert_refused("keepalive: {a: 1}\n",
                   "f.yaml:1: setting 'keepalive': expected a text, a number "
                   "or a list of texts");
    assert_refused("config: x\n", "f.yaml:1: setting 'config' is only a flag");
    assert_refused("- a\n",
                   "f.yaml:1: expected settings, each as 'name: value'");
    assert_refused("slots_max: 3\n---\nslots_max: 4\n",
                   "f.yaml:2: expected one document, got a second");
    assert_refused("manifests: &a [x]\n",
                   "f.yaml:1: anchors and tags are not allowed here");
    assert_refused("manifests: [*a]\n", "f.yaml:1: aliases are not allowed");
    assert_refused("manifests: [{a: 1}]\n",
                   "f.yaml:1: expected a text, a number or a list of texts");
    assert_refused("manifests: [\"a\\0b\"]\n",
                   "f.yaml:1: expected a text without NUL");
    assert_refused("tls_cert: \"a\\0b\"\n",
                   "f.yaml:1: expected a text without NUL");
    assert_refused("log_level: info\nlog-level: info\n",
                   "f.yaml:2: setting 'log_level' is given twice");
}

static void
test_not_yaml(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err;

    assert_int_equal(read_text(conf, "manifests: [b\n", &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "not YAML"));
    assert_int_equal(read_text(conf, "", &err), WP_OK);
    assert_int_equal(read_text(conf, "---\n", &err), WP_OK);
    assert_int_equal(read_text(conf, "# nothing\n", &err), WP_OK);
}

static void
test_list_is_bounded(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err;
    char text[WP_CONF_LIST_MAX * 4 + 64] = "manifests: [a";

    for (int i = 0; i < 64; i++) {
        (void)strcat(text, ",a");
    }
    (void)strcat(text, "]");
    assert_int_equal(read_text(conf, text, &err), WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "f.yaml:1: setting 'manifests': expected at "
                                 "most 64 items, got 65");
    for (int i = 0; i < WP_CONF_LIST_MAX; i++) {
        text[strlen(text) - 1] = '\0';
        (void)strcat(text, ",a]");
    }
    assert_int_equal(read_text(conf, text, &err), WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "f.yaml:1: too many items in this list");
}

/* A flag beats the environment, which beats the file, whatever is read first;
 * a weaker source is still checked. */
static void
test_precedence(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err;
    enum wp_conf_action action;
    char *const argv[] = {"warmpoold", "--slots-max=7", "--log-level", "warn",
                          NULL};
    char *const env[] = {"WARMPOOL_SLOTS_MAX=8",
                         "WARMPOOL_KEEPALIVE=2s",
                         "WARMPOOL_UNRELATED=1",
                         "WARMPOOLX=2",
                         "HOME=/",
                         NULL};
    char *const bad[] = {"WARMPOOL_SLOTS_MAX=many", NULL};

    assert_int_equal(wp_conf_read_args(conf, 4, argv, &action, &err), WP_OK);
    assert_int_equal(action, WP_CONF_RUN);
    assert_int_equal(wp_conf_read_env(conf, env, &err), WP_OK);
    assert_int_equal(read_text(conf,
                               "slots_max: 9\nkeepalive: 3s\n"
                               "log_level: debug\ndrain_grace: 4s\n",
                               &err),
                     WP_OK);
    assert_int_equal(conf->slots_max, 7);
    assert_int_equal(conf->keepalive, 2 * WP_NS_PER_S);
    assert_int_equal(conf->log_level, 2);
    assert_int_equal(conf->drain_grace, 4 * WP_NS_PER_S);
    assert_int_equal(wp_conf_read_env(conf, bad, &err), WP_INVALID_ARGUMENT);
    assert_string_equal(err.msg, "WARMPOOL_SLOTS_MAX: setting 'slots_max': "
                                 "expected a whole number from 1 to 16777216, "
                                 "got 'many'");
}

/* Of a text, its bytes; of a list, its texts: a setting that must be said is not
 * taken empty. */
static void
test_what_must_not_be_empty(void **state)
{
    (void)state;
    assert_refused("identity_issuer: ''\n",
                   "f.yaml:1: setting 'identity_issuer': expected a text of 1 "
                   "to 255 bytes, got ''");
    assert_refused("cluster_domain:\n",
                   "f.yaml:1: setting 'cluster_domain': expected a text of 1 "
                   "to 253 bytes, got ''");
    assert_refused("controllers: []\n",
                   "f.yaml:1: setting 'controllers': expected a list of 1 to 4 "
                   "texts, got ''");
    assert_refused("controllers: ''\n",
                   "f.yaml:1: setting 'controllers': expected a list of 1 to 4 "
                   "texts, got ''");
}

/* Exactly as long as a text, and as large as a number, may be. */
static void
test_bounds_of_values(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err;
    char text[WP_CONF_TEXT_MAX + 64];

    assert_int_equal(read_text(conf,
                               "slots_max: 16777216\nkeepalive: 1h\n"
                               "message_max: 4MiB\nidentity_issuer: i\n",
                               &err),
                     WP_OK);
    assert_int_equal(conf->slots_max, 16777216);
    assert_int_equal(conf->keepalive, 3600 * WP_NS_PER_S);
    assert_int_equal(conf->message_max, 4 << 20);
    assert_int_equal(
        read_text(conf, "slots_max: 1\nkeepalive: 1s\nmessage_max: 4KiB\n",
                  &err),
        WP_OK);
    assert_int_equal(conf->slots_max, 1);
    assert_int_equal(conf->keepalive, WP_NS_PER_S);
    assert_int_equal(conf->message_max, 4096);
    for (int len = 64; len <= 65; len++) {
        (void)snprintf(text, sizeof text, "redis_prefix: \"%0*d\"\n", len, 1);
        assert_int_equal(read_text(conf, text, &err),
                         len == 64 ? WP_OK : WP_INVALID_ARGUMENT);
    }
    for (int len = WP_CONF_TEXT_MAX; len <= WP_CONF_TEXT_MAX + 1; len++) {
        (void)snprintf(text, sizeof text, "manifests: [\"%0*d\"]\n", len, 1);
        assert_int_equal(read_text(conf, text, &err),
                         len == WP_CONF_TEXT_MAX ? WP_OK : WP_INVALID_ARGUMENT);
    }
    /* Of what is refused, not all is shown, and only what can be. */
    assert_refused("slots_max: 1234567890123456789012345678901234567890\n",
                   "f.yaml:1: setting 'slots_max': expected a whole number "
                   "from 1 to 16777216, got "
                   "'1234567890123456789012345678901234567890'");
    assert_refused("slots_max: 12345678901234567890123456789012345678901\n",
                   "f.yaml:1: setting 'slots_max': expected a whole number "
                   "from 1 to 16777216, got "
                   "'1234567890123456789012345678901234567890...'");
    assert_refused("slots_max: \" ~\\x7f\\t\"\n",
                   "f.yaml:1: setting 'slots_max': expected a whole number "
                   "from 1 to 16777216, got ' ~?"
                   "?'");
}

/* One byte more than a configuration file may have. */
static void
test_length_of_files(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err = {.msg = ""};
    char *text = malloc(WP_CONF_FILE_MAX + 1);
    char path[] = "/tmp/wp-conf-XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");

    assert_non_null(text);
    assert_non_null(file);
    assert_int_equal(wp_conf_read_file(conf, path, &err), WP_OK);
    memset(text, '#', WP_CONF_FILE_MAX + 1);
    assert_int_equal(wp_conf_read_text(conf,
                                       (struct wp_str){text, WP_CONF_FILE_MAX},
                                       "f", &err),
                     WP_OK);
    assert_int_equal(fwrite(text, 1, WP_CONF_FILE_MAX, file), WP_CONF_FILE_MAX);
    assert_int_equal(fflush(file), 0);
    assert_int_equal(wp_conf_read_file(conf, path, &err), WP_OK);
    assert_int_equal(fputc('#', file), '#');
    assert_int_equal(fflush(file), 0);
    assert_int_equal(wp_conf_read_file(conf, path, &err), WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, ": a configuration file has at most "));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(unlink(path), 0);
    free(text);
}

static void
assert_action(const char *flag, enum wp_conf_action expected)
{
    struct wp_conf *conf = wp_conf_create();
    char *copy = strdup(flag);
    char *const argv[] = {"warmpoold", copy, NULL};
    enum wp_conf_action action = WP_CONF_CHECK;
    struct wp_err err = {.msg = ""};

    assert_non_null(conf);
    assert_int_equal(wp_conf_read_args(conf, 2, argv, &action, &err), WP_OK);
    assert_int_equal(action, expected);
    if (expected == WP_CONF_EGRESS_KEY) {
        assert_string_equal(conf->egress_key_of, strchr(copy, '=') + 1);
    }
    free(copy);
    wp_conf_destroy(conf);
}

static void
test_actions(void **state)
{
    (void)state;
    assert_action("--reflection", WP_CONF_RUN);
    assert_action("-h", WP_CONF_HELP);
    assert_action("--help", WP_CONF_HELP);
    assert_action("--help-settings", WP_CONF_HELP_SETTINGS);
    assert_action("-V", WP_CONF_VERSION);
    assert_action("--version", WP_CONF_VERSION);
    assert_action("--check-config", WP_CONF_CHECK);
    assert_action("--egress-key=ns", WP_CONF_EGRESS_KEY);
    assert_action("--egress-key=", WP_CONF_EGRESS_KEY);
}

/* Names of variables are capitals, digits and '_'; all others are not ours. */
static void
test_names_of_variables(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err;
    char *const env[] = {
        "WARMPOOL_OTLP_ENDPOINT=http://a",
        "WARMPOOL_MAX_WAITERS_PER_TENANT=0",
        "WARMPOOL_slots_max=5",
        "WARMPOOL_SLOTS-MAX=6",
        "WARMPOOL_SLOTS_MAX",
        "WARMPOOL_=x",
        "xARMPOOL_SLOTS_MAX=8",
        "WARMPOOL_LISTEN=unix:/Z",
        "WARMPOOL_ZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZZ"
        "ZZZZZZZZZZZZZZZZZZZ=1",
        NULL};

    assert_int_equal(wp_conf_read_env(conf, env, &err), WP_OK);
    assert_int_equal(wp_conf_read_env(conf, NULL, &err), WP_OK);
    assert_int_equal(conf->slots_max, 4096);
    assert_string_equal(conf->otlp_endpoint, "http://a");
    assert_string_equal(conf->listen.items[0], "unix:/Z");
    assert_int_equal(conf->origin[WP_SET_listen].source, WP_CONF_ENV);
}

/* Each setting has one. */
static void
test_each_variable(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err;

    for (unsigned id = 0; id < WP_SETTINGS; id++) {
        const struct wp_setting *setting = wp_setting_get(id);
        char name[128];
        char *const env[] = {name, NULL};
        char *at = name + sprintf(name, "WARMPOOL_");

        for (const char *from = setting->name; *from != '\0'; from++) {
            *at++ = *from == '_' ? '_' : (char)(*from - 'a' + 'A');
        }
        (void)snprintf(at, (size_t)(name + sizeof name - at), "=%s",
                       setting->default_text);
        assert_int_not_equal(conf->origin[id].source, WP_CONF_ENV);
        assert_int_equal(wp_conf_read_env(conf, env, &err), WP_OK);
        if (conf->origin[id].source != WP_CONF_ENV) {
            fail_msg("%s is not read", name);
        }
    }
}

/* What nobody has said follows from what somebody has. */
static void
test_what_is_filled_in(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err;
    char host[WP_REPLICA_NAME_MAX + 2] = "";

    assert_int_equal(read_text(conf, "runtime_dir: /r\n", &err), WP_OK);
    assert_int_equal(wp_conf_resolve(conf, &err), WP_OK);
    assert_string_equal(conf->runtime_dir, "/r");
    assert_string_equal(conf->state_dir, "/r/state");
    assert_string_equal(conf->lease_store_path, "/r/state/leases.db");
    assert_string_equal(conf->access_token_file, "/r/access.token");
    assert_int_equal(conf->listen.len, 1);
    assert_string_equal(conf->listen.items[0], "unix:/r/warmpoold.sock");
    assert_int_equal(conf->http_listen.len, 1);
    assert_string_equal(conf->http_listen.items[0],
                        "unix:/r/warmpoold-http.sock");
    assert_int_equal(conf->claims_max, 4096 + 4096);
    assert_int_equal(conf->origin[WP_SET_listen].source, WP_CONF_DEFAULT);
    (void)gethostname(host, WP_REPLICA_NAME_MAX);
    if (host[0] != '\0' && strlen(host) < WP_REPLICA_NAME_MAX) {
        assert_string_equal(conf->replica_name, host);
    }
}

static void
test_what_is_said_is_kept(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err;

    assert_int_equal(read_text(conf,
                               "runtime_dir: /r\nstate_dir: /s\n"
                               "lease_store_path: /l\nreplica_name: me\n"
                               "listen: unix:/a\nhttp_listen: unix:/b\n"
                               "access_token_file: /t\nclaims_max: 5000\n"
                               "backend: kubernetes\n",
                               &err),
                     WP_OK);
    assert_int_equal(conf->lease_store, WP_CONF_STORE_SQLITE);
    assert_int_equal(wp_conf_resolve(conf, &err), WP_OK);
    assert_string_equal(conf->state_dir, "/s");
    assert_string_equal(conf->lease_store_path, "/l");
    assert_string_equal(conf->replica_name, "me");
    assert_int_equal(conf->listen.len, 1);
    assert_string_equal(conf->listen.items[0], "unix:/a");
    assert_int_equal(conf->http_listen.len, 1);
    assert_string_equal(conf->http_listen.items[0], "unix:/b");
    assert_string_equal(conf->access_token_file, "/t");
    assert_int_equal(conf->claims_max, 5000);
    assert_int_equal(conf->lease_store, WP_CONF_STORE_MEMORY);
    assert_int_equal(read_text(conf, "lease_store: redis\n", &err), WP_OK);
    assert_int_equal(wp_conf_resolve(conf, &err), WP_OK);
    assert_int_equal(conf->lease_store, WP_CONF_STORE_REDIS);
}

static void
assert_flags_refused(const char *flag, const char *message)
{
    struct wp_conf *conf = wp_conf_create();
    struct wp_err err = {.msg = ""};
    enum wp_conf_action action;
    char *copy = strdup(flag);
    char *const argv[] = {"warmpoold", copy, NULL};

    assert_non_null(conf);
    assert_int_not_equal(wp_conf_read_args(conf, 2, argv, &action, &err),
                         WP_OK);
    assert_string_equal(err.msg, message);
    free(copy);
    wp_conf_destroy(conf);
}

static void
test_flags(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err;
    enum wp_conf_action action;
    char *const argv[] = {
        "warmpoold",    "--manifests",    "a,b", "--manifests=c",
        "--reflection", "--check-config", NULL};

    assert_int_equal(wp_conf_read_args(conf, 6, argv, &action, &err), WP_OK);
    assert_int_equal(action, WP_CONF_CHECK);
    assert_int_equal(conf->manifests.len, 3);
    assert_string_equal(conf->manifests.items[2], "c");
    assert_flags_refused("--slot-max=1", "unknown flag --slot-max; did you "
                                         "mean --slots_max?; --help lists "
                                         "all");
    assert_flags_refused("--tls-cer=x", "unknown flag --tls-cer; did you mean "
                                        "--tls_cert?; --help lists all");
    assert_flags_refused("--log-levex=x", "unknown flag --log-levex; did you "
                                          "mean --log_level?; --help lists "
                                          "all");
    assert_flags_refused(
        "--a23456789012345678901234567890123456789x=1",
        "unknown flag --a23456789012345678901234567890123456789x; --help lists "
        "all");
    assert_flags_refused(
        "--a23456789012345678901234567890123456789012345678901234567890x=1",
        "unknown flag --a234567890123456789012345678901234567890; --help lists "
        "all");
    assert_flags_refused("--", "argument '--': expected --name=value; --help "
                               "lists all");
    assert_flags_refused("-x", "argument '-x': expected --name=value; --help "
                               "lists all");
    assert_flags_refused("--zzz", "unknown flag --zzz; --help lists all");
    assert_flags_refused("--slots_max",
                         "--slots_max needs a value: --slots_max=VALUE");
    assert_flags_refused("file.yaml",
                         "argument 'file.yaml': expected --name=value; "
                         "--help lists all");
    assert_flags_refused("--keepalive=1ms",
                         "--keepalive: setting 'keepalive': expected a "
                         "duration from 1s to 1h, such as 500ms, 30s or 5m, "
                         "got '1ms'");
}

/* The arguments of agent-sandbox's Deployment, as others change them, are taken:
 * as settings, or told to do nothing. */
static void
test_upstream_flags(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err;
    enum wp_conf_action action;
    const char *instead;
    char *const argv[] = {"warmpoold",
                          "--leader-elect=true",
                          "--extensions",
                          "--kube-api-qps=-1",
                          "--kube-api-burst=1000",
                          "--enable-tracing=false",
                          "--metrics-bind-address=:9090",
                          "--sandbox-warm-pool-max-batch-size=50",
                          "--sandbox-warm-pool-readiness-grace-period=1m30s",
                          "--sandbox-claim-concurrent-workers",
                          "400",
                          "--enable-warm-pool-eviction=0",
                          "--disable-claim-events",
                          "--kube-api-qps=99.5",
                          NULL};

    if (wp_conf_read_args(conf, 14, argv, &action, &err) != WP_OK) {
        fail_msg("%s", err.msg);
    }
    assert_true(conf->leader_elect);
    assert_int_equal(conf->controllers.len, 4);
    assert_int_equal(conf->kube_api_qps, 100);
    assert_int_equal(conf->kube_api_burst, 1000);
    assert_int_equal(conf->metrics_listen.len, 1);
    assert_string_equal(conf->metrics_listen.items[0], "0.0.0.0:9090");
    assert_int_equal(conf->create_inflight_max, 50);
    assert_int_equal(conf->readiness_grace, 90 * WP_NS_PER_S);
    assert_false(conf->warm_pool_eviction);
    assert_true(conf->disable_claim_events);
    assert_string_equal(wp_conf_upstream_idle(conf, 0, &instead),
                        "sandbox-claim-concurrent-workers");
    assert_non_null(strstr(instead, "kube_api_qps"));
    assert_string_equal(wp_conf_upstream_idle(conf, 1, &instead),
                        "enable-tracing");
    assert_null(wp_conf_upstream_idle(conf, 2, &instead));
    assert_flags_refused(
        "--sandbox-warm-pool-readiness-grace-period=soon",
        "--sandbox-warm-pool-readiness-grace-period: setting "
        "'readiness_grace': expected a duration from 1s to 1d, such as 500ms, "
        "30s or 5m, got 'soon'");
    assert_flags_refused("--kube-api-qps=many",
                         "--kube-api-qps: setting 'kube_api_qps': expected a "
                         "whole number from 0 to 1000000, got "
                         "'many'");
    assert_flags_refused("--api-connections",
                         "--api-connections needs a value: "
                         "--api-connections=VALUE");
}

static void
set_flag(const char *flag, struct wp_conf *conf)
{
    char *copy = strdup(flag);
    char *const argv[] = {"warmpoold", copy, NULL};
    enum wp_conf_action action;
    struct wp_err err = {.msg = ""};

    assert_non_null(copy);
    if (wp_conf_read_args(conf, 2, argv, &action, &err) != WP_OK) {
        fail_msg("%s: %s", flag, err.msg);
    }
    free(copy);
}

/* Go writes durations, truths and rates as we do not. */
static void
test_values_as_go_writes_them(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } durations[] = {{"1h0m0.5s", 3600 * WP_NS_PER_S + 500 * WP_NS_PER_MS},
                     {"1000000us", WP_NS_PER_S},
                     {"1000000000ns", WP_NS_PER_S},
                     {"9m0s", 540 * WP_NS_PER_S},
                     {"0h1s", WP_NS_PER_S},
                     {"2500ms", 2500 * WP_NS_PER_MS}};
    static const struct {
        const char *text;
        bool truth;
    } truths[] = {{"1", true},      {"t", true},      {"T", true},
                  {"TRUE", true},   {"True", true},   {"true", true},
                  {"0", false},     {"f", false},     {"F", false},
                  {"FALSE", false}, {"False", false}, {"false", false}};
    static const struct {
        const char *text;
        int64_t rate;
    } rates[] = {{"0", 0},   {"-5", 0},    {"0.1", 1},          {"1e3", 1000},
                 {"20", 20}, {"20.0", 20}, {"1000000", 1000000}};
    struct wp_conf *conf = *state;
    char flag[160];

    for (size_t i = 0; i < WP_ARRAY_LEN(durations); i++) {
        (void)snprintf(flag, sizeof flag,
                       "--sandbox-warm-pool-readiness-grace-period=%s",
                       durations[i].text);
        set_flag(flag, conf);
        assert_int_equal(conf->readiness_grace, durations[i].ns);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(truths); i++) {
        conf->warm_pool_eviction = !truths[i].truth;
        (void)snprintf(flag, sizeof flag, "--enable-warm-pool-eviction=%s",
                       truths[i].text);
        set_flag(flag, conf);
        assert_int_equal(conf->warm_pool_eviction, truths[i].truth);
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(rates); i++) {
        (void)snprintf(flag, sizeof flag, "--kube-api-qps=%s", rates[i].text);
        set_flag(flag, conf);
        assert_int_equal(conf->kube_api_qps, rates[i].rate);
    }
    set_flag("--metrics-bind-address=:65535", conf);
    set_flag("--metrics-bind-address=10.0.0.1:80", conf);
    assert_int_equal(conf->metrics_listen.len, 2);
    assert_string_equal(conf->metrics_listen.items[0], "0.0.0.0:65535");
    assert_string_equal(conf->metrics_listen.items[1], "10.0.0.1:80");
    /* Too long for a port: as it was given, to be refused. */
    set_flag("--metrics-bind-address=:1234567", conf);
    assert_string_equal(conf->metrics_listen.items[2], ":1234567");
}

/* They are shown as they were given, not as we read them. */
static void
test_values_that_go_would_not_take(void **state)
{
    static const char *const bad[] = {
        "--sandbox-warm-pool-readiness-grace-period=",
        "--sandbox-warm-pool-readiness-grace-period=5",
        "--sandbox-warm-pool-readiness-grace-period=s",
        "--sandbox-warm-pool-readiness-grace-period=5x",
        "--sandbox-warm-pool-readiness-grace-period=5s-1s",
        "--sandbox-warm-pool-readiness-grace-period=99999999999h",
        "--sandbox-warm-pool-readiness-grace-period=1s1s1s1s1s1s1s1s1s1s1s1s1s1"
        "s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s1s",
        "--kube-api-qps=",
        "--kube-api-qps=1x",
        "--kube-api-qps=inf",
        "--kube-api-qps=nan",
        "--kube-api-qps=1000001",
        "--kube-api-qps=1e10",
        "--kube-api-qps=0000000000000000000000000000000000000001",
        "--enable-warm-pool-eviction=maybe",
    };
    struct wp_conf *conf = *state;

    for (size_t i = 0; i < WP_ARRAY_LEN(bad); i++) {
        char *copy = strdup(bad[i]);
        char *const argv[] = {"warmpoold", copy, NULL};
        enum wp_conf_action action;
        struct wp_err err = {.msg = ""};

        assert_non_null(copy);
        if (wp_conf_read_args(conf, 2, argv, &action, &err) == WP_OK) {
            fail_msg("%s is taken", bad[i]);
        }
        assert_non_null(strstr(err.msg, "got '"));
        assert_int_equal(strncmp(strstr(err.msg, "got '") + 5,
                                 strchr(copy, '=') + 1,
                                 strlen(strchr(copy, '=') + 1) < 40
                                     ? strlen(strchr(copy, '=') + 1)
                                     : 40),
                         0);
        free(copy);
    }
}

static void
test_upstream_without_extensions(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err;
    enum wp_conf_action action;
    char *const argv[] = {"warmpoold", "--extensions=false",
                          "--metrics-bind-address=0", NULL};

    assert_int_equal(wp_conf_read_args(conf, 3, argv, &action, &err), WP_OK);
    assert_int_equal(conf->controllers.len, 1);
    assert_string_equal(conf->controllers.items[0], "sandbox");
    assert_int_equal(conf->metrics_listen.len, 0);
}

/* A password is shown nowhere: not printed, not in a message. */
static void
test_secrets_are_masked(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_err err = {.msg = ""};
    char *text = NULL;
    size_t len = 0;
    char argument[1200] = "--redis-url=redis://:sesame@";
    enum wp_conf_action action;
    char *const argv[] = {"warmpoold", argument, NULL};
    FILE *out = open_memstream(&text, &len);

    assert_int_equal(
        read_text(conf, "redis_url: 'redis://me:qjx@zqj@h:1/2'\n", &err),
        WP_OK);
    wp_conf_print(conf, out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "redis_url: \"redis://***@h:1/2\""));
    assert_null(strstr(text, "qj"));
    free(text);
    assert_int_equal(
        read_text(conf, "redis_url: 'unix:/s?user=me&password=qj@qj'\n", &err),
        WP_OK);
    out = open_memstream(&text, &len);
    wp_conf_print(conf, out);
    assert_int_equal(fclose(out), 0);
    assert_non_null(strstr(text, "redis_url: \"unix:/s?***\""));
    assert_null(strstr(text, "qj"));
    free(text);
    memset(argument + strlen(argument), 'h', 1100);
    assert_int_equal(wp_conf_read_args(conf, 2, argv, &action, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "setting 'redis_url': expected a text"));
    assert_null(strstr(err.msg, "sesame"));
}

static void
test_durations_and_sizes(void **state)
{
    static const struct {
        const char *text;
        bool ok;
        int64_t ns;
    } cases[] = {
        {"0", true, 0},
        {"1ns", true, 1},
        {"250us", true, 250000},
        {"1500ms", true, 1500 * WP_NS_PER_MS},
        {"2d", true, 2 * 24 * 3600 * WP_NS_PER_S},
        {"", false, 0},
        {"s", false, 0},
        {"5", false, 0},
        {"5 s", false, 0},
        {"-5s", false, 0},
        {"1.5s", false, 0},
        {"99999999999999999999s", false, 0},
        {"999999999999d", false, 0},
    };
    int64_t bytes;
    char out[32];

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(cases); i++) {
        int64_t ns = -1;

        assert_int_equal(
            wp_conf_duration_parse(wp_str_from(cases[i].text), &ns),
            cases[i].ok);
        if (cases[i].ok) {
            assert_int_equal(ns, cases[i].ns);
        }
    }
    assert_string_equal(wp_conf_duration_format(90 * WP_NS_PER_S, out), "90s");
    assert_string_equal(wp_conf_duration_format(120 * WP_NS_PER_S, out), "2m");
    assert_string_equal(wp_conf_duration_format(0, out), "0");
    assert_true(wp_conf_size_parse(WP_STR("3GiB"), &bytes));
    assert_int_equal(bytes, INT64_C(3) << 30);
    assert_false(wp_conf_size_parse(WP_STR("3GB"), &bytes));
    assert_string_equal(wp_conf_size_format(1536, out), "1536");
    assert_string_equal(wp_conf_size_format(1 << 20, out), "1MiB");
}

/* What --check-config prints is itself a configuration file that says the
 * same. */
static void
test_print_is_readable_again(void **state)
{
    struct wp_conf *conf = *state;
    struct wp_conf *again = wp_conf_create();
    struct wp_err err;
    char *text = NULL;
    char *text_again = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    assert_int_equal(read_text(conf,
                               "tls_cert: 'a \"b\" \\ #c'\n"
                               "keepalive: 90s\nlog_format: json\n"
                               "manifests: ['x, y', z]\n",
                               &err),
                     WP_OK);
    assert_int_equal(wp_conf_resolve(conf, &err), WP_OK);
    wp_conf_print(conf, out);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(read_text(again, text, &err), WP_OK);
    assert_string_equal(again->tls_cert, conf->tls_cert);
    assert_string_equal(again->manifests.items[0], "x, y");
    assert_int_equal(again->keepalive, conf->keepalive);
    assert_int_equal(again->claims_max, conf->claims_max);
    free(text);
    free(text_again);
    wp_conf_destroy(again);
}

static void
test_help_names_every_setting(void **state)
{
    char *help = NULL;
    char *reference = NULL;
    size_t len;
    FILE *out = open_memstream(&help, &len);

    (void)state;
    wp_conf_help(out);
    assert_int_equal(fclose(out), 0);
    out = open_memstream(&reference, &len);
    wp_conf_help_settings(out);
    assert_int_equal(fclose(out), 0);
    for (unsigned i = 0; i < WP_SETTINGS; i++) {
        const struct wp_setting *s = wp_setting_get((enum wp_setting_id)i);
        char heading[64];

        (void)snprintf(heading, sizeof heading, "\n### %s\n", s->name);
#ifdef WP_TEST_TOOLS
        assert_int_equal(strstr(reference, heading) != NULL,
                         i < WP_SET_synthetic);
#else
        assert_non_null(strstr(reference, heading));
#endif
        (void)snprintf(heading, sizeof heading, "  --%s=", s->name);
        for (char *p = heading; *p != '\0'; p++) {
            *p = *p == '_' ? '-' : *p;
        }
        assert_non_null(strstr(help, heading));
    }
    free(help);
    free(reference);
}

/* All sources at once, in their order; flag, environment and file, or NULL. */
static enum wp_status
load(const char *flag, const char *variable, const char *file,
     enum wp_conf_action *action, struct wp_err *err)
{
    struct wp_conf *conf = wp_conf_create();
    char path[] = "/tmp/wp-conf-XXXXXX";
    int fd = mkstemp(path);
    char config[64];
    char *const argv[] = {"warmpoold", strdup(flag), config, NULL};
    char *const env[] = {variable != NULL ? strdup(variable) : NULL, NULL};
    enum wp_status status;

    assert_non_null(conf);
    assert_true(fd >= 0);
    (void)snprintf(config, sizeof config, "--config=%s", path);
    if (file != NULL) {
        assert_int_equal(write(fd, file, strlen(file)), strlen(file));
    }
    status = wp_conf_load(conf, file != NULL ? 3 : 2, argv, env, action, err);
    if (status == WP_OK && *action == WP_CONF_CHECK) {
        assert_int_equal(conf->log_level, 2); /* Of the file. */
        assert_int_equal(conf->slots_max, 9); /* Of the environment. */
        assert_int_equal(conf->listen.len, 1);
    }
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
    free(argv[1]);
    free(env[0]);
    wp_conf_destroy(conf);
    return status;
}

/* A mistake of any source is told, unless it is help that is asked for. */
static void
test_load(void **state)
{
    static const char good[] = "log_level: warn\n";
    enum wp_conf_action action;
    struct wp_err err;

    (void)state;
    assert_int_equal(
        load("--check-config", "WARMPOOL_SLOTS_MAX=9", good, &action, &err),
        WP_OK);
    assert_int_equal(load("--reflection", NULL, NULL, &action, &err), WP_OK);
    assert_int_equal(action, WP_CONF_RUN);
    assert_int_equal(
        load("--help", "WARMPOOL_SLOTS_MAX=x", "x: y\n", &action, &err), WP_OK);
    assert_int_equal(action, WP_CONF_HELP);
    assert_int_equal(
        load("--zzz", "WARMPOOL_SLOTS_MAX=x", "x: y\n", &action, &err),
        WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "--zzz"));
    assert_int_equal(
        load("--check-config", "WARMPOOL_SLOTS_MAX=x", "x: y\n", &action, &err),
        WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "WARMPOOL_SLOTS_MAX"));
    assert_int_equal(load("--check-config", NULL, "x: y\n", &action, &err),
                     WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "unknown setting 'x'"));
    assert_int_equal(
        load("--tls-cert=/c", "WARMPOOL_SLOTS_MAX=9", good, &action, &err),
        WP_INVALID_ARGUMENT);
    assert_non_null(strstr(err.msg, "only 'tls_cert' is set"));
}

static void
test_missing_file(void **state)
{
    struct wp_err err;

    assert_int_equal(wp_conf_read_file(*state, "/nonexistent/x.yaml", &err),
                     WP_NOT_FOUND);
    assert_non_null(strstr(err.msg, "/nonexistent/x.yaml"));
    assert_int_not_equal(wp_conf_read_file(*state, "/", &err), WP_OK);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file_sets_each_type, setup,
                                        teardown),
        cmocka_unit_test(test_file_refusals),
        cmocka_unit_test_setup_teardown(test_not_yaml, setup, teardown),
        cmocka_unit_test_setup_teardown(test_list_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_precedence, setup, teardown),
        cmocka_unit_test(test_what_must_not_be_empty),
        cmocka_unit_test_setup_teardown(test_bounds_of_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_length_of_files, setup, teardown),
        cmocka_unit_test(test_actions),
        cmocka_unit_test_setup_teardown(test_each_variable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_of_variables, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_what_is_filled_in, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_what_is_said_is_kept, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_values_as_go_writes_them, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_values_that_go_would_not_take,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_flags, setup, teardown),
        cmocka_unit_test_setup_teardown(test_upstream_flags, setup, teardown),
        cmocka_unit_test_setup_teardown(test_upstream_without_extensions, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_secrets_are_masked, setup,
                                        teardown),
        cmocka_unit_test(test_durations_and_sizes),
        cmocka_unit_test_setup_teardown(test_print_is_readable_again, setup,
                                        teardown),
        cmocka_unit_test(test_help_names_every_setting),
        cmocka_unit_test(test_load),
        cmocka_unit_test_setup_teardown(test_missing_file, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
