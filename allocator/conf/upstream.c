#include "allocator/conf/upstream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/conf/value.h"
#include "pool/base/clock.h"

enum value_kind {
    IDLE, /* Does nothing. */
    IDLE_BOOL,
    SAME, /* The setting's own text. */
    SAME_BOOL,
    RATE,      /* Any number; below 0: no bound. */
    DURATION,  /* As Go writes it: "1h2m0.5s". */
    ADDRESS,   /* ":8080" is that of all addresses; "0": none. */
    ALL_KINDS, /* false: only Sandboxes. */
};

struct wp_upstream_flag {
    const char *name;
    enum value_kind kind;
    enum wp_setting_id id;
    const char *instead; /* Of those that do nothing. */
};

static const struct wp_upstream_flag flags[] = {
    {"extensions", ALL_KINDS, WP_SET_controllers, NULL},
    {"kube-api-qps", RATE, WP_SET_kube_api_qps, NULL},
    {"metrics-bind-address", ADDRESS, WP_SET_metrics_listen, NULL},
    {"enable-warm-pool-eviction", SAME_BOOL, WP_SET_warm_pool_eviction, NULL},
    {"sandbox-warm-pool-max-batch-size", SAME, WP_SET_create_inflight_max,
     NULL},
    {"sandbox-warm-pool-readiness-grace-period", DURATION,
     WP_SET_readiness_grace, NULL},
    {"sandbox-concurrent-workers", IDLE, WP_SETTINGS,
     "no object waits for a worker; kube_api_qps bounds the requests"},
    {"sandbox-claim-concurrent-workers", IDLE, WP_SETTINGS,
     "no claim waits for a worker; kube_api_qps bounds the requests"},
    {"sandbox-warm-pool-concurrent-workers", IDLE, WP_SETTINGS,
     "pools fill side by side; create_inflight_max bounds each"},
    {"sandbox-template-concurrent-workers", IDLE, WP_SETTINGS,
     "no object waits for a worker; kube_api_qps bounds the requests"},
    {"sandbox-warm-pool-replenish-delay", IDLE, WP_SETTINGS,
     "refill makes way for claims by itself; create_inflight_max bounds it"},
    {"sandbox-warm-pool-max-refill-rate", IDLE, WP_SETTINGS,
     "refill makes way for claims by itself; create_inflight_max bounds it"},
    {"sandbox-warm-pool-unschedulable-recheck-interval", IDLE, WP_SETTINGS,
     "what finds no node is kept; readiness_grace says when that is looked at"},
    {"sandbox-write-behind-window", IDLE, WP_SETTINGS,
     "a claim's status is one write; disable_claim_observability_annotations "
     "saves others"},
    {"api-connections", IDLE, WP_SETTINGS,
     "one connection carries all requests; kube_api_qps bounds them"},
    {"separate-watch-connection", IDLE_BOOL, WP_SETTINGS,
     "claims go before all else; watch_silence ends a watch that stands still"},
    {"cache-label-selectors", IDLE_BOOL, WP_SETTINGS,
     "only what belongs to sandboxes is watched; watch_namespace narrows it"},
    {"health-probe-bind-address", IDLE, WP_SETTINGS,
     "/healthz and /readyz are at metrics_listen"},
    {"metrics-secure-serving", IDLE_BOOL, WP_SETTINGS,
     "metrics_listen is in clear; http_listen has the same page with TLS"},
    {"metrics-cert-dir", IDLE, WP_SETTINGS,
     "metrics_listen is in clear; http_listen has the same page with TLS"},
    {"tls-min-version", IDLE, WP_SETTINGS, "TLS is 1.2 or newer everywhere"},
    {"tls-cipher-suites", IDLE, WP_SETTINGS,
     "OpenSSL's configuration names the ciphers"},
    {"enable-tracing", IDLE_BOOL, WP_SETTINGS,
     "otlp_endpoint names a collector, which turns traces on"},
    {"enable-pprof", IDLE_BOOL, WP_SETTINGS,
     "metrics_listen shows where time goes"},
    {"enable-pprof-debug", IDLE_BOOL, WP_SETTINGS,
     "metrics_listen shows where time goes"},
    {"pprof-block-profile-rate", IDLE, WP_SETTINGS,
     "metrics_listen shows where time goes"},
    {"pprof-mutex-profile-fraction", IDLE, WP_SETTINGS,
     "metrics_listen shows where time goes"},
    {"zap-devel", IDLE_BOOL, WP_SETTINGS, "use log_level and log_format"},
    {"zap-encoder", IDLE, WP_SETTINGS, "use log_format"},
    {"zap-log-level", IDLE, WP_SETTINGS, "use log_level"},
    {"zap-stacktrace-level", IDLE, WP_SETTINGS, "use log_level"},
    {"zap-time-encoding", IDLE, WP_SETTINGS, "use log_format"},
};

_Static_assert(WP_ARRAY_LEN(flags) <= 64, "upstream_idle has a bit for each");

const struct wp_upstream_flag *
wp_upstream_find(struct wp_str name)
{
    for (size_t i = 0; i < WP_ARRAY_LEN(flags); i++) {
        if (wp_str_is(name, flags[i].name)) {
            return &flags[i];
        }
    }
    return NULL;
}

bool
wp_upstream_is_bool(const struct wp_upstream_flag *flag)
{
    return flag->kind == IDLE_BOOL || flag->kind == SAME_BOOL ||
           flag->kind == ALL_KINDS;
}

/* --- Texts of theirs as texts of ours; false: left as it is, to be refused. */

static bool
rate_text(struct wp_str value, char out[32])
{
    char *end;
    double rate;

    if (!wp_str_copy(value, out, 32) || out[0] == '\0') {
        return false;
    }
    rate = strtod(out, &end);
    if (*end != '\0' || !isfinite(rate) || rate > 1e9) {
        return false;
    }
    (void)snprintf(out, 32, "%.0f", rate > 0 ? ceil(rate) : 0.0);
    return true;
}

/* The unit at the text's start, in ns; 0: there is none. */
static double
unit_at(const char *text, size_t *len)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1},  {"us", 1e3}, {"ms", 1e6},
                 {"s", 1e9}, {"m", 6e10}, {"h", 3.6e12}};

    for (size_t i = 0; i < WP_ARRAY_LEN(units); i++) {
        *len = strlen(units[i].name);
        if (strncmp(text, units[i].name, *len) == 0) {
            return units[i].ns;
        }
    }
    return 0;
}

static bool
duration_text(struct wp_str value, char out[32])
{
    char text[64];
    const char *at = text;
    double sum = 0;

    if (!wp_str_copy(value, text, sizeof text) || text[0] == '\0') {
        return false;
    }
    while (*at != '\0') {
        char *end = text;
        double number = *at >= '0' && *at <= '9' ? strtod(at, &end) : -1;
        size_t len = 0;
        double unit = number >= 0 ? unit_at(end, &len) : 0;

        if (unit == 0) {
            return false;
        }
        sum += number * unit;
        at = end + len;
    }
    if (!(sum < (double)(INT64_MAX / 2))) {
        return false;
    }
    (void)wp_conf_duration_format((int64_t)sum, out);
    return true;
}

static enum wp_status
set_address(struct wp_conf *conf, struct wp_str value,
            struct wp_conf_origin origin, struct wp_err *err)
{
    char text[64];

    if (wp_str_is(value, "0")) {
        return WP_OK;
    }
    if (value.len > 0 && value.ptr[0] == ':' && value.len < 8) {
        (void)snprintf(text, sizeof text, "0.0.0.0%.*s", WP_STR_ARG(value));
        value = wp_str_from(text);
    }
    return wp_conf_set_text(conf, WP_SET_metrics_listen, value, origin, err);
}

/* As Go's flags have them, beside ours. */
static struct wp_str
bool_text(struct wp_str value)
{
    static const char *const truths[] = {"1", "t", "T", "TRUE", "True"};
    static const char *const lies[] = {"0", "f", "F", "FALSE", "False"};

    for (size_t i = 0; i < WP_ARRAY_LEN(truths); i++) {
        if (wp_str_is(value, truths[i])) {
            return WP_STR("true");
        }
        if (wp_str_is(value, lies[i])) {
            return WP_STR("false");
        }
    }
    return value;
}

enum wp_status
wp_upstream_set(struct wp_conf *conf, const struct wp_upstream_flag *flag,
                struct wp_str value, struct wp_err *err)
{
    const struct wp_conf_origin origin = {WP_CONF_FLAG, 0};
    char text[32];

    switch (flag->kind) {
    case IDLE:
    case IDLE_BOOL:
        conf->upstream_idle |= UINT64_C(1) << (flag - flags);
        return WP_OK;
    case RATE:
        return wp_conf_set_text(
            conf, flag->id, rate_text(value, text) ? wp_str_from(text) : value,
            origin, err);
    case DURATION:
        return wp_conf_set_text(conf, flag->id,
                                duration_text(value, text) ? wp_str_from(text)
                                                           : value,
                                origin, err);
    case ADDRESS:
        return set_address(conf, value, origin, err);
    case ALL_KINDS:
        return wp_str_is(bool_text(value), "false")
                   ? wp_conf_set_text(conf, flag->id, WP_STR("sandbox"), origin,
                                      err)
                   : WP_OK;
    case SAME_BOOL:
        return wp_conf_set_text(conf, flag->id, bool_text(value), origin, err);
    case SAME:
    default:
        return wp_conf_set_text(conf, flag->id, value, origin, err);
    }
}

const char *
wp_conf_upstream_idle(const struct wp_conf *conf, size_t i,
                      const char **instead)
{
    for (size_t row = 0; row < WP_ARRAY_LEN(flags); row++) {
        if ((conf->upstream_idle >> row & 1) != 0 && i-- == 0) {
            *instead = flags[row].instead;
            return flags[row].name;
        }
    }
    return NULL;
}
