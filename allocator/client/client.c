/* libwarmpool: what its files share. */
#include "allocator/client/internal.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pool/base/assert.h"
#include "pool/base/clock.h"

/* A lease ends while this machine sleeps, and so does the patience of a call:
 * CLOCK_MONOTONIC would not have noticed. */
int64_t
wp_client_now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * WP_NS_PER_S + ts.tv_nsec;
}

void
wp_client_error(struct warmpool_error *error, int code, const char *text)
{
    if (error != NULL) {
        error->code = code;
        (void)snprintf(error->message, sizeof error->message, "%s", text);
    }
}

int
wp_client_fail(struct warmpool_error *error, const struct wp_err *err)
{
    int code = wp_status_grpc_code(err->status);

    wp_client_error(error, code, err->msg);
    return code;
}

bool
wp_client_pool(const char *pool, struct wp_pool_name *out,
               struct warmpool_error *error)
{
    const char *slash = pool != NULL ? strchr(pool, '/') : NULL;
    const char *name = slash != NULL ? slash + 1 : pool;

    if (pool == NULL || name[0] == '\0' ||
        !wp_str_copy(
            (struct wp_str){pool, slash != NULL ? (size_t)(slash - pool) : 0},
            out->pool_namespace, sizeof out->pool_namespace) ||
        !wp_str_copy(wp_str_from(name), out->name, sizeof out->name)) {
        wp_client_error(error, wp_status_grpc_code(WP_INVALID_ARGUMENT),
                        "pool: \"name\" or \"namespace/name\" expected");
        return false;
    }
    return true;
}

void
wp_client_wake(struct warmpool *client)
{
    const uint64_t one = 1;
    ssize_t n = write(client->wake_fd, &one, sizeof one);

    (void)n; /* Full: it is awake. */
}

void
wp_client_lease(struct wp_str claim_id, const struct wp_grant *grant,
                struct warmpool_lease *out)
{
    bool fits = wp_str_copy(claim_id, out->claim_id, sizeof out->claim_id);

    WP_ASSERT(fits); /* The wire has bounded it. */
    memcpy(out->sandbox, grant->sandbox, sizeof out->sandbox);
    memcpy(out->endpoint, grant->endpoint, sizeof out->endpoint);
    memcpy(out->token, grant->token, sizeof out->token);
    out->fence = grant->fence;
    out->deadline_unix_ms = grant->deadline_wall_ms;
}
