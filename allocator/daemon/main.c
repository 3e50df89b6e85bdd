/* warmpoold: keeps sandboxes warm and leases a ready one to each claim. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/conf/conf.h"
#include "allocator/daemon/daemon.h"
#include "allocator/daemon/files.h"
#include "allocator/daemon/redis.h"
#include "pool/base/file.h"
#include "pool/base/log.h"

extern char **environ;

enum {
    EXIT_CONFIG = 2, /* Settings or manifests are wrong; nothing was started. */
};

/* Room for the names of all settings of one backend. */
#define IDLE_MAX 1024

static int
complain(const struct wp_err *err)
{
    (void)fprintf(stderr, "warmpoold: %s\n", err->msg);
    return EXIT_CONFIG;
}

/* --check-config: what a start would say of settings and manifests. */
static int
check(const struct wp_conf *conf)
{
    struct wp_err err;
    struct wp_manifest *manifest = wp_daemon_read_manifests(conf, &err);
    const struct wp_pool_spec *specs;
    char idle[IDLE_MAX];
    const char *flag;
    const char *instead;
    size_t n;

    if (manifest == NULL) {
        return complain(&err);
    }
    if (wp_daemon_redis_check_login(conf, &err) != WP_OK) {
        wp_manifest_destroy(manifest);
        return complain(&err);
    }
    wp_conf_print(conf, stdout);
    n = wp_manifest_pools(manifest, &specs);
    (void)printf("\n# Pools of the manifests, and created ones\n");
    for (size_t i = 0; i < n; i++) {
        (void)printf("# %s/%s: %u of template %s\n", specs[i].pool_namespace,
                     specs[i].name, specs[i].target, specs[i].template_name);
    }
    if (wp_conf_idle(conf, idle, sizeof idle) > 0) {
        (void)printf("# note: with this backend these settings do nothing: "
                     "%s\n",
                     idle);
    }
    for (size_t i = 0;
         (flag = wp_conf_upstream_idle(conf, i, &instead)) != NULL; i++) {
        (void)printf("# note: --%s does nothing: %s\n", flag, instead);
    }
    for (size_t i = 0; i < wp_manifest_notes_count(manifest); i++) {
        (void)printf("# note: %s\n", wp_manifest_note(manifest, i));
    }
    wp_manifest_destroy(manifest);
    return EXIT_SUCCESS;
}

/* --egress-key: what the egress proxy of that namespace is given. */
static int
print_egress_key(const struct wp_conf *conf)
{
    struct wp_str ns = wp_str_from(conf->egress_key_of);
    uint8_t installation[WP_EGRESS_KEY_LEN];
    uint8_t key[WP_EGRESS_KEY_LEN];
    char text[2 * WP_EGRESS_KEY_LEN + 1];
    struct wp_err err;
    bool printed;

    if (!wp_str_is_dns_name(ns, WP_NAMESPACE_MAX)) {
        (void)wp_err_set(&err, WP_INVALID_ARGUMENT,
                         "--egress-key: expected the name of a namespace, not "
                         "'%.80s'",
                         conf->egress_key_of);
        return complain(&err);
    }
    if (wp_daemon_read_egress_key(conf, installation, &err) != WP_OK) {
        return complain(&err);
    }
    wp_egress_key_derive(installation, ns, key);
    wp_hex_encode(key, sizeof key, text);
    printed = puts(text) >= 0 && fflush(stdout) == 0;
    explicit_bzero(installation, sizeof installation);
    explicit_bzero(key, sizeof key);
    explicit_bzero(text, sizeof text);
    return printed ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void
prepare_signals(void)
{
    sigset_t set;

    /* Before gRPC starts a thread: each inherits the mask. */
    wp_daemon_signals(&set);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* A file that may not grow is an error. */
}

static int
run(const struct wp_conf *conf, int argc, char **argv)
{
    struct wp_err err = {.msg = ""};
    struct wp_daemon *daemon;
    char idle[IDLE_MAX];
    const char *flag;
    const char *instead;
    bool clean;

    wp_log_configure((enum wp_log_level)conf->log_level,
                     (enum wp_log_format)conf->log_format);
    prepare_signals();
    wp_log_info("warmpoold starts", wp_kv_str("version", WP_VERSION));
    if (wp_conf_idle(conf, idle, sizeof idle) > 0) {
        wp_log_warn("with this backend these settings do nothing",
                    wp_kv_str("backend", wp_conf_is_cluster(conf) ? "kubernetes"
                                                                  : "local"),
                    wp_kv_str("settings", idle));
    }
    for (size_t i = 0;
         (flag = wp_conf_upstream_idle(conf, i, &instead)) != NULL; i++) {
        wp_log_warn("a flag of agent-sandbox's controller does nothing here",
                    wp_kv_str("flag", flag), wp_kv_str("instead", instead));
    }
    daemon = wp_daemon_create(conf, argc, argv, &err);
    if (daemon == NULL) {
        wp_log_error("cannot start", wp_kv_err(&err));
        return err.status == WP_INVALID_ARGUMENT ? EXIT_CONFIG : EXIT_FAILURE;
    }
    if (wp_daemon_start(daemon, &err) != WP_OK) {
        wp_log_error("cannot start", wp_kv_err(&err));
        wp_daemon_destroy(daemon);
        return EXIT_FAILURE;
    }
    clean = wp_daemon_run(daemon);
    wp_daemon_destroy(daemon);
    return clean ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int
act(const struct wp_conf *conf, enum wp_conf_action action, int argc,
    char **argv)
{
    switch (action) {
    case WP_CONF_HELP:
        wp_conf_help(stdout);
        return EXIT_SUCCESS;
    case WP_CONF_HELP_SETTINGS:
        wp_conf_help_settings(stdout);
        return EXIT_SUCCESS;
    case WP_CONF_VERSION:
        (void)printf("warmpoold %s%s\n", WP_VERSION, WP_CONF_BUILD);
        return EXIT_SUCCESS;
    case WP_CONF_EGRESS_KEY:
        return print_egress_key(conf);
    case WP_CONF_CHECK:
        return check(conf);
    case WP_CONF_RUN:
    default:
        return run(conf, argc, argv);
    }
}

WP_OPENS_STREAMS;

int
main(int argc, char **argv)
{
    struct wp_conf *conf = wp_conf_create();
    enum wp_conf_action action = WP_CONF_RUN;
    struct wp_err err = {.msg = "no memory"};
    int code;

    if (conf == NULL ||
        wp_conf_load(conf, argc, argv, environ, &action, &err) != WP_OK) {
        wp_conf_destroy(conf);
        return complain(&err);
    }
    code = act(conf, action, argc, argv);
    wp_conf_destroy(conf);
    return code;
}
