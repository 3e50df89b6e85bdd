/* warmpool-egress: the way out of sandboxes. One thread, one loop.
 *
 * Either warmpoold starts it, and tells it over a channel of sandboxes and
 * their sockets; or it listens at an address itself, for all that reach it, as
 * a sidecar or a Service of a namespace. SIGTERM and SIGINT end it. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/base/duration.h"
#include "pool/base/file.h"
#include "pool/base/log.h"
#include "pool/base/os_error.h"
#include "pool/egress/channel.h"
#include "pool/egress/pass.h"
#include "proto/loop/loop.h"
#include "proto/sockets/descriptors.h"
#include "proto/sockets/listen.h"
#include "runtime/egress/members.h"

enum {
    EXIT_USAGE = 2,
    FDS_PER_CONN = 2,
    FDS_OTHERS = 512, /* Listening sockets, name servers, the log. */
    UNIX_MODE = 0666, /* Whoever reaches the socket is meant to use it. */
};

struct program {
    struct wp_egress_config config;
    const char *listen;
    const char *policy;
    const char *keys_path;
    const char *passes_path;
    const char *name_servers;
    const char *ca;
    bool channel; /* warmpoold has started it. */
    bool keys_fd; /* With the file of keys. */
    enum wp_log_format log_format;
    struct event_base *base;
    struct event *signals[2];
    struct wp_egress_keys *keys;
    struct wp_egress *egress;
    struct wp_egress_members *members;
    struct wp_listener listener;
    uint8_t pass_key[WP_EGRESS_KEY_LEN];
};

static const char help[] =
    "Usage: warmpool-egress --listen ADDRESS --policy POLICY [OPTION ...]\n"
    "\n"
    "A forward proxy that lets sandboxes reach what a policy allows:\n"
    "CONNECT HOST:443, http://HOST/ on port 80, and /KEY/PATH, where it adds\n"
    "a secret that no sandbox has. All else is refused with 403 and a reason.\n"
    "On one machine warmpoold starts it by itself.\n"
    "\n"
    "  --listen ADDRESS      127.0.0.1:3128, [::]:3128 or unix:/path\n"
    "  --policy POLICY       none; open [RULE ...]; or RULE ...: a name,\n"
    "                        *.NAME, an address, a network, packages, "
    "key:NAME;\n"
    "                        each but a key perhaps with :PORT\n"
    "  --packages RULES      what the rule 'packages' stands for\n"
    "  --keys FILE           one key a line: NAME URL FIELD: VALUE; for "
    "nobody\n"
    "                        else to read\n"
    "  --passes FILE         with the key of this namespace, as warmpoold\n"
    "                        --egress-key prints it: each request needs a "
    "pass,\n"
    "                        which a claim brings, and reaches what both the\n"
    "                        pass and the policy allow\n"
    "  --name-servers LIST   ADDRESS[:PORT],... (default: the system's)\n"
    "  --ca FILE             authorities of keys' servers (default: the\n"
    "                        system's)\n"
    "  --conns-max N         connections at once (default 4096); more wait\n"
    "  --source-conns-max N  of one sandbox, or at --listen of one address\n"
    "                        (default 256); more are refused\n"
    "  --source-bytes-max N  both ways, in the life of the sandbox, or of "
    "this\n"
    "                        process (default 0: no bound)\n"
    "  --connect-timeout T   to resolve a name, and for each address "
    "(default 10s)\n"
    "  --idle-timeout T      a side that does not move on (default 30s)\n"
    "  --silence-timeout T   a connection without a byte (default 10m)\n"
    "  --log-format FORMAT   text or json (default text)\n"
    "  --help, --version\n";

/* --- Options --- */

enum option_key {
    OPT_LISTEN = 256,
    OPT_POLICY,
    OPT_PACKAGES,
    OPT_KEYS,
    OPT_PASSES,
    OPT_NAME_SERVERS,
    OPT_CA,
    OPT_CONNS_MAX,
    OPT_SOURCE_CONNS_MAX,
    OPT_SOURCE_BYTES_MAX,
    OPT_CONNECT_TIMEOUT,
    OPT_IDLE_TIMEOUT,
    OPT_SILENCE_TIMEOUT,
    OPT_LOG_FORMAT,
    OPT_CHANNEL,
    OPT_KEYS_FD,
    OPT_HELP,
    OPT_VERSION,
};

static bool
read_count(const char *name, uint64_t min, uint64_t max, uint64_t *out,
           struct wp_err *err)
{
    if (wp_str_to_u64(wp_str_from(optarg), out) && *out >= min && *out <= max) {
        return true;
    }
    (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                     "--%s: a whole number from %llu to %llu was expected, not "
                     "'%s'",
                     name, (unsigned long long)min, (unsigned long long)max,
                     optarg);
    return false;
}

static bool
read_time(const char *name, int64_t *out, struct wp_err *err)
{
    if (wp_duration_parse(wp_str_from(optarg), out) &&
        *out >= 10 * WP_NS_PER_MS && *out <= 24 * 3600 * WP_NS_PER_S) {
        return true;
    }
    (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                     "--%s: a duration from 10ms to 24h was expected, not '%s'",
                     name, optarg);
    return false;
}

static bool
read_number(struct program *program, int c, const char *name,
            struct wp_err *err)
{
    struct wp_egress_config *config = &program->config;
    uint64_t count = 0;

    switch (c) {
    case OPT_CONNS_MAX:
        if (!read_count(name, 1, 1 << 20, &count, err)) {
            return false;
        }
        config->conns_max = (uint32_t)count;
        return true;
    case OPT_SOURCE_CONNS_MAX:
        if (!read_count(name, 1, 1 << 20, &count, err)) {
            return false;
        }
        config->source_conns_max = (uint32_t)count;
        return true;
    case OPT_SOURCE_BYTES_MAX:
        return read_count(name, 0, UINT64_MAX, &config->source_bytes_max, err);
    case OPT_CONNECT_TIMEOUT:
        return read_time(name, &config->connect_timeout_ns, err);
    case OPT_IDLE_TIMEOUT:
        return read_time(name, &config->idle_timeout_ns, err);
    default:
        return read_time(name, &config->silence_timeout_ns, err);
    }
}

static bool
read_text(struct program *program, int c, struct wp_err *err)
{
    switch (c) {
    case OPT_LISTEN:
        program->listen = optarg;
        return true;
    case OPT_POLICY:
        program->policy = optarg;
        return true;
    case OPT_PACKAGES:
        program->config.packages = wp_str_from(optarg);
        return true;
    case OPT_KEYS:
        program->keys_path = optarg;
        return true;
    case OPT_PASSES:
        program->passes_path = optarg;
        return true;
    case OPT_NAME_SERVERS:
        program->name_servers = optarg;
        return true;
    case OPT_CA:
        program->ca = optarg;
        return true;
    case OPT_CHANNEL:
        program->channel = true;
        return true;
    case OPT_KEYS_FD:
        program->keys_fd = true;
        return true;
    default:
        program->log_format =
            strcmp(optarg, "json") == 0 ? WP_LOG_JSON : WP_LOG_TEXT;
        if (strcmp(optarg, "json") == 0 || strcmp(optarg, "text") == 0) {
            return true;
        }
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "--log-format: text or json was expected, not '%s'",
                         optarg);
        return false;
    }
}

static const struct option options[] = {
    {"listen", required_argument, NULL, OPT_LISTEN},
    {"policy", required_argument, NULL, OPT_POLICY},
    {"packages", required_argument, NULL, OPT_PACKAGES},
    {"keys", required_argument, NULL, OPT_KEYS},
    {"passes", required_argument, NULL, OPT_PASSES},
    {"name-servers", required_argument, NULL, OPT_NAME_SERVERS},
    {"ca", required_argument, NULL, OPT_CA},
    {"conns-max", required_argument, NULL, OPT_CONNS_MAX},
    {"source-conns-max", required_argument, NULL, OPT_SOURCE_CONNS_MAX},
    {"source-bytes-max", required_argument, NULL, OPT_SOURCE_BYTES_MAX},
    {"connect-timeout", required_argument, NULL, OPT_CONNECT_TIMEOUT},
    {"idle-timeout", required_argument, NULL, OPT_IDLE_TIMEOUT},
    {"silence-timeout", required_argument, NULL, OPT_SILENCE_TIMEOUT},
    {"log-format", required_argument, NULL, OPT_LOG_FORMAT},
    {"channel", no_argument, NULL, OPT_CHANNEL},
    {"keys-fd", no_argument, NULL, OPT_KEYS_FD},
    {"help", no_argument, NULL, OPT_HELP},
    {"version", no_argument, NULL, OPT_VERSION},
    {NULL, 0, NULL, 0},
};

/* What must be there, and together. */
static bool
check(struct program *program, struct wp_err *err)
{
    struct wp_egress_policy policy;

    if (program->passes_path != NULL && program->listen == NULL) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "--passes: --listen was expected with it");
        return false;
    }
    if (!program->channel &&
        (program->listen == NULL || program->policy == NULL)) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "--listen and --policy are needed; see --help");
        return false;
    }
    if (program->config.packages.len > 0 &&
        wp_egress_preset_parse(program->config.packages, &policy, err) !=
            WP_OK) {
        (void)wp_err_wrap(err, "--packages");
        return false;
    }
    if (program->policy != NULL &&
        wp_egress_policy_parse(wp_str_from(program->policy),
                               program->config.packages, &policy,
                               err) != WP_OK) {
        (void)wp_err_wrap(err, "--policy");
        return false;
    }
    return true;
}

/* -1: go on; else what to exit with. */
static int
read_options(struct program *program, int argc, char **argv)
{
    struct wp_err err;
    int index = 0;
    int c;

    while ((c = getopt_long(argc, argv, "", options, &index)) != -1) {
        if (c == OPT_HELP) {
            (void)fputs(help, stdout);
            return EXIT_SUCCESS;
        }
        if (c == OPT_VERSION) {
            (void)printf("warmpool-egress %s\n", WP_VERSION);
            return EXIT_SUCCESS;
        }
        if (c == '?') {
            return EXIT_USAGE; /* getopt has said why. */
        }
        if (c >= OPT_CONNS_MAX && c <= OPT_SILENCE_TIMEOUT
                ? !read_number(program, c, options[index].name, &err)
                : !read_text(program, c, &err)) {
            goto wrong;
        }
    }
    if (optind < argc) {
        (void)wp_err_set(&err, WP_INVALID_ARGUMENT,
                         "no argument was expected "
                         "besides options, not '%s'",
                         argv[optind]);
        goto wrong;
    }
    if (check(program, &err)) {
        return -1;
    }
wrong:
    (void)fprintf(stderr, "warmpool-egress: %s\n", err.msg);
    return EXIT_USAGE;
}

/* --- Start --- */

/* The file of that option, which holds secrets. -1: err says what is wrong. */
static int
open_secrets(const char *option, const char *path, struct wp_err *err)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &st) != 0) {
        (void)wp_err_sys(err, WP_FAILED_PRECONDITION, errno, "--%s %s", option,
                         path);
    } else if ((st.st_mode & (S_IROTH | S_IWOTH | S_IWGRP)) != 0) {
        (void)wp_err_set(err, WP_FAILED_PRECONDITION,
                         "--%s %s: a file that others cannot read nor write "
                         "was expected",
                         option, path);
    } else {
        return fd;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return -1;
}

/* Digits, and perhaps the end of a line. */
static enum wp_status
read_pass_key(struct program *program, struct wp_err *err)
{
    char text[2 * WP_EGRESS_KEY_LEN + 2];
    bool is_key;
    ssize_t len;
    int fd;

    if (program->passes_path == NULL) {
        return WP_OK;
    }
    fd = open_secrets("passes", program->passes_path, err);
    if (fd < 0) {
        return err->status;
    }
    len = read(fd, text, sizeof text);
    (void)close(fd);
    if (len > 0 && text[len - 1] == '\n') {
        len--;
    }
    is_key = len == 2 * WP_EGRESS_KEY_LEN &&
             wp_hex_decode((struct wp_str){text, (size_t)len},
                           program->pass_key, sizeof program->pass_key);
    explicit_bzero(text, sizeof text);
    if (!is_key) {
        return wp_err_set(err, WP_FAILED_PRECONDITION,
                          "--passes %s: %d hexadecimal digits were expected, "
                          "as warmpoold --egress-key=NAMESPACE prints them",
                          program->passes_path, 2 * WP_EGRESS_KEY_LEN);
    }
    program->config.pass_key = program->pass_key;
    return WP_OK;
}

static enum wp_status
read_keys(struct program *program, struct wp_err *err)
{
    int fd = program->keys_fd ? WP_EGRESS_KEYS_FD : -1;

    if (program->keys_path != NULL) {
        fd = open_secrets("keys", program->keys_path, err);
        if (fd < 0) {
            return err->status;
        }
    }
    if (fd >= 0) {
        program->keys = wp_egress_keys_read(fd, err);
        (void)close(fd);
        if (program->keys == NULL) {
            return err->status;
        }
        program->config.keys = program->keys;
    }
    return WP_OK;
}

static enum wp_status
listen_at(struct program *program, struct wp_err *err)
{
    struct wp_address address;
    char shown[128];
    int fd;

    if (program->listen == NULL) {
        return WP_OK;
    }
    if (wp_address_parse(wp_str_from(program->listen), &address, err) !=
        WP_OK) {
        return wp_err_wrap(err, "--listen");
    }
    if (wp_listener_open(&program->listener, &address, UNIX_MODE, err) !=
        WP_OK) {
        return err->status;
    }
    fd = program->listener.fd;
    program->listener.fd = -1;
    if (wp_egress_join(program->egress, WP_STR(""),
                       wp_str_from(program->policy), WP_STR(""), fd,
                       err) != WP_OK) {
        return err->status;
    }
    wp_log_info(
        "listening",
        wp_kv_str("address", wp_address_format(&program->listener.address,
                                               shown, sizeof shown)));
    return WP_OK;
}

static void
on_signal(evutil_socket_t fd, short what, void *arg)
{
    const struct program *program = arg;

    (void)fd;
    (void)what;
    (void)event_base_loopbreak(program->base);
}

/* A service manager may signal all processes of a service, and the daemon's own
 * end takes a while: what it has started ends with the channel. */
static enum wp_status
set_signals(struct program *program, struct wp_err *err)
{
    static const int stops[] = {SIGTERM, SIGINT};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};

    for (size_t i = 0; i < WP_ARRAY_LEN(stops); i++) {
        if (program->channel) {
            (void)sigaction(stops[i], &ignore, NULL);
            continue;
        }
        program->signals[i] =
            evsignal_new(program->base, stops[i], on_signal, program);
        if (program->signals[i] == NULL ||
            evsignal_add(program->signals[i], NULL) != 0) {
            return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
        }
    }
    return WP_OK;
}

static enum wp_status
start(struct program *program, struct wp_err *err)
{
    struct wp_egress_config *config = &program->config;

    program->base = wp_loop_base_create();
    if (program->base == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    config->base = program->base;
    config->conns_max =
        wp_descriptors_fit(config->conns_max, FDS_PER_CONN, FDS_OTHERS);
    if (set_signals(program, err) != WP_OK) {
        return err->status;
    }
    config->resolver =
        wp_resolver_create(program->base, program->name_servers, err);
    if (config->resolver == NULL || read_keys(program, err) != WP_OK ||
        read_pass_key(program, err) != WP_OK) {
        return err->status;
    }
    if (program->keys != NULL) {
        config->tls = wp_upstream_tls_create(program->ca, err);
        if (config->tls == NULL) {
            return err->status;
        }
    }
    program->egress = wp_egress_create(config);
    if (program->egress != NULL && program->channel) {
        program->members = wp_egress_members_create(
            program->base, program->egress, WP_EGRESS_CHANNEL_FD);
    }
    if (program->egress == NULL ||
        (program->channel && program->members == NULL)) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "no memory");
    }
    return listen_at(program, err);
}

static void
finish(struct program *program)
{
    wp_egress_members_destroy(program->members);
    wp_egress_destroy(program->egress);
    wp_listener_close(&program->listener);
    wp_resolver_destroy(program->config.resolver);
    wp_upstream_tls_destroy(program->config.tls);
    wp_egress_keys_destroy(program->keys);
    for (size_t i = 0; i < WP_ARRAY_LEN(program->signals); i++) {
        if (program->signals[i] != NULL) {
            event_free(program->signals[i]);
        }
    }
    wp_loop_base_destroy(program->base);
}

/* It has keys in its memory: no file of that, and no looks from outside. */
static void
protect(void)
{
    const struct rlimit none = {0, 0};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    struct rlimit files;

    (void)prctl(PR_SET_DUMPABLE, 0);
    (void)setrlimit(RLIMIT_CORE, &none);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    /* Each sandbox adds a socket, and nobody says how many there will be. */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

WP_OPENS_STREAMS;

int
main(int argc, char **argv)
{
    static struct program program = {.listener = {.fd = -1}};
    struct wp_err err;
    enum wp_status status;
    int done;

    wp_egress_config_init(&program.config);
    done = read_options(&program, argc, argv);
    if (done >= 0) {
        return done;
    }
    wp_log_configure(WP_LOG_INFO, program.log_format);
    protect();
    status = start(&program, &err);
    if (status != WP_OK) {
        wp_log_error("cannot start", wp_kv_err(&err));
    } else {
        (void)event_base_dispatch(program.base);
    }
    finish(&program);
    return status == WP_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
