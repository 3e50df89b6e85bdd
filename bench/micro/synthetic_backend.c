#include "bench/micro/synthetic_backend.h"

#include <string.h>

#include "pool/base/assert.h"

/* As long as the paths of the local backend. */
#define ENDPOINT_HEAD "unix:/run/warmpool/sandboxes/"
#define ENDPOINT_TAIL "/s"

static size_t
append(char *out, size_t at, struct wp_str text)
{
    WP_ASSERT(at + text.len <= WP_ENDPOINT_MAX);
    memcpy(out + at, text.ptr, text.len);
    return at + text.len;
}

static enum wp_status
create(void *self, const struct wp_sandbox_order *order, struct wp_err *err)
{
    struct wp_synthetic_backend *backend = self;
    char endpoint[WP_ENDPOINT_MAX + 1];
    size_t len = append(endpoint, 0, WP_STR(ENDPOINT_HEAD));

    (void)err;
    len = append(endpoint, len, order->name);
    len = append(endpoint, len, WP_STR(ENDPOINT_TAIL));
    atomic_fetch_add_explicit(&backend->created, 1, memory_order_relaxed);
    wp_pools_on_ready(backend->pools, order->ref,
                      (struct wp_str){endpoint, len});
    return WP_OK;
}

static enum wp_status
destroy(void *self, struct wp_slot_ref ref)
{
    struct wp_synthetic_backend *backend = self;

    atomic_fetch_add_explicit(&backend->destroyed, 1, memory_order_relaxed);
    wp_pools_on_destroyed(backend->pools, ref);
    return WP_OK;
}

struct wp_backend
wp_synthetic_backend(struct wp_synthetic_backend *backend)
{
    static const struct wp_backend_ops ops = {
        .name = "synthetic",
        .create = create,
        .destroy = destroy,
    };

    return (struct wp_backend){.ops = &ops, .self = backend};
}
