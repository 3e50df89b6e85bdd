/* warmpool-runtime: the small server inside a sandbox. One thread, one loop.
 * SIGTERM and SIGINT stop it: no new connections, requests under way have the
 * grace time to finish, then every command is killed. A second one ends it at
 * once. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <event2/event.h>

#include "pool/base/clock.h"
#include "pool/base/file.h"
#include "pool/base/log.h"
#include "pool/base/os_error.h"
#include "proto/loop/loop.h"
#include "proto/sockets/descriptors.h"
#include "proto/sockets/listen.h"
#include "runtime/mcp/mcp.h"
#include "runtime/runtime.h"
#include "runtime/sandboxd/process_service.h"
#include "runtime/server/bind.h"
#include "runtime/server/confine.h"

enum {
    EXIT_USAGE = 2,
    DRAIN_MS = 200,   /* For output of what a command left behind. */
    FD_RESERVE = 256, /* Descriptors kept for commands and files. */
    FIELDS_MAX = 64,  /* Of a request's head. */
};

struct server {
    struct wp_runtime runtime;
    struct wp_http_server *http;
    struct wp_process_service *grpc; /* NULL: not served. */
    struct event *signals[2];
    struct event *grace;
    struct wp_listener unix_socket; /* Its descriptor is the HTTP server's. */
    bool stopping;
    int undrained; /* Of the two servers. */
};

static void
on_drained(void *arg)
{
    struct server *server = arg;

    if (--server->undrained <= 0) {
        event_base_loopbreak(server->runtime.base);
    }
}

static void
on_grace_over(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    wp_log_warn("requests are cut off: the grace time is over");
    event_base_loopbreak(((struct server *)arg)->runtime.base);
}

static void
on_signal(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    struct timeval tv =
        wp_timeval(server->runtime.options.grace_ms * WP_NS_PER_MS);

    (void)what;
    if (server->stopping) {
        event_base_loopbreak(server->runtime.base);
        return;
    }
    server->stopping = true;
    wp_log_info("stopping", wp_kv_int("signal", fd));
    evtimer_add(server->grace, &tv);
    server->undrained = server->grpc != NULL ? 2 : 1;
    if (server->grpc != NULL) {
        wp_process_service_drain(server->grpc, on_drained, server);
    }
    wp_http_server_drain(server->http, on_drained, server);
    wp_mcp_drain(server->runtime.mcp);
}

/* A write to a closed socket and a file size limit must be errors; and signals
 * that a launcher left blocked, SIGCHLD above all, must come through. */
static void
signals_prepare(void)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t none;

    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigaction(SIGXFSZ, &ignore, NULL);
}

/* Keeps connections from using up the descriptors commands need. */
static uint32_t
conns_max_for(uint32_t asked)
{
    uint32_t room = wp_descriptors_fit(asked, 1, FD_RESERVE);

    if (room < asked) {
        wp_log_warn("fewer connections than asked: too few descriptors",
                    wp_kv_int("conns_max", (int64_t)room));
    }
    return room;
}

static const char *
workspace_default(void)
{
    struct stat st;

    return stat("/workspace", &st) == 0 && S_ISDIR(st.st_mode) ? "/workspace"
                                                               : ".";
}

/* A descriptor of a socket on that port of host, or -1 and err. *port becomes
 * the chosen one when it was 0. */
static int
bind_port(const char *host, int32_t *port, struct wp_err *err)
{
    bool v6 = strchr(host, ':') != NULL;
    struct wp_address address;
    struct wp_listener listener;
    char text[128];

    (void)snprintf(text, sizeof(text), "%s%s%s:%d", v6 ? "[" : "", host,
                   v6 ? "]" : "", (int)*port);
    if (wp_address_parse(wp_str_from(text), &address, err) != WP_OK) {
        (void)wp_err_set(err, WP_INVALID_ARGUMENT,
                         "--bind: '%s' is no IP address", host);
        return -1;
    }
    if (wp_listener_open(&listener, &address, 0, err) != WP_OK) {
        return -1;
    }
    *port = wp_address_port(&listener.address);
    return listener.fd;
}

static enum wp_status
listen_port(struct server *server, int32_t port, unsigned roles,
            const char *name, FILE *ports, struct wp_err *err)
{
    const char *host = server->runtime.options.bind;
    enum wp_status status;
    int fd;

    if (port == WP_OPTIONS_PORT_NONE) {
        return WP_OK;
    }
    fd = bind_port(host != NULL ? host : "::", &port, err);
    if (fd < 0 && host == NULL) { /* No IPv6 here. */
        fd = bind_port("0.0.0.0", &port, err);
    }
    if (fd < 0) {
        return err->status;
    }
    status = wp_http_server_listen(server->http, fd, roles, err);
    if (status == WP_OK) {
        wp_log_info("listening", wp_kv_str("for", name),
                    wp_kv_int("port", port));
        if (ports != NULL) {
            fprintf(ports, "%s %d\n", name, (int)port);
        }
    }
    return status;
}

static struct wp_process_service *
open_grpc(struct server *server, const char *host, struct wp_err *err)
{
    struct wp_runtime *runtime = &server->runtime;
    bool v6 = strchr(host, ':') != NULL;
    char text[128];

    (void)snprintf(text, sizeof(text), "%s%s%s:%d", v6 ? "[" : "", host,
                   v6 ? "]" : "", (int)runtime->options.grpc_port);
    return wp_process_service_create(
        runtime, text, conns_max_for(runtime->options.conns_max), err);
}

static enum wp_status
listen_grpc(struct server *server, FILE *ports, struct wp_err *err)
{
    const struct wp_options *options = &server->runtime.options;
    int32_t port;

    if (options->grpc_port == WP_OPTIONS_PORT_NONE) {
        return WP_OK;
    }
    server->grpc =
        open_grpc(server, options->bind != NULL ? options->bind : "::", err);
    if (server->grpc == NULL && options->bind == NULL) { /* No IPv6 here. */
        server->grpc = open_grpc(server, "0.0.0.0", err);
    }
    if (server->grpc == NULL) {
        return wp_err_wrap(err, "--grpc-port");
    }
    port = wp_process_service_port(server->grpc);
    wp_log_info("listening", wp_kv_str("for", "grpc"), wp_kv_int("port", port));
    if (ports != NULL) {
        fprintf(ports, "grpc %d\n", (int)port);
    }
    return WP_OK;
}

static enum wp_status
listen_unix(struct server *server, struct wp_err *err)
{
    const char *path = server->runtime.options.unix_path;
    struct wp_listener *listener = &server->unix_socket;
    struct wp_address address;
    enum wp_status status;
    int fd;

    if (path == NULL) {
        return WP_OK;
    }
    status = wp_address_unix(wp_str_from(path), &address, err);
    if (status != WP_OK) {
        return wp_err_wrap(err, "--unix");
    }
    if (wp_listener_open(listener, &address, 0, err) != WP_OK) {
        return err->status;
    }
    fd = listener->fd;
    listener->fd = -1;
    status = wp_http_server_listen(server->http, fd, WP_ROLE_MCP | WP_ROLE_REST,
                                   err);
    if (status == WP_OK) {
        wp_log_info("listening", wp_kv_str("path", path));
    }
    return status;
}

static enum wp_status
listen_all(struct server *server, FILE *ports, struct wp_err *err)
{
    const struct wp_options *options = &server->runtime.options;
    enum wp_status status = listen_port(
        server, options->port, WP_ROLE_MCP | WP_ROLE_REST, "all", ports, err);

    if (status == WP_OK) {
        status = listen_port(server, options->mcp_port, WP_ROLE_MCP, "mcp",
                             ports, err);
    }
    if (status == WP_OK) {
        status = listen_port(server, options->rest_port, WP_ROLE_REST, "rest",
                             ports, err);
    }
    if (status == WP_OK) {
        status = listen_grpc(server, ports, err);
    }
    return status == WP_OK ? listen_unix(server, err) : status;
}

/* The port file appears whole, under its name, when everything listens. */
static enum wp_status
listen_and_tell(struct server *server, struct wp_err *err)
{
    const char *path = server->runtime.options.port_file;
    char temp[4096];
    FILE *ports = NULL;
    enum wp_status status;

    if (path != NULL) {
        if (snprintf(temp, sizeof(temp), "%s.new", path) < (int)sizeof(temp)) {
            ports = fopen(temp, "we");
        }
        if (ports == NULL) {
            return wp_err_set(err, WP_FAILED_PRECONDITION, "--port-file %s: %s",
                              path, wp_os_error(errno));
        }
    }
    status = listen_all(server, ports, err);
    if (ports != NULL && fclose(ports) != 0 && status == WP_OK) {
        status = wp_err_set(err, WP_FAILED_PRECONDITION, "--port-file %s: %s",
                            path, wp_os_error(errno));
    }
    if (ports != NULL && status == WP_OK && rename(temp, path) != 0) {
        status = wp_err_set(err, WP_FAILED_PRECONDITION, "--port-file %s: %s",
                            path, wp_os_error(errno));
    }
    if (ports != NULL && status != WP_OK) {
        (void)unlink(temp);
    }
    return status;
}

static struct wp_http_server *
http_create(struct wp_runtime *runtime)
{
    const struct wp_http_server_config config = {
        .base = runtime->base,
        .route = wp_runtime_route,
        .app = runtime,
        .conns_max = conns_max_for(runtime->options.conns_max),
        .fields_max = FIELDS_MAX,
        .head_timeout_ns = 10 * WP_NS_PER_S,
        .body_timeout_ns = 30 * WP_NS_PER_S,
        .idle_timeout_ns = 75 * WP_NS_PER_S,
        .send_timeout_ns = 60 * WP_NS_PER_S,
    };

    return wp_http_server_create(&config);
}

static enum wp_status
parts_create(struct server *server, struct wp_err *err)
{
    struct wp_runtime *runtime = &server->runtime;
    const struct wp_process_limits limits = {
        .running_max = runtime->options.execs_max,
        .waiting_max = runtime->options.execs_waiting_max,
        .timeout_max_ms = runtime->options.exec_timeout_max_ms,
        .drain_ms = DRAIN_MS,
    };

    runtime->base = wp_loop_base_create();
    if (runtime->base != NULL) {
        runtime->processes = wp_process_table_create(runtime->base, &limits);
        runtime->mcp = wp_mcp_create(runtime);
        server->http = http_create(runtime);
        server->grace = evtimer_new(runtime->base, on_grace_over, server);
        server->signals[0] =
            evsignal_new(runtime->base, SIGTERM, on_signal, server);
        server->signals[1] =
            evsignal_new(runtime->base, SIGINT, on_signal, server);
    }
    if (runtime->processes == NULL || runtime->mcp == NULL ||
        server->http == NULL || server->grace == NULL ||
        server->signals[0] == NULL || server->signals[1] == NULL) {
        return wp_err_set(err, WP_RESOURCE_EXHAUSTED, "out of memory");
    }
    evsignal_add(server->signals[0], NULL);
    evsignal_add(server->signals[1], NULL);
    return WP_OK;
}

static enum wp_status
server_start(struct server *server, struct wp_err *err)
{
    struct wp_runtime *runtime = &server->runtime;
    const char *workspace = runtime->options.workspace;
    enum wp_status status;

    if (workspace == NULL) {
        workspace = workspace_default();
    }
    status = wp_workspace_init(&runtime->workspace, workspace, err);
    if (status == WP_OK) {
        status = parts_create(server, err);
    }
    if (status == WP_OK) {
        wp_runtime_bind_init(runtime);
        status = listen_and_tell(server, err);
    }
    if (status == WP_OK && runtime->options.confine) {
        status =
            wp_confine(runtime->workspace.root, runtime->options.readable, err);
        if (status == WP_UNIMPLEMENTED) {
            wp_log_warn("not confined", wp_kv_err(err));
            status = WP_OK;
        }
    }
    return status;
}

/* Requests end before the tables their handlers use. One more SIGTERM must not
 * turn a clean end into a death by signal when the handlers are gone. */
static void
server_fini(struct server *server)
{
    struct wp_runtime *runtime = &server->runtime;
    sigset_t stops;

    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGINT);
    (void)sigprocmask(SIG_BLOCK, &stops, NULL);
    wp_http_server_destroy(server->http);
    wp_process_service_destroy(server->grpc);
    wp_process_table_destroy(runtime->processes);
    wp_mcp_destroy(runtime->mcp);
    for (int i = 0; i < 2; i++) {
        if (server->signals[i] != NULL) {
            event_free(server->signals[i]);
        }
    }
    if (server->grace != NULL) {
        event_free(server->grace);
    }
    wp_loop_base_destroy(runtime->base);
    wp_workspace_fini(&runtime->workspace);
    wp_listener_close(&server->unix_socket);
}

WP_OPENS_STREAMS;

int
main(int argc, char **argv)
{
    static struct server server;
    struct wp_err err;
    enum wp_status status;

    switch (wp_options_parse(argc, argv, &server.runtime.options, &err)) {
    case WP_OPTIONS_HELP:
        return EXIT_SUCCESS;
    case WP_OPTIONS_INVALID:
        fprintf(stderr, "warmpool-runtime: %s\n", err.msg);
        return EXIT_USAGE;
    case WP_OPTIONS_RUN:
        break;
    }
    wp_log_configure(server.runtime.options.log_level,
                     server.runtime.options.log_format);
    signals_prepare();
    server.runtime.workspace.fd = -1;
    server.unix_socket.fd = -1;
    server.runtime.started_ns = wp_clock_mono_ns(wp_clock_system());
    status = server_start(&server, &err);
    if (status != WP_OK) {
        wp_log_error("cannot start", wp_kv_err(&err));
    } else {
        event_base_dispatch(server.runtime.base);
        wp_log_info("stopped");
    }
    server_fini(&server);
    return status == WP_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
