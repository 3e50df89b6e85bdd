/* tests/unit/allocator/http/gateway_test.c - who may do what over HTTP, and what
 * the gateway has made of its settings. golden/ has each whole. Servers,
 * sockets, bounds and what stands behind the routes are fakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <netinet/in.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "allocator/http/gateway.h"
#include "allocator/http/proxy.h"
#include "allocator/http/secure.h"
#include "proto/sockets/listen.h"
#include "proto/sockets/peer_limits.h"
#include "proto/tls/tls.h"
#include "tests/support/base/golden.h"

#define WRAP(result, name, ...)                                                \
    result __wrap_##name(__VA_ARGS__);                                         \
    result __wrap_##name(__VA_ARGS__)
#define ADMIN "the-admin"

enum {
    UNIX = 1,
    TLS = 2,
    TRUSTING = 4,
};

struct wp_http_req {
    const char *name; /* In the journal. */
    char head[1024];
    struct wp_http_message message;
    unsigned roles;
    alignas(max_align_t) char peer[1024];
};

static struct golden journal;
static struct wp_gateway_config config;
static struct wp_http_server_config server;
static struct wp_gateway *gateway;
static struct wp_http_req reqs[8];
static const char *fails;
static int callocs; /* So many succeed; < 0: all. */
static bool no_buffer;
static enum wp_peer_verdict verdict;
static enum wp_peer_right right;
static struct wp_identity who; /* Whom a socket or certificate names. */
static bool is_proven;
static struct wp_claim_info found;
static bool is_found;

static bool
may(const char *what, struct wp_err *err)
{
    if (fails == NULL || strcmp(fails, what) != 0) {
        return true;
    }
    (void)wp_err_set(err, WP_UNAVAILABLE, "no %s today", what);
    return false;
}

/* --- The HTTP server --- */

WRAP(struct wp_http_server *, wp_http_server_create,
     const struct wp_http_server_config *of)
{
    server = *of;
    assert_true(of->peer_size <= sizeof reqs[0].peer);
    golden_add(&journal,
               "server: %u connections, %u fields, head %lld, body %lld, idle "
               "%lld, send %lld, forward %d\n",
               of->conns_max, of->fields_max, (long long)of->head_timeout_ns,
               (long long)of->body_timeout_ns, (long long)of->idle_timeout_ns,
               (long long)of->send_timeout_ns, of->forward);
    return fails != NULL && strcmp(fails, "server") == 0
               ? NULL
               : (struct wp_http_server *)(void *)&server;
}

WRAP(enum wp_status, wp_http_server_listen, struct wp_http_server *of, int fd,
     unsigned roles, struct wp_err *err)
{
    assert_ptr_equal(of, &server);
    golden_add(&journal, "listen on %d, roles %u\n", fd, roles);
    return may("listen", err) ? WP_OK : err->status;
}

WRAP(enum wp_status, wp_http_server_listen_secure, struct wp_http_server *of,
     int fd, unsigned roles, const struct wp_http_secure *secure,
     struct wp_err *err)
{
    assert_ptr_equal(of, &server);
    golden_add(&journal, "listen on %d, roles %u, by %s\n", fd, roles,
               secure->ctx == &fails ? "certificate" : "nothing");
    return may("secure", err) ? WP_OK : err->status;
}

WRAP(void, wp_http_server_destroy, struct wp_http_server *of)
{
    golden_add(&journal, "server destroyed: %d\n", of != NULL);
}

WRAP(struct wp_http_server_stats, wp_http_server_stats,
     const struct wp_http_server *of)
{
    assert_ptr_equal(of, &server);
    return (struct wp_http_server_stats){.connections_total = 100,
                                         .connections_refused = 20,
                                         .requests_total = 300,
                                         .connections = 4};
}

WRAP(void *, wp_http_app, const struct wp_http_req *req)
{
    (void)req;
    return server.app;
}

WRAP(void *, wp_http_peer, struct wp_http_req *req)
{
    return req->peer;
}

WRAP(unsigned, wp_http_roles, const struct wp_http_req *req)
{
    return req->roles;
}

WRAP(const char *, wp_http_method, const struct wp_http_req *req)
{
    static char method[16];

    (void)!wp_str_copy(req->message.method, method, sizeof method);
    return method;
}

WRAP(struct wp_http_message *, wp_http_message, struct wp_http_req *req)
{
    return &req->message;
}

WRAP(struct bufferevent *, wp_http_bufferevent, struct wp_http_req *req)
{
    return (struct bufferevent *)(void *)req;
}

WRAP(void, wp_http_add_header, struct wp_http_req *req, const char *name,
     const char *value)
{
    golden_add(&journal, "%s: header %s: %s\n", req->name, name, value);
}

WRAP(void, wp_http_set_close, struct wp_http_req *req)
{
    golden_add(&journal, "%s: closes\n", req->name);
}

WRAP(void, wp_http_reply_error, struct wp_http_req *req, int status,
     const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    golden_add(&journal, "%s: error %d '%s'\n", req->name, status, text);
}

WRAP(void, wp_http_reply_buffer, struct wp_http_req *req, int status,
     const char *type, struct evbuffer *body)
{
    golden_add(&journal, "%s: reply %d %s '%.*s'\n", req->name, status, type,
               (int)evbuffer_get_length(body),
               (const char *)evbuffer_pullup(body, -1));
}

WRAP(void, wp_http_set_deadline, struct wp_http_req *req, int64_t in_ns)
{
    golden_add(&journal, "%s: deadline in %lld\n", req->name, (long long)in_ns);
}

WRAP(void, wp_http_stream_drop, struct wp_http_req *req)
{
    golden_add(&journal, "%s: dropped\n", req->name);
    server.left(req);
}

/* --- Beside it --- */

WRAP(enum wp_status, wp_listener_open, struct wp_listener *listener,
     const struct wp_address *address, uint32_t unix_mode, struct wp_err *err)
{
    static int fd = 100;

    golden_add(&journal, "open, unix %d, mode %o\n", address->is_unix,
               unix_mode);
    if (!may("socket", err)) {
        return err->status;
    }
    memset(listener, 0, sizeof *listener);
    listener->address = *address;
    listener->fd = fd;
    return WP_OK;
}

WRAP(void, wp_listener_close, struct wp_listener *listener)
{
    golden_add(&journal, "socket closed, fd %d\n", listener->fd);
}

WRAP(struct wp_peer_limits *, wp_peer_limits_create,
     const struct wp_peer_limits_config *of, struct wp_err *err)
{
    golden_add(&journal,
               "limits: %u, of a peer %u, kept %u and %u, calls %u %u %u\n",
               of->all_max, of->peer_max, of->privileged_kept, of->unix_kept,
               of->calls_max, of->peer_calls_max, of->privileged_calls_kept);
    return may("limits", err) ? (struct wp_peer_limits *)(void *)&verdict
                              : NULL;
}

WRAP(void, wp_peer_limits_destroy, struct wp_peer_limits *limits)
{
    golden_add(&journal, "limits destroyed: %d\n", limits != NULL);
}

WRAP(enum wp_peer_verdict, wp_peer_limits_enter, struct wp_peer_limits *limits,
     struct wp_peer peer, struct wp_peer_ticket *ticket)
{
    assert_ptr_equal(limits, &verdict);
    golden_add(&journal, "enter: kind %d, privileged %d, id %llx -> %d\n",
               (int)peer.kind, peer.privileged, (unsigned long long)peer.id,
               (int)verdict);
    *ticket = (struct wp_peer_ticket){.entry = 5, .share = 6};
    return verdict;
}

WRAP(void, wp_peer_limits_leave, struct wp_peer_limits *limits,
     struct wp_peer_ticket ticket)
{
    assert_ptr_equal(limits, &verdict);
    golden_add(&journal, "leave: %u %u\n", ticket.entry, ticket.share);
}

WRAP(enum wp_peer_right, wp_access_unix_peer, const struct wp_access *access,
     int fd, struct wp_identity *out, uid_t *uid)
{
    assert_int_equal(access->n_allow_uids, 7);
    golden_add(&journal, "who is at %d?\n", fd);
    *out = who;
    *uid = 1234;
    return right;
}

WRAP(struct wp_tls *, wp_tls_create, const struct wp_tls_config *of,
     struct wp_err *err)
{
    golden_add(&journal, "tls %s %s %s, may hide %d, %s\n", of->cert, of->key,
               of->client_ca != NULL ? of->client_ca : "none",
               of->client_may_hide, of->protocol);
    return may("tls", err) ? (struct wp_tls *)(void *)&fails : NULL;
}

WRAP(void, wp_tls_destroy, struct wp_tls *tls)
{
    golden_add(&journal, "tls destroyed: %d\n", tls != NULL);
}

WRAP(struct wp_http_secure, wp_secure, struct wp_tls *tls)
{
    return (struct wp_http_secure){.ctx = tls};
}

WRAP(bool, wp_secure_peer, struct bufferevent *bev,
     const struct wp_access *access, struct wp_identity *out)
{
    assert_int_equal(access->n_allow_uids, 7);
    golden_add(&journal, "%s: its certificate is looked at\n",
               ((struct wp_http_req *)(void *)bev)->name);
    *out = who;
    return is_proven;
}

WRAP(const struct wp_http_ops *, wp_sessions_open, struct wp_sessions *of,
     struct wp_http_req *req, const char *tenant, bool is_tls)
{
    assert_ptr_equal(of, &reqs);
    golden_add(&journal, "%s: session of '%s', tls %d\n", req->name, tenant,
               is_tls);
    return NULL;
}

WRAP(const struct wp_http_ops *, wp_triggers_open, struct wp_triggers *of,
     struct wp_http_req *req, const char *tenant)
{
    assert_ptr_equal(of, &reqs);
    golden_add(&journal, "%s: trigger of '%s'\n", req->name, tenant);
    return NULL;
}

WRAP(const struct wp_http_ops *, wp_http_proxy_open,
     struct wp_http_proxy *proxy, struct wp_http_req *req,
     const struct wp_http_route *route, const char *endpoint, bool strip_token,
     const char *sandbox_token)
{
    proxy->proxied_total++;
    golden_add(&journal,
               "%s: to %s '%.*s', strips %d, token '%s', idle %lld, upstream "
               "%lld\n",
               req->name, endpoint, (int)route->rest.len, route->rest.ptr,
               strip_token, sandbox_token, (long long)proxy->idle_timeout_ns,
               (long long)proxy->upstream_timeout_ns);
    return NULL;
}

WRAP(void, wp_http_proxy_fail, struct wp_http_proxy *proxy,
     struct wp_http_req *req, int status, const char *why)
{
    proxy->failed_total++;
    golden_add(&journal, "%s: fails %d '%s'\n", req->name, status, why);
}

WRAP(struct event_base *, wp_loop_base, struct wp_loop *loop)
{
    assert_ptr_equal(loop, &config);
    return (struct event_base *)(void *)&config;
}

WRAP(void, wp_loop_call, struct wp_loop *loop, void (*run)(void *ctx),
     void *ctx)
{
    assert_ptr_equal(loop, &config);
    golden_add(&journal, "on the loop\n");
    run(ctx);
}

WRAP(void, wp_loop_assert_role, const struct wp_loop *loop)
{
    assert_ptr_equal(loop, &config);
}

struct evbuffer *__real_evbuffer_new(void);
WRAP(struct evbuffer *, evbuffer_new, void)
{
    return no_buffer ? NULL : __real_evbuffer_new();
}

void *__real_calloc(size_t n, size_t size);
WRAP(void *, calloc, size_t n, size_t size)
{
    if (callocs == 0) {
        return NULL;
    }
    callocs -= callocs > 0 ? 1 : 0;
    return __real_calloc(n, size);
}

/* --- What it asks --- */

static enum wp_status
find(void *ctx, struct wp_str ns, struct wp_str sandbox,
     struct wp_claim_info *out)
{
    assert_ptr_equal(ctx, &found);
    golden_add(&journal, "find '%.*s' in '%.*s'\n", (int)sandbox.len,
               sandbox.ptr, (int)ns.len, ns.ptr);
    *out = found;
    return is_found ? WP_OK : WP_NOT_FOUND;
}

static bool
token_valid(void *ctx, const uint8_t *token, struct wp_str sandbox)
{
    assert_ptr_equal(ctx, &found);
    golden_add(&journal, "token %02x..%02x for '%.*s'?\n", token[0],
               token[WP_TOKEN_LEN - 1], (int)sandbox.len, sandbox.ptr);
    return token[0] == 0xaa;
}

static void
sandbox_token(void *ctx, const struct wp_claim_info *info,
              char out[WP_SANDBOX_TOKEN_TEXT + 1])
{
    assert_ptr_equal(ctx, &found);
    (void)snprintf(out, WP_SANDBOX_TOKEN_TEXT + 1, "of-%.32s", info->sandbox);
}

static unsigned
render(void *ctx, enum wp_view view, struct evbuffer *body,
       const char **content_type)
{
    (void)evbuffer_add_printf(body, "%s, view %d", (const char *)ctx,
                              (int)view);
    if (strcmp(ctx, "typed") == 0) {
        *content_type = "application/x";
        return 503;
    }
    return 200;
}

/* --- The tests --- */

static const struct wp_http_page pages[] = {
    {"/metrics", false, render, (void *)(uintptr_t) "closed"},
    {"/healthz", true, render, (void *)(uintptr_t) "open"},
    {"/readyz", true, render, (void *)(uintptr_t) "typed"},
};

static const char *const near[] = {"unix:/run/h", "127.0.0.1:80"};
static const char *const far[] = {"10.0.0.1:80"};
static const char *const sessions_trust[] = {"10.1.0.0/16", "10.2.0.0/16"};
static const char *const sandboxes_trust[] = {"10.3.0.0/16"};

static int
begin(void **state)
{
    (void)state;
    callocs = -1;
    no_buffer = false;
    fails = NULL;
    journal.len = 0;
    journal.text[0] = '\0';
    memset(reqs, 0, sizeof reqs);
    memset(&who, 0, sizeof who);
    memset(&found, 0, sizeof found);
    (void)snprintf(found.sandbox, sizeof found.sandbox, "box");
    (void)snprintf(found.tenant, sizeof found.tenant, "blue");
    (void)snprintf(found.pool_namespace, sizeof found.pool_namespace, "ns");
    (void)snprintf(found.endpoint, sizeof found.endpoint, "unix:/box");
    is_found = true;
    is_proven = false;
    verdict = WP_PEER_ADMITTED;
    right = WP_PEER_KNOWN;
    config = (struct wp_gateway_config){
        .loop = (struct wp_loop *)(void *)&config,
        .listen = near,
        .n_listen = 2,
        .unix_mode = 0640,
        .access = {.n_allow_uids = 7},
        .admin_token = ADMIN,
        .connections_max = 64,
        .peer_connections_max = 16,
        .spares_max = 2,
        .head_timeout_ns = 1,
        .idle_timeout_ns = 2,
        .upstream_timeout_ns = 3,
        .pages = pages,
        .n_pages = 3,
        .find = find,
        .token_valid = token_valid,
        .ctx = &found,
    };
    return 0;
}

static void
create(void)
{
    struct wp_err err;

    memset(&err, 0, sizeof err);
    gateway = wp_gateway_create(&config, &err);
    if (gateway == NULL) {
        golden_add(&journal, "%s: %s\n", wp_status_name(err.status), err.msg);
    }
}

static void
again(const char *title)
{
    golden_add(&journal, "# %s\n", title);
}

static void
finish(const char *name)
{
    char path[512];

    wp_gateway_destroy(gateway);
    (void)snprintf(path, sizeof path, "%s/gateway_%s.txt", WP_TEST_GOLDEN,
                   name);
    golden_compare(journal.text, path);
}

/* A new connection as the i-th request's; by the roles of its listener. */
static struct wp_http_req *
connect_as(uint32_t i, const char *name, unsigned roles, const char *address)
{
    struct wp_http_req *req = &reqs[i];
    struct sockaddr_in peer = {.sin_family = AF_INET};
    const char *why;

    memset(req, 0, sizeof *req);
    req->name = name;
    req->roles = roles;
    assert_int_equal(inet_pton(AF_INET, address, &peer.sin_addr), 1);
    why = server.admit(req, 40 + (int)i,
                       (const struct sockaddr *)(const void *)&peer);
    golden_add(&journal, "%s: %s\n", name, why != NULL ? why : "is let in");
    return req;
}

static void
ask(struct wp_http_req *req, const char *method, const char *path,
    const char *bearer)
{
    const char *why = "";

    (void)snprintf(req->head, sizeof req->head, "%s %s HTTP/1.1\r\n%s%s%s\r\n",
                   method, path,
                   bearer[0] != '\0' ? "Authorization: Bearer " : "", bearer,
                   bearer[0] != '\0' ? "\r\n" : "");
    memset(&req->message, 0, sizeof req->message);
    if (!wp_http_parse_request(&req->message, wp_str_from(req->head), &why)) {
        fail_msg("%s", why);
    }
    golden_add(&journal, "%s: %s %s %.20s\n", req->name, method, path, bearer);
    assert_null(server.route(req));
}

static const char *
lease_token(unsigned first)
{
    static char text[2 * WP_TOKEN_LEN + 1];

    memset(text, 'b', sizeof text - 1);
    (void)snprintf(text, 3, "%02x", first);
    text[2] = 'b';
    return text;
}

static void
ask_each(struct wp_http_req *req)
{
    static const char *const paths[] = {
        "/metrics", "/healthz", "/sandboxes/box/x", "/api/sessions/s/sandbox",
        "/api/v1/sandbox/trigger"};

    for (size_t i = 0; i < WP_ARRAY_LEN(paths); i++) {
        ask(req, i < 2 ? "GET" : "POST", paths[i], "");
    }
}

static void
test_the_settings_make_the_server(void **state)
{
    static const uint32_t connections[] = {1, 3, 4, 16, 17, 33};

    (void)state;
    for (size_t i = 0; i < WP_ARRAY_LEN(connections); i++) {
        config.connections_max = connections[i];
        create();
        wp_gateway_destroy(gateway);
    }
    again("all");
    config.listen = far;
    config.n_listen = 1;
    config.trusting_listen = far;
    config.n_trusting_listen = 1;
    config.tls_cert = "/cert";
    config.tls_key = "/key";
    config.tls_client_ca = "/ca";
    config.trust[0] = (struct wp_http_trust){sessions_trust, 2};
    create();
    golden_add(&journal, "%s %s\n", wp_gateway_address(gateway, 0),
               wp_gateway_address(gateway, 1));
    wp_gateway_destroy(gateway);
    again("anywhere");
    config.anywhere = true;
    create();
    wp_gateway_destroy(gateway);
    wp_gateway_destroy(NULL);
    again("a listener in clear");
    config.anywhere = false;
    config.tls_cert = NULL;
    create();
    config.listen = near;
    create();
    finish("settings");
}

static void
test_what_cannot_be_made_is_said(void **state)
{
    static const char *const all[] = {"server", "limits", "tls",
                                      "socket", "listen", "secure"};
    static const char *const no_network[] = {"10.0.0.0/99"};
    static const char *const no_address[] = {"nowhere"};

    (void)state;
    config.tls_cert = "/cert";
    config.tls_key = "/key";
    for (size_t i = 0; i < WP_ARRAY_LEN(all); i++) {
        again(all[i]);
        fails = all[i];
        config.listen = i == 5 ? far : near;
        config.n_listen = i == 5 ? 1 : 2;
        create();
        assert_null(gateway);
    }
    fails = NULL;
    config.tls_cert = NULL;
    again("a network");
    config.trust[1] = (struct wp_http_trust){no_network, 1};
    create();
    assert_null(gateway);
    config.trust[1].n_networks = 0;
    again("an address");
    config.listen = no_address;
    create();
    assert_null(gateway);
    config.listen = near;
    config.n_listen = 2;
    for (int n = 0; gateway == NULL; n++) {
        golden_add(&journal, "# memory %d\n", n);
        callocs = n;
        create();
    }
    callocs = -1;
    finish("failures");
}

static void
test_users_of_a_socket_have_their_rights(void **state)
{
    static const enum wp_http_token_rule rules[] = {
        WP_HTTP_TOKEN_AUTO, WP_HTTP_TOKEN_ALWAYS, WP_HTTP_TOKEN_NEVER};
    struct wp_http_req *req;

    (void)state;
    config.sessions = (struct wp_sessions *)(void *)&reqs;
    config.triggers = (struct wp_triggers *)(void *)&reqs;
    config.sandbox_token = sandbox_token;
    for (size_t i = 0; i < WP_ARRAY_LEN(rules); i++) {
        golden_add(&journal, "## rule %zu\n", i);
        config.token_rule = rules[i];
        create();
        for (int kind = 0; kind < 5; kind++) {
            memset(&who, 0, sizeof who);
            right = kind == 4 ? WP_PEER_REFUSED : WP_PEER_KNOWN;
            who.admin = kind == 0;
            (void)snprintf(who.tenant, sizeof who.tenant, "%s",
                           kind == 1   ? "blue"
                           : kind == 2 ? "red"
                                       : "");
            again(kind == 0   ? "an admin"
                  : kind == 1 ? "of the tenant"
                  : kind == 2 ? "of another"
                  : kind == 3 ? "of none"
                              : "a stranger");
            req = connect_as(0, "a", UNIX, "0.0.0.0");
            if (right == WP_PEER_KNOWN) {
                ask_each(req);
                server.left(req);
            }
        }
        wp_gateway_destroy(gateway);
    }
    gateway = NULL;
    finish("users");
}

static void
test_tokens_open_what_they_are_for(void **state)
{
    struct wp_http_req *req;

    (void)state;
    config.sessions = (struct wp_sessions *)(void *)&reqs;
    config.triggers = (struct wp_triggers *)(void *)&reqs;
    create();
    req = connect_as(0, "a", 0, "127.0.0.1");
    ask_each(req);
    again("the admin's");
    ask(req, "GET", "/metrics", ADMIN);
    ask(req, "POST", "/sandboxes/box/x?y=1", ADMIN);
    ask(req, "POST", "/api/sessions/s/sandbox", ADMIN);
    ask(req, "POST", "/api/v1/sandbox/trigger", ADMIN);
    again("almost the admin's");
    ask(req, "POST", "/api/sessions/s/sandbox", "the-admix");
    ask(req, "POST", "/api/sessions/s/sandbox", "the-admi");
    again("a lease's");
    ask(req, "GET", "/sandboxes/box/x", lease_token(0xaa));
    ask(req, "GET", "/sandboxes/box/x", lease_token(0xab));
    ask(req, "GET", "/metrics", lease_token(0xaa));
    ask(req, "POST", "/api/sessions/s/sandbox", lease_token(0xaa));
    again("what is not there");
    is_found = false;
    ask(req, "GET", "/sandboxes/box/x", ADMIN);
    is_found = true;
    found.lost = true;
    ask(req, "GET", "/sandboxes/box/x", ADMIN);
    found.lost = false;
    ask(req, "GET", "/nothing", ADMIN);
    ask(req, "POST", "/healthz", "");
    ask(req, "HEAD", "/healthz", "");
    ask(req, "GET", "/readyz", "");
    ask(req, "GET", "/sandboxes//x", "");
    no_buffer = true;
    ask(req, "GET", "/healthz", "");
    wp_gateway_destroy(gateway);
    again("no token is the admin's");
    no_buffer = false;
    config.admin_token = "";
    config.sessions = NULL;
    config.triggers = NULL;
    create();
    req = connect_as(0, "a", 0, "127.0.0.1");
    ask(req, "POST", "/sandboxes/box/x", "x");
    ask_each(req);
    finish("tokens");
}

static void
test_a_namespace_is_that_of_the_sandbox(void **state)
{
    struct wp_http_req *req;
    const char *why = "";

    (void)state;
    create();
    req = connect_as(0, "a", 0, "127.0.0.1");
    for (int i = 0; i < 2; i++) {
        (void)snprintf(req->head, sizeof req->head,
                       "GET /x HTTP/1.1\r\nX-Sandbox-ID: box\r\n"
                       "X-Sandbox-Namespace: %s\r\n"
                       "Authorization: Bearer " ADMIN "\r\n\r\n",
                       i == 0 ? "ns" : "other");
        memset(&req->message, 0, sizeof req->message);
        assert_true(
            wp_http_parse_request(&req->message, wp_str_from(req->head), &why));
        assert_null(server.route(req));
    }
    finish("namespace");
}

static void
test_addresses_may_be_trusted(void **state)
{
    static const char *const addresses[] = {"10.1.0.5", "10.2.0.5", "10.3.0.5",
                                            "10.4.0.5"};
    static const unsigned roles[] = {TRUSTING, TLS, 0};

    (void)state;
    config.sessions = (struct wp_sessions *)(void *)&reqs;
    config.triggers = (struct wp_triggers *)(void *)&reqs;
    config.trust[0] = (struct wp_http_trust){sessions_trust, 2};
    config.trust[1] = (struct wp_http_trust){sandboxes_trust, 1};
    for (int rule = 0; rule < 2; rule++) {
        config.token_rule =
            rule == 0 ? WP_HTTP_TOKEN_AUTO : WP_HTTP_TOKEN_NEVER;
        create();
        for (size_t r = 0; r < WP_ARRAY_LEN(roles); r++) {
            for (size_t i = 0; i < WP_ARRAY_LEN(addresses); i++) {
                struct wp_http_req *req;

                golden_add(&journal, "# rule %d, roles %u, %s\n", rule,
                           roles[r], addresses[i]);
                req = connect_as(0, "a", roles[r], addresses[i]);
                if (roles[r] != TRUSTING || i < 3) {
                    ask_each(req);
                }
            }
        }
        wp_gateway_destroy(gateway);
    }
    gateway = NULL;
    finish("trust");
}

static void
test_certificates_name_their_tenant(void **state)
{
    struct wp_http_req *req;

    (void)state;
    config.sessions = (struct wp_sessions *)(void *)&reqs;
    config.triggers = (struct wp_triggers *)(void *)&reqs;
    create();
    for (int kind = 0; kind < 3; kind++) {
        is_proven = kind > 0;
        who.admin = kind == 2;
        (void)snprintf(who.tenant, sizeof who.tenant, "%s",
                       kind == 1 ? "blue" : "");
        again(kind == 0 ? "none" : kind == 1 ? "a tenant's" : "an admin's");
        req = connect_as(0, "a", TLS, "10.9.0.1");
        ask_each(req);
    }
    finish("certificates");
}

static void
test_connections_beyond_the_bound_are_for_probes(void **state)
{
    struct wp_gateway_stats stats;
    struct wp_http_req *first;

    (void)state;
    create();
    first = connect_as(0, "a", 0, "10.9.0.1");
    verdict = WP_PEER_OVER_ITS_BOUND;
    (void)connect_as(1, "b", 0, "10.9.0.1");
    verdict = WP_PEER_OVER_ALL;
    (void)connect_as(2, "c", UNIX, "0.0.0.0");
    (void)connect_as(3, "d", 0, "10.9.0.2");
    (void)connect_as(4, "e", 0, "10.9.0.3");
    again("what they ask");
    ask(&reqs[3], "GET", "/healthz", "");
    ask(&reqs[3], "GET", "/metrics", ADMIN);
    ask(&reqs[4], "GET", "/sandboxes/healthz/x", ADMIN);
    ask(&reqs[4], "GET", "/nothing", ADMIN);
    ask(first, "GET", "/sandboxes/box/x", ADMIN);
    found.lost = true;
    ask(first, "GET", "/sandboxes/box/x", ADMIN);
    stats = wp_gateway_stats(gateway);
    golden_add(&journal, "%llu %llu %llu %llu %llu %u\n",
               (unsigned long long)stats.connections_total,
               (unsigned long long)stats.connections_refused,
               (unsigned long long)stats.requests_total,
               (unsigned long long)stats.proxied_total,
               (unsigned long long)stats.upstream_failed_total,
               stats.connections);
    server.left(&reqs[3]);
    (void)connect_as(5, "f", 0, "10.9.0.4");
    server.left(first);
    finish("spares");
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, begin)
    const struct CMUnitTest tests[] = {
        TEST(test_the_settings_make_the_server),
        TEST(test_what_cannot_be_made_is_said),
        TEST(test_users_of_a_socket_have_their_rights),
        TEST(test_tokens_open_what_they_are_for),
        TEST(test_a_namespace_is_that_of_the_sandbox),
        TEST(test_addresses_may_be_trusted),
        TEST(test_certificates_name_their_tenant),
        TEST(test_connections_beyond_the_bound_are_for_probes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
