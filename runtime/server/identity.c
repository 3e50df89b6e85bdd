#include "runtime/server/identity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "pool/base/log.h"
#include "pool/base/os_error.h"
#include "proto/parcel/bind.h"
#include "proto/parcel/request.h"

static bool
is_token(const char *text)
{
    size_t len = strlen(text);

    return len > 0 && len <= WP_IDENTITY_TEXT_MAX &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                        "0123456789-_.") == len;
}

bool
wp_runtime_identity_take(struct wp_http_req *req, char *why, size_t cap)
{
    struct wp_runtime *runtime = wp_runtime_of(req);
    const char *token = wp_http_header(req, WP_IDENTITY_FIELD);

    if (token == NULL) {
        return true;
    }
    if (!is_token(token)) {
        (void)snprintf(why, cap,
                       "identity: expected a signed token of at most %d bytes",
                       WP_IDENTITY_TEXT_MAX);
        return false;
    }
    if (!wp_bind_identity(runtime->options.bound_dir, token, strlen(token))) {
        (void)snprintf(why, cap, "identity: %s", wp_os_error(errno));
        return false;
    }
    return true;
}

void
wp_runtime_identity_confirm(struct wp_http_req *req)
{
    if (wp_http_header(req, WP_IDENTITY_FIELD) != NULL) {
        wp_http_add_header(req, WP_IDENTITY_FIELD, "taken");
    }
}

static void
identity_ready(struct wp_http_req *req)
{
    char why[WP_BIND_WHY_MAX] = "";

    if (wp_runtime_of(req)->options.token_digest == NULL) {
        wp_http_reply_error(req, 403,
                            "this server takes no identity: it was given no "
                            "token's digest");
    } else if (wp_http_header(req, WP_IDENTITY_FIELD) == NULL) {
        wp_http_reply_error(req, 400, WP_IDENTITY_FIELD ": expected");
    } else if (wp_runtime_of(req)->bound != WP_BOUND_WHOLE) {
        wp_http_reply_error(req, 409, "nothing is bound");
    } else if (!wp_runtime_identity_take(req, why, sizeof why)) {
        wp_log_warn("no new identity", wp_kv_str("why", why));
        wp_http_reply_error(req, 400, "%s", why);
    } else {
        wp_runtime_identity_confirm(req);
        wp_http_reply_json(req, 200, json_object());
    }
}

const struct wp_http_ops wp_identity_ops = {
    .ready = identity_ready,
};
