/* runtime/egress/visit.c - one request of a sandbox to somebody outside.
 *
 *   judged by its target -> resolved -> each address judged -> connected to the
 *   first that answers -> handed on (http_exchange) -> told in the log
 */
#include <event2/bufferevent.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "pool/base/address.h"
#include "pool/base/log.h"
#include "runtime/egress/egress_impl.h"

enum {
    REASON_MAX = 320,
    /* "a.b.c.d:port", or an IPv6 address so. */
    SHOWN_ADDRESS_MAX = 64,
    TARGET_MAX = WP_HOST_MAX + sizeof "[]:65535",
};

struct visit {
    struct wp_egress *egress;
    const struct wp_egress_client *client;
    struct wp_egress_visitor visitor;
    const struct wp_egress_key *key; /* NULL: none is added. */
    struct wp_host host;
    uint16_t port;
    bool secure;              /* By TLS: CONNECT, or a key's URL. */
    struct wp_str rest;       /* Of the target, from its path on. */
    struct wp_lookup *lookup; /* NULL: none is under way. */
    struct wp_resolved found; /* Only what may be connected to. */
    uint32_t next;            /* Of found. */
    const char *verdict;
    char reason[REASON_MAX]; /* "": it went well. */
    char address[SHOWN_ADDRESS_MAX];
    uint64_t sent;
    uint64_t received;
    int64_t begun_ns;
};

static const struct wp_egress_policy *
policy_of(const struct visit *visit)
{
    return &visit->visitor.policy->policy;
}

static bool
is_v6(const struct wp_host *host)
{
    return host->is_address && host->address.ss_family == AF_INET6;
}

/* "HOST:PORT", an IPv6 address in brackets; "" before the target is known. */
static const char *
show_target(const struct visit *visit, char out[TARGET_MAX])
{
    const struct wp_host *host = &visit->host;
    bool v6 = is_v6(host);

    out[0] = '\0';
    if (host->name[0] != '\0') {
        (void)snprintf(out, TARGET_MAX, "%s%s%s:%u", v6 ? "[" : "", host->name,
                       v6 ? "]" : "", visit->port);
    }
    return out;
}

/* --- Judging the target --- */

static bool set_reason(struct visit *visit, const char *verdict,
                       const char *fmt, ...) WP_PRINTF(3, 4);

/* Returns false, for who refuses. */
static bool
set_reason(struct visit *visit, const char *verdict, const char *fmt, ...)
{
    va_list ap;

    visit->verdict = verdict;
    va_start(ap, fmt);
    (void)vsnprintf(visit->reason, sizeof visit->reason, fmt, ap);
    va_end(ap);
    return false;
}

static bool
refuse_by_policy(struct visit *visit)
{
    const struct wp_egress_shared_policy *policy = visit->visitor.policy;
    const char *text = policy->by[0] != '\0' ? policy->by : policy->text;
    bool within = policy->within[0] != '\0';
    char shown[2][WP_STR_SHOWN_MAX];
    char to[TARGET_MAX];

    return set_reason(
        visit, "refused",
        "egress to %s is refused: the policy of this sandbox, '%s'%s%s%s, "
        "does not allow it%s",
        show_target(visit, to), wp_str_shown(wp_str_from(text), shown[0]),
        within ? ", within that of the proxy, '" : "",
        within ? wp_str_shown(wp_str_from(policy->within), shown[1]) : "",
        within ? "'" : "", visit->secure ? "" : " without TLS");
}

/* Splits "HOST[:PORT]/PATH?QUERY" behind the scheme. */
static bool
read_absolute(struct visit *visit, struct wp_str text, const char **why)
{
    struct wp_str authority = text;
    size_t len = 0;

    while (len < text.len && strchr("/?#", text.ptr[len]) == NULL) {
        len++;
    }
    authority.len = len;
    visit->rest = (struct wp_str){text.ptr + len, text.len - len};
    if (visit->rest.len > 0 &&
        memchr(visit->rest.ptr, '#', visit->rest.len) != NULL) {
        *why = "a target without '#' was expected";
        return false;
    }
    return wp_host_port_parse(authority, WP_EGRESS_HTTP_PORT, &visit->host,
                              &visit->port, why);
}

/* The next character of a path as servers read it, which is taken. */
static char
next_char(struct wp_str *path)
{
    char c = path->ptr[0];
    size_t len = 1;

    if (c == '%' && path->len > 2 &&
        wp_hex_decode((struct wp_str){path->ptr + 1, 2}, &c, 1)) {
        len = 3;
    }
    path->ptr += len;
    path->len -= len;
    if (c == '\\') {
        c = '/';
    }
    return c;
}

/* Does a server find its way up in it? A part before '?' is "..", perhaps
 * written with percents. */
static bool
leads_up(struct wp_str path)
{
    size_t dots = 0; /* That the part has so far; 3: it has something else. */

    while (path.len > 0 && path.ptr[0] != '?') {
        char c = next_char(&path);

        if (c == '/' || c == ';') {
            if (dots == 2) {
                return true;
            }
            dots = c == '/' ? 0 : 3;
        } else {
            dots = c == '.' && dots < 2 ? dots + 1 : 3;
        }
    }
    return dots == 2;
}

/* "/KEY/PATH": the policy names the key, and the key names where it goes. */
static bool
read_key_path(struct visit *visit, struct wp_str target, const char **why)
{
    struct wp_str name = {target.ptr + 1, 0};
    const struct wp_egress_key *key;

    while (name.len + 1 < target.len &&
           strchr("/?#", name.ptr[name.len]) == NULL) {
        name.len++;
    }
    key = wp_egress_keys_find(visit->egress->config.keys, name);
    if (key == NULL || !wp_egress_allows_key(policy_of(visit), name)) {
        *why = "this is a proxy: it takes http://HOST/PATH, CONNECT HOST:PORT "
               "and /KEY/PATH with a key that the policy of this sandbox has";
        return false;
    }
    visit->key = key;
    visit->host = key->host;
    visit->port = key->port;
    visit->secure = key->secure;
    visit->rest =
        (struct wp_str){name.ptr + name.len, target.len - 1 - name.len};
    *why = "a path without '..' was expected behind the key's name";
    return !leads_up(visit->rest);
}

/* A key for a server that is asked in clear is added to what is asked of it. */
static void
find_clear_key(struct visit *visit)
{
    const struct wp_egress_policy *policy = policy_of(visit);

    for (uint32_t i = 0; i < policy->rules_len && visit->key == NULL; i++) {
        const struct wp_egress_key *key =
            policy->rules[i].kind == WP_EGRESS_KEY
                ? wp_egress_keys_find(
                      visit->egress->config.keys,
                      wp_egress_rule_name(policy, &policy->rules[i]))
                : NULL;

        if (key != NULL && !key->secure && key->port == visit->port &&
            strcmp(key->host.name, visit->host.name) == 0) {
            visit->key = key;
        }
    }
}

/* False: *why says what is wrong with the target; or, when it is NULL, the
 * visit's reason says why the policy refuses it. */
static bool
judge(struct visit *visit, const struct wp_http_message *request,
      const char **why)
{
    static const char http[] = "http://";
    struct wp_str target = request->target;

    if (request->connect) {
        visit->secure = true;
        if (!wp_host_port_parse(target, 0, &visit->host, &visit->port, why)) {
            return false;
        }
    } else if (target.len > sizeof http - 1 &&
               strncasecmp(target.ptr, http, sizeof http - 1) == 0) {
        target.ptr += sizeof http - 1;
        target.len -= sizeof http - 1;
        if (!read_absolute(visit, target, why)) {
            return false;
        }
        find_clear_key(visit);
    } else if (target.len > 0 && target.ptr[0] == '/') {
        return read_key_path(visit, target, why);
    } else {
        *why = "http://HOST/PATH was expected; https:// is asked for by "
               "CONNECT HOST:PORT";
        return false;
    }
    *why = NULL;
    return wp_egress_allows_host(policy_of(visit), &visit->host, visit->port,
                                 visit->secure) ||
           (visit->key != NULL && !request->connect) || refuse_by_policy(visit);
}

/* --- Connecting --- */

static void
set_port(struct sockaddr_storage *address, uint16_t port)
{
    in_port_t net = htons(port);

    if (address->ss_family == AF_INET) {
        memcpy((char *)address + offsetof(struct sockaddr_in, sin_port), &net,
               sizeof net);
    } else {
        memcpy((char *)address + offsetof(struct sockaddr_in6, sin6_port), &net,
               sizeof net);
    }
}

static int
address_len(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET ? (int)sizeof(struct sockaddr_in)
                                         : (int)sizeof(struct sockaddr_in6);
}

static void
show_address(const struct sockaddr_storage *address, char *out, size_t cap)
{
    struct wp_address shown = {.sa = *address,
                               .len = (socklen_t)address_len(address)};

    (void)wp_address_format(&shown, out, cap);
}

/* The next address that may be connected to. False: there is none left. */
static bool
connect_next(struct wp_http_exchange *x)
{
    struct visit *visit = wp_http_exchange_ctx(x);
    const struct wp_egress_config *config = &visit->egress->config;
    const struct sockaddr_storage *address;
    struct bufferevent *upstream = NULL;
    char to[TARGET_MAX];

    if (visit->next == visit->found.len) {
        return false;
    }
    address = &visit->found.addresses[visit->next++];
    show_address(address, visit->address, sizeof visit->address);
    if (visit->key == NULL || !visit->secure) {
        upstream =
            bufferevent_socket_new(config->base, -1, BEV_OPT_CLOSE_ON_FREE);
    } else if (config->tls != NULL) {
        upstream =
            wp_upstream_tls_open(config->tls, config->base, &visit->host);
    }
    if (upstream == NULL) { /* The exchange answers. */
        (void)set_reason(visit, "failed", "no connection to %s can be made",
                         show_target(visit, to));
    }
    (void)wp_http_exchange_connect(
        x, upstream, (const struct sockaddr *)address, address_len(address));
    return true;
}

static bool
on_unreached(struct wp_http_exchange *x)
{
    struct visit *visit = wp_http_exchange_ctx(x);
    char to[TARGET_MAX];

    if (connect_next(x)) {
        return true;
    }
    (void)set_reason(visit, "failed", "%s cannot be reached",
                     show_target(visit, to));
    (void)wp_http_exchange_fail(x, HTTP_STATUS_BAD_GATEWAY, visit->reason);
    return true;
}

/* Of what was found, only what the policy lets be connected to stays. */
static void
judge_addresses(struct visit *visit, const struct wp_resolved *found)
{
    char to[TARGET_MAX];

    for (uint32_t i = 0; i < found->len; i++) {
        struct sockaddr_storage address = found->addresses[i];
        const struct sockaddr *sa = (const struct sockaddr *)&address;

        set_port(&address, visit->port);
        if (wp_egress_allows_address(policy_of(visit), sa, visit->port,
                                     visit->secure)) {
            visit->found.addresses[visit->found.len++] = address;
            continue;
        }
        show_address(&address, visit->address, sizeof visit->address);
        (void)set_reason(visit, "refused",
                         "egress to %s is refused: its address %s is %s, "
                         "and the policy of this sandbox does not name it",
                         show_target(visit, to), visit->address,
                         wp_reach_text(wp_reach_of(sa)));
    }
    if (visit->found.len > 0) {
        visit->reason[0] = '\0';
    }
}

static bool
go(struct wp_http_exchange *x, const struct wp_resolved *found)
{
    struct visit *visit = wp_http_exchange_ctx(x);

    judge_addresses(visit, found);
    if (visit->found.len == 0) {
        if (found->len == 0) {
            (void)set_reason(visit, "failed", "%s cannot be resolved: %s",
                             visit->host.name, found->error);
        }
        return wp_http_exchange_fail(x,
                                     found->len == 0 ? HTTP_STATUS_BAD_GATEWAY
                                                     : HTTP_STATUS_FORBIDDEN,
                                     visit->reason);
    }
    visit->verdict = "allowed";
    return connect_next(x);
}

static void
on_resolved(void *ctx, const struct wp_resolved *found)
{
    struct wp_http_exchange *x = ctx;
    struct visit *visit = wp_http_exchange_ctx(x);

    visit->lookup = NULL;
    /* It may have been too late: that was answered. */
    if (!wp_http_replied(wp_http_exchange_req(x))) {
        (void)go(x, found);
    }
}

static bool
begin(struct wp_http_exchange *x)
{
    struct visit *visit = wp_http_exchange_ctx(x);
    const struct wp_egress_config *config = &visit->egress->config;

    if (visit->host.is_address) {
        struct wp_resolved found = {.addresses = {visit->host.address},
                                    .len = 1};

        return go(x, &found);
    }
    visit->verdict = "failed";
    wp_http_set_deadline(wp_http_exchange_req(x), config->connect_timeout_ns);
    visit->lookup =
        wp_resolver_lookup(config->resolver, visit->host.name, on_resolved, x);
    return visit->lookup != NULL ||
           wp_http_exchange_fail(x, HTTP_STATUS_BAD_GATEWAY,
                                 "no memory to resolve the host");
}

/* --- What is handed on --- */

static void
put_head(const struct wp_http_exchange *x, struct evbuffer *to)
{
    const struct visit *visit = wp_http_exchange_ctx(x);
    const struct wp_http_message *request =
        wp_http_message(wp_http_exchange_req(x));
    bool by_key = request->target.ptr[0] == '/';
    bool slash = visit->rest.len > 0 && visit->rest.ptr[0] == '/';
    bool v6 = is_v6(&visit->host);
    uint16_t usual = visit->secure ? WP_EGRESS_TLS_PORT : WP_EGRESS_HTTP_PORT;

    (void)evbuffer_add_printf(to, "%.*s %s%s%.*s HTTP/1.%u\r\nHost: %s%s%s",
                              WP_STR_ARG(request->method),
                              by_key ? visit->key->path : "", slash ? "" : "/",
                              WP_STR_ARG(visit->rest), request->minor,
                              v6 ? "[" : "", visit->host.name, v6 ? "]" : "");
    if (visit->port != usual) {
        (void)evbuffer_add_printf(to, ":%u", visit->port);
    }
    (void)evbuffer_add(to, "\r\n", 2);
    if (visit->key != NULL) {
        (void)evbuffer_add_printf(to, "%s: %s\r\n", visit->key->field,
                                  visit->key->value);
    }
}

static bool
drops(const struct wp_http_exchange *x, const struct wp_http_message *message,
      const struct wp_http_field *field)
{
    const struct visit *visit = wp_http_exchange_ctx(x);

    return message == wp_http_message(wp_http_exchange_req(x)) &&
           (wp_http_name_is(field->name, "Host") ||
            (visit->key != NULL &&
             wp_http_name_is(field->name, visit->key->field)));
}

static bool
moved(struct wp_http_exchange *x, size_t sent, size_t received)
{
    struct visit *visit = wp_http_exchange_ctx(x);
    uint64_t max = visit->egress->config.source_bytes_max;
    uint64_t *all = &visit->client->source->bytes;

    visit->sent += sent;
    visit->received += received;
    *all += sent + received;
    if (max == 0 || *all <= max) {
        return true;
    }
    return set_reason(visit, "cut", "all bytes of this sandbox are used up");
}

/* --- Its life --- */

static void
tell(const struct visit *visit, const struct wp_http_message *request)
{
    char to[TARGET_MAX];

    if (!wp_egress_may_log(visit->egress, visit->client, visit->visitor.who)) {
        return;
    }
    wp_log_info(
        "egress", wp_kv_str("sandbox", visit->visitor.who),
        wp_kv_slice("method", request->method),
        wp_kv_str("to", show_target(visit, to)),
        wp_kv_str("address", visit->address),
        wp_kv_str("verdict", visit->verdict),
        wp_kv_str("reason", visit->reason),
        wp_kv_int("sent", (int64_t)visit->sent),
        wp_kv_int("received", (int64_t)visit->received),
        wp_kv_ms("ms", wp_clock_mono_ns(wp_clock_system()) - visit->begun_ns));
}

static void
gone(struct wp_http_exchange *x)
{
    struct visit *visit = wp_http_exchange_ctx(x);

    if (visit->lookup != NULL) {
        wp_lookup_cancel(visit->lookup);
    }
    tell(visit, wp_http_message(wp_http_exchange_req(x)));
    wp_egress_visitor_leave(&visit->visitor);
    free(visit);
}

/* Answers at once, and the visit is over. */
static const struct wp_http_ops *
turn_away(struct visit *visit, struct wp_http_req *req, int status,
          const char *why)
{
    (void)set_reason(visit, "refused", "%s", why);
    tell(visit, wp_http_message(req));
    wp_http_set_close(req);
    wp_http_reply_error(req, status, "%s", why);
    wp_egress_visitor_leave(&visit->visitor);
    free(visit);
    return NULL;
}

const struct wp_http_ops *
wp_egress_route(struct wp_http_req *req)
{
    static const struct wp_http_exchange_ops ops = {
        .begin = begin,
        .put_head = put_head,
        .drops = drops,
        .unreached = on_unreached,
        .moved = moved,
        .gone = gone,
    };
    struct wp_egress *egress = wp_http_app(req);
    struct visit *visit = calloc(1, sizeof *visit);
    const struct wp_http_ops *opened;
    char reason[REASON_MAX];
    const char *why = "";
    struct wp_err err;
    int status;

    if (visit == NULL) {
        wp_http_reply_error(req, HTTP_STATUS_SERVICE_UNAVAILABLE, "no memory");
        return NULL;
    }
    visit->egress = egress;
    visit->client = wp_http_peer(req);
    visit->begun_ns = wp_clock_mono_ns(wp_clock_system());
    status = wp_egress_visitor_enter(req, &visit->visitor, &err);
    if (status != 0) {
        if (status == HTTP_STATUS_PROXY_AUTHENTICATION_REQUIRED) {
            wp_http_add_header(req, "Proxy-Authenticate",
                               "Basic realm=\"warmpool-egress\"");
        }
        return turn_away(visit, req, status, err.msg);
    }
    if (!judge(visit, wp_http_message(req), &why)) {
        (void)snprintf(reason, sizeof reason, "%s",
                       why != NULL ? why : visit->reason);
        return turn_away(visit, req,
                         why != NULL ? HTTP_STATUS_BAD_REQUEST
                                     : HTTP_STATUS_FORBIDDEN,
                         reason);
    }
    if (egress->config.source_bytes_max > 0 &&
        visit->client->source->bytes >= egress->config.source_bytes_max) {
        return turn_away(visit, req, HTTP_STATUS_FORBIDDEN,
                         "all bytes of this sandbox are used up");
    }
    opened = wp_http_exchange_open(&egress->exchange, &ops, req, visit);
    return opened != NULL
               ? opened
               : turn_away(visit, req, HTTP_STATUS_SERVICE_UNAVAILABLE,
                           "no memory");
}
