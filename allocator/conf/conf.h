/* allocator/conf/conf.h - the daemon's settings, from all their sources.
 *
 * A setting is taken from the first that names it: its flag
 * (--log-level=debug or --log-level debug), the environment
 * (WARMPOOL_LOG_LEVEL), the configuration file (log_level: debug), its
 * default. All of them speak the same texts. Every message names where the
 * value came from, the setting, and what was expected. Main thread; on SIGHUP
 * a second wp_conf is loaded and compared. */
#ifndef WP_ALLOCATOR_CONF_CONF_H
#define WP_ALLOCATOR_CONF_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "pool/base/status.h"
#include "pool/base/str.h"
#include "pool/limits.h"

enum {
    WP_CONF_FILE_MAX = 1 << 18, /* Bytes of a configuration file. */
    WP_CONF_LIST_MAX = 256,     /* Items of the longest list. */
    WP_CONF_TEXT_MAX = 4095,    /* Bytes of one value. */
    WP_REPLICA_NAME_MAX = 63,
};

enum wp_setting_type {
    WP_SETTING_STRING,
    WP_SETTING_SECRET, /* A text that may hold a password: shown masked. */
    WP_SETTING_BOOL,
    WP_SETTING_INT,
    WP_SETTING_DURATION, /* "500ms", "30s", "5m", "2h", "1d"; kept in ns. */
    WP_SETTING_SIZE,     /* "4096", "256KiB", "4MiB"; kept in bytes. */
    WP_SETTING_LIST,     /* A YAML sequence, or texts with commas between. */
    WP_SETTING_ENUM,     /* One of the choices; kept as its number. */
};

struct wp_conf_list {
    char **items;
    uint32_t len;
};

/* What --version says besides. */
#ifdef WP_TEST_TOOLS
#define WP_CONF_BUILD " with test tools"
#else
#define WP_CONF_BUILD ""
#endif

/* The last group of settings, in builds with test tools: no manual names it. */
#define WP_CONF_TEST_GROUP "Test tools"
/* Each is of one backend; the other makes nothing of them. */
#define WP_CONF_LOCAL_GROUP "Sandboxes on this machine"
#define WP_CONF_KUBERNETES_GROUP "Kubernetes"

enum wp_setting_id {
#define WP_GROUP(title)
#define WP_SETTING(type, name, ...) WP_SET_##name,
#include "allocator/conf/settings.def"
#undef WP_SETTING
#undef WP_GROUP
    WP_SETTINGS
};

/* Where a value came from, the weaker the smaller. */
enum wp_conf_source {
    WP_CONF_DEFAULT,
    WP_CONF_FILE,
    WP_CONF_ENV,
    WP_CONF_FLAG,
};

struct wp_conf_origin {
    enum wp_conf_source source;
    uint32_t line; /* Of the file. */
};

#define WP_CONF_TYPE_STRING char *
#define WP_CONF_TYPE_SECRET char *
#define WP_CONF_TYPE_BOOL bool
#define WP_CONF_TYPE_INT int64_t
#define WP_CONF_TYPE_DURATION int64_t
#define WP_CONF_TYPE_SIZE int64_t
#define WP_CONF_TYPE_LIST struct wp_conf_list
#define WP_CONF_TYPE_ENUM int

/* One field per setting. Strings are never NULL. */
struct wp_conf {
#define WP_GROUP(title)
#define WP_SETTING(type, name, ...) WP_CONF_TYPE_##type name;
#include "allocator/conf/settings.def"
#undef WP_SETTING
#undef WP_GROUP
    struct wp_conf_origin origin[WP_SETTINGS];
    /* Flags of agent-sandbox's controller that do nothing; bits. */
    uint64_t upstream_idle;
    const char *egress_key_of; /* A namespace; borrowed from argv. */
};

/* Numbers of the choices of ENUM settings, in the order of the table. */
enum {
    WP_CONF_STORE_MEMORY = 0,
    WP_CONF_STORE_SQLITE = 1,
    WP_CONF_STORE_REDIS = 2,
    WP_CONF_SYNCHRONOUS_AUTO = 0,
    WP_CONF_SYNCHRONOUS_FULL = 1,
    WP_CONF_STOP_AUTO = 0,
    WP_CONF_STOP_NOTHING = 1,
    WP_CONF_STOP_LEASED = 2,
    WP_CONF_STOP_ALL = 3,
    WP_CONF_OUTLIVE_AUTO = 0,
    WP_CONF_OUTLIVE_TRUE = 1,
    WP_CONF_OUTLIVE_FALSE = 2,
    WP_CONF_LIMITS_ENFORCED = 0,
    WP_CONF_LIMITS_BEST_EFFORT = 1,
    WP_CONF_BACKEND_LOCAL = 0,
    WP_CONF_BACKEND_KUBERNETES = 1,
    WP_CONF_TOKEN_AUTO = 0,
    WP_CONF_TOKEN_ALWAYS = 1,
    WP_CONF_TOKEN_NEVER = 2,
};

/* Do leases outlive the daemon? */
static inline bool
wp_conf_is_durable(const struct wp_conf *conf)
{
    return conf->lease_store != WP_CONF_STORE_MEMORY;
}
/* Are sandboxes files, in which nothing runs? */
static inline bool
wp_conf_is_synthetic(const struct wp_conf *conf)
{
#ifdef WP_TEST_TOOLS
    return conf->synthetic && conf->backend == WP_CONF_BACKEND_LOCAL;
#else
    (void)conf;
    return false;
#endif
}
/* A text setting, NULL when it is empty. */
static inline const char *
wp_conf_or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}
/* Are sandboxes processes of this machine? */
static inline bool
wp_conf_is_local(const struct wp_conf *conf)
{
    return conf->backend == WP_CONF_BACKEND_LOCAL &&
           !wp_conf_is_synthetic(conf);
}
/* Are sandboxes a cluster's objects? */
static inline bool
wp_conf_is_cluster(const struct wp_conf *conf)
{
    return conf->backend == WP_CONF_BACKEND_KUBERNETES;
}
/* sandbox_outlive and stop_leaves with auto decided. */
static inline bool
wp_conf_outlives(const struct wp_conf *conf)
{
    if (wp_conf_is_cluster(conf)) {
        return true;
    }
    return conf->sandbox_outlive == WP_CONF_OUTLIVE_AUTO
               ? wp_conf_is_durable(conf)
               : conf->sandbox_outlive == WP_CONF_OUTLIVE_TRUE;
}
static inline int
wp_conf_stop_leaves(const struct wp_conf *conf)
{
    if (conf->stop_leaves != WP_CONF_STOP_AUTO) {
        return conf->stop_leaves;
    }
    if (wp_conf_is_cluster(conf)) {
        return WP_CONF_STOP_ALL;
    }
    return wp_conf_is_durable(conf) ? WP_CONF_STOP_LEASED
                                    : WP_CONF_STOP_NOTHING;
}

/* Does gRPC listen where nothing proves who calls, on TCP without client
 * certificates? For settings that wp_conf_check has passed. Any thread. */
bool wp_conf_listens_unproven(const struct wp_conf *conf);
/* Is a caller there served who shows no token: by tcp_anonymous, or by an entry
 * of identities? Any thread. */
bool wp_conf_allows_anonymous(const struct wp_conf *conf);

/* Bit 0 for "pool", 1 "claim", 2 "template", 3 "sandbox", as
 * k8s/cluster/cluster.h numbers them; 0: no such controller. Any thread. */
uint32_t wp_conf_controller(const char *name);

/* What the command line asks for. */
enum wp_conf_action {
    WP_CONF_RUN,
    WP_CONF_CHECK,         /* --check-config */
    WP_CONF_EGRESS_KEY,    /* --egress-key=NAMESPACE */
    WP_CONF_HELP,          /* --help, -h */
    WP_CONF_HELP_SETTINGS, /* --help-settings */
    WP_CONF_VERSION,       /* --version, -V */
};

/* One row of the table, for those who print it. */
struct wp_setting {
    const char *name;
    const char *default_text;
    const char *choices; /* ENUM: "a|b|c"; else the unit, or "". */
    const char *help;
    int64_t min;
    int64_t max;
    size_t offset; /* In struct wp_conf. */
    enum wp_setting_type type;
    bool reload;
};

const struct wp_setting *wp_setting_get(enum wp_setting_id id);

/* All defaults. NULL when memory lacks. */
struct wp_conf *wp_conf_create(void);
void wp_conf_destroy(struct wp_conf *conf);

/* Everything at once: flags, environment, the file they name, defaults of
 * paths, and wp_conf_check. On WP_CONF_HELP, _HELP_SETTINGS and _VERSION
 * nothing else is looked at. argv and environ are borrowed. */
enum wp_status wp_conf_load(struct wp_conf *conf, int argc, char *const *argv,
                            char *const *environ, enum wp_conf_action *action,
                            struct wp_err *err);

/* The parts of it, for tests and fuzzing. file is for messages. */
enum wp_status wp_conf_read_file(struct wp_conf *conf, const char *path,
                                 struct wp_err *err);
enum wp_status wp_conf_read_text(struct wp_conf *conf, struct wp_str text,
                                 const char *file, struct wp_err *err);
enum wp_status wp_conf_read_env(struct wp_conf *conf, char *const *environ,
                                struct wp_err *err);
enum wp_status wp_conf_read_args(struct wp_conf *conf, int argc,
                                 char *const *argv, enum wp_conf_action *action,
                                 struct wp_err *err);
/* Sets the paths that depend on the environment where nothing is said. */
enum wp_status wp_conf_resolve(struct wp_conf *conf, struct wp_err *err);
/* What no single setting can tell: contradictions, addresses, what this version
 * does not have. */
enum wp_status wp_conf_check(const struct wp_conf *conf, struct wp_err *err);

/* The settings that were given but do nothing, since they are the other
 * backend's: their names, "a, b", as many whole ones as fit in cap (at least 1)
 * bytes. Returns how many there are. */
size_t wp_conf_idle(const struct wp_conf *conf, char *out, size_t cap);

/* The i-th flag of agent-sandbox's controller that was given and does nothing,
 * and what to look at instead; NULL: there are no more. Static storage. */
const char *wp_conf_upstream_idle(const struct wp_conf *conf, size_t i,
                                  const char **instead);

/* The effective settings as a configuration file with their sources. */
void wp_conf_print(const struct wp_conf *conf, FILE *out);
/* --help and --help-settings (markdown). */
void wp_conf_help(FILE *out);
void wp_conf_help_settings(FILE *out);

#endif
