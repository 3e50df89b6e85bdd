#include "allocator/conf/conf.h"

#include <stdlib.h>
#include <unistd.h>

#include "pool/base/address.h"
#include "allocator/conf/upstream.h"
#include "allocator/conf/value.h"
#include "allocator/conf/paths.h"

#define EGRESS_KEY "--egress-key="

static enum wp_status
unknown_flag(struct wp_str name, struct wp_err *err)
{
    const char *near = wp_setting_nearest(name);

    return wp_err_set(err, WP_INVALID_ARGUMENT,
                      "unknown flag --%.*s%s%s%s; --help lists all",
                      name.len < 40 ? (int)name.len : 40, name.ptr,
                      near != NULL ? "; did you mean --" : "",
                      near != NULL ? near : "", near != NULL ? "?" : "");
}

static bool
action_flag(struct wp_str name, enum wp_conf_action *action)
{
    static const struct {
        const char *name;
        enum wp_conf_action action;
    } flags[] = {
        {"check-config", WP_CONF_CHECK},
        {"help", WP_CONF_HELP},
        {"help-settings", WP_CONF_HELP_SETTINGS},
        {"version", WP_CONF_VERSION},
    };

    for (size_t i = 0; i < WP_ARRAY_LEN(flags); i++) {
        if (wp_str_is(name, flags[i].name)) {
            *action = flags[i].action;
            return true;
        }
    }
    return false;
}

/* One "--name[=value]"; next is the argument after it or NULL. *used says
 * whether next was its value. */
static enum wp_status
read_flag(struct wp_conf *conf, const char *arg, const char *next, bool *used,
          struct wp_err *err)
{
    const char *equals = strchr(arg, '=');
    struct wp_str name = {arg, equals != NULL ? (size_t)(equals - arg)
                                              : strlen(arg)};
    const struct wp_upstream_flag *theirs = wp_upstream_find(name);
    enum wp_setting_id id = wp_setting_find(name);
    enum wp_status status;
    bool is_bool;
    struct wp_str value;

    if (id == WP_SETTINGS && theirs == NULL) {
        return unknown_flag(name, err);
    }
    is_bool = theirs != NULL ? wp_upstream_is_bool(theirs)
                             : wp_setting_get(id)->type == WP_SETTING_BOOL;
    if (equals != NULL) {
        value = wp_str_from(equals + 1);
    } else if (is_bool) {
        value = WP_STR("true"); /* "--reflection" alone; "=false" to deny. */
    } else if (next != NULL) {
        value = wp_str_from(next);
        *used = true;
    } else {
        return wp_err_set(err, WP_INVALID_ARGUMENT,
                          "--%s needs a value: --%s=VALUE", arg, arg);
    }
    status =
        theirs != NULL
            ? wp_upstream_set(conf, theirs, value, err)
            : wp_conf_set_text(conf, id, value,
                               (struct wp_conf_origin){WP_CONF_FLAG, 0}, err);
    return status == WP_OK
               ? WP_OK
               : wp_err_wrap(err, "--%.*s", (int)name.len, name.ptr);
}

enum wp_status
wp_conf_read_args(struct wp_conf *conf, int argc, char *const *argv,
                  enum wp_conf_action *action, struct wp_err *err)
{
    *action = WP_CONF_RUN;
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        bool used = false;
        enum wp_status status;

        if (strcmp(arg, "-h") == 0) {
            *action = WP_CONF_HELP;
            continue;
        }
        if (strcmp(arg, "-V") == 0) {
            *action = WP_CONF_VERSION;
            continue;
        }
        if (arg[0] != '-' || arg[1] != '-' || arg[2] == '\0') {
            return wp_err_set(err, WP_INVALID_ARGUMENT,
                              "argument '%.60s': expected --name=value; "
                              "--help lists all",
                              arg);
        }
        if (action_flag(wp_str_from(arg + 2), action)) {
            continue;
        }
        if (strncmp(arg, EGRESS_KEY, sizeof EGRESS_KEY - 1) == 0) {
            conf->egress_key_of = arg + sizeof EGRESS_KEY - 1;
            *action = WP_CONF_EGRESS_KEY;
            continue;
        }
        status = read_flag(conf, arg + 2, i + 1 < argc ? argv[i + 1] : NULL,
                           &used, err);
        if (status != WP_OK) {
            return status;
        }
        i += used ? 1 : 0;
    }
    return WP_OK;
}

/* "LOG_LEVEL" is "log_level"; capitals only. */
static bool
lower_name(struct wp_str name, char *out, size_t cap)
{
    if (name.len == 0 || name.len >= cap) {
        return false;
    }
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];

        if (!((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) {
            return false;
        }
        out[i] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    out[name.len] = '\0';
    return true;
}

enum wp_status
wp_conf_read_env(struct wp_conf *conf, char *const *environ_vars,
                 struct wp_err *err)
{
    const struct wp_str prefix = WP_STR("WARMPOOL_");

    for (size_t i = 0; environ_vars != NULL && environ_vars[i] != NULL; i++) {
        struct wp_str var = wp_str_from(environ_vars[i]);
        const char *equals = strchr(environ_vars[i], '=');
        enum wp_setting_id id;
        struct wp_str name;
        char lower[64];

        if (!wp_str_starts_with(var, prefix) || equals == NULL) {
            continue;
        }
        name = (struct wp_str){var.ptr + prefix.len,
                               (size_t)(equals - var.ptr) - prefix.len};
        if (!lower_name(name, lower, sizeof lower)) {
            continue;
        }
        id = wp_setting_find(wp_str_from(lower));
        /* Unknown ones may be meant for warmpoolctl or a test. */
        if (id != WP_SETTINGS &&
            wp_conf_set_text(conf, id, wp_str_from(equals + 1),
                             (struct wp_conf_origin){WP_CONF_ENV, 0},
                             err) != WP_OK) {
            return wp_err_wrap(err, "WARMPOOL_%.*s", WP_STR_ARG(name));
        }
    }
    return WP_OK;
}

/* For a setting that nobody, or somebody as empty, has set. */
static enum wp_status
set_default(struct wp_conf *conf, enum wp_setting_id id, const char *text,
            struct wp_err *err)
{
    return wp_conf_set_text(conf, id, wp_str_from(text), conf->origin[id], err);
}

/* The host's name, as far as it can be one of ours. */
static const char *
host_name(char out[WP_CONF_TEXT_MAX + 1])
{
    size_t len;

    if (gethostname(out, WP_REPLICA_NAME_MAX + 1) != 0) {
        return "unnamed";
    }
    out[WP_REPLICA_NAME_MAX] = '\0';
    len = strlen(out);
    return len > 0 && wp_str_is_printable(wp_str_from(out)) ? out : "unnamed";
}

enum wp_status
wp_conf_resolve(struct wp_conf *conf, struct wp_err *err)
{
    char text[WP_CONF_TEXT_MAX + 1];
    enum wp_status status = WP_OK;

    if (conf->runtime_dir[0] == '\0') {
        status = set_default(conf, WP_SET_runtime_dir,
                             wp_paths_runtime_dir(text, sizeof text), err);
    }
    if (status == WP_OK && conf->state_dir[0] == '\0') {
        (void)snprintf(text, sizeof text, "%.4000s/state", conf->runtime_dir);
        status = set_default(conf, WP_SET_state_dir, text, err);
    }
    if (status == WP_OK && conf->lease_store_path[0] == '\0') {
        (void)snprintf(text, sizeof text, "%.4000s/leases.db", conf->state_dir);
        status = set_default(conf, WP_SET_lease_store_path, text, err);
    }
    if (status == WP_OK && conf->replica_name[0] == '\0') {
        status = set_default(conf, WP_SET_replica_name, host_name(text), err);
    }
    if (status == WP_OK && conf->listen.len == 0) {
        (void)snprintf(text, sizeof text, "unix:%.4000s/%s", conf->runtime_dir,
                       WP_GRPC_SOCKET_NAME);
        status = set_default(conf, WP_SET_listen, text, err);
    }
    if (status == WP_OK && conf->http_listen.len == 0) {
        (void)snprintf(text, sizeof text, "unix:%.4000s/%s", conf->runtime_dir,
                       WP_HTTP_SOCKET_NAME);
        status = set_default(conf, WP_SET_http_listen, text, err);
    }
    if (status == WP_OK && conf->access_token_file[0] == '\0') {
        (void)snprintf(text, sizeof text, "%.4000s/%s", conf->runtime_dir,
                       WP_ACCESS_TOKEN_NAME);
        status = set_default(conf, WP_SET_access_token_file, text, err);
    }
    if (wp_conf_is_cluster(conf) &&
        conf->origin[WP_SET_lease_store].source == WP_CONF_DEFAULT) {
        /* What a lease needs to be found again is in the cluster. */
        conf->lease_store = WP_CONF_STORE_MEMORY;
    }
    if (status == WP_OK && conf->claims_max == 0) {
        conf->claims_max = conf->slots_max + 4096;
    }
    return status;
}

enum wp_status
wp_conf_load(struct wp_conf *conf, int argc, char *const *argv,
             char *const *environ_vars, enum wp_conf_action *action,
             struct wp_err *err)
{
    enum wp_status status = wp_conf_read_args(conf, argc, argv, action, err);

    if (status != WP_OK ||
        (*action != WP_CONF_RUN && *action != WP_CONF_CHECK)) {
        return status;
    }
    status = wp_conf_read_env(conf, environ_vars, err);
    if (status == WP_OK && conf->config[0] != '\0') {
        status = wp_conf_read_file(conf, conf->config, err);
    }
    if (status == WP_OK) {
        status = wp_conf_resolve(conf, err);
    }
    return status == WP_OK ? wp_conf_check(conf, err) : status;
}
