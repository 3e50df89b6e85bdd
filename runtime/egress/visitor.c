/* runtime/egress/visitor.c - whom a request is of, and what it may reach: by
 * its connection, or by the pass of a sandbox in a cluster. */
#include <arpa/inet.h>
#include <stdio.h>
#include <strings.h>

#include "proto/formats/base64.h"
#include "runtime/egress/egress_impl.h"

enum {
    /* "Basic ", and "USER:PASS" in base64; programs may name another user. */
    CREDENTIALS_MAX = WP_EGRESS_PASS_TEXT_MAX + 64,
    FIELD_MAX = sizeof "Basic " - 1 + CREDENTIALS_MAX / 3 * 4,
};

/* The password of the request's credentials; empty: there is none. */
static struct wp_str
find_password(const struct wp_http_req *req, char room[CREDENTIALS_MAX + 1])
{
    static const char basic[] = "Basic ";
    const char *field = wp_http_header(req, "Proxy-Authorization");
    const char *colon;
    size_t len;

    if (field == NULL || strlen(field) > FIELD_MAX ||
        strncasecmp(field, basic, sizeof basic - 1) != 0 ||
        !wp_base64_read(field + sizeof basic - 1, room, &len)) {
        return WP_STR("");
    }
    colon = memchr(room, ':', len);
    return colon != NULL
               ? (struct wp_str){colon + 1, len - (size_t)(colon + 1 - room)}
               : WP_STR("");
}

/* A socket for both families tells of IPv4 addresses within IPv6 ones. */
static bool
is_address(const struct sockaddr_storage *peer, struct wp_str text)
{
    char shown[WP_EGRESS_PASS_ADDRESS_MAX + 1];
    struct in_addr v4;
    struct in6_addr v6;
    const struct sockaddr_in6 *peer6 = (const struct sockaddr_in6 *)peer;
    const struct sockaddr_in *peer4 = (const struct sockaddr_in *)peer;

    if (!wp_str_copy(text, shown, sizeof shown)) {
        return false;
    }
    if (inet_pton(AF_INET, shown, &v4) == 1) {
        return (peer->ss_family == AF_INET &&
                memcmp(&peer4->sin_addr, &v4, sizeof v4) == 0) ||
               (peer->ss_family == AF_INET6 &&
                IN6_IS_ADDR_V4MAPPED(&peer6->sin6_addr) &&
                memcmp(&peer6->sin6_addr.s6_addr[12], &v4, sizeof v4) == 0);
    }
    return peer->ss_family == AF_INET6 &&
           inet_pton(AF_INET6, shown, &v6) == 1 &&
           memcmp(&peer6->sin6_addr, &v6, sizeof v6) == 0;
}

static int
enter_by_pass(struct wp_egress *egress, const struct wp_egress_client *client,
              struct wp_str text, struct wp_egress_visitor *out,
              struct wp_err *err)
{
    char room[WP_EGRESS_PASS_BYTES_MAX];
    struct wp_egress_pass pass;

    if (!wp_egress_pass_read(egress->config.pass_key, text, room, &pass)) {
        (void)wp_err_set(err, WP_PERMISSION_DENIED,
                         "the pass of this sandbox is none of this proxy's");
        return HTTP_STATUS_FORBIDDEN;
    }
    (void)snprintf(out->who, sizeof out->who, "%.*s/%.*s",
                   WP_STR_ARG(pass.pool_namespace), WP_STR_ARG(pass.sandbox));
    if (!is_address(&client->address, pass.address)) {
        (void)wp_err_set(err, WP_PERMISSION_DENIED,
                         "the pass of sandbox %s is good from %.*s only, and "
                         "this connection is from %s",
                         out->who, WP_STR_ARG(pass.address), client->who);
        return HTTP_STATUS_FORBIDDEN;
    }
    out->policy = wp_egress_policy_hold(
        egress,
        &(struct wp_egress_texts){
            .text = pass.policy,
            .by = pass.by,
            .within = wp_str_from(client->source->policy->text)},
        err);
    if (out->policy == NULL) {
        return err->status == WP_RESOURCE_EXHAUSTED
                   ? HTTP_STATUS_SERVICE_UNAVAILABLE
                   : HTTP_STATUS_FORBIDDEN;
    }
    return 0;
}

int
wp_egress_visitor_enter(struct wp_http_req *req, struct wp_egress_visitor *out,
                        struct wp_err *err)
{
    struct wp_egress *egress = wp_http_app(req);
    const struct wp_egress_client *client = wp_http_peer(req);
    char room[CREDENTIALS_MAX + 1];
    struct wp_str password;

    memcpy(out->who, client->who, sizeof out->who);
    if (egress->config.pass_key == NULL || client->source->name[0] != '\0') {
        out->policy = wp_egress_policy_hold_too(client->source->policy);
        return 0;
    }
    password = find_password(req, room);
    if (password.len == 0) {
        (void)wp_err_set(err, WP_UNAUTHENTICATED,
                         "a pass was expected: a claim of a pool with an "
                         "egress policy brings it, in the URL that HTTP_PROXY "
                         "has");
        return HTTP_STATUS_PROXY_AUTHENTICATION_REQUIRED;
    }
    return enter_by_pass(egress, client, password, out, err);
}

void
wp_egress_visitor_leave(struct wp_egress_visitor *visitor)
{
    if (visitor->policy != NULL) {
        wp_egress_policy_let_go(visitor->policy);
        visitor->policy = NULL;
    }
}
