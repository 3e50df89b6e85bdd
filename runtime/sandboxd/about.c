/* GET /v1/health and /v1/metadata. */
#include <string.h>
#include <strings.h>

#include "pool/base/clock.h"
#include "proto/formats/json_text.h"
#include "runtime/sandboxd/rest.h"

extern char **environ;

enum {
    BODY_MAX = 4096,
};

static void
health_ready(struct wp_http_req *req)
{
    int64_t up_ns =
        wp_clock_mono_ns(wp_clock_system()) - wp_runtime_of(req)->started_ns;

    wp_http_reply_json(req, 200,
                       json_pack("{s:s, s:I}", "status", "ok", "uptime_seconds",
                                 (json_int_t)(up_ns / WP_NS_PER_S)));
}

const struct wp_http_ops wp_sandboxd_health_ops = {.body_max = BODY_MAX,
                                                   .ready = health_ready};

/* Anybody in the sandbox can ask: what is named like a secret is not shown,
 * whoever put it there. */
static bool
is_shown(const char *variable, size_t name_len)
{
    static const char prefix[] = "SANDBOX_";
    static const char *const secret[] = {
        "TOKEN", "SECRET", "PASSWORD", "PASSWD",  "CRED",
        "KEY",   "AUTH",   "BEARER",   "PRIVATE", "CERT",
    };

    if (strncmp(variable, prefix, sizeof(prefix) - 1) != 0) {
        return false;
    }
    for (size_t i = 0; i < WP_ARRAY_LEN(secret); i++) {
        size_t len = strlen(secret[i]);

        for (size_t at = 0; at + len <= name_len; at++) {
            if (strncasecmp(variable + at, secret[i], len) == 0) {
                return false;
            }
        }
    }
    return true;
}

static void
metadata_ready(struct wp_http_req *req)
{
    json_t *env = json_object();

    for (size_t i = 0; environ[i] != NULL; i++) {
        size_t len = strcspn(environ[i], "=");

        if (environ[i][len] == '=' && is_shown(environ[i], len)) {
            /* A name that is no UTF-8 cannot be shown. */
            (void)json_object_setn_new(env, environ[i], len,
                                       wp_json_from_text(environ[i] + len + 1));
        }
    }
    wp_http_reply_json(req, 200, json_pack("{s:o}", "env", env));
}

const struct wp_http_ops wp_sandboxd_metadata_ops = {.body_max = BODY_MAX,
                                                     .ready = metadata_ready};
