/* What an exchange with a sandbox has of its own: where it goes, and which
 * fields are for us and not for the sandbox. */
#include "allocator/http/proxy.h"

#include <event2/bufferevent.h>
#include <stdlib.h>

#include "proto/formats/http_exchange.h"

struct visit {
    struct wp_http_exchange_config config;
    struct wp_http_route route;
    struct wp_address endpoint;
    bool strip_token;
    char sandbox_token[WP_SANDBOX_TOKEN_TEXT + 1]; /* "": none. */
};

void
wp_http_proxy_fail(struct wp_http_proxy *proxy, struct wp_http_req *req,
                   int status, const char *why)
{
    proxy->failed_total++;
    wp_http_set_close(req);
    wp_http_reply_error(req, status, "%s", why);
}

static bool
begin(struct wp_http_exchange *x)
{
    const struct visit *visit = wp_http_exchange_ctx(x);

    return wp_http_exchange_connect(
        x,
        bufferevent_socket_new(visit->config.base, -1, BEV_OPT_CLOSE_ON_FREE),
        (const struct sockaddr *)&visit->endpoint.sa, (int)visit->endpoint.len);
}

static void
put_head(const struct wp_http_exchange *x, struct evbuffer *to)
{
    const struct visit *visit = wp_http_exchange_ctx(x);
    const struct wp_http_message *request =
        wp_http_message(wp_http_exchange_req(x));
    const struct wp_http_route *route = &visit->route;
    bool slash = route->rest.len > 0 && route->rest.ptr[0] == '/';

    (void)evbuffer_add_printf(to, "%.*s %s%.*s HTTP/1.%u\r\n",
                              WP_STR_ARG(request->method), slash ? "" : "/",
                              WP_STR_ARG(route->rest), request->minor);
    if (visit->sandbox_token[0] != '\0') {
        (void)evbuffer_add_printf(to, WP_SANDBOX_TOKEN_FIELD ": %s\r\n",
                                  visit->sandbox_token);
    }
}

/* Is it for us, and not for the sandbox? */
static bool
drops(const struct wp_http_exchange *x, const struct wp_http_message *message,
      const struct wp_http_field *field)
{
    const struct visit *visit = wp_http_exchange_ctx(x);

    return wp_http_name_is(field->name, WP_SANDBOX_TOKEN_FIELD) ||
           (visit->strip_token &&
            message == wp_http_message(wp_http_exchange_req(x)) &&
            wp_http_name_is(field->name, "Authorization"));
}

static void
gone(struct wp_http_exchange *x)
{
    free(wp_http_exchange_ctx(x));
}

static const struct wp_http_ops *
open_visit(struct wp_http_proxy *proxy, struct wp_http_req *req,
           struct visit *visit, const char *endpoint)
{
    static const struct wp_http_exchange_ops ops = {
        .begin = begin, .put_head = put_head, .drops = drops, .gone = gone};
    const struct wp_http_ops *opened;

    if (wp_address_parse(wp_str_from(endpoint), &visit->endpoint, NULL) !=
        WP_OK) {
        wp_http_proxy_fail(proxy, req, 502,
                           "the sandbox's endpoint is not an address");
        return NULL;
    }
    if (visit->route.port != 0) {
        wp_address_set_port(&visit->endpoint, visit->route.port);
    }
    opened = wp_http_exchange_open(&visit->config, &ops, req, visit);
    if (opened == NULL) {
        wp_http_proxy_fail(proxy, req, 502, "the sandbox cannot be reached");
    }
    return opened;
}

const struct wp_http_ops *
wp_http_proxy_open(struct wp_http_proxy *proxy, struct wp_http_req *req,
                   const struct wp_http_route *route, const char *endpoint,
                   bool strip_token, const char *sandbox_token)
{
    int64_t answer_ns = proxy->upstream_timeout_ns;
    struct visit *visit = calloc(1, sizeof *visit);
    const struct wp_http_ops *opened;

    proxy->proxied_total++;
    if (visit == NULL) {
        wp_http_proxy_fail(proxy, req, 502, "the sandbox cannot be reached");
        return NULL;
    }
    if (route->timeout_ns > 0 && route->timeout_ns < answer_ns) {
        answer_ns = route->timeout_ns;
    }
    visit->config = (struct wp_http_exchange_config){
        .base = proxy->base,
        .server = "the sandbox",
        .idle_timeout_ns = proxy->idle_timeout_ns,
        .answer_timeout_ns = answer_ns,
        .failed = &proxy->failed_total,
    };
    visit->route = *route;
    visit->strip_token = strip_token;
    (void)snprintf(visit->sandbox_token, sizeof visit->sandbox_token, "%s",
                   sandbox_token);
    opened = open_visit(proxy, req, visit, endpoint);
    if (opened == NULL) {
        free(visit);
    }
    return opened;
}
